//! The target's side: what it has in a range, what goes, and how far it is filled.
//!
//! It keeps how far it is with its record of the group, behind the objects that came before: what a store loses when it is cut off it loses from the
//! end, so a target never counts an object that is gone. That it has everything it says when that is durable.

use super::interval::scan;
use crate::pg::backend::name::name;
use crate::pg::work::recovery::apply::removal;
use crate::pg::work::recovery::host::{Change, Host, Part};
use denc::Decoder;
use store::StoreError;
use types::object_info::OI_ATTR;
use types::{EVersion, HObject, ObjectInfo, PgShard, PgStat, Transaction};

/// The primary asks what is here from a name on.
///
/// # Errors
/// The store must fetch.
pub fn list(host: &mut dyn Host, from: PgShard, begin: &HObject) -> Result<(), StoreError> {
    // A primary that was refused asks what is here too many.
    if host.is_too_full() && host.revoke() {
        return Ok(());
    }
    let page = scan(host.store(), host.coll(), begin, host.limits().scan_max)?;
    host.send(from, Part::Digest { begin: Box::new(begin.clone()), page: Box::new(page) });
    Ok(())
}

/// Objects that the primary does not have go; what was written anew since stays.
///
/// # Errors
/// The store must fetch, or has no room: nothing has gone.
pub fn remove(host: &mut dyn Host, objects: &[(HObject, EVersion)]) -> Result<(), StoreError> {
    let mut all = Transaction::new(host.coll());
    let mut changes = Vec::new();
    for (obj, version) in objects {
        let record = match host.store().attr(host.coll(), &name(host.coll(), obj.clone()), OI_ATTR.as_bytes()) {
            Ok(record) => record,
            Err(StoreError::NoObject(_)) => continue,
            Err(other) => return Err(other),
        };
        let record = record.and_then(|bytes| ObjectInfo::decode_of(obj.clone(), &mut Decoder::new(bytes)).ok());
        if record.map_or(EVersion::ZERO, |record| record.version) != *version {
            continue;
        }
        let (txn, index) = removal(host.store(), host.coll(), obj)?;
        all.append(txn);
        changes.extend(index);
    }
    if all.is_empty() {
        return Ok(());
    }
    all.append(crate::pg::snaps::note(&changes));
    if host.change(Change { txn: all, index: None, got: None, then: None }) { Ok(()) } else { Err(StoreError::Full) }
}

/// The primary says how far we are.
///
/// # Errors
/// The store has no room.
pub fn reached(host: &mut dyn Host, from: PgShard, to: &HObject, stats: &PgStat, is_last: bool) -> Result<(), StoreError> {
    let then = is_last.then_some((from, Part::Finished));
    if host.keep_reached(to.detach(), stats.clone(), then) { Ok(()) } else { Err(StoreError::Full) }
}
