//! A case: an object's life in a few vectors of operations, drawn from a seed; and smaller ones that may show the same.

use super::draw::{Draw, Op, hex, op};
use super::ops::{CHANGES_DATA, change, condition, kind, may_fail, reading};
use serde_json::{Value, json};

/// LIBRADOS_OPERATION_RETURNVEC.
const RETURNVEC: u32 = 512;

/// One step of an object's life.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Write {
        ops: Vec<Op>,
        flags: u32,
    },
    /// At the snapshot that many back; of the head if none.
    Read {
        ops: Vec<Op>,
        at: Option<u64>,
    },
    Snapshot,
    Rollback(u64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    steps: Vec<Step>,
}

fn step(draw: &mut Draw) -> Step {
    let len = 1 + draw.below(4);
    match draw.below(12) {
        0 => Step::Snapshot,
        1 => Step::Rollback(draw.below(2)),
        2..=4 => {
            let ops = (0..len).map(|_| if draw.below(3) == 0 { condition(draw) } else { reading(draw) });
            let ops: Vec<Op> = ops.collect();
            let at = (draw.below(4) == 0).then(|| draw.below(3));
            Step::Read { ops: ops.into_iter().map(|op| may_fail(draw, op)).collect(), at }
        }
        _ => {
            let mut ops: Vec<Op> = (0..len).map(|_| if draw.below(3) == 0 { condition(draw) } else { change(draw) }).collect();
            // Stock reads old bytes at the new length where data is compared behind a change of it, and never answers if that is all of it.
            let changed = ops.iter().position(|op| CHANGES_DATA.contains(&kind(op))).unwrap_or(ops.len());
            let behind = ops.split_off(changed);
            ops.extend(behind.into_iter().filter(|op| kind(op) != "cmpext"));
            // Trims page through the omap: one that the same vector made ends a stock OSD.
            let mut first = true;
            ops.retain(|op| std::mem::take(&mut first) || !(op["op"] == "exec" && op["method"] == "trim"));
            // A copy stands alone: two of them, or one beside what fails, end a stock OSD.
            if let Some(at) = ops.iter().position(|op| kind(op) == "copy_from") {
                ops = vec![ops.swap_remove(at)];
            }
            let flags = if draw.below(4) == 0 { RETURNVEC } else { 0 };
            Step::Write { ops: ops.into_iter().map(|op| may_fail(draw, op)).collect(), flags }
        }
    }
}

impl Case {
    pub fn new(seed: u64) -> Self {
        let mut draw = Draw(seed);
        // Most objects have something to compare with.
        let made = [
            op("setxattr", json!({ "name": hex(b"a"), "data": hex(b"1") })),
            op("omap_set", json!({ "pairs": [[hex(b"a"), hex(b"1")]] })),
            op("write_full", json!({ "data": hex(b"12345678") })),
        ];
        let ops: Vec<Op> = made.into_iter().filter(|_| draw.below(3) > 0).collect();
        let mut steps = if ops.is_empty() { Vec::new() } else { vec![Step::Write { ops, flags: 0 }] };
        steps.extend((0..=draw.below(4)).map(|_| step(&mut draw)));
        Self { steps }
    }

    pub fn json(&self) -> Value {
        let step = |step: &Step| match step {
            Step::Write { ops, flags } => json!({ "kind": "write", "ops": ops, "flags": flags }),
            Step::Read { ops, at } => json!({ "kind": "read", "ops": ops, "at": at }),
            Step::Snapshot => json!({ "kind": "snapshot" }),
            Step::Rollback(back) => json!({ "kind": "rollback", "back": back }),
        };
        self.steps.iter().map(step).collect()
    }

    /// Each step's operations; None for steps without.
    pub fn vectors(&self) -> impl Iterator<Item = Option<&Vec<Op>>> {
        self.steps.iter().map(|step| match step {
            Step::Write { ops, .. } | Step::Read { ops, .. } => Some(ops),
            Step::Snapshot | Step::Rollback(_) => None,
        })
    }

    /// Cases with one thing less, the largest things first.
    pub fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        for at in 0..self.steps.len() {
            let mut steps = self.steps.clone();
            steps.remove(at);
            smaller.push(Self { steps });
        }
        for (at, step) in self.steps.iter().enumerate() {
            let (Step::Write { ops, .. } | Step::Read { ops, .. }) = step else { continue };
            if ops.len() < 2 {
                continue;
            }
            for gone in 0..ops.len() {
                let mut steps = self.steps.clone();
                if let Step::Write { ops, .. } | Step::Read { ops, .. } = &mut steps[at] {
                    ops.remove(gone);
                }
                smaller.push(Self { steps });
            }
        }
        smaller.retain(|case| !case.steps.is_empty());
        smaller
    }

    /// True if some vector has, in this order, operations that `first` and `then` are true for.
    fn has_behind(&self, first: impl Fn(&str) -> bool, then: impl Fn(&str) -> bool) -> bool {
        self.vectors().flatten().any(|ops| {
            let names: Vec<&str> = ops.iter().map(kind).collect();
            names.iter().position(|name| first(name)).is_some_and(|at| names[at + 1..].iter().any(|name| then(name)))
        })
    }
    pub fn removes_twice(&self) -> bool {
        // To roll back is to remove, and to copy what was there.
        let removes = |name: &str| name == "remove" || name == "rollback";
        self.has_behind(removes, removes)
    }
    /// A vector removes a range of keys, or all, behind an operation that may set some.
    pub fn removes_keys_that_it_sets(&self) -> bool {
        let sets = |name: &str| ["omap_set", "exec", "rollback", "copy_from"].contains(&name);
        self.has_behind(sets, |name| name == "omap_rm_range2" || name == "omap_clear")
    }
    /// Calls of an index where something else wrote an omap's header.
    pub fn index_with_anothers_header(&self) -> bool {
        let ops = || self.vectors().flatten().flatten();
        let is_index = |op: &Op| op["op"] == "exec" && op["class"] == "rgw";
        ops().any(|op| is_index(op) && op["method"] != "obj_remove")
            && ops().any(|op| op["op"] == "omap_set_header" || op["op"] == "copy_from" || op["op"] == "exec" && op["class"] == "log")
    }
    /// A class that goes over an image's snapshots, behind the first keys of an object that the vector makes.
    pub fn snapshots_of_what_it_makes(&self) -> bool {
        let is_over = |op: &Op| {
            op["op"] == "exec" && op["class"] == "rbd" && op["method"].as_str().is_some_and(|method| method.starts_with("snapshot_"))
        };
        let sets = |op: &Op| op["op"] == "omap_set" || op["op"] == "exec" && !is_over(op);
        self.vectors().flatten().any(|ops| ops.iter().position(sets).is_some_and(|at| ops[at + 1..].iter().any(is_over)))
    }
    /// An object that had an omap is removed in one vector, and cleared in a later one.
    pub fn clears_what_was_removed(&self) -> bool {
        let names: Vec<&str> = self.vectors().flatten().flatten().map(kind).collect();
        let removed = names.iter().position(|name| *name == "remove");
        removed.is_some_and(|at| names[at..].contains(&"omap_clear")) && self.steps.contains(&Step::Snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_case_and_its_like_are_smaller() {
        let count = |case: &Case| case.vectors().map(|ops| 1 + ops.map_or(0, Vec::len)).sum::<usize>();
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..2000 {
            let case = Case::new(seed);
            assert_eq!(case, Case::new(seed));
            let data = |name: &str| CHANGES_DATA.contains(&name);
            assert!(!case.has_behind(data, |name| name == "cmpext"), "seed {seed}");
            kinds.extend(case.vectors().flatten().flatten().map(|op| op["op"].as_str().unwrap().to_string()));
            assert!(case.smaller().iter().all(|less| count(less) < count(&case)));
        }
        assert_eq!(kinds.len(), 43, "{kinds:?}");
    }

    #[test]
    fn reasons_are_of_the_order_in_a_vector() {
        let case = |names: &[&str]| {
            let ops = names.iter().map(|name| op(name, json!({}))).collect();
            Case { steps: vec![Step::Write { ops, flags: 0 }] }
        };
        assert!(case(&["remove", "create", "remove"]).removes_twice() && !case(&["remove", "create"]).removes_twice());
        assert!(case(&["omap_set", "create", "omap_rm_range2"]).removes_keys_that_it_sets());
        assert!(!case(&["omap_rm_range2", "omap_set"]).removes_keys_that_it_sets());
        let renames = op("exec", json!({ "class": "rbd", "method": "snapshot_rename" }));
        let case = |ops: Vec<Op>| Case { steps: vec![Step::Write { ops, flags: 0 }] };
        let sets = op("omap_set", json!({}));
        assert!(case(vec![sets.clone(), renames.clone()]).snapshots_of_what_it_makes());
        assert!(!case(vec![renames, sets]).snapshots_of_what_it_makes());
    }
}
