//! The `ceph` commands, held against what stock 18.2 said to the same script.

use super::Case;
use crate::clients::Release::{Pacific, Reef, Tentacle};
use crate::cluster::Cluster;
use crate::commands::SCRIPT;
use crate::compare::{ask, differences};
use crate::run::{root, until};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "commands_as_stock", needs: &[Pacific], run: as_stock },
    Case { name: "commands_of_other_releases", needs: &[Pacific, Reef, Tentacle], run: other_releases },
    Case { name: "ceph_watches_the_log", needs: &[Pacific], run: watch_log },
];

fn as_stock() -> Result<()> {
    let text = std::fs::read_to_string(root().join("fixtures/commands/reef.json"))?;
    let record: Value = serde_json::from_str(&named_as_this_machine(&text)?)?;
    let steps = record["steps"].as_array().context("the record has steps")?;
    ensure!(
        steps.iter().map(|s| s["args"].as_str().unwrap_or_default()).eq(SCRIPT.iter().map(|s| s.args)),
        "the script has changed since it was recorded: `cargo xtask record-commands`"
    );
    let c = Cluster::start("commands", &[])?;
    let known = || c.must(Pacific, "ceph osd df -f json").is_ok_and(|s| s.contains("osd.0"));
    ensure!(until(Duration::from_secs(20), known), "the manager endpoint does not hear from osd.0");
    // The recorded cluster had made and removed two pools before: the script's first has number 3 there.
    for pool in ["a", "b"] {
        c.must(Pacific, &format!("ceph osd pool create {pool} 8"))?;
        c.must(Pacific, &format!("ceph osd pool rm {pool} {pool} --yes-i-really-really-mean-it"))?;
    }
    let mut wrong = Vec::new();
    for (step, recorded) in SCRIPT.iter().zip(steps) {
        let ours = ask(&c.conf, step)?;
        wrong.extend(differences(step, recorded, &ours).into_iter().map(|d| format!("ceph {}: {d}", step.args)));
    }
    if !wrong.is_empty() {
        bail!("{} differences from stock 18.2:\n{}", wrong.len(), wrong.join("\n"));
    }
    c.stop()
}

/// The record, as if this machine had been the recorded one: `node ls` has hosts' names for keys.
fn named_as_this_machine(text: &str) -> Result<String> {
    let record: Value = serde_json::from_str(text)?;
    let asked = record["steps"].as_array().and_then(|steps| steps.iter().find(|s| s["args"] == "node ls"));
    let monitors = asked.and_then(|step| step["json"]["mon"].as_object()).context("node ls is recorded")?;
    let host = monitors.keys().next().context("the record has a monitor's host")?;
    let ours = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    Ok(text.replace(&format!("\"{host}\""), &format!("\"{}\"", ours.trim())))
}

/// The other releases' `ceph` finds its way around: they ask for the commands' descriptions and parse them.
fn other_releases() -> Result<()> {
    let c = Cluster::start("releases", &[])?;
    for release in [Reef, Tentacle] {
        for line in [
            "-s",
            "health",
            "df",
            "osd tree",
            "osd dump",
            "osd df",
            "pg stat",
            "pg dump",
            "mon dump",
            "versions",
            "auth ls",
            "config dump",
            "tell osd.0 version",
        ] {
            c.must(release, &format!("ceph {line}"))?;
            let json = c.must(release, &format!("ceph {line} -f json"))?;
            ensure!(serde_json::from_str::<Value>(json.trim()).is_ok(), "ceph {line} -f json ({}) says {json}", release.version());
        }
        let out = c.must_fail(release, "ceph nosuchcommand", 22)?;
        ensure!(out.stderr.contains("nosuchcommand") || out.stderr.contains("no valid command"), "{out:?}");
    }
    c.stop()
}

fn watch_log() -> Result<()> {
    use std::io::BufRead;
    let c = Cluster::start("log", &[])?;
    let mut cmd = Pacific.command(&c.conf, "ceph");
    let mut child = cmd.arg("-w").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn()?;
    let lines = std::io::BufReader::new(child.stdout.take().context("piped")?).lines();
    let _child = super::rados::Background(child);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
    let mut seen = String::new();
    let shown = until(Duration::from_secs(30), || {
        let _ = c.must(Pacific, "ceph log squid-sighted");
        seen.extend(told.try_iter());
        seen.contains("squid-sighted")
    });
    ensure!(shown, "ceph -w does not show a line that was logged; it showed:\n{seen}");
    c.stop()
}
