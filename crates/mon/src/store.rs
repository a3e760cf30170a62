//! The monitor's store: one table of keys and values in a redb file.

use anyhow::{Context, Result};
use bytes::Bytes;
use mon_core::{Batch, Snapshot};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;

/// Bytes that redb may keep in memory: the core has everything that it asks for, so the store is hardly read.
const CACHE: usize = 4 << 20;

const TABLE: TableDefinition<&str, &[u8]> = TableDefinition::new("mon");

/// An open store. Only one process can have it open.
pub struct Store(Database);

impl Store {
    /// Opens the file, or makes it.
    pub fn open(path: &Path) -> Result<Self> {
        let db =
            Database::builder().set_cache_size(CACHE).create(path).with_context(|| format!("the monitor's store {}", path.display()))?;
        Ok(Self(db))
    }
    /// Everything in it.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut out = Snapshot::default();
        let txn = self.0.begin_read()?;
        let table = match txn.open_table(TABLE) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(out),
            Err(e) => return Err(e.into()),
        };
        for row in table.iter()? {
            let (key, value) = row?;
            out.0.insert(key.value().to_string(), Bytes::copy_from_slice(value.value()));
        }
        Ok(out)
    }
    /// Makes a batch durable.
    pub fn apply(&self, batch: &Batch) -> Result<()> {
        let txn = self.0.begin_write()?;
        {
            let mut table = txn.open_table(TABLE)?;
            for (key, value) in &batch.changes {
                match value {
                    Some(value) => drop(table.insert(key.as_str(), &value[..])?),
                    None => drop(table.remove(key.as_str())?),
                }
            }
        }
        txn.commit()?;
        Ok(())
    }
}
