//! Pictures as SVG, drawn by hand: bars with intervals, and lines over logarithmic axes. Colours are the page's variables.

use super::figure;
use maud::{Markup, html};

/// One bar.
pub struct Bar {
    pub name: String,
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// `bar`, `ceiling` or `control`.
    pub colour: &'static str,
}

const WIDTH: f64 = 760.0;
const NAMES: f64 = 200.0;
const ROW: f64 = 24.0;
/// What the figures behind the bars need.
const FIGURES: f64 = 90.0;

/// Horizontal bars from zero, each with its interval as a whisker.
pub fn bars(bars: &[Bar]) -> Markup {
    let most = bars.iter().map(|b| b.high.max(b.value)).fold(f64::MIN_POSITIVE, f64::max);
    let x = |value: f64| (value / most * (WIDTH - NAMES - FIGURES)).max(0.0);
    let height = ROW * bars.len() as f64 + 4.0;
    html! {
        div.wide { svg viewBox={ "0 0 " (WIDTH) " " (height) } width=(WIDTH) height=(height) role="img" {
            @for (i, bar) in bars.iter().enumerate() {
                @let y = ROW * i as f64 + 4.0;
                text x=(NAMES - 8.0) y=(y + 14.0) text-anchor="end" { (bar.name) }
                rect x=(NAMES) y=(y + 2.0) width=(format!("{:.1}", x(bar.value))) height="15" style={ "fill:var(--" (bar.colour) ")" } {}
                path d=(whisker(NAMES + x(bar.low), NAMES + x(bar.high), y + 9.5)) style="stroke:var(--ink);fill:none" {}
                text x=(format!("{:.1}", NAMES + x(bar.high.max(bar.value)) + 6.0)) y=(y + 14.0) { (figure(bar.value)) }
            }
        } }
    }
}

fn whisker(from: f64, to: f64, y: f64) -> String {
    format!("M{from:.1} {:.1}v8M{from:.1} {y:.1}H{to:.1}M{to:.1} {:.1}v8", y - 4.0, y - 4.0)
}

/// A line with its points.
pub struct Line {
    pub name: String,
    /// The reference under its second name: drawn in dashes.
    pub control: bool,
    pub points: Vec<(f64, f64)>,
}

const PLOT: (f64, f64) = (760.0, 300.0);
const LEFT: f64 = 64.0;
const RIGHT: f64 = 170.0;
const BOTTOM: f64 = 40.0;
const COLOURS: usize = 8;

/// Powers of ten within the range.
fn tens(low: f64, high: f64) -> Vec<f64> {
    (low.log10().ceil() as i32..=high.log10().floor() as i32).map(|e| 10f64.powi(e)).collect()
}

/// Lines over an upright logarithmic axis; `across` are the ticks of the other, which is linear in what the points have.
pub fn lines(lines: &[Line], across: &[(f64, String)], x_title: &str, y_title: &str) -> Markup {
    let all = || lines.iter().flat_map(|l| l.points.iter());
    let bounds = |of: fn(&(f64, f64)) -> f64| all().map(of).fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    let ((x0, x1), (y0, y1)) = (bounds(|p| p.0), bounds(|p| p.1));
    let (y0, y1) = ((y0 / 1.3).max(1e-9), y1 * 1.3);
    let x = |v: f64| LEFT + (v - x0) / (x1 - x0).max(1e-9) * (PLOT.0 - LEFT - RIGHT);
    let y = |v: f64| 10.0 + (y1.ln() - v.ln()) / (y1.ln() - y0.ln()).max(1e-9) * (PLOT.1 - BOTTOM - 10.0);
    let d = |points: &[(f64, f64)]| {
        let step = |(i, p): (usize, &(f64, f64))| format!("{}{:.1} {:.1}", if i == 0 { "M" } else { "L" }, x(p.0), y(p.1));
        points.iter().enumerate().map(step).collect::<String>()
    };
    html! {
        div.wide { svg viewBox={ "0 0 " (PLOT.0) " " (PLOT.1) } width=(PLOT.0) height=(PLOT.1) role="img" {
            @for tick in tens(y0, y1) {
                path d=(format!("M{LEFT} {:.1}H{:.1}", y(tick), PLOT.0 - RIGHT)) style="stroke:var(--line)" {}
                text x=(LEFT - 6.0) y=(format!("{:.1}", y(tick) + 4.0)) text-anchor="end" { (figure(tick)) }
            }
            @for (at, name) in across {
                text x=(format!("{:.1}", x(*at))) y=(PLOT.1 - BOTTOM + 16.0) text-anchor="middle" { (name) }
            }
            text x=(LEFT) y=(PLOT.1 - 6.0) { (x_title) }
            text x="0" y="12" { (y_title) }
            @for (i, line) in lines.iter().enumerate() {
                @let colour = if line.control { "var(--control)".into() } else { format!("var(--c{})", i % COLOURS) };
                @let dashes = if line.control { ";stroke-dasharray:6 4" } else { "" };
                path d=(d(&line.points)) style={ "fill:none;stroke-width:2;stroke:" (colour) (dashes) } {}
                @for point in &line.points {
                    circle cx=(format!("{:.1}", x(point.0))) cy=(format!("{:.1}", y(point.1))) r="3" style={ "fill:" (colour) } {}
                }
                rect x=(PLOT.0 - RIGHT + 14.0) y=(14.0 + 18.0 * i as f64) width="10" height="10" style={ "fill:" (colour) } {}
                text x=(PLOT.0 - RIGHT + 30.0) y=(23.0 + 18.0 * i as f64) { (line.name) }
            }
        } }
    }
}

const FIELD: (f64, f64) = (760.0, 260.0);
const GIB: f64 = (1u64 << 30) as f64;

/// Requests of a device: place over time; `(seconds, byte, bytes, is a write)`.
pub fn scatter(points: &[(f64, u64, u64, bool)]) -> Markup {
    let last = points.iter().map(|p| p.0).fold(1e-3, f64::max);
    let (low, high) = points.iter().fold((u64::MAX, 0), |(low, high), p| (low.min(p.1), high.max(p.1 + p.2)));
    let x = |at: f64| LEFT + at / last * (FIELD.0 - LEFT - 10.0);
    let y = |byte: u64| 10.0 + (1.0 - (byte - low) as f64 / (high - low).max(1) as f64) * (FIELD.1 - BOTTOM - 10.0);
    // One path for each kind: a point is a stroke of no length with round ends.
    let path =
        |writes: bool| points.iter().filter(|p| p.3 == writes).map(|p| format!("M{:.1} {:.1}h0", x(p.0), y(p.1))).collect::<String>();
    html! {
        div.wide { svg viewBox={ "0 0 " (FIELD.0) " " (FIELD.1) } width=(FIELD.0) height=(FIELD.1) role="img" {
            @for (at, byte) in [(10.0, high), (FIELD.1 - BOTTOM, low)] {
                path d=(format!("M{LEFT} {at:.1}H{:.1}", FIELD.0 - 10.0)) style="stroke:var(--line)" {}
                text x=(LEFT - 6.0) y=(at + 4.0) text-anchor="end" { (figure(byte as f64 / GIB)) }
            }
            text x="0" y=(FIELD.1 / 2.0) { "GiB" }
            text x=(LEFT) y=(FIELD.1 - BOTTOM + 18.0) { "0" }
            text x=(FIELD.0 - 10.0) y=(FIELD.1 - BOTTOM + 18.0) text-anchor="end" { (figure(last)) " s" }
            @for (writes, colour) in [(false, "--c0"), (true, "--c1")] {
                path d=(path(writes)) style={ "fill:none;stroke-width:2;stroke-linecap:round;stroke:var(" (colour) ")" } {}
            }
        } }
    }
}
