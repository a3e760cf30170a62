//! One piece of memory that the kernel knows beforehand: what is read into it needs no pages looked up and pinned for each operation.
//!
//! Divided into slabs of 64 KiB, each cut into slots of one size when it is first needed, and whole again when all its slots are back. What was
//! freed last is given out first: it is in the processor's cache.

use crate::buf::BLOCK_BYTES;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// The largest slot, and what is cut into smaller ones.
pub(crate) const SLAB_BYTES: usize = 64 << 10;
/// Slots of 4 KiB × 2^0 … 2^4.
const CLASSES: usize = 5;
const NONE: u32 = u32::MAX;

struct Slab {
    class: u8,
    /// A bit for each slot that is free.
    free: u16,
    /// Its neighbours among the slabs of its class that have a free slot.
    before: u32,
    after: u32,
}

struct State {
    slabs: Vec<Slab>,
    whole: Vec<u32>,
    /// By class, the slab from which the next slot comes.
    first: [u32; CLASSES],
}

/// Memory for buffers, initialised, at a multiple of its largest slot.
pub(crate) struct Arena {
    base: NonNull<u8>,
    bytes: usize,
    state: Mutex<State>,
}

// SAFETY: the memory is given out in slots that don't overlap; what is shared about them is behind the lock.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

fn class_of(len_bytes: usize) -> usize {
    (len_bytes.div_ceil(BLOCK_BYTES).next_power_of_two()).trailing_zeros() as usize
}
fn all_slots(class: usize) -> u16 {
    let slots = SLAB_BYTES / (BLOCK_BYTES << class);
    ((1_u32 << slots) - 1) as u16
}

impl Arena {
    /// `bytes` of it, in huge pages where the system has some.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        assert!(bytes.is_multiple_of(SLAB_BYTES) && bytes > 0, "whole slabs");
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which touches no memory of anybody.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is ours. A system without huge pages says no, and that is all.
        unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
        let slabs = bytes / SLAB_BYTES;
        let state = State {
            slabs: (0..slabs).map(|_| Slab { class: 0, free: 0, before: NONE, after: NONE }).collect(),
            whole: (0..slabs as u32).rev().collect(),
            first: [NONE; CLASSES],
        };
        Ok(Self { base: NonNull::new(base.cast()).expect("a mapping is not at 0"), bytes, state: Mutex::new(state) })
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
            n = state.whole.pop()?;
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
    /// Takes a slot back; it came from here, and nobody has it any more.
    pub(crate) fn give_back(&self, slot: NonNull<u8>) {
        let at = slot.as_ptr() as usize - self.base.as_ptr() as usize;
        let n = (at / SLAB_BYTES) as u32;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let slab = &mut state.slabs[n as usize];
        let class = slab.class as usize;
        let bit = 1 << (at % SLAB_BYTES / (BLOCK_BYTES << class));
        assert!(slab.free & bit == 0, "a slot is given back once");
        let was_full = slab.free == 0;
        slab.free |= bit;
        let is_whole = slab.free == all_slots(class);
        match (was_full, is_whole) {
            (true, true) => state.whole.push(n),
            (true, false) => state.link(n),
            (false, true) => {
                state.unlink(n);
                state.whole.push(n);
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
        // SAFETY: nobody has a slot any more: each holds the arena.
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
}
