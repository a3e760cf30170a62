//! The manager endpoint: what daemons report, the map that names the active manager, and statistics for clients.
//!
//! It gets what it shows from MPGStats and MMgrReport alone, as any manager does. It stands back for a stock manager, whose reports are
//! then what the monitor shows.

mod beacon;
mod endpoint;
mod map;
pub mod pgmap;
mod proxy;
mod report;
pub mod services;
mod stats;

pub use map::{MgrMapService, NAME};
pub use pgmap::PgMap;
pub use proxy::Proxy;
pub use report::{Digests, StockReport};
pub use services::ServiceMapService;

use std::collections::{BTreeMap, BTreeSet};
use types::{PgId, UTime};

/// A daemon that reports to us.
#[derive(Debug, Clone, Default)]
pub struct DaemonState {
    pub metadata: BTreeMap<String, String>,
    pub status: BTreeMap<String, String>,
    /// Its configuration as it said in MMgrOpen or MMgrReport, encoded.
    pub config: bytes::Bytes,
    pub last_seen: UTime,
    /// Slow operations, and the age of the oldest in seconds.
    pub slow_ops: (u32, u32),
}

/// The manager's state. All but the services is learnt anew with each start.
#[derive(Debug, Default)]
pub struct Manager {
    pub pgs: PgMap,
    /// By `osd.0` and the like.
    pub daemons: BTreeMap<String, DaemonState>,
    pub services: ServiceMapService,
    /// What the active manager said last, if it is a stock one.
    pub stock: Option<StockReport>,
    pub digests: Digests,
    pub proxy: Proxy,
    /// Groups of which it was said that they keep a pool from its number of groups.
    pub(crate) blocked_merges: BTreeSet<PgId>,
}
