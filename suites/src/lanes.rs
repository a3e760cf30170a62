//! Jobs in lanes: which compute, which mostly wait, and which must be alone. So many lanes of either kind as the machine has cores for; the longest
//! job goes first. Jobs may come while others run. Holds no job and no list of them.

use std::sync::{Condvar, Mutex};

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

impl<T> Job<T> {
    /// The same job of another type.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Job<U> {
        Job { lane: self.lane, usual_s: self.usual_s, it: of(self.it) }
    }
}

/// How many lanes there are. One that finds none of its own kind left takes the other.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    pub computing: usize,
    pub waiting: usize,
}

/// The cores of this machine that are ours.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}

impl Lanes {
    /// A job that computes has threads for two cores, a case with its daemons and clients as much as a program with its tests; two jobs that wait need no
    /// more than half a core.
    pub fn of(cores: usize) -> Self {
        Self { computing: (cores / 2).max(1), waiting: cores.max(2) }
    }
}

/// The jobs that no lane has taken yet.
pub struct Queue<T> {
    left: Mutex<Left<T>>,
    changed: Condvar,
}

struct Left<T> {
    jobs: Vec<Job<T>>,
    /// More may come.
    open: bool,
    /// Jobs of the computing kind that run in lanes for those that wait.
    helping: usize,
}

impl<T> Queue<T> {
    pub fn add(&self, jobs: impl IntoIterator<Item = Job<T>>) {
        self.left.lock().expect("no holder panics").jobs.extend(jobs);
        self.changed.notify_all();
    }
    fn close(&self) {
        self.left.lock().expect("no holder panics").open = false;
        self.changed.notify_all();
    }
    /// The longest job that this lane may run, and its kind; none when all are done. `helpers` bounds the lanes for waiting jobs that compute.
    fn next(&self, mine: Lane, helpers: usize) -> Option<(Lane, T)> {
        let mut left = self.left.lock().expect("no holder panics");
        loop {
            let others = if mine == Lane::Computing { Lane::Waiting } else { Lane::Computing };
            let may_help = mine == Lane::Computing || left.helping < helpers;
            if let Some(job) = left.longest(mine).or_else(|| may_help.then(|| left.longest(others)).flatten()) {
                left.helping += usize::from(mine == Lane::Waiting && job.lane == Lane::Computing);
                return Some((job.lane, job.it));
            }
            let may_come = left.open || (!may_help && left.jobs.iter().any(|job| job.lane == Lane::Computing));
            if !may_come {
                return None;
            }
            left = self.changed.wait(left).expect("no holder panics");
        }
    }
    /// A lane for waiting jobs is done with one that computes.
    fn helped(&self) {
        self.left.lock().expect("no holder panics").helping -= 1;
        self.changed.notify_all();
    }
}

impl<T> Left<T> {
    fn longest(&mut self, lane: Lane) -> Option<Job<T>> {
        let mine = self.jobs.iter().enumerate().filter(|(_, job)| job.lane == lane);
        // The first of equals: the order in which they came.
        let (place, _) = mine.min_by(|(_, a), (_, b)| b.usual_s.total_cmp(&a.usual_s))?;
        Some(self.jobs.remove(place))
    }
}

/// Runs all jobs that `feed` adds while it runs; what is alone comes last. The value is what `feed` came to.
pub fn run<T: Send, R>(lanes: Lanes, feed: impl FnOnce(&Queue<T>) -> R, one: impl Fn(T) + Sync) -> R {
    let queue = Queue { left: Mutex::new(Left { jobs: Vec::new(), open: true, helping: 0 }), changed: Condvar::new() };
    let work = |mine: Lane| {
        while let Some((kind, it)) = queue.next(mine, lanes.computing) {
            one(it);
            if mine == Lane::Waiting && kind == Lane::Computing {
                queue.helped();
            }
        }
    };
    let fed = std::thread::scope(|scope| {
        (0..lanes.waiting).for_each(|_| drop(scope.spawn(|| work(Lane::Waiting))));
        (0..lanes.computing).for_each(|_| drop(scope.spawn(|| work(Lane::Computing))));
        // Closed whatever happens: lanes that wait for more would hold a panic back.
        let _close = Close(&queue);
        feed(&queue)
    });
    let mut left = queue.left.into_inner().expect("no holder panics");
    while let Some(job) = left.longest(Lane::Alone) {
        one(job.it);
    }
    fed
}

struct Close<'a, T>(&'a Queue<T>);

impl<T> Drop for Close<'_, T> {
    fn drop(&mut self) {
        self.0.close();
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
        let jobs = [job(Lane::Waiting, 1.0, 1), job(Lane::Computing, 1.0, 2), job(Lane::Waiting, 1.0, 3)];
        run(Lanes::of(2), |queue| queue.add(jobs), |_| drop(all_there.wait()));
    }

    #[test]
    fn one_that_is_alone_has_nothing_beside_it_and_comes_last() {
        let (running, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let jobs = [job(Lane::Computing, 1.0, 1), job(Lane::Alone, 9.0, 2), job(Lane::Alone, 10.0, 3), job(Lane::Waiting, 2.0, 4)];
        run(
            Lanes::of(2),
            |queue| queue.add(jobs),
            |it| {
                let beside = running.fetch_add(1, Ordering::SeqCst);
                assert!(it == 1 || it == 4 || beside == 0, "another runs beside {it}");
                std::thread::yield_now();
                seen.lock().unwrap().push(it);
                running.fetch_sub(1, Ordering::SeqCst);
            },
        );
        assert_eq!(seen.into_inner().unwrap()[2..], [3, 2], "the longest first");
    }

    #[test]
    fn lanes_with_nothing_to_wait_for_help_and_never_more_than_cores_compute() {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let both = Barrier::new(2);
        let jobs = (0..6).map(|it| job(Lane::Computing, f64::from(it), it));
        run(
            Lanes::of(2),
            |queue| queue.add(jobs),
            |_| {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                both.wait();
                running.fetch_sub(1, Ordering::SeqCst);
            },
        );
        assert_eq!(most.into_inner(), 2);
    }

    #[test]
    fn what_comes_later_is_run_and_what_feeds_may_fail() {
        let (ran, first) = (AtomicUsize::new(0), Barrier::new(2));
        let fed: Result<(), &str> = run(
            Lanes::of(2),
            |queue| {
                queue.add([job(Lane::Computing, 1.0, 1)]);
                first.wait();
                queue.add([job(Lane::Waiting, 1.0, 2), job(Lane::Alone, 1.0, 3)]);
                Err("no more")
            },
            |it| {
                if it == 1 {
                    first.wait();
                }
                ran.fetch_add(1, Ordering::SeqCst);
            },
        );
        assert_eq!((fed, ran.into_inner()), (Err("no more"), 3));
    }
}
