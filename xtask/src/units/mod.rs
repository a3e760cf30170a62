//! The workspace's own test programs, run in the lanes that the cases have, each with its output kept and shown if it fails.
//!
//! [`program`] has one program's run. What cargo makes of them is in `suites::programs`; no case with stock programs is here.

pub mod program;

use program::Ran;
use std::collections::BTreeMap;
use suites::lanes::{Job, Lane};
use suites::programs::Program;
use suites::share::Share;

/// Crates whose tests start servers and wait for them; all others compute.
const WAITING: &[&str] = &["cli", "client", "lab", "mon", "net", "osd", "xtask"];

/// Programs that are long on any machine, the longest first, for a machine that has no table of its own yet. They are named `crate/target`.
const LONG: &[&str] =
    &["sim/seeds", "store-block/lib", "sim/wires", "osd-core/lib", "osd-core/suite", "store-mem/journal", "cli/lost_monitor"];

/// Programs beside which nothing runs: the laboratory proves its own instrument, to a few hundredths.
const ALONE: &[&str] = &["lab/selftest"];

fn lane(of: &Program) -> Lane {
    match () {
        () if ALONE.contains(&of.name.as_str()) => Lane::Alone,
        () if WAITING.contains(&of.package.as_str()) => Lane::Waiting,
        () => Lane::Computing,
    }
}

/// How long it took the last time; what was never seen goes by its place among the long ones.
fn usual_s(name: &str, known: &BTreeMap<String, f64>) -> f64 {
    let place = || LONG.iter().position(|long| *long == name).map_or(0.0, |n| 60.0 - n as f64);
    known.get(name).copied().unwrap_or_else(place)
}

/// That program as a job. `known` are seconds that programs took the last time, by name.
pub fn job(program: Program, known: &BTreeMap<String, f64>) -> Job<Program> {
    Job { lane: lane(&program), usual_s: usual_s(&program.name, known), it: program }
}

/// Runs it, and tells how it ended. `share` is what the long ones do of their seeds; all of them without.
pub fn one(program: &Program, share: Option<Share>) -> Ran {
    let ran = program::run(program, share);
    print!("{}", ran.story());
    ran
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_goes_by_its_time_and_what_was_not_by_the_list() {
        let known = BTreeMap::from([("sim/seeds".to_string(), 7.5)]);
        assert!((usual_s("sim/seeds", &known) - 7.5).abs() < 1e-9);
        assert!(usual_s("store-block/lib", &known) > usual_s("osd-core/lib", &known));
        assert!(usual_s("denc/fuzz", &known) < 1e-9);
    }
}
