//! Three stock OSDs of 20.2 in peering, recovery, backfill and scrub, and ours in the place of each in turn: as a member that follows, as
//! one that is filled, and as the one that leads. It hears the stock OSD's messages, and its own are held beside the recorded ones.
//!
//! `fixtures/osd-core/README.md` says where the conversation is from. The member that leads asks, so the recorded answers wait until their
//! questions have come, and bear the numbers of ours.

use crate::conversation::{self, Said};
use crate::replay::{Player, To};
use crate::world::parts::client;
use denc::{ByteStr, Denc};
use messages::osd_peering::query_kind;
use messages::osd_recovery::PushOp;
use messages::osd_replica::scrub_reserve;
use messages::*;
use osd_core::{ConnId, Event};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use types::{HObject, ObjectInfo, OsdId, PgShard, ScrubMap, UTime, features};

// Senders and receivers; a smaller number is an OSD's.
const MONITOR: u8 = 8;
const CLIENT: u8 = 9;
const MANAGER: u8 = 10;
const CONN: ConnId = ConnId(1);
/// The client's number in the recording: requests bear it.
const CLIENT_ID: i64 = 4133;

/// As in the recording: an empty OSD is filled, and one that was away is recovered by the log.
const SHORT_LOG: [(&str, &str); 3] = [("osd_pg_log_trim_min", "1"), ("osd_min_pg_log_entries", "16"), ("osd_max_pg_log_entries", "16")];

fn from(s: &Said) -> u8 {
    s.who >> 4
}
fn to(s: &Said) -> u8 {
    s.who & 15
}

fn copied(s: &Said) -> Said {
    Said { who: s.who, at_ms: s.at_ms, raw: s.raw.clone() }
}
fn is_same_kind(a: &Said, b: &Said) -> bool {
    from(a) == from(b) && a.raw.kind == b.raw.kind
}

/// An OSD of ours in the place of a stock one, and all that this one heard and said.
struct Place {
    me: u8,
    said: Vec<Said>,
    player: Player,
    /// How much later than in the recording everything is: ours had answers to wait for.
    late_ms: u64,
    /// Words of ours that [`Place::answer_ours_alone`] has seen.
    answered_alone: usize,
}

impl Place {
    fn of(me: u8) -> Self {
        let all = conversation::read("osd-core/peers-20.2.4.msgs");
        let said: Vec<Said> = all.into_iter().filter(|s| from(s) == me || to(s) == me).collect();
        let mut player = Player::boot_in_place_of(me.into(), &said, &SHORT_LOG);
        player.hear(0, Event::Connected { conn: CONN, peer: client(CLIENT_ID) });
        player.others_answer(&[0, 1, 2].map(OsdId::from));
        Self { me, said, player, late_ms: 0, answered_alone: 0 }
    }
    fn hear(&mut self, s: &Said) {
        let at_ms = s.at_ms + self.late_ms;
        self.player.tick_until(at_ms);
        let event = match from(s) {
            MONITOR => self.player.of_monitor(&s.raw, &[MOSDPGCreate2::KIND]),
            CLIENT => Some(Event::Message { conn: CONN, msg: s.raw.clone() }),
            MANAGER => Some(Event::Mgr(s.raw.clone())),
            osd => Some(Event::Osd { osd: osd.into(), msg: s.raw.clone() }),
        };
        if let Some(event) = event {
            self.player.hear(at_ms, event);
        }
    }
    fn heard(&self) -> Vec<Said> {
        self.said.iter().filter(|s| to(s) == self.me).map(copied).collect()
    }
    /// All messages of a kind that ours sent there, and those of the stock one.
    fn both<M: Message>(&self, whom: u8) -> [Vec<M>; 2] {
        let read = |raw: &RawMessage| M::decode(raw).unwrap();
        let is_to = |to: &To| match to {
            To::Osd(osd) => *osd == OsdId::from(whom),
            To::Client => whom == CLIENT,
            To::Monitor => whom == MONITOR,
            To::Manager => false,
        };
        let told = self.player.told.iter().filter(|(_, to, raw)| is_to(to) && raw.kind == M::KIND);
        let said = self.said.iter().filter(|s| from(s) == self.me && to(s) == whom && s.raw.kind == M::KIND);
        [told.map(|(_, _, raw)| read(raw)).collect(), said.map(|s| read(&s.raw)).collect()]
    }
    /// An error unless what ours said, reduced to what counts, is what the stock one said, and there is some.
    fn same<M: Message, T: PartialEq + Debug>(&self, whom: u8, what: &str, counts: impl Fn(Vec<M>) -> Vec<T>) {
        let [ours, theirs] = self.both::<M>(whom).map(counts);
        assert!(!theirs.is_empty(), "the recording has no {what}");
        assert_eq!(ours, theirs, "{what}");
    }
    /// The OSD's only group is whole at the end.
    fn is_well(&self) {
        let newest =
            self.said.iter().filter(|s| to(s) == self.me && s.raw.kind == MOSDMap::KIND).map(|s| MOSDMap::decode(&s.raw).unwrap().newest);
        assert_eq!(Some(self.player.osd.map().epoch), newest.max());
        assert!(self.player.osd.is_up());
    }
}

/// The object as a push makes it. The object's record is read: 20.2 writes fields behind ours. Each OSD has its own time of a write.
fn made(push: &PushOp) -> (HObject, String) {
    let mut attrs = push.attrs.clone();
    let record = attrs.remove(&ByteStr::from("_")).map(|record| ObjectInfo::from_bytes(&record).unwrap());
    let record = record.map(|record| ObjectInfo { local_mtime: UTime::ZERO, ..record });
    let what = (&push.version, &push.data, &push.data_included, record, attrs, &push.omap_header, &push.omap_entries);
    (push.soid.clone(), format!("{what:?}"))
}
fn pushed(messages: Vec<MOSDPGPush>) -> Vec<(HObject, String)> {
    let all: BTreeSet<_> = messages.iter().flat_map(|m| &m.pushes).map(made).collect();
    all.into_iter().collect()
}
fn acknowledged(messages: Vec<MOSDPGPushReply>) -> Vec<HObject> {
    let all: BTreeSet<_> = messages.into_iter().flat_map(|m| m.replies).map(|reply| reply.soid).collect();
    all.into_iter().collect()
}
/// Sizes, checksums and attributes of all copies, by scrub.
fn scrubbed(messages: Vec<MOSDRepScrubMap>) -> Vec<String> {
    messages.iter().map(|m| format!("{:?}", ScrubMap::from_bytes(&m.data).unwrap().objects)).collect()
}
fn committed(messages: Vec<MOSDRepOpReply>) -> Vec<(u64, i32)> {
    messages.into_iter().map(|m| (m.tid, m.result)).collect()
}
fn answered(messages: Vec<MOSDOpReply>) -> Vec<(u64, i32, u64)> {
    messages.into_iter().map(|m| (m.tid, m.result, m.user_version)).collect()
}

/// It follows, misses writes, is recovered, leads alone, follows again and gives what the other one missed.
#[test]
fn in_the_place_of_one_that_follows() {
    let mut p = Place::of(1);
    for s in p.heard() {
        p.hear(&s);
    }
    p.is_well();
    p.same(0, "writes that are durable", committed);
    p.same(0, "objects that were recovered to it", acknowledged);
    p.same(0, "objects that it gave", pushed);
    p.same(0, "copies as a scrub finds them", scrubbed);
    p.same(CLIENT, "answers while it led alone", answered);
    p.same(0, "what it had when it was asked", |m: Vec<MOSDPGNotify2>| {
        let mut all: Vec<_> = m.into_iter().map(|m| (m.notify.info.last_update, m.notify.info.last_backfill)).collect();
        all.dedup();
        all
    });
}

/// An empty one is filled, takes a write, and is scrubbed.
#[test]
fn in_the_place_of_one_that_is_filled() {
    let mut p = Place::of(2);
    for s in p.heard() {
        p.hear(&s);
    }
    p.is_well();
    p.same(0, "objects that it was filled with", acknowledged);
    p.same(0, "copies as scrubs find them", scrubbed);
    p.same(0, "writes that are durable", committed);
}

/// True for what an answer of that kind answers to, if it is one.
fn is_question(answer: u16, raw: &RawMessage) -> bool {
    match answer {
        MOSDRepOpReply::KIND => raw.kind == MOSDRepOp::KIND,
        MOSDPGPushReply::KIND => raw.kind == MOSDPGPush::KIND,
        MOSDPGPush::KIND => raw.kind == MOSDPGPull::KIND,
        MOSDPGRecoveryDeleteReply::KIND => raw.kind == MOSDPGRecoveryDelete::KIND,
        MOSDRepScrubMap::KIND => raw.kind == MOSDRepScrub::KIND,
        MOSDPGScan::KIND | MOSDPGBackfill::KIND | MOSDScrubReserve::KIND | MRecoveryReserve::KIND | MBackfillReserve::KIND => {
            raw.kind == answer
        }
        MOSDPGLog::KIND => raw.kind == MOSDPGQuery2::KIND && MOSDPGQuery2::decode(raw).unwrap().query.kind != query_kind::INFO,
        _ => false,
    }
}

/// How many questions were answered, by OSD and kind of the answer.
type Answered = BTreeMap<(u8, u16), usize>;

impl Place {
    /// How many questions the stock OSD had asked there, before the message of this place in the recording, that such an answer is for.
    fn asked_before(&self, at: usize, answer: &Said) -> usize {
        let asked = |s: &&Said| from(s) == self.me && to(s) == from(answer) && is_question(answer.raw.kind, &s.raw);
        self.said[..at].iter().filter(asked).count()
    }
    /// The recorded answer as one to the next question of ours of its kind; `None` while there is no such question.
    fn answer(&self, s: &Said, so_far: &Answered) -> Option<RawMessage> {
        let nth = so_far.get(&(from(s), s.raw.kind)).copied().unwrap_or(0);
        let is_asked = |(_, to, raw): &&(u64, To, RawMessage)| *to == To::Osd(from(s).into()) && is_question(s.raw.kind, raw);
        let (_, _, asked) = self.player.told.iter().filter(is_asked).nth(nth)?;
        Some(match s.raw.kind {
            MOSDRepOpReply::KIND => RawMessage { tid: asked.tid, ..s.raw.clone() },
            // Which object goes first is the primary's choice.
            MOSDPGPushReply::KIND => {
                let replies = MOSDPGPush::decode(asked).unwrap().pushes.into_iter().map(|push| PushReplyOp { soid: push.soid }).collect();
                MOSDPGPushReply { replies, ..MOSDPGPushReply::decode(&s.raw).unwrap() }.encode(features::SUPPORTED)
            }
            _ => s.raw.clone(),
        })
    }
    /// The lease that an OSD was told last, before this word of ours.
    fn lease_told(&self, osd: u8, before: usize) -> Option<PgLease> {
        let lease = |raw: &RawMessage| match raw.kind {
            MOSDPGLease::KIND => Some(MOSDPGLease::decode(raw).unwrap().lease),
            MOSDPGLog::KIND => MOSDPGLog::decode(raw).unwrap().lease,
            MOSDPGInfo2::KIND => MOSDPGInfo2::decode(raw).unwrap().lease,
            _ => None,
        };
        let told = self.player.told[..before].iter().rev().filter(|(_, to, _)| *to == To::Osd(osd.into()));
        told.filter_map(|(_, _, raw)| lease(raw)).next()
    }
    /// Answers without a place in the recording. A lease is by the clock of the OSD that leads, so those of ours are acknowledged. A stock
    /// OSD takes no slots for scrubs that an operator asks for, ours does.
    fn answer_ours_alone(&mut self) {
        while self.answered_alone < self.player.told.len() {
            let (at_ms, to, raw) = &self.player.told[self.answered_alone];
            self.answered_alone += 1;
            let (To::Osd(osd), at_ms) = (*to, *at_ms) else { continue };
            let msg = match raw.kind {
                MOSDPGLease::KIND => {
                    let m = MOSDPGLease::decode(raw).unwrap();
                    let ack = PgLeaseAck { readable_until_ub: m.lease.readable_until_ub };
                    MOSDPGLeaseAck { epoch: m.epoch, pgid: m.pgid, ack }.encode(features::SUPPORTED)
                }
                MOSDScrubReserve::KIND => match MOSDScrubReserve::decode(raw).unwrap() {
                    m if m.kind == scrub_reserve::REQUEST => {
                        let grant = MOSDScrubReserve { kind: scrub_reserve::GRANT, from: PgShard::whole(osd), ..m };
                        grant.encode(features::SUPPORTED)
                    }
                    _ => continue,
                },
                _ => continue,
            };
            self.player.hear(at_ms, Event::Osd { osd, msg });
        }
    }
    /// The word as it is said to ours; `None`: another one is said in its place.
    fn with_our_lease(&self, s: Said) -> Option<Said> {
        match s.raw.kind {
            MOSDPGLeaseAck::KIND => None,
            MOSDPGInfo2::KIND => {
                let mut m = MOSDPGInfo2::decode(&s.raw).unwrap();
                let told = self.lease_told(from(&s), self.player.told.len());
                m.lease_ack = m.lease_ack.and(told).map(|lease| PgLeaseAck { readable_until_ub: lease.readable_until_ub });
                Some(Said { raw: m.encode(features::SUPPORTED), ..s })
            }
            _ => Some(s),
        }
    }
    /// Says the answers that wait and whose questions have come.
    fn answer_all(&mut self, waiting: &mut Vec<Said>, so_far: &mut Answered) {
        loop {
            self.answer_ours_alone();
            let found = waiting.iter().enumerate().find_map(|(n, s)| Some((n, self.answer(s, so_far)?)));
            let Some((n, raw)) = found else { return };
            let s = waiting.remove(n);
            *so_far.entry((from(&s), s.raw.kind)).or_default() += 1;
            self.hear(&Said { raw, ..s });
        }
    }
}

/// It leads: brings a member up to date that missed writes, fetches what it missed itself, fills an empty one, and scrubs.
#[test]
fn in_the_place_of_one_that_leads() {
    let mut p = Place::of(0);
    let (mut waiting, mut so_far) = (Vec::new(), Answered::new());
    for at in 0..p.said.len() {
        let s = copied(&p.said[at]);
        if to(&s) != p.me {
            continue;
        }
        let due = so_far.get(&(from(&s), s.raw.kind)).copied().unwrap_or(0) + waiting.iter().filter(|w| is_same_kind(w, &s)).count();
        if from(&s) < MONITOR && p.asked_before(at, &s) > due {
            waiting.push(s);
            p.answer_all(&mut waiting, &mut so_far);
            continue;
        }
        // The next step of the recording comes when ours is as far as the stock one was.
        let is_step = from(&s) >= MONITOR || s.raw.kind == MOSDMap::KIND;
        for _ in 0..30 {
            p.answer_all(&mut waiting, &mut so_far);
            if waiting.is_empty() || !is_step {
                break;
            }
            p.late_ms += 1000;
            p.player.tick_until(s.at_ms + p.late_ms);
        }
        let left: Vec<String> = waiting.iter().map(|s| format!("{} of osd.{}", kind_name(s.raw.kind), from(s))).collect();
        assert!(left.is_empty() || !is_step, "at {} ms answers have no questions: {left:?}", s.at_ms);
        if let Some(s) = p.with_our_lease(s) {
            p.hear(&s);
        }
    }
    p.is_well();
    p.same(CLIENT, "answers", answered);
    for member in [1, 2] {
        p.same(member, "objects that it gave", pushed);
    }
    p.same(1, "writes", |m: Vec<MOSDRepOp>| m.into_iter().map(|m| m.version).collect());
}
