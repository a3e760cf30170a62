//! Memory: the setting, what of it must be there whole, and the shares of the rest.
//!
//! ```text
//!   given (when it was opened) ≥ max (as it was limited since) = whole (allocator, index, counts, groups) + shared
//!   shared: recent changes, objects, leaves, what was read, images. Each has a share; some take what others don't use.
//! ```
//! Holds no memory and lets none go: each owner keeps to its share, and [`crate::data::commit`] makes it.

use crate::open::config::LEAVES_MIN;
use crate::state::Core;

#[derive(Debug)]
pub struct Budget {
    /// The setting with which the store was opened.
    given: usize,
    /// The setting, or what it was limited to since.
    max: usize,
    /// What is left of `max` for all that need not be in memory whole.
    shared: usize,
}

/// A limit below this is none: a store with less would wait for itself.
const MIN: usize = 8 << 20;
/// Whatever must be in memory whole, so much of the setting is left to share: one part of so many.
const SHARED_MIN: usize = 4;

impl Budget {
    pub fn new(given: usize) -> Self {
        Self { given, max: given, shared: given }
    }
    /// No more than this from now on, and never more than was given. [`Budget::share`] comes next.
    pub fn limit(&mut self, bytes: usize) {
        self.max = self.given.min(bytes.max(MIN));
    }
    /// What must be in memory whole comes off the setting; everything else shares the rest.
    pub fn share(&mut self, whole: usize) {
        self.shared = self.max.saturating_sub(whole).max(self.max / SHARED_MIN);
    }

    /// Rows and objects that changed since the last checkpoint.
    pub fn recent_max(&self) -> usize {
        self.shared / 4
    }
    /// All objects in memory.
    pub fn objects_max(&self) -> usize {
        self.shared / 4 + self.shared / 8
    }
    /// A scan must have its leaves in memory together.
    pub fn leaves_max(&self) -> usize {
        (self.shared / 8).max(LEAVES_MIN)
    }
    /// Blocks that were read and may be wanted again. Few: memory that comes back soon is still in the processor's cache when the next read is
    /// written to it, and a device's data is seldom asked for again before long.
    pub fn reads_max(&self) -> usize {
        self.shared / 64
    }
    /// The same while few ask at a time, if nothing else has the memory: a reader that waits for each answer gains from every block that is here, and
    /// memory that is cold costs it little.
    pub fn calm_reads_max(&self) -> usize {
        self.shared / 4 * 3
    }
    /// What was read and must stay, since the readers that asked for it have not come yet.
    pub fn fresh_max(&self) -> usize {
        self.shared / 4
    }
    /// Images that are not at their places. More would be overwritten before they get there, but few of a large image's.
    pub fn overlay_max(&self) -> usize {
        self.shared / 8
    }
}

impl Core {
    /// Bytes of what must be in memory whole, but for the index.
    pub fn whole(&self) -> usize {
        self.alloc.memory() + self.space.memory() + self.spills.memory() + self.layers.memory() + self.refs.memory() + self.groups.memory()
    }
    /// The shares follow what must be in memory whole now.
    pub fn share_memory(&mut self) {
        let whole = self.whole() + self.table.index().memory();
        self.budget.share(whole);
    }

    /// What no owner has of the memory that is shared, less what a checkpoint wants while there is one: it is let go when that begins.
    pub fn spare(&self) -> usize {
        let rows = self.table.recent_bytes();
        let checkpoint = if self.generations.is_under_way() { self.budget.leaves_max() } else { 0 };
        let others = self.objects.bytes() + self.table.leaves().bytes() + rows + self.overlay.memory() + checkpoint;
        self.budget.shared.saturating_sub(others)
    }

    /// What objects may take: their share, and what others don't have of theirs, but for some into which they can grow at once.
    pub fn objects_max(&self) -> usize {
        let rows = self.table.recent_bytes();
        let others = self.budget.leaves_max() + rows + self.overlay.memory() + self.reads.bytes();
        (self.budget.shared - self.budget.shared / 8).saturating_sub(others).max(self.budget.objects_max())
    }
}
