//! What placement groups, pools and OSDs reported, as JSON with the names and the order of Ceph's.
//!
//! Source of the facts: what an 18.2 cluster answers to `pg dump`.

use serde_json::{Map, Value, json};
use types::object_stat::ObjectStatSum;
use types::osd_stat::{OsdStat, StoreStatfs};
use types::pg_stat::{PgStat, PoolStat, pg_state};
use types::{OsdId, PgId};

/// Counts in the order in which they are shown, which is not that of the encoding.
pub fn sum(s: &ObjectStatSum) -> Value {
    json!({
        "num_bytes": s.num_bytes,
        "num_objects": s.num_objects,
        "num_object_clones": s.num_object_clones,
        "num_object_copies": s.num_object_copies,
        "num_objects_missing_on_primary": s.num_objects_missing_on_primary,
        "num_objects_missing": s.num_objects_missing,
        "num_objects_degraded": s.num_objects_degraded,
        "num_objects_misplaced": s.num_objects_misplaced,
        "num_objects_unfound": s.num_objects_unfound,
        "num_objects_dirty": s.num_objects_dirty,
        "num_whiteouts": s.num_whiteouts,
        "num_read": s.num_rd,
        "num_read_kb": s.num_rd_kb,
        "num_write": s.num_wr,
        "num_write_kb": s.num_wr_kb,
        "num_scrub_errors": s.num_scrub_errors,
        "num_shallow_scrub_errors": s.num_shallow_scrub_errors,
        "num_deep_scrub_errors": s.num_deep_scrub_errors,
        "num_objects_recovered": s.num_objects_recovered,
        "num_bytes_recovered": s.num_bytes_recovered,
        "num_keys_recovered": s.num_keys_recovered,
        "num_objects_omap": s.num_objects_omap,
        "num_objects_hit_set_archive": s.num_objects_hit_set_archive,
        "num_bytes_hit_set_archive": s.num_bytes_hit_set_archive,
        "num_flush": s.num_flush,
        "num_flush_kb": s.num_flush_kb,
        "num_evict": s.num_evict,
        "num_evict_kb": s.num_evict_kb,
        "num_promote": s.num_promote,
        "num_flush_mode_high": s.num_flush_mode_high,
        "num_flush_mode_low": s.num_flush_mode_low,
        "num_evict_mode_some": s.num_evict_mode_some,
        "num_evict_mode_full": s.num_evict_mode_full,
        "num_objects_pinned": s.num_objects_pinned,
        "num_legacy_snapsets": s.num_legacy_snapsets,
        "num_large_omap_objects": s.num_large_omap_objects,
        "num_objects_manifest": s.num_objects_manifest,
        "num_omap_bytes": s.num_omap_bytes,
        "num_omap_keys": s.num_omap_keys,
        "num_objects_repaired": s.num_objects_repaired,
    })
}

pub fn statfs(s: &StoreStatfs) -> Value {
    json!({
        "total": s.total,
        "available": s.available,
        "internally_reserved": s.internally_reserved,
        "allocated": s.allocated,
        "data_stored": s.data_stored,
        "data_compressed": s.data_compressed,
        "data_compressed_allocated": s.data_compressed_allocated,
        "data_compressed_original": s.data_compressed_original,
        "omap_allocated": s.omap_allocated,
        "internal_metadata": s.internal_metadata,
    })
}

pub fn pool(s: &PoolStat) -> Map<String, Value> {
    let mut v = Map::new();
    v.insert("stat_sum".into(), sum(&s.stats.sum));
    v.insert("store_stats".into(), statfs(&s.store_stats));
    v.insert("log_size".into(), json!(s.log_size));
    v.insert("ondisk_log_size".into(), json!(s.ondisk_log_size));
    v.insert("up".into(), json!(s.up));
    v.insert("acting".into(), json!(s.acting));
    v.insert("num_store_stats".into(), json!(s.num_store_stats));
    v
}

/// The members of an object; `id` comes first if there is one.
pub fn osd(id: Option<OsdId>, s: &OsdStat) -> Value {
    let mut v = Map::new();
    if let Some(id) = id {
        v.insert("osd".into(), json!(id));
    }
    let alerts: Vec<Value> = s.os_alerts.iter().map(|(osd, a)| json!({"osd": osd, "alerts": a})).collect();
    let rest = json!({
        "up_from": s.up_from,
        "seq": s.seq,
        "num_pgs": s.num_pgs,
        "num_osds": s.num_osds,
        "num_per_pool_osds": s.num_per_pool_osds,
        "num_per_pool_omap_osds": s.num_per_pool_omap_osds,
        "kb": s.statfs.total >> 10,
        "kb_used": s.statfs.used_raw() >> 10,
        "kb_used_data": s.statfs.allocated >> 10,
        "kb_used_omap": s.statfs.omap_allocated >> 10,
        "kb_used_meta": s.statfs.internal_metadata >> 10,
        "kb_avail": s.statfs.available >> 10,
        "statfs": statfs(&s.statfs),
        "hb_peers": s.hb_peers,
        "snap_trim_queue_len": s.snap_trim_queue_len,
        "num_snap_trimming": s.num_snap_trimming,
        "num_shards_repaired": s.num_shards_repaired,
        "op_queue_age_hist": {"histogram": s.op_queue_age_hist.bins, "upper_bound": 1u64 << s.op_queue_age_hist.bins.len().min(63)},
        "perf_stat": {
            "commit_latency_ms": s.os_perf_stat.commit_latency_ns / 1_000_000,
            "apply_latency_ms": s.os_perf_stat.apply_latency_ns / 1_000_000,
            "commit_latency_ns": s.os_perf_stat.commit_latency_ns,
            "apply_latency_ns": s.os_perf_stat.apply_latency_ns,
        },
        "alerts": alerts,
        "network_ping_times": [],
    });
    v.extend(rest.as_object().expect("just made").clone());
    Value::Object(v)
}

/// What the scrubber of a group says that it will do.
pub fn scrub_schedule(s: &PgStat) -> String {
    let status = &s.scrub_sched_status;
    let deep = if status.is_deep { "deep " } else { "" };
    if status.is_active {
        return match status.sched_status {
            5 => format!("Blocked! locked objects (for {}s)", status.duration_s),
            _ => format!("{deep}scrubbing for {}s", status.duration_s),
        };
    }
    match status.sched_status {
        0 => "--".into(),
        1 => "no scrub is scheduled".into(),
        3 => format!("{} {deep}scrub scheduled @ {}", if status.is_periodic { "periodic" } else { "user requested" }, status.scheduled_at),
        _ => format!("queued for {deep}scrub"),
    }
}

pub fn pg_brief(pgid: PgId, s: &PgStat) -> Value {
    json!({
        "pgid": pgid.to_string(),
        "state": pg_state::to_text(s.state),
        "up": s.up,
        "acting": s.acting,
        "up_primary": s.up_primary,
        "acting_primary": s.acting_primary,
    })
}

pub fn pg(pgid: PgId, s: &PgStat) -> Value {
    let mut v = json!({
        "pgid": pgid.to_string(),
        "version": s.version.to_string(),
        "reported_seq": s.reported_seq,
        "reported_epoch": s.reported_epoch,
        "state": pg_state::to_text(s.state),
        "last_fresh": s.last_fresh.to_string(),
        "last_change": s.last_change.to_string(),
        "last_active": s.last_active.to_string(),
        "last_peered": s.last_peered.to_string(),
        "last_clean": s.last_clean.to_string(),
        "last_became_active": s.last_became_active.to_string(),
        "last_became_peered": s.last_became_peered.to_string(),
        "last_unstale": s.last_unstale.to_string(),
        "last_undegraded": s.last_undegraded.to_string(),
        "last_fullsized": s.last_fullsized.to_string(),
        "mapping_epoch": s.mapping_epoch,
        "log_start": s.log_start.to_string(),
        "ondisk_log_start": s.ondisk_log_start.to_string(),
        "created": s.created,
        "last_epoch_clean": s.last_epoch_clean,
        "parent": s.parent.to_string(),
        "parent_split_bits": s.parent_split_bits,
        "last_scrub": s.last_scrub.to_string(),
        "last_scrub_stamp": s.last_scrub_stamp.to_string(),
        "last_deep_scrub": s.last_deep_scrub.to_string(),
        "last_deep_scrub_stamp": s.last_deep_scrub_stamp.to_string(),
        "last_clean_scrub_stamp": s.last_clean_scrub_stamp.to_string(),
        "objects_scrubbed": s.objects_scrubbed,
        "log_size": s.log_size,
        "log_dups_size": s.log_dups_size,
        "ondisk_log_size": s.ondisk_log_size,
    });
    let locations: Vec<Value> = s
        .object_location_counts
        .iter()
        .map(|(shards, n)| {
            let shards = shards.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            json!({"shards": shards, "objects": n})
        })
        .collect();
    let purged: Vec<Value> =
        s.purged_snaps.iter().map(|(start, len)| json!({"start": format!("{start:x}"), "length": format!("{len:x}")})).collect();
    let rest = json!({
        "stats_invalid": s.stats_invalid,
        "dirty_stats_invalid": s.dirty_stats_invalid,
        "omap_stats_invalid": s.omap_stats_invalid,
        "hitset_stats_invalid": s.hitset_stats_invalid,
        "hitset_bytes_stats_invalid": s.hitset_bytes_stats_invalid,
        "pin_stats_invalid": s.pin_stats_invalid,
        "manifest_stats_invalid": s.manifest_stats_invalid,
        "snaptrimq_len": s.snaptrimq_len,
        "last_scrub_duration": s.last_scrub_duration_s,
        "scrub_schedule": scrub_schedule(s),
        "scrub_duration": s.scrub_duration_s,
        "objects_trimmed": s.objects_trimmed,
        "snaptrim_duration": s.snaptrim_duration_s,
        "stat_sum": sum(&s.stats.sum),
        "up": s.up,
        "acting": s.acting,
        "avail_no_missing": s.avail_no_missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "object_location_counts": locations,
        "blocked_by": s.blocked_by,
        "up_primary": s.up_primary,
        "acting_primary": s.acting_primary,
        "purged_snaps": purged,
    });
    v.as_object_mut().expect("just made").extend(rest.as_object().expect("just made").clone());
    v
}
