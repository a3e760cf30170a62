//! The listing of a bucket: objects, or versions, in the order of their names.
//!
//! A call costs what it may return, not what the index holds: it reads eight pages, none larger than what the answer has still room for. What lies
//! behind a delimiter is passed over as far as a page shows it, and the next page starts behind all of it.

use super::entry::{COMMON_PREFIX, Entry, VERSIONED};
use super::header::Header;
use super::keys::{ObjKey, SPECIAL_END, is_special, listed_name};
use super::record;
use super::version::read_version;
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView, ValPage};
use crate::wire::{decode, encode};
use denc::{ByteStr, Bytes};
use std::collections::BTreeMap;
use types::errno::EFBIG;

pub const METHODS: &[Method] = &[Method::reads("bucket_list", list)];

/// Pages of the omap that one call reads.
const PAGES_MAX: u32 = 8;
/// Sorts behind whatever a UTF-8 text can go on with.
const BEHIND_ALL: u8 = 0xff;

/// `rgw_cls_list_op`.
pub struct ListOp {
    entries_max: u32,
    prefix: ByteStr,
    start: ObjKey,
    versions: bool,
    delimiter: ByteStr,
}
record!(ListOp, v 6, compat 4, oldest 4, { entries_max, prefix, start, [since 5] versions, [since 6] delimiter });

/// `rgw_bucket_dir`.
pub struct Dir {
    header: Header,
    entries: BTreeMap<ByteStr, Entry>,
}
record!(Dir, v 2, compat 2, oldest 2, { header, entries });

/// `rgw_cls_list_ret`.
pub struct ListReply {
    dir: Dir,
    truncated: bool,
    /// Where to go on, if truncated.
    marker: ObjKey,
}
record!(ListReply, v 4, compat 2, oldest 2, { dir, truncated, [since 4] marker });

/// A page of keys that are objects': the special ones are jumped over, wherever they begin in it.
pub fn plain_page(obj: &mut dyn ObjectView, after: &[u8], prefix: &[u8], max: u64) -> ClsResult<ValPage> {
    let (mut page, mut more) = obj.omap_vals(after, prefix, max)?;
    let before = page.partition_point(|(key, _)| key.as_slice() < SPECIAL_END && !is_special(key.as_slice()));
    let behind = page.partition_point(|(key, _)| key.as_slice() < SPECIAL_END || is_special(key.as_slice()));
    page.drain(before..behind);
    if behind > before && more {
        let from = page.last().map_or(SPECIAL_END, |(last, _)| last.as_slice().max(SPECIAL_END)).to_vec();
        let (rest, rest_more) = obj.omap_vals(&from, prefix, max - page.len() as u64)?;
        page.extend(rest.into_iter().filter(|(key, _)| !is_special(key.as_slice())));
        more = rest_more;
    }
    Ok((page, more))
}

/// Behind which key the listing starts.
fn start_key(obj: &mut dyn ObjectView, op: &ListOp) -> ClsResult<Vec<u8>> {
    let key = &op.start;
    let mut start = if key.instance.is_empty() {
        key.name.as_slice().to_vec()
    } else {
        match read_version(obj, key)? {
            Some(entry) => entry.list_key().as_slice().to_vec(),
            // It is gone: behind the object and all of its versions.
            None => [key.name.as_slice(), &[1]].concat(),
        }
    };
    let delimiter = op.delimiter.as_slice();
    if !delimiter.is_empty() && start.as_slice() > op.prefix.as_slice() && start.ends_with(delimiter) {
        start.push(BEHIND_ALL);
    }
    Ok(start)
}

/// What a name begins with up to the delimiter behind the prefix, if it has one there.
fn common_prefix<'a>(name: &'a [u8], prefix: &[u8], delimiter: &[u8]) -> Option<&'a [u8]> {
    if delimiter.is_empty() {
        return None;
    }
    let found = name.get(prefix.len()..)?.windows(delimiter.len()).position(|w| w == delimiter)?;
    Some(&name[..prefix.len() + found + delimiter.len()])
}

/// A listing as it grows.
struct Listing<'a> {
    op: &'a ListOp,
    entries: BTreeMap<ByteStr, Entry>,
    /// The last key that was looked at, or what is behind all that begin with a common prefix.
    at: Vec<u8>,
    marker: ObjKey,
}

impl Listing<'_> {
    fn look_at(&mut self, key: ByteStr, value: &Bytes) -> ClsResult<()> {
        let entry: Entry = decode(value)?;
        self.at = key.as_slice().to_vec();
        self.marker = entry.key.clone();
        let name = listed_name(&key);
        if entry.has(VERSIONED) || (!self.op.versions && (!entry.is_visible() || name == self.op.start.name.as_slice())) {
            return Ok(());
        }
        let Some(common) = common_prefix(name, self.op.prefix.as_slice(), self.op.delimiter.as_slice()) else {
            self.entries.insert(key, entry);
            return Ok(());
        };
        let common_key = ObjKey { name: common.into(), ..ObjKey::default() };
        self.at = [common, &[BEHIND_ALL]].concat();
        self.marker = ObjKey { name: self.at.clone().into(), ..ObjKey::default() };
        self.entries.insert(common.into(), Entry { key: common_key, flags: COMMON_PREFIX, ..Entry::default() });
        Ok(())
    }
}

/// EFBIG with an answer that holds only a marker, where the pages that were read show nothing and more follow: the caller goes on there.
fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: ListOp = decode(&input)?;
    let header = Header::load(obj)?;
    let at = if op.entries_max == 0 { Vec::new() } else { start_key(obj, &op)? };
    let mut listing = Listing { op: &op, entries: BTreeMap::new(), at, marker: ObjKey::default() };
    let mut more = op.entries_max > 0;
    for _ in 0..PAGES_MAX {
        let room = u64::from(op.entries_max).saturating_sub(listing.entries.len() as u64);
        if !more || room == 0 {
            break;
        }
        let from = listing.at.clone();
        let (page, page_more) = plain_page(obj, &from, op.prefix.as_slice(), room)?;
        more = page_more && !page.is_empty();
        for (key, value) in page {
            if key.as_slice() > listing.at.as_slice() {
                listing.look_at(key, &value)?;
            }
        }
    }
    let Listing { entries, marker, .. } = listing;
    let nothing = more && entries.is_empty();
    let marker = if more { marker } else { ObjKey::default() };
    let answer = ListReply { dir: Dir { header, entries }, truncated: more, marker };
    Ok(ClsReply { code: if nothing { -EFBIG } else { 0 }, data: encode(&answer) })
}
