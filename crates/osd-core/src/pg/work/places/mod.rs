//! Places for recovery and backfill: those that a group wants of its members' OSDs ([`want`]), and the one that it lends to its primary ([`lend`]). What is
//! said of them, and what they allow, is in [`claims`].

pub(in crate::pg) mod claims;
pub mod lend;
pub mod want;
