//! A cluster's folder: the monitor's store, and what clients need to find it.
//!
//! ```text
//! DIR/mon.redb                      the monitor's store
//! DIR/mon.copy                      a copy of it, for `humboldt restore-mon`
//! DIR/ceph.conf                     for clients: works as it stands
//! DIR/ceph.client.admin.keyring
//! DIR/osd.N.keyring                 for OSDs that run as processes of their own
//! DIR/mon.a.asok, DIR/osd.N.asok    sockets for commands of this machine, while their daemons run
//! ```

use crate::{AuthMode, Store};
use anyhow::{Context, Result, bail};
use cephx::{KeyType, Keyring};
use mon_core::config::{ConfigDb, Section};
use mon_core::{Batch, NewCluster, Snapshot};
use net::modes::NAMES;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use types::{EntityAddr, EntityAddrVec, EntityText, Uuid};

/// What a new cluster is to be.
#[derive(Debug, Clone)]
pub struct MkfsOptions {
    pub auth: AuthMode,
    /// The type of a new cluster's keys.
    pub key_type: KeyType,
    /// Where the monitor will listen; port 0 is settled when it does.
    pub listen: SocketAddr,
    /// Keys are made for `osd.0` up to this many.
    pub osds: u32,
    /// Over how many devices the OSDs of a new cluster are spread, if some share one: rules choose among these, and each holds one copy
    /// at most.
    pub devices: Option<u32>,
    /// Further settings of a new cluster: section, name, value.
    pub config: Vec<(String, String, String)>,
    /// All connections are to be encrypted from now on: [`SECURE_SETTINGS`], in an old cluster, too.
    pub secure: bool,
}

/// A cluster's folder, opened.
pub struct Cluster {
    pub dir: PathBuf,
    pub fsid: Uuid,
    /// All entities' keys, for daemons of the same process.
    pub keyring: Keyring,
    pub auth: AuthMode,
    /// False if it was there before.
    pub is_new: bool,
    /// Which connections are to be encrypted, by the cluster's configuration, where it says so for all or for a kind of daemon: section, name, value.
    pub modes: Vec<(String, String, String)>,
    pub store: Store,
}

impl Cluster {
    /// An entity's keyring as a file's text.
    pub fn keyring_of(&self, name: &str) -> Option<String> {
        let name = EntityText::parse(name)?;
        let entity = self.keyring.get(&name)?.clone();
        Some(Keyring { entities: [(name, entity)].into() }.to_string())
    }
    /// Writes the keyring files that are not there, or not with these keys.
    fn write_keyrings(&self, osds: u32) -> Result<()> {
        let osds = (0..osds).map(|osd| format!("osd.{osd}"));
        for name in std::iter::once("client.admin".to_string()).chain(osds) {
            let file = if name == "client.admin" { format!("ceph.{name}.keyring") } else { format!("{name}.keyring") };
            let (path, text) = (self.dir.join(file), self.keyring_of(&name));
            if let Some(text) = text {
                disk::update_file(&path, text.as_bytes(), 0o600).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }
}

/// Settings of every new cluster that differ from Ceph's defaults, since it is one machine; the guide's page on configuration lists them. All in
/// `global`: a narrower section would win over what an operator sets there.
const SETTINGS: &[(&str, &str, &str)] = &[
    // The manager endpoint has no autoscaler: a pool whose mode is `on` would say what nothing does.
    ("global", "osd_pool_default_pg_autoscale_mode", "off"),
    // Copies on several OSDs of the one machine; by host there is place for one.
    ("global", "osd_crush_chooseleaf_type", "0"),
    // A cluster of one OSD has no other pools, and one whose OSDs share a device gains nothing by copies. --yes-i-really-mean-it is asked for all the
    // same.
    ("global", "mon_allow_pool_size_one", "true"),
    // Few OSDs have all pools: radosgw and CephFS alone bring more groups than 250.
    ("global", "mon_max_pg_per_osd", "1000"),
    // The kernel's client speaks msgr1 unless told otherwise, and there is no msgr1 here.
    ("global", "rbd_default_map_options", RBD_MAP_OPTIONS),
    // An OSD that hangs is down after 8 s at most, where Ceph's defaults (20 and 6) take 26. Read leases last 0.8 times the grace.
    ("global", "osd_heartbeat_grace", "7"),
    ("global", "osd_heartbeat_interval", "1"),
];

/// Settings of a cluster for tests and trials (`--dev`), as Ceph's own vstart has them.
pub const DEV_SETTINGS: &[(&str, &str, &str)] =
    &[("global", "mon_allow_pool_delete", "true"), ("global", "mon_warn_on_pool_no_redundancy", "false")];

/// Every connection is encrypted (`--secure`). In `global`, so that each daemon and each client hears of it.
pub const SECURE_SETTINGS: [(&str, &str, &str); 6] = [
    ("global", "ms_cluster_mode", "secure"),
    ("global", "ms_service_mode", "secure"),
    ("global", "ms_client_mode", "secure"),
    ("global", "ms_mon_cluster_mode", "secure"),
    ("global", "ms_mon_service_mode", "secure"),
    ("global", "ms_mon_client_mode", "secure"),
];

/// Copies of new pools: as many as there are OSDs (or devices, where OSDs share these), up to Ceph's own three. With one OSD a pool
/// whose size is raised later goes on with one copy, and a warning that it has but one would never end.
fn copies(osds: u32) -> Vec<(String, String, String)> {
    let set = |name: &str, value: &str| ("global".to_string(), name.to_string(), value.to_string());
    let mut all = vec![set("osd_pool_default_size", &osds.clamp(1, 3).to_string())];
    if osds <= 1 {
        all.push(set("osd_pool_default_min_size", "1"));
        all.push(set("mon_warn_on_pool_no_redundancy", "false"));
    }
    all
}

/// How the kernel maps images of a cluster that speaks msgr2 only.
const RBD_MAP_OPTIONS: &str = "ms_mode=prefer-crc";

/// Opens a cluster's folder, or makes a new cluster in it if `may_mkfs` does not object: what else lies in the folder may belong to a cluster
/// whose monitor's store was lost. Nothing is written before it was asked.
pub fn open_or_mkfs(dir: &Path, options: &MkfsOptions, may_mkfs: impl FnOnce() -> Result<()>) -> Result<Cluster> {
    let path = dir.join("mon.redb");
    let known = match path.exists() {
        true => Some(Store::open(&path)?).filter(|(_, snapshot)| !snapshot.0.is_empty()),
        false => None,
    };
    let Some((store, snapshot)) = known else {
        may_mkfs()?;
        disk::create_dirs(dir).with_context(|| format!("the folder {}", dir.display()))?;
        let (store, _) = Store::open(&path)?;
        disk::sync_dir(dir).with_context(|| format!("the folder {}", dir.display()))?;
        return mkfs(dir, store, options);
    };
    let fsid = snapshot.text("fsid").and_then(|s| Uuid::parse(&s)).context("the store has no fsid")?;
    let auth = match snapshot.text("auth-mode").as_deref() {
        Some("none") => AuthMode::None,
        _ => AuthMode::Cephx,
    };
    if auth != options.auth {
        bail!("the cluster in {} was made with --auth {name}: start it with --auth {name}", dir.display(), name = auth.name());
    }
    store.keep_copy(&snapshot);
    let mut service = mon_core::auth::AuthService::load(&snapshot);
    let mut config = ConfigDb::load(&snapshot);
    let mut batch = Batch::default();
    for (section, name, value) in SECURE_SETTINGS.into_iter().filter(|_| options.secure) {
        let section = Section { who: section.into(), ..Section::default() };
        config.change(section, name, Some(value.into()), net::auth_cephx::now(), &mut batch);
    }
    batch.append(service.add_osds(options.osds, net::auth_cephx::now(), &mut net::auth_cephx::entropy()));
    store.apply(&batch)?;
    let modes = modes_set(&config);
    let cluster = Cluster { dir: dir.into(), fsid, keyring: service.keyring(None), auth, is_new: false, modes, store };
    cluster.write_keyrings(options.osds)?;
    Ok(cluster)
}

/// What ceph.conf says, too, so that daemons know it before they reach a monitor.
fn modes_set(config: &ConfigDb) -> Vec<(String, String, String)> {
    let all = config.entries.iter().filter(|((section, name), _)| section.mask.is_empty() && NAMES.contains(&name.as_str()));
    let rows = all.map(|((section, name), value)| (section.who.clone(), name.clone(), value.clone()));
    rows.filter(|(who, ..)| !who.contains('.')).collect()
}

/// Makes a new cluster in an empty store.
pub fn mkfs(dir: &Path, store: Store, options: &MkfsOptions) -> Result<Cluster> {
    let mut entropy = net::auth_cephx::entropy();
    let mut id = [0; 16];
    cephx::Entropy::fill(&mut entropy, &mut id);
    let fsid = Uuid::from_random(id);
    let owned = |(s, n, v): &(&str, &str, &str)| (s.to_string(), n.to_string(), v.to_string());
    let mut config: Vec<_> = SETTINGS.iter().map(owned).chain(copies(options.devices.unwrap_or(options.osds))).collect();
    config.extend(options.config.iter().cloned());
    config.extend(SECURE_SETTINGS.iter().filter(|_| options.secure).map(owned));
    let modes = config.iter().filter(|(_, name, _)| NAMES.contains(&name.as_str())).cloned().collect();
    let new = NewCluster {
        fsid,
        mon_addrs: EntityAddrVec::one(EntityAddr::msgr2(options.listen, 0)),
        failure_domain: if options.devices.is_some() { "device" } else { "osd" }.into(),
        osds: options.osds,
        key_type: options.key_type,
        config,
    };
    let (mut batch, keys) = mon_core::mkfs(&new, net::auth_cephx::now(), &mut entropy);
    batch.put_text("auth-mode", options.auth.name());
    store.keep_copy(&Snapshot::default());
    store.apply(&batch)?;
    let keyring = Keyring { entities: keys.entities };
    let cluster = Cluster { dir: dir.into(), fsid, keyring, auth: options.auth, is_new: true, modes, store };
    cluster.write_keyrings(options.osds)?;
    Ok(cluster)
}

/// The text of a `ceph.conf` for clients of this cluster; `modes` as [`Cluster::modes`].
pub fn conf_text(dir: &Path, fsid: Uuid, mon: SocketAddr, auth: AuthMode, modes: &[(String, String, String)]) -> String {
    let modes_of = |section: &str| {
        let rows = modes.iter().filter(|(who, ..)| who == section);
        rows.map(|(_, name, value)| format!("{name} = {value}\n")).collect::<String>()
    };
    let (of_all, of_mon, of_osd, of_clients) = (modes_of("global"), modes_of("mon"), modes_of("osd"), modes_of("client"));
    let of_clients = if of_clients.is_empty() { of_clients } else { format!("[client]\n{of_clients}") };
    let (dir, auth) = (dir.display(), auth.name());
    format!(
        "# Written by humboldt at each start.\n\
         [global]\n\
         fsid = {fsid}\n\
         mon host = [v2:{mon}]\n\
         auth cluster required = {auth}\n\
         auth service required = {auth}\n\
         auth client required = {auth}\n\
         keyring = {dir}/ceph.$name.keyring\n\
         {of_all}\
         # Kernels map images (`rbd map`, from 5.11 on) by the cluster's own setting, to be changed with `ceph config set global`:\n\
         # rbd_default_map_options = {RBD_MAP_OPTIONS}\n\
         [mon]\n\
         admin socket = {dir}/$name.asok\n\
         {of_mon}\
         [osd]\n\
         admin socket = {dir}/$name.asok\n\
         {of_osd}\
         {of_clients}"
    )
}

/// A daemon's admin socket in the cluster's folder; none where the path is longer than a socket's may be.
pub fn admin_socket(dir: &Path, name: &str) -> Option<PathBuf> {
    let path = dir.join(format!("{name}.asok"));
    (path.as_os_str().len() <= net::admin_socket::PATH_MAX).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's and a gateway's log goes where Ceph's own defaults send it: what swallows it would be noticed when it is needed.
    #[test]
    fn the_conf_of_a_cluster_redirects_no_log() {
        let at = SocketAddr::from(([127, 0, 0, 1], 3300));
        let modes = [("client".into(), "ms_client_mode".into(), "crc".into())];
        let text = conf_text(Path::new("/c"), Uuid::from_random([7; 16]), at, AuthMode::Cephx, &modes);
        let options: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0.trim())).collect();
        assert!(options.contains(&"keyring") && options.contains(&"ms_client_mode"), "{text}");
        assert!(options.iter().all(|option| !option.contains("log") && !option.contains("stderr")), "{text}");
    }

    #[test]
    fn the_guide_lists_what_a_new_cluster_sets_and_pools_stay() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/configuration.md");
        let page = std::fs::read_to_string(page).unwrap();
        let section = page.split("## What a new cluster sets").nth(1).unwrap().split("\n## ").next().unwrap();
        let set: Vec<(String, String)> = [1, 3]
            .into_iter()
            .flat_map(|osds| copies(osds).into_iter().map(|(_, name, value)| (name, value)))
            .chain(SETTINGS.iter().map(|(_, name, value)| (name.to_string(), value.to_string())))
            .collect();
        for (name, value) in &set {
            let row = section.lines().find(|l| l.starts_with('|') && l.contains(&format!("`{name}`")));
            let row = row.unwrap_or_else(|| panic!("{name} is not listed"));
            assert!(name == "osd_pool_default_size" || row.contains(&format!("`{value}`")), "{name} = {value}: {row}");
        }
        // Ceph's own default, no less: whatever deletes a pool by mistake is refused.
        assert!(set.iter().all(|(name, _)| name != "mon_allow_pool_delete"));
        assert!(DEV_SETTINGS.iter().any(|(_, name, value)| (*name, *value) == ("mon_allow_pool_delete", "true")));
    }
}
