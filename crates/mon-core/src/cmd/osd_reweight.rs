//! Weights that even out how full OSDs are: `osd reweight-by-utilization`, `osd reweight-by-pg`, and both as a test.

use super::{CmdError, CmdResult, Command, Ctx, mgr_cmd};
use maps::osd_map::ONE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::{OsdId, errno};

pub const COMMANDS: &[Command] = &[
    mgr_cmd(
        "osd reweight-by-utilization name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false \
         name=max_osds,type=CephInt,req=false name=no_increasing,type=CephBool,req=false",
        "changes weights of OSDs that hold more (default: 120 percent of the average) or less than others",
        "osd",
        "rw",
        |ctx| reweight(ctx, false, false),
    ),
    mgr_cmd(
        "osd test-reweight-by-utilization name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false \
         name=max_osds,type=CephInt,req=false name=no_increasing,type=CephBool,req=false",
        "what osd reweight-by-utilization would do",
        "osd",
        "r",
        |ctx| reweight(ctx, false, true),
    ),
    mgr_cmd(
        "osd reweight-by-pg name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false \
         name=max_osds,type=CephInt,req=false name=pools,type=CephPoolname,n=N,req=false",
        "changes weights of OSDs that have more groups than others",
        "osd",
        "rw",
        |ctx| reweight(ctx, true, false),
    ),
    mgr_cmd(
        "osd test-reweight-by-pg name=oload,type=CephInt,req=false name=max_change,type=CephFloat,req=false \
         name=max_osds,type=CephInt,req=false name=pools,type=CephPoolname,n=N,req=false",
        "what osd reweight-by-pg would do",
        "osd",
        "r",
        |ctx| reweight(ctx, true, true),
    ),
];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

/// How loaded each OSD is, and the average, in whatever unit they share.
struct Loads {
    average: f64,
    by_osd: BTreeMap<OsdId, f64>,
}

/// Groups for each unit of CRUSH weight.
fn loads_by_pg(ctx: &Ctx<'_>, pools: &[i64]) -> Result<Loads, CmdError> {
    let crush = &ctx.mon.osd.map.crush;
    let weights: BTreeMap<i32, u32> = crush.iter_buckets().flat_map(|b| b.weighted()).filter(|(item, _)| *item >= 0).collect();
    let weight = |osd: OsdId| f64::from(weights.get(&osd).copied().unwrap_or(0)) / f64::from(ONE);
    let mut counts: BTreeMap<OsdId, u64> = BTreeMap::new();
    let of_pools = ctx.mon.manager.pgs.pgs.iter().filter(|(pg, _)| pools.is_empty() || pools.contains(&pg.pool));
    for osd in of_pools.flat_map(|(_, stat)| &stat.acting) {
        if ctx.mon.osd.map.exists(*osd) && weight(*osd) > 0.0 {
            *counts.entry(*osd).or_default() += 1;
        }
    }
    let copies: u64 = counts.values().sum();
    let few = ctx.mon.config.mgr_number("mon_reweight_min_pgs_per_osd");
    if counts.is_empty() || ((copies / counts.len() as u64) as f64) < few {
        return err(errno::EDOM, format!("Refusing to reweight: we only have {copies} PGs across {} osds!", counts.len()));
    }
    let sum: f64 = counts.keys().map(|osd| weight(*osd)).sum();
    let by_osd = counts.iter().map(|(osd, n)| (*osd, *n as f64 / weight(*osd))).collect();
    Ok(Loads { average: copies as f64 / sum, by_osd })
}

/// The share of its bytes that an OSD uses.
fn loads_by_bytes(ctx: &Ctx<'_>) -> Result<Loads, CmdError> {
    let pgs = &ctx.mon.manager.pgs;
    let all = pgs.statfs();
    let few = ctx.mon.config.mgr_number("mon_reweight_min_bytes_per_osd") as u64;
    let osds = pgs.osds.len().max(1) as u64;
    for (bytes, used) in [(all.total, ""), (all.used_raw(), " used")] {
        if bytes / osds < few {
            return err(errno::EDOM, format!("Refusing to reweight: we only have {} kb{used} across all osds!", bytes / 1024));
        }
    }
    let share = |used: u64, total: u64| used as f64 / total.max(1) as f64;
    let by_osd = pgs.osds.iter().map(|(osd, o)| (*osd, share(o.statfs.used_raw(), o.statfs.total))).collect();
    Ok(Loads { average: share(all.used_raw(), all.total), by_osd })
}

fn reweight(ctx: &mut Ctx<'_>, by_pg: bool, test: bool) -> CmdResult {
    let percent = ctx.args.int("oload")?.unwrap_or(120);
    let mut pools = Vec::new();
    for name in ctx.args.list("pools") {
        match ctx.mon.osd.map.pool_by_name(&name) {
            Some(pool) => pools.push(pool),
            None => return err(errno::ENOENT, format!("pool '{name}' does not exist")),
        }
    }
    let max_change = ctx.args.float("max_change")?.unwrap_or_else(|| ctx.mon.config.mgr_number("mon_reweight_max_change"));
    if max_change <= 0.0 {
        return err(errno::EINVAL, format!("max_change {max_change} must be positive"));
    }
    let max_osds = ctx.args.int("max_osds")?.unwrap_or_else(|| ctx.mon.config.mgr_number("mon_reweight_max_osds") as i64);
    if max_osds <= 0 {
        return err(errno::EINVAL, format!("max_osds {max_osds} must be positive"));
    }
    if percent <= 100 {
        let text = "You must give a percentage higher than 100. The reweighting threshold will be calculated as <average-utilization> times \
                    <input-percentage>. For example, an argument of 200 would reweight OSDs which are twice as utilized as the average OSD.";
        return err(errno::EINVAL, text);
    }
    let loads = if by_pg { loads_by_pg(ctx, &pools)? } else { loads_by_bytes(ctx)? };
    let threshold = loads.average * percent as f64 / 100.0;
    let changes = choose(ctx, &loads, threshold, max_change, max_osds as usize, ctx.args.flag("no_increasing"));
    let share = |weight: u32| f64::from(weight) / f64::from(ONE);
    let rows: Vec<Value> =
        changes.iter().map(|(osd, (old, new))| json!({"osd": osd, "weight": share(*old), "new_weight": share(*new)})).collect();
    let json = json!({
        "overload_min": percent,
        "max_change": max_change,
        "max_change_osds": max_osds,
        "average_utilization": loads.average,
        "overload_utilization": threshold,
        "reweights": rows,
    });
    let reply = ctx.answer(json, || {
        let mut out = format!("oload {percent}\nmax_change {max_change}\nmax_change_osds {max_osds}\n");
        out += &format!("average_utilization {:.4}\noverload_utilization {threshold:.4}\n", loads.average);
        for (osd, (old, new)) in &changes {
            out += &format!("osd.{osd} weight {:.4} -> {:.4}\n", share(*old), share(*new));
        }
        out
    })?;
    if test || changes.is_empty() {
        return Ok(reply.with_status("no change"));
    }
    for (osd, (_, new)) in changes {
        ctx.mon.osd.pending().new_weight.insert(osd, new);
    }
    Ok(reply)
}

/// New weights, those that are farthest from the average first: less for those above `threshold`, more for those below the average.
fn choose(
    ctx: &Ctx<'_>,
    loads: &Loads,
    threshold: f64,
    max_change: f64,
    max_osds: usize,
    no_increasing: bool,
) -> BTreeMap<OsdId, (u32, u32)> {
    let step = (max_change * f64::from(ONE)) as u32;
    let mut order: Vec<(OsdId, f64)> = loads.by_osd.iter().map(|(osd, load)| (*osd, *load)).collect();
    let far = |load: f64| (load - loads.average).abs();
    order.sort_by(|a, b| far(b.1).total_cmp(&far(a.1)));
    let mut changes = BTreeMap::new();
    for (osd, load) in order {
        let weight = ctx.mon.osd.map.weight(osd);
        if changes.len() >= max_osds {
            break;
        }
        if weight == 0 {
            continue;
        }
        let fair = (loads.average / load * f64::from(weight)).min(f64::from(u32::MAX)) as u32;
        if load >= threshold && load > 0.0 {
            changes.insert(osd, (weight, fair.max(weight.saturating_sub(step))));
        } else if !no_increasing && load <= loads.average {
            let new = fair.min(weight.saturating_add(step)).min(ONE);
            if new > weight {
                changes.insert(osd, (weight, new));
            }
        }
    }
    changes
}
