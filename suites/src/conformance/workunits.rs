//! Upstream's shell tests of files and of commands to metadata servers, on a mount by stock ceph-fuse of 18.2, with a stock ceph-mds, on our OSDs.
//!
//! They are given with Ceph's source (`--ceph-source DIR`, 18.2, unpacked) and run as a plain user that may become root, as upstream's machines have
//! one. Which of them: those that a stock 18.2 cluster passes in the same place.

use super::program::Outcome;
use super::runs::Runs;
use super::server::Server;
use super::{Manner, Run};
use crate::clients::{Release, reef_plain_user};
use crate::mds::Mount;
use crate::run::{Output, quietly, run};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub const NAME: &str = "workunits";

const LIMIT: Duration = Duration::from_secs(600);

/// Scripts below `qa/workunits/fs`.
const SCRIPTS: &[&str] = &[
    "misc/acl.sh",
    "misc/chmod.sh",
    "misc/dac_override.sh",
    "misc/direct_io.py",
    "misc/filelock_deadlock.py",
    "misc/filelock_interrupt.py",
    "misc/general_vxattrs.sh",
    "misc/i_complete_vs_rename.sh",
    "misc/layout_vxattrs.sh",
    "misc/mkpool_layout_vxattrs.sh",
    "misc/rstats.sh",
    "misc/trivial_sync.sh",
    "misc/xattrs.sh",
    "quota/quota.sh",
    "snap-hierarchy.sh",
    "snaps/snaptest-1.sh",
    "snaps/snaptest-2.sh",
    "snaps/snaptest-authwb.sh",
    "snaps/snaptest-capwb.sh",
    "snaps/snaptest-dir-rename.sh",
    "snaps/snaptest-double-null.sh",
    "snaps/snaptest-estale.sh",
    "snaps/snaptest-hardlink.sh",
    "snaps/snaptest-intodir.sh",
    "snaps/snaptest-multiple-capsnaps.sh",
    "snaps/snaptest-name-limits.sh",
    "snaps/snaptest-parents.sh",
    "snaps/snaptest-realm-split.sh",
    "snaps/snaptest-snap-rename.sh",
    "snaps/snaptest-upchildrealms.sh",
    "snaps/snaptest-xattrwb.sh",
];
/// Tests of `qa/workunits/cephtool/test.sh`.
const CEPHTOOL: &[&str] = &["mds_tell", "mon_mds_metadata", "mds_tell_help_command"];

/// A line of a shell as the plain user.
fn shell(server: &Server, line: &str) -> Result<Output> {
    let mut cmd = Release::Reef.command(server.conf(), "sudo");
    run(cmd.args(["-u", "ubuntu", "--preserve-env=CEPH_CONF", "sh", "-c", line]), LIMIT)
}

fn note(runs: &mut Runs, case: &str, started: Instant, out: &Output) {
    let last = || format!("{}{}", out.stdout, out.stderr).lines().next_back().unwrap_or_default().to_string();
    let against = (!out.ok()).then(|| format!("it ended with {}: {}", out.code, last()));
    runs.add(case.into(), started.elapsed(), against, out);
}

fn files(server: &Server, qa: &Path, mount: &Mount) -> Result<Outcome> {
    let mut runs = Runs::new("qa/workunits/fs");
    for script in SCRIPTS {
        let interpreter = if script.ends_with(".py") { "python3" } else { "bash" };
        let at = mount.inside.join(script.replace('/', "_"));
        let at = at.display();
        let started = Instant::now();
        let out = shell(server, &format!("mkdir {at} && cd {at} && {interpreter} {}/workunits/fs/{script}", qa.display()))?;
        note(&mut runs, script, started, &out);
    }
    Ok(runs.end())
}

fn cephtool(server: &Server, qa: &Path) -> Result<Outcome> {
    let mut runs = Runs::new("qa/workunits/cephtool/test.sh");
    for test in CEPHTOOL {
        let started = Instant::now();
        let line = format!("cd /tmp && bash {}/workunits/cephtool/test.sh --asok-does-not-need-root -t {test}", qa.display());
        note(&mut runs, test, started, &shell(server, &line)?);
    }
    Ok(runs.end())
}

/// All of them against one cluster.
pub fn workunits(manner: Manner, source: &Path) -> Result<Run> {
    ensure!(source.join("qa/workunits/fs").is_dir(), "{} is no unpacked source of Ceph: it has no qa/workunits/fs", source.display());
    reef_plain_user()?;
    let started = Instant::now();
    let mut server = Server::start(&format!("conformance-{NAME}-{}", std::process::id()), manner, Some(Release::Reef))?;
    // Where the chroot sees it.
    let qa = server.dir().join("qa");
    quietly(Command::new("cp").arg("-r").arg(source.join("qa")).arg(&qa))?;
    let mount = Mount::new(server.conf())?;
    let mut outcomes = vec![files(&server, &qa, &mount)?];
    drop(mount);
    outcomes.push(cephtool(&server, &qa)?);
    server.stands(NAME)?;
    server.stop()?;
    Ok(Run { section: manner.section(NAME, Release::Reef), outcomes, took: started.elapsed() })
}
