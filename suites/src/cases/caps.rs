//! Who may do what: some five thousand questions that a stock cluster answered, asked of ours. The questions are a script, `caps.py`, in
//! one process; the record is `fixtures/cephx/caps-matrix-reef.txt`.

use super::Case;
use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::run::root;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "caps_matrix", needs: &[Pacific], run: matrix }];

const RECORD: &str = "fixtures/cephx/caps-matrix-reef.txt";
const HEAD: &str = "\
# Who may do what on a stock 18.2.7 cluster (1 mon, 1 mgr, 1 OSD on memstore, cephx; the client is librados 16.2 in Python), recorded with
# cargo xtask record-caps CEPH_CONF fixtures/cephx/caps-matrix-reef.txt
# The cluster loads all classes (osd_class_load_list = *); what x covers by itself is the default.
# Rows: entity | operation | place | errno. Before an entity's rows: its capabilities.
";

/// Where ours answers something else, and why: operation, stock's errno, ours.
const DIFFERENT: &[(&str, &str, &str)] = &[
    // Whoever has no capability for OSDs is told so; a stock OSD does not answer at all, and the client waits.
    ("tell osd.0 version", "110", "13"),
    // Whoever can do nothing at an OSD from its address hears that at once, whatever class or method it names.
    ("hello.nosuch", "95", "1"),
    ("nosuch.nosuch", "95", "1"),
];

/// Asks everything; takes minutes on a stock cluster, whose monitor thinks for a second about each change.
fn ask(conf: &Path, limit: Duration) -> Result<String> {
    let script = root().join("suites/src/cases/caps.py");
    let script = script.to_str().context("the workspace's path is a text")?;
    let out = Pacific.run(conf, "/usr/bin/python3", &[script, conf.to_str().context("the path is a text")?], limit)?;
    ensure!(out.ok(), "the script ended with {}:\n{}", out.code, out.stderr);
    Ok(out.stdout)
}

/// Writes the record.
pub fn record(conf: &str, out: &str) -> Result<()> {
    let rows = ask(Path::new(conf), Duration::from_secs(3600))?;
    std::fs::write(out, format!("{HEAD}{rows}")).with_context(|| format!("writing {out}"))
}

fn matrix() -> Result<()> {
    let c = Cluster::start("caps-matrix", &[])?;
    let ours = ask(&c.conf, Duration::from_secs(300))?;
    let record = std::fs::read_to_string(root().join(RECORD))?;
    let rows = |text: &str| -> Vec<String> { text.lines().filter(|l| !l.starts_with('#')).map(String::from).collect() };
    let (stock, ours) = (rows(&record), rows(&ours));
    ensure!(stock.len() >= 4000 && stock.len() == ours.len(), "{} rows were recorded, {} were asked", stock.len(), ours.len());
    let mut wrong = Vec::new();
    for (stock, ours) in stock.iter().zip(&ours) {
        let fields = |row: &str| row.split(" | ").map(String::from).collect::<Vec<_>>();
        let (s, o) = (fields(stock), fields(ours));
        let known = s[..3] == o[..3] && DIFFERENT.iter().any(|(op, theirs, mine)| s[1] == *op && s[3] == *theirs && o[3] == *mine);
        if s != o && !known {
            wrong.push(format!("stock: {stock}    ours: {ours}"));
        }
    }
    ensure!(wrong.is_empty(), "{} of {} rows differ:\n{}", wrong.len(), stock.len(), wrong[..wrong.len().min(40)].join("\n"));
    c.stop()
}
