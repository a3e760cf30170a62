//! What a device answers instead of what was asked.

use crate::Dev;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why an operation failed. `errno` is the kernel's, positive.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DiskError {
    /// These blocks can't be read; others may be.
    #[error("device {}: reading {len_bytes} bytes at {offset} failed (errno {errno})", dev.0)]
    Read { dev: Dev, offset: u64, len_bytes: usize, errno: i32 },
    /// What is in these blocks now is unknown.
    #[error("device {}: writing {len_bytes} bytes at {offset} failed (errno {errno})", dev.0)]
    Write { dev: Dev, offset: u64, len_bytes: usize, errno: i32 },
    /// There is no room under the file (its blocks were not written ahead of use). What is in these blocks now is unknown.
    #[error("device {}: no space left for {len_bytes} bytes at {offset}", dev.0)]
    NoSpace { dev: Dev, offset: u64, len_bytes: usize },
    /// The transfer ended at `done_bytes` of `len_bytes` and does not go on: the file is shorter than it was, say.
    #[error("device {}: {done_bytes} of {len_bytes} bytes transferred at {offset}, then no more", dev.0)]
    Short { dev: Dev, offset: u64, len_bytes: usize, done_bytes: usize },
    /// What was written since the last flush may be lost, whatever a later flush says.
    #[error("device {}: a flush failed (errno {errno})", dev.0)]
    Flush { dev: Dev, errno: i32 },
    /// These bytes can't be discarded, or not by this device: they are as they were, or forgotten in part. Nothing else is wrong with it.
    #[error("device {}: discarding {len_bytes} bytes at {offset} failed (errno {errno})", dev.0)]
    Discard { dev: Dev, offset: u64, len_bytes: usize, errno: i32 },
}

impl DiskError {
    /// The device that answers so.
    pub fn dev(&self) -> Dev {
        let (Self::Read { dev, .. }
        | Self::Write { dev, .. }
        | Self::NoSpace { dev, .. }
        | Self::Short { dev, .. }
        | Self::Flush { dev, .. }
        | Self::Discard { dev, .. }) = self;
        *dev
    }
    /// True if the file system below does not let anything be written any more.
    pub fn is_read_only(&self) -> bool {
        // Source: Linux, errno-base.h.
        const EROFS: i32 = 30;
        matches!(self, Self::Write { errno: EROFS, .. } | Self::Flush { errno: EROFS, .. })
    }
}

/// Why a set of devices can't be opened or a file can't be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The cause stands in the text, and so is no source: a chain of errors would say it twice.
    #[error("{}: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error("{} is used by another process", .0.display())]
    InUse(PathBuf),
    #[error("{}: sectors of {sector_bytes} bytes are more than a block", path.display())]
    Sectors { path: PathBuf, sector_bytes: u32 },
    #[error("{} is neither a file nor a block device", .0.display())]
    Kind(PathBuf),
    #[error("{}: there are no {} bytes at {}", path.display(), window.len_bytes, window.start_bytes)]
    Window { path: PathBuf, window: crate::Window },
    #[error("io_uring can't be set up: {0}")]
    Ring(io::Error),
}

impl OpenError {
    pub(crate) fn io(path: &std::path::Path, cause: io::Error) -> Self {
        Self::Io { path: path.to_path_buf(), cause }
    }
}
