//! What a daemon tells of its machine, by stock's names (`ceph osd metadata`, `ceph mon metadata`): the one reader of it.

use std::collections::BTreeMap;
use std::fs;

fn text(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

/// The value behind `key` in a file of `key: value` or `KEY=value` lines.
fn value(path: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|l| l.strip_prefix(key).filter(|rest| rest.starts_with([':', '=', ' ', '\t'])))?;
    Some(rest.trim_start_matches([':', '=', ' ', '\t']).trim().trim_matches('"').to_string())
}

/// The machine's name.
pub fn hostname() -> String {
    text("/proc/sys/kernel/hostname").filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".into())
}

/// Names and values that every daemon has; what can't be read is left out.
pub fn metadata() -> BTreeMap<String, String> {
    let kb = |key| value("/proc/meminfo", key).map(|v| v.trim_end_matches(" kB").to_string());
    let all = [
        ("arch", Some(std::env::consts::ARCH.to_string())),
        ("ceph_release", Some(options::RELEASE.into())),
        ("ceph_version", Some(options::VERSION_LONG.into())),
        ("ceph_version_short", Some(options::VERSION.into())),
        ("cpu", value("/proc/cpuinfo", "model name")),
        ("distro", value("/etc/os-release", "ID")),
        ("distro_description", value("/etc/os-release", "PRETTY_NAME")),
        ("distro_version", value("/etc/os-release", "VERSION_ID")),
        ("hostname", Some(hostname())),
        ("kernel_description", text("/proc/sys/kernel/version")),
        ("kernel_version", text("/proc/sys/kernel/osrelease")),
        ("mem_swap_kb", kb("SwapTotal")),
        ("mem_total_kb", kb("MemTotal")),
        ("os", Some("Linux".into())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name.to_string(), value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_a_name_memory_and_a_kernel() {
        let told = metadata();
        assert!(told["mem_total_kb"].parse::<u64>().unwrap() > 0 && !told["kernel_version"].is_empty());
        assert!(!told["hostname"].is_empty() && !told["ceph_version"].contains('"'));
    }
}
