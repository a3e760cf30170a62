//! The last part of the page: everything that a reader needs in order to doubt the first.

use super::figure;
use crate::metric::Metric;
use crate::results::{Results, Run};
use crate::run::judge::State;
use maud::{Markup, html};
use serde_json::Value;

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_f64() => figure(n.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

fn pairs(value: &Value) -> Markup {
    html! {
        @if let Some(object) = value.as_object() {
            div.wide { table { tbody { @for (key, v) in object { tr { td { (key) } td { (text(v)) } } } } } }
        } @else { p.dim { "not recorded" } }
    }
}

fn rounds(run: &Run) -> Markup {
    html! {
        @for cell in run.plan.cells.iter().enumerate().filter(|(_, c)| c.skipped.is_none()) {
            details {
                summary { (cell.1.setup.show()) ", " (cell.1.work.show()) " " small { "cells/" (cell.1.hash) } }
                pre { (serde_json::to_string(&(&cell.1.setup, &cell.1.work)).unwrap_or_default()) }
                div.wide { table {
                    thead { tr {
                        th.n { "round" } th { "state" } th.n { "operations" }
                        @for m in Metric::ALL { th.n { (m.title()) } }
                        th.n { "foreign CPU" } th.n { "steal" } th.n { "kernel's rest" } th.n { "CPU pressure" }
                    } }
                    tbody { @for r in run.of(cell.0) { tr {
                        td.n { (r.round + 1) @if r.attempts > 1 { " " small { "(" (r.attempts) " attempts)" } } }
                        td { @match &r.stat.state {
                            Some(State::Valid) => "valid",
                            Some(State::Invalid(why)) => { span.INVALID { "INVALID" } " " (why) },
                            Some(State::Failed(why)) => { span.FAILED { "FAILED" } " " (why) },
                            None => "–",
                        } }
                        td.n { (r.stat.told.as_ref().map_or(0, |t| t.ops)) }
                        @for m in Metric::ALL { td.n { (r.value(m).map_or("–".into(), figure)) } }
                        @for share in [Some(r.stat.used.foreign), Some(r.stat.used.steal), Some(r.stat.used.kernel_rest), r.stat.used.psi] {
                            td.n { (share.map_or("–".into(), |s| format!("{:.0} %", s * 100.0))) }
                        }
                    } } }
                } }
            }
        }
    }
}

pub fn all(run: &Run, results: &Results, machine: &Value, ceilings: &Value) -> Markup {
    let marks = || results.rows.iter().flat_map(|r| r.cells.iter().map(move |c| (r, c))).filter(|(_, c)| !c.marks.is_empty());
    html! {
        h2 { "Disclosure" }
        h3 { "Machine" }
        (pairs(machine))
        h3 { "What the machine gives at most" }
        (pairs(ceilings))
        h3 { "Not run" }
        @if run.plan.skipped().next().is_none() { p { "Nothing was skipped." } }
        @else { div.wide { table { tbody { @for (cell, why) in run.plan.skipped() {
            tr { td { (cell.setup.show()) ", " (cell.work.show()) } td { "SKIPPED: " (why) } }
        } } } } }
        h3 { "Marks" }
        @if marks().next().is_none() { p { "No round was disturbed or unsteady." } }
        @for (row, cell) in marks() {
            details { summary { (row.title) ", " (cell.target) ": " (cell.marks.len()) } @for m in &cell.marks { div { (m) } } }
        }
        h3 { "Rounds" }
        p.note {
            "The order of visits is plan.json's steps. Each round's command, raw output, samples and figures lie in cells/, under the name shown here; "
            "SHA256SUMS holds all of it together. CPU is the processes' own clock, in nanoseconds. A round counts once it is valid: see the manual for what is held against it."
        }
        (rounds(run))
        h3 { "The study" }
        details { summary { "study.toml as data" } pre { (format!("rules: {:?}\nmargin: {}, foreign CPU at most {}", run.plan.rules, run.study.margin(), run.study.foreign_max())) } }
    }
}
