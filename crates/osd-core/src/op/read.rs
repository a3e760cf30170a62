//! Operations that read an object's data.

use super::checksum::{xxhash32, xxhash64};
use super::exec::{Answer, Exec, Step, Stop, answer, done, fail, kb};
use super::mods::{Base, overlay_data};
use super::plan::{Awaited, OutData, PlanStop};
use base::crc32c;
use denc::{Denc, Encoder};
use types::errno::{EINVAL, EIO, ENOENT};
use types::object_info::oi_flag;
use types::osd_op::{Extent, checksum_kind};
use types::{Bytes, OsdOp};

/// Results of CMPEXT below this are a place where the data differ: `-(MAX_ERRNO + offset)`.
const MAX_ERRNO: i32 = 4095;

impl Exec<'_> {
    /// The object's size for a reader that may know of a truncate that has not come yet.
    fn size_for(&self, extent: &Extent) -> u64 {
        let ahead = self.info.truncate_seq < u64::from(extent.truncate_seq);
        if ahead && extent.offset.saturating_add(extent.length) > extent.truncate_size {
            self.info.size.min(extent.truncate_size)
        } else {
            self.info.size
        }
    }

    pub fn op_read(&mut self, op: &OsdOp) -> Step<Answer> {
        let extent = op.extent();
        if self.data_off.is_none_or(|offset| offset == 0) {
            self.data_off = Some(extent.offset);
        }
        Ok((0, self.read(extent)?))
    }

    /// Up to `length` bytes from `offset`; a length of 0 is all of the object.
    pub fn read(&mut self, extent: Extent) -> Step<OutData> {
        self.num_read += 1;
        let length = self.length_of(&extent);
        self.costs.read(length)?;
        let out = if length == 0 { OutData::new() } else { self.data(extent.offset, length)? };
        self.count_read(length);
        Ok(out)
    }

    /// How many bytes a READ is given.
    fn length_of(&self, extent: &Extent) -> u64 {
        let size = self.size_for(extent);
        let wanted = if extent.length == 0 { size } else { extent.length };
        wanted.min(size.saturating_sub(extent.offset))
    }
    /// What a request's one READ is answered when the bytes have come.
    pub fn awaited(&self, op: &OsdOp) -> Awaited {
        let extent = super::dispatch::settled(op).extent();
        let length = self.length_of(&extent);
        Awaited {
            snap: self.obj.hobj().snap,
            offset: extent.offset,
            length,
            digest: self.digest_of(extent.offset, length),
            user_version: self.obj.info.user_version,
        }
    }
    /// The crc that these bytes must have, if the object's record has it.
    fn digest_of(&self, offset: u64, length: u64) -> Option<u32> {
        (offset == 0 && length == self.info.size && self.info.has(oi_flag::DATA_DIGEST)).then_some(self.info.data_digest)
    }

    fn count_read(&mut self, length: u64) {
        self.stats.num_rd += 1;
        self.stats.num_rd_kb += kb(length);
    }

    /// Exactly these bytes, which lie within the object's size: holes are zeros.
    fn data(&self, offset: u64, length: u64) -> Step<OutData> {
        if self.mods.changed_data() {
            let (base, changes) = self.mods.since_base();
            self.costs.steps(changes.len() as u64)?;
            let mut buf = vec![0; length as usize];
            let source = match &base {
                Base::Nothing => None,
                Base::Object if !self.obj.exists => None,
                Base::Object => Some(&self.gobj),
                Base::Clone(clone) => Some(clone),
            };
            if let Some(source) = source {
                let mut at = 0;
                for piece in self.store_read(source, offset, length)?.pieces() {
                    buf[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
            }
            overlay_data(&mut buf, offset, changes);
            return Ok(Bytes::from(buf).into());
        }
        let out = self.store_read(&self.gobj, offset, length)?;
        whole(out, length, self.digest_of(offset, length)).map_err(|why| Stop::Plan(PlanStop::Store(why)))
    }

    /// SPARSE_READ: the ranges that hold something, and their bytes.
    pub fn op_sparse_read(&mut self, op: &OsdOp) -> Step<Answer> {
        self.num_read += 1;
        let extent = op.extent();
        let length = extent.length.min(self.size_for(&extent).saturating_sub(extent.offset));
        let extents = self.extents(extent.offset, length)?;
        let total: u64 = extents.iter().map(|e| e.1).sum();
        self.costs.read(total)?;
        let mut head = Encoder::with_capacity(0, 8 + extents.len() * 16);
        extents.encode(&mut head);
        head.count(total as usize);
        let mut out = OutData::from(head.finish());
        let data = match extents[..] {
            [] => OutData::new(),
            [(offset, length)] => self.data_unchecked(offset, length)?,
            _ => self.store_read_ranges(&self.gobj, &extents)?,
        };
        if data.len() as u64 != total {
            return fail(EIO);
        }
        data.into_pieces().into_iter().for_each(|piece| out.push(piece));
        self.count_read(total);
        Ok((0, out))
    }

    fn data_unchecked(&self, offset: u64, length: u64) -> Step<OutData> {
        if self.mods.changed_data() || (offset == 0 && length == self.info.size) {
            return self.data(offset, length);
        }
        let out = self.store_read(&self.gobj, offset, length)?;
        if out.len() as u64 != length { fail(EIO) } else { Ok(out) }
    }

    /// Ranges that hold data within the one asked for, as (offset, length).
    fn extents(&self, offset: u64, length: u64) -> Step<Vec<(u64, u64)>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        if self.mods.changed_data() {
            return Ok(vec![(offset, length)]);
        }
        self.store_extents(&self.gobj, offset, length)
    }

    /// MAPEXT: the ranges alone, as the store knows them.
    pub fn op_mapext(&mut self, op: &OsdOp) -> Step<Answer> {
        self.num_read += 1;
        let extent = op.extent();
        let length = extent.length.min(self.info.size.saturating_sub(extent.offset));
        let extents = self.extents(extent.offset, length)?.to_bytes(0);
        self.count_read(extents.len() as u64);
        answer(extents)
    }

    pub fn op_stat(&mut self) -> Step<Answer> {
        if !self.visible() {
            return fail(ENOENT);
        }
        self.stats.num_rd += 1;
        let mut e = Encoder::with_capacity(0, 16);
        e.u64(self.info.size);
        e.put(&self.info.mtime);
        answer(e.finish())
    }

    /// CMPEXT: 0 if the data are those given (zeros behind the object's end), else where they first differ.
    pub fn op_cmpext(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        self.num_read += 1;
        let extent = op.extent();
        let ahead =
            self.info.truncate_seq < u64::from(extent.truncate_seq) && extent.offset.saturating_add(extent.length) > extent.truncate_size;
        let size = if ahead { extent.truncate_size } else { self.info.size };
        // Only so many bytes are compared.
        let length = extent.length.min(size.saturating_sub(extent.offset)).min(indata.len() as u64);
        let stored = if length == 0 || !self.visible() { Bytes::new() } else { self.read(Extent { length, ..extent })?.flat() };
        let differs = |(at, byte): (usize, &u8)| *byte != stored.get(at).copied().unwrap_or(0);
        match indata.iter().enumerate().position(differs) {
            Some(at) => Err(Stop::Code(-MAX_ERRNO - at as i32)),
            None => done(),
        }
    }

    /// CHECKSUM of the range, chunk by chunk; of all if offset and length are 0.
    pub fn op_checksum(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        self.num_read += 1;
        let args = op.checksum();
        let chunk = u64::from(args.chunk_size);
        let whole_chunks = |length: u64| chunk == 0 || length.is_multiple_of(chunk);
        if chunk > 0 && args.length == 0 || !whole_chunks(args.length) {
            return fail(EINVAL);
        }
        let size = self.info.size;
        let mut length = args.length;
        if args.offset == 0 && length == 0 {
            length = size;
        } else if args.offset >= size {
            return done();
        } else {
            length = length.min(size - args.offset);
        }
        if !whole_chunks(length) {
            return fail(EINVAL);
        }
        let seed_len = match args.kind {
            checksum_kind::XXHASH32 | checksum_kind::CRC32C => 4,
            checksum_kind::XXHASH64 => 8,
            _ => return fail(EINVAL),
        };
        let Some(seed) = indata.get(..seed_len) else { return fail(EINVAL) };
        let values = if chunk == 0 { 1 } else { length / chunk };
        self.costs.will_answer(values.saturating_mul(seed_len as u64))?;
        let data = if length == 0 { Bytes::new() } else { self.read(Extent { offset: args.offset, length, ..Extent::default() })?.flat() };
        if data.len() as u64 != length {
            return fail(EINVAL);
        }
        let mut seed64 = [0; 8];
        seed64[..seed_len].copy_from_slice(seed);
        let seed = u64::from_le_bytes(seed64);
        let chunk = if chunk == 0 { data.len() } else { chunk as usize };
        let mut e = Encoder::new(0);
        e.count(data.len().checked_div(chunk).unwrap_or(0));
        for chunk in data.chunks_exact(chunk.max(1)) {
            match args.kind {
                checksum_kind::XXHASH32 => e.u32(xxhash32(seed as u32, chunk)),
                checksum_kind::XXHASH64 => e.u64(xxhash64(seed, chunk)),
                _ => e.u32(crc32c(seed as u32, chunk)),
            }
        }
        answer(e.finish())
    }
}

/// What the store gave, with zeros to its length; how it is damaged if it is not what the object's record says.
pub(super) fn whole(mut out: OutData, length: u64, digest: Option<u32>) -> Result<OutData, String> {
    let got = out.len() as u64;
    if got < length {
        out.push(vec![0; (length - got) as usize].into());
    }
    let Some(expected) = digest else { return Ok(out) };
    let crc = out.crc().unwrap_or_else(|| out.pieces().fold(u32::MAX, |crc, piece| crc32c(crc, piece)));
    if crc == expected { Ok(out) } else { Err(format!("full-object read crc {crc:#x} != expected {expected:#x}")) }
}
