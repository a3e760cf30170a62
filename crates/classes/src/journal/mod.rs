//! Class `journal`: what librbd's journals keep in the omap of their header object, and appends to the objects with their data.
//!
//! This file has the header's numbers and the appends; [`clients`] those that read and trim the journal, [`tags`] the epochs of its entries.
//!
//! Source of the formats, errnos and rules: Ceph 18.2 `src/cls/journal/*`.

mod clients;
mod records;
mod tags;

use crate::registry::{Class, Method};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, decode, done, encode, errno, reply};
use denc::{ByteStr, Bytes, Denc};
use types::errno::{EEXIST, EINVAL, ENOENT, EOVERFLOW, ESTALE};

pub static CLASS: Class = Class { name: "journal", families: &[HEADER_METHODS, clients::METHODS, tags::METHODS, DATA_METHODS] };

const HEADER_METHODS: &[Method] = &[
    Method::writes("create", create),
    Method::reads("get_order", |obj, _| reply(&load::<u8>(obj, ORDER)?)),
    Method::reads("get_splay_width", |obj, _| reply(&load::<u8>(obj, SPLAY_WIDTH)?)),
    Method::reads("get_pool_id", |obj, _| reply(&load::<i64>(obj, POOL_ID)?)),
    Method::reads("get_minimum_set", |obj, _| reply(&load::<u64>(obj, MINIMUM_SET)?)),
    Method::writes("set_minimum_set", set_minimum_set),
    Method::reads("get_active_set", |obj, _| reply(&load::<u64>(obj, ACTIVE_SET)?)),
    Method::writes("set_active_set", set_active_set),
    Method::reads("get_next_tag_tid", |obj, _| reply(&load::<u64>(obj, NEXT_TAG_TID)?)),
];

const DATA_METHODS: &[Method] = &[Method::writes("guard_append", guard_append), Method::writes("append", append)];

/// Bits of the size of a data object.
const ORDER: &[u8] = b"order";
/// Data objects that are written at a time.
const SPLAY_WIDTH: &[u8] = b"splay_width";
const POOL_ID: &[u8] = b"pool_id";
/// Sets of data objects: those from the minimum to the active one exist.
const MINIMUM_SET: &[u8] = b"minimum_set";
const ACTIVE_SET: &[u8] = b"active_set";
const NEXT_TAG_TID: &[u8] = b"next_tag_tid";
const NEXT_TAG_CLASS: &[u8] = b"next_tag_class";

/// Keys that a listing reads in one go.
const KEYS_PER_READ: u64 = 64;

/// `require_min_compat_client` from which on readers of data objects pass over padding.
const OCTOPUS: u8 = 15;
/// What data objects are padded to: our stores have no larger unit that a smaller append would have to read first.
const PADDING: u64 = 8;

/// The value under `key`: ENOENT without one, EINVAL if it is not a `T`.
fn load<T: Denc>(obj: &mut dyn ObjectView, key: &[u8]) -> ClsResult<T> {
    let value = obj.omap_val(key)?;
    T::from_bytes(&value).map_err(|_| ClsError::Errno(EINVAL))
}

fn save<T: Denc>(obj: &mut dyn ObjectView, key: &[u8], value: &T) -> ClsResult<()> {
    obj.omap_set(vec![(ByteStr::from(key), encode(value))])
}

/// EEXIST if there is a value under `key`.
fn must_be_new(obj: &mut dyn ObjectView, key: &[u8]) -> ClsResult<()> {
    match obj.omap_val(key) {
        Err(e) if e.is(ENOENT) => Ok(()),
        Err(e) => Err(e),
        Ok(_) => errno(EEXIST),
    }
}

/// Every value whose key starts with `prefix`, in order, until `visit` says to stop with false.
fn each(obj: &mut dyn ObjectView, prefix: &[u8], mut visit: impl FnMut(&ByteStr, &Bytes) -> ClsResult<bool>) -> ClsResult<()> {
    // Before the first of them: the prefix alone is the key of the client with the empty id, which is the image itself.
    let mut last = ByteStr::new();
    loop {
        let (page, more) = obj.omap_vals(last.as_slice(), prefix, KEYS_PER_READ)?;
        for (key, value) in &page {
            if !visit(key, value)? {
                return Ok(());
            }
        }
        match page.into_iter().next_back() {
            Some((key, _)) if more => last = key,
            _ => return Ok(()),
        }
    }
}

fn create(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (order, splay_width, pool_id): (u8, u8, i64) = (input.get()?, input.get()?, input.get()?);
    must_be_new(obj, ORDER)?;
    save(obj, ORDER, &order)?;
    save(obj, SPLAY_WIDTH, &splay_width)?;
    save(obj, POOL_ID, &pool_id)?;
    for key in [ACTIVE_SET, MINIMUM_SET, NEXT_TAG_TID, NEXT_TAG_CLASS] {
        save(obj, key, &0_u64)?;
    }
    done()
}

/// Sets only go up: ESTALE for going back.
fn advance(obj: &mut dyn ObjectView, key: &[u8], set: u64) -> ClsResult<ClsReply> {
    let now: u64 = load(obj, key)?;
    if set < now {
        return errno(ESTALE);
    }
    if set > now {
        save(obj, key, &set)?;
    }
    done()
}

fn set_minimum_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let set = decode(&input)?;
    if load::<u64>(obj, ACTIVE_SET)? < set {
        return errno(EINVAL);
    }
    advance(obj, MINIMUM_SET, set)
}

fn set_active_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let set = decode(&input)?;
    if load::<u64>(obj, MINIMUM_SET)? > set {
        return errno(EINVAL);
    }
    advance(obj, ACTIVE_SET, set)
}

/// The object's size, 0 if there is none; EOVERFLOW if it has reached the limit.
fn room(obj: &mut dyn ObjectView, size_max: u64) -> ClsResult<u64> {
    match obj.stat() {
        Err(e) if e.is(ENOENT) => Ok(0),
        Err(e) => Err(e),
        Ok((size, _)) if size >= size_max => errno(EOVERFLOW),
        Ok((size, _)) => Ok(size),
    }
}

fn guard_append(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    room(obj, decode(&input)?)?;
    done()
}

fn append(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (size_max, data): (u64, Bytes) = (input.get()?, input.get()?);
    let size = match room(obj, size_max)? {
        0 if size_max == 0 => return errno(EOVERFLOW),
        size => size,
    };
    let end = size + data.len() as u64;
    obj.write(size, data)?;
    if obj.min_compat_client() >= OCTOPUS && !end.is_multiple_of(PADDING) {
        obj.truncate(end.next_multiple_of(PADDING))?;
    }
    done()
}
