//! The results folder: what is in it is written once, or appended to, and never changed.
//!
//! ```text
//! study.toml          as it was given                 plan.json       what was to be done
//! machine.json        what it ran on                  ceilings.json   what the machine gives at most
//! journal.jsonl       one line a finished round, synced
//! cells/HASH/R-A/     round R, attempt A: cmd, out, err, samples.jsonl, stat.json; logs/: what the target's daemons said meanwhile
//! trace/, profile/    the same of rounds that look closer
//! results.json        figures, verdicts, claims (schema 1)
//! report.html         out of the files above          SHA256SUMS
//! ```
//! A round is finished when its line stands in the journal: what a killed run left beyond is moved aside as `R-A.cut-N`.

use crate::plan::Mode;
use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub round: u32,
    /// The cell's hash.
    pub cell: String,
    #[serde(default)]
    pub mode: Mode,
    pub attempt: u32,
    /// True if no further attempt follows: this one counts.
    pub last: bool,
    /// Of stat.json.
    pub sha256: String,
}

impl Line {
    pub fn dir(&self) -> String {
        dir(self.mode, &self.cell, self.round, self.attempt)
    }
}

/// The folders of rounds, by what they are for.
const PARTS: [(Mode, &str); 3] = [(Mode::Figures, "cells"), (Mode::Trace, "trace"), (Mode::Profile, "profile")];

/// A round's folder.
pub fn dir(mode: Mode, cell: &str, round: u32, attempt: u32) -> String {
    let part = PARTS.iter().find(|(m, _)| *m == mode).map_or("cells", |(_, part)| part);
    format!("{part}/{cell}/{round}-{attempt}")
}

pub struct Folder {
    pub path: PathBuf,
    journal: File,
    pub lines: Vec<Line>,
    /// Held as long as we write.
    _lock: File,
}

pub fn sha256(bytes: &[u8]) -> String {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// Writes a file whole or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = path.with_extension("part");
    let mut file = File::create(&part).with_context(|| part.display().to_string())?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&part, path).with_context(|| path.display().to_string())
}

pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    write(path, (serde_json::to_string_pretty(value)? + "\n").as_bytes())
}

pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{} is not what this version writes", path.display()))
}

/// The journal's whole lines, and how many bytes they are; half a line at the end is what a kill left.
fn journal_lines(text: &str) -> Result<(Vec<Line>, usize)> {
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let lines = text[..whole].lines().enumerate();
    let lines = lines.map(|(n, l)| serde_json::from_str(l).with_context(|| format!("journal.jsonl:{}: no line of a journal", n + 1)));
    Ok((lines.collect::<Result<_>>()?, whole))
}

/// The lines of a folder's journal.
pub fn journal(path: &Path) -> Result<Vec<Line>> {
    let text = fs::read_to_string(path.join("journal.jsonl"))
        .with_context(|| format!("{} is no results folder, as `humboldt lab run --out` makes one", path.display()))?;
    journal_lines(&text).map(|(lines, _)| lines)
}

impl Folder {
    /// Makes a folder; one that holds something is refused.
    pub fn create(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| path.display().to_string())?;
        let empty = fs::read_dir(path)?.next().is_none();
        ensure!(empty, "{} is not empty: results are never written over; name another folder, or go on with --resume", path.display());
        Self::with_journal(path)
    }
    /// Goes on with a folder that a run left.
    pub fn resume(path: &Path, study: &str) -> Result<Self> {
        let theirs = fs::read_to_string(path.join("study.toml"))
            .with_context(|| format!("{} is no results folder, as `humboldt lab run --out` makes one", path.display()))?;
        ensure!(theirs == study, "{} holds the results of another study, or of another version of this one", path.display());
        let folder = Self::with_journal(path)?;
        folder.set_aside()?;
        Ok(folder)
    }
    fn with_journal(path: &Path) -> Result<Self> {
        let lock = File::options().create(true).truncate(false).write(true).open(path.join("lock"))?;
        if lock.try_lock().is_err() {
            bail!("{}: another `lab run` writes there", path.display());
        }
        let name = path.join("journal.jsonl");
        let text = fs::read_to_string(&name).unwrap_or_default();
        let (lines, whole) = journal_lines(&text)?;
        let journal = File::options().create(true).append(true).open(&name)?;
        journal.set_len(whole as u64)?;
        Ok(Self { path: fs::canonicalize(path)?, journal, lines, _lock: lock })
    }
    /// Moves rounds without a line in the journal aside.
    fn set_aside(&self) -> Result<()> {
        let known: std::collections::BTreeSet<String> = self.lines.iter().map(Line::dir).collect();
        let cells = PARTS
            .iter()
            .flat_map(|(_, part)| fs::read_dir(self.path.join(part)).into_iter().flatten().flatten().map(move |cell| (*part, cell)));
        for (part, cell) in cells {
            for round in fs::read_dir(cell.path())?.flatten() {
                let name = format!("{part}/{}/{}", cell.file_name().to_string_lossy(), round.file_name().to_string_lossy());
                if known.contains(&name) || name.contains(".cut-") {
                    continue;
                }
                let aside = (1..).map(|n| self.path.join(format!("{name}.cut-{n}"))).find(|p| !p.exists()).expect("numbers don't end");
                fs::rename(round.path(), aside)?;
            }
        }
        Ok(())
    }
    /// True if this visit's last attempt is there.
    pub fn has(&self, mode: Mode, round: u32, cell: &str) -> bool {
        self.lines.iter().any(|l| l.mode == mode && l.round == round && l.cell == cell && l.last)
    }
    /// The last attempt of the rounds before this one.
    pub fn before(&self, mode: Mode, round: u32, cell: &str) -> Option<&Line> {
        self.lines.iter().rfind(|l| l.mode == mode && l.round < round && l.cell == cell && l.last)
    }
    /// The number of the next attempt.
    pub fn next_attempt(&self, mode: Mode, round: u32, cell: &str) -> u32 {
        self.lines.iter().filter(|l| l.mode == mode && l.round == round && l.cell == cell).map(|l| l.attempt + 1).max().unwrap_or(0)
    }
    /// The round is finished: its files are on the disk, and then its line is.
    pub fn finish(&mut self, mut line: Line, stat: &impl Serialize) -> Result<()> {
        let path = self.path.join(line.dir()).join("stat.json");
        write_json(&path, stat)?;
        line.sha256 = sha256(&fs::read(&path)?);
        self.journal.write_all((serde_json::to_string(&line)? + "\n").as_bytes())?;
        self.journal.sync_data()?;
        self.lines.push(line);
        Ok(())
    }
}

/// Reads a finished round's file, and makes sure that it is as it was written.
pub fn stat<T: DeserializeOwned>(folder: &Path, line: &Line) -> Result<T> {
    let path = folder.join(line.dir()).join("stat.json");
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    ensure!(sha256(&bytes) == line.sha256, "{} was changed after it was written", path.display());
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not what this version writes", path.display()))
}

/// All finished attempts of a folder, in their order.
pub fn attempts<T: DeserializeOwned>(folder: &Path) -> Result<Vec<(Line, T)>> {
    journal(folder)?.into_iter().map(|line| stat(folder, &line).map(|stat| (line, stat))).collect()
}

/// Writes SHA256SUMS over all files of a folder, in the form that `sha256sum -c` reads.
pub fn sums(folder: &Path) -> Result<()> {
    fn files(dir: &Path, out: &mut Vec<PathBuf>) -> Result<()> {
        for entry in fs::read_dir(dir)?.flatten() {
            if entry.file_type()?.is_dir() { files(&entry.path(), out)? } else { out.push(entry.path()) }
        }
        Ok(())
    }
    let mut all = Vec::new();
    files(folder, &mut all)?;
    all.retain(|p| !matches!(p.file_name().and_then(|n| n.to_str()), Some("SHA256SUMS" | "lock")));
    all.sort();
    let mut text = String::new();
    for path in all {
        let name = path.strip_prefix(folder).expect("it lies in it");
        text += &format!("{}  {}\n", sha256(&fs::read(&path)?), name.display());
    }
    write(&folder.join("SHA256SUMS"), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("lab-folder-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }
    fn round(folder: &mut Folder, round: u32, last: bool) {
        let attempt = folder.next_attempt(Mode::Figures, round, "c");
        let line = Line { round, cell: "c".into(), mode: Mode::Figures, attempt, last, sha256: String::new() };
        fs::create_dir_all(folder.path.join(line.dir())).unwrap();
        folder.finish(line, &serde_json::json!({ "n": round })).unwrap();
    }

    #[test]
    fn a_killed_run_loses_the_running_round_only() {
        let dir = fresh("kill");
        let mut folder = Folder::create(&dir).unwrap();
        write(&dir.join("study.toml"), b"lab = 1").unwrap();
        round(&mut folder, 0, true);
        round(&mut folder, 1, false);
        // Killed in mid-round, and in mid-line.
        fs::create_dir_all(dir.join("cells/c/1-1")).unwrap();
        folder.journal.write_all(b"{\"round\":9").unwrap();
        drop(folder);
        assert!(Folder::resume(&dir, "lab = 1 # another").is_err());
        let mut folder = Folder::resume(&dir, "lab = 1").unwrap();
        assert!(folder.has(Mode::Figures, 0, "c") && !folder.has(Mode::Figures, 1, "c") && folder.next_attempt(Mode::Figures, 1, "c") == 1);
        assert!(dir.join("cells/c/1-1.cut-1").exists() && !dir.join("cells/c/1-1").exists());
        round(&mut folder, 1, true);
        assert_eq!(journal(&dir).unwrap().len(), 3);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn results_are_never_written_over_and_changes_are_seen() {
        let dir = fresh("once");
        let mut folder = Folder::create(&dir).unwrap();
        assert!(Folder::create(&dir).is_err());
        round(&mut folder, 0, true);
        let line = folder.lines[0].clone();
        assert!(stat::<serde_json::Value>(&dir, &line).is_ok());
        fs::write(dir.join(line.dir()).join("stat.json"), "{}").unwrap();
        assert!(stat::<serde_json::Value>(&dir, &line).unwrap_err().to_string().contains("changed"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
