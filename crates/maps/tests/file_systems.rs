//! The map of file systems: what its steps leave behind, and that it reads back as it was written, also damaged.

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;

use denc::{Bytes, Denc};
use maps::mds_map::{FeatureBits, NO_FS, mds_flags};
use maps::{FsMap, FsMapUser, MdsInfo, MdsMap, MdsState};
use types::{AddrType, CompatSet, EntityAddr, EntityAddrVec, UTime, features};

fn server(gid: u64) -> MdsInfo {
    let addr = EntityAddr::parse(&format!("v2:10.0.0.1:6800/{gid}"), AddrType::MSGR2).unwrap();
    MdsInfo { gid, name: format!("s{gid}"), addrs: EntityAddrVec::one(addr), compat: CompatSet::mds_unsaid(), ..MdsInfo::default() }
}

/// Two file systems, one of them with a rank that is held and followed, one damaged and one stopped; and two that stand by.
fn busy() -> FsMap {
    let mut m = FsMap { epoch: 7, ..FsMap::default() };
    let (one, two) = (m.create("one", 1, 2, None, false, UTime::ZERO), m.create("two", 3, 4, Some(9), true, UTime::ZERO));
    (10..16).for_each(|gid| m.insert(server(gid)));
    for (rank, gid) in [(0, 10), (1, 11), (2, 12)] {
        m.promote(gid, one, rank);
        m.modify_daemon(gid, |i| i.state = MdsState::ACTIVE);
    }
    m.follow(13, one, 0);
    m.stop(12);
    m.damaged(11, 5);
    m.modify(one, |fs| {
        fs.mds.flags |= mds_flags::ALLOW_STANDBY_REPLAY;
        fs.mds.required_client_features.insert(70);
        fs.mirror.mirrored = true;
    });
    m.modify_daemon(14, |i| (i.join_fscid, i.flags) = (two, MdsInfo::FROZEN));
    m.check();
    m
}

/// Epochs of a stock monitor; `fixtures/maps/README.md` says what happened in them.
fn recorded() -> Vec<Bytes> {
    let path = format!("{}/../../fixtures/maps/fsmaps-reef.bin", env!("CARGO_MANIFEST_DIR"));
    let mut d = denc::Decoder::new(std::fs::read(path).unwrap().into());
    std::iter::from_fn(|| (!d.is_empty()).then(|| d.blob().unwrap())).collect()
}

#[test]
fn a_stock_monitors_maps_come_out_bit_for_bit() {
    let all = recorded();
    assert_eq!(all.len(), 34);
    let mut seen = std::collections::BTreeSet::new();
    for (i, bytes) in all.iter().enumerate() {
        let m = FsMap::from_bytes(bytes).unwrap();
        m.check();
        assert!(m.epoch as usize == i + 1 && m.to_bytes(features::SUPPORTED) == *bytes, "epoch {}", m.epoch);
        seen.extend(m.daemons().map(|i| i.state));
    }
    use MdsState as S;
    let met = [S::STANDBY, S::CREATING, S::ACTIVE, S::STANDBY_REPLAY, S::REPLAY, S::REJOIN, S::STOPPING];
    assert!(met.iter().all(|state| seen.contains(state)), "{seen:?}");
}

#[test]
fn a_map_reads_back_as_it_was_written() {
    let m = busy();
    assert_eq!(FsMap::from_bytes(&m.to_bytes(features::SUPPORTED)).unwrap(), m);
    let one = &m.filesystems[&1].mds;
    assert_eq!((&one.up, one.in_ranks.len(), one.failed.len()), (&[(0, 10)].into(), 2, 0));
    assert!(one.damaged.contains(&1) && one.stopped.contains(&2) && one.follower(0).unwrap().gid == 13);
    assert_eq!((one.last_failure_osd_epoch, one.is_degraded(), m.legacy_client_fscid, m.next_filesystem_id), (5, true, 1, 10));
    let user = FsMapUser::from(&m);
    assert_eq!(FsMapUser::from_bytes(&user.to_bytes(features::SUPPORTED)).unwrap(), user);
    assert_eq!(user.filesystems[1].name, "two");
    // Kernels and clients of before Nautilus read one address.
    let old = MdsMap::from_bytes(&one.to_bytes(features::SUPPORTED & !features::SERVER_NAUTILUS)).unwrap();
    assert_eq!(old.info.len(), one.info.len());
}

#[test]
fn who_takes_over_is_who_follows_then_who_wants_to() {
    let mut m = busy();
    assert_eq!(m.replacement_for(&m.filesystems[&1], 0).unwrap().gid, 13);
    // A frozen daemon is left alone.
    assert_eq!(m.available_standby(&m.filesystems[&9]).unwrap().gid, 15);
    m.modify_daemon(14, |i| i.flags = 0);
    assert_eq!(m.available_standby(&m.filesystems[&9]).unwrap().gid, 14);
    assert_eq!(m.available_standby(&m.filesystems[&1]).unwrap().gid, 15, "who wants another file system comes last");
    m.modify_daemon(15, |i| i.laggy_since = UTime { sec: 1, nsec: 0 });
    assert_eq!(m.available_standby(&m.filesystems[&1]).unwrap().gid, 14);
    m.modify(1, |fs| fs.mds.flags |= mds_flags::REFUSE_STANDBY_FOR_ANOTHER_FS);
    assert!(m.available_standby(&m.filesystems[&1]).is_none());
    m.remove(9);
    assert_eq!(m.daemon(14).unwrap().join_fscid, NO_FS);
    m.check();
}

#[test]
fn a_rank_that_was_never_finished_never_was() {
    let mut m = FsMap::default();
    let fs = m.create("one", 1, 2, None, false, UTime::ZERO);
    m.insert(server(10));
    m.promote(10, fs, 0);
    assert_eq!(m.daemon(10).unwrap().state, MdsState::CREATING);
    m.erase(10, 3);
    assert!(m.filesystems[&fs].mds.in_ranks.is_empty() && m.filesystems[&fs].mds.failed.is_empty());
    // One that was stopped starts, one that failed replays.
    m.modify(fs, |fs| fs.mds.stopped.extend([0]));
    m.insert(server(11));
    m.promote(11, fs, 0);
    assert_eq!(m.daemon(11).unwrap().state, MdsState::STARTING);
    m.erase(11, 4);
    m.insert(server(12));
    m.promote(12, fs, 0);
    assert_eq!(m.daemon(12).unwrap().state, MdsState::REPLAY);
    m.check();
}

#[test]
fn features_are_bits_without_empty_blocks() {
    let mut bits = FeatureBits::default();
    bits.insert(3);
    bits.insert(130);
    assert!(bits.test(3) && bits.test(130) && !bits.test(131) && bits.0.len() == 3);
    assert_eq!(FeatureBits::from_bytes(&bits.to_bytes(0)).unwrap(), bits);
    bits.remove(130);
    assert_eq!(bits.0, [8]);
}

#[test]
fn fuzz_maps_of_file_systems() {
    let mut samples = recorded();
    samples.push(busy().to_bytes(features::SUPPORTED));
    fuzzing::run("fsmap", 2500, |rng| {
        let (good, other) = (fuzzing::pick(rng, &samples), fuzzing::pick(rng, &samples));
        let bad = Bytes::from(fuzzing::damaged(rng, good, other));
        let read = fuzzing::bounded("FsMap", bad.len(), 100, || FsMap::from_bytes(&bad));
        // What is read is written again, whatever it is.
        if let Ok(map) = read {
            assert!(map.to_bytes(features::SUPPORTED).len() >= 20);
        }
    });
    // What servers and clients are sent of it.
    let all: Vec<FsMap> = samples.iter().map(|bytes| FsMap::from_bytes(bytes).unwrap()).collect();
    let users: Vec<Bytes> = all.iter().map(|m| FsMapUser::from(m).to_bytes(features::SUPPORTED)).collect();
    let servers: Vec<Bytes> = all.iter().flat_map(|m| m.filesystems.values().map(|fs| fs.mds.to_bytes(features::SUPPORTED))).collect();
    fuzzing::run("mdsmap", 2500, |rng| {
        for (name, samples) in [("FsMapUser", &users), ("MdsMap", &servers)] {
            let (good, other) = (fuzzing::pick(rng, samples), fuzzing::pick(rng, samples));
            let bad = Bytes::from(fuzzing::damaged(rng, good, other));
            let again = fuzzing::bounded(name, bad.len(), 100, || match name {
                "MdsMap" => MdsMap::from_bytes(&bad).map(|map| map.to_bytes(features::SUPPORTED).len()),
                _ => FsMapUser::from_bytes(&bad).map(|map| map.to_bytes(features::SUPPORTED).len()),
            });
            assert!(again.is_err() || again.is_ok_and(|len| len > 4), "{name}");
        }
    });
}
