//! The chroots that stock 18.2 and 20.2 run in: where they are, what a plan needs in them, and how that gets there. `cargo xtask clients` keeps
//! its clients in the same ones, by the same recipe.

use super::COMMAND;
use crate::load::runner::chore;
use crate::plan::Plan;
use crate::target::Kind;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that host and chroots see at the same path.
pub const SHARED: &str = "/tmp/humboldt-test";
const CHROOTS: &str = "/var/cache/humboldt-clients";
/// Makes a chroot, or adds packages to one.
const RECIPE: &str = include_str!("../../../stock-chroot.sh");

/// The Debian suite that has a release; none for the one that this machine's own Debian has.
fn suite(release: &str) -> Option<&'static str> {
    match release {
        "18.2" => Some("trixie"),
        "20.2" => Some("sid"),
        _ => None,
    }
}

pub fn root(release: &str) -> Option<PathBuf> {
    Some(Path::new(CHROOTS).join(suite(release)?))
}

/// What a plan needs in chroots, by release; cells that can't run here included.
pub fn packages(plan: &Plan) -> BTreeMap<String, BTreeSet<&'static str>> {
    let mut all: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for setup in plan.cells.iter().map(|c| &c.setup).filter(|s| s.kind == Kind::Ceph) {
        let Some(release) = setup.release.as_ref().filter(|r| suite(r).is_some()) else { continue };
        let of = all.entry(release.clone()).or_default();
        of.extend(["ceph-common", "ceph-mon", "ceph-osd"]);
        if setup.fs.as_deref() == Some("cephfs") {
            of.insert("ceph-mds");
        }
    }
    all
}

/// Installs packages of a release, and makes its chroot if there is none. What is there already stays, and a second time changes nothing.
pub fn install(release: &str, packages: &BTreeSet<&str>) -> Result<()> {
    let suite = suite(release).with_context(|| format!("{release} runs in no chroot"))?;
    let root = Path::new(CHROOTS).join(suite);
    let mut recipe = Command::new("sh");
    recipe.args(["-c", RECIPE, "stock-chroot"]).arg(&root).args([suite, SHARED]).args(packages);
    let status = recipe.status().context("starting sh")?;
    ensure!(status.success(), "installing {release} in {} ended with {status}", root.display());
    // A suite goes on to later releases.
    let version = chore(Command::new("chroot").arg(&root).args(["dpkg-query", "-W", "-f", "${Version}", "ceph-mon"]), COMMAND)?;
    ensure!(is_of(&version, release), "{} has ceph {}, where {release} is wanted", root.display(), version.trim());
    say::println!("stock {} is in {}", version.trim(), root.display());
    Ok(())
}

fn is_of(version: &str, release: &str) -> bool {
    version.strip_prefix(release).is_some_and(|rest| rest.starts_with('.'))
}

/// What a chroot's programs look for is seen within it. After a start of the machine its own mounts lack that; then the lab's have it.
pub fn furnish(root: &Path) -> Result<()> {
    std::fs::create_dir_all(SHARED)?;
    for (from, args) in [("/proc", &["--bind"][..]), ("/dev", &["--rbind"]), (SHARED, &["--bind"])] {
        let within = root.join(from.trim_start_matches('/'));
        std::fs::create_dir_all(&within)?;
        let (a, b) = (std::fs::metadata(from)?, std::fs::metadata(&within)?);
        if (a.dev(), a.ino()) != (b.dev(), b.ino()) && !(from == "/proc" && within.join("self").exists()) {
            chore(Command::new("mount").args(args).arg(from).arg(&within), COMMAND)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Machine;
    use crate::study::{Study, shipped};
    use crate::value::Filter;

    #[test]
    fn a_plan_needs_daemons_in_the_chroots_of_its_releases() {
        let study = Study::parse("releases", shipped::find("releases").unwrap()).unwrap();
        // A cell that lacks something needs it all the more.
        let machine = Machine { memory_bytes: 1 << 40, lacks: Box::new(|_, _, _| Some("needs everything".into())) };
        let needs = packages(&Plan::new(&study, true, &Filter::default(), &machine));
        assert_eq!(needs.keys().map(String::as_str).collect::<Vec<_>>(), ["18.2", "20.2"]);
        assert!(needs.values().all(|p| p.iter().eq(&["ceph-common", "ceph-mon", "ceph-osd"])));
    }

    #[test]
    fn a_version_is_of_its_release_alone() {
        assert!(is_of("20.2.4+ds-2", "20.2") && !is_of("20.20.1", "20.2") && !is_of("21.2.0", "20.2"));
    }
}
