//! What an OSD tells of its machine (`ceph osd metadata`): as stock's `collect_sys_info` names it.

use std::fs;

fn file_value(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|l| l.starts_with(key))?;
    let value = line[key.len()..].trim_start_matches([':', '=', ' ', '\t']);
    Some(value.trim().trim_matches('"').to_string())
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_string())
}

/// The machine's name.
pub fn hostname() -> String {
    first_line("/proc/sys/kernel/hostname").unwrap_or_else(|| "localhost".into())
}

/// Names and values.
pub fn collect(data_dir: &str) -> Vec<(String, String)> {
    let version = format!("ceph version {} (humboldt {}) {} (stable)", osd_core::VERSION, env!("CARGO_PKG_VERSION"), osd_core::RELEASE);
    let kb = |key| file_value("/proc/meminfo", key).map(|v| v.trim_end_matches(" kB").to_string());
    let kernel = || first_line("/proc/sys/kernel/version");
    let all = [
        ("arch", Some(std::env::consts::ARCH.to_string())),
        ("ceph_release", Some(osd_core::RELEASE.into())),
        ("ceph_version", Some(version)),
        ("ceph_version_short", Some(osd_core::VERSION.into())),
        ("cpu", file_value("/proc/cpuinfo", "model name")),
        ("distro", file_value("/etc/os-release", "ID=")),
        ("distro_description", file_value("/etc/os-release", "PRETTY_NAME=")),
        ("distro_version", file_value("/etc/os-release", "VERSION_ID=")),
        ("hostname", Some(hostname())),
        ("kernel_description", kernel()),
        ("kernel_version", first_line("/proc/sys/kernel/osrelease")),
        ("mem_swap_kb", kb("SwapTotal")),
        ("mem_total_kb", kb("MemTotal")),
        ("os", Some("Linux".into())),
        ("osd_data", Some(data_dir.into())),
        ("osdspec_affinity", Some(String::new())),
        ("front_iface", Some(String::new())),
        ("back_iface", Some(String::new())),
        ("network_numa_unknown_ifaces", Some("back_iface,front_iface".into())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
}
