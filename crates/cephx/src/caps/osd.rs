//! What a client may do to objects.
//!
//! ```text
//! grants  := grant { (',' | ';') grant }
//! grant   := (allow capspec match | allow match capspec | profile NAME [pool[=]P [namespace[=]N]]) [network CIDR]
//! capspec := '*' | all | [r][w][x] [class-read] [class-write] | class NAME [METHOD]
//! match   := [namespace[=]N] tag APP KEY=VALUE | [pool[=]P [namespace[=]N[*]]] [object_prefix X]
//! ```
//!
//! One grant must allow a whole operation, except that the classes it calls may each be allowed by another.

use super::parser::Parser;
use super::{CapError, Network};
use crate::AuthCapsInfo;
use std::collections::BTreeMap;
use types::EntityAddr;

const R: u8 = 2;
const W: u8 = 4;
const CLASS_R: u8 = 8;
const CLASS_W: u8 = 16;
const X: u8 = CLASS_R | CLASS_W;
const ANY: u8 = 0xff;

/// The metadata of a pool's applications: application, key, value.
pub type Applications = BTreeMap<String, BTreeMap<String, String>>;

/// A call of an object class within an operation.
#[derive(Debug, Clone, Copy)]
pub struct ClassCall<'a> {
    pub class: &'a str,
    pub method: &'a str,
    /// What the method declares to do.
    pub read: bool,
    pub write: bool,
    /// True if `x` covers this class (`osd_class_default_list`).
    pub listed: bool,
}

/// What an operation needs.
#[derive(Debug, Clone, Copy)]
pub struct OsdRequest<'a> {
    pub pool: &'a str,
    pub namespace: &'a [u8],
    pub applications: &'a Applications,
    /// The object's name, or its locator key if it has one.
    pub object: &'a [u8],
    pub read: bool,
    pub write: bool,
    pub classes: &'a [ClassCall<'a>],
    pub addr: &'a EntityAddr,
}

/// The capability of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsdCap {
    grants: Vec<Grant>,
    /// Known once, because it is asked for each operation.
    allow_all: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    /// One rule, or those that a profile stands for.
    rules: Vec<Rule>,
    network: Option<Network>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Rule {
    matches: Match,
    spec: Spec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Spec {
    allow: u8,
    /// `class NAME [METHOD]`; an empty method is any.
    class: Option<(String, String)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Match {
    /// Empty: any.
    pool: String,
    /// Absent: any; a trailing `*` makes it a prefix.
    namespace: Option<String>,
    /// Application, key, value; the latter two may be `*`.
    tag: Option<(String, String, String)>,
    prefix: String,
}

impl Match {
    fn is_all(&self) -> bool {
        *self == Self::default()
    }
    fn accepts(&self, req: &OsdRequest<'_>) -> bool {
        if !self.pool.is_empty() && self.pool != req.pool {
            return false;
        }
        if let Some(ns) = &self.namespace {
            let by_prefix = ns.strip_suffix('*').is_some_and(|head| req.namespace.starts_with(head.as_bytes()));
            if !by_prefix && ns.as_bytes() != req.namespace {
                return false;
            }
        }
        if let Some((app, key, value)) = &self.tag {
            let Some(pairs) = req.applications.get(app) else { return false };
            let accepted = match (key.as_str(), value.as_str()) {
                ("*", "*") => true,
                ("*", value) => pairs.values().any(|v| v == value),
                (key, "*") => pairs.contains_key(key),
                (key, value) => pairs.get(key).is_some_and(|v| v == value),
            };
            if !accepted {
                return false;
            }
        }
        req.object.starts_with(self.prefix.as_bytes())
    }
}

impl Grant {
    fn allow_all(&self) -> bool {
        self.rules.iter().any(|r| r.matches.is_all() && r.spec.allow == ANY)
    }
    fn allows(&self, req: &OsdRequest<'_>, allowed: &mut [bool]) -> bool {
        if self.network.as_ref().is_some_and(|n| !n.contains(req.addr)) {
            return false;
        }
        self.rules.iter().any(|r| r.allows(req, allowed))
    }
}

impl Rule {
    fn allows(&self, req: &OsdRequest<'_>, allowed: &mut [bool]) -> bool {
        let allow = self.spec.allow;
        if !self.matches.accepts(req) || req.read && allow & R == 0 || req.write && allow & W == 0 {
            return false;
        }
        if allow == ANY {
            return true;
        }
        for (call, done) in req.classes.iter().zip(allowed.iter_mut()) {
            let named = self.spec.class.as_ref().is_some_and(|(c, m)| c == call.class && (m.is_empty() || m == call.method));
            let lacks = call.read && allow & CLASS_R == 0 || call.write && allow & CLASS_W == 0;
            if named || call.listed && !lacks {
                *done = true;
            }
        }
        allowed.iter().all(|done| *done)
    }
}

impl OsdCap {
    /// Everything, as without authentication.
    pub fn all() -> Self {
        let rule = Rule { matches: Match::default(), spec: Spec { allow: ANY, class: None } };
        Self { grants: vec![Grant { rules: vec![rule], network: None }], allow_all: true }
    }
    pub fn parse(text: &str) -> Result<Self, CapError> {
        let mut p = Parser::new(text.trim_end());
        p.skip_spaces();
        let grants = p.grants("osd", grant).map_err(|e| match e {
            CapError::Syntax { what, rest, .. } => CapError::Syntax { what, rest, text: text.into() },
            other => other,
        })?;
        // A grant for a network only is asked about each time.
        let allow_all = grants.iter().any(|g| g.network.is_none() && g.allow_all());
        Ok(Self { grants, allow_all })
    }
    /// Of what a ticket says; a text that can't be read allows nothing.
    pub fn from_info(info: &AuthCapsInfo) -> Self {
        if info.allow_all {
            return Self::all();
        }
        info.text().and_then(|text| Self::parse(&text).ok()).unwrap_or_default()
    }
    /// True if nothing needs to be asked at all of its holder at that address.
    pub fn allows_all(&self, addr: &EntityAddr) -> bool {
        self.allow_all || self.grants.iter().any(|g| g.allow_all() && g.network.as_ref().is_none_or(|n| n.contains(addr)))
    }
    /// True if no request at all is allowed to its holder at that address.
    pub fn allows_nothing(&self, addr: &EntityAddr) -> bool {
        let grants = self.grants.iter().filter(|g| g.network.as_ref().is_none_or(|n| n.contains(addr)));
        !self.allow_all && grants.flat_map(|g| &g.rules).all(|rule| rule.spec.allow == 0 && rule.spec.class.is_none())
    }
    pub fn allows(&self, req: &OsdRequest<'_>) -> bool {
        if self.allow_all {
            return true;
        }
        let mut allowed = vec![false; req.classes.len()];
        self.grants.iter().any(|g| g.allows(req, &mut allowed))
    }
    /// Whether its holder may write anything at all in that pool, in whichever namespace: what a monitor asks before it makes or removes a
    /// snapshot of a client's own. A tag alone is not enough (Ceph 18.2 `OSDMonitor.cc`, `is_unmanaged_snap_op_permitted`).
    pub fn writes_into(&self, pool: &str, addr: &EntityAddr) -> bool {
        let rule = |r: &Rule| {
            let named = if r.matches.pool.is_empty() { r.matches.tag.is_none() } else { r.matches.pool == pool };
            r.spec.allow & W != 0 && named
        };
        self.allow_all || self.grants.iter().any(|g| g.network.as_ref().is_none_or(|n| n.contains(addr)) && g.rules.iter().any(rule))
    }
}

fn grant(p: &mut Parser<'_>) -> Option<Grant> {
    blanks(p);
    let rule = p
        .attempt(|p| {
            p.lit("allow")?;
            let spec = spec(p)?;
            Some(Rule { spec, matches: matches(p) })
        })
        .or_else(|| {
            p.attempt(|p| {
                p.lit("allow")?;
                let matches = matches(p);
                Some(Rule { matches, spec: spec(p)? })
            })
        });
    let rules = match rule {
        Some(rule) => vec![rule],
        None => profile(p)?,
    };
    let network = p.network();
    blanks(p);
    Some(Grant { rules, network })
}

fn blanks(p: &mut Parser<'_>) {
    while p.lit(" ").or_else(|| p.lit("\t")).is_some() {}
}

fn spec(p: &mut Parser<'_>) -> Option<Spec> {
    if let Some(allow) = p.attempt(rwxa) {
        return Some(Spec { allow, class: None });
    }
    p.attempt(|p| {
        p.spaced("class")?;
        p.spaces()?;
        let class = p.string()?;
        let method = p.attempt(|p| {
            p.spaces()?;
            p.string()
        });
        Some(Spec { allow: 0, class: Some((class, method.unwrap_or_default())) })
    })
}

fn rwxa(p: &mut Parser<'_>) -> Option<u8> {
    if p.spaced("*").or_else(|| p.spaced("all")).is_some() {
        return Some(ANY);
    }
    let mut allow = p
        .attempt(|p| {
            p.spaces()?;
            let letters = [("r", R), ("w", W), ("x", X)];
            let allow = letters.into_iter().filter(|(l, _)| p.lit(l).is_some()).fold(0, |set, (_, bit)| set | bit);
            (allow != 0).then_some(allow)
        })
        .unwrap_or(0);
    for (word, bit) in [("class-read", CLASS_R), ("class-write", CLASS_W)] {
        if p.spaced(word).is_some() {
            allow |= bit;
        }
    }
    (allow != 0).then_some(allow)
}

fn matches(p: &mut Parser<'_>) -> Match {
    let tagged = p.attempt(|p| Some(Match { tag: Some(tag(p)?), ..Match::default() })).or_else(|| {
        p.attempt(|p| {
            let namespace = Some(namespace(p)?);
            Some(Match { namespace, tag: Some(tag(p)?), ..Match::default() })
        })
    });
    if let Some(tagged) = tagged {
        return tagged;
    }
    let pool = pool(p);
    let namespace = namespace(p);
    let prefix = p.attempt(|p| {
        p.spaced("object_prefix")?;
        p.spaces()?;
        p.string()
    });
    Match { pool: pool.unwrap_or_default(), namespace, tag: None, prefix: prefix.unwrap_or_default() }
}

fn pool(p: &mut Parser<'_>) -> Option<String> {
    p.attempt(|p| {
        p.spaced("pool")?;
        p.equals_or_spaces()?;
        p.string()
    })
}

fn namespace(p: &mut Parser<'_>) -> Option<String> {
    p.attempt(|p| {
        p.spaced("namespace")?;
        p.equals_or_spaces()?;
        let mut name = p.string_or_empty()?;
        if p.lit("*").is_some() {
            name.push('*');
        }
        Some(name)
    })
}

fn tag(p: &mut Parser<'_>) -> Option<(String, String, String)> {
    p.attempt(|p| {
        p.spaced("tag")?;
        p.spaces()?;
        let app = p.string()?;
        p.spaces()?;
        let key = wild_or_string(p)?;
        p.skip_spaces();
        p.lit("=")?;
        p.skip_spaces();
        Some((app, key, wild_or_string(p)?))
    })
}

fn wild_or_string(p: &mut Parser<'_>) -> Option<String> {
    match p.lit("*").or_else(|| p.lit("all")) {
        Some(()) => Some("*".into()),
        None => p.string(),
    }
}

fn profile(p: &mut Parser<'_>) -> Option<Vec<Rule>> {
    p.attempt(|p| {
        p.lit("profile")?;
        p.equals_or_spaces()?;
        let name = p.string()?;
        let pool = pool(p).unwrap_or_default();
        let namespace = namespace(p);
        Some(rules_of_profile(&name, pool, namespace))
    })
}

/// True if a text is a capability each of whose grants is a profile with such a name.
pub(super) fn is_of_profiles(text: &str, accepts: impl Fn(&str) -> bool) -> bool {
    let named = |p: &mut Parser<'_>| {
        blanks(p);
        let name = p.attempt(|p| {
            p.lit("profile")?;
            p.equals_or_spaces()?;
            p.string()
        });
        pool(p);
        namespace(p);
        p.network();
        blanks(p);
        name.filter(|name| accepts(name))
    };
    Parser::new(text.trim()).grants("osd", named).is_ok()
}

/// An unknown profile stands for no rule.
fn rules_of_profile(name: &str, pool: String, namespace: Option<String>) -> Vec<Rule> {
    let within = Match { pool: pool.clone(), namespace, ..Match::default() };
    let rights = |matches: &Match, allow| Rule { matches: matches.clone(), spec: Spec { allow, class: None } };
    let method = |matches: Match, method: &str| Rule { matches, spec: Spec { allow: 0, class: Some(("rbd".into(), method.into())) } };
    let anywhere = |prefix: &str| Match { prefix: prefix.into(), ..Match::default() };
    let info = Match { pool, namespace: Some(String::new()), tag: None, prefix: "rbd_info".into() };
    let header = Match { prefix: "rbd_header.".into(), ..within.clone() };
    match name {
        "read-only" => vec![rights(&within, R)],
        "read-write" => vec![rights(&within, R | W)],
        "rbd" => vec![
            rights(&anywhere("rbd_info"), R),
            rights(&anywhere("rbd_children"), CLASS_R),
            rights(&anywhere("rbd_mirroring"), CLASS_R),
            method(info, "metadata_list"),
            rights(&within, R | W | X),
        ],
        "rbd-read-only" => vec![
            method(info, "metadata_list"),
            rights(&within, R | CLASS_R),
            method(header.clone(), "child_attach"),
            method(header, "child_detach"),
        ],
        _ => Vec::new(),
    }
}
