//! The page about a results folder: one file, nothing from outside, readable without scripts, the same bytes each time.
//!
//! Verdicts come first, then bars beside ceiling and control, latencies, claims, cost, published numbers, and last everything that a reader
//! needs to doubt it: machine, ceilings, each round, each mark, what was skipped.

pub mod compare;
mod disclosure;
mod flame;
mod looks;
mod sections;
mod svg;
pub mod text;

use crate::results::{Results, Run};
use crate::run::folder;
use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;
use std::path::{Path, PathBuf};

const STYLE: &str = include_str!("style.css");

/// Writes report.html; its path.
pub fn write(dir: &Path) -> Result<PathBuf> {
    let run = Run::load(dir)?;
    let results = Results::of(&run);
    let json = |name: &str| folder::read_json::<Value>(&dir.join(name)).unwrap_or(Value::Null);
    let page = page(&run, &results, &json("machine.json"), &json("ceilings.json"));
    let path = dir.join("report.html");
    folder::write(&path, page.into_string().as_bytes())?;
    folder::sums(dir)?;
    Ok(path)
}

fn page(run: &Run, results: &Results, machine: &Value, ceilings: &Value) -> Markup {
    let title = if run.study.title.is_empty() { run.study.name().to_string() } else { run.study.title.clone() };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p.lead {
                    "Study " code { (run.study.name()) } ", " (if results.quick { "quick" } else { "full" }) ": "
                    (run.plan.rules.rounds) " rounds of " (run.plan.rules.seconds) " s, interleaved, order from seed " code { (results.seed) } ". "
                    @if !results.complete { strong { "Not complete: rounds are missing. " } }
                }
                (sections::verdicts(results))
                (sections::control(run, results))
                (sections::bars(run, results))
                (sections::latencies(results))
                (sections::depths(run, results))
                (looks::drills(run))
                (looks::traces(run))
                (looks::profiles(run))
                (sections::claims(results))
                (sections::cost(run, results))
                (sections::published(run))
                (disclosure::all(run, results, machine, ceilings))
            }
        }
    }
}

/// Three digits that count: 1234, 12.3, 0.0123.
pub fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
