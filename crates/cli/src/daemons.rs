//! The monitor alone: `humboldt mon`; and how `up` configures its OSDs.

use crate::args::{KeyKind, MonArgs, Web};
use crate::folder::Folder;
use crate::signals;
use anyhow::{Context, Result};
use cephx::Keyring;
use osd::{OsdConfig, StoreConfig};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::{EntityAddr, EntityAddrVec, EntityText};

/// How long an OSD may take to be up.
pub const UP_TIMEOUT: Duration = Duration::from_secs(60);

/// A monitor that serves.
pub struct Monitor {
    pub handle: mon::MonHandle,
    /// All entities' keys.
    pub keyring: Keyring,
    /// False if the cluster was there before.
    pub is_new: bool,
    pub fsid: types::Uuid,
}

/// What the monitor of `up` and that of `mon` are started with.
pub struct MonStart<'a> {
    pub listen: SocketAddr,
    pub auth: mon::AuthMode,
    pub allow_insecure_network: bool,
    pub secure: bool,
    pub key_type: KeyKind,
    /// OSDs that have keys.
    pub osds: u32,
    /// Over how many devices those of a new cluster are spread, if some share one.
    pub devices: Option<u32>,
    pub web: &'a Web,
    pub dev: bool,
}

/// Opens or makes the cluster in `dir`, and starts its monitor. Writes `ceph.conf`.
pub fn start_mon(dir: &Path, with: &MonStart<'_>) -> Result<Monitor> {
    let MonStart { listen, auth, allow_insecure_network, secure, key_type, osds, devices, web, dev } = *with;
    anyhow::ensure!(
        auth == mon::AuthMode::Cephx || listen.ip().is_loopback() || allow_insecure_network,
        "--auth none lets whatever reaches {} do everything: give --auth cephx, an address of this machine alone (127.0.0.1), or \
         --allow-insecure-network if all of that network is trusted",
        listen.ip()
    );
    anyhow::ensure!(
        auth == mon::AuthMode::Cephx || !secure,
        "--secure encrypts with the keys of cephx, and --auth none has none: start without one of both"
    );
    // Before anything is made.
    let http = web.config()?;
    check_ports(listen, http.as_ref())?;
    let owned = |(s, n, v): &(&str, &str, &str)| (s.to_string(), n.to_string(), v.to_string());
    let config = if dev { mon::DEV_SETTINGS.iter().map(owned).collect() } else { Vec::new() };
    let options = mon::MkfsOptions { auth, key_type: key_type.key_type(), listen, osds, devices, config, secure };
    let cluster = mon::open_or_mkfs(dir, &options, || crate::stores::refuse_orphans(dir))?;
    crate::stores::refuse_strangers(dir, cluster.fsid)?;
    let (fsid, keyring, is_new, modes) = (cluster.fsid, cluster.keyring.clone(), cluster.is_new, cluster.modes.clone());
    let handle = mon::start(mon::MonConfig { cluster, listen, mgr_port: 0, admin_socket: mon::admin_socket(dir, "mon.a"), http })
        .with_context(|| format!("the monitor on {listen}"))?;
    let conf = dir.join("ceph.conf");
    let text = mon::conf_text(dir, fsid, handle.mon_addr, auth, &modes);
    disk::update_file(&conf, text.as_bytes(), 0o644).with_context(|| conf.display().to_string())?;
    Ok(Monitor { handle, keyring, is_new, fsid })
}

/// An error if a port is another's.
fn check_ports(listen: SocketAddr, http: Option<&mon::HttpConfig>) -> Result<()> {
    TcpListener::bind(listen).with_context(|| format!("the monitor can't listen on {listen}"))?;
    if let Some(http) = http.filter(|http| !http.elsewhere)
        && let Err(e) = TcpListener::bind(http.listen)
    {
        anyhow::bail!("the page can't be served at {}: {e}: give another --http, or `--http none`", http.listen);
    }
    Ok(())
}

/// `humboldt mon`: says where it listens, and serves.
pub fn mon(args: &MonArgs) -> Result<()> {
    let was_there = args.dir.exists();
    let result = serve(args);
    if result.is_err() && !was_there {
        // Nothing is lost: a folder with something in it stays.
        let _ = std::fs::remove_dir(&args.dir);
    }
    result
}

fn serve(args: &MonArgs) -> Result<()> {
    let folder = Folder::hold(&args.dir.join("mon"))?;
    let dir = folder.dir.parent().context("the monitor's folder lies in the cluster's")?;
    let with = MonStart {
        listen: SocketAddr::new(args.listen, args.port),
        auth: args.auth.mode(),
        allow_insecure_network: args.allow_insecure_network,
        secure: args.secure,
        key_type: args.key_type,
        osds: args.osds,
        devices: args.devices,
        web: &args.web,
        dev: args.dev,
    };
    let Monitor { handle, .. } = start_mon(dir, &with)?;
    folder.keep();
    say::println!("mon.a serves at {}", handle.mon_addr);
    if let Some(addr) = handle.http_addr {
        say::println!("{}", web_line(addr, &args.web));
    }
    signals::wait(|| handle.is_finished())?;
    handle.stop()
}

/// Where to look at the cluster.
pub fn web_line(addr: SocketAddr, web: &Web) -> String {
    let token = if web.http_token.is_some() { "?token=TOKEN" } else { "" };
    format!("page: http://{addr}/{token}; metrics: http://{addr}/metrics{token}")
}

/// `humboldt restore-mon`: a store of the copy, while nothing runs.
pub fn restore_mon(dir: &Path) -> Result<()> {
    anyhow::ensure!(dir.join("mon.copy").exists(), "{} has no mon.copy: give the cluster's folder with --dir", dir.display());
    let folder = Folder::hold(dir)?;
    folder.keep();
    say::println!("{}; start the cluster again", mon::restore(&folder.dir.join("mon.redb"))?);
    Ok(())
}

/// What an OSD of this machine is started with.
pub fn osd_config(id: i32, monitor: EntityAddrVec, listen: IpAddr, store: StoreConfig, dir: &Path) -> OsdConfig {
    let host = client::setup::hostname();
    OsdConfig {
        id,
        monitors: vec![monitor],
        key: None,
        admin: None,
        listen,
        ports_file: Some(dir.join(format!("osd.{id}.ports"))),
        store_is_new: !store.is_durable(),
        store,
        location: vec![("host".into(), host), ("root".into(), "default".into())],
        options: Vec::new(),
        cpus: None,
        spin_us: 0,
        admin_socket: mon::admin_socket(dir, &format!("osd.{id}")),
        data_dir: dir.display().to_string(),
        quiet: false,
        null: false,
        is_alone: true,
        spare: None,
        deployment: osd::Deployment::default(),
    }
}

/// The key of `name` out of the keyring files that `paths` lists.
pub fn key_of(name: &EntityText, paths: &[PathBuf]) -> Result<Option<cephx::EntityAuth>> {
    for path in paths.iter().filter(|p| p.exists()) {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let keyring = Keyring::parse(&text).with_context(|| path.display().to_string())?;
        if let Some(auth) = keyring.get(name) {
            return Ok(Some(auth.clone()));
        }
    }
    Ok(None)
}

/// The monitor's address as OSDs dial it.
pub fn monitor_at(addr: SocketAddr) -> EntityAddrVec {
    EntityAddrVec::one(EntityAddr::msgr2(addr, 0))
}
