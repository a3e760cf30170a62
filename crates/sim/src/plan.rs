//! What a seed draws: how large the cluster is, what its clients do, and which faults it meets.
//!
//! Each seed has only some kinds of faults (swarm): a cluster with all of them at once seldom gets far enough for any.

use crate::SEC;
use crate::kinds::{Every, EveryMs};
use crate::themes::Theme;
use base::Rng;
use std::ops::{Deref, DerefMut};

/// What OSDs keep objects in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// The memory store, which outlives its OSD: a disk that never lags and loses nothing.
    Ideal,
    /// The block store on disks in memory.
    Block,
}

/// Of so many seeds one has real connections.
const WIRES_EVERY: u64 = 8;

/// So many kinds of faults are drawn with all else that a seed has; those behind them are drawn apart.
pub(crate) const DRAWN: usize = 32;

/// So many maps a monitor keeps by default.
pub(crate) const MAPS_KEPT: u64 = 500;

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    /// Encoded messages.
    #[default]
    Messages,
    /// The bytes of two `msgr` connections, with checksums or encrypted.
    Crc,
    Secure,
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub seed: u64,
    /// The situation that it is about, if it is about one.
    pub theme: Theme,
    pub wire: Wire,
    pub osds: u32,
    /// OSDs that share a device and are lost with it, where copies lie on several devices; 0: each has its own. Never drawn.
    pub per_device: u32,
    pub clients: u32,
    pub pg_num: u32,
    /// Copies of an object, and how many of them must be there for it to be served.
    pub size: u32,
    pub min_size: u32,
    pub objects: u32,
    /// Operations that one client has under way.
    pub depth: u32,
    /// Operations of all clients.
    pub ops: u32,
    /// Of 100 reads of clients, so many may go to any member of their group.
    pub balanced: u64,
    /// Members that follow are read straight about so often; see [`crate::followers`].
    pub follow: EveryMs,
    /// Clients that want harm come about so often; see [`crate::hostile`].
    pub hostile: EveryMs,
    /// Pause of a client between two operations, at most.
    pub think_ms: u64,
    pub store: StoreKind,
    /// An ideal disk's commits come by and by, as a device's do.
    pub commits_lag: bool,
    /// Entries that a group's log keeps.
    pub log_entries: u32,
    /// One-way delay of a message: least, and what chance adds at most.
    pub delay_ns: (u64, u64),
    /// Faults of each kind.
    pub every: Every,
    /// A killed OSD is back after this long at most.
    pub down_ms: u64,
    /// Of 100 kills of an OSD, so many take others with it, all at once.
    pub together: u64,
    /// Of 100 kills of an OSD on a block store, so many are power cuts.
    pub power_cuts: u64,
    /// Rot may meet the log or the metadata.
    pub rot_wide: bool,
    /// Rot may be on any OSD, whatever was promised: objects' data alone.
    pub rot_beyond: bool,
    /// Of so many acknowledged writes, one is the last thing that its primary did, by chance with others; 0: never.
    pub kill_at_ack: u64,
    /// Of so many acknowledged writes, the answer to one is lost, and its client reaches the primary only later, or another one by then; 0: never.
    pub lose_answer: u64,
    /// Of so many writes that come to a replica, one is the last thing that it did, by chance with the primary and others; 0: never.
    pub kill_at_write: u64,
    /// Clients that watch and notify.
    pub watchers: u32,
    /// Nothing but the store itself keeps clients from filling it.
    pub brim: bool,
    /// Block stores are of the version before, until an operator has them made ones of this version.
    pub older: bool,
    /// While an OSD is away for long, clients begin nothing for a while.
    pub lulls: bool,
    /// While an OSD is away for long, the pool has half as many groups, and clients begin nothing.
    pub halves: bool,
    /// Pause between two objects of recovery or backfill.
    pub recovery_sleep_ms: u64,
    /// Of 100 requests for a place for backfill, so many are refused as if the store were too full.
    pub refused_places: u64,
    /// How long leases of reads are, of 100 of the time after which a silent OSD counts as failed.
    pub lease_percent: u64,
    /// How long an OSD's loop reads messages at most before it does what comes of them all; 0: each has a turn of its own.
    pub turn_ns: u64,
    /// Answers of an OSD's shard to its Control come late: never drawn, see [`Plan::with_late_answers`].
    pub late_answers: bool,
    /// Objects of a page that a backfill lists; 0: as many as a log has entries.
    pub scan_max: u64,
    /// Objects that an OSD recovers at a time; 0: as many as by default.
    pub recovery_active: u64,
    /// Recovery goes as fast as it can while clients ask.
    pub recovery_unpaced: bool,
    /// Of 100 operations, so many more are deletions.
    pub deletes: u64,
    /// Of 100 texts that clients write, so many are long ones.
    pub large: u64,
    pub large_least: u64,
    pub large_bytes: u64,
    /// Room of some OSDs' stores; 0: all have much.
    pub small_bytes: u64,
    /// What a block store keeps in memory.
    pub memory_bytes: u64,
    /// Fences that a run has at most.
    pub fences: u32,
    /// Bytes and keys that one message of recovery has at most.
    pub chunk_bytes: u64,
    pub chunk_keys: u64,
    /// So many maps the monitor keeps at least. Where they are few, an OSD that is down is soon put out, and beacons come soon: then the others are clean
    /// without it, and maps are trimmed that it does not know.
    pub maps_kept: u64,
    /// How long faults go on at most.
    pub faults_ns: u64,
    /// How long the healed cluster may take to come to rest.
    pub rest_ns: u64,
}

fn pick(rng: &mut Rng, from: &[u64]) -> u64 {
    from[rng.below(from.len() as u64) as usize]
}
/// How often something happens; 0 in most seeds: never.
fn sometimes(rng: &mut Rng, every: &[u64]) -> u64 {
    if rng.chance(2, 5) { pick(rng, every) } else { 0 }
}

impl Plan {
    /// What this seed draws.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x9143_77aa);
        let plan = Self::drawn(seed, &mut rng);
        let plan = plan.with_harm(&mut rng).with_overlaps(&mut rng).with_theme(&mut rng).with_devices(&mut rng);
        plan.with_balance()
            .with_hostile()
            .with_vanishing()
            .with_little_room()
            .with_later_theme()
            .with_halving()
            .with_others()
            .with_older_stores()
            .with_wires_by_chance()
    }
    /// What comes first.
    fn drawn(seed: u64, rng: &mut Rng) -> Self {
        let (tiny, osds) = if rng.chance(1, 3) { (true, 1) } else { (false, 1 + rng.below(5) as u32) };
        let size = 1 + rng.below(u64::from(osds.min(3))) as u32;
        let plan = Self {
            seed,
            theme: Theme::None,
            wire: Wire::Messages,
            osds,
            per_device: 0,
            clients: 1 + rng.below(if tiny { 3 } else { 6 }) as u32,
            pg_num: if tiny { 1 } else { 1 << rng.below(5) },
            size,
            min_size: if size > 1 && rng.chance(3, 4) { size - size / 2 } else { 1 },
            objects: if tiny { 3 } else { 4 + rng.below(40) as u32 },
            depth: 1 + rng.below(4) as u32,
            ops: if tiny { 300 } else { 1000 },
            balanced: 0,
            follow: 0,
            hostile: 0,
            think_ms: pick(rng, &[20, 500, 1_500, 4_000]),
            store: if rng.chance(1, 2) { StoreKind::Ideal } else { StoreKind::Block },
            commits_lag: false,
            log_entries: pick(rng, &[4, 20, 200, 2000]) as u32,
            delay_ns: (pick(rng, &[20_000, 200_000, 2_000_000]), pick(rng, &[50_000, 5_000_000, 80_000_000])),
            every: Every::default(),
            down_ms: 0,
            together: 0,
            power_cuts: 0,
            kill_at_ack: 0,
            chunk_bytes: 0,
            chunk_keys: 0,
            maps_kept: MAPS_KEPT,
            faults_ns: 600 * SEC,
            fences: 2,
            late_answers: false,
            scan_max: 0,
            recovery_active: 0,
            recovery_unpaced: false,
            deletes: 0,
            large: 0,
            large_least: 0,
            large_bytes: 60_000,
            small_bytes: 0,
            memory_bytes: 4 << 20,
            lose_answer: 0,
            kill_at_write: 0,
            watchers: 0,
            lulls: false,
            halves: false,
            older: false,
            brim: false,
            recovery_sleep_ms: 0,
            turn_ns: 0,
            lease_percent: 80,
            refused_places: 0,
            rest_ns: 900 * SEC,
            rot_wide: false,
            rot_beyond: false,
        };
        plan.with_faults(rng)
    }
    /// The faults that most seeds have, and how large they are.
    fn with_faults(mut self, rng: &mut Rng) -> Self {
        self.kill_osd = sometimes(rng, &[3_000, 15_000, 60_000]);
        self.down_ms = pick(rng, &[300, 5_000, 60_000]);
        self.together = pick(rng, &[0, 20, 100]);
        self.power_cuts = pick(rng, &[0, 50, 100]);
        self.kill_mon = sometimes(rng, &[5_000, 30_000]);
        self.kill_client = sometimes(rng, &[60_000, 200_000]);
        self.cut = sometimes(rng, &[200, 2_000, 10_000]);
        self.partition = sometimes(rng, &[3_000, 10_000, 40_000]);
        self.pause_osd = sometimes(rng, &[3_000, 10_000, 40_000]);
        self.osd_down_command = sometimes(rng, &[10_000, 40_000]);
        self.pg_num_changes = sometimes(rng, &[10_000, 40_000]);
        self.pause_flag = sometimes(rng, &[20_000]);
        self.out_in = sometimes(rng, &[15_000, 60_000]) * u64::from(self.size > 1);
        self.size_changes = sometimes(rng, &[30_000]) * u64::from(self.size > 1 && self.osds > 2);
        self.isolate = sometimes(rng, &[10_000, 40_000]) * u64::from(self.osds > 1);
        self.clock_jumps = sometimes(rng, &[5_000, 40_000]);
        self.flags = sometimes(rng, &[20_000, 60_000]);
        self.reweight = sometimes(rng, &[20_000, 60_000]) * u64::from(self.size > 1);
        self.affinity = sometimes(rng, &[20_000, 60_000]) * u64::from(self.size > 1);
        self.upmap = sometimes(rng, &[10_000, 40_000]) * u64::from(self.size > 1);
        self.pg_temp = sometimes(rng, &[10_000, 40_000]) * u64::from(self.size > 1);
        self.min_size_changes = sometimes(rng, &[20_000, 60_000]) * u64::from(self.size > 1);
        self.make_snap = sometimes(rng, &[3_000, 15_000, 60_000]);
        self.remove_snap = sometimes(rng, &[5_000, 20_000]);
        self.other_pools = sometimes(rng, &[20_000]) * u64::from(self.osds > 1);
        self.disk_errors = sometimes(rng, &[10_000, 40_000]);
        self.kill_at_ack = sometimes(rng, &[20, 100, 400]);
        self.chunk_bytes = pick(rng, &[4096, 8 << 20]);
        self.chunk_keys = pick(rng, &[1, 64_000]);
        self
    }
    /// Replicas serve reads in some seeds. Drawn apart: what else a seed has does not depend on it.
    fn with_balance(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x0ba1_a9ce);
        if self.size > 1 && rng.chance(1, 4) {
            self.balanced = pick(&mut rng, &[30, 100]);
            self.follow = pick(&mut rng, &[300, 2_000]);
        }
        self
    }
    /// Clients that want harm come in some seeds. Drawn apart, too.
    fn with_hostile(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x0e71_1c1e);
        self.hostile = if rng.chance(1, 5) { pick(&mut rng, &[500, 3_000]) } else { 0 };
        self
    }
    /// Some OSDs have little room in some seeds, and fill, in recovery as well. Drawn apart, too.
    fn with_little_room(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x0c40_3d5a);
        if self.osds > 2 && self.size > 1 && self.store == StoreKind::Ideal && !self.rot_beyond && rng.chance(1, 6) {
            (self.small_bytes, self.large, self.deletes) = (pick(&mut rng, &[2 << 20, 3 << 20]), 60, 5);
            (self.objects, self.log_entries) = (80 + rng.below(60) as u32, pick(&mut rng, &[20, 2000]) as u32);
            // What is under way at a time fits into what is left behind the ratio.
            (self.clients, self.depth, self.think_ms) = (self.clients.min(3), self.depth.min(2), self.think_ms.max(100));
            // Clones are not deleted at the end, and maps take room, too.
            (self.make_snap, self.remove_snap, self.other_pools, self.vanish_store) = (0, 0, 0, 0);
            (self.lose_osd, self.empty_osd, self.maps_kept) = (0, 0, self.maps_kept.min(10));
            (self.kill_osd, self.down_ms) = (pick(&mut rng, &[10_000, 30_000]), 60_000);
        }
        self
    }
    /// Stores vanish in some seeds, under the promise of [`Self::with_devices`], or are swapped. Drawn apart, too.
    fn with_vanishing(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x057a_2e5d);
        let is_safe = self.size > 2 && self.min_size > 1 && self.size_changes + self.min_size_changes + self.rot == 0;
        if is_safe && rng.chance(1, 2) {
            (self.vanish_store, self.other_pools) = (pick(&mut rng, &[5_000, 20_000]), 0);
        }
        self.blocklist = if rng.chance(1, 4) { pick(&mut rng, &[10_000, 40_000]) } else { 0 };
        if self.osds > 1 && self.rot == 0 && rng.chance(1, 8) {
            self.swap_stores = pick(&mut rng, &[10_000, 40_000]);
        }
        self
    }
    /// Clients shut out others in some seeds, and watch and notify in some. Drawn apart, too.
    fn with_others(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x0ba4_07e5);
        if self.clients > 1 && rng.chance(1, 5) {
            self.bar = pick(&mut rng, &[3_000, 10_000]);
        }
        // What rots or finds no room fails, and says nothing of watches.
        if self.rot == 0 && self.small_bytes == 0 && rng.chance(1, 6) {
            self.watchers = 2 + rng.below(3) as u32;
        }
        self
    }
    /// Some block stores are of the version before: more of those that fill. Drawn apart, too.
    fn with_older_stores(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x07e5_104f);
        let may_be = self.store == StoreKind::Block && self.rot == 0 && !self.rot_beyond;
        self.older = may_be && rng.chance(1, if self.small_bytes > 0 { 2 } else { 8 });
        self
    }
    fn with_wires_by_chance(self) -> Self {
        if Rng::new(self.seed ^ 0x3317_e55a).chance(1, WIRES_EVERY) { self.with_wires() } else { self }
    }
    /// The same with links that are real connections, which are cut at times. Drawn apart: what else a seed has does not depend on it.
    pub fn with_wires(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x07c9_88d1);
        self.wire = if rng.chance(1, 3) { Wire::Secure } else { Wire::Crc };
        if self.cut == 0 && rng.chance(2, 3) {
            self.cut = pick(&mut rng, &[300, 3_000]);
        }
        self
    }
    /// The same with OSDs whose shards answer late, as with threads of their own: no seed has it by itself, so that each stays the history that it is.
    pub fn with_late_answers(self) -> Self {
        Self { late_answers: true, ..self }
    }
    /// What comes to disks besides, and fences: drawn last. Rot needs three copies, two of which are written at least: with fewer there is nothing to mend from.
    fn with_harm(mut self, rng: &mut Rng) -> Self {
        let is_block = self.store == StoreKind::Block;
        self.slow_disk = sometimes(rng, &[10_000, 40_000]) * u64::from(is_block);
        self.scrubs = sometimes(rng, &[2_000, 15_000]);
        if self.osds > 2 && rng.chance(1, 2) {
            (self.size, self.min_size, self.size_changes, self.min_size_changes) = (3, 2, 0, 0);
            self.rot = pick(rng, &[1_000, 4_000, 20_000]) * u64::from(is_block);
        }
        self.fence = sometimes(rng, &[2_000, 8_000]) * u64::from(self.size > 1);
        self.commits_lag = !is_block && rng.chance(2, 3);
        self
    }
    /// What makes recovery, backfill and resent operations overlap with all else: drawn behind the rest.
    fn with_overlaps(mut self, rng: &mut Rng) -> Self {
        self.lose_answer = sometimes(rng, &[10, 40]);
        self.kill_at_write = sometimes(rng, &[40, 200]) * u64::from(self.size > 1);
        self.force = sometimes(rng, &[3_000, 15_000]) * u64::from(self.size > 1);
        self.recovery_sleep_ms = sometimes(rng, &[100, 1_000]);
        self.refused_places = sometimes(rng, &[20, 60]);
        self.turn_ns = pick(rng, &[0, 100_000, 3_000_000]);
        self.lease_percent = pick(rng, &[80, 80, 20, 250]);
        if self.fence > 0 && self.size == 3 && self.rot == 0 && rng.chance(1, 3) {
            self.min_size = 1;
        }
        if self.osds > 2 && self.rot == 0 && rng.chance(1, 3) {
            // Groups of many objects whose logs soon don't reach back far enough move from one OSD to another all the time, while clients write.
            (self.pg_num, self.log_entries, self.objects) = (1 << rng.below(3), 4, 20 + rng.below(20) as u32);
            (self.size, self.min_size) = match rng.below(4) {
                0 => (2, 1),
                // One member alone may go on, and the others come back with writes that do not count.
                1 => (3, 1),
                _ => (self.size, self.min_size),
            };
            if self.size > 1 && rng.chance(1, 2) {
                self.kill_at_write = 60;
            }
            (self.out_in, self.upmap) = (pick(rng, &[4_000, 12_000]), pick(rng, &[4_000, 12_000]));
            (self.think_ms, self.recovery_sleep_ms) = (pick(rng, &[20, 500]), pick(rng, &[0, 50, 300]));
        }
        self
    }
    /// Rot beyond objects' data, or on any device; and OSDs that are emptied or lost, where two members have each acknowledged write at least: drawn last.
    fn with_devices(mut self, rng: &mut Rng) -> Self {
        let is_safe = self.size > 2 && self.min_size > 1 && self.size_changes + self.min_size_changes + self.rot == 0;
        self.rot_wide = self.rot > 0 && rng.chance(1, 2);
        if rng.chance(1, 12) && self.store == StoreKind::Block && self.rot == 0 {
            (self.rot, self.rot_beyond) = (pick(rng, &[2_000, 10_000]), true);
        }
        if rng.chance(1, 4) {
            self.add_osd = pick(rng, &[10_000, 40_000]) * u64::from(self.osds > 1);
            // Then all members of a group may be new, and each has to have room at the same time.
            self.refused_places = self.refused_places.min(20);
        }
        if rng.chance(1, 3) && is_safe && self.rot == 0 {
            (self.empty_osd, self.lose_osd) = (pick(rng, &[0, 1_000, 5_000]), pick(rng, &[0, 5_000, 20_000]));
            // They have one copy of each object.
            self.other_pools = 0;
        }
        if self.osds > self.size && rng.chance(1, 2) {
            // With fewer faults of other kinds groups are clean at times, and the run lasts.
            self.faults().into_iter().take(DRAWN).filter(|_| rng.chance(1, 2)).for_each(|(_, _, every)| *every = 0);
            (self.maps_kept, self.long_away) = (pick(rng, &[1, 10, 50]), pick(rng, &[30_000, 100_000]));
            (self.think_ms, self.fence) = (4_000, 0);
        }
        self
    }
    /// The same without any fault.
    pub fn calm(mut self) -> Self {
        self.faults().into_iter().for_each(|(_, _, every)| *every = 0);
        (self.kill_at_ack, self.lose_answer, self.kill_at_write, self.hostile) = (0, 0, 0, 0);
        (self.follow, self.watchers) = (0, 0);
        self
    }
}

/// A plan names its faults as it does all else.
impl Deref for Plan {
    type Target = Every;
    fn deref(&self) -> &Every {
        &self.every
    }
}
impl DerefMut for Plan {
    fn deref_mut(&mut self) -> &mut Every {
        &mut self.every
    }
}
