//! A process is killed, the next one opens the store, and then the power is cut: what the second one showed must be there, though the first one's last
//! writes may have been in the devices' caches only.

use super::Subject;
use super::check::check;
use super::life::Life;
use base::Rng;
use disk::{CrashStates, Event, Tear};
use std::ops::Range;

/// One life, and states of the time after the second process had opened the store; returns how many.
pub fn one<S: Subject>(seed: u64) -> Result<u64, String> {
    let mut rng = Rng::new(seed ^ 0x4b11);
    let history = Life::<S>::new(seed).run_killed(&mut rng).map_err(|e| format!("seed {seed}, killed: {e}"))?;
    let events = history.recording.events();
    let opened = events.iter().rposition(|e| matches!(e, Event::Note(_))).expect("the history has marks");
    let mut states = CrashStates::new(&history.recording);
    let mut seen = 0;
    while let Some(event) = states.step() {
        if let Event::Note(mark) = event {
            history.note(mark);
        }
        for _ in 0..if states.at() > opened { 4 } else { 0 } {
            let disks = states.state(&mut rng, Tear::Sectors);
            check::<S>(&disks, &history, &mut rng, false).map_err(|e| format!("seed {seed}, killed, moment {}: {e}", states.at()))?;
            seen += 1;
        }
    }
    Ok(seen)
}

/// States of these seeds' lives. Panics with what was wrong first.
pub fn run<S: Subject>(seeds: Range<u64>) -> u64 {
    seeds.map(|seed| one::<S>(seed).unwrap_or_else(|e| panic!("{e}"))).sum()
}
