//! What the monitor keeps: keys and values that the shell makes durable, one batch at a time.
//!
//! Keys are texts with `/` between their parts, numbers padded so that they sort. The core has everything in memory that it needs to
//! answer; it reads the store once, when it starts, and old map epochs later through [`Store`].
//!
//! A batch takes one step for each key that it changes; to read those below a prefix, one for each of them.

use bytes::Bytes;

/// Changes that become durable together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Key and new value; no value removes the key. A later entry for the same key wins.
    pub changes: Vec<(String, Option<Bytes>)>,
}

impl Batch {
    pub fn put(&mut self, key: impl Into<String>, value: impl Into<Bytes>) {
        self.changes.push((key.into(), Some(value.into())));
    }
    pub fn put_text(&mut self, key: impl Into<String>, value: &str) {
        self.put(key, Bytes::copy_from_slice(value.as_bytes()));
    }
    pub fn remove(&mut self, key: impl Into<String>) {
        self.changes.push((key.into(), None));
    }
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
    pub fn append(&mut self, mut other: Batch) {
        self.changes.append(&mut other.changes);
    }
}

/// The durable state as it was when the process started.
#[derive(Debug, Clone, Default)]
pub struct Snapshot(pub std::collections::BTreeMap<String, Bytes>);

impl Snapshot {
    pub fn get(&self, key: &str) -> Option<&Bytes> {
        self.0.get(key)
    }
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key).map(|v| String::from_utf8_lossy(v).into_owned())
    }
    pub fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }
    /// Keys below `prefix` without it, sorted.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Bytes)> {
        self.0.range(prefix.to_string()..).take_while(move |(k, _)| k.starts_with(prefix)).map(move |(k, v)| (&k[prefix.len()..], v))
    }
    /// Applies a batch, as the shell does to its file: for tests and for a store in memory.
    pub fn apply(&mut self, batch: &Batch) {
        for (key, value) in &batch.changes {
            match value {
                Some(value) => self.0.insert(key.clone(), value.clone()),
                None => self.0.remove(key),
            };
        }
    }
}
