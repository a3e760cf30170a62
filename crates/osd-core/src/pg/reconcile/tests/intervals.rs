//! Intervals of a small cluster: members go and come, peer by their infos and logs as far as they get, write, acknowledge, recover, fill, trim.
//! Whatever was acknowledged is in every later log, and after each step each member agrees with the model.

use super::super::choose::{Infos, Placement, Serving, ask_best_since};
use super::super::member::{Ask, Bring, Member, ask};
use super::super::missing::Missing;
use super::super::{LogError, PeerLog};
use super::model::{Node, World};
use super::{object, v};
use crate::pg::backend::layout::{HOLE, Layout};
use crate::pg::backend::positions::Positions;
use crate::planted::{self, Bug};
use base::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use types::{EVersion, HObject, OsdId, PgShard};

const OBJECTS: u64 = 6;
const OSDS: i32 = 4;
const SIZE: usize = 3;

struct Cluster {
    layout: Layout,
    rng: Rng,
    world: World,
    nodes: BTreeMap<OsdId, Node>,
    epoch: u32,
    /// Complete members of the last interval in which there may have been writes.
    last_active: BTreeSet<OsdId>,
    /// What every later history begins with: what was there when the group was last active, and what was acknowledged then.
    settled: Vec<EVersion>,
    /// Nothing that was written before is added to it.
    settled_epoch: u32,
    /// What was seen, so that a test can tell that it saw it.
    seen: Seen,
}

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    acknowledged: usize,
    divergent: usize,
    backfills: usize,
    asked: usize,
    unanchored: usize,
}

impl Cluster {
    fn new(layout: Layout, seed: u64) -> Self {
        Self {
            layout,
            rng: Rng::new(seed),
            world: World::of(layout != Layout::Copies),
            nodes: (0..OSDS).map(|osd| (osd, Node::of(layout))).collect(),
            epoch: 0,
            last_active: BTreeSet::new(),
            settled: Vec::new(),
            settled_epoch: 0,
            seen: Seen::default(),
        }
    }
    /// Some of these, in any order.
    fn some(&mut self, of: impl IntoIterator<Item = OsdId>, max: usize) -> Vec<OsdId> {
        let mut of: Vec<_> = of.into_iter().map(|osd| (self.rng.u64(), osd)).collect();
        of.sort_unstable();
        let count = 1 + self.rng.below(max.min(of.len()) as u64) as usize;
        of.into_iter().take(count).map(|(_, osd)| osd).collect()
    }
    /// A member; of positions each OSD has one.
    fn member(&self, osd: OsdId) -> PgShard {
        self.layout.member(osd, osd as usize)
    }
    /// The OSDs as a map has them: positions that none of these has are holes.
    fn placed(&self, osds: &[OsdId]) -> Vec<OsdId> {
        if self.layout == Layout::Copies {
            return osds.to_vec();
        }
        (0..OSDS).map(|osd| if osds.contains(&osd) { osd } else { HOLE }).collect()
    }
    /// The primary of those that serve.
    fn primary(&self, acting: &[OsdId]) -> PgShard {
        self.layout.members(acting).next().expect("some serve")
    }
    fn below(&mut self, end: usize) -> usize {
        self.rng.below(end as u64) as usize
    }

    /// One interval: members that are there peer; if they get through, there are writes.
    fn interval(&mut self) {
        self.epoch += 1;
        let mut alive = self.some(0..OSDS, OSDS as usize);
        let is_whole = |all: &Self, alive: &[OsdId]| {
            let there = alive.iter().filter(|osd| all.last_active.contains(osd)).map(|osd| all.member(*osd));
            all.last_active.is_empty() || all.layout.is_recoverable(there)
        };
        while !is_whole(self, &alive) {
            // Nothing is served until enough of them are back.
            let back: Vec<_> = self.last_active.iter().copied().filter(|osd| !alive.contains(osd)).collect();
            alive.push(back[self.below(back.len())]);
        }
        let up = self.some(alive.iter().copied(), SIZE);
        let up = self.placed(&up);
        let infos: Infos = alive.iter().map(|osd| (self.member(*osd), self.nodes[osd].info.clone())).collect();
        let Some((serving, best)) = self.agree(&infos, &up) else { return };
        if !self.layout.is_recoverable(self.layout.members(&serving.acting)) {
            return;
        }
        let primary = self.primary(&serving.acting);
        self.get_log(&infos, primary, best, &serving);
        let started = self.nodes[&primary.osd].history.clone();
        let (kept, more) = started.split_at(self.settled.len().min(started.len()));
        assert_eq!(kept, self.settled, "osd.{} goes on with what was acknowledged", primary.osd);
        assert!(more.iter().all(|v| v.epoch >= self.settled_epoch), "{more:?}: what was left out in {} stays out", self.settled_epoch);
        if self.rng.chance(1, 6) || !self.bring_members(primary, &serving) {
            return;
        }
        self.serve(primary, &serving);
    }

    /// Who serves, after as many changes of the acting set as that takes.
    fn agree(&mut self, infos: &Infos, up: &[OsdId]) -> Option<(Serving, PgShard)> {
        let mut acting = up.to_vec();
        let behind_max = self.rng.below(10);
        for _ in 0..3 {
            let best = self.layout.find_best(infos, self.primary(&acting), None, false).member?;
            let place = Placement { up, acting: &acting, up_primary: up[0], size: SIZE, behind_max, only_placed: false };
            let serving = self.layout.choose_acting(infos, best, &place);
            if serving.acting == acting {
                return Some((serving, best));
            }
            acting = serving.acting;
        }
        panic!("{infos:?} don't agree who serves");
    }

    /// The primary takes the log that counts.
    fn get_log(&mut self, infos: &Infos, primary: PgShard, best: PgShard, serving: &Serving) {
        if primary != best {
            let since = ask_best_since(infos, primary, best, &serving.acting_backfill);
            let from = self.nodes[&best.osd].clone();
            let node = self.nodes.get_mut(&primary.osd).unwrap();
            let before = node.history.len();
            node.merge(from.part(since), &from.info, &from.history).expect("who leads has a log that meets the best");
            node.info.last_epoch_started = node.info.last_epoch_started.max(from.info.last_epoch_started);
            self.seen.divergent += usize::from(node.history.len() < before);
            self.seen.asked += 1;
        }
        self.nodes[&primary.osd].check(&self.world);
    }

    /// Every other member comes to the primary's log; false if the interval ends before all have.
    fn bring_members(&mut self, primary: PgShard, serving: &Serving) -> bool {
        let ours = self.nodes[&primary.osd].clone();
        let mut views = Vec::new();
        for member in serving.acting_backfill.iter().filter(|m| **m != primary) {
            let node = &self.nodes[&member.osd];
            let asked = match ask(&ours.info, &node.info) {
                Ask::Nothing => None,
                Ask::Since(since) => Some(node.part(since)),
                Ask::Whole => Some(node.whole()),
            };
            views.push(match asked {
                None => Member::unasked(node.info.clone()),
                Some(log) => {
                    let missing = Missing::from(&node.missing.to_wire());
                    let judge =
                        |log| Member::judge(self.layout, &ours.log(), node.info.clone(), &PeerLog::check(log).unwrap(), missing.clone());
                    let judged = match judge(log) {
                        Err(LogError::Unanchored(_)) => {
                            self.seen.unanchored += 1;
                            judge(node.whole())
                        }
                        judged => judged,
                    };
                    judged.expect("a replica's log is sound")
                }
            });
        }
        let epoch = self.epoch;
        self.nodes.get_mut(&primary.osd).unwrap().info.last_epoch_started = epoch;
        let ours = self.nodes[&primary.osd].clone();
        for (member, mut view) in serving.acting_backfill.iter().filter(|m| **m != primary).zip(views) {
            if self.rng.chance(1, 12) {
                return false;
            }
            let max = self.below(8);
            let node = self.nodes.get_mut(&member.osd).unwrap();
            let fills = serving.backfill.contains(member);
            match view.bring(&ours.info, fills) {
                Bring::Info if node.info.last_update > ours.info.last_update => {
                    node.rewind(ours.info.last_update, &ours.info);
                    self.seen.divergent += 1;
                }
                Bring::Info => {}
                Bring::Log(after) => {
                    let log = ours.part(after);
                    view.send_log(&log.log, &ours.info);
                    self.seen.divergent += usize::from(node.info.last_update > after);
                    node.merge(log, &ours.info, &ours.history).expect("a replica that is sent a log can take it");
                }
                Bring::Backfill => {
                    let log = ours.newest(max);
                    view.send_backfill(log.tail, &ours.info);
                    node.replace(log, &view.info, &ours.history);
                    self.seen.backfills += 1;
                }
            }
            assert!(fills || !node.info.is_incomplete(), "who isn't filled serves");
            node.check(&self.world);
            node.check_view(&view);
            if serving.acting.contains(&member.osd) {
                node.info.last_epoch_started = epoch;
            }
        }
        for member in &serving.acting_backfill {
            let node = self.nodes.get_mut(&member.osd).unwrap();
            node.info.history.last_epoch_started = epoch;
            // The interval begins: what was taken from another log is not undone in place.
            node.roll_forward(node.info.last_update);
        }
        true
    }

    /// Writes, some of which don't arrive everywhere; recovery and backfill meanwhile; then some trim.
    fn serve(&mut self, primary: PgShard, serving: &Serving) {
        self.last_active = self.layout.members(&serving.acting).map(|member| member.osd).collect();
        let members: Vec<OsdId> = serving.acting_backfill.iter().map(|m| m.osd).collect();
        let mut history = self.nodes[&primary.osd].history.clone();
        let before = history.len();
        for _ in 0..self.rng.below(7) {
            let objects = self.world.truth(&history);
            let version = v(self.epoch, history.last().map_or(0, |v| v.version) + 1);
            history.push(self.world.draw(&mut self.rng, &objects, OBJECTS, version));
        }
        let arrived: Vec<usize> = members.iter().map(|_| before + self.below(history.len() - before + 1)).collect();
        // In half of the intervals all arrives.
        let arrived = if self.rng.chance(1, 2) { vec![history.len(); members.len()] } else { arrived };
        for (osd, arrived) in members.iter().zip(&arrived) {
            let node = self.nodes.get_mut(osd).unwrap();
            for n in before..*arrived {
                let truth = self.world.truth(&history[..n].to_vec());
                let obj = &self.world.entry(history[n]).soid;
                node.recover(obj, &truth);
                node.recover(&obj.head(), &truth);
                node.write(&self.world, history[n]);
            }
            let truth = self.world.truth(&node.history);
            let missing: Vec<_> = node.missing.iter().map(|(o, _)| o).collect();
            for obj in missing {
                if self.rng.chance(1, 2) {
                    node.recover(&obj, &truth);
                }
            }
            if node.info.is_incomplete() {
                let to = if self.rng.chance(1, 2) { HObject::max() } else { object(self.rng.below(OBJECTS)) };
                // An object that is filled in can't be undone: it is none that was just written.
                let is_written = |v: &EVersion| (&node.info.last_backfill..=&to).contains(&&self.world.entry(*v).soid);
                let may = self.layout == Layout::Copies || !node.history[before..].iter().any(is_written);
                if may && to > node.info.last_backfill {
                    let filled = truth.into_iter().filter(|(o, _)| *o > node.info.last_backfill && *o <= to);
                    node.store.extend(filled);
                    node.info.last_backfill = to;
                }
            }
            node.check(&self.world);
        }
        let acknowledged = arrived.iter().copied().min().expect("there is a primary");
        self.seen.acknowledged += acknowledged - before;
        (self.settled, self.settled_epoch) = (history[..acknowledged].to_vec(), self.epoch);
        let Some(to) = history[..acknowledged].get(self.below(acknowledged + 1)).copied().filter(|_| self.rng.chance(1, 2)) else { return };
        for osd in members {
            let (skip, dups_max) = (self.rng.chance(1, 3), self.below(12));
            let node = self.nodes.get_mut(&osd).unwrap();
            if !skip && to > node.info.log_tail {
                node.trim(to, dups_max);
                node.check(&self.world);
            }
        }
    }
}

fn run(seed: u64) -> Seen {
    run_of(Layout::Copies, seed)
}
fn run_of(layout: Layout, seed: u64) -> Seen {
    println!("{layout:?} seed {seed}");
    let mut cluster = Cluster::new(layout, seed);
    (0..12).for_each(|_| cluster.interval());
    cluster.seen
}

#[test]
fn what_was_acknowledged_is_in_every_later_log() {
    let all = seen_in(Layout::Copies);
    let enough = all.acknowledged > 1000 && all.divergent > 100 && all.backfills > 100 && all.asked > 100 && all.unanchored > 0;
    assert!(enough, "the histories have in them what they are for: {all:?}");
    let all = seen_in(Layout::Positions(Positions { k: 2, n: OSDS as usize }));
    assert!(all.acknowledged > 500 && all.divergent > 100 && all.backfills > 50, "so have those of positions: {all:?}");
}
fn seen_in(layout: Layout) -> Seen {
    let mut all = Seen::default();
    for seed in 0..400 {
        let seen = run_of(layout, seed);
        all.acknowledged += seen.acknowledged;
        all.divergent += seen.divergent;
        all.backfills += seen.backfills;
        all.asked += seen.asked;
        all.unanchored += seen.unanchored;
    }
    println!("{all:?}");
    all
}

#[test]
fn planted_bugs_of_peering_are_found() {
    for bug in [Bug::KeepDivergent, Bug::IgnoreLastStarted, Bug::LoseDup, Bug::TrustMissing] {
        let found = (0..1500).any(|seed| planted::with(bug, || catch_unwind(|| run(seed))).is_err());
        assert!(found, "{bug:?} is not found");
    }
}
