//! How often a watcher hears a NOTIFY across a connection that is cut: at each byte of the notification and of what answers it.
//!
//! Seen with 16.2's client on stock 18.2 and on ours alike: cut the watcher's connection anywhere, and each notification is heard once. Cut the
//! notifier's while the OSD has its request and it has no answer, and the client asks again: a second notification with an id of its own, which the
//! watcher hears, too. The clients are unchanged; a proxy cuts.

use super::Case;
use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::netns::Namespace;
use crate::run::root;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "notify_across_cut_connections", needs: &[Pacific], run: cut }];

/// Bytes between two cuts: a prime, so that no boundary of a frame is met by rule.
const STEP: u32 = 13;

fn cut() -> Result<()> {
    let away = Namespace::new("watch")?;
    let c = Cluster::start("notify-cut", &["--store", "mem"])?;
    c.must(Pacific, "ceph osd pool create p 1")?;
    for side in ["watcher", "notifier"] {
        let script = root().join("xtask/src/suites/notify.py");
        let line = format!("/usr/bin/python3 {} run {} {} p {STEP} {side}", script.display(), c.conf.display(), away.name);
        let out = c.client_within(Pacific, &line, Duration::from_secs(300))?;
        ensure!(out.ok(), "{}{}", out.stdout, out.stderr);
        let rows: Vec<Value> = out.stdout.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("lines of JSON")?;
        let (all, rows) = rows.split_last().context("no lines")?;
        let wrong: Vec<String> = rows.iter().filter_map(|row| judge(row, side == "notifier")).collect();
        ensure!(wrong.is_empty(), "the {side}'s connections cut:\n{}\n{all}", wrong.join("\n"));
        // A proxy that cuts nothing would show nothing.
        let cuts = |way: &str| rows.iter().filter(|r| r["cut"] == true && r["at"].as_str().is_some_and(|at| at.starts_with(way))).count();
        ensure!(cuts("down") > 10 && cuts("up") > 10, "{side}: {} and {} cuts", cuts("down"), cuts("up"));
        ensure!(all["errors"].as_array().is_some_and(Vec::is_empty), "the watcher was told of errors: {all}");
        println!("  the {side}'s connections cut: {}", all["all"]);
    }
    c.stop()
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
}
