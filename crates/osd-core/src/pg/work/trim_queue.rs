//! Removed snapshots whose clones a group still has, and how far it has come with them.
//!
//! Holds no clone: what is trimmed, and when, is [`super::trim`]'s.

use crate::event::{Effect, Level};
use crate::shared::Cx;
use crate::work::{Status, Work};
use store::StoreError;
use types::{IntervalSet, SpgId};

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
    /// The index of snapshots can't be read now, or not at all: trimming rests until the store has news or a tick comes.
    pub fn stopped(&mut self, pgid: SpgId, error: &StoreError, cx: &mut Cx<'_>) {
        self.work = Work::stopped(error);
        if !matches!(error, StoreError::Wait(_)) {
            self.errors += 1;
            if self.errors == 1 {
                cx.sh.counters.damaged += 1;
                cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{} snaptrim: {error}", pgid) });
            }
        }
    }
    /// Its row among the work that is shown, of an active group. `trimmed`: how many clones have gone.
    pub fn status(&self, pgid: SpgId, trimmed: i64) -> Option<Status> {
        let progress = format!("{} snapshots are left, {trimmed} clones trimmed", self.queue.size());
        (!self.queue.is_empty()).then(|| Status { what: "snaptrim", pgid: Some(pgid), work: self.work(), progress })
    }
}
