//! An OSD's store: made with its folder, opened by it, and woken by its ring's descriptor.
//!
//! ```text
//! FOLDER/data   a file, or a link to a file or device     what objects hold
//! FOLDER/wal    the same                                   the log
//! FOLDER/meta   the same                                   everything else
//! ```
//! beside the small files of [`crate::DataDir`], which are written last: a folder without them holds no store yet.

use crate::DataDir;
use anyhow::{Context, Result, bail};
use disk::{FileDisks, KnownMemory, OpenError, create_zeroed};
use std::io::Read;
use std::os::fd::RawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use store::ObjectStore;
use store_block::{BlockStore, Config};
use store_mem::MemStore;
use types::{OsdId, Uuid};

/// What the `type` file of a folder says of each kind.
pub const MEM: &str = "memstore";
pub const BLOCK: &str = "block";

/// Which store an OSD has.
#[derive(Debug, Clone)]
pub enum StoreConfig {
    /// In memory, up to so many bytes of objects.
    Mem { capacity: u64 },
    /// On the devices of this folder. `memory`: bytes that its caches may take.
    Block { dir: PathBuf, memory: u64 },
}

/// What a new block store is to be.
#[derive(Debug, Clone, Default)]
pub struct NewStore {
    /// Files or devices; `None`: files in the folder.
    pub data: Option<PathBuf>,
    pub wal: Option<PathBuf>,
    pub meta: Option<PathBuf>,
    /// Bytes of files that are made; devices and files that are there have their own size.
    pub size: u64,
}

/// Bytes that a store in memory may take if nobody says.
pub const MEM_DEFAULT: u64 = 4 << 30;
/// Bytes of the caches of a block store if nobody says.
pub const CACHE_DEFAULT: u64 = store_block::MEMORY_DEFAULT as u64;
/// Devices by their names in a folder, in the order that the store wants.
const DEVICES: [&str; 3] = ["data", "wal", "meta"];
/// Of the data's size, for the log: what it may hold is how seldom metadata are rewritten, and how long a restart takes.
const WAL_SHARE: u64 = 16;
const WAL_MIN: u64 = 64 << 20;
const WAL_MAX: u64 = 256 << 20;
/// Of the data's size, for everything but data: an object of 4 KiB has 400 bytes there, and a checkpoint room for all of it twice.
const META_SHARE: u64 = 4;
const META_MIN: u64 = 64 << 20;

/// A store that was opened.
pub struct OpenStore {
    pub store: Box<dyn ObjectStore>,
    /// Readable when the store has something to say.
    pub fd: Option<RawFd>,
    /// Memory from which it writes at the least cost.
    pub memory: Option<KnownMemory>,
}

impl StoreConfig {
    /// Bytes, for the OSD's weight.
    pub fn size(&self) -> u64 {
        match self {
            Self::Mem { capacity } => *capacity,
            Self::Block { dir, .. } => len_of(&dir.join(DEVICES[0])).unwrap_or(0),
        }
    }
    pub fn is_durable(&self) -> bool {
        matches!(self, Self::Block { .. })
    }
    /// Opens the store.
    pub fn open(&self) -> Result<OpenStore> {
        match self {
            Self::Mem { capacity } => Ok(OpenStore { store: Box::new(MemStore::new(*capacity)), fd: None, memory: None }),
            Self::Block { dir, memory } => {
                let memory = (*memory).try_into().unwrap_or(usize::MAX);
                let holes = |n: usize| has_holes(&dir.join(DEVICES[n]));
                let config = Config { memory, zero_ahead: holes(1), data_has_holes: holes(0), folder: dir.display().to_string(), ..Config::default() };
                let disks = disks(dir)?;
                let memory = disks.known_memory();
                let store = BlockStore::open(config, Box::new(disks)).with_context(|| format!("the store in {}", dir.display()))?;
                let fd = store.event_fd();
                Ok(OpenStore { store: Box::new(store), fd, memory })
            }
        }
    }
}

/// Where a folder's store lies.
pub fn devices(dir: &Path) -> [PathBuf; 3] {
    DEVICES.map(|name| dir.join(name))
}

fn disks(dir: &Path) -> Result<FileDisks> {
    let paths = devices(dir);
    // The kernel takes the ring of a process that was killed down in its own time, and holds the files, and so their locks, until then.
    let mut tries = 0;
    loop {
        match FileDisks::open(&paths.each_ref().map(PathBuf::as_path)) {
            Err(OpenError::InUse(_)) if tries < LOCK_TRIES => tries += 1,
            other => return Ok(other?),
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// How long a store that somebody else has is asked for again: 5 s in all.
const LOCK_TRIES: u32 = 250;
const LOCK_PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// True for a file of which parts were never written.
pub fn has_holes(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    const UNIT: u64 = 512; // of st_blocks, whatever the file system has
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.blocks() * UNIT < m.len())
}

fn len_of(path: &Path) -> Result<u64> {
    use std::io::{Seek, SeekFrom};
    let mut file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
    Ok(file.seek(SeekFrom::End(0))?)
}

/// Makes an OSD's folder with an empty block store in it. What is left of an attempt that did not come to its end is replaced; a folder that is
/// whole is refused, and so is a device that is not empty.
pub fn mkfs(dir: &Path, id: OsdId, osd_fsid: Uuid, cluster_fsid: Uuid, new: &NewStore, device_class: &str) -> Result<DataDir> {
    if DataDir::is_made(dir) {
        bail!("{} holds an OSD already", dir.display());
    }
    std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    let meta_bytes = (new.size / META_SHARE).max(META_MIN).next_multiple_of(1 << 20);
    let data_bytes = new.size.next_multiple_of(1 << 20);
    let wal_bytes = (new.size / WAL_SHARE).clamp(WAL_MIN, WAL_MAX).next_multiple_of(1 << 20);
    // All holes: the store writes zeros into the log's ahead of use.
    let given = [(&new.data, data_bytes), (&new.wal, wal_bytes), (&new.meta, meta_bytes)];
    for (name, (path, len)) in DEVICES.into_iter().zip(given) {
        let at = dir.join(name);
        match std::fs::remove_file(&at) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).with_context(|| at.display().to_string()),
            _ => {}
        }
        let Some(path) = path else {
            create_zeroed(&at, len, 0)?;
            continue;
        };
        if path.exists() {
            check_empty(path)?;
        } else {
            create_zeroed(path, len, 0)?;
        }
        let target = path.canonicalize().with_context(|| path.display().to_string())?;
        std::os::unix::fs::symlink(&target, &at).with_context(|| at.display().to_string())?;
    }
    BlockStore::mkfs(Box::new(disks(dir)?), osd_fsid.0).with_context(|| format!("a store in {}", dir.display()))?;
    DataDir::mkfs(dir, id, osd_fsid, cluster_fsid, BLOCK, device_class)
}

/// A device or file that begins with anything but zeros belongs to somebody.
fn check_empty(path: &Path) -> Result<()> {
    let kind = std::fs::metadata(path).with_context(|| path.display().to_string())?.file_type();
    let mut head = Vec::new();
    std::fs::File::open(path).and_then(|f| f.take(64 << 10).read_to_end(&mut head)).with_context(|| path.display().to_string())?;
    if head.iter().any(|b| *b != 0) {
        let what = if kind.is_block_device() { "device" } else { "file" };
        bail!("the {what} {} is not empty: clear its first 64 KiB if what is on it may go", path.display());
    }
    Ok(())
}

/// Bytes for a new store whose size nobody says: an equal share of half of what the file system has left, and no more than this.
pub fn size_default(free: u64, osds: u32) -> u64 {
    const MAX: u64 = 16 << 30;
    const MIN: u64 = 256 << 20;
    (free / 2 / u64::from(osds.max(1))).clamp(MIN, MAX)
}
