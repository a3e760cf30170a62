//! Class `timeindex`: values in an object's omap under keys of a time and a text.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/timeindex/*`.

use crate::registry::{Class, Method};
use crate::time_key::{PREFIX, passes, reaches, time_prefix};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, errno, reply};
use denc::{ByteStr, Bytes, denc_struct};
use types::UTime;
use types::errno::ENODATA;

pub static CLASS: Class =
    Class { name: "timeindex", families: &[&[Method::writes("add", add), Method::reads("list", list), Method::writes("trim", trim)]] };

/// Entries in one answer, and that one call removes.
const ENTRIES_MAX: u64 = 1000;
/// Longer texts of a key are cut when they are listed.
const TEXT_MAX: usize = 255;

/// `cls_timeindex_entry`.
struct Entry {
    time: UTime,
    text: ByteStr,
    value: Bytes,
}
denc_struct!(Entry, v 1, compat 1, { time, text, value });

struct AddOp {
    entries: Vec<Entry>,
}
denc_struct!(AddOp, v 1, compat 1, { entries });

struct ListOp {
    from: UTime,
    /// Overrides `from`.
    marker: ByteStr,
    /// Not included; not looked at if it lies before `from`.
    to: UTime,
    entries_max: i32,
}
denc_struct!(ListOp, v 1, compat 1, { from, marker, to, entries_max });

struct ListReply {
    entries: Vec<Entry>,
    marker: ByteStr,
    truncated: bool,
}
denc_struct!(ListReply, v 1, compat 1, { entries, marker, truncated });

struct TrimOp {
    from: UTime,
    to: UTime,
    from_marker: ByteStr,
    to_marker: ByteStr,
}
denc_struct!(TrimOp, v 1, compat 1, { from, to, from_marker, to_marker });

impl Entry {
    fn key(&self) -> Vec<u8> {
        [&time_prefix(self.time), self.text.as_slice()].concat()
    }
    /// The entry of a key; None if the key is none of ours. The microseconds come back where nanoseconds stand, as from stock.
    fn parse(key: &[u8], value: Bytes) -> Option<Self> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix("1_")?;
        let (time, text) = rest.split_once('_')?;
        let (sec, micros) = time.split_once('.')?;
        let text = text.split(char::is_whitespace).next().unwrap_or_default();
        let text = &text.as_bytes()[..text.len().min(TEXT_MAX)];
        Some(Self { time: UTime { sec: sec.parse().ok()?, nsec: micros.parse().ok()? }, text: text.into(), value })
    }
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: AddOp = decode(&input)?;
    obj.omap_set(op.entries.into_iter().map(|entry| (entry.key().into(), entry.value)).collect())?;
    done()
}

fn start(time: UTime, marker: &ByteStr) -> Vec<u8> {
    if marker.is_empty() { time_prefix(time) } else { marker.as_slice().to_vec() }
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let end = (op.to >= op.from).then(|| time_prefix(op.to));
    // A negative number is a huge one.
    let (page, truncated) = obj.omap_vals(&start(op.from, &op.marker), PREFIX, ENTRIES_MAX.min(op.entries_max as u64))?;
    let mut answer = ListReply { entries: Vec::with_capacity(page.len()), marker: ByteStr::new(), truncated };
    for (key, value) in page {
        if end.as_ref().is_some_and(|end| reaches(key.as_slice(), end)) {
            answer.truncated = false;
            break;
        }
        answer.entries.extend(Entry::parse(key.as_slice(), value));
        answer.marker = key;
    }
    reply(&answer)
}

/// ENODATA when nothing is left: callers repeat it until then.
fn trim(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: TrimOp = decode(&input)?;
    let end = start(op.to, &op.to_marker);
    let (page, _) = obj.omap_vals(&start(op.from, &op.from_marker), PREFIX, ENTRIES_MAX)?;
    let gone: Vec<ByteStr> = page.into_iter().map(|(key, _)| key).take_while(|key| !passes(key.as_slice(), &end)).collect();
    if gone.is_empty() {
        return errno(ENODATA);
    }
    obj.omap_remove(gone)?;
    done()
}
