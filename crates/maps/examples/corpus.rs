//! Decodes the samples of Ceph's object corpus and encodes them again: `cargo run -p maps --example corpus PATH/archive`.
//!
//! Every sample of every release must decode; those of 18.2.0 must come back to the same bytes, but for those that
//! have grown since. The corpus is not part of the project.

use denc::{Decoder, Denc, Encoder, features};
use maps::{Filesystem, FsMap, MdsInfo, MdsMap};
use std::collections::BTreeMap;
use std::path::Path;
use types::*;

type Check = fn(&Bytes) -> Result<Bytes, String>;

fn check<T: Denc>(bytes: &Bytes) -> Result<Bytes, String> {
    let mut d = Decoder::new(bytes.clone());
    let value = T::decode(&mut d).map_err(|e| e.to_string())?;
    if !d.is_empty() {
        return Err(format!("{} bytes left", d.remaining()));
    }
    let mut e = Encoder::new(features::SUPPORTED);
    value.encode(&mut e);
    Ok(e.finish())
}

/// Cut short, and with single bytes changed: an error or another value, never a panic.
fn damage(bytes: &Bytes, check: Check) {
    let step = bytes.len() / 200 + 1;
    for at in (0..bytes.len()).step_by(step) {
        let _ = check(&bytes.slice(..at));
        for flip in [0xff, 0x01, 0x80] {
            let mut bad = bytes.to_vec();
            bad[at] ^= flip;
            let _ = check(&bad.into());
        }
    }
}

fn table() -> BTreeMap<&'static str, Check> {
    let mut t: BTreeMap<&'static str, Check> = BTreeMap::new();
    macro_rules! add { ($($name:literal: $t:ty),* $(,)?) => { $( t.insert($name, check::<$t>); )* }; }
    add! {
        "SnapContext": SnapContext, "SnapSet": SnapSet, "object_info_t": ObjectInfo, "watch_info_t": WatchInfo,
        "object_manifest_t": ObjectManifest, "chunk_info_t": manifest::ChunkInfo, "ObjectCleanRegions": ObjectCleanRegions,
        "ObjectModDesc": ModDesc, "pg_log_entry_t": PgLogEntry, "pg_log_dup_t": PgLogDup, "pg_log_t": PgLog,
        "pg_log_op_return_item_t": OpReturn, "pg_missing_item": PgMissingItem, "pg_missing_t": PgMissing, "pg_shard_t": PgShard,
        "pg_history_t": PgHistory, "pg_info_t": PgInfo, "pg_hit_set_info_t": pg_info::HitSetInfo,
        "pg_hit_set_history_t": pg_info::HitSetHistory, "PastIntervals": PastIntervals,
        "compact_interval_t": past_intervals::CompactInterval, "object_stat_sum_t": ObjectStatSum,
        "object_stat_collection_t": ObjectStatCollection, "pg_stat_t": PgStat, "pool_stat_t": PoolStat, "osd_stat_t": OsdStat,
        "store_statfs_t": StoreStatfs, "objectstore_perf_stat_t": StorePerfStat, "pow2_hist_t": osd_stat::Pow2Hist,
        "CompatSet": CompatSet, "OSDSuperblock": OsdSuperblock, "coll_t": CollId, "ObjectStore::Transaction": Transaction,
        "hobject_t": HObject, "ghobject_t": GHObject, "eversion_t": EVersion, "osd_reqid_t": ReqId, "object_locator_t": ObjectLocator,
        "pg_t": PgId, "spg_t": SpgId, "utime_t": UTime, "uuid_d": Uuid, "entity_name_t": EntityName, "entity_inst_t": EntityInst,
        "clone_info": CloneInfo, "obj_list_snap_response_t": ListSnaps, "obj_list_watch_response_t": ListWatchers, "watch_item_t": WatchItem,
        "pg_nls_response_t": NlsResponse, "object_copy_cursor_t": CopyCursor, "object_copy_data_t": CopyData, "ScrubMap": ScrubMap,
        "ScrubMap::object": ScrubObject,
        "FSMap": FsMap, "Filesystem": Filesystem, "MDSMap": MdsMap, "MDSMap::mds_info_t": MdsInfo,
        "entity_addr_t": EntityAddr, "entity_addrvec_t": EntityAddrVec,
    }
    t
}

/// What holds an MDSMap: 18.2.1 and later write the largest size of attributes behind what 18.2.0 wrote.
const GROWN: [&str; 3] = ["FSMap", "Filesystem", "MDSMap"];

fn main() {
    let root = std::env::args().nth(1).expect("the corpus' archive folder is the first argument");
    let verbose = std::env::args().nth(2).is_some();
    let table = table();
    let mut releases: Vec<_> = Path::new(&root).read_dir().expect("a folder").map(|e| e.expect("an entry").path()).collect();
    releases.sort();
    let mut failed = false;
    for release in releases {
        let exact = release.ends_with("18.2.0");
        let (mut samples, mut bad) = (0, 0);
        for (name, check) in &table {
            let Ok(dir) = release.join("objects").join(name).read_dir() else {
                if exact {
                    println!("{}: no samples of {name}", release.display());
                }
                continue;
            };
            for file in dir.map(|e| e.expect("an entry").path()) {
                let bytes = Bytes::from(std::fs::read(&file).expect("a readable sample"));
                samples += 1;
                damage(&bytes, *check);
                let wrong = match check(&bytes) {
                    Err(e) => e,
                    Ok(again) if exact && !GROWN.contains(name) && again != bytes => {
                        let at = again.iter().zip(&bytes).position(|(a, b)| a != b).unwrap_or(again.len().min(bytes.len()));
                        format!("differs at byte {at} ({} of {} bytes)", again.len(), bytes.len())
                    }
                    Ok(_) => continue,
                };
                bad += 1;
                if verbose {
                    println!("{}: {wrong}", file.display());
                }
            }
        }
        println!("{}: {samples} samples, {bad} bad", release.display());
        failed |= bad > 0;
    }
    std::process::exit(failed as i32);
}
