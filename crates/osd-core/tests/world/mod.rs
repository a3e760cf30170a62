//! An OSD, a monitor made of a map that the test changes, and clients.

#![allow(dead_code)] // each test program uses a part

pub mod parts;
pub mod store;

use self::parts::{add_pool, client, first_map, listens, request};
use self::store::{Control, TestStore};
use base::{Clock, Stamp};
use bytes::Bytes;
use maps::{OsdMap, osd_state};
use messages::{InOp, MMonGetPurgedSnaps, MMonGetPurgedSnapsReply, MOSDAlive, MOSDBoot, MOSDMap, MOSDOp, MOSDOpReply, Message, RawMessage};
#[cfg(debug_assertions)]
use osd_core::planted::{Bug, plant};
use osd_core::{BootInfo, ConnId, Effect, Event, Osd, OsdSetup};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::osd_op::{OpCode, WatchArgs};
use types::{EntityAddr, Epoch, OsdOp, Uuid, features};

pub const POOL: i64 = 1;

/// What the store is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything is at hand.
    Memory,
    /// What is asked for must be fetched now and then.
    Fetching(u64),
}

impl Kind {
    pub fn seed(self) -> Option<u64> {
        match self {
            Self::Memory => None,
            Self::Fetching(seed) => Some(seed),
        }
    }
}

pub struct World {
    pub osd: Osd,
    pub store: Rc<RefCell<Control>>,
    pub map: OsdMap,
    /// Encoded, as the monitor keeps them.
    pub maps: BTreeMap<Epoch, Bytes>,
    pub out: Vec<Effect>,
    pub now_s: u64,
    pub tid: u64,
    starts: u32,
    /// Turns that follow an event: a store on devices takes some until it has what was asked for.
    turns: u32,
}

pub fn addr(port: u16, nonce: u32) -> EntityAddr {
    EntityAddr::msgr2(format!("127.0.0.1:{port}").parse().unwrap(), nonce)
}
pub fn uuid(n: u8) -> Uuid {
    Uuid([n; 16])
}
pub fn setup() -> OsdSetup {
    OsdSetup {
        whoami: 0,
        cluster_fsid: uuid(1),
        osd_fsid: uuid(2),
        seed: 7,
        classes: &classes::BUILTIN,
        config: vec![("osd_min_pg_log_entries".into(), "50".into()), ("osd_max_pg_log_entries".into(), "50".into())],
    }
}

impl World {
    /// An OSD that is up in a map with a pool of `pg_num` groups.
    pub fn new(kind: Kind, pg_num: u32) -> Self {
        let (store, control) = TestStore::new(kind.seed());
        Self::with_store(store, control, pg_num)
    }
    pub fn with_store(store: TestStore, control: Rc<RefCell<Control>>, pg_num: u32) -> Self {
        Self::with_osd(Osd::new(setup(), Box::new(store)), control, pg_num)
    }
    pub fn with_osd(osd: Osd, control: Rc<RefCell<Control>>, pg_num: u32) -> Self {
        Self::with_turns(osd, control, pg_num, 1)
    }
    /// Over a store of any kind, which nothing in [`Control`] changes.
    pub fn over(store: Box<dyn ::store::ObjectStore>, pg_num: u32) -> Self {
        Self::with_turns(Osd::new(setup(), store), Rc::default(), pg_num, 4)
    }
    fn with_turns(osd: Osd, control: Rc<RefCell<Control>>, pg_num: u32, turns: u32) -> Self {
        let map = first_map(1);
        let maps = BTreeMap::from([(1, map.encode_canonical().0)]);
        let mut w = World { osd, store: control, map, maps, out: Vec::new(), now_s: 100, tid: 0, starts: 0, turns };
        w.boot();
        w.publish(|m| add_pool(m, 1, 1, pg_num));
        w.settle();
        w.connect(1, 4001);
        w
    }
    /// Before it boots an OSD asks what was purged while it was away; a monitor may answer in parts.
    pub fn answer_purged_snaps(&mut self) {
        let mut have = None;
        while let Some(asked) = self.sent_to_mon::<MMonGetPurgedSnaps>().pop() {
            assert!(have.is_none_or(|have| asked.start == have + 1) && self.sent_to_mon::<MOSDBoot>().is_empty());
            let last = if have.is_none() { asked.start } else { asked.last };
            have = Some(last);
            let reply = MMonGetPurgedSnapsReply { start: asked.start, last, ..MMonGetPurgedSnapsReply::default() };
            self.feed(Event::Mon(reply.encode(features::SUPPORTED)));
        }
        assert!(have.is_none_or(|have| have >= self.osd.map().epoch));
    }
    /// The OSD listens, and the monitor does its part until the map shows it up.
    pub fn boot(&mut self) {
        self.starts += 1;
        self.feed(Event::Boot(Box::new(self.info())));
        self.comes_up();
    }
    /// Where it listens.
    fn info(&self) -> BootInfo {
        listens(6800, 8 + self.starts)
    }
    /// It asks to boot, and the monitor does its part.
    pub fn comes_up(&mut self) {
        let info = self.info();
        assert!(self.out.iter().any(|e| matches!(e, Effect::AskMapVersions)), "{:?}", self.out);
        let newest = self.map.epoch;
        if self.osd.map().epoch < newest {
            self.feed(Event::MapVersions { oldest: 1, newest });
            if self.osd.map().epoch == 0 {
                self.send_maps(newest);
            }
        }
        self.feed(Event::Tick);
        let mut boots = self.sent_to_mon::<MOSDBoot>();
        if boots.is_empty() {
            self.send_maps(self.osd.map().epoch + 1);
            self.feed(Event::MapVersions { oldest: 1, newest });
            self.answer_purged_snaps();
            self.feed(Event::MapVersions { oldest: 1, newest });
            boots = self.sent_to_mon();
        }
        assert_eq!(boots.len(), 1);
        if self.osd.map().epoch < newest {
            self.send_maps(self.osd.map().epoch + 1);
        }
        if self.map.is_up(0) {
            self.publish(|m| m.osd_state[0] &= !osd_state::UP);
        }
        self.publish(|m| {
            m.osd_state[0] |= osd_state::UP;
            m.osd_info[0].up_from = m.epoch;
            m.client_addrs[0] = info.public;
            m.cluster_addrs[0] = info.cluster;
            m.hb_front_addrs[0] = info.hb_front;
            m.hb_back_addrs[0] = info.hb_back;
            m.osd_xinfo[0].features = features::SUPPORTED;
        });
        assert!(self.osd.is_up());
    }
    /// The OSD dies; another one starts on what is left, which `store` makes of what was submitted. Clients are gone too.
    pub fn restart(&mut self, store: impl FnOnce(&Control) -> (TestStore, Rc<RefCell<Control>>)) {
        let (store, control) = store(&self.store.borrow());
        self.osd = Osd::new(setup(), Box::new(store));
        self.store = control;
        self.out.clear();
        self.boot();
        self.settle();
    }
    pub fn clock(&self) -> Clock {
        Clock { mono: Stamp(self.now_s * 1_000_000_000), wall_ns: 1_700_000_000_000_000_000 + self.now_s * 1_000_000_000 }
    }
    /// One event and the end of its turn.
    pub fn feed(&mut self, event: Event) {
        let clock = self.clock();
        self.osd.handle(event, clock, &mut self.out);
        self.turn_end();
    }
    /// Requests that came are gathered until anything else happens: here, that a client goes that was never there.
    pub fn go_to_their_groups(&mut self, clock: Clock) {
        self.osd.handle(Event::Reset { conn: ConnId(u64::MAX) }, clock, &mut self.out);
    }
    /// The end of a turn, and of those in which the store has news.
    pub fn turn_end(&mut self) {
        let clock = self.clock();
        for _ in 0..self.turns {
            self.osd.handle(Event::TurnEnd, clock, &mut self.out);
        }
        let mut turns = 0;
        while self.store.borrow().is_fetching() {
            self.osd.handle(Event::TurnEnd, clock, &mut self.out);
            turns += 1;
            assert!(turns < 100_000, "the store's news lead nowhere");
        }
    }
    /// As long as the OSD wants turns of its own.
    pub fn go_on(&mut self) {
        for turn in 0.. {
            let before = self.out.len();
            self.out.retain(|e| !matches!(e, Effect::Continue));
            if self.out.len() == before {
                return;
            }
            assert!(turn < 100_000, "turns without end");
            self.feed(Event::Continue);
        }
    }
    /// The next map.
    pub fn publish(&mut self, change: impl FnOnce(&mut OsdMap)) {
        self.map.epoch += 1;
        change(&mut self.map);
        self.maps.insert(self.map.epoch, self.map.encode_canonical().0);
        self.send_maps(self.map.epoch);
        assert_eq!(self.osd.map().epoch, self.map.epoch);
    }
    /// What the monitor has from this epoch on.
    pub fn send_maps(&mut self, from: Epoch) {
        let mut m = MOSDMap { fsid: uuid(1), newest: self.map.epoch, trim_lower_bound: 1, ..MOSDMap::default() };
        m.maps = self.maps.range(from..).map(|(e, m)| (*e, m.clone())).collect();
        self.feed(Event::Mon(m.encode(features::SUPPORTED)));
    }
    /// Does what the monitor does when it is asked for up_thru.
    pub fn settle(&mut self) {
        if let Some(want) = self.sent_to_mon::<MOSDAlive>().iter().map(|m| m.want).max() {
            self.publish(|m| m.osd_info[0].up_thru = m.osd_info[0].up_thru.max(want));
        }
        assert!(self.osd.pgs().all(|pg| pg.peering().is_clean()), "{:?}", self.osd.pgs().map(|p| p.peering().state()).collect::<Vec<_>>());
    }
    pub fn connect(&mut self, conn: u64, id: i64) {
        let peer = client(id);
        self.feed(Event::Connected { conn: ConnId(conn), peer });
    }
    /// What went to the monitor since the last question.
    pub fn sent_to_mon<M: Message>(&mut self) -> Vec<M> {
        let mut found = Vec::new();
        self.out.retain(|e| match e {
            Effect::SendMon(msg) if msg.kind == M::KIND => {
                found.push(M::decode(msg).unwrap());
                false
            }
            _ => true,
        });
        found
    }
    /// What went to a connection.
    pub fn sent<M: Message>(&mut self, conn: u64) -> Vec<M> {
        let mut found = Vec::new();
        self.out.retain(|e| match e {
            Effect::Send { conn: to, msg } if to.0 == conn && msg.kind == M::KIND => {
                found.push(M::decode(&received(msg)).unwrap());
                false
            }
            _ => true,
        });
        found
    }

    pub fn request(&mut self, name: &str, ops: Vec<InOp>) -> MOSDOp {
        self.tid += 1;
        request(&self.map, self.tid, name, ops)
    }
    pub fn send(&mut self, conn: u64, m: &MOSDOp) -> Vec<MOSDOpReply> {
        self.feed(Event::Message { conn: ConnId(conn), msg: received(&m.encode(features::SUPPORTED)) });
        let mut replies = self.sent(conn);
        for _ in 0..if self.turns > 1 { 400 } else { 0 } {
            if !replies.is_empty() {
                break;
            }
            self.turn_end();
            replies = self.sent(conn);
        }
        replies
    }
    pub fn one(&mut self, name: &str, ops: Vec<InOp>) -> MOSDOpReply {
        let m = self.request(name, ops);
        let mut replies = self.send(1, &m);
        assert_eq!(replies.len(), 1, "one answer a request");
        assert_eq!(replies[0].tid, m.tid);
        replies.remove(0)
    }
    pub fn write(&mut self, name: &str, data: &[u8]) -> MOSDOpReply {
        self.one(name, vec![write_full(data)])
    }
    pub fn read(&mut self, name: &str) -> Result<Vec<u8>, i32> {
        let r = self.one(name, vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]);
        if r.result < 0 { Err(-r.result) } else { Ok(r.ops[0].outdata.to_vec()) }
    }
}

/// True if `f` fails with a promise broken: `osd_core::planted` for programs beside the crate.
#[cfg(debug_assertions)]
pub fn is_noticed(bug: Bug, f: fn()) -> bool {
    plant(Some(bug));
    let fails = std::panic::catch_unwind(f).is_err();
    plant(None);
    fails
}

/// As it comes out of a socket: the data in one piece.
pub fn received(msg: &RawMessage) -> RawMessage {
    let data = msg.data_flat();
    RawMessage { data: if data.is_empty() { Vec::new() } else { vec![data] }, ..msg.clone() }
}
pub fn write_full(data: &[u8]) -> InOp {
    InOp::new(OsdOp::range(OpCode::WRITEFULL, 0, data.len() as u64), Bytes::copy_from_slice(data))
}
pub fn watch(op: u8, cookie: u64) -> InOp {
    InOp::new(OsdOp::with_watch(OpCode::WATCH, WatchArgs { cookie, op, timeout_s: 30, ..WatchArgs::default() }), Bytes::new())
}
