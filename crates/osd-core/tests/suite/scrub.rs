//! Damage behind an OSD's back, of every kind, on the primary and on another member: scrubs find it and say so, no client is handed any of it, and
//! a repair mends it from a good copy.

use crate::cluster::{Cluster, POOL};
use crate::world::{uuid, write_full};
use bytes::Bytes;
use denc::Denc;
use messages::{InOp, MOSDScrub2, Message};
use osd_core::Event;
use types::osd_op::{OpCode, PglsArgs, XattrArgs, osd_flag};
use types::scrub_results::{InconsistentObj, InconsistentSnapset, ScrubLsArg, ScrubLsResult, object_error, shard_error, snapset_error};
use types::{
    ByteStr, CollId, GHObject, HObject, ObjectInfo, ObjectStatSum, OsdOp, PgId, SnapContext, SpgId, Transaction, features, pg_state,
};

const GROUP: PgId = PgId::new(POOL, 0);
const RIGHT: &[u8] = b"the right bytes";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Bytes,
    Size,
    Attr,
    Info,
    BrokenInfo,
    Omap,
    Snapset,
    NoSnapset,
    Removed,
    ExtraClone,
}
use Damage::{Attr, BrokenInfo, ExtraClone, Info, NoSnapset, Omap, Removed, Size, Snapset};
const ALL: [Damage; 10] = [Damage::Bytes, Size, Attr, Info, BrokenInfo, Omap, Snapset, NoSnapset, Removed, ExtraClone];
use Damage::Bytes as DamagedBytes;

fn set_xattr(name: &str, value: &[u8]) -> InOp {
    let args = XattrArgs { name_len: name.len() as u32, value_len: value.len() as u32, ..XattrArgs::default() };
    InOp::new(OsdOp::with_xattr(OpCode::SETXATTR, args), [name.as_bytes(), value].concat().into())
}
fn set_omap(key: &str, value: &[u8]) -> InOp {
    let values: std::collections::BTreeMap<ByteStr, bytes::Bytes> =
        [(key.as_bytes().to_vec().into(), bytes::Bytes::copy_from_slice(value))].into();
    InOp::new(OsdOp::new(OpCode::OMAPSETVALS), values.to_bytes(0))
}
fn read() -> InOp {
    InOp::new(OsdOp::range(OpCode::READ, 0, 0), bytes::Bytes::new())
}

/// Three copies of one object with a clone, an attribute and a key, and of some others.
fn written(seed: u64) -> Cluster {
    let mut c = Cluster::new(seed, 3, 3, 2, 1);
    for name in ["other", "more", "still more"] {
        assert_eq!(c.one(name, vec![write_full(b"undamaged")]).unwrap().result, 0);
    }
    assert_eq!(c.one("o", vec![write_full(b"before the snapshot")]).unwrap().result, 0);
    let mut m = c.request("o", vec![write_full(RIGHT), set_xattr("color", b"blue"), set_omap("key", b"value")]);
    m.snapc = SnapContext { seq: 1, snaps: vec![1] };
    c.give(&m);
    c.settle();
    assert!(c.replies.iter().any(|r| r.tid == m.tid && r.result == 0), "{:?}", c.errors);
    // A data digest of its own: a full write has one.
    assert_eq!(c.one("o", vec![write_full(RIGHT)]).unwrap().result, 0);
    c
}
fn head(c: &mut Cluster) -> HObject {
    c.request("o", Vec::new()).hobj
}

fn damage_of(kind: Damage, head: &HObject) -> Transaction {
    let mut txn = Transaction::new(CollId::Pg(SpgId::whole(GROUP)));
    let obj = GHObject::plain(head.clone());
    let text = |t: &'static str| bytes::Bytes::from_static(t.as_bytes());
    match kind {
        DamagedBytes => txn.write(&obj, 4, text("WRONG"), 0),
        Size => txn.truncate(&obj, 3),
        Attr => txn.set_attr(&obj, "_color", text("red")),
        Info => txn.rm_attr(&obj, "_"),
        BrokenInfo => txn.set_attr(&obj, "_", text("no record")),
        Omap => txn.omap_set_keys(&obj, vec![("key".into(), text("another"))]),
        Snapset => txn.set_attr(&obj, "snapset", text("no snapset")),
        NoSnapset => txn.rm_attr(&obj, "snapset"),
        Removed => txn.remove(&obj),
        ExtraClone => {
            let clone = head.at_snap(77);
            let name = GHObject::plain(clone.clone());
            txn.touch(&name);
            txn.set_attr(&name, "_", ObjectInfo::new(clone).to_bytes(features::SUPPORTED));
        }
    }
    txn
}
/// The OSD ends, its store is damaged, and it comes back.
fn damage(c: &mut Cluster, victim: usize, kind: Damage) {
    let head = head(c);
    c.kill(victim);
    c.mark_down(victim);
    c.settle();
    c.damage(victim, damage_of(kind, &head));
    c.start(victim);
    c.settle();
    c.assert_clean();
}
fn scrub(c: &mut Cluster, deep: bool, repair: bool) {
    let primary = c.primary(GROUP) as usize;
    let m = MOSDScrub2 { fsid: uuid(1), epoch: c.map.epoch, pgs: vec![SpgId::whole(GROUP)], repair, deep };
    c.feed(primary, Event::Mon(m.encode(features::SUPPORTED)));
    c.settle();
}
fn sum(c: &Cluster) -> ObjectStatSum {
    let node = c.nodes[c.primary(GROUP) as usize].as_ref().unwrap();
    node.osd.pgs().find(|pg| pg.pgid.pgid == GROUP).unwrap().record().info().stats.stats.sum
}
fn state(c: &Cluster) -> u64 {
    let node = c.nodes[c.primary(GROUP) as usize].as_ref().unwrap();
    node.osd.pgs().find(|pg| pg.pgid.pgid == GROUP).unwrap().state_bits()
}
/// What SCRUBLS answers.
fn list(c: &mut Cluster, snapsets: bool) -> Result<ScrubLsResult, i32> {
    let arg = ScrubLsArg { get_snapsets: snapsets.into(), max_return: 100, ..ScrubLsArg::default() };
    let op = OsdOp::with_pgls(OpCode::SCRUBLS, PglsArgs::default());
    let mut m = c.request("", vec![InOp::new(op, arg.to_bytes(0))]);
    (m.flags, m.pgid) = (osd_flag::READ | osd_flag::PGOP, SpgId::whole(GROUP));
    c.give(&m);
    c.settle();
    let at = c.replies.iter().position(|r| r.tid == m.tid).expect("answered");
    let reply = c.replies.remove(at);
    if reply.result < 0 { Err(-reply.result) } else { Ok(ScrubLsResult::from_bytes(&reply.ops[0].outdata.clone().into()).unwrap()) }
}
fn objects(c: &mut Cluster) -> Vec<InconsistentObj> {
    let found = list(c, false).unwrap();
    found.vals.iter().map(|bytes| InconsistentObj::from_bytes(bytes).unwrap()).collect()
}
fn snapsets(c: &mut Cluster) -> Vec<InconsistentSnapset> {
    let found = list(c, true).unwrap();
    found.vals.iter().map(|bytes| InconsistentSnapset::from_bytes(bytes).unwrap()).collect()
}

/// What is to be found: of the object, and of the member's copy.
fn expected(kind: Damage) -> (u64, u64) {
    match kind {
        DamagedBytes => (object_error::DATA_DIGEST, shard_error::DATA_DIGEST_INFO),
        Size => (
            object_error::DATA_DIGEST | object_error::SIZE,
            shard_error::DATA_DIGEST_INFO | shard_error::SIZE_INFO | shard_error::OBJ_SIZE_INFO,
        ),
        Attr => (object_error::ATTR_VALUE, 0),
        Info => (0, shard_error::INFO_MISSING),
        BrokenInfo => (0, shard_error::INFO_CORRUPTED),
        Omap => (object_error::OMAP_DIGEST, 0),
        Snapset => (0, shard_error::SNAPSET_CORRUPTED),
        NoSnapset => (0, shard_error::SNAPSET_MISSING),
        Removed => (0, shard_error::MISSING),
        ExtraClone => (0, shard_error::MISSING),
    }
}
fn is_deep(kind: Damage) -> bool {
    matches!(kind, DamagedBytes | Omap)
}

const OBJECT_ERRORS: &[(u64, &str)] = &[
    (object_error::INFO, "object_info_inconsistency"),
    (object_error::DATA_DIGEST, "data_digest_mismatch"),
    (object_error::OMAP_DIGEST, "omap_digest_mismatch"),
    (object_error::SIZE, "size_mismatch"),
    (object_error::ATTR_VALUE, "attr_value_mismatch"),
    (object_error::SNAPSET, "snapset_inconsistency"),
];
const SHARD_ERRORS: &[(u64, &str)] = &[
    (shard_error::MISSING, "missing"),
    (shard_error::DATA_DIGEST_INFO, "data_digest_mismatch_info"),
    (shard_error::SIZE_INFO, "size_mismatch_info"),
    (shard_error::INFO_MISSING, "info_missing"),
    (shard_error::SNAPSET_MISSING, "snapset_missing"),
];

/// Stock has told the same of the same damage, where its tool can do it.
fn assert_told_as_stock_did(kind: Damage, on_primary: bool, found: &InconsistentObj) {
    let name = match kind {
        DamagedBytes => "bytes",
        Attr => "attr",
        Info => "info",
        Omap => "omap",
        NoSnapset => "snapset",
        Removed => "removed",
        _ => return,
    };
    let name = format!("{name}-{}", if on_primary { "primary" } else { "replica" });
    let all: serde_json::Value = serde_json::from_str(include_str!("../../../../fixtures/scrub/deep-obj.json")).unwrap();
    let stocks = all["inconsistents"].as_array().unwrap().iter().find(|o| o["object"]["name"] == *name).unwrap();
    let ours = |errors: u64, names: &[(u64, &str)]| {
        assert_eq!(names.iter().fold(errors, |left, (bit, _)| left & !bit), 0, "{name}: bits without a name");
        let mut texts: Vec<String> = names.iter().filter(|(bit, _)| errors & bit != 0).map(|(_, text)| text.to_string()).collect();
        texts.sort();
        texts
    };
    let theirs = |errors: &serde_json::Value| {
        let mut texts: Vec<String> = errors.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_string()).collect();
        texts.sort();
        texts
    };
    assert_eq!(ours(found.errors, OBJECT_ERRORS), theirs(&stocks["errors"]), "{name}");
    assert_eq!(ours(found.union_errors, SHARD_ERRORS), theirs(&stocks["union_shard_errors"]), "{name}");
}

#[test]
fn undamaged_copies_have_no_findings() {
    for seed in 0..3 {
        let mut c = written(seed);
        assert_eq!(list(&mut c, false), Err(2), "nothing was scrubbed in this interval");
        for deep in [false, true] {
            scrub(&mut c, deep, false);
            assert_eq!((sum(&c).num_scrub_errors, state(&c) & pg_state::INCONSISTENT), (0, 0), "{:?}", c.errors);
            assert_eq!((objects(&mut c), snapsets(&mut c)), (Vec::new(), Vec::new()));
        }
        assert_eq!(c.errors, [""; 0]);
        c.assert_objects_equal("at the end");
    }
}

#[test]
fn damage_of_each_kind_is_found_told_and_repaired() {
    for (kind, on_primary) in ALL.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let what = format!("{kind:?}, on the primary: {on_primary}");
        let mut c = written(7);
        let primary = c.primary(GROUP) as usize;
        let victim = if on_primary { primary } else { (primary + 1) % 3 };
        damage(&mut c, victim, kind);
        assert_eq!(c.primary(GROUP) as usize, primary, "{what}");
        // A shallow scrub finds what needs no reading.
        scrub(&mut c, false, false);
        assert_eq!(sum(&c).num_shallow_scrub_errors > 0, !is_deep(kind), "{what}: {:?}", c.errors);
        assert_eq!(sum(&c).num_deep_scrub_errors, 0, "{what}");
        scrub(&mut c, true, false);
        assert!(sum(&c).num_scrub_errors > 0 && state(&c) & pg_state::INCONSISTENT != 0, "{what}: {:?}", c.errors);
        assert!(c.errors.iter().any(|line| line.contains(":::o:")), "{what}: {:?}", c.errors);
        let found = objects(&mut c);
        assert_eq!(found.len(), 1, "{what}: {found:#?}");
        assert_told_as_stock_did(kind, on_primary, &found[0]);
        let (of_object, of_shard) = expected(kind);
        assert_eq!(found[0].errors, of_object, "{what}: {found:#?}");
        for (shard, copy) in &found[0].shards {
            // An extra clone is missing everywhere else.
            let is_bad = (shard.osd as usize == victim) != (kind == ExtraClone);
            assert_eq!(copy.errors, if is_bad { of_shard } else { 0 }, "{what}: osd.{shard}");
            assert_eq!(copy.primary, shard.osd as usize == primary, "{what}");
        }
        let headless = snapsets(&mut c).iter().filter(|s| s.errors & snapset_error::HEADLESS != 0).count();
        assert_eq!(headless, usize::from(kind == ExtraClone), "{what}");
        // Meanwhile no client sees any of it.
        assert_eq!(c.read("o").as_deref(), Ok(RIGHT), "{what}: {:?}", c.errors);
        scrub(&mut c, true, true);
        c.settle();
        c.assert_clean();
        assert_eq!(sum(&c).num_scrub_errors, 0, "{what}: {:?}", c.errors);
        c.assert_objects_equal(&what);
        c.errors.clear();
        scrub(&mut c, true, false);
        assert_eq!((objects(&mut c), snapsets(&mut c)), (Vec::new(), Vec::new()), "{what}");
        assert_eq!(c.errors, [""; 0], "{what}");
        assert_eq!(state(&c) & (pg_state::INCONSISTENT | pg_state::REPAIR | pg_state::FAILED_REPAIR), 0, "{what}");
        // Each member serves what is right.
        for leader in 0..3 {
            c.publish(|m| (0..3).for_each(|osd| m.set_primary_affinity(osd, u32::from(osd == leader) * 0x10000)));
            c.settle();
            assert_eq!(c.read("o").as_deref(), Ok(RIGHT), "{what}");
        }
    }
}

/// What a read notices by itself is answered from another copy and mended, without any scrub.
#[test]
fn a_read_that_meets_damage_is_answered_from_another_copy() {
    for (seed, kind) in [DamagedBytes, Size, Info, BrokenInfo, Snapset, NoSnapset].into_iter().enumerate() {
        let mut c = written(20 + seed as u64);
        let primary = c.primary(GROUP) as usize;
        damage(&mut c, primary, kind);
        assert_eq!(c.read("o").as_deref(), Ok(RIGHT), "{kind:?}: {:?}", c.errors);
        c.settle();
        c.assert_clean();
        c.assert_objects_equal(&format!("{kind:?}"));
        scrub(&mut c, true, false);
        assert_eq!(sum(&c).num_scrub_errors, 0, "{kind:?}");
        // Writes go on from the right bytes.
        let append = InOp::new(OsdOp::range(OpCode::APPEND, 0, 1), Bytes::from_static(b"!"));
        assert_eq!(c.one("o", vec![append]).unwrap().result, 0);
        assert_eq!(c.read("o").as_deref(), Ok(&b"the right bytes!"[..]));
        c.assert_objects_equal(&format!("{kind:?}"));
    }
}

/// Damage to what was written in the interval that goes on: since it began the members have said nothing but their answers to these writes.
#[test]
fn what_was_written_in_this_interval_is_mended_from_a_member() {
    for (seed, kind) in [DamagedBytes, Size].into_iter().enumerate() {
        for by_scrub in [false, true] {
            let mut c = written(60 + seed as u64);
            let (primary, since) = (c.primary(GROUP) as usize, c.map.epoch);
            let head = head(&mut c);
            c.nodes[primary].as_ref().unwrap().store.borrow_mut().behind.push(damage_of(kind, &head));
            c.feed(primary, Event::Tick);
            c.settle();
            assert!(c.nodes[primary].as_ref().unwrap().store.borrow().behind.is_empty(), "it is damaged");
            if by_scrub {
                scrub(&mut c, true, true);
                assert_eq!(sum(&c).num_scrub_errors, 0, "{kind:?}: {:?}", c.errors);
            }
            assert_eq!(c.read("o").as_deref(), Ok(RIGHT), "{kind:?}, by a scrub: {by_scrub}: {:?}", c.errors);
            assert!(!c.errors.is_empty(), "{kind:?}, by a scrub: {by_scrub}: the damage was met");
            c.settle();
            c.assert_clean();
            c.assert_objects_equal(&format!("{kind:?}"));
            assert_eq!(c.map.epoch, since, "no other interval began");
        }
    }
}

/// The members of an interval that ended before all of them had answered are not those of the next one.
#[test]
fn a_read_that_met_damage_asks_the_members_of_the_next_interval() {
    for seed in 0..6 {
        let mut c = written(700 + seed);
        let primary = c.primary(GROUP) as usize;
        damage(&mut c, primary, DamagedBytes);
        let silent = (primary + 1 + seed as usize % 2) % 3;
        c.kill(silent);
        let m = c.request("o", vec![read()]);
        c.give(&m);
        c.settle();
        assert!(c.replies.iter().all(|r| r.tid != m.tid), "seed {seed}: a member has not said what it has");
        c.mark_down(silent);
        c.settle();
        let reply = c.replies.iter().find(|r| r.tid == m.tid).unwrap_or_else(|| panic!("seed {seed}: not answered: {:?}", c.errors));
        assert_eq!((reply.result, &reply.ops[0].outdata[..]), (0, RIGHT), "seed {seed}: the third member has a good copy");
        assert_eq!(c.read("o").as_deref(), Ok(RIGHT), "seed {seed}");
    }
}

#[test]
fn without_a_good_copy_a_read_is_eio_and_never_a_wrong_byte() {
    let mut c = written(40);
    for victim in 0..3 {
        damage(&mut c, victim, if victim == 1 { Info } else { BrokenInfo });
    }
    assert_eq!(c.one("o", vec![read()]).unwrap().result, -types::errno::EIO);
    scrub(&mut c, true, true);
    c.settle();
    assert!(sum(&c).num_scrub_errors > 0 && state(&c) & pg_state::FAILED_REPAIR != 0, "{:?}", c.errors);
    assert_eq!(c.one("o", vec![read()]).unwrap().result, -types::errno::EIO);
    assert_eq!(c.read("other").as_deref(), Ok(&b"undamaged"[..]));
}

/// Two copies that are alike and not what object_info says lose against one that is.
#[test]
fn object_info_counts_more_than_the_majority() {
    for good in 0..3 {
        let mut c = written(50 + good as u64);
        for victim in (0..3).filter(|osd| *osd != good) {
            damage(&mut c, victim, DamagedBytes);
        }
        scrub(&mut c, true, true);
        c.settle();
        c.assert_clean();
        assert_eq!(c.read("o").as_deref(), Ok(RIGHT), "osd.{good} has the right one: {:?}", c.errors);
        c.assert_objects_equal("repaired");
        assert_eq!(sum(&c).num_scrub_errors, 0);
    }
}

/// Writes beside scrubs: no finding, no lost write, and every scrub comes to its end.
#[test]
fn scrubs_beside_writes_find_nothing_and_end() {
    for seed in 60..66 {
        let mut c = written(seed);
        let mut given = Vec::new();
        for round in 0..6_u8 {
            let primary = c.primary(GROUP) as usize;
            let m = MOSDScrub2 { fsid: uuid(1), epoch: c.map.epoch, pgs: vec![SpgId::whole(GROUP)], repair: false, deep: round % 2 == 0 };
            c.feed(primary, Event::Mon(m.encode(features::SUPPORTED)));
            c.tick();
            for n in 0..20_u8 {
                for _ in 0..c.rng.below(6) {
                    c.step();
                }
                let name = ["o", "other", "more", "new"][usize::from(n) % 4];
                let m = c.request(name, vec![write_full(&[round, n]), set_omap("key", &[n])]);
                c.give(&m);
                given.push(m.tid);
            }
            c.settle();
        }
        assert!(given.iter().all(|tid| c.replies.iter().any(|r| r.tid == *tid && r.result == 0)), "seed {seed}");
        scrub(&mut c, true, false);
        assert_eq!(c.errors, [""; 0], "seed {seed}");
        assert_eq!(sum(&c).num_scrub_errors, 0);
        assert_eq!(c.read("new").unwrap(), [5, 19]);
        c.assert_objects_equal("at the end");
    }
}

/// What is scheduled stays away under `noscrub`, and comes when it is due; what is asked for is done.
#[test]
fn scrubs_are_scheduled() {
    let mut c = written(70);
    let primary = c.primary(GROUP) as usize;
    let stamp = |c: &Cluster| c.nodes[primary].as_ref().unwrap().osd.pgs().next().unwrap().record().info().history.last_scrub_stamp;
    let set = |c: &mut Cluster, osd: usize, name: &str, value: &str| {
        c.feed(osd, Event::Config { name: name.into(), value: value.into() });
    };
    set(&mut c, primary, "osd_scrub_min_interval", "1");
    set(&mut c, primary, "osd_scrub_max_interval", "1");
    let before = stamp(&c);
    c.publish(|m| m.flags |= maps::map_flags::NOSCRUB | maps::map_flags::NODEEP_SCRUB);
    c.settle();
    let kept = stamp(&c);
    c.publish(|m| m.flags &= !(maps::map_flags::NOSCRUB | maps::map_flags::NODEEP_SCRUB));
    c.settle();
    assert!(stamp(&c) > kept, "it was due: {before} {kept}");
    c.publish(|m| m.flags |= maps::map_flags::NOSCRUB);
    c.settle();
    let kept = stamp(&c);
    c.settle();
    assert_eq!(stamp(&c), kept, "the flag keeps it away");
    // What is asked for is done all the same.
    scrub(&mut c, false, false);
    assert!(stamp(&c) > kept);
}

/// A damaged group repairs itself where that is wanted, and not where there is too much to repair.
#[test]
fn auto_repair_mends_a_few_findings() {
    for (limit, mends) in [("5", true), ("0", false)] {
        let mut c = written(80);
        let primary = c.primary(GROUP) as usize;
        damage(&mut c, (primary + 2) % 3, Attr);
        for (name, value) in [
            ("osd_scrub_auto_repair_num_errors", limit),
            ("osd_scrub_auto_repair", "true"),
            ("osd_deep_scrub_interval", "1"),
            ("osd_scrub_min_interval", "1"),
        ] {
            c.feed(primary, Event::Config { name: name.into(), value: value.into() });
        }
        c.settle();
        c.settle();
        assert_eq!(sum(&c).num_scrub_errors == 0, mends, "{:?}", c.errors);
        if mends {
            c.assert_objects_equal("repaired by itself");
        }
    }
}

/// Eight groups and one slot an OSD: members refuse, slots go back, and every group has its turn.
#[test]
fn groups_with_one_slot_an_osd_scrub_one_after_the_other() {
    for seed in 90..93 {
        let mut c = Cluster::new(seed, 3, 3, 2, 8);
        for n in 0..20 {
            assert_eq!(c.one(&format!("o{n}"), vec![write_full(b"bytes")]).unwrap().result, 0);
        }
        for osd in 0..3 {
            c.feed(osd, Event::Config { name: "osd_max_scrubs".into(), value: "1".into() });
        }
        let stamps = |c: &Cluster| {
            let pgs = c.nodes.iter().flatten().flat_map(|node| node.osd.pgs()).filter(|pg| pg.peering().is_primary());
            pgs.map(|pg| (pg.pgid, pg.record().info().history.last_deep_scrub_stamp)).collect::<std::collections::BTreeMap<_, _>>()
        };
        let before = stamps(&c);
        let waiting = |c: &Cluster| stamps(c).iter().filter(|(pgid, stamp)| **stamp == before[pgid]).count();
        for seed in 0..8 {
            let pgid = PgId::new(POOL, seed);
            let m = MOSDScrub2 { fsid: uuid(1), epoch: c.map.epoch, pgs: vec![SpgId::whole(pgid)], repair: false, deep: true };
            c.feed(c.primary(pgid) as usize, Event::Mon(m.encode(features::SUPPORTED)));
        }
        assert_eq!(waiting(&c), 8);
        for _ in 0..40 {
            c.settle();
        }
        assert_eq!(waiting(&c), 0, "seed {seed}");
        assert_eq!(c.errors, [""; 0]);
    }
}

/// A member dies while a scrub is under way: the scrub that was asked for is done in the next interval, and nothing that was found before it is shown.
#[test]
fn a_scrub_that_an_interval_ended_is_done_in_the_next() {
    for seed in 100..110 {
        let mut c = written(seed);
        let primary = c.primary(GROUP) as usize;
        let victim = (primary + 1 + seed as usize % 2) % 3;
        let stamp =
            |c: &Cluster| c.nodes[primary].as_ref().unwrap().osd.pgs().next().unwrap().record().info().history.last_deep_scrub_stamp;
        let before = stamp(&c);
        let m = MOSDScrub2 { fsid: uuid(1), epoch: c.map.epoch, pgs: vec![SpgId::whole(GROUP)], repair: false, deep: true };
        c.feed(primary, Event::Mon(m.encode(features::SUPPORTED)));
        c.tick();
        for _ in 0..c.rng.below(8) {
            c.step();
        }
        let was_through = stamp(&c) != before;
        c.kill(victim);
        c.mark_down(victim);
        c.settle();
        assert_eq!(list(&mut c, false), Err(2), "seed {seed}: what was found is of another interval");
        c.start(victim);
        c.settle();
        c.settle();
        c.assert_clean();
        assert!(was_through || stamp(&c) != before, "seed {seed}: {:?}", c.states());
        assert_eq!(c.errors, [""; 0], "seed {seed}");
    }
}

/// The primary dies at any moment while its copy is being mended, before or after what it lacks is durable.
#[test]
fn a_primary_that_dies_while_its_copy_is_mended_mends_it_later() {
    for seed in 120..140 {
        let mut c = written(seed);
        let primary = c.primary(GROUP) as usize;
        damage(&mut c, primary, DamagedBytes);
        let m = c.request("o", vec![read()]);
        c.give(&m);
        for _ in 0..c.rng.below(14) {
            c.step();
        }
        c.kill(primary);
        c.mark_down(primary);
        c.settle();
        c.start(primary);
        c.settle();
        c.settle();
        c.assert_clean();
        scrub(&mut c, true, true);
        c.settle();
        assert_eq!((c.read("o").as_deref(), sum(&c).num_scrub_errors), (Ok(RIGHT), 0), "seed {seed}: {:?}", c.errors);
        c.assert_objects_equal(&format!("seed {seed}"));
    }
}
