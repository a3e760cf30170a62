//! The order of requests on one object, through the whole core; the order alone is tested where it lies (`pg/requests/order/mod.rs`).

use crate::world::{Kind, POOL, World, received, write_full};
use bytes::Bytes;
use denc::Denc;
use messages::{InOp, MOSDOp, MOSDOpReply, Message};
use osd_core::{ConnId, Event};
use types::osd_op::{CopyFromArgs, OpCode};
use types::{ByteStr, CEPH_NOSNAP, ObjectLocator, OsdOp, features};

fn kinds() -> impl Iterator<Item = Kind> {
    [Kind::Memory].into_iter().chain((1..6).map(Kind::Fetching))
}
fn read() -> InOp {
    InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())
}
fn copy_from(source: &str) -> InOp {
    let args = CopyFromArgs { snapid: CEPH_NOSNAP, ..CopyFromArgs::default() };
    let data = (ByteStr::from(source), ObjectLocator::pool(POOL)).to_bytes(0);
    InOp::new(OsdOp::with_copy_from(OpCode::COPY_FROM, args), data)
}
fn give(w: &mut World, m: &MOSDOp) {
    w.feed(Event::Message { conn: ConnId(1), msg: received(&m.encode(features::SUPPORTED)) });
}

/// Without a tick, which would ask again.
#[test]
fn two_objects_are_copied_to_each_other() {
    for kind in kinds() {
        let mut w = World::new(kind, 1);
        w.write("a", b"of a");
        w.write("b", b"old");
        w.store.borrow_mut().holds_commits = true;
        // The copy to b waits behind a read, and the question of the copy to a behind both.
        let requests = [("b", write_full(b"of b")), ("b", read()), ("b", copy_from("a")), ("a", copy_from("b"))];
        let requests = requests.map(|(name, op)| w.request(name, vec![op]));
        requests.iter().for_each(|m| give(&mut w, m));
        assert!(w.sent::<MOSDOpReply>(1).is_empty(), "{kind:?}");
        w.store.borrow_mut().holds_commits = false;
        w.turn_end();
        let answers = w.sent::<MOSDOpReply>(1);
        assert_eq!(answers.len(), requests.len(), "{kind:?}: {:?}", answers.iter().map(|r| r.tid).collect::<Vec<_>>());
        assert!(answers.iter().all(|r| r.result == 0), "{kind:?}");
        let seen = answers.iter().find(|r| r.tid == requests[1].tid).unwrap();
        assert_eq!(seen.ops[0].outdata, "of b");
        // Which copy takes effect first is the store's to say.
        let (a, b) = (w.read("a").unwrap(), w.read("b").unwrap());
        assert!([&a, &b].iter().all(|bytes| ["of a", "of b"].map(str::as_bytes).contains(&&bytes[..])), "{kind:?}: {a:?} {b:?}");
    }
}

#[test]
fn a_copy_of_what_is_not_there_fails_and_lets_others_go_on() {
    for kind in kinds() {
        let mut w = World::new(kind, 1);
        w.write("a", b"of a");
        w.store.borrow_mut().holds_commits = true;
        let requests = [("a", write_full(b"2")), ("a", read()), ("a", copy_from("none")), ("a", read()), ("a", write_full(b"3"))];
        let requests = requests.map(|(name, op)| w.request(name, vec![op]));
        requests.iter().for_each(|m| give(&mut w, m));
        w.store.borrow_mut().holds_commits = false;
        w.turn_end();
        let answers = w.sent::<MOSDOpReply>(1);
        let results: Vec<(u64, i32)> = answers.iter().map(|r| (r.tid, r.result)).collect();
        let wanted: Vec<(u64, i32)> = requests.iter().zip([0, 0, -types::errno::ENOENT, 0, 0]).map(|(m, result)| (m.tid, result)).collect();
        assert_eq!(results, wanted, "{kind:?}");
        assert_eq!(answers[3].ops[0].outdata, "2");
        assert_eq!(w.read("a").unwrap(), b"3");
    }
}
