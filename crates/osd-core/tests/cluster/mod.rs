//! Several OSDs joined by queues, a monitor made of a map that the test changes, and one client. Which queue moves next is chance's.

#![allow(dead_code)] // each test program uses a part

use crate::world::parts::{add_pool, client, first_map, listens, request};
use crate::world::store::{Control, TestStore};
use crate::world::{addr, received, uuid};
use base::{Clock, Rng, Stamp};
use bytes::Bytes;
use maps::{OsdMap, Placement, osd_state};
use messages::{
    InOp, MCommand, MCommandReply, MMonGetPurgedSnaps, MMonGetPurgedSnapsReply, MOSDAlive, MOSDBoot, MOSDFailure, MOSDMap, MOSDMarkMeDown,
    MOSDOp, MOSDOpReply, MOSDPGInfo2, MOSDPGTemp, MOSDPing, MOSDRepOp, Message, RawMessage,
    osd_mon::failure_flag,
    osd_ping::{SpanNs, ping_op},
};
use osd_core::daemon::Network;
use osd_core::{ConnId, Effect, Event, HbNet, Level, Osd, OsdSetup, Peer};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::rc::Rc;
use store::{ObjectStore, OmapFrom};
use types::osd_op::OpCode;
use types::{CEPH_NOSNAP, CollId, EntityAddrVec, EntityName, Epoch, GHObject, HObject, OsdId, OsdOp, PgId, SpgId, features};

pub const POOL: i64 = 1;

/// A stock OSD ends by an assertion where the statistics of a group's record name purged snapshots: only reports to a manager do.
fn names_purged_snaps(msg: &RawMessage) -> bool {
    let stats = match msg.kind {
        MOSDRepOp::KIND => MOSDRepOp::decode(&received(msg)).unwrap().pg_stats,
        MOSDPGInfo2::KIND => MOSDPGInfo2::decode(&received(msg)).unwrap().info.stats,
        _ => return false,
    };
    !stats.purged_snaps.is_empty()
}
const CLIENT: ConnId = ConnId(1);

pub struct Node {
    pub osd: Osd,
    pub store: Rc<RefCell<Control>>,
    public: EntityAddrVec,
    /// What the monitor and its own loop have for it.
    inbox: VecDeque<Event>,
}

/// Makes an OSD's store.
type MakesStore = Box<dyn FnMut() -> Box<dyn ObjectStore>>;

pub struct Cluster {
    pub nodes: Vec<Option<Node>>,
    /// What is left of those that were killed.
    stores: BTreeMap<usize, Rc<RefCell<Control>>>,
    pub map: OsdMap,
    maps: BTreeMap<Epoch, Bytes>,
    /// Messages between OSDs, by sender and receiver.
    queues: BTreeMap<(OsdId, OsdId), VecDeque<RawMessage>>,
    /// Such queues that stand still.
    pub cut: BTreeSet<(OsdId, OsdId)>,
    /// OSDs that take nothing of their monitor.
    pub lagging: BTreeSet<usize>,
    pub replies: Vec<MOSDOpReply>,
    /// Answers to commands.
    told: Vec<MCommandReply>,
    /// OSDs that were reported as silent. Heartbeats go nowhere here.
    pub failures: BTreeSet<OsdId>,
    /// Errors that an OSD wrote to its log.
    pub errors: Vec<String>,
    /// Groups whose records are damaged from an OSD's next start on.
    pub damaged: BTreeMap<usize, SpgId>,
    /// Why OSDs ended by themselves, if that is expected.
    pub ended: Option<Vec<String>>,
    pub rng: Rng,
    /// Makes stores of OSDs that start; without it each has a [`TestStore`].
    makes_store: Option<MakesStore>,
    /// Turns that follow an event: a store on devices takes some until it has what was asked for.
    turns: u32,
    /// Options of OSDs that start from now on.
    pub config: Vec<(&'static str, String)>,
    now_ms: u64,
    tid: u64,
    lives: u32,
}

impl Cluster {
    pub fn new(seed: u64, osds: usize, size: u8, min_size: u8, pg_num: u32) -> Self {
        Self::made(seed, osds, size, min_size, pg_num, None)
    }
    /// The same over stores of any kind, which outlive no OSD, and which nothing in [`Control`] changes.
    pub fn over(
        seed: u64,
        osds: usize,
        size: u8,
        min_size: u8,
        pg_num: u32,
        makes: impl FnMut() -> Box<dyn ObjectStore> + 'static,
    ) -> Self {
        Self::made(seed, osds, size, min_size, pg_num, Some(Box::new(makes)))
    }
    fn made(seed: u64, osds: usize, size: u8, min_size: u8, pg_num: u32, makes_store: Option<MakesStore>) -> Self {
        let map = first_map(osds);
        let maps = BTreeMap::from([(1, map.encode_canonical().0)]);
        let mut c = Self {
            nodes: (0..osds).map(|_| None).collect(),
            stores: BTreeMap::new(),
            map,
            maps,
            queues: BTreeMap::new(),
            cut: BTreeSet::new(),
            lagging: BTreeSet::new(),
            replies: Vec::new(),
            told: Vec::new(),
            failures: BTreeSet::new(),
            errors: Vec::new(),
            damaged: BTreeMap::new(),
            ended: None,
            turns: if makes_store.is_some() { 4 } else { 1 },
            makes_store,
            rng: Rng::new(seed),
            config: [
                ("osd_min_pg_log_entries", "50"),
                ("osd_max_pg_log_entries", "50"),
                ("osd_backfill_scan_max", "7"),
                ("osd_backfill_retry_interval", "1"),
                ("osd_recovery_retry_interval", "1"),
            ]
            .map(|(name, value)| (name, value.to_string()))
            .into(),
            now_ms: 100_000,
            tid: 0,
            lives: 0,
        };
        (0..osds).for_each(|osd| c.start(osd));
        c.settle();
        c.publish(|m| add_pool(m, size, min_size, pg_num));
        c.settle();
        c
    }

    /// An OSD starts, with what is left of its store.
    pub fn start(&mut self, id: usize) {
        self.lives += 1;
        let nonce = 100 + self.lives;
        let (store, control): (Box<dyn ObjectStore>, _) = match self.stores.remove(&id) {
            Some(old) => {
                // What was committed is there, and of what was submitted after it a part.
                let old = old.borrow();
                let journal = old.journal.as_ref().expect("kept from the start");
                let kept = old.committed + self.rng.below((journal.len() - old.committed) as u64 + 1) as usize;
                let (store, control) = TestStore::replay(&journal[..kept], None);
                (Box::new(store), control)
            }
            None => match &mut self.makes_store {
                Some(make) => (make(), Rc::default()),
                None => {
                    let (store, control) = TestStore::new(None);
                    (Box::new(store), control)
                }
            },
        };
        control.borrow_mut().journal.get_or_insert_with(Vec::new);
        control.borrow_mut().damaged_group = self.damaged.get(&id).copied();
        let setup = OsdSetup {
            whoami: id as OsdId,
            cluster_fsid: uuid(1),
            osd_fsid: uuid(10 + id as u8),
            seed: self.rng.u64(),
            classes: &classes::BUILTIN,
            config: self.config.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
        };
        let info = listens(6800 + 10 * id as u16, nonce);
        let (public, peer) = (info.public.clone(), client(4001));
        let inbox = VecDeque::from([Event::Boot(Box::new(info)), Event::Tick, Event::Connected { conn: CLIENT, peer }, Event::Tick]);
        self.nodes[id] = Some(Node { osd: Osd::new(setup, store), store: control, public, inbox });
    }
    /// An OSD dies with all that is on its way from it and to it; the monitor has not noticed yet.
    pub fn kill(&mut self, id: usize) {
        let node = self.nodes[id].take().expect("it runs");
        self.stores.insert(id, node.store);
        self.queues.retain(|(from, to), _| *from != id as OsdId && *to != id as OsdId);
    }
    /// Messages of this kind that stand still on their way.
    pub fn on_their_way(&self, from: usize, to: usize, kind: u16) -> usize {
        let queue = self.queues.get(&(from as OsdId, to as OsdId));
        queue.map_or(0, |queue| queue.iter().filter(|msg| msg.kind == kind).count())
    }
    /// What is left of one that was killed goes: it starts with an empty store.
    pub fn empty(&mut self, id: usize) {
        self.stores.remove(&id).expect("it was killed");
    }
    /// One that was killed is known to be dead.
    pub fn mark_down(&mut self, id: usize) {
        let is_dead = self.nodes[id].is_none();
        self.publish(|m| {
            m.osd_state[id] &= !osd_state::UP;
            m.osd_info[id].down_at = m.epoch;
            if is_dead {
                m.osd_xinfo[id].dead_epoch = m.epoch;
            }
        });
    }
    pub fn clock(&self) -> Clock {
        Clock { mono: Stamp(self.now_ms * 1_000_000), wall_ns: (1_700_000_000_000 + self.now_ms) * 1_000_000 }
    }

    /// The next map, on its way to each OSD.
    pub fn publish(&mut self, change: impl FnOnce(&mut OsdMap)) {
        self.map.epoch += 1;
        change(&mut self.map);
        self.maps.insert(self.map.epoch, self.map.encode_canonical().0);
        for id in 0..self.nodes.len() {
            self.send_maps(id, self.map.epoch);
        }
    }
    fn send_maps(&mut self, id: usize, from: Epoch) {
        let from = if from == 0 { self.map.epoch } else { from };
        let mut m = MOSDMap { fsid: uuid(1), newest: self.map.epoch, trim_lower_bound: 1, ..MOSDMap::default() };
        m.maps = self.maps.range(from..).map(|(e, m)| (*e, m.clone())).collect();
        if let Some(node) = &mut self.nodes[id]
            && !m.maps.is_empty()
        {
            node.inbox.push_back(Event::Mon(m.encode(features::SUPPORTED)));
        }
    }

    /// An event of one OSD and the end of its turn.
    pub fn feed(&mut self, id: usize, event: Event) {
        let clock = self.clock();
        let Some(node) = &mut self.nodes[id] else { return };
        let mut out = Vec::new();
        node.osd.handle(event, clock, &mut out);
        (0..self.turns).for_each(|_| node.osd.handle(Event::TurnEnd, clock, &mut out));
        for effect in out {
            self.effect(id, effect);
        }
    }
    fn effect(&mut self, id: usize, effect: Effect) {
        // It may have ended with an effect before this one.
        let Some(node) = &mut self.nodes[id] else { return };
        match effect {
            Effect::AskMapVersions => node.inbox.push_back(Event::MapVersions { oldest: 1, newest: self.map.epoch }),
            Effect::SubscribeMaps { from } => self.send_maps(id, from),
            Effect::Continue => node.inbox.push_back(Event::Continue),
            Effect::SendOsd { osd, ref addrs, .. } | Effect::AskOsd { osd, ref addrs, .. } => {
                let (Effect::SendOsd { msg, .. } | Effect::AskOsd { msg, .. }) = &effect else { unreachable!("matched above") };
                let at = if matches!(effect, Effect::SendOsd { .. }) { &self.map.cluster_addrs } else { &self.map.client_addrs };
                assert!(!names_purged_snaps(msg), "statistics that members are told name no purged snapshots");
                // A message to a former life of the OSD goes nowhere.
                if self.nodes[osd as usize].is_some() && at[osd as usize] == *addrs {
                    self.queues.entry((id as OsdId, osd)).or_default().push_back(received(msg));
                }
            }
            Effect::Send { conn: CLIENT, msg } if msg.kind == MOSDOpReply::KIND => {
                self.replies.push(MOSDOpReply::decode(&received(&msg)).unwrap());
            }
            Effect::Send { conn: CLIENT, msg } if msg.kind == MCommandReply::KIND => {
                self.told.push(MCommandReply::decode(&received(&msg)).unwrap());
            }
            Effect::SendMon(msg) => self.to_mon(id, &msg),
            // Its sessions are over, with what is on its way in them.
            Effect::RenewCluster { .. } => self.queues.retain(|(from, to), _| *from != id as OsdId && *to != id as OsdId),
            Effect::Log { level: Level::Error, text } | Effect::ClusterLog { level: Level::Error, text } => {
                self.errors.push(format!("osd.{id}: {text}"));
            }
            Effect::Stop { why: Some(why) } => match &mut self.ended {
                Some(ended) => {
                    ended.push(format!("osd.{id}: {why}"));
                    self.kill(id);
                }
                None => panic!("osd.{id} stops: {why}"),
            },
            _ => {}
        }
    }
    fn to_mon(&mut self, id: usize, msg: &RawMessage) {
        match msg.kind {
            MOSDAlive::KIND => {
                let want = MOSDAlive::decode(msg).unwrap().want;
                if self.map.osd_info[id].up_thru < want {
                    self.publish(|m| m.osd_info[id].up_thru = want);
                }
            }
            MOSDFailure::KIND => {
                let m = MOSDFailure::decode(msg).unwrap();
                if m.flags & failure_flag::FAILED != 0 && self.map.client_addrs[m.target_osd as usize] == m.target_addrs {
                    self.failures.insert(m.target_osd);
                }
            }
            MOSDMarkMeDown::KIND => {
                let m = MOSDMarkMeDown::decode(msg).unwrap();
                if self.map.is_up(id as OsdId) && self.map.client_addrs[id] == m.target_addrs {
                    self.publish(|map| {
                        map.osd_state[id] &= !osd_state::UP;
                        map.osd_info[id].down_at = map.epoch;
                        if m.down_and_dead {
                            map.osd_xinfo[id].dead_epoch = map.epoch - 1;
                        }
                    });
                }
            }
            MOSDPGTemp::KIND => {
                let asked = MOSDPGTemp::decode(msg).unwrap();
                let news: Vec<_> =
                    asked.pg_temp.into_iter().filter(|(pg, want)| self.map.pg_temp.get(pg).map_or(&[][..], |w| w) != want).collect();
                if !news.is_empty() {
                    self.publish(|m| {
                        for (pg, want) in news {
                            if want.is_empty() { drop(m.pg_temp.remove(&pg)) } else { drop(m.pg_temp.insert(pg, want)) }
                        }
                    });
                }
            }
            MMonGetPurgedSnaps::KIND => {
                let asked = MMonGetPurgedSnaps::decode(msg).unwrap();
                let reply = MMonGetPurgedSnapsReply { start: asked.start, last: asked.last, ..MMonGetPurgedSnapsReply::default() };
                let node = self.nodes[id].as_mut().expect("it asked");
                node.inbox.push_back(Event::Mon(reply.encode(features::SUPPORTED)));
            }
            MOSDBoot::KIND => {
                let boot = MOSDBoot::decode(msg).unwrap();
                let public = self.nodes[id].as_ref().expect("it boots").public.clone();
                if self.map.is_up(id as OsdId) {
                    self.mark_down(id);
                }
                self.publish(|m| {
                    m.osd_state[id] |= osd_state::UP;
                    (m.osd_info[id].up_from, m.osd_uuid[id]) = (m.epoch, uuid(10 + id as u8));
                    m.client_addrs[id] = public;
                    (m.cluster_addrs[id], m.hb_back_addrs[id]) = (boot.cluster_addrs, boot.hb_back_addrs);
                    m.hb_front_addrs[id] = boot.hb_front_addrs;
                    m.osd_xinfo[id].features = boot.osd_features;
                });
            }
            _ => {}
        }
    }

    /// Requests that come to an OSD at once, until each is answered and no OSD has anything to say: no more than that is done here, so that
    /// it can be counted.
    #[inline(never)]
    pub fn measured(&mut self, to: usize, batch: Vec<RawMessage>) {
        let (wanted, clock) = (batch.len(), self.clock());
        let mut inboxes: Vec<Vec<Event>> = self.nodes.iter().map(|_| Vec::new()).collect();
        inboxes[to].extend(batch.into_iter().map(|msg| Event::Message { conn: CLIENT, msg }));
        let (mut out, mut answers, mut rounds) = (Vec::new(), 0, 0);
        while answers < wanted || inboxes.iter().any(|inbox| !inbox.is_empty()) {
            rounds += 1;
            assert!(rounds < 10_000, "{answers} of {wanted} answers");
            for (id, node) in self.nodes.iter_mut().enumerate() {
                let osd = &mut node.as_mut().expect("it runs").osd;
                std::mem::take(&mut inboxes[id]).into_iter().for_each(|event| osd.handle(event, clock, &mut out));
                osd.handle(Event::TurnEnd, clock, &mut out);
                for effect in out.drain(..) {
                    match effect {
                        Effect::Send { conn: CLIENT, .. } => answers += 1,
                        Effect::SendOsd { osd, msg, .. } => {
                            inboxes[osd as usize].push(Event::Osd { osd: id as OsdId, msg: received(&msg) })
                        }
                        Effect::Continue => inboxes[id].push(Event::Continue),
                        _ => {}
                    }
                }
            }
        }
        assert_eq!(answers, wanted, "one answer a request");
    }

    /// One thing that can happen happens. False if there is none.
    pub fn step(&mut self) -> bool {
        let inboxes = self.nodes.iter().enumerate().filter(|(_, n)| n.as_ref().is_some_and(|n| !n.inbox.is_empty())).map(|(id, _)| id);
        let inboxes: Vec<usize> = inboxes.filter(|id| !self.lagging.contains(id)).collect();
        let moves = |(at, q): &(&(OsdId, OsdId), &VecDeque<RawMessage>)| !q.is_empty() && !self.cut.contains(at);
        let queues: Vec<(OsdId, OsdId)> = self.queues.iter().filter(moves).map(|(at, _)| *at).collect();
        if inboxes.is_empty() && queues.is_empty() {
            return false;
        }
        let at = self.rng.below((inboxes.len() + queues.len()) as u64) as usize;
        if let Some(id) = inboxes.get(at) {
            let event = self.nodes[*id].as_mut().and_then(|n| n.inbox.pop_front()).expect("looked at above");
            self.feed(*id, event);
        } else {
            let (from, to) = queues[at - inboxes.len()];
            let msg = self.queues.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("looked at above");
            self.feed(to as usize, Event::Osd { osd: from, msg });
        }
        true
    }
    /// Until nothing more happens by itself, and some seconds more.
    pub fn settle(&mut self) {
        for _ in 0..5 {
            for steps in 0.. {
                assert!(steps < 200_000, "messages without end");
                if !self.step() {
                    break;
                }
            }
            self.tick();
        }
        while self.step() {}
    }
    pub fn tick(&mut self) {
        self.now_ms += 1000;
        for id in 0..self.nodes.len() {
            self.feed(id, Event::Tick);
        }
    }

    /// Each OSD hears from each other how far that one's clock is ahead: all have one clock here. A lease that is granted then can be
    /// reckoned with.
    pub fn synchronise(&mut self) {
        let now = self.clock().mono.0 as i64;
        let count = self.nodes.len();
        for (osd, other) in (0..count).flat_map(|osd| (0..count).map(move |other| (osd, other))).filter(|(osd, other)| osd != other) {
            let (conn, at) = (ConnId(50 + other as u64), addr(6802 + 10 * other as u16, 1));
            let peer = Peer {
                name: EntityName::osd(other as i64),
                entity: format!("osd.{other}"),
                global_id: 0,
                features: features::SUPPORTED,
                supported: features::SUPPORTED,
                addr: at,
                from: at,
                network: Network::HbBack,
                cap: None,
            };
            let pong = MOSDPing {
                fsid: uuid(1),
                map_epoch: self.map.epoch,
                op: ping_op::PING_REPLY,
                up_from: self.map.osd_info[other].up_from,
                mono_ping_stamp: SpanNs(now),
                mono_send_stamp: SpanNs(now),
                delta_ub: Some(SpanNs(0)),
                ..MOSDPing::default()
            };
            self.feed(osd, Event::Connected { conn, peer });
            self.feed(osd, Event::Heartbeat { conn, net: HbNet::Back, msg: pong.encode(features::SUPPORTED) });
        }
        // The next renewal of the lease.
        for _ in 0..9 {
            self.tick();
            while self.step() {}
        }
    }
    pub fn primary(&self, pgid: PgId) -> OsdId {
        self.map.pg_to_up_acting(pgid, &mut Placement::default()).acting_primary
    }
    pub fn request(&mut self, name: &str, ops: Vec<InOp>) -> MOSDOp {
        self.tid += 1;
        request(&self.map, self.tid, name, ops)
    }
    /// On its way to the primary, if that runs.
    pub fn give(&mut self, m: &MOSDOp) {
        let to = self.primary(m.pgid.pgid);
        if let Some(node) = usize::try_from(to).ok().and_then(|to| self.nodes[to].as_mut()) {
            node.inbox.push_back(Event::Message { conn: CLIENT, msg: received(&m.encode(features::SUPPORTED)) });
        }
    }
    /// One request, until it is answered and all is quiet.
    pub fn one(&mut self, name: &str, ops: Vec<InOp>) -> Option<MOSDOpReply> {
        let m = self.request(name, ops);
        self.give(&m);
        self.settle();
        let at = self.replies.iter().position(|r| r.tid == m.tid)?;
        Some(self.replies.remove(at))
    }
    pub fn read(&mut self, name: &str) -> Result<Vec<u8>, i32> {
        let r = self
            .one(name, vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())])
            .unwrap_or_else(|| panic!("a read of {name} is not answered: {:?} {:?}", self.states(), self.errors));
        if r.result < 0 { Err(-r.result) } else { Ok(r.ops[0].outdata.to_vec()) }
    }

    /// What an OSD answers to a command: errno, its line and its output.
    pub fn command(&mut self, id: usize, command: &serde_json::Value) -> (i32, String, String) {
        let m = MCommand { fsid: uuid(1), cmd: vec![command.to_string()], ..MCommand::default() };
        self.feed(id, Event::Message { conn: CLIENT, msg: received(&m.encode(features::SUPPORTED)) });
        let reply = self.told.pop().expect("a command is answered");
        (-reply.result, reply.status, String::from_utf8_lossy(&reply.data).into_owned())
    }

    /// Every copy of every group is the same: objects, logs, and how far they are complete.
    pub fn assert_copies_equal(&self) {
        for seed in 0..self.map.pools[&POOL].pg_num {
            let pgid = SpgId::whole(PgId::new(POOL, seed));
            let acting = self.map.pg_to_up_acting(pgid.pgid, &mut Placement::default()).acting;
            let copies: Vec<(OsdId, String)> = acting.iter().map(|osd| (*osd, self.copy_of(*osd, pgid))).collect();
            for (osd, copy) in &copies[1..] {
                assert_eq!(copy, &copies[0].1, "{pgid}: osd.{osd} and osd.{} differ", copies[0].0);
            }
        }
    }
    /// Every copy of every object is the same.
    pub fn assert_objects_equal(&self, what: &str) {
        for seed in 0..self.map.pools[&POOL].pg_num {
            let pgid = SpgId::whole(PgId::new(POOL, seed));
            let acting = self.map.pg_to_up_acting(pgid.pgid, &mut Placement::default()).acting;
            let copies: Vec<String> = acting.iter().map(|osd| self.objects_of(*osd, pgid)).collect();
            assert!(copies.windows(2).all(|two| two[0] == two[1]), "{what}: {pgid}: {copies:#?} {:?}", self.errors);
        }
    }
    /// What happened behind the back of an OSD that was killed.
    pub fn damage(&mut self, id: usize, txn: types::Transaction) {
        let mut store = self.stores[&id].borrow_mut();
        let journal = store.journal.as_mut().expect("kept from the start");
        journal.push((txn, None));
        store.committed = store.journal.as_ref().map_or(0, Vec::len);
    }
    /// A group on one OSD, as text.
    fn copy_of(&self, osd: OsdId, pgid: SpgId) -> String {
        let node = self.nodes[osd as usize].as_ref().expect("a member runs");
        let store = node.osd.store();
        let record = store.load_pg(pgid).unwrap().unwrap_or_else(|| panic!("osd.{osd} has no {pgid}"));
        assert!(record.rolled_forward_to.is_none(), "{pgid} on osd.{osd}: copies keep no mark of roll-forward");
        let entries: Vec<String> = record.log.iter().map(|e| format!("{} {} {}", e.version, e.op.name(), e.soid)).collect();
        let i = &record.info;
        let mut text = format!("{} {} {} {}\n{entries:?}\n", i.last_update, i.last_complete, i.log_tail, i.last_user_version);
        text += &format!("{:?} missing {:?} {:?}\n", record.dups.len(), record.missing, i.stats.stats.sum);
        text + &self.objects_of(osd, pgid)
    }
    /// The objects of every copy of every group are the same, and so is how many there are said to be.
    pub fn assert_filled_equal(&self) {
        for seed in 0..self.map.pools[&POOL].pg_num {
            let pgid = SpgId::whole(PgId::new(POOL, seed));
            let acting = self.map.pg_to_up_acting(pgid.pgid, &mut Placement::default()).acting;
            let of = |osd: OsdId| {
                let record =
                    self.nodes[osd as usize].as_ref().expect("a member runs").osd.store().load_pg(pgid).unwrap().expect("it is there");
                let (i, sum) = (&record.info, &record.info.stats.stats.sum);
                assert!(record.missing.is_empty() && i.last_backfill.max, "{pgid}: osd.{osd}: {:?} {:?}", record.missing, i.last_backfill);
                format!("{} {} {}\n{}", i.last_update, sum.num_objects, sum.num_bytes, self.objects_of(osd, pgid))
            };
            let first = of(acting[0]);
            for osd in &acting[1..] {
                assert_eq!(of(*osd), first, "{pgid}: osd.{osd} and osd.{} differ", acting[0]);
            }
        }
    }
    /// Its objects, as text.
    fn objects_of(&self, osd: OsdId, pgid: SpgId) -> String {
        let node = self.nodes[osd as usize].as_ref().expect("a member runs");
        let (store, coll) = (node.osd.store(), CollId::Pg(pgid));
        let mut text = String::new();
        for obj in store.list(coll, &GHObject::min(), &GHObject::max(), 100_000).unwrap().objects {
            let size = store.stat(coll, &obj).unwrap().size;
            let data = store.read(coll, &obj, 0, size).unwrap().flat();
            let mut omap = Vec::new();
            let visit = &mut |key: &types::ByteStr, value: &Bytes| {
                omap.push((key.clone(), value.clone()));
                ControlFlow::Continue(())
            };
            store.omap_scan(coll, &obj, OmapFrom::Start, visit).unwrap();
            let header = store.omap_header(coll, &obj).unwrap();
            text += &format!("{:?} {data:?} {:?} {header:?} {omap:?}\n", obj.hobj, store.attrs(coll, &obj).unwrap());
        }
        text
    }
    /// How many objects one OSD has of a group; 0 if it has no such group.
    pub fn objects(&self, osd: usize, pgid: SpgId) -> usize {
        let store = self.nodes[osd].as_ref().expect("it runs").osd.store();
        store.list(CollId::Pg(pgid), &GHObject::min(), &GHObject::max(), 100_000).map_or(0, |page| page.objects.len())
    }
    /// How many clones one OSD has of a group.
    pub fn clones(&self, osd: usize, pgid: PgId) -> usize {
        let store = self.nodes[osd].as_ref().expect("it runs").osd.store();
        let page = store.list(CollId::Pg(SpgId::whole(pgid)), &GHObject::min(), &GHObject::max(), 100_000).unwrap();
        page.objects.iter().filter(|o| o.hobj.snap < CEPH_NOSNAP).count()
    }
    /// The index of snapshots on one OSD.
    pub fn snap_index(&self, osd: usize) -> Vec<Vec<u8>> {
        let object = GHObject::plain(HObject { oid: "snapmapper".into(), pool: -1, ..HObject::min() });
        let mut keys = Vec::new();
        let visit = &mut |key: &types::ByteStr, _: &Bytes| {
            keys.push(key.as_slice().to_vec());
            ControlFlow::Continue(())
        };
        let node = self.nodes[osd].as_ref().expect("it runs");
        node.osd.store().omap_scan(CollId::Meta, &object, OmapFrom::Start, visit).unwrap();
        keys
    }
    pub fn states(&self) -> Vec<String> {
        let of =
            |id: usize, node: &Node| node.osd.pgs().map(|pg| format!("{id}:{} {:?}", pg.pgid, pg.peering().state())).collect::<Vec<_>>();
        self.nodes.iter().enumerate().filter_map(|(id, n)| Some(of(id, n.as_ref()?))).flatten().collect()
    }
    /// Every group's primary says that it is clean.
    pub fn assert_clean(&self) {
        for seed in 0..self.map.pools[&POOL].pg_num {
            let pgid = PgId::new(POOL, seed);
            let primary = self.nodes[self.primary(pgid) as usize].as_ref().expect("a primary runs");
            let pg = primary.osd.pgs().find(|pg| pg.pgid.pgid == pgid);
            assert!(pg.is_some_and(|pg| pg.peering().is_clean()), "{pgid} is not clean: {:?}; {:?}", self.states(), self.errors);
        }
    }
    pub fn is_active(&self, pgid: PgId) -> bool {
        let node = usize::try_from(self.primary(pgid)).ok().and_then(|osd| self.nodes[osd].as_ref());
        node.is_some_and(|node| node.osd.pgs().any(|pg| pg.pgid.pgid == pgid && pg.peering().is_active()))
    }
}
