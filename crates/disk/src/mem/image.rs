//! The bytes of a set of devices, sparse: blocks that were never written are zeros and cost nothing.

use crate::BLOCK_BYTES;
use crate::disks::Dev;
use bytes::Bytes;

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
