//! Daemons of other kinds, devices and clocks: `service`, `node ls`, `device ls`, `time-sync-status`.
//!
//! There are no known devices here: what is shown is what the maps say, and they say that there are none.

use super::table::Table;
use super::{CmdError, CmdResult, Command, Ctx, cmd, mgr_cmd};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd("time-sync-status", "how far the monitors' clocks differ", "mon", "r", |ctx| {
        // One monitor has no other to compare its clock with: no round was ever begun.
        ctx.answer_json(json!({"timechecks": {"epoch": 3, "round": 0, "round_status": "finished"}}))
    }),
    cmd("node ls name=type,type=CephChoices,strings=all|osd|mon|mds|mgr,req=false", "which daemons run on which host", "mon", "r", node_ls),
    mgr_cmd("service dump", "the map of services", "service", "r", service_dump),
    mgr_cmd("service status", "what daemons of services say of themselves", "service", "r", service_status),
    mgr_cmd("device ls", "devices below daemons", "mgr", "r", |ctx| {
        ctx.answer(json!([]), || Table::new(&["<DEVICE", "<HOST:DEV", "<DAEMONS", "WEAR", "<LIFE EXPECTANCY"]).text())
    }),
    mgr_cmd("device info name=devid,type=CephString", "a device", "mgr", "r", |ctx| {
        let id = ctx.args.need("devid")?;
        Err(CmdError::new(errno::ENOENT, format!("device {id} not found")))
    }),
    mgr_cmd(
        "device set-life-expectancy name=devid,type=CephString name=from,type=CephString name=to,type=CephString,req=false",
        "says how long a device will last",
        "mgr",
        "rw",
        |_| no_predictions(),
    ),
    mgr_cmd("device rm-life-expectancy name=devid,type=CephString", "takes that back", "mgr", "rw", |_| no_predictions()),
    mgr_cmd("device ls-by-daemon name=who,type=CephString", "devices below a daemon", "mgr", "r", |ctx| ctx.answer(json!([]), String::new)),
    mgr_cmd("device ls-by-host name=host,type=CephString", "devices of a host", "mgr", "r", |ctx| ctx.answer(json!([]), String::new)),
];

/// Nothing here goes by a device's age.
fn no_predictions() -> CmdResult {
    Err(CmdError::new(errno::EOPNOTSUPP, "Humboldt predicts no disk's life: `ceph device` commands need a stock manager"))
}

/// The map of services, as `status` and `service dump` show it.
pub fn servicemap_json(map: &maps::ServiceMap) -> Value {
    let services: Map<String, Value> = map
        .services
        .iter()
        .map(|(name, service)| {
            let mut daemons = Map::new();
            daemons.insert("summary".into(), json!(service.summary));
            for (id, d) in &service.daemons {
                let row = json!({
                    "start_epoch": d.start_epoch,
                    "start_stamp": d.start_stamp.to_string(),
                    "gid": d.gid,
                    "addr": d.addr.host_port_nonce(),
                    "metadata": d.metadata,
                    "task_status": d.task_status,
                });
                daemons.insert(id.clone(), row);
            }
            (name.clone(), json!({"daemons": daemons}))
        })
        .collect();
    json!({"epoch": map.epoch, "modified": map.modified.to_string(), "services": services})
}

fn service_dump(ctx: &mut Ctx<'_>) -> CmdResult {
    let json = servicemap_json(&ctx.mon.manager.services.map);
    ctx.answer_json(json)
}

fn service_status(ctx: &mut Ctx<'_>) -> CmdResult {
    let mut all = Map::new();
    for (kind, service) in &ctx.mon.manager.services.map.services {
        let mut daemons = Map::new();
        for id in service.daemons.keys() {
            if let Some(d) = ctx.mon.manager.daemons.get(&format!("{kind}.{id}")) {
                let seen = d.last_seen.to_string();
                daemons.insert(id.clone(), json!({"status_stamp": seen, "last_beacon": seen, "status": d.status}));
            }
        }
        all.insert(kind.clone(), Value::Object(daemons));
    }
    ctx.answer_json(Value::Object(all))
}

fn node_ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let wanted = ctx.args.text("type").unwrap_or_else(|| "all".into());
    let mon = &*ctx.mon;
    let here = mon.options.metadata.get("hostname").cloned().unwrap_or_default();
    let mut osds: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for osd in mon.osd.map.osds() {
        let host = mon.osd.metadata.get(&osd).and_then(|m| m.get("hostname")).cloned();
        osds.entry(host.unwrap_or_default()).or_default().push(osd);
    }
    let mut v = Map::new();
    v.insert("mon".into(), json!({here.clone(): [crate::monmap::NAME]}));
    v.insert("osd".into(), json!(osds));
    let mut mgrs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, m) in super::mgr_status::all_metadata(mon) {
        mgrs.entry(m.get("hostname").cloned().unwrap_or_else(|| here.clone())).or_default().push(name);
    }
    v.insert("mgr".into(), json!(mgrs));
    let mut servers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (gid, m) in &mon.fs.metadata {
        if let (Some(host), Some(info)) = (m.get("hostname"), mon.fs.map.daemon(*gid)) {
            servers.entry(host.clone()).or_default().push(info.name.clone());
        }
    }
    // Without any, tools that go through the kinds find none of that name.
    if !servers.is_empty() || wanted == "mds" {
        v.insert("mds".into(), json!(servers));
    }
    match wanted.as_str() {
        "all" => ctx.answer_json(Value::Object(v)),
        kind => ctx.answer_json(v.remove(kind).unwrap_or_default()),
    }
}
