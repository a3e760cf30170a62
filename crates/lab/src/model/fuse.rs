//! The file that behaves as a modelled device: a FUSE file system of one file, `disk`, which answers when the model says so.
//!
//! Speaks the kernel's protocol (`linux/fuse.h`, 7.31) over /dev/fuse by itself: ten messages are all that one file of fixed size needs, and
//! the crate for it would bring twenty others. Bytes are read and written at once; the answer waits in a queue for its time. So an answer is
//! never early; a host that is slower than the model makes it late.

use super::{Array, Ask, Served};
use crate::sys;
use anyhow::{Context, Result};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The file's name.
pub const NAME: &str = "disk";
const ROOT: u64 = 1;
const DISK: u64 = 2;
/// The largest write that the kernel is let send at once.
const WRITE_MAX: u32 = 1 << 20;
/// Requests that a loop device may have under way.
const UNDER_WAY_MAX: u16 = 256;
const IN_HEADER: usize = 40;
/// Of a write, in front of its bytes.
const WRITE_HEADER: usize = 40;
/// Reads and direct I/O side by side, and requests as large as said.
const INIT_FLAGS: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
/// No page of it in the kernel's cache: that would answer in the device's place.
const OPEN_DIRECT: u32 = 1;
/// The mode of a call that punches a hole.
const HOLE: u32 = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE) as u32;
/// Nothing of it changes: seconds that names and sizes are remembered.
const VALID_S: u64 = 3600;

mod op {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
}

/// Little fields one behind the other, as the protocol's structures have them.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u16(mut self, v: u16) -> Self {
        self.0.extend(v.to_ne_bytes());
        self
    }
    fn u32(mut self, v: u32) -> Self {
        self.0.extend(v.to_ne_bytes());
        self
    }
    fn u64(mut self, v: u64) -> Self {
        self.0.extend(v.to_ne_bytes());
        self
    }
    fn zeros(mut self, n: usize) -> Self {
        self.0.resize(self.0.len() + n, 0);
        self
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("four bytes")))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("eight bytes")))
}

struct Answer {
    unique: u64,
    /// 0, or a negative errno.
    error: i32,
    body: Vec<u8>,
}

impl Answer {
    fn bytes(&self) -> Vec<u8> {
        let length = 16 + self.body.len() as u32;
        let mut all = Fields::default().u32(length).u32(self.error as u32).u64(self.unique).0;
        all.extend(&self.body);
        all
    }
}

/// Answers that wait for their time, by it and by the order of their questions.
#[derive(Default)]
struct Waiting {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    answers: BTreeMap<u64, Answer>,
    next: u64,
}

struct Clockwork {
    waiting: Mutex<Waiting>,
    more: Condvar,
    kernel: File,
}

impl Clockwork {
    fn now(&self, answer: &Answer) {
        // A request that the kernel has given up, or a file system that is unmounted: nothing waits for the answer.
        let _ = (&self.kernel).write(&answer.bytes());
    }
    fn at(&self, due_ns: u64, answer: Answer) {
        let mut w = self.waiting.lock().expect("no holder panics");
        let n = w.next;
        w.next += 1;
        w.heap.push(Reverse((due_ns, n)));
        w.answers.insert(n, answer);
        self.more.notify_one();
    }
    fn run(&self) {
        let mut w = self.waiting.lock().expect("no holder panics");
        loop {
            let now = sys::monotonic_ns();
            match w.heap.peek().copied() {
                Some(Reverse((due, n))) if due <= now => {
                    w.heap.pop();
                    let answer = w.answers.remove(&n);
                    drop(w);
                    answer.iter().for_each(|answer| self.now(answer));
                    w = self.waiting.lock().expect("no holder panics");
                }
                Some(Reverse((due, _))) => w = self.more.wait_timeout(w, Duration::from_nanos(due - now)).expect("no holder panics").0,
                None => w = self.more.wait(w).expect("no holder panics"),
            }
        }
    }
}

struct Disk {
    file: File,
    size: u64,
    device: Array,
}

impl Disk {
    fn attr(&self, node: u64) -> Vec<u8> {
        let (size, mode) = if node == DISK { (self.size, libc::S_IFREG | 0o600) } else { (0, libc::S_IFDIR | 0o700) };
        // ino, size, blocks; three times; their nanoseconds; mode, nlink, uid, gid, rdev, blksize, flags.
        let head = Fields::default().u64(node).u64(size).u64(size / 512).zeros(24 + 12);
        head.u32(mode).u32(1).zeros(12).u32(4096).u32(0).0
    }
    /// What is answered at once: the body, or an errno. None for what has no answer.
    fn answer(&self, code: u32, node: u64, body: &[u8]) -> Option<Result<Vec<u8>, i32>> {
        Some(match code {
            op::INIT => Ok(Fields::default()
                .u32(7)
                .u32(31)
                .u32(u32_at(body, 8))
                .u32(u32_at(body, 12) & INIT_FLAGS)
                .u16(UNDER_WAY_MAX)
                .u16(UNDER_WAY_MAX / 4 * 3)
                .u32(WRITE_MAX)
                .u32(1)
                .u16((WRITE_MAX / 4096) as u16)
                .zeros(34)
                .0),
            op::LOOKUP if node == ROOT && body.strip_suffix(&[0]) == Some(NAME.as_bytes()) => {
                let entry = Fields::default().u64(DISK).u64(0).u64(VALID_S).u64(VALID_S).zeros(8);
                Ok([entry.0, self.attr(DISK)].concat())
            }
            op::LOOKUP => Err(libc::ENOENT),
            op::GETATTR => Ok([Fields::default().u64(VALID_S).zeros(8).0, self.attr(node)].concat()),
            op::OPEN => Ok(Fields::default().u64(0).u32(OPEN_DIRECT).u32(0).0),
            op::STATFS => Ok(Fields::default().zeros(40).u32(4096).u32(255).u32(4096).zeros(28).0),
            // One of close(2), not of the device.
            op::FLUSH | op::RELEASE => Ok(Vec::new()),
            op::FORGET | op::BATCH_FORGET | op::INTERRUPT | op::DESTROY => return None,
            _ => Err(libc::ENOSYS),
        })
    }
    /// What the device does: when it is done, and the answer.
    fn work(&mut self, code: u32, body: &[u8]) -> Option<(u64, Result<Vec<u8>, i32>)> {
        let (at, size) = (u64_at(body, 8), u64::from(u32_at(body, 16)));
        let errno = |e: std::io::Error| e.raw_os_error().unwrap_or(libc::EIO);
        let (ask, done) = match code {
            op::READ => {
                let mut bytes = vec![0; self.size.saturating_sub(at).min(size) as usize];
                let done = self.file.read_exact_at(&mut bytes, at).map_err(errno);
                (Ask::Read { at, len: bytes.len() as u64 }, done.map(|()| bytes))
            }
            op::WRITE => {
                let data = body.get(WRITE_HEADER..).unwrap_or_default();
                let len = data.len() as u64;
                let room = at.checked_add(len).is_some_and(|end| end <= self.size);
                let done = if room { self.file.write_all_at(data, at).map_err(errno) } else { Err(libc::ENOSPC) };
                (Ask::Write { at, len }, done.map(|()| Fields::default().u32(len as u32).u32(0).0))
            }
            op::FSYNC => (Ask::Flush, Ok(Vec::new())),
            // A loop device's discard, or a hole that is punched: nothing else is known here.
            op::FALLOCATE if u32_at(body, 24) == HOLE => {
                let len = u64_at(body, 16);
                (Ask::Discard { at, len }, sys::punch(self.file.as_raw_fd(), at, len).map(|()| Vec::new()).map_err(errno))
            }
            _ => return None,
        };
        Some((self.device.answers(sys::monotonic_ns(), ask), done))
    }
}

/// Serves until it is unmounted.
pub fn serve(served: Served) -> Result<()> {
    let file = File::options().read(true).write(true).open(&served.file).with_context(|| served.file.display().to_string())?;
    let size = file.metadata()?.len();
    let mut disk = Disk { size, file, device: Array::new(&served.model, size) };
    let kernel = File::options().read(true).write(true).open("/dev/fuse").context("/dev/fuse")?;
    sys::mount_fuse(kernel.as_raw_fd(), &served.dir).with_context(|| format!("mounting on {}", served.dir.display()))?;
    let mut requests = kernel.try_clone()?;
    let clockwork = Arc::new(Clockwork { waiting: Mutex::default(), more: Condvar::new(), kernel });
    let of_thread = clockwork.clone();
    std::thread::spawn(move || of_thread.run());
    let mut buffer = vec![0; WRITE_MAX as usize + 8192];
    loop {
        let length = match requests.read(&mut buffer) {
            Ok(length) => length,
            // Unmounted.
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => return Ok(()),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ENOENT)) => continue,
            Err(e) => return Err(e).context("reading /dev/fuse"),
        };
        let request = &buffer[..length];
        if length < IN_HEADER {
            continue;
        }
        let (code, unique, node, body) = (u32_at(request, 4), u64_at(request, 8), u64_at(request, 16), &request[IN_HEADER..]);
        let answer = |result: Result<Vec<u8>, i32>| match result {
            Ok(body) => Answer { unique, error: 0, body },
            Err(errno) => Answer { unique, error: -errno, body: Vec::new() },
        };
        if let Some((due, result)) = disk.work(code, body) {
            clockwork.at(due, answer(result));
        } else if let Some(result) = disk.answer(code, node, body) {
            clockwork.now(&answer(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::file::Model;

    #[test]
    fn structures_have_the_kernels_sizes() {
        let path = std::env::temp_dir().join(format!("lab-fuse-{}", std::process::id()));
        std::fs::write(&path, vec![0; 1 << 16]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut disk = Disk { size: 1 << 16, file, device: Array::new(&Model::default(), 1 << 16) };
        let size = |disk: &Disk, code, node, body: &[u8]| disk.answer(code, node, body).unwrap().unwrap().len();
        assert_eq!(size(&disk, op::INIT, 0, &[0; 64]), 64);
        assert_eq!(size(&disk, op::LOOKUP, ROOT, b"disk\0"), 128);
        assert_eq!(size(&disk, op::GETATTR, DISK, &[0; 16]), 104);
        assert_eq!(size(&disk, op::STATFS, ROOT, &[]), 80);
        assert_eq!(size(&disk, op::OPEN, DISK, &[0; 8]), 16);
        assert_eq!(disk.answer(op::LOOKUP, ROOT, b"other\0"), Some(Err(libc::ENOENT)));
        // What was written is read, and nothing beyond the end is taken.
        let header = |at: u64, len: u32| Fields::default().u64(0).u64(at).u32(len).zeros(20).0;
        let write = [header(4096, 3), b"abc".to_vec()].concat();
        assert_eq!(disk.work(op::WRITE, &write).unwrap().1.map(|b| b.len()), Ok(8));
        assert_eq!(disk.work(op::READ, &header(4096, 3)).unwrap().1, Ok(b"abc".to_vec()));
        assert_eq!(disk.work(op::WRITE, &[header(1 << 16, 1), vec![0]].concat()).unwrap().1, Err(libc::ENOSPC));
        assert_eq!(disk.work(op::WRITE, &[header(u64::MAX, 1), vec![0]].concat()).unwrap().1, Err(libc::ENOSPC));
        std::fs::remove_file(&path).unwrap();
    }
}
