//! The stores of a cluster's OSDs: `DIR/osd.N`, found or made.

use crate::args::{Devices, Parts, StoreKind, Up};
use crate::members::{Known, Members};
use crate::memory::{Asked, Memory};
use crate::spread::{Place, Spread, folder_on};
use anyhow::{Context, Result, bail};
use osd::beneath::Beneath;
use osd::data_dir::Found;
use osd::store::{BLOCK, CACHE_DEFAULT, Share, size_default};
use osd::{DataDir, NewStore, Spare, StoreConfig};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tokio::sync::watch;
use types::{OsdId, Uuid};

/// One OSD's store.
pub struct OsdStore {
    pub config: StoreConfig,
    /// Its folder; `None` for a store in memory.
    pub made: Option<DataDir>,
    /// Nothing is in it.
    pub is_new: bool,
    /// Memory of its OSD's process, if that is one of its own and bounded.
    pub memory_limit: Option<u64>,
    /// Memory that this process can spare for it, if that is bounded.
    pub spare: Option<watch::Receiver<Spare>>,
    /// The `device` bucket that it is to stand below.
    pub device: Option<String>,
    /// CPUs that it is to run on alone.
    pub cpus: Option<String>,
}

/// For how many OSDs the cluster in `dir` has keys, before its map is known.
pub fn osd_count(args: &Up, dir: &Path, spread: Option<&Spread>) -> u32 {
    let there: BTreeSet<OsdId> = osd_folders(dir).into_iter().map(|(id, _)| id).collect();
    let made = spread.into_iter().flat_map(|spread| spread.fresh(&there).into_keys()).max();
    let found = there.last().copied().max(made).map_or(1, |last| last as u32 + 1);
    args.osds.map_or(found, |osds| if spread.is_some() { osds.max(found) } else { osds })
}

/// The OSDs that `up` keeps: as many as are asked for, else those that have a folder, are in the map or are to be made, else one.
pub fn members(args: &Up, dir: &Path, known: &Members, places: &BTreeMap<OsdId, Place>) -> Vec<OsdId> {
    if let Some(osds) = args.osds.filter(|_| places.is_empty()) {
        return (0..osds as OsdId).collect();
    }
    let there = osd_folders(dir).into_iter().map(|(id, _)| id).chain(known.keys().copied());
    let all: BTreeSet<OsdId> = there.chain(places.keys().copied()).collect();
    if all.is_empty() { vec![0] } else { all.into_iter().collect() }
}

/// The folders of OSDs in `dir`.
pub fn osd_folders(dir: &Path) -> Vec<(i32, PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let id = |name: &str| name.strip_prefix("osd.")?.parse::<i32>().ok();
    let mut found: Vec<_> = entries.filter_map(|e| Some((id(e.file_name().to_str()?)?, e.path()))).collect();
    found.retain(|(_, path)| DataDir::is_made(path));
    found.sort();
    found
}

/// The devices beneath the data of these OSDs, as far as they are there.
pub fn beneath(args: &Up, dir: &Path, ids: &[OsdId], places: &BTreeMap<OsdId, Place>) -> Vec<(OsdId, Option<Beneath>)> {
    let of = |id: OsdId| {
        let folder = dir.join(format!("osd.{id}"));
        let path = match places.get(&id) {
            Some(place) => place.path.clone(),
            None if DataDir::is_made(&folder) => folder.join("data").canonicalize().ok()?,
            None => args.data.first().cloned().unwrap_or(folder),
        };
        osd::beneath::beneath(&path).ok()
    };
    ids.iter().map(|id| (*id, if wanted(args) == StoreKind::Mem { None } else { of(*id) })).collect()
}

/// Refuses to make a new cluster beside an OSD of another one: the monitor's store was lost, and the OSD's objects would be out of reach.
pub fn refuse_orphans(dir: &Path) -> Result<()> {
    let Some((id, path)) = osd_folders(dir).into_iter().next() else { return Ok(()) };
    let made = DataDir::open(&path, id)?;
    bail!(
        "{mon} holds no cluster, but {path} holds osd.{id} of cluster {fsid}: a new cluster could not read its objects. Put the {mon} of that cluster \
         back (`humboldt restore-mon --dir {dir}` makes it of the mon.copy beside it, if there is one); or save the objects with `humboldt store --dir {path} export FILE`, move {path} away, and start again for a new cluster",
        mon = dir.join("mon.redb").display(),
        dir = dir.display(),
        path = path.display(),
        fsid = made.cluster_fsid,
    )
}

/// Refuses folders of which all belong to another cluster than the monitor's store. One among others is a disk that was mixed up: that OSD stays
/// down.
pub fn refuse_strangers(dir: &Path, fsid: Uuid) -> Result<()> {
    let made = |(id, path): (i32, PathBuf)| Some((id, DataDir::open(&path, id).ok()?));
    let found: Vec<(i32, DataDir)> = osd_folders(dir).into_iter().filter_map(made).collect();
    match found.first() {
        Some((id, made)) if found.iter().all(|(_, made)| made.cluster_fsid != fsid) => bail!(stranger(*id, made, fsid)),
        _ => Ok(()),
    }
}

fn stranger(id: OsdId, made: &DataDir, fsid: Uuid) -> String {
    let dir = made.path.parent().unwrap_or(Path::new("."));
    format!(
        "{path} (osd.{id}) belongs to cluster {theirs}, and {mon} is the monitor of cluster {fsid}: put the mon.redb of {theirs} back, or move \
         {path} away (`humboldt store --dir {path} export FILE` saves its objects)",
        path = made.path.display(),
        mon = dir.join("mon.redb").display(),
        theirs = made.cluster_fsid,
    )
}

/// Where the stores of a cluster's OSDs are found or made.
pub struct Stores<'a> {
    pub args: &'a Up,
    pub dir: &'a Path,
    pub cluster_fsid: Uuid,
    /// So many share memory and devices.
    pub osds: u32,
    pub memory: Memory,
    /// The memory that this process can spare for each, if that is bounded and they are its threads.
    pub spare: Option<watch::Receiver<Spare>>,
    /// Where those that are to be made lie, if they are spread over devices.
    pub places: BTreeMap<OsdId, Place>,
    /// The `device` buckets of those that are to take one.
    pub buckets: BTreeMap<OsdId, String>,
    /// The CPUs of those that are to have some of their own.
    pub cpus: BTreeMap<OsdId, String>,
}

/// Where objects are to be kept.
fn wanted(args: &Up) -> StoreKind {
    // A responder that keeps nothing needs no disk.
    args.store.unwrap_or(if args.null { StoreKind::Mem } else { StoreKind::Block })
}

/// Memory for so many OSDs of `up`.
pub fn memory(args: &Up, osds: u32) -> Result<Memory> {
    Memory::of(Asked {
        limit: args.memory_limit,
        memory: args.memory,
        osds,
        in_memory: wanted(args) == StoreKind::Mem,
        processes: args.processes,
    })
}

impl Stores<'_> {
    /// True if objects end with their OSDs.
    pub fn in_memory(&self) -> bool {
        wanted(self.args) == StoreKind::Mem
    }
    fn folder(&self, id: OsdId) -> PathBuf {
        self.dir.join(format!("osd.{id}"))
    }

    /// Refuses a command line that contradicts what is there, before anything is made.
    pub fn refuse_wrong_ways(&self, ids: &[OsdId], is_spread: bool) -> Result<()> {
        let mut devices = self.args.devices();
        if self.in_memory() {
            devices.refuse()?;
        }
        if is_spread {
            // Its devices were looked at one by one.
            devices.data = None;
        }
        let mut elsewhere = Vec::new();
        for id in ids {
            let folder = self.folder(*id);
            let Some(made) = DataDir::is_made(&folder).then(|| DataDir::open(&folder, *id).ok()).flatten() else { continue };
            if self.args.store == Some(StoreKind::Mem) {
                bail!("{} holds a store of type {}: start without --store, or with another --dir", folder.display(), made.kind);
            }
            if made.kind == BLOCK && devices.is_placed() {
                elsewhere.push(devices.refuse_others(&folder));
            }
        }
        // One whose disk was replaced lies elsewhere than the others.
        match elsewhere.iter().all(Result::is_err) {
            true => elsewhere.into_iter().next().unwrap_or(Ok(())),
            false => Ok(()),
        }
    }

    /// The store of an OSD. What it has it keeps, whatever is asked for. A new one is made only for an OSD that the map does not know, or in memory
    /// if that is asked for by name: where the map's OSD has none, its disk is gone.
    pub fn of(&self, id: OsdId, known: Option<&Known>) -> Result<OsdStore> {
        let mut store = self.look(id, known)?;
        // The map may have given it one meanwhile, which it keeps.
        store.device = self.buckets.get(&id).filter(|_| known.is_none_or(|known| known.device.is_none())).cloned();
        store.cpus = self.cpus.get(&id).cloned();
        Ok(store)
    }
    fn look(&self, id: OsdId, known: Option<&Known>) -> Result<OsdStore> {
        let (folder, dir) = (self.folder(id), self.dir.display());
        let at = folder.display();
        let found = osd::data_dir::look(&folder);
        if known.is_some_and(|known| known.is_destroyed) {
            bail!("it was destroyed: put a new disk in, then run `humboldt osd replace {id} --dir {dir}`");
        }
        let why_gone = match found {
            Found::Made => return self.found(id, &folder, known),
            Found::Unreadable(why) => bail!(self.unreadable(id, &why)),
            _ if self.in_memory() => {
                return Ok(self.store(StoreConfig::Mem { capacity: self.memory.objects }, None, true));
            }
            Found::Missing => "is gone",
            Found::Empty => "is empty",
            Found::NotWhole => "holds no whole store",
        };
        if known.is_some() {
            bail!(
                "{at} {why_gone}: mount its disk again, and it starts by itself; or put a new disk in and run `humboldt osd replace {id} --dir {dir}`"
            );
        }
        let new = match self.places.get(&id) {
            Some(place) => self.spread(id, place)?,
            None => {
                let devices = self.args.devices();
                let mut new = new_store(&devices, self.dir, self.osds)?;
                new.share = (devices.is_placed() && self.osds > 1).then_some(Share { index: id as u64, of: self.osds.into() });
                new
            }
        };
        let made = osd::store::mkfs(&folder, id, fresh_uuid(), self.cluster_fsid, &new, "").context("making a store")?;
        Ok(self.block(made, true))
    }

    /// A store whose parts lie on one of several devices, unless they are named.
    fn spread(&self, id: OsdId, place: &Place) -> Result<NewStore> {
        let Parts { wal, meta, size } = self.args.parts.clone();
        let (of, is_dir) = (place.of_device.of as u32, place.path.is_dir());
        let data = if is_dir { folder_on(&place.path, id) } else { place.path.clone() };
        if is_dir {
            let is_used = std::fs::read_dir(&data).is_ok_and(|mut entries| entries.next().is_some());
            anyhow::ensure!(!is_used, "{} holds something already: move it away if it is of another cluster", data.display());
            disk::create_dirs(&data).with_context(|| format!("making {}", data.display()))?;
        }
        let at = place.path.ancestors().find(|at| at.exists()).unwrap_or(&place.path);
        let free = disk::free_bytes(at).with_context(|| at.display().to_string())?;
        let size = size.unwrap_or_else(|| size_default(free, of));
        if is_dir && place.of_device.index == 0 {
            warn_of_room(at, size * u64::from(of));
        }
        let share = (wal.is_some() || meta.is_some()).then_some(place.of_all);
        Ok(NewStore { data: Some(data), wal, meta, size, share, together: Some(place.of_device) })
    }

    /// What is said of a folder whose file system does not say what is in it.
    fn unreadable(&self, id: OsdId, why: &str) -> String {
        format!(
            "{} can't be read: {why}; mend the disk, and it starts by itself; or put a new disk in and run `humboldt osd replace {id} --dir {}`",
            self.folder(id).display(),
            self.dir.display()
        )
    }

    fn found(&self, id: OsdId, folder: &Path, known: Option<&Known>) -> Result<OsdStore> {
        let made = match DataDir::open(folder, id) {
            Err(e) if e.chain().any(|cause| cause.is::<std::io::Error>()) => bail!(self.unreadable(id, &format!("{e:#}"))),
            other => other.with_context(|| format!("the disk of osd.{id} is not where it was"))?,
        };
        if made.cluster_fsid != self.cluster_fsid {
            bail!(stranger(id, &made, self.cluster_fsid));
        }
        if made.kind != BLOCK {
            bail!("{} holds a store of type {}, which this program doesn't know", folder.display(), made.kind);
        }
        if let Some(known) = known.filter(|known| known.uuid != made.osd_fsid) {
            bail!(
                "{} holds the disk of OSD {}, and osd.{id} is {}: put its own disk back, or move this folder away and run `humboldt osd replace {id} --dir {}`",
                folder.display(),
                made.osd_fsid,
                known.uuid,
                self.dir.display()
            );
        }
        if let Ok(device) = std::fs::read_link(folder.join("data"))
            && !device.exists()
        {
            bail!(
                "{} is gone, which has the data of osd.{id}: attach or mount it again, and osd.{id} starts by itself; or put a new disk in and run `humboldt osd replace {id} --dir {}`",
                device.display(),
                self.dir.display()
            );
        }
        grow(folder, self.args.parts.size)?;
        Ok(self.block(made, false))
    }

    fn block(&self, made: DataDir, is_new: bool) -> OsdStore {
        self.store(StoreConfig::Block { dir: made.path.clone(), memory: self.memory.caches }, Some(made), is_new)
    }
    fn store(&self, config: StoreConfig, made: Option<DataDir>, is_new: bool) -> OsdStore {
        OsdStore { config, made, is_new, memory_limit: self.memory.limit_of_osd(), spare: self.spare.clone(), device: None, cpus: None }
    }
}

/// For a new store.
pub fn fresh_uuid() -> Uuid {
    let mut fresh = [0; 16];
    cephx::Entropy::fill(&mut net::auth_cephx::entropy(), &mut fresh);
    Uuid::from_random(fresh)
}

/// Says so if the file system of `dir` has less room than stores on it may take: files are made with holes, and fill later.
pub fn warn_of_room(dir: &Path, bytes: u64) {
    const MIB: u64 = 1 << 20;
    if let Ok(free) = disk::free_bytes(dir)
        && bytes > free
    {
        let (dir, free, bytes) = (dir.display(), free / MIB, bytes / MIB);
        say::eprintln!(
            "the file system of {dir} has {free} MiB left, and {bytes} MiB may be stored: make room before it is full, or give a smaller --size"
        );
    }
}

/// A store that is there becomes as large as is asked for, if its data lie in a file of their own; it never becomes smaller.
fn grow(folder: &Path, size: Option<u64>) -> Result<()> {
    let Some(size) = size else { return Ok(()) };
    let now = StoreConfig::Block { dir: folder.to_path_buf(), memory: CACHE_DEFAULT }.size();
    if size <= now {
        if size < now {
            say::eprintln!("{} has {now} bytes, and keeps them: a store becomes larger only", folder.display());
        }
        return Ok(());
    }
    warn_of_room(folder, size - now);
    let (data, meta) =
        osd::store::grow(folder, Some(size)).context("making the store larger: start without --size to leave it as it is")?;
    say::eprintln!("{} has {data} bytes of data and {meta} of metadata now", folder.display());
    Ok(())
}

/// What a store that is made on these devices is to be; the file system of `dir` is shared by `osds` stores.
pub fn new_store(devices: &Devices, dir: &Path, osds: u32) -> Result<NewStore> {
    let Devices { data, parts: Parts { wal, meta, size } } = devices.clone();
    let size = match size {
        Some(size) => size,
        None => size_default(disk::free_bytes(dir).with_context(|| dir.display().to_string())?, osds),
    };
    if data.is_none() {
        warn_of_room(dir, size);
    }
    Ok(NewStore { data, wal, meta, size, ..NewStore::default() })
}
