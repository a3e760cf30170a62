//! The bytes of a set of devices, sparse: blocks that were never written are zeros and cost nothing.

use crate::disks::Dev;
use crate::{AlignedBuf, BLOCK_BYTES};
use base::fixed::HashMap;
use bytes::Bytes;
use std::hash::{BuildHasherDefault, Hasher};

/// Something for some blocks of a set of devices. Blocks are numbers that no peer chooses to our harm: one multiplication tells them apart, where
/// the standard hash took a tenth of a crash state's time.
pub(crate) type Blocks<V> = HashMap<(Dev, u64), V, BuildHasherDefault<BlockHasher>>;

#[derive(Debug, Default)]
pub(crate) struct BlockHasher(u64);

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u8(&mut self, v: u8) {
        self.write_u64(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(32) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

const FAN: usize = 256;
type Leaf = Box<[Option<Block>; FAN]>;

/// The content of a block, shared with whatever lies behind it in the buffer that it was written from: so a read finds out what of it is one piece
/// of memory, and needs no copy of that.
#[derive(Debug, Clone)]
pub(crate) struct Block(Bytes);

impl Block {
    /// The blocks of a buffer, in order.
    pub(crate) fn all_of(buf: &Bytes) -> impl Iterator<Item = Self> {
        assert!(buf.len().is_multiple_of(BLOCK_BYTES), "whole blocks");
        (0..buf.len()).step_by(BLOCK_BYTES).map(|at| Self(buf.slice(at..)))
    }
    /// One block of its own.
    pub(crate) fn of(bytes: &[u8; BLOCK_BYTES]) -> Self {
        Self(AlignedBuf::padded(bytes).freeze())
    }
    pub(crate) fn bytes(&self) -> &[u8; BLOCK_BYTES] {
        self.0.first_chunk().expect("a block is whole")
    }
    /// The block and those that lie behind it, up to `len_bytes`, aligned as devices want it; `None` if this one is not.
    pub(crate) fn tail(&self, len_bytes: usize) -> Option<&[u8]> {
        let aligned = (self.0.as_ptr() as usize).is_multiple_of(BLOCK_BYTES);
        aligned.then(|| &self.0[..self.0.len().min(len_bytes)])
    }
    /// The first `len_bytes` of [`Block::tail`].
    pub(crate) fn slice(&self, len_bytes: usize) -> Bytes {
        self.0.slice(..len_bytes)
    }
}

/// The content of each device, by block.
#[derive(Debug, Clone, Default)]
pub struct Image {
    devs: Vec<Contents>,
}

#[derive(Debug, Clone, Default)]
struct Contents {
    len_bytes: u64,
    leaves: Vec<Option<Leaf>>,
}

impl Image {
    /// Devices of these sizes in bytes, all zeros.
    pub fn zeros(lens_bytes: &[u64]) -> Self {
        let dev = |len_bytes: &u64| {
            assert!(len_bytes.is_multiple_of(BLOCK_BYTES as u64), "whole blocks");
            Contents { len_bytes: *len_bytes, leaves: Vec::new() }
        };
        Self { devs: lens_bytes.iter().map(dev).collect() }
    }
    pub fn devs(&self) -> usize {
        self.devs.len()
    }
    pub fn len_bytes(&self, dev: Dev) -> u64 {
        self.devs[dev.0 as usize].len_bytes
    }
    /// A device becomes larger: zeros behind what is there.
    pub(crate) fn enlarge(&mut self, dev: Dev, len_bytes: u64) {
        let dev = &mut self.devs[dev.0 as usize];
        assert!(len_bytes >= dev.len_bytes && len_bytes.is_multiple_of(BLOCK_BYTES as u64), "larger, by whole blocks");
        dev.len_bytes = len_bytes;
    }
    /// A block's bytes; `None`: zeros.
    pub fn block(&self, dev: Dev, block: u64) -> Option<&[u8; BLOCK_BYTES]> {
        self.get(dev, block).map(Block::bytes)
    }
    /// The blocks of a device that were ever written, ascending.
    pub fn written(&self, dev: Dev) -> impl Iterator<Item = u64> {
        let leaves = self.devs[dev.0 as usize].leaves.iter().enumerate();
        let blocks = leaves.flat_map(|(n, leaf)| leaf.iter().map(move |leaf| (n, leaf)));
        blocks.flat_map(|(n, leaf)| (0..FAN).filter(|at| leaf[*at].is_some()).map(move |at| (n * FAN + at) as u64))
    }
    pub(crate) fn get(&self, dev: Dev, block: u64) -> Option<&Block> {
        self.devs[dev.0 as usize].leaves.get(block as usize / FAN)?.as_ref()?[block as usize % FAN].as_ref()
    }
    pub(crate) fn set(&mut self, dev: Dev, block: u64, bytes: Block) {
        let dev = &mut self.devs[dev.0 as usize];
        assert!(block < dev.len_bytes / BLOCK_BYTES as u64, "within the device");
        let leaf = block as usize / FAN;
        if dev.leaves.len() <= leaf {
            dev.leaves.resize_with(leaf + 1, || None);
        }
        dev.leaves[leaf].get_or_insert_with(|| Box::new([const { None }; FAN]))[block as usize % FAN] = Some(bytes);
    }
}
