//! `humboldt osd`: one OSD of the cluster that a ceph.conf names, ours or stock, as operators of Ceph run ceph-osd.
//!
//! With a data folder (`osd data`, made by `--mkfs`) the OSD has the identity that the folder holds, and logs in with the folder's keyring. Without
//! one, and only if `--store mem` asks for it by name, its store is in memory: it has a new identity at each start, and registers itself with the
//! admin's key. That takes the number from the OSD that has it, so a folder that is not there is an error otherwise.

use crate::args::{OsdAction, OsdArgs, StoreKind};
use crate::daemons::{UP_TIMEOUT, key_of, osd_config};
use crate::folder::Folder;
use crate::memory::{Asked, Memory};
use crate::{networks, replace, shared_devices, signals};
use anyhow::{Context, Result, anyhow, bail};
use cephx::Keyring;
use maps::device::DEVICE;
use net::modes::Modes;
use objecter::conf::Conf;
use osd::store::{BLOCK, MEM, MEM_DEFAULT};
use osd::{Admin, DataDir, Deployment, OsdConfig, StoreConfig};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use types::{EntityAddrVec, EntityKind, EntityText, OsdId, Uuid};

/// The exit code of an OSD whose store could not go on, as sysexits.h has it for errors of input and output.
pub const STORE_FAILED: u8 = 74;
/// The same of one whose store holds what can't be used, as sysexits.h has it for data.
pub const STORE_DAMAGED: u8 = 65;

pub fn osd(args: &OsdArgs) -> Result<()> {
    match &args.action {
        Some(OsdAction::Replace(args)) => return replace::replace(args),
        Some(OsdAction::Devices(args)) => return shared_devices::devices(args),
        None => {}
    }
    let id = args.id.context("--id is required")?;
    let name = EntityText::new(EntityKind::OSD, id.to_string());
    let path = args.conf.clone().unwrap_or_else(|| "humboldt-data/ceph.conf".into());
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}: give --conf", path.display()))?;
    let mut conf = Conf::parse(&text, name.clone()).with_context(|| path.display().to_string())?;
    let data = args.osd_data.clone().unwrap_or_else(|| conf.get_or("osd data", "/var/lib/ceph/osd/$cluster-$id").into());
    conf.set("osd data", data.display().to_string());
    if args.mkfs {
        return mkfs(args, id, &conf, &data);
    }
    let monitors = conf.mon_hosts();
    let Some(monitor) = monitors.first() else {
        bail!("{}: no `mon host`: add the monitors' addresses, as `mon host = [v2:192.0.2.1:3300]`", path.display())
    };
    let listen = match (args.listen, networks::configured(&conf, "public")?) {
        (Some(ip), _) | (None, Some(ip)) => ip,
        (None, None) => networks::towards(monitor.msgr2().context("monitors of msgr1 only")?.socket().context("the monitor's address")?)?,
    };
    let dir = path.parent().unwrap_or(Path::new("."));
    let folder = if DataDir::is_made(&data) { Some((DataDir::open(&data, id)?, Folder::hold(&data)?)) } else { None };
    if folder.is_none() && args.store != StoreKind::Mem {
        bail!(
            "{} is no OSD's data folder: name the right one with --osd-data, or make it with --mkfs (--store mem: an OSD in memory, new at each start)",
            data.display()
        );
    }
    let memory = memory(args, &conf, folder.as_ref().is_none_or(|(made, _)| made.kind == MEM))?;
    let store = match &folder {
        Some((made, _)) if made.kind == BLOCK => StoreConfig::Block { dir: data.clone(), memory: memory.caches },
        Some((made, _)) if made.kind != MEM => {
            bail!("{} holds a store of type {}, which this program doesn't know", data.display(), made.kind)
        }
        _ => StoreConfig::Mem { capacity: memory.objects },
    };
    let mut config = osd_config(id, EntityAddrVec::default(), listen, store, dir);
    config.monitors = monitors;
    config.admin_socket = conf.get("admin socket").filter(|path| !path.is_empty()).map(PathBuf::from);
    config.spare = memory.govern();
    config.spin_us = args.spin_us;
    config.null = args.null;
    config.options = options(&conf);
    config.deployment = deployment(&conf, listen)?;
    config.deployment.start_empty = args.start_empty;
    config.cpus = args.cpus.clone();
    if let Some(location) = args.crush_location.clone().or_else(|| conf.get("crush location")) {
        config.location = location_of(&location, &config.location);
    }

    if let Some((made, _)) = &folder {
        is_of(&mut config, made);
    }
    let registers = folder.is_none() || args.register;
    if method(&conf, "cluster") {
        let beside = if folder.is_some() { data.join("keyring") } else { dir.join(format!("osd.{}.keyring", id)) };
        let key = key_of(&name, &keyrings(&args.keyring, &conf, beside))?;
        let Some(key) = key else { bail!("no keyring holds the key of {name}: give --keyring, or put it into {}/keyring", data.display()) };
        config.key = Some(key.key);
    }
    config.admin = if registers { admin(args, &conf, &path, &text, &data)? } else { None };
    let mut handle = osd::start(config)?;
    if registers {
        handle.wait_up(UP_TIMEOUT, || false)?;
        say::println!("osd.{} is up", id);
    } else {
        // Monitors may be away for long: an OSD of a cluster waits for them.
        say::println!("osd.{} runs at {listen}", id);
    }
    signals::wait(|| handle.is_finished())?;
    handle.stop()
}

/// The OSD has the identity that its folder holds.
fn is_of(config: &mut OsdConfig, made: &DataDir) {
    config.deployment.osd_fsid = Some(made.osd_fsid);
    config.deployment.cluster_fsid = Some(made.cluster_fsid);
    config.data_dir = made.path.display().to_string();
    config.ports_file = Some(made.path.join("ports"));
    if !made.device_class.is_empty() {
        config.deployment.device_class.clone_from(&made.device_class);
    }
}

/// Memory of this process, as its options or ceph.conf have it.
fn memory(args: &OsdArgs, conf: &Conf, in_memory: bool) -> Result<Memory> {
    let memory = match args.memory {
        None if in_memory => conf.number("memstore device bytes").or_else(|| args.memory_limit.is_none().then_some(MEM_DEFAULT)),
        given => given,
    };
    Memory::of(Asked { limit: args.memory_limit, memory, osds: 1, in_memory, processes: false })
}

/// Files in which a key is looked for: those that are given, the one beside the OSD's data, those that ceph.conf names.
fn keyrings(given: &Option<PathBuf>, conf: &Conf, beside: PathBuf) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = given.iter().cloned().chain([beside]).collect();
    files.extend(conf.get("keyring").iter().flat_map(|list| list.split([',', ';'])).map(|p| PathBuf::from(p.trim())));
    files
}

/// The client that makes the OSD known to the monitors.
fn admin(args: &OsdArgs, conf: &Conf, path: &Path, text: &str, data: &Path) -> Result<Option<Admin>> {
    let name = EntityText::new(EntityKind::CLIENT, "admin");
    if !method(conf, "cluster") {
        return Ok(Some(Admin { name, key: None }));
    }
    let conf = Conf::parse(text, name.clone()).with_context(|| path.display().to_string())?;
    let beside = path.parent().unwrap_or(Path::new(".")).join("ceph.client.admin.keyring");
    match key_of(&name, &keyrings(&args.admin_keyring, &conf, beside))? {
        Some(auth) => Ok(Some(Admin::of(name, &auth))),
        None => bail!("{} is no OSD's data folder: make it with --mkfs", data.display()),
    }
}

/// Makes the data folder, and says by which commands the cluster gets to know the OSD.
fn mkfs(args: &OsdArgs, id: OsdId, conf: &Conf, data: &Path) -> Result<()> {
    let parse = |text: &str| Uuid::parse(text.trim()).with_context(|| format!("{text} is no uuid: `uuidgen` makes one"));
    let cluster_fsid = parse(&conf.get("fsid").context("ceph.conf has no `fsid`")?)?;
    let osd_fsid = match &args.osd_uuid {
        Some(text) => parse(text)?,
        None if DataDir::is_made(data) => DataDir::open(data, id)?.osd_fsid,
        None => {
            let mut fresh = [0; 16];
            cephx::Entropy::fill(&mut net::auth_cephx::entropy(), &mut fresh);
            Uuid::from_random(fresh)
        }
    };
    let class = args.device_class.as_deref().unwrap_or_default();
    if args.store == StoreKind::Mem {
        args.devices.refuse()?;
    }
    if args.store == StoreKind::Block && !DataDir::is_made(data) {
        disk::create_dirs(data).with_context(|| format!("making {}", data.display()))?;
        osd::store::mkfs(data, id, osd_fsid, cluster_fsid, &crate::stores::new_store(&args.devices, data, 1)?, class)?;
    } else {
        DataDir::mkfs(data, id, osd_fsid, cluster_fsid, if args.store == StoreKind::Block { BLOCK } else { MEM }, class)?;
    }
    let name = EntityText::new(EntityKind::OSD, id.to_string());
    let keyring = data.join("keyring");
    if args.mkkey && key_of(&name, std::slice::from_ref(&keyring))?.is_none() {
        let key = cephx::CryptoKey::generate(net::auth_cephx::now(), &mut net::auth_cephx::entropy());
        // Keys of others in the file stay.
        let mut text = if keyring.exists() { std::fs::read_to_string(&keyring)? } else { String::new() };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text += &format!("[{name}]\n\tkey = {}\n", key.to_base64());
        Keyring::parse(&text).context("the keyring that we write")?;
        disk::update_file(&keyring, text.as_bytes(), 0o600).with_context(|| keyring.display().to_string())?;
    }
    say::println!("osd.{id} {osd_fsid} made in {}", data.display());
    Ok(())
}

/// True if this side of ceph.conf wants cephx, as it does unless it says none.
fn method(conf: &Conf, side: &str) -> bool {
    let wanted = conf.list(&format!("auth {side} required"));
    wanted.is_empty() || wanted.iter().any(|m| m == "cephx")
}

/// Which connections ceph.conf wants encrypted. Without keys it can't be any.
pub fn modes(conf: &Conf) -> Result<Modes> {
    let modes = Modes::of(|name| conf.get(name)).map_err(|why| anyhow!("ceph.conf: {why}"))?;
    if let Some(name) = modes.demands().filter(|_| !method(conf, "cluster")) {
        bail!("ceph.conf: {name} = secure encrypts with the keys of cephx, and `auth cluster required` wants none: take one of both out");
    }
    Ok(modes)
}

fn deployment(conf: &Conf, listen: IpAddr) -> Result<Deployment> {
    let modes = modes(conf)?;
    let port = |key: &str| conf.number(key).and_then(|n| u16::try_from(n).ok());
    Ok(Deployment {
        cluster_listen: networks::configured(conf, "cluster")?.filter(|ip| *ip != listen),
        ports: port("ms bind port min").zip(port("ms bind port max")).filter(|(first, last)| *first > 0 && first <= last),
        modes,
        open_to_clients: !method(conf, "service"),
        initial_weight: conf.seconds("osd crush initial weight").filter(|w| *w >= 0.0),
        update_class: conf.flag("osd class update on start").unwrap_or(true),
        update_location: conf.flag("osd crush update on start").unwrap_or(true),
        ..Deployment::default()
    })
}

/// Every value that ceph.conf has for this OSD, the nearest section's first.
fn options(conf: &Conf) -> Vec<(String, String)> {
    let own = [conf.name.to_string(), conf.name.kind.name().to_string(), "global".into()];
    let keys: std::collections::BTreeSet<&String> =
        conf.sections().filter(|(name, _)| own.iter().any(|o| o == name)).flat_map(|(_, values)| values.keys()).collect();
    keys.into_iter().filter_map(|key| Some((key.clone(), conf.get(key)?))).collect()
}

/// `root=default rack=a host=b`: as written, with the root that lacks. `device=a` alone stays so: a stock monitor, for which types are
/// ordered by their numbers, would take an OSD that names more out of its device.
fn location_of(text: &str, default: &[(String, String)]) -> Vec<(String, String)> {
    let words = text.split([' ', ',', ';', '\t']).filter_map(|w| w.split_once('='));
    let mut all: Vec<(String, String)> = words.map(|(k, v)| (k.trim().to_string(), v.trim().to_string())).collect();
    if all.is_empty() {
        return default.to_vec();
    }
    if !all.iter().all(|(kind, _)| kind == DEVICE) && !all.iter().any(|(kind, _)| kind == "root") {
        all.push(("root".into(), "default".into()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_gets_its_root_unless_it_is_a_device() {
        let of =
            |text: &str| location_of(text, &[("host".into(), "h".into())]).into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>();
        assert_eq!(of("rack=a host=b"), ["rack=a", "host=b", "root=default"]);
        assert_eq!(of("root=r host=b"), ["root=r", "host=b"]);
        assert_eq!((of("device=a"), of("")), (vec!["device=a".to_string()], vec!["host=h".to_string()]));
    }
}
