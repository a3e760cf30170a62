//! Memory for large data, a mapping of its own for each piece: it comes from the system with the piece and goes back with it.
//!
//! Data that stay where they arrived need new memory for each piece, and from an allocator that comes page by page: each first touch of 4 KiB is a
//! fault, and these were half of what a server took for an object of 4 MiB. A mapping comes whole, with one call. What was freed last is kept, up to
//! a bound and for a time ([`LargeMemory::give_back`]), so that data in place of others touch nothing new.
//!
//! Not in huge pages: in a virtual machine its host has to find and clear such memory, too, while small pages are mostly ones that another process had
//! a moment before. Two huge pages took 6 ms of processor time there, 1,024 small ones 2.2 by faults and 1.6 with one call.
//!
//! [`LargeMemory::holds`] says of bytes how much memory they keep: a store that keeps a slice must know what else stays with it.

use crate::buf::BLOCK_BYTES;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Mappings at a time: a process may have some 65,000, and others need some, too.
const MAPPINGS_MAX: usize = 16_384;
/// Of a mapping that serves again, at most one part in so many may stay unused.
const SLACK_OF: usize = 8;

/// A mapping: its address, and its bytes, whole pages.
#[derive(Debug, Clone, Copy)]
struct Mapping {
    ptr: NonNull<u8>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of mappings that are in use, by address.
    used: BTreeMap<usize, usize>,
    /// Mappings that are not, and since when; those that were freed last stand behind.
    free: VecDeque<(Mapping, Instant)>,
    free_bytes: usize,
}

/// Gives and takes back memory for large data.
#[derive(Debug)]
pub struct LargeMemory {
    state: Mutex<State>,
    /// Bytes of free memory that are kept.
    keep_max: usize,
}

// SAFETY: mappings belong to the process, not to a thread; each is in one of the lists or with one buffer, and the lists are behind the lock.
unsafe impl Send for LargeMemory {}
// SAFETY: as above.
unsafe impl Sync for LargeMemory {}

/// Memory for one piece of data.
#[derive(Debug)]
pub struct LargeBuf {
    /// All of it initialised: zeros of the system, or what was there before.
    mapping: Mapping,
    len: usize,
    of: Arc<LargeMemory>,
}

// SAFETY: the buffer has its memory alone, like a Vec<u8>.
unsafe impl Send for LargeBuf {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for LargeBuf {}

impl Mapping {
    /// New memory, of which every page is there; `None` if the system has none.
    fn new(bytes: usize) -> Option<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, which touches no other memory.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the mapping is ours. Kernels before 5.14 say no, and then its pages come one by one.
        unsafe { libc::madvise(base, bytes, libc::MADV_POPULATE_WRITE) };
        Some(Self { ptr: NonNull::new(base.cast()).expect("a mapping is not at 0"), bytes })
    }
    fn unmap(self) {
        // SAFETY: a mapping of ours, of which nothing has a reference.
        unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.bytes) };
    }
}

impl LargeMemory {
    /// Memory of which at most so many bytes are kept while they are free.
    pub fn new(keep_max: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), keep_max })
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// A buffer of this length with bytes of no meaning, all of which the caller overwrites; `None` if the system has no memory for it.
    pub fn take(self: &Arc<Self>, len: usize) -> Option<LargeBuf> {
        let bytes = len.max(1).checked_next_multiple_of(BLOCK_BYTES)?;
        let mut state = self.state();
        let fits = |(m, _): &(Mapping, Instant)| (bytes..=bytes + bytes / SLACK_OF).contains(&m.bytes);
        let mapping = match state.free.iter().rposition(fits) {
            Some(at) => {
                let (mapping, _) = state.free.remove(at).expect("it was found");
                state.free_bytes -= mapping.bytes;
                mapping
            }
            None if state.used.len() + state.free.len() < MAPPINGS_MAX => Mapping::new(bytes)?,
            None => return None,
        };
        state.used.insert(mapping.ptr.as_ptr() as usize, mapping.bytes);
        Some(LargeBuf { mapping, len, of: self.clone() })
    }
    /// Gives back to the system what has been free for so long, until it was so many bytes: that takes its time. Returns how many.
    pub fn give_back(&self, free_for: Duration, enough: usize) -> usize {
        let mut state = self.state();
        let before = state.free_bytes;
        while before - state.free_bytes < enough
            && let Some((mapping, since)) = state.free.front().copied()
            && since.elapsed() >= free_for
        {
            state.free.pop_front();
            state.free_bytes -= mapping.bytes;
            mapping.unmap();
        }
        before - state.free_bytes
    }
    /// Bytes of the memory that all of these bytes are in, if it was taken here and is not given back.
    pub fn holds(&self, bytes: &[u8]) -> Option<usize> {
        let at = bytes.as_ptr() as usize;
        let state = self.state();
        let (start, len) = state.used.range(..=at).next_back()?;
        (at + bytes.len() <= start + len).then_some(*len)
    }
}

impl LargeBuf {
    /// As shared bytes, without a copy; the memory goes back with the last of them.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Drop for LargeBuf {
    fn drop(&mut self) {
        let mut state = self.of.state();
        state.used.remove(&(self.mapping.ptr.as_ptr() as usize));
        if self.mapping.bytes > self.of.keep_max {
            return self.mapping.unmap();
        }
        state.free.push_back((self.mapping, Instant::now()));
        state.free_bytes += self.mapping.bytes;
        while state.free_bytes > self.of.keep_max {
            let (oldest, _) = state.free.pop_front().expect("there are free bytes");
            state.free_bytes -= oldest.bytes;
            oldest.unmap();
        }
    }
}

impl Drop for LargeMemory {
    fn drop(&mut self) {
        // Buffers keep it, so all there is is free.
        self.state().free.drain(..).for_each(|(mapping, _)| mapping.unmap());
    }
}

impl Deref for LargeBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` is at most the mapping's bytes, all of which are initialised and ours.
        unsafe { std::slice::from_raw_parts(self.mapping.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for LargeBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and this borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.ptr.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for LargeBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn bytes_say_what_memory_they_keep() {
        let memory = LargeMemory::new(8 * MIB);
        let mut buf = memory.take(3 * MIB + 5).unwrap();
        assert_eq!((buf.len(), buf.iter().all(|b| *b == 0)), (3 * MIB + 5, true));
        buf.fill(7);
        let bytes = buf.freeze();
        assert_eq!(memory.holds(&bytes[MIB..]), Some(3 * MIB + BLOCK_BYTES));
        assert_eq!(memory.holds(&vec![0; MIB]), None);
        let (at, rest) = (bytes.as_ptr(), bytes.slice(3 * MIB..));
        drop(bytes);
        assert_eq!((memory.holds(&rest), &rest[..]), (Some(3 * MIB + BLOCK_BYTES), &[7; 5][..]));
        drop(rest);
        // What was freed serves again, for as much and for a little less.
        let again = memory.take(3 * MIB).unwrap();
        assert_eq!((again.as_ptr(), again.len()), (at, 3 * MIB));
        assert_ne!(memory.take(MIB).unwrap().as_ptr(), at);
    }

    #[test]
    fn free_memory_has_a_bound() {
        let memory = LargeMemory::new(4 * MIB);
        let many: Vec<_> = (0..20).map(|_| memory.take(MIB).unwrap()).collect();
        let last = many[19].as_ptr();
        many.into_iter().for_each(drop);
        assert_eq!(memory.state().free_bytes, 4 * MIB);
        assert_eq!(memory.take(MIB).unwrap().as_ptr(), last, "what was freed last is given first");
        drop(memory.take(5 * MIB));
        assert_eq!(memory.state().free_bytes, 4 * MIB, "what is larger than the bound is not kept");
        assert_eq!(memory.give_back(Duration::from_secs(3600), usize::MAX), 0, "nothing has been free for so long");
        assert_eq!(memory.give_back(Duration::ZERO, MIB + 1), 2 * MIB, "not all at once");
        assert_eq!(memory.give_back(Duration::ZERO, usize::MAX), 2 * MIB);
        assert!(memory.state().free.is_empty());
    }

    #[test]
    fn pieces_never_overlap() {
        let memory = LargeMemory::new(16 * MIB);
        let mut rng = base::Rng::new(5);
        let mut held: Vec<(LargeBuf, u8)> = Vec::new();
        for step in 0..2000_u32 {
            if rng.chance(1, 2) && !held.is_empty() {
                let (buf, mark) = held.swap_remove(rng.below(held.len() as u64) as usize);
                assert!(buf.iter().step_by(997).all(|b| *b == mark), "another wrote into it");
            } else if held.len() < 8 {
                let mut buf = memory.take(1 + rng.below(4 << 20) as usize).unwrap();
                buf.iter_mut().step_by(997).for_each(|b| *b = step as u8);
                held.push((buf, step as u8));
            }
        }
        drop(held);
        assert!(memory.state().used.is_empty());
    }
}
