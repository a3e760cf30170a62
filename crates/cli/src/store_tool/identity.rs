//! Whose store it is after an import: that of the OSD in whose folder it lies. An export has the identity of the OSD that it was made of; the disk of that one
//! may be gone, and the cluster knows the new one by a uuid of its own.

use super::Offline;
use anyhow::{Result, ensure};
use denc::Denc;
use osd::DataDir;
use std::path::Path;
use store::ObjectStore;
use types::{CollId, GHObject, HObject, OsdId, OsdSuperblock, Transaction, features};

/// Gives the store its folder's uuid, if it has another. A folder that is no OSD's has none.
pub fn settle(offline: &mut Offline, folder: &Path) -> Result<()> {
    let whoami = std::fs::read_to_string(folder.join("whoami")).ok().and_then(|text| text.trim().parse::<OsdId>().ok());
    let Some(whoami) = whoami.filter(|_| DataDir::is_made(folder)) else { return Ok(()) };
    let own = DataDir::open(folder, whoami)?;
    let name = GHObject::plain(HObject { oid: "osd_superblock".into(), hash: 0, pool: -1, ..HObject::min() });
    if !offline.ask(|s| s.collections())?.contains(&CollId::Meta) || !offline.ask(|s| s.exists(CollId::Meta, &name))? {
        return Ok(());
    }
    let size = offline.ask(|s| s.stat(CollId::Meta, &name))?.size;
    let bytes = offline.ask(|s| s.read(CollId::Meta, &name, 0, size))?.flat();
    let found = OsdSuperblock::from_bytes(&bytes)?;
    ensure!(
        (found.whoami, found.cluster_fsid) == (whoami, own.cluster_fsid),
        "the export is of osd.{} of cluster {}, and {} is that of osd.{whoami} of cluster {}: its OSD will not start",
        found.whoami,
        found.cluster_fsid,
        folder.display(),
        own.cluster_fsid
    );
    if found.osd_fsid == own.osd_fsid {
        return Ok(());
    }
    let new = OsdSuperblock { osd_fsid: own.osd_fsid, ..found };
    let mut txn = Transaction::new(CollId::Meta);
    txn.truncate(&name, 0);
    txn.write(&name, 0, new.to_bytes(features::SUPPORTED), 0);
    offline.commit(txn, None)
}
