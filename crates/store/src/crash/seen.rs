//! What was found equal in one state need not be read by us again in the next: comparing took more of a state's time than anything but the log.
//!
//! Only of bytes that lie in the memory of a recorded write, and of objects of the history: both live, and stay as they are, as long as this does. So
//! the same two places have the same bytes. The store has read them, and computed their checksums, each time.

use base::fixed::HashSet;
use disk::Recording;
use std::cell::RefCell;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// For keys that are places in memory: the same in each run.
#[derive(Default)]
struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Pairs of places and a length: what was read, what it should be.
pub struct Seen {
    /// Of what was written, ascending.
    recorded: Vec<Range<*const u8>>,
    equal: RefCell<HashSet<(u64, u64, u64), BuildHasherDefault<PlaceHasher>>>,
}

impl Seen {
    pub fn new(recording: &Recording) -> Self {
        Self { recorded: recording.memory(), equal: RefCell::default() }
    }
    /// True if what was read is what it should be. `wanted` is of the history.
    pub fn is_equal(&self, read: &[u8], wanted: &[u8]) -> bool {
        let key = (read.as_ptr() as u64, wanted.as_ptr() as u64, read.len() as u64);
        if read.len() == wanted.len() && self.equal.borrow().contains(&key) {
            return true;
        }
        let equal = read == wanted;
        if equal && self.is_recorded(read) {
            self.equal.borrow_mut().insert(key);
        }
        equal
    }
    fn is_recorded(&self, read: &[u8]) -> bool {
        let Range { start, end } = read.as_ptr_range();
        let n = self.recorded.partition_point(|range| range.start <= start);
        n > 0 && self.recorded[n - 1].end >= end
    }
}
