//! Parts of a file or device: several sets of devices live on one, each in a window of its own.
//!
//! Holds a window's place and its lock. Opening a whole file takes `flock` exclusively; opening a window takes it shared and a lock on the
//! window's bytes (`fcntl(2)`, open file description locks): windows that overlap refuse each other, and so do a window and the whole.
//! Absent: how a device is shared out.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Bytes of a file or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub start_bytes: u64,
    pub len_bytes: u64,
}

impl Window {
    /// The first byte behind it; `None` if there is no such number.
    pub fn end_bytes(&self) -> Option<u64> {
        self.start_bytes.checked_add(self.len_bytes)
    }
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |w: &Self| w.end_bytes().unwrap_or(u64::MAX);
        self.start_bytes < end(other) && other.start_bytes < end(self)
    }
    /// Locks it against every other window that shares a byte with it, until the file is closed; false if one is there.
    pub(crate) fn try_lock(&self, file: &File) -> io::Result<bool> {
        match self.set_lock(file, libc::F_WRLCK) {
            Ok(()) => Ok(true),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(e) => Err(e),
        }
    }
    pub(crate) fn unlock(&self, file: &File) -> io::Result<()> {
        self.set_lock(file, libc::F_UNLCK)
    }
    fn set_lock(&self, file: &File, kind: libc::c_int) -> io::Result<()> {
        let number = |n: u64| i64::try_from(n).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW));
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: number(self.start_bytes)?,
            l_len: number(self.len_bytes)?,
            l_pid: 0,
        };
        // SAFETY: the descriptor is open, and the call reads one structure that lives as long as it.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
