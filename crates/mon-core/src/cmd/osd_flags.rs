//! Flags of the whole map: `osd set`, `osd unset`, `osd pause`, `osd unpause`.

use super::{CmdError, CmdResult, Command, Ctx, Reply, cmd};
use maps::map_flags;
use types::errno;

pub const COMMANDS: &[Command] = &[
    cmd("osd pause", "stops reads and writes of clients", "osd", "rw", |ctx| set(ctx, "pause", true)),
    cmd("osd unpause", "lets clients read and write again", "osd", "rw", |ctx| set(ctx, "pause", false)),
    cmd(
        "osd set name=key,type=CephChoices,strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit|noautoscale \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "sets a flag of the map",
        "osd",
        "rw",
        |ctx| {
            let key = ctx.args.need("key")?;
            set(ctx, &key, true)
        },
    ),
    cmd(
        "osd unset name=key,type=CephChoices,strings=full|pause|noup|nodown|noout|noin|nobackfill|norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|noautoscale",
        "takes a flag of the map back",
        "osd",
        "rw",
        |ctx| {
            let key = ctx.args.need("key")?;
            set(ctx, &key, false)
        },
    ),
];

fn set(ctx: &mut Ctx<'_>, key: &str, on: bool) -> CmdResult {
    let bits = match key {
        "pause" => map_flags::PAUSERD | map_flags::PAUSEWR,
        _ => map_flags::parse(key).ok_or_else(|| CmdError::new(errno::EINVAL, format!("unrecognized flag '{key}'")))?,
    };
    let has = ctx.mon.osd.map.flags & bits == bits;
    if key == "pglog_hardlimit" && !has && !ctx.args.flag("yes_i_really_mean_it") {
        return Err(CmdError::new(errno::EPERM, "not all OSDs are known to heed this; pass --yes-i-really-mean-it"));
    }
    if on {
        ctx.mon.osd.set_flags(bits, 0);
    } else {
        ctx.mon.osd.set_flags(0, bits);
    }
    let name = if key == "pause" { "pauserd,pausewr" } else { key };
    Ok(Reply::status(format!("{name} is {}", if on { "set" } else { "unset" })))
}
