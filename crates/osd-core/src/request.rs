//! A client's request on its way through the OSD, and the answers to it.

use crate::event::ConnId;
use crate::fetch::Fetches;
use crate::op::OpInfo;
use crate::op::{Passes, Plan};
use crate::pg::backend::in_flight::Unanswered;
use crate::planted::{Bug, planted};
use base::{Permit, Stamp};
use messages::{MOSDOp, MOSDOpReply, Message, OutOp, RawMessage, SmallVec};
use types::osd_op::osd_flag;
use types::{EVersion, Epoch, OpCode, OpReturn, ReqId};

/// A request that has not been answered.
#[derive(Debug)]
pub struct ClientOp {
    pub conn: ConnId,
    pub msg: MOSDOp,
    pub reqid: ReqId,
    /// What it does; looked up when it is first executed.
    pub info: Option<OpInfo>,
    pub received: Stamp,
    /// Bytes of data that came with it.
    pub bytes_in: u64,
    /// Where it waits, for `dump_ops_in_flight`.
    pub waits_for: &'static str,
    /// What it has got of other objects, if it has asked for some.
    pub fetches: Option<Box<Fetches>>,
    /// How far its calls have come, if they take more than one turn.
    pub passes: Passes,
    /// The answer to it, if it is a write whose interval ended before it was answered.
    pub unanswered: Option<Box<Unanswered>>,
    /// It met damage, and its object was inspected since.
    pub was_inspected: bool,
    /// What it holds of the OSD's budget, until its answer leaves the core.
    pub permit: Option<Permit>,
}

impl ClientOp {
    /// It waits for something that may take long, and keeps nothing from others meanwhile.
    pub fn set_aside(&mut self, waits_for: &'static str) {
        self.waits_for = waits_for;
        if let Some(permit) = &mut self.permit
            && !planted(Bug::HoldWaiting)
        {
            permit.set_aside();
        }
    }
    /// It goes on.
    #[inline]
    pub fn go_on(&mut self) {
        self.permit.iter_mut().for_each(Permit::go_on);
    }
    /// See [`OpInfo::may_mutate`].
    pub fn may_mutate(&self) -> bool {
        self.info.as_ref().is_some_and(OpInfo::may_mutate)
    }
}

/// What a read without a length, or with a very long one, is taken for: objects of the usual clients are not longer. Bytes.
const WHOLE_OBJECT: u64 = 4 << 20;

/// About how many bytes of data the answer will have.
pub fn answer_bytes(msg: &MOSDOp) -> u64 {
    let reads = msg.ops.iter().filter(|o| matches!(o.op.code, OpCode::READ | OpCode::SYNC_READ | OpCode::SPARSE_READ));
    reads.map(|o| o.op.extent().length).map(|len| if len == 0 { WHOLE_OBJECT } else { len.min(WHOLE_OBJECT) }).sum()
}

const ACKS: u32 = osd_flag::ACK | osd_flag::ONNVRAM | osd_flag::ONDISK;

/// The answer without results of single operations, for errors and duplicates.
pub fn error_reply(
    op: &MOSDOp,
    result: i32,
    epoch: Epoch,
    version: EVersion,
    user_version: u64,
    returns: Option<&[OpReturn]>,
) -> RawMessage {
    let mut reply = MOSDOpReply {
        tid: op.tid,
        oid: op.hobj.oid.clone(),
        pgid: op.pgid.pgid,
        flags: op.flags.into(),
        result,
        map_epoch: epoch,
        attempt: op.attempt,
        ..MOSDOpReply::default()
    };
    for (i, o) in op.ops.iter().enumerate() {
        let mut out = OutOp { op: o.op, ..OutOp::default() };
        if let Some(r) = returns.and_then(|r| r.get(i)) {
            (out.rval, out.outdata) = (r.rval, r.bl.clone());
        }
        reply.ops.push(out);
    }
    reply.set_versions(version, user_version);
    reply.encode(0)
}

/// The answer that a plan gives.
pub fn plan_reply(op: &MOSDOp, plan: &mut Plan, epoch: Epoch, durable: bool) -> RawMessage {
    let acks = if durable { osd_flag::ACK | osd_flag::ONDISK } else { 0 };
    let mut data = Vec::new();
    // A store's word for the bytes of the only operation is the frame's.
    let data_crc = match &plan.ops[..] {
        [only] => only.out.crc(),
        _ => None,
    };
    // What the store gave in pieces goes out in pieces.
    let answers: SmallVec<[(i32, usize); 2]> = plan
        .ops
        .iter_mut()
        .map(|r| {
            let (rval, len) = (r.rval, r.out.len());
            std::mem::take(&mut r.out).append_to(&mut data);
            (rval, len)
        })
        .collect();
    let mut reply = MOSDOpReply {
        tid: op.tid,
        oid: op.hobj.oid.clone(),
        pgid: op.pgid.pgid,
        flags: (op.flags & !ACKS | acks).into(),
        result: plan.result,
        map_epoch: epoch,
        attempt: op.attempt,
        ..MOSDOpReply::default()
    };
    reply.set_versions(plan.reply_version, plan.reply_user_version);
    let ops = op.ops.iter().zip(&answers).map(|(o, (rval, len))| (&o.op, *rval, *len));
    let mut raw = reply.encode_with(0, ops, data);
    (raw.data_off, raw.data_crc) = (plan.data_off, data_crc);
    raw
}
