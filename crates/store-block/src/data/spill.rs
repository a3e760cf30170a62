//! Changes of a transaction that is larger than a record should be: they go to chunks of the data device as they are made, and the record only names
//! them. A transaction of any size is one record so, and all of it is there with that record or nothing is.
//!
//! ```text
//!   changes ──> open record ──(so many bytes)──> chunks, durable ─┐
//!                    └── Spill { where, crc } ──> record ─────────┴──> the record is done
//!   a start: Spill ──> the changes, in the place of the Spill      a checkpoint: the chunks are free
//! ```
//! - The chunks are lent to the log: stored as free, like those of metadata, since the next checkpoint does not need them. Until then
//!   no other may have them: [`Spills::free`] gives them back when the superblock is durable that trims the record.
//! - Images stay in the record, in the order of all changes, and it says their crcs. Blocks that are written in part move their cells where a record has
//!   many images ([`Core::images_max`]).
//! - A record in the ring is bounded by the ring, which other transactions, checkpoints and the next start share; a chunk of the data device is bounded by
//!   nothing but the room that admission promised.

use crate::data::io::Purpose;
use crate::data::ops::Op;
use crate::open::layout::{BLOCK, CHUNK, CHUNK_BLOCKS, DATA, block_crc};
use crate::open::recover::OpenError;
use crate::place::alloc::Alloc;
use crate::planted::{Bug, planted};
use crate::rows::codec::{Corrupt, Get, Put};
use crate::state::Core;
use bytes::Bytes;
use disk::{AlignedBuf, Durability};
use std::collections::VecDeque;

/// Chunks that records which are not trimmed have their changes in.
#[derive(Debug, Default)]
pub struct Spills {
    /// The record, and the chunk; ascending by record.
    chunks: VecDeque<(u64, u64)>,
    /// Writes of the open record's chunks that have not completed.
    under_way: usize,
}

impl Spills {
    pub fn chunks(&self) -> impl Iterator<Item = u64> + '_ {
        self.chunks.iter().map(|(_, chunk)| *chunk)
    }
    /// The open record is sealed: so many of its writes have not completed.
    pub fn seal(&mut self) -> usize {
        std::mem::take(&mut self.under_way)
    }
    /// A write of the open record has completed.
    pub fn done(&mut self) {
        self.under_way -= 1;
    }
    /// A checkpoint has trimmed the log up to before this record.
    pub fn free(&mut self, before: u64, alloc: &mut Alloc) {
        while let Some((_, chunk)) = self.chunks.pop_front_if(|(seq, _)| *seq < before) {
            alloc.take_back(chunk);
        }
    }
    /// A record that is replayed has its changes in these chunks: nothing else may have them until it is trimmed.
    pub fn hold(&mut self, seq: u64, len: u64, chunks: &[u8], alloc: &mut Alloc) -> Result<(), Corrupt> {
        for chunk in spilled_chunks(len, chunks)? {
            if !alloc.lend_this(chunk) {
                return Err(Corrupt("changes beside a record are in a chunk that is not free"));
            }
            self.chunks.push_back((seq, chunk));
        }
        Ok(())
    }
    pub fn memory(&self) -> usize {
        self.chunks.capacity() * size_of::<(u64, u64)>()
    }
}

/// Neighbouring chunks, as first and number.
fn runs(chunks: &[u64]) -> impl Iterator<Item = (u64, u64)> + '_ {
    chunks.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run.len() as u64))
}

impl Core {
    /// Bytes of changes of one transaction that are spilled together. Also how much of a large one is made in one step: some milliseconds' work.
    fn spill_bytes(&self) -> usize {
        self.cfg.spill_bytes.min((self.log.txn_max() * BLOCK / 16) as usize).max(1)
    }
    /// Chunks that so many bytes of changes of one transaction may need.
    pub fn chunks_to_spill(&self, bytes: u64) -> u64 {
        let together = self.spill_bytes() as u64;
        if bytes < together { 0 } else { 1 + bytes / CHUNK + bytes / together }
    }
    /// Puts what the open record has of changes so far beside it, if the transaction that is being made has many. True if it did: a step is done.
    pub fn spill_if_many(&mut self) -> bool {
        if self.log.open().changes_len() < self.queue.spill_from() + self.spill_bytes() {
            return false;
        }
        let changes = self.log.open_mut().take_changes();
        let mut chunks = Vec::new();
        for _ in 0..(changes.len() as u64).div_ceil(CHUNK) {
            match self.alloc.lend() {
                Some(chunk) => chunks.push(chunk),
                None => {
                    // More than was promised: they stay in the record.
                    chunks.into_iter().for_each(|chunk| self.alloc.take_back(chunk));
                    self.log.open_mut().put_back(&changes);
                    self.queue.set_spill_from(self.log.open().changes_len());
                    return false;
                }
            }
        }
        let seq = self.log.seq();
        self.replay.beside(changes.len());
        self.spills.chunks.extend(chunks.iter().map(|chunk| (seq, *chunk)));
        let mut places = Vec::new();
        chunks.iter().for_each(|chunk| places.put_var(*chunk));
        let mut images = Vec::new();
        for n in self.log.open_mut().take_images() {
            images.put_u32(block_crc(self.log.open().get_image(n as u32)));
        }
        let (len, crc) = (changes.len() as u64, base::crc32c(self.seed, &changes));
        let op = Op::Spill { len, crc, chunks: &places[..], images: &images[..] };
        self.log.put(&op);
        let bytes = AlignedBuf::padded(&changes).freeze();
        let durability = if planted(Bug::VolatileSpill) { Durability::Volatile } else { Durability::Durable };
        let mut at = 0;
        for (first, n) in runs(&chunks) {
            let end = bytes.len().min(at + (n * CHUNK) as usize);
            self.io.write(Purpose::Spill { seq }, DATA, first * CHUNK_BLOCKS, vec![bytes.slice(at..end)], durability);
            self.spills.under_way += 1;
            at = end;
        }
        self.log.open_mut().is_pointers();
        self.queue.set_spill_from(self.log.open().changes_len());
        if planted(Bug::ReuseSpill) {
            self.spills.free(u64::MAX, &mut self.alloc);
        }
        true
    }

    /// The changes that a record has in these chunks; `None` if what is there has not the crc.
    pub fn read_spill(&mut self, len: u64, crc: u32, chunks: &[u8]) -> Result<Option<Bytes>, OpenError> {
        let chunks = spilled_chunks(len, chunks)?;
        let mut all = Vec::with_capacity(len as usize);
        for (first, n) in runs(&chunks) {
            let blocks = (n * CHUNK_BLOCKS).min((len - all.len() as u64).div_ceil(BLOCK));
            if (first + n) * CHUNK_BLOCKS > self.sb.data_blocks {
                return Ok(None);
            }
            match self.io.read_now(DATA, first * CHUNK_BLOCKS, blocks) {
                Ok(bytes) => all.extend_from_slice(&bytes),
                Err(_) if self.cfg.cut_log => return Ok(None),
                // It may have been durable: that is no end of the log.
                Err(e) => {
                    return Err(self.cfg.log_damaged(format!("the log is damaged: changes beside a record can't be read: {e}")));
                }
            }
        }
        all.truncate(len as usize);
        let is_whole = base::crc32c(self.seed, &all) == crc || planted(Bug::TakeMissingSpill);
        Ok(is_whole.then(|| all.into()))
    }
    /// True if the changes beside a record are all at their places.
    pub fn has_spilled(&mut self, ops: &[Op<Bytes>]) -> Result<bool, OpenError> {
        for op in ops {
            if let Op::Spill { len, crc, chunks, .. } = op
                && self.read_spill(*len, *crc, chunks)?.is_none()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The chunks that a record names.
fn spilled_chunks(len: u64, chunks: &[u8]) -> Result<Vec<u64>, Corrupt> {
    let (mut get, mut out) = (Get::new(chunks), Vec::new());
    while !get.is_empty() {
        out.push(get.var()?);
    }
    if out.len() as u64 != len.div_ceil(CHUNK) {
        return Err(Corrupt("changes beside a record have not as many chunks as they need"));
    }
    Ok(out)
}
