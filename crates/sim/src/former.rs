//! What a member said in a former interval changes nothing in this one.
//!
//! Where such a message is about to reach an OSD, its group is looked at before and after: state, record, log, lease, what members have, what waits.

use denc::{Decoder, DencError};
use messages::{
    MBackfillReserve, MOSDPGInfo2, MOSDPGLease, MOSDPGLeaseAck, MOSDPGUpdateLogMissing, MOSDPGUpdateLogMissingReply, MOSDRepOp,
    MOSDRepOpReply, MRecoveryReserve, Message, RawMessage,
};
use osd_core::Osd;
use osd_core::pg::Pg;
use types::{Epoch, SpgId};

/// The group that a message is for, and the epoch of the map by which it was said.
fn said(msg: &RawMessage) -> Option<(SpgId, Epoch)> {
    Some(match msg.kind {
        MOSDRepOp::KIND => MOSDRepOp::decode(msg).map(|m| (m.pgid, m.map_epoch)).ok()?,
        MOSDRepOpReply::KIND => MOSDRepOpReply::decode(msg).map(|m| (m.pgid, m.map_epoch)).ok()?,
        MOSDPGUpdateLogMissing::KIND => MOSDPGUpdateLogMissing::decode(msg).map(|m| (m.pgid, m.map_epoch)).ok()?,
        MOSDPGUpdateLogMissingReply::KIND => MOSDPGUpdateLogMissingReply::decode(msg).map(|m| (m.pgid, m.map_epoch)).ok()?,
        MOSDPGInfo2::KIND => said_in_info(msg).ok()?,
        MOSDPGLease::KIND => MOSDPGLease::decode(msg).map(|m| (m.pgid, m.epoch)).ok()?,
        MOSDPGLeaseAck::KIND => MOSDPGLeaseAck::decode(msg).map(|m| (m.pgid, m.epoch)).ok()?,
        MBackfillReserve::KIND => MBackfillReserve::decode(msg).map(|m| (m.pgid, m.query_epoch)).ok()?,
        MRecoveryReserve::KIND => MRecoveryReserve::decode(msg).map(|m| (m.pgid, m.query_epoch)).ok()?,
        _ => return None,
    })
}

/// The same of an info, which is long and of which only what stands first is read.
fn said_in_info(msg: &RawMessage) -> Result<(SpgId, Epoch), DencError> {
    let mut front = Decoder::new(msg.front.clone());
    let (pgid, sent, least): (SpgId, Epoch, Epoch) = (front.get()?, front.get()?, front.get()?);
    Ok((pgid, sent.min(least)))
}

/// What may not change.
fn look(pg: &Pg) -> String {
    let members: Vec<_> =
        pg.peering().peers().iter().map(|(who, peer)| (*who, peer.complete_on_disk, peer.member.info.last_update)).collect();
    let (p, waiting) = (pg.peering(), pg.unanswered().count());
    format!(
        "{:?} {:?} {:?} {} {:?} {members:?} {waiting}",
        p.state(),
        pg.record().info(),
        pg.lease(),
        pg.state_bits(),
        pg.record().log().head()
    )
}

/// A group before a message of a former interval reaches it.
#[derive(Debug)]
pub struct Before {
    pgid: SpgId,
    look: String,
}

/// `None` for all other messages.
pub fn before(osd: &Osd, msg: &RawMessage) -> Option<Before> {
    let (pgid, sent) = said(msg)?;
    let pg = osd.pgs().find(|pg| pg.pgid == pgid).filter(|pg| sent < pg.peering().last_peering_reset)?;
    Some(Before { pgid, look: look(pg) })
}

/// # Errors
/// The message has changed the group.
pub fn after(osd: &Osd, before: &Before, kind: u16) -> Result<(), String> {
    match osd.pgs().find(|pg| pg.pgid == before.pgid).map(look) {
        Some(now) if now != before.look => {
            let (name, me) = (messages::kind_name(kind), osd.whoami());
            Err(format!("{} of a former interval of {} changes it on osd.{me}:\n  {}\n  {now}", name, before.pgid, before.look))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{PgId, features};

    #[test]
    fn an_info_is_told_by_its_first_fields() {
        let pgid = SpgId::whole(PgId::new(3, 7));
        for (epoch_sent, min_epoch) in [(9, 5), (5, 9)] {
            let msg = MOSDPGInfo2 { pgid, epoch_sent, min_epoch, ..MOSDPGInfo2::default() }.encode(features::SUPPORTED);
            assert_eq!(said(&msg), Some((pgid, 5)));
        }
    }
}
