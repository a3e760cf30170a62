//! Flags `noup`, `nodown`, `noin`, `noout` of OSDs, of nodes of the CRUSH tree and of device classes: `osd set-group`, `osd add-noup` and their
//! kin.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use maps::osd_state;
use std::collections::BTreeMap;
use types::{OsdId, errno};

/// A row that sets (or takes back) one flag of what `ids` names.
macro_rules! one {
    ($verb:literal, $flag:literal, $on:literal) => {
        cmd(
            concat!("osd ", $verb, "-", $flag, " name=ids,type=CephString,n=N"),
            concat!($verb, " flag ", $flag, " of OSDs (any, all or * for each)"),
            "osd",
            "rw",
            |ctx| {
                let who = ctx.args.list("ids");
                change(ctx, &[bit_of($flag)?], &who, $on)
            },
        )
    };
}

pub const COMMANDS: &[Command] = &[
    cmd(
        "osd set-group name=flags,type=CephString name=who,type=CephString,n=N",
        "sets flags (noup,nodown,noin,noout) of OSDs, CRUSH nodes or device classes",
        "osd",
        "rw",
        |ctx| group(ctx, true),
    ),
    cmd(
        "osd unset-group name=flags,type=CephString name=who,type=CephString,n=N",
        "takes flags (noup,nodown,noin,noout) of OSDs, CRUSH nodes or device classes back",
        "osd",
        "rw",
        |ctx| group(ctx, false),
    ),
    one!("add", "noup", true),
    one!("add", "nodown", true),
    one!("add", "noin", true),
    one!("add", "noout", true),
    one!("rm", "noup", false),
    one!("rm", "nodown", false),
    one!("rm", "noin", false),
    one!("rm", "noout", false),
];

fn err<T>(errno: i32, text: impl Into<String>) -> Result<T, CmdError> {
    Err(CmdError::new(errno, text))
}

fn bit_of(flag: &str) -> Result<u32, CmdError> {
    match flag {
        "noup" => Ok(osd_state::NOUP),
        "nodown" => Ok(osd_state::NODOWN),
        "noin" => Ok(osd_state::NOIN),
        "noout" => Ok(osd_state::NOOUT),
        other => err(errno::EINVAL, format!("unrecognized flag '{other}'")),
    }
}

fn group(ctx: &mut Ctx<'_>, on: bool) -> CmdResult {
    let flags = ctx.args.need("flags")?;
    let bits = flags.split(',').map(|f| bit_of(f.trim())).collect::<Result<Vec<_>, _>>()?;
    let who = ctx.args.list("who");
    change(ctx, &bits, &who, on)
}

/// Whose flags they are.
enum Target {
    Osd(OsdId),
    Node(i32),
    Class(i32),
}

fn target(ctx: &Ctx<'_>, word: &str) -> Result<Target, CmdError> {
    let map = &ctx.mon.osd.map;
    if let Ok(id) = super::parse_osd(word) {
        return if map.exists(id) { Ok(Target::Osd(id)) } else { err(errno::EINVAL, format!("osd.{id} does not exist")) };
    }
    if let Some(id) = map.crush.item_id(word) {
        return Ok(if id >= 0 { Target::Osd(id) } else { Target::Node(id) });
    }
    match map.crush.class_names.iter().find(|(_, name)| *name == word) {
        Some((id, _)) => Ok(Target::Class(*id)),
        None => err(errno::EINVAL, format!("invalid OSD, CRUSH node or device class '{word}'")),
    }
}

/// Changes flags that a table has by number; what has none stays out of it.
fn change_table(table: &BTreeMap<i32, u32>, pending: &mut BTreeMap<i32, u32>, id: i32, mask: u32, on: bool) {
    let now = pending.get(&id).or(table.get(&id)).copied().unwrap_or(0);
    pending.insert(id, if on { now | mask } else { now & !mask });
}

fn change(ctx: &mut Ctx<'_>, bits: &[u32], who: &[String], on: bool) -> CmdResult {
    let mask = bits.iter().fold(0, |all, bit| all | bit);
    let targets = if who.iter().any(|w| matches!(w.as_str(), "any" | "all" | "*")) {
        ctx.mon.osd.map.osds().map(Target::Osd).collect()
    } else {
        who.iter().map(|word| target(ctx, word)).collect::<Result<Vec<_>, _>>()?
    };
    let (nodes, classes) = (ctx.mon.osd.map.crush_node_flags.clone(), ctx.mon.osd.map.device_class_flags.clone());
    for target in targets {
        match target {
            Target::Osd(id) => {
                let differs = if on { mask & !ctx.mon.osd.map.state(id) } else { mask & ctx.mon.osd.map.state(id) };
                if differs != 0 {
                    // A change of states turns bits over.
                    *ctx.mon.osd.pending().new_state.entry(id).or_default() |= differs;
                }
            }
            Target::Node(id) => change_table(&nodes, &mut ctx.mon.osd.pending().new_crush_node_flags, id, mask, on),
            Target::Class(id) => change_table(&classes, &mut ctx.mon.osd.pending().new_device_class_flags, id, mask, on),
        }
    }
    let names: Vec<_> = bits.iter().filter_map(|bit| osd_state::NAMES.iter().find(|(b, _)| b == bit)).map(|(_, name)| *name).collect();
    Ok(Reply::status(format!("{} {} of {}", if on { "set" } else { "unset" }, names.join(","), who.join(" "))))
}
