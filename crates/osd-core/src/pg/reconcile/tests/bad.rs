//! What a peer may not send: each is an error, and nothing has changed.

use super::super::member::Member;
use super::super::merge;
use super::super::missing::Missing;
use super::super::{LogError, PeerLog};
use super::{entry, log_of, object, v};
use crate::pg::backend::layout::Layout;
use crate::pg::record::log::Log;
use types::{EVersion, HObject, LogOp, PgInfo, PgLogDup, PgLogEntry, SpgId};

fn entries(versions: &[EVersion]) -> Vec<PgLogEntry> {
    versions.iter().map(|version| entry(LogOp::MODIFY, object(1), *version, v(1, 1))).collect()
}

#[test]
fn a_log_out_of_order_or_bounds_is_refused() {
    let check = |tail, head, versions: &[EVersion]| PeerLog::check(log_of(tail, head, entries(versions))).map(|_| ());
    assert_eq!(check(v(5, 1), v(5, 3), &[v(5, 2), v(5, 3)]), Ok(()));
    assert_eq!(check(v(5, 1), v(5, 9), &[v(5, 2)]), Ok(()), "a split took entries away");
    assert_eq!(check(v(5, 4), v(5, 3), &[]), Err(LogError::Bounds { tail: v(5, 4), head: v(5, 3) }));
    assert_eq!(check(v(5, 1), v(5, 3), &[v(5, 3), v(5, 2)]), Err(LogError::Order(v(5, 2))));
    assert_eq!(check(v(5, 1), v(5, 3), &[v(5, 2), v(5, 2)]), Err(LogError::Order(v(5, 2))));
    assert_eq!(check(v(5, 1), v(5, 3), &[v(5, 1)]), Err(LogError::Order(v(5, 1))));
    assert_eq!(check(v(5, 1), v(5, 3), &[v(6, 1)]), Err(LogError::Order(v(6, 1))));
    let mut log = log_of(v(5, 1), v(5, 1), vec![]);
    log.dups = [2, 1].map(|n| PgLogDup { version: v(4, n), ..PgLogDup::default() }).into();
    assert_eq!(PeerLog::check(log), Err(LogError::DupOrder(v(4, 1))));
}

#[test]
fn logs_without_a_common_version_are_apart() {
    let peer = |tail, head, versions: &[EVersion]| PeerLog::check(log_of(tail, head, entries(versions))).unwrap();
    let ours = Log::load(v(5, 5), v(5, 3), [], entries(&[v(5, 4), v(5, 5)]));
    let mut missing = Missing::default();
    for theirs in [peer(v(5, 6), v(5, 7), &[v(5, 7)]), peer(v(5, 1), v(5, 2), &[v(5, 2)])] {
        assert!(matches!(merge::merge(Layout::Copies, &ours, &[], theirs, &HObject::max(), &mut missing), Err(LogError::Apart { .. })));
    }
    for to in [v(5, 2), v(5, 6)] {
        assert!(matches!(merge::rewind(Layout::Copies, &ours, &[], to, &HObject::max(), &mut missing), Err(LogError::Apart { .. })));
    }
    // A log that was trimmed is nothing to begin with.
    let fresh = Log::default();
    assert!(merge::merge(Layout::Copies, &fresh, &[], peer(v(5, 6), v(5, 7), &[v(5, 7)]), &HObject::max(), &mut missing).is_err());
    assert!(merge::merge(Layout::Copies, &fresh, &[], peer(EVersion::ZERO, v(5, 7), &[v(5, 7)]), &HObject::max(), &mut missing).is_ok());
    assert_eq!(missing.len(), 1);
}

#[test]
fn a_replica_that_contradicts_itself_is_refused() {
    let ours = Log::load(v(5, 5), v(5, 3), [], entries(&[v(5, 4), v(5, 5)]));
    let theirs = PeerLog::check(log_of(v(5, 3), v(5, 4), entries(&[v(5, 4)]))).unwrap();
    let info = |last_update| PgInfo { last_update, ..PgInfo::new(SpgId::default()) };
    let judge = |last_update, missing| Member::judge(Layout::Copies, &ours, info(last_update), &theirs, missing);
    assert_eq!(judge(v(5, 5), Missing::default()), Err(LogError::Info { log: v(5, 4), info: v(5, 5) }));
    let mut beyond = Missing::default();
    beyond.next_event(&entry(LogOp::MODIFY, object(2), v(5, 6), v(1, 1)));
    assert_eq!(judge(v(5, 4), beyond), Err(LogError::Missing { need: v(5, 6), head: v(5, 4) }));
    assert!(judge(v(5, 4), Missing::default()).is_ok());
    // Its last activation was finished nowhere else: what it wrote before may be divergent too, and is not in the part.
    let theirs = PeerLog::check(log_of(v(4, 9), v(4, 9), vec![])).unwrap();
    let old = Log::load(v(5, 5), v(3, 1), [], entries(&[v(3, 8), v(5, 5)]));
    let info = |log_tail| PgInfo { log_tail, ..info(v(4, 9)) };
    assert_eq!(Member::judge(Layout::Copies, &old, info(v(3, 2)), &theirs, Missing::default()), Err(LogError::Unanchored(v(4, 9))));
    let whole = PeerLog::check(log_of(v(3, 2), v(4, 9), entries(&[v(3, 8), v(4, 9)]))).unwrap();
    let judged = Member::judge(Layout::Copies, &old, info(v(3, 2)), &whole, Missing::default()).unwrap();
    assert_eq!((judged.info.last_update, judged.missing.len()), (v(3, 8), 1));
}
