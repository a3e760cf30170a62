//! Recovery's parts as messages between OSDs, and back.
//!
//! We send one part a message; others may send several. Holds no rule of recovery, and doesn't know which interval a message is of: that is
//! the group's to say.

use super::host::Part;
use denc::DencError;
use messages::{
    MOSDPGPull, MOSDPGPush, MOSDPGPushReply, MOSDPGRecoveryDelete, MOSDPGRecoveryDeleteReply, Message, PullOp, PushOp, PushReplyOp,
    RawMessage,
};
use types::{Epoch, PgShard, SpgId, features};

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
        MOSDPGPush::KIND | MOSDPGPull::KIND | MOSDPGPushReply::KIND | MOSDPGRecoveryDelete::KIND | MOSDPGRecoveryDeleteReply::KIND
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
    }
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
        _ => {
            let m = MOSDPGRecoveryDeleteReply::decode(raw)?;
            let envelope = Envelope { pgid: m.pgid, from: m.from, map_epoch: m.map_epoch, min_epoch: m.min_epoch };
            with(envelope, m.objects, |(obj, version)| Part::Deleted(obj, version))
        }
    })
}
