//! While an object is sent to a member that lacks it, no write of it is sent there: what comes in parts is one version from the first part to the last.
//!
//! A write that came between two parts would change what the member has in its place, and the last part would put the older object over it. Looked at when a
//! primary sends a write, by what it knows of the member.

use messages::MOSDRepOp;
use osd_core::Osd;
use types::PgShard;

/// Looks at a write that this OSD has just sent.
///
/// # Errors
/// It is for an object that the member lacks.
pub fn check(osd: &Osd, to: i32, write: &MOSDRepOp) -> Result<(), String> {
    let Some(pg) = osd.pgs().find(|pg| pg.pgid == write.pgid && pg.peering().last_peering_reset == write.min_epoch) else { return Ok(()) };
    let Some(peer) = pg.peering().peers().get(&PgShard::new(to, write.pgid.shard)) else { return Ok(()) };
    if peer.member.missing.contains(&write.poid) {
        return Err(format!("osd.{} sends {} of {} to osd.{to}, which lacks it", osd.whoami(), write.version, write.poid));
    }
    Ok(())
}
