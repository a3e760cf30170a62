//! Starts of a new cluster that is asked for more than there is, or whose environment is half set: an error names the next step, and
//! nothing is made. And the health address of one that starts.
//!
//! radosgw is a script here; the cases `s3_and_files_by_one_word` and `images_under_podman` have the true one.

mod up;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;
use up::{How, PATIENCE, Up};

/// A folder with a radosgw that never serves.
struct World {
    dir: PathBuf,
}

impl World {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("humboldt-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(dir.join("bin")).unwrap();
        for program in ["radosgw", "radosgw-admin"] {
            let path = dir.join("bin").join(program);
            std::fs::write(&path, "#!/bin/sh\nexec sleep 600\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { dir }
    }
    /// The program with these words, in an environment with nothing but these variables and a place for programs.
    fn humboldt(&self, line: &str, variables: &[(&str, &str)]) -> Command {
        let mut cmd = Command::new(env!("CARGO_BIN_EXE_humboldt"));
        let path = format!("{}:/usr/bin:/bin", self.dir.join("bin").display());
        cmd.args(line.split_whitespace()).current_dir(&self.dir).env_clear().env("PATH", path).envs(variables.iter().copied());
        cmd.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        cmd
    }
    /// It must fail with this on standard error.
    fn refused(&self, line: &str, variables: &[(&str, &str)], says: &str) {
        let out = self.humboldt(line, variables).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && said.contains(says), "`{line}` with {variables:?} should say `{says}`: {said}");
    }
    /// The same for a start, which leaves no folder.
    fn leaves_nothing(&self, options: &str, variables: &[(&str, &str)], says: &str) {
        self.refused(&format!("up --dir d --port 0 --http none {options}"), variables, says);
        assert!(!self.dir.join("d").exists(), "`{options}` with {variables:?} leaves a folder");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_start_that_is_refused_makes_nothing() {
    let world = World::new("first-start");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let short = [("MINIO_ROOT_USER", "minioadmin"), ("MINIO_ROOT_PASSWORD", "short")];
    world.leaves_nothing("--s3", &short, "MINIO_ROOT_USER and MINIO_ROOT_PASSWORD: the S3 secret has 8 to");
    world.leaves_nothing("--s3", &short[..1], "MINIO_ROOT_USER is set and MINIO_ROOT_PASSWORD is not: set both");
    world.leaves_nothing("--s3", &[("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")], "AWS_ACCESS_KEY_ID is not: set both");
    world.leaves_nothing("--s3", &[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")], "the S3 access key has 3 to");
    world.leaves_nothing("--s3", &[("HUMBOLDT_BUCKETS", "good,No")], "--bucket No: a bucket's name has");
    world.leaves_nothing("--s3", &[("MINIO_DEFAULT_BUCKETS", "10.0.0.1")], "is no address");
    world.leaves_nothing("--s3", &[("PATH", "/nowhere")], "the image humboldt-s3 has all of it");
    world.leaves_nothing(&format!("--s3 --s3-port {port} --s3-listen 127.0.0.1"), &[], "give another --s3-port");
    world.leaves_nothing("--s3-listen 127.0.0.1", &[], "--s3");
    world.leaves_nothing(&format!("--health 127.0.0.1:{port}"), &[], "give another --health");
    world.leaves_nothing("", &[("HUMBOLDT_HEALTH", "here")], "--health");
    // A place where no process makes a file, whatever its user.
    world.refused("up --dir /sys/kernel --port 0 --http none", &[], "the folder /sys/kernel can't be written by user ");
}

/// Starts a cluster: it, and where it answers.
fn start(world: &World, options: &str) -> (Up, String) {
    const SAYS: &str = "health: http://";
    let line = format!("up --dir d --port 0 --http none --size 64M --health 127.0.0.1:0 {options}");
    let up = Up::start(world.humboldt(&line, &[]), How { ready: SAYS, ..How::default() });
    let health = up.ready.trim().strip_prefix(SAYS).and_then(|rest| rest.strip_suffix("/ready")).expect("an address").to_string();
    (up, health)
}

#[test]
fn the_health_address_says_ready_or_why_not() {
    let world = World::new("health");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for options in ["", "--processes"] {
        let (up, health) = start(&world, options);
        let out = world.humboldt("ready --wait 60", &[("HUMBOLDT_HEALTH", &health)]).output().unwrap();
        assert!(out.status.success() && out.stdout == b"ready\n", "{options}: {out:?}");
        // The folder comes first: its holder is what is in the way.
        world.refused(&format!("up --dir d --port 0 --health {health}"), &[], "stop that one, or give another --dir");
        drop(up);
        world.refused(&format!("ready --health {health}"), &[], "nothing answers at");
    }
    let (_up, health) = start(&world, &format!("--s3 --s3-port {free}"));
    let ask = || {
        let out = world.humboldt(&format!("ready --health {health}"), &[]).output().unwrap();
        assert!(!out.status.success(), "a gateway that never serves: {out:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let (end, mut said) = (Instant::now() + PATIENCE, ask());
    while !said.contains("radosgw does not serve yet") {
        assert!(Instant::now() < end, "{said}");
        said = ask();
    }
}
