//! What goes wrong around our OSDs under stock monitors and manager of 18.2: the network between them, maps that they never saw, and daemons that
//! die in any order under load.
//!
//! The fast part of each is a case of CI; `cargo xtask stock-daemons --long` goes on for longer, with other seeds.

use super::Case;
use super::rados::Background;
use crate::clients::Release::{Pacific, Reef};
use crate::netns::{CONTROL_PLANE, MGR, Net};
use crate::run::{root, run, until};
use crate::stock::{Daemons, PATIENCE, Plane, stock_control_plane};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    Case { name: "stock_daemons_across_a_cut_network", needs: &[Reef], run: || cut_network(Duration::from_secs(6)) },
    Case { name: "stock_daemons_whose_maps_went_on", needs: &[Reef], run: maps_went_on },
    Case { name: "stock_daemons_die_in_any_order", needs: &[Reef, Pacific], run: || any_order(1, 5) },
];

/// The same for longer.
pub const LONG: &[Case] = &[
    Case { name: "stock_daemons_across_a_long_cut", needs: &[Reef], run: || cut_network(Duration::from_secs(45)) },
    Case { name: "stock_daemons_die_in_any_order_for_long", needs: &[Reef, Pacific], run: || any_order(2, 40) },
];

/// To the manager alone: its reports come again.
fn cut_from_manager(d: &Daemons) -> Result<()> {
    let net = || d.net.as_ref().expect("made with one");
    let reported = || -> Result<u64> {
        let dump = d.json("ceph pg dump pgs")?;
        let pgs = dump["pg_stats"].as_array().context("pg dump")?.clone();
        let count = |v: &serde_json::Value| v.as_u64().or_else(|| v.as_str()?.parse().ok());
        let of = |osd: i64| pgs.iter().filter(|pg| pg["acting_primary"] == osd).filter_map(|pg| count(&pg["reported_seq"])).max();
        of(1).context("no report of osd.1")
    };
    net().refuse(1, MGR)?;
    net().cut_sockets(1, MGR)?;
    d.must("ceph config set osd osd_op_history_size 44")?;
    d.wait("ceph tell osd.1 config get osd_op_history_size", "what the monitors say", |out| out.contains("44"))?;
    net().allow(1, MGR)?;
    let before = reported()?;
    ensure!(until(PATIENCE, || reported().is_ok_and(|now| now > before)), "osd.1 reports to the manager no more");
    d.wait("ceph config show osd.1 osd_op_history_size", "its session with the manager", |out| out.trim() == "44")?;
    Ok(())
}

/// The network between OSDs: one of them is taken out of the map, and stays out until it hears the other one again. Both begin at the same moment, by
/// the same map: neither may take the other with it for ever.
fn cut_between_osds(d: &Daemons, cut: Duration) -> Result<()> {
    let net = || d.net.as_ref().expect("made with one");
    let up = || -> Result<i64> { d.json("ceph osd stat")?["num_up_osds"].as_i64().context("osd stat") };
    net().silence(0, &Net::cluster(1))?;
    d.must("ceph osd down 0 1")?;
    d.wait_up(2)?;
    d.wait_up(1)?;
    let epoch = d.json("ceph osd stat")?["epoch"].as_u64();
    let started = Instant::now();
    while started.elapsed() < cut {
        ensure!(up()? == 1, "it came back into the map although it hears no other");
        std::thread::sleep(Duration::from_millis(500));
    }
    let later = d.json("ceph osd stat")?["epoch"].as_u64();
    ensure!(later <= epoch.map(|e| e + 2), "the map changed again and again: {epoch:?}, {later:?}");
    net().allow(0, &Net::cluster(1))?;
    Ok(())
}

/// Cuts between OSDs and monitors, manager and each other: silent ones, refused ones, sockets that end. `cut`: how long a silence lasts.
fn cut_network(cut: Duration) -> Result<()> {
    // On a busy machine it is marked down more often than the cuts alone would do it.
    let conf = "mon osd min down reporters = 1\nmon osd adjust heartbeat grace = false\nosd heartbeat interval = 1\nosd heartbeat grace = 6\n\
                osd max markdown count = 30\n";
    let mut d = stock_control_plane("stock-cut", &Plane { conf, nodes: 2, ..Plane::default() })?;
    d.new_ours(0, "ssd", &["--store", "mem"])?;
    d.new_ours(1, "nvme", &["--store", "block", "--size", "1G"])?;
    d.wait_up(2)?;
    d.pool_on("ssd", "a", 4)?;
    d.pool_on("nvme", "b", 4)?;
    d.wait_pgs(8)?;
    d.write("a", "first", 3)?;
    d.write("b", "first", 3)?;
    let mut pgs = 8;
    // Clients that are served already go on, and what the map has meanwhile is made up for.
    let stretch = |d: &Daemons, tag: &str, pgs: &mut usize| -> Result<()> {
        let started = Instant::now();
        d.write("b", tag, 2)?;
        d.must(&format!("ceph osd pool create {tag} 4 4 replicated on-nvme"))?;
        *pgs += 4;
        std::thread::sleep(cut.saturating_sub(started.elapsed()));
        Ok(())
    };
    let net = || d.net.as_ref().expect("made with one");
    let settled = |d: &Daemons, tag: &str, pgs: usize| -> Result<()> {
        d.wait_up(2)?;
        d.wait_pgs(pgs)?;
        d.write(tag, "there", 1)?;
        for i in ["first", tag] {
            d.verify("b", i, 2)?;
        }
        Ok(())
    };

    // Nothing that the OSD sends to monitors and manager arrives.
    net().silence(1, CONTROL_PLANE)?;
    stretch(&d, "silent", &mut pgs)?;
    net().allow(1, CONTROL_PLANE)?;
    settled(&d, "silent", pgs)?;
    // Its sockets to them end, and it can't dial.
    net().refuse(1, CONTROL_PLANE)?;
    net().cut_sockets(1, CONTROL_PLANE)?;
    stretch(&d, "refused", &mut pgs)?;
    net().allow(1, CONTROL_PLANE)?;
    settled(&d, "refused", pgs)?;
    cut_from_manager(&d)?;

    cut_between_osds(&d, cut)?;
    settled(&d, "refused", pgs)?;

    // No network at all.
    net().unplug(1)?;
    d.wait_up(1)?;
    d.write("a", "alone", 2)?;
    net().heal(1)?;
    settled(&d, "silent", pgs)?;
    d.verify("a", "first", 3)?;
    d.verify("a", "alone", 2)?;
    d.end("osd.0")?;
    d.end("osd.1")
}

/// Each a map of its own.
fn epochs(d: &Daemons, count: usize) -> Result<()> {
    let script = d.dir.join("epochs");
    let lines: String = (0..count).map(|i| format!("osd {} noscrub\n", if i % 2 == 0 { "set" } else { "unset" })).collect();
    std::fs::write(&script, lines)?;
    d.must_within(&format!("sh -c 'ceph < {}'", script.display()), Duration::from_secs(180))?;
    Ok(())
}

/// An OSD that was away while maps came, more than a message holds, or of which the monitors forgot the oldest.
fn maps_went_on() -> Result<()> {
    let conf = "mon min osdmap epochs = 5\npaxos service trim min = 1\npaxos propose interval = 0.05\nosd beacon report interval = 2\n";
    let mut d = stock_control_plane("stock-maps", &Plane { monitors: 1, conf, ..Plane::default() })?;
    d.new_ours(0, "ssd", &["--store", "mem"])?;
    d.new_ours(1, "nvme", &["--store", "block", "--size", "1G"])?;
    d.wait_up(2)?;
    d.pool_on("ssd", "a", 4)?;
    d.pool_on("nvme", "b", 4)?;
    d.must("ceph osd pool create gone 4 4 replicated on-nvme")?;
    d.wait_pgs(12)?;
    d.write("b", "first", 5)?;
    d.write("gone", "first", 5)?;

    // More maps than one message holds.
    d.kill("osd.1")?;
    d.must("ceph osd down 1")?;
    epochs(&d, 60)?;
    d.start("osd.1")?;
    d.wait_up(2)?;
    d.wait_pgs(12)?;
    d.verify("b", "first", 5)?;

    // The monitors forget those that it would go on from. A pool went meanwhile.
    d.kill("osd.1")?;
    d.must("ceph osd down 1")?;
    let number = |line: &str, name: &str| -> Result<u64> { d.json(line)?[name].as_u64().with_context(|| format!("{name} of `{line}`")) };
    let had = number("ceph osd stat", "epoch")?;
    d.must("ceph osd pool rm gone gone --yes-i-really-really-mean-it")?;
    epochs(&d, 60)?;
    let newest = number("ceph osd stat", "epoch")?;
    d.must(&format!("ceph config set mon mon_osd_force_trim_to {}", newest - 10))?;
    epochs(&d, 4)?;
    let first = || number("ceph report", "osdmap_first_committed");
    ensure!(until(PATIENCE, || first().is_ok_and(|first| first > had + 40)), "the monitor keeps its maps: {:?}, osd.1 has {had}", first());
    d.start("osd.1")?;
    d.wait_up(2)?;
    d.wait_pgs(8)?;
    d.verify("b", "first", 5)?;
    d.write("b", "second", 5)?;
    let status = || -> Result<serde_json::Value> { Ok(serde_json::from_str(&d.must("ceph tell osd.1 status")?)?) };
    let gone = until(PATIENCE, || status().is_ok_and(|s| s["num_pgs"] == 4));
    ensure!(gone, "groups of a pool that went stay: {}", status()?);
    // And once more from what it wrote down of that.
    d.kill("osd.1")?;
    d.must("ceph osd down 1")?;
    epochs(&d, 2)?;
    d.start("osd.1")?;
    d.wait_up(2)?;
    d.wait_pgs(8)?;
    d.verify("b", "first", 5)?;
    d.verify("b", "second", 5)?;
    d.end("osd.0")?;
    d.end("osd.1")
}

/// Numbers that look random and are the same for a seed.
struct Dice(u64);
impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

const NAMES: [&str; 6] = ["mon.a", "mon.b", "mon.c", "mgr.x", "osd.0", "osd.1"];

/// Kills, ends or stalls one daemon, and has it back.
fn harm_one(d: &mut Daemons, dice: &mut Dice, is_first: bool, done: &mut Vec<String>) -> Result<()> {
    // The first is the leader's death: the rest is the seed's.
    let name = if is_first { "mon.a" } else { NAMES[dice.below(NAMES.len())] };
    let how = if is_first { 0 } else { dice.below(4) };
    let pause = Duration::from_millis(200 + dice.below(4000) as u64);
    match how {
        // Killed, away for a while, back; another one may die meanwhile.
        0 | 1 => {
            d.kill(name)?;
            let other = NAMES[dice.below(NAMES.len())];
            let both = how == 1 && other != name && !(other.starts_with("mon") && name.starts_with("mon"));
            std::thread::sleep(pause);
            if both {
                d.kill(other)?;
                std::thread::sleep(pause);
                d.start(other)?;
                done.push(format!("{other} killed while {name} is away"));
            }
            d.start(name)?;
            done.push(format!("{name} killed, {} ms", pause.as_millis()));
        }
        2 if name.starts_with("osd") => {
            d.end(name)?;
            std::thread::sleep(pause);
            d.start(name)?;
            done.push(format!("{name} ended in order"));
        }
        // Stalls: alive, and says nothing.
        _ => {
            d.signal(name, "STOP")?;
            std::thread::sleep(pause * 3);
            d.signal(name, "CONT")?;
            done.push(format!("{name} stalled, {} ms", 3 * pause.as_millis()));
        }
    }
    Ok(())
}

/// OSDs, monitors and the manager are killed, stopped, stalled and started in the order that a seed gives, while a writer keeps a ledger of what was
/// acknowledged and `rados bench` runs. Then everything is there.
fn any_order(seed: u64, steps: usize) -> Result<()> {
    let conf = "mon osd min down reporters = 1\nosd heartbeat interval = 1\nosd heartbeat grace = 8\n";
    let mut d = stock_control_plane("stock-any-order", &Plane { conf, ..Plane::default() })?;
    for id in [0, 1] {
        d.new_ours(id, "nvme", &["--store", "block", "--size", "2G"])?;
    }
    d.wait_up(2)?;
    d.pool_on("nvme", "ledger", 8)?;
    d.must("ceph osd pool create bench 8 8 replicated on-nvme")?;
    d.wait_pgs(16)?;
    let (ledger, script) = (d.dir.join("ledger"), root().join("suites/src/cases/ledger.py"));
    let (conf, logs) = (d.conf.clone(), d.dir.join("log"));
    let background = |name: &str, mut cmd: Command| -> Result<Background> {
        let file = File::create(logs.join(name))?;
        Ok(Background(cmd.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?))
    };
    let python = |what: &str| {
        let mut cmd = Pacific.command(&conf, "/usr/bin/python3");
        cmd.arg(&script).arg(what).arg(&conf).arg("ledger").arg(&ledger);
        cmd
    };
    let mut writer = background("writer.out", python("write"))?;
    let mut bench = Pacific.command(&d.conf, "rados");
    bench.args(["-p", "bench", "bench", "3600", "write", "-t", "4", "-b", "16384", "--run-name", "any", "--no-cleanup"]);
    let mut bench = background("bench.out", bench)?;
    let acked = || std::fs::read_to_string(&ledger).map_or(0, |t| t.lines().filter(|l| l.starts_with('!')).count());

    let mut dice = Dice(seed);
    let (mut done, mut longest) = (Vec::new(), Duration::ZERO);
    for step in 0..steps {
        harm_one(&mut d, &mut dice, step == 0, &mut done)?;
        let (before, started) = (acked(), Instant::now());
        let goes_on = until(PATIENCE * 2, || acked() > before + 10);
        longest = longest.max(started.elapsed());
        let said = |log: &str| d.said(log).lines().last().unwrap_or_default().to_string();
        ensure!(
            goes_on,
            "nothing is acknowledged any more after {done:?}; osd.0: {}; osd.1: {}; writer: {}",
            said("osd.0"),
            said("osd.1"),
            said("writer")
        );
        ensure!(bench.0.try_wait()?.is_none(), "rados bench gave up after {done:?}: {}", d.said("bench"));
    }
    std::fs::write(ledger.with_extension("stop"), "")?;
    ensure!(until(PATIENCE, || matches!(writer.0.try_wait(), Ok(Some(s)) if s.success())), "the writer: {}", d.said("writer"));
    // Not SIGINT: a shell that started all this in the background made its children deaf to that.
    drop(bench);
    d.wait_up(2)?;
    d.wait_pgs(16)?;
    d.wait("ceph status -f json", "the manager", |out| out.contains("\"available\":true"))?;
    let out = run(&mut python("check"), Duration::from_secs(180))?;
    if !out.ok() {
        bail!("after {done:?}: {}{}", out.stdout, out.stderr);
    }
    for id in 0..2 {
        d.end(&format!("osd.{id}"))?;
    }
    println!("  {}; the longest wait {:.1} s; {done:?}", out.stdout.trim(), longest.as_secs_f64());
    Ok(())
}
