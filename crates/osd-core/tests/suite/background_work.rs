//! What an OSD does by itself: it goes on with the store's news, in turns between clients' requests, and is shown.

use crate::world::{Kind, POOL, World, uuid, write_full};
use messages::{InOp, MCommand, MCommandReply, MOSDOpReply, MOSDScrub2, Message};
use osd_core::{ConnId, Effect, Event};
use serde_json::Value;
use types::osd_op::{CallArgs, OpCode};
use types::{OsdOp, PgId, SnapContext, SpgId, features};

fn kinds() -> impl Iterator<Item = Kind> {
    [Kind::Memory].into_iter().chain((1..4).map(Kind::Fetching))
}

/// The rows that `ceph tell osd.0 dump_background_work` has.
fn rows(w: &mut World) -> Vec<(String, String)> {
    let msg = MCommand { tid: 1, cmd: vec![r#"{"prefix": "dump_background_work"}"#.into()], ..MCommand::default() };
    let (clock, msg) = (w.clock(), msg.encode(features::SUPPORTED));
    w.osd.handle(Event::Message { conn: ConnId(1), msg }, clock, &mut w.out);
    let reply = w.sent::<MCommandReply>(1).remove(0);
    assert_eq!(reply.result, 0, "{}", reply.status);
    let told: Value = serde_json::from_slice(&reply.data).unwrap();
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_string();
    told["work"].as_array().unwrap().iter().map(|row| (text(row, "work"), text(row, "state"))).collect()
}
fn of(rows: &[(String, String)], what: &str) -> usize {
    let states = ["busy", "waiting for the store", "idle"];
    rows.iter().filter(|(work, state)| work == what && states.contains(&&**state)).count()
}
fn wants_turn(w: &World) -> bool {
    w.out.iter().any(|e| matches!(e, Effect::Continue))
}

#[test]
fn a_scrub_goes_on_without_ticks_and_is_shown() {
    for kind in kinds() {
        let mut w = World::new(kind, 1);
        for i in 0..300 {
            w.write(&format!("o{i}"), b"some bytes");
        }
        assert_eq!(rows(&mut w), []);
        let pgs = vec![SpgId::whole(PgId::new(POOL, 0))];
        let wanted = MOSDScrub2 { fsid: uuid(1), epoch: w.map.epoch, pgs, repair: false, deep: true };
        w.feed(Event::Mon(wanted.encode(features::SUPPORTED)));
        w.out.clear();
        let clock = w.clock();
        w.osd.handle(Event::Tick, clock, &mut w.out);
        assert_eq!(of(&rows(&mut w), "deep-scrub"), 1, "{kind:?}: {:?}", rows(&mut w));
        w.turn_end();
        assert!(wants_turn(&w), "{kind:?}");
        w.go_on();
        let pg = w.osd.pgs().next().unwrap();
        assert!(pg.record().info().history.last_deep_scrub_stamp.sec > 0, "{kind:?}: it is through");
        assert_eq!(pg.record().info().stats.objects_scrubbed, 300);
        assert_eq!(rows(&mut w), []);
    }
}

#[test]
fn trimming_goes_on_in_turns_and_is_shown() {
    for kind in kinds() {
        let mut w = World::new(kind, 1);
        for i in 0..50 {
            w.write(&format!("o{i}"), b"old");
            let mut m = w.request(&format!("o{i}"), vec![write_full(b"new")]);
            m.snapc = SnapContext { seq: 2, snaps: vec![2] };
            w.send(1, &m);
        }
        w.out.clear();
        w.publish(|m| m.removed_snaps_queue.entry(POOL).or_default().insert(2, 1));
        assert!(wants_turn(&w), "{kind:?}");
        assert_eq!(of(&rows(&mut w), "snaptrim"), 1, "{kind:?}: {:?}", rows(&mut w));
        w.feed(Event::Continue);
        let left = w.osd.pgs().next().unwrap().record().info().stats.stats.sum.num_object_clones;
        assert!(left > 0 && (kind != Kind::Memory || left < 50), "{kind:?}: {left} clones are left after one turn");
        w.go_on();
        assert_eq!(rows(&mut w), []);
        assert!(w.osd.pgs().next().unwrap().record().info().purged_snaps.contains_point(2));
    }
}

#[test]
fn removal_goes_a_page_a_turn_and_is_shown() {
    for kind in kinds() {
        let mut w = World::new(kind, 2);
        for i in 0..600 {
            w.write(&format!("o{i}"), b"1");
        }
        w.out.clear();
        w.publish(|m| {
            m.pools.clear();
            m.pool_names.clear();
        });
        assert!(of(&rows(&mut w), "removal") > 0, "{kind:?}");
        w.go_on();
        assert_eq!(rows(&mut w), []);
        assert_eq!(w.osd.store().collections().unwrap(), vec![types::CollId::Meta]);
    }
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}
fn call(method: &str, input: &[u8]) -> InOp {
    let args = CallArgs { class_len: 3, method_len: method.len() as u8, argc: 0, indata_len: input.len() as u32 };
    InOp::new(OsdOp::with_call(OpCode::CALL, args), [b"rgw", method.as_bytes(), input].concat().into())
}

const ENTRIES: u64 = 20_000;

/// A bucket's index with that many entries, all made of one that the class made.
fn index(w: &mut World) {
    assert_eq!(w.one("index", vec![write_full(b""), call("bucket_init_index", b"")]).result, 0);
    let key = [text(b"k00000"), text(b"")].concat();
    let body = [&[0][..], &text(b"tag"), &text(b""), &[0, 1, 1], &text(&key), &[0; 6]].concat();
    assert_eq!(w.one("index", vec![call("bucket_prepare_op", &[&[7, 5][..], &text(&body)].concat())]).result, 0);
    let wish = [text(b""), 10u64.to_le_bytes().to_vec(), text(b"")].concat();
    let got = w.one("index", vec![InOp::new(OsdOp::new(OpCode::OMAPGETVALS), wish.into())]);
    // One key, its value's length, the value, whether there are more.
    let page = &got.ops[0].outdata;
    let value = page[4 + 4 + 6 + 4..page.len() - 1].to_vec();
    for first in (0..ENTRIES).step_by(1000) {
        let mut vals = 1000u32.to_le_bytes().to_vec();
        for i in first..first + 1000 {
            let (name, mut value) = (format!("k{i:05}"), value.clone());
            // Behind the frame's head: the name, an epoch, and whether it exists.
            value[10..16].copy_from_slice(name.as_bytes());
            value[24] = 1;
            vals.extend([text(name.as_bytes()), text(&value)].concat());
        }
        assert_eq!(w.one("index", vec![InOp::new(OsdOp::new(OpCode::OMAPSETVALS), vals.into())]).result, 0);
    }
}

/// Others have their turns between, and the call goes on where it was, also while the store forgets what it read.
#[test]
fn a_call_over_a_long_index_takes_turns() {
    for kind in kinds() {
        for method in ["bucket_check_index", "bucket_rebuild_index"] {
            let mut w = World::new(kind, 1);
            index(&mut w);
            let m = w.request("index", vec![call(method, b"")]);
            w.out.clear();
            let mut replies = w.send(1, &m);
            // A store that fetches lets others have their turn by itself.
            assert!(replies.is_empty() || kind != Kind::Memory, "{kind:?}: {method} was answered in one turn");
            // What is behind it on its object waits for it; another object's does not.
            let behind = w.request("index", vec![InOp::new(OsdOp::new(OpCode::OMAPCLEAR), Default::default())]);
            replies.extend(w.send(1, &behind));
            assert!(replies.is_empty() || kind != Kind::Memory, "{kind:?}");
            let mut turns = 0;
            while replies.len() < 2 {
                assert!(wants_turn(&w), "{kind:?}: {method} waits for nothing");
                assert_eq!(w.write("other", b"quick").result, 0);
                w.out.retain(|e| !matches!(e, Effect::Continue));
                w.feed(Event::Continue);
                replies.extend(w.sent::<MOSDOpReply>(1));
                turns += 1;
                assert!(turns < 1000, "{kind:?}: {method} does not end");
            }
            assert!(turns > 1 || kind != Kind::Memory, "{kind:?}");
            assert_eq!([replies[0].tid, replies[1].tid], [m.tid, behind.tid], "{kind:?}");
            assert_eq!((replies[0].result, replies[1].result), (0, 0), "{kind:?}");
            if method == "bucket_check_index" {
                let told = &replies[0].ops[0].outdata;
                assert!(told.windows(8).any(|at| at == ENTRIES.to_le_bytes()), "{kind:?}: {told:?}");
            }
        }
    }
}

/// `tell osd.0 bench`, in as many turns as it wants: what it says.
fn bench(w: &mut World, arguments: &str) -> MCommandReply {
    let msg = MCommand { tid: 9, cmd: vec![format!(r#"{{"prefix": "bench", {arguments}}}"#)], ..MCommand::default() };
    w.out.clear();
    w.feed(Event::Message { conn: ConnId(1), msg: msg.encode(features::SUPPORTED) });
    w.go_on();
    w.sent::<MCommandReply>(1).pop().unwrap_or_else(|| panic!("bench {arguments} has no answer"))
}

#[test]
fn a_bench_has_an_end_whatever_it_is_asked() {
    let mut w = World::new(Kind::Memory, 1);
    let most = u64::MAX;
    for (arguments, why) in [
        (format!(r#""count": 4096, "size": 4096, "object_size": 4096, "object_num": {most}"#), "'object_num' is at most 65536"),
        (r#""object_size": 4096, "object_num": 65537"#.to_string(), "'object_num' is at most 65536"),
        (format!(r#""object_size": {most}, "object_num": 1"#), "'object_size' is at most"),
        (r#""object_num": 18446744073709551616"#.to_string(), "'object_num' must be a number"),
        (r#""object_num": "-1""#.to_string(), "'object_num' must be a number"),
        (format!(r#""count": {most}"#), "'count' values greater than"),
        (format!(r#""size": {most}"#), "block 'size' values are capped"),
        (r#""size": 0"#.to_string(), "'size' must be above 0"),
    ] {
        let reply = bench(&mut w, &arguments);
        assert!(reply.result == -types::errno::EINVAL && reply.status.contains(why), "{arguments}: {} {}", reply.result, reply.status);
    }
    // Bounds that an operator has set to the highest are sums that do not wrap round.
    for name in ["osd_bench_small_size_max_iops", "osd_bench_duration"] {
        let msg = MCommand {
            cmd: vec![format!(r#"{{"prefix": "config set", "var": "{name}", "val": ["{}"]}}"#, i64::MAX)],
            ..Default::default()
        };
        w.feed(Event::Message { conn: ConnId(1), msg: msg.encode(features::SUPPORTED) });
        let reply = w.sent::<MCommandReply>(1).pop().unwrap();
        assert_eq!(reply.result, 0, "{name}: {}", reply.status);
    }
    // As many objects as may be, in more than one turn; nothing stays.
    let reply = bench(&mut w, r#""count": 4194304, "size": 4096, "object_size": 4096, "object_num": 65536"#);
    assert_eq!(reply.result, 0, "{}", reply.status);
    let told: Value = serde_json::from_slice(&reply.data).unwrap();
    assert_eq!((told["bytes_written"].as_u64(), told["blocksize"].as_u64()), (Some(4 << 20), Some(4096)));
    w.go_on();
    let left = w.osd.store().list(types::CollId::Meta, &types::GHObject::min(), &types::GHObject::max(), 100_000).unwrap();
    assert!(!left.objects.iter().any(|o| format!("{o:?}").contains("disk_bw_test")), "its objects are gone");
}
