//! Files and block devices as a set of devices: opened, locked, measured; their transfers are the ring's.

use crate::discard::{Discarder, Target};
use crate::disks::{Completion, Dev, Disks, Durability, Token};
use crate::error::OpenError;
use crate::uring::{Ring, Way};
use crate::{BLOCK_BYTES, KnownMemory, Window, zero_blocks};
use bytes::Bytes;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files or block devices behind one io_uring. Belongs to the thread that uses it first.
pub struct FileDisks {
    // Before the files and the ring, whose event it signals: dropped first, with its thread.
    discarder: Discarder,
    // Before the files: dropped first, and with it whatever is under way.
    ring: Ring,
    files: Vec<OpenFile>,
}

struct OpenFile {
    /// Holds the lock.
    file: File,
    len_bytes: u64,
    is_device: bool,
    /// The part that is ours; all of it if there is none.
    window: Option<Window>,
    way: Way,
}

impl FileDisks {
    /// Opens these for direct IO, locked against every other opener of this kind; `Dev(0)` is the first. Sizes are taken now and stay.
    pub fn open(paths: &[&Path]) -> Result<Self, OpenError> {
        let whole: Vec<_> = paths.iter().map(|path| (*path, None)).collect();
        Self::open_windows(&whole)
    }
    /// The same for parts of files or devices: offset 0 is a window's start, and only what overlaps it is kept away.
    pub fn open_windows(parts: &[(&Path, Option<Window>)]) -> Result<Self, OpenError> {
        let mut files = Vec::with_capacity(parts.len());
        for (path, window) in parts {
            files.push(OpenFile::open(path, *window)?);
        }
        let fds: Vec<RawFd> = files.iter().map(|f| f.file.as_raw_fd()).collect();
        let ways: Vec<Way> = files.iter().map(|f| f.way.clone()).collect();
        let targets = files.iter().map(|f| Target { file: f.file.as_raw_fd(), is_device: f.is_device }).collect();
        let ring = Ring::new(&fds, &ways).map_err(OpenError::Ring)?;
        Ok(Self { discarder: Discarder::new(targets, ring.event_fd()), ring, files })
    }
    /// Memory from which writes to these devices cost the least; `None` where the system gives none.
    pub fn known_memory(&self) -> Option<KnownMemory> {
        self.ring.known_memory()
    }
    fn check(&self, dev: Dev, offset: u64, len_bytes: u64) {
        let end = offset.checked_add(len_bytes).expect("an end");
        assert!(offset.is_multiple_of(BLOCK_BYTES as u64) && len_bytes.is_multiple_of(BLOCK_BYTES as u64), "whole blocks");
        assert!(len_bytes > 0 && end <= self.files[dev.0 as usize].len_bytes, "{len_bytes} bytes at {offset} are not within the device");
    }
    /// Where the file has what the set has at `offset`.
    fn place(&self, dev: Dev, offset: u64) -> u64 {
        self.files[dev.0 as usize].window.map_or(0, |window| window.start_bytes) + offset
    }
}

impl OpenFile {
    fn open(path: &Path, window: Option<Window>) -> Result<Self, OpenError> {
        let failed = |e| OpenError::io(path, e);
        let kind = std::fs::metadata(path).map_err(failed)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OpenError::Kind(path.to_path_buf()));
        }
        // O_EXCL on a device keeps file systems and their like away from it; but every other window, too.
        let exclusive = if kind.is_block_device() && window.is_none() { libc::O_EXCL } else { 0 };
        let open = |flags| OpenOptions::new().read(true).write(true).custom_flags(flags | exclusive | libc::O_CLOEXEC).open(path);
        let file = match open(libc::O_DIRECT) {
            // File systems in memory have no direct IO.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => open(0),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => return Err(OpenError::InUse(path.to_path_buf())),
            other => other,
        };
        let mut file = file.map_err(failed)?;
        match if window.is_some() { file.try_lock_shared() } else { file.try_lock() } {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_path_buf())),
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        if kind.is_block_device() {
            let sector_bytes = crate::uring::sector_bytes(&file).map_err(failed)?;
            if sector_bytes as usize > BLOCK_BYTES {
                return Err(OpenError::Sectors { path: path.to_path_buf(), sector_bytes });
            }
        }
        let mut len_bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
        if let Some(window) = window {
            let fits = window.end_bytes().is_some_and(|end| end <= len_bytes) && window.start_bytes.is_multiple_of(BLOCK_BYTES as u64);
            if !fits {
                return Err(OpenError::Window { path: path.to_path_buf(), window });
            }
            if !window.try_lock(&file).map_err(failed)? {
                return Err(OpenError::InUse(path.to_path_buf()));
            }
            len_bytes = window.len_bytes;
        }
        let way = way_to(&file).map_err(failed)?;
        let is_device = kind.is_block_device();
        Ok(Self { file, len_bytes: len_bytes - len_bytes % BLOCK_BYTES as u64, is_device, window, way })
    }
}

/// The disk that a block device is, or that a file is on, and its tags as sysfs has them. File systems without a disk of their own have none.
fn way_to(file: &File) -> io::Result<Way> {
    let meta = file.metadata()?;
    let disk = if meta.file_type().is_block_device() { meta.rdev() } else { meta.dev() };
    let numbers = PathBuf::from(format!("/sys/dev/block/{}:{}", libc::major(disk), libc::minor(disk)));
    // A partition's queue is its disk's.
    let queue = ["queue", "../queue"].iter().find_map(|queue| numbers.join(queue).canonicalize().ok());
    let tags = queue.as_ref().and_then(|queue| std::fs::read_to_string(queue.join("nr_requests")).ok()?.trim().parse().ok());
    Ok(Way { disk: queue.unwrap_or(numbers), tags })
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // Closing unlocks too, but only when the last of the kernel's own references is gone.
        let _ = self.window.map(|window| window.unlock(&self.file));
        let _ = self.file.unlock();
    }
}

impl Disks for FileDisks {
    fn len_bytes(&self, dev: Dev) -> u64 {
        self.files[dev.0 as usize].len_bytes
    }
    fn read(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        self.check(dev, offset, len_bytes as u64);
        self.ring.read(token, dev, self.place(dev, offset), len_bytes);
    }
    fn write(&mut self, token: Token, dev: Dev, offset: u64, bufs: Vec<Bytes>, durability: Durability) {
        let mut len_bytes = 0;
        for buf in &bufs {
            assert!((buf.as_ptr() as usize).is_multiple_of(BLOCK_BYTES) && buf.len().is_multiple_of(BLOCK_BYTES), "aligned blocks");
            len_bytes += buf.len() as u64;
        }
        self.check(dev, offset, len_bytes);
        self.ring.write(token, dev, self.place(dev, offset), bufs, durability);
    }
    fn flush(&mut self, token: Token, dev: Dev) {
        assert!((dev.0 as usize) < self.files.len(), "a device of the set");
        self.ring.flush(token, dev);
    }
    fn discard(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        self.check(dev, offset, len_bytes as u64);
        self.discarder.discard(token, dev, self.place(dev, offset), len_bytes);
    }
    fn kick(&mut self) {
        self.ring.kick();
    }
    fn poll(&mut self, out: &mut Vec<Completion>) {
        self.ring.poll(out);
        self.discarder.poll(out);
    }
    fn in_flight(&self) -> usize {
        self.ring.in_flight() + self.discarder.in_flight()
    }
    fn wait(&mut self) {
        // Whichever comes first is not known: a discard is waited for only where there is nothing else.
        match self.ring.in_flight() {
            0 => self.discarder.wait(),
            _ => self.ring.wait(),
        }
    }
    fn linger(&mut self, limit: Duration) -> bool {
        self.ring.linger(limit)
    }
    fn event_fd(&self) -> Option<RawFd> {
        Some(self.ring.event_fd())
    }
}

/// Makes a file of `len_bytes` whose first `zeroed_bytes` are written with zeros and durable, its place in the folder too; the rest is a hole, to be
/// written with [`zero_blocks`] before it is used. Blocks that are only reserved would cost a journal commit of the file system with each
/// durable write. Fails if the file is there.
pub fn create_zeroed(path: &Path, len_bytes: u64, zeroed_bytes: u64) -> Result<(), OpenError> {
    assert!(len_bytes.is_multiple_of(BLOCK_BYTES as u64) && zeroed_bytes <= len_bytes, "whole blocks");
    let make = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.set_len(len_bytes)?;
        for piece in zero_blocks(zeroed_bytes.next_multiple_of(BLOCK_BYTES as u64)) {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    };
    make().map_err(|e| OpenError::io(path, e))
}
