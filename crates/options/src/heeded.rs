//! Which options Humboldt heeds, by which part of it, and what each does. One list for `ceph config set`, `ceph config help` and the guide's page.
//!
//! `xtask` holds it against the code: an option that is read anywhere has a row, and a row is read somewhere.

/// A row: the option, the parts that heed it, and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heeded {
    pub name: &'static str,
    /// `osd`, `mon`, `mgr` (the manager endpoint), `client` (`humboldt bench`), `file` (in ceph.conf only); several with commas between.
    pub by: &'static str,
    pub effect: &'static str,
}

const fn row(name: &'static str, by: &'static str, effect: &'static str) -> Heeded {
    Heeded { name, by, effect }
}

/// By name.
pub const HEEDED: &[Heeded] = &[
    row("admin_socket", "osd,file", "Where `ceph daemon` finds the OSD."),
    row("auth_client_required", "client,file", "`cephx` or `none`: how clients log in."),
    row("auth_cluster_required", "osd,file", "`cephx` or `none`: how daemons log in to each other."),
    row("auth_mon_ticket_ttl", "mon", "How long a ticket for monitors lasts, in seconds."),
    row("auth_service_required", "osd,file", "`cephx` or `none`: what the OSD asks of its clients."),
    row("auth_service_ticket_ttl", "mon", "How long a ticket for OSDs, managers and metadata servers lasts, in seconds."),
    row("bdev_enable_discard", "osd", "Free room goes back to the store's device: discards, or holes in a file, beside clients' work."),
    row("cluster_addr", "osd,file", "The OSD's address for other OSDs."),
    row("cluster_network", "osd,file", "The network of which the OSD takes its address for other OSDs."),
    row("crush_location", "osd,file", "Where the OSD stands in the CRUSH map: `root=default rack=a host=b`."),
    row("fsid", "osd,file", "The cluster's id, for `humboldt osd --mkfs`."),
    row("key", "client,file", "The client's key itself."),
    row("keyfile", "client,file", "A file with the client's key alone."),
    row("keyring", "osd,client,file", "Files with keys."),
    row("mds_beacon_grace", "mon", "Seconds of silence after which a metadata server is replaced."),
    row("mds_beacon_interval", "mon", "Seconds between beacons of metadata servers, as the monitor expects them."),
    row("mds_enforce_unique_name", "mon", "A metadata server that starts under a name that is in use takes its place."),
    row("memstore_device_bytes", "osd,file", "Room of a memory store, unless `--memory` is given."),
    row("mgr_tick_period", "mon", "Seconds between beacons of a stock manager, as the monitor expects them."),
    row("mon_allow_pool_delete", "mon", "Pools can be removed."),
    row("mon_allow_pool_size_one", "mon", "Pools may keep a single copy."),
    row("mon_client_bytes", "mon", "Bytes of clients' requests that the monitor holds at a time."),
    row("mon_debug_deprecated_as_obsolete", "mon", "Deprecated commands are refused."),
    row("mon_host", "osd,client,file", "Where the monitors are."),
    row("mon_max_mdsmap_epochs", "mon", "How many maps of file systems are kept."),
    row("mon_max_osd", "mon", "Numbers of OSDs are below this."),
    row("mon_max_pg_per_osd", "mon", "New pools may not bring more groups than this to an OSD."),
    row("mon_max_pool_pg_num", "mon", "Groups that one pool may have."),
    row("mon_mds_blocklist_interval", "mon", "Seconds for which a metadata server that was replaced is fenced."),
    row("mon_mgr_beacon_grace", "mon", "Seconds of silence after which a stock manager is replaced."),
    row("mon_mgr_blocklist_interval", "mon", "Seconds for which a manager that was replaced is fenced."),
    row("mon_mgr_digest_period", "mon", "Seconds between digests for a stock manager."),
    row("mon_mgr_proxy_client_bytes_ratio", "mon", "Share of `mon_client_bytes` for commands that go on to a manager."),
    row("mon_min_osdmap_epochs", "mon", "So many maps are kept at least."),
    row("mon_osd_down_out_interval", "mon", "Seconds after which an OSD that is down is put out."),
    row("mon_osd_min_down_reporters", "mon", "So many must report an OSD before it is marked down."),
    row("mon_osd_min_in_ratio", "mon", "Below this share of OSDs in, none is marked out for being down."),
    row("mon_osd_min_up_ratio", "mon", "Below this share of OSDs up, none is marked down."),
    row("mon_osd_report_timeout", "mon", "Seconds without a beacon after which an OSD is marked down."),
    row("mon_osd_reporter_subtree_level", "mon", "Reporters below one such CRUSH node count as one."),
    row("mon_pg_stuck_threshold", "mon", "Seconds after which a group counts as stuck."),
    row("mon_reweight_max_change", "mon", "Largest step of `osd reweight-by-utilization`."),
    row("mon_reweight_max_osds", "mon", "OSDs that `osd reweight-by-utilization` changes at a time."),
    row("mon_reweight_min_bytes_per_osd", "mon", "OSDs with less are left out of `osd reweight-by-utilization`."),
    row("mon_reweight_min_pgs_per_osd", "mon", "OSDs with fewer groups are left out of `osd reweight-by-utilization`."),
    row("mon_warn_on_pool_no_app", "mon", "`POOL_APP_NOT_ENABLED` is shown."),
    row("mon_warn_on_pool_no_redundancy", "mon", "`POOL_NO_REDUNDANCY` is shown."),
    row("ms_bind_port_max", "osd,file", "The last port that the OSD may take."),
    row("ms_bind_port_min", "osd,file", "The first port that the OSD may take."),
    row("ms_blackhole_client", "osd", "For tests: messages from and to clients vanish."),
    row("ms_blackhole_mds", "osd", "For tests: messages from and to metadata servers vanish."),
    row("ms_blackhole_mgr", "osd", "For tests: messages from and to managers vanish."),
    row("ms_blackhole_mon", "osd", "For tests: messages from and to monitors vanish."),
    row("ms_blackhole_osd", "osd", "For tests: messages from and to other OSDs vanish."),
    row("ms_client_mode", "client,file", "`crc`, `secure` or both: connections of clients to OSDs and metadata servers."),
    row("ms_cluster_mode", "osd", "`crc`, `secure` or both: connections of OSDs and metadata servers to each other."),
    row("ms_mon_client_mode", "client,file", "`crc`, `secure` or both: connections of clients to monitors and managers."),
    row(
        "ms_mon_cluster_mode",
        "mon,osd",
        "`crc`, `secure` or both: connections of monitors and managers to each other, and of other daemons to them.",
    ),
    row("ms_mon_service_mode", "mon", "`crc`, `secure` or both: what the monitor and the manager endpoint take of all but each other."),
    row("ms_service_mode", "osd", "`crc`, `secure` or both: what OSDs take of clients."),
    row("osd_backfill_retry_interval", "osd", "Seconds after which a refused reservation for backfill is asked for again."),
    row("osd_backfill_scan_max", "osd", "Objects that one scan of backfill covers at most."),
    row("osd_beacon_report_interval", "osd", "Seconds between beacons to the monitor."),
    row("osd_bench_duration", "osd", "Seconds for which `tell osd.N bench` is thought to run, for its limits."),
    row("osd_bench_large_size_max_throughput", "osd", "Limit of `tell osd.N bench` with large writes, bytes per second."),
    row("osd_bench_max_block_size", "osd", "Largest write of `tell osd.N bench`."),
    row("osd_bench_small_size_max_iops", "osd", "Limit of `tell osd.N bench` with small writes."),
    row("osd_class_default_list", "osd", "Object classes that clients may call by a plain capability."),
    row("osd_class_load_list", "osd", "Object classes that can be called."),
    row("osd_class_update_on_start", "osd,file", "The OSD sets its device class in the CRUSH map when it starts."),
    row("osd_client_message_cap", "osd", "Requests of clients that are under way at a time."),
    row("osd_client_message_size_cap", "osd", "Bytes of clients' requests that are under way at a time (64 MiB unless set)."),
    row("osd_client_watch_timeout", "osd", "Seconds of silence after which a watch ends."),
    row("osd_command_max_records", "osd", "Rows that a command of an OSD lists at most."),
    row("osd_crush_chooseleaf_type", "file", "Failure domain of a new cluster's rule; `humboldt up` sets it for one machine."),
    row("osd_crush_initial_weight", "osd,file", "CRUSH weight of a new OSD; its size in TiB unless set."),
    row("osd_crush_update_on_start", "osd,file", "The OSD places itself in the CRUSH map when it starts."),
    row("osd_data", "osd,file", "The OSD's folder."),
    row("osd_debug_reject_backfill_probability", "osd", "For tests: reservations for backfill are refused by chance."),
    row("osd_deep_scrub_interval", "osd", "Seconds between deep scrubs of a group."),
    row("osd_deep_scrub_randomize_ratio", "osd", "Share of scrubs that become deep ones by chance."),
    row("osd_default_notify_timeout", "osd", "Seconds that a notify waits for watchers, unless the client says."),
    row("osd_heartbeat_grace", "osd,mon", "Seconds without an answer after which an OSD is reported."),
    row("osd_heartbeat_interval", "osd", "Seconds between pings."),
    row("osd_heartbeat_min_healthy_ratio", "osd", "Share of peers that must answer before an OSD that was marked down comes back."),
    row("osd_heartbeat_min_peers", "osd", "OSDs that are pinged at least."),
    row("osd_heartbeat_min_size", "osd", "Bytes of a ping, so that a network that drops large packets is noticed."),
    row("osd_max_attr_name_len", "osd", "Longest name of an attribute."),
    row("osd_max_attr_size", "osd", "Largest attribute; 0: 4 MiB (all of an object: 16 MiB)."),
    row("osd_max_backfills", "osd", "Backfills that an OSD takes part in at a time."),
    row("osd_max_markdown_count", "osd", "An OSD that is marked down more often within the period ends."),
    row("osd_max_markdown_period", "osd", "That period, in seconds."),
    row("osd_max_object_name_len", "osd", "Longest name of an object."),
    row("osd_max_object_namespace_len", "osd", "Longest name of a namespace."),
    row("osd_max_object_size", "osd", "Largest object."),
    row("osd_max_omap_bytes_per_request", "osd", "Bytes of omap that one request reads at most."),
    row("osd_max_omap_entries_per_request", "osd", "Keys of omap that one request reads at most."),
    row("osd_max_pg_log_entries", "osd", "Entries of a group's log at most."),
    row("osd_max_pgls", "osd", "Objects that one request lists at most."),
    row("osd_max_scrubs", "osd", "Scrubs that an OSD takes part in at a time."),
    row("osd_max_write_op_reply_len", "osd", "Bytes that a write may answer at most."),
    row("osd_max_write_size", "osd", "Largest write, in MiB."),
    row("osd_mclock_profile", "osd", "What recovery leaves to clients: `high_client_ops`, `balanced`, `high_recovery_ops`, `custom`."),
    row("osd_mclock_scheduler_background_recovery_lim", "osd", "For `custom`: recovery's share of the time, from 0 to 1; 0: all of it."),
    row("osd_memory_target", "osd", "Bounds the OSD's memory: the block store's caches give way to stay below it."),
    row("osd_min_pg_log_entries", "osd", "Entries of a group's log at least."),
    row("osd_min_recovery_priority", "osd", "Recovery of a lower priority waits."),
    row("osd_objectstore", "osd", "What the OSD shows as the kind of its store; settled when it is made."),
    row("osd_op_complaint_time", "osd,mgr", "Seconds after which a request is slow (`SLOW_OPS`)."),
    row("osd_op_history_duration", "osd", "Seconds for which finished requests are remembered."),
    row("osd_op_history_size", "osd", "Finished requests that are remembered."),
    row("osd_op_history_slow_op_size", "osd", "Finished requests that were slow and are remembered beside those."),
    row("osd_op_history_slow_op_threshold", "osd", "Seconds from which on a finished request counts as slow."),
    row("osd_op_thread_suicide_timeout", "osd", "Seconds after which the watchdog ends an OSD whose loop stands still."),
    row("osd_op_thread_timeout", "osd", "Seconds after which the watchdog says so."),
    row("osd_pg_log_dups_tracked", "osd", "Requests whose answers outlive the log."),
    row("osd_pg_log_trim_max", "osd", "Log entries that are trimmed at a time at most."),
    row("osd_pg_log_trim_min", "osd", "Log entries that are trimmed at a time at least."),
    row("osd_pg_object_context_cache_count", "osd", "Objects that a group keeps at hand."),
    row("osd_pool_default_crush_rule", "mon", "CRUSH rule of new pools."),
    row("osd_pool_default_erasure_code_profile", "mon", "The profile `default`; pools with erasure codes are not served."),
    row("osd_pool_default_flag_bulk", "mon", "New pools are `bulk`."),
    row("osd_pool_default_flag_hashpspool", "mon", "New pools hash with their number."),
    row("osd_pool_default_flag_nodelete", "mon", "New pools are `nodelete`."),
    row("osd_pool_default_flag_nopgchange", "mon", "New pools are `nopgchange`."),
    row("osd_pool_default_flag_nosizechange", "mon", "New pools are `nosizechange`."),
    row("osd_pool_default_min_size", "mon", "Copies that must be there for a new pool to serve; 0: half of them and one."),
    row("osd_pool_default_pg_autoscale_mode", "mon", "Autoscaler of new pools; it needs a stock manager."),
    row("osd_pool_default_pg_num", "mon", "Groups of new pools."),
    row("osd_pool_default_pgp_num", "mon", "The same, for placement."),
    row("osd_pool_default_read_lease_ratio", "osd", "Length of a primary's lease, as a share of the heartbeat's grace."),
    row("osd_pool_default_size", "mon", "Copies of new pools."),
    row("osd_recover_clone_overlap", "osd", "Recovery copies only what a clone does not share."),
    row("osd_recover_clone_overlap_limit", "osd", "Pieces up to which it does."),
    row("osd_recovery_max_active", "osd", "Objects that are recovered at a time; 0: by kind of device."),
    row("osd_recovery_max_active_ssd", "osd", "The same on flash."),
    row("osd_recovery_max_chunk", "osd", "Bytes of one message of recovery."),
    row("osd_recovery_max_omap_entries_per_chunk", "osd", "Keys of omap in one message of recovery."),
    row("osd_recovery_max_single_start", "osd", "Objects of one group whose recovery starts at a time."),
    row("osd_recovery_retry_interval", "osd", "Seconds after which a refused reservation for recovery is asked for again."),
    row("osd_recovery_sleep", "osd", "Seconds of pause between steps of recovery."),
    row("osd_scrub_auto_repair", "osd", "Scrubs mend what they find by themselves."),
    row("osd_scrub_during_recovery", "osd", "Scrubs may begin while the OSD recovers."),
    row("osd_scrub_interval_randomize_ratio", "osd", "Share of the interval by which scrubs are spread."),
    row("osd_scrub_max_interval", "osd", "Seconds after which a group is scrubbed whatever the load."),
    row("osd_scrub_max_preemptions", "osd", "How often clients' writes may interrupt one piece of a scrub."),
    row("osd_scrub_min_interval", "osd", "Seconds between scrubs of a group."),
    row("osd_smart_report_timeout", "osd", "Seconds that `smartctl` may take."),
    row("osd_target_pg_log_entries_per_osd", "osd", "Log entries of all groups of an OSD together."),
    row("public_addr", "osd,file", "The OSD's address for clients."),
    row("public_network", "osd,file", "The network of which the OSD takes its address for clients."),
    row("rbd_default_map_options", "mon", "Set in a new cluster, so that kernels use msgr2; read by `rbd map`."),
    row("target_max_misplaced_ratio", "mgr", "Steps towards a pool's `pg_num` stop while more is misplaced."),
];

/// Options that belong to programs of Ceph's which read them from the monitor: by the beginning of their names.
const STOCK: &[(&str, &str)] = &[
    ("rbd_mirror", "rbd-mirror"),
    ("rbd_", "librbd"),
    ("client_", "libcephfs and ceph-fuse"),
    ("fuse_", "ceph-fuse"),
    ("mds_", "ceph-mds"),
    ("rgw_", "radosgw"),
    ("mgr_", "a stock ceph-mgr"),
    ("objecter_", "librados"),
    ("rados_", "librados"),
    ("librados_", "librados"),
    ("journaler_", "ceph-mds"),
    ("immutable_object_cache", "ceph-immutable-object-cache"),
    ("cephfs_mirror", "cephfs-mirror"),
];

/// The row of an option that Humboldt heeds.
pub fn heeded(name: &str) -> Option<&'static Heeded> {
    HEEDED.binary_search_by(|row| row.name.cmp(name)).ok().map(|at| &HEEDED[at])
}

/// One sentence for an operator: by what an option is heeded and what it does, or that nothing heeds it.
pub fn who_heeds(name: &str) -> String {
    if let Some(row) = heeded(name) {
        let parts: Vec<&str> = row.by.split(',').filter(|by| *by != "file").collect();
        let where_ = if row.by.ends_with("file") { ", in ceph.conf" } else { "" };
        let by = if parts.is_empty() { "the program".to_string() } else { parts.join(", ") };
        return format!("Heeded by {by}{where_}. {}", row.effect);
    }
    match STOCK.iter().find(|(start, _)| name.starts_with(start)) {
        Some((_, program)) => format!("Heeded by {program} where that runs; not by Humboldt's own daemons."),
        None => "Not heeded by Humboldt: it is kept and handed out, and changes nothing in Humboldt's own daemons.".into(),
    }
}

/// True if setting this in the cluster's configuration has no effect on anything that Humboldt runs or serves.
pub fn is_idle(name: &str) -> bool {
    match heeded(name) {
        Some(row) => row.by.ends_with("file"),
        None => !STOCK.iter().any(|(start, _)| name.starts_with(start)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_option_says_by_what_it_is_heeded() {
        assert!(HEEDED.is_sorted_by_key(|row| row.name));
        for row in HEEDED {
            assert!(crate::find(row.name).is_some(), "{} is no option of 18.2", row.name);
            assert!(row.effect.ends_with('.') && !row.by.is_empty(), "{}", row.name);
        }
        assert!(crate::names().iter().all(|name| who_heeds(name).starts_with("Heeded by ") != who_heeds(name).starts_with("Not heeded")));
        assert_eq!(who_heeds("osd_heartbeat_interval"), "Heeded by osd. Seconds between pings.");
        assert!(is_idle("bluestore_cache_size") && is_idle("mon_host") && !is_idle("rbd_cache") && !is_idle("osd_memory_target"));
    }
}
