//! An OSD that the map says is down while it lives: it comes back when others answer it, and not before. And the other side: when an OSD says that
//! others are silent.

use crate::cluster::Cluster;
use crate::world::{Kind, World, addr};
use maps::osd_state;
use messages::osd_ping::ping_op;
use messages::{MOSDBoot, MOSDFailure, MOSDPing, Message, RawMessage};
use osd_core::daemon::Network;
use osd_core::{ConnId, Effect, Event, HbNet, Peer};
use std::collections::BTreeSet;
use std::time::Duration;
use types::{EntityAddrVec, EntityName, UTime, features};

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
            from: addr(6810, 5),
            network: Network::HbBack,
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
    // The others turn out to be dead: no OSD is left to hear us.
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
    let mut nonces = BTreeSet::new();
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
        // Each life has addresses of its own for other OSDs.
        let boots = w.sent_to_mon::<MOSDBoot>();
        let [MOSDBoot { cluster_addrs, .. }] = &boots[..] else { panic!("{} boots", boots.len()) };
        assert!(w.out.iter().any(|e| matches!(e, Effect::RenewCluster { addrs } if addrs == cluster_addrs)));
        assert!(nonces.insert(cluster_addrs.front().nonce), "{nonces:?}");
        w.publish(|m| {
            m.osd_state[0] |= osd_state::UP;
            m.osd_info[0].up_from = m.epoch;
        });
        assert!(w.osd.is_up());
    }
}

/// Failures that were reported: of which OSD, after how many seconds.
fn failures(w: &mut World) -> Vec<(i32, i32)> {
    w.sent_to_mon::<MOSDFailure>().iter().map(|m| (m.target_osd, m.failed_for_s)).collect()
}
fn answers(w: &mut World, osd: u64) {
    let asked = pings(w);
    NETS.into_iter().for_each(|net| w.feed(pong(osd, net, asked.last().unwrap())));
}
fn answers_both(w: &mut World) {
    let asked = pings(w);
    for osd in [1, 2] {
        NETS.into_iter().for_each(|net| w.feed(pong(osd, net, asked.last().unwrap())));
    }
}
/// The grace is 7 s; both others have just answered.
fn pinged_each_second() -> World {
    let mut w = three();
    for (name, value) in [("osd_heartbeat_interval", "1"), ("osd_heartbeat_grace", "7")] {
        w.feed(Event::Config { name: name.into(), value: value.into() });
    }
    seconds(&mut w, 2);
    answers_both(&mut w);
    w
}

#[test]
fn a_silent_peer_is_reported_when_the_grace_is_over_and_not_at_the_next_ping() {
    let mut w = pinged_each_second();
    let heard = w.clock().mono;
    // From now on osd.2 alone answers.
    for _ in 0..6 {
        seconds(&mut w, 1);
        answers(&mut w, 2);
        assert_eq!(failures(&mut w), []);
    }
    let due = w.osd.due_at().expect("osd.1 is awaited");
    assert_eq!(due, heard + Duration::from_secs(7) + Duration::from_nanos(1));
    let mut at = w.clock();
    at.mono = due;
    w.osd.handle(Event::Due, at, &mut w.out);
    assert_eq!(failures(&mut w), [(1, 7)]);
    assert!(w.osd.due_at().is_none_or(|at| at > due + Duration::from_secs(5)), "told once between two pings");
    seconds(&mut w, 2);
    assert!(failures(&mut w).contains(&(1, 8)), "and again with pings");
}

#[test]
fn what_stood_still_itself_reports_nothing_that_it_did_not_wait_for() {
    let mut w = pinged_each_second();
    // Stopped for a minute: the first thing that it sees is the clock.
    w.now_s += 60;
    w.feed(Event::Tick);
    assert_eq!(failures(&mut w), []);
    seconds(&mut w, 4);
    assert_eq!(failures(&mut w), []);
    // What stays silent is reported after all.
    seconds(&mut w, 4);
    let told = failures(&mut w);
    assert!(told.iter().any(|f| f.0 == 1) && told.iter().any(|f| f.0 == 2), "{told:?}");
}

/// OSDs that hear no other, were marked down together and come back together: their monitor makes one map of what it is told within a second.
fn without_a_network(osds: usize) -> (Cluster, usize) {
    let mut c = Cluster::new(3, osds, 2, 1, 1);
    for osd in 0..osds {
        for (name, value) in [("osd_heartbeat_interval", "1"), ("osd_heartbeat_grace", "7")] {
            c.feed(osd, Event::Config { name: name.into(), value: value.into() });
        }
    }
    let down = |c: &mut Cluster, which: &BTreeSet<i32>| {
        c.publish(|m| which.iter().for_each(|osd| m.osd_state[*osd as usize] &= !osd_state::UP));
    };
    down(&mut c, &(0..osds as i32).collect());
    let mut times = 0;
    for _ in 0..120 {
        while c.step() {}
        c.tick();
        let failed: BTreeSet<i32> = std::mem::take(&mut c.failures).into_iter().filter(|osd| c.map.is_up(*osd)).collect();
        if !failed.is_empty() {
            times += 1;
            down(&mut c, &failed);
        }
    }
    while c.step() {}
    (c, times)
}

#[test]
fn osds_that_do_not_hear_each_other_are_not_down_together_again_and_again() {
    for osds in [2, 3, 5] {
        let (c, times) = without_a_network(osds);
        let up: Vec<i32> = (0..osds as i32).filter(|osd| c.map.is_up(*osd)).collect();
        assert_eq!((up, times), (vec![0], 1), "of {osds}; {:?}", c.errors);
    }
}
