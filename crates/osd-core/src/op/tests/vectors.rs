//! What an operation of a vector sees of those before it, and what it answers for them. Source of the
//! facts: Ceph 18.2's `PrimaryLogPG::do_osd_ops`, and answers of a stock 18.2.7 cluster to some of the rows.

use super::bench::{Bench, cmpxattr, encoded, extent, flagged, op, put, xattr};
use denc::Denc;
use messages::InOp;
use std::collections::BTreeMap;
use types::errno::*;
use types::osd_op::{CallArgs, cmp_mode, cmp_op, op_flag, osd_flag};
use types::{ByteStr, Bytes, OpCode, OsdOp};

fn is(name: &str, value: &[u8]) -> InOp {
    cmpxattr(OpCode::CMPXATTR, name, value, cmp_op::EQ, cmp_mode::STRING)
}
fn set(name: &str, value: &[u8]) -> InOp {
    xattr(OpCode::SETXATTR, name, value)
}
fn get(name: &str) -> InOp {
    xattr(OpCode::GETXATTR, name, b"")
}
fn omap_set(key: &str, value: &'static str) -> InOp {
    encoded(OpCode::OMAPSETVALS, &BTreeMap::from([(ByteStr::from(key), Bytes::from_static(value.as_bytes()))]))
}
fn omap_is(key: &str, value: &'static str) -> InOp {
    encoded(OpCode::OMAP_CMP, &BTreeMap::from([(ByteStr::from(key), (Bytes::from_static(value.as_bytes()), i32::from(cmp_op::EQ)))]))
}
fn omap_keys() -> InOp {
    encoded(OpCode::OMAPGETKEYS, &(ByteStr::new(), 9_u64))
}
fn omap_vals() -> InOp {
    encoded(OpCode::OMAPGETVALS, &((ByteStr::new(), 9_u64), ByteStr::new()))
}
fn call(class: &str, method: &str, input: &[u8]) -> InOp {
    let args =
        CallArgs { class_len: class.len() as u8, method_len: method.len() as u8, indata_len: input.len() as u32, ..CallArgs::default() };
    InOp::new(OsdOp::with_call(OpCode::CALL, args), [class.as_bytes(), method.as_bytes(), input].concat().into())
}

/// An object with attribute a=1, the key k=v, a header and some data.
fn bench() -> Bench {
    let mut b = Bench::new();
    let header = InOp::new(OsdOp::new(OpCode::OMAPSETHEADER), Bytes::from_static(b"header"));
    assert_eq!(b.run("o", vec![put(OpCode::WRITEFULL, 0, b"data"), set("a", b"1"), omap_set("k", "v"), header]), 0);
    b
}

fn returning(b: &mut Bench, oid: &str, ops: Vec<InOp>) -> (i32, Vec<(i32, Bytes)>) {
    let mut m = b.message(oid, ops);
    m.flags = osd_flag::RETURNVEC;
    b.answer(&m)
}

#[test]
fn conditions_are_about_the_object_before_the_vector() {
    let remove = || op(OpCode::DELETE);
    for (vector, expected) in [
        (vec![remove(), is("a", b"1")], 0),
        (vec![remove(), is("a", b"2")], -ECANCELED),
        (vec![set("a", b"2"), is("a", b"1")], 0),
        (vec![set("a", b"2"), is("a", b"2")], -ECANCELED),
        (vec![xattr(OpCode::RMXATTR, "a", b""), is("a", b"1")], 0),
        (vec![omap_set("k", "w"), omap_is("k", "v")], 0),
        (vec![omap_set("k", "w"), omap_is("k", "w")], -ECANCELED),
        (vec![encoded(OpCode::OMAPRMKEYS, &vec![ByteStr::from("k")]), omap_is("k", "v")], 0),
        // Whether there is an omap, and whether there is an object, is looked at in the vector.
        (vec![op(OpCode::OMAPCLEAR), omap_is("k", "v")], -ECANCELED),
        (vec![op(OpCode::OMAPCLEAR), omap_is("k", "")], 0),
        (vec![remove(), omap_is("k", "v")], -ENOENT),
        (vec![remove(), op(OpCode::CREATE), omap_is("k", "v")], 0),
        (vec![remove(), op(OpCode::STAT)], -ENOENT),
        (vec![remove(), get("a"), op(OpCode::CREATE)], 0),
        (vec![set("b", b"1"), get("b")], -ENODATA),
    ] {
        assert_eq!(bench().run("o", vector.clone()), expected, "{vector:?}");
    }
}

#[test]
fn an_object_that_the_vector_makes_is_not_there_for_its_conditions() {
    for (vector, expected) in [
        (vec![op(OpCode::CREATE), is("a", b"")], -ENOENT),
        (vec![set("a", b"1"), is("a", b"1")], -ENOENT),
        (vec![set("a", b"1"), op(OpCode::GETXATTRS)], -ENOENT),
        (vec![omap_set("k", "v"), omap_is("k", "v")], -ENOENT),
        (vec![omap_set("k", "v"), omap_is("k", "")], -ENOENT),
        (vec![omap_set("k", "v"), omap_vals()], -ENOENT),
        (vec![omap_set("k", "v"), omap_keys()], -ENOENT),
        (vec![omap_set("k", "v"), op(OpCode::OMAPGETHEADER)], 0),
        (vec![omap_set("k", "v"), encoded(OpCode::OMAPGETVALSBYKEYS, &vec![ByteStr::from("k")])], 0),
        // Without an omap nothing is asked of the store.
        (vec![op(OpCode::CREATE), omap_is("k", "")], 0),
        (vec![op(OpCode::CREATE), omap_vals()], 0),
    ] {
        assert_eq!(Bench::new().run("o", vector.clone()), expected, "{vector:?}");
    }
}

/// Something that changes nothing has the result of what stands before it.
#[test]
fn an_operation_without_a_result_keeps_the_one_before_it() {
    for (vector, expected) in [
        (vec![is("a", b"1"), op(OpCode::STAT)], 1),
        (vec![is("a", b"1"), extent(OpCode::ZERO, 100, 5)], 1),
        (vec![is("a", b"1"), omap_keys()], 1),
        (vec![is("a", b"1"), omap_vals(), omap_is("k", "v")], 1),
        (vec![is("a", b"1"), op(OpCode::OMAPGETHEADER), op(OpCode::STAT)], 1),
        (vec![is("a", b"1"), get("a")], 0),
        (vec![is("a", b"1"), extent(OpCode::READ, 0, 0)], 0),
        (vec![is("a", b"1"), op(OpCode::LIST_WATCHERS), op(OpCode::STAT)], 0),
        (vec![is("a", b"1"), flagged(is("a", b"2"), op_flag::FAILOK), op(OpCode::STAT)], 0),
        // A change answers 0 where the caller asked for no results.
        (vec![set("b", b"1"), is("a", b"1")], 0),
        (vec![is("a", b"1"), extent(OpCode::ZERO, 1, 1)], 0),
    ] {
        assert_eq!(bench().run("o", vector.clone()), expected, "{vector:?}");
    }
    let mut b = bench();
    let (result, ops) = returning(&mut b, "o", vec![is("a", b"1"), op(OpCode::STAT), set("b", b"1"), is("a", b"1"), omap_keys()]);
    assert_eq!((result, ops.iter().map(|op| op.0).collect::<Vec<_>>()), (1, vec![1, 1, 0, 1, 1]));
}

/// Their own writes, too: a method that asks again is told what was there before the vector.
#[test]
fn class_methods_see_the_object_before_the_vector() {
    let read = || call("version", "read", b"");
    let set = |number: u64| {
        let mut e = denc::Encoder::new(0);
        e.frame(1, 1, |e| {
            e.frame(1, 1, |e| {
                e.u64(number);
                e.blob(b"tag");
            });
        });
        call("version", "set", e.as_slice())
    };
    let mut b = bench();
    assert_eq!(b.run("o", vec![set(5)]), 0);
    // Answers of a write may have 64 bytes.
    let (result, ops) = returning(&mut b, "o", vec![set(6), read(), op(OpCode::DELETE), read()]);
    assert_eq!((result, ops[1].0, ops[3].0), (0, 0, 0));
    assert_eq!((ops[1].1[12], &ops[3].1), (5, &ops[1].1));
    // As radosgw 20.2 aborts an upload: the metadata goes under a condition on its version.
    let check = |number: u64| {
        let mut e = denc::Encoder::new(0);
        let version = |e: &mut denc::Encoder| {
            e.frame(1, 1, |e| {
                e.u64(number);
                e.blob(b"tag");
            });
        };
        e.frame(1, 1, |e| {
            version(e);
            e.count(1);
            e.frame(1, 1, |e| {
                version(e);
                e.u32(1);
            });
        });
        call("version", "check_conds", e.as_slice())
    };
    let mut keep = denc::Encoder::new(0);
    keep.frame(1, 1, |e| e.count(0));
    let remove = || call("rgw", "obj_remove", keep.as_slice());
    let mut b = bench();
    b.run("o", vec![set(5)]);
    assert_eq!(b.run("o", vec![remove(), check(4)]), -ECANCELED);
    assert_eq!(b.run("o", vec![remove(), check(5)]), 0);
    assert_eq!(b.read("o"), Err(-ENOENT));
}

/// What stock does not do: `[write, cmpext]` never answers there, and what it reads is old bytes at the new length.
#[test]
fn data_is_read_as_the_vector_has_left_it() {
    let mut b = bench();
    assert_eq!(b.run("o", vec![put(OpCode::WRITEFULL, 0, b"more data"), put(OpCode::CMPEXT, 0, b"more")]), 0);
    let (result, ops) = returning(&mut b, "o", vec![put(OpCode::WRITE, 0, b"M"), extent(OpCode::READ, 0, 0)]);
    assert_eq!((result, &ops[1].1[..]), (0, &b"More data"[..]));
}

#[test]
fn what_a_vector_removes_does_not_come_back() {
    let mut b = bench();
    assert_eq!(b.run("o", vec![op(OpCode::DELETE), op(OpCode::CREATE)]), 0);
    assert_eq!(b.run("o", vec![get("a")]), -ENODATA);
    let (_, ops) = b.all("o", vec![omap_vals()]);
    assert_eq!(<(BTreeMap<ByteStr, Bytes>, bool)>::from_bytes(&ops[0].1).unwrap(), (BTreeMap::new(), false));
    // Attributes count only as long as they are there.
    let max = store::AttrsMax::default();
    let large = vec![7; max.one];
    for _ in 0..2 * max.all / max.one {
        assert_eq!(b.run("o", vec![xattr(OpCode::RMXATTR, "a", b""), set("a", &large)]), 0);
    }
}
