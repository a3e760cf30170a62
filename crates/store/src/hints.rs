//! Hints: what a caller tells a store, or asks it, so that it is faster or smaller. A store that implements none of them is right, only slower.
//!
//! Each method's default does nothing, and no answer of [`crate::ObjectStore`] depends on whether a hint was given. Absent: what a store owes; that is
//! [`crate::ObjectStore`], and the conformance suite runs each store also with its hints hidden ([`crate::conformance::Plain`]).

use crate::ReadData;
use std::time::Duration;
use types::{CollId, HObject};

/// What makes a store faster or smaller. `impl StoreHints for MyStore {}` is a whole implementation.
pub trait StoreHints {
    /// Waits for something that is under way, but no longer than this; true if something came, and then, as in any case, a turn's end should follow.
    /// For a caller that has nothing else to do and knows that no other has a wish. Saves the wakeup through an event descriptor.
    /// By default it does not wait: the caller sleeps until the store's devices wake it.
    fn linger(&mut self, limit: Duration) -> bool {
        let _ = limit;
        false
    }
    /// These objects will be asked for next: a store that must look in many places of memory for each looks for all of them together.
    /// By default each is found when it is asked for.
    fn soon(&self, names: &mut dyn Iterator<Item = (CollId, &HObject)>) {
        let _ = names;
    }
    /// The bytes of a [`crate::ObjectStore::read`] that was told to wait for this ticket, which [`crate::ObjectStore::take_ready`] gave last: the
    /// object's as they were when the read was asked for. For a caller that knows that they are still the same. Saves a second look-up and a second
    /// check of their checksums. `None`, always the default's answer: the caller asks again.
    fn take_read(&self, ticket: u64) -> Option<ReadData> {
        let _ = ticket;
        None
    }
    /// Brings what the store keeps beside the data into its smallest form, now and not when it would do so by itself. The number of this compaction.
    /// By default nothing happens: the store has one form only, or waits until it must.
    fn compact(&mut self) -> u64 {
        0
    }
    /// True once that compaction has ended, or never will: for what waits for it. True by default: there was nothing to do.
    fn is_compacted(&self, compaction: u64) -> bool {
        let _ = compaction;
        true
    }
    /// The store's caches take no more than this from now on, whatever they were given; what is above goes in the next turns.
    /// By default nothing changes: a store without caches has nothing to give back.
    fn limit_memory(&mut self, bytes: usize) {
        let _ = bytes;
    }
    /// From here on, the store gives room that is free back to its devices, as [`StoreHints::give_back`] has time for it; or does not any
    /// more. By default it never does.
    fn gives_back(&mut self, on: bool) {
        let _ = on;
    }
    /// It is `now` by a clock of the caller's, which only goes forward. After a turn's end, and the more often the better: how long devices
    /// take is told by these times. By default nothing happens.
    fn give_back(&mut self, now: Duration) {
        let _ = now;
    }
    /// Bytes that devices have had back since the store was opened; 0 by default.
    fn given_back(&self) -> u64 {
        0
    }
    /// The operation on a device that is under way for longest, by a number of its own: one that stays the same hangs. `None`: nothing is under way, as
    /// by default. For a watchdog, which asks once a second.
    fn oldest_io(&self) -> Option<u64> {
        None
    }
    /// What that operation does, and where, for people: `writing FOLDER/wal`. By default nothing is told.
    fn io_text(&self, io: u64) -> String {
        let _ = io;
        String::new()
    }
    /// What the store keeps in memory, in bytes, roughly, by what it is for: for people. By default nothing is told.
    fn memory(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }
}
