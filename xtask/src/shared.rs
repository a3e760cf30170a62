//! `cargo xtask figures --shared-group`: the table of groups that stock OSDs and ours share, printed and kept beside the other figures.
//!
//! Absent: measuring (`suites::shared_group`).

use crate::args::FiguresArgs;
use crate::figures::keep_first;
use anyhow::Result;
use serde_json::{Value, json};
use suites::cluster::{Build, build, take};
use suites::shared_group::figures::{Asked, Metric, Row, measure};

/// Objects that fill a member, and with `--quick`.
const OBJECTS: [u32; 2] = [8000, 400];

fn tenths(n: f64) -> f64 {
    (n * 10.0).round() / 10.0
}
fn hundredths(n: f64) -> f64 {
    (n * 100.0).round() / 100.0
}

/// A row as it is kept: a ratio is ours to stock's, and of a rate none is kept.
fn kept(row: &Row) -> Value {
    let (name, ratio) = match row.metric {
        Metric::Cpu => ("cpu_us", Some("cpu_ratio")),
        Metric::Latency => ("latency_us", Some("latency_ratio")),
        Metric::Filled => ("objects_s", None),
    };
    let mut kept = json!({ "load": row.load, "ours": { name: tenths(row.ours) }, "stock": { name: tenths(row.stock) } });
    if let Some(ratio) = ratio {
        kept[ratio] = json!(hundredths(row.ours / row.stock));
    }
    kept
}

/// Measures, prints the rows, and keeps them if that is asked for.
pub fn figures(args: &FiguresArgs) -> Result<()> {
    take(Build::Shipped);
    build()?;
    let (rounds, seconds, objects) =
        if args.quick { (1, 2, OBJECTS[1]) } else { (args.rounds as usize, args.seconds.ceil() as u32, OBJECTS[0]) };
    let rows = measure(Asked { rounds, seconds, objects })?;
    for row in &rows {
        println!("{}: ours {:.1}, stock {:.1}, ratio {:.2}", row.load, row.ours, row.stock, row.ours / row.stock);
    }
    if !args.keep {
        return Ok(());
    }
    let setting = format!(
        "Three stock OSDs of 20.2 and two of Humboldt in one cluster with a stock monitor and manager: groups of three stock members, of ours \
         that leads two stock ones, and of a stock one that leads two of ours, loaded in turns with `rados bench`. CPU is that of one member \
         for each write of the client, beside a stock member in the same role of the group of stock OSDs alone. A member that is filled \
         is empty before, and its options are the defaults. Medians of {rounds} rounds of {seconds} s."
    );
    let head = json!({ "title": "Groups shared with stock OSDs", "stock": "BlueStore 20.2", "setting": setting });
    keep_first("shared", head, "cargo xtask figures --shared-group --keep", rows.iter().map(kept).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_kept_with_its_ratio_and_a_rate_without() {
        let row = |metric, ours, stock| Row { load: "writes".into(), metric, ours, stock };
        let cpu = kept(&row(Metric::Cpu, 20.04, 120.0));
        assert_eq!(cpu, json!({ "load": "writes", "ours": { "cpu_us": 20.0 }, "stock": { "cpu_us": 120.0 }, "cpu_ratio": 0.17 }));
        assert_eq!(kept(&row(Metric::Latency, 700.0, 1000.0))["latency_ratio"], 0.7);
        let rate = kept(&row(Metric::Filled, 900.0, 450.0));
        assert_eq!((&rate["ours"]["objects_s"], rate.get("cpu_ratio")), (&json!(900.0), None));
    }
}
