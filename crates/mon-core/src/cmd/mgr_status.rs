//! The manager, shown: `mgr dump|stat|services|metadata|count-metadata`, `mgr module ls`.

use super::mon_map::addrs_json;
use super::table::Table;
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use crate::Mon;
use maps::Release;
use maps::mgr_map::{ModuleInfo, ModuleOption};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd("mgr dump name=epoch,type=CephInt,range=0,req=false", "the map of managers", "mgr", "r", dump),
    cmd("mgr stat", "the active manager", "mgr", "r", stat),
    cmd("mgr services", "addresses of the manager's services", "mgr", "r", |ctx| {
        let services = json!(ctx.mon.mgrmap.map.services);
        ctx.answer_json(services)
    }),
    cmd("mgr module ls", "modules of the manager", "mgr", "r", module_ls),
    cmd("mgr metadata name=who,type=CephString,req=false", "what a manager runs on", "mgr", "r", metadata),
    cmd("mgr count-metadata name=property,type=CephString", "managers by a property of their metadata", "mgr", "r", |ctx| {
        let property = ctx.args.need("property")?;
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for m in all_metadata(ctx.mon).values() {
            *counts.entry(m.get(&property).cloned().unwrap_or_else(|| "unknown".into())).or_default() += 1;
        }
        ctx.answer_json(json!(counts))
    }),
];

/// Metadata of managers by name: stock ones said theirs, and of the endpoint we know it.
pub fn all_metadata(mon: &Mon) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut out = mon.mgrmap.metadata.clone();
    let map = &mon.mgrmap.map;
    if mon.mgrmap.is_endpoint() {
        let mut m = mon.options.metadata.clone();
        let front = map.active_addrs.front();
        m.insert("addr".into(), front.socket().map_or_else(String::new, |s| s.ip().to_string()));
        m.insert("addrs".into(), map.active_addrs.to_string());
        m.retain(|key, _| MGR_KEYS.contains(&key.as_str()));
        out.insert(map.active_name.clone(), m);
    }
    out
}
/// What a manager says of itself; monitors say more.
const MGR_KEYS: &[&str] = &[
    "addr",
    "addrs",
    "arch",
    "ceph_release",
    "ceph_version",
    "ceph_version_short",
    "container_hostname",
    "container_image",
    "container_name",
    "cpu",
    "distro",
    "distro_description",
    "distro_version",
    "hostname",
    "kernel_description",
    "kernel_version",
    "mem_swap_kb",
    "mem_total_kb",
    "os",
    "pod_name",
    "pod_namespace",
];

/// The name of an option's type and of its level.
pub fn option_kind(o: &ModuleOption) -> (&'static str, &'static str) {
    const KINDS: [&str; 11] = ["uint", "int", "str", "float", "bool", "addr", "addrvec", "uuid", "size", "secs", "millisecs"];
    const LEVELS: [&str; 3] = ["basic", "advanced", "dev"];
    (KINDS.get(usize::from(o.kind)).copied().unwrap_or("unknown"), LEVELS.get(usize::from(o.level)).copied().unwrap_or("unknown"))
}
fn option_json(o: &ModuleOption) -> Value {
    let (kind, level) = option_kind(o);
    json!({
        "name": o.name,
        "type": kind,
        "level": level,
        "flags": o.flags,
        "default_value": o.default_value,
        "min": o.min,
        "max": o.max,
        "enum_allowed": o.enum_allowed,
        "desc": o.desc,
        "long_desc": o.long_desc,
        "tags": o.tags,
        "see_also": o.see_also,
    })
}
fn module_json(m: &ModuleInfo) -> Value {
    let options: Map<String, Value> = m.options.iter().map(|(name, o)| (name.clone(), option_json(o))).collect();
    json!({"name": m.name, "can_run": m.can_run, "error_string": m.error_string, "module_options": options})
}

fn dump(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.mgrmap.map;
    if let Some(epoch) = ctx.args.int("epoch")?.filter(|e| *e != 0 && *e != i64::from(map.epoch)) {
        return Err(CmdError::new(errno::ENOENT, format!("there is no map for epoch {epoch}")));
    }
    let modules = |list: &[ModuleInfo]| list.iter().map(module_json).collect::<Vec<_>>();
    let standbys: Vec<Value> = map
        .standbys
        .values()
        .map(|s| json!({"gid": s.gid, "name": s.name, "mgr_features": s.mgr_features, "available_modules": modules(&s.available_modules)}))
        .collect();
    let always_on: Map<String, Value> =
        map.always_on_modules.iter().map(|(release, m)| (Release(*release as u8).name().to_string(), json!(m))).collect();
    let clients: Vec<Value> =
        map.clients.iter().map(|(name, addrs)| json!({"name": name, "addrvec": addrs_json(addrs)["addrvec"]})).collect();
    let json = json!({
        "epoch": map.epoch,
        "flags": map.flags,
        "active_gid": map.active_gid,
        "active_name": map.active_name,
        "active_addrs": addrs_json(&map.active_addrs),
        "active_addr": super::mon_map::legacy_text(&map.active_addrs),
        "active_change": map.active_change.to_string(),
        "active_mgr_features": map.active_mgr_features,
        "available": map.available,
        "standbys": standbys,
        "modules": map.modules,
        "available_modules": modules(&map.available_modules),
        "services": map.services,
        "always_on_modules": always_on,
        "last_failure_osd_epoch": map.last_failure_osd_epoch,
        "active_clients": clients,
    });
    ctx.answer_json(json)
}

fn stat(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.mgrmap.map;
    let json = json!({"epoch": map.epoch, "available": map.available, "active_name": map.active_name, "num_standby": map.standbys.len()});
    ctx.answer_json(json)
}

fn module_ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.mgrmap.map;
    let always_on = ctx.mon.mgrmap.always_on();
    let is_on = |name: &str| always_on.contains(name) || map.modules.contains(name);
    let disabled: Vec<&ModuleInfo> = map.available_modules.iter().filter(|m| !is_on(&m.name)).collect();
    let json = json!({
        "always_on_modules": always_on,
        "enabled_modules": map.modules.iter().filter(|m| !always_on.contains(*m)).collect::<Vec<_>>(),
        "disabled_modules": disabled.iter().map(|m| module_json(m)).collect::<Vec<_>>(),
    });
    ctx.answer(json, || {
        let mut t = Table::new(&["<MODULE", "<"]);
        always_on.iter().for_each(|m| t.row(vec![m.clone(), "on (always on)".into()]));
        map.modules.iter().filter(|m| !always_on.contains(*m)).for_each(|m| t.row(vec![m.clone(), "on".into()]));
        disabled.iter().for_each(|m| t.row(vec![m.name.clone(), "-".into()]));
        t.text()
    })
}

fn metadata(ctx: &mut Ctx<'_>) -> CmdResult {
    let all = all_metadata(ctx.mon);
    let shown = |name: &str, m: &BTreeMap<String, String>| {
        let mut v = Map::new();
        v.insert("name".into(), json!(name));
        v.extend(m.iter().map(|(k, v)| (k.clone(), json!(v))));
        Value::Object(v)
    };
    match ctx.args.text("who") {
        None => ctx.answer_json(all.iter().map(|(name, m)| shown(name, m)).collect()),
        Some(who) => {
            let name = who.strip_prefix("mgr.").unwrap_or(&who);
            let known = ctx.mon.mgrmap.map.standbys.values().any(|s| s.name == name);
            match all.get(name) {
                Some(m) => ctx.answer_json(shown(name, m)),
                None if known => Ok(Reply::data("{}\n")),
                None => Err(CmdError::new(errno::ENOENT, format!("mgr.{name} does not exist"))),
            }
        }
    }
}
