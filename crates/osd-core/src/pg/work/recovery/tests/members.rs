//! A primary and its members, joined by queues: what each lacks at the start is drawn by chance, at rest none lacks anything that can be had.

use super::*;
use crate::pg::backend::layout::Layout;
use crate::pg::backend::positions::Positions;
use crate::pg::reconcile::missing::Missing;
use crate::pg::work::recovery::host::{Limits, Pace, Part, Slots};
use crate::pg::work::recovery::objects::Recovery;
use crate::pg::work::side::{self, Side, Sides};
use std::rc::Rc;
use types::{PgInfo, PgShard};

const SLOTS_MAX: u64 = 4;
/// Each kind of back end, with the members of its smallest world in which one may lack an object.
const KINDS: [(Layout, usize); 2] = [(Layout::Copies, 3), (Layout::Positions(Positions { k: 2, n: 4 }), 4)];

/// Puts an object as one store has it into another one.
fn copy(from: &MemStore, to: &mut MemStore, name: &HObject) {
    let obj = GHObject::plain(name.clone());
    let mut txn = Transaction::new(COLL);
    txn.remove(&obj);
    if let Some((size, data, attrs, header, omap)) = seen(from, name) {
        txn.write(&obj, 0, data, 0);
        txn.touch(&obj);
        txn.truncate(&obj, size);
        txn.set_attrs(&obj, attrs);
        if !header.is_empty() {
            txn.omap_set_header(&obj, header);
        }
        txn.omap_set_keys(&obj, omap);
    }
    to.submit(txn, None, 0).unwrap();
}

struct World {
    members: Sides,
    truth: MemStore,
    names: Vec<HObject>,
    slots: Vec<Rc<Slots>>,
}

impl World {
    fn of(layout: Layout, seed: u64, members: usize) -> Self {
        let mut rng = Rng::new(seed);
        let slots: Vec<_> = (0..members)
            .map(|_| {
                let slots = Slots::new(1 + rng.below(SLOTS_MAX) as usize, Pace { slots: 1, share: 0.5 });
                // Clients slow recovery down and stop nothing.
                if rng.chance(1, 4) {
                    slots.client_asks(base::Stamp(0));
                }
                Rc::new(slots)
            })
            .collect();
        let full = if rng.chance(1, 3) { 4 } else { 0 };
        let limits = Limits { chunk: chunk(&mut rng), starts_max: 1 + rng.below(2) as usize, ranges_max: 10, scan_max: 10, sleep: None };
        let sides = (0..members)
            .map(|i| {
                let side = Side::new(layout, i, side::store(), limits, full, seed + i as u64);
                (Recovery::new(slots[i].clone()), side)
            })
            .collect();
        Self { members: Sides::new(sides, rng), truth: store(), names: Vec::new(), slots }
    }

    /// An object with a history, of which each member has seen as much as chance has it.
    fn add(&mut self, n: u64) {
        let name = HObject { oid: format!("thing {n}").into(), hash: self.members.rng.u64() as u32, ..head() };
        let mut author = Author::named(name.clone(), self.members.rng.u64(), true);
        if self.members.rng.chance(1, 3) {
            author.clone_head(4);
        }
        let old = (author.version, author.names());
        for (_, side) in &mut self.members.sides {
            old.1.iter().for_each(|name| copy(&author.store, &mut side.store, name));
        }
        author.regions = ObjectCleanRegions::default();
        if self.members.rng.chance(1, 3) {
            author.clone_head(7);
        }
        author.change(2);
        let deleted = self.members.rng.chance(1, 5) && author.set.clones.is_empty();
        // Of ten objects one is on no member.
        let nowhere = self.members.rng.chance(1, 10);
        for obj in author.names() {
            let is_new = !old.1.contains(&obj);
            let is_changed = is_new || obj.is_head();
            let need = if deleted { EVersion::new(3, author.version + 1) } else { author.info(&obj).version };
            if !deleted {
                copy(&author.store, &mut self.truth, &obj);
            }
            self.names.push(obj.clone());
            for (_, side) in &mut self.members.sides {
                let has = is_changed && !nowhere && self.members.rng.chance(1, 2);
                let loses = !is_new && self.members.rng.chance(1, 4) && (nowhere || !is_changed);
                let mut item =
                    PgMissingItem { need, delete: deleted, clean_regions: ObjectCleanRegions::fully_dirty(), ..PgMissingItem::default() };
                if deleted {
                    item.have = EVersion::new(3, old.0);
                    if has {
                        let mut txn = Transaction::new(COLL);
                        txn.remove(&GHObject::plain(obj.clone()));
                        side.store.submit(txn, None, 0).unwrap();
                        continue;
                    }
                } else if has || (!is_changed && !loses) {
                    copy(&author.store, &mut side.store, &obj);
                    continue;
                } else if loses || is_new {
                    let mut txn = Transaction::new(COLL);
                    txn.remove(&GHObject::plain(obj.clone()));
                    side.store.submit(txn, None, 0).unwrap();
                } else {
                    item.have = EVersion::new(3, old.0);
                    item.clean_regions = author.regions.clone();
                }
                side.missing.insert(&obj, &item);
            }
        }
    }

    /// A new interval: messages are lost, and the primary learns what each member lacks.
    fn interval(&mut self) {
        let known: Vec<Missing> = self.members.sides.iter().map(|(_, side)| side.missing.clone()).collect();
        self.members.end_interval();
        for (i, (recovery, side)) in self.members.sides.iter_mut().enumerate() {
            side.pulled.clear();
            assert!(leftovers(&side.store, COLL, 10).unwrap().is_empty());
            let info = PgInfo { last_update: EVersion::new(9, 9), last_backfill: HObject::max(), ..PgInfo::default() };
            let others = (0..known.len()).filter(|n| *n != i);
            side.peers = others.map(|n| (side.layout.member(n as i32, n), (info.clone(), known[n].clone()))).collect();
            if side.is_primary {
                recovery.begin(side);
            }
        }
    }

    fn check(&self, seed: u64) {
        let (primary, side) = &self.members.sides[0];
        assert!(self.slots.iter().all(|slots| slots.has_room()) && primary.under_way() == 0, "seed {seed}");
        let unfound: BTreeSet<&HObject> = primary.unfound().collect();
        for (name, from) in &side.pulled {
            assert!(side.layout.is_recoverable(from.iter().copied()), "seed {seed}: {name} came from {from:?} alone");
        }
        for name in &self.names {
            if unfound.contains(name) {
                assert!(side.missing.contains(name), "seed {seed}: {name} is here");
                let having = self.members.sides[1..].iter().filter(|(_, side)| !side.missing.contains(name)).map(|(_, side)| side.whoami);
                // A clone is not found if its head is not.
                assert!(!name.is_head() || !side.layout.is_recoverable(having), "seed {seed}: {name} can be had");
                continue;
            }
            for (_, side) in &self.members.sides {
                assert!(!side.missing.contains(name), "seed {seed}: osd.{} lacks {name}", side.whoami);
                assert!(seen(&side.store, name) == seen(&self.truth, name), "seed {seed}: {name} on osd.{}", side.whoami);
            }
        }
        for (member, (_, missing)) in &side.peers {
            assert_eq!(missing, &self.members.sides[member.osd as usize].1.missing, "seed {seed}: what the primary knows");
        }
        for (_, side) in &self.members.sides {
            assert_eq!(side.complaints, [""; 0], "seed {seed}");
        }
        let lacking = primary.lacking(side);
        assert_eq!((lacking.on_primary, lacking.unfound as usize), (side.missing.len() as u64, unfound.len()));
    }
}

#[test]
fn members_have_everything_at_rest() {
    let (unfound, objects) = at_rest(Layout::Copies, 2);
    assert!(unfound > 10 && unfound < objects / 4, "{unfound} of {objects} are unfound");
    // An object that one position has is not found.
    let (more, of) = at_rest(Layout::Positions(Positions { k: 2, n: 5 }), 3);
    assert!(more * objects > unfound * of && more < of / 2, "{more} of {of} are unfound");
}
/// Objects that are not found in a hundred worlds of so many members and more, and all objects.
fn at_rest(layout: Layout, members: usize) -> (usize, usize) {
    let (mut unfound, mut objects, mut most) = (0, 0, 0);
    for seed in 0..100 {
        let mut world = World::of(layout, seed, members + seed as usize % 3);
        (0..1 + seed % 12).for_each(|n| world.add(n));
        world.interval();
        // Some intervals end in the middle.
        for _ in 0..seed % 4 {
            let steps = world.members.rng.below(60);
            for _ in 0..steps {
                world.members.step();
            }
            world.interval();
        }
        world.members.rest();
        world.check(seed);
        unfound += world.members.sides[0].0.unfound().len();
        objects += world.names.len();
        most = most.max(world.members.most);
    }
    assert_eq!(most, SLOTS_MAX as usize, "objects under way together");
    (unfound, objects)
}

#[test]
fn what_is_recovered_is_counted_once() {
    for (seed, (layout, members)) in (0..20).flat_map(|seed| KINDS.map(|kind| (seed, kind))) {
        let mut world = World::of(layout, seed, members);
        (0..6).for_each(|n| world.add(n));
        world.interval();
        let lacking: BTreeSet<HObject> = world.members.sides.iter().flat_map(|(_, side)| side.missing.iter()).map(|(obj, _)| obj).collect();
        // A client waits for each of them, which are in the queue too.
        for name in &lacking {
            let (recovery, side) = &mut world.members.sides[0];
            recovery.want(side, &name.head());
        }
        world.members.rest();
        let recovery = &mut world.members.sides[0].0;
        let unfound = recovery.unfound().len();
        assert_eq!(recovery.take_recovered().num_objects_recovered as usize, lacking.len() - unfound, "seed {seed}, {layout:?}");
    }
}

#[test]
fn a_member_that_goes_down_is_not_waited_for() {
    for (layout, members) in KINDS {
        let mut asked = 0;
        for seed in 0..40 {
            let mut world = World::of(layout, seed, members);
            for side in &mut world.members.sides {
                side.1.full = 0;
            }
            (0..8).for_each(|n| world.add(n));
            world.interval();
            // One that only had the objects, and is no member, goes while it is asked.
            let (recovery, side) = &mut world.members.sides[0];
            recovery.turn(side);
            let gone = layout.member(2, 2);
            if side.out.iter().any(|(to, part)| *to == gone && !matches!(part, Part::Pull(_))) {
                continue;
            }
            asked += side.out.iter().filter(|(to, _)| *to == gone).count();
            side.peers.remove(&gone);
            side.out.retain(|(to, _)| *to != gone);
            recovery.gone(side, &|member| member == gone);
            world.members.rest();
            let (recovery, side) = &world.members.sides[0];
            assert!(recovery.is_done(), "seed {seed}, {layout:?}");
            let lost = side.missing.iter().filter(|(obj, _)| recovery.unfound().any(|lost| lost == obj)).count();
            assert_eq!(side.missing.len(), lost, "seed {seed}, {layout:?}");
        }
        assert!(asked > 3, "{asked} objects were asked for");
    }
}

#[test]
fn what_a_client_waits_for_goes_first() {
    let mut world = World::of(Layout::Copies, 5, 2);
    for side in &mut world.members.sides {
        side.1.full = 0;
    }
    (0..30).for_each(|n| world.add(n));
    world.interval();
    let (recovery, side) = &mut world.members.sides[0];
    let last = side
        .missing
        .by_need()
        .map(|(_, name)| name.object())
        .filter(|obj| obj.is_head() && !side.peers[&PgShard::whole(1)].1.contains(obj))
        .last()
        .unwrap();
    assert!(Recovery::is_lacking(side, &last, false));
    recovery.want(side, &last);
    recovery.turn(side);
    let (_, first) = side.out.front().unwrap();
    assert!(matches!(first, Part::Pull(pull) if pull.soid == last) || matches!(first, Part::Delete(obj, _) if *obj == last), "{first:?}");
    world.members.rest();
    let (_, side) = &world.members.sides[0];
    assert!(side.nearer.contains(&last) && !Recovery::is_lacking(side, &last, true));
}

#[test]
fn what_is_damaged_on_the_primary_comes_from_another_member() {
    KINDS.into_iter().for_each(|(layout, members)| comes_from_another(World::of(layout, 12, members)));
}
fn comes_from_another(mut world: World) {
    let (whole, need) = (head(), EVersion::new(3, 9));
    let obj = GHObject::plain(whole.clone());
    for (n, (_, side)) in world.members.sides.iter_mut().enumerate() {
        side.full = 0;
        let mut txn = Transaction::new(COLL);
        // The primary's is not what its digest says, the second has none.
        let mut info = ObjectInfo { version: need, size: 3, ..ObjectInfo::new(whole.clone()) };
        info.set_data_digest(base::crc32c(u32::MAX, b"abc"));
        txn.write(&obj, 0, Bytes::from_static(if n == 0 { b"xyz" } else { b"abc" }), 0);
        txn.set_attr(&obj, OI_ATTR, info.to_bytes(0));
        txn.set_attr(&obj, types::object_info::SS_ATTR, types::SnapSet::default().to_bytes(0));
        if n == 1 {
            let item = PgMissingItem { need, clean_regions: ObjectCleanRegions::fully_dirty(), ..PgMissingItem::default() };
            side.missing.insert(&whole, &item);
        } else {
            side.store.submit(txn, None, 0).unwrap();
        }
    }
    world.interval();
    world.members.rest();
    for (recovery, side) in &world.members.sides {
        assert_eq!((recovery.unfound().len(), side.missing.len(), &side.complaints), (0, 0, &Vec::<String>::new()), "osd.{}", side.whoami);
        assert_eq!(&side.store.read(COLL, &obj, 0, 9).unwrap().flat()[..], b"abc", "osd.{}", side.whoami);
    }
}

#[test]
fn what_turns_up_late_is_found() {
    let mut world = World::of(Layout::Copies, 11, 2);
    let (whole, need) = (head(), EVersion::new(3, 99));
    for (_, side) in &mut world.members.sides {
        let item = PgMissingItem { need, clean_regions: ObjectCleanRegions::fully_dirty(), ..PgMissingItem::default() };
        side.missing.insert(&whole, &item);
    }
    world.interval();
    world.members.rest();
    assert_eq!(world.members.sides[0].0.unfound().len(), 1);
    // The other one has it after all, at that version.
    let info = ObjectInfo { version: need, size: 3, ..ObjectInfo::new(whole.clone()) };
    let mut txn = Transaction::new(COLL);
    let obj = GHObject::plain(whole.clone());
    txn.write(&obj, 0, Bytes::from_static(b"abc"), 0);
    txn.set_attr(&obj, OI_ATTR, info.to_bytes(0));
    world.members.sides[1].1.store.submit(txn, None, 0).unwrap();
    world.members.sides[1].1.missing = Missing::default();
    let (recovery, side) = &mut world.members.sides[0];
    side.peers.values_mut().for_each(|(_, missing)| *missing = Missing::default());
    recovery.look_again();
    world.members.rest();
    assert_eq!(world.members.sides[0].0.unfound().len(), 0);
    assert!(world.members.sides[0].1.missing.is_empty());
    assert_eq!(seen(&world.members.sides[0].1.store, &whole).unwrap().1, "abc");
}
