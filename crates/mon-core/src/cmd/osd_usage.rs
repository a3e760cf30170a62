//! How OSDs are used: `osd df`, `osd perf`, `osd utilization`, `osd blocked-by`, `osd numa-status`.

use super::osd_tree::{children, node_fields, share_text, status_name, strays, type_and_name};
use super::table::{Table, bytes_text, percent_text, weight_text};
use super::{CmdError, CmdResult, Command, Ctx, cmd, mgr_cmd};
use crush::TreeNode;
use maps::OsdMap;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::errno;
use types::osd_stat::StoreStatfs;

pub const COMMANDS: &[Command] = &[
    mgr_cmd(
        "osd df name=output_method,type=CephChoices,strings=plain|tree,req=false name=filter_by,type=CephChoices,strings=class|name,req=false \
         name=filter,type=CephString,req=false",
        "how full OSDs are",
        "osd",
        "r",
        df,
    ),
    mgr_cmd("osd perf", "how long the stores of OSDs take", "osd", "r", perf),
    mgr_cmd("osd blocked-by", "OSDs that others wait for", "osd", "r", blocked_by),
    cmd("osd utilization", "how placement groups are spread over OSDs", "osd", "r", utilization),
    cmd("osd numa-status", "which NUMA nodes OSDs run on", "osd", "r", numa_status),
];

/// What one line of `osd df` counts.
#[derive(Default, Clone, Copy)]
struct Usage {
    fs: StoreStatfs,
    pgs: u32,
}
impl Usage {
    /// Percent.
    fn utilization(&self) -> f64 {
        if self.fs.total == 0 { 0.0 } else { 100.0 * self.fs.used_raw() as f64 / self.fs.total as f64 }
    }
    /// Bytes of objects' data. A store counts whole extents, and its files are sparse: no more is data than is used.
    fn data(&self) -> i64 {
        self.fs.allocated.min(self.fs.used_raw() as i64)
    }
    fn fields(&self) -> [(&'static str, u64); 6] {
        let kb = |n: i64| n.max(0) as u64 >> 10;
        [
            ("", self.fs.total >> 10),
            ("_used", self.fs.used_raw() >> 10),
            ("_used_data", kb(self.data())),
            ("_used_omap", kb(self.fs.omap_allocated)),
            ("_used_meta", kb(self.fs.internal_metadata)),
            ("_avail", self.fs.available >> 10),
        ]
    }
    fn cells(&self) -> Vec<String> {
        let n = |n: i64| bytes_text(n.max(0) as u64);
        vec![
            bytes_text(self.fs.total),
            bytes_text(self.fs.used_raw()),
            n(self.data()),
            n(self.fs.omap_allocated),
            n(self.fs.internal_metadata),
            bytes_text(self.fs.available),
            percent_text(self.utilization() / 100.0),
        ]
    }
}

/// Leaves of the tree and of what stands in none only what is asked for: devices of a class, or what is below a name.
fn keep_chosen(map: &OsdMap, by: &str, filter: &str, nodes: &mut Vec<TreeNode>, stray: &mut Vec<TreeNode>) -> Result<(), CmdError> {
    let crush = &map.crush;
    let chosen: Vec<i32> = if by == "class" {
        if crush.class_id(filter).is_none() {
            return Err(CmdError::new(errno::EINVAL, format!("specified class '{filter}' does not exist")));
        }
        crush.devices_of_class(filter)
    } else {
        let id = crush.item_id(filter);
        crush.subtree(id.ok_or_else(|| CmdError::new(errno::EINVAL, format!("specified name '{filter}' does not exist")))?)
    };
    nodes.retain(|n| chosen.contains(&n.id) || (n.id < 0 && crush.devices_below(n.id).keys().any(|o| chosen.contains(o))));
    stray.retain(|n| chosen.contains(&n.id));
    Ok(())
}

/// How evenly OSDs are used.
struct Spread {
    average: f64,
    min_var: f64,
    max_var: f64,
    dev: f64,
}
impl Spread {
    /// OSDs without a size or a weight say nothing about it.
    fn of(map: &OsdMap, osds: &[(i32, Usage)], average: f64) -> Self {
        let mut spread = Self { average, min_var: f64::MAX, max_var: 0.0, dev: 0.0 };
        let (mut squares, mut weights, mut counted) = (0.0, 0.0, 0);
        for (osd, u) in osds.iter().filter(|(o, u)| u.fs.total > 0 && map.is_in(*o)) {
            spread.min_var = spread.min_var.min(spread.var(u));
            spread.max_var = spread.max_var.max(spread.var(u));
            let weight = f64::from(map.weight(*osd)) / 65536.0;
            squares += (u.utilization() - average).powi(2) * weight;
            weights += weight;
            counted += 1;
        }
        if counted == 0 {
            spread.min_var = 0.0;
        }
        if weights > 0.0 {
            spread.dev = (squares / weights).sqrt();
        }
        spread
    }
    /// One's use beside the average.
    fn var(&self, u: &Usage) -> f64 {
        if self.average > 0.0 { u.utilization() / self.average } else { 1.0 }
    }
}

/// What `osd df` shows.
struct UsageTable<'a> {
    map: &'a OsdMap,
    nodes: Vec<TreeNode>,
    stray: Vec<TreeNode>,
    /// By node.
    usage: BTreeMap<i32, Usage>,
    total: Usage,
    spread: Spread,
    as_tree: bool,
}
impl UsageTable<'_> {
    fn shown(&self) -> impl Iterator<Item = &TreeNode> {
        self.nodes.iter().filter(|n| self.as_tree || n.id >= 0)
    }
    fn row(&self, node: &TreeNode) -> Value {
        let (map, u) = (self.map, self.usage[&node.id]);
        let mut v = node_fields(map, node);
        v.insert("reweight".into(), if node.id >= 0 { json!(f64::from(map.weight(node.id)) / 65536.0) } else { json!(-1) });
        for (name, kb) in u.fields() {
            v.insert(format!("kb{name}"), json!(kb));
        }
        v.insert("utilization".into(), json!(u.utilization()));
        v.insert("var".into(), json!(self.spread.var(&u)));
        v.insert("pgs".into(), json!(u.pgs));
        if node.id >= 0 {
            v.insert("status".into(), json!(status_name(map, node.id)));
        } else {
            v.insert("children".into(), json!(children(&self.nodes, node.id)));
        }
        Value::Object(v)
    }
    fn json(&self) -> Value {
        let Spread { average, min_var, max_var, dev } = self.spread;
        let mut summary = Map::new();
        for (name, kb) in self.total.fields() {
            summary.insert(format!("total_kb{name}"), json!(kb));
        }
        for (name, value) in [("average_utilization", average), ("min_var", min_var), ("max_var", max_var), ("dev", dev)] {
            summary.insert(name.into(), json!(value));
        }
        json!({
            "nodes": self.shown().map(|n| self.row(n)).collect::<Vec<_>>(),
            "stray": self.stray.iter().map(|n| self.row(n)).collect::<Vec<_>>(),
            "summary": summary,
        })
    }
    fn text(&self) -> String {
        let map = self.map;
        let mut headings =
            vec!["ID", "CLASS", "WEIGHT", "REWEIGHT", "SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL", "%USE", "VAR", "PGS", "STATUS"];
        if self.as_tree {
            headings.push("<TYPE NAME");
        }
        let mut t = Table::new(&headings);
        for node in self.shown().chain(&self.stray) {
            let u = self.usage[&node.id];
            let class = if node.id >= 0 { map.crush.item_class(node.id).unwrap_or_default() } else { "" };
            let reweight = if node.id >= 0 { share_text(map.weight(node.id)) } else { "-".into() };
            let mut cells = vec![node.id.to_string(), class.to_string(), weight_text(node.weight), reweight];
            cells.extend(u.cells());
            cells.push(format!("{:.2}", self.spread.var(&u)));
            if node.id >= 0 {
                cells.extend([u.pgs.to_string(), status_name(map, node.id).into()]);
            } else {
                cells.extend(["-".into(), String::new()]);
            }
            if self.as_tree {
                cells.push(type_and_name(map, node));
            }
            t.row(cells);
        }
        let mut cells = vec![String::new(), String::new(), String::new(), "TOTAL".into()];
        cells.extend(self.total.cells());
        t.row(cells);
        let (Spread { min_var, max_var, .. }, dev) = (&self.spread, percent_text(self.spread.dev / 100.0));
        t.text() + &format!("MIN/MAX VAR: {min_var:.2}/{max_var:.2}  STDDEV: {dev}\n")
    }
}

fn df(ctx: &mut Ctx<'_>) -> CmdResult {
    let (map, pgs) = (&ctx.mon.osd.map, &ctx.mon.manager.pgs);
    let as_tree = ctx.args.text("output_method").is_some_and(|m| m == "tree");
    let (by, filter) = (ctx.args.text("filter_by"), ctx.args.text("filter"));
    if by.is_some() != filter.is_some() {
        return Err(CmdError::new(errno::EINVAL, "you must specify both 'filter_by' and 'filter'"));
    }
    let mut nodes = map.crush.walk(false);
    let mut stray = strays(map, &nodes);
    if let (Some(by), Some(filter)) = (by, filter) {
        keep_chosen(map, &by, &filter, &mut nodes, &mut stray)?;
    }
    let on = pgs.by_osd();
    let of_node = |id: i32| {
        let mut sum = Usage::default();
        for osd in if id >= 0 { vec![id] } else { map.crush.devices_below(id).into_keys().collect() } {
            sum.fs.add(&pgs.osds.get(&osd).map(|o| o.statfs).unwrap_or_default());
            sum.pgs += on.get(&osd).map_or(0, |(acting, _)| *acting);
        }
        sum
    };
    let usage: BTreeMap<i32, Usage> = nodes.iter().chain(&stray).map(|n| (n.id, of_node(n.id))).collect();
    let osds: Vec<(i32, Usage)> = usage.iter().filter(|(id, _)| **id >= 0).map(|(id, u)| (*id, *u)).collect();
    let mut total = Usage::default();
    osds.iter().for_each(|(_, u)| total.fs.add(&u.fs));
    let spread = Spread::of(map, &osds, total.utilization());
    let table = UsageTable { map, nodes, stray, usage, total, spread, as_tree };
    ctx.answer(table.json(), || table.text())
}

fn perf(ctx: &mut Ctx<'_>) -> CmdResult {
    let pgs = &ctx.mon.manager.pgs;
    let rows: Vec<Value> =
        pgs.osds.iter().map(|(id, o)| json!({"id": id, "perf_stats": super::stat_json::osd(None, o)["perf_stat"]})).collect();
    let members = [("osdstats".to_string(), json!({"osd_perf_infos": rows}))].into_iter().collect();
    ctx.answer(super::pg::ready(ctx, members), || {
        let mut t = Table::new(&[">osd", ">commit_latency(ms)", ">apply_latency(ms)"]);
        for (id, o) in &pgs.osds {
            let ms = |ns: u64| (ns / 1_000_000).to_string();
            t.row(vec![id.to_string(), ms(o.os_perf_stat.commit_latency_ns), ms(o.os_perf_stat.apply_latency_ns)]);
        }
        t.text()
    })
}

fn blocked_by(ctx: &mut Ctx<'_>) -> CmdResult {
    let mut counts: BTreeMap<i32, u32> = BTreeMap::new();
    for osd in ctx.mon.manager.pgs.pgs.values().flat_map(|s| &s.blocked_by) {
        *counts.entry(*osd).or_default() += 1;
    }
    let rows: Vec<Value> = counts.iter().map(|(id, n)| json!({"id": id, "num_blocked": n})).collect();
    let members = [("osd_blocked_by".to_string(), json!({"osd_blocked_by_infos": rows}))].into_iter().collect();
    ctx.answer(super::pg::ready(ctx, members), || {
        let mut t = Table::new(&[">osd", ">num_blocked"]);
        counts.iter().for_each(|(osd, n)| t.row(vec![osd.to_string(), n.to_string()]));
        t.text()
    })
}

fn utilization(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    let mut counts: BTreeMap<i32, u32> = map.osds().filter(|o| map.is_in(*o)).map(|o| (o, 0)).collect();
    let mut work = maps::Placement::default();
    let mut total = 0u32;
    for (id, pool) in &map.pools {
        for seed in 0..pool.pg_num {
            for osd in map.pg_to_up_acting(types::PgId::new(*id, seed), &mut work).up {
                if let Some(n) = counts.get_mut(&osd) {
                    *n += 1;
                    total += 1;
                }
            }
        }
    }
    let n = counts.len();
    let avg = total.checked_div(n as u32).unwrap_or(0);
    let (dev, expected) = if n == 0 {
        (0.0, 0.0)
    } else {
        let squares: f64 = counts.values().map(|c| (f64::from(*c) - f64::from(avg)).powi(2)).sum();
        (((squares / n as f64).sqrt()), (f64::from(avg) * (1.0 - 1.0 / n as f64)).sqrt())
    };
    let min = counts.iter().min_by_key(|(o, c)| (**c, **o)).map_or((-1, 0), |(o, c)| (*o, *c));
    let max = counts.iter().max_by_key(|(o, c)| (**c, -**o)).map_or((-1, 0), |(o, c)| (*o, *c));
    let json = json!({
        "avg_pgs": avg,
        "std_dev": dev,
        "expected_baseline_std_dev": expected,
        "min_osd": min.0,
        "min_osd_pgs": min.1,
        "max_osd": max.0,
        "max_osd_pgs": max.1,
    });
    ctx.answer(json, || {
        // Six digits at most.
        let trim = |f: f64| format!("{f:.5}").trim_end_matches('0').trim_end_matches('.').to_string();
        let share = |n: u32| if avg == 0 { 0.0 } else { f64::from(n) / f64::from(avg) };
        format!(
            "avg {avg}\nstddev {} (expected baseline {})\nmin osd.{} with {} pgs ({} * mean)\nmax osd.{} with {} pgs ({} * mean)\n",
            trim(dev),
            trim(expected),
            min.0,
            min.1,
            share(min.1),
            max.0,
            max.1,
            share(max.1)
        )
    })
}

fn numa_status(ctx: &mut Ctx<'_>) -> CmdResult {
    let (map, metadata) = (&ctx.mon.osd.map, &ctx.mon.osd.metadata);
    const NODES: [(&str, &str); 4] = [
        ("network_numa_node", "network_numa_node"),
        ("objectstore_numa_node", "objectstore_numa_node"),
        ("numa_node", "numa_node"),
        ("numa_node_cpus", "numa_node_cpus"),
    ];
    let rows: Vec<(i32, BTreeMap<String, String>)> = map.osds().filter_map(|o| Some((o, metadata.get(&o)?.clone()))).collect();
    let json: Vec<Value> = rows
        .iter()
        .map(|(osd, m)| {
            let mut v = json!({"osd": osd, "host": m.get("hostname").cloned().unwrap_or_default()});
            for (key, shown) in NODES {
                if let Some(value) = m.get(key) {
                    v[shown] = value.parse::<i64>().map_or_else(|_| json!(value), |n| json!(n));
                }
            }
            v
        })
        .collect();
    ctx.answer(json!(json), || {
        let mut t = Table::new(&["OSD", "<HOST", ">NETWORK", ">STORAGE", ">AFFINITY", "<CPUS"]);
        for (osd, m) in &rows {
            let mut cells = vec![osd.to_string(), m.get("hostname").cloned().unwrap_or_default()];
            cells.extend(NODES.iter().map(|(key, _)| m.get(*key).cloned().unwrap_or_else(|| "-".into())));
            t.row(cells);
        }
        t.text()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of sparse files counts whole extents.
    #[test]
    fn no_more_is_data_than_is_used() {
        let fs = StoreStatfs { total: 100 << 30, available: 99 << 30, allocated: 2 << 30, ..StoreStatfs::default() };
        let of = |allocated: i64| Usage { fs: StoreStatfs { allocated, ..fs }, pgs: 1 };
        let fields = |usage: &Usage| usage.fields().map(|(_, kb)| kb);
        assert_eq!(fields(&of(2 << 30))[1..3], [1 << 20, 1 << 20]);
        assert_eq!(fields(&of(1 << 29))[1..3], [1 << 20, 1 << 19]);
        let cells = of(2 << 30).cells();
        assert_eq!(cells[1], cells[2]);
    }
}
