//! Commands to an OSD (`ceph tell osd.N`): what each says it has done is what it did.

use crate::world::{Kind, World};
use messages::{MCommand, MCommandReply, Message};
use osd_core::{ConnId, Event};
use serde_json::{Value, json};
use std::collections::BTreeMap;
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

/// Commands that a shard has a part in.
const OF_SHARD: [&str; 14] = [
    r#"{"prefix":"status"}"#,
    r#"{"prefix":"perf dump","logger":"osd","counter":"op_w"}"#,
    r#"{"prefix":"counter dump"}"#,
    r#"{"prefix":"dump_background_work"}"#,
    r#"{"prefix":"dump_ops_in_flight"}"#,
    r#"{"prefix":"dump_blocked_ops"}"#,
    r#"{"prefix":"dump_historic_ops"}"#,
    r#"{"prefix":"dump_mempools"}"#,
    r#"{"prefix":"dump_pg_recovery_stats"}"#,
    r#"{"prefix":"dump_recovery_reservations"}"#,
    r#"{"prefix":"dump_scrubs"}"#,
    r#"{"prefix":"query","pgid":"1.1"}"#,
    r#"{"prefix":"bench","size":0}"#,
    r#"{"prefix":"flush_pg_stats"}"#,
];

/// The shard's part comes at any time later, as from a thread of its own: each command is answered once, and alike.
#[test]
fn a_command_is_answered_alike_where_the_shard_answers_late() {
    let ask = |is_late: bool| {
        let mut w = World::new(Kind::Memory, 2);
        if is_late {
            w.osd.delay_answers(3);
        }
        w.write("a", b"counted");
        for (tid, cmd) in (1..).zip(OF_SHARD) {
            let msg = MCommand { tid, cmd: vec![cmd.into()], ..MCommand::default() }.encode(features::SUPPORTED);
            w.osd.handle(Event::Message { conn: ConnId(1), msg }, w.clock(), &mut w.out);
        }
        let at_once = w.sent::<MCommandReply>(1);
        (0..200).for_each(|_| w.feed(Event::TurnEnd));
        let later = w.sent::<MCommandReply>(1);
        assert_eq!(at_once.len() == OF_SHARD.len(), !is_late, "{} answers at once", at_once.len());
        assert_eq!(at_once.len() + later.len(), OF_SHARD.len());
        at_once.into_iter().chain(later).map(|m| (m.tid, (m.result, m.status, m.data))).collect::<BTreeMap<_, _>>()
    };
    let answers = ask(false);
    assert_eq!(answers.len(), OF_SHARD.len());
    assert_eq!(answers[&13].0, -types::errno::EINVAL, "a bench of nothing");
    assert!(answers.iter().all(|(tid, (result, ..))| *tid == 13 || *result == 0), "{answers:?}");
    assert_eq!(answers, ask(true));
}
