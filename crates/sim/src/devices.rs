//! OSDs that are added, emptied, or lost with their device, and the operator who replaces these.
//!
//! One device at a time, and only where two members have each acknowledged write at least: so much is promised. The operator takes a healthy OSD's device
//! away only when all groups are clean, and gives a lost OSD another device only when each group is active without it and its members lack nothing, which
//! `osd safe-to-destroy` is for. `osd lost` may be said before: other members of the same intervals have what it had, and are waited for.

use crate::client::POOL;
use crate::cluster::Cluster;
use crate::drive::Drive;
use crate::net::{Proc, What};
use crate::osd::osd_uuid;
use crate::rest::restless;
use crate::{MS, SEC};
use std::collections::{BTreeMap, BTreeSet};
use types::PgId;

/// OSDs that are added at most.
const ADDED_MAX: usize = 2;
/// How often the operator looks.
const LOOK_NS: u64 = 2 * SEC;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    /// The OSD, or those of one device, whose device is gone, and which have no other one yet.
    gone: BTreeSet<usize>,
    /// OSDs that ever had another device than now.
    replaced: BTreeSet<usize>,
    /// How many devices each has had before this one.
    generations: BTreeMap<usize, u8>,
    /// OSDs that the monitor may not know by this device.
    strangers: BTreeSet<usize>,
    added: usize,
}

impl Devices {
    /// True if it has no device now.
    pub fn is_gone(&self, id: usize) -> bool {
        self.gone.contains(&id)
    }
    /// True if what lies on its device may be less than what it once had.
    pub fn was_replaced(&self, id: usize) -> bool {
        self.replaced.contains(&id)
    }
    pub fn count_replaced(&self) -> u32 {
        self.generations.values().map(|n| u32::from(*n)).sum()
    }
    pub fn generation(&self, id: usize) -> u8 {
        self.generations.get(&id).copied().unwrap_or(0)
    }
}

impl Cluster {
    /// OSDs that there are, up or not.
    pub(crate) fn osd_count(&self) -> u32 {
        self.osds.len() as u32
    }
    pub(crate) fn add_osd(&mut self) {
        if self.devices.added == ADDED_MAX {
            return;
        }
        let id = self.osds.len();
        self.devices.added += 1;
        self.devices.strangers.insert(id);
        self.drives.push(Drive::of_size(&self.plan, id, 0));
        self.osds.push(None);
        self.old.push(None);
        self.net.note(format!("osd.{id} is added"));
        self.net.after(MS, What::Start(Proc::Osd(id as i32)));
    }
    /// An OSD's device is another one from now on, an empty one, while all that it had lies elsewhere as well.
    pub(crate) fn empty_osd(&mut self, id: usize) {
        if self.devices.gone.is_empty() && !self.vanish.is_swapping() && self.is_all_clean() {
            self.net.note(format!("osd.{id} is emptied"));
            self.kill_osd(id, false);
            self.replace(id);
        }
    }
    /// An OSD's device is gone, with all that it had.
    pub(crate) fn lose_osd(&mut self, id: usize) {
        if !self.may_lose() {
            return;
        }
        // At once, with all that share it.
        let of_device: Vec<usize> = match self.plan.per_device as usize {
            0 => vec![id],
            each => (0..self.osds.len()).filter(|other| other / each == id / each).collect(),
        };
        for id in &of_device {
            self.net.note(format!("osd.{id} is lost with its device"));
            self.kill_osd(*id, false);
        }
        of_device.into_iter().for_each(|id| self.loses_device(id));
    }
    /// True if one more device may go: none is gone, and what was replaced is filled. Of two devices with all copies each is whole
    /// before.
    pub(crate) fn may_lose(&self) -> bool {
        let may_lack = self.devices.replaced.is_empty() && self.plan.per_device == 0;
        self.devices.gone.is_empty() && !self.vanish.is_swapping() && (may_lack || self.is_all_clean())
    }
    pub(crate) fn is_any_gone(&self) -> bool {
        !self.devices.gone.is_empty()
    }
    pub(crate) fn is_gone(&self, id: usize) -> bool {
        self.devices.is_gone(id)
    }
    /// What an OSD's next start should find is gone; operators see to it.
    pub(crate) fn loses_device(&mut self, id: usize) {
        self.devices.gone.insert(id);
        self.devices.replaced.insert(id);
        for (words, chance) in [("osd out", 2), ("osd lost", 2)] {
            if self.net.rng.chance(1, chance) {
                let delay = self.net.rng.below(30 * SEC);
                self.net.after(delay, What::Say(id, words));
            }
        }
        self.net.after(LOOK_NS, What::Replace(id));
    }
    /// What an operator says of an OSD whose device is gone.
    pub(crate) fn say_of_gone(&mut self, id: usize, words: &'static str) {
        if self.devices.is_gone(id) {
            match words {
                "osd lost" => self.say(format!(r#"{{"prefix":"osd lost","id":{id},"yes_i_really_mean_it":true}}"#)),
                _ => self.say(format!(r#"{{"prefix":"{words}","ids":["{id}"]}}"#)),
            }
        }
    }
    /// The operator looks whether a lost OSD may have another device.
    pub(crate) fn may_replace(&mut self, id: usize) {
        if self.is_whole_without(id) && self.net.rng.chance(1, 3) {
            return self.replace(id);
        }
        self.net.after(LOOK_NS, What::Replace(id));
    }
    fn replace(&mut self, id: usize) {
        // It may run on what it has open.
        self.kill_osd(id, false);
        self.has_other_device(id);
        let generation = self.devices.generations.entry(id).or_default();
        *generation += 1;
        self.drives[id] = Drive::of_size(&self.plan, id, *generation);
        self.devices.gone.remove(&id);
        self.known.remove(&id);
        self.devices.replaced.insert(id);
        self.devices.strangers.insert(id);
        self.net.note(format!("osd.{id} has an empty device"));
        self.net.after(SEC, What::Start(Proc::Osd(id as i32)));
    }
    /// True if an OSD may start: if it has a device, by which the monitor knows it. Else it is told, or there will be another start.
    pub(crate) fn may_start(&mut self, id: usize) -> bool {
        let proc = Proc::Osd(id as i32);
        if !self.finds_store(id) {
            return false;
        }
        if let Some(until) = self.away.get(&id).copied().filter(|until| *until > self.net.now_ns) {
            self.net.at(until, What::Start(proc));
            return false;
        }
        if !self.devices.strangers.contains(&id) {
            return true;
        }
        let ours = osd_uuid(id as i32, self.devices.generation(id));
        let map = self.monitor.as_ref().map(|monitor| &monitor.core().osd.map);
        let is_there = |map: &maps::OsdMap| map.exists(id as i32) && !map.is_destroyed(id as i32);
        let known = map.map(|map| (is_there(map), map.osd_uuid.get(id).copied().unwrap_or_default()));
        // As `humboldt osd replace` has it, or as operators do by hand.
        let verb = if (id + usize::from(self.devices.generation(id))).is_multiple_of(2) { "destroy" } else { "purge" };
        match known {
            Some((true, uuid)) if uuid == ours => {
                self.devices.strangers.remove(&id);
                return true;
            }
            Some((true, _)) => self.say(format!(r#"{{"prefix":"osd {verb}-actual","id":{id},"yes_i_really_mean_it":true}}"#)),
            Some((false, _)) => self.say(format!(r#"{{"prefix":"osd new","uuid":"{ours}","id":"{id}"}}"#)),
            None => {}
        }
        self.net.after(2 * SEC, What::Start(proc));
        false
    }

    /// True if all OSDs are up and all groups are clean, by the newest map.
    fn is_all_clean(&self) -> bool {
        restless(self.monitor.as_ref(), &self.osds, &[]).is_none()
    }
    /// True if each group is active by the newest map, without this OSD, and its members lack nothing.
    fn is_whole_without(&self, id: usize) -> bool {
        let Some(monitor) = &self.monitor else { return false };
        let (map, mut placement) = (&monitor.core().osd.map, maps::Placement::default());
        let mut groups = map.pools.iter().flat_map(|(pool, p)| (0..p.pg_num).map(|seed| PgId::new(*pool, seed)));
        map.pool_by_name(POOL).is_some()
            && groups.all(|pgid| {
                let at = map.pg_to_up_acting(pgid, &mut placement);
                let primary = self.osds.get(at.acting_primary as usize).and_then(Option::as_ref);
                let is_whole = |osd: &crate::osd::OsdProcess| {
                    let pg = osd.core().pgs().find(|pg| pg.pgid.pgid == pgid);
                    osd.core().map().epoch == map.epoch && pg.is_some_and(|pg| pg.peering().is_active() && pg.peering().is_recovered())
                };
                !at.acting.contains(&(id as i32)) && !at.up.contains(&(id as i32)) && primary.is_some_and(is_whole)
            })
    }
}
