//! How full the store is, and what the monitor is told of it: it marks the OSD in the map, the pools follow, and clients stop writing by
//! their pools' flags.
//!
//! ```text
//! used / size ≥ nearfull_ratio  → NEARFULL      the map has the ratios
//!             ≥ backfillfull_ratio → BACKFILLFULL
//!             ≥ full_ratio      → FULL
//! the store refused a change    → FULL, until a hundredth of its size is free again, or it may be tried again
//! ```
//! A step up is told at once. A step down is told when a hundredth more of the store is free than it needs, for some looks one after the other: at
//! the edge it would come and go otherwise, with an epoch of the map each time. While the store is full or nearly full, it is asked to give back
//! what removals have freed.

use crate::answer::Answer;
use crate::control::Control;
use crate::event::{Effect, Level};
use crate::joint::ToShard;
use crate::shared::EventCx;
use maps::{OsdMap, osd_state};
use messages::{MOSDFull, Message, Paxos};
use types::errno::EINVAL;
use types::{StoreStatfs, features};

const MASK: u32 = osd_state::FULL | osd_state::NEARFULL | osd_state::BACKFILLFULL;

/// Looks after which a store that refused a change is tried again: what ran out may be nothing that `available` shows (gaps too small for what came),
/// and removing gave it back unseen. Twice as many after each try that was refused, up to so many.
const RETRY_LOOKS: u32 = 10;
const RETRY_LOOKS_MAX: u32 = 640;
const _: () = assert!(RETRY_LOOKS < RETRY_LOOKS_MAX);

/// Looks in a row that must find a lower state before it is told.
const DOWN_LOOKS: u32 = 3;

/// Looks between two compactions of a store that is nearly full.
const COMPACT_LOOKS: u32 = 16;

/// How much below a ratio the use must be for the state to go, as a share of the store's size.
const MARGIN: f64 = 0.01;

/// What is remembered between two looks.
#[derive(Debug, Default)]
pub struct Fullness {
    /// The store refused something since the last look.
    refused: bool,
    /// After a refusal: it is full until more than so many bytes are available, and for so many looks at most.
    full_below: Option<(u64, u32)>,
    /// Looks until the next try after a refusal; 0: there was none.
    patience: u32,
    /// What the map is to show.
    wanted: u32,
    /// Looks in a row that found less.
    lower: u32,
    /// Looks since it is nearly full, or since the store was asked to compact then.
    near_looks: u32,
    /// What an administrator wants us to say, for a test; and how many more times, if not for ever.
    injected: Option<(u32, Option<u32>)>,
}

impl Fullness {
    pub fn refused(&mut self) {
        self.refused = true;
    }
    /// True if the store is to give back what removals have freed: at each look while it is full, when clients only remove; seldom while it is nearly
    /// full, when they go on writing and the store does so by itself.
    fn wants_compaction(&mut self) -> bool {
        self.near_looks = if rank(self.wanted) == 0 { 0 } else { self.near_looks % COMPACT_LOOKS + 1 };
        self.wanted == osd_state::FULL || self.near_looks == COMPACT_LOOKS
    }
    /// True if backfill must not make it fuller.
    pub fn is_backfillfull(&self) -> bool {
        rank(self.wanted) >= 2
    }
    pub fn was_refused(&self) -> bool {
        self.refused
    }
    /// The state bits that the map is to show.
    fn look(&mut self, fs: &StoreStatfs, map: &OsdMap) -> u32 {
        self.full_below = match self.full_below {
            _ if std::mem::take(&mut self.refused) => {
                // A refusal while it is full says nothing new.
                if self.full_below.is_none() {
                    self.patience = (2 * self.patience).clamp(RETRY_LOOKS, RETRY_LOOKS_MAX);
                }
                Some((fs.available.saturating_add(fs.total / 100), self.patience))
            }
            Some((below, _)) if fs.available > below => {
                self.patience = 0;
                None
            }
            other => other.filter(|(_, left)| *left > 0).map(|(below, left)| (below, left - 1)),
        };
        let used = 1.0 - fs.available as f64 / fs.total.max(1) as f64;
        // Ratios that a map lacks, or has in disorder, don't make anything full early.
        let near = f64::from(map.nearfull_ratio);
        let backfill = f64::from(map.backfillfull_ratio).max(near);
        let full = f64::from(map.full_ratio).max(backfill);
        let injected = self.injected;
        if let Some((_, Some(left))) = &mut self.injected {
            *left -= 1;
            if *left == 0 {
                self.injected = None;
            }
        }
        if let Some((state, _)) = injected {
            self.wanted = state;
            return state;
        }
        let at = |used: f64| match () {
            _ if full <= 0.0 => 0,
            _ if used >= full => osd_state::FULL,
            _ if used >= backfill => osd_state::BACKFILLFULL,
            _ if used >= near => osd_state::NEARFULL,
            _ => 0,
        };
        let now = match self.full_below {
            Some(_) => osd_state::FULL,
            None if rank(at(used)) >= rank(self.wanted) => at(used),
            // As far down as it is by a margin, and no further than it was.
            None if rank(at(used + MARGIN)) >= rank(self.wanted) => self.wanted,
            None => at(used + MARGIN),
        };
        self.lower = if rank(now) < rank(self.wanted) { self.lower + 1 } else { 0 };
        if self.lower == 0 || self.lower >= DOWN_LOOKS {
            (self.wanted, self.lower) = (now, 0);
        }
        self.wanted
    }
}

/// States in their order.
fn rank(state: u32) -> u8 {
    match state {
        osd_state::FULL => 3,
        osd_state::BACKFILLFULL => 2,
        osd_state::NEARFULL => 1,
        _ => 0,
    }
}

impl Control {
    /// Tells the monitor when the map doesn't show how full we are; again until it does.
    pub(crate) fn tell_fullness(&mut self, fs: &StoreStatfs, cx: &mut EventCx<'_>) {
        let before = self.fullness.wanted;
        if self.fullness.wants_compaction() {
            // What was removed is free when the store has it in its metadata.
            self.to_shard.push(ToShard::Compact { asked: None });
        }
        let wanted = self.fullness.look(fs, &self.map);
        if wanted != before {
            let percent = 100.0 - 100.0 * fs.available as f64 / fs.total.max(1) as f64;
            let level = if wanted & osd_state::FULL != 0 { Level::Error } else { Level::Warn };
            let state = match wanted {
                osd_state::FULL => "full",
                osd_state::BACKFILLFULL => "backfillfull",
                osd_state::NEARFULL => "nearfull",
                _ => "no longer full",
            };
            cx.out.push(Effect::ClusterLog { level, text: format!("the store is {state} ({percent:.1} % used)") });
            self.report_soon = true;
            self.to_shard.push(ToShard::BackfillFull(self.fullness.is_backfillfull()));
        }
        if self.map.state(self.whoami) & MASK != wanted {
            let msg = MOSDFull { paxos: Paxos::at(self.map.epoch.into()), map_epoch: self.map.epoch, state: wanted };
            cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
        }
    }

    /// `injectfull`: pretends, from the next look on.
    pub(crate) fn inject_full(&mut self, kind: &str, count: Option<i64>) -> Answer {
        let state = match kind {
            "none" => None,
            "nearfull" => Some(osd_state::NEARFULL),
            "backfillfull" => Some(osd_state::BACKFILLFULL),
            // To the monitor both are full.
            "full" | "failsafe" => Some(osd_state::FULL),
            other => return (EINVAL, format!("type '{other}' is none of none, nearfull, backfillfull, full, failsafe"), Vec::new()),
        };
        let left = count.filter(|n| *n > 0).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        self.fullness.injected = state.map(|state| (state, left));
        (0, String::new(), Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_in_order_and_do_not_flap() {
        let map = OsdMap { nearfull_ratio: 0.85, backfillfull_ratio: 0.90, full_ratio: 0.95, ..OsdMap::default() };
        let mut fullness = Fullness::default();
        let mut seen = vec![0];
        let mut look = |available| {
            let fs = StoreStatfs { total: 10_000, available, ..StoreStatfs::default() };
            let now = fullness.look(&fs, &map);
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        };
        // Fills, and wavers by half a hundredth on the way, and by far more for a moment.
        (0..=10_000).rev().step_by(20).for_each(|available| [available, available + 50].into_iter().for_each(&mut look));
        [5000, 5000, 0].into_iter().for_each(&mut look);
        // Empties, wavering.
        (0..=10_000).step_by(20).for_each(|available| [available + 50, available].into_iter().for_each(&mut look));
        let (near, backfill, full) = (osd_state::NEARFULL, osd_state::BACKFILLFULL, osd_state::FULL);
        assert_eq!(seen, [0, near, backfill, full, backfill, near, 0]);
    }

    #[test]
    fn a_refusal_that_nothing_shows_is_not_for_ever() {
        let mut fullness = Fullness::default();
        let map = OsdMap::default();
        let fs = |available| StoreStatfs { total: 1000, available, ..StoreStatfs::default() };
        assert_eq!(fullness.look(&fs(995), &map), 0);
        fullness.refused();
        // More than all of it would have to be free.
        let full_for = (0..100).take_while(|_| fullness.look(&fs(995), &map) == osd_state::FULL).count();
        assert_eq!(full_for, (RETRY_LOOKS + DOWN_LOOKS) as usize);
        // Refused again at once: it waits longer, up to a bound.
        for n in 1..10 {
            fullness.refused();
            let full_for = (0..10_000).take_while(|_| fullness.look(&fs(995), &map) == osd_state::FULL).count();
            assert_eq!(full_for, ((RETRY_LOOKS << n).min(RETRY_LOOKS_MAX) + DOWN_LOOKS) as usize);
        }
        // Something was removed.
        fullness.refused();
        assert_eq!(fullness.look(&fs(500), &map), osd_state::FULL);
        assert_eq!(fullness.look(&fs(510), &map), osd_state::FULL);
        let full_for = (0..100).take_while(|_| fullness.look(&fs(511), &map) == osd_state::FULL).count();
        assert_eq!(full_for, DOWN_LOOKS as usize - 1);
        fullness.refused();
        let full_for = (0..100).take_while(|_| fullness.look(&fs(511), &map) == osd_state::FULL).count();
        assert_eq!(full_for, (RETRY_LOOKS + DOWN_LOOKS) as usize, "what was removed makes it hopeful again");
        // Refused again while it was full.
        fullness.refused();
        for _ in 0..50 {
            assert_eq!(fullness.look(&fs(500), &map), osd_state::FULL);
            fullness.refused();
        }
    }
}
