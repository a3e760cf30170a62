//! The rot matrix: one block of a store or of the monitor's database changes while nothing runs, and then the program must serve, or say how to go
//! on; whatever was hit, no wrong byte is read, and the way back leaves a clean store.
//!
//! Holds what a user sees. The same on devices in memory, with many more damages, is `store-block`'s `crash::rot`, which runs first.

use crate::clients::Release::Pacific;
use crate::cluster::{Cluster, binary};
use crate::run::{Output, quietly, root, run};
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const OBJECTS: u64 = 400;
const BLOCK: u64 = 4096;
/// Damages on devices in memory for each that a whole server is started on.
const IN_MEMORY: u64 = 20;
const LIMIT: Duration = Duration::from_secs(120);

/// How many of the objects are what, and the names of those that are not whole.
#[derive(Debug, Clone, Default)]
struct Seen {
    whole: u64,
    absent: u64,
    wrong: u64,
    others: Vec<String>,
}

fn script(c: &Cluster, verb: &str) -> Result<String> {
    let script = root().join("suites/src/cases/rot.py");
    let line = format!("/usr/bin/python3 {} {} {verb}", script.display(), c.conf.display());
    let out = c.client_within(Pacific, &line, Duration::from_secs(2400))?;
    ensure!(out.ok(), "{line}: {}{}", out.stdout, out.stderr);
    Ok(out.stdout)
}
fn read(c: &Cluster) -> Result<Seen> {
    let text = script(c, "read")?;
    let number = |word: &str| {
        let mut words = text.split_whitespace().skip_while(|w| *w != word).skip(1);
        words.next().and_then(|n| n.parse().ok()).with_context(|| format!("the reader said: {text}"))
    };
    let others = text.split_whitespace().skip_while(|w| *w != "others").skip(1).map(String::from).collect();
    Ok(Seen { whole: number("whole")?, absent: number("absent")?, wrong: number("wrong")?, others })
}
/// `humboldt store` on an OSD's folder.
pub fn store(osd: &Path, words: &[&str]) -> Result<Output> {
    run(Command::new(binary()).args(["store", "--dir"]).arg(osd).args(words), LIMIT)
}

/// Numbers by chance, the same in every run.
struct Chance(u64);
impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Damages a block of the file that is not empty; says how.
fn damage(file: &Path, before: &Path, chance: &mut Chance) -> Result<String> {
    let mut bytes = std::fs::OpenOptions::new().read(true).write(true).open(file)?;
    let blocks = bytes.metadata()?.len() / BLOCK;
    let block_at = |from: &mut std::fs::File, block: u64| -> Result<Vec<u8>> {
        let mut out = vec![0; BLOCK as usize];
        from.seek(SeekFrom::Start(block * BLOCK))?;
        from.read_exact(&mut out)?;
        Ok(out)
    };
    let mut used = Vec::new();
    for block in 0..blocks {
        if block_at(&mut bytes, block)?.iter().any(|b| *b != 0) {
            used.push(block);
        }
    }
    let block = used[chance.below(used.len() as u64) as usize];
    let old = block_at(&mut bytes, block)?;
    let mut put = |block: u64, new: &[u8]| -> Result<()> {
        bytes.seek(SeekFrom::Start(block * BLOCK))?;
        Ok(bytes.write_all(new)?)
    };
    let what = match chance.below(4) {
        0 => {
            let (mut new, bit) = (old.clone(), chance.below(8 * BLOCK) as usize);
            new[bit / 8] ^= 1 << (bit % 8);
            put(block, &new)?;
            "a bit flipped"
        }
        1 => {
            put(block, &[0; BLOCK as usize])?;
            "zeros"
        }
        2 => {
            let mut before = std::fs::File::open(before)?;
            let len = before.metadata()?.len() / BLOCK;
            put(block, &if block < len { block_at(&mut before, block)? } else { vec![0; BLOCK as usize] })?;
            "as it was before"
        }
        _ => {
            let other = used[chance.below(used.len() as u64) as usize];
            let theirs = block_at(&mut std::fs::File::open(file)?, other)?;
            put(block, &theirs)?;
            put(other, &old)?;
            "swapped with another"
        }
    };
    Ok(format!("{} block {block}: {what}", file.file_name().unwrap_or_default().display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let _ = std::fs::remove_dir_all(to);
    quietly(Command::new("cp").args(["-a", "--sparse=always"]).arg(from).arg(to))
}

/// `count` damages of a whole cluster's files; before them, if `in_memory`, many more of a store in memory.
pub fn rot_matrix(count: u64, in_memory: bool) -> Result<()> {
    if in_memory {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "-p", "store-block", "--lib", "crash::rot::rot", "--", "--nocapture"]).current_dir(root());
        ensure!(cargo.env("ROT_COUNT", (count * IN_MEMORY).to_string()).status()?.success(), "the store in memory came up wrong");
    }
    rot_of_servers(count)
}

fn rot_of_servers(count: u64) -> Result<()> {
    let c = Cluster::start("rot", &["--size", "256M", "--auth", "none", "--osds", "1"])?;
    let (dir, port) = (c.dir.clone(), c.port()?);
    c.must(Pacific, "ceph osd pool create rot 8")?;
    script(&c, "write")?;
    c.must(Pacific, "ceph tell osd.0 compact")?;
    let before = dir.with_extension("before");
    copy(&dir, &before)?;
    script(&c, "write")?;
    c.signal("KILL");
    drop(c);
    let whole = dir.with_extension("whole");
    copy(&dir, &whole)?;
    let mut wrong = Vec::new();
    for n in 0..count {
        copy(&whole, &dir)?;
        let mut chance = Chance(0x9e37_79b9 + n * 7919);
        chance.below(2);
        let file = ["osd.0/data", "osd.0/wal", "osd.0/meta", "osd.0/meta", "mon.redb"][n as usize % 5];
        let what = damage(&dir.join(file), &before.join(file), &mut chance)?;
        match one(&dir, &port, file == "mon.redb") {
            Ok(how) => println!("{what}: {how}"),
            Err(e) => {
                println!("{what}: WRONG: {e:#}");
                wrong.push(what);
            }
        }
    }
    for folder in [dir, before, whole] {
        let _ = std::fs::remove_dir_all(folder);
    }
    ensure!(wrong.is_empty(), "{} of {count} damages came out wrong: {}", wrong.len(), wrong.join("; "));
    Ok(())
}

fn one(dir: &Path, port: &str, of_monitor: bool) -> Result<String> {
    let osd = dir.join("osd.0");
    let up = || Cluster::start_at(dir.to_path_buf(), port, &["--auth", "none"]);
    let (mut how, mut cut) = (String::new(), false);
    match up() {
        Ok(c) => {
            let seen = read(&c)?;
            ensure!(seen.wrong == 0 && seen.absent == 0, "served {seen:?}");
            how += &format!("{} served", seen.whole);
            c.signal("KILL");
        }
        Err(e) => {
            let text = e.to_string();
            cut = text.contains("--discard-log-from-damage");
            let ways: &[&str] = if of_monitor { &["humboldt restore-mon --dir"] } else { &["humboldt store --dir", "restore this OSD"] };
            ensure!(ways.iter().any(|way| text.contains(way)), "refused without a way on: {text}");
            how += "refused";
        }
    }
    // Everything else is exported whole, or the damage is in the root of the store.
    let file = dir.join("export");
    let _ = std::fs::remove_file(&file);
    let exported = store(&osd, &["export", "--skip-damaged", &file.display().to_string()])?;
    if ![0, 3].contains(&exported.code) {
        ensure!(how == "refused" && exported.stderr.contains("restore this OSD"), "export: {}", exported.stderr);
        return Ok(how + ", no way back but an export of before");
    }
    let left_out = exported.stderr.lines().filter(|l| l.starts_with("left out: ")).count();
    ensure!((exported.code == 3) == (left_out > 0), "export: {}", exported.stderr);
    how += &format!(", exported but for {left_out}");
    let words: &[&str] = if cut { &["repair", "--discard-log-from-damage"] } else { &["repair"] };
    let repaired = store(&osd, words)?;
    ensure!(repaired.ok(), "repair: {}{}", repaired.stdout, repaired.stderr);
    let fsck = store(&osd, &["fsck"])?;
    ensure!(fsck.ok(), "fsck after the repair: {}{}", fsck.stdout, fsck.stderr);
    if of_monitor {
        if how.starts_with("refused") {
            let restored = run(Command::new(binary()).args(["restore-mon", "--dir"]).arg(dir), LIMIT)?;
            ensure!(restored.ok(), "restore-mon: {}{}", restored.stdout, restored.stderr);
            let seen = read(&up()?)?;
            ensure!(seen.whole == OBJECTS, "served when the monitor is restored: {seen:?}");
            how += ", all served when it is restored";
        }
        return Ok(how + ", clean");
    }
    let c = match up() {
        Ok(c) => c,
        Err(e) => bail!("it does not start when it is repaired: {e}"),
    };
    let seen = read(&c)?;
    ensure!(seen.wrong == 0, "served when it is repaired: {seen:?}");
    ensure!(seen.whole > OBJECTS * 3 / 4 || cut, "served when it is repaired: {seen:?}");
    // Whatever is not whole was named: left out of the export, or lost by the repair. What a leaf had is named by its first object and the next leaf's,
    // and by how many rows it had.
    let named = format!("{}\n{}", exported.stderr, repaired.stdout);
    let is_named = |name: &String| named.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == name);
    let rows = named.split("up to ").skip(1).filter_map(|text| text.split(' ').next()?.parse::<usize>().ok()).sum::<usize>();
    let silent: Vec<_> = seen.others.iter().filter(|name| !is_named(name)).collect();
    ensure!(silent.len() <= rows || cut, "not whole, and not named: {silent:?}; export and repair said:\n{named}");
    Ok(how + &format!(", {} served when it is repaired", seen.whole))
}
