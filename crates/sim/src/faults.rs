//! What goes wrong, and what operators do, by chance: each kind as often as the plan says.

use crate::away;
use crate::barred;
use crate::client::POOL;
use crate::cluster::Cluster;
use crate::drive::Drive;
use crate::exchange;
use crate::gaps;
use crate::kinds::Fault;
use crate::net::{LinkId, Proc, What};
use crate::plan::StoreKind;
use crate::planted::Planted;
use crate::{MS, SEC};
use std::collections::VecDeque;

/// Flags that operators set for a while.
const FLAGS: [&str; 4] = ["noup", "nodown", "noout", "noin"];

/// Snapshots at a time: each object is read at each of them at the end.
const SNAPS_MAX: usize = 6;

impl Cluster {
    pub(crate) fn trouble(&mut self) {
        self.troubled = true;
        let all: Vec<(Fault, u64)> = self.plan.faults().map(|(_, fault, every)| (fault, *every)).into();
        for (fault, every) in all {
            self.next_fault(fault, every);
        }
        if self.plan.follow > 0 {
            self.follow();
        }
        if self.plan.hostile > 0 {
            self.net.overheard = Some(VecDeque::new());
            self.intrude();
        }
    }
    fn next_fault(&mut self, fault: Fault, every_ms: u64) {
        if every_ms > 0 {
            let delay = self.net.rng.below(2 * every_ms * MS) + 1;
            self.net.after(delay, What::Fault(fault));
        }
    }
    pub(crate) fn kill_monitor(&mut self) {
        let Some(monitor) = self.monitor.take() else { return };
        if self.planted == Some(Planted::MonForgets) {
            self.mon_disk.forget_last();
        }
        self.net.died(monitor.life);
        let delay = self.net.rng.below(self.plan.down_ms * MS) + MS;
        self.net.after(delay, What::Start(Proc::Mon));
    }
    pub(crate) fn kill_osd(&mut self, id: usize, power_cut: bool) {
        let Some(osd) = self.osds[id].take() else { return };
        self.net.paused.remove(&Proc::Osd(id as i32));
        self.net.died(osd.life);
        self.known.insert(id, osd.core().map().epoch);
        let store = osd.into_core().into_store();
        self.drives[id].killed(store, power_cut, &mut self.net.rng);
        if self.planted == Some(Planted::OldDisk)
            && let (Drive::Block(disks, _), Some(old)) = (&mut self.drives[id], self.old[id].take())
        {
            *disks = old;
        }
        let delay = self.net.rng.below(self.plan.down_ms * MS) + MS;
        self.net.after(delay, What::Start(Proc::Osd(id as i32)));
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        if !self.troubled && !matches!(fault, Fault::UnpauseFlag | Fault::Unflag) {
            return;
        }
        self.faults += 1;
        self.net.note(format!("fault {fault:?}"));
        let every = self.plan.faults().into_iter().find(|(_, kind, _)| *kind == fault).map_or(0, |(_, _, every)| *every);
        self.next_fault(fault, every);
        let id = self.net.rng.below(self.osd_count().into()) as usize;
        match fault {
            Fault::KillOsd => {
                let power_cut = self.plan.store == StoreKind::Block && self.net.rng.below(100) < self.plan.power_cuts;
                self.kill_osd(id, power_cut);
                if self.net.rng.below(100) < self.plan.together {
                    for other in 0..self.osd_count() as usize {
                        if self.net.rng.chance(2, 3) {
                            self.kill_osd(other, power_cut);
                        }
                    }
                }
            }
            Fault::KillMon => {
                if self.net.rng.chance(1, 2) {
                    self.kill_monitor();
                } else if let Some(monitor) = &mut self.monitor {
                    monitor.dies_at_commit = true;
                }
            }
            Fault::KillClient => {
                let n = self.net.rng.below(self.plan.clients.into()) as usize;
                if let Some(client) = self.clients[n].take() {
                    self.net.died(client.life);
                    self.net.after(200 * MS, What::Start(Proc::Client(n as u32)));
                }
            }
            Fault::Cut => {
                if let Some(link) = self.net.any_link() {
                    self.net.cut(link);
                }
            }
            Fault::Partition => {
                self.partition(id);
            }
            Fault::PauseOsd => {
                let for_ns = self.net.rng.below(40 * SEC);
                self.pause_osd(id as i32, for_ns);
            }
            Fault::OsdDownCommand => {
                self.say(format!(r#"{{"prefix":"osd down","ids":["{id}"]}}"#));
            }
            Fault::PgNum => {
                let pg_num = 1 << self.net.rng.below(6);
                self.say(format!(r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"pg_num","val":"{pg_num}"}}"#));
            }
            Fault::PauseFlag => {
                self.say(r#"{"prefix":"osd set","key":"pause"}"#.into());
                self.net.after(3 * SEC, What::Fault(Fault::UnpauseFlag));
            }
            Fault::UnpauseFlag => {
                self.say(r#"{"prefix":"osd unset","key":"pause"}"#.into());
                if !self.troubled {
                    self.put_all_in();
                }
            }
            Fault::Isolate => self.isolate(id),
            Fault::ClockJump => {
                let jump_ns = self.net.rng.below(20 * SEC) as i64 - 10 * SEC as i64;
                if let Some(osd) = &mut self.osds[id] {
                    osd.wall_jumps(jump_ns);
                }
            }
            Fault::Flag => {
                let flag = FLAGS[self.net.rng.below(FLAGS.len() as u64) as usize];
                self.say(format!(r#"{{"prefix":"osd set","key":"{flag}"}}"#));
                let until = self.net.rng.below(20 * SEC);
                self.net.after(until, What::Fault(Fault::Unflag));
            }
            Fault::Unflag => self.unset_flags(),
            Fault::Reweight => {
                let weight = [0.3, 0.7, 1.0][self.net.rng.below(3) as usize];
                self.say(format!(r#"{{"prefix":"osd reweight","id":"{id}","weight":{weight:?}}}"#));
            }
            Fault::Affinity => {
                let weight = [0.0, 0.5, 1.0][self.net.rng.below(3) as usize];
                self.say(format!(r#"{{"prefix":"osd primary-affinity","id":"{id}","weight":{weight:?}}}"#));
            }
            Fault::Upmap => {
                let to = self.net.rng.below(self.osd_count().into());
                if let Some(pgid) = self.any_group() {
                    match self.net.rng.chance(1, 3) {
                        true => self.say(format!(r#"{{"prefix":"osd rm-pg-upmap-items","pgid":"{pgid}"}}"#)),
                        false => self.say(format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"{pgid}","id":["{id}","{to}"]}}"#)),
                    }
                }
            }
            Fault::PgTemp => {
                if let Some(pgid) = self.any_group() {
                    let mut all: Vec<u64> = (0..self.osd_count().into()).collect();
                    let mut ids = Vec::new();
                    for _ in 0..self.plan.size {
                        let n = self.net.rng.below(all.len() as u64) as usize;
                        ids.push(format!("\"{}\"", all.swap_remove(n)));
                    }
                    self.say(format!(r#"{{"prefix":"osd pg-temp","pgid":"{pgid}","id":[{}]}}"#, ids.join(",")));
                }
            }
            Fault::MinSize => {
                let min_size = 1 + self.net.rng.below(self.plan.size.into());
                self.say(format!(r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"min_size","val":"{min_size}"}}"#));
            }
            Fault::DiskError if self.osds[id].is_some() => self.drives[id].strike(&mut self.net.rng),
            Fault::DiskError => {}
            Fault::Rot => self.rot(id),
            Fault::SlowDisk => self.slow_disk(id),
            Fault::Scrub => self.scrub_some(),
            Fault::Fence => self.fence(),
            Fault::AddOsd => self.add_osd(),
            Fault::EmptyOsd => self.empty_osd(id),
            Fault::LoseOsd => self.lose_osd(id),
            Fault::LongAway => away::begin(self, id),
            Fault::Blocklist => {
                let (host, expire) = (self.net.rng.below(200), 1 + self.net.rng.below(30));
                self.say(format!(r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.9.{host}:0/1","expire":{expire}.0}}"#));
            }
            Fault::VanishStore => self.vanish_store(id),
            Fault::SwapStores => self.swap_stores(id),
            Fault::Bar => barred::begin(self),
            Fault::Gap => gaps::begin(self, id),
            Fault::Exchange => exchange::begin(self),
            Fault::Force => {
                let verb =
                    ["force-recovery", "force-backfill", "cancel-force-recovery", "cancel-force-backfill"][self.net.rng.below(4) as usize];
                if let Some(pgid) = self.any_group() {
                    self.say(format!(r#"{{"prefix":"pg {verb}","pgid":["{pgid}"]}}"#));
                }
            }
            Fault::MakeSnap if self.history.snaps.now.live.len() < SNAPS_MAX => self.snapshot(None),
            Fault::MakeSnap => {}
            Fault::RemoveSnap => {
                let live = &self.history.snaps.now.live;
                if !live.is_empty() {
                    let snap = live[self.net.rng.below(live.len() as u64) as usize];
                    self.history.removes(snap);
                    self.net.note(format!("snapshot {snap} is removed"));
                    self.snapshot(Some(snap));
                }
            }
            Fault::OtherPool => {
                let n = self.net.rng.below(2);
                match self.net.rng.chance(1, 2) {
                    true => self.say(format!(r#"{{"prefix":"osd pool create","pool":"q{n}","pg_num":4,"pgp_num":4}}"#)),
                    false => {
                        self.say(format!(r#"{{"prefix":"osd pool rm","pool":"q{n}","pool2":"q{n}","yes_i_really_really_mean_it":true}}"#))
                    }
                }
            }
            Fault::OutIn => {
                let verb = if self.net.rng.chance(1, 2) { "out" } else { "in" };
                self.say(format!(r#"{{"prefix":"osd {verb}","ids":["{id}"]}}"#));
            }
            Fault::Size => {
                let size = 2 + self.net.rng.below(2);
                self.say(format!(r#"{{"prefix":"osd pool set","pool":"{POOL}","var":"size","val":"{size}"}}"#));
            }
        }
    }
    pub(crate) fn pause_osd(&mut self, id: i32, for_ns: u64) {
        let (proc, until) = (Proc::Osd(id), self.net.now_ns + for_ns);
        let paused = self.net.paused.entry(proc).or_default();
        paused.until_ns = until.max(paused.until_ns);
        self.net.at(until, What::GoesOn(proc));
    }
    fn partition(&mut self, id: usize) {
        let one = Proc::Osd(id as i32);
        let other = match self.net.rng.below(3) {
            0 => Proc::Mon,
            1 => Proc::Client(self.net.rng.below(self.plan.clients.into()) as u32),
            _ => Proc::Osd(self.net.rng.below(self.osd_count().into()) as i32),
        };
        let until = self.net.now_ns + self.net.rng.below(30 * SEC);
        let ways = 1 + self.net.rng.below(3);
        if ways & 1 != 0 {
            self.net.partition(one, other, until);
        }
        if ways & 2 != 0 {
            self.net.partition(other, one, until);
        }
    }
    /// An OSD hears no other and no monitor, nor they it, while clients still reach it; one of these does not hear of newer maps.
    fn isolate(&mut self, id: usize) {
        let until = self.net.now_ns + self.net.rng.below(60 * SEC);
        let one = Proc::Osd(id as i32);
        let others = (0..self.osd_count() as i32).filter(|other| *other != id as i32).map(Proc::Osd).chain([Proc::Mon]);
        for other in others.collect::<Vec<_>>() {
            self.net.partition(one, other, until);
            self.net.partition(other, one, until);
        }
        let late = Proc::Client(self.net.rng.below(self.plan.clients.into()) as u32);
        self.net.partition(Proc::Mon, late, until);
    }
    /// A group of the clients' pool.
    pub(crate) fn any_group(&mut self) -> Option<types::PgId> {
        let map = &self.monitor.as_ref()?.core().osd.map;
        let id = map.pool_by_name(POOL)?;
        let pg_num = map.pools.get(&id)?.pg_num;
        Some(types::PgId::new(id, self.net.rng.below(pg_num.into()) as u32))
    }
    /// A snapshot is made or removed by a client that lives.
    fn snapshot(&mut self, removes: Option<u64>) {
        if let Some(client) = self.clients.iter_mut().flatten().next() {
            client.snapshot(removes, &mut self.history, &mut self.net);
        }
    }
    /// The monitor made snapshots: clients use them from now on.
    pub(crate) fn snaps_made(&mut self, made: Vec<u64>) {
        for snap in made {
            self.net.note(format!("snapshot {snap} is made"));
            if let Err(why) = self.history.snaps.made(snap) {
                self.broken.get_or_insert(format!("snaps: {why}"));
            }
        }
    }
    /// A client has heard that a write is done. By chance that OSD and others die at this very moment.
    pub(crate) fn acknowledged_by(&mut self, osd: Option<i32>) {
        let Some(osd) = osd.filter(|_| self.troubled && self.plan.kill_at_ack > 0) else { return };
        if !self.net.rng.chance(1, self.plan.kill_at_ack) {
            return;
        }
        self.faults += 1;
        self.net.note(format!("fault at the acknowledgement of osd.{osd}"));
        let power_cut = self.plan.store == StoreKind::Block && self.net.rng.below(100) < self.plan.power_cuts;
        let all = self.net.rng.below(100) < self.plan.together;
        for id in 0..self.osd_count() as usize {
            if id == osd as usize || (all && self.net.rng.chance(2, 3)) {
                self.kill_osd(id, power_cut);
            }
        }
    }
    /// An OSD is about to answer that a write is done. By chance the client never hears of it, and reaches that OSD only later: others write meanwhile, and
    /// the operation comes again to a primary that knows it by its log, by what is left of that, or by another's.
    pub(crate) fn answer_is_lost(&mut self, client: Proc, osd: i32, link: LinkId) -> bool {
        if !self.troubled || self.plan.lose_answer == 0 || !self.net.rng.chance(1, self.plan.lose_answer) {
            return false;
        }
        self.faults += 1;
        self.net.note(format!("the answer of osd.{osd} to {client:?} is lost"));
        self.net.cut(link);
        let until = self.net.now_ns + self.net.rng.below(20 * SEC);
        self.net.partition(client, Proc::Osd(osd), until);
        match self.net.rng.below(4) {
            0 => self.say(format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#)),
            1 => {
                let delay = self.net.rng.below(10 * SEC);
                self.net.after(delay, What::Fault(Fault::PgTemp));
            }
            2 if self.plan.kill_osd > 0 => self.kill_osd(osd as usize, false),
            _ => {}
        }
        true
    }
    /// A replica has just taken a write, durably or not. By chance it dies, and by chance the primary and others with it: some members have the write then.
    pub(crate) fn replica_wrote(&mut self, osd: i32, primary: i32) {
        if !self.troubled || self.plan.kill_at_write == 0 || !self.net.rng.chance(1, self.plan.kill_at_write) {
            return;
        }
        self.faults += 1;
        self.net.note(format!("fault at a write of osd.{primary} to osd.{osd}"));
        for id in 0..self.osd_count() as i32 {
            let goes = [(3, 4), (3, 4), (1, 3)][if id == osd {
                0
            } else if id == primary {
                1
            } else {
                2
            }];
            if self.net.rng.chance(goes.0, goes.1) {
                let power_cut = self.plan.store == StoreKind::Block && self.net.rng.below(100) < self.plan.power_cuts;
                self.kill_osd(id as usize, power_cut);
            }
        }
    }
    fn unset_flags(&mut self) {
        let all = FLAGS.iter().chain(&["norecover"]).filter(|flag| self.plan.follow + self.plan.bar > 0 || **flag != "norecover");
        let said: Vec<String> = all.map(|flag| format!(r#"{{"prefix":"osd unset","key":"{flag}"}}"#)).collect();
        said.into_iter().for_each(|words| self.say(words));
    }
    /// A command by whichever client lives; none waits for its answer.
    pub(crate) fn say(&mut self, json: String) {
        if let Some(client) = self.clients.iter_mut().flatten().next() {
            client.command(json, &mut self.history, &mut self.net);
        }
    }
    /// No more faults; what is down comes back, and pauses and partitions end when they would have.
    pub(crate) fn heal(&mut self) {
        self.net.note("the cluster is healed".into());
        (self.troubled, self.healed_ns) = (false, self.net.now_ns);
        self.rogues_go();
        if let Some(monitor) = &mut self.monitor {
            monitor.dies_at_commit = false;
        }
        self.say(r#"{"prefix":"osd unset","key":"pause"}"#.into());
        self.unset_flags();
        // A command of another client that sets one may be on its way, held by a partition: none lasts longer than a minute. Nor need any client live
        // that could say something now.
        for fault in [Fault::UnpauseFlag, Fault::Unflag] {
            self.net.after(70 * SEC, What::Fault(fault));
        }
        self.put_all_in();
    }
    fn put_all_in(&mut self) {
        for id in 0..self.osd_count() {
            self.say(format!(r#"{{"prefix":"osd reweight","id":"{id}","weight":1.0}}"#));
        }
        let all: Vec<String> = (0..self.osd_count()).map(|id| format!("\"{id}\"")).collect();
        self.say(format!(r#"{{"prefix":"osd in","ids":[{}]}}"#, all.join(",")));
    }
}
