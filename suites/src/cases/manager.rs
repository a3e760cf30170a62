//! A stock manager of 16.2 under our monitor: its modules work, and the endpoint in our process stands back while it is there.
//!
//! Its Python modules are Debian's packages; 18.2's manager loads none of them in these chroots.

use super::Case;
use crate::clients::{Release::Pacific, Release::Reef, pacific_manager};
use crate::cluster::{Cluster, binary};
use crate::run::until;
use crate::stock::{Daemons, free_ports};
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "stock_manager_under_our_monitor", needs: &[Pacific], run: manager },
    Case { name: "stock_manager_outlives_our_monitor", needs: &[Pacific, Reef], run: outlives },
];

const PATIENCE: Duration = Duration::from_secs(90);

/// A running `ceph-mgr`.
pub struct Manager {
    conf: PathBuf,
    child: Child,
}

impl Manager {
    pub fn new(c: &Cluster) -> Result<Self> {
        let (data, conf) = (c.dir.join("mgr.y"), c.dir.join("mgr.conf"));
        std::fs::create_dir_all(&data)?;
        let keyring = data.join("keyring");
        c.must(
            Pacific,
            &format!("ceph auth get-or-create mgr.y mon 'allow profile mgr' osd 'allow *' mds 'allow *' -o {}", keyring.display()),
        )?;
        let at = c.dir.display();
        let theirs = std::fs::read_to_string(&c.conf)?;
        let kept: Vec<&str> = theirs.lines().filter(|l| !l.starts_with("admin socket")).collect();
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

/// Sends commands to the monitor that belong to the manager, as programs do that don't look at whose a command is.
const TO_THE_MONITOR: &str = r#"
import json, rados, sys
c = rados.Rados(conffile=sys.argv[1])
c.connect()
for prefix in sys.argv[2:]:
    code, out, err = c.mon_command(json.dumps({"prefix": prefix, "format": "json"}), b"")
    print("%d %s %s" % (code, "".join(out.decode().split()), err))
c.shutdown()
"#;

/// A page by HTTP.
pub fn page(port: u16, path: &str) -> Result<String> {
    let mut s = TcpStream::connect(("127.0.0.1", port))?;
    s.set_read_timeout(Some(Duration::from_secs(20)))?;
    write!(s, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
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

    // The same through the monitor, which says the same of what there is.
    let script = c.dir.join("ask.py");
    std::fs::write(&script, TO_THE_MONITOR)?;
    let told = ok(&format!(
        "/usr/bin/python3 {} {} 'balancer status' 'osd df' 'rbd task list' 'device ls' 'pg dump' 'no such command'",
        script.display(),
        c.conf.display()
    ))?;
    let wanted = ["0 {\"active\":", "0 {\"nodes\":[{\"id\":0,", "0 [", "0 [", "0 {\"pg_ready\":true", "-22 "];
    let lines: Vec<&str> = told.lines().collect();
    ensure!(lines.len() == wanted.len() && lines.iter().zip(wanted).all(|(l, w)| l.starts_with(w)), "through the monitor: {told}");

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
    let told = ok(&format!("/usr/bin/python3 {} {} 'osd df' 'balancer status'", script.display(), c.conf.display()))?;
    let lines: Vec<&str> = told.lines().collect();
    ensure!(lines.len() == 2 && lines[0].starts_with("0 {\"nodes\"") && lines[1].starts_with("-95 "), "from the endpoint: {told}");
    clean(&c)?;
    mgr.again()?;
    active(&c)?;
    clean(&c)?;
    ok("ceph mgr fail")?;
    active(&c)?;
    drop(mgr);
    c.stop()
}

const CRASH: &str = "2026-11-21T12:00:00.000000Z_0192ed8b-7853-40d2-9108-243fba1ce56b";

/// A crash is posted, shown in the health, and archived.
fn crash_is_archived(d: &Daemons) -> Result<()> {
    let crash = d.dir.join("crash.json");
    let stamp = d.must("date -u +%Y-%m-%dT%H:%M:%S.000000Z")?;
    std::fs::write(
        &crash,
        format!(
            "{{\"crash_id\": \"{CRASH}\", \"timestamp\": \"{}\", \"entity_name\": \"osd.0\", \"process_name\": \"humboldt\", \
             \"ceph_version\": \"18.2\", \"utsname_hostname\": \"h\", \"backtrace\": [\"main\"]}}",
            stamp.trim()
        ),
    )?;
    d.must(&format!("ceph crash post -i {}", crash.display()))?;
    ensure!(d.must("ceph crash ls")?.contains(CRASH) && d.must(&format!("ceph crash info {CRASH}"))?.contains("humboldt"), "crash ls");
    d.wait("ceph health detail", "RECENT_CRASH", |out| out.contains("RECENT_CRASH"))?;
    d.must("ceph crash archive-all")?;
    d.wait("ceph health detail", "no crash", |out| !out.contains("RECENT_CRASH"))?;
    d.must("ceph device ls")?;
    d.must("ceph device monitoring off")?;
    Ok(())
}

/// A quota that the manager's figures exceed.
fn quota_is_heeded(d: &Daemons) -> Result<()> {
    d.must("ceph osd pool set-quota p max_objects 3")?;
    d.write("p", "first", 4)?;
    d.wait("ceph health detail", "POOL_FULL", |out| out.contains("POOL_FULL"))?;
    d.must("ceph osd pool set-quota p max_objects 0")?;
    d.wait("ceph health detail", "room", |out| !out.contains("POOL_FULL"))?;
    d.write("p", "second", 2)?;
    Ok(())
}

/// Our monitor dies and comes back while a stock manager serves: it is the active one again, with what it knew. Crashes, quotas and devices are what
/// its modules and our monitor do together.
fn outlives() -> Result<()> {
    pacific_manager()?;
    let mut d = Daemons::new("stock-manager-lives")?;
    let [port] = free_ports::<1>()?;
    let mut monitor = Command::new(binary());
    monitor.arg("mon").arg("--dir").arg(&d.dir).args(["--port", &port.to_string(), "--osds", "1"]);
    d.spawn("mon", monitor)?;
    ensure!(until(PATIENCE, || d.conf.exists() && d.said("mon").contains("serves")), "the monitor does not start: {}", d.said("mon"));
    d.ours(0, &["--store", "mem", "--memory", "1073741824"])?;
    d.wait_up(1)?;
    let (at, conf) = (d.dir.display().to_string(), d.dir.join("mgr.conf"));
    std::fs::create_dir_all(d.dir.join("mgr.y"))?;
    d.must(&format!("ceph auth get-or-create mgr.y mon 'allow profile mgr' osd 'allow *' mds 'allow *' -o {at}/mgr.y/keyring"))?;
    let theirs = std::fs::read_to_string(&d.conf)?;
    let kept: Vec<&str> = theirs.lines().filter(|l| !l.starts_with("admin socket")).collect();
    let own = format!(
        "[mgr]\nmgr data = {at}/mgr.y\nkeyring = {at}/mgr.y/keyring\nrun dir = {at}\nadmin socket = {at}/$name.asok\nlog file = {at}/log/$name.log\n\
         crash dir = {at}\nms cluster mode = secure\n"
    );
    std::fs::write(&conf, format!("{}\n{own}", kept.join("\n")))?;
    d.stock_of(Pacific, "mgr.y", &conf)?;
    let active = |d: &Daemons| {
        d.wait("ceph mgr stat -f json", "the stock manager", |out| {
            let out = out.replace(' ', "");
            out.contains("\"active_name\":\"y\"") && out.contains("\"available\":true")
        })
    };
    let clean = |d: &Daemons| {
        d.wait("ceph pg stat", "its figures", |out| {
            let (pgs, rest) = out.trim().split_once(" pgs: ").unwrap_or_default();
            pgs.parse().is_ok_and(|n: u32| n >= 8) && rest.starts_with(&format!("{pgs} active+clean;"))
        })
    };
    active(&d)?;
    d.must("ceph osd pool create p 8 8")?;
    d.must("ceph osd pool application enable p test")?;
    clean(&d)?;

    crash_is_archived(&d)?;
    quota_is_heeded(&d)?;

    // The monitor dies, twice: what clients do goes on, and so does the manager.
    for tag in ["third", "fourth"] {
        d.kill("mon")?;
        d.start("mon")?;
        d.write("p", tag, 2)?;
        active(&d)?;
        d.must("ceph osd pool set p pg_num 16")?;
        clean(&d)?;
        ensure!(d.must("ceph balancer status")?.contains("\"active\""), "balancer");
    }
    d.wait("ceph osd pool get p pg_num", "what the manager drives", |out| out.trim() == "pg_num: 16")?;
    ensure!(d.must("ceph crash ls")?.contains(CRASH), "the crash is forgotten");
    // Both die.
    d.kill("mgr.y")?;
    d.start("mgr.y")?;
    d.kill("mon")?;
    d.start("mon")?;
    active(&d)?;
    clean(&d)?;
    for (tag, count) in [("first", 4), ("second", 2), ("third", 2), ("fourth", 2)] {
        d.verify("p", tag, count)?;
    }
    d.end("osd.0")
}
