//! Headers of old-format images (`NAME.rbd`): one struct in the object's data, which clients read themselves. The class only changes the
//! snapshots in it.
//!
//! ```text
//! text 40 │ block_name 24 │ signature 4 │ version 8 │ order, crypt, comp, unused 4 │ u64 size │ u64 snap_seq │ u32 snap_count │ u32 0 │
//!         │ u64 snap_names_len │ snap_count x (u64 id, u64 size), newest first │ names, a zero behind each
//! ```
//! Source: Ceph 18.2 `src/include/rbd_types.h`.

use super::{find, reads, writes};
use crate::registry::Method;
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Decoder, DencError, Encoder};
use types::SnapId;
use types::errno::{EDQUOT, EEXIST, EINVAL, EIO, ENOENT, ESTALE};

pub const METHODS: &[Method] =
    &[reads("snap_list", list), writes("snap_add", add), writes("snap_remove", remove), writes("snap_rename", rename)];

/// First line of an image of the old format, and while it moves to another place; with the zero behind it.
pub const TEXT: &[u8] = b"<<< Rados Block Device Image >>>\n\0";
pub const MIGRATING_TEXT: &[u8] = b"<<< Migrating RBD Image      >>>\n\0";

/// Bytes before the snapshots, of which the class changes only what lies behind the image's size.
const FIXED: usize = 112;
const SIZE_AT: usize = 80;
const SNAP_SEQ_AT: usize = 88;

struct OldSnap {
    id: SnapId,
    image_size: u64,
    name: ByteStr,
}

/// The part of a header that the class works on.
pub struct OldHeader {
    /// Up to `snap_seq`, as the client wrote it.
    start: Bytes,
    image_size: u64,
    snap_seq: SnapId,
    reserved: u32,
    snaps: Vec<OldSnap>,
}

impl OldHeader {
    pub fn snaps_len(&self) -> usize {
        self.snaps.len()
    }
    fn parse(data: Bytes) -> Result<Self, DencError> {
        let mut d = Decoder::new(data);
        let start = d.raw(SNAP_SEQ_AT)?;
        let image_size = Decoder::new(start.slice(SIZE_AT..)).u64()?;
        let snap_seq = d.u64()?;
        let count = d.u32()? as usize;
        let reserved = d.u32()?;
        let names_len = usize::try_from(d.u64()?).map_err(|_| d.invalid("snapshot names longer than the object"))?;
        if count > d.remaining() / 16 {
            return Err(d.invalid("more snapshots than the header has room for"));
        }
        let ids: Vec<(SnapId, u64)> = (0..count).map(|_| Ok((d.u64()?, d.u64()?))).collect::<Result<_, DencError>>()?;
        let names = d.raw(names_len)?;
        let mut names = names.split(|byte| *byte == 0);
        let mut snaps = Vec::with_capacity(count);
        for (id, image_size) in ids {
            let name = names.next().ok_or_else(|| d.invalid("a snapshot without a name"))?;
            snaps.push(OldSnap { id, image_size, name: name.into() });
        }
        Ok(Self { start, image_size, snap_seq, reserved, snaps })
    }
    fn bytes(&self) -> Bytes {
        let names_len: usize = self.snaps.iter().map(|snap| snap.name.len() + 1).sum();
        let mut e = Encoder::with_capacity(0, FIXED + 16 * self.snaps.len() + names_len);
        e.raw(&self.start);
        e.u64(self.snap_seq);
        e.u32(self.snaps.len() as u32);
        e.u32(self.reserved);
        e.u64(names_len as u64);
        for snap in &self.snaps {
            e.u64(snap.id);
            e.u64(snap.image_size);
        }
        for snap in &self.snaps {
            e.raw(snap.name.as_slice());
            e.u8(0);
        }
        e.finish()
    }
    fn has(&self, name: &ByteStr) -> bool {
        self.snaps.iter().any(|snap| snap.name == *name)
    }
}

/// EINVAL if the object is too short for such a header, as a header of the new format is; EIO if it contradicts itself.
pub fn read(obj: &mut dyn ObjectView) -> ClsResult<OldHeader> {
    let (size, _) = obj.stat()?;
    if size < FIXED as u64 {
        return errno(EINVAL);
    }
    OldHeader::parse(obj.read(0, size)?).map_err(|_| ClsError::Errno(EIO))
}

fn write(obj: &mut dyn ObjectView, header: &OldHeader) -> ClsResult<ClsReply> {
    obj.write_full(header.bytes())?;
    Ok(().into())
}

/// A name that the header can hold: a zero would end it.
fn name(input: &mut Input) -> ClsResult<ByteStr> {
    let name: ByteStr = input.get()?;
    if name.as_slice().contains(&0) { errno(EINVAL) } else { Ok(name) }
}

fn list(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let header = read(obj)?;
    let mut e = Encoder::new(0);
    e.u64(header.snap_seq);
    e.u32(header.snaps.len() as u32);
    for snap in &header.snaps {
        e.u64(snap.id);
        e.u64(snap.image_size);
        e.put(&snap.name);
    }
    Ok(e.finish().into())
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut header = read(obj)?;
    let mut input = Input::new(&input);
    let (name, id): (ByteStr, SnapId) = (name(&mut input)?, input.get()?);
    if header.snap_seq > id {
        return errno(ESTALE);
    }
    let limit = find::<u64>(obj, b"snap_limit")?.unwrap_or(u64::MAX);
    if header.snaps.len() as u64 >= limit {
        return errno(EDQUOT);
    }
    if header.has(&name) {
        return errno(EEXIST);
    }
    header.snaps.insert(0, OldSnap { id, image_size: header.image_size, name });
    header.snap_seq = id;
    write(obj, &header)
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut header = read(obj)?;
    let name = name(&mut Input::new(&input))?;
    let Some(at) = header.snaps.iter().position(|snap| snap.name == name) else { return errno(ENOENT) };
    header.snaps.remove(at);
    write(obj, &header)
}

fn rename(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut header = read(obj)?;
    let mut input = Input::new(&input);
    let (id, name): (SnapId, ByteStr) = (input.get()?, name(&mut input)?);
    if header.has(&name) {
        return errno(EEXIST);
    }
    let Some(snap) = header.snaps.iter_mut().find(|snap| snap.id == id) else { return errno(ENOENT) };
    snap.name = name;
    write(obj, &header)
}
