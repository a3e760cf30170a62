//! The block store: objects on a data device, a log and a metadata device, durable in one write.
//!
//! ```text
//!   Transaction ─ queue ─ write ──> changes (`ops`) ──> apply ──> objects, rows, allocator, overlay       in memory, at once
//!                                        └──> wal::Batch ──> record + runs ──> commit                     durable, one write
//!                                                               overlay ──> images to their places        later
//!                                      layers ──> checkpoint ──> leaves, index, superblock; log trimmed   seldom
//! ```
//! `layout` says what is where. Holds no clock, no file and no thread: devices are `disk::Disks`, and nothing here waits for them but opening.

#![forbid(unsafe_code)]

mod alloc;
mod apply;
mod attr_cells;
mod attrs;
mod block_store;
#[cfg(test)]
mod bounds;
mod budget;
mod checkpoint;
mod codec;
mod colls;
mod commit;
mod config;
mod counter;
mod counters;
#[cfg(test)]
mod crash;
mod damaged;
#[cfg(test)]
mod fill;
mod finalize;
mod fsck;
mod gaps;
mod holes;
#[cfg(test)]
mod index_parts;
mod invariants;
mod io;
mod key;
#[cfg(test)]
mod large;
#[cfg(test)]
mod large_attrs;
#[cfg(test)]
mod large_rows;
mod layers;
mod layout;
mod leaves;
mod load;
mod log;
mod log_reader;
mod maxima;
mod meta;
mod names;
mod objects;
mod onode;
mod ops;
mod overlay;
mod packed;
mod pg;
mod pg_log;
mod pg_row;
#[cfg(test)]
mod places;
pub mod planted;
mod queue;
mod read;
mod reads;
mod recover;
mod refs;
mod repair;
mod replay;
mod room;
mod salvage;
#[cfg(test)]
mod scattered;
#[cfg(test)]
mod shared;
mod spill;
#[cfg(test)]
mod spoiled;
mod state;
#[cfg(test)]
mod steps;
mod stopped;
mod superblock;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unreadable;
mod wal;
mod way;
mod write;

// Crash states allocate a lot.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use block_store::{BlockStore, Memory, Stats};
pub use config::{Config, MEMORY_DEFAULT};
pub use damaged::Damage;
pub use fsck::{ERRORS_MAX, FsckReport};
pub use io::Wrote;
pub use recover::OpenError;
