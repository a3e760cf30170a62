//! Scrubbing: members' copies of every object are compared, what differs is told and, if wanted, mended; and everything is counted anew.
//!
//! | file | holds |
//! |---|---|
//! | [`agenda`] | what a group has for it |
//! | [`order`] | what is wanted of a scrub |
//! | [`chunks`], [`weigh`] | a scrub of a group, chunk by chunk, on its primary; where a chunk ends |
//! | [`scan`] | what a member has of a chunk; how members' maps compare is the back end's ([`crate::pg::backend`]) |
//! | [`found`] | what is compared, and what was found |
//! | [`snapsets`] | heads and their clones among each other |
//! | [`results`] | what was found, for `rados list-inconsistent-obj` |
//! | [`member`] | slots, and the maps that other members ask for |
//! | [`mend`] | copies that are not to be relied on are made anew from good ones; requests that wait for that |
//! | [`schedule`] | when a group is due |
//! | [`slots`] | how many scrubs an OSD takes part in |
//!
//! Here: a group's scrub from its order to what becomes of its findings. The [`Agenda`] decides; [`Scrubbing`] carries out, as requests,
//! recovery and the group's log are touched by it.

pub(in crate::pg) mod agenda;
pub mod chunks;
pub mod found;
mod member;
mod mend;
pub mod order;
pub mod results;
pub mod scan;
mod schedule;
pub mod slots;
pub mod snapsets;
#[cfg(test)]
mod tests;
mod weigh;

use crate::event::{Effect, Level};
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::shared::Cx;
use agenda::Agenda;
use chunks::{Env, Out, Pace, Scrub};
use found::{Comparing, Found};
use messages::scrub_reserve;
use order::Order;
use results::Results;
pub(crate) use schedule::Planned;
use slots::ScrubSlots;
use store::StoreError;
use types::{HObject, ObjectStatSum, PgShard, PgStat, SpgId};

pub(in crate::pg) fn comparing(pgid: SpgId, whoami: PgShard, cx: &Cx<'_>) -> Comparing {
    Comparing { pgid, whoami, mode: "scrub", repair: false, size_max: cx.sh.limits.object_size_max }
}

/// The group while it is scrubbed: the agenda, and all that findings are to change.
pub(in crate::pg) struct Scrubbing<'a, 'b> {
    pub(super) requests: &'a mut Requests,
    pub(super) work: &'a mut Jobs,
    pub(super) group: &'a mut Group,
    pub(super) cx: &'a mut Cx<'b>,
}

impl Agenda {
    /// About once a second: what is due begins, what is over ends. Returns the first wishes of a scrub that begins.
    fn begin(&mut self, group: &mut Group, cx: &mut Cx<'_>) -> Option<Vec<Out>> {
        if self.is_mending && !group.members.peering.is_lacking(&group.record) {
            self.is_mending = false;
            cx.sh.wishes.report_soon = true;
            if std::mem::take(&mut self.checks_after) {
                let order = Order { deep: true, is_requested: true, is_check: true, ..Order::default() };
                self.wanted.get_or_insert(order);
            }
        }
        if let Some(run) = &mut self.run {
            run.tick();
            return None;
        }
        let order = self.due(group, cx)?;
        let max = cx.sh.config.int("osd_max_scrubs").max(1) as usize;
        self.own_slot = Some(ScrubSlots::take(&cx.sh.bounds.scrub_slots, max)?);
        (self.wanted, self.results) = (None, Some(Results::default()));
        group.record.stats_mut().objects_scrubbed = 0;
        let mut out = Vec::new();
        let members: Vec<PgShard> = group.members.peering.others().collect();
        let comparing = comparing(group.pgid, group.members.peering.whoami(), cx);
        let mut run = Scrub::new(order, comparing, members, HObject::pgmeta(group.pgid.pgid), &mut out);
        (run.started, run.started_wall_ns) = (cx.clock.mono, cx.clock.wall_ns);
        self.run = Some(Box::new(run));
        cx.sh.wishes.report_soon = true;
        Some(out)
    }
    /// One turn of a scrub that is busy: what it wants, and whether it is over or can't go on.
    fn turn(&mut self, group: &Group, cx: &mut Cx<'_>) -> Option<(Vec<Out>, Result<bool, StoreError>)> {
        let mut run = self.run.take_if(|run| run.work().is_busy())?;
        let order = run.order().unwrap_or_default();
        let (limits, pace) = (scan_limits(cx), pace(order, cx));
        let (others, lacking): (Vec<PgShard>, _) = (group.members.peering.others().collect(), &group.members.peering);
        let members = |head: Option<&HObject>| {
            let has = |member: &&PgShard| {
                let known = lacking.judged_member(**member);
                head.is_none_or(|head| known.is_some_and(|known| known.missing.of_name(head).next().is_none()))
            };
            others.iter().filter(has).copied().collect()
        };
        let mut out = Vec::new();
        let (coll, layout, now) = (group.coll, group.backend.layout(), cx.clock.mono);
        let mut env = Env { store: &mut *cx.sh.store, coll, layout, limits, pace, now, members: &members, out: &mut out };
        let result = run.turn(&mut env);
        let is_over = run.is_over();
        self.run = Some(run);
        Some((out, result.map(|()| is_over)))
    }
}

impl Scrubbing<'_, '_> {
    /// About once a second.
    pub(in crate::pg) fn tick(&mut self) {
        if let Some(out) = self.work.scrubs.begin(self.group, self.cx) {
            self.carry_out(out);
            self.turn();
        }
    }
    /// One turn of it.
    pub(in crate::pg) fn turn(&mut self) {
        let Some((out, result)) = self.work.scrubs.turn(self.group, self.cx) else { return };
        self.carry_out(out);
        match result {
            Err(StoreError::Stopped(why)) => self.cx.out.push(Effect::Stop { why: Some(why) }),
            Err(error) => self.give_up(&error),
            Ok(true) => self.end(),
            Ok(false) => {}
        }
        self.want_turn();
    }
    pub(super) fn want_turn(&mut self) {
        self.cx.sh.turns.want(self.work.work(self.requests, self.group));
    }
    /// Nothing more comes of it.
    fn end(&mut self) {
        let suspects = self.work.scrubs.run.take().map(|mut run| run.take_suspects()).unwrap_or_default();
        self.work.scrubs.own_slot = None;
        self.cx.sh.wishes.report_soon = true;
        // What its findings brought to light.
        suspects.iter().for_each(|head| self.inspect(head));
        self.release_held();
    }
    /// The group's objects can't be listed. If requests wait for what other members have, they serve them: this OSD can't mend its copies.
    fn give_up(&mut self, error: &StoreError) {
        self.cx.sh.counters.damaged += 1;
        self.cx.out.push(Effect::ClusterLog { level: Level::Error, text: format!("{} scrub: {error}", self.group.pgid) });
        if self.work.scrubs.is_inspecting() && !self.work.scrubs.held.is_empty() && self.group.members.peering.others().next().is_some() {
            let why = self.cx.sh.why_it_ends(self.group.pgid, &format!("can't be listed: {error}"));
            return self.cx.out.push(Effect::Stop { why: Some(why) });
        }
        let members = self.work.scrubs.run.as_ref().map(|run| run.members().to_vec()).unwrap_or_default();
        members.into_iter().for_each(|member| self.group.tell().scrub_slot(member, scrub_reserve::RELEASE, 0, self.cx));
        self.work.scrubs.put_off(self.cx);
        self.work.scrubs.run = None;
        self.end();
    }

    /// Carries out what a scrub wants.
    pub(super) fn carry_out(&mut self, out: Vec<Out>) {
        for one in out {
            match one {
                Out::Reserve(member) => self.group.tell().scrub_slot(member, scrub_reserve::REQUEST, 0, self.cx),
                Out::Release(member) => self.group.tell().scrub_slot(member, scrub_reserve::RELEASE, 0, self.cx),
                Out::Ask(member, start, end, deep) => self.group.tell().scrub_range(member, start, end, deep, self.cx),
                Out::Line(level, text) => self.cx.out.push(Effect::ClusterLog { level, text }),
                Out::Inspected(head, found) => self.inspected(&head, &found),
                Out::ChunkOver => self.release_held(),
                Out::Through(order, found) => self.through(order, *found),
            }
        }
    }

    /// The whole group was looked at.
    fn through(&mut self, order: Order, mut found: Found) {
        let auto_max = self.cx.sh.config.int("osd_scrub_auto_repair_num_errors") as usize;
        let is_few = !found.bad.is_empty() && found.bad.len() <= auto_max;
        let repairs = order.repair && (!order.is_auto || is_few);
        let mode = if order.is_auto && repairs { "repair" } else { order.name() };
        let sums_were_wrong = check_sums(self.group.pgid, &self.group.record.info().stats, mode, &mut found);
        let mut fixed = u64::from(repairs && sums_were_wrong);
        let (missing, inconsistent) = found.bad_counts();
        if missing + inconsistent > 0 {
            found.error(format!("{} {mode} {missing} missing, {inconsistent} inconsistent objects", self.group.pgid));
        }
        if repairs || self.group.record.info().stats.stats_invalid {
            take_sums(self.group.record.stats_mut(), &found.sum);
        }
        if let Some(results) = &mut self.work.scrubs.results {
            results.add(&found);
            if results.left_out > 0 {
                let text = format!("{} {mode} {} findings are too many to be listed", self.group.pgid, results.left_out);
                found.lines.push((Level::Warn, text));
            }
        }
        self.work.scrubs.note_suspects(&found, self.group.members.peering.whoami());
        if repairs {
            fixed += self.repair(&found);
        }
        let errors = found.errors();
        let sum = &self.group.record.info().stats.stats.sum;
        let mut text = format!("{} {mode} {}", self.group.pgid.pgid, if errors == 0 { "ok".into() } else { format!("{errors} errors") });
        if !order.deep && sum.num_deep_scrub_errors > 0 {
            text += &format!(" ( {} remaining deep scrub error details lost)", sum.num_deep_scrub_errors);
        }
        if repairs {
            text += &format!(", {fixed} fixed");
        }
        let level = if errors == 0 { Level::Debug } else { Level::Error };
        let lines = std::mem::take(&mut found.lines).into_iter().chain([(level, text)]);
        self.cx.out.extend(lines.map(|(level, text)| Effect::ClusterLog { level, text }));
        if repairs && fixed == errors {
            (found.shallow, found.deep) = (0, 0);
        } else if repairs && fixed > 0 {
            (self.work.scrubs.checks_after, self.work.scrubs.is_mending) = (true, true);
        } else if repairs && errors > 0 || order.is_check && errors > 0 {
            self.work.scrubs.has_failed = true;
        }
        if errors == 0 {
            self.work.scrubs.has_failed = false;
        }
        self.work.scrubs.note_scrubbed(order, &found, self.group, self.cx);
        if order.deep_on_error && !order.deep && is_few {
            self.work.scrubs.wanted.get_or_insert(Order {
                deep: true,
                repair: true,
                is_auto: true,
                is_requested: true,
                ..Order::default()
            });
        }
        self.group.tell().info_to_all(self.cx);
    }
}

impl Agenda {
    /// When it was, and what it found, as the manager is told and as the record keeps.
    fn note_scrubbed(&mut self, order: Order, found: &Found, group: &mut Group, cx: &mut Cx<'_>) {
        let sum = &mut group.record.stats_mut().stats.sum;
        sum.num_shallow_scrub_errors = found.shallow as i64;
        if order.deep {
            sum.num_deep_scrub_errors = found.deep as i64;
            sum.num_large_omap_objects = found.sum.num_large_omap_objects;
            (sum.num_omap_bytes, sum.num_omap_keys) = (found.sum.num_omap_bytes, found.sum.num_omap_keys);
        }
        sum.num_scrub_errors = sum.num_shallow_scrub_errors + sum.num_deep_scrub_errors;
        let (now, last_update) = (cx.now(), group.record.info().last_update);
        let h = group.record.history_mut();
        (h.last_scrub, h.last_scrub_stamp) = (last_update, now);
        if order.deep {
            (h.last_deep_scrub, h.last_deep_scrub_stamp) = (last_update, now);
        }
        if found.shallow == 0 && (found.deep == 0 || !order.deep) {
            h.last_clean_scrub_stamp = now;
        }
        group.record.stats_mut().objects_scrubbed = found.count;
        let began = self.run.as_ref().map_or(cx.clock.wall_ns, |run| run.started_wall_ns);
        let took_s = cx.clock.wall_ns.saturating_sub(began) as f64 * 1e-9;
        group.record.stats_mut().last_scrub_duration_s = took_s.ceil().max(1.0) as _;
        group.record.stats_mut().scrub_duration_s = took_s;
        cx.sh.wishes.report_soon = true;
        group.save_info(cx);
    }
}

/// Compares what was counted with what the group's statistics say; true if they differ. A guess (`stats_invalid`) is no error.
fn check_sums(pgid: SpgId, stats: &PgStat, mode: &str, found: &mut Found) -> bool {
    let is_wrong = !stats.stats_invalid && counted_of(&stats.stats.sum) != counted_of(&found.sum);
    if is_wrong {
        let (ours, counted) = (&stats.stats.sum, &found.sum);
        let pair = |of: fn(&ObjectStatSum) -> i64| format!("{}/{}", of(counted), of(ours));
        let text = format!(
            "{} {mode} : stat mismatch, got {} objects, {} clones, {} dirty, {} omap, {} pinned, 0/0 hit_set_archive, {} whiteouts, {} bytes, \
             {} manifest objects, 0/0 hit_set_archive bytes.",
            pgid,
            pair(|s| s.num_objects),
            pair(|s| s.num_object_clones),
            pair(|s| s.num_objects_dirty),
            pair(|s| s.num_objects_omap),
            pair(|s| s.num_objects_pinned),
            pair(|s| s.num_whiteouts),
            pair(|s| s.num_bytes),
            pair(|s| s.num_objects_manifest),
        );
        found.error(text);
        found.shallow += 1;
    }
    is_wrong
}

/// What was counted is what there is: of every object, as the good copies have it.
fn take_sums(stats: &mut PgStat, counted: &ObjectStatSum) {
    let sum = &mut stats.stats.sum;
    sum.num_objects = counted.num_objects;
    sum.num_bytes = counted.num_bytes;
    sum.num_object_clones = counted.num_object_clones;
    sum.num_objects_dirty = counted.num_objects_dirty;
    sum.num_objects_omap = counted.num_objects_omap;
    sum.num_objects_pinned = counted.num_objects_pinned;
    sum.num_objects_manifest = counted.num_objects_manifest;
    sum.num_whiteouts = counted.num_whiteouts;
    stats.stats_invalid = false;
}

fn pace(order: Order, cx: &Cx<'_>) -> Pace {
    let names = if order.deep { "osd_scrub_chunk_max" } else { "osd_shallow_scrub_chunk_max" };
    Pace { names_max: cx.sh.config.int(names).max(1) as usize, rest_ns: (cx.sh.config.num("osd_scrub_sleep").max(0.0) * 1e9) as u64 }
}

/// What is counted exactly.
fn counted_of(s: &ObjectStatSum) -> [i64; 8] {
    [
        s.num_objects,
        s.num_object_clones,
        s.num_objects_dirty,
        s.num_objects_omap,
        s.num_objects_pinned,
        s.num_whiteouts,
        s.num_bytes,
        s.num_objects_manifest,
    ]
}

pub(in crate::pg) fn scan_limits(cx: &Cx<'_>) -> scan::Limits {
    let int = |name| cx.sh.config.int(name);
    scan::Limits {
        stride: int("osd_deep_scrub_stride").max(4096),
        keys: int("osd_deep_scrub_keys").max(1),
        large_keys: int("osd_deep_scrub_large_omap_object_key_threshold"),
        large_bytes: int("osd_deep_scrub_large_omap_object_value_sum_threshold"),
    }
}
