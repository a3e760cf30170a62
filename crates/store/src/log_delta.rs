//! What a placement group remembers besides its objects, as changes (`LogDelta`) and as a whole (`PgRecord`).
//!
//! How it is kept is each store's business; nothing here is an object or an omap key.

use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use types::{EVersion, Epoch, HObject, ObjectStatSum, PastIntervals, PgInfo, PgLogDup, PgLogEntry, PgMissingItem, SpgId};

/// What changes in a [`PgInfo`] with each write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastInfo {
    pub last_update: EVersion,
    pub last_complete: EVersion,
    pub last_user_version: u64,
    /// `stats.stats.sum`.
    pub sum: ObjectStatSum,
}

impl FastInfo {
    pub fn of(info: &PgInfo) -> Self {
        Self {
            last_update: info.last_update,
            last_complete: info.last_complete,
            last_user_version: info.last_user_version,
            sum: info.stats.stats.sum,
        }
    }
    pub fn apply_to(&self, info: &mut PgInfo) {
        info.last_update = self.last_update;
        info.last_complete = self.last_complete;
        info.last_user_version = self.last_user_version;
        info.stats.version = self.last_update;
        info.stats.stats.sum = self.sum;
    }
}

/// How a group's info changes.
#[derive(Debug, Clone, Default)]
#[allow(clippy::large_enum_variant)] // the large one is the one that every write has: it shall not be allocated
pub enum InfoChange {
    #[default]
    Same,
    Fast(FastInfo),
    Full(Box<PgInfo>),
}

/// Changes of one group's memory, applied with a transaction, all or none. In the order of the fields.
#[derive(Debug, Clone, Default)]
pub struct LogDelta {
    pub pg: SpgId,
    /// Everything that was remembered of the group is gone; the rest applies to a fresh record, or, if there is nothing in the rest,
    /// the group is forgotten.
    pub reset: bool,
    /// The map's epoch that the group has taken in.
    pub epoch: Option<Epoch>,
    pub info: InfoChange,
    pub past_intervals: Option<PastIntervals>,
    /// Entries above this are dropped (they were divergent).
    pub rewind_to: Option<EVersion>,
    /// Appended, ascending, above all that are there.
    pub entries: Vec<PgLogEntry>,
    /// Entries up to this, inclusive, are dropped, and the log's tail is this.
    pub trim_to: Option<EVersion>,
    /// Appended.
    pub dups: Vec<PgLogDup>,
    /// Dups up to this, inclusive, are dropped.
    pub trim_dups_to: Option<EVersion>,
    /// Objects that are missing since, or no longer.
    pub missing: Vec<(HObject, Option<PgMissingItem>)>,
    /// The mark of roll-forward is here since.
    pub rolled_forward_to: Option<EVersion>,
    /// What changes in other groups' memory with it, in this order: a split or a merge changes several, all or none. Theirs have none of their own.
    pub with: Vec<LogDelta>,
}

impl LogDelta {
    pub fn new(pg: SpgId) -> Self {
        Self { pg, ..Self::default() }
    }
    /// The group is forgotten.
    pub fn forget(pg: SpgId) -> Self {
        Self { reset: true, ..Self::new(pg) }
    }
    /// This one, and those that go with it: each is of one group.
    pub fn apart(mut self) -> impl Iterator<Item = Self> {
        let with = std::mem::take(&mut self.with);
        std::iter::once(self).chain(with)
    }
    /// Rows that they add to what groups remember, at most.
    pub fn rows(&self) -> usize {
        self.entries.len() + self.dups.len() + self.missing.len() + self.with.iter().map(Self::rows).sum::<usize>()
    }
    /// True if, after a reset, there would be nothing.
    fn is_bare(&self) -> bool {
        self.epoch.is_none() && matches!(self.info, InfoChange::Same) && self.entries.is_empty()
    }
}

/// What is remembered of one group: enough to go on after a restart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PgRecord {
    pub epoch: Epoch,
    pub info: PgInfo,
    pub past_intervals: PastIntervals,
    /// Ascending.
    pub log: VecDeque<PgLogEntry>,
    pub dups: VecDeque<PgLogDup>,
    pub missing: BTreeMap<HObject, PgMissingItem>,
    /// The mark of roll-forward: only entries above it can be undone in place. `None`: the mark is the log's head, as in groups of copies
    /// and in records of before.
    pub rolled_forward_to: Option<EVersion>,
}

impl PgRecord {
    /// Applies a change to its group's record, but for what goes with it. The record may not be there yet; `None` afterwards: forgotten. For stores that keep records
    /// in memory, and as the meaning of a delta for those that don't.
    pub fn apply(record: &mut Option<PgRecord>, delta: LogDelta) {
        if delta.reset {
            *record = None;
            if delta.is_bare() {
                return;
            }
        }
        let pg = delta.pg;
        record.get_or_insert_with(|| PgRecord { info: PgInfo::new(pg), ..PgRecord::default() }).update(delta);
    }

    /// Applies a change that does not reset.
    pub fn update(&mut self, delta: LogDelta) {
        if let Some(epoch) = delta.epoch {
            self.epoch = epoch;
        }
        match delta.info {
            InfoChange::Same => {}
            InfoChange::Fast(fast) => fast.apply_to(&mut self.info),
            InfoChange::Full(info) => self.info = *info,
        }
        if let Some(past) = delta.past_intervals {
            self.past_intervals = past;
        }
        if let Some(to) = delta.rewind_to {
            while self.log.back().is_some_and(|e| e.version > to) {
                self.log.pop_back();
            }
        }
        // Names and results are cut from the request's frame, which must not live as long as the log.
        for mut entry in delta.entries {
            entry.soid = entry.soid.detach();
            if !entry.snaps.is_empty() {
                entry.snaps = Bytes::copy_from_slice(&entry.snaps);
            }
            for ret in entry.op_returns.iter_mut().filter(|ret| !ret.bl.is_empty()) {
                ret.bl = Bytes::copy_from_slice(&ret.bl);
            }
            self.log.push_back(entry);
        }
        if let Some(to) = delta.trim_to {
            while self.log.front().is_some_and(|e| e.version <= to) {
                self.log.pop_front();
            }
            self.info.log_tail = to;
        }
        self.dups.extend(delta.dups);
        if let Some(to) = delta.trim_dups_to {
            while self.dups.front().is_some_and(|d| d.version <= to) {
                self.dups.pop_front();
            }
        }
        for (object, item) in delta.missing {
            match item {
                Some(item) => self.missing.insert(object.detach(), item),
                None => self.missing.remove(&object),
            };
        }
        self.rolled_forward_to = delta.rolled_forward_to.or(self.rolled_forward_to);
    }
}
