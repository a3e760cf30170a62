//! Each planted bug is caught: by a crash state, a fault, or damage. Who catches which, and how soon, is printed.

use super::setting::{CHURN, COPIES, ROUND, SETTINGS, SPILLS, STEADY};
use super::{damage, faults, killed, run_seed};
use crate::planted::{Bug, with};
use disk::{Fault, FaultKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The bugs, each with the setting (of [`super::setting`], by number) that provokes it soonest.
const BUGS: [(Bug, u64); 34] = [
    (Bug::AckBeforeDurable, 0),
    (Bug::AckOutOfOrder, 0),
    (Bug::VolatileRecord, 0),
    (Bug::VolatileRun, 0),
    (Bug::SkipDataFlush, 0),
    (Bug::SkipMetaFlush, 0),
    (Bug::SkipDrain, 0),
    (Bug::SkipLentFlush, 0),
    (Bug::StoreLent, 0),
    (Bug::SkipBarrier, 3),
    (Bug::TrimEarly, 6),
    (Bug::SuperblockInPlace, 7),
    (Bug::KeepFreedImage, 5),
    (Bug::ReuseFreedEarly, 5),
    (Bug::WriteSharedInPlace, 0),
    (Bug::TakeTornImages, 0),
    (Bug::TakeMissingRun, 0),
    (Bug::DamageIsTheEnd, 0),
    (Bug::ForgetDataCrc, 0),
    (Bug::ForgetLeafCrc, 0),
    (Bug::TrustCaches, 0),
    (Bug::LoseDup, 0),
    (Bug::HalfTransaction, 0),
    (Bug::LeakAside, 0),
    (Bug::ForgetShares, 0),
    // A place that was freed must be given to somebody, with data beside a record, while an old image is on its way to it.
    (Bug::ReuseWhileWriting, CHURN),
    // A record that a crash left behind the end of the log must fit what is written there later.
    (Bug::KeepEpoch, STEADY),
    // A record must be sealed while a copied range waits for what is under it.
    (Bug::HalfChange, COPIES),
    (Bug::VolatileSpill, SPILLS),
    (Bug::TakeMissingSpill, SPILLS),
    (Bug::ReuseSpill, SPILLS),
    (Bug::DropSharedLayer, 0),
    (Bug::ForgetLayers, 0),
    (Bug::WriteLayer, 0),
];

/// Panics are a way of noticing, too.
fn noticed<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|e| {
        let text = e.downcast_ref::<String>().cloned().or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// What the suite has to say of one seed: crash states, damage, faults.
fn one_seed(seed: u64) -> Result<(), String> {
    noticed(|| run_seed(seed))?;
    noticed(|| killed::one(seed))?;
    noticed(|| damage::one_life(seed, 300)).map_err(|e| format!("damage: {e}"))?;
    for nth in 0..8 {
        let fault = Fault { nth: nth * 37 + seed, kind: FaultKind::FlipRead, sticky: false, dev: None };
        noticed(|| faults::one(seed, fault)).map_err(|e| format!("fault: {e}"))?;
    }
    Ok(())
}

/// What notices the bug first, over so many seeds: first some of the setting that suits it.
fn hunt(bug: Bug, suits: u64, seeds: u64) -> Option<String> {
    let first = (0..3).map(|n| suits + n * if suits < SETTINGS { SETTINGS } else { ROUND });
    with(bug, || first.chain(0..seeds).find_map(|seed| one_seed(seed).err()))
}

#[test]
fn nothing_is_noticed_where_nothing_is_planted() {
    for seed in (0..SETTINGS).chain(SPILLS..ROUND) {
        one_seed(seed).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Those of `bugs` that nothing notices in so many seeds, each on a thread of its own, two at a time: the switch is a thread's.
fn missed(bugs: &[(Bug, u64)], seeds: u64) -> Vec<Bug> {
    let only = std::env::var("BUG").ok();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let missed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((bug, suits)) = bugs.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    if only.as_ref().is_some_and(|only| *only != format!("{bug:?}")) {
                        continue;
                    }
                    match hunt(*bug, *suits, seeds) {
                        Some(how) => println!("{bug:?}: {}", how.chars().take(230).collect::<String>()),
                        None => missed.lock().expect("nobody panics here").push(*bug),
                    }
                }
            });
        }
    });
    missed.into_inner().expect("nobody panics here")
}

#[test]
fn planted_bugs_are_noticed() {
    let missed = missed(&BUGS, 32);
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
