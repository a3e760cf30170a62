//! An OSD's data folder as operators of Ceph know it: small files that say whose it is.
//!
//! `fsid` is the OSD's own uuid, `ceph_fsid` the cluster's, `whoami` its number, `type` its store, `keyring` its key. Objects are the store's.

use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::{Path, PathBuf};
use types::{OsdId, Uuid};

/// What there is at the place of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Missing,
    /// A folder without a file of ours, such as one that a disk is to be mounted at.
    Empty,
    /// Some files of ours, and not the last one.
    NotWhole,
    Made,
    /// The file system does not say.
    Unreadable(String),
}

/// Looks at the place of a folder, and reads none of its files.
pub fn look(path: &Path) -> Found {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match path.join("ready").try_exists() {
        Ok(true) => return Found::Made,
        Ok(false) => {}
        Err(e) if e.kind() == NotADirectory => return Found::Missing,
        Err(e) => return Found::Unreadable(e.to_string()),
    }
    let entries = match std::fs::read_dir(path).and_then(Iterator::collect::<std::io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => return Found::Missing,
        Err(e) => return Found::Unreadable(e.to_string()),
    };
    // A new file system brings a folder of its own.
    if entries.iter().all(|entry| entry.file_name() == "lost+found") { Found::Empty } else { Found::NotWhole }
}

/// An opened folder.
#[derive(Debug, Clone)]
pub struct DataDir {
    pub path: PathBuf,
    pub osd_fsid: Uuid,
    pub cluster_fsid: Uuid,
    /// Of the store.
    pub kind: String,
    /// Empty: the store's default.
    pub device_class: String,
}

impl DataDir {
    /// True if `path` was made by [`DataDir::mkfs`].
    pub fn is_made(path: &Path) -> bool {
        path.join("ready").exists()
    }

    /// Makes the folder, which may hold a keyring already. A folder of another OSD or cluster is refused.
    pub fn mkfs(path: &Path, id: OsdId, osd_fsid: Uuid, cluster_fsid: Uuid, kind: &str, device_class: &str) -> Result<Self> {
        disk::create_dirs(path).with_context(|| format!("making {}", path.display()))?;
        if Self::is_made(path) {
            let made = Self::open(path, id)?;
            if (made.osd_fsid, made.cluster_fsid, &*made.kind) != (osd_fsid, cluster_fsid, kind) {
                bail!("{} is that of OSD {} in cluster {}", path.display(), made.osd_fsid, made.cluster_fsid);
            }
            return Ok(made);
        }
        // Each on the disk before the next: a power cut may come at once, and a file without its content says something else.
        let write = |name: &str, value: &str| -> Result<()> {
            let at = path.join(name);
            let written = std::fs::File::create(&at).and_then(|mut file| {
                file.write_all(format!("{value}\n").as_bytes())?;
                file.sync_all()
            });
            written.with_context(|| at.display().to_string())
        };
        let sync = |dir: &Path| std::fs::File::open(dir).and_then(|d| d.sync_all()).with_context(|| dir.display().to_string());
        write("magic", "ceph osd volume v026")?;
        write("whoami", &id.to_string())?;
        write("ceph_fsid", &cluster_fsid.to_string())?;
        write("fsid", &osd_fsid.to_string())?;
        write("type", kind)?;
        if !device_class.is_empty() {
            write("crush_device_class", device_class)?;
        }
        // Last: a folder without it is not whole.
        sync(path)?;
        write("ready", "ready")?;
        sync(path)?;
        path.parent().filter(|up| !up.as_os_str().is_empty()).map_or(Ok(()), sync)?;
        Self::open(path, id)
    }

    /// Reads it; `id` is the OSD that we are to be.
    pub fn open(path: &Path, id: OsdId) -> Result<Self> {
        let read = |name: &str| -> Result<String> {
            let at = path.join(name);
            Ok(std::fs::read_to_string(&at).with_context(|| at.display().to_string())?.trim().to_string())
        };
        let uuid =
            |name: &str| -> Result<Uuid> { Uuid::parse(&read(name)?).with_context(|| format!("{}/{name} holds no uuid", path.display())) };
        let whoami = read("whoami")?;
        if whoami != id.to_string() {
            bail!("{} is that of osd.{whoami}, not of osd.{id}", path.display());
        }
        Ok(Self {
            path: path.to_path_buf(),
            osd_fsid: uuid("fsid")?,
            cluster_fsid: uuid("ceph_fsid")?,
            kind: read("type")?,
            device_class: read("crush_device_class").unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_looked_at_without_reading_what_is_there() {
        let path = std::env::temp_dir().join(format!("humboldt-data-dir-look-{}", std::process::id()));
        assert_eq!(look(&path), Found::Missing);
        std::fs::create_dir_all(path.join("lost+found")).unwrap();
        assert_eq!(look(&path), Found::Empty);
        std::fs::write(path.join("data"), "").unwrap();
        assert_eq!(look(&path), Found::NotWhole);
        std::fs::write(path.join("ready"), "").unwrap();
        assert_eq!((look(&path), look(&path.join("data"))), (Found::Made, Found::Missing));
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_folder_is_its_owners() {
        let path = std::env::temp_dir().join(format!("humboldt-data-dir-{}", std::process::id()));
        let (ours, cluster) = (Uuid::from_random([1; 16]), Uuid::from_random([2; 16]));
        assert!(!DataDir::is_made(&path));
        let made = DataDir::mkfs(&path, 3, ours, cluster, "memstore", "nvme").unwrap();
        assert_eq!((made.osd_fsid, made.cluster_fsid, &*made.device_class), (ours, cluster, "nvme"));
        DataDir::mkfs(&path, 3, ours, cluster, "memstore", "").unwrap();
        for (id, fsid) in [(4, ours), (3, cluster)] {
            assert!(DataDir::mkfs(&path, id, fsid, cluster, "memstore", "").is_err());
        }
        assert!(DataDir::open(&path, 4).is_err());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
