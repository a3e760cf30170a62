//! What a lab that was killed left behind: its processes, mounts and loop devices are gone with it, files and control groups are not. All of
//! them are named after its process, and the next run removes those of processes that are no more.

use std::fs;
use std::path::Path;

const FILES: &str = "humboldt-lab-";
/// Stock clusters in chroots.
const CLUSTERS: &str = "lab-";

/// The process that a name of ours is after: `humboldt-lab-123-disk` is 123's.
pub fn owner(name: &str, prefix: &str) -> Option<u32> {
    let rest = name.strip_prefix(prefix)?;
    rest.split('-').next()?.parse().ok()
}

/// True while a process of that number exists.
pub fn lives(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn sweep_in(dir: &Path, prefix: &str) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name, prefix).is_some_and(|pid| !lives(pid)) {
            let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
            // What can't be removed is for its owner to look after.
            let _ = if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        }
    }
}

/// Removes all of it.
pub fn sweep() {
    sweep_in(Path::new(crate::target::device::RAM), FILES);
    sweep_in(&std::env::temp_dir(), FILES);
    sweep_in(Path::new(crate::target::ceph::chroot::SHARED), CLUSTERS);
    crate::cgroup::sweep();
    crate::trace::sweep();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_belongs_to_the_gone_is_removed() {
        let dir = std::env::temp_dir().join(format!("lab-left-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (ours, theirs) = (format!("humboldt-lab-{}-disk", std::process::id()), "humboldt-lab-4294967-disk");
        for name in [ours.as_str(), theirs, "humboldt-lab-x", "other"] {
            fs::write(dir.join(name), "").unwrap();
        }
        sweep_in(&dir, FILES);
        let left = |name: &str| dir.join(name).exists();
        assert!(left(&ours) && left("humboldt-lab-x") && left("other") && !left(theirs));
        fs::remove_dir_all(&dir).unwrap();
    }
}
