//! Writes in flight: which members of the acting set each still waits for, and what a new interval makes of them.
//!
//! ```text
//!   submitted ──▶ waiting for {our store, replicas} ── arrived(member, version), each in any order ──▶ waiting for none
//!       │                                                                                               │ and so is all before it
//!       │ a new interval                                                                                ▼
//!       └──────▶ requeued: its request runs again and finds its own entry in the log                 answered, in the order of versions
//! ```
//!
//! The commit of our own store is one arrival like any other. What is in flight belongs to one interval: [`Replication::end_interval`] empties
//! it, so an arrival of an earlier interval finds no write of its version and does nothing (versions begin with the epoch and are never given
//! twice). Holds no transaction, no message and no object; `pg::requests::submit` submits and answers.

use crate::event::ConnId;
use crate::op::WatchEffect;
use crate::request::ClientOp;
use base::Stamp;
use messages::RawMessage;
use smallvec::SmallVec;
use std::collections::VecDeque;
use types::{EVersion, HObject, PgLogEntry, PgShard, ReqId};

/// Members that have not committed a write. Three copies need no allocation.
pub type Members = SmallVec<[PgShard; 3]>;

/// A write that is submitted and not yet answered.
#[derive(Debug)]
pub struct InFlight {
    pub version: EVersion,
    /// Members whose commit has not arrived.
    pub waiting: Members,
    /// The head whose readers wait for this write; `None` for entries that change no object.
    pub obj: Option<HObject>,
    /// The request and its answer; `None` for a write of the group's own.
    pub request: Option<(Box<ClientOp>, RawMessage)>,
    /// What becomes of watches when the write is durable.
    pub effects: Vec<WatchEffect>,
    /// Resends that came meanwhile, each with its answer.
    pub dups: Vec<(Box<ClientOp>, RawMessage)>,
    /// For `dump_ops_in_flight`.
    pub reqid: ReqId,
    pub received: Stamp,
    pub bytes_out: u64,
}

impl InFlight {
    /// A write of these entries, which these members are to commit; for no request.
    pub fn of(log: &[PgLogEntry], waiting: Members) -> Self {
        Self {
            version: log.last().map_or(EVersion::ZERO, |e| e.version),
            waiting,
            obj: None,
            request: None,
            effects: Vec::new(),
            dups: Vec::new(),
            reqid: ReqId::default(),
            received: Stamp(0),
            bytes_out: 0,
        }
    }
    /// A change of our own, made at this time.
    pub fn own(log: &[PgLogEntry], waiting: Members, reqid: ReqId, received: Stamp) -> Self {
        Self { received, reqid, ..Self::of(log, waiting) }
    }
}

/// The answer and effects of a write whose interval ended before it was answered. It travels with the requeued request, and holds only while the
/// log has the request at this very version.
#[derive(Debug)]
pub struct Unanswered {
    pub version: EVersion,
    pub obj: Option<HObject>,
    pub reply: RawMessage,
    pub effects: Vec<WatchEffect>,
    pub bytes_out: u64,
}

/// Every write of the present interval that is not answered, in the order of versions.
#[derive(Debug, Default)]
pub struct Replication {
    /// The number of the first: what members name a write by when they acknowledge it.
    first: u64,
    writes: VecDeque<InFlight>,
    /// Every member has committed what is in the log up to here, and no new interval can undo it.
    settled: EVersion,
    /// What members were told of that, with a write or without one.
    told: EVersion,
}

impl Replication {
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
    pub fn iter(&self) -> impl Iterator<Item = &InFlight> {
        self.writes.iter()
    }
    pub fn last_version(&self) -> Option<EVersion> {
        self.writes.back().map(|write| write.version)
    }
    /// The log ends here, and a write comes behind it. While none is in flight every member of an interval that serves has all of the log.
    pub fn follows(&mut self, last: EVersion) {
        if self.writes.is_empty() {
            self.settled = last;
        }
    }
    /// What every member has committed by now, as of the last [`Replication::follows`].
    pub fn settled(&self) -> EVersion {
        self.settled
    }
    /// A write was given to every member that it waits for.
    pub fn submitted(&mut self, write: InFlight) {
        assert!(!write.waiting.is_empty(), "a write waits for our own store at least");
        assert!(self.writes.back().is_none_or(|last| last.version < write.version), "writes are submitted in the order of versions");
        self.told = self.settled;
        self.writes.push_back(write);
    }
    /// Up to where every member has the log, if nothing is in flight that would tell them, and they were not told before.
    pub fn untold(&mut self) -> Option<EVersion> {
        let is_news = self.writes.is_empty() && self.told < self.settled;
        is_news.then(|| {
            self.told = self.settled;
            self.told
        })
    }
    /// The number of the next write.
    pub fn next_number(&self) -> u64 {
        self.first + self.writes.len() as u64
    }
    /// The version of the write with this number, if it is in flight.
    pub fn version_of(&self, number: u64) -> Option<EVersion> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.writes.get(at).map(|write| write.version)
    }
    /// The write of this version, if it is in flight.
    pub fn get(&mut self, version: EVersion) -> Option<&mut InFlight> {
        let at = self.writes.binary_search_by_key(&version, |write| write.version).ok()?;
        self.writes.get_mut(at)
    }
    /// A member has committed a write. What belongs to an earlier interval, or came before, changes nothing.
    pub fn arrived(&mut self, from: PgShard, version: EVersion) {
        if let Some(write) = self.get(version) {
            write.waiting.retain(|member| *member != from);
        }
    }
    /// The oldest write, if every member has it.
    pub fn next_done(&mut self) -> Option<InFlight> {
        let done = self.writes.pop_front_if(|write| write.waiting.is_empty())?;
        self.first += 1;
        self.settled = done.version;
        Some(done)
    }
    /// The interval is over: nothing is in flight any more. The requests, in order, each with its answer.
    pub fn end_interval(&mut self) -> Vec<Box<ClientOp>> {
        let mut requests = Vec::new();
        self.first += self.writes.len() as u64;
        for InFlight { version, obj, request, effects, dups, bytes_out, .. } in self.writes.drain(..) {
            if let Some((mut op, reply)) = request {
                op.unanswered = Some(Box::new(Unanswered { version, obj, reply, effects, bytes_out }));
                requests.push(op);
            }
            requests.extend(dups.into_iter().map(|(op, _)| op));
        }
        requests
    }
    /// A connection is gone: resends that came over it need no answer.
    pub fn reset(&mut self, conn: ConnId) {
        self.writes.iter_mut().filter(|w| !w.dups.is_empty()).for_each(|w| w.dups.retain(|(op, _)| op.conn != conn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    fn write(version: u64, members: &[PgShard]) -> InFlight {
        InFlight { version: EVersion::new(3, version), ..InFlight::of(&[], members.into()) }
    }

    #[test]
    fn arrivals_in_any_order_answer_in_the_order_of_versions() {
        let members: Vec<PgShard> = (0..3).map(PgShard::whole).collect();
        for seed in 0..200 {
            let (mut rng, mut all, mut next) = (Rng::new(seed), Replication::default(), 1);
            let mut arrivals: Vec<(PgShard, u64)> = Vec::new();
            for version in 1..=20 {
                all.submitted(write(version, &members));
                arrivals.extend(members.iter().map(|m| (*m, version)));
            }
            // Some come twice.
            arrivals.extend_from_within(..10);
            while !arrivals.is_empty() {
                let (from, version) = arrivals.swap_remove(rng.below(arrivals.len() as u64) as usize);
                all.arrived(from, EVersion::new(3, version));
                while let Some(done) = all.next_done() {
                    assert_eq!(done.version.version, next);
                    next += 1;
                }
            }
            assert_eq!(next, 21);
        }
    }

    #[test]
    fn a_write_waits_for_every_member_and_for_what_is_before_it() {
        let (a, b) = (PgShard::whole(0), PgShard::whole(1));
        let mut all = Replication::default();
        all.submitted(write(1, &[a, b]));
        all.submitted(write(2, &[a, b]));
        for (from, version, done) in [(a, 1, None), (a, 1, None), (a, 2, None), (b, 2, None), (b, 1, Some(1))] {
            all.arrived(from, EVersion::new(3, version));
            assert_eq!(all.next_done().map(|w| w.version.version), done);
        }
        assert_eq!(all.next_done().map(|w| w.version.version), Some(2));
    }

    #[test]
    fn an_arrival_of_an_earlier_interval_changes_nothing() {
        let a = PgShard::whole(0);
        let mut all = Replication::default();
        all.submitted(write(7, &[a]));
        assert!(all.end_interval().is_empty() && all.is_empty());
        all.submitted(InFlight { version: EVersion::new(4, 7), ..write(7, &[a]) });
        all.arrived(a, EVersion::new(3, 7));
        assert!(all.next_done().is_none());
        all.arrived(a, EVersion::new(4, 7));
        assert!(all.next_done().is_some());
    }
}
