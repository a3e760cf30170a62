//! One io_uring for all devices of a set. The only file that hands memory to the kernel.
//!
//! Every operation has a slot, which owns its buffers from the moment it is queued until its completion has come: nothing that a caller does
//! (dropping the set included) frees memory that the kernel may still use. A transfer that ends short is continued from where it ended.
//!
//! ```text
//!             queue()            kick(), poll()               completion: whole, or an error
//!   (free) ─────────> Waiting ─────────────────> In kernel ──────────────────────────────────> (free), Completion given out
//!                        ^                            │
//!                        └────────────────────────────┘ completion: short, EINTR, EAGAIN
//! ```
//!
//! The ring is set up with `DEFER_TASKRUN`: completions are posted when this thread enters the kernel for them. So the ring belongs to the
//! thread that uses it first (`R_DISABLED` until then), and its own descriptor does not wake epoll (seen on 6.18): an eventfd does, which the
//! kernel signals when there is the first thing to post. `IOSQE_IO_DRAIN` is never used: with `DEFER_TASKRUN` it hangs.

use crate::arena::Arena;
use crate::disks::{Completion, Dev, Durability, Token};
use crate::{AlignedBuf, DiskError, KnownMemory};
use bytes::Bytes;
use io_uring::{IoUring, opcode, squeue, types::Fixed};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Submission entries: what one kick starts with one system call.
const ENTRIES: u32 = 128;
/// At most so many operations are in the kernel's hands; the rest wait here.
const IN_KERNEL_MAX: usize = 512;
/// The least that a disk is trusted with, whatever the system says of it.
const LANE_MIN: usize = 8;
/// A call's pieces at most (`IOV_MAX`); longer lists are continued like short transfers.
const PIECES_MAX: usize = 1024;
/// Memory that the kernel knows beforehand: for reads, what is under way at once, and what is kept of it for a while; for writes, what comes from
/// clients in large pieces.
const ARENA_BYTES: usize = 8 << 20;
/// What the kernel takes of what was handed over each time that it is entered (`IO_LOCAL_TW_DEFAULT_MAX` since 6.13; all of it before).
const RUN_AT_ONCE: usize = 20;
/// EINTR and EAGAIN in a row before an operation counts as failed.
const RETRIES_MAX: u32 = 1000;

enum Work {
    Read {
        buf: AlignedBuf,
    },
    /// `known`: all of it is in the arena.
    Write {
        bufs: Vec<Bytes>,
        durability: Durability,
        known: bool,
    },
    Flush,
}

struct Slot {
    token: Token,
    dev: Dev,
    offset: u64,
    len_bytes: usize,
    done_bytes: usize,
    retries: u32,
    work: Work,
    /// What the kernel is told of `bufs`; lives as long as the operation.
    pieces: Vec<libc::iovec>,
}

/// The way to one disk, which devices of the set may share (files of one file system do).
///
/// What finds no free tag of the disk is not refused: the kernel hands it to a thread of its own, which sleeps until there is one and starts it
/// from there, and that costs more than all the rest of the operation. So no more is handed over than the disk has tags for.
struct Lane {
    max: usize,
    in_kernel: usize,
    /// Slots to be given to the kernel, in this order.
    waiting: VecDeque<u32>,
}

/// Which disk a device is on, and how many operations the disk takes at once, if that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// The same for all devices of one disk, and for no other.
    pub(crate) disk: PathBuf,
    pub(crate) tags: Option<usize>,
}

/// The ring and its operations.
pub(crate) struct Ring {
    ring: IoUring,
    /// `None` where the system gives none: a process that may lock little memory reads as well, at a higher price.
    arena: Option<Arc<Arena>>,
    /// Several pieces of the arena can be written at once: kernels since 6.15.
    vectored: bool,
    event: OwnedFd,
    enabled: bool,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    lanes: Vec<Lane>,
    /// By device.
    lane_of: Vec<usize>,
    in_kernel: usize,
    /// Completions that `wait` found, until they are polled.
    done: Vec<Completion>,
}

// SAFETY: the raw pointers in slots' pieces point into the slots' own buffers, which move with them. The ring is bound to a thread only once it is
// enabled; from then on the kernel refuses other threads' entries with an error, and that is no matter of memory.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring for these files, and the way to each of them.
    pub(crate) fn new(files: &[RawFd], ways: &[Way]) -> io::Result<Self> {
        assert_eq!(files.len(), ways.len(), "each file has its way");
        let deferred = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_r_disabled()
            .setup_cqsize(2 * IN_KERNEL_MAX as u32)
            .build(ENTRIES);
        // Kernels before 6.1 lack the flags.
        let (ring, enabled) = match deferred {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                (IoUring::builder().setup_cqsize(2 * IN_KERNEL_MAX as u32).build(ENTRIES)?, true)
            }
            other => (other?, false),
        };
        ring.submitter().register_files(files)?;
        let arena = Arena::new(ARENA_BYTES).ok().map(Arc::new).filter(|arena| {
            // SAFETY: the kernel holds the pages itself for as long as it may write to them; a slot is a buffer's while an operation has it.
            unsafe { ring.submitter().register_buffers(&[arena.whole()]) }.is_ok()
        });
        let mut probe = io_uring::Probe::new();
        let vectored = ring.submitter().register_probe(&mut probe).is_ok() && probe.is_supported(opcode::WritevFixed::CODE);
        // SAFETY: a call without memory; a descriptor that it returns is new and ours alone.
        let event = unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        let (mut disks, mut lanes, mut lane_of) = (Vec::new(), Vec::new(), Vec::new());
        for way in ways {
            let known = disks.iter().position(|disk| *disk == &way.disk);
            lane_of.push(known.unwrap_or_else(|| {
                disks.push(&way.disk);
                let max = way.tags.unwrap_or(IN_KERNEL_MAX).clamp(LANE_MIN, IN_KERNEL_MAX);
                lanes.push(Lane { max, in_kernel: 0, waiting: VecDeque::new() });
                lanes.len() - 1
            }));
        }
        Ok(Self {
            ring,
            arena,
            vectored,
            event,
            enabled,
            slots: Vec::new(),
            free: Vec::new(),
            lanes,
            lane_of,
            in_kernel: 0,
            done: Vec::new(),
        })
    }
    pub(crate) fn event_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
    pub(crate) fn known_memory(&self) -> Option<KnownMemory> {
        self.arena.clone().map(KnownMemory::new)
    }
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() + self.done.len()
    }

    pub(crate) fn read(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        let slot = self.arena.as_ref().and_then(|arena| AlignedBuf::in_arena(arena, len_bytes));
        self.queue(token, dev, offset, len_bytes, Work::Read { buf: slot.unwrap_or_else(|| AlignedBuf::for_read(len_bytes)) });
    }
    pub(crate) fn write(&mut self, token: Token, dev: Dev, offset: u64, bufs: Vec<Bytes>, durability: Durability) {
        let len_bytes = bufs.iter().map(Bytes::len).sum();
        let known = (bufs.len() == 1 || self.vectored) && self.arena.as_ref().is_some_and(|arena| bufs.iter().all(|buf| arena.has(buf)));
        self.queue(token, dev, offset, len_bytes, Work::Write { bufs, durability, known });
    }
    pub(crate) fn flush(&mut self, token: Token, dev: Dev) {
        self.queue(token, dev, 0, 0, Work::Flush);
    }
    fn queue(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize, work: Work) {
        let slot = Slot { token, dev, offset, len_bytes, done_bytes: 0, retries: 0, work, pieces: Vec::new() };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[index as usize] = Some(slot);
        self.lane(dev).waiting.push_back(index);
    }
    fn lane(&mut self, dev: Dev) -> &mut Lane {
        &mut self.lanes[self.lane_of[dev.0 as usize]]
    }
    fn nobody_waits(&self) -> bool {
        self.lanes.iter().all(|lane| lane.waiting.is_empty())
    }

    /// Gives the kernel as much as it takes.
    pub(crate) fn kick(&mut self) {
        loop {
            self.fill_queue();
            // Empty, or the kernel takes no more before completions are polled.
            if self.ring.submission().is_empty() || !self.enter(0) {
                return;
            }
        }
    }
    /// Moves waiting operations to the submission queue.
    fn fill_queue(&mut self) {
        let mut queue = self.ring.submission();
        for lane in &mut self.lanes {
            while self.in_kernel < IN_KERNEL_MAX && lane.in_kernel < lane.max && !queue.is_full() {
                let Some(index) = lane.waiting.pop_front() else { break };
                let slot = self.slots[index as usize].as_mut().expect("a waiting operation has a slot");
                let entry = slot.entry().user_data(index as u64);
                // SAFETY: the entry points into the slot's buffers and pieces, which stay where they are until the slot is freed on its completion.
                unsafe { queue.push(&entry).expect("the queue is not full") };
                lane.in_kernel += 1;
                self.in_kernel += 1;
            }
        }
    }
    /// Submits what is in the queue, waits for `want` completions, and has the kernel post those that are there. False: try again later.
    fn enter(&mut self, want: usize) -> bool {
        if !self.enabled {
            self.ring.submitter().register_enable_rings().expect("a ring that was set up disabled can be enabled");
            self.enabled = true;
        }
        loop {
            let to_submit = self.ring.submission().len() as u32;
            const GETEVENTS: u32 = 1; // IORING_ENTER_GETEVENTS, include/uapi/linux/io_uring.h
            // SAFETY: no signal mask is given, and all entries were pushed by `fill_queue`.
            let entered = unsafe { self.ring.submitter().enter::<libc::sigset_t>(to_submit, want as u32, GETEVENTS, None) };
            match entered {
                Ok(_) => return true,
                Err(e) if e.raw_os_error() == Some(libc::EINTR) => continue,
                // Out of memory for requests, or completions must be taken first: what is queued stays queued.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) => return false,
                Err(e) => panic!("io_uring_enter failed in a way that has no remedy: {e}"),
            }
        }
    }

    /// Appends what has completed; continues what ended short.
    pub(crate) fn poll(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
        if self.in_kernel > 0 {
            self.post();
        }
        self.reap(out);
        if !self.nobody_waits() {
            self.kick();
        }
    }
    /// Has the kernel post what is there to post, some at a time. What is posted here is reaped at once, so the eventfd, which would bring another
    /// turn for each, is quiet meanwhile. What comes after it is on again signals it; what came just before is seen by the flag.
    ///
    /// The flag alone says nothing: the completer of an operation sets it after it has handed it over, and if we took it in between, the flag
    /// stays (seen on 6.18: this loop never ended). Completions alone say nothing either: an operation that found no tag is handed over too, and
    /// only given to a worker then; and while anything is left, what adds to it sends no signal (seen: the next tick found them, 0.8 s later). So
    /// when nothing comes, the eventfd is on, and as many times more as there can be something left: what comes later signals it.
    fn post(&mut self) {
        let mut left = None;
        while self.ring.submission().taskrun() || self.ring.submission().cq_overflow() {
            let before = self.ring.completion().len();
            if left.is_none() {
                self.ring.completion().disable_eventfd();
            }
            let entered = self.enter(0);
            self.ring.completion().enable_eventfd();
            std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
            if !entered || self.ring.submission().cq_overflow() || left == Some(0) {
                return;
            }
            left = match left {
                Some(n) => Some(n - 1),
                None if self.ring.completion().len() > before => None,
                None => Some(self.in_kernel.div_ceil(RUN_AT_ONCE)),
            };
        }
    }
    fn reap(&mut self, out: &mut Vec<Completion>) {
        loop {
            // One at a time: the queue is borrowed from the ring, and `finish` needs the rest of it.
            let Some(entry) = self.ring.completion().next() else { return };
            self.in_kernel -= 1;
            let index = entry.user_data() as u32;
            let slot = self.slots[index as usize].as_mut().expect("a completion's slot is in use");
            let lane = &mut self.lanes[self.lane_of[slot.dev.0 as usize]];
            lane.in_kernel -= 1;
            if let Some(result) = slot.progress(entry.result()) {
                let slot = self.slots[index as usize].take().expect("it was there a line above");
                self.free.push(index);
                out.push(slot.complete(result));
            } else {
                lane.waiting.push_back(index);
            }
        }
    }
    /// Blocks until the kernel has something to reap, but no longer than `limit`; true if it has. The eventfd is quiet meanwhile, as in `post`: what
    /// comes before it is on again is seen by the next `poll`.
    pub(crate) fn linger(&mut self, limit: Duration) -> bool {
        if self.in_kernel == 0 || !self.enabled || !self.ring.params().is_feature_ext_arg() {
            return false;
        }
        self.ring.completion().disable_eventfd();
        let limit = io_uring::types::Timespec::from(limit);
        // Too late, interrupted, or nothing more is taken now: all of it is as if nothing had come.
        let _ = self.ring.submitter().submit_with_args(1, &io_uring::types::SubmitArgs::new().timespec(&limit));
        self.ring.completion().enable_eventfd();
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        !self.ring.completion().is_empty()
    }
    /// Kicks and blocks until there is a completion.
    pub(crate) fn wait(&mut self) {
        let mut found = std::mem::take(&mut self.done);
        while found.is_empty() && self.in_flight() > 0 {
            self.fill_queue();
            self.enter(1);
            self.reap(&mut found);
        }
        self.kick();
        self.done = found;
    }
}

impl Drop for Ring {
    /// The kernel may be writing into the slots' buffers: they are freed when it no longer does.
    fn drop(&mut self) {
        let forget = |lanes: &mut [Lane]| lanes.iter_mut().for_each(|lane| lane.waiting.clear());
        forget(&mut self.lanes);
        let mut sink = Vec::new();
        while self.in_kernel > 0 {
            self.enter(1);
            self.reap(&mut sink);
            // What ended short is not continued.
            forget(&mut self.lanes);
        }
        // The kernel takes a ring down in its own time; the files, and their locks, shall be free now. If this fails, they are a little later.
        let _ = self.ring.submitter().unregister_files();
    }
}

impl Slot {
    /// The kernel's view of what is left to do.
    fn entry(&mut self) -> squeue::Entry {
        let file = Fixed(self.dev.0 as u32);
        let (offset, left) = (self.offset + self.done_bytes as u64, self.len_bytes - self.done_bytes);
        match &mut self.work {
            Work::Flush => opcode::Fsync::new(file).flags(io_uring::types::FsyncFlags::DATASYNC).build(),
            Work::Read { buf } => {
                // SAFETY: `done_bytes` is within the buffer.
                let at = unsafe { buf.as_mut_ptr().add(self.done_bytes) };
                match buf.is_in_arena() {
                    // The arena is the only memory that was registered.
                    true => opcode::ReadFixed::new(file, at, left as u32, 0).offset(offset).build(),
                    false => opcode::Read::new(file, at, left as u32).offset(offset).build(),
                }
            }
            Work::Write { bufs, durability, known } => {
                let flags = if *durability == Durability::Durable { libc::RWF_DSYNC } else { 0 };
                if let [buf] = &bufs[..] {
                    let rest = &buf[self.done_bytes..];
                    let (at, len) = (rest.as_ptr(), rest.len() as u32);
                    return match known {
                        true => opcode::WriteFixed::new(file, at, len, 0).offset(offset).rw_flags(flags as _).build(),
                        false => opcode::Write::new(file, at, len).offset(offset).rw_flags(flags as _).build(),
                    };
                }
                self.pieces.clear();
                let mut skip = self.done_bytes;
                for buf in bufs.iter() {
                    let rest = &buf[skip.min(buf.len())..];
                    skip = skip.saturating_sub(buf.len());
                    let full = self.pieces.len() == PIECES_MAX;
                    match self.pieces.last_mut() {
                        _ if rest.is_empty() => {}
                        // Cut from one buffer.
                        Some(last) if last.iov_base as usize + last.iov_len == rest.as_ptr() as usize => last.iov_len += rest.len(),
                        _ if full => break,
                        _ => self.pieces.push(libc::iovec { iov_base: rest.as_ptr() as *mut libc::c_void, iov_len: rest.len() }),
                    }
                }
                let (at, len) = (self.pieces.as_ptr(), self.pieces.len() as u32);
                match known {
                    true => opcode::WritevFixed::new(file, at, len, 0).offset(offset).rw_flags(flags as _).build(),
                    false => opcode::Writev::new(file, at, len).offset(offset).rw_flags(flags as _).build(),
                }
            }
        }
    }
    /// Takes in the kernel's answer; `None` if the operation goes on.
    fn progress(&mut self, result: i32) -> Option<Result<(), DiskError>> {
        if matches!(-result, libc::EINTR | libc::EAGAIN) && self.retries < RETRIES_MAX {
            self.retries += 1;
            return None;
        }
        if result < 0 {
            return Some(Err(self.error(-result)));
        }
        if matches!(self.work, Work::Flush) {
            return Some(Ok(()));
        }
        self.retries = 0;
        let done_bytes = self.done_bytes + result as usize;
        if done_bytes >= self.len_bytes {
            return Some(Ok(()));
        }
        // A direct transfer that ended inside a block goes on from that block's start, and if that is no progress, it never will.
        let whole = done_bytes - done_bytes % crate::BLOCK_BYTES;
        if whole == self.done_bytes {
            let Self { dev, offset, len_bytes, .. } = *self;
            return Some(Err(DiskError::Short { dev, offset, len_bytes, done_bytes }));
        }
        self.done_bytes = whole;
        None
    }
    fn error(&self, errno: i32) -> DiskError {
        let Self { dev, offset, len_bytes, .. } = *self;
        match self.work {
            Work::Flush => DiskError::Flush { dev, errno },
            Work::Write { .. } if matches!(errno, libc::ENOSPC | libc::EDQUOT) => DiskError::NoSpace { dev, offset, len_bytes },
            Work::Write { .. } => DiskError::Write { dev, offset, len_bytes, errno },
            Work::Read { .. } => DiskError::Read { dev, offset, len_bytes, errno },
        }
    }
    fn complete(self, result: Result<(), DiskError>) -> Completion {
        let read = match self.work {
            Work::Read { buf } => Some(buf),
            _ => None,
        };
        Completion { token: self.token, result: result.map(|()| read) }
    }
}

/// A block device's logical sector in bytes.
pub(crate) fn sector_bytes(device: &std::fs::File) -> io::Result<u32> {
    const BLKSSZGET: libc::Ioctl = 0x1268; // _IO(0x12, 104), include/uapi/linux/fs.h
    let mut sector: libc::c_int = 0;
    // SAFETY: the call writes one int to the place that it is given.
    let rc = unsafe { libc::ioctl(device.as_raw_fd(), BLKSSZGET, &mut sector) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(sector as u32) }
}
