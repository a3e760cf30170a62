//! Programs that work on files, on a CephFS of a stock ceph-mds and ceph-fuse of 18.2: SQLite, git and tar.

use super::{Works, tree};
use crate::cluster::Cluster;
use crate::mds::{self, Mount, Server};
use crate::run::{run, until};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A file system waits for a server that is away.
const WORK: Duration = Duration::from_secs(300);

/// The file system, and a folder beside the cluster that is not on it.
struct Files {
    // The client takes leave while there is a server.
    mount: Mount,
    _server: Server,
    dir: PathBuf,
}

impl Files {
    fn new(c: &Cluster) -> Result<Self> {
        let server = mds::serve(&c.conf)?;
        let mount = Mount::new(&c.conf)?;
        Ok(Self { mount, _server: server, dir: c.dir.clone() })
    }
    /// A file or folder on the file system.
    fn at(&self, name: &str) -> PathBuf {
        self.mount.outside.join(name)
    }
}

/// Runs a command that must succeed; what it prints.
fn does(cmd: &mut Command) -> Result<String> {
    let out = run(cmd, WORK)?;
    ensure!(out.ok(), "{cmd:?} ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
    Ok(out.stdout)
}

/// A database: rows in transactions of their own, each with a line in a ledger once it was committed.
struct Sqlite {
    files: Files,
    rows: usize,
}

/// Rows a round, and when something happens.
const ROWS: usize = 120;
const MIDST: usize = 20;

impl Sqlite {
    fn ask(&self, line: &str) -> Result<String> {
        does(Command::new("sqlite3").args(["-batch", "-bail", "-cmd", ".timeout 60000"]).arg(self.files.at("a.db")).arg(line))
    }
}

impl Works for Sqlite {
    fn work(&mut self, _round: usize, midst: &dyn Fn()) -> Result<()> {
        let (first, book) = (self.rows, self.files.dir.join("sqlite.ledger"));
        let text: String =
            (first..first + ROWS).map(|n| format!("INSERT INTO kept VALUES ({n}, hex(randomblob(1000)));\nSELECT {n};\n")).collect();
        let script = self.files.dir.join("sqlite.script");
        std::fs::write(&script, text)?;
        // Unbuffered: a line is there when its row is committed.
        let mut cmd = Command::new("stdbuf");
        cmd.args(["-oL", "sqlite3", "-batch", "-bail"]).arg(self.files.at("a.db"));
        let mut writer = cmd.stdin(std::fs::File::open(&script)?).stdout(std::fs::File::create(&book)?).stderr(Stdio::inherit()).spawn()?;
        let lines = || std::fs::read_to_string(&book).map_or(0, |text| text.lines().count());
        let mut status = None;
        let begun = until(WORK, || {
            status = writer.try_wait().ok().flatten();
            status.is_some() || lines() >= MIDST
        });
        if begun && lines() >= MIDST {
            midst();
        }
        until(WORK, || {
            status = writer.try_wait().ok().flatten();
            status.is_some()
        });
        if status.is_none() {
            let _ = writer.kill();
            let _ = writer.wait();
        }
        ensure!(status.is_some_and(|s| s.success()) && lines() == ROWS, "sqlite3 ended with {status:?} after {} of {ROWS} rows", lines());
        self.rows += ROWS;
        Ok(())
    }
    fn check(&mut self) -> Result<()> {
        let said = self.ask("PRAGMA integrity_check; SELECT count(*), sum(n), sum(length(text)) FROM kept;")?;
        let n = self.rows;
        ensure!(
            said.trim() == format!("ok\n{n}|{}|{}", n * (n - 1) / 2, n * 2000),
            "{n} rows were acknowledged, and the database says: {said}"
        );
        Ok(())
    }
}

pub(super) fn sqlite(c: &Cluster) -> Result<Box<dyn Works>> {
    let it = Sqlite { files: Files::new(c)?, rows: 0 };
    it.ask("CREATE TABLE kept (n INTEGER PRIMARY KEY, text TEXT);")?;
    Ok(Box::new(it))
}

/// A repository with a commit for each half of a round, and another that is pushed to.
struct Git {
    files: Files,
    commits: usize,
}

impl Git {
    fn ask(&self, at: &Path, words: &[&str]) -> Result<String> {
        let mut cmd = Command::new("git");
        cmd.arg("-C").arg(at).args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "safe.directory=*", "-c", "gc.auto=0"]);
        does(cmd.args(words).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", &self.files.dir))
    }
    fn commit(&mut self, step: usize) -> Result<()> {
        let at = self.files.at("work");
        tree::grow(&at, step)?;
        self.ask(&at, &["add", "--all"])?;
        self.ask(&at, &["commit", "-q", "-m", &format!("step {step}")])?;
        self.ask(&at, &["push", "-q", "--force", "../bare.git", "HEAD:refs/heads/kept"])?;
        self.commits += 1;
        Ok(())
    }
}

impl Works for Git {
    fn work(&mut self, round: usize, midst: &dyn Fn()) -> Result<()> {
        self.commit(2 * round)?;
        midst();
        self.commit(2 * round + 1)
    }
    fn check(&mut self) -> Result<()> {
        for (name, branch) in [("work", "HEAD"), ("bare.git", "kept")] {
            let at = self.files.at(name);
            self.ask(&at, &["fsck", "--full", "--strict"])?;
            let count = self.ask(&at, &["rev-list", "--count", branch])?;
            ensure!(count.trim() == self.commits.to_string(), "{} commits were made, and {name} has {count}", self.commits);
        }
        let changed = self.ask(&self.files.at("work"), &["status", "--porcelain"])?;
        ensure!(changed.is_empty(), "files are not as they were committed: {changed}");
        Ok(())
    }
}

pub(super) fn git(c: &Cluster) -> Result<Box<dyn Works>> {
    let it = Git { files: Files::new(c)?, commits: 0 };
    for (name, how) in [("work", &["init", "-q"][..]), ("bare.git", &["init", "-q", "--bare"][..])] {
        std::fs::create_dir(it.files.at(name))?;
        it.ask(&it.files.at(name), how)?;
    }
    Ok(Box::new(it))
}

/// A folder that is packed onto the file system, and unpacked there.
struct Tar {
    files: Files,
    rounds: usize,
}

impl Tar {
    fn pack(&self, step: usize) -> Result<()> {
        let (kept, archive) = (self.files.dir.join("kept"), self.files.at(&format!("{step}.tar")));
        tree::grow(&kept, step)?;
        let copy = self.files.dir.join(format!("as-of-{step}"));
        does(Command::new("cp").arg("-r").arg(&kept).arg(&copy))?;
        does(Command::new("tar").arg("-C").arg(&copy).arg("-cf").arg(&archive).arg("."))?;
        let unpacked = self.files.at(&format!("{step}"));
        std::fs::create_dir(&unpacked)?;
        does(Command::new("tar").arg("-C").arg(&unpacked).arg("-xf").arg(&archive)).map(drop)
    }
}

impl Works for Tar {
    fn work(&mut self, round: usize, midst: &dyn Fn()) -> Result<()> {
        self.pack(2 * round)?;
        midst();
        self.pack(2 * round + 1)?;
        self.rounds = round + 1;
        Ok(())
    }
    fn check(&mut self) -> Result<()> {
        for step in 0..2 * self.rounds {
            let copy = self.files.dir.join(format!("as-of-{step}"));
            does(Command::new("tar").arg("-C").arg(&copy).arg("-df").arg(self.files.at(&format!("{step}.tar"))))?;
            tree::same(&copy, &self.files.at(&step.to_string())).with_context(|| format!("unpacked in step {step}"))?;
        }
        Ok(())
    }
}

pub(super) fn tar(c: &Cluster) -> Result<Box<dyn Works>> {
    Ok(Box::new(Tar { files: Files::new(c)?, rounds: 0 }))
}
