//! A scrub as a value over three stores: what it finds, that it takes a chunk again that was written meanwhile, and that each planted bug is noticed.

use super::chunks::{Env, Out, Pace, Scrub};
use super::found::{Comparing, Found};
use super::order::Order;
use super::scan::{Limits, Scan};
use crate::pg::backend::layout::Layout;
use crate::pg::backend::positions::Positions;
use crate::planted::{Bug, with};
use base::{Stamp, crc32c};
use denc::Denc;
use std::collections::BTreeSet;
use store::ObjectStore;
use store_mem::MemStore;
use types::object_info::{OI_ATTR, SS_ATTR};
use types::scrub_results::snapset_error;
use types::{
    Bytes, CEPH_NOSNAP, CollId, EVersion, GHObject, HObject, ObjectInfo, ObjectStatSum, PgId, PgShard, SnapSet, SpgId, Transaction,
    features,
};

const GROUP: SpgId = SpgId::whole(PgId::new(1, 0));
const COLL: CollId = CollId::Pg(GROUP);
const LIMITS: Limits = Limits { stride: 8, keys: 2, large_keys: 100, large_bytes: 1 << 20 };

fn name(n: u32) -> HObject {
    HObject { oid: format!("o{n}").into_bytes().into(), pool: 1, hash: n.wrapping_mul(0x9e37_79b9), snap: CEPH_NOSNAP, ..HObject::min() }
}
fn info(obj: &HObject, data: &[u8], version: u64) -> ObjectInfo {
    let mut info = ObjectInfo { version: EVersion::new(3, version), size: data.len() as u64, ..ObjectInfo::new(obj.clone()) };
    info.set_data_digest(crc32c(u32::MAX, data));
    info
}
/// As a client's write leaves it.
fn write(obj: &HObject, data: &[u8], version: u64) -> Transaction {
    let mut txn = Transaction::new(COLL);
    let gobj = GHObject::plain(obj.clone());
    txn.remove(&gobj);
    txn.touch(&gobj);
    txn.write(&gobj, 0, Bytes::copy_from_slice(data), 0);
    txn.set_attr(&gobj, OI_ATTR, info(obj, data, version).to_bytes(features::SUPPORTED));
    txn.set_attr(&gobj, SS_ATTR, SnapSet::default().to_bytes(features::SUPPORTED));
    txn.omap_set_keys(&gobj, (0..5).map(|n| (format!("k{n}").into_bytes().into(), Bytes::from_static(b"v"))).collect());
    txn
}

struct Members {
    layout: Layout,
    stores: Vec<MemStore>,
}

impl Members {
    /// Three with the same objects.
    fn new(objects: u32) -> Self {
        Self::of(Layout::Copies, objects)
    }
    fn of(layout: Layout, objects: u32) -> Self {
        let mut stores: Vec<MemStore> = (0..3).map(|_| MemStore::new(1 << 26)).collect();
        for store in &mut stores {
            let mut txn = Transaction::new(COLL);
            txn.create_collection(COLL, 0);
            (0..objects).for_each(|n| txn.append(write(&name(n), format!("the bytes of {n}").as_bytes(), 1)));
            store.submit(txn, None, 0).unwrap();
        }
        Self { layout, stores }
    }
    fn edit(&mut self, member: usize, change: impl FnOnce(&mut Transaction, &GHObject)) {
        let mut txn = Transaction::new(COLL);
        change(&mut txn, &GHObject::plain(name(1)));
        self.stores[member].submit(txn, None, 0).unwrap();
    }
    /// A scrub on member 0 to its end. `between`: what happens between our map of a chunk and those of the others.
    fn scrub(&mut self, order: Order, mut between: impl FnMut(&mut Self, &mut Scrub)) -> Found {
        let members: Vec<PgShard> = (0..self.stores.len()).map(|n| self.layout.member(n as i32, n)).collect();
        let (us, others) = (members[0], &members[1..]);
        let comparing = Comparing { pgid: GROUP, whoami: us, mode: "scrub", repair: false, size_max: 1 << 30 };
        let others = others.to_vec();
        let mut out = Vec::new();
        let mut run = Scrub::new(order, comparing, others.clone(), HObject::pgmeta(GROUP.pgid), &mut out);
        let (mut asked, mut reserved) = (Vec::new(), BTreeSet::new());
        for _ in 0..10_000 {
            for one in std::mem::take(&mut out) {
                match one {
                    Out::Reserve(member) => assert!(reserved.insert(member)),
                    Out::Release(member) => assert!(reserved.remove(&member)),
                    Out::Ask(member, start, end, deep) => {
                        assert!(reserved.len() == others.len(), "a map is asked for with every slot");
                        asked.push((member, start, end, deep));
                    }
                    Out::Through(_, found) => {
                        return *found;
                    }
                    Out::Line(..) | Out::ChunkOver => {}
                    Out::Inspected(..) => panic!("nothing was suspected"),
                }
            }
            others.iter().for_each(|member| run.granted(*member, &mut out));
            let members = |_: Option<&HObject>| others.clone();
            let mut env = Env {
                store: &mut self.stores[0],
                coll: COLL,
                layout: self.layout,
                limits: LIMITS,
                pace: Pace { names_max: 4, rest_ns: 0 },
                now: Stamp(0),
                members: &members,
                out: &mut out,
            };
            run.turn(&mut env).unwrap();
            if !run.work().is_busy() && !asked.is_empty() {
                between(self, &mut run);
                for (member, start, end, deep) in std::mem::take(&mut asked) {
                    let store = &mut self.stores[member.osd as usize];
                    let mut scan = Scan::new(COLL, start, end, deep);
                    let map = (0..1000).find_map(|_| scan.turn(store, COLL, &LIMITS).unwrap()).expect("a map");
                    run.map_came(member, map, false);
                }
            }
        }
        panic!("a scrub without end: {run:?}");
    }
    fn deep(&mut self) -> Found {
        self.scrub(Order { deep: true, ..Order::default() }, |_, _| ())
    }
}

/// Each kind of back end.
const KINDS: [Layout; 2] = [Layout::Copies, Layout::Positions(Positions { k: 2, n: 3 })];

/// Whose copy of the object is bad.
fn bad(found: &Found) -> Vec<i32> {
    found.bad.get(&name(1)).map(|bad| bad.shards().map(|shard| shard.osd).collect()).unwrap_or_default()
}
fn noticed(bug: Bug, holds: impl Fn() -> bool) {
    assert!(holds(), "without the bug");
    assert!(!with(bug, &holds), "{bug:?} is not noticed");
}
fn wrong(txn: &mut Transaction, obj: &GHObject) {
    txn.write(obj, 0, Bytes::from_static(b"THE"), 0);
}

#[test]
fn a_chunk_ends_before_its_maps_hold_too_much() {
    let mut members = Members::new(6);
    let chunks = |members: &mut Members| {
        let mut chunks = 0;
        let found = members.scrub(Order::default(), |_, _| chunks += 1);
        assert!(found.bad.is_empty());
        chunks
    };
    assert_eq!(chunks(&mut members), 2, "of four names each");
    for store in &mut members.stores {
        let mut txn = Transaction::new(COLL);
        (0..6).for_each(|n| txn.set_attr(&GHObject::plain(name(n)), "_large", Bytes::from(vec![n as u8; 6 << 20])));
        store.submit(txn, None, 0).unwrap();
    }
    assert_eq!(chunks(&mut members), 3, "of two names each");
}

#[test]
fn equal_copies_are_counted_and_have_no_findings() {
    for (objects, layout) in [0, 1, 4, 5, 23].into_iter().flat_map(|objects| KINDS.map(|layout| (objects, layout))) {
        let found = Members::of(layout, objects).deep();
        assert_eq!((found.errors(), found.count, found.sum.num_objects), (0, objects.into(), objects.into()));
        assert_eq!((found.sum.num_omap_keys, found.sum.num_omap_bytes), (i64::from(objects) * 5, i64::from(objects) * 5));
        let found = Members::of(layout, objects).scrub(Order::default(), |_, _| ());
        assert_eq!((found.errors(), found.sum.num_objects, found.sum.num_omap_keys), (0, objects.into(), 0));
    }
}

#[test]
fn two_wrong_copies_lose_against_object_info() {
    noticed(Bug::TrustMajority, || {
        let mut m = Members::new(9);
        m.edit(0, wrong);
        m.edit(2, wrong);
        bad(&m.deep()) == [0, 2]
    });
}

#[test]
fn an_omap_that_differs_is_found_and_the_odd_one_is_bad() {
    for victim in 0..3 {
        noticed(Bug::ScrubSkipsOmap, || {
            let mut m = Members::new(9);
            m.edit(victim, |txn, obj| txn.omap_rm_keys(obj, vec!["k4".into()]));
            bad(&m.deep()) == [victim as i32]
        });
    }
}

#[test]
fn every_member_is_compared() {
    noticed(Bug::ScrubSkipsMember, || {
        KINDS.into_iter().all(|layout| {
            let mut m = Members::of(layout, 9);
            m.edit(2, wrong);
            bad(&m.deep()) == [2]
        })
    });
}

#[test]
fn the_bad_copy_is_made_anew_and_not_the_good_ones() {
    noticed(Bug::MendFromBad, || {
        KINDS.into_iter().all(|layout| {
            let mut m = Members::of(layout, 9);
            m.edit(1, wrong);
            bad(&m.deep()) == [1]
        })
    });
}

#[test]
fn a_clone_that_no_head_names_is_a_finding() {
    noticed(Bug::IgnoreExtra, || {
        let mut m = Members::new(9);
        for member in 0..3 {
            m.edit(member, |txn, obj| {
                let clone = GHObject::plain(obj.hobj.at_snap(7));
                txn.clone_object(obj, &clone);
                txn.set_attr(&clone, OI_ATTR, info(&clone.hobj, b"the bytes of 1", 1).to_bytes(features::SUPPORTED));
            });
        }
        let found = m.deep();
        found.extra.contains_key(&name(1).at_snap(7)) && found.shallow == 1 && found.snapsets.len() == 2
    });
}

/// A set of snapshots that lost its clone, in one copy: a finding where it is the leader's, whose set clients are served by. The clone stays.
#[test]
fn a_set_of_the_leader_that_lost_a_clone_is_a_finding() {
    let found_where = |damaged: usize, members: usize| {
        let mut m = Members::new(9);
        m.stores.truncate(members);
        let snap: types::SnapId = 7;
        let bytes = "the bytes of 1".len() as u64;
        let mut set = SnapSet { seq: snap, clones: vec![snap], ..SnapSet::default() };
        set.clone_size.insert(snap, bytes);
        set.clone_overlap.insert(snap, [(0, bytes)].into_iter().collect());
        set.clone_snaps.insert(snap, vec![snap]);
        let without = SnapSet { seq: snap, ..SnapSet::default() };
        for member in 0..members {
            let set = if member == damaged { &without } else { &set };
            m.edit(member, |txn, obj| {
                let clone = GHObject::plain(obj.hobj.at_snap(7));
                txn.clone_object(obj, &clone);
                txn.set_attr(&clone, OI_ATTR, info(&clone.hobj, b"the bytes of 1", 1).to_bytes(features::SUPPORTED));
                txn.set_attr(obj, SS_ATTR, set.to_bytes(features::SUPPORTED));
            });
        }
        let found = m.deep();
        assert!(found.extra.is_empty(), "the clone is no one's to remove: {:?}", found.extra);
        assert_eq!(bad(&found), [damaged as i32], "that copy is made anew");
        found.snapsets.iter().map(|one| one.errors).collect::<Vec<_>>()
    };
    for members in [2, 3] {
        assert_eq!(found_where(0, members), [snapset_error::HEADLESS, snapset_error::EXTRA_CLONES], "{members} members");
        assert!(found_where(1, members).is_empty(), "{members} members");
    }
}

/// A write that comes between two members' maps: the chunk is taken again, however often, and what was written is counted once.
#[test]
fn a_chunk_that_was_written_meanwhile_is_taken_again() {
    for writes in [1, 2, 5] {
        noticed(Bug::KeepDisturbed, || {
            let (mut m, mut left) = (Members::new(9), writes);
            let found = m.scrub(Order { deep: true, ..Order::default() }, |m, run| {
                if left == 0 {
                    return;
                }
                left -= 1;
                let version = 10 + writes - left;
                let data = format!("version {version} is longer");
                for n in 0..9 {
                    m.stores.iter_mut().for_each(|store| store.submit(write(&name(n), data.as_bytes(), version), None, 0).unwrap());
                    run.changed(&name(n), &ObjectStatSum::default(), Some(EVersion::new(3, version)));
                }
            });
            found.errors() == 0 && found.sum.num_objects == 9
        });
    }
}

/// A chunk that was disturbed too often holds writes back, and none but those to its objects.
#[test]
fn writes_wait_for_a_chunk_that_they_disturbed_too_often() {
    let (mut m, mut held) = (Members::new(40), Vec::new());
    m.scrub(Order::default(), |_, run| {
        held.push((0..40).filter(|n| run.holds(&name(*n), 3)).count());
        if held.len() < 4 {
            run.disturb();
        }
    });
    assert_eq!(held[..3], [0, 0, 0]);
    assert!(held[3] > 0 && held[3] < 5, "{held:?}");
    assert!(held[4..].iter().all(|n| *n == 0), "{held:?}");
}

/// An object grows behind the place that the scrub has come to: it is counted as it is in the end.
#[test]
fn what_is_written_behind_the_place_is_added() {
    let (mut m, mut chunks) = (Members::new(40), 0);
    let found = m.scrub(Order::default(), |m, run| {
        chunks += 1;
        if chunks == 5 {
            // Some of all objects lie before the fifth chunk.
            for n in 0..40 {
                let grown = format!("the bytes of {n}, and more");
                m.stores.iter_mut().for_each(|store| store.submit(write(&name(n), grown.as_bytes(), 2), None, 0).unwrap());
                run.changed(&name(n), &ObjectStatSum { num_bytes: 10, ..ObjectStatSum::default() }, Some(EVersion::new(3, 2)));
            }
        }
    });
    let bytes: usize = (0..40).map(|n| format!("the bytes of {n}, and more").len()).sum();
    assert_eq!((found.errors(), found.sum.num_bytes, found.sum.num_objects), (0, bytes as i64, 40));
}

#[test]
fn a_member_without_a_slot_ends_it_and_the_others_get_theirs_back() {
    let comparing = Comparing { pgid: GROUP, whoami: PgShard::whole(0), mode: "scrub", repair: false, size_max: 1 << 30 };
    let members: Vec<PgShard> = (1..4).map(PgShard::whole).collect();
    let mut out = Vec::new();
    let mut run = Scrub::new(Order::default(), comparing, members.clone(), HObject::pgmeta(GROUP.pgid), &mut out);
    run.granted(members[0], &mut out);
    out.clear();
    assert!(run.refused(members[1], &mut out) && run.is_over());
    let released: Vec<PgShard> = out.iter().filter_map(|out| if let Out::Release(member) = out { Some(*member) } else { None }).collect();
    assert_eq!(released, [members[0], members[2]]);
    assert!(!run.refused(members[2], &mut out), "it is over already");
}
