//! A scrub of one group as a value, on its primary: chunk after chunk of its objects, each member's map of the chunk, and what comparing them finds.
//!
//! ```text
//!                   every member has a slot for us
//!    Reserving ──────────────────────────────────────▶ Choosing ◀──── rested ──── Resting
//!      │ │  ▲                                            │ │  ▲                      ▲
//!      │ │  └──── inspected ──────┐      the next chunk, │ │  │ taken again          │ compared
//!      │ └─ a name is suspected ──┤   or a suspected name│ │  │                      │
//!      │                          └────────────────── Comparing ─────────────────────┘
//!      └── a member refuses ──▶ Over ◀── behind the last ──┘   (its map and ours are here)
//! ```
//!
//! A write to an object of the chunk under way does not wait: the chunk is taken again, half as large. What was disturbed
//! `osd_scrub_max_preemptions` times holds writes back the next time. A chunk holds whole names, so a head is compared with all of its clones, and what
//! is written behind the place that the scrub has come to is added to what it counted.
//!
//! A name whose copy here turned out to be damaged is inspected between two chunks: only its objects, deeply, without slots. Holds no message.

use super::found::{Bad, Comparing, Found};
use super::order::Order;
use super::scan::{Limits, Scan};
use super::snapsets;
use super::weigh::Weighed;
use crate::event::Level;
use crate::pg::backend::layout::Layout;
use crate::pg::backend::name::first_of;
use crate::planted::{Bug, planted};
use crate::work::{For, Work};
use base::Stamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::{ObjectStore, StoreError};
use types::{CollId, EVersion, GHObject, HObject, ObjectStatSum, PgShard, ScrubMap};

/// What a scrub wants done, in order.
#[derive(Debug)]
pub enum Out {
    Reserve(PgShard),
    Release(PgShard),
    /// That member is to send its map of the range.
    Ask(PgShard, HObject, HObject, bool),
    Line(Level, String),
    /// Objects of this head's name were looked at.
    Inspected(HObject, Box<Found>),
    /// No chunk is under way: what waited for one goes on.
    ChunkOver,
    /// The whole group was looked at.
    Through(Order, Box<Found>),
}

/// Members' maps of a range.
#[derive(Debug)]
struct Chunk {
    start: HObject,
    end: HObject,
    /// The head of the name that is inspected.
    inspects: Option<HObject>,
    scan: Option<Scan>,
    maps: BTreeMap<PgShard, ScrubMap>,
    waiting: BTreeSet<PgShard>,
    /// Something of it was written: the maps may be of different states.
    is_disturbed: bool,
}

#[derive(Debug)]
enum State {
    Reserving,
    Choosing,
    Comparing(Box<Chunk>),
    Resting(Stamp),
    Over,
}

/// How large chunks are, and how long it rests between them.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub names_max: usize,
    pub rest_ns: u64,
}

/// What a turn works with.
pub struct Env<'a> {
    pub store: &'a mut dyn ObjectStore,
    pub coll: CollId,
    pub layout: Layout,
    pub limits: Limits,
    pub pace: Pace,
    pub now: Stamp,
    /// Other members that have all of this head's name, or of every name.
    pub members: &'a dyn Fn(Option<&HObject>) -> Vec<PgShard>,
    pub out: &'a mut Vec<Out>,
}

/// See the module.
#[derive(Debug)]
pub struct Scrub {
    comparing: Comparing,
    /// Nothing while only names are inspected.
    order: Option<Order>,
    members: Vec<PgShard>,
    /// Members whose slots are awaited.
    awaited: BTreeSet<PgShard>,
    state: State,
    /// Everything before it was looked at.
    at: HObject,
    weighed: Weighed,
    /// Heads of names to inspect.
    suspects: VecDeque<HObject>,
    /// How often the chunk was taken.
    preemptions: u32,
    found: Found,
    read: u64,
    work: Work,
    pub started: Stamp,
    pub started_wall_ns: u64,
}

impl Scrub {
    /// A scrub of the whole group, whose first object is `first`. With members, their slots are to be asked for.
    pub fn new(order: Order, comparing: Comparing, members: Vec<PgShard>, first: HObject, out: &mut Vec<Out>) -> Self {
        out.extend(members.iter().map(|member| Out::Reserve(*member)));
        let awaited: BTreeSet<PgShard> = members.iter().copied().collect();
        let state = if awaited.is_empty() { State::Choosing } else { State::Reserving };
        let mut scrub = Self::bare(comparing, members, first);
        if awaited.is_empty() {
            scrub.begin_whole(order, out);
        }
        scrub.work = if awaited.is_empty() { Work::Busy } else { Work::Waiting(For::Peer) };
        (scrub.order, scrub.awaited, scrub.state) = (Some(order), awaited, state);
        scrub
    }
    /// Only names that are suspected.
    pub fn bare(comparing: Comparing, members: Vec<PgShard>, first: HObject) -> Self {
        Self {
            comparing,
            order: None,
            members,
            awaited: BTreeSet::new(),
            state: State::Choosing,
            at: first,
            weighed: Weighed::default(),
            suspects: VecDeque::new(),
            preemptions: 0,
            found: Found::default(),
            read: 0,
            work: Work::Busy,
            started: Stamp(0),
            started_wall_ns: 0,
        }
    }
    fn begin_whole(&self, order: Order, out: &mut Vec<Out>) {
        out.push(Out::Line(Level::Debug, format!("{} {} starts", self.comparing.pgid, order.name())));
    }

    pub fn work(&self) -> Work {
        self.work
    }
    pub fn work_mut(&mut self) -> &mut Work {
        &mut self.work
    }
    pub fn order(&self) -> Option<Order> {
        self.order
    }
    pub fn members(&self) -> &[PgShard] {
        &self.members
    }
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }
    /// A name is being inspected, or is to be.
    pub fn is_inspecting(&self) -> bool {
        !self.suspects.is_empty() || matches!(&self.state, State::Comparing(chunk) if chunk.inspects.is_some())
    }
    pub fn inspects(&self, head: &HObject) -> bool {
        self.suspects.contains(head) || matches!(&self.state, State::Comparing(chunk) if chunk.inspects.as_ref() == Some(head))
    }
    /// For people.
    pub fn progress(&self) -> String {
        let state = match &self.state {
            State::Reserving => format!("waits for slots on {} members, ", self.awaited.len()),
            State::Comparing(chunk) if !chunk.waiting.is_empty() => format!("waits for maps of {} members, ", chunk.waiting.len()),
            _ => String::new(),
        };
        format!("{state}{} objects looked at, {} errors", self.found.count, self.found.errors())
    }

    /// The only way between states.
    fn enter(&mut self, to: State) {
        let may = match (&self.state, &to) {
            (State::Reserving, State::Choosing | State::Comparing(_) | State::Over) => true,
            (State::Choosing, State::Comparing(_) | State::Over) => true,
            (State::Comparing(_), State::Choosing | State::Reserving | State::Resting(_) | State::Over) => true,
            (State::Resting(_), State::Choosing | State::Comparing(_)) => true,
            _ => false,
        };
        assert!(may, "a scrub goes from {:?} to {to:?}", self.state);
        self.work = match &to {
            State::Reserving => Work::Waiting(For::Peer),
            State::Choosing | State::Comparing(_) | State::Resting(_) => Work::Busy,
            State::Over => Work::Done,
        };
        self.state = to;
    }

    // What happens.

    /// A name whose copy here is not to be relied on, by its head.
    pub fn suspect(&mut self, head: &HObject) {
        if !self.inspects(head) {
            self.suspects.push_back(head.detach());
        }
        if !matches!(self.state, State::Comparing(_) | State::Over) {
            self.work = Work::Busy;
        }
    }
    pub fn take_suspects(&mut self) -> VecDeque<HObject> {
        std::mem::take(&mut self.suspects)
    }
    /// A member has a slot for us.
    pub fn granted(&mut self, from: PgShard, out: &mut Vec<Out>) {
        self.awaited.remove(&from);
        if self.awaited.is_empty() && matches!(self.state, State::Reserving) {
            if let Some(order) = self.order {
                self.begin_whole(order, out);
            }
            self.enter(State::Choosing);
        }
    }
    /// A member has none: what others gave goes back. True if the order is to be tried again later.
    pub fn refused(&mut self, from: PgShard, out: &mut Vec<Out>) -> bool {
        if !self.awaited.remove(&from) || self.order.is_none() {
            return false;
        }
        out.extend(self.members.iter().filter(|member| **member != from).map(|member| Out::Release(*member)));
        (self.order, self.awaited) = (None, BTreeSet::new());
        if matches!(self.state, State::Reserving) {
            self.enter(if self.suspects.is_empty() { State::Over } else { State::Choosing });
        }
        true
    }
    /// A member's map of the chunk.
    pub fn map_came(&mut self, from: PgShard, map: ScrubMap, was_preempted: bool) {
        let State::Comparing(chunk) = &mut self.state else { return };
        let in_range = map.objects.keys().all(|obj| *obj >= chunk.start && *obj < chunk.end);
        if in_range && chunk.waiting.remove(&from) {
            chunk.is_disturbed |= was_preempted;
            chunk.maps.insert(from, map);
            if !matches!(self.work, Work::Waiting(For::Store(_))) {
                self.work = Work::Busy;
            }
        }
    }
    /// Something of this head's name was written: what it adds to the group's statistics, and the head's version now, unless it was removed.
    pub fn changed(&mut self, head: &HObject, by: &ObjectStatSum, version: Option<EVersion>) {
        let first = head.at_snap(0);
        if first < self.at {
            self.found.sum += by;
        }
        if let State::Comparing(chunk) = &mut self.state
            && *head >= chunk.start
            && first < chunk.end
        {
            chunk.is_disturbed = true;
        }
        self.found.changed(head, version);
    }
    /// Copies were given up in the chunk under way: its maps are no longer what members have.
    pub fn disturb(&mut self) {
        if let State::Comparing(chunk) = &mut self.state {
            chunk.is_disturbed = true;
        }
    }
    /// True if writes to this head wait until the chunk is over.
    pub fn holds(&self, head: &HObject, preemptions_max: u32) -> bool {
        match &self.state {
            State::Comparing(chunk) => {
                self.preemptions >= preemptions_max && *head >= chunk.start && head.at_snap(0) < chunk.end
                    || chunk.inspects.as_ref() == Some(head)
            }
            _ => false,
        }
    }

    /// A turn. An error other than that the store fetches ends the scrub.
    pub fn turn(&mut self, env: &mut Env<'_>) -> Result<(), StoreError> {
        if !self.work.is_busy() {
            return Ok(());
        }
        let result = self.step(env);
        if let Err(error @ StoreError::Wait(_)) = &result {
            self.work = Work::stopped(error);
            return Ok(());
        }
        result
    }
    fn step(&mut self, env: &mut Env<'_>) -> Result<(), StoreError> {
        match &mut self.state {
            State::Comparing(chunk) => {
                if let Some(scan) = &mut chunk.scan {
                    let before = scan.read;
                    let map = scan.turn(env.store, env.coll, &env.limits);
                    self.read += scan.read - before;
                    let Some(map) = map? else { return Ok(()) };
                    chunk.scan = None;
                    chunk.maps.insert(self.comparing.whoami, map);
                }
                if !chunk.waiting.is_empty() {
                    self.work = Work::Waiting(For::Peer);
                    return Ok(());
                }
                self.compare(env);
                // Behind what came of it: a name that is inspected no more is mended by then.
                env.out.push(Out::ChunkOver);
            }
            State::Over => self.work = Work::Done,
            _ if !self.suspects.is_empty() => {
                let head = self.suspects.pop_front().expect("looked at above");
                self.take(head.at_snap(0), head.at_snap(u64::MAX), Some(head), env);
            }
            State::Reserving => self.work = Work::Waiting(For::Peer),
            State::Resting(until) if env.now < *until => self.work = Work::Waiting(For::Peer),
            State::Resting(_) => self.enter(State::Choosing),
            State::Choosing => match self.order {
                None => self.enter(State::Over),
                Some(order) if self.at.max => self.through(order, env.out),
                Some(_) => {
                    let end = self.choose(env)?;
                    self.weighed = Weighed::default();
                    self.take(self.at.clone(), end, None, env);
                }
            },
        }
        Ok(())
    }
    /// What rests goes on when its time has come.
    pub fn tick(&mut self) {
        if matches!(self.state, State::Resting(_)) {
            self.work = Work::Busy;
        }
        self.work.tick();
    }

    /// Where the next chunk ends: before the name that follows so many objects.
    fn choose(&mut self, env: &Env<'_>) -> Result<HObject, StoreError> {
        let max = (env.pace.names_max >> self.preemptions.min(16)).max(1);
        let mut from = first_of(env.coll, self.at.clone());
        loop {
            let page = env.store.list(env.coll, &from, &GHObject::max(), max)?;
            let large = self.weighed.before_large(&page.objects, &*env.store, env.coll)?;
            let first = page.objects.first().map(|first| first.hobj.at_snap(0));
            // A chunk of nothing but a part of one name goes on to the name's end.
            let ends = |end: &HObject| *end > self.at && first.as_ref().is_none_or(|first| first < end);
            if let Some(end) = large.filter(ends) {
                return Ok(end);
            }
            let Some(next) = page.next else { return Ok(HObject::max()) };
            let end = next.hobj.at_snap(0);
            if ends(&end) {
                return Ok(end);
            }
            from = next;
        }
    }
    /// Members are asked for their maps of a range, and ours is begun.
    fn take(&mut self, start: HObject, end: HObject, inspects: Option<HObject>, env: &mut Env<'_>) {
        let deep = inspects.is_some() || self.order.is_some_and(|order| order.deep);
        let mut members = if inspects.is_some() { (env.members)(inspects.as_ref()) } else { self.members.clone() };
        if planted(Bug::ScrubSkipsMember) {
            members.pop();
        }
        for member in &members {
            env.out.push(Out::Ask(*member, start.clone(), end.clone(), deep));
        }
        let scan = Some(Scan::new(env.coll, start.clone(), end.clone(), deep));
        let waiting = members.into_iter().collect();
        let chunk = Chunk { start, end, inspects, scan, maps: BTreeMap::new(), waiting, is_disturbed: false };
        self.enter(State::Comparing(Box::new(chunk)));
    }

    /// Every map of the chunk is here.
    fn compare(&mut self, env: &mut Env<'_>) {
        let after = if self.awaited.is_empty() { State::Choosing } else { State::Reserving };
        let rested = State::Resting(Stamp(env.now.0 + env.pace.rest_ns));
        let State::Comparing(chunk) = &mut self.state else { panic!("a chunk is under way") };
        let (end, maps) = (std::mem::take(&mut chunk.end), std::mem::take(&mut chunk.maps));
        let (inspects, is_disturbed) = (chunk.inspects.take(), chunk.is_disturbed);
        if is_disturbed && !planted(Bug::KeepDisturbed) {
            match inspects {
                Some(head) => self.suspects.push_front(head),
                None => self.preemptions += 1,
            }
            return self.enter(after);
        }
        let (repair, mode) = match (&inspects, self.order) {
            (Some(_), _) | (None, None) => (true, "deep-scrub"),
            (None, Some(order)) => (order.repair, order.name()),
        };
        let comparing = Comparing { repair, mode, ..self.comparing };
        let mut found = Found::default();
        let whole = env.layout.compare(&comparing, &maps, &mut found);
        snapsets::check(&comparing, &whole, &mut found);
        // What no head names is not for other members to have.
        found.extra.keys().for_each(|clone| drop(found.bad.remove(clone)));
        if planted(Bug::MendFromBad) {
            turn_round(&mut found.bad, &maps);
        }
        env.out.extend(std::mem::take(&mut found.lines).into_iter().map(|(level, text)| Out::Line(level, text)));
        match inspects {
            Some(head) => {
                env.out.push(Out::Inspected(head, Box::new(found)));
                self.enter(after);
            }
            None => {
                self.found.append(found);
                (self.at, self.preemptions) = (end, 0);
                self.enter(if env.pace.rest_ns > 0 { rested } else { after });
            }
        }
    }
    fn through(&mut self, order: Order, out: &mut Vec<Out>) {
        out.extend(self.members.iter().map(|member| Out::Release(*member)));
        out.push(Out::Through(order, Box::new(std::mem::take(&mut self.found))));
        self.order = None;
        self.enter(State::Over);
    }
}

/// The bug: good copies are made anew, from the bad one.
fn turn_round(bad: &mut BTreeMap<HObject, Bad>, maps: &BTreeMap<PgShard, ScrubMap>) {
    for bad in bad.values_mut().filter(|bad| bad.missing.is_empty()) {
        let others = maps.keys().filter(|shard| !bad.inconsistent.contains(shard)).copied().collect();
        bad.inconsistent = others;
    }
}
