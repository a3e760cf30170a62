//! A part: a header, and entries behind it until it is full.

use super::reader::Reader;
use super::records::{ENTRY_OVERHEAD, ENTRY_PREFIX, EntryHeader, Listed, PART_HEADER_SIZE, Params, PartHeader};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{NoArgs, decode, done, encode, errno, reply, stored};
use denc::{ALL_FEATURES, ByteStr, Bytes, Encoder, denc_struct};
use types::errno::{EEXIST, EFAULT, EINVAL, EIO, ENOENT, ERANGE};

pub const METHODS: &[Method] = &[
    Method::writes("init_part", init),
    Method::writes("push_part", push),
    Method::writes("trim_part", trim),
    Method::reads("part_list", list),
    Method::reads("get_part_info", info),
];

/// Entries in one answer.
const LIST_MAX: i32 = 512;
/// A listing's answer ends behind the entry that passes this.
const LIST_MAX_BYTES: u64 = 32 << 20;

struct InitOp {
    tag: ByteStr,
    params: Params,
}
denc_struct!(InitOp, v 1, compat 1, { tag, params });

struct PushOp {
    tag: ByteStr,
    entries: Vec<Bytes>,
    bytes: u64,
}
denc_struct!(PushOp, v 1, compat 1, { tag, entries, bytes });

struct TrimOp {
    tag: Option<ByteStr>,
    offset: u64,
    /// The entry at `offset` stays.
    exclusive: bool,
}
denc_struct!(TrimOp, v 1, compat 1, { tag, offset, exclusive });

struct ListOp {
    tag: Option<ByteStr>,
    /// Of the last entry that the caller has seen.
    offset: u64,
    entries_max: i32,
}
denc_struct!(ListOp, v 1, compat 1, { tag, offset, entries_max });

struct ListReply {
    tag: ByteStr,
    entries: Vec<Listed>,
    more: bool,
    full: bool,
}
denc_struct!(ListReply, v 1, compat 1, { tag, entries, more, full });

struct InfoReply {
    header: PartHeader,
}
denc_struct!(InfoReply, v 1, compat 1, { header });

fn load(obj: &mut dyn ObjectView) -> ClsResult<PartHeader> {
    stored(&obj.read(0, PART_HEADER_SIZE)?)
}

fn store(obj: &mut dyn ObjectView, header: &PartHeader) -> ClsResult<()> {
    let bytes = encode(header);
    if bytes.len() as u64 > PART_HEADER_SIZE { errno(EIO) } else { obj.write(0, bytes) }
}

/// A part that is there already must be of the same sizes.
fn init(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: InitOp = decode(&input)?;
    match obj.stat() {
        Err(e) if e.is(ENOENT) => {}
        Err(e) => return Err(e),
        Ok((0, _)) => {}
        Ok(_) => return if load(obj)?.params == op.params { done() } else { errno(EEXIST) },
    }
    let mut magic = [0; 8];
    obj.random(&mut magic);
    let header = PartHeader {
        params: op.params,
        magic: u64::from_le_bytes(magic),
        first: PART_HEADER_SIZE,
        next: PART_HEADER_SIZE,
        time_max: obj.now(),
        ..PartHeader::default()
    };
    store(obj, &header)?;
    done()
}

/// Answers how many of the entries the part has taken; ERANGE if it is full.
fn push(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: PushOp = decode(&input)?;
    let mut part = load(obj)?;
    let bytes: u64 = op.entries.iter().map(|data| data.len() as u64).sum();
    let with_overhead = bytes.saturating_add(op.entries.len() as u64 * ENTRY_OVERHEAD);
    if with_overhead > part.params.part_size_max {
        return errno(EINVAL);
    }
    if part.is_full() {
        return errno(ERANGE);
    }
    if bytes != op.bytes {
        return errno(EINVAL);
    }
    let now = obj.now();
    let header = encode(&EntryHeader { time: now });
    let start = part.next;
    let mut e = Encoder::with_capacity(ALL_FEATURES, with_overhead as usize);
    let mut pushed = 0;
    for data in &op.entries {
        if part.is_full() {
            break;
        }
        for word in [part.magic, ENTRY_PREFIX, header.len() as u64, data.len() as u64, part.index_next] {
            e.u64(word);
        }
        e.u32(0);
        e.raw(&header);
        e.raw(data);
        pushed += 1;
        part.last = part.next;
        part.index_next = part.index_next.wrapping_add(1);
        let Some(next) = start.checked_add(e.len() as u64) else { return errno(EIO) };
        part.next = next;
    }
    if pushed == 0 {
        return errno(EFAULT);
    }
    part.time_max = now;
    obj.write(start, e.finish())?;
    store(obj, &part)?;
    Ok(ClsReply { code: pushed, data: Bytes::new() })
}

/// Removes the entries up to one; a full part goes whole when nothing of it is left.
fn trim(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: TrimOp = decode(&input)?;
    let mut part = load(obj)?;
    if op.offset < part.first || (op.exclusive && op.offset == part.first) {
        return done();
    }
    if op.offset >= part.next {
        if part.is_full() {
            obj.remove()?;
            return done();
        }
        (part.first, part.index_first) = (part.next, part.index_next);
    } else {
        let mut reader = Reader::new(&part, op.offset);
        let index = reader.prefix(obj)?.index;
        let index_first = if op.exclusive {
            index
        } else {
            reader.skip(obj)?;
            index.wrapping_add(1)
        };
        (part.first, part.index_first) = (reader.offset(), index_first);
    }
    store(obj, &part)?;
    done()
}

/// Entries behind the one at an offset; from the first on if the offset lies before it.
fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let part = load(obj)?;
    let mut reader = Reader::new(&part, op.offset);
    if op.offset >= part.first && !reader.at_end() {
        reader.skip(obj)?;
    }
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while (entries.len() as i32) < op.entries_max.min(LIST_MAX) && bytes < LIST_MAX_BYTES && !reader.at_end() {
        let entry = reader.entry(obj)?;
        bytes += entry.data.len() as u64;
        entries.push(entry);
    }
    reply(&ListReply { tag: ByteStr::new(), entries, more: !reader.at_end(), full: part.is_full() })
}

fn info(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    decode::<NoArgs>(&input)?;
    reply(&InfoReply { header: load(obj)? })
}
