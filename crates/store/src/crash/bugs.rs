//! Each planted bug is noticed: by a crash state, a kill, damage or a fault. What notices which, and how soon, is printed.

use super::{Subject, damage, faults, killed, run_seed};
use disk::{Fault, FaultKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Panics are a way of noticing, too.
fn noticed<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|e| {
        let text = e.downcast_ref::<String>().cloned().or_else(|| e.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// What the judge has to say of one seed: crash states, kills, damage, faults.
pub fn one_seed<S: Subject>(seed: u64) -> Result<(), String> {
    noticed(|| run_seed::<S>(seed))?;
    noticed(|| killed::one::<S>(seed))?;
    noticed(|| damage::one_life::<S>(seed, 300)).map_err(|e| format!("damage: {e}"))?;
    for nth in 0..8 {
        let fault = Fault { nth: nth * 37 + seed, kind: FaultKind::FlipRead, sticky: false, dev: None };
        noticed(|| faults::one::<S>(seed, fault)).map_err(|e| format!("fault: {e}"))?;
    }
    Ok(())
}

/// What notices the bug first, over so many seeds: first some of the setting that suits it.
fn hunt<S: Subject>((bug, suits, again): (S::Bug, u64, u64), seeds: u64) -> Option<String> {
    let first = (0..3).map(|n| suits + n * again);
    S::with_bug(bug, || first.chain(0..seeds).find_map(|seed| one_seed::<S>(seed).err()))
}

/// The subject's bugs that nothing notices in so many seeds. Each is hunted on one of two threads, since its switch is a thread's. With `only`, the bug
/// of that name alone. Of a share `(k, n)`, counted from 1, each n-th bug is hunted.
pub fn missed<S: Subject>(seeds: u64, only: Option<&str>, (k, n): (u64, u64)) -> Vec<S::Bug> {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(planted) = S::BUGS.get(at) else { break };
                    let bug = planted.0;
                    if at as u64 % n != k - 1 {
                        continue;
                    }
                    if only.is_some_and(|only| *only != format!("{bug:?}")) {
                        continue;
                    }
                    match hunt::<S>(*planted, seeds) {
                        Some(how) => println!("{bug:?}: {}", how.chars().take(230).collect::<String>()),
                        None => missed.lock().expect("nothing panics here").push(bug),
                    }
                }
            });
        }
    });
    missed.into_inner().expect("nothing panics here")
}
