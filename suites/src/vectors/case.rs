//! A case: an object's life in a few vectors of operations, drawn from a seed; and smaller ones that may show the same.

use serde_json::{Map, Value, json};

/// An operation's fields by their names, as `send.py` takes them.
type Op = Map<String, Value>;

/// One step of an object's life.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Write { ops: Vec<Op>, flags: u32 },
    Read { ops: Vec<Op> },
    Snapshot,
    Rollback(u64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    steps: Vec<Step>,
}

/// LIBRADOS_OPERATION_RETURNVEC.
const RETURNVEC: u32 = 512;
/// LIBRADOS_OP_FLAG_FAILOK.
const FAILOK: u64 = 2;

/// Operations that change data.
const CHANGES_DATA: [&str; 7] = ["write", "write_full", "append", "writesame", "truncate", "zero", "remove"];

/// Draws numbers (splitmix64): a seed is a case for good.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }
    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len() as u64) as usize]
    }
}

fn hex(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn text(of: &str) -> Vec<u8> {
    [&(of.len() as u32).to_le_bytes()[..], of.as_bytes()].concat()
}

fn framed(version: u8, body: &[u8]) -> Vec<u8> {
    [&[version, 1][..], &(body.len() as u32).to_le_bytes(), body].concat()
}

fn op(name: &str, fields: Value) -> Op {
    let mut op = fields.as_object().cloned().unwrap_or_default();
    op.insert("op".into(), name.into());
    op
}

fn call(class: &str, method: &str, input: &[u8]) -> Op {
    op("exec", json!({ "class": class, "method": method, "data": hex(input) }))
}

/// Some bytes, few of them different: comparisons are to hold now and then.
fn value(draw: &mut Draw) -> &'static str {
    draw.one(&["", "1", "2", "12", "abc"])
}
fn name(draw: &mut Draw) -> Value {
    hex(draw.one(&["a", "b", "c"]).as_bytes())
}

/// What both kinds of vectors may have: conditions.
fn condition(draw: &mut Draw) -> Op {
    let (name, value, compare) = (name(draw), hex(value(draw).as_bytes()), 1 + draw.below(6));
    match draw.below(5) {
        0 => op("assert_exists", json!({})),
        1 | 2 => op("cmpxattr", json!({ "name": name, "data": value, "compare": compare })),
        // EQ, GT and LT are what keys compare by.
        3 => op("omap_cmp", json!({ "name": name, "data": value, "compare": 1 + 2 * draw.below(3) })),
        _ => op("cmpext", json!({ "offset": draw.below(8), "data": value })),
    }
}

fn change(draw: &mut Draw) -> Op {
    let (name, value) = (name(draw), hex(value(draw).as_bytes()));
    let (offset, length) = (draw.below(12), draw.below(6));
    match draw.below(18) {
        0 | 1 => op("setxattr", json!({ "name": name, "data": value })),
        2 => op("rmxattr", json!({ "name": name })),
        3 => op("create", json!({ "exclusive": draw.below(2) == 0 })),
        4 => op("write", json!({ "offset": offset, "data": value })),
        5 => op("write_full", json!({ "data": value })),
        6 => op("append", json!({ "data": value })),
        7 => op("writesame", json!({ "offset": offset, "data": "3132", "length": 1 + length })),
        8 => op("truncate", json!({ "offset": offset })),
        9 => op("zero", json!({ "offset": offset, "length": length })),
        10 => op("remove", json!({})),
        11 => op("set_alloc_hint", json!({ "offset": offset, "length": length })),
        12 | 13 => op("omap_set", json!({ "name": name, "data": value })),
        14 => op("omap_rm_keys", json!({ "name": name })),
        15 => op("omap_rm_range2", json!({ "name": name, "data": hex(b"c") })),
        16 => op("omap_clear", json!({})),
        _ => changing_call(draw),
    }
}

fn obj_version(number: u64) -> Vec<u8> {
    framed(1, &[&number.to_le_bytes()[..], &text("tag")].concat())
}

/// Conditions of class `version`: the version is, or is more than, that number.
fn conditions(draw: &mut Draw) -> Vec<u8> {
    let (version, kind) = (obj_version(draw.below(3)), 1 + draw.below(7) as u32);
    let condition = framed(1, &[&version[..], &kind.to_le_bytes()].concat());
    framed(1, &[&version[..], &1_u32.to_le_bytes(), &condition].concat())
}

fn refcount_tag(draw: &mut Draw) -> Vec<u8> {
    framed(1, &[text(draw.one(&["x", "y"])), vec![draw.below(2) as u8]].concat())
}

fn changing_call(draw: &mut Draw) -> Op {
    let time = [(draw.below(4) as u32).to_le_bytes(), [0; 4]].concat();
    match draw.below(10) {
        0 => call("version", "set", &framed(1, &obj_version(draw.below(3)))),
        1 => call("version", "check_conds", &conditions(draw)),
        2 => call("version", "inc_conds", &conditions(draw)),
        3 => call("refcount", "get", &refcount_tag(draw)),
        4 => call("refcount", "put", &refcount_tag(draw)),
        5 => {
            let entry = framed(1, &[&time[..], &text(draw.one(&["k", "l"])), &text("v")].concat());
            call("timeindex", "add", &framed(1, &[&1_u32.to_le_bytes()[..], &entry].concat()))
        }
        6 => {
            let (name, cookie, tag) = (text("l"), text(draw.one(&["c", "d"])), text(""));
            // Type, then cookie, tag, description, duration, flags.
            let body = [&name[..], &[1 + draw.below(2) as u8], &cookie, &tag, &text(""), &[0; 8], &[draw.below(2) as u8]].concat();
            call("lock", "lock", &framed(1, &body))
        }
        7 => call("lock", "unlock", &framed(1, &[text("l"), text(draw.one(&["c", "d"]))].concat())),
        8 => call("rgw", "obj_remove", &framed(1, &[&1_u32.to_le_bytes()[..], &text(draw.one(&["a", "user"]))].concat())),
        _ => {
            let pair = [&1_u32.to_le_bytes()[..], &text(draw.one(&["a", "b"])), &text("v")].concat();
            call("rbd", "metadata_set", &pair)
        }
    }
}

fn reading(draw: &mut Draw) -> Op {
    let (name, offset, length) = (name(draw), draw.below(8), draw.below(12));
    match draw.below(11) {
        0 => op("stat", json!({})),
        1 | 2 => op("read", json!({ "offset": offset, "length": 1 + length })),
        3 => op("getxattrs", json!({})),
        4 => op("omap_get_vals2", json!({ "name": if draw.below(2) == 0 { name } else { hex(b"") }, "data": hex(b""), "length": length })),
        5 => op("omap_get_keys2", json!({ "name": hex(b""), "length": length })),
        6 => op("omap_get_vals_by_keys", json!({ "name": name })),
        7 => call("version", "read", &[]),
        8 => call("version", "check_conds", &conditions(draw)),
        9 => call("refcount", "read", &framed(1, &[draw.below(2) as u8])),
        _ => call("rbd", "metadata_list", &[&text("")[..], &9_u64.to_le_bytes()].concat()),
    }
}

fn may_fail(draw: &mut Draw, mut op: Op) -> Op {
    if draw.below(6) == 0 {
        op.insert("flags".into(), FAILOK.into());
    }
    op
}

fn step(draw: &mut Draw) -> Step {
    let len = 1 + draw.below(4);
    match draw.below(12) {
        0 => Step::Snapshot,
        1 => Step::Rollback(draw.below(2)),
        2..=4 => {
            let ops = (0..len).map(|_| if draw.below(3) == 0 { condition(draw) } else { reading(draw) });
            let ops: Vec<Op> = ops.collect();
            Step::Read { ops: ops.into_iter().map(|op| may_fail(draw, op)).collect() }
        }
        _ => {
            let mut ops: Vec<Op> = (0..len).map(|_| if draw.below(3) == 0 { condition(draw) } else { change(draw) }).collect();
            // Stock reads old bytes at the new length where data is compared behind a change of it, and never answers if that is all of it.
            let changed = ops.iter().position(|op| CHANGES_DATA.contains(&kind(op))).unwrap_or(ops.len());
            let behind = ops.split_off(changed);
            ops.extend(behind.into_iter().filter(|op| kind(op) != "cmpext"));
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
            op("omap_set", json!({ "name": hex(b"a"), "data": hex(b"1") })),
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
            Step::Read { ops } => json!({ "kind": "read", "ops": ops }),
            Step::Snapshot => json!({ "kind": "snapshot" }),
            Step::Rollback(back) => json!({ "kind": "rollback", "back": back }),
        };
        self.steps.iter().map(step).collect()
    }

    /// Each step's operations; None for steps without.
    pub fn vectors(&self) -> impl Iterator<Item = Option<&Vec<Op>>> {
        self.steps.iter().map(|step| match step {
            Step::Write { ops, .. } | Step::Read { ops } => Some(ops),
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
            let (Step::Write { ops, .. } | Step::Read { ops }) = step else { continue };
            if ops.len() < 2 {
                continue;
            }
            for gone in 0..ops.len() {
                let mut steps = self.steps.clone();
                if let Step::Write { ops, .. } | Step::Read { ops } = &mut steps[at] {
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
        self.has_behind(|name| name == "remove", |name| name == "remove")
    }
    /// An object that had an omap is removed in one vector, and cleared in a later one.
    pub fn clears_what_was_removed(&self) -> bool {
        let names: Vec<&str> = self.vectors().flatten().flatten().map(kind).collect();
        let removed = names.iter().position(|name| *name == "remove");
        removed.is_some_and(|at| names[at..].contains(&"omap_clear")) && self.steps.contains(&Step::Snapshot)
    }
}

/// The operation's name; `remove` for calls that may remove.
fn kind(op: &Op) -> &str {
    let removes = [("rgw", "obj_remove"), ("refcount", "put")]
        .iter()
        .any(|(class, method)| op.get("class") == Some(&json!(class)) && op.get("method") == Some(&json!(method)));
    if removes { "remove" } else { op.get("op").and_then(Value::as_str).unwrap_or_default() }
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
        assert_eq!(kinds.len(), 26, "{kinds:?}");
    }

    #[test]
    fn reasons_are_of_the_order_in_a_vector() {
        let case = |names: &[&str]| {
            let ops = names.iter().map(|name| op(name, json!({}))).collect();
            Case { steps: vec![Step::Write { ops, flags: 0 }] }
        };
        assert!(case(&["remove", "create", "remove"]).removes_twice() && !case(&["remove", "create"]).removes_twice());
    }
}
