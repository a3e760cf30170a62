//! What numbers are worth: mergeable histograms, ratios with intervals, words for them, steady state, and the order of rounds.
//!
//! Everything here is a function of its arguments; chance comes from a seed.

pub mod histogram;
pub mod order;
pub mod ratio;
pub mod steady;
pub mod verdict;

pub use histogram::Latency;
pub use ratio::{Ratio, median};
pub use verdict::{Better, Verdict, Word};
