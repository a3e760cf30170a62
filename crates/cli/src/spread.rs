//! `up --data A --data B --osds-per-device N`: which OSD lies on which device.
//!
//! OSDs that exist stay where their folder says; devices without any get new ones, in the order in which they are named. All of an OSD's
//! store lies on its device, unless `--wal` or `--meta` name another place: in a folder as `humboldt-osd.N`, on a file or block device
//! as a share. Nothing is made before all of it is looked at. Absent: the `device` buckets of the CRUSH map, which are
//! [`crate::buckets`]'.

use crate::args::{PerDevice, StoreKind, Up};
use anyhow::{Context, Result, bail, ensure};
use osd::beneath::{Beneath, beneath};
use osd::store::{Share, TOGETHER_MIN};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use types::OsdId;

/// OSDs that `auto` gives a device at the most: four threads feed any device that was measured, and more take memory alone.
const AUTO_MAX: usize = 4;
/// Bytes of a device that `auto` wants for each.
const AUTO_BYTES: u64 = 16 << 30;

/// An OSD's folder on a device that is a folder begins with this.
const IN_A_FOLDER: &str = "humboldt-osd.";

/// A device of `--data`.
#[derive(Debug)]
pub struct Device {
    pub path: PathBuf,
    /// `None` if it is missing, which its OSDs say.
    pub beneath: Option<Beneath>,
    /// OSDs that it has.
    osds: Vec<OsdId>,
    /// OSDs that are to be made.
    fresh: u32,
}

/// Where a new OSD is to lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub path: PathBuf,
    /// Its share of the device.
    pub of_device: Share,
    /// Its share of what all OSDs have in common (`--wal`, `--meta`).
    pub of_all: Share,
}

impl Place {
    /// The folder or file that is made for the OSD, if it is not there.
    pub fn makes(&self, id: OsdId) -> PathBuf {
        if self.path.is_dir() { folder_on(&self.path, id) } else { self.path.clone() }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Spread {
    pub devices: Vec<Device>,
}

impl Spread {
    /// `None` where one file or device, or none, is named for all OSDs. `found`: folders of OSDs that exist.
    pub fn of(args: &Up, found: &[(OsdId, PathBuf)]) -> Result<Option<Self>> {
        let is_one = args.data.len() <= 1 && args.osds_per_device.is_none() && !args.data.first().is_some_and(|path| path.is_dir());
        if is_one {
            return Ok(None);
        }
        ensure!(args.store != Some(StoreKind::Mem), "--data, --wal, --meta and --size are a block store's: start without --store mem");
        let mut devices: Vec<Device> = Vec::new();
        for given in &args.data {
            let path = std::path::absolute(given).with_context(|| given.display().to_string())?;
            let path = path.canonicalize().unwrap_or(path);
            let osds: Vec<OsdId> = found.iter().filter(|(_, folder)| lies_on(folder, &path)).map(|(id, _)| *id).collect();
            let beneath = look(&path, !osds.is_empty())?;
            let twin = devices
                .iter()
                .find(|other| other.path == path || other.beneath.as_ref().zip(beneath.as_ref()).is_some_and(|(a, b)| a.shares(b)));
            if let Some(twin) = twin {
                let name = beneath.map_or_else(|| "one device".into(), |device| device.parts.into_iter().collect::<Vec<_>>().join(","));
                bail!(
                    "--data {} and {} are the same device ({name}): name it once, with --osds-per-device for several OSDs on it",
                    twin.path.display(),
                    given.display()
                );
            }
            devices.push(Device { path, beneath, osds, fresh: 0 });
        }
        if !found.is_empty() && devices.iter().all(|device| device.osds.is_empty()) {
            let theirs: BTreeSet<String> = found.iter().filter_map(|(_, folder)| Some(place_of(folder)?.display().to_string())).collect();
            let theirs = theirs.into_iter().collect::<Vec<_>>().join(", ");
            bail!(
                "no OSD of {} lies on a device of --data, settled when they were made: name those that it has, too ({theirs})",
                args.dir.display()
            );
        }
        let mut spread = Self { devices };
        spread.count(args)?;
        for device in spread.devices.iter().filter(|device| device.fresh > 0) {
            device.check_room()?;
        }
        Ok(Some(spread))
    }

    /// How many OSDs each device gets that has none.
    fn count(&mut self, args: &Up) -> Result<()> {
        let (devices, there) = (self.devices.len() as u32, self.devices.iter().map(|device| device.osds.len() as u32).sum::<u32>());
        let each = match (args.osds_per_device, args.osds) {
            (Some(each), _) => each,
            (None, Some(osds)) if there == 0 => {
                ensure!(
                    osds % devices == 0,
                    "--osds {osds} does not spread over {devices} devices evenly: give a multiple, or --osds-per-device N"
                );
                PerDevice::Count(osds / devices)
            }
            // A device that is added gets as many as the others have.
            (None, _) => PerDevice::Count(self.devices.iter().map(|device| device.osds.len() as u32).max().unwrap_or(0).max(1)),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for device in &mut self.devices {
            let has = device.osds.len() as u32;
            match each {
                PerDevice::Count(n) if has > 0 => ensure!(
                    n == has || args.osds_per_device.is_none(),
                    "{} has {has} OSD{}, settled when they were made: give --osds-per-device {has}, or leave it out",
                    device.path.display(),
                    if has == 1 { "" } else { "s" }
                ),
                PerDevice::Auto if has > 0 => {}
                PerDevice::Count(n) => device.fresh = n,
                PerDevice::Auto => device.fresh = device.auto(cores, devices as usize)?,
            }
        }
        let all = self.devices.iter().map(|device| device.osds.len() as u32 + device.fresh).sum::<u32>();
        ensure!(all <= 64, "{all} OSDs are more than one process serves: 64 at the most");
        if let Some(osds) = args.osds {
            ensure!(osds == all, "--osds {osds} does not go with {all} OSDs on {devices} devices: leave --osds out");
        }
        Ok(())
    }

    /// All OSDs that exist or are to be made here.
    pub fn total(&self) -> u32 {
        self.devices.iter().map(|device| device.osds.len() as u32 + device.fresh).sum()
    }
    /// In a new cluster: over how many devices its OSDs are spread, if some share one.
    pub fn shared(&self) -> Option<u32> {
        let shares = self.devices.iter().any(|device| device.osds.len() as u32 + device.fresh > 1);
        (shares && self.devices.len() > 1).then_some(self.devices.len() as u32)
    }

    /// Numbers and places of the OSDs that are to be made; those of `taken` are others'.
    pub fn fresh(&self, taken: &BTreeSet<OsdId>) -> BTreeMap<OsdId, Place> {
        let mut out = BTreeMap::new();
        let mut ids = (0..).filter(|id| !taken.contains(id));
        let all = self.total();
        for device in &self.devices {
            for index in 0..device.fresh {
                let id = ids.next().expect("numbers do not end");
                let of_device = Share { index: index.into(), of: device.fresh.into() };
                let of_all = Share { index: id as u64, of: all.into() };
                out.insert(id, Place { path: device.path.clone(), of_device, of_all });
            }
        }
        out
    }
}

impl Device {
    /// A core's three quarters for each OSD, the rest for the kernel, the monitor and clients; one on a rotating disk, where a second
    /// makes the heads move alone.
    fn auto(&self, cores: usize, devices: usize) -> Result<u32> {
        if self.beneath.as_ref().is_some_and(|device| device.is_rotational) {
            return Ok(1);
        }
        let by_cores = (cores * 3 / 4 / devices).clamp(1, AUTO_MAX) as u64;
        Ok(by_cores.min((self.room()? / AUTO_BYTES).max(1)) as u32)
    }
    fn room(&self) -> Result<u64> {
        let path = &self.path;
        if path.is_dir() || !path.exists() {
            let at = path.ancestors().find(|at| at.exists()).unwrap_or(path);
            return disk::free_bytes(at).with_context(|| at.display().to_string());
        }
        osd::store::len_of(path)
    }
    fn check_room(&self) -> Result<()> {
        let (room, path) = (self.room()?, self.path.display());
        let fits = room / TOGETHER_MIN;
        ensure!(fits > 0, "{path} has {} MiB, and an OSD needs {}: name a larger device", room >> 20, TOGETHER_MIN >> 20);
        ensure!(
            u64::from(self.fresh) <= fits,
            "{path} has room for {fits} OSDs of {} MiB, not for {}: give --osds-per-device {fits} or less",
            TOGETHER_MIN >> 20,
            self.fresh
        );
        Ok(())
    }
}

/// The device beneath one of `--data`; `None` if it is missing and has OSDs. One that is to get OSDs must be there and free.
fn look(path: &Path, has_osds: bool) -> Result<Option<Beneath>> {
    let kind = match std::fs::metadata(path) {
        Ok(meta) => Some(meta.file_type()),
        Err(_) if has_osds => return Ok(None),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !path.starts_with("/dev") => {
            let parent = path.parent().is_some_and(Path::is_dir);
            ensure!(parent, "--data {}: its folder is not there: mount or make it first", path.display());
            None
        }
        Err(e) => {
            return Err(e).with_context(|| format!("--data {}: attach the device, or leave it out", path.display()));
        }
    };
    ensure!(
        !path.join("mon.redb").exists() && !osd::DataDir::is_made(path),
        "--data {} is a cluster's own folder or an OSD's: name a block device, or another folder on the device",
        path.display()
    );
    if kind.is_some_and(|kind| kind.is_block_device()) && !has_osds {
        let exclusive = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path);
        exclusive.map(drop).map_err(|e| match e.raw_os_error() {
            Some(libc::EBUSY) => {
                anyhow::anyhow!("--data {} is mounted or part of another device: unmount it, or name a folder on it", path.display())
            }
            _ => anyhow::Error::new(e).context(format!("--data {}", path.display())),
        })?;
    }
    beneath(path).map(Some).with_context(|| format!("--data {}", path.display()))
}

/// The device that the OSD in `folder` has its data on, as `--data` names it.
fn place_of(folder: &Path) -> Option<PathBuf> {
    let named = std::fs::read_link(folder.join("data")).ok()?;
    let is_in_a_folder = named.parent()?.file_name()?.to_str()?.starts_with(IN_A_FOLDER);
    if is_in_a_folder { named.ancestors().nth(2).map(Path::to_path_buf) } else { Some(named) }
}

/// True if the data of the OSD in `folder` are on `device`, even if that is missing.
fn lies_on(folder: &Path, device: &Path) -> bool {
    place_of(folder).is_some_and(|named| named == device || named.canonicalize().is_ok_and(|real| real == *device))
}

/// The folder of an OSD on a device that is a folder.
pub fn folder_on(device: &Path, id: OsdId) -> PathBuf {
    device.join(format!("{IN_A_FOLDER}{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, osds: &[OsdId]) -> Device {
        let parts = [name.to_string()].into();
        let beneath = Beneath { parts, name: name.into(), is_rotational: name.starts_with("hdd"), numa_node: None };
        Device { path: format!("/none/{name}").into(), beneath: Some(beneath), osds: osds.to_vec(), fresh: 0 }
    }
    fn args(words: &str) -> Up {
        use clap::Parser;
        let line = format!("humboldt up {words}");
        match crate::args::Args::parse_from(line.split_whitespace()).command {
            crate::args::Command::Up(up) => up,
            _ => unreachable!("it is up"),
        }
    }
    fn counted(words: &str, devices: Vec<Device>) -> Result<Vec<u32>, String> {
        let mut spread = Spread { devices };
        spread.count(&args(words)).map_err(|e| e.to_string())?;
        Ok(spread.devices.iter().map(|device| device.fresh).collect())
    }

    #[test]
    fn osds_are_spread_as_they_are_asked_for() {
        let two = || vec![device("a", &[]), device("b", &[])];
        assert_eq!(counted("--data a --data b", two()), Ok(vec![1, 1]));
        assert_eq!(counted("--data a --data b --osds-per-device 2", two()), Ok(vec![2, 2]));
        assert_eq!(counted("--data a --data b --osds 6", two()), Ok(vec![3, 3]));
        assert!(counted("--data a --data b --osds 3", two()).unwrap_err().contains("--osds-per-device N"));
        assert!(counted("--data a --data b --osds 3 --osds-per-device 2", two()).unwrap_err().contains("leave --osds out"));
        let added = || vec![device("a", &[0, 1]), device("b", &[])];
        assert_eq!(counted("--data a --data b", added()), Ok(vec![0, 2]));
        assert!(counted("--data a --data b --osds-per-device 3", added()).unwrap_err().contains("give --osds-per-device 2"));
        assert_eq!(device("hdd", &[]).auto(64, 1).unwrap(), 1);
    }

    #[test]
    fn new_osds_get_free_numbers_and_equal_shares() {
        let mut spread = Spread { devices: vec![device("a", &[0, 1]), device("b", &[])] };
        spread.count(&args("--data a --data b")).unwrap();
        let fresh = spread.fresh(&[0, 1, 2].into());
        assert_eq!(fresh.keys().copied().collect::<Vec<_>>(), [3, 4]);
        assert_eq!((fresh[&4].of_device, fresh[&4].of_all), (Share { index: 1, of: 2 }, Share { index: 4, of: 4 }));
        assert_eq!((spread.total(), spread.shared()), (4, Some(2)));
    }
}
