//! A shard as others see it: [`crate::figures`] for the monitor and the manager, and answers to commands.

use super::Shard;
use super::waiting::Waiting;
use crate::figures::{Counters, Figures, GroupStats, Merge, Primaries, Question, Ready, Slow};
use crate::history::History;
use crate::joint::ToControl;
use crate::perf::{C, Perf};
use crate::pg::Pg;
use crate::pg::members::peering::{MergeRole, State, parent_seed};
use crate::pg::work::scrub::Planned;
use crate::shared::EventCx;
use crate::work::Status;
use base::{Clock, Stamp};
use maps::Placement;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Epoch, OsdId, PgId, SpgId, UTime};

/// A shard as others look at it: nothing changes by that.
#[derive(Clone, Copy)]
pub(crate) struct Told<'a>(&'a Shard);

impl<'a> Told<'a> {
    pub fn num_pgs(self) -> usize {
        self.0.sh.bounds.num_pgs
    }
    pub fn perf(self) -> &'a Perf {
        &self.0.sh.counters.perf
    }
    fn primaries(self) -> impl Iterator<Item = &'a Pg> {
        self.0.pgs().filter(|pg| pg.peering().is_primary())
    }
    /// For the beacon.
    fn tell_primaries(self) -> Primaries {
        // The history has the first epoch in which a group was clean in this interval: it is clean as of its newest map.
        let clean_as_of = |pg: &Pg| {
            let history = &pg.record().info().history;
            let is_known = history.last_epoch_clean >= history.same_interval_since;
            if is_known && pg.peering().is_clean() { pg.epoch() } else { history.last_epoch_clean }
        };
        Primaries { pgs: self.primaries().map(|pg| pg.pgid.pgid).collect(), min_last_epoch_clean: self.primaries().map(clean_as_of).min() }
    }
    /// OSDs that have a part in our groups, ourselves among them.
    fn tell_members(self) -> BTreeSet<OsdId> {
        let mappings = self.0.pgs().map(|pg| &pg.peering().mapping);
        mappings.flat_map(|m| m.up.iter().chain(&m.acting).copied()).collect()
    }
    /// Groups that are quiet for a merge and about which something can be said.
    fn tell_merges(self) -> Vec<Merge> {
        let sources = self.primaries().filter(|pg| pg.peering().pending_merge() == Some(MergeRole::Source) && pg.peering().is_premerge());
        let merge = |source: &Pg| {
            let pgid = source.pgid.pgid;
            let target_id = SpgId { pgid: PgId::new(pgid.pool, parent_seed(pgid.seed)), shard: source.pgid.shard };
            let target = self.0.index.get(&target_id).and_then(|slot| self.0.pgs[*slot as usize].as_deref());
            // Groups that lie on other OSDs than each other since they were made quiet serve again first, and so do those that lack copies.
            let is_apart =
                self.0.sh.map.pg_to_up_acting(target_id.pgid, &mut Placement::default()).acting != source.peering().mapping.acting;
            let target = target.filter(|t| t.peering().is_premerge());
            if target.is_none() && !is_apart && source.peering().is_clean() {
                return None;
            }
            let whole = target.filter(|t| !is_apart && source.peering().is_clean() && t.peering().is_clean());
            let ready = whole.map(|target| Ready {
                source_version: source.record().info().last_update,
                target_version: target.record().info().last_update,
                last_epoch_started: target.record().info().history.last_epoch_started,
                last_epoch_clean: target.record().info().history.last_epoch_clean,
            });
            Some(Merge { source: pgid, quiet_since: source.pool().last_force_op_resend_prenautilus, ready })
        };
        sources.filter_map(merge).collect()
    }
    /// Work of groups and for them, and the shard's own.
    pub fn tell_work(self) -> impl Iterator<Item = Status> + 'a {
        let of_groups = self.0.removals.status().chain(self.0.pgs().flat_map(|pg| pg.work_status())).chain(self.0.copying.status());
        let (loading, bench) = (self.0.loading.iter().map(|loading| loading.status()), self.0.bench.iter().map(|bench| bench.status()));
        loading.chain(of_groups).chain(bench)
    }
    /// `dump_recovery_reservations`, by stock's names.
    pub fn places(self) -> Value {
        let sh = &self.0.sh;
        json!({ "local_reservations": sh.bounds.local_places.dump(), "remote_reservations": sh.bounds.remote_places.dump() })
    }
    /// `dump_scrubs`: groups that this OSD leads, each with the time of its next scrub, the earliest first.
    pub fn scrubs(self, clock: Clock) -> Value {
        let now = UTime::from_wall_ns(clock.wall_ns);
        let mut planned: Vec<Planned> = self.0.pgs().filter_map(|pg| pg.planned_scrub(now, &self.0.sh)).collect();
        planned.sort_by_key(|planned| (planned.at, planned.pgid));
        planned.iter().map(Planned::json).collect()
    }
    /// Memory by use. Where stock counts items, we count only some.
    pub fn memory(self) -> Value {
        let mut pools: Vec<(&str, usize, usize)> = self.0.sh.store.memory().into_iter().map(|(name, bytes)| (name, 0, bytes)).collect();
        let (items, bytes) = self.0.pgs().fold((0, 0), |(items, bytes), pg| {
            (items + pg.record().log().len() + pg.record().log().dups_len(), bytes + pg.record().log().memory())
        });
        pools.push(("osd_pglog", items, bytes));
        let total = pools.iter().fold((0, 0), |(items, bytes), pool| (items + pool.1, bytes + pool.2));
        let shown = |items: usize, bytes: usize| json!({ "items": items, "bytes": bytes });
        let by_pool: Map<String, Value> = pools.iter().map(|(name, items, bytes)| (name.to_string(), shown(*items, *bytes))).collect();
        json!({ "mempool": { "by_pool": by_pool, "total": shown(total.0, total.1) } })
    }
    /// Time spent in each state of peering, as far back as groups remember.
    pub fn peering_times(self) -> Value {
        let path = |state: State| match state {
            State::Reset => "Reset",
            State::GetInfo => "Started/Primary/Peering/GetInfo",
            State::GetLog => "Started/Primary/Peering/GetLog",
            State::GetMissing => "Started/Primary/Peering/GetMissing",
            State::WaitUpThru => "Started/Primary/Peering/WaitUpThru",
            State::Down => "Started/Primary/Peering/Down",
            State::Activating => "Started/Primary/Active/Activating",
            State::Active => "Started/Primary/Active",
            State::Peered => "Started/Primary/Active/Peered",
            State::Incomplete => "Started/Primary/Peering/Incomplete",
            State::Stray => "Started/Stray",
            State::ReplicaActive => "Started/ReplicaActive",
        };
        let mut by_state: std::collections::BTreeMap<&str, (u64, Vec<f64>)> = Default::default();
        for pg in self.0.pgs() {
            let history = &pg.peering().history;
            for (i, (state, at)) in history.iter().enumerate() {
                let entry = by_state.entry(path(*state)).or_default();
                entry.0 += 1;
                entry.1.extend(history.get(i + 1).map(|(_, next)| next.since(*at).as_secs_f64()));
            }
        }
        let rows: Vec<Value> = by_state
            .into_iter()
            .map(|(state, (entered, times))| {
                let stats = json!({
                    "entered": entered,
                    "exited": times.len(),
                    "total_time": times.iter().sum::<f64>(),
                    "min_time": times.iter().copied().reduce(f64::min).unwrap_or(0.0),
                    "max_time": times.iter().copied().reduce(f64::max).unwrap_or(0.0),
                });
                json!({ "recovery_state": state, "stats": stats })
            })
            .collect();
        json!({ "pg_recovery_stats": rows })
    }
    /// Requests that are not answered, and are older than that.
    pub fn dump_ops(self, clock: Clock, older_s: f64) -> Value {
        let without_group = self.0.waiting_map.requests().chain(self.0.waiting_pg.values().flat_map(Waiting::requests));
        let without_group = without_group.chain(self.0.behind.requests.requests()).chain(self.0.arrived.iter().map(|op| &**op));
        let without_group = without_group.map(|op| (op.msg.pgid, op.msg.map_epoch, (&op.reqid, &op.msg.hobj, op.received, op.waits_for)));
        let now = self.0.sh.map.epoch;
        let in_groups = self.0.pgs().flat_map(|pg| pg.unanswered().map(move |op| (pg.pgid, now, op)));
        let mut ops = Vec::new();
        for (pgid, epoch, (reqid, obj, received, waits_for)) in in_groups.chain(without_group) {
            let age = clock.mono.since(received).as_secs_f64();
            if age < older_s {
                continue;
            }
            let at = UTime::from_wall_ns(clock.wall_ns.saturating_sub((age * 1e9) as u64)).to_string();
            ops.push(json!({
                "description": format!("osd_op({reqid} {pgid} {obj} e{epoch})"),
                "initiated_at": at,
                "age": age,
                "duration": age,
                "continuous": false,
                "type_data": { "flag_point": if waits_for.is_empty() { "started" } else { waits_for } },
            }));
        }
        json!({ "ops": ops, "num_ops": ops.len() })
    }
    /// The oldest map that a group's record names: the group starts from there after a crash.
    fn oldest_record(self) -> Epoch {
        self.0.pgs.iter().flatten().map(|pg| pg.record().saved_epoch()).min().unwrap_or(Epoch::MAX)
    }
    /// When a lease is to be renewed, or ends, first.
    pub fn lease_due_at(self) -> Option<Stamp> {
        self.0.sh.wishes.lease_due
    }
    /// Groups of one copy that are ours by the map, and are not here.
    pub fn lost_groups(self) -> Vec<PgId> {
        let (shard, map) = (self.0, &self.0.sh.map);
        let mut placement = Placement::default();
        let mut lost = Vec::new();
        for (id, pool) in map.pools.iter().filter(|(_, p)| p.size == 1) {
            for pgid in (0..pool.pg_num).map(|seed| PgId::new(*id, seed)) {
                let at = map.pg_to_up_acting(pgid, &mut placement);
                let is_here = |pgid| shard.index.contains_key(&pgid) || shard.unraised.iter().any(|l| l.pgid == pgid);
                if at.acting == [shard.sh.whoami] && !is_here(SpgId::whole(pgid)) {
                    lost.push(pgid);
                }
            }
        }
        lost
    }
}

impl Shard {
    /// What it tells of itself, without changing anything.
    pub fn told(&self) -> Told<'_> {
        Told(self)
    }
    /// Control wants to know something: told as [`crate::joint::ToControl::Told`].
    pub(super) fn asked(&mut self, question: Question, cx: &mut EventCx<'_>) {
        let figures = match question {
            Question::Members => Figures::Members(self.told().tell_members()),
            Question::Primaries => Figures::Primaries(self.told().tell_primaries()),
            Question::Merges => Figures::Merges(self.told().tell_merges()),
            Question::Fullness => Figures::Fullness(self.sh.store.statfs()),
            Question::Report { pinged } => {
                self.refresh_gauges(pinged);
                let counters = self.tell_counters(cx.clock);
                Figures::Report(counters, self.tell_stats(cx))
            }
            Question::OldestRecord => Figures::OldestRecord(self.told().oldest_record()),
        };
        self.sh.wishes.tell(ToControl::Told(Box::new(figures)));
    }

    /// Counters that show a state follow it; `pinged`: how many other OSDs are pinged.
    pub(super) fn refresh_gauges(&mut self, pinged: usize) {
        let primary = self.told().primaries().count() as u64;
        let all = self.sh.bounds.num_pgs as u64;
        let (fs, given_back) = (self.sh.store.statfs(), self.sh.store.given_back());
        let perf = &mut self.sh.counters.perf;
        for (c, v) in [
            (C::numpg, all),
            (C::numpg_primary, primary),
            (C::numpg_stray, all - primary),
            (C::heartbeat_to_peers, pinged as u64),
            (C::stat_bytes, fs.total),
            (C::stat_bytes_used, fs.used()),
            (C::stat_bytes_avail, fs.available),
            (C::discarded_bytes, given_back),
        ] {
            perf.set(c, v);
        }
    }
    fn tell_counters(&mut self, clock: Clock) -> Counters {
        let late = Duration::from_secs_f64(self.sh.config.num("osd_op_complaint_time").max(1.0));
        let mut slow = Slow::default();
        for (.., received, _) in self.pgs().flat_map(|pg| pg.unanswered()) {
            let age = clock.mono.since(received);
            if age > late {
                slow.count += 1;
                slow.oldest = slow.oldest.max(age);
            }
        }
        let queries = self.sh.counters.perf_queries.report();
        Counters { perf: self.sh.counters.perf.clone(), queries, slow }
    }
    pub(super) fn tell_stats(&mut self, cx: &mut EventCx<'_>) -> GroupStats {
        let mut damage = Vec::new();
        if self.sh.counters.damaged > 0 {
            damage.push(format!("{} reads found damage since it started; see the cluster log, and scrub deeply", self.sh.counters.damaged));
        }
        damage.extend(self.sh.store.damage());
        if !self.damaged_groups.is_empty() {
            let groups: Vec<String> = self.damaged_groups.iter().map(|pg| pg.to_string()).collect();
            damage.push(format!(
                "groups that can't be loaded and are not served until the OSD is stopped and `humboldt store repair` has left out what is damaged: {}",
                groups.join(" ")
            ));
        }
        let mut pgs = BTreeMap::new();
        for pg in self.pgs.iter_mut().flatten().filter(|pg| pg.peering().is_primary()) {
            pgs.insert(pg.pgid.pgid, pg.report(&cx.with(&mut self.sh)));
        }
        let pools: BTreeSet<i64> = self.pgs().map(|pg| pg.pgid.pgid.pool).collect();
        let pools = pools.into_iter().map(|id| (id, self.sh.store.pool_statfs(id))).collect();
        let commit_ns = self.sh.store.take_latency_ns();
        GroupStats { statfs: self.sh.store.statfs(), num_pgs: self.sh.bounds.num_pgs, pgs, pools, commit_ns, damage }
    }

    /// Requests that took longest of late.
    pub(super) fn history(&mut self, clock: Clock) -> &History {
        self.sh.counters.history.expire(clock.mono);
        &self.sh.counters.history
    }
}
