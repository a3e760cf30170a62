//! The messages of Ceph's protocol: bytes in, structs out. One file a family.
//!
//! Holds no connection, no map type and no behaviour. A map inside a message stays the encoded bytes that it came as.

#![forbid(unsafe_code)]

pub mod raw;

pub use raw::{Message, RawMessage};
