//! Memory that a device can read from and write to directly: whole blocks at addresses that are multiples of a block.
//!
//! Freed buffers stay in a small pool of their thread, so that the usual sizes cost neither an allocation nor zeroing. Old bytes of a recycled
//! buffer are never seen: only what was pushed, padded or read is in `len`.

use crate::arena::Arena;
use bytes::Bytes;
use std::alloc::{self, Layout};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// The unit of every transfer, in bytes.
pub const BLOCK_BYTES: usize = 4096;

/// Capacities that are pooled: 4 KiB × 2^0 … 2^8 = 1 MiB.
const CLASSES: usize = 9;
/// What each capacity's pool holds at most in a thread, in bytes; all together 28 MiB. Of 64 KiB there are many at a time: large objects are
/// read and written in such pieces.
const fn pooled_bytes(class: usize) -> usize {
    if BLOCK_BYTES << class == 64 << 10 { 12 << 20 } else { 2 << 20 }
}

/// Free memory by capacity; given back when the thread ends.
struct Pool([Vec<NonNull<u8>>; CLASSES]);

impl Pool {
    fn release(&mut self) {
        for (class, list) in self.0.iter_mut().enumerate() {
            for ptr in list.drain(..) {
                // SAFETY: what is in the list of a class was allocated with that class' layout, and nothing else has it.
                unsafe { alloc::dealloc(ptr.as_ptr(), layout(BLOCK_BYTES << class)) };
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.release();
    }
}

/// Gives up the free buffers of this thread: its process is short of memory.
pub fn release_free_buffers() {
    let _ = POOL.try_with(|pool| pool.borrow_mut().release());
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool([const { Vec::new() }; CLASSES])) };
}

/// Bytes in aligned memory. Grows by [`AlignedBuf::push`]; is written to a device once its length is whole blocks ([`AlignedBuf::pad`]).
pub struct AlignedBuf {
    /// `capacity` bytes, aligned to a block, all of them initialised (zeros, or what was there before).
    ptr: NonNull<u8>,
    capacity: usize,
    len: usize,
    from: From,
}

/// Whose the memory is.
enum From {
    /// The buffer's own: of the pool, or for it.
    Pool,
    /// A slot.
    Arena(Arc<Arena>),
    /// A slot that was lent.
    Lent(Arc<Arena>),
    /// Others have it, too: copied before it is changed.
    Shared(Bytes),
}

// SAFETY: the buffer owns its memory alone, like a Vec<u8>, or only reads it and keeps it alive, like Bytes.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for AlignedBuf {}

fn class_of(capacity: usize) -> Option<usize> {
    let class = (capacity / BLOCK_BYTES).trailing_zeros() as usize;
    (capacity.is_power_of_two() && class < CLASSES).then_some(class)
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, BLOCK_BYTES).expect("a buffer is smaller than the address space")
}

impl AlignedBuf {
    /// An empty buffer with room for at least `len_bytes`.
    pub fn with_capacity(len_bytes: usize) -> Self {
        let blocks = len_bytes.div_ceil(BLOCK_BYTES).max(1);
        let pooled = blocks.next_power_of_two() * BLOCK_BYTES;
        let capacity = if class_of(pooled).is_some() { pooled } else { blocks * BLOCK_BYTES };
        let recycled = class_of(capacity).and_then(|class| POOL.try_with(|pool| pool.borrow_mut().0[class].pop()).ok().flatten());
        let ptr = recycled.unwrap_or_else(|| {
            // SAFETY: the layout's size is not zero.
            let ptr = unsafe { alloc::alloc_zeroed(layout(capacity)) };
            NonNull::new(ptr).unwrap_or_else(|| alloc::handle_alloc_error(layout(capacity)))
        });
        Self { ptr, capacity, len: 0, from: From::Pool }
    }
    /// So many zeros.
    pub fn zeroed(len_bytes: usize) -> Self {
        let mut buf = Self::with_capacity(len_bytes);
        buf.push_zeros(len_bytes);
        buf
    }
    /// `bytes`, and zeros up to the next block's edge.
    pub fn padded(bytes: &[u8]) -> Self {
        let mut buf = Self::with_capacity(bytes.len());
        buf.push(bytes);
        buf.pad();
        buf
    }
    /// A buffer of this length with bytes of no meaning, which the device will overwrite.
    pub(crate) fn for_read(len_bytes: usize) -> Self {
        let mut buf = Self::with_capacity(len_bytes);
        buf.len = len_bytes;
        buf
    }
    /// The same in a slot of this arena, if it has one.
    pub(crate) fn in_arena(arena: &Arc<Arena>, len_bytes: usize) -> Option<Self> {
        let (ptr, capacity) = arena.take(len_bytes)?;
        Some(Self { ptr, capacity, len: len_bytes, from: From::Arena(arena.clone()) })
    }
    /// These bytes, which are at a block's edge, without a copy.
    pub(crate) fn shared(bytes: Bytes) -> Self {
        assert!((bytes.as_ptr() as usize).is_multiple_of(BLOCK_BYTES), "aligned");
        let ptr = NonNull::new(bytes.as_ptr().cast_mut()).expect("a slice is not at 0");
        Self { ptr, capacity: bytes.len(), len: bytes.len(), from: From::Shared(bytes) }
    }
    /// Nothing else has the memory from now on.
    fn unshare(&mut self) {
        if matches!(self.from, From::Shared(_)) {
            let mut own = Self::with_capacity(self.len);
            own.push(self);
            *self = own;
        }
    }
    /// The same bytes, in memory that may be kept for long: what came from a device lies in memory that is meant for the next reads.
    pub fn to_keep(self) -> Self {
        if !self.is_in_arena() {
            return self;
        }
        let mut own = Self::with_capacity(self.len);
        own.push(&self);
        own
    }
    pub(crate) fn is_in_arena(&self) -> bool {
        matches!(self.from, From::Arena(_) | From::Lent(_))
    }
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.unshare();
        self.ptr.as_ptr()
    }
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    fn reserve(&mut self, more: usize) {
        let needed = self.len + more;
        if needed > self.capacity {
            let mut larger = Self::with_capacity(needed.max(self.capacity * 2));
            larger.push(self);
            *self = larger;
        }
    }
    /// The part that is not in `len` yet.
    fn spare(&mut self) -> &mut [u8] {
        self.unshare();
        // SAFETY: all of `capacity` is initialised and ours.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr().add(self.len), self.capacity - self.len) }
    }
    /// Appends; moves to a larger buffer if there is no room.
    pub fn push(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.spare()[..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
    pub fn push_zeros(&mut self, n: usize) {
        self.reserve(n);
        self.spare()[..n].fill(0);
        self.len += n;
    }
    /// Appends zeros up to the next block's edge.
    pub fn pad(&mut self) {
        self.push_zeros(self.len.next_multiple_of(BLOCK_BYTES) - self.len);
    }
    pub fn truncate(&mut self, len_bytes: usize) {
        self.len = self.len.min(len_bytes);
    }
    pub fn clear(&mut self) {
        self.len = 0;
    }
    /// As shared bytes, without a copy; the memory returns to the pool with the last of them. Slices at blocks' edges may be written to devices.
    pub fn freeze(self) -> Bytes {
        match &self.from {
            From::Shared(bytes) => bytes.slice(..self.len),
            _ => Bytes::from_owner(self),
        }
    }
}

/// Memory that the kernel knows beforehand, for what is to be written to a set's devices: neither copied nor looked up on its way there.
///
/// There is little of it, and reads need it too: what takes some must do with other memory when there is none.
#[derive(Clone)]
pub struct KnownMemory(Arc<Arena>);

impl KnownMemory {
    pub(crate) fn new(arena: Arc<Arena>) -> Self {
        Self(arena)
    }
    /// The longest buffer.
    pub const LEN_MAX: usize = 1 << 20;
    /// A buffer of this length, at most [`KnownMemory::LEN_MAX`], with bytes of no meaning: the caller overwrites all that it shows.
    pub fn take(&self, len_bytes: usize) -> Option<AlignedBuf> {
        let (ptr, capacity) = self.0.lend(len_bytes)?;
        Some(AlignedBuf { ptr, capacity, len: len_bytes, from: From::Lent(self.0.clone()) })
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        match &self.from {
            From::Pool => {}
            From::Arena(arena) => return arena.give_back(self.ptr),
            From::Lent(arena) => return arena.return_lent(self.ptr, self.capacity),
            From::Shared(_) => return,
        }
        if let Some(class) = class_of(self.capacity) {
            let kept = POOL.try_with(|pool| {
                let list = &mut pool.borrow_mut().0[class];
                let room = list.len() * self.capacity < pooled_bytes(class);
                if room {
                    list.push(self.ptr);
                }
                room
            });
            if kept == Ok(true) {
                return;
            }
        }
        // SAFETY: allocated with this layout, and nothing else has it.
        unsafe { alloc::dealloc(self.ptr.as_ptr(), layout(self.capacity)) };
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` is at most `capacity`, all of which is initialised and ours.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.unshare();
        // SAFETY: as for `deref`, and this borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} of {})", self.len, self.capacity)
    }
}

/// Zeros that are there once for all, in bytes.
pub(crate) const ZEROS_BYTES: usize = 256 << 10;

/// So many zeros for a write, all pieces of one buffer that is shared by everyone.
pub fn zero_blocks(len_bytes: u64) -> Vec<Bytes> {
    static ZEROS: OnceLock<Bytes> = OnceLock::new();
    assert!(len_bytes.is_multiple_of(BLOCK_BYTES as u64), "whole blocks");
    let zeros = ZEROS.get_or_init(|| AlignedBuf::zeroed(ZEROS_BYTES).freeze());
    let mut out = vec![zeros.clone(); len_bytes as usize / ZEROS_BYTES];
    let rest = len_bytes as usize % ZEROS_BYTES;
    if rest > 0 {
        out.push(zeros.slice(..rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_show_no_old_bytes() {
        for round in 0..3 {
            let mut buf = AlignedBuf::with_capacity(5000);
            assert_eq!((buf.as_ptr() as usize % BLOCK_BYTES, buf.len(), buf.capacity()), (0, 0, 8192), "round {round}");
            buf.push(&[7; 5000]);
            buf.pad();
            assert_eq!((buf.len(), &buf[4998..5002]), (8192, &[7, 7, 0, 0][..]));
            assert!(buf[5000..].iter().all(|b| *b == 0));
            buf.push(&[9; 4096]);
            assert_eq!((buf.len(), buf.capacity(), buf[0], buf[12287]), (12288, 16384, 7, 9));
        }
    }

    #[test]
    fn frozen_buffers_share_and_return() {
        let bytes = AlignedBuf::padded(&[1; 10_000]).freeze();
        let second = bytes.slice(4096..8192);
        drop(bytes);
        assert_eq!((second[0], second.as_ptr() as usize % BLOCK_BYTES), (1, 0));
        let zeros = zero_blocks(600 << 10);
        assert_eq!(zeros.iter().map(Bytes::len).sum::<usize>(), 600 << 10);
        assert!(zeros.iter().all(|z| z.iter().all(|b| *b == 0)));
    }

    #[test]
    fn what_is_shared_is_copied_before_it_changes() {
        let bytes = AlignedBuf::padded(&[1; 3 * BLOCK_BYTES]).freeze();
        let mut buf = AlignedBuf::shared(bytes.slice(BLOCK_BYTES..));
        assert_eq!((buf.len(), buf.as_ptr()), (2 * BLOCK_BYTES, bytes[BLOCK_BYTES..].as_ptr()));
        buf.truncate(BLOCK_BYTES);
        let same = AlignedBuf::shared(bytes.slice(BLOCK_BYTES..)).freeze();
        assert_eq!((same.as_ptr(), same.len()), (buf.as_ptr(), 2 * BLOCK_BYTES));
        buf[0] = 2;
        buf.push(&[3; BLOCK_BYTES]);
        assert_eq!((buf[0], buf[1], buf[BLOCK_BYTES], buf.len()), (2, 1, 3, 2 * BLOCK_BYTES));
        let mut grown = AlignedBuf::shared(same);
        grown.push(&[4]);
        assert_eq!((grown.len(), grown[2 * BLOCK_BYTES]), (2 * BLOCK_BYTES + 1, 4));
        assert!(bytes.iter().all(|b| *b == 1));
    }

    #[test]
    fn the_pool_is_empty_when_memory_is_short() {
        let held = || POOL.with(|pool| pool.borrow().0.iter().map(Vec::len).sum::<usize>());
        drop([AlignedBuf::with_capacity(1), AlignedBuf::with_capacity(1 << 20)]);
        assert!(held() >= 2);
        release_free_buffers();
        assert_eq!(held(), 0);
        assert!(AlignedBuf::zeroed(8192).iter().all(|b| *b == 0));
    }

    #[test]
    fn the_pool_has_a_bound() {
        let many: Vec<_> = (0..1000).map(|_| AlignedBuf::with_capacity(1)).collect();
        drop(many);
        POOL.with(|pool| assert_eq!(pool.borrow().0[0].len(), pooled_bytes(0) / BLOCK_BYTES));
    }
}
