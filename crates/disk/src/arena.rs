//! One piece of memory that the kernel knows beforehand: what is read into it needs no pages looked up and pinned for each operation.
//!
//! Divided into slabs of 64 KiB, each cut into slots of one size when it is first needed, and whole again when all its slots are back. What was
//! freed last, or is nearest to the start, is given out first: it is in the processor's cache. What is lent may also be some slabs in a row.

use crate::buf::BLOCK_BYTES;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The largest slot, and what is cut into smaller ones.
pub(crate) const SLAB_BYTES: usize = 64 << 10;
/// Slots of 4 KiB × 2^0 … 2^4.
const CLASSES: usize = 5;
const NONE: u32 = u32::MAX;
/// Of an arena.
const SLABS_MAX: usize = 128;
/// Of a slot that is lent: 1 MiB.
const ROW_MAX: usize = 16;
/// Of all of it, so many parts may be lent.
const LENT: usize = 3;
const LENT_OF: usize = 4;

struct Slab {
    class: u8,
    /// Slabs of the slot that begins here: more than one if it is a large one.
    row: u8,
    /// A bit for each slot that is free.
    free: u16,
    /// Its neighbours among the slabs of its class that have a free slot.
    before: u32,
    after: u32,
}

struct State {
    slabs: Vec<Slab>,
    /// A bit for each slab that is whole.
    whole: u128,
    /// By class, the slab from which the next slot comes.
    first: [u32; CLASSES],
}

/// Memory for buffers, initialised, at a multiple of its largest slot.
pub(crate) struct Arena {
    base: NonNull<u8>,
    bytes: usize,
    state: Mutex<State>,
    /// Bytes of slots that were lent, and what they may be.
    lent: AtomicUsize,
    lent_max: usize,
}

// SAFETY: the memory is given out in slots that don't overlap; what is shared about them is behind the lock.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

fn class_of(len_bytes: usize) -> usize {
    (len_bytes.div_ceil(BLOCK_BYTES).next_power_of_two()).trailing_zeros() as usize
}
fn row_bits(slabs: usize) -> u128 {
    (1 << slabs) - 1
}
fn all_slots(class: usize) -> u16 {
    let slots = SLAB_BYTES / (BLOCK_BYTES << class);
    ((1_u32 << slots) - 1) as u16
}

impl Arena {
    /// `bytes` of it, in huge pages where the system has some.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        assert!(bytes.is_multiple_of(SLAB_BYTES) && (1..=SLABS_MAX).contains(&(bytes / SLAB_BYTES)), "whole slabs");
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which touches no other memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is ours. A system without huge pages says no, and that is all.
        unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
        let slabs = bytes / SLAB_BYTES;
        let state = State {
            slabs: (0..slabs).map(|_| Slab { class: 0, row: 1, free: 0, before: NONE, after: NONE }).collect(),
            whole: u128::MAX >> (SLABS_MAX - slabs),
            first: [NONE; CLASSES],
        };
        let base = NonNull::new(base.cast()).expect("a mapping is not at 0");
        Ok(Self { base, bytes, state: Mutex::new(state), lent: AtomicUsize::new(0), lent_max: bytes / LENT_OF * LENT })
    }
    /// True if all of these bytes are in it.
    pub(crate) fn has(&self, bytes: &[u8]) -> bool {
        let (at, base) = (bytes.as_ptr() as usize, self.base.as_ptr() as usize);
        at >= base && at + bytes.len() <= base + self.bytes
    }
    /// As [`Arena::take`], for a caller that keeps it for as long as others let it: such have no more than their share.
    pub(crate) fn lend(&self, len_bytes: usize) -> Option<(NonNull<u8>, usize)> {
        if self.lent.load(Relaxed) + len_bytes > self.lent_max {
            return None;
        }
        let (slot, size) = if len_bytes > SLAB_BYTES { self.take_row(len_bytes)? } else { self.take(len_bytes)? };
        self.lent.fetch_add(size, Relaxed);
        Some((slot, size))
    }
    /// Takes back what was lent.
    pub(crate) fn return_lent(&self, slot: NonNull<u8>, size: usize) {
        self.lent.fetch_sub(size, Relaxed);
        self.give_back(slot);
    }
    /// All of it, for the kernel.
    pub(crate) fn whole(&self) -> libc::iovec {
        libc::iovec { iov_base: self.base.as_ptr().cast(), iov_len: self.bytes }
    }
    /// A slot for so many bytes and its size, if there is one.
    pub(crate) fn take(&self, len_bytes: usize) -> Option<(NonNull<u8>, usize)> {
        if len_bytes > SLAB_BYTES || len_bytes == 0 {
            return None;
        }
        let class = class_of(len_bytes);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut n = state.first[class];
        if n == NONE {
            n = state.row(1)?;
            let slab = &mut state.slabs[n as usize];
            (slab.class, slab.free) = (class as u8, all_slots(class));
            state.link(n);
        }
        let slab = &mut state.slabs[n as usize];
        let slot = slab.free.trailing_zeros() as usize;
        slab.free &= slab.free - 1;
        if slab.free == 0 {
            state.unlink(n);
        }
        let size = BLOCK_BYTES << class;
        // SAFETY: within the mapping, since every slot of every slab is.
        Some((unsafe { self.base.add(n as usize * SLAB_BYTES + slot * size) }, size))
    }
    /// A slot of some slabs in a row.
    fn take_row(&self, len_bytes: usize) -> Option<(NonNull<u8>, usize)> {
        let slabs = len_bytes.div_ceil(SLAB_BYTES);
        if slabs > ROW_MAX {
            return None;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let n = state.row(slabs)? as usize;
        (state.slabs[n].row, state.slabs[n].free) = (slabs as u8, 0);
        // SAFETY: within the mapping, since all of these slabs are.
        Some((unsafe { self.base.add(n * SLAB_BYTES) }, slabs * SLAB_BYTES))
    }
    /// Takes a slot back; it came from here, and nothing has it any more.
    pub(crate) fn give_back(&self, slot: NonNull<u8>) {
        let at = slot.as_ptr() as usize - self.base.as_ptr() as usize;
        let n = (at / SLAB_BYTES) as u32;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let slab = &mut state.slabs[n as usize];
        if slab.row > 1 {
            assert!(at.is_multiple_of(SLAB_BYTES), "a row is given back whole");
            let slabs = std::mem::replace(&mut slab.row, 1);
            return state.give_row(n, slabs.into());
        }
        let class = slab.class as usize;
        let bit = 1 << (at % SLAB_BYTES / (BLOCK_BYTES << class));
        assert!(slab.free & bit == 0, "a slot is given back once");
        let was_full = slab.free == 0;
        slab.free |= bit;
        let is_whole = slab.free == all_slots(class);
        match (was_full, is_whole) {
            (true, true) => state.give_row(n, 1),
            (true, false) => state.link(n),
            (false, true) => {
                state.unlink(n);
                state.give_row(n, 1);
            }
            (false, false) => {
                // What came back last is the next to be given out.
                state.unlink(n);
                state.link(n);
            }
        }
    }
}

impl State {
    /// So many whole slabs in a row, which are not whole any more; the first.
    fn row(&mut self, slabs: usize) -> Option<u32> {
        let starts = (1..slabs).fold(self.whole, |starts, n| starts & self.whole >> n);
        if starts == 0 {
            return None;
        }
        let n = starts.trailing_zeros();
        self.whole &= !(row_bits(slabs) << n);
        Some(n)
    }
    fn give_row(&mut self, n: u32, slabs: usize) {
        let bits = row_bits(slabs) << n;
        assert!(self.whole & bits == 0, "a slab is given back once");
        self.whole |= bits;
    }
    /// Puts a slab in front of those of its class.
    fn link(&mut self, n: u32) {
        let class = self.slabs[n as usize].class as usize;
        let after = std::mem::replace(&mut self.first[class], n);
        (self.slabs[n as usize].before, self.slabs[n as usize].after) = (NONE, after);
        if after != NONE {
            self.slabs[after as usize].before = n;
        }
    }
    fn unlink(&mut self, n: u32) {
        let Slab { class, before, after, .. } = self.slabs[n as usize];
        match before {
            NONE => self.first[class as usize] = after,
            before => self.slabs[before as usize].after = after,
        }
        if after != NONE {
            self.slabs[after as usize].before = before;
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: nothing has a slot any more: each holds the arena.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_never_overlap_and_all_come_back() {
        let arena = Arena::new(8 * SLAB_BYTES).unwrap();
        let mut rng = base::Rng::new(3);
        let mut held: Vec<(NonNull<u8>, usize)> = Vec::new();
        for _ in 0..20_000 {
            if rng.chance(1, 2) && !held.is_empty() {
                let (slot, _) = held.swap_remove(rng.below(held.len() as u64) as usize);
                arena.give_back(slot);
            } else {
                let len = (1 + rng.below(16) as usize) * BLOCK_BYTES;
                let Some((slot, size)) = arena.take(len) else { continue };
                assert!(size >= len && (slot.as_ptr() as usize).is_multiple_of(BLOCK_BYTES));
                let (from, to) = (slot.as_ptr() as usize, slot.as_ptr() as usize + size);
                assert!(held.iter().all(|(s, n)| to <= s.as_ptr() as usize || from >= s.as_ptr() as usize + n), "two have it");
                assert!(from >= arena.base.as_ptr() as usize && to <= arena.base.as_ptr() as usize + arena.bytes);
                held.push((slot, size));
            }
        }
        held.drain(..).for_each(|(slot, _)| arena.give_back(slot));
        assert!((0..8).all(|_| arena.take(SLAB_BYTES).is_some()) && arena.take(1).is_none(), "all of it is whole again");
        assert!(arena.take(SLAB_BYTES + 1).is_none());
    }

    #[test]
    fn what_is_lent_leaves_some_for_reads() {
        let arena = Arena::new(8 * SLAB_BYTES).unwrap();
        let lent: Vec<_> = std::iter::from_fn(|| arena.lend(SLAB_BYTES)).collect();
        assert_eq!(lent.len(), 6);
        assert!(arena.lend(1).is_none() && arena.take(SLAB_BYTES).is_some());
        // SAFETY: a slot has so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(lent[0].0.as_ptr(), lent[0].1) };
        assert!(arena.has(bytes) && !arena.has(&[0; 10]));
        lent.into_iter().for_each(|(slot, size)| arena.return_lent(slot, size));
        assert!(arena.lend(1).is_some());
    }

    #[test]
    fn rows_and_slots_never_overlap() {
        let arena = Arena::new(128 * SLAB_BYTES).unwrap();
        let mut rng = base::Rng::new(4);
        let mut held: Vec<(NonNull<u8>, usize)> = Vec::new();
        let mut large = 0;
        for _ in 0..20_000 {
            if rng.chance(1, 2) && !held.is_empty() {
                let (slot, size) = held.swap_remove(rng.below(held.len() as u64) as usize);
                arena.return_lent(slot, size);
            } else {
                let max = if rng.chance(1, 2) { 30_000 } else { 1 << 20 };
                let len = 1 + rng.below(max) as usize;
                let Some((slot, size)) = arena.lend(len) else { continue };
                let (from, to) = (slot.as_ptr() as usize, slot.as_ptr() as usize + size);
                assert!(size >= len && to <= arena.base.as_ptr() as usize + arena.bytes);
                assert!(held.iter().all(|(s, n)| to <= s.as_ptr() as usize || from >= s.as_ptr() as usize + n), "two have it");
                large += usize::from(size > SLAB_BYTES);
                held.push((slot, size));
            }
        }
        assert!(large > 1000, "{large}");
        held.drain(..).for_each(|(slot, size)| arena.return_lent(slot, size));
        assert!((0..128).all(|_| arena.take(SLAB_BYTES).is_some()) && arena.take(1).is_none(), "all of it is whole again");
        assert!(arena.lend((1 << 20) + 1).is_none());
    }
}
