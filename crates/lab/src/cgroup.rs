//! Control groups that bound what a target's processes may ask of a device: version 1's blkio, or version 2's io.max.
//!
//! A group is named after the process that made it, so that what a killed lab left is known as such and removed by the next (`sweep`).

use crate::study::file::Throttle;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const V1: &str = "/sys/fs/cgroup/blkio";
const V2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const PREFIX: &str = "humboldt-lab-";
const MIB: u64 = 1 << 20;
/// How long the last processes of a group may take to be gone.
const EMPTY: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    V1,
    V2,
}

/// Where groups can be made, and of which version.
fn root() -> Option<(PathBuf, Kind)> {
    let v1 = Path::new(V1);
    if v1.join("blkio.throttle.read_bps_device").exists() {
        return Some((v1.into(), Kind::V1));
    }
    let has_io =
        |root: &&str| fs::read_to_string(Path::new(root).join("cgroup.controllers")).is_ok_and(|c| c.split_whitespace().any(|w| w == "io"));
    V2.iter().find(|root| has_io(root)).map(|root| (PathBuf::from(root), Kind::V2))
}

/// Why no device can be throttled here, if none can.
pub fn lacks() -> Option<String> {
    match root() {
        None => Some("needs a control group that bounds I/O (blkio, or io of version 2)".into()),
        Some(_) if !crate::sys::is_root() => Some("needs root, for a control group".into()),
        Some(_) => None,
    }
}

#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    kind: Kind,
}

impl Group {
    pub fn new(name: &str) -> Result<Self> {
        let (root, kind) = root().context("no control group bounds I/O here")?;
        if kind == Kind::V2 {
            fs::write(root.join("cgroup.subtree_control"), "+io").context("switching io on for control groups")?;
        }
        let path = root.join(format!("{PREFIX}{}-{name}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path, kind })
    }
    /// The file that takes processes.
    pub fn procs(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }
    pub fn limit(&self, node: &Path, throttle: &Throttle) -> Result<()> {
        let rdev = fs::metadata(node).with_context(|| node.display().to_string())?.rdev();
        for (file, text) in lines(&self.kind, (libc::major(rdev), libc::minor(rdev)), throttle) {
            fs::write(self.path.join(&file), &text).with_context(|| format!("{file}: {text}"))?;
        }
        Ok(())
    }
}

/// Files of a group and what to write into them.
fn lines(kind: &Kind, (major, minor): (u32, u32), t: &Throttle) -> Vec<(String, String)> {
    let all = [
        ("read_bps", "rbps", t.read_mib_s.map(|m| m as u64 * MIB)),
        ("write_bps", "wbps", t.write_mib_s.map(|m| m as u64 * MIB)),
        ("read_iops", "riops", t.read_iops.map(|n| n as u64)),
        ("write_iops", "wiops", t.write_iops.map(|n| n as u64)),
    ];
    let given = all.into_iter().filter_map(|(v1, v2, value)| Some((v1, v2, value?)));
    match kind {
        Kind::V1 => given.map(|(v1, _, n)| (format!("blkio.throttle.{v1}_device"), format!("{major}:{minor} {n}"))).collect(),
        Kind::V2 => {
            let words: Vec<String> = given.map(|(_, v2, n)| format!("{v2}={n}")).collect();
            vec![("io.max".into(), format!("{major}:{minor} {}", words.join(" ")))]
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let end = Instant::now() + EMPTY;
        // Busy as long as a process of it has not been waited for.
        while fs::remove_dir(&self.path).is_err() && self.path.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Removes the groups of labs that are gone.
pub fn sweep() {
    let Some((root, _)) = root() else { return };
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if crate::leftovers::owner(&name, PREFIX).is_some_and(|pid| !crate::leftovers::lives(pid)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let throttle = Throttle { read_iops: Some(100), write_mib_s: Some(5), ..Throttle::default() };
        let v1 = lines(&Kind::V1, (7, 3), &throttle);
        assert_eq!(
            v1,
            [
                ("blkio.throttle.write_bps_device".to_string(), "7:3 5242880".to_string()),
                ("blkio.throttle.read_iops_device".into(), "7:3 100".into())
            ]
        );
        assert_eq!(lines(&Kind::V2, (7, 3), &throttle), [("io.max".to_string(), "7:3 wbps=5242880 riops=100".to_string())]);
    }
}
