//! How each case runs: in which lane, and whether a short run always has it, has it in one share of three or of six, or leaves it to `--all`.
//!
//! A case that no list names computes, and rotates: a new one needs no entry. Holds no case; [`super::cases`] lists them. Lanes run in [`crate::lanes`].

use super::Case;
use crate::folders;
use crate::lanes::{Job, Lane};
use crate::share::Share;
use crate::story;
use anyhow::{Result, anyhow};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Cases that mostly wait (for timeouts, elections, reports), with the seconds that they took by themselves: alone they leave half of two cores idle, or
/// more. The second figure of a remark is seconds of processor time of all that the case starts.
const WAITING: &[(&str, u32)] = &[
    ("filled_with_anything", 212),                    // 60
    ("stock_and_our_osds_in_one_group", 94),          // beside builds; deaths and recovery are waited for
    ("stock_daemons_across_a_cut_network", 55),       // 15
    ("stock_daemons_with_our_osds", 52),              // 17
    ("stock_daemons_of_20.2_with_our_osds", 60),      // 26
    ("stock_and_our_osds_in_one_group_20.2", 94),     // as that of 18.2
    ("stock_daemons_upgraded_to_20.2", 120),          // deaths and recovery are waited for
    ("stock_and_our_osds_take_a_bucket_in_turn", 42), // beside builds; groups move
    ("radosgw_18.2", 42),                             // 17 together with the next
    ("stock_notify_across_cut_connections", 39),      // 7
    ("radosgw_18.2_block", 37),                       // 7
    ("stock_daemons_die_in_any_order", 33),           // 19
    ("cephfs_18.2", 33),                              // 19 together with the next and cephfs_18.2_recovered
    ("stock_daemons_under_our_monitor", 32),          // 19
    ("rbd_lock_of_a_killed_client", 31),              // 1
    ("rados_watch_notify", 31),                       // 12
    ("cephfs_18.2_block", 28),                        // 9
    ("newer_keys_20.2", 27),                          // 8
    ("radosgw_20.2", 30),                             // gateways start and are killed
    ("cephfs_20.2", 35),                              // a standby takes over
    ("stock_daemons_whose_maps_went_on", 25),         // 12
    ("gateways_killed_in_turns", 25),                 // 21
    ("stock_daemons_with_modules", 25),               // 11
    ("caps_matrix", 33),                              // 3
    ("no_stale_read_from_a_fenced_primary", 21),      // 1
    ("stock_manager_outlives_our_monitor", 17),       // 11
    ("metrics_for_prometheus", 14),                   // 2
    ("memory_is_filled_anew", 13),                    // 5
    ("memory_stays_below_its_limit", 26),             // 9; recovery and reports are waited for
    ("stock_daemons_and_full_stores", 12),            // 9
    ("stock_daemons_see_right_figures", 12),          // 8
    ("stock_daemons_and_a_rogue", 22),                // 14
    ("an_application_by_turns", 60),                  // recovery is waited for
    ("a_gateway_by_turns", 50),                       // the other side's looks are waited for
    ("disk_that_hangs", 30),                          // watchdogs and recovery are waited for
    ("disk_that_hangs_below_a_thread", 30),
    ("s3_and_files_by_one_word", 40), // gateways start, die and start again
    ("disk_of_io_errors", 20),
    ("disk_turned_read_only", 20),
    ("disks_that_fail_under_stock_monitors", 50), // the same
    ("guide_with_gateways", 20),
    ("guide_with_a_dead_disk", 25),
    ("guide_with_several_machines", 30),
    ("guide_with_a_cluster_that_moves", 90),
    ("stock_and_our_osds_find_the_same_damage", 120), // stock's tool opens a store for each object
    ("stock_and_our_osds_find_the_same_damage_20.2", 120),
    ("stock_and_our_osds_send_what_is_large", 90),
    ("stock_and_our_osds_send_what_is_large_20.2", 90),
    ("stock_osds_become_ours_and_stock_again_20.2", 300), // drains are waited for; 590 beside five builds, and what it installs
    ("stock_and_our_osds_under_one_mix_by_turns", 90),    // deaths and recovery are waited for
    ("stock_and_our_osds_tell_alike", 25),
    ("stock_and_our_osds_tell_alike_20.2", 25),
    ("osds_share_devices", 50), // restarts and recovery are waited for
    ("osds_that_share_devices_are_parted", 30),
    ("devices_under_stock_monitors_16.2", 60),
    ("devices_under_stock_monitors_18.2", 60),
    ("devices_under_stock_monitors_20.2", 60),
    ("guide_with_mirrored_images", 60), // copies and daemons' reports are waited for
    ("guide_with_two_zones", 60),
];

/// Cases that compute and are long on any machine, with their seconds: a machine that has no table of its own yet begins with them.
const LONG: &[(&str, u32)] = &[("three_copies_under_upstreams_workload", 210), ("lab_study_of_our_own", 45)];

/// Cases beside which nothing runs: upstream's programs have limits of their own, chosen for a machine at rest, and so has the laboratory's; a
/// thousand clients keep both cores busy, and the time of the good one counts; a browser starts slowly, and the page has two seconds.
const ALONE: &[&str] = &[
    "memory_of_what_is_under_way",
    "upstreams_test_programs",
    "stock_daemons_and_upstreams_test_programs",
    "lab_selftest",
    "page_in_a_browser",
];

/// Cases that each run has: one of each kind of stock client, of daemon and of fault.
const ALWAYS: &[(&str, &str)] = &[
    // Clients.
    ("rados_tool_16.2", "rados of 16.2"),
    ("rados_tool_20.2", "rados of 20.2"),
    ("rbd_tool_18.2", "rbd of 18.2"),
    ("fio_rbd_verify_18.2", "fio on librbd"),
    ("python_bindings_16.2", "the Python bindings"),
    ("commands_as_stock", "the ceph command"),
    ("ceph_and_rados_of_our_own", "our own commands beside stock ones"),
    ("radosgw_18.2_block", "radosgw, with S3 clients"),
    ("cephfs_18.2_block", "ceph-mds, with file system clients"),
    ("keys_are_checked", "keys"),
    ("caps_are_enforced", "capabilities"),
    ("secure_mode_18.2", "encrypted connections"),
    // Daemons.
    ("up_starts_and_ends", "humboldt up"),
    ("up_as_processes", "our daemons as processes"),
    ("several_osds", "several OSDs of ours"),
    ("stock_daemons_with_our_osds", "stock monitors and manager"),
    ("stock_daemons_under_our_monitor", "stock OSDs"),
    ("stock_manager_under_our_monitor", "a stock manager with its modules"),
    // Faults.
    ("kill9_short", "kill -9 under load"),
    ("three_copies_and_kills", "deaths of OSDs with copies"),
    ("rados_bench_with_cut_sockets", "cut connections"),
    ("full_and_back", "a full store"),
    ("an_application_by_turns", "an application that nobody here wrote, a disk lost and replaced"),
    ("a_flipped_bit_is_an_error", "damaged data"),
    ("scrub_finds_damage_and_repair_mends_it", "damaged copies"),
    ("hostile_connections", "hostile peers"),
];

/// Long cases, most of them of drains and scrubs in shared groups: a short run has one or two of them, six shares have all.
/// A share takes those at its place, so that no two of one kind meet.
const SELDOM: &[&str] = &[
    "stock_osds_become_ours_and_stock_again_20.2",
    "stock_and_our_osds_find_the_same_damage",
    "stock_and_our_osds_send_what_is_large_20.2",
    "stock_and_our_osds_in_one_group",
    "stock_daemons_upgraded_to_20.2",
    "stock_and_our_osds_find_the_same_damage_20.2",
    "stock_and_our_osds_tell_alike_20.2",
    "stock_and_our_osds_send_what_is_large",
    "stock_and_our_osds_tell_alike",
    "stock_and_our_osds_in_one_group_20.2",
    "guide_with_a_cluster_that_moves",
    "memory_stays_below_its_limit",
];

/// Beside these, what only `--all` does: each with its reason. Nothing is dropped; `--all` is what an issue is shown with.
pub const ONLY_ALL: &[(&str, &str)] = &[
    ("filled_with_anything", "it fills stores until they refuse: more than three minutes, most of them waits for a disk"),
    ("guide_with_mirrored_images", "two minutes, in which daemons' reports are waited for; the suite's short case takes turns"),
    ("guide_with_two_zones", "the same, of two gateways"),
    ("stock_osds_become_ours_and_stock_again", "the same with 20.2 takes turns, under more clients"),
    ("images_under_podman", "it installs podman and packs radosgw; a short run starts the same programs in `s3_and_files_by_one_word`"),
    ("stock_daemons_and_upstreams_test_programs", "the same programs rotate against `humboldt up`; nothing may run beside them"),
];

/// What is no case and runs with `--all` only.
pub const ONLY_ALL_ELSE: &[(&str, &str)] = &[
    (
        "five sixths of the simulator's seeds and planted bugs, and of the crash states",
        "the share of a short run is a sixth; six changes see all",
    ),
    ("clippy over the cores", "artefacts of its own; `xtask/tests/shape.rs` looks at the same names in each run"),
    ("cargo check of the examples", "artefacts of their own, and the server links none of them"),
];

/// Which runs have a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Always,
    /// One share of three.
    Rotating,
    /// One share of six.
    Seldom,
    OnlyAll,
}

/// Which runs have that case.
pub fn when(name: &str) -> When {
    match name {
        _ if ALWAYS.iter().any(|(n, _)| *n == name) => When::Always,
        _ if ONLY_ALL.iter().any(|(n, _)| *n == name) => When::OnlyAll,
        _ if SELDOM.contains(&name) => When::Seldom,
        _ => When::Rotating,
    }
}

/// How that case spends its time.
pub fn lane(name: &str) -> Lane {
    match name {
        _ if ALONE.contains(&name) => Lane::Alone,
        _ if WAITING.iter().any(|(n, _)| *n == name) => Lane::Waiting,
        _ => Lane::Computing,
    }
}

/// The cases of a short run: each that always runs, of those that rotate one in three, of the long ones one in six.
pub fn short(cases: Vec<Case>, share: Share) -> Vec<Case> {
    let mut place = 0;
    let mut mine = |case: &Case| match when(case.name) {
        When::Always => true,
        When::OnlyAll => false,
        When::Seldom => SELDOM.iter().position(|name| *name == case.name).is_some_and(|place| share.has_of_all(place)),
        When::Rotating => {
            place += 1;
            share.has(place - 1)
        }
    };
    cases.into_iter().filter(|case| mine(case)).collect()
}

/// How a case ended.
pub struct Ran {
    pub name: &'static str,
    pub took: Duration,
    pub result: Result<()>,
}

/// That case as a job. `known` are seconds that cases took the last time, by name.
pub fn job(case: Case, known: &BTreeMap<String, f64>) -> Job<Case> {
    let listed = || WAITING.iter().chain(LONG).find(|(name, _)| *name == case.name).map_or(0.0, |(_, s)| f64::from(*s));
    Job { lane: lane(case.name), usual_s: known.get(case.name).copied().unwrap_or_else(listed), it: case }
}

/// Runs it, and tells how it ended as soon as it did.
pub fn one(case: &Case) -> Ran {
    let started = Instant::now();
    story::begin();
    let result = catch_unwind(AssertUnwindSafe(case.run)).unwrap_or_else(|panic| Err(anyhow!("it panicked: {}", story::panicked(&*panic))));
    let took = started.elapsed();
    // One text: another lane's lines must not stand in the middle of it.
    match &result {
        Ok(()) => println!("ok {} ({:.1} s)", case.name, took.as_secs_f64()),
        Err(e) => println!("FAILED {} ({:.1} s): {e:#}\n{}", case.name, took.as_secs_f64(), story::told(&folders::claimed())),
    }
    folders::ended(result.is_ok());
    Ran { name: case.name, took, result }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::PARTS;
    use std::collections::BTreeSet;

    fn all() -> Vec<Case> {
        super::super::cases()
    }

    #[test]
    fn each_case_is_in_one_lane_and_in_one_of_always_seldom_and_all() {
        let names: Vec<&str> = all().iter().map(|c| c.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "a name is one case's");
        let waiting = WAITING.iter().map(|(name, _)| *name);
        let lanes: Vec<&str> = waiting.chain(ALONE.iter().copied()).chain(LONG.iter().map(|(name, _)| *name)).collect();
        let runs: Vec<&str> = ALWAYS.iter().chain(ONLY_ALL).map(|(name, _)| *name).chain(SELDOM.iter().copied()).collect();
        for list in [&lanes, &runs] {
            assert_eq!(list.iter().collect::<BTreeSet<_>>().len(), list.len(), "named twice: {list:?}");
            let gone: Vec<_> = list.iter().filter(|name| !names.contains(name)).collect();
            assert!(gone.is_empty(), "no cases of these names: {gone:?}");
        }
        let reasons = ALWAYS.iter().chain(ONLY_ALL).chain(ONLY_ALL_ELSE);
        assert!(reasons.into_iter().all(|(_, why)| why.len() > 3), "each has its reason");
    }

    #[test]
    fn three_shares_in_a_row_have_every_case_that_rotates_once_and_each_has_what_always_runs() {
        (1..=PARTS - 2).for_each(three_from);
    }

    fn three_from(first: u64) {
        let shares: Vec<Vec<&str>> =
            (first..first + 3).map(|n| short(all(), Share::new(n).expect("from 1 on")).iter().map(|c| c.name).collect()).collect();
        for case in all() {
            let due = match when(case.name) {
                When::Always => 3,
                When::Rotating => 1,
                When::OnlyAll => 0,
                When::Seldom => continue,
            };
            assert_eq!(shares.iter().flatten().filter(|name| **name == case.name).count(), due, "{}", case.name);
        }
        let lengths: Vec<usize> = shares.iter().map(|share| share.iter().filter(|name| when(name) != When::Seldom).count()).collect();
        assert!(lengths.iter().max().expect("three") - lengths.iter().min().expect("three") <= 1, "{lengths:?}");
    }

    #[test]
    fn six_shares_have_every_long_case_once_and_no_share_has_three() {
        let shares: Vec<Vec<&str>> =
            (1..=PARTS).map(|n| short(all(), Share::new(n).expect("from 1 on")).iter().map(|c| c.name).collect()).collect();
        for long in SELDOM {
            assert_eq!(shares.iter().flatten().filter(|name| *name == long).count(), 1, "{long}");
        }
        for share in shares {
            let long = share.iter().filter(|name| SELDOM.contains(name)).count();
            assert!((1..=2).contains(&long), "{long} in {share:?}");
        }
    }

    #[test]
    fn what_the_list_of_waits_calls_a_case_is_one() {
        let text = std::fs::read_to_string(crate::run::root().join("suites/WAITS.md")).expect("the list");
        let named = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let cases: Vec<&str> = named.filter(|name| name.contains(['_', '.'])).collect();
        assert!(cases.len() > 12, "{cases:?}");
        for name in cases {
            assert!(all().iter().any(|case| case.name == name), "suites/WAITS.md: there is no case {name}");
        }
    }

    #[test]
    fn a_case_that_panics_has_failed_and_the_others_run() {
        fn panics() -> Result<()> {
            // Printed where it is caught as well; the name tells that it is meant.
            panic!("on purpose, in a test of the runner")
        }
        let case = |name, run| Case { name, needs: &[], run };
        let ran = [one(&case("panics", panics)), one(&case("passes", || Ok(())))];
        let ended: BTreeMap<&str, bool> = ran.iter().map(|r| (r.name, r.result.is_ok())).collect();
        assert_eq!(ended, BTreeMap::from([("panics", false), ("passes", true)]));
    }
}
