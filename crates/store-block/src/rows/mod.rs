//! The metadata: what each row says, the rows in memory and in leaves, and the checkpoints between.

pub mod attr_cells;
pub mod attrs;
pub mod checkpoint;
pub mod codec;
pub mod colls;
pub mod counter;
pub mod counters;
pub mod key;
pub mod layers;
pub mod leaves;
pub mod meta;
pub mod names;
pub mod objects;
pub mod onode;
pub mod packed;
pub mod pg;
pub mod pg_log;
pub mod pg_row;
