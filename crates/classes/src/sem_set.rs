//! Class `sem_set`: counters under names, which go when they have counted down. radosgw's log of data changes holds its entries by them.
//!
//! Source of the encodings, keys, errnos and rules: Ceph 20.2 `src/cls/sem_set/*`.

use crate::registry::{Class, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, reply, stored};
use denc::{ByteStr, Bytes, denc_struct};
use std::collections::{BTreeMap, BTreeSet};
use types::UTime;
use types::errno::{E2BIG, ENOENT};

pub static CLASS: Class = Class {
    name: "sem_set",
    families: &[&[
        Method::writes("increment", increment),
        Method::writes("decrement", decrement),
        Method::writes("reset", reset),
        Method::reads("list", list),
    ]],
};

const PREFIX: &[u8] = b"CLS_SEM_SET_";
/// Names in one request.
const NAMES_MAX: usize = 1000;

/// `sem_val`: what a key holds.
#[derive(Default)]
struct Semaphore {
    count: u64,
    /// Zero before the first.
    decremented: UTime,
    pub rest: Rest,
}
kept!(Semaphore, v 1, compat 1, { count, decremented });

struct IncrementOp {
    names: BTreeSet<ByteStr>,
}
denc_struct!(IncrementOp, v 1, compat 1, { names });

struct DecrementOp {
    names: BTreeSet<ByteStr>,
    /// A semaphore that was decremented less than this before stays as it is.
    grace_s: i32,
    grace_ns: i32,
}
denc_struct!(DecrementOp, v 1, compat 1, { names, grace_s, grace_ns });

struct ResetOp {
    counts: BTreeMap<ByteStr, u64>,
}
denc_struct!(ResetOp, v 1, compat 1, { counts });

struct ListOp {
    entries_max: u64,
    /// The name behind which to go on; empty for the start.
    cursor: ByteStr,
}
denc_struct!(ListOp, v 1, compat 1, { entries_max, cursor });

struct ListReply {
    counts: BTreeMap<ByteStr, u64>,
    /// Empty when all has been listed.
    cursor: ByteStr,
}
denc_struct!(ListReply, v 1, compat 1, { counts, cursor });

fn key(name: &ByteStr) -> ByteStr {
    [PREFIX, name.as_slice()].concat().into()
}

fn must_be_few(names: usize) -> ClsResult<()> {
    if names > NAMES_MAX { errno(E2BIG) } else { Ok(()) }
}

/// Counters that are not there begin.
fn increment(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: IncrementOp = decode(&input)?;
    must_be_few(op.names.len())?;
    for name in &op.names {
        let key = key(name);
        let mut semaphore = match obj.omap_val(key.as_slice()) {
            Err(e) if e.is(ENOENT) => Semaphore::default(),
            other => stored(&other?)?,
        };
        semaphore.count = semaphore.count.wrapping_add(1);
        obj.omap_set(vec![(key, encode(&semaphore))])?;
    }
    done()
}

/// ENOENT for one that is not there; then none of them is decremented.
fn decrement(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: DecrementOp = decode(&input)?;
    must_be_few(op.names.len())?;
    let now = obj.now();
    // Stock's time spans have no sign: one below nothing is longer than any.
    let grace_ns = (i64::from(op.grace_s) * 1_000_000_000 + i64::from(op.grace_ns)).cast_unsigned();
    for name in &op.names {
        let key = key(name);
        let mut semaphore: Semaphore = stored(&obj.omap_val(key.as_slice())?)?;
        match now.wall_ns().checked_sub(semaphore.decremented.wall_ns()) {
            Some(since_ns) if since_ns >= grace_ns => {}
            _ => continue,
        }
        if semaphore.count > 1 {
            semaphore.count -= 1;
            semaphore.decremented = now;
            obj.omap_set(vec![(key, encode(&semaphore))])?;
        } else {
            obj.omap_remove(vec![key])?;
        }
    }
    done()
}

fn reset(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ResetOp = decode(&input)?;
    must_be_few(op.counts.len())?;
    let semaphore = |count| encode(&Semaphore { count, ..Semaphore::default() });
    obj.omap_set(op.counts.into_iter().map(|(name, count)| (key(&name), semaphore(count))).collect())?;
    done()
}

/// Names that go on behind the cursor with less than 0x02 are passed over, as on stock; so is the empty name.
fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let mut answer = ListReply { counts: BTreeMap::new(), cursor: op.cursor };
    let mut left = op.entries_max;
    while left > 0 {
        let after = [PREFIX, answer.cursor.as_slice(), b"\x01"].concat();
        let (page, more) = obj.omap_vals(&after, PREFIX, left)?;
        left = left.saturating_sub(page.len() as u64);
        for (key, value) in &page {
            let name: ByteStr = key.as_slice().strip_prefix(PREFIX).unwrap_or_default().into();
            answer.cursor = name.clone();
            answer.counts.insert(name, stored::<Semaphore>(value)?.count);
        }
        if !more || page.is_empty() {
            answer.cursor = ByteStr::new();
            break;
        }
    }
    reply(&answer)
}
