//! Stock radosgw beside a cluster under test, and its administrator.
//!
//! Knows the cluster by its ceph.conf, in whose folder the gateway's keyring and log lie. What is asked of the gateway is its users' affair.

use crate::clients::Release::{self, Reef};
use crate::run::{run, until, words};
use crate::stock::free_ports;
use anyhow::{Result, ensure};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// The first start makes pools.
const READY: Duration = Duration::from_secs(120);
const COMMAND: Duration = Duration::from_secs(300);

/// A radosgw that ends with this value.
pub struct Gateway {
    child: Child,
    release: Release,
    conf: PathBuf,
    /// More options than those that each gateway here has.
    options: Vec<String>,
    pub port: u16,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Gateway {
    /// Gives a gateway of 18.2 its key and starts it at a free port, with more options as arguments.
    pub fn start(conf: &Path, options: &[&str]) -> Result<Self> {
        let [port] = free_ports()?;
        Self::start_of(Reef, conf, port, options)
    }
    /// The same of that release, at that port.
    pub fn start_of(release: Release, conf: &Path, port: u16, options: &[&str]) -> Result<Self> {
        let keyring = keyring(conf);
        client(
            release,
            conf,
            &format!("ceph auth get-or-create client.rgw.a mon 'allow rw' osd 'allow rwx' mgr 'allow rw' -o {}", keyring.display()),
        )?;
        Self::start_at(release, conf, port, options.iter().map(ToString::to_string).collect())
    }

    fn start_at(release: Release, conf: &Path, port: u16, options: Vec<String>) -> Result<Self> {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(conf.with_file_name("radosgw.log"))?;
        let mut cmd = release.command(conf, "radosgw");
        cmd.args(["-n", "client.rgw.a", "-f", "--rgw-enable-usage-log=true", "--keyring"]).arg(keyring(conf)).args(&options);
        // The default paths are for all clusters of this machine.
        cmd.arg(format!("--admin-socket={}", conf.with_file_name("radosgw.asok").display()));
        cmd.arg(format!("--log-file={}", conf.with_file_name("radosgw.log").display()));
        // Without the last word an answer's body waits 40 ms for the kernel's acknowledgement of its head: a client that reads thousands waits minutes.
        cmd.arg("--rgw-frontends").arg(format!("beast endpoint=127.0.0.1:{port} tcp_nodelay=1"));
        let child = cmd.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let mut gateway = Self { child, release, conf: conf.to_path_buf(), options, port };
        let ready =
            until(READY, || TcpStream::connect(("127.0.0.1", port)).is_ok() || gateway.child.try_wait().is_ok_and(|ended| ended.is_some()));
        ensure!(ready && gateway.child.try_wait()?.is_none(), "radosgw does not serve: {}", gateway.last_words());
        Ok(gateway)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with -9 and starts another in its place, at the same port.
    pub fn kill_and_restart(mut self) -> Result<Self> {
        self.child.kill()?;
        self.child.wait()?;
        Self::start_at(self.release, &self.conf, self.port, self.options.clone())
    }

    /// A command line of radosgw-admin of its release that must succeed; its standard output.
    pub fn admin(&self, line: &str) -> Result<String> {
        admin_of(self.release, &self.conf, line)
    }

    /// The end of what it printed, over all its starts.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(self.conf.with_file_name("radosgw.log")).unwrap_or_default();
        text.lines().rev().take(10).collect::<Vec<_>>().join("\n")
    }
}

fn keyring(conf: &Path) -> PathBuf {
    conf.with_file_name("ceph.client.rgw.a.keyring")
}

/// A command line of a client that must succeed; its standard output.
fn client(release: Release, conf: &Path, line: &str) -> Result<String> {
    let words = words(line);
    let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let out = run(release.command(conf, &words[0]).args(args), COMMAND)?;
    ensure!(out.ok(), "`{line}` ended with {}:\n{}{}", out.code, out.stdout, out.stderr);
    Ok(out.stdout)
}

/// A command line of radosgw-admin of 18.2 that must succeed; its standard output.
pub fn admin(conf: &Path, line: &str) -> Result<String> {
    admin_of(Reef, conf, line)
}

/// The same of that release.
pub fn admin_of(release: Release, conf: &Path, line: &str) -> Result<String> {
    client(release, conf, &format!("radosgw-admin {line}"))
}

/// How many objects hold buckets' data.
pub fn objects_of_data(conf: &Path) -> Result<usize> {
    Ok(names_of_data(conf)?.len())
}

/// Their names, behind the namespace of each.
pub fn names_of_data(conf: &Path) -> Result<Vec<String>> {
    Ok(client(Reef, conf, "rados -p default.rgw.buckets.data ls --all")?.lines().map(str::to_string).collect())
}
