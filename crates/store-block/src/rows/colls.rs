//! The collections: how many bits of an object's hash say whether it is in one, in memory and as a row.
//!
//! As many as there are groups: to find one takes steps in proportion to the logarithm of that.

use crate::data::ops;
use crate::rows::codec::{Corrupt, Get};
use crate::rows::key;
use crate::rows::meta::layer::Val;
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{StoreError, StoreResult};
use types::{CollId, GHObject};

#[derive(Debug, Default)]
pub struct Colls(BTreeMap<CollId, u32>);

/// The row of a collection.
pub fn row(bits: u32) -> Val {
    Val::Row(bits.to_le_bytes().to_vec().into())
}
/// And its key.
pub fn row_key(name: &[u8]) -> Vec<u8> {
    [&[key::COLL], name].concat()
}

impl Colls {
    pub fn iter(&self) -> impl Iterator<Item = (CollId, u32)> + '_ {
        self.0.iter().map(|(coll, bits)| (*coll, *bits))
    }
    pub fn bits(&self, coll: CollId) -> Option<u32> {
        self.0.get(&coll).copied()
    }
    /// The bits of one that must be there.
    pub fn need(&self, coll: CollId) -> StoreResult<u32> {
        self.bits(coll).ok_or(StoreError::NoCollection(coll))
    }
    /// The collection is there, and the object's place is in it.
    pub fn has(&self, coll: CollId, obj: &GHObject) -> StoreResult<bool> {
        Ok(key::belongs(coll, self.need(coll)?, obj))
    }
    pub fn set(&mut self, coll: CollId, bits: u32) {
        self.0.insert(coll, bits);
    }
    pub fn remove(&mut self, coll: CollId) {
        self.0.remove(&coll);
    }
    /// One of the last checkpoint, by its row.
    pub fn load(&mut self, key: &[u8], row: Bytes) -> Result<(), Corrupt> {
        let bits = Get::new(row).u32()?;
        self.set(ops::parse_coll(&Bytes::copy_from_slice(&key[1..]))?, bits);
        Ok(())
    }
}
