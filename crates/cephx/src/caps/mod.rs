//! Capabilities: texts like `allow rw pool=rbd`, parsed, and asked whether they allow something.
//!
//! What no grant allows is denied. A text that can't be read grants nothing: what stores one checks it first
//! ([`check`]), what loads one gets a value that denies everything.
//!
//! Source of the grammars: Ceph 18.2 `src/osd/OSDCap.cc`, `src/mon/MonCap.cc`, `src/mgr/MgrCap.cc`. Alternatives are tried in the
//! order in which Ceph tries them and a later failure does not come back to an earlier choice, so the same texts are refused.

mod constraint;
mod mgr;
mod mon;
mod network;
mod osd;
mod parser;

pub use constraint::Constraint;
pub use mgr::{MgrCap, MgrRequest};
pub use mon::{MonCap, MonRequest};
pub use network::Network;
pub use osd::{ClassCall, OsdCap, OsdRequest};

use std::ops::{BitOr, BitOrAssign};
use thiserror::Error;

/// A capability text that is not in its grammar.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CapError {
    /// Printed as Ceph prints it.
    #[error("{what} capability parse failed, stopped at '{rest}' of '{text}'")]
    Syntax { what: &'static str, rest: String, text: String },
    #[error("mgr capability parse failed during profile evaluation: {0}")]
    Profile(String),
    #[error("unknown cap type '{0}'")]
    UnknownService(String),
}

/// Checks a text before it is stored for `service` (`mon`, `osd`, `mgr`, `mds`).
pub fn check(service: &str, text: &str) -> Result<(), CapError> {
    match service {
        "mon" => MonCap::parse(text).map(drop),
        "osd" => OsdCap::parse(text).map(drop),
        "mgr" => MgrCap::parse(text).map(drop),
        // There is no MDS of ours; its text is kept for a stock one, which reads it itself.
        "mds" => Ok(()),
        other => Err(CapError::UnknownService(other.into())),
    }
}

/// Read, write and execute, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Perm(u8);

impl Perm {
    pub const NONE: Self = Self(0);
    pub const R: Self = Self(1);
    pub const W: Self = Self(2);
    pub const X: Self = Self(4);
    pub const RW: Self = Self(3);
    pub const RWX: Self = Self(7);
    /// `*`: more than all the others together.
    pub const ANY: Self = Self(0xff);

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
    /// The set of those that are needed.
    pub fn needed(read: bool, write: bool, exec: bool) -> Self {
        Self(u8::from(read) | u8::from(write) << 1 | u8::from(exec) << 2)
    }
}
impl BitOr for Perm {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
impl BitOrAssign for Perm {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
