//! What other members say to the group, and what comes of it, in order.
//!
//! Some of what they say while they peer needs our own log, which the store may have to fetch: what comes behind such a message waits with it.

use super::Pg;
use super::members::peering::State;
use super::members::said::{InOrder, Said, Stop};
use super::reconcile::member::Member;
use super::reconcile::missing::Missing;
use super::reconcile::{LogError, PeerLog};
use crate::event::Level;
use crate::shared::Cx;
use messages::{MOSDPGInfo2, MOSDPGLog, PgLeaseAck};
use types::{EVersion, Epoch, OsdId, PgInfo, PgShard};

impl Pg {
    /// Another member says something.
    pub(crate) fn hear(&mut self, from: PgShard, said: Said, cx: &mut Cx<'_>) {
        let (requests, work, group) = (&mut self.requests, &mut self.work, &mut self.group);
        let from = said.sender(from, &group.members.peering);
        match said {
            Said::InOrder(said) => {
                if group.members.park(from, said) {
                    self.hear_parked(cx);
                }
            }
            Said::Durable { sent, number, complete } => self.acknowledged(from, sent, number, complete, cx),
            Said::Has { query_epoch, info } => self.notified(from, query_epoch, *info, cx),
            Said::Settled { sent, upto } if group.members.peering.is_of_primary(from, sent) => group.backend.settled(upto),
            Said::Settled { .. } => {}
            Said::Lease(m) => group.members.lease_came(from, &m, &group.record, cx),
            Said::LeaseAck { sent, ack } => self.lease_acknowledged(from.osd, sent, ack, cx),
            Said::ScrubSlot(m) => work.scrubbing(requests, group, cx).slot_came(&m),
            Said::ScrubMap(m) => work.scrubbing(requests, group, cx).map_came(&m),
            Said::Place { sent, word } => work.place_word(from, sent, word, requests, group, cx),
            Said::Parts(envelope, parts) => work.recovery_came(from, envelope, parts, requests, group, cx),
        }
    }
    /// What was said goes on, as far as the store lets it.
    pub(super) fn hear_parked(&mut self, cx: &mut Cx<'_>) {
        while !self.group.backend.is_unsettled()
            && let Some((from, said)) = self.group.members.next_parked()
        {
            let result = match &said {
                InOrder::Query(query) => self.group.members.queried(from, query, &self.group.record, cx),
                InOrder::Info(m) => self.info_came(from, m, cx),
                InOrder::Log(m) => self.log_came(from, m, cx),
                InOrder::Write(m) => self.group.write_came(m, &mut self.work, cx).map_err(Stop::Bad),
                InOrder::Entries(m) => self.group.entries_came(from, m, cx).map_err(Stop::Bad),
                InOrder::Scrub(m) => {
                    self.work.scrubbing(&mut self.requests, &mut self.group, cx).map_wanted(from, m);
                    Ok(())
                }
            };
            match result {
                Ok(()) => {}
                Err(Stop::Wait) => return self.group.members.park_again(from, said),
                Err(Stop::Bad(why)) => cx.log(Level::Error, format!("{}: osd.{from}: {why}", self.pgid)),
            }
        }
    }

    /// The primary says how the group stands. To a stray it is the word to serve: what that has beyond the primary's log does not count.
    fn info_came(&mut self, from: PgShard, m: &MOSDPGInfo2, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let sent = m.epoch_sent.min(m.min_epoch);
        if self.group.members.peering.is_primary() {
            if let Some(ack) = m.lease_ack {
                self.lease_acknowledged(from.osd, sent, ack, cx);
            }
            // The first word of each is that its activation is durable.
            if !self.group.members.peering.is_old(sent) && self.group.members.peering.state() == State::Activating {
                self.member_activated(from, cx);
            }
            return Ok(());
        }
        if !self.group.members.peering.is_of_primary(from, sent) {
            return Ok(());
        }
        match self.group.members.peering.state() {
            State::Stray => {
                if self.group.record.info().last_update > m.info.last_update {
                    self.group.rewind_log(&m.info, cx)?;
                }
                self.group.follow(&m.info, m.lease.as_ref(), cx)?;
            }
            State::ReplicaActive => {
                self.group.take_info(&m.info, cx);
                self.group.save_info(cx);
            }
            _ => {}
        }
        Ok(())
    }
    /// A log comes: that of our primary, or what we asked for as one.
    fn log_came(&mut self, from: PgShard, m: &MOSDPGLog, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let sent = m.epoch.min(m.query_epoch);
        if !self.group.members.peering.is_primary() {
            return self.group.log_of_primary(from, sent, m, cx);
        }
        if self.group.members.peering.is_old(sent) {
            return Ok(());
        }
        if self.group.members.peering.best() == Some(from) {
            self.group.merge_log(PeerLog::check(m.log.clone())?, &m.info, cx)?;
            self.group.record.history_mut().merge(&m.info.history);
            self.group.members.peering.merged(m.info.clone(), Missing::from(&m.missing), cx.clock.mono);
        } else if self.group.members.peering.is_asked_for_log(from) {
            let missing = Missing::from(&m.missing);
            let (layout, theirs) = (self.group.backend.layout(), PeerLog::check(m.log.clone())?);
            let member = match Member::judge(layout, self.group.record.log(), m.info.clone(), &theirs, missing) {
                // The part that was asked for begins behind the point where the logs part.
                Err(LogError::Unanchored(_)) => {
                    self.group.tell().query_log(from, None, cx);
                    return Ok(());
                }
                member => member?,
            };
            self.group.members.peering.judged(from, member);
            self.work.look_for_unfound(&mut self.requests, &mut self.group, cx);
        }
        Ok(())
    }

    /// A member's activation is durable there; with the last, the group serves.
    pub(super) fn member_activated(&mut self, from: PgShard, cx: &mut Cx<'_>) {
        if self.group.members.peering.activated(from, &mut self.group.record, cx.clock.mono) {
            self.on_active(cx);
        }
    }
    /// A member of this interval or of another says what it has.
    fn notified(&mut self, from: PgShard, query_epoch: Epoch, theirs: PgInfo, cx: &mut Cx<'_>) {
        if !self.group.members.peering.is_primary() || self.group.members.peering.is_old(query_epoch) {
            return;
        }
        self.group.members.lease.heard(theirs.history.prior_readable_until_ub_ns, cx.clock.mono);
        self.group.members.peering.heard(from, theirs, &mut self.group.record, cx.clock.mono);
        self.work.ask_former(&mut self.group, cx);
        self.group.members.remove_strays(&self.group.record, cx);
    }
    /// A member has a write on disk.
    fn acknowledged(&mut self, from: PgShard, epoch: Epoch, number: u64, complete: EVersion, cx: &mut Cx<'_>) {
        if !self.group.members.peering.is_primary() || self.group.members.peering.is_old(epoch) {
            return;
        }
        self.group.members.peering.complete_on_disk(from, complete);
        if let Some(version) = self.group.backend.version_of(number) {
            self.arrived(from, version, cx);
        }
    }
    /// A member has heard of the lease.
    fn lease_acknowledged(&mut self, from: OsdId, sent: Epoch, ack: PgLeaseAck, cx: &mut Cx<'_>) {
        if !self.group.members.peering.is_primary() || self.group.members.peering.is_old(sent) {
            return;
        }
        let before = self.group.members.lease.bits();
        if self.group.members.lease.acknowledged(from, ack, cx.clock.mono) && self.group.members.peering.is_active() {
            self.requests.serve_waiting(&mut self.work, &mut self.group, cx);
        }
        cx.sh.wishes.report_soon |= self.group.members.lease.bits() != before;
    }
}
