//! What a target's daemons said in a visit, kept beside what was measured: its folder goes with it, and each start may begin its logs anew.
//! Absent: what the load said, which is `out` and `err`.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The most that is kept of a log in a visit: its end.
const KEPT_BYTES: u64 = 1 << 20;

/// How far each log was when a visit began.
pub struct Logs {
    home: Option<PathBuf>,
    before: BTreeMap<PathBuf, (Made, u64)>,
}

/// What tells a file from one that was made anew under its name, which may have the same inode: when it was made.
type Made = (u64, Option<SystemTime>);

fn made(file: &Metadata) -> Made {
    (file.ino(), file.created().ok())
}

/// The logs in a target's folder: a file `log` or `*.log`, and all below a folder `log`; those of loads' helpers are among them.
fn files(home: &Path) -> Vec<PathBuf> {
    fn below(dir: &Path, all: bool, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && (all || name == "log") => below(&path, true, out),
                Ok(kind) if kind.is_file() && (all || name == "log" || name.ends_with(".log")) => out.push(path),
                _ => {}
            }
        }
    }
    let mut out = Vec::new();
    below(home, false, &mut out);
    out.sort();
    out
}

impl Logs {
    /// `home` is the target's folder, if it has one.
    pub fn begin(home: Option<PathBuf>) -> Self {
        let size = |path: PathBuf| fs::metadata(&path).ok().map(|m| (path, (made(&m), m.len())));
        let before = home.iter().flat_map(|home| files(home)).filter_map(size).collect();
        Self { home, before }
    }
    /// Writes what came since into files below `dir`, which is made if there is anything.
    pub fn keep(&self, dir: &Path) -> Result<()> {
        let Some(home) = &self.home else { return Ok(()) };
        for path in files(home) {
            let mut file = File::open(&path).with_context(|| path.display().to_string())?;
            let now = file.metadata()?;
            let from = self.before.get(&path).filter(|(before, bytes)| *before == made(&now) && *bytes <= now.len()).map_or(0, |b| b.1);
            let from = from.max(now.len().saturating_sub(KEPT_BYTES));
            if from == now.len() {
                continue;
            }
            file.seek(SeekFrom::Start(from))?;
            let mut said = Vec::new();
            file.take(now.len() - from).read_to_end(&mut said)?;
            let name = path.strip_prefix(home).expect("it lies below").to_string_lossy().replace('/', "-");
            fs::create_dir_all(dir)?;
            let kept = dir.join(name.strip_prefix("log-").unwrap_or(&name));
            fs::write(&kept, said).with_context(|| kept.display().to_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_keeps_what_was_said_in_it_also_behind_a_new_start() {
        let home = std::env::temp_dir().join(format!("lab-logs-{}", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(home.join("t/log/bricks")).unwrap();
        fs::create_dir_all(home.join("t/data")).unwrap();
        for (name, text) in [("log/mon.a.log", "old\n"), ("log/bricks/b0", "brick\n"), ("osd.0.log", "same\n"), ("data/1.log", "no log\n")]
        {
            fs::write(home.join("t").join(name), text).unwrap();
        }
        let logs = Logs::begin(Some(home.join("t")));
        fs::write(home.join("t/log/mon.a.log"), "old\nnew\n").unwrap();
        // One that was made anew, longer than it was.
        let (brick, of) = (home.join("t/log/bricks/b0"), |path: &Path| made(&fs::metadata(path).unwrap()));
        let first = of(&brick);
        while of(&brick) == first {
            fs::remove_file(&brick).unwrap();
            fs::write(&brick, "brick, started again\n").unwrap();
        }
        logs.keep(&home.join("kept")).unwrap();
        let kept = |name: &str| fs::read_to_string(home.join("kept").join(name)).ok();
        assert_eq!(kept("mon.a.log").as_deref(), Some("new\n"));
        assert_eq!(kept("bricks-b0").as_deref(), Some("brick, started again\n"));
        assert_eq!(fs::read_dir(home.join("kept")).unwrap().count(), 2);
        // The end of one that says too much, and nothing of a target that has no folder.
        fs::write(home.join("t/osd.0.log"), vec![b'x'; KEPT_BYTES as usize + 100]).unwrap();
        Logs::begin(None).keep(&home.join("none")).unwrap();
        assert!(!home.join("none").exists());
        logs.keep(&home.join("kept")).unwrap();
        assert_eq!(fs::metadata(home.join("kept/osd.0.log")).unwrap().len(), KEPT_BYTES);
        fs::remove_dir_all(&home).unwrap();
    }
}
