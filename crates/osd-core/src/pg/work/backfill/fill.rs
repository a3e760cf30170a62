//! The primary's side: one group's backfill as a value, which says what is to be done next.
//!
//! ```text
//!            ours and theirs are listed                        the first object of all
//!   Listing ────────────────────────────▶ Comparing ──┬── the primary has none of it ──▶ removed there ───────┐
//!      ▲                                      ▲  ▲    ├── same version, or the target has it ─────────────────┤
//!      │ a page is used up                    │  │    ├── a client writes it ──▶ Blocked ── it is durable ──┐ │
//!      └──────────────────────────────────────┘  │    └── else ──▶ pushed ── durable at each target ────────│─┤
//!                                                └───────────────────────────────────────────────────────────┴─┘
//!   nothing is left and nothing under way ──▶ Finishing: each target is told ── its answer: that is durable ──▶ over
//! ```
//!
//! Each object is dealt with once: what clients write behind `started` is noted in our list, what they write up to it goes to the targets, so no
//! change is missed. How far a target is told it is ends before the first object under way. Holds no message and no transaction.

use super::interval::{Interval, scan};
use crate::pg::backend::name::name;
use crate::pg::work::recovery::host::{Host, Part};
use crate::planted::{Bug, planted};
use std::collections::{BTreeMap, BTreeSet};
use store::StoreError;
use types::{EVersion, HObject, ObjectStatSum, PgLogEntry, PgShard};

/// Objects after which a target is told how far it is, if more are under way.
const TELL_EVERY: usize = 16;

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// These targets are to be sent the object at this version.
    Push(HObject, EVersion, Vec<PgShard>),
    /// Something is waited for.
    Rest,
}

/// See the module.
#[derive(Debug)]
pub struct Backfill {
    /// Everything up to here was dealt with, or is under way.
    started: HObject,
    ours: Interval,
    theirs: BTreeMap<PgShard, Interval>,
    /// Targets that were asked for their next page.
    asked: BTreeSet<PgShard>,
    under_way: BTreeSet<HObject>,
    /// What targets have more than they were told, by object.
    untold: BTreeMap<HObject, ObjectStatSum>,
    /// What targets are to remove, to be sent at the end of the turn.
    too_many: BTreeMap<PgShard, Vec<(HObject, EVersion)>>,
    /// Something is on its way to this head: the next object has its name.
    blocked: Option<HObject>,
    /// Nothing can be done before something comes.
    rests: bool,
    /// Targets that were told that they have everything, and have not answered.
    finishing: BTreeSet<PgShard>,
}

impl Backfill {
    /// Goes on from where the target is that is furthest behind.
    pub fn begin(host: &dyn Host) -> Self {
        let at = |target: &PgShard| host.info_of(*target).expect("a target told what it has").last_backfill.clone();
        let theirs: BTreeMap<_, _> = host.targets().iter().map(|target| (*target, Interval::at(at(target)))).collect();
        let started = theirs.values().map(|interval| interval.end().clone()).min().unwrap_or(HObject::max());
        Self {
            ours: Interval::at(started.clone()),
            started,
            theirs,
            asked: BTreeSet::new(),
            under_way: BTreeSet::new(),
            untold: BTreeMap::new(),
            too_many: BTreeMap::new(),
            blocked: None,
            rests: false,
            finishing: BTreeSet::new(),
        }
    }
    /// A write up to here goes to the targets with its data.
    pub fn started(&self) -> &HObject {
        &self.started
    }
    /// True if a target that was told that it has everything up to `told` gets a write on this head with its data.
    pub fn reaches(backfill: Option<&Self>, told: &HObject, head: &HObject) -> bool {
        let started = backfill.map(Self::started).filter(|_| !planted(Bug::SkipWrite));
        started.is_some_and(|started| head <= started) || head <= told
    }
    pub fn is_under_way(&self, obj: &HObject) -> bool {
        self.under_way.contains(obj)
    }
    /// True if new writes on this head wait, so that those on their way come to an end.
    pub fn blocks(&self, head: &HObject) -> bool {
        self.blocked.as_ref() == Some(head)
    }
    pub fn may_go_on(&self) -> bool {
        !self.rests
    }
    /// It was held back, and goes on: what was asked for may not come.
    pub fn resume(&mut self) {
        self.asked.clear();
        self.rests = false;
    }
    /// Something came, or is to be tried again.
    pub fn wake(&mut self) {
        self.rests = false;
    }

    /// The log goes on by these entries.
    pub fn logged(&mut self, entries: &[PgLogEntry]) {
        for entry in entries.iter().filter(|entry| !entry.is_error() && entry.soid > self.started) {
            if planted(Bug::PassDelete) && entry.is_delete() {
                continue;
            }
            self.ours.changed(&entry.soid, (!entry.is_delete()).then_some(entry.version));
        }
    }
    /// What an object adds to what targets have, which was dealt with and is not told to all of them; nothing of any other one.
    pub fn untold(&mut self, head: &HObject) -> Option<&mut ObjectStatSum> {
        (*head <= self.started).then(|| self.untold.entry(head.detach()).or_default())
    }

    /// The first name of which any target has told that it has an object, or the first of which it has not told.
    fn earliest(&self) -> HObject {
        self.theirs.values().map(Interval::begin).min().cloned().unwrap_or(HObject::max())
    }

    /// What is to be done next. Removals come on the way, and are sent by [`Backfill::tell`].
    ///
    /// # Errors
    /// The store must fetch, or can't read, what is listed next: it is to be asked again.
    pub fn next(&mut self, host: &mut dyn Host) -> Result<Next, StoreError> {
        while !self.rests {
            if self.blocked.as_ref().is_some_and(|head| self.ours.first().is_none_or(|(obj, _)| obj.head() != *head)) {
                self.unblock(host);
            }
            while self.ours.wants_more() && *self.ours.begin() <= self.earliest() {
                self.ours = scan(host.store(), host.coll(), self.ours.end(), host.limits().scan_max)?;
                self.ours.trim_to(&self.started);
            }
            self.ask_for_pages(host);
            if !self.asked.is_empty() || self.ours.is_over() && self.theirs.values().all(Interval::is_over) {
                self.rests = true;
                break;
            }
            let first = self.earliest();
            if first < *self.ours.begin() {
                for (target, interval) in self.theirs.iter_mut().filter(|(_, interval)| *interval.begin() == first) {
                    self.too_many.entry(*target).or_default().extend(interval.pop());
                }
                self.started = first;
                continue;
            }
            let Some((obj, version)) = self.ours.first().map(|(obj, version)| (obj.clone(), version)) else { continue };
            let to = self.lacking(host, &obj, version);
            if !to.is_empty() && !host.is_free(&obj.head()) && !planted(Bug::PassWrite) {
                self.blocked = Some(obj.head());
                self.rests = true;
                break;
            }
            self.unblock(host);
            self.ours.pop();
            self.theirs.values_mut().filter(|interval| *interval.begin() == obj).for_each(|interval| drop(interval.pop()));
            self.started = obj.clone();
            let mut stats = ObjectStatSum { num_objects: 1, num_object_clones: i64::from(!obj.is_head()), ..ObjectStatSum::default() };
            if to.is_empty() {
                self.untold.insert(obj, stats);
                continue;
            }
            stats.num_bytes = host.store().stat(host.coll(), &name(host.coll(), obj.clone())).map_or(0, |stat| stat.size as i64);
            self.untold.insert(obj.clone(), stats);
            self.under_way.insert(obj.clone());
            return Ok(Next::Push(obj, version, to));
        }
        Ok(Next::Rest)
    }
    /// Targets whose page is used up are asked for the next, once we have looked as far.
    fn ask_for_pages(&mut self, host: &mut dyn Host) {
        for (target, interval) in &self.theirs {
            if interval.wants_more() && interval.begin() <= self.ours.begin() && self.asked.insert(*target) {
                host.send(*target, Part::Scan(Box::new(interval.end().clone())));
            }
        }
    }
    /// Targets that have not got this version of an object, which is our first.
    fn lacking(&self, host: &dyn Host, obj: &HObject, version: EVersion) -> Vec<PgShard> {
        let lacks = |(target, interval): (&PgShard, &Interval)| {
            let is_lacking = match interval.first().filter(|(first, _)| *first == obj) {
                Some((_, theirs)) => theirs != version,
                // One that is further has it.
                None => host.info_of(*target).is_some_and(|info| *obj > info.last_backfill),
            };
            is_lacking.then_some(*target)
        };
        self.theirs.iter().filter_map(lacks).collect()
    }
    /// Requests that were held back so that the next object can be sent go on, or wait for it.
    fn unblock(&mut self, host: &mut dyn Host) {
        if let Some(head) = self.blocked.take() {
            host.is_nearer(&head);
        }
    }

    /// A page of a target.
    pub fn listed(&mut self, host: &mut dyn Host, from: PgShard, begin: &HObject, mut page: Interval) {
        let (Some(interval), true) = (self.theirs.get_mut(&from), self.asked.contains(&from)) else { return };
        let goes_on = page.begin() >= begin && (page.end().max || page.end() > begin);
        if interval.end() != begin {
            // Asked for before it was held back.
            return;
        }
        if !goes_on {
            return host.complain(format!("osd.{from} lists what it was not asked for"));
        }
        self.asked.remove(&from);
        let told = host.info_of(from).map(|info| info.last_backfill.clone()).unwrap_or_default();
        page.trim_to((&told).max(&self.started));
        *interval = page;
        self.rests = !self.asked.is_empty();
    }
    /// Every target has an object that was under way. False if it was not backfill's.
    pub fn pushed(&mut self, obj: &HObject) -> bool {
        self.under_way.remove(obj)
    }

    /// At the end of a turn: what is too many goes, and targets are told how far they are.
    pub fn tell(&mut self, host: &mut dyn Host) {
        for (target, objects) in std::mem::take(&mut self.too_many) {
            host.send(target, Part::Remove(objects));
        }
        if !self.finishing.is_empty() {
            return;
        }
        let position = self.earliest().min(self.ours.begin().clone());
        let mut limit = self.under_way.first().cloned().unwrap_or_else(|| position.clone());
        if planted(Bug::TellEarly) {
            limit = position.clone();
        }
        let is_over = position.max && self.under_way.is_empty() && self.asked.is_empty();
        let count = self.untold.range(..limit.clone()).count();
        if !is_over && (count == 0 || (count < TELL_EVERY && !self.under_way.is_empty() && !planted(Bug::TellEarly))) {
            return;
        }
        let later = self.untold.split_off(&limit);
        let done = std::mem::replace(&mut self.untold, later);
        let reached = match done.last_key_value() {
            _ if is_over => HObject::max(),
            Some((last, _)) => last.clone(),
            None => return,
        };
        if is_over {
            self.started = HObject::max();
        }
        for target in host.targets() {
            self.tell_one(host, target, &reached, &done);
        }
    }
    fn tell_one(&mut self, host: &mut dyn Host, target: PgShard, reached: &HObject, done: &BTreeMap<HObject, ObjectStatSum>) {
        let info = host.info_of(target).expect("a target told what it has");
        if *reached <= info.last_backfill {
            return;
        }
        let mut stats = info.stats.clone();
        done.iter().filter(|(obj, _)| **obj > info.last_backfill).for_each(|(_, sum)| stats.stats.sum += sum);
        if reached.max {
            stats = host.info().stats.clone();
            self.finishing.insert(target);
        }
        host.target_reached(target, reached.clone(), stats.clone());
        host.send(target, Part::Progress { to: Box::new(reached.clone()), stats: Box::new(stats), is_last: reached.max });
    }
    /// A target has everything, durably. True with the last of them: the backfill is over.
    pub fn finished(&mut self, host: &mut dyn Host, from: PgShard) -> bool {
        if !self.finishing.remove(&from) {
            return false;
        }
        self.theirs.remove(&from);
        host.target_filled(from);
        self.finishing.is_empty()
    }
}
