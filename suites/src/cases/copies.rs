//! Pools of three copies on OSDs that are processes of their own: some are killed with -9 under load, one, two or all at a time, and afterwards each
//! copy by itself holds everything that was acknowledged.

use super::Case;
use super::kill9::{Writer, check_ledger, ledger};
use crate::clients::Release::{self, Pacific};
use crate::cluster::Cluster;
use crate::run::until;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "three_copies_and_kills", needs: &[Pacific], run: || kill_copies(6) },
    Case { name: "memory_is_filled_anew", needs: &[Pacific], run: memory },
];

const R: Release = Pacific;
const OSDS: usize = 3;
/// How long until every group is clean after a kill: the OSD is started again in a second or some, and what it lacks is pushed.
const CLEAN: Duration = Duration::from_secs(90);
/// Which are killed in which cycle; the pattern repeats.
const VICTIMS: &[&[usize]] = &[&[0], &[1], &[2], &[0, 1], &[1, 2], &[0, 1, 2]];

pub fn kill(c: &Cluster, osds: &[usize]) -> Result<()> {
    let pids: Vec<String> = osds.iter().filter_map(|osd| c.pid_of_osd(*osd)).map(|pid| pid.to_string()).collect();
    ensure!(pids.len() == osds.len(), "of osd.{osds:?} some don't run:\n{}", c.log());
    ensure!(Command::new("kill").arg("-KILL").args(&pids).status()?.success(), "kill");
    let gone = || pids.iter().all(|pid| !std::path::Path::new("/proc").join(pid).exists());
    ensure!(until(Duration::from_secs(10), gone), "they outlive kill -9");
    Ok(())
}
pub fn groups(c: &Cluster) -> Result<Vec<Value>> {
    let dump: Value = serde_json::from_str(&c.must(R, "ceph pg dump pgs -f json")?)?;
    Ok(dump["pg_stats"].as_array().context("pg dump")?.clone())
}
/// The map's epoch, and since when each OSD is up in it; nothing for one that is down.
fn map(c: &Cluster) -> Result<(u64, Vec<Option<u64>>)> {
    let dump: Value = serde_json::from_str(&c.must(R, "ceph osd dump -f json")?)?;
    let since = |osd: &Value| osd["up_from"].as_u64().filter(|_| osd["up"] == 1);
    Ok((dump["epoch"].as_u64().context("an epoch")?, dump["osds"].as_array().context("osds")?.iter().map(since).collect()))
}
/// Waits until every OSD is up, those of `new` since after the map `before`, and every group is clean on all of them as reported after that.
fn settle(c: &Cluster, before: u64, new: &[usize], what: &str) -> Result<()> {
    let is_up = |(osd, since): (usize, &Option<u64>)| since.is_some_and(|since| since > before || !new.contains(&osd));
    let all_up = || map(c).is_ok_and(|(_, up)| up.len() == OSDS && up.iter().enumerate().all(is_up));
    ensure!(until(CLEAN, all_up), "{what}: not all OSDs are up:\n{}\n{}", c.must(R, "ceph osd tree")?, c.log());
    let (epoch, _) = map(c)?;
    let is_clean = |pg: &Value| {
        let reported = pg["reported_epoch"].as_u64().is_some_and(|e| e >= epoch);
        reported && pg["state"] == "active+clean" && pg["acting"].as_array().is_some_and(|acting| acting.len() == OSDS)
    };
    let clean = until(CLEAN, || groups(c).is_ok_and(|pgs| !pgs.is_empty() && pgs.iter().all(is_clean)));
    ensure!(clean, "{what}: not clean:\n{}\n{}\n{}", c.must(R, "ceph -s")?, c.must(R, "ceph pg dump pgs_brief")?, c.log());
    Ok(())
}

/// Kills so many times; a verb has more than the tests.
pub fn kill_copies(cycles: usize) -> Result<()> {
    let c = Cluster::start("copies", &["--store", "block", "--size", "1G", "--osds", "3", "--processes"])?;
    for line in ["ceph osd pool create ledger 8", "ceph osd pool set ledger size 3", "ceph osd pool set ledger min_size 2"] {
        c.must(R, line)?;
    }
    settle(&c, 0, &[], "at the start")?;
    let book = c.dir.join("ledger");
    let (writer, lines): (Writer, _) = ledger(&c, &book)?;
    for cycle in 0..cycles {
        let (before, victims) = (lines(), VICTIMS[cycle % VICTIMS.len()]);
        let goes_on = until(CLEAN, || lines() > before + 200);
        ensure!(goes_on, "cycle {cycle}: writes are not answered any more:\n{}\n{}", c.must(R, "ceph health detail")?, c.log());
        let (epoch, _) = map(&c)?;
        kill(&c, victims)?;
        settle(&c, epoch, victims, &format!("cycle {cycle}, osd.{victims:?} killed"))?;
    }
    let said = writer.finish(&c)?;
    // Each copy leads in its turn, and alone answers for everything.
    for leader in 0..OSDS {
        for osd in 0..OSDS {
            c.must(R, &format!("ceph osd primary-affinity osd.{osd} {}", u8::from(osd == leader)))?;
        }
        let leads = |pg: &Value| pg["acting_primary"] == leader;
        let all = until(CLEAN, || groups(&c).is_ok_and(|pgs| pgs.iter().all(leads)));
        ensure!(all, "osd.{leader} does not lead:\n{}", c.must(R, "ceph pg dump pgs_brief")?);
        settle(&c, 0, &[], &format!("osd.{leader} leads"))?;
        check_ledger(&c, &book).with_context(|| format!("the copies of osd.{leader}"))?;
    }
    println!("  {cycles} times one, two or three of {OSDS} OSDs were killed; {said}, on each of the {OSDS} copies");
    c.stop()
}

/// OSDs in memory lose their copies when they end; the others have them, and fill each that comes back.
fn memory() -> Result<()> {
    let c = Cluster::start("refilled", &["--store", "mem", "--osds", "3", "--processes"])?;
    for line in
        ["ceph osd pool create p 8", "ceph osd pool set p size 3", "ceph osd pool set p min_size 2", "rados -p p put first /etc/hostname"]
    {
        c.must(R, line)?;
    }
    settle(&c, 0, &[], "at the start")?;
    for osd in 0..OSDS {
        let (epoch, _) = map(&c)?;
        kill(&c, &[osd])?;
        settle(&c, epoch, &[osd], &format!("osd.{osd} killed"))?;
        c.must(R, &format!("rados -p p put behind{osd} /etc/hostname"))?;
    }
    let hostname = std::fs::read_to_string("/etc/hostname")?;
    for name in ["first", "behind0", "behind1", "behind2"] {
        ensure!(c.must(R, &format!("rados -p p get {name} -"))? == hostname, "{name} is not what was written");
    }
    c.stop()
}
