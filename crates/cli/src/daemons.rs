//! One daemon alone: `humboldt mon`, `humboldt osd`; and how `up` configures its OSDs.

use crate::args::{MonArgs, OsdArgs};
use crate::folder::Folder;
use crate::signals;
use anyhow::{Context, Result, bail};
use cephx::Keyring;
use objecter::conf::Conf;
use osd::{Admin, OsdConfig};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityKind, EntityText};

/// How long an OSD may take to be up.
pub const UP_TIMEOUT: Duration = Duration::from_secs(60);

/// A monitor that serves.
pub struct Monitor {
    pub handle: mon::MonHandle,
    /// Everybody's keys.
    pub keyring: Keyring,
    /// False if the cluster was there before.
    pub is_new: bool,
}

/// Opens or makes the cluster in `dir`, and starts its monitor. Writes `ceph.conf`.
pub fn start_mon(dir: &Path, listen: SocketAddr, auth: mon::AuthMode, osds: u32) -> Result<Monitor> {
    let cluster = mon::open_or_mkfs(dir, &mon::MkfsOptions { auth, listen, osds, config: Vec::new() })?;
    let (fsid, keyring, is_new) = (cluster.fsid, cluster.keyring.clone(), cluster.is_new);
    let handle = mon::start(mon::MonConfig { cluster, listen, mgr_port: 0 }).with_context(|| format!("the monitor on {listen}"))?;
    let conf = dir.join("ceph.conf");
    std::fs::write(&conf, mon::conf_text(dir, fsid, handle.mon_addr, auth)).with_context(|| conf.display().to_string())?;
    Ok(Monitor { handle, keyring, is_new })
}

/// `humboldt mon`: says where it listens, and serves.
pub fn mon(args: &MonArgs) -> Result<()> {
    let folder = Folder::hold(&args.dir.join("mon"))?;
    let dir = folder.dir.parent().context("the monitor's folder lies in the cluster's")?;
    let Monitor { handle, .. } = start_mon(dir, SocketAddr::new(args.listen, args.port), args.auth.mode(), args.osds)?;
    println!("mon.a serves at {}", handle.mon_addr);
    signals::wait(|| handle.is_finished())?;
    handle.stop()
}

/// What an OSD of this machine is started with.
pub fn osd_config(id: i32, monitor: EntityAddrVec, listen: IpAddr, capacity: u64, dir: &Path) -> OsdConfig {
    let host = client::setup::hostname();
    OsdConfig {
        id,
        monitors: vec![monitor],
        key: None,
        admin: None,
        listen,
        capacity,
        location: vec![("host".into(), host), ("root".into(), "default".into())],
        options: Vec::new(),
        spin_us: 0,
        data_dir: dir.display().to_string(),
        quiet: false,
        null: false,
    }
}

/// The key of `name` out of the keyring files that `paths` lists.
fn key_of(name: &EntityText, paths: &[PathBuf]) -> Result<Option<cephx::EntityAuth>> {
    for path in paths.iter().filter(|p| p.exists()) {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let keyring = Keyring::parse(&text).with_context(|| path.display().to_string())?;
        if let Some(auth) = keyring.get(name) {
            return Ok(Some(auth.clone()));
        }
    }
    Ok(None)
}

/// `humboldt osd`: one OSD of the cluster that a ceph.conf names, ours or stock.
pub fn osd(args: &OsdArgs) -> Result<()> {
    let name = EntityText::new(EntityKind::OSD, args.id.to_string());
    let path = args.conf.clone().unwrap_or_else(|| "humboldt-data/ceph.conf".into());
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}: give --conf", path.display()))?;
    let conf = Conf::parse(&text, name.clone()).with_context(|| path.display().to_string())?;
    let admin_name = EntityText::new(EntityKind::CLIENT, "admin");
    let admin_conf = Conf::parse(&text, admin_name.clone()).with_context(|| path.display().to_string())?;
    let dir = path.parent().unwrap_or(Path::new("."));
    let files = |given: &Option<PathBuf>, conf: &Conf, beside: String| -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = given.iter().cloned().collect();
        files.extend(conf.get("keyring").iter().flat_map(|list| list.split([',', ';'])).map(|p| PathBuf::from(p.trim())));
        files.push(dir.join(beside));
        files
    };
    let monitors = conf.mon_hosts();
    if monitors.is_empty() {
        bail!("{}: no `mon host`", path.display());
    }
    let mut config = osd_config(args.id, EntityAddrVec::default(), args.listen, args.memory, dir);
    config.monitors = monitors;
    config.spin_us = args.spin_us;
    config.null = args.null;
    let admin = key_of(&admin_name, &files(&args.admin_keyring, &admin_conf, "ceph.client.admin.keyring".into()))?;
    if conf.get("auth client required").as_deref() == Some("none") {
        config.admin = Some(Admin { name: admin_name, key: None });
    } else {
        let key = key_of(&name, &files(&args.keyring, &conf, format!("osd.{}.keyring", args.id)))?;
        let Some(key) = key else { bail!("no keyring holds the key of {name}: give --keyring") };
        config.key = Some(key.key);
        config.admin = admin.map(|auth| Admin::of(admin_name, &auth));
    }
    let mut handle = osd::start(config)?;
    handle.wait_up(UP_TIMEOUT)?;
    println!("osd.{} is up", args.id);
    signals::wait(|| handle.is_finished())?;
    handle.stop()
}

/// The monitor's address as OSDs dial it.
pub fn monitor_at(addr: SocketAddr) -> EntityAddrVec {
    EntityAddrVec::one(EntityAddr::msgr2(addr, 0))
}
