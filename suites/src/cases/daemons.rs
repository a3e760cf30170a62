//! What is asked of a daemon itself (`ceph daemon`, `ceph tell`), and what the map can hold without an OSD's serving it.

use super::Case;
use crate::clients::Release::{self, Pacific};
use crate::cluster::Cluster;
use crate::run::until;
use anyhow::{Result, ensure};
use std::time::Duration;

pub const CASES: &[Case] = &[
    Case { name: "daemon_commands", needs: &[Pacific], run: commands },
    Case { name: "unserved_pools_fail_at_once", needs: &[Pacific], run: unserved },
];

/// Settings of one daemon, by its socket and by `tell`; an OSD that says it is full.
fn commands() -> Result<()> {
    const R: Release = Pacific;
    let c = Cluster::start("daemons", &[])?;
    let ok = |line: &str| c.must(R, line);
    for daemon in ["mon.a", "osd.0"] {
        ok(&format!("ceph daemon {daemon} config set mon_pg_warn_min_objects 10K"))?;
        ensure!(ok(&format!("ceph tell {daemon} config get mon_pg_warn_min_objects"))?.contains("10000"), "{daemon}: SI units");
        ensure!(
            ok(&format!("ceph daemon {daemon} config set mon_pg_warn_min_objects 10F"))?.contains("(22) Invalid argument"),
            "{daemon}: no unit"
        );
        ok(&format!("ceph tell {daemon} injectargs --no-osd_enable_op_tracker"))?;
        ensure!(ok(&format!("ceph daemon {daemon} config get osd_enable_op_tracker"))?.contains("false"), "{daemon}: a switch");
        ensure!(ok(&format!("ceph daemon {daemon} help"))?.contains("config diff get"), "{daemon}: help");
    }
    let wrong = c.must_fail(R, "ceph tell osd.0 injectargs --osd-scrub-auto-repair-num-errors -1", 22)?;
    ensure!(wrong.stderr.contains("Parse error setting osd_scrub_auto_repair_num_errors to '-1'"), "{}", wrong.stderr);
    ok("ceph daemon osd.0 compact")?;
    ok("ceph osd pool create p 4")?;
    let health = |code: &str| ok("ceph health detail").is_ok_and(|text| text.contains(code));
    for (kind, code) in [("nearfull", "OSD_NEARFULL"), ("backfillfull", "OSD_BACKFILLFULL"), ("full", "OSD_FULL")] {
        ok(&format!("ceph tell osd.0 injectfull {kind}"))?;
        ensure!(until(Duration::from_secs(20), || health(code)), "{code} does not show");
        ok("ceph tell osd.0 injectfull none")?;
        ensure!(until(Duration::from_secs(20), || !health(code)), "{code} stays");
    }
    ok("ceph osd set-group noin,noout osd.0")?;
    ensure!(health("OSD_FLAGS"), "flags of an OSD don't show");
    ok("ceph osd unset-group noin,noout osd.0")?;
    ensure!(ok("ceph pg deep-scrub 1.0")?.is_empty() && ok("ceph report")?.contains("osd_stats"), "report");
    c.stop()
}

/// What no OSD of ours does is refused by name, and leaves nothing behind.
fn unserved() -> Result<()> {
    const R: Release = Pacific;
    let c = Cluster::start("unserved", &[])?;
    let ok = |line: &str| c.must(R, line);
    ok("ceph osd erasure-code-profile set two k=2 m=1 crush-failure-domain=osd")?;
    let create = c.must_fail(R, "ceph osd pool create coded 4 4 erasure two", 95)?;
    ensure!(create.stderr.contains("Error ENOTSUP: pools with erasure codes"), "{}", create.stderr);
    ensure!(!ok("ceph osd pool ls")?.contains("coded"), "the pool was made");
    ok("ceph osd pool create base 4")?;
    ok("ceph osd pool create cache 4")?;
    ok("ceph osd tier add base cache")?;
    c.must_fail(R, "ceph osd tier cache-mode cache writeback", 95)?;
    ok("ceph osd tier remove base cache")?;
    ok("ceph osd erasure-code-profile rm two")?;
    c.stop()
}
