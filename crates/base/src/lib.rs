//! What the standard library lacks and every layer needs: time as a value, chance as a value, a budget, Ceph's crc32c, a switch for
//! bugs that tests plant.
//!
//! Holds no clock and no entropy: shells read those and pass them down. Knows no word of RADOS.

#![forbid(unsafe_code)]

mod aside;
pub mod breadcrumb;
pub mod budget;
mod crc;
pub mod fixed;
mod jenkins;
mod planted;
mod rng;
mod time;

pub use aside::Account;
pub use budget::{Budget, BudgetStats, Permit, Turn};
pub use crc::{crc32c, crc32c_zeros};
pub use jenkins::jenkins_mix;
pub use rng::Rng;
pub use time::{Clock, Stamp};
