//! The bytes of a set of devices, sparse: blocks that were never written are zeros and cost nothing.

use crate::BLOCK_BYTES;
use crate::disks::Dev;
use bytes::Bytes;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Something for some blocks of a set of devices. Blocks are numbers that nobody chooses to our harm: one multiplication tells them apart, where
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
type Leaf = Box<[Option<Bytes>; FAN]>;

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
    /// A block's bytes; `None`: zeros.
    pub fn block(&self, dev: Dev, block: u64) -> Option<&Bytes> {
        self.devs[dev.0 as usize].leaves.get(block as usize / FAN)?.as_ref()?[block as usize % FAN].as_ref()
    }
    pub fn set(&mut self, dev: Dev, block: u64, bytes: Bytes) {
        assert_eq!(bytes.len(), BLOCK_BYTES, "one block");
        let dev = &mut self.devs[dev.0 as usize];
        assert!(block < dev.len_bytes / BLOCK_BYTES as u64, "within the device");
        let leaf = block as usize / FAN;
        if dev.leaves.len() <= leaf {
            dev.leaves.resize_with(leaf + 1, || None);
        }
        dev.leaves[leaf].get_or_insert_with(|| Box::new([const { None }; FAN]))[block as usize % FAN] = Some(bytes);
    }
}
