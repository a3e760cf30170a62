//! What the objects of each pool take, counted with each change, and kept as one row.

use crate::codec::{Corrupt, Get, Put};
use crate::key;
use crate::onode::Usage;
use bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Counters {
    /// By pool: a store has few.
    pools: Vec<(i64, Usage)>,
}

/// The pool that an object counts to, by what its key says: temporary objects are their pool's.
pub fn pool_of(family: u8, pool: i64) -> i64 {
    if family == 0 || pool >= -1 { pool } else { key::temp_pool(pool) }
}

impl Counters {
    /// An object of the pool took `before`, and takes `after`.
    pub fn change(&mut self, pool: i64, before: Usage, after: Usage) {
        match self.pools.iter_mut().find(|(p, _)| *p == pool) {
            Some((_, usage)) => usage.change(before, after),
            None => {
                let mut usage = Usage::default();
                usage.change(before, after);
                self.pools.push((pool, usage));
            }
        }
    }
    pub fn iter(&self) -> impl Iterator<Item = (i64, &Usage)> {
        self.pools.iter().map(|(pool, usage)| (*pool, usage))
    }
    /// Counted again, by the objects: true if that differs from what was known.
    pub fn recount(&mut self, pools: BTreeMap<i64, Usage>) -> bool {
        let pools: Vec<(i64, Usage)> = pools.into_iter().collect();
        let differs = self.pools != pools;
        self.pools = pools;
        differs
    }

    pub fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        out.put_var(self.pools.len() as u64);
        for (pool, usage) in &self.pools {
            for v in [*pool, usage.data, usage.stored, usage.omap, usage.objects] {
                out.put_zigzag(v);
            }
        }
        out.into()
    }
    pub fn load(&mut self, row: Bytes) -> Result<(), Corrupt> {
        let mut get = Get::new(row);
        for _ in 0..get.count(5)? {
            let (pool, data, stored) = (get.zigzag()?, get.zigzag()?, get.zigzag()?);
            self.pools.push((pool, Usage { data, stored, omap: get.zigzag()?, objects: get.zigzag()? }));
        }
        Ok(())
    }
}
