//! The block store before the crash-state judge ([`store::crash`]), and what is asked of it alone.
//!
//! [`subject`] is the store as the judge drives it, [`setting`] the lives that it leads there, [`bugs`] its planted bugs. [`left_behind`] has two
//! records of one number in the log; [`rot`] repairs a store of which blocks have changed.
//!
//! A failure names seed, moment and state: `CRASH_SEED=… cargo test -p store-block --lib crash::one_seed -- --nocapture` shows it again.

mod bugs;
mod left_behind;
pub(crate) mod rot;
mod setting;
mod subject;

use std::ops::Range;
use store::crash::{run_seed, run_states};
use subject::Block;

/// CPU that the process has used.
fn cpu_seconds() -> Option<f64> {
    const TICKS: f64 = 100.0; // a second: USER_HZ
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<f64>().ok());
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|v| v.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Crash states from a seed on, and how fast they went.
fn states(from: u64, states: u64, every: u64) {
    let n = run_states::<Block>(from, states, every);
    if let Some(cpu) = cpu_seconds() {
        println!("{:.0} a second of one core, in {cpu:.0} s of CPU", n as f64 / cpu.max(0.01));
    }
}

/// Seeds that a hundred thousand states are of, about.
const SEEDS_OF_ALL: u64 = 60;

/// `HUMBOLDT_SHARE=k/n`, which a short `cargo xtask test` sets, has the k-th of n parts of states and of planted bugs.
fn share() -> (u64, u64) {
    parse_share(&std::env::var("HUMBOLDT_SHARE").unwrap_or_else(|_| "1/1".into()))
}
fn parse_share(share: &str) -> (u64, u64) {
    let (k, n) = share.split_once('/').and_then(|(k, n)| Some((k.parse::<u64>().ok()?, n.parse::<u64>().ok()?))).expect("k/n");
    assert!(0 < k && k <= n, "share {share}");
    (k, n)
}

/// Of some things this run's share: one in as many as there are parts, at least one, and without a share all.
pub(crate) fn by_turns<T>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    turns(share(), all.into_iter().collect())
}
fn turns<T>((k, n): (u64, u64), all: Vec<T>) -> Vec<T> {
    let first = (k - 1) % (all.len() as u64).clamp(1, n);
    all.into_iter().skip(first as usize).step_by(n as usize).collect()
}
/// The same of so many seeds, neighbours together: where a seed's remainder says what kind it is, each share has some of each.
fn seeds_by_turns(all: u64) -> Range<u64> {
    part(share(), all)
}
fn part((k, n): (u64, u64), all: u64) -> Range<u64> {
    let first = all * (k - 1) / n;
    first..(all * k / n).max(first + 1)
}

#[test]
fn shares_have_everything_once() {
    let shares = |n: u64| (1..=n).map(|k| format!("{k}/{n}")).collect::<Vec<_>>();
    assert_eq!((parse_share("1/1"), parse_share("3/6")), ((1, 1), (3, 6)));
    for (n, all) in [(1, 12), (6, 12), (6, 11), (6, 5), (6, 1)] {
        let of = |share: &String| (parse_share(share), (0..all).collect::<Vec<u64>>());
        let seen: Vec<u64> = shares(n).iter().map(of).flat_map(|(share, all)| turns(share, all)).collect();
        assert!((0..all).all(|i| seen.contains(&i)) && seen.len() as u64 <= all.max(n), "{n} shares of {all}: {seen:?}");
        let ranges: Vec<u64> = shares(n).iter().flat_map(|share| part(parse_share(share), all)).collect();
        assert!((0..all).all(|i| ranges.contains(&i)), "{n} shares of {all}: {ranges:?}");
    }
}

#[test]
fn every_crash_state_comes_up_right() {
    let (k, n) = share();
    states(SEEDS_OF_ALL * (k - 1) / n, from_env("CRASH_STATES").unwrap_or(100_000) / n, 0);
}

/// The long run: `cargo xtask crash-states --from SEED --count STATES`.
#[test]
#[ignore = "as long as it is told to"]
fn many_crash_states() {
    states(from_env("CRASH_FROM").unwrap_or(1000), from_env("CRASH_COUNT").unwrap_or(100_000), 50_000);
}

/// Lives whose checkpoints begin since a start would have much to replay.
#[test]
fn paced_checkpoints_lose_nothing() {
    for seed in by_turns(setting::PACED..setting::PACED + 6) {
        run_seed::<Block>(seed).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Lives whose store gives room back while they last: what is discarded is garbage from then on, or from the middle of it, or as it was.
#[test]
fn discards_lose_nothing() {
    let (k, n) = share();
    states(setting::DISCARDS + SEEDS_OF_ALL * (k - 1) / n, from_env("DISCARD_STATES").unwrap_or(30_000) / n, 0);
}

/// Lives that once found a mistake: what a transaction waits for was read for ever; a half transaction became durable; a log filled while a
/// checkpoint lagged, and the next one could not begin; blocks that a transaction of many
/// needs were read for ever, since the first went while the last came; a record that an epoch had left behind was taken in place of the next one's.
#[test]
fn lives_that_once_failed() {
    for seed in by_turns([1006, 1015, 20054, 30981, 9_001_087]) {
        run_seed::<Block>(seed).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// One seed, to look at.
#[test]
fn one_seed() {
    let seed = from_env("CRASH_SEED").unwrap_or(1);
    let tally = run_seed::<Block>(seed).unwrap_or_else(|e| panic!("{e}"));
    println!("{tally:?}");
    assert!(tally.open > tally.states / 4 && tally.went_on > 0, "the states are worth something: {tally:?}");
}

mod damage {
    use super::*;
    use store::crash::damage::one_life;

    #[test]
    fn damage_is_never_given_out() {
        let (mut done, mut refused) = (0, 0);
        for seed in seeds_by_turns(from_env("DAMAGE_SEEDS").unwrap_or(8)) {
            let (d, r) = one_life::<Block>(seed, 1500).unwrap_or_else(|e| panic!("{e}"));
            (done, refused) = (done + d, refused + r);
        }
        assert!(done > 100 && refused > 10, "{done} damages, {refused} refused");
    }
}

mod faults {
    use super::*;

    #[test]
    fn a_fault_at_every_operation_loses_nothing_and_gives_nothing_wrong() {
        // Each share has a life of its own, and fewer moments of that.
        let (k, n) = share();
        let from = from_env("FAULT_FROM").unwrap_or(k - 1);
        let seeds = from..from + from_env("FAULT_SEEDS").unwrap_or(1);
        let struck = store::crash::faults::run::<Block>(seeds, from_env("FAULT_STRIDE").unwrap_or(10 * n));
        assert!(struck > 100 / n, "only {struck} faults struck");
    }
}

mod killed {
    use super::*;

    #[test]
    fn what_a_start_shows_outlives_the_power() {
        let seeds = seeds_by_turns(60);
        let seen = store::crash::killed::run::<Block>(seeds.clone());
        assert!(seen >= 4 * (seeds.end - seeds.start), "each has some states: {seen}");
    }
}
