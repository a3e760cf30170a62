//! A group's record: its info, its log, the objects that it lacks, and what of these the store has.
//!
//! ```text
//!    append follow follow_entries give_up      the log grows
//!    merge rewind start_anew                   it becomes another member's       ──▶  log ──▶ last_update, log_tail
//!    got lack reach                            objects come, and are lacked           missing ──▶ last_complete
//!    split_off take_in forget_entries          the group becomes others
//! ```
//! The only writer of `last_update`, `last_complete` and `log_tail`: they follow from the log and from the missing objects, so no method leaves them apart. A
//! change goes to the store from in here, as a [`LogDelta`], by the function that the caller brings: a refused change is taken back before the method returns.
//! Absent: the store itself, messages, members. How two logs become one is [`super::reconcile`]' to say, how entries are kept, [`log`]'s.

mod adopt;
pub mod log;
pub mod log_item;
mod reshape;

use super::backend::at_store::Submitted;
use super::backend::layout::Layout;
use super::reconcile::last_complete;
use super::reconcile::missing::Missing;
use crate::planted::{Bug, planted};
use log::{Log, Mark};
use store::{FastInfo, InfoChange, LogDelta};
use types::{EVersion, Epoch, HObject, IntervalSet, LogOp, PastIntervals, PgHistory, PgInfo, PgLogEntry, PgMissingItem, PgStat, ReqId};

/// How long a log gets.
pub(super) struct LogBound {
    /// Entries that stay.
    pub target: usize,
    /// So many at least go at once, and so many at most.
    pub trim_min: usize,
    pub trim_max: usize,
    /// Duplicates that stay.
    pub dups: usize,
}

/// See the module.
pub struct Record {
    info: PgInfo,
    log: Log,
    /// Objects of which the log knows a newer version than the store has.
    missing: Missing,
    /// The whole info is to be written.
    is_dirty: bool,
    /// The map that the record in the store names.
    saved_epoch: Epoch,
    /// A save that the store had no room for; the next tick tries again.
    unsaved: Option<Submitted>,
}

/// Where the record stood.
struct Before {
    mark: Mark,
    last_complete: EVersion,
    last_user_version: u64,
}

impl Record {
    /// A new group's.
    pub fn new(info: PgInfo) -> Self {
        let log = Log::load(info.last_update, info.log_tail, [], []);
        Self { is_dirty: true, ..Self::load(info, log, Missing::default(), 0) }
    }
    /// As the store has it, with the map that it names there.
    pub fn load(mut info: PgInfo, log: Log, missing: Missing, saved_epoch: Epoch) -> Self {
        // Records of versions before had what a report names, see [`super::members::stats`].
        info.stats.purged_snaps = IntervalSet::new();
        Self { info, log, missing, is_dirty: false, saved_epoch, unsaved: None }
    }

    pub fn info(&self) -> &PgInfo {
        &self.info
    }
    pub fn log(&self) -> &Log {
        &self.log
    }
    pub fn missing(&self) -> &Missing {
        &self.missing
    }
    /// The version of the next entry of this epoch: one more than the last.
    pub fn next_version(&self, epoch: Epoch) -> EVersion {
        EVersion::new(epoch, self.log.head().version + 1)
    }
    /// Counts of the group, as they are reported.
    pub(super) fn stats_mut(&mut self) -> &mut PgStat {
        &mut self.info.stats
    }
    /// Epochs at which things last happened.
    pub(super) fn history_mut(&mut self) -> &mut PgHistory {
        &mut self.info.history
    }
    /// True if the log has the request: it was executed before.
    pub(super) fn is_known(&self, reqid: &ReqId) -> bool {
        self.log.find(reqid).is_some() && !planted(Bug::ForgetDups)
    }
    /// An error if these entries can't stand behind the log, in this order.
    pub(super) fn check_order(&self, entries: &[PgLogEntry]) -> Result<(), String> {
        let mut last = self.log.head();
        for entry in entries {
            if entry.version <= last {
                return Err(format!("an entry {} behind {last}", entry.version));
            }
            last = entry.version;
        }
        Ok(())
    }
    /// The interval starts here, by the epoch at which its primary started it.
    pub(super) fn start_interval(&mut self, started: Epoch) {
        self.info.last_epoch_started = started;
        self.info.last_interval_started = self.info.history.same_interval_since;
    }
    /// It has started at every member.
    pub(super) fn started_everywhere(&mut self) {
        self.info.history.last_epoch_started = self.info.last_epoch_started;
        self.info.history.last_interval_started = self.info.last_interval_started;
    }

    /// The log's ends are the info's.
    fn note_ends(&mut self) {
        (self.info.last_update, self.info.log_tail) = (self.log.head(), self.log.tail());
    }
    /// Complete is everything up to the oldest object that is missing.
    pub(super) fn note_complete(&mut self) {
        self.info.last_complete = if self.missing.is_empty() { self.info.last_update } else { last_complete(&self.log, &self.missing) };
    }
    fn before(&self) -> Before {
        let i = &self.info;
        Before { mark: self.log.mark(), last_complete: i.last_complete, last_user_version: i.last_user_version }
    }
    /// The store has refused it.
    #[cold]
    fn take_back(&mut self, before: Before) {
        self.log.rewind(before.mark);
        self.note_ends();
        (self.info.last_complete, self.info.last_user_version) = (before.last_complete, before.last_user_version);
    }
    fn fast(&self) -> InfoChange {
        InfoChange::Fast(FastInfo::of(&self.info))
    }

    /// Appends entries, moves the mark of roll-forward, and trims the log. `everywhere`: of what we have complete, what every member has.
    pub(super) fn append<E>(
        &mut self,
        entries: Vec<PgLogEntry>,
        bound: &LogBound,
        layout: Layout,
        everywhere: impl FnOnce(EVersion) -> EVersion,
        give: impl FnOnce(LogDelta) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.before();
        for e in &entries {
            self.log.push(e);
            self.info.last_user_version = self.info.last_user_version.max(e.user_version);
        }
        self.note_ends();
        self.note_complete();
        let everywhere = everywhere(self.info.last_complete);
        self.roll_forward(layout.roll_forward(everywhere));
        let limit = if planted(Bug::TrimTooFar) { self.log.head() } else { everywhere };
        let trim = self.log.trim_to(bound.target, bound.trim_min, bound.trim_max, limit);
        let mut delta = LogDelta { entries, rolled_forward_to: self.log.forward(), ..LogDelta::new(self.info.pgid) };
        if let Some(to) = trim {
            self.trim(to, bound.dups, &mut delta);
        }
        delta.info = self.fast();
        let given = give(delta);
        if given.is_err() {
            self.take_back(before);
        }
        given
    }
    fn roll_forward(&mut self, to: Option<EVersion>) {
        if let Some(to) = to {
            self.log.roll_forward_to(to);
        }
    }
    fn trim(&mut self, to: EVersion, dups: usize, delta: &mut LogDelta) {
        delta.trim_to = Some(to);
        (delta.dups, delta.trim_dups_to) = self.log.trim(to, dups);
        self.info.log_tail = self.log.tail();
    }

    /// The primary has written. `lacks`: our store does not get what these entries say. The mark of roll-forward moves to `forward`. The
    /// primary's log begins behind `trim_to`, and so does ours. The store is never allowed to refuse this: the OSD ends.
    pub(super) fn follow(
        &mut self,
        entries: Vec<PgLogEntry>,
        lacks: bool,
        stats: PgStat,
        forward: Option<EVersion>,
        trim_to: EVersion,
        dups: usize,
    ) -> LogDelta {
        for entry in &entries {
            self.info.last_user_version = self.info.last_user_version.max(entry.user_version);
        }
        let mut delta = self.follow_all(entries, lacks, forward);
        self.info.stats = stats;
        if trim_to > self.log.tail() && trim_to <= self.info.last_complete.min(self.log.can_rollback_to()) {
            self.trim(trim_to, dups, &mut delta);
        }
        delta.info = self.fast();
        delta
    }
    /// The primary's log has entries by which no store changes: we lack what they name.
    pub(super) fn follow_entries(&mut self, entries: Vec<PgLogEntry>, forward: Option<EVersion>) -> LogDelta {
        let mut delta = self.follow_all(entries, true, forward);
        self.info.stats.stats_invalid |= !delta.missing.is_empty();
        delta.info = self.fast();
        delta
    }
    fn follow_all(&mut self, entries: Vec<PgLogEntry>, lacks: bool, forward: Option<EVersion>) -> LogDelta {
        let mut delta = LogDelta::new(self.info.pgid);
        for entry in &entries {
            self.log.push(entry);
            if lacks && !entry.is_error() && entry.soid <= self.info.last_backfill {
                self.missing.next_event(entry);
                delta.missing.push((entry.soid.clone(), self.missing.get(&entry.soid)));
            }
        }
        self.note_ends();
        self.note_complete();
        self.roll_forward(forward);
        (delta.entries, delta.rolled_forward_to) = (entries, self.log.forward());
        delta
    }

    /// Appends entries that are no write of a client: we lack what they name, as if we had been away then, but for what is reverted: our store has that.
    pub(super) fn give_up(&mut self, entries: &[PgLogEntry], takes: impl FnOnce(LogDelta) -> bool) -> bool {
        let mut delta = LogDelta::new(self.info.pgid);
        let (missing, before) = (self.missing.clone(), self.before());
        for entry in entries {
            self.log.push(entry);
            self.missing.next_event(entry);
            if entry.op == LogOp::LOST_REVERT {
                self.missing.remove(&entry.soid);
            }
            delta.missing.push((entry.soid.clone(), self.missing.get(&entry.soid)));
        }
        self.note_ends();
        self.note_complete();
        delta.info = self.fast();
        delta.entries = entries.to_vec();
        let is_taken = takes(delta);
        if !is_taken {
            self.missing = missing;
            self.take_back(before);
        }
        is_taken
    }

    /// Our store gets an object at this version. How it was lacked, if it was; `Err` if the store has no room.
    pub(super) fn got(
        &mut self,
        got: Option<(&HObject, EVersion)>,
        takes: impl FnOnce(LogDelta) -> bool,
    ) -> Result<Option<PgMissingItem>, ()> {
        let mut delta = LogDelta::new(self.info.pgid);
        let Some((obj, version)) = got else { return if takes(delta) { Ok(None) } else { Err(()) } };
        let (item, complete) = (self.missing.get(obj), self.info.last_complete);
        if self.missing.got(obj, version) {
            delta.missing.push((obj.clone(), None));
            self.note_complete();
            delta.info = self.fast();
        }
        if takes(delta) {
            return Ok(item);
        }
        self.info.last_complete = complete;
        if let Some(item) = item {
            self.missing.insert(obj, &item);
        }
        Err(())
    }
    /// Our copy of an object is lacked from now on; false if the store has no room for saying so.
    pub(super) fn lack(&mut self, obj: &HObject, item: &PgMissingItem, takes: impl FnOnce(LogDelta) -> bool) -> bool {
        let (before, complete) = (self.missing.get(obj), self.info.last_complete);
        self.missing.insert(obj, item);
        self.note_complete();
        let missing = vec![(obj.clone(), Some(item.clone()))];
        let is_taken = takes(LogDelta { missing, info: self.fast(), ..LogDelta::new(self.info.pgid) });
        if !is_taken {
            match before {
                Some(before) => self.missing.insert(obj, &before),
                None => drop(self.missing.remove(obj)),
            }
            self.info.last_complete = complete;
        }
        is_taken
    }
    /// As a target of a backfill: we have everything up to here.
    pub(super) fn reach(&mut self, to: HObject, stats: PgStat, takes: impl FnOnce(LogDelta) -> bool) -> bool {
        let before = (std::mem::replace(&mut self.info.last_backfill, to), std::mem::replace(&mut self.info.stats, stats));
        let is_taken = takes(LogDelta { info: self.full(), ..LogDelta::new(self.info.pgid) });
        if !is_taken {
            (self.info.last_backfill, self.info.stats) = before;
        }
        is_taken
    }

    /// The primary's counts, which are the same for every member.
    pub(super) fn take_counts(&mut self, theirs: &PgInfo) {
        if !self.info.is_incomplete() {
            self.info.stats.stats = theirs.stats.stats.clone();
            self.info.stats.stats_invalid = theirs.stats.stats_invalid;
        }
        self.info.last_user_version = self.info.last_user_version.max(theirs.last_user_version);
    }
    /// The primary's purged snapshots are ours. Those that we did not know of.
    pub(super) fn take_purged(&mut self, theirs: &IntervalSet) -> IntervalSet {
        let mut new = theirs.clone();
        new.subtract(&self.info.purged_snaps);
        self.info.purged_snaps = theirs.clone();
        new
    }
    /// Of purged snapshots only these are remembered.
    pub(super) fn keep_purged(&mut self, snaps: &IntervalSet) {
        let purged = self.info.purged_snaps.intersection(snaps);
        if purged != self.info.purged_snaps {
            self.info.purged_snaps = purged;
            self.is_dirty = true;
        }
    }
    /// These snapshots are purged.
    pub(super) fn purged(&mut self, snaps: &IntervalSet) {
        self.info.purged_snaps.union_with(snaps);
        self.is_dirty = true;
    }

    fn full(&self) -> InfoChange {
        InfoChange::Full(Box::new(self.info.clone()))
    }
    /// The whole info, the past intervals and the map of which they are.
    pub(super) fn standing(&self, epoch: Epoch, past: &PastIntervals) -> LogDelta {
        LogDelta { epoch: Some(epoch), info: self.full(), past_intervals: Some(past.clone()), ..LogDelta::new(self.info.pgid) }
    }
    /// All that the store is to remember of the group, in place of what it does. `entries` are those of the log.
    pub(super) fn whole(&self, epoch: Epoch, past: &PastIntervals, entries: Vec<PgLogEntry>) -> LogDelta {
        LogDelta {
            reset: true,
            entries,
            trim_to: Some(self.log.tail()),
            dups: self.log.all_dups(),
            missing: self.missing.to_record(),
            rolled_forward_to: self.log.forward(),
            ..self.standing(epoch, past)
        }
    }
    /// Writes the standing. A later tick writes it if there is no room now.
    pub(super) fn save(&mut self, epoch: Epoch, past: &PastIntervals, what: Submitted, takes: impl FnOnce(LogDelta) -> bool) {
        self.is_dirty = false;
        if takes(self.standing(epoch, past)) {
            self.saved_epoch = epoch;
        } else if !matches!(self.unsaved, Some(Submitted::Activation(_))) {
            self.unsaved = Some(what);
        }
    }
    /// The record that the store is given names this map.
    pub(super) fn saved(&mut self, epoch: Epoch, is_dirty: bool) {
        (self.saved_epoch, self.is_dirty) = (epoch, is_dirty);
    }
    /// The map that the record in the store names.
    pub(crate) fn saved_epoch(&self) -> Epoch {
        self.saved_epoch
    }
    /// The whole info is to be written.
    pub(super) fn touch(&mut self) {
        self.is_dirty = true;
    }
    pub(super) fn is_dirty(&self) -> bool {
        self.is_dirty
    }
    /// True if the store has what we have.
    pub(super) fn is_saved(&self) -> bool {
        self.unsaved.is_none() && !self.is_dirty
    }
    /// A record that the store had no room for.
    pub(super) fn take_unsaved(&mut self) -> Option<Submitted> {
        self.unsaved.take()
    }
    /// An interval begins, which will have a record of its own.
    pub(super) fn forget_unsaved(&mut self) {
        (self.unsaved, self.is_dirty) = (None, true);
    }

    /// Each method leaves it so.
    pub(super) fn assert_agrees(&self) {
        let (i, log) = (&self.info, &self.log);
        assert!(log.head() == i.last_update, "{}: the log ends at {}, the record at {}", i.pgid, log.head(), i.last_update);
        assert!(log.tail() == i.log_tail, "{}: the log begins at {}, the record at {}", i.pgid, log.tail(), i.log_tail);
        assert!(i.log_tail <= i.last_update && i.last_complete <= i.last_update, "{}: a record in disorder", i.pgid);
        assert!(i.log_tail <= log.can_rollback_to(), "{}: entries are trimmed that can be undone", i.pgid);
        if let (Some(oldest), Some(newest)) = (self.missing.oldest_need(), self.missing.newest_need()) {
            let is_in = oldest > i.last_complete && newest <= i.last_update;
            assert!(is_in, "{}: objects are missing at {oldest} to {newest}, complete up to {}", i.pgid, i.last_complete);
        }
    }
}

#[cfg(test)]
mod tests;
