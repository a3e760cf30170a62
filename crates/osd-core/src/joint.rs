//! Where an OSD is cut in two: what [`Control`](crate::control::Control), which it has once, and a [`Shard`](crate::shard::Shard), which each of its threads
//! would have, say to each other.
//!
//! ```text
//!                       ToShard
//!     Control ─────────────────────────▶ Shard: groups, their requests, sessions, counters, the store
//!     boot, maps, pings,                   │
//!     manager, options ◀───────────────────┘
//!                       ToControl
//! ```
//! Neither holds the other. With one shard a message is a call, made by [`crate::Osd`], which has both: nothing is queued on a request's way. A
//! question of Control's ([`ToShard::Ask`]) is answered by a message, which may be late ([`crate::late`]): Control relies on no answer being new. What is
//! shared beside messages is read-only for shards: the maps of before ([`crate::map_cache::Maps`]) and where the loop stands.

use crate::config::Config;
use crate::event::{ConnId, Peer};
use crate::figures::{Figures, Question};
use crate::perf::C;
use base::{Permit, Stamp};
use maps::OsdMap;
use messages::{Framed, MOSDForceRecovery, MOSDPGCreate2, MOSDScrub2, RawMessage, SpanNs};
use std::rc::Rc;
use types::{EntityAddr, Epoch, IntervalSet, OsdId, Transaction, Uuid};

/// What a shard is told.
pub(crate) enum ToShard {
    /// A client's request, with what it holds of the OSD's budget.
    Request {
        conn: ConnId,
        msg: RawMessage,
        permit: Option<Permit>,
    },
    /// Something else than a request is next: those that were gathered go to their groups.
    Gathered,
    /// What was read at once has all been handed in: what is durable and what the store has fetched is taken.
    TurnEnd,
    /// Work that is busy gets its turn.
    Turn,
    Connected {
        conn: ConnId,
        peer: Peer,
    },
    Reset {
        conn: ConnId,
    },
    /// A message of another OSD about a group.
    Osd(Came),
    /// Another OSD answers a question of ours, or holds it back.
    Answer {
        osd: OsdId,
        msg: RawMessage,
    },
    /// One map further.
    Map(Box<NextMap>),
    /// A change of the OSD's own objects.
    Keep(Transaction),
    /// Records that name a map more than `lag` epochs old are written anew: those maps are to go.
    RefreshRecords {
        lag: Epoch,
    },
    /// The monitors were asked for their newest map: its epoch.
    NewestMap(Epoch),
    /// No other map is next.
    MapsEnd,
    /// After maps: groups are created and peer, and what waited goes on.
    GoOn,
    /// The map has this OSD up where it listens, or no longer.
    Serves(bool),
    /// The monitor wants groups made.
    Creates(MOSDPGCreate2),
    /// Snapshots that all were rid of while this OSD was away.
    Purged {
        pool: i64,
        snaps: IntervalSet,
    },
    /// A new session with a monitor: what groups want of it is said once more.
    MonConnected,
    Scrub(MOSDScrub2),
    ForceRecovery(MOSDForceRecovery),
    /// What the manager wants counted of requests.
    PerfQueries(Vec<(Framed, Vec<Framed>)>),
    /// Options have changed.
    Config(Rc<Config>),
    /// Bytes that the process can spare for the store's caches.
    SpareForCaches(u64),
    /// A ping told how far another OSD's clock is.
    Clock {
        osd: OsdId,
        up_from: Epoch,
        sent: SpanNs,
        /// How far it is ahead of ours at most.
        most: Option<SpanNs>,
        now: Stamp,
    },
    /// Whether backfill must not make the store fuller.
    BackfillFull(bool),
    /// The store is to give back what removals have freed. `asked`: the connection and the number of a command that is answered when it has.
    Compact {
        asked: Option<(ConnId, u64)>,
    },
    /// Something to count that came to Control.
    Count(C, u64),
    /// A question, answered by [`ToControl::Told`].
    Ask(Question),
    Tick,
    /// The tick is nearly over: questions that have no answer are put anew.
    AskAnew,
    /// Leases are renewed, and end.
    LeasesDue,
}

/// A message of another OSD.
#[derive(Clone)]
pub(crate) struct Came {
    /// Proven by its ticket, where there are tickets.
    pub from: OsdId,
    /// The address that it has by its own word; `None`: the caller knows that it is there.
    pub at: Option<EntityAddr>,
    pub msg: RawMessage,
}

/// A map and the one before it.
pub(crate) struct NextMap {
    pub old: Rc<OsdMap>,
    pub new: Rc<OsdMap>,
    /// The cluster as it is known by now.
    pub cluster_fsid: Uuid,
    /// The change of `meta` that keeps the map.
    pub keep: Option<Transaction>,
}

/// Wishes and answers of a shard.
pub(crate) enum ToControl {
    /// A map that others have and we don't.
    WantMaps,
    /// The manager hears of groups before its period is over.
    ReportSoon,
    /// A group got quiet for a merge, or groups of merges may lie elsewhere.
    MergeSoon,
    /// The store had no room for a change.
    StoreRefused,
    /// There was no group in the store when the first map came.
    FoundNoGroup,
    /// An answer to [`ToShard::Ask`].
    Told(Box<Figures>),
}
