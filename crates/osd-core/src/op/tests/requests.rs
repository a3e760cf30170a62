//! Single requests: results, data, log entries, statistics.

use super::bench::{Bench, cmpxattr, encoded, extent, flagged, head, op, put, truncating, xattr};
use crate::op::plan::{PlanKind, PlanStop, WatchEffect};
use crate::op::plan_pg;
use crate::planted::{Bug, is_noticed};
use denc::Denc;
use messages::InOp;
use std::collections::BTreeMap;
use store::AttrsMax;
use types::errno::*;
use types::osd_op::{ChecksumArgs, PglsArgs, WatchArgs, WriteSameArgs, checksum_kind, cmp_mode, cmp_op, op_flag, osd_flag, watch_op};
use types::{ByteStr, Bytes, HObject, LogOp, OpCode, OsdOp};

#[test]
fn what_is_not_there() {
    let mut b = Bench::new();
    let keys = (ByteStr::new(), 10_u64);
    for ops in [
        vec![extent(OpCode::READ, 0, 0)],
        vec![op(OpCode::STAT)],
        vec![xattr(OpCode::GETXATTR, "a", b"")],
        vec![encoded(OpCode::OMAPGETKEYS, &keys)],
        vec![op(OpCode::DELETE)],
        vec![xattr(OpCode::RMXATTR, "a", b"")],
        vec![op(OpCode::OMAPCLEAR)],
        vec![xattr(OpCode::GETXATTR, "a", b""), put(OpCode::WRITE, 0, b"x")],
    ] {
        assert_eq!(b.run("none", ops.clone()), -ENOENT, "{ops:?}");
    }
    assert_eq!(b.run("none", vec![extent(OpCode::TRUNCATE, 5, 0)]), 0);
    assert_eq!(b.run("none", vec![extent(OpCode::ZERO, 0, 5)]), 0);
    assert_eq!(b.read("none"), Err(-ENOENT));
    assert_eq!(b.stats, Default::default());
}

#[test]
fn a_write_is_logged_and_answered() {
    let mut b = Bench::new();
    let m = b.message("o", vec![put(OpCode::WRITE, 0, b"hello")]);
    let plan = b.send(&m).unwrap();
    assert_eq!((plan.kind, plan.result, plan.reply_user_version), (PlanKind::Write, 0, 1));
    let entry = &plan.log[0];
    assert_eq!((entry.op, entry.user_version, entry.reqid.tid), (LogOp::MODIFY, 1, 1));
    assert!(!entry.clean_regions.clean_offsets.intersects(0, 5) && entry.clean_regions.clean_omap);
    let info = &plan.changed[0].info;
    assert_eq!((info.size, info.data_digest), (5, base::crc32c(u32::MAX, b"hello")));
    assert_eq!((b.stats.num_objects, b.stats.num_bytes, b.stats.num_wr, b.stats.num_wr_kb, b.stats.num_objects_dirty), (1, 5, 1, 1, 1));
    assert_eq!(b.read("o").unwrap(), "hello");
    let m = b.message("o", vec![op(OpCode::DELETE)]);
    let plan = b.send(&m).unwrap();
    assert_eq!((plan.log[0].op, plan.log[0].prior_version.version), (LogOp::DELETE, 1));
    assert_eq!((b.stats.num_objects, b.stats.num_bytes, b.stats.num_objects_dirty), (0, 0, 0));
}

/// A crc that no data has shows which digest was computed.
#[test]
fn the_crc_of_the_wire_is_the_digest_of_what_it_covers() {
    const KNOWN: u32 = 0x1234;
    let known = |op: InOp| InOp { crc: Some(KNOWN), ..op };
    let digest = |ops: Vec<InOp>| {
        let mut b = Bench::new();
        let m = b.message("o", ops);
        b.send(&m).unwrap().changed[0].info.data_digest
    };
    let hello = base::crc32c(u32::MAX, b"hello");
    assert_eq!(digest(vec![known(put(OpCode::WRITE, 0, b"hello"))]), KNOWN);
    assert_eq!(digest(vec![known(put(OpCode::WRITEFULL, 0, b"hello"))]), KNOWN);
    assert_eq!(digest(vec![put(OpCode::WRITE, 0, b"hello")]), hello);
    // The next op's data is not covered, nor is what goes on behind other data.
    assert_eq!(digest(vec![known(put(OpCode::WRITE, 0, b"x")), put(OpCode::WRITEFULL, 0, b"hello")]), hello);
    assert_eq!(digest(vec![put(OpCode::WRITE, 0, b"hel"), known(put(OpCode::WRITE, 3, b"lo"))]), hello);
}

#[test]
fn data_changes() {
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITE, 2, b"ab")]);
    assert_eq!(b.read("o").unwrap(), &b"\0\0ab"[..]);
    b.run("o", vec![put(OpCode::APPEND, 0, b"cd")]);
    assert_eq!(b.read("o").unwrap(), &b"\0\0abcd"[..]);
    b.run("o", vec![extent(OpCode::TRUNCATE, 3, 0)]);
    assert_eq!(b.read("o").unwrap(), &b"\0\0a"[..]);
    b.run("o", vec![extent(OpCode::TRUNCATE, 5, 0)]);
    assert_eq!(b.read("o").unwrap(), &b"\0\0a\0\0"[..]);
    b.run("o", vec![put(OpCode::WRITEFULL, 0, b"xyz")]);
    assert_eq!(b.read("o").unwrap(), "xyz");
    b.run("o", vec![extent(OpCode::ZERO, 1, 1)]);
    assert_eq!(b.read("o").unwrap(), &b"x\0z"[..]);
    // A zero that reaches the end cuts the object off.
    b.run("o", vec![extent(OpCode::ZERO, 1, 10)]);
    assert_eq!(b.read("o").unwrap(), "x");
    let same = WriteSameArgs { offset: 1, length: 6, data_length: 2 };
    b.run("o", vec![InOp::new(OsdOp::with_writesame(OpCode::WRITESAME, same), Bytes::from_static(b"pq"))]);
    assert_eq!(b.read("o").unwrap(), "xpqpqpq");
    let (result, ops) = b.all("o", vec![extent(OpCode::READ, 2, 3), extent(OpCode::READ, 6, 9), extent(OpCode::READ, 9, 2)]);
    assert_eq!(result, 0);
    assert_eq!(ops.iter().map(|o| &o.1[..]).collect::<Vec<_>>(), [&b"qpq"[..], b"q", b""]);
    assert_eq!(b.stats.num_bytes, 7);
    let (_, ops) = b.all("o", vec![extent(OpCode::SPARSE_READ, 1, 100)]);
    let expected = (vec![(1_u64, 6_u64)], Bytes::from_static(b"pqpqpq")).to_bytes(0);
    assert_eq!(ops[0].1, expected);
}

#[test]
fn limits() {
    let mut b = Bench::new();
    b.limits.object_size_max = 1000;
    assert_eq!(b.run("o", vec![put(OpCode::WRITE, 1000, b"")]), -EFBIG);
    assert_eq!(b.run("o", vec![put(OpCode::WRITE, 999, b"x")]), 0);
    assert_eq!(b.run("o", vec![put(OpCode::WRITE, 999, b"xy")]), -EFBIG);
    assert_eq!(b.run("o", vec![put(OpCode::APPEND, 0, b"y")]), -EFBIG);
    assert_eq!(b.run("o", vec![put(OpCode::WRITE, u64::MAX - 1, b"xyz")]), -EFBIG);
    assert_eq!(b.run("o", vec![extent(OpCode::TRUNCATE, 1000, 0)]), -EFBIG);
    assert_eq!(b.run("o", vec![extent(OpCode::ZERO, 2000, 5)]), -EFBIG);
    assert_eq!(b.run("o", vec![InOp::new(OsdOp::range(OpCode::WRITE, 0, 5), Bytes::from_static(b"abc"))]), -EINVAL);
    assert_eq!(b.run("o", vec![xattr(OpCode::SETXATTR, &"n".repeat(101), b"v")]), -ENAMETOOLONG);
    assert_eq!(b.run("o", vec![xattr(OpCode::SETXATTR, &"n".repeat(100), b"v")]), 0);
    b.limits.attr_size_max = 4;
    assert_eq!(b.run("o", vec![xattr(OpCode::SETXATTR, "n", b"12345")]), -EFBIG);
    for code in [OpCode::SETXATTRS, OpCode::RESETXATTRS, OpCode::SET_REDIRECT, OpCode(0x2fff)] {
        assert_eq!(b.run("o", vec![op(code)]), -EOPNOTSUPP, "{code:?}");
    }
    assert_eq!(b.read("o").unwrap().len(), 1000);
}

#[test]
fn vectors_stop_at_failures() {
    let mut b = Bench::new();
    assert_eq!(b.run("o", vec![put(OpCode::WRITE, 0, b"x"), xattr(OpCode::GETXATTR, "a", b"")]), -ENOENT);
    assert_eq!(b.read("o"), Err(-ENOENT));
    // With FAILOK the others take effect.
    let vector =
        vec![put(OpCode::WRITE, 0, b"x"), flagged(xattr(OpCode::GETXATTR, "a", b""), op_flag::FAILOK), put(OpCode::APPEND, 0, b"y")];
    let (result, ops) = b.all("o", vector);
    assert_eq!((result, ops[1].0), (0, -ENOENT));
    assert_eq!(b.read("o").unwrap(), "xy");
    assert_eq!(b.run("o", vec![flagged(op(OpCode::CREATE), op_flag::EXCL)]), -EEXIST);
    assert_eq!(b.run("o", vec![op(OpCode::CREATE)]), 0);
    // A failed write is logged for its resend, a failed read is not.
    let m = b.message("o", vec![xattr(OpCode::GETXATTR, "a", b""), put(OpCode::WRITE, 0, b"z")]);
    let plan = b.send(&m).unwrap();
    assert_eq!((plan.kind, plan.log[0].return_code, plan.log[0].op_returns.len()), (PlanKind::LogOnly, -ENODATA, 2));
    let m = b.message("o", vec![xattr(OpCode::GETXATTR, "a", b"")]);
    assert_eq!(b.send(&m).unwrap().kind, PlanKind::Read);
}

#[test]
fn later_operations_see_what_earlier_ones_did_to_the_data() {
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITEFULL, 0, b"0123456789"), xattr(OpCode::SETXATTR, "a", b"1")]);
    let mut m = b.message(
        "o",
        vec![
            put(OpCode::WRITE, 3, b"abc"),
            extent(OpCode::TRUNCATE, 8, 0),
            extent(OpCode::READ, 0, 0),
            xattr(OpCode::SETXATTR, "a", b"2"),
            xattr(OpCode::GETXATTR, "a", b""),
            xattr(OpCode::RMXATTR, "a", b""),
            xattr(OpCode::GETXATTR, "a", b""),
        ],
    );
    m.flags = osd_flag::RETURNVEC;
    let (result, ops) = b.answer(&m);
    assert_eq!(result, 0);
    // Attributes are those of before the vector: see `vectors`.
    assert_eq!([2, 4, 6].map(|at: usize| &ops[at].1[..]), [&b"012abc67"[..], b"1", b"1"]);
    assert_eq!(b.read("o").unwrap(), "012abc67");
    // Without returnvec a write answers no data.
    let (_, ops) = b.all("o", vec![put(OpCode::WRITE, 0, b"x"), extent(OpCode::READ, 0, 0)]);
    assert!(ops[1].1.is_empty());
    // With it, too much data fails the write.
    let mut m = b.message("o", vec![put(OpCode::WRITE, 0, &[b'y'; 65]), extent(OpCode::READ, 0, 0)]);
    m.flags = osd_flag::RETURNVEC;
    assert_eq!(b.answer(&m).0, -EOVERFLOW);
    assert_eq!(b.read("o").unwrap(), "x12abc67");
    let mut m = b.message("o", vec![op(OpCode::DELETE), op(OpCode::CREATE), flagged(op(OpCode::STAT), 0), extent(OpCode::READ, 0, 0)]);
    m.flags = osd_flag::RETURNVEC;
    let (result, ops) = b.answer(&m);
    assert_eq!((result, ops[2].1[..8].to_vec(), ops[3].1.len()), (0, vec![0; 8], 0));
}

/// As radosgw replaces an object: under a condition on an attribute that the same request removes.
#[test]
fn attributes_of_an_object_that_is_made_again_are_compared() {
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITEFULL, 0, b"old"), xattr(OpCode::SETXATTR, "ver", b"1"), xattr(OpCode::SETXATTR, "other", b"1")]);
    let replace = |ver: &[u8]| {
        let is = cmpxattr(OpCode::CMPXATTR, "ver", ver, cmp_op::EQ, cmp_mode::STRING);
        vec![op(OpCode::DELETE), op(OpCode::CREATE), is, xattr(OpCode::SETXATTR, "ver", b"2"), put(OpCode::WRITEFULL, 0, b"new")]
    };
    assert_eq!(b.run("o", replace(b"0")), -ECANCELED);
    assert_eq!(b.read("o").unwrap(), "old");
    b.run("o", replace(b"1"));
    assert_eq!(b.read("o").unwrap(), "new");
    let (_, ops) = b.all("o", vec![xattr(OpCode::GETXATTR, "ver", b""), xattr(OpCode::GETXATTR, "other", b"")]);
    assert_eq!((&ops[0].1[..], ops[1].0), (&b"2"[..], -ENODATA));
}

/// As what ended a block store for good did: large ones under new names, on one object.
fn attributes_under_new_names() {
    let (mut b, max) = (Bench::new(), AttrsMax::default());
    let value = vec![1; max.one];
    let taken = (0..20).take_while(|n| b.run("o", vec![xattr(OpCode::SETXATTR, &format!("a{n}"), &value)]) == 0).count();
    assert_eq!(taken, max.all / max.one - 1, "names count, too");
    assert_eq!(b.run("o", vec![xattr(OpCode::SETXATTR, "more", &value)]), -EFBIG);
    // Refused before the transaction: nothing of it is there.
    let (_, ops) = b.all("o", vec![op(OpCode::GETXATTRS)]);
    assert_eq!(BTreeMap::<ByteStr, Bytes>::from_bytes(&ops[0].1).unwrap().len(), taken);
    assert_eq!(b.run("o", vec![xattr(OpCode::SETXATTR, "larger", &vec![1; max.one + 1])]), -EFBIG);
    assert_eq!(b.run("o", vec![xattr(OpCode::SETXATTR, "small", b"there is room for it")]), 0);
}

#[test]
fn attributes_of_an_object_are_bounded() {
    attributes_under_new_names();
}
#[test]
fn attributes_without_a_bound_are_noticed() {
    assert!(is_noticed(Bug::UnboundedAttrs, attributes_under_new_names));
}

#[test]
fn attributes() {
    let mut b = Bench::new();
    b.run("o", vec![xattr(OpCode::SETXATTR, "a", b"10"), xattr(OpCode::SETXATTR, "b", b"")]);
    let (_, ops) = b.all("o", vec![op(OpCode::GETXATTRS)]);
    let attrs = BTreeMap::from([(ByteStr::from("a"), Bytes::from_static(b"10")), (ByteStr::from("b"), Bytes::new())]);
    assert_eq!(BTreeMap::<ByteStr, Bytes>::from_bytes(&ops[0].1).unwrap(), attrs);
    let cmp = |value: &[u8], op: u8, mode: u8| vec![cmpxattr(OpCode::CMPXATTR, "a", value, op, mode)];
    let number = |n: u64| n.to_le_bytes();
    for (ops, expected) in [
        (cmp(b"10", cmp_op::EQ, cmp_mode::STRING), 1),
        (cmp(b"11", cmp_op::EQ, cmp_mode::STRING), -ECANCELED),
        (cmp(b"2", cmp_op::GT, cmp_mode::STRING), 1),
        (cmp(&number(2), cmp_op::GT, cmp_mode::U64), -ECANCELED),
        (cmp(&number(10), cmp_op::GTE, cmp_mode::U64), 1),
        (cmp(&number(9), cmp_op::NE, cmp_mode::U64), 1),
        (cmp(&number(9), 9, cmp_mode::U64), -EINVAL),
        (cmp(&number(9), cmp_op::NE, 3), -EINVAL),
        (vec![cmpxattr(OpCode::CMPXATTR, "none", b"", cmp_op::EQ, cmp_mode::STRING)], 1),
        (vec![cmpxattr(OpCode::CMPXATTR, "none", &number(0), cmp_op::EQ, cmp_mode::U64)], 1),
        (vec![xattr(OpCode::GETXATTR, "none", b"")], -ENODATA),
        (vec![xattr(OpCode::RMXATTR, "none", b"")], 0),
    ] {
        assert_eq!(b.run("o", ops.clone()), expected, "{ops:?}");
    }
}

fn pairs(keys: &[&str]) -> BTreeMap<ByteStr, Bytes> {
    keys.iter().map(|key| (ByteStr::from(*key), Bytes::from(format!("v{key}")))).collect()
}

#[test]
fn omap_pages() {
    let mut b = Bench::new();
    b.run("o", vec![encoded(OpCode::OMAPSETVALS, &pairs(&["a", "b1", "b2", "b3", "c"]))]);
    assert_eq!(b.stats.num_objects_omap, 1);
    let mut vals = |after: &str, max: u64, prefix: &str| {
        let (result, ops) = b.all("o", vec![encoded(OpCode::OMAPGETVALS, &((ByteStr::from(after), max), ByteStr::from(prefix)))]);
        assert_eq!(result, 0);
        let (found, more): (BTreeMap<ByteStr, Bytes>, bool) = Denc::from_bytes(&ops[0].1).unwrap();
        (found.keys().map(|k| k.to_string()).collect::<Vec<_>>().join(","), more)
    };
    assert_eq!(vals("", 10, ""), ("a,b1,b2,b3,c".into(), false));
    assert_eq!(vals("", 2, ""), ("a,b1".into(), true));
    assert_eq!(vals("b1", 10, ""), ("b2,b3,c".into(), false));
    assert_eq!(vals("", 10, "b"), ("b1,b2,b3".into(), false));
    assert_eq!(vals("b1", 1, "b"), ("b2".into(), true));
    assert_eq!(vals("c", 1, "b"), ("".into(), false));
    assert_eq!(vals("", 0, ""), ("".into(), true));
    let (_, ops) = b.all("o", vec![encoded(OpCode::OMAPGETVALSBYKEYS, &vec![ByteStr::from("b2"), ByteStr::from("zz")])]);
    assert_eq!(BTreeMap::<ByteStr, Bytes>::from_bytes(&ops[0].1).unwrap(), pairs(&["b2"]));
    // Changes of the same request are seen by the next.
    let mut m = b.message(
        "o",
        vec![
            encoded(OpCode::OMAPRMKEYS, &vec![ByteStr::from("b2")]),
            encoded(OpCode::OMAPSETVALS, &pairs(&["b15", "d"])),
            encoded(OpCode::OMAPRMKEYRANGE, &(ByteStr::from("b3"), ByteStr::from("d"))),
            encoded(OpCode::OMAPGETKEYS, &(ByteStr::from("a"), 9_u64)),
        ],
    );
    m.flags = osd_flag::RETURNVEC;
    let (result, ops) = b.answer(&m);
    assert_eq!(result, 0);
    let (keys, more): (Vec<ByteStr>, bool) = Denc::from_bytes(&ops[3].1).unwrap();
    assert_eq!((keys, more), (vec!["b1".into(), "b2".into(), "b3".into(), "c".into()], false));
    let (_, ops) = b.all("o", vec![encoded(OpCode::OMAPGETKEYS, &(ByteStr::from("a"), 9_u64))]);
    let (keys, more): (Vec<ByteStr>, bool) = Denc::from_bytes(&ops[0].1).unwrap();
    assert_eq!((keys, more), (vec!["b1".into(), "b15".into(), "d".into()], false));
    assert_eq!(b.run("o", vec![InOp::new(OsdOp::new(OpCode::OMAPSETVALS), Bytes::from_static(&[9]))]), -EINVAL);
    b.run("o", vec![InOp::new(OsdOp::new(OpCode::OMAPSETHEADER), Bytes::from_static(b"head"))]);
    assert_eq!(b.all("o", vec![op(OpCode::OMAPGETHEADER)]).1[0].1, "head");
    let cmp = |key: &str, value: &'static [u8], op: u8| {
        let assertion: (Bytes, i32) = (Bytes::from_static(value), op.into());
        vec![encoded(OpCode::OMAP_CMP, &BTreeMap::from([(ByteStr::from(key), assertion)]))]
    };
    assert_eq!(b.run("o", cmp("b1", b"vb1", cmp_op::EQ)), 0);
    assert_eq!(b.run("o", cmp("b1", b"vb2", cmp_op::EQ)), -ECANCELED);
    assert_eq!(b.run("o", cmp("b1", b"vb2", cmp_op::LT)), 0);
    assert_eq!(b.run("o", cmp("none", b"", cmp_op::EQ)), 0);
    assert_eq!(b.run("o", cmp("none", b"", cmp_op::NE)), -EINVAL);
    assert_eq!(b.run("o", vec![op(OpCode::OMAPCLEAR)]), 0);
    assert_eq!(b.stats.num_objects_omap, 0);
    assert_eq!(b.all("o", vec![op(OpCode::OMAPGETHEADER)]).1[0].1, "");
}

#[test]
fn truncates_of_cephfs_overtake_writes() {
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITE, 0, b"0123456789")]);
    // The write knows of a truncate that has not come.
    b.run("o", vec![truncating(OpCode::WRITE, 6, b"ab", 4, 2)]);
    assert_eq!(b.read("o").unwrap(), &b"0123\0\0ab"[..]);
    // That truncate comes late and does nothing.
    b.run("o", vec![truncating(OpCode::TRUNCATE, 4, b"", 4, 2)]);
    assert_eq!(b.read("o").unwrap().len(), 8);
    b.run("o", vec![truncating(OpCode::TRIMTRUNC, 0, b"", 5, 3)]);
    assert_eq!(b.read("o").unwrap().len(), 5);
    // A write from before that truncate does not grow the object again.
    b.run("o", vec![truncating(OpCode::WRITE, 3, b"XYZ", 4, 2)]);
    assert_eq!(b.read("o").unwrap(), &b"012XY"[..]);
    let (_, ops) = b.all("o", vec![truncating(OpCode::READ, 0, b"", 2, 9)]);
    assert_eq!(ops[0].1, "012XY");
    let m = InOp::new(
        OsdOp::with_extent(OpCode::READ, types::osd_op::Extent { offset: 0, length: 9, truncate_size: 2, truncate_seq: 9 }),
        Bytes::new(),
    );
    assert_eq!(b.all("o", vec![m]).1[0].1, "01");
    assert_eq!(b.run("o", vec![truncating(OpCode::TRUNCATE, 1, b"", 2, 11)]), -EINVAL);
}

#[test]
fn comparing_and_checksums() {
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITEFULL, 0, b"abcdef")]);
    assert_eq!(b.run("o", vec![put(OpCode::CMPEXT, 2, b"cd")]), 0);
    assert_eq!(b.run("o", vec![put(OpCode::CMPEXT, 2, b"cx")]), -4096);
    assert_eq!(b.run("o", vec![put(OpCode::CMPEXT, 4, b"ef\0\0")]), 0);
    assert_eq!(b.run("o", vec![put(OpCode::CMPEXT, 4, b"ef\0z"), put(OpCode::WRITE, 0, b"q")]), -4098);
    let sum = |kind: u8, seed: &[u8], offset: u64, length: u64, chunk_size: u32| {
        let args = ChecksumArgs { offset, length, chunk_size, kind };
        vec![InOp::new(OsdOp::with_checksum(OpCode::CHECKSUM, args), Bytes::copy_from_slice(seed))]
    };
    let (_, ops) = b.all("o", sum(checksum_kind::CRC32C, &[255; 4], 0, 6, 3));
    let expected = vec![base::crc32c(u32::MAX, b"abc"), base::crc32c(u32::MAX, b"def")].to_bytes(0);
    assert_eq!(ops[0].1, expected);
    let (_, ops) = b.all("o", sum(checksum_kind::XXHASH64, &[0; 8], 0, 0, 0));
    assert_eq!(ops[0].1.len(), 12);
    assert_eq!(b.run("o", sum(checksum_kind::XXHASH64, &[0; 7], 0, 0, 0)), -EINVAL);
    assert_eq!(b.run("o", sum(9, &[0; 8], 0, 0, 0)), -EINVAL);
    assert_eq!(b.run("o", sum(checksum_kind::CRC32C, &[0; 4], 0, 5, 3)), -EINVAL);
    assert_eq!(b.run("o", sum(checksum_kind::CRC32C, &[0; 4], 0, 0, 3)), -EINVAL);
    assert_eq!(b.all("o", sum(checksum_kind::CRC32C, &[0; 4], 9, 3, 3)), (0, vec![(0, Bytes::new())]));
}

fn watch(op: u8, cookie: u64) -> Vec<InOp> {
    vec![InOp::new(OsdOp::with_watch(OpCode::WATCH, WatchArgs { cookie, op, ..WatchArgs::default() }), Bytes::new())]
}

#[test]
fn watches_and_notifies() {
    let mut b = Bench::new();
    assert_eq!(b.run("o", watch(watch_op::WATCH, 5)), -ENOENT);
    b.run("o", vec![op(OpCode::CREATE)]);
    assert_eq!(b.run("o", watch(watch_op::RECONNECT, 5)), -ENOTCONN);
    let before = b.load(&head("o")).info.user_version;
    let m = b.message("o", watch(watch_op::WATCH, 5));
    let plan = b.send(&m).unwrap();
    assert!(matches!(&plan.effects[..], [WatchEffect::Connect { info, will_ping: true }] if info.cookie == 5 && info.timeout_s == 30));
    let info = b.load(&head("o")).info;
    assert_eq!((info.watchers.len(), info.user_version), (1, before), "watching is no change that users see");
    // The second time there is nothing to write.
    let m = b.message("o", watch(watch_op::WATCH, 5));
    let plan = b.send(&m).unwrap();
    assert_eq!((plan.kind, plan.effects.len()), (PlanKind::LogOnly, 1));
    let m = b.message("o", watch(watch_op::PING, 5));
    let plan = b.send(&m).unwrap();
    assert_eq!((plan.kind, &plan.effects[..]), (PlanKind::Read, &[WatchEffect::Ping { cookie: 5 }][..]));
    b.connected = false;
    assert_eq!(b.run("o", watch(watch_op::PING, 5)), -ETIMEDOUT);
    let (_, ops) = b.all("o", vec![op(OpCode::LIST_WATCHERS)]);
    assert_eq!(&ops[0].1[6..10], &[1, 0, 0, 0]);
    let m = b.message("o", vec![encoded(OpCode::NOTIFY, &((1_u32, 9_u32), Bytes::from_static(b"hi")))]);
    let plan = b.send(&m).unwrap();
    assert!(matches!(&plan.effects[..], [WatchEffect::Notify { id: 77, timeout_s: 9, payload, .. }] if payload == "hi"));
    assert_eq!(plan.ops[0].out.flat(), 77_u64.to_bytes(0));
    let m = b.message("o", vec![encoded(OpCode::NOTIFY_ACK, &(77_u64, 5_u64))]);
    assert!(matches!(&b.send(&m).unwrap().effects[..], [WatchEffect::NotifyAck { id: 77, cookie: Some(5), .. }]));
    // Removing the object ends its watches.
    let m = b.message("o", vec![op(OpCode::DELETE)]);
    assert!(matches!(&b.send(&m).unwrap().effects[..], [WatchEffect::Disconnect { cookie: 5, send: true, .. }]));
}

#[test]
fn asserted_versions() {
    let mut b = Bench::new();
    b.run("o", vec![op(OpCode::CREATE)]);
    b.run("o", vec![put(OpCode::WRITE, 0, b"x")]);
    let assert_ver = |ver: u64| {
        let args = types::osd_op::AssertVerArgs { unused: 0, ver };
        vec![InOp::new(OsdOp::with_assert_ver(OpCode::ASSERT_VER, args), Bytes::new())]
    };
    assert_eq!([0, 1, 2, 3].map(|ver| b.run("o", assert_ver(ver))), [-EINVAL, -ERANGE, 0, -EOVERFLOW]);
    assert_eq!(b.all("o", vec![op(OpCode::ISDIRTY)]).1[0].1[..], [1]);
    assert_eq!(b.run("o", vec![op(OpCode::UNDIRTY)]), 0);
    assert_eq!(b.all("o", vec![op(OpCode::ISDIRTY)]).1[0].1[..], [0]);
    assert_eq!(b.run("o", vec![op(OpCode::CACHE_EVICT)]), -EINVAL);
}

#[test]
fn listing() {
    let mut b = Bench::new();
    for (name, nspace) in [("a", ""), ("b", ""), ("c", "n1"), ("d", "")] {
        let mut m = b.message(name, vec![xattr(OpCode::SETXATTR, "kind", name.as_bytes())]);
        m.hobj.nspace = nspace.into();
        assert_eq!(b.answer(&m).0, 0);
    }
    let list = |b: &Bench, code: OpCode, nspace: &str, count: u64, data: Bytes| {
        let ops = vec![InOp::new(OsdOp::with_pgls(code, PglsArgs { count, start_epoch: 0 }), data)];
        let mut m = b.message("", ops);
        m.hobj.nspace = nspace.into();
        let plan = plan_pg(b.source(), b.pgid, &b.pool, &b.limits, &m, &|_| Err(types::errno::ENOENT)).unwrap();
        (plan.result, plan.ops[0].out.flat())
    };
    type Page = (HObject, Vec<((ByteStr, ByteStr), ByteStr)>);
    let decode = |bytes: &Bytes| -> Page { denc::Decoder::new(bytes.clone()).frame("page", 1, |d, _| d.get()).unwrap() };
    let start = HObject::min().to_bytes(0);
    let names = |page: &Page| page.1.iter().map(|entry| entry.0.1.to_string()).collect::<Vec<_>>().join(",");
    let (result, out) = list(&b, OpCode::PGNLS, "", 100, start.clone());
    let page = decode(&out);
    assert_eq!((result, names(&page)), (1, "a,b,d".into()));
    // The next group in the order of reversed hashes: 5 = 101 is followed by 011 = 3.
    assert_eq!((page.0.hash, page.0.pool, page.0.is_head()), (3, super::bench::POOL, true));
    assert_eq!(names(&decode(&list(&b, OpCode::PGNLS, "\u{1}", 100, start.clone()).1)), "a,b,d,c");
    assert_eq!(names(&decode(&list(&b, OpCode::PGNLS, "n1", 100, start.clone()).1)), "c");
    let (result, out) = list(&b, OpCode::PGNLS, "", 2, start.clone());
    let page = decode(&out);
    assert_eq!((result, names(&page)), (0, "a,b".into()));
    let (result, out) = list(&b, OpCode::PGNLS, "", 2, page.0.to_bytes(0));
    assert_eq!((result, names(&decode(&out))), (1, "d".into()));
    let filter = |value: &str| {
        let mut e = denc::Encoder::new(0);
        for text in ["", "", "plain", "_kind", value] {
            e.blob(text.as_bytes());
        }
        e.put(&HObject::min());
        e.finish()
    };
    assert_eq!(names(&decode(&list(&b, OpCode::PGNLS_FILTER, "", 9, filter("b")).1)), "b");
    assert_eq!(list(&b, OpCode::PGNLS, "", 9, Bytes::from_static(b"?")).0, -EINVAL);
    // Files' first objects, without those that a scrub has tagged so.
    for (name, tag) in [("10.00000000", "t"), ("11.00000000", "u"), ("12.00000001", "u")] {
        let tag = ByteStr::from(tag).to_bytes(0);
        b.run(name, vec![xattr(OpCode::SETXATTR, "scrub_tag", &tag)]);
    }
    let tagged = |tag: &[u8]| {
        let mut e = denc::Encoder::new(0);
        for text in ["", "", "cephfs.inode_tag"] {
            e.blob(text.as_bytes());
        }
        e.raw(tag);
        e.put(&HObject::min());
        e.finish()
    };
    let page = list(&b, OpCode::PGNLS_FILTER, "", 9, tagged(b"\x01\x01\x05\0\0\0\x01\0\0\0t"));
    assert_eq!(names(&decode(&page.1)), "11.00000000");
    assert_eq!(list(&b, OpCode::PGNLS_FILTER, "", 9, tagged(b"\x01\x01\x05\0\0\0\x09\0\0\0t")).0, -EINVAL);
    let behind = HObject { hash: 3, snap: types::CEPH_NOSNAP, pool: super::bench::POOL, ..HObject::min() };
    assert_eq!(list(&b, OpCode::PGNLS, "", 9, behind.to_bytes(0)).0, -EINVAL);
    assert_eq!(list(&b, OpCode::PGLS, "", 9, start).1[0], 1);
}

/// Whatever the data of an operation, it is answered.
#[test]
fn malformed_operations_are_answered() {
    let mut rng = base::Rng::new(3);
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITE, 0, b"data"), encoded(OpCode::OMAPSETVALS, &pairs(&["k"]))]);
    for round in 0..4000 {
        let mut ops = Vec::new();
        for _ in 0..=rng.below(3) {
            let mut op = OsdOp::new(OpCode::ALL[rng.below(OpCode::ALL.len() as u64) as usize]);
            if rng.chance(2, 3) {
                rng.fill(&mut op.args);
            }
            // Small numbers reach further than wild ones.
            if rng.chance(1, 2) {
                op.args.iter_mut().skip(1).for_each(|byte| *byte = 0);
            }
            op.flags = rng.below(4) as u32;
            let mut data = vec![0; rng.below(40) as usize];
            if rng.chance(1, 2) {
                rng.fill(&mut data);
            }
            ops.push(InOp::new(op, data.into()));
        }
        let mut m = b.message(if round % 2 == 0 { "o" } else { "p" }, ops);
        m.hobj.snap = if round % 5 == 0 { rng.below(4) } else { types::CEPH_NOSNAP };
        if rng.chance(1, 2) {
            m.flags = osd_flag::RETURNVEC;
        }
        if m.hobj.snap != types::CEPH_NOSNAP && m.ops.iter().any(|op| op.op.code.is_write() || op.op.code.is_cache()) {
            continue; // refused before a plan is made
        }
        match b.send(&m) {
            Ok(_) | Err(PlanStop::Reply(_) | PlanStop::Fetch(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
        let mut listing = m.clone();
        listing.hobj.hash = 5;
        plan_pg(b.source(), b.pgid, &b.pool, &b.limits, &listing, &|_| Err(types::errno::ENOENT)).unwrap();
    }
}

#[test]
fn copying_objects() {
    use crate::op::copy::Gather;
    use crate::op::fetch::{Got, Wanted};
    use types::osd_op::CopyFromArgs;
    let mut b = Bench::new();
    let big: Vec<u8> = (0..20_000_000_u32).map(|i| (i / 1000) as u8).collect();
    let keys = pairs(&["k1", "k2", "k3"]);
    for chunk in [0, 9_000_000] {
        let end = if chunk == 0 { 9_000_000 } else { big.len() };
        assert_eq!(b.run("source", vec![put(OpCode::WRITE, chunk as u64, &big[chunk..end])]), 0);
    }
    let header = InOp::new(OsdOp::new(OpCode::OMAPSETHEADER), Bytes::from_static(b"header"));
    b.run("source", vec![xattr(OpCode::SETXATTR, "a", b"1"), encoded(OpCode::OMAPSETVALS, &keys), header]);
    b.run("target", vec![put(OpCode::WRITEFULL, 0, b"old"), xattr(OpCode::SETXATTR, "gone", b"1")]);
    let from = |oid: &str| {
        let args = CopyFromArgs { snapid: types::CEPH_NOSNAP, ..CopyFromArgs::default() };
        let data = (ByteStr::from(oid), types::ObjectLocator::pool(super::bench::POOL)).to_bytes(0);
        vec![InOp::new(OsdOp::with_copy_from(OpCode::COPY_FROM, args), data)]
    };
    assert_eq!(b.run("target", from("target")), -EINVAL);
    let m = b.message("target", from("source"));
    let Err(PlanStop::Fetch(lack)) = b.send(&m) else { panic!("it must be fetched") };
    let Wanted::Copy(source) = &lack.wanted else { panic!("{lack:?}") };
    let mut gather = Gather::new(source.clone(), 1 << 27);
    let mut portions = 0;
    let copied = loop {
        portions += 1;
        let ask = b.message("source", gather.ops());
        let plan = b.send(&ask).unwrap();
        assert_eq!(plan.result, 0);
        let out = plan.ops.last().unwrap().out.flat();
        if let Some(copied) = gather.take(plan.reply_user_version, &out).unwrap() {
            break copied;
        }
    };
    assert_eq!(portions, 3);
    b.fetched = vec![(lack.wanted, Got::Copy(Box::new(copied)))];
    let plan = b.send(&m).unwrap();
    let (source, target) = (b.load(&head("source")).info, b.load(&head("target")).info);
    assert_eq!((plan.result, plan.reply_user_version), (0, source.user_version));
    assert_eq!((target.size, target.user_version, target.mtime), (source.size, source.user_version, source.mtime));
    assert_eq!(b.read("target").unwrap(), big);
    assert_eq!(b.run("target", vec![xattr(OpCode::GETXATTR, "gone", b"")]), -ENODATA);
    assert_eq!(b.all("target", vec![xattr(OpCode::GETXATTR, "a", b"")]).1[0].1, "1");
    assert_eq!(b.all("target", vec![op(OpCode::OMAPGETHEADER)]).1[0].1, "header");
    let (_, ops) = b.all("target", vec![encoded(OpCode::OMAPGETVALS, &((ByteStr::new(), 9_u64), ByteStr::new()))]);
    assert_eq!(<(BTreeMap<ByteStr, Bytes>, bool)>::from_bytes(&ops[0].1).unwrap(), (keys, false));
    assert_eq!((b.stats.num_objects, b.stats.num_bytes, b.stats.num_objects_omap), (2, 40_000_000, 2));
}

/// Prints what planning costs; run with `--ignored --nocapture`, in release for figures that mean something.
#[test]
#[ignore = "a measurement"]
fn how_long_a_plan_takes() {
    const ROUNDS: u32 = 500;
    let mut b = Bench::new();
    b.run("o", vec![put(OpCode::WRITE, 0, &[7; 65536])]);
    let context = b.load(&head("o"));
    for (what, ops) in [("write", vec![put(OpCode::WRITE, 8192, &[1; 4096])]), ("read", vec![extent(OpCode::READ, 8192, 4096)])] {
        let m = b.message("o", ops);
        let batch = |_| {
            let started = std::time::Instant::now();
            for _ in 0..ROUNDS {
                drop(std::hint::black_box(b.plan_only(&m, &context)));
            }
            started.elapsed().as_nanos() / u128::from(ROUNDS)
        };
        // The best of many short batches: the one that nothing disturbed.
        println!("{what}: {} ns a plan", (0..400).map(batch).min().expect("there are batches"));
    }
}
