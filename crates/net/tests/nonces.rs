//! CVE-2020-1759: in secure mode no nonce is used twice under a key, over 10,000 connections of one client with one ticket, core against
//! core. Half of them are new sessions, half are one session that is cut and comes back.
//!
//! Seen from outside: the first block of the same frame, encrypted. With a key and nonce that were used before it would be the same again.

use base::Rng;
use bytes::{Bytes, BytesMut};
use cephx::rotating::TicketLife;
use cephx::{AuthDb, ClientAuth, CryptoKey, EntityAuth, Identity, KeyType, RotatingSecrets, RotatingTable, ServerSession, mode};
use messages::RawMessage;
use msgr::{ConMode, Connection, Decision, Local, Policy, State, Up};
use net::auth_cephx::{Dialer, ServiceAuth, now};
use net::modes::Modes;
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use types::{AddrType, EntityAddr, EntityKind, EntityText};

struct Db(EntityAuth, RotatingTable);
impl AuthDb for Db {
    fn entity(&self, _: &EntityText) -> Option<&EntityAuth> {
        Some(&self.0)
    }
    fn rotating(&self, service: u32) -> Option<&RotatingSecrets> {
        self.1.services.get(&service)
    }
}

fn addr(port: u16) -> EntityAddr {
    EntityAddr::parse(&format!("127.0.0.1:{port}/{port}"), AddrType::MSGR2).unwrap()
}

/// A client with a ticket, and the OSD's side that takes it.
fn both(kind: KeyType) -> (Rc<Local>, Rc<Local>) {
    let rng = &mut Rng::new(1);
    let caps = [("mon", "allow r"), ("osd", "allow *")].map(|(k, v)| (k.to_string(), v.to_string()));
    let mut db = Db(
        EntityAuth { key: CryptoKey::generate_of(kind, now(), rng), caps: caps.into(), ..EntityAuth::default() },
        RotatingTable::default(),
    );
    db.1.rotate(now(), &TicketLife::default(), |_| kind, rng);
    let name = EntityText::parse("osd.1").unwrap();
    let mut auth = ClientAuth::new(name.clone(), db.0.key.clone(), &[EntityKind::OSD]);
    auth.login();
    let (mut session, challenge) = ServerSession::start(name, 77, true, rng);
    let answer = auth.handle_challenge(&challenge, now(), rng).unwrap();
    let reply = session.handle(&db, &answer, Some(0), now(), rng).unwrap();
    auth.handle_done(77, &reply.payload, now()).unwrap();

    let mut dialer = Dialer::new(Rc::new(RefCell::new(Identity::Cephx(auth))));
    dialer.modes = Modes::all(&[ConMode::SECURE]).shared();
    let client = Local::new(EntityKind::OSD, 1, addr(1).into(), Rc::new(dialer.clone()), 2);
    let mut server = Local::new(EntityKind::OSD, 2, addr(2).into(), Rc::new(dialer), 3);
    server.accept_policy = |_| Policy::lossless_peer();
    server.auth_server = Some(Rc::new(ServiceAuth {
        kind: EntityKind::OSD,
        cluster_methods: vec![mode::METHOD_CEPHX],
        client_methods: vec![mode::METHOD_CEPHX],
        modes: Modes::all(&[ConMode::SECURE]).shared(),
        secrets: Rc::new(RefCell::new(db.1.services[&4].clone())),
        missing: Rc::default(),
    }));
    (Rc::new(client), Rc::new(server))
}

/// Carries bytes until there are none left. `old` is the session that the accepting side has of before; it goes on in `b`.
fn settle(a: &mut Connection, b: &mut Connection, old: &mut Option<Connection>) {
    let (mut buf_a, mut buf_b) = (BytesMut::new(), BytesMut::new());
    loop {
        let (to_b, to_a) = (a.out().take_flat(), b.out().take_flat());
        if to_a.is_empty() && to_b.is_empty() {
            return;
        }
        buf_b.extend_from_slice(&to_b);
        while let Some(up) = b.next(&mut buf_b).unwrap() {
            if matches!(up, Up::Identified) {
                match b.decide(old.as_mut()).unwrap() {
                    Decision::Proceed => {}
                    Decision::TakeOver => *b = old.take().unwrap(),
                    other => panic!("{other:?}"),
                }
            }
        }
        buf_a.extend_from_slice(&to_a);
        while a.next(&mut buf_a).unwrap().is_some() {}
    }
}

/// A message of one size each way; their first blocks are new.
fn say(a: &mut Connection, b: &mut Connection, seen: &mut HashSet<Vec<u8>>) {
    let message = || RawMessage { kind: 42, front: Bytes::from_static(&[7; 100]), ..RawMessage::default() };
    for n in 0..2 {
        let (from, to) = if n == 0 { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
        assert_eq!(from.state(), State::Ready);
        from.send(message());
        let frame = from.out().take_flat();
        assert!(seen.insert(frame[..16].to_vec()), "a block was encrypted with a nonce that was used before");
        let mut buf = BytesMut::from(&frame[..]);
        assert!(matches!(to.next(&mut buf), Ok(Some(Up::Message(_)))));
        to.ack(true);
        let ack = to.out().take_flat();
        assert!(seen.insert(ack[..16].to_vec()), "an acknowledgement was encrypted with a nonce that was used before");
        let mut buf = BytesMut::from(&ack[..]);
        while from.next(&mut buf).unwrap().is_some() {}
    }
}

fn many_connections(kind: KeyType, rounds: usize) {
    let (client, server) = both(kind);
    let mut seen = HashSet::new();
    // New sessions.
    for _ in 0..rounds {
        let mut a = Connection::dial(client.clone(), Policy::lossless_peer(), EntityKind::OSD, addr(2).into());
        a.start();
        let mut b = Connection::accept(server.clone(), addr(1));
        settle(&mut a, &mut b, &mut None);
        say(&mut a, &mut b, &mut seen);
    }
    // One session, cut each time.
    let mut a = Connection::dial(client, Policy::lossless_peer(), EntityKind::OSD, addr(2).into());
    a.start();
    let mut b = Connection::accept(server.clone(), addr(1));
    settle(&mut a, &mut b, &mut None);
    for _ in 0..rounds {
        a.fault();
        b.fault();
        a.wake();
        a.start();
        let mut old = Some(std::mem::replace(&mut b, Connection::accept(server.clone(), addr(1))));
        settle(&mut a, &mut b, &mut old);
        assert!(old.is_none(), "the session came back");
        say(&mut a, &mut b, &mut seen);
    }
    assert_eq!(seen.len(), rounds * 8);
}

#[test]
fn no_nonce_repeats_over_many_connections() {
    many_connections(KeyType::AES, 5000);
}
#[test]
fn nor_with_the_newer_keys() {
    many_connections(KeyType::AES256K, 500);
}
