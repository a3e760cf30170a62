//! Messages recorded between stock daemons and clients: each decodes, encodes again to the same bytes, and no damage to it makes a
//! decoder panic or ask for memory out of proportion.
//!
//! `fixtures/messages/README.md` says where they are from and how a record looks. `MESSAGE_RECORDS` names a folder with more of them.

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;
mod record;

use base::Rng;
use bytes::Bytes;
use messages::*;
use std::path::{Path, PathBuf};

/// The records of one file, one behind the other.
fn load(path: &Path) -> Vec<RawMessage> {
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let (raw, end) = record::message_at(&bytes, at);
        out.push(raw);
        at = end;
    }
    out
}

fn records() -> Vec<(String, RawMessage)> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/messages");
    let more = std::env::var_os("MESSAGE_RECORDS").map(PathBuf::from);
    let mut files: Vec<PathBuf> = [Some(own), more]
        .into_iter()
        .flatten()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "msg" || e == "msgs"))
        .collect();
    files.sort();
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        load(path)
            .into_iter()
            .enumerate()
            .map(move |(i, raw)| (format!("{name}[{i}] {} v{}", kind_name(raw.kind), raw.version), raw))
            .collect::<Vec<_>>()
    };
    files.iter().flat_map(named).collect()
}

/// Decodes by kind; `Some(again)` is the encoding of what was understood.
macro_rules! dispatch {
    ($raw:expr, $($name:ident),* $(,)?) => {
        match $raw.kind {
            $( <$name as Message>::KIND => Some(<$name as Message>::decode($raw).map(|m| m.encode(types::features::SUPPORTED))), )*
            _ => None,
        }
    };
}

fn understand(raw: &RawMessage) -> Option<Result<RawMessage, denc::DencError>> {
    dispatch!(
        raw,
        MOSDOp,
        MOSDOpReply,
        MOSDBackoff,
        MWatchNotify,
        MOSDMap,
        MPing,
        MMonGetMap,
        MMonMap,
        MMonSubscribe,
        MMonSubscribeAck,
        MAuth,
        MAuthReply,
        MMonCommand,
        MMonCommandAck,
        MMonGetVersion,
        MMonGetVersionReply,
        MStatfs,
        MStatfsReply,
        MGetPoolStats,
        MGetPoolStatsReply,
        MPoolOp,
        MPoolOpReply,
        MLog,
        MLogAck,
        MConfig,
        MGetConfig,
        MKVData,
        MMgrMap,
        MFSMap,
        MFSMapUser,
        MServiceMap,
        MMonGetOSDMap,
        MMonGetPurgedSnaps,
        MMonGetPurgedSnapsReply,
        MOSDBoot,
        MOSDBeacon,
        MOSDAlive,
        MOSDFailure,
        MOSDMarkMeDown,
        MOSDMarkMeDead,
        MOSDFull,
        MOSDPGTemp,
        MOSDPGCreated,
        MOSDPGCreate2,
        MOSDPGReadyToMerge,
        MRemoveSnaps,
        MOSDScrub2,
        MOSDForceRecovery,
        MMDSBeacon,
        MMDSMap,
        MMDSLoadTargets,
        MMgrOpen,
        MMgrUpdate,
        MMgrConfigure,
        MMgrReport,
        MMgrClose,
        MMgrDigest,
        MMgrBeacon,
        MMonMgrReport,
        MPGStats,
        MPGStatsAck,
        MCommand,
        MCommandReply,
        MMgrCommand,
        MMgrCommandReply,
        MOSDPing,
        MOSDPGLease,
        MOSDPGLeaseAck,
        MOSDPGNotify2,
        MOSDPGQuery2,
        MOSDPGInfo2,
        MOSDPGLog,
        MOSDPGTrim,
        MOSDPGRemove,
        MBackfillReserve,
        MRecoveryReserve,
        MOSDRepOp,
        MOSDRepOpReply,
        MOSDPGUpdateLogMissing,
        MOSDPGUpdateLogMissingReply,
        MOSDRepScrub,
        MOSDRepScrubMap,
        MOSDScrubReserve,
        MOSDPGPush,
        MOSDPGPushReply,
        MOSDPGPull,
        MOSDPGScan,
        MOSDPGBackfill,
        MOSDPGBackfillRemove,
        MOSDPGRecoveryDelete,
        MOSDPGRecoveryDeleteReply,
        MOSDPGPCT,
    )
}

/// A release other than 18.2 may have sent fields that we skip: then only what we wrote must decode again.
#[test]
fn recorded_messages_come_back() {
    let (mut failed, mut same, mut other, mut unknown) = (Vec::new(), 0, 0, std::collections::BTreeMap::new());
    for (name, raw) in records() {
        match understand(&raw) {
            None => *unknown.entry(kind_name(raw.kind)).or_insert(0) += 1,
            Some(Err(error)) => failed.push(format!("{name}: {error}")),
            Some(Ok(again)) => {
                let equal = again.front == raw.front
                    && again.data_flat() == raw.data_flat()
                    && (again.version, again.compat, again.tid) == (raw.version, raw.compat, if again.tid == 0 { 0 } else { raw.tid });
                if equal {
                    same += 1;
                } else if name.contains("reef") {
                    let at = again.front.iter().zip(&raw.front).position(|(a, b)| a != b);
                    failed.push(format!(
                        "{name}: differs at {at:?}, {} of {} bytes, v{} compat {} of {}",
                        again.front.len(),
                        raw.front.len(),
                        again.version,
                        again.compat,
                        raw.compat
                    ));
                } else {
                    other += 1;
                    println!("{name}: another encoding, v{}, {} / {} bytes", again.version, again.front.len(), raw.front.len());
                    assert!(understand(&again).unwrap().is_ok(), "{name}: what we wrote does not decode");
                }
            }
        }
    }
    println!("{same} the same, {other} otherwise encoded, without a struct: {unknown:?}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn damage_never_panics() {
    let mut rng = Rng::new(7);
    for (_, raw) in records() {
        if understand(&raw).is_none() || raw.front.len() > 20_000 {
            continue;
        }
        let n = raw.front.len();
        let step = (n / 64).max(1);
        for cut in (0..n).step_by(step) {
            let _ = understand(&RawMessage { front: raw.front.slice(..cut), ..raw.clone() });
        }
        for _ in 0..64 {
            if n == 0 {
                break;
            }
            let mut front = raw.front.to_vec();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(n as u64) as usize;
                front[at] = if rng.below(2) == 0 { 0xff } else { front[at] ^ 1 << rng.below(8) };
            }
            let _ = understand(&RawMessage { front: front.into(), ..raw.clone() });
        }
        let _ = understand(&RawMessage { data: vec![], ..raw.clone() });
        for version in 0..raw.version + 3 {
            let _ = understand(&RawMessage { version, ..raw.clone() });
        }
    }
}

/// Bytes of memory for each byte of a message: the smallest elements are a few bytes and have structs of some hundred.
const MEMORY: usize = 200;

/// What a metadata server sends, which the recorded clusters had none of.
fn of_metadata_servers() -> [RawMessage; 4] {
    let text = |n: u8| format!("text {n}");
    let metric = |n: u8| MdsHealthMetric { kind: n.into(), severity: 1, message: text(n), metadata: [(text(n), text(n))].into() };
    let health = MdsHealth { metrics: (0..3).map(metric).collect() };
    let compat = types::CompatSet::mds_unsaid();
    let beacon = MMDSBeacon { gid: 4100, state: 13, seq: 7, name: "a".into(), compat, health, fs: "one".into(), ..MMDSBeacon::default() };
    // A server that boots says what it runs on, too.
    let booting = MMDSBeacon { state: -4, sys_info: (0..4).map(|n| (text(n), text(n))).collect(), ..beacon.clone() };
    let targets = MMDSLoadTargets { gid: 4100, targets: [0, 1, 2].into(), ..MMDSLoadTargets::default() };
    let map = MMDSMap { epoch: 9, map: Bytes::from_static(b"a map"), map_fs_name: "one".into(), ..MMDSMap::default() };
    let features = types::features::SUPPORTED;
    [beacon.encode(features), booting.encode(features), targets.encode(features), map.encode(features)]
}

#[test]
fn fuzz_recorded_messages() {
    let recorded = records().into_iter().map(|(_, raw)| raw).filter(|raw| raw.len() < 20_000 && understand(raw).is_some());
    let all: Vec<RawMessage> = recorded.chain(of_metadata_servers()).collect();
    let mut refused = 0;
    fuzzing::run("messages", 6000, |rng| {
        let (good, other) = (fuzzing::pick(rng, &all), fuzzing::pick(rng, &all));
        let mut bad = good.clone();
        match rng.below(8) {
            0 => bad.kind = other.kind,
            1 => bad.version = [0, 1, bad.version + 1, u16::MAX][rng.below(4) as usize],
            2 => bad.data = vec![fuzzing::damaged(rng, &good.data_flat(), &other.data_flat()).into()],
            3 => bad.middle = fuzzing::damaged(rng, &good.middle, &other.front).into(),
            _ => {}
        }
        if rng.chance(7, 8) {
            bad.front = fuzzing::damaged(rng, &good.front, &other.front).into();
        }
        let read = fuzzing::bounded(kind_name(bad.kind), bad.len(), MEMORY, || understand(&bad).map(|m| m.is_err()));
        refused += u64::from(read == Some(true));
    });
    assert!(refused > 0);
    // Those that are few among all have a share of their own.
    fuzzing::run("messages of metadata servers", 2000, |rng| {
        let all = of_metadata_servers();
        let (good, other) = (fuzzing::pick(rng, &all), fuzzing::pick(rng, &all));
        let again = understand(good).expect("it is a message").expect("it is right");
        assert!(again.front == good.front, "{}", kind_name(good.kind));
        let version = if rng.chance(1, 4) { rng.below(10) as u16 } else { good.version };
        let bad = RawMessage { front: fuzzing::damaged(rng, &good.front, &other.front).into(), version, ..good.clone() };
        let _ = fuzzing::bounded(kind_name(bad.kind), bad.len(), MEMORY, || understand(&bad).map(|m| m.is_err()));
    });
}
