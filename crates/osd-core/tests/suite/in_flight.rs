//! Maps that come while writes are in flight: they are taken in at once, each request is answered once and in order, and only a group that is
//! split or merged waits, for its own store.

use crate::world::store::TestStore;
use crate::world::{Kind, POOL, World, received, watch, write_full};
use base::Rng;
use bytes::Bytes;
use maps::OsdMap;
use messages::{InOp, MOSDOp, MOSDOpReply, MWatchNotify, Message};
use osd_core::{ConnId, Event};
use std::collections::BTreeMap;
use types::osd_op::{OpCode, watch_op};
use types::{Epoch, OsdOp, PgId, features};

fn append(data: &[u8]) -> InOp {
    InOp::new(OsdOp::range(OpCode::APPEND, 0, data.len() as u64), Bytes::copy_from_slice(data))
}
fn read() -> InOp {
    InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())
}
fn hold(w: &World, holds: bool) {
    w.store.borrow_mut().holds_commits = holds;
}
/// `pg_num` of the pool from now on.
fn set_pg_num(map: &mut OsdMap, pg_num: u32) {
    let pool = map.pools.get_mut(&POOL).unwrap();
    (pool.pg_num, pool.pgp_num, pool.pg_num_pending, pool.last_change) = (pg_num, pg_num, pg_num, map.epoch);
}
/// The monitor's word on up_thru, if it was asked for it.
fn allow(w: &mut World) {
    if let Some(want) = w.sent_to_mon::<messages::MOSDAlive>().iter().map(|m| m.want).max() {
        w.publish(|m| m.osd_info[0].up_thru = m.osd_info[0].up_thru.max(want));
    }
}
fn give(w: &mut World, m: &MOSDOp) {
    w.feed(Event::Message { conn: ConnId(1), msg: received(&m.encode(features::SUPPORTED)) });
}
fn epochs(w: &World) -> Vec<Epoch> {
    w.osd.pgs().map(|pg| pg.peering().mapping.epoch).collect()
}
fn kinds() -> impl Iterator<Item = Kind> {
    [Kind::Memory].into_iter().chain((1..4).map(Kind::Fetching))
}

#[test]
fn a_map_does_not_wait_for_writes() {
    for kind in kinds() {
        let mut w = World::new(kind, 4);
        hold(&w, true);
        let ms: Vec<MOSDOp> = (0..8).map(|n| w.request(&format!("o{n}"), vec![write_full(b"1")])).collect();
        ms.iter().for_each(|m| give(&mut w, m));
        for _ in 0..3 {
            w.publish(|_| {});
            assert!(epochs(&w).iter().all(|e| *e == w.map.epoch), "each group has the map though nothing is durable");
        }
        // A request by the newest map goes to its group at once, too.
        let late = w.request("late", vec![write_full(b"2")]);
        give(&mut w, &late);
        assert!(w.sent::<MOSDOpReply>(1).is_empty(), "nothing is answered that is not durable");
        hold(&w, false);
        w.turn_end();
        let mut tids: Vec<u64> = w.sent::<MOSDOpReply>(1).iter().map(|r| r.tid).collect();
        tids.sort_unstable();
        assert_eq!(tids, ms.iter().map(|m| m.tid).chain([late.tid]).collect::<Vec<_>>());
    }
}

/// Appends to one object and reads of it, with new intervals in their midst: whatever was durable by then, each is answered once and in order, sees
/// what its order gives it, and is executed once.
#[test]
fn a_new_interval_answers_what_was_in_flight_once_and_in_order() {
    for kind in kinds() {
        for (durable, reads_between) in (0..=6).flat_map(|durable| [(durable, false), (durable, true)]) {
            in_flight_over_intervals(kind, durable, reads_between);
        }
    }
}
fn in_flight_over_intervals(kind: Kind, durable: usize, reads_between: bool) {
    let mut w = World::new(kind, 1);
    w.write("a", b"-");
    hold(&w, true);
    // Each with what it may see, if it is a read.
    let mut ms: Vec<(MOSDOp, Option<String>)> = Vec::new();
    let mut content = String::from("-");
    for n in 0..6_u8 {
        content.push(char::from(b'0' + n));
        ms.push((w.request("a", vec![append(&[b'0' + n])]), None));
        if reads_between || n == 5 {
            ms.push((w.request("a", vec![read()]), Some(content.clone())));
        }
    }
    ms.iter().for_each(|(m, _)| give(&mut w, m));
    // A resend of the last write is answered, too.
    let last = ms[ms.len() - 2].0.clone();
    give(&mut w, &MOSDOp { attempt: 1, ..last.clone() });
    w.store.borrow_mut().let_go = durable;
    w.turn_end();
    let mut answers = w.sent::<MOSDOpReply>(1);
    // The primary stays: clients send nothing again.
    for size in [2, 1] {
        w.publish(|m| m.pools.get_mut(&POOL).unwrap().size = size);
        assert_eq!(epochs(&w), [w.map.epoch]);
        allow(&mut w);
        answers.extend(w.sent::<MOSDOpReply>(1));
    }
    // Commits of the first interval arrive in the last, one after the other. The group peers when all of them are here.
    for _ in 0..40 {
        w.store.borrow_mut().let_go = 1;
        w.turn_end();
        answers.extend(w.sent::<MOSDOpReply>(1));
    }
    hold(&w, false);
    w.turn_end();
    allow(&mut w);
    answers.extend(w.sent::<MOSDOpReply>(1));
    let mut tids: Vec<u64> = answers.iter().map(|r| r.tid).collect();
    let of_last = tids.iter().filter(|tid| **tid == last.tid).count();
    assert_eq!((tids.len(), of_last), (ms.len() + 1, 2), "{durable} durable: {tids:?}");
    let twice = tids.iter().rposition(|tid| *tid == last.tid).unwrap();
    tids.remove(twice);
    assert_eq!(tids, ms.iter().map(|(m, _)| m.tid).collect::<Vec<_>>(), "{durable} durable");
    for (m, seen) in ms.iter().filter_map(|(m, seen)| Some((m, seen.as_ref()?))) {
        let reply = answers.iter().find(|r| r.tid == m.tid).unwrap();
        assert_eq!(&reply.ops[0].outdata[..], seen.as_bytes());
    }
    assert_eq!(w.read("a").unwrap(), content.as_bytes(), "{durable} durable");
    let version = w.osd.pgs().next().unwrap().record().info().last_update.version;
    assert_eq!(version, 7, "each write was executed once");
    assert_eq!(w.one("a", vec![append(b"6")]).result, 0);
}

#[test]
fn a_watch_in_flight_lives_in_the_next_interval() {
    for kind in kinds() {
        let mut w = World::new(kind, 1);
        w.write("a", b"1");
        hold(&w, true);
        let m = w.request("a", vec![watch(watch_op::WATCH, 77)]);
        give(&mut w, &m);
        w.publish(|m| m.pools.get_mut(&POOL).unwrap().size = 2);
        w.publish(|m| m.pools.get_mut(&POOL).unwrap().size = 1);
        assert!(w.sent::<MOSDOpReply>(1).is_empty());
        hold(&w, false);
        w.turn_end();
        allow(&mut w);
        assert_eq!(w.sent::<MOSDOpReply>(1).iter().map(|r| (r.tid, r.result)).collect::<Vec<_>>(), [(m.tid, 0)]);
        let mut e = denc::Encoder::new(0);
        e.u32(1);
        e.u32(10);
        e.blob(b"ping");
        let op = OsdOp::with_notify(OpCode::NOTIFY, types::osd_op::NotifyArgs { cookie: 5 });
        let notify = w.request("a", vec![InOp::new(op, e.finish())]);
        give(&mut w, &notify);
        assert_eq!(w.sent::<MWatchNotify>(1).iter().filter(|n| n.cookie == 77).count(), 1);
    }
}

#[test]
fn a_connection_that_goes_takes_its_requests_along() {
    let mut w = World::new(Kind::Memory, 1);
    hold(&w, true);
    let m = w.request("a", vec![append(b"x")]);
    give(&mut w, &m);
    w.publish(|m| m.pools.get_mut(&POOL).unwrap().size = 2);
    w.feed(Event::Reset { conn: ConnId(1) });
    w.publish(|m| m.pools.get_mut(&POOL).unwrap().size = 1);
    hold(&w, false);
    w.turn_end();
    allow(&mut w);
    assert!(w.sent::<MOSDOpReply>(1).is_empty());
    w.connect(1, 4001);
    assert_eq!(w.send(1, &MOSDOp { attempt: 1, ..m }).len(), 1);
    assert_eq!(w.read("a").unwrap(), b"x");
}

/// Only the group that is split or merged waits, and only for its own store; more maps may come meanwhile.
#[test]
fn a_split_and_a_merge_wait_for_the_groups_own_store_only() {
    for kind in kinds() {
        // Of three groups the first is split, and by the second map its child is merged into it again.
        let mut w = World::new(kind, 3);
        let names: Vec<String> = (0..24).map(|n| format!("o{n}")).collect();
        for name in &names {
            w.write(name, name.as_bytes());
        }
        let seed_of = |w: &World, name: &str| w.map.pools[&POOL].fold(w.map.pools[&POOL].hash_key(name.as_bytes(), b""));
        let in_split = names.iter().find(|n| seed_of(&w, n) == 1).unwrap().clone();
        hold(&w, true);
        let m = w.request(&in_split, vec![append(b"+")]);
        give(&mut w, &m);
        w.publish(|map| set_pg_num(map, 4));
        let newest = w.map.epoch;
        let of = |w: &World| w.osd.pgs().map(|pg| (pg.pgid.pgid.seed, pg.peering().mapping.epoch)).collect::<Vec<_>>();
        assert_eq!(of(&w), [(0, newest), (1, newest - 1), (2, newest)], "group 1 waits and no other");
        w.publish(|map| set_pg_num(map, 3));
        let newest = w.map.epoch;
        assert_eq!(of(&w), [(0, newest), (1, newest - 2), (2, newest)]);
        // A request to it waits, one to another is served.
        let waits = w.request(&in_split, vec![append(b"!")]);
        give(&mut w, &waits);
        assert!(w.sent::<MOSDOpReply>(1).is_empty());
        hold(&w, false);
        w.turn_end();
        allow(&mut w);
        w.turn_end();
        assert_eq!(of(&w).iter().map(|(seed, _)| *seed).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(epochs(&w).iter().all(|e| *e == w.map.epoch));
        let answers: Vec<u64> = w.sent::<MOSDOpReply>(1).iter().map(|r| r.tid).collect();
        assert!(answers.contains(&m.tid), "it was durable before the split");
        if !answers.contains(&waits.tid) {
            // A client that knows of splits sends again what it sent by a map of before.
            let again = MOSDOp { map_epoch: w.map.epoch, attempt: 1, ..waits };
            assert_eq!(w.send(1, &again).len(), 1);
        }
        for name in &names {
            let wanted = if *name == in_split { format!("{name}+!") } else { name.clone() };
            assert_eq!(w.read(name).unwrap(), wanted.as_bytes());
        }
    }
}

/// Groups are split, merged and begin new intervals under load, with commits that come late or not for long. The clients are as Ceph's: they
/// send again by each map that moves a request to another group or splits its group. The ledger is kept outside: each append happened once, and
/// those of one object in the order in which they were sent.
#[test]
fn splits_merges_and_new_intervals_under_load_lose_nothing_and_repeat_nothing() {
    for seed in 0..12_u64 {
        let kind = if seed % 2 == 0 { Kind::Memory } else { Kind::Fetching(seed) };
        let (mut w, mut rng) = (World::new(kind, 4), Rng::new(seed));
        let mut open: Vec<MOSDOp> = Vec::new();
        let mut ledger: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let take = |w: &mut World, open: &mut Vec<MOSDOp>| {
            for reply in w.sent::<MOSDOpReply>(1) {
                assert_eq!(reply.result, 0);
                open.retain(|m| m.tid != reply.tid);
            }
        };
        for step in 0..400_u32 {
            match rng.below(20) {
                0..12 => {
                    let name = format!("o{}", rng.below(12));
                    let byte = b'a' + (step % 26) as u8;
                    ledger.entry(name.clone()).or_default().push(byte);
                    let m = w.request(&name, vec![append(&[byte])]);
                    give(&mut w, &m);
                    open.push(m);
                }
                12..15 => {
                    let holds = rng.chance(1, 2);
                    hold(&w, holds);
                    w.store.borrow_mut().let_go = rng.below(4) as usize;
                    w.turn_end();
                }
                15 => {
                    w.now_s += 1;
                    w.feed(Event::Tick);
                    w.go_on();
                }
                16 => w.publish(|_| {}),
                17 => {
                    let size = 1 + rng.below(2) as u8;
                    w.publish(|map| map.pools.get_mut(&POOL).unwrap().size = size);
                }
                _ => {
                    let pg_num = 1 + rng.below(8) as u32;
                    w.publish(|map| set_pg_num(map, pg_num));
                    // What went to a group that is split or gone is sent again, in order.
                    take(&mut w, &mut open);
                    let (pool, epoch) = (w.map.pools[&POOL].clone(), w.map.epoch);
                    for m in &mut open {
                        (m.map_epoch, m.attempt) = (epoch, m.attempt + 1);
                        m.pgid.pgid.seed = pool.fold(m.hobj.hash);
                    }
                    for m in open.clone() {
                        give(&mut w, &m);
                    }
                }
            }
            allow(&mut w);
            take(&mut w, &mut open);
        }
        hold(&w, false);
        w.publish(|map| map.pools.get_mut(&POOL).unwrap().size = 1);
        w.turn_end();
        allow(&mut w);
        w.turn_end();
        take(&mut w, &mut open);
        assert!(epochs(&w).iter().all(|e| *e == w.map.epoch), "seed {seed}: every group has the newest map");
        // What was dropped, because the group had been split since it was sent, is sent again.
        for m in open.clone() {
            let m = MOSDOp { map_epoch: w.map.epoch, attempt: m.attempt + 1, ..m };
            give(&mut w, &m);
        }
        w.turn_end();
        take(&mut w, &mut open);
        assert!(open.is_empty(), "seed {seed}: {} requests have no answer", open.len());
        for (name, wanted) in &ledger {
            let found = w.read(name).unwrap();
            assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(wanted), "seed {seed}: {name}");
        }
        assert_eq!(w.osd.pgs().count(), w.map.pools[&POOL].pg_num as usize);
    }
}

/// A power cut leaves a prefix of what was submitted. Whatever that is, each object is in the group that its hash folds to, each group knows how many it has
/// (seed 0x2c of the simulator: a child's count lay in a later record than its objects), and a request that was answered is not executed again.
#[test]
fn a_crash_at_any_change_of_a_split_or_a_merge_loses_nothing() {
    let (store, control) = TestStore::new(None);
    control.borrow_mut().journal = Some(Vec::new());
    let mut w = World::with_store(store, control, 2);
    let names: Vec<String> = (0..12).map(|n| format!("o{n}")).collect();
    let mut asked = Vec::new();
    for name in &names {
        let m = w.request(name, vec![append(name.as_bytes())]);
        assert_eq!(w.send(1, &m)[0].result, 0);
        asked.push(m);
    }
    let from = w.store.borrow().journal.as_ref().unwrap().len();
    for pg_num in [4, 16, 5, 2] {
        w.publish(|map| set_pg_num(map, pg_num));
        w.settle();
    }
    let journal = w.store.borrow().journal.clone().unwrap();
    assert!(journal.len() > from + 8);
    for cut in from..=journal.len() {
        w.restart(|_| TestStore::replay(&journal[..cut], None));
        w.connect(1, 4001);
        let counts: Vec<_> =
            w.osd.pgs().map(|pg| (pg.record().info().stats.stats.sum.num_objects, pg.record().info().stats.stats_invalid)).collect();
        assert_eq!(counts.iter().map(|(n, _)| n).sum::<i64>(), names.len() as i64, "after {cut} changes");
        assert!(counts.iter().all(|(n, is_guess)| *n >= 0 && !is_guess), "after {cut} changes: {counts:?}");
        w.osd.pgs().for_each(|pg| pg.assert_whole(w.osd.store(), false));
        for (name, m) in names.iter().zip(&asked) {
            let again = MOSDOp { map_epoch: w.map.epoch, attempt: 1, ..m.clone() };
            assert_eq!(w.send(1, &again)[0].result, 0);
            assert_eq!(w.read(name).unwrap(), name.as_bytes(), "{name} after {cut} changes");
        }
    }
}

/// The map says how far both groups were when they were found ready to be merged. An OSD that was away has less, and must not take itself for whole:
/// the head of the merged group may be the same.
#[test]
fn a_merge_of_groups_that_lack_something_makes_one_that_knows() {
    for lacks in [false, true] {
        let mut w = World::new(Kind::Memory, 2);
        for n in 0..8 {
            w.write(&format!("o{n}"), b"x");
        }
        let at = |w: &World, seed: u32| w.osd.pgs().find(|pg| pg.pgid.pgid.seed == seed).unwrap().record().info().last_update;
        let (source, target) = (at(&w, 1), at(&w, 0));
        w.publish(|map| {
            set_pg_num(map, 1);
            let meta = &mut map.pools.get_mut(&POOL).unwrap().last_pg_merge_meta;
            (meta.source_pgid, meta.source_version, meta.target_version) = (PgId::new(POOL, 1), source, target);
            meta.source_version.version += u64::from(lacks);
        });
        let pg = w.osd.pgs().next().unwrap();
        assert_eq!((w.osd.pgs().count(), pg.record().info().is_incomplete()), (1, lacks));
    }
}
