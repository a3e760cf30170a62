//! A primary that is written fills its members, joined by queues; members end and come back with what they have: at rest each has everything.

use super::fill::Backfill;
use crate::pg::backend::copies::cut::Chunk;
use crate::pg::backend::layout::Layout;
use crate::pg::backend::positions::Positions;
use crate::pg::reconcile::missing::Missing;
use crate::pg::work::recovery::host::{Limits, Pace, Slots};
use crate::pg::work::recovery::objects::Recovery;
use crate::pg::work::side::{self, COLL, Sent, Side, Sides};
use crate::planted::{self, Bug};
use base::Rng;
use denc::Denc;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use store::ObjectStore;
use types::object_info::{OI_ATTR, SS_ATTR};
use types::{Bytes, CEPH_NOSNAP, EVersion, GHObject, HObject, LogOp, ObjectInfo, PgInfo, PgLogEntry, SnapSet, Transaction};

struct World {
    members: Sides,
    entries: Vec<PgLogEntry>,
}

fn name(n: u64) -> HObject {
    HObject { oid: format!("thing {n}").into(), pool: 1, hash: (n as u32).wrapping_mul(0x9e37_79b9), snap: CEPH_NOSNAP, ..HObject::min() }
}
fn write(obj: &HObject, version: EVersion, bytes: &[u8]) -> Transaction {
    let (mut txn, target) = (Transaction::new(COLL), GHObject::plain(obj.clone()));
    let info = ObjectInfo { version, size: bytes.len() as u64, ..ObjectInfo::new(obj.clone()) };
    txn.touch(&target);
    txn.write(&target, 0, Bytes::copy_from_slice(bytes), 0);
    txn.set_attrs(&target, vec![(OI_ATTR.into(), info.to_bytes(0)), (SS_ATTR.into(), SnapSet::default().to_bytes(0))]);
    txn
}

impl World {
    fn of(layout: Layout, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let chunk = Chunk { bytes_max: 4096, omap_entries_max: 0 };
        let limits = Limits { chunk, starts_max: 2, ranges_max: 10, scan_max: 1 + rng.below(6) as usize, sleep: None };
        let sides = (0..3).map(|i| {
            let full = if i > 0 { seed % 3 * 2 } else { 0 };
            let mut side = Side::new(layout, i, side::store(), limits, full, seed + i as u64);
            if i > 0 {
                side.info.last_backfill = HObject::min();
            }
            (Recovery::new(Rc::new(Slots::new(3, Pace { slots: 3, share: 1.0 }))), side)
        });
        Self { members: Sides::new(sides.collect(), rng), entries: Vec::new() }
    }
    fn version(&self) -> EVersion {
        EVersion::new(3, self.entries.len() as u64 + 1)
    }
    /// A write, or a deletion, takes effect on the primary and goes to its members.
    fn change(&mut self, obj: &HObject) {
        let (version, target) = (self.version(), GHObject::plain(obj.clone()));
        let (recovery, primary) = &mut self.members.sides[0];
        let is_there = primary.store.exists(COLL, &target).unwrap();
        let delete = is_there && self.members.rng.chance(1, 3);
        let txn = if delete {
            let mut txn = Transaction::new(COLL);
            txn.remove(&target);
            txn
        } else {
            let len = if self.members.rng.chance(1, 3) { 20_000 } else { 100 };
            let mut txn = Transaction::new(COLL);
            if is_there {
                txn.truncate(&target, 0);
            }
            // An object that is made begins from nothing: it cuts nothing off.
            txn.append(write(obj, version, &vec![version.version as u8; len]));
            txn
        };
        let op = if delete { LogOp::DELETE } else { LogOp::MODIFY };
        let entry = PgLogEntry { op, soid: obj.clone(), version, ..PgLogEntry::default() };
        primary.store.submit(txn.clone(), None, 0).unwrap();
        primary.info.last_update = version;
        let mut sent = Vec::new();
        for (member, (info, _)) in &mut primary.peers {
            let gets = !primary.targets.contains(member) || Backfill::reaches(recovery.backfill(), &info.last_backfill, obj);
            let txn = if gets { txn.clone() } else { Transaction::new(COLL) };
            info.last_update = version;
            sent.push((member.osd as usize, Sent::Write(Box::new(entry.clone()), txn)));
        }
        if let Some(backfill) = recovery.backfill_mut() {
            backfill.logged(std::slice::from_ref(&entry));
        }
        primary.busy.remove(obj);
        recovery.is_free_again();
        sent.into_iter().for_each(|(to, sent)| self.members.send(0, to, sent));
        self.entries.push(entry);
    }
    /// The interval begins: what members lack of the log is known, and the rest is filled.
    fn begin(&mut self) {
        self.members.end_interval();
        let infos: Vec<PgInfo> = self.members.sides.iter().map(|(_, side)| side.info.clone()).collect();
        let last = self.members.sides[0].1.info.last_update;
        for i in 0..3 {
            let (_, side) = &mut self.members.sides[i];
            for entry in self.entries.iter().filter(|e| e.version > infos[i].last_update && e.soid <= infos[i].last_backfill) {
                side.missing.next_event(entry);
            }
            side.info.last_update = last;
        }
        let lacking: Vec<Missing> = self.members.sides.iter().map(|(_, side)| side.missing.clone()).collect();
        let (recovery, primary) = &mut self.members.sides[0];
        primary.busy.clear();
        primary.targets.clear();
        for i in 1..3 {
            let (member, info) = (primary.layout.member(i as i32, i), PgInfo { last_update: last, ..infos[i].clone() });
            if info.is_incomplete() {
                primary.targets.insert(member);
            }
            primary.peers.insert(member, (info, lacking[i].clone()));
        }
        recovery.begin(primary);
        if !primary.targets.is_empty() {
            recovery.begin_backfill(primary);
        }
    }
    fn may_write(&self, obj: &HObject) -> bool {
        let (recovery, primary) = &self.members.sides[0];
        let lacks = primary.peers.values().any(|(_, missing)| missing.contains(obj));
        !lacks && !primary.busy.contains(obj) && !recovery.backfill().is_some_and(|backfill| backfill.blocks(obj))
    }
    fn objects(&self, i: usize) -> Vec<(HObject, Bytes, Vec<(types::ByteStr, Bytes)>)> {
        let store = &self.members.sides[i].1.store;
        let names = store.list(COLL, &GHObject::min(), &GHObject::max(), 10_000).unwrap().objects;
        let of = |obj: GHObject| (store.read(COLL, &obj, 0, u64::MAX).unwrap().flat(), store.attrs(COLL, &obj).unwrap(), obj.hobj);
        names.into_iter().map(of).map(|(data, attrs, obj)| (obj, data, attrs)).collect()
    }
}

fn run(layout: Layout, seed: u64) {
    let mut w = World::of(layout, seed);
    let names = 12 + seed % 20;
    for n in 0..names {
        w.change(&name(n));
    }
    // What targets have from earlier, some of it no longer true.
    for i in 1..3 {
        for n in (0..names + 6).filter(|n| n % 3 == i as u64) {
            let version = if w.members.rng.chance(1, 2) { EVersion::new(3, n + 1) } else { EVersion::new(2, n + 1) };
            let txn = write(&name(n), version, &vec![version.version as u8; 100]);
            let is_same = version.epoch == 3 && w.members.sides[0].1.store.exists(COLL, &GHObject::plain(name(n))).unwrap();
            if !is_same {
                w.members.sides[i].1.store.submit(write(&name(n), EVersion::new(2, n + 1), &[1; 300]), None, 0).unwrap();
            } else if w.objects(0).iter().any(|(obj, data, _)| *obj == name(n) && data.len() == 100) {
                w.members.sides[i].1.store.submit(txn, None, 0).unwrap();
            }
        }
    }
    w.begin();
    let mut admitted: Vec<HObject> = Vec::new();
    for _ in 0..400 {
        match w.members.rng.below(12) {
            0..2 => {
                let obj = name(w.members.rng.below(names + 4));
                if w.may_write(&obj) {
                    w.members.sides[0].1.busy.insert(obj.clone());
                    admitted.push(obj);
                }
            }
            2..4 if !admitted.is_empty() => {
                let at = w.members.rng.below(admitted.len() as u64) as usize;
                let obj = admitted.swap_remove(at);
                w.change(&obj);
            }
            4 if w.members.rng.chance(1, 12) => {
                admitted.clear();
                w.begin();
            }
            _ => drop(w.members.step()),
        }
    }
    for obj in std::mem::take(&mut admitted) {
        w.change(&obj);
    }
    w.members.rest();
    let (_, primary) = &w.members.sides[0];
    assert!(primary.targets.is_empty(), "seed {seed}: {:?} are not filled", primary.targets);
    let wanted = w.objects(0);
    for i in 1..3 {
        let (_, side) = &w.members.sides[i];
        assert!(side.info.last_backfill.max && side.missing.is_empty() && side.complaints.is_empty(), "seed {seed}: {:?}", side.complaints);
        let brief = |objects: &[(HObject, Bytes, Vec<(types::ByteStr, Bytes)>)]| {
            objects.iter().map(|(obj, data, _)| format!("{obj} {} {:?}", data.len(), data.first())).collect::<BTreeSet<_>>()
        };
        let (theirs, ours) = (brief(&w.objects(i)), brief(&wanted));
        assert!(
            w.objects(i) == wanted,
            "seed {seed}: member {i} has {:?}, should have {:?}",
            theirs.difference(&ours).collect::<Vec<_>>(),
            ours.difference(&theirs).collect::<Vec<_>>()
        );
    }
    assert!(primary.complaints.is_empty() && primary.peers.values().all(|(_, missing)| missing.is_empty()), "seed {seed}");
}

#[test]
fn members_are_filled_whatever_is_written_and_whoever_ends_meanwhile() {
    (0..300).for_each(|seed| run(Layout::Copies, seed));
    (0..100).for_each(|seed| run(Layout::Positions(Positions { k: 2, n: 3 }), seed));
}

#[test]
fn planted_bugs_of_backfill_are_found() {
    for bug in [Bug::PassWrite, Bug::PassDelete, Bug::TellEarly, Bug::SkipWrite, Bug::OvertakeRemoval] {
        let found = (0..300).any(|seed| planted::with(bug, || catch_unwind(AssertUnwindSafe(|| run(Layout::Copies, seed)))).is_err());
        assert!(found, "{bug:?} is not noticed");
    }
}
