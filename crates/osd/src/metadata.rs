//! What an OSD tells of its machine and of itself (`ceph osd metadata`).

use net::host;
pub use net::host::hostname;

/// Names and values.
pub fn collect(data_dir: &str) -> Vec<(String, String)> {
    let own = [
        ("osd_data", data_dir),
        ("humboldt_version", env!("CARGO_PKG_VERSION")),
        ("osdspec_affinity", ""),
        ("front_iface", ""),
        ("back_iface", ""),
        ("network_numa_unknown_ifaces", "back_iface,front_iface"),
    ];
    host::metadata().into_iter().chain(own.map(|(name, value)| (name.into(), value.into()))).collect()
}

/// The device beneath the data, by the name that its bucket in the CRUSH map gets: files have one, too.
pub fn device(config: &crate::StoreConfig) -> Option<(String, String)> {
    let crate::StoreConfig::Block { dir, .. } = config else { return None };
    let device = crate::beneath::beneath(&crate::store::devices(dir)[0]).ok()?;
    Some(("humboldt_device".into(), device.name))
}
