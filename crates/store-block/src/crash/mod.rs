//! Crash states: a store is driven by chance on disks that record, and at every moment of its life the power is cut in many ways. What comes
//! up again must be the state after some number of transactions, in order, of which no acknowledged one is missing, and pass fsck.
//!
//! ```text
//!   Life::new(seed)   transactions by chance on recording disks; what the store has after each, by the model
//!        │                 (every few lives, the store itself came up from a crash of the life before)
//!   each moment       certain writes, and a choice for each open one: lost, landed, torn at 4 KiB or 512 B
//!        │
//!   check()           open it: which transaction does it end with? is that allowed? is everything as the model has it? fsck
//!        │
//!   go_on()           for some: more transactions, restart, check; or crash while it comes up
//! ```
//! [`setting`] says what kinds of life there are: space that is scarce, a device that lags behind, a log that is full; [`work`] what is done in them.
//! [`killed`] cuts the power after a process was killed and another came up; [`left_behind`] has two records of one number in the log; [`rot`] changes blocks of a closed store; [`faults`]
//! makes the disks fail at each operation in turn. [`bugs`] breaks one promise at a time and demands that this suite notices.
//!
//! A failure names seed, moment and state: `CRASH_SEED=… cargo test -p store-block --lib crash::one_seed -- --nocapture` shows it again.

mod bugs;
mod check;
mod damage;
mod faults;
mod groups;
mod killed;
mod left_behind;
mod life;
pub(crate) mod rot;
mod seen;
mod setting;
mod work;

use base::Rng;
use check::check;
use disk::{CrashStates, Event, Tear};
use life::Life;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a run over seeds has seen.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    states: u64,
    /// Of them, those in which writes were open.
    open: u64,
    /// Of them, those from which the store went on.
    went_on: u64,
}

/// All states that are looked at of one seed's life; an error tells the first that is wrong.
fn run_seed(seed: u64) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let setting = setting::Setting::of(seed);
    let mut life = Life::new(seed);
    let mut rng = Rng::new(seed ^ 0x5eed);
    for generation in 0..2 {
        let (history, end) = life.run(&mut rng, &[]);
        end.map_err(|e| format!("seed {seed}, generation {generation}: {e}"))?;
        let mut states = CrashStates::new(&history.recording);
        let mut next = None;
        loop {
            let event = states.step();
            // A mark changes nothing on the disks; what it promises is in force at the next moment.
            if let Some(Event::Note(mark)) = event {
                history.note(mark);
                continue;
            }
            let samples = if states.open_writes() == 0 { 1 } else { 4 };
            for sample in 0..samples {
                let tear = [Tear::Never, Tear::Blocks, Tear::Sectors, Tear::Bytes][rng.below(4) as usize];
                let disks = states.state(&mut rng, tear);
                let at = || format!("seed {seed}, generation {generation}, moment {}, state {sample} ({tear:?})", states.at());
                tally.states += 1;
                tally.open += u64::from(states.open_writes() > 0);
                let goes_on = rng.chance(1, setting.go_on_every);
                tally.went_on += u64::from(goes_on);
                let keep = goes_on.then(|| disks.copy());
                let steps = check(&disks, &history, &mut rng, false).map_err(|e| format!("{}: {e}", at()))?;
                if let Some(disks) = keep {
                    life::go_on(&disks, &setting, &history.steps[steps], &mut rng).map_err(|e| format!("{}, going on: {e}", at()))?;
                    next = Some((states.at(), steps));
                }
            }
            if event.is_none() {
                break;
            }
        }
        // The next generation is what came up from a moment late in this one.
        let Some((moment, _)) = next else { break };
        let mut states = CrashStates::new(&history.recording);
        while states.at() < moment {
            states.step();
        }
        let disks = states.state(&mut rng, Tear::Sectors);
        life =
            Life::from_crash(seed, generation, &disks, &history).map_err(|e| format!("seed {seed}, generation {generation}, next: {e}"))?;
    }
    Ok(tally)
}

/// Seeds from `from` on, on two threads, until there were `states` states. Panics with what was wrong first.
fn run_states(from: u64, states: u64, every: u64) -> u64 {
    let (seed, seen) = (AtomicU64::new(from), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let work = || {
            while seen.load(Ordering::Relaxed) < states {
                let mine = seed.fetch_add(1, Ordering::Relaxed);
                let tally = run_seed(mine).unwrap_or_else(|e| panic!("{e}"));
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
    if let Some(cpu) = cpu_seconds() {
        println!("{:.0} a second of one core, in {cpu:.0} s of CPU", n as f64 / cpu.max(0.01));
    }
    n
}

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

#[test]
fn every_crash_state_comes_up_right() {
    run_states(0, from_env("CRASH_STATES").unwrap_or(100_000), 0);
}

/// The long run: `cargo xtask crash-states --from SEED --count STATES`.
#[test]
#[ignore = "as long as it is told to"]
fn many_crash_states() {
    run_states(from_env("CRASH_FROM").unwrap_or(1000), from_env("CRASH_COUNT").unwrap_or(100_000), 50_000);
}

/// Lives that once found a mistake: what a transaction waits for was read for ever; a half transaction became durable; a log filled while a
/// checkpoint lagged, and the next one could not begin; blocks that a transaction of many
/// needs were read for ever, since the first went while the last came; a record that an epoch had left behind was taken in place of the next one's.
#[test]
fn lives_that_once_failed() {
    for seed in [1006, 1015, 20054, 30981, 9_001_087] {
        run_seed(seed).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// One seed, to look at.
#[test]
fn one_seed() {
    let seed = from_env("CRASH_SEED").unwrap_or(1);
    let tally = run_seed(seed).unwrap_or_else(|e| panic!("{e}"));
    println!("{tally:?}");
    assert!(tally.open > tally.states / 4 && tally.went_on > 0, "the states are worth something: {tally:?}");
}
