//! Tables of cases by hand, and random histories beside a model that knows what every object is at every point of every history.

mod acting;
mod bad;
mod intervals;
mod model;
mod rules;
mod tree;

use types::{ByteStr, CEPH_NOSNAP, EVersion, EntityName, HObject, LogOp, ModDesc, ObjectCleanRegions, PgLog, PgLogEntry, ReqId};

pub fn v(epoch: u32, version: u64) -> EVersion {
    EVersion::new(epoch, version)
}
/// Objects with small numbers sort by their hashes.
pub fn object(n: u64) -> HObject {
    let oid = ByteStr::from(format!("object{n}").into_bytes());
    HObject { oid, hash: (n as u32).wrapping_mul(0x9e37_79b9), pool: 1, snap: CEPH_NOSNAP, ..HObject::min() }
}
pub fn reqid(version: EVersion) -> ReqId {
    ReqId { name: EntityName::client(i64::from(version.epoch)), tid: version.version, inc: 1 }
}
pub fn entry(op: LogOp, soid: HObject, version: EVersion, prior_version: EVersion) -> PgLogEntry {
    let mut clean_regions = ObjectCleanRegions::default();
    clean_regions.mark_data_dirty(0, 4096);
    PgLogEntry {
        op,
        soid,
        version,
        prior_version,
        reqid: reqid(version),
        user_version: version.version,
        mod_desc: ModDesc::unrollbackable(),
        clean_regions,
        ..PgLogEntry::default()
    }
}
pub fn log_of(tail: EVersion, head: EVersion, log: Vec<PgLogEntry>) -> PgLog {
    PgLog { head, tail, log, ..PgLog::default() }
}
