//! Keys that sort by time, as the classes `log` and `timeindex` have them: `1_SECONDS.MICROSECONDS_` and what the class puts behind.

use types::UTime;

/// What every such key starts with.
pub const PREFIX: &[u8] = b"1_";

/// The first part of the key of a time.
pub fn time_prefix(time: UTime) -> Vec<u8> {
    format!("1_{:010}.{:06}_", time.sec, time.nsec / 1000).into_bytes()
}

/// True if `key` sorts with or behind the keys of the time whose prefix `end` is.
pub fn reaches(key: &[u8], end: &[u8]) -> bool {
    &key[..key.len().min(end.len())] >= end
}

/// True if `key` sorts behind all keys that start with `end`.
pub fn passes(key: &[u8], end: &[u8]) -> bool {
    &key[..key.len().min(end.len())] > end
}
