//! The kept figures: `docs/figures.json` and what is drawn from it, README's picture (light and dark) and the guide's tables.
//!
//! Holds the data's form and the drawing. Does not measure: the laboratory does, and `suites::figures` puts its rows here.

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::process::Command;
use std::time::Duration;
use suites::run::{root, run};

/// The kept figures, below the workspace's root.
const DATA: &str = "docs/figures.json";
/// The guide's page, written from them.
const PAGE: &str = "docs/src/figures.md";

/// Colours of a picture.
struct Palette {
    file: &'static str,
    text: &'static str,
    quiet: &'static str,
    ours: &'static str,
    stock: &'static str,
}

const PALETTES: [Palette; 2] = [
    Palette { file: "docs/src/figures-light.svg", text: "#1f2328", quiet: "#59636e", ours: "#0969da", stock: "#afb8c1" },
    Palette { file: "docs/src/figures-dark.svg", text: "#f0f6fc", quiet: "#9198a1", ours: "#4493f8", stock: "#59636e" },
];

/// What the picture shows of the block store's run, in this order, and what it calls it.
const SHOWN: [(&str, &str); 6] = [
    ("fio 4 KiB randwrite, depth 1", "4 KiB random write, depth 1"),
    ("fio 4 KiB randread, depth 1", "4 KiB random read, depth 1"),
    ("fio 4 KiB randwrite, depth 64", "4 KiB random write, depth 64"),
    ("fio 4 KiB randread, depth 64", "4 KiB random read, depth 64"),
    ("fio 64 KiB write, depth 16", "64 KiB write, depth 16"),
    ("fio 64 KiB read, depth 16", "64 KiB read, depth 16"),
];

/// What one side's figures are, in the data and in the tables' heads.
const COLUMNS: [(&str, &str); 5] = [
    ("cpu_us", "server CPU us/op"),
    ("latency_us", "latency us"),
    ("amplification", "bytes written for each of the client's"),
    ("tail_us", "99.99 % latency us"),
    ("objects_s", "objects/s"),
];

/// The same for a run that may be the first of its name; `head` has its title, its setting and what stock is.
pub fn keep_first(name: &str, head: Value, command: &str, rows: Vec<Value>) -> Result<()> {
    let mut data = read()?;
    data[name] = head;
    write(&data)?;
    keep(name, command, rows)
}

/// Keeps a run, in place of an older one of that name, with the date and commit, and draws all anew. The notes of the older run go with it.
pub fn keep(name: &str, command: &str, rows: Vec<Value>) -> Result<()> {
    let mut data = read()?;
    let said = |program: &str, args: &[&str]| -> Result<String> {
        let out = run(Command::new(program).args(args).current_dir(root()), Duration::from_secs(10))?;
        Ok(out.stdout.trim().to_string())
    };
    let kept = data.get_mut(name).with_context(|| format!("{DATA} has no run {name}"))?;
    kept["date"] = json!(said("date", &["+%F"])?);
    kept["commit"] = json!(said("git", &["rev-parse", "--short", "HEAD"])?);
    kept["command"] = json!(command);
    kept["notes"] = json!([]);
    kept["rows"] = json!(rows);
    write(&data)?;
    draw()
}

fn write(data: &Value) -> Result<()> {
    std::fs::write(root().join(DATA), format!("{}\n", serde_json::to_string_pretty(data)?)).context(DATA)
}

fn read() -> Result<Value> {
    let text = std::fs::read_to_string(root().join(DATA)).context(DATA)?;
    serde_json::from_str(&text).context(DATA)
}

/// Draws the pictures and writes the page.
pub fn draw() -> Result<()> {
    for (file, text) in drawn(&read()?)? {
        std::fs::write(root().join(file), text).with_context(|| file.to_string())?;
        println!("{file}");
    }
    Ok(())
}

/// All files that come of the data, with their texts.
fn drawn(data: &Value) -> Result<Vec<(&'static str, String)>> {
    let mut files = vec![(PAGE, page(data))];
    for palette in &PALETTES {
        files.push((palette.file, picture(&data["block"], palette)?));
    }
    Ok(files)
}

/// Two bars for each load: CPU time per operation of both sides, and their ratio.
fn picture(run: &Value, palette: &Palette) -> Result<String> {
    const LEFT: f64 = 210.0;
    const WIDTH: f64 = 400.0;
    const ROW: f64 = 46.0;
    const TOP: f64 = 58.0;
    let rows = run["rows"].as_array().context("a run has rows")?;
    let cpu = |row: &Value, side: &str| row[side]["cpu_us"].as_f64().unwrap_or(0.0);
    let found = |load: &str| rows.iter().find(|row| row["load"] == load).with_context(|| format!("{DATA} has no row {load}"));
    let shown = SHOWN.iter().map(|(load, label)| Ok((found(load)?, *label))).collect::<Result<Vec<_>>>()?;
    let most = shown.iter().flat_map(|(row, _)| [cpu(row, "ours"), cpu(row, "stock")]).fold(1.0, f64::max);
    let height = TOP + ROW * shown.len() as f64 + 24.0;
    let Palette { text, quiet, ours, stock, .. } = palette;
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 760 {height}' font-family='system-ui,sans-serif' font-size='13' role='img' \
         aria-label='Server CPU time per operation, Humboldt beside stock'>\n\
         <text x='0' y='18' fill='{text}' font-weight='600' font-size='15'>Server CPU time per operation, microseconds (less is better)</text>\n\
         <rect x='0' y='30' width='12' height='12' fill='{ours}'/><text x='18' y='41' fill='{text}'>Humboldt</text>\n\
         <rect x='100' y='30' width='12' height='12' fill='{stock}'/><text x='118' y='41' fill='{text}'>Ceph, {}</text>\n",
        run["stock"].as_str().unwrap_or_default()
    );
    for (n, (row, label)) in shown.iter().enumerate() {
        let y = TOP + ROW * n as f64;
        let _ = writeln!(svg, "<text x='0' y='{}' fill='{text}'>{label}</text>", y + 22.0);
        for (side, colour, at) in [("ours", ours, y + 4.0), ("stock", stock, y + 21.0)] {
            let (us, wide) = (cpu(row, side), cpu(row, side) / most * WIDTH);
            let _ = writeln!(
                svg,
                "<rect x='{LEFT}' y='{at}' width='{wide:.1}' height='15' rx='2' fill='{colour}'/>\
                 <text x='{:.1}' y='{}' fill='{quiet}' font-size='12'>{us}</text>",
                LEFT + wide + 6.0,
                at + 12.0
            );
        }
        let ratio = |name: &str| row[name].as_f64().unwrap_or(0.0);
        let _ = writeln!(
            svg,
            "<text x='760' y='{}' text-anchor='end' fill='{text}'>CPU × {:.2}</text>\
             <text x='760' y='{}' text-anchor='end' fill='{quiet}' font-size='12'>latency × {:.2}</text>",
            y + 16.0,
            ratio("cpu_ratio"),
            y + 33.0,
            ratio("latency_ratio")
        );
    }
    let text = |name: &str| run[name].as_str().unwrap_or_default();
    let _ = writeln!(
        svg,
        "<text x='0' y='{}' fill='{quiet}' font-size='12'>{}, commit {}: one OSD, one copy, fio and librbd, median of interleaved rounds</text>\n</svg>",
        height - 6.0,
        text("date"),
        text("commit")
    );
    Ok(svg)
}

fn number(v: Option<&Value>) -> String {
    v.and_then(Value::as_f64).map_or(String::new(), |n| if n >= 1000.0 { format!("{n:.0}") } else { n.to_string() })
}

fn table(run: &Value) -> String {
    let rows: Vec<&Value> = run["rows"].as_array().into_iter().flatten().collect();
    let sides: Vec<&str> = ["ours", "stock", "null"].into_iter().filter(|side| rows.iter().any(|r| r[side].is_object())).collect();
    let columns: Vec<_> = COLUMNS.iter().filter(|(key, _)| rows.iter().any(|r| r["ours"][key].is_number())).collect();
    let names: Vec<&str> = sides.iter().map(|s| if *s == "stock" { run["stock"].as_str().unwrap_or("stock") } else { s }).collect();
    let heads: Vec<String> = columns.iter().map(|(_, head)| format!("{head}, {}", names.join(" / "))).collect();
    let mut out = format!("| load | {} | CPU ratio | latency ratio |\n|---|{}---|---|\n", heads.join(" | "), "---|".repeat(heads.len()));
    for row in rows {
        let cell = |key: &str| {
            let of: Vec<String> = sides.iter().map(|side| number(row[side].get(key))).collect();
            if of.iter().all(String::is_empty) { String::new() } else { of.join(" / ") }
        };
        let cells: Vec<String> = columns.iter().map(|(key, _)| cell(key)).collect();
        let load = row["load"].as_str().unwrap_or_default();
        let _ =
            writeln!(out, "| {load} | {} | {} | {} |", cells.join(" | "), number(row.get("cpu_ratio")), number(row.get("latency_ratio")));
    }
    out
}

fn page(data: &Value) -> String {
    let mut out = "\
# Figures beside stock Ceph

This page is written by `cargo xtask figures` from `docs/figures.json`. A figure is the median of interleaved rounds: Humboldt, stock, Humboldt,
stock, in the same run on the same machine. Compare ratios, not microseconds: another machine has other microseconds.

![Server CPU time per operation beside stock](figures-light.svg)
"
    .to_string();
    for run in data.as_object().into_iter().flat_map(Map::values) {
        let text = |name: &str| run[name].as_str().unwrap_or_default();
        let _ = write!(
            out,
            "\n## {}\n\n{} Measured on {} at commit {} with `{}`.\n\n{}",
            text("title"),
            text("setting"),
            text("date"),
            text("commit"),
            text("command"),
            table(run)
        );
        let notes: Vec<&str> = run["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !notes.is_empty() {
            let _ = write!(out, "\n{}", notes.iter().map(|n| format!("- {n}\n")).collect::<String>());
        }
    }
    out + AGING
}

const AGING: &str = "
## A store that grows old

![How fast a store takes overwrites as it ages](aging.svg)

An image was overwritten 300 times its size (75 GiB) by 4 KiB, 64 KiB and 1 MiB, with snapshots. No object came to lie in more pieces than the 64 that
the layout allows. The first tenth of the run wrote 796 MiB/s and the last tenth 978 MiB/s; for each second of CPU, 1,961 and 2,203 MiB. An aged store and
a young one then worked in turns on the same overwrites: the aged one had 1.01 times the speed of the young one by the clock and 0.95 times by CPU time
(medians of 80 turns). The command: `cargo run --release -p store-block --example aging -- FOLDER docs/src/aging.svg 300`.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_is_drawn() {
        for (file, text) in drawn(&read().unwrap()).unwrap() {
            let there = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            assert!(there == text, "{file} is not what docs/figures.json says: run `cargo xtask figures --draw`");
        }
    }
}
