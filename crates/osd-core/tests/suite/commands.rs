//! Commands to an OSD (`ceph tell osd.N`): what each says it has done is what it did.

use crate::world::{Kind, World};
use messages::{MCommand, MCommandReply, Message};
use osd_core::{ConnId, Event};
use serde_json::{Value, json};
use types::features;

fn tell(w: &mut World, command: &Value) -> Value {
    let msg = MCommand { tid: 1, cmd: vec![command.to_string()], ..MCommand::default() };
    w.feed(Event::Message { conn: ConnId(1), msg: msg.encode(features::SUPPORTED) });
    serde_json::from_slice(&w.sent::<MCommandReply>(1).remove(0).data).expect("json")
}

#[test]
fn a_reset_of_counters_is_of_those_that_it_names() {
    let mut w = World::new(Kind::Memory, 1);
    w.write("a", b"counted");
    let count = |w: &mut World| tell(w, &json!({ "prefix": "perf dump" }))["osd"]["op_w"].clone();
    let reset = |w: &mut World, name: &str| tell(w, &json!({ "prefix": "perf reset", "var": name }));
    assert_eq!(reset(&mut w, "no_such"), json!({ "error": "Not find: no_such" }));
    assert_eq!(count(&mut w), 1);
    assert_eq!((reset(&mut w, "osd"), count(&mut w)), (json!({ "success": "perf reset osd" }), json!(0)));
    w.write("a", b"again");
    assert_eq!((reset(&mut w, "all"), count(&mut w)), (json!({ "success": "perf reset all" }), json!(0)));
}

/// The store works on it for a while, and clients meanwhile.
#[test]
fn a_compaction_is_answered_when_it_has_ended_with_its_time() {
    let mut w = World::new(Kind::Memory, 1);
    let ask = |w: &mut World, tid: u64| {
        let msg = MCommand { tid, cmd: vec![json!({ "prefix": "compact" }).to_string()], ..MCommand::default() };
        w.feed(Event::Message { conn: ConnId(1), msg: msg.encode(features::SUPPORTED) });
    };
    let answers = |w: &mut World| -> Vec<(u64, Value)> {
        w.sent::<MCommandReply>(1).iter().map(|m| (m.tid, serde_json::from_slice(&m.data).expect("json"))).collect()
    };
    ask(&mut w, 1);
    w.now_s += 3;
    ask(&mut w, 2);
    w.write("a", b"meanwhile");
    assert!(answers(&mut w).is_empty(), "it goes on");
    w.store.borrow_mut().compacted = 1;
    w.feed(Event::TurnEnd);
    assert_eq!(answers(&mut w), [(1, json!({ "elapsed_time": 3.0 }))]);
    w.now_s += 1;
    w.store.borrow_mut().compacted = 2;
    w.feed(Event::Tick);
    assert_eq!(answers(&mut w), [(2, json!({ "elapsed_time": 1.0 }))]);
}
