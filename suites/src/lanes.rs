//! Jobs in lanes: which compute, which mostly wait, and which must be alone. So many lanes of either kind as the machine has cores for; the longest
//! job goes first. Holds no job and no list of them.

use std::collections::VecDeque;
use std::sync::Mutex;

/// How a job spends its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Keeps cores busy.
    Computing,
    /// Waits for timeouts, elections, reports, and runs beside one that computes.
    Waiting,
    /// Nothing runs beside it.
    Alone,
}

/// Something to run.
pub struct Job<T> {
    pub lane: Lane,
    /// How long it took the last time, in seconds; 0 if that is not known.
    pub usual_s: f64,
    pub it: T,
}

/// How many of each kind run at a time.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    pub computing: usize,
    pub waiting: usize,
    /// A waiting lane with nothing left takes what computes.
    pub helps: bool,
}

/// The cores of this machine that are ours.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}

impl Lanes {
    /// For cases: each starts daemons and clients, which keep two cores busy; two that wait need no more than half a core.
    pub fn of_cases(cores: usize) -> Self {
        Self { computing: (cores / 2).max(1), waiting: cores.max(2), helps: false }
    }
    /// For test programs: each has as many threads as there are cores.
    pub fn of_programs(cores: usize) -> Self {
        Self { computing: (cores / 2).max(1), waiting: 1, helps: true }
    }
}

/// Runs all of them; what is alone comes last.
pub fn run<T: Send>(jobs: Vec<Job<T>>, lanes: Lanes, one: impl Fn(T) + Sync) {
    let of = |mine: Lane, jobs: &mut Vec<Job<T>>| -> Mutex<VecDeque<T>> {
        let mut some: Vec<Job<T>> = jobs.extract_if(.., |job| job.lane == mine).collect();
        some.sort_by(|a, b| b.usual_s.total_cmp(&a.usual_s));
        Mutex::new(some.into_iter().map(|job| job.it).collect())
    };
    let mut jobs = jobs;
    let [computing, waiting, alone] = [Lane::Computing, Lane::Waiting, Lane::Alone].map(|lane| of(lane, &mut jobs));
    let next = |queue: &Mutex<VecDeque<T>>| queue.lock().expect("no holder panics").pop_front();
    std::thread::scope(|scope| {
        for _ in 0..lanes.waiting {
            scope.spawn(|| {
                while let Some(it) = next(&waiting).or_else(|| lanes.helps.then(|| next(&computing)).flatten()) {
                    one(it);
                }
            });
        }
        for _ in 0..lanes.computing {
            scope.spawn(|| {
                while let Some(it) = next(&computing).or_else(|| next(&waiting)) {
                    one(it);
                }
            });
        }
    });
    while let Some(it) = next(&alone) {
        one(it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn job(lane: Lane, usual_s: f64, it: u32) -> Job<u32> {
        Job { lane, usual_s, it }
    }

    #[test]
    fn two_that_wait_run_beside_one_that_computes() {
        let all_there = Barrier::new(3);
        let jobs = vec![job(Lane::Waiting, 1.0, 1), job(Lane::Computing, 1.0, 2), job(Lane::Waiting, 1.0, 3)];
        run(jobs, Lanes::of_cases(2), |_| drop(all_there.wait()));
    }

    #[test]
    fn two_that_compute_never_run_at_a_time_on_two_cores_and_one_that_is_alone_comes_last() {
        let (running, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let jobs = vec![job(Lane::Computing, 1.0, 1), job(Lane::Alone, 9.0, 2), job(Lane::Computing, 3.0, 3), job(Lane::Computing, 2.0, 4)];
        run(jobs, Lanes::of_cases(2), |it| {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "another runs beside {it}");
            std::thread::yield_now();
            seen.lock().unwrap().push(it);
            running.fetch_sub(1, Ordering::SeqCst);
        });
        assert_eq!(seen.into_inner().unwrap(), [3, 4, 1, 2], "the longest first");
    }

    #[test]
    fn a_lane_with_nothing_left_to_wait_for_helps_where_it_may() {
        let both = Barrier::new(2);
        run(vec![job(Lane::Computing, 1.0, 1), job(Lane::Computing, 1.0, 2)], Lanes::of_programs(2), |_| drop(both.wait()));
    }
}
