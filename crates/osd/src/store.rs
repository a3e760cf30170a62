//! An OSD's store: made with its folder, opened by it, and woken by its ring's descriptor.
//!
//! ```text
//! FOLDER/data   a file, or a link to a file or device     what objects hold
//! FOLDER/wal    the same                                   the log
//! FOLDER/meta   the same                                   everything else
//! FOLDER/data.window   which bytes of it, where several stores share it; `wal.window`, `meta.window` the same
//! ```
//! beside the small files of [`crate::DataDir`], which are written last: a folder without them holds no store yet.

use crate::DataDir;
use crate::receive_buffers::{DeviceMemory, StoreMemory};
use anyhow::{Context, Result, bail};
use disk::{FileDisks, LargeMemory, OpenError, Window, create_zeroed};
use msgr::ReceiveBuffers;
use std::io::Read;
use std::os::fd::RawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
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
    /// Which part of the named files and devices this store gets; all of them, if none is said.
    pub share: Option<Share>,
    /// Log and metadata, unless they are named, lie with the data: in its part of the file or device, or beside it in its folder. So the
    /// device alone takes the OSD with it. `data` is named.
    pub together: Option<Share>,
}

/// One of equal parts of a file or device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub index: u64,
    pub of: u64,
}

impl Share {
    /// The part, in whole MiB, of a device of so many bytes.
    pub fn window(&self, len_bytes: u64) -> Window {
        let len_bytes = len_bytes / self.of / ALIGN * ALIGN;
        Window { start_bytes: self.index * len_bytes, len_bytes }
    }
}

/// The parts of a window that holds a whole store: data, log, metadata. The log comes first: what else the window held is looked for
/// there.
fn carve(whole: Window) -> [Window; 3] {
    let down = |n: u64| n / ALIGN * ALIGN;
    let wal = down((whole.len_bytes / WAL_SHARE).clamp(WAL_MIN, WAL_MAX));
    let meta = down((whole.len_bytes / META_SHARE).clamp(META_MIN, META_MAX));
    let data = down(whole.len_bytes.saturating_sub(wal + meta));
    let at = |offset: u64, len_bytes: u64| Window { start_bytes: whole.start_bytes + offset, len_bytes };
    [at(wal + meta, data), at(0, wal), at(wal, meta)]
}

/// Bytes that a store needs at the least where all of it lies on one device.
pub const TOGETHER_MIN: u64 = 256 << 20;

/// Parts of devices begin and end at multiples of this.
const ALIGN: u64 = 1 << 20;

/// Bytes that a store in memory may take unless it is told.
pub const MEM_DEFAULT: u64 = 4 << 30;
/// Memory of large writes that a store in memory keeps while it is free, so that data in place of others need no new memory: one part in so many of what
/// the store may hold, and no more than this.
const FREE_OF: u64 = 8;
const FREE_MAX: u64 = 512 << 20;
/// Bytes of the caches of a block store unless it is told.
pub const CACHE_DEFAULT: u64 = store_block::MEMORY_DEFAULT as u64;
/// Devices by their names in a folder, in the order that the store wants.
const DEVICES: [&str; 3] = ["data", "wal", "meta"];
/// A note that the last process ended at a change that needed what is damaged.
const MET_DAMAGE: &str = "met-damage";
/// Of the data's size, for the log: what it may hold is how seldom metadata are rewritten, and how long a restart takes.
const WAL_SHARE: u64 = 16;
const WAL_MIN: u64 = 64 << 20;
const WAL_MAX: u64 = 256 << 20;
/// Of the data's size, for metadata beside them in the OSD's folder: what more they need they take from the data's.
const META_SHARE: u64 = 64;
const META_MIN: u64 = 16 << 20;
const META_MAX: u64 = 1 << 30;
/// The same for a file that is made at a place of its own, which is there to have all of them: an object of 4 KiB has 400 bytes there, and a
/// checkpoint room for all of it twice.
const META_SHARE_APART: u64 = 4;

/// A store that was opened.
pub struct OpenStore {
    pub store: Box<dyn ObjectStore>,
    /// Readable when the store has something to say.
    pub fd: Option<RawFd>,
    /// Where large data of clients arrive, at the least cost for it.
    pub buffers: Option<Rc<dyn ReceiveBuffers>>,
    /// Memory of theirs that is to be given back once it has been free for some time.
    pub memory: Option<Arc<LargeMemory>>,
}

impl StoreConfig {
    /// Bytes, for the OSD's weight.
    pub fn size(&self) -> u64 {
        match self {
            Self::Mem { capacity } => *capacity,
            Self::Block { dir, .. } => match windows(dir) {
                Ok([Some(window), ..]) => window.len_bytes,
                _ => len_of(&dir.join(DEVICES[0])).unwrap_or(0),
            },
        }
    }
    pub fn is_durable(&self) -> bool {
        matches!(self, Self::Block { .. })
    }
    /// The OSD ends since a change needed what is damaged: the next process goes on with that, see [`ObjectStore::stopped_at_damage`].
    pub fn note_damage(&self, why: &str) {
        if let Self::Block { dir, .. } = self {
            // Without the note, the next process stops there again.
            let _ = std::fs::write(dir.join(MET_DAMAGE), why);
        }
    }
    /// Opens the store.
    pub fn open(&self) -> Result<OpenStore> {
        match self {
            Self::Mem { capacity } => {
                let memory = LargeMemory::new((capacity / FREE_OF).min(FREE_MAX) as usize);
                let store = MemStore::with_memory(*capacity, memory.clone());
                Ok(OpenStore {
                    store: Box::new(store),
                    fd: None,
                    buffers: Some(Rc::new(StoreMemory(memory.clone()))),
                    memory: Some(memory),
                })
            }
            Self::Block { dir, memory } => {
                let memory = (*memory).try_into().unwrap_or(usize::MAX);
                let holes = |n: usize| has_holes(&dir.join(DEVICES[n]));
                let folder = dir.display().to_string();
                let disks = disks(dir, LOCK_PATIENCE)?;
                let spoils = takes_note(dir);
                let config = Config { memory, zero_ahead: holes(1), data_has_holes: holes(0), folder, spoils, ..Config::default() };
                let buffers = disks.known_memory().map(|memory| Rc::new(DeviceMemory(memory)) as Rc<dyn ReceiveBuffers>);
                let store = BlockStore::open(config, Box::new(disks)).with_context(|| format!("the store in {}", dir.display()))?;
                if !store.is_final() {
                    let dir = dir.display();
                    say::eprintln!(
                        "the store in {dir} is as an older humboldt made it, without what its form got since. Stop this OSD and run `humboldt \
                         store --dir {dir} finalize` when no older program shall open it any more"
                    );
                }
                let fd = store.event_fd();
                Ok(OpenStore { store: Box::new(store), fd, buffers, memory: None })
            }
        }
    }
}

/// The file in an OSD's folder by which `humboldt store repair` says that it has ended: what keeps the OSD starts it then.
const REPAIRED: &str = "repaired";

/// A repair has ended.
pub fn note_repair(dir: &Path) {
    // Without the note, it is started when its pause is over.
    let _ = std::fs::write(dir.join(REPAIRED), "");
}
/// True if a repair has ended since this was asked last.
pub fn takes_repair(dir: &Path) -> bool {
    std::fs::remove_file(dir.join(REPAIRED)).is_ok()
}

/// True if the last process ended at a change that needed what is damaged: this one knows, the next one does not.
fn takes_note(dir: &Path) -> bool {
    std::fs::remove_file(dir.join(MET_DAMAGE)).is_ok()
}

/// Where a folder's store lies.
pub fn devices(dir: &Path) -> [PathBuf; 3] {
    DEVICES.map(|name| dir.join(name))
}

/// Which parts of its devices a folder's store has: `NAME.window` beside `NAME`, two numbers; all of it where there is no such file.
pub fn windows(dir: &Path) -> Result<[Option<Window>; 3]> {
    let mut out = [None; 3];
    for (window, name) in out.iter_mut().zip(DEVICES) {
        let path = dir.join(format!("{name}.window"));
        let text = match std::fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            other => other.with_context(|| path.display().to_string())?,
        };
        let numbers: Vec<u64> = text.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        let [start_bytes, len_bytes] = numbers[..] else { bail!("{} holds no two numbers", path.display()) };
        *window = Some(Window { start_bytes, len_bytes });
    }
    Ok(out)
}

fn keep_window(dir: &Path, name: &str, window: Window) -> Result<()> {
    let path = dir.join(format!("{name}.window"));
    let text = format!("{} {}\n", window.start_bytes, window.len_bytes);
    disk::update_file(&path, text.as_bytes(), 0o644).with_context(|| path.display().to_string())
}

/// The devices of a folder's store. One that another process holds is asked for again for as long as `patience`.
pub fn disks(dir: &Path, patience: Duration) -> Result<FileDisks> {
    let (paths, windows) = (devices(dir), windows(dir)?);
    let parts: Vec<_> = paths.iter().map(PathBuf::as_path).zip(windows).collect();
    // The kernel takes the ring of a process that was killed down in its own time, and holds the files, and so their locks, until then. One try may
    // itself take seconds.
    let end = Instant::now() + patience;
    loop {
        match FileDisks::open_windows(&parts) {
            Err(OpenError::InUse(_)) if Instant::now() < end => {}
            other => return Ok(other?),
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// How long an OSD that starts asks for a store that another process holds, and how often.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// True for a file of which parts were never written.
pub fn has_holes(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    const UNIT: u64 = 512; // of st_blocks, whatever the file system has
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.blocks() * UNIT < m.len())
}

/// Bytes of a file or device.
pub fn len_of(path: &Path) -> Result<u64> {
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
    disk::create_dirs(dir).with_context(|| format!("making {}", dir.display()))?;
    let meta_bytes = match new.meta {
        Some(_) if new.together.is_none() => (new.size / META_SHARE_APART).max(META_MIN),
        _ => (new.size / META_SHARE).clamp(META_MIN, META_MAX),
    };
    let meta_bytes = meta_bytes.next_multiple_of(1 << 20);
    let data_bytes = new.size.next_multiple_of(1 << 20);
    let wal_bytes = (new.size / WAL_SHARE).clamp(WAL_MIN, WAL_MAX).next_multiple_of(1 << 20);
    for (name, part) in DEVICES.into_iter().zip(parts(new, [data_bytes, wal_bytes, meta_bytes])?) {
        let at = dir.join(name);
        for old in [at.clone(), dir.join(format!("{name}.window"))] {
            match std::fs::remove_file(&old) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).with_context(|| old.display().to_string()),
                _ => {}
            }
        }
        // All holes: the store writes zeros into the log's ahead of use.
        let Some(path) = part.path else {
            create_zeroed(&at, part.len_bytes, 0)?;
            continue;
        };
        if !path.exists() {
            create_zeroed(&path, part.len_bytes, 0)?;
        }
        let target = path.canonicalize().with_context(|| path.display().to_string())?;
        check_free(dir, &target, part.window)?;
        if let Some(start) = part.looked_at {
            check_empty(&target, start)?;
        }
        if let Some(window) = part.window {
            keep_window(dir, name, window)?;
        }
        std::os::unix::fs::symlink(&target, &at).with_context(|| at.display().to_string())?;
    }
    BlockStore::mkfs(Box::new(disks(dir, LOCK_PATIENCE)?), osd_fsid.0).with_context(|| format!("a store in {}", dir.display()))?;
    DataDir::mkfs(dir, id, osd_fsid, cluster_fsid, BLOCK, device_class)
}

/// Where one part of a new store is to lie.
struct NewPart {
    /// `None`: a file in the folder.
    path: Option<PathBuf>,
    /// Of the file, if it is to be made.
    len_bytes: u64,
    window: Option<Window>,
    /// Where it must be empty, if another store may have been there.
    looked_at: Option<u64>,
}

/// The parts of a new store, data, log and metadata, of so many bytes each where they are files.
fn parts(new: &NewStore, bytes: [u64; 3]) -> Result<[NewPart; 3]> {
    let shares = new.share.map_or(1, |share| share.of);
    let named = |path: &Option<PathBuf>, own: u64| -> Result<NewPart> {
        let Some(path) = path else { return Ok(NewPart { path: None, len_bytes: own, window: None, looked_at: None }) };
        let len_bytes = own * shares;
        let all = if path.exists() { len_of(path)? } else { len_bytes };
        let window = new.share.map(|share| share.window(all));
        Ok(NewPart { path: Some(path.clone()), len_bytes, window, looked_at: Some(window.map_or(0, |window| window.start_bytes)) })
    };
    let (Some(share), Some(data)) = (new.together, &new.data) else {
        return Ok([named(&new.data, bytes[0])?, named(&new.wal, bytes[1])?, named(&new.meta, bytes[2])?]);
    };
    if data.is_dir() {
        let beside = |given: &Option<PathBuf>, name: &str, own: u64| match given {
            Some(_) => named(given, own),
            None => Ok(NewPart { path: Some(data.join(name)), len_bytes: own, window: None, looked_at: Some(0) }),
        };
        return Ok([beside(&None, "data", bytes[0])?, beside(&new.wal, "wal", bytes[1])?, beside(&new.meta, "meta", bytes[2])?]);
    }
    let len_bytes = bytes.iter().sum::<u64>() * share.of;
    let whole = share.window(if data.exists() { len_of(data)? } else { len_bytes });
    anyhow::ensure!(
        whole.len_bytes >= TOGETHER_MIN,
        "{} has room for {} OSDs of {} MiB, not for {}: ask for fewer",
        data.display(),
        whole.len_bytes * share.of / TOGETHER_MIN,
        TOGETHER_MIN >> 20,
        share.of
    );
    let [of_data, of_wal, of_meta] = carve(whole);
    let within = |window: Window, looked_at: Option<u64>| NewPart { path: Some(data.clone()), len_bytes, window: Some(window), looked_at };
    let wal = if new.wal.is_some() { named(&new.wal, bytes[1])? } else { within(of_wal, Some(whole.start_bytes)) };
    let meta = if new.meta.is_some() { named(&new.meta, bytes[2])? } else { within(of_meta, None) };
    Ok([within(of_data, new.wal.is_some().then_some(whole.start_bytes)), wal, meta])
}

/// Makes the store in `dir`, which no process has open, larger: its file of data to `size` bytes, if that is said, and then the store to the size of its
/// devices. Returns bytes of data and metadata, now. A file is never made smaller.
pub fn grow(dir: &Path, size: Option<u64>) -> Result<(u64, u64)> {
    if let Some(size) = size {
        let (path, has_window) = (dir.join(DEVICES[0]), windows(dir)?[0].is_some());
        let meta = std::fs::metadata(&path).with_context(|| path.display().to_string())?;
        let (size, what) = (size.next_multiple_of(1 << 20), path.display());
        if has_window {
            bail!("{what} is a share of a device, settled when the OSD was made: make another OSD on the rest of it");
        }
        if !meta.is_file() {
            bail!("{what} is a device: make that larger, then run this without --size");
        }
        if size < meta.len() {
            bail!("{what} has {} bytes already: a store becomes larger only", meta.len());
        }
        // Not while another process has it.
        drop(disks(dir, LOCK_PATIENCE)?);
        let file = std::fs::OpenOptions::new().write(true).open(&path).with_context(|| what.to_string())?;
        file.set_len(size).and_then(|()| file.sync_all()).with_context(|| format!("{what}: to {size} bytes"))?;
    }
    let config = Config { folder: dir.display().to_string(), ..Config::default() };
    let mut store = BlockStore::open(config, Box::new(disks(dir, LOCK_PATIENCE)?)).with_context(|| dir.display().to_string())?;
    store.grow().map_err(anyhow::Error::msg).with_context(|| dir.display().to_string())
}

/// Makes the store in `dir`, which no process has open, one of this version; false if it is one.
pub fn finalize(dir: &Path) -> Result<bool> {
    let config = Config { folder: dir.display().to_string(), ..Config::default() };
    let mut store = BlockStore::open(config, Box::new(disks(dir, LOCK_PATIENCE)?)).with_context(|| dir.display().to_string())?;
    store.finalize().map_err(anyhow::Error::msg).with_context(|| dir.display().to_string())
}

/// Refuses a part of a device that another OSD beside `dir` has, or that has no bytes.
fn check_free(dir: &Path, target: &Path, window: Option<Window>) -> Result<()> {
    if let Some(window) = window {
        anyhow::ensure!(
            window.len_bytes > 0,
            "{} is too small to be shared out: name a larger file or device, or start fewer OSDs",
            target.display()
        );
    }
    let beside = dir.parent().and_then(|up| std::fs::read_dir(up).ok()).into_iter().flatten().flatten().map(|entry| entry.path());
    for other in beside.filter(|path| path != dir && DataDir::is_made(path)) {
        for (path, theirs) in devices(&other).iter().zip(windows(&other)?) {
            let apart = window.zip(theirs).is_some_and(|(ours, theirs)| !ours.overlaps(&theirs));
            if !apart && path.canonicalize().is_ok_and(|path| path == target) {
                let part = theirs.map_or("all of it".into(), |w| format!("{} bytes at {}", w.len_bytes, w.start_bytes));
                bail!("{} of {} belongs to {}: shares are settled when the OSDs are made", part, target.display(), other.display());
            }
        }
    }
    Ok(())
}

/// A device or file whose part from `start` on begins with anything but zeros has an owner.
fn check_empty(path: &Path, start: u64) -> Result<()> {
    let kind = std::fs::metadata(path).with_context(|| path.display().to_string())?.file_type();
    let mut head = Vec::new();
    let read = |mut f: std::fs::File| {
        std::io::Seek::seek(&mut f, std::io::SeekFrom::Start(start))?;
        f.take(64 << 10).read_to_end(&mut head)
    };
    std::fs::File::open(path).and_then(read).with_context(|| path.display().to_string())?;
    if head.iter().any(|b| *b != 0) {
        let what = if kind.is_block_device() { "device" } else { "file" };
        bail!("the {what} {} is not empty: clear 64 KiB at {start} if what is on it may go", path.display());
    }
    Ok(())
}

/// Bytes for a new store whose size is not given: an equal share of half of what the file system has left, and no more than this.
pub fn size_default(free: u64, osds: u32) -> u64 {
    const MAX: u64 = 16 << 30;
    const MIN: u64 = 256 << 20;
    (free / 2 / u64::from(osds.max(1))).clamp(MIN, MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_holds_whole_stores_is_cut_without_overlap() {
        for len in [TOGETHER_MIN, 1 << 30, 16 << 40] {
            let mut cut: Vec<Window> = (0..3).flat_map(|index| carve(Share { index, of: 3 }.window(3 * len))).collect();
            cut.sort_by_key(|w| w.start_bytes);
            assert!(cut.windows(2).all(|w| w[0].end_bytes().unwrap() <= w[1].start_bytes), "{cut:?}");
            assert!(cut.iter().all(|w| w.len_bytes >= META_MIN && w.start_bytes % ALIGN == 0) && cut[8].end_bytes().unwrap() <= 3 * len);
        }
    }

    #[test]
    fn the_process_after_one_that_met_damage_knows_it_and_no_other() {
        let dir = std::env::temp_dir().join(format!("humboldt-met-damage-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let store = StoreConfig::Block { dir: dir.clone(), memory: 0 };
        assert!(!takes_note(&dir));
        store.note_damage("1.0: block 7");
        assert_eq!([(); 2].map(|()| takes_note(&dir)), [true, false]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
