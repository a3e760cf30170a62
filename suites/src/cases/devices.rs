//! OSDs that share devices: `humboldt up` spreads them, no two copies lie on one device, one device goes with all its OSDs and comes
//! back, and a cluster that chose among OSDs is converted; under our monitor and under stock ones of each release, with stock tools that
//! read the map.
//!
//! A device is a file system of the case's own on a loop device.

use super::Case;
use super::copies::groups;
use crate::clients::Release::{self, Pacific, Reef, Tentacle};
use crate::cluster::{Cluster, binary};
use crate::folders;
use crate::loops::Loop;
use crate::run::{Output, quietly, run, until};
use crate::stock::{Daemons, Plane, stock_control_plane};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "osds_share_devices", needs: &[Pacific, Reef, Tentacle], run: spread },
    Case { name: "osds_that_share_devices_are_parted", needs: &[Pacific, Reef], run: converted },
    Case { name: "devices_under_stock_monitors_16.2", needs: &[Pacific, Reef], run: || under_stock(Pacific) },
    Case { name: "devices_under_stock_monitors_18.2", needs: &[Pacific, Reef], run: || under_stock(Reef) },
    Case { name: "devices_under_stock_monitors_20.2", needs: &[Reef, Tentacle], run: || under_stock(Tentacle) },
];

const PATIENCE: Duration = Duration::from_secs(120);

/// Two file systems, each on a device of its own.
struct Two {
    at: [PathBuf; 2],
    loops: [Loop; 2],
}

impl Two {
    fn new(name: &str) -> Result<Self> {
        let one = |n: u32| -> Result<(Loop, PathBuf)> {
            let mut device = Loop::sparse(&format!("{name}-{n}"), 1200)?;
            device.format()?;
            let at = device.mount_here(&format!("{name}-{n}"))?;
            Ok((device, at))
        };
        let ((first, at), (second, there)) = (one(0)?, one(1)?);
        Ok(Self { at: [at, there], loops: [first, second] })
    }
    fn words(&self) -> [String; 2] {
        self.at.each_ref().map(|at| at.display().to_string())
    }
}

/// For each OSD of a tree in JSON, by number: the type and name of what holds it, and of what holds that.
fn above(tree: &Value) -> Vec<[String; 2]> {
    let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
    let holder = |id: &Value| nodes.iter().find(|n| n["children"].as_array().is_some_and(|c| c.contains(id)));
    let shown = |node: Option<&Value>| node.map_or("none".into(), |n| format!("{} {}", n["type"], n["name"]).replace('"', ""));
    let mut osds: Vec<&Value> = nodes.iter().filter(|n| n["type"] == "osd").collect();
    osds.sort_by_key(|n| n["id"].as_i64());
    osds.iter().map(|osd| [shown(holder(&osd["id"])), shown(holder(&osd["id"]).and_then(|n| holder(&n["id"])))]).collect()
}

/// Two OSDs below each of two devices, which are below one host.
fn check_tree(tree: &str) -> Result<()> {
    let above = above(&serde_json::from_str(tree)?);
    let [[a, host], [b, _], [c, _], [d, _]] = &above[..] else { anyhow::bail!("not four OSDs: {tree}") };
    let good = a.starts_with("device ") && c.starts_with("device ") && a == b && c == d && a != c && host.starts_with("host ");
    ensure!(good && above.iter().all(|[_, up]| up == host), "the tree is {above:?}");
    Ok(())
}

/// Waits until each group is clean, on one OSD of each device.
fn parted(c: &Cluster) -> Result<()> {
    let mut last = Vec::new();
    let good = || {
        last = groups(c).unwrap_or_default();
        let is_apart = |pg: &Value| {
            let mut on: Vec<u64> = pg["acting"].as_array().into_iter().flatten().filter_map(|osd| Some(osd.as_u64()? / 2)).collect();
            on.sort_unstable();
            pg["state"] == "active+clean" && on == [0, 1]
        };
        !last.is_empty() && last.iter().all(is_apart)
    };
    ensure!(
        until(PATIENCE, good),
        "groups are not clean on two devices: {}\n{}",
        last.iter().map(|pg| format!("{} {} {}\n", pg["pgid"], pg["state"], pg["acting"])).collect::<String>(),
        c.log()
    );
    Ok(())
}

/// `humboldt osd devices`, for this ceph.conf.
fn verb(conf: &Path, words: &[&str]) -> Result<Output> {
    run(Command::new(binary()).args(["osd", "devices", "--conf"]).arg(conf).args(words), Duration::from_secs(60))
}

/// A map's text goes through the release's compiler and back, and maps two copies for each input.
fn compiles(must: impl Fn(&str) -> Result<String>, dir: &Path) -> Result<()> {
    let at = dir.display();
    // The text has three places, fewer than the weights of small stores.
    must("ceph osd crush reweight-subtree default 1")?;
    must(&format!("ceph osd getcrushmap -o {at}/crush"))?;
    let text = must(&format!("crushtool -d {at}/crush"))?;
    ensure!(text.contains("type 12 device") && text.contains("type device"), "{text}");
    std::fs::write(dir.join("crush.text"), &text)?;
    must(&format!("crushtool -c {at}/crush.text -o {at}/crush.again"))?;
    // Sums of weights are remarks, which the compiler rounds.
    let plain = |text: &str| text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let again = must(&format!("crushtool -d {at}/crush.again"))?;
    ensure!(plain(&again) == plain(&text), "another map comes back:\n{text}\n{again}");
    let bad = must(&format!("crushtool -i {at}/crush.again --test --rule 0 --num-rep 2 --min-x 0 --max-x 200 --show-bad-mappings"))?;
    ensure!(!bad.contains("bad mapping"), "{bad}");
    must(&format!("ceph osd setcrushmap -i {at}/crush.again")).map(drop)
}

fn spread() -> Result<()> {
    let two = Two::new("devices-spread")?;
    let [a, b] = two.words();
    let args = ["--data", &a, "--data", &b, "--osds-per-device", "2", "--size", "256M", "--processes"];
    let c = Cluster::start("devices-spread-dir", &args)?;
    for release in [Pacific, Reef, Tentacle] {
        check_tree(&c.must(release, "ceph osd tree -f json")?)?;
        compiles(|line| c.must(release, line), &c.dir)?;
    }
    check_tree(&c.must(Reef, "ceph osd tree -f json")?)?;
    c.must(Reef, "ceph osd crush rule create-replicated again default device")?;
    c.must(Reef, "ceph osd pool create p 32 32 replicated again")?;
    ensure!(c.must(Reef, "ceph osd pool get p size")?.contains("size: 2"), "as many copies as devices");
    parted(&c)?;
    ensure!(verb(&c.conf, &[])?.ok(), "nothing is to be converted");
    for n in 0..20 {
        c.must(Reef, &format!("rados -p p put o{n} /etc/hostname"))?;
    }
    // A device goes, with both of its OSDs at once.
    let pids: Vec<String> = [0, 1].iter().filter_map(|osd| c.pid_of_osd(*osd)).map(|pid| pid.to_string()).collect();
    ensure!(pids.len() == 2, "two processes");
    quietly(Command::new("umount").arg("-l").arg(&two.at[0]))?;
    quietly(Command::new("kill").arg("-KILL").args(&pids))?;
    for n in 0..20 {
        c.must(Reef, &format!("rados -p p get o{n} -"))?;
    }
    let named = || {
        c.must(Reef, "ceph health detail").is_ok_and(|text| {
            ["osd.0", "osd.1"]
                .iter()
                .all(|osd| text.lines().any(|l| l.contains(osd) && l.contains("attach or mount it again") && l.contains(&a)))
        })
    };
    ensure!(until(PATIENCE, named), "health does not name the device:\n{}\n{}", c.must(Reef, "ceph health detail")?, c.log());
    ensure!(!two.at[0].join("humboldt-osd.0").exists(), "something was made where the device is not");
    // It comes back, and its OSDs by themselves.
    quietly(Command::new("mount").arg(&two.loops[0].device).arg(&two.at[0]))?;
    parted(&c)?;
    check_tree(&c.must(Reef, "ceph osd tree -f json")?)?;
    let dir = c.dir.clone();
    c.stop()?;
    // The next start need not be told anything.
    let c = Cluster::start_in(dir, &["--processes"])?;
    parted(&c)?;
    check_tree(&c.must(Reef, "ceph osd tree -f json")?)?;
    // A device is lost for good, and its OSDs share another one.
    let mut third = Loop::sparse("devices-spread-2", 1200)?;
    third.format()?;
    let new = third.mount_here("devices-spread-2")?;
    let pids: Vec<String> = [2, 3].iter().filter_map(|osd| c.pid_of_osd(*osd)).map(|pid| pid.to_string()).collect();
    quietly(Command::new("umount").arg("-l").arg(&two.at[1]))?;
    quietly(Command::new("kill").arg("-KILL").args(&pids))?;
    let mut replace = Command::new(binary());
    replace.args(["osd", "replace", "2", "3", "--size", "256M", "--data"]).arg(&new).arg("--dir").arg(&c.dir);
    let out = run(&mut replace, PATIENCE)?;
    ensure!(out.ok() && new.join("humboldt-osd.3/data").exists(), "osd replace: {out:?}\n{}", c.log());
    parted(&c)?;
    for n in 0..20 {
        c.must(Reef, &format!("rados -p p get o{n} -"))?;
    }
    c.stop()
}

/// A folder in which each OSD's folder leads to one of the devices, as operators had it before.
fn led(dir: &Path, two: &Two) -> Result<()> {
    for osd in 0..4 {
        let at = two.at[osd / 2].join(format!("osd.{osd}"));
        std::fs::create_dir(&at)?;
        std::os::unix::fs::symlink(&at, dir.join(format!("osd.{osd}"))).with_context(|| at.display().to_string())?;
    }
    Ok(())
}

fn converted() -> Result<()> {
    let two = Two::new("devices-parted")?;
    let dir = folders::fresh("devices-parted-dir")?;
    led(&dir, &two)?;
    let c = Cluster::start_in(dir.clone(), &["--osds", "4", "--size", "256M"])?;
    c.must(Pacific, "ceph osd pool create p 32")?;
    c.must(Pacific, "ceph osd pool set p size 2")?;
    c.must(Pacific, "rados -p p put o /etc/hostname")?;
    let tree = c.must(Reef, "ceph osd tree -f json")?;
    let out = verb(&c.conf, &[])?;
    ensure!(!out.ok() && out.stdout.contains("keeps two copies on one device") && out.stderr.contains("nothing was changed"), "{out:?}");
    ensure!(out.stdout.contains("copies of") && out.stdout.contains("of 32 groups move"), "{out:?}");
    ensure!(c.must(Reef, "ceph osd tree -f json")? == tree, "it changed the map");
    // A third copy would have no device.
    c.must(Pacific, "ceph osd pool set p size 3")?;
    let out = verb(&c.conf, &["--yes-i-really-mean-it"])?;
    ensure!(!out.ok() && out.stderr.contains("would find 2 devices"), "{out:?}");
    c.must(Pacific, "ceph osd pool set p size 2")?;
    let out = verb(&c.conf, &["--yes-i-really-mean-it"])?;
    ensure!(out.ok(), "{out:?}");
    parted(&c)?;
    check_tree(&c.must(Reef, "ceph osd tree -f json")?)?;
    ensure!(verb(&c.conf, &[])?.ok(), "a second time there is nothing to do");
    c.stop()?;
    let c = Cluster::start_in(dir, &[])?;
    parted(&c)?;
    check_tree(&c.must(Reef, "ceph osd tree -f json")?)?;
    c.must(Pacific, "rados -p p get o -")?;
    c.stop()
}

/// The same by stock monitors: OSDs of ours name their device alone, and keep it over a restart; a device that is down is put out.
fn under_stock(release: Release) -> Result<()> {
    // An image's name ends at its first dot.
    let name = format!("devices-{}", release.version().replace('.', "-"));
    let two = Two::new(&name)?;
    let mut d = stock_control_plane(&format!("{name}-dir"), &Plane { monitors: 1, release, manager: release, ..Plane::default() })?;
    led(&d.dir, &two)?;
    for osd in 0..4 {
        d.new_ours(osd, "ssd", &["--size", "256M"])?;
    }
    d.wait_up(4)?;
    for line in ["create p 16", "set p size 2", "set p min_size 1"] {
        d.must(&format!("ceph osd pool {line}"))?;
    }
    wait_clean(&d)?;
    let out = verb(&d.conf, &[])?;
    ensure!(!out.ok() && out.stdout.contains("keeps two copies on one device"), "{out:?}");
    let lines: Vec<&str> = out.stdout.lines().filter(|l| l.starts_with("[osd.") || l.starts_with("crush location = device=")).collect();
    ensure!(lines.len() == 8, "{out:?}");
    let conf = std::fs::read_to_string(&d.conf)?;
    std::fs::write(&d.conf, format!("{conf}\n{}\n", lines.join("\n")))?;
    d.must("ceph config set mon mon_osd_down_out_subtree_limit none")?;
    let out = verb(&d.conf, &["--yes-i-really-mean-it"])?;
    ensure!(out.ok(), "{out:?}");
    wait_clean(&d)?;
    ensure!(verb(&d.conf, &[])?.ok(), "nothing is left to be converted");
    check_tree(&d.must("ceph osd tree -f json")?)?;
    compiles(|line| d.must(line), &d.dir)?;
    d.must("ceph osd crush rule create-replicated again default device")?;
    for osd in 0..4 {
        d.end(&format!("osd.{osd}"))?;
        d.start(&format!("osd.{osd}"))?;
    }
    d.wait_up(4)?;
    check_tree(&d.must("ceph osd tree -f json")?)?;
    wait_clean(&d)?;
    d.must("ceph config set mon mon_osd_down_out_interval 1")?;
    d.kill("osd.0")?;
    d.kill("osd.1")?;
    let out = |dump: &str| [0, 1].iter().all(|osd| dump.lines().any(|l| l.starts_with(&format!("osd.{osd} down out"))));
    d.must("ceph osd down 0 1")?;
    d.wait("ceph osd dump", "the OSDs of a device that is down put out", out)
}

fn wait_clean(d: &Daemons) -> Result<()> {
    // Pools of the manager's own are among them.
    let good = |out: &str| out.split(';').next().is_some_and(|states| states.trim_end().ends_with("active+clean") && !states.contains(','));
    d.wait("ceph pg stat", "all groups clean", good)
}
