use super::*;
use messages::SubscribeItem;
use types::{AddrType, EntityAddr, EntityText};

fn addrs(port: u16) -> EntityAddrVec {
    EntityAddr::parse(&format!("v2:127.0.0.1:{port}/0"), AddrType::MSGR2).unwrap().into()
}
fn at(secs: u64) -> Clock {
    Clock { mono: Stamp(secs * 1_000_000_000), wall_ns: (1_800_000_000 + secs) * 1_000_000_000 }
}
fn monc(ports: &[u16]) -> MonClient {
    let identity = Rc::new(RefCell::new(Identity::none(EntityText::parse("client.admin").unwrap())));
    MonClient::new(identity, ports.iter().map(|p| addrs(*p)).collect(), "here".into(), 1)
}
fn dials(out: &mut Vec<Effect>) -> Vec<String> {
    out.drain(..).filter_map(|e| if let Effect::Dial(a) = e { Some(a.to_string()) } else { None }).collect()
}
fn sent(out: &mut Vec<Effect>) -> Vec<RawMessage> {
    out.drain(..).filter_map(|e| if let Effect::Send(m) = e { Some(m) } else { None }).collect()
}
fn monmap() -> RawMessage {
    let mut map = MonMap { fsid: Uuid([7; 16]), epoch: 3, ..MonMap::default() };
    map.add("a", addrs(1));
    MMonMap { monmap: map.to_bytes(features::SUPPORTED) }.encode(features::SUPPORTED)
}

#[test]
fn every_monitor_has_its_turn_and_then_patience_grows() {
    let (mut c, out) = (monc(&[1, 2, 3]), &mut Vec::new());
    c.start(at(0), out);
    c.on_lost(at(0), out);
    c.on_lost(at(0), out);
    let mut tried = dials(out);
    tried.sort();
    assert_eq!(tried, ["v2:127.0.0.1:1/0", "v2:127.0.0.1:2/0", "v2:127.0.0.1:3/0"]);
    // Refused by all at once: no storm.
    c.on_lost(at(0), out);
    assert!(out.is_empty());
    let rng = &mut Rng::new(2);
    c.tick(at(2), None, rng, out);
    assert!(out.is_empty());
    c.tick(at(4), None, rng, out);
    assert_eq!(dials(out).len(), 1);
    c.tick(at(8), None, rng, out);
    assert!(out.is_empty(), "4.5 seconds now");
    c.tick(at(9), None, rng, out);
    assert_eq!(dials(out).len(), 1);
}

#[test]
fn questions_wait_for_the_cluster_and_are_asked_again() {
    let (mut c, out) = (monc(&[1]), &mut Vec::new());
    let rng = &mut Rng::new(2);
    c.start(at(0), out);
    let tid = c.request(Request::Command { cmd: vec!["{}".into()], input: Bytes::new() }, out);
    c.subscribe_to("osdmap", 0, 0, out);
    out.clear();
    c.on_open(at(1), out);
    let messages = sent(out);
    assert_eq!(messages.len(), 1);
    let subscribed = MMonSubscribe::decode(&messages[0]).unwrap();
    assert_eq!(subscribed.what.keys().collect::<Vec<_>>(), ["config", "monmap", "osdmap"]);
    assert_eq!(subscribed.hostname, "here");
    assert!(c.on_message(&monmap(), at(1), rng, out));
    let asked = messages::MMonCommand::decode(&sent(out)[0]).unwrap();
    assert_eq!((asked.tid, asked.fsid), (tid, Uuid([7; 16])));

    // The session is cut: subscriptions go on, the question is asked again, and answered once.
    c.got("osdmap", 17);
    c.on_lost(at(2), out);
    assert_eq!(dials(out), ["v2:127.0.0.1:1/0"]);
    c.on_open(at(3), out);
    let messages = sent(out);
    assert_eq!(MMonSubscribe::decode(&messages[0]).unwrap().what["osdmap"], SubscribeItem { start: 18, flags: 0 });
    assert_eq!(messages::MMonCommand::decode(&messages[1]).unwrap().tid, tid);
    let ack = MMonCommandAck { tid, result: -2, status: "no".into(), ..Default::default() }.encode(0);
    assert!(c.on_message(&ack, at(3), rng, out));
    assert!(matches!(&out[..], [Effect::Answer(Answer::Command { result: -2, .. })]));
    out.clear();
    assert!(!c.on_message(&ack, at(3), rng, out), "not asked any more");
}

#[test]
fn a_silent_monitor_is_left() {
    let (mut c, out) = (monc(&[1]), &mut Vec::new());
    let rng = &mut Rng::new(2);
    c.start(at(0), out);
    c.on_open(at(1), out);
    out.clear();
    c.tick(at(12), None, rng, out);
    assert!(matches!(out[..], [Effect::Keepalive]));
    out.clear();
    c.tick(at(29), Some(at(28).wall_ns), rng, out);
    c.tick(at(57), Some(at(28).wall_ns), rng, out);
    assert!(dials(out).is_empty());
    c.tick(at(60), Some(at(28).wall_ns), rng, out);
    assert_eq!(dials(out).len(), 1);
}
