//! Themes: a share of the seeds is about one situation that few of the others come to, and has little else.
//!
//! | theme | what it is about |
//! |---|---|
//! | filling | backfills of many objects, some at a time, in pages of any size, while clients write and delete |
//! | diverging | members come back with writes that do not count, and their logs still meet the others' |
//! | fencing | primaries that are cut off and lose their groups |
//! | purging | snapshots are removed while some groups serve and others do not |
//! | reserving | many groups want the same few places, and some are urgent |
//!
//! Drawn apart, so that the seeds of the others stay what they are:
//!
//! | theme | what it is about |
//! |---|---|
//! | exchanging | all members of a group are exchanged at once, and the old ones die at the first acknowledgement behind that |
//! | merging | groups are merged and split while snapshots are removed |
//! | brimming | large writes on block stores that are nearly full |
//! | trailing | clients and OSDs that hear of no map until what they need next is trimmed |
//! | halving | the pool's groups are halved while a member is away and clients are silent |

use crate::SEC;
use crate::plan::{DRAWN, MAPS_KEPT, Plan, StoreKind};
use base::Rng;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    None,
    Filling,
    Diverging,
    Fencing,
    Purging,
    Reserving,
    Exchanging,
    Merging,
    Brimming,
    Trailing,
    Halving,
}

impl Theme {
    const LATER: [Self; 5] = [Self::Exchanging, Self::Merging, Self::Brimming, Self::Trailing, Self::Trailing];
    const ALL: [Self; 5] = [Self::Filling, Self::Diverging, Self::Fencing, Self::Purging, Self::Reserving];
}

impl Plan {
    /// The same, or a plan with a theme: what it does not name it has as it was drawn, and of the faults only some.
    pub(crate) fn with_theme(mut self, rng: &mut Rng) -> Self {
        if !rng.chance(1, 2) {
            return self;
        }
        self.theme = Theme::ALL[rng.below(5) as usize];
        self.faults().into_iter().take(DRAWN).filter(|_| !rng.chance(1, 5)).for_each(|(_, _, every)| *every = 0);
        (self.rot, self.size_changes, self.min_size_changes, self.pg_num_changes) = (0, 0, 0, 0);
        (self.kill_at_write, self.kill_at_ack, self.lose_answer) = (0, 0, 0);
        self.clients = 2 + rng.below(4) as u32;
        match self.theme {
            Theme::None | Theme::Exchanging | Theme::Merging | Theme::Brimming | Theme::Trailing | Theme::Halving => {}
            Theme::Filling => self.filling(rng),
            Theme::Diverging => self.diverging(rng),
            Theme::Fencing => self.fencing(rng),
            Theme::Purging => self.purging(rng),
            Theme::Reserving => self.reserving(rng),
        }
        self.commits_lag = self.store == StoreKind::Ideal && rng.chance(1, 2);
        self
    }
    /// The same, or a plan with one of the themes that came later, which has the seed for itself.
    pub(crate) fn with_later_theme(self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x074e_3e5b);
        if !rng.chance(1, 4) {
            return self;
        }
        let rng = &mut rng;
        let mut plan = self.calm();
        plan.theme = Theme::LATER[rng.below(5) as usize];
        plan.few_things(rng);
        match plan.theme {
            Theme::Exchanging => plan.exchanging(rng),
            Theme::Merging => plan.merging(rng),
            Theme::Brimming => plan.brimming(rng),
            _ => plan.trailing(rng),
        }
        plan.commits_lag = plan.store == StoreKind::Ideal && rng.chance(1, 2);
        plan
    }
    /// The same, or a plan whose groups are halved while a member is away, where no other theme has the seed.
    /// It is drawn apart again.
    pub(crate) fn with_halving(self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x0a1f_2e37);
        if self.theme != Theme::None || !rng.chance(1, 6) {
            return self;
        }
        let mut plan = self.calm();
        plan.theme = Theme::Halving;
        plan.few_things(&mut rng);
        plan.halving(&mut rng);
        plan.commits_lag = plan.store == StoreKind::Ideal && rng.chance(1, 2);
        plan
    }
    /// The rest of a plan of the later themes.
    fn few_things(&mut self, rng: &mut Rng) {
        (self.rot_wide, self.rot_beyond, self.small_bytes, self.large, self.maps_kept) = (false, false, 0, 0, MAPS_KEPT);
        (self.balanced, self.clients, self.deletes) = (0, 2 + rng.below(3) as u32, 0);
        (self.lease_percent, self.refused_places, self.recovery_sleep_ms, self.scan_max) = (80, 0, pick(rng, &[0, 0, 100]), 0);
    }
    /// The plan by which speed is measured: always as much work, with faults of each kind at times.
    pub fn figure(seed: u64, store: StoreKind) -> Self {
        let mut plan = Self::of(seed).calm();
        (plan.osds, plan.pg_num, plan.size, plan.min_size, plan.store) = (3, 16, 3, 2, store);
        (plan.clients, plan.objects, plan.depth, plan.ops) = (4, 30, 2, 1000);
        // So that the operations take the ten minutes.
        (plan.think_ms, plan.faults_ns) = (4_700, 600 * SEC);
        (plan.kill_osd, plan.down_ms, plan.together, plan.power_cuts) = (60_000, 5_000, 20, 100);
        (plan.cut, plan.partition, plan.pause_osd, plan.osd_down_command) = (10_000, 60_000, 60_000, 60_000);
        (plan.make_snap, plan.remove_snap, plan.scrubs) = (60_000, 60_000, 60_000);
        (plan.balanced, plan.hostile, plan.follow) = (0, 0, 0);
        (plan.large, plan.large_least, plan.large_bytes, plan.small_bytes) = (0, 0, 60_000, 0);
        (plan.log_entries, plan.delay_ns, plan.turn_ns) = (200, (200_000, 5_000_000), 100_000);
        (plan.recovery_sleep_ms, plan.refused_places, plan.lease_percent, plan.deletes) = (0, 0, 80, 0);
        (plan.scan_max, plan.recovery_active, plan.recovery_unpaced) = (0, 0, false);
        (plan.rot_wide, plan.rot_beyond, plan.commits_lag) = (false, false, false);
        (plan.older, plan.brim) = (false, false);
        plan.maps_kept = MAPS_KEPT;
        (plan.memory_bytes, plan.chunk_bytes, plan.chunk_keys) = (4 << 20, 8 << 20, 64_000);
        plan
    }
    /// Two devices with two OSDs and a copy of everything each, one of which is lost now and then with all that it has.
    pub fn on_two_devices(seed: u64, store: StoreKind) -> Self {
        let mut plan = Self::figure(seed, store);
        (plan.osds, plan.per_device, plan.size, plan.min_size) = (4, 2, 2, 1);
        (plan.lose_osd, plan.kill_osd) = (20_000, 40_000);
        plan
    }
    fn filling(&mut self, rng: &mut Rng) {
        self.osds = 3 + rng.below(3) as u32;
        self.size = 2 + rng.below(2) as u32;
        self.min_size = if rng.chance(1, 3) { 1 } else { self.size - self.size / 2 };
        (self.pg_num, self.log_entries, self.objects) = (1 << rng.below(3), 4, 20 + rng.below(40) as u32);
        (self.out_in, self.upmap) = (pick(rng, &[2_000, 8_000]), pick(rng, &[2_000, 8_000]));
        self.scan_max = pick(rng, &[2, 8, 64, 512]);
        self.recovery_active = pick(rng, &[2, 10]);
        self.recovery_unpaced = rng.chance(2, 3);
        self.recovery_sleep_ms = pick(rng, &[0, 0, 20, 100]);
        self.chunk_bytes = pick(rng, &[4096, 4096, 8 << 20]);
        self.deletes = pick(rng, &[0, 20]);
        // With little of it reads wait for the device, and writes behind them, while an object is sent.
        self.memory_bytes = pick(rng, &[1 << 17, 1 << 20, 4 << 20]);
        self.chunk_keys = pick(rng, &[1, 1, 64_000]);
        (self.think_ms, self.depth, self.ops) = (pick(rng, &[40, 200]), 4, 2000);
        if rng.chance(1, 4) {
            // Requests wait long for the device, so that a backfill comes to objects that some write is on its way to.
            (self.store, self.memory_bytes, self.slow_disk) = (StoreKind::Block, 1 << 17, pick(rng, &[500, 2_000]));
            (self.chunk_bytes, self.chunk_keys, self.recovery_sleep_ms) = (4096, 1, 0);
        }
    }
    fn diverging(&mut self, rng: &mut Rng) {
        (self.osds, self.size) = (3 + rng.below(2) as u32, 3);
        self.min_size = if rng.chance(3, 4) { 1 } else { 2 };
        (self.pg_num, self.log_entries, self.objects) = (1 << rng.below(2), pick(rng, &[50, 2000]) as u32, 3 + rng.below(12) as u32);
        (self.kill_at_write, self.kill_osd) = (pick(rng, &[10, 40]), pick(rng, &[0, 6_000]));
        (self.down_ms, self.together) = (pick(rng, &[2_000, 15_000]), pick(rng, &[0, 20]));
        // What is to be recovered lacks for some time.
        self.recovery_sleep_ms = pick(rng, &[0, 100, 500]);
        self.lease_percent = pick(rng, &[20, 80]);
        (self.think_ms, self.depth) = (pick(rng, &[100, 400]), 3);
    }
    fn fencing(&mut self, rng: &mut Rng) {
        (self.osds, self.size) = (3 + rng.below(2) as u32, 3);
        self.min_size = 1 + rng.below(2) as u32;
        (self.pg_num, self.objects) = (1 << rng.below(3), 6 + rng.below(10) as u32);
        (self.fence, self.fences) = (1_500, 4);
        self.lease_percent = pick(rng, &[80, 80, 250]);
        (self.down_ms, self.think_ms) = (pick(rng, &[300, 20_000]), 1_500);
    }
    fn purging(&mut self, rng: &mut Rng) {
        (self.osds, self.size, self.min_size) = (3, 2, 2);
        (self.pg_num, self.objects, self.log_entries) = (8 << rng.below(2), 10 + rng.below(20) as u32, 200);
        (self.make_snap, self.remove_snap) = (1_500, 2_000);
        (self.kill_osd, self.down_ms, self.together) = (pick(rng, &[8_000, 20_000]), 30_000, 0);
        self.recovery_sleep_ms = pick(rng, &[0, 300]);
        (self.think_ms, self.depth) = (pick(rng, &[300, 1_000]), 2);
    }
    fn reserving(&mut self, rng: &mut Rng) {
        self.osds = 3 + rng.below(3) as u32;
        self.size = if self.osds > 3 { 2 + rng.below(2) as u32 } else { 2 };
        self.min_size = 1;
        // Of few groups one has its turn again soon; of many several ask at once.
        (self.pg_num, self.objects) = (4 << rng.below(4), 30 + rng.below(30) as u32);
        self.log_entries = pick(rng, &[4, 200]) as u32;
        (self.out_in, self.upmap, self.force) = (pick(rng, &[3_000, 10_000]), pick(rng, &[1_000, 4_000]), pick(rng, &[500, 2_000]));
        self.kill_osd = pick(rng, &[0, 15_000]);
        self.refused_places = pick(rng, &[0, 10, 30]);
        self.recovery_sleep_ms = pick(rng, &[20, 200, 1_000]);
        self.turn_ns = pick(rng, &[100_000, 3_000_000, 30_000_000]);
        (self.think_ms, self.depth) = (pick(rng, &[100, 300, 1_000]), 3);
    }
    fn exchanging(&mut self, rng: &mut Rng) {
        (self.osds, self.size) = (4, 2);
        self.min_size = 1 + rng.below(2) as u32;
        (self.pg_num, self.log_entries, self.objects) = (1 << rng.below(3), pick(rng, &[4, 50, 2000]) as u32, 8 + rng.below(30) as u32);
        (self.exchange, self.power_cuts, self.down_ms) =
            (pick(rng, &[3_000, 8_000]), pick(rng, &[0, 50, 100]), pick(rng, &[300, 5_000, 20_000]));
        self.kill_at_write = pick(rng, &[0, 0, 100]);
        (self.chunk_bytes, self.recovery_unpaced) = (pick(rng, &[4096, 8 << 20]), rng.chance(1, 2));
        (self.think_ms, self.depth, self.ops) = (pick(rng, &[200, 1_000]), 2, 600);
    }
    fn merging(&mut self, rng: &mut Rng) {
        self.osds = 2 + rng.below(2) as u32;
        (self.size, self.min_size) = (2, 1 + rng.below(2) as u32);
        // One that was away while groups were merged has other parts of them than those that are left.
        self.long_away = if self.osds > 2 { 20_000 } else { 0 };
        self.lulls = self.long_away > 0 && rng.chance(3, 4);
        (self.pg_num, self.objects, self.log_entries) = (4 << rng.below(3), 10 + rng.below(20) as u32, pick(rng, &[20, 200]) as u32);
        (self.pg_num_changes, self.make_snap, self.remove_snap) = (pick(rng, &[5_000, 12_000]), 1_500, 2_000);
        (self.kill_osd, self.down_ms, self.together) = (pick(rng, &[0, 15_000, 30_000]), pick(rng, &[1_000, 10_000]), 0);
        self.out_in = pick(rng, &[0, 20_000]);
        (self.think_ms, self.depth, self.ops) = (pick(rng, &[300, 1_000]), 2, 800);
        if self.lulls && rng.chance(2, 3) {
            // A trim writes in every group, and each map begins another epoch.
            (self.make_snap, self.remove_snap, self.kill_osd, self.out_in) = (0, 0, 0, 0);
        }
    }
    fn halving(&mut self, rng: &mut Rng) {
        self.size = 2 + rng.below(2) as u32;
        // The others become clean without the one that is away.
        (self.osds, self.min_size) = (self.size + 1, self.size - 1);
        (self.halves, self.long_away, self.down_ms) = (true, pick(rng, &[3_000, 6_000]), 5_000);
        (self.pg_num, self.objects, self.log_entries) = (4 << rng.below(2), 20 + rng.below(20) as u32, pick(rng, &[20, 200]) as u32);
        // Members die all the time that there is.
        (self.think_ms, self.depth, self.ops) = (pick(rng, &[600, 1_500]), 3, 1200);
    }
    fn brimming(&mut self, rng: &mut Rng) {
        (self.osds, self.store) = (2 + rng.below(3) as u32, StoreKind::Block);
        (self.size, self.min_size) = (2, 1);
        (self.pg_num, self.log_entries) = (1 << rng.below(3), pick(rng, &[20, 200]) as u32);
        (self.small_bytes, self.large, self.large_bytes) = (pick(rng, &[8 << 20, 12 << 20]), 60, pick(rng, &[150_000, 400_000]));
        (self.objects, self.deletes) = (30 + rng.below(40) as u32, 4);
        (self.kill_osd, self.down_ms, self.power_cuts) = (pick(rng, &[0, 10_000, 30_000]), pick(rng, &[1_000, 20_000]), 50);
        (self.clients, self.think_ms, self.depth, self.ops) = (2, pick(rng, &[300, 1_000]), 1, 600);
        self.brim = rng.chance(1, 2);
        if self.brim {
            // A member that can't take what its primary has done ends: of one copy the primary refuses it.
            (self.osds, self.size, self.min_size, self.small_bytes) = (2, 1, 1, 4 << 20);
            (self.objects, self.large, self.large_bytes, self.deletes) = (100 + rng.below(60) as u32, 80, 400_000, 2);
            if rng.chance(1, 2) {
                // All of one length, a little more than half of what a store takes at a time.
                (self.osds, self.small_bytes, self.ops) = (1, 3 << 20, 1200);
                (self.large_least, self.large_bytes) = (33_000, 45_000);
            }
        }
    }
    fn trailing(&mut self, rng: &mut Rng) {
        self.size = if rng.chance(1, 4) { 1 } else { 2 };
        (self.osds, self.min_size) = (self.size + 1 + rng.below(2) as u32, 1);
        (self.pg_num, self.objects, self.log_entries) = (1 << rng.below(3), 6 + rng.below(10) as u32, pick(rng, &[20, 2000]) as u32);
        (self.gap, self.maps_kept) = (10_000, pick(rng, &[1, 5]));
        (self.kill_osd, self.down_ms) = (pick(rng, &[0, 30_000]), 1_000);
        // A session that is cut has everything asked anew.
        (self.cut, self.make_snap) = (pick(rng, &[0, 0, 3_000]), pick(rng, &[0, 10_000]));
        (self.think_ms, self.depth, self.ops) = (pick(rng, &[500, 2_000]), 3, 600);
    }
}

fn pick(rng: &mut Rng, from: &[u64]) -> u64 {
    from[rng.below(from.len() as u64) as usize]
}
