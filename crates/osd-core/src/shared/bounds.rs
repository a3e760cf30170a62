//! Bounds of an OSD, counted by its one shard: how much all groups together recover, scrub, keep of logs and of notifies, and put into the store.
//!
//! With several shards these are one OSD's, not one shard's. Holds no rule of a group.

use crate::config::Config;
use crate::pg::requests::watch::budget::NotifyBudget;
use crate::pg::work::recovery::host::{Pace, Slots};
use crate::pg::work::scrub::slots::ScrubSlots;
use crate::reserver::Reserver;
use std::rc::Rc;
use types::StoreStatfs;

/// See the module.
pub(crate) struct Bounds {
    /// What notifies of all groups hold.
    pub notify_budget: Rc<NotifyBudget>,
    /// Objects that groups recover at a time.
    pub recovery_slots: Rc<Slots>,
    /// Scrubs that it takes part in.
    pub scrub_slots: Rc<ScrubSlots>,
    /// Groups that are recovered or filled at a time, of which we are the primary.
    pub local_places: Reserver,
    /// The same of which another OSD is.
    pub remote_places: Reserver,
    /// Backfill must not make the store fuller.
    pub is_backfillfull: bool,
    /// Placement groups here: the log's length goes by it.
    pub num_pgs: usize,
    /// Bytes that the store surely takes; counted down and asked for again when it is used up.
    room: u64,
    /// The store was at the map's full_ratio when that was looked at last, and so many bytes may come until the next look.
    full: (bool, u64),
}

impl Bounds {
    pub fn new(config: &Config) -> Self {
        let places = || Reserver::new(places_max(config), priority_min(config));
        Self {
            notify_budget: Rc::default(),
            recovery_slots: Rc::new(Slots::new(Slots::max_of(config), Pace::of(config))),
            scrub_slots: Rc::default(),
            local_places: places(),
            remote_places: places(),
            is_backfillfull: false,
            num_pgs: 0,
            room: 0,
            full: (false, 0),
        }
    }
    /// Options have changed.
    pub fn configure(&mut self, config: &Config) {
        self.recovery_slots.set(Slots::max_of(config), Pace::of(config));
        self.local_places.configure(places_max(config), priority_min(config));
        self.remote_places.configure(places_max(config), priority_min(config));
    }
    /// True if the store takes this many bytes of data. What a change writes besides, and a reserve, counts too.
    pub fn has_room(&mut self, bytes: u64, statfs: impl FnOnce() -> StoreStatfs) -> bool {
        const BESIDES: u64 = 4096;
        let wanted = bytes + BESIDES;
        if self.room < wanted {
            let fs = statfs();
            // A part at a time, so that what others use is noticed.
            self.room = fs.available.saturating_sub(fs.total / 64) / 4;
        }
        let fits = self.room >= wanted || bytes == 0;
        self.room = self.room.saturating_sub(wanted);
        fits
    }
    /// True if the store is as full as this ratio lets it get; `came`: bytes that recovery has brought since.
    pub fn is_full(&mut self, came: u64, full_ratio: f32, statfs: impl FnOnce() -> StoreStatfs) -> bool {
        self.full.1 = self.full.1.saturating_sub(came);
        if self.full.1 == 0 {
            let (fs, ratio) = (statfs(), f64::from(full_ratio));
            let (used, bound) = (fs.total.saturating_sub(fs.available) as f64, ratio * fs.total as f64);
            // Often enough to notice it before a hundredth more has come.
            self.full = (ratio > 0.0 && used >= bound, (fs.total / 256).max(1));
        }
        self.full.0
    }
    /// How full the store is is looked at anew.
    pub fn forget_full(&mut self) {
        self.full.1 = 0;
    }
}

fn places_max(config: &Config) -> usize {
    config.int("osd_max_backfills") as usize
}
fn priority_min(config: &Config) -> u32 {
    config.int("osd_min_recovery_priority") as u32
}

/// How long logs get, in entries.
#[derive(Debug, Clone, Copy)]
pub struct LogBounds {
    /// A group's, whatever its share is.
    pub min: usize,
    pub max: usize,
    /// Of all groups together.
    pub all: usize,
    /// Trimmed at once, at least and at most.
    pub trim_min: usize,
    pub trim_max: usize,
    /// Duplicates that outlive them.
    pub dups: usize,
}

impl LogBounds {
    pub fn of(config: &Config) -> Self {
        let int = |name| config.int(name) as usize;
        Self {
            min: int("osd_min_pg_log_entries"),
            max: int("osd_max_pg_log_entries"),
            all: int("osd_target_pg_log_entries_per_osd"),
            trim_min: int("osd_pg_log_trim_min"),
            trim_max: int("osd_pg_log_trim_max"),
            dups: int("osd_pg_log_dups_tracked"),
        }
    }
    /// How many entries a group's log shall have, of so many groups.
    pub fn target(&self, num_pgs: usize) -> usize {
        (self.all / num_pgs.max(1)).clamp(self.min, self.max.max(self.min))
    }
}
