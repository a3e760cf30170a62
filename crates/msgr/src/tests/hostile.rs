//! Input that no sane peer would send, in every state: errors, no panic, no memory.

use super::*;
use base::Rng;

/// Both ends after `n` exchanges of a handshake, so that each `n` is another state.
fn at_stage(n: usize, secure: bool) -> (Connection, Connection, BytesMut, BytesMut) {
    let mode = if secure { ConMode::SECURE } else { ConMode::CRC };
    let policy = |_| Policy::lossless_peer();
    let (mut a, mut b) =
        pair(keyed_local(EntityKind::OSD, 1, mode, policy), keyed_local(EntityKind::OSD, 2, mode, policy), Policy::lossless_peer());
    let (mut buf_a, mut buf_b, mut ups) = (BytesMut::new(), BytesMut::new(), Vec::new());
    for _ in 0..n {
        let (to_b, to_a) = (a.out().take_flat(), b.out().take_flat());
        feed(&mut a, &mut buf_a, &to_a, usize::MAX, &mut ups).unwrap();
        feed(&mut b, &mut buf_b, &to_b, usize::MAX, &mut ups).unwrap();
    }
    (a, b, buf_a, buf_b)
}

fn drain(c: &mut Connection, buf: &mut BytesMut) -> Result<(), MsgrError> {
    while let Some(up) = c.next(buf)? {
        if matches!(up, Up::Identified) {
            c.decide(None)?;
        }
    }
    Ok(())
}

#[test]
fn flipped_bits_in_every_state() {
    let mut rng = Rng::new(11);
    for round in 0..3000 {
        let (mut a, mut b, mut buf_a, mut buf_b) = at_stage(round % 9, round % 2 == 0);
        a.send(message(1, 30, 3, &[70]));
        b.send(message(1, 30, 3, &[70]));
        let (to_b, to_a) = (a.out().take_flat(), b.out().take_flat());
        for (mut bytes, c, buf) in [(to_b, &mut b, &mut buf_b), (to_a, &mut a, &mut buf_a)] {
            for _ in 0..1 + rng.below(3) {
                if !bytes.is_empty() {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << rng.below(8);
                }
            }
            buf.extend_from_slice(&bytes);
            let _ = drain(c, buf);
        }
    }
}

/// A frame with a right preamble and right crcs, but anything inside.
fn frame_of(rng: &mut Rng) -> Vec<u8> {
    let tag = Tag::ALL[rng.below(Tag::ALL.len() as u64) as usize];
    let mut random = |max: u64| {
        let mut bytes = vec![0; rng.below(max) as usize];
        rng.fill(&mut bytes);
        if rng.chance(1, 2) {
            bytes.iter_mut().for_each(|b| *b &= 3);
        }
        bytes
    };
    let mut w = Writer::default();
    if tag == Tag::Message {
        let m = RawMessage { front: random(50).into(), middle: random(5).into(), data: vec![random(90).into()], ..Default::default() };
        w.message(&Header { seq: 1, ..Header::default() }, &m).unwrap();
    } else {
        w.control(tag, &random(200)).unwrap();
    }
    w.queue.take_flat()
}

#[test]
fn every_tag_with_anything_inside_in_every_state() {
    let mut rng = Rng::new(12);
    let mut errors = 0;
    for round in 0..6000 {
        let (mut a, mut b, mut buf_a, mut buf_b) = at_stage(round % 9, false);
        for _ in 0..3 {
            let frame = frame_of(&mut rng);
            buf_a.extend_from_slice(&frame);
            buf_b.extend_from_slice(&frame);
        }
        errors += usize::from(drain(&mut a, &mut buf_a).is_err()) + usize::from(drain(&mut b, &mut buf_b).is_err());
    }
    assert!(errors > 6000, "most of it is refused: {errors}");
}

#[test]
fn noise_never_panics() {
    let mut rng = Rng::new(13);
    for round in 0..2000 {
        let (_, mut b, _, mut buf) = at_stage(round % 9, round % 2 == 0);
        let mut noise = vec![0; 200];
        rng.fill(&mut noise);
        buf.extend_from_slice(&noise);
        let _ = drain(&mut b, &mut buf);
    }
}

#[test]
fn lengths_are_bounded_before_anything_is_allocated() {
    let huge = Preamble::new(Tag::Message, [41, u32::MAX, u32::MAX, u32::MAX]).encode();
    let (_, mut b, _, mut buf) = at_stage(9, false);
    assert_eq!(b.state(), State::Ready);
    buf.extend_from_slice(&huge);
    assert!(matches!(drain(&mut b, &mut buf), Err(MsgrError::TooLong { .. })));

    let (_, mut b, _, mut buf) = at_stage(1, false);
    buf.extend_from_slice(&Preamble::new(Tag::AuthRequest, [65 << 10, 0, 0, 0]).encode());
    assert!(matches!(drain(&mut b, &mut buf), Err(MsgrError::TooLong { .. })));

    // A message before the session is no reason to wait for its bytes either.
    let (_, mut b, _, mut buf) = at_stage(1, false);
    buf.extend_from_slice(&Preamble::new(Tag::Message, [41, 1 << 20, 0, 0]).encode());
    assert!(matches!(drain(&mut b, &mut buf), Err(MsgrError::TooLong { .. })));
}
