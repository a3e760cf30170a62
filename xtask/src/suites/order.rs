//! The order in which cases run, two at a time where one of them mostly waits, and the table of their times.
//!
//! Holds no case; [`super::cases`] lists them.

use super::Case;
use crate::folders;
use anyhow::Result;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Cases that mostly wait (for timeouts, elections, reports), the longest first: alone they leave half of two cores idle, or more. Each was measured
/// by itself: seconds, and seconds of processor time of all that it starts.
const MOSTLY_WAIT: &[&str] = &[
    "filled_with_anything",                     // 212, 60
    "stock_and_our_osds_in_one_group",          // 94 beside builds; deaths and recovery are waited for
    "stock_and_our_osds_take_a_bucket_in_turn", // 42 beside builds; groups move
    "stock_daemons_across_a_cut_network",       // 55, 15
    "stock_daemons_with_our_osds",              // 52, 17
    "radosgw_18.2",                             // 42, 17 together with the next
    "radosgw_18.2_block",                       // 37, 7
    "stock_daemons_die_in_any_order",           // 33, 19
    "stock_daemons_under_our_monitor",          // 32, 19
    "stock_notify_across_cut_connections",      // 39, 7
    "rbd_lock_of_a_killed_client",              // 31, 1
    "rados_watch_notify",                       // 31, 12
    "cephfs_18.2",                              // 33, 19 together with the next and cephfs_18.2_recovered
    "cephfs_18.2_block",                        // 28, 9
    "newer_keys_20.2",                          // 27, 8
    "stock_daemons_whose_maps_went_on",         // 25, 12
    "gateways_killed_in_turns",                 // 25, 21
    "stock_daemons_with_modules",               // 25, 11
    "caps_matrix",                              // 22, 3
    "no_stale_read_from_a_fenced_primary",      // 21, 1
    "stock_manager_outlives_our_monitor",       // 17, 11
    "metrics_for_prometheus",                   // 14, 2
    "memory_is_filled_anew",                    // 13, 5
    "stock_daemons_and_full_stores",            // 12, 9
    "stock_daemons_see_right_figures",          // 12, 8
];

/// Cases beside which nothing runs: upstream's programs have limits of their own, chosen for a machine at rest, and so has the laboratory's; a
/// thousand clients keep both cores busy, and the time of the good one counts; a browser starts slowly, and the page has two seconds.
const ALONE: &[&str] = &[
    "memory_of_what_is_under_way",
    "upstreams_test_programs",
    "stock_daemons_and_upstreams_test_programs",
    "lab_selftest",
    "page_in_a_browser",
];

/// How a case ended.
pub struct Ran {
    pub name: &'static str,
    pub took: Duration,
    pub result: Result<()>,
}

/// Cases by how they run.
struct Lanes {
    waiting: VecDeque<Case>,
    computing: VecDeque<Case>,
    alone: VecDeque<Case>,
}

fn lanes(cases: Vec<Case>) -> Lanes {
    let place = |name: &str| MOSTLY_WAIT.iter().position(|n| *n == name);
    let (alone, rest): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|c| ALONE.contains(&c.name));
    let (mut waiting, computing): (Vec<Case>, Vec<Case>) = rest.into_iter().partition(|c| place(c.name).is_some());
    waiting.sort_by_key(|c| place(c.name));
    Lanes { waiting: waiting.into(), computing: computing.into(), alone: alone.into() }
}

/// Runs all of them and tells how each ended as soon as it did. Never two that compute at a time.
pub fn run(cases: Vec<Case>) -> Vec<Ran> {
    let Lanes { waiting, computing, mut alone } = lanes(cases);
    let (waiting, computing, ran) = (Mutex::new(waiting), Mutex::new(computing), Mutex::new(Vec::new()));
    let next = |lane: &Mutex<VecDeque<Case>>| lane.lock().expect("no holder panics").pop_front();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Some(case) = next(&waiting) {
                one(&case, &ran);
            }
        });
        scope.spawn(|| {
            while let Some(case) = next(&computing).or_else(|| next(&waiting)) {
                one(&case, &ran);
            }
        });
    });
    while let Some(case) = alone.pop_front() {
        one(&case, &ran);
    }
    ran.into_inner().expect("no holder panics")
}

fn one(case: &Case, ran: &Mutex<Vec<Ran>>) {
    let started = Instant::now();
    let result = (case.run)();
    let took = started.elapsed();
    folders::ended(result.is_ok());
    match &result {
        Ok(()) => println!("ok {} ({:.1} s)", case.name, took.as_secs_f64()),
        Err(e) => println!("FAILED {} ({:.1} s): {e:#}", case.name, took.as_secs_f64()),
    }
    ran.lock().expect("no holder panics").push(Ran { name: case.name, took, result });
}

/// The time of each case, slowest first.
pub fn table(ran: &[Ran], whole: Duration) -> String {
    let mut rows: Vec<&Ran> = ran.iter().collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.took));
    let sum: Duration = ran.iter().map(|r| r.took).sum();
    let mut text = format!("{:.1} s of cases in {:.1} s, slowest first:\n", sum.as_secs_f64(), whole.as_secs_f64());
    for row in rows {
        let end = if row.result.is_ok() { "" } else { "  FAILED" };
        let _ = writeln!(text, "{:>8.1} s  {}{end}", row.took.as_secs_f64(), row.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn case(name: &'static str, run: fn() -> Result<()>) -> Case {
        Case { name, needs: &[], run }
    }

    /// Two cases that both must be there for either to go on.
    fn meet() -> Result<()> {
        static HERE: AtomicUsize = AtomicUsize::new(0);
        HERE.fetch_add(1, Ordering::SeqCst);
        let both = crate::run::until(Duration::from_secs(20), || HERE.load(Ordering::SeqCst) == 2);
        anyhow::ensure!(both, "nothing ran beside it");
        Ok(())
    }

    #[test]
    fn what_waits_runs_beside_what_computes() {
        let ran = run(vec![case("computes", meet), case("rados_watch_notify", meet)]);
        assert!(ran.len() == 2 && ran.iter().all(|r| r.result.is_ok()));
    }

    /// Counts how many run at a time; two of these never do.
    fn sole() -> Result<()> {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        anyhow::ensure!(RUNNING.fetch_add(1, Ordering::SeqCst) == 0, "another runs beside it");
        std::thread::sleep(Duration::from_millis(20));
        RUNNING.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    #[test]
    fn two_that_compute_and_upstreams_programs_never_run_at_a_time() {
        let ran = run(vec![case("a", sole), case("upstreams_test_programs", sole), case("b", sole), case("c", sole)]);
        assert!(ran.iter().all(|r| r.result.is_ok()));
        assert_eq!(ran.last().expect("four").name, "upstreams_test_programs");
    }

    #[test]
    fn the_table_has_every_case_slowest_first() {
        let ran = |name, secs, result| Ran { name, took: Duration::from_secs(secs), result };
        let rows = [ran("quick", 1, Ok(())), ran("slow", 90, Err(anyhow::anyhow!("no"))), ran("middling", 8, Ok(()))];
        let text = table(&rows, Duration::from_secs(92));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "99.0 s of cases in 92.0 s, slowest first:");
        assert_eq!(lines[1..].iter().map(|l| l.trim()).collect::<Vec<_>>(), ["90.0 s  slow  FAILED", "8.0 s  middling", "1.0 s  quick"]);
    }

    #[test]
    fn the_lists_name_cases_that_are_there() {
        let all: Vec<&str> = super::super::cases().iter().map(|c| c.name).collect();
        let gone: Vec<&&str> = MOSTLY_WAIT.iter().chain(ALONE).filter(|name| !all.contains(name)).collect();
        assert!(gone.is_empty(), "{gone:?}");
    }
}
