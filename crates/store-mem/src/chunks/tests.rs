//! What chunks owe their readers, and how much memory of large writes they keep.

use super::*;

#[test]
fn readers_keep_what_they_read() {
    let mut c = Chunks::default();
    c.write(0, &[1; 8192]);
    let old = c.read(0, 8192);
    c.write(4096, &[2; 10]);
    assert!(old.flat().iter().all(|b| *b == 1));
    assert_eq!(c.read(4095, 12).flat()[..], [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
}

#[test]
fn an_overwrite_that_nobody_shares_stays_in_place() {
    let mut c = Chunks::default();
    c.write(0, &[1; CHUNK as usize]);
    let place = c.chunks[0].data.as_ptr();
    c.write(100, &[2; 4096]);
    assert_eq!(c.chunks[0].data.as_ptr(), place);
    assert_eq!(c.read(0, CHUNK).pieces().count(), 1);
    c.write(0, &[3; 4096]);
    assert_eq!(c.chunks[0].data.as_ptr(), place);
}

#[test]
fn zeros_free_what_they_cover() {
    let mut c = Chunks::default();
    c.write(5, &[1; 100_000]);
    c.zero(CHUNK + 7, CHUNK * 2);
    assert_eq!(c.extents(0, u64::MAX).as_slice(), [(5, CHUNK + 2), (CHUNK * 3 + 7, 100_005 - CHUNK * 3 - 7)]);
    c.zero(0, u64::MAX);
    assert!(c.chunks.is_empty() && c.allocated() == 0);
}

/// Bytes of all memory that chunks keep beside their own buffers.
fn kept(c: &Chunks) -> usize {
    c.homes.as_ref().map_or(0, |homes| homes.memory())
}

#[test]
fn a_large_write_stays_where_it_is_while_half_of_it_is_of_use() {
    let (mut c, bytes) = (Chunks::default(), Bytes::from(vec![1; 64 * CHUNK as usize]));
    c.keep(0, &bytes, bytes.len());
    let (all, pieces) = (c.read(0, 64 * CHUNK), c.read(5, 63 * CHUNK).pieces().count());
    assert_eq!((all.pieces().next().unwrap().as_ptr(), pieces), (bytes.as_ptr(), 1));
    // A small write copies its chunk alone, and a reader still has what it read.
    c.write(3 * CHUNK + 7, &[2; 10]);
    assert_eq!((kept(&c), c.allocated(), all.flat()[3 * CHUNK as usize + 7]), (bytes.len(), 64 * CHUNK, 1));
    assert_eq!(c.read(0, 64 * CHUNK).pieces().count(), 3);
    c.zero(32 * CHUNK, 30 * CHUNK);
    assert_eq!((kept(&c), c.allocated()), (bytes.len(), 34 * CHUNK));
    c.zero(30 * CHUNK, CHUNK);
    assert_eq!((kept(&c), c.allocated()), (bytes.len(), 33 * CHUNK));
    c.zero(0, 1);
    assert_eq!((kept(&c), c.allocated()), (0, 33 * CHUNK - 1), "the rest has left");
    drop((all, c.read(0, 1)));
    assert!(bytes.is_unique());
}

#[test]
fn a_little_of_much_memory_is_copied() {
    let (mut c, bytes) = (Chunks::default(), Bytes::from(vec![1; 4 * CHUNK as usize]));
    c.keep(0, &bytes, 9 * CHUNK as usize);
    assert_eq!((kept(&c), c.allocated()), (0, 4 * CHUNK));
    // What is not on the grid is copied where it meets other bytes.
    c.keep(CHUNK / 2, &bytes, bytes.len());
    assert_eq!((kept(&c), c.allocated(), c.chunks.iter().filter(|c| c.home == OWN).count()), (bytes.len(), 4 * CHUNK + CHUNK / 2, 1));
}

#[test]
fn kept_writes_are_as_copied_ones() {
    const LEN: usize = 40 * CHUNK as usize;
    let mut rng = base::Rng::new(11);
    let (mut c, mut model) = (Chunks::default(), vec![0; LEN]);
    let (mut before, mut old) = (c.clone(), model.clone());
    let mut most = 0;
    for step in 0..3000_u32 {
        let at = rng.below(LEN as u64) as usize;
        let cells = if rng.chance(1, 3) { 3 } else { 30 };
        let len = (LEN - at).min(1 + rng.below(cells * CHUNK) as usize);
        // On the grid, often.
        let (at, len) = if rng.chance(1, 2) { (at & !(CHUNK as usize - 1), len) } else { (at, len) };
        match rng.below(4) {
            0 => {
                c.zero(at as u64, len as u64);
                model[at..at + len].fill(0);
            }
            1 => {
                c.write(at as u64, &vec![step as u8; len]);
                model[at..at + len].fill(step as u8);
            }
            _ => {
                c.keep(at as u64, &vec![step as u8; len].into(), len.next_multiple_of(4096));
                model[at..at + len].fill(step as u8);
            }
        }
        let (from, n) = (at / 2, rng.below((LEN - at / 2) as u64));
        assert_eq!(c.read(from as u64, n).flat()[..], model[from..from + n as usize], "step {step}");
        assert_eq!(c.allocated(), c.chunks.iter().map(|c| c.data.len() as u64).sum::<u64>());
        let lent: usize = c.chunks.iter().filter(|c| c.home != OWN).map(|c| c.data.len()).sum();
        assert!(kept(&c) <= 2 * lent, "{} of {} are of use", lent, kept(&c));
        most = most.max(kept(&c));
        if step % 20 == 0 {
            assert_eq!(before.read(0, LEN as u64).flat()[..], old[..], "a copy has changed");
            (before, old) = (c.clone(), model.clone());
        }
    }
    assert!(most > LEN / 2, "{most} bytes stayed where they were, at most");
    c.zero(0, u64::MAX);
    assert!(c.homes.is_none() && c.allocated() == 0);
}
