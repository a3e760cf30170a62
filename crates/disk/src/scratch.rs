//! A set of devices that is only read: what is written to it stays in memory, over what the devices have. For tools that look at a store, which
//! shall leave it as they found it.

use crate::BLOCK_BYTES;
use crate::disks::{Completion, Dev, Disks, Durability, Token};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::os::fd::RawFd;

/// Devices under a layer of memory. What is written is visible to reads that are queued later, and gone with the value; memory grows with it.
pub struct ScratchDisks<D> {
    under: D,
    over: BTreeMap<(Dev, u64), Bytes>,
    /// Reads under way: what lies over them.
    reads: BTreeMap<Token, Vec<(usize, Bytes)>>,
    done: Vec<Completion>,
}

impl<D: Disks> ScratchDisks<D> {
    pub fn new(under: D) -> Self {
        Self { under, over: BTreeMap::new(), reads: BTreeMap::new(), done: Vec::new() }
    }
}

impl<D: Disks> Disks for ScratchDisks<D> {
    fn len_bytes(&self, dev: Dev) -> u64 {
        self.under.len_bytes(dev)
    }
    fn read(&mut self, token: Token, dev: Dev, offset: u64, len_bytes: usize) {
        let first = offset / BLOCK_BYTES as u64;
        let patches =
            (0..len_bytes / BLOCK_BYTES).filter_map(|n| Some((n * BLOCK_BYTES, self.over.get(&(dev, first + n as u64))?.clone())));
        let patches: Vec<_> = patches.collect();
        if !patches.is_empty() {
            self.reads.insert(token, patches);
        }
        self.under.read(token, dev, offset, len_bytes);
    }
    fn write(&mut self, token: Token, dev: Dev, offset: u64, bufs: Vec<Bytes>, _: Durability) {
        let pieces = bufs.iter().flat_map(|b| (0..b.len()).step_by(BLOCK_BYTES).map(|at| b.slice(at..at + BLOCK_BYTES)));
        for (block, piece) in (offset / BLOCK_BYTES as u64..).zip(pieces) {
            self.over.insert((dev, block), piece);
        }
        self.done.push(Completion { token, result: Ok(None) });
    }
    fn flush(&mut self, token: Token, _: Dev) {
        self.done.push(Completion { token, result: Ok(None) });
    }
    fn discard(&mut self, token: Token, _: Dev, _: u64, _: usize) {
        // Anything may be there now: it stays as it is.
        self.done.push(Completion { token, result: Ok(None) });
    }
    fn kick(&mut self) {
        self.under.kick();
    }
    fn poll(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
        let first = out.len();
        self.under.poll(out);
        for completion in &mut out[first..] {
            let patches = self.reads.remove(&completion.token);
            if let (Ok(Some(buf)), Some(patches)) = (&mut completion.result, patches) {
                patches.iter().for_each(|(at, bytes)| buf[*at..at + BLOCK_BYTES].copy_from_slice(bytes));
            }
        }
    }
    fn in_flight(&self) -> usize {
        self.under.in_flight() + self.done.len()
    }
    fn wait(&mut self) {
        self.under.kick();
        if self.done.is_empty() {
            self.under.wait();
        }
    }
    fn event_fd(&self) -> Option<RawFd> {
        self.under.event_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuf, MemDisks};

    #[test]
    fn writes_are_seen_and_never_reach_the_device() {
        let mut mem = MemDisks::new(&[1 << 20]);
        let buf = |byte| vec![AlignedBuf::padded(&[byte; BLOCK_BYTES]).freeze()];
        mem.write(1, Dev(0), 4096, buf(1), Durability::Durable);
        mem.kick();
        mem.poll(&mut Vec::new());
        let before = mem.traffic(Dev(0));
        let mut scratch = ScratchDisks::new(mem.clone());
        scratch.write(2, Dev(0), 8192, buf(2), Durability::Durable);
        scratch.flush(3, Dev(0));
        scratch.read(4, Dev(0), 0, 4 * BLOCK_BYTES);
        scratch.wait();
        let mut out = Vec::new();
        while scratch.in_flight() > 0 {
            scratch.wait();
            scratch.poll(&mut out);
        }
        assert_eq!(out.len(), 3);
        let read = out.pop().expect("the read").result.expect("a read").expect("bytes");
        assert_eq!(read.chunks(BLOCK_BYTES).map(|b| b[0]).collect::<Vec<_>>(), [0, 1, 2, 0]);
        assert_eq!(mem.traffic(Dev(0)).writes, before.writes);
    }
}
