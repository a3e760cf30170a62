//! A stock manager of 16.2 under our monitor: its modules work, and the endpoint in our process stands back while it is there.
//!
//! Its Python modules are Debian's packages; 18.2's manager loads none of them in these chroots.

use super::Case;
use crate::clients::{Release::Pacific, pacific_manager};
use crate::cluster::Cluster;
use crate::run::until;
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "stock_manager_under_our_monitor", needs: &[Pacific], run: manager }];

const PATIENCE: Duration = Duration::from_secs(90);

/// A running `ceph-mgr`.
struct Manager {
    conf: PathBuf,
    child: Child,
}

impl Manager {
    fn new(c: &Cluster) -> Result<Self> {
        let (data, conf) = (c.dir.join("mgr.y"), c.dir.join("mgr.conf"));
        std::fs::create_dir_all(&data)?;
        let keyring = data.join("keyring");
        c.must(
            Pacific,
            &format!("ceph auth get-or-create mgr.y mon 'allow profile mgr' osd 'allow *' mds 'allow *' -o {}", keyring.display()),
        )?;
        let at = c.dir.display();
        let theirs = std::fs::read_to_string(&c.conf)?;
        let kept: Vec<&str> = theirs.lines().filter(|l| !l.starts_with("log file") && !l.starts_with("admin socket")).collect();
        std::fs::write(
            &conf,
            format!(
                "{}\n[mgr]\nmgr data = {}\nkeyring = {}\nrun dir = {at}\nadmin socket = {at}/$name.asok\nlog file = {at}/$name.log\ncrash dir = {at}\n",
                kept.join("\n"),
                data.display(),
                keyring.display()
            ),
        )?;
        Ok(Self { child: Self::spawn(&conf)?, conf })
    }
    fn spawn(conf: &Path) -> Result<Child> {
        let mut cmd = Pacific.command(conf, "ceph-mgr");
        cmd.args(["-f", "-i", "y"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        cmd.spawn().context("starting ceph-mgr")
    }
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    fn again(&mut self) -> Result<()> {
        self.child = Self::spawn(&self.conf)?;
        Ok(())
    }
}
impl Drop for Manager {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait(c: &Cluster, line: &str, what: &str, good: impl Fn(&str) -> bool) -> Result<()> {
    let mut last = String::new();
    let found = until(PATIENCE, || {
        last = c.must(Pacific, line).unwrap_or_else(|e| format!("{e:#}"));
        good(&last)
    });
    if !found {
        bail!("{what} did not come; `{line}` says:\n{last}");
    }
    Ok(())
}

/// A page by HTTP.
fn page(port: u16, path: &str) -> Result<String> {
    let mut s = TcpStream::connect(("127.0.0.1", port))?;
    s.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(s, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    s.read_to_string(&mut text)?;
    Ok(text)
}

fn manager() -> Result<()> {
    pacific_manager()?;
    let c = Cluster::start("stock-manager", &["--osds", "2"])?;
    let ok = |line: &str| c.must(Pacific, line);
    ok("ceph config set mon mon_mgr_beacon_grace 6")?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    ok(&format!("ceph config set mgr mgr/prometheus/server_port {port}"))?;
    ok("ceph config set mgr mgr/prometheus/server_addr 127.0.0.1")?;
    ok("ceph osd pool create rbd 8")?;
    ok("rbd pool init rbd")?;
    ok("rbd create --size 8M rbd/gone")?;
    ensure!(ok("ceph mgr stat")?.contains("\"active_name\": \"x\""), "the endpoint is the manager at first");

    let mut mgr = Manager::new(&c)?;
    let serves = |out: &str| out.contains("\"active_name\":\"y\"") && out.contains("\"available\":true");
    let active = |c: &Cluster| wait(c, "ceph mgr stat -f json", "the stock manager", |out| serves(&out.replace(' ', "")));
    active(&c)?;
    // The manager makes a pool of its own.
    let clean = |c: &Cluster| {
        wait(c, "ceph pg stat", "its figures", |out| {
            let (pgs, rest) = out.split_once(" pgs: ").unwrap_or_default();
            pgs.parse().is_ok_and(|n: u32| n >= 8) && rest.starts_with(&format!("{pgs} active+clean;"))
        })
    };
    clean(&c)?;
    wait(&c, "ceph -s", "its report", |out| out.contains("mgr: y(active") && out.contains("active+clean"))?;
    ensure!(ok("ceph mgr module ls -f json")?.contains("\"always_on_modules\":[\"balancer\""), "modules");
    ensure!(ok("ceph balancer status")?.contains("\"active\""), "balancer");
    ensure!(ok("ceph osd pool autoscale-status")?.contains("rbd"), "autoscaler");
    ensure!(ok("ceph mgr metadata y")?.contains("16.2") && ok("ceph versions")?.contains("16.2"), "metadata");
    ensure!(ok("ceph osd df")?.contains("osd.0") || ok("ceph osd df -f json")?.contains("\"osd.0\""), "osd df");

    // What rbd asks of it.
    ok("rbd trash purge schedule add -p rbd 1h")?;
    wait(&c, "rbd trash purge schedule ls -p rbd", "the schedule", |out| out.contains("every 1h"))?;
    ok("ceph rbd task add remove rbd/gone")?;
    wait(&c, "rbd ls rbd", "the removal", str::is_empty)?;

    // It starts over to load another module, and serves its page.
    ok("ceph mgr module enable prometheus")?;
    let shown = until(PATIENCE, || page(port, "/metrics").is_ok_and(|text| text.contains("ceph_osd_up{ceph_daemon=\"osd.1\"} 1.0")));
    ensure!(shown, "no page of metrics: {:?}", page(port, "/metrics"));

    // Killed, it is fenced, and the endpoint is back; restarted, it is the manager again.
    mgr.kill();
    wait(&c, "ceph mgr stat", "the endpoint", |out| out.contains("\"active_name\": \"x\""))?;
    ensure!(ok("ceph osd blocklist ls")?.contains("127.0.0.1:"), "it is not fenced");
    clean(&c)?;
    mgr.again()?;
    active(&c)?;
    clean(&c)?;
    ok("ceph mgr fail")?;
    active(&c)?;
    drop(mgr);
    c.stop()
}
