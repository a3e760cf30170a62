//! Upstream's `ceph_test_osd_stale_read`: a primary that neither hears other OSDs nor the monitor is marked down; a client that still reads from it must
//! not get what another client has changed meanwhile.

use super::Case;
use crate::clients::Release::{Pacific, Reef};
use crate::cluster::Cluster;
use anyhow::{Result, ensure};
use std::time::Duration;

pub const CASES: &[Case] = &[Case { name: "no_stale_read_from_a_fenced_primary", needs: &[Pacific, Reef], run: fenced }];

fn fenced() -> Result<()> {
    Reef.install_tests()?;
    let c = Cluster::start("stale-read", &["--osds", "3", "--processes"])?;
    c.must(Pacific, "ceph config set global osd_pool_default_size 3")?;
    c.must(Pacific, "ceph config set global osd_pool_default_min_size 2")?;
    let out = c.client_within(Reef, "ceph_test_osd_stale_read", Duration::from_secs(240))?;
    ensure!(
        out.ok() && out.stdout.contains("[  PASSED  ] 1 test."),
        "it ended with {}:\n{}{}\n{}",
        out.code,
        out.stdout,
        out.stderr,
        c.log()
    );
    // It does not look whether its fence stands. The map says that the fenced one is down: its socket is asked.
    let is_fenced = |osd: u32| -> Result<bool> {
        let socket = c.dir.join(format!("osd.{osd}.asok"));
        Ok(c.must(Pacific, &format!("ceph --admin-daemon {} config get ms_blackhole_osd", socket.display()))?.contains("true"))
    };
    let fenced = (0..3).map(is_fenced).collect::<Result<Vec<_>>>()?;
    ensure!(fenced.iter().filter(|f| **f).count() == 1, "one OSD is fenced, and one alone: {fenced:?}");
    Ok(())
}
