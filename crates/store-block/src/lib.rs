//! The block store: objects on a data device, a log and a metadata device, durable in one write.
//!
//! ```text
//!   Transaction ─ queue ─ write ──> changes (`ops`) ──> apply ──> objects, rows, allocator, overlay       in memory, at once
//!                                        └──> wal::Batch ──> record + runs ──> commit                     durable, one write
//!                                                               overlay ──> images to their places        later
//!                                      layers ──> checkpoint ──> leaves, index, superblock; log trimmed   seldom
//! ```
//!
//! | room | what is there |
//! |---|---|
//! | [`open`] | a store is found on its devices, and its log replayed; `layout` says what is where |
//! | [`data`] | from a transaction to a record, to the places of its data, and back to readers |
//! | [`rows`] | the metadata: what rows say, rows in memory and in leaves, the checkpoints between |
//! | [`place`] | room on the devices, and the shares of memory |
//! | [`check`] | whether all of it agrees, and what damage has taken |
//!
//! Holds no clock, no file and no thread: devices are `disk::Disks`, and nothing here waits for them but opening.

#![forbid(unsafe_code)]

mod block_store;
mod check;
mod data;
mod open;
mod place;
pub mod planted;
mod rows;
mod state;
#[cfg(test)]
mod tests;

// Crash states allocate a lot.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use block_store::{BlockStore, Memory, Stats};
pub use check::damaged::Damage;
pub use check::fsck::{ERRORS_MAX, FsckReport};
pub use data::io::Wrote;
pub use open::config::{Config, MEMORY_DEFAULT};
pub use open::recover::OpenError;
