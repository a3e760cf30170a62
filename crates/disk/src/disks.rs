//! The contract of a set of devices with one queue.

use crate::{AlignedBuf, DiskError};
use bytes::Bytes;
use std::os::fd::RawFd;
use std::time::Duration;

/// One device of a set, by its place in the list that the set was opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dev(pub u8);

/// The caller's name for an operation; comes back with its completion.
pub type Token = u64;

/// What a write promises when it completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The device has it, perhaps in a cache that a power cut empties. The next [`Disks::flush`] that is queued after this completed makes it last.
    Volatile,
    /// It lasts (`RWF_DSYNC`). Says nothing about other writes.
    Durable,
}

/// The end of one operation. Every operation has exactly one.
#[derive(Debug)]
pub struct Completion {
    pub token: Token,
    /// What was read, for a read; `None` for a write or a flush.
    pub result: Result<Option<AlignedBuf>, DiskError>,
}

/// A set of devices with one queue of operations and one of completions.
///
/// - An operation is queued by its method, started by the next [`Disks::kick`], and completes once, through [`Disks::poll`].
///   It can't be cancelled. Its buffers belong to the set until then.
/// - **Operations that are under way at the same time have no order**, those of one kick neither. A caller that needs an order waits for the completion.
///   Two writes to one block under way at the same time are the caller's mistake (the memory disks assert it); a read beside a write of its
///   block gives the old bytes, the new ones, or a mixture.
/// - A flush covers the writes to its device that had **completed before it was queued**, no others.
/// - Offsets and lengths are multiples of [`crate::BLOCK_BYTES`], within the device; buffers' addresses too. Anything else panics.
/// - A short transfer is continued; if that is not possible, the operation fails. What a failed write has written is unknown: nothing, all, or
///   any sectors of it. After a failed flush, what it should have covered may be lost for good, **even if a later flush succeeds**.
pub trait Disks {
    /// A device's size in bytes, a multiple of [`crate::BLOCK_BYTES`].
    fn len_bytes(&self, dev: Dev) -> u64;
    /// Queues a read of `len_bytes` from `offset`.
    fn read(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize);
    /// Queues a write of `bufs`, one behind the other, from `offset` on. A buffer is a [`AlignedBuf`] that was frozen, or whole blocks of one.
    fn write(&mut self, token: Token, dev: Dev, offset: u64, bufs: Vec<Bytes>, durability: Durability);
    /// Queues a flush of the device's cache.
    fn flush(&mut self, token: Token, dev: Dev);
    /// Queues that nothing needs these bytes any more: a block device forgets them, a file gets a hole there. Until they are written
    /// again, a read gives anything. It counts as a volatile write: nothing else may be under way there, and a power cut may undo any
    /// part of it that no flush covers. One that fails has forgotten nothing, or some; the next one will fail as well. It is slow, and no other operation
    /// waits for it here.
    fn discard(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize);
    /// Starts everything that is queued, with one system call.
    fn kick(&mut self);
    /// Appends what has completed; never waits. Cheap when nothing has.
    fn poll(&mut self, out: &mut Vec<Completion>);
    /// Operations that were queued and whose completions have not been given out yet.
    fn in_flight(&self) -> usize;
    /// Kicks, and blocks until something has completed; returns at once if nothing is in flight. For start-up and tools: a reactor never waits.
    fn wait(&mut self);
    /// Blocks until something that was kicked has completed, but no longer than this; true if something has. For a reactor that knows of nothing else
    /// to do: a sleep that is ended from here costs less than one that is ended by way of the event descriptor. Poll afterwards in any case.
    fn linger(&mut self, limit: Duration) -> bool {
        let _ = limit;
        false
    }
    /// What is signalled when there are completions to poll: for the reactor's epoll, **edge-triggered** (as tokio's is), since it is never
    /// reset. `None` for disks in memory: poll after each kick.
    fn event_fd(&self) -> Option<RawFd>;
}

impl<D: Disks + ?Sized> Disks for Box<D> {
    fn len_bytes(&self, dev: Dev) -> u64 {
        (**self).len_bytes(dev)
    }
    fn read(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        (**self).read(token, dev, offset, len_bytes);
    }
    fn write(&mut self, token: Token, dev: Dev, offset: u64, bufs: Vec<Bytes>, durability: Durability) {
        (**self).write(token, dev, offset, bufs, durability);
    }
    fn flush(&mut self, token: Token, dev: Dev) {
        (**self).flush(token, dev);
    }
    fn discard(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        (**self).discard(token, dev, offset, len_bytes);
    }
    fn kick(&mut self) {
        (**self).kick();
    }
    fn poll(&mut self, out: &mut Vec<Completion>) {
        (**self).poll(out);
    }
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
    fn wait(&mut self) {
        (**self).wait();
    }
    fn linger(&mut self, limit: Duration) -> bool {
        (**self).linger(limit)
    }
    fn event_fd(&self) -> Option<RawFd> {
        (**self).event_fd()
    }
}
