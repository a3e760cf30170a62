//! Copying objects between placement groups: COPY_GET reads one in portions, COPY_FROM writes what was gathered.
//!
//! A plan that needs another object stops with [`PlanStop::Fetch`]; its caller gathers the object with a [`Gather`] and plans again with
//! the [`Copied`]. What is gathered is bounded by what an object may be.
//!
//! Source of the facts: Ceph 18.2 `src/osd/osd_types.cc` (`object_copy_cursor_t` v1, `object_copy_data_t` v8) and `PrimaryLogPG.cc`
//! (`do_copy_get`, `finish_copyfrom`).

use super::exec::{Answer, Exec, Step, Stop, answer, done, fail, kb};
use super::fetch::{Got, Lack, Wanted};
use super::mods::Mod;
use super::omap::PageWish;
use super::plan::PlanStop;
use base::crc32c;
use denc::{Decoder, Denc};
use messages::InOp;
use std::collections::BTreeMap;
use types::errno::{EFBIG, EINVAL, EIO};
use types::object_copy::copy_flag::{DATA_DIGEST, OMAP_DIGEST};
use types::object_info::oi_flag;
use types::osd_op::{AssertVerArgs, CopyGetArgs, copy_from_flag, osd_flag};
use types::{ByteStr, Bytes, CopyCursor, CopyData, ObjectLocator, OpCode, OsdOp, SnapId};

/// Bytes that one COPY_GET asks for (`osd_copyfrom_max_chunk`).
const CHUNK: u64 = 8 << 20;
/// Bytes of data or omap that one COPY_GET answers.
const PORTION_MAX: u64 = 64 << 20;
const _: () = assert!(CHUNK <= PORTION_MAX);
/// The flags of COPY_FROM2 that there are.
const KNOWN_FLAGS: u8 = copy_from_flag::FLUSH
    | copy_from_flag::IGNORE_OVERLAY
    | copy_from_flag::IGNORE_CACHE
    | copy_from_flag::MAP_SNAP_CLONE
    | copy_from_flag::RWORDERED
    | copy_from_flag::TRUNCATE_SEQ;

/// The object that a COPY_FROM wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySource {
    pub oid: ByteStr,
    /// Its pool may be another one.
    pub locator: ObjectLocator,
    pub snap: SnapId,
    /// The user version that it must have; 0 for any.
    pub version: u64,
    /// `CEPH_OSD_FLAG_*` for the requests that read it.
    pub flags: u32,
    /// `CEPH_OSD_OP_FLAG_FADVISE_*` for reading it.
    pub fadvise: u32,
}

/// A whole object, gathered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Copied {
    pub user_version: u64,
    /// The last portion, without data and omap: what it says of the whole object.
    pub about: CopyData,
    pub attrs: BTreeMap<ByteStr, Bytes>,
    /// Pieces with their offsets.
    pub data: Vec<(u64, Bytes)>,
    pub omap_header: Bytes,
    pub omap: Vec<(ByteStr, Bytes)>,
}

/// Gathers an object: the requests to send one after the other, and what becomes of their answers.
#[derive(Debug)]
pub struct Gather {
    source: CopySource,
    cursor: CopyCursor,
    copied: Copied,
    size_max: u64,
    /// Bytes of attributes and omap that may still come.
    rest_left: u64,
    data_crc: u32,
}

impl Gather {
    /// `size_max`: larger objects are refused.
    pub fn new(source: CopySource, size_max: u64) -> Self {
        let copied = Copied { user_version: source.version, ..Copied::default() };
        Self { source, cursor: CopyCursor::default(), copied, size_max, rest_left: size_max, data_crc: u32::MAX }
    }
    pub fn source(&self) -> &CopySource {
        &self.source
    }
    /// The next request's operations. From the second on (or with a version asked for) they hold the object to one version.
    pub fn ops(&self) -> Vec<InOp> {
        let mut ops = Vec::with_capacity(2);
        if self.copied.user_version != 0 {
            let args = AssertVerArgs { unused: 0, ver: self.copied.user_version };
            ops.push(InOp::new(OsdOp::with_assert_ver(OpCode::ASSERT_VER, args), Bytes::new()));
        }
        let indata = (self.cursor.clone(), CHUNK).to_bytes(0);
        let op = OsdOp { flags: self.source.fadvise, ..OsdOp::with_copy_get(OpCode::COPY_GET, CopyGetArgs { max: CHUNK }) };
        ops.push(InOp::new(op, indata));
        ops
    }
    /// Takes the data that the last operation answered and the reply's user version. The whole object, once it is complete; the errno if
    /// the answer is none.
    pub fn take(&mut self, user_version: u64, outdata: &Bytes) -> Result<Option<Copied>, i32> {
        let mut portion = CopyData::from_bytes(outdata).map_err(|_| EIO)?;
        if self.copied.user_version == 0 {
            self.copied.user_version = user_version;
        }
        let (before, after) = (&self.cursor, &portion.cursor);
        let got = portion.data.len() as u64;
        let moved = after != before;
        if portion.size > self.size_max || after.data_offset != before.data_offset + got || after.data_offset > portion.size || !moved {
            return Err(EIO);
        }
        let attrs: usize = portion.attrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        let rest = (attrs + portion.omap_header.len() + portion.omap_data.len()) as u64;
        self.rest_left = self.rest_left.checked_sub(rest).ok_or(EFBIG)?;
        if got > 0 {
            self.data_crc = crc32c(self.data_crc, &portion.data);
            self.copied.data.push((before.data_offset, std::mem::take(&mut portion.data)));
        }
        self.copied.attrs.append(&mut portion.attrs);
        if !portion.omap_header.is_empty() {
            self.copied.omap_header = std::mem::take(&mut portion.omap_header);
        }
        if !portion.omap_data.is_empty() {
            let pairs: Vec<(ByteStr, Bytes)> = Denc::from_bytes(&portion.omap_data).map_err(|_| EIO)?;
            self.copied.omap.extend(pairs);
            portion.omap_data = Bytes::new();
        }
        self.cursor = portion.cursor.clone();
        self.copied.about = portion;
        if !self.cursor.is_complete() {
            return Ok(None);
        }
        if self.copied.about.flags & DATA_DIGEST != 0 && self.copied.about.data_digest != self.data_crc {
            return Err(EIO);
        }
        Ok(Some(std::mem::take(&mut self.copied)))
    }
}

impl Exec<'_> {
    /// COPY_GET: attributes, then data, then omap, as much as fits.
    pub fn op_copy_get(&mut self, indata: &Bytes) -> Step<Answer> {
        self.num_read += 1;
        let Ok((mut cursor, max)) = <(CopyCursor, u64)>::from_bytes(indata) else { return fail(EINVAL) };
        let info = self.info.clone();
        let digest = |flag: u32, given: u32| if info.has(flag) { given } else { 0 };
        let mut out = CopyData {
            size: info.size,
            mtime: info.mtime,
            flags: digest(oi_flag::DATA_DIGEST, DATA_DIGEST) | digest(oi_flag::OMAP_DIGEST, OMAP_DIGEST),
            data_digest: if info.has(oi_flag::DATA_DIGEST) { info.data_digest } else { u32::MAX },
            omap_digest: if info.has(oi_flag::OMAP_DIGEST) { info.omap_digest } else { u32::MAX },
            truncate_seq: info.truncate_seq,
            truncate_size: info.truncate_size,
            ..CopyData::default()
        };
        if self.obj.hobj().is_head() {
            out.snap_seq = self.snapset.seq;
        } else {
            out.snaps = self.snapset.clone_snaps.get(&self.obj.hobj().snap).cloned().unwrap_or_default();
        }
        if !cursor.attr_complete {
            out.attrs = self.attrs()?;
            cursor.attr_complete = true;
        }
        // As much as one answer may hold, however much is asked for; stock's clients ask for 8 MiB.
        let mut left = max.min(self.costs.page_left()).min(PORTION_MAX) as i64;
        if left > 0 && !cursor.data_complete {
            if cursor.data_offset > info.size {
                return fail(EINVAL);
            }
            let length = left.min((info.size - cursor.data_offset) as i64) as u64;
            if length > 0 {
                out.data = self.read(types::osd_op::Extent { offset: cursor.data_offset, length, ..Default::default() })?.flat();
            }
            left -= length as i64;
            cursor.data_offset += length;
            cursor.data_complete = cursor.data_offset == info.size;
        }
        if !info.is_omap() {
            cursor.omap_complete = true;
        } else if left > 0 && cursor.data_complete && !cursor.omap_complete {
            if cursor.omap_offset.is_empty() {
                out.omap_header = self.omap_header()?;
            }
            let after = cursor.omap_offset.clone();
            let wish = PageWish { after: after.as_slice(), prefix: &[], entries_max: u64::MAX, bytes_max: left as usize, values: true };
            let (pairs, more) = self.omap_page(wish)?;
            if let Some((last, _)) = pairs.last() {
                cursor.omap_offset = last.clone();
                out.omap_data = pairs.to_bytes(0);
            }
            cursor.omap_complete = !more;
        }
        out.cursor = cursor;
        answer(out.to_bytes(self.ctx.peer_features))
    }

    /// COPY_FROM and COPY_FROM2: the object becomes what another is.
    pub fn op_copy_from(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        self.num_write += 1;
        let args = op.copy_from();
        let second = op.code == OpCode::COPY_FROM2;
        if second && args.flags & !KNOWN_FLAGS != 0 {
            return fail(EINVAL);
        }
        let mut d = Decoder::new(indata.clone());
        let Ok((oid, locator)) = d.get::<(ByteStr, ObjectLocator)>() else { return fail(EINVAL) };
        let mut truncate = None;
        if second && args.flags & copy_from_flag::TRUNCATE_SEQ != 0 {
            let Ok((seq, size)) = d.get::<(u32, u64)>() else { return fail(EINVAL) };
            truncate = Some((u64::from(seq), size));
        }
        let own = self.obj.hobj();
        let key = if locator.key == oid { ByteStr::new() } else { locator.key.clone() };
        let same_place = (locator.pool, &locator.nspace, &key) == (own.pool, &own.nspace, &own.key);
        if oid == own.oid && args.snapid == own.snap && same_place {
            return fail(EINVAL);
        }
        let wanted = Wanted::Copy({
            let flag = |copy: u8, osd: u32| if args.flags & copy != 0 { osd } else { 0 };
            let flags = flag(copy_from_flag::FLUSH, osd_flag::FLUSH)
                | flag(copy_from_flag::IGNORE_CACHE, osd_flag::IGNORE_CACHE)
                | flag(copy_from_flag::IGNORE_OVERLAY, osd_flag::IGNORE_OVERLAY)
                | flag(copy_from_flag::MAP_SNAP_CLONE, osd_flag::MAP_SNAP_CLONE)
                | flag(copy_from_flag::RWORDERED, osd_flag::RWORDERED);
            let (snap, version, fadvise) = (args.snapid, args.src_version, args.src_fadvise_flags);
            CopySource { oid, locator, snap, version, flags, fadvise }
        });
        let ctx = self.ctx;
        match ctx.fetched.iter().find(|(w, _)| *w == wanted) {
            Some((_, Got::Copy(copied))) => self.become_copy(copied, truncate, op.flags),
            _ => Err(Stop::Plan(PlanStop::Fetch(Box::new(Lack::new(wanted))))),
        }
    }

    fn become_copy(&mut self, copied: &Copied, truncate: Option<(u64, u64)>, fadvise: u32) -> Step<Answer> {
        let about = &copied.about;
        let old_size = self.info.size;
        let attrs = copied.attrs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let max = self.source.attrs_max();
        if attrs > max.all || copied.attrs.values().any(|value| value.len() > max.one) {
            return fail(EFBIG);
        }
        self.check_keys(&copied.omap)?;
        // A vector of many copies would make many objects' bytes of a few that it brought.
        self.costs.make(about.size)?;
        self.attr_sizes = None;
        self.omap_removed = false;
        if self.exists {
            self.txn.remove(&self.gobj);
            self.mods.note(|| Mod::Remove);
        } else {
            self.exists = true;
            self.stats.num_objects += 1;
        }
        self.recreated = true;
        self.txn.create(&self.gobj);
        for (offset, data) in &copied.data {
            self.txn.write(&self.gobj, *offset, data.clone(), fadvise & super::write::FADVISE);
            self.mods.note(|| Mod::Write(*offset, data.clone()));
        }
        let has_omap = !copied.omap.is_empty() || !copied.omap_header.is_empty();
        if !copied.omap_header.is_empty() {
            self.txn.omap_set_header(&self.gobj, copied.omap_header.clone());
        }
        if !copied.omap.is_empty() {
            self.txn.omap_set_keys(&self.gobj, copied.omap.clone());
        }
        for (name, value) in &copied.attrs {
            let name = super::attr::stored_name(name.as_slice());
            self.txn.set_attr(&self.gobj, name.clone(), value.clone());
            self.mods.note(|| Mod::SetAttr(name, value.clone()));
        }
        if self.info.is_whiteout() {
            self.info_mut().unset(oi_flag::WHITEOUT);
            self.stats.num_whiteouts -= 1;
        }
        self.unshare(0, old_size);
        self.dirty_data(0, old_size.max(about.size));
        self.dirty_omap();
        self.stats.num_bytes += about.size as i64 - old_size as i64;
        self.stats.num_wr += 1;
        self.stats.num_wr_kb += kb(about.size);
        self.keeps_mtime = true;
        let info = self.info_mut();
        info.user_version = copied.user_version;
        info.size = about.size;
        info.mtime = about.mtime;
        (info.truncate_seq, info.truncate_size) = truncate.unwrap_or((about.truncate_seq, about.truncate_size));
        info.clear_data_digest();
        info.clear_omap_digest();
        info.unset(oi_flag::OMAP);
        if about.flags & DATA_DIGEST != 0 {
            info.set_data_digest(about.data_digest);
        }
        if about.flags & OMAP_DIGEST != 0 {
            info.set_omap_digest(about.omap_digest);
        }
        if has_omap {
            info.set(oi_flag::OMAP);
        }
        done()
    }
}
