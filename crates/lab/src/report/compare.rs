//! Two results folders side by side: cells of the same hash, their rounds as two groups, since no round of one is a round of the other.

use super::figure;
use crate::metric::Metric;
use crate::results::Run;
use crate::stats::{Ratio, Verdict, Word};
use anyhow::{Result, ensure};
use std::fmt::Write;
use std::path::Path;

/// What is compared.
const METRICS: [Metric; 4] = [Metric::Iops, Metric::MeanUs, Metric::ServerCpuUs, Metric::Amplification];

/// The ratio of two groups that were not interleaved: of the medians, with the interval that both intervals allow.
fn ratio(a: &Ratio, b: &Ratio) -> Ratio {
    Ratio { median: a.median / b.median, low: a.low / b.high, high: a.high / b.low, rounds: a.rounds.min(b.rounds) }
}

/// A table as text. A folder against itself is "same" throughout: the same rounds differ by nothing.
pub fn compare(a: &Path, b: &Path) -> Result<String> {
    let (first, second) = (Run::load(a)?, Run::load(b)?);
    let itself = std::fs::read(a.join("journal.jsonl"))? == std::fs::read(b.join("journal.jsonl"))?;
    let mut out = String::new();
    let (mut shared, mut differ) = (0, 0);
    for (at, cell) in first.plan.cells.iter().enumerate() {
        let Some(other) = second.plan.cells.iter().position(|c| c.hash == cell.hash) else { continue };
        if cell.skipped.is_some() || second.plan.cells[other].skipped.is_some() {
            continue;
        }
        let mut line = format!("{}, {}:", cell.setup.show(), cell.work.show());
        for metric in METRICS {
            let of = |run: &Run, cell: usize| {
                Ratio::of_values(&run.of(cell).iter().filter_map(|r| r.value(metric)).collect::<Vec<_>>(), run.plan.seed)
            };
            let (Some(x), Some(y)) = (of(&second, other), of(&first, at)) else { continue };
            let verdict = Verdict::of(ratio(&x, &y), metric.better(), first.study.margin(), None);
            let word = if itself { Word::Same } else { verdict.word };
            differ += usize::from(word.differs());
            let _ = write!(line, " {} {word} (x{})", metric.name(), figure(verdict.ratio.median));
        }
        shared += 1;
        let _ = writeln!(out, "{line}");
    }
    ensure!(shared > 0, "{} and {} have no cell in common", a.display(), b.display());
    let alone = first.plan.cells.len().max(second.plan.cells.len()) - shared;
    let _ = writeln!(out, "{shared} cells in common, {differ} figures differ, {alone} cells skipped or in one folder only");
    Ok(out)
}
