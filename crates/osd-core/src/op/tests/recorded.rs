//! What stock answered to random requests, and what the objects were then: replayed. See `fixtures/osd-core/README.md`.

use super::bench::{Bench, cmpxattr, encoded, extent, flagged, op, put, xattr};
use denc::Denc;
use messages::InOp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::osd_op::{AllocHintArgs, SnapArgs, WriteSameArgs, cmp_mode, op_flag};
use types::{ByteStr, Bytes, CEPH_NOSNAP, OpCode, OsdOp};

const RECORDED: &str = include_str!("../../../../../fixtures/osd-core/requests-18.2.7.jsonl");

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}
fn bytes(value: &Value) -> Bytes {
    Bytes::copy_from_slice(text(value).as_bytes())
}

/// An operation of the recording, as librados sends it.
fn recorded_op(a: &[Value]) -> InOp {
    let key = |value: &Value| ByteStr::from(text(value));
    let made = match text(&a[0]) {
        "write" => put(OpCode::WRITE, number(&a[1]), text(&a[2]).as_bytes()),
        "cmpext" => put(OpCode::CMPEXT, number(&a[1]), text(&a[2]).as_bytes()),
        "write_full" => put(OpCode::WRITEFULL, 0, text(&a[1]).as_bytes()),
        "append" => put(OpCode::APPEND, 0, text(&a[1]).as_bytes()),
        "truncate" => extent(OpCode::TRUNCATE, number(&a[1]), 0),
        "zero" => extent(OpCode::ZERO, number(&a[1]), number(&a[2])),
        "writesame" => {
            let args = WriteSameArgs { offset: number(&a[1]), length: number(&a[2]), data_length: text(&a[3]).len() as u64 };
            InOp::new(OsdOp::with_writesame(OpCode::WRITESAME, args), bytes(&a[3]))
        }
        "remove" => op(OpCode::DELETE),
        "create" => op(OpCode::CREATE),
        "create_excl" => flagged(op(OpCode::CREATE), op_flag::EXCL),
        "setxattr" => xattr(OpCode::SETXATTR, text(&a[1]), text(&a[2]).as_bytes()),
        "rmxattr" => xattr(OpCode::RMXATTR, text(&a[1]), b""),
        "cmpxattr" => cmpxattr(OpCode::CMPXATTR, text(&a[1]), text(&a[3]).as_bytes(), number(&a[2]) as u8, cmp_mode::STRING),
        "omap_set" => {
            let pairs = a[1].as_object().expect("pairs").iter();
            encoded(OpCode::OMAPSETVALS, &pairs.map(|(k, v)| (ByteStr::from(&k[..]), bytes(v))).collect::<BTreeMap<_, _>>())
        }
        "omap_rm" => encoded(OpCode::OMAPRMKEYS, &a[1].as_array().expect("keys").iter().map(key).collect::<Vec<_>>()),
        "omap_rm_range" => encoded(OpCode::OMAPRMKEYRANGE, &(key(&a[1]), key(&a[2]))),
        "omap_clear" => op(OpCode::OMAPCLEAR),
        "omap_cmp" => encoded(OpCode::OMAP_CMP, &BTreeMap::from([(key(&a[1]), (bytes(&a[3]), number(&a[2]) as i32))])),
        "assert_exists" => op(OpCode::STAT),
        "alloc_hint" => {
            let args = AllocHintArgs { expected_object_size: 4096, expected_write_size: 512, flags: 1 };
            InOp::new(OsdOp::with_alloc_hint(OpCode::SETALLOCHINT, args), Bytes::new())
        }
        other => panic!("{other}"),
    };
    // librados sets an operation's flags anew.
    if a.last().is_some_and(|last| last == "FAILOK") { flagged(made, op_flag::FAILOK) } else { made }
}

/// What a client reads of an object, in the recording's form.
fn state(b: &mut Bench, oid: &str, snap: u64, recorded: &Value) -> Value {
    let mut one = |op: InOp| -> Result<Bytes, i32> {
        let (result, mut ops) = b.at_snap(oid, snap, vec![op]);
        if result < 0 { Err(result) } else { Ok(ops.remove(0).1) }
    };
    let show = |found: Result<Bytes, i32>| found.map_or_else(Value::from, |b| b.iter().map(|c| char::from(*c)).collect::<String>().into());
    let pairs = |found: BTreeMap<ByteStr, Bytes>| -> Value {
        found.iter().map(|(k, v)| (k.to_string(), Value::from(String::from_utf8_lossy(v)))).collect::<serde_json::Map<_, _>>().into()
    };
    let (page, part) = (&recorded["omap"], &recorded["part"]);
    let query = ((ByteStr::from(text(&page[0])), number(&page[2])), ByteStr::from(text(&page[1])));
    let omap = match one(encoded(OpCode::OMAPGETVALS, &query)) {
        Ok(out) => {
            let (found, more) = <(BTreeMap<ByteStr, Bytes>, bool)>::from_bytes(&out).unwrap();
            json!([page[0], page[1], page[2], pairs(found), more])
        }
        Err(errno) => json!([page[0], page[1], page[2], errno]),
    };
    json!({
        "read": show(one(extent(OpCode::READ, 0, 4096))),
        "stat": one(op(OpCode::STAT)).map_or_else(Value::from, |out| u64::from_bytes(&out).unwrap().into()),
        "xattrs": one(op(OpCode::GETXATTRS)).map_or_else(Value::from, |out| pairs(Denc::from_bytes(&out).unwrap())),
        "omap": omap,
        "part": [part[0], part[1], show(one(extent(OpCode::READ, number(&part[0]), number(&part[1]))))],
        "x": show(one(xattr(OpCode::GETXATTR, "x", b""))),
    })
}

#[test]
fn random_requests_are_answered_as_by_stock() {
    let mut b = Bench::new();
    for (line, recorded) in RECORDED.lines().enumerate() {
        let recorded: Value = serde_json::from_str(recorded).expect("a line is JSON");
        let at = format!("line {}: {recorded}", line + 1);
        if let Some(snap) = recorded["snap"].as_u64() {
            b.snapc.seq = snap;
            b.snapc.snaps.insert(0, snap);
            continue;
        }
        let oid = text(&recorded["o"]);
        if let Some(snapid) = recorded["rollback"].as_u64() {
            let op = InOp::new(OsdOp::with_snap(OpCode::ROLLBACK, SnapArgs { snapid }), Bytes::new());
            assert_eq!(Value::from(b.run(oid, vec![op])), recorded["r"], "{at}");
        } else if let Some(ops) = recorded["ops"].as_array() {
            let ops = ops.iter().map(|op| recorded_op(op.as_array().expect("an operation"))).collect();
            assert_eq!(Value::from(b.run(oid, ops)), recorded["r"], "{at}");
        } else {
            let snap = recorded["at"].as_u64().unwrap_or(CEPH_NOSNAP);
            let found = state(&mut b, oid, snap, &recorded["state"]);
            // The order of pairs is no matter.
            assert!(found == recorded["state"], "{at}\nfound {found}");
        }
    }
}
