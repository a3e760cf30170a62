//! Does all that a store has agree, what damage has taken of it, and why it has stopped.

pub mod damaged;
pub mod fsck;
pub mod invariants;
pub mod repair;
pub mod salvage;
pub mod stopped;
