//! Operations on an object's omap: sorted keys with values, and a header.
//!
//! What reads it, class methods too, sees the object as it was before the vector, whatever came earlier in it; only whether there is an omap at
//! all is looked at in the vector (18.2, `do_osd_ops`).

use super::exec::{Answer, Exec, Step, answer, done, fail, kb};
use crate::planted::{Bug, planted};
use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::{BTreeMap, BTreeSet};
use store::OmapFrom;
use types::errno::{ECANCELED, EINVAL, ENOENT, EOPNOTSUPP};
use types::object_info::oi_flag;
use types::osd_op::cmp_op;
use types::{ByteStr, Bytes, GHObject};

/// Bytes of a key. Source: ours; stock has no limit. The longest keys of stock's clients are a bucket index's: an object's name, of 1,024 bytes at most, between
/// a prefix and an instance. What is as large as a leaf of a store's table makes its index as large as its rows, and that is kept in memory.
const KEY_MAX: usize = 4096;

/// Keys with values.
pub(super) type Pairs = Vec<(ByteStr, Bytes)>;

/// Which keys a page begins with and how far it goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageWish<'a> {
    /// Only keys that sort behind it.
    pub after: &'a [u8],
    /// Only keys that begin with it.
    pub prefix: &'a [u8],
    pub entries_max: u64,
    /// The page ends when keys and values (as encoded) have reached so many bytes.
    pub bytes_max: usize,
    pub values: bool,
}

impl PageWish<'_> {
    /// Where the page starts. An empty `after` is before every key but the empty one.
    pub fn first(&self) -> OmapFrom<'_> {
        if self.prefix > self.after { OmapFrom::At(self.prefix) } else { OmapFrom::After(self.after) }
    }
}

/// Collects a page until it is full.
struct Page<'a> {
    wish: PageWish<'a>,
    pairs: Pairs,
    bytes: usize,
    /// What the request may still read: the page ends before the pair that would be too much.
    bytes_left: usize,
}

impl Page<'_> {
    /// False if the page was full before: more keys follow it.
    fn take(&mut self, key: ByteStr, value: Bytes) -> bool {
        if self.pairs.len() as u64 >= self.wish.entries_max || self.bytes >= self.wish.bytes_max {
            return false;
        }
        let more = 4 + key.len() + if self.wish.values { 4 + value.len() } else { 0 };
        // The first goes into every page, or a client would ask for it without end.
        if !self.pairs.is_empty() && self.bytes + more > self.bytes_left {
            return false;
        }
        self.bytes += more;
        self.pairs.push((key, value));
        true
    }
}

/// A page ends behind the pair that passes this, bytes: less than the configured 1 GiB, since a store must have all of it in memory together
/// to show it. Source: ours; clients ask for the next page.
const PAGE_MAX_BYTES: usize = 4 << 20;
/// Keys that are asked of the store together.
const KEYS_AT_ONCE: usize = 1024;
/// What an answer needs beside the pairs of a page, bytes.
const PAGE_REST_BYTES: u64 = 64 << 10;
const _: () = assert!(PAGE_REST_BYTES < PAGE_MAX_BYTES as u64);

fn pairs_bytes(pairs: &BTreeMap<ByteStr, Bytes>) -> u64 {
    pairs.iter().map(|(key, value)| 8 + key.len() + value.len()).sum::<usize>() as u64
}

fn decoded<T>(what: Result<T, DencError>) -> Step<T> {
    what.or_else(|_| fail(EINVAL))
}

impl Exec<'_> {
    fn needs_omap(&self) -> Step<()> {
        if !self.ctx.pool.is_erasure() { Ok(()) } else { fail(EOPNOTSUPP) }
    }
    /// True if reads go to the store. Where they find no object there, this request has just made it.
    fn reads_omap(&self) -> bool {
        self.info.is_omap() || self.omap_removed
    }
    /// `ENOENT` for a read of pairs that goes to the store and finds no object. (18.2 ends there for keys.)
    fn must_be_stored(&self) -> Step<()> {
        if self.obj.exists { Ok(()) } else { fail(ENOENT) }
    }

    /// A page of keys, and whether more follow.
    pub fn omap_page(&mut self, wish: PageWish<'_>) -> Step<(Pairs, bool)> {
        self.num_read += 1;
        self.stats.num_rd += 1;
        if !self.reads_omap() {
            return Ok((Vec::new(), false));
        }
        self.must_be_stored()?;
        // Something comes behind this page, be it no more than the count of what it holds.
        let bytes_left = self.costs.page_left().saturating_sub(PAGE_REST_BYTES) as usize;
        let page = Page { wish, pairs: Vec::new(), bytes: 0, bytes_left };
        let (pairs, more, bytes) = self.stored_page(page)?;
        self.costs.read(bytes as u64)?;
        self.costs.steps(pairs.len() as u64)?;
        self.stats.num_rd_kb += kb(bytes as u64);
        Ok((pairs, more))
    }

    fn stored_page(&self, mut page: Page<'_>) -> Step<(Pairs, bool, usize)> {
        let wish = page.wish;
        let mut more = false;
        self.store_omap_scan(&self.gobj, wish.first(), &mut |key, value| {
            if !key.as_slice().starts_with(wish.prefix) {
                return false;
            }
            more = !page.take(key.clone(), value.clone());
            !more
        })?;
        Ok((page.pairs, more, page.bytes))
    }

    /// Those of `keys` that exist.
    pub fn omap_get(&mut self, keys: &[ByteStr]) -> Step<BTreeMap<ByteStr, Bytes>> {
        self.num_read += 1;
        self.stats.num_rd += 1;
        if !self.reads_omap() {
            return Ok(BTreeMap::new());
        }
        let mut found = BTreeMap::new();
        self.get_stored(&self.gobj, keys, &mut found)?;
        let bytes = pairs_bytes(&found);
        self.costs.read(bytes)?;
        self.stats.num_rd_kb += kb(bytes);
        Ok(found)
    }
    /// Some keys at a time: what they have may be large.
    fn get_stored(&self, obj: &GHObject, keys: &[ByteStr], found: &mut BTreeMap<ByteStr, Bytes>) -> Step<()> {
        for some in keys.chunks(KEYS_AT_ONCE) {
            let pairs: BTreeMap<ByteStr, Bytes> = self.store_omap_get(obj, some)?.into_iter().collect();
            self.costs.will_read(pairs_bytes(&pairs))?;
            self.costs.steps(some.len() as u64)?;
            found.extend(pairs);
            if keys.len() > KEYS_AT_ONCE {
                self.costs.will_read(pairs_bytes(found))?;
            }
        }
        Ok(())
    }

    pub fn omap_header(&mut self) -> Step<Bytes> {
        if !self.reads_omap() {
            return Ok(Bytes::new());
        }
        self.num_read += 1;
        self.stats.num_rd += 1;
        let header = self.store_omap_header(&self.gobj)?;
        self.costs.read(header.len() as u64)?;
        self.stats.num_rd_kb += kb(header.len() as u64);
        Ok(header)
    }

    fn omap_changed(&mut self) {
        self.dirty_omap();
        self.stats.num_wr += 1;
        self.info_mut().clear_omap_digest();
    }

    /// `EINVAL` if one of these keys is longer than a new one may be.
    pub(super) fn check_keys(&self, vals: &Pairs) -> Step<()> {
        if vals.iter().any(|(key, _)| key.len() > KEY_MAX) { fail(EINVAL) } else { Ok(()) }
    }
    pub fn omap_set(&mut self, vals: Pairs) -> Step<Answer> {
        self.needs_omap()?;
        self.check_keys(&vals)?;
        self.num_write += 1;
        self.ensure_exists();
        self.stats.num_wr_kb += kb(4 + vals.iter().map(|(key, value)| 8 + key.len() + value.len()).sum::<usize>() as u64);
        self.txn.omap_set_keys(&self.gobj, vals);
        self.omap_changed();
        if !planted(Bug::ForgetOmapFlag) {
            self.info_mut().set(oi_flag::OMAP);
        }
        done()
    }

    pub fn omap_set_header(&mut self, header: Bytes) -> Step<Answer> {
        self.needs_omap()?;
        self.num_write += 1;
        self.ensure_exists();
        self.txn.omap_set_header(&self.gobj, header);
        self.omap_changed();
        self.info_mut().set(oi_flag::OMAP);
        done()
    }

    pub fn omap_clear(&mut self) -> Step<Answer> {
        self.needs_omap()?;
        self.num_write += 1;
        if !self.visible() {
            return fail(ENOENT);
        }
        self.omap_removed = false;
        if self.info.is_omap() {
            self.txn.omap_clear(&self.gobj);
            self.omap_changed();
            self.info_mut().unset(oi_flag::OMAP);
        }
        done()
    }

    pub fn omap_remove(&mut self, keys: Vec<ByteStr>) -> Step<Answer> {
        self.needs_omap()?;
        self.num_write += 1;
        if !self.visible() {
            return fail(ENOENT);
        }
        self.txn.omap_rm_keys(&self.gobj, keys);
        self.omap_changed();
        done()
    }

    pub fn omap_remove_range(&mut self, first: ByteStr, end: ByteStr) -> Step<Answer> {
        self.needs_omap()?;
        self.num_write += 1;
        if !self.visible() {
            return fail(ENOENT);
        }
        if first < end {
            self.txn.omap_rm_key_range(&self.gobj, first, end);
        }
        self.modify = true;
        self.omap_changed();
        done()
    }

    pub fn op_omap_get_keys(&mut self, indata: &Bytes) -> Step<Answer> {
        let mut d = Decoder::new(indata.clone());
        let (after, max) = (decoded(d.bytestr())?, decoded(d.u64())?);
        self.answer_page(&after, &ByteStr::new(), max, false)
    }

    pub fn op_omap_get_vals(&mut self, indata: &Bytes) -> Step<Answer> {
        let mut d = Decoder::new(indata.clone());
        let (after, max, prefix) = (decoded(d.bytestr())?, decoded(d.u64())?, decoded(d.bytestr())?);
        self.answer_page(&after, &prefix, max, true)
    }

    fn answer_page(&mut self, after: &ByteStr, prefix: &ByteStr, max: u64, values: bool) -> Step<Answer> {
        let limits = self.ctx.limits;
        let wish = PageWish {
            after: after.as_slice(),
            prefix: prefix.as_slice(),
            entries_max: max.min(limits.omap_entries_max),
            bytes_max: limits.omap_bytes_max.min(PAGE_MAX_BYTES),
            values,
        };
        let (pairs, more) = self.omap_page(wish)?;
        let bytes: usize = pairs.iter().map(|(key, value)| 8 + key.len() + value.len()).sum();
        let mut e = Encoder::with_capacity(0, 5 + bytes);
        e.count(pairs.len());
        for (key, value) in &pairs {
            e.put(key);
            if values {
                e.put(value);
            }
        }
        e.bool(more);
        answer(e.finish())
    }

    pub fn op_omap_get_vals_by_keys(&mut self, indata: &Bytes) -> Step<Answer> {
        // A set: a key that is named twice is answered once.
        let keys: BTreeSet<ByteStr> = decoded(Denc::from_bytes(indata))?;
        let keys: Vec<ByteStr> = keys.into_iter().collect();
        answer(self.omap_get(&keys)?.to_bytes(0))
    }

    /// OMAP_CMP: `ECANCELED` unless every value stands in the given relation to what is given; missing values are empty.
    pub fn op_omap_cmp(&mut self, indata: &Bytes) -> Step<Answer> {
        self.num_read += 1;
        if !self.visible() {
            return fail(ENOENT);
        }
        let assertions: BTreeMap<ByteStr, (Bytes, i32)> = decoded(Denc::from_bytes(indata))?;
        if self.reads_omap() {
            self.must_be_stored()?;
        }
        let keys: Vec<ByteStr> = assertions.keys().cloned().collect();
        let found = self.omap_get(&keys)?;
        for (key, (given, op)) in &assertions {
            let stored: &[u8] = found.get(key).map_or(&[], |value| value);
            let holds = match u8::try_from(*op) {
                Ok(cmp_op::EQ) => stored == &given[..],
                Ok(cmp_op::LT) => stored < &given[..],
                Ok(cmp_op::GT) => stored > &given[..],
                _ => return fail(EINVAL),
            };
            if !holds {
                return fail(ECANCELED);
            }
        }
        done()
    }

    pub fn op_omap_set_vals(&mut self, indata: &Bytes) -> Step<Answer> {
        self.needs_omap()?;
        self.omap_set(decoded(Denc::from_bytes(indata))?)
    }
    pub fn op_omap_rm_keys(&mut self, indata: &Bytes) -> Step<Answer> {
        self.needs_omap()?;
        if !self.visible() {
            return fail(ENOENT);
        }
        self.omap_remove(decoded(Denc::from_bytes(indata))?)
    }
    pub fn op_omap_rm_key_range(&mut self, indata: &Bytes) -> Step<Answer> {
        self.needs_omap()?;
        if !self.visible() {
            return fail(ENOENT);
        }
        let mut d = Decoder::new(indata.clone());
        let (first, end) = (decoded(d.bytestr())?, decoded(d.bytestr())?);
        self.omap_remove_range(first, end)
    }
}
