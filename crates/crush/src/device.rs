//! Buckets of type `device`: OSDs that share a device stand below one bucket, so that a rule can choose among devices.
//!
//! The type's number is above those of Ceph's own types, which keep theirs. Places are ordered by [`levels`], not by number: a
//! device stands between OSD and host. Stock monitors order by number, so OSDs name nothing but their device there (docs/src/devices.md).

use crate::edit::{CrushError, Location};
use crate::map::{CrushMap, DEFAULT_TYPES};
use crate::rule::op;
use crate::{Rule, RuleStep};
use std::collections::BTreeMap;

/// The type's name, by which it is known whatever its number.
pub const DEVICE: &str = "device";

impl Rule {
    fn chooses(&self, kind: i32) -> bool {
        self.steps.iter().any(|step| step.chooses() && step.arg2 == kind)
    }
}

impl RuleStep {
    fn chooses(&self) -> bool {
        matches!(self.op, op::CHOOSE_FIRSTN | op::CHOOSE_INDEP | op::CHOOSELEAF_FIRSTN | op::CHOOSELEAF_INDEP)
    }
}

/// The number of type `device`, if the map has it.
pub fn kind(map: &CrushMap) -> Option<i32> {
    map.type_id(DEVICE).filter(|kind| *kind > 0)
}
/// Types of buckets from the leaves up: `device`, then all others by number.
pub fn levels(map: &CrushMap) -> Vec<(i32, &str)> {
    let device = kind(map);
    let mut levels: Vec<(i32, &str)> = map.type_names.range(1..).map(|(kind, name)| (*kind, name.as_str())).collect();
    levels.sort_by_key(|(kind, _)| (Some(*kind) != device, *kind));
    levels
}
/// Makes the type unless the map has it. Its number.
pub(crate) fn add_type(map: &mut CrushMap) -> i32 {
    if let Some(kind) = kind(map) {
        return kind;
    }
    let highest = map.type_names.keys().next_back().copied().unwrap_or(0);
    let kind = (highest + 1).max(DEFAULT_TYPES.len() as i32);
    map.type_names.insert(kind, DEVICE.into());
    kind
}
/// The `device` bucket that holds an OSD.
pub fn above(map: &CrushMap, osd: i32) -> Option<i32> {
    let kind = kind(map)?;
    map.parent(osd).filter(|parent| map.item_type(*parent) == Some(kind))
}
/// Rules that choose among OSDs, whatever device those share.
pub fn rules_by_osd(map: &CrushMap) -> Vec<u32> {
    let device = kind(map);
    let by_osd = |rule: &Rule| !rule.is_msr() && rule.chooses(0) && device.is_none_or(|kind| !rule.chooses(kind));
    (0..map.rules.len() as u32).filter(|id| map.rule(*id).is_some_and(by_osd)).collect()
}
/// True if a rule chooses among devices: an OSD below no `device` bucket gets nothing by it.
pub fn has_rule_by_device(map: &CrushMap) -> bool {
    kind(map).is_some_and(|kind| map.rules.iter().flatten().any(|rule| rule.chooses(kind)))
}

/// The place of an OSD that names no device. Where rules choose by device, the OSD keeps its `device` bucket if that stands at the
/// place, and gets a bucket of its own otherwise.
pub fn place(map: &CrushMap, osd: i32, loc: &Location) -> Location {
    let mut loc = loc.clone();
    if loc.contains_key(DEVICE) || !has_rule_by_device(map) {
        return loc;
    }
    let Some(lowest) = levels(map).into_iter().find_map(|(_, kind)| loc.get(kind)).cloned() else { return loc };
    let holder = map.item_id(&lowest).and_then(|id| map.bucket(id));
    let kept = above(map, osd).filter(|device| holder.is_some_and(|b| b.position(*device).is_some()));
    let name = kept.and_then(|device| map.item_name(device)).map_or_else(|| own_device(&lowest, osd), str::to_owned);
    loc.insert(DEVICE.into(), name);
    loc
}

/// The map with a `device` bucket above every OSD: that of the given name, or one of the OSD's own. Rules that chose among OSDs choose
/// among devices.
pub fn converted(map: &CrushMap, on: &BTreeMap<i32, String>) -> Result<CrushMap, CrushError> {
    let mut map = map.clone();
    let kind = add_type(&mut map);
    let mut osds: Vec<i32> = map.nonshadow_roots().into_iter().flat_map(|root| map.subtree(root)).filter(|id| *id >= 0).collect();
    osds.sort_unstable();
    osds.dedup();
    for osd in osds {
        let parents: Vec<i32> = map.parents(osd).into_iter().filter(|id| !map.is_shadow(*id)).collect();
        let [parent] = parents[..] else { return Err(CrushError::SeveralPlaces(osd)) };
        if map.item_type(parent) == Some(kind) {
            continue;
        }
        let holder = map.item_name(parent).unwrap_or_default().to_owned();
        let name = on.get(&osd).cloned().unwrap_or_else(|| own_device(&holder, osd));
        put_below(&mut map, osd, parent, &name, kind)?;
    }
    for rule in rules_by_osd(&map) {
        let rule = map.rules[rule as usize].as_mut().expect("we listed it");
        for step in rule.steps.iter_mut().filter(|step| step.chooses() && step.arg2 == 0) {
            step.arg2 = kind;
            step.op = match step.op {
                op::CHOOSE_FIRSTN => op::CHOOSELEAF_FIRSTN,
                op::CHOOSE_INDEP => op::CHOOSELEAF_INDEP,
                other => other,
            };
        }
    }
    map.rebuild_shadows();
    map.check()?;
    Ok(map)
}
/// Moves an OSD from `parent` into a bucket of type `kind` below it, which is made unless it is there.
fn put_below(map: &mut CrushMap, osd: i32, parent: i32, name: &str, kind: i32) -> Result<(), CrushError> {
    let weight = map.item_weight(osd);
    let bucket = match map.item_id(name) {
        Some(id) if map.item_type(id) == Some(kind) && map.parent(id) == Some(parent) => id,
        Some(id) => return Err(CrushError::NameTaken { name: name.into(), id }),
        None => {
            let id = map.add_bucket(name, DEVICE)?;
            map.add_to(parent, id, 0);
            id
        }
    };
    map.set_weight_in(parent, osd, 0);
    map.remove_from(parent, osd);
    map.add_to(bucket, osd, 0);
    map.set_weight_in(bucket, osd, weight);
    // Of weight-sets, too: those of the new bucket are its weights.
    let all = map.bucket(bucket).map_or(0, |b| b.weight);
    map.set_weight_in(parent, bucket, all);
    Ok(())
}

/// The bucket of an OSD that says of no device that others share it.
fn own_device(holder: &str, osd: i32) -> String {
    format!("{holder}-osd.{osd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scratch, WEIGHT_ONE};
    use std::collections::BTreeSet;

    fn at(pairs: &[(&str, &str)]) -> Location {
        pairs.iter().map(|(kind, name)| (kind.to_string(), name.to_string())).collect()
    }
    /// Four OSDs of one host, by twos on a device.
    fn four() -> (CrushMap, BTreeMap<i32, String>) {
        let mut map = CrushMap::new_cluster("osd");
        for osd in 0..4 {
            map.insert_item(osd, WEIGHT_ONE, &format!("osd.{osd}"), &at(&[("host", "a"), ("root", "default")])).unwrap();
            map.set_device_class(osd, "ssd").unwrap();
        }
        (map, (0..4).map(|osd| (osd, format!("a-d{}", osd / 2))).collect())
    }
    fn copies(map: &CrushMap, rule: u32, size: usize) -> Vec<Vec<i32>> {
        let mut scratch = Scratch::default();
        (0..1000).map(|x| map.do_rule(rule, x, size, &[WEIGHT_ONE; 8], -1, &mut scratch)).collect()
    }

    #[test]
    fn after_the_conversion_no_two_copies_lie_on_one_device() {
        let (map, on) = four();
        assert!(copies(&map, 0, 2).iter().any(|osds| osds[0] / 2 == osds[1] / 2), "or nothing is shown");
        assert_eq!((rules_by_osd(&map), has_rule_by_device(&map)), (vec![0], false));
        let new = converted(&map, &on).unwrap();
        assert_eq!((new.type_name(12), rules_by_osd(&new), has_rule_by_device(&new)), (Some("device"), vec![], true));
        for osds in copies(&new, 0, 2) {
            assert!(osds.len() == 2 && osds[0] / 2 != osds[1] / 2, "{osds:?}");
        }
        let used: BTreeSet<i32> = copies(&new, 0, 2).into_iter().flatten().collect();
        assert_eq!(used.len(), 4, "each OSD is used");
        // A rule of a class goes by shadow trees, which have the devices, too.
        let mut classed = map.clone();
        let rule = classed.create_replicated_rule("fast", "default", "osd", "ssd").unwrap();
        let classed = converted(&classed, &on).unwrap();
        assert!(copies(&classed, rule, 2).iter().all(|osds| osds.len() == 2 && osds[0] / 2 != osds[1] / 2));
        let root = new.item_id("default").unwrap();
        assert_eq!(new.bucket(root).unwrap().weight, 4 * WEIGHT_ONE);
        assert_eq!(converted(&new, &on).unwrap(), new, "a second time changes nothing");
    }

    #[test]
    fn a_weight_set_knows_the_new_buckets() {
        let (mut map, on) = four();
        map.create_weight_sets(crate::DEFAULT_CHOOSE_ARGS, 1);
        let new = converted(&map, &on).unwrap();
        let mut scratch = Scratch::default();
        let mapped = |x: u32| new.do_rule(0, x, 2, &[WEIGHT_ONE; 8], crate::DEFAULT_CHOOSE_ARGS, &mut scratch);
        assert!((0..200).map(mapped).all(|osds| osds.len() == 2));
    }

    #[test]
    fn what_can_not_be_converted_is_refused_and_what_need_not_be_is_left() {
        let (mut map, on) = four();
        map.insert_item(0, WEIGHT_ONE, "osd.0", &at(&[("host", "b"), ("root", "other")])).unwrap();
        assert_eq!(converted(&map, &on), Err(CrushError::SeveralPlaces(0)));
        let (map, _) = four();
        let taken = BTreeMap::from([(0, "a".to_string())]);
        assert!(matches!(converted(&map, &taken), Err(CrushError::NameTaken { .. })));
        let mut by_host = CrushMap::new_cluster("host");
        by_host.insert_item(0, WEIGHT_ONE, "osd.0", &at(&[("host", "a"), ("root", "default")])).unwrap();
        assert!(rules_by_osd(&by_host).is_empty());
        assert_eq!(converted(&by_host, &BTreeMap::new()).unwrap().rules, by_host.rules);
    }

    #[test]
    fn an_osd_that_names_no_device_keeps_its_own_or_gets_one() {
        let (map, on) = four();
        let host = at(&[("host", "a"), ("root", "default")]);
        assert_eq!(place(&map, 0, &host), host, "no rule chooses by device");
        let mut map = converted(&map, &on).unwrap();
        let before = map.clone();
        let kept = place(&map, 1, &host);
        assert_eq!(kept["device"], "a-d0");
        assert_eq!(map.create_or_move(1, WEIGHT_ONE, "osd.1", &kept), Ok(false));
        assert_eq!(map, before);
        // A new one, and one that came with its disk to another host.
        for (osd, name) in [(4, "osd.4"), (0, "osd.0")] {
            let there = at(&[("host", "b"), ("root", "default")]);
            let fresh = place(&map, osd, &there);
            map.create_or_move(osd, WEIGHT_ONE, name, &fresh).unwrap();
            let above: Vec<String> = map.full_location(osd).into_iter().map(|(kind, name)| format!("{kind}={name}")).collect();
            assert_eq!(above, [format!("device=b-osd.{osd}"), "host=b".into(), "root=default".into()]);
        }
        assert!(copies(&map, 0, 3).iter().all(|osds| osds.len() == 3), "each has a device");
    }
}
