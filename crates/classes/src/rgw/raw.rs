//! The entries of an index as they stand, for calls that move or mend it.

use super::PAGE_MAX;
use super::entry::Entry;
use super::keys::{INSTANCES, OLHS, ObjKey, SPECIAL, SPECIAL_END};
use super::olh::Olh;
use crate::pass::in_turns;
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView, ValPage};
use crate::wire::{decode, done, errno, reply, stored};
use denc::{ByteStr, Bytes, denc_struct};
use types::errno::EINVAL;

pub const METHODS: &[Method] = &[Method::reads("bi_get", get), Method::writes("bi_put", put), Method::reads("bi_list", list)];

/// `BIIndexType`.
mod kind {
    pub const PLAIN: u8 = 1;
    pub const INSTANCE: u8 = 2;
    pub const OLH: u8 = 3;
}

/// `rgw_cls_bi_entry`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    kind: u8,
    key: ByteStr,
    value: Bytes,
}
denc_struct!(Raw, v 1, compat 1, { kind, key, value });

/// `rgw_cls_bi_get_op`.
pub struct GetOp {
    key: ObjKey,
    kind: u8,
}
denc_struct!(GetOp, v 1, compat 1, { key, kind });

/// `rgw_cls_bi_get_ret` and `rgw_cls_bi_put_op`.
pub struct One {
    entry: Raw,
}
denc_struct!(One, v 1, compat 1, { entry });

/// `rgw_cls_bi_list_op`.
pub struct ListOp {
    entries_max: u32,
    /// Only what is of that object; empty for all.
    name: ByteStr,
    /// The key behind which to begin.
    marker: ByteStr,
}
denc_struct!(ListOp, v 1, compat 1, { entries_max, name, marker });

/// `rgw_cls_bi_list_ret`.
pub struct ListReply {
    entries: Vec<Raw>,
    truncated: bool,
}
denc_struct!(ListReply, v 1, compat 1, { entries, truncated });

fn get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: GetOp = decode(&input)?;
    let key = match op.kind {
        kind::PLAIN => op.key.name,
        kind::INSTANCE => op.key.index_key(),
        kind::OLH => op.key.olh_key(),
        _ => return errno(EINVAL),
    };
    let value = obj.omap_val(key.as_slice())?;
    reply(&One { entry: Raw { kind: op.kind, key, value } })
}

fn put(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: One = decode(&input)?;
    obj.omap_set(vec![(op.entry.key, op.entry.value)])?;
    done()
}

/// A part of the index whose keys follow each other.
struct Part {
    kind: u8,
    /// Its keys begin with this.
    prefix: Vec<u8>,
    /// Its keys are behind this.
    after: &'static [u8],
    /// Its keys are before this; empty for no end.
    end: &'static [u8],
}

/// The parts in the order of their keys, as far as they can have something of an object.
fn parts(name: &[u8]) -> [Part; 4] {
    let instances = if name.is_empty() { INSTANCES.to_vec() } else { [INSTANCES, name, b"\0i"].concat() };
    [
        Part { kind: kind::PLAIN, prefix: name.to_vec(), after: b"", end: &[SPECIAL] },
        Part { kind: kind::INSTANCE, prefix: instances, after: b"", end: b"" },
        Part { kind: kind::OLH, prefix: [OLHS, name].concat(), after: b"", end: b"" },
        Part { kind: kind::PLAIN, prefix: name.to_vec(), after: SPECIAL_END, end: b"" },
    ]
}

impl Part {
    /// Up to `max` of its keys behind `marker`; whether more follow.
    fn page(&self, obj: &mut dyn ObjectView, marker: &[u8], max: u64) -> ClsResult<ValPage> {
        if !self.end.is_empty() && marker >= self.end {
            return Ok((Vec::new(), false));
        }
        let (mut page, mut more) = obj.omap_vals(marker.max(self.after), &self.prefix, max)?;
        if !self.end.is_empty() {
            let inside = page.partition_point(|(key, _)| key.as_slice() < self.end);
            more &= inside == page.len();
            page.truncate(inside);
        }
        Ok((page, more))
    }
    /// The name in a value; EIO if the value is garbage.
    fn name(&self, value: &Bytes) -> ClsResult<ByteStr> {
        if self.kind == kind::OLH { Ok(stored::<Olh>(value)?.key.name) } else { Ok(stored::<Entry>(value)?.key.name) }
    }
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let max = u64::from(op.entries_max).min(PAGE_MAX);
    let mut answer = ListReply { entries: Vec::new(), truncated: false };
    for part in parts(op.name.as_slice()) {
        // Without room for any, it is still seen whether there is one.
        let (page, more) = part.page(obj, op.marker.as_slice(), max - answer.entries.len() as u64)?;
        let mut ended = false;
        for (key, value) in page {
            let name = part.name(&value)?;
            // Names that go on behind the one that is meant are in the same place.
            ended = !op.name.is_empty() && name != op.name;
            if ended {
                break;
            }
            answer.entries.push(Raw { kind: part.kind, key, value });
        }
        if more && !ended {
            answer.truncated = true;
            break;
        }
    }
    reply(&answer)
}

/// How far a pass over all entries has come.
#[derive(Clone, Default)]
struct Pass<S> {
    part: usize,
    /// The last key of that part.
    after: ByteStr,
    sum: S,
}

/// Sums up every entry of the objects' and of the versions', by its own kind, one page after the other.
pub fn sum_of_entries<S: Default + Clone + Send + 'static>(
    obj: &mut dyn ObjectView,
    mut add: impl FnMut(&mut S, bool, Entry),
) -> ClsResult<S> {
    let parts = parts(b"");
    let pass = in_turns(obj, |obj, pass: &mut Pass<S>| {
        let part = &parts[pass.part];
        let (page, more) = if part.kind == kind::OLH { (Vec::new(), false) } else { part.page(obj, pass.after.as_slice(), PAGE_MAX)? };
        for (_, value) in &page {
            add(&mut pass.sum, part.kind == kind::INSTANCE, stored(value)?);
        }
        pass.after = match page.into_iter().next_back() {
            Some((last, _)) if more => last.detach(),
            _ => {
                pass.part += 1;
                ByteStr::new()
            }
        };
        Ok(pass.part < parts.len())
    })?;
    Ok(pass.sum)
}
