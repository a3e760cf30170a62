//! What the header's omap holds of clients and tags.

use crate::rest::{Rest, kept};
use denc::{ByteStr, Bytes};

/// `cls::journal::ObjectPosition`: the last entry that was taken from a data object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    pub object: u64,
    pub tag_tid: u64,
    pub entry_tid: u64,
    pub rest: Rest,
}
kept!(Position, v 1, compat 1, { object, tag_tid, entry_tid });

/// `cls::journal::ObjectSetPosition`: the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Positions {
    pub of_objects: Vec<Position>,
    pub rest: Rest,
}
kept!(Positions, v 1, compat 1, { of_objects });

/// A client that was given up on keeps nothing from being trimmed.
pub const STATE_DISCONNECTED: u8 = 1;

/// `cls::journal::Client`.
#[derive(Debug, Clone, Default)]
pub struct Client {
    pub id: ByteStr,
    pub data: Bytes,
    pub committed: Positions,
    pub state: u8,
    pub rest: Rest,
}
kept!(Client, v 1, compat 1, { id, data, committed, state });

/// `cls::journal::Tag`.
#[derive(Debug, Clone, Default)]
pub struct Tag {
    pub tid: u64,
    pub class: u64,
    pub data: Bytes,
    pub rest: Rest,
}
kept!(Tag, v 1, compat 1, { tid, class, data });
