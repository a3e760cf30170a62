//! What happens to an operation between its queueing and its completion.

use super::{Block, Durability, Inner, NEWEST, Op, OpKind, Order, Work};
use crate::buf::{ZEROS_BYTES, zero_blocks};
use crate::disks::{Completion, Dev, Token};
use crate::mem::FaultKind;
use crate::{AlignedBuf, BLOCK_BYTES, DiskError};
use bytes::Bytes;

/// What a device writes whole or not at all, in bytes.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Of a write that is not longer, blocks stay in its buffers.
const KEPT_BYTES: usize = 64 << 10;

impl Op {
    fn kind(&self) -> OpKind {
        match self.work {
            Work::Read => OpKind::Read,
            Work::Write(..) => OpKind::Write,
            Work::Discard(_) => OpKind::Discard,
            Work::Flush => OpKind::Flush,
        }
    }
    fn changes(&self) -> bool {
        matches!(self.work, Work::Write(..) | Work::Discard(_))
    }
    fn overlaps(&self, other: &Op) -> bool {
        let end = |op: &Op| op.offset + op.len_bytes as u64;
        self.dev == other.dev && self.offset < end(other) && other.offset < end(self)
    }
}

impl Inner {
    pub(super) fn queue(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize, work: Work) {
        let block = BLOCK_BYTES as u64;
        assert!(offset.is_multiple_of(block) && (len_bytes as u64).is_multiple_of(block), "whole blocks");
        let op = Op { token, dev, offset, len_bytes, work, recorded: None, fault: None };
        let end = offset.checked_add(len_bytes as u64).expect("an end");
        assert!(end <= self.base.len_bytes(dev), "{len_bytes} bytes at {offset} are not within device {}", dev.0);
        assert!(len_bytes > 0 || matches!(op.work, Work::Flush), "a transfer of something");
        if op.changes() {
            let mut others = self.queued.iter().chain(&self.under_way).filter(|o| o.changes());
            assert!(!others.any(|o| o.overlaps(&op)), "two writes to a block at device {} offset {offset} are under way together", dev.0);
        }
        // A flush covers what had completed when it was queued, so that moment is what is recorded.
        let recorded = match (&mut self.recording, &op.work) {
            (Some(recording), Work::Write(bufs, durability)) => Some(recording.write(dev, offset, bufs, *durability)),
            (Some(recording), Work::Discard(bufs)) => Some(recording.write(dev, offset, bufs, Durability::Volatile)),
            (Some(recording), Work::Flush) => Some(recording.flush(dev)),
            _ => None,
        };
        self.queued.push(Op { recorded, ..op });
    }

    pub(super) fn kick(&mut self) {
        let mut queued = std::mem::take(&mut self.queued);
        for mut op in queued.drain(..) {
            op.fault = self.faults.strike(self.started, op.kind(), op.dev);
            self.started += 1;
            let blocks = op.offset / BLOCK_BYTES as u64..(op.offset + op.len_bytes as u64) / BLOCK_BYTES as u64;
            match op.work {
                Work::Read if self.faults.fails(op.dev, blocks.clone()) => op.fault = Some(FaultKind::Error),
                Work::Write(..) => {
                    let newest = &mut self.newest[op.dev.0 as usize];
                    newest.drain(..(newest.len() + 1).saturating_sub(NEWEST));
                    newest.push_back(blocks);
                }
                _ => {}
            }
            let traffic = &mut self.traffic[op.dev.0 as usize];
            match &op.work {
                Work::Read => {
                    traffic.reads += 1;
                    traffic.read_bytes += op.len_bytes as u64;
                }
                Work::Write(_, durability) => {
                    traffic.writes += 1;
                    traffic.written_bytes += op.len_bytes as u64;
                    traffic.durable_writes += (*durability == Durability::Durable) as u64;
                }
                Work::Discard(_) => {
                    traffic.discards += 1;
                    traffic.discarded_bytes += op.len_bytes as u64;
                }
                Work::Flush => traffic.flushes += 1,
            }
            self.under_way.push(op);
        }
        self.queued = queued;
        if self.order == Order::AtOnce {
            while !self.under_way.is_empty() {
                self.finish(0);
            }
        }
    }

    /// Completes about half of what is under way, in any order.
    pub(super) fn finish_some(&mut self) {
        for _ in 0..self.under_way.len() {
            if self.rng.chance(1, 2) {
                let at = self.rng.below(self.under_way.len() as u64) as usize;
                self.finish(at);
            }
        }
    }

    /// Completes one operation that is under way.
    pub(super) fn finish(&mut self, at: usize) {
        let op = self.under_way.remove(at);
        let error = op.fault.and_then(|f| f.error(op.kind(), op.dev, op.offset, op.len_bytes, &mut self.rng));
        if let (Some(recording), Some(recorded)) = (&mut self.recording, op.recorded) {
            recording.done(recorded, error.is_none());
        }
        let result = match (&op.work, &error) {
            (Work::Write(bufs, _) | Work::Discard(bufs), _) => {
                self.land(&op, bufs, error.as_ref());
                error.map_or(Ok(None), Err)
            }
            (_, Some(_)) => error.map_or(Ok(None), Err),
            (Work::Read, None) => Ok(Some(self.fetch(&op))),
            (Work::Flush, None) => Ok(None),
        };
        self.done.push(Completion { token: op.token, result });
    }

    /// Completes the oldest operation that is under way, after its process.
    pub(super) fn land_unheard(&mut self) {
        let oldest = &mut self.under_way[0];
        if let (Work::Write(..) | Work::Discard(_), None, Some(recording)) = (&oldest.work, oldest.fault, &mut self.recording) {
            oldest.recorded.take().into_iter().for_each(|op| recording.landed(op));
        }
        self.finish(0);
    }

    pub(super) fn copy_block(&self, dev: Dev, block: u64, out: &mut [u8]) {
        match self.block(dev, block) {
            Some(block) => out.copy_from_slice(block.bytes()),
            None => out.fill(0),
        }
    }
    fn block(&self, dev: Dev, block: u64) -> Option<&Block> {
        self.over.get(&(dev, block)).or_else(|| self.base.get(dev, block))
    }

    /// What is to be read, without a copy if it lies in memory as it lies on the device: in what was written at once, or if it is all zeros.
    fn fetch_shared(&self, op: &Op) -> Option<AlignedBuf> {
        let blocks = op.offset / BLOCK_BYTES as u64..(op.offset + op.len_bytes as u64) / BLOCK_BYTES as u64;
        let Some(first) = self.block(op.dev, blocks.start) else {
            let zeros = (op.len_bytes <= ZEROS_BYTES).then(|| zero_blocks(op.len_bytes as u64))?;
            let is_zeros = blocks.into_iter().all(|block| self.block(op.dev, block).is_none());
            return is_zeros.then(|| AlignedBuf::shared(zeros[0].clone()));
        };
        // Where the next block is if it lies in the same memory: that is alive, so whatever is found there is of it.
        let tail = first.tail(op.len_bytes).filter(|tail| tail.len() == op.len_bytes)?;
        let next = |block: u64| &tail[(block - blocks.start) as usize * BLOCK_BYTES..];
        let is_one = |block| self.block(op.dev, block).is_some_and(|b| std::ptr::eq(b.bytes().as_ptr(), next(block).as_ptr()));
        (blocks.start + 1..blocks.end).all(is_one).then(|| AlignedBuf::shared(first.slice(op.len_bytes)))
    }
    fn fetch(&mut self, op: &Op) -> AlignedBuf {
        let mut buf = self.fetch_shared(op).unwrap_or_else(|| {
            let mut buf = AlignedBuf::for_read(op.len_bytes);
            let first = op.offset / BLOCK_BYTES as u64;
            for (block, out) in (first..).zip(buf.chunks_exact_mut(BLOCK_BYTES)) {
                self.copy_block(op.dev, block, out);
            }
            buf
        });
        if op.fault == Some(FaultKind::FlipRead) {
            self.flip(&mut buf);
        }
        buf
    }
    fn flip(&mut self, bytes: &mut [u8]) {
        let bit = self.rng.below(bytes.len() as u64 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
    }

    /// What a write leaves: all of it, or with an error the first part (short) or any sectors.
    fn land(&mut self, op: &Op, bufs: &[Bytes], error: Option<&DiskError>) {
        let pieces = bufs.iter().flat_map(Block::all_of);
        let flipped = (op.fault == Some(FaultKind::FlipWrite)).then(|| self.rng.below((op.len_bytes / BLOCK_BYTES) as u64));
        for (n, new) in pieces.enumerate() {
            let block = op.offset / BLOCK_BYTES as u64 + n as u64;
            self.faults.written(op.dev, block);
            if error.is_none() && flipped != Some(n as u64) {
                // Recorded bytes are kept anyway; others are copied, so that a block does not keep a large buffer.
                let kept = if op.recorded.is_some() || op.len_bytes <= KEPT_BYTES { new } else { Block::of(new.bytes()) };
                self.over.insert((op.dev, block), kept);
                continue;
            }
            let mut mixed = [0; BLOCK_BYTES];
            self.copy_block(op.dev, block, &mut mixed);
            for (s, sector) in mixed.chunks_exact_mut(SECTOR_BYTES).enumerate() {
                let at = n * BLOCK_BYTES + s * SECTOR_BYTES;
                let lands = match error {
                    None => true,
                    Some(DiskError::Short { done_bytes, .. }) => at < *done_bytes,
                    Some(_) => self.rng.chance(1, 2),
                };
                if lands {
                    sector.copy_from_slice(&new.bytes()[s * SECTOR_BYTES..][..SECTOR_BYTES]);
                }
            }
            if flipped == Some(n as u64) {
                self.flip(&mut mixed);
            }
            self.over.insert((op.dev, block), Block::of(&mixed));
        }
    }
}
