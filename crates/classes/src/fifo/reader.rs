//! Reads a part's entries one after the other.

use super::records::{ENTRY_PREFIX, EntryHeader, Listed, PartHeader};
use crate::view::{ClsResult, ObjectView};
use crate::wire::{errno, stored};
use denc::{Bytes, BytesMut};
use types::errno::{EIO, ENOENT, ERANGE};

/// Read at a time.
const CHUNK: u64 = 128 << 10;

/// The first bytes of an entry.
pub struct Prefix {
    len: u64,
    header_len: u64,
    data_len: u64,
    pub index: u64,
}

pub struct Reader<'a> {
    part: &'a PartHeader,
    /// Of the next byte taken.
    at: u64,
    /// Read, not taken yet.
    ahead: BytesMut,
}

impl<'a> Reader<'a> {
    /// Starts at an entry's offset, at the first entry's if that lies behind.
    pub fn new(part: &'a PartHeader, offset: u64) -> Self {
        Self { part, at: offset.max(part.first), ahead: BytesMut::new() }
    }
    pub fn offset(&self) -> u64 {
        self.at
    }
    pub fn at_end(&self) -> bool {
        self.at >= self.part.next
    }
    /// ERANGE if the part has not so many bytes.
    fn fetch(&mut self, obj: &mut dyn ObjectView, bytes: u64) -> ClsResult<()> {
        while (self.ahead.len() as u64) < bytes {
            let from = self.at + self.ahead.len() as u64;
            let want = (bytes - self.ahead.len() as u64).max(CHUNK).min(self.part.next.saturating_sub(from));
            let got = if want == 0 { Bytes::new() } else { obj.read(from, want)? };
            if got.is_empty() {
                return errno(ERANGE);
            }
            self.ahead.extend_from_slice(&got);
        }
        Ok(())
    }
    fn take(&mut self, obj: &mut dyn ObjectView, bytes: u64) -> ClsResult<Bytes> {
        self.fetch(obj, bytes)?;
        self.at += bytes;
        Ok(self.ahead.split_to(bytes as usize).freeze())
    }
    /// The next entry's first bytes, not taken; ERANGE if there is no entry at this place.
    pub fn prefix(&mut self, obj: &mut dyn ObjectView) -> ClsResult<Prefix> {
        if self.at_end() {
            return errno(ENOENT);
        }
        self.fetch(obj, ENTRY_PREFIX)?;
        let word = |i: usize| u64::from_le_bytes(self.ahead[i * 8..i * 8 + 8].try_into().expect("eight bytes"));
        if word(0) != self.part.magic {
            return errno(ERANGE);
        }
        let prefix = Prefix { len: word(1), header_len: word(2), data_len: word(3), index: word(4) };
        // An entry is not longer than its part.
        let total = prefix.len.checked_add(prefix.header_len).and_then(|len| len.checked_add(prefix.data_len));
        if prefix.len < ENTRY_PREFIX || total.is_none_or(|total| total > self.part.next - self.at) {
            return errno(EIO);
        }
        Ok(prefix)
    }
    pub fn entry(&mut self, obj: &mut dyn ObjectView) -> ClsResult<Listed> {
        let prefix = self.prefix(obj)?;
        let offset = self.at;
        self.take(obj, prefix.len)?;
        let header: EntryHeader = stored(&self.take(obj, prefix.header_len)?)?;
        Ok(Listed { data: self.take(obj, prefix.data_len)?, offset, time: header.time })
    }
    pub fn skip(&mut self, obj: &mut dyn ObjectView) -> ClsResult<()> {
        self.entry(obj).map(drop)
    }
}
