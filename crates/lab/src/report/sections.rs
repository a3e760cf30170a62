//! The page's parts, from the verdicts to the published numbers.

use super::figure;
use super::svg::{self, Bar, Line};
use crate::metric::Metric;
use crate::plan::Cell;
use crate::results::{CellResult, Results, RowResult, Run};
use crate::stats::{Verdict, Word};
use crate::target::Kind;
use crate::value::Point;
use maud::{Markup, html};

/// What verdicts are given on, if it was measured.
const JUDGED: [Metric; 13] = [
    Metric::Iops,
    Metric::MeanUs,
    Metric::P99Us,
    Metric::ServerCpuUs,
    Metric::Amplification,
    Metric::PauseMs,
    Metric::CleanS,
    Metric::MendMbS,
    Metric::MendCpuUs,
    Metric::LastIops,
    Metric::LastCpuUs,
    Metric::Kept,
    Metric::SlowestShare,
];

fn class(word: Word) -> &'static str {
    match word {
        Word::Faster => "faster",
        Word::Slower => "slower",
        Word::Same => "same",
        Word::CantTell => "dim",
    }
}

/// Of CPU, bytes and waiting, less is not "faster".
fn word(metric: Metric, word: Word) -> String {
    use Metric::*;
    let is_amount = matches!(
        metric,
        ServerCpuUs | ClientCpuUs | Amplification | RssMib | DevicesBusy | CpuWait | PauseMs | CleanS | MendCpuUs | MendWritten | LastCpuUs
    );
    let is_share = matches!(metric, Kept | SlowestShare);
    match word {
        Word::Faster if is_amount => "less".into(),
        Word::Slower if is_amount => "more".into(),
        Word::Faster if is_share => "more".into(),
        Word::Slower if is_share => "less".into(),
        word => word.to_string(),
    }
}

fn verdict(metric: Metric, v: &Verdict) -> Markup {
    html! {
        span class=(class(v.word)) { (word(metric, v.word)) } " "
        small { "×" (figure(v.ratio.median)) " [" (figure(v.ratio.low)) "–" (figure(v.ratio.high)) "]" @if let Some(few) = v.too_few() { ": " (few) } }
    }
}

/// What the reference against itself said of the machine.
pub fn control(run: &Run, results: &Results) -> Markup {
    let spread = |metric: Metric| {
        let all = results.rows.iter().flat_map(|r| r.cells.iter()).filter(|c| c.control);
        all.filter_map(|c| c.verdicts.get(&metric)).map(|v| v.ratio.spread()).fold(None, |max, s| Some(max.map_or(s, |m: f64| m.max(s))))
    };
    let few = run.plan.rules.rounds < crate::stats::verdict::ROUNDS_MIN as u32;
    html! {
        @match (&run.study.rules.control, spread(Metric::Iops)) {
            (Some(name), Some(iops)) => p.note {
                "The control is " (name.get_ref()) " under a second name. It differed from itself by up to " (figure(iops * 100.0)) " % in IOPS"
                @if let Some(cpu) = spread(Metric::ServerCpuUs) { " and " (figure(cpu * 100.0)) " % in server CPU" }
                ". In each row, nothing smaller than its own control's difference is called."
            },
            _ => p.note { "This run has no control: the margin of " (figure(run.study.margin() * 100.0)) " % is all that differences are held against." },
        }
        @if few { p.note { "With fewer than five rounds only differences above 25 % are called, with fewer than three none." } }
    }
}

pub fn verdicts(results: &Results) -> Markup {
    let cells = || results.rows.iter().flat_map(|r| r.cells.iter());
    let judged: Vec<Metric> = JUDGED.into_iter().filter(|m| cells().any(|c| c.verdicts.contains_key(m))).collect();
    html! {
        h2 { "Verdicts" }
        div.wide { table {
            thead { tr { th { "row" } th { "target" } @for m in &judged { th { (m.title()) } } } }
            tbody { @for row in &results.rows { @for (i, cell) in row.cells.iter().enumerate() {
                tr {
                    td { @if i == 0 { (row.title) } }
                    td { (cell.target) }
                    @if cell.state != "valid" {
                        td colspan=(judged.len().max(1)) { span class=(cell.state) { (cell.state) } " " small { (cell.reason.as_deref().unwrap_or_default()) } }
                    } @else if cell.verdicts.is_empty() {
                        td colspan=(judged.len().max(1)) .dim { "what others are compared with" }
                    } @else {
                        @for m in &judged { td { @match cell.verdicts.get(m) { Some(v) => (verdict(*m, v)), None => span.dim { "–" } } } }
                    }
                }
            } } }
        } }
    }
}

fn colour(run: &Run, row: usize, cell: usize) -> &'static str {
    let setup = &run.plan.cells[run.plan.rows[row].cells[cell]].setup;
    match setup.kind {
        _ if setup.control => "control",
        Kind::Null | Kind::Device => "ceiling",
        _ => "bar",
    }
}

pub fn bars(run: &Run, results: &Results) -> Markup {
    let of = |row: usize, metric: Metric| -> Vec<Bar> {
        let cells = results.rows[row].cells.iter().enumerate();
        let bar = |(i, c): (usize, &CellResult)| {
            let r = c.metrics.get(&metric)?;
            Some(Bar { name: c.target.clone(), value: r.median, low: r.low, high: r.high, colour: colour(run, row, i) })
        };
        cells.filter_map(bar).collect()
    };
    html! {
        h2 { "Figures" }
        p.note { "Bars are medians of the rounds, whiskers their 95 % intervals. Grey: a ceiling (bare device, null responder). Ochre: the control." }
        @for (i, row) in results.rows.iter().enumerate() {
            h3 { (row.title) }
            @for metric in [Metric::Iops, Metric::MeanUs, Metric::ServerCpuUs, Metric::Amplification, Metric::PauseMs] {
                @let bars = of(i, metric);
                @if !bars.is_empty() { p.note { (metric.title()) } (svg::bars(&bars)) }
            }
        }
    }
}

/// The places of percentiles on an axis that gives each nine its room.
fn nines(name: &str) -> Option<f64> {
    let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
    Some(-(1.0 - percent / 100.0).log10())
}

pub fn latencies(results: &Results) -> Markup {
    let lines = |row: &RowResult| -> Vec<Line> {
        let line = |c: &CellResult| {
            let mut points: Vec<(f64, f64)> = c.percentiles.iter().filter_map(|(p, ns)| Some((nines(p)?, *ns as f64 / 1e3))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line { name: c.target.clone(), control: c.control, points }
        };
        row.cells.iter().map(line).filter(|l| l.points.len() > 1).collect()
    };
    let ticks: Vec<(f64, String)> =
        ["p50", "p90", "p99", "p99.9", "p99.99"].iter().filter_map(|p| Some((nines(p)?, format!("{} %", &p[1..])))).collect();
    html! {
        h2 { "Latencies" }
        p.note { "All valid rounds' operations together; a percentile is drawn only if ten operations or more lie beyond it." }
        @for row in &results.rows {
            @let lines = lines(row);
            @if lines.is_empty() { p.dim { (row.title) ": no histogram" } } @else {
                @let most = lines.iter().flat_map(|l| l.points.iter()).map(|p| p.0).fold(0.0, f64::max);
                @let shown: Vec<(f64, String)> = ticks.iter().filter(|t| t.0 <= most + 1e-9).cloned().collect();
                h3 { (row.title) }
                (svg::lines(&lines, &shown, "share of operations that were no slower", "µs"))
            }
        }
    }
}

/// All that has a depth, from the smallest on: a study may name its depths in another order.
fn by_depth<T>(all: impl Iterator<Item = T>, point: impl Fn(&T) -> &Point) -> Vec<T> {
    let mut found: Vec<T> = all.filter(|one| point(one).contains_key("depth")).collect();
    found.sort_by(|a, b| point(a)["depth"].cmp(&point(b)["depth"]));
    found
}

/// Latency over IOPS as the depth grows, where depth is an axis.
pub fn depths(run: &Run, results: &Results) -> Markup {
    let mut groups: Vec<(String, Vec<Line>)> = Vec::new();
    for (plan, row) in by_depth(run.plan.rows.iter().zip(&results.rows), |(plan, _)| &plan.point) {
        let mut rest = plan.point.clone();
        rest.remove("depth");
        let title = format!("{} {}", plan.load, crate::value::show(&rest));
        let at = groups.iter().position(|(t, _)| *t == title).unwrap_or_else(|| {
            groups.push((title, Vec::new()));
            groups.len() - 1
        });
        for cell in row.cells.iter().filter(|c| !c.control) {
            let (Some(iops), Some(us)) = (cell.metrics.get(&Metric::Iops), cell.metrics.get(&Metric::MeanUs)) else { continue };
            let lines = &mut groups[at].1;
            let line = lines.iter().position(|l| l.name == cell.target).unwrap_or_else(|| {
                lines.push(Line { name: cell.target.clone(), control: false, points: Vec::new() });
                lines.len() - 1
            });
            lines[line].points.push((iops.median, us.median));
        }
    }
    groups.iter_mut().for_each(|(_, lines)| lines.retain(|l| l.points.len() > 1));
    groups.retain(|(_, lines)| !lines.is_empty());
    html! {
        @if !groups.is_empty() {
            h2 { "Depths" }
            p.note { "Each point is a depth: how latency grows as more operations are under way." }
            @for (title, lines) in &groups {
                @let most = lines.iter().flat_map(|l| l.points.iter()).map(|p| p.0).fold(0.0, f64::max);
                @let least = lines.iter().flat_map(|l| l.points.iter()).map(|p| p.0).fold(f64::MAX, f64::min);
                h3 { (title) }
                (svg::lines(lines, &[(least, figure(least)), (most, figure(most))], "IOPS", "mean latency, µs"))
            }
        }
    }
}

pub fn claims(results: &Results) -> Markup {
    let class = |word: &str| match word {
        "holds" => "holds",
        "doesn't hold" => "not",
        _ => "dim",
    };
    html! {
        @if !results.claims.is_empty() {
            h2 { "Claims" }
            @for claim in &results.claims {
                h3 { "“" (claim.text) "”" @if let Some(seed) = &claim.seed { " " small { (seed) } } }
                p.note { code { (claim.condition) } }
                @if claim.answers.is_empty() { p.dim { "Nothing that was measured answers it." } } @else {
                    div.wide { table { tbody { @for a in &claim.answers { tr {
                        td { (a.place) }
                        td { span class=(class(&a.word)) { (a.word) } }
                        td { @if let Some(r) = &a.ratio { @if !claim.absolute { "×" } (figure(r.median)) " " small { "[" (figure(r.low)) "–" (figure(r.high)) "], " (r.rounds) " " (claim.of) } } }
                    } } } } }
                }
            }
        }
    }
}

pub fn cost(run: &Run, results: &Results) -> Markup {
    let is = |cell: &Cell, target: &str| cell.setup.target == target && !cell.setup.control;
    let best = |target: &str| {
        let mut found: Option<(f64, f64)> = None;
        for (plan, row) in run.plan.rows.iter().zip(&results.rows) {
            for (cell, planned) in row.cells.iter().zip(plan.cells.iter().map(|at| &run.plan.cells[*at])).filter(|(_, p)| is(p, target)) {
                let Some(iops) = cell.metrics.get(&Metric::Iops) else { continue };
                let mb = iops.median * planned.work.block as f64 / 1e6;
                let (i, m) = found.unwrap_or((0.0, 0.0));
                found = Some((i.max(iops.median), m.max(mb)));
            }
        }
        found
    };
    html! {
        @if !run.study.prices.is_empty() {
            h2 { "Cost" }
            p.note { "By the best row of each target." }
            div.wide { table {
                thead { tr { th { "target" } th.n { "price" } th.n { "per 1000 IOPS" } th.n { "per MB/s" } th.n { "per TB" } th.n { "W" } th { "source" } } }
                tbody { @for (given, price) in run.study.prices.iter().filter_map(|p| Some((p.get_ref(), p.get_ref().settle().ok()?))) {
                    @let best = best(&given.target);
                    @let measured = run.plan.cells.iter().find(|c| is(c, &given.target));
                    @let name = measured.map_or(given.target.clone(), |c| c.setup.show());
                    tr {
                        td { (name) ", " (price.terabytes) " TB" }
                        td.n { (figure(price.price)) " " (given.currency) }
                        td.n { @match best { Some((iops, _)) => (figure(price.price / iops * 1000.0)), None => "–" } }
                        td.n { @match best { Some((_, mb)) => (figure(price.price / mb)), None => "–" } }
                        td.n { (figure(price.price / price.terabytes)) }
                        td.n { @match price.watts { Some(w) => (figure(w)), None => "–" } }
                        td { (price.source) }
                    }
                } }
            } }
        }
    }
}

/// What others measured: as they gave it, and as shares of the first row, since their hardware is not ours.
pub fn published(run: &Run) -> Markup {
    html! {
        @if !run.study.published.is_empty() {
            h2 { "Published" }
            p.note { "Others' numbers, on others' hardware: only shapes and ratios compare. Small: the ratio to the table's first row." }
            @for table in &run.study.published {
                h3 { (table.table) }
                p.note { (table.unit) "; " (table.place) "; " (table.hardware) }
                div.wide { table {
                    thead { tr { th {} @for c in &table.columns { th.n { (c) } } } }
                    tbody { @for row in &table.rows { tr {
                        td { (row.name) }
                        @for (i, v) in row.values.iter().enumerate() {
                            td.n { (v) @if let Some(first) = table.rows[0].values.get(i) { " " small { "×" (figure(v / first)) } } }
                        }
                    } } }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn a_line_over_depths_goes_from_the_smallest_on() {
        let point = |depth: i64| Point::from([("depth".to_string(), Value::Number(depth))]);
        let points = [point(64), point(256), Point::new(), point(1)];
        let found = by_depth(points.iter(), |one| one);
        assert_eq!(found.iter().map(|one| one["depth"].to_string()).collect::<Vec<_>>(), ["1", "64", "256"]);
    }

    #[test]
    fn a_speed_is_faster_and_an_amount_less() {
        for metric in [Metric::Iops, Metric::MeanUs, Metric::P99Us, Metric::MendMbS] {
            assert_eq!((word(metric, Word::Faster), word(metric, Word::Slower)), ("faster".into(), "slower".into()), "{}", metric.name());
        }
        for metric in [Metric::ServerCpuUs, Metric::Amplification, Metric::CleanS, Metric::MendCpuUs] {
            assert_eq!((word(metric, Word::Faster), word(metric, Word::Slower)), ("less".into(), "more".into()), "{}", metric.name());
        }
    }
}
