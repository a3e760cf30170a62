//! Some seeds come out right, a seed is a history, and each promise that is broken on purpose is noticed.

mod share;

use sim::plan::StoreKind;
use sim::planted::{ALL, OsdBug};
use sim::{Plan, Planted, Rest, run, run_deep};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds of a test run, or the share of them that is asked for; `SIM_SEEDS=from,count` has others.
fn seeds() -> std::ops::Range<u64> {
    let (from, count) = std::env::var("SIM_SEEDS").map_or((0, 300), |text| share::pair(&text, ','));
    let (k, n) = share::asked();
    from + count * (k - 1) / n..from + count * k / n
}

/// What `one` gives for each seed, or number. They know nothing of each other, and these are the longest of all tests.
fn on_all_cores<T: Send>(seeds: std::ops::Range<u64>, one: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mine = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| seeds.contains(seed)));
        mine.map(&one).collect::<Vec<T>>()
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// The most memory that this process ever had, in bytes.
fn memory_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a line of it");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("in KiB") << 10
}

#[test]
fn seeds_come_out_right() {
    let reports = on_all_cores(seeds(), |seed| {
        let report = run(&Plan::of(seed), None, false);
        assert_eq!(report.failure, None, "cargo xtask sim --seed {seed:#x}");
        (report.virtual_s / 3600.0, report.answered, report.faults)
    });
    let hours: f64 = reports.iter().map(|r| r.0).sum();
    let (calls, faults) = reports.iter().fold((0, 0), |(calls, faults), r| (calls + r.1, faults + r.2));
    // One run leaves nothing to the next, and no core fills its store by itself: 20 GiB were seen.
    assert!(memory_max() < 1 << 30, "{} MiB", memory_max() >> 20);
    println!("{hours:.1} virtual hours, {calls} operations, {faults} faults");
    assert!(calls > 0 && faults > 0);
}

#[test]
fn a_seed_is_the_same_history_twice() {
    for seed in [3, 4, 17, 0x1f2e] {
        let (a, b) = (run(&Plan::of(seed), None, false), run(&Plan::of(seed), None, false));
        assert_eq!((a.trace, a.events, a.calls), (b.trace, b.events, b.calls), "seed {seed:#x}");
    }
}

/// Devices of three copies of which two are written at least go one at a time, and others come.
#[test]
fn a_cluster_survives_the_loss_of_its_devices_one_at_a_time() {
    let mut replaced = 0;
    for (seed, store) in [(1, StoreKind::Ideal), (2, StoreKind::Block)] {
        let mut plan = Plan::figure(seed, store);
        (plan.add_osd, plan.empty_osd, plan.lose_osd) = (60_000, 5_000, 60_000);
        let report = run(&plan, None, false);
        assert_eq!((report.failure, report.rest), (None, Some(Rest::Whole)), "seed {seed}, {store:?}");
        assert!(report.added > 0, "seed {seed}, {store:?}");
        replaced += report.replaced;
    }
    assert!(replaced > 1, "{replaced} devices were replaced");
}

/// Two devices have two OSDs each: one is lost with both, and all that was acknowledged is on the other. Where rules choose among OSDs
/// it is not.
#[test]
fn nothing_acknowledged_is_lost_with_a_device_of_several_osds() {
    let (mut replaced, mut noticed) = (0, 0);
    for (seed, store) in [(1, StoreKind::Ideal), (2, StoreKind::Block), (3, StoreKind::Block)] {
        let plan = Plan::on_two_devices(seed, store);
        let report = run(&plan, None, false);
        assert_eq!((report.failure, report.rest), (None, Some(Rest::Whole)), "seed {seed}, {store:?}");
        replaced += report.replaced;
        let broken = catch_unwind(|| run(&plan, Some(Planted::ChoosesOsds), false));
        noticed += u32::from(broken.map_or(true, |report| report.failure.is_some()));
    }
    assert!(replaced > 5 && noticed == 3, "{replaced} devices were replaced; the rule by OSD was noticed by {noticed} of 3 seeds");
}

/// A shard answers Control at any time later, as if each had a thread.
#[test]
fn seeds_come_out_right_where_shards_answer_late() {
    let (k, n) = share::asked();
    let others = on_all_cores(36 * (k - 1) / n..36 * k / n, |seed| {
        let late = run(&Plan::of(seed).with_late_answers(), None, false);
        assert_eq!(late.failure, None, "seed {seed:#x} with late answers");
        late.trace != run(&Plan::of(seed), None, false).trace
    });
    assert!(others.iter().filter(|is_other| **is_other).count() * 2 > others.len(), "late answers change what happens");
}

/// A core that looks at an address, a clock or a randomly hashed map would do something else the second time: standard maps hash differently each
/// time they are made, and memory comes from elsewhere.
#[test]
fn the_same_events_give_the_same_effects_in_the_same_order() {
    for seed in [1, 2, 5, 0x2a, 0x77, 0x3001] {
        let first = run_deep(&Plan::of(seed));
        // Holes of many sizes, and what is left of them stays while the second run goes on.
        let mut blocks: Vec<Option<Vec<u8>>> = (0..20_000_usize).map(|i| Some(vec![1; 8 + i * 2_654_435_761 % 3000])).collect();
        blocks.iter_mut().step_by(3).for_each(|block| *block = None);
        let second = run_deep(&Plan::of(seed));
        assert_eq!((first.trace, first.events, &first.failure), (second.trace, second.events, &second.failure), "seed {seed:#x}");
        assert!(blocks.iter().flatten().count() > 10_000 && first.failure.is_none());
    }
}

/// True if a checker, or an assertion of a core, says that this seed is wrong, and that it is right without the bug.
fn is_noticed(planted: Planted, seed: u64) -> bool {
    let fails = |planted| catch_unwind(|| run(&Plan::of(seed), planted, false)).map_or(true, |report| report.failure.is_some());
    fails(Some(planted)) && !fails(None)
}

/// Seeds that may notice it. A broken promise to clients that want harm shows only where some come, and few seeds have those: more are
/// looked through.
fn seeds_for(planted: Planted) -> impl Iterator<Item = u64> {
    let is_theirs = |bug| matches!(bug, OsdBug::EmptyPages | OsdBug::TrustPgop | OsdBug::BelieveKind | OsdBug::HoldWaiting);
    let is_theirs = matches!(planted, Planted::Osd(bug) if is_theirs(bug));
    (0..if is_theirs { 160 } else { 40 }).filter(move |seed| !is_theirs || Plan::of(*seed).hostile > 0)
}

/// Those that few seeds find, or the share of them that is asked for: `cargo xtask sim --bugs` looks for all of them.
#[test]
fn broken_promises_are_noticed() {
    let few = [
        Planted::OldDisk,
        Planted::TwiceAsTwo,
        Planted::MonForgets,
        Planted::AcknowledgesUnkept,
        Planted::Osd(OsdBug::EmptyPages),
        Planted::Osd(OsdBug::TrustPgop),
        Planted::Osd(OsdBug::BelieveKind),
        Planted::Osd(OsdBug::HoldWaiting),
        Planted::Osd(OsdBug::ForgetOmapDirty),
        Planted::Osd(OsdBug::ForgetDataDirty),
        Planted::Osd(OsdBug::SkipClone),
        Planted::Osd(OsdBug::TrimSharedClone),
        Planted::Osd(OsdBug::ReplicaAckEarly),
        Planted::Osd(OsdBug::IgnoreLastStarted),
        Planted::Osd(OsdBug::LoseDup),
        Planted::Osd(OsdBug::GrantTwice),
    ];
    let few: Vec<Planted> = share::of(few).filter(|_| cfg!(debug_assertions)).collect();
    on_all_cores(0..few.len() as u64, |place| {
        let planted = few[place as usize];
        assert!(ALL.contains(&planted), "{planted:?} is in the table");
        let seeds = seeds_for(planted).find(|seed| is_noticed(planted, *seed));
        println!("{planted:?}: noticed by seed {seeds:?}");
        assert!(seeds.is_some(), "{planted:?} is not noticed");
    });
}
