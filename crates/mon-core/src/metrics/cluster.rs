//! What the maps and the health checks say: OSDs, monitors, managers, flags, sums over all stores.

use super::{Kind, Page};
use crate::health::Severity;
use crate::view::View;
use maps::map_flags;
use types::EntityAddr;

/// Flags of the map that have a name of their own.
const FLAGS: [(&str, u32); 9] = [
    ("noup", map_flags::NOUP),
    ("nodown", map_flags::NODOWN),
    ("noout", map_flags::NOOUT),
    ("noin", map_flags::NOIN),
    ("nobackfill", map_flags::NOBACKFILL),
    ("norebalance", map_flags::NOREBALANCE),
    ("norecover", map_flags::NORECOVER),
    ("noscrub", map_flags::NOSCRUB),
    ("nodeep-scrub", map_flags::NODEEP_SCRUB),
];

/// An address without port and nonce.
fn host(addr: &EntityAddr) -> String {
    match addr.socket() {
        Some(socket) if socket.is_ipv6() => format!("[{}]", socket.ip()),
        Some(socket) => socket.ip().to_string(),
        None => "-".into(),
    }
}

/// The number of a state of the whole.
fn health_number(status: &str) -> f64 {
    match status {
        "HEALTH_OK" => 0.0,
        "HEALTH_WARN" => 1.0,
        _ => 2.0,
    }
}

impl View<'_> {
    pub(super) fn health_metrics(&self, page: &mut Page) {
        let checks = self.health_checks();
        page.put("ceph_health_status", Kind::Untyped, "Cluster health status", &[], health_number(self.health_status(&checks)));
        let slow: u32 = self.slow_daemons().iter().map(|(_, n, _)| n).sum();
        let help = "OSD or Monitor requests taking a long time to process";
        page.put("ceph_healthcheck_slow_ops", Kind::Gauge, help, &[], slow.into());
        let help = "healthcheck status by type (0=inactive, 1=active)";
        page.family("ceph_health_detail", Kind::Gauge, help);
        // What was wrong since this process started goes on being named, with 0 once it is over.
        for (code, severity) in self.health.seen() {
            let active = checks.contains_key(code);
            page.put(
                "ceph_health_detail",
                Kind::Gauge,
                help,
                &[("name", code), ("severity", severity.name())],
                f64::from(u8::from(active)),
            );
        }
        for (code, check) in checks.iter().filter(|(code, _)| !self.health.has_seen(code)) {
            let severity = if check.severity == Severity::Error { "HEALTH_ERR" } else { "HEALTH_WARN" };
            page.put("ceph_health_detail", Kind::Gauge, help, &[("name", code), ("severity", severity)], 1.0);
        }
    }

    pub(super) fn map_metrics(&self, page: &mut Page) {
        let map = &self.osd.map;
        for (name, bit) in FLAGS {
            let value = f64::from(u8::from(map.has_flag(bit)));
            page.put(&super::name_of(&format!("osd_flag_{name}")), Kind::Untyped, &format!("OSD Flag {name}"), &[], value);
        }
        for osd in map.osds() {
            let name = format!("osd.{osd}");
            let label = [("ceph_daemon", name.as_str())];
            let states = [
                ("weight", f64::from(map.weight(osd)) / 65536.0),
                ("up", f64::from(u8::from(map.is_up(osd)))),
                ("in", f64::from(u8::from(map.is_in(osd)))),
            ];
            for (state, value) in states {
                page.put(&format!("ceph_osd_{state}"), Kind::Untyped, &format!("OSD status {state}"), &label, value);
            }
            self.osd_metadata(page, osd, &name);
        }
        let blocked = map.blocklist.len() + map.range_blocklist.len();
        page.put("ceph_cluster_osd_blocklist_count", Kind::Gauge, "OSD Blocklist Count osd_blocklist_count", &[], blocked as f64);
        for (osd, stat) in &self.manager.pgs.osds {
            let name = format!("osd.{osd}");
            let perf = &stat.os_perf_stat;
            for (key, ns) in [("apply_latency_ms", perf.apply_latency_ns), ("commit_latency_ms", perf.commit_latency_ns)] {
                let ms = (ns / 1_000_000) as f64;
                page.put(&format!("ceph_osd_{key}"), Kind::Gauge, &format!("OSD stat {key}"), &[("ceph_daemon", &name)], ms);
            }
        }
        self.store_metrics(page);
    }

    fn osd_metadata(&self, page: &mut Page, osd: i32, name: &str) {
        let map = &self.osd.map;
        let Some(about) = self.osd.metadata.get(&osd) else { return };
        let text = |key: &str| about.get(key).map(String::as_str).unwrap_or_default();
        let at = |all: &[types::EntityAddrVec]| all.get(osd as usize).map_or_else(|| "-".into(), |a| host(&a.front()));
        let (public, cluster) = (at(&map.client_addrs), at(&map.cluster_addrs));
        let labels = [
            ("back_iface", text("back_iface")),
            ("ceph_daemon", name),
            ("cluster_addr", &cluster),
            ("device_class", map.crush.item_class(osd).unwrap_or_default()),
            ("front_iface", text("front_iface")),
            ("hostname", text("hostname")),
            ("objectstore", text("osd_objectstore")),
            ("public_addr", &public),
            ("ceph_version", text("ceph_version")),
        ];
        page.put("ceph_osd_metadata", Kind::Untyped, "OSD Metadata", &labels, 1.0);
        let (help, human) = (
            "Associate Ceph daemon with disk used",
            "Associate Ceph daemon with disk used for displaying to humans, not for joining tables (vector matching)",
        );
        page.family("ceph_disk_occupation", Kind::Untyped, help);
        page.family("ceph_disk_occupation_human", Kind::Untyped, human);
        let node = about.get("bluestore_bdev_dev_node").filter(|node| !node.is_empty() && *node != "unknown");
        let Some(node) = node else { return };
        let or_none = |key: &str| if text(key).is_empty() { "N/A" } else { text(key) };
        let labels = [
            ("ceph_daemon", name),
            ("device", node.as_str()),
            ("db_device", text("bluefs_db_dev_node")),
            ("wal_device", text("bluefs_wal_dev_node")),
            ("instance", text("hostname")),
            ("devices", or_none("devices")),
            ("device_ids", or_none("device_ids")),
        ];
        page.put("ceph_disk_occupation", Kind::Untyped, help, &labels, 1.0);
        let labels = [("device", node.as_str()), ("instance", text("hostname")), ("ceph_daemon", name)];
        page.put("ceph_disk_occupation_human", Kind::Untyped, human, &labels, 1.0);
    }

    /// Sums over stores, all of them and by class.
    fn store_metrics(&self, page: &mut Page) {
        let (map, pgs) = (&self.osd.map, &self.manager.pgs);
        let values = |sum: &types::OsdStat| {
            let fs = &sum.statfs;
            [("total_bytes", fs.total), ("total_used_bytes", fs.used()), ("total_used_raw_bytes", fs.used_raw())]
        };
        for (key, value) in values(&pgs.sum_of_stores(None, map.osds())) {
            page.put(&format!("ceph_cluster_{key}"), Kind::Gauge, &format!("DF {key}"), &[], value as f64);
        }
        for class in map.crush.class_names.values() {
            let osds = map.crush.devices_of_class(class);
            if osds.is_empty() {
                continue;
            }
            for (key, value) in values(&pgs.sum_of_stores(Some(class), osds.into_iter())) {
                let name = format!("ceph_cluster_by_class_{key}");
                page.put(&name, Kind::Gauge, &format!("DF {key}"), &[("device_class", class)], value as f64);
            }
        }
        let total = pgs.total().stats;
        let counts =
            [("degraded", total.num_objects_degraded), ("misplaced", total.num_objects_misplaced), ("unfound", total.num_objects_unfound)];
        for (key, n) in counts {
            page.put(&format!("ceph_num_objects_{key}"), Kind::Gauge, &format!("Number of {key} objects"), &[], n as f64);
        }
    }

    /// Monitors, managers, metadata servers, gateways.
    pub(super) fn service_metrics(&self, page: &mut Page) {
        let about = |key: &str| self.options.metadata.get(key).map(String::as_str).unwrap_or_default();
        let (hostname, version) = (about("hostname"), about("ceph_version"));
        for (rank, name) in self.monmap.map.ranks.iter().enumerate() {
            let daemon = format!("mon.{name}");
            let addr = self.monmap.map.mons.get(name).map_or_else(|| "-".into(), |m| host(&m.public_addrs.front()));
            let rank = rank.to_string();
            let labels = [
                ("ceph_daemon", daemon.as_str()),
                ("hostname", hostname),
                ("public_addr", &addr),
                ("rank", &rank),
                ("ceph_version", version),
            ];
            page.put("ceph_mon_metadata", Kind::Untyped, "MON Metadata", &labels, 1.0);
            page.put("ceph_mon_quorum_status", Kind::Gauge, "Monitors in quorum", &[("ceph_daemon", &daemon)], 1.0);
        }
        let mgr = &self.mgrmap.map;
        let standbys = mgr.standbys.values().map(|s| (s.name.as_str(), 0.0));
        for (name, active) in standbys.chain((mgr.active_gid != 0).then_some((mgr.active_name.as_str(), 1.0))) {
            let daemon = format!("mgr.{name}");
            let theirs = self.mgrmap.metadata.get(name);
            let of = |key: &str, ours: &str| theirs.map_or_else(|| ours.to_string(), |m| m.get(key).cloned().unwrap_or_default());
            let (hostname, version) = (of("hostname", hostname), of("ceph_version", version));
            let labels = [("ceph_daemon", daemon.as_str()), ("hostname", &hostname), ("ceph_version", &version)];
            page.put("ceph_mgr_metadata", Kind::Gauge, "MGR metadata", &labels, 1.0);
            page.put("ceph_mgr_status", Kind::Gauge, "MGR status (0=standby, 1=active)", &[("ceph_daemon", &daemon)], active);
        }
        self.module_metrics(page);
        self.fs_metrics(page);
    }

    fn module_metrics(&self, page: &mut Page) {
        let mgr = &self.mgrmap.map;
        let always = mgr.always_on_modules.values().next_back();
        let (status, can_run) =
            ("MGR module status (0=disabled, 1=enabled, 2=auto-enabled)", "MGR module runnable state i.e. can it run (0=no, 1=yes)");
        page.family("ceph_mgr_module_status", Kind::Gauge, status);
        page.family("ceph_mgr_module_can_run", Kind::Gauge, can_run);
        for module in &mgr.available_modules {
            let state = match () {
                () if always.is_some_and(|all| all.contains(&module.name)) => 2.0,
                () if mgr.modules.contains(&module.name) => 1.0,
                () => 0.0,
            };
            let label = [("name", module.name.as_str())];
            page.put("ceph_mgr_module_status", Kind::Gauge, status, &label, state);
            page.put("ceph_mgr_module_can_run", Kind::Gauge, can_run, &label, f64::from(u8::from(module.can_run)));
        }
    }

    fn fs_metrics(&self, page: &mut Page) {
        page.family("ceph_fs_metadata", Kind::Untyped, "FS Metadata");
        page.family("ceph_mds_metadata", Kind::Untyped, "MDS Metadata");
        page.family("ceph_rgw_metadata", Kind::Untyped, "RGW Metadata");
        page.family("ceph_rbd_mirror_metadata", Kind::Untyped, "RBD Mirror Metadata");
        for (id, fs) in &self.fs.map.filesystems {
            let mds = &fs.mds;
            let data: Vec<String> = mds.data_pools.iter().map(i64::to_string).collect();
            let (data, id, metadata) = (data.join(","), id.to_string(), mds.metadata_pool.to_string());
            let labels = [("data_pools", data.as_str()), ("fs_id", &id), ("metadata_pool", &metadata), ("name", &mds.fs_name)];
            page.put("ceph_fs_metadata", Kind::Untyped, "FS Metadata", &labels, 1.0);
        }
        for (service, map) in &self.manager.services.map.services {
            for (id, daemon) in &map.daemons {
                let about = |key: &str| daemon.metadata.get(key).map(String::as_str).unwrap_or_default();
                let (hostname, version) = (about("hostname"), about("ceph_version"));
                match service.as_str() {
                    "rgw" => {
                        let name = format!("rgw.{}", if about("id").is_empty() { id } else { about("id") });
                        let labels =
                            [("ceph_daemon", name.as_str()), ("hostname", hostname), ("ceph_version", version), ("instance_id", id)];
                        page.put("ceph_rgw_metadata", Kind::Untyped, "RGW Metadata", &labels, 1.0);
                    }
                    "rbd-mirror" => {
                        let name = format!("rbd-mirror.{id}");
                        let labels = [
                            ("ceph_daemon", name.as_str()),
                            ("id", about("id")),
                            ("instance_id", about("instance_id")),
                            ("hostname", hostname),
                            ("ceph_version", version),
                        ];
                        page.put("ceph_rbd_mirror_metadata", Kind::Untyped, "RBD Mirror Metadata", &labels, 1.0);
                    }
                    _ => {}
                }
            }
        }
    }
}
