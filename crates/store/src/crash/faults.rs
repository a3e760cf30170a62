//! The disks fail at each operation in turn. Whatever fails: nothing acknowledged is lost, nothing wrong is ever given, and the store either
//! goes on or says why not.

use super::Subject;
use super::check::{Wrong, find, open, same};
use super::life::{History, Life};
use base::Rng;
use disk::{CrashStates, Event, Fault, FaultKind, MemDisks, Tear};
use std::ops::Range;

const KINDS: [FaultKind; 6] =
    [FaultKind::Error, FaultKind::Short, FaultKind::NoSpace, FaultKind::FlushError, FaultKind::FlipRead, FaultKind::FlipWrite];

/// One life with one fault; an error tells what was wrong, `false` that the fault never struck.
pub fn one<S: Subject>(seed: u64, fault: Fault) -> Result<bool, String> {
    let at = |what: &str, e: Wrong| {
        format!("seed {seed}, {:?} at operation {}{}: {what}: {e}", fault.kind, fault.nth, if fault.sticky { " and later" } else { "" })
    };
    let life = Life::<S>::new(seed);
    let mut rng = Rng::new(seed ^ 0xfa17);
    let (history, end) = life.run(&mut rng, &[fault]);
    if let Err(e @ Wrong::Different(_)) = end {
        return Err(at("while it lives", e));
    }
    if history.faults_fired == 0 {
        return end.map(|()| false).map_err(|e| at("without a fault", e));
    }
    // What is on the disks now, as after a restart of the process; and what a power cut could leave.
    for round in 0..4 {
        let mut states = CrashStates::new(&history.recording);
        while let Some(event) = states.step() {
            if let Event::Note(mark) = event {
                history.note(mark);
            }
        }
        let disks = if round == 0 { MemDisks::with(history.last.clone()) } else { states.state(&mut rng, Tear::Sectors) };
        after::<S>(&disks, &history, fault.kind, &mut rng).map_err(|e| at(["after a restart", "after a power cut"][round.min(1)], e))?;
    }
    Ok(true)
}

/// What comes up after the fault.
fn after<S: Subject>(disks: &MemDisks, history: &History, kind: FaultKind, rng: &mut Rng) -> Result<(), Wrong> {
    // A bit that was stored wrong is damage: it may be refused, and never given out.
    let damage = kind == FaultKind::FlipWrite;
    let bear = |e: Wrong| if damage && matches!(e, Wrong::Refused(_)) { Ok(()) } else { Err(e) };
    let mut store = match open::<S>(disks, rng) {
        Ok(store) => store,
        Err(e) => return bear(e),
    };
    let n = match find(&mut store, &history.steps, &mut S::poll) {
        Ok(n) => n,
        Err(e) => return bear(e),
    };
    let allowed = history.allowed();
    // The newest records, stored wrong and with none behind them that says they were durable, look as if they had been torn.
    if !allowed.contains(&n) && !(damage && n < *allowed.start()) {
        return Err(Wrong::Different(format!("it has {n} transactions, {allowed:?} are allowed")));
    }
    same::<S>(&mut store, &history.steps[n], rng, !damage, &mut S::poll).or_else(bear)
}

/// All operations of a seed's life, each kind, once and from then on. How many faults struck.
pub fn all<S: Subject>(seed: u64, stride: u64) -> Result<u64, String> {
    let (history, end) = Life::<S>::new(seed).run(&mut Rng::new(seed ^ 0xfa17), &[]);
    end.map_err(|e| format!("seed {seed}: {e}"))?;
    let mut struck = 0;
    for (i, kind) in KINDS.into_iter().enumerate() {
        for nth in (i as u64 % stride..history.operations).step_by(stride as usize) {
            for sticky in [false, true] {
                struck += u64::from(one::<S>(seed, Fault { nth, kind, sticky, dev: None })?);
            }
        }
    }
    Ok(struck)
}

/// All of these seeds; how many faults struck. Panics with what was wrong first.
pub fn run<S: Subject>(seeds: Range<u64>, stride: u64) -> u64 {
    let struck = seeds.map(|seed| all::<S>(seed, stride).unwrap_or_else(|e| panic!("{e}"))).sum();
    println!("{struck} faults struck");
    struck
}
