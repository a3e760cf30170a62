//! Room: how much of the devices is taken and promised, what a transaction may still add, and how much may change before a checkpoint.
//!
//! ```text
//!   data device   | objects' blocks | lent to metadata | kept for metadata | free for either |
//!   meta device   | pages                                                                    |
//! ```
//! A checkpoint writes pages beside those that it replaces, so metadata need twice their blocks. What they need beyond the meta device comes from the
//! data device, and is kept free there: [`Room::promised`] counts pages, changes that no checkpoint has yet, and transactions that were accepted. A
//! transaction that doesn't fit beside all of it is refused; one that was accepted never is.
//!
//! How many blocks changes will need is not known before they are merged: one small row may split a page. Splits are not promised, since there are
//! seldom many. They have a share that is kept for them, and when it might not be enough, a checkpoint comes first ([`Core::is_tight`]). So bytes
//! refuse, and splits delay.
//!
//! All of it is sums that are kept up: an answer takes the same few steps whatever is taken, free or waiting.

use crate::data::queue::growth::Growth;
use crate::open::layout::{BLOCK, CHUNK_BLOCKS, DATA, META, ON_DATA};
use crate::rows::key;
use crate::rows::meta::layer::Val;
use crate::state::Core;
use types::StoreStatfs;

/// Blocks that rows of so many bytes need: pages that were split are not full.
fn padded(bytes: u64) -> u64 {
    (bytes + bytes / 2).div_ceil(BLOCK)
}
/// Bytes of a row beside those that a transaction names: the key, an object's description, its entry in the group's log.
pub const ROW_BYTES: u64 = 512;

/// Changes of the metadata that are not in pages yet.
#[derive(Debug, Default)]
pub struct Inflow {
    /// Bytes that objects of this generation have grown by.
    grown: u64,
    /// Bytes and rows that the checkpoint under way merges.
    frozen: (u64, u64),
    /// The most bytes that there were with the last checkpoint: what is said to be used must not sink with each one only to rise again.
    most: u64,
}

impl Inflow {
    pub fn grew(&mut self, bytes: usize) {
        self.grown += bytes as u64;
    }
    /// A checkpoint takes what there is.
    pub fn freeze(&mut self, bytes: u64, rows: u64) {
        (self.grown, self.frozen) = (0, (bytes, rows));
    }
    /// The checkpoint is done, and so many bytes have come since it began, or wait.
    pub fn merged(&mut self, since: u64) {
        self.most = std::mem::take(&mut self.frozen).0 + since;
    }
}

/// Blocks of both devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// Of the data device, without its label.
    pub data: u64,
    /// Of those, available to what comes: not all that is free, see [`crate::place::gaps`].
    pub data_free: u64,
    /// In chunks that are wholly free.
    pub data_empty: u64,
    /// Of the meta device.
    pub own: u64,
    /// Of the data device, lent to metadata.
    pub lent: u64,
    /// What metadata need, now and with the next checkpoint.
    pub promised: u64,
}

impl Room {
    /// Blocks that metadata need beyond the meta device and what is lent already.
    fn wanted(&self) -> u64 {
        self.promised.saturating_sub(self.own + self.lent)
    }
    /// Wholly free chunks that metadata don't need.
    fn chunks(&self) -> u64 {
        (self.data_empty / CHUNK_BLOCKS).saturating_sub(self.wanted().div_ceil(CHUNK_BLOCKS))
    }
    /// Blocks of rows that there is room for, if data take so many chunks.
    fn rows(&self, chunks: u64) -> u64 {
        (self.own + self.lent + self.data_empty).saturating_sub(chunks * CHUNK_BLOCKS + self.promised)
    }
    /// What `statfs` says: all blocks, and those that are available to data and metadata alike. The data device counts by its own share where it is
    /// fuller than both together: data have no use for a meta device's free blocks.
    pub fn available(&self) -> (u64, u64) {
        let total = self.data + self.own;
        let data_used = self.data - self.data_free.min(self.data);
        let used = (data_used - self.lent.min(data_used)) + self.promised;
        let by_data = (data_used - self.lent.min(data_used) + self.promised.saturating_sub(self.own)).min(self.data);
        let by_data = (u128::from(by_data) * u128::from(total) / u128::from(self.data.max(1))) as u64;
        (total, total - used.max(by_data).min(total))
    }
}

/// Empty chunks that transactions which wait may take: what they were promised, but for what gaps have room for.
fn promised_chunks(core: &Core) -> u64 {
    let chunks = core.queue.promised_chunks();
    if !core.sb.has_places() || chunks == 0 {
        return chunks;
    }
    chunks.min(core.queue.promised_blocks().saturating_sub(core.alloc.gap_blocks()).div_ceil(CHUNK_BLOCKS))
}

/// Empty chunks that nothing was promised.
pub fn spare_chunks(core: &Core) -> u64 {
    core.room().chunks().saturating_sub(promised_chunks(core))
}

/// True if few chunks are empty, or many of them are promised: then a transaction's pieces are looked at closely. By a chunk for each, the small
/// ones of a few hundred transactions that wait would be an empty store's room.
pub fn are_places_scarce(core: &Core) -> bool {
    const PROMISED_SHARE: u64 = 8;
    core.alloc.is_scarce() || PROMISED_SHARE * core.queue.promised_chunks() > core.alloc.empty_chunks()
}

impl Core {
    /// Bytes of rows that changed since the last checkpoint began, and how many rows.
    fn recent(&self) -> (u64, u64) {
        let (bytes, rows) = self.table.active().stored();
        (bytes + self.inflow.grown, rows)
    }
    /// The checkpoint that begins takes what has changed.
    pub fn freeze_inflow(&mut self) {
        let (bytes, rows) = self.recent();
        self.inflow.freeze(bytes, rows);
    }
    /// Blocks that are kept for pages that split, and for what a checkpoint adds by itself: the allocator's pages, groups' infos and their copies.
    fn kept(&self) -> u64 {
        const SHARE: u64 = 32;
        const MAX: u64 = (64 << 20) / BLOCK;
        let all = self.space.own_blocks() + self.alloc.chunks() * CHUNK_BLOCKS;
        (all / SHARE).min(MAX) + 2 * self.alloc.pages() + self.groups.len() as u64 + 64
    }
    /// Pages that so many changed rows may split.
    fn splits(&self, rows: u64) -> u64 {
        const NEW: u64 = 8; // pages of kinds of rows that there were none of
        rows.min(self.table.index().len() as u64 + NEW)
    }
    /// The checkpoint is done.
    pub fn inflow_merged(&mut self) {
        let (bytes, _) = self.recent();
        self.inflow.merged(bytes + self.queue.promised_bytes());
    }
    fn room_with(&self, bytes: u64) -> Room {
        let rows = padded(bytes + self.inflow.frozen.0 + self.queue.promised_bytes());
        Room {
            data: (self.alloc.chunks() - 1) * CHUNK_BLOCKS,
            data_free: self.alloc.available_blocks(),
            data_empty: self.alloc.empty_chunks() * CHUNK_BLOCKS,
            own: self.space.own_blocks(),
            lent: self.space.lent_blocks(),
            promised: 2 * (self.space.live() + rows) + self.kept(),
        }
    }
    /// What is taken and promised now.
    pub fn room(&self) -> Room {
        self.room_with(self.recent().0)
    }
    /// True if a transaction that adds so much fits beside all that was accepted.
    pub fn has_room(&mut self, growth: &Growth) -> bool {
        let fits = self.fits(growth);
        // What is lent and empty, or has changes beside a record, goes back with a checkpoint.
        let is_idle = self.space.idle_chunks() > 0 || self.spills.chunks().next().is_some();
        if !fits && is_idle {
            self.generations.want_if_idle();
        }
        fits
    }
    fn fits(&mut self, growth: &Growth) -> bool {
        if growth.pieces == 0 && growth.bytes == 0 {
            // What removes is never refused.
            return true;
        }
        let (room, pieces) = (self.room(), growth.chunks() + self.queue.promised_chunks());
        let chunks = room.chunks();
        self.alloc.keep(room.wanted().div_ceil(CHUNK_BLOCKS));
        // Those that wait are looked at only where room gets scarce.
        let largest = || self.queue.largest().max(growth.largest);
        // Where no run is long enough, several are taken, of gaps first where few chunks are empty.
        let blocks = growth.blocks() + self.queue.promised_blocks();
        let in_pieces = || blocks.saturating_sub(self.alloc.gap_blocks()).div_ceil(CHUNK_BLOCKS);
        let has_places = growth.chunks() == 0
            || pieces <= chunks
            // Otherwise each piece takes one gap at most, of those that are large enough for the largest.
            || if self.sb.has_places() { in_pieces() <= chunks } else { pieces <= chunks + self.alloc.gaps(largest()) };
        let taken = if self.sb.has_places() && are_places_scarce(self) { pieces.min(in_pieces()) } else { pieces };
        // Many rows at once may split more than what is kept for all.
        let splits = (2 * self.splits(growth.rows)).saturating_sub(self.kept() / 4);
        has_places && 2 * padded(growth.bytes) + splits <= room.rows(taken.min(chunks))
    }
    /// True if what has changed, with a transaction that adds so much, might split so many pages that not all that was accepted has room: a
    /// checkpoint comes first, and tells how many they are.
    pub fn is_tight(&self, growth: &Growth) -> bool {
        let (bytes, rows) = self.recent();
        if rows == 0 {
            return false;
        }
        let splits = self.splits(rows + self.inflow.frozen.1 + growth.rows);
        let room = self.room_with(bytes);
        let promised = room.promised - self.kept() / 2 + 2 * (splits + splits / 16);
        promised > room.own + room.lent + room.data_empty.saturating_sub(promised_chunks(self) * CHUNK_BLOCKS)
    }
    /// Chunks that may be lent to metadata now: all but those that were promised to transactions.
    pub fn chunks_to_lend(&self) -> u64 {
        self.alloc.empty_chunks().saturating_sub(promised_chunks(self))
    }
    /// Takes what the devices have become larger by. The new sizes and the allocator's new pages become durable with one superblock. Waits.
    pub fn grow(&mut self) -> Result<(u64, u64), String> {
        self.finish_checkpoints()?;
        let (data, meta) = (self.io.blocks(DATA).max(self.sb.data_blocks), self.io.blocks(META).max(self.sb.meta_blocks));
        if (data, meta) != (self.sb.data_blocks, self.sb.meta_blocks) {
            if data >= ON_DATA || meta >= ON_DATA {
                return Err("the devices are larger than a store can be (4 PiB)".into());
            }
            self.alloc.grow(data);
            self.space.grow(meta);
            (self.sb.data_blocks, self.sb.meta_blocks) = (data, meta);
            // The checkpoint puts the counters there; until then it has something to do.
            self.table.put(&[key::COUNTERS], Val::Del);
            self.generations.want();
            self.finish_checkpoints()?;
        }
        Ok((data * BLOCK, meta * BLOCK))
    }
    pub fn finish_checkpoints(&mut self) -> Result<(), String> {
        loop {
            self.poll();
            if let Some(why) = self.stopped.why() {
                return Err(why.clone());
            }
            if self.generations.is_settled() {
                return Ok(());
            }
            self.io.wait();
        }
    }
    /// Why a checkpoint can't go on: [`Core::has_room`] is there to prevent it.
    pub fn no_room(&self) -> String {
        let room = self.room();
        format!(
            "there is no room for metadata ({room:?}). Nothing acknowledged is lost: give the store more room (`humboldt store --dir {} grow`) and start \
             again",
            self.cfg.folder
        )
    }
    /// Bytes of changes that begin a checkpoint: a share of the memory, and of the devices, since room for them is kept free.
    pub fn recent_max(&self) -> usize {
        const SHARE: u64 = 128;
        const MIN: u64 = if cfg!(test) { 256 << 10 } else { 1 << 20 };
        let blocks = self.sb.data_blocks + self.sb.meta_blocks;
        self.budget.recent_max().min(usize::try_from((blocks * BLOCK / SHARE).max(MIN)).unwrap_or(usize::MAX))
    }
    /// Sizes and use of the devices.
    pub fn fill(&self, fs: &mut StoreStatfs) {
        let waiting = self.inflow.frozen.0 + self.queue.promised_bytes();
        let mut room = self.room_with(self.recent().0.max(self.inflow.most.saturating_sub(waiting)));
        // Those that are being discarded are as good as free.
        let withheld = self.alloc.withheld().len() as u64 * CHUNK_BLOCKS;
        (room.data_free, room.data_empty) = (room.data_free + withheld, room.data_empty + withheld);
        let (total, available) = room.available();
        (fs.total, fs.available) = (total * BLOCK, available * BLOCK);
        fs.internal_metadata = ((self.space.live() * BLOCK) as i64).saturating_sub(fs.omap_allocated).max(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_and_data_count_once() {
        let empty = Room { data: 1600, data_free: 1600, data_empty: 1600, own: 100, lent: 0, promised: 0 };
        assert_eq!((empty.available(), empty.chunks(), empty.rows(0)), ((1700, 1700), 100, 1700));
        // Metadata beyond their device: on the data device, lent or not yet.
        let want = Room { promised: 260, ..empty };
        assert_eq!((want.available(), want.chunks(), want.rows(90)), ((1700, 1440), 90, 0));
        let lent = Room { data_free: 1440, data_empty: 1440, lent: 160, ..want };
        assert_eq!((lent.available(), lent.chunks(), lent.rows(90)), ((1700, 1440), 90, 0));
        // Data fill their device, though the other one is empty.
        let full = Room { data_free: 0, data_empty: 0, ..empty };
        assert_eq!((full.available(), full.chunks(), full.rows(0)), ((1700, 0), 0, 100));
        // Gaps are available to data that fit into them, and not to metadata.
        let gaps = Room { data_free: 800, data_empty: 0, ..empty };
        assert_eq!((gaps.available().1, gaps.chunks(), gaps.rows(0)), (850, 0, 100));
        // Chunks that are lent and not needed any more.
        let idle = Room { promised: 50, ..lent };
        assert_eq!((idle.available().1, idle.chunks()), (1650, 90));
        // More is promised than there is: nothing is available, and nothing underflows.
        let over = Room { promised: 5000, ..lent };
        assert_eq!((over.available().1, over.chunks(), over.rows(0)), (0, 0, 0));
    }
}
