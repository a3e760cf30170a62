//! One entry of a group's log in the short form that is kept in memory: its version, its requests, and what those were answered.
//!
//! An entry has the request that made it, and more where the object came with requests of its own (a copy, a promotion by a stock primary): a
//! client that sends one of those again must not have it executed a second time. Holds no order of entries and no index; those are [`super::log`]'s.

use types::{EVersion, EntityKind, EntityName, OpReturn, PgLogDup, PgLogEntry, ReqId};

/// What a resend is answered with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Returned {
    pub code: i32,
    pub ops: Vec<OpReturn>,
}

/// A request that came with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Extra {
    reqid: ReqId,
    user_version: u64,
    code: i32,
}

/// What few entries have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Rest {
    returned: Returned,
    extras: Vec<Extra>,
}

/// One entry. There are hundreds of thousands: its fields lie as close as they can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogItem {
    version: u64,
    user_version: u64,
    client: i64,
    tid: u64,
    /// If it is more than a 0.
    rest: Option<Box<Rest>>,
    epoch: u32,
    inc: i32,
    /// Of the object: a split goes by it.
    hash: u32,
    kind: EntityKind,
    /// False: its own request is none that could be sent again.
    indexed: bool,
}

const _: () = assert!(size_of::<LogItem>() <= 56);

impl LogItem {
    fn new(version: EVersion, user_version: u64, reqid: ReqId, rest: Rest) -> Self {
        let rest = (rest != Rest::default()).then(|| Box::new(rest));
        let (EVersion { version, epoch }, ReqId { name, tid, inc }) = (version, reqid);
        Self { version, user_version, client: name.num, tid, rest, epoch, inc, hash: 0, kind: name.kind, indexed: true }
    }
    pub fn of_dup(d: PgLogDup) -> Self {
        let returned = Returned { code: d.return_code, ops: d.op_returns };
        Self::new(d.version, d.user_version, d.reqid, Rest { returned, extras: Vec::new() })
    }
    pub fn of_entry(e: &PgLogEntry) -> Self {
        let ops = e.op_returns.iter().map(|r| OpReturn { rval: r.rval, bl: denc::Bytes::copy_from_slice(&r.bl) }).collect();
        let extra = |(n, (reqid, user_version)): (u32, &(ReqId, u64))| {
            // An error of the entry is that of all its requests; else each has its own.
            let own = e.extra_reqid_return_codes.get(&n).filter(|_| e.return_code >= 0);
            Extra { reqid: *reqid, user_version: *user_version, code: own.copied().unwrap_or(e.return_code) }
        };
        let rest = Rest { returned: Returned { code: e.return_code, ops }, extras: (0..).zip(&e.extra_reqids).map(extra).collect() };
        Self { hash: e.soid.hash, indexed: e.reqid_is_indexed(), ..Self::new(e.version, e.user_version, e.reqid, rest) }
    }

    pub fn version(&self) -> EVersion {
        EVersion { version: self.version, epoch: self.epoch }
    }
    /// Of the object.
    pub fn hash(&self) -> u32 {
        self.hash
    }
    fn reqid(&self) -> ReqId {
        ReqId { name: EntityName { kind: self.kind, num: self.client }, tid: self.tid, inc: self.inc }
    }
    fn extras(&self) -> &[Extra] {
        self.rest.as_deref().map_or(&[], |rest| &rest.extras)
    }
    /// Requests that may be sent again.
    pub fn requests(&self) -> impl Iterator<Item = ReqId> {
        self.indexed.then(|| self.reqid()).into_iter().chain(self.extras().iter().map(|extra| extra.reqid))
    }
    pub fn has(&self, reqid: &ReqId) -> bool {
        self.indexed && self.reqid() == *reqid || self.extras().iter().any(|extra| extra.reqid == *reqid)
    }
    /// User version and answer of one of its requests.
    pub fn answer(&self, reqid: &ReqId) -> (u64, Returned) {
        match self.extras().iter().find(|extra| extra.reqid == *reqid) {
            Some(extra) if !self.indexed || self.reqid() != *reqid => {
                // What its operations returned came with no copy.
                (extra.user_version, Returned { code: extra.code, ops: Vec::new() })
            }
            _ => (self.user_version, self.rest.as_deref().map(|rest| rest.returned.clone()).unwrap_or_default()),
        }
    }
    /// What stays of it when it is trimmed: a duplicate for each of its requests.
    pub fn dups(&self) -> impl Iterator<Item = PgLogDup> {
        self.requests().map(|reqid| {
            let (user_version, Returned { code, ops }) = self.answer(&reqid);
            PgLogDup { reqid, version: self.version(), user_version, return_code: code, op_returns: ops }
        })
    }
    /// An item for each of its requests, as duplicates are.
    pub fn apart(self) -> impl Iterator<Item = Self> {
        let several: Vec<Self> = if self.extras().is_empty() { Vec::new() } else { self.dups().map(Self::of_dup).collect() };
        let one = (several.is_empty() && self.indexed).then_some(self);
        one.into_iter().chain(several)
    }
    /// In which order items of two logs stand in one.
    pub fn rank(&self) -> (EVersion, i64, u64, i32) {
        (self.version(), self.client, self.tid, self.inc)
    }
    /// True if both tell of the same requests.
    pub fn is_same(&self, other: &Self) -> bool {
        self.version() == other.version() && self.requests().eq(other.requests())
    }
}
