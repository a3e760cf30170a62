//! The state of the whole: `status`, `health`, `df`.

use super::table::{Table, bytes_text, count_text, percent_text};
use super::{CmdError, CmdResult, Command, Ctx, cmd};
use crate::health::Mute;
use crate::mgr::services::{is_kind_of_daemon, summary, task_text};
use maps::FsMap;
use serde_json::{Value, json};
use types::{UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd("status", "the state of the cluster", "mon", "r", status),
    cmd("health name=detail,type=CephChoices,strings=detail,req=false", "what is wrong with the cluster", "mon", "r", health),
    cmd(
        "health mute name=code,type=CephString name=ttl,type=CephString,req=false name=sticky,type=CephBool,req=false",
        "hides a health check",
        "mon",
        "w",
        mute,
    ),
    cmd("health unmute name=code,type=CephString,req=false", "shows a hidden health check again", "mon", "w", unmute),
    cmd("df name=detail,type=CephChoices,strings=detail,req=false", "how full the cluster and its pools are", "mon", "r", df),
    cmd(
        "humboldt view",
        "what the page and `humboldt top` show, as JSON; for some seconds after each call OSDs report once a second",
        "mon",
        "r",
        view,
    ),
];

/// A span as people read it: `12s`, `3m`, `5h`, `2d`.
pub fn span_text(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn age(ctx: &Ctx<'_>, since: UTime) -> u64 {
    u64::from(UTime::from_wall_ns(ctx.clock.wall_ns).sec.saturating_sub(since.sec))
}

/// The figures of `pgmap` in `status`.
pub fn pgmap_json(ctx: &Ctx<'_>) -> Value {
    let pgs = &ctx.mon.manager.pgs;
    let total = pgs.total();
    let fs = pgs.statfs();
    let states: Vec<Value> = pgs.states().into_iter().map(|(name, n)| json!({"state_name": name, "count": n})).collect();
    let mut v = json!({
        "pgs_by_state": states,
        "num_pgs": pgs.num_pgs(),
        "num_pools": ctx.mon.osd.map.pools.len(),
        "num_objects": total.stats.num_objects,
        "data_bytes": total.stats.num_bytes,
        "bytes_used": fs.used_raw(),
        "bytes_avail": fs.available,
        "bytes_total": fs.total,
    });
    let inactive = pgs.num_inactive();
    let unknown = pgs.count_state(0);
    if unknown > 0 {
        v["unknown_pgs_ratio"] = json!(f64::from(unknown) / pgs.num_pgs().max(1) as f64);
    }
    if inactive > 0 {
        v["inactive_pgs_ratio"] = json!(inactive as f64 / pgs.num_pgs().max(1) as f64);
    }
    if total.stats.num_objects_degraded > 0 {
        v["degraded_objects"] = json!(total.stats.num_objects_degraded);
        v["degraded_total"] = json!(total.stats.num_object_copies);
        v["degraded_ratio"] = json!(total.stats.num_objects_degraded as f64 / total.stats.num_object_copies.max(1) as f64);
    }
    if total.stats.num_objects_misplaced > 0 {
        v["misplaced_objects"] = json!(total.stats.num_objects_misplaced);
        v["misplaced_total"] = json!(total.stats.num_object_copies);
        v["misplaced_ratio"] = json!(total.stats.num_objects_misplaced as f64 / total.stats.num_object_copies.max(1) as f64);
    }
    let r = pgs.rates(None);
    if r.recovering_objects > 0 || r.recovering_bytes > 0 || r.recovering_keys > 0 {
        v["recovering_objects_per_sec"] = json!(r.recovering_objects);
        v["recovering_bytes_per_sec"] = json!(r.recovering_bytes);
        v["recovering_keys_per_sec"] = json!(r.recovering_keys);
    }
    if r.read_ops > 0 || r.write_ops > 0 || r.read_bytes > 0 || r.write_bytes > 0 {
        v["read_bytes_sec"] = json!(r.read_bytes);
        v["write_bytes_sec"] = json!(r.write_bytes);
        v["read_op_per_sec"] = json!(r.read_ops);
        v["write_op_per_sec"] = json!(r.write_ops);
    }
    v
}

fn status(ctx: &mut Ctx<'_>) -> CmdResult {
    let mon = &*ctx.mon;
    let (map, mgr) = (&mon.osd.map, &mon.mgrmap.map);
    let fsmap = mon.visible_fsmap(ctx.conn);
    let quorum_age = super::basic::quorum_age(ctx);
    let json = json!({
        "fsid": mon.options.fsid.to_string(),
        "health": mon.look().health_json(false),
        "election_epoch": 3,
        "quorum": [0],
        "quorum_names": ["a"],
        "quorum_age": quorum_age,
        "monmap": {
            "epoch": mon.monmap.map.epoch,
            "min_mon_release_name": mon.monmap.map.min_mon_release.name(),
            "num_mons": mon.monmap.map.mons.len(),
        },
        "osdmap": {
            "epoch": map.epoch,
            "num_osds": map.num_osds(),
            "num_up_osds": map.num_up(),
            "osd_up_since": map.last_up_change.sec,
            "num_in_osds": map.num_in(),
            "osd_in_since": map.last_in_change.sec,
            "num_remapped_pgs": mon.manager.pgs.count_state(types::pg_stat::pg_state::REMAPPED),
        },
        "pgmap": pgmap_json(ctx),
        "fsmap": super::fs_show::summary_json(&fsmap),
        "mgrmap": {
            "available": mgr.available,
            "num_standbys": mgr.standbys.len(),
            "modules": mgr.modules,
            "services": mgr.services,
        },
        "servicemap": super::daemons::servicemap_json(&mon.manager.services.map),
        "progress_events": progress_json(mon),
    });
    ctx.answer(json, || status_text(ctx, &fsmap, quorum_age))
}

/// The same as `ceph -s` shows it.
fn status_text(ctx: &Ctx<'_>, fsmap: &FsMap, quorum_age: u64) -> String {
    let mut out = cluster_text(ctx.mon);
    out += &services_text(ctx, fsmap, quorum_age);
    out += &task_text(&ctx.mon.manager.services.map);
    out += &data_text(ctx.mon, fsmap);
    out += &activity_text(ctx.mon);
    out + " \n"
}

/// The cluster's name and health.
fn cluster_text(mon: &crate::Mon) -> String {
    let mut out = String::new();
    let checks = mon.look().health_checks();
    let h = mon.look().health_status(&checks);
    out += &format!("  cluster:\n    id:     {}\n    health: {h}\n", mon.options.fsid);
    for (code, check) in &checks {
        if !mon.health.mutes.contains_key(&**code) {
            out += &format!("            {}\n", check.summary);
        }
    }
    if !mon.health.mutes.is_empty() {
        let codes: Vec<_> = mon.health.mutes.keys().map(String::as_str).collect();
        out += &format!("            (muted: {})\n", codes.join(" "));
    }
    out
}

/// Daemons of each kind.
fn services_text(ctx: &Ctx<'_>, fsmap: &FsMap, quorum_age: u64) -> String {
    let mon = &*ctx.mon;
    let (map, mgr) = (&mon.osd.map, &mon.mgrmap.map);
    let mut out = String::new();
    let services = &mon.manager.services.map.services;
    let width = services.keys().map(String::len).max().unwrap_or(0).max(3);
    let gap = " ".repeat(width - 3);
    out += &format!(" \n  services:\n    mon: {gap}1 daemons, quorum a (age {})\n", span_text(quorum_age));
    let mgr_age = span_text(age(ctx, mgr.active_change));
    let mgr_line = if mgr.active_gid != 0 {
        format!("{}(active, {}since {mgr_age})", mgr.active_name, if mgr.available { "" } else { "starting, " })
    } else {
        format!("no daemons active (since {mgr_age})")
    };
    let standbys: Vec<_> = mgr.standbys.values().map(|s| s.name.clone()).collect();
    let standbys = if standbys.is_empty() { String::new() } else { format!(", standbys: {}", standbys.join(", ")) };
    out += &format!("    mgr: {gap}{mgr_line}{standbys}\n");
    if let Some(line) = super::fs_show::daemons_line(fsmap) {
        out += &format!("    mds: {gap}{line}\n");
    }
    let since = |at: UTime| if at.is_zero() { String::new() } else { format!(" (since {})", span_text(age(ctx, at))) };
    out += &format!(
        "    osd: {gap}{} osds: {} up{}, {} in{}\n",
        map.num_osds(),
        map.num_up(),
        since(map.last_up_change),
        map.num_in(),
        since(map.last_in_change)
    );
    let flags = map.flags_text();
    if !flags.is_empty() {
        out += &format!("         {gap}flags {flags}\n");
    }
    // A stock manager has rows for daemons that stand above.
    for (name, service) in services.iter().filter(|(name, _)| !is_kind_of_daemon(name)) {
        out += &format!("    {name}: {}{}\n", " ".repeat(width - name.len()), summary(service));
    }
    out
}

/// Pools, objects, room and groups.
fn data_text(mon: &crate::Mon, fsmap: &FsMap) -> String {
    let mut out = String::new();
    let pgs = &mon.manager.pgs;
    let (total, fs) = (pgs.total(), pgs.statfs());
    out += " \n  data:\n";
    if let Some(line) = super::fs_show::volumes_line(fsmap) {
        out += &format!("    volumes: {line}\n");
    }
    out += &format!("    pools:   {} pools, {} pgs\n", mon.osd.map.pools.len(), pgs.num_pgs());
    let (objects, bytes) = (count_text(total.stats.num_objects.max(0) as u64), bytes_text(total.stats.num_bytes.max(0) as u64));
    out += &format!("    objects: {objects} objects, {bytes}\n");
    out += &format!("    usage:   {} used, {} / {} avail\n", bytes_text(fs.used_raw()), bytes_text(fs.available), bytes_text(fs.total));
    let states = pgs.states();
    let width = states.iter().map(|(_, n)| n.to_string().len()).max().unwrap_or(0);
    for (i, (name, n)) in states.iter().enumerate() {
        out += &format!("    {} {n:<width$} {name}\n", if i == 0 { "pgs:    " } else { "        " });
    }
    out
}

/// What clients do, and what a stock manager says is under way.
fn activity_text(mon: &crate::Mon) -> String {
    let mut out = String::new();
    let r = mon.manager.pgs.rates(None);
    let mut io = Vec::new();
    if r.read_bytes > 0 {
        io.push(format!("{}/s rd", bytes_text(r.read_bytes)));
    }
    if r.write_bytes > 0 {
        io.push(format!("{}/s wr", bytes_text(r.write_bytes)));
    }
    if r.read_ops > 0 || r.write_ops > 0 {
        io.push(format!("{} op/s rd", count_text(r.read_ops)));
        io.push(format!("{} op/s wr", count_text(r.write_ops)));
    }
    if !io.is_empty() {
        out += &format!(" \n  io:\n    client:   {}\n", io.join(", "));
    }
    let progress = mon.manager.stock.as_ref().map(|s| &s.progress);
    let mut shown = progress.into_iter().flat_map(|p| p.values()).filter(|e| e.show_in_status).peekable();
    if shown.peek().is_some() {
        out += " \n  progress:\n";
        shown.for_each(|e| out += &format!("    {}\n", e.message));
    }
    out
}

/// What a stock manager says is under way.
fn progress_json(mon: &crate::Mon) -> Value {
    let events = mon.manager.stock.iter().flat_map(|s| &s.progress);
    let row = |e: &messages::ProgressEvent| json!({"message": e.message, "progress": e.progress, "add_to_ceph_s": e.show_in_status});
    Value::Object(events.map(|(id, e)| (id.clone(), row(e))).collect())
}

fn health(ctx: &mut Ctx<'_>) -> CmdResult {
    let detail = ctx.args.has("detail");
    let json = ctx.mon.look().health_json(detail);
    let mon = &*ctx.mon;
    ctx.answer(json, || {
        let checks = mon.look().health_checks();
        let shown: Vec<_> = checks.iter().filter(|(code, _)| !mon.health.mutes.contains_key(&***code)).collect();
        let mut out = mon.look().health_status(&checks).to_string();
        if !shown.is_empty() {
            out += " ";
            out += &shown.iter().map(|(_, c)| c.summary.as_str()).collect::<Vec<_>>().join("; ");
        }
        if !mon.health.mutes.is_empty() {
            let codes: Vec<_> = mon.health.mutes.keys().map(String::as_str).collect();
            out += &format!(" (muted: {})", codes.join(" "));
        }
        out += "\n";
        if detail {
            for (code, c) in &checks {
                let muted = if mon.health.mutes.contains_key(&**code) { "(MUTED) " } else { "" };
                let tag = if c.severity == crate::health::Severity::Error { "ERR" } else { "WRN" };
                out += &format!("{muted}[{tag}] {code}: {}\n", c.summary);
                for line in &c.detail {
                    out += &format!("    {line}\n");
                }
            }
        }
        out
    })
}

/// Seconds of a span like `5m`, `1h`, `2d`, `1w`.
fn seconds(text: &str) -> Option<u32> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let n: u32 = text[..split].trim().parse().ok()?;
    let unit = match text[split..].trim() {
        "" | "s" | "sec" | "second" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hr" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 604_800,
        _ => return None,
    };
    n.checked_mul(unit)
}

fn mute(ctx: &mut Ctx<'_>) -> CmdResult {
    let code = ctx.args.need("code")?;
    let sticky = ctx.args.flag("sticky");
    let until = match ctx.args.text("ttl") {
        None => UTime::ZERO,
        Some(text) => {
            let secs = seconds(&text).ok_or_else(|| CmdError::new(errno::EINVAL, format!("not a valid duration: {text}")))?;
            UTime { sec: UTime::from_wall_ns(ctx.clock.wall_ns).sec.saturating_add(secs), nsec: 0 }
        }
    };
    let check = ctx.mon.look().health_checks().remove(code.as_str());
    if check.is_none() && !sticky {
        return Err(CmdError::new(errno::ENOENT, format!("health alert {code} is not currently raised")));
    }
    let (summary, count) = check.map_or_else(Default::default, |c| (c.summary, c.count));
    let mon = &mut *ctx.mon;
    mon.health.set_mute(&code, Some(Mute { until, sticky, summary, count }), &mut mon.batch);
    Ok(super::Reply::default())
}

fn unmute(ctx: &mut Ctx<'_>) -> CmdResult {
    let mon = &mut *ctx.mon;
    let codes = match ctx.args.text("code") {
        Some(code) => vec![code],
        None => mon.health.mutes.keys().cloned().collect(),
    };
    for code in codes {
        mon.health.set_mute(&code, None, &mut mon.batch);
    }
    Ok(super::Reply::default())
}

fn df(ctx: &mut Ctx<'_>) -> CmdResult {
    let mon = &*ctx.mon;
    let (map, pgs) = (&mon.osd.map, &mon.manager.pgs);
    let stats = |sum: &types::OsdStat| {
        let fs = &sum.statfs;
        json!({
            "total_bytes": fs.total,
            "total_avail_bytes": fs.available,
            "total_used_bytes": fs.used(),
            "total_used_raw_bytes": fs.used_raw(),
            "total_used_raw_ratio": if fs.total == 0 { 0.0 } else { fs.used_raw() as f64 / fs.total as f64 },
        })
    };
    let sum = pgs.sum_of_stores(None, map.osds());
    let mut all = stats(&sum);
    all["num_osds"] = json!(sum.num_osds);
    all["num_per_pool_osds"] = json!(sum.num_per_pool_osds);
    all["num_per_pool_omap_osds"] = json!(sum.num_per_pool_omap_osds);
    let mut classes = serde_json::Map::new();
    for name in map.crush.class_names.values() {
        let of_class = map.crush.devices_of_class(name);
        if !of_class.is_empty() {
            classes.insert(name.clone(), stats(&pgs.sum_of_stores(Some(name), of_class.into_iter())));
        }
    }
    let detail = ctx.args.has("detail");
    let per_pool = mon.stores_count_by_pool();
    let pools: Vec<Value> = map
        .pools
        .keys()
        .map(|id| json!({"name": map.pool_name(*id).unwrap_or_default(), "id": id, "stats": pool_df(mon, *id, per_pool, detail)}))
        .collect();
    let json = json!({"stats": all, "stats_by_class": classes, "pools": pools});
    let pg_num = |id: i64| map.pools.get(&id).map_or(0, |p| p.pg_num);
    ctx.answer(json.clone(), || df_text(&json, detail, &pg_num))
}

fn view(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.mon.looked_at(ctx.clock);
    let view = ctx.mon.look().state(ctx.clock);
    ctx.answer_json(view)
}

/// What a pool holds, as `df` shows it; with `detail`, what it did and may hold, too.
pub(crate) fn pool_df(mon: &crate::Mon, id: i64, per_pool: bool, detail: bool) -> Value {
    let (map, pgs) = (&mon.osd.map, &mon.manager.pgs);
    let pool = &map.pools[&id];
    let stat = pgs.pool_stat(id);
    let (sum, fs) = (stat.stats.sum, stat.store_stats);
    let copies = f64::from(pool.size.max(1));
    let used = if per_pool { fs.allocated.max(0) as u64 } else { (sum.num_bytes.max(0) as f64 * copies) as u64 };
    let omap_used = if per_pool { fs.omap_allocated.max(0) as u64 } else { (sum.num_omap_bytes.max(0) as f64 * copies) as u64 };
    let stored = sum.num_bytes.max(0) as u64;
    let omap_stored = sum.num_omap_bytes.max(0) as u64;
    let raw_avail = mon.rule_avail(u32::from(pool.crush_rule));
    let avail = (raw_avail as f64 / copies) as u64;
    let percent = if used + raw_avail == 0 { 0.0 } else { (used + omap_used) as f64 / (used + omap_used + raw_avail) as f64 };
    let mut v = json!({"stored": stored + omap_stored});
    if detail {
        v["stored_data"] = json!(stored);
        v["stored_omap"] = json!(omap_stored);
    }
    v["objects"] = json!(sum.num_objects);
    v["kb_used"] = json!((used + omap_used).div_ceil(1024));
    v["bytes_used"] = json!(used + omap_used);
    if detail {
        v["data_bytes_used"] = json!(used);
        v["omap_bytes_used"] = json!(omap_used);
    }
    v["percent_used"] = json!(percent);
    v["max_avail"] = json!(avail);
    if detail {
        v["quota_objects"] = json!(pool.quota_max_objects);
        v["quota_bytes"] = json!(pool.quota_max_bytes);
        v["dirty"] = json!(if pool.is_tier() { sum.num_objects_dirty } else { 0 });
        v["rd"] = json!(sum.num_rd);
        v["rd_bytes"] = json!(sum.num_rd_kb * 1024);
        v["wr"] = json!(sum.num_wr);
        v["wr_bytes"] = json!(sum.num_wr_kb * 1024);
        v["compress_bytes_used"] = json!(fs.data_compressed_allocated);
        v["compress_under_bytes"] = json!(fs.data_compressed_original);
        v["stored_raw"] = json!(((stored + omap_stored) as f64 * copies) as u64);
        v["avail_raw"] = json!(raw_avail);
    }
    v
}

fn df_text(json: &Value, detail: bool, pg_num: &dyn Fn(i64) -> u32) -> String {
    let n = |v: &Value| v.as_u64().unwrap_or(0);
    let mut out = String::from("--- RAW STORAGE ---\n");
    let mut t = Table::new(&["<CLASS", ">SIZE", ">AVAIL", ">USED", ">RAW USED", ">%RAW USED"]);
    let mut raw = |name: &str, s: &Value| {
        let cell = |key: &str| bytes_text(n(&s[key]));
        t.row(vec![
            name.into(),
            cell("total_bytes"),
            cell("total_avail_bytes"),
            cell("total_used_bytes"),
            cell("total_used_raw_bytes"),
            percent_text(s["total_used_raw_ratio"].as_f64().unwrap_or(0.0)),
        ]);
    };
    for (name, s) in json["stats_by_class"].as_object().into_iter().flatten() {
        raw(name, s);
    }
    raw("TOTAL", &json["stats"]);
    out += &t.text();
    out += " \n--- POOLS ---\n";
    let headings: &[&str] = if detail {
        &[
            "<POOL",
            ">ID",
            ">PGS",
            ">STORED",
            ">(DATA)",
            ">(OMAP)",
            ">OBJECTS",
            ">USED",
            ">(DATA)",
            ">(OMAP)",
            ">%USED",
            ">MAX AVAIL",
            ">QUOTA OBJECTS",
            ">QUOTA BYTES",
            ">DIRTY",
            ">USED COMPR",
            ">UNDER COMPR",
        ]
    } else {
        &["<POOL", ">ID", ">PGS", ">STORED", ">OBJECTS", ">USED", ">%USED", ">MAX AVAIL"]
    };
    let mut t = Table::new(headings);
    for p in json["pools"].as_array().into_iter().flatten() {
        let s = &p["stats"];
        let bytes = |key: &str| bytes_text(n(&s[key]));
        let limit = |key: &str, text: fn(u64) -> String| if n(&s[key]) == 0 { "N/A".into() } else { text(n(&s[key])) };
        let id = p["id"].as_i64().unwrap_or(-1);
        let mut row = vec![p["name"].as_str().unwrap_or_default().into(), id.to_string(), pg_num(id).to_string(), bytes("stored")];
        if detail {
            row.extend([bytes("stored_data"), bytes("stored_omap")]);
        }
        row.extend([count_text(n(&s["objects"])), bytes("bytes_used")]);
        if detail {
            row.extend([bytes("data_bytes_used"), bytes("omap_bytes_used")]);
        }
        row.extend([percent_text(s["percent_used"].as_f64().unwrap_or(0.0)), bytes("max_avail")]);
        if detail {
            row.extend([limit("quota_objects", count_text), limit("quota_bytes", bytes_text)]);
            // Only cache tiers count what is not flushed.
            row.extend([limit("dirty", count_text), bytes("compress_bytes_used"), bytes("compress_under_bytes")]);
        }
        t.row(row);
    }
    out + &t.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_for_people() {
        assert_eq!((span_text(5).as_str(), span_text(600).as_str()), ("5s", "10m"));
    }
}
