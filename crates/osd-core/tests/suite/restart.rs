//! An OSD that dies, and the one that starts again on its store: nothing that was answered is lost, nothing is applied twice, whatever part of
//! what was not answered the store kept.

use crate::world;
use crate::world::store::TestStore;
use crate::world::{Kind, POOL, World, received, watch, write_full};
use base::Rng;
use bytes::Bytes;
use messages::{InOp, MOSDOp, MOSDOpReply, MWatchNotify, Message};
use osd_core::perf::C;
use osd_core::{ConnId, Effect, Event, Osd};
use std::collections::BTreeMap;
use types::osd_op::{CallArgs, OpCode, watch_op};
use types::{EVersion, EntityName, OsdOp, SnapContext, features};

fn append(data: &[u8]) -> InOp {
    InOp::new(OsdOp::range(OpCode::APPEND, 0, data.len() as u64), Bytes::copy_from_slice(data))
}
fn call(class: &str, method: &str, input: &[u8]) -> InOp {
    let args = CallArgs { class_len: class.len() as u8, method_len: method.len() as u8, argc: 0, indata_len: input.len() as u32 };
    InOp::new(OsdOp::with_call(OpCode::CALL, args), [class.as_bytes(), method.as_bytes(), input].concat().into())
}
/// Starts again on all that was submitted.
fn restart_whole(w: &mut World, kind: Kind) {
    w.restart(|c| TestStore::replay(c.journal.as_ref().unwrap(), kind.seed()));
    w.connect(1, 4001);
}
fn recorded(kind: Kind, pg_num: u32) -> World {
    let (store, control) = TestStore::new(kind.seed());
    control.borrow_mut().journal = Some(Vec::new());
    World::with_store(store, control, pg_num)
}

/// Reads of objects that are not at hand wait with what they know of them; writes that come meanwhile, of these or of others with the same hash,
/// wait for the reads, and whatever the order of their bytes, everybody is answered once and sees what was there at his turn.
#[test]
fn reads_of_what_is_not_at_hand_come_before_later_writes() {
    let (mut waited, mut by_ticket) = (0, 0);
    for seed in 1..30 {
        let kind = Kind::Fetching(seed);
        let mut w = recorded(kind, 1);
        let named = |w: &mut World, side: &str, n: u32, op: InOp| {
            let mut m = w.request(&format!("{side}{n}"), vec![op]);
            m.hobj.hash = n.wrapping_mul(0x9e37_79b9);
            m
        };
        let read = || InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new());
        for n in 0..10 {
            for side in ["a", "b"] {
                let m = named(&mut w, side, n, write_full(format!("old {side}{n}").as_bytes()));
                w.send(1, &m);
            }
        }
        restart_whole(&mut w, kind);
        for n in 0..10 {
            let mut ms = vec![named(&mut w, "a", n, read()), named(&mut w, "b", n, read()), named(&mut w, "a", n, read())];
            for side in ["a", "b"] {
                ms.push(named(&mut w, side, n, write_full(format!("new {side}{n}").as_bytes())));
                ms.push(named(&mut w, side, n, read()));
            }
            let (clock, before) = (w.clock(), w.store.borrow().waits());
            for m in &ms {
                w.osd.handle(Event::Message { conn: ConnId(1), msg: received(&m.encode(features::SUPPORTED)) }, clock, &mut w.out);
            }
            w.go_to_their_groups(clock);
            waited += w.store.borrow().waits() - before;
            w.turn_end();
            let answers = w.sent::<MOSDOpReply>(1);
            assert_eq!(answers.len(), ms.len(), "seed {seed}, {n}");
            let of = |m: &MOSDOp| &answers.iter().find(|r| r.tid == m.tid).expect("everybody is answered").ops[0].outdata;
            for (i, side, age) in [(0, "a", "old"), (1, "b", "old"), (2, "a", "old"), (4, "a", "new"), (6, "b", "new")] {
                assert_eq!(of(&ms[i]), &format!("{age} {side}{n}"), "seed {seed}, {n}, request {i}");
            }
        }
        by_ticket += w.store.borrow().given_by_ticket.get();
    }
    assert!(waited > 500 && by_ticket > 100, "{waited} had to wait, {by_ticket} were given what they waited for");
}

#[test]
fn a_store_goes_on_in_another_osd() {
    for kind in [Kind::Memory, Kind::Fetching(1), Kind::Fetching(2)] {
        let mut w = recorded(kind, 4);
        for i in 0..20 {
            w.write(&format!("o{i}"), format!("data{i}").as_bytes());
        }
        let m = w.request("o1", vec![append(b"+")]);
        let first = w.send(1, &m).remove(0);
        let before: Vec<_> = w
            .osd
            .pgs()
            .map(|pg| (pg.pgid, pg.record().info().last_update, pg.record().info().stats.stats.sum, pg.record().log().len()))
            .collect();
        let epochs: Vec<_> = w.osd.pgs().map(|pg| pg.record().info().history.same_interval_since).collect();
        let known = (w.osd.superblock().clone(), w.osd.map().epoch);
        restart_whole(&mut w, kind);
        assert_eq!(w.osd.superblock().osd_fsid, known.0.osd_fsid);
        assert!(w.osd.superblock().newest_map > known.1);
        let after: Vec<_> = w
            .osd
            .pgs()
            .map(|pg| (pg.pgid, pg.record().info().last_update, pg.record().info().stats.stats.sum, pg.record().log().len()))
            .collect();
        assert_eq!(before, after);
        // Down and up again: another interval, and up_thru had to show it.
        assert!(w.osd.pgs().zip(&epochs).all(|(pg, e)| pg.record().info().history.same_interval_since > *e));
        // A resend has the old answer.
        let again = w.send(1, &MOSDOp { attempt: 1, map_epoch: w.map.epoch, ..m.clone() }).remove(0);
        assert_eq!((again.result, again.replay_version, again.user_version), (0, first.replay_version, first.user_version));
        assert_eq!(w.read("o1").unwrap(), b"data1+");
        for i in 2..20 {
            assert_eq!(w.read(&format!("o{i}")).unwrap(), format!("data{i}").as_bytes());
        }
        assert_eq!(w.write("new", b"1").result, 0);
        // And once more, without anything in between.
        restart_whole(&mut w, kind);
        restart_whole(&mut w, kind);
        assert_eq!(w.read("new").unwrap(), b"1");
    }
}

#[test]
fn duplicates_outlive_log_and_process() {
    let mut w = recorded(Kind::Memory, 1);
    let m = w.request("a", vec![append(b"x")]);
    let first = w.send(1, &m).remove(0);
    // A failed write has its answer too, and so has one that answers data.
    let mut exclusive = w.request("a", vec![InOp::new(OsdOp::new(OpCode::CREATE), Bytes::new())]);
    exclusive.ops[0].op.flags = types::osd_op::op_flag::EXCL;
    let failed = w.send(1, &exclusive).remove(0).result;
    for i in 0..400 {
        w.write("c", format!("{i}").as_bytes());
    }
    let log =
        |w: &World| w.osd.pgs().map(|pg| (pg.record().log().len(), pg.record().log().dups_len(), pg.record().log().tail())).next().unwrap();
    let before = log(&w);
    assert!(before.1 > 100);
    restart_whole(&mut w, Kind::Memory);
    assert_eq!(log(&w), before);
    let again = w.send(1, &MOSDOp { map_epoch: w.map.epoch, ..m }).remove(0);
    assert_eq!((again.replay_version, again.user_version), (first.replay_version, first.user_version));
    assert_eq!(w.read("a").unwrap(), b"x");
    w.one("a", vec![InOp::new(OsdOp::new(OpCode::DELETE), Bytes::new())]);
    assert!(failed < 0);
    assert_eq!(w.send(1, &MOSDOp { map_epoch: w.map.epoch, ..exclusive }).remove(0).result, failed);
}

#[test]
fn maps_splits_and_removals_that_it_missed_are_made_up_for() {
    for kind in [Kind::Memory, Kind::Fetching(7)] {
        let mut w = recorded(kind, 4);
        for i in 0..60 {
            w.write(&format!("o{i}"), &[i]);
        }
        // While it is dead the pool grows, and another one comes and goes.
        let journal = w.store.borrow().journal.clone().unwrap();
        let grow = |w: &mut World, to: u32| {
            w.publish(|m| {
                let pool = m.pools.get_mut(&POOL).unwrap();
                (pool.pg_num, pool.pgp_num, pool.pg_num_pending, pool.last_change) = (to, to, to, m.epoch);
            });
        };
        grow(&mut w, 8);
        // The maps and no group's reaction to them are in the store: what follows from them is done when it starts.
        w.restart(|_| TestStore::replay(&journal, kind.seed()));
        w.connect(1, 4001);
        assert_eq!(w.osd.pgs().count(), 8);
        for i in 0..60 {
            assert_eq!(w.read(&format!("o{i}")).unwrap(), [i]);
        }
        for epoch in 0..120 {
            w.publish(|m| m.created.nsec = epoch);
        }
        assert_eq!(w.write("o1", b"late").result, 0);
        let kept = w.osd.superblock().newest_map - w.osd.superblock().oldest_map;
        assert!((20..=50).contains(&kept), "{kept} maps are kept");
        restart_whole(&mut w, kind);
        assert_eq!(w.read("o1").unwrap(), b"late");
        assert!(w.osd.pgs().all(|pg| pg.peering().is_clean()));
        // A pool that went.
        let journal = w.store.borrow().journal.clone().unwrap();
        w.publish(|m| {
            m.pools.clear();
            m.pool_names.clear();
        });
        w.restart(|_| TestStore::replay(&journal, kind.seed()));
        w.go_on();
        assert_eq!(w.osd.store().collections().unwrap(), [types::CollId::Meta]);
        assert!(w.osd.store().pgs().unwrap().is_empty());
    }
}

#[test]
fn watches_and_snapshots_are_known_after_a_restart() {
    let mut w = recorded(Kind::Memory, 1);
    w.write("a", b"old");
    assert_eq!(w.one("a", vec![watch(watch_op::WATCH, 77)]).result, 0);
    let mut m = w.request("b", vec![write_full(b"old")]);
    w.send(1, &m);
    m = w.request("b", vec![write_full(b"new")]);
    m.snapc = SnapContext { seq: 2, snaps: vec![2] };
    w.send(1, &m);
    restart_whole(&mut w, Kind::Memory);
    // The client comes back to its watch.
    assert_eq!(w.one("a", vec![watch(watch_op::RECONNECT, 77)]).result, 0);
    // Nobody comes back: it ends with its time.
    w.feed(Event::Reset { conn: ConnId(1) });
    restart_whole(&mut w, Kind::Memory);
    assert_eq!(w.read("a").unwrap(), b"old");
    w.now_s += 31;
    w.feed(Event::Tick);
    let list = w.one("a", vec![InOp::new(OsdOp::new(OpCode::LIST_WATCHERS), Bytes::new())]);
    assert_eq!(u32::from_le_bytes(list.ops[0].outdata[6..10].try_into().unwrap()), 0);
    assert!(w.sent::<MWatchNotify>(1).is_empty());
    // A snapshot that is removed now is trimmed.
    w.publish(|m| m.removed_snaps_queue.entry(POOL).or_default().insert(2, 1));
    w.go_on();
    let pg = w.osd.pgs().next().unwrap();
    assert!(pg.record().info().purged_snaps.contains_point(2));
    assert_eq!(pg.record().info().stats.stats.sum.num_object_clones, 0);
    assert_eq!(w.read("b").unwrap(), b"new");
}

/// An OSD that was away is given more maps at once than it keeps, and dies again at any moment of that: what they changed in the number of groups is made
/// up for when it starts.
#[test]
fn a_death_among_many_maps_leaves_no_map_out() {
    for seed in 0..24 {
        let kind = [Kind::Memory, Kind::Fetching(seed)][seed as usize % 2];
        let mut rng = Rng::new(seed);
        let mut w = recorded(kind, 4);
        for i in 0..40 {
            w.write(&format!("o{i}"), &[i]);
        }
        let before = w.store.borrow().journal.clone().unwrap();
        let mut pg_num = 4;
        for n in 0..160 {
            w.map.epoch += 1;
            let epoch = w.map.epoch;
            if rng.chance(1, 30) || n == 20 {
                pg_num = [2, 4, 8, 16][rng.below(4) as usize];
                let pool = w.map.pools.get_mut(&POOL).unwrap();
                (pool.pg_num, pool.pgp_num, pool.pg_num_pending, pool.last_change) = (pg_num, pg_num, pg_num, epoch);
            }
            w.map.created.nsec = n;
            w.maps.insert(epoch, w.map.encode_canonical().0);
        }
        w.restart(|_| TestStore::replay(&before, kind.seed()));
        for _ in 0..6 {
            let cut = w.store.borrow().journal.clone().unwrap();
            let cut = &cut[..before.len() + rng.below((cut.len() - before.len()) as u64 + 1) as usize];
            w.restart(|_| TestStore::replay(cut, kind.seed()));
            assert_eq!(w.osd.pgs().count(), pg_num as usize, "seed {seed}");
        }
        w.connect(1, 4001);
        for i in 0..40 {
            assert_eq!(w.read(&format!("o{i}")).unwrap(), [i], "seed {seed}");
        }
        let kept = w.osd.superblock().newest_map - w.osd.superblock().oldest_map;
        assert!(kept <= 50, "seed {seed}: {kept} maps are kept");
    }
}

/// Maps can't be read, and groups' records name them: the groups are made when the monitor has sent those that it has, split and merged as it says.
#[test]
fn groups_outlive_the_maps_that_they_were_at() {
    for (seed, to) in [2, 4, 16].into_iter().enumerate() {
        for kind in [Kind::Memory, Kind::Fetching(seed as u64)] {
            let mut w = recorded(kind, 4);
            for i in 0..40 {
                w.write(&format!("o{i}"), &[i]);
            }
            let journal = w.store.borrow().journal.clone().unwrap();
            w.map.epoch += 1;
            let epoch = w.map.epoch;
            let pool = w.map.pools.get_mut(&POOL).unwrap();
            (pool.pg_num, pool.pgp_num, pool.pg_num_pending, pool.last_change) = (to, to, to, epoch);
            w.maps.insert(epoch, w.map.encode_canonical().0);
            w.restart(|_| {
                let (store, control) = TestStore::replay(&journal, kind.seed());
                control.borrow_mut().damaged = Some("osdmap".into());
                (store, control)
            });
            assert_eq!(w.osd.pgs().count(), to as usize);
            w.connect(1, 4001);
            for i in 0..40 {
                assert_eq!(w.read(&format!("o{i}")).unwrap(), [i], "{to} {kind:?}");
            }
            restart_whole(&mut w, kind);
            assert_eq!(w.read("o1").unwrap(), [1]);
        }
    }
}

#[test]
fn another_osds_store_is_refused() {
    let mut w = recorded(Kind::Memory, 1);
    w.write("a", b"1");
    let journal = w.store.borrow().journal.clone().unwrap();
    let clock = w.clock();
    let why = |change: fn(&mut osd_core::OsdSetup)| {
        let mut setup = world::setup();
        change(&mut setup);
        let (store, _) = TestStore::replay(&journal, None);
        let mut out = Vec::new();
        Osd::new(setup, Box::new(store)).handle(Event::TurnEnd, clock, &mut out);
        out.into_iter().find_map(|e| if let Effect::Stop { why } = e { why } else { None })
    };
    assert!(why(|s| s.whoami = 3).unwrap().contains("the store of osd.0"));
    assert!(why(|s| s.osd_fsid = world::uuid(9)).unwrap().contains("not of"));
    assert!(why(|s| s.cluster_fsid = world::uuid(9)).unwrap().contains("belongs to cluster"));
    assert!(why(|s| s.cluster_fsid = types::Uuid::default()).is_none());
}

/// Clients append, count with a class and write; commits come late; the OSD dies with any part of what is not committed; clients send again
/// what was not answered. Each change is there once.
#[test]
fn what_was_answered_is_there_once_whatever_the_crash_took() {
    let mut again = 0;
    for seed in 0..40 {
        again += crashes(seed, if seed % 4 == 3 { Kind::Fetching(seed) } else { Kind::Memory });
    }
    assert!(again > 40, "only {again} requests were durable and had no answer");
}

/// How many requests were durable when the OSD died, had no answer, and were answered from the log.
fn crashes(seed: u64, kind: Kind) -> u64 {
    let mut all_logged = 0;
    let mut rng = Rng::new(seed);
    let mut w = recorded(kind, 1 + (seed % 3) as u32);
    // By object: what the answered and the open appends were, in order.
    let mut answered: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut listed = Vec::new();
    let mut open: Vec<(MOSDOp, String)> = Vec::new();
    for _crash in 0..4 {
        w.store.borrow_mut().holds_commits = true;
        for _ in 0..60 {
            let (name, op) = match rng.below(4) {
                // What was applied twice is an error.
                0 => ("directory".to_string(), call("rbd", "dir_add_image", &two(w.tid + 1))),
                _ => (format!("o{}", rng.below(5)), append(&(w.tid + 1).to_le_bytes())),
            };
            let m = w.request(&name, vec![op]);
            w.osd.handle(Event::Message { conn: ConnId(1), msg: received(&m.encode(features::SUPPORTED)) }, w.clock(), &mut w.out);
            open.push((m, name));
            if rng.chance(1, 4) {
                let held = w.store.borrow().held() as u64;
                w.store.borrow_mut().let_go = rng.below(held + 2) as usize;
                w.turn_end();
                take_answers(&mut w, &mut open, &mut answered, &mut listed);
            }
        }
        let (committed, submitted) = {
            let c = w.store.borrow();
            (c.committed, c.journal.as_ref().unwrap().len())
        };
        let kept = committed + rng.below((submitted - committed) as u64 + 1) as usize;
        w.restart(|c| TestStore::replay(&c.journal.as_ref().unwrap()[..kept], kind.seed()));
        w.connect(1, 4001);
        // What the store kept without an answer, with the version that it got before.
        let client = EntityName::client(4001);
        let logged: BTreeMap<u64, EVersion> = open
            .iter()
            .filter_map(|(m, _)| Some((m.tid, w.osd.pgs().find_map(|pg| pg.record().log().find(&m.reqid_from(client)))?.version())))
            .collect();
        assert_eq!(w.osd.perf().get(C::op_dup), 0);
        // Everything open is sent again, in order, by the new map.
        for i in 0..open.len() {
            let mut m = open[i].0.clone();
            (m.map_epoch, m.attempt) = (w.map.epoch, 1);
            w.feed(Event::Message { conn: ConnId(1), msg: received(&m.encode(features::SUPPORTED)) });
        }
        for (tid, version) in take_answers(&mut w, &mut open, &mut answered, &mut listed) {
            assert!(logged.get(&tid).is_none_or(|v| *v == version), "seed {seed}: {tid} has version {version}, and had {:?}", logged[&tid]);
        }
        assert!(open.is_empty(), "seed {seed}: {} requests have no answer", open.len());
        assert_eq!(w.osd.perf().get(C::op_dup), logged.len() as u64, "seed {seed}: answers out of the log");
        all_logged += logged.len() as u64;
        for (name, ids) in &answered {
            let data = w.read(name).unwrap();
            let found: Vec<u64> = data.chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect();
            let mut wanted = ids.clone();
            wanted.sort();
            assert_eq!(found, wanted, "seed {seed}, {name}");
        }
        for image in &listed {
            let reply = w.one("directory", vec![call("rbd", "dir_get_id", &one(*image))]);
            assert_eq!((reply.result, &reply.ops[0].outdata[..]), (0, &one(*image)[..]), "seed {seed}");
        }
        assert!(w.osd.pgs().all(|pg| pg.peering().is_clean()));
    }
    all_logged
}

/// Takes the answers; which requests they were to, and with which version.
fn take_answers(
    w: &mut World,
    open: &mut Vec<(MOSDOp, String)>,
    answered: &mut BTreeMap<String, Vec<u64>>,
    listed: &mut Vec<u64>,
) -> Vec<(u64, EVersion)> {
    let mut versions = Vec::new();
    for reply in w.sent::<MOSDOpReply>(1) {
        let Some(at) = open.iter().position(|(m, _)| m.tid == reply.tid) else { continue };
        let (m, name) = open.remove(at);
        assert!(reply.result >= 0, "{name}: {}", reply.result);
        versions.push((reply.tid, reply.replay_version));
        if name == "directory" {
            listed.push(m.tid);
        } else {
            answered.entry(name).or_default().push(m.tid);
        }
    }
    versions
}

/// A number as an encoded text, and twice.
fn one(n: u64) -> Vec<u8> {
    let mut e = denc::Encoder::new(0);
    e.blob(n.to_string().as_bytes());
    e.finish().to_vec()
}
fn two(n: u64) -> Vec<u8> {
    [one(n), one(n)].concat()
}
