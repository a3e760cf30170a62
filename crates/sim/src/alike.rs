//! Has each member of an active group what its primary takes it to have? Looked at now and then, while all else goes on.
//!
//! What a member misses, its primary knows to be missing there, and no member counts as filled further than its primary has told it. Where both logs end at the
//! same entry, both have the same objects at the same versions, but for those that one of them misses or is not filled with yet.

use crate::osd::OsdProcess;
use denc::Decoder;
use osd_core::pg::Pg;
use osd_core::pg::members::peering::State;
use std::collections::BTreeMap;
use store::{ObjectStore, PgRecord, StoreResult};
use types::object_info::OI_ATTR;
use types::{CollId, EVersion, GHObject, HObject, ObjectInfo, PgShard};

/// Objects of one group at most: with more of them it is not looked at.
const OBJECTS_MAX: usize = 2_000;

/// Objects and their versions; an error where the store has to fetch first.
fn versions(store: &dyn ObjectStore, pg: &Pg) -> StoreResult<BTreeMap<HObject, EVersion>> {
    let coll = CollId::Pg(pg.pgid);
    let page = store.list(coll, &GHObject::min(), &GHObject::max(), OBJECTS_MAX)?;
    let mut found = BTreeMap::new();
    for name in page.objects.into_iter().filter(|name| name.hobj.pool == pg.pgid.pgid.pool) {
        let record = store.attr(coll, &name, OI_ATTR.as_bytes())?;
        let info = record.and_then(|bytes| ObjectInfo::decode_of(name.hobj.clone(), &mut Decoder::new(bytes)).ok());
        found.insert(name.hobj, info.map_or(EVersion::ZERO, |info| info.version));
    }
    Ok(found)
}

/// A group's record and objects.
fn state(osd: &OsdProcess, pg: &Pg) -> Option<(PgRecord, Option<BTreeMap<HObject, EVersion>>)> {
    let store = osd.core().store();
    let record = store.load_pg(pg.pgid).ok()??;
    // What has to be fetched first is not looked at, and a device that reads wrong is another checker's.
    let objects = versions(store, pg).ok().filter(|objects| objects.len() < OBJECTS_MAX);
    Some((record, objects))
}

/// Looks at a group of this OSD, if that is its primary, and at each of its members.
///
/// # Errors
/// What a member has, and is not taken to have.
pub fn check(osds: &[Option<OsdProcess>], primary: &OsdProcess, pg: &Pg) -> Result<(), String> {
    if !pg.peering().is_primary() || !pg.peering().is_active() {
        return Ok(());
    }
    let Some((ours, our_objects)) = state(primary, pg) else { return Ok(()) };
    for member in pg.peering().others() {
        let Some(osd) = osds.get(member.osd as usize).and_then(Option::as_ref) else { continue };
        let follows = |other: &&Pg| {
            other.pgid == pg.pgid && other.peering().state() == State::ReplicaActive && same_interval(other, pg, primary.id())
        };
        let Some(other) = osd.core().pgs().find(follows) else { continue };
        let Some((theirs, their_objects)) = state(osd, other) else { continue };
        let who = format!("{}: osd.{}", pg.pgid, member.osd);
        known(pg, member, &theirs).map_err(|what| format!("{who} {what} its primary, osd.{}", primary.id()))?;
        let (Some(our_objects), Some(their_objects)) = (&our_objects, their_objects) else { continue };
        if theirs.info.last_update != ours.info.last_update {
            continue;
        }
        let counts = |obj: &HObject| {
            (*obj < theirs.info.last_backfill || theirs.info.last_backfill.max)
                && !ours.missing.contains_key(obj)
                && !theirs.missing.contains_key(obj)
        };
        for obj in our_objects.keys().chain(their_objects.keys()).filter(|obj| counts(obj)) {
            let (a, b) = (our_objects.get(obj), their_objects.get(obj));
            if a != b {
                return Err(format!("{who} has {obj} at {b:?}, and osd.{} at {a:?}, at {}", primary.id(), ours.info.last_update));
            }
        }
    }
    Ok(())
}
fn same_interval(other: &Pg, pg: &Pg, primary: i32) -> bool {
    other.peering().last_peering_reset == pg.peering().last_peering_reset && other.peering().primary().osd == primary
}

/// What the primary believes of a member.
fn known(pg: &Pg, member: PgShard, theirs: &PgRecord) -> Result<(), String> {
    let Some(peer) = pg.peering().peers().get(&member) else { return Ok(()) };
    let known = &peer.member;
    if theirs.info.last_backfill > known.info.last_backfill {
        return Err(format!("counts as filled up to {}, and {} is known to", theirs.info.last_backfill, known.info.last_backfill));
    }
    match theirs.missing.keys().find(|obj| !known.missing.contains(obj)) {
        Some(obj) => Err(format!("misses {obj}, which is not known to")),
        None => Ok(()),
    }
}
