//! Discards, on a thread of their own: the kernel has no call for a block device's that does not wait, and a file's waits for its file
//! system.
//!
//! ```text
//!   discard ──> thread: BLKDISCARD, or a hole is punched ──> the set's event ──> poll
//! ```
//! The thread is there from the first discard on. One is carried out at a time, in their order.

use crate::DiskError;
use crate::disks::{Completion, Dev, Token};
use std::io;
use std::os::fd::RawFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Where a device of the set is discarded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Stays open for as long as the [`Discarder`] lives.
    pub(crate) file: RawFd,
    pub(crate) is_device: bool,
}

struct Job {
    token: Token,
    dev: Dev,
    offset: u64,
    len_bytes: usize,
}

type Done = (Token, Result<(), DiskError>);

struct Worker {
    jobs: Sender<Job>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
}

pub(crate) struct Discarder {
    targets: Vec<Target>,
    /// Signalled when one has ended.
    event: RawFd,
    worker: Option<Worker>,
    under_way: usize,
    /// Found by `wait`, until it is polled.
    found: Vec<Done>,
}

impl Discarder {
    /// For the set's devices, in their order.
    pub(crate) fn new(targets: Vec<Target>, event: RawFd) -> Self {
        Self { targets, event, worker: None, under_way: 0, found: Vec::new() }
    }
    pub(crate) fn discard(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        let worker = self.worker.get_or_insert_with(|| start(self.targets.clone(), self.event));
        self.under_way += 1;
        worker.jobs.send(Job { token, dev, offset, len_bytes }).expect("the thread takes jobs until it is told to end");
    }
    /// Those whose end was not told.
    pub(crate) fn in_flight(&self) -> usize {
        self.under_way + self.found.len()
    }
    pub(crate) fn poll(&mut self, out: &mut Vec<Completion>) {
        if self.in_flight() == 0 {
            return;
        }
        while let Some(Ok(done)) = self.worker.as_ref().map(|worker| worker.done.try_recv()) {
            self.under_way -= 1;
            self.found.push(done);
        }
        out.extend(self.found.drain(..).map(|(token, result)| Completion { token, result: result.map(|()| None) }));
    }
    /// Blocks until one has ended; returns at once if none is under way.
    pub(crate) fn wait(&mut self) {
        if self.under_way > 0
            && self.found.is_empty()
            && let Some(worker) = &self.worker
        {
            self.found.push(worker.done.recv().expect("the thread tells each end"));
            self.under_way -= 1;
        }
    }
}

impl Drop for Discarder {
    /// Another process may have the devices when their locks are gone, and must not lose what it writes there: the thread ends before.
    fn drop(&mut self) {
        if let Some(Worker { jobs, done, thread }) = self.worker.take() {
            drop((jobs, done));
            let _ = thread.join();
        }
    }
}

fn start(targets: Vec<Target>, event: RawFd) -> Worker {
    let ((jobs, todo), (told, done)) = (channel::<Job>(), channel());
    let work = move || {
        for Job { token, dev, offset, len_bytes } in todo {
            let result = discard(targets[usize::from(dev.0)], offset, len_bytes as u64);
            let errno = |e: io::Error| e.raw_os_error().unwrap_or(0);
            let result = result.map_err(|e| DiskError::Discard { dev, offset, len_bytes, errno: errno(e) });
            if told.send((token, result)).is_err() {
                // The set is being dropped: what is left is of no use.
                return;
            }
            signal(event);
        }
    };
    let thread = std::thread::Builder::new().name("discard".into()).spawn(work).expect("a thread");
    Worker { jobs, done, thread }
}

fn signal(event: RawFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight bytes are read of memory that has them. The descriptor is open: the set joins this thread before it closes it.
    // A counter that is full is signalled already.
    let _ = unsafe { libc::write(event, one.as_ptr().cast(), one.len()) };
}

fn discard(target: Target, offset: u64, len_bytes: u64) -> io::Result<()> {
    const BLKDISCARD: libc::Ioctl = 0x1277; // _IO(0x12, 119), include/uapi/linux/fs.h
    const HOLE: libc::c_int = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    loop {
        let rc = if target.is_device {
            let range = [offset, len_bytes];
            // SAFETY: the call reads two numbers at the place that it is given.
            unsafe { libc::ioctl(target.file, BLKDISCARD, range.as_ptr()) }
        } else {
            // SAFETY: a call without memory.
            unsafe { libc::fallocate(target.file, HOLE, offset as libc::off_t, len_bytes as libc::off_t) }
        };
        if rc == 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        if e.raw_os_error() != Some(libc::EINTR) {
            return Err(e);
        }
    }
}
