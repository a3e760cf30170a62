//! The manager endpoint: what daemons report, the map that names the active manager, and statistics for clients.
//!
//! It gets what it shows from MPGStats and MMgrReport alone, as any manager does. It stands back for a stock manager, whose reports are
//! then what the monitor shows.

mod beacon;
pub mod clients;
pub mod counters;
mod endpoint;
mod map;
pub mod past;
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

use crate::session::ConnId;
use base::Stamp;
use std::collections::{BTreeMap, BTreeSet};
use types::{PgId, UTime};

/// A daemon that reports to us.
#[derive(Debug, Clone, Default)]
pub struct DaemonState {
    pub metadata: BTreeMap<String, String>,
    /// Over which it reports: the row ends with it.
    pub conn: Option<ConnId>,
    pub status: BTreeMap<String, String>,
    /// Its configuration as it said in MMgrOpen or MMgrReport, encoded.
    pub config: bytes::Bytes,
    pub last_seen: UTime,
    /// Slow operations, and the age of the oldest in seconds.
    pub slow_ops: (u32, u32),
    /// Groups that it is to create and has not heard of yet.
    pub pending_creates: u32,
    pub perf: counters::Counters,
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
    /// The last hour.
    pub past: past::Past,
    /// Something that is open shows the state, and something asked for it until then.
    pub(crate) viewers: bool,
    pub(crate) looked_until: Stamp,
    /// What clients do, while a browser looks.
    pub clients: clients::Clients,
    /// True while OSDs report each second.
    pub(crate) watched: bool,
    /// Groups of which it was said that they keep a pool from its number of groups.
    pub(crate) blocked_merges: BTreeSet<PgId>,
}
