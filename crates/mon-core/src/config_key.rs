//! `ceph config-key`: a store of keys and values for tools, and for subscribers of `kv:PREFIX`.

use crate::kv::{Batch, Snapshot};
use bytes::Bytes;
use std::collections::BTreeMap;

/// All keys, in memory.
#[derive(Debug, Default)]
pub struct ConfigKeys {
    pub entries: BTreeMap<String, Bytes>,
    /// Counts changes.
    pub version: u64,
}

impl ConfigKeys {
    pub fn load(snapshot: &Snapshot) -> Self {
        let entries = snapshot.below("config-key/").map(|(k, v)| (k.to_string(), v.clone())).collect();
        Self { entries, version: snapshot.number("config-key-version").unwrap_or(1) }
    }
    /// Sets or removes a key; true if that changed anything.
    pub fn set(&mut self, key: &str, value: Option<Bytes>, batch: &mut Batch) -> bool {
        let old = match &value {
            Some(v) => self.entries.insert(key.into(), v.clone()),
            None => self.entries.remove(key),
        };
        if old == value {
            return false;
        }
        batch.changes.push((format!("config-key/{key}"), value));
        self.version += 1;
        batch.put_text("config-key-version", &self.version.to_string());
        true
    }
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a String, &'a Bytes)> {
        self.entries.range(prefix.to_string()..).take_while(move |(k, _)| k.starts_with(prefix))
    }
}
