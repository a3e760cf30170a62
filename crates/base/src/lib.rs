//! What the standard library lacks and every layer needs: time as a value, chance as a value, Ceph's crc32c.
//!
//! Holds no clock and no entropy: shells read those and pass them down. Knows no word of RADOS.

#![forbid(unsafe_code)]

mod crc;
mod jenkins;
mod rng;
mod time;

pub use crc::{crc32c, crc32c_zeros};
pub use jenkins::jenkins_mix;
pub use rng::Rng;
pub use time::{Clock, Stamp};
