//! What the tests of the monitor share: where it stands, and a clock that tests set.

use base::{Clock, Stamp};
use mon_core::MonOptions;
use std::collections::BTreeMap;
use types::{AddrType, EntityAddr, EntityAddrVec, Uuid};

pub fn addr(text: &str) -> EntityAddrVec {
    EntityAddrVec::one(EntityAddr::parse(text, AddrType::MSGR2).unwrap())
}
pub fn options(fsid: Uuid) -> MonOptions {
    MonOptions {
        fsid,
        mon_addrs: addr("v2:127.0.0.1:3300/0"),
        mgr_addrs: addr("v2:127.0.0.1:3301/7"),
        cephx: true,
        metadata: BTreeMap::new(),
    }
}
pub fn clock(ms: u64) -> Clock {
    Clock { mono: Stamp(ms * 1_000_000), wall_ns: 1_700_000_000_000_000_000 + ms * 1_000_000 }
}
