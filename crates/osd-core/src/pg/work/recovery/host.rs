//! What recovery needs of the group that it works for: a view of what each member lacks, and ways out for messages and changes.
//!
//! Holds the agreement only. The group implements it; tests do so without one.

use crate::config::Config;
use crate::op::{SnapIndexChange, Source};
use crate::pg::backend::copies::cut::Chunk;
use crate::pg::backend::layout::Layout;
use crate::pg::reconcile::missing::Missing;
use crate::pg::work::backfill::interval::Interval;
use base::Stamp;
use messages::{PullOp, PushOp};
use std::cell::Cell;
use std::time::Duration;
use store::ObjectStore;
use types::{CollId, EVersion, HObject, PgInfo, PgShard, PgStat, Transaction};

/// One thing that members tell each other of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Push(Box<PushOp>),
    /// The answer to a push: it is durable.
    Pushed(HObject),
    Pull(Box<PullOp>),
    /// The object was deleted by the entry of this version.
    Delete(HObject, EVersion),
    /// The answer to that: it is gone.
    Deleted(HObject, EVersion),
    /// A backfill target is asked for the objects from this name on.
    Scan(Box<HObject>),
    /// The answer to that.
    Digest {
        begin: Box<HObject>,
        page: Box<Interval>,
    },
    /// What a backfill target has too many.
    Remove(Vec<(HObject, EVersion)>),
    /// How far a backfill target is filled, with what it has by then.
    Progress {
        to: Box<HObject>,
        stats: Box<PgStat>,
        is_last: bool,
    },
    /// The answer to the last of those: it is durable.
    Finished,
}

impl Part {
    /// True if only a primary says this, to a member that follows it.
    pub fn fills(&self) -> bool {
        matches!(self, Self::Scan(_) | Self::Remove(_) | Self::Progress { .. })
    }
    /// True if each object that it has or wants changed passes.
    pub fn names(&self, passes: impl Fn(&HObject) -> bool) -> bool {
        match self {
            Self::Push(push) => passes(&push.soid) && push.recovery_info.clone_subset.keys().all(passes),
            Self::Pull(pull) => passes(&pull.soid),
            Self::Pushed(obj) | Self::Delete(obj, _) | Self::Deleted(obj, _) => passes(obj),
            Self::Remove(objects) => objects.iter().all(|(obj, _)| passes(obj)),
            Self::Scan(_) | Self::Digest { .. } | Self::Progress { .. } | Self::Finished => true,
        }
    }
    /// True if it asks a backfill target for an answer, which counts by the epoch that the question named.
    pub fn asks_target(&self) -> bool {
        matches!(self, Self::Scan(_) | Self::Progress { .. })
    }
    /// True if only a backfill target says this, to its primary.
    pub fn is_of_target(&self) -> bool {
        matches!(self, Self::Digest { .. } | Self::Finished)
    }
}

/// A change for our own store.
#[derive(Debug)]
pub struct Change {
    pub txn: Transaction,
    pub index: Option<SnapIndexChange>,
    /// We don't lack this object any more: it is here at this version, or gone.
    pub got: Option<(HObject, EVersion)>,
    /// To be sent when the change is durable.
    pub then: Option<(PgShard, Part)>,
}

/// The group, as recovery sees it.
pub trait Host {
    fn store(&self) -> &dyn ObjectStore;
    fn coll(&self) -> CollId;
    /// Our objects.
    fn source(&self) -> Source<'_> {
        Source::new(self.store(), self.coll())
    }
    /// How objects lie on members.
    fn layout(&self) -> Layout;
    fn is_primary(&self) -> bool;
    fn limits(&self) -> Limits;
    fn now(&self) -> Stamp;
    /// What we lack.
    fn missing(&self) -> &Missing;
    /// The other members that writes go to.
    fn members(&self) -> Vec<PgShard>;
    /// Every other member that said what it has, those of former intervals too.
    fn known(&self) -> Vec<PgShard>;
    fn info_of(&self, member: PgShard) -> Option<&PgInfo>;
    fn missing_of(&self, member: PgShard) -> Option<&Missing>;

    fn send(&mut self, to: PgShard, part: Part);
    /// False if the store has no room for the change, and nothing happened.
    fn change(&mut self, change: Change) -> bool;
    /// That member does not lack the object any more.
    fn member_got(&mut self, member: PgShard, obj: &HObject, version: EVersion);
    /// Fewer members lack the object than before: requests that waited for it may go on.
    fn is_nearer(&mut self, obj: &HObject);
    /// Our copy of an object, which others lack at this version, can't be read: from now on we lack it, too, if another member has it or may have it.
    /// False if none is known that could.
    fn gives_up_own(&mut self, obj: &HObject, need: EVersion) -> bool;
    /// Something for the operator.
    fn complain(&mut self, text: String);

    // Backfill, on the primary.

    /// Members that are being filled.
    fn targets(&self) -> Vec<PgShard> {
        Vec::new()
    }
    /// What we know of the group.
    fn info(&self) -> &PgInfo;
    /// Nothing of a client is on its way to this head's name.
    fn is_free(&self, head: &HObject) -> bool;
    /// A target is to be sent this version of an object.
    fn member_lacks(&mut self, member: PgShard, obj: &HObject, need: EVersion);
    /// A target was told that it has everything up to here.
    fn target_reached(&mut self, member: PgShard, to: HObject, stats: PgStat);
    /// A target says that it has everything.
    fn target_filled(&mut self, member: PgShard);

    // Backfill, on a target.

    /// The store is too full to be filled further.
    fn is_too_full(&self) -> bool;
    /// The primary may fill us no longer, because of that. False if it was not allowed to.
    fn revoke(&mut self) -> bool;
    /// We have everything up to here. False if the store has no room for the record.
    fn keep_reached(&mut self, to: HObject, stats: PgStat, then: Option<(PgShard, Part)>) -> bool;
}

/// Bounds, from the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub chunk: Chunk,
    /// Objects that a group begins with in one turn: `osd_recovery_max_single_start`.
    pub starts_max: usize,
    /// Ranges that a member copies from its own clones: see [`crate::pg::backend::copies::subset::Neighbours`].
    pub ranges_max: usize,
    /// Objects of a page that a backfill lists: `osd_backfill_scan_max`.
    pub scan_max: usize,
    /// Between two objects that no client waits for: `osd_recovery_sleep`.
    pub sleep: Option<Duration>,
}

impl Limits {
    pub fn of(config: &Config) -> Self {
        let clones = config.get("osd_recover_clone_overlap") == Some("true");
        Self {
            chunk: Chunk {
                bytes_max: config.int("osd_recovery_max_chunk").max(4096),
                omap_entries_max: config.int("osd_recovery_max_omap_entries_per_chunk"),
            },
            starts_max: config.int("osd_recovery_max_single_start").max(1) as usize,
            ranges_max: if clones { config.int("osd_recover_clone_overlap_limit") as usize } else { 0 },
            sleep: Some(config.num("osd_recovery_sleep")).filter(|s| *s > 0.0).map(|s| Duration::from_secs_f64(s.min(60.0))),
            scan_max: config.int("osd_backfill_scan_max").clamp(1, 4096) as usize,
        }
    }
}

/// What recovery takes while clients ask the OSD, too: `osd_mclock_profile`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Objects at a time.
    pub slots: usize,
    /// Of the time, from 0 to 1: what begins next waits that much longer than the last object took.
    pub share: f64,
}

impl Pace {
    /// Source of the names: Ceph 18.2's documentation of mClock. The figures are ours; `custom` takes
    /// `osd_mclock_scheduler_background_recovery_lim`, where 0 is no limit.
    pub fn of(config: &Config) -> Self {
        match config.get("osd_mclock_profile") {
            Some("high_client_ops") => Self { slots: 1, share: 0.25 },
            Some("high_recovery_ops") => Self { slots: 8, share: 0.8 },
            Some("custom") => {
                let limit = config.num("osd_mclock_scheduler_background_recovery_lim");
                Self { slots: usize::MAX, share: if limit > 0.0 { limit.clamp(0.01, 1.0) } else { 1.0 } }
            }
            _ => Self { slots: 2, share: 0.5 },
        }
    }
}

/// Clients count as present for so long after the last request.
const CLIENTS_STAY: Duration = Duration::from_secs(1);
/// No object that took long makes the next one wait for longer than this.
const REST_MAX: Duration = Duration::from_millis(500);

/// Objects that all groups of an OSD recover at a time, fewer while clients ask. What a client waits for goes beyond it.
#[derive(Debug)]
pub struct Slots {
    max: Cell<usize>,
    used: Cell<usize>,
    pace: Cell<Pace>,
    /// When a client asked last; nothing if none did for a while.
    asked: Cell<Option<Stamp>>,
}

impl Slots {
    pub fn new(max: usize, pace: Pace) -> Self {
        Self { max: Cell::new(max), used: Cell::new(0), pace: Cell::new(pace), asked: Cell::new(None) }
    }
    /// `osd_recovery_max_active`, or for 0 that of the kind of device.
    pub fn max_of(config: &Config) -> usize {
        let any = config.int("osd_recovery_max_active");
        let max = if any > 0 { any } else { config.int("osd_recovery_max_active_ssd") };
        max.max(1) as usize
    }
    pub fn set(&self, max: usize, pace: Pace) {
        self.max.set(max);
        self.pace.set(pace);
    }
    /// A client asks something of this OSD.
    pub fn client_asks(&self, now: Stamp) {
        self.asked.set(Some(now));
    }
    /// It is that late: clients that asked nothing for a while don't count any more.
    pub(super) fn look(&self, now: Stamp) {
        if self.asked.get().is_some_and(|asked| now.since(asked) > CLIENTS_STAY) {
            self.asked.set(None);
        }
    }
    /// How long nothing begins after an object that took so long.
    pub(super) fn rest(&self, took: Duration) -> Option<Duration> {
        let share = self.pace.get().share;
        (self.asked.get().is_some() && share < 1.0).then(|| took.mul_f64(1.0 / share - 1.0).min(REST_MAX))
    }
    pub fn is_used(&self) -> bool {
        self.used.get() > 0
    }
    pub fn has_room(&self) -> bool {
        let max = if self.asked.get().is_some() { self.max.get().min(self.pace.get().slots) } else { self.max.get() };
        self.used.get() < max
    }
    pub(super) fn take(&self) {
        self.used.set(self.used.get() + 1);
    }
    pub(super) fn give_back(&self, n: usize) {
        self.used.set(self.used.get().checked_sub(n).expect("what was taken is given back"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_ask_make_recovery_slow_down_for_as_long_as_they_do() {
        let at = |ms: u64| Stamp::default() + Duration::from_millis(ms);
        let slots = Slots::new(10, Pace { slots: 2, share: 0.25 });
        let took = Duration::from_millis(4);
        slots.take();
        slots.take();
        assert!(slots.has_room() && slots.rest(took).is_none());
        slots.client_asks(at(100));
        assert!(!slots.has_room());
        assert_eq!(slots.rest(took), Some(Duration::from_millis(12)));
        assert_eq!(slots.rest(Duration::from_secs(9)), Some(REST_MAX));
        slots.look(at(1000));
        assert!(!slots.has_room());
        slots.look(at(1101));
        assert!(slots.has_room() && slots.rest(took).is_none());
    }
}
