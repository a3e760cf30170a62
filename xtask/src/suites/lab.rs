//! The laboratory: its proof of itself, and a short study on our own servers, killed and gone on with.

use super::Case;
use crate::clients::SHARED;
use crate::cluster::binary;
use crate::run::{Output, run};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] =
    &[Case { name: "lab_selftest", needs: &[], run: selftest }, Case { name: "lab_study_of_our_own", needs: &[], run: study }];

fn lab(args: &[&str], limit: Duration) -> Result<Output> {
    run(Command::new(binary()).arg("lab").args(args), limit)
}

fn selftest() -> Result<()> {
    let out = lab(&["selftest"], Duration::from_secs(180))?;
    ensure!(out.ok(), "lab selftest: {out:?}");
    Ok(())
}

/// Two short rounds of our own stores; every visit valid, the report there and the same twice, nothing different from itself.
fn study() -> Result<()> {
    const STUDY: &str = "lab = 1\nname = \"short\"\n[axes]\nop = [\"write\", \"randread\"]\n[[target]]\nname = \"mem\"\nkind = \"humboldt\"\n\
        store = \"mem\"\n[[target]]\nname = \"block\"\nkind = \"humboldt\"\n[[target]]\nname = \"null\"\nkind = \"null\"\n[[load]]\n\
        tool = \"humboldt bench\"\ndepth = 16\n[rules]\ncontrol = \"mem\"\nquick = { rounds = 2, seconds = 1.0, warm_s = 0.2 }\n";
    let dir = Path::new(SHARED).join("lab");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let (file, out) = (dir.join("short.toml").display().to_string(), dir.join("r").display().to_string());
    std::fs::write(&file, STUDY)?;
    let ran = lab(&["run", &file, "--quick", "--out", &out], Duration::from_secs(120))?;
    ensure!(ran.ok() && ran.stdout.contains("16 rounds valid, 0 invalid, 0 failed; 0 cells skipped"), "lab run: {ran:?}");
    let again = lab(&["run", &file, "--quick", "--out", &out], Duration::from_secs(60))?;
    ensure!(!again.ok() && again.stderr.contains("not empty"), "results were written over: {again:?}");
    let page = dir.join("r/report.html");
    let first = std::fs::read(&page).context("no report")?;
    ensure!(
        lab(&["report", &out], Duration::from_secs(60))?.ok() && std::fs::read(&page)? == first,
        "the report is another one the second time"
    );
    let text = String::from_utf8_lossy(&first).into_owned();
    ensure!(["http://", "https://", "<script"].iter().all(|w| !text.contains(w)), "the report wants something from outside");
    let same = lab(&["compare", &out, &out], Duration::from_secs(60))?;
    ensure!(same.ok() && same.stdout.contains(" 0 figures differ"), "a folder differs from itself: {same:?}");
    let wrong = dir.join("wrong.toml").display().to_string();
    std::fs::write(&wrong, STUDY.replace("depth = 16", "dephts = 16"))?;
    let wrong = lab(&["check", &wrong], Duration::from_secs(10))?;
    ensure!(!wrong.ok() && wrong.stderr.contains("wrong.toml:17:1: unknown field `dephts`"), "lab check: {wrong:?}");
    Ok(())
}
