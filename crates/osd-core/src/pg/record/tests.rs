//! A record's ends follow from its log whatever is done to it, and what the store refuses leaves no trace.

use super::*;
use crate::pg::backend::positions::Positions;
use crate::pg::reconcile::PeerLog;
use base::Rng;
use store::{PgRecord, StoreError};
use types::{ModDesc, ObjectCleanRegions, PgId, PgLog, SpgId};

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

/// A group of each kind begins, and the deltas of its record go to a store.
fn begin() -> (Record, Option<PgRecord>) {
    let (r, mut kept) = (Record::new(PgInfo::new(SpgId::whole(PgId::new(1, 0)))), None);
    PgRecord::apply(&mut kept, r.standing(1, &PastIntervals::default()));
    (r, kept)
}
/// A restart: the record as the store has it.
fn restarted(kept: &PgRecord) -> Record {
    let PgRecord { info, log, dups, missing, rolled_forward_to, .. } = kept.clone();
    let log = Log::load(info.last_update, info.log_tail, dups, log).with_forward(rolled_forward_to);
    Record::load(info, log, (&missing).into(), kept.epoch)
}
/// All that a restart is to find again.
fn remembered(r: &Record) -> String {
    let log: Vec<EVersion> = r.log.versions_after(EVersion::ZERO).collect();
    let (info, dups) = (&r.info, r.log.all_dups());
    let ends = (info.last_update, info.last_complete, info.log_tail, &info.last_backfill);
    format!("{ends:?} {log:?} {dups:?} {:?} {:?} {:?}", r.log.forward(), r.log.can_rollback_to(), r.missing.to_record())
}

/// Restarts at any time change nothing: what a primary appends, what a member follows, entries without a write, another's log. Of copies
/// the mark is the head, and no delta names one; of parts it lags behind, and each restart has it where it was.
#[test]
fn a_mark_of_roll_forward_survives_restarts() {
    let positions = Layout::Positions(Positions { k: 2, n: 3 });
    for (layout, seed) in [Layout::Copies, positions].into_iter().flat_map(|layout| (0..100).map(move |seed| (layout, seed))) {
        let mut rng = Rng::new(seed);
        let ((mut r, mut kept), mut lagged) = (begin(), 0);
        for _ in 0..40 {
            let next = r.next_version(3);
            let entries = vec![entry(LogOp::MODIFY, rng.below(12), next)];
            let behind = EVersion::new(3, r.log.head().version.saturating_sub(rng.below(4)));
            let mut deltas = Vec::new();
            match rng.below(4) {
                0 => r
                    .append(
                        entries,
                        &BOUND,
                        layout,
                        |complete| complete.min(behind),
                        |delta| {
                            deltas.push(delta);
                            Ok::<_, StoreError>(())
                        },
                    )
                    .expect("there is room"),
                1 => {
                    // A primary's log may begin behind the mark that it tells: it is trimmed later, then.
                    let tail = EVersion::new(3, next.version.saturating_sub(6));
                    deltas.push(r.follow(entries, false, PgStat::default(), layout.roll_forward(behind), tail, BOUND.dups));
                }
                2 => {
                    let error = PgLogEntry { op: LogOp::ERROR, ..entries[0].clone() };
                    deltas.push(r.follow_entries(vec![error], layout.roll_forward(behind)));
                }
                _ => {
                    let all: Vec<PgLogEntry> = kept.iter().flat_map(|kept| kept.log.iter().cloned()).collect();
                    let newest = PgLogEntry { soid: obj(100 + next.version), ..entries[0].clone() };
                    let theirs = PgLog { head: next, tail: r.log.tail(), log: [all.clone(), vec![newest]].concat(), ..PgLog::default() };
                    let info = PgInfo { last_update: next, ..r.info.clone() };
                    let merged = r.merge(layout, PeerLog::check(theirs).expect("a log"), &[], &info).expect("it goes on from ours");
                    deltas.push(r.adopted(&merged, 3, &PastIntervals::default(), all));
                    // Its object comes.
                    let got = r.got(Some((&obj(100 + next.version), next)), |delta| {
                        deltas.push(delta);
                        true
                    });
                    assert!(got.is_ok_and(|item| item.is_some()), "it was lacked");
                    assert_eq!(r.log.can_rollback_to(), next, "nothing of another's log is undone here");
                }
            }
            assert!(layout != Layout::Copies || deltas.iter().all(|delta| delta.rolled_forward_to.is_none()), "copies keep none");
            deltas.into_iter().for_each(|delta| PgRecord::apply(&mut kept, delta));
            r.assert_agrees();
            let again = restarted(kept.as_ref().expect("it is there"));
            assert_eq!(remembered(&again), remembered(&r), "seed {seed}, {layout:?}");
            lagged += usize::from(r.log.can_rollback_to() < r.log.head());
            if rng.below(3) == 0 {
                r = again;
                r.assert_agrees();
            }
        }
        assert_eq!(lagged > 5, layout != Layout::Copies, "seed {seed}: {lagged} of 40, {layout:?}");
    }
}

/// A store of before keeps no mark: all of the log is as copies', which nothing undoes; and the group goes on from there.
#[test]
fn a_store_of_before_opens_with_the_mark_at_the_head() {
    let layout = Layout::Positions(Positions { k: 2, n: 3 });
    let (mut r, mut kept) = begin();
    let entries: Vec<_> = (1..=4).map(|n| entry(LogOp::MODIFY, n, EVersion::new(3, n))).collect();
    let mut give = |delta| {
        PgRecord::apply(&mut kept, delta);
        Ok::<_, StoreError>(())
    };
    r.append(entries, &BOUND, layout, |_| EVersion::new(3, 2), &mut give).expect("there is room");
    assert_eq!(r.log.can_rollback_to(), EVersion::new(3, 2));
    let before = PgRecord { rolled_forward_to: None, ..kept.clone().expect("it is there") };
    let again = restarted(&before);
    assert_eq!(again.log.can_rollback_to(), EVersion::new(3, 4));
    // Where a log was cut by a repair, the mark is not in front of it.
    let cut = PgRecord {
        info: PgInfo { log_tail: EVersion::new(3, 3), ..before.info.clone() },
        log: [entry(LogOp::MODIFY, 4, EVersion::new(3, 4))].into(),
        ..kept.expect("it is there")
    };
    let again = restarted(&cut);
    assert_eq!(again.log.can_rollback_to(), EVersion::new(3, 3));
    again.assert_agrees();
}

/// Both halves of a split have the mark, and a merge ends what can be undone: its log has no entries.
#[test]
fn a_mark_of_roll_forward_goes_to_both_halves_of_a_split() {
    let layout = Layout::Positions(Positions { k: 2, n: 3 });
    let (mut r, _) = begin();
    let entries: Vec<_> = (1..=4).map(|n| entry(LogOp::MODIFY, n, EVersion::new(3, n))).collect();
    r.append(entries.clone(), &BOUND, layout, |_| EVersion::new(3, 2), |_| Ok::<_, StoreError>(())).expect("there is room");
    let child = r.split_off(SpgId::whole(PgId::new(1, 1)), 1, None, |hash| hash % 2 == 1);
    for half in [&r, &child] {
        let mut kept = None;
        let its: Vec<_> = entries.iter().filter(|e| half.log.versions_after(EVersion::ZERO).any(|v| v == e.version)).cloned().collect();
        PgRecord::apply(&mut kept, half.whole(4, &PastIntervals::default(), its));
        let again = restarted(&kept.expect("it is there"));
        assert_eq!((again.log.forward(), again.log.len()), (Some(EVersion::new(3, 2)), 2));
    }
    r.take_in(child, true);
    assert_eq!((r.log.len(), r.log.can_rollback_to()), (0, r.log.head()));
    r.assert_agrees();
}
