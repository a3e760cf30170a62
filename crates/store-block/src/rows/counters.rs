//! What the objects of each pool take, counted with each change, and kept as one row.
//!
//! A chunk that several objects share counts for each of them in `data`, and all but once of it in `again`: the difference is what they take. The row
//! has the one in front, as older versions knew it, and the other behind that, where those don't look. A row that such a version has written ends
//! there: then what is shared is to be counted by the objects ([`Counters::knows_again`]).
//!
//! A store has few pools, each of which is looked at for each change of an object's size, and for each question.

use crate::open::layout::BLOCK;
use crate::rows::codec::{Corrupt, Get, Put};
use crate::rows::key;
use crate::rows::onode::Usage;
use bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Counters {
    /// By pool: a store has few.
    pools: Vec<(i64, Usage)>,
    /// The row that was loaded does not say what is shared.
    is_old: bool,
    /// For tests: rows as older versions wrote them.
    #[cfg(test)]
    pub writes_old: bool,
}

/// The pool that an object counts to, by what its key says: temporary objects are their pool's.
pub fn pool_of(family: u8, pool: i64) -> i64 {
    if family == 0 || pool >= -1 { pool } else { key::temp_pool(pool) }
}

impl Counters {
    /// An object of the pool took `before`, and takes `after`.
    pub fn change(&mut self, pool: i64, before: Usage, after: Usage) {
        self.pool(pool).change(before, after);
    }
    /// So many blocks of the pool's objects are counted once more, or less, than they are there.
    pub fn share(&mut self, pool: i64, blocks: i64) {
        self.pool(pool).again += blocks * BLOCK as i64;
    }
    fn pool(&mut self, pool: i64) -> &mut Usage {
        let at = self.pools.iter().position(|(p, _)| *p == pool).unwrap_or_else(|| {
            self.pools.push((pool, Usage::default()));
            self.pools.len() - 1
        });
        &mut self.pools[at].1
    }
    /// False if what was loaded does not say how much is shared.
    pub fn knows_again(&self) -> bool {
        !self.is_old
    }
    pub fn iter(&self) -> impl Iterator<Item = (i64, &Usage)> {
        self.pools.iter().map(|(pool, usage)| (*pool, usage))
    }
    /// Counted again, by the objects: true if that differs from what was known.
    pub fn recount(&mut self, pools: BTreeMap<i64, Usage>) -> bool {
        self.is_old = false;
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
        #[cfg(test)]
        if self.writes_old {
            return out.into();
        }
        self.pools.iter().for_each(|(_, usage)| out.put_zigzag(usage.again));
        out.into()
    }
    pub fn load(&mut self, row: Bytes) -> Result<(), Corrupt> {
        let mut get = Get::new(row);
        for _ in 0..get.count(5)? {
            let (pool, data, stored) = (get.zigzag()?, get.zigzag()?, get.zigzag()?);
            self.pools.push((pool, Usage { data, again: 0, stored, omap: get.zigzag()?, objects: get.zigzag()? }));
        }
        self.is_old = get.is_empty();
        if !self.is_old {
            self.pools.iter_mut().try_for_each(|(_, usage)| Ok(usage.again = get.zigzag()?))?;
        }
        Ok(())
    }
}
