//! A new cluster: everything that the store holds before the monitor starts for the first time.

use crate::auth::AuthService;
use crate::config::{ConfigDb, Section};
use crate::kv::Batch;
use crate::monmap::NAME;
use cephx::{EntityAuth, Entropy, KeyType};
use denc::Denc;
use maps::{CrushMap, MgrMap, MonMap, OsdMap, Release, map_flags};
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{EntityAddrVec, EntityText, UTime, Uuid, features};

/// What a new cluster is to be.
#[derive(Debug, Clone)]
pub struct NewCluster {
    pub fsid: Uuid,
    pub mon_addrs: EntityAddrVec,
    /// The type of bucket that copies are spread over: `osd` on one machine, `host` on several.
    pub failure_domain: String,
    /// Keys are made for `osd.0` up to this many; the OSDs themselves come with `osd new`.
    pub osds: u32,
    /// The type of these and later keys.
    pub key_type: KeyType,
    /// Settings to begin with: section, name, value.
    pub config: Vec<(String, String, String)>,
}

/// The keys that were made.
#[derive(Debug, Clone)]
pub struct Keys {
    pub entities: BTreeMap<EntityText, EntityAuth>,
}

impl Keys {
    /// A keyring file with these entities.
    pub fn keyring(&self, names: &[&str]) -> String {
        let wanted = |name: &EntityText| names.iter().any(|n| *n == name.to_string());
        let entities = self.entities.iter().filter(|(n, _)| wanted(n)).map(|(n, e)| (n.clone(), e.clone())).collect();
        cephx::Keyring { entities }.to_string()
    }
}

/// Who exists in a new cluster, with which capabilities.
const ENTITIES: &[(&str, &[(&str, &str)])] = &[
    ("mon.", &[("mon", "allow *")]),
    ("client.admin", &[("mds", "allow *"), ("mgr", "allow *"), ("mon", "allow *"), ("osd", "allow *")]),
    ("mgr.x", &[("mds", "allow *"), ("mon", "allow profile mgr"), ("osd", "allow *")]),
    ("client.bootstrap-osd", &[("mon", "allow profile bootstrap-osd")]),
];

/// Capabilities of every OSD.
pub const OSD_CAPS: &[(&str, &str)] = &[("mgr", "allow profile osd"), ("mon", "allow profile osd"), ("osd", "allow *")];

/// The first content of a store, and the keys in it.
pub fn mkfs(new: &NewCluster, now: UTime, entropy: &mut dyn Entropy) -> (Batch, Keys) {
    let mut batch = Batch::default();
    batch.put_text("fsid", &new.fsid.to_string());
    batch.put_text("format", "1");

    let mut auth = AuthService::default();
    auth.prefer(new.key_type, &mut batch);
    for (name, caps) in ENTITIES {
        let name = EntityText::parse(name).expect("the table's names are entities");
        let caps = caps.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        auth.create(name, caps, now, entropy, &mut batch);
    }
    batch.append(auth.add_osds(new.osds, now, entropy));
    let mut config = ConfigDb::default();
    for (section, name, value) in &new.config {
        let section = Section::parse(section).expect("the caller's sections are well-formed");
        config.change(section, name, Some(value.clone()), now, &mut batch);
    }

    let mut monmap = MonMap {
        fsid: new.fsid,
        epoch: 1,
        last_changed: now,
        created: now,
        persistent_features: maps::mon_map::MonFeatures::PERSISTENT_REEF,
        min_mon_release: Release::REEF,
        ..MonMap::default()
    };
    monmap.add(NAME, new.mon_addrs.clone());
    batch.put("monmap", monmap.to_bytes(features::SUPPORTED));

    let mgrmap = MgrMap { epoch: 1, modules: ["restful".to_string()].into(), ..MgrMap::default() };
    batch.put("mgrmap", mgrmap.to_bytes(features::SUPPORTED));

    let map = first_osdmap(new, now);
    batch.put("osdmap/full/0000000001", map.encode_canonical().0);
    (batch, Keys { entities: auth.entities })
}

/// Epoch 1: no OSD, no pool, a CRUSH tree with one root and one rule.
fn first_osdmap(new: &NewCluster, now: UTime) -> OsdMap {
    let profile = [("k", "2"), ("m", "2"), ("plugin", "jerasure"), ("technique", "reed_sol_van")];
    OsdMap {
        fsid: new.fsid,
        epoch: 1,
        created: now,
        modified: now,
        last_up_change: now,
        last_in_change: now,
        flags: map_flags::SORTBITWISE | map_flags::RECOVERY_DELETES | map_flags::PURGED_SNAPDIRS | map_flags::PGLOG_HARDLIMIT,
        crush: Arc::new(CrushMap::new_cluster(&new.failure_domain)),
        crush_version: 1,
        erasure_code_profiles: [("default".to_string(), profile.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())].into(),
        nearfull_ratio: 0.85,
        backfillfull_ratio: 0.90,
        full_ratio: 0.95,
        require_min_compat_client: Release::LUMINOUS,
        require_osd_release: Release::REEF,
        ..OsdMap::default()
    }
}
