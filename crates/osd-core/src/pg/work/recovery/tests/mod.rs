//! Random objects, cut by one store and applied by another.

use super::apply::{ApplyStop, Incoming, agree, leftovers, temp_name};
use crate::pg::backend::copies::cut::{Chunk, answer_pull, cut};
use crate::pg::backend::copies::subset::{Neighbours, pull_of, push_of};
use base::Rng;
use denc::Denc;
use messages::{ObjectRecoveryInfo, ObjectRecoveryProgress, PullOp, PushOp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use store::{ObjectStore, OmapFrom};
use store_mem::MemStore;
use types::object_info::{OI_ATTR, SS_ATTR, oi_flag};
use types::{
    ByteStr, Bytes, CEPH_NOSNAP, CollId, EVersion, GHObject, HObject, IntervalSet, ObjectCleanRegions, ObjectInfo, PgId, PgMissingItem,
    SnapSet, SpgId, Transaction,
};

mod members;

const COLL: CollId = CollId::Pg(SpgId { pgid: PgId { pool: 1, seed: 0 }, shard: -1 });

fn store() -> MemStore {
    let mut store = MemStore::new(1 << 30);
    let mut txn = Transaction::new(COLL);
    txn.create_collection(COLL, 0);
    store.submit(txn, None, 0).unwrap();
    store
}

fn head() -> HObject {
    HObject { oid: "thing".into(), pool: 1, hash: 0x1234, snap: CEPH_NOSNAP, ..HObject::min() }
}

/// All that can be seen of an object.
type Seen = (u64, Bytes, Vec<(ByteStr, Bytes)>, Bytes, Vec<(ByteStr, Bytes)>);

fn seen(store: &MemStore, obj: &HObject) -> Option<Seen> {
    let obj = GHObject::plain(obj.clone());
    let size = store.stat(COLL, &obj).ok()?.size;
    let mut omap = Vec::new();
    store
        .omap_scan(COLL, &obj, OmapFrom::Start, &mut |key, value| {
            omap.push((key.clone(), value.clone()));
            ControlFlow::Continue(())
        })
        .unwrap();
    let data = store.read(COLL, &obj, 0, u64::MAX).unwrap().flat();
    Some((size, data, store.attrs(COLL, &obj).unwrap(), store.omap_header(COLL, &obj).unwrap(), omap))
}

/// An object with its clones on the member that has everything, changed as clients would change it.
struct Author {
    name: HObject,
    store: MemStore,
    rng: Rng,
    set: SnapSet,
    size: u64,
    version: u64,
    /// What changed since it was asked last.
    regions: ObjectCleanRegions,
    omap: bool,
    has_omap: bool,
}

impl Author {
    fn new(seed: u64, omap: bool) -> Self {
        Self::named(head(), seed, omap)
    }
    fn named(name: HObject, seed: u64, omap: bool) -> Self {
        let mut author = Self {
            name,
            store: store(),
            rng: Rng::new(seed),
            set: SnapSet::default(),
            size: 0,
            version: 0,
            regions: ObjectCleanRegions::fully_dirty(),
            omap,
            has_omap: false,
        };
        author.change(3);
        author
    }
    fn version_of(&self) -> EVersion {
        EVersion::new(3, self.version)
    }
    fn bytes(&mut self, len: u64) -> Bytes {
        let mut out = vec![0; len as usize];
        self.rng.fill(&mut out);
        out.into()
    }
    fn record(&self, name: &HObject, size: u64) -> (ByteStr, Bytes) {
        let flags = if self.has_omap { oi_flag::OMAP } else { 0 };
        let info = ObjectInfo { version: self.version_of(), size, flags, ..ObjectInfo::new(name.clone()) };
        (OI_ATTR.into(), info.to_bytes(0))
    }
    /// The head changes in this many places.
    fn change(&mut self, places: u64) {
        self.version += 1;
        let obj = GHObject::plain(self.name.clone());
        let mut txn = Transaction::new(COLL);
        txn.touch(&obj);
        for _ in 0..places {
            let (at, len) = (self.rng.below(300_000), 1 + self.rng.below(20_000));
            match self.rng.below(6) {
                0..3 => {
                    let data = self.bytes(len);
                    txn.write(&obj, at, data, 0);
                    self.touched(at, len);
                    self.size = self.size.max(at + len);
                }
                3 => {
                    let len = len.min(self.size.saturating_sub(at));
                    txn.zero(&obj, at, len);
                    self.touched(at, len);
                }
                4 if at < self.size => {
                    txn.truncate(&obj, at);
                    self.touched(at, u64::MAX - at);
                    self.size = at;
                }
                _ => {
                    let value = self.bytes(len % 50);
                    txn.set_attr(&obj, format!("_a{}", at % 5), value);
                }
            }
        }
        if self.omap && self.rng.chance(1, 2) {
            self.regions.mark_omap_dirty();
            let value = self.bytes(20);
            let n = if self.rng.chance(1, 20) { 10_000 } else { self.rng.below(50) };
            let from = self.rng.below(100);
            txn.omap_set_keys(&obj, (from..from + n).map(|i| (format!("key {i}").into(), value.clone())).collect());
            txn.omap_rm_keys(&obj, vec!["key 3".into(), "key 30".into()]);
            txn.omap_set_header(&obj, value);
            self.has_omap = true;
        }
        // As a copy over it by a stock primary, whose entry doesn't say so.
        if self.has_omap && self.size % 4 == 0 {
            txn.omap_clear(&obj);
            self.has_omap = false;
        }
        let snapset = (SS_ATTR.into(), self.set.to_bytes(0));
        txn.set_attrs(&obj, vec![self.record(&self.name, self.size), snapset]);
        self.store.submit(txn, None, 0).unwrap();
    }
    fn touched(&mut self, at: u64, len: u64) {
        self.regions.mark_data_dirty(at, len);
        if let Some(newest) = self.set.clones.last() {
            self.set.clone_overlap.get_mut(newest).unwrap().erase(at, len);
        }
    }
    /// The head as it is now is kept for a snapshot.
    fn clone_head(&mut self, snap: u64) {
        self.version += 1;
        let (obj, clone) = (GHObject::plain(self.name.clone()), GHObject::plain(self.name.at_snap(snap)));
        let mut txn = Transaction::new(COLL);
        txn.clone_object(&obj, &clone);
        txn.rm_attr(&clone, SS_ATTR);
        txn.set_attrs(&clone, vec![self.record(&clone.hobj, self.size)]);
        self.set.seq = snap;
        self.set.clones.push(snap);
        self.set.clone_size.insert(snap, self.size);
        self.set.clone_overlap.insert(snap, IntervalSet::of(0, self.size));
        self.set.clone_snaps.insert(snap, vec![snap]);
        self.store.submit(txn, None, 0).unwrap();
        self.change(1);
    }
    fn info(&self, name: &HObject) -> ObjectInfo {
        let record = self.store.attr(COLL, &GHObject::plain(name.clone()), OI_ATTR.as_bytes()).unwrap().unwrap();
        ObjectInfo::from_bytes(&record).unwrap()
    }
    fn names(&self) -> Vec<HObject> {
        self.set.clones.iter().map(|snap| self.name.at_snap(*snap)).chain([self.name.clone()]).collect()
    }
}

/// A member that lacks objects.
struct Lacking {
    store: MemStore,
    incoming: Incoming,
    has: BTreeSet<HObject>,
    bytes: u64,
    keys: u64,
    pushes: u64,
}

impl Lacking {
    fn new() -> Self {
        Self { store: store(), incoming: Incoming::default(), has: BTreeSet::new(), bytes: 0, keys: 0, pushes: 0 }
    }
    /// True if the object is whole.
    fn take(&mut self, info: &ObjectRecoveryInfo, push: &PushOp) -> Result<bool, ApplyStop> {
        let has = &self.has;
        let applied = self.incoming.apply(&self.store, COLL, info, push, &|name| has.contains(name))?;
        self.store.submit(applied.txn.clone(), None, 0).unwrap();
        self.incoming.took(&applied);
        (self.bytes, self.keys, self.pushes) = (self.bytes + applied.bytes, self.keys + applied.keys, self.pushes + 1);
        if let Some(index) = &applied.index {
            assert_eq!((&index.clone, &index.new), (&info.soid, &vec![info.soid.snap]));
        }
        if applied.complete {
            self.has.insert(info.soid.clone());
        }
        Ok(applied.complete)
    }
    fn end_interval(&mut self) {
        let mut txn = Transaction::new(COLL);
        self.incoming.end_interval(COLL, &mut txn);
        self.store.submit(txn, None, 0).unwrap();
        assert!(leftovers(&self.store, COLL, 10).unwrap().is_empty());
    }
    /// What it lacks of an object that it has at `have`.
    fn item(&self, author: &Author, name: &HObject, have: u64, regions: ObjectCleanRegions) -> PgMissingItem {
        PgMissingItem {
            need: author.info(name).version,
            have: EVersion::new(u32::from(have > 0) * 3, have),
            delete: false,
            clean_regions: regions,
        }
    }
    /// Pushed or pulled; cut off after a push now and then and begun anew.
    fn recover(&mut self, author: &Author, name: &HObject, item: &PgMissingItem, chunk: &Chunk, rng: &mut Rng) {
        let before = seen(&self.store, name);
        let pulls = rng.chance(1, 2);
        loop {
            let interrupted = if rng.chance(1, 2) { rng.below(4) } else { u64::MAX };
            let (mut info, mut progress) = {
                let has = |name: &HObject| self.has.contains(name);
                let near = Neighbours { snapset: &author.set, has: &has, ranges_max: 10 };
                if pulls { pull_of(name, item, (!name.is_head()).then_some(&near)) } else { push_of(&author.info(name), item, Some(&near)) }
            };
            for n in 0_u64.. {
                if n == interrupted {
                    self.end_interval();
                    assert!(seen(&self.store, name) == before, "what is not complete is not seen");
                    break;
                }
                let push = if pulls {
                    let pull = PullOp { soid: name.clone(), recovery_info: info.clone(), recovery_progress: progress.clone() };
                    let (push, stop) = answer_pull(&author.store, COLL, &pull, chunk).unwrap();
                    assert_eq!(stop, None);
                    agree(&mut info, &push);
                    push
                } else {
                    cut(&author.store, COLL, &info, &progress, chunk).unwrap()
                };
                let sent = push.data.len() + push.omap_entries.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
                assert!(sent as u64 <= chunk.bytes_max || push.omap_entries.len() == 1, "a push of {sent} bytes");
                // As it comes over the wire.
                let push = PushOp::from_bytes(&push.to_bytes(0)).unwrap();
                progress = push.after_progress.clone();
                if self.take(&info, &push).unwrap() {
                    assert!(self.incoming.is_empty() && !self.store.exists(COLL, &temp_name(COLL, name)).unwrap());
                    return;
                }
                assert!(seen(&self.store, name) == before, "an object of which parts came is as it was");
            }
        }
    }
}

fn chunk(rng: &mut Rng) -> Chunk {
    match rng.below(3) {
        0 => Chunk { bytes_max: 8 << 20, omap_entries_max: 8096 },
        1 => Chunk { bytes_max: 5000 + rng.below(100_000), omap_entries_max: 7 + rng.below(5000) },
        _ => Chunk { bytes_max: 60_000, omap_entries_max: 0 },
    }
}

#[test]
fn random_objects_arrive_whole_and_equal() {
    for seed in 0..80 {
        let mut author = Author::new(seed, true);
        let mut rng = Rng::new(seed ^ 0xabcd);
        for snap in [2, 5, 9] {
            if rng.chance(1, 2) {
                author.clone_head(snap);
                let places = rng.below(6);
                author.change(places);
            }
        }
        let mut lacking = Lacking::new();
        let mut names = author.names();
        // The head first, as a puller needs it; then clones in any order.
        let first = names.pop().unwrap();
        for name in std::iter::once(first).chain(names.iter().cloned()) {
            let item = lacking.item(&author, &name, 0, ObjectCleanRegions::fully_dirty());
            let chunk = chunk(&mut rng);
            lacking.recover(&author, &name, &item, &chunk, &mut rng);
            assert!(seen(&lacking.store, &name) == seen(&author.store, &name), "seed {seed}: {name}");
        }
        // Then the head changes, and only that goes.
        for _ in 0..2 {
            let have = author.version;
            author.regions = ObjectCleanRegions::default();
            for _ in 0..1 + rng.below(3) {
                author.change(2);
            }
            let item = lacking.item(&author, &head(), have, author.regions.clone());
            let chunk = chunk(&mut rng);
            lacking.has.remove(&head());
            lacking.recover(&author, &head(), &item, &chunk, &mut rng);
            assert!(seen(&lacking.store, &head()) == seen(&author.store, &head()), "seed {seed}: the changed head");
        }
    }
}

/// An object of 4 MiB here and there.
fn four_mib(author: &mut Author) -> Lacking {
    let mut txn = Transaction::new(COLL);
    let data = author.bytes(4 << 20);
    txn.write(&GHObject::plain(head()), 0, data, 0);
    author.store.submit(txn, None, 0).unwrap();
    author.size = 4 << 20;
    author.change(0);
    let mut lacking = Lacking::new();
    let item = lacking.item(author, &head(), 0, ObjectCleanRegions::fully_dirty());
    lacking.recover(author, &head(), &item, &Chunk { bytes_max: 8 << 20, omap_entries_max: 8096 }, &mut Rng::new(1));
    (lacking.bytes, lacking.keys, lacking.pushes) = (0, 0, 0);
    lacking
}

#[test]
fn what_changed_is_what_is_sent() {
    let mut author = Author::new(1, false);
    let mut lacking = four_mib(&mut author);
    let have = author.version;
    author.regions = ObjectCleanRegions::default();
    let mut txn = Transaction::new(COLL);
    let data = author.bytes(16 << 10);
    txn.write(&GHObject::plain(head()), 1 << 20, data, 0);
    author.touched(1 << 20, 16 << 10);
    author.store.submit(txn, None, 0).unwrap();
    author.change(0);
    let item = lacking.item(&author, &head(), have, author.regions.clone());
    let (info, progress) =
        push_of(&author.info(&head()), &item, Some(&Neighbours { snapset: &author.set, has: &|_| false, ranges_max: 10 }));
    let push = cut(&author.store, COLL, &info, &progress, &Chunk { bytes_max: 8 << 20, omap_entries_max: 8096 }).unwrap();
    assert!(push.to_bytes(0).len() < (16 << 10) + 2000, "{} bytes on the wire", push.to_bytes(0).len());
    assert!(lacking.take(&info, &push).unwrap());
    assert_eq!((lacking.bytes, lacking.pushes), (16 << 10, 1));
    assert!(seen(&lacking.store, &head()) == seen(&author.store, &head()));
}

#[test]
fn a_clone_that_shares_with_the_head_of_it_is_hardly_sent() {
    let mut author = Author::new(1, false);
    let mut lacking = four_mib(&mut author);
    author.clone_head(4);
    author.clone_head(6);
    for snap in [4, 6] {
        let name = head().at_snap(snap);
        let item = lacking.item(&author, &name, 0, ObjectCleanRegions::fully_dirty());
        let before = lacking.bytes;
        lacking.recover(&author, &name, &item, &Chunk { bytes_max: 8 << 20, omap_entries_max: 8096 }, &mut Rng::new(3));
        assert!(seen(&lacking.store, &name) == seen(&author.store, &name));
        if snap == 6 {
            assert!(lacking.bytes - before < 100_000, "{} bytes", lacking.bytes - before);
        }
    }
}

#[test]
fn a_peers_mistakes_are_its_errors() {
    let mut author = Author::new(7, true);
    author.clone_head(4);
    let near_has = |_: &HObject| false;
    let item =
        PgMissingItem { need: author.info(&head()).version, clean_regions: ObjectCleanRegions::fully_dirty(), ..PgMissingItem::default() };
    let (info, progress) =
        push_of(&author.info(&head()), &item, Some(&Neighbours { snapset: &author.set, has: &near_has, ranges_max: 10 }));
    let small = Chunk { bytes_max: 3000, omap_entries_max: 5 };
    let first = cut(&author.store, COLL, &info, &progress, &small).unwrap();
    let second = cut(&author.store, COLL, &info, &first.after_progress, &small).unwrap();
    let whole = cut(&author.store, COLL, &info, &progress, &Chunk { bytes_max: 8 << 20, omap_entries_max: 0 }).unwrap();
    type Spoil<'a> = (&'a str, &'a dyn Fn(&mut ObjectRecoveryInfo, &mut PushOp));
    let spoils: [Spoil<'_>; 9] = [
        ("another object", &|_, push| push.soid.oid = "other".into()),
        ("bytes", &|_, push| push.data = Bytes::from_static(b"x")),
        ("no record", &|_, push| push.attrs = BTreeMap::new()),
        ("a broken record", &|_, push| drop(push.attrs.insert(OI_ATTR.into(), Bytes::from_static(b"\x11\x08")))),
        ("another version", &|_, push| push.version.version += 1),
        ("a size beyond all", &|info, _| info.size = u64::MAX),
        ("ranges behind the end", &|info, _| info.copy_subset.insert(info.size, 5)),
        ("an earlier one that is not here", &|info, _| info.object_exist = true),
        ("a clone that is not here", &|info, _| drop(info.clone_subset.insert(head().at_snap(4), IntervalSet::of(0, 1)))),
    ];
    let mut lacking = Lacking::new();
    for (what, spoil) in spoils {
        let (mut info, mut push) = (info.clone(), whole.clone());
        spoil(&mut info, &mut push);
        assert!(matches!(lacking.take(&info, &push), Err(ApplyStop::Bad(..))), "{what}");
    }
    assert!(matches!(lacking.take(&info, &second), Err(ApplyStop::Bad(..))), "the second without the first");
    assert_eq!(lacking.take(&info, &first), Ok(false));
    let mut skipped = second.clone();
    skipped.before_progress.data_recovered_to += 1;
    skipped.after_progress = ObjectRecoveryProgress { data_recovered_to: u64::MAX, ..skipped.after_progress };
    assert!(matches!(lacking.take(&info, &skipped), Err(ApplyStop::Bad(..))), "one that does not follow");
    assert_eq!(lacking.take(&info, &second).map(|_| ()), Ok(()));
    assert!(!leftovers(&lacking.store, COLL, 10).unwrap().is_empty());
    lacking.end_interval();
}
