//! Large reads on a busy machine: two clients with all their reads in flight, beside busy loops, with small and large caps of what clients may have under
//! way. None may stand still.
//!
//! Holds the order of the run; `reads.py` is the two clients.

use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::load::Load;
use crate::pace;
use crate::run::{root, until};
use crate::script::Script;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

const POOL: &str = "reads";
/// Each client's reads of a run, and the bytes of each.
const READS: u32 = 64;
const READ_BYTES: u32 = 1 << 20;
const LOOPS: usize = 6;
/// `osd_client_message_size_cap`, in MiB; runs take turns.
const CAPS_MIB: [u64; 5] = [4, 8, 16, 32, 64];
/// On a machine at rest a run takes a fraction of a second: one that is not over by then stands.
const STANDS: Duration = Duration::from_secs(60);

/// What the OSD says of its throttle and of what is under way.
fn told(c: &Cluster, line: &str) -> Result<Value> {
    Ok(serde_json::from_str(c.must(Pacific, &format!("ceph tell osd.0 {line}"))?.trim())?)
}

fn throttle(c: &Cluster, name: &str) -> Result<u64> {
    told(c, "perf dump")?["throttle-osd_client_bytes"][name].as_u64().context("a throttle")
}

/// So many runs of two clients that read at the same time; fails at the first that stands, with what the OSD says then.
pub fn loaded_reads(runs: u64) -> Result<()> {
    let c = Cluster::start("loaded-reads", &["--store", "mem"])?;
    c.must(Pacific, &format!("ceph osd pool create {POOL} 8"))?;
    let reads = root().join("suites/src/loaded_reads/reads.py");
    let sizes = [READS, READ_BYTES].map(|n| n.to_string());
    let mut script = Script::start(Command::new("/usr/bin/python3").arg(reads).arg(POOL).args(sizes).env("CEPH_CONF", &c.conf))?;
    let (mut took, began) = (Vec::new(), Instant::now());
    for (n, cap) in CAPS_MIB.iter().enumerate() {
        let bytes = cap << 20;
        c.must(Pacific, &format!("ceph config set osd osd_client_message_size_cap {bytes}"))?;
        ensure!(until(Duration::from_secs(30), || throttle(&c, "max").is_ok_and(|max| max == bytes)), "the cap of {cap} MiB is not heeded");
        let first = took.len();
        let due = runs * (n as u64 + 1) / CAPS_MIB.len() as u64;
        let load = Load::loops(LOOPS);
        while (took.len() as u64) < due {
            script.tell("go")?;
            let began = Instant::now();
            let answer = loop {
                match script.answer(Duration::from_secs(5)) {
                    Err(e) if pace::is_over(began, STANDS) => break Err(e),
                    Err(e) if !e.to_string().contains("no answer") => return Err(e),
                    Err(_) => {}
                    Ok(answer) => break Ok(answer),
                }
            };
            let Ok(answer) = answer else {
                let (perf, ops) = (told(&c, "perf dump")?, told(&c, "dump_ops_in_flight")?);
                anyhow::bail!(
                    "run {} at {cap} MiB stands: throttles {} {}, under way {ops}",
                    took.len() + 1,
                    perf["throttle-osd_client_bytes"],
                    perf["throttle-osd_client_messages"]
                );
            };
            ensure!(answer["errors"].as_array().is_some_and(Vec::is_empty), "run {} at {cap} MiB: {answer}", took.len() + 1);
            took.push(answer["ms"].as_u64().context("milliseconds")?);
        }
        drop(load);
        let mut of_cap = took[first..].to_vec();
        of_cap.sort_unstable();
        if let (Some(last), Some(middle)) = (of_cap.last(), of_cap.get(of_cap.len() / 2)) {
            println!("cap {cap} MiB: {} runs, none stands; median {middle} ms, longest {last} ms", of_cap.len());
        }
        ensure!(until(Duration::from_secs(20), || throttle(&c, "val").is_ok_and(|val| val < 4096)), "bytes are held for nobody");
    }
    println!(
        "{} runs of 2 x {READS} x {} KiB beside {LOOPS} busy loops in {} s: none stands",
        took.len(),
        READ_BYTES >> 10,
        began.elapsed().as_secs()
    );
    c.stop()
}
