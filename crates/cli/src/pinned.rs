//! `up --pin`: the CPUs that each OSD runs on.
//!
//! Absent: the call that pins a thread, which is the OSD's at its start.

use clap::ValueEnum;
use osd::beneath::Beneath;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use types::OsdId;

/// How closely an OSD is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pin {
    /// To the CPUs of the NUMA node that its device is attached to.
    Node,
    /// To one CPU of its own, of that node where there are several.
    Core,
}

/// Lists of CPUs as the kernel writes them, by OSD. Empty, with a line that says why, where it makes no sense.
pub fn cpus(pin: Pin, osds: &[(OsdId, Option<Beneath>)]) -> BTreeMap<OsdId, String> {
    let allowed = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(list).unwrap_or_default();
    let nodes = nodes(Path::new("/sys/devices/system/node"));
    let on: Vec<(OsdId, Option<u32>)> = osds.iter().map(|(id, on)| (*id, on.as_ref().and_then(|on| on.numa_node))).collect();
    chosen(pin, &on, &allowed, &nodes).unwrap_or_else(|why| {
        say::eprintln!("--pin has no effect: {why}");
        BTreeMap::new()
    })
}

fn chosen(
    pin: Pin,
    osds: &[(OsdId, Option<u32>)],
    allowed: &BTreeSet<u32>,
    nodes: &BTreeMap<u32, BTreeSet<u32>>,
) -> Result<BTreeMap<OsdId, String>, String> {
    let of_node = |node: Option<u32>| match node.filter(|_| nodes.len() > 1).and_then(|node| nodes.get(&node)) {
        Some(cpus) => cpus & allowed,
        None => allowed.clone(),
    };
    match pin {
        Pin::Node if nodes.len() < 2 => Err("the machine has one NUMA node".into()),
        Pin::Node => {
            let attached = osds.iter().filter(|(_, node)| node.is_some());
            let all = attached.map(|(id, node)| (*id, of_node(*node))).filter(|(_, cpus)| !cpus.is_empty());
            Ok(all.map(|(id, cpus)| (id, text(&cpus))).collect())
        }
        Pin::Core => {
            // The monitor, the kernel and clients of this machine run somewhere, too.
            if osds.len() >= allowed.len() {
                return Err(format!("{} OSDs want a CPU each and leave one free, and there are {}", osds.len(), allowed.len()));
            }
            let mut free: BTreeSet<u32> = allowed.iter().skip(1).copied().collect();
            let mut out = BTreeMap::new();
            for (id, node) in osds {
                let cpu = (&free & &of_node(*node)).first().or(free.first()).copied().expect("there are enough");
                free.remove(&cpu);
                out.insert(*id, cpu.to_string());
            }
            Ok(out)
        }
    }
}

fn text(cpus: &BTreeSet<u32>) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// `0-3,8`.
fn list(text: &str) -> BTreeSet<u32> {
    let range = |word: &str| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// CPUs by node.
fn nodes(root: &Path) -> BTreeMap<u32, BTreeSet<u32>> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let node = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((number, list(&std::fs::read_to_string(entry.path().join("cpulist")).ok()?)))
    };
    entries.filter_map(node).filter(|(_, cpus)| !cpus.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn osds_get_cpus_of_their_devices_node_or_none() {
        let all = list("0-7\n");
        assert_eq!(all.len(), 8);
        let nodes: BTreeMap<u32, BTreeSet<u32>> = [(0, list("0-3")), (1, list("4-7"))].into();
        let osds = [(0, Some(1)), (1, Some(1)), (2, None)];
        let by_node = chosen(Pin::Node, &osds, &all, &nodes).unwrap();
        assert_eq!(by_node, [(0, "4,5,6,7".to_string()), (1, "4,5,6,7".to_string())].into());
        assert!(chosen(Pin::Node, &osds, &all, &[(0, all.clone())].into()).unwrap_err().contains("one NUMA node"));
        let own = chosen(Pin::Core, &osds, &all, &nodes).unwrap();
        assert_eq!(own, [(0, "4"), (1, "5"), (2, "1")].map(|(id, cpu)| (id, cpu.to_string())).into());
        assert!(chosen(Pin::Core, &osds, &list("0-2"), &nodes).unwrap_err().contains("leave one free"));
    }
}
