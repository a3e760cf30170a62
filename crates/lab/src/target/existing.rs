//! A cluster that is there already, by its ceph.conf: one pool is made in it and removed again, nothing else is touched. What its servers
//! use is not ours to see: their bytes come from the cluster's own `df`, and there is no CPU of theirs.

use super::{Counted, Place, Target};
use crate::load::runner::chore;
use crate::plan::Setup;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

const COMMAND: Duration = Duration::from_secs(60);
/// The pool's name: ours alone, and the one that all loads use.
const POOL: &str = "bench";
const PGS: &str = "32";

pub struct Existing {
    conf: PathBuf,
    copies: u32,
    made: bool,
}

impl Existing {
    pub fn new(setup: &Setup) -> Result<Self> {
        Ok(Self { conf: setup.path.as_ref().context("checked with the study")?.into(), copies: setup.replicas, made: false })
    }
    fn ceph(&self, args: &[&str]) -> Result<String> {
        chore(self.place().command("ceph").args(["--connect-timeout", "10"]).args(args), COMMAND)
    }
}

impl Target for Existing {
    fn start(&mut self) -> Result<()> {
        if self.made {
            return Ok(());
        }
        ensure!(self.conf.exists(), "{} is not there", self.conf.display());
        let pools = self.ceph(&["osd", "pool", "ls"])?;
        ensure!(!pools.lines().any(|p| p.trim() == POOL), "the cluster has a pool {POOL} already: it is not ours to use or remove");
        self.ceph(&["osd", "pool", "create", POOL, PGS, PGS])?;
        self.made = true;
        let copies = self.copies.to_string();
        self.ceph(&["osd", "pool", "set", POOL, "size", &copies, "--yes-i-really-mean-it"])?;
        // Without it health complains; a cluster that is older than applications has none.
        let _ = self.ceph(&["osd", "pool", "application", "enable", POOL, "rbd"]);
        Ok(())
    }
    fn stop(&mut self) {}
    fn remove(&mut self) {
        if std::mem::take(&mut self.made)
            && let Err(e) = self.ceph(&["osd", "pool", "rm", POOL, POOL, "--yes-i-really-really-mean-it"])
        {
            say::eprintln!("humboldt lab: pool {POOL} of {} is left: {e:#}", self.conf.display());
        }
    }
    fn alive(&mut self) -> bool {
        self.made
    }
    fn place(&self) -> Place {
        Place { conf: Some(self.conf.clone()), ..Place::default() }
    }
    fn servers(&self) -> Vec<u32> {
        Vec::new()
    }
    /// What the cluster says that clients did in the pool, as `rados df` has it.
    fn counted(&mut self) -> Result<Option<Counted>> {
        let df: Value = serde_json::from_str(&chore(self.place().command("rados").args(["df", "-p", POOL, "-f", "json"]), COMMAND)?)?;
        let pool = df.pointer("/pools/0").context("rados df has no pool")?;
        let number = |name: &str| pool.get(name).and_then(Value::as_u64).with_context(|| format!("rados df has no {name}"));
        Ok(Some(Counted {
            ops: number("read_ops")? + number("write_ops")?,
            bytes_in: number("write_bytes")?,
            bytes_out: number("read_bytes")?,
        }))
    }
    /// How late the cluster's own figures may be.
    fn counts_late(&self) -> Duration {
        Duration::from_secs(15)
    }
    fn durable(&self) -> bool {
        false
    }
    fn describe(&self) -> Value {
        json!({ "program": "existing", "conf": self.conf.display().to_string(), "versions": self.ceph(&["versions", "-f", "json"]).unwrap_or_default().trim() })
    }
}
