//! OSDs as members of the cluster: made, marked, taken out and removed; what is known of them.

use super::{Args, CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag, mgr_cmd, parse_osd};
use crate::OSD_CAPS;
use cephx::{CryptoKey, EntityAuth};
use maps::osd_state;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{EntityKind, EntityText, OsdId, Uuid, errno};

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd new name=uuid,type=CephUUID,req=true name=id,type=CephOsdName,req=false",
        "makes an OSD, or gives a destroyed one's number to a new disk; secrets come as JSON with -i",
        "osd",
        "rw",
        new,
    ),
    cmd_flags(
        "osd create name=uuid,type=CephUUID,req=false name=id,type=CephOsdName,req=false",
        "makes an OSD without a key",
        "osd",
        "rw",
        flag::DEPRECATED,
        create,
    ),
    cmd("osd metadata name=id,type=CephOsdName,req=false", "what an OSD said of itself, or all", "osd", "r", metadata),
    cmd("osd count-metadata name=property,type=CephString", "OSDs by a property of their metadata", "osd", "r", count_metadata),
    cmd("osd down name=ids,type=CephString,n=N name=definitely_dead,type=CephBool,req=false", "marks OSDs down", "osd", "rw", down),
    cmd("osd stop name=ids,type=CephString,n=N", "marks OSDs down and makes them stop", "osd", "rw", stop),
    cmd("osd out name=ids,type=CephString,n=N", "takes OSDs out: their data moves to others", "osd", "rw", out),
    cmd("osd in name=ids,type=CephString,n=N", "takes OSDs in again", "osd", "rw", set_in),
    cmd_flags("osd rm name=ids,type=CephString,n=N", "removes OSDs that are down", "osd", "rw", flag::DEPRECATED, rm),
    cmd(
        "osd reweight name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        "gives an OSD less than its share",
        "osd",
        "rw",
        reweight,
    ),
    cmd(
        "osd reweightn name=weights,type=CephString",
        "gives OSDs less than their share: {\"ID\": \"WEIGHT of 65536\", ...}",
        "osd",
        "rw",
        reweight_many,
    ),
    cmd(
        "osd primary-affinity name=id,type=CephOsdName name=weight,type=CephFloat,range=0.0|1.0",
        "makes an OSD less often a primary",
        "osd",
        "rw",
        primary_affinity,
    ),
    cmd(
        "osd lost name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        "declares an OSD's data lost",
        "osd",
        "rw",
        lost,
    ),
    mgr_cmd(
        "osd destroy name=id,type=CephOsdName name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        "removes an OSD's key and keeps its number for another disk",
        "osd",
        "rw",
        destroy,
    ),
    mgr_cmd(
        "osd purge name=id,type=CephOsdName name=force,type=CephBool,req=false name=yes_i_really_mean_it,type=CephBool,req=false",
        "removes all that is known of an OSD",
        "osd",
        "rw",
        purge,
    ),
    cmd(
        "osd purge-new name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        "removes all that is known of an OSD that never booted",
        "osd",
        "rw",
        purge_new,
    ),
    cmd_flags(
        "osd destroy-actual name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        "what a manager does for osd destroy",
        "osd",
        "rw",
        flag::HIDDEN,
        destroy,
    ),
    cmd_flags(
        "osd purge-actual name=id,type=CephOsdName name=yes_i_really_mean_it,type=CephBool,req=false",
        "what a manager does for osd purge",
        "osd",
        "rw",
        flag::HIDDEN,
        purge,
    ),
    cmd("osd getmaxosd", "how many numbers the map has room for", "osd", "r", getmaxosd),
    cmd("osd setmaxosd name=newmax,type=CephInt,range=0", "changes how many numbers the map has room for", "osd", "rw", setmaxosd),
];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}
fn missing<T>(id: OsdId) -> Result<T, CmdError> {
    err(errno::ENOENT, format!("osd.{id} does not exist"))
}
fn confirmed(args: &Args, what: &str) -> Result<(), CmdError> {
    if args.flag("yes_i_really_mean_it") || args.flag("force") {
        return Ok(());
    }
    err(
        errno::EPERM,
        format!(
            "Are you SURE?  Did you verify with 'ceph osd safe-to-destroy' that {what}?  Pass --yes-i-really-mean-it if you really do."
        ),
    )
}

/// The OSDs that a command's `ids` name; `all`, `any` and `*` are those that exist.
fn ids(ctx: &Ctx<'_>) -> Result<Vec<OsdId>, CmdError> {
    let mut out = Vec::new();
    for word in ctx.args.list("ids") {
        if matches!(word.as_str(), "all" | "any" | "*") {
            return Ok(ctx.mon.osd.map.osds().collect());
        }
        out.push(parse_osd(&word)?);
    }
    Ok(out)
}

/// How many numbers the map may have room for.
fn max_osd(ctx: &Ctx<'_>) -> OsdId {
    (ctx.mon.config.mon_number("mon_max_osd") as OsdId).clamp(0, maps::MAX_OSD_LIMIT)
}
/// Refuses a number for which the map may have no room: it has a row for each number up to the highest.
fn check_room(ctx: &Ctx<'_>, id: OsdId) -> Result<(), CmdError> {
    let max = max_osd(ctx);
    if id < max || id < ctx.mon.osd.map.max_osd {
        return Ok(());
    }
    err(errno::EINVAL, format!("osd.{id} is beyond mon_max_osd, which is {max}: numbers of OSDs are 0 to {}", i64::from(max) - 1))
}

/// The lowest free number.
fn free_id(ctx: &Ctx<'_>) -> OsdId {
    let map = &ctx.mon.osd.map;
    (0..map.max_osd).find(|o| !map.exists(*o)).unwrap_or(map.max_osd)
}

/// Adds an OSD to the map: it exists, is new, down and out.
fn add(ctx: &mut Ctx<'_>, id: OsdId, uuid: Uuid) {
    let map = &ctx.mon.osd.map;
    let (max, destroyed) = (map.max_osd, map.is_destroyed(id));
    let exists = map.exists(id);
    let was_new = map.state(id) & osd_state::NEW != 0;
    let inc = ctx.mon.osd.pending();
    if id >= max {
        inc.new_max_osd = id + 1;
    }
    if destroyed {
        *inc.new_state.entry(id).or_default() |= osd_state::DESTROYED;
    }
    if !exists {
        *inc.new_state.entry(id).or_default() |= osd_state::EXISTS | osd_state::NEW;
    } else if destroyed && !was_new {
        // A change of states turns bits over.
        *inc.new_state.entry(id).or_default() |= osd_state::NEW;
    }
    inc.new_uuid.insert(id, uuid);
    if !exists {
        inc.new_weight.insert(id, 0);
    }
}

fn new(ctx: &mut Ctx<'_>) -> CmdResult {
    let Some(uuid) = ctx.args.uuid("uuid")? else { return err(errno::EINVAL, "requires the OSD's UUID to be specified.") };
    let wanted = ctx.args.osd("id")?;
    let secrets: Value = match &ctx.input[..] {
        b"" => json!({}),
        bytes => serde_json::from_slice(bytes).map_err(|e| CmdError::new(errno::EINVAL, format!("unable to parse json: {e}")))?,
    };
    let map = &ctx.mon.osd.map;
    let id = match (map.osd_by_uuid(&uuid), wanted) {
        (Some(known), Some(id)) if known != id => return err(errno::EEXIST, format!("uuid {uuid} already in use for osd.{known}")),
        (Some(known), _) if !map.is_destroyed(known) => known,
        (_, Some(id)) if map.exists(id) && !map.is_destroyed(id) => {
            return err(errno::EEXIST, format!("OSD {id} has not yet been destroyed"));
        }
        (Some(known), _) => known,
        (None, Some(id)) => id,
        (None, None) => free_id(ctx),
    };
    check_room(ctx, id)?;
    let fresh = ctx.mon.osd.map.osd_by_uuid(&uuid) != Some(id) || ctx.mon.osd.map.is_destroyed(id);
    give_secrets(ctx, id, uuid, Secrets::parse(&secrets)?, fresh)?;
    if fresh {
        add(ctx, id, uuid);
    }
    if let Some(class) = secrets["crush_device_class"].as_str() {
        let class = class.to_string();
        let edit = ctx.mon.osd.edit_crush(|crush| {
            crush.names.entry(id).or_insert_with(|| format!("osd.{id}"));
            crush.set_device_class(id, &class)
        });
        edit.map_err(|e| CmdError::new(errno::EINVAL, e.to_string()))?;
    }
    ctx.answer(json!({"osdid": id}), || format!("{id}\n"))
}

/// What comes with `osd new`: keys of the OSD and of the client that unlocks its disk, and what unlocks it.
#[derive(Default)]
struct Secrets {
    cephx: Option<CryptoKey>,
    lockbox: Option<CryptoKey>,
    dmcrypt: Option<String>,
}

impl Secrets {
    fn parse(given: &Value) -> Result<Self, CmdError> {
        let text = |name: &str| given[name].as_str().filter(|t| !t.is_empty());
        let key = |name: &str| {
            let parsed = text(name).map(|t| CryptoKey::from_base64(t.trim())).transpose();
            parsed.map_err(|e| CmdError::new(errno::EINVAL, format!("invalid {name}: {e}")))
        };
        let secrets =
            Self { cephx: key("cephx_secret")?, lockbox: key("cephx_lockbox_secret")?, dmcrypt: text("dmcrypt_key").map(String::from) };
        if secrets.lockbox.is_some() != secrets.dmcrypt.is_some() {
            return err(errno::EINVAL, "a lockbox needs both cephx_lockbox_secret and dmcrypt_key");
        }
        if secrets.cephx.is_none() && secrets.lockbox.is_some() {
            return err(errno::EINVAL, "requires a cephx secret.");
        }
        Ok(secrets)
    }
}

fn osd_entity(id: OsdId) -> EntityText {
    EntityText::new(EntityKind::OSD, id.to_string())
}
fn lockbox_entity(uuid: Uuid) -> EntityText {
    EntityText::new(EntityKind::CLIENT, format!("osd-lockbox.{uuid}"))
}
/// Where an OSD's disk keys are kept among the config-keys.
fn dmcrypt_prefix(uuid: Uuid) -> String {
    format!("dm-crypt/osd/{uuid}/")
}

/// Sees to it that an OSD has the secrets that came with the command. One that is there already must have had them.
fn give_secrets(ctx: &mut Ctx<'_>, id: OsdId, uuid: Uuid, secrets: Secrets, fresh: bool) -> Result<(), CmdError> {
    let luks = dmcrypt_prefix(uuid) + "luks";
    let mut wanted = Vec::new();
    if let Some(key) = secrets.cephx {
        let caps = OSD_CAPS.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        wanted.push((osd_entity(id), EntityAuth { key, caps, pending_key: CryptoKey::default() }));
    }
    if let Some(key) = secrets.lockbox {
        let caps = [("mon".to_string(), format!("allow command \"config-key get\" with key=\"{luks}\""))].into();
        wanted.push((lockbox_entity(uuid), EntityAuth { key, caps, pending_key: CryptoKey::default() }));
    }
    for (name, auth) in &wanted {
        let same = ctx.mon.auth.entities.get(name).is_some_and(|known| known.key == auth.key);
        if !fresh && !same {
            return err(errno::EEXIST, format!("osd.{id} exists but secrets do not match"));
        }
    }
    let mon = &mut *ctx.mon;
    for (name, auth) in wanted {
        mon.auth.put(name, auth, &mut mon.batch);
    }
    if let Some(key) = secrets.dmcrypt {
        mon.keys.set(&luks, Some(key.into_bytes().into()), &mut mon.batch);
    }
    Ok(())
}

fn create(ctx: &mut Ctx<'_>) -> CmdResult {
    let uuid = ctx.args.uuid("uuid")?.unwrap_or_default();
    let wanted = ctx.args.osd("id")?;
    let map = &ctx.mon.osd.map;
    let known = if uuid.is_zero() { None } else { map.osd_by_uuid(&uuid) };
    let id = match (known, wanted) {
        (Some(known), Some(id)) if known != id => return err(errno::EEXIST, format!("uuid {uuid} already in use for osd.{known}")),
        (Some(known), _) => return ctx.answer(json!({"osdid": known}), || format!("{known}\n")),
        (None, Some(id)) if map.exists(id) => return err(errno::EINVAL, format!("id {id} already in use and does not match uuid {uuid}")),
        (None, Some(id)) => id,
        (None, None) => free_id(ctx),
    };
    check_room(ctx, id)?;
    add(ctx, id, uuid);
    ctx.answer(json!({"osdid": id}), || format!("{id}\n"))
}

pub fn metadata_of(ctx: &Ctx<'_>, id: OsdId) -> Value {
    let mut v = json!({"id": id});
    for (key, value) in ctx.mon.osd.metadata.get(&id).into_iter().flatten() {
        v[key] = json!(value);
    }
    v
}
fn metadata(ctx: &mut Ctx<'_>) -> CmdResult {
    if let Some(id) = ctx.args.osd("id")? {
        if !ctx.mon.osd.map.exists(id) {
            return missing(id);
        }
        let json = metadata_of(ctx, id);
        return ctx.answer_json(json);
    }
    let all: Vec<Value> = ctx.mon.osd.map.osds().map(|id| metadata_of(ctx, id)).collect();
    ctx.answer_json(json!(all))
}
fn count_metadata(ctx: &mut Ctx<'_>) -> CmdResult {
    let property = ctx.args.need("property")?;
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for id in ctx.mon.osd.map.osds() {
        let value = ctx.mon.osd.metadata.get(&id).and_then(|m| m.get(&property)).cloned();
        *counts.entry(value.unwrap_or_else(|| "unknown".into())).or_default() += 1;
    }
    ctx.answer_json(json!(counts))
}

/// Runs `change` on each named OSD that exists and collects what is to be said.
fn each(ctx: &mut Ctx<'_>, mut change: impl FnMut(&mut Ctx<'_>, OsdId) -> String) -> CmdResult {
    let mut said = Vec::new();
    for id in ids(ctx)? {
        if ctx.mon.osd.map.exists(id) {
            said.push(change(ctx, id));
        } else {
            said.push(format!("osd.{id} does not exist."));
        }
    }
    Ok(Reply::status(said.into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join(" ")))
}

fn down(ctx: &mut Ctx<'_>) -> CmdResult {
    let dead = ctx.args.flag("definitely_dead");
    each(ctx, |ctx, id| {
        let (map, epoch) = (&ctx.mon.osd.map, ctx.mon.osd.map.epoch);
        if map.is_down(id) && !dead {
            return format!("osd.{id} is already down.");
        }
        let (up, mut xinfo) = (map.is_up(id), map.osd_xinfo[id as usize]);
        let inc = ctx.mon.osd.pending();
        if up {
            inc.new_state.insert(id, osd_state::UP);
        }
        if dead {
            xinfo.dead_epoch = epoch;
            inc.new_xinfo.insert(id, xinfo);
        }
        format!("marked down osd.{id}.")
    })
}
fn stop(ctx: &mut Ctx<'_>) -> CmdResult {
    each(ctx, |ctx, id| {
        if ctx.mon.osd.map.is_down(id) {
            return format!("osd.{id} is already down.");
        }
        ctx.mon.osd.pending().new_state.insert(id, osd_state::UP | osd_state::STOP);
        format!("stop down osd.{id}.")
    })
}
fn out(ctx: &mut Ctx<'_>) -> CmdResult {
    each(ctx, |ctx, id| {
        if ctx.mon.osd.map.is_out(id) {
            return format!("osd.{id} is already out.");
        }
        let (mut xinfo, weight) = (ctx.mon.osd.map.osd_xinfo[id as usize], ctx.mon.osd.map.weight(id));
        let inc = ctx.mon.osd.pending();
        inc.new_weight.insert(id, 0);
        if weight != maps::osd_map::ONE {
            xinfo.old_weight = weight;
            inc.new_xinfo.insert(id, xinfo);
        }
        format!("marked out osd.{id}.")
    })
}
fn set_in(ctx: &mut Ctx<'_>) -> CmdResult {
    each(ctx, |ctx, id| {
        if ctx.mon.osd.map.is_in(id) {
            return format!("osd.{id} is already in.");
        }
        let mut xinfo = ctx.mon.osd.map.osd_xinfo[id as usize];
        let inc = ctx.mon.osd.pending();
        let weight = if xinfo.old_weight > 0 { xinfo.old_weight } else { maps::osd_map::ONE };
        if xinfo.old_weight > 0 {
            xinfo.old_weight = 0;
            inc.new_xinfo.insert(id, xinfo);
        }
        inc.new_weight.insert(id, weight);
        format!("marked in osd.{id}.")
    })
}
/// Takes an OSD out of the map.
fn remove(ctx: &mut Ctx<'_>, id: OsdId) {
    let state = ctx.mon.osd.map.state(id);
    let inc = ctx.mon.osd.pending();
    // Every bit that is set, so that none is left.
    inc.new_state.insert(id, state | osd_state::EXISTS);
    inc.new_weight.remove(&id);
}
fn rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let busy: Vec<_> = ids(ctx)?.into_iter().filter(|id| ctx.mon.osd.map.is_up(*id)).collect();
    if let Some(id) = busy.first() {
        return err(errno::EBUSY, format!("osd.{id} is still up; must be down before removal. "));
    }
    each(ctx, |ctx, id| {
        remove(ctx, id);
        format!("removed osd.{id}")
    })
}

fn reweight(ctx: &mut Ctx<'_>) -> CmdResult {
    let (id, weight) = (ctx.args.need_osd("id")?, fraction(ctx)?);
    if !ctx.mon.osd.map.exists(id) {
        return missing(id);
    }
    let fixed = (weight * f64::from(maps::osd_map::ONE)) as u32;
    ctx.mon.osd.pending().new_weight.insert(id, fixed);
    Ok(Reply::status(format!("reweighted osd.{id} to {weight} ({fixed:x})")))
}
/// Stock takes apostrophes for quotation marks, and weights as texts of fixed-point numbers.
fn reweight_many(ctx: &mut Ctx<'_>) -> CmdResult {
    let text = ctx.args.need("weights")?;
    let bad = || CmdError::new(errno::EINVAL, format!("unable to parse 'weights' value '{text}'"));
    let asked: BTreeMap<String, String> = serde_json::from_str(&text.replace('\'', "\"")).map_err(|_| bad())?;
    let mut weights = BTreeMap::new();
    for (id, weight) in asked {
        let (id, weight): (OsdId, u32) = (id.parse().map_err(|_| bad())?, weight.parse().map_err(|_| bad())?);
        if !ctx.mon.osd.map.exists(id) {
            return missing(id);
        }
        weights.insert(id, weight.min(maps::osd_map::ONE));
    }
    ctx.mon.osd.pending().new_weight.extend(weights);
    Ok(Reply::default())
}
fn primary_affinity(ctx: &mut Ctx<'_>) -> CmdResult {
    let (id, weight) = (ctx.args.need_osd("id")?, fraction(ctx)?);
    if !ctx.mon.osd.map.exists(id) {
        return missing(id);
    }
    let fixed = (weight * f64::from(maps::osd_map::ONE)) as u32;
    ctx.mon.osd.pending().new_primary_affinity.insert(id, fixed);
    Ok(Reply::status(format!("set osd.{id} primary-affinity to {weight} ({fixed:08x})")))
}
fn fraction(ctx: &Ctx<'_>) -> Result<f64, CmdError> {
    match ctx.args.float("weight")? {
        Some(w) if (0.0..=1.0).contains(&w) => Ok(w),
        _ => err(errno::EINVAL, "weight must be in the range [0..1]"),
    }
}

fn lost(ctx: &mut Ctx<'_>) -> CmdResult {
    let id = ctx.args.need_osd("id")?;
    if !ctx.args.flag("yes_i_really_mean_it") {
        return err(
            errno::EPERM,
            "are you SURE?  this might mean real, permanent data loss.  pass --yes-i-really-mean-it if you really do.",
        );
    }
    let map = &ctx.mon.osd.map;
    if !map.exists(id) {
        return missing(id);
    }
    if map.is_up(id) {
        return err(errno::EBUSY, format!("osd.{id} is not down"));
    }
    let at = map.osd_info[id as usize].down_at;
    ctx.mon.osd.pending().new_lost.insert(id, at);
    Ok(Reply::status(format!("marked osd lost in epoch {at}")))
}

/// Removes an OSD's keys, and those of its disk.
fn remove_keys(ctx: &mut Ctx<'_>, id: OsdId) {
    let uuid = ctx.mon.osd.map.osd_uuid.get(id as usize).copied().unwrap_or_default();
    let mon = &mut *ctx.mon;
    mon.auth.remove(&osd_entity(id), &mut mon.batch);
    if !uuid.is_zero() {
        mon.auth.remove(&lockbox_entity(uuid), &mut mon.batch);
        let keys: Vec<String> = mon.keys.below(&dmcrypt_prefix(uuid)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            mon.keys.set(&key, None, &mut mon.batch);
        }
    }
}
fn down_or_busy(ctx: &Ctx<'_>, id: OsdId) -> Result<(), CmdError> {
    if ctx.mon.osd.map.is_up(id) { err(errno::EBUSY, format!("osd.{id} is not `down`.")) } else { Ok(()) }
}
fn destroy(ctx: &mut Ctx<'_>) -> CmdResult {
    let id = ctx.args.need_osd("id")?;
    confirmed(&ctx.args, "its data is elsewhere")?;
    if !ctx.mon.osd.map.exists(id) {
        return missing(id);
    }
    down_or_busy(ctx, id)?;
    if !ctx.mon.osd.map.is_destroyed(id) {
        remove_keys(ctx, id);
        let inc = ctx.mon.osd.pending();
        inc.new_state.insert(id, osd_state::DESTROYED);
        inc.new_uuid.insert(id, Uuid::default());
    }
    Ok(Reply::status(format!("destroyed osd.{id}")))
}
fn purge(ctx: &mut Ctx<'_>) -> CmdResult {
    let id = ctx.args.need_osd("id")?;
    confirmed(&ctx.args, "its data is elsewhere")?;
    if !ctx.mon.osd.map.exists(id) {
        return Ok(Reply::status(format!("osd.{id} does not exist")));
    }
    down_or_busy(ctx, id)?;
    remove_keys(ctx, id);
    let has_place = ctx.mon.osd.map.crush.item_exists(id);
    if has_place {
        let edit = ctx.mon.osd.edit_crush(|crush| crush.remove_item(id, false).map(|()| true));
        edit.map_err(|e| CmdError::new(errno::EINVAL, e.to_string()))?;
    }
    remove(ctx, id);
    Ok(Reply::status(format!("purged osd.{id}")))
}
fn purge_new(ctx: &mut Ctx<'_>) -> CmdResult {
    let id = ctx.args.need_osd("id")?;
    if ctx.mon.osd.map.exists(id) && ctx.mon.osd.map.state(id) & osd_state::NEW == 0 {
        return err(errno::EPERM, format!("osd.{id} is not new"));
    }
    purge(ctx)
}

fn getmaxosd(ctx: &mut Ctx<'_>) -> CmdResult {
    let (epoch, max) = (ctx.mon.osd.map.epoch, ctx.mon.osd.map.max_osd);
    ctx.answer(json!({"epoch": epoch, "max_osd": max}), || format!("max_osd = {max} in epoch {epoch}\n"))
}
fn setmaxosd(ctx: &mut Ctx<'_>) -> CmdResult {
    let max = ctx.args.need_int("newmax")?;
    let most = max_osd(ctx);
    let map = &ctx.mon.osd.map;
    if max > i64::from(most) {
        return err(errno::ERANGE, format!("cannot set max_osd to {max}, which is > conf.mon_max_osd ({most})"));
    }
    if max < 0 {
        return err(errno::EINVAL, format!("max_osd can't be {max}"));
    }
    if let Some(id) = map.osds().find(|o| i64::from(*o) >= max) {
        return err(errno::EBUSY, format!("cannot shrink max_osd to {max} because osd.{id} (and possibly others) still in use"));
    }
    ctx.mon.osd.pending().new_max_osd = max as i32;
    Ok(Reply::status(format!("set new max_osd = {max}")))
}
