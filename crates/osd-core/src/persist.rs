//! What an OSD keeps of itself in its store, as objects of the collection `meta`.
//!
//! ```text
//! meta/osd_superblock    OSDSuperblock: which OSD it is, and which maps it has; written whole with each batch of maps
//! meta/osdmap.EPOCH      a full map, as it came or as our canonical encoding has it
//! meta/inc_osdmap.EPOCH  the change that led to it
//! meta/confirmed_epoch   the newest of the maps that a monitor has named: those beyond it are other OSDs' word
//! meta/back_to           an epoch: the next start goes back to it (see [`crate::way_back`])
//! meta/snapmapper        omap: which clones hold which snapshot (see `pg::snaps`)
//! ```
//!
//! Maps are submitted before any group's record that names their epoch, so a store that keeps a prefix of what was submitted never has a group
//! that is ahead of its OSD's maps. Holds the names and the writing; what reads them again is in `load`.

use crate::map_cache::MapChange;
use denc::Denc;
use types::{Bytes, CollId, Epoch, GHObject, HObject, OsdSuperblock, Transaction, features};

/// No group has this place: whose commits are the OSD's own.
pub(crate) const OWN_SLOT: u64 = 0xff_fffe;
/// Nor this one: whose commits are those of a measurement (see `shard::bench`).
pub(crate) const BENCH_SLOT: u32 = 0xff_ffff;
// A group's slot is 24 bits of its tokens, and these are no group's.
const _: () = assert!(OWN_SLOT < BENCH_SLOT as u64 && (BENCH_SLOT as u64) < 1 << 24);
pub(crate) const SUPERBLOCK: &str = "osd_superblock";
const CONFIRMED: &str = "confirmed_epoch";
const BACK_TO: &str = "back_to";
pub(crate) const SNAPMAPPER: &str = "snapmapper";
const FULL: &str = "osdmap.";
const INCREMENTAL: &str = "inc_osdmap.";

/// One of the OSD's own objects.
pub(crate) fn own_object(name: &str, hash: u32) -> GHObject {
    let oid = name.as_bytes().to_vec().into();
    GHObject::plain(HObject { oid, hash, pool: -1, ..HObject::min() })
}
pub(crate) fn superblock() -> GHObject {
    own_object(SUPERBLOCK, 0)
}
/// An error if this superblock is of another OSD's store, or of another cluster's.
pub(crate) fn check_ours(found: &OsdSuperblock, ours: &OsdSuperblock) -> Result<(), String> {
    if found.whoami != ours.whoami {
        return Err(format!("it is the store of osd.{}", found.whoami));
    }
    if found.osd_fsid != ours.osd_fsid {
        let (found, ours) = (found.osd_fsid, ours.osd_fsid);
        return Err(format!("it is the store of OSD {found}, not of {ours}"));
    }
    let (found, ours) = (found.cluster_fsid, ours.cluster_fsid);
    if !ours.is_zero() && !found.is_zero() && found != ours {
        return Err(format!("it belongs to cluster {found}, not to {ours}"));
    }
    Ok(())
}
/// How far the monitor has confirmed the maps; absent in stores of before.
pub(crate) fn confirmed() -> GHObject {
    own_object(CONFIRMED, 0)
}
/// Maps lie side by side by their epochs.
pub(crate) fn map_object(epoch: Epoch, full: bool) -> GHObject {
    own_object(&format!("{}{epoch}", if full { FULL } else { INCREMENTAL }), epoch)
}
/// The epoch of a map's object, and whether it is a full one; `None` for any other object.
pub(crate) fn map_of(obj: &GHObject) -> Option<(Epoch, bool)> {
    let name = std::str::from_utf8(obj.hobj.oid.as_slice()).ok()?;
    let epoch = |prefix| name.strip_prefix(prefix)?.parse().ok();
    epoch(FULL).map(|e| (e, true)).or_else(|| epoch(INCREMENTAL).map(|e| (e, false)))
}

/// Puts `data` in place of an object's bytes.
fn put(txn: &mut Transaction, obj: &GHObject, data: Bytes) {
    txn.truncate(obj, 0);
    txn.write(obj, 0, data, 0);
}

/// The change that gives an empty store the collection and the first superblock.
pub(crate) fn make_meta(first: &OsdSuperblock) -> Transaction {
    let mut txn = Transaction::new(CollId::Meta);
    txn.create_collection(CollId::Meta, 0);
    let superblock = superblock();
    txn.create(&superblock);
    put(&mut txn, &superblock, first.to_bytes(features::SUPPORTED));
    txn.create(&own_object(SNAPMAPPER, 0));
    txn
}

fn put_confirmed(txn: &mut Transaction, epoch: Epoch) {
    txn.touch(&confirmed());
    txn.write(&confirmed(), 0, Bytes::copy_from_slice(&epoch.to_le_bytes()), 0);
}
/// The mark that the next start goes back; absent otherwise.
pub(crate) fn back_to() -> GHObject {
    own_object(BACK_TO, 0)
}
/// The change that makes the next start go back to a map.
pub(crate) fn go_back_to(epoch: Epoch) -> Transaction {
    let mut txn = Transaction::new(CollId::Meta);
    txn.touch(&back_to());
    put(&mut txn, &back_to(), Bytes::copy_from_slice(&epoch.to_le_bytes()));
    txn
}
/// The change that takes the mark back.
pub(crate) fn stayed() -> Transaction {
    let mut txn = Transaction::new(CollId::Meta);
    txn.remove(&back_to());
    txn
}
/// The change that ends the way back: these maps go, and the mark.
pub(crate) fn gone_back(beyond: &[(Epoch, bool)], told: &OsdSuperblock) -> Transaction {
    let mut txn = Transaction::new(CollId::Meta);
    beyond.iter().for_each(|(epoch, full)| txn.remove(&map_object(*epoch, *full)));
    put(&mut txn, &superblock(), told.to_bytes(features::SUPPORTED));
    txn.remove(&back_to());
    txn
}
/// The change that keeps how far the monitor has confirmed the maps.
pub(crate) fn keep_confirmed(epoch: Epoch) -> Transaction {
    let mut txn = Transaction::new(CollId::Meta);
    put_confirmed(&mut txn, epoch);
    txn
}

/// The change that keeps maps that came, with a superblock that says so, and how far the monitor has confirmed them.
pub(crate) fn keep_maps(changes: Vec<MapChange>, told: &OsdSuperblock, confirmed: Epoch) -> Transaction {
    let mut txn = Transaction::new(CollId::Meta);
    for change in changes {
        match change {
            MapChange::Put { epoch, full, bytes } => {
                let obj = map_object(epoch, full);
                txn.touch(&obj);
                put(&mut txn, &obj, bytes);
            }
            MapChange::Drop { epoch, full } => txn.remove(&map_object(epoch, full)),
        }
    }
    put_confirmed(&mut txn, confirmed);
    put(&mut txn, &superblock(), told.to_bytes(features::SUPPORTED));
    txn
}
