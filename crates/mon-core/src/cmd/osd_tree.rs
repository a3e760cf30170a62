//! The CRUSH tree as people see it: `osd tree`, `osd tree-from`, `osd ls-tree`, `osd crush tree`, `osd crush ls`.

use super::table::{Table, weight_text};
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use crush::TreeNode;
use maps::{OsdMap, osd_state};
use serde_json::{Map, Value, json};
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd tree name=epoch,type=CephInt,range=0,req=false name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        "OSDs in their tree",
        "osd",
        "r",
        |ctx| tree(ctx, None),
    ),
    cmd(
        "osd tree-from name=epoch,type=CephInt,range=0,req=false name=bucket,type=CephString \
         name=states,type=CephChoices,strings=up|down|in|out|destroyed,n=N,req=false",
        "OSDs in the tree below a bucket",
        "osd",
        "r",
        |ctx| {
            let bucket = ctx.args.need("bucket")?;
            tree(ctx, Some(bucket))
        },
    ),
    cmd(
        "osd ls-tree name=epoch,type=CephInt,range=0,req=false name=name,type=CephString",
        "numbers of OSDs below a bucket",
        "osd",
        "r",
        ls_tree,
    ),
    cmd(
        "osd crush tree name=show_shadow,type=CephBool,req=false",
        "buckets and items of the CRUSH map in their tree",
        "osd",
        "r",
        crush_tree,
    ),
    cmd("osd crush ls name=node,type=CephString,goodchars=[A-Za-z0-9-_.]", "items directly below a bucket", "osd", "r", crush_ls),
];

/// The map of the epoch that a request names, or the present one.
pub fn map_of_request(ctx: &Ctx<'_>) -> Result<OsdMap, CmdError> {
    let epoch = ctx.args.int("epoch")?.unwrap_or(0);
    let map = u32::try_from(epoch).ok().and_then(|e| ctx.mon.osd.map_at(e));
    map.ok_or_else(|| CmdError::new(errno::ENOENT, format!("there is no map for epoch {epoch}")))
}

/// What every node shows, whatever lists it.
pub fn node_fields(map: &OsdMap, node: &TreeNode) -> Map<String, Value> {
    let crush = &map.crush;
    let mut v = Map::new();
    let kind = crush.item_type(node.id).unwrap_or(0);
    v.insert("id".into(), json!(node.id));
    if let Some(class) = crush.item_class(node.id).filter(|_| node.id >= 0) {
        v.insert("device_class".into(), json!(class));
    }
    let name = crush.item_name(node.id).map_or_else(|| format!("osd.{}", node.id), str::to_string);
    v.insert("name".into(), json!(name));
    v.insert("type".into(), json!(crush.type_name(kind).unwrap_or("osd")));
    v.insert("type_id".into(), json!(kind));
    if node.id >= 0 {
        v.insert("crush_weight".into(), json!(f64::from(node.weight) / 65536.0));
        v.insert("depth".into(), json!(node.depth));
    }
    if node.parent.is_some() {
        v.insert("pool_weights".into(), json!({}));
    }
    v
}
/// The nodes below one, last first, as the tree lists them.
pub fn children(nodes: &[TreeNode], id: i32) -> Vec<i32> {
    nodes.iter().filter(|n| n.parent == Some(id)).map(|n| n.id).rev().collect()
}
/// OSDs that exist and stand nowhere in the tree.
pub fn strays(map: &OsdMap, nodes: &[TreeNode]) -> Vec<TreeNode> {
    let lost = map.osds().filter(|o| nodes.iter().all(|n| n.id != *o));
    lost.map(|id| TreeNode { id, parent: None, depth: 0, weight: 0 }).collect()
}

pub fn status_name(map: &OsdMap, osd: i32) -> &'static str {
    if map.is_up(osd) {
        "up"
    } else if map.is_destroyed(osd) {
        "destroyed"
    } else {
        "down"
    }
}
/// A fraction of one as the table shows weights: `1.00000`, `0`.
pub fn share_text(share: u32) -> String {
    if share == 0 { "0".into() } else { weight_text(share) }
}

fn tree(ctx: &mut Ctx<'_>, below: Option<String>) -> CmdResult {
    let map = map_of_request(ctx)?;
    let states = ctx.args.list("states");
    for (a, b) in [("up", "down"), ("in", "out"), ("up", "destroyed"), ("down", "destroyed")] {
        if states.iter().any(|s| s == a) && states.iter().any(|s| s == b) {
            return Err(CmdError::new(errno::EINVAL, format!("cannot specify both {a} and {b}")));
        }
    }
    let mut nodes = match &below {
        None => map.crush.walk(false),
        Some(name) => {
            let id = map.crush.item_id(name).ok_or_else(|| CmdError::new(errno::ENOENT, format!("bucket '{name}' does not exist")))?;
            if id >= 0 {
                return Err(CmdError::new(errno::EINVAL, format!("'{name}' is not a bucket")));
            }
            map.crush.walk_from(id)
        }
    };
    let mut stray = if below.is_none() { strays(&map, &nodes) } else { Vec::new() };
    if !states.is_empty() {
        let shown = |osd: i32| {
            states.iter().all(|s| match s.as_str() {
                "up" => map.is_up(osd),
                "down" => map.is_down(osd) && !map.is_destroyed(osd),
                "in" => map.is_in(osd),
                "out" => map.is_out(osd),
                _ => map.state(osd) & osd_state::DESTROYED != 0,
            })
        };
        let crush = &map.crush;
        nodes.retain(|n| if n.id >= 0 { shown(n.id) } else { crush.devices_below(n.id).keys().any(|o| shown(*o)) });
        stray.retain(|n| shown(n.id));
    }
    let row = |node: &TreeNode| {
        let mut v = node_fields(&map, node);
        if node.id >= 0 {
            v.insert("exists".into(), json!(i32::from(map.exists(node.id))));
            v.insert("status".into(), json!(status_name(&map, node.id)));
            v.insert("reweight".into(), json!(f64::from(map.weight(node.id)) / 65536.0));
            v.insert("primary_affinity".into(), json!(f64::from(map.primary_affinity(node.id)) / 65536.0));
        } else {
            v.insert("children".into(), json!(children(&nodes, node.id)));
        }
        Value::Object(v)
    };
    let json = json!({
        "nodes": nodes.iter().map(row).collect::<Vec<_>>(),
        "stray": stray.iter().map(row).collect::<Vec<_>>(),
    });
    ctx.answer(json, || {
        let mut t = Table::new(&["ID", "CLASS", "WEIGHT", "<TYPE NAME", "STATUS", "REWEIGHT", "PRI-AFF"]);
        for node in nodes.iter().chain(&stray) {
            let mut cells = tree_cells(&map, node);
            if node.id >= 0 {
                let (reweight, affinity) = (share_text(map.weight(node.id)), share_text(map.primary_affinity(node.id)));
                let status = if map.exists(node.id) { status_name(&map, node.id) } else { "DNE" };
                cells.extend([status.into(), reweight, affinity]);
            }
            t.row(cells);
        }
        t.text()
    })
}

/// Number, class, weight, and type and name set in by depth.
pub fn tree_cells(map: &OsdMap, node: &TreeNode) -> Vec<String> {
    let crush = &map.crush;
    let class = if node.id >= 0 { crush.item_class(node.id).unwrap_or_default() } else { "" };
    vec![node.id.to_string(), class.to_string(), weight_text(node.weight), type_and_name(map, node)]
}
/// `    host a`: set in by depth.
pub fn type_and_name(map: &OsdMap, node: &TreeNode) -> String {
    let crush = &map.crush;
    let indent = "    ".repeat(node.depth);
    if node.id >= 0 {
        return format!("{indent}osd.{}", node.id);
    }
    let kind = crush.item_type(node.id).and_then(|t| crush.type_name(t)).unwrap_or_default();
    format!("{indent}{kind} {}", crush.item_name(node.id).unwrap_or_default())
}

fn crush_tree(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    let shadow = ctx.args.flag("show_shadow");
    let nodes = map.crush.walk(shadow);
    let row = |node: &TreeNode| {
        let mut v = node_fields(map, node);
        if node.id < 0 {
            v.insert("children".into(), json!(children(&nodes, node.id)));
        }
        Value::Object(v)
    };
    let json = json!({"nodes": nodes.iter().map(row).collect::<Vec<_>>(), "stray": []});
    ctx.answer(json, || {
        let mut t = Table::new(&["ID", "CLASS", "WEIGHT", "<TYPE NAME"]);
        nodes.iter().for_each(|node| t.row(tree_cells(map, node)));
        t.text()
    })
}

fn ls_tree(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = map_of_request(ctx)?;
    let name = ctx.args.need("name")?;
    let Some(id) = map.crush.item_id(&name) else {
        return Err(CmdError::new(errno::ENOENT, format!("\"{name}\" does not exist")));
    };
    let osds: Vec<i32> = map
        .crush
        .subtree(id)
        .into_iter()
        .filter(|o| *o >= 0 && map.exists(*o))
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    ctx.answer(json!(osds), || osds.iter().map(|o| format!("{o}\n")).collect())
}

fn crush_ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let crush = &ctx.mon.osd.map.crush;
    let name = ctx.args.need("node")?;
    let Some(id) = crush.item_id(&name) else {
        return Err(CmdError::new(errno::ENOENT, format!("node '{name}' does not exist")));
    };
    let below = crush.bucket(id).map(|b| b.items.clone()).unwrap_or_else(|| vec![id]);
    let names: Vec<String> = below.iter().filter_map(|i| crush.item_name(*i)).map(str::to_string).collect();
    if ctx.args.asks_for_fields() {
        return ctx.answer_json(json!(names));
    }
    Ok(Reply::data(names.iter().map(|n| format!("{n}\n")).collect::<String>()))
}
