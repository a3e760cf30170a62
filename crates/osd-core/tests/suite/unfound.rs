//! Objects that only a lost OSD had: the group serves the others, tells which these are, and goes on when an operator gives them up.

use crate::cluster::{Cluster, POOL};
use bytes::Bytes;
use messages::InOp;
use serde_json::{Value, json};
use types::osd_op::OpCode;
use types::{OsdOp, PgId, SpgId};

const GROUP: &str = "1.0";

fn full(data: &[u8]) -> Vec<InOp> {
    vec![InOp::new(OsdOp::range(OpCode::WRITEFULL, 0, data.len() as u64), Bytes::copy_from_slice(data))]
}
/// One OSD wrote alone, the other that is left got the log of it and no object before the first died. False if it got an object all the same.
fn lose(c: &mut Cluster, lost: usize, left: usize) -> bool {
    for name in ["kept", "changed", "removed"] {
        assert_eq!(c.one(name, full(b"before")).unwrap().result, 0);
    }
    c.kill(left);
    c.mark_down(left);
    c.settle();
    assert_eq!(c.one("changed", full(b"after")).unwrap().result, 0);
    assert_eq!(c.one("new", full(b"after")).unwrap().result, 0);
    assert_eq!(c.one("removed", vec![InOp::new(OsdOp::range(OpCode::DELETE, 0, 0), Bytes::new())]).unwrap().result, 0);
    c.start(left);
    let pgid = SpgId::whole(PgId::new(POOL, 0));
    let lacks = |c: &Cluster| {
        let record = c.nodes[left].as_ref().unwrap().osd.store().load_pg(pgid).unwrap();
        record.map_or(0, |record| record.missing.len())
    };
    while lacks(c) == 0 {
        assert!(c.step(), "the other gets the log");
    }
    // Both have activated by it, and the other knows.
    let began = c.map.epoch;
    let knows = |c: &Cluster| {
        let record = c.nodes[left].as_ref().unwrap().osd.store().load_pg(pgid).unwrap();
        record.is_some_and(|record| record.info.history.last_epoch_started >= began)
    };
    while !knows(c) && c.step() {}
    let still_lacks = lacks(c) == 3;
    c.kill(lost);
    c.mark_down(lost);
    c.settle();
    still_lacks
}
fn command(c: &mut Cluster, left: usize, prefix: &str, how: &str) -> (i32, String, String) {
    c.command(left, &json!({ "prefix": "pg", "pgid": GROUP, "cmd": prefix, "mulcmd": how }))
}
fn unfound(c: &mut Cluster, left: usize) -> (u64, Vec<String>, Value) {
    let (errno, status, text) = command(c, left, "list_unfound", "");
    assert_eq!((errno, &*status), (0, ""));
    let shown: Value = serde_json::from_str(&text).unwrap();
    let names = shown["objects"].as_array().unwrap().iter().map(|o| o["oid"]["oid"].as_str().unwrap().to_string());
    let mut names: Vec<String> = names.collect();
    names.sort();
    (shown["num_unfound"].as_u64().unwrap(), names, shown)
}

#[test]
fn what_only_a_lost_osd_had_is_given_up_by_an_operator() {
    let mut seen = 0;
    for (seed, how) in (0..30).flat_map(|seed| [(seed, "revert"), (seed, "delete")]) {
        let mut c = Cluster::new(seed, 3, 2, 1, 1);
        // The third OSD is there for the end.
        c.publish(|m| m.osd_weight[2] = 0);
        c.settle();
        let lost = c.primary(PgId::new(POOL, 0)) as usize;
        let left = 1 - lost;
        if !lose(&mut c, lost, left) {
            continue;
        }
        seen += 1;
        let what = format!("seed {seed}, {how}");
        assert_eq!(c.read("kept").as_deref(), Ok(&b"before"[..]), "{what}");
        assert_eq!(c.read("removed"), Err(2), "{what}: a deletion needs nobody's copy");
        let (count, names, shown) = unfound(&mut c, left);
        assert_eq!((count, &names[..]), (2, &["changed".to_string(), "new".into()][..]), "{what}: {shown}");
        assert_eq!(shown["might_have_unfound"], json!([{ "osd": lost.to_string(), "status": "osd is down" }]));
        // A read of one waits, and is answered when it is decided.
        let waits = c.request("changed", vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]);
        c.give(&waits);
        c.settle();
        assert!(c.replies.iter().all(|r| r.tid != waits.tid), "{what}: answered");
        // The lost one may come back.
        let (errno, status, _) = command(&mut c, left, "mark_unfound_lost", how);
        assert!(errno == 22 && status.contains("haven't probed all sources"), "{what}: {errno} {status}");
        c.publish(|m| (m.osd_info[lost].lost_at, m.osd_weight[lost]) = (m.epoch, 0));
        c.settle();
        let (errno, status, _) = command(&mut c, left, "mark_unfound_lost", how);
        assert_eq!((errno, &*status), (0, "pg has 2 objects unfound and apparently lost marking"), "{what}");
        c.settle();
        assert_eq!(command(&mut c, left, "mark_unfound_lost", how).1, "pg has no unfound objects");
        assert_eq!(unfound(&mut c, left).0, 0);
        let reply = c.replies.iter().find(|r| r.tid == waits.tid).unwrap_or_else(|| panic!("{what}: not answered"));
        let expected = if how == "revert" { Ok(b"before".to_vec()) } else { Err(2) };
        assert_eq!(if reply.result < 0 { Err(-reply.result) } else { Ok(reply.ops[0].outdata.to_vec()) }, expected, "{what}");
        assert_eq!(c.read("new"), Err(2), "{what}");
        // The copies of a second member, and those of the lost one when it is back with its disk, are the same.
        for (osd, weight) in [(2, 0x10000), (lost, 0x10000)] {
            if osd == lost {
                c.start(lost);
                c.publish(|m| m.osd_weight[2] = 0);
            }
            c.publish(|m| m.osd_weight[osd] = weight);
            c.settle();
            c.assert_clean();
            c.assert_copies_equal();
            assert_eq!((c.read("changed"), c.read("kept")), (expected.clone(), Ok(b"before".to_vec())), "{what}");
        }
        assert_eq!(c.one("changed", full(b"again")).unwrap().result, 0);
        c.assert_copies_equal();
        assert_eq!(c.errors, [""; 0], "{what}");
    }
    assert!(seen > 10, "{seen} cases");
}
