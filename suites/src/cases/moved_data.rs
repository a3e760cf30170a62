//! Clients of a cluster whose OSDs are replaced: images with snapshots and clones, a bucket, and a file system. All are made before, used
//! all the while by clients that verify their reads, and compared afterwards.
//!
//! Which OSDs go and come is in `stock_moved`.

use super::radosgw::{ACCESS, SECRET, speak, told};
use super::turns::Writer;
use crate::clients::Release;
use crate::gateway::Gateway;
use crate::mds::{self, Server};
use crate::run::{root, run, words};
use crate::stock::free_ports;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// For one command of a client; OSDs come and go meanwhile.
const COMMAND: Duration = Duration::from_secs(300);
/// Between two objects or files of a client: they share two cores with recovery.
const PAUSE_S: &str = "0.1";

/// Images that stand still and their snapshots: each is exported and compared.
const SPECS: [&str; 4] = ["base", "base@one", "base@two", "child"];

/// A cluster's ceph.conf, and the release of its clients.
#[derive(Clone)]
struct Place {
    release: Release,
    conf: PathBuf,
}

impl Place {
    fn must(&self, line: &str) -> Result<String> {
        let words = words(line);
        let out = run(self.release.command(&self.conf, &words[0]).args(&words[1..]), COMMAND)?;
        ensure!(out.ok(), "`{line}` ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
        Ok(out.stdout)
    }
    /// Writes that much of an image at random and reads it back.
    fn fio(&self, image: &str, size: &str, seed: usize) -> Result<()> {
        let line = format!(
            "fio --ioengine=rbd --clientname=admin --pool=images --direct=1 --name=v --rw=randwrite --bsrange=4k-64k --iodepth=8 \
             --verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=1 --randseed={seed} --rbdname={image} --size={size}"
        );
        let said = self.must(&line)?;
        ensure!(said.contains("err= 0"), "fio on {image}: {said}");
        Ok(())
    }
    /// Images that stand still: one with two snapshots that differ, a clone of the first that was written to, and a key of its header.
    fn make_images(&self) -> Result<()> {
        for line in [
            "ceph osd pool create images 8 8 replicated any",
            "rbd pool init images",
            "rbd create --size 48M images/base",
            "rbd create --size 32M images/live",
            "rbd image-meta set images/base moved from-stock",
        ] {
            self.must(line)?;
        }
        for (snapshot, size, seed) in [("one", "48M", 1), ("two", "16M", 2)] {
            self.fio("base", size, seed)?;
            self.must(&format!("rbd snap create --no-progress images/base@{snapshot}"))?;
        }
        self.must("rbd clone --rbd-default-clone-format 2 images/base@one images/child")?;
        self.fio("base", "8M", 3)?;
        self.fio("child", "24M", 4)
    }
    /// All that there is of them.
    fn images_told(&self) -> Result<String> {
        let mut text = String::new();
        for spec in SPECS {
            let sum = format!("rbd export --no-progress images/{spec} - | sha256sum");
            text += &format!("{spec} {}", self.must(&format!("bash -c 'set -o pipefail; {sum}'"))?);
        }
        for line in ["rbd snap ls --format json images/base", "rbd image-meta ls images/base", "rbd children images/base@one"] {
            text += &self.must(line)?;
        }
        self.must("rbd object-map check --no-progress images/base")?;
        Ok(text)
    }
    /// One turn of the load: an image verified, a snapshot of it, a clone of that verified, and both gone.
    fn turn_of_load(&self, turn: usize) -> Result<()> {
        self.fio("live", "16M", turn)?;
        self.must(&format!("rbd snap create --no-progress images/live@{turn}"))?;
        self.must(&format!("rbd clone --rbd-default-clone-format 2 images/live@{turn} images/clone-{turn}"))?;
        self.fio(&format!("clone-{turn}"), "8M", turn + 1)?;
        self.must(&format!("rbd rm --no-progress images/clone-{turn}"))?;
        self.must(&format!("rbd snap rm --no-progress images/live@{turn}")).map(drop)
    }
}

/// Steps of `s3.py` at a gateway.
fn s3(gateway: &Gateway, step: &str) -> Command {
    let mut cmd = Command::new("python3");
    cmd.arg(root().join("suites/src/cases/s3.py")).arg(format!("127.0.0.1:{}", gateway.port)).args([ACCESS, SECRET, step]);
    cmd.env("PAUSE", PAUSE_S);
    cmd
}

/// Steps of `cephfs.py`.
fn files(place: &Place, steps: &[&str]) -> Result<Command> {
    // Its own name is the library's, which it imports.
    let script = place.conf.with_file_name("files.py");
    std::fs::copy(root().join("suites/src/cases/cephfs.py"), &script)?;
    let mut cmd = place.release.command(&place.conf, "python3");
    cmd.arg(script).args(steps).env("PAUSE", PAUSE_S);
    Ok(cmd)
}
fn must_see(mut cmd: Command, what: &str) -> Result<()> {
    let out = run(&mut cmd, COMMAND)?;
    ensure!(out.ok() && out.stdout.trim().ends_with("ok"), "{what}: {}{}", out.stdout, out.stderr);
    Ok(())
}

/// The clients and their servers. Servers end with this value.
pub struct Residents {
    place: Place,
    objects: Writer,
    written: Writer,
    images: JoinHandle<Result<()>>,
    turns: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    gateway: Gateway,
    _server: Server,
    images_told: String,
    bucket_told: String,
}

impl Residents {
    /// Moves in, and begins to write. The CRUSH rule `any` and the release's programs are there.
    pub fn new(release: Release, conf: &Path) -> Result<Self> {
        let place = Place { release, conf: conf.to_path_buf() };
        place.make_images()?;
        let server = mds::serve_on(release, conf, [4, 8])?;
        must_see(files(&place, &["make", "check"])?, "files at first")?;
        let [port] = free_ports()?;
        let gateway = Gateway::start_of(release, conf, port, &[])?;
        gateway.admin(&format!("user create --uid=t --display-name=T --access-key={ACCESS} --secret-key={SECRET}"))?;
        speak(&gateway, &["kept", "mixed"])?;

        let dir = conf.parent().context("ceph.conf is in the cluster's folder")?;
        let objects = Writer::start(dir, "objects", s3(&gateway, "stream"))?;
        let written = Writer::start(dir, "files", files(&place, &["write", "/w", "1000000"])?)?;
        let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (here, count, is_over) = (place.clone(), turns.clone(), stop.clone());
        let images = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let turn = count.load(Ordering::Relaxed);
                here.turn_of_load(turn).with_context(|| format!("turn {turn} on images"))?;
                count.store(turn + 1, Ordering::Relaxed);
            }
            Ok(())
        });
        let (images_told, bucket_told) = (place.images_told()?, told(&gateway, "tell")?);
        Ok(Self { place, objects, written, images, turns, stop, gateway, _server: server, images_told, bucket_told })
    }
    /// How much each load has done, and that none has ended.
    fn counts(&mut self) -> Result<[usize; 3]> {
        ensure!(!self.images.is_finished() || self.stop.load(Ordering::Relaxed), "the load on images has ended");
        Ok([self.objects.count(), self.written.count(), self.turns.load(Ordering::Relaxed)])
    }
    /// An error unless what stood still is as it was, every byte, attribute, key and snapshot, and the loads have gone on since `before`.
    /// How much they have done by now.
    pub fn are_well(&mut self, before: [usize; 3], when: &str) -> Result<[usize; 3]> {
        let now = self.counts()?;
        ensure!(now.iter().zip(before).all(|(now, before)| *now > before), "{when}: loads stand still: {before:?} and then {now:?}");
        let images = self.place.images_told()?;
        ensure!(images == self.images_told, "{when} images differ:\n{images}\nthey were:\n{}", self.images_told);
        speak(&self.gateway, &["check"])?;
        let bucket = told(&self.gateway, "tell")?;
        ensure!(bucket == self.bucket_told, "{when} the bucket differs:\n{bucket}\nit was:\n{}", self.bucket_told);
        let check: Value = serde_json::from_str(&self.gateway.admin("bucket check --bucket=mixed")?).context("bucket check")?;
        let sums = &check["check_result"];
        ensure!(sums["existing_header"].is_object() && sums["existing_header"] == sums["calculated_header"], "{when}: {check}");
        must_see(files(&self.place, &["check"])?, &format!("{when} files"))?;
        Ok(now)
    }
    /// Changes what stood still, where it is now: what it is then is what it must be later.
    pub fn change(&mut self) -> Result<()> {
        self.place.fio("child", "8M", 9)?;
        self.place.must("rbd image-meta set images/base moved to-ours")?;
        self.place.must("rbd snap create --no-progress images/base@three")?;
        speak(&self.gateway, &["grow"])?;
        self.gateway.admin("bucket reshard --bucket=kept --num-shards=13")?;
        (self.images_told, self.bucket_told) = (self.place.images_told()?, told(&self.gateway, "tell")?);
        Ok(())
    }
    /// Ends the loads, and compares all that was acknowledged to them. A line that tells how much that was.
    pub fn end(self) -> Result<String> {
        let dir = self.place.conf.parent().context("ceph.conf is in the cluster's folder")?;
        std::fs::write(Writer::stop_file(dir), "")?;
        self.stop.store(true, Ordering::Relaxed);
        self.images.join().ok().context("the load on images ended badly")??;
        let (objects, written) = (self.objects.finish()?, self.written.finish()?);
        let mut streamed = s3(&self.gateway, "streamed");
        streamed.env("COUNT", objects.to_string());
        must_see(streamed, "objects")?;
        must_see(files(&self.place, &["read", "/w", &written.to_string()])?, "files")?;
        Ok(format!("{} turns of verified images and clones, {objects} objects, {written} files", self.turns.load(Ordering::Relaxed)))
    }
}
