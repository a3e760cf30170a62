//! Placement groups, from what OSDs reported: `pg stat`, `pg dump`, `pg ls` and their kin; and `pg map`, from the map alone.

use super::stat_json as stat;
use super::status::span_text;
use super::table::{Table, bytes_text, osds_text};
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, mgr_cmd};
use serde_json::{Map, Value, json};
use types::pg_stat::{PgStat, pg_state};
use types::{OsdId, PgId, PoolId, UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd("pg map name=pgid,type=CephPgid", "the OSDs that a placement group is on", "pg", "r", map),
    mgr_cmd("pg stat", "placement groups in a line", "pg", "r", one_line),
    mgr_cmd(
        "pg dump name=dumpcontents,type=CephChoices,strings=all|summary|sum|delta|pools|osds|pgs|pgs_brief,n=N,req=false",
        "all that is known of placement groups (plain: only some parts)",
        "pg",
        "r",
        |ctx| {
            let what = ctx.args.list("dumpcontents");
            dump(ctx, what, false)
        },
    ),
    mgr_cmd(
        "pg dump_json name=dumpcontents,type=CephChoices,strings=all|summary|sum|pools|osds|pgs,n=N,req=false",
        "all that is known of placement groups, as JSON",
        "pg",
        "r",
        |ctx| dump(ctx, vec!["all".into()], true),
    ),
    mgr_cmd("pg dump_pools_json", "statistics of pools, as JSON", "pg", "r", |ctx| dump(ctx, vec!["pools".into()], true)),
    mgr_cmd(
        "pg ls-by-pool name=poolstr,type=CephString name=states,type=CephString,n=N,req=false",
        "placement groups of a pool",
        "pg",
        "r",
        |ctx| {
            let name = ctx.args.need("poolstr")?;
            let pool =
                ctx.mon.osd.map.pool_by_name(&name).ok_or_else(|| CmdError::new(errno::ENOENT, format!("pool {name} does not exist")))?;
            list(ctx, Some(pool), None, false)
        },
    ),
    mgr_cmd(
        "pg ls-by-primary name=osd,type=CephOsdName name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        "placement groups that an OSD is primary of",
        "pg",
        "r",
        |ctx| list_of_osd(ctx, true),
    ),
    mgr_cmd(
        "pg ls-by-osd name=osd,type=CephOsdName name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        "placement groups on an OSD",
        "pg",
        "r",
        |ctx| list_of_osd(ctx, false),
    ),
    mgr_cmd(
        "pg ls name=pool,type=CephInt,req=false name=states,type=CephString,n=N,req=false",
        "placement groups by pool and state",
        "pg",
        "r",
        |ctx| {
            let pool = ctx.args.int("pool")?;
            list(ctx, pool, None, false)
        },
    ),
    mgr_cmd(
        "pg dump_stuck name=stuckops,type=CephChoices,strings=inactive|unclean|stale|undersized|degraded,n=N,req=false \
         name=threshold,type=CephInt,req=false",
        "placement groups that have been in a bad state for long",
        "pg",
        "r",
        stuck,
    ),
    mgr_cmd(
        "pg debug name=debugop,type=CephChoices,strings=unfound_objects_exist|degraded_pgs_exist",
        "whether any group lacks objects or copies",
        "pg",
        "r",
        debug,
    ),
];

/// What stands below tables that count omaps.
const OMAP_NOTE: &str = "\n* NOTE: Omap statistics are gathered during deep scrub and may be inaccurate soon afterwards depending on \
                         utilization.\n";

/// JSON as the manager wraps it: it says first whether it has heard of placement groups yet.
pub fn ready(ctx: &Ctx<'_>, members: Map<String, Value>) -> Value {
    let mut v = Map::new();
    let pgs = &ctx.mon.manager.pgs;
    v.insert("pg_ready".into(), json!(pgs.pgs.is_empty() || pgs.pgs.values().any(|s| s.state != 0)));
    v.extend(members);
    Value::Object(v)
}
fn member(name: &str, value: Value) -> Map<String, Value> {
    [(name.to_string(), value)].into_iter().collect()
}

fn map(ctx: &mut Ctx<'_>) -> CmdResult {
    let pgid = ctx.args.pgid("pgid")?;
    let map = &ctx.mon.osd.map;
    let Some(pool) = map.pool(pgid.pool) else {
        return Err(CmdError::new(errno::ENOENT, format!("pg {pgid} does not exist: there is no pool {}", pgid.pool)));
    };
    let folded = pool.raw_pg_to_pg(pgid);
    let on = map.pg_to_up_acting(folded, &mut maps::Placement::default());
    let json = json!({"epoch": map.epoch, "raw_pgid": pgid.to_string(), "pgid": folded.to_string(), "up": on.up, "acting": on.acting});
    ctx.answer(json, || {
        format!("osdmap e{} pg {pgid} ({folded}) -> up {} acting {}\n", map.epoch, osds_text(&on.up), osds_text(&on.acting))
    })
}

/// States by their bits, which is the order in which the line names them.
fn by_bits(ctx: &Ctx<'_>) -> Vec<(String, u32)> {
    let mut out = std::collections::BTreeMap::new();
    for s in ctx.mon.manager.pgs.pgs.values() {
        *out.entry(s.state).or_insert(0) += 1;
    }
    out.into_iter().map(|(bits, n)| (pg_state::to_text(bits), n)).collect()
}

fn one_line(ctx: &mut Ctx<'_>) -> CmdResult {
    let pgs = &ctx.mon.manager.pgs;
    let (total, fs, rates) = (pgs.total(), pgs.statfs(), pgs.rates(None));
    let states = by_bits(ctx);
    let mut v = json!({
        "num_pg_by_state": states.iter().map(|(name, num)| json!({"name": name, "num": num})).collect::<Vec<_>>(),
        "num_pgs": pgs.pgs.len(),
        "num_bytes": total.stats.num_bytes,
        "total_bytes": fs.total,
        "total_avail_bytes": fs.available,
        "total_used_bytes": fs.used(),
        "total_used_raw_bytes": fs.used_raw(),
    });
    let busy = rates.read_ops > 0 || rates.write_ops > 0;
    if rates.read_ops > 0 {
        v["read_bytes_sec"] = json!(rates.read_bytes);
    }
    if rates.write_ops > 0 {
        v["write_bytes_sec"] = json!(rates.write_bytes);
    }
    if busy {
        v["io_sec"] = json!(rates.read_ops + rates.write_ops);
    }
    ctx.answer(ready(ctx, member("pg_summary", v)), || {
        let states: Vec<String> = states.iter().map(|(name, n)| format!("{n} {name}")).collect();
        let mut out = format!(
            "{} pgs: {}; {} data, {} used, {} / {} avail",
            pgs.pgs.len(),
            states.join(", "),
            bytes_text(total.stats.num_bytes.max(0) as u64),
            bytes_text(fs.used()),
            bytes_text(fs.available),
            bytes_text(fs.total)
        );
        if busy {
            out += "; ";
            if rates.read_ops > 0 {
                out += &format!("{}/s rd, ", bytes_text(rates.read_bytes));
            }
            if rates.write_ops > 0 {
                out += &format!("{}/s wr, ", bytes_text(rates.write_bytes));
            }
            out += &format!("{} op/s", super::table::count_text(rates.read_ops + rates.write_ops));
        }
        if total.stats.num_objects_degraded > 0 {
            let all = total.stats.num_object_copies.max(1);
            let pct = total.stats.num_objects_degraded as f64 * 100.0 / all as f64;
            out += &format!("; {}/{all} objects degraded ({pct:.3}%)", total.stats.num_objects_degraded);
        }
        out + "\n"
    })
}

fn osd_sum(ctx: &Ctx<'_>) -> types::osd_stat::OsdStat {
    let mut all = types::osd_stat::OsdStat::default();
    for o in ctx.mon.manager.pgs.osds.values() {
        all.statfs.add(&o.statfs);
        all.num_pgs += o.num_pgs;
        all.num_osds += o.num_osds.max(1);
        all.num_per_pool_osds += o.num_per_pool_osds;
        all.num_per_pool_omap_osds += o.num_per_pool_omap_osds;
        all.num_shards_repaired += o.num_shards_repaired;
        all.snap_trim_queue_len += o.snap_trim_queue_len;
        all.num_snap_trimming += o.num_snap_trimming;
    }
    all
}
fn total(ctx: &Ctx<'_>) -> types::pg_stat::PoolStat {
    let s = ctx.mon.manager.pgs.total();
    let mut out = types::pg_stat::PoolStat {
        log_size: s.log_size,
        ondisk_log_size: s.ondisk_log_size,
        up: s.up,
        acting: s.acting,
        ..Default::default()
    };
    out.stats.sum = s.stats;
    out
}
fn basic(ctx: &Ctx<'_>) -> Map<String, Value> {
    let pgs = &ctx.mon.manager.pgs;
    let mut v = Map::new();
    v.insert("version".into(), json!(pgs.version));
    v.insert("stamp".into(), json!(pgs.stamp.to_string()));
    // Both are of the time when monitors kept this table; they are 0 in every manager's.
    v.insert("last_osdmap_epoch".into(), json!(0));
    v.insert("last_pg_scan".into(), json!(0));
    v.insert("pg_stats_sum".into(), Value::Object(stat::pool(&total(ctx))));
    v.insert("osd_stats_sum".into(), stat::osd(None, &osd_sum(ctx)));
    let (delta, span) = pgs.delta();
    let mut sums = types::pg_stat::PoolStat::default();
    sums.stats.sum = delta;
    let mut delta = stat::pool(&sums);
    delta.insert("stamp_delta".into(), json!(format!("{:.6}", span.as_secs_f64())));
    v.insert("pg_stats_delta".into(), Value::Object(delta));
    v
}
fn pools_json(ctx: &Ctx<'_>) -> Value {
    let pgs = &ctx.mon.manager.pgs;
    let row = |(id, sums): (&PoolId, &crate::mgr::pgmap::Sums)| {
        let mut v = Map::new();
        v.insert("poolid".into(), json!(id));
        v.insert("num_pg".into(), json!(sums.pgs));
        v.extend(stat::pool(&pgs.pool_stat(*id)));
        Value::Object(v)
    };
    pgs.pools.iter().map(row).collect()
}
fn osds_json(ctx: &Ctx<'_>) -> Value {
    ctx.mon.manager.pgs.osds.iter().map(|(id, o)| stat::osd(Some(*id), o)).collect()
}
fn pool_statfs_json(ctx: &Ctx<'_>) -> Value {
    let rows = ctx.mon.manager.pgs.pool_statfs.iter().map(|((pool, osd), fs)| {
        let mut v = json!({"poolid": pool, "osd": osd});
        v.as_object_mut().expect("just made").extend(stat::statfs(fs).as_object().expect("just made").clone());
        v
    });
    rows.collect()
}
fn pgs_json(ctx: &Ctx<'_>) -> Value {
    ctx.mon.manager.pgs.pgs.iter().map(|(pg, s)| stat::pg(*pg, s)).collect()
}

/// All that OSDs reported.
pub fn all_json(ctx: &Ctx<'_>) -> Value {
    let mut all = basic(ctx);
    all.insert("pg_stats".into(), pgs_json(ctx));
    all.insert("pool_stats".into(), pools_json(ctx));
    all.insert("osd_stats".into(), osds_json(ctx));
    all.insert("pool_statfs".into(), pool_statfs_json(ctx));
    Value::Object(all)
}

fn dump(ctx: &mut Ctx<'_>, mut what: Vec<String>, only_json: bool) -> CmdResult {
    if what.is_empty() {
        what.push("all".into());
    }
    what.sort();
    what.dedup();
    let has = |name: &str| what.iter().any(|w| w == name);
    let status = format!("dumped {}", what.join(","));
    if !only_json && !ctx.args.asks_for_fields() {
        return Ok(Reply::data(dump_text(ctx, &has)).with_status(status));
    }
    let mut v = Map::new();
    if has("all") {
        v.insert("pg_map".into(), all_json(ctx));
    } else if has("summary") || has("sum") {
        v.insert("pg_map".into(), Value::Object(basic(ctx)));
    } else {
        if has("pools") {
            v.insert("pool_stats".into(), pools_json(ctx));
        }
        if has("osds") {
            v.insert("osd_stats".into(), osds_json(ctx));
            v.insert("pool_statfs".into(), pool_statfs_json(ctx));
        }
        if has("pgs") {
            v.insert("pg_stats".into(), pgs_json(ctx));
        }
        if has("pgs_brief") {
            let rows = ctx.mon.manager.pgs.pgs.iter().map(|(pg, s)| stat::pg_brief(*pg, s)).collect();
            v.insert("pg_stats".into(), rows);
        }
        if has("delta") {
            let mut b = basic(ctx);
            v.insert("delta".into(), json!({"pg_stats_delta": b.remove("pg_stats_delta")}));
        }
    }
    let v = ready(ctx, v);
    Ok(ctx.answer_json(v)?.with_status(status))
}

const SUM_HEADINGS: &[&str] =
    &["<", "OBJECTS", "MISSING_ON_PRIMARY", "DEGRADED", "MISPLACED", "UNFOUND", "BYTES", "OMAP_BYTES*", "OMAP_KEYS*", "LOG", "DISK_LOG"];

fn sum_cells(name: String, s: &types::pg_stat::PoolStat) -> Vec<String> {
    let c = &s.stats.sum;
    let counts = [
        c.num_objects,
        c.num_objects_missing_on_primary,
        c.num_objects_degraded,
        c.num_objects_misplaced,
        c.num_objects_unfound,
        c.num_bytes,
        c.num_omap_bytes,
        c.num_omap_keys,
        s.log_size,
        s.ondisk_log_size,
    ];
    [name].into_iter().chain(counts.iter().map(i64::to_string)).collect()
}
fn sum_table(first: &str) -> Table {
    let mut headings: Vec<&str> = SUM_HEADINGS.to_vec();
    headings[0] = first;
    Table::new(&headings)
}

fn dump_text(ctx: &Ctx<'_>, has: &dyn Fn(&str) -> bool) -> String {
    let pgs = &ctx.mon.manager.pgs;
    let mut out = String::new();
    let (all, sum) = (has("all"), has("summary") || has("sum"));
    let mut note = false;
    if all || sum {
        out += &format!("version {}\nstamp {}\nlast_osdmap_epoch 0\nlast_pg_scan 0\n", pgs.version, pgs.stamp);
        note = true;
    }
    if all || (!sum && has("pgs")) {
        out += &table_of(ctx, DUMP, &mut pgs.pgs.iter());
        note = true;
    }
    if !all && !sum && has("pgs_brief") {
        out += &brief_table(&mut pgs.pgs.iter());
    }
    if all || (!sum && has("pools")) {
        let mut t = sum_table("<POOLID");
        for id in pgs.pools.keys() {
            t.row(sum_cells(id.to_string(), &pgs.pool_stat(*id)));
        }
        out += &t.text();
        note = true;
    }
    if all || sum {
        let mut t = sum_table("<PG_STAT");
        t.row(sum_cells("sum".into(), &total(ctx)));
        out += &t.text();
    }
    if all || sum || has("osds") {
        let mut headings = vec!["<OSD_STAT", "USED", "AVAIL", "USED_RAW", "TOTAL"];
        if !sum {
            headings.extend(["HB_PEERS", "PG_SUM", "PRIMARY_PG_SUM"]);
        }
        let mut t = Table::new(&headings);
        let cells = |name: String, fs: &types::osd_stat::StoreStatfs| {
            vec![name, bytes_text(fs.used()), bytes_text(fs.available), bytes_text(fs.used_raw()), bytes_text(fs.total)]
        };
        if !sum {
            let on = pgs.by_osd();
            for (id, o) in &pgs.osds {
                let mut row = cells(id.to_string(), &o.statfs);
                let (acting, primary) = on.get(id).copied().unwrap_or_default();
                row.extend([osds_text(&o.hb_peers), acting.to_string(), primary.to_string()]);
                t.row(row);
            }
        }
        t.row(cells("sum".into(), &pgs.statfs()));
        out += &t.text();
    }
    if note {
        out += OMAP_NOTE;
    }
    out
}

type Rows<'a> = dyn Iterator<Item = (&'a PgId, &'a PgStat)> + 'a;

fn brief_table(rows: &mut Rows<'_>) -> String {
    let mut t = Table::new(&["<PG_STAT", "STATE", "UP", "UP_PRIMARY", "ACTING", "ACTING_PRIMARY"]);
    for (pg, s) in rows {
        let state = pg_state::to_text(s.state);
        t.row(vec![pg.to_string(), state, osds_text(&s.up), s.up_primary.to_string(), osds_text(&s.acting), s.acting_primary.to_string()]);
    }
    t.text()
}

/// A group's value under a heading. Lists that have no columns for primaries show them with the sets.
fn cell(heading: &str, pg: PgId, s: &PgStat, now: UTime, primary_beside: bool) -> String {
    let c = &s.stats.sum;
    let set = |osds: &[OsdId], primary: OsdId| if primary_beside { format!("{}p{primary}", osds_text(osds)) } else { osds_text(osds) };
    match heading.trim_start_matches('<') {
        "PG" | "PG_STAT" => pg.to_string(),
        "OBJECTS" => c.num_objects.to_string(),
        "MISSING_ON_PRIMARY" => c.num_objects_missing_on_primary.to_string(),
        "DEGRADED" => c.num_objects_degraded.to_string(),
        "MISPLACED" => c.num_objects_misplaced.to_string(),
        "UNFOUND" => c.num_objects_unfound.to_string(),
        "BYTES" => c.num_bytes.to_string(),
        "OMAP_BYTES*" => c.num_omap_bytes.to_string(),
        "OMAP_KEYS*" => c.num_omap_keys.to_string(),
        "LOG" => s.log_size.to_string(),
        "LOG_DUPS" => s.log_dups_size.to_string(),
        "DISK_LOG" => s.ondisk_log_size.to_string(),
        "STATE" => pg_state::to_text(s.state),
        "STATE_STAMP" => s.last_change.to_string(),
        "SINCE" => span_text(u64::from(now.sec.saturating_sub(s.last_change.sec))),
        "VERSION" => s.version.to_string(),
        "REPORTED" => format!("{}:{}", s.reported_epoch, s.reported_seq),
        "UP" => set(&s.up, s.up_primary),
        "UP_PRIMARY" => s.up_primary.to_string(),
        "ACTING" => set(&s.acting, s.acting_primary),
        "ACTING_PRIMARY" => s.acting_primary.to_string(),
        "LAST_SCRUB" => s.last_scrub.to_string(),
        "SCRUB_STAMP" => s.last_scrub_stamp.to_string(),
        "LAST_DEEP_SCRUB" => s.last_deep_scrub.to_string(),
        "DEEP_SCRUB_STAMP" => s.last_deep_scrub_stamp.to_string(),
        "SNAPTRIMQ_LEN" => s.snaptrimq_len.to_string(),
        "LAST_SCRUB_DURATION" => s.last_scrub_duration_s.to_string(),
        "SCRUB_SCHEDULING" => stat::scrub_schedule(s),
        "OBJECTS_SCRUBBED" => s.objects_scrubbed.to_string(),
        "OBJECTS_TRIMMED" => s.objects_trimmed.to_string(),
        other => unreachable!("no column {other}"),
    }
}

/// Groups in a table of these columns.
fn table_of(ctx: &Ctx<'_>, headings: &[&'static str], rows: &mut Rows<'_>) -> String {
    let mut t = Table::new(headings);
    let now = UTime::from_wall_ns(ctx.clock.wall_ns);
    let primary_beside = !headings.contains(&"UP_PRIMARY");
    for (pg, s) in rows {
        t.row(headings.iter().map(|heading| cell(heading, *pg, s, now, primary_beside)).collect());
    }
    t.text()
}

/// The columns of `pg dump`.
const DUMP: &[&str] = &[
    "<PG_STAT",
    "OBJECTS",
    "MISSING_ON_PRIMARY",
    "DEGRADED",
    "MISPLACED",
    "UNFOUND",
    "BYTES",
    "OMAP_BYTES*",
    "OMAP_KEYS*",
    "LOG",
    "LOG_DUPS",
    "DISK_LOG",
    "STATE",
    "STATE_STAMP",
    "VERSION",
    "REPORTED",
    "UP",
    "UP_PRIMARY",
    "ACTING",
    "ACTING_PRIMARY",
    "LAST_SCRUB",
    "SCRUB_STAMP",
    "LAST_DEEP_SCRUB",
    "DEEP_SCRUB_STAMP",
    "SNAPTRIMQ_LEN",
    "LAST_SCRUB_DURATION",
    "<SCRUB_SCHEDULING",
    "OBJECTS_SCRUBBED",
    "OBJECTS_TRIMMED",
];
/// Those of `pg ls`.
const LIST: &[&str] = &[
    "<PG",
    "OBJECTS",
    "DEGRADED",
    "MISPLACED",
    "UNFOUND",
    "BYTES",
    "OMAP_BYTES*",
    "OMAP_KEYS*",
    "LOG",
    "LOG_DUPS",
    "STATE",
    "SINCE",
    "VERSION",
    "REPORTED",
    "UP",
    "ACTING",
    "SCRUB_STAMP",
    "DEEP_SCRUB_STAMP",
    "LAST_SCRUB_DURATION",
    "<SCRUB_SCHEDULING",
];

fn list_of_osd(ctx: &mut Ctx<'_>, primary: bool) -> CmdResult {
    let (osd, pool) = (ctx.args.need_osd("osd")?, ctx.args.int("pool")?);
    list(ctx, pool, Some(osd), primary)
}

/// `pg ls`: groups of a pool, on an OSD (or with it as their primary), in any of some states.
fn list(ctx: &mut Ctx<'_>, pool: Option<PoolId>, osd: Option<OsdId>, primary: bool) -> CmdResult {
    let map = &ctx.mon.osd.map;
    if let Some(pool) = pool.filter(|p| *p >= 0 && map.pool(*p).is_none()) {
        return Err(CmdError::new(errno::ENOENT, format!("pool {pool} does not exist")));
    }
    if let Some(osd) = osd.filter(|o| !map.is_up(*o)) {
        return Err(CmdError::new(errno::EAGAIN, format!("osd {osd} is not up")));
    }
    let names = ctx.args.list("states");
    let mut wanted = (!names.is_empty() && !names.iter().any(|n| n == "all")).then_some((0u64, false));
    for name in &names {
        if let Some((bits, unknown)) = &mut wanted {
            match pg_state::parse(name) {
                Some(0) => *unknown = true,
                Some(bit) => *bits |= bit,
                None => {
                    let choices = pg_state::to_text(u64::MAX);
                    return Err(CmdError::new(errno::EINVAL, format!("'{name}' is not a valid pg state, available choices: {choices}")));
                }
            }
        }
    }
    let fits = |(pg, s): &(&PgId, &PgStat)| {
        pool.is_none_or(|p| p < 0 || pg.pool == p)
            && osd.is_none_or(|o| if primary { s.acting_primary == o } else { s.acting.contains(&o) || s.up.contains(&o) })
            && wanted.is_none_or(|(bits, unknown)| s.state & bits != 0 || (unknown && s.state == 0))
    };
    let rows: Vec<_> = ctx.mon.manager.pgs.pgs.iter().filter(fits).collect();
    if rows.is_empty() {
        return Ok(Reply::default());
    }
    let json = rows.iter().map(|(pg, s)| stat::pg(**pg, s)).collect();
    ctx.answer(ready(ctx, member("pg_stats", json)), || table_of(ctx, LIST, &mut rows.iter().copied()) + OMAP_NOTE)
}

fn stuck(ctx: &mut Ctx<'_>) -> CmdResult {
    let mut kinds = ctx.args.list("stuckops");
    if kinds.is_empty() {
        kinds.push("unclean".into());
    }
    let threshold = ctx.args.int("threshold")?.unwrap_or(ctx.mon.config.mon_number("mon_pg_stuck_threshold") as i64).max(0) as u32;
    let cutoff = UTime { sec: UTime::from_wall_ns(ctx.clock.wall_ns).sec.saturating_sub(threshold), nsec: 0 };
    let is_stuck = |s: &PgStat| {
        kinds.iter().any(|kind| {
            let (bad, since) = match kind.as_str() {
                "inactive" => (s.state & pg_state::ACTIVE == 0, s.last_active),
                "unclean" => (s.state & pg_state::CLEAN == 0, s.last_clean),
                "stale" => (s.state & pg_state::STALE != 0, s.last_unstale),
                "undersized" => (s.state & pg_state::UNDERSIZED != 0, s.last_fullsized),
                _ => (s.state & pg_state::DEGRADED != 0, s.last_undegraded),
            };
            bad && since < cutoff
        })
    };
    let rows: Vec<_> = ctx.mon.manager.pgs.pgs.iter().filter(|(_, s)| is_stuck(s)).collect();
    let json = rows.iter().map(|(pg, s)| stat::pg(**pg, s)).collect();
    let reply = ctx.answer(ready(ctx, member("stuck_pg_stats", json)), || {
        if rows.is_empty() { String::new() } else { brief_table(&mut rows.iter().copied()) }
    })?;
    Ok(reply.with_status("ok"))
}

fn debug(ctx: &mut Ctx<'_>) -> CmdResult {
    let what = ctx.args.need("debugop")?;
    let pgs = &ctx.mon.manager.pgs.pgs;
    let found = match what.as_str() {
        "unfound_objects_exist" => pgs.values().any(|s| s.stats.sum.num_objects_unfound > 0),
        _ => pgs.values().any(|s| s.stats.sum.num_objects_degraded > 0),
    };
    Ok(Reply::data(if found { "TRUE" } else { "FALSE" }))
}
