//! Pools by command: made, removed, renamed, and what they are used for. Their settings are in `osd_pool_set`.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use crate::osd::PoolSpec;
use maps::PgPool;
use serde_json::{Value, json};
use types::{PoolId, UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd pool create name=pool,type=CephPoolname name=pg_num,type=CephInt,range=0,req=false \
         name=pgp_num,type=CephInt,range=0,req=false name=pool_type,type=CephChoices,strings=replicated|erasure,req=false \
         name=erasure_code_profile,type=CephString,req=false,goodchars=[A-Za-z0-9-_.] name=rule,type=CephString,req=false \
         name=expected_num_objects,type=CephInt,range=0,req=false name=size,type=CephInt,range=0,req=false \
         name=pg_num_min,type=CephInt,range=0,req=false name=pg_num_max,type=CephInt,range=0,req=false \
         name=autoscale_mode,type=CephChoices,strings=on|off|warn,req=false name=bulk,type=CephBool,req=false \
         name=target_size_bytes,type=CephInt,range=0,req=false name=target_size_ratio,type=CephFloat,range=0|1,req=false \
         name=yes_i_really_mean_it,type=CephBool,req=false name=crimson,type=CephBool,req=false",
        "makes a pool",
        "osd",
        "rw",
        create,
    ),
    cmd(
        "osd pool rm name=pool,type=CephPoolname name=pool2,type=CephPoolname,req=false \
         name=yes_i_really_really_mean_it,type=CephBool,req=false name=yes_i_really_really_mean_it_not_faking,type=CephBool,req=false",
        "removes a pool with all that is in it",
        "osd",
        "rw",
        rm,
    ),
    cmd_flags(
        "osd pool delete name=pool,type=CephPoolname name=pool2,type=CephPoolname,req=false \
         name=yes_i_really_really_mean_it,type=CephBool,req=false name=yes_i_really_really_mean_it_not_faking,type=CephBool,req=false",
        "the former name of osd pool rm",
        "osd",
        "rw",
        flag::DEPRECATED,
        rm,
    ),
    cmd(
        "osd pool rename name=srcpool,type=CephPoolname name=destpool,type=CephPoolname name=yes_i_really_mean_it,type=CephBool,req=false",
        "renames a pool",
        "osd",
        "rw",
        rename,
    ),
    cmd("osd pool mksnap name=pool,type=CephPoolname name=snap,type=CephString", "makes a snapshot of a pool", "osd", "rw", mksnap),
    cmd("osd pool rmsnap name=pool,type=CephPoolname name=snap,type=CephString", "removes a snapshot of a pool", "osd", "rw", rmsnap),
    cmd(
        "osd pool force-remove-snap name=pool,type=CephPoolname name=lower_snapid_bound,type=CephInt,range=0,req=false \
         name=upper_snapid_bound,type=CephInt,range=0,req=false name=dry_run,type=CephBool,req=false",
        "removes snapshots by their numbers, from the lower bound to below the upper one: OSDs trim them again",
        "osd",
        "rw",
        force_remove_snap,
    ),
    cmd(
        "osd pool application enable name=pool,type=CephPoolname name=app,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "says what a pool is used for",
        "osd",
        "rw",
        app_enable,
    ),
    cmd(
        "osd pool application disable name=pool,type=CephPoolname name=app,type=CephString \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "takes back what a pool is used for",
        "osd",
        "rw",
        app_disable,
    ),
    cmd(
        "osd pool application set name=pool,type=CephPoolname name=app,type=CephString \
         name=key,type=CephString,goodchars=[A-Za-z0-9-_.] name=value,type=CephString,goodchars=[A-Za-z0-9-_.=]",
        "sets a key of a pool's application",
        "osd",
        "rw",
        app_set,
    ),
    cmd(
        "osd pool application rm name=pool,type=CephPoolname name=app,type=CephString name=key,type=CephString",
        "removes a key of a pool's application",
        "osd",
        "rw",
        app_rm,
    ),
    cmd(
        "osd pool application get name=pool,type=CephPoolname,req=false name=app,type=CephString,req=false \
         name=key,type=CephString,req=false",
        "what pools are used for",
        "osd",
        "r",
        app_get,
    ),
];

/// Limits of 18.2.
const APPS_MAX: usize = 4;
const APP_NAME_MAX: usize = 128;
const APP_KEYS_MAX: usize = 64;

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}
/// The pool that a parameter names.
pub fn pool_id(ctx: &Ctx<'_>, param: &str) -> Result<PoolId, CmdError> {
    let name = ctx.args.need(param)?;
    ctx.mon.osd.need_pool(&name)
}
/// The pool as the change being made leaves it, to look at.
fn pool<'a>(ctx: &'a Ctx<'_>, id: PoolId) -> &'a PgPool {
    let pending = ctx.mon.osd.peek_pending().and_then(|inc| inc.new_pools.get(&id));
    pending.unwrap_or_else(|| &ctx.mon.osd.map.pools[&id])
}

fn create(ctx: &mut Ctx<'_>) -> CmdResult {
    let args = &ctx.args;
    let name = args.need("pool")?;
    if name.starts_with('.') && !args.flag("yes_i_really_mean_it") {
        return err(
            errno::EPERM,
            "pool names beginning with . are reserved for system pools.  If you are absolutely certain, pass --yes-i-really-mean-it",
        );
    }
    let erasure = args.text("pool_type").as_deref() == Some("erasure");
    if let Some(id) = ctx.mon.osd.pool_id(&name) {
        if pool(ctx, id).is_erasure() != erasure {
            let shown = if erasure { "erasure" } else { "replicated" };
            return err(errno::EINVAL, format!("pool '{name}' cannot change to type {shown}"));
        }
        return Ok(Reply::status(format!("pool '{name}' already exists")));
    }
    if erasure {
        let text = "pools with erasure codes are not supported: the OSDs of this cluster keep copies";
        return err(errno::EOPNOTSUPP, format!("{text}; make a replicated pool: ceph osd pool create {name}"));
    }
    // `osd pool create NAME 8 8 RULE`: the third word may be a rule.
    let rule = match args.text("rule").or_else(|| args.text("erasure_code_profile")).filter(|r| !r.is_empty()) {
        None => None,
        Some(text) => match ctx.mon.osd.map.crush.rule_id(&text) {
            Some(rule) => Some(rule),
            None => return err(errno::ENOENT, format!("specified rule {text} doesn't exist")),
        },
    };
    let number = |name: &str| -> Result<Option<u32>, CmdError> {
        args.int(name)?
            .map(|n| u32::try_from(n).map_err(|_| CmdError::new(errno::ERANGE, format!("{name} {n} is out of range"))))
            .transpose()
    };
    let size = match args.int("size")? {
        Some(n @ 1..=10) => Some(n as u8),
        Some(0) | None => None,
        Some(_) => return err(errno::EINVAL, "pool size must be between 1 and 10"),
    };
    let spec = PoolSpec {
        name: name.clone(),
        pg_num: number("pg_num")?,
        pgp_num: number("pgp_num")?,
        crush_rule: rule,
        size,
        expected_num_objects: args.int("expected_num_objects")?.unwrap_or(0).max(0) as u64,
        autoscale_mode: args.text("autoscale_mode").map(|m| match m.as_str() {
            "on" => PgPool::AUTOSCALE_ON,
            "warn" => PgPool::AUTOSCALE_WARN,
            _ => PgPool::AUTOSCALE_OFF,
        }),
        bulk: args.flag("bulk"),
        pg_num_min: args.int("pg_num_min")?,
        pg_num_max: args.int("pg_num_max")?,
        target_size_bytes: args.int("target_size_bytes")?,
        target_size_ratio: args.float("target_size_ratio")?,
        ..PoolSpec::default()
    };
    let now = UTime::from_wall_ns(ctx.clock.wall_ns);
    let mon = &mut *ctx.mon;
    mon.osd.create_pool(&spec, &mon.config, now)?;
    Ok(Reply::status(format!("pool '{name}' created")))
}

fn rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let name = ctx.args.need("pool")?;
    let again = ctx.args.text("pool2").unwrap_or_default();
    let sure = ctx.args.flag("yes_i_really_really_mean_it") || ctx.args.flag("yes_i_really_really_mean_it_not_faking");
    let Some(id) = ctx.mon.osd.pool_id(&name) else { return Ok(Reply::status(format!("pool '{name}' does not exist"))) };
    if !ctx.args.flag("yes_i_really_really_mean_it_not_faking") && (again != name || !sure) {
        return err(
            errno::EPERM,
            format!(
                "WARNING: this will *PERMANENTLY DESTROY* all data stored in pool {name}.  If you are *ABSOLUTELY CERTAIN* that is what you \
                 want, pass the pool name *twice*, followed by --yes-i-really-really-mean-it."
            ),
        );
    }
    ctx.mon.check_pool_is_free(id)?;
    let mon = &mut *ctx.mon;
    mon.osd.remove_pool(id, &mon.config)?;
    Ok(Reply::status(format!("pool '{name}' removed")))
}

fn rename(ctx: &mut Ctx<'_>) -> CmdResult {
    let (from, to) = (ctx.args.need("srcpool")?, ctx.args.need("destpool")?);
    let (source, target) = (ctx.mon.osd.pool_id(&from), ctx.mon.osd.pool_id(&to));
    match (source, target) {
        (None, Some(_)) => Ok(Reply::status(format!("pool '{from}' does not exist; pool '{to}' does -- assuming successful rename"))),
        (None, None) => err(errno::ENOENT, format!("unrecognized pool '{from}'")),
        (Some(_), Some(_)) => err(errno::EEXIST, format!("pool '{to}' already exists")),
        (Some(id), None) => {
            ctx.mon.osd.pending().new_pool_names.insert(id, to.clone());
            Ok(Reply::status(format!("pool '{from}' renamed to '{to}'")))
        }
    }
}

fn mksnap(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, snap) = (ctx.args.need("pool")?, ctx.args.need("snap")?);
    let id = pool_id(ctx, "pool")?;
    let p = pool(ctx, id);
    if p.is_unmanaged_snaps_mode() {
        return err(errno::EINVAL, format!("pool {name} is in unmanaged snaps mode"));
    }
    if p.snap_by_name(&snap).is_some() {
        return Ok(Reply::status(format!("pool {name} snap {snap} already exists")));
    }
    if p.is_tier() {
        return err(errno::EINVAL, format!("pool {name} is a cache tier"));
    }
    if ctx.mon.fs.view().uses_pool(id) {
        return err(errno::EOPNOTSUPP, format!("pool {name} belongs to a file system, which makes its own snapshots"));
    }
    let (now, epoch) = (UTime::from_wall_ns(ctx.clock.wall_ns), ctx.mon.osd.epoch() + 1);
    let p = ctx.mon.osd.pool_mut(id).expect("we looked");
    p.add_snap(&snap, now);
    p.snap_epoch = epoch;
    Ok(Reply::status(format!("created pool {name} snap {snap}")))
}
fn rmsnap(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, snap) = (ctx.args.need("pool")?, ctx.args.need("snap")?);
    let id = pool_id(ctx, "pool")?;
    let p = pool(ctx, id);
    if p.is_unmanaged_snaps_mode() {
        return err(errno::EINVAL, format!("pool {name} is in unmanaged snaps mode"));
    }
    match p.snap_by_name(&snap) {
        None => Ok(Reply::status(format!("pool {name} snap {snap} does not exist"))),
        Some(number) => {
            ctx.mon.osd.remove_pool_snap(id, number);
            Ok(Reply::status(format!("removed pool {name} snap {snap}")))
        }
    }
}

/// For snapshots that their client has forgotten: whatever of the range is not purged is removed.
fn force_remove_snap(ctx: &mut Ctx<'_>) -> CmdResult {
    let id = pool_id(ctx, "pool")?;
    let (name, p) = (ctx.args.need("pool")?, pool(ctx, id));
    if !p.is_unmanaged_snaps_mode() && !p.is_pool_snaps_mode() {
        return err(errno::EINVAL, format!("pool {name} invalid snaps mode"));
    }
    let number = |key: &str| ctx.args.int(key).map(|n| n.and_then(|n| u64::try_from(n).ok()));
    let (lower, upper) = (number("lower_snapid_bound")?.unwrap_or(1), number("upper_snapid_bound")?.unwrap_or(p.snap_seq));
    if lower > upper {
        return err(errno::ENOENT, "error, lower bound can't be higher than higher bound");
    }
    let (end, dry_run) = (upper.min(p.snap_seq), ctx.args.flag("dry_run"));
    // No snapshot has the number 0.
    let snaps = ctx.mon.osd.unpurged_snaps(id, lower.max(1), end);
    let ranges: Vec<String> =
        snaps.iter().map(|(first, n)| if n == 1 { first.to_string() } else { format!("{first}-{}", first + n - 1) }).collect();
    let done = if ranges.is_empty() { "no snapshots were removed".into() } else { format!("removed snapids: {{{}}}", ranges.join(",")) };
    if !dry_run && !snaps.is_empty() {
        ctx.mon.osd.force_remove_snaps(id, &snaps);
    }
    let dry = if dry_run { "Dry run: " } else { "" };
    Ok(Reply::status(format!("{dry}force removing snap ids in the range of [{lower},{end}) from pool {id}. {done}")))
}

fn app_enable(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, app) = (ctx.args.need("pool")?, ctx.args.need("app")?);
    let id = pool_id(ctx, "pool")?;
    let sure = ctx.args.flag("yes_i_really_mean_it");
    let apps = &pool(ctx, id).application_metadata;
    if app.is_empty() {
        return err(errno::EINVAL, "application name must be provided");
    }
    if apps.contains_key(&app) {
        return Ok(Reply::status(format!("application '{app}' already enabled on pool '{name}'")));
    }
    if !apps.is_empty() && !sure {
        return err(
            errno::EPERM,
            format!("Are you SURE? Pool '{name}' already has an enabled application; pass --yes-i-really-mean-it to proceed anyway"),
        );
    }
    if apps.len() >= APPS_MAX {
        return err(errno::EINVAL, format!("too many enabled applications on pool '{name}'; max {APPS_MAX}"));
    }
    if app.len() > APP_NAME_MAX {
        return err(errno::EINVAL, format!("application name '{app}' too long; max length {APP_NAME_MAX}"));
    }
    ctx.mon.osd.pool_mut(id).expect("we looked").application_metadata.insert(app.clone(), Default::default());
    Ok(Reply::status(format!("enabled application '{app}' on pool '{name}'")))
}
fn app_disable(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, app) = (ctx.args.need("pool")?, ctx.args.need("app")?);
    let id = pool_id(ctx, "pool")?;
    if !ctx.args.flag("yes_i_really_mean_it") {
        let text = format!(
            "Are you SURE? Disabling an application within a pool might result in loss of application functionality; pass --yes-i-really-mean-it to proceed anyway ('{app}')"
        );
        return err(errno::EPERM, text);
    }
    if !pool(ctx, id).application_metadata.contains_key(&app) {
        return Ok(Reply::status(format!("application '{app}' is not enabled on pool '{name}'")));
    }
    ctx.mon.osd.pool_mut(id).expect("we looked").application_metadata.remove(&app);
    Ok(Reply::status(format!("disable application '{app}' on pool '{name}'")))
}
/// Refuses an application that the pool doesn't have.
fn need_app(ctx: &Ctx<'_>, id: PoolId, name: &str, app: &str) -> Result<(), CmdError> {
    if pool(ctx, id).application_metadata.contains_key(app) {
        return Ok(());
    }
    err(errno::ENOENT, format!("application '{app}' is not enabled on pool '{name}'"))
}
fn app_set(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, app, key, value) = (ctx.args.need("pool")?, ctx.args.need("app")?, ctx.args.need("key")?, ctx.args.need("value")?);
    let id = pool_id(ctx, "pool")?;
    need_app(ctx, id, &name, &app)?;
    let keys = &pool(ctx, id).application_metadata[&app];
    if keys.len() >= APP_KEYS_MAX && !keys.contains_key(&key) {
        return err(errno::EINVAL, format!("too many keys set for application '{app}' on pool '{name}'; max {APP_KEYS_MAX}"));
    }
    if key.is_empty() || key.len() > APP_NAME_MAX || value.len() > APP_NAME_MAX {
        return err(errno::EINVAL, format!("key and value must have between 1 and {APP_NAME_MAX} characters"));
    }
    let p = ctx.mon.osd.pool_mut(id).expect("we looked");
    p.application_metadata.entry(app.clone()).or_default().insert(key.clone(), value.clone());
    Ok(Reply::status(format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'")))
}
fn app_rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, app, key) = (ctx.args.need("pool")?, ctx.args.need("app")?, ctx.args.need("key")?);
    let id = pool_id(ctx, "pool")?;
    need_app(ctx, id, &name, &app)?;
    if !pool(ctx, id).application_metadata[&app].contains_key(&key) {
        return Ok(Reply::status(format!("application '{app}' on pool '{name}' does not have key '{key}'")));
    }
    let p = ctx.mon.osd.pool_mut(id).expect("we looked");
    p.application_metadata.entry(app.clone()).or_default().remove(&key);
    Ok(Reply::status(format!("removed application '{app}' key '{key}' on pool '{name}'")))
}
fn app_get(ctx: &mut Ctx<'_>) -> CmdResult {
    if !ctx.args.has("pool") {
        let map = &ctx.mon.osd.map;
        let all: serde_json::Map<String, Value> =
            map.pools.iter().filter_map(|(id, p)| Some((map.pool_name(*id)?.to_string(), json!(p.application_metadata)))).collect();
        return ctx.answer_json(Value::Object(all));
    }
    let name = ctx.args.need("pool")?;
    let id = pool_id(ctx, "pool")?;
    let apps = pool(ctx, id).application_metadata.clone();
    let Some(app) = ctx.args.text("app") else { return ctx.answer_json(json!(apps)) };
    let Some(keys) = apps.get(&app) else { return err(errno::ENOENT, format!("pool '{name}' has no application '{app}'")) };
    match ctx.args.text("key") {
        None => ctx.answer_json(json!(keys)),
        Some(key) => match keys.get(&key) {
            Some(value) => ctx.answer(json!({key: value}), || format!("{value}\n")),
            None => err(errno::ENOENT, format!("application '{app}' on pool '{name}' does not have key '{key}'")),
        },
    }
}
