//! Backoff: a client is asked to keep its requests to a group that can't serve them for long, until it is told to go on.
//!
//! What was asked of a client is remembered by its session. Clients that don't know backoff have their requests kept here.

use crate::event::{ConnId, Effect};
use crate::pg::range::pg_range;
use crate::session::Backoff;
use crate::shared::Cx;
use maps::PgPool;
use messages::osd_client::backoff_op;
use messages::{MOSDBackoff, Message};
use types::{SpgId, features};

/// Asks a client to keep its requests to this group until it is told otherwise. False if it doesn't know how to.
pub(in crate::pg) fn back_off(pgid: SpgId, pool: &PgPool, conn: ConnId, cx: &mut Cx<'_>) -> bool {
    let Some(session) = cx.sh.sessions.get_mut(&conn) else { return true };
    if !session.has(features::RADOS_BACKOFF) {
        return false;
    }
    if session.holds_back(pgid) {
        return true;
    }
    let id = session.next_backoff_id();
    let (begin, end) = pg_range(pgid.pgid, pool);
    session.backoffs.push(Backoff { pgid, id, begin: begin.clone(), end: end.clone() });
    let msg = MOSDBackoff { pgid, map_epoch: cx.sh.map.epoch, op: backoff_op::BLOCK, id, begin, end };
    let raw = msg.encode(session.peer.features);
    cx.send(conn, raw);
    true
}

/// Clients may send again what they kept.
pub(in crate::pg) fn release(pgid: SpgId, cx: &mut Cx<'_>) {
    let epoch = cx.sh.map.epoch;
    for (conn, session) in cx.sh.sessions.iter_mut().filter(|(_, s)| !s.backoffs.is_empty()) {
        let features = session.peer.features;
        session.backoffs.retain(|b| {
            if b.pgid == pgid {
                let (begin, end) = (b.begin.clone(), b.end.clone());
                let msg = MOSDBackoff { pgid, map_epoch: epoch, op: backoff_op::UNBLOCK, id: b.id, begin, end }.encode(features);
                cx.out.push(Effect::Send { conn: *conn, msg });
            }
            b.pgid != pgid
        });
    }
}
