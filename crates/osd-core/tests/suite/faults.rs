//! Stores that lack room, give damage instead of data, or stop: what clients, the monitor and the log hear of it.

use crate::world::store::TestStore;
use crate::world::{Kind, POOL, World, write_full};
use bytes::Bytes;
use maps::{osd_state, pool_flags};
use messages::{InOp, MMgrConfigure, MOSDFull, MOSDOp, MPGStats, Message};
use osd_core::{Effect, Event, Level};
use types::OsdOp;
use types::errno::{EIO, ENOSPC};
use types::features;
use types::osd_op::{OpCode, osd_flag};

fn reports(w: &World) -> Vec<String> {
    let line = |e: &Effect| match e {
        Effect::ClusterLog { level: Level::Error, text } => Some(text.clone()),
        _ => None,
    };
    w.out.iter().filter_map(line).collect()
}
/// What the OSD wants the map to show of it, if it has asked since the last question.
fn wanted(w: &mut World) -> Option<u32> {
    w.sent_to_mon::<MOSDFull>().last().map(|m| m.state)
}
/// The monitor marks the OSD, and its pools follow.
fn mark(w: &mut World, state: u32) {
    const MASK: u32 = osd_state::FULL | osd_state::NEARFULL | osd_state::BACKFILLFULL;
    w.publish(|m| {
        m.osd_state[0] = m.osd_state[0] & !MASK | state;
        let pool = m.pools.get_mut(&POOL).unwrap();
        pool.flags &= !pool_flags::FULL;
        if state & osd_state::FULL != 0 {
            pool.flags |= pool_flags::FULL;
        }
    });
}

/// What health is to say of the store, as the OSD reports it.
fn alert(w: &mut World) -> Option<String> {
    w.out.clear();
    w.feed(Event::MgrConnected);
    w.feed(Event::Mgr(MMgrConfigure { stats_period_s: 5, stats_threshold: 5, ..MMgrConfigure::default() }.encode(features::SUPPORTED)));
    let stats = w.out.iter().find_map(|e| match e {
        Effect::SendMgr(msg) if msg.kind == MPGStats::KIND => Some(MPGStats::decode(msg).unwrap()),
        _ => None,
    });
    stats.expect("it reports").osd_stat.os_alerts.get(&0)?.get("BLUESTORE_SPURIOUS_READ_ERRORS").cloned()
}

/// A group whose log can't be read is neither served nor made anew, health names it and the way back; the others are served.
#[test]
fn a_group_with_a_damaged_log_is_away_until_repair_and_health_says_so() {
    let (store, control) = TestStore::new(None);
    control.borrow_mut().journal = Some(Vec::new());
    let mut w = World::with_store(store, control, 4);
    for n in 0..20 {
        w.write(&format!("o{n}"), b"1");
    }
    assert_eq!(alert(&mut w), None);
    let group_of = |w: &mut World, n: u32| w.request(&format!("o{n}"), Vec::new()).pgid;
    let bad = group_of(&mut w, 7);
    w.restart(|c| {
        let (store, control) = TestStore::replay(c.journal.as_ref().unwrap(), None);
        control.borrow_mut().damaged_group = Some(bad);
        (store, control)
    });
    assert!(w.osd.pgs().all(|pg| pg.pgid != bad) && w.osd.pgs().count() == 3);
    w.connect(1, 4001);
    for n in 0..20 {
        let m = w.request(&format!("o{n}"), vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())]);
        let answered = w.send(1, &m);
        assert_eq!(answered.is_empty(), m.pgid == bad, "o{n}: no answer is wrong, and the client waits");
    }
    let said = alert(&mut w).expect("health hears of it");
    assert!(said.contains(&bad.to_string()) && said.contains("humboldt store repair"), "{said}");
    // The repair is over: it is back, and nothing is said any more.
    w.restart(|c| TestStore::replay(c.journal.as_ref().unwrap(), None));
    w.connect(1, 4001);
    assert_eq!(w.read("o7").unwrap(), b"1");
    assert_eq!(alert(&mut w), None);
}

/// The maps can't be read either, so nothing tells at the start which groups other OSDs have. When a map has come that does, the OSD ends.
#[test]
fn a_group_with_a_damaged_log_ends_the_osd_once_a_map_tells_of_other_copies() {
    let (store, control) = TestStore::new(None);
    control.borrow_mut().journal = Some(Vec::new());
    let mut w = World::with_store(store, control, 4);
    w.write("o7", b"1");
    let bad = w.request("o7", Vec::new()).pgid;
    w.restart(|c| {
        let (store, control) = TestStore::replay(c.journal.as_ref().unwrap(), None);
        (control.borrow_mut().damaged_group, control.borrow_mut().damaged) = (Some(bad), Some("osdmap".into()));
        (store, control)
    });
    let why = |w: &World| w.out.iter().find_map(|e| if let Effect::Stop { why } = e { why.clone() } else { None });
    assert_eq!(why(&w), None, "one copy: the other groups are served");
    // A group that waited for its map is not called damaged.
    let said = alert(&mut w).expect("health hears of it");
    assert!(said.ends_with(&format!("left out what is damaged: {bad}")), "{said}");
    w.publish(|m| m.pools.get_mut(&POOL).unwrap().size = 3);
    let why = why(&w).expect("it ends");
    assert!(why.contains(&format!("group {bad} can't be loaded")) && why.contains("repair"), "{why}");
}

#[test]
fn damage_is_an_error_for_its_reader_and_nobody_else() {
    let mut w = World::new(Kind::Memory, 2);
    w.write("good", b"1");
    w.write("bad", b"2");
    // Nothing is at hand any more: another interval.
    w.store.borrow_mut().damaged = Some("bad".into());
    w.out.clear();
    w.publish(|m| m.osd_state[0] &= !osd_state::UP);
    w.comes_up();
    w.settle();
    assert_eq!(w.read("bad"), Err(EIO));
    assert_eq!(w.one("bad", vec![write_full(b"3")]).result, -EIO);
    assert_eq!(w.read("good").unwrap(), b"1");
    assert!(reports(&w).iter().any(|l| l.contains("bad")), "{:?}", reports(&w));
    let alert = alert(&mut w).expect("health hears of it");
    assert!(alert.starts_with("2 reads"), "{alert}");
    assert!(!w.out.iter().any(|e| matches!(e, Effect::Stop { .. })));
}

#[test]
fn a_store_that_stops_ends_the_osd_with_its_reason() {
    for by_write in [true, false] {
        let mut w = World::new(Kind::Memory, 1);
        w.write("a", b"1");
        w.out.clear();
        w.store.borrow_mut().stopped = Some("flush of /dev/x failed: EIO".into());
        if by_write {
            let m = w.request("a", vec![write_full(b"2")]);
            assert!(w.send(1, &m).is_empty(), "nothing is answered");
        } else {
            w.feed(Event::Tick);
        }
        let why = w.out.iter().find_map(|e| if let Effect::Stop { why } = e { why.clone() } else { None });
        assert!(why.unwrap().contains("flush of /dev/x failed"));
    }
}

#[test]
fn how_full_it_is_is_told_and_taken_back() {
    let mut w = World::new(Kind::Memory, 1);
    let total = w.osd.store().statfs().total;
    for (taken, state) in [(86, osd_state::NEARFULL), (91, osd_state::BACKFILLFULL), (96, osd_state::FULL), (50, 0)] {
        w.store.borrow_mut().taken = total / 100 * taken;
        // Less is told when it was so for some looks.
        for _ in 0..if state == 0 { 2 } else { 0 } {
            w.feed(Event::Tick);
            assert_eq!(wanted(&mut w), None);
        }
        w.feed(Event::Tick);
        assert_eq!(wanted(&mut w), Some(state), "{taken} %");
        // Said again until the map has it.
        w.feed(Event::Tick);
        assert_eq!(wanted(&mut w), Some(state));
        mark(&mut w, state);
        w.feed(Event::Tick);
        assert_eq!(wanted(&mut w), None);
    }
}

#[test]
fn without_room_clients_wait_or_hear_of_it_and_removing_helps() {
    let mut w = World::new(Kind::Memory, 1);
    w.write("a", &[1; 4096]);
    let version = |w: &World| w.osd.pgs().next().unwrap().record().info().last_update;
    let before = (version(&w), w.osd.pgs().next().unwrap().record().info().stats.stats.sum);
    w.store.borrow_mut().refuses = true;
    // Who has not said that it wants to know is not answered; the monitor hears at once.
    let waits = w.request("a", vec![write_full(&[2; 4096])]);
    assert!(w.send(1, &waits).is_empty());
    assert_eq!(wanted(&mut w), Some(osd_state::FULL));
    let mut tries = w.request("b", vec![write_full(b"1")]);
    tries.flags |= osd_flag::FULL_TRY;
    assert_eq!(w.send(1, &tries).remove(0).result, -ENOSPC);
    // What was refused left no trace.
    let sum = w.osd.pgs().next().unwrap().record().info().stats.stats.sum;
    assert_eq!((version(&w), sum.num_objects, sum.num_bytes), (before.0, before.1.num_objects, before.1.num_bytes));
    assert_eq!(w.read("a").unwrap(), [1; 4096]);
    mark(&mut w, osd_state::FULL);
    // The pool is full now: only what removes passes, and only for clients that say so.
    w.store.borrow_mut().refuses = false;
    assert_eq!(w.send(1, &MOSDOp { map_epoch: w.map.epoch, tid: tries.tid + 100, ..tries.clone() }).remove(0).result, -ENOSPC);
    let mut remove = w.request("a", vec![InOp::new(OsdOp::new(OpCode::DELETE), Bytes::new())]);
    remove.flags |= osd_flag::FULL_TRY;
    assert_eq!(w.send(1, &remove).remove(0).result, 0);
    let mut forced = w.request("c", vec![write_full(b"1")]);
    forced.flags |= osd_flag::FULL_FORCE;
    assert_eq!(w.send(1, &forced).remove(0).result, 0);
    // There is room again: said as soon as it is noticed.
    w.store.borrow_mut().taken = 0;
    for _ in 0..2 {
        w.feed(Event::Tick);
    }
    let full = wanted(&mut w);
    assert!(full.is_none_or(|s| s & osd_state::FULL != 0), "a refusal holds until there is more room than then: {full:?}");
    w.publish(|_| {});
}

#[test]
fn a_refusal_is_over_when_there_is_more_room_than_then() {
    let mut w = World::new(Kind::Memory, 1);
    let total = w.osd.store().statfs().total;
    w.store.borrow_mut().taken = total / 100 * 60;
    w.store.borrow_mut().refuses = true;
    let m = w.request("a", vec![write_full(&[2; 4096])]);
    assert!(w.send(1, &m).is_empty());
    assert_eq!(wanted(&mut w), Some(osd_state::FULL));
    mark(&mut w, osd_state::FULL);
    w.store.borrow_mut().refuses = false;
    w.feed(Event::Tick);
    assert_eq!(wanted(&mut w), None);
    w.store.borrow_mut().taken = total / 100 * 58;
    for state in [None, None, Some(0)] {
        w.feed(Event::Tick);
        assert_eq!(wanted(&mut w), state);
    }
    mark(&mut w, 0);
    // The client sends again by the map in which its pool is no longer full.
    assert_eq!(w.send(1, &MOSDOp { map_epoch: w.map.epoch, ..m }).remove(0).result, 0);
    assert_eq!(w.read("a").unwrap(), [2; 4096]);
}
