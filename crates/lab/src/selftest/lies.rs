//! Planted lies, each by a load or a target that tells it: the lab must notice, say which, and go on.

use super::{Temp, run_fakes};
use crate::results::{Results, Run};
use anyhow::{Context, Result, ensure};
use std::path::Path;

/// What the rounds say is no result of the self-test: INVALID and FAILED are what must come out.
pub const EXPECTED: &str = "self-test, lies are planted and INVALID and FAILED are expected: ";

/// The honest ones stand in every row, so that a study that does not go on is seen.
pub const STUDY: &str = r#"
lab = 1
name = "lies"
[[target]]
name = "honest"
kind = "fake"
store = "block"
args = ["--latency-us", "2000"]
[[target]]
name = "keeps-nothing"
kind = "fake"
store = "block"

args = ["--latency-us", "2000", "--lie", "keeps-nothing"]
[[target]]
name = "full"
kind = "fake"
store = "block"

args = ["--latency-us", "2000", "--lie", "full"]
[[target]]
name = "dies"
kind = "fake"
store = "block"

args = ["--latency-us", "2000", "--lie", "dies"]
[[target]]
name = "fails"
kind = "fake"
store = "block"
args = ["--latency-us", "2000", "--lie", "fails"]
[[load]]
name = "plain"
tool = "fake"
depth = 2
[[load]]
name = "elsewhere"
tool = "fake"
depth = 2
options = { lie = "elsewhere" }
only = "target=honest"
[[load]]
name = "early"
tool = "fake"
depth = 2
options = { lie = "early" }
only = "target=honest"
[[load]]
name = "cut"
tool = "fake"
depth = 2
options = { lie = "cut" }
only = "target=honest"
[[load]]
name = "clock"
tool = "fake"
depth = 2
options = { lie = "clock" }
only = "target=honest"
[[load]]
name = "deaf"
tool = "fake"
depth = 2
options = { lie = "deaf" }
only = "target=fails"
[rules]
quick = { rounds = 2, seconds = 0.8, warm_s = 0.1 }
"#;

/// Load, target, state, and a word of the reason.
pub const CAUGHT: &[(&str, &str, &str, &str)] = &[
    ("plain", "honest", "valid", ""),
    // The load runs, on something else: a mount that failed and left the host's folder there.
    ("elsewhere", "honest", "INVALID", "reach"),
    ("plain", "fails", "INVALID", "failed"),
    // The same, by a load that counts failed operations as good ones.
    ("deaf", "fails", "INVALID", "reach"),
    ("early", "honest", "INVALID", "ended early"),
    ("cut", "honest", "INVALID", "cut off"),
    ("plain", "keeps-nothing", "INVALID", "without storing"),
    ("clock", "honest", "INVALID", "ran for"),
    ("plain", "full", "FAILED", "full"),
    ("plain", "dies", "FAILED", "died"),
];

pub fn prove(program: &Path) -> Result<String> {
    let temp = Temp::new("l")?;
    let out = temp.0.join("r");
    let outcome = run_fakes(STUDY, program, &out, false)?;
    ensure!(!outcome.interrupted, "the study did not go on to its end");
    check(&Results::of(&Run::load(&out)?))
}

/// Every lie is noticed in these results.
pub fn check(results: &Results) -> Result<String> {
    for (load, target, state, word) in CAUGHT {
        let row = results.rows.iter().find(|r| r.title == *load).with_context(|| format!("no row {load}"))?;
        let cell = row.cells.iter().find(|c| c.target == *target).with_context(|| format!("no cell {load} {target}"))?;
        let reason = cell.reason.as_deref().unwrap_or_default();
        ensure!(cell.state == *state && reason.contains(word), "{load} on {target} is {} ({reason}), not {state} ({word})", cell.state);
        ensure!(cell.rounds.1 == 2, "{load} on {target} ran {} times", cell.rounds.1);
        ensure!(*state == "valid" || cell.metrics.is_empty(), "{load} on {target} has figures");
    }
    Ok(format!("        {} lies noticed, the honest target's {} rounds valid", CAUGHT.len() - 1, 2))
}
