//! Backfill: a member whose log reaches back to nothing of the group's gets every object, in their order, while the group serves.
//!
//! ```text
//!                   last_backfill            started              ours, theirs
//!   min ─────────────────┼──────────────────────┼──────────────────────┼───────────────────── max
//!     the target has all │ under way, or told   │ listed here and      │ not looked at
//!     durably            │ to it and not yet    │ there, and compared  │
//!                        │ durable              │ next                 │
//!   a write goes there with its data ───────────┤ only its entry in the log goes there ──────
//! ```
//!
//! | file | holds |
//! |---|---|
//! | [`interval`] | objects of a range with their versions, as a member has them; how they are listed |
//! | [`fill`] | on the primary: what is compared, sent and removed, and how far the target is |
//! | [`sweep`] | on the primary: what a target that is too full has too many |
//! | [`target`] | on the target: what it answers and how it keeps how far it is |
//!
//! An object is sent as recovery sends it ([`super::recovery`]): while it is under way the target lacks it, so that writes wait. Which group may be
//! filled when is [`super::places::want`]'s to say. Memory is bounded by two pages of names and by the objects under way.
//!
//! Source of the facts: Ceph 18.2 `src/osd/PrimaryLogPG.cc` (`recover_backfill`, `do_scan`, `do_backfill`, `do_backfill_remove`).

pub mod fill;
pub mod interval;
pub mod sweep;
pub mod target;

#[cfg(test)]
mod tests;
