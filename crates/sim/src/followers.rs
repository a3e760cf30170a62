//! Reads that go straight to a member which follows, while it matters: a write is on its way, the member is cut off, or it lacks the object.
//!
//! ```text
//!   reader ──────▶ a member that follows  ┆ by chance nothing goes through │ the primary, the other members ◀────── clients, which write the same object
//! ```
//! A client with an objecter sends a read to any member by chance, and hears of newer maps by its answers. Here each reader knows one member, by the map that
//! there was when the look began. What it reads stands in the history like anything else, so it must have its place among the writes; a read that the
//! member sends to the primary says nothing.

use crate::client::{decode, encode};
use crate::cluster::Cluster;
use crate::model::Op;
use crate::monitor::Who;
use crate::net::{Life, LinkId, Port, Proc, What};
use crate::{MS, SEC};
use base::Rng;
use maps::OsdMap;
use messages::{MOSDOp, MOSDOpReply, Message, RawMessage};
use objecter::objecter::Reply;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::errno::EAGAIN;
use types::osd_op::osd_flag;
use types::{AddrType, CEPH_NOSNAP, EntityAddr, EntityAddrVec, EntityKind, EntityText, HObject, PgId, SpgId, features};

/// The process of all readers; each of them is a life.
const READER: Proc = Proc::Guest(1);
/// The client that their calls are noted for.
const CLIENT: u32 = 900;
/// Looks of a run: each of them takes some seconds.
const LOOKS: u32 = 20;
/// Reads that a reader has under way.
const READS: usize = 2;
/// Writes that a client has under way.
const WRITES: usize = 3;

/// One that reads at one member.
#[derive(Debug)]
struct Reader {
    life: Life,
    osd: i32,
    link: LinkId,
    map: Rc<OsdMap>,
    objects: Vec<u32>,
    until_ns: u64,
    /// The pause between two reads at most.
    pause_ns: u64,
    /// Calls that are not answered, by their numbers.
    asked: BTreeMap<u64, usize>,
    tid: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Followers {
    rng: Rng,
    readers: Vec<Reader>,
    looks: u32,
    /// Nothing is recovered before then.
    unrecovered_ns: u64,
    /// The object that clients write meanwhile.
    writes: Option<u32>,
    /// Answers with what an object is.
    pub served: u64,
}

impl Followers {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed ^ 0x0f01_10e5), readers: Vec::new(), looks: 0, unrecovered_ns: 0, writes: None, served: 0 }
    }
    pub fn lives(&self, life: Life) -> bool {
        self.readers.iter().any(|reader| reader.life == life)
    }
    fn of(&mut self, life: Life) -> Option<&mut Reader> {
        self.readers.iter_mut().find(|reader| reader.life == life)
    }
}

/// How an OSD sees a reader.
pub(crate) fn who(life: u32) -> Who {
    let addr = EntityAddr::parse(&format!("v2:10.0.3.2:0/{life}"), AddrType::MSGR2).expect("an address");
    let entity = EntityText::new(EntityKind::CLIENT, "reader");
    Who { entity, global_id: 8_000_000 + u64::from(life), addrs: EntityAddrVec::one(addr) }
}

impl Cluster {
    /// A look begins by chance, and then the next one.
    pub(crate) fn follow(&mut self) {
        if !self.troubled {
            return;
        }
        let pause = self.followers.rng.below(2 * self.plan.follow * MS) + 1;
        self.net.after(pause, What::Follow);
        let now_ns = self.net.now_ns;
        if self.followers.unrecovered_ns > 0 && self.followers.unrecovered_ns < now_ns {
            self.followers.unrecovered_ns = 0;
            self.say(r#"{"prefix":"osd unset","key":"norecover"}"#.into());
        }
        if !self.followers.readers.is_empty() || self.followers.looks == LOOKS {
            return;
        }
        self.followers.writes = None;
        if let Some((osd, objects)) = self.lacking() {
            let left_ns = self.followers.unrecovered_ns.saturating_sub(now_ns);
            return self.read_at(osd, objects, left_ns.max(4 * SEC), 300 * MS);
        }
        if self.followers.unrecovered_ns > 0 {
            return;
        }
        if let Some((objects, members)) = self.fence_target() {
            let others: Vec<i32> = members[1..].to_vec();
            self.followers.writes = Some(objects[0]);
            // A member without an object takes longest, and shows least.
            match self.followers.rng.below(8) {
                0..4 if others.len() > 1 => self.read_while_written(objects[0], members[0], &others),
                0..6 => self.read_while_cut_off(objects[0], others[0]),
                _ => self.goes_without_recovery(others[0]),
            }
        }
    }
    /// A member that lacks some objects of clients, by what its primary knows.
    pub(crate) fn lacking(&self) -> Option<(i32, Vec<u32>)> {
        let groups =
            self.osds.iter().flatten().flat_map(|osd| osd.core().pgs()).filter(|pg| pg.peering().is_primary() && pg.peering().is_active());
        let number = |obj: &HObject| std::str::from_utf8(obj.oid.as_slice()).ok()?.strip_prefix('o')?.parse().ok();
        for pg in groups {
            for (member, peer) in pg.peering().peers().iter().filter(|(member, _)| pg.peering().mapping.acting.contains(&member.osd)) {
                let objects: Vec<u32> = peer.member.missing.iter().filter_map(|(obj, _)| number(&obj)).take(4).collect();
                if !objects.is_empty() {
                    return Some((member.osd, objects));
                }
            }
        }
        None
    }
    /// A write reaches one member and not the other: what it makes is shown by neither before both have it.
    fn read_while_written(&mut self, object: u32, primary: i32, others: &[i32]) {
        let for_ns = (2 + self.followers.rng.below(8)) * SEC;
        self.net.note(format!("o{object} is written, and osd.{} hears nothing of osd.{primary}", others[1]));
        self.net.partition(Proc::Osd(primary), Proc::Osd(others[1]), self.net.now_ns + for_ns);
        others.iter().for_each(|osd| self.read_at(*osd, vec![object], for_ns, 200 * MS));
    }
    /// The member is away for a moment, and lacks what is written meanwhile until an operator lets it be recovered.
    fn goes_without_recovery(&mut self, osd: i32) {
        self.followers.looks += 1;
        self.followers.unrecovered_ns = self.net.now_ns + (30 + self.followers.rng.below(20)) * SEC;
        self.net.note(format!("osd.{osd} is away, and nothing is recovered"));
        self.say(r#"{"prefix":"osd set","key":"norecover"}"#.into());
        self.say(format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#));
        self.kill_osd(osd as usize, false);
    }
    /// The member reaches nobody, and the others go on without it.
    fn read_while_cut_off(&mut self, object: u32, osd: i32) {
        let for_ns = (20 + self.followers.rng.below(20)) * SEC;
        self.net.note(format!("o{object} is written, and osd.{osd}, where it is read, is cut off"));
        let until = self.net.now_ns + for_ns;
        let others = (0..self.osd_count() as i32).filter(|other| *other != osd).map(Proc::Osd).chain([Proc::Mon]);
        for other in others.collect::<Vec<_>>() {
            self.net.partition(Proc::Osd(osd), other, until);
            self.net.partition(other, Proc::Osd(osd), until);
        }
        if self.followers.rng.chance(3, 4) {
            self.say(format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#));
        }
        self.read_at(osd, vec![object], for_ns, 600 * MS);
    }
    fn read_at(&mut self, osd: i32, objects: Vec<u32>, for_ns: u64, pause_ns: u64) {
        let Some(map) = self.newest_map() else { return };
        let Some(target) = map.client_addrs.get(osd as usize).filter(|_| map.is_up(osd)).cloned() else { return };
        let life = (READER, self.next_life());
        self.net.note(format!("o{objects:?} are read at osd.{osd}"));
        self.net.dials(&who(life.1), life, Port::Public);
        let link = self.net.dial(life, Port::Public, EntityKind::OSD, &target, false);
        self.followers.looks += 1;
        let until_ns = self.net.now_ns + for_ns;
        let (asked, tid) = (BTreeMap::new(), 0);
        self.followers.readers.push(Reader { life, osd, link, map, objects, until_ns, pause_ns, asked, tid });
    }
    /// Something happens to a reader.
    pub(crate) fn to_reader(&mut self, life: Life, what: What) {
        match what {
            What::Opened { .. } | What::Think(_) => self.reader_acts(life),
            What::Deliver { msg, .. } => self.reader_hears(life, &msg),
            What::Closed { .. } | What::Refused { .. } | What::DialFailed { .. } => self.end_reader(life),
            _ => {}
        }
    }
    fn end_reader(&mut self, life: Life) {
        self.followers.readers.retain(|reader| reader.life != life);
        self.net.died(life);
    }
    fn reader_acts(&mut self, life: Life) {
        let Followers { rng, readers, writes, .. } = &mut self.followers;
        let reader = readers.iter_mut().find(|reader| reader.life == life).expect("it lives");
        if !self.troubled || reader.until_ns <= self.net.now_ns {
            return self.end_reader(life);
        }
        let (pause, writes) = (rng.below(reader.pause_ns) + MS, writes.filter(|_| rng.chance(1, 3)));
        if reader.asked.len() < READS {
            let object = reader.objects[rng.below(reader.objects.len() as u64) as usize];
            let flag = if rng.chance(1, 2) { osd_flag::BALANCE_READS } else { osd_flag::LOCALIZE_READS };
            reader.tid += 1;
            if let Some(msg) = request(&reader.map, object, reader.tid, flag) {
                let call = self.history.call(CLIENT, object, Op::Read);
                reader.asked.insert(reader.tid, call);
                self.net.note(format!("a reader calls {call} on o{object} at osd.{}", reader.osd));
                self.fences.calls += 1;
                self.net.send(life, reader.link, msg);
            }
        }
        if let (Some(object), Some(client)) = (writes, self.clients[..self.plan.clients as usize].iter_mut().flatten().next())
            && client.in_flight() < WRITES
            && client.has_pool()
        {
            let op = client.overwrite(&mut self.net.rng);
            client.submit(object, op, &mut self.history, &mut self.net);
            self.fences.calls += 1;
        }
        self.net.after(pause, What::Think(life));
    }
    fn reader_hears(&mut self, life: Life, msg: &RawMessage) {
        let Some(reply) = (msg.kind == MOSDOpReply::KIND).then(|| MOSDOpReply::decode(msg).ok()).flatten() else { return };
        let Some(call) = self.followers.of(life).and_then(|reader| reader.asked.remove(&msg.tid)) else { return };
        if reply.result == -EAGAIN {
            return;
        }
        let reply = Reply { result: reply.result, version: reply.replay_version, user_version: reply.user_version, ops: reply.ops };
        let outcome = decode(&Op::Read, &reply);
        self.followers.served += 1;
        self.net.note(format!("a reader has the answer to {call} on o{}", self.history.calls[call].object));
        self.history.returned(call, outcome, reply.user_version);
    }
}

/// A read of all of an object, by this map.
fn request(map: &OsdMap, object: u32, tid: u64, flag: u32) -> Option<RawMessage> {
    let id = map.pool_by_name(crate::client::POOL)?;
    let pool = map.pools.get(&id)?;
    let name = format!("o{object}").into_bytes();
    let hash = pool.hash_key(&name, &[]);
    let pgid = SpgId::whole(PgId::new(id, pool.fold(hash)));
    let hobj = HObject { oid: name.into(), hash, pool: id, snap: CEPH_NOSNAP, ..HObject::min() };
    let ops = encode(&Op::Read);
    let flags = ops.flags | flag | osd_flag::ONDISK | osd_flag::KNOWN_REDIR | osd_flag::SUPPORTSPOOLEIO;
    Some(MOSDOp { tid, pgid, hobj, map_epoch: map.epoch, flags, ops: ops.ops, ..MOSDOp::default() }.encode(features::SUPPORTED))
}
