//! Requests on objects: where they go, when they wait, when they are sent again.
//!
//! A request is sent to the primary of its object's placement group as the newest map has it, under a number that stays the same however
//! often it is sent; a read that may be balanced, to any member, and to the primary once a replica has said that it can't answer. It is sent again when the connection to the OSD is lost, when the placement group's interval changes, splits or
//! merges, when the pool asks for it, and when what it waited for (a pause, a full pool, a backoff, a missing primary) is over.
//!
//! Source of the facts: Ceph 18.2 `src/osdc/Objecter.{h,cc}` (behaviour only).

mod linger;
mod session;
mod target;
#[cfg(test)]
mod tests;

pub use linger::{LingerEvent, WatchState};
pub use target::PgTarget;

use crate::ops::Ops;
use crate::planted::{Bug, planted};
use base::Clock;
use denc::Denc;
use linger::Lingers;
use maps::{Incremental, OsdMap, map_flags, pool_flags};
use messages::osd_client::{InOp, OutOp, backoff_op};
use messages::{MOSDBackoff, MOSDMap, MOSDOp, MOSDOpReply, Message, RawMessage};
use session::Session;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;
use target::Targets;
use types::osd_op::osd_flag;
use types::{
    ByteStr, CEPH_NOSNAP, EVersion, EntityAddrVec, Epoch, HObject, ObjectLocator, OsdId, PgId, SnapContext, SnapId, UTime, errno, features,
};

/// A request as it is handed in.
#[derive(Debug, Clone)]
pub struct Submit {
    pub locator: ObjectLocator,
    pub oid: ByteStr,
    pub ops: Ops,
    /// What to read; [`CEPH_NOSNAP`] is the head.
    pub snap: SnapId,
    pub snapc: SnapContext,
    /// Further [`osd_flag`]s.
    pub flags: u32,
    /// Handed back with the reply.
    pub user: u64,
    linger: Option<u64>,
    /// A placement group outright, for listing.
    pg: Option<PgId>,
}

impl Submit {
    pub fn new(locator: ObjectLocator, oid: ByteStr, ops: Ops) -> Self {
        Self { locator, oid, ops, snap: CEPH_NOSNAP, snapc: SnapContext::default(), flags: 0, user: 0, linger: None, pg: None }
    }
    /// A request on a placement group.
    pub fn on_pg(pg: PgId, nspace: ByteStr, ops: Ops) -> Self {
        let locator = ObjectLocator { pool: pg.pool, nspace, hash: pg.seed.into(), ..ObjectLocator::default() };
        Self { pg: Some(pg), ..Self::new(locator, ByteStr::new(), ops) }
    }
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// 0, a positive result, or a negative errno.
    pub result: i32,
    pub version: EVersion,
    pub user_version: u64,
    pub ops: SmallVec<[OutOp; 2]>,
}

/// What the shell is to do, or the caller is to hear.
#[derive(Debug)]
pub enum Effect {
    /// Dial this OSD, lossy, unless there is a connection to it.
    Open {
        osd: OsdId,
        addrs: EntityAddrVec,
    },
    /// The OSD is gone or elsewhere: close the connection.
    Close {
        osd: OsdId,
    },
    Send {
        osd: OsdId,
        message: RawMessage,
    },
    Done {
        tid: u64,
        user: u64,
        reply: Reply,
    },
    Linger {
        cookie: u64,
        event: LingerEvent,
    },
    /// The map is of this epoch now: to be told to the monitor client as what we have of `osdmap`.
    Map(Epoch),
    /// Maps are missing in between: subscribe to `osdmap` anew from this epoch on (0: a whole map).
    WantMap(Epoch),
    /// A pool may be newer than our map: ask the monitor for the newest epoch and call [`Objecter::on_newest`].
    WantNewest,
}

/// Why a request is not at an OSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Sent, and not answered yet.
    Sent,
    /// No map, no primary, paused, full or held back.
    Waiting,
    /// Its pool is not in the map.
    NoPool,
}

#[derive(Debug)]
struct Op {
    submit: Submit,
    hobj: HObject,
    target: Option<Rc<PgTarget>>,
    /// Where it was sent: the target's primary, or another member.
    osd: OsdId,
    place: Place,
    /// How often it was sent.
    attempts: u32,
    mtime: UTime,
}

/// See the module.
#[derive(Default)]
pub struct Objecter {
    map: Option<Rc<OsdMap>>,
    targets: Targets,
    ops: BTreeMap<u64, Op>,
    last_tid: u64,
    sessions: BTreeMap<OsdId, Session>,
    lingers: Lingers,
    /// Places of watches when they were last registered.
    linger_targets: BTreeMap<u64, Rc<PgTarget>>,
    client_inc: u32,
    asked_newest: bool,
}

impl Objecter {
    /// `client_inc` tells incarnations of one client number apart: 0 for clients.
    pub fn new(client_inc: u32) -> Self {
        Self { client_inc, ..Self::default() }
    }
    pub fn map(&self) -> Option<&Rc<OsdMap>> {
        self.map.as_ref()
    }
    pub fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(0, |m| m.epoch)
    }
    /// Requests without an answer.
    pub fn in_flight(&self) -> usize {
        self.ops.len()
    }

    /// Takes a request; its number is returned, and [`Effect::Done`] will bear it.
    pub fn submit(&mut self, submit: Submit, clock: Clock, out: &mut Vec<Effect>) -> u64 {
        self.last_tid += 1;
        let tid = self.last_tid;
        let loc = &submit.locator;
        let hobj = HObject {
            oid: submit.oid.clone(),
            // A key that is the name is none.
            key: if loc.key == submit.oid { ByteStr::new() } else { loc.key.clone() },
            snap: submit.snap,
            hash: submit.pg.map_or(0, |pg| pg.seed),
            nspace: loc.nspace.clone(),
            pool: loc.pool,
            max: false,
        };
        let mtime = UTime::from_wall_ns(clock.wall_ns);
        let op = Op { submit, hobj, target: None, osd: -1, place: Place::Waiting, attempts: 0, mtime };
        self.ops.insert(tid, op);
        self.place(tid, out);
        tid
    }
    /// Forgets a request. The OSD may carry it out all the same.
    pub fn cancel(&mut self, tid: u64) -> bool {
        self.ops.remove(&tid).is_some()
    }

    /// Looks where a request belongs and sends it there if nothing holds it.
    fn place(&mut self, tid: u64, out: &mut Vec<Effect>) {
        let Some(op) = self.ops.get_mut(&tid) else { return };
        op.place = Place::Waiting;
        let Some(map) = &self.map else { return };
        let Some(target) = aim(op, map, &mut self.targets) else {
            op.place = Place::NoPool;
            if !std::mem::replace(&mut self.asked_newest, true) {
                out.push(Effect::WantNewest);
            }
            return;
        };
        if let Some(cookie) = op.submit.linger {
            self.linger_targets.insert(cookie, target.clone());
        }
        let osd = addressee(tid, op, &target, map);
        (op.target, op.osd) = (Some(target.clone()), osd);
        if osd < 0 || is_paused(op, map) {
            return;
        }
        if let Some(session) = self.sessions.get(&osd) {
            if session.holds(target.spgid, &op.hobj) {
                return;
            }
        } else {
            self.sessions.insert(osd, Session::default());
            out.push(Effect::Open { osd, addrs: map.client_addrs.get(osd as usize).cloned().unwrap_or_default() });
        }
        op.place = Place::Sent;
        op.attempts += 1;
        out.push(Effect::Send { osd, message: message(tid, op, &target, map.epoch, self.client_inc) });
    }

    /// A message of an OSD. False: it is for another.
    pub fn on_message(&mut self, osd: OsdId, raw: &RawMessage, clock: Clock, out: &mut Vec<Effect>) -> bool {
        match raw.kind {
            MOSDOpReply::KIND => {
                if let Ok(reply) = MOSDOpReply::decode(raw) {
                    self.on_reply(osd, reply, out);
                }
            }
            MOSDBackoff::KIND => {
                if let Ok(m) = MOSDBackoff::decode(raw) {
                    self.on_backoff(osd, &m, out);
                }
            }
            messages::MWatchNotify::KIND => {
                if let Ok(m) = messages::MWatchNotify::decode(raw) {
                    self.on_watch_notify(m, out);
                }
            }
            MOSDMap::KIND => self.on_map_message(raw, clock, out),
            _ => return false,
        }
        true
    }
    fn on_reply(&mut self, osd: OsdId, m: MOSDOpReply, out: &mut Vec<Effect>) {
        let Some(op) = self.ops.get_mut(&m.tid) else { return };
        // Answers to attempts that were given up, from whomever, are stale.
        let current = m.attempt < 0 || m.attempt as u32 + 1 == op.attempts;
        if op.place != Place::Sent || !current || op.osd != osd {
            return;
        }
        if m.result == -errno::EAGAIN {
            // A replica that can't serve a read: the primary can.
            op.submit.flags &= !(osd_flag::BALANCE_READS | osd_flag::LOCALIZE_READS);
            return self.place(m.tid, out);
        }
        let Some(op) = self.ops.remove(&m.tid) else { return };
        if let Some(cookie) = op.submit.linger {
            let data = m.ops.first().map(|o| &o.outdata);
            self.linger_reply(cookie, m.tid, m.result, data, out);
            return;
        }
        let reply = Reply { result: m.result, version: m.replay_version, user_version: m.user_version, ops: m.ops };
        out.push(Effect::Done { tid: m.tid, user: op.submit.user, reply });
    }
    fn on_backoff(&mut self, osd: OsdId, m: &MOSDBackoff, out: &mut Vec<Effect>) {
        let Some(session) = self.sessions.get_mut(&osd) else { return };
        match m.op {
            backoff_op::BLOCK => {
                session.block(m);
                let ack = MOSDBackoff { op: backoff_op::ACK_BLOCK, map_epoch: self.epoch(), ..m.clone() };
                out.push(Effect::Send { osd, message: ack.encode(features::SUPPORTED) });
                // The OSD has dropped what it held of this range.
                for op in self.ops.values_mut() {
                    if op.osd == osd && op.target.as_ref().is_some_and(|t| self.sessions[&osd].holds(t.spgid, &op.hobj)) {
                        op.place = Place::Waiting;
                    }
                }
            }
            backoff_op::UNBLOCK if session.unblock(m.id) => self.replace_waiting(out),
            _ => {}
        }
    }
    /// Tries all that wait, in the order in which they came.
    fn replace_waiting(&mut self, out: &mut Vec<Effect>) {
        let waiting: Vec<u64> = self.ops.iter().filter(|(_, op)| op.place != Place::Sent).map(|(tid, _)| *tid).collect();
        for tid in waiting {
            self.place(tid, out);
        }
    }

    /// The connection to an OSD is lost: its requests and watches are sent again over a new one.
    pub fn on_reset(&mut self, osd: OsdId, clock: Clock, out: &mut Vec<Effect>) {
        self.sessions.remove(&osd);
        let lost: Vec<u64> = self.ops.iter().filter(|(_, op)| op.submit.linger.is_none() && op.osd == osd).map(|(tid, _)| *tid).collect();
        for tid in lost {
            self.place(tid, out);
        }
        let watches = self.linger_targets.iter().filter(|(_, t)| t.acting_primary == osd).map(|(c, _)| *c).collect();
        self.relinger(watches, clock, out);
    }

    /// The newest epoch of the monitor: what is in no pool of it fails.
    pub fn on_newest(&mut self, newest: Epoch, out: &mut Vec<Effect>) {
        self.asked_newest = false;
        if self.epoch() < newest {
            return;
        }
        let lost: Vec<u64> = self.ops.iter().filter(|(_, op)| op.place == Place::NoPool).map(|(tid, _)| *tid).collect();
        for tid in lost {
            let Some(op) = self.ops.remove(&tid) else { continue };
            match op.submit.linger {
                Some(cookie) => self.linger_reply(cookie, tid, -errno::ENOENT, None, out),
                None => {
                    let reply = Reply { result: -errno::ENOENT, ..Reply::default() };
                    out.push(Effect::Done { tid, user: op.submit.user, reply });
                }
            }
        }
    }

    /// Maps from the monitor or an OSD.
    pub fn on_map_message(&mut self, raw: &RawMessage, clock: Clock, out: &mut Vec<Effect>) {
        let Ok(m) = MOSDMap::decode(raw) else { return };
        let Some((first, last)) = m.range() else { return };
        if last <= self.epoch() {
            return;
        }
        // One epoch after the other: an OSD that was down in one of them and is up again in the last has dropped what it held.
        while self.epoch() < last {
            let (epoch, next) = (self.epoch(), self.epoch() + 1);
            if let (Some(old), Some(inc)) = (&self.map, m.incrementals.get(&next)) {
                let mut map = (**old).clone();
                if Incremental::from_bytes(inc).ok().is_none_or(|inc| map.apply(&inc).is_err()) {
                    out.push(Effect::WantMap(0));
                    return;
                }
                self.set_map(Rc::new(map), clock, out);
            } else if let Some((at, full)) = m.maps.range(next..).next_back() {
                let Ok(full) = OsdMap::from_bytes(full) else { return };
                let skips = epoch > 0 && *at > next && !planted(Bug::IgnoreGap);
                self.take_map(Rc::new(full), skips, clock, out);
            } else {
                // A gap: what is before `first` has to come, or a whole map.
                out.push(Effect::WantMap(if self.map.is_some() && first > next { next } else { 0 }));
                return;
            }
        }
    }
    /// A newer map: the next, the first, or one behind a gap.
    pub fn set_map(&mut self, map: Rc<OsdMap>, clock: Clock, out: &mut Vec<Effect>) {
        let skips = self.map.is_some() && map.epoch > self.epoch() + 1;
        self.take_map(map, skips, clock, out);
    }
    /// A newer map. `skips`: what was between is not known, so every request may have been dropped, and goes out again.
    fn take_map(&mut self, map: Rc<OsdMap>, skips: bool, clock: Clock, out: &mut Vec<Effect>) {
        let old = self.map.replace(map.clone());
        self.targets.clear();
        self.asked_newest = false;
        out.push(Effect::Map(map.epoch));
        // OSDs that are gone, or have come back elsewhere: their sessions are over.
        let gone: Vec<OsdId> = self
            .sessions
            .keys()
            .copied()
            .filter(|osd| {
                let was = old.as_ref().and_then(|m| m.client_addrs.get(*osd as usize));
                !map.is_up(*osd) || map.client_addrs.get(*osd as usize) != was
            })
            .collect();
        for osd in &gone {
            self.sessions.remove(osd);
            out.push(Effect::Close { osd: *osd });
        }
        let mut again = Vec::new();
        for (tid, op) in &mut self.ops {
            let now = aim(op, &map, &mut self.targets);
            let moved = match (&now, &op.target) {
                (Some(now), Some(was)) => now != was || gone.contains(&op.osd),
                (now, was) => now.is_some() != was.is_some(),
            };
            // One that was sent and is paused now stays with its OSD, which will answer; but an OSD that is full drops writes without a
            // word, and expects them again when there is room.
            let has_room_again = old.as_ref().is_some_and(|old| is_too_full(op, old)) && !is_too_full(op, &map);
            if op.place != Place::Sent || (moved || skips || has_room_again) && op.submit.linger.is_none() {
                again.push(*tid);
            }
        }
        let mut moved = Vec::new();
        for (cookie, locator, oid) in self.linger_places() {
            let now = map.object_to_raw_pg(oid.as_slice(), &locator).and_then(|pg| self.targets.get(&map, pg));
            let was = self.linger_targets.get(&cookie);
            if skips || now.as_ref() != was || was.is_none_or(|t| gone.contains(&t.acting_primary)) {
                moved.push(cookie);
            }
        }
        self.linger_targets.retain(|cookie, _| self.lingers.by_cookie.contains_key(cookie));
        self.relinger(moved, clock, out);
        for tid in again {
            self.place(tid, out);
        }
    }
    /// Time passes: to be called every second or so.
    pub fn tick(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        self.ping_lingers(clock, out);
    }
    /// The placement group of an object in the present map.
    pub fn pg_of(&self, oid: &[u8], locator: &ObjectLocator) -> Option<PgId> {
        self.map.as_ref()?.object_to_pg(oid, locator)
    }
}

/// Where a request belongs in `map`; None if its pool is not there.
fn aim(op: &mut Op, map: &OsdMap, targets: &mut Targets) -> Option<Rc<PgTarget>> {
    let raw = match op.submit.pg {
        Some(pg) => pg,
        None => map.object_to_raw_pg(op.submit.oid.as_slice(), &op.submit.locator)?,
    };
    op.hobj.hash = raw.seed;
    targets.get(map, raw)
}

/// The member that a request is sent to: for a read that may be balanced one that its number chooses, among those of a replicated group.
fn addressee(tid: u64, op: &Op, target: &PgTarget, map: &OsdMap) -> OsdId {
    let flags = op.submit.ops.flags | op.submit.flags;
    let is_balanced = flags & osd_flag::BALANCE_READS != 0 && flags & osd_flag::WRITE == 0;
    if !is_balanced || target.acting_primary < 0 || target.acting.is_empty() || target.spgid.shard >= 0 {
        return target.acting_primary;
    }
    // Numbers that follow each other go to members in no order.
    let at = (tid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % target.acting.len();
    let osd = target.acting[at];
    if map.is_up(osd) { osd } else { target.acting_primary }
}

/// True if the cluster or the pool takes no such requests now.
fn is_paused(op: &Op, map: &OsdMap) -> bool {
    let flags = op.submit.ops.flags | op.submit.flags;
    let write = flags & osd_flag::WRITE != 0;
    !write && map.has_flag(map_flags::PAUSERD) || write && map.has_flag(map_flags::PAUSEWR) || is_too_full(op, map)
}
/// True if a request writes, and the cluster or its pool is too full for that.
fn is_too_full(op: &Op, map: &OsdMap) -> bool {
    let flags = op.submit.ops.flags | op.submit.flags;
    let pool = map.pool(op.submit.locator.pool);
    let full = map.has_flag(map_flags::FULL) || pool.is_some_and(|p| p.has(pool_flags::FULL));
    full && flags & osd_flag::WRITE != 0 && flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) == 0
}

fn message(tid: u64, op: &Op, target: &PgTarget, map_epoch: Epoch, client_inc: u32) -> RawMessage {
    let ops: SmallVec<[InOp; 2]> = op.submit.ops.ops.clone();
    let flags = op.submit.ops.flags | op.submit.flags | osd_flag::ONDISK | osd_flag::KNOWN_REDIR | osd_flag::SUPPORTSPOOLEIO;
    let attempt = op.attempts as i32 - 1;
    MOSDOp {
        tid,
        pgid: target.spgid,
        hobj: op.hobj.clone(),
        map_epoch,
        flags: if attempt > 0 { flags | osd_flag::RETRY } else { flags },
        client_inc,
        mtime: op.mtime,
        ops,
        snapc: op.submit.snapc.clone(),
        attempt,
        features: features::SUPPORTED,
        ..MOSDOp::default()
    }
    .encode(features::SUPPORTED)
}
