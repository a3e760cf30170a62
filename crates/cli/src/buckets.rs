//! The `device` bucket of the CRUSH map that an OSD takes at its start.
//!
//! An OSD that stands below one in the map keeps it: names of devices may change with a restart, and a change would move data. A new OSD
//! joins the bucket of the OSDs that share its device, or makes one. Absent: converting a map, which is [`crate::shared_devices`]'.

use crate::members::Members;
use osd::beneath::Beneath;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use types::OsdId;

/// Names for those of `osds` that stand below no `device` bucket.
pub fn names(host: &str, osds: &[(OsdId, Option<Beneath>)], known: &Members) -> BTreeMap<OsdId, String> {
    let kept = |id: &OsdId| known.get(id).and_then(|known| known.device.clone());
    let mut taken: BTreeSet<String> = known.values().filter_map(|known| known.device.clone()).collect();
    let mut named: Vec<(&Beneath, String)> = osds.iter().filter_map(|(id, on)| Some((on.as_ref()?, kept(id)?))).collect();
    let mut out = BTreeMap::new();
    for (id, on) in osds.iter().filter(|(id, _)| kept(id).is_none()) {
        let Some(on) = on else { continue };
        let name = match named.iter().find(|(other, _)| other.shares(on)) {
            Some((_, name)) => name.clone(),
            None => {
                let name = (1..).map(|n| numbered(&format!("{host}-{}", on.name), n)).find(|name| !taken.contains(name));
                name.expect("numbers do not end")
            }
        };
        taken.insert(name.clone());
        named.push((on, name.clone()));
        out.insert(*id, name);
    }
    out
}

/// Says so if two copies may lie on one device and need not.
pub fn warn(osds: &[(OsdId, Option<Beneath>)], conf: &Path) {
    let on: Vec<&Beneath> = osds.iter().filter_map(|(_, on)| on.as_ref()).collect();
    let shares = |n: usize| on.iter().skip(n + 1).any(|other| other.shares(on[n]));
    let apart = on.first().is_some_and(|first| on.iter().any(|other| !other.shares(first)));
    if apart && (0..on.len()).any(shares) {
        say::eprintln!(
            "pools may keep two copies on one device, since their rules choose among OSDs: `humboldt osd devices --conf {}` says which, and what a change would move",
            conf.display()
        );
    }
}

fn numbered(name: &str, n: u32) -> String {
    if n == 1 { name.to_string() } else { format!("{name}.{n}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Known;
    use types::Uuid;

    fn on(part: &str) -> Option<Beneath> {
        Some(Beneath { parts: [part.to_string()].into(), name: part.into(), is_rotational: false, numa_node: None })
    }
    fn known(device: &str) -> Known {
        Known { uuid: Uuid::default(), is_destroyed: false, is_stopped: false, is_up: false, up_from: 1, device: Some(device.into()) }
    }

    #[test]
    fn osds_of_a_device_take_one_bucket_and_keep_it_when_its_name_changes() {
        let new = names("a", &[(0, on("sda")), (1, on("sda")), (2, on("sdb")), (3, None)], &Members::new());
        assert_eq!(new, [(0, "a-sda"), (1, "a-sda"), (2, "a-sdb")].map(|(id, name)| (id, name.to_string())).into());
        // The disk of osd.0, sda then, is sdb now; osd.1 is new on it, osd.2 on the one that is sda now.
        let now = names("a", &[(0, on("sdb")), (1, on("sdb")), (2, on("sda"))], &[(0, known("a-sda"))].into());
        assert_eq!(now, [(1, "a-sda"), (2, "a-sda.2")].map(|(id, name)| (id, name.to_string())).into());
    }
}
