//! Memory disks: order, faults, and crash states whose possible outcomes are counted by hand.

use super::*;
use crate::{CrashStates, DiskError, Event, Tear};

fn buf(byte: u8, blocks: usize) -> Vec<Bytes> {
    vec![AlignedBuf::padded(&vec![byte; blocks * BLOCK_BYTES]).freeze()]
}
fn poll(disks: &mut MemDisks) -> Vec<Completion> {
    let mut out = Vec::new();
    disks.poll(&mut out);
    out
}
fn first_byte(disks: &mut MemDisks, dev: Dev, block: u64) -> u8 {
    disks.read(99, dev, block * 4096, 4096);
    disks.kick();
    let mut done = poll(disks);
    done.pop().expect("a completion").result.expect("a read").expect("bytes")[0]
}
const D: Dev = Dev(0);
const E: Dev = Dev(1);

#[test]
fn what_was_written_is_read() {
    let mut disks = MemDisks::new(&[1 << 20, 1 << 30]);
    disks.write(1, E, 8192, buf(7, 2), Durability::Volatile);
    assert!(poll(&mut disks).is_empty() && disks.in_flight() == 1, "nothing happens before the kick");
    disks.kick();
    assert_eq!(poll(&mut disks)[0].token, 1);
    assert_eq!([1, 2, 3, 4].map(|b| first_byte(&mut disks, E, b)), [0, 7, 7, 0]);
    assert_eq!(first_byte(&mut disks, D, 2), 0);
    assert_eq!(disks.traffic(E).written_bytes, 8192);
    let copy = disks.copy();
    copy.damage(E, 8192, |b| b[0] = 8);
    assert_eq!((first_byte(&mut copy.clone(), E, 2), first_byte(&mut disks, E, 2)), (8, 7));
}

#[test]
fn completions_come_when_the_test_says() {
    let mut disks = MemDisks::new(&[1 << 20]);
    disks.set_order(Order::Held, 0);
    (0..3).for_each(|n| disks.write(n, D, n * 4096, buf(1, 1), Durability::Volatile));
    disks.kick();
    assert!(poll(&mut disks).is_empty());
    disks.complete(1);
    assert_eq!(poll(&mut disks)[0].token, 0);
    disks.wait();
    assert_eq!(poll(&mut disks)[0].token, 1);
    disks.set_order(Order::Shuffled, 5);
    let more: usize = (0..50).map(|_| poll(&mut disks).len()).sum();
    assert_eq!((more, disks.in_flight()), (1, 0));
}

#[test]
fn a_bad_block_fails_reads_until_it_is_written_or_comes_back() {
    let mut disks = MemDisks::new(&[1 << 20]);
    let read = |disks: &mut MemDisks, block: u64, blocks: usize| {
        disks.read(1, D, block * 4096, blocks * 4096);
        disks.kick();
        poll(disks).pop().expect("a completion").result
    };
    disks.write(0, D, 8192, buf(7, 4), Durability::Volatile);
    disks.kick();
    poll(&mut disks);
    assert_eq!(disks.written(D), [2, 3, 4, 5]);
    disks.make_bad(D, 3, u32::MAX);
    disks.make_bad(D, 5, 2);
    for blocks in [(3, 1), (2, 3), (0, 6), (5, 1)] {
        assert!(matches!(read(&mut disks, blocks.0, blocks.1), Err(DiskError::Read { errno: 5, .. })), "{blocks:?}");
    }
    assert_eq!(read(&mut disks, 5, 1).expect("it is back").expect("bytes")[0], 7);
    assert!(read(&mut disks, 2, 1).is_ok() && read(&mut disks, 4, 1).is_ok());
    let mut other = disks.copy();
    assert!(read(&mut other, 3, 1).is_ok());
    other.go_on_from(&disks);
    assert!(read(&mut other, 3, 1).is_err());
    disks.write(0, D, 3 * 4096, buf(8, 1), Durability::Volatile);
    disks.kick();
    poll(&mut disks);
    assert_eq!(read(&mut disks, 3, 1).expect("it was written").expect("bytes")[0], 8);
}

#[test]
#[should_panic(expected = "under way together")]
fn two_writes_to_a_block_at_once_are_a_mistake() {
    let mut disks = MemDisks::new(&[1 << 20]);
    disks.write(1, D, 0, buf(1, 2), Durability::Volatile);
    disks.write(2, D, 4096, buf(1, 1), Durability::Volatile);
}

#[test]
fn faults_strike_where_they_fit() {
    let mut disks = MemDisks::new(&[1 << 20]);
    disks.add_fault(Fault { nth: 1, kind: FaultKind::NoSpace, sticky: false, dev: None });
    disks.add_fault(Fault { nth: 0, kind: FaultKind::FlushError, sticky: true, dev: None });
    disks.add_fault(Fault { nth: 4, kind: FaultKind::FlipRead, sticky: false, dev: None });
    disks.write(0, D, 0, buf(1, 1), Durability::Volatile);
    disks.read(1, D, 0, 4096);
    disks.write(2, D, 4096, buf(1, 1), Durability::Volatile);
    disks.flush(3, D);
    disks.read(4, D, 0, 4096);
    disks.flush(5, D);
    disks.kick();
    let results: Vec<_> =
        poll(&mut disks).into_iter().map(|c| c.result.map(|b| b.map_or(0, |b| b.iter().filter(|x| **x != 1).count()))).collect();
    let flush = Err(DiskError::Flush { dev: D, errno: 5 });
    assert_eq!(results[..3], [Ok(0), Ok(0), Err(DiskError::NoSpace { dev: D, offset: 4096, len_bytes: 4096 })]);
    assert_eq!(results[3..], [flush.clone(), Ok(1), flush]);
    assert_eq!(disks.faults_fired(), 4);
}

/// The first bytes of these blocks in many states of the recording's last moment.
fn outcomes(disks: &MemDisks, tear: Tear, blocks: &[(Dev, u64)]) -> std::collections::BTreeSet<Vec<u8>> {
    let recording = disks.take_recording();
    let mut states = CrashStates::new(&recording);
    while states.step().is_some() {}
    let mut rng = Rng::new(1);
    (0..400)
        .map(|_| {
            let mut state = states.state(&mut rng, tear);
            blocks.iter().map(|(dev, block)| first_byte(&mut state, *dev, *block)).collect()
        })
        .collect()
}

#[test]
fn what_is_certain_and_what_is_open() {
    let mut disks = MemDisks::new(&[1 << 20, 1 << 20]);
    let mut write = |n, dev, block: u64, durability| {
        disks.write(n as u64, dev, block * 4096, buf(n, 1), durability);
        disks.kick();
    };
    write(9, D, 1, Durability::Volatile);
    let disks = &mut disks;
    disks.record();
    let mut write = |n: u8, dev, block: u64, durability| {
        disks.write(n as u64, dev, block * 4096, buf(n, 1), durability);
        disks.kick();
    };
    write(1, D, 0, Durability::Volatile); // flushed below
    write(2, E, 0, Durability::Volatile); // another device's flush says nothing
    write(3, E, 1, Durability::Durable); // certain by itself
    disks.flush(50, D);
    disks.kick();
    let mut write = |n: u8, dev, block: u64, durability| {
        disks.write(n as u64, dev, block * 4096, buf(n, 1), durability);
        disks.kick();
    };
    write(4, D, 1, Durability::Volatile); // open over what was there
    write(5, D, 2, Durability::Volatile);
    write(6, D, 2, Durability::Durable); // replaces the open one for good
    let all = [(D, 0), (E, 0), (E, 1), (D, 1), (D, 2)];
    let mut expected = std::collections::BTreeSet::new();
    for e0 in [0, 2] {
        for d1 in [9, 4] {
            expected.insert(vec![1, e0, 3, d1, 6]);
        }
    }
    assert_eq!(outcomes(disks, Tear::Never, &all), expected);
}

#[test]
fn a_flush_covers_what_completed_before_it_was_queued() {
    let mut disks = MemDisks::new(&[1 << 20]);
    disks.set_order(Order::Held, 0);
    disks.record();
    disks.write(1, D, 0, buf(1, 1), Durability::Volatile);
    disks.kick();
    disks.flush(2, D);
    disks.kick();
    disks.complete(2);
    assert_eq!(outcomes(&disks, Tear::Never, &[(D, 0)]).len(), 2, "the write was still under way when the flush was queued");
}

#[test]
fn what_a_failed_flush_should_have_covered_stays_open() {
    let mut disks = MemDisks::new(&[1 << 20]);
    disks.add_fault(Fault { nth: 0, kind: FaultKind::FlushError, sticky: false, dev: None });
    disks.record();
    disks.write(1, D, 0, buf(1, 1), Durability::Volatile);
    disks.kick();
    for n in 2..4 {
        disks.flush(n, D);
        disks.kick();
    }
    disks.note(17);
    assert_eq!(outcomes(&disks.clone(), Tear::Never, &[(D, 0)]).len(), 2);
    disks.record();
    disks.note(17);
    assert_eq!(disks.take_recording().events(), [Event::Note(17)]);
}

#[test]
fn writes_are_torn() {
    for (tear, most_parts) in [(Tear::Never, 2), (Tear::Blocks, 4), (Tear::Sectors, 4)] {
        let mut disks = MemDisks::new(&[1 << 20]);
        disks.record();
        disks.write(1, D, 0, buf(1, 2), Durability::Volatile);
        disks.kick();
        assert_eq!(outcomes(&disks, tear, &[(D, 0), (D, 1)]).len(), most_parts, "{tear:?}");
    }
    let mut disks = MemDisks::new(&[1 << 20]);
    disks.record();
    disks.write(1, D, 0, buf(1, 1), Durability::Volatile);
    disks.kick();
    let recording = disks.take_recording();
    let mut states = CrashStates::new(&recording);
    while states.step().is_some() {}
    let mut rng = Rng::new(3);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20_000 {
        let image = states.state(&mut rng, Tear::Sectors).image();
        let ones = |s: usize| image.block(D, 0).is_some_and(|b| b[s * 512..][..512].iter().all(|x| *x == 1));
        seen.insert((0..8).fold(0_u8, |bits, s| bits | ((ones(s) as u8) << s)));
    }
    assert_eq!(seen.len(), 256, "every set of sectors");
}

/// A recording of the end forgets settled writes, and its last moment has the states of a whole recording's.
#[test]
fn a_recording_of_the_end_has_the_end_of_a_whole_one() {
    const BLOCKS: u64 = 16;
    for seed in 0..50 {
        let [mut whole, mut end] = [0; 2].map(|_| MemDisks::new(&[BLOCKS << 12, BLOCKS << 12]));
        whole.record();
        end.record_as(|base| Recording::of_the_end(base, 20 * BLOCK_BYTES as u64));
        for disks in [&mut whole, &mut end] {
            disks.set_order(Order::Shuffled, seed);
            let mut rng = Rng::new(seed);
            for token in 0..200 {
                let (dev, block) = (Dev(rng.below(2) as u8), rng.below(BLOCKS - 2));
                match rng.below(8) {
                    0 => disks.flush(token, dev),
                    n => {
                        // Two writes to a block are not under way together.
                        while disks.in_flight() > 0 {
                            disks.poll(&mut Vec::new());
                        }
                        let durability = if n == 1 { Durability::Durable } else { Durability::Volatile };
                        disks.write(token, dev, block * 4096, buf(token as u8, 1 + rng.below(3) as usize), durability);
                    }
                }
                disks.kick();
            }
        }
        let [whole, end] = [whole, end].map(|disks| disks.take_recording());
        assert!(end.events().len() < whole.events().len() / 4, "{} of {}", end.events().len(), whole.events().len());
        let states = [&whole, &end].map(|recording| {
            let mut states = CrashStates::new(recording);
            while states.step().is_some() {}
            let made = (0..20).map(|n| states.state(&mut Rng::new(n), Tear::Sectors));
            let bytes =
                made.map(|mut state| [D, E].map(|dev| (0..BLOCKS).map(|block| first_byte(&mut state, dev, block)).collect::<Vec<_>>()));
            (states.open_writes(), bytes.collect::<Vec<_>>())
        });
        assert_eq!(states[0], states[1], "seed {seed}");
        assert!(states[0].0 > 0, "something is open");
    }
}

#[test]
fn a_discard_may_be_undone_and_takes_nothing_that_is_written_later() {
    let mut disks = MemDisks::new(&[1 << 20]);
    disks.write(1, D, 0, buf(1, 3), Durability::Durable);
    disks.kick();
    disks.record();
    disks.discard(2, D, 0, 2 * BLOCK_BYTES);
    disks.kick();
    disks.write(3, D, 4096, buf(3, 1), Durability::Durable);
    disks.kick();
    let traffic = disks.traffic(D);
    assert_eq!((traffic.writes, traffic.discards, traffic.discarded_bytes), (2, 1, 2 * 4096));
    let garbage = first_byte(&mut disks, D, 0);
    assert_ne!(garbage, 1);
    let expected = std::collections::BTreeSet::from([vec![1, 3, 1], vec![garbage, 3, 1]]);
    assert_eq!(outcomes(&disks, Tear::Never, &[(D, 0), (D, 1), (D, 2)]), expected);
}
