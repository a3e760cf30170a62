//! Maps of file systems as JSON and as text, laid out as Ceph's tools read them.

use super::mon_map::{addrs_json, legacy_text};
use maps::mds_map::{FeatureBits, NO_FS, mds_flags};
use maps::{Filesystem, FsMap, MdsInfo, MdsMap, MdsState};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Display;
use types::{CompatSet, FeatureSet};

/// Features that clients of CephFS may have, by number (18.2 `src/mds/cephfs_features.cc`).
pub const CLIENT_FEATURES: [&str; 22] = [
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "jewel",
    "kraken",
    "luminous",
    "mimic",
    "reply_encoding",
    "reclaim_client",
    "lazy_caps_wanted",
    "multi_reconnect",
    "deleg_ino",
    "metric_collect",
    "alternate_name",
    "notify_session_state",
    "op_getvxattr",
    "32bits_retry_fwd",
    "new_snaprealm_info",
    "has_owner_uidgid",
    "client_mds_auth_caps",
];

fn required(bits: &FeatureBits) -> impl Iterator<Item = (usize, &'static str)> {
    CLIENT_FEATURES.iter().copied().enumerate().filter(|(bit, _)| bits.test(*bit))
}

pub fn compat_json(set: &CompatSet) -> Value {
    let features =
        |f: &FeatureSet| -> Map<String, Value> { f.names.iter().map(|(n, name)| (format!("feature_{n}"), json!(name))).collect() };
    json!({"compat": features(&set.compat), "ro_compat": features(&set.ro_compat), "incompat": features(&set.incompat)})
}

/// Flags by name, as they are shown: true for what is allowed or refused.
fn flags(mds: &MdsMap) -> impl Iterator<Item = (&'static str, bool)> {
    let flags = mds.flags;
    mds_flags::NAMES.into_iter().map(move |(bit, name)| (name, (flags & bit != 0) != (bit == mds_flags::NOT_JOINABLE)))
}
pub fn flags_json(mds: &MdsMap) -> Value {
    Value::Object(flags(mds).map(|(name, on)| (name.to_string(), json!(on))).collect())
}
pub fn flags_text(mds: &MdsMap) -> String {
    flags(mds).filter(|(_, on)| *on).map(|(name, _)| format!(" {name}")).collect()
}

pub fn info_json(info: &MdsInfo) -> Value {
    let mut v = json!({
        "gid": info.gid,
        "name": info.name,
        "rank": info.rank,
        "incarnation": info.inc,
        "state": info.state.name(),
        "state_seq": info.state_seq,
        "addr": legacy_text(&info.addrs),
        "addrs": addrs_json(&info.addrs),
        "join_fscid": info.join_fscid,
    });
    if info.is_laggy() {
        v["laggy_since"] = json!(info.laggy_since.to_string());
    }
    v["export_targets"] = json!(info.export_targets);
    v["features"] = json!(info.mds_features);
    v["flags"] = json!(info.flags);
    v["compat"] = compat_json(&info.compat);
    v
}

pub fn mdsmap_json(m: &MdsMap) -> Value {
    let required: Map<String, Value> =
        required(&m.required_client_features).map(|(bit, name)| (format!("feature_{bit}"), json!(name))).collect();
    let up: Map<String, Value> = m.up.iter().map(|(rank, gid)| (format!("mds_{rank}"), json!(gid))).collect();
    let info: Map<String, Value> = m.info.iter().map(|(gid, info)| (format!("gid_{gid}"), info_json(info))).collect();
    json!({
        "epoch": m.epoch,
        "flags": m.flags,
        "flags_state": flags_json(m),
        "ever_allowed_features": m.ever_allowed_features,
        "explicitly_allowed_features": m.explicitly_allowed_features,
        "created": m.created.to_string(),
        "modified": m.modified.to_string(),
        "tableserver": m.tableserver,
        "root": m.root,
        "session_timeout": m.session_timeout_s,
        "session_autoclose": m.session_autoclose_s,
        "required_client_features": required,
        "max_file_size": m.max_file_size,
        "max_xattr_size": m.max_xattr_size,
        "last_failure": m.last_failure,
        "last_failure_osd_epoch": m.last_failure_osd_epoch,
        "compat": compat_json(&m.compat),
        "max_mds": m.max_mds,
        "in": m.in_ranks,
        "up": up,
        "failed": m.failed,
        "damaged": m.damaged,
        "stopped": m.stopped,
        "info": info,
        "data_pools": m.data_pools,
        "metadata_pool": m.metadata_pool,
        "enabled": m.enabled,
        "fs_name": m.fs_name,
        "balancer": m.balancer,
        "bal_rank_mask": m.bal_rank_mask,
        "standby_count_wanted": m.standby_count_wanted.max(0),
    })
}

pub fn filesystem_json(fs: &Filesystem) -> Value {
    let mut v = json!({"mdsmap": mdsmap_json(&fs.mds), "id": fs.fscid});
    if fs.mirror.mirrored {
        let peer = |p: &maps::fs_map::MirrorPeer| {
            let r = &p.remote;
            (p.uuid.clone(), json!({"remote": {"client_name": r.client_name, "cluster_name": r.cluster_name, "fs_name": r.fs_name}}))
        };
        v["mirror_info"] = json!({"peers": fs.mirror.peers.iter().map(peer).collect::<Map<_, _>>()});
    }
    v
}

pub fn fsmap_json(m: &FsMap) -> Value {
    let standby = |info: &MdsInfo| {
        let mut v = info_json(info);
        v["epoch"] = json!(m.standby_epochs.get(&info.gid));
        v
    };
    json!({
        "epoch": m.epoch,
        "default_fscid": m.legacy_client_fscid,
        "compat": compat_json(&m.default_compat),
        "feature_flags": {"enable_multiple": m.enable_multiple, "ever_enabled_multiple": m.ever_enabled_multiple},
        "standbys": m.standbys.values().map(standby).collect::<Vec<_>>(),
        "filesystems": m.filesystems.values().map(filesystem_json).collect::<Vec<_>>(),
    })
}

fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>().join(",")
}

fn info_text(i: &MdsInfo) -> String {
    let mut out = format!("[mds.{}{{{}:{}}} state {} seq {}", i.name, i.rank, i.gid, i.state.name(), i.state_seq);
    if i.is_laggy() {
        out += &format!(" laggy since {}", i.laggy_since);
    }
    if !i.export_targets.is_empty() {
        out += &format!(" export targets {}", list(&i.export_targets));
    }
    if i.is_frozen() {
        out += " frozen";
    }
    if i.join_fscid != NO_FS {
        out += &format!(" join_fscid={}", i.join_fscid);
    }
    out + &format!(" addr {} compat {}]", i.addrs, i.compat.masks_text())
}

pub fn filesystem_text(fs: &Filesystem) -> String {
    let m = &fs.mds;
    let required = list(required(&m.required_client_features).map(|(bit, name)| format!("{bit}={name}")));
    let rows: [(&str, String); 26] = [
        ("fs_name", m.fs_name.clone()),
        ("epoch", m.epoch.to_string()),
        ("flags", format!("{:x}{}", m.flags, flags_text(m))),
        ("created", m.created.to_string()),
        ("modified", m.modified.to_string()),
        ("tableserver", m.tableserver.to_string()),
        ("root", m.root.to_string()),
        ("session_timeout", m.session_timeout_s.to_string()),
        ("session_autoclose", m.session_autoclose_s.to_string()),
        ("max_file_size", m.max_file_size.to_string()),
        ("max_xattr_size", m.max_xattr_size.to_string()),
        ("required_client_features", format!("{{{required}}}")),
        ("last_failure", m.last_failure.to_string()),
        ("last_failure_osd_epoch", m.last_failure_osd_epoch.to_string()),
        ("compat", m.compat.to_string()),
        ("max_mds", m.max_mds.to_string()),
        ("in", list(&m.in_ranks)),
        ("up", format!("{{{}}}", list(m.up.iter().map(|(rank, gid)| format!("{rank}={gid}"))))),
        ("failed", list(&m.failed)),
        ("damaged", list(&m.damaged)),
        ("stopped", list(&m.stopped)),
        ("data_pools", format!("[{}]", list(&m.data_pools))),
        ("metadata_pool", m.metadata_pool.to_string()),
        ("inline_data", if m.inline_data_enabled { "enabled" } else { "disabled" }.into()),
        ("balancer", m.balancer.clone()),
        ("bal_rank_mask", m.bal_rank_mask.clone()),
    ];
    let mut out = format!("Filesystem '{}' ({})\n", m.fs_name, fs.fscid);
    rows.iter().for_each(|(name, value)| out += &format!("{name}\t{value}\n"));
    out += &format!("standby_count_wanted\t{}\n", m.standby_count_wanted.max(0));
    let mut daemons: Vec<&MdsInfo> = m.info.values().collect();
    daemons.sort_by_key(|i| (i.rank, i.inc, i.gid));
    daemons.iter().for_each(|i| out += &(info_text(i) + "\n"));
    if fs.mirror.mirrored {
        let peer = |p: &maps::fs_map::MirrorPeer| {
            let r = &p.remote;
            let remote = format!("{{client_name={}, cluster_name={}, fs_name={}}}", r.client_name, r.cluster_name, r.fs_name);
            format!("{{uuid={}, remote_cluster={remote}}}", p.uuid)
        };
        out += &format!("[peers={}]\n", list(fs.mirror.peers.iter().map(peer)));
    }
    out
}

pub fn fsmap_text(m: &FsMap) -> String {
    let mut out = format!(
        "e{}\nenable_multiple, ever_enabled_multiple: {},{}\ndefault compat: {}\nlegacy client fscid: {}\n \n",
        m.epoch,
        u8::from(m.enable_multiple),
        u8::from(m.ever_enabled_multiple),
        m.default_compat,
        m.legacy_client_fscid
    );
    if m.filesystems.is_empty() {
        out += "No filesystems configured\n";
    }
    m.filesystems.values().for_each(|fs| out += &(filesystem_text(fs) + " \n \n"));
    if !m.standbys.is_empty() {
        out += "Standby daemons:\n \n";
    }
    m.standbys.values().for_each(|i| out += &(info_text(i) + "\n"));
    out
}

/// A rank's holder in a word: `up:active`, laggy or not.
fn condition(i: &MdsInfo) -> String {
    format!("{}{}", i.state.name(), if i.is_laggy() { "(laggy or crashed)" } else { "" })
}

/// What `status` has as `fsmap`.
pub fn summary_json(m: &FsMap) -> Value {
    let mut v = Map::new();
    v.insert("epoch".into(), json!(m.epoch));
    for fs in m.filesystems.values() {
        // One name a figure, also where there are several file systems: the last one is what tools see.
        v.insert("id".into(), json!(fs.fscid));
        v.insert("up".into(), json!(fs.mds.up.len()));
        v.insert("in".into(), json!(fs.mds.in_ranks.len()));
        v.insert("max".into(), json!(fs.mds.max_mds));
    }
    let serving = m.filesystems.values().flat_map(|fs| fs.mds.info.values().map(|i| (fs.fscid, i)));
    let by_rank =
        serving.map(|(fscid, i)| json!({"filesystem_id": fscid, "rank": i.rank, "name": i.name, "status": condition(i), "gid": i.gid}));
    v.insert("by_rank".into(), by_rank.collect());
    v.insert("up:standby".into(), json!(m.standbys.len()));
    let count = |set: fn(&MdsMap) -> usize| m.filesystems.values().map(|fs| set(&fs.mds)).sum::<usize>();
    for (name, n) in [("failed", count(|mds| mds.failed.len())), ("damaged", count(|mds| mds.damaged.len()))] {
        if n > 0 {
            v.insert(name.into(), json!(n));
        }
    }
    Value::Object(v)
}

/// The line of `mds stat`.
pub fn stat_text(m: &FsMap) -> String {
    let all: Vec<&Filesystem> = m.filesystems.values().collect();
    let short = |fs: &&Filesystem| {
        let (name, ranks) = (&fs.mds.fs_name, fs.mds.in_ranks.len());
        if fs.mds.is_degraded() { format!("{name}:{}/{ranks}", fs.mds.up.len()) } else { format!("{name}:{ranks}") }
    };
    let mut out = if all.len() <= 3 { all.iter().map(short).collect::<Vec<_>>().join(" ") } else { format!("{} fs", all.len()) };
    let mut by_state: BTreeMap<MdsState, usize> = BTreeMap::new();
    by_state.insert(MdsState::STANDBY, m.standbys.len());
    let mut holders = Vec::new();
    for fs in &all {
        for i in fs.mds.info.values() {
            *by_state.entry(i.state).or_default() += 1;
            if i.state != MdsState::STANDBY_REPLAY {
                let place = if all.len() > 1 { format!("{}:{}", fs.mds.fs_name, i.rank) } else { i.rank.to_string() };
                holders.push((place, i));
            }
        }
    }
    if (1..5).contains(&holders.len()) {
        for (_, i) in &holders {
            *by_state.entry(i.state).or_default() -= 1;
        }
        holders.sort_by_key(|(_, i)| i.rank);
        let shown = holders.iter().map(|(place, i)| format!("{place}={}={}", i.name, condition(i)));
        out += &format!(" {{{}}}", list(shown));
    }
    for (state, n) in by_state.iter().filter(|(_, n)| **n > 0) {
        out += &format!(" {n} {}", state.name());
    }
    let sum = |set: fn(&MdsMap) -> usize| all.iter().map(|fs| set(&fs.mds)).sum::<usize>();
    for (n, what) in [(sum(|mds| mds.failed.len()), "failed"), (sum(|mds| mds.damaged.len()), "damaged")] {
        if n > 0 {
            out += &format!(", {n} {what}");
        }
    }
    out + "\n"
}

/// The services' line in `status`; none without file systems.
pub fn daemons_line(m: &FsMap) -> Option<String> {
    if m.filesystems.is_empty() {
        return None;
    }
    let sum = |count: fn(&MdsMap) -> usize| m.filesystems.values().map(|fs| count(&fs.mds)).sum::<usize>();
    let mut out = format!("{}/{} daemons up", sum(|mds| mds.up.len()), sum(|mds| mds.in_ranks.len()));
    let failed = sum(|mds| mds.failed.len());
    if failed > 0 {
        out += &format!(" ({failed} failed)");
    }
    for (n, what) in [(m.standbys.len(), "standby"), (sum(|mds| mds.count_in(MdsState::STANDBY_REPLAY)), "hot standby")] {
        if n > 0 {
            out += &format!(", {n} {what}");
        }
    }
    Some(out)
}

/// The data's line in `status`; none without file systems.
pub fn volumes_line(m: &FsMap) -> Option<String> {
    if m.filesystems.is_empty() {
        return None;
    }
    let [mut healthy, mut recovering, mut failed, mut stopped, mut damaged] = [0; 5];
    for fs in m.filesystems.values() {
        damaged += usize::from(!fs.mds.damaged.is_empty());
        *if !fs.mds.failed.is_empty() {
            &mut failed
        } else if fs.mds.is_degraded() {
            &mut recovering
        } else if fs.mds.max_mds == 0 {
            &mut stopped
        } else {
            &mut healthy
        } += 1;
    }
    let mut out = format!("{healthy}/{} healthy", m.filesystems.len());
    for (n, what) in [(recovering, "recovering"), (failed, "failed"), (stopped, "stopped")] {
        if n > 0 {
            out += &format!(", {n} {what}");
        }
    }
    if damaged > 0 {
        out += &format!("; {damaged} damaged");
    }
    Some(out)
}
