//! Maps that another OSD lacks, by the word of its pings, are sent to it: in order, once, and again if they got lost.

use crate::world::{Kind, World, addr, uuid};
use maps::{OsdMap, osd_state};
use messages::osd_ping::ping_op;
use messages::{MOSDMap, MOSDPing, Message};
use osd_core::daemon::Network;
use osd_core::{ConnId, Effect, Event, HbNet, Peer};
use types::{EntityAddrVec, EntityName, Epoch, features};

/// osd.1, which pings on this connection.
const PEER: u64 = 51;

fn with_peer() -> World {
    let mut w = World::new(Kind::Memory, 1);
    w.publish(|m| {
        m.set_max_osd(2);
        m.osd_state[1] = osd_state::EXISTS | osd_state::UP;
        m.osd_info[1].up_from = m.epoch;
        m.cluster_addrs[1] = EntityAddrVec::one(addr(6811, 5));
    });
    let peer = Peer {
        name: EntityName::osd(1),
        entity: "osd.1".into(),
        global_id: 101,
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr: addr(6810, 5),
        from: addr(6810, 5),
        network: Network::HbBack,
        cap: None,
    };
    w.feed(Event::Connected { conn: ConnId(PEER), peer });
    w
}
/// osd.1 pings with this map; the maps that it is sent for that.
fn pinged(w: &mut World, map_epoch: Epoch) -> Vec<MOSDMap> {
    w.out.clear();
    let ping = MOSDPing { fsid: uuid(1), map_epoch, op: ping_op::PING, ..MOSDPing::default() };
    w.feed(Event::Heartbeat { conn: ConnId(PEER), net: HbNet::Back, msg: ping.encode(features::SUPPORTED) });
    let maps = |e: &Effect| match e {
        Effect::SendOsd { osd: 1, addrs, msg } if msg.kind == MOSDMap::KIND => {
            assert_eq!(*addrs, EntityAddrVec::one(addr(6811, 5)));
            Some(MOSDMap::decode(msg).unwrap())
        }
        _ => None,
    };
    w.out.iter().filter_map(maps).collect()
}
fn epochs(sent: &[MOSDMap]) -> Vec<Epoch> {
    sent.iter().flat_map(|m| m.maps.keys().chain(m.incrementals.keys()).copied()).collect()
}
fn nothing(_: &mut OsdMap) {}

#[test]
fn what_its_ping_shows_to_be_lacking_is_sent_once() {
    let mut w = with_peer();
    let has = w.map.epoch;
    assert!(pinged(&mut w, has).is_empty());
    (0..3).for_each(|_| w.publish(nothing));
    assert_eq!(epochs(&pinged(&mut w, has)), [has + 1, has + 2, has + 3]);
    // Its other ping of the same moment, and the next ones while the maps are under way.
    assert!(pinged(&mut w, has).is_empty());
    w.publish(nothing);
    assert_eq!(epochs(&pinged(&mut w, has)), [has + 4]);
    // They got lost with their connection.
    w.now_s += 60;
    assert_eq!(epochs(&pinged(&mut w, has + 1)), [has + 2, has + 3, has + 4]);
    assert!(pinged(&mut w, has + 4).is_empty());
}

#[test]
fn many_maps_come_by_and_by_and_a_gap_is_seen() {
    let mut w = with_peer();
    let has = w.map.epoch;
    (0..45).for_each(|_| w.publish(nothing));
    assert_eq!(epochs(&pinged(&mut w, has)), (has + 1..=has + 40).collect::<Vec<_>>());
    assert_eq!(epochs(&pinged(&mut w, has)), (has + 41..=has + 45).collect::<Vec<_>>());
    // More than are kept: the newest alone, and no word that those between may be left out.
    (0..20).for_each(|_| w.publish(nothing));
    w.now_s += 60;
    let sent = pinged(&mut w, has);
    assert_eq!((epochs(&sent), sent[0].trim_lower_bound), (vec![has + 65], 0));
}

#[test]
fn an_osd_that_is_down_or_has_no_map_is_sent_none() {
    let mut w = with_peer();
    let has = w.map.epoch;
    w.publish(|m| m.osd_state[1] &= !osd_state::UP);
    assert!(pinged(&mut w, has).is_empty());
    w.publish(|m| m.osd_state[1] |= osd_state::UP);
    assert!(pinged(&mut w, 0).is_empty());
    assert_eq!(epochs(&pinged(&mut w, has)), [has + 1, has + 2]);
}
