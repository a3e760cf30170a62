//! A descriptor of one's own beside that of a ring.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Another descriptor for what `fd` is open on, for a caller that wants to wait for [`crate::Disks::event_fd`] and own what it waits for.
pub fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call touches no memory, and a number that is no descriptor is an error.
    let new = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
    if new < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}
