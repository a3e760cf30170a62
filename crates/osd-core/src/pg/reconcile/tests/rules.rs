//! One divergent object a case: what it becomes, by hand.

use super::super::merge;
use super::super::missing::Missing;
use super::super::{PeerLog, common_point};
use super::{entry, log_of, object, v};
use crate::pg::backend::layout::Layout;
use crate::pg::record::log::Log;
use types::{EVersion, HObject, LogOp, ObjectCleanRegions, PgLogEntry, PgMissingItem};

const NONE: EVersion = EVersion::ZERO;

/// (operation, version, prior version) of entries on one object.
type Entries<'a> = &'a [(LogOp, EVersion, EVersion)];
/// (need, have, delete, whether all of it is copied)
type Item = Option<(EVersion, EVersion, bool, bool)>;

struct Case<'a> {
    name: &'a str,
    /// In both logs.
    common: Entries<'a>,
    ours: Entries<'a>,
    theirs: Entries<'a>,
    before: Item,
    after: Item,
    removed: bool,
}

fn item((need, have, delete, all): (EVersion, EVersion, bool, bool)) -> PgMissingItem {
    let clean_regions = if all { ObjectCleanRegions::fully_dirty() } else { entry(LogOp::MODIFY, object(1), need, have).clean_regions };
    PgMissingItem { need, have, delete, clean_regions }
}

#[test]
fn divergent_objects_become_what_the_rules_say() {
    use LogOp as Op;
    let (create, change) = ((Op::MODIFY, v(5, 10), NONE), (Op::MODIFY, v(5, 11), v(5, 10)));
    let newer = |op, prior| [(op, v(7, 12), prior)];
    let delete = [(Op::DELETE, v(6, 12), v(5, 11))];
    let cases = [
        Case {
            name: "created here only",
            common: &[],
            ours: &[(Op::MODIFY, v(6, 12), NONE)],
            theirs: &[],
            before: None,
            after: None,
            removed: true,
        },
        Case {
            name: "created here only, and not in the store yet",
            common: &[],
            ours: &[(Op::MODIFY, v(6, 12), NONE)],
            theirs: &[],
            before: Some((v(6, 12), NONE, false, true)),
            after: None,
            removed: true,
        },
        Case {
            name: "created and deleted here only",
            common: &[],
            ours: &[(Op::MODIFY, v(6, 12), NONE), (Op::DELETE, v(6, 13), v(6, 12))],
            theirs: &[],
            before: None,
            after: None,
            removed: false,
        },
        Case {
            name: "a clone of this member only",
            common: &[],
            ours: &[(Op::CLONE, v(6, 12), v(5, 11))],
            theirs: &[],
            before: None,
            after: None,
            removed: true,
        },
        Case {
            name: "changed here only",
            common: &[create, change],
            ours: &[(Op::MODIFY, v(6, 12), v(5, 11)), (Op::MODIFY, v(6, 13), v(6, 12))],
            theirs: &[],
            before: None,
            after: Some((v(5, 11), NONE, false, true)),
            removed: true,
        },
        Case {
            name: "the version before is older than the log",
            common: &[],
            ours: &[(Op::MODIFY, v(6, 12), v(1, 1))],
            theirs: &[],
            before: None,
            after: Some((v(1, 1), NONE, false, true)),
            removed: true,
        },
        Case {
            name: "deleted here only",
            common: &[create, change],
            ours: &delete,
            theirs: &[],
            before: None,
            after: Some((v(5, 11), NONE, false, true)),
            removed: false,
        },
        Case {
            name: "deleted by the log, the store still has it",
            common: &[create, change],
            ours: &delete,
            theirs: &[],
            before: Some((v(6, 12), v(5, 11), true, false)),
            after: None,
            removed: false,
        },
        Case {
            name: "changed by the log, the store has the version before",
            common: &[create, change],
            ours: &[(Op::MODIFY, v(6, 12), v(5, 11))],
            theirs: &[],
            before: Some((v(6, 12), v(5, 11), false, false)),
            after: None,
            removed: false,
        },
        Case {
            name: "changed by the log, the store has an older version",
            common: &[create, change],
            ours: &[(Op::MODIFY, v(6, 12), v(5, 11))],
            theirs: &[],
            before: Some((v(6, 12), v(5, 10), false, false)),
            after: Some((v(5, 11), v(5, 10), false, true)),
            removed: false,
        },
        Case {
            name: "changed here, and otherwise there",
            common: &[create, change],
            ours: &[(Op::MODIFY, v(6, 12), v(5, 11))],
            theirs: &newer(Op::MODIFY, v(5, 11)),
            before: None,
            after: Some((v(7, 12), NONE, false, true)),
            removed: true,
        },
        Case {
            name: "changed here, deleted there",
            common: &[create, change],
            ours: &[(Op::MODIFY, v(6, 12), v(5, 11))],
            theirs: &newer(Op::DELETE, v(5, 11)),
            before: None,
            after: Some((v(7, 12), NONE, true, true)),
            removed: true,
        },
        Case {
            name: "deleted here, changed there",
            common: &[create, change],
            ours: &delete,
            theirs: &newer(Op::MODIFY, v(5, 11)),
            before: None,
            after: Some((v(7, 12), NONE, false, true)),
            removed: false,
        },
        Case {
            name: "created here, created there",
            common: &[],
            ours: &[(Op::MODIFY, v(6, 12), NONE)],
            theirs: &newer(Op::MODIFY, NONE),
            before: None,
            after: Some((v(7, 12), NONE, false, true)),
            removed: true,
        },
        Case {
            name: "an error changes nothing",
            common: &[create],
            ours: &[(Op::ERROR, v(6, 12), NONE)],
            theirs: &[],
            before: None,
            after: None,
            removed: false,
        },
        Case {
            name: "an error before the first change is not its prior version",
            common: &[create],
            ours: &[(Op::ERROR, v(6, 12), NONE), (Op::MODIFY, v(6, 13), v(5, 10))],
            theirs: &[],
            before: None,
            after: Some((v(5, 10), NONE, false, true)),
            removed: true,
        },
        Case {
            name: "given up as lost here only",
            common: &[create, change],
            ours: &[(Op::LOST_DELETE, v(6, 12), v(5, 11))],
            theirs: &[],
            before: Some((v(6, 12), NONE, true, true)),
            after: Some((v(5, 11), NONE, false, true)),
            removed: false,
        },
        Case {
            name: "reverted there",
            common: &[create, change],
            ours: &[],
            theirs: &newer(Op::LOST_REVERT, v(5, 11)),
            before: Some((v(5, 11), v(5, 10), false, false)),
            after: Some((v(7, 12), v(5, 10), false, true)),
            removed: false,
        },
        Case {
            name: "changed there only",
            common: &[create, change],
            ours: &[],
            theirs: &newer(Op::MODIFY, v(5, 11)),
            before: None,
            after: Some((v(7, 12), v(5, 11), false, false)),
            removed: false,
        },
        Case {
            name: "deleted there and created anew",
            common: &[create, change],
            ours: &[],
            theirs: &[(Op::DELETE, v(7, 12), v(5, 11)), (Op::MODIFY, v(7, 13), NONE)],
            before: None,
            after: Some((v(7, 13), NONE, false, true)),
            removed: false,
        },
    ];
    for case in cases {
        let merged = |missing: &mut Missing, last_backfill: &HObject| {
            let entries = |parts: &[Entries<'_>]| -> Vec<PgLogEntry> {
                parts.concat().into_iter().map(|(op, version, prior)| entry(op, object(1), version, prior)).collect()
            };
            let end = |e: &[PgLogEntry]| e.last().map_or(v(5, 9), |e| e.version);
            let (ours, theirs) = (entries(&[case.common, case.ours]), entries(&[case.common, case.theirs]));
            let log = Log::load(end(&ours), v(5, 9), [], ours.clone());
            let theirs = PeerLog::check(log_of(v(5, 9), end(&theirs), theirs)).unwrap();
            let common = common_point(&log, &theirs).unwrap();
            let divergent = &ours[case.common.len()..];
            assert!(divergent.iter().all(|e| e.version > common), "{}", case.name);
            merge::merge(Layout::Copies, &log, divergent, theirs, last_backfill, missing).unwrap()
        };
        let mut missing = Missing::default();
        case.before.into_iter().for_each(|i| missing.insert(&object(1), &item(i)));
        let before = missing.clone();
        let out = merged(&mut missing, &HObject::max());
        assert_eq!(missing.get(&object(1)), case.after.map(item), "{}", case.name);
        assert_eq!(out.remove, if case.removed { vec![object(1)] } else { vec![] }, "{}", case.name);
        let changed = missing != before;
        assert!(!changed || out.missing.iter().any(|(obj, item)| *obj == object(1) && *item == missing.get(obj)), "{}", case.name);
        // What a backfill hasn't reached is not looked at.
        let mut missing = Missing::default();
        let out = merged(&mut missing, &HObject::min());
        assert!(missing.is_empty() && out.remove.is_empty() && out.missing.is_empty(), "{}", case.name);
    }
}

#[test]
fn a_missing_set_keeps_both_orders() {
    let mut missing = Missing::default();
    for (n, version) in [(1, 20), (2, 10), (3, 30)] {
        missing.next_event(&entry(LogOp::MODIFY, object(n), v(5, version), v(5, 1)));
    }
    assert_eq!(missing.by_need().map(|(need, _)| need.version).collect::<Vec<_>>(), [10, 20, 30]);
    missing.next_event(&entry(LogOp::DELETE, object(2), v(5, 40), v(5, 10)));
    assert_eq!((missing.oldest_need(), missing.newest_need()), (Some(v(5, 20)), Some(v(5, 40))));
    let wire = missing.to_wire();
    assert_eq!((Missing::from(&wire), wire.may_include_deletes), (missing.clone(), true));
    // An older copy doesn't do; a delete is done however it is told.
    assert!(!missing.got(&object(1), v(5, 19)) && missing.got(&object(1), v(5, 20)) && !missing.got(&object(1), v(5, 20)));
    assert!(missing.lacks(&object(3), v(5, 30)) && !missing.lacks(&object(3), v(5, 29)));
    let mut half = missing.clone();
    let other = half.split_off(|hash| hash == object(2).hash);
    assert_eq!((half.len(), other.len(), other.oldest_need()), (1, 1, Some(v(5, 40))));
    half.append(other);
    assert_eq!(half, missing);
    assert!(missing.got(&object(2), v(5, 10)) && missing.got(&object(3), v(9, 1)) && missing.oldest_need().is_none());
}
