//! The stores of a cluster's OSDs: `DIR/osd.N`, found or made.

use crate::args::{Devices, StoreKind, Up};
use crate::folder::half_of_memory;
use anyhow::{Context, Result, bail, ensure};
use osd::store::{BLOCK, CACHE_DEFAULT, Share, size_default};
use osd::{DataDir, NewStore, StoreConfig};
use std::path::{Path, PathBuf};
use types::Uuid;

/// Bytes below which an OSD has no room for maps and logs in a memory store.
const MEM_MIN: u64 = 16 << 20;

/// One OSD's store.
pub struct OsdStore {
    pub config: StoreConfig,
    /// Its folder; `None` for a store in memory.
    pub made: Option<DataDir>,
    /// Nothing is in it.
    pub is_new: bool,
}

/// How many OSDs the cluster in `dir` is to have.
pub fn osd_count(args: &Up, dir: &Path) -> u32 {
    let found = || (0..64).take_while(|id| DataDir::is_made(&dir.join(format!("osd.{id}")))).count() as u32;
    args.osds.unwrap_or_else(|| found().max(1))
}

/// The folders of OSDs in `dir`.
fn osd_folders(dir: &Path) -> Vec<(i32, PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let id = |name: &str| name.strip_prefix("osd.")?.parse::<i32>().ok();
    let mut found: Vec<_> = entries.filter_map(|e| Some((id(e.file_name().to_str()?)?, e.path()))).collect();
    found.retain(|(_, path)| DataDir::is_made(path));
    found.sort();
    found
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

/// Refuses a folder in which an OSD belongs to another cluster than the monitor's store.
pub fn refuse_strangers(dir: &Path, fsid: Uuid) -> Result<()> {
    for (id, path) in osd_folders(dir) {
        let made = DataDir::open(&path, id)?;
        if made.cluster_fsid != fsid {
            bail!(
                "{path} (osd.{id}) belongs to cluster {theirs}, and {mon} is the monitor of cluster {fsid}: put the mon.redb of {theirs} back, or move \
                 {path} away (`humboldt store --dir {path} export FILE` saves its objects)",
                path = path.display(),
                mon = dir.join("mon.redb").display(),
                theirs = made.cluster_fsid,
            );
        }
    }
    Ok(())
}

/// The stores of all OSDs of the cluster in `dir`. What an OSD has it keeps, whatever is asked for: another kind is an error.
pub fn find_or_make(args: &Up, osds: u32, dir: &Path, cluster_fsid: Uuid) -> Result<Vec<OsdStore>> {
    // A responder that keeps nothing needs no disk.
    let wanted = args.store.unwrap_or(if args.null { StoreKind::Mem } else { StoreKind::Block });
    if wanted == StoreKind::Mem {
        args.devices.refuse()?;
    }
    let memory = args.memory.map(|m| m / u64::from(osds));
    let mut stores = Vec::new();
    for id in 0..osds as i32 {
        let folder = dir.join(format!("osd.{id}"));
        let found = DataDir::is_made(&folder).then(|| DataDir::open(&folder, id)).transpose()?;
        let is_new = found.is_none();
        let made = match found {
            Some(made) => {
                if made.kind != BLOCK || args.store == Some(StoreKind::Mem) {
                    bail!("{} holds a store of type {}: start without --store, or with another --dir", folder.display(), made.kind);
                }
                if made.cluster_fsid != cluster_fsid {
                    bail!("{} belongs to cluster {}, and this is {cluster_fsid}", folder.display(), made.cluster_fsid);
                }
                args.devices.refuse_others(&folder)?;
                grow(&folder, args.devices.size)?;
                made
            }
            None if wanted == StoreKind::Mem => {
                let capacity = memory.unwrap_or_else(|| half_of_memory() / u64::from(osds));
                ensure!(capacity >= MEM_MIN, "--memory is too little: give {} MiB or more for each OSD", MEM_MIN >> 20);
                stores.push(OsdStore { config: StoreConfig::Mem { capacity }, made: None, is_new: true });
                continue;
            }
            None => {
                let mut new = new_store(&args.devices, dir, osds)?;
                new.share = (args.devices.is_placed() && osds > 1).then_some(Share { index: id as u64, of: osds.into() });
                let mut fresh = [0; 16];
                cephx::Entropy::fill(&mut net::auth_cephx::entropy(), &mut fresh);
                osd::store::mkfs(&folder, id, Uuid::from_random(fresh), cluster_fsid, &new, "").context("making a store")?
            }
        };
        let config = StoreConfig::Block { dir: folder, memory: memory.unwrap_or(CACHE_DEFAULT) };
        stores.push(OsdStore { config, made: Some(made), is_new });
    }
    Ok(stores)
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
    let Devices { data, wal, meta, size } = devices.clone();
    let size = match size {
        Some(size) => size,
        None => size_default(disk::free_bytes(dir).with_context(|| dir.display().to_string())?, osds),
    };
    if data.is_none() {
        warn_of_room(dir, size);
    }
    Ok(NewStore { data, wal, meta, size, share: None })
}
