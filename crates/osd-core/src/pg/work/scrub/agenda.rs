//! A group's state of scrubbing: the scrub that it runs or wants, the map that it makes for its primary, requests that wait.
//!
//! Holds no rule of a scrub, see [`super::chunks`]; what becomes of findings is [`super::mend`]'s.

use super::chunks::Scrub;
use super::found::Found;
use super::order::Order;
use super::results::Results;
use super::scan::Scan;
use super::slots::ScrubSlot;
use crate::event::ConnId;
use crate::request::ClientOp;
use crate::shared::Cx;
use crate::work::{Status, Work};
use base::Stamp;
use std::collections::{BTreeMap, VecDeque};
use types::{Bytes, EVersion, Epoch, HObject, ObjectStatSum, PgShard, SpgId, pg_state};

/// How long a refused scrub waits, at least and at most, in nanoseconds. Source: ours; stock tries after `osd_scrub_sleep` and some ticks.
const PUT_OFF_NS: (u64, u64) = (1_000_000_000, 5_000_000_000);

/// A map that our primary asked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub to: PgShard,
    pub min_epoch: Epoch,
    pub scan: Scan,
    pub work: Work,
}

/// What a group has for scrubbing.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// What is to be done next, and from when on.
    pub(super) wanted: Option<Order>,
    pub(super) not_before: Stamp,
    /// As primary.
    pub(super) run: Option<Box<Scrub>>,
    pub(super) own_slot: Option<ScrubSlot>,
    /// As another member: the slot that our primary has, and the map that it asked for.
    pub(super) lent_slot: Option<ScrubSlot>,
    pub(super) asked: Option<Box<Asked>>,
    pub(super) results: Option<Results>,
    /// Heads of names of which the last scrub found our copy bad and another one good: with the next request on one it is mended.
    pub(super) suspects: BTreeMap<HObject, EVersion>,
    /// Requests that wait for an inspection, or until a chunk is over, by head; each is one that the OSD's budget has let in.
    pub(super) held: BTreeMap<HObject, VecDeque<Box<ClientOp>>>,
    /// Copies are being made anew.
    pub(super) is_mending: bool,
    /// When that is over the group is looked at again.
    pub(super) checks_after: bool,
    /// The last repair left something.
    pub(super) has_failed: bool,
    /// When the group was first seen here, for one that was never scrubbed.
    pub(super) known_since_s: u32,
}

impl Agenda {
    pub fn requests(&self) -> impl Iterator<Item = &ClientOp> {
        self.held.values().flatten().map(|op| &**op)
    }
    pub fn end_requests(&mut self) -> impl Iterator<Item = Box<ClientOp>> + use<> {
        std::mem::take(&mut self.held).into_values().flatten()
    }
    pub fn reset(&mut self, conn: ConnId) {
        self.held.retain(|_, ops| {
            ops.retain(|op| op.conn != conn);
            !ops.is_empty()
        });
    }
    /// The interval is over: what was found is of members that may no longer be some. Requests are taken by [`Agenda::end_requests`].
    pub fn end_interval(&mut self) {
        if let Some(order) = self.run.take().and_then(|run| run.order())
            && order.is_requested
        {
            self.wanted.get_or_insert(order);
        }
        (self.own_slot, self.lent_slot, self.asked, self.results) = (None, None, None, None);
        (self.is_mending, self.checks_after, self.has_failed) = (false, false, false);
        self.suspects.clear();
    }
    /// An object of this head's name was written.
    pub fn changed(&mut self, head: &HObject, by: &ObjectStatSum, version: Option<EVersion>) {
        if let Some(run) = &mut self.run {
            run.changed(head, by, version);
        }
        match (version, self.suspects.get_mut(head)) {
            (Some(version), Some(of)) => *of = version,
            (None, Some(_)) => drop(self.suspects.remove(head)),
            (_, None) => {}
        }
    }
    pub fn work(&self) -> Work {
        self.run.as_ref().map_or(Work::Idle, |run| run.work())
    }
    pub fn is_inspecting(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.is_inspecting())
    }
    pub fn asked_work(&self) -> Work {
        self.asked.as_ref().map_or(Work::Idle, |asked| asked.work)
    }
    /// What the last scrub found, of results that are of this interval; else an errno.
    pub fn found(&self, arg: &Bytes, interval: Epoch) -> Result<Bytes, i32> {
        Results::page(self.results.as_ref(), arg, interval)
    }
    pub fn work_mut(&mut self) -> Option<&mut Work> {
        self.run.as_mut().map(|run| run.work_mut())
    }
    pub fn asked_work_mut(&mut self) -> Option<&mut Work> {
        self.asked.as_mut().map(|asked| &mut asked.work)
    }
    /// A scrub is asked for: begun by the next tick.
    pub fn want(&mut self, deep: bool, repair: bool) {
        let before = self.wanted.unwrap_or_default();
        let (deep, repair) = (deep || repair || before.deep, repair || before.repair && !before.is_auto);
        self.wanted = Some(Order { deep, repair, is_requested: true, ..Order::default() });
        self.not_before = Stamp(0);
    }
    pub fn bits(&self) -> u64 {
        let order = self.run.as_ref().and_then(|run| run.order());
        let mut bits = match order {
            Some(order) if order.deep => pg_state::SCRUBBING | pg_state::DEEP_SCRUB,
            Some(_) => pg_state::SCRUBBING,
            None => 0,
        };
        if self.is_mending || order.is_some_and(|order| order.repair && !order.is_auto) {
            bits |= pg_state::REPAIR;
        }
        if self.has_failed {
            bits |= pg_state::FAILED_REPAIR;
        }
        bits
    }
    pub fn status(&self, pgid: SpgId) -> Option<Status> {
        let run = self.run.as_ref()?;
        let what = run.order().map_or("inspection", Order::name);
        Some(Status { what, pgid: Some(pgid), work: run.work(), progress: run.progress() })
    }
    /// Names of which our copy is bad: with the next request it is mended.
    pub(super) fn note_suspects(&mut self, found: &Found, ours: PgShard) {
        let bad_here = found.bad.iter().filter(|(_, bad)| bad.shards().any(|shard| shard == ours));
        self.suspects = bad_here.map(|(obj, bad)| (obj.head(), bad.version)).collect();
    }
    /// A member had no slot: it is tried again some seconds later.
    pub(super) fn put_off(&mut self, cx: &mut Cx<'_>) {
        let (min, max) = PUT_OFF_NS;
        self.not_before = Stamp(cx.clock.mono.0 + min + cx.sh.rng.below(max - min));
    }
}
