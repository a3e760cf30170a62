//! What a client is told is done lies in the logs of all members of its group's interval, and these are no fewer than the pool's min_size.
//!
//! Looked at when an OSD sends the answer, in the members' stores. Which members these are is placement's word by the OSD's own map. Shares no code
//! with the cores.

use maps::{OsdMap, Placement};
use messages::{MOSDOpReply, Message, RawMessage};
use store::{ObjectStore, StoreError};
use types::{EVersion, OsdId, PgId, SpgId};

/// An answer to a write that an OSD sends.
#[derive(Debug, Clone)]
pub struct Ack {
    pub osd: OsdId,
    pub pgid: PgId,
    pub version: EVersion,
    pub acting: Vec<OsdId>,
    pub min_size: u32,
}

/// What a message tells of a write that is done by this map; `None` for all other messages.
pub fn told(osd: OsdId, msg: &RawMessage, map: &OsdMap) -> Option<Ack> {
    let reply = (msg.kind == MOSDOpReply::KIND).then(|| MOSDOpReply::decode(msg).ok())??;
    let writes = reply.result >= 0 && reply.replay_version != EVersion::ZERO && reply.ops.iter().any(|op| op.op.code.is_write());
    let pool = map.pools.get(&reply.pgid.pool).filter(|_| writes)?;
    // The answer names the group as the client did, which may not know of a split.
    let pgid = PgId::new(reply.pgid.pool, pool.fold(reply.pgid.seed));
    let acting = map.pg_to_up_acting(pgid, &mut Placement::default()).acting;
    Some(Ack { osd, pgid, version: reply.replay_version, acting, min_size: pool.min_size.into() })
}

/// Has this store the entry, or trimmed it? `None`: it can't say now.
pub fn has(store: &dyn ObjectStore, pgid: PgId, version: EVersion) -> Option<bool> {
    let pgid = SpgId::whole(pgid);
    let before = EVersion::new(version.epoch, version.version - 1);
    match store.pg_log(pgid, before, 1) {
        Ok(entries) if entries.first().is_some_and(|e| e.version == version) => Some(true),
        Ok(_) => match store.load_pg(pgid) {
            Ok(Some(record)) => Some(record.info.log_tail >= version),
            Ok(None) => Some(false),
            Err(StoreError::Wait(_)) => None,
            Err(_) => None,
        },
        Err(_) => None,
    }
}
