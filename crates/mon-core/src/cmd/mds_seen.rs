//! `mds last-seen` of 20.2: how long ago a server was in the map of file systems, as far back as maps are kept.

use super::fs_show::info_json;
use super::{CmdError, CmdResult, Command, Ctx, cmd};
use crate::fs::visible;
use serde_json::json;
use types::{UTime, errno};

pub const COMMANDS: &[Command] =
    &[cmd("mds last-seen name=id,type=CephString", "how long ago a metadata server was in the map", "mds", "r", last_seen)];

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

fn last_seen(ctx: &mut Ctx<'_>) -> CmdResult {
    let id = ctx.args.need("id")?;
    let now = UTime::from_wall_ns(ctx.clock.wall_ns);
    let found = ctx.mon.fs.kept_epochs().find_map(|epoch| {
        let map = ctx.mon.fs.map_at(epoch)?;
        let info = visible(&map, ctx.mon.sessions.get(&ctx.conn)).daemon_by_name(&id)?.clone();
        Some((epoch, info))
    });
    let Some((epoch, info)) = found else {
        return Err(CmdError::new(errno::ENOENT, format!("mds {id} not found in recent FSMaps")));
    };
    // The newest epoch goes on.
    let until = if epoch == ctx.mon.fs.map.epoch { now } else { ctx.mon.fs.ended(epoch).unwrap_or(now) };
    let ago = format!("{}s", now.wall_ns().saturating_sub(until.wall_ns()) / SECOND);
    ctx.answer(json!({"info": info_json(&info), "last-seen": ago, "epoch": epoch}), || ago.clone())
}
