//! The cluster log: `log TEXT` writes a line, `log last` shows the newest.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use crate::log::{format, level_of};
use messages::mon_client::{LogEntry, log_level};
use serde_json::{Value, json};
use types::{UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd("log name=logtext,type=CephString,n=N", "writes a line into the cluster log", "mon", "rw", write),
    cmd(
        "log last name=num,type=CephInt,range=1,req=false name=level,type=CephChoices,strings=debug|info|sec|warn|error,req=false \
         name=channel,type=CephChoices,strings=*|cluster|audit|cephadm,req=false",
        "the newest lines of the cluster log",
        "mon",
        "r",
        last,
    ),
];

/// Lines shown unless a number is given.
const DEFAULT_LINES: usize = 20;

fn write(ctx: &mut Ctx<'_>) -> CmdResult {
    let text = ctx.args.list("logtext").join(" ");
    let now = UTime::from_wall_ns(ctx.clock.wall_ns);
    let Some(session) = ctx.mon.sessions.get(&ctx.conn) else { return Err(CmdError::new(errno::EACCES, "no session")) };
    let entry = LogEntry {
        name: session.peer.entity.clone(),
        rank: session.name,
        addrs: session.peer.addrs.clone(),
        stamp: now,
        seq: 0,
        level: log_level::INFO,
        text: text.into(),
        channel: "cluster".into(),
    };
    let mon = &mut *ctx.mon;
    mon.log.add(entry, &mut mon.batch);
    Ok(Reply::default())
}

fn entry_json(e: &LogEntry) -> Value {
    json!({
        "name": e.name.to_string(),
        "rank": e.rank.to_string(),
        "addrs": super::mon_map::addrs_json(&e.addrs),
        "stamp": e.stamp.to_string(),
        "seq": e.seq,
        "channel": e.channel,
        "priority": log_level::tag(e.level),
        "message": e.text.to_lossy(),
    })
}

fn last(ctx: &mut Ctx<'_>) -> CmdResult {
    let num = ctx.args.int("num")?.map_or(DEFAULT_LINES, |n| n.max(1) as usize);
    let level = match ctx.args.text("level") {
        Some(name) => level_of(&name).ok_or_else(|| CmdError::new(errno::EINVAL, format!("unknown level '{name}'")))?,
        None => log_level::INFO,
    };
    let channel = ctx.args.text("channel").unwrap_or_else(|| "cluster".into());
    let fits = |e: &&LogEntry| e.level >= level && (channel == "*" || e.channel == channel);
    let mut shown: Vec<&LogEntry> = ctx.mon.log.since(0).rev().filter(fits).take(num).collect();
    shown.reverse();
    let json = shown.iter().map(|e| entry_json(e)).collect();
    ctx.answer(json, || shown.iter().map(|e| format(e) + "\n").collect())
}
