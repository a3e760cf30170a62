//! Recovery in its group: the messages that it gets and sends, the requests that wait for it, what becomes of its changes.
//!
//! Holds no rule of recovery: [`super::recovery`] has them all. What members lack is learned by peering.

use super::Pg;
use super::at_store::Submitted;
use super::logs::missing::Missing;
use super::objects::head_name;
use super::recovery::apply::leftovers;
use super::recovery::host::{Change, Host, Limits, Part};
use super::recovery::room::Given;
use super::recovery::run::{Gates, Recovery};
use super::recovery::wire::Envelope;
use super::reserving::is_too_full;
use crate::event::{Effect, Level};
use crate::planted::{Bug, planted};
use crate::request::ClientOp;
use crate::shared::Cx;
use base::Stamp;
use store::ObjectStore;
use types::{CollId, EVersion, HObject, ObjectCleanRegions, OsdId, PgInfo, PgMissingItem, PgShard, PgStat, Transaction, pg_state};

/// Leftovers removed at a time.
const LEFTOVERS_PAGE: usize = 64;

/// The group while its recovery works.
struct InGroup<'a, 'b> {
    pg: &'a mut Pg,
    cx: &'a mut Cx<'b>,
}

impl Host for InGroup<'_, '_> {
    fn store(&self) -> &dyn ObjectStore {
        &*self.cx.sh.store
    }
    fn coll(&self) -> CollId {
        self.pg.coll
    }
    fn is_primary(&self) -> bool {
        self.pg.peering.is_primary()
    }
    fn limits(&self) -> Limits {
        Limits::of(&self.cx.sh.config)
    }
    fn now(&self) -> Stamp {
        self.cx.clock.mono
    }
    fn missing(&self) -> &Missing {
        self.pg.record.missing()
    }
    fn members(&self) -> Vec<PgShard> {
        self.pg.peering.others().filter(|member| self.pg.peering.judged_member(*member).is_some()).collect()
    }
    fn known(&self) -> Vec<PgShard> {
        self.pg.peering.judged_members().map(|(member, _)| member).filter(|member| self.cx.sh.map.is_up(member.osd)).collect()
    }
    fn info_of(&self, member: PgShard) -> Option<&PgInfo> {
        self.pg.peering.judged_member(member).map(|known| &known.info)
    }
    fn missing_of(&self, member: PgShard) -> Option<&Missing> {
        self.pg.peering.judged_member(member).map(|known| &known.missing)
    }
    fn send(&mut self, to: PgShard, part: Part) {
        self.pg.tell().part(to, part, self.pg.room.asked_by, self.cx);
    }
    fn change(&mut self, change: Change) -> bool {
        self.pg.recovery_change(change, self.cx)
    }
    fn gives_up_own(&mut self, obj: &HObject, need: EVersion) -> bool {
        let others: Vec<PgShard> = self.pg.peering.others().collect();
        let gives_up =
            self.pg.peering.may_be_had_elsewhere(obj, need, &others, &*self.cx.sh.map) && self.pg.give_up_own(obj, need, self.cx);
        if gives_up {
            let text = format!("{} recovery: the copy of {obj} here is damaged: another one is looked for", self.pg.pgid);
            self.cx.out.push(Effect::ClusterLog { level: Level::Error, text });
            self.pg.peering.lacks_again();
        }
        gives_up
    }
    fn member_got(&mut self, member: PgShard, obj: &HObject, version: EVersion) {
        self.pg.peering.member_got(member, obj, version);
    }
    fn is_nearer(&mut self, obj: &HObject) {
        self.pg.room.nearer.push(obj.head());
    }
    fn complain(&mut self, text: String) {
        self.cx.sh.report_soon = true;
        self.cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{} recovery: {text}", self.pg.pgid) });
    }

    fn targets(&self) -> Vec<PgShard> {
        self.pg.peering.targets().iter().copied().collect()
    }
    fn info(&self) -> &PgInfo {
        self.pg.record.info()
    }
    fn is_free(&self, head: &HObject) -> bool {
        self.pg.objects.is_free(head)
    }
    fn member_lacks(&mut self, member: PgShard, obj: &HObject, need: EVersion) {
        self.pg.peering.member_lacks(member, obj, need);
    }
    fn target_reached(&mut self, member: PgShard, to: HObject, stats: PgStat) {
        self.pg.peering.filled_to(member, to, stats);
    }
    fn target_filled(&mut self, member: PgShard) {
        self.pg.peering.filled(member);
        self.cx.sh.report_soon = true;
    }

    fn is_too_full(&self) -> bool {
        is_too_full(self.cx.sh, 0)
    }
    fn revoke(&mut self) {
        self.pg.revoke_too_full(self.cx);
    }
    fn keep_reached(&mut self, to: HObject, stats: PgStat, then: Option<(PgShard, Part)>) -> bool {
        self.pg.keep_reached(to, stats, then, self.cx)
    }
}

impl Pg {
    /// Lets recovery do something, and then the requests that it was waited for with.
    pub(super) fn recover<T>(&mut self, cx: &mut Cx<'_>, does: impl FnOnce(&mut Recovery, &mut dyn Host) -> T) -> T {
        let mut recovery = self.room.recovery.take().expect("recovery does one thing at a time");
        let result = does(&mut recovery, &mut InGroup { pg: self, cx });
        self.record.stats_mut().stats.sum += &recovery.take_recovered();
        cx.sh.turns.want(recovery.work());
        self.room.recovery = Some(recovery);
        let mut nearer = std::mem::take(&mut self.room.nearer);
        nearer.dedup();
        for head in nearer {
            for op in self.room.waiting.remove(&head).unwrap_or_default() {
                self.client_op(op, cx);
            }
            cx.sh.report_soon = true;
        }
        self.ask_former(cx);
        self.room.note_sleep(cx);
        self.reserve_on(cx);
        self.check_recovered(cx);
        result
    }
    /// Time passes.
    pub(crate) fn wake_recovery(&mut self, cx: &mut Cx<'_>) {
        if self.room.recovery().is_some_and(|recovery| recovery.sleeps_until().is_some()) {
            self.room.run().woken(cx.clock.mono);
            self.room.note_sleep(cx);
            cx.sh.turns.want(self.work());
        }
    }

    /// The members are active, and what each of them lacks is known.
    pub(super) fn begin_recovery(&mut self, cx: &mut Cx<'_>) {
        if self.peering.is_lacking(&self.record) && self.peering.pending_merge().is_none() {
            self.room.run().set_gates(Gates { recovery: false, deletions: false, backfill: false });
            self.recover(cx, |recovery, host| recovery.begin(host));
        }
    }
    /// Members lack these objects, which they had.
    pub(super) fn begin_recovery_of<'a>(&mut self, objs: impl Iterator<Item = &'a HObject>, cx: &mut Cx<'_>) {
        self.peering.lacks_again();
        self.recover(cx, |recovery, _| objs.for_each(|obj| recovery.add(obj)));
    }
    /// As a target: we have everything up to here.
    fn keep_reached(&mut self, to: HObject, stats: PgStat, then: Option<(PgShard, Part)>, cx: &mut Cx<'_>) -> bool {
        let (at_store, txn) = (&mut self.at_store, Transaction::new(self.coll));
        let mut stats = stats;
        self.peering.mapping.note_in(&mut stats);
        let is_taken = self.record.reach(to, stats, |delta| at_store.takes(txn, Some(delta), Submitted::Recovery, cx));
        if is_taken {
            self.room.given.push_back(Given { got: None, then });
        }
        is_taken
    }
    /// The interval is over: what was under way goes. Requests that waited are taken by [`Room::end_requests`].
    pub(super) fn end_recovery(&mut self, cx: &mut Cx<'_>) {
        let txn = self.recover(cx, |recovery, host| recovery.end_interval(host));
        self.room.given.iter_mut().for_each(|given| given.then = None);
        if !txn.is_empty() && self.at_store.takes(txn, None, Submitted::Recovery, cx) {
            self.room.given.push_back(Given { got: None, then: None });
        }
        self.lack_young(cx);
    }
    /// What recovery brought and is not durable is lacked again: the next primary is not told of a copy that a crash may take back.
    fn lack_young(&mut self, cx: &mut Cx<'_>) {
        let young: Vec<_> = self.room.given.iter().filter_map(|given| given.got.clone()).collect();
        for (obj, item) in young.into_iter().filter(|_| !planted(Bug::WriteOverYoung)) {
            if !self.record.missing().contains(&obj) {
                self.lack_own(&obj, &PgMissingItem { clean_regions: ObjectCleanRegions::fully_dirty(), ..item }, cx);
            }
        }
    }
    /// A new map of the same interval: what its OSDs that are down had can't be had from them.
    pub(super) fn recovery_map(&mut self, cx: &mut Cx<'_>) {
        let map = cx.sh.map.clone();
        let gone: Vec<PgShard> = self.peering.judged_members().map(|(member, _)| member).filter(|m| !map.is_up(m.osd)).collect();
        if !gone.is_empty() {
            gone.iter().for_each(|member| self.peering.is_gone(*member));
            self.recover(cx, |recovery, host| recovery.gone(host, &|member| gone.contains(&member)));
        }
        self.stop_if_full(cx);
        // Flags of the map say what may go on.
        self.gate(cx);
    }
    /// State bits that follow from what members lack, beside `bits`.
    pub(super) fn recovery_bits(&self, mut bits: u64) -> u64 {
        const SERVING: u64 = pg_state::ACTIVE | pg_state::PEERED;
        if bits & SERVING == 0 {
            return bits;
        }
        let lacking = self.peering.lacking(&self.record, self.room.unfound_len());
        if lacking.copies > 0 || self.peering.copies(&self.record).degraded > 0 {
            bits |= pg_state::DEGRADED;
        }
        if lacking.copies > 0 {
            bits &= !pg_state::CLEAN;
        }
        bits | self.reserve_bits()
    }
    /// Removes objects that an earlier life of the OSD left half built.
    pub(super) fn sweep_leftovers(&mut self, cx: &mut Cx<'_>) {
        if self.room.is_swept || self.room.recovery.as_ref().is_some_and(|recovery| recovery.is_building()) {
            return;
        }
        // What can't be listed now is listed by the next tick.
        let Ok(names) = leftovers(&*cx.sh.store, self.coll, LEFTOVERS_PAGE) else { return };
        self.room.is_swept = names.is_empty();
        let mut txn = Transaction::new(self.coll);
        names.iter().for_each(|name| txn.remove(name));
        if !txn.is_empty() {
            self.at_store.takes(txn, None, Submitted::Record, cx);
        }
    }

    /// True if what is to be done with this head's name has to wait for recovery.
    pub(super) fn lacks_name(&self, head: &HObject, writes: bool) -> bool {
        let has = |missing: &Missing| !missing.is_empty() && missing.of_name(head).next().is_some();
        let blocks = || self.room.recovery().and_then(Recovery::backfill).is_some_and(|backfill| backfill.blocks(head));
        let is_young = || self.room.is_young(head) && !planted(Bug::WriteOverYoung);
        has(self.record.missing()) || (writes && (is_young() || self.peering.missing_elsewhere().any(has) || blocks()))
    }
    /// A request on an object that a member lacks waits, and what comes after it on the same object; the object goes first from now on.
    pub(super) fn wait_for_recovery(&mut self, mut op: Box<ClientOp>, cx: &mut Cx<'_>) -> Option<Box<ClientOp>> {
        if (!self.peering.is_lacking(&self.record) && self.room.waiting.is_empty() && self.room.is_durable()) || planted(Bug::ServeMissing)
        {
            return Some(op);
        }
        let head = head_name(&op.msg.hobj).into_owned();
        if !self.room.waiting.contains_key(&head) && !self.lacks_name(&head, op.may_mutate()) {
            return Some(op);
        }
        op.set_aside(if self.lacks_name(&head, false) { "waiting for missing object" } else { "waiting for degraded object" });
        self.room.waiting.entry(head.detach()).or_default().push_back(op);
        self.recover(cx, |recovery, host| recovery.want(host, &head));
        None
    }

    /// Every member has the entries that give objects up: what waited for one that is not lacked any more goes on.
    pub(super) fn go_on_with_given_up(&mut self, cx: &mut Cx<'_>) {
        if self.room.waiting.is_empty() {
            return;
        }
        let heads = self.room.waiting.keys().filter(|head| !self.lacks_name(head, true)).cloned().collect();
        self.room.nearer = heads;
        self.recover(cx, |_, _| ());
    }

    /// A message of another member about objects.
    pub(crate) fn recovery_came(&mut self, from: OsdId, envelope: Envelope, parts: Vec<Part>, cx: &mut Cx<'_>) {
        if self.peering.is_old(envelope.map_epoch) {
            return;
        }
        let from = PgShard::new(from, envelope.from.shard);
        for part in parts {
            let follows = part.fills() && !self.peering.is_of_primary(from, envelope.map_epoch);
            if follows || part.is_of_target() && !self.peering.targets().contains(&from) {
                continue;
            }
            if !part.names(|obj| self.holds(obj)) {
                cx.log(Level::Error, format!("{}: osd.{from}: recovery of objects of another group", self.pgid));
                continue;
            }
            let brings = if let Part::Push(push) = &part { push.data.len() as u64 } else { 0 };
            if part.asks_target() {
                self.room.asked_by = envelope.min_epoch;
            }
            self.recover(cx, |recovery, host| recovery.handle(host, from, part));
            if brings > 0 && cx.sh.is_full(brings) {
                self.stop_if_full(cx);
            }
        }
    }

    /// Gives a change of recovery to our store, with what it means for what we lack.
    fn recovery_change(&mut self, change: Change, cx: &mut Cx<'_>) -> bool {
        let Change { mut txn, index, got, then } = change;
        if let Some(index) = index {
            txn.append(super::snaps::note(&[index]));
        }
        let at_store = &mut self.at_store;
        let takes = |delta| at_store.takes(txn, Some(delta), Submitted::Recovery, cx);
        let Ok(item) = self.record.got(got.as_ref().map(|(obj, version)| (obj, *version)), takes) else { return false };
        let got = got.and_then(|(obj, _)| Some((obj, item?)));
        self.room.given.push_back(Given { got, then });
        true
    }
    /// The oldest change of recovery that was not durable is.
    pub(super) fn recovery_durable(&mut self, cx: &mut Cx<'_>) {
        let Given { got, then } = self.room.given.pop_front().expect("each change has its place");
        if let Some((to, part)) = then {
            self.tell().part(to, part, self.room.asked_by, cx);
        }
        let head = got.map(|(obj, _)| obj.head());
        if let Some(head) = head.filter(|head| self.room.waiting.contains_key(head) && !self.lacks_name(head, true)) {
            self.room.nearer.push(head);
            self.recover(cx, |_, _| ());
        }
        if self.room.is_durable() {
            self.own_is_durable(cx);
            self.check_recovered(cx);
        }
    }
}
