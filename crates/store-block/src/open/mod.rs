//! Opening a store: its labels and superblocks, the log behind the last checkpoint, and its way to this version of the layout.

pub mod config;
pub mod finalize;
pub mod layout;
pub mod log_reader;
pub mod recover;
pub mod replay;
pub mod superblock;
