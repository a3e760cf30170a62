//! What goes wrong with disks for good, and how operators mend it.
//!
//! **Rot**: something that lies on one OSD's device changes, or can't be read any more. One OSD of a run rots, and only where a pool has three copies
//! of which two are written at least: then each acknowledged write lies on a device that does not. No client is ever told that an object can't be
//! read, or given other bytes; in the end a repair finds all that is left. In some runs the log and the metadata rot as well: then the OSD may not start any
//! more. In a few, data rot on any OSD, beyond the promise: an object may be lost, but no client is given other bytes, and its group says so. What was
//! written last does not rot there: a log's last record whose data are gone can't be told from one that a power cut tore, and no other OSD has it.

use crate::client::{ClientProcess, POOL};
use crate::cluster::Cluster;
use crate::model::Op;
use crate::rest::{Rest, restless};
use crate::{MS, SEC};
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectStore;
use types::{HObject, SpgId, UTime};

/// Of a slow device, how much later it completes something at most.
const SLOW_NS: u64 = 3 * SEC;
/// A repaired object may have what was copied from another one that is damaged too: each repair goes over what the one before has made.
const REPAIRS: u32 = 3;
/// How often a repair that does not come is asked for again, and how long each may take.
const REPAIRS_MAX: u32 = 8;
const REPAIR_NS: u64 = 120 * SEC;
/// Repairs of a store after which an operator leaves an OSD away that still can't say what it has of a group.
const LACKING_MAX: u32 = 20;
/// How long a cluster has to come to rest whose devices rotted beyond the promise.
const BEYOND_NS: u64 = 300 * SEC;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Harm {
    /// OSDs whose devices rot: one, or beyond the promise any.
    pub rotten: BTreeSet<usize>,
    /// OSDs whose last life ended at a change that needed what rotted: the next one goes on with that.
    pub stopped: BTreeSet<usize>,
    /// How often each that rots has ended since it can't say what it has of a group.
    lacking: BTreeMap<usize, u32>,
    /// OSDs that rot and do not start any more.
    pub gone: BTreeSet<usize>,
}

impl Harm {
    /// True if an OSD may end: its store has stopped at a change that needs what rotted, or (with metadata that rots, `is_wide`) it can't say what it
    /// has of a group. An operator repairs its store, and starts it again.
    pub fn explains(&mut self, id: usize, store: &dyn ObjectStore, is_wide: bool, why: &str) -> bool {
        let lacks_group = is_wide && why.contains("OSDs with other copies of it serve while this one is down");
        let is_rot = self.rotten.contains(&id) && (store.stopped_at_damage() || lacks_group);
        if is_rot {
            self.stopped.insert(id);
        }
        if is_rot && lacks_group {
            let times = self.lacking.entry(id).or_default();
            *times += 1;
            if *times > LACKING_MAX {
                self.gone.insert(id);
            }
        }
        is_rot
    }
    /// True if an OSD may end because of this, and is left away: its maps, which are objects as well, can't be used; or (`is_wide`) a change in its log
    /// rotted that was not at its place yet.
    pub fn explains_loss(&mut self, id: usize, is_wide: bool, why: &str) -> bool {
        let is_lost = why.contains("what the store keeps of this OSD can't be used") || is_wide && why.contains("the log is damaged");
        is_lost && self.explains_end(id, true, why)
    }
    /// True if an OSD may not start because of this: what rotted is a change that its log has last, or one that can't be read, or of a log or metadata
    /// (`is_wide`) anything without which there is no store. An operator has to fill it anew, and leaves it away here.
    pub fn explains_end(&mut self, id: usize, is_wide: bool, why: &str) -> bool {
        let is_rot = self.rotten.contains(&id) && (is_wide || why.contains("the log is damaged") || why.contains("errno 5"));
        if is_rot {
            self.gone.insert(id);
        }
        is_rot
    }
}

impl Cluster {
    pub(crate) fn rot(&mut self, id: usize) {
        let id = self.harm.rotten.first().copied().filter(|_| !self.plan.rot_beyond).unwrap_or(id);
        self.harm.rotten.insert(id);
        if let Some(what) = self.drives[id].rot(self.plan.rot_wide, self.plan.rot_beyond, &mut self.net.rng) {
            self.net.note(format!("rot on osd.{id}: {what}"));
        }
    }
    pub(crate) fn slow_disk(&mut self, id: usize) {
        let until_ns = self.net.now_ns + self.net.rng.below(20 * SEC);
        if let Some(osd) = &mut self.osds[id] {
            osd.disk_is_slow(until_ns, 10 * MS + self.net.rng.below(SLOW_NS));
        }
    }
    pub(crate) fn scrub_some(&mut self) {
        let verb = ["scrub", "deep-scrub", "repair"][self.net.rng.below(3) as usize];
        if let Some(pgid) = self.any_group() {
            self.say(format!(r#"{{"prefix":"pg {verb}","pgid":"{pgid}"}}"#));
        }
    }

    /// Waits for the healed cluster's rest. It is right that not all of it comes to rest in two cases: the OSD that rots does not start any more; or an
    /// object is not found whose newest write was never answered, and the only OSD that had it by then rots. All else is served, and is read.
    pub(crate) fn comes_to_rest(&mut self) -> Result<Rest, String> {
        let rests = |c: &Self| restless(c.monitor.as_ref(), &c.osds, &c.clients).is_none();
        if self.plan.rot_beyond {
            return self.ends_beyond();
        }
        let may_lack = !self.harm.rotten.is_empty();
        self.until(self.plan.rest_ns, if may_lack { "" } else { "at rest" }, rests)?;
        let Some(why) = restless(self.monitor.as_ref(), &self.osds, &self.clients) else { return Ok(Rest::Whole) };
        let lacks = self.unfound();
        if lacks.is_empty() && self.harm.gone.is_empty() {
            return Err(
                self.tell(&format!("rest: the cluster is not at rest after {} virtual seconds: {why}", self.plan.rest_ns / SEC), &[])
            );
        }
        if let Some(why) = self.unexplained(&lacks) {
            return Err(self.tell(&format!("rest: {why}"), &[]));
        }
        let first = self.history.calls.len();
        for object in 0..self.plan.objects {
            let is_open = self.history.has_open_write(object);
            if let (false, Some(client)) = (is_open, self.clients.iter_mut().flatten().next()) {
                client.submit(object, Op::Read, &mut self.history, &mut self.net);
            }
        }
        self.until(REPAIR_NS, "", move |c| c.history.calls[first..].iter().all(|call| call.outcome.is_some()))?;
        match self.history.calls[first..].iter().find(|call| call.outcome.is_none()) {
            Some(call) => Err(self.tell(&format!("rest: o{} can't be read, and no write to it is open: {why}", call.object), &[])),
            None if !self.harm.gone.is_empty() => Ok(Rest::WithoutOne),
            None => Ok(Rest::Unfound),
        }
    }
    /// More devices have rotted than is promised to be survived: what is read is right, and an object that can't be read lies in a group that says so.
    fn ends_beyond(&mut self) -> Result<Rest, String> {
        self.until(BEYOND_NS, "", |c| restless(c.monitor.as_ref(), &c.osds, &c.clients).is_none())?;
        let first = self.history.calls.len();
        for object in 0..self.plan.objects {
            if let Some(client) = self.clients.iter_mut().flatten().next() {
                client.submit(object, Op::Read, &mut self.history, &mut self.net);
            }
        }
        self.until(REPAIR_NS, "", move |c| {
            c.clients.iter().flatten().all(|client| client.in_flight() == 0) || first == c.history.calls.len()
        })?;
        let silent: Vec<u32> =
            self.clients.iter().flatten().flat_map(ClientProcess::unanswered).map(|call| self.history.calls[call].object).collect();
        match silent.into_iter().find(|object| self.is_said_to_serve(*object)) {
            Some(object) => Err(self.tell(&format!("rest: o{object} is not answered, and its group says that all is well"), &[])),
            None => Ok(Rest::Beyond),
        }
    }
    /// True if an object's group tells of nothing that keeps a client from it.
    fn is_said_to_serve(&self, object: u32) -> bool {
        let Some(map) = self.monitor.as_ref().map(|monitor| &monitor.core().osd.map) else { return false };
        let Some((id, pool)) = map.pool_by_name(POOL).and_then(|id| Some((id, map.pools.get(&id)?))) else { return false };
        let pgid = types::PgId::new(id, pool.fold(pool.hash_key(format!("o{object}").as_bytes(), &[])));
        let primary = map.pg_to_up_acting(pgid, &mut maps::Placement::default()).acting_primary;
        let Some(osd) = self.osds.get(primary as usize).and_then(Option::as_ref) else { return false };
        let well = |pg: &osd_core::pg::Pg| {
            pg.peering().is_clean() && pg.unfound().next().is_none() && pg.record().info().stats.stats.sum.num_scrub_errors == 0
        };
        osd.core().pgs().find(|pg| pg.pgid.pgid == pgid).is_some_and(well)
    }
    /// Objects that are not found, with their groups.
    fn unfound(&self) -> Vec<(SpgId, HObject)> {
        let primaries = self.osds.iter().flatten().flat_map(|osd| osd.core().pgs()).filter(|pg| pg.peering().is_primary());
        primaries.flat_map(|pg| pg.unfound().map(|(obj, _)| (pg.pgid, obj.clone()))).collect()
    }
    /// What neither of the two cases is the reason for.
    fn unexplained(&self, lacks: &[(SpgId, HObject)]) -> Option<String> {
        let number = |obj: &HObject| std::str::from_utf8(obj.oid.as_slice()).ok()?.strip_prefix('o')?.parse().ok();
        if let Some((pgid, obj)) = lacks.iter().find(|(_, obj)| !number(obj).is_some_and(|object| self.history.has_open_write(object))) {
            return Some(format!("{pgid}: {obj} is not found, and no write to it is open"));
        }
        for (id, osd) in self.osds.iter().enumerate() {
            let Some(osd) = osd else {
                if self.harm.gone.contains(&id) {
                    continue;
                }
                return Some(format!("osd.{id} is down"));
            };
            for pg in osd.core().pgs().filter(|pg| pg.peering().is_primary()) {
                let is_done = pg.peering().is_active() && (pg.peering().is_recovered() || lacks.iter().any(|(pgid, _)| *pgid == pg.pgid));
                if !is_done {
                    let (bits, work) = (types::pg_stat::pg_state::to_text(pg.state_bits()), pg.work());
                    return Some(format!("osd.{id} has {} {:?}, is {bits}, works at {work:?}", pg.pgid, pg.peering().state()));
                }
            }
        }
        None
    }

    /// Of each group, when it was last scrubbed deeply, and how many errors it has.
    pub(crate) fn scrubbed(&self) -> Vec<(SpgId, UTime, i64)> {
        let primaries = self.osds.iter().flatten().flat_map(|osd| osd.core().pgs()).filter(|pg| pg.peering().is_primary());
        primaries
            .map(|pg| (pg.pgid, pg.record().info().history.last_deep_scrub_stamp, pg.record().info().stats.stats.sum.num_scrub_errors))
            .collect()
    }
    /// A cluster at rest where nothing rotted is scrubbed deeply, group by group: there is no finding.
    pub(crate) fn scrub_all(&mut self) -> Result<(), String> {
        if !self.harm.rotten.is_empty() {
            return Ok(());
        }
        let before: BTreeMap<SpgId, UTime> = self.scrubbed().into_iter().map(|(pgid, at, _)| (pgid, at)).collect();
        for _ in 0..REPAIRS_MAX {
            let now = self.scrubbed();
            if let Some((pgid, _, errors)) = now.iter().find(|(_, _, errors)| *errors > 0) {
                let word = pgid.to_string();
                return Err(self.tell(&format!("scrub: {pgid} has {errors} errors, and nothing rotted"), &[word]));
            }
            let due: Vec<SpgId> = now.into_iter().filter(|(pgid, at, _)| before.get(pgid) == Some(at)).map(|(pgid, ..)| pgid).collect();
            if due.is_empty() {
                return Ok(());
            }
            for pgid in &due {
                self.say(format!(r#"{{"prefix":"pg deep-scrub","pgid":"{}"}}"#, pgid.pgid));
            }
            let before = before.clone();
            self.until(REPAIR_NS, "", move |c| c.scrubbed().iter().all(|(pgid, at, _)| before.get(pgid) != Some(at)) && c.is_settled())?;
        }
        Err(self.tell(&format!("scrub: not all groups are scrubbed deeply, {REPAIRS_MAX} times asked"), &[]))
    }
    /// A cluster at rest whose devices rotted is repaired, group by group.
    pub(crate) fn repair_all(&mut self) -> Result<(), String> {
        if self.harm.rotten.is_empty() {
            return Ok(());
        }
        for _ in 0..REPAIRS {
            self.repair_each()?;
        }
        Ok(())
    }
    /// True if an OSD that rots has gone for good: the cluster does not come to rest with it.
    pub(crate) fn is_one_gone(&self) -> bool {
        !self.harm.gone.is_empty()
    }
    /// True if the cluster is at rest, or has no way to it any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_one_gone() || restless(self.monitor.as_ref(), &self.osds, &self.clients).is_none()
    }
    fn repair_each(&mut self) -> Result<(), String> {
        // Stamps by which each was asked last. Primaries move meanwhile, and with them the order in which groups are listed.
        let mut before: BTreeMap<SpgId, UTime> = self.scrubbed().into_iter().map(|(pgid, at, _)| (pgid, at)).collect();
        for _ in 0..REPAIRS_MAX {
            let now = self.scrubbed();
            let due: BTreeMap<SpgId, UTime> = now
                .iter()
                .filter(|(pgid, at, errors)| *errors > 0 || before.get(pgid) == Some(at))
                .map(|(pgid, at, _)| (*pgid, *at))
                .collect();
            if due.is_empty() || self.is_one_gone() {
                return Ok(());
            }
            before.extend(&due);
            for pgid in due.keys() {
                self.say(format!(r#"{{"prefix":"pg repair","pgid":"{}"}}"#, pgid.pgid));
            }
            self.until(REPAIR_NS, "", move |c| {
                let is_done = |(pgid, at, errors): &(SpgId, UTime, i64)| *errors == 0 && due.get(pgid) != Some(at);
                (c.is_one_gone() || c.scrubbed().iter().all(is_done)) && c.is_settled()
            })?;
        }
        let left: Vec<String> = self.scrubbed().iter().filter(|g| g.2 > 0).map(|g| format!("{} has {} errors", g.0, g.2)).collect();
        Err(self.tell(&format!("repair: {REPAIRS_MAX} repairs do not mend what rotted: {}", left.join(", ")), &["rot on".into()]))
    }
}
