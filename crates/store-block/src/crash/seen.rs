//! What was found equal in one state need not be read by us again in the next: comparing took more of a state's time than anything but the log.
//!
//! Only of bytes that lie in the memory of a recorded write, and of objects of the history: both live, and stay as they are, as long as this does. So
//! whoever comes with the same two places comes with the same bytes. The store has read them, and computed their checksums, each time.

use crate::overlay::NumberBuild;
use disk::Recording;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

/// Pairs of places and a length: what was read, what it should be.
pub struct Seen {
    /// Of what was written, ascending.
    recorded: Vec<Range<*const u8>>,
    equal: RefCell<HashSet<(u64, u64, u64), NumberBuild>>,
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
