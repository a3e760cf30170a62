//! The figures against older commits, as they are kept: `docs/drift.json`, and the guide's page that is written from it.
//!
//! Does not measure.

use crate::drift::{Asked, Measured, Row};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::Command;
use std::time::Duration;
use suites::run::{root, run};

const DATA: &str = "docs/drift.json";
const PAGE: &str = "docs/src/drift.md";

/// Median, least and most of an odd or even number of values; at least one.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    ((values[(n - 1) / 2] + values[n / 2]) / 2.0, values[0], values[n - 1])
}

fn ratios(row: &Row, of: impl Fn(&Measured) -> f64) -> (f64, f64, f64) {
    spread(row.pairs.iter().map(|(ours, theirs)| of(ours) / of(theirs)).collect())
}

fn median(row: &Row, of: impl Fn(&(Measured, Measured)) -> f64) -> f64 {
    spread(row.pairs.iter().map(of).collect()).0
}

/// A line for each row: both medians, and the ratio of this tree to the other, pair by pair, with the least and the most.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| row | server CPU us/op, other / this | ratio [least to most] | latency ratio [least to most] |\n|---|---|---|---|\n",
    );
    for row in rows {
        let (cpu, cpu_least, cpu_most) = ratios(row, |m| m.cpu_us);
        let (time, time_least, time_most) = ratios(row, |m| m.mean_us);
        let _ = writeln!(
            out,
            "| {} | {:.1} / {:.1} | {cpu:.2} [{cpu_least:.2} to {cpu_most:.2}] | {time:.2} [{time_least:.2} to {time_most:.2}] |",
            row.name,
            median(row, |pair| pair.1.cpu_us),
            median(row, |pair| pair.0.cpu_us)
        );
    }
    out
}

/// Adds this run to those that are kept, and writes the page anew.
pub fn keep(other: &str, asked: &Asked, rows: &[Row]) -> Result<()> {
    let path = root().join(DATA);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| "[]".into());
    let mut runs: Vec<Value> = serde_json::from_str(&text).context(DATA)?;
    let said = |program: &str, args: &[&str]| -> Result<String> {
        Ok(run(Command::new(program).args(args).current_dir(root()), Duration::from_secs(10))?.stdout.trim().to_string())
    };
    runs.push(json!({
        "date": said("date", &["+%F"])?, "commit": said("git", &["rev-parse", "--short", "HEAD"])?, "against": other,
        "rounds": asked.rounds, "seconds": asked.seconds, "table": table(rows),
    }));
    std::fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&runs)?)).with_context(|| path.display().to_string())?;
    std::fs::write(root().join(PAGE), page(&runs)).with_context(|| PAGE.to_string())
}

/// Newest first.
fn page(runs: &[Value]) -> String {
    let mut out = String::from(
        "# From commit to commit\n\nWritten by `cargo xtask figures --against COMMIT --keep` from `docs/drift.json`. Two servers in turns on one machine, each on a fresh \
         cluster, loaded by\nthe same client. Below 1 the newer one takes less. Ratios alone can be compared between machines.\n",
    );
    for run in runs.iter().rev() {
        let text = |name: &str| run[name].as_str().unwrap_or_default();
        let _ = write!(
            out,
            "\n## {} beside {}\n\n{}, {} rounds of {} s.\n\n{}",
            text("commit"),
            text("against"),
            text("date"),
            run["rounds"],
            run["seconds"],
            text("table")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_pairs() {
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
        assert_eq!(spread(vec![4.0, 1.0, 2.0, 3.0]), (2.5, 1.0, 4.0));
        let at = |cpu_us: f64| Measured { cpu_us, mean_us: 100.0 };
        let row = Row { name: "r".into(), pairs: vec![(at(10.0), at(20.0)), (at(30.0), at(30.0)), (at(12.0), at(10.0))] };
        let text = table(&[row]);
        assert!(text.ends_with("| r | 20.0 / 12.0 | 1.00 [0.50 to 1.20] | 1.00 [1.00 to 1.00] |\n"), "{text}");
        let runs =
            [json!({ "commit": "a1", "against": "b2", "table": "T1\n" }), json!({ "commit": "c3", "against": "a1", "table": "T2\n" })];
        let page = page(&runs);
        assert!(page.find("## c3 beside a1").unwrap() < page.find("## a1 beside b2").unwrap(), "the newest comes first");
    }
}
