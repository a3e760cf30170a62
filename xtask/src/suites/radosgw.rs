//! Stock radosgw of 18.2 on a `humboldt up`: S3 through it, and what its administrator sees of it.

use super::Case;
use crate::clients::{Release::Reef, reef_radosgw};
use crate::cluster::Cluster;
use crate::run::{root, run, until};
use crate::stock::free_ports;
use anyhow::{Context, Result, ensure};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "radosgw_18.2", needs: &[Reef], run: || s3(&["--store", "mem"]) },
    Case { name: "radosgw_18.2_block", needs: &[Reef], run: || s3(&["--store", "block"]) },
];

/// The first start makes pools.
const READY: Duration = Duration::from_secs(120);
const SCRIPT: Duration = Duration::from_secs(300);
const ACCESS: &str = "accesskeyoftest";
const SECRET: &str = "secretkeyoftest";

/// A radosgw that ends with this value.
struct Gateway {
    child: Child,
    port: u16,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(c: &Cluster) -> Result<Gateway> {
    let [port] = free_ports()?;
    let log = std::fs::File::create(c.dir.join("radosgw.log"))?;
    let mut cmd = Reef.command(&c.conf, "radosgw");
    cmd.args(["-n", "client.rgw.a", "-f", "--rgw-enable-usage-log=true", "--rgw-frontends"])
        .arg(format!("beast endpoint=127.0.0.1:{port}"));
    let child = cmd.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
    let mut gateway = Gateway { child, port };
    let ready =
        until(READY, || TcpStream::connect(("127.0.0.1", port)).is_ok() || gateway.child.try_wait().is_ok_and(|ended| ended.is_some()));
    ensure!(ready && gateway.child.try_wait()?.is_none(), "radosgw does not serve: {}", last_words(c));
    Ok(gateway)
}

fn last_words(c: &Cluster) -> String {
    let text = std::fs::read_to_string(c.dir.join("radosgw.log")).unwrap_or_default();
    text.lines().rev().take(10).collect::<Vec<_>>().join("\n")
}

/// Runs steps of `s3.py`.
fn speak(c: &Cluster, gateway: &Gateway, steps: &[&str]) -> Result<()> {
    let mut cmd = Command::new("python3");
    cmd.arg(root().join("xtask/src/suites/s3.py")).arg(format!("127.0.0.1:{}", gateway.port)).args([ACCESS, SECRET]).args(steps);
    let out = run(&mut cmd, SCRIPT)?;
    ensure!(out.ok() && out.stdout.trim() == "ok", "s3.py: {}{}{}", out.stdout, out.stderr, last_words(c));
    Ok(())
}

fn objects_of_data(c: &Cluster) -> Result<usize> {
    Ok(c.must(Reef, "rados -p default.rgw.buckets.data ls --all")?.lines().count())
}

fn s3(store: &[&str]) -> Result<()> {
    reef_radosgw()?;
    let c = Cluster::start(&format!("radosgw-{}", store[1]), store)?;
    let keyring = c.dir.join("ceph.client.rgw.a.keyring");
    c.must(Reef, &format!("ceph auth get-or-create client.rgw.a mon 'allow rw' osd 'allow rwx' mgr 'allow rw' -o {}", keyring.display()))?;
    let gateway = start(&c)?;
    let admin = |line: &str| c.must(Reef, &format!("radosgw-admin {line}"));
    admin(&format!("user create --uid=t --display-name=T --access-key={ACCESS} --secret-key={SECRET}"))?;
    speak(&c, &gateway, &["plain", "versions", "uploads", "kept", "check"])?;

    let stats: serde_json::Value = serde_json::from_str(&admin("bucket stats --bucket=kept")?).context("bucket stats")?;
    let sums = &stats["usage"]["rgw.main"];
    ensure!(sums["num_objects"] == 30 && sums["size_actual"] == 30 * 4096, "{stats}");
    let check: serde_json::Value = serde_json::from_str(&admin("bucket check --bucket=kept")?).context("bucket check")?;
    let check = &check["check_result"];
    ensure!(check["existing_header"].is_object() && check["existing_header"] == check["calculated_header"], "{check}");
    // The index moves from 11 shards to more, and the bucket is the same.
    admin("bucket reshard --bucket=kept --num-shards=13")?;
    speak(&c, &gateway, &["check"])?;
    // What was removed goes for good, and nothing else does.
    admin("gc process --include-all")?;
    ensure!(objects_of_data(&c)? == 30, "{} objects of data", objects_of_data(&c)?);
    admin("lc process")?;
    // Another radosgw finds all of it.
    drop(gateway);
    let gateway = start(&c)?;
    speak(&c, &gateway, &["check"])?;
    admin("bucket rm --bucket=kept --purge-objects")?;
    admin("gc process --include-all")?;
    ensure!(objects_of_data(&c)? == 0, "{} objects of data are left", objects_of_data(&c)?);
    drop(gateway);
    c.stop()
}
