//! Class `log`: entries in an object's omap, in the order of their time.
//!
//! Source of the encodings, errnos and rules: Ceph 18.2 `src/cls/log/*`.

use crate::registry::{Class, Method};
use crate::rest::{Rest, kept};
use crate::time_key::{PREFIX, reaches, time_prefix};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{NoArgs, decode, done, encode, errno, reply};
use denc::{ByteStr, Bytes, Denc, denc_struct};
use types::UTime;
use types::errno::ENODATA;

pub static CLASS: Class = Class {
    name: "log",
    families: &[&[Method::writes("add", add), Method::reads("list", list), Method::writes("trim", trim), Method::reads("info", info)]],
};

/// Entries in one answer.
const LIST_MAX: u64 = 1000;

/// `cls_log_entry`.
#[derive(Default)]
struct Entry {
    section: ByteStr,
    name: ByteStr,
    timestamp: UTime,
    data: Bytes,
    /// The entry's key.
    id: ByteStr,
    pub rest: Rest,
}
kept!(Entry, v 2, compat 1, { section, name, timestamp, data, [since 2] id });

/// `cls_log_header`: the omap's header.
#[derive(Default)]
struct Header {
    max_marker: ByteStr,
    max_time: UTime,
    pub rest: Rest,
}
kept!(Header, v 1, compat 1, { max_marker, max_time });

struct AddOp {
    entries: Vec<Entry>,
    /// No entry's key may lie before the newest time so far.
    monotonic: Monotonic,
}
denc_struct!(AddOp, v 2, compat 1, { entries, [since 2] monotonic });

/// True unless said otherwise.
struct Monotonic {
    on: bool,
}
denc_struct!(Monotonic, bare, { on });
impl Default for Monotonic {
    fn default() -> Self {
        Self { on: true }
    }
}

struct ListOp {
    from: UTime,
    /// Overrides `from`.
    marker: ByteStr,
    /// Not included; not looked at without `from`.
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
    /// Included.
    to: UTime,
    from_marker: ByteStr,
    to_marker: ByteStr,
}
denc_struct!(TrimOp, v 2, compat 1, { from, to, [since 2] from_marker, [since 2] to_marker });

struct InfoReply {
    header: Header,
}
denc_struct!(InfoReply, v 1, compat 1, { header });

fn header(obj: &mut dyn ObjectView) -> ClsResult<Header> {
    let bytes = obj.omap_header()?;
    // What is no header of a log is none, as on stock.
    Ok(Header::from_bytes(&bytes).unwrap_or_default())
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: AddOp = decode(&input)?;
    let mut header = header(obj)?;
    for mut entry in op.entries {
        let mut time = entry.timestamp;
        if time > header.max_time {
            header.max_time = time;
        } else if op.monotonic.on {
            time = header.max_time;
        }
        if entry.id.is_empty() {
            // Entries of one time are told apart by the operation that wrote them.
            let unique = format!("{}.{}", obj.version(), obj.subop());
            entry.id = [time_prefix(time), unique.into_bytes()].concat().into();
        }
        header.max_marker = header.max_marker.max(entry.id.clone());
        obj.omap_set(vec![(entry.id.clone(), encode(&entry))])?;
    }
    obj.omap_set_header(encode(&header))?;
    done()
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let start = if op.marker.is_empty() { time_prefix(op.from) } else { op.marker.as_slice().to_vec() };
    let end = (!op.from.is_zero() && op.to >= op.from).then(|| time_prefix(op.to));
    let max = match op.entries_max {
        0 => LIST_MAX,
        // A negative number is a huge one.
        n => LIST_MAX.min(n as u64),
    };
    let (page, truncated) = obj.omap_vals(&start, PREFIX, max)?;
    let mut answer = ListReply { entries: Vec::with_capacity(page.len()), marker: ByteStr::new(), truncated };
    for (key, value) in page {
        answer.marker = key.clone();
        if end.as_ref().is_some_and(|end| reaches(key.as_slice(), end)) {
            answer.truncated = false;
            break;
        }
        // What is no entry is passed over, so that it hides nothing behind it.
        answer.entries.extend(Entry::from_bytes(&value));
    }
    reply(&answer)
}

/// ENODATA when nothing is left: callers repeat it until then.
fn trim(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: TrimOp = decode(&input)?;
    let start = if op.from_marker.is_empty() { time_prefix(op.from) } else { op.from_marker.as_slice().to_vec() };
    let end = if op.to_marker.is_empty() {
        time_prefix(UTime::from_wall_ns(op.to.wall_ns().saturating_add(1000)))
    } else {
        [op.to_marker.as_slice(), b"\0"].concat()
    };
    match obj.omap_keys(&start, 1)?.0.first() {
        Some(first) if first.as_slice() < &end[..] => {
            obj.omap_remove_range(first.as_slice(), &end)?;
            done()
        }
        _ => errno(ENODATA),
    }
}

fn info(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    decode::<NoArgs>(&input)?;
    reply(&InfoReply { header: header(obj)? })
}
