//! Disks under one contract: real ones through io_uring, ones in memory, and ones that crash on purpose.
//!
//! [`Disks`] is a set of devices with one queue: operations are queued, started together by [`Disks::kick`] and come back through
//! [`Disks::poll`]. [`FileDisks`] is files or block devices; [`MemDisks`] is memory with completions and faults at a test's will, and it
//! can keep a [`Recording`] of which [`CrashStates`] gives every state that a power cut could have left.
//!
//! [`ScratchDisks`] lets tools look at devices without changing them. [`LargeMemory`] is for large data that stay in memory.
//!
//! Knows nothing of stores: no layout, checksum, cache or retry.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // the devices themselves: files and threads

mod arena;
mod buf;
mod crash;
mod discard;
mod disks;
mod error;
mod fd;
mod file;
mod folder;
mod large;
mod mem;
mod replace;
mod scratch;
mod space;
mod uring;
mod window;

pub use buf::{AlignedBuf, BLOCK_BYTES, KnownMemory, release_free_buffers, zero_blocks};
pub use crash::{CrashStates, Event, Recording, Tear};
pub use disks::{Completion, Dev, Disks, Durability, Token};
pub use error::{DiskError, OpenError};
pub use fd::duplicate;
pub use file::{FileDisks, create_zeroed};
pub use folder::{create_dirs, sync_dir};
pub use large::{LargeBuf, LargeMemory};
pub use mem::{Fault, FaultKind, Image, MemDisks, Order, Slow, Traffic};
pub use replace::{replace_file, update_file};
pub use scratch::ScratchDisks;
pub use space::free_bytes;
pub use window::Window;
