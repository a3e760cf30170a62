//! A write of copies: the one transaction that each member gets, and what a member makes of it.
//!
//! A member that does not have the object yet gets the entries with an empty transaction. The index of snapshots follows from the entries,
//! as the transaction is the same for every member. When a write is sent and kept is [`crate::pg::requests::submit`]'s and
//! [`crate::pg::members`]'.

use crate::pg::backend::name::name;
use crate::pg::range::temp_pool;
use crate::pg::snaps;
use denc::Denc;
use messages::MOSDRepOp;
use types::{Bytes, CollId, GHObject, HObject, PgLogEntry, Pieces, SpgId, Transaction};

/// A write as other members get it, encoded.
pub struct Payload {
    pub txn: Pieces,
    pub entries: Bytes,
    /// For a target that does not have the object yet: nothing is to be done.
    pub skipped: Option<Bytes>,
}

impl Payload {
    /// `fills`: some members don't have every object yet.
    pub fn of(txn: &Transaction, entries: &Vec<PgLogEntry>, coll: CollId, fills: bool, features: u64) -> Self {
        let skipped = fills.then(|| Transaction::new(coll).to_bytes(features));
        Self { txn: txn.to_pieces(features), entries: entries.to_bytes(features), skipped }
    }
}

/// A write's data in one piece.
fn flat(pieces: &[Bytes]) -> Bytes {
    if let [one] = pieces { one.clone() } else { pieces.concat().into() }
}

/// True for a temporary object beside one of this group.
fn is_built_for(pgid: SpgId, temp: &HObject, obj: &HObject) -> bool {
    obj.pool == pgid.pgid.pool && (temp.pool, temp.hash) == (temp_pool(obj.pool), obj.hash) && !temp.oid.is_empty()
}

/// The entries of a write that came, and what our store does of it. `holds`: whether a name lies in the group. An error is one of the
/// message.
pub fn came(m: &MOSDRepOp, pgid: SpgId, holds: impl Fn(&HObject) -> bool) -> Result<(Vec<PgLogEntry>, Transaction), String> {
    let entries = Vec::<PgLogEntry>::from_bytes(&m.log).map_err(|e| e.to_string())?;
    let mut txn = Transaction::from_halves(&m.head, flat(&m.transaction)).map_err(|e| e.to_string())?;
    if !txn.colls().all(|coll| coll == CollId::Pg(pgid) || coll == CollId::PgTemp(pgid)) {
        return Err("a write outside of its group".into());
    }
    let is_ours = |obj: &GHObject| !obj.max && obj.shard == pgid.shard && holds(&obj.hobj);
    if !txn.objects().all(is_ours) || !entries.iter().all(|entry| holds(&entry.soid)) {
        return Err("a write of objects of another group".into());
    }
    if txn.colls().next().is_none() {
        txn.set_home(CollId::Pg(pgid));
    }
    // A member that does not have the object yet hears only of the entries.
    let index = if txn.is_empty() { Vec::new() } else { snaps::changes_of(&entries).map_err(|e| e.to_string())? };
    if !index.is_empty() {
        txn.append(snaps::note(&index));
    }
    if txn.is_empty() && is_built_for(pgid, &m.discard_temp_oid, &m.poid) {
        // What a copy was built as, here too, does not become the object. It need not be there.
        let temp = name(CollId::Pg(pgid), m.discard_temp_oid.clone());
        txn.touch(&temp);
        txn.remove(&temp);
    }
    Ok((entries, txn))
}
