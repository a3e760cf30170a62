//! From a transaction to a record, to the places of its data, and back to readers.

pub mod apply;
pub mod commit;
pub mod holes;
pub mod io;
pub mod load;
pub mod log;
pub mod ops;
pub mod overlay;
pub mod queue;
pub mod read;
pub mod reads;
pub mod spill;
pub mod wal;
pub mod way;
pub mod write;
