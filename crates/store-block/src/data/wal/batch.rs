//! The record that is being gathered: changes, images, and data that goes straight to its place.

use super::{HEAD_ROOM, HEADER, Header, blocks};
use crate::open::layout::BLOCK;
use bytes::Bytes;
use disk::AlignedBuf;
use std::ops::Range;

/// Neighbouring blocks that are written to their place beside the record.
#[derive(Debug)]
pub struct Run {
    place: u64,
    data: RunData,
}

#[derive(Debug)]
enum RunData {
    /// Copied, and more may follow.
    Gathered(AlignedBuf),
    /// As it came.
    Given(Bytes),
}

impl Run {
    fn bytes(&self) -> &[u8] {
        match &self.data {
            RunData::Gathered(buf) => buf,
            RunData::Given(bytes) => bytes,
        }
    }
    fn blocks(&self) -> u64 {
        self.bytes().len() as u64 / BLOCK
    }
    /// Bytes that were copied.
    fn gathered(&self) -> usize {
        if let RunData::Gathered(buf) = &self.data { buf.len() } else { 0 }
    }
    fn freeze(self) -> Bytes {
        match self.data {
            RunData::Gathered(buf) => buf.freeze(),
            RunData::Given(bytes) => bytes,
        }
    }
}

/// A run is not grown beyond this, in bytes: what grows is copied, and buffers of one size come back from their pool. Neighbouring runs are written
/// together.
const RUN_MAX: usize = 64 << 10;

/// Data of at least so many bytes are written from where they are, if devices can: shorter ones are rather put beside their neighbours.
const GIVEN_MIN: usize = 16 << 10;

/// Memory for changes that goes from one record to the next, in bytes, at most.
const META_KEPT: usize = 256 << 10;

#[derive(Debug)]
pub struct Batch {
    seq: u64,
    /// Encoded changes.
    meta: Vec<u8>,
    /// Of those, bytes in front that say where others are: see [`crate::data::spill`].
    pointers: usize,
    /// Images of changes that are there.
    pointed_images: u64,
    /// The head block's room, then the images.
    buf: AlignedBuf,
    /// Where each image belongs.
    places: Vec<u64>,
    runs: Vec<Run>,
    /// Of whole transactions.
    tokens: Vec<u64>,
    /// Bytes of the longest run of the record before, as a guess.
    run_like: usize,
}

/// A record as it goes out.
#[derive(Debug)]
pub struct Sealed {
    pub seq: u64,
    pub bytes: Bytes,
    /// Where each image belongs.
    pub places: Vec<u64>,
    /// Data that go to their places beside it.
    pub runs: Vec<(u64, Bytes)>,
    pub tokens: Vec<u64>,
    /// Memory of its changes, to be used again.
    pub changes: Vec<u8>,
}

impl Batch {
    /// `like`: bytes that the buffer should have room for.
    pub fn new(seq: u64, like: usize) -> Self {
        let mut buf = AlignedBuf::with_capacity(like.max(2 * BLOCK as usize));
        buf.push_zeros(BLOCK as usize);
        Self {
            seq,
            meta: Vec::new(),
            pointers: 0,
            pointed_images: 0,
            buf,
            places: Vec::new(),
            runs: Vec::new(),
            tokens: Vec::new(),
            run_like: 0,
        }
    }
    /// The record behind this one, which is like it.
    pub fn after(&self, like: usize) -> Self {
        let run_like = self.runs.iter().map(Run::gathered).max().unwrap_or(0);
        Self { run_like, ..Self::new(self.seq + 1, like) }
    }
    pub fn seq(&self) -> u64 {
        self.seq
    }
    /// A change is encoded behind the others.
    pub fn put(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.meta);
    }
    /// Bytes of changes.
    pub fn changes_len(&self) -> usize {
        self.meta.len()
    }
    /// All of a transaction is in it.
    pub fn has_whole(&mut self, token: u64) {
        self.tokens.push(token);
    }
    /// Takes out the changes that are not pointed to yet, to put them beside the record.
    pub fn take_changes(&mut self) -> Vec<u8> {
        self.meta.split_off(self.pointers)
    }
    /// They stay in the record.
    pub fn put_back(&mut self, changes: &[u8]) {
        self.meta.extend_from_slice(changes);
    }
    /// Images of the changes that were taken out, by number; each is told once.
    pub fn take_images(&mut self) -> Range<u64> {
        let all = self.images();
        std::mem::replace(&mut self.pointed_images, all)..all
    }
    /// All changes that are here say where others are.
    pub fn is_pointers(&mut self) {
        self.pointers = self.meta.len();
    }
    /// Takes the memory that a sealed record's changes were encoded in.
    pub fn reuse(&mut self, mut meta: Vec<u8>) {
        if self.meta.is_empty() && meta.capacity() <= META_KEPT {
            meta.clear();
            self.meta = meta;
        }
    }
    pub fn is_empty(&self) -> bool {
        self.meta.is_empty() && self.tokens.is_empty()
    }
    pub fn images(&self) -> u64 {
        self.places.len() as u64
    }
    /// Bytes that the record and its runs have so far, roughly.
    pub fn bytes(&self) -> usize {
        self.buf.len() + self.meta.len() + self.runs.iter().map(|r| r.bytes().len()).sum::<usize>()
    }
    /// Blocks that the record takes of the ring.
    pub fn blocks(&self) -> u64 {
        blocks(self.meta.len(), self.images())
    }
    /// Appends an image, in pieces that make a block; returns its number.
    pub fn image(&mut self, place: u64, pieces: [&[u8]; 3]) -> u32 {
        let before = self.buf.len();
        pieces.iter().for_each(|p| self.buf.push(p));
        assert_eq!(self.buf.len() - before, BLOCK as usize, "an image is a block");
        self.places.push(place);
        self.places.len() as u32 - 1
    }
    /// The bytes of the image that was appended last.
    pub fn last_image(&self) -> &[u8] {
        &self.buf[self.buf.len() - BLOCK as usize..]
    }
    /// An image while the record is open.
    pub fn get_image(&self, n: u32) -> &[u8] {
        let at = (1 + n as usize) * BLOCK as usize;
        &self.buf[at..at + BLOCK as usize]
    }
    /// A copy of it.
    pub fn copy_image(&self, n: u32) -> Bytes {
        Bytes::copy_from_slice(self.get_image(n))
    }
    /// Puts whole blocks at `place` into a run; its number, and the block of it that they begin with.
    pub fn run(&mut self, place: u64, pieces: [&[u8]; 3]) -> (u32, u32) {
        let len: usize = pieces.iter().map(|p| p.len()).sum();
        assert!(len.is_multiple_of(BLOCK as usize), "whole blocks");
        let grows =
            |run: &Run| matches!(&run.data, RunData::Gathered(buf) if run.place + run.blocks() == place && buf.len() + len <= RUN_MAX);
        if !self.runs.last().is_some_and(grows) {
            // Others will follow.
            let data = RunData::Gathered(AlignedBuf::with_capacity(len.max(self.run_like.min(RUN_MAX))));
            self.runs.push(Run { place, data });
        }
        let n = self.runs.len() - 1;
        let first = self.runs[n].blocks() as u32;
        let RunData::Gathered(buf) = &mut self.runs[n].data else {
            unreachable!("the last run is one that grows, or was made a line above")
        };
        pieces.iter().for_each(|p| buf.push(p));
        (n as u32, first)
    }
    /// True if these bytes can be written without a copy, as [`Batch::give`] does.
    pub fn can_be_given(bytes: &[u8]) -> bool {
        bytes.len() >= GIVEN_MIN && bytes.len().is_multiple_of(BLOCK as usize) && (bytes.as_ptr() as usize).is_multiple_of(BLOCK as usize)
    }
    /// A run of its own with these blocks; its number, and the block of it that they begin with.
    pub fn give(&mut self, place: u64, bytes: Bytes) -> (u32, u32) {
        self.runs.push(Run { place, data: RunData::Given(bytes) });
        (self.runs.len() as u32 - 1, 0)
    }
    /// The bytes of a run from this block on.
    pub fn run_from(&self, run: u32, block: u32) -> &[u8] {
        &self.runs[run as usize].bytes()[block as usize * BLOCK as usize..]
    }
    /// The block of a run while the record is open.
    pub fn run_block(&self, run: usize, block: u32) -> Bytes {
        let at = block as usize * BLOCK as usize;
        let range = at..at + BLOCK as usize;
        match &self.runs[run].data {
            RunData::Gathered(buf) => Bytes::copy_from_slice(&buf[range]),
            RunData::Given(bytes) => bytes.slice(range),
        }
    }
    /// Finishes the record: its header, filled in but for what only this knows, and its bytes.
    pub fn seal(self, mut header: Header, uuid: &[u8; 16], seed: u32) -> Sealed {
        header.seq = self.seq;
        header.meta_len = self.meta.len() as u32;
        header.images = self.images() as u32;
        header.meta_crc = base::crc32c(seed, &self.meta);
        let Self { seq, meta, mut buf, places, runs, tokens, .. } = self;
        let (head, rest) = meta.split_at(meta.len().min(HEAD_ROOM));
        buf[..HEADER].copy_from_slice(&header.encode(uuid));
        buf[HEADER..HEADER + head.len()].copy_from_slice(head);
        buf.push(rest);
        buf.pad();
        assert_eq!(buf.len() as u64, header.blocks() * BLOCK);
        let runs = runs.into_iter().map(|run| (run.place, run.freeze())).collect();
        Sealed { seq, bytes: buf.freeze(), places, runs, tokens, changes: meta }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_not_copied_and_what_is_copied_is_gathered() {
        const N: usize = BLOCK as usize;
        let all = AlignedBuf::padded(&[7; 16 * N]).freeze();
        assert!(Batch::can_be_given(&all) && Batch::can_be_given(&all[N..9 * N]));
        assert!(!Batch::can_be_given(&all[1..8 * N + 1]) && !Batch::can_be_given(&all[..N]) && !Batch::can_be_given(&all[..5 * N + 1]));
        let mut batch = Batch::new(1, 0);
        assert_eq!(batch.run(100, [&all[..N], &[], &[]]), (0, 0));
        assert_eq!(batch.run(101, [&[3; 96], &all[..N - 96], &[]]), (0, 1));
        assert_eq!(batch.give(102, all.slice(..8 * N)), (1, 0));
        // Nothing is put behind memory of another owner.
        assert_eq!(batch.run(110, [&all[..N], &[], &[]]), (2, 0));
        assert_eq!((batch.run_block(0, 1)[..97].to_vec(), batch.run_block(1, 7).len()), ([vec![3; 96], vec![7]].concat(), N));
        assert_eq!(batch.bytes(), N + 11 * N);
        let runs: Vec<_> = batch.runs.drain(..).map(|r| (r.place, r.gathered(), r.freeze())).collect();
        assert_eq!(runs.iter().map(|r| (r.0, r.1)).collect::<Vec<_>>(), [(100, 2 * N), (102, 0), (110, N)]);
        assert_eq!(runs[1].2.as_ptr(), all.as_ptr());
    }
}
