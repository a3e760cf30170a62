//! Parts that a world of one OSD and one of several have in common: their first map, their pool, their client and its requests.

use super::{POOL, addr, uuid};
use maps::{OsdMap, PgPool, Release, map_flags, osd_state, pool_flags};
use messages::{InOp, MOSDOp};
use osd_core::daemon::Network;
use osd_core::{BootInfo, Peer};
use std::sync::Arc;
use types::osd_op::osd_flag;
use types::{CEPH_NOSNAP, EntityAddrVec, EntityName, HObject, PgId, SpgId, UTime, features};

/// The map of a cluster whose OSDs, each on a host of its own, have never been up.
pub fn first_map(osds: usize) -> OsdMap {
    let mut crush = crush::CrushMap::new_cluster("osd");
    for osd in 0..osds as i32 {
        let place = crush::Location::from([("root".into(), "default".into()), ("host".into(), format!("h{osd}"))]);
        crush.insert_item(osd, 0x10000, &format!("osd.{osd}"), &place).unwrap();
    }
    let mut map = OsdMap {
        fsid: uuid(1),
        epoch: 1,
        crush: Arc::new(crush),
        require_osd_release: Release::REEF,
        flags: map_flags::SORTBITWISE | map_flags::RECOVERY_DELETES | map_flags::PURGED_SNAPDIRS,
        nearfull_ratio: 0.85,
        backfillfull_ratio: 0.9,
        full_ratio: 0.95,
        ..OsdMap::default()
    };
    map.set_max_osd(osds as i32);
    for osd in 0..osds {
        (map.osd_state[osd], map.osd_weight[osd]) = (osd_state::EXISTS, 0x10000);
    }
    map
}
/// The pool `p` of copies.
pub fn add_pool(map: &mut OsdMap, size: u8, min_size: u8, pg_num: u32) {
    let pool = PgPool {
        kind: PgPool::REPLICATED,
        size,
        min_size,
        pg_num,
        pgp_num: pg_num,
        pg_num_pending: pg_num,
        pg_num_target: pg_num,
        pgp_num_target: pg_num,
        object_hash: PgPool::HASH_RJENKINS,
        flags: pool_flags::HASHPSPOOL,
        last_change: map.epoch,
        ..PgPool::default()
    };
    map.pools.insert(POOL, pool);
    map.pool_names.insert(POOL, "p".into());
    map.pool_max = 1;
}
/// Where an OSD listens in one life: at four ports from this one on.
pub fn listens(port: u16, nonce: u32) -> BootInfo {
    let at = |n| EntityAddrVec::one(addr(port + n, nonce));
    BootInfo { public: at(0), cluster: at(1), hb_front: at(2), hb_back: at(3), metadata: Vec::new() }
}
/// A client that may do everything.
pub fn client(id: i64) -> Peer {
    Peer {
        name: EntityName::client(id),
        entity: "client.admin".into(),
        global_id: id as u64,
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr: addr(0, id as u32),
        from: addr(0, id as u32),
        network: Network::Public,
        cap: None,
    }
}
/// A client's request, by this map.
pub fn request(map: &OsdMap, tid: u64, name: &str, ops: Vec<InOp>) -> MOSDOp {
    let pool = &map.pools[&POOL];
    let hash = pool.hash_key(name.as_bytes(), b"");
    let write = ops.iter().any(|o| o.op.code.is_write());
    let mut m = MOSDOp {
        tid,
        pgid: SpgId::whole(PgId::new(POOL, pool.fold(hash))),
        hobj: HObject { oid: name.as_bytes().to_vec().into(), hash, pool: POOL, snap: CEPH_NOSNAP, ..HObject::min() },
        map_epoch: map.epoch,
        flags: osd_flag::ONDISK | if write { osd_flag::WRITE } else { osd_flag::READ },
        mtime: UTime { sec: 1, nsec: 2 },
        features: features::SUPPORTED,
        ..MOSDOp::default()
    };
    m.ops.extend(ops);
    m
}
