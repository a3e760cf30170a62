//! Tests of the store as a whole.

mod bounds;
mod conformance;
pub(crate) mod crash;
mod fill;
mod give_back;
mod index_blocks;
pub(crate) mod index_parts;
mod large;
mod large_attrs;
pub(crate) mod large_rows;
mod places;
mod scattered;
mod shared;
mod spoiled;
mod steps;
mod unreadable;
