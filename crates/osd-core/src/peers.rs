//! What groups send to other OSDs: each message goes to an OSD that the map has up.

use crate::event::Effect;
use crate::pg::Pg;
use crate::shared::Cx;
use messages::osd_peering::query_kind;
use messages::{MOSDPGNotify2, MOSDPGQuery2, Message, PgNotify, PgQuery, RawMessage};
use types::{EVersion, Epoch, OsdId, PastIntervals, PgInfo, PgShard, SpgId, features};

/// Sends to an OSD that the map has up.
pub(crate) fn send(osd: OsdId, msg: RawMessage, cx: &mut Cx<'_>) {
    let Some(addrs) = cx.sh.map.cluster_addrs.get(osd as usize) else { return };
    if cx.sh.map.is_up(osd) {
        cx.out.push(Effect::SendOsd { osd, addrs: addrs.clone(), msg });
    }
}

/// Asks another OSD for its info of a group.
pub(crate) fn query(pg: &Pg, to: PgShard, cx: &mut Cx<'_>) {
    send_query(pg, to, query_kind::INFO, EVersion::ZERO, cx);
}
fn send_query(pg: &Pg, to: PgShard, kind: i32, since: EVersion, cx: &mut Cx<'_>) {
    let query = PgQuery { kind, since, history: pg.record.info().history, epoch_sent: cx.sh.map.epoch, to: to.shard, from: pg.pgid.shard };
    let pgid = SpgId { shard: to.shard, ..pg.pgid };
    send(to.osd, MOSDPGQuery2 { pgid, query }.encode(features::SUPPORTED), cx);
}

/// Asks another OSD for its log of a group, above a version or all of it.
pub(crate) fn query_log(pg: &Pg, to: PgShard, since: Option<EVersion>, cx: &mut Cx<'_>) {
    let kind = if since.is_some() { query_kind::LOG } else { query_kind::FULLLOG };
    send_query(pg, to, kind, since.unwrap_or_default(), cx);
}

/// Tells another OSD what we have of a group.
pub(crate) fn notify(pg: &Pg, to: PgShard, query_epoch: Epoch, cx: &mut Cx<'_>) {
    notify_info(pg.info_to_tell(cx), pg.peering.past.clone(), to, query_epoch, cx);
}

pub(crate) fn notify_info(info: PgInfo, past_intervals: PastIntervals, to: PgShard, query_epoch: Epoch, cx: &mut Cx<'_>) {
    let (pgid, epoch) = (info.pgid, cx.sh.map.epoch);
    let query_epoch = if query_epoch == 0 { epoch } else { query_epoch };
    let notify = PgNotify { query_epoch, epoch_sent: epoch, info, to: to.shard, from: pgid.shard, past_intervals };
    let pgid = SpgId { shard: to.shard, ..pgid };
    send(to.osd, MOSDPGNotify2 { pgid, notify }.encode(features::SUPPORTED), cx);
}
