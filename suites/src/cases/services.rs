//! `humboldt up --s3 --fs`: gateways of 18.2 that it starts, keeps running and takes down; S3 and files through them, and what it refuses.

use super::Case;
use super::radosgw::{ACCESS, SECRET, steps_of};
use crate::clients::{Release::Reef, reef_mds, reef_radosgw};
use crate::cluster::{Cluster, binary};
use crate::folders;
use crate::mds::Mount;
use crate::run::{process, run, until};
use crate::stock::free_ports;
use anyhow::{Context, Result, ensure};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "s3_and_files_by_one_word", needs: &[Reef], run: by_one_word }];

/// Gateways make pools at their first start, and wait for grace after a kill.
const SERVES: Duration = Duration::from_secs(180);
const ANSWER: Duration = Duration::from_secs(60);

/// Programs of 18.2 by their own names: each leads into the chroot where that release lives, and names the program by its path there.
/// By its name alone it would be found here again.
fn programs_of_reef(dir: &Path) -> Result<PathBuf> {
    let (bin, root) = (dir.join("bin"), Reef.chroot().context("18.2 lives in a chroot")?);
    std::fs::create_dir_all(&bin)?;
    for name in ["radosgw", "radosgw-admin", "ceph-mds"] {
        let script = bin.join(name);
        std::fs::write(&script, format!("#!/bin/sh\nexec chroot {} /usr/bin/{name} \"$@\"\n", root.display()))?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(bin)
}

/// Options that `up` refuses before it makes anything.
fn refusals(dir: &Path) -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let (port, folder) = (taken.local_addr()?.port().to_string(), dir.join("refused"));
    let refused = |program_path: &str, args: &[&str], says: &str| -> Result<()> {
        let mut up = Command::new(binary());
        up.args(["up", "--port", "0", "--dir"]).arg(&folder).args(args).env("PATH", program_path);
        let out = run(&mut up, ANSWER)?;
        ensure!(out.code == 1 && out.stderr.contains(says) && !folder.exists(), "{args:?} should be refused with `{says}`: {out:?}");
        Ok(())
    };
    let here = dir.join("bin").display().to_string();
    refused(&here, &["--s3", "--s3-port", &port], "give another --s3-port")?;
    refused(&here, &["--s3", "--bucket", "No"], "a bucket's name has")?;
    refused(&here, &["--s3", "--s3-user", "user:short"], "printable characters")?;
    refused(&here, &["--s3", "--s3-cert", "/etc/hostname", "--s3-key", "/etc/hostname"], "no block `BEGIN CERTIFICATE`")?;
    refused("/nowhere", &["--s3"], "apt install radosgw")?;
    refused("/nowhere", &["--fs"], "apt install ceph-mds")?;
    Ok(())
}

/// The process of a gateway of the cluster in this folder.
fn gateway(program: &str, dir: &Path) -> Option<u32> {
    let dir = dir.display().to_string();
    process(|args| args[0].ends_with(program) && args.iter().any(|arg| arg.contains(&dir)))
}

fn serves(c: &mut Cluster, line: &str) -> Result<()> {
    until(SERVES, || c.log().contains(line) || c.ended());
    ensure!(c.log().contains(line), "`{line}` is not said; up said:\n{}", c.log());
    Ok(())
}

fn by_one_word() -> Result<()> {
    reef_radosgw()?;
    reef_mds()?;
    let dir = folders::fresh("services")?;
    let bin = programs_of_reef(&dir)?;
    refusals(&dir)?;
    let [port] = free_ports()?;
    let (port_text, keys) = (port.to_string(), dir.join("keys"));
    std::fs::write(&keys, format!("{ACCESS}:{SECRET}\n"))?;
    let keys = format!("@{}", keys.display());
    let args = ["--osds", "2", "--s3", "--s3-port", &port_text, "--s3-user", &keys, "--bucket", "made-at-start", "--fs"];
    let mut c = Cluster::start_beside(&bin, dir.join("c"), &args)?;
    serves(&mut c, &format!("S3 at http://127.0.0.1:{port}, access key {ACCESS}"))?;
    serves(&mut c, "files: cephfs")?;
    steps_of(port, &["plain", "kept"])?;
    let buckets = run(Reef.command(&c.conf, "radosgw-admin").args(["bucket", "list"]), ANSWER)?;
    ensure!(buckets.stdout.contains("\"made-at-start\""), "buckets: {buckets:?}");
    let mount = Mount::new(&c.conf)?;
    std::fs::write(mount.outside.join("file"), "through ceph-mds")?;
    drop(mount);

    // A gateway that dies is there again.
    let pid = gateway("radosgw", &c.dir).context("radosgw runs")?;
    Command::new("kill").args(["-9", &pid.to_string()]).status()?;
    serves(&mut c, "radosgw serves again")?;
    steps_of(port, &["check"])?;

    // All of it dies; what is left of the gateways holds no port, and the same line brings it back.
    c.kill_and_restart(&args)?;
    serves(&mut c, "S3 at http")?;
    serves(&mut c, "files: cephfs")?;
    steps_of(port, &["check"])?;
    let mount = Mount::new(&c.conf)?;
    let read = std::fs::read_to_string(mount.outside.join("file"))?;
    ensure!(read == "through ceph-mds", "the file has {read:?}");
    drop(mount);
    let folder = c.dir.clone();
    c.stop()?;
    let left = ["radosgw", "ceph-mds"].into_iter().find(|name| gateway(name, &folder).is_some());
    ensure!(left.is_none(), "{} goes on after the end of up", left.unwrap_or_default());
    over_https(&bin, &dir)
}

/// HTTPS with a certificate that was given, by a client that checks it; and one that does not fit its key.
fn over_https(bin: &Path, dir: &Path) -> Result<()> {
    let [port] = free_ports()?;
    let (cert, key, other) = (dir.join("cert.pem"), dir.join("key.pem"), dir.join("other.pem"));
    for (key, cert) in [(&key, &cert), (&other, &dir.join("others.pem"))] {
        let mut make = Reef.command(&dir.join("none"), "openssl");
        make.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
        make.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout"]).arg(key).arg("-out").arg(cert);
        let made = run(&mut make, ANSWER)?;
        ensure!(made.ok(), "openssl req: {made:?}");
    }
    let (port_text, cert_text) = (port.to_string(), cert.display().to_string());
    let args = |key: &Path| {
        let key = key.display().to_string();
        ["--store", "mem", "--s3", "--s3-port", &port_text, "--bucket", "made-at-start", "--s3-cert", &cert_text, "--s3-key", &key]
            .map(String::from)
    };
    let words = |args: &[String]| Cluster::start_beside(bin, dir.join("https"), &args.iter().map(String::as_str).collect::<Vec<_>>());
    let wrong = words(&args(&other)).err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(wrong.contains("give the --s3-key that belongs to --s3-cert"), "a key of another certificate: {wrong}");
    ensure!(!dir.join("https").exists(), "a start that was refused leaves its folder");
    let mut c = words(&args(&key))?;
    serves(&mut c, &format!("S3 at https://127.0.0.1:{port}"))?;
    let script = "import http.client, ssl, sys\n\
        c = http.client.HTTPSConnection('127.0.0.1', int(sys.argv[1]), context=ssl.create_default_context(cafile=sys.argv[2]), timeout=60)\n\
        c.request('GET', '/made-at-start')\n\
        print(c.getresponse().status)\n";
    let out = run(Command::new("python3").args(["-c", script, &port_text, &cert_text]), ANSWER)?;
    ensure!(out.stdout.trim() == "403", "a bucket that is there refuses a stranger with 403: {out:?}");
    c.stop()
}
