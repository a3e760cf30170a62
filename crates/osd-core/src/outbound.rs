//! How a message gets to another OSD: only to one that the map has up. What groups say is `pg::members::tell`'s.

use crate::event::Effect;
use crate::shared::Cx;
use messages::{MOSDPGNotify2, Message, PgNotify, RawMessage};
use types::{Epoch, OsdId, PastIntervals, PgInfo, PgShard, SpgId, features};

/// Sends to an OSD that the map has up.
pub(crate) fn send(osd: OsdId, msg: RawMessage, cx: &mut Cx<'_>) {
    let Some(addrs) = cx.sh.map.cluster_addrs.get(osd as usize) else { return };
    if cx.sh.map.is_up(osd) {
        cx.out.push(Effect::SendOsd { osd, addrs: addrs.clone(), msg });
    }
}

/// Says what we have of a group, or that it is not here.
pub(crate) fn notify_info(info: PgInfo, past_intervals: PastIntervals, to: PgShard, query_epoch: Epoch, cx: &mut Cx<'_>) {
    let (pgid, epoch) = (info.pgid, cx.sh.map.epoch);
    let query_epoch = if query_epoch == 0 { epoch } else { query_epoch };
    let notify = PgNotify { query_epoch, epoch_sent: epoch, info, to: to.shard, from: pgid.shard, past_intervals };
    let pgid = SpgId { shard: to.shard, ..pgid };
    send(to.osd, MOSDPGNotify2 { pgid, notify }.encode(features::SUPPORTED), cx);
}
