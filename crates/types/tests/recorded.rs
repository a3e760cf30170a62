//! What stock OSDs wrote to their replicas (`MOSDRepOp` of `fixtures/messages`, whose README says where they are from): transactions, the
//! attributes in them, log entries and statistics decode; those of 18.2 come back to the same bytes.

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;

use base::Rng;
use denc::{Bytes, Decoder, Denc, features};
use std::path::Path;
use types::*;

const MSG_OSD_REPOP: u16 = 112;

/// Front and data of each MOSDRepOp of a release, and its `data_off`.
fn rep_ops(release: &str) -> Vec<(Bytes, Bytes, u16)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/messages").join(release).with_extension("msgs");
    let mut d = Decoder::new(std::fs::read(path).unwrap().into());
    let mut out = Vec::new();
    while !d.is_empty() {
        let kind = d.u16().unwrap();
        d.skip(2 * 3 + 8).unwrap();
        let data_off = d.u16().unwrap();
        let lens = [d.u32().unwrap(), d.u32().unwrap(), d.u32().unwrap()];
        let [front, _, data] = lens.map(|n| d.raw(n as usize).unwrap());
        if kind == MSG_OSD_REPOP {
            out.push((front, data, data_off));
        }
    }
    out
}

/// Decodes the whole of `bytes`; encodes it again to the same if `exact`.
fn back<T: Denc>(bytes: &Bytes, exact: bool) -> T {
    let mut d = Decoder::new(bytes.clone());
    let value: T = d.get().unwrap();
    assert!(d.is_empty());
    if exact {
        let name = std::any::type_name::<T>();
        assert_eq!(value.to_bytes(features::SUPPORTED), bytes, "{name}");
    }
    value
}

fn check(release: &str, exact: bool) {
    let (mut infos, mut snapsets) = (0, 0);
    for (front, data, data_off) in rep_ops(release) {
        let txn: Transaction = back(&data, exact);
        if exact {
            assert_eq!(txn.to_pieces(features::SUPPORTED).data_off, data_off);
        }
        for op in txn.ops() {
            let TxKind::SetAttrs(attrs) = &op.kind else { continue };
            for (name, value) in attrs {
                if *name == OI_ATTR {
                    let info: ObjectInfo = back(value, exact);
                    assert_eq!(info.soid, txn.object(op.obj).hobj);
                    infos += 1;
                } else if *name == SS_ATTR {
                    back::<SnapSet>(value, exact);
                    snapsets += 1;
                }
            }
        }
        let mut d = Decoder::new(front);
        d.skip(2 * 4 + 3 * 8).unwrap();
        let (reqid, pgid, object): (ReqId, SpgId, HObject) = (d.get().unwrap(), d.get().unwrap(), d.get().unwrap());
        d.skip(1).unwrap();
        let version: EVersion = d.get().unwrap();
        let log: Vec<PgLogEntry> = back(&d.blob().unwrap(), exact);
        if let Some(last) = log.last() {
            assert_eq!((last.version, last.soid.head()), (version, object.head()));
            assert!(last.reqid == reqid || last.reqid == ReqId::default(), "trimming has no request");
        }
        assert!(txn.is_empty() || txn.colls().any(|c| c == CollId::Pg(pgid)));
        let start = d.rest();
        let mut d = Decoder::new(start.clone());
        let stat: PgStat = d.get().unwrap();
        if exact {
            assert_eq!(stat.to_bytes(features::SUPPORTED), start.slice(..d.position()));
        }
    }
    assert!(!exact || infos > 0 && snapsets > 0);
}

#[test]
fn reef_comes_back_byte_for_byte() {
    check("reef", true);
}

#[test]
fn pacific_and_tentacle_are_read() {
    check("pacific", false);
    check("tentacle", false);
}

/// OSDs of 20.2 write v10 of a transaction to each other, and so to ours: this one has no payload.
#[test]
fn a_removal_of_tentacle_is_one() {
    let (_, data, _) = rep_ops("tentacle").pop().unwrap();
    assert_eq!(data[0], 10);
    let txn = Transaction::from_bytes(&data).unwrap();
    let op = &txn.ops()[0];
    assert!(txn.len() == 1 && op.kind == TxKind::Remove && txn.object(op.obj).hobj.oid.as_slice().starts_with(b"rbd_object_map."));
}

/// Cut short or with bits turned: an error or another value, never a panic.
#[test]
fn damage_never_panics() {
    let mut rng = Rng::new(3);
    for (_, data, _) in rep_ops("reef") {
        for _ in 0..300 {
            let mut bad = data.to_vec();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(bad.len() as u64) as usize;
                bad[at] ^= 1 << rng.below(8);
            }
            bad.truncate(bad.len() - rng.below(4) as usize * rng.below(bad.len() as u64 / 4) as usize);
            let Ok(txn) = Transaction::from_bytes(&bad.into()) else { continue };
            for op in txn.ops() {
                if let TxKind::SetAttrs(attrs) = &op.kind {
                    for (_, value) in attrs {
                        let _ = (ObjectInfo::from_bytes(value), SnapSet::from_bytes(value));
                    }
                }
            }
        }
    }
}

/// Decodes `bytes` as each of these types; what is understood is written and read again.
macro_rules! each {
    ($bytes:expr, $($name:ty),* $(,)?) => { $(
        let read = fuzzing::bounded(stringify!($name), $bytes.len(), MEMORY, || <$name>::from_bytes($bytes));
        if let Ok(value) = read {
            let _ = <$name>::from_bytes(&value.to_bytes(features::SUPPORTED));
        }
    )* };
}
/// Bytes of memory for each byte of input: an empty interval or a missing object takes a few bytes on the wire and some hundred here.
const MEMORY: usize = 200;

/// What each type looks like when it is blank, so that there is a sample of those too that were not recorded.
macro_rules! blanks {
    ($($name:ty),* $(,)?) => { vec![ $( <$name>::default().to_bytes(features::SUPPORTED) ),* ] };
}

#[test]
fn fuzz_recorded_and_blank_values() {
    let mut samples = blanks!(
        CopyData,
        PgInterval,
        PastIntervals,
        StoreStatfs,
        StorePerfStat,
        OsdStat,
        ObjectLocator,
        ObjectCleanRegions,
        ObjectStatSum,
        ObjectStatCollection,
        ReqId,
        PgLog,
        PgMissing,
        ObjectInfo,
        Transaction,
        ScrubMap,
        PgHistory,
        PgInfo,
        SnapContext,
        SnapSet,
        OsdOp,
        HObject,
        GHObject,
        PgStat,
        PoolStat,
        EntityAddr,
        EntityAddrVec,
        NlsResponse,
        ListWatchers,
        ListSnaps,
        ObjectManifest,
        OsdSuperblock,
    );
    for (front, data, _) in ["pacific", "reef", "tentacle"].into_iter().flat_map(rep_ops) {
        let txn = Transaction::from_bytes(&data).unwrap();
        let attrs = txn.ops().iter().filter_map(|op| if let TxKind::SetAttrs(attrs) = &op.kind { Some(attrs) } else { None });
        samples.extend(attrs.flatten().map(|(_, value)| value.clone()));
        let mut d = Decoder::new(front);
        d.skip(2 * 4 + 3 * 8).unwrap();
        let _: (ReqId, SpgId, HObject) = (d.get().unwrap(), d.get().unwrap(), d.get().unwrap());
        d.skip(1 + 12).unwrap();
        samples.extend([d.blob().unwrap(), d.rest(), data]);
    }
    fuzzing::run("types", 4000, |rng| {
        let (sample, other) = (fuzzing::pick(rng, &samples), fuzzing::pick(rng, &samples));
        let bytes = &Bytes::from(fuzzing::damaged(rng, sample, other));
        each!(
            bytes,
            CopyData,
            PgInterval,
            PastIntervals,
            StoreStatfs,
            StorePerfStat,
            OsdStat,
            ObjectLocator,
            ObjectCleanRegions,
            ObjectStatSum,
            ObjectStatCollection,
            ReqId,
            Vec<PgLogEntry>,
            PgLog,
            PgMissing,
            ObjectInfo,
            Transaction,
            ScrubMap,
            PgHistory,
            PgInfo,
            SnapContext,
            SnapSet,
            OsdOp,
            HObject,
            GHObject,
            IntervalSet,
            PgStat,
            PoolStat,
            EntityText,
            EntityAddr,
            EntityAddrVec,
            NlsResponse,
            ListWatchers,
            ListSnaps,
            ObjectManifest,
            OsdSuperblock,
        );
    });
}
