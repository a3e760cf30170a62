//! Each planted bug is caught: by a crash state, a fault, or damage. Who catches which, and how soon, is printed.

use super::{damage, faults, run_seed};
use crate::planted::{Bug, with};
use disk::{Fault, FaultKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Noticed within a few seeds.
const SOON: [Bug; 16] = [
    Bug::AckBeforeDurable,
    Bug::AckOutOfOrder,
    Bug::VolatileRecord,
    Bug::VolatileRun,
    Bug::SkipDataFlush,
    Bug::SkipMetaFlush,
    Bug::SkipDrain,
    Bug::WriteSharedInPlace,
    Bug::TakeTornImages,
    Bug::TakeMissingRun,
    Bug::ForgetDataCrc,
    Bug::KeepEpoch,
    Bug::LoseDup,
    Bug::HalfTransaction,
    Bug::LeakAside,
    Bug::ForgetShares,
];
/// Need many seeds: space that is scarce, or damage at one of a few places.
const LATE: [Bug; 8] = [
    Bug::SkipBarrier,
    Bug::TrimEarly,
    Bug::SuperblockInPlace,
    Bug::KeepFreedImage,
    Bug::ReuseFreedEarly,
    Bug::ReuseWhileWriting,
    Bug::DamageIsTheEnd,
    Bug::ForgetLeafCrc,
];

/// Panics are a way of noticing, too.
fn noticed<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|e| {
        let text = e.downcast_ref::<String>().cloned().or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// What notices the bug first, over so many seeds.
fn hunt(bug: Bug, seeds: u64) -> Option<String> {
    with(bug, || {
        for seed in 0..seeds {
            if let Err(e) = noticed(|| run_seed(seed)) {
                return Some(e);
            }
            if let Err(e) = noticed(|| damage::one_life(seed, 100)) {
                return Some(format!("damage: {e}"));
            }
            for nth in 0..20 {
                let fault = Fault { nth: nth * 17 + seed, kind: FaultKind::FlipRead, sticky: false, dev: None };
                if let Err(e) = noticed(|| faults::one(seed, fault)) {
                    return Some(format!("fault: {e}"));
                }
            }
        }
        None
    })
}

/// Those of `bugs` that nothing notices in so many seeds.
fn missed(bugs: &[Bug], seeds: u64) -> Vec<Bug> {
    // Each on a thread of its own, two at a time: the switch is a thread's.
    let next = std::sync::atomic::AtomicUsize::new(0);
    let missed = std::sync::Mutex::new(Vec::new());
    let only = std::env::var("BUG").ok();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(bug) = bugs.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    if only.as_ref().is_some_and(|only| *only != format!("{bug:?}")) {
                        continue;
                    }
                    match hunt(*bug, seeds) {
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
fn planted_bugs_are_noticed_soon() {
    let missed = missed(&SOON, 3);
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

#[test]
#[ignore = "as long as it is told to: cargo xtask crash-states --bugs"]
fn other_planted_bugs_are_noticed_in_the_end() {
    let missed = missed(&LATE, super::from_env("BUG_SEEDS").unwrap_or(500));
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
