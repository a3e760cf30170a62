//! The cluster's folder and its lock; half of the machine's memory.

use crate::kept;
use anyhow::{Context, Error, Result, bail};
use std::cell::Cell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a process that ends may hold its folder: the kernel takes its files from it one after the other, and a device that is slow delays that.
const ENDING: Duration = Duration::from_secs(20);
/// Between two looks at it.
const GLANCE: Duration = Duration::from_millis(20);

/// The lock's name in its folder.
const LOCK: &str = "lock";

/// A folder that this process holds until it ends. A start that fails leaves nothing in one that was empty, or was not there.
pub struct Folder {
    pub dir: PathBuf,
    _lock: File,
    /// This process made the folder.
    is_made: bool,
    /// All content besides the lock was made by this process, and nothing serves from it yet.
    is_fresh: Cell<bool>,
}

impl Folder {
    /// Makes the folder if it is not there. A process that holds it and is about to end is waited for; an error names one that goes on.
    pub fn hold(dir: &Path) -> Result<Self> {
        Self::hold_within(dir, ENDING)
    }
    fn hold_within(dir: &Path, patience: Duration) -> Result<Self> {
        let is_new = !dir.exists();
        disk::create_dirs(dir).with_context(|| {
            format!("making the folder {} (a place for a folder is wanted: no file, and where you may write)", dir.display())
        })?;
        let dir = dir.canonicalize().with_context(|| format!("the folder {}", dir.display()))?;
        if is_new {
            // Keys and objects have modes of their own; which OSDs there are and what they said is no other user's, either.
            std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o750))
                .with_context(|| format!("the folder {}", dir.display()))?;
        }
        let path = dir.join(LOCK);
        let mut lock =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(|e| unwritable(&dir, e))?;
        let end = Instant::now() + patience;
        loop {
            let locked = lock.try_lock();
            let holder = Holder::of(&mut lock)?;
            let is_over = Instant::now() >= end;
            match locked {
                // The lock is one of the first files that it loses, its ports and its devices are among the last.
                Ok(()) if is_over || !holder.is_there() || !holder.ends() => break,
                Ok(()) => lock.unlock()?,
                Err(TryLockError::WouldBlock) if !holder.ends() => {
                    bail!("{} is held by {}: stop that one, or give another --dir", dir.display(), holder.shown())
                }
                Err(TryLockError::WouldBlock) if is_over => bail!(
                    "{} is held by process {}, which has been about to end for {} s: it waits for its disk (dmesg), and ends when that answers; \
                     or it runs in another container, and is to be stopped there",
                    dir.display(),
                    holder.pid,
                    patience.as_secs()
                ),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(e)) => return Err(e).with_context(|| format!("locking {}", path.display())),
            }
            std::thread::sleep(GLANCE);
        }
        lock.set_len(0)?;
        lock.rewind()?;
        writeln!(lock, "{}{}", std::process::id(), kept::keeper().map_or_else(String::new, |keeper| format!(" kept by {keeper}")))?;
        // Looked at under the lock: a process that held it before may have made a cluster here.
        // An entry that can't be read may be anything.
        let is_fresh = std::fs::read_dir(&dir)?.all(|entry| entry.is_ok_and(|entry| entry.file_name() == LOCK));
        Ok(Self { dir, _lock: lock, is_made: is_new, is_fresh: Cell::new(is_fresh) })
    }
    /// It serves from now on: its content stays, whatever happens.
    pub fn keep(&self) {
        self.is_fresh.set(false);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_fresh.get() {
            return;
        }
        // The error that ended the start counts; a file that stays here is told of by the next one.
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let _ = if is_dir { std::fs::remove_dir_all(entry.path()) } else { std::fs::remove_file(entry.path()) };
        }
        if self.is_made {
            let _ = std::fs::remove_dir(&self.dir);
        }
    }
}

/// Why no file can be made in the folder.
fn unwritable(dir: &Path, e: std::io::Error) -> anyhow::Error {
    let user = std::fs::metadata("/proc/self").map_or_else(|_| "?".into(), |process| process.uid().to_string());
    Error::new(e).context(format!("the folder {} can't be written by user {user}, as which this process runs", dir.display()))
}

/// The process that a lock's file names.
struct Holder {
    pid: String,
    /// The `humboldt up` that it ends with.
    keeper: Option<String>,
}

impl Holder {
    fn of(lock: &mut File) -> Result<Self> {
        let mut text = String::new();
        lock.rewind()?;
        lock.read_to_string(&mut text)?;
        let mut words = text.split_whitespace();
        let pid = words.next().unwrap_or_default().to_string();
        Ok(Self { pid, keeper: words.last().map(String::from) })
    }
    /// As an error names it. Our own number is another's where processes are counted anew.
    fn shown(&self) -> String {
        let is_elsewhere = self.pid == std::process::id().to_string();
        if is_elsewhere { "a process of another container".into() } else { format!("process {}", self.pid) }
    }
    /// False once it is over: a process that nothing has asked for its end yet holds no file any more. And for a number that is another program's by now.
    fn is_there(&self) -> bool {
        let program = Stat::of("self").map(|stat| stat.program);
        Stat::of(&self.pid).is_some_and(|stat| !stat.is_over() && Some(stat.program) == program)
    }
    /// True if it is a matter of moments until it holds nothing: it is gone but for its files, it was killed, or what kept it is gone, with which the
    /// kernel ends it. One that names nothing yet is about to name itself.
    fn ends(&self) -> bool {
        let Some(stat) = Stat::of(&self.pid) else { return true };
        stat.is_over() || stat.exits || self.keeper.as_ref().is_some_and(|keeper| *keeper != stat.parent) || self.is_killed()
    }
    fn is_killed(&self) -> bool {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let pending = |line: &str| u64::from_str_radix(line.split_once(':')?.1.trim(), 16).ok();
        let mut sets = text.lines().filter(|l| l.starts_with("SigPnd:") || l.starts_with("ShdPnd:")).filter_map(pending);
        sets.any(|set| set & (1 << (libc::SIGKILL - 1)) != 0)
    }
}

/// What proc_pid_stat(5) says of a process.
struct Stat {
    program: String,
    state: char,
    parent: String,
    /// PF_EXITING: it closes its files.
    exits: bool,
}

impl Stat {
    const PF_EXITING: u32 = 4;

    /// None if there is no such process.
    fn of(pid: &str) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may have anything in it.
        let (front, rest) = text.rsplit_once(')')?;
        let program = front.split_once('(')?.1.to_string();
        let words: Vec<&str> = rest.split_whitespace().collect();
        let (state, parent, flags) = (words.first()?.chars().next()?, words.get(1)?, words.get(6)?.parse::<u32>().ok()?);
        Some(Self { program, state, parent: parent.to_string(), exits: flags & Self::PF_EXITING != 0 })
    }
    fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Half of the machine's memory, bytes.
pub fn half_of_memory() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:")).and_then(|l| l.trim().split(' ').next()?.parse::<u64>().ok());
    total.map_or(4 << 30, |kib| kib * 1024 / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn child() -> Child {
        Command::new("sleep").arg("600").spawn().expect("it runs")
    }
    /// A folder whose lock has this text, and what holds it.
    fn held(name: &str, text: &str) -> (PathBuf, File) {
        let dir = std::env::temp_dir().join(format!("humboldt-folder-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let mut lock = File::create_new(dir.join("lock")).unwrap();
        lock.try_lock().unwrap();
        write!(lock, "{text}").unwrap();
        (dir, lock)
    }
    fn refusal(dir: &Path, patience: Duration) -> String {
        format!("{:#}", Folder::hold_within(dir, patience).map(drop).expect_err("it is held"))
    }
    /// What holds the folder lets go of it a moment later.
    fn is_waited_for((dir, lock): (PathBuf, File)) {
        let lets_go = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(lock);
        });
        Folder::hold(&dir).expect("it is waited for");
        lets_go.join().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_start_that_fails_leaves_what_was_there_and_no_more() {
        let dir = std::env::temp_dir().join(format!("humboldt-folder-fresh-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let make = || {
            let folder = Folder::hold(&dir).unwrap();
            std::fs::create_dir(dir.join("osd.0")).unwrap();
            std::fs::write(dir.join("osd.0/data"), "x").unwrap();
            folder
        };
        drop(make());
        assert!(!dir.exists(), "it made the folder");
        std::fs::create_dir(&dir).unwrap();
        drop(make());
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "the folder was there");
        make().keep();
        assert!(dir.join("osd.0/data").exists(), "it served");
        drop(Folder::hold(&dir).unwrap());
        assert!(dir.join("osd.0/data").exists(), "a cluster was there");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_process_that_goes_on_is_named_at_once_and_one_that_ends_is_waited_for() {
        let long = Duration::from_secs(3600);
        let (us, mut other) = (std::process::id(), child());
        let goes_on = [format!("{}\n", other.id()), format!("{} kept by {us}\n", other.id())];
        for (n, text) in goes_on.iter().enumerate() {
            let (dir, _lock) = held(&format!("goes-on-{n}"), text);
            let said = refusal(&dir, long);
            assert!(said.contains("is held by process") && said.contains("stop that one"), "{said}");
            std::fs::remove_dir_all(&dir).unwrap();
        }
        // Its `humboldt up` is another process's number by now, and not its parent.
        is_waited_for(held("orphan", &format!("{} kept by 1\n", other.id())));
        is_waited_for(held("nameless", ""));
        // It was killed; nothing has asked for its end yet, and then something has.
        other.kill().unwrap();
        is_waited_for(held("killed", &format!("{}\n", other.id())));
        other.wait().unwrap();
        is_waited_for(held("gone", &format!("{}\n", other.id())));
        // One that never lets go.
        let (dir, _lock) = held("for-ever", &format!("{}\n", other.id()));
        let said = refusal(&dir, Duration::from_millis(50));
        assert!(said.contains(&format!("process {}, which has been about to end", other.id())) && said.contains("dmesg"), "{said}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
