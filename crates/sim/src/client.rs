//! A client's process: [`Objecter`] and [`MonClient`], the glue of crate `client` as a model, and work by chance on a few objects.

mod aside;

use crate::MS;
use crate::SEC;
use crate::history::History;
use crate::model::{GUARD, Object, Op, Outcome, SIGNATURES};
use crate::monitor::{Who, fsid, mon_addr};
use crate::net::{Life, LinkId, Net, Port, Proc, What};
use crate::plan::Plan;
use base::Rng;
use bytes::Bytes;
use cephx::Identity;
use messages::{MPoolOp, RawMessage, pool_op};
use objecter::monc::{Answer, Effect as MonEffect, Request};
use objecter::objecter::{Effect, LingerEvent, Reply, Submit};
use objecter::ops::{Ops, pairs_of, stat_of, vals_of};
use objecter::{MonClient, Objecter};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;
use types::errno::EBLOCKLISTED;
use types::osd_op::{WriteSameArgs, cmp_op, osd_flag};
use types::{
    AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityName, EntityText, ObjectLocator, OpCode, OsdId, OsdOp, ReqId, SnapContext,
    SnapId,
};

/// Pause before an OSD that refused is dialled again.
const REDIAL_NS: u64 = 300 * MS;

/// What of an operation a line of the trace tells.
const LINE_MAX: usize = 60;

/// The pool that clients use.
pub const POOL: &str = "p";

/// See the module.
pub struct ClientProcess {
    pub life: Life,
    number: u32,
    monc: MonClient,
    mon: Option<LinkId>,
    last_ack_ns: Option<u64>,
    objecter: Objecter,
    osds: BTreeMap<OsdId, LinkId>,
    newest_tid: u64,
    /// The number of its last operation.
    newest_op: u64,
    /// Operations under way: the objecter's number and the history's.
    under_way: BTreeMap<u64, usize>,
    /// Answers to commands, by number.
    pub answers: BTreeMap<u64, (i32, String)>,
    /// The OSD that has just said that a write is done.
    pub acked_by: Option<OsdId>,
    /// Snapshots that were asked for and are made, in this order.
    pub made: Vec<SnapId>,
    counter: u64,
    writes_done: u64,
    /// Of 100 reads, so many may go to any member.
    balanced: u64,
    /// Of 100 texts that it writes, so many are long ones, and of how many bytes at least and at most.
    large: u64,
    large_bytes: (u64, u64),
    /// Another client may have it shut out: it may be told so, and then knows nothing of what it asked.
    pub may_be_barred: bool,
    /// How often it was told so.
    pub barred: u32,
    /// Operations under way that are no part of the history, and what those that are done were answered.
    asides: BTreeSet<u64>,
    pub done_aside: Vec<(u64, Reply)>,
    /// What happened to its watches and notifies, by cookie.
    pub lingered: Vec<(u64, LingerEvent)>,
}

impl ClientProcess {
    pub fn start(number: u32, life: u32, net: &mut Net) -> Self {
        let life = (Proc::Client(number), life);
        let identity = Rc::new(RefCell::new(Identity::none(EntityText::new(EntityKind::CLIENT, "admin"))));
        let mut monc = MonClient::new(identity, vec![EntityAddrVec::one(mon_addr())], format!("client{number}"), net.rng.u64());
        monc.subscribe_to("osdmap", 0, 0, &mut Vec::new());
        let mut client = Self {
            life,
            number,
            monc,
            mon: None,
            last_ack_ns: None,
            objecter: Objecter::new(0),
            osds: BTreeMap::new(),
            newest_tid: 0,
            newest_op: 0,
            under_way: BTreeMap::new(),
            answers: BTreeMap::new(),
            acked_by: None,
            made: Vec::new(),
            counter: 0,
            writes_done: 0,
            balanced: 0,
            large: 0,
            large_bytes: (0, 0),
            may_be_barred: false,
            barred: 0,
            asides: BTreeSet::new(),
            done_aside: Vec::new(),
            lingered: Vec::new(),
        };
        net.dials(&Self::who(number, life.1), life, Port::Public);
        let mut none = History::default();
        client.monc(&mut none, net, |core, net, out| core.start(net.clock(), out));
        net.after(SEC, What::Tick(life));
        net.after(MS, What::Think(life));
        client
    }
    /// A client's number is that of its life: it never comes twice.
    pub fn who(number: u32, life: u32) -> Who {
        let addr = EntityAddr::parse(&format!("v2:10.0.2.{number}:0/{life}"), AddrType::MSGR2).expect("an address");
        let entity = EntityText::new(EntityKind::CLIENT, "admin");
        Who { entity, global_id: 4000 + u64::from(life), addrs: EntityAddrVec::one(addr) }
    }
    pub fn in_flight(&self) -> usize {
        self.under_way.len()
    }
    pub fn epoch(&self) -> types::Epoch {
        self.objecter.epoch()
    }
    /// Calls that are not answered, and the links to OSDs.
    pub fn open_calls(&self) -> Vec<String> {
        let calls = self.under_way.iter().map(|(tid, call)| format!("call {call} (number {tid})"));
        calls.chain(self.osds.iter().map(|(osd, link)| format!("link {link} to osd.{osd}"))).collect()
    }
    /// The calls that are not answered.
    pub fn unanswered(&self) -> impl Iterator<Item = usize> {
        self.under_way.values().copied()
    }
    pub fn has_pool(&self) -> bool {
        self.objecter.map().is_some_and(|m| m.pool_by_name(POOL).is_some())
    }
    /// The id of its next request.
    pub(crate) fn next_request(&self) -> ReqId {
        let name = EntityName { kind: EntityKind::CLIENT, num: Self::who(self.number, self.life.1).global_id as i64 };
        ReqId { name, tid: self.newest_op + 1, inc: 0 }
    }
    /// Where this object's group is led by the map that the client has.
    pub fn primary_of(&self, object: u32) -> Option<OsdId> {
        let map = self.objecter.map()?;
        let id = map.pool_by_name(POOL)?;
        let pool = map.pools.get(&id)?;
        let pgid = types::PgId::new(id, pool.fold(pool.hash_key(format!("o{object}").as_bytes(), &[])));
        Some(map.pg_to_up_acting(pgid, &mut maps::Placement::default()).acting_primary)
    }
    /// An operation after which the object has none of what it had.
    pub fn overwrite(&mut self, rng: &mut Rng) -> Op {
        self.counter += 1;
        Op::WriteFull(self.fresh(rng))
    }
    /// Sends a command; its answer will be in [`Self::answers`].
    pub fn command(&mut self, json: String, history: &mut History, net: &mut Net) -> u64 {
        let mut tid = 0;
        self.monc(history, net, |core, _, out| tid = core.request(Request::Command { cmd: vec![json], input: Bytes::new() }, out));
        tid
    }

    /// Asks the monitor for a snapshot of the pool, or to remove one. What is made will be in [`Self::made`].
    pub fn snapshot(&mut self, removes: Option<SnapId>, history: &mut History, net: &mut Net) {
        let Some(pool) = self.objecter.map().and_then(|m| m.pool_by_name(POOL)) else { return };
        let op = if removes.is_some() { pool_op::DELETE_UNMANAGED_SNAP } else { pool_op::CREATE_UNMANAGED_SNAP };
        let request = MPoolOp { fsid: fsid(), pool: pool as u32, op, snapid: removes.unwrap_or(0), ..MPoolOp::default() };
        self.monc(history, net, |core, _, out| {
            core.request(Request::PoolOp(request), out);
        });
    }

    /// The next operation by chance.
    pub fn work(&mut self, plan: &Plan, history: &mut History, net: &mut Net) {
        self.counter += 1;
        (self.balanced, self.large, self.large_bytes) = (plan.balanced, plan.large, (plan.large_least, plan.large_bytes));
        let object = net.rng.below(plan.objects.into()) as u32;
        let op = self.choose(plan, &history.snaps.now.live, &mut net.rng);
        self.submit(object, op, history, net);
    }
    pub fn submit(&mut self, object: u32, op: Op, history: &mut History, net: &mut Net) {
        let Some(pool) = self.objecter.map().and_then(|m| m.pool_by_name(POOL)) else { return };
        let call = history.call(self.number, object, op.clone());
        history.calls[call].mtime_ns = net.clock().wall_ns;
        let ops = encode(&op);
        let mut request = Submit::new(ObjectLocator::pool(pool), format!("o{object}").into_bytes().into(), ops);
        let snaps = &history.calls[call].snaps;
        request.snapc = SnapContext { seq: snaps.seq, snaps: snaps.live.clone() };
        if let Op::ReadAt(snap) = op {
            request.snap = snap;
        }
        if self.balanced > 0 && op.is_read() && net.rng.below(100) < self.balanced {
            request.flags |= osd_flag::BALANCE_READS;
        }
        // What removes is let through where pools are full.
        if op == Op::Delete {
            request.flags |= osd_flag::FULL_TRY;
        }
        net.note(format!("client {} calls {call} on o{object}: {}", self.number, short(&op)));
        let mut tid = 0;
        self.objecter(history, net, |core, net, out| {
            tid = core.submit(request, net.clock(), out);
        });
        self.newest_op = tid;
        self.under_way.insert(tid, call);
    }
    /// The same, not balanced.
    pub fn submit_to_primary(&mut self, object: u32, op: Op, history: &mut History, net: &mut Net) {
        let balanced = std::mem::take(&mut self.balanced);
        self.submit(object, op, history, net);
        self.balanced = balanced;
    }
    /// Bytes that no other operation writes, of a length by chance.
    fn fresh(&self, rng: &mut Rng) -> Bytes {
        let tag = format!("<{}.{}.{}>", self.number, self.life.1, self.counter);
        let long = if self.large > 0 && rng.below(100) < self.large {
            let (least, most) = self.large_bytes;
            least + rng.below(most - least)
        } else if rng.chance(1, 10) {
            rng.below(70_000)
        } else {
            rng.below(40)
        };
        let mut bytes = tag.into_bytes();
        bytes.resize(bytes.len().max(long as usize), b'.');
        bytes.into()
    }
    fn choose(&self, plan: &Plan, snaps: &[SnapId], rng: &mut Rng) -> Op {
        let fresh = self.fresh(rng);
        let name = |rng: &mut Rng| format!("k{}", rng.below(3));
        if !snaps.is_empty() && rng.chance(1, 4) {
            let snap = snaps[rng.below(snaps.len() as u64) as usize];
            return if rng.chance(1, 4) { Op::Rollback(snap) } else { Op::ReadAt(snap) };
        }
        if plan.deletes > 0 && rng.below(100) < plan.deletes {
            return Op::Delete;
        }
        match rng.below(100) {
            0..31 => Op::Read,
            31..33 => Op::Greet(format!("c{}", self.counter)),
            33..35 => Op::Louder,
            35..47 => Op::WriteFull(fresh),
            47..51 => {
                let long = if rng.chance(1, 2) { 20 } else { 9000 };
                Op::Zero(rng.below(60), 1 + rng.below(long))
            }
            51..53 => Op::WriteSame(rng.below(3000), fresh.slice(..fresh.len().min(30)), 1 + rng.below(9)),
            53..57 => Op::Write(rng.below(9000), fresh),
            57..69 => Op::Append(fresh.slice(..fresh.len().min(30))),
            69..73 => Op::Truncate(rng.below(6000)),
            73..78 => Op::Delete,
            78..81 => Op::CreateExclusive,
            81..83 => Op::RemoveXattr(name(rng)),
            83..86 => Op::SetXattr(name(rng), fresh.slice(..fresh.len().min(30))),
            86..92 => Op::OmapSet(name(rng), fresh.slice(..fresh.len().min(30))),
            92..93 => Op::OmapClear,
            93..95 => Op::OmapRemove(name(rng)),
            95..96 => Op::SetXattr(GUARD.into(), Bytes::from_static(b"a")),
            96..98 => Op::CompareAndWrite(rng.below(3), Bytes::from_static(if rng.chance(1, 2) { &b"<"[..] } else { &b"\0\0"[..] }), fresh),
            _ => Op::Guarded(Bytes::from_static(b"a"), Bytes::from_static(b"b")),
        }
    }

    fn done(&mut self, tid: u64, reply: &Reply, history: &mut History, net: &mut Net) {
        let call = self.under_way.remove(&tid).expect("an answer to one of ours");
        if self.may_be_barred && reply.result == -EBLOCKLISTED {
            // It may have been done before, when it was sent for the first time.
            net.note(format!("client {} is shut out with {call} on o{}", self.number, history.calls[call].object));
            self.barred += 1;
            return history.expires(call);
        }
        let outcome = decode(&history.calls[call].op, reply);
        let told = match &outcome {
            Outcome::Read(object) => format!("{} bytes", object.data.len()),
            other => format!("{other:?}"),
        };
        net.note(format!("client {} has the answer to {call} on o{}: {told}", self.number, history.calls[call].object));
        self.writes_done += u64::from(outcome == Outcome::Done);
        history.returned(call, outcome, reply.user_version);
    }

    fn objecter(&mut self, history: &mut History, net: &mut Net, f: impl FnOnce(&mut Objecter, &mut Net, &mut Vec<Effect>)) {
        let mut out = Vec::new();
        f(&mut self.objecter, net, &mut out);
        self.carry_out(out, history, net);
    }
    fn carry_out(&mut self, effects: Vec<Effect>, history: &mut History, net: &mut Net) {
        for effect in effects {
            match effect {
                Effect::Send { osd, message } => {
                    if let Some(link) = self.osds.get(&osd) {
                        net.send(self.life, *link, message);
                    }
                }
                Effect::Done { tid, reply, .. } if self.asides.remove(&tid) => self.done_aside.push((tid, reply)),
                Effect::Done { tid, reply, .. } => {
                    self.done(tid, &reply, history, net);
                }
                Effect::Open { osd, addrs } => {
                    self.close_osd(osd, net);
                    self.osds.insert(osd, net.dial(self.life, Port::Public, EntityKind::OSD, &addrs, false));
                }
                Effect::Close { osd } => self.close_osd(osd, net),
                Effect::Map(epoch) => self.monc(history, net, |core, _, _| core.got("osdmap", epoch.into())),
                Effect::WantMap(start) => self.monc(history, net, |core, _, out| core.resubscribe("osdmap", start.into(), 0, out)),
                Effect::WantNewest => {
                    let mut tid = 0;
                    self.monc(history, net, |core, _, out| tid = core.request(Request::Version("osdmap".into()), out));
                    self.newest_tid = tid;
                }
                Effect::Linger { cookie, event } => self.lingered.push((cookie, event)),
            }
        }
    }
    fn close_osd(&mut self, osd: OsdId, net: &mut Net) {
        if let Some(link) = self.osds.remove(&osd) {
            net.close(self.life, link);
        }
    }
    fn monc(&mut self, history: &mut History, net: &mut Net, f: impl FnOnce(&mut MonClient, &mut Net, &mut Vec<MonEffect>)) {
        let mut out = Vec::new();
        f(&mut self.monc, net, &mut out);
        self.mon_effects(out, history, net);
    }
    fn mon_effects(&mut self, effects: Vec<MonEffect>, history: &mut History, net: &mut Net) {
        for effect in effects {
            match effect {
                MonEffect::Dial(addrs) => {
                    if let Some(old) = self.mon.take() {
                        net.close(self.life, old);
                    }
                    self.last_ack_ns = None;
                    self.mon = Some(net.dial(self.life, Port::Public, EntityKind::MON, &addrs, false));
                }
                MonEffect::Send(msg) => {
                    if let Some(mon) = self.mon {
                        net.send(self.life, mon, msg);
                    }
                }
                MonEffect::Keepalive => {
                    let now_ns = net.clock().wall_ns;
                    if self.mon.is_some_and(|mon| net.keepalive(mon, now_ns)) {
                        self.last_ack_ns = Some(now_ns);
                    }
                }
                MonEffect::Answer(Answer::Version { tid, newest, .. }) if tid == self.newest_tid => {
                    self.objecter(history, net, |core, _, out| core.on_newest(newest as u32, out));
                }
                MonEffect::Answer(Answer::Command { tid, result, status, .. }) => drop(self.answers.insert(tid, (result, status))),
                MonEffect::Answer(Answer::PoolOp { reply, .. }) => {
                    let number = |data: Bytes| data.get(..8).map(|b| u64::from_le_bytes(b.try_into().expect("eight bytes")));
                    self.made.extend(reply.response.and_then(number).filter(|_| reply.result == 0));
                }
                MonEffect::Answer(_) | MonEffect::MonMap | MonEffect::Connected | MonEffect::Config(_) | MonEffect::Rotating => {}
            }
        }
    }

    pub fn tick(&mut self, history: &mut History, net: &mut Net) {
        let ack = self.mon.and_then(|mon| net.keepalive_acked(mon)).or(self.last_ack_ns);
        let mut entropy = Rng::new(net.rng.u64());
        self.monc(history, net, |core, net, out| core.tick(net.clock(), ack, &mut entropy, out));
        self.objecter(history, net, |core, net, out| core.tick(net.clock(), out));
        net.after(SEC, What::Tick(self.life));
    }
    fn osd_of(&self, link: LinkId) -> Option<OsdId> {
        self.osds.iter().find(|(_, l)| **l == link).map(|(osd, _)| *osd)
    }
    pub fn opened(&mut self, link: LinkId, history: &mut History, net: &mut Net) {
        if self.mon == Some(link) {
            self.monc(history, net, |core, net, out| core.on_open(net.clock(), out));
        }
    }
    /// A dial is refused: a messenger tries again after a pause.
    pub fn refused(&mut self, link: LinkId, history: &mut History, net: &mut Net) {
        if self.mon == Some(link) {
            return self.lost(link, history, net);
        }
        net.after(REDIAL_NS, What::Closed { life: self.life, link });
    }
    /// A messenger's dial failed. To an OSD it goes on by itself.
    pub fn dial_failed(&mut self, link: LinkId, history: &mut History, net: &mut Net) {
        if self.mon == Some(link) {
            self.lost(link, history, net);
        }
    }
    /// A link is cut, or a refused dial's pause is over.
    pub fn lost(&mut self, link: LinkId, history: &mut History, net: &mut Net) {
        if self.mon == Some(link) {
            self.monc(history, net, |core, net, out| core.on_lost(net.clock(), out));
        } else if let Some(osd) = self.osd_of(link) {
            self.osds.remove(&osd);
            self.objecter(history, net, |core, net, out| core.on_reset(osd, net.clock(), out));
        }
    }
    pub fn message(&mut self, link: LinkId, msg: &RawMessage, history: &mut History, net: &mut Net) {
        if self.mon == Some(link) {
            let mut entropy = Rng::new(net.rng.u64());
            let mut mine = false;
            self.monc(history, net, |core, net, out| mine = core.on_message(msg, net.clock(), &mut entropy, out));
            if !mine {
                self.objecter(history, net, |core, net, out| {
                    core.on_message(-1, msg, net.clock(), out);
                });
            }
        } else if let Some(osd) = self.osd_of(link) {
            let before = self.writes_done;
            self.objecter(history, net, |core, net, out| {
                core.on_message(osd, msg, net.clock(), out);
            });
            if self.writes_done > before {
                self.acked_by = Some(osd);
            }
        }
    }
}

pub(crate) fn encode(op: &Op) -> Ops {
    let ops = Ops::new();
    match op {
        Op::WriteFull(data) => ops.write_full(data.clone()),
        Op::Write(at, data) => ops.write(*at, data.clone()),
        Op::Append(data) => ops.append(data.clone()),
        Op::Truncate(size) => ops.truncate(*size),
        Op::Delete => ops.remove(),
        Op::CreateExclusive => ops.create(true),
        Op::SetXattr(name, value) => ops.set_xattr(name, value),
        Op::OmapSet(key, value) => ops.omap_set(&BTreeMap::from([(key.as_bytes().to_vec().into(), value.clone())])),
        Op::OmapRemove(key) => ops.omap_rm_keys(&[key.as_bytes().to_vec().into()].into()),
        Op::OmapClear => ops.omap_clear(),
        Op::RemoveXattr(name) => ops.rm_xattr(name),
        Op::Zero(at, len) => ops.zero(*at, *len),
        Op::WriteSame(at, data, times) => {
            let len = data.len() as u64;
            let args = WriteSameArgs { offset: *at, length: len * times, data_length: len };
            ops.push(OsdOp::with_writesame(OpCode::WRITESAME, args), data.clone())
        }
        Op::Guarded(expected, new) => ops.cmp_xattr(GUARD, expected, cmp_op::EQ).set_xattr(GUARD, new).write_full(new.clone()),
        Op::CompareAndWrite(at, expected, new) => {
            let compare = OsdOp::range(OpCode::CMPEXT, *at, expected.len() as u64);
            ops.push(compare, expected.clone()).write_full(new.clone())
        }
        Op::Greet(name) => ops.exec("hello", "record_hello", name.as_bytes(), true),
        Op::Louder => ops.exec("hello", "turn_it_to_11", b"", true),
        Op::Rollback(snap) => ops.rollback(*snap),
        Op::Read | Op::ReadAt(_) => ops.read(0, 0).get_xattrs().omap_get_vals("", "", 1000).stat(),
    }
}

pub(crate) fn decode(op: &Op, reply: &Reply) -> Outcome {
    if reply.result < 0 {
        return Outcome::Error(-reply.result);
    }
    if !op.is_read() {
        return Outcome::Done;
    }
    let text = |name: &types::ByteStr| String::from_utf8_lossy(name.as_slice()).into_owned();
    let xattrs = pairs_of(&reply.ops[1]).expect("attributes are readable");
    let (omap, more) = vals_of(&reply.ops[2]).expect("omap is readable");
    assert!(!more, "three keys fit into an answer");
    let (size, mtime) = stat_of(&reply.ops[3]).expect("a stat is readable");
    assert_eq!(size, reply.ops[0].outdata.len() as u64, "a stat says how much there is to read");
    Outcome::Read(Rc::new(Object {
        mtime_ns: u64::from(mtime.sec) * SEC + u64::from(mtime.nsec),
        has_omap: false,
        data: reply.ops[0].outdata.to_vec(),
        xattrs: xattrs.iter().map(|(k, v)| (text(k), v.clone())).filter(|(k, _)| !SIGNATURES.contains(&k.as_str())).collect(),
        omap: omap.iter().map(|(k, v)| (text(k), v.clone())).collect(),
    }))
}

/// Text that takes no more than a line has room for: what is written may be 70,000 bytes long.
struct Line(String);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.push_str(text);
        if self.0.len() > LINE_MAX { Err(std::fmt::Error) } else { Ok(()) }
    }
}

fn short(op: &Op) -> String {
    let mut line = Line(String::new());
    match write!(line, "{op:?}") {
        Ok(()) => line.0,
        Err(_) => format!("{}...", line.0.chars().take(LINE_MAX - 3).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_operation_is_told_by_its_beginning() {
        for len in (0..100).chain([70_000]) {
            let op = Op::WriteFull(vec![b'.'; len].into());
            let (whole, told) = (format!("{op:?}"), short(&op));
            match whole.len() <= 60 {
                true => assert_eq!(told, whole),
                false => assert_eq!(told, format!("{}...", &whole[..57])),
            }
        }
    }
}
