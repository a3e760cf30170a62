//! Groups of two and three copies on OSDs that are joined by queues: what a client was answered is on every member, in whatever order messages
//! and commits arrive.

use crate::cluster::{Cluster, POOL};
use crate::world::write_full;
use base::Rng;
use bytes::Bytes;
use maps::map_flags;
use messages::{InOp, MOSDOp, MOSDOpReply};
use std::collections::BTreeMap;
use types::osd_op::OpCode;
use types::{IntervalSet, OsdOp, PgId, SnapContext, SpgId, pg_state};

fn append(data: &[u8]) -> InOp {
    InOp::new(OsdOp::range(OpCode::APPEND, 0, data.len() as u64), Bytes::copy_from_slice(data))
}
fn delete() -> InOp {
    InOp::new(OsdOp::new(OpCode::DELETE), Bytes::new())
}
fn hold(c: &Cluster, id: usize, holds: bool) {
    c.nodes[id].as_ref().unwrap().store.borrow_mut().holds_commits = holds;
}

#[test]
fn a_new_pool_gets_active_and_clean_on_every_member() {
    for (seed, size) in [(1, 1), (2, 2), (3, 3)] {
        let c = Cluster::new(seed, 3, size, 1, 8);
        c.assert_clean();
        assert_eq!(c.errors, [""; 0]);
        let copies: usize = c.nodes.iter().flatten().map(|n| n.osd.pgs().count()).sum();
        assert_eq!(copies, 8 * usize::from(size));
        c.assert_copies_equal();
    }
}

#[test]
fn a_write_is_answered_when_every_member_has_it_on_disk() {
    let mut c = Cluster::new(5, 3, 3, 2, 1);
    for slow in 0..3 {
        hold(&c, slow, true);
        assert!(c.one("a", vec![append(b"x")]).is_none(), "osd.{slow} has it not on disk");
        hold(&c, slow, false);
        c.feed(slow, osd_core::Event::TurnEnd);
        c.settle();
        assert_eq!(c.replies.len(), 1, "osd.{slow} has it");
        c.replies.clear();
    }
    assert_eq!(c.read("a").unwrap(), b"xxx");
    c.assert_copies_equal();
}

/// Any mix of writes, deletes, clones and errors, with members that commit late: each is answered once, those of one object in order, and at rest
/// every copy is the same, its log and its duplicates too, though the log was trimmed meanwhile.
#[test]
fn copies_are_equal_at_rest_whatever_the_order_of_messages() {
    for seed in 0..12 {
        let size = 2 + (seed % 2) as u8;
        let mut c = Cluster::new(seed, 3, size, 1, 2);
        let mut rng = Rng::new(seed + 100);
        let (mut ledger, mut sent): (BTreeMap<String, Option<Vec<u8>>>, Vec<MOSDOp>) = Default::default();
        let mut snapc = SnapContext::default();
        for step in 0..400_u32 {
            let name = format!("o{}", rng.below(9));
            let byte = [b'a' + (step % 26) as u8];
            let known = ledger.entry(name.clone()).or_default();
            let op = match rng.below(12) {
                0 => {
                    *known = None;
                    delete()
                }
                1 => {
                    *known = Some(byte.repeat(10_000));
                    write_full(&byte.repeat(10_000))
                }
                _ => {
                    known.get_or_insert_default().extend(byte);
                    append(&byte)
                }
            };
            if rng.chance(1, 10) {
                snapc.seq += 1;
                snapc.snaps.insert(0, snapc.seq);
            }
            let m = MOSDOp { snapc: snapc.clone(), ..c.request(&name, vec![op]) };
            c.give(&m);
            sent.push(m);
            for _ in 0..rng.below(12) {
                c.step();
            }
            let slow = rng.below(3) as usize;
            hold(&c, slow, rng.chance(1, 2));
        }
        (0..3).for_each(|id| hold(&c, id, false));
        (0..3).for_each(|id| c.feed(id, osd_core::Event::TurnEnd));
        c.settle();
        let mut answered: Vec<u64> = c.replies.iter().map(|r| r.tid).collect();
        answered.sort_unstable();
        assert_eq!(answered, sent.iter().map(|m| m.tid).collect::<Vec<_>>(), "seed {seed}: {:?}", c.errors);
        let in_order = |name: &[u8]| {
            let tids = |r: &MOSDOpReply| sent.iter().find(|m| m.tid == r.tid && m.hobj.oid.as_slice() == name).map(|m| m.tid);
            c.replies.iter().filter_map(tids).is_sorted()
        };
        assert!(ledger.keys().all(|name| in_order(name.as_bytes())), "seed {seed}");
        for (name, wanted) in &ledger {
            assert_eq!(c.read(name).ok(), *wanted, "seed {seed}: {name}");
        }
        c.assert_copies_equal();
        c.assert_clean();
        assert_eq!(c.errors, [""; 0], "seed {seed}");
    }
}

/// What a member knows of clones it has from log entries, and of what was trimmed from the primary's word.
#[test]
fn the_index_of_snapshots_is_the_same_on_every_member() {
    let mut c = Cluster::new(21, 3, 3, 2, 2);
    let mut snapc = SnapContext::default();
    for round in 0..3_u64 {
        for n in 0..6 {
            let m = MOSDOp { snapc: snapc.clone(), ..c.request(&format!("o{n}"), vec![append(b"x")]) };
            c.give(&m);
        }
        c.settle();
        snapc.seq = round + 1;
        snapc.snaps.insert(0, snapc.seq);
    }
    let keys = c.snap_index(0).len();
    assert_eq!(keys, 12, "two snapshots of six objects");
    for trimmed in 1..=2 {
        c.publish(|m| drop(m.removed_snaps_queue.insert(POOL, IntervalSet::of(trimmed, 1))));
        c.settle();
        for osd in 0..3 {
            assert_eq!(c.snap_index(osd).len(), 12 - 6 * trimmed as usize, "osd.{osd}");
            assert_eq!(c.snap_index(osd), c.snap_index(0));
            // Each makes a report for the manager, which names what was purged. Members hear nothing of that.
            assert_eq!(c.command(osd, &serde_json::json!({ "prefix": "flush_pg_stats" })).0, 0);
        }
        assert_eq!(c.one("o1", vec![append(b"y")]).map(|r| r.result), Some(0));
        c.assert_copies_equal();
    }
    assert_eq!(c.errors, [""; 0]);
}

/// A trim that some members lack may be taken back by the next interval, and then the clone is here again: until then its snapshot is not purged.
#[test]
fn a_snapshot_is_purged_when_every_member_has_trimmed() {
    for seed in 30..40 {
        let mut c = Cluster::new(seed, 3, 3, 2, 1);
        c.one("a", vec![append(b"x")]);
        let m = MOSDOp { snapc: SnapContext { seq: 1, snaps: vec![1] }, ..c.request("a", vec![append(b"y")]) };
        c.give(&m);
        c.settle();
        let pgid = PgId::new(POOL, 0);
        let clones = |c: &Cluster| -> usize { (0..3).map(|osd| c.clones(osd, pgid)).sum() };
        assert_eq!(clones(&c), 3);
        c.publish(|m| drop(m.removed_snaps_queue.insert(POOL, IntervalSet::of(1, 1))));
        let purged = |c: &Cluster, osd: usize| {
            c.nodes[osd].as_ref().is_some_and(|n| n.osd.pgs().any(|pg| pg.record().info().purged_snaps.contains_point(1)))
        };
        let primary = c.primary(pgid) as usize;
        for _ in 0..50 {
            while c.step() {
                assert!(!purged(&c, primary) || clones(&c) == 0, "seed {seed}: purged while a member has the clone");
            }
            c.tick();
        }
        assert!(purged(&c, primary), "seed {seed}: at last it is purged");
        assert_eq!(c.errors, [""; 0]);
    }
}

/// A member is away while objects change, and is back without them: with the flag that holds recovery, it stays so. `first`: it is the primary.
fn comes_back_without(c: &mut Cluster, first: bool, change: &[MOSDOp]) -> usize {
    let pgid = PgId::new(POOL, 0);
    let primary = c.primary(pgid) as usize;
    let away = if first { primary } else { 1 - primary };
    c.kill(away);
    c.mark_down(away);
    c.settle();
    for m in change {
        c.give(&MOSDOp { map_epoch: c.map.epoch, ..m.clone() });
        c.settle();
    }
    c.publish(|m| m.flags |= map_flags::NORECOVER);
    c.start(away);
    c.settle();
    assert_eq!(c.primary(pgid) as usize, primary, "it leads again");
    assert!(c.is_active(pgid));
    away
}
fn missing(c: &Cluster, osd: usize) -> usize {
    let store = c.nodes[osd].as_ref().unwrap().osd.store();
    store.load_pg(SpgId::whole(PgId::new(POOL, 0))).unwrap().expect("it has the group").missing.len()
}
fn recovers(c: &mut Cluster) {
    c.publish(|m| m.flags &= !map_flags::NORECOVER);
    (0..3).for_each(|_| c.settle());
}

/// A clone that a member lacks is in no index of its: whether a snapshot has clones is known when all is recovered.
#[test]
fn a_snapshot_is_not_purged_while_members_lack_objects() {
    for (seed, first) in (50..54).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut c = Cluster::new(seed, 2, 2, 1, 1);
        c.one("a", vec![append(b"x")]);
        let change = MOSDOp { snapc: SnapContext { seq: 1, snaps: vec![1] }, ..c.request("a", vec![append(b"y")]) };
        let away = comes_back_without(&mut c, first, &[change]);
        let pgid = PgId::new(POOL, 0);
        let what = format!("seed {seed}, the primary: {first}");
        assert_eq!((missing(&c, away), c.clones(away, pgid), c.clones(1 - away, pgid)), (2, 0, 1), "{what}");
        let is_purged =
            |c: &Cluster, osd: usize| c.nodes[osd].as_ref().unwrap().osd.pgs().any(|pg| pg.record().info().purged_snaps.contains_point(1));
        c.publish(|m| drop(m.removed_snaps_queue.insert(POOL, IntervalSet::of(1, 1))));
        c.settle();
        assert!((0..2).all(|osd| !is_purged(&c, osd)), "{what}: purged while a member has the clone");
        recovers(&mut c);
        assert!((0..2).all(|osd| is_purged(&c, osd) && c.clones(osd, pgid) == 0), "{what}: trimmed and purged");
        assert_eq!((0..2).map(|osd| c.snap_index(osd).len()).sum::<usize>(), 0, "{what}");
        assert_eq!(c.read("a").unwrap(), b"xy");
        c.assert_copies_equal();
        c.assert_clean();
        assert_eq!(c.errors, [""; 0]);
    }
}

/// A write whose answer was lost is sent again: members that have its entry may lack what it wrote.
#[test]
fn a_resent_write_is_answered_when_members_have_what_it_wrote() {
    for (seed, first) in (60..64).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut c = Cluster::new(seed, 2, 2, 1, 1);
        let what = format!("seed {seed}, the primary: {first}");
        c.one("a", vec![append(b"x")]);
        let write = c.request("a", vec![append(b"y")]);
        let away = comes_back_without(&mut c, first, std::slice::from_ref(&write));
        assert_eq!((missing(&c, away), c.replies.len()), (1, 1), "{what}");
        c.replies.clear();
        c.give(&MOSDOp { attempt: 1, map_epoch: c.map.epoch, ..write.clone() });
        for _ in 0..50 {
            while c.step() {
                assert!(c.replies.is_empty() || missing(&c, away) == 0, "{what}: answered while one copy is all there is");
            }
            c.tick();
        }
        recovers(&mut c);
        assert_eq!(c.replies.iter().map(|r| (r.tid, r.result)).collect::<Vec<_>>(), [(write.tid, 0)], "{what}");
        assert_eq!(c.read("a").unwrap(), b"xy", "{what}: it was executed once");
        c.assert_copies_equal();
        assert_eq!(c.errors, [""; 0]);
    }
}

/// A member that stops is left out; below min_size nothing is answered, and what waited is answered when a member is back that has all.
#[test]
fn too_few_members_answer_nothing() {
    let mut c = Cluster::new(9, 2, 2, 2, 1);
    assert_eq!(c.one("a", vec![append(b"1")]).map(|r| r.result), Some(0));
    let replica = 1 - c.primary(PgId::new(POOL, 0)) as usize;
    c.kill(replica);
    c.mark_down(replica);
    c.settle();
    assert!(!c.is_active(PgId::new(POOL, 0)));
    assert!(c.one("a", vec![append(b"2")]).is_none());
    c.start(replica);
    c.settle();
    c.assert_clean();
    // The client sends again what it was told to keep.
    assert_eq!(c.one("a", vec![append(b"3")]).map(|r| r.result), Some(0));
    assert!([&b"13"[..], b"123"].contains(&&c.read("a").unwrap()[..]));
    c.assert_copies_equal();
}

#[test]
fn a_group_serves_with_a_member_less_and_says_so() {
    let mut c = Cluster::new(11, 3, 3, 2, 1);
    let pgid = PgId::new(POOL, 0);
    assert_eq!(c.one("a", vec![append(b"1")]).map(|r| r.result), Some(0));
    let gone = (c.primary(pgid) as usize + 1) % 3;
    c.kill(gone);
    c.mark_down(gone);
    c.settle();
    assert_eq!(c.one("a", vec![append(b"2")]).map(|r| r.result), Some(0));
    let node = c.nodes[c.primary(pgid) as usize].as_ref().unwrap();
    let bits = node.osd.pgs().next().unwrap().state_bits();
    assert_eq!(bits, pg_state::ACTIVE | pg_state::UNDERSIZED | pg_state::DEGRADED, "{}", pg_state::to_text(bits));
    c.assert_copies_equal();
}

/// A write on an object that recovery has just brought to the primary waits until it is durable there: the other member may have the only copy that
/// outlives a crash, and would write over it.
#[test]
fn a_write_waits_until_a_recovered_object_is_durable() {
    let mut c = Cluster::new(3, 2, 2, 1, 1);
    assert_eq!(c.one("o", vec![append(b"1")]).unwrap().result, 0);
    let primary = c.primary(PgId::new(POOL, 0)) as usize;
    let other = 1 - primary;
    c.kill(primary);
    c.mark_down(primary);
    c.settle();
    assert_eq!(c.one("o", vec![append(b"2")]).unwrap().result, 0);
    let group = |c: &Cluster, id: usize| {
        c.nodes[id].as_ref().and_then(|node| node.osd.pgs().next().map(|pg| (pg.peering().is_active(), pg.record().info().last_update)))
    };
    c.start(primary);
    while !group(&c, primary).is_some_and(|(is_active, _)| is_active) {
        if !c.step() {
            c.tick();
        }
    }
    hold(&mut c, primary, true);
    c.settle();
    let before = group(&c, other).unwrap().1;
    let m = c.request("o", vec![append(b"3")]);
    c.give(&m);
    c.settle();
    assert_eq!((c.replies.len(), group(&c, other).unwrap().1), (0, before), "it has reached the other member");
    hold(&mut c, primary, false);
    c.settle();
    assert_eq!(c.replies.pop().unwrap().result, 0);
    assert_eq!(c.read("o").unwrap(), b"123");
    c.assert_copies_equal();
}
