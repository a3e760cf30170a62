//! The entries of an index as they stand, for calls that move or mend it.

use super::PAGE_MAX;
use super::entry::Entry;
use super::header::{Header, Sums};
use super::keys::{INSTANCES, NOTES, OLHS, ObjKey, SPECIAL, SPECIAL_END};
use super::olh::Olh;
use super::resharding::Deleted;
use crate::pass::in_turns;
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView, ValPage};
use crate::wire::{decode, done, errno, reply, stored};
use denc::{ByteStr, Bytes, denc_struct};
use std::collections::BTreeMap;
use types::errno::{E2BIG, EINVAL};

pub const METHODS: &[Method] = &[
    Method::reads("bi_get", get),
    Method::writes("bi_put", put),
    Method::writes("bi_put_entries", put_entries),
    Method::reads("bi_list", list),
];

/// Entries that one call puts. Source: Ceph 20.2's default of `osd_max_omap_entries_per_request`.
const ENTRIES_MAX: usize = 131_072;

/// `BIIndexType`.
pub mod kind {
    /// Of notes of entries that were written: their keys tell the kind.
    pub const NONE: u8 = 0;
    pub const PLAIN: u8 = 1;
    pub const INSTANCE: u8 = 2;
    pub const OLH: u8 = 3;
    /// No entry: what stands at that key goes.
    pub const DELETED: u8 = 4;
}

/// `rgw_cls_bi_entry`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    pub kind: u8,
    pub key: ByteStr,
    pub value: Bytes,
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
    /// What was noted while the index moves, not what stands in it.
    notes: bool,
}
denc_struct!(ListOp, v 2, compat 1, { entries_max, name, marker, [since 2] notes });

/// `rgw_cls_bi_put_entries_op`.
pub struct PutOp {
    entries: Vec<Raw>,
    /// What stands at the keys is taken out of the sums first.
    discount: bool,
}
denc_struct!(PutOp, v 1, compat 1, { entries, discount });

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
    if op.entry.kind == kind::DELETED {
        obj.omap_remove(vec![op.entry.key])?;
    } else {
        obj.omap_set(vec![(op.entry.key, op.entry.value)])?;
    }
    done()
}

/// The kind of what stands at a key.
fn kind_of(key: &[u8]) -> u8 {
    if key.starts_with(INSTANCES) {
        kind::INSTANCE
    } else if key.starts_with(OLHS) {
        kind::OLH
    } else if key.first() != Some(&SPECIAL) || key > SPECIAL_END {
        kind::PLAIN
    } else {
        kind::NONE
    }
}

impl Raw {
    /// What the sums have of it, with its category; None if they have nothing. EINVAL if it is garbage.
    fn sums(&self) -> ClsResult<Option<(u8, Sums)>> {
        let entry: Entry = match self.kind {
            kind::OLH => return decode::<Olh>(&self.value).map(|_| None),
            kind::DELETED => return decode::<Deleted>(&self.value).map(|_| None),
            _ => decode(&self.value)?,
        };
        let counts = entry.exists && (self.kind == kind::INSTANCE || self.kind == kind::PLAIN && entry.flags == 0);
        Ok(counts.then(|| (entry.meta.category, Sums::of(&entry.meta))))
    }
}

/// Entries of an index that moves come to their new place, and into its sums.
fn put_entries(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: PutOp = decode(&input)?;
    if op.entries.len() > ENTRIES_MAX {
        return errno(E2BIG);
    }
    let mut header = Header::load_to_write(obj)?;
    if op.discount {
        let keys: Vec<ByteStr> = op.entries.iter().map(|entry| entry.key.clone()).collect();
        for (key, value) in obj.omap_vals_by_keys(&keys)? {
            if let Some((category, sums)) = (Raw { kind: kind_of(key.as_slice()), key, value }).sums()? {
                header.sums(category).take(&sums);
            }
        }
    }
    let (mut gone, mut new) = (Vec::new(), BTreeMap::new());
    for entry in op.entries {
        if entry.kind == kind::DELETED {
            gone.push(entry.key);
            continue;
        }
        if let Some((category, sums)) = entry.sums()? {
            header.sums(category).add(&sums);
        }
        // Of two at one key the first stays.
        new.entry(entry.key).or_insert(entry.value);
    }
    obj.omap_remove(gone)?;
    obj.omap_set(new.into_iter().collect())?;
    header.store(obj)?;
    done()
}

/// Up to `max` notes behind the marker, a key of the index.
fn list_notes(obj: &mut dyn ObjectView, op: &ListOp) -> ClsResult<ClsReply> {
    let after = [NOTES, op.marker.as_slice()].concat();
    let (page, truncated) = obj.omap_vals(&after, NOTES, u64::from(op.entries_max).min(PAGE_MAX))?;
    let mut entries: Vec<Raw> = page.iter().map(|(_, value)| stored(value)).collect::<ClsResult<_>>()?;
    for entry in &mut entries {
        if entry.kind != kind::DELETED {
            entry.kind = kind_of(entry.key.as_slice());
        }
    }
    reply(&ListReply { entries, truncated })
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
    if op.notes {
        return list_notes(obj, &op);
    }
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
