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
//! question ([`ToShard::Ask`], `Inquire`, `Load`) is answered by a message, which may be late ([`crate::late`]): Control relies on no answer
//! being new. Beside messages shards read the maps of before ([`crate::map_cache::Maps`]), and both write where the loop stands.

use crate::config::Config;
use crate::event::{ConnId, Peer};
use crate::figures::{Figures, Question};
use crate::found::Found;
use crate::inquiry::{Inquiry, Said};
use crate::perf::C;
use base::{Permit, Stamp};
use maps::OsdMap;
use messages::{Framed, MOSDForceRecovery, MOSDPGCreate2, MOSDScrub2, RawMessage, SpanNs};
use std::rc::Rc;
use types::{EntityAddr, Epoch, IntervalSet, OsdId, OsdSuperblock, Transaction, Uuid};

/// What a shard is told.
pub(crate) enum ToShard {
    /// The store is read, as far as it gives: what it remembers of this OSD is told as [`ToControl::Loaded`].
    /// The OSD is named once, and then it is only told that something has happened.
    Load(Option<Box<OsdSuperblock>>),
    /// After that: groups are raised to this map, those that are behind it and those whose records name it.
    Raise {
        map: Rc<OsdMap>,
        cluster_fsid: Uuid,
    },
    /// No other map is to be raised to: what is left waits for maps that are not here.
    Raised,
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
    /// Control has said all that this turn brought: work that is busy wants one of its own.
    TurnOver,
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
    /// A command that a shard has a part in, answered by [`ToControl::Said`].
    Inquire(Box<Inquiry>),
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
    /// A group's record can't be read, and its other members would wait for it: the OSD ends, and another start finds the same.
    Unusable,
    /// An answer to [`ToShard::Ask`].
    Told(Box<Figures>),
    /// An answer to [`ToShard::Inquire`].
    Said(Box<Said>),
    /// The store is read, or why it can't be.
    Loaded(Box<Result<Found, String>>),
}

impl ToControl {
    /// True if Control asked for it.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Told(_) | Self::Said(_) | Self::Loaded(_))
    }
}
