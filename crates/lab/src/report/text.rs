//! What the command prints: a plan before, verdicts after.

use super::figure;
use crate::metric::Metric;
use crate::plan::Plan;
use crate::results::Results;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Why cells are skipped, and how many.
pub fn skips(plan: &Plan) -> String {
    let mut reasons: BTreeMap<(String, &str), usize> = BTreeMap::new();
    plan.skipped().for_each(|(cell, why)| *reasons.entry((cell.setup.show(), why)).or_default() += 1);
    reasons.iter().map(|((target, why), n)| format!("  SKIPPED {target}: {why} ({n} cells)\n")).collect()
}

/// What will be done, and how many `minutes` that takes.
pub fn plan(plan: &Plan, minutes: f64) -> String {
    let skipped = plan.skipped().count();
    let mut out = format!(
        "{}: {} cells in {} rows, {} visits of {} + {} s in {} rounds: about {:.0} minutes; {}\n",
        plan.study,
        plan.cells.len() - skipped,
        plan.rows.len(),
        plan.steps.len(),
        plan.rules.warm_s,
        plan.rules.seconds,
        plan.rules.rounds,
        minutes.ceil(),
        if plan.all_up { "all targets run at once" } else { "one target runs at a time" }
    );
    let _ = writeln!(out, "  memory {} MiB", plan.memory_at_once_bytes() >> 20);
    for setup in plan.setups() {
        let _ = writeln!(out, "  {}", setup.show());
    }
    out + &skips(plan)
}

/// One line a cell.
pub fn verdicts(results: &Results) -> String {
    let mut out = String::new();
    for row in &results.rows {
        let _ = writeln!(out, "{}", row.title);
        for cell in &row.cells {
            if cell.state != "valid" {
                let _ = writeln!(out, "  {:<28} {}: {}", cell.target, cell.state, cell.reason.as_deref().unwrap_or_default());
                continue;
            }
            let value = |m: Metric| cell.metrics.get(&m).map_or("-".into(), |r| figure(r.median));
            let verdict = |m: Metric| {
                cell.verdicts.get(&m).map_or(String::new(), |v| {
                    let few = v.too_few().map_or(String::new(), |few| format!(": {few}"));
                    format!(" ({} x{} [{}-{}]{few})", v.word, figure(v.ratio.median), figure(v.ratio.low), figure(v.ratio.high))
                })
            };
            let _ = write!(out, "  {:<28} {} IOPS{}", cell.target, value(Metric::Iops), verdict(Metric::Iops));
            let _ = write!(out, ", mean {} us", value(Metric::MeanUs));
            if cell.metrics.contains_key(&Metric::ServerCpuUs) {
                let _ = write!(out, ", {} us CPU/op{}", value(Metric::ServerCpuUs), verdict(Metric::ServerCpuUs));
            }
            let written = cell.metrics.get(&Metric::Amplification).map(|r| format!(", {} bytes written a byte", figure(r.median)));
            let _ = writeln!(out, "{}", written.unwrap_or_default());
            if cell.metrics.contains_key(&Metric::LastIops) {
                let of = |m: Metric| format!("{}{}", value(m), verdict(m));
                let (iops, cpu) = (of(Metric::LastIops), of(Metric::LastCpuUs));
                let (kept, slowest) = (of(Metric::Kept), of(Metric::SlowestShare));
                let _ = writeln!(
                    out,
                    "  {:<28} last tenth {iops} IOPS, {cpu} us CPU/op; {kept} of the first tenth's rate; slowest second {slowest} of the mean",
                    ""
                );
            }
        }
    }
    for claim in &results.claims {
        let _ = writeln!(out, "claim: {}", claim.text);
        for answer in &claim.answers {
            let times = if claim.absolute { "" } else { "x" };
            let figure = answer.ratio.as_ref().map_or(String::new(), |r| format!("{times}{}", figure(r.median)));
            let _ = writeln!(out, "  {:<14} {figure:<8} {}", answer.word, answer.place);
        }
    }
    out
}
