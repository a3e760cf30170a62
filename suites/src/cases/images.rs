//! Our images under podman: what a container serves from its volume, with the variables that others' images take, and what it refuses.
//!
//! Podman is Debian's, its storage lies in the case's folder, and a container has no network but its own loopback. The program in the
//! images is the one under test; a release puts its own in (`cargo xtask release`).

use super::Case;
use super::radosgw::{ACCESS, SECRET, steps_by};
use crate::clients::{Release::Reef, apt};
use crate::cluster::binary;
use crate::folders;
use crate::oci::{self, NAMES, S3_PORT, Source, tree};
use crate::run::{Output, run};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[Case { name: "images_under_podman", needs: &[Reef], run: under_podman }];

const COMMAND: Duration = Duration::from_secs(300);
const VERSION: &str = "0.0.0";
/// Any: images of one time are equal.
const TIME: u64 = 1_700_000_000;
/// The stores use io_uring, which podman's own profile forbids.
const URING: [&str; 2] = ["--security-opt", "seccomp=unconfined"];

/// Limits that a process without CAP_SYS_RESOURCE may set; podman's own are higher.
const LIMITS: [&str; 4] = ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"];
/// Starts a program where groups of processes are of the newer kind alone: crun takes no machine that has both, or shows none.
const ONE_KIND: &str = "if ! test -e /sys/fs/cgroup/cgroup.controllers; then umount -R /sys/fs/cgroup 2>/dev/null; \
                        mount -t cgroup2 none /sys/fs/cgroup || exit 1; fi; exec \"$0\" \"$@\"";

/// Podman with a storage of its own; all its containers end with this value.
struct Podman {
    dir: PathBuf,
}

impl Podman {
    fn command(&self, words: &[&str]) -> Command {
        let mut podman = Command::new("unshare");
        podman.args(["--mount", "--propagation", "private", "sh", "-c", ONE_KIND, "podman"]);
        for (option, folder) in [("--root", "storage"), ("--runroot", "run"), ("--tmpdir", "tmp")] {
            podman.arg(option).arg(self.dir.join(folder));
        }
        podman.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--events-backend", "none"]).args(words);
        podman
    }
    fn must(&self, words: &[&str]) -> Result<String> {
        let out = run(&mut self.command(words), COMMAND)?;
        ensure!(out.ok(), "podman {words:?} ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
        Ok(out.stdout.trim().to_string())
    }
    /// `podman run` without a network.
    fn run(&self, options: &[&str], image: &str, args: &[&str]) -> Command {
        let image = format!("localhost/{image}:{VERSION}");
        self.command(&[&["run", "--network", "none", "--cgroups", "disabled"][..], &LIMITS, options, &[image.as_str()], args].concat())
    }
    /// Starts a container, and waits until it says that it is ready.
    fn start(&self, name: &str, options: &[&str], image: &str, args: &[&str]) -> Result<Duration> {
        let started = Instant::now();
        let out = run(&mut self.run(&[&["--detach", "--name", name][..], options].concat(), image, args), COMMAND)?;
        ensure!(out.ok(), "podman run {image}: {out:?}");
        let ready = run(&mut self.command(&["exec", name, "humboldt", "ready", "--wait", "120"]), COMMAND)?;
        ensure!(ready.ok(), "{name} does not get ready: {ready:?}\n{}", self.log(name));
        Ok(started.elapsed())
    }
    fn log(&self, name: &str) -> String {
        run(&mut self.command(&["logs", name]), COMMAND).map(|out| out.stdout + &out.stderr).unwrap_or_default()
    }
    /// One that must end by itself with an error of ours.
    fn refused(&self, options: &[&str], image: &str, args: &[&str], says: &str) -> Result<Output> {
        let out = run(&mut self.run(&[&["--rm"][..], options].concat(), image, args), COMMAND)?;
        ensure!(out.code == 1 && out.stderr.contains(says), "{image} {options:?} {args:?} should be refused with `{says}`: {out:?}");
        Ok(out)
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = run(&mut self.command(&["rm", "--all", "--force", "--time", "0"]), COMMAND);
    }
}

/// Makes the images twice, and loads each in another way: from one file, and from the folder of its layout.
fn load(podman: &Podman, dir: &Path) -> Result<()> {
    let program = binary();
    for name in NAMES {
        let made = |work: &str| -> Result<(PathBuf, String)> {
            let work = dir.join(work);
            std::fs::create_dir_all(&work)?;
            let made =
                oci::make(name, &Source { program: &program, arch: "amd64", version: VERSION, time: TIME, docs: None, work: &work })?;
            let index = std::fs::read_to_string(made.layout.join("index.json"))?;
            Ok((made.layout, index))
        };
        let (layout, index) = made("made")?;
        if name == NAMES[0] {
            ensure!(made("again")?.1 == index, "two builds of image {name} differ");
            let file = dir.join("humboldt.oci.tar");
            tree::pack(&layout, TIME, &file)?;
            podman.must(&["load", "--input", &file.display().to_string()])?;
        } else {
            let id = podman.must(&["pull", "--quiet", &format!("oci:{}", layout.display())])?;
            podman.must(&["tag", &id, &format!("localhost/{name}:{VERSION}")])?;
        }
        std::fs::remove_dir_all(&layout)?;
    }
    Ok(())
}

fn volume(dir: &Path, name: &str) -> Result<(PathBuf, String)> {
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder)?;
    let option = format!("{}:/data", folder.display());
    Ok((folder, option))
}

/// A cluster in a volume: it serves, holds its volume against a second container, and outlives its own.
fn in_a_volume(podman: &Podman, dir: &Path) -> Result<()> {
    let (_, data) = volume(dir, "cluster")?;
    let options = [&URING[..], &["--volume", &data]].concat();
    let nothing = Instant::now();
    let version = run(&mut podman.run(&["--rm", "--entrypoint", "/usr/bin/humboldt"], "humboldt", &["--version"]), COMMAND)?;
    ensure!(version.ok() && version.stdout.starts_with("humboldt "), "{version:?}");
    let nothing = nothing.elapsed();
    let took = podman.start("one", &options, "humboldt", &["--size", "256M"])?;
    println!("a container serves after {:.1} s; one that does nothing takes {:.1} s", took.as_secs_f64(), nothing.as_secs_f64());
    let inside = |words: &[&str]| podman.must(&[&["exec", "one", "humboldt"][..], words].concat());
    ensure!(inside(&["ceph", "health"])? == "HEALTH_OK", "health");
    inside(&["ceph", "osd", "pool", "create", "p", "8"])?;
    inside(&["rados", "-p", "p", "put", "a", "/etc/passwd"])?;
    podman.refused(&options, "humboldt", &[], "stop that one")?;

    podman.must(&["kill", "one"])?;
    podman.must(&["rm", "--force", "one"])?;
    podman.start("one", &options, "humboldt", &[])?;
    ensure!(inside(&["rados", "-p", "p", "ls"])? == "a", "the object is not there in the next container");
    podman.must(&["stop", "--time", "30", "one"])?;
    let code = podman.must(&["inspect", "--format", "{{.State.ExitCode}}", "one"])?;
    ensure!(code == "0", "SIGTERM ends a container with {code}: {}", podman.log("one"));
    Ok(())
}

/// S3 with MinIO's variables, by podman's own seccomp profile: a store in memory needs no io_uring.
fn s3(podman: &Podman) -> Result<()> {
    let keys = [format!("MINIO_ROOT_USER={ACCESS}"), format!("MINIO_ROOT_PASSWORD={SECRET}")];
    let options = ["--env", &keys[0], "--env", &keys[1], "--env", "MINIO_DEFAULT_BUCKETS=made-at-start"];
    let took = podman.start("s3", &options, "humboldt-s3", &["--store", "mem"])?;
    println!("S3 serves after {:.1} s", took.as_secs_f64());
    let buckets = podman.must(&["exec", "s3", "radosgw-admin", "bucket", "list"])?;
    ensure!(buckets.contains("\"made-at-start\""), "buckets: {buckets}");
    let pid = podman.must(&["inspect", "--format", "{{.State.Pid}}", "s3"])?;
    let mut python = Command::new("nsenter");
    python.arg(format!("--net=/proc/{pid}/ns/net")).arg("python3");
    steps_by(python, S3_PORT, &["plain"]).with_context(|| podman.log("s3"))?;
    let said = podman.log("s3");
    ensure!(said.contains("its secret as MINIO_ROOT_PASSWORD has it") && !said.contains(SECRET), "{said}");
    podman.must(&["stop", "--time", "30", "s3"]).map(drop)
}

/// Wrong ways to start: each is told with the next step, and leaves the volume as it was.
fn refusals(podman: &Podman, dir: &Path) -> Result<()> {
    let (folder, data) = volume(dir, "refused")?;
    let with = |more: &[&'static str]| [&URING[..], &["--volume", &data][..], more].concat();
    podman.refused(&with(&["--user", "65534:65534"]), "humboldt", &[], "can't be written by user 65534")?;
    podman.refused(&with(&[]), "humboldt", &["--s3"], "the image humboldt-s3 has all of it")?;
    podman.refused(&with(&["--env", "MINIO_ROOT_USER=minio"]), "humboldt-s3", &[], "MINIO_ROOT_PASSWORD is not")?;
    let short = ["--env", "AWS_ACCESS_KEY_ID=user", "--env", "AWS_SECRET_ACCESS_KEY=short"];
    podman.refused(&with(&short), "humboldt-s3", &[], "AWS_SECRET_ACCESS_KEY: the S3 secret has")?;
    podman.refused(&with(&["--env", "HUMBOLDT_BUCKETS=No"]), "humboldt-s3", &[], "a bucket's name has")?;
    let left = std::fs::read_dir(&folder)?.count();
    ensure!(left == 0, "{left} files are left in a volume that was refused");
    Ok(())
}

fn under_podman() -> Result<()> {
    if !Path::new("/usr/bin/podman").exists() {
        println!("installing podman");
        apt(&["install", "-y", "-q", "--no-install-recommends", "podman"])?;
    }
    let dir = folders::fresh("images")?;
    let podman = Podman { dir: dir.join("podman") };
    load(&podman, &dir)?;
    in_a_volume(&podman, &dir)?;
    s3(&podman)?;
    refusals(&podman, &dir)
}
