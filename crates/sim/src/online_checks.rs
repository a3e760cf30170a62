//! What is checked while things happen: the checkers' calls, and what of the cluster each is given.

use crate::acks;
use crate::alike;
use crate::cluster::Cluster;
use crate::drive::Drive;
use crate::purge;
use osd_core::pg::Pg;
use osd_core::pg::members::peering::State;
use types::{HObject, SpgId};

/// Of so many events of OSDs, after one a group is looked at whole.
const WHOLE_EVERY: u64 = 200;

impl Cluster {
    /// Answers to writes that OSDs have just sent.
    pub(crate) fn check_acks(&mut self) {
        for ack in std::mem::take(&mut self.net.acks) {
            if let Err(why) = self.check_ack(&ack) {
                self.broken.get_or_insert(format!("acks: {why}"));
            }
        }
    }
    fn check_ack(&mut self, ack: &acks::Ack) -> Result<(), String> {
        let mut wrong = None;
        for members in &ack.by {
            match self.check_members(ack, members) {
                Ok(()) => {
                    let request = self.osds[ack.osd as usize].as_ref().and_then(|o| acks::request(o.core().store(), ack));
                    self.chains.acknowledged(&ack.obj, ack.version, request);
                    return Ok(());
                }
                Err(why) => wrong = Some(why),
            }
        }
        wrong.map_or(Ok(()), Err)
    }
    /// Whether all of these members have what is acknowledged.
    fn check_members(&mut self, ack: &acks::Ack, members: &acks::Members) -> Result<(), String> {
        let acks::Ack { osd, obj, version, .. } = ack;
        let what = format!("osd.{osd} acknowledges {version} of {obj}");
        if members.acting.len() < members.min_size {
            return Err(format!("{what}, which {:?} have: fewer than {}", members.acting, members.min_size));
        }
        let epoch = |c: &Self, osd: i32| c.osds[osd as usize].as_ref().map(|o| o.core().map().epoch);
        let filled = members.filled.iter().filter(|member| self.osds[**member as usize].is_some());
        for (member, serves) in members.acting.iter().map(|osd| (*osd, true)).chain(filled.map(|osd| (*osd, false))) {
            let may_miss = self.plan.rot > 0;
            let lacks = match (&self.osds[member as usize], &self.drives[member as usize]) {
                _ if self.vanish.is_swapped(member as usize) => continue,
                (Some(process), drive) => acks::lacks(process.core().store(), Some(drive.ledger()), ack, serves, may_miss),
                (None, _) if self.devices.was_replaced(member as usize) => continue,
                (None, Drive::Ideal(Some(store), _)) => acks::lacks(&**store, None, ack, serves, may_miss),
                (None, _) => continue,
            };
            // A member that knows a newer map may have been told to let go of the group.
            if let Ok(Some(lacks)) = lacks
                && epoch(self, member) <= epoch(self, *osd)
            {
                return Err(format!("{what}, and osd.{member} of {:?} {lacks}", members.acting));
            }
        }
        Ok(())
    }
    /// What the monitor has just called purged is gone everywhere.
    pub(crate) fn check_purged(&mut self) {
        for purged in std::mem::take(&mut self.net.purged) {
            let history = &self.history;
            let number = |name: &HObject| std::str::from_utf8(name.oid.as_slice()).ok()?.strip_prefix('o')?.parse().ok();
            let may_keep = |name: &HObject, snap| number(name).is_none_or(|object| history.may_keep(object, snap));
            for osd in self.osds.iter().flatten() {
                if let Err(why) = purge::check(osd, &purged, &may_keep) {
                    self.broken.get_or_insert(format!("purge: {why}"));
                }
            }
        }
    }
    /// No log is trimmed of what a member has not got on its disk: it could not be brought up to date by the log.
    pub(crate) fn check_trims(&mut self) {
        for trim in std::mem::take(&mut self.net.trims) {
            // An interval begins with a tail that some members' objects may lie behind.
            let before = self.tails.insert(trim.pgid, (trim.since, trim.to));
            if before.is_none_or(|(since, to)| since != trim.since || to >= trim.to) {
                continue;
            }
            for (osd, drive) in self.osds.iter().zip(&self.drives) {
                let Some(osd) = osd else { continue };
                let follows = |pg: &&Pg| {
                    let peering = pg.peering();
                    pg.pgid == trim.pgid && peering.last_peering_reset == trim.since && peering.state() == State::ReplicaActive
                };
                let Some(pg) = osd.core().pgs().find(follows) else { continue };
                let is_trimmed = |(pool, hash, version)| {
                    pool == trim.pgid.pgid.pool && pg.pool().fold(hash) == trim.pgid.pgid.seed && version <= trim.to
                };
                if trim.to > pg.record().info().last_complete || drive.ledger().any_pending(is_trimmed) {
                    let (pgid, to, has) = (trim.pgid, trim.to, pg.record().info().last_complete);
                    let why =
                        format!("trims: {pgid} is to be trimmed to {to}, and osd.{} is complete up to {has}, or not durably", osd.id());
                    self.broken.get_or_insert(why);
                }
            }
        }
    }
    /// What is true of all OSDs together, at any moment.
    pub(crate) fn look_at_all(&mut self) -> Result<(), String> {
        // A log that can't be read is given up with a split, and on no device is there another.
        let forgets = self.plan.rot_beyond && !self.harm.rotten.is_empty();
        self.serving.look(&self.osds, self.net.now_ns).map_err(|why| format!("serving: {why}"))?;
        for osd in self.osds.iter().flatten() {
            for pg in osd.core().pgs().filter(|pg| pg.peering().is_primary() && pg.peering().is_active()) {
                self.chains.look(osd.life.1, pg, forgets).map_err(|why| format!("chains: {why}"))?;
            }
        }
        Ok(())
    }
    /// The same of a cluster at rest.
    pub(crate) fn look_at_rest(&self) -> Result<(), String> {
        for osd in self.osds.iter().flatten() {
            self.net.places.rest(osd.life.1, osd.core()).map_err(|why| self.tell(&format!("places: {why}"), &[]))?;
            for pg in osd.core().pgs().filter(|pg| pg.peering().is_primary()) {
                self.chains.requests_are_known(pg).map_err(|why| self.tell(&format!("chains: {why}"), &[]))?;
            }
        }
        Ok(())
    }
    /// A member has heard how far it is filled, or its primary that it has everything: what counts as filled is there.
    pub(crate) fn look_at_filled(&mut self, pgid: SpgId) {
        for osd in self.osds.iter().flatten() {
            let Some(pg) = osd.core().pgs().find(|pg| pg.pgid == pgid && pg.peering().is_primary()) else { continue };
            if let Err(why) = alike::check(&self.osds, osd, pg) {
                self.broken.get_or_insert(format!("alike: {why}"));
            }
        }
    }
    /// Now and then a group of an OSD that something happened to is looked at whole, with its store.
    pub(crate) fn look_at_group(&mut self, id: usize) {
        let Some(osd) = &self.osds[id] else { return };
        if !self.net.rng.chance(1, WHOLE_EVERY) {
            return;
        }
        let count = osd.core().pgs().count() as u64;
        if count > 0 {
            let nth = self.net.rng.below(count) as usize;
            let pg = osd.core().pgs().nth(nth).expect("below their number");
            pg.assert_whole(osd.core().store(), self.harm.rotten.contains(&id));
            if let Err(why) = alike::check(&self.osds, osd, pg) {
                self.broken.get_or_insert(format!("alike: {why}"));
            }
        }
        osd.core().pgs().for_each(|pg| self.seen.states(&pg.peering().history));
    }
}
