//! The object map: two bits an object of the image, packed, with checksums.
//!
//! ```text
//! u32 14 │ frame 1,1: u64 objects │ data, 4 objects a byte, the first in the highest bits │ u32 length │ u32 crc of the header's frame │
//!        │ u32 blocks │ a crc for each 4096 bytes of data
//! ```
//! An update reads and writes only the blocks that it touches. Readers that get the map over the wire get it with an empty footer.

use super::{reads, writes};
use crate::registry::Method;
use crate::rest::Rest;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, decode, errno};
use base::crc32c;
use bytes::Bytes;
use denc::{Decoder, Denc, DencError, Encoder};
use types::errno::{EINVAL, ENOENT, ERANGE, ESTALE};

pub const METHODS: &[Method] = &[
    reads("object_map_load", |obj, _| Ok(read(obj)?.encoded(false).into())),
    writes("object_map_save", |obj, input| write(obj, &decode(&input)?)),
    writes("object_map_resize", resize),
    writes("object_map_update", update),
    writes("object_map_snap_add", snap_add),
    writes("object_map_snap_remove", snap_remove),
];

/// States of an object.
const EXISTS: u8 = 1;
const EXISTS_CLEAN: u8 = 3;

/// Objects that a map may have.
const OBJECTS_MAX: u64 = 256_000_000;
const HEADER: u64 = 18;
const BLOCK: u64 = 4096;
const PER_BYTE: u64 = 4;

#[derive(Default)]
struct ObjectMap {
    objects: u64,
    data: Vec<u8>,
    /// Of its header.
    rest: Rest,
}

fn header(objects: u64, rest: &Rest) -> Bytes {
    let mut e = Encoder::new(0);
    rest.frame(&mut e, 1, 1, |e| e.u64(objects));
    e.finish()
}

fn shift(object: u64) -> u32 {
    (6 - 2 * (object % PER_BYTE)) as u32
}

fn get(data: &[u8], object: u64) -> u8 {
    data[(object / PER_BYTE) as usize] >> shift(object) & 3
}

fn put(data: &mut [u8], object: u64, state: u8) {
    let byte = &mut data[(object / PER_BYTE) as usize];
    *byte = *byte & !(3 << shift(object)) | (state & 3) << shift(object);
}

/// The whole bytes of `from..to`, and the objects of it before and behind them.
fn parts(from: u64, to: u64) -> (std::ops::Range<u64>, std::ops::Range<usize>, std::ops::Range<u64>) {
    let (first, last) = (from.next_multiple_of(PER_BYTE).min(to), to / PER_BYTE * PER_BYTE);
    let last = last.max(first);
    (from..first, (first / PER_BYTE) as usize..(last / PER_BYTE) as usize, last..to)
}

/// A byte of four such objects.
fn four(state: u8) -> u8 {
    (state & 3) * 0x55
}

/// Puts `from..to` into a state: nothing if the range is empty or runs backwards.
fn fill(data: &mut [u8], from: u64, to: u64, state: u8) {
    if from >= to {
        return;
    }
    let (before, whole, behind) = parts(from, to);
    if !whole.is_empty() {
        data[whole].fill(four(state));
    }
    before.chain(behind).for_each(|object| put(data, object, state));
}

/// Puts each of `from..to` into the state that follows from its own; true if any changed. Four at a time: there may be 256 million.
fn change(data: &mut [u8], from: u64, to: u64, becomes: impl Fn(u8) -> u8) -> bool {
    let (before, whole, behind) = parts(from, to);
    let mut changed = false;
    for object in before.chain(behind) {
        let (old, new) = (get(data, object), becomes(get(data, object)));
        changed |= old != new;
        put(data, object, new);
    }
    let of_four: [u8; 256] =
        std::array::from_fn(|four| [6, 4, 2, 0].into_iter().fold(0, |byte, at| byte | becomes(four as u8 >> at & 3) << at));
    if !whole.is_empty() {
        for byte in &mut data[whole] {
            let new = of_four[usize::from(*byte)];
            changed |= new != *byte;
            *byte = new;
        }
    }
    changed
}

/// True if `from..to` are all in a state.
fn all_are(data: &[u8], from: u64, to: u64, state: u8) -> bool {
    let (before, whole, behind) = parts(from, to);
    let mut single = before.chain(behind);
    single.all(|object| get(data, object) == state)
        && (whole.is_empty() || state <= 3 && data[whole].iter().all(|byte| *byte == four(state)))
}

impl ObjectMap {
    fn encoded(&self, with_crc: bool) -> Bytes {
        let mut e = Encoder::with_capacity(0, self.data.len() + 64);
        let header = header(self.objects, &self.rest);
        e.blob(&header);
        e.raw(&self.data);
        e.sized(|e| {
            if with_crc {
                e.u32(crc32c(0, &header));
                e.count(self.data.len().div_ceil(BLOCK as usize));
                self.data.chunks(BLOCK as usize).for_each(|block| e.u32(crc32c(0, block)));
            }
        });
        e.finish()
    }
    fn resize(&mut self, objects: u64) {
        self.data.resize(objects.div_ceil(PER_BYTE) as usize, 0);
        self.objects = objects;
        // What lies behind the last object in its byte counts in the checksum: always zero.
        for behind in objects..objects.next_multiple_of(PER_BYTE) {
            put(&mut self.data, behind, 0);
        }
    }
}

impl Denc for ObjectMap {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.encoded(true));
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let head = d.blob()?;
        let (objects, rest) = Rest::read(&mut Decoder::new(head.clone()), "BitVector", 1, |d, _| d.u64())?;
        if objects > OBJECTS_MAX {
            return Err(d.invalid("an object map has at most 256,000,000 objects"));
        }
        let data = d.raw(objects.div_ceil(PER_BYTE) as usize)?.to_vec();
        d.sized(|d| {
            if d.is_empty() {
                return Ok(());
            }
            let head_crc = d.u32()?;
            let crcs: Vec<u32> = Denc::decode(d)?;
            let right = head_crc == crc32c(0, &head) && crcs.iter().copied().eq(data.chunks(BLOCK as usize).map(|b| crc32c(0, b)));
            if right { Ok(()) } else { Err(d.invalid("the object map's checksum is wrong")) }
        })?;
        Ok(Self { objects, data, rest })
    }
}

fn read(obj: &mut dyn ObjectView) -> ClsResult<ObjectMap> {
    let (size, _) = obj.stat()?;
    if size == 0 {
        return errno(ENOENT);
    }
    decode(&obj.read(0, size)?)
}

fn write(obj: &mut dyn ObjectView, map: &ObjectMap) -> ClsResult<ClsReply> {
    obj.write_full(map.encoded(true))?;
    Ok(().into())
}

fn resize(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (objects, state): (u64, u8) = (input.get()?, input.get()?);
    if objects > OBJECTS_MAX {
        return errno(EINVAL);
    }
    let mut map = match read(obj) {
        Err(e) if e.is(ENOENT) => ObjectMap::default(),
        other => other?,
    };
    let before = map.objects;
    // What would be cut off must be as new: otherwise it is still in use.
    if objects < before && !all_are(&map.data, objects, before, state) {
        return errno(ESTALE);
    }
    map.resize(objects);
    fill(&mut map.data, before, objects, state);
    write(obj, &map)
}

fn update(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (start, end, state): (u64, u64, u8) = (input.get()?, input.get()?, input.get()?);
    let only: Option<u8> = input.get()?;
    obj.stat()?;
    let mut head = Input::new(&obj.read(0, HEADER)?);
    let objects: u64 = decode::<Head>(&head.get()?)?.objects;
    if objects > OBJECTS_MAX {
        return errno(EINVAL);
    }
    if start >= end || end > objects {
        return errno(ERANGE);
    }
    let length = objects.div_ceil(PER_BYTE);
    let first_block = start / PER_BYTE / BLOCK;
    let end_block = ((end - 1) / PER_BYTE / BLOCK) + 1;
    let from = first_block * BLOCK;
    let bytes = (end_block * BLOCK).min(length) - from;
    let mut data = obj.read(HEADER + from, bytes)?.to_vec();
    // The footer: length, the header's crc, the number of blocks, then their crcs.
    let crcs_at = HEADER + length + 12 + 4 * first_block;
    let crcs = obj.read(crcs_at, 4 * (end_block - first_block))?;
    let stored = crcs.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
    if data.len() as u64 != bytes || !stored.eq(data.chunks(BLOCK as usize).map(|b| crc32c(0, b))) {
        return errno(EINVAL);
    }
    let becomes = |before: u8| {
        let matches = only.is_none_or(|only| before == only || (only == EXISTS && before == EXISTS_CLEAN));
        if matches { state & 3 } else { before }
    };
    if change(&mut data, start - from * PER_BYTE, end - from * PER_BYTE, becomes) {
        let mut crcs = Encoder::new(0);
        data.chunks(BLOCK as usize).for_each(|block| crcs.u32(crc32c(0, block)));
        obj.write(HEADER + from, data.into())?;
        obj.write(crcs_at, crcs.finish())?;
    }
    Ok(().into())
}

struct Head {
    objects: u64,
}
denc::denc_struct!(Head, v 1, compat 1, { objects });

/// A snapshot was taken: what exists is unchanged since.
fn snap_add(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let mut map = read(obj)?;
    let objects = map.objects;
    if change(&mut map.data, 0, objects, |state| if state == EXISTS { EXISTS_CLEAN } else { state }) {
        write(obj, &map)?;
    }
    Ok(().into())
}

/// A snapshot goes: what was written in it now counts as written since the one before.
fn snap_remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let snap: ObjectMap = decode(&input)?;
    let mut map = read(obj)?;
    if uncover(&mut map, &snap) {
        write(obj, &map)?;
    }
    Ok(().into())
}

/// What is clean becomes dirty where it was dirty in `snap`, or behind its end; true if anything changed.
fn uncover(map: &mut ObjectMap, snap: &ObjectMap) -> bool {
    let dirty = |state: u8| if state == EXISTS_CLEAN { EXISTS } else { state };
    // Of each pair of bits the lower one.
    const LOW: u8 = 0x55;
    let both = map.objects.min(snap.objects);
    let whole = (both / PER_BYTE) as usize;
    let mut changed = false;
    for (byte, then) in map.data[..whole].iter_mut().zip(&snap.data) {
        let clean = *byte & *byte >> 1 & LOW;
        let new = *byte & !((clean & then & !(then >> 1)) << 1);
        changed |= new != *byte;
        *byte = new;
    }
    for object in whole as u64 * PER_BYTE..both {
        let (old, was_dirty) = (get(&map.data, object), get(&snap.data, object) == EXISTS);
        changed |= was_dirty && dirty(old) != old;
        put(&mut map.data, object, if was_dirty { dirty(old) } else { old });
    }
    changed | change(&mut map.data, both, map.objects.max(both), dirty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(objects: u64, seed: u64) -> ObjectMap {
        let mut map = ObjectMap::default();
        map.resize(objects);
        let mut state = seed | 1;
        for object in 0..objects {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            put(&mut map.data, object, (state >> 61) as u8 & 3);
        }
        map
    }
    fn states(map: &ObjectMap) -> Vec<u8> {
        (0..map.objects).map(|object| get(&map.data, object)).collect()
    }

    /// Four at a time is as one at a time, whatever the ends; and what lies behind the last object stays zero.
    #[test]
    fn changes_by_bytes_are_changes_of_objects() {
        for objects in 0..30 {
            for (from, to) in (0..=objects).flat_map(|from| (from..=objects).map(move |to| (from, to))) {
                let (mut map, becomes) = (map(objects, from * 31 + to), |state: u8| [0, 3, 1, 3][usize::from(state)]);
                let before = states(&map);
                let due: Vec<u8> = before.iter().zip(0..).map(|(s, n)| if (from..to).contains(&n) { becomes(*s) } else { *s }).collect();
                assert_eq!(change(&mut map.data, from, to, becomes), due != before, "{objects} {from} {to}");
                assert_eq!(states(&map), due, "{objects} {from} {to}");
            }
        }
    }

    #[test]
    fn what_a_snapshot_covered_is_dirty_again() {
        for (objects, then) in (0..24).flat_map(|objects| (0..24).map(move |then| (objects, then))) {
            for seed in 0..8 {
                let (mut map, snap) = (map(objects, seed * 7 + objects), map(then, seed * 13 + 5));
                let (before, was) = (states(&map), states(&snap));
                let dirty = |n: usize| was.get(n).is_none_or(|state| *state == EXISTS);
                let due: Vec<u8> =
                    before.iter().enumerate().map(|(n, s)| if *s == EXISTS_CLEAN && dirty(n) { EXISTS } else { *s }).collect();
                assert_eq!(uncover(&mut map, &snap), due != before, "{objects} {then}");
                assert_eq!(states(&map), due, "{objects} {then}");
                let spare = map.data.len() as u64 * PER_BYTE;
                assert!((objects..spare).all(|object| get(&map.data, object) == 0), "{objects} {then}");
            }
        }
    }
}
