//! Stores that vanish, are emptied, fail for good, or are swapped with another OSD's: while their OSD runs, or at its start.
//!
//! ```text
//!   vanished, emptied    the OSD goes on with what it has open, if it runs; the next start finds no store, and stays down
//!   failing              from now on each write fails: the OSD steps aside in bounded time, and the next start finds no store
//!   swapped              each of two OSDs finds the other's store at its start, and stays down; later they are swapped back
//! ```
//! What the shell does at a start is here as a model: a folder that is gone or empty is a dead disk, and no store is made in it. Whose store it is the core
//! finds out. An OSD without a store is replaced as one is that was lost with its device ([`crate::devices`]), by what `humboldt osd replace` says.
//! Checked all the time: an OSD that is up has its own store, and one whose device fails is not up for long.

use crate::cluster::Cluster;
use crate::drive::Drive;
use crate::net::{Proc, What};
use crate::planted::Planted;
use crate::{MS, SEC};

/// How long an OSD goes on at most whose store has vanished under it.
const UNNOTICED_NS: u64 = 30 * SEC;
/// How long stores are swapped at most.
const SWAPPED_NS: u64 = 60 * SEC;
/// An OSD whose device has failed is down after this long, unless it is stopped all the while.
const ASIDE_NS: u64 = 30 * SEC;
/// Between two starts of an OSD that finds no store.
const AGAIN_NS: u64 = 10 * SEC;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Vanish {
    /// OSDs whose stores are swapped.
    swapped: Option<[usize; 2]>,
    /// The OSD whose device fails, in this life, and since when it was seen to.
    failing: Option<(usize, u32, Option<u64>)>,
    /// The OSD that came up on an empty store that it made itself: for a planted bug.
    made_anew: Option<usize>,
    /// How many stores vanished, and how many pairs were swapped.
    pub vanished: u32,
    pub swaps: u32,
}

impl Vanish {
    /// True if an OSD may end because of this: its store is another's.
    pub fn explains(&self, id: usize, why: &str) -> bool {
        self.is_swapped(id) && why.contains("it is the store of")
    }
    pub fn is_swapped(&self, id: usize) -> bool {
        self.swapped.is_some_and(|both| both.contains(&id))
    }
    pub fn is_swapping(&self) -> bool {
        self.swapped.is_some()
    }
}

impl Cluster {
    /// An OSD's store vanishes: at once with the OSD, while it runs, or because its device fails.
    pub(crate) fn vanish_store(&mut self, id: usize) {
        if self.osds[id].is_none() || !self.may_lose() {
            return;
        }
        self.vanish.vanished += 1;
        let life = self.osds[id].as_ref().map_or(0, |osd| osd.life.1);
        match self.net.rng.below(3) {
            0 => {
                self.net.note(format!("the store of osd.{id} vanishes, and the OSD ends"));
                self.kill_osd(id, false);
            }
            1 => {
                self.net.note(format!("the store of osd.{id} vanishes under it"));
                let until = self.net.rng.below(UNNOTICED_NS);
                self.net.after(until, What::Pulled(id, life));
            }
            _ => {
                self.net.note(format!("the device of osd.{id} fails for good"));
                self.drives[id].fail_for_good();
                self.vanish.failing = Some((id, life, None));
                // One that nothing is written to is pulled as well.
                self.net.after(UNNOTICED_NS, What::Pulled(id, life));
            }
        }
        self.loses_device(id);
    }
    /// An OSD whose store is gone is killed, if it is still the same.
    pub(crate) fn pulled(&mut self, id: usize, life: u32) {
        if self.osds[id].as_ref().is_some_and(|osd| osd.life.1 == life) {
            self.kill_osd(id, false);
        }
    }
    /// Two OSDs that are up end, and find each other's stores when they start.
    pub(crate) fn swap_stores(&mut self, id: usize) {
        let other = self.net.rng.below(self.osd_count().into()) as usize;
        let is_up = |id: usize| self.osds[id].as_ref().is_some_and(|osd| osd.core().is_up());
        if other == id || !is_up(id) || !is_up(other) || self.vanish.is_swapping() || self.is_any_gone() {
            return;
        }
        self.net.note(format!("osd.{id} and osd.{other} have their stores swapped"));
        self.vanish.swaps += 1;
        self.swap([id, other]);
        self.vanish.swapped = Some([id, other]);
        let delay = self.net.rng.below(SWAPPED_NS) + MS;
        self.net.after(delay, What::SwapBack);
    }
    pub(crate) fn swap_back(&mut self) {
        if let Some(both) = self.vanish.swapped.take() {
            self.net.note(format!("osd.{} and osd.{} have their own stores again", both[0], both[1]));
            self.swap(both);
        }
    }
    fn swap(&mut self, both: [usize; 2]) {
        for id in both {
            self.kill_osd(id, false);
        }
        self.drives.swap(both[0], both[1]);
        self.old.swap(both[0], both[1]);
    }

    /// What the shell finds where an OSD's store should be: false if there is none.
    pub(crate) fn finds_store(&mut self, id: usize) -> bool {
        if self.planted == Some(Planted::OneHoldsUpAll) && self.is_any_gone() {
            self.net.after(SEC, What::Start(Proc::Osd(id as i32)));
            return false;
        }
        if !self.is_gone(id) {
            return true;
        }
        if self.planted == Some(Planted::MakesStoreAnew) {
            self.drives[id] = Drive::new(self.plan.store, crate::osd::osd_uuid(id as i32, self.devices.generation(id)).0);
            self.vanish.made_anew = Some(id);
            return true;
        }
        self.net.note(format!("osd.{id} stays down: there is no store in its folder"));
        self.net.after(AGAIN_NS, What::Start(Proc::Osd(id as i32)));
        false
    }
    /// An OSD has another device than the one that vanished.
    pub(crate) fn has_other_device(&mut self, id: usize) {
        self.vanish.failing = self.vanish.failing.filter(|(failing, ..)| *failing != id);
    }
    /// Whether each OSD that is up has its own store.
    pub(crate) fn look_at_stores(&mut self) -> Result<(), String> {
        let is_up = |c: &Self, id: usize| c.osds[id].as_ref().is_some_and(|osd| osd.core().is_up());
        for id in self.vanish.swapped.into_iter().flatten() {
            if is_up(self, id) {
                return Err(format!("stores: osd.{id} is up on the store of another"));
            }
        }
        if let Some(id) = self.vanish.made_anew.filter(|id| is_up(self, *id)) {
            return Err(format!("stores: osd.{id} is up under its old uuid, and its store was made anew"));
        }
        let Some((id, life, since)) = &mut self.vanish.failing else { return Ok(()) };
        let runs = self.osds[*id].as_ref().is_some_and(|osd| osd.life.1 == *life) && !self.net.paused.contains_key(&Proc::Osd(*id as i32));
        if !runs || !self.drives[*id].was_struck() {
            *since = None;
            return Ok(());
        }
        let since = *since.get_or_insert(self.net.now_ns);
        match self.net.now_ns - since > ASIDE_NS {
            true => Err(format!("stores: osd.{id} goes on for {} s after its device failed", ASIDE_NS / SEC)),
            false => Ok(()),
        }
    }
}
