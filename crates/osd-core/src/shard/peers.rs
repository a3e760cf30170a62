//! What OSDs tell each other of placement groups: each message finds its group, when the group has the map that it was sent by.

use super::Shard;
use super::advance::{Part, tell_mon};
use crate::event::{ConnId, Effect, Level, Peer};
use crate::joint::Came;
use crate::outbound::notify_info;
use crate::pg::members::peering::Mapping;
use crate::pg::work::places::lend::lists;
use crate::pg::work::places::want::Kind;
use crate::pg::work::recovery::host;
use crate::pg::work::recovery::wire::{self, Envelope};
use crate::pg::{InOrder, Pg, Said, Word};
use crate::planted::{Bug, planted};
use crate::reserver::News;
use crate::shared::{Cx, EventCx};
use denc::Denc;
use maps::OsdMap;
use messages::osd_peering::{backfill_reserve, recovery_reserve};
use messages::{
    MBackfillReserve, MOSDPGInfo2, MOSDPGLease, MOSDPGLeaseAck, MOSDPGLog, MOSDPGNotify2, MOSDPGPCT, MOSDPGQuery2, MOSDPGRemove,
    MOSDPGUpdateLogMissing, MOSDPGUpdateLogMissingReply, MOSDRepOp, MOSDRepOpReply, MOSDRepScrub, MOSDRepScrubMap, MOSDScrubReserve,
    MRecoveryReserve, Message,
};
use types::{EntityAddrVec, EntityKind, Epoch, OsdId, PgInfo, PgShard, SpgId};

/// Messages that wait for a map or a group's removal; more of them are dropped, and asked for again when the next interval begins.
const AHEAD_MAX: usize = 4096;

/// A message by a map that we don't have, or to a group that is on its way out.
pub(crate) struct Ahead {
    pgid: SpgId,
    came: Came,
}

/// True if the map has the sender where it says that it is: one that is not there is of a life that is over, or no OSD of this cluster's.
fn is_where_it_says(map: &OsdMap, came: &Came) -> bool {
    let addrs = usize::try_from(came.from).ok().and_then(|osd| map.cluster_addrs.get(osd));
    came.at.is_none_or(|at| addrs.is_some_and(|addrs| addrs.0.contains(&at)))
}

impl Shard {
    /// A message of another OSD.
    pub(super) fn peer_message(&mut self, came: &Came, cx: &mut EventCx<'_>) {
        if let Err(error) = self.take_peer_message(came, cx) {
            let text = format!("osd.{}: {} that can't be read: {error}", came.from, messages::kind_name(came.msg.kind));
            cx.out.push(Effect::Log { level: Level::Warn, text });
        }
    }
    fn take_peer_message(&mut self, came: &Came, cx: &mut EventCx<'_>) -> Result<(), denc::DencError> {
        let Came { from, msg, .. } = came;
        let from = *from;
        match msg.kind {
            MOSDRepOp::KIND => {
                let mut m = MOSDRepOp::decode(msg)?;
                m.from.osd = from;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.min_epoch, cx) {
                    pg.hear(m.from, Said::InOrder(InOrder::Write(Box::new(m))), &mut cx);
                }
            }
            MOSDRepOpReply::KIND => {
                let mut m = MOSDRepOpReply::decode(msg)?;
                m.from.osd = from;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.min_epoch, cx) {
                    let said = Said::Durable { sent: m.map_epoch, number: m.tid, complete: m.last_complete_ondisk };
                    pg.hear(m.from, said, &mut cx);
                }
            }
            MOSDPGUpdateLogMissing::KIND => {
                let m = MOSDPGUpdateLogMissing::decode(msg)?;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.min_epoch, cx) {
                    pg.hear(PgShard::new(from, m.from), Said::InOrder(InOrder::Entries(Box::new(m))), &mut cx);
                }
            }
            MOSDPGUpdateLogMissingReply::KIND => {
                let m = MOSDPGUpdateLogMissingReply::decode(msg)?;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.min_epoch, cx) {
                    let said = Said::Durable { sent: m.map_epoch, number: m.rep_tid, complete: m.last_complete_ondisk };
                    pg.hear(PgShard::new(from, m.from), said, &mut cx);
                }
            }
            MOSDPGQuery2::KIND => {
                let m = MOSDPGQuery2::decode(msg)?;
                if !self.is_ahead(came, m.pgid, m.query.epoch_sent) {
                    self.queried(from, &m, cx);
                }
            }
            MOSDPGNotify2::KIND => {
                let m = MOSDPGNotify2::decode(msg)?;
                if !self.is_ahead(came, m.pgid, m.notify.epoch_sent) {
                    self.notified(from, m, cx);
                }
            }
            MOSDPGInfo2::KIND => {
                let m = MOSDPGInfo2::decode(msg)?;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.epoch_sent, cx) {
                    pg.hear(PgShard::new(from, m.info.pgid.shard), Said::InOrder(InOrder::Info(Box::new(m))), &mut cx);
                }
            }
            MOSDPGLog::KIND => {
                let m = MOSDPGLog::decode(msg)?;
                if !self.is_ahead(came, m.pgid(), m.epoch) {
                    self.log_came(from, m, cx);
                }
            }
            MOSDPGPCT::KIND => {
                let m = MOSDPGPCT::decode(msg)?;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.min_epoch, cx) {
                    let said = Said::Settled { sent: m.map_epoch, upto: m.committed_to };
                    pg.hear(PgShard::new(from, m.pgid.shard), said, &mut cx);
                }
            }
            MOSDPGLease::KIND => {
                let m = MOSDPGLease::decode(msg)?;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.epoch, cx) {
                    pg.hear(PgShard::new(from, m.pgid.shard), Said::Lease(m), &mut cx);
                }
            }
            MOSDPGLeaseAck::KIND => {
                let m = MOSDPGLeaseAck::decode(msg)?;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.epoch, cx) {
                    pg.hear(PgShard::new(from, m.pgid.shard), Said::LeaseAck { sent: m.epoch, ack: m.ack }, &mut cx);
                }
            }
            MOSDRepScrub::KIND => {
                let m = MOSDRepScrub::decode(msg)?;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.min_epoch, cx) {
                    pg.hear(PgShard::new(from, m.pgid.shard), Said::InOrder(InOrder::Scrub(Box::new(m))), &mut cx);
                }
            }
            MOSDRepScrubMap::KIND => {
                let mut m = MOSDRepScrubMap::decode(msg)?;
                m.from.osd = from;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.map_epoch, cx) {
                    pg.hear(m.from, Said::ScrubMap(Box::new(m)), &mut cx);
                }
            }
            MOSDScrubReserve::KIND => {
                let mut m = MOSDScrubReserve::decode(msg)?;
                m.from.osd = from;
                if let Some((pg, mut cx)) = self.group_at(came, m.pgid, m.map_epoch, cx) {
                    pg.hear(m.from, Said::ScrubSlot(m), &mut cx);
                }
            }
            MOSDPGRemove::KIND => {
                let m = MOSDPGRemove::decode(msg)?;
                // It is said once: by a map that we don't have yet, it waits.
                if !m.pgs.iter().any(|pgid| self.is_ahead(came, *pgid, m.epoch)) {
                    m.pgs.iter().for_each(|pgid| self.let_go(*pgid, m.epoch, cx));
                }
            }
            MBackfillReserve::KIND => {
                let m = MBackfillReserve::decode(msg)?;
                if !self.is_ahead(came, m.pgid, m.query_epoch) {
                    let bytes = m.primary_num_bytes.saturating_sub(m.shard_num_bytes.max(0));
                    let word = match m.kind {
                        backfill_reserve::REQUEST => Word::Request { kind: Kind::Backfill, priority: m.priority, bytes },
                        backfill_reserve::GRANT => Word::Grant,
                        backfill_reserve::RELEASE => Word::Release,
                        backfill_reserve::REVOKE => Word::Revoke,
                        backfill_reserve::REJECT_TOOFULL => Word::Refuse { lists: lists(m.shard_num_bytes) },
                        backfill_reserve::REVOKE_TOOFULL => Word::RevokeTooFull { lists: lists(m.shard_num_bytes) },
                        _ => return Ok(()),
                    };
                    self.place_word(from, m.pgid, m.query_epoch, word, cx);
                }
            }
            MRecoveryReserve::KIND => {
                let m = MRecoveryReserve::decode(msg)?;
                if !self.is_ahead(came, m.pgid, m.query_epoch) {
                    let word = match m.kind {
                        recovery_reserve::REQUEST => Word::Request { kind: Kind::Recovery, priority: m.priority, bytes: 0 },
                        recovery_reserve::GRANT => Word::Grant,
                        recovery_reserve::RELEASE => Word::Release,
                        recovery_reserve::REVOKE => Word::Revoke,
                        _ => return Ok(()),
                    };
                    self.place_word(from, m.pgid, m.query_epoch, word, cx);
                }
            }
            kind if wire::is_ours(kind) => {
                let (envelope, parts) = wire::decode(msg)?;
                if !self.is_ahead(came, envelope.pgid, envelope.min_epoch) {
                    self.recovery_came(from, envelope, parts, cx);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Sessions with an OSD that was up and is up there no longer are closed at once: nothing of that life is to be heard any more.
    pub(super) fn close_sessions_of_the_dead(&mut self, before: &OsdMap, now: &OsdMap, cx: &mut EventCx<'_>) {
        let same = |osd: OsdId| now.is_up(osd) && now.cluster_addrs.get(osd as usize) == before.cluster_addrs.get(osd as usize);
        let gone: Vec<OsdId> = before.osds().filter(|osd| *osd != self.sh.whoami && before.is_up(*osd) && !same(*osd)).collect();
        if gone.is_empty() {
            return;
        }
        let is_gone = |peer: &Peer| {
            let osd = peer.name.num as OsdId;
            let at = |addrs: &[EntityAddrVec]| addrs.get(osd as usize).and_then(EntityAddrVec::msgr2) == Some(peer.addr);
            peer.name.kind == EntityKind::OSD
                && gone.contains(&osd)
                && (at(&before.cluster_addrs) || at(&before.client_addrs) || at(&before.hb_back_addrs) || at(&before.hb_front_addrs))
        };
        let mut conns: Vec<ConnId> = self.sh.sessions.iter().filter(|(_, s)| is_gone(&s.peer)).map(|(conn, _)| *conn).collect();
        conns.sort_unstable();
        cx.out.extend(conns.into_iter().map(Effect::Close));
    }

    /// True if a message is not to be taken now. It may have to wait: for the map that it was sent by, for a group that is behind or on its way out,
    /// or for another one that waits. Or it is for nobody: by the map that it was sent by, its sender is not where it comes from.
    fn is_ahead(&mut self, came: &Came, pgid: SpgId, epoch: Epoch) -> bool {
        let is_newer = epoch > self.sh.map.epoch;
        // One that is not there may say what it likes, and nothing that the OSD itself says waits behind it.
        let place = |came: &Came| {
            let known = || usize::try_from(came.from).ok().and_then(|osd| self.sh.map.cluster_addrs.get(osd)?.msgr2());
            (came.from, came.at.or_else(known))
        };
        let waits = is_newer
            || !self.sh.serves
            || self.removals.has(pgid)
            || (!self.ahead.is_empty() && self.ahead.iter().any(|a| a.pgid == pgid && place(&a.came) == place(came)));
        if waits {
            if is_newer {
                self.sh.wishes.wants_maps = true;
            }
            if self.ahead.len() < AHEAD_MAX {
                self.ahead.push(Ahead { pgid, came: came.clone() });
            }
            return true;
        }
        if !is_where_it_says(&self.sh.map, came) && !planted(Bug::BelieveAddress) {
            return true;
        }
        if self.awaits_map(pgid) {
            self.hold_message(came.clone());
            return true;
        }
        false
    }
    /// Messages that waited are looked at again.
    pub(super) fn replay_peers(&mut self, cx: &mut EventCx<'_>) {
        for Ahead { came, .. } in std::mem::take(&mut self.ahead) {
            self.peer_message(&came, cx);
        }
    }

    /// A group that is here, with what it is to work with.
    fn group<'a>(&'a mut self, pgid: SpgId, cx: &'a mut EventCx<'_>) -> Option<(&'a mut Pg, Cx<'a>)> {
        let slot = *self.index.get(&pgid)?;
        let pg = self.pgs[slot as usize].as_mut().expect("the index names groups that are here");
        Some((pg, cx.with(&mut self.sh)))
    }

    /// The group that a message is for, at the map that it was sent by; nothing if there is none, or the message has to wait.
    fn group_at<'a>(&'a mut self, came: &Came, pgid: SpgId, epoch: Epoch, cx: &'a mut EventCx<'_>) -> Option<(&'a mut Pg, Cx<'a>)> {
        if self.is_ahead(came, pgid, epoch) { None } else { self.group(pgid, cx) }
    }

    fn queried(&mut self, from: OsdId, m: &MOSDPGQuery2, cx: &mut EventCx<'_>) {
        let from = PgShard::new(from, m.query.from);
        if let Some((pg, mut cx)) = self.group(m.pgid, cx) {
            return pg.hear(from, Said::InOrder(InOrder::Query(Box::new(m.query.clone()))), &mut cx);
        }
        if self.is_unknown(m.pgid) {
            // What it has is unknown. The answer that it has none would let the others go on without what this OSD alone acknowledged.
            return;
        }
        // Never heard of it: an info that says so.
        notify_info(PgInfo::new(m.pgid), Default::default(), from, m.query.epoch_sent, &mut cx.with(&mut self.sh));
    }

    /// Another OSD has some of a group, or answers that it has none.
    fn notified(&mut self, from: OsdId, m: MOSDPGNotify2, cx: &mut EventCx<'_>) {
        if !self.index.contains_key(&m.pgid) {
            if m.notify.info.dne() {
                return;
            }
            let (history, past) = (m.notify.info.history, m.notify.past_intervals.clone());
            self.create_for_peer(m.pgid, m.notify.epoch_sent, history, past, Part::Primary, cx);
        }
        let Some((pg, mut group_cx)) = self.group(m.pgid, cx) else { return };
        let said = Said::Has { query_epoch: m.notify.query_epoch, info: Box::new(m.notify.info) };
        pg.hear(PgShard::new(from, m.notify.from), said, &mut group_cx);
        self.peer_on(m.pgid, cx);
    }

    /// The log of a group's primary.
    fn log_came(&mut self, from: OsdId, m: MOSDPGLog, cx: &mut EventCx<'_>) {
        let pgid = m.pgid();
        if !self.index.contains_key(&pgid) {
            let (history, past) = (m.info.history, m.past_intervals.clone());
            // Its interval is the primary's at this map, and may have begun before all maps that are kept here.
            self.create_for_peer(pgid, m.epoch, history, past, Part::Replica, cx);
            // The first step of a group that follows another.
            self.peer_on(pgid, cx);
        }
        let Some((pg, mut group_cx)) = self.group(pgid, cx) else { return };
        pg.hear(PgShard::new(from, m.from), Said::InOrder(InOrder::Log(Box::new(m))), &mut group_cx);
        self.peer_on(pgid, cx);
    }

    /// A group peers as far as it goes.
    pub(super) fn peer_on(&mut self, pgid: SpgId, cx: &mut EventCx<'_>) {
        let Some(slot) = self.index.get(&pgid).copied() else { return };
        let (mut up_thru, mut pg_temp) = (0, Default::default());
        self.activate_one(slot as usize, &mut up_thru, &mut pg_temp, cx);
        tell_mon(self.sh.map.epoch, up_thru, pg_temp, cx);
    }

    /// The primary needs our copy of a group no longer. A group that the map has here stays.
    fn let_go(&mut self, pgid: SpgId, epoch: Epoch, cx: &mut EventCx<'_>) {
        let Some(slot) = self.index.get(&pgid).copied() else { return };
        let pg = self.pgs[slot as usize].as_ref().expect("the index names groups that are here");
        let (me, m) = (self.sh.whoami, &pg.peering().mapping);
        if epoch >= pg.peering().last_peering_reset && !m.up.contains(&me) && !m.acting.contains(&me) {
            self.remove(slot as usize, cx);
        }
    }

    /// True if the group has had one interval from a map up to ours.
    pub(super) fn is_same_interval(&mut self, pgid: SpgId, since: Epoch) -> bool {
        let map = self.sh.map.clone();
        let Some(now) = self.mapping(&map, pgid.pgid) else { return false };
        let mut at = |epoch: Epoch| -> Option<Mapping> {
            let map = maps::OsdMap::from_bytes(self.sh.maps.read().full(epoch)?).ok()?;
            self.mapping(&map, pgid.pgid)
        };
        (since..map.epoch).all(|epoch| at(epoch).is_some_and(|then| !then.begins_interval(pgid.pgid.seed, &now)))
    }

    /// Another OSD says something of a place.
    fn place_word(&mut self, from: OsdId, pgid: SpgId, sent: Epoch, word: Word, cx: &mut EventCx<'_>) {
        let Some(slot) = self.index.get(&pgid).copied() else { return };
        let pg = self.pgs[slot as usize].as_mut().expect("the index names groups that are here");
        let from = PgShard::new(from, pgid.shard);
        pg.hear(from, Said::Place { sent, word }, &mut cx.with(&mut self.sh));
    }
    /// What the OSD's places came to is told to their groups. False if there was nothing.
    pub(super) fn tell_places(&mut self, cx: &mut EventCx<'_>) -> bool {
        let mut any = false;
        loop {
            let (local, (pgid, news)) = match (self.sh.bounds.local_places.take_news(), self.sh.bounds.remote_places.take_news()) {
                (None, None) => return any,
                (Some(news), None) => (true, news),
                (None, Some(news)) => (false, news),
                (Some(local), Some(remote)) => {
                    self.place_news(false, remote, cx);
                    (true, local)
                }
            };
            any = true;
            self.place_news(local, (pgid, news), cx);
        }
    }
    fn place_news(&mut self, is_local: bool, (pgid, news): (SpgId, News), cx: &mut EventCx<'_>) {
        let Some(slot) = self.index.get(&pgid).copied() else { return };
        let pg = self.pgs[slot as usize].as_mut().expect("the index names groups that are here");
        pg.place_news(is_local, news, &mut cx.with(&mut self.sh));
    }
    /// A message of another member about objects of a group, sent by a map that we have.
    fn recovery_came(&mut self, from: OsdId, envelope: Envelope, parts: Vec<host::Part>, cx: &mut EventCx<'_>) {
        let Some(slot) = self.index.get(&envelope.pgid).copied() else { return };
        let pg = self.pgs[slot as usize].as_mut().expect("the index names groups that are here");
        pg.hear(PgShard::new(from, envelope.from.shard), Said::Parts(envelope, parts), &mut cx.with(&mut self.sh));
    }
}
