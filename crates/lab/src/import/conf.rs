//! The ceph.conf that belongs to a CBT file: store and authentication are settings of the study, other lines go to stock's daemons as they
//! are, and places of the old machine are named and left out.

use anyhow::{Result, bail};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Conf {
    pub store: &'static str,
    pub auth: &'static str,
    pub lines: BTreeMap<String, String>,
}

impl Default for Conf {
    fn default() -> Self {
        Self { store: "block", auth: "cephx", lines: BTreeMap::new() }
    }
}

/// Beginnings and ends of keys that say where things were: words are divided by blanks here.
const PLACES: &[&str] = &[
    "fsid",
    "mon host",
    "mon addr",
    "mon initial members",
    "keyring",
    "public network",
    "cluster network",
    "host",
    "log file",
    "run dir",
    "admin socket",
    "pid file",
    "osd data",
    "mon data",
    "osd journal",
    "osd mkfs",
    "osd mount",
    "osd max backfills path",
    "public addr",
    "cluster addr",
];

/// Reads it; `named` gets what is left out.
pub fn read(text: &str, named: &mut Vec<String>) -> Result<Conf> {
    let mut conf = Conf::default();
    let mut section = "global".to_string();
    for (number, raw) in text.lines().enumerate() {
        let line = raw.split(['#', ';']).next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').trim().into();
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { bail!("ceph.conf:{}: `{line}` is no `key = value`", number + 1) };
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        let plain = key.replace(['_', '-'], " ");
        match plain.as_str() {
            _ if !matches!(section.as_str(), "global" | "osd" | "client" | "mon") || PLACES.iter().any(|p| plain.starts_with(p)) => {
                named.push(format!("ceph.conf [{section}] {key} = {value}: of the old machine, left out"));
            }
            "osd objectstore" => {
                conf.store = match value {
                    "memstore" => "mem",
                    "filestore" => "file",
                    _ => "block",
                }
            }
            "auth supported" | "auth client required" | "auth service required" | "auth cluster required" => {
                conf.auth = if value == "none" { "none" } else { "cephx" };
            }
            _ => drop(conf.lines.insert(key.into(), value.into())),
        }
    }
    Ok(conf)
}
