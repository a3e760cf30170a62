//! A user's buckets, and the sums over them.

use super::LIST_MAX;
use super::records::{Bucket, Entry, Header, Stats};
use crate::pass::in_turns;
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{NoArgs, decode, done, encode, errno, reply, stored};
use denc::{ByteStr, Bytes, Denc, denc_struct};
use types::UTime;
use types::errno::{EINVAL, ENOENT};

pub const METHODS: &[Method] = &[
    Method::writes("set_buckets_info", set),
    Method::writes("complete_stats_sync", complete_sync),
    Method::writes("remove_bucket", remove),
    Method::reads("list_buckets", list),
    Method::reads("get_header", get_header),
    Method::writes("reset_user_stats", reset),
    Method::writes("reset_user_stats2", reset2),
];

struct SetOp {
    entries: Vec<Entry>,
    /// Buckets that are not there are added; those that are keep their sums.
    add: bool,
    time: UTime,
}
denc_struct!(SetOp, v 1, compat 1, { entries, add, time });

/// The input of `complete_stats_sync` and `reset_user_stats`.
struct TimeOp {
    time: UTime,
}
denc_struct!(TimeOp, v 1, compat 1, { time });

struct RemoveOp {
    bucket: Bucket,
}
denc_struct!(RemoveOp, v 1, compat 1, { bucket });

struct ListOp {
    marker: ByteStr,
    entries_max: i32,
    end_marker: ByteStr,
}
denc_struct!(ListOp, v 2, compat 1, { marker, entries_max, [since 2] end_marker });

struct ListReply {
    entries: Vec<Entry>,
    marker: ByteStr,
    truncated: bool,
}
denc_struct!(ListReply, v 1, compat 1, { entries, marker, truncated });

struct HeaderReply {
    header: Header,
}
denc_struct!(HeaderReply, v 1, compat 1, { header });

struct Reset2Op {
    time: UTime,
    marker: ByteStr,
    /// Sums of the pages before. (Stock starts each page from zero.)
    stats: Stats,
}
denc_struct!(Reset2Op, v 1, compat 1, { time, marker, stats });

struct Reset2Reply {
    marker: ByteStr,
    stats: Stats,
    truncated: bool,
}
denc_struct!(Reset2Reply, v 1, compat 1, { marker, stats, truncated });

fn header(obj: &mut dyn ObjectView) -> ClsResult<Header> {
    let bytes = obj.omap_header()?;
    if bytes.is_empty() { Ok(Header::default()) } else { stored(&bytes) }
}

fn entry(obj: &mut dyn ObjectView, name: &ByteStr) -> ClsResult<Option<Entry>> {
    if name.is_empty() {
        return errno(EINVAL);
    }
    match obj.omap_val(name.as_slice()) {
        Err(e) if e.is(ENOENT) => Ok(None),
        other => stored(&other?).map(Some),
    }
}

fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: SetOp = decode(&input)?;
    let mut header = header(obj)?;
    for update in op.entries {
        let name = update.bucket.name.clone();
        let mut entry = match entry(obj, &name)? {
            None if !op.add => continue,
            None => update.clone(),
            Some(mut entry) if op.add => {
                // The bucket may have been resharded, or made anew.
                entry.bucket.id = update.bucket.id.clone();
                entry.created = update.created;
                entry
            }
            Some(entry) => entry,
        };
        if entry.counted {
            header.stats.subtract(&entry);
        }
        if !op.add {
            (entry.size, entry.size_rounded, entry.count) = (update.size, update.size_rounded, update.count);
        }
        entry.counted = true;
        obj.omap_set(vec![(name, encode(&entry))])?;
        header.stats.add(&entry);
    }
    header.updated = header.updated.max(op.time);
    obj.omap_set_header(encode(&header))?;
    done()
}

fn complete_sync(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: TimeOp = decode(&input)?;
    let mut header = header(obj)?;
    header.synced = header.synced.max(op.time);
    obj.omap_set_header(encode(&header))?;
    done()
}

/// Removing what is not there is no error.
fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: RemoveOp = decode(&input)?;
    let mut header = header(obj)?;
    let Some(entry) = entry(obj, &op.bucket.name)? else { return done() };
    obj.omap_remove(vec![op.bucket.name])?;
    if entry.counted {
        header.stats.subtract(&entry);
        obj.omap_set_header(encode(&header))?;
    }
    done()
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    // A negative number is a huge one.
    let (page, truncated) = obj.omap_vals(op.marker.as_slice(), b"", LIST_MAX.min(op.entries_max as u64))?;
    let mut answer = ListReply { entries: Vec::with_capacity(page.len()), marker: ByteStr::new(), truncated };
    let mut last = ByteStr::new();
    for (name, value) in page {
        if !op.end_marker.is_empty() && name >= op.end_marker {
            answer.truncated = false;
            break;
        }
        // What is no entry is passed over, so that it hides nothing behind it.
        answer.entries.extend(Entry::from_bytes(&value));
        last = name;
    }
    if answer.truncated {
        answer.marker = last;
    }
    reply(&answer)
}

fn get_header(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    decode::<NoArgs>(&input)?;
    reply(&HeaderReply { header: header(obj)? })
}

/// Adds up a page of buckets: the name of the last, and whether more follow.
fn sum(obj: &mut dyn ObjectView, after: &ByteStr, stats: &mut Stats) -> ClsResult<(Option<ByteStr>, bool)> {
    let (page, more) = obj.omap_vals(after.as_slice(), b"", LIST_MAX)?;
    for (_, value) in &page {
        stats.add(&stored(value)?);
    }
    Ok((page.into_iter().next_back().map(|(name, _)| name), more))
}

fn reset(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: TimeOp = decode(&input)?;
    let (_, stats) = in_turns(obj, |obj, (after, stats): &mut (ByteStr, Stats)| {
        let (last, more) = sum(obj, after, stats)?;
        *after = last.unwrap_or_default().detach();
        Ok(more)
    })?;
    obj.omap_set_header(encode(&Header { stats, updated: op.time, ..Header::default() }))?;
    done()
}

/// The same in pieces: the caller comes back with the marker until nothing is left.
fn reset2(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: Reset2Op = decode(&input)?;
    let mut stats = op.stats;
    let (last, truncated) = sum(obj, &op.marker, &mut stats)?;
    if !truncated {
        obj.omap_set_header(encode(&Header { stats: stats.clone(), updated: op.time, ..Header::default() }))?;
    }
    reply(&Reset2Reply { marker: last.filter(|_| truncated).unwrap_or_default(), stats, truncated })
}
