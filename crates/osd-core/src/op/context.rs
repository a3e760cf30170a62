//! Objects as the placement group knows them: loaded from the store's attributes, and found at a snapshot.

use super::plan::{ObjectContext, PlanStop};
use super::source::Source;
use denc::{Decoder, Denc};
use store::StoreError;
use types::object_info::{OI_ATTR, SS_ATTR};
use types::{CEPH_NOSNAP, HObject, ObjectInfo, SnapId, SnapSet};

impl From<StoreError> for PlanStop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Wait(ticket) => Self::Wait(ticket),
            StoreError::Stopped(why) => Self::Ended(why),
            other => Self::Store(other.to_string()),
        }
    }
}

/// A record of an object that can't be read: the store gives what was never written.
fn broken(hobj: &HObject, attr: &str, error: denc::DencError) -> PlanStop {
    PlanStop::Store(format!("attribute {attr} of {hobj}: {error}"))
}

impl ObjectContext {
    /// An object that does not exist.
    pub fn absent(hobj: HObject) -> Self {
        Self { info: ObjectInfo::new(hobj), exists: false, snapset: SnapSet::default() }
    }

    pub fn hobj(&self) -> &HObject {
        &self.info.soid
    }
    /// With a name in storage of its own; see [`HObject::detach`].
    pub fn detached(mut self) -> Self {
        self.info.soid = self.info.soid.detach();
        self
    }

    /// True if there is something for a reader.
    pub fn visible(&self) -> bool {
        self.exists && !self.info.is_whiteout()
    }
}

/// Reads an object's record; for a head also its snapshots. The context's name is the one given: what keeps it longer than a message detaches it.
pub fn load_object(source: Source<'_>, hobj: &HObject) -> Result<ObjectContext, PlanStop> {
    let gobj = source.name(hobj.clone());
    // A clone's second attribute means nothing.
    let [info, snaps] = match source.two_attrs(&gobj, [OI_ATTR.as_bytes(), SS_ATTR.as_bytes()]) {
        Ok(both) => both,
        Err(StoreError::NoObject(..)) => return Ok(ObjectContext::absent(gobj.hobj)),
        Err(other) => return Err(other.into()),
    };
    let Some(info) = info else { return Err(PlanStop::Store(format!("attribute {OI_ATTR} of {hobj} is gone"))) };
    let info = ObjectInfo::decode_of(gobj.hobj, &mut Decoder::new(info)).map_err(|error| broken(hobj, OI_ATTR, error))?;
    let snapset = match snaps.filter(|_| hobj.is_head()) {
        Some(bytes) => SnapSet::decode(&mut Decoder::new(bytes)).map_err(|error| broken(hobj, SS_ATTR, error))?,
        None if hobj.is_head() => return Err(PlanStop::Store(format!("attribute {SS_ATTR} of {hobj} is gone"))),
        None => SnapSet::default(),
    };
    Ok(ObjectContext { exists: true, info, snapset })
}

/// Which object serves a reader at a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtSnap {
    Head,
    Clone(SnapId),
    /// There was no object at that time, or the snapshot is gone.
    Nothing,
}

/// Finds the object that serves `snap`, of a head with this snapset. `removed` says whether a snapshot is being removed.
pub fn resolve_snap(snapset: &SnapSet, snap: SnapId, removed: &dyn Fn(SnapId) -> bool) -> AtSnap {
    if snap == CEPH_NOSNAP || snap > snapset.seq {
        return AtSnap::Head;
    }
    let Some(&clone) = snapset.clones.iter().find(|clone| **clone >= snap) else { return AtSnap::Nothing };
    let serves = snapset.clone_snaps.get(&clone).is_some_and(|snaps| snaps.contains(&snap));
    if serves && !removed(snap) { AtSnap::Clone(clone) } else { AtSnap::Nothing }
}

/// Finds a clone by its own number (`CEPH_OSD_FLAG_MAP_SNAP_CLONE`).
pub fn resolve_clone(snapset: &SnapSet, snap: SnapId) -> AtSnap {
    if snap == CEPH_NOSNAP || snap > snapset.seq {
        AtSnap::Head
    } else if snapset.clones.contains(&snap) {
        AtSnap::Clone(snap)
    } else {
        AtSnap::Nothing
    }
}
