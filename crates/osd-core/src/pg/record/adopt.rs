//! The record becomes that of another member's log, which counts.
//!
//! Holds no rule of how two logs become one, see [`crate::pg::reconcile::merge`]; what the store is to remove is the caller's.

use super::Record;
use crate::pg::backend::layout::Layout;
use crate::pg::reconcile::merge::{self, Merged};
use crate::pg::reconcile::{LogError, PeerLog, common_point};
use store::LogDelta;
use types::{EVersion, Epoch, HObject, PastIntervals, PgInfo, PgLogEntry};

impl Record {
    /// Up to here our log is another member's, which is to count; its info is `info`.
    pub(in crate::pg) fn common_point(&self, theirs: &PeerLog, info: &PgInfo) -> Result<EVersion, LogError> {
        ends_as_said(theirs, info)?;
        common_point(&self.log, theirs)
    }
    /// Our log becomes another member's. `divergent` are our entries above the common point. An error leaves everything as it was.
    pub(in crate::pg) fn merge(
        &mut self,
        layout: Layout,
        theirs: PeerLog,
        divergent: &[PgLogEntry],
        info: &PgInfo,
    ) -> Result<Merged, LogError> {
        let merged = merge::merge(layout, &self.log, divergent, theirs, &self.info.last_backfill, &mut self.missing)?;
        let forward = layout.roll_forward(merged.head);
        Ok(self.adopt(merged, info, forward))
    }
    /// Our log goes back to an older head, which is the primary's. `divergent` are our entries above it.
    pub(in crate::pg) fn rewind(&mut self, layout: Layout, divergent: &[PgLogEntry], info: &PgInfo) -> Result<Merged, LogError> {
        let merged = merge::rewind(layout, &self.log, divergent, info.last_update, &self.info.last_backfill, &mut self.missing)?;
        Ok(self.adopt(merged, info, None))
    }
    /// No log reaches back to what we have: the primary's newest part of it becomes ours, and all objects come by a backfill.
    pub(in crate::pg) fn start_anew(&mut self, layout: Layout, theirs: PeerLog, info: &PgInfo) -> Result<Merged, LogError> {
        ends_as_said(&theirs, info)?;
        let merged = merge::replace(theirs, &mut self.missing);
        self.info.last_backfill = HObject::min();
        self.info.stats.stats = info.stats.stats.clone();
        self.info.stats.stats_invalid = info.stats.stats_invalid;
        self.info.last_user_version = info.last_user_version;
        let forward = layout.roll_forward(merged.head);
        Ok(self.adopt(merged, info, forward))
    }
    /// `forward`: the mark of roll-forward moves here. Entries of another's log can't be undone in place: what that takes is not in our
    /// store.
    fn adopt(&mut self, merged: Merged, theirs: &PgInfo, forward: Option<EVersion>) -> Merged {
        self.log.take_merge(&merged);
        self.roll_forward(forward);
        merged.apply_to_info(&self.missing, theirs, &mut self.info);
        self.note_ends();
        self.note_complete();
        self.assert_agrees();
        merged
    }
    /// What the store is to be told of it. `entries`: those of the log before, if the record is to be written anew.
    pub(in crate::pg) fn adopted(&self, merged: &Merged, epoch: Epoch, past: &PastIntervals, entries: Vec<PgLogEntry>) -> LogDelta {
        match merged.is_whole() {
            true => self.whole(epoch, past, merged.entries(entries)),
            false => LogDelta { info: self.full(), rolled_forward_to: self.log.forward(), ..merged.delta(self.info.pgid) },
        }
    }
}

fn ends_as_said(theirs: &PeerLog, info: &PgInfo) -> Result<(), LogError> {
    match theirs.head() == info.last_update {
        true => Ok(()),
        false => Err(LogError::Info { log: theirs.head(), info: info.last_update }),
    }
}
