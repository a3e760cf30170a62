//! One OSD, a monitor made of a map that the test changes, and a store in memory: requests from end to end of the core.
//!
//! Each case runs twice: on a store that has everything at hand, and on one that must fetch what it is asked for, now and then.

use crate::world::{Kind, POOL, World, addr, received, watch, write_full};
use base::Rng;
use bytes::Bytes;
use messages::osd_client::backoff_op;
use messages::{
    InOp, MMonGetPurgedSnapsReply, MOSDAlive, MOSDBackoff, MOSDBoot, MOSDMap, MOSDOp, MOSDOpReply, MOSDPGCreate2, MOSDPGReadyToMerge,
    MWatchNotify, Message, RawMessage,
};
use osd_core::daemon::Network;
use osd_core::{ConnId, Effect, Event, Peer};
use types::errno::{EINVAL, ENOENT, ENOTCONN};
use types::osd_op::{OpCode, osd_flag, watch_op};
use types::{EntityAddr, EntityName, OsdOp, PgId, SnapContext, SpgId, UTime, features, pg_state};

macro_rules! on_both {
    ($($name:ident)*) => {
        mod at_hand { $(#[test] fn $name() { super::$name(super::Kind::Memory) })* }
        mod fetching { $(#[test] fn $name() { (1..4).for_each(|seed| super::$name(super::Kind::Fetching(seed))) })* }
    };
}
on_both! {
    what_is_written_is_read
    a_repeated_request_is_answered_and_not_executed_again
    a_batch_keeps_each_object_in_order
    reads_wait_for_a_write_that_keeps_the_former_state_in_a_clone
    reads_of_an_object_wait_for_the_store_together
    what_was_sent_by_another_map_waits_or_is_dropped
    a_merge_waits_until_both_groups_are_quiet
    what_stands_against_a_boot_is_said_once
    clusters_of_five_releases_are_joined
    a_pool_with_erasure_codes_is_refused_by_name
    a_split_keeps_objects_and_requests
    a_pool_that_goes_takes_its_groups_along
    watches_outlive_connections_and_end_with_their_time
    removed_snapshots_are_trimmed_and_reported
    capabilities_and_the_blocklist_are_looked_at
    a_group_that_lacks_members_holds_requests_back
    bad_requests_are_answered
    damaged_content_harms_nobody_else
}

fn what_is_written_is_read(kind: Kind) {
    let mut w = World::new(kind, 8);
    assert_eq!(w.read("a"), Err(ENOENT));
    let r = w.write("a", b"hello");
    assert_eq!((r.result, r.replay_version.version > 0, r.user_version > 0), (0, true, true));
    let acks = u64::from(osd_flag::ACK | osd_flag::ONDISK);
    assert_eq!(r.flags & acks, acks);
    assert_eq!(w.read("a").unwrap(), b"hello");
    assert_eq!(w.one("a", vec![InOp::new(OsdOp::new(OpCode::DELETE), Bytes::new())]).result, 0);
    assert_eq!(w.read("a"), Err(ENOENT));
    let sum: i64 = w.osd.pgs().map(|pg| pg.record().info().stats.stats.sum.num_objects).sum();
    assert_eq!(sum, 0);
}

fn a_repeated_request_is_answered_and_not_executed_again(kind: Kind) {
    let mut w = World::new(kind, 1);
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
    assert!(w.osd.pgs().next().unwrap().record().log().len() < 300);
    assert_eq!(w.send(1, &m).len(), 1);
    assert_eq!(w.read("b").unwrap(), b"x");
}

fn reads_wait_for_a_write_that_keeps_the_former_state_in_a_clone(kind: Kind) {
    let mut w = World::new(kind, 1);
    w.write("a", b"former");
    w.store.borrow_mut().holds_commits = true;
    let mut m = w.request("a", vec![write_full(b"latter")]);
    m.snapc = SnapContext { seq: 1, snaps: vec![1] };
    assert!(w.send(1, &m).is_empty());
    // The write is not durable: no reader is shown what it made.
    let m = w.request("a", vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]);
    assert!(w.send(1, &m).is_empty());
    w.store.borrow_mut().holds_commits = false;
    w.turn_end();
    let answers = w.sent::<MOSDOpReply>(1);
    assert_eq!(answers.iter().map(|r| &r.ops[0].outdata[..]).collect::<Vec<_>>(), [&b""[..], b"latter"]);
}

fn a_batch_keeps_each_object_in_order(kind: Kind) {
    let mut w = World::new(kind, 1);
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
    w.go_to_their_groups(clock);
    // Only the other object can be answered before the write is durable.
    let early = w.sent::<MOSDOpReply>(1);
    assert!(early.iter().all(|r| r.tid == ms[4].tid) && (kind != Kind::Memory || early.len() == 1));
    w.turn_end();
    let late: Vec<_> = w.sent::<MOSDOpReply>(1).into_iter().filter(|r| r.tid != ms[4].tid).collect();
    let tids: Vec<u64> = late.iter().map(|r| r.tid).collect();
    assert_eq!(tids.len(), 4, "{tids:?}");
    assert_eq!(late.iter().find(|r| r.tid == ms[1].tid).unwrap().ops[0].outdata, "1");
    assert_eq!(late.iter().find(|r| r.tid == ms[3].tid).unwrap().ops[0].outdata, "2");
    assert!(tids.windows(2).all(|t| t[0] < t[1]), "{tids:?}");
}

fn reads_of_an_object_wait_for_the_store_together(kind: Kind) {
    let mut w = World::new(kind, 1);
    let clock = w.clock();
    assert_eq!(w.write("a", &[0xff; 100]).result, 0);
    let mut most = 0;
    for round in 0..20_u8 {
        let before = w.read("a").unwrap();
        // No two rounds ask for the same.
        let len = 20 + u64::from(round);
        let range = |n: u64| vec![InOp::new(OsdOp::range(OpCode::READ, n, len), Bytes::new())];
        let mut ms: Vec<_> = (0..4).map(|n| w.request("a", range(n))).collect();
        ms.push(w.request("a", vec![write_full(&[round; 100])]));
        ms.push(w.request("a", range(0)));
        let waits = w.store.borrow().waits();
        for m in &ms {
            w.osd.handle(Event::Message { conn: ConnId(1), msg: received(&m.encode(features::SUPPORTED)) }, clock, &mut w.out);
        }
        w.go_to_their_groups(clock);
        most = most.max(w.store.borrow().waits() - waits);
        let mut answers = w.sent::<MOSDOpReply>(1);
        w.turn_end();
        answers.extend(w.sent::<MOSDOpReply>(1));
        assert_eq!(answers.len(), 6);
        let of = |n: usize| answers.iter().position(|r| r.tid == ms[n].tid).unwrap();
        for n in 0..4 {
            assert_eq!(
                answers[of(n)].ops[0].outdata,
                before[n..n + len as usize],
                "read {n} of round {round} sees what was before the write"
            );
        }
        assert!((0..4).all(|n| of(n) < of(4)) && of(4) < of(5), "round {round}");
        assert_eq!(answers[of(5)].ops[0].outdata, vec![round; len as usize]);
    }
    assert!(kind == Kind::Memory || most >= 3, "{most}: they stood behind each other");
}

fn what_was_sent_by_another_map_waits_or_is_dropped(kind: Kind) {
    let mut w = World::new(kind, 4);
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

fn what_stands_against_a_boot_is_said_once(kind: Kind) {
    let mut w = World::new(kind, 1);
    w.publish(|m| {
        m.require_osd_release = maps::Release(21);
        m.osd_state[0] &= !maps::osd_state::UP;
    });
    let newest = w.map.epoch;
    for said in [1, 0] {
        w.out.clear();
        w.feed(Event::MapVersions { oldest: 1, newest });
        assert!(w.sent_to_mon::<MOSDBoot>().is_empty());
        let complaints = w.out.iter().filter(|e| matches!(e, Effect::Log { text, .. } if text.contains("OSDs of release 21"))).count();
        assert_eq!(complaints, said);
    }
    w.publish(|m| m.require_osd_release = maps::Release::TENTACLE);
    boots(&mut w);
}

/// Goes from the monitors' range of maps to the boot; its message.
fn boots(w: &mut World) -> MOSDBoot {
    let newest = w.map.epoch;
    w.feed(Event::MapVersions { oldest: 1, newest });
    w.feed(Event::Mon(
        MMonGetPurgedSnapsReply { start: 1, last: newest + 1, ..MMonGetPurgedSnapsReply::default() }.encode(features::SUPPORTED),
    ));
    w.feed(Event::MapVersions { oldest: 1, newest });
    let mut sent = w.sent_to_mon::<MOSDBoot>();
    assert_eq!(sent.len(), 1);
    sent.remove(0)
}

/// The monitors raise the release that they require by the features of its OSDs, and let none in that is three releases ahead of it.
fn clusters_of_five_releases_are_joined(kind: Kind) {
    use maps::Release;
    let (squid, tentacle) = (features::SERVER_SQUID | features::CRUSH_MSR, features::SERVER_TENTACLE);
    let all = features::SUPPORTED | squid | tentacle;
    for (release, want) in [
        (Release::PACIFIC, features::SUPPORTED),
        (Release::QUINCY, features::SUPPORTED | squid),
        (Release::REEF, all),
        (Release::SQUID, all),
        (Release::TENTACLE, all),
    ] {
        let mut w = World::new(kind, 1);
        w.publish(|m| {
            m.require_osd_release = release;
            m.osd_state[0] &= !maps::osd_state::UP;
        });
        assert_eq!(boots(&mut w).osd_features, want, "{release}");
    }
}

/// No group of such a pool is made, and the cluster hears why, once a pool.
fn a_pool_with_erasure_codes_is_refused_by_name(kind: Kind) {
    let mut w = World::new(kind, 4);
    w.publish(|m| {
        let coded = maps::PgPool { kind: maps::PgPool::ERASURE, ..m.pools[&POOL].clone() };
        m.pools.insert(POOL + 1, coded);
        m.pool_names.insert(POOL + 1, "coded".into());
    });
    let (before, epoch) = (w.osd.pgs().count(), w.map.epoch);
    w.out.clear();
    for seed in 0..4 {
        let pgs = [(SpgId { pgid: PgId::new(POOL + 1, seed), shard: 0 }, (epoch, UTime::ZERO))].into();
        w.feed(Event::Mon(MOSDPGCreate2 { epoch, pgs, ..MOSDPGCreate2::default() }.encode(features::SUPPORTED)));
    }
    let said = |e: &&Effect| matches!(e, Effect::ClusterLog { text, .. } if text.contains("pool 'coded' has erasure codes"));
    assert_eq!(w.out.iter().filter(said).count(), 1);
    assert_eq!(w.osd.pgs().count(), before);
}

/// As a stock monitor shrinks a pool: one group at a time, which both groups have to get quiet for.
fn a_merge_waits_until_both_groups_are_quiet(kind: Kind) {
    let mut w = World::new(kind, 4);
    w.write("before", b"1");
    w.publish(|map| map.pools.get_mut(&POOL).unwrap().pg_num_pending = 3);
    assert!(w.sent_to_mon::<MOSDPGReadyToMerge>().is_empty());
    w.settle();
    let quiet: Vec<u32> = w.osd.pgs().filter(|pg| pg.state_bits() & pg_state::PREMERGE != 0).map(|pg| pg.pgid.pgid.seed).collect();
    assert_eq!(quiet, [1, 3]);
    let told = w.sent_to_mon::<MOSDPGReadyToMerge>();
    assert_eq!((told.len(), told[0].pgid, told[0].ready), (1, PgId::new(POOL, 3), true));
    let clean = w.osd.pgs().find(|pg| pg.pgid.pgid.seed == 1).unwrap().record().info().history;
    assert_eq!((told[0].last_epoch_clean, told[0].last_epoch_started), (clean.last_epoch_clean, clean.last_epoch_started));
    // Said once, and again to a monitor that may not have heard.
    w.feed(Event::Tick);
    assert!(w.sent_to_mon::<MOSDPGReadyToMerge>().is_empty());
    w.feed(Event::MonConnected);
    assert_eq!(w.sent_to_mon::<MOSDPGReadyToMerge>().len(), 1);
    w.publish(|map| {
        let pool = map.pools.get_mut(&POOL).unwrap();
        (pool.pg_num, pool.pgp_num, pool.last_change) = (3, 3, map.epoch);
    });
    w.settle();
    assert_eq!(w.osd.pgs().count(), 3);
    assert!(w.osd.pgs().all(|pg| pg.state_bits() == pg_state::ACTIVE | pg_state::CLEAN));
    assert_eq!(w.read("before").unwrap(), b"1");
}

fn a_split_keeps_objects_and_requests(kind: Kind) {
    for (from, to) in [(1, 8), (4, 6), (3, 16)] {
        let mut w = World::new(kind, from);
        let mut rng = Rng::new(u64::from(to));
        let mut last = None;
        for i in 0..100 {
            let m = w.request(&format!("o{i}"), vec![write_full(&rng.u64().to_le_bytes())]);
            w.send(1, &m);
            last = Some(m);
        }
        let mut m = last.unwrap();
        let before = w.osd.pgs().map(|pg| pg.record().info().stats.stats.sum.num_objects).sum::<i64>();
        w.publish(|map| {
            let pool = map.pools.get_mut(&POOL).unwrap();
            (pool.pg_num, pool.pgp_num, pool.pg_num_pending, pool.last_change) = (to, to, to, map.epoch);
        });
        w.settle();
        assert_eq!(w.osd.pgs().count(), to as usize);
        let sums =
            |w: &World, f: fn(&types::ObjectStatSum) -> i64| w.osd.pgs().map(|pg| f(&pg.record().info().stats.stats.sum)).sum::<i64>();
        assert_eq!((sums(&w, |s| s.num_objects), sums(&w, |s| s.num_bytes)), (before, before * 8));
        let mut rng = Rng::new(u64::from(to));
        for i in 0..100 {
            assert_eq!(w.read(&format!("o{i}")).unwrap(), rng.u64().to_le_bytes(), "{from} to {to}, object {i}");
        }
        // What was answered before the split is known after it.
        let version = |w: &World| w.osd.pgs().map(|pg| pg.record().info().last_update.version).max();
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

fn a_pool_that_goes_takes_its_groups_along(kind: Kind) {
    let mut w = World::new(kind, 4);
    w.write("a", b"1");
    w.publish(|m| {
        m.pools.clear();
        m.pool_names.clear();
    });
    w.go_on();
    assert_eq!((w.osd.pgs().count(), w.osd.store().collections().unwrap()), (0, vec![types::CollId::Meta]));
    assert!(w.osd.store().pgs().unwrap().is_empty());
}

fn watches_outlive_connections_and_end_with_their_time(kind: Kind) {
    let mut w = World::new(kind, 1);
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

fn removed_snapshots_are_trimmed_and_reported(kind: Kind) {
    let mut w = World::new(kind, 1);
    let mut m = w.request("a", vec![write_full(b"old")]);
    w.send(1, &m);
    m = w.request("a", vec![write_full(b"new")]);
    m.snapc = SnapContext { seq: 2, snaps: vec![2] };
    w.send(1, &m);
    let objects = |w: &World| w.osd.pgs().next().unwrap().record().info().stats.stats.sum.num_objects;
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
    let purged = |w: &World, s| w.osd.pgs().next().unwrap().record().info().purged_snaps.contains_point(s);
    assert!(purged(&w, 5) || kind != Kind::Memory);
    w.go_on();
    assert!(purged(&w, 2));
    assert_eq!(objects(&w), 1);
    assert_eq!(w.read("a").unwrap(), b"new");
    w.publish(|m| m.removed_snaps_queue.clear());
    assert!(!purged(&w, 2));
}

fn capabilities_and_the_blocklist_are_looked_at(kind: Kind) {
    let mut w = World::new(kind, 1);
    let peer = |cap: &str, n: u32| Peer {
        name: EntityName::client(n.into()),
        entity: "client.x".into(),
        global_id: n.into(),
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr: addr(0, n),
        from: addr(0, n),
        network: Network::Public,
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

fn a_group_that_lacks_members_holds_requests_back(kind: Kind) {
    let mut w = World::new(kind, 1);
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
    assert_eq!(pg_state::to_text(bits), "undersized+degraded+peered");
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

fn bad_requests_are_answered(kind: Kind) {
    let mut w = World::new(kind, 1);
    assert_eq!(w.one("", vec![write_full(b"1")]).result, -EINVAL);
    let long = "x".repeat(3000);
    assert_eq!(w.one(&long, vec![write_full(b"1")]).result, -types::errno::ENAMETOOLONG);
    let r = w.one("a", vec![InOp::new(OsdOp::new(OpCode(0x22ff)), Bytes::new())]);
    assert_eq!(r.result, -types::errno::EOPNOTSUPP);
}

/// Requests whose frames are whole and whose content isn't: each is answered, dropped or ends its own connection, and no other.
fn damaged_content_harms_nobody_else(kind: Kind) {
    let mut w = World::new(kind, 2);
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
    let mut w = World::new(Kind::Memory, 32);
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
