//! What an entity may ask of the monitor.
//!
//! ```text
//! grant := allow rwxa [network CIDR] [fsname[=]NAME]
//!        | [allow] profile[=]NAME [network CIDR]
//!        | allow service[=]NAME rwxa [network CIDR]
//!        | allow command[=]PREFIX [with k=v | k prefix v | k regex v ...] [network CIDR]
//! ```
//!
//! Rights of several grants add up. `config-key` is open to `allow *` and to grants that name it only.

use super::constraint::all_accept;
use super::parser::Parser;
use super::{CapError, Constraint, Network, Perm};
use crate::AuthCapsInfo;
use std::collections::BTreeMap;
use types::{EntityAddr, EntityText};

/// A request to the monitor.
#[derive(Debug, Clone, Copy)]
pub struct MonRequest<'a> {
    /// The asker: some profiles name keys of the asker's own.
    pub entity: &'a EntityText,
    /// The module that a command belongs to: `mon`, `osd`, `auth`, `config-key`, ...
    pub service: &'a str,
    /// A command's prefix, empty for messages that are no command.
    pub command: &'a str,
    /// A command's arguments as texts.
    pub args: &'a BTreeMap<String, String>,
    pub need: Perm,
    pub addr: &'a EntityAddr,
}

/// The capability of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MonCap {
    grants: Vec<Grant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    what: What,
    network: Option<Network>,
    fs: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Rights(Perm),
    Profile(String),
    Service(String, Perm),
    Command(String, BTreeMap<String, Constraint>),
}

impl MonCap {
    /// Everything, as without authentication.
    pub fn all() -> Self {
        Self { grants: vec![Grant { what: What::Rights(Perm::ANY), network: None, fs: None }] }
    }
    pub fn parse(text: &str) -> Result<Self, CapError> {
        Ok(Self { grants: Parser::new(text).grants("mon", grant)? })
    }
    /// Of what is known of a session; a text that can't be read allows nothing.
    pub fn from_info(info: &AuthCapsInfo) -> Self {
        if info.allow_all {
            return Self::all();
        }
        info.text().and_then(|text| Self::parse(&text).ok()).unwrap_or_default()
    }
    /// True if some grant is `allow *`, and good where the asker is.
    pub fn is_allow_all(&self, addr: &EntityAddr) -> bool {
        self.grants.iter().any(|g| g.is_all() && g.network.as_ref().is_none_or(|n| n.contains(addr)))
    }
    pub fn allows(&self, req: &MonRequest<'_>) -> bool {
        let mut have = Perm::NONE;
        for grant in &self.grants {
            if grant.network.as_ref().is_some_and(|n| !n.contains(req.addr)) {
                continue;
            }
            if grant.is_all() {
                return true;
            }
            have |= grant.what.rights(req);
            if have.contains(req.need) {
                return true;
            }
        }
        false
    }
}

/// What file systems a session sees and changes.
impl MonCap {
    /// Names of the file systems that the session may see; none: all.
    pub fn fs_names(&self) -> Option<Vec<&str>> {
        // A grant that names none opens all.
        self.grants.iter().map(|g| g.fs.as_deref()).collect::<Option<Vec<_>>>().filter(|names| !names.is_empty())
    }
    /// True if some grant gives `need` of that file system.
    pub fn allows_fs(&self, entity: &EntityText, name: &str, need: Perm) -> bool {
        let of_fs = |what: &What| match what {
            What::Rights(perm) => perm.contains(need),
            What::Service(service, perm) => (service == "fs" || service == "mds") && perm.contains(need),
            What::Profile(_) | What::Command(..) => false,
        };
        self.grants.iter().filter(|g| g.fs.as_deref().is_none_or(|fs| fs == name)).any(|g| match &g.what {
            What::Profile(profile_name) => profile(profile_name, entity).iter().any(of_fs),
            what => of_fs(what),
        })
    }
}

impl Grant {
    fn is_all(&self) -> bool {
        self.what == What::Rights(Perm::ANY) && self.fs.is_none()
    }
}

impl What {
    fn rights(&self, req: &MonRequest<'_>) -> Perm {
        match self {
            Self::Profile(name) => profile(name, req.entity).iter().fold(Perm::NONE, |set, what| set | what.rights(req)),
            Self::Service(service, perm) if service == req.service => *perm,
            Self::Command(command, args) if command == req.command && all_accept(args, req.args) => Perm::RWX,
            Self::Service(..) | Self::Command(..) => Perm::NONE,
            Self::Rights(_) if req.service == "config-key" => Perm::NONE,
            Self::Rights(perm) => *perm,
        }
    }
}

fn grant(p: &mut Parser<'_>) -> Option<Grant> {
    p.skip_spaces();
    let grant = p.attempt(rights).or_else(|| p.attempt(profile_grant)).or_else(|| p.attempt(service)).or_else(|| p.attempt(command))?;
    p.skip_spaces();
    Some(grant)
}

fn rights(p: &mut Parser<'_>) -> Option<Grant> {
    p.lit("allow")?;
    p.spaces()?;
    let perm = p.rwx()?;
    let network = p.network();
    let fs = p.attempt(|p| {
        p.spaced("fsname")?;
        p.equals_or_spaces()?;
        p.word()
    });
    Some(Grant { what: What::Rights(perm), network, fs })
}

fn profile_grant(p: &mut Parser<'_>) -> Option<Grant> {
    p.attempt(|p| {
        p.lit("allow")?;
        p.spaces()
    });
    p.lit("profile")?;
    p.equals_or_spaces()?;
    let what = What::Profile(p.string()?);
    Some(Grant { what, network: p.network(), fs: None })
}

fn service(p: &mut Parser<'_>) -> Option<Grant> {
    p.lit("allow")?;
    p.spaced("service")?;
    p.equals_or_spaces()?;
    let name = p.string()?;
    p.spaces()?;
    let what = What::Service(name, p.rwx()?);
    Some(Grant { what, network: p.network(), fs: None })
}

fn command(p: &mut Parser<'_>) -> Option<Grant> {
    p.lit("allow")?;
    p.spaced("command")?;
    p.equals_or_spaces()?;
    let prefix = p.string()?;
    let args = p.attempt(|p| {
        p.spaced("with")?;
        p.spaces()?;
        p.constraints(false)
    });
    Some(Grant { what: What::Command(prefix, args.unwrap_or_default()), network: p.network(), fs: None })
}

fn may_use(name: &str, perm: Perm) -> What {
    What::Service(name.into(), perm)
}
fn may_run(prefix: &str, args: &[(&str, Constraint)]) -> What {
    What::Command(prefix.into(), args.iter().map(|(k, c)| (k.to_string(), c.clone())).collect())
}
fn rx(pattern: &str) -> Constraint {
    Constraint::Regex(pattern.into())
}
fn reads(services: &[&str]) -> Vec<What> {
    services.iter().map(|s| may_use(s, Perm::R)).collect()
}
/// One address with its nonce: a client may fence another client, neither a host (whose nonce is 0) nor a network.
fn fence(prefix: &str, op: &str) -> What {
    let addr = rx("[^/]+/0*[1-9][0-9]*");
    may_run(prefix, &[(op, Constraint::Equal("add".into())), ("addr", addr), ("range", Constraint::IfGiven(&[]))])
}
/// Keys for entities whose names begin so, with these capabilities; a service that is not among them gets none.
fn may_create(entity: &str, caps: &[(&str, Constraint)]) -> What {
    let services = ["caps_mon", "caps_osd", "caps_mds", "caps_mgr"];
    let mut args: Vec<_> = services.iter().map(|service| (*service, Constraint::IfGiven(&[]))).collect();
    args.push(("entity", Constraint::Prefix(entity.into())));
    args.extend_from_slice(caps);
    may_run("auth get-or-create", &args)
}
/// Of a client of images, and what mirrors them.
fn rbd_profile(name: &str) -> Vec<What> {
    let mut out = reads(&["mon", "osd", "pg"]);
    out.push(fence("osd blocklist", "blocklistop"));
    out.push(fence("osd blacklist", "blacklistop"));
    match name {
        "rbd-mirror" => out.push(may_run("config-key get", &[("key", Constraint::Prefix("rbd/mirror/".into()))])),
        "rbd-mirror-peer" => {
            out.push(may_run("config-key get", &[("key", rx("rbd/mirror/[^/]+"))]));
            out.push(may_run("config-key set", &[("key", Constraint::Prefix("rbd/mirror/peer/".into()))]));
        }
        _ => {}
    }
    out
}

/// The rules that a profile stands for; none for one that is not known.
fn profile(name: &str, entity: &EntityText) -> Vec<What> {
    use Constraint::{Equal, IfGiven, Prefix, RbdProfiles};
    let own_keys = || {
        let own = Prefix(format!("daemon-private/{entity}/"));
        ["get", "put", "set", "exists", "delete"].map(|verb| may_run(&format!("config-key {verb}"), &[("key", own.clone())]))
    };
    match name {
        "read-only" => vec![What::Rights(Perm::R)],
        "read-write" => vec![What::Rights(Perm::RW)],
        "mon" => [may_use("mon", Perm::RWX), may_use("log", Perm::RWX)].into_iter().chain(own_keys()).collect(),
        "osd" => [
            may_use("osd", Perm::RWX),
            may_use("mon", Perm::R),
            may_use("pg", Perm::RW),
            may_use("log", Perm::W),
            may_run("config set", &[("name", rx("osd_mclock_max_capacity_iops_(hdd|ssd)"))]),
            may_run("config rm", &[("name", rx("(osd_max_backfills|osd_recovery_max_active(.*)|osd_mclock_scheduler_(.*))"))]),
        ]
        .into_iter()
        .chain(own_keys())
        .collect(),
        "mds" => [
            may_use("mds", Perm::RWX),
            may_use("mon", Perm::R),
            may_use("osd", Perm::R),
            may_run("osd pool rmsnap", &[]),
            may_run("osd blocklist", &[]),
            may_run("osd blacklist", &[]),
            may_use("log", Perm::W),
        ]
        .into_iter()
        .chain(own_keys())
        .collect(),
        "mgr" => {
            let mut out = vec![may_use("mgr", Perm::RWX), may_use("auth", Perm::RWX)];
            out.extend(["log", "mon", "mds", "fs", "osd", "config-key", "config"].map(|s| may_use(s, Perm::RW)));
            out.extend(["auth get-or-create", "auth caps", "auth rm", "smart", "heap", "dump_mempools"].map(|c| may_run(c, &[])));
            out.extend(own_keys());
            out
        }
        "bootstrap-osd" => {
            let mut out = reads(&["mon", "osd"]);
            out.extend(["mon getmap", "osd new", "osd purge-new"].map(|c| may_run(c, &[])));
            out
        }
        "bootstrap-mds" | "bootstrap-mgr" | "bootstrap-rgw" => {
            let equal = |text: &str| Equal(text.into());
            let mut out = reads(&["mon", "osd"]);
            out.push(may_run("mon getmap", &[]));
            // The rights that deployment tools give, and those alone: what is not demanded may be left out.
            out.push(match name {
                "bootstrap-mds" => may_create(
                    "mds.",
                    &[
                        ("caps_mon", equal("allow profile mds")),
                        ("caps_osd", equal("allow rwx")),
                        ("caps_mds", equal("allow")),
                        ("caps_mgr", IfGiven(&["allow profile mds", "profile mds"])),
                    ],
                ),
                "bootstrap-mgr" => may_create(
                    "mgr.",
                    &[("caps_mon", equal("allow profile mgr")), ("caps_osd", IfGiven(&["allow *"])), ("caps_mds", IfGiven(&["allow *"]))],
                ),
                _ => may_create("client.rgw.", &[("caps_mon", equal("allow rw")), ("caps_osd", equal("allow rwx"))]),
            });
            out
        }
        "bootstrap-rbd" | "bootstrap-rbd-mirror" => {
            let mon = if name == "bootstrap-rbd" { "profile rbd" } else { "profile rbd-mirror" };
            let mut out = reads(&["mon"]);
            let (osd, mgr) = (RbdProfiles { required: true }, RbdProfiles { required: false });
            out.push(may_create("client.", &[("caps_mon", Equal(mon.into())), ("caps_osd", osd), ("caps_mgr", mgr)]));
            out
        }
        "fs-client" => reads(&["mon", "mds", "osd", "pg"]),
        "simple-rados-client" => reads(&["mon", "osd", "pg"]),
        "simple-rados-client-with-blocklist" => {
            let mut out = reads(&["mon", "osd", "pg"]);
            out.push(fence("osd blocklist", "blocklistop"));
            out
        }
        "crash" => reads(&["mon"]),
        "cephfs-mirror" => {
            let mut out = reads(&["mon", "mds", "osd", "pg"]);
            out.push(may_run("config-key get", &[("key", Prefix("cephfs/mirror/peer/".into()))]));
            out
        }
        "role-definer" => vec![may_use("mon", Perm::R), may_use("auth", Perm::RWX)],
        name if name.starts_with("rbd") => rbd_profile(name),
        _ => Vec::new(),
    }
}
