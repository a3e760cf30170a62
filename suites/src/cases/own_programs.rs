//! `humboldt ceph` and `humboldt rados` beside the programs of 16.2 whose words they take: the same output and the same code.

use super::Case;
use crate::clients::Release::{Pacific, Reef};
use crate::cluster::{Cluster, binary};
use crate::run::{Output, run, until, words};
use crate::stock::{Plane, stock_control_plane, stock_osd};
use anyhow::{Context, Result, bail, ensure};
use regex_lite::Regex;
use serde_json::Value;
use std::io::BufRead;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "ceph_and_rados_of_our_own", needs: &[Pacific], run: beside_stock },
    Case { name: "stock_cluster_by_our_own_ceph", needs: &[Pacific, Reef], run: on_stock },
];

const LIMIT: Duration = Duration::from_secs(60);

/// Our program's answer to the line that stock's would take.
fn ours(conf: &Path, line: &str) -> Result<Output> {
    let words = words(line);
    run(Command::new(binary()).arg(&words[0]).args(["-c", &conf.display().to_string()]).args(&words[1..]), LIMIT)
}

/// Figures that change while one looks, blanked: digits are `#`, and blanks between columns one.
fn steady(text: &str) -> String {
    let blank: String = text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
    let mut out = String::new();
    for line in blank.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut line = words.join(" ");
        while line.contains("##") {
            line = line.replace("##", "#");
        }
        out += &(line + "\n");
    }
    out
}

/// How output is compared.
#[derive(Clone, Copy, PartialEq)]
enum Held {
    /// Byte for byte.
    Whole,
    /// But for figures and widths of columns.
    Form,
    /// What went to standard error need only begin with the same first line.
    Error,
}

use Held::{Error, Form, Whole};

/// Lines that both programs run, in this order, on one cluster.
const LINES: &[(&str, Held)] = &[
    ("ceph osd pool create p 8", Whole),
    ("ceph osd pool application enable p test", Whole),
    ("ceph osd pool ls", Whole),
    ("ceph osd pool ls -f json", Whole),
    ("ceph osd pool ls --format json-pretty", Whole),
    ("ceph osd pool get p size", Whole),
    ("ceph osd pool get p size -f json", Whole),
    ("ceph -s", Form),
    ("ceph status", Form),
    ("ceph health", Whole),
    ("ceph health detail -f json", Form),
    ("ceph df", Form),
    ("ceph osd tree", Form),
    ("ceph osd df", Form),
    ("ceph pg stat", Form),
    ("ceph pg ls-by-pool p", Form),
    ("ceph mon dump", Form),
    ("ceph auth ls", Whole),
    ("ceph auth get client.admin", Whole),
    ("ceph auth get-or-create client.x mon 'allow r' osd 'allow rw pool=p'", Whole),
    ("ceph auth get-key client.x", Whole),
    ("ceph config set osd osd_max_backfills 3", Whole),
    ("ceph config get osd.0 osd_max_backfills", Whole),
    ("ceph config dump", Whole),
    ("ceph osd find 0", Form),
    ("ceph osd find osd.0", Form),
    ("ceph log squid", Whole),
    ("ceph osd pool set p size 1 --yes-i-really-mean-it", Whole),
    ("ceph osd pool set p size 1", Whole),
    ("ceph tell osd.0 version", Whole),
    ("ceph tell osd.0 config get osd_max_backfills", Whole),
    ("ceph tell osd.* version", Whole),
    ("ceph tell mon.a version", Whole),
    ("ceph tell mon.* mon_status", Form),
    ("ceph tell osd.0 injectargs --osd_max_backfills 4", Whole),
    ("ceph tell osd.0 injectargs -- --osd_max_backfills=5", Whole),
    ("ceph pg 1.0 query", Form),
    ("ceph tell 1.0 query", Form),
    ("ceph daemon osd.0 version", Form),
    ("ceph daemon mon.a config get mon_host", Form),
    ("ceph osd pool rm p", Error),
    ("ceph osd pool create", Error),
    ("ceph osd reweight 0 half", Error),
    ("ceph nosuchcommand", Error),
    ("ceph osd nosuchcommand", Error),
    ("ceph osd pool get nosuch size", Whole),
    ("ceph osd find 99", Whole),
    ("ceph tell osd.99 version", Whole),
    ("ceph tell nosuch.1 version", Error),
    ("ceph tell osd.0 nosuchcommand", Error),
    ("rados lspools", Whole),
    ("rados -p p put o /etc/hostname", Whole),
    ("rados -p p stat o", Form),
    ("rados -p p get o -", Whole),
    ("rados -p p ls", Whole),
    ("rados -p p setxattr o a value", Whole),
    ("rados -p p getxattr o a", Whole),
    ("rados -p p listxattr o", Whole),
    ("rados -p p getxattr o nosuch", Whole),
    ("rados -p p setomapval o k value", Whole),
    ("rados -p p listomapkeys o", Whole),
    ("rados -p p -N n put o /etc/hostname", Whole),
    ("rados -p p ls --all", Whole),
    ("rados df", Form),
    ("rados df -p p", Form),
    ("rados -p p get nosuch -", Whole),
    ("rados -p p stat nosuch", Whole),
    ("rados -p p rm nosuch", Whole),
    ("rados -p p listxattr nosuch", Whole),
    ("rados -p p listomapkeys nosuch", Whole),
    ("rados -p p listomapvals o", Whole),
    ("rados -p p cp o o2", Whole),
    ("rados -p p get o2 -", Whole),
    ("rados -p p getxattr o2 a", Whole),
    ("rados -p p listomapvals o2", Whole),
    ("rados -p p rmomapkey o2 k", Whole),
    ("rados -p p listomapvals o2", Whole),
    ("rados -p p listomapvals nosuch", Whole),
    ("rados -p p getomapval o k", Whole),
    ("rados -p p getomapval nosuch k", Whole),
    ("rados -p p setomapheader o2 head", Whole),
    ("rados -p p getomapheader o2", Whole),
    ("rados -p p getomapheader nosuch", Whole),
    ("rados -p p clearomap o2", Whole),
    ("rados -p p listomapkeys o2", Whole),
    ("rados -p p listwatchers o", Whole),
    ("rados -p p listwatchers nosuch", Whole),
    ("rados -p p -N n ls -f json", Whole),
    ("rados --pool=p --namespace=n ls --format=json-pretty", Whole),
    ("rados -p p cp nosuch o3", Whole),
    ("rados -p p lssnap", Whole),
    ("rados -p p rmsnap nosuch", Whole),
    ("rados -p p -s nosuch get o -", Whole),
    // Stock's names the object in place of the snapshot.
    ("rados -p p rollback o nosuch", Error),
    ("rados list-inconsistent-pg p", Whole),
    ("rados list-inconsistent-pg nosuch", Whole),
    ("rados -p p cleanup --prefix x", Whole),
    ("rados -p p lock list o", Whole),
    ("rados -p p lock info o nosuch", Whole),
    ("rados -p p lock list nosuch", Whole),
    ("rados -p p lock break o nosuch client.9", Whole),
    ("rados -p nosuch ls", Whole),
    ("rados ls", Whole),
    ("rados nosuchcommand", Whole),
];

fn first(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Our program's answer without the next step that it names below an error, indented: stock's names none.
fn without_next_step(out: &Output) -> Output {
    let shown: Vec<&str> = out.stderr.lines().collect();
    match shown[..] {
        [ref said @ .., last] if out.code != 0 && !said.is_empty() && last.starts_with("  ") => {
            Output { stderr: said.join("\n") + "\n", ..out.clone() }
        }
        _ => out.clone(),
    }
}

/// A stock program's answer without the log of the library below it, which goes to standard error, too, each line with its date and thread: of
/// a socket that another client has open, or of a connection that ended with the program before it was up.
fn without_log(out: &Output) -> Output {
    let dated = Regex::new(r"^\d{4}-\d\d-\d\dT[0-9:.]+[+-]\d{4} [0-9a-f]+ +-?\d+ ").expect("a constant");
    let stderr = out.stderr.lines().filter(|l| !dated.is_match(l)).map(|l| format!("{l}\n")).collect();
    Output { stderr, ..out.clone() }
}

/// What differs, if anything does.
fn difference(line: &str, held: Held, ours: &Output, theirs: &Output) -> Option<String> {
    let ours = &without_next_step(ours);
    let same = ours.code == theirs.code
        && match held {
            Whole => ours.stdout == theirs.stdout && ours.stderr == theirs.stderr,
            Form => steady(&ours.stdout) == steady(&theirs.stdout) && steady(&ours.stderr) == steady(&theirs.stderr),
            Error => {
                ours.stdout == theirs.stdout
                    && !ours.stderr.is_empty()
                    && (line.starts_with("rados") || first(&ours.stderr).get(..12) == first(&theirs.stderr).get(..12))
            }
        };
    (!same).then(|| {
        format!(
            "{line}\n--- ours\n{}\n{}{}--- stock's\n{}\n{}{}",
            ours.code, ours.stdout, ours.stderr, theirs.code, theirs.stdout, theirs.stderr
        )
    })
}

fn beside_stock() -> Result<()> {
    let c = Cluster::start("own-programs", &[])?;
    let known = || ours(&c.conf, "ceph osd df -f json").is_ok_and(|out| out.stdout.contains("osd.0"));
    ensure!(until(LIMIT, known), "the manager endpoint does not hear from osd.0");
    let mut wrong = Vec::new();
    for (line, held) in LINES {
        // Ours goes first: what a line makes is there for the second, which says the same of it.
        let (mine, theirs) = (ours(&c.conf, line)?, without_log(&c.client(Pacific, line)?));
        // What is made twice is answered otherwise the second time: stock's word for it is ours, asked again.
        let mine = if mine.code == theirs.code && mine.stderr != theirs.stderr { ours(&c.conf, line)? } else { mine };
        let mut different = difference(line, *held, &mine, &theirs);
        // Figures come with reports: between the two programs' questions one may have come.
        for _ in 0..5 {
            if different.is_none() || *held != Form || !mine.ok() {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
            different = difference(line, *held, &ours(&c.conf, line)?, &without_log(&c.client(Pacific, line)?));
        }
        wrong.extend(different);
    }
    if !wrong.is_empty() {
        bail!("{} of {} lines differ:\n{}", wrong.len(), LINES.len(), wrong.join("\n"));
    }
    files(&c)?;
    watch(&c)?;
    for line in ["ceph --help", "ceph osd pool --help", "ceph tell osd.0 help", "rados --help"] {
        let out = ours(&c.conf, line)?;
        ensure!(out.ok() && out.stdout.lines().count() > 10, "{line}: {out:?}");
    }
    ensure!(ours(&c.conf, "ceph osd pool --help")?.stdout.contains("osd pool create <pool>"), "help names the cluster's commands");
    let out = ours(&c.conf, "ceph ping mon.a")?;
    ensure!(serde_json::from_str::<Value>(&out.stdout).is_ok_and(|v| v["name"] == "a"), "ping: {out:?}");
    // Stock's ends with 0 here; a script that copies a file should hear that there is none.
    let out = ours(&c.conf, "rados -p p put o /nosuch/file")?;
    ensure!(out.code == 1 && out.stderr == "error reading input file /nosuch/file: (2) No such file or directory\n", "{out:?}");
    // A bench of half a second in rados' words.
    let out = ours(&c.conf, "rados -p p bench 0.5 write -b 4096 -t 4")?;
    ensure!(out.ok() && out.stdout.contains("IOPS"), "bench: {out:?}");
    // The wrong key is EACCES, as with stock.
    let keyring = c.dir.join("wrong.keyring");
    std::fs::write(&keyring, "[client.admin]\n\tkey = AQBvaBVesCMcFRAAoKhLdwXiVQT5qYnzvOXFrg==\n")?;
    let out = ours(&c.conf, &format!("ceph -s -k {}", keyring.display()))?;
    ensure!(out.code == 13 && out.stdout.is_empty(), "with a wrong key: {out:?}");
    c.stop()
}

/// `-i` and `-o`, and objects that are larger than one request.
fn files(c: &Cluster) -> Result<()> {
    let at = |name: &str| c.dir.join(name).display().to_string();
    let must = |line: String| -> Result<Output> {
        let out = ours(&c.conf, &line)?;
        ensure!(out.ok(), "{line}: {out:?}");
        Ok(out)
    };
    must(format!("ceph osd getcrushmap -o {}", at("crush")))?;
    let theirs = c.must(Pacific, &format!("ceph osd getcrushmap -o {}", at("crush.stock")));
    ensure!(theirs.is_ok() && std::fs::read(at("crush"))? == std::fs::read(at("crush.stock"))?, "the map of placement differs");
    must(format!("ceph osd setcrushmap -i {}", at("crush")))?;
    must(format!("ceph config-key set k -i {}", at("crush")))?;
    must(format!("ceph config-key get k -o {}", at("crush.back")))?;
    ensure!(std::fs::read(at("crush"))? == std::fs::read(at("crush.back"))?, "what came back differs");
    let big: Vec<u8> = (0..9_000_001u32).map(|n| (n * 7 >> 3) as u8).collect();
    std::fs::write(at("big"), &big)?;
    must(format!("rados -p p put big {}", at("big")))?;
    c.must(Pacific, &format!("rados -p p get big {}", at("big.stock")))?;
    must(format!("rados -p p get big {}", at("big.ours")))?;
    ensure!(std::fs::read(at("big.stock"))? == big && std::fs::read(at("big.ours"))? == big, "a large object differs");
    locks_and_streams(c)?;
    snapshots(c)?;
    must("rados -p p rm big o".into())?;
    Ok(())
}

/// Locks that one program takes and the other sees; a pool as a stream; what a bench of the stock program left.
fn locks_and_streams(c: &Cluster) -> Result<()> {
    let at = |name: &str| c.dir.join(name).display().to_string();
    let both = |line: &str| -> Result<(Output, String)> { Ok((ours(&c.conf, line)?, c.must(Pacific, line)?)) };
    let taken = ours(&c.conf, "rados -p p lock get o l --lock-cookie c --lock-tag t --lock-description d --lock-duration 1000")?;
    ensure!(taken.ok(), "lock get: {taken:?}");
    let (ours_sees, stock_sees) = both("rados -p p lock info o l")?;
    ensure!(ours_sees.stdout == stock_sees && stock_sees.contains(r#""cookie":"c""#), "{ours_sees:?} {stock_sees}");
    let held = ours(&c.conf, "rados -p p lock get o l --lock-cookie other")?;
    ensure!(held.code == 1 && held.stderr.contains("failed locking: (16)"), "a lock that is held: {held:?}");
    let info: Value = serde_json::from_str(&stock_sees)?;
    let holder = info["lockers"][0]["name"].as_str().context("a holder")?;
    let broken = ours(&c.conf, &format!("rados -p p lock break o l {holder} --lock-cookie c"))?;
    ensure!(broken.ok() && !c.must(Pacific, "rados -p p lock info o l")?.contains("client."), "lock break: {broken:?}");

    c.must(Pacific, "rados -p p setomapheader o head")?;
    let exported = ours(&c.conf, &format!("rados -p p export {}", at("pool.ours")))?;
    c.must(Pacific, &format!("rados -p p export {}", at("pool.stock")))?;
    ensure!(exported.ok() && std::fs::read(at("pool.ours"))? == std::fs::read(at("pool.stock"))?, "the streams differ: {exported:?}");
    c.must(Pacific, "ceph osd pool create imported 8")?;
    c.must(Pacific, &format!("rados -p imported import {}", at("pool.ours")))?;
    c.must(Pacific, &format!("rados -p imported get big {}", at("big.imported")))?;
    ensure!(std::fs::read(at("big.imported"))? == std::fs::read(at("big"))?, "a large object differs after import");

    c.must(Pacific, "rados -p imported bench 1 write -b 4096 -t 4 --no-cleanup")?;
    let before = c.must(Pacific, "rados -p imported ls")?;
    let cleaned = ours(&c.conf, "rados -p imported cleanup")?;
    let left = c.must(Pacific, "rados -p imported ls")?;
    ensure!(before.contains("benchmark_data") && !left.contains("benchmark"), "cleanup: {cleaned:?}, left {left}");
    Ok(())
}

/// Snapshots of a pool that one program makes and the other reads, rolls back to and removes.
fn snapshots(c: &Cluster) -> Result<()> {
    c.must(Pacific, "ceph osd pool create snapped 8")?;
    std::fs::write(c.dir.join("old"), "old\n")?;
    std::fs::write(c.dir.join("new"), "new\n")?;
    let put = |name: &str| c.must(Pacific, &format!("rados -p snapped put o {}", c.dir.join(name).display()));
    let both = |line: &str| -> Result<()> {
        let (mine, theirs) = (ours(&c.conf, line)?, without_log(&c.client(Pacific, line)?));
        difference(line, Whole, &mine, &theirs).map_or(Ok(()), |text| bail!("{text}"))
    };
    put("old")?;
    let made = ours(&c.conf, "rados -p snapped mksnap one")?;
    ensure!(made.ok() && made.stdout == "created pool snapped snap one\n", "mksnap: {made:?}");
    put("new")?;
    both("rados -p snapped mksnap one")?;
    both("rados -p snapped lssnap")?;
    both("rados -p snapped -s one get o -")?;
    both("rados -p snapped -s one stat o")?;
    both("rados -p snapped get o -")?;
    both("rados -p snapped rollback o one")?;
    ensure!(c.must(Pacific, "rados -p snapped get o -")? == "old\n", "the object is not what it was");
    let removed = ours(&c.conf, "rados -p snapped rmsnap one")?;
    ensure!(removed.ok() && removed.stdout == "removed pool snapped snap one\n", "rmsnap: {removed:?}");
    both("rados -p snapped rmsnap one")?;
    both("rados -p snapped lssnap")
}

/// `-w` shows the state, then a line that is logged.
fn watch(c: &Cluster) -> Result<()> {
    let mut cmd = Command::new(binary());
    cmd.args(["ceph", "-c", &c.conf.display().to_string(), "-w"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = cmd.spawn()?;
    let lines = std::io::BufReader::new(child.stdout.take().context("piped")?).lines();
    let _child = super::rados::Background(child);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
    let mut seen = Vec::new();
    let shown = until(LIMIT, || {
        let _ = ours(&c.conf, "ceph log squid-sighted");
        seen.extend(told.try_iter());
        seen.iter().any(|line: &String| line.ends_with("[INF] squid-sighted"))
    });
    ensure!(shown && seen.iter().any(|line| line.contains("health: ")), "ceph -w shows\n{}", seen.join("\n"));
    Ok(())
}

/// Our programs on a stock cluster of 18.2.
fn on_stock() -> Result<()> {
    let mut d = stock_control_plane("own-programs-on-stock", &Plane { monitors: 1, ..Plane::default() })?;
    stock_osd(&mut d, 0, "memstore")?;
    d.wait_up(1)?;
    d.wait("ceph osd df -f json", "its figures", |out| !out.replace(' ', "").contains("\"total_kb\":0,"))?;
    let mut wrong = Vec::new();
    let lines = [
        ("ceph osd pool ls -f json", Whole),
        ("ceph osd tree", Form),
        ("ceph osd dump -f json", Form),
        ("ceph tell osd.0 version", Whole),
        ("ceph tell mon.a mon_status", Form),
        ("ceph mon dump", Form),
        ("ceph df", Form),
        ("ceph osd df", Form),
        ("ceph config dump", Whole),
        ("ceph nosuchcommand", Error),
    ];
    for (line, held) in lines {
        let words = words(line);
        let theirs = Reef.run(&d.conf, &words[0], &words[1..].iter().map(String::as_str).collect::<Vec<_>>(), LIMIT)?;
        wrong.extend(difference(line, held, &ours(&d.conf, line)?, &without_log(&theirs)));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let out = ours(&d.conf, "ceph -s -f json")?;
    ensure!(serde_json::from_str::<Value>(out.stdout.trim()).is_ok_and(|v| v["osdmap"]["num_osds"] == 1), "{out:?}");
    Ok(())
}
