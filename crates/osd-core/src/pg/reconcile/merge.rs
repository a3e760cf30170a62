//! Another member's log, which counts, into ours; and ours back to an older head.
//!
//! ```text
//!   ours            tail ─────────────── common ──── divergent ────▶ head
//!   theirs   tail ── older ──┴────────── common ──── newer ────────────────▶ head
//!   merged   tail ── older ──┴────────── common ──── newer ────────────────▶ head
//! ```
//!
//! First divergent entries go, then newer ones are taken in: the primary reckons a replica's missing objects in the same two steps, see
//! [`super::member`]. Holds no store: the outcome says what is to change there.

use super::missing::Missing;
use super::{LogError, PeerLog, common_point};
use crate::pg::backend::copies::rewind::Rewound;
use crate::pg::backend::layout::Layout;
use crate::pg::record::log::Log;
use crate::planted::{Bug, planted};
use std::collections::BTreeSet;
use store::LogDelta;
use types::{EVersion, HObject, PgInfo, PgLogDup, PgLogEntry, PgMissingItem, SpgId};

/// What changes when logs become one. The missing set has changed already; log ([`Log::take_merge`]), info and store follow.
#[derive(Debug, Default, PartialEq)]
pub struct Merged {
    pub head: EVersion,
    pub tail: EVersion,
    /// Our entries above this are dropped; always there, and our head if nothing is dropped.
    pub rewind_to: EVersion,
    /// Entries in front of ours.
    pub older: Vec<PgLogEntry>,
    /// Entries behind ours.
    pub newer: Vec<PgLogEntry>,
    /// All duplicates, if they are others than ours.
    pub dups: Option<Vec<PgLogDup>>,
    /// Objects to remove from the store, with all that is known of them (the snapshot index). It may not have all of them.
    pub remove: Vec<HObject>,
    /// Objects that dropped entries are undone of in place.
    pub undone: BTreeSet<HObject>,
    /// Changes of the missing set, for the record.
    pub missing: Vec<(HObject, Option<PgMissingItem>)>,
    /// The record in the store can't be changed by a delta.
    whole: bool,
}

/// Makes our log theirs. `divergent` are our entries above [`common_point`], all of them, oldest first. Objects above `last_backfill` are not
/// in our store and never missing. An error leaves everything as it was.
pub fn merge(
    layout: Layout,
    ours: &Log,
    divergent: &[PgLogEntry],
    theirs: PeerLog,
    last_backfill: &HObject,
    missing: &mut Missing,
) -> Result<Merged, LogError> {
    let common = common_point(ours, &theirs)?;
    let PeerLog { head, tail, mut entries, dups, .. } = theirs;
    let tail = tail.min(ours.tail());
    let newer = entries.split_off(entries.partition_point(|e| e.version <= common));
    entries.truncate(entries.partition_point(|e| e.version <= ours.tail()));
    let mut out = rewind_to(layout, ours, divergent, common, last_backfill, missing);
    let mut touched: BTreeSet<HObject> = std::mem::take(&mut out.missing).into_iter().map(|(obj, _)| obj).collect();
    for e in newer.iter().filter(|e| !e.is_error() && e.soid <= *last_backfill && !planted(Bug::SkipNewMissing)) {
        missing.next_event(e);
        touched.insert(e.soid.detach());
    }
    let dups = merge_dups(ours.all_dups(), dups, tail);
    let whole = !entries.is_empty() || tail != ours.tail() || dups.is_some();
    Ok(Merged { head, tail, older: entries, newer, dups, missing: changes(touched, missing), whole, ..out })
}

/// Takes our log back to an older head, which the primary's info names. `divergent` are our entries above it, all of them, oldest first.
pub fn rewind(
    layout: Layout,
    ours: &Log,
    divergent: &[PgLogEntry],
    head: EVersion,
    last_backfill: &HObject,
    missing: &mut Missing,
) -> Result<Merged, LogError> {
    if head < ours.tail() || head > ours.head() {
        return Err(LogError::Apart { tail: ours.tail(), head });
    }
    Ok(rewind_to(layout, ours, divergent, head, last_backfill, missing))
}

/// Takes their log in place of ours: a backfill begins anew, and nothing in our store counts.
pub fn replace(theirs: PeerLog, missing: &mut Missing) -> Merged {
    let PeerLog { head, tail, entries, mut dups, .. } = theirs;
    if planted(Bug::LoseDup) {
        dups.pop();
    }
    let gone = std::mem::take(missing).iter().map(|(obj, _)| (obj, None)).collect();
    Merged { head, tail, newer: entries, dups: Some(dups), missing: gone, whole: true, ..Merged::default() }
}

fn rewind_to(layout: Layout, ours: &Log, divergent: &[PgLogEntry], to: EVersion, last_backfill: &HObject, missing: &mut Missing) -> Merged {
    assert!(
        divergent.iter().map(|e| e.version).eq(ours.versions_after(to)),
        "the entries that are taken back are those of the log above {to}"
    );
    let Rewound { remove, touched, undone } = layout.take_back(divergent, ours.can_rollback_to(), last_backfill, missing);
    let missing = changes(touched, missing);
    Merged { head: to, tail: ours.tail(), rewind_to: to, remove, undone, missing, ..Merged::default() }
}

fn changes(touched: impl IntoIterator<Item = HObject>, missing: &Missing) -> Vec<(HObject, Option<PgMissingItem>)> {
    let with_item = |obj: HObject| {
        let item = missing.get(&obj);
        (obj, item)
    };
    touched.into_iter().map(with_item).collect()
}

/// The duplicates of both, without those that are entries of the merged log; `None` if they are ours.
fn merge_dups(ours: Vec<PgLogDup>, theirs: Vec<PgLogDup>, tail: EVersion) -> Option<Vec<PgLogDup>> {
    let count = ours.len();
    let known: BTreeSet<_> = ours.iter().map(|d| (d.version, d.reqid)).collect();
    let mut theirs: Vec<_> = theirs.into_iter().filter(|d| d.version <= tail && !known.contains(&(d.version, d.reqid))).collect();
    if planted(Bug::LoseDup) {
        theirs.pop();
    }
    let mut all: Vec<_> = ours.into_iter().filter(|d| d.version <= tail).collect();
    if all.len() == count && theirs.is_empty() {
        return None;
    }
    all.append(&mut theirs);
    all.sort_by_key(|d| d.version);
    Some(all)
}

impl Merged {
    /// True if the store's record is to be written anew, with what [`Merged::entries`] gives: a delta only appends.
    pub fn is_whole(&self) -> bool {
        self.whole
    }
    /// What changes in the store's record of log and missing objects, if that can be said by a delta; the info goes with it.
    pub fn delta(&self, pg: SpgId) -> LogDelta {
        assert!(!self.whole, "a log that changes in front is written anew");
        LogDelta { rewind_to: Some(self.rewind_to), entries: self.newer.clone(), missing: self.missing.clone(), ..LogDelta::new(pg) }
    }
    /// All entries of the merged log. `ours` are those before, as the store has them.
    pub fn entries(&self, ours: impl IntoIterator<Item = PgLogEntry>) -> Vec<PgLogEntry> {
        let kept = ours.into_iter().take_while(|e| e.version <= self.rewind_to);
        self.older.iter().cloned().chain(kept).chain(self.newer.iter().cloned()).collect()
    }
    /// The info takes over from `theirs` what is said of the whole group. How far log and store go is its owner's to write.
    pub fn apply_to_info(&self, missing: &Missing, theirs: &PgInfo, info: &mut PgInfo) {
        let (seq, epoch) = (info.stats.reported_seq, info.stats.reported_epoch);
        if !info.is_incomplete() {
            info.stats = theirs.stats.clone();
            info.stats.reported_seq = info.stats.reported_seq.max(seq);
            info.stats.reported_epoch = info.stats.reported_epoch.max(epoch);
        }
        info.hit_set = theirs.hit_set.clone();
        if self.head > self.rewind_to {
            info.last_user_version = theirs.last_user_version;
            info.purged_snaps = theirs.purged_snaps.clone();
        }
        info.stats.stats.sum.num_objects_missing = missing.len() as i64;
    }
}
