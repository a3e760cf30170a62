//! The MonMap, shown: `mon dump`, `mon stat`, `mon getmap`, `mon metadata`, `mon feature ls`. Changes of it are in `mon_alone`.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use crate::Mon;
use maps::mon_map::MonFeatures;
use serde_json::{Value, json};
use types::{EntityAddrVec, UTime, errno, features};

pub const COMMANDS: &[Command] = &[
    cmd("mon dump name=epoch,type=CephInt,range=0,req=false", "the map of monitors", "mon", "r", dump),
    cmd("mon stat", "the state of the monitors in a line", "mon", "r", stat),
    cmd("mon getmap name=epoch,type=CephInt,range=0,req=false", "the map of monitors, encoded", "mon", "r", getmap),
    cmd("mon metadata name=id,type=CephString,req=false", "what a monitor runs on", "mon", "r", metadata),
    cmd("mon feature ls name=with_value,type=CephBool,req=false", "features of the map of monitors", "mon", "r", feature_ls),
];

/// An address as JSON.
pub fn addr_json(addr: &types::EntityAddr) -> Value {
    let host = match addr.socket() {
        Some(socket) => socket.to_string(),
        None => "(unrecognized address family 0)".into(),
    };
    json!({"type": addr.kind.name(), "addr": host, "nonce": addr.nonce})
}
/// A vector of addresses as JSON.
pub fn addrs_json(addrs: &EntityAddrVec) -> Value {
    json!({"addrvec": addrs.0.iter().map(addr_json).collect::<Vec<_>>()})
}
/// The one address that fields of old show: the msgr1 one, or the first.
pub fn legacy_text(addrs: &EntityAddrVec) -> String {
    addrs.legacy().unwrap_or_else(|| addrs.front()).host_port_nonce()
}
/// A time as the map of monitors prints it: UTC, with `Z`.
fn zulu(t: UTime) -> String {
    t.to_string().replace("+0000", "Z")
}

pub fn monmap_json(mon: &Mon) -> Value {
    let m = &mon.monmap.map;
    let mons: Vec<Value> = m
        .ranks
        .iter()
        .enumerate()
        .filter_map(|(rank, name)| {
            let info = m.mons.get(name)?;
            let legacy = legacy_text(&info.public_addrs);
            Some(json!({
                "rank": rank,
                "name": name,
                "public_addrs": addrs_json(&info.public_addrs),
                "addr": legacy,
                "public_addr": legacy,
                "priority": info.priority,
                "weight": info.weight,
                "crush_location": "{}",
            }))
        })
        .collect();
    json!({
        "epoch": m.epoch,
        "fsid": m.fsid.to_string(),
        "modified": zulu(m.last_changed),
        "created": zulu(m.created),
        "min_mon_release": m.min_mon_release.0,
        "min_mon_release_name": m.min_mon_release.name(),
        "election_strategy": m.strategy,
        "disallowed_leaders: ": "",
        "stretch_mode": m.stretch_mode_enabled,
        "tiebreaker_mon": m.tiebreaker_mon,
        "removed_ranks: ": "",
        "features": {"persistent": MonFeatures::NAMES, "optional": []},
        "mons": mons,
    })
}

fn dump(ctx: &mut Ctx<'_>) -> CmdResult {
    let epoch = ctx.mon.monmap.map.epoch;
    if let Some(wanted) = ctx.args.int("epoch")?.filter(|e| *e != 0 && *e != i64::from(epoch)) {
        return Err(CmdError::new(errno::ENOENT, format!("there is no map for epoch {wanted}")));
    }
    let mut json = monmap_json(ctx.mon);
    json["quorum"] = json!([0]);
    let m = &ctx.mon.monmap.map;
    let reply = ctx.answer(json, || {
        let mut out = format!(
            "epoch {epoch}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} ({})\nelection_strategy: {}\n",
            m.fsid, m.last_changed, m.created, m.min_mon_release.0, m.min_mon_release, m.strategy
        );
        for (rank, name) in m.ranks.iter().enumerate() {
            out += &format!("{rank}: {} mon.{name}\n", m.mons[name].public_addrs);
        }
        out
    })?;
    Ok(reply.with_status(format!("dumped monmap epoch {epoch}")))
}

fn stat(ctx: &mut Ctx<'_>) -> CmdResult {
    let m = &ctx.mon.monmap.map;
    let addrs = &m.mons["a"].public_addrs;
    let json = json!({
        "epoch": m.epoch,
        "min_mon_release_name": m.min_mon_release.name(),
        "num_mons": m.mons.len(),
        "leader": "a",
        "quorum": [{"rank": 0, "name": "a"}],
    });
    ctx.answer(json, || {
        format!(
            "e{}: {} mons at {{a={addrs}}} removed_ranks: {{}} disallowed_leaders: {{}}, election epoch 3, leader 0 a, quorum 0 a\n",
            m.epoch,
            m.mons.len()
        )
    })
}

fn getmap(ctx: &mut Ctx<'_>) -> CmdResult {
    let bytes = ctx.mon.monmap.encoded(features::SUPPORTED);
    Ok(Reply::data(bytes).with_status(format!("got monmap epoch {}", ctx.mon.monmap.map.epoch)))
}

fn metadata(ctx: &mut Ctx<'_>) -> CmdResult {
    let mut of_a = json!({"addrs": ctx.mon.options.mon_addrs.to_string()});
    if !ctx.args.has("id") {
        // Who asks for one knows its name.
        of_a["name"] = json!("a");
    }
    for (key, value) in &ctx.mon.options.metadata {
        of_a[key] = json!(value);
    }
    match ctx.args.text("id") {
        Some(id) if id == "a" => ctx.answer_json(of_a),
        Some(id) => Err(CmdError::new(errno::ENOENT, format!("mon.{id} does not exist in monmap"))),
        None => ctx.answer_json(json!([of_a])),
    }
}

fn feature_ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let names = MonFeatures::NAMES;
    let all = json!({
        "all": {"supported": names, "persistent": names, "optional": []},
        "monmap": {"persistent": names, "optional": [], "required": names},
    });
    ctx.answer(all, || {
        let list = names.iter().enumerate().map(|(i, n)| format!("{n}({})", 1 << i)).collect::<Vec<_>>().join(",");
        format!("all features\n\tsupported: [{list}]\n\tpersistent: [{list}]\non current monmap (epoch {})\n\tpersistent: [{list}]\n\trequired: [{list}]\n", ctx.mon.monmap.map.epoch)
    })
}
