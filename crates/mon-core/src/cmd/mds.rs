//! `mds`: servers by name, rank or number: shown, failed, repaired.

use super::fs::{err, may_change, not_behind, sure, truth};
use super::fs_show::{compat_json, fsmap_json, stat_text};
use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use maps::{FsId, FsMap, MdsGid, MdsInfo, MdsRank, MdsState};
use messages::log_level;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd_flags("mds stat", "metadata servers in a line", "mds", "r", flag::HIDDEN, stat),
    cmd("mds metadata name=who,type=CephString,req=false", "what metadata servers run on", "mds", "r", metadata),
    cmd("mds count-metadata name=property,type=CephString", "metadata servers by a property of their metadata", "mds", "r", |ctx| {
        let counts = count_metadata(ctx.mon, &ctx.args.need("property")?);
        ctx.answer_json(json!(counts))
    }),
    cmd("mds ok-to-stop name=ids,type=CephString,n=N", "whether servers can be stopped without a gap", "mds", "r", ok_to_stop),
    cmd(
        "mds fail name=role_or_gid,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "ends a server: a standby takes over",
        "mds",
        "rw",
        fail,
    ),
    cmd("mds repaired name=role,type=CephString", "lets a damaged rank be served again", "mds", "rw", repaired),
    cmd("mds rm name=gid,type=CephInt,range=0", "removes a server that is not active", "mds", "rw", rm),
    cmd_flags(
        "mds rmfailed name=role,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "removes a failed rank",
        "mds",
        "rw",
        flag::HIDDEN,
        rmfailed,
    ),
    cmd_flags(
        "mds freeze name=role_or_gid,type=CephString name=val,type=CephString",
        "keeps the monitor from replacing a server",
        "mds",
        "rw",
        flag::HIDDEN,
        freeze,
    ),
    cmd_flags(
        "mds set_state name=gid,type=CephInt,range=0 name=state,type=CephInt,range=0|20",
        "sets what the map says of a server",
        "mds",
        "rw",
        flag::HIDDEN,
        set_state,
    ),
    cmd_flags("mds compat show", "features of new file systems", "mds", "r", flag::DEPRECATED, |ctx| {
        let compat = ctx.mon.fs.view().default_compat.clone();
        ctx.answer(compat_json(&compat), || compat.to_string())
    }),
    cmd_flags(
        "mds compat rm_compat name=feature,type=CephInt,range=0",
        "takes a feature from new file systems",
        "mds",
        "rw",
        flag::DEPRECATED,
        |ctx| rm_default_feature(ctx, false),
    ),
    cmd_flags(
        "mds compat rm_incompat name=feature,type=CephInt,range=0",
        "takes a feature from new file systems",
        "mds",
        "rw",
        flag::DEPRECATED,
        |ctx| rm_default_feature(ctx, true),
    ),
];

/// A rank as `FS:RANK`, where the file system is given by name or number, or of the default one as `RANK`.
fn role(map: &FsMap, text: &str) -> Result<(FsId, MdsRank), CmdError> {
    let (fs, rank) = match text.rsplit_once(':') {
        Some((fs, rank)) => {
            let by_id = fs.parse().ok().and_then(|id: FsId| map.filesystems.get(&id));
            (by_id.or_else(|| map.by_name(fs)), rank)
        }
        None => (map.filesystems.get(&map.legacy_client_fscid), text),
    };
    let fs = fs.ok_or_else(|| CmdError::new(errno::ENOENT, "no such filesystem"))?;
    let rank = rank.parse::<MdsRank>().ok().filter(|r| *r >= 0);
    let rank = rank.ok_or_else(|| CmdError::new(errno::EINVAL, format!("'{text}' is no rank")))?;
    if fs.mds.in_ranks.contains(&rank) { Ok((fs.fscid, rank)) } else { err(errno::ENOENT, format!("Rank '{rank}' not found")) }
}

/// A server by rank, number or name.
fn server<'a>(map: &'a FsMap, text: &str) -> Option<&'a MdsInfo> {
    if let Ok((fscid, rank)) = role(map, text)
        && let Some(holder) = map.filesystems[&fscid].mds.holder(rank)
    {
        return Some(holder);
    }
    match text.parse::<MdsGid>() {
        Ok(gid) => map.daemon(gid),
        Err(_) => map.daemon_by_name(text),
    }
}

/// A server that the asker may change.
fn changeable(ctx: &Ctx<'_>, info: &MdsInfo) -> Result<(), CmdError> {
    let fs = ctx.mon.fs.view().filesystem_of(info.gid).map(|fs| fs.mds.fs_name.clone()).unwrap_or_default();
    may_change(ctx, &fs)
}

fn stat(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = ctx.mon.visible_fsmap(ctx.conn);
    let (first, last) = (ctx.mon.fs.first_epoch(), ctx.mon.fs.map.epoch);
    let json = json!({"fsmap": fsmap_json(&map), "mdsmap_first_committed": first, "mdsmap_last_committed": last});
    ctx.answer(json, || stat_text(&map))
}

fn metadata(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = ctx.mon.visible_fsmap(ctx.conn);
    let shown = |gid: &MdsGid| ctx.mon.fs.metadata.get(gid).into_iter().flatten().map(|(k, v)| (k.clone(), json!(v)));
    match ctx.args.text("who") {
        Some(who) => {
            let Some(info) = server(&map, &who) else {
                return err(errno::EINVAL, format!("MDS named '{who}' does not exist, or is not up"));
            };
            let json = Value::Object(shown(&info.gid).collect());
            ctx.answer_json(json)
        }
        None => {
            let row = |i: &MdsInfo| -> Value {
                let name = ("name".to_string(), json!(i.name));
                Value::Object(std::iter::once(name).chain(shown(&i.gid)).collect::<Map<_, _>>())
            };
            let json = map.daemons().map(row).collect();
            ctx.answer_json(json)
        }
    }
}

/// How many servers have which value of a property.
pub fn count_metadata(mon: &crate::Mon, property: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for m in mon.fs.metadata.values() {
        *counts.entry(m.get(property).cloned().unwrap_or_else(|| "unknown".into())).or_default() += 1;
    }
    counts
}

fn ok_to_stop(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = ctx.mon.visible_fsmap(ctx.conn);
    let ids = ctx.args.list("ids");
    if map.filesystems.values().any(|fs| fs.mds.is_degraded()) {
        return err(errno::EBUSY, "one or more filesystems is currently degraded");
    }
    let stopping: BTreeSet<MdsGid> = ids.iter().filter_map(|id| server(&map, id)).map(|i| i.gid).collect();
    let stops = |i: &MdsInfo| stopping.contains(&i.gid);
    let standbys = map.standbys.values().filter(|i| stops(i)).count();
    // Ranks that lose their holder and have no follower that stays.
    let bare = |fs: &maps::Filesystem| {
        let lost = fs.mds.info.values().filter(|i| i.state != MdsState::STANDBY_REPLAY && stops(i));
        lost.filter(|i| fs.mds.follower(i.rank).is_none_or(&stops)).count()
    };
    let ranks: usize = map.filesystems.values().map(bare).sum();
    if map.standbys.len() - standbys < ranks {
        return err(errno::EBUSY, format!("too few standbys are left for {ranks} rank(s)"));
    }
    Ok(Reply::status(format!("should be safe to stop {}", ids.join(","))))
}

fn fail(ctx: &mut Ctx<'_>) -> CmdResult {
    let who = ctx.args.need("role_or_gid")?;
    let Some(info) = server(&ctx.mon.visible_fsmap(ctx.conn), &who).cloned() else {
        return Ok(Reply::status(format!("MDS named '{who}' does not exist, is not up, or may not be seen")));
    };
    changeable(ctx, &info)?;
    not_behind(ctx)?;
    ctx.mon.fail_mds(info.gid, ctx.clock);
    let by = ctx.mon.sessions.get(&ctx.conn).map(|s| s.peer.entity.to_string()).unwrap_or_default();
    ctx.mon.say(ctx.clock, log_level::INFO, format!("daemon mds.{} marked failed by {by}", info.name));
    Ok(Reply::status(format!("failed mds gid {}", info.gid)))
}

/// The rank of a command, which the asker may change.
fn changeable_role(ctx: &Ctx<'_>) -> Result<(FsId, MdsRank), CmdError> {
    let map = ctx.mon.visible_fsmap(ctx.conn);
    let (fscid, rank) = role(&map, &ctx.args.need("role")?)?;
    may_change(ctx, &map.filesystems[&fscid].mds.fs_name)?;
    Ok((fscid, rank))
}

fn repaired(ctx: &mut Ctx<'_>) -> CmdResult {
    let (fscid, rank) = changeable_role(ctx)?;
    if !ctx.mon.fs.view().filesystems[&fscid].mds.damaged.contains(&rank) {
        return Ok(Reply::status("nothing to do: rank is not damaged"));
    }
    ctx.mon.fs.pending().repaired(fscid, rank);
    Ok(Reply::status(format!("repaired: restoring rank {fscid}:{rank}")))
}

fn rm(ctx: &mut Ctx<'_>) -> CmdResult {
    let gid = ctx.args.need_int("gid")? as MdsGid;
    let Some(info) = ctx.mon.visible_fsmap(ctx.conn).daemon(gid).cloned() else {
        return Ok(Reply::status(format!("mds gid {gid} does not exist")));
    };
    changeable(ctx, &info)?;
    if info.state.0 > 0 {
        return err(errno::EBUSY, format!("cannot remove active mds.{} rank {}", info.name, info.rank));
    }
    // One that is on its way to active may write already: it is fenced.
    ctx.mon.fail_mds(gid, ctx.clock);
    Ok(Reply::status(format!("removed mds gid {gid}")))
}

fn rmfailed(ctx: &mut Ctx<'_>) -> CmdResult {
    sure(ctx, "WARNING: this can make your filesystem inaccessible!")?;
    let (fscid, rank) = changeable_role(ctx)?;
    ctx.mon.fs.pending().modify(fscid, |fs| fs.mds.failed.retain(|r| *r != rank));
    Ok(Reply::status(format!("removed failed mds.{fscid}:{rank}")))
}

fn freeze(ctx: &mut Ctx<'_>) -> CmdResult {
    let who = ctx.args.need("role_or_gid")?;
    let on = truth(&ctx.args.need("val")?)?;
    let Some(info) = server(&ctx.mon.visible_fsmap(ctx.conn), &who).cloned() else {
        return err(errno::EINVAL, format!("MDS named '{who}' does not exist, or is not up"));
    };
    changeable(ctx, &info)?;
    let change = |i: &mut MdsInfo| i.flags = i.flags & !MdsInfo::FROZEN | if on { MdsInfo::FROZEN } else { 0 };
    ctx.mon.fs.pending().modify_daemon(info.gid, change);
    Ok(Reply::status(format!("{} mds.{}", if on { "freezing" } else { "unfreezing" }, info.gid)))
}

fn set_state(ctx: &mut Ctx<'_>) -> CmdResult {
    let (gid, state) = (ctx.args.need_int("gid")? as MdsGid, MdsState(ctx.args.need_int("state")? as i32));
    let Some(info) = ctx.mon.visible_fsmap(ctx.conn).daemon(gid).cloned() else { return Ok(Reply::default()) };
    changeable(ctx, &info)?;
    // What the map says of a standby, or of a follower, is bound to the place where it stands.
    if matches!(info.state, MdsState::STANDBY | MdsState::STANDBY_REPLAY) || !(MdsState::REPLAY..=MdsState::STOPPING).contains(&state) {
        return err(errno::EINVAL, format!("mds gid {gid} can't be {}", state.name()));
    }
    ctx.mon.fs.pending().modify_daemon(gid, |i| i.state = state);
    Ok(Reply::status(format!("set mds gid {gid} to state {} {}", state.0, state.name())))
}

fn rm_default_feature(ctx: &mut Ctx<'_>, incompat: bool) -> CmdResult {
    let feature = ctx.args.need_int("feature")? as u64;
    let set = &mut ctx.mon.fs.pending().default_compat;
    let part = if incompat { &mut set.incompat } else { &mut set.compat };
    let text = match part.names.remove(&feature) {
        Some(_) => format!("removing feature {feature}"),
        None => format!("feature {feature} not present"),
    };
    Ok(Reply::status(text))
}
