//! What an OSD does by itself: it goes on with the store's news, in turns between clients' requests, and is shown.

mod world;

use messages::{MCommand, MCommandReply, MOSDScrub2, Message};
use osd_core::{ConnId, Effect, Event};
use serde_json::Value;
use types::{PgId, SnapContext, SpgId, features};
use world::{Kind, POOL, World, uuid, write_full};

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
        assert!(pg.info.history.last_deep_scrub_stamp.sec > 0, "{kind:?}: it is through");
        assert_eq!(pg.info.stats.objects_scrubbed, 300);
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
        let left = w.osd.pgs().next().unwrap().info.stats.stats.sum.num_object_clones;
        assert!(left > 0 && (kind != Kind::Memory || left < 50), "{kind:?}: {left} clones are left after one turn");
        w.go_on();
        assert_eq!(rows(&mut w), []);
        assert!(w.osd.pgs().next().unwrap().info.purged_snaps.contains_point(2));
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
