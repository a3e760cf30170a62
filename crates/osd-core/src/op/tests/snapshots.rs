//! Clones, reads at snapshots, rollback, trimming.

use super::bench::{Bench, encoded, extent, head, op, put, xattr};
use denc::Denc;
use messages::InOp;
use std::collections::BTreeMap;
use types::errno::*;
use types::osd_op::{SnapArgs, osd_flag};
use types::{ByteStr, Bytes, CEPH_SNAPDIR, IntervalSet, LogOp, OpCode, OsdOp};

fn rollback(snapid: u64) -> Vec<InOp> {
    vec![InOp::new(OsdOp::with_snap(OpCode::ROLLBACK, SnapArgs { snapid }), Bytes::new())]
}

#[test]
fn the_first_write_after_a_snapshot_clones() {
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITE, 0, b"first version"), xattr(OpCode::SETXATTR, "a", b"1")]);
    let (one, two) = (b.snap(), b.snap());
    let m = b.message("o", vec![put(OpCode::WRITE, 0, b"SECOND"), xattr(OpCode::SETXATTR, "a", b"2")]);
    let plan = b.send(&m).unwrap();
    assert_eq!(plan.log.iter().map(|e| e.op).collect::<Vec<_>>(), [LogOp::CLONE, LogOp::MODIFY]);
    assert_eq!(plan.log[0].clone_snaps().unwrap(), [two, one]);
    assert_eq!((plan.snap_index[0].clone.snap, &plan.snap_index[0].new[..]), (two, &[two, one][..]));
    assert_eq!(*plan.changed[0].hobj(), head("o"));
    let set = b.load(&head("o")).snapset;
    assert_eq!((set.seq, &set.clones[..], set.clone_size[&two]), (two, &[two][..], 13));
    assert_eq!(set.clone_overlap[&two], IntervalSet::of(6, 7));
    // The clone has the bytes that the head overwrote for itself.
    assert_eq!((b.stats.num_bytes, b.stats.num_objects, b.stats.num_object_clones), (13 + 6, 2, 1));
    b.run("o", vec![put(OpCode::APPEND, 0, b"!")]);
    assert_eq!(b.load(&head("o")).snapset.clones.len(), 1);
    for snap in [one, two] {
        assert_eq!(b.read_at("o", snap).unwrap(), "first version");
        assert_eq!(b.at_snap("o", snap, vec![xattr(OpCode::GETXATTR, "a", b"")]).1[0].1, "1");
    }
    assert_eq!(b.read("o").unwrap(), "SECONDversion!");
    let three = b.snap();
    assert_eq!(b.read_at("o", three).unwrap(), "SECONDversion!");
    b.removed.insert(one);
    assert_eq!(b.read_at("o", one), Err(-ENOENT));
}

#[test]
fn objects_of_other_times() {
    let mut b = Bench::new();
    let one = b.snap();
    b.run("o", vec![put(OpCode::WRITE, 0, b"born after one")]);
    assert_eq!(b.read_at("o", one), Err(-ENOENT));
    let two = b.snap();
    // With clones to keep, a whiteout stays where the head was.
    b.run("o", vec![op(OpCode::DELETE)]);
    assert_eq!((b.stats.num_whiteouts, b.stats.num_objects, b.stats.num_object_clones), (1, 2, 1));
    assert_eq!(b.read("o"), Err(-ENOENT));
    assert_eq!(b.run("o", vec![op(OpCode::DELETE)]), -ENOENT);
    assert_eq!(b.read_at("o", two).unwrap(), "born after one");
    let three = b.snap();
    b.run("o", vec![put(OpCode::WRITE, 0, b"again")]);
    assert_eq!(b.stats.num_whiteouts, 0);
    assert_eq!(b.read_at("o", three), Err(-ENOENT));
    assert_eq!(b.read("o").unwrap(), "again");
    b.run("o", vec![op(OpCode::DELETE)]);
    b.remove_snap("o", two);
    // The last clone takes the whiteout along.
    assert!(!b.load(&head("o")).exists);
    assert_eq!((b.stats.num_objects, b.stats.num_bytes, b.stats.num_whiteouts, b.stats.num_objects_dirty), (0, 0, 0, 0));
}

#[test]
fn old_snapshot_contexts() {
    let mut b = Bench::new();
    b.snap();
    let new = b.snap();
    b.run("o", vec![put(OpCode::WRITE, 0, b"x")]);
    b.snapc.seq = new - 1;
    b.snapc.snaps.remove(0);
    let mut m = b.message("o", vec![put(OpCode::WRITE, 0, b"y")]);
    assert_eq!(b.answer(&m).0, 0);
    m.flags = osd_flag::ORDERSNAP;
    assert_eq!(b.answer(&m).0, -EOLDSNAPC);
    b.snapc.snaps = vec![1, 2];
    assert_eq!(b.run("o", vec![put(OpCode::WRITE, 0, b"y")]), -EINVAL);
}

#[test]
fn rolling_back() {
    let mut b = Bench::new();
    let keys = |key: &str| BTreeMap::from([(ByteStr::from(key), Bytes::from_static(b"v"))]);
    b.run("o", vec![put(OpCode::WRITE, 0, b"original"), encoded(OpCode::OMAPSETVALS, &keys("k"))]);
    let one = b.snap();
    b.run("o", vec![put(OpCode::WRITEFULL, 0, b"changed a lot"), op(OpCode::OMAPCLEAR), xattr(OpCode::SETXATTR, "a", b"1")]);
    assert_eq!(b.run("o", rollback(one)), 0);
    assert_eq!(b.read("o").unwrap(), "original");
    assert_eq!(b.run("o", vec![xattr(OpCode::GETXATTR, "a", b"")]), -ENODATA);
    let (_, ops) = b.all("o", vec![encoded(OpCode::OMAPGETKEYS, &(ByteStr::new(), 9_u64))]);
    assert_eq!(<(Vec<ByteStr>, bool)>::from_bytes(&ops[0].1).unwrap(), (vec!["k".into()], false));
    assert_eq!((b.stats.num_objects, b.stats.num_objects_omap), (2, 2));
    assert_eq!(b.read_at("o", one).unwrap(), "original");
    // To a time before the object: it is gone.
    let mut b = Bench::new();
    let one = b.snap();
    b.run("p", vec![put(OpCode::WRITE, 0, b"later")]);
    assert_eq!(b.run("p", rollback(one)), 0);
    assert_eq!(b.read("p"), Err(-ENOENT));
    // Within a request: the snapshot that the rollback itself needs, and what follows it.
    let mut b = Bench::new();
    b.run("q", vec![put(OpCode::WRITE, 0, b"1111")]);
    let one = b.snap();
    b.run("q", vec![put(OpCode::WRITE, 0, b"2222")]);
    let two = b.snap();
    let mut ops = rollback(one);
    ops.push(put(OpCode::WRITE, 1, b"x"));
    ops.push(extent(OpCode::READ, 0, 0));
    let mut m = b.message("q", ops);
    m.flags = osd_flag::RETURNVEC;
    assert_eq!(b.answer(&m).1[2].1, "1x11");
    assert_eq!([b.read_at("q", one).unwrap(), b.read_at("q", two).unwrap(), b.read("q").unwrap()], ["1111", "2222", "1x11"]);
}

#[test]
fn listing_snapshots() {
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITE, 0, b"0123456789")]);
    let one = b.snap();
    b.run("o", vec![put(OpCode::WRITE, 2, b"xx")]);
    let (result, ops) = b.at_snap("o", CEPH_SNAPDIR, vec![op(OpCode::LIST_SNAPS)]);
    assert_eq!(result, 0);
    let mut d = denc::Decoder::new(ops[0].1.clone());
    type Clone = (((u64, Vec<u64>), Vec<(u64, u64)>), u64);
    let (clones, seq) = d
        .frame("list", 2, |d, _| {
            let n = d.count(1)?;
            let clones: Result<Vec<Clone>, _> = (0..n).map(|_| d.frame("clone", 1, |d, _| d.get())).collect();
            Ok((clones?, d.u64()?))
        })
        .unwrap();
    assert_eq!(seq, one);
    assert_eq!(clones, [(((one, vec![one]), vec![(0, 2), (4, 6)]), 10), (((types::CEPH_NOSNAP, vec![]), vec![]), 10)]);
}

/// Random writes, snapshots, rollbacks and trims against a model that keeps whole copies.
#[test]
fn equals_a_model_of_copies() {
    for seed in 0..30 {
        let mut rng = base::Rng::new(seed);
        let mut b = Bench::new();
        let mut now: Option<Vec<u8>> = None;
        let mut then: BTreeMap<u64, Option<Vec<u8>>> = BTreeMap::new();
        for step in 0..120_u64 {
            match rng.below(12) {
                0 | 1 => drop(then.insert(b.snap(), now.clone())),
                2 => {
                    assert_eq!(b.run("o", vec![op(OpCode::DELETE)]), if now.is_some() { 0 } else { -ENOENT });
                    now = None;
                }
                3 if !then.is_empty() => {
                    let at = *then.keys().nth(rng.below(then.len() as u64) as usize).unwrap();
                    assert_eq!(b.run("o", rollback(at)), 0);
                    now = then[&at].clone();
                }
                4 if !then.is_empty() => {
                    let at = *then.keys().nth(rng.below(then.len() as u64) as usize).unwrap();
                    then.remove(&at);
                    b.remove_snap("o", at);
                }
                5 => {
                    let size = rng.below(40) as usize;
                    assert_eq!(b.run("o", vec![extent(OpCode::TRUNCATE, size as u64, 0)]), 0);
                    if let Some(now) = &mut now {
                        now.resize(size, 0);
                    }
                }
                6 => {
                    let data = vec![step as u8; rng.below(30) as usize];
                    assert_eq!(b.run("o", vec![put(OpCode::WRITEFULL, 0, &data)]), 0);
                    now = Some(data);
                }
                _ => {
                    let (at, data) = (rng.below(30) as usize, vec![step as u8; 1 + rng.below(20) as usize]);
                    assert_eq!(b.run("o", vec![put(OpCode::WRITE, at as u64, &data)]), 0);
                    let now = now.get_or_insert_default();
                    now.resize(now.len().max(at + data.len()), 0);
                    now[at..at + data.len()].copy_from_slice(&data);
                }
            }
            assert_eq!(b.read("o").ok().as_deref(), now.as_deref(), "seed {seed} step {step}");
            for (snap, was) in &then {
                assert_eq!(b.read_at("o", *snap).ok().as_deref(), was.as_deref(), "seed {seed} step {step} snap {snap}");
            }
            let context = b.load(&head("o"));
            let clones: u64 = context.snapset.clones.iter().map(|c| context.snapset.clone_bytes(*c)).sum();
            assert_eq!(b.stats.num_bytes as u64, context.info.size + clones, "seed {seed} step {step}");
            assert_eq!(b.stats.num_objects as usize, usize::from(context.exists) + context.snapset.clones.len());
        }
    }
}

/// `assert_snapc_seq` of class rbd, as 18.2 answers it: a whiteout is an object as long as it has clones.
#[test]
fn snapshot_sequences_are_asserted_against_what_the_object_knows() {
    use types::osd_op::CallArgs;
    let mut b = Bench::new();
    b.snap();
    let seq = b.snap();
    b.run("object", vec![put(OpCode::WRITE, 0, b"x")]);
    b.run("white", vec![put(OpCode::WRITE, 0, b"x")]);
    // Written and removed by one request under a newer snapshot: a whiteout, and no clone.
    b.run("bare", vec![put(OpCode::WRITE, 0, b"x"), op(OpCode::DELETE)]);
    let newer = b.snap();
    b.run("white", vec![op(OpCode::DELETE)]);
    for (name, clones) in [("white", 1), ("bare", 0)] {
        let at = b.load(&head(name));
        assert!(at.exists && at.info.is_whiteout() && at.snapset.clones.len() == clones, "{name}");
    }
    let mut ask = |name: &str, seq: u64, state: u8| {
        let input = (seq, state).to_bytes(0);
        let args = CallArgs { class_len: 3, method_len: 16, argc: 0, indata_len: input.len() as u32 };
        let indata = [&b"rbdassert_snapc_seq"[..], &input].concat();
        b.run(name, vec![InOp::new(OsdOp::with_call(OpCode::CALL, args), indata.into())])
    };
    // Each below, at and above the sequence: greater is asserted, then less or equal.
    let above = (0, -ERANGE);
    let within = (-ERANGE, 0);
    for (name, seq, expected) in [
        ("absent", seq, [above; 3]),
        ("bare", seq, [above; 3]),
        ("object", seq, [within, within, above]),
        ("white", newer, [within, within, above]),
    ] {
        for (given, expected) in [seq - 1, seq, seq + 1].into_iter().zip(expected) {
            assert_eq!((ask(name, given, 0), ask(name, given, 1)), expected, "{name}: {given} of {seq}");
            assert_eq!(ask(name, given, 2), -EOPNOTSUPP);
        }
    }
}

/// An OSD that was away gets a trimmed clone by recovery, and its index still has the snapshot that was trimmed: without end, if trimming went by the index
/// alone (seeds 0x9f and 0xa2 of the simulator: tens of thousands of entries for one clone, until the store was full).
#[test]
fn a_clone_is_not_trimmed_of_a_snapshot_that_it_no_longer_serves() {
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITE, 0, b"0123")]);
    let (one, two) = (b.snap(), b.snap());
    b.run("o", vec![put(OpCode::WRITE, 0, b"x")]);
    assert!(b.trims("o", one));
    b.remove_snap("o", one);
    assert!(!b.trims("o", one) && b.trims("o", two));
    assert_eq!(b.read_at("o", two).unwrap(), "0123");
}
