//! For tests: members as recovery and backfill see them, each with a store in memory, joined by queues instead of links.
//!
//! Which of them goes on next is chance's. Which objects there are, and what each lacks, is each test's to say.

use crate::persist::{SNAPMAPPER, own_object};
use crate::pg::backend::layout::Layout;
use crate::pg::reconcile::missing::Missing;
use crate::pg::work::recovery::host::{Change, Host, Limits, Part};
use crate::pg::work::recovery::objects::Recovery;
use crate::work::{For, Work};
use base::{Rng, Stamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::ObjectStore;
use store_mem::MemStore;
use types::{CollId, EVersion, HObject, ObjectCleanRegions, PgId, PgInfo, PgLogEntry, PgMissingItem, PgShard, PgStat, SpgId, Transaction};

pub const PG: SpgId = SpgId { pgid: PgId { pool: 1, seed: 0 }, shard: -1 };
pub const COLL: CollId = CollId::Pg(PG);

/// See the module.
pub struct Side {
    pub layout: Layout,
    pub whoami: PgShard,
    pub is_primary: bool,
    pub store: MemStore,
    pub missing: Missing,
    pub info: PgInfo,
    /// The others, as this one knows them.
    pub peers: BTreeMap<PgShard, (PgInfo, Missing)>,
    pub targets: BTreeSet<PgShard>,
    /// Heads that an admitted write is on its way to.
    pub busy: BTreeSet<HObject>,
    pub out: VecDeque<(PgShard, Part)>,
    /// Members that were asked for an object in this interval.
    pub pulled: BTreeMap<HObject, BTreeSet<PgShard>>,
    pub limits: Limits,
    /// One change of so many finds no room.
    pub full: u64,
    pub rng: Rng,
    pub complaints: Vec<String>,
    pub nearer: Vec<HObject>,
}

impl Side {
    /// The first leads. A store without objects.
    pub fn new(layout: Layout, place: usize, store: MemStore, limits: Limits, full: u64, seed: u64) -> Self {
        Self {
            layout,
            whoami: layout.member(place as i32, place),
            is_primary: place == 0,
            store,
            missing: Missing::default(),
            info: PgInfo::new(PG),
            peers: BTreeMap::new(),
            targets: BTreeSet::new(),
            busy: BTreeSet::new(),
            out: VecDeque::new(),
            pulled: BTreeMap::new(),
            limits,
            full,
            rng: Rng::new(seed),
            complaints: Vec::new(),
            nearer: Vec::new(),
        }
    }
}

impl Host for Side {
    fn store(&self) -> &dyn ObjectStore {
        &self.store
    }
    fn coll(&self) -> CollId {
        COLL
    }
    fn layout(&self) -> Layout {
        self.layout
    }
    fn is_primary(&self) -> bool {
        self.is_primary
    }
    fn limits(&self) -> Limits {
        self.limits
    }
    fn now(&self) -> Stamp {
        Stamp(0)
    }
    fn missing(&self) -> &Missing {
        &self.missing
    }
    fn members(&self) -> Vec<PgShard> {
        self.peers.keys().copied().collect()
    }
    fn known(&self) -> Vec<PgShard> {
        self.members()
    }
    fn info_of(&self, member: PgShard) -> Option<&PgInfo> {
        self.peers.get(&member).map(|(info, _)| info)
    }
    fn missing_of(&self, member: PgShard) -> Option<&Missing> {
        self.peers.get(&member).map(|(_, missing)| missing)
    }
    fn send(&mut self, to: PgShard, part: Part) {
        if let Part::Pull(pull) = &part {
            self.pulled.entry(pull.soid.clone()).or_default().insert(to);
        }
        self.out.push_back((to, part));
    }
    fn change(&mut self, change: Change) -> bool {
        if self.full > 0 && self.rng.chance(1, self.full) {
            return false;
        }
        let mut txn = change.txn;
        if let Some(index) = change.index {
            txn.append(crate::pg::snaps::note(&[index]));
        }
        self.store.submit(txn, None, 0).unwrap();
        if let Some((obj, version)) = change.got {
            let was_missing = self.missing.got(&obj, version);
            assert!(was_missing || obj > self.info.last_backfill, "{obj} was missing");
        }
        self.out.extend(change.then);
        true
    }
    fn member_got(&mut self, member: PgShard, obj: &HObject, version: EVersion) {
        let was_missing = self.peers.get_mut(&member).unwrap().1.got(obj, version);
        assert!(was_missing || self.targets.contains(&member), "{obj} was missing on {member}");
    }
    fn is_nearer(&mut self, obj: &HObject) {
        self.nearer.push(obj.clone());
    }
    fn gives_up_own(&mut self, obj: &HObject, need: EVersion) -> bool {
        let may = self.peers.values().any(|(_, missing)| !missing.contains(obj)) && !self.missing.contains(obj);
        if may {
            let item = PgMissingItem { need, clean_regions: ObjectCleanRegions::fully_dirty(), ..PgMissingItem::default() };
            self.missing.insert(obj, &item);
        }
        may
    }
    fn complain(&mut self, text: String) {
        self.complaints.push(text);
    }
    fn targets(&self) -> Vec<PgShard> {
        self.targets.iter().copied().collect()
    }
    fn info(&self) -> &PgInfo {
        &self.info
    }
    fn is_free(&self, head: &HObject) -> bool {
        !self.busy.contains(head)
    }
    fn member_lacks(&mut self, member: PgShard, obj: &HObject, need: EVersion) {
        let item = PgMissingItem { need, clean_regions: ObjectCleanRegions::fully_dirty(), ..PgMissingItem::default() };
        self.peers.get_mut(&member).unwrap().1.insert(obj, &item);
    }
    fn target_reached(&mut self, member: PgShard, to: HObject, stats: PgStat) {
        let info = &mut self.peers.get_mut(&member).unwrap().0;
        (info.last_backfill, info.stats) = (to, stats);
    }
    fn target_filled(&mut self, member: PgShard) {
        self.targets.remove(&member);
    }
    fn is_too_full(&self) -> bool {
        false
    }
    fn revoke(&mut self) -> bool {
        false
    }
    fn keep_reached(&mut self, to: HObject, stats: PgStat, then: Option<(PgShard, Part)>) -> bool {
        (self.info.last_backfill, self.info.stats) = (to, stats);
        self.out.extend(then);
        true
    }
}

/// A message to a member: a part, or a write with the entry of the log, whose transaction is empty for an object that is not there yet.
pub enum Sent {
    Part(Part),
    Write(Box<PgLogEntry>, Transaction),
}

/// A primary, the first of them, and its members.
pub struct Sides {
    pub sides: Vec<(Recovery, Side)>,
    queues: BTreeMap<(usize, usize), VecDeque<Sent>>,
    /// Objects that were under way together, at most.
    pub most: usize,
    pub rng: Rng,
}

impl Sides {
    pub fn new(sides: Vec<(Recovery, Side)>, rng: Rng) -> Self {
        Self { sides, queues: BTreeMap::new(), most: 0, rng }
    }
    /// Behind all that it has said before.
    pub fn send(&mut self, from: usize, to: usize, sent: Sent) {
        self.take_out();
        self.queues.entry((from, to)).or_default().push_back(sent);
    }
    /// What members want to say is on its way.
    fn take_out(&mut self) {
        for from in 0..self.sides.len() {
            for (to, part) in std::mem::take(&mut self.sides[from].1.out) {
                self.queues.entry((from, to.osd as usize)).or_default().push_back(Sent::Part(part));
            }
        }
    }
    /// The interval is over: messages are lost, and objects that were on their way are taken back.
    pub fn end_interval(&mut self) {
        self.queues.clear();
        for (recovery, side) in &mut self.sides {
            let txn = recovery.end_interval(side);
            side.store.submit(txn, None, 0).unwrap();
            side.out.clear();
        }
    }
    /// One thing happens; false if nothing can.
    pub fn step(&mut self) -> bool {
        self.take_out();
        let queues: Vec<(usize, usize)> = self.queues.iter().filter(|(_, q)| !q.is_empty()).map(|(at, _)| *at).collect();
        let rests = |i: &usize| matches!(self.sides[*i].0.work(), Work::Idle | Work::Waiting(For::Peer));
        let busy: Vec<usize> = (0..self.sides.len()).filter(|i| !rests(i)).collect();
        if queues.is_empty() && busy.is_empty() {
            return false;
        }
        let at = self.rng.below((queues.len() + busy.len()) as u64) as usize;
        let Some((from, to)) = queues.get(at).copied() else {
            let (recovery, side) = &mut self.sides[busy[at - queues.len()]];
            recovery.work_mut().tick();
            recovery.turn(side);
            self.most = self.most.max(recovery.under_way());
            return true;
        };
        let sent = self.queues.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("looked at above");
        let from = self.sides[from].1.whoami;
        let (recovery, side) = &mut self.sides[to];
        match sent {
            Sent::Part(part) => recovery.handle(side, from, part),
            Sent::Write(entry, txn) => {
                side.info.last_update = entry.version;
                let txn = recovery.after_removals(COLL, std::slice::from_ref(&*entry), txn);
                side.store.submit(txn, None, 0).unwrap();
            }
        }
        true
    }
    /// Until nothing more happens by itself.
    pub fn rest(&mut self) {
        for steps in 0.. {
            assert!(steps < 200_000, "messages without end");
            if !self.step() {
                return;
            }
        }
    }
}

/// A store with a collection for the group and one for the OSD's own objects.
pub fn store() -> MemStore {
    let mut store = MemStore::new(1 << 30);
    let mut txn = Transaction::new(COLL);
    txn.create_collection(COLL, 0);
    store.submit(txn, None, 0).unwrap();
    let mut own = Transaction::new(CollId::Meta);
    own.create_collection(CollId::Meta, 0);
    own.create(&own_object(SNAPMAPPER, 0));
    store.submit(own, None, 0).unwrap();
    store
}
