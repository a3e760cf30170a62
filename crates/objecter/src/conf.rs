//! The text of a ceph.conf: sections, keys with their many spellings, `$` variables.
//!
//! ```text
//! [global]
//! mon host = [v2:127.0.0.1:3300,v1:127.0.0.1:6789]   ; a comment
//! [client.admin]
//! keyring = /etc/ceph/$cluster.$name.keyring
//! ```
//!
//! Spaces, `-` and `_` in keys are the same. What is asked for is looked up in `[type.id]`, `[type]` and `[global]`, in that order.

use std::collections::BTreeMap;
use thiserror::Error;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityText};

/// A line that is none of what a ceph.conf has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("ceph.conf line {line}: {what}")]
pub struct ConfError {
    pub line: usize,
    pub what: &'static str,
}

/// Values by section and key, as read, with the name for which they are asked.
#[derive(Debug, Clone)]
pub struct Conf {
    pub name: EntityText,
    pub cluster: String,
    sections: BTreeMap<String, BTreeMap<String, String>>,
    /// From the command line or the monitor: looked at before the file.
    overrides: BTreeMap<String, String>,
}

fn norm(key: &str) -> String {
    key.split([' ', '\t', '-', '_']).filter(|w| !w.is_empty()).collect::<Vec<_>>().join("_")
}

impl Conf {
    /// No file at all.
    pub fn empty(name: EntityText) -> Self {
        Self { name, cluster: "ceph".into(), sections: BTreeMap::new(), overrides: BTreeMap::new() }
    }
    /// Reads `text` for the daemon or client of this `name`.
    pub fn parse(text: &str, name: EntityText) -> Result<Self, ConfError> {
        let mut conf = Self::empty(name);
        let mut section = "global".to_string();
        let mut lines = text.lines().enumerate();
        while let Some((number, first)) = lines.next() {
            let bad = |what| ConfError { line: number + 1, what };
            let mut line = first.trim().to_string();
            while line.ends_with('\\') && !line.starts_with(['#', ';']) {
                line.pop();
                line.push_str(lines.next().map_or("", |(_, more)| more.trim()));
            }
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let (name, rest) = rest.split_once(']').ok_or(bad("a section without ]"))?;
                if !rest.trim().is_empty() && !rest.trim().starts_with(['#', ';']) {
                    return Err(bad("something behind a section's name"));
                }
                section = name.trim().to_string();
                continue;
            }
            let (key, value) = line.split_once('=').ok_or(bad("neither a section nor key = value"))?;
            if norm(key).is_empty() {
                return Err(bad("a value without a key"));
            }
            conf.sections.entry(section.clone()).or_default().insert(norm(key), value_of(value.trim()));
        }
        Ok(conf)
    }
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.overrides.insert(norm(key), value.into());
    }
    /// The raw text, variables and all.
    fn raw(&self, key: &str) -> Option<&str> {
        let (kind, full) = (self.name.kind.name(), self.name.to_string());
        let sections = [full.as_str(), kind, "global"].into_iter().filter_map(|s| self.sections.get(s));
        self.overrides.get(key).or_else(|| sections.into_iter().find_map(|s| s.get(key))).map(String::as_str)
    }
    /// A value with its variables replaced.
    pub fn get(&self, key: &str) -> Option<String> {
        let key = norm(key);
        self.raw(&key).map(|raw| self.expand(raw, 8))
    }
    pub fn get_or(&self, key: &str, default: &str) -> String {
        self.get(key).unwrap_or_else(|| self.expand(default, 8))
    }
    /// A number, with a unit if it has one: `4K`, `1_G` and `10M` are powers of 1024.
    pub fn number(&self, key: &str) -> Option<u64> {
        options::size::bytes(&self.get(key)?)
    }
    pub fn seconds(&self, key: &str) -> Option<f64> {
        self.get(key)?.trim().parse().ok()
    }
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)?.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        }
    }
    /// A list with commas, semicolons or spaces between.
    pub fn list(&self, key: &str) -> Vec<String> {
        let value = self.get(key).unwrap_or_default();
        value.split([',', ';', ' ', '\t']).filter(|w| !w.is_empty()).map(String::from).collect()
    }
    /// Sections and their keys, as read.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, String>)> {
        self.sections.iter().map(|(name, values)| (name.as_str(), values))
    }
    /// Where the monitors are, as far as we can talk to them (`mon host`).
    pub fn mon_hosts(&self) -> Vec<EntityAddrVec> {
        self.get("mon_host").map(|text| parse_mon_hosts(&text)).unwrap_or_default()
    }

    fn expand(&self, raw: &str, depth: u32) -> String {
        let mut out = String::new();
        let mut rest = raw;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let tail = &rest[at + 1..];
            let (name, after) = match tail.strip_prefix('{') {
                Some(braced) => braced.split_once('}').unwrap_or((braced, "")),
                None => {
                    let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len());
                    tail.split_at(end)
                }
            };
            match self.variable(name, depth) {
                Some(value) => out.push_str(&value),
                None => out.push_str(&rest[at..rest.len() - after.len()]),
            }
            rest = after;
        }
        out + rest
    }
    fn variable(&self, name: &str, depth: u32) -> Option<String> {
        match name {
            "cluster" => Some(self.cluster.clone()),
            "type" => Some(self.name.kind.name().into()),
            "id" | "num" => Some(self.name.id.clone()),
            "name" => Some(self.name.to_string()),
            _ if depth == 0 => None,
            other => self.raw(&norm(other)).map(|raw| self.expand(raw, depth - 1)),
        }
    }
}

/// A value without its comment, or what stands in quotes.
fn value_of(text: &str) -> String {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    if let Some(end) = quote.and_then(|q| text[1..].find(q)) {
        return text[1..=end].to_string();
    }
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '#' | ';' => break,
            c => out.push(c),
        }
    }
    out.trim_end().to_string()
}

/// `[v2:a:3300,v1:a:6789],[v2:b:3300]` or `a,b:3300`: one entry a monitor, those with a msgr2 address only. An address without a port
/// gets msgr2's.
pub fn parse_mon_hosts(text: &str) -> Vec<EntityAddrVec> {
    let mut out = Vec::new();
    let mut push = |group: &str| {
        let addrs = group.split(',').filter_map(|word| {
            let mut addr = EntityAddr::parse(word.trim(), AddrType::MSGR2)?;
            if addr.kind == AddrType::MSGR2 && addr.port == 0 {
                addr.port = MSGR2_PORT;
            }
            (addr.ip.is_some() && addr.kind == AddrType::MSGR2).then_some(addr)
        });
        let addrs: Vec<EntityAddr> = addrs.collect();
        if !addrs.is_empty() {
            out.push(EntityAddrVec(addrs));
        }
    };
    let mut rest = text.trim();
    while !rest.is_empty() {
        rest = rest.trim_start_matches([',', ';', ' ', '\t']);
        // A bracket is a group, unless it holds a bare IPv6 address.
        let group = rest
            .strip_prefix('[')
            .and_then(|r| r.split_once(']'))
            .filter(|(g, _)| g.contains("v1:") || g.contains("v2:") || g.contains(','));
        if let Some(((group, after), true)) = group.map(|g| (g, true)) {
            push(group);
            rest = after;
            continue;
        }
        let end = rest.find([',', ';', ' ', '\t']).unwrap_or(rest.len());
        push(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

/// Monitors' registered port for msgr2.
pub const MSGR2_PORT: u16 = 3300;

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# first\n[global]\nfsid = 1234\nmon host = [v2:127.0.0.1:3860,v1:127.0.0.1:7349]\nkeyring = /x/$cluster.$name.keyring ; no\n\
        osd  pool-default_size = 3\nlog file = ${run dir}/$name.log\nrun dir = /run/$type\nquoted = \"a # b\"\nlong = a \\\n b\n[client]\nosd_pool_default_size=2\n\
        [client.x]\nosd pool default size = 1\nmemory = 4K\n";

    #[test]
    fn sections_spellings_and_variables() {
        let conf = |name: &str| Conf::parse(TEXT, EntityText::parse(name).unwrap()).unwrap();
        let table = [
            ("client.x", "osd_pool_default_size", "1"),
            ("client.y", "osd pool default size", "2"),
            ("osd.0", "osd-pool-default-size", "3"),
            ("client.admin", "keyring", "/x/ceph.client.admin.keyring"),
            ("osd.7", "log_file", "/run/osd/osd.7.log"),
            ("osd.7", "quoted", "a # b"),
            ("osd.7", "long", "a b"),
        ];
        for (name, key, value) in table {
            assert_eq!(conf(name).get(key).as_deref(), Some(value), "{name} {key}");
        }
        assert_eq!(conf("client.x").number("memory"), Some(4096));
        assert_eq!(conf("client.x").get("nothing"), None);
        let mut c = conf("client.x");
        c.set("osd pool default size", "9");
        assert_eq!(c.number("osd_pool_default_size"), Some(9));
        assert_eq!(c.mon_hosts()[0].to_string(), "v2:127.0.0.1:3860/0");
    }

    #[test]
    fn what_is_no_conf_says_where() {
        assert_eq!(Conf::parse("[a]\nx", EntityText::default()).unwrap_err().line, 2);
        assert_eq!(Conf::parse("[a\n", EntityText::default()).unwrap_err().line, 1);
    }

    #[test]
    fn monitors_in_all_their_forms() {
        let table = [
            ("127.0.0.1", "v2:127.0.0.1:3300/0"),
            ("v2:1.2.3.4:5/0,v2:1.2.3.5:6", "v2:1.2.3.4:5/0 v2:1.2.3.5:6/0"),
            ("[v2:1.2.3.4:5,v1:1.2.3.4:7] [v2:1.2.3.5:6]", "v2:1.2.3.4:5/0 v2:1.2.3.5:6/0"),
            ("v1:1.2.3.4:6789", ""),
            ("[fd00::1]:3300", "v2:[fd00::1]:3300/0"),
        ];
        for (text, want) in table {
            let got: Vec<String> = parse_mon_hosts(text).iter().map(|a| a.to_string()).collect();
            assert_eq!(got.join(" "), want, "{text}");
        }
    }
}
