//! What planning an operation takes and gives: the agreement between op execution (this module) and the placement group (its owner).
//!
//! Holds data only. The group builds a [`PlanCtx`], calls [`crate::op::plan`] and gets a [`Plan`]: it answers a [`PlanKind::Read`] at once,
//! logs a [`PlanKind::LogOnly`], and submits a [`PlanKind::Write`], taking over its object states into its cached contexts in the same turn.

use bytes::Bytes;
use classes::Registry;
use maps::PgPool;
use smallvec::SmallVec;
use types::{
    EVersion, EntityAddr, HObject, ObjectInfo, ObjectStatSum, PgLogEntry, ReqId, SnapContext, SnapId, SnapSet, SpgId, Transaction, UTime,
    WatchInfo,
};

/// What the group knows of one object, head or clone: cached by the group and replaced from each submitted plan.
#[derive(Debug, Clone)]
pub struct ObjectContext {
    /// True for whiteouts too: they are kept for their clones' sake, and read as absent.
    pub exists: bool,
    /// With the object's name; all else is default unless `exists`.
    pub info: ObjectInfo,
    /// The head's; empty in a clone's context.
    pub snapset: SnapSet,
}

/// Limits of an operation, from the OSD's configuration. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// `osd_max_object_size`: offsets and ends at or behind it are `EFBIG`.
    pub object_size_max: u64,
    /// `osd_max_write_size`: data of one message.
    pub write_size_max: u64,
    /// `osd_max_object_name_len`, for names and locator keys.
    pub object_name_max: usize,
    /// `osd_max_object_namespace_len`.
    pub namespace_max: usize,
    /// `osd_max_attr_size`; 0 for none.
    pub attr_size_max: u64,
    /// `osd_max_attr_name_len`.
    pub attr_name_max: usize,
    /// `osd_max_omap_entries_per_request`.
    pub omap_entries_max: u64,
    /// `osd_max_omap_bytes_per_request`.
    pub omap_bytes_max: usize,
    /// `osd_max_write_op_reply_len`: what one operation of a returnvec write may answer.
    pub write_reply_max: usize,
    /// `osd_max_pgls`: objects in one answer of a listing.
    pub list_max: u64,
    /// `osd_client_watch_timeout`.
    pub watch_timeout_s: u32,
    /// `osd_default_notify_timeout`.
    pub notify_timeout_s: u32,
    /// `osd_class_load_list`: classes that may be called at all.
    pub classes_loaded: ClassList,
    /// `osd_class_default_list`: those that a capability's `x` covers; others must be named by it.
    pub classes_by_default: ClassList,
}

/// The default of `osd_class_default_list`, as 20.2 has it: 18.2 has no `sem_set`.
pub const CLASSES_BY_DEFAULT: &str =
    "cephfs hello journal lock log numops otp rbd refcount rgw rgw_gc timeindex user version cas cmpomap queue 2pc_queue fifo sem_set";

/// Names of classes, between blanks; `*` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassList {
    all: bool,
    names: Vec<String>,
}

impl ClassList {
    pub fn parse(text: &str) -> Self {
        let names: Vec<String> = text.split_whitespace().map(String::from).collect();
        Self { all: names.iter().any(|name| name == "*"), names }
    }
    pub fn has(&self, class: &str) -> bool {
        self.all || self.names.iter().any(|name| name == class)
    }
}

impl Default for Limits {
    /// The defaults of 18.2 (`src/common/options/osd.yaml.in`).
    fn default() -> Self {
        Self {
            object_size_max: 128 << 20,
            write_size_max: 90 << 20,
            object_name_max: 2048,
            namespace_max: 256,
            attr_size_max: 0,
            attr_name_max: 100,
            omap_entries_max: 1024,
            omap_bytes_max: 1 << 30,
            write_reply_max: 64,
            list_max: 1024,
            watch_timeout_s: 30,
            notify_timeout_s: 30,
            classes_loaded: ClassList::parse("*"),
            classes_by_default: ClassList::parse(CLASSES_BY_DEFAULT),
        }
    }
}

/// What the group and the connection tell of an operation besides the message.
pub struct PlanCtx<'a> {
    pub pgid: SpgId,
    pub pool: &'a PgPool,
    pub limits: &'a Limits,
    pub classes: &'a Registry,
    pub reqid: ReqId,
    /// The client's time of the change (`MOSDOp`'s mtime).
    pub mtime: UTime,
    pub now: UTime,
    /// The version that the group's next log entry gets.
    pub at_version: EVersion,
    /// `pg_info_t::last_update`.
    pub last_update: EVersion,
    /// `pg_info_t::last_user_version`.
    pub last_user_version: u64,
    /// The snapshots that a change must preserve; the client's, or the pool's for pool snapshots, without removed ones.
    pub snapc: &'a SnapContext,
    /// Whether the map's removed_snaps_queue of this pool has a snapshot.
    pub snap_removed: &'a dyn Fn(SnapId) -> bool,
    /// The client's address, as watches and locks remember it.
    pub peer_addr: &'a EntityAddr,
    /// Features of the client's connection.
    pub peer_features: u64,
    /// Features of the client, also those that we lack.
    pub peer_supported: u64,
    /// Features that persistent values are encoded with: what all OSDs of the map have.
    pub osd_features: u64,
    /// Whether that client's watch on this object with that cookie is connected now.
    pub watch_connected: &'a dyn Fn(u64) -> bool,
    /// The id of the next notify; a plan takes as many from here as it has [`WatchEffect::Notify`].
    pub next_notify_id: u64,
    /// Bytes that notifies of this client may hold beside those that are under way.
    pub notify_budget: u64,
    /// What plans before this one wanted of other objects ([`PlanStop::Fetch`]).
    pub fetched: &'a super::fetch::Fetched,
    /// How far calls of this request came in plans before this one; `None` where they run to their end.
    pub passes: Option<&'a super::passes::Passes>,
    /// A fresh random number, for classes that make ids.
    pub entropy: u64,
    /// `require_min_compat_client` and `require_osd_release` of the map, as numbers of releases.
    pub min_compat_client: u8,
    pub required_osd_release: u8,
}

/// No ticket of a store: what waits for it goes on whenever the store has something.
pub const ANY_TICKET: u64 = 0;
/// No ticket of a store either: what waits for it goes on at the group's next turn.
pub const NEXT_TURN: u64 = u64::MAX;

/// The answer of a request that does nothing but read a range, but for the bytes. It is good until the object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    /// The object that serves it, by its head's name: the head or a clone.
    pub snap: SnapId,
    /// What is asked for.
    pub offset: u64,
    /// Bytes from there, within the object's size.
    pub length: u64,
    /// The crc of the bytes, where it is known of the whole object and all of it is read.
    pub digest: Option<u32>,
    pub user_version: u64,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanStop {
    /// The store must fetch bytes: plan again when it names this ticket, or when it names any, for [`ANY_TICKET`].
    Wait(u64),
    /// The same, and of this answer only the bytes are missing: it need not be planned again (see [`super::answer_read`]).
    Read(u64, Awaited),
    /// Something of other objects is wanted: fetch it (see [`super::fetch::Questions`]) and plan again with it in [`PlanCtx::fetched`]; answer
    /// the errno if that fails, and the codes of the operations so far.
    Fetch(Box<super::fetch::Lack>),
    /// The operation is answered with this result and nothing else: not logged, no per-op data (positive errno).
    Reply(i32),
    /// The store can't read what it should have.
    Store(String),
    /// The store has stopped, for this reason.
    Ended(String),
}

/// What is to be done with a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanKind {
    /// Nothing changes: answer, once what was read can no longer be rolled back.
    Read,
    /// A write that failed or had nothing to do: log [`Plan::log`]'s one `Error` entry, then answer.
    LogOnly,
    /// Submit transaction and log entries, answer at commit.
    Write,
}

/// What one operation of the vector answers.
#[derive(Debug, Clone, Default)]
pub struct OpResult {
    /// 0 or positive, or a negative errno.
    pub rval: i32,
    pub out: OutData,
}

/// Bytes of an answer in pieces, shared with where they came from.
pub use store::ReadData as OutData;

/// What happens to watches and notifies, in order: with the answer of a read, at the commit of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEffect {
    /// The watch ends. `send` tells the client (its object was deleted).
    Disconnect { cookie: u64, entity: types::EntityName, send: bool },
    /// The client's connection now stands behind this watch; with `will_ping` the client pings and is timed.
    Connect { info: WatchInfo, will_ping: bool },
    /// The client is alive.
    Ping { cookie: u64 },
    /// Send `payload` to every watcher, answer the client's notify when all have acked or `timeout_s` is over.
    Notify { id: u64, cookie: u64, timeout_s: u32, payload: Bytes },
    /// A watcher's answer; `cookie` None for all watches of that client on the object.
    NotifyAck { id: u64, cookie: Option<u64>, payload: Bytes },
}

/// Which snapshots a clone serves from now on; none when it was removed. What the group's index of snapshots is kept by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapIndexChange {
    pub clone: HObject,
    pub old: Vec<SnapId>,
    pub new: Vec<SnapId>,
}

/// All that an operation means.
#[derive(Debug)]
pub struct Plan {
    pub kind: PlanKind,
    /// The answer's overall result: 0 or positive, or a negative errno.
    pub result: i32,
    /// As many as the message has operations. Without returnvec a successful write's data is already dropped.
    pub ops: SmallVec<[OpResult; 1]>,
    /// Versions of the answer (`MOSDOpReply::set_reply_versions`).
    pub reply_version: EVersion,
    pub reply_user_version: u64,
    /// Low bits of the first read's offset, for the answer's header.
    pub data_off: u16,
    /// Empty unless `kind` is `Write`.
    pub txn: Transaction,
    /// In order, versions from `PlanCtx::at_version` on without gaps. Empty for reads.
    pub log: Vec<PgLogEntry>,
    /// The contexts as they are after the change: first the object's own, then its new clone's or (for a trim) its head's.
    pub changed: SmallVec<[Box<ObjectContext>; 2]>,
    pub snap_index: Vec<SnapIndexChange>,
    /// What the change (or the read: `num_rd`) adds to the group's statistics.
    pub stats: ObjectStatSum,
    pub effects: Vec<WatchEffect>,
}
