//! A primary that loses its group while it can't hear of it, and a client that knows no other: what the leases of reads are for.
//!
//! ```text
//!                    nothing goes through
//!   reader ──────▶ primary, by chance another member  ┆  the other OSDs, the monitor ◀────── writer
//!   has the old map, reads                            ┆  another interval of the group       writes the same objects
//! ```
//! Sometimes one way is open, or the primary stands still for a part of the time, or a command marks it down at once, which its silence would do only
//! after its lease; or it leads only while the one that led before is away; sometimes the other members are killed and start again, and what they knew of the lease is gone; or the group splits.
//! The two clients are there for nothing else: those that work by chance soon wait for writes that the primary can't finish, and read no more.

use crate::client::POOL;
use crate::cluster::Cluster;
use crate::model::Op;
use crate::net::{Life, Proc, What};
use crate::plan::Plan;
use crate::{MS, SEC};

/// Reads that the reader has under way: with more of them a history has too many explanations.
const READS: usize = 3;
const WRITES: usize = 2;
/// Objects that both clients use at a time.
const OBJECTS: usize = 2;

/// What happens in the course of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is cut off until then.
    CutOff(i32, u64),
    /// An operator marks it down.
    Down(i32),
    /// It is killed, and does not start before then.
    Away(i32, u64),
    /// It is killed, and starts again soon.
    Restart(i32),
    /// It stands still for so long.
    Pause(i32, u64),
    /// The group is split.
    Split,
    End,
}

/// The state of fences in a run.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    begun: u32,
    ended: u32,
    /// The objects that are read and written now, and the primary that the reader asks.
    objects: Vec<u32>,
    primary: i32,
    /// Calls of the two clients.
    pub calls: usize,
}

impl Fences {
    /// Clients of their own: the reader, then the writer.
    pub fn clients(plan: &Plan) -> u32 {
        if plan.fence > 0 { 2 } else { 0 }
    }
    /// True if all that the plan has are over.
    pub fn are_over(&self, plan: &Plan) -> bool {
        plan.fence == 0 || self.ended == plan.fences
    }
}

impl Cluster {
    /// Calls of clients that work by chance.
    pub(crate) fn calls_by_chance(&self) -> usize {
        self.history.calls.len() - self.fences.calls
    }
    /// An object by chance, others of its group, and the group's members, the primary first; `None` if it has not several.
    pub(crate) fn fence_target(&mut self) -> Option<(Vec<u32>, Vec<i32>)> {
        let object = self.net.rng.below(self.plan.objects.into()) as u32;
        let map = &self.monitor.as_ref()?.core().osd.map;
        let pool = map.pool_by_name(POOL)?;
        let group = |object: u32| {
            let p = map.pools.get(&pool)?;
            Some(types::PgId::new(pool, p.fold(p.hash_key(format!("o{object}").as_bytes(), &[]))))
        };
        let pgid = group(object)?;
        let at = map.pg_to_up_acting(pgid, &mut maps::Placement::default());
        let mut members = vec![at.acting_primary];
        members.extend(at.acting.iter().copied().filter(|osd| *osd != at.acting_primary));
        let others = (0..self.plan.objects).filter(|other| *other != object && group(*other) == Some(pgid)).take(OBJECTS - 1);
        let objects = [object].into_iter().chain(others).collect();
        (at.acting_primary >= 0 && members.len() > 1).then_some((objects, members))
    }

    /// See the module.
    pub(crate) fn fence(&mut self) {
        if self.fences.begun == self.plan.fences || self.fences.begun > self.fences.ended {
            return;
        }
        let Some((objects, mut members)) = self.fence_target() else { return };
        // The primary has led before, is away for an interval that another one leads, and comes back when that one is cut off. It knows of that
        // interval's lease only what the others tell.
        let is_back = members.len() > 2 && self.net.rng.chance(1, 2);
        if is_back {
            let first = members.remove(0);
            self.net.note(format!("osd.{first} is away for an interval"));
            self.say(format!(r#"{{"prefix":"osd down","ids":["{first}"]}}"#));
            let back_ns = self.net.rng.below(3 * SEC);
            self.net.partition(Proc::Mon, Proc::Osd(first), self.net.now_ns + back_ns);
            members.push(first);
        }
        if !is_back && members.len() > 2 && self.net.rng.chance(1, 3) {
            return self.fence_unheard(objects, &members);
        }
        let primary = members[0];
        self.fences.begun += 1;
        (self.fences.objects, self.fences.primary) = (objects, primary);
        // Where a lease is longer than the time after which a silent OSD counts as failed, its silence alone is to bring that out.
        let is_long = self.plan.lease_percent > 100;
        let lasts_ns = (if is_long { 45 } else { 20 } + self.net.rng.below(30)) * SEC;
        let until = self.net.now_ns + lasts_ns;
        let mut inside = vec![primary];
        if members.len() > 2 && self.net.rng.chance(1, 3) {
            inside.push(members[1]);
        }
        self.net.note(format!("{inside:?} are cut off, o{:?} are read there", self.fences.objects));
        let is_told = self.net.rng.chance(if is_long { 1 } else { 3 }, 4);
        let down_ns = self.net.rng.below(8 * SEC);
        if is_back {
            let begin = self.net.rng.below(3 * SEC);
            self.net.after(begin, What::Fence(Step::CutOff(primary, until)));
            self.net.after(begin + self.net.rng.clone().below(SEC), What::Fence(Step::Down(primary)));
        } else {
            self.cut_off(&inside, until);
        }
        if is_told && !is_back {
            inside.iter().for_each(|osd| self.net.after(down_ns, What::Fence(Step::Down(*osd))));
        }
        match self.net.rng.below(6) {
            // It is to be within the lease that all are back and serve.
            0 | 1 if is_told && !is_back => {
                for osd in members.iter().filter(|osd| !inside.contains(osd)) {
                    let delay = self.net.rng.below(SEC);
                    self.net.after(delay, What::Fence(Step::Restart(*osd)));
                }
            }
            2 => {
                let begin = self.net.rng.below(2 * SEC);
                let pause = self.net.rng.below(lasts_ns - begin);
                self.net.after(begin, What::Fence(Step::Pause(primary, pause)));
            }
            3 if is_told => {
                let delay = self.net.rng.below(down_ns + 1);
                self.net.after(delay, What::Fence(Step::Split));
            }
            _ => {}
        }
        self.net.at(until, What::Fence(Step::End));
    }
    /// One member hears of no lease any more, and the other goes on to. Then that one dies and the primary is cut off: of the primary's lease, which
    /// counts only as far as all have heard of it, the one that is left knows nothing newer.
    fn fence_unheard(&mut self, objects: Vec<u32>, members: &[i32]) {
        let (primary, hears, unheard) = (members[0], members[1], members[2]);
        self.fences.begun += 1;
        (self.fences.objects, self.fences.primary) = (objects, primary);
        let begin = (3 + self.net.rng.below(14)) * SEC;
        let until = self.net.now_ns + begin + (20 + self.net.rng.below(20)) * SEC;
        self.net.note(format!("osd.{unheard} hears nothing of osd.{primary}, o{:?} are read there", self.fences.objects));
        match self.net.rng.chance(1, 2) {
            true => self.net.partition(Proc::Osd(primary), Proc::Osd(unheard), until),
            false => self.net.partition(Proc::Osd(unheard), Proc::Osd(primary), until),
        }
        self.net.after(begin, What::Fence(Step::CutOff(primary, until)));
        self.net.after(begin, What::Fence(Step::Away(hears, until)));
        self.net.after(begin + 1, What::Fence(Step::Down(primary)));
        self.net.at(until, What::Fence(Step::End));
    }
    /// Between these OSDs and the rest nothing goes, or nothing one way; the reader hears none of the rest.
    fn cut_off(&mut self, inside: &[i32], until: u64) {
        let reader = Proc::Client(self.plan.clients);
        let ways = [1, 2, 3, 3][self.net.rng.below(4) as usize];
        let outside: Vec<Proc> = (0..self.osd_count() as i32).filter(|osd| !inside.contains(osd)).map(Proc::Osd).collect();
        for one in inside.iter().map(|osd| Proc::Osd(*osd)) {
            for other in &outside {
                if ways & 1 != 0 {
                    self.net.partition(one, *other, until);
                }
                if ways & 2 != 0 {
                    self.net.partition(*other, one, until);
                }
            }
            // No map comes: it would know.
            self.net.partition(Proc::Mon, one, until);
            if self.net.rng.chance(1, 2) {
                self.net.partition(one, Proc::Mon, until);
            }
        }
        for other in outside.into_iter().chain([Proc::Mon]) {
            self.net.partition(other, reader, until);
        }
    }
    pub(crate) fn fence_step(&mut self, step: Step) {
        if !self.troubled && step != Step::End {
            return;
        }
        self.net.note(format!("fence: {step:?}"));
        match step {
            Step::CutOff(osd, until) => self.cut_off(&[osd], until),
            Step::Down(osd) => self.say(format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#)),
            Step::Away(osd, until) => {
                self.away.insert(osd as usize, until);
                self.kill_osd(osd as usize, false);
            }
            Step::Restart(osd) => {
                self.kill_osd(osd as usize, false);
                let delay = self.net.rng.below(500 * MS);
                self.net.after(delay, What::Start(Proc::Osd(osd)));
            }
            Step::Pause(osd, for_ns) => self.pause_osd(osd, for_ns),
            Step::Split => {
                let map = self.monitor.as_ref().map(|monitor| &monitor.core().osd.map);
                let pg_num = map.and_then(|map| map.pools.get(&map.pool_by_name(POOL)?)).map(|pool| pool.pg_num);
                if let Some(pg_num) = pg_num.filter(|pg_num| *pg_num < 32) {
                    let twice = 2 * pg_num;
                    self.say(format!(r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"pg_num","val":"{twice}"}}"#));
                }
            }
            Step::End => {
                self.fences.ended += 1;
                self.fences.objects.clear();
            }
        }
    }

    /// The reader or the writer has time.
    pub(crate) fn fence_client(&mut self, n: usize, life: Life) {
        let reads = n == self.plan.clients as usize;
        let client = self.clients[n].as_mut().expect("it lives");
        let under_way_max = if reads { READS } else { WRITES };
        if self.troubled && !self.fences.objects.is_empty() && client.in_flight() < under_way_max && client.has_pool() {
            let object = self.fences.objects[self.net.rng.below(self.fences.objects.len() as u64) as usize];
            // Elsewhere it would hear of newer maps.
            if !reads || client.primary_of(object) == Some(self.fences.primary) {
                let op = if reads { Op::Read } else { client.overwrite(&mut self.net.rng) };
                client.submit(object, op, &mut self.history, &mut self.net);
                self.fences.calls += 1;
            }
        }
        let pause = self.net.rng.below(600 * MS) + MS;
        self.net.after(pause, What::Think(life));
    }
}
