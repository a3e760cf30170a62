//! The hashes that a placement group's objects have: a range, when a hash is read with its bits reversed. Which objects lie in a group, by that.

use maps::PgPool;
use types::{CEPH_NOSNAP, HObject, PgId, PoolId};

/// The pool of temporary objects, which become objects of this pool: as stock has it, so far below.
pub fn temp_pool(pool: PoolId) -> PoolId {
    -2 - pool
}

/// True if an object of this name lies in the group, be it one that is being built.
pub fn holds(pgid: PgId, pool: &PgPool, obj: &HObject) -> bool {
    !obj.max && (obj.pool == pgid.pool || obj.pool == temp_pool(pgid.pool)) && pool.fold(obj.hash) == pgid.seed
}

/// How many low bits of a hash the objects of a group have in common.
pub fn split_bits(seed: u32, pg_num: u32) -> u32 {
    if pg_num <= 1 {
        return 0;
    }
    let p = 32 - pg_num.leading_zeros();
    let half = 1_u32 << (p - 1);
    if seed % half < pg_num % half { p } else { p - 1 }
}

/// A group's hashes with their bits reversed: the first, and the first behind the last.
pub fn reversed_hashes(seed: u32, pg_num: u32) -> (u32, u64) {
    let begin = seed.reverse_bits();
    (begin, (u64::from(begin) | (u64::from(u32::MAX) >> split_bits(seed, pg_num))) + 1)
}

/// The first object behind every object of a group: where the next group begins.
pub fn pg_end(pgid: PgId, pg_num: u32) -> HObject {
    match u32::try_from(reversed_hashes(pgid.seed, pg_num).1) {
        Ok(hash) => HObject { hash: hash.reverse_bits(), pool: pgid.pool, snap: CEPH_NOSNAP, ..HObject::min() },
        Err(_) => HObject::max(),
    }
}

/// The first object of a group, and the first behind it.
pub fn pg_range(pgid: PgId, pool: &PgPool) -> (HObject, HObject) {
    (HObject::pgmeta(pgid), pg_end(pgid, pool.pg_num))
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::hash::{bins_mask, stable_mod};

    #[test]
    fn a_hash_lies_in_the_range_of_the_group_that_it_folds_to() {
        for pg_num in 1..70_u32 {
            let mut next: Vec<(u32, u64)> = (0..pg_num).map(|seed| reversed_hashes(seed, pg_num)).collect();
            next.sort_unstable();
            assert!(next.windows(2).all(|two| two[0].1 == u64::from(two[1].0)), "ranges of {pg_num} groups meet");
            assert_eq!((next[0].0, next[next.len() - 1].1), (0, 1 << 32));
            for seed in 0..pg_num {
                let (begin, end) = reversed_hashes(seed, pg_num);
                for hash in [seed, seed | 0x8000_0000, !0, 12345] {
                    let here = stable_mod(hash, pg_num, bins_mask(pg_num)) == seed;
                    assert_eq!((u64::from(begin)..end).contains(&u64::from(hash.reverse_bits())), here, "{hash:x} and {seed} of {pg_num}");
                }
            }
        }
    }
}
