//! Upstream's random workloads that check themselves: `ceph_test_rados` (objects beside a model of them), `ceph_test_librbd_fsx` (an image beside a
//! file) and `ceph_test_stress_watch`; beside them fio on an image and `rados bench`, which compare what they read with what they wrote. Their arguments are those with which upstream's own suites, or people, run them; what they do not have
//! is cases, so each run of a program is one.

use super::program::Outcome;
use super::runs::{Runs, against};
use super::server::Server;
use super::{Manner, Run};
use crate::clients::Release;
use crate::run::{Output, run};
use crate::workload::{CONTENT, MIXES, SMALL};
use anyhow::Result;
use std::time::{Duration, Instant};

pub const NAME: &str = "model";

/// Small objects in a hurry: 64 operations in flight.
const OBJECTS: &str = "--objects 1024 --max-in-flight 64";
const MIX_OPS: u32 = 50_000;
/// Among stock monitors: each snapshot is a map on which three of them agree.
const MIX_OPS_AMONG_STOCK: u32 = 10_000;
const FSX_SEEDS: u32 = 5;
const FSX_OPS: u32 = 1000;

/// Whether the program stumbled over itself: it asks for the checksum of an object that its append of 0 bytes made, and does not expect that there
/// is none of no bytes. Stock OSDs (18.2) answer the same and it ends the same; seldom, with these sizes. Wrong bytes it calls corrupt.
fn is_its_own(out: &Output) -> bool {
    !out.ok() && out.stderr.contains("incorrect, expecting 4294967295") && !out.stderr.contains("corrupt")
}

/// One run of one mix in one pool.
fn mix(server: &Server, release: Release, pool: &str, load: &str) -> Result<Output> {
    let line = format!("--pool {pool} {load}");
    run(release.command(server.conf(), "ceph_test_rados").args(line.split(' ')), Duration::from_secs(3700))
}

fn mixes(server: &Server, release: Release) -> Result<Outcome> {
    let mut runs = Runs::new("ceph_test_rados");
    let max_ops = if server.is_among_stock() { MIX_OPS_AMONG_STOCK } else { MIX_OPS };
    for (i, each) in MIXES.iter().filter(|mix| mix.letter != 'E').enumerate() {
        let name = each.name;
        server.must(release, &format!("ceph osd pool create mix{i} 16"))?;
        let load = format!("--max-ops {max_ops} --max-seconds 3600 {OBJECTS} {SMALL} {}", each.ops());
        let mut started = Instant::now();
        let mut out = mix(server, release, &format!("mix{i}"), &load)?;
        for again in 0..3 {
            if !is_its_own(&out) {
                break;
            }
            println!("ceph_test_rados: {name}: it appended nothing to an empty object, which it can't check: once more");
            let pool = format!("mix{i}again{again}");
            server.must(release, &format!("ceph osd pool create {pool} 16"))?;
            started = Instant::now();
            out = mix(server, release, &pool, &load)?;
        }
        let took = started.elapsed();
        let done = out.stdout.lines().filter(|l| l.contains(": done (")).count();
        let case = format!("{name}: {max_ops} operations, {:.0} a second", done as f64 / took.as_secs_f64());
        runs.add(case, took, against(&out, CONTENT), &out);
    }
    Ok(runs.end())
}

/// Runs for minutes, or for ever, if nothing goes wrong. A slow machine's limit is longer ([`crate::pace`]): it may come to its end.
fn watches(server: &Server, release: Release) -> Result<Outcome> {
    const SECONDS: u64 = 60;
    let mut runs = Runs::new("ceph_test_stress_watch");
    let mut cmd = release.command(server.conf(), "ceph_test_stress_watch");
    let out = run(&mut cmd, Duration::from_secs(SECONDS))?;
    let said = format!("{}{}", out.stdout, out.stderr);
    let turns = said.lines().filter(|l| l.contains("Iteration")).count();
    let last = said.lines().next_back().unwrap_or_default();
    let is_well = out.code == 124 || out.ok() && said.contains("[  PASSED  ]");
    let wrong = (!is_well || turns < 2).then(|| format!("it ended with {} in turn {turns}: {last}", out.code));
    runs.add(format!("{SECONDS} s, {turns} turns"), Duration::from_secs(SECONDS), wrong, &out);
    Ok(runs.end())
}

fn fsx(server: &Server, release: Release) -> Result<Outcome> {
    let mut runs = Runs::new("ceph_test_librbd_fsx");
    rbd_pool(server, release)?;
    for seed in 1..=FSX_SEEDS {
        let dir = server.dir().join(format!("fsx{seed}"));
        std::fs::create_dir(&dir)?;
        let line = format!("-d -W -R -p 100 -P {} -r 1 -w 1 -t 1 -h 1 -l 250000000 -S {seed} -N {FSX_OPS} rbd image{seed}", dir.display());
        let started = Instant::now();
        let mut cmd = release.command(server.conf(), "ceph_test_librbd_fsx");
        let out = run(cmd.args(line.split(' ')), Duration::from_secs(1800))?;
        runs.add(format!("seed {seed}, {FSX_OPS} operations"), started.elapsed(), against(&out, "All operations completed A-OK!"), &out);
    }
    Ok(runs.end())
}

/// The pool of images, if it is not there yet.
fn rbd_pool(server: &Server, release: Release) -> Result<()> {
    server.must(release, "ceph osd pool create rbd 16 16")?;
    server.must(release, "rbd pool init rbd")?;
    Ok(())
}

/// fio writes an image at random, and reads back what it should hold.
fn fio(server: &Server, release: Release) -> Result<Outcome> {
    let mut runs = Runs::new("fio");
    rbd_pool(server, release)?;
    let common = "--ioengine=rbd --clientname=admin --pool=rbd --direct=1 --name=v --rw=randwrite --verify_state_save=0 --verify=crc32c \
                  --verify_fatal=1 --do_verify=1 --randseed=7";
    let loads = [
        ("512 B to 128 KiB, unaligned, 16 at a time", "256M", "--bsrange=512-128k --bs_unaligned=1 --iodepth=16"),
        ("4 KiB, 64 at a time", "128M", "--bs=4k --iodepth=64"),
        ("4 MiB, 4 at a time", "512M", "--bs=4M --iodepth=4"),
    ];
    for (i, (name, size, more)) in loads.into_iter().enumerate() {
        server.must(release, &format!("rbd create --size {size} fio{i}"))?;
        let started = Instant::now();
        let mut cmd = release.command(server.conf(), "fio");
        cmd.args(common.split_whitespace()).args(more.split(' ')).args([format!("--rbdname=fio{i}"), format!("--size={size}")]);
        let out = run(&mut cmd, Duration::from_secs(900))?;
        // Reads and writes as it counts them: as many of these as of those.
        let counted = out.stdout.lines().find_map(|l| l.trim().strip_prefix("issued rwts: total=")).unwrap_or_default();
        let counts: Vec<u64> = counted.split(',').map_while(|n| n.parse().ok()).take(2).collect();
        let verified = matches!(counts[..], [reads, writes] if reads == writes && writes > 0);
        let well = out.ok() && out.stdout.contains("err= 0") && verified;
        let wrong = (!well).then(|| format!("it ended with {}: {}{}", out.code, out.stdout, out.stderr));
        let written = counts.first().unwrap_or(&0);
        runs.add(format!("{size} verified, {name}: {written} writes"), started.elapsed(), wrong, &out);
        server.must(release, &format!("rbd rm --no-progress fio{i}"))?;
    }
    Ok(runs.end())
}

/// `rados bench` writes, reads in order and at random, and compares what it reads.
fn bench(server: &Server, release: Release) -> Result<Outcome> {
    const SECONDS: u64 = 10;
    let mut runs = Runs::new("rados bench");
    server.must(release, "ceph osd pool create bench 16 16")?;
    for size in [4096, 65536] {
        for kind in ["write", "seq", "rand"] {
            let more = if kind == "write" { format!(" -b {size} --no-cleanup") } else { String::new() };
            let line = format!("-p bench bench {SECONDS} {kind} -t 16 --run-name b{size}{more}");
            let started = Instant::now();
            let out = run(release.command(server.conf(), "rados").args(line.split(' ')), Duration::from_secs(SECONDS * 6))?;
            let figure = |name: &str| out.stdout.lines().find_map(|l| l.strip_prefix(name)).unwrap_or("0").trim().to_string();
            let rate = figure("Average IOPS:");
            let wrong = (!out.ok() || rate == "0")
                .then(|| format!("it ended with {}: {}", out.code, out.stderr.lines().next_back().unwrap_or_default()));
            runs.add(format!("{kind} of {size} B, 16 at a time: {rate} a second"), started.elapsed(), wrong, &out);
        }
        server.must(release, &format!("rados -p bench cleanup --run-name b{size}"))?;
    }
    Ok(runs.end())
}

/// All of them against one cluster.
pub fn model(release: Release, manner: Manner, chosen: &dyn Fn(&str) -> bool) -> Result<Run> {
    let started = Instant::now();
    let name = format!("conformance-{NAME}-{}-{}", release.version(), std::process::id());
    let mut server = Server::start(&name, manner, None)?;
    let mut outcomes = Vec::new();
    let programs: [(&str, fn(&Server, Release) -> Result<Outcome>); 5] = [
        ("ceph_test_rados", mixes),
        ("ceph_test_stress_watch", watches),
        ("ceph_test_librbd_fsx", fsx),
        ("fio", fio),
        ("rados bench", bench),
    ];
    for (program, go) in programs.into_iter().filter(|(program, _)| chosen(program)) {
        outcomes.push(go(&server, release)?);
        server.stands(program)?;
    }
    server.stop()?;
    Ok(Run { section: manner.section(NAME, release), outcomes, took: started.elapsed() })
}
