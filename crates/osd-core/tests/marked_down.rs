//! An OSD that the map says is down while it lives: it comes back when others answer it, and not before.

mod world;

use maps::osd_state;
use messages::osd_ping::ping_op;
use messages::{MOSDBoot, MOSDFailure, MOSDPing, Message, RawMessage};
use osd_core::{ConnId, Effect, Event, HbNet, Peer};
use types::{EntityAddrVec, EntityName, UTime, features};
use world::{Kind, World, addr};

const NETS: [HbNet; 2] = [HbNet::Front, HbNet::Back];

/// Two more OSDs are up in the map.
fn three() -> World {
    let mut w = World::new(Kind::Memory, 1);
    w.publish(|m| {
        m.set_max_osd(3);
        for osd in [1, 2] {
            m.osd_state[osd] = osd_state::EXISTS | osd_state::UP;
            m.osd_info[osd].up_from = m.epoch;
            let at = |port: u16| EntityAddrVec::one(addr(port + 10 * osd as u16, 5));
            (m.client_addrs[osd], m.cluster_addrs[osd]) = (at(6800), at(6801));
            (m.hb_front_addrs[osd], m.hb_back_addrs[osd]) = (at(6802), at(6803));
        }
    });
    for osd in [1_u64, 2] {
        let peer = Peer {
            name: EntityName::osd(osd as i64),
            entity: format!("osd.{osd}"),
            global_id: 100 + osd,
            features: features::SUPPORTED,
            supported: features::SUPPORTED,
            addr: addr(6810, 5),
            cap: None,
        };
        w.feed(Event::Connected { conn: ConnId(50 + osd), peer });
    }
    w
}
fn mark_down(w: &mut World) {
    w.out.clear();
    w.publish(|m| m.osd_state[0] &= !osd_state::UP);
}
fn pings(w: &mut World) -> Vec<MOSDPing> {
    let mut found = Vec::new();
    w.out.retain(|e| match e {
        Effect::SendHeartbeat { msg, .. } => {
            found.push(MOSDPing::decode(msg).unwrap());
            false
        }
        _ => true,
    });
    found
}
fn pong(osd: u64, net: HbNet, ping: &MOSDPing) -> Event {
    let reply = MOSDPing { op: ping_op::PING_REPLY, ping_stamp: UTime::ZERO, ..ping.clone() };
    let msg: RawMessage = reply.encode(features::SUPPORTED);
    Event::Heartbeat { conn: ConnId(50 + osd), net, msg }
}
fn asks_to_boot(w: &World) -> bool {
    w.out.iter().any(|e| matches!(e, Effect::AskMapVersions))
}
fn seconds(w: &mut World, count: u64) {
    for _ in 0..count {
        w.now_s += 1;
        w.feed(Event::Tick);
    }
}

#[test]
fn who_hears_others_comes_back() {
    let mut w = three();
    mark_down(&mut w);
    // Both are asked on both networks at once. Nothing that was heard before counts.
    let asked = pings(&mut w);
    assert_eq!(asked.len(), 4);
    assert!(!asks_to_boot(&w) && !w.osd.is_up());
    w.now_s += 1;
    w.feed(pong(2, HbNet::Front, &asked[0]));
    assert!(!asks_to_boot(&w), "one network is not both");
    w.feed(pong(2, HbNet::Back, &asked[0]));
    assert!(asks_to_boot(&w), "one of two is more than a third");
}

#[test]
fn who_hears_nobody_stays_away_and_reports_nobody() {
    let mut w = three();
    mark_down(&mut w);
    seconds(&mut w, 300);
    assert!(!asks_to_boot(&w) && w.sent_to_mon::<MOSDBoot>().is_empty());
    assert!(w.sent_to_mon::<MOSDFailure>().is_empty());
    let asked = pings(&mut w);
    assert!(asked.len() > 100, "{} pings", asked.len());
    // The others turn out to be dead: nobody is left to hear us.
    w.publish(|m| m.osd_state[1] &= !osd_state::UP);
    w.publish(|m| m.osd_state[2] &= !osd_state::UP);
    seconds(&mut w, 10);
    assert!(asks_to_boot(&w));
    // And not for ever.
    let mut w = three();
    mark_down(&mut w);
    seconds(&mut w, 599);
    assert!(!asks_to_boot(&w));
    seconds(&mut w, 3);
    assert!(asks_to_boot(&w));
}

#[test]
fn who_is_marked_down_again_and_again_ends() {
    let mut w = three();
    let ends = |w: &World| w.out.iter().any(|e| matches!(e, Effect::Stop { why: None }));
    for time in 0..6 {
        mark_down(&mut w);
        assert_eq!(ends(&w), time == 5, "{time}");
        if time == 5 {
            return;
        }
        let asked = pings(&mut w);
        w.now_s += 1;
        NETS.into_iter().for_each(|net| w.feed(pong(1, net, &asked[0])));
        assert!(asks_to_boot(&w));
        w.feed(Event::MapVersions { oldest: 1, newest: w.map.epoch });
        w.answer_purged_snaps();
        w.feed(Event::MapVersions { oldest: 1, newest: w.map.epoch });
        assert_eq!(w.sent_to_mon::<MOSDBoot>().len(), 1);
        w.publish(|m| {
            m.osd_state[0] |= osd_state::UP;
            m.osd_info[0].up_from = m.epoch;
        });
        assert!(w.osd.is_up());
    }
}
