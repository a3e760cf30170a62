//! Recovery's and backfill's parts as messages between OSDs, and back.
//!
//! We send one part a message; others may send several. Holds no rule of recovery, and doesn't know which interval a message is of: that is
//! the group's to say.

use super::host::Part;
use crate::pg::work::backfill::interval::Interval;
use denc::{Denc, DencError};
use messages::osd_recovery::{backfill_op, scan_op};
use messages::{
    MOSDPGBackfill, MOSDPGBackfillRemove, MOSDPGPull, MOSDPGPush, MOSDPGPushReply, MOSDPGRecoveryDelete, MOSDPGRecoveryDeleteReply,
    MOSDPGScan, Message, PullOp, PushOp, PushReplyOp, RawMessage,
};
use std::collections::BTreeMap;
use types::{EVersion, Epoch, HObject, PgShard, PgStat, SpgId, features};

/// What every message of recovery says of its sender and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    /// The group as the receiver names it.
    pub pgid: SpgId,
    pub from: PgShard,
    /// The sender's map.
    pub map_epoch: Epoch,
    /// The receiver must have this one.
    pub min_epoch: Epoch,
}

/// What a push weighs besides its bytes. Source: Ceph's `osd_push_per_object_cost`.
const OBJECT_COST: u64 = 1000;

/// True for the kinds that are recovery's.
pub fn is_ours(kind: u16) -> bool {
    matches!(
        kind,
        MOSDPGPush::KIND
            | MOSDPGPull::KIND
            | MOSDPGPushReply::KIND
            | MOSDPGRecoveryDelete::KIND
            | MOSDPGRecoveryDeleteReply::KIND
            | MOSDPGScan::KIND
            | MOSDPGBackfill::KIND
            | MOSDPGBackfillRemove::KIND
    )
}

/// A part as a message.
pub fn encode(envelope: Envelope, part: Part) -> RawMessage {
    let Envelope { pgid, from, map_epoch, min_epoch } = envelope;
    match part {
        Part::Push(push) => {
            let cost = OBJECT_COST + push.data.len() as u64;
            MOSDPGPush { pgid, from, map_epoch, min_epoch, cost, pushes: vec![*push], is_repair: false }.encode(features::SUPPORTED)
        }
        Part::Pushed(soid) => {
            let replies = vec![PushReplyOp { soid }];
            MOSDPGPushReply { pgid, from, map_epoch, min_epoch, cost: OBJECT_COST, replies }.encode(features::SUPPORTED)
        }
        Part::Pull(pull) => {
            MOSDPGPull { pgid, from, map_epoch, min_epoch, cost: OBJECT_COST, pulls: vec![*pull] }.encode(features::SUPPORTED)
        }
        Part::Delete(obj, version) => {
            let objects = vec![(obj, version)];
            MOSDPGRecoveryDelete { from, pgid, map_epoch, min_epoch, cost: OBJECT_COST, objects }.encode(features::SUPPORTED)
        }
        Part::Deleted(obj, version) => {
            let objects = vec![(obj, version)];
            MOSDPGRecoveryDeleteReply { pgid, map_epoch, min_epoch, objects, from }.encode(features::SUPPORTED)
        }
        Part::Scan(begin) => {
            let scan = MOSDPGScan { op: scan_op::GET_DIGEST, map_epoch, query_epoch: min_epoch, pgid, from, ..MOSDPGScan::default() };
            MOSDPGScan { begin: *begin, ..scan }.encode(features::SUPPORTED)
        }
        Part::Digest { begin, page } => {
            let (objects, end) = page.into_parts();
            let data = objects.to_bytes(features::SUPPORTED);
            let scan = MOSDPGScan { op: scan_op::DIGEST, map_epoch, query_epoch: min_epoch, pgid, from, ..MOSDPGScan::default() };
            MOSDPGScan { begin: *begin, end, data, ..scan }.encode(features::SUPPORTED)
        }
        Part::Remove(objects) => MOSDPGBackfillRemove { pgid, map_epoch, objects }.encode(features::SUPPORTED),
        Part::Progress { to, stats, is_last } => {
            let op = if is_last { backfill_op::FINISH } else { backfill_op::PROGRESS };
            let m = MOSDPGBackfill { op, map_epoch, query_epoch: min_epoch, pgid, last_backfill: *to, stats: *stats };
            m.encode(features::SUPPORTED)
        }
        Part::Finished => {
            let (op, last_backfill) = (backfill_op::FINISH_ACK, HObject::max());
            let m = MOSDPGBackfill { op, map_epoch, query_epoch: min_epoch, pgid, last_backfill, stats: PgStat::default() };
            m.encode(features::SUPPORTED)
        }
    }
}

/// Backfill's messages say by which map the interval began; an answer repeats that of the question.
fn filling(pgid: SpgId, from: PgShard, map_epoch: Epoch, query_epoch: Epoch) -> Envelope {
    Envelope { pgid, from, map_epoch: map_epoch.min(query_epoch), min_epoch: query_epoch }
}

/// A message of one of [`is_ours`]' kinds. Names are cut from its frame: what is kept longer than the message is detached.
pub fn decode(raw: &RawMessage) -> Result<(Envelope, Vec<Part>), DencError> {
    fn with<T>(envelope: Envelope, all: Vec<T>, part: impl Fn(T) -> Part) -> (Envelope, Vec<Part>) {
        (envelope, all.into_iter().map(part).collect())
    }
    Ok(match raw.kind {
        MOSDPGPush::KIND => {
            let m = MOSDPGPush::decode(raw)?;
            let envelope = Envelope { pgid: m.pgid, from: m.from, map_epoch: m.map_epoch, min_epoch: m.min_epoch };
            with(envelope, m.pushes, |push: PushOp| Part::Push(Box::new(push)))
        }
        MOSDPGPull::KIND => {
            let m = MOSDPGPull::decode(raw)?;
            let envelope = Envelope { pgid: m.pgid, from: m.from, map_epoch: m.map_epoch, min_epoch: m.min_epoch };
            with(envelope, m.pulls, |pull: PullOp| Part::Pull(Box::new(pull)))
        }
        MOSDPGPushReply::KIND => {
            let m = MOSDPGPushReply::decode(raw)?;
            let envelope = Envelope { pgid: m.pgid, from: m.from, map_epoch: m.map_epoch, min_epoch: m.min_epoch };
            with(envelope, m.replies, |reply| Part::Pushed(reply.soid))
        }
        MOSDPGRecoveryDelete::KIND => {
            let m = MOSDPGRecoveryDelete::decode(raw)?;
            let envelope = Envelope { pgid: m.pgid, from: m.from, map_epoch: m.map_epoch, min_epoch: m.min_epoch };
            with(envelope, m.objects, |(obj, version)| Part::Delete(obj, version))
        }
        MOSDPGScan::KIND => {
            let m = MOSDPGScan::decode(raw)?;
            let envelope = filling(m.pgid, m.from, m.map_epoch, m.query_epoch);
            if m.op == scan_op::GET_DIGEST {
                return Ok((envelope, vec![Part::Scan(Box::new(m.begin.detach()))]));
            }
            let objects: BTreeMap<HObject, EVersion> = BTreeMap::from_bytes(&m.data)?;
            let objects = objects.into_iter().filter(|(obj, _)| *obj >= m.begin && *obj < m.end);
            let page = Interval::new(objects.map(|(obj, version)| (obj.detach(), version)).collect(), m.end.detach());
            (envelope, vec![Part::Digest { begin: Box::new(m.begin.detach()), page: Box::new(page) }])
        }
        MOSDPGBackfill::KIND => {
            let m = MOSDPGBackfill::decode(raw)?;
            // The message names no sender.
            let envelope = filling(m.pgid, PgShard::new(-1, m.pgid.shard), m.map_epoch, m.query_epoch);
            let (to, stats) = (Box::new(m.last_backfill.detach()), Box::new(m.stats));
            let part = match m.op {
                backfill_op::FINISH_ACK => Part::Finished,
                op => Part::Progress { to, stats, is_last: op == backfill_op::FINISH },
            };
            (envelope, vec![part])
        }
        MOSDPGBackfillRemove::KIND => {
            let m = MOSDPGBackfillRemove::decode(raw)?;
            let from = PgShard::new(-1, m.pgid.shard);
            let envelope = Envelope { pgid: m.pgid, from, map_epoch: m.map_epoch, min_epoch: m.map_epoch };
            (envelope, vec![Part::Remove(m.objects)])
        }
        _ => {
            let m = MOSDPGRecoveryDeleteReply::decode(raw)?;
            let envelope = Envelope { pgid: m.pgid, from: m.from, map_epoch: m.map_epoch, min_epoch: m.min_epoch };
            with(envelope, m.objects, |(obj, version)| Part::Deleted(obj, version))
        }
    })
}
