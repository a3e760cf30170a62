//! A trunk that all members follow for a while, each with a branch of its own at the end; then each in turn has the log that counts.

use super::model::{Node, World};
use super::v;
use crate::pg::backend::layout::Layout;
use crate::pg::reconcile::LogError;
use crate::pg::reconcile::member::Member;
use crate::planted::{self, Bug};
use base::Rng;
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use types::EVersion;

const OBJECTS: u64 = 5;

struct Tree {
    world: World,
    nodes: Vec<Node>,
}

/// A version of a branch sorts between those of the trunk: no epoch is used twice.
fn grow(rng: &mut Rng) -> Tree {
    let mut world = World::default();
    let mut trunk = Vec::new();
    for n in 0..rng.below(20) {
        let objects = world.truth(&trunk);
        let version = v(10 * (1 + n as u32 / 4), n + 1);
        trunk.push(world.draw(rng, &objects, OBJECTS, version));
    }
    // What may be trimmed: the part that every member has.
    let ends: Vec<usize> = (0..2 + rng.below(3)).map(|_| rng.below(trunk.len() as u64 + 1) as usize).collect();
    let trimmable = trunk[..ends.iter().copied().min().unwrap_or(0)].to_vec();
    let nodes = ends.iter().enumerate().map(|(n, end)| grow_branch(rng, &mut world, &trunk[..*end], &trimmable, n as u32)).collect();
    Tree { world, nodes }
}

fn grow_branch(rng: &mut Rng, world: &mut World, trunk: &[EVersion], trimmable: &[EVersion], n: u32) -> Node {
    let mut node = Node::new();
    trunk.iter().for_each(|v| node.write(world, *v));
    let end = trunk.last().copied().unwrap_or_default();
    for i in 0..rng.below(2) * rng.below(5) {
        let objects = world.truth(&node.history);
        let version = world.draw(rng, &objects, OBJECTS, v(end.epoch + 1 + n, end.version + i + 1));
        node.write(world, version);
    }
    if !trimmable.is_empty() && rng.chance(1, 2) {
        node.trim(trimmable[rng.below(trimmable.len() as u64) as usize], rng.below(20) as usize);
    }
    node
}

/// Every member takes every other's log, in full and in part, and a third one's after that.
fn run(seed: u64) {
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let Tree { world, nodes } = grow(&mut rng);
    for counts in &nodes {
        for (n, node) in nodes.iter().enumerate() {
            let mut node = node.clone();
            node.check(&world);
            let view = {
                let log = crate::pg::reconcile::PeerLog::check(node.whole()).unwrap();
                let mut view = Member::judge(Layout::Copies, &counts.log(), node.info.clone(), &log, node.missing.clone()).unwrap();
                let after = view.info.last_update;
                view.send_log(counts.record.log.iter().filter(|e| e.version > after), &counts.info);
                view
            };
            let halves = [0, 1].map(|half| {
                let (mut ours, counts) = (split(&node, half), split(counts, half));
                ours.merge(counts.whole(), &counts.info, &counts.history).unwrap();
                ours
            });
            node.merge(counts.whole(), &counts.info, &counts.history).unwrap();
            node.check(&world);
            for (half, merged) in halves.iter().enumerate() {
                let expected = split(&node, half as u32);
                assert_eq!((&merged.record.log, &merged.missing), (&expected.record.log, &expected.missing), "a split before a merge");
                assert_eq!((&merged.store, merged.info.log_tail), (&expected.store, expected.info.log_tail));
                assert_eq!(merged.info.last_update, expected.info.last_update);
            }
            node.check_view(&view);
            // Some is recovered, then another log counts.
            let truth = world.truth(&node.history);
            let missing: Vec<_> = node.missing.iter().map(|(o, _)| o).filter(|_| rng.chance(1, 2)).collect();
            missing.iter().for_each(|obj| node.recover(obj, &truth));
            node.check(&world);
            let third = &nodes[(n + 1) % nodes.len()];
            match node.merge(third.part(node.info.log_tail), &third.info, &third.history) {
                Ok(()) => node.check(&world),
                Err(e) => assert!(matches!(e, LogError::Apart { .. }), "{e}"),
            }
            rewind_all(&mut node, &world, &mut rng);
        }
    }
}

/// The half of a member that a split of the group leaves, or takes away.
fn split(node: &Node, half: u32) -> Node {
    let mut node = node.clone();
    let goes = |hash: u32| hash % 2 != half;
    let mut log = node.log();
    let gone = log.split_off(goes);
    let (kept, count) = (log.versions_after(EVersion::ZERO).collect::<BTreeSet<_>>(), node.record.log.len());
    node.record.log.retain(|e| kept.contains(&e.version));
    assert!(node.record.log.iter().all(|e| !goes(e.soid.hash)) && count == log.len() + gone.len(), "entries go with their objects");
    node.missing.split_off(goes);
    assert!(node.missing.iter().all(|(obj, _)| !goes(obj.hash)));
    node.record.missing.retain(|obj, _| !goes(obj.hash));
    node.store.retain(|obj, _| !goes(obj.hash));
    node
}

/// Back, step by step, to the tail.
fn rewind_all(node: &mut Node, world: &World, rng: &mut Rng) {
    let info = node.info.clone();
    while let Some(to) = node.history.iter().rev().nth(1 + rng.below(3) as usize).copied().filter(|v| *v >= node.info.log_tail) {
        node.rewind(to, &info);
        node.check(world);
    }
}

#[test]
fn a_merged_log_is_the_one_that_counts() {
    (0..500).for_each(run);
}

#[test]
fn planted_bugs_of_a_merge_are_found() {
    for bug in [Bug::KeepDivergent, Bug::LoseDup, Bug::TrustMissing] {
        let found = (0..1500).any(|seed| planted::with(bug, || catch_unwind(|| run(seed))).is_err());
        assert!(found, "{bug:?} is not found");
    }
}
