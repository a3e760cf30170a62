//! What the cluster is: `fsid`, `version`, `versions`, `features`, `mon_status`.

use super::{CmdResult, Command, Ctx, cmd, cmd_flags, flag};
use crate::mgr::services::is_kind_of_daemon;
use crate::{CEPH_VERSION, Mon};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::{EntityKind, features};

pub const COMMANDS: &[Command] = &[
    cmd("fsid", "the cluster's id", "mon", "r", fsid),
    cmd_flags("version", "the monitor's version", "mon", "r", flag::NOFORWARD | flag::HIDDEN | flag::TELL, version),
    cmd("versions", "versions of all daemons, counted", "mon", "r", versions),
    cmd("mon versions", "versions of monitors, counted", "mon", "r", |ctx| one_kind(ctx, "mon")),
    cmd("mgr versions", "versions of managers, counted", "mgr", "r", |ctx| one_kind(ctx, "mgr")),
    cmd("osd versions", "versions of OSDs, counted", "osd", "r", |ctx| one_kind(ctx, "osd")),
    cmd("mds versions", "versions of metadata servers, counted", "mds", "r", |ctx| one_kind(ctx, "mds")),
    cmd("features", "features of connected clients and daemons", "mon", "r", connected_features),
    cmd("quorum_status", "the monitors that agree", "mon", "r", quorum_status),
    cmd_flags("mon_status", "the monitor's state", "mon", "r", flag::NOFORWARD | flag::HIDDEN | flag::TELL, |ctx| {
        ctx.answer_json(mon_status(ctx.mon))
    }),
];

fn fsid(ctx: &mut Ctx<'_>) -> CmdResult {
    let fsid = ctx.mon.options.fsid.to_string();
    ctx.answer(json!({"fsid": fsid}), || fsid.clone() + "\n")
}

fn version(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.answer(json!({"version": CEPH_VERSION}), || format!("{CEPH_VERSION}\n"))
}

/// Versions of the daemons of one kind, with how many have each.
fn count_versions(mon: &Mon, kind: &str) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    match kind {
        "mon" => drop(out.insert(CEPH_VERSION.to_string(), 1)),
        "mgr" => {
            for m in super::mgr_status::all_metadata(mon).values() {
                *out.entry(m.get("ceph_version").cloned().unwrap_or_else(|| "unknown".into())).or_default() += 1;
            }
        }
        "osd" => {
            for osd in mon.osd.map.osds().filter(|o| mon.osd.map.is_up(*o)) {
                let version = mon.osd.metadata.get(&osd).and_then(|m| m.get("ceph_version")).cloned();
                *out.entry(version.unwrap_or_else(|| "unknown".into())).or_default() += 1;
            }
        }
        "mds" => out = super::mds::count_metadata(mon, "ceph_version"),
        _ => {}
    }
    out
}
fn versions(ctx: &mut Ctx<'_>) -> CmdResult {
    let mut json = Map::new();
    let mut overall: BTreeMap<String, u64> = BTreeMap::new();
    for kind in ["mon", "mgr", "osd", "mds"] {
        let counted = count_versions(ctx.mon, kind);
        if kind == "mds" && counted.is_empty() {
            continue;
        }
        for (version, n) in &counted {
            *overall.entry(version.clone()).or_default() += n;
        }
        json.insert(kind.into(), json!(counted));
    }
    let services = &ctx.mon.manager.services.map.services;
    for (name, service) in services.iter().filter(|(name, _)| !is_kind_of_daemon(name)) {
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for daemon in service.daemons.values() {
            let version = daemon.metadata.get("ceph_version").cloned().unwrap_or_else(|| "unknown".into());
            *overall.entry(version.clone()).or_default() += 1;
            *counted.entry(version).or_default() += 1;
        }
        json.insert(name.clone(), json!(counted));
    }
    json.insert("overall".into(), json!(overall));
    ctx.answer_json(Value::Object(json))
}
fn one_kind(ctx: &mut Ctx<'_>, kind: &str) -> CmdResult {
    let counted = count_versions(ctx.mon, kind);
    ctx.answer_json(json!(counted))
}

/// Groups of feature bits by kind of peer.
fn connected_features(ctx: &mut Ctx<'_>) -> CmdResult {
    let mut groups: BTreeMap<EntityKind, BTreeMap<u64, u64>> = BTreeMap::new();
    *groups.entry(EntityKind::MON).or_default().entry(features::SUPPORTED).or_default() += 1;
    for session in ctx.mon.sessions.values().filter(|s| s.endpoint == crate::Endpoint::Mon) {
        *groups.entry(session.peer.entity.kind).or_default().entry(session.peer.features).or_default() += 1;
    }
    if ctx.mon.mgrmap.is_endpoint() {
        groups.entry(EntityKind::MGR).or_default().entry(features::SUPPORTED).or_insert(1);
    }
    let release = |f: u64| match f {
        f if features::has(f, features::SERVER_REEF) => "reef",
        f if features::has(f, features::SERVER_QUINCY) => "quincy",
        f if features::has(f, features::SERVER_PACIFIC) => "luminous",
        f if features::has(f, features::SERVER_LUMINOUS) => "luminous",
        _ => "jewel",
    };
    let release = |f: u64| if release(f) == "jewel" { "jewel" } else { "luminous" };
    let json: Map<String, Value> = groups
        .into_iter()
        .map(|(kind, by_features)| {
            let rows = by_features.into_iter().map(|(f, num)| json!({"features": format!("{f:#x}"), "release": release(f), "num": num}));
            (kind.name().to_string(), rows.collect())
        })
        .collect();
    ctx.answer_json(Value::Object(json))
}

fn quorum_status(ctx: &mut Ctx<'_>) -> CmdResult {
    let json = json!({
        "election_epoch": 3,
        "quorum": [0],
        "quorum_names": ["a"],
        "quorum_leader_name": "a",
        "quorum_age": quorum_age(ctx),
        "features": quorum_features(),
        "monmap": super::mon_map::monmap_json(ctx.mon),
    });
    ctx.answer_json(json)
}
pub fn quorum_age(ctx: &Ctx<'_>) -> u64 {
    (ctx.clock.wall_ns.saturating_sub(ctx.mon.started.wall_ns())) / 1_000_000_000
}
fn quorum_features() -> Value {
    json!({"quorum_con": features::SUPPORTED.to_string(), "quorum_mon": maps::mon_map::MonFeatures::NAMES})
}

/// What a monitor says of itself: also the answer to a ping.
pub fn mon_status(mon: &Mon) -> Value {
    json!({
        "name": "a",
        "rank": 0,
        "state": "leader",
        "election_epoch": 3,
        "quorum": [0],
        "features": {
            "required_con": "0",
            "required_mon": maps::mon_map::MonFeatures::NAMES,
            "quorum_con": features::SUPPORTED.to_string(),
            "quorum_mon": maps::mon_map::MonFeatures::NAMES,
        },
        "outside_quorum": [],
        "extra_probe_peers": [],
        "sync_provider": [],
        "monmap": super::mon_map::monmap_json(mon),
        "feature_map": {},
        "stretch_mode": false,
    })
}
