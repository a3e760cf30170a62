//! `report`: all that the monitor and the manager know, in one document, for finding out what is wrong.

use super::{CmdResult, Command, Ctx, Reply, cmd, pretty};
use base::crc32c;
use serde_json::json;
use types::UTime;

pub const COMMANDS: &[Command] =
    &[cmd("report name=tags,type=CephString,n=N,req=false", "everything that is known of the cluster", "mon", "r", report)];

/// What the checksum in the status starts from: the port of msgr1 monitors.
const CRC_SEED: u32 = 6789;

fn report(ctx: &mut Ctx<'_>) -> CmdResult {
    let mon = &*ctx.mon;
    let json = json!({
        "version": crate::CEPH_VERSION_SHORT,
        "timestamp": UTime::from_wall_ns(ctx.clock.wall_ns).to_string(),
        "tag": ctx.args.list("tags").join(" "),
        "health": mon.look().health_json(true),
        "monmap": super::mon_map::monmap_json(mon),
        "quorum": [0],
        "osdmap": super::osd_map::dump_json(&mon.osd.map),
        "osdmap_first_committed": mon.osd.first_epoch(),
        "osdmap_last_committed": mon.osd.epoch(),
        "osd_metadata": mon.osd.map.osds().map(|id| super::osd_daemon::metadata_of(ctx, id)).collect::<Vec<_>>(),
        "crushmap": super::osd_crush_dump::crush_json(&mon.osd.map.crush),
        "fsmap": super::fs_show::fsmap_json(&mon.fs.map),
        "pgmap": super::pg::all_json(ctx),
        "servicemap": super::daemons::servicemap_json(&mon.manager.services.map),
    });
    let text = super::out::formatted(ctx.args.format(), "report", &json).unwrap_or_else(|| pretty(&json));
    let crc = crc32c(CRC_SEED, text.as_bytes());
    Ok(Reply::data(text).with_status(format!("report {crc}")))
}
