//! Blocks whose newest content is not at their place yet: images of records, and data that is being written to its place.
//!
//! ```text
//!   image:  in an open record ──> in a sealed one ──> (durable) being written to its place ──> there
//!   run:    in an open record ──> being written to its place ──────────────────────────────> there
//! ```
//! A newer content of a block, or its place being freed, ends it at any point. Images of records from before a restart are in the log only.
//!
//! To put in, to find and to drop a block takes one step, whatever else waits; to take those that are due, one step for each that is looked
//! at for the first time, and to say which is the oldest, one for each record under way.

use crate::data::wal::Batch;
use crate::open::layout::BLOCK;
use crate::rows::counter::Steps;
use base::fixed::{HashMap, HashSet};
use bytes::Bytes;
use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hasher};

/// For keys that are numbers.
#[derive(Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u8(&mut self, v: u8) {
        self.write_u64(u64::from(v));
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0 ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}
pub type Numbers<V> = HashMap<u64, V, NumberBuild>;
pub type NumberBuild = BuildHasherDefault<NumberHasher>;

/// Where a block's content is: in the record `seq`, image `n`, or block `n` of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    seq: u64,
    run: Option<u32>,
    n: u32,
}

#[derive(Debug)]
struct Record {
    seq: u64,
    /// Its block in the ring's device.
    block: u64,
    /// Its bytes, if they are in memory.
    buf: Option<Bytes>,
    places: Vec<u64>,
    /// Of the images, if they are in the log only.
    crcs: Vec<u32>,
    runs: Vec<(u64, Bytes)>,
    /// Entries of the map that are this one's.
    live: usize,
    /// Images before this one were taken to be written.
    taken: usize,
}

/// The content of a block.
#[derive(Debug)]
pub enum Content {
    Here(Bytes),
    /// In this block of the wal device, with this crc if it was found there.
    Wal(u64, Option<u32>),
}

/// An image to be written to its place.
#[derive(Debug)]
pub struct Due {
    pub place: u64,
    pub seq: u64,
    pub content: Content,
}

/// Records whose list is not worth being made shorter.
const FEW_RECORDS: usize = 1024;

#[derive(Debug, Default)]
pub struct Overlay {
    map: Numbers<Entry>,
    /// Sealed records, ascending without gaps.
    records: VecDeque<Record>,
    /// Places that are being written.
    writing: HashSet<u64, NumberBuild>,
    /// Writes to places that are under way, each with what it may have to read first.
    under_way: usize,
    /// Bytes of records that are kept.
    bytes: usize,
    /// While records are replayed on trust: blocks that should be at their places, with the record and the crc.
    expected: Numbers<(u64, u32)>,
    /// All images of records before this one were taken to be written.
    next_due: u64,
    /// Records and blocks that were looked at.
    steps: Steps,
}

impl Overlay {
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    #[cfg(test)]
    pub fn take_steps(&self) -> u64 {
        self.steps.take()
    }
    #[cfg(test)]
    pub fn assert_counts(&self, open: u64) {
        assert_eq!(self.bytes, self.records.iter().filter_map(|r| r.buf.as_ref()).map(Bytes::len).sum::<usize>());
        let live = self.records.iter().map(|r| r.live).sum::<usize>();
        let sealed = self.map.values().filter(|entry| entry.seq < open).count();
        assert!(live == sealed && self.map.values().all(|entry| entry.seq <= open), "{live} of {sealed} entries are their records'");
    }
    pub fn is_writing(&self, place: u64, blocks: u64) -> bool {
        !self.writing.is_empty() && (place..place + blocks).any(|p| self.writing.contains(&p))
    }
    /// Bytes of memory, roughly: the records', and what finds them.
    pub fn memory(&self) -> usize {
        self.bytes + self.records.capacity() * size_of::<Record>() + self.map.capacity() * size_of::<(u64, Entry)>()
    }
    fn record(&mut self, seq: u64) -> Option<&mut Record> {
        let first = self.records.front()?.seq;
        self.records.get_mut(usize::try_from(seq.checked_sub(first)?).ok()?)
    }
    fn unlink(&mut self, entry: Entry) {
        let freed = match self.record(entry.seq) {
            Some(record) => {
                record.live -= 1;
                if record.live == 0 { record.buf.take().map_or(0, |b| b.len()) } else { 0 }
            }
            // Of the open record.
            None => 0,
        };
        self.bytes -= freed;
    }
    fn set(&mut self, place: u64, entry: Entry) {
        if let Some(old) = self.map.insert(place, entry) {
            self.unlink(old);
        }
    }
    pub fn set_image(&mut self, place: u64, seq: u64, n: u32) {
        self.expected.remove(&place);
        self.set(place, Entry { seq, run: None, n });
    }
    pub fn set_run(&mut self, place: u64, seq: u64, run: u32, n: u32) {
        self.set(place, Entry { seq, run: Some(run), n });
    }
    /// The blocks have no content any more that matters.
    pub fn drop_blocks(&mut self, place: u64, blocks: u64) {
        if self.map.is_empty() && self.expected.is_empty() {
            return;
        }
        for p in place..place + blocks {
            self.steps.add(1);
            self.expected.remove(&p);
            if let Some(old) = self.map.remove(&p) {
                self.unlink(old);
            }
        }
    }
    /// The block should have this content at its place, if the record counts.
    pub fn expect(&mut self, place: u64, seq: u64, crc: u32) {
        self.expected.insert(place, (seq, crc));
    }
    /// Takes the blocks that should have a content: place, record, crc; ascending by place.
    pub fn take_expected(&mut self) -> Vec<(u64, u64, u32)> {
        let mut all: Vec<_> = std::mem::take(&mut self.expected).into_iter().map(|(place, (seq, crc))| (place, seq, crc)).collect();
        all.sort_unstable();
        all
    }
    /// A record was found in the log; its images stay there until they are needed.
    pub fn found(&mut self, seq: u64, block: u64, places: Vec<u64>, crcs: Vec<u32>) {
        self.add(seq, block, None, places, crcs, Vec::new());
    }
    /// A record was sealed.
    pub fn seal(&mut self, seq: u64, block: u64, buf: Bytes, places: Vec<u64>, runs: Vec<(u64, Bytes)>) {
        self.add(seq, block, Some(buf), places, Vec::new(), runs);
    }
    fn add(&mut self, seq: u64, block: u64, buf: Option<Bytes>, places: Vec<u64>, crcs: Vec<u32>, runs: Vec<(u64, Bytes)>) {
        assert!(self.records.back().is_none_or(|r| r.seq + 1 == seq), "records are sealed in order");
        let mut live = 0;
        for (i, place) in places.iter().enumerate() {
            live += usize::from(self.map.get(place) == Some(&Entry { seq, run: None, n: i as u32 }));
        }
        for (run, (place, bytes)) in runs.iter().enumerate() {
            let mine = |n: u64| self.map.get(&(place + n)) == Some(&Entry { seq, run: Some(run as u32), n: n as u32 });
            live += (0..bytes.len() as u64 / BLOCK).filter(|n| mine(*n)).count();
        }
        let buf = buf.filter(|_| live > 0 && !places.is_empty());
        self.bytes += buf.as_ref().map_or(0, Bytes::len);
        self.records.push_back(Record { seq, block, buf, places, crcs, runs, live, taken: 0 });
    }
    /// The block's content, if it is not the one at its place.
    pub fn get(&self, place: u64, open: &Batch) -> Option<Content> {
        let entry = *self.map.get(&place)?;
        if entry.seq == open.seq() {
            return Some(Content::Here(match entry.run {
                None => open.copy_image(entry.n),
                Some(run) => open.run_block(run as usize, entry.n),
            }));
        }
        let first = self.records.front().expect("an entry's record is kept").seq;
        let record = &self.records[(entry.seq - first) as usize];
        Some(match entry.run {
            None => self.image(record, entry.n),
            Some(run) => {
                let at = entry.n as usize * BLOCK as usize;
                Content::Here(record.runs[run as usize].1.slice(at..at + BLOCK as usize))
            }
        })
    }
    fn image(&self, record: &Record, n: u32) -> Content {
        let at = (1 + n as usize) * BLOCK as usize;
        match &record.buf {
            Some(buf) => Content::Here(buf.slice(at..at + BLOCK as usize)),
            None => Content::Wal(record.block + 1 + u64::from(n), record.crcs.get(n as usize).copied()),
        }
    }
    /// A run has reached its place.
    pub fn run_done(&mut self, seq: u64, run: usize) {
        let Some(record) = self.record(seq) else { return };
        let (place, bytes) = std::mem::take(&mut record.runs[run]);
        for n in 0..bytes.len() as u64 / BLOCK {
            let entry = Entry { seq, run: Some(run as u32), n: n as u32 };
            if self.map.get(&(place + n)) == Some(&entry) {
                self.map.remove(&(place + n));
                self.unlink(entry);
            }
        }
    }
    /// Up to about `max` images, of the oldest records up to `upto`, that are to be written to their places, ascending by place.
    /// Nothing else may be written to these places until [`Overlay::written`].
    pub fn take_due(&mut self, upto: u64, max: usize) -> Vec<Due> {
        let mut due = Vec::new();
        let Some(first) = self.records.front().map(|record| record.seq) else { return due };
        // Those in front are on their way, however many they are.
        let mut i = self.next_due.saturating_sub(first) as usize;
        'records: while i < self.records.len() {
            self.steps.add(1);
            if self.records[i].seq > upto || due.len() >= max {
                break;
            }
            while self.records[i].taken < self.records[i].places.len() {
                if due.len() >= max {
                    break 'records;
                }
                self.steps.add(1);
                let record = &self.records[i];
                let (n, seq) = (record.taken, record.seq);
                let place = record.places[n];
                if self.map.get(&place) == Some(&Entry { seq, run: None, n: n as u32 }) {
                    if !self.writing.insert(place) {
                        // An older content is on its way there: this one has to wait.
                        break 'records;
                    }
                    due.push(Due { place, seq, content: self.image(record, n as u32) });
                }
                self.records[i].taken += 1;
            }
            i += 1;
        }
        self.next_due = first + i as u64;
        due.sort_unstable_by_key(|d| d.place);
        self.forget();
        due
    }
    /// Some of what is due goes out, in one write.
    pub fn began(&mut self) {
        self.under_way += 1;
    }
    /// Writes to places that are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }
    /// A write is done: these images, each of a record, have reached their places.
    pub fn written(&mut self, blocks: &[(u64, u64)]) {
        self.under_way -= 1;
        for (place, seq) in blocks {
            self.writing.remove(place);
            if let Some(entry) = self.map.get(place).copied().filter(|e| e.seq == *seq && e.run.is_none()) {
                self.map.remove(place);
                self.unlink(entry);
            }
        }
        self.forget();
    }
    /// Lets go of the oldest records that nothing needs.
    pub fn forget(&mut self) {
        while self.records.front().is_some_and(|r| r.live == 0 && r.runs.iter().all(|(_, b)| b.is_empty())) {
            self.records.pop_front();
        }
        // A lone writer's records are many and small, and not all writes are that writer's.
        if self.records.capacity() > FEW_RECORDS.max(self.records.len() * 4) {
            self.records.shrink_to(self.records.len() * 2);
        }
        // And a log that was replayed has many images.
        if self.map.capacity() > FEW_RECORDS.max(self.map.len() * 4) {
            self.map.shrink_to(self.map.len() * 2);
        }
    }
    /// The oldest record that has images which are not at their places.
    pub fn oldest(&mut self) -> Option<u64> {
        self.forget();
        // In front of it are at most those that have runs under way.
        self.records.iter().inspect(|_| self.steps.add(1)).find(|r| r.live > 0).map(|r| r.seq)
    }
    /// Places that are being written.
    pub fn writing(&self) -> usize {
        self.writing.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Images wait for their places, however many: what is taken next is found at once, and what is dropped is.
    #[test]
    fn many_that_wait_cost_what_few_do() {
        let steps = |records: u64| {
            let mut overlay = Overlay::default();
            let buf = Bytes::from(vec![0; 2 * BLOCK as usize]);
            for seq in 1..=records {
                overlay.set_image(seq, seq, 0);
                overlay.seal(seq, 2 * seq, buf.clone(), vec![seq], Vec::new());
            }
            let (mut most, mut due) = (0, Vec::new());
            // None of them gets there before all are on their way.
            for _ in 0..records {
                overlay.take_steps();
                let some = overlay.take_due(records, 1);
                most = most.max(overlay.take_steps());
                overlay.began();
                due.extend(some.into_iter().map(|due| (due.place, due.seq)));
            }
            assert_eq!(due.len() as u64, records);
            assert!(overlay.take_due(records, 1).is_empty());
            for (n, block) in due.iter().enumerate() {
                overlay.written(&[*block]);
                overlay.take_steps();
                let oldest = overlay.oldest();
                most = most.max(overlay.take_steps());
                assert_eq!(oldest, due.get(n + 1).map(|(_, seq)| *seq));
            }
            // Blocks that are expected at their places, and freed again.
            (0..records).for_each(|place| overlay.expect(place, 1, 0));
            for place in (0..records).step_by(2) {
                overlay.take_steps();
                overlay.drop_blocks(place, 1);
                most = most.max(overlay.take_steps());
            }
            assert_eq!(overlay.take_expected().len() as u64, records / 2);
            most
        };
        let (few, many) = (steps(500), steps(5000));
        assert!(many <= few && many < 8, "{few} steps for one, {many} of ten times as many");
    }
}
