//! Maps recorded from stock monitors: decoding and encoding again gives the same bytes, and each change leads to the next map.
//!
//! `fixtures/maps/README.md` says where the recordings come from.

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;

use base::Rng;
use denc::{Bytes, Denc};
use maps::{FsMap, Incremental, MgrMap, MonMap, OsdMap};
use types::features;

fn fixture(name: &str) -> Bytes {
    let path = format!("{}/../../fixtures/maps/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}")).into()
}

/// Takes a file of one LZ4 block apart: its length, then the block.
fn unpacked(name: &str) -> Bytes {
    let packed = fixture(name);
    let whole = u32::from_le_bytes(packed[..4].try_into().unwrap()) as usize;
    let (mut rest, mut out) = (&packed[4..], Vec::with_capacity(whole));
    fn byte(rest: &mut &[u8]) -> usize {
        let (first, tail) = rest.split_first().unwrap();
        *rest = tail;
        *first as usize
    }
    // A length of 15 goes on in further bytes, until one of them isn't 255.
    fn length(first: usize, rest: &mut &[u8]) -> usize {
        let mut sum = first;
        while first == 15 {
            let more = byte(rest);
            sum += more;
            if more != 255 {
                break;
            }
        }
        sum
    }
    loop {
        let token = byte(&mut rest);
        let literals = length(token >> 4, &mut rest);
        out.extend_from_slice(&rest[..literals]);
        rest = &rest[literals..];
        if rest.is_empty() {
            assert_eq!(out.len(), whole);
            return out.into();
        }
        let back = byte(&mut rest) | byte(&mut rest) << 8;
        for _ in 0..length(token & 15, &mut rest) + 4 {
            out.push(out[out.len() - back]);
        }
    }
}

/// (Incremental, full map or nothing) of consecutive epochs.
fn recording(release: &str) -> Vec<(Bytes, Bytes)> {
    parse(fixture(&format!("osdmaps-{release}.bin")))
}
fn parse(data: Bytes) -> Vec<(Bytes, Bytes)> {
    let mut d = denc::Decoder::new(data);
    let mut out = Vec::new();
    while !d.is_empty() {
        let (inc, full) = (d.u32().unwrap() as usize, d.u32().unwrap() as usize);
        out.push((d.raw(inc).unwrap(), d.raw(full).unwrap()));
    }
    out
}

fn first_difference(ours: &[u8], theirs: &[u8]) -> String {
    let at = ours.iter().zip(theirs).position(|(a, b)| a != b).unwrap_or(ours.len().min(theirs.len()));
    let part = |b: &[u8]| format!("{:02x?}", &b[at.saturating_sub(8).min(b.len())..(at + 24).min(b.len())]);
    format!("at byte {at} ({} and {} bytes): ours {} theirs {}", ours.len(), theirs.len(), part(ours), part(theirs))
}

/// Every epoch's change comes out as it went in; applied, it gives a map whose encoding has the crc that the change states.
fn replay(release: &str) -> OsdMap {
    let first = recording(release);
    let second = parse(unpacked(&format!("osdmaps-{release}-varied.lz4")));
    assert!(first.len() + second.len() >= 500, "{release}: {} and {} epochs", first.len(), second.len());
    // In 18.2's second recording a shadow bucket's weight-set of three positions has 0 where a rebuild of ours has the sum: not looked at there.
    replay_one(release, second, release != "reef");
    replay_one(release, first, true)
}
/// `weight_sets`: shadow buckets' weight-sets are what we would make of them, too.
fn replay_one(release: &str, recording: Vec<(Bytes, Bytes)>, weight_sets: bool) -> OsdMap {
    let mut map = OsdMap::default();
    for (i, (inc_bytes, full_bytes)) in recording.iter().enumerate() {
        let inc = Incremental::from_bytes(inc_bytes).unwrap_or_else(|e| panic!("{release} {i}: {e}"));
        let (again, crc) = inc.encode_with(inc.encode_features);
        assert!(again == *inc_bytes, "{release} epoch {}: {}", inc.epoch, first_difference(&again, inc_bytes));
        assert_eq!(crc, inc.inc_crc);
        let bytes = map.apply_and_encode(&inc).unwrap_or_else(|e| panic!("{release} epoch {}: {e}", inc.epoch));
        if !full_bytes.is_empty() {
            assert!(bytes == *full_bytes, "{release} epoch {}: {}", inc.epoch, first_difference(&bytes, full_bytes));
        }
        let read = OsdMap::from_bytes(&bytes).unwrap();
        assert!(read == map, "{release} epoch {}: the map reads back as another one", inc.epoch);
        // A stock monitor's shadow trees are what we would build, numbers included. (A bucket just added has none there yet.)
        let mut crush = (*map.crush).clone();
        if crush.nonshadow_roots().iter().all(|root| crush.class_bucket.contains_key(root)) {
            crush.rebuild_shadows();
            if !weight_sets {
                crush.choose_args.clone_from(&map.crush.choose_args);
            }
            assert!(crush == *map.crush, "{release} epoch {}: other shadow trees", inc.epoch);
        }
    }
    map
}

#[test]
fn reef_maps_come_out_bit_for_bit() {
    replay("reef");
}

#[test]
fn pacific_maps_come_out_bit_for_bit() {
    replay("pacific");
}

#[test]
fn tentacle_maps_come_out_bit_for_bit() {
    replay("tentacle");
}

#[test]
fn maps_of_monitors_managers_and_file_systems_come_out_bit_for_bit() {
    for release in ["pacific", "reef"] {
        let bytes = fixture(&format!("monmap-{release}.bin"));
        let map = MonMap::from_bytes(&bytes).unwrap();
        assert!(
            map.to_bytes(features::SUPPORTED) == bytes,
            "{release} monmap: {}",
            first_difference(&map.to_bytes(features::SUPPORTED), &bytes)
        );
        let bytes = fixture(&format!("mdsmap-{release}.bin"));
        let map = FsMap::from_bytes(&bytes).unwrap();
        assert!(
            map.to_bytes(features::SUPPORTED) == bytes,
            "{release} fsmap: {}",
            first_difference(&map.to_bytes(features::SUPPORTED), &bytes)
        );
    }
    let bytes = fixture("mgr-reef.bin");
    let map = MgrMap::from_bytes(&bytes).unwrap();
    assert!(map.to_bytes(features::SUPPORTED) == bytes, "{}", first_difference(&map.to_bytes(features::SUPPORTED), &bytes));
}

#[test]
fn a_new_crush_map_is_a_stock_monitors() {
    let inc = Incremental::from_bytes(&recording("reef")[0].0).unwrap();
    let map = OsdMap::from_bytes(&inc.fullmap).unwrap();
    assert_eq!(*map.crush, maps::CrushMap::new_cluster("osd"));
}

/// Cut and flipped maps are refused or read as something; nothing panics. The crc is put right, so that the content is looked at.
#[test]
fn damaged_maps_do_no_harm() {
    let mut rng = Rng::new(9);
    let recording = recording("reef");
    let (inc, full) = recording.last().unwrap();
    let crush = OsdMap::from_bytes(full).unwrap().crush.to_bytes(features::SUPPORTED);
    let others = [fixture("monmap-reef.bin"), fixture("mgr-reef.bin"), fixture("mdsmap-reef.bin")];
    for _ in 0..1000 {
        let mut bytes = full.to_vec();
        let n = bytes.len();
        for _ in 0..=rng.below(3) {
            let at = 6 + rng.below(n as u64 - 10) as usize;
            bytes[at] = [0, 255, bytes[at] ^ 1 << rng.below(8)][rng.below(3) as usize];
        }
        let crc = base::crc32c(u32::MAX, &bytes[..n - 4]);
        bytes[n - 4..].copy_from_slice(&crc.to_le_bytes());
        if let Ok(map) = OsdMap::from_bytes(&bytes.into())
            && map.crush.tunables.choose_total_tries < 100
        {
            let mut work = maps::Placement::default();
            for pool in map.pools.keys() {
                map.pg_to_up_acting(types::PgId::new(*pool, 1), &mut work);
            }
        }
        for good in [inc, &crush, &others[0], &others[1], &others[2]] {
            let mut bytes = good.to_vec();
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
            bytes.truncate(rng.below(bytes.len() as u64 * 2).max(1) as usize);
            let bytes = Bytes::from(bytes);
            let _ = Incremental::from_bytes(&bytes);
            let _ = maps::CrushMap::from_bytes(&bytes);
            let _ = MonMap::from_bytes(&bytes);
            let _ = MgrMap::from_bytes(&bytes);
            let _ = FsMap::from_bytes(&bytes);
        }
    }
}

/// Every decoder on damaged samples of every release; a map that is read takes a damaged change, as an OSD would apply it.
#[test]
fn fuzz_recorded_maps() {
    let samples: Vec<_> = ["pacific", "reef", "tentacle"].map(recording).into_iter().flatten().collect();
    let incs: Vec<&Bytes> = samples.iter().map(|(inc, _)| inc).collect();
    let fulls: Vec<&Bytes> = samples.iter().map(|(_, full)| full).filter(|full| !full.is_empty()).collect();
    let base = OsdMap::from_bytes(fulls.last().unwrap()).unwrap();
    let crush = base.crush.to_bytes(features::SUPPORTED);
    let others: Vec<Bytes> =
        ["monmap-pacific.bin", "monmap-reef.bin", "mgr-reef.bin", "mdsmap-pacific.bin", "mdsmap-reef.bin"].map(fixture).into();
    const MEMORY: usize = 100;
    fuzzing::run("maps", 2500, |rng| {
        let (full, inc) = (*fuzzing::pick(rng, &fulls), *fuzzing::pick(rng, &incs));
        let mut bytes = fuzzing::damaged(rng, full, inc);
        // The crc put right, so that the content is looked at.
        if let Some(n) = bytes.len().checked_sub(4) {
            let crc = base::crc32c(u32::MAX, &bytes[..n]);
            bytes[n..].copy_from_slice(&crc.to_le_bytes());
        }
        let _ = fuzzing::bounded("OsdMap", bytes.len(), MEMORY, || OsdMap::from_bytes(&bytes.clone().into()));
        let bytes = Bytes::from(fuzzing::damaged(rng, inc, full));
        if let Ok(change) = fuzzing::bounded("Incremental", bytes.len(), MEMORY, || Incremental::from_bytes(&bytes)) {
            let mut map = base.clone();
            let _ = map.apply_and_encode(&Incremental { epoch: map.epoch + 1, fsid: map.fsid, ..change });
        }
        let sample = if rng.chance(1, 3) { &crush } else { fuzzing::pick(rng, &others) };
        let bytes = Bytes::from(fuzzing::damaged(rng, sample, &crush));
        let n = bytes.len();
        let _ = fuzzing::bounded("CrushMap", n, MEMORY, || maps::CrushMap::from_bytes(&bytes));
        let _ = fuzzing::bounded("MonMap", n, MEMORY, || MonMap::from_bytes(&bytes));
        let _ = fuzzing::bounded("MgrMap", n, MEMORY, || MgrMap::from_bytes(&bytes));
        let _ = fuzzing::bounded("FsMap", n, MEMORY, || FsMap::from_bytes(&bytes));
    });
}
