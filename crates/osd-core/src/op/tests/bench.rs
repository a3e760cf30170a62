//! A placement group's worth of surroundings: plans requests, applies what they change, and checks that what the group would remember is
//! what the store has.

use crate::op::plan::{Limits, ObjectContext, Plan, PlanCtx, PlanKind, PlanStop};
use crate::op::{OpInfo, Source, TrimCtx, load_object, plan, plan_trim};
use maps::PgPool;
use messages::{InOp, MOSDOp};
use std::collections::BTreeSet;
use store::ObjectStore;
use store_mem::MemStore;
use types::osd_op::{Extent, XattrArgs};
use types::{
    Bytes, CEPH_NOSNAP, CollId, EVersion, EntityAddr, EntityKind, EntityName, HObject, ObjectStatSum, OpCode, OsdOp, PgId, ReqId,
    SnapContext, SnapId, SpgId, Transaction, UTime,
};

pub const POOL: i64 = 3;
const EPOCH: u32 = 7;

pub struct Bench {
    pub store: MemStore,
    pub pool: PgPool,
    pub limits: Limits,
    pub coll: CollId,
    pub pgid: SpgId,
    pub version: EVersion,
    pub last_user_version: u64,
    pub snapc: SnapContext,
    pub removed: BTreeSet<SnapId>,
    pub stats: ObjectStatSum,
    pub connected: bool,
    pub classes: &'static classes::Registry,
    pub client: i64,
    pub fetched: Vec<(crate::op::fetch::Wanted, crate::op::fetch::Got)>,
    tid: u64,
}

pub fn head(oid: &str) -> HObject {
    HObject { oid: oid.into(), pool: POOL, snap: CEPH_NOSNAP, hash: 5, ..HObject::min() }
}

/// An operation without data.
pub fn op(code: OpCode) -> InOp {
    InOp::new(OsdOp::new(code), Bytes::new())
}
pub fn extent(code: OpCode, offset: u64, length: u64) -> InOp {
    InOp::new(OsdOp::range(code, offset, length), Bytes::new())
}
/// An operation that writes `data` at `offset`.
pub fn put(code: OpCode, offset: u64, data: &[u8]) -> InOp {
    InOp::new(OsdOp::range(code, offset, data.len() as u64), Bytes::copy_from_slice(data))
}
pub fn truncating(code: OpCode, offset: u64, data: &[u8], truncate_size: u64, truncate_seq: u32) -> InOp {
    let extent = Extent { offset, length: data.len() as u64, truncate_size, truncate_seq };
    InOp::new(OsdOp::with_extent(code, extent), Bytes::copy_from_slice(data))
}
pub fn xattr(code: OpCode, name: &str, value: &[u8]) -> InOp {
    cmpxattr(code, name, value, 0, 0)
}
pub fn cmpxattr(code: OpCode, name: &str, value: &[u8], cmp_op: u8, cmp_mode: u8) -> InOp {
    let args = XattrArgs { name_len: name.len() as u32, value_len: value.len() as u32, cmp_op, cmp_mode };
    InOp::new(OsdOp::with_xattr(code, args), [name.as_bytes(), value].concat().into())
}
/// An operation whose data is the encoding of `value`.
pub fn encoded(code: OpCode, value: &impl denc::Denc) -> InOp {
    InOp::new(OsdOp::new(code), value.to_bytes(0))
}
pub fn flagged(op: InOp, flags: u32) -> InOp {
    InOp { op: OsdOp { flags, ..op.op }, ..op }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Bench {
    pub fn new() -> Self {
        let pgid = SpgId::whole(PgId::new(POOL, 5));
        let coll = CollId::Pg(pgid);
        let mut store = MemStore::new(1 << 30);
        let mut txn = Transaction::new(coll);
        txn.create_collection(coll, 3);
        store.submit(txn, None, 1).unwrap();
        Self {
            store,
            pool: PgPool { pg_num: 8, kind: PgPool::REPLICATED, ..PgPool::default() },
            limits: Limits::default(),
            coll,
            pgid,
            version: EVersion::new(EPOCH, 1),
            last_user_version: 0,
            snapc: SnapContext::default(),
            removed: BTreeSet::new(),
            stats: ObjectStatSum::default(),
            connected: true,
            classes: &classes::BUILTIN,
            client: 4100,
            fetched: Vec::new(),
            tid: 0,
        }
    }

    pub fn message(&self, oid: &str, ops: Vec<InOp>) -> MOSDOp {
        MOSDOp {
            pgid: self.pgid,
            hobj: head(oid),
            ops: ops.into(),
            mtime: UTime { sec: 1000 + self.tid as u32, nsec: 0 },
            ..MOSDOp::default()
        }
    }
    pub fn source(&self) -> Source<'_> {
        Source::new(&self.store, self.coll)
    }
    pub fn load(&self, hobj: &HObject) -> ObjectContext {
        load_object(self.source(), hobj).unwrap()
    }

    /// Plans a message and, if it changes something, makes it so.
    pub fn send(&mut self, m: &MOSDOp) -> Result<Plan, PlanStop> {
        self.tid += 1;
        let head = self.load(&m.hobj.head());
        let mut planned = self.plan_only(m, &head)?;
        self.apply(&mut planned);
        Ok(planned)
    }

    pub fn plan_only(&self, m: &MOSDOp, head: &ObjectContext) -> Result<Plan, PlanStop> {
        let info = OpInfo::of(m.flags, m.ops.iter().map(|op| (&op.op, &op.indata)), self.classes).map_err(PlanStop::Reply)?;
        let addr = EntityAddr::default();
        let name = EntityName { kind: EntityKind::CLIENT, num: self.client };
        let ctx = PlanCtx {
            passes: None,
            pgid: self.pgid,
            pool: &self.pool,
            limits: &self.limits,
            classes: self.classes,
            reqid: ReqId { name, tid: self.tid, inc: 0 },
            mtime: m.mtime,
            now: UTime { sec: 2000, nsec: 0 },
            at_version: self.version,
            last_update: EVersion::new(EPOCH, self.version.version - 1),
            last_user_version: self.last_user_version,
            snapc: &self.snapc,
            snap_removed: &|snap| self.removed.contains(&snap),
            peer_addr: &addr,
            peer_features: u64::MAX,
            peer_supported: u64::MAX,
            osd_features: u64::MAX,
            watch_connected: &|_| self.connected,
            next_notify_id: 77,
            notify_budget: 1 << 20,
            fetched: &self.fetched,
            entropy: 1,
            min_compat_client: 15,
            required_osd_release: 18,
        };
        plan(&ctx, self.source(), head, &info, m)
    }

    pub fn apply(&mut self, plan: &mut Plan) {
        for entry in &plan.log {
            assert_eq!(entry.version, self.version, "entries have versions without gaps");
            self.version.version += 1;
            self.last_user_version = self.last_user_version.max(entry.user_version);
        }
        match plan.kind {
            PlanKind::Read => assert!(plan.log.is_empty() && plan.txn.is_empty() && plan.changed.is_empty()),
            PlanKind::LogOnly => assert!(plan.log.len() == 1 && plan.log[0].is_error() && plan.txn.is_empty()),
            PlanKind::Write => {
                self.stats += &plan.stats;
                self.store.submit(std::mem::take(&mut plan.txn), None, self.version.version).unwrap();
                for context in &plan.changed {
                    let loaded = self.load(context.hobj());
                    assert_eq!((loaded.exists, &loaded.info), (context.exists, &context.info), "{:?}", context.hobj());
                    assert_eq!(loaded.snapset, context.snapset);
                }
            }
        }
    }

    /// Sends operations; the overall result.
    pub fn run(&mut self, oid: &str, ops: Vec<InOp>) -> i32 {
        self.all(oid, ops).0
    }
    /// Sends operations; the overall result, and what each answers.
    pub fn all(&mut self, oid: &str, ops: Vec<InOp>) -> (i32, Vec<(i32, Bytes)>) {
        let m = self.message(oid, ops);
        self.answer(&m)
    }
    pub fn answer(&mut self, m: &MOSDOp) -> (i32, Vec<(i32, Bytes)>) {
        match self.send(m) {
            Ok(plan) => (plan.result, plan.ops.iter().map(|r| (r.rval, r.out.flat())).collect()),
            Err(PlanStop::Reply(errno)) => (-errno, Vec::new()),
            Err(other) => panic!("{other:?}"),
        }
    }
    pub fn at_snap(&mut self, oid: &str, snap: SnapId, ops: Vec<InOp>) -> (i32, Vec<(i32, Bytes)>) {
        let mut m = self.message(oid, ops);
        m.hobj.snap = snap;
        self.answer(&m)
    }
    /// The object's data, or the errno.
    pub fn read(&mut self, oid: &str) -> Result<Bytes, i32> {
        self.read_at(oid, CEPH_NOSNAP)
    }
    pub fn read_at(&mut self, oid: &str, snap: SnapId) -> Result<Bytes, i32> {
        let (result, mut ops) = self.at_snap(oid, snap, vec![extent(OpCode::READ, 0, 0)]);
        if result < 0 { Err(result) } else { Ok(ops.remove(0).1) }
    }
    /// Takes a snapshot: what clients send with their next write.
    pub fn snap(&mut self) -> SnapId {
        self.snapc.seq += 1;
        self.snapc.snaps.insert(0, self.snapc.seq);
        self.snapc.seq
    }
    /// Whether trimming the object's newest clone of this snapshot changes anything.
    pub fn trims(&mut self, oid: &str, snap: SnapId) -> bool {
        let head = self.load(&head(oid));
        let clone = self.load(&head.hobj().at_snap(*head.snapset.clones.last().expect("it has a clone")));
        let ctx = TrimCtx { pgid: self.pgid, at_version: self.version, snap, snap_removed: &|_| false, osd_features: u64::MAX };
        plan_trim(&ctx, &clone, &head).is_some()
    }
    /// Removes a snapshot and trims what it leaves of one object.
    pub fn remove_snap(&mut self, oid: &str, snap: SnapId) {
        self.snapc.snaps.retain(|s| *s != snap);
        self.removed.insert(snap);
        let head = self.load(&head(oid));
        let Some(clone) = head.snapset.clones.iter().find(|c| head.snapset.clone_snaps[c].contains(&snap)) else { return };
        let clone = self.load(&head.hobj().at_snap(*clone));
        let ctx = TrimCtx { pgid: self.pgid, at_version: self.version, snap, snap_removed: &|_| false, osd_features: u64::MAX };
        let mut plan = plan_trim(&ctx, &clone, &head).unwrap();
        self.apply(&mut plan);
    }
}
