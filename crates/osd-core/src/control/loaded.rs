//! What Control takes of what the store remembers, after a start.

use super::Control;
use crate::map_cache::MapCache;
use ::maps::OsdMap;
use std::cell::Ref;
use std::rc::Rc;
use types::{Bytes, Epoch, OsdSuperblock};

impl Control {
    /// The superblock of the store, which is one of ours ([`crate::persist::check_ours`]).
    pub fn take_superblock(&mut self, found: OsdSuperblock) {
        if self.cluster_fsid.is_zero() {
            self.cluster_fsid = found.cluster_fsid;
        }
        self.superblock = found;
    }
    pub fn take_map_bytes(&mut self, epoch: Epoch, full: bool, bytes: Bytes) {
        self.maps.borrow_mut().insert(epoch, full, bytes);
    }
    /// How far a monitor had confirmed the maps of the store; `None`: the store is of before, and says nothing of it.
    pub fn take_confirmed(&mut self, epoch: Option<Epoch>) {
        self.confirmed = epoch.unwrap_or(self.superblock.newest_map);
    }
    /// Maps beyond this one do not count.
    pub fn go_back(&mut self, to: Epoch) {
        (self.superblock.newest_map, self.superblock.current_epoch) = (to, to);
        self.superblock.purged_snaps_last = self.superblock.purged_snaps_last.min(to);
    }
    /// Maps could not be read: the newest of those that could is the OSD's.
    pub fn lost_maps(&mut self) {
        self.superblock.newest_map = self.maps.borrow().newest_full();
    }
    /// The OSD goes on with this map.
    pub fn resume_at(&mut self, map: Rc<OsdMap>) {
        self.map = map;
    }
    pub fn maps(&self) -> Ref<'_, MapCache> {
        self.maps.borrow()
    }
    /// Groups would start from this epoch: it stays, and what follows. So does the newest map that the monitor has named.
    pub(super) fn need_maps_from(&mut self, epoch: Epoch) {
        self.maps.borrow_mut().need_from(epoch.min(self.confirmed));
    }
}
