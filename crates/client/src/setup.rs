//! From files to an identity: ceph.conf, keyring, which authentication to use.

use crate::ClientError;
use cephx::{ClientAuth, CryptoKey, Identity, Keyring};
use net::auth_cephx::Dialer;
use net::modes::Modes;
use objecter::Conf;
use objecter::monc::TICKETS;
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use types::{EntityKind, EntityText};

const CONF_DEFAULT: &str = "/etc/ceph/ceph.conf";
const KEYRING_DEFAULT: &str = "/etc/ceph/$cluster.$name.keyring,/etc/ceph/$cluster.keyring,/etc/ceph/keyring,/etc/ceph/keyring.bin";

fn config(what: impl std::fmt::Display) -> ClientError {
    ClientError::Config(what.to_string())
}

/// Reads a ceph.conf: `path`, or what `CEPH_CONF` names, or the usual place.
pub fn load(path: Option<&Path>, name: &str) -> Result<Conf, ClientError> {
    let name = EntityText::parse(name).ok_or_else(|| config(format!("no entity name: {name}")))?;
    let from_env = std::env::var_os("CEPH_CONF").map(std::path::PathBuf::from);
    let path = path.or(from_env.as_deref()).unwrap_or(Path::new(CONF_DEFAULT));
    let text = fs::read_to_string(path).map_err(|e| ClientError::NoConf(format!("{}: {e}", path.display())))?;
    Conf::parse(&text, name).map_err(|e| config(format!("{}: {e}", path.display())))
}

/// The monitors' addresses, as an error or a notice shows them.
pub fn monitors_text(conf: &Conf) -> String {
    let addrs = conf.mon_hosts().into_iter().filter_map(|mon| mon.msgr2()?.socket());
    addrs.map(|addr| addr.to_string()).collect::<Vec<_>>().join(", ")
}

/// The files in which a key may be, first the likeliest.
fn keyrings(conf: &Conf) -> String {
    conf.get_or("keyring", KEYRING_DEFAULT)
}

/// Our key: `key`, `keyfile` or the first keyring that there is.
fn find_key(conf: &Conf) -> Result<Option<CryptoKey>, ClientError> {
    if let Some(text) = conf.get("key").filter(|t| !t.is_empty()) {
        return CryptoKey::from_base64(&text).map(Some).map_err(config);
    }
    if let Some(path) = conf.get("keyfile").filter(|t| !t.is_empty()) {
        let text = fs::read_to_string(&path).map_err(|e| config(format!("{path}: {e}")))?;
        return CryptoKey::from_base64(text.trim()).map(Some).map_err(config);
    }
    for path in keyrings(conf).split([',', ';']).map(str::trim) {
        let Ok(text) = fs::read_to_string(path) else { continue };
        let ring = Keyring::parse(&text).map_err(|e| config(format!("{path}: {e}")))?;
        if let Some(entity) = ring.get(&conf.name) {
            return Ok(Some(entity.key.clone()));
        }
    }
    Ok(None)
}

/// Our identity, by `auth client required` and what keys there are.
pub fn identity(conf: &Conf) -> Result<Identity, ClientError> {
    let mut methods = conf.list("auth_client_required");
    if methods.is_empty() {
        methods = vec!["cephx".into(), "none".into()];
    }
    if methods.iter().any(|m| m == "cephx") {
        if let Some(key) = find_key(conf)? {
            return Ok(Identity::Cephx(ClientAuth::new(conf.name.clone(), key, &TICKETS)));
        }
        if !methods.iter().any(|m| m == "none") {
            let closed = |path: &str| fs::File::open(path).is_err_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied);
            let named = |path: &str| format!("{path}{}", if closed(path) { " (not readable for this user)" } else { "" });
            let files = keyrings(conf).split([',', ';']).map(|path| named(path.trim())).collect::<Vec<_>>().join(", ");
            return Err(ClientError::NoKey { name: conf.name.to_string(), files });
        }
    }
    Ok(Identity::none(conf.name.clone()))
}

/// How we dial: our identity, with the modes that the configuration has.
pub fn dialer(conf: &Conf, identity: Identity) -> Result<Dialer, ClientError> {
    let modes = Modes::of(|name| conf.get(name)).map_err(config)?;
    Ok(Dialer::with(Rc::new(RefCell::new(identity)), EntityKind::CLIENT, modes.shared()))
}

/// This machine's name, for subscriptions.
pub fn hostname() -> String {
    net::host::hostname()
}
