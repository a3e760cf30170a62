//! The entry: a request becomes a plan. What follows from all operations together is here: the object's new record, its log entries, the
//! answer.

use super::context::{AtSnap, load_object, resolve_clone, resolve_snap};
use super::exec::{Exec, kb};
use super::info::OpInfo;
use super::plan::{Awaited, ObjectContext, OpResult, OutData, Plan, PlanCtx, PlanKind, PlanStop};
use super::read::whole;
use super::source::Source;
use crate::planted::{Bug, planted};
use denc::{Denc, Encoder};
use messages::{InOp, MOSDOp};
use smallvec::{SmallVec, smallvec};
use types::errno::{EINVAL, ENOENT, EOLDSNAPC, EOVERFLOW};
use types::object_info::{OI_ATTR, SS_ATTR};
use types::osd_op::{OpCode, op_flag, osd_flag};
use types::{
    ByteStr, Bytes, CEPH_NOSNAP, CEPH_SNAPDIR, CollId, EVersion, LogOp, ObjectStatSum, OpReturn, PgLogEntry, SnapSet, SpgId, Transaction,
    UTime,
};

/// Bytes that an object's record usually takes.
const INFO_ROOM: usize = 384;

/// Plans a request. `head` is the head of its object; a read at a snapshot goes on to the clone that serves it.
///
/// The group has looked at epoch, capabilities, names, sizes, duplicates and order before, and looks at full flags after (by
/// [`Plan::stats`]).
pub fn plan(ctx: &PlanCtx<'_>, source: Source<'_>, head: &ObjectContext, info: &OpInfo, m: &MOSDOp) -> Result<Plan, PlanStop> {
    let clone;
    let mut obj = head;
    if m.hobj.snap != CEPH_NOSNAP && m.hobj.snap != CEPH_SNAPDIR {
        let at = if m.has(osd_flag::MAP_SNAP_CLONE) {
            resolve_clone(&head.snapset, m.hobj.snap)
        } else {
            resolve_snap(&head.snapset, m.hobj.snap, ctx.snap_removed)
        };
        match at {
            AtSnap::Head => {}
            AtSnap::Clone(snap) => {
                clone = load_object(source, &head.hobj().at_snap(snap))?;
                obj = &clone;
            }
            AtSnap::Nothing => return Err(PlanStop::Reply(ENOENT)),
        }
    }
    let (may_write, returnvec) = (info.may_write, info.returnvec);
    if !may_write {
        let hidden = !obj.exists || (obj.info.is_whiteout() && m.hobj.snap != CEPH_SNAPDIR);
        if hidden && !info.may_cache {
            return Err(PlanStop::Reply(ENOENT));
        }
    } else if m.has(osd_flag::ORDERSNAP) && ctx.snapc.seq < head.snapset.seq {
        return Err(PlanStop::Reply(EOLDSNAPC));
    }
    let mut exec = Exec::new(ctx, source, obj, &head.snapset, &m.ops);
    let (result, results) = match ctx.snapc.is_valid() {
        true => exec.run(&m.ops).map_err(|stop| match (stop, &m.ops[..]) {
            (PlanStop::Wait(ticket), [only]) if only.op.code == OpCode::READ && !may_write && !info.may_cache => {
                PlanStop::Read(ticket, exec.awaited(&only.op))
            }
            (stop, _) => stop,
        })?,
        false => (-EINVAL, m.ops.iter().map(|_| OpResult::default()).collect()),
    };
    let changed = result >= 0 && (exec.modify || !exec.txn.is_empty());
    if changed && may_write {
        exec.check_clone()?;
        return Ok(exec.finish(result, results, returnvec));
    }
    Ok(exec.unchanged(result, results, may_write, returnvec))
}

/// What [`plan`] gives a group's request that waited for nothing but the bytes of its one READ, now that they are here.
pub fn answer_read(pgid: SpgId, m: &MOSDOp, awaited: &Awaited, bytes: OutData) -> Result<Plan, PlanStop> {
    let (out, rval) = (whole(bytes, awaited.length, awaited.digest).map_err(PlanStop::Store)?, 0);
    let may_fail = m.ops.iter().all(|op| op.op.has(op_flag::FAILOK));
    let result = if may_fail { 0 } else { rval };
    let mut plan = blank(pgid, PlanKind::Read, result, smallvec![OpResult { rval, out }]);
    plan.data_off = awaited.offset as u16;
    if result >= 0 {
        plan.reply_user_version = awaited.user_version;
    }
    if rval >= 0 {
        (plan.stats.num_rd, plan.stats.num_rd_kb) = (1, kb(awaited.length));
    }
    Ok(plan)
}

/// Plans the log entry of a write that fails before its operations run: it is logged so that a resend gets the same answer.
pub fn plan_error(ctx: &PlanCtx<'_>, hobj: &types::HObject, ops: &[InOp], errno: i32) -> Plan {
    let results = ops.iter().map(|_| OpResult::default()).collect();
    let mut plan = blank(ctx.pgid, PlanKind::LogOnly, -errno, results);
    plan.reply_version = ctx.at_version;
    plan.log.push(error_entry(ctx, hobj, -errno, Vec::new()));
    plan
}

#[inline]
fn blank(pgid: SpgId, kind: PlanKind, result: i32, ops: SmallVec<[OpResult; 1]>) -> Plan {
    Plan {
        kind,
        result,
        ops,
        reply_version: EVersion::ZERO,
        reply_user_version: 0,
        data_off: 0,
        txn: Transaction::new(CollId::Pg(pgid)),
        log: Vec::new(),
        changed: SmallVec::new(),
        snap_index: Vec::new(),
        stats: ObjectStatSum::default(),
        effects: Vec::new(),
    }
}

fn error_entry(ctx: &PlanCtx<'_>, hobj: &types::HObject, result: i32, op_returns: Vec<OpReturn>) -> PgLogEntry {
    PgLogEntry {
        op: LogOp::ERROR,
        soid: hobj.clone(),
        version: ctx.at_version,
        reqid: ctx.reqid,
        mtime: UTime::ZERO,
        return_code: result,
        op_returns,
        ..PgLogEntry::default()
    }
}

/// What a resend of the request is answered, operation by operation. Every replica's log keeps it, so what is longer than `max` bytes is
/// left out: only of a request that failed can it be.
fn returns(results: &[OpResult], max: usize) -> Vec<OpReturn> {
    let kept = |r: &OpResult| if r.out.len() <= max { r.out.flat() } else { Bytes::new() };
    results.iter().map(|r| OpReturn { rval: r.rval, bl: kept(r) }).collect()
}

impl Exec<'_> {
    /// Nothing changed: a read, a failure, or a write without anything to do.
    #[inline]
    fn unchanged(&mut self, result: i32, results: SmallVec<[OpResult; 1]>, may_write: bool, returnvec: bool) -> Plan {
        let ctx = self.ctx;
        let mut plan = blank(ctx.pgid, if may_write { PlanKind::LogOnly } else { PlanKind::Read }, result, results);
        plan.data_off = self.data_off.unwrap_or(0) as u16;
        if result >= 0 {
            plan.effects = std::mem::take(&mut self.effects);
            plan.stats = self.stats;
            plan.reply_user_version = self.obj.info.user_version;
        } else if result == -ENOENT {
            // A floor for the version that the object will have.
            (plan.reply_version, plan.reply_user_version) = (ctx.last_update, ctx.last_user_version);
        }
        if may_write {
            if result != -ENOENT {
                (plan.reply_version, plan.reply_user_version) = (ctx.at_version, self.obj.info.user_version);
            }
            let op_returns = if returnvec || result < 0 { returns(&plan.ops, ctx.limits.write_reply_max) } else { Vec::new() };
            plan.log.push(error_entry(ctx, self.obj.hobj(), result, op_returns));
        }
        plan
    }

    /// A change: the record, the log and the answer.
    #[inline]
    fn finish(&mut self, mut result: i32, mut results: SmallVec<[OpResult; 1]>, returnvec: bool) -> Plan {
        let ctx = self.ctx;
        if returnvec {
            // What is answered is logged too, so it is kept small; too much fails the request.
            for r in &mut results {
                if r.out.len() > ctx.limits.write_reply_max {
                    (result, r.rval, r.out) = (-EOVERFLOW, -EOVERFLOW, OutData::new());
                }
            }
            if result < 0 {
                return blank(ctx.pgid, PlanKind::Read, result, results);
            }
        } else {
            result = 0;
            results.iter_mut().for_each(|r| r.out = OutData::new());
        }
        let mut plan = blank(ctx.pgid, PlanKind::Write, result, results);
        plan.data_off = self.data_off.unwrap_or(0) as u16;
        let mut version = ctx.at_version;
        let mut made_clone = None;
        if self.obj.hobj().is_head()
            && let Some((clone, entry, index)) = self.make_writeable(version)
        {
            made_clone = Some(Box::new(clone));
            plan.log.push(entry);
            plan.snap_index.push(index);
            version.version += 1;
        }
        let mut user_version = self.info.user_version;
        if self.user_modify {
            user_version = (ctx.last_user_version.max(self.info.user_version) + 1).max(version.version);
            self.info_mut().user_version = user_version;
        }
        let context = self.put_record(version);
        plan.log.reserve_exact(1);
        plan.log.push(PgLogEntry {
            op: if context.exists { LogOp::MODIFY } else { LogOp::DELETE },
            soid: self.obj.hobj().clone(),
            version,
            prior_version: self.obj.info.version,
            reqid: ctx.reqid,
            mtime: ctx.mtime,
            user_version,
            clean_regions: self.clean.take().unwrap_or_default(),
            return_code: result.max(0),
            op_returns: if returnvec { returns(&plan.ops, ctx.limits.write_reply_max) } else { Vec::new() },
            ..PgLogEntry::default()
        });
        plan.changed.push(context);
        plan.changed.extend(made_clone);
        plan.reply_version = version;
        plan.reply_user_version = user_version;
        plan.txn = std::mem::take(&mut self.txn);
        plan.stats = self.stats;
        plan.effects = std::mem::take(&mut self.effects);
        plan
    }

    /// Puts the object's new record into the transaction and returns the context as it is then.
    fn put_record(&mut self, version: EVersion) -> Box<ObjectContext> {
        let ctx = self.ctx;
        if !self.exists {
            return Box::new(ObjectContext::absent(self.obj.hobj().clone()));
        }
        let is_head = self.obj.hobj().is_head();
        let prior_version = self.obj.info.version;
        let keeps_mtime = self.keeps_mtime || planted(Bug::KeepMtime) && self.clean.is_none();
        let info = self.info_mut();
        info.version = version;
        info.prior_version = prior_version;
        info.last_reqid = ctx.reqid;
        if !ctx.mtime.is_zero() && !keeps_mtime {
            info.mtime = ctx.mtime;
            info.local_mtime = ctx.now;
        }
        let info = std::mem::take(&mut self.info).into_owned();
        let mut e = Encoder::with_capacity(ctx.osd_features, INFO_ROOM);
        info.encode(&mut e);
        let name = ByteStr::from_static(OI_ATTR);
        // An unchanged snapset is in the store already.
        let snapset_changed = matches!(self.snapset, std::borrow::Cow::Owned(_));
        if is_head && (self.recreated || snapset_changed) {
            let snapset = (ByteStr::from_static(SS_ATTR), self.snapset.to_bytes(ctx.osd_features));
            self.txn.set_attrs(&self.gobj, vec![(name, e.finish()), snapset]);
        } else {
            self.txn.set_attr(&self.gobj, name, e.finish());
        }
        let snapset = if is_head { std::mem::take(&mut self.snapset).into_owned() } else { SnapSet::default() };
        Box::new(ObjectContext { exists: true, info, snapset })
    }
}
