//! A primary and its members: their activation, what they say of writes, and when all of them are told how the group stands.
//!
//! Which members there are is [`super::peering`]'s to say; what a member does with it, [`super::replica`]'s; what messages say, [`super::tell`]'s. The lease
//! by which the primary serves goes with the activations.

use super::Pg;
use super::backfill::run::Backfill;
use super::logs::member::Bring;
use super::logs::part;
use super::peering::State;
use crate::event::Effect;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use messages::{MOSDPGTemp, Message, Paxos, PgLease};
use store::StoreError;
use types::{EVersion, Epoch, HObject, ObjectStatSum, PgInfo, PgLogEntry, PgShard, features};

impl Pg {
    /// Starts the interval at each other member: those that have the log hear so, others get what they lack of it. `entries` are those of our log
    /// above what the last of them has.
    pub(super) fn activate_members(&mut self, entries: &[PgLogEntry], lease: Option<PgLease>, cx: &mut Cx<'_>) {
        let ours = self.record.info();
        for member in self.peering.others().collect::<Vec<_>>() {
            let bring = self.peering.bring(member, ours);
            let peer = self.peering.peer_mut(member).expect("a member is chosen by its info");
            peer.brought = Some(bring);
            match bring {
                Bring::Log(since) => peer.member.send_log(entries.iter().filter(|e| e.version > since), ours),
                Bring::Info => {}
                Bring::Backfill => {
                    peer.member.send_backfill(part::newest_tail(self.record.log(), cx.sh.log_bounds.min), ours);
                    peer.complete_on_disk = EVersion::ZERO;
                }
            }
            self.tell().start(member, bring, entries, lease, cx);
        }
    }
    /// Tells members that have not answered to start the interval once more, if the map is a newer one by now. A new member drops a log whose map is
    /// older than all that it keeps: it can't know that the interval of that map is the present one. A member that has started ignores it.
    pub(super) fn activate_again(&mut self, cx: &mut Cx<'_>) {
        let late = self.peering.told_by_older_map();
        if late.is_empty() {
            return;
        }
        let entries = match cx.sh.store.pg_log(self.pgid, EVersion::ZERO, usize::MAX) {
            Ok(entries) => entries,
            // What the store has to fetch is there at a later tick.
            Err(StoreError::Wait(_)) => return,
            Err(error) => return cx.out.push(Effect::Stop { why: Some(format!("{}: its log: {error}", self.pgid)) }),
        };
        let lease = self.renew_lease(cx);
        for (member, bring) in late {
            self.tell().start(member, bring, &entries, lease, cx);
        }
        self.peering.told_again();
    }
    /// A group of which no member lacks an object is recovered. It then forgets former intervals, so it is not while their members may still
    /// serve: the next primary has to know of them. Nor is it before what recovery brought is durable here: former members let go of theirs.
    pub(crate) fn check_recovered(&mut self, cx: &mut Cx<'_>) {
        let waits_for_store = !self.room.is_durable() && !planted(Bug::CleanBeforeDurable);
        if waits_for_store || (self.peering.is_active() && self.lease.waits()) {
            return;
        }
        if self.peering.is_recovered()
            || self.peering.is_lacking(&self.record)
            || !matches!(self.peering.state(), State::Active | State::Peered)
        {
            return;
        }
        self.forced = 0;
        self.peering.recovered(&mut self.record);
        self.save_info(cx);
        self.tell().info_to_all(cx);
        self.remove_strays(cx);
        cx.sh.report_soon = true;
        cx.sh.merge_soon |= self.peering.is_premerge();
        if self.peering.gives_back_pg_temp() {
            let msg = MOSDPGTemp {
                paxos: Paxos::at(cx.sh.map.epoch.into()),
                map_epoch: cx.sh.map.epoch,
                pg_temp: [(self.pgid.pgid, Vec::new())].into(),
                forced: false,
            };
            cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
        }
    }
    /// Members of past intervals may let go of a group that is clean.
    pub(super) fn remove_strays(&mut self, cx: &mut Cx<'_>) {
        if !self.peering.is_clean() && !(self.peering.is_active() && planted(Bug::LetGoEarly)) {
            return;
        }
        let map = cx.sh.map.clone();
        for stray in self.peering.take_strays(&*map) {
            self.tell().remove(stray, cx);
        }
    }

    /// A member's activation is durable there; with the last, the group serves.
    pub(super) fn member_activated(&mut self, from: PgShard, cx: &mut Cx<'_>) {
        if self.peering.activated(from, &mut self.record, cx.clock.mono) {
            self.on_active(cx);
        }
    }
    /// A member says how it stands: the first word of each is that its activation is durable.
    pub(crate) fn member_info(&mut self, from: PgShard, sent: Epoch, cx: &mut Cx<'_>) {
        if !self.peering.is_old(sent) && self.peering.state() == State::Activating {
            self.member_activated(from, cx);
        }
    }
    /// A member of this interval or of another says what it has.
    pub(crate) fn notified(&mut self, from: PgShard, query_epoch: Epoch, theirs: PgInfo, cx: &mut Cx<'_>) {
        if !self.peering.is_primary() || self.peering.is_old(query_epoch) {
            return;
        }
        self.lease.heard(theirs.history.prior_readable_until_ub_ns, cx.clock.mono);
        self.peering.heard(from, theirs, &mut self.record, cx.clock.mono);
        self.ask_former(cx);
        self.remove_strays(cx);
    }

    /// True if a target has this object, or will have it by what is on its way.
    pub(super) fn has_got_to(&self, target: PgShard, head: &HObject) -> bool {
        let backfill = self.room.recovery().and_then(|recovery| recovery.backfill());
        self.peering.judged_member(target).is_some_and(|known| Backfill::reaches(backfill, &known.info.last_backfill, head))
    }
    /// What a write changes of the counts goes to those of targets that have its object.
    pub(super) fn count_at_targets(&mut self, head: &HObject, by: impl Fn(&mut ObjectStatSum)) {
        let mut is_untold = false;
        for target in self.peering.targets().iter().copied().collect::<Vec<_>>() {
            let Some(peer) = self.peering.peer_mut(target) else { continue };
            match *head <= peer.member.info.last_backfill {
                true => by(&mut peer.member.info.stats.stats.sum),
                false => is_untold = true,
            }
        }
        if is_untold && let Some(sum) = self.room.run().backfill_mut().and_then(|backfill| backfill.untold(head)) {
            by(sum);
        }
    }
    /// A member has a write on disk.
    pub(crate) fn acknowledged(&mut self, from: PgShard, epoch: Epoch, number: u64, complete: EVersion, cx: &mut Cx<'_>) {
        if !self.peering.is_primary() || self.peering.is_old(epoch) {
            return;
        }
        self.peering.complete_on_disk(from, complete);
        if let Some(version) = self.inflight.version_of(number) {
            self.arrived(from, version, cx);
        }
    }
}
