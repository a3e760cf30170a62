//! Many seeds, one after the other.

use super::{Subject, run_seed};
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds from `from` on, on two threads, until there were `states` states. Returns how many there were. Every `every` of them, if that
/// is not 0, it prints how far it is. Panics with what was wrong first.
pub fn run_states<S: Subject>(from: u64, states: u64, every: u64) -> u64 {
    let (seed, seen) = (AtomicU64::new(from), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let work = || {
            while seen.load(Ordering::Relaxed) < states {
                let mine = seed.fetch_add(1, Ordering::Relaxed);
                let tally = run_seed::<S>(mine).unwrap_or_else(|e| panic!("{e}"));
                let before = seen.fetch_add(tally.states, Ordering::Relaxed);
                if every > 0 && before / every != (before + tally.states) / every {
                    println!("{} states, seeds {from}..={mine}", before + tally.states);
                }
            }
        };
        let threads = [scope.spawn(work), scope.spawn(work)];
        for thread in threads {
            thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e));
        }
    });
    let n = seen.into_inner();
    let next = seed.into_inner();
    println!("{n} crash states of seeds {from}..{next}: every one came up right; others from seed {next} on");
    n
}
