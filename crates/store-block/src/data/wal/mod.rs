//! The log: records in a ring, each one group commit.
//!
//! A record lies in whole blocks: the head block (header, then metadata), the images of small overwrites, then what of the metadata did not fit
//! into the head block.
//!
//! ```text
//! 0 magic u32       4 crc of bytes 8..64, u32      8 uuid             24 seq u64           32 durable u64
//! 40 epoch u32     44 lap u32    48 metadata bytes u32    52 images u32    56 block u32 (where it is)    60 crc of the metadata u32
//! ```
//! - `seq` counts records; `durable` is the newest record that was durable, with its data, when this one was made.
//! - `lap` counts how often the ring was gone round; `epoch` how often the store was opened: what a crash left behind the end of the log is
//!   never taken for what was written there later, since epochs don't go back; of two records of one number, the later epoch's counts.
//!
//! **The end of the log** is where the next record is not: no header, or one whose metadata, images or directly written data have not their
//! crcs. Records are under way together, so one that is whole may stand behind one that is torn. None of them has been acknowledged then.
//! But if any record behind the end says that the missing one **was** durable, it was damaged, and that is not the end.

mod ahead;
mod batch;
mod ring;

pub use ahead::Ahead;
pub use batch::{Batch, Sealed};
pub use ring::Ring;

use crate::open::layout::BLOCK;
use crate::rows::codec::Corrupt;

const MAGIC: u32 = u32::from_le_bytes(*b"HWAL");
pub const HEADER: usize = 64;
/// Metadata that the head block has room for.
pub const HEAD_ROOM: usize = BLOCK as usize - HEADER;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub seq: u64,
    pub durable: u64,
    pub epoch: u32,
    pub lap: u32,
    pub meta_len: u32,
    pub images: u32,
    /// Of the ring.
    pub block: u32,
    pub meta_crc: u32,
}

impl Header {
    /// Blocks of the whole record.
    pub fn blocks(&self) -> u64 {
        blocks(self.meta_len as usize, u64::from(self.images))
    }
    pub fn encode(&self, uuid: &[u8; 16]) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..24].copy_from_slice(uuid);
        out[24..32].copy_from_slice(&self.seq.to_le_bytes());
        out[32..40].copy_from_slice(&self.durable.to_le_bytes());
        for (at, v) in [(40, self.epoch), (44, self.lap), (48, self.meta_len), (52, self.images), (56, self.block), (60, self.meta_crc)] {
            out[at..at + 4].copy_from_slice(&v.to_le_bytes());
        }
        let crc = base::crc32c(u32::MAX, &out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }
    /// Of a head block. Says nothing about the rest of the record.
    pub fn decode(block: &[u8], uuid: &[u8; 16]) -> Result<Self, Corrupt> {
        let u32_at = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().expect("a head block has a header"));
        let u64_at = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("a head block has a header"));
        if block.len() < HEADER || u32_at(0) != MAGIC || block[8..24] != *uuid {
            return Err(Corrupt("no record of this store"));
        }
        if base::crc32c(u32::MAX, &block[8..HEADER]) != u32_at(4) {
            return Err(Corrupt("a record's header has not its crc"));
        }
        Ok(Self {
            seq: u64_at(24),
            durable: u64_at(32),
            epoch: u32_at(40),
            lap: u32_at(44),
            meta_len: u32_at(48),
            images: u32_at(52),
            block: u32_at(56),
            meta_crc: u32_at(60),
        })
    }
}

/// Blocks of a record with so many bytes of metadata and so many images.
pub fn blocks(meta_len: usize, images: u64) -> u64 {
    1 + images + (meta_len.saturating_sub(HEAD_ROOM) as u64).div_ceil(BLOCK)
}
