//! Who may say what to an OSD: kinds, networks and addresses of those that say what OSDs say, and how far another OSD's maps lead.

use crate::world::store::TestStore;
use crate::world::{World, addr, uuid, write_full};
use maps::{Incremental, OsdMap, osd_state};
use messages::osd_peering::PgQuery;
use messages::osd_ping::ping_op;
use messages::{By, MOSDMap, MOSDPGQuery2, MOSDPing, Message, RawMessage, senders};
use osd_core::daemon::Network;
use osd_core::planted::{Bug, plant};
use osd_core::{ConnId, Effect, Event, HbNet, Peer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use types::errno::{EBLOCKLISTED, EPERM};
use types::{EntityAddr, EntityAddrVec, EntityKind, EntityName, Epoch, PgId, ReqId, SpgId, UTime, features};

const CONN: ConnId = ConnId(70);
const NETWORKS: [Network; 2] = [Network::Public, Network::Cluster];

/// A world in which osd.1 is up, on networks that differ.
fn with_peer() -> World {
    let (store, control) = TestStore::new(None);
    control.borrow_mut().journal = Some(Vec::new());
    let mut w = World::with_store(store, control, 1);
    w.publish(|m| {
        m.set_max_osd(3);
        m.osd_state[1] = osd_state::EXISTS | osd_state::UP;
        m.osd_info[1].up_from = m.epoch;
        (m.client_addrs[1], m.cluster_addrs[1]) = (EntityAddrVec::one(public()), two(cluster()));
        (m.hb_front_addrs[1], m.hb_back_addrs[1]) = (EntityAddrVec::one(addr(6812, 5)), EntityAddrVec::one(addr(6813, 5)));
    });
    w
}
fn at(text: &str) -> EntityAddr {
    EntityAddr::parse(text, types::AddrType::MSGR2).unwrap()
}
fn public() -> EntityAddr {
    at("v2:192.168.1.9:6810/5")
}
fn cluster() -> EntityAddr {
    at("v2:10.0.0.9:6811/5")
}
/// As stock daemons have it: beside msgr2's an address of msgr1.
fn two(addr: EntityAddr) -> EntityAddrVec {
    EntityAddrVec(vec![addr, EntityAddr { kind: types::AddrType::LEGACY, ..addr }])
}
fn peer(kind: EntityKind, num: i64, network: Network, addr: EntityAddr) -> Peer {
    Peer {
        name: EntityName { kind, num },
        entity: String::new(),
        global_id: 99,
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr,
        from: addr,
        network,
        cap: None,
    }
}
/// Whether it was looked at what this peer said: a byte that no message consists of.
fn is_heard(w: &mut World, kind: u16, peer: &Peer) -> bool {
    w.out.clear();
    w.feed(Event::Connected { conn: CONN, peer: peer.clone() });
    let msg = RawMessage { kind, version: 1, compat: 1, front: vec![0xff].into(), ..RawMessage::default() };
    match peer.network {
        Network::HbFront => w.feed(Event::Heartbeat { conn: CONN, net: HbNet::Front, msg }),
        Network::HbBack => w.feed(Event::Heartbeat { conn: CONN, net: HbNet::Back, msg }),
        _ => w.feed(Event::Message { conn: CONN, msg }),
    }
    w.feed(Event::Reset { conn: CONN });
    w.out.iter().any(|e| matches!(e, Effect::Log { text, .. } if text.contains("can't be read")))
}
fn kinds_by_their_senders() {
    let mut w = with_peer();
    let mut heard = 0;
    for kind in [EntityKind::CLIENT, EntityKind::OSD, EntityKind::MDS, EntityKind::MGR, EntityKind::MON] {
        for network in Network::ALL {
            let addr = if network == Network::Public { public() } else { cluster() };
            let peer = peer(kind, 1, network, addr);
            // Answers are looked at where their questions are.
            for number in (0..2048).filter(|number| senders(*number).is_some_and(|row| row.osd != By::AskedOsd)) {
                let is_osd = kind == EntityKind::OSD;
                let may = match senders(number).unwrap().osd {
                    By::Capable => number != 42 && NETWORKS.contains(&network),
                    By::PeerOsd => is_osd && network == Network::Cluster,
                    By::MapHolder => is_osd && NETWORKS.contains(&network),
                    By::Pinger => is_osd && !NETWORKS.contains(&network),
                    _ => false,
                };
                // A request is looked at by its own rules.
                if number != 42 {
                    let was = is_heard(&mut w, number, &peer);
                    assert_eq!(was, may, "{} of {} on {network:?}", messages::kind_name(number), peer.name);
                    heard += u32::from(was);
                }
            }
        }
    }
    assert!(heard > 25, "{heard}");
}

/// osd.1 asks of a group that was never here; whether it is answered.
fn is_answered(w: &mut World, from: EntityAddr, epoch: Epoch) -> bool {
    w.out.clear();
    w.feed(Event::Connected { conn: CONN, peer: peer(EntityKind::OSD, 1, Network::Cluster, from) });
    let query = PgQuery { epoch_sent: epoch, ..PgQuery::default() };
    let msg = MOSDPGQuery2 { pgid: SpgId::whole(PgId::new(77, 0)), query };
    w.feed(Event::Message { conn: CONN, msg: msg.encode(features::SUPPORTED) });
    tells_of_it(w)
}
fn tells_of_it(w: &World) -> bool {
    w.out.iter().any(|e| matches!(e, Effect::SendOsd { osd: 1, .. }))
}
fn addresses_are_the_maps() {
    let mut w = with_peer();
    let epoch = w.map.epoch;
    assert!(is_answered(&mut w, cluster(), epoch));
    for other in [public(), at("v2:10.0.0.9:6811/6"), at("v2:10.0.0.8:6811/5"), EntityAddr::default()] {
        assert!(!is_answered(&mut w, other, epoch), "{other}");
    }
    // Its next life is in a map that is on its way.
    let next = at("v2:10.0.0.9:6811/9");
    assert!(!is_answered(&mut w, next, epoch + 1));
    w.publish(|m| m.cluster_addrs[1] = two(next));
    assert!(tells_of_it(&w), "the map has come");
    // And one that calls itself so is in no map.
    let rogue = at("v2:10.0.0.9:6811/10");
    assert!(!is_answered(&mut w, rogue, epoch + 2));
    w.publish(|_| {});
    assert!(!tells_of_it(&w));
}

/// osd.1 sends the maps of these epochs; the OSD's newest map then.
fn led(w: &mut World, m: &MOSDMap, from: EntityAddr) -> Epoch {
    w.out.clear();
    w.feed(Event::Connected { conn: CONN, peer: peer(EntityKind::OSD, 1, Network::Cluster, from) });
    w.feed(Event::Message { conn: CONN, msg: m.encode(features::SUPPORTED) });
    w.osd.map().epoch
}
/// Steps that change nothing, from the OSD's map on.
fn steps(w: &World, count: u32) -> MOSDMap {
    let mut map: OsdMap = (**w.osd.map()).clone();
    let mut m = MOSDMap { fsid: uuid(1), ..MOSDMap::default() };
    for _ in 0..count {
        let encode_features = map.canonical_features();
        let mut inc = Incremental { epoch: map.epoch + 1, fsid: uuid(1), encode_features, ..Incremental::default() };
        map.apply_and_encode(&inc).unwrap();
        inc.full_crc = map.crc;
        m.incrementals.insert(map.epoch, inc.encode_with(encode_features).0);
    }
    m.newest = map.epoch;
    m
}
fn peers_lead_step_by_step() {
    let mut w = with_peer();
    let confirmed = w.map.epoch;
    // A change that is a whole map, of another epoch.
    let mut leap = steps(&w, 1);
    let mut far = (**w.osd.map()).clone();
    far.epoch += 1000;
    let (fullmap, full_crc) = far.encode_canonical();
    let encode_features = far.canonical_features();
    let inc = Incremental { epoch: confirmed + 1, fsid: uuid(1), fullmap, full_crc, encode_features, ..Incremental::default() };
    leap.incrementals.insert(confirmed + 1, inc.encode_with(encode_features).0);
    assert_eq!(led(&mut w, &leap, cluster()), confirmed);
    let asks = |w: &World| w.out.iter().any(|e| matches!(e, Effect::SubscribeMaps { .. }));
    // The review's forgery: the map as it is, a thousand epochs later, and the word that those between are gone.
    let mut jump = MOSDMap { fsid: uuid(1), trim_lower_bound: far.epoch, newest: far.epoch, ..MOSDMap::default() };
    jump.maps.insert(far.epoch, far.encode_canonical().0);
    assert_eq!(led(&mut w, &jump, cluster()), confirmed);
    assert!(asks(&w), "the monitor is asked");
    // From an address that is not osd.1's nothing is taken.
    let some = steps(&w, 3);
    assert_eq!(led(&mut w, &some, at("v2:10.0.0.9:6811/6")), confirmed);
    // Steps are, if each is as its sender says.
    let mut wrong = steps(&w, 3);
    let second = wrong.incrementals.keys().nth(1).copied().unwrap();
    let inc = Incremental {
        epoch: second,
        fsid: uuid(1),
        full_crc: 1,
        encode_features: w.osd.map().canonical_features(),
        ..Incremental::default()
    };
    wrong.incrementals.insert(second, inc.encode_with(inc.encode_features).0);
    assert_eq!(led(&mut w, &wrong, cluster()), confirmed + 1);
    for _ in 0..10 {
        let more = steps(&w, 40);
        if led(&mut w, &more, cluster()) == confirmed + 256 {
            break;
        }
    }
    assert_eq!(w.osd.map().epoch, confirmed + 256, "no further than that beyond the monitor's word");
    assert!(asks(&w));
    // The monitor goes on, and so do peers.
    w.feed(Event::Tick);
    let (epoch, mut map) = (w.osd.map().epoch, (**w.osd.map()).clone());
    map.epoch += 1;
    let mut m = MOSDMap { fsid: uuid(1), newest: map.epoch, trim_lower_bound: 1, ..MOSDMap::default() };
    m.maps.insert(map.epoch, map.encode_canonical().0);
    w.feed(Event::Mon(m.encode(features::SUPPORTED)));
    let more = steps(&w, 2);
    assert_eq!(led(&mut w, &more, cluster()), epoch + 3);
}

/// The OSD goes down, and its store comes up again beside a monitor whose newest map is this.
fn starts_beside(w: &mut World, newest: Epoch) -> Option<String> {
    let (store, control) = TestStore::replay(w.store.borrow().journal.as_ref().unwrap(), None);
    w.osd = osd_core::Osd::new(crate::world::setup(), Box::new(store));
    w.store = control;
    w.out.clear();
    let one = |port| EntityAddrVec::one(addr(port, 50));
    let info = osd_core::BootInfo { public: one(6800), cluster: one(6801), hb_front: one(6802), hb_back: one(6803), metadata: Vec::new() };
    w.feed(Event::Boot(Box::new(info)));
    for _ in 0..8 {
        w.feed(Event::MapVersions { oldest: 1, newest });
        w.now_s += 1;
        w.feed(Event::Tick);
    }
    w.out.iter().find_map(|e| if let Effect::Stop { why } = e { Some(why.clone().expect("it says why")) } else { None })
}
fn there_is_a_way_back() {
    let mut w = with_peer();
    w.write("before", b"1");
    let confirmed = w.map.epoch;
    let future = steps(&w, 30);
    assert_eq!(led(&mut w, &future, cluster()), confirmed + 30);
    let why = starts_beside(&mut w, confirmed).expect("its maps are of a future");
    assert!(why.contains("goes back"), "{why}");
    assert_eq!(starts_beside(&mut w, confirmed), None);
    assert_eq!(w.osd.map().epoch, confirmed, "and nothing of it is left");
    assert!(w.osd.pgs().count() > 0);
    // Nor at the start after that.
    assert_eq!(starts_beside(&mut w, confirmed), None);
    assert_eq!(w.osd.map().epoch, confirmed);
}

fn noticed(bug: Bug, test: fn()) {
    test();
    plant(Some(bug));
    let failed = catch_unwind(AssertUnwindSafe(test)).is_err();
    plant(None);
    assert!(failed, "{bug:?} is not noticed");
}

#[test]
fn what_osds_say_is_taken_of_osds_on_their_own_network() {
    noticed(Bug::BelieveKind, kinds_by_their_senders);
    noticed(Bug::BelieveNetwork, kinds_by_their_senders);
}
#[test]
fn an_osd_is_heard_from_the_address_that_the_map_has_or_will_have() {
    noticed(Bug::BelieveAddress, addresses_are_the_maps);
}
#[test]
fn another_osds_maps_lead_step_by_step_and_not_far() {
    noticed(Bug::FollowPeers, peers_lead_step_by_step);
    noticed(Bug::BelieveAddress, peers_lead_step_by_step);
}
#[test]
fn maps_of_a_future_that_never_came_are_left() {
    noticed(Bug::StayAhead, there_is_a_way_back);
}
#[test]
fn a_monitor_that_lost_what_it_had_named_is_refused() {
    let mut w = with_peer();
    (0..4).for_each(|_| w.publish(|_| {}));
    let newest = w.map.epoch;
    let why = starts_beside(&mut w, newest - 2).expect("it is refused");
    assert!(why.contains("Put the newer monitor's store back"), "{why}");
    // Also after what other OSDs told besides.
    let mut w = with_peer();
    (0..4).for_each(|_| w.publish(|_| {}));
    let (newest, more) = (w.map.epoch, steps(&w, 5));
    led(&mut w, &more, cluster());
    let why = starts_beside(&mut w, newest - 2).expect("it is refused");
    assert!(why.contains("Put the newer monitor's store back"), "{why}");
}
#[test]
fn a_history_of_a_future_that_never_came_is_not_forgotten() {
    let mut w = with_peer();
    let confirmed = w.map.epoch;
    let future = steps(&w, 3);
    led(&mut w, &future, cluster());
    w.map = (**w.osd.map()).clone();
    w.write("after", b"1");
    assert!(starts_beside(&mut w, confirmed).expect("its maps are of a future").contains("goes back"));
    let why = starts_beside(&mut w, confirmed).expect("it can't");
    assert!(why.contains("has a history of epoch"), "{why}");
    // A monitor that has those maps comes, and it boots.
    assert_eq!(starts_beside(&mut w, confirmed + 3), None);
}

/// Each address that an OSD may ping from, on both networks: also that of a messenger that listens nowhere, and that of a life to come.
#[test]
fn pings_are_answered_on_both_networks_wherever_they_come_from() {
    let mut w = with_peer();
    for (net, network) in [(HbNet::Front, Network::HbFront), (HbNet::Back, Network::HbBack)] {
        for from in [public(), cluster(), at("v2:10.0.0.9:0/4711"), at("v2:10.0.0.9:6813/9")] {
            w.out.clear();
            w.feed(Event::Connected { conn: CONN, peer: peer(EntityKind::OSD, 1, network, from) });
            let ping =
                MOSDPing { fsid: uuid(1), map_epoch: w.map.epoch, op: ping_op::PING, ping_stamp: UTime::ZERO, ..MOSDPing::default() };
            w.feed(Event::Heartbeat { conn: CONN, net, msg: ping.encode(features::SUPPORTED) });
            let pongs = w.sent::<MOSDPing>(CONN.0);
            assert!(matches!(&pongs[..], [pong] if pong.op == ping_op::PING_REPLY), "{from} {pongs:?}");
        }
    }
}

fn client(addr: EntityAddr, from: EntityAddr) -> Peer {
    Peer { entity: "client.x".into(), from, ..peer(EntityKind::CLIENT, 4009, Network::Public, addr) }
}
fn networks_are_the_sockets() {
    let mut w = with_peer();
    let (near, far) = (at("v2:10.0.0.7:0/4009"), at("v2:192.168.7.7:0/4009"));
    for (says, from, good) in [(near, near, true), (far, near, true), (near, far, false), (far, far, false)] {
        let cap = cephx::caps::OsdCap::parse("allow rw network 10.0.0.0/8").ok();
        w.feed(Event::Connected { conn: CONN, peer: Peer { cap, ..client(says, from) } });
        let m = w.request("x", vec![write_full(b"1")]);
        let result = w.send(CONN.0, &m)[0].result;
        assert_eq!(result, if good { 0 } else { -EPERM }, "says {says}, comes from {from}");
    }
}
#[test]
fn a_capability_for_a_network_is_good_where_the_socket_comes_from() {
    noticed(Bug::BelieveClaimedNetwork, networks_are_the_sockets);
}
#[test]
fn who_is_blocklisted_gets_nowhere_by_naming_another_address() {
    let mut w = with_peer();
    let (here, other) = (at("v2:10.0.0.7:0/4009"), at("v2:192.168.7.7:0/4009"));
    let until = UTime { sec: u32::MAX, nsec: 0 };
    // The machine, as `ceph osd blocklist add 10.0.0.7` has it.
    w.publish(|m| {
        m.blocklist.insert(EntityAddr { port: 0, nonce: 0, ..here.with_kind(types::AddrType::ANY) }, until);
    });
    for (says, from, good) in [(here, here, false), (other, here, false), (here, other, false), (other, other, true)] {
        w.feed(Event::Connected { conn: CONN, peer: client(says, from) });
        let m = w.request("x", vec![write_full(b"1")]);
        let result = w.send(CONN.0, &m)[0].result;
        assert_eq!(result, if good { 0 } else { -EBLOCKLISTED }, "says {says}, comes from {from}");
    }
}
fn ids_are_ones_own() {
    let mut w = with_peer();
    let of = |kind, num, conn| (peer(kind, num, Network::Public, addr(0, num as u32)), conn);
    let victim = ReqId { name: EntityName::client(4009), tid: 9000, inc: 0 };
    for (n, (peer, conn)) in
        [of(EntityKind::CLIENT, 4010, 71), of(EntityKind::OSD, 1, 72), of(EntityKind::MDS, 0, 73)].into_iter().enumerate()
    {
        let is_client = peer.name.kind == EntityKind::CLIENT;
        w.feed(Event::Connected { conn: ConnId(conn), peer });
        let mut m = w.request(&format!("made{n}"), vec![write_full(b"1")]);
        m.reqid = ReqId { tid: victim.tid + n as u64, ..victim };
        assert_eq!(w.send(conn, &m)[0].result, 0);
        // What the client asks next by that id is done, and not answered from what somebody else asked.
        w.feed(Event::Connected { conn: CONN, peer: client(addr(0, 4009), addr(0, 4009)) });
        let mut m = w.request(&format!("own{n}"), vec![write_full(b"2")]);
        m.tid = victim.tid + n as u64;
        assert_eq!(w.send(CONN.0, &m)[0].result, 0);
        assert_eq!(w.read(&format!("own{n}")).is_ok(), is_client, "an OSD asks for others, and so do metadata servers");
    }
}
#[test]
fn a_client_names_no_requests_of_others() {
    noticed(Bug::BelieveReqid, ids_are_ones_own);
}
