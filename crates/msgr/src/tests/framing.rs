//! Frames of all shapes, in both modes.

use super::*;
use std::io::IoSlice;

const SHAPES: &[(usize, usize, &[usize])] = &[
    (0, 0, &[]),
    (1, 0, &[]),
    (16, 0, &[]),
    (100, 0, &[4096]),
    (0, 0, &[1]),
    (0, 33, &[]),
    (5000, 17, &[3, 4096, 0, 100_000]),
    (0, 0, &[2 << 20]),
];

fn ready(mode: ConMode) -> (Connection, Connection) {
    let (client, server) = (
        keyed_local(EntityKind::CLIENT, 1, mode, |_| Policy::stateless_server()),
        keyed_local(EntityKind::OSD, 2, mode, |_| Policy::stateless_server()),
    );
    let (mut a, mut b) = pair(client, server, Policy::lossy_client());
    settle(&mut a, &mut b, usize::MAX).unwrap();
    assert_eq!((a.state(), b.state(), a.peer().mode), (State::Ready, State::Ready, mode));
    (a, b)
}

#[test]
fn messages_of_all_shapes_arrive_in_both_modes() {
    for mode in [ConMode::CRC, ConMode::SECURE] {
        let (mut a, mut b) = ready(mode);
        for (tid, (front, middle, data)) in SHAPES.iter().enumerate() {
            a.send(message(tid as u64, *front, *middle, data));
        }
        let (_, ups) = settle(&mut a, &mut b, 60_000).unwrap();
        assert_eq!(ups.len(), SHAPES.len());
        for (tid, (up, (front, middle, data))) in ups.iter().zip(SHAPES).enumerate() {
            let Up::Message(got) = up else { panic!("{up:?}") };
            let sent = message(tid as u64, *front, *middle, data);
            assert_eq!((got.tid, &got.front, &got.middle, got.data_flat()), (sent.tid, &sent.front, &sent.middle, sent.data_flat()));
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_in_both_modes() {
    for mode in [ConMode::CRC, ConMode::SECURE] {
        let (mut a, _) = ready(mode);
        a.send(message(1, 20, 5, &[50]));
        let len = a.out().take_flat().len();
        for bit in 0..len * 8 {
            let (mut a, mut b) = ready(mode);
            a.send(message(1, 20, 5, &[50]));
            let mut bytes = a.out().take_flat();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut ups = Vec::new();
            let got = feed(&mut b, &mut BytesMut::new(), &bytes, usize::MAX, &mut ups);
            // The upper half of the late status is reserved; stock sends 0 there and looks at the lower half only.
            let reserved = mode == ConMode::CRC && bit / 8 == len - 13 && bit % 8 >= 4;
            // Unused fields of the epilogue's crcs don't exist here (all three segments are there).
            assert_eq!(got.is_err(), !reserved, "bit {bit} of {len}, {mode:?}: {got:?}");
        }
    }
}

#[test]
fn an_aborted_frame_is_passed_over() {
    let (mut a, mut b) = ready(ConMode::CRC);
    a.send(message(1, 20, 0, &[50]));
    let mut bytes = a.out().take_flat();
    let at = bytes.len() - 13;
    bytes[at] = frame::ABORTED;
    a.send(message(2, 20, 0, &[50]));
    bytes.extend(a.out().take_flat());
    let mut ups = Vec::new();
    feed(&mut b, &mut BytesMut::new(), &bytes, usize::MAX, &mut ups).unwrap();
    assert!(matches!(&ups[..], [Up::Message(m)] if m.tid == 2), "{ups:?}");
}

#[test]
fn the_queue_gives_its_bytes_once_and_in_order() {
    let mut rng = base::Rng::new(3);
    let mut queue = Writer::default();
    let (mut want, mut got) = (Vec::new(), Vec::new());
    for tid in 0..2000 {
        let m = message(tid, rng.below(3000) as usize, 0, &[rng.below(9000) as usize]);
        let header = Header { seq: tid, ..Header::default() };
        let mut alone = Writer::default();
        alone.message(&header, &m).unwrap();
        want.extend(alone.queue.take_flat());
        queue.message(&header, &m).unwrap();
        while !queue.queue.is_empty() && !rng.chance(1, 3) {
            let mut slices = [IoSlice::new(&[]); 5];
            let n = queue.queue.slices(&mut slices);
            let flat: Vec<u8> = slices[..n].iter().flat_map(|s| s.to_vec()).collect();
            let take = 1 + rng.below(flat.len() as u64) as usize;
            got.extend_from_slice(&flat[..take]);
            queue.queue.advance(take);
        }
    }
    got.extend(queue.queue.take_flat());
    assert!(want == got);
}
