//! `osd blocklist`: addresses that may not use the cluster for a while.

use super::{Args, CmdError, CmdResult, Command, Ctx, Reply, cmd, cmd_flags, flag};
use serde_json::{Value, json};
use types::{AddrType, EntityAddr, UTime, errno};

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd blocklist name=range,type=CephString,goodchars=[range],req=false name=blocklistop,type=CephChoices,strings=add|rm \
         name=addr,type=CephEntityAddr name=expire,type=CephFloat,range=0.0,req=false",
        "adds an address or network to the blocklist, for so many seconds, or removes it",
        "osd",
        "rw",
        |ctx| change(ctx, "blocklistop"),
    ),
    cmd("osd blocklist ls", "the blocklist", "osd", "r", ls),
    cmd("osd blocklist clear", "empties the blocklist", "osd", "rw", clear),
    cmd_flags(
        "osd blacklist name=blacklistop,type=CephChoices,strings=add|rm name=addr,type=CephEntityAddr \
         name=expire,type=CephFloat,range=0.0,req=false",
        "the former name of osd blocklist",
        "osd",
        "rw",
        flag::DEPRECATED,
        |ctx| change(ctx, "blacklistop"),
    ),
    cmd_flags("osd blacklist ls", "the former name of osd blocklist ls", "osd", "r", flag::DEPRECATED, ls),
    cmd_flags("osd blacklist clear", "the former name of osd blocklist clear", "osd", "rw", flag::DEPRECATED, clear),
];

/// Seconds that an entry lasts unless it says so.
const DEFAULT_S: f64 = 3600.0;

/// The address as the map has it: type `any`; for a range type `cidr` with the prefix length in place of the nonce.
fn address(args: &Args, range: bool) -> Result<EntityAddr, CmdError> {
    let text = args.need("addr")?;
    let bad = || CmdError::new(errno::EINVAL, format!("unable to parse address {text}"));
    if range {
        let (ip, prefix) =
            text.split_once('/').ok_or_else(|| CmdError::new(errno::EINVAL, format!("{text} is not in CIDR form: address/prefix")))?;
        let addr = EntityAddr::parse(ip, AddrType::CIDR).ok_or_else(bad)?;
        let prefix: u32 = prefix.parse().map_err(|_| bad())?;
        let bits = if addr.ip.is_some_and(|ip| ip.is_ipv6()) { 128 } else { 32 };
        if prefix > bits {
            return Err(CmdError::new(errno::EINVAL, "Too many bits in range for that protocol!"));
        }
        return Ok(EntityAddr { kind: AddrType::CIDR, port: 0, nonce: prefix, ..addr });
    }
    let addr = EntityAddr::parse(&text, AddrType::ANY).ok_or_else(bad)?;
    Ok(addr.with_kind(AddrType::ANY))
}

fn change(ctx: &mut Ctx<'_>, verb: &str) -> CmdResult {
    let range = ctx.args.text("range").is_some_and(|r| r == "range");
    let addr = address(&ctx.args, range)?;
    let shown = if range { text(&addr) } else { addr.host_port_nonce() };
    let map = &ctx.mon.osd.map;
    let there = if range { map.range_blocklist.contains_key(&addr) } else { map.blocklist.contains_key(&addr) };
    if ctx.args.need(verb)? == "add" {
        let seconds = match ctx.args.float("expire")? {
            Some(s) if s > 0.0 => s,
            _ => DEFAULT_S,
        };
        let until = UTime::from_wall_ns(ctx.clock.wall_ns.saturating_add((seconds * 1e9) as u64));
        let inc = ctx.mon.osd.pending();
        // An entry that is there keeps its time: so it is in the protocol.
        if range {
            inc.new_range_blocklist.insert(addr, until);
        } else {
            inc.new_blocklist.insert(addr, until);
        }
        return Ok(Reply::status(format!("blocklisting {shown} until {until} ({seconds} sec)")));
    }
    if !there {
        return Ok(Reply::status(format!("{shown} isn't blocklisted")));
    }
    let inc = ctx.mon.osd.pending();
    if range {
        inc.old_range_blocklist.push(addr)
    } else {
        inc.old_blocklist.push(addr)
    }
    Ok(Reply::status(format!("un-blocklisting {shown}")))
}

fn text(addr: &EntityAddr) -> String {
    if addr.kind == AddrType::CIDR {
        return format!("cidr:{}/{}", addr.socket().map_or_else(|| ":".into(), |s| s.to_string()), addr.nonce);
    }
    addr.host_port_nonce()
}

fn ls(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    let all: Vec<_> = map.blocklist.iter().chain(&map.range_blocklist).map(|(a, t)| (text(a), t.to_string())).collect();
    let status = format!("listed {} entries", all.len());
    let json: Vec<Value> = all.iter().map(|(addr, until)| json!({"addr": addr, "until": until})).collect();
    let reply = ctx.answer(json!(json), || all.iter().map(|(a, t)| format!("{a} {t}\n")).collect())?;
    Ok(reply.with_status(status))
}

fn clear(ctx: &mut Ctx<'_>) -> CmdResult {
    let map = &ctx.mon.osd.map;
    let (old, ranges): (Vec<_>, Vec<_>) = (map.blocklist.keys().copied().collect(), map.range_blocklist.keys().copied().collect());
    if !old.is_empty() || !ranges.is_empty() {
        let inc = ctx.mon.osd.pending();
        inc.old_blocklist = old;
        inc.old_range_blocklist = ranges;
    }
    Ok(Reply::status(" removed all blocklist entries"))
}
