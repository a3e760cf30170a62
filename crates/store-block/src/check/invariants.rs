//! What is always true of an open store between two records.
//!
//! The cheap part is looked at behind each record, in release builds too: a broken promise ends the store before a client is told what does not hold.
//! The whole part reads every table, and belongs to tests. Each table looks at its own counts; here is what several owe each other.

use crate::state::Core;

/// Records between two looks at everything, and objects in memory for which there are as many more: a look reads them all.
#[cfg(test)]
const WHOLE_EVERY: u64 = 16;
#[cfg(test)]
const FEW_OBJECTS: u64 = 256;

impl Core {
    /// A record is on its way, and the next one is empty.
    pub fn assert_invariants(&self) {
        self.log.assert_invariants(self.sb.wal_at);
        self.assert_promises();
        self.generations.assert_invariants(self.table.frozen().is_some(), &self.log);
        #[cfg(test)]
        if self.log.seq().is_multiple_of(WHOLE_EVERY * (1 + self.objects.count() as u64 / FEW_OBJECTS)) {
            self.assert_whole();
        }
    }
    /// What was promised to transactions that wait is known, and what is lent has a borrower.
    fn assert_promises(&self) {
        self.queue.assert_invariants();
        let lent = self.space.lent_chunks() + self.spills.chunks().count() as u64;
        assert_eq!(self.alloc.lent_chunks(), lent, "a chunk that is lent has metadata or changes of records");
        assert!(self.alloc.available_blocks() <= self.alloc.chunks() * crate::open::layout::CHUNK_BLOCKS, "no more is free than there is");
    }
}

#[cfg(test)]
impl Core {
    fn assert_whole(&self) {
        use crate::open::layout::CHUNK_BLOCKS;
        use std::collections::BTreeSet;
        self.alloc.assert_counts();
        self.space.assert_counts();
        self.overlay.assert_counts(self.log.seq());
        self.objects.assert_counts();
        self.table.leaves().assert_counts();
        self.reads.assert_counts();
        self.queue.assert_counts();
        // What objects in memory have is in use, and no other object's unless it says so.
        let mut owned = BTreeSet::new();
        self.objects.each(&mut |name, node| {
            for chunk in &node.chunks {
                let (place, slots) = (chunk.place, chunk.slots());
                assert!(place >= CHUNK_BLOCKS && self.alloc.is_used(place, slots), "{name}: {place}+{slots} are not its own");
                let is_shared = self.refs.get(place).is_some();
                assert_eq!(chunk.shared, is_shared, "{name}: chunk {place} is counted as shared if it is");
                let blocks = if is_shared { 0 } else { slots };
                assert!((place..place + blocks).all(|block| owned.insert(block)), "{name}: {place}+{slots} are another's");
            }
        });
        for (place, count) in self.refs.iter() {
            assert!(count > 0 && self.alloc.is_used(place, 1), "chunk {place} is shared by {count}");
        }
    }
}
