//! Copies that are not to be relied on are made anew from good ones, by recovery; and requests that wait for that.
//!
//! A request that meets damage here waits while its object's name is inspected: every member that has it is asked for its map of it, and what
//! comparing says is bad is lacked from then on, like anything else that a member lacks. If no copy is to be relied on, the request is answered EIO when it
//! meets the damage again; unless an OSD that is away may have one: then the object is not found, and the request waits.

use super::agenda::Agenda;
use super::chunks::Scrub;
use super::found::{Bad, Found, NewDigests};
use super::{Scrubbing, comparing};
use crate::event::{Effect, Level};
use crate::op::{Plan, PlanKind, SnapIndexChange, load_object};
use crate::pg::backend::at_store::Submitted;
use crate::pg::backend::in_flight::InFlight;
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::pg::requests::objects::head_name;
use crate::request::ClientOp;
use crate::shared::Cx;
use denc::Denc;
use types::object_info::OI_ATTR;
use types::{ByteStr, EVersion, HObject, LogOp, ObjectCleanRegions, ObjectStatSum, PgLogEntry, PgMissingItem, SnapSet, Transaction, UTime};

/// The entry of a change of our own.
fn own_entry(op: LogOp, obj: &HObject, version: EVersion, prior_version: EVersion, cx: &Cx<'_>) -> PgLogEntry {
    PgLogEntry {
        op,
        soid: obj.clone(),
        version,
        prior_version,
        mtime: if op == LogOp::DELETE { UTime::ZERO } else { cx.now() },
        ..PgLogEntry::default()
    }
}

impl Scrubbing<'_, '_> {
    /// A request on a name that is inspected, or that a chunk holds back, waits; one on a copy that is known to be bad has it mended first.
    pub(in crate::pg) fn wait_for(&mut self, mut op: Box<ClientOp>) -> Option<Box<ClientOp>> {
        let room = &self.work.scrubs;
        if room.run.is_none() && room.suspects.is_empty() && room.held.is_empty() {
            return Some(op);
        }
        let head = head_name(&op.msg.hobj).into_owned();
        if self.work.scrubs.suspects.remove(&head).is_some() && !op.was_inspected {
            self.inspect(&head);
        }
        let preemptions_max = self.cx.sh.config.int("osd_scrub_max_preemptions") as u32;
        let run = self.work.scrubs.run.as_ref();
        let is_inspected = run.is_some_and(|run| run.inspects(&head));
        let is_held = run.is_some_and(|run| op.may_mutate() && run.holds(&head, preemptions_max));
        if !is_inspected && !is_held && !self.work.scrubs.held.contains_key(&head) {
            return Some(op);
        }
        op.set_aside(if is_inspected { "waiting for missing object" } else { "waiting for scrub" });
        self.work.scrubs.held.entry(head.detach()).or_default().push_back(op);
        None
    }
    /// A request met damage here. It waits until its object is inspected; the first time, if other members may have a good copy.
    pub(in crate::pg) fn met_damage(&mut self, mut op: Box<ClientOp>) -> Option<Box<ClientOp>> {
        if op.was_inspected || self.group.members.peering.others().next().is_none() || !self.group.members.peering.is_active() {
            return Some(op);
        }
        op.was_inspected = true;
        op.set_aside("waiting for missing object");
        let head = head_name(&op.msg.hobj).into_owned();
        let others: Vec<String> = self.group.members.peering.others().map(|member| member.to_string()).collect();
        let text = format!("{} missing primary copy of {}, will try copies on {}", self.group.pgid, op.msg.hobj, others.join(","));
        self.cx.out.push(Effect::ClusterLog { level: Level::Error, text });
        self.inspect(&head);
        self.work.scrubs.held.entry(head.detach()).or_default().push_back(op);
        None
    }
    pub(super) fn inspect(&mut self, head: &HObject) {
        if self.work.scrubs.run.is_none() {
            let comparing = comparing(self.group.pgid, self.group.members.peering.whoami(), self.cx);
            let run = Scrub::bare(comparing, Vec::new(), HObject::pgmeta(self.group.pgid.pgid));
            self.work.scrubs.run = Some(Box::new(run));
        }
        self.work.scrubs.run.as_mut().expect("made above").suspect(head);
        self.want_turn();
    }
    /// Requests that a scrub held back go on, but for those whose names are inspected.
    pub(super) fn release_held(&mut self) {
        let heads: Vec<HObject> = self.work.scrubs.held.keys().cloned().collect();
        for head in heads {
            if self.work.scrubs.run.as_ref().is_some_and(|run| run.inspects(&head)) {
                continue;
            }
            for op in self.work.scrubs.held.remove(&head).unwrap_or_default() {
                self.requests.client_op(op, self.work, self.group, self.cx);
            }
        }
    }

    /// A name was inspected.
    pub(super) fn inspected(&mut self, head: &HObject, found: &Found) {
        self.cx.sh.counters.damaged += found.errors();
        self.mend(found);
        self.give_up_hopeless(found);
        for op in self.work.scrubs.held.remove(head).unwrap_or_default() {
            self.requests.client_op(op, self.work, self.group, self.cx);
        }
    }

    /// Repairs what a scrub found; how many findings that settles is returned.
    pub(super) fn repair(&mut self, found: &Found) -> u64 {
        self.mend(found) + self.write_digests(&found.digests) + self.remove_extra(found)
    }

    /// Copies are lacked by their members from now on.
    fn mend(&mut self, found: &Found) -> u64 {
        let mut count = 0;
        for (obj, bad) in &found.bad {
            count += self.work.scrubs.give_up_copies(obj, bad, self.requests, self.group, self.cx);
        }
        if count > 0 {
            self.work.scrubs.is_mending = true;
            self.cx.sh.wishes.report_soon = true;
            self.work.begin_recovery_of(found.bad.keys(), self.requests, self.group, self.cx);
        }
        count
    }
}

impl Group {
    /// Our copy is lacked from now on; false if the store has no room for saying so.
    pub(in crate::pg) fn lack_own(&mut self, obj: &HObject, item: &PgMissingItem, cx: &mut Cx<'_>) -> bool {
        let (backend, txn) = (&mut self.backend, Transaction::new(self.coll));
        self.record.lack(obj, item, |delta| backend.takes(txn, Some(delta), Submitted::Record, cx))
    }
}

impl Agenda {
    /// Its members lack an object from now on, those whose copies are bad. How many do.
    fn give_up_copies(&mut self, obj: &HObject, bad: &Bad, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) -> u64 {
        let need = bad.version;
        if need > group.record.info().last_update || need == EVersion::ZERO {
            return 0;
        }
        let item = PgMissingItem { need, have: EVersion::ZERO, delete: false, clean_regions: ObjectCleanRegions::fully_dirty() };
        let mut count = 0;
        for shard in bad.shards() {
            if shard != group.members.peering.whoami() {
                count += u64::from(group.members.peering.lost_copy(shard, obj, &item));
                continue;
            }
            count += u64::from(group.lack_own(obj, &item, cx));
        }
        self.forget_copy(obj, requests);
        count
    }
    /// Our copy is damaged: we lack the object at this version from now on. False if that can't be.
    pub(in crate::pg) fn give_up_own(
        &mut self,
        obj: &HObject,
        need: EVersion,
        requests: &mut Requests,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) -> bool {
        if group.record.missing().contains(obj) || need > group.record.info().last_update || need == EVersion::ZERO {
            return false;
        }
        let item = PgMissingItem { need, have: EVersion::ZERO, delete: false, clean_regions: ObjectCleanRegions::fully_dirty() };
        let gives_up = group.lack_own(obj, &item, cx);
        self.forget_copy(obj, requests);
        gives_up
    }
    /// What was known of an object's copies is of no use.
    fn forget_copy(&mut self, obj: &HObject, requests: &mut Requests) {
        self.suspects.remove(&obj.head());
        requests.forget(&obj.head());
        if let Some(run) = &mut self.run {
            run.disturb();
        }
    }
}

impl Scrubbing<'_, '_> {
    /// Objects of which no member has a good copy now, but one that is away may: they are waited for.
    fn give_up_hopeless(&mut self, found: &Found) {
        let mut given_up = Vec::new();
        for obj in &found.hopeless {
            let Ok(context) = load_object(self.group.source(self.cx.sh), obj) else { continue };
            let need = context.info.version;
            if context.exists
                && self.group.members.peering.may_be_had_elsewhere(obj, need, &[], &*self.cx.sh.map)
                && self.work.scrubs.give_up_own(obj, need, self.requests, self.group, self.cx)
            {
                given_up.push(obj.clone());
            }
        }
        if !given_up.is_empty() {
            self.cx.sh.wishes.report_soon = true;
            self.work.begin_recovery_of(given_up.iter(), self.requests, self.group, self.cx);
        }
    }

    /// Digests that records have wrong while all copies agree.
    fn write_digests(&mut self, digests: &[NewDigests]) -> u64 {
        let mut count = 0;
        for NewDigests { obj, data, omap } in digests {
            let Ok(mut ctx) = load_object(self.group.source(self.cx.sh), obj) else { continue };
            if !ctx.exists || !obj.is_head() || self.work.lacks_name(obj, true, self.group) {
                continue;
            }
            let version = self.group.record.next_version(self.group.epoch);
            (ctx.info.prior_version, ctx.info.version) = (ctx.info.version, version);
            match data {
                Some(digest) => ctx.info.set_data_digest(*digest),
                None => ctx.info.clear_data_digest(),
            }
            match omap {
                Some(digest) => ctx.info.set_omap_digest(*digest),
                None => ctx.info.clear_omap_digest(),
            }
            let mut txn = Transaction::new(self.group.coll);
            txn.set_attr(&self.group.name(obj), ByteStr::from_static(OI_ATTR), ctx.info.to_bytes(self.cx.sh.osd_features));
            let entry = own_entry(LogOp::MODIFY, obj, version, ctx.info.prior_version, self.cx);
            let plan = own_plan(txn, entry, ctx.info.user_version, ctx.detached(), Vec::new());
            count += u64::from(self.submit_own(plan));
        }
        count
    }

    fn submit_own(&mut self, plan: Plan) -> bool {
        let reqid = self.cx.own_reqid();
        let inflight = InFlight::own(&plan.log, self.group.members.peering.members().clone(), reqid, self.cx.clock.mono);
        self.requests.submit_plan(plan, inflight, self.work, self.group, self.cx).is_ok()
    }

    /// Clones that no head names go, wherever they are.
    fn remove_extra(&mut self, found: &Found) -> u64 {
        let mut count = 0;
        for (clone, prior) in &found.extra {
            let Ok(head) = load_object(self.group.source(self.cx.sh), &clone.head()) else { continue };
            if !head.exists || head.snapset.clones.contains(&clone.snap) || self.work.lacks_name(&clone.head(), true, self.group) {
                continue;
            }
            // Not every member has it.
            let name = self.group.name(clone);
            let mut txn = Transaction::new(self.group.coll);
            txn.touch(&name);
            txn.remove(&name);
            let entry = own_entry(LogOp::DELETE, clone, self.group.record.next_version(self.group.epoch), *prior, self.cx);
            let gone = SnapIndexChange { clone: clone.clone(), old: snaps_of(&head.snapset, clone), new: Vec::new() };
            let plan = own_plan(txn, entry, 0, head.detached(), vec![gone]);
            // The finding was one of the clone and one of its head's.
            count += u64::from(self.submit_own(plan));
        }
        count
    }
}

fn snaps_of(set: &SnapSet, clone: &HObject) -> Vec<u64> {
    set.clone_snaps.get(&clone.snap).cloned().unwrap_or_default()
}

/// A change of the group's own.
fn own_plan(
    txn: Transaction,
    mut entry: PgLogEntry,
    user_version: u64,
    ctx: crate::op::ObjectContext,
    snap_index: Vec<SnapIndexChange>,
) -> Plan {
    entry.user_version = user_version;
    Plan {
        kind: PlanKind::Write,
        result: 0,
        ops: Default::default(),
        reply_version: entry.version,
        reply_user_version: user_version,
        data_off: 0,
        txn,
        log: vec![entry],
        changed: [Box::new(ctx)].into_iter().collect(),
        snap_index,
        stats: ObjectStatSum::default(),
        effects: Vec::new(),
    }
}
