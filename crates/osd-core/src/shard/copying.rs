//! What requests want of objects of other groups (COPY_FROM, methods that gather): asked for question by question, by the OSD's own
//! [`Objecter`], and given back.
//!
//! The request stands first among its object's waiters meanwhile, so that everything behind it waits. The objecter finds where a question goes and
//! sends it again when that changes; groups of our own are asked by the same messages as others', over a connection of our own that no shell knows.

use super::Shard;
use crate::event::{Effect, Network, Peer};
use crate::fetch::{Fetch, OWN_CONN};
use crate::op::fetch::{Got, Place, Questions};
use crate::request::ClientOp;
use crate::session::Session;
use crate::shared::EventCx;
use crate::work::{For, Status, Work};
use base::Stamp;
use messages::{MOSDOp, Message, RawMessage};
use objecter::Objecter;
use objecter::objecter::{Effect as ObjecterEffect, Reply, Submit};
use objecter::ops::Ops;
use std::collections::BTreeMap;
use std::time::Duration;
use types::errno::{EIO, ENOENT};
use types::osd_op::osd_flag;
use types::{EntityAddr, EntityName, HObject, ObjectLocator, OsdId, ReqId, SpgId, features};

/// A question is put anew after so long without an answer: its OSD may have dropped it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something on its way.
#[derive(Debug)]
struct Job {
    pgid: SpgId,
    obj: HObject,
    reqid: ReqId,
    questions: Questions,
    /// The question's number with the objecter.
    tid: u64,
    asked: Stamp,
}

/// All that is on its way.
#[derive(Default)]
pub(crate) struct Copying {
    objecter: Objecter,
    /// By the number that comes back with a question's answer.
    jobs: BTreeMap<u64, Job>,
    last: u64,
    done: Vec<(u64, Reply)>,
    /// Questions that our own groups could not answer the first time: put again by a tick.
    again: Vec<MOSDOp>,
}

impl Copying {
    pub fn status(&self) -> impl Iterator<Item = Status> {
        self.jobs.values().map(|job| {
            let progress = format!("question {} for {} of {}", job.tid, job.obj, job.reqid);
            Status { what: "copy", pgid: Some(job.pgid), work: Work::Waiting(For::Peer), progress }
        })
    }
}

impl Shard {
    /// Starts what groups want, and takes what came back.
    ///
    /// True if anything was done, so that there may be something new to commit.
    pub(super) fn copy_some(&mut self, cx: &mut EventCx<'_>) -> bool {
        let mut any = false;
        while !(self.sh.wishes.fetches.is_empty() && self.sh.wishes.own_answers.is_empty() && self.copying.done.is_empty()) {
            any = true;
            for Fetch { pgid, obj, reqid, wanted } in std::mem::take(&mut self.sh.wishes.fetches) {
                let questions = Questions::new(wanted, self.sh.limits.object_size_max);
                self.ask(Job { pgid, obj, reqid, questions, tid: 0, asked: cx.clock.mono }, cx);
            }
            let whoami = self.sh.whoami;
            for answer in std::mem::take(&mut self.sh.wishes.own_answers) {
                self.copy_answer(whoami, &answer, cx);
            }
            for (user, reply) in std::mem::take(&mut self.copying.done) {
                self.answered(user, reply, cx);
            }
        }
        any
    }

    /// Questions without an answer are put anew, wherever the object is by now; those whose request is gone are forgotten.
    pub(super) fn copy_tick(&mut self, cx: &mut EventCx<'_>) {
        for msg in std::mem::take(&mut self.copying.again) {
            self.ask_ourselves(msg, cx);
        }
        let now = cx.clock.mono;
        let late = |job: &Job| now.since(job.asked) >= PATIENCE;
        let users: Vec<u64> = self.copying.jobs.iter().filter(|(_, job)| late(job)).map(|(user, _)| *user).collect();
        for user in users {
            let job = self.copying.jobs.remove(&user).expect("found among them");
            self.copying.objecter.cancel(job.tid);
            if self.pg_at(job.pgid).is_some_and(|pg| pg.wants_fetched(&job.obj, job.reqid)) {
                self.ask(job, cx);
            }
        }
        self.copy_some(cx);
    }
    /// A new map is in force: questions that belong elsewhere by it are put there.
    pub(super) fn copy_map(&mut self, cx: &mut EventCx<'_>) {
        if !self.copying.jobs.is_empty() {
            let (map, clock) = (self.sh.map.clone(), cx.clock);
            self.objecter(cx, |objecter, effects| objecter.set_map(map, clock, effects));
        }
    }
    /// The session with another OSD is lost, and what was asked in it.
    pub(super) fn copy_reset(&mut self, osd: OsdId, cx: &mut EventCx<'_>) {
        let clock = cx.clock;
        self.objecter(cx, |objecter, effects| objecter.on_reset(osd, clock, effects));
    }
    /// An answer to a question, or a backoff.
    pub(super) fn copy_answer(&mut self, from: OsdId, raw: &RawMessage, cx: &mut EventCx<'_>) {
        let clock = cx.clock;
        self.objecter(cx, |objecter, effects| {
            objecter.on_message(from, raw, clock, effects);
        });
    }

    /// Calls the objecter and does what comes of it.
    fn objecter(&mut self, cx: &mut EventCx<'_>, f: impl FnOnce(&mut Objecter, &mut Vec<ObjecterEffect>)) {
        let mut effects = Vec::new();
        f(&mut self.copying.objecter, &mut effects);
        let mut effects: std::collections::VecDeque<ObjecterEffect> = effects.into();
        while let Some(effect) = effects.pop_front() {
            match effect {
                ObjecterEffect::Send { osd, message } if osd == self.sh.whoami => self.send_ourselves(&message, cx),
                ObjecterEffect::Send { osd, message } => {
                    let addrs = self.sh.map.client_addrs.get(osd as usize).cloned().unwrap_or_default();
                    cx.out.push(Effect::AskOsd { osd, addrs, msg: message });
                }
                ObjecterEffect::Done { user, reply, .. } => self.copying.done.push((user, reply)),
                // A pool that our map doesn't have is gone: no OSD acts by a newer one than its own.
                ObjecterEffect::WantNewest => {
                    let mut more = Vec::new();
                    self.copying.objecter.on_newest(self.sh.map.epoch, &mut more);
                    effects.extend(more);
                }
                // Connections are made by sending; maps are ours; nothing is watched.
                ObjecterEffect::Open { .. }
                | ObjecterEffect::Close { .. }
                | ObjecterEffect::Map(_)
                | ObjecterEffect::WantMap(_)
                | ObjecterEffect::Linger { .. } => {}
            }
        }
    }

    fn pg_at(&mut self, pgid: SpgId) -> Option<&mut crate::pg::Pg> {
        let slot = *self.index.get(&pgid)?;
        self.pgs[slot as usize].as_deref_mut()
    }

    /// Puts the next question of a job.
    fn ask(&mut self, mut job: Job, cx: &mut EventCx<'_>) {
        let map = self.sh.map.clone();
        let Some((oid, place, snap)) = job.questions.object() else { return self.fetched(job, Err(EIO), cx) };
        let locator = match place {
            Place::Locator(locator) => Some(locator.clone()),
            Place::PoolName(name) => map.pool_by_name(name).map(ObjectLocator::pool),
        };
        let Some(locator) = locator.filter(|locator| map.object_to_raw_pg(oid.as_slice(), locator).is_some()) else {
            return self.fetched(job, Err(ENOENT), cx);
        };
        self.copying.last += 1;
        let user = self.copying.last;
        let ops = Ops { ops: job.questions.ops().into(), flags: osd_flag::READ };
        let mut submit = Submit::new(locator, oid.clone(), ops);
        (submit.snap, submit.flags, submit.user) = (snap, job.questions.flags(), user);
        let mut tid = 0;
        let clock = cx.clock;
        let stale = self.copying.objecter.epoch() != map.epoch;
        self.objecter(cx, |objecter, effects| {
            if stale {
                objecter.set_map(map, clock, effects);
            }
            tid = objecter.submit(submit, clock, effects);
        });
        (job.tid, job.asked) = (tid, cx.clock.mono);
        self.copying.jobs.insert(user, job);
    }

    fn send_ourselves(&mut self, raw: &RawMessage, cx: &mut EventCx<'_>) {
        if raw.kind != MOSDOp::KIND {
            // That a backoff was understood.
            return;
        }
        let msg = MOSDOp::decode(raw).expect("we encoded it");
        // Our groups answer within the turn: one that says "again" would be asked for ever.
        if msg.attempt > 0 { self.copying.again.push(msg) } else { self.ask_ourselves(msg, cx) }
    }
    fn ask_ourselves(&mut self, msg: MOSDOp, cx: &mut EventCx<'_>) {
        let name = EntityName::osd(self.sh.whoami.into());
        self.sh.sessions.entry(OWN_CONN).or_insert_with(|| {
            let peer = Peer {
                name,
                entity: String::new(),
                global_id: 0,
                features: features::SUPPORTED,
                supported: features::SUPPORTED,
                addr: EntityAddr::default(),
                from: EntityAddr::default(),
                network: Network::Public,
                cap: None,
            };
            Session::new(peer)
        });
        let reqid = msg.reqid_from(name);
        let op = ClientOp {
            conn: OWN_CONN,
            msg,
            reqid,
            info: None,
            received: cx.clock.mono,
            bytes_in: 0,
            waits_for: "",
            fetches: None,
            unanswered: None,
            was_inspected: false,
            passes: Default::default(),
            permit: None,
        };
        self.place(Box::new(op), cx);
    }

    fn answered(&mut self, user: u64, reply: Reply, cx: &mut EventCx<'_>) {
        let Some(mut job) = self.copying.jobs.remove(&user) else { return };
        let taken = if reply.result < 0 { Err(-reply.result) } else { job.questions.take(reply.user_version, &reply.ops) };
        match taken {
            Ok(None) => self.ask(job, cx),
            Ok(Some(got)) => self.fetched(job, Ok(got), cx),
            Err(errno) => self.fetched(job, Err(errno), cx),
        }
    }

    fn fetched(&mut self, job: Job, result: Result<Got, i32>, cx: &mut EventCx<'_>) {
        let Some(slot) = self.index.get(&job.pgid) else { return };
        let pg = self.pgs[*slot as usize].as_mut().expect("the index names groups that are here");
        let result = result.map(|got| (job.questions.wanted(), got));
        pg.fetched(&job.obj, job.reqid, result, &mut cx.with(&mut self.sh));
    }
}
