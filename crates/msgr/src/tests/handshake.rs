//! Handshakes that succeed, whatever the pieces they arrive in, and those that must not.

use super::*;
use crate::control::Control;

fn all_modes() -> Vec<(Local, Local)> {
    let stateless = |_| Policy::stateless_server();
    vec![
        (none_local(EntityKind::CLIENT, 1), none_local(EntityKind::MON, 2)),
        (keyed_local(EntityKind::CLIENT, 1, ConMode::CRC, stateless), keyed_local(EntityKind::OSD, 2, ConMode::CRC, stateless)),
        (keyed_local(EntityKind::CLIENT, 1, ConMode::SECURE, stateless), keyed_local(EntityKind::OSD, 2, ConMode::SECURE, stateless)),
    ]
}

#[test]
fn opens_in_pieces_of_any_size() {
    for step in (1..200).chain([1000, 1 << 20]) {
        for (client, server) in all_modes() {
            let (mut a, mut b) = pair(client, server, Policy::lossy_client());
            a.send(message(5, 10, 0, &[20]));
            let (ups_a, ups_b) = settle(&mut a, &mut b, step).unwrap();
            assert!(matches!(&ups_a[..], [Up::Ready]), "{ups_a:?}");
            assert!(matches!(&ups_b[..], [Up::Ready, Up::Message(m)] if m.tid == 5), "{ups_b:?}");
            assert_eq!(a.peer().global_id, b.peer().global_id);
            assert_ne!(a.peer().global_id, 0);
            assert_eq!(b.peer().name.kind, EntityKind::CLIENT);
            assert_eq!(a.peer().features, types::features::SUPPORTED);
        }
    }
}

#[test]
fn every_cut_in_two_opens() {
    for (client, server) in all_modes() {
        let (client, server) = (Rc::new(client), Rc::new(server));
        let mut total = 1;
        let mut cut = 0;
        // The server's view: the client's bytes arrive in two parts, cut at each byte in turn.
        while cut < total {
            let target = server.addrs.borrow().clone();
            let mut a = Connection::dial(client.clone(), Policy::lossy_client(), server.kind, target);
            a.start();
            let mut b = Connection::accept(server.clone(), addr(1));
            let (mut buf_a, mut buf_b, mut at) = (BytesMut::new(), BytesMut::new(), 0);
            let (mut ups_a, mut ups_b) = (Vec::new(), Vec::new());
            loop {
                let (to_b, to_a) = (a.out().take_flat(), b.out().take_flat());
                if to_b.is_empty() && to_a.is_empty() {
                    break;
                }
                let split = cut.clamp(at, at + to_b.len()) - at;
                at += to_b.len();
                feed(&mut b, &mut buf_b, &to_b[..split], usize::MAX, &mut ups_b).unwrap();
                feed(&mut b, &mut buf_b, &to_b[split..], usize::MAX, &mut ups_b).unwrap();
                feed(&mut a, &mut buf_a, &to_a, usize::MAX, &mut ups_a).unwrap();
            }
            assert_eq!((a.state(), b.state()), (State::Ready, State::Ready), "cut at {cut}");
            total = at;
            cut += 1;
        }
        assert!(total > 200);
    }
}

#[test]
fn compression_is_asked_for_and_declined() {
    let (mut client, mut server) = (none_local(EntityKind::CLIENT, 1), none_local(EntityKind::MON, 2));
    client.msgr_features |= COMPRESSION;
    server.msgr_features |= COMPRESSION;
    let (mut a, mut b) = pair(client, server, Policy::lossy_client());
    settle(&mut a, &mut b, usize::MAX).unwrap();
    assert_eq!((a.state(), b.state()), (State::Ready, State::Ready));
}

#[test]
fn a_wrong_key_is_a_wrong_signature() {
    let mut client = keyed_local(EntityKind::CLIENT, 1, ConMode::CRC, |_| Policy::stateless_server());
    let name = EntityText::new(EntityKind::CLIENT, "x");
    client.auth_clients = Rc::new(Keyed { mode: ConMode::CRC, key: b"other", rounds: 2, name });
    let server = keyed_local(EntityKind::OSD, 2, ConMode::CRC, |_| Policy::stateless_server());
    let (mut a, mut b) = pair(client, server, Policy::lossy_client());
    assert_eq!(settle(&mut a, &mut b, usize::MAX).unwrap_err(), MsgrError::Signature);
}

#[test]
fn a_method_that_is_not_allowed_is_refused() {
    let server = keyed_local(EntityKind::OSD, 2, ConMode::CRC, |_| Policy::stateless_server());
    let (mut a, mut b) = pair(none_local(EntityKind::CLIENT, 1), server, Policy::lossy_client());
    assert_eq!(settle(&mut a, &mut b, usize::MAX).unwrap_err(), MsgrError::Auth(95));
}

#[test]
fn a_wildcard_address_is_learnt_from_the_server() {
    let client = none_local(EntityKind::CLIENT, 1);
    *client.addrs.borrow_mut() = EntityAddrVec::one(EntityAddr { kind: AddrType::ANY, nonce: 9, ..Default::default() });
    let (mut a, mut b) = pair(client, none_local(EntityKind::MON, 2), Policy::lossy_client());
    settle(&mut a, &mut b, usize::MAX).unwrap();
    assert_eq!(b.peer().addrs.to_string(), "127.0.0.1:0/9");
}

#[test]
fn a_server_at_another_address_is_not_the_one_dialled() {
    let server = none_local(EntityKind::MON, 2);
    let mut a =
        Connection::dial(Rc::new(none_local(EntityKind::CLIENT, 1)), Policy::lossy_client(), EntityKind::MON, EntityAddrVec::one(addr(3)));
    a.start();
    let mut b = Connection::accept(Rc::new(server), addr(1));
    assert_eq!(settle(&mut a, &mut b, usize::MAX).unwrap_err(), MsgrError::NotUs);
}

#[test]
fn msgr1_is_told_apart() {
    let mut b = Connection::accept(Rc::new(none_local(EntityKind::MON, 2)), addr(1));
    assert_eq!(b.next(&mut BytesMut::from(&b"ceph v027"[..])).unwrap_err(), MsgrError::Msgr1);
    let mut b = Connection::accept(Rc::new(none_local(EntityKind::MON, 2)), addr(1));
    assert_eq!(b.next(&mut BytesMut::from(&b"GET /"[..])).unwrap_err(), MsgrError::Banner);
}

#[test]
fn keepalives_are_answered_and_lossy_sessions_have_no_acks() {
    let (mut a, mut b) = pair(none_local(EntityKind::CLIENT, 1), none_local(EntityKind::MON, 2), Policy::lossy_client());
    settle(&mut a, &mut b, usize::MAX).unwrap();
    a.keepalive(12, 34);
    a.send(message(1, 1, 0, &[]));
    settle(&mut a, &mut b, usize::MAX).unwrap();
    assert_eq!(a.last_keepalive_ack(), Some((12, 34)));
    assert!(!b.owes_ack());
    b.ack(true);
    assert!(b.out().is_empty());
    assert_eq!(a.fault(), Fault::Closed);
}

#[test]
fn payloads_come_back() {
    let ident = control::ClientIdent { addrs: EntityAddrVec::one(addr(1)), target: addr(2), num: -1, cookie: 5, ..Default::default() };
    assert_eq!(control::ClientIdent::parse(ident.payload()).unwrap(), ident);
}
