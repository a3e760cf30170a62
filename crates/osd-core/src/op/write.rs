//! Operations that change an object's data or existence.

use super::exec::{Answer, Exec, Step, Stop, answer, done, fail, kb};
use super::mods::Mod;
use super::plan::WatchEffect;
use crate::planted::{Bug, planted};
use base::crc32c;
use types::errno::{EEXIST, EFBIG, EINVAL, ENOENT};
use types::object_info::oi_flag;
use types::osd_op::{Extent, OpCode, op_flag};
use types::{Bytes, OsdOp};

/// Bits of an operation's flags that the store gets along as hints.
pub(super) const FADVISE: u32 = op_flag::FADVISE_RANDOM
    | op_flag::FADVISE_SEQUENTIAL
    | op_flag::FADVISE_WILLNEED
    | op_flag::FADVISE_DONTNEED
    | op_flag::FADVISE_NOCACHE;

impl Exec<'_> {
    /// `EFBIG` unless the range lies within what an object may be.
    fn check_range(&self, offset: u64, length: u64) -> Step<()> {
        let max = self.ctx.limits.object_size_max;
        if offset >= max || length > max || offset + length > max { fail(EFBIG) } else { Ok(()) }
    }

    /// Makes the object if there is none, or a whiteout into an object.
    pub fn ensure_exists(&mut self) {
        if !self.exists {
            self.exists = true;
            self.stats.num_objects += 1;
            self.forget_digests();
            self.txn.create(&self.gobj);
        } else if self.info.is_whiteout() {
            self.info_mut().unset(oi_flag::WHITEOUT);
            self.stats.num_whiteouts -= 1;
        }
    }

    pub fn forget_digests(&mut self) {
        let info = self.info_mut();
        info.clear_data_digest();
        info.clear_omap_digest();
    }

    /// The object's size is `size` now.
    fn resize(&mut self, size: u64) {
        if size != self.info.size {
            self.stats.num_bytes += size as i64 - self.info.size as i64;
            self.info_mut().size = size;
        }
    }

    fn count_write(&mut self, length: u64) {
        self.stats.num_wr += 1;
        self.stats.num_wr_kb += kb(length);
    }

    pub fn op_write(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        let extent = op.extent();
        if extent.length != indata.len() as u64 {
            return fail(EINVAL);
        }
        self.write(extent, indata.clone(), op.flags)
    }

    /// Writes `data` at `extent.offset`, minding a truncate that overtook the write or that the write overtook.
    pub fn write(&mut self, extent: Extent, mut data: Bytes, flags: u32) -> Step<Answer> {
        self.num_write += 1;
        let Extent { offset, truncate_size, truncate_seq, .. } = extent;
        let (seen_seq, truncate_seq) = (self.info.truncate_seq, u64::from(truncate_seq));
        let after_truncate = seen_seq != 0 && seen_seq > truncate_seq;
        if after_truncate && offset.saturating_add(data.len() as u64) > self.info.size {
            data.truncate(self.info.size.saturating_sub(offset) as usize);
        }
        let length = data.len() as u64;
        self.check_range(offset, length)?;
        if truncate_seq > seen_seq {
            self.truncate_before_write(truncate_size, truncate_seq)?;
        }
        self.ensure_exists();
        if length > 0 {
            self.txn.write(&self.gobj, offset, data.clone(), flags & FADVISE);
            self.mods.note(|| Mod::Write(offset, data.clone()));
        } else if offset > self.info.size && !after_truncate {
            self.put_truncate(offset);
            self.resize(offset);
            self.info_mut().clear_data_digest();
        } else {
            self.modify = true;
        }
        let size = self.info.size;
        if offset == 0 && length >= size {
            let digest = self.crc_of(&data);
            self.info_mut().set_data_digest(digest);
        } else if offset == size && self.info.has(oi_flag::DATA_DIGEST) {
            let digest = crc32c(self.info.data_digest, &data);
            self.info_mut().set_data_digest(digest);
        } else {
            self.info_mut().clear_data_digest();
        }
        self.unshare(offset, length);
        if length > 0 && offset + length > size {
            self.resize(offset + length);
        }
        self.count_write(length);
        self.dirty_data(offset, length);
        done()
    }

    /// A truncate that comes later has already happened for this writer. `EFBIG` if it would make the object larger than it may be: stock
    /// checks none here, and BlueStore ends at 4 GiB.
    fn truncate_before_write(&mut self, truncate_size: u64, truncate_seq: u64) -> Step<()> {
        if self.visible() {
            if truncate_size > self.ctx.limits.object_size_max.max(self.info.size) {
                return fail(EFBIG);
            }
            let size = self.info.size;
            self.put_truncate(truncate_size);
            if size > truncate_size {
                self.unshare(truncate_size, size - truncate_size);
                self.dirty_data(truncate_size, size - truncate_size);
            }
            if size != truncate_size {
                self.resize(truncate_size);
                self.info_mut().clear_data_digest();
            }
        }
        let info = self.info_mut();
        info.truncate_seq = truncate_seq;
        info.truncate_size = truncate_size;
        Ok(())
    }

    fn put_truncate(&mut self, size: u64) {
        self.txn.truncate(&self.gobj, size);
        self.mods.note(|| Mod::Truncate(size));
    }

    pub fn op_write_full(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        if op.extent().length != indata.len() as u64 {
            return fail(EINVAL);
        }
        self.write_full(indata.clone(), op.flags)
    }

    /// Replaces the data.
    pub fn write_full(&mut self, data: Bytes, flags: u32) -> Step<Answer> {
        self.num_write += 1;
        let length = data.len() as u64;
        self.check_range(0, length)?;
        if length == 0 && self.visible() && self.info.size == 0 {
            // It has no data already: nothing changes, and the vector's result is that of its other operations.
            return done();
        }
        self.ensure_exists();
        let size = self.info.size;
        if length < size {
            self.put_truncate(length);
        }
        if length > 0 {
            self.txn.write(&self.gobj, 0, data.clone(), flags & FADVISE);
            self.mods.note(|| Mod::Write(0, data.clone()));
        }
        self.modify = true;
        let digest = self.crc_of(&data);
        self.info_mut().set_data_digest(digest);
        self.dirty_data(0, size.max(length));
        self.unshare(0, size);
        self.resize(length);
        self.count_write(length);
        done()
    }

    pub fn op_write_same(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        let args = op.writesame();
        if args.length == 0 {
            return done();
        }
        if args.data_length == 0 || !args.length.is_multiple_of(args.data_length) || args.data_length != indata.len() as u64 {
            return fail(EINVAL);
        }
        self.check_range(args.offset, args.length)?;
        self.costs.make(args.length)?;
        let data = indata.repeat((args.length / args.data_length) as usize);
        self.write(Extent { offset: args.offset, length: args.length, ..Extent::default() }, data.into(), 0)
    }

    pub fn op_append(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        if op.extent().length != indata.len() as u64 {
            return fail(EINVAL);
        }
        let extent =
            Extent { offset: self.info.size, length: indata.len() as u64, truncate_size: 0, truncate_seq: self.info.truncate_seq as u32 };
        self.write(extent, indata.clone(), 0)
    }

    fn reaches_the_end(&self, Extent { offset, length, .. }: Extent) -> bool {
        let max = self.ctx.limits.object_size_max;
        self.exists && offset < max && (1..=max).contains(&length) && offset + length >= self.info.size
    }
    /// True for a ZERO that does nothing at all.
    pub fn is_zero_behind_the_end(&self, extent: Extent) -> bool {
        self.reaches_the_end(extent) && extent.offset >= self.info.size
    }

    /// ZERO. What reaches to the object's end cuts it off instead, and what lies behind it does nothing.
    pub fn zero(&mut self, extent: Extent) -> Step<Answer> {
        let Extent { offset, length, .. } = extent;
        if self.reaches_the_end(extent) {
            return if offset >= self.info.size { done() } else { self.truncate(extent) };
        }
        self.num_write += 1;
        self.check_range(offset, length)?;
        if length > 0 && self.visible() {
            self.txn.zero(&self.gobj, offset, length);
            self.mods.note(|| Mod::Zero(offset, length));
            if !planted(Bug::ZeroKeepsOverlap) {
                self.unshare(offset, length);
            }
            self.dirty_data(offset, length);
            self.stats.num_wr += 1;
            if !planted(Bug::ZeroKeepsDigest) {
                self.info_mut().clear_data_digest();
            }
        }
        done()
    }

    /// TRUNCATE to `extent.offset`.
    pub fn truncate(&mut self, extent: Extent) -> Step<Answer> {
        self.num_write += 1;
        let Extent { offset: to, length, truncate_size, truncate_seq } = extent;
        if !self.visible() {
            return done();
        }
        self.check_range(to, length)?;
        if truncate_seq != 0 {
            if to != truncate_size {
                return fail(EINVAL);
            }
            if u64::from(truncate_seq) <= self.info.truncate_seq {
                return done();
            }
            let info = self.info_mut();
            info.truncate_seq = truncate_seq.into();
            info.truncate_size = truncate_size;
        }
        let size = self.info.size;
        self.put_truncate(to);
        if size > to {
            self.unshare(to, size - to);
        }
        self.dirty_data(size.min(to), size.abs_diff(to));
        self.resize(to);
        self.stats.num_wr += 1;
        self.info_mut().clear_data_digest();
        done()
    }

    pub fn op_create(&mut self, op: &OsdOp, indata: &Bytes) -> Step<Answer> {
        if !indata.is_empty() && denc::Decoder::new(indata.clone()).bytestr().is_err() && !(self.visible() && op.has(op_flag::EXCL)) {
            return fail(EINVAL); // a category, of old
        }
        self.create(op.has(op_flag::EXCL))
    }

    pub fn create(&mut self, exclusive: bool) -> Step<Answer> {
        self.num_write += 1;
        if exclusive && self.visible() {
            return fail(EEXIST);
        }
        self.ensure_exists();
        self.modify = true;
        done()
    }

    /// DELETE. While clones need the head's record, a whiteout stays in its place.
    pub fn remove(&mut self) -> Step<Answer> {
        self.num_write += 1;
        let newest = self.ctx.snapc.snaps.first().copied().unwrap_or(0);
        let whiteout = !self.snapset.clones.is_empty() || newest > self.snapset.seq;
        if !self.exists || (self.info.is_whiteout() && whiteout) {
            return fail(ENOENT);
        }
        let size = self.info.size;
        self.txn.remove(&self.gobj);
        self.recreated = true;
        self.attr_sizes = None;
        self.mods.note(|| Mod::Remove);
        self.unshare(0, size);
        self.dirty_data(0, size);
        self.dirty_omap();
        self.stats.num_wr += 1;
        self.resize(0);
        self.forget_digests();
        let watchers = std::mem::take(&mut self.info_mut().watchers);
        for (cookie, entity) in watchers.into_keys() {
            self.effects.push(WatchEffect::Disconnect { cookie, entity, send: true });
        }
        self.omap_removed |= self.info.is_omap();
        self.info_mut().unset(oi_flag::OMAP);
        if whiteout {
            self.info_mut().set(oi_flag::WHITEOUT);
            self.stats.num_whiteouts += 1;
            self.txn.create(&self.gobj);
            return done();
        }
        self.stats.num_objects -= 1;
        if self.info.is_whiteout() {
            self.stats.num_whiteouts -= 1;
            self.info_mut().unset(oi_flag::WHITEOUT);
        }
        self.exists = false;
        done()
    }

    pub fn op_alloc_hint(&mut self, op: &OsdOp) -> Step<Answer> {
        self.num_write += 1;
        let hint = op.alloc_hint();
        self.ensure_exists();
        let info = self.info_mut();
        info.expected_object_size = hint.expected_object_size;
        info.expected_write_size = hint.expected_write_size;
        info.alloc_hint_flags = hint.flags;
        self.txn.set_alloc_hint(&self.gobj, hint.expected_object_size, hint.expected_write_size, hint.flags);
        done()
    }

    /// ISDIRTY: whether a cache tier would have to flush the object.
    pub fn op_is_dirty(&mut self) -> Step<Answer> {
        self.num_read += 1;
        self.stats.num_rd += 1;
        answer(Bytes::from_static(if self.info.has(oi_flag::DIRTY) { &[1] } else { &[0] }))
    }

    /// UNDIRTY: the object is as its base has it.
    pub fn op_undirty(&mut self) -> Step<Answer> {
        self.num_write += 1;
        if self.info.has(oi_flag::DIRTY) {
            self.undirty = true;
            self.modify = true;
            self.stats.num_wr += 1;
        }
        done()
    }

    /// Operations of cache tiers, on a pool that is none.
    pub fn op_cache(&mut self, code: OpCode) -> Step<Answer> {
        match code {
            OpCode::CACHE_FLUSH | OpCode::CACHE_TRY_FLUSH | OpCode::CACHE_EVICT | OpCode::CACHE_PIN | OpCode::CACHE_UNPIN => fail(EINVAL),
            // Objects here have no manifest, so there is nothing to promote.
            OpCode::TIER_PROMOTE => {
                if self.exists {
                    done()
                } else {
                    fail(ENOENT)
                }
            }
            OpCode::TIER_EVICT if self.exists => fail(EINVAL),
            OpCode::TIER_EVICT => fail(ENOENT),
            OpCode::UNSET_MANIFEST if !self.exists => fail(ENOENT),
            _ => Err(Stop::Code(-types::errno::EOPNOTSUPP)),
        }
    }
}
