//! Placement groups lie where stock `osdmaptool` says: uneven trees, every kind of bucket, firstn and indep rules, weight-sets, reweights,
//! OSDs that are down or gone, primary affinity, upmaps, primaries by hand, temporary mappings.

use denc::Denc;
use maps::{OsdMap, Placement};
use types::PgId;

/// `([1,NONE,2], p1)` as OSDs and primary.
fn set(text: &str) -> (Vec<i32>, i32) {
    let (osds, primary) = text.trim_start_matches("([").split_once("], p").unwrap();
    let osd = |s: &str| if s == "NONE" { crush_none() } else { s.parse().unwrap() };
    (osds.split(',').filter(|s| !s.is_empty()).map(osd).collect(), primary.trim_end_matches(')').parse().unwrap())
}
fn crush_none() -> i32 {
    0x7fff_ffff
}

fn check(name: &str, least: usize) {
    let folder = format!("{}/../../fixtures/maps", env!("CARGO_MANIFEST_DIR"));
    let map = OsdMap::from_bytes(&std::fs::read(format!("{folder}/placement-{name}.bin")).unwrap().into()).unwrap();
    let text = std::fs::read_to_string(format!("{folder}/placement-{name}.txt")).unwrap();
    let mut work = Placement::default();
    let (mut groups, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let Some((pg, rest)) = line.split_once(" raw ") else { continue };
        let (raw, rest) = rest.split_once(" up ").unwrap();
        let (up, acting) = rest.split_once(" acting ").unwrap();
        let pg = PgId::parse(pg).unwrap();
        groups += 1;
        let ours = map.pg_to_up_acting(pg, &mut work);
        let our_raw = map.pg_to_raw(pg, &mut work);
        if our_raw != set(raw).0
            || (ours.up.clone(), ours.up_primary) != set(up)
            || (ours.acting.clone(), ours.acting_primary) != set(acting)
        {
            wrong.push(format!("{line}\n     ours raw {our_raw:?} {ours:?}"));
        }
    }
    assert!(groups >= least, "{groups}");
    assert!(wrong.is_empty(), "{name}: {} of {groups} wrong\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
}

#[test]
fn straw2_with_weight_sets() {
    check("plain", 300);
}

/// The map was made by our monitor's commands: what they wrote down means the same to stock.
#[test]
fn primaries_by_hand_and_weight_sets_by_command() {
    check("primaries", 48);
}

#[test]
fn every_bucket_algorithm_with_legacy_tunables() {
    check("algs", 300);
}
