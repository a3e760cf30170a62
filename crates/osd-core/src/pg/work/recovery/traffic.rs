//! Recovery in its group: the messages that it gets and sends, the requests that wait for it, what becomes of its changes.
//!
//! Holds no rule of recovery: [`super`] has them all. What members lack is learned by peering.

use super::apply::leftovers;
use super::host::{Change, Host, Limits, Part};
use super::kept::{Given, Kept};
use super::objects::{Gates, Recovery};
use super::wire::Envelope;
use crate::event::{Effect, Level};
use crate::pg::backend::at_store::Submitted;
use crate::pg::backend::layout::Layout;
use crate::pg::group::Group;
use crate::pg::members::peering::State;
use crate::pg::reconcile::missing::Missing;
use crate::pg::requests::Requests;
use crate::pg::requests::objects::head_name;
use crate::pg::work::Jobs;
use crate::pg::work::backfill::fill::Backfill;
use crate::pg::work::places::claims::is_too_full;
use crate::pg::work::places::lend::{Do as Lend, Lender};
use crate::planted::{Bug, planted};
use crate::request::ClientOp;
use crate::shared::Cx;
use base::Stamp;
use messages::{MOSDPGTemp, Message, Paxos};
use store::ObjectStore;
use types::{
    CollId, EVersion, HObject, ObjectCleanRegions, ObjectStatSum, PgInfo, PgMissingItem, PgShard, PgStat, Transaction, features, pg_state,
};

/// Leftovers removed at a time.
const LEFTOVERS_PAGE: usize = 64;

/// The group while its recovery works.
struct InGroup<'a, 'b> {
    requests: &'a mut Requests,
    work: &'a mut Jobs,
    group: &'a mut Group,
    cx: &'a mut Cx<'b>,
}

impl Host for InGroup<'_, '_> {
    fn store(&self) -> &dyn ObjectStore {
        &*self.cx.sh.store
    }
    fn coll(&self) -> CollId {
        self.group.coll
    }
    fn layout(&self) -> Layout {
        self.group.backend.layout()
    }
    fn is_primary(&self) -> bool {
        self.group.members.peering.is_primary()
    }
    fn limits(&self) -> Limits {
        Limits::of(&self.cx.sh.config)
    }
    fn now(&self) -> Stamp {
        self.cx.clock.mono
    }
    fn missing(&self) -> &Missing {
        self.group.record.missing()
    }
    fn members(&self) -> Vec<PgShard> {
        self.group.members.peering.others().filter(|member| self.group.members.peering.judged_member(*member).is_some()).collect()
    }
    fn known(&self) -> Vec<PgShard> {
        self.group.members.peering.judged_members().map(|(member, _)| member).filter(|member| self.cx.sh.map.is_up(member.osd)).collect()
    }
    fn info_of(&self, member: PgShard) -> Option<&PgInfo> {
        self.group.members.peering.judged_member(member).map(|known| &known.info)
    }
    fn missing_of(&self, member: PgShard) -> Option<&Missing> {
        self.group.members.peering.judged_member(member).map(|known| &known.missing)
    }
    fn send(&mut self, to: PgShard, part: Part) {
        self.group.tell().part(to, part, self.work.kept.asked_by, self.cx);
    }
    fn change(&mut self, change: Change) -> bool {
        self.work.kept.recovery_change(change, self.group, self.cx)
    }
    fn gives_up_own(&mut self, obj: &HObject, need: EVersion) -> bool {
        let others: Vec<PgShard> = self.group.members.peering.others().collect();
        let gives_up = self.group.members.peering.may_be_had_elsewhere(obj, need, &others, &*self.cx.sh.map)
            && self.work.scrubs.give_up_own(obj, need, self.requests, self.group, self.cx);
        if gives_up {
            let text = format!("{} recovery: the copy of {obj} here is damaged: another one is looked for", self.group.pgid);
            self.cx.out.push(Effect::ClusterLog { level: Level::Error, text });
            self.group.members.peering.lacks_again();
        }
        gives_up
    }
    fn member_got(&mut self, member: PgShard, obj: &HObject, version: EVersion) {
        self.group.members.peering.member_got(member, obj, version);
    }
    fn is_nearer(&mut self, obj: &HObject) {
        self.work.kept.nearer.push(obj.head());
    }
    fn complain(&mut self, text: String) {
        self.cx.sh.wishes.report_soon = true;
        self.cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{} recovery: {text}", self.group.pgid) });
    }

    fn targets(&self) -> Vec<PgShard> {
        self.group.members.peering.targets().iter().copied().collect()
    }
    fn info(&self) -> &PgInfo {
        self.group.record.info()
    }
    fn is_free(&self, head: &HObject) -> bool {
        self.requests.is_free(head)
    }
    fn member_lacks(&mut self, member: PgShard, obj: &HObject, need: EVersion) {
        self.group.members.peering.member_lacks(member, obj, need);
    }
    fn target_reached(&mut self, member: PgShard, to: HObject, stats: PgStat) {
        self.group.members.peering.filled_to(member, to, stats);
    }
    fn target_filled(&mut self, member: PgShard) {
        self.group.members.peering.filled(member);
        self.cx.sh.wishes.report_soon = true;
    }

    fn is_too_full(&self) -> bool {
        is_too_full(self.cx.sh, 0)
    }
    fn revoke(&mut self) -> bool {
        let mut was_lent = false;
        let does = |lender: &mut Lender, out: &mut Vec<Lend>| {
            lender.too_full(out);
            was_lent = !out.is_empty();
        };
        self.work.lend(does, self.group, self.cx);
        was_lent
    }
    fn keep_reached(&mut self, to: HObject, stats: PgStat, then: Option<(PgShard, Part)>) -> bool {
        self.work.kept.keep_reached(to, stats, then, self.group, self.cx)
    }
}

impl Jobs {
    /// Lets recovery do something, and then the requests that it was waited for with.
    pub(in crate::pg) fn recover<T>(
        &mut self,
        requests: &mut Requests,
        group: &mut Group,
        cx: &mut Cx<'_>,
        does: impl FnOnce(&mut Recovery, &mut dyn Host) -> T,
    ) -> T {
        let mut recovery = self.kept.recovery.take().expect("recovery does one thing at a time");
        let result = does(&mut recovery, &mut InGroup { requests, work: self, group, cx });
        group.record.stats_mut().stats.sum += &recovery.take_recovered();
        cx.sh.turns.want(recovery.work());
        self.kept.recovery = Some(recovery);
        let mut nearer = std::mem::take(&mut self.kept.nearer);
        nearer.dedup();
        for head in nearer {
            for op in self.kept.waiting.remove(&head).unwrap_or_default() {
                requests.client_op(op, self, group, cx);
            }
            cx.sh.wishes.report_soon = true;
        }
        self.ask_former(group, cx);
        self.kept.note_sleep(cx);
        self.reserve_on(requests, group, cx);
        self.check_recovered(group, cx);
        result
    }
    /// Time passes.
    pub(crate) fn wake_recovery(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if self.kept.recovery().is_some_and(|recovery| recovery.sleeps_until().is_some()) {
            self.kept.run().woken(cx.clock.mono);
            self.kept.note_sleep(cx);
            cx.sh.turns.want(self.work(requests, group));
        }
    }

    /// The members are active, and what each of them lacks is known.
    pub(in crate::pg) fn begin_recovery(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if group.members.peering.is_lacking(&group.record) && group.members.peering.pending_merge().is_none() {
            self.kept.run().set_gates(Gates { recovery: false, deletions: false, backfill: false });
            self.recover(requests, group, cx, |recovery, host| recovery.begin(host));
        }
    }
    /// Members lack these objects, which they had.
    pub(in crate::pg) fn begin_recovery_of<'a>(
        &mut self,
        objs: impl Iterator<Item = &'a HObject>,
        requests: &mut Requests,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) {
        group.members.peering.lacks_again();
        self.recover(requests, group, cx, |recovery, _| objs.for_each(|obj| recovery.add(obj)));
    }
    /// The interval is over: what was under way goes. Requests that waited are taken by [`Kept::end_requests`].
    pub(in crate::pg) fn end_recovery(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        let txn = self.recover(requests, group, cx, |recovery, host| recovery.end_interval(host));
        self.kept.given.iter_mut().for_each(|given| given.then = None);
        if !txn.is_empty() && group.backend.takes(txn, None, Submitted::Recovery, cx) {
            self.kept.given.push_back(Given { got: None, then: None });
        }
        self.kept.lack_young(group, cx);
    }
    /// A new map of the same interval: what its OSDs that are down had can't be had from them.
    pub(in crate::pg) fn recovery_map(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        let map = cx.sh.map.clone();
        let gone: Vec<PgShard> = group.members.peering.judged_members().map(|(member, _)| member).filter(|m| !map.is_up(m.osd)).collect();
        if !gone.is_empty() {
            gone.iter().for_each(|member| group.members.peering.is_gone(*member));
            self.recover(requests, group, cx, |recovery, host| recovery.gone(host, &|member| gone.contains(&member)));
        }
        self.stop_if_full(requests, group, cx);
        // Flags of the map say what may go on.
        self.gate(requests, group, cx);
    }
    /// State bits that follow from what members lack, beside `bits`.
    pub(in crate::pg) fn recovery_bits(&self, mut bits: u64, group: &Group) -> u64 {
        const SERVING: u64 = pg_state::ACTIVE | pg_state::PEERED;
        if bits & SERVING == 0 {
            return bits;
        }
        let lacking = group.members.peering.lacking(&group.record, self.kept.unfound_len());
        if lacking.copies > 0 || group.members.peering.copies(&group.record).degraded > 0 {
            bits |= pg_state::DEGRADED;
        }
        if lacking.copies > 0 {
            bits &= !pg_state::CLEAN;
        }
        bits | self.reserve_bits(group)
    }

    /// True if what is to be done with this head's name has to wait for recovery.
    pub(in crate::pg) fn lacks_name(&self, head: &HObject, writes: bool, group: &Group) -> bool {
        let has = |missing: &Missing| !missing.is_empty() && missing.of_name(head).next().is_some();
        let blocks = || self.kept.recovery().and_then(Recovery::backfill).is_some_and(|backfill| backfill.blocks(head));
        let is_young = || self.kept.is_young(head) && !planted(Bug::WriteOverYoung);
        let is_readable = group.backend.layout().is_readable(!has(group.record.missing()));
        !is_readable || (writes && (is_young() || group.members.peering.missing_elsewhere().any(has) || blocks()))
    }
    /// A request on an object that a member lacks waits, and what comes after it on the same object; the object goes first from now on.
    pub(in crate::pg) fn wait_for_recovery(
        &mut self,
        mut op: Box<ClientOp>,
        requests: &mut Requests,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) -> Option<Box<ClientOp>> {
        if (!group.members.peering.is_lacking(&group.record) && self.kept.waiting.is_empty() && self.kept.is_durable())
            || planted(Bug::ServeMissing)
        {
            return Some(op);
        }
        let head = head_name(&op.msg.hobj).into_owned();
        if !self.kept.waiting.contains_key(&head) && !self.lacks_name(&head, op.may_mutate(), group) {
            return Some(op);
        }
        op.set_aside(if self.lacks_name(&head, false, group) { "waiting for missing object" } else { "waiting for degraded object" });
        self.kept.waiting.entry(head.detach()).or_default().push_back(op);
        self.recover(requests, group, cx, |recovery, host| recovery.want(host, &head));
        None
    }

    /// Every member has the entries that give objects up: what waited for one that is not lacked any more goes on.
    pub(in crate::pg) fn go_on_with_given_up(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if self.kept.waiting.is_empty() {
            return;
        }
        let heads = self.kept.waiting.keys().filter(|head| !self.lacks_name(head, true, group)).cloned().collect();
        self.kept.nearer = heads;
        self.recover(requests, group, cx, |_, _| ());
    }

    /// A message of another member about objects.
    pub(crate) fn recovery_came(
        &mut self,
        from: PgShard,
        envelope: Envelope,
        parts: Vec<Part>,
        requests: &mut Requests,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) {
        if group.members.peering.is_old(envelope.map_epoch) {
            return;
        }
        for part in parts {
            let follows = part.fills() && !group.members.peering.is_of_primary(from, envelope.map_epoch);
            if follows || part.is_of_target() && !group.members.peering.targets().contains(&from) {
                continue;
            }
            if !part.names(|obj| group.holds(obj)) {
                cx.log(Level::Error, format!("{}: osd.{from}: recovery of objects of another group", group.pgid));
                continue;
            }
            if let Part::Digest { begin, page } = &part
                && self.sweep_listed(from, begin, page, group, cx)
            {
                continue;
            }
            let brings = if let Part::Push(push) = &part { push.data.len() as u64 } else { 0 };
            if part.asks_target() {
                self.kept.asked_by = envelope.min_epoch;
            }
            self.recover(requests, group, cx, |recovery, host| recovery.handle(host, from, part));
            if brings > 0 && cx.sh.is_full(brings) {
                self.stop_if_full(requests, group, cx);
            }
        }
    }

    /// The oldest change of recovery that was not durable is.
    pub(in crate::pg) fn recovery_durable(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        let Given { got, then } = self.kept.given.pop_front().expect("each change has its place");
        if let Some((to, part)) = then {
            group.tell().part(to, part, self.kept.asked_by, cx);
        }
        let head = got.map(|(obj, _)| obj.head());
        if let Some(head) = head.filter(|head| self.kept.waiting.contains_key(head) && !self.lacks_name(head, true, group)) {
            self.kept.nearer.push(head);
            self.recover(requests, group, cx, |_, _| ());
        }
        if self.kept.is_durable() {
            self.own_is_durable(requests, group, cx);
            self.check_recovered(group, cx);
        }
    }

    /// A group of which no member lacks an object is recovered. It then forgets former intervals, so it is not while their members may still
    /// serve: the next primary has to know of them. Nor is it before what recovery brought is durable here: former members let go of theirs.
    pub(crate) fn check_recovered(&mut self, group: &mut Group, cx: &mut Cx<'_>) {
        let waits_for_store = !self.kept.is_durable() && !planted(Bug::CleanBeforeDurable);
        if waits_for_store || (group.members.peering.is_active() && group.members.lease.waits()) {
            return;
        }
        if group.members.peering.is_recovered()
            || group.members.peering.is_lacking(&group.record)
            || !matches!(group.members.peering.state(), State::Active | State::Peered)
        {
            return;
        }
        self.forced = 0;
        group.members.peering.recovered(&mut group.record);
        group.save_info(cx);
        group.tell().info_to_all(cx);
        group.members.remove_strays(&group.record, cx);
        cx.sh.wishes.report_soon = true;
        cx.sh.wishes.merge_soon |= group.members.peering.is_premerge();
        if group.members.peering.gives_back_pg_temp() {
            let msg = MOSDPGTemp {
                paxos: Paxos::at(cx.sh.map.epoch.into()),
                map_epoch: cx.sh.map.epoch,
                pg_temp: [(group.pgid.pgid, Vec::new())].into(),
                forced: false,
            };
            cx.out.push(Effect::SendMon(msg.encode(features::SUPPORTED)));
        }
    }

    /// True if a target has this object, or will have it by what is on its way.
    pub(in crate::pg) fn has_got_to(&self, target: PgShard, head: &HObject, group: &Group) -> bool {
        let backfill = self.kept.recovery().and_then(|recovery| recovery.backfill());
        group.members.peering.judged_member(target).is_some_and(|known| Backfill::reaches(backfill, &known.info.last_backfill, head))
    }
    /// What a write changes of the counts goes to those of targets that have its object.
    pub(in crate::pg) fn count_at_targets(&mut self, head: &HObject, by: impl Fn(&mut ObjectStatSum), group: &mut Group) {
        let mut is_untold = false;
        for target in group.members.peering.targets().iter().copied().collect::<Vec<_>>() {
            let Some(peer) = group.members.peering.peer_mut(target) else { continue };
            match *head <= peer.member.info.last_backfill {
                true => by(&mut peer.member.info.stats.stats.sum),
                false => is_untold = true,
            }
        }
        if is_untold && let Some(sum) = self.kept.run().backfill_mut().and_then(|backfill| backfill.untold(head)) {
            by(sum);
        }
    }
}

impl Kept {
    /// As a target: we have everything up to here.
    fn keep_reached(&mut self, to: HObject, stats: PgStat, then: Option<(PgShard, Part)>, group: &mut Group, cx: &mut Cx<'_>) -> bool {
        let (backend, txn) = (&mut group.backend, Transaction::new(group.coll));
        let mut stats = stats;
        group.members.peering.mapping.note_in(&mut stats);
        let is_taken = group.record.reach(to, stats, |delta| backend.takes(txn, Some(delta), Submitted::Recovery, cx));
        if is_taken {
            self.given.push_back(Given { got: None, then });
        }
        is_taken
    }
    /// What recovery brought and is not durable is lacked again: the next primary is not told of a copy that a crash may take back.
    fn lack_young(&mut self, group: &mut Group, cx: &mut Cx<'_>) {
        let young: Vec<_> = self.given.iter().filter_map(|given| given.got.clone()).collect();
        for (obj, item) in young.into_iter().filter(|_| !planted(Bug::WriteOverYoung)) {
            if !group.record.missing().contains(&obj) {
                group.lack_own(&obj, &PgMissingItem { clean_regions: ObjectCleanRegions::fully_dirty(), ..item }, cx);
            }
        }
    }
    /// Removes objects that an earlier life of the OSD left half built.
    pub(in crate::pg) fn sweep_leftovers(&mut self, group: &mut Group, cx: &mut Cx<'_>) {
        if self.is_swept || self.recovery.as_ref().is_some_and(|recovery| recovery.is_building()) {
            return;
        }
        // What can't be listed now is listed by the next tick.
        let Ok(names) = leftovers(&*cx.sh.store, group.coll, LEFTOVERS_PAGE) else { return };
        self.is_swept = names.is_empty();
        let mut txn = Transaction::new(group.coll);
        names.iter().for_each(|name| txn.remove(name));
        if !txn.is_empty() {
            group.backend.takes(txn, None, Submitted::Record, cx);
        }
    }
    /// Gives a change of recovery to our store, with what it means for what we lack.
    fn recovery_change(&mut self, change: Change, group: &mut Group, cx: &mut Cx<'_>) -> bool {
        let Change { mut txn, index, got, then } = change;
        if let Some(index) = index {
            txn.append(crate::pg::snaps::note(&[index]));
        }
        let backend = &mut group.backend;
        let takes = |delta| backend.takes(txn, Some(delta), Submitted::Recovery, cx);
        let Ok(item) = group.record.got(got.as_ref().map(|(obj, version)| (obj, *version)), takes) else { return false };
        let got = got.and_then(|(obj, _)| Some((obj, item?)));
        self.given.push_back(Given { got, then });
        true
    }
}
