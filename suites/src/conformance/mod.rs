//! Upstream's own test programs (Debian's package `ceph-test`) against a fresh `humboldt up`, or OSDs of ours among stock daemons, and what came
//! out of them.
//!
//! This file has the suites and their order; [`server`] is what they run against, [`program`] runs one program, [`gtest`] reads what it says,
//! [`known`] lists what is left out and why, [`settle`] says what a failed case counts as, [`kept`] keeps its output, [`model`] has the programs that have no
//! cases, whose [`runs`] are noted; [`given`] has the suites that are no list of programs: sources of upstream's, gateways, mirroring;
//! [`report`] writes COMPATIBILITY.md and docs/conformance.

mod given;
mod go_ceph;
mod gtest;
mod kept;
mod known;
mod mirror;
mod model;
mod multisite;
mod posix;
mod program;
mod pytest;
mod python;
mod report;
mod runs;
mod s3;
mod s3_known;
mod s3_runs;
mod server;
mod settle;
mod shares;
mod workunits;
mod workunits_rbd;

use crate::clients::Release;
use crate::cluster;
use crate::run::root;
use anyhow::{Context, Result, bail, ensure};
pub use given::Sources;
use given::{GIVEN, means};
use program::{Body, Outcome, Program};
pub use report::rewrite;
use server::Server;
pub use settle::end_of_run;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Programs that belong together: they run one after the other against one cluster.
pub struct Suite {
    pub name: &'static str,
    /// In front of each program's name.
    prefix: &'static str,
    programs: &'static [&'static str],
    /// Cases that run in one process; `usize::MAX` for all of a program.
    slice: usize,
    /// Such processes at a time.
    jobs: usize,
    /// For one such process from its start to its end.
    limit: Duration,
    /// For all of it.
    whole: Duration,
    /// Which cases of its programs belong to it.
    belongs: fn(&str) -> bool,
    /// Its programs work on files, as a plain user: a stock server of their release serves a file system.
    files: bool,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "rados",
        prefix: "ceph_test_rados_api_",
        programs: &[
            "aio",
            "aio_pp",
            "asio",
            "c_read_operations",
            "c_write_operations",
            "cls_remote_reads",
            "cmd",
            "cmd_pp",
            "io",
            "io_pp",
            "list",
            "lock",
            "lock_pp",
            "misc",
            "misc_pp",
            "pool",
            "service",
            "service_pp",
            "snapshots",
            "snapshots_pp",
            "stat",
            "stat_pp",
            "tier_pp",
            "watch_notify",
            "watch_notify_pp",
        ],
        slice: usize::MAX,
        jobs: 1,
        limit: Duration::from_secs(600),
        whole: Duration::from_secs(2400),
        belongs: |_| true,
        files: false,
    },
    Suite {
        name: "cls",
        prefix: "ceph_test_",
        programs: &[
            "cls_2pc_queue",
            "cls_cas",
            "cls_cmpomap",
            "cls_hello",
            "cls_journal",
            "cls_lock",
            "cls_log",
            "cls_lua",
            "cls_numops",
            "cls_queue",
            "cls_rbd",
            "cls_refcount",
            "cls_sdk",
            "cls_sem_set",
            "cls_user",
            "neocls_fifo",
            "neocls_log",
            "neocls_version",
        ],
        slice: usize::MAX,
        jobs: 1,
        limit: Duration::from_secs(300),
        whole: Duration::from_secs(1800),
        belongs: |_| true,
        files: false,
    },
    // What radosgw's own classes are for; the last needs no cluster.
    Suite {
        name: "rgw",
        prefix: "ceph_test_",
        programs: &["cls_rgw", "cls_rgw_gc", "cls_rgw_stats", "rgw_gc_log", "rgw_obj"],
        slice: usize::MAX,
        jobs: 1,
        limit: Duration::from_secs(300),
        whole: Duration::from_secs(1800),
        belongs: |_| true,
        files: false,
    },
    // One program of about 500 cases, each with pools of its own: in slices, so that one that hangs does not cost the others' time.
    Suite {
        name: "rbd",
        prefix: "ceph_test_",
        programs: &["librbd"],
        slice: 20,
        jobs: 3,
        limit: Duration::from_secs(900),
        whole: Duration::from_secs(7200),
        belongs: |case| !of_encryption(case),
        files: false,
    },
    // The same program's cases of encrypted images. They cost the client minutes of processor time for keys, and the server little.
    Suite {
        name: "luks",
        prefix: "ceph_test_",
        programs: &["librbd"],
        slice: 7,
        jobs: 2,
        limit: Duration::from_secs(1800),
        whole: Duration::from_secs(7200),
        belongs: of_encryption,
        files: false,
    },
    // libcephfs on a stock ceph-mds.
    Suite {
        name: "cephfs",
        prefix: "ceph_test_",
        programs: &[
            "libcephfs",
            "libcephfs_access",
            "libcephfs_lazyio",
            "libcephfs_newops",
            "libcephfs_reclaim",
            "libcephfs_suidsgid",
            "libcephfs_vxattr",
        ],
        slice: usize::MAX,
        jobs: 1,
        limit: Duration::from_secs(1800),
        whole: Duration::from_secs(3600),
        belongs: |_| true,
        files: true,
    },
];

fn of_encryption(case: &str) -> bool {
    case.contains("Encr") || case.contains("LUKS")
}

/// How a suite is run: what differs between two sections of the same suite and release.
#[derive(Debug, Clone, Copy)]
pub struct Manner<'a> {
    /// `RBD_FEATURES`: a number, or `unset`, with which the suite `rbd` makes images of the old format.
    pub features: &'a str,
    /// `mem` or `block`: what OSDs keep objects in. `both`, among stock daemons: the one that, the other this.
    pub store: &'a str,
    /// OSDs of ours under stock monitors and a stock manager, instead of `humboldt up`.
    pub among_stock: bool,
    /// Of which release those are.
    pub daemons: Release,
    /// Copies of each object, under our own monitor: that many OSDs, each a process.
    pub copies: u8,
    /// Nothing of ours: a stock cluster with an OSD of that release.
    pub stock: Option<Release>,
}

/// In the name of a section: the stock daemons are of 20.2.
const IN_TENTACLE: &str = " in a cluster of 20.2";

/// The default features of an image.
const DEFAULT_FEATURES: &str = "61";

impl Default for Manner<'_> {
    fn default() -> Self {
        Self { features: DEFAULT_FEATURES, store: "mem", among_stock: false, daemons: Release::Reef, copies: 1, stock: None }
    }
}

impl Manner<'_> {
    /// The same with that release's stock cluster, if it is to be one.
    fn with(self, release: Release) -> Self {
        Self { stock: self.stock.map(|_| release), ..self }
    }
    /// What a program sees in its environment.
    fn env(&self, suite: &str) -> Vec<(String, String)> {
        match (suite, self.features) {
            ("rbd" | "luks", "unset") => vec![("RBD_FORCE_ALLOW_V1".into(), "1".into())],
            // What it compares is shown where it differs.
            ("rbd" | "luks", features) => {
                vec![("RBD_FEATURES".into(), features.into()), ("TEST_RBD_MIGRATION_VERBOSE".into(), "1".into())]
            }
            _ => Vec::new(),
        }
    }
    /// The name of the section that it fills.
    fn section(&self, suite: &str, release: Release) -> String {
        let features = match (suite, self.features) {
            ("rbd" | "luks", "unset") => ", images of the old format".into(),
            ("rbd" | "luks", features) => format!(", RBD_FEATURES={features}"),
            _ => String::new(),
        };
        let copies = if self.copies > 1 { format!(", {} copies", self.copies) } else { String::new() };
        let store = match self.store {
            "mem" => "",
            "block" => ", block store",
            _ => ", both stores",
        };
        if self.stock.is_some() {
            return format!("{suite} with {}{features}{}", release.version(), report::ON_STOCK);
        }
        // A row of its own: the columns among stock daemons are of 18.2 where no other release is named.
        let cluster = if self.daemons == Release::Reef { "" } else { IN_TENTACLE };
        let among = if self.among_stock { ", among stock daemons" } else { "" };
        format!("{suite} with {}{cluster}{features}{copies}{among}{store}", release.version())
    }
}

/// What CI runs of them: programs that pass whole, and take seconds.
const FAST: &[&str] = &[
    "ceph_test_cls_2pc_queue",
    "ceph_test_cls_cas",
    "ceph_test_cls_cmpomap",
    "ceph_test_cls_hello",
    "ceph_test_cls_journal",
    "ceph_test_cls_log",
    "ceph_test_cls_numops",
    "ceph_test_cls_queue",
    "ceph_test_cls_rbd",
    "ceph_test_cls_refcount",
    "ceph_test_cls_rgw",
    "ceph_test_cls_rgw_gc",
    "ceph_test_cls_rgw_stats",
    "ceph_test_cls_sdk",
    "ceph_test_rados_api_aio",
    "ceph_test_rados_api_aio_pp",
    "ceph_test_rados_api_asio",
    "ceph_test_rados_api_c_read_operations",
    "ceph_test_rados_api_c_write_operations",
    "ceph_test_rados_api_cls_remote_reads",
    "ceph_test_rados_api_cmd",
    "ceph_test_rados_api_cmd_pp",
    "ceph_test_rados_api_io",
    "ceph_test_rados_api_io_pp",
    "ceph_test_rados_api_list",
    "ceph_test_rados_api_lock",
    "ceph_test_rados_api_lock_pp",
    "ceph_test_rados_api_pool",
    "ceph_test_rados_api_snapshots",
    "ceph_test_rados_api_stat",
    "ceph_test_rados_api_stat_pp",
    "ceph_test_rados_api_watch_notify_pp",
    "ceph_test_librbd",
    "ceph_test_rgw_gc_log",
    "ceph_test_rgw_obj",
];

/// What CI runs of them among stock daemons: those that are done in a second or two there.
const FAST_AMONG_STOCK: &[&str] = &[
    "ceph_test_cls_cas",
    "ceph_test_cls_cmpomap",
    "ceph_test_cls_hello",
    "ceph_test_cls_journal",
    "ceph_test_cls_log",
    "ceph_test_cls_rbd",
    "ceph_test_rados_api_aio",
    "ceph_test_rados_api_asio",
    "ceph_test_rados_api_c_read_operations",
    "ceph_test_rados_api_c_write_operations",
    "ceph_test_rados_api_cls_remote_reads",
    "ceph_test_rados_api_cmd",
    "ceph_test_rados_api_cmd_pp",
    "ceph_test_rados_api_io",
    "ceph_test_rados_api_io_pp",
    "ceph_test_rados_api_list",
    "ceph_test_rados_api_pool",
    "ceph_test_rados_api_snapshots",
    "ceph_test_rados_api_stat",
    "ceph_test_rados_api_stat_pp",
];

/// Programs of a suite that ran against one release's clients.
pub struct Run {
    /// The name of its section.
    pub section: String,
    pub outcomes: Vec<Outcome>,
    pub took: Duration,
}

/// Runs suites and writes down what came out. `suite` and `release` narrow it, `only` to programs whose name holds that word.
pub fn conformance(suite: Option<&str>, release: Option<&str>, only: Option<&str>, manner: Manner, sources: Sources) -> Result<()> {
    ensure!(manner.features == "unset" || manner.features.parse::<u64>().is_ok(), "--features takes a number or `unset`");
    let stores: &[&str] = if manner.among_stock { &["mem", "block", "both"] } else { &["mem", "block"] };
    ensure!(stores.contains(&manner.store), "--store takes one of {stores:?}");
    ensure!(manner.among_stock || manner.daemons == Release::Reef, "--daemons says of which release those of --among-stock are");
    let suites: Vec<&Suite> = SUITES.iter().filter(|s| means(suite, s.name) && !(s.files && manner.daemons != Release::Reef)).collect();
    let with_models = suite.is_none_or(|name| name == model::NAME);
    let given: Vec<_> = GIVEN.iter().filter(|given| manner.daemons == Release::Reef && means(suite, given.name)).collect();
    ensure!(!suites.is_empty() || with_models || !given.is_empty(), "no such suite: {}", suite.unwrap_or_default());
    // A cluster that 20.2 makes has keys that programs of 18.2 can't read.
    let reads_keys = |r: &Release| manner.daemons == Release::Reef || *r == manner.daemons;
    let asked = Release::WITH_TESTS.into_iter().filter(|r| release.is_none_or(|name| r.is_called(name)));
    let releases: Vec<Release> = asked.filter(reads_keys).collect();
    ensure!(!releases.is_empty(), "no test programs of {}", release.unwrap_or_default());
    cluster::build()?;
    let chosen = |name: &str| only.is_none_or(|word| name.contains(word));
    let (mut surprises, mut lacking) = (0, 0);
    let mut note = |run: Run| -> Result<()> {
        println!("{}: {}", run.section, report::totals(&run.outcomes));
        // A part of a suite says nothing of the whole.
        if only.is_none() {
            report::write(&root(), &run)?;
        }
        surprises += run.outcomes.iter().map(Outcome::surprises).sum::<usize>();
        Ok(())
    };
    for release in releases.iter().copied().filter(|_| !suites.is_empty() || with_models) {
        release.install_tests().with_context(|| format!("installing the test programs of {}", release.version()))?;
        let manner = manner.with(release);
        for suite in &suites {
            note(run_suite(suite, release, manner, &chosen)?)?;
        }
        if with_models {
            note(model::model(release, manner, &chosen)?)?;
        }
    }
    for given in given.into_iter().filter(|given| chosen(given.name)) {
        for release in given.releases(release) {
            match (given.run)(release, manner.with(release), sources)? {
                Ok(run) => note(run)?,
                Err(lack) => {
                    println!("SKIPPED {}: it needs {lack}", given.name);
                    // Who asks for everything gets what is here.
                    lacking += usize::from(suite.is_some());
                }
            }
        }
    }
    end_of_run()?;
    if surprises + lacking > 0 {
        bail!("{surprises} cases came out otherwise than suites/src/conformance/known.rs has it, {lacking} suites could not run");
    }
    Ok(())
}

/// One suite of gateways or mirroring in short, by turns: the number says which.
pub fn by_turns(turn: u64) -> Result<()> {
    match turn % 5 {
        0 => mirror::short(mirror::Mode::Journal),
        1 => mirror::short(mirror::Mode::Snapshot),
        2 => multisite::short(),
        3 => shares::short(shares::nfs),
        _ => shares::short(shares::smb),
    }
}

/// The fast part, for `cargo xtask test`.
pub fn fast() -> Result<()> {
    Release::Reef.install_tests()?;
    let chosen = |name: &str| FAST.contains(&name);
    // Encryption costs the client minutes.
    for suite in SUITES.iter().filter(|suite| suite.name != "luks") {
        if suite.programs.iter().any(|p| chosen(&format!("{}{p}", suite.prefix))) {
            // All features of images that the suite knows of: journals, too.
            let run = run_suite(suite, Release::Reef, Manner { features: "125", ..Manner::default() }, &chosen)?;
            let bad: Vec<String> = run.outcomes.iter().flat_map(Outcome::unexpected).collect();
            ensure!(bad.is_empty(), "{}", bad.join("\n"));
        }
    }
    Ok(())
}

/// The fast part among stock daemons: one of our OSDs with a store in memory, the other with one on disk, and what upstream's programs make lies on both.
pub fn fast_among_stock() -> Result<()> {
    Release::Reef.install_tests()?;
    let manner = Manner { store: "both", among_stock: true, ..Manner::default() };
    let mut server = Server::start("conformance-among-stock", manner, None)?;
    for suite in SUITES.iter().filter(|suite| ["rados", "cls"].contains(&suite.name)) {
        let outcomes = run_programs(suite, Release::Reef, manner, &|name| FAST_AMONG_STOCK.contains(&name), &mut server)?;
        let bad: Vec<String> = outcomes.iter().flat_map(Outcome::unexpected).collect();
        ensure!(bad.is_empty(), "{}", bad.join("\n"));
    }
    server.stop()
}

fn run_suite(suite: &Suite, release: Release, manner: Manner, chosen: &dyn Fn(&str) -> bool) -> Result<Run> {
    let started = Instant::now();
    // A folder of its own: two of these may run on one machine.
    let name = format!("conformance-{}-{}-{}", suite.name, release.version(), std::process::id());
    let mut server = Server::start(&name, manner, suite.files.then_some(release))?;
    let outcomes = run_programs(suite, release, manner, chosen, &mut server)?;
    server.stop()?;
    Ok(Run { section: manner.section(suite.name, release), outcomes, took: started.elapsed() })
}

/// Those of a suite's programs that are chosen, and there.
fn run_programs(
    suite: &Suite,
    release: Release,
    manner: Manner,
    chosen: &dyn Fn(&str) -> bool,
    server: &mut Server,
) -> Result<Vec<Outcome>> {
    let (mut outcomes, end) = (Vec::new(), Instant::now() + suite.whole);
    let fresh = |body: &mut Body| on_a_fresh_cluster(manner, suite.files.then_some(release), body);
    for name in suite.programs {
        let name = format!("{}{name}", suite.prefix);
        let program = Program {
            name,
            release,
            env: manner.env(suite.name),
            fresh: &fresh,
            slice: suite.slice,
            jobs: suite.jobs,
            limit: suite.limit,
            end,
            among_stock: manner.among_stock,
            belongs: suite.belongs,
            plain_user: suite.files,
        };
        if !chosen(&program.name) || !program.is_there() {
            continue;
        }
        let outcome = program.run(server.conf())?;
        println!("{} {}", release.version(), outcome.line());
        for text in outcome.unexpected() {
            println!("    {text}");
        }
        outcomes.push(outcome);
        server.stands(&program.name)?;
    }
    Ok(outcomes)
}

/// For a case that failed: a cluster that no other case has used.
fn on_a_fresh_cluster(manner: Manner, files: Option<Release>, body: &mut Body) -> Result<()> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let name = format!("conformance-alone-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let mut server = Server::start(&name, manner, files)?;
    body(server.conf())?;
    server.stands("a case alone")?;
    server.stop()
}
