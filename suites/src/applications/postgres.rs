//! PostgreSQL on an RBD image: pgbench and a ledger of what was committed write, pg_amcheck and sums check.
//!
//! The image is a file by qemu-storage-daemon and FUSE, the file a loop device with ext4: a path by librbd, without a kernel client.

use super::Works;
use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::loops::Loop;
use crate::run::{ended, quietly, run, until};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub(super) const PACKAGES: &[(&str, &str)] = &[
    ("postgresql", "/usr/share/doc/postgresql"),
    ("qemu-system-common", "/usr/bin/qemu-storage-daemon"),
    ("qemu-block-extra", "/usr/lib/x86_64-linux-gnu/qemu/block-rbd.so"),
    ("fuse3", "/usr/bin/fusermount3"),
];

/// A disk waits for a server that is away.
const WORK: Duration = Duration::from_secs(300);
/// Rows of the ledger a round, and when something happens.
const ROWS: usize = 400;
const MIDST: usize = 100;

/// An image as a file of this machine; both end with this value.
struct Image {
    daemon: Child,
    file: PathBuf,
}

impl Image {
    fn new(c: &Cluster) -> Result<Self> {
        c.must(Pacific, "ceph osd pool create disks 32")?;
        c.must(Pacific, "rbd pool init disks")?;
        c.must(Pacific, "rbd create disks/a --size 1G")?;
        let file = c.dir.join("image");
        File::create(&file)?;
        let log = File::create(c.dir.join("qemu-storage-daemon.log"))?;
        let mut cmd = Pacific.command(&c.conf, "qemu-storage-daemon");
        cmd.arg("--blockdev").arg(format!("driver=rbd,node-name=a,pool=disks,image=a,conf={},user=admin", c.conf.display()));
        cmd.arg("--export").arg(format!("type=fuse,id=a,node-name=a,mountpoint={},writable=on", file.display()));
        let daemon = cmd.current_dir(&c.dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut image = Self { daemon, file };
        let is_there = |image: &Self| std::fs::metadata(&image.file).is_ok_and(|meta| meta.len() == 1 << 30);
        let there = until(WORK, || is_there(&image) || ended(&mut image.daemon)) && is_there(&image);
        ensure!(there, "no file of the image: {}", std::fs::read_to_string(c.dir.join("qemu-storage-daemon.log")).unwrap_or_default());
        Ok(image)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.daemon.id().to_string()).status();
        if !until(Duration::from_secs(30), || ended(&mut self.daemon)) {
            let _ = self.daemon.kill();
            let _ = self.daemon.wait();
        }
        let _ = run(Command::new("umount").args(["-q", "-l"]).arg(&self.file), WORK);
    }
}

/// A server on the image. Its user is the package's.
struct Postgres {
    programs: PathBuf,
    data: PathBuf,
    /// Of the ledger, and of pgbench's own history.
    rows: usize,
    // In this order: the file system goes before the image below it.
    _disk: Loop,
    _image: Image,
    dir: PathBuf,
}

impl Postgres {
    /// A program of the server's, as its user.
    fn program(&self, name: &str, words: &[&str]) -> Command {
        let mut cmd = Command::new("runuser");
        cmd.args(["-u", "postgres", "--"]).arg(self.programs.join(name)).args(words).env("LC_ALL", "C.UTF-8");
        cmd.current_dir("/").env("PGHOST", &self.data).env("PGDATABASE", "postgres");
        cmd
    }
    fn does(&self, name: &str, words: &[&str]) -> Result<String> {
        let out = run(&mut self.program(name, words), WORK)?;
        ensure!(out.ok(), "{name} {words:?} ended with {}:\n{}{}\n{}", out.code, out.stdout, out.stderr, self.log());
        Ok(out.stdout)
    }
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.data.join("log")).unwrap_or_default();
        text.lines().rev().take(10).collect::<Vec<_>>().join("\n")
    }
    fn start(&self) -> Result<()> {
        let (data, log) = (self.data.join("db").display().to_string(), self.data.join("log").display().to_string());
        let how = format!("-c listen_addresses='' -k {}", self.data.display());
        // It has a child that goes on: nothing of it is to hold a pipe of ours.
        let mut cmd = self.program("pg_ctl", &["-D", &data, "-l", &log, "-w", "-t", "120", "-o", &how, "start"]);
        let status = cmd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(status.success(), "PostgreSQL does not start: {}", self.log());
        Ok(())
    }
    fn stop(&self) -> Result<()> {
        self.does("pg_ctl", &["-D", &self.data.join("db").display().to_string(), "-w", "-m", "fast", "stop"]).map(drop)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

impl Works for Postgres {
    fn work(&mut self, _round: usize, midst: &dyn Fn()) -> Result<()> {
        let (first, book, script) = (self.rows, self.dir.join("postgres.ledger"), self.dir.join("postgres.script"));
        let text: String = (first..first + ROWS).map(|n| format!("INSERT INTO ledger VALUES ({n}) RETURNING n;\n")).collect();
        std::fs::write(&script, text)?;
        let mut bench = self.program("pgbench", &["-n", "-c", "4", "-t", "250"]);
        let mut bench = bench.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut writer = self.program("psql", &["-qAtX", "-v", "ON_ERROR_STOP=1"]);
        let mut writer = writer.stdin(File::open(&script)?).stdout(File::create(&book)?).stderr(Stdio::inherit()).spawn()?;
        let lines = || std::fs::read_to_string(&book).map_or(0, |text| text.lines().count());
        if until(WORK, || lines() >= MIDST || ended(&mut writer)) && lines() >= MIDST {
            midst();
        }
        let both = until(WORK, || ended(&mut writer) && ended(&mut bench));
        if !both {
            for child in [&mut writer, &mut bench] {
                let _ = child.kill();
            }
        }
        let (writer, bench) = (writer.wait()?, bench.wait()?);
        ensure!(both && writer.success() && bench.success(), "psql {writer}, pgbench {bench}, {} rows: {}", lines(), self.log());
        ensure!(lines() == ROWS, "{} of {ROWS} rows were acknowledged", lines());
        self.rows += ROWS;
        Ok(())
    }
    fn check(&mut self) -> Result<()> {
        // Nothing of it in the server's memory.
        self.stop()?;
        std::fs::write("/proc/sys/vm/drop_caches", "1").context("dropping caches")?;
        self.start()?;
        self.does("pg_amcheck", &["--install-missing", "--heapallindexed", "--parent-check", "postgres"])?;
        let (n, ask) = (self.rows, |line: &str| self.does("psql", &["-qAtX", "-c", line]));
        let said = ask("SELECT count(*), coalesce(sum(n), 0) FROM ledger")?;
        ensure!(said.trim() == format!("{n}|{}", n * n.saturating_sub(1) / 2), "{n} rows were acknowledged, and the ledger says: {said}");
        // What each transaction of pgbench adds to all three.
        let sums = ask(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts) - (SELECT coalesce(sum(delta), 0) FROM pgbench_history), (SELECT sum(bbalance) FROM pgbench_branches) - (SELECT coalesce(sum(delta), 0) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)",
        )?;
        let due = format!("0|0|{}", self.rows / ROWS * 1000);
        ensure!(sums.trim() == due, "pgbench's sums are {sums}, and not {due}");
        Ok(())
    }
}

/// Where the newest server's programs are.
fn programs() -> Result<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")?.flatten().map(|e| e.path().join("bin")).collect();
    all.sort();
    all.pop().context("PostgreSQL's programs are not in /usr/lib/postgresql")
}

pub(super) fn start(c: &Cluster) -> Result<Box<dyn Works>> {
    let image = Image::new(c)?;
    let mut disk = Loop::over(&image.file)?;
    disk.format()?;
    let data = disk.mount_here(&format!("{}-disk", c.dir.file_name().context("the cluster's folder has a name")?.to_string_lossy()))?;
    quietly(Command::new("chown").arg("postgres:").arg(&data))?;
    let it = Postgres { programs: programs()?, data, rows: 0, _disk: disk, _image: image, dir: c.dir.clone() };
    let db = it.data.join("db").display().to_string();
    it.does("initdb", &["-D", &db, "-A", "trust", "--data-checksums"])?;
    it.start()?;
    it.does("psql", &["-qAtX", "-c", "CREATE TABLE ledger (n INTEGER PRIMARY KEY)"])?;
    it.does("pgbench", &["-i", "-q", "-s", "3"])?;
    Ok(Box::new(it))
}
