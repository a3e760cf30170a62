//! Snapshots as a writer names them.

use crate::SnapId;
use denc::denc_struct;

/// `SnapContext`: the newest snapshot that the writer knows of, and those that exist, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SnapContext {
    pub seq: SnapId,
    pub snaps: Vec<SnapId>,
}
denc_struct!(SnapContext, bare, { seq, snaps });

impl SnapContext {
    /// True if the numbers descend and none is above `seq` or 0: what an OSD demands of a writer.
    pub fn is_valid(&self) -> bool {
        if self.seq > crate::CEPH_MAXSNAP {
            return false;
        }
        let mut above = self.seq.saturating_add(1);
        self.snaps.iter().all(|&snap| {
            let fits = snap < above && snap != 0;
            above = snap;
            fits
        })
    }
}
