//! What goes wrong below the store, as stock clients see it: a flipped bit, a store that fills up, a file system that has no room left; and a
//! power cut, as a copy of the device below while clients write.

use super::Case;
use super::kill9::{background, command, finish, ledger};
use crate::clients::{Release::Pacific, SHARED};
use crate::cluster::{Cluster, binary};
use crate::loops::Loop;
use crate::run::{run, until};
use anyhow::{Context, Result, bail, ensure};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "a_flipped_bit_is_an_error", needs: &[Pacific], run: flipped_bit },
    Case { name: "full_and_back", needs: &[Pacific], run: full_and_back },
    Case { name: "no_room_below_the_store", needs: &[Pacific], run: no_room_below },
    Case { name: "copied_while_it_writes", needs: &[Pacific], run: || image_check(3) },
];

fn health(c: &Cluster, code: &str) -> bool {
    c.must(Pacific, "ceph health detail").is_ok_and(|text| text.contains(code))
}
/// `humboldt store fsck` of an OSD that does not run.
fn fsck(dir: &Path) -> Result<()> {
    let osd = dir.join("osd.0");
    let mut fsck = Command::new(binary());
    fsck.arg("store").arg("--dir").arg(&osd).args(["fsck", "--deep"]);
    let mut out = run(&mut fsck, Duration::from_secs(120))?;
    // The kernel lets go of an ended server's files in its own time.
    until(Duration::from_secs(20), || {
        let busy = out.stderr.contains("used by another process");
        if busy && let Ok(again) = run(&mut fsck, Duration::from_secs(120)) {
            out = again;
        }
        !busy
    });
    ensure!(out.ok(), "fsck of {}:\n{}{}", osd.display(), out.stdout, out.stderr);
    Ok(())
}

/// Changes one bit of the only place that holds `pattern`.
fn flip(file: &Path, pattern: &[u8]) -> Result<()> {
    const PIECE: usize = 4 << 20;
    let data = std::fs::OpenOptions::new().read(true).write(true).open(file)?;
    let (mut buf, mut at) = (vec![0; PIECE], 0);
    loop {
        let n = data.read_at(&mut buf, at)?;
        if n == 0 {
            bail!("{} does not hold the object's data", file.display());
        }
        if let Some(i) = buf[..n].windows(pattern.len()).position(|w| w == pattern) {
            let byte = buf[i] ^ 0x10;
            return Ok(data.write_all_at(&[byte], at + i as u64)?);
        }
        at += n as u64;
    }
}

/// A reader of what a device holds wrongly is told so, and never given it; so is the administrator.
fn flipped_bit() -> Result<()> {
    let c = Cluster::start("flipped", &["--size", "256M"])?;
    let (dir, ok) = (c.dir.clone(), |c: &Cluster, line: &str| c.must(Pacific, line));
    ok(&c, "ceph osd pool create p 4")?;
    // Whole cells go to the data device beside the log.
    let pattern = b"the bytes that a bit is flipped in";
    let whole: Vec<u8> =
        pattern.iter().copied().cycle().take(64 << 10).enumerate().map(|(i, b)| if i % 4096 < 34 { b } else { i as u8 }).collect();
    for (name, first) in [("bad", 1), ("good", 2)] {
        let mut bytes = whole.clone();
        bytes[4096..4100].copy_from_slice(&[first; 4]);
        std::fs::write(dir.join("in"), &bytes)?;
        ok(&c, &format!("rados -p p put {name} {}", dir.join("in").display()))?;
        std::fs::rename(dir.join("in"), dir.join(name))?;
    }
    c.stop()?;
    flip(&dir.join("osd.0/data"), &[&[1; 4], &whole[4100..4200]].concat())?;
    let c = Cluster::start_in(dir.clone(), &[])?;
    ok(&c, &format!("rados -p p get good {}", dir.join("out").display()))?;
    ensure!(std::fs::read(dir.join("out"))? == std::fs::read(dir.join("good"))?, "another object");
    let _ = std::fs::remove_file(dir.join("out"));
    for _ in 0..2 {
        let out = c.must_fail(Pacific, &format!("rados -p p get bad {}", dir.join("out").display()), 1)?;
        ensure!(out.stderr.contains("(5) Input/output error"), "{}", out.stderr);
        let got = std::fs::read(dir.join("out")).unwrap_or_default();
        ensure!(std::fs::read(dir.join("bad"))?.starts_with(&got), "wrong bytes were given");
    }
    let shows = until(Duration::from_secs(20), || health(&c, "BLUESTORE_SPURIOUS_READ_ERRORS") && health(&c, "osd.0"));
    ensure!(shows, "no warning: {}", ok(&c, "ceph health detail")?);
    let map: serde_json::Value = serde_json::from_str(&ok(&c, "ceph osd map p bad -f json")?)?;
    let pg = map["pgid"].as_str().context("a pgid")?.to_string();
    ok(&c, &format!("ceph pg deep-scrub {pg}"))?;
    let shows = until(Duration::from_secs(20), || health(&c, "PG_DAMAGED") && health(&c, &pg));
    ensure!(shows, "no damage: {}", ok(&c, "ceph health detail")?);
    // Written as a whole, the object is well again.
    ok(&c, &format!("rados -p p put bad {}", dir.join("bad").display()))?;
    ok(&c, &format!("rados -p p get bad {}", dir.join("out").display()))?;
    ensure!(std::fs::read(dir.join("out"))? == std::fs::read(dir.join("bad"))?, "written again");
    ok(&c, &format!("ceph pg deep-scrub {pg}"))?;
    ensure!(until(Duration::from_secs(20), || !health(&c, "PG_DAMAGED")), "the damage stays: {}", ok(&c, "ceph health detail")?);
    c.stop()
}

/// A write that is not held back by its client, and wants an error rather than to wait (LIBRADOS_OPERATION_FULL_TRY).
const TOLD: &str = "
import rados, sys
cluster = rados.Rados(conffile=sys.argv[1], name='client.admin')
cluster.connect()
ioctx = cluster.open_ioctx('p')
with rados.WriteOpCtx() as op:
    op.write_full(b'x' * 4000000)
    try:
        ioctx.operate_write_op(op, 'told', flags=64)
        print('written')
    except rados.Error as e:
        print('errno', e.errno)
";

/// Near full it says so; full, writes wait or are refused as each client wants it, what removes passes, and service comes back by itself.
fn full_and_back() -> Result<()> {
    let c = Cluster::start("full", &["--size", "128M"])?;
    let ok = |line: &str| c.must(Pacific, line);
    ok("ceph osd pool create p 4")?;
    std::fs::write(c.dir.join("in"), vec![9; 24 << 20])?;
    let input = c.dir.join("in").display().to_string();
    for name in ["o0", "o1", "o2", "o3"] {
        ok(&format!("rados -p p put {name} {input}"))?;
    }
    ensure!(!health(&c, "NEARFULL"), "three quarters are not near full");
    std::fs::write(c.dir.join("in"), vec![9; 14 << 20])?;
    ok(&format!("rados -p p put o4 {input}"))?;
    ensure!(until(Duration::from_secs(20), || health(&c, "OSD_NEARFULL")), "not near full: {}", ok("ceph health detail")?);
    // A bench that is not told of a full pool fills the rest, and waits. What it writes in all (37 MiB) is more than what is left, and less than
    // what the removes below give back: a bench by time, let go before its time was up, filled the store again on a fast machine.
    let bench =
        background(&c.conf, "rados", "-p p bench 600 write -t 4 -b 65536 --max-objects 600 --no-cleanup --run-name b", "bench.log")?;
    let full = until(Duration::from_secs(30), || health(&c, "OSD_FULL") && health(&c, "POOL_FULL"));
    ensure!(full, "not full: {}", ok("ceph health detail")?);
    let put = c.client_within(Pacific, &format!("rados -p p put more {input}"), Duration::from_secs(3))?;
    ensure!(put.code == 124, "a write to a full pool ended with {}: {}", put.code, put.stderr);
    // This one wants to be told.
    let told = Pacific.run(&c.conf, "/usr/bin/python3", &["-c", TOLD, &c.conf.display().to_string()], Duration::from_secs(60))?;
    ensure!(told.stdout.contains("errno 28"), "a write that wants to be told: {}{}", told.stdout, told.stderr);
    // Reads go on.
    ok(&format!("rados -p p get o0 {}", c.dir.join("out").display()))?;
    for name in ["o0", "o1"] {
        ok(&format!("rados -p p rm {name} --force-full"))?;
    }
    ensure!(
        until(Duration::from_secs(30), || !health(&c, "OSD_FULL") && !health(&c, "POOL_FULL")),
        "full for ever: {}",
        ok("ceph health detail")?
    );
    finish(bench, "the bench that waited", &c.conf, "bench.log", Duration::from_secs(60))?;
    ok(&format!("rados -p p put more {input}"))?;
    c.stop()
}

/// The file system that the store's files lie in fills up under a store that believes to have room: it stops with a line that says what to do,
/// and goes on where it was when there is room again.
fn no_room_below() -> Result<()> {
    let mut device = Loop::sparse("no-room", 400)?;
    device.format()?;
    let at = device.mount_here("no-room")?;
    let c = Cluster::start_in(at.clone(), &["--size", "512M"])?;
    let port = c.port()?;
    c.must(Pacific, "ceph osd pool create ledger 8")?;
    c.must(Pacific, "ceph osd pool create p 8")?;
    // What makes room later.
    let ballast = at.join("ballast");
    let free = free_mib(&at)?;
    ensure!(free > 120, "{free} MiB are left of the file system");
    crate::run::quietly(Command::new("fallocate").args(["-l", &format!("{}M", free - 60)]).arg(&ballast))?;
    let (writer, lines) = ledger(&c, &Path::new(SHARED).join("no-room-ledger"))?;
    let filler = background(&c.conf, "rados", "-p p bench 600 write -t 8 -b 65536 --no-cleanup", "filler.log")?;
    let mut c = c;
    ensure!(until(Duration::from_secs(60), || c.ended()), "it goes on without room:\n{}", c.log());
    drop(filler);
    let said = c.log();
    ensure!(said.contains("make room") || said.contains("No space left"), "it ended, and said:\n{said}");
    ensure!(lines() > 0, "nothing was written");
    drop(c);
    std::fs::remove_file(&ballast)?;
    let c = Cluster::start_at(at.clone(), &port, &[])?;
    let before = lines();
    ensure!(until(Duration::from_secs(60), || lines() > before + 20), "the writer does not go on:\n{}", c.log());
    writer.finish(&c)?;
    c.stop()?;
    fsck(&at)
}

/// MiB that a file system has left.
fn free_mib(at: &Path) -> Result<u64> {
    let out = run(Command::new("stat").args(["-f", "-c", "%a %S"]).arg(at), Duration::from_secs(10))?;
    let numbers: Vec<u64> = out.stdout.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    ensure!(numbers.len() == 2, "stat: {}", out.stderr);
    Ok(numbers[0] * numbers[1] >> 20)
}

/// How the device's image is copied at one moment of a server that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The server stands still (SIGSTOP): what it had under way goes on, and its file system writes what it has in memory whenever it likes.
    Stopped,
    /// The file system is frozen: its memory is on the device, too.
    Frozen,
    /// Nothing stands still, and no program knows of it: the file system that the image lies in shares the image's blocks with a second file.
    AtOnce,
}

/// The device below is copied while clients write, again and again: each copy is what a power cut at one moment would have left of a device whose
/// cache lasts (what it lost of a cache that does not is the crash states' part). Everything acknowledged before is there, fsck is clean, and it
/// serves. No promise holds for an image that is read piece by piece while a program writes to it, which is a copy of many moments: a store that
/// was copied so may be refused, or found damaged.
pub fn image_check(copies: u32) -> Result<()> {
    let ways: &[Way] = if Loop::can_share() {
        &[Way::AtOnce, Way::Stopped, Way::Frozen]
    } else {
        println!("  no XFS here: no copies while the store goes on");
        &[Way::Stopped, Way::Frozen]
    };
    // What is below goes last.
    let (_below, mut device) = if ways.contains(&Way::AtOnce) {
        let mut xfs = Loop::sparse("copied-below", 1200)?;
        xfs.format_sharing()?;
        let folder = xfs.mount_here("copied-below")?;
        (Some(xfs), Loop::sparse_in(&folder, "copied", 400)?)
    } else {
        (None, Loop::sparse("copied", 400)?)
    };
    device.format()?;
    let at = device.mount_here("copied")?;
    let c = Cluster::start_in(at.clone(), &["--size", "128M"])?;
    c.must(Pacific, "ceph osd pool create ledger 8")?;
    let book = Path::new(SHARED).join("copied-ledger");
    let (writer, lines) = ledger(&c, &book)?;
    let (mut acked, mut total) = (0, 0);
    for n in 1..=copies {
        ensure!(until(Duration::from_secs(60), || lines() > acked + 200), "nothing is acknowledged any more:\n{}", c.log());
        std::thread::sleep(Duration::from_millis(u64::from(n * 337 % 1500)));
        acked = lines();
        let way = ways[n as usize % ways.len()];
        // Everything in the ledger now was acknowledged before the copy began.
        let length = whole_lines(&book)?;
        let copy = match way {
            Way::AtOnce => device.snapshot("copied-copy"),
            Way::Stopped => {
                c.signal("STOP");
                let copy = device.copy("copied-copy");
                c.signal("CONT");
                copy
            }
            Way::Frozen => {
                crate::run::quietly(Command::new("fsfreeze").arg("-f").arg(&at))?;
                let copy = device.copy("copied-copy");
                crate::run::quietly(Command::new("fsfreeze").arg("-u").arg(&at))?;
                copy
            }
        };
        let mut copy = copy?;
        let there = copy.mount_here("copied-copy")?;
        fsck(&there).with_context(|| format!("copy {n}"))?;
        let again = Cluster::start_in(there.clone(), &[]).with_context(|| format!("copy {n}"))?;
        let script = crate::run::root().join("suites/src/cases/ledger.py");
        let line = format!("{} check {} ledger {} {length}", script.display(), again.conf.display(), book.display());
        let out = run(&mut command(&again.conf, "/usr/bin/python3", &line), Duration::from_secs(120))?;
        ensure!(out.ok(), "copy {n}, {way:?}: the ledger:\n{}{}", out.stdout, out.stderr);
        total += 1;
        again.stop()?;
        fsck(&there).with_context(|| format!("copy {n}, served"))?;
    }
    writer.finish(&c)?;
    println!("  {total} copies came up whole; {acked} acknowledged writes when the last began");
    c.stop()
}

/// The length of the ledger without the line that is being written.
fn whole_lines(book: &Path) -> Result<usize> {
    let bytes = std::fs::read(book)?;
    Ok(bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1))
}
