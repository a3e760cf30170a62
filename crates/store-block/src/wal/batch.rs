//! The record that is being gathered: changes, images, and data that goes straight to its place.

use super::{HEAD_ROOM, HEADER, Header, blocks};
use crate::layout::BLOCK;
use bytes::Bytes;
use disk::AlignedBuf;

/// Neighbouring blocks that are written to their place beside the record.
#[derive(Debug)]
pub struct Run {
    pub place: u64,
    pub buf: AlignedBuf,
}

impl Run {
    pub fn blocks(&self) -> u64 {
        self.buf.len() as u64 / BLOCK
    }
}

/// A run is not grown beyond this, in bytes: what grows is copied, and buffers of one size come back from their pool. Neighbouring runs are written
/// together.
const RUN_MAX: usize = 64 << 10;

/// Memory for changes that goes from one record to the next, in bytes, at most.
const META_KEPT: usize = 256 << 10;

#[derive(Debug)]
pub struct Batch {
    pub seq: u64,
    /// Encoded changes.
    pub meta: Vec<u8>,
    /// The head block's room, then the images.
    buf: AlignedBuf,
    /// Where each image belongs.
    pub places: Vec<u64>,
    pub runs: Vec<Run>,
    /// Of whole transactions.
    pub tokens: Vec<u64>,
    /// Bytes of the longest run of the record before, as a guess.
    pub run_like: usize,
}

impl Batch {
    /// `like`: bytes that the buffer should have room for.
    pub fn new(seq: u64, like: usize) -> Self {
        let mut buf = AlignedBuf::with_capacity(like.max(2 * BLOCK as usize));
        buf.push_zeros(BLOCK as usize);
        Self { seq, meta: Vec::new(), buf, places: Vec::new(), runs: Vec::new(), tokens: Vec::new(), run_like: 0 }
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
        self.buf.len() + self.meta.len() + self.runs.iter().map(|r| r.buf.len()).sum::<usize>()
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
    /// A copy of an image while the record is open.
    pub fn copy_image(&self, n: u32) -> Bytes {
        let at = (1 + n as usize) * BLOCK as usize;
        Bytes::copy_from_slice(&self.buf[at..at + BLOCK as usize])
    }
    /// A run that ends where `place` begins, or a new one; with it the block of the run that comes next.
    pub fn run_for(&mut self, place: u64, blocks: u64) -> (usize, u32) {
        let len = (blocks * BLOCK) as usize;
        match self.runs.last() {
            Some(run) if run.place + run.blocks() == place && run.buf.len() + len <= RUN_MAX => {}
            // Others will follow.
            _ => self.runs.push(Run { place, buf: AlignedBuf::with_capacity(len.max(self.run_like.min(RUN_MAX))) }),
        }
        let n = self.runs.len() - 1;
        (n, self.runs[n].blocks() as u32)
    }
    pub fn copy_run(&self, run: usize, block: u32) -> Bytes {
        let at = block as usize * BLOCK as usize;
        Bytes::copy_from_slice(&self.runs[run].buf[at..at + BLOCK as usize])
    }
    /// Finishes the record: its header, filled in but for what only this knows, and its bytes.
    pub fn seal(&mut self, mut header: Header, uuid: &[u8; 16], seed: u32) -> Bytes {
        header.seq = self.seq;
        header.meta_len = self.meta.len() as u32;
        header.images = self.images() as u32;
        header.meta_crc = base::crc32c(seed, &self.meta);
        let mut buf = std::mem::replace(&mut self.buf, AlignedBuf::with_capacity(1));
        let (head, rest) = self.meta.split_at(self.meta.len().min(HEAD_ROOM));
        buf[..HEADER].copy_from_slice(&header.encode(uuid));
        buf[HEADER..HEADER + head.len()].copy_from_slice(head);
        buf.push(rest);
        buf.pad();
        assert_eq!(buf.len() as u64, header.blocks() * BLOCK);
        buf.freeze()
    }
}
