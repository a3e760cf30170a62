//! The page and the metrics: a real browser looks at the one, a real Prometheus reads the other, and a stock manager of 16.2 says which names it has.

use super::Case;
use super::manager::{Manager, page};
use crate::browser::Browser;
use crate::clients::{Release::Pacific, apt, pacific_manager};
use crate::cluster::{Cluster, binary};
use crate::pace::as_at_rest;
use crate::run::{Output, run, until};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const CASES: &[Case] = &[
    Case { name: "page_in_a_browser", needs: &[], run: in_a_browser },
    Case { name: "metrics_for_prometheus", needs: &[], run: for_prometheus },
    Case { name: "metrics_as_a_stock_managers", needs: &[Pacific], run: as_stock },
];

const PATIENCE: Duration = Duration::from_secs(60);

/// The port of the web address, as `up` says it.
fn port(c: &Cluster) -> Result<u16> {
    let said = || c.log().lines().find_map(|l| l.strip_prefix("page: http://127.0.0.1:")?.split('/').next()?.parse().ok());
    ensure!(until(PATIENCE, || said().is_some()), "up does not say where the page is:\n{}", c.log());
    said().context("it was said")
}

/// What an address answers: the status, and the text behind the head.
fn get(port: u16, path: &str) -> Result<(u16, String)> {
    let text = page(port, path)?;
    let status = text.split(' ').nth(1).and_then(|s| s.parse().ok()).with_context(|| format!("{path}: {text}"))?;
    Ok((status, text.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.into())))
}

fn ours(c: &Cluster, words: &[&str]) -> Result<Output> {
    let out = run(Command::new(binary()).arg(words[0]).args(["-c", &c.conf.display().to_string()]).args(&words[1..]), PATIENCE)?;
    ensure!(out.ok(), "{words:?}: {out:?}");
    Ok(out)
}

/// A load that runs until it is dropped.
struct Load(Child);
impl Load {
    fn start(c: &Cluster, pool: &str) -> Result<Self> {
        let mut cmd = Command::new(binary());
        cmd.args(["bench", "write", "-c", &c.conf.display().to_string(), "-p", pool, "-s", "600", "-t", "2", "--objects", "64"]);
        Ok(Self(cmd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }
}
impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two pools on two OSDs, one of them with both copies.
fn pools(c: &Cluster) -> Result<()> {
    for pool in ["rbd", "images"] {
        ours(c, &["ceph", "osd", "pool", "create", pool, "32"])?;
        ours(c, &["ceph", "osd", "pool", "application", "enable", pool, "rbd"])?;
        ours(c, &["ceph", "osd", "pool", "set", pool, "size", "2"])?;
        ours(c, &["ceph", "osd", "pool", "set", pool, "min_size", "1"])?;
    }
    Ok(())
}

/// The page loads, shows a load while it runs, and an OSD that is killed within two seconds; nothing is complained of. With `HUMBOLDT_PICTURES` set
/// it leaves pictures in that folder.
fn in_a_browser() -> Result<()> {
    let mut c = Cluster::start("page", &["--osds", "3", "--processes", "--http", "127.0.0.1:0", "--size", "1G"])?;
    let port = port(&c)?;
    pools(&c)?;
    let pictures = std::env::var_os("HUMBOLDT_PICTURES").map(std::path::PathBuf::from);
    let mut browser = Browser::start(&c.dir.join("browser"))?;
    browser.open(&format!("http://127.0.0.1:{port}/"))?;
    browser.look(1280, 900, false)?;
    browser.wait("document.getElementById('link').textContent === 'live'", PATIENCE)?;
    browser.wait("document.querySelectorAll('#hosts li').length === 3", PATIENCE)?;
    browser.wait("document.getElementById('pg-big').textContent === '64 of 64 clean'", PATIENCE)?;
    browser.wait("document.querySelectorAll('#grid .cells i').length === 64", PATIENCE)?;
    // A bar that is full would say that something is being recovered.
    browser.wait("document.getElementById('rec-big').textContent === 'Idle'", PATIENCE)?;
    browser.wait("document.getElementById('rec-meter').offsetHeight === 0", PATIENCE)?;

    // A load shows, and the figures move.
    let load = Load::start(&c, "rbd")?;
    browser.wait("parseFloat(document.getElementById('ops-w').textContent) > 0", PATIENCE)?;
    let seen = browser.value("Number(document.body.dataset.states)")?.as_u64().context("a count")?;
    browser.wait(&format!("Number(document.body.dataset.states) > {seen}"), PATIENCE)?;
    browser.wait("document.querySelectorAll('#plot-ops path.write').length === 1", PATIENCE)?;
    if let Some(at) = &pictures {
        std::thread::sleep(Duration::from_secs(45));
        picture(&mut browser, at, "well")?;
    }

    // A killed OSD shows within two seconds. It would be back before that, as it has served for long.
    ours(&c, &["ceph", "osd", "set", "noup"])?;
    let victim = killed(&c, 2)?;
    let at = Instant::now();
    browser.wait("document.querySelector('[data-osd=\"2\"]').className.includes('down')", PATIENCE)?;
    let took = at.elapsed();
    ensure!(took < as_at_rest(Duration::from_secs(2)), "osd.2 (process {victim}) was killed, and the page showed it after {took:?}");
    browser.wait("document.getElementById('health-title').textContent === 'Needs attention'", PATIENCE)?;
    browser.wait("document.getElementById('checks').innerText.includes('osds down')", PATIENCE)?;
    if let Some(at) = &pictures {
        picture(&mut browser, at, "down")?;
    }
    drop(load);
    // It is started again, and heals.
    ours(&c, &["ceph", "osd", "unset", "noup"])?;
    browser.wait("document.querySelector('[data-osd=\"2\"]').className.trim() === ''", PATIENCE)?;

    // Usable by keyboard and on a phone, with names for what has no words.
    browser.look(390, 800, true)?;
    let wide = browser.value("document.documentElement.scrollWidth")?.as_u64().unwrap_or(9999);
    ensure!(wide <= 390, "the page is {wide} wide on a phone");
    let unnamed = browser.value("[...document.querySelectorAll('[role=img],[role=meter],[role=progressbar],svg')].filter(n => !n.getAttribute('aria-label') && !n.querySelector('title')).length")?;
    ensure!(unnamed == 0, "{unnamed} figures have no name");
    ensure!(browser.complaints.is_empty(), "the page complains: {}", browser.complaints.join("\n"));

    // Small, with nothing from elsewhere, and for looking only.
    let parts = ["/", "/page.css", "/page.js"].map(|path| get(port, path).map(|(_, body)| body.len()));
    let size: usize = parts.into_iter().collect::<Result<Vec<_>>>()?.iter().sum();
    ensure!(size < 200_000, "the page has {size} bytes");
    ensure!(get(port, "/nosuch")?.0 == 404, "an unknown path");
    drop(browser);
    // Nobody looks: reports are as rare as before.
    ensure!(!c.ended(), "up ended");
    c.stop()?;
    behind_a_token()
}

/// The process of an OSD, killed with -9.
fn killed(c: &Cluster, osd: usize) -> Result<u32> {
    let pid = c.pid_of_osd(osd).with_context(|| format!("osd.{osd} is no process of its own"))?;
    ensure!(Command::new("kill").args(["-9", &pid.to_string()]).status()?.success(), "kill");
    Ok(pid)
}

fn picture(browser: &mut Browser, at: &Path, name: &str) -> Result<()> {
    std::fs::create_dir_all(at)?;
    for (width, dark, what) in [(1280, false, "light"), (1280, true, "dark"), (390, false, "phone"), (390, true, "phone-dark")] {
        browser.look(width, 900, dark)?;
        browser.value("new Promise(r => setTimeout(() => r(true), 400))")?;
        let height = browser.value("document.documentElement.scrollHeight")?.as_u64().unwrap_or(900) as u32;
        browser.look(width, height, dark)?;
        browser.value("new Promise(r => setTimeout(() => r(true), 400))")?;
        browser.picture(&at.join(format!("{name}-{what}.png")))?;
    }
    browser.look(1280, 900, false)
}

/// An address that others reach is refused without a token, and shows nothing to those that have none.
fn behind_a_token() -> Result<()> {
    let c = Cluster::start("page-token", &["--http", "0.0.0.0:0", "--http-token", "correct-horse-battery"])?;
    let line = c.log().lines().find_map(|l| l.strip_prefix("page: http://0.0.0.0:").map(String::from)).context("the page's line")?;
    let port: u16 = line.split('/').next().unwrap_or_default().parse()?;
    for path in ["/", "/state", "/metrics", "/events"] {
        ensure!(get(port, path)?.0 == 401, "{path} without a token");
    }
    ensure!(get(port, "/metrics?token=correct-horse-battery")?.0 == 200, "metrics with the token");
    ensure!(get(port, "/?token=correct-horse-battery")?.0 == 303, "the page with the token");
    let other = c.dir.join("refused").display().to_string();
    let refused = run(Command::new(binary()).args(["up", "--dir", &other, "--port", "0", "--http", "0.0.0.0:0"]), PATIENCE)?;
    ensure!(!refused.ok() && refused.stderr.contains("--http-token"), "an open address without a token: {refused:?}");
    c.stop()
}

/// Names, types and labels of a page of metrics.
fn names(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut out: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            out.entry(name.into()).or_default().0 = kind.into();
        } else if !line.starts_with('#') && !line.is_empty() {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            let labels = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(labels, _)| labels);
            let keys = labels.split("\",").filter_map(|pair| pair.split_once("=\"")).map(|(key, _)| key.to_string());
            out.entry(name.into()).or_default().1.extend(keys);
        }
    }
    out
}

/// Names on a stock manager's page that ours has not, and why. A name that ends in `*` stands for all that begin so.
const LACKING: &[(&str, &str)] = &[
    ("ceph_prometheus_collect_duration_seconds*", "how long the module's own Python functions take"),
    ("ceph_mon_session*", "counters that ceph-mon keeps of itself"),
    ("ceph_mon_num_*", "counters that ceph-mon keeps of itself"),
    ("ceph_mon_election*", "counters that ceph-mon keeps of itself"),
    ("ceph_paxos_*", "there is no Paxos in a monitor of one"),
    ("ceph_rocksdb_*", "there is no RocksDB"),
    ("ceph_bluefs_*", "there is no BlueFS"),
    ("ceph_bluestore_*", "counters of BlueStore's inside"),
    ("ceph_mgr_cache_*", "the cache of the manager's Python modules"),
];

/// Names whose labels differ, and why.
const OTHER_LABELS: &[(&str, &str)] =
    &[("ceph_pool_objects_repaired", "its label is `poolid` in 16.2 and `pool_id` in 18.2, which we are")];

/// Every name on a stock manager's page for the same cluster is on ours, with its type and its labels, or stands in the list.
fn as_stock() -> Result<()> {
    pacific_manager()?;
    let c = Cluster::start("metrics-stock", &["--osds", "2", "--http", "127.0.0.1:0"])?;
    let (mine, theirs) = (port(&c)?, TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
    pools(&c)?;
    c.must(Pacific, "rados -p rbd bench 1 write -b 4096 --no-cleanup")?;
    let complete = |text: &str| text.contains("ceph_osd_op_w{ceph_daemon=\"osd.1\"}");
    let ours = {
        let mut text = String::new();
        ensure!(
            until(PATIENCE, || get(mine, "/metrics").is_ok_and(|(_, t)| {
                text = t;
                complete(&text)
            })),
            "no counters of osd.1:\n{text}"
        );
        text
    };
    for (key, value) in [("mgr/prometheus/server_port", theirs.to_string()), ("mgr/prometheus/server_addr", "127.0.0.1".into())] {
        c.must(Pacific, &format!("ceph config set mgr {key} {value}"))?;
    }
    let manager = Manager::new(&c)?;
    ensure!(
        until(PATIENCE, || c.must(Pacific, "ceph mgr stat").is_ok_and(|out| out.contains("\"active_name\": \"y\""))),
        "no stock manager"
    );
    ensure!(until(PATIENCE, || c.must(Pacific, "ceph mgr module enable prometheus").is_ok()), "the module can't be enabled");
    let mut stock = String::new();
    let shown = until(2 * PATIENCE, || {
        page(theirs, "/metrics").is_ok_and(|text| {
            stock = text;
            complete(&stock) && stock.contains("ceph_pool_metadata{")
        })
    });
    ensure!(shown, "the stock manager shows no counters:\n{stock}");
    let stock = stock.split_once("\r\n\r\n").map_or(stock.as_str(), |(_, body)| body);
    let (ours, stock) = (names(&ours), names(stock));
    let excused = |name: &str| LACKING.iter().any(|(n, _)| n.strip_suffix('*').map_or(*n == name, |start| name.starts_with(start)));
    let mut wrong = Vec::new();
    for (name, (kind, labels)) in &stock {
        match ours.get(name) {
            None if excused(name) => {}
            None => wrong.push(format!("{name} ({kind}) is missing")),
            Some((k, _)) if k != kind => wrong.push(format!("{name} is a {k}; stock's is a {kind}")),
            Some(_) if OTHER_LABELS.iter().any(|(n, _)| n == name) => {}
            // A name without values on one side has no labels to compare.
            Some((_, l)) if l != labels && !l.is_empty() && !labels.is_empty() => {
                wrong.push(format!("{name} has the labels {l:?}; stock's are {labels:?}"))
            }
            Some(_) => {}
        }
    }
    ensure!(wrong.is_empty(), "{} of {} names:\n{}", wrong.len(), stock.len(), wrong.join("\n"));
    drop(manager);
    c.stop()
}

/// Debian's prometheus, with promtool.
fn prometheus_installed() -> Result<()> {
    if Path::new("/usr/bin/promtool").exists() {
        return Ok(());
    }
    println!("installing prometheus");
    apt(&["install", "-y", "-q", "--no-install-recommends", "prometheus"])
}

/// What `ceph-mixin` alerts on for an OSD that is down and for a full pool (facts of upstream's `prometheus_alerts.yml`), without its pause.
const RULES: &str = r#"groups:
  - name: ceph
    rules:
      - alert: CephOSDDown
        expr: ceph_health_detail{name="OSD_DOWN"} == 1
      - alert: CephPoolFull
        expr: ceph_health_detail{name="POOL_FULL"} > 0
"#;

/// A Prometheus that reads a page each second.
struct Prometheus {
    child: Child,
    port: u16,
}
impl Prometheus {
    fn start(dir: &Path, target: u16, rules: &[&Path]) -> Result<Self> {
        let files: Vec<String> = rules.iter().map(|r| format!("  - {}\n", r.display())).collect();
        std::fs::write(
            dir.join("prometheus.yml"),
            format!(
                "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files:\n{}scrape_configs:\n  - job_name: ceph\n    honor_labels: true\n    static_configs:\n      - targets: ['127.0.0.1:{target}']\n",
                files.concat()
            ),
        )?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut cmd = Command::new("/usr/bin/prometheus");
        cmd.arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let log = std::fs::File::create(dir.join("prometheus.log"))?;
        Ok(Self { child: cmd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?, port })
    }
    fn ask(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_str(&get(self.port, path)?.1)?)
    }
    fn fires(&self, alert: &str) -> bool {
        let firing = |a: &Value| a["labels"]["alertname"] == alert && a["state"] == "firing";
        self.ask("/api/v1/alerts").is_ok_and(|v| v["data"]["alerts"].as_array().is_some_and(|all| all.iter().any(firing)))
    }
}
impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A real Prometheus reads the page, and rules fire for an OSD that is down and for a full pool. `HUMBOLDT_CEPH_ALERTS` names upstream's
/// `prometheus_alerts.yml`, which is then loaded, too.
fn for_prometheus() -> Result<()> {
    prometheus_installed()?;
    let c = Cluster::start("prometheus", &["--osds", "2", "--processes", "--http", "127.0.0.1:0", "--size", "1G"])?;
    let port = port(&c)?;
    pools(&c)?;
    ensure!(
        until(PATIENCE, || get(port, "/metrics")
            .is_ok_and(|(_, t)| t.contains("ceph_osd_op_write_latency_seconds_bucket{ceph_daemon=\"osd.1\""))),
        "no histogram"
    );
    let (_, text) = get(port, "/metrics")?;
    promtool(&c, &text)?;
    let rules = c.dir.join("rules.yml");
    std::fs::write(&rules, RULES)?;
    let upstream = std::env::var_os("HUMBOLDT_CEPH_ALERTS").map(std::path::PathBuf::from);
    let mut files = vec![rules.as_path()];
    files.extend(upstream.as_deref());
    for file in &files {
        let out = run(Command::new("promtool").args(["check", "rules"]).arg(file), PATIENCE)?;
        ensure!(out.ok(), "promtool check rules {}: {out:?}", file.display());
    }
    let prometheus = Prometheus::start(&c.dir, port, &files)?;
    let up = || prometheus.ask("/api/v1/query?query=up").is_ok_and(|v| v["data"]["result"][0]["value"][1] == "1");
    ensure!(until(PATIENCE, up), "Prometheus does not read the page: {:?}", prometheus.ask("/api/v1/targets"));
    ensure!(!prometheus.fires("CephOSDDown") && !prometheus.fires("CephPoolFull"), "alerts without a reason");
    ours(&c, &["ceph", "osd", "pool", "set-quota", "images", "max_objects", "1"])?;
    for object in ["a", "b", "c"] {
        ours(&c, &["rados", "-p", "images", "put", object, "/etc/hostname"])?;
    }
    ensure!(until(PATIENCE, || prometheus.fires("CephPoolFull")), "CephPoolFull does not fire: {:?}", prometheus.ask("/api/v1/alerts"));
    ours(&c, &["ceph", "osd", "set", "noup"])?;
    killed(&c, 1)?;
    ensure!(until(PATIENCE, || prometheus.fires("CephOSDDown")), "CephOSDDown does not fire: {:?}", prometheus.ask("/api/v1/alerts"));
    if upstream.is_some() {
        let known = |v: &Value| {
            v["data"]["groups"].as_array().map_or(0, |groups| groups.iter().flat_map(|g| g["rules"].as_array()).flatten().count())
        };
        let healthy = |v: &Value| !v.to_string().contains("\"health\":\"err\"");
        ensure!(
            until(PATIENCE, || prometheus.ask("/api/v1/rules").is_ok_and(|v| known(&v) > 20 && healthy(&v))),
            "{:?}",
            prometheus.ask("/api/v1/rules")
        );
    }
    drop(prometheus);
    c.stop()
}

/// `promtool check metrics` can read the page, and what it would name otherwise is only what stock's names bring.
fn promtool(c: &Cluster, text: &str) -> Result<()> {
    let file = c.dir.join("metrics.txt");
    std::fs::write(&file, text)?;
    let out = run(Command::new("sh").args(["-c", "promtool check metrics < \"$0\""]).arg(&file), PATIENCE)?;
    // 0: nothing to say; 3: advice on names. Anything else can't be read.
    if ![0, 3].contains(&out.code) {
        bail!("promtool check metrics: {out:?}");
    }
    // Advice on the form of names, which are stock's to choose.
    let known = [
        "counter metrics should have \"_total\" suffix",
        "non-counter metrics should not have \"_total\" suffix",
        "non-histogram and non-summary metrics should not have \"_count\" suffix",
        "non-histogram and non-summary metrics should not have \"_sum\" suffix",
        "use base unit",
        "metric names should not contain abbreviated units",
        "metric name should not include type",
    ];
    let said = format!("{}{}", out.stdout, out.stderr);
    let own: Vec<&str> = said.lines().filter(|l| !known.iter().any(|k| l.contains(k)) || l.contains("latency_seconds ")).collect();
    ensure!(own.is_empty(), "promtool: {}", own.join("\n"));
    Ok(())
}
