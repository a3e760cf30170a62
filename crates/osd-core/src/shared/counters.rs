//! Counters of a shard for others to see; several shards' are to be summed.

use crate::history::History;
use crate::perf::Perf;
use crate::perf_queries::PerfQueries;

/// See the module.
#[derive(Default)]
pub struct Counters {
    pub perf: Perf,
    /// Reads that the store could not answer because of damage.
    pub(crate) damaged: u64,
    /// Requests that took longest.
    pub(crate) history: History,
    /// What the manager wants counted by client, image and the like.
    pub(crate) perf_queries: PerfQueries,
}
