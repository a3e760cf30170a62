//! How long a start would take to replay the log, by estimate: a checkpoint begins before that is too long, however large the log is and
//! however much memory changes may take.
//!
//! ```text
//!   records, objects that change ──> since the last freeze ──(freeze)──> frozen ──(the checkpoint is durable)──> forgotten
//! ```
//! An estimate is of what a start does, priced as on a device that reads 1 GB/s and 40,000 leaves a second; where a device is slower, a
//! start is, by as much. To estimate takes one addition for each record, and one for each object that changes.

use crate::open::layout::BLOCK;

/// To find a record, to check it and to take it apart, nanoseconds.
const RECORD_NS: u64 = 6_000;
/// To read a block of the log, and its checksum.
const BLOCK_NS: u64 = 4_000;
/// To carry out changes, for each byte that they are encoded in. Measured: 44,000 new objects of 4 KiB in 56 MB of log, 4.3 us of CPU for
/// each.
const BYTE_NS: u64 = 5;
/// To read the leaf of an object that was there before.
const LEAF_NS: u64 = 25_000;

/// Nanoseconds that a start would take, of what the last durable checkpoint has not.
#[derive(Debug)]
pub struct Replay {
    /// The most that it is to take.
    max: u64,
    /// Of what the checkpoint has that is under way.
    frozen: u64,
    /// Of what changed since.
    open: u64,
}

impl Replay {
    pub fn new(max_ms: u64) -> Self {
        Self { max: max_ms.saturating_mul(1_000_000), frozen: 0, open: 0 }
    }
    /// A record of so many blocks, with so many bytes of changes.
    pub fn record(&mut self, blocks: u64, changes: usize) {
        self.open += RECORD_NS + blocks * BLOCK_NS + changes as u64 * BYTE_NS;
    }
    /// So many bytes of changes lie beside a record.
    pub fn beside(&mut self, changes: usize) {
        self.open += (changes as u64).div_ceil(BLOCK) * BLOCK_NS + changes as u64 * BYTE_NS;
    }
    /// An object changes that was there, and that no change since the durable checkpoint has named.
    pub fn object(&mut self) {
        self.open += LEAF_NS;
    }
    /// A checkpoint takes all that there is.
    pub fn freeze(&mut self) {
        self.frozen += std::mem::take(&mut self.open);
    }
    /// It is durable.
    pub fn done(&mut self) {
        self.frozen = 0;
    }
    /// Of what changed since the last checkpoint began, with so many bytes of changes in a record that was not sent.
    pub fn since(&self, changes: usize) -> u64 {
        self.open + changes as u64 * BYTE_NS
    }
    /// So much may have changed when a checkpoint begins: while it is under way, half as much again may come.
    fn due(&self) -> u64 {
        self.max / 5 * 2
    }
    pub fn is_due(&self) -> bool {
        self.open > self.due()
    }
    /// True if a record with so many bytes of changes is to be sent, since it counts from then on.
    pub fn fills_record(&self, changes: usize) -> bool {
        changes as u64 * BYTE_NS > self.due() / 4
    }
    /// So much may have changed since a checkpoint began when it is done. A start that was itself killed has left more to what is frozen,
    /// and less of this; but never is it so little that no change gets on.
    pub fn later_max(&self) -> u64 {
        (self.due() / 2 * 3).min(self.max.saturating_sub(self.frozen)).max(self.due() / 2)
    }
    #[cfg(test)]
    pub fn all(&self) -> u64 {
        self.frozen + self.open
    }
}
