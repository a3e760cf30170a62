//! What an entity may ask of the manager.
//!
//! ```text
//! grant := allow rwxa | [allow] profile[=]NAME [k=v ...] | allow service[=]NAME rwxa
//!        | allow module[=]NAME [with k=v ...] rwxa | allow command[=]PREFIX [with k=v ...]      each with [network CIDR]
//! ```

use super::constraint::all_accept;
use super::parser::Parser;
use super::{CapError, Constraint, Network, Perm};
use crate::AuthCapsInfo;
use std::collections::BTreeMap;
use types::EntityAddr;

/// A request to the manager.
#[derive(Debug, Clone, Copy)]
pub struct MgrRequest<'a> {
    pub service: &'a str,
    /// The manager's module that serves the command, if one does.
    pub module: &'a str,
    pub command: &'a str,
    pub args: &'a BTreeMap<String, String>,
    pub need: Perm,
    pub addr: &'a EntityAddr,
}

/// The capability of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MgrCap {
    grants: Vec<Grant>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    rules: Vec<What>,
    network: Option<Network>,
}

type Args = BTreeMap<String, Constraint>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Rights(Perm),
    Service(String, Perm),
    Module(String, Args, Perm),
    Command(String, Args),
}

impl MgrCap {
    /// Everything, as without authentication.
    pub fn all() -> Self {
        Self { grants: vec![Grant { rules: vec![What::Rights(Perm::ANY)], network: None }] }
    }
    pub fn parse(text: &str) -> Result<Self, CapError> {
        let mut wrong_profile = None;
        let grants = Parser::new(text).grants("mgr", |p| grant(p, &mut wrong_profile))?;
        match wrong_profile {
            Some(why) => Err(CapError::Profile(why)),
            None => Ok(Self { grants }),
        }
    }
    /// Of what a ticket says; a text that can't be read allows nothing.
    pub fn from_info(info: &AuthCapsInfo) -> Self {
        if info.allow_all {
            return Self::all();
        }
        info.text().and_then(|text| Self::parse(&text).ok()).unwrap_or_default()
    }
    /// True if some grant is `allow *`, and good where the asker is.
    pub fn is_allow_all(&self, addr: &EntityAddr) -> bool {
        let good = |g: &Grant| g.network.as_ref().is_none_or(|n| n.contains(addr));
        self.grants.iter().any(|g| g.rules.contains(&What::Rights(Perm::ANY)) && good(g))
    }
    /// True if some grant is good where the asker is, whatever it grants.
    pub fn grants_any(&self, addr: &EntityAddr) -> bool {
        self.grants.iter().any(|g| g.network.as_ref().is_none_or(|n| n.contains(addr)))
    }
    pub fn allows(&self, req: &MgrRequest<'_>) -> bool {
        let mut have = Perm::NONE;
        for grant in &self.grants {
            if grant.network.as_ref().is_some_and(|n| !n.contains(req.addr)) {
                continue;
            }
            have |= grant.rules.iter().fold(Perm::NONE, |set, what| set | what.rights(req));
            if have.contains(req.need) && !have.is_none() {
                return true;
            }
        }
        false
    }
}

impl What {
    fn rights(&self, req: &MgrRequest<'_>) -> Perm {
        match self {
            Self::Rights(perm) => *perm,
            Self::Service(service, perm) if service == req.service => *perm,
            // A module's arguments are asked about where no command is.
            Self::Module(module, args, perm) if module == req.module && (!req.command.is_empty() || all_accept(args, req.args)) => *perm,
            Self::Command(command, args) if command == req.command && all_accept(args, req.args) => Perm::ANY,
            _ => Perm::NONE,
        }
    }
}

fn grant(p: &mut Parser<'_>, wrong: &mut Option<String>) -> Option<Grant> {
    p.skip_spaces();
    let rules = p
        .attempt(|p| {
            p.lit("allow")?;
            p.spaces()?;
            Some(vec![What::Rights(p.rwx()?)])
        })
        .or_else(|| p.attempt(|p| profile(p, wrong)))
        .or_else(|| {
            p.attempt(|p| {
                let name = named(p, "service")?;
                p.spaces()?;
                Some(vec![What::Service(name, p.rwx()?)])
            })
        })
        .or_else(|| {
            p.attempt(|p| {
                let (name, args) = (named(p, "module")?, with(p));
                p.spaces()?;
                Some(vec![What::Module(name, args, p.rwx()?)])
            })
        })
        .or_else(|| p.attempt(|p| Some(vec![What::Command(named(p, "command")?, with(p))])))?;
    let network = p.network();
    p.skip_spaces();
    Some(Grant { rules, network })
}

fn named(p: &mut Parser<'_>, word: &str) -> Option<String> {
    p.lit("allow")?;
    p.spaced(word)?;
    p.equals_or_spaces()?;
    p.string()
}

fn with(p: &mut Parser<'_>) -> Args {
    let args = p.attempt(|p| {
        p.spaced("with")?;
        p.spaces()?;
        p.constraints(true)
    });
    args.unwrap_or_default()
}

fn profile(p: &mut Parser<'_>, wrong: &mut Option<String>) -> Option<Vec<What>> {
    p.attempt(|p| {
        p.lit("allow")?;
        p.spaces()
    });
    p.lit("profile")?;
    p.equals_or_spaces()?;
    let name = p.string()?;
    let args = p.attempt(|p| {
        p.spaces()?;
        p.constraints(true)
    });
    let args = args.unwrap_or_default();
    Some(match name.as_str() {
        "read-only" => vec![What::Rights(Perm::R)],
        "read-write" => vec![What::Rights(Perm::RW)],
        "crash" => vec![What::Command("crash post".into(), Args::new())],
        // Known, and without any right so far.
        "osd" | "mds" => Vec::new(),
        "rbd" | "rbd-read-only" => {
            if let Some(key) = args.keys().find(|k| *k != "pool" && *k != "namespace") {
                *wrong = Some(format!("profile '{name}' does not recognize key '{key}'"));
                return Some(Vec::new());
            }
            let perm = if name == "rbd" { Perm::RW } else { Perm::R };
            vec![What::Module("rbd_support".into(), args, perm)]
        }
        _ => {
            *wrong = Some(format!("unrecognized profile '{name}'"));
            Vec::new()
        }
    })
}
