//! Python's `rados` and `rbd` bindings of 16.2: one script, in a file of its own.

use super::Case;
use crate::clients::Release::Pacific;
use crate::cluster::Cluster;
use crate::run::root;
use anyhow::{Result, ensure};

pub const CASES: &[Case] = &[Case { name: "python_bindings_16.2", needs: &[Pacific], run: bindings }];

fn bindings() -> Result<()> {
    let c = Cluster::start("python", &[])?;
    c.must(Pacific, "ceph osd pool create py 16")?;
    let script = root().join("suites/src/cases/bindings.py");
    let out = c.must(Pacific, &format!("/usr/bin/python3 {} {} py", script.display(), c.conf.display()))?;
    ensure!(out.contains("bindings: all checks passed"), "{out}");
    c.stop()
}
