//! A group of two to four members in random histories: needs come and go, places are taken by other groups, maps come late, OSDs start again.

use super::leader::Leader;
use super::member::{GROUP, Member, Msg, group};
use crate::pg::work::places::want::{Do, Kind};
use crate::reserver::Reserver;
use base::{Rng, Stamp};
use std::collections::VecDeque;
use types::{Epoch, PgShard};

/// How long a refused primary waits.
const RETRY: u64 = 30;

struct World {
    rng: Rng,
    now: Stamp,
    /// Begins of intervals; the newest map is the cluster's.
    intervals: Vec<Epoch>,
    newest: Epoch,
    epoch: Epoch,
    primary: Leader,
    places: Reserver,
    needed: Option<Kind>,
    /// Members that are to be filled in this interval.
    targets: Vec<PgShard>,
    /// Members that have activated.
    activated: Vec<bool>,
    members: Vec<Member>,
    to_member: Vec<VecDeque<(Epoch, Msg)>>,
    to_primary: Vec<VecDeque<(Epoch, Msg)>>,
}

fn shard(at: usize) -> PgShard {
    PgShard::whole(at as i32 + 1)
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let count = 1 + rng.below(3) as usize;
        // Of two stock members that meet, nothing is ours.
        let is_led_by_stock = rng.chance(1, 3);
        let mut world = Self {
            now: Stamp(0),
            intervals: vec![1],
            newest: 1,
            epoch: 1,
            primary: Leader::new(is_led_by_stock),
            places: Reserver::new(1, 0),
            needed: None,
            targets: Vec::new(),
            activated: vec![false; count],
            members: (0..count).map(|_| Member::new(!is_led_by_stock && rng.chance(1, 2), 1 + rng.below(2) as usize, 1)).collect(),
            to_member: vec![VecDeque::new(); count],
            to_primary: vec![VecDeque::new(); count],
            rng,
        };
        world.activate();
        world
    }
    /// The interval of this map began then.
    fn since(&self, epoch: Epoch) -> Epoch {
        *self.intervals.iter().rev().find(|since| **since <= epoch).expect("the first map begins one")
    }
    fn kind(&mut self) -> Kind {
        if self.rng.chance(1, 2) { Kind::Recovery } else { Kind::Backfill }
    }
    fn priority(&mut self) -> u32 {
        100 + 40 * self.rng.below(3) as u32
    }

    // The primary.

    fn activate(&mut self) {
        self.needed = None;
        self.activated.iter_mut().for_each(|activated| *activated = false);
        self.targets = (0..self.members.len()).filter(|_| self.rng.chance(2, 3)).map(shard).collect();
        (0..self.members.len()).for_each(|at| self.to_member[at].push_back((self.epoch, Msg::Activate)));
    }
    fn is_active(&self) -> bool {
        self.activated.iter().all(|activated| *activated)
    }
    /// What the group needs is another thing.
    fn need(&mut self, needed: Option<Kind>) {
        if !self.is_active() || (needed == Some(Kind::Backfill) && self.targets.is_empty()) {
            return;
        }
        self.needed = needed;
        if needed == self.primary.kind() {
            return;
        }
        let members = if needed == Some(Kind::Backfill) { self.targets.clone() } else { (0..self.members.len()).map(shard).collect() };
        let (priority, mut out) = (self.priority(), Vec::new());
        self.primary.need(needed, priority, members, &mut out);
        self.does(out);
    }
    fn does(&mut self, out: Vec<Do>) {
        let mut send = |to: PgShard, msg| self.to_member[to.osd as usize - 1].push_back((self.epoch, msg));
        for one in out {
            match one {
                Do::AskOurs(priority) => self.places.ask(group(GROUP), priority),
                Do::GiveOursBack => self.places.cancel(group(GROUP)),
                Do::Ask(to, kind, priority) => send(to, Msg::Request(kind, priority)),
                Do::GiveBack(to, kind) => send(to, Msg::Release(kind)),
            }
        }
    }
    fn hear(&mut self, at: usize, msg: Msg) {
        let (from, again, mut out) = (shard(at), Stamp(self.now.0 + RETRY), Vec::new());
        match msg {
            Msg::Activated => self.activated[at] = true,
            msg => self.primary.hear(from, msg, again, &mut out),
        }
        self.does(out);
    }
    fn local_news(&mut self) -> bool {
        let Some((pgid, news)) = self.places.take_news() else { return false };
        let mut out = Vec::new();
        if pgid == group(GROUP) {
            self.primary.local_news(news, &mut out);
        }
        self.does(out);
        true
    }
    /// The primary has a newer map.
    fn primary_map(&mut self) -> bool {
        if self.epoch == self.newest {
            return false;
        }
        let before = self.since(self.epoch);
        self.epoch += 1;
        if self.since(self.epoch) != before {
            self.primary.end_interval();
            self.places.cancel(group(GROUP));
            self.activate();
        }
        true
    }

    // Members and the wire.

    fn member_map(&mut self, at: usize) -> bool {
        if self.members[at].epoch == self.newest {
            return false;
        }
        let before = self.members[at].since;
        self.members[at].epoch += 1;
        if self.since(self.members[at].epoch) != before {
            self.members[at].start_interval();
        }
        true
    }
    /// One message reaches a member, if it has the map that it was sent by.
    fn to_member(&mut self, at: usize, is_too_full: bool) -> bool {
        let Some((sent, msg)) = self.to_member[at].pop_front_if(|(sent, _)| *sent <= self.members[at].epoch) else { return false };
        if sent >= self.members[at].since {
            self.members[at].hear(msg, is_too_full);
            self.collect(at);
        }
        true
    }
    fn to_primary(&mut self, at: usize) -> bool {
        let Some((sent, msg)) = self.to_primary[at].pop_front_if(|(sent, _)| *sent <= self.epoch) else { return false };
        if sent >= self.since(self.epoch) {
            self.hear(at, msg);
        }
        true
    }
    fn collect(&mut self, at: usize) {
        let member = &mut self.members[at];
        self.to_primary[at].extend(member.out.drain(..).map(|msg| (member.epoch, msg)));
    }
    fn member_step(&mut self, at: usize, is_too_full: bool) -> bool {
        let any = self.members[at].step(is_too_full);
        self.collect(at);
        any
    }
    fn new_map(&mut self, begins_interval: bool) {
        self.newest += 1;
        if begins_interval {
            self.intervals.push(self.newest);
        }
    }

    fn random_step(&mut self) {
        let at = self.rng.below(self.members.len() as u64) as usize;
        let is_too_full = self.rng.chance(1, 12);
        match self.rng.below(100) {
            0..22 => drop(self.to_member(at, is_too_full)),
            22..44 => drop(self.to_primary(at)),
            44..60 => drop(self.member_step(at, is_too_full)),
            60..68 => drop(self.local_news()),
            68..76 => {
                let needed = if self.rng.chance(1, 3) { None } else { Some(self.kind()) };
                self.need(needed);
            }
            76..86 => {
                let (other, priority, gives_back) = (1 + self.rng.below(3) as u32, self.priority(), self.rng.chance(1, 2));
                let does =
                    |places: &mut Reserver| if gives_back { places.cancel(group(other)) } else { places.ask(group(other), priority) };
                if self.rng.chance(1, 3) {
                    does(&mut self.places);
                } else {
                    self.members[at].others(does);
                }
            }
            86..89 => {
                let (priority, mut out) = (self.priority(), Vec::new());
                self.primary.revalue(priority, &mut out);
                self.does(out);
            }
            89..92 if self.primary.held() == Some(Kind::Backfill) => {
                let to = self.targets[self.rng.below(self.targets.len() as u64) as usize];
                let msg = if self.rng.chance(1, 3) { Msg::Finish } else { Msg::Scan(self.rng.chance(1, 4)) };
                self.to_member[to.osd as usize - 1].push_back((self.epoch, msg));
            }
            92 => {
                let begins = self.rng.chance(1, 3);
                self.new_map(begins);
            }
            93..96 => drop(self.primary_map()),
            96..98 => drop(self.member_map(at)),
            98 => self.pass(),
            // An OSD starts again: it was down in a map, and what it had in memory and on the wire is gone.
            99 if self.rng.chance(1, 4) => self.start_again(at),
            _ => {}
        }
    }
    fn pass(&mut self) {
        // A stock primary relies on it that nothing is on its way for as long as it waits.
        if self.primary.is_stock() && !self.to_member.iter().chain(&self.to_primary).all(VecDeque::is_empty) {
            return;
        }
        self.now.0 += RETRY / 2;
        let mut out = Vec::new();
        self.primary.pass(self.now, &mut out);
        self.does(out);
    }
    fn start_again(&mut self, at: usize) {
        self.new_map(true);
        if self.rng.chance(1, 2) {
            self.primary = Leader::new(self.primary.is_stock());
            self.places = Reserver::new(1, 0);
            self.epoch = self.newest;
            self.to_member.iter_mut().chain(&mut self.to_primary).for_each(VecDeque::clear);
            self.activate();
        } else {
            self.members[at] = Member::new(self.members[at].is_stock(), 1, self.newest);
            self.to_member[at].clear();
            self.to_primary[at].clear();
        }
    }
    /// Everything that is on its way arrives. False if there was nothing.
    fn settle(&mut self) -> bool {
        let mut any = self.local_news() || self.primary_map();
        for at in 0..self.members.len() {
            any |= self.member_map(at) || self.to_member(at, false) || self.to_primary(at) || self.member_step(at, false);
        }
        any
    }
    /// The same, over the time that a refused primary waits.
    fn settle_all(&mut self) {
        for _ in 0..4 {
            (0..2000).take_while(|_| self.settle()).for_each(drop);
            self.pass();
        }
    }
}

/// One history. In the end other groups are gone and all is delivered: the primary has the places that it needs, and no other one is taken.
pub fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..400 {
        world.random_step();
    }
    for other in 1..4 {
        world.places.cancel(group(other));
        world.members.iter_mut().for_each(|member| member.others(|places| places.cancel(group(other))));
    }
    world.settle_all();
    world.need(None);
    world.settle_all();
    let last = [None, Some(Kind::Recovery), Some(Kind::Backfill)][world.rng.below(3) as usize];
    let needed = if last == Some(Kind::Backfill) && world.targets.is_empty() { None } else { last };
    world.need(needed);
    world.settle_all();
    assert!(world.is_active(), "seed {seed}: all maps are there");
    assert_eq!((world.primary.kind(), world.primary.held()), (needed, needed), "seed {seed}: no place comes");
    for (at, member) in world.members.iter().enumerate() {
        let is_needed = needed == Some(Kind::Recovery) || (needed == Some(Kind::Backfill) && world.targets.contains(&shard(at)));
        assert!(if is_needed { member.is_held() } else { member.is_idle() }, "seed {seed}: the place of member {at}, needed: {is_needed}");
    }
}
