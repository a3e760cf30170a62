//! Test programs, cases and looks at the sources in one set of lanes: what waits in a case leaves cores to what computes in a program.
//!
//! Holds how each kind is run and what came of all. Absent: what a run has (`test`), the lanes themselves (`suites::lanes`).

use crate::times::Times;
use crate::units::{self, program};
use anyhow::Result;
use std::sync::Mutex;
use std::time::Instant;
use suites::cases::{Case, order};
use suites::lanes::{self, Job, Lane, Lanes, Queue};
use suites::programs::Program;
use suites::share::Share;

/// One job.
pub enum Work {
    Program(Program),
    Case(Case),
    Look(Look),
}

/// A look at the sources by a tool, by name.
#[derive(Clone, Copy)]
pub struct Look {
    pub name: &'static str,
    pub run: fn() -> Result<()>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

/// What came of all jobs.
#[derive(Default)]
pub struct Done {
    pub counts: Counts,
    /// Programs that failed, by name.
    pub failed_programs: Vec<String>,
    pub times: Times,
}

/// Runs what `feed` adds while it runs. Times are kept after each job: a run that is stopped has what it came to.
pub fn run<R>(share: Option<Share>, feed: impl FnOnce(&Queue<Work>, &Mutex<Done>) -> R) -> (Done, R) {
    let done = Mutex::new(Done::default());
    let fed = lanes::run(
        Lanes::of(lanes::cores()),
        |queue| feed(queue, &done),
        |work| match work {
            // It runs before anything is held: others end meanwhile.
            Work::Program(program) => {
                let ran = units::one(&program, share);
                done.lock().expect("no holder panics").program(&ran);
            }
            Work::Case(case) => {
                let ran = order::one(&case);
                done.lock().expect("no holder panics").case(&ran);
            }
            Work::Look(look) => look_at(look, &done),
        },
    );
    (done.into_inner().expect("no holder panics"), fed)
}

/// Looks come when a core is free for them: their time is of no interest to the order.
pub fn look(look: Look) -> Job<Work> {
    Job { lane: Lane::Computing, usual_s: 0.0, it: Work::Look(look) }
}

fn look_at(look: Look, done: &Mutex<Done>) {
    let started = Instant::now();
    let looked = (look.run)();
    let took = started.elapsed();
    match &looked {
        Ok(()) => println!("ok {} ({:.1} s)", look.name, took.as_secs_f64()),
        Err(e) => println!("FAILED {}: {e:#}", look.name),
    }
    let mut done = done.lock().expect("no holder panics");
    done.count(looked.is_ok());
    done.times.phase(look.name, took);
}

impl Done {
    fn program(&mut self, ran: &program::Ran) {
        self.counts.passed += ran.passed;
        self.counts.failed += ran.failed;
        if ran.failure.is_some() {
            self.failed_programs.push(ran.name.clone());
        }
        self.times.program(ran);
        self.keep();
    }
    fn case(&mut self, ran: &order::Ran) {
        self.count(ran.result.is_ok());
        self.times.case(ran);
        self.keep();
    }
    fn count(&mut self, passed: bool) {
        *(if passed { &mut self.counts.passed } else { &mut self.counts.failed }) += 1;
    }
    fn keep(&mut self) {
        // A table that can't be written stops no test; the run says so once more at its end.
        if let Err(e) = self.times.keep() {
            println!("the table of times: {e:#}");
        }
    }
}

impl Counts {
    /// The last line of a run, which CI reads.
    pub fn line(self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn jobs_run_beside_each_other_and_what_fails_of_any_kind_is_counted() {
        // Two of the three wait for each other: jobs run beside each other.
        static BOTH: Barrier = Barrier::new(2);
        let together = || {
            BOTH.wait();
            Ok(())
        };
        let good = Look { name: "good", run: together };
        let bad = Look { name: "bad", run: || anyhow::bail!("on purpose, in a test of the runner") };
        let case = Case { name: "case", needs: &[], run: together };
        let (done, fed) = run(None, |queue, _| {
            queue.add([look(good), look(bad)]);
            queue.add([Job { lane: Lane::Waiting, usual_s: 0.0, it: Work::Case(case) }]);
            7
        });
        assert_eq!((fed, done.counts), (7, Counts { passed: 2, failed: 1, skipped: 0 }));
        assert_eq!(done.counts.line(), "2 passed, 1 failed, 0 skipped");
    }
}
