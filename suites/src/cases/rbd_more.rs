//! What the `rbd` tool of each release does beyond single images: clones in another format, groups, journals, moves, mirroring, namespaces,
//! the old format of headers.

use super::Case;
use super::rbd::start;
use crate::clients::Release::{self, Pacific, Reef, Tentacle};
use crate::cluster::Cluster;
use crate::run::until;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "rbd_groups_and_moves_16.2", needs: &[Pacific], run: || more(Pacific) },
    Case { name: "rbd_groups_and_moves_18.2", needs: &[Reef], run: || more(Reef) },
    Case { name: "rbd_groups_and_moves_20.2", needs: &[Tentacle], run: || more(Tentacle) },
];

fn json(c: &Cluster, release: Release, line: &str) -> Result<Value> {
    let text = c.must(release, &format!("{line} --format json"))?;
    serde_json::from_str(&text).with_context(|| format!("`{line}` answers {text}"))
}

/// The bytes of an image or snapshot, as their sum.
fn sum(c: &Cluster, release: Release, image: &str) -> Result<String> {
    let file = c.dir.join("export.raw");
    let _ = std::fs::remove_file(&file);
    c.must(release, &format!("rbd export --no-progress {image} {}", file.display()))?;
    let out = crate::run::run(std::process::Command::new("sha256sum").arg(&file), Duration::from_secs(60))?;
    Ok(out.stdout.split(' ').next().unwrap_or_default().to_string())
}

fn more(release: Release) -> Result<()> {
    let c = start("rbd-more", release, &[])?;
    clones(&c, release)?;
    groups(&c, release)?;
    moves(&c, release)?;
    journals(&c, release)?;
    mirroring(&c, release)?;
    old_format(&c, release)?;
    namespaces(&c, release)?;
    let left = c.must(release, "rados -p rbd ls --all")?;
    let stray: Vec<&str> =
        left.lines().filter(|l| ["rbd_data", "rbd_header", "rb.0", "journal", "rbd_group_header"].iter().any(|p| l.contains(p))).collect();
    ensure!(stray.is_empty(), "objects are left: {stray:?}");
    c.stop()
}

/// Clones that need no protected parent; one is flattened, one outlives its parent's name.
fn clones(c: &Cluster, release: Release) -> Result<()> {
    let ok = |line: &str| c.must(release, line);
    ok("rbd create --size 16M parent")?;
    ok("rbd bench --io-type write --io-size 64K --io-total 4M parent")?;
    ok("rbd snap create --no-progress parent@s")?;
    let before = sum(c, release, "parent@s")?;
    ok("rbd clone --rbd-default-clone-format 2 parent@s c1")?;
    ok("rbd clone --rbd-default-clone-format 2 parent@s c2")?;
    ensure!(json(c, release, "rbd children --all parent@s")?.as_array().is_some_and(|l| l.len() == 2), "two children");
    ensure!(sum(c, release, "c1")? == before, "a clone shows its parent");
    ok("rbd bench --io-type write --io-size 4K --io-total 64K --io-pattern rand c2")?;
    let written = sum(c, release, "c2")?;
    ok("rbd sparsify --no-progress c2")?;
    ok("rbd flatten --no-progress c2")?;
    ensure!(sum(c, release, "c2")? == written, "flatten keeps the bytes");
    ok("rbd deep cp --no-progress --rbd-default-clone-format 2 c1 copy")?;
    // The snapshot goes to the trash while a clone needs it.
    ok("rbd snap rm --no-progress parent@s")?;
    for clone in ["c1", "copy"] {
        ensure!(sum(c, release, clone)? == before, "{clone}, a clone of a removed snapshot");
    }
    ok("rbd rm --no-progress c1")?;
    for image in ["c2", "copy", "parent"] {
        ok(&format!("rbd rm --no-progress {image}"))?;
    }
    Ok(())
}

fn groups(c: &Cluster, release: Release) -> Result<()> {
    let ok = |line: &str| c.must(release, line);
    ok("rbd group create g")?;
    for image in ["a", "b"] {
        ok(&format!("rbd create --size 8M {image}"))?;
        ok(&format!("rbd group image add g {image}"))?;
    }
    ensure!(json(c, release, "rbd group image list g")?.as_array().is_some_and(|l| l.len() == 2), "two images in the group");
    let empty = sum(c, release, "a")?;
    ok("rbd group snap create g@one")?;
    ok("rbd bench --io-type write --io-size 64K --io-total 1M a")?;
    ok("rbd group snap create g@two")?;
    let snaps = json(c, release, "rbd group snap list g")?;
    ensure!(snaps.as_array().is_some_and(|l| l.len() == 2 && l[0]["snapshot"] != l[1]["snapshot"]), "{snaps}");
    ok("rbd group snap rename g@two three")?;
    ok("rbd group snap rollback --no-progress g@one")?;
    ensure!(sum(c, release, "a")? == empty, "a group rolled back");
    ok("rbd group snap rm g@one")?;
    ok("rbd group image rm g b")?;
    ok("rbd group rename g h")?;
    ensure!(ok("rbd group ls")?.trim() == "h", "a renamed group");
    ok("rbd group rm h")?;
    ok("rbd rm --no-progress a")?;
    ok("rbd rm --no-progress b").map(drop)
}

/// An image moves to another pool under another name, and one move is taken back.
fn moves(c: &Cluster, release: Release) -> Result<()> {
    let ok = |line: &str| c.must(release, line);
    ok("ceph osd pool create rbd2 8")?;
    ok("rbd pool init rbd2")?;
    ok("rbd create --size 16M m")?;
    ok("rbd bench --io-type write --io-size 64K --io-total 2M m")?;
    ok("rbd snap create --no-progress m@s")?;
    ok("rbd bench --io-type write --io-size 64K --io-total 2M --io-pattern rand m")?;
    let (head, snap) = (sum(c, release, "m")?, sum(c, release, "m@s")?);
    ok("rbd migration prepare m rbd2/n")?;
    ok("rbd migration abort --no-progress rbd2/n")?;
    ensure!(sum(c, release, "m")? == head, "a move taken back");
    ok("rbd migration prepare m rbd2/n")?;
    ensure!(sum(c, release, "rbd2/n")? == head, "an image that is on its way");
    ok("rbd migration execute --no-progress rbd2/n")?;
    ok("rbd migration commit --no-progress rbd2/n")?;
    ensure!(sum(c, release, "rbd2/n")? == head && sum(c, release, "rbd2/n@s")? == snap, "an image that moved");
    ok("rbd snap purge --no-progress rbd2/n")?;
    ok("rbd rm --no-progress rbd2/n")?;
    ok("ceph osd pool rm rbd2 rbd2 --yes-i-really-really-mean-it").map(drop)
}

/// An image whose writes are journaled; another image gets the same bytes from the journal alone.
fn journals(c: &Cluster, release: Release) -> Result<()> {
    let ok = |line: &str| c.must(release, line);
    let create = |image: &str| {
        ok(&format!("rbd create --size 8M --image-feature exclusive-lock --image-feature journaling --journal-splay-width 3 {image}"))
    };
    create("j")?;
    let info = json(c, release, "rbd journal info --image j")?;
    ensure!(info["splay_width"] == 3 && info["order"] == 24, "{info}");
    let journal = info["journal_id"].as_str().context("a journal has an id")?;
    let (client, export) = (c.dir.join("journal.client"), c.dir.join("journal.export"));
    let (client, export) = (client.display(), export.display());
    // An image that is closed has committed its entries. How far it is said to be goes back, so that all are read again.
    ok(&format!("rados -p rbd getomapval journal.{journal} client_ {client}"))?;
    ok("rbd bench --io-type write --io-size 64K --io-total 1M j")?;
    let status = ok("rbd journal status --image j")?;
    ensure!(status.contains("state=connected") && status.contains("tid="), "{status}");
    ok(&format!("rados -p rbd setomapval journal.{journal} client_ --input-file {client}"))?;
    let said = ok("rbd journal inspect --verbose --image j")?;
    // Writes of more than a journal entry takes are cut.
    ensure!(said.matches("AioWrite").count() >= 16 && said.contains(" 0 errors"), "{said}");
    ok(&format!("rbd journal export --image j --path {export}"))?;
    // One in ten imports of 16.2 waits for its own appends for good, with no request under way (`objecter_requests` of its admin socket, and
    // `dump_ops_in_flight`, are empty): another one into another image doesn't.
    let (mut k, mut empty, mut imported) = (String::new(), String::new(), false);
    for n in 0..4 {
        k = format!("k{n}");
        create(&k)?;
        empty = sum(c, release, &k)?;
        imported = c.client_within(release, &format!("rbd journal import --path {export} --dest {k}"), Duration::from_secs(20))?.ok();
        if imported {
            break;
        }
        // It can go when the killed client's watch has timed out.
        let goes = || c.client(release, &format!("rbd rm --no-progress {k}")).is_ok_and(|out| out.ok());
        ensure!(until(Duration::from_secs(120), goes), "{k} does not go");
    }
    ensure!(imported, "four imports of a journal did not end well");
    // Who opens it to write plays its journal.
    ok(&format!("rbd snap create --no-progress {k}@played"))?;
    let written = sum(c, release, "j")?;
    ensure!(written != empty && sum(c, release, &format!("{k}@played"))? == written, "an image made of another's journal");
    ok(&format!("rbd snap rm --no-progress {k}@played"))?;
    ok("rbd journal reset --image j")?;
    let said = ok("rbd journal inspect --verbose --image j")?;
    ensure!(!said.contains("event_type"), "a journal that was reset: {said}");
    for image in ["j", &k] {
        ok(&format!("rbd feature disable {image} journaling"))?;
        ensure!(c.client(release, &format!("rbd journal info --image {image}"))?.code != 0, "a journal of an image without one");
        ok(&format!("rbd rm --no-progress {image}"))?;
    }
    Ok(())
}

/// What mirroring needs of a pool that is not mirrored elsewhere.
fn mirroring(c: &Cluster, release: Release) -> Result<()> {
    let ok = |line: &str| c.must(release, line);
    ok("rbd mirror pool enable rbd image")?;
    ok("rbd mirror pool peer add rbd client.elsewhere@elsewhere")?;
    let info = json(c, release, "rbd mirror pool info rbd")?;
    ensure!(info["mode"] == "image" && info["peers"].as_array().is_some_and(|p| p.len() == 1), "{info}");
    ok("rbd create --size 8M mirrored")?;
    ok("rbd mirror image enable mirrored snapshot")?;
    ok("rbd mirror image snapshot mirrored")?;
    ensure!(json(c, release, "rbd snap ls --all mirrored")?.as_array().is_some_and(|l| !l.is_empty()), "a snapshot for mirroring");
    ok("rbd mirror image demote mirrored")?;
    ok("rbd mirror image promote mirrored --force")?;
    ok("rbd mirror pool status rbd")?;
    ok("rbd mirror image disable mirrored")?;
    let peer = info["peers"][0]["uuid"].as_str().context("a peer has an id")?.to_string();
    ok(&format!("rbd mirror pool peer remove rbd {peer}"))?;
    ok("rbd mirror pool disable rbd")?;
    ok("rbd rm --no-progress mirrored").map(drop)
}

fn old_format(c: &Cluster, release: Release) -> Result<()> {
    let ok = |line: &str| c.must(release, line);
    ok("env RBD_FORCE_ALLOW_V1=1 rbd create --image-format 1 --size 8M v1")?;
    ok("rbd bench --io-type write --io-size 64K --io-total 1M v1")?;
    ok("rbd snap create --no-progress v1@s")?;
    ok("rbd snap create --no-progress v1@t")?;
    ok("rbd snap rename v1@t v1@u")?;
    let snaps = json(c, release, "rbd snap ls v1")?;
    ensure!(snaps.as_array().is_some_and(|l| l.len() == 2), "{snaps}");
    let head = sum(c, release, "v1")?;
    ok("rbd bench --io-type write --io-size 4K --io-total 64K --io-pattern rand v1")?;
    ok("rbd snap rollback --no-progress v1@s")?;
    ensure!(sum(c, release, "v1")? == head, "an old image rolled back");
    ok("rbd snap purge --no-progress v1")?;
    ok("rbd rm --no-progress v1").map(drop)
}

fn namespaces(c: &Cluster, release: Release) -> Result<()> {
    let ok = |line: &str| c.must(release, line);
    ok("rbd namespace create rbd/ns")?;
    ok("rbd create --size 8M rbd/ns/i")?;
    ensure!(ok("rbd ls rbd/ns")?.trim() == "i" && ok("rbd ls rbd")?.trim().is_empty(), "an image in a namespace");
    ensure!(c.client(release, "rbd namespace remove rbd/ns")?.code != 0, "a namespace with an image is removed");
    ok("rbd rm --no-progress rbd/ns/i")?;
    ok("rbd namespace remove rbd/ns").map(drop)
}
