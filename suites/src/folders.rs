//! Folders that cases make below `SHARED`: empty at first, gone when their case has passed, kept for looking at when it failed. And the room on that
//! file system: a store in a file takes a share of what is left, so on a full disk clients wait for ever instead of failing.
//!
//! Absent: the chroots (`clients`), images and their mounts (`loops`), outputs that are kept on purpose (`conformance::kept`).

use crate::clients::SHARED;
use crate::run::{root, run};
use anyhow::{Context, Result, bail, ensure};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

thread_local! {
    /// Those of the case that runs on this thread.
    static CLAIMED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// A folder of that name below `SHARED` with nothing in it. It belongs to the case that runs on this thread.
pub fn fresh(name: &str) -> Result<PathBuf> {
    let dir = Path::new(SHARED).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    CLAIMED.with_borrow_mut(|claimed| claimed.push(dir.clone()));
    Ok(dir)
}

/// The folders of the case that runs on this thread.
pub fn claimed() -> Vec<PathBuf> {
    CLAIMED.with_borrow(Clone::clone)
}

/// The case on this thread has ended. What a case that passed had is removed, unless something is still mounted below it.
pub fn ended(passed: bool) {
    let claimed = CLAIMED.take();
    if !passed {
        return;
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted: Vec<&Path> = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(Path::new).collect();
    for dir in claimed.iter().filter(|dir| !mounted.iter().any(|at| at.starts_with(dir))) {
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// What the cases need at once, at most: two stores that are written until they are full, next to logs and images.
const ROOM_GIB: u64 = 8;

/// An error if the disk has too little left for the cases.
pub fn room() -> Result<()> {
    std::fs::create_dir_all(SHARED)?;
    let df = run(Command::new("df").args(["--output=avail", "-BM", SHARED]), Duration::from_secs(10))?;
    ensure!(df.ok(), "df of {SHARED}: {}", df.stderr);
    let left = df.stdout.lines().nth(1).and_then(|l| l.trim().trim_end_matches('M').parse::<u64>().ok());
    let left = left.with_context(|| format!("df says: {}", df.stdout))?;
    println!("{left} MiB of disk are left at {SHARED}");
    if left < ROOM_GIB << 10 {
        bail!(
            "the cases need {ROOM_GIB} GiB of disk at {SHARED}, and {left} MiB are left: free some ({} holds what was built)",
            root().join("target").display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_a_case_that_passed_and_stays_after_one_that_failed() {
        let name = format!("folders-{}", std::process::id());
        let dir = fresh(&name).unwrap();
        std::fs::write(dir.join("file"), "x").unwrap();
        ended(false);
        assert!(dir.join("file").exists(), "what failed is looked at");
        ended(true);
        assert!(dir.exists(), "it belongs to no case any more");
        assert!(!fresh(&name).unwrap().join("file").exists(), "it is empty at first");
        ended(true);
        assert!(!dir.exists());
    }
}
