//! Class `user`: what radosgw keeps of a user's buckets ([`buckets`]) and of an account's resources ([`account`]).
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/user/*`; accounts are of 20.2.

mod account;
mod buckets;
mod records;

use crate::registry::Class;

pub static CLASS: Class = Class { name: "user", families: &[buckets::METHODS, account::METHODS] };

/// Entries in one answer.
const LIST_MAX: u64 = 1000;
