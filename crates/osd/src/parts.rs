//! The parts of an OSD's store as `ceph osd metadata` shows them, by the names that stock's parts have: its own tools, the dashboard and
//! Proxmox VE look for these.
//!
//! | part | its names begin with |
//! |---|---|
//! | data | `bluestore_bdev_` |
//! | wal | `bluefs_wal_`, if it lies elsewhere than the data |
//! | meta | `bluefs_db_`, the same |
//!
//! A store in memory has none. Absent: the devices' health, and the names that a manager knows them by: [`crate::devices`].
//!
//! Source of the names: Ceph 18.2 `src/blk/kernel/KernelDevice.cc`, `src/os/bluestore/BlueStore.cc`, `BlueFS.cc`.

use crate::StoreConfig;
use crate::devices::{self, Machine};
use crate::store;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The unit in which the store gives out its data.
const BLOCK_BYTES: usize = disk::BLOCK_BYTES;
const DATA: &str = "bluestore_bdev_";
const WAL: &str = "bluefs_wal_";
const META: &str = "bluefs_db_";

/// One part: where it lies, and how large it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    path: PathBuf,
    bytes: u64,
    is_device: bool,
}

impl Part {
    fn at(path: &Path, window_bytes: Option<u64>) -> Self {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let is_device = fs::metadata(&path).is_ok_and(|m| m.file_type().is_block_device());
        let bytes = window_bytes.or_else(|| store::len_of(&path).ok()).unwrap_or(0);
        Self { path, bytes, is_device }
    }
    /// True if another disk than the other part's may hold it.
    fn is_apart_from(&self, other: &Self) -> bool {
        match (self.is_device, other.is_device) {
            (false, false) => self.path.parent() != other.path.parent(),
            _ => self.path != other.path,
        }
    }
    /// The name in `/dev` of the device that it is or lies on.
    fn device(&self) -> Option<String> {
        let own = || self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        if self.is_device { own() } else { devices::below(&self.path) }
    }
    /// The part's names and values. `device` is [`Part::device`].
    fn told(&self, device: Option<&str>, machine: &Machine) -> BTreeMap<&'static str, String> {
        let physical = device.map(|name| machine.physical_below(name)).unwrap_or_default();
        let is_rotational = physical.iter().any(|name| machine.about(name, "queue/rotational").as_deref() == Some("1"));
        let about = |what: &str| physical.first().and_then(|name| machine.about(name, what)).unwrap_or_default();
        let discards = !matches!(about("queue/discard_granularity").as_str(), "" | "0");
        let zero_if_unknown = |text: String| if text.is_empty() { "0".into() } else { text };
        let node = device.map_or_else(|| "unknown".into(), |name| format!("/dev/{name}"));
        let mut told = BTreeMap::from([
            ("access_mode", if self.is_device { "blk" } else { "file" }.to_string()),
            ("block_size", BLOCK_BYTES.to_string()),
            ("dev_node", node),
            ("driver", "io_uring".into()),
            ("optimal_io_size", zero_if_unknown(about("queue/optimal_io_size"))),
            ("rotational", u8::from(is_rotational).to_string()),
            ("size", self.bytes.to_string()),
            // Of a device, as stock tells it; holes in files are not asked for here.
            ("support_discard", u8::from(self.is_device && discards).to_string()),
            ("type", self.kind(&physical, is_rotational).into()),
        ]);
        if !physical.is_empty() {
            told.insert("devices", physical.iter().cloned().collect::<Vec<_>>().join(","));
        }
        if self.is_device {
            told.extend([("partition_path", self.path.display().to_string()), ("model", about("device/model")), ("dev", about("dev"))]);
            told.extend(Some(("serial", about("device/serial"))).filter(|(_, serial)| !serial.is_empty()));
        } else {
            told.insert("path", self.path.display().to_string());
        }
        told
    }
    fn kind(&self, physical: &BTreeSet<String>, is_rotational: bool) -> &'static str {
        match is_rotational {
            true => "hdd",
            false if physical.iter().any(|name| name.starts_with("nvme")) => "nvme",
            false => "ssd",
        }
    }
}

/// Names and values of a store's parts, and of what they are together.
pub fn metadata(config: &StoreConfig, machine: &Machine) -> Vec<(String, String)> {
    let StoreConfig::Block { dir, .. } = config else { return Vec::new() };
    let windows = store::windows(dir).unwrap_or_default();
    let mut windows = windows.into_iter();
    let [data, wal, meta] = store::devices(dir).map(|path| Part::at(&path, windows.next().flatten().map(|window| window.len_bytes)));
    let all = [(DATA, &data, true), (WAL, &wal, wal.is_apart_from(&data)), (META, &meta, meta.is_apart_from(&data))];
    let mut out = together(&all.map(|(.., is_apart)| is_apart));
    for (prefix, part, _) in all.into_iter().filter(|(.., is_told)| *is_told) {
        out.extend(part.told(part.device().as_deref(), machine).into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)));
    }
    let rotational = |prefix: &str| {
        let found = out.iter().find(|(name, _)| *name == format!("{prefix}rotational"));
        found.map(|(_, value)| value.clone())
    };
    let (of_data, of_wal) = (rotational(DATA).unwrap_or_default(), rotational(WAL));
    out.extend([("journal_rotational".to_string(), of_wal.unwrap_or_else(|| of_data.clone())), ("rotational".to_string(), of_data)]);
    out
}

/// Which parts have places of their own, of data, wal and meta.
fn together([_, wal, meta]: &[bool; 3]) -> Vec<(String, String)> {
    let flag = |is: bool| u8::from(is).to_string();
    let told = [
        ("bluefs", flag(true)),
        ("bluefs_dedicated_db", flag(*meta)),
        ("bluefs_dedicated_wal", flag(*wal)),
        ("bluefs_single_shared_device", flag(!wal && !meta)),
        ("bluestore_min_alloc_size", BLOCK_BYTES.to_string()),
    ];
    told.map(|(name, value)| (name.to_string(), value)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(path: &str, is_device: bool) -> Part {
        Part { path: path.into(), bytes: 1 << 30, is_device }
    }

    #[test]
    fn a_disk_is_told_as_stock_tells_it() {
        let root = std::env::temp_dir().join(format!("humboldt-parts-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in [
            ("sys/class/block/nvme0n1/queue/rotational", "0\n"),
            ("sys/class/block/nvme0n1/queue/optimal_io_size", "131072\n"),
            ("sys/class/block/nvme0n1/queue/discard_granularity", "4096\n"),
            ("sys/class/block/nvme0n1/device/model", "Pro Disk  \n"),
            ("sys/class/block/nvme0n1/device/serial", "S2\n"),
            ("sys/class/block/nvme0n1/dev", "259:0\n"),
            ("sys/class/block/sda/queue/rotational", "1\n"),
        ] {
            let at = root.join(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, text).unwrap();
        }
        let machine = Machine(root.clone());
        let told = part("/dev/nvme0n1", true).told(Some("nvme0n1"), &machine);
        let want = [
            ("access_mode", "blk"),
            ("block_size", "4096"),
            ("dev", "259:0"),
            ("dev_node", "/dev/nvme0n1"),
            ("devices", "nvme0n1"),
            ("driver", "io_uring"),
            ("model", "Pro Disk"),
            ("optimal_io_size", "131072"),
            ("partition_path", "/dev/nvme0n1"),
            ("rotational", "0"),
            ("serial", "S2"),
            ("size", "1073741824"),
            ("support_discard", "1"),
            ("type", "nvme"),
        ];
        assert_eq!(told, want.map(|(name, value)| (name, value.to_string())).into());
        let told = part("/srv/osd/data", false).told(Some("sda"), &machine);
        let [mode, path, kind, node] = ["access_mode", "path", "type", "dev_node"].map(|name| told[name].as_str());
        assert_eq!([mode, path, kind, node], ["file", "/srv/osd/data", "hdd", "/dev/sda"]);
        assert!(!told.contains_key("serial") && !told.contains_key("partition_path"));
        // A file system without a device of its own.
        let told = part("/srv/osd/data", false).told(None, &machine);
        assert_eq!((told["dev_node"].as_str(), told.get("devices"), told["type"].as_str()), ("unknown", None, "ssd"));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_part_is_apart_where_another_disk_may_hold_it() {
        let data = part("/dev/sdb", true);
        assert!(part("/dev/nvme0n1", true).is_apart_from(&data) && part("/srv/osd.0/wal", false).is_apart_from(&data));
        assert!(!part("/dev/sdb", true).is_apart_from(&data));
        let data = part("/srv/osd.0/data", false);
        assert!(!part("/srv/osd.0/wal", false).is_apart_from(&data) && part("/fast/wal", false).is_apart_from(&data));
        let told = together(&[true, false, true]);
        let flags: Vec<&str> = told.iter().take(4).map(|(_, value)| value.as_str()).collect();
        assert_eq!(flags, ["1", "1", "0", "0"]);
    }

    #[test]
    fn a_store_of_files_tells_its_parts_and_one_in_memory_none() {
        let dir = std::env::temp_dir().join(format!("humboldt-parts-of-files-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        for (name, bytes) in [("data", 8 << 20), ("wal", 1 << 20), ("meta", 2 << 20)] {
            fs::File::create(dir.join(name)).unwrap().set_len(bytes).unwrap();
        }
        let told: BTreeMap<String, String> =
            metadata(&StoreConfig::Block { dir: dir.clone(), memory: 0 }, &Machine::this()).into_iter().collect();
        assert_eq!((told["bluestore_bdev_size"].as_str(), told["bluestore_bdev_access_mode"].as_str()), ("8388608", "file"));
        assert_eq!((told["bluefs_single_shared_device"].as_str(), told.get("bluefs_wal_size")), ("1", None));
        assert_eq!(told["rotational"], told["bluestore_bdev_rotational"]);
        assert_eq!(metadata(&StoreConfig::Mem { capacity: 1 }, &Machine::this()), []);
        fs::remove_dir_all(&dir).unwrap();
    }
}
