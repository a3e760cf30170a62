//! Class `fifo`: radosgw's queues that have no size: a head object ([`meta`]) and parts ([`part`]) that fill one after the other.
//!
//! Source of the formats, errnos and rules: Ceph 18.2 `src/cls/fifo/*`.

mod meta;
mod part;
mod reader;
mod records;

use crate::registry::Class;

pub static CLASS: Class = Class { name: "fifo", families: &[meta::METHODS, part::METHODS] };
