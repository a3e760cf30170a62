//! A group's log: entries encoded one behind the other, which takes half the memory of the values and no allocation an entry.

use denc::{ALL_FEATURES, BytesMut, Decoder, Denc, Encoder};
use std::collections::VecDeque;
use store::{LogDelta, PgRecord};
use types::{EVersion, PgLogEntry};

/// Bytes of a page; one that has less room left than an entry usually takes gets no more.
const PAGE: usize = 32 << 10;
const ENTRY_ROOM: usize = 512;

#[derive(Debug)]
struct Page {
    bytes: BytesMut,
    /// Where the first entry begins that has not been trimmed.
    start: usize,
}

/// Entries by version, ascending.
#[derive(Debug, Default)]
struct Entries {
    /// Version and length of each.
    index: VecDeque<(EVersion, u32)>,
    /// None is empty; no entry lies in two.
    pages: VecDeque<Page>,
}

impl Entries {
    fn push(&mut self, entry: &PgLogEntry) {
        if self.pages.back().is_none_or(|page| page.bytes.len() + ENTRY_ROOM > PAGE) {
            self.pages.push_back(Page { bytes: BytesMut::with_capacity(PAGE), start: 0 });
        }
        let page = self.pages.back_mut().expect("pushed above");
        let before = page.bytes.len();
        let mut e = Encoder::append_to(std::mem::take(&mut page.bytes), ALL_FEATURES);
        entry.encode(&mut e);
        page.bytes = e.into_buf();
        self.index.push_back((entry.version, (page.bytes.len() - before) as u32));
    }
    /// Drops entries above this.
    fn rewind(&mut self, to: EVersion) {
        while let Some(&(version, len)) = self.index.back()
            && version > to
        {
            self.index.pop_back();
            let page = self.pages.back_mut().expect("what is in the index is in a page");
            page.bytes.truncate(page.bytes.len() - len as usize);
            if page.bytes.len() == page.start {
                self.pages.pop_back();
            }
        }
    }
    /// Drops entries up to this, inclusive.
    fn trim(&mut self, to: EVersion) {
        while let Some(&(version, len)) = self.index.front()
            && version <= to
        {
            self.index.pop_front();
            let page = self.pages.front_mut().expect("what is in the index is in a page");
            page.start += len as usize;
            if page.bytes.len() == page.start {
                self.pages.pop_front();
            }
        }
    }
    /// The first `max` above `after`. What lies before them is passed over by its length.
    fn above(&self, after: EVersion, max: usize) -> Vec<PgLogEntry> {
        let first = self.index.partition_point(|(version, _)| *version <= after);
        let mut skip: usize = self.index.iter().take(first).map(|(_, len)| *len as usize).sum();
        let (count, mut found) = (max.min(self.index.len() - first), Vec::new());
        for page in &self.pages {
            let len = page.bytes.len() - page.start;
            if skip >= len {
                skip -= len;
                continue;
            }
            let mut d = Decoder::new(denc::Bytes::copy_from_slice(&page.bytes[page.start + skip..]));
            skip = 0;
            while found.len() < count && !d.is_empty() {
                found.push(PgLogEntry::decode(&mut d).expect("what we have encoded can be decoded"));
            }
            if found.len() == count {
                break;
            }
        }
        found
    }
    fn all(&self) -> VecDeque<PgLogEntry> {
        let mut all = VecDeque::with_capacity(self.index.len());
        for page in &self.pages {
            let mut d = Decoder::new(denc::Bytes::copy_from_slice(&page.bytes[page.start..]));
            while !d.is_empty() {
                all.push_back(PgLogEntry::decode(&mut d).expect("what we have encoded can be decoded"));
            }
        }
        all
    }
}

/// What is remembered of one group.
#[derive(Debug)]
pub struct Group {
    /// Without the log.
    rest: PgRecord,
    entries: Entries,
}

impl Group {
    pub fn new(mut record: PgRecord) -> Self {
        let mut entries = Entries::default();
        std::mem::take(&mut record.log).iter().for_each(|entry| entries.push(entry));
        Self { rest: record, entries }
    }
    /// Applies a change that does not reset.
    pub fn update(&mut self, mut delta: LogDelta) {
        if let Some(to) = delta.rewind_to {
            self.entries.rewind(to);
        }
        std::mem::take(&mut delta.entries).iter().for_each(|entry| self.entries.push(entry));
        if let Some(to) = delta.trim_to {
            self.entries.trim(to);
        }
        self.rest.update(delta);
    }
    pub fn log(&self, after: EVersion, max: usize) -> Vec<PgLogEntry> {
        self.entries.above(after, max)
    }
    pub fn record(&self) -> PgRecord {
        PgRecord { log: self.entries.all(), ..self.rest.clone() }
    }
}
