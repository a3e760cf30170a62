//! Where clients are, as the OSD tells it to people.

use crate::world::{Kind, World, addr, received, write_full};
use denc::Encoder;
use messages::{Framed, MCommand, MCommandReply, MMgrConfigure, MMgrReport, Message};
use osd_core::daemon::Network;
use osd_core::{ConnId, Effect, Event, Peer};
use serde_json::{Value, json};
use types::{EntityName, features};

const CLIENT: u64 = 9;

/// A cluster with a client that says port 0, as librados does; its socket has another.
fn with_a_client() -> World {
    let mut w = World::new(Kind::Memory, 1);
    let peer = Peer {
        name: EntityName::client(CLIENT as i64),
        entity: "client.x".into(),
        global_id: CLIENT,
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr: addr(0, 77),
        from: addr(40_001, 0),
        network: Network::Public,
        cap: None,
    };
    w.feed(Event::Connected { conn: ConnId(CLIENT), peer });
    w
}

/// A manager's query: how many operations there were, by address.
fn by_address() -> Framed {
    let mut e = Encoder::new(features::SUPPORTED);
    e.frame(1, 1, |e| {
        e.varint(1);
        e.frame(1, 1, |e| {
            e.u8(1);
            e.put(&"^(.*)$".to_string());
        });
        e.varint(1);
        e.frame(1, 1, |e| e.u8(0));
    });
    Framed(e.finish())
}

#[test]
fn a_manager_hears_of_a_client_with_the_port_of_its_socket() {
    let mut w = with_a_client();
    let asked = MMgrConfigure { stats_period_s: 5, osd_perf_queries: vec![(by_address(), Vec::new())], ..MMgrConfigure::default() };
    w.feed(Event::MgrConnected);
    w.feed(Event::Mgr(asked.encode(features::SUPPORTED)));
    let write = w.request("a", vec![write_full(b"1")]);
    assert_eq!(w.send(CLIENT, &write).len(), 1);
    w.out.clear();
    w.now_s += 5;
    w.feed(Event::Tick);
    let report = w.out.iter().find_map(|e| match e {
        Effect::SendMgr(msg) if msg.kind == MMgrReport::KIND => MMgrReport::decode(msg).unwrap().metric_report,
        _ => None,
    });
    let told = String::from_utf8_lossy(&report.expect("it reports").0).into_owned();
    assert!(told.contains("127.0.0.1:40001/77"), "{told:?}");
}

/// The list of the slowest names the place, too.
#[test]
fn a_request_that_took_long_is_shown_with_the_port_of_its_socket() {
    let mut w = with_a_client();
    let write = w.request("a", vec![write_full(b"1")]);
    let clock = w.clock();
    w.osd.handle(Event::Message { conn: ConnId(CLIENT), msg: received(&write.encode(features::SUPPORTED)) }, clock, &mut w.out);
    w.go_to_their_groups(clock);
    w.now_s += 1;
    w.turn_end();
    let asked = MCommand { tid: 1, cmd: vec![json!({ "prefix": "dump_historic_ops" }).to_string()], ..MCommand::default() };
    w.feed(Event::Message { conn: ConnId(1), msg: asked.encode(features::SUPPORTED) });
    let shown: Value = serde_json::from_slice(&w.sent::<MCommandReply>(1).remove(0).data).expect("json");
    assert_eq!(shown["ops"][0]["type_data"]["client_info"]["client_addr"], "v2:127.0.0.1:40001/77", "{shown}");
}
