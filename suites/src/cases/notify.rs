//! How often a watcher hears a NOTIFY across a connection that is cut: at each byte of the notification and of what answers it, and while a slow
//! watcher has not answered yet.
//!
//! Seen with 16.2's and 18.2's clients on stock 18.2 and on ours alike: cut the watcher's connection anywhere, and each notification is heard once,
//! or twice where the watcher had heard it and not answered. Cut the notifier's while the OSD has its request and it has no answer, and the client
//! asks again: a second notification with an id of its own, which the watcher hears, too. The clients are unchanged; a proxy cuts. The same with
//! each byte, two orders of events and several cuts in a row is `osd-core`'s test `notify_cuts`.

use super::Case;
use crate::clients::Release::{self, Pacific, Reef};
use crate::cluster::Cluster;
use crate::netns::Namespace;
use crate::run::{root, run};
use crate::stock::{Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "notify_across_cut_connections", needs: &[Pacific], run: cut },
    Case { name: "stock_notify_across_cut_connections", needs: &[Pacific, Reef], run: || beside_stock(16) },
];

/// Bytes between two cuts: a prime, so that no boundary of a frame is met by rule.
const STEP: u32 = 13;
/// How long a slow watcher takes to answer, and how far from that a cut must fall for its outcome not to be chance, milliseconds.
const SLOW_MS: u64 = 120;
const NEAR_MS: u64 = 40;
/// How many places, of a hundred, may be cut on one side alone: what comes last may come before or after the notifier has its answer, and replies
/// need not be of one length.
const CUT_ON_ONE_SIDE: usize = 40;

/// What a proxy did and a watcher heard, a row for each cut; and all of it in one.
fn count(conf: &Path, release: Release, places: &str, slow_ms: u64, side: &str) -> Result<(Vec<Value>, Value)> {
    let away = Namespace::new("watch")?;
    // Where the release's Python sees it, too.
    let script = conf.with_file_name("notify.py");
    std::fs::copy(root().join("suites/src/cases/notify.py"), &script)?;
    let mut cmd = Pacific.command(conf, "/usr/bin/python3");
    cmd.arg(&script).arg("run").arg(conf).args([&away.name, "p", places, &slow_ms.to_string(), side]);
    if let Some(folder) = release.chroot() {
        cmd.arg("chroot").arg(folder);
    }
    let out = run(&mut cmd, Duration::from_secs(300))?;
    ensure!(out.ok(), "{}{}", out.stdout, out.stderr);
    let mut rows: Vec<Value> = out.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("lines of JSON")?;
    let all = rows.pop().context("no lines")?;
    ensure!(all["errors"].as_array().is_some_and(Vec::is_empty), "the watcher was told of errors: {all}");
    Ok((rows, all))
}
fn at(row: &Value) -> &str {
    row["at"].as_str().unwrap_or_default()
}
fn cuts(rows: &[Value], way: &str) -> usize {
    rows.iter().filter(|row| row["cut"] == true && at(row).starts_with(way)).count()
}

fn cut() -> Result<()> {
    let c = Cluster::start("notify-cut", &["--store", "mem"])?;
    c.must(Pacific, "ceph osd pool create p 1")?;
    for side in ["watcher", "notifier"] {
        let (rows, all) = count(&c.conf, Pacific, &STEP.to_string(), 0, side)?;
        let wrong: Vec<String> = rows.iter().filter_map(|row| judge(row, side == "notifier")).collect();
        ensure!(wrong.is_empty(), "the {side}'s connections cut:\n{}\n{all}", wrong.join("\n"));
        // A proxy that cuts nothing would show nothing.
        let (down, up) = (cuts(&rows, "down"), cuts(&rows, "up"));
        ensure!(down > 10 && up > 10, "{side}: {down} and {up} cuts");
        println!("  the {side}'s connections cut: {}", all["all"]);
    }
    c.stop()
}

/// The same cuts at random places on ours and on a stock OSD under a stock monitor, with 18.2's client in secure mode: the counts are equal.
fn beside_stock(seed: u32) -> Result<()> {
    let ours = Cluster::start("notify-ours", &["--store", "mem"])?;
    ours.must(Pacific, "ceph osd pool create p 1")?;
    let conf = ours.dir.join("sealed.conf");
    std::fs::write(&conf, format!("{}\n[client]\nms client mode = secure\n", std::fs::read_to_string(&ours.conf)?))?;
    let mut d = stock_control_plane("notify-stock", &Plane { monitors: 1, ..Plane::default() })?;
    stock_osd(&mut d, 0, "memstore")?;
    d.wait_up(1)?;
    d.must("ceph osd pool create p 1 1")?;
    d.wait_pgs(1)?;
    for (side, slow_ms, places) in [("watcher", 0, 60), ("watcher", SLOW_MS, 24), ("notifier", 0, 60)] {
        let places = format!("{seed}:{places}");
        let (of_ours, all) = count(&conf, Reef, &places, slow_ms, side)?;
        println!("  the {side}'s connections cut, ours:  {}", all["all"]);
        let (of_stock, all) = count(&d.conf, Reef, &places, slow_ms, side)?;
        println!("  the {side}'s connections cut, stock: {}", all["all"]);
        ensure!(of_ours.len() == of_stock.len(), "{side}: {} and {} rows", of_ours.len(), of_stock.len());
        let pairs: Vec<_> = of_ours.iter().zip(&of_stock).filter(|(row, _)| !is_chance(row)).collect();
        let alike: Vec<_> = pairs.iter().filter(|(row, beside)| row["cut"] == beside["cut"]).collect();
        let others: Vec<String> = alike.iter().filter(|(a, b)| !same(a, b)).map(|(a, b)| format!("{a}\n{b}")).collect();
        ensure!(others.is_empty(), "{side}: ours, and stock beside it:\n{}", others.join("\n"));
        let alone = pairs.len() - alike.len();
        println!(
            "  {} places are equal, {alone} were cut on one side alone, {} are left to chance",
            alike.len(),
            of_ours.len() - pairs.len()
        );
        ensure!(alone * 100 <= CUT_ON_ONE_SIDE * of_ours.len(), "{side}: {alone} of {} places were cut on one side alone", of_ours.len());
        let (twice, cut) = (of_ours.iter().filter(|row| row["heard"] == 2).count(), cuts(&of_ours, ""));
        let is_quick = side == "watcher" && slow_ms == 0;
        ensure!(cut > 10 && (is_quick || twice > 2), "{cut} were cut, {twice} heard twice: {of_ours:?}");
    }
    ours.stop()
}

/// A cut at about the time when the slow watcher answers may come before or after that.
fn is_chance(row: &Value) -> bool {
    let moment = at(row).strip_prefix("after").and_then(|rest| rest.split('.').next()?.parse::<u64>().ok());
    moment.is_some_and(|ms| ms.abs_diff(SLOW_MS) < NEAR_MS)
}
fn same(a: &Value, b: &Value) -> bool {
    ["at", "cut", "result", "after", "heard", "ids", "late", "after_heard"].iter().all(|name| a[name] == b[name])
}

/// What is wrong with one cut's row. A notifier that asks twice is heard twice, each time under another id.
fn judge(row: &Value, notifier: bool) -> Option<String> {
    let number = |name: &str| row[name].as_u64().unwrap_or(u64::MAX);
    let (heard, most) = (number("heard"), if notifier && row["cut"] == true { 2 } else { 1 });
    let well = (1..=most).contains(&heard)
        && number("ids") == heard
        && number("late") == 0
        && number("after_heard") == 1
        && row["result"] == "acknowledged"
        && row["after"] == "acknowledged";
    (!well).then(|| row.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_are_judged() {
        let good = json!({"at": "down13", "cut": true, "result": "acknowledged", "after": "acknowledged", "heard": 2, "ids": 2, "late": 0, "after_heard": 1});
        assert_eq!(judge(&good, true), None);
        assert!(judge(&good, false).is_some());
        for (name, value) in [
            ("heard", json!(0)),
            ("heard", json!(3)),
            ("cut", json!(false)),
            ("late", json!(1)),
            ("ids", json!(1)),
            ("after_heard", json!(2)),
            ("result", json!("errno 110")),
        ] {
            let mut bad = good.clone();
            bad[name] = value;
            assert!(judge(&bad, true).is_some(), "{bad}");
        }
    }

    #[test]
    fn rows_are_compared() {
        let row = json!({"at": "after80.3", "cut": true, "result": "acknowledged", "after": "acknowledged", "heard": 2, "ids": 1, "late": 0, "after_heard": 1, "ms": 5});
        let mut other = row.clone();
        other["ms"] = json!(7);
        assert!(same(&row, &other) && !is_chance(&row));
        other["heard"] = json!(1);
        assert!(!same(&row, &other));
        for (at, chance) in [("after81.0", true), ("after159.1", true), ("after160.1", false), ("down120.4", false)] {
            assert_eq!(is_chance(&json!({ "at": at })), chance, "{at}");
        }
    }
}
