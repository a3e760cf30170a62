//! Maps that come without the ones before them: what the monitor still has is asked for; what it has no more ends the interval.

use crate::world::{Kind, POOL, World, uuid};
use maps::Incremental;
use messages::{MMonGetOSDMap, MOSDBeacon, MOSDMap, Message};
use osd_core::{Effect, Event};
use types::features;

/// The newest map alone, from a monitor whose oldest one is `oldest`.
fn newest_alone(w: &mut World, oldest: u32) {
    let epoch = w.map.epoch;
    let mut m = MOSDMap { fsid: uuid(1), newest: epoch, trim_lower_bound: oldest, ..MOSDMap::default() };
    m.maps.insert(epoch, w.maps[&epoch].clone());
    w.feed(Event::Mon(m.encode(features::SUPPORTED)));
}
/// Two maps that the OSD does not see: the second is as the one before the first.
fn publish_unseen(w: &mut World) {
    for size in [2, 1] {
        w.map.epoch += 1;
        w.map.pools.get_mut(&POOL).unwrap().size = size;
        w.maps.insert(w.map.epoch, w.map.encode_canonical().0);
    }
}

#[test]
fn a_map_that_the_monitor_still_has_is_not_left_out() {
    let mut w = World::new(Kind::Memory, 1);
    let before = w.map.epoch;
    publish_unseen(&mut w);
    w.out.clear();
    newest_alone(&mut w, 1);
    assert_eq!(w.osd.map().epoch, before);
    assert!(w.out.iter().any(|e| matches!(e, Effect::SubscribeMaps { from } if *from == before + 1)), "{:?}", w.out);
    w.send_maps(before + 1);
    assert_eq!(w.osd.map().epoch, w.map.epoch);
    w.settle();
}

/// A change that was made for another map than ours is asked for as a whole, and it alone: no epoch is left out.
#[test]
fn a_change_that_does_not_fit_is_asked_for_as_a_whole() {
    let mut w = World::new(Kind::Memory, 1);
    let before = w.map.epoch;
    publish_unseen(&mut w);
    let inc = |w: &World, epoch| {
        let encode_features = w.map.canonical_features();
        Incremental { epoch, fsid: uuid(1), full_crc: 1, encode_features, ..Incremental::default() }.encode_with(encode_features).0
    };
    let mut m = MOSDMap { fsid: uuid(1), newest: before + 2, trim_lower_bound: 1, ..MOSDMap::default() };
    m.incrementals = (before + 1..=before + 2).map(|epoch| (epoch, inc(&w, epoch))).collect();
    w.out.clear();
    w.feed(Event::Mon(m.encode(features::SUPPORTED)));
    assert_eq!(w.osd.map().epoch, before);
    let asked = w.sent_to_mon::<MMonGetOSDMap>();
    assert_eq!(asked.iter().map(|a| (a.full_first, a.full_last, a.inc_first)).collect::<Vec<_>>(), [(before + 1, before + 1, 0)]);
    assert!(w.out.iter().any(|e| matches!(e, Effect::SubscribeMaps { from } if *from == before + 2)), "{:?}", w.out);
    // The newest as a whole, which comes for another reason, is not taken in its place.
    newest_alone(&mut w, 1);
    assert_eq!(w.osd.map().epoch, before);
    // The whole one comes, with the change beside it that does not fit.
    let whole = |w: &World, epoch: u32| [(epoch, w.maps[&epoch].clone())].into();
    m.maps = whole(&w, before + 1);
    m.incrementals.remove(&(before + 2));
    w.feed(Event::Mon(m.encode(features::SUPPORTED)));
    assert_eq!(w.osd.map().epoch, before + 1);
    (m.maps, m.incrementals) = (whole(&w, before + 2), Default::default());
    w.feed(Event::Mon(m.encode(features::SUPPORTED)));
    assert_eq!(w.osd.map().epoch, before + 2);
    assert!(w.osd.pgs().all(|pg| pg.record().info().history.same_interval_since == before + 2), "the size changed twice");
    w.settle();
}

#[test]
fn maps_that_are_gone_end_the_interval() {
    let mut w = World::new(Kind::Memory, 1);
    publish_unseen(&mut w);
    let epoch = w.map.epoch;
    newest_alone(&mut w, epoch);
    assert_eq!(w.osd.map().epoch, epoch);
    assert!(w.osd.pgs().all(|pg| pg.record().info().history.same_interval_since == epoch));
    w.settle();
}

/// A group that is clean needs no map from before its newest one, however long ago its interval began: the monitor may forget those.
#[test]
fn a_clean_group_holds_no_old_maps_back() {
    let mut w = World::new(Kind::Memory, 2);
    w.settle();
    let needed = |w: &mut World| {
        w.now_s += 301;
        w.feed(Event::Tick);
        w.sent_to_mon::<MOSDBeacon>().pop().expect("a beacon is due").min_last_epoch_clean
    };
    for _ in 0..10 {
        w.publish(|map| map.flags ^= maps::map_flags::NOOUT);
    }
    let epoch = w.map.epoch;
    assert_eq!(needed(&mut w), epoch);
    // It keeps fewer copies than it should: the past from here on may be asked for.
    w.publish(|map| map.pools.get_mut(&POOL).unwrap().size = 2);
    for _ in 0..10 {
        w.publish(|map| map.flags ^= maps::map_flags::NOOUT);
    }
    assert!(needed(&mut w) <= epoch);
}
