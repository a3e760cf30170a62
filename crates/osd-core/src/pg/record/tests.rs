//! A record's ends follow from its log whatever is done to it, and what the store refuses leaves no trace.

use super::*;
use crate::pg::backend::positions::Positions;
use base::Rng;
use store::StoreError;
use types::{ModDesc, ObjectCleanRegions, PgId, SpgId};

const BOUND: LogBound = LogBound { target: 8, trim_min: 2, trim_max: 4, dups: 6 };

fn obj(n: u64) -> HObject {
    HObject { oid: format!("o{n}").into(), hash: n as u32, ..HObject::min() }
}
fn entry(op: LogOp, n: u64, version: EVersion) -> PgLogEntry {
    let prior_version = EVersion::new(1, 1);
    PgLogEntry {
        op,
        soid: obj(n),
        version,
        prior_version,
        user_version: version.version,
        mod_desc: ModDesc::unrollbackable(),
        ..PgLogEntry::default()
    }
}
fn item(need: EVersion) -> PgMissingItem {
    PgMissingItem { need, have: EVersion::ZERO, delete: false, clean_regions: ObjectCleanRegions::fully_dirty() }
}
/// All that is to be as before.
fn seen(r: &Record) -> String {
    let log: Vec<EVersion> = r.log.versions_after(EVersion::ZERO).collect();
    format!("{:?} {log:?} {} {:?} {:?}", r.info, r.log.can_rollback_to(), r.missing, (r.is_dirty, r.saved_epoch, r.unsaved))
}

/// One step of some kind, which the store takes or not.
fn step(r: &mut Record, layout: Layout, rng: &mut Rng, takes: bool) -> bool {
    let (n, next) = (rng.below(12), r.next_version(3));
    match rng.below(7) {
        0 | 1 if r.missing.is_empty() => {
            let given = |_| if takes { Ok(()) } else { Err(StoreError::Full) };
            r.append(vec![entry(LogOp::MODIFY, n, next)], &BOUND, layout, |complete| complete, given).is_ok()
        }
        2 => r.give_up(&[entry(LogOp::LOST_DELETE, n, next)], |_| takes),
        3 => {
            let lacked = r.missing.iter().next().map(|(obj, item)| (obj, item.need));
            r.got(lacked.as_ref().map(|(obj, need)| (obj, *need)), |_| takes).is_ok()
        }
        4 if r.log.len() > 1 => {
            let need = r.log.nth_last(1).expect("there are two");
            r.missing.by_need().all(|(other, _)| other != need) && r.lack(&obj(n), &item(need), |_| takes)
        }
        5 => r.reach(obj(n), PgStat::default(), |_| takes),
        _ => {
            r.save(7, &PastIntervals::default(), Submitted::Record, |_| true);
            true
        }
    }
}

#[test]
fn a_record_agrees_with_itself_and_takes_back_what_is_refused() {
    let (mut refused, mut taken) = (0, 0);
    let positions = Layout::Positions(Positions { k: 2, n: 3 });
    for (seed, layout) in (0..300).flat_map(|seed| [(seed, Layout::Copies), (seed, positions)]) {
        let mut rng = Rng::new(seed);
        let mut r = Record::new(PgInfo::new(SpgId::whole(PgId::new(1, 0))));
        for _ in 0..60 {
            let (before, takes) = (seen(&r), rng.below(3) > 0);
            if step(&mut r, layout, &mut rng, takes) {
                taken += 1;
            } else {
                assert_eq!(before, seen(&r), "seed {seed}, {layout:?}");
                refused += 1;
            }
            r.assert_agrees();
        }
    }
    assert!(refused > 2000 && taken > 10_000, "{refused} steps were refused, {taken} taken");
}

/// What the store had no room for waits, an activation before all; the next interval has a record of its own.
#[test]
fn a_record_that_is_not_saved_is_saved_later() {
    let mut r = Record::new(PgInfo::new(SpgId::whole(PgId::new(1, 0))));
    let past = PastIntervals::default();
    r.save(5, &past, Submitted::Activation(4), |_| false);
    r.save(6, &past, Submitted::Record, |_| false);
    assert!(!r.is_saved() && r.saved_epoch() == 0);
    assert_eq!(r.take_unsaved(), Some(Submitted::Activation(4)));
    r.save(6, &past, Submitted::Record, |_| false);
    r.forget_unsaved();
    assert_eq!((r.take_unsaved(), r.is_dirty()), (None, true));
    r.save(7, &past, Submitted::Record, |_| true);
    assert!(r.is_saved() && r.saved_epoch() == 7);
}

/// The mark of copies is where their log ends, so the store need not keep it: a restart finds it there, as it was. A kind of pool whose
/// entries can be undone has another, which its record is to keep.
#[test]
fn the_mark_of_copies_needs_no_place_in_the_store() {
    let positions = Layout::Positions(Positions { k: 2, n: 3 });
    for (layout, is_kept) in [(Layout::Copies, true), (positions, false)] {
        let mut r = Record::new(PgInfo::new(SpgId::whole(PgId::new(1, 0))));
        let entries: Vec<_> = (1..=4).map(|n| entry(LogOp::MODIFY, n, EVersion::new(3, n))).collect();
        let has_room = |_| Ok::<_, StoreError>(());
        r.append(entries.clone(), &BOUND, layout, |_| EVersion::new(3, 2), has_room).expect("there is room");
        let again = Log::load(r.info.last_update, r.info.log_tail, [], entries);
        assert_eq!(again.can_rollback_to(), r.info.last_update, "after a restart");
        assert_eq!(again.can_rollback_to() == r.log.can_rollback_to(), is_kept, "{layout:?}");
    }
}
