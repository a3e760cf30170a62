//! Removed snapshots whose clones a group still has, and how far it has come with them.
//!
//! Holds no clone: what is trimmed, and when, is [`super::trim`]'s.

use crate::work::Work;
use types::IntervalSet;

/// Removed snapshots, and how far a group has come with them.
#[derive(Debug)]
pub(crate) struct TrimQueue {
    /// Those whose clones are still here.
    pub queue: IntervalSet,
    /// Those purged everywhere while this OSD was away, and not yet looked for here.
    pub missed: IntervalSet,
    /// While there are any.
    pub work: Work,
    /// How often the index of snapshots could not be read.
    pub errors: u32,
}

impl Default for TrimQueue {
    fn default() -> Self {
        Self { queue: IntervalSet::new(), missed: IntervalSet::new(), work: Work::Busy, errors: 0 }
    }
}

impl TrimQueue {
    pub fn queue(&self) -> &IntervalSet {
        &self.queue
    }
    pub fn work(&self) -> Work {
        if self.queue.is_empty() { Work::Idle } else { self.work }
    }
    pub fn work_mut(&mut self) -> &mut Work {
        &mut self.work
    }
}
