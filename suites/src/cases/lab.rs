//! The laboratory: its proof of itself, and a short study on our own servers, killed and gone on with.

use super::Case;
use crate::cluster::binary;
use crate::folders;
use crate::run::{Output, run};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "lab_selftest", needs: &[], run: selftest },
    Case { name: "lab_study_of_our_own", needs: &[], run: study },
    Case { name: "lab_refuses_what_it_must", needs: &[], run: refusals },
];

fn lab(args: &[&str], limit: Duration) -> Result<Output> {
    run(Command::new(binary()).arg("lab").args(args), limit)
}

fn selftest() -> Result<()> {
    let out = lab(&["selftest"], Duration::from_secs(180))?;
    ensure!(out.ok(), "lab selftest: {out:?}");
    Ok(())
}

/// Two short rounds of our own stores; every visit valid, the daemons' logs kept, the report there and the same twice, nothing different from itself.
fn study() -> Result<()> {
    const STUDY: &str = "lab = 1\nname = \"short\"\n[axes]\nop = [\"write\", \"randread\"]\n[[target]]\nname = \"mem\"\nkind = \"humboldt\"\n\
        store = \"mem\"\n[[target]]\nname = \"block\"\nkind = \"humboldt\"\n[[target]]\nname = \"null\"\nkind = \"null\"\n[[load]]\n\
        tool = \"humboldt bench\"\ndepth = 16\n[rules]\ncontrol = \"mem\"\nquick = { rounds = 2, seconds = 1.0, warm_s = 0.2 }\n";
    let dir = folders::fresh("lab")?;
    let (file, out) = (dir.join("short.toml").display().to_string(), dir.join("r").display().to_string());
    std::fs::write(&file, STUDY)?;
    let ran = lab(&["run", &file, "--quick", "--out", &out], Duration::from_secs(120))?;
    ensure!(ran.ok() && ran.stdout.contains("16 rounds valid, 0 invalid, 0 failed; 0 cells skipped"), "lab run: {ran:?}");
    let first_log = |cell: std::fs::DirEntry| std::fs::read_to_string(cell.path().join("0-0/logs/log")).unwrap_or_default();
    let said = std::fs::read_dir(dir.join("r/cells"))?.flatten().map(first_log).filter(|log| log.contains("ready in")).count();
    ensure!(said >= 4, "the starts of {said} of four targets are in the logs of the first round");
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

/// A loop device on a file, detached with its value.
struct Disk(String);

impl Disk {
    fn with_ext4(file: &Path) -> Result<Self> {
        std::fs::File::create(file)?.set_len(64 << 20)?;
        let out = run(Command::new("losetup").args(["--find", "--show"]).arg(file), Duration::from_secs(10))?;
        ensure!(out.ok(), "losetup: {out:?}");
        let disk = Self(out.stdout.trim().into());
        let out = run(Command::new("mkfs.ext4").args(["-q", &disk.0]), Duration::from_secs(30))?;
        ensure!(out.ok(), "mkfs.ext4: {out:?}");
        Ok(disk)
    }
    fn signs(&self) -> Result<String> {
        Ok(run(Command::new("wipefs").args(["--noheadings", &self.0]), Duration::from_secs(10))?.stdout)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").args(["--detach", &self.0]), Duration::from_secs(10));
    }
}

/// A device that holds data, too little memory, results of another study, cells that can't run: each is said, with its place, and nothing is lost.
fn refusals() -> Result<()> {
    let dir = folders::fresh("lab-refusals")?;
    let disk = Disk::with_ext4(&dir.join("disk"))?;
    let head = "lab = 1\nname = \"refused\"\n[rules]\nquick = { rounds = 1, seconds = 1.0 }\n";
    let own = "[[target]]\nname = \"mem\"\nkind = \"humboldt\"\nstore = \"mem\"\n[[load]]\ntool = \"humboldt bench\"\n";
    let on_disk = format!(
        "[[device]]\nname = \"disk\"\nkind = \"path\"\npath = \"{}\"\n[[target]]\nname = \"device\"\nkind = \"device\"\ndata = \"disk\"\n\
         [[load]]\nname = \"w\"\ntool = \"fio libaio\"\nop = \"randwrite\"\nsize = \"8 MiB\"\n",
        disk.0
    );
    let file = |name: &str, text: String| -> Result<String> {
        let path = dir.join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    };
    let measure = |study: &str, out: &str, more: &[&str]| {
        let out = dir.join(out).display().to_string();
        lab(&[&["run", study, "--quick", "--out", out.as_str()][..], more].concat(), Duration::from_secs(120))
    };
    let study = file("disk.toml", format!("{head}{on_disk}"))?;
    let ran = measure(&study, "d", &[])?;
    ensure!(!ran.ok() && ran.stderr.contains(":5:1: ") && ran.stderr.contains("--may-destroy"), "a device that holds data: {ran:?}");
    ensure!(disk.signs()?.contains("ext4") && !dir.join("d").exists(), "something was begun on it");
    let ran = measure(&study, "d", &["--may-destroy", &disk.0])?;
    ensure!(ran.ok() && ran.stdout.contains("1 rounds valid"), "a device that may be destroyed: {ran:?}");
    let greedy = file("greedy.toml", format!("{head}{}", own.replace("store = \"mem\"", "store = \"mem\"\nmemory = \"900 TiB\"")))?;
    let ran = measure(&greedy, "g", &[])?;
    ensure!(!ran.ok() && ran.stderr.contains(":5:1: mem takes") && !dir.join("g").exists(), "too little memory: {ran:?}");
    let skips = format!(
        "{head}{own}{}",
        own.replace("name = \"mem\"", "name = \"file\"")
            .replace("store = \"mem\"", "store = \"file\"")
            .split("[[load]]")
            .next()
            .unwrap_or_default()
    );
    let skips = file("skips.toml", skips)?;
    let ran = measure(&skips, "s", &[])?;
    ensure!(ran.code == 3 && ran.stdout.contains("needs the file store"), "a cell that can't run: {ran:?}");
    ensure!(measure(&skips, "s2", &["--allow-skips"])?.ok(), "--allow-skips");
    let other = file("other.toml", format!("{head}{own}"))?;
    let resumed = lab(&["run", &other, "--quick", "--resume", &dir.join("s").display().to_string()], Duration::from_secs(60))?;
    ensure!(!resumed.ok() && resumed.stderr.contains("another study"), "another study's results: {resumed:?}");
    Ok(())
}
