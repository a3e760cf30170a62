//! Admission: everything that is asked of a request before its object is looked at.
//!
//! In this order: which map it was sent by, whether the group serves and its lease runs, backoff, members, capabilities, names and bounds, blocklist, full pools; then
//! whether it is a duplicate. What is admitted goes to its object's order ([`super::execute`]).

use super::backoff::back_off;
use crate::op::fetch::Wanted;
use crate::op::{Limits, OpInfo};
use crate::perf::C;
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::planted::{Bug, planted};
use crate::request::{ClientOp, error_reply};
use crate::session::Session;
use crate::shared::Cx;
use cephx::caps::{ClassCall, OsdRequest};
use classes::{METHOD_RD, METHOD_WR};
use maps::{PgPool, pool_flags};
use messages::MOSDOp;
use types::errno::{E2BIG, EBLOCKLISTED, EINVAL, EIO, EMSGSIZE, ENAMETOOLONG, EPERM};
use types::osd_op::{OpCode, osd_flag};
use types::{CEPH_NOSNAP, CEPH_SNAPDIR, PoolId, features};

/// Why a request goes no further now.
pub(in crate::pg) enum Halt {
    /// Not for us, or to be sent again: no answer.
    Drop,
    /// A positive errno.
    Reply(i32),
}

/// Operations of one request: its log entry has a result for each, and some look at what those before them did. Source: ours; stock has
/// no limit, and a kernel client sends 16 at most.
const OPS_MAX: usize = 8192;
/// Snapshots of one request's context. Source: ours; stock has no limit.
const SNAPS_MAX: usize = 1 << 16;

fn check_names(m: &MOSDOp, may_write: bool, bytes: u64, limits: &Limits) -> Result<(), i32> {
    let hobj = &m.hobj;
    if hobj.oid.len() > limits.object_name_max || hobj.key.len() > limits.object_name_max || hobj.nspace.len() > limits.namespace_max {
        return Err(ENAMETOOLONG);
    }
    if hobj.oid.is_empty() || hobj.max || (may_write && hobj.snap != CEPH_NOSNAP) {
        return Err(EINVAL);
    }
    if may_write && bytes > limits.write_size_max {
        return Err(EMSGSIZE);
    }
    // LIST_SNAPS goes with the snapdir, and nothing else does.
    let snapdir = hobj.snap == CEPH_SNAPDIR;
    if m.ops.iter().any(|op| (op.op.code == OpCode::LIST_SNAPS) != snapdir) { Err(EINVAL) } else { Ok(()) }
}

/// Requests that wait for the group to serve. The client of one more is asked to keep its requests. Source: ours; as many as wait for a map.
const WAITING_MAX: usize = 4096;

/// Whether the client may read what its request wants of other objects. That is read on its behalf, by an OSD which may read everything.
pub(in crate::pg) fn may_fetch(op: &ClientOp, wanted: &Wanted, cx: &Cx<'_>) -> bool {
    let Some(session) = cx.sh.sessions.get(&op.conn) else { return false };
    let Some(cap) = session.peer.cap.as_ref().filter(|_| !planted(Bug::CopyUnasked)) else { return true };
    let (map, sh) = (&cx.sh.map, &cx.sh);
    // What is not there is nobody's: it is not found.
    let allows = |pool: PoolId, namespace: &[u8], object: &[u8], read: bool, classes: &[ClassCall<'_>]| {
        let (Some(name), Some(known)) = (map.pool_names.get(&pool), map.pools.get(&pool)) else { return true };
        let applications = &known.application_metadata;
        cap.allows(&OsdRequest { pool: name, namespace, applications, object, read, write: false, classes, addr: &session.peer.from })
    };
    match wanted {
        Wanted::Copy(source) => {
            let at = &source.locator;
            let object = if at.key.is_empty() { &source.oid } else { &at.key };
            allows(at.pool, at.nspace.as_slice(), object.as_slice(), true, &[])
        }
        Wanted::Calls(source) => {
            let (class, method) = (source.class.as_slice(), source.method.as_slice());
            let known = sh.classes.class(class).zip(sh.classes.method(class, method));
            let (Some(pool), Some((class, method))) = (map.pool_by_name(&source.pool), known) else { return true };
            let (read, write) = (method.flags & METHOD_RD != 0, method.flags & METHOD_WR != 0);
            let listed = sh.limits.classes_by_default.has(class.name);
            let call = ClassCall { class: class.name, method: method.name, read, write, listed };
            source.objects.iter().all(|object| allows(pool, b"", object.as_slice(), false, &[call]))
        }
    }
}

/// Whether the client's capabilities cover a request.
fn allows(pool: &PgPool, pool_name: &str, session: &Session, m: &MOSDOp, info: &OpInfo, limits: &Limits) -> bool {
    let Some(cap) = &session.peer.cap else { return true };
    let listed = |class| limits.classes_by_default.has(class);
    let calls = info.called.iter().map(|c| (c, listed(c.class)));
    let classes: Vec<ClassCall<'_>> =
        calls.map(|(c, listed)| ClassCall { class: c.class, method: c.method, read: c.reads, write: c.writes, listed }).collect();
    let key = if m.hobj.key.is_empty() { &m.hobj.oid } else { &m.hobj.key };
    cap.allows(&OsdRequest {
        pool: pool_name,
        namespace: m.hobj.nspace.as_slice(),
        applications: &pool.application_metadata,
        object: key.as_slice(),
        read: info.plain_read || info.pg_op,
        write: info.plain_write,
        classes: &classes,
        addr: if planted(Bug::BelieveClaimedNetwork) { &session.peer.addr } else { &session.peer.from },
    })
}

impl Requests {
    /// Takes one request as far as it goes now: answered, submitted, waiting, or dropped.
    pub fn client_op(&mut self, mut op: Box<ClientOp>, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        if is_stale(&op, group, cx) {
            return;
        }
        op.go_on();
        if !group.members.peering.is_primary() {
            return self.balanced_read(op, work, group, cx);
        }
        if !group.members.serves(cx) {
            return self.not_active(op, group, cx);
        }
        match admit(&mut op, group, cx) {
            Ok(()) => cx.sh.bounds.recovery_slots.client_asks(cx.clock.mono),
            Err(Halt::Drop) => return,
            Err(Halt::Reply(errno)) => return cx.reply_error(&op, errno),
        }
        let info = op.info.as_ref().expect("admission looks it up");
        if info.may_mutate() && group.record.is_known(&op.reqid) {
            // All members have the entry. What it wrote may be on one only: that is told when it is on all that must have it.
            let Some(op) = work.wait_for_recovery(op, self, group, cx) else { return };
            return self.repeated(op, group, cx);
        }
        if info.pg_op {
            return self.run_pg_op(op, work, group, cx);
        }
        let Some(op) = work.scrubbing(self, group, cx).wait_for(op) else { return };
        let Some(op) = work.wait_for_recovery(op, self, group, cx) else { return };
        self.enter(op, work, group, cx);
    }

    /// The group doesn't serve now: the client keeps the request, or it waits here.
    fn not_active(&mut self, mut op: Box<ClientOp>, group: &Group, cx: &mut Cx<'_>) {
        let held = group.members.peering.is_stuck();
        // What such a client sent before it heard of it comes again with the rest, in order.
        let keeps = cx.sh.sessions.get(&op.conn).is_none_or(|session| session.holds_back(group.pgid));
        if (held || keeps || self.waiting_active.len() >= WAITING_MAX) && back_off(group.pgid, &group.pool, op.conn, cx) {
            return self.waiting_active.retain(|waiting| waiting.conn != op.conn);
        }
        op.set_aside(match () {
            _ if held => "waiting for active",
            _ if group.members.peering.is_active() => "waiting for readable",
            _ => "waiting for peered",
        });
        self.waiting_active.push_back(op);
    }

    /// A request that the log has is answered with what came of it, as soon as that is durable.
    #[cold]
    fn repeated(&mut self, op: Box<ClientOp>, group: &mut Group, cx: &mut Cx<'_>) {
        let done = group.record.log().find(&op.reqid).expect("looked for by the caller");
        let (version, (user_version, returned)) = (done.version(), done.answer(&op.reqid));
        if op.unanswered.as_ref().is_some_and(|held| held.version == version) {
            return self.answer_requeued(op, group, cx);
        }
        cx.sh.counters.perf.inc(C::op_dup);
        let reply = error_reply(&op.msg, returned.code, cx.sh.map.epoch, version, user_version, Some(&returned.ops));
        match group.backend.write_at(version) {
            // Its entry isn't durable: the answer waits for it.
            Some(write) => write.dups.push((op, reply)),
            None => cx.send(op.conn, reply),
        }
    }

    /// Hands requests that wait here back to those clients that can keep them.
    pub(in crate::pg) fn back_off_waiting(&mut self, group: &Group, cx: &mut Cx<'_>) {
        for op in std::mem::take(&mut self.waiting_active) {
            if !back_off(group.pgid, &group.pool, op.conn, cx) {
                self.waiting_active.push_back(op);
            }
        }
    }
}

/// Sent by a map of before this interval: the client sends it again by the new one.
fn is_stale(op: &ClientOp, group: &Group, cx: &Cx<'_>) -> bool {
    let Some(session) = cx.sh.sessions.get(&op.conn) else { return true };
    let epoch = op.msg.map_epoch;
    epoch < group.record.info().history.same_primary_since
        || epoch < group.pool.last_force_op_resend
        || (session.has(features::RESEND_ON_SPLIT) && epoch < group.record.info().history.last_epoch_split)
        || (op.msg.flags & (osd_flag::BALANCE_READS | osd_flag::LOCALIZE_READS) != 0
            && !group.members.peering.is_primary()
            && epoch < group.record.info().history.same_interval_since)
}

/// Everything that is asked of a request before its object is looked at, of a primary or of a member that follows.
pub(super) fn admit(op: &mut ClientOp, group: &Group, cx: &mut Cx<'_>) -> Result<(), Halt> {
    let session = cx.sh.sessions.get(&op.conn).ok_or(Halt::Drop)?;
    let m = &op.msg;
    let is_elsewhere = group.pool.fold(m.hobj.hash) != group.pgid.pgid.seed;
    if is_elsewhere && m.flags & osd_flag::PGOP == 0 {
        return Err(Halt::Drop);
    }
    if !session.backoffs.is_empty() && session.holds_back(group.pgid) {
        return Err(Halt::Drop);
    }
    if m.has(osd_flag::PARALLELEXEC) {
        return Err(Halt::Reply(EINVAL));
    }
    if m.ops.len() > OPS_MAX || m.snapc.snaps.len() > SNAPS_MAX {
        return Err(Halt::Reply(E2BIG));
    }
    let was_admitted = op.info.is_some();
    if !was_admitted {
        let ops = m.ops.iter().map(|o| (&o.op, &o.indata));
        op.info = Some(OpInfo::of(m.flags, ops, cx.sh.classes).map_err(Halt::Reply)?);
    }
    let info = op.info.as_ref().expect("set above");
    // The flag is the client's word. What the operations are says which of them have no object.
    if is_elsewhere && !info.pg_op && !planted(Bug::TrustPgop) {
        return Err(Halt::Drop);
    }
    let limits = &cx.sh.limits;
    if info.called.iter().any(|c| !limits.classes_loaded.has(c.class)) {
        return Err(Halt::Reply(EPERM));
    }
    if !allows(&group.pool, &group.pool_name, session, m, info, limits) {
        return Err(Halt::Reply(EPERM));
    }
    if info.pg_op {
        return Ok(());
    }
    check_names(m, info.may_write, op.bytes_in, &cx.sh.limits).map_err(Halt::Reply)?;
    let passes = planted(Bug::ServeBarred) || was_admitted && planted(Bug::AdmitOnce) || m.attempt > 0 && planted(Bug::ServeResent);
    if session.is_blocklisted(&cx.sh.map) && !passes {
        return Err(Halt::Reply(EBLOCKLISTED));
    }
    let bypass = m.flags & (osd_flag::FULL_TRY | osd_flag::FULL_FORCE) != 0;
    if info.write_ordered() && !bypass && group.record.info().history.last_epoch_marked_full > m.map_epoch {
        return Err(Halt::Drop);
    }
    if group.pool.has(pool_flags::EIO) {
        return Err(if m.has(osd_flag::SUPPORTSPOOLEIO) { Halt::Drop } else { Halt::Reply(EIO) });
    }
    Ok(())
}
