//! The store's descriptor in the runtime's epoll: the one place of this crate that must vouch for a descriptor.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Becomes ready when the store has something to say.
pub struct StoreWake(AsyncFd<OwnedFd>);

impl StoreWake {
    /// A descriptor of our own for what `fd` is open on, in the epoll of the runtime that we run in.
    pub fn register(fd: RawFd) -> io::Result<Self> {
        let fd = disk::duplicate(fd)?;
        // SAFETY: an OwnedFd is open for as long as it lives, is the same all the time, and moves into the AsyncFd.
        let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        registered.map(Self).map_err(io::Error::from)
    }
    /// Waits. What is said from now on makes it ready again.
    pub async fn wait(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}
