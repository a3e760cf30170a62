//! How full the store is, and what the monitor is told of it: it marks the OSD in the map, the pools follow, and clients stop writing by
//! their pools' flags.
//!
//! ```text
//! used / size ≥ nearfull_ratio  → NEARFULL      the map has the ratios
//!             ≥ backfillfull_ratio → BACKFILLFULL
//!             ≥ full_ratio      → FULL
//! the store refused a change    → FULL, until a hundredth of its size is free again
//! ```

use crate::event::{Effect, Level};
use crate::osd::Osd;
use maps::{OsdMap, osd_state};
use messages::{MOSDFull, Message, Paxos};
use types::errno::EINVAL;
use types::{StoreStatfs, features};

const MASK: u32 = osd_state::FULL | osd_state::NEARFULL | osd_state::BACKFILLFULL;

/// What is remembered between two looks.
#[derive(Debug, Default)]
pub struct Fullness {
    /// The store refused something since the last look.
    refused: bool,
    /// It is full until more than this is available.
    full_below: Option<u64>,
    /// What the map is to show.
    wanted: u32,
    /// What an administrator wants us to say, for a test; and how many more times, if not for ever.
    injected: Option<(u32, Option<u32>)>,
}

impl Fullness {
    pub fn refused(&mut self) {
        self.refused = true;
    }
    pub fn was_refused(&self) -> bool {
        self.refused
    }
    /// The state bits that the map is to show.
    fn look(&mut self, fs: &StoreStatfs, map: &OsdMap) -> u32 {
        if std::mem::take(&mut self.refused) {
            self.full_below = Some(fs.available.saturating_add(fs.total / 100));
        }
        if self.full_below.is_some_and(|below| fs.available > below) {
            self.full_below = None;
        }
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
        self.wanted = match () {
            _ if self.full_below.is_some() => osd_state::FULL,
            _ if full <= 0.0 => 0,
            _ if used >= full => osd_state::FULL,
            _ if used >= backfill => osd_state::BACKFILLFULL,
            _ if used >= near => osd_state::NEARFULL,
            _ => 0,
        };
        self.wanted
    }
}

impl Osd {
    /// Tells the monitor when the map doesn't show how full we are; again until it does.
    pub(crate) fn tell_fullness(&mut self, out: &mut Vec<Effect>) {
        if !self.boot.is_active() {
            return;
        }
        let fs = self.sh.store.statfs();
        let before = self.sh.fullness.wanted;
        let wanted = self.sh.fullness.look(&fs, &self.sh.map);
        if wanted != before {
            let percent = 100.0 - 100.0 * fs.available as f64 / fs.total.max(1) as f64;
            let level = if wanted & osd_state::FULL != 0 { Level::Error } else { Level::Warn };
            let state = match wanted {
                osd_state::FULL => "full",
                osd_state::BACKFILLFULL => "backfillfull",
                osd_state::NEARFULL => "nearfull",
                _ => "no longer full",
            };
            out.push(Effect::ClusterLog { level, text: format!("the store is {state} ({percent:.1} % used)") });
            self.sh.report_soon = true;
        }
        if self.sh.map.state(self.sh.whoami) & MASK != wanted {
            let msg = MOSDFull { paxos: Paxos::at(self.sh.map.epoch.into()), map_epoch: self.sh.map.epoch, state: wanted };
            out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
        }
    }

    /// `injectfull`: pretends.
    pub(crate) fn inject_full(&mut self, kind: &str, count: Option<i64>, out: &mut Vec<Effect>) -> (i32, String, Vec<u8>) {
        let state = match kind {
            "none" => None,
            "nearfull" => Some(osd_state::NEARFULL),
            "backfillfull" => Some(osd_state::BACKFILLFULL),
            // To the monitor both are full.
            "full" | "failsafe" => Some(osd_state::FULL),
            other => return (EINVAL, format!("type '{other}' is none of none, nearfull, backfillfull, full, failsafe"), Vec::new()),
        };
        let left = count.filter(|n| *n > 0).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        self.sh.fullness.injected = state.map(|state| (state, left));
        self.tell_fullness(out);
        (0, String::new(), Vec::new())
    }
}
