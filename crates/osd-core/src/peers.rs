//! What OSDs tell each other of placement groups: who has what.

use crate::event::{Effect, Level};
use crate::osd::Osd;
use crate::pg::Pg;
use crate::pg::recovery::wire;
use crate::shared::Shared;
use base::Clock;
use messages::osd_peering::query_kind;
use messages::{MOSDMap, MOSDOpReply, MOSDPGNotify2, MOSDPGQuery2, MOSDPGRemove, Message, PgNotify, PgQuery, RawMessage};
use types::{Epoch, OsdId, PgInfo, PgShard, SpgId, features};

fn send(osd: OsdId, msg: RawMessage, sh: &Shared) -> Option<Effect> {
    let addrs = sh.map.cluster_addrs.get(osd as usize)?.clone();
    sh.map.is_up(osd).then_some(Effect::SendOsd { osd, addrs, msg })
}

/// Asks another OSD for its info of a group.
pub(crate) fn query(pg: &Pg, to: PgShard, sh: &Shared) -> Option<Effect> {
    let query = PgQuery {
        kind: query_kind::INFO,
        history: pg.info.history,
        epoch_sent: sh.map.epoch,
        to: to.shard,
        from: pg.pgid.shard,
        ..PgQuery::default()
    };
    let pgid = SpgId { shard: to.shard, ..pg.pgid };
    send(to.osd, MOSDPGQuery2 { pgid, query }.encode(features::SUPPORTED), sh)
}

/// Tells another OSD what we have of a group.
pub(crate) fn notify(pg: &Pg, to: PgShard, query_epoch: Epoch, sh: &Shared) -> Option<Effect> {
    notify_info(pg.info.clone(), pg.peering.past.clone(), to, query_epoch, sh)
}

fn notify_info(info: PgInfo, past_intervals: types::PastIntervals, to: PgShard, query_epoch: Epoch, sh: &Shared) -> Option<Effect> {
    let (pgid, epoch) = (info.pgid, sh.map.epoch);
    let query_epoch = if query_epoch == 0 { epoch } else { query_epoch };
    let notify = PgNotify { query_epoch, epoch_sent: epoch, info, to: to.shard, from: pgid.shard, past_intervals };
    let pgid = SpgId { shard: to.shard, ..pgid };
    send(to.osd, MOSDPGNotify2 { pgid, notify }.encode(features::SUPPORTED), sh)
}

impl Osd {
    /// A message of another OSD.
    pub(crate) fn peer_message(&mut self, from: OsdId, msg: &RawMessage, clock: Clock, out: &mut Vec<Effect>) {
        let result = match msg.kind {
            MOSDPGQuery2::KIND => MOSDPGQuery2::decode(msg).map(|m| match self.awaits_map(m.pgid) {
                true => self.hold_message(from, msg.clone()),
                false => self.queried(from, &m, out),
            }),
            MOSDPGNotify2::KIND => MOSDPGNotify2::decode(msg).map(|m| match self.awaits_map(m.pgid) {
                true => self.hold_message(from, msg.clone()),
                false => self.notified(from, m, clock, out),
            }),
            kind if wire::is_ours(kind) => wire::decode(msg).map(|(envelope, parts)| match self.awaits_map(envelope.pgid) {
                true => self.hold_message(from, msg.clone()),
                false => self.recovery_came(from, envelope, parts, clock, out),
            }),
            MOSDMap::KIND => MOSDMap::decode(msg).map(|m| self.maps_came(m, clock, out)),
            MOSDOpReply::KIND => {
                self.copy_answer(from, msg, clock, out);
                Ok(())
            }
            MOSDPGRemove::KIND => MOSDPGRemove::decode(msg).map(drop),
            _ => Ok(()),
        };
        if let Err(error) = result {
            let text = format!("osd.{from}: {} that can't be read: {error}", messages::kind_name(msg.kind));
            out.push(Effect::Log { level: Level::Warn, text });
        }
    }

    fn queried(&mut self, from: OsdId, m: &MOSDPGQuery2, out: &mut Vec<Effect>) {
        let from = PgShard::new(from, m.query.from);
        let effect = match self.index.get(&m.pgid).and_then(|slot| self.pgs[*slot as usize].as_ref()) {
            Some(pg) => notify(pg, from, m.query.epoch_sent, &self.sh),
            // Never heard of it: an info that says so.
            None => notify_info(PgInfo::new(m.pgid), Default::default(), from, m.query.epoch_sent, &self.sh),
        };
        out.extend(effect);
    }

    /// Another OSD has some of a group, or answers that it has none.
    fn notified(&mut self, from: OsdId, m: MOSDPGNotify2, clock: Clock, out: &mut Vec<Effect>) {
        let map = self.sh.map.clone();
        if m.notify.epoch_sent > map.epoch {
            // Said by a newer map: it will be said again when we ask by that one.
            self.want_maps(out);
            return;
        }
        if !self.index.contains_key(&m.pgid) {
            let primary = self.mapping(&map, m.pgid.pgid).is_some_and(|at| at.acting_primary == self.sh.whoami);
            if !primary || m.notify.info.dne() {
                return;
            }
            let mut history = m.notify.info.history;
            // Our interval is the map's, whatever theirs was.
            history.same_interval_since = history.same_interval_since.max(1);
            self.create(m.pgid, history, m.notify.past_intervals.clone(), false, clock, out);
        }
        let Some(slot) = self.index.get(&m.pgid).copied() else { return };
        let pg = self.pgs[slot as usize].as_mut().expect("the index names groups that are here");
        if !pg.peering.is_primary() || m.notify.query_epoch < pg.peering.last_peering_reset {
            return;
        }
        pg.peering.heard(PgShard::new(from, m.notify.from), m.notify.info, &mut pg.info, clock.mono);
        let (mut up_thru, mut pg_temp) = (0, Default::default());
        self.activate_one(slot as usize, &mut up_thru, &mut pg_temp, clock, out);
        self.tell_mon(up_thru, pg_temp, out);
        self.take_commits(clock, out);
    }
}
