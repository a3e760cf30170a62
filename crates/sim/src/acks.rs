//! What a client is told is done lies durably in the logs of all members of its group's interval, with the object at that version, and the members are no
//! fewer than the pool's min_size.
//!
//! Looked at when an OSD sends the answer, in the members' stores and in the ledgers of what these have committed ([`crate::durable`]); of a member
//! that is dead, on its disk. Which members these are is placement's word by the map that the group goes by, which may be older than its OSD's while it waits
//! to be split: the one of before the event that the answer came of, or the one behind it; those that are to be filled count as well, for the entry. The same
//! event may bring a map and split the group after the answer, so the entry is looked for where the object's hash lies now. Shares no code with the cores.

use crate::durable::Ledger;
use denc::Decoder;
use maps::{OsdMap, Placement};
use messages::{MOSDOpReply, Message, RawMessage};
use std::rc::Rc;
use store::{ObjectStore, StoreError};
use types::hash::{bins_mask, stable_mod};
use types::object_info::OI_ATTR;
use types::{CEPH_NOSNAP, CollId, EVersion, Epoch, GHObject, HObject, ObjectInfo, OsdId, PgId, PoolId, ReqId, SpgId};

/// More groups than any pool has here.
const PG_NUM_MAX: u32 = 64;

/// Members of an interval by one map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    pub acting: Vec<OsdId>,
    /// Those that are to be filled.
    pub filled: Vec<OsdId>,
    pub min_size: usize,
}

/// An answer to a write that an OSD sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    pub osd: OsdId,
    pub obj: HObject,
    pub version: EVersion,
    /// The members, by each map that it may have been sent by.
    pub by: Vec<Members>,
}

/// The groups of an OSD, each with the epoch of the map that it goes by.
pub type Epochs = Vec<(SpgId, Epoch)>;

/// The epoch of the map that an object's group goes by.
pub fn epoch_of(groups: &[(SpgId, Epoch)], pool: PoolId, hash: u32) -> Option<Epoch> {
    let names: Vec<SpgId> = groups.iter().map(|(pgid, _)| *pgid).collect();
    let pgid = group(&names, pool, hash)?;
    groups.iter().find(|(name, _)| *name == pgid).map(|(_, epoch)| *epoch)
}

/// What a message tells of a write that is done; `None` for all other messages. `maps`: those that it may have been sent by, given the object's pool and hash;
/// `any` is one that knows the pool.
pub fn told(osd: OsdId, msg: &RawMessage, any: &OsdMap, maps: impl Fn(PoolId, u32) -> Vec<Rc<OsdMap>>) -> Option<Ack> {
    let reply = (msg.kind == MOSDOpReply::KIND).then(|| MOSDOpReply::decode(msg).ok())??;
    let writes = reply.result >= 0 && reply.replay_version != EVersion::ZERO && reply.ops.iter().any(|op| op.op.code.is_write());
    let pool = reply.pgid.pool;
    // The answer names the group as the client did, which may not know of a split. Clients' objects have no namespace and no key of their own.
    let hash = any.pools.get(&pool).filter(|_| writes)?.hash_key(reply.oid.as_slice(), &[]);
    let members = |map: &Rc<OsdMap>| {
        let p = map.pools.get(&pool)?;
        let at = map.pg_to_up_acting(PgId::new(pool, p.fold(hash)), &mut Placement::default());
        let filled = at.up.into_iter().filter(|osd| !at.acting.contains(osd)).collect();
        Some(Members { acting: at.acting, filled, min_size: p.min_size as usize })
    };
    let obj = HObject { oid: reply.oid.clone(), snap: CEPH_NOSNAP, hash, pool, ..HObject::min() };
    Some(Ack { osd, obj, version: reply.replay_version, by: maps(pool, hash).iter().filter_map(members).collect() })
}

/// What a member lacks of a write that is acknowledged; `None`: nothing. `serves`: it must have the object, too, unless `may_miss`.
///
/// # Errors
/// The store can't say now.
pub fn lacks(
    store: &dyn ObjectStore,
    ledger: Option<&Ledger>,
    ack: &Ack,
    serves: bool,
    may_miss: bool,
) -> Result<Option<&'static str>, StoreError> {
    let Some(pgid) = group(&store.pgs()?, ack.obj.pool, ack.obj.hash) else { return Ok(Some("has no such group")) };
    let before = EVersion::new(ack.version.epoch, ack.version.version - 1);
    let is_there = store.pg_log(pgid, before, 1)?.first().is_some_and(|e| e.version == ack.version);
    if !is_there && store.load_pg(pgid)?.is_none_or(|record| record.info.log_tail < ack.version) {
        return Ok(Some("has no entry of it"));
    }
    if ledger.is_some_and(|ledger| ledger.is_pending(ack.obj.pool, ack.obj.hash, ack.version)) {
        return Ok(Some("has not made it durable"));
    }
    if !serves {
        return Ok(None);
    }
    let version = match store.attr(CollId::Pg(pgid), &GHObject::plain(ack.obj.clone()), OI_ATTR.as_bytes()) {
        Ok(record) => {
            record.and_then(|bytes| ObjectInfo::decode_of(ack.obj.clone(), &mut Decoder::new(bytes)).ok()).map(|info| info.version)
        }
        Err(StoreError::NoObject(_)) => None,
        Err(error) => return Err(error),
    };
    if version.is_some_and(|version| version >= ack.version) {
        return Ok(None);
    }
    // It may be deleted by this or since, or an entry that changes nothing.
    let since = store.pg_log(pgid, before, usize::MAX)?;
    let is_gone = !is_there || since.iter().any(|e| e.soid == ack.obj && (e.is_delete() || (e.is_error() && e.version == ack.version)));
    if is_gone {
        return Ok(None);
    }
    let Some(record) = store.load_pg(pgid)? else { return Ok(Some("has no record of the group")) };
    // What is to be filled is not there yet, also if it has become a member since.
    let is_known = record.info.last_backfill <= ack.obj || (may_miss && record.missing.contains_key(&ack.obj));
    Ok((!is_known).then_some("has the object at another version"))
}

/// The request that an acknowledged write was, by its entry; `None`: it is not in the log any more, or can't be read now.
pub fn request(store: &dyn ObjectStore, ack: &Ack) -> Option<ReqId> {
    let pgid = group(&store.pgs().ok()?, ack.obj.pool, ack.obj.hash)?;
    let before = EVersion::new(ack.version.epoch, ack.version.version - 1);
    store.pg_log(pgid, before, 1).ok()?.into_iter().find(|e| e.version == ack.version).map(|e| e.reqid)
}

/// The group of these that has the object: the one that was split off last of all that its hash ever folds to.
fn group(groups: &[SpgId], pool: PoolId, hash: u32) -> Option<SpgId> {
    let folds = |seed: u32| (1..=PG_NUM_MAX).any(|n| stable_mod(hash, n, bins_mask(n)) == seed);
    groups.iter().copied().filter(|pg| pg.pgid.pool == pool && folds(pg.pgid.seed)).max_by_key(|pg| pg.pgid.seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed 0x32: an answer leaves by the map of 8 groups, and the same event brings the map of 16.
    #[test]
    fn an_entry_is_looked_for_where_a_split_has_put_it() {
        let hash = 0x9587_c4bb;
        let all = |n: u32| (0..n).map(|seed| SpgId::whole(PgId::new(1, seed))).collect::<Vec<_>>();
        for (pg_num, seed) in [(1, 0), (2, 1), (8, 3), (12, 11), (16, 11), (32, 27), (64, 59)] {
            assert_eq!(group(&all(pg_num), 1, hash), Some(SpgId::whole(PgId::new(1, seed))), "of {pg_num}");
        }
        assert_eq!(group(&[SpgId::whole(PgId::new(2, 0)), SpgId::whole(PgId::new(1, 2))], 1, hash), None);
    }
}
