//! Maps that come without the ones before them: what the monitor still has is asked for; what it has no more ends the interval.

mod world;

use messages::{MOSDMap, Message};
use osd_core::{Effect, Event};
use types::features;
use world::{Kind, POOL, World, uuid};

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

#[test]
fn maps_that_are_gone_end_the_interval() {
    let mut w = World::new(Kind::Memory, 1);
    publish_unseen(&mut w);
    let epoch = w.map.epoch;
    newest_alone(&mut w, epoch);
    assert_eq!(w.osd.map().epoch, epoch);
    assert!(w.osd.pgs().all(|pg| pg.info.history.same_interval_since == epoch));
    w.settle();
}
