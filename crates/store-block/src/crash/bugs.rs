//! Each planted bug is caught: by a crash state, a fault, or damage. Who catches which, and how soon, is printed.

use super::{damage, faults, run_seed};
use crate::planted::{Bug, with};
use disk::{Fault, FaultKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

const ALL: [Bug; 24] = [
    Bug::AckBeforeDurable,
    Bug::AckOutOfOrder,
    Bug::VolatileRecord,
    Bug::VolatileRun,
    Bug::SkipDataFlush,
    Bug::SkipMetaFlush,
    Bug::SkipDrain,
    Bug::SkipBarrier,
    Bug::TrimEarly,
    Bug::SuperblockInPlace,
    Bug::KeepFreedImage,
    Bug::ReuseFreedEarly,
    Bug::ReuseWhileWriting,
    Bug::WriteSharedInPlace,
    Bug::TakeTornImages,
    Bug::TakeMissingRun,
    Bug::DamageIsTheEnd,
    Bug::ForgetDataCrc,
    Bug::ForgetLeafCrc,
    Bug::KeepEpoch,
    Bug::LoseDup,
    Bug::HalfTransaction,
    Bug::LeakAside,
    Bug::ForgetShares,
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

#[test]
#[ignore = "minutes: cargo xtask crash-states --bugs"]
fn every_planted_bug_is_noticed() {
    // Each on a thread of its own, two at a time: the switch is a thread's.
    std::panic::set_hook(Box::new(|_| {}));
    let next = std::sync::atomic::AtomicUsize::new(0);
    let missed = std::sync::Mutex::new(Vec::new());
    let seeds = super::from_env("BUG_SEEDS").unwrap_or(20);
    let only = std::env::var("BUG").ok();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(bug) = ALL.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
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
    let _ = std::panic::take_hook();
    let missed = missed.into_inner().expect("nobody panics here");
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
