//! Damaged frames in every state of a connection, both ways: an error or a wait for more, no panic, and memory in proportion.

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;

use base::Rng;
use bytes::{Bytes, BytesMut};
use messages::RawMessage;
use msgr::{AuthNone, AuthNoneClient, Connection, Header, Local, Policy, Preamble, Tag, Up, Writer};
use std::rc::Rc;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText};

fn addr(n: u16) -> EntityAddr {
    EntityAddr::parse(&format!("v2:127.0.0.1:{n}/{n}"), AddrType::MSGR2).unwrap()
}

fn local(kind: EntityKind, n: u16) -> Local {
    let clients = AuthNoneClient { name: EntityText::new(kind, "a"), global_id: Rc::default() };
    let mut local = Local::new(kind, n.into(), EntityAddrVec::one(addr(n)), Rc::new(clients), n.into());
    local.auth_server = Some(Rc::new(AuthNone { next_global_id: Some(Rc::new(|| 4242)) }));
    local.accept_policy = |_| Policy::lossless_peer();
    local
}

/// Takes all that is in `buf`.
fn drain(c: &mut Connection, buf: &mut BytesMut) -> Result<(), msgr::MsgrError> {
    while let Some(up) = c.next(buf)? {
        if matches!(up, Up::Identified) {
            c.decide(None)?;
        }
    }
    Ok(())
}

struct End {
    conn: Connection,
    buf: BytesMut,
}

/// Two ends after `n` exchanges: each `n` is another state.
fn ends(n: u64) -> [End; 2] {
    let mut dialled =
        Connection::dial(Rc::new(local(EntityKind::OSD, 1)), Policy::lossless_peer(), EntityKind::OSD, EntityAddrVec::one(addr(2)));
    dialled.start();
    let accepted = Connection::accept(Rc::new(local(EntityKind::OSD, 2)), addr(1));
    let mut ends = [dialled, accepted].map(|conn| End { conn, buf: BytesMut::new() });
    for _ in 0..n {
        let [a, b] = &mut ends;
        let (to_b, to_a) = (a.conn.out().take_flat(), b.conn.out().take_flat());
        a.buf.extend_from_slice(&to_a);
        b.buf.extend_from_slice(&to_b);
        drain(&mut a.conn, &mut a.buf).unwrap();
        drain(&mut b.conn, &mut b.buf).unwrap();
    }
    ends
}

fn message(rng: &mut Rng) -> RawMessage {
    let mut piece = |max: u64| Bytes::from(vec![7; rng.below(max) as usize]);
    RawMessage { kind: 42, version: 8, compat: 3, front: piece(200), middle: piece(9), data: vec![piece(600)], ..Default::default() }
}

/// A frame whose crcs are right around a damaged payload: what was sent, taken apart and packed again.
fn repacked(rng: &mut Rng, sent: &[u8]) -> Option<Vec<u8>> {
    let preamble = Preamble::decode(sent.get(..32)?.try_into().ok()?).ok()?;
    let payload = sent.get(32..32 + preamble.lens[0] as usize)?;
    let tag = if rng.chance(1, 4) { *fuzzing::pick(rng, Tag::ALL) } else { preamble.tag };
    let mut w = Writer::default();
    if tag == Tag::Message {
        let header = Header { seq: rng.below(4), kind: 42, ..Header::default() };
        w.message(&header, &message(rng)).ok()?;
    } else {
        w.control(tag, &fuzzing::damaged(rng, payload, sent)).ok()?;
    }
    Some(w.queue.take_flat())
}

#[test]
fn fuzz_frames_in_every_state() {
    let mut refused = 0;
    fuzzing::run("msgr", 4000, |rng| {
        let stage = rng.below(9);
        let mut ends = ends(stage);
        for end in &mut ends {
            end.conn.send(message(rng));
            end.conn.send(message(rng));
        }
        let [a, b] = &mut ends;
        let flights = [b.conn.out().take_flat(), a.conn.out().take_flat()];
        for (end, (sent, other)) in [a, b].into_iter().zip([(&flights[0], &flights[1]), (&flights[1], &flights[0])]) {
            let bad = match rng.below(3) {
                // An honest preamble of a length that no peer sends.
                0 => {
                    let mut bad = sent.clone();
                    let lens = [41, 1, 1, 1].map(|n| if rng.chance(1, 2) { n } else { rng.u64() as u32 >> rng.below(32) });
                    bad.splice(0..0, Preamble::new(*fuzzing::pick(rng, Tag::ALL), lens).encode());
                    bad
                }
                1 => repacked(rng, sent).unwrap_or_else(|| fuzzing::damaged(rng, sent, other)),
                _ => fuzzing::damaged(rng, sent, other),
            };
            end.buf.extend_from_slice(&bad);
            let result = fuzzing::bounded("a connection", bad.len() + 1000, 100, || drain(&mut end.conn, &mut end.buf));
            refused += u64::from(result.is_err());
        }
    });
    assert!(refused > 0);
}
