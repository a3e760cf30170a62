//! Rules that the monitor's state keeps, whatever event was handled: looked at before a batch goes out, so that nothing broken is kept.
//!
//! A clash is a bug of ours and ends the monitor: its next start goes on from the last batch. Holds no rule of what clients may ask for.

use crate::view::View;
use maps::{OsdMap, osd_state};
use types::{PgId, PoolId};

impl View<'_> {
    /// See the module. A few steps for each OSD, pool and exception of placement.
    pub(crate) fn assert_invariants(self) {
        assert!(!self.osd.has_pending(), "a change of the OSD map waits for an epoch");
        let map = &self.osd.map;
        assert_whole(map);
        for fs in self.fs.map.filesystems.values() {
            let pools = fs.mds.data_pools.iter().chain([&fs.mds.metadata_pool]);
            pools.for_each(|pool| {
                assert!(map.pools.contains_key(pool), "file system {} lies in pool {pool}, which is gone", fs.mds.fs_name)
            });
        }
    }
}

fn assert_whole(map: &OsdMap) {
    let count = usize::try_from(map.max_osd).expect("a number of OSDs");
    let lens = [map.osd_state.len(), map.osd_weight.len(), map.client_addrs.len(), map.osd_info.len(), map.osd_uuid.len()];
    assert!(lens.iter().all(|len| *len == count), "epoch {}: {lens:?} of {count} OSDs", map.epoch);
    for (osd, state) in map.osd_state.iter().enumerate() {
        let is_up = state & osd_state::UP != 0;
        assert!(!is_up || state & osd_state::EXISTS != 0, "epoch {}: osd.{osd} is up and does not exist", map.epoch);
        assert!(!is_up || !map.client_addrs[osd].0.is_empty(), "epoch {}: osd.{osd} is up and nowhere", map.epoch);
    }
    assert!(map.pools.keys().eq(map.pool_names.keys()), "epoch {}: each pool has a name, and no other number has", map.epoch);
    let is_there = |pool: PoolId| map.pools.contains_key(&pool);
    let placed = map.pg_temp.keys().chain(map.primary_temp.keys()).chain(map.pg_upmap.keys());
    let mut placed = placed.chain(map.pg_upmap_items.keys()).chain(map.pg_upmap_primaries.keys());
    let stray: Option<&PgId> = placed.find(|pg| !is_there(pg.pool));
    assert!(stray.is_none(), "epoch {}: an exception for group {stray:?} of no pool", map.epoch);
}
