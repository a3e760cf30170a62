//! The `rbd` tool of each release, and fio's rbd engine.

use super::Case;
use super::rados::Background;
use crate::clients::Release::{self, Pacific, Reef, Tentacle};
use crate::cluster::Cluster;
use crate::run::{run, until};
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "rbd_tool_16.2", needs: &[Pacific], run: || rbd_tool(Pacific) },
    Case { name: "rbd_tool_18.2", needs: &[Reef], run: || rbd_tool(Reef) },
    Case { name: "rbd_tool_20.2", needs: &[Tentacle], run: || rbd_tool(Tentacle) },
    Case { name: "rbd_import_export_1g", needs: &[Pacific], run: import_export },
    Case { name: "fio_rbd_verify_16.2", needs: &[Pacific], run: || fio(Pacific, false) },
    Case { name: "fio_rbd_verify_18.2", needs: &[Reef], run: || fio(Reef, false) },
    Case { name: "fio_rbd_verify_20.2", needs: &[Tentacle], run: || fio(Tentacle, false) },
    Case { name: "fio_rbd_verify_with_cut_sockets", needs: &[Pacific], run: || fio(Pacific, true) },
    Case { name: "rbd_lock_of_a_killed_client", needs: &[Pacific], run: killed_client },
    Case { name: "rbd_lock_handover", needs: &[Pacific], run: lock_handover },
];

pub fn start(name: &str, release: Release, args: &[&str]) -> Result<Cluster> {
    let c = Cluster::start(&format!("{name}-{}", release.version()), args)?;
    c.must(release, "ceph osd pool create rbd 16")?;
    c.must(release, "rbd pool init rbd")?;
    Ok(c)
}

fn rbd_tool(release: Release) -> Result<()> {
    let c = start("rbd", release, &[])?;
    let ok = |line: &str| c.must(release, line);
    ok("rbd create --size 64M i1")?;
    let info: serde_json::Value = serde_json::from_str(&ok("rbd info i1 --format json")?)?;
    ensure!(info["size"] == 64 << 20, "{info}");
    for feature in ["layering", "exclusive-lock", "object-map", "fast-diff", "deep-flatten"] {
        ensure!(info["features"].as_array().is_some_and(|f| f.iter().any(|f| f == feature)), "{feature} is not on: {info}");
    }
    ensure!(ok("rbd ls")?.trim() == "i1", "rbd ls");
    ensure!(ok("rbd ls -l")?.contains("i1"), "rbd ls -l");
    ok("rbd bench --io-type write --io-size 4K --io-total 4M --io-threads 8 i1")?;
    ok("rbd bench --io-type read --io-size 4K --io-total 4M --io-pattern rand i1")?;
    let du: serde_json::Value = serde_json::from_str(&ok("rbd du i1 --format json")?)?;
    ensure!(du["images"][0]["used_size"].as_u64().is_some_and(|n| n > 0), "{du}");
    ok("rbd resize --size 128M i1")?;
    ok("rbd resize --size 32M --allow-shrink i1")?;
    ok("rbd rename i1 i2")?;
    ok("rbd image-meta set i2 k v")?;
    ensure!(ok("rbd image-meta get i2 k")?.trim() == "v", "image-meta get");
    ensure!(ok("rbd image-meta list i2")?.contains('k'), "image-meta list");
    ok("rbd image-meta remove i2 k")?;
    ok("rbd lock add i2 id1")?;
    ensure!(ok("rbd lock ls i2")?.contains("id1"), "lock ls");
    let locks: serde_json::Value = serde_json::from_str(&ok("rbd lock ls i2 --format json")?)?;
    let locker = locks[0]["locker"].as_str().context("a lock has a locker")?.to_string();
    ok(&format!("rbd lock rm i2 id1 {locker}"))?;
    ensure!(ok("rbd status i2")?.contains("Watchers: none"), "status");
    ok("rbd feature disable i2 fast-diff,object-map")?;
    ok("rbd feature enable i2 object-map,fast-diff")?;
    ok("rbd object-map rebuild i2 --no-progress")?;
    ok("rbd object-map check i2 --no-progress")?;
    // Snapshots and clones.
    ok("rbd snap create i2@s1 --no-progress")?;
    ok("rbd bench --io-type write --io-size 64K --io-total 1M i2")?;
    ensure!(ok("rbd snap ls i2")?.contains("s1"), "snap ls");
    ok("rbd snap rollback i2@s1 --no-progress")?;
    ok("rbd snap protect i2@s1")?;
    ok("rbd clone i2@s1 child")?;
    ensure!(ok("rbd children i2@s1")?.contains("child"), "children");
    ok("rbd flatten child --no-progress")?;
    ok("rbd snap unprotect i2@s1")?;
    ok("rbd snap rm i2@s1 --no-progress")?;
    ok("rbd rm child --no-progress")?;
    // Trash.
    ok("rbd trash mv i2")?;
    let trash: serde_json::Value = serde_json::from_str(&ok("rbd trash ls --format json")?)?;
    let id = trash[0]["id"].as_str().context("an image in the trash has an id")?.to_string();
    ok(&format!("rbd trash restore {id}"))?;
    ok("rbd rm i2 --no-progress")?;
    ensure!(ok("rbd ls")?.trim().is_empty(), "rbd rm leaves the image");
    let left: Vec<String> =
        ok("rados -p rbd ls")?.lines().filter(|l| l.starts_with("rbd_data") || l.starts_with("rbd_header")).map(String::from).collect();
    ensure!(left.is_empty(), "rbd rm leaves objects: {left:?}");
    c.stop()
}

fn sha256(path: &Path) -> Result<String> {
    let out = run(Command::new("sha256sum").arg(path), Duration::from_secs(120))?;
    Ok(out.stdout.split(' ').next().unwrap_or_default().to_string())
}

/// A sparse file of 1 GiB goes in and comes out the same.
fn import_export() -> Result<()> {
    let c = start("import", Pacific, &[])?;
    let (input, output) = (c.dir.join("in.raw"), c.dir.join("out.raw"));
    let file = std::fs::File::create(&input)?;
    file.set_len(1 << 30)?;
    let mut state = 1_u64;
    for i in 0..64_u64 {
        let block: Vec<u8> = (0..(300_000 + i * 1000))
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect();
        file.write_all_at(&block, i * 16_700_001)?;
    }
    drop(file);
    c.must(Pacific, &format!("rbd import {} img --no-progress", input.display()))?;
    c.must(Pacific, &format!("rbd export img {} --no-progress", output.display()))?;
    ensure!(sha256(&input)? == sha256(&output)?, "the export differs from what was imported");
    let du: serde_json::Value = serde_json::from_str(&c.must(Pacific, "rbd du img --format json")?)?;
    ensure!(du["images"][0]["used_size"].as_u64().is_some_and(|n| n < 900 << 20), "the import is not sparse: {du}");
    c.stop()
}

fn fio(release: Release, cut: bool) -> Result<()> {
    let c = start(if cut { "fiocut" } else { "fio" }, release, &[])?;
    c.must(release, "rbd create --size 64M img")?;
    let conf = c.dir.join("fio.conf");
    let extra = if cut { "\n[client]\nms inject socket failures = 3000\n" } else { "\n" };
    std::fs::write(&conf, std::fs::read_to_string(&c.conf)? + extra)?;
    let args = "--ioengine=rbd --clientname=admin --pool=rbd --rbdname=img --direct=1 --name=v --size=64M --rw=randwrite --verify_state_save=0 \
                --bsrange=512-128k --bs_unaligned=1 --iodepth=16 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=7";
    let args: Vec<&str> = args.split_whitespace().collect();
    let out = release.run(&conf, "fio", &args, Duration::from_secs(300))?;
    ensure!(out.ok() && out.stdout.contains("err= 0"), "fio ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
    c.stop()
}

/// Starts a client that holds an image's exclusive lock and goes on writing.
fn writer(c: &Cluster) -> Result<Background> {
    let mut cmd = Pacific.command(&c.conf, "rbd");
    cmd.args("bench --io-type write --io-size 4K --io-total 100G --io-threads 1 img".split(' '));
    let child = cmd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let writer = Background(child);
    let holds = || c.must(Pacific, "rbd lock ls img").is_ok_and(|s| s.contains("auto "));
    ensure!(until(Duration::from_secs(20), holds), "the writer does not take the lock");
    Ok(writer)
}

/// A client that was killed is locked out: its watch times out, the next one blocklists it and goes on.
fn killed_client() -> Result<()> {
    let c = start("killed", Pacific, &[])?;
    c.must(Pacific, "rbd create --size 64M img")?;
    drop(writer(&c)?); // SIGKILL
    let out = c.must(Pacific, "rbd bench --io-type write --io-size 4K --io-total 64K img")?;
    ensure!(out.contains("elapsed"), "{out}");
    ensure!(
        !c.must(Pacific, "ceph osd blocklist ls -f json")?.trim().trim_matches(['[', ']']).is_empty(),
        "the dead client is not blocklisted"
    );
    c.stop()
}

/// Two living clients share an image: the lock goes to the one that asks.
fn lock_handover() -> Result<()> {
    let c = start("handover", Pacific, &[])?;
    c.must(Pacific, "rbd create --size 64M img")?;
    let first = writer(&c)?;
    let out = c.must(Pacific, "rbd bench --io-type write --io-size 4K --io-total 64K img")?;
    ensure!(out.contains("elapsed"), "{out}");
    ensure!(
        c.must(Pacific, "ceph osd blocklist ls -f json")?.trim().trim_matches(['[', ']']).is_empty(),
        "a living client was blocklisted"
    );
    drop(first);
    c.stop()
}
