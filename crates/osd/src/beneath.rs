//! The device beneath a path: that which a file, a folder or a logical device lies on. OSDs on one device fall together.
//!
//! A file system without a device of its own (one in memory, one of a container) counts as a device. Source of the facts:
//! proc_pid_mountinfo(5), sysfs(5).

use crate::devices::Machine;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beneath {
    /// Physical devices by their names in `/dev`; or the one file system, by its number.
    pub parts: BTreeSet<String>,
    /// By model and serial number where the device has these, so that it lasts over restarts; letters, digits, `-`, `_` and `.`.
    pub name: String,
    pub is_rotational: bool,
    /// The NUMA node that the device is attached to, where there are several.
    pub numa_node: Option<u32>,
}

impl Beneath {
    /// True if one broken device takes both.
    pub fn shares(&self, other: &Self) -> bool {
        !self.parts.is_disjoint(&other.parts)
    }
}

/// The device beneath a path of this machine; beneath the folder that is to hold it, if it is not there yet.
pub fn beneath(path: &Path) -> std::io::Result<Beneath> {
    Machine::this().beneath(path)
}

/// Major and minor number of a device.
fn split(number: u64) -> (u64, u64) {
    (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff_ff00)
}

/// A mounted file system.
struct Mount {
    kind: String,
    source: String,
}

impl Machine {
    pub(crate) fn beneath(&self, path: &Path) -> std::io::Result<Beneath> {
        let there = path.ancestors().find(|at| at.exists()).unwrap_or(Path::new("."));
        let real = if there.as_os_str().is_empty() { Path::new(".") } else { there }.canonicalize()?;
        let meta = fs::metadata(&real)?;
        let is_device = meta.file_type().is_block_device();
        let (major, minor) = split(if is_device { meta.rdev() } else { meta.dev() });
        let mount = self.mount_of(&real);
        // A subvolume of btrfs has a number that is no device's: its mount names the device.
        let of_mount = || mount.as_ref().and_then(|mount| self.known(Path::new(&mount.source).canonicalize().ok()?.file_name()?.to_str()?));
        let name = self.numbered(major, minor).or_else(|| if is_device { None } else { of_mount() });
        let Some(name) = name else {
            let kind = mount.map_or_else(|| "fs".into(), |mount| mount.kind);
            let parts = [format!("fs {major}:{minor}")].into();
            return Ok(Beneath { parts, name: plain(&format!("{kind}-{major}.{minor}")), is_rotational: false, numa_node: None });
        };
        let parts = self.physical_below(&name);
        let own = |dev: &String| self.id(dev).unwrap_or_else(|| dev.clone());
        let named = match parts.len() {
            1 => parts.first().map(own),
            _ => self.about(&name, "dm/name"),
        };
        Ok(Beneath {
            name: plain(&named.unwrap_or_else(|| name.clone())),
            is_rotational: parts.iter().any(|dev| self.about(dev, "queue/rotational").as_deref() == Some("1")),
            numa_node: parts.first().and_then(|dev| self.numa_node(dev)),
            parts,
        })
    }
    fn numbered(&self, major: u64, minor: u64) -> Option<String> {
        let entry = self.0.join(format!("sys/dev/block/{major}:{minor}"));
        Some(fs::canonicalize(entry).ok()?.file_name()?.to_string_lossy().into_owned())
    }
    fn known(&self, dev: &str) -> Option<String> {
        self.0.join("sys/class/block").join(dev).exists().then(|| dev.to_string())
    }
    /// The file system that a path lies in: of the mounts above it the nearest, of those at one place the last.
    fn mount_of(&self, real: &Path) -> Option<Mount> {
        let text = fs::read_to_string(self.0.join("proc/self/mountinfo")).ok()?;
        let mounts = text.lines().filter_map(|line| {
            let (front, back) = line.split_once(" - ")?;
            let at = PathBuf::from(front.split(' ').nth(4)?.replace("\\040", " "));
            let mut back = back.split(' ');
            let mount = Mount { kind: back.next()?.into(), source: back.next()?.into() };
            real.starts_with(&at).then(|| (at.components().count(), mount))
        });
        mounts.max_by_key(|(depth, _)| *depth).map(|(_, mount)| mount)
    }
    /// Found at the nearest of what the device hangs on that says so.
    fn numa_node(&self, dev: &str) -> Option<u32> {
        let at = fs::canonicalize(self.0.join("sys/class/block").join(dev)).ok()?;
        let said = at.ancestors().find_map(|up| fs::read_to_string(up.join("numa_node")).ok())?;
        said.trim().parse().ok()
    }
}

/// As a name in the CRUSH map.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_device_share_it_and_a_file_system_in_memory_is_its_own() {
        let root = std::env::temp_dir().join(format!("humboldt-beneath-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("data/deep")).unwrap();
        let real = root.canonicalize().unwrap();
        let (major, minor) = split(fs::metadata(&real).unwrap().dev());
        let machine = Machine(real.clone());
        let write = |path: &str, text: &str| {
            fs::create_dir_all(real.join(path).parent().unwrap()).unwrap();
            fs::write(real.join(path), text).unwrap();
        };
        // No device has the number, and no mount is known.
        let alone = machine.beneath(&real.join("data")).unwrap();
        assert_eq!((alone.parts.first().unwrap().as_str(), alone.numa_node), (&*format!("fs {major}:{minor}"), None));
        assert!(alone.shares(&machine.beneath(&real.join("data/not/there/yet")).unwrap()));
        // The mount says of which kind it is.
        write(
            "proc/self/mountinfo",
            &format!("1 0 0:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:2 / {}/data rw shared:1 - tmpfs none rw\n", real.display()),
        );
        assert_eq!(machine.beneath(&real.join("data/deep")).unwrap().name, format!("tmpfs-{major}.{minor}"));
        // The number is a partition's: the disk counts, by its serial number.
        write("sys/devices/pci/numa_node", "1\n");
        write("sys/devices/pci/nvme0n1/nvme0n1p2/partition", "2\n");
        write("sys/devices/pci/nvme0n1/queue/rotational", "0\n");
        write("run/udev/data/b259:0", "E:ID_MODEL=Pro Disk\nE:ID_SERIAL_SHORT=S/2\n");
        write("sys/devices/pci/nvme0n1/dev", "259:0\n");
        for (link, to) in [
            (format!("sys/dev/block/{major}:{minor}"), "sys/devices/pci/nvme0n1/nvme0n1p2"),
            ("sys/class/block/nvme0n1p2".into(), "sys/devices/pci/nvme0n1/nvme0n1p2"),
            ("sys/class/block/nvme0n1".into(), "sys/devices/pci/nvme0n1"),
        ] {
            fs::create_dir_all(real.join(&link).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(real.join(to), real.join(link)).unwrap();
        }
        let disk = machine.beneath(&real.join("data")).unwrap();
        assert_eq!((disk.name.as_str(), disk.numa_node, disk.is_rotational), ("Pro_Disk_S-2", Some(1), false));
        assert_eq!(disk.parts, ["nvme0n1".to_string()].into());
        assert!(!disk.shares(&alone));
        fs::remove_dir_all(&root).unwrap();
    }
}
