//! What looked closer: drills, block traces, CPU profiles.

use super::{figure, flame, svg};
use crate::plan::{Cell, Mode};
use crate::results::Run;
use crate::run::visit::Stat;
use crate::trace::Summary;
use crate::value::show_size;
use maud::{Markup, html};

/// Lengths of requests that are shown.
const LENGTHS: usize = 6;
/// Functions and threads that are shown.
const TOP: usize = 8;

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub fn drills(run: &Run) -> Markup {
    let cells: Vec<(usize, &Cell)> = run.plan.cells.iter().enumerate().filter(|(_, c)| c.work.is_drill()).collect();
    let any = cells.iter().any(|(at, _)| run.of(*at).iter().any(|r| r.stat.drill.is_some()));
    html! {
        @if any {
            h2 { "Drills" }
            p.note { "What was done under load, in seconds from its begin. The pause is the longest time without an answer to any request; \"clean\" counts from the drill that waits for it. The ledger holds writes that were acknowledged outside of the cluster, read back at the end." }
            div.wide { table {
                thead { tr { th { "target" } th { "load" } th.n { "round" } th { "done" } th.n { "pause, ms" } th.n { "clean after, s" } th.n { "sent meanwhile, MB" } th.n { "server CPU meanwhile, s" } th.n { "ledger" } th.n { "lost" } } }
                tbody { @for (at, cell) in cells { @for r in run.of(at) { @if let Some(d) = &r.stat.drill { tr {
                    td { (cell.setup.show()) }
                    td { (cell.work.show()) }
                    td.n { (r.round + 1) }
                    td { @for (i, (what, at_s)) in d.done.iter().enumerate() { @if i > 0 { ", " } (what) " at " (figure(*at_s)) } }
                    td.n { (d.pause_ms.map_or("–".into(), figure)) }
                    td.n { (d.clean_s.map_or("–".into(), figure)) }
                    td.n { (d.mended.as_ref().map_or("–".into(), |m| figure(m.sent_bytes as f64 / 1e6))) }
                    td.n { (d.mended.as_ref().map_or("–".into(), |m| figure(m.server_cpu_ns as f64 / 1e9))) }
                    td.n { (d.acknowledged) }
                    td.n { @if d.lost > 0 { span.FAILED { (d.lost) } } @else { "0" } }
                } } } } }
            } }
        }
    }
}

fn lengths(s: &Summary) -> String {
    let mut all: Vec<(u64, u64)> = s.lengths.iter().map(|(bytes, n)| (*bytes, *n)).collect();
    all.sort_by_key(|(bytes, n)| (std::cmp::Reverse(*n), *bytes));
    let total = all.iter().map(|(_, n)| n).sum::<u64>().max(1) as f64;
    let shown: Vec<String> =
        all.iter().take(LENGTHS).map(|(bytes, n)| format!("{} {}", show_size(*bytes), percent(*n as f64 / total))).collect();
    shown.join(", ")
}

/// What the target keeps on a device, and the kernel's number of it.
fn device(stat: &Stat, number: &str) -> String {
    stat.role(number).map_or(number.into(), |role| format!("{role} ({number})"))
}

pub fn traces(run: &Run) -> Markup {
    let looks: Vec<(&Cell, &Summary, String)> =
        run.looks_of(Mode::Trace).flat_map(|(c, stat)| stat.trace.iter().map(move |s| (c, s, device(stat, &s.device)))).collect();
    html! {
        @if !looks.is_empty() {
            h2 { "Block traces" }
            p.note { "Each request that devices of the target's own were given in one round that does not count. Sequential: it begins where the last one of its kind ended. Overlapping: a write over blocks that were written before in the same round." }
            div.wide { table {
                thead { tr { th { "target" } th { "load" } th { "device" } th.n { "reads" } th.n { "writes" } th.n { "flushes" } th.n { "sequential" } th.n { "overlapping" } th.n { "synchronous" } th { "lengths" } } }
                tbody { @for (cell, s, device) in &looks { tr {
                    td { (cell.setup.show()) } td { (cell.work.show()) } td { (device) }
                    td.n { (s.reads) } td.n { (s.writes) } td.n { (s.flushes) }
                    td.n { (percent(s.sequential)) } td.n { (percent(s.overlapping)) } td.n { (percent(s.synchronous)) }
                    td { (lengths(s)) }
                } } }
            } }
            @for (cell, s, device) in &looks { @if !s.points.is_empty() {
                details { summary { (cell.setup.show()) ", " (cell.work.show()) ", " (device) ": place over time" }
                    p.note { "Blue: reads. Rust: writes. " (s.points.len()) " requests, evenly chosen." }
                    (svg::scatter(&s.points))
                }
            } }
        }
    }
}

pub fn profiles(run: &Run) -> Markup {
    let looks: Vec<_> =
        run.looks_of(Mode::Profile).filter_map(|(c, stat)| Some((c, stat.profile.as_ref()?))).filter(|(_, p)| p.samples() > 0).collect();
    html! {
        @if !looks.is_empty() {
            h2 { "CPU profiles" }
            p.note { "Where the servers' CPU went in one round that does not count: perf's samples by the CPU's clock. A box's width is its share; each stands on what called it." }
            @for (cell, p) in &looks {
                details { summary { (cell.setup.show()) ", " (cell.work.show()) ": " (p.samples()) " samples" }
                    div.wide { table { thead { tr { th { "thread" } th.n { "share" } th { "function that ran" } th.n { "share" } } }
                        tbody {
                            @let (threads, functions) = (p.threads(), p.functions());
                            @for i in 0..TOP.min(threads.len().max(functions.len())) { tr {
                                @for of in [threads.get(i), functions.get(i)] {
                                    td { (of.map_or("", |f| f.0.as_str())) }
                                    td.n { (of.map_or(String::new(), |f| percent(f.1 as f64 / p.samples() as f64))) }
                                }
                            } }
                        } } }
                    (flame::graph(p))
                }
            }
        }
    }
}
