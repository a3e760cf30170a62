//! Operations of a vector, each drawn with its arguments: every one that librados has, in C or in C++.
//!
//! Left out are watches and notifications, which need a second client, what makes no sense in a vector (listing a pool), and changes of a TMAP: where the
//! data is none, they end a stock OSD. And flushes and evictions of cache tiers: what stock says of an object that isn't there goes by what it has in memory.

use super::calls::{changing_call, reading_call};
use super::draw::{Draw, Op, hex, op};
use serde_json::{Value, json};

/// LIBRADOS_OP_FLAG_EXCL.
const EXCL: u64 = 1;
/// LIBRADOS_OP_FLAG_FAILOK.
const FAILOK: u64 = 2;

/// Operations that change data.
pub const CHANGES_DATA: [&str; 9] = ["write", "write_full", "append", "writesame", "truncate", "zero", "remove", "copy_from", "rollback"];

/// Some bytes, few of them different: comparisons are to hold now and then.
fn value(draw: &mut Draw) -> &'static str {
    draw.one(&["", "1", "2", "12", "abc"])
}
fn name(draw: &mut Draw) -> Value {
    hex(draw.one(&["a", "b", "c"]).as_bytes())
}
/// One to three keys, with values that they may have.
fn pairs(draw: &mut Draw) -> Value {
    let count = 1 + draw.below(3);
    (0..count).map(|_| json!([name(draw), hex(value(draw).as_bytes())])).collect()
}

/// What both kinds of vectors may have: conditions.
pub fn condition(draw: &mut Draw) -> Op {
    let (name, value, compare) = (name(draw), hex(value(draw).as_bytes()), 1 + draw.below(6));
    match draw.below(6) {
        0 => op("assert_exists", json!({})),
        1 | 2 => op("cmpxattr", json!({ "name": name, "data": value, "compare": compare })),
        // EQ, GT and LT are what keys compare by.
        3 => op("omap_cmp", json!({ "name": name, "data": value, "compare": 1 + 2 * draw.below(3) })),
        4 => op("cmpext", json!({ "offset": draw.below(8), "data": value })),
        // Of the version that the last answer told: the same, an older or a newer one.
        _ => {
            let ahead = [0, 0, -1, 1][draw.below(4) as usize];
            op("assert_version", json!({ "ahead": ahead }))
        }
    }
}

pub fn change(draw: &mut Draw) -> Op {
    let (name, value) = (name(draw), hex(value(draw).as_bytes()));
    let (offset, length) = (draw.below(12), draw.below(6));
    match draw.below(28) {
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
        12 => op("set_alloc_hint2", json!({ "offset": offset, "length": length, "hint": draw.below(1 << 10) })),
        13 | 14 => op("omap_set", json!({ "pairs": pairs(draw) })),
        15 => op("omap_rm_keys", json!({ "pairs": pairs(draw) })),
        16 => op("omap_rm_range2", json!({ "name": name, "data": hex(b"c") })),
        17 => op("omap_clear", json!({})),
        18 | 19 => op("omap_set_header", json!({ "data": value })),
        20 => op("copy_from", json!({ "source": draw.below(3) })),
        21 => op("rollback", json!({ "back": draw.below(3) })),
        // Of cache tiers and manifests; the pool has none.
        22 => op(draw.one(&["undirty", "cache_pin", "cache_unpin", "unset_manifest", "tier_promote"]), json!({})),
        _ => changing_call(draw),
    }
}

pub fn reading(draw: &mut Draw) -> Op {
    let (name, offset, length) = (name(draw), draw.below(8), draw.below(12));
    match draw.below(18) {
        0 => op("stat", json!({})),
        1 | 2 => op("read", json!({ "offset": offset, "length": 1 + length })),
        3 => op("getxattrs", json!({})),
        4 => op("getxattr", json!({ "name": name })),
        5 => op("omap_get_vals2", json!({ "name": if draw.below(2) == 0 { name } else { hex(b"") }, "data": hex(b""), "length": length })),
        6 => op("omap_get_keys2", json!({ "name": hex(b""), "length": length })),
        7 => op("omap_get_vals_by_keys", json!({ "pairs": pairs(draw) })),
        8 => op("omap_get_header", json!({})),
        // Stores differ in what they say of none.
        9 => op("sparse_read", json!({ "offset": offset, "length": 1 + length })),
        10 => {
            // Kind, and where the sum begins: 0xxHash32, xxHash64, CRC-32C.
            let kind = draw.below(3);
            let begins = if kind == 1 { hex(&[0; 8]) } else { hex(&[0xff; 4]) };
            let chunk = [0, 0, 2, 4][draw.below(4) as usize];
            op("checksum", json!({ "kind": kind, "data": begins, "offset": offset, "length": length, "chunk": chunk }))
        }
        11 => op(draw.one(&["list_watchers", "list_snaps", "is_dirty"]), json!({})),
        _ => reading_call(draw),
    }
}

/// Some may fail without harm to the vector, and some are to be exclusive.
pub fn may_fail(draw: &mut Draw, mut op: Op) -> Op {
    let flags = if draw.below(6) == 0 { FAILOK } else { 0 } | if draw.below(16) == 0 { EXCL } else { 0 };
    if flags != 0 {
        op.insert("flags".into(), flags.into());
    }
    op
}

/// The operation's name; `remove` for calls that may remove.
pub fn kind(op: &Op) -> &str {
    let removes = [("rgw", "obj_remove"), ("refcount", "put"), ("refcount", "set")]
        .iter()
        .any(|(class, method)| op.get("class") == Some(&json!(class)) && op.get("method") == Some(&json!(method)));
    if removes { "remove" } else { op.get("op").and_then(Value::as_str).unwrap_or_default() }
}
