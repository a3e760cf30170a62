//! What requests want of objects of other groups (COPY_FROM, methods that gather): asked for question by question, of ourselves or of another
//! OSD, and given back.
//!
//! The request stands first among its object's waiters meanwhile, so that everything behind it waits. Groups of our own are asked by the same
//! messages as others', over a connection of our own that no shell knows.

use crate::event::{ConnId, Effect, Peer};
use crate::op::fetch::{Got, Place, Wanted, Work};
use crate::osd::Osd;
use crate::request::ClientOp;
use crate::session::Session;
use crate::shared::Cx;
use base::{Clock, Stamp};
use messages::{MOSDOp, MOSDOpReply, Message, RawMessage};
use std::time::Duration;
use types::errno::{EAGAIN, EIO, ENOENT};
use types::osd_op::osd_flag;
use types::{EntityAddr, EntityName, HObject, ObjectLocator, ReqId, SpgId, UTime, features};

/// The connection to ourselves.
pub(crate) const OWN_CONN: ConnId = ConnId(u64::MAX);
/// A question is repeated after so long without an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request that wants something of other objects.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub pgid: SpgId,
    /// The head of the object that the request is on.
    pub obj: HObject,
    pub reqid: ReqId,
    pub wanted: Wanted,
}

/// How far a request has come with what it wants.
#[derive(Debug, Default)]
pub struct Fetches {
    /// It stands first at its object until something comes.
    pub waiting: bool,
    pub got: Vec<(Wanted, Got)>,
}

/// Something on its way.
#[derive(Debug)]
struct Job {
    pgid: SpgId,
    obj: HObject,
    reqid: ReqId,
    work: Work,
    /// The question's number; an answer to an older one is ignored.
    tid: u64,
    asked: Stamp,
}

/// All that is on its way.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    jobs: Vec<Job>,
    tids: u64,
}

impl Osd {
    /// Starts what groups want, and takes what our own groups have answered.
    ///
    /// True if anything was done, so that there may be something new to commit.
    pub(crate) fn copy_some(&mut self, clock: Clock, out: &mut Vec<Effect>) -> bool {
        let idle = self.sh.fetches.is_empty() && self.sh.own_answers.is_empty();
        loop {
            for fetch in std::mem::take(&mut self.sh.fetches) {
                let Fetch { pgid, obj, reqid, wanted } = fetch;
                let work = Work::new(wanted, self.sh.limits.object_size_max);
                self.ask(Job { pgid, obj, reqid, work, tid: 0, asked: clock.mono }, clock, out);
            }
            let answers = std::mem::take(&mut self.sh.own_answers);
            for answer in &answers {
                self.copy_answer(answer, clock, out);
            }
            if answers.is_empty() && self.sh.fetches.is_empty() {
                return !idle;
            }
        }
    }

    /// Questions without an answer are asked again, wherever the object is by now.
    pub(crate) fn copy_tick(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        let late = |job: &Job| clock.mono.since(job.asked) >= PATIENCE;
        let (late, rest) = std::mem::take(&mut self.copying.jobs).into_iter().partition(late);
        self.copying.jobs = rest;
        for job in late {
            let wanted = self.pg_at(job.pgid).is_some_and(|pg| pg.wants_fetched(&job.obj, job.reqid));
            if wanted {
                self.ask(job, clock, out);
            }
        }
        self.copy_some(clock, out);
    }

    fn pg_at(&mut self, pgid: SpgId) -> Option<&mut crate::pg::Pg> {
        let slot = *self.index.get(&pgid)?;
        self.pgs[slot as usize].as_deref_mut()
    }

    /// Sends the next question of a job.
    fn ask(&mut self, mut job: Job, clock: Clock, out: &mut Vec<Effect>) {
        let map = self.sh.map.clone();
        let Some((oid, place, snap)) = job.work.object() else { return self.fetched(job, Err(EIO), clock, out) };
        let by_name;
        let locator = match place {
            Place::Locator(locator) => locator,
            Place::PoolName(name) => match map.pool_by_name(name) {
                Some(pool) => {
                    by_name = ObjectLocator::pool(pool);
                    &by_name
                }
                None => return self.fetched(job, Err(ENOENT), clock, out),
            },
        };
        let Some(raw) = map.object_to_raw_pg(oid.as_slice(), locator) else {
            return self.fetched(job, Err(ENOENT), clock, out);
        };
        let pool = map.pool(raw.pool).expect("its group was just looked up");
        let pgid = SpgId::whole(pool.raw_pg_to_pg(raw));
        let primary = map.pg_primary(pgid.pgid, &mut self.placement);
        let hobj = HObject {
            oid: oid.clone(),
            key: if locator.key == *oid { Default::default() } else { locator.key.clone() },
            snap,
            hash: raw.seed,
            nspace: locator.nspace.clone(),
            pool: raw.pool,
            max: false,
        };
        self.copying.tids += 1;
        (job.tid, job.asked) = (self.copying.tids, clock.mono);
        let msg = MOSDOp {
            tid: job.tid,
            pgid,
            hobj,
            map_epoch: map.epoch,
            flags: job.work.flags() | osd_flag::READ | osd_flag::ACK,
            reqid: ReqId { name: EntityName::osd(self.sh.whoami.into()), tid: job.tid, inc: map.epoch as i32 },
            mtime: UTime::from_wall_ns(clock.wall_ns),
            ops: job.work.ops().into(),
            ..MOSDOp::default()
        };
        self.copying.jobs.push(job);
        if primary == self.sh.whoami {
            self.ask_ourselves(msg, clock, out);
        } else if let Some(addrs) = map.cluster_addrs.get(primary as usize).filter(|_| primary >= 0 && map.is_up(primary)) {
            out.push(Effect::SendOsd { osd: primary, addrs: addrs.clone(), msg: msg.encode(features::SUPPORTED) });
        }
        // With nobody to ask, the next tick looks again.
    }

    fn ask_ourselves(&mut self, msg: MOSDOp, clock: Clock, out: &mut Vec<Effect>) {
        let name = EntityName::osd(self.sh.whoami.into());
        self.sh.sessions.entry(OWN_CONN).or_insert_with(|| {
            let peer = Peer {
                name,
                entity: String::new(),
                global_id: 0,
                features: features::SUPPORTED,
                supported: features::SUPPORTED,
                addr: EntityAddr::default(),
                cap: None,
            };
            Session::new(peer)
        });
        let reqid = msg.reqid;
        let op = ClientOp {
            conn: OWN_CONN,
            msg,
            reqid,
            info: None,
            received: clock.mono,
            bytes_in: 0,
            waits_for: "",
            fetches: None,
            unanswered: None,
            permit: None,
        };
        self.place(Box::new(op), clock, out);
    }

    /// An answer to a question, whoever it is from.
    pub(crate) fn copy_answer(&mut self, raw: &RawMessage, clock: Clock, out: &mut Vec<Effect>) {
        let Some(at) = self.copying.jobs.iter().position(|job| job.tid == raw.tid) else { return };
        let mut job = self.copying.jobs.swap_remove(at);
        let answer = MOSDOpReply::decode(raw).map_err(|_| EIO).and_then(|reply| match reply.result {
            errno if errno < 0 => Err(-errno),
            _ => job.work.take(&reply),
        });
        match answer {
            Ok(None) => self.ask(job, clock, out),
            Ok(Some(got)) => self.fetched(job, Ok(got), clock, out),
            // Asked again by a tick: its group will be ready some time.
            Err(EAGAIN) => self.copying.jobs.push(job),
            Err(errno) => self.fetched(job, Err(errno), clock, out),
        }
    }

    fn fetched(&mut self, job: Job, result: Result<Got, i32>, clock: Clock, out: &mut Vec<Effect>) {
        let Some(slot) = self.index.get(&job.pgid) else { return };
        let pg = self.pgs[*slot as usize].as_mut().expect("the index names groups that are here");
        let result = result.map(|got| (job.work.wanted(), got));
        pg.fetched(&job.obj, job.reqid, result, &mut Cx { sh: &mut self.sh, clock, out });
    }
}
