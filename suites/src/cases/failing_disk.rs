//! A disk that is there and does not work: its I/O hangs, fails, or its file system has turned read-only. Its OSD leaves in bounded time, stock clients
//! go on, health and page name the disk and the next step, and `humboldt osd replace` puts another store in its place. Under stock monitors, whose health
//! says no more than that an OSD is down, the cluster log has it.
//!
//! The disk is a file system of the case's own on a loop device: frozen (`fsfreeze`), shut down (an ioctl of ext4's), or told of an error of its own.

use super::Case;
use super::kill9::ledger;
use crate::clients::Release::{Pacific, Reef};
use crate::clients::SHARED;
use crate::cluster::{Cluster, binary};
use crate::folders;
use crate::loops::Loop;
use crate::run::{quietly, run, until};
use crate::stock::{LOOK, Plane, stock_control_plane};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "disk_that_hangs", needs: &[Pacific], run: || fails(&["--processes"], Fault::Hangs) },
    Case { name: "disk_that_hangs_below_a_thread", needs: &[Pacific], run: || fails(&[], Fault::Hangs) },
    Case { name: "disk_of_io_errors", needs: &[Pacific], run: || fails(&["--processes"], Fault::Errors) },
    Case { name: "disk_turned_read_only", needs: &[Pacific], run: || fails(&[], Fault::ReadOnly) },
    Case { name: "disks_that_fail_under_stock_monitors", needs: &[Pacific, Reef], run: under_stock_monitors },
];

/// How long it may take from the fault to an OSD that is down and named: the watchdog's time is a tenth of it.
const STEPS_ASIDE: Duration = Duration::from_secs(60);
/// Seconds after which an operation that hangs is said, and ends the OSD's service.
const HANGS_S: [(&str, u32); 2] = [("osd_op_thread_timeout", 2), ("osd_op_thread_suicide_timeout", 5)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// No write is answered.
    Hangs,
    /// Each read and write is answered EIO.
    Errors,
    ReadOnly,
}

impl Fault {
    fn begins(self, disk: &Disk) -> Result<()> {
        let at = disk.at.as_path();
        match self {
            Self::Hangs => quietly(Command::new("fsfreeze").arg("-f").arg(at)),
            Self::Errors => {
                // EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH, Linux fs/ext4/ext4.h.
                let ask = "import fcntl, os, struct, sys\nfcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";
                quietly(Command::new("python3").args(["-c", ask]).arg(at))
            }
            Self::ReadOnly => {
                let knob = format!("/sys/fs/ext4/{}/trigger_fs_error", disk.name()?);
                std::fs::write(&knob, "a test").with_context(|| knob.clone())
            }
        }
    }
    /// What the reason says.
    fn words(self) -> &'static str {
        match self {
            Self::Hangs => "its disk hangs",
            Self::Errors => "Input/output error",
            Self::ReadOnly => "ead-only",
        }
    }
}

/// The file system that an OSD is on. What it holds back goes on when it goes.
struct Disk {
    device: Loop,
    at: PathBuf,
    frozen: bool,
}

impl Disk {
    /// Mounted, and the OSD's folder in `dir` leads to it.
    fn below(dir: &Path, osd: u32, name: &str) -> Result<Self> {
        let mut device = Loop::sparse(name, 600)?;
        device.format()?;
        quietly(Command::new("tune2fs").args(["-e", "remount-ro"]).arg(&device.device))?;
        let at = device.mount_here(name)?;
        std::fs::create_dir(at.join("osd"))?;
        std::os::unix::fs::symlink(at.join("osd"), dir.join(format!("osd.{osd}")))?;
        Ok(Self { device, at, frozen: false })
    }
    fn name(&self) -> Result<String> {
        Ok(self.device.device.file_name().context("a device's name")?.to_string_lossy().into_owned())
    }
    fn thaw(&mut self) -> Result<()> {
        match std::mem::take(&mut self.frozen) {
            true => quietly(Command::new("fsfreeze").arg("-u").arg(&self.at)),
            false => Ok(()),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.thaw();
    }
}

fn fails(form: &[&str], fault: Fault) -> Result<()> {
    let name = format!("disk-{fault:?}-{}", form.len()).to_lowercase();
    let dir = folders::fresh(&name)?;
    let mut disk = Disk::below(&dir, 2, &format!("{name}-below"))?;
    let c = Cluster::start_in(dir, &[&["--osds", "3", "--size", "256M", "--http", "127.0.0.1:0"], form].concat())?;
    for (option, seconds) in HANGS_S {
        c.must(Pacific, &format!("ceph config set osd {option} {seconds}"))?;
    }
    let done = lives_through(&c, &mut disk, fault, &name);
    // A server that waits for its disk does not end before that answers.
    disk.thaw()?;
    done?;
    c.stop()
}

/// The fault under a writer, its end or not, and the exchange of the disk.
fn lives_through(c: &Cluster, disk: &mut Disk, fault: Fault, name: &str) -> Result<()> {
    c.must(Pacific, "ceph osd pool create ledger 16")?;
    clean(c)?;
    let (writer, lines) = ledger(c, &Path::new(SHARED).join(format!("{name}-ledger")))?;
    ensure!(until(Duration::from_secs(60), || lines() > 100), "nothing is written:\n{}", c.log());

    fault.begins(disk)?;
    disk.frozen = fault == Fault::Hangs;
    named(c, disk, fault)?;
    let before = lines();
    ensure!(until(STEPS_ASIDE, || lines() > before + 100), "clients do not go on:\n{}", c.log());
    if fault == Fault::Hangs {
        // When it answers after all, its OSD comes back by itself.
        disk.thaw()?;
        let up = || c.must(Pacific, "ceph osd stat").is_ok_and(|text| text.contains("3 up"));
        ensure!(until(STEPS_ASIDE, up), "the disk answers, and its OSD does not come back:\n{}", c.log());
        clean(c)?;
        fault.begins(disk)?;
        disk.frozen = true;
        named(c, disk, fault)?;
    }
    // And if it never does, another takes its place, while clients go on.
    let mut replace = Command::new(binary());
    replace.args(["osd", "replace", "2", "--size", "256M", "--dir"]).arg(&c.dir);
    let out = run(&mut replace, Duration::from_secs(120))?;
    ensure!(out.ok(), "osd replace: {}{}\n{}", out.stdout, out.stderr, c.log());
    clean(c)?;
    let before = lines();
    ensure!(until(STEPS_ASIDE, || lines() > before + 100), "clients do not go on behind the exchange:\n{}", c.log());
    writer.finish(c).map(drop)
}

/// Each group has three copies.
fn clean(c: &Cluster) -> Result<()> {
    let mut text = String::new();
    let good = || {
        text = c.must(Pacific, "ceph pg stat -f json").unwrap_or_default();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let states = json["pg_summary"]["num_pg_by_state"].as_array().or(json["num_pg_by_state"].as_array()).cloned().unwrap_or_default();
        let up = c.must(Pacific, "ceph osd stat").is_ok_and(|text| text.contains("3 up"));
        up && states.len() == 1 && states[0]["name"] == "active+clean"
    };
    ensure!(until(Duration::from_secs(120), good), "not clean: {text}\n{}", c.log());
    Ok(())
}

/// Health and the page name the OSD, why, the disk, and what to do.
fn named(c: &Cluster, disk: &Disk, fault: Fault) -> Result<()> {
    let words = [fault.words().to_string(), "osd replace 2".into()];
    let mut all = words.to_vec();
    // A folder whose file system answers nothing at all has no device to be asked for.
    all.extend((fault == Fault::Hangs).then(|| disk.name()).transpose()?);
    let says = |text: &str| text.lines().any(|line| line.contains("osd.2") && all.iter().all(|word| line.contains(word.as_str())));
    let mut text = String::new();
    let shows = || {
        text = c.must(Pacific, "ceph health detail").unwrap_or_default();
        says(&text)
    };
    ensure!(until(STEPS_ASIDE, shows), "health does not name {all:?}:\n{text}\n{}", c.log());
    let line = c.log().lines().find_map(|l| l.strip_prefix("page: ").map(String::from)).context("the page's line")?;
    let address = line.split(';').next().context("the page's address")?.trim_end_matches('/').to_string();
    let page = run(Command::new("curl").args(["-s", &format!("{address}/state")]), Duration::from_secs(20))?;
    ensure!(all.iter().all(|word| page.stdout.contains(word.as_str())), "the page does not name {all:?}: {}", page.stdout);
    Ok(())
}

/// OSDs as stock ones are run, each a process by itself, kept by nothing.
fn under_stock_monitors() -> Result<()> {
    let name = "disks-under-stock";
    let mut d = stock_control_plane(name, &Plane { monitors: 1, ..Plane::default() })?;
    let mut disks =
        [(1, Fault::Errors), (2, Fault::Hangs)].map(|(osd, fault)| (osd, fault, Disk::below(&d.dir, osd, &format!("{name}-{osd}"))));
    for osd in 0..3 {
        d.new_ours(osd, "ssd", &["--size", "256M"])?;
    }
    d.wait_up(3)?;
    for (option, seconds) in HANGS_S {
        d.must(&format!("ceph config set osd {option} {seconds}"))?;
    }
    for line in ["create p 8", "set p size 3", "set p min_size 1"] {
        d.must(&format!("ceph osd pool {line}"))?;
    }
    d.wait_pgs(8)?;
    for (osd, fault, disk) in &mut disks {
        let disk = disk.as_mut().map_err(|e| anyhow::anyhow!("a disk for osd.{osd}: {e:#}"))?;
        fault.begins(disk)?;
        disk.frozen = *fault == Fault::Hangs;
        // The write that failed is told as the store has it.
        let cause = if *fault == Fault::Errors { "errno 5" } else { fault.words() };
        let device = disk.name().unwrap_or_default();
        let words = [format!("osd.{osd} "), "leaves the cluster: ".into(), cause.into(), format!("ceph osd out {osd}")];
        let mut said = String::new();
        let named = until(STEPS_ASIDE, || {
            // A write is what a disk fails at; this one may wait until its OSD is down.
            let _ = d.must_within("rados -p p put o /etc/hostname", LOOK);
            said = d.must_within("ceph log last 100 error cluster", LOOK).unwrap_or_default();
            said.lines().any(|line| words.iter().all(|word| line.contains(word.as_str())) && line.contains(&device))
        });
        let log = d.said(&format!("osd.{osd}"));
        let done = if named { Ok(()) } else { Err(anyhow::anyhow!("the cluster log does not name osd.{osd}: {said}\n{log}")) };
        let down = || d.must_within("ceph osd dump", LOOK).is_ok_and(|map| map.lines().any(|l| l.starts_with(&format!("osd.{osd} down"))));
        let done = done.and_then(|()| if until(STEPS_ASIDE, down) { Ok(()) } else { Err(anyhow::anyhow!("osd.{osd} is not down: {log}")) });
        // What waits for a disk ends when that answers.
        disk.thaw()?;
        done?;
    }
    d.must("rados -p p put o /etc/hostname").map(drop)
}
