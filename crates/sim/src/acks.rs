//! What a client is told is done lies in the logs of all members of its group's interval, and these are no fewer than the pool's min_size.
//!
//! Looked at when an OSD sends the answer, in the members' stores. Which members these are is placement's word by the OSD's own map: the one of before the
//! event that the answer came of, or the one behind it. The same event may bring a map and split the group after the answer, so the entry is looked for
//! where the object's hash lies now. Shares no code with the cores.

use maps::{OsdMap, Placement};
use messages::{MOSDOpReply, Message, RawMessage};
use store::{ObjectStore, StoreError};
use types::hash::{bins_mask, stable_mod};
use types::{EVersion, OsdId, PgId, PoolId, SpgId};

/// More groups than any pool has here.
const PG_NUM_MAX: u32 = 64;

/// An answer to a write that an OSD sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    pub osd: OsdId,
    pub pool: PoolId,
    /// Of the object.
    pub hash: u32,
    pub version: EVersion,
    /// The members, by each map that it may have been sent by, and how many there must be.
    pub by: Vec<(Vec<OsdId>, usize)>,
}

/// What a message tells of a write that is done; `None` for all other messages. `maps`: those that it may have been sent by.
pub fn told(osd: OsdId, msg: &RawMessage, maps: &[&OsdMap]) -> Option<Ack> {
    let reply = (msg.kind == MOSDOpReply::KIND).then(|| MOSDOpReply::decode(msg).ok())??;
    let writes = reply.result >= 0 && reply.replay_version != EVersion::ZERO && reply.ops.iter().any(|op| op.op.code.is_write());
    let pool = reply.pgid.pool;
    // The answer names the group as the client did, which may not know of a split. Clients' objects have no namespace and no key of their own.
    let hash = maps.iter().find_map(|map| map.pools.get(&pool)).filter(|_| writes)?.hash_key(reply.oid.as_slice(), &[]);
    let members = |map: &&OsdMap| {
        let p = map.pools.get(&pool)?;
        let acting = map.pg_to_up_acting(PgId::new(pool, p.fold(hash)), &mut Placement::default()).acting;
        Some((acting, p.min_size as usize))
    };
    Some(Ack { osd, pool, hash, version: reply.replay_version, by: maps.iter().filter_map(members).collect() })
}

/// Has this store the entry of an object with this hash, or trimmed it? `None`: it can't say now.
pub fn has(store: &dyn ObjectStore, ack: &Ack) -> Option<bool> {
    let Some(pgid) = group(&store.pgs().ok()?, ack) else { return Some(false) };
    let before = EVersion::new(ack.version.epoch, ack.version.version - 1);
    match store.pg_log(pgid, before, 1) {
        Ok(entries) if entries.first().is_some_and(|e| e.version == ack.version) => Some(true),
        Ok(_) => match store.load_pg(pgid) {
            Ok(Some(record)) => Some(record.info.log_tail >= ack.version),
            Ok(None) => Some(false),
            Err(StoreError::Wait(_)) => None,
            Err(_) => None,
        },
        Err(_) => None,
    }
}

/// The group of these that has the object: the one that was split off last of all that its hash ever folds to.
fn group(groups: &[SpgId], ack: &Ack) -> Option<SpgId> {
    let folds = |seed: u32| (1..=PG_NUM_MAX).any(|n| stable_mod(ack.hash, n, bins_mask(n)) == seed);
    groups.iter().copied().filter(|pg| pg.pgid.pool == ack.pool && folds(pg.pgid.seed)).max_by_key(|pg| pg.pgid.seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed 0x32: an answer leaves by the map of 8 groups, and the same event brings the map of 16.
    #[test]
    fn an_entry_is_looked_for_where_a_split_has_put_it() {
        let ack = Ack { osd: 0, pool: 1, hash: 0x9587_c4bb, version: EVersion::new(109, 25), by: Vec::new() };
        let all = |n: u32| (0..n).map(|seed| SpgId::whole(PgId::new(1, seed))).collect::<Vec<_>>();
        for (pg_num, seed) in [(1, 0), (2, 1), (8, 3), (12, 11), (16, 11), (32, 27), (64, 59)] {
            assert_eq!(group(&all(pg_num), &ack), Some(SpgId::whole(PgId::new(1, seed))), "of {pg_num}");
        }
        assert_eq!(group(&[SpgId::whole(PgId::new(2, 0)), SpgId::whole(PgId::new(1, 2))], &ack), None);
    }
}
