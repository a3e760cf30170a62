//! The OSDMap, shown: `osd dump|ls|stat|info|find|map|getmap|last-stat-seq`.

use super::mon_map::addrs_json;
use super::osd_tree::map_of_request;
use super::table::osds_text;
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, mgr_cmd, pool_json, status::span_text};
use maps::{OsdMap, Release, map_flags, osd_state};
use serde_json::{Map, Value, json};
use types::interval_set::IntervalSet;
use types::{EntityAddrVec, ObjectLocator, OsdId, PoolId, UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd("osd dump name=epoch,type=CephInt,range=0,req=false", "the OSDMap", "osd", "r", dump),
    cmd("osd ls name=epoch,type=CephInt,range=0,req=false", "numbers of all OSDs", "osd", "r", ls),
    cmd("osd stat", "OSDs in a line", "osd", "r", stat),
    cmd("osd info name=id,type=CephOsdName,req=false", "what the map says of OSDs, or of one", "osd", "r", info),
    cmd("osd find name=id,type=CephOsdName", "where an OSD is", "osd", "r", find),
    cmd(
        "osd map name=pool,type=CephPoolname name=object,type=CephObjectname name=nspace,type=CephString,req=false",
        "the placement group and the OSDs of an object",
        "osd",
        "r",
        map_object,
    ),
    cmd("osd getmap name=epoch,type=CephInt,range=0,req=false", "the OSDMap, encoded", "osd", "r", getmap),
    mgr_cmd("pg getmap", "the OSDMap, encoded, as osd getmap gives it", "pg", "r", getmap),
    cmd("osd last-stat-seq name=id,type=CephOsdName", "the number of the last report of an OSD", "osd", "r", last_stat_seq),
];

/// The oldest release whose clients understand what the map uses.
pub fn min_compat_client(map: &OsdMap) -> Release {
    let t = &map.crush.tunables;
    if !map.pg_upmap_primaries.is_empty() {
        Release::REEF
    } else if !map.pg_upmap.is_empty() || !map.pg_upmap_items.is_empty() || !map.crush.choose_args.is_empty() {
        Release::LUMINOUS
    } else if t.chooseleaf_stable != 0 || !map.osd_primary_affinity.is_empty() {
        Release::JEWEL
    } else {
        let name = if map.crush.iter_buckets().any(|b| b.alg().name() == "straw2") { "hammer" } else { "firefly" };
        Release::parse(name).expect("a release's name")
    }
}

fn legacy(addrs: &EntityAddrVec) -> String {
    super::mon_map::legacy_text(addrs)
}
fn share(weight: u32) -> f64 {
    f64::from(weight) / 65536.0
}
pub(super) fn state_names(bits: u32) -> Vec<&'static str> {
    osd_state::NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
}

/// What the map says of an OSD.
pub fn osd_json(map: &OsdMap, osd: OsdId) -> Value {
    let i = osd as usize;
    let info = &map.osd_info[i];
    json!({
        "osd": osd,
        "uuid": map.osd_uuid[i].to_string(),
        "up": u8::from(map.is_up(osd)),
        "in": u8::from(map.is_in(osd)),
        "weight": share(map.weight(osd)),
        "primary_affinity": share(map.primary_affinity(osd)),
        "last_clean_begin": info.last_clean_begin,
        "last_clean_end": info.last_clean_end,
        "up_from": info.up_from,
        "up_thru": info.up_thru,
        "down_at": info.down_at,
        "lost_at": info.lost_at,
        "public_addrs": addrs_json(&map.client_addrs[i]),
        "cluster_addrs": addrs_json(&map.cluster_addrs[i]),
        "heartbeat_back_addrs": addrs_json(&map.hb_back_addrs[i]),
        "heartbeat_front_addrs": addrs_json(&map.hb_front_addrs[i]),
        "public_addr": legacy(&map.client_addrs[i]),
        "cluster_addr": legacy(&map.cluster_addrs[i]),
        "heartbeat_back_addr": legacy(&map.hb_back_addrs[i]),
        "heartbeat_front_addr": legacy(&map.hb_front_addrs[i]),
        "state": state_names(map.state(osd)),
    })
}
fn osd_line(map: &OsdMap, osd: OsdId) -> String {
    let i = osd as usize;
    let info = &map.osd_info[i];
    let mut out = format!("osd.{osd} {}", if map.is_up(osd) { "up  " } else { "down" });
    out += if map.is_in(osd) { " in " } else { " out" };
    out += &format!(" weight {}", share(map.weight(osd)));
    if map.primary_affinity(osd) != 0x1_0000 {
        out += &format!(" primary_affinity {}", share(map.primary_affinity(osd)));
    }
    out += &format!(" up_from {} up_thru {} down_at {}", info.up_from, info.up_thru, info.down_at);
    out += &format!(" last_clean_interval [{},{})", info.last_clean_begin, info.last_clean_end);
    if info.lost_at != 0 {
        out += &format!(" lost_at {}", info.lost_at);
    }
    out += &format!(" {} {}", map.client_addrs[i], map.cluster_addrs[i]);
    out += &format!(" {}", state_names(map.state(osd)).join(","));
    if !map.osd_uuid[i].is_zero() {
        out += &format!(" {}", map.osd_uuid[i]);
    }
    out + "\n"
}

fn snaps_json(snaps: &std::collections::BTreeMap<PoolId, IntervalSet>) -> Value {
    let row = |(pool, set): (&PoolId, &IntervalSet)| json!({"pool": pool, "snaps": set.iter().map(|(begin, length)| json!({"begin": begin, "length": length})).collect::<Vec<_>>()});
    snaps.iter().map(row).collect()
}

pub fn dump_json(map: &OsdMap) -> Value {
    let mut v = Map::new();
    let mut extend = |more: Value| v.extend(more.as_object().expect("an object was made").clone());
    let mut flags_set: Vec<&str> = map_flags::NAMES.iter().filter(|(bit, _)| map.flags & bit != 0).map(|(_, n)| *n).collect();
    flags_set.sort_unstable();
    extend(json!({
        "epoch": map.epoch,
        "fsid": map.fsid.to_string(),
        "created": map.created.to_string(),
        "modified": map.modified.to_string(),
        "last_up_change": map.last_up_change.to_string(),
        "last_in_change": map.last_in_change.to_string(),
        "flags": map_flags::text(map.flags),
        "flags_num": map.flags,
        "flags_set": flags_set,
        "crush_version": map.crush_version,
        "full_ratio": map.full_ratio,
        "backfillfull_ratio": map.backfillfull_ratio,
        "nearfull_ratio": map.nearfull_ratio,
        "cluster_snapshot": map.cluster_snapshot,
        "pool_max": map.pool_max,
        "max_osd": map.max_osd,
        "require_min_compat_client": map.require_min_compat_client.name(),
        "min_compat_client": min_compat_client(map).name(),
        "require_osd_release": map.require_osd_release.name(),
        "allow_crimson": map.allow_crimson,
        "pools": map.pools.iter().map(|(id, p)| pool_json::pool(map, *id, p, "pool")).collect::<Vec<_>>(),
        "osds": map.osds().map(|o| osd_json(map, o)).collect::<Vec<_>>(),
    }));
    let xinfo: Vec<Value> = map
        .osds()
        .map(|osd| {
            let x = &map.osd_xinfo[osd as usize];
            json!({
                "osd": osd,
                "down_stamp": x.down_stamp.to_string(),
                "laggy_probability": x.laggy_probability(),
                "laggy_interval": x.laggy_interval_s,
                "features": x.features,
                "old_weight": x.old_weight,
                "last_purged_snaps_scrub": x.last_purged_snaps_scrub.to_string(),
                "dead_epoch": x.dead_epoch,
            })
        })
        .collect();
    let until = |list: &std::collections::BTreeMap<types::EntityAddr, UTime>| -> Map<String, Value> {
        list.iter().map(|(addr, until)| (addr.host_port_nonce(), json!(until.to_string()))).collect()
    };
    let items = |items: &[(OsdId, OsdId)]| items.iter().map(|(from, to)| json!({"from": from, "to": to})).collect::<Vec<_>>();
    let node_flags = |flags: &std::collections::BTreeMap<i32, u32>, name: &dyn Fn(i32) -> String| -> Map<String, Value> {
        flags.iter().map(|(id, bits)| (name(*id), json!(state_names(*bits)))).collect()
    };
    let crush = &map.crush;
    extend(json!({
        "osd_xinfo": xinfo,
        "pg_upmap": map.pg_upmap.iter().map(|(pg, osds)| json!({"pgid": pg.to_string(), "osds": osds})).collect::<Vec<_>>(),
        "pg_upmap_items": map.pg_upmap_items.iter().map(|(pg, m)| json!({"pgid": pg.to_string(), "mappings": items(m)})).collect::<Vec<_>>(),
        "pg_upmap_primaries":
            map.pg_upmap_primaries.iter().map(|(pg, osd)| json!({"pgid": pg.to_string(), "primary_osd": osd})).collect::<Vec<_>>(),
        "pg_temp": map.pg_temp.iter().map(|(pg, osds)| json!({"pgid": pg.to_string(), "osds": osds})).collect::<Vec<_>>(),
        "primary_temp": map.primary_temp.iter().map(|(pg, osd)| json!({"pgid": pg.to_string(), "osd": osd})).collect::<Vec<_>>(),
        "blocklist": until(&map.blocklist),
        "range_blocklist": until(&map.range_blocklist),
        "erasure_code_profiles": map.erasure_code_profiles,
        "removed_snaps_queue": snaps_json(&map.removed_snaps_queue),
        "new_removed_snaps": snaps_json(&map.new_removed_snaps),
        "new_purged_snaps": snaps_json(&map.new_purged_snaps),
        "crush_node_flags": node_flags(&map.crush_node_flags, &|id| crush.item_name(id).map_or_else(|| id.to_string(), str::to_string)),
        "device_class_flags": node_flags(&map.device_class_flags, &|id| crush.class_name(id).map_or_else(|| id.to_string(), str::to_string)),
        "stretch_mode": {
            "stretch_mode_enabled": map.stretch.enabled,
            "stretch_bucket_count": map.stretch.bucket_count,
            "degraded_stretch_mode": map.stretch.degraded,
            "recovering_stretch_mode": map.stretch.recovering,
            "stretch_mode_bucket": map.stretch.bucket,
        },
    }));
    Value::Object(v)
}

fn dump_text(map: &OsdMap) -> String {
    let mut out = format!(
        "epoch {}\nfsid {}\ncreated {}\nmodified {}\nflags {}\ncrush_version {}\nfull_ratio {}\nbackfillfull_ratio {}\nnearfull_ratio {}\n",
        map.epoch,
        map.fsid,
        map.created,
        map.modified,
        map_flags::text(map.flags),
        map.crush_version,
        map.full_ratio,
        map.backfillfull_ratio,
        map.nearfull_ratio
    );
    out += &format!(
        "require_min_compat_client {}\nmin_compat_client {}\nrequire_osd_release {}\nstretch_mode_enabled {}\n",
        map.require_min_compat_client,
        min_compat_client(map),
        map.require_osd_release,
        map.stretch.enabled
    );
    for (id, p) in &map.pools {
        out += &format!("{}\n{}", pool_json::line(map, *id, p), pool_json::snap_lines(p));
    }
    out += &format!("max_osd {}\n", map.max_osd);
    out.extend(map.osds().map(|o| osd_line(map, o)));
    out.extend(map.pg_upmap.iter().map(|(pg, osds)| format!("pg_upmap {pg} {}\n", osds_text(osds))));
    for (pg, items) in &map.pg_upmap_items {
        let items: Vec<String> = items.iter().map(|(from, to)| format!("{from},{to}")).collect();
        out += &format!("pg_upmap_items {pg} [{}]\n", items.join(","));
    }
    out.extend(map.pg_upmap_primaries.iter().map(|(pg, osd)| format!("pg_upmap_primary {pg} {osd}\n")));
    out.extend(map.pg_temp.iter().map(|(pg, osds)| format!("pg_temp {pg} {}\n", osds_text(osds))));
    out.extend(map.primary_temp.iter().map(|(pg, osd)| format!("primary_temp {pg} {osd}\n")));
    out.extend(map.blocklist.iter().map(|(addr, until)| format!("blocklist {} expires {until}\n", addr.host_port_nonce())));
    out.extend(map.range_blocklist.iter().map(|(addr, until)| format!("range blocklist {} expires {until}\n", addr.host_port_nonce())));
    out
}

fn dump(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = map_of_request(ctx)?;
    ctx.answer(dump_json(&map), || dump_text(&map))
}

fn ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = map_of_request(ctx)?;
    let osds: Vec<OsdId> = map.osds().collect();
    ctx.answer(json!(osds), || osds.iter().map(|o| format!("{o}\n")).collect())
}

/// `osds: 1 up (since 5s), 1 in (since 9s)`, as `status` and `osd stat` say it.
pub fn summary_line(map: &OsdMap, now: UTime) -> String {
    let since =
        |at: UTime| if at.is_zero() { String::new() } else { format!(" (since {})", span_text(u64::from(now.sec.saturating_sub(at.sec)))) };
    format!("{} osds: {} up{}, {} in{}", map.num_osds(), map.num_up(), since(map.last_up_change), map.num_in(), since(map.last_in_change))
}

fn stat(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    let remapped = ctx.mon.manager.pgs.count_state(types::pg_stat::pg_state::REMAPPED);
    let json = json!({
        "epoch": map.epoch,
        "num_osds": map.num_osds(),
        "num_up_osds": map.num_up(),
        "osd_up_since": map.last_up_change.sec,
        "num_in_osds": map.num_in(),
        "osd_in_since": map.last_in_change.sec,
        "num_remapped_pgs": remapped,
    });
    ctx.answer(json, || {
        let mut out = format!("{}; epoch: e{}", summary_line(map, UTime::from_wall_ns(ctx.clock.wall_ns)), map.epoch);
        if remapped > 0 {
            out += &format!("; {remapped} remapped pgs");
        }
        let flags = map.flags_text();
        if !flags.is_empty() {
            out += &format!("\nflags {flags}");
        }
        out + "\n"
    })
}

fn no_osd(osd: OsdId) -> CmdError {
    CmdError::new(errno::ENOENT, format!("osd.{osd} does not exist"))
}

fn info(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    match ctx.args.osd("id")? {
        Some(osd) if !map.exists(osd) => Err(no_osd(osd)),
        Some(osd) => ctx.answer(osd_json(map, osd), || osd_line(map, osd)),
        None => ctx.answer(map.osds().map(|o| osd_json(map, o)).collect(), || map.osds().map(|o| osd_line(map, o)).collect()),
    }
}

fn find(ctx: &mut Ctx<'_>) -> CmdResult {
    let osd = ctx.args.need_osd("id")?;
    let map = &ctx.mon.osd.map;
    if !map.exists(osd) {
        return Err(no_osd(osd));
    }
    let mut v = Map::new();
    v.insert("osd".into(), json!(osd));
    v.insert("addrs".into(), addrs_json(&map.client_addrs[osd as usize]));
    v.insert("osd_fsid".into(), json!(map.osd_uuid[osd as usize].to_string()));
    let metadata = ctx.mon.osd.metadata.get(&osd);
    for (key, shown) in
        [("hostname", "host"), ("pod_name", "pod_name"), ("pod_namespace", "pod_namespace"), ("container_name", "container_name")]
    {
        if let Some(value) = metadata.and_then(|m| m.get(key)) {
            v.insert(shown.into(), json!(value));
        }
    }
    let location: Map<String, Value> = map.crush.full_location(osd).into_iter().map(|(kind, name)| (kind, json!(name))).collect();
    v.insert("crush_location".into(), Value::Object(location));
    ctx.answer_json(Value::Object(v))
}

fn map_object(ctx: &mut Ctx<'_>) -> CmdResult {
    let (name, object) = (ctx.args.need("pool")?, ctx.args.need("object")?);
    let nspace = ctx.args.text("nspace").unwrap_or_default();
    let map = &ctx.mon.osd.map;
    let Some(pool) = map.pool_by_name(&name) else {
        return Err(CmdError::new(errno::ENOENT, format!("pool {name} does not exist")));
    };
    let loc = ObjectLocator { pool, nspace: nspace.as_str().into(), ..ObjectLocator::default() };
    let raw = map.object_to_raw_pg(object.as_bytes(), &loc).expect("the pool exists");
    let pgid = map.pools[&pool].raw_pg_to_pg(raw);
    let on = map.pg_to_up_acting(pgid, &mut maps::Placement::default());
    let shown = if nspace.is_empty() { object } else { format!("{nspace}/{object}") };
    let json = json!({
        "epoch": map.epoch,
        "pool": name,
        "pool_id": pool,
        "objname": shown,
        "raw_pgid": raw.to_string(),
        "pgid": pgid.to_string(),
        "up": on.up,
        "up_primary": on.up_primary,
        "acting": on.acting,
        "acting_primary": on.acting_primary,
    });
    ctx.answer(json, || {
        format!(
            "osdmap e{} pool '{name}' ({pool}) object '{shown}' -> pg {raw} ({pgid}) -> up ({}, p{}) acting ({}, p{})\n",
            map.epoch,
            osds_text(&on.up),
            on.up_primary,
            osds_text(&on.acting),
            on.acting_primary
        )
    })
}

fn getmap(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = map_of_request(ctx)?;
    let bytes = match ctx.mon.osd.full(map.epoch) {
        Some(kept) => kept.clone(),
        None => map.encode_canonical().0,
    };
    Ok(Reply::data(bytes).with_status(format!("got osdmap epoch {}", map.epoch)))
}

fn last_stat_seq(ctx: &mut Ctx<'_>) -> CmdResult {
    let osd = ctx.args.need_osd("id")?;
    if !ctx.mon.osd.map.exists(osd) {
        return Err(no_osd(osd));
    }
    let seq = ctx.mon.manager.pgs.last_seq(osd);
    Ok(Reply::data(seq.to_string()))
}
