//! What a load submits: transactions as an OSD makes them, with the object's info and a log entry beside the data.

use base::Rng;
use bytes::Bytes;
use store::{FastInfo, InfoChange, LogDelta};
use types::{
    CEPH_NOSNAP, CollId, EVersion, GHObject, HObject, LogOp, ModDesc, OI_ATTR, ObjectStatSum, PgId, PgInfo, PgLogEntry, ReqId, SS_ATTR,
    SpgId, Transaction, UTime,
};

const POOL: i64 = 1;
const GROUPS: u32 = 32;
/// Entries that a group's log has, and how many go at once when it has more.
const LOG_ENTRIES: usize = 2000;
const LOG_TRIM: usize = 100;
/// Bytes of `_` and `snapset` as they usually are.
const INFO_BYTES: usize = 250;
const SNAPSET: &[u8; 35] = &[7; 35];

/// A block of an object.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    object: u64,
    block: u64,
}

/// A group's log, as far as deltas need it.
#[derive(Debug, Clone, Default)]
struct Group {
    versions: std::collections::VecDeque<u64>,
    sum: ObjectStatSum,
}

/// Objects of one size, and which workers write to them.
pub struct Work {
    block: u64,
    object: u64,
    objects: u64,
    data: Bytes,
    whole: Bytes,
    rng: Rng,
    version: u64,
    groups: Vec<Group>,
}

fn bytes(len: u64) -> Bytes {
    let mut out = vec![0; len as usize];
    Rng::new(9).fill(&mut out);
    out.into()
}

fn name(n: u64) -> GHObject {
    let hash = (n as u32).wrapping_mul(0x9e37_79b9).rotate_left(7) ^ n as u32;
    let oid = format!("humboldt_bench_store_{n:016x}").into();
    GHObject::plain(HObject { oid, hash, pool: POOL, snap: CEPH_NOSNAP, ..HObject::min() })
}
fn group_of(object: &GHObject) -> SpgId {
    SpgId::whole(PgId::new(POOL, object.hobj.hash & (GROUPS - 1)))
}

impl Work {
    /// `objects` objects of `object` bytes, written and read by `block` bytes.
    pub fn new(block: u64, object: u64, objects: u64) -> Self {
        let groups = vec![Group::default(); GROUPS as usize];
        Self { block, object, objects, data: bytes(block), whole: bytes(object), rng: Rng::new(1), version: 0, groups }
    }
    pub fn objects(&self) -> u64 {
        self.objects
    }
    pub fn object_bytes(&self) -> u64 {
        self.object
    }
    pub fn block_bytes(&self) -> u64 {
        self.block
    }
    /// Block `n`, counted through all objects and from the first again behind the last.
    pub fn next(&self, n: u64) -> Spot {
        let per_object = self.object / self.block;
        Spot { object: n / per_object % self.objects, block: n % per_object }
    }
    /// Any block.
    pub fn any(&mut self) -> Spot {
        Spot { object: self.rng.below(self.objects), block: self.rng.below(self.object / self.block) }
    }
    /// Where a block is: collection, object, offset, bytes.
    pub fn place(&self, spot: Spot) -> (CollId, GHObject, u64, u64) {
        let object = name(spot.object);
        (CollId::Pg(group_of(&object)), object, spot.block * self.block, self.block)
    }
    /// What makes the groups' collections.
    pub fn collections(&self) -> Vec<(Transaction, LogDelta)> {
        let make = |seed| {
            let pg = SpgId::whole(PgId::new(POOL, seed));
            let mut txn = Transaction::new(CollId::Pg(pg));
            txn.create_collection(CollId::Pg(pg), GROUPS.trailing_zeros());
            (txn, LogDelta { epoch: Some(1), info: InfoChange::Full(Box::new(PgInfo::new(pg))), ..LogDelta::new(pg) })
        };
        (0..GROUPS).map(make).collect()
    }
    pub fn write(&mut self, spot: Spot) -> (Transaction, LogDelta) {
        self.change(spot.object, spot.block * self.block, self.data.clone())
    }
    /// A whole object.
    pub fn fill(&mut self, object: u64) -> (Transaction, LogDelta) {
        self.change(object, 0, self.whole.clone())
    }
    fn change(&mut self, object: u64, offset: u64, data: Bytes) -> (Transaction, LogDelta) {
        let object = name(object);
        let pg = group_of(&object);
        self.version += 1;
        let version = EVersion::new(20, self.version);
        let len = data.len() as i64;
        let mut txn = Transaction::new(CollId::Pg(pg));
        txn.write(&object, offset, data, 0);
        // Versions, times and a digest change; the rest stays.
        let mut info = vec![0x5a; INFO_BYTES];
        info[60..68].copy_from_slice(&self.version.to_le_bytes());
        info[80..88].copy_from_slice(&self.version.to_le_bytes());
        info[140..148].copy_from_slice(&self.rng.u64().to_le_bytes());
        txn.set_attr(&object, OI_ATTR, info.into());
        if offset == 0 {
            txn.set_attr(&object, SS_ATTR, Bytes::from_static(SNAPSET));
        }
        let entry = PgLogEntry {
            op: LogOp::MODIFY,
            soid: object.hobj.clone(),
            version,
            prior_version: EVersion::new(20, self.version - 1),
            reqid: ReqId { tid: self.version, ..ReqId::default() },
            mtime: UTime { sec: 1_700_000_000, nsec: self.version as u32 },
            user_version: self.version,
            mod_desc: ModDesc::unrollbackable(),
            ..PgLogEntry::default()
        };
        let group = &mut self.groups[pg.pgid.seed as usize];
        group.sum.num_bytes += len;
        group.sum.num_wr += 1;
        group.sum.num_wr_kb += len / 1024;
        group.versions.push_back(self.version);
        let fast = FastInfo { last_update: version, last_complete: version, last_user_version: self.version, sum: group.sum };
        let mut delta = LogDelta { entries: vec![entry], info: InfoChange::Fast(fast), ..LogDelta::new(pg) };
        if group.versions.len() > LOG_ENTRIES {
            delta.trim_to = group.versions.drain(..LOG_TRIM).next_back().map(|v| EVersion::new(20, v));
        }
        (txn, delta)
    }
}
