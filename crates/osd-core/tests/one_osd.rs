//! One OSD, a monitor made of a map that the test changes, and a store in memory: requests from end to end of the core.

use base::{Clock, Rng, Stamp};
use bytes::Bytes;
use maps::{OsdMap, PgPool, Release, map_flags, osd_state, pool_flags};
use messages::osd_client::backoff_op;
use messages::{InOp, MOSDAlive, MOSDBackoff, MOSDBoot, MOSDMap, MOSDOp, MOSDOpReply, MWatchNotify, Message, RawMessage};
use osd_core::{BootInfo, ConnId, Effect, Event, Osd, OsdSetup, Peer};
use std::sync::Arc;
use store_mem::MemStore;
use types::errno::{EINVAL, ENOENT, ENOTCONN};
use types::osd_op::{OpCode, WatchArgs, osd_flag, watch_op};
use types::{
    CEPH_NOSNAP, EntityAddr, EntityAddrVec, EntityName, HObject, OsdOp, PgId, SnapContext, SpgId, UTime, Uuid, features, pg_state,
};

const POOL: i64 = 1;

struct World {
    osd: Osd,
    map: OsdMap,
    out: Vec<Effect>,
    now_s: u64,
    tid: u64,
}

fn addr(port: u16, nonce: u32) -> EntityAddr {
    EntityAddr::msgr2(format!("127.0.0.1:{port}").parse().unwrap(), nonce)
}
fn uuid(n: u8) -> Uuid {
    Uuid([n; 16])
}

impl World {
    /// An OSD that is up in a map with a pool of `pg_num` groups.
    fn new(pg_num: u32) -> Self {
        let setup = OsdSetup {
            whoami: 0,
            cluster_fsid: uuid(1),
            osd_fsid: uuid(2),
            seed: 7,
            classes: &classes::BUILTIN,
            config: vec![("osd_min_pg_log_entries".into(), "50".into()), ("osd_max_pg_log_entries".into(), "50".into())],
        };
        let mut crush = crush::CrushMap::new_cluster("osd");
        let place = crush::Location::from([("root".to_string(), "default".to_string()), ("host".to_string(), "a".to_string())]);
        crush.insert_item(0, 0x10000, "osd.0", &place).unwrap();
        let mut map = OsdMap {
            fsid: uuid(1),
            epoch: 1,
            crush: Arc::new(crush),
            require_osd_release: Release::REEF,
            flags: map_flags::SORTBITWISE | map_flags::RECOVERY_DELETES | map_flags::PURGED_SNAPDIRS,
            ..OsdMap::default()
        };
        map.set_max_osd(1);
        map.osd_state[0] = osd_state::EXISTS;
        map.osd_weight[0] = 0x10000;
        let osd = Osd::new(setup, Box::new(MemStore::new(1 << 30)));
        let mut w = World { osd, map, out: Vec::new(), now_s: 100, tid: 0 };
        let one = |port| EntityAddrVec::one(addr(port, 9));
        let info = BootInfo { public: one(6800), cluster: one(6801), hb_front: one(6802), hb_back: one(6803), metadata: Vec::new() };
        w.feed(Event::Boot(Box::new(info)));
        assert!(w.out.iter().any(|e| matches!(e, Effect::AskMapVersions)));
        w.publish(|_| {});
        w.feed(Event::MapVersions { oldest: 1, newest: 2 });
        assert_eq!(w.sent_to_mon::<MOSDBoot>().len(), 1);
        w.publish(|m| {
            m.osd_state[0] |= osd_state::UP;
            m.osd_info[0].up_from = m.epoch;
            m.client_addrs[0] = one(6800);
            m.cluster_addrs[0] = one(6801);
            m.hb_front_addrs[0] = one(6802);
            m.hb_back_addrs[0] = one(6803);
            m.osd_xinfo[0].features = features::SUPPORTED;
        });
        assert!(w.osd.is_up());
        w.publish(|m| {
            let pool = PgPool {
                kind: PgPool::REPLICATED,
                size: 1,
                min_size: 1,
                pg_num,
                pgp_num: pg_num,
                pg_num_pending: pg_num,
                pg_num_target: pg_num,
                pgp_num_target: pg_num,
                object_hash: PgPool::HASH_RJENKINS,
                flags: pool_flags::HASHPSPOOL,
                last_change: m.epoch,
                ..PgPool::default()
            };
            m.pools.insert(POOL, pool);
            m.pool_names.insert(POOL, "p".into());
            m.pool_max = 1;
        });
        w.settle();
        w.connect(1, 4001);
        w
    }
    fn clock(&self) -> Clock {
        Clock { mono: Stamp(self.now_s * 1_000_000_000), wall_ns: 1_700_000_000_000_000_000 + self.now_s * 1_000_000_000 }
    }
    /// One event and the end of its turn.
    fn feed(&mut self, event: Event) {
        let clock = self.clock();
        self.osd.handle(event, clock, &mut self.out);
        self.osd.handle(Event::TurnEnd, clock, &mut self.out);
    }
    /// The next map.
    fn publish(&mut self, change: impl FnOnce(&mut OsdMap)) {
        self.map.epoch += 1;
        change(&mut self.map);
        let mut m = MOSDMap { fsid: uuid(1), newest: self.map.epoch, trim_lower_bound: 1, ..MOSDMap::default() };
        m.maps.insert(self.map.epoch, self.map.encode_canonical().0);
        self.feed(Event::Mon(m.encode(features::SUPPORTED)));
        assert_eq!(self.osd.map().epoch, self.map.epoch);
    }
    /// Does what the monitor does when it is asked for up_thru.
    fn settle(&mut self) {
        if let Some(want) = self.sent_to_mon::<MOSDAlive>().iter().map(|m| m.want).max() {
            self.publish(|m| m.osd_info[0].up_thru = m.osd_info[0].up_thru.max(want));
        }
        assert!(self.osd.pgs().all(|pg| pg.peering.is_clean()), "{:?}", self.osd.pgs().map(|p| p.peering.state()).collect::<Vec<_>>());
    }
    fn connect(&mut self, conn: u64, client: i64) {
        let peer = Peer {
            name: EntityName::client(client),
            entity: "client.admin".into(),
            global_id: client as u64,
            features: features::SUPPORTED,
            addr: addr(0, client as u32),
            cap: None,
        };
        self.feed(Event::Connected { conn: ConnId(conn), peer });
    }
    /// What went to the monitor since the last question.
    fn sent_to_mon<M: Message>(&mut self) -> Vec<M> {
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
    fn sent<M: Message>(&mut self, conn: u64) -> Vec<M> {
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

    fn request(&mut self, name: &str, ops: Vec<InOp>) -> MOSDOp {
        self.tid += 1;
        let pool = &self.map.pools[&POOL];
        let hash = pool.hash_key(name.as_bytes(), b"");
        let write = ops.iter().any(|o| o.op.code.is_write());
        let mut m = MOSDOp {
            tid: self.tid,
            pgid: SpgId::whole(PgId::new(POOL, pool.fold(hash))),
            hobj: HObject { oid: name.as_bytes().to_vec().into(), hash, pool: POOL, snap: CEPH_NOSNAP, ..HObject::min() },
            map_epoch: self.map.epoch,
            flags: osd_flag::ONDISK | if write { osd_flag::WRITE } else { osd_flag::READ },
            mtime: UTime { sec: 1, nsec: 2 },
            features: features::SUPPORTED,
            ..MOSDOp::default()
        };
        m.ops.extend(ops);
        m
    }
    fn send(&mut self, conn: u64, m: &MOSDOp) -> Vec<MOSDOpReply> {
        self.feed(Event::Message { conn: ConnId(conn), msg: received(&m.encode(features::SUPPORTED)) });
        self.sent(conn)
    }
    fn one(&mut self, name: &str, ops: Vec<InOp>) -> MOSDOpReply {
        let m = self.request(name, ops);
        let mut replies = self.send(1, &m);
        assert_eq!(replies.len(), 1, "one answer a request");
        assert_eq!(replies[0].tid, m.tid);
        replies.remove(0)
    }
    fn write(&mut self, name: &str, data: &[u8]) -> MOSDOpReply {
        self.one(name, vec![write_full(data)])
    }
    fn read(&mut self, name: &str) -> Result<Vec<u8>, i32> {
        let r = self.one(name, vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]);
        if r.result < 0 { Err(-r.result) } else { Ok(r.ops[0].outdata.to_vec()) }
    }
}

/// As it comes out of a socket: the data in one piece.
fn received(msg: &RawMessage) -> RawMessage {
    let data = msg.data_flat();
    RawMessage { data: if data.is_empty() { Vec::new() } else { vec![data] }, ..msg.clone() }
}
fn write_full(data: &[u8]) -> InOp {
    InOp::new(OsdOp::range(OpCode::WRITEFULL, 0, data.len() as u64), Bytes::copy_from_slice(data))
}
fn watch(op: u8, cookie: u64) -> InOp {
    InOp::new(OsdOp::with_watch(OpCode::WATCH, WatchArgs { cookie, op, timeout_s: 30, ..WatchArgs::default() }), Bytes::new())
}

#[test]
fn what_is_written_is_read() {
    let mut w = World::new(8);
    assert_eq!(w.read("a"), Err(ENOENT));
    let r = w.write("a", b"hello");
    assert_eq!((r.result, r.replay_version.version > 0, r.user_version > 0), (0, true, true));
    let acks = u64::from(osd_flag::ACK | osd_flag::ONDISK);
    assert_eq!(r.flags & acks, acks);
    assert_eq!(w.read("a").unwrap(), b"hello");
    assert_eq!(w.one("a", vec![InOp::new(OsdOp::new(OpCode::DELETE), Bytes::new())]).result, 0);
    assert_eq!(w.read("a"), Err(ENOENT));
    let sum: i64 = w.osd.pgs().map(|pg| pg.info.stats.stats.sum.num_objects).sum();
    assert_eq!(sum, 0);
}

#[test]
fn a_repeated_request_is_answered_and_not_executed_again() {
    let mut w = World::new(1);
    let append = || vec![InOp::new(OsdOp::range(OpCode::APPEND, 0, 1), Bytes::from_static(b"x"))];
    let m = w.request("a", append());
    let first = w.send(1, &m).remove(0);
    // Again on the same connection, and after a cut on another one.
    let again = w.send(1, &m).remove(0);
    assert_eq!((again.result, again.user_version, again.replay_version), (0, first.user_version, first.replay_version));
    w.feed(Event::Reset { conn: ConnId(1) });
    w.connect(2, 4001);
    assert_eq!(w.send(2, &MOSDOp { attempt: 1, ..m.clone() }).len(), 1);
    w.connect(1, 4001);
    assert_eq!(w.read("a").unwrap(), b"x");
    // Also a failed one: what made it fail is gone by then.
    let m = w.request("a", vec![InOp::new(OsdOp::with_snap(OpCode::CREATE, Default::default()), Bytes::new()); 1]);
    let mut m = m;
    m.ops[0].op.flags = types::osd_op::op_flag::EXCL;
    let failed = w.send(1, &m).remove(0).result;
    assert!(failed < 0);
    w.one("a", vec![InOp::new(OsdOp::new(OpCode::DELETE), Bytes::new())]);
    assert_eq!(w.send(1, &m).remove(0).result, failed);
    // Duplicates outlive the log's entries.
    let m = w.request("b", append());
    w.send(1, &m);
    for _ in 0..400 {
        w.write("c", b"1");
    }
    assert!(w.osd.pgs().next().unwrap().log.len() < 300);
    assert_eq!(w.send(1, &m).len(), 1);
    assert_eq!(w.read("b").unwrap(), b"x");
}

#[test]
fn a_batch_keeps_each_object_in_order() {
    let mut w = World::new(1);
    let clock = w.clock();
    let read = || vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())];
    // Write, read, write, read of one object and a read of another, all read from the socket at once.
    let ms = [
        w.request("a", vec![write_full(b"1")]),
        w.request("a", read()),
        w.request("a", vec![write_full(b"2")]),
        w.request("a", read()),
        w.request("b", read()),
    ];
    for m in &ms {
        w.osd.handle(Event::Message { conn: ConnId(1), msg: received(&m.encode(features::SUPPORTED)) }, clock, &mut w.out);
    }
    // Only the other object can be answered before the write is durable.
    let early = w.sent::<MOSDOpReply>(1);
    assert_eq!(early.iter().map(|r| r.tid).collect::<Vec<_>>(), [ms[4].tid]);
    w.osd.handle(Event::TurnEnd, clock, &mut w.out);
    let late = w.sent::<MOSDOpReply>(1);
    let tids: Vec<u64> = late.iter().map(|r| r.tid).collect();
    assert_eq!(tids.len(), 4, "{tids:?}");
    assert_eq!(late.iter().find(|r| r.tid == ms[1].tid).unwrap().ops[0].outdata, "1");
    assert_eq!(late.iter().find(|r| r.tid == ms[3].tid).unwrap().ops[0].outdata, "2");
    assert!(tids.windows(2).all(|t| t[0] < t[1]), "{tids:?}");
}

#[test]
fn what_was_sent_by_another_map_waits_or_is_dropped() {
    let mut w = World::new(4);
    w.write("a", b"1");
    // Ahead of our map: waits for it.
    let mut m = w.request("a", vec![write_full(b"2")]);
    m.map_epoch += 1;
    assert!(w.send(1, &m).is_empty());
    assert!(w.out.iter().any(|e| matches!(e, Effect::SubscribeMaps { .. })));
    w.publish(|_| {});
    assert_eq!(w.sent::<MOSDOpReply>(1).len(), 1);
    // For a group that doesn't hold the object: dropped.
    let mut m = w.request("a", vec![write_full(b"3")]);
    m.pgid.pgid.seed ^= 1;
    assert!(w.send(1, &m).is_empty());
    // By a map of before the pool existed.
    let mut m = w.request("a", vec![write_full(b"3")]);
    m.map_epoch = 2;
    w.connect(8, 4008);
    assert!(w.send(8, &m).is_empty());
    assert!(w.sent::<MOSDMap>(8).iter().any(|m| m.newest == w.map.epoch));
    assert_eq!(w.read("a").unwrap(), b"2");
    // Nonsense ends the connection and nothing else.
    w.feed(Event::Message { conn: ConnId(1), msg: RawMessage { kind: 42, version: 8, compat: 3, ..RawMessage::default() } });
    assert!(w.out.iter().any(|e| matches!(e, Effect::Close(ConnId(1)))));
}

#[test]
fn a_split_keeps_objects_and_requests() {
    for (from, to) in [(1, 8), (4, 6), (3, 16)] {
        let mut w = World::new(from);
        let mut rng = Rng::new(u64::from(to));
        let mut last = None;
        for i in 0..100 {
            let m = w.request(&format!("o{i}"), vec![write_full(&rng.u64().to_le_bytes())]);
            w.send(1, &m);
            last = Some(m);
        }
        let mut m = last.unwrap();
        let before = w.osd.pgs().map(|pg| pg.info.stats.stats.sum.num_objects).sum::<i64>();
        w.publish(|map| {
            let pool = map.pools.get_mut(&POOL).unwrap();
            (pool.pg_num, pool.pgp_num, pool.pg_num_pending, pool.last_change) = (to, to, to, map.epoch);
        });
        w.settle();
        assert_eq!(w.osd.pgs().count(), to as usize);
        let sums = |w: &World, f: fn(&types::ObjectStatSum) -> i64| w.osd.pgs().map(|pg| f(&pg.info.stats.stats.sum)).sum::<i64>();
        assert_eq!((sums(&w, |s| s.num_objects), sums(&w, |s| s.num_bytes)), (before, before * 8));
        let mut rng = Rng::new(u64::from(to));
        for i in 0..100 {
            assert_eq!(w.read(&format!("o{i}")).unwrap(), rng.u64().to_le_bytes(), "{from} to {to}, object {i}");
        }
        // What was answered before the split is known after it.
        let version = |w: &World| w.osd.pgs().map(|pg| pg.info.last_update.version).max();
        let was = version(&w);
        m.map_epoch = w.map.epoch;
        m.pgid.pgid.seed = w.map.pools[&POOL].fold(m.hobj.hash);
        assert_eq!(w.send(1, &m).len(), 1);
        assert_eq!(version(&w), was);
        w.write("new", b"1");
        // And back together.
        w.publish(|map| {
            let pool = map.pools.get_mut(&POOL).unwrap();
            (pool.pg_num, pool.pgp_num, pool.pg_num_pending, pool.last_change) = (from, from, from, map.epoch);
        });
        w.settle();
        assert_eq!(w.osd.pgs().count(), from as usize);
        assert_eq!(sums(&w, |s| s.num_objects), before + 1);
        let mut rng = Rng::new(u64::from(to));
        for i in 0..100 {
            assert_eq!(w.read(&format!("o{i}")).unwrap(), rng.u64().to_le_bytes(), "{to} to {from}, object {i}");
        }
    }
}

#[test]
fn a_pool_that_goes_takes_its_groups_along() {
    let mut w = World::new(4);
    w.write("a", b"1");
    w.publish(|m| {
        m.pools.clear();
        m.pool_names.clear();
    });
    assert_eq!((w.osd.pgs().count(), w.osd.store().collections().unwrap().len()), (0, 0));
    assert!(w.osd.store().pgs().unwrap().is_empty());
}

#[test]
fn watches_outlive_connections_and_end_with_their_time() {
    let mut w = World::new(1);
    w.write("a", b"1");
    assert_eq!(w.one("a", vec![watch(watch_op::WATCH, 77)]).result, 0);
    assert_eq!(w.one("a", vec![watch(watch_op::PING, 77)]).result, 0);
    w.connect(2, 4002);
    let notify = |w: &mut World| {
        let mut e = denc::Encoder::new(0);
        e.u32(1);
        e.u32(10);
        e.blob(b"ping");
        let op = OsdOp::with_notify(OpCode::NOTIFY, types::osd_op::NotifyArgs { cookie: 5 });
        let m = w.request("a", vec![InOp::new(op, e.finish())]);
        w.send(2, &m).remove(0)
    };
    let reply = notify(&mut w);
    let id = u64::from_le_bytes(reply.ops[0].outdata[..8].try_into().unwrap());
    let heard = w.sent::<MWatchNotify>(1).remove(0);
    assert_eq!((heard.cookie, heard.notify_id, heard.notifier_gid, &heard.payload[..]), (77, id, 4002, &b"ping"[..]));
    let mut e = denc::Encoder::new(0);
    e.u64(id);
    e.u64(77);
    e.blob(b"pong");
    let ack = OsdOp::with_notify(OpCode::NOTIFY_ACK, types::osd_op::NotifyArgs { cookie: 77 });
    assert_eq!(w.one("a", vec![InOp::new(ack, e.finish())]).result, 0);
    let done = w.sent::<MWatchNotify>(2).remove(0);
    assert_eq!((done.event, done.cookie, done.return_code), (2, 5, 0));
    assert!(done.answers.windows(4).any(|s| s == b"pong"));

    // The socket is cut: the watch stays, and comes back.
    w.feed(Event::Reset { conn: ConnId(1) });
    notify(&mut w);
    w.now_s += 5;
    w.connect(3, 4001);
    let m = w.request("a", vec![watch(watch_op::RECONNECT, 77)]);
    assert_eq!(w.send(3, &m).remove(0).result, 0);
    assert_eq!(w.sent::<MWatchNotify>(3).len(), 1, "what it missed comes again");
    w.now_s += 20;
    w.feed(Event::Tick);
    let timed_out = w.sent::<MWatchNotify>(2).remove(0);
    assert_eq!(timed_out.return_code, -types::errno::ETIMEDOUT);
    // It falls silent: the watch ends, and is no longer in the object's info.
    w.now_s += 31;
    w.feed(Event::Tick);
    assert_eq!(w.sent::<MWatchNotify>(3).remove(0).event, 3);
    let m = w.request("a", vec![watch(watch_op::PING, 77)]);
    assert_eq!(w.send(3, &m).remove(0).result, -ENOTCONN);
    w.connect(1, 4001);
    let list = w.one("a", vec![InOp::new(OsdOp::new(OpCode::LIST_WATCHERS), Bytes::new())]);
    assert_eq!(u32::from_le_bytes(list.ops[0].outdata[6..10].try_into().unwrap()), 0);
}

#[test]
fn removed_snapshots_are_trimmed_and_reported() {
    let mut w = World::new(1);
    let mut m = w.request("a", vec![write_full(b"old")]);
    w.send(1, &m);
    m = w.request("a", vec![write_full(b"new")]);
    m.snapc = SnapContext { seq: 2, snaps: vec![2] };
    w.send(1, &m);
    let objects = |w: &World| w.osd.pgs().next().unwrap().info.stats.stats.sum.num_objects;
    assert_eq!(objects(&w), 2);
    let mut at_snap = w.request("a", vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]);
    at_snap.hobj.snap = 2;
    assert_eq!(w.send(1, &at_snap).remove(0).ops[0].outdata, "old");
    // 2 has a clone; 5 has none and is done at once.
    w.publish(|m| {
        let removed = m.removed_snaps_queue.entry(POOL).or_default();
        removed.insert(2, 1);
        removed.insert(5, 1);
    });
    let purged = |w: &World, s| w.osd.pgs().next().unwrap().info.purged_snaps.contains_point(s);
    assert!(purged(&w, 5));
    for _ in 0..10 {
        w.feed(Event::Continue);
    }
    assert!(purged(&w, 2));
    assert_eq!(objects(&w), 1);
    assert_eq!(w.read("a").unwrap(), b"new");
    w.publish(|m| m.removed_snaps_queue.clear());
    assert!(!purged(&w, 2));
}

#[test]
fn capabilities_and_the_blocklist_are_looked_at() {
    let mut w = World::new(1);
    let peer = |cap: &str, n: u32| Peer {
        name: EntityName::client(n.into()),
        entity: "client.x".into(),
        global_id: n.into(),
        features: features::SUPPORTED,
        addr: addr(0, n),
        cap: Some(cephx::caps::OsdCap::parse(cap).unwrap_or_default()),
    };
    w.write("a", b"1");
    w.feed(Event::Connected { conn: ConnId(5), peer: peer("allow r pool=p", 5) });
    w.feed(Event::Connected { conn: ConnId(6), peer: peer("allow rw pool=q", 6) });
    let read = w.request("a", vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]);
    let write = w.request("a", vec![write_full(b"2")]);
    assert_eq!(w.send(5, &read).remove(0).result, 0);
    assert_eq!(w.send(5, &write).remove(0).result, -types::errno::EPERM);
    assert_eq!(w.send(6, &read).remove(0).result, -types::errno::EPERM);
    w.one("a", vec![watch(watch_op::WATCH, 1)]);
    let barred = addr(0, 4001);
    w.publish(|m| {
        m.blocklist.insert(EntityAddr { kind: types::AddrType::ANY, ..barred }, UTime { sec: u32::MAX, nsec: 0 });
    });
    let m = w.request("a", vec![write_full(b"3")]);
    assert_eq!(w.send(1, &m).remove(0).result, -types::errno::EBLOCKLISTED);
    assert!(!w.osd.pgs().next().unwrap().has_watches());
}

#[test]
fn a_group_that_lacks_members_holds_requests_back() {
    let mut w = World::new(1);
    w.write("a", b"1");
    let set = |w: &mut World, size| {
        w.publish(|m| {
            let pool = m.pools.get_mut(&POOL).unwrap();
            (pool.size, pool.min_size) = (size, size);
        });
        if let Some(want) = w.sent_to_mon::<MOSDAlive>().iter().map(|m| m.want).max() {
            w.publish(|m| m.osd_info[0].up_thru = want);
        }
    };
    set(&mut w, 2);
    let bits = w.osd.pgs().next().unwrap().state_bits();
    assert_eq!(pg_state::to_text(bits), "undersized+peered");
    let m = w.request("a", vec![write_full(b"2")]);
    assert!(w.send(1, &m).is_empty());
    let block = w.sent::<MOSDBackoff>(1).remove(0);
    assert_eq!((block.op, block.pgid), (backoff_op::BLOCK, m.pgid));
    set(&mut w, 1);
    let lifted = w.sent::<MOSDBackoff>(1).remove(0);
    assert_eq!((lifted.op, lifted.id), (backoff_op::UNBLOCK, block.id));
    assert_eq!(w.send(1, &m).len(), 1);
    assert_eq!(w.read("a").unwrap(), b"2");
}

#[test]
fn bad_requests_are_answered() {
    let mut w = World::new(1);
    assert_eq!(w.one("", vec![write_full(b"1")]).result, -EINVAL);
    let long = "x".repeat(3000);
    assert_eq!(w.one(&long, vec![write_full(b"1")]).result, -types::errno::ENAMETOOLONG);
    let r = w.one("a", vec![InOp::new(OsdOp::new(OpCode(0x22ff)), Bytes::new())]);
    assert_eq!(r.result, -types::errno::EOPNOTSUPP);
}

/// Requests whose frames are whole and whose content isn't: each is answered, dropped or ends its own connection, and nobody else's.
#[test]
fn damaged_content_harms_nobody_else() {
    let mut w = World::new(2);
    w.write("good", b"1");
    let mut rng = Rng::new(11);
    let omap = |w: &mut World| {
        let mut e = denc::Encoder::new(0);
        e.u32(1);
        e.blob(b"key");
        e.blob(b"value");
        w.request("a", vec![InOp::new(OsdOp::new(OpCode::OMAPSETVALS), e.finish())])
    };
    for round in 0..3000_u64 {
        let m = match round % 5 {
            0 => w.request("a", vec![write_full(b"data")]),
            1 => w.request("a", vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new()), watch(watch_op::WATCH, round)]),
            2 => omap(&mut w),
            3 => {
                let call = types::osd_op::CallArgs { class_len: 4, method_len: 4, argc: 0, indata_len: 3 };
                w.request("a", vec![InOp::new(OsdOp::with_call(OpCode::CALL, call), Bytes::from_static(b"locklockxyz"))])
            }
            _ => w.request("", vec![InOp::new(OsdOp::with_pgls(OpCode::PGNLS, Default::default()), Bytes::new())]),
        };
        let mut raw = received(&m.encode(features::SUPPORTED));
        let mut bytes = if rng.chance(1, 3) { raw.data_flat().to_vec() } else { raw.front.to_vec() };
        let in_data = bytes.len() != raw.front.len() || bytes[..] != raw.front[..];
        for _ in 0..1 + rng.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(4) {
                0 => bytes.truncate(at),
                1 => bytes[at] = 0xff,
                2 => bytes[at] ^= 1 << rng.below(8),
                _ => bytes[at] = rng.u64() as u8,
            }
        }
        if in_data {
            raw.data = vec![bytes.into()];
        } else {
            raw.front = bytes.into();
        }
        if rng.chance(1, 10) {
            raw.kind = [97, 61, 70, 131, 130, 41, 44, 43, 120][rng.below(9) as usize];
        }
        let conn = 1000 + round;
        w.connect(conn, 5000 + round as i64);
        w.feed(Event::Message { conn: ConnId(conn), msg: raw });
        w.feed(Event::Reset { conn: ConnId(conn) });
        if round % 100 == 0 {
            w.now_s += 40;
            w.feed(Event::Tick);
            assert_eq!(w.read("good").unwrap(), b"1");
        }
        assert!(!w.out.iter().any(|e| matches!(e, Effect::Stop { .. } | Effect::Close(ConnId(1)))));
        w.out.clear();
    }
    w.write("good", b"2");
    assert_eq!(w.read("good").unwrap(), b"2");
}

/// Prints what the core and the store in memory cost a 4 KiB request, without the wire. `--release` for figures that mean something.
#[test]
#[ignore = "measures"]
fn what_a_request_costs() {
    const OBJECTS: u64 = 64;
    const BATCH: usize = 16;
    let mut w = World::new(32);
    let data = Bytes::from(vec![7; 4096]);
    let mut rng = Rng::new(3);
    w.out.clear();
    for round in 0..3 {
        for write in [true, false] {
            let raws: Vec<RawMessage> = (0..32_768)
                .map(|_| {
                    let (name, at) = (format!("object.{:016x}", rng.below(OBJECTS)), rng.below(1024) * 4096);
                    let op = if write {
                        InOp::new(OsdOp::range(OpCode::WRITE, at, 4096), data.clone())
                    } else {
                        InOp::new(OsdOp::range(OpCode::READ, at, 4096), Bytes::new())
                    };
                    received(&w.request(&name, vec![op]).encode(features::SUPPORTED))
                })
                .collect();
            let clock = w.clock();
            let started = std::time::Instant::now();
            for batch in raws.chunks(BATCH) {
                for raw in batch {
                    w.osd.handle(Event::Message { conn: ConnId(1), msg: raw.clone() }, clock, &mut w.out);
                }
                w.osd.handle(Event::TurnEnd, clock, &mut w.out);
                assert_eq!(w.out.len(), batch.len());
                w.out.clear();
            }
            let ns = started.elapsed().as_nanos() / raws.len() as u128;
            println!("round {round}: {ns} ns a {}", if write { "write" } else { "read" });
        }
    }
}
