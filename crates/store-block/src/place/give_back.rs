//! Room that is free goes back to the data device: chunk by chunk while the store serves, or all of it at a tool's wish.
//!
//! ```text
//!   trim (which chunks may go) ──┐
//!   pace (how many, and when) ───┴──> withheld ──> discard ──> free again
//! ```
//! No change waits for it. While chunks are under way no other has them, so none goes where room is scarce: a share of the device stays
//! empty beside what was promised. A read that is older than the checkpoint which let a chunk go may be of what the chunk had: the discard waits for it.
//!
//! Absent: the metadata's own device and the log's, which are used again and again.

use crate::data::io::Purpose;
use crate::open::layout::{CHUNK, CHUNK_BLOCKS, DATA};
use crate::place::pace::{Pace, RUN_MAX, RUN_MIN};
use crate::place::room;
use crate::rows::key;
use crate::rows::meta::layer::Val;
use crate::state::Core;
use std::ops::Range;
use std::time::Duration;

/// One chunk of so many stays out of it, and of the rest beyond that at most a half is under way.
const RESERVE_SHARE: u64 = 16;

/// While nothing happens, so many chunks that wait for a checkpoint are worth one.
const FRESH_MANY: u64 = if cfg!(test) { 2 } else { 256 };

#[derive(Debug, Default)]
pub struct GiveBack {
    pace: Pace,
    /// Chunks that the device has had back since the start.
    chunks: u64,
    /// Why the device takes nothing back, if it doesn't: it is not asked again.
    refused: Option<String>,
    /// Reads up to this one are older than the checkpoint that is durable.
    reads_before: u64,
}

impl GiveBack {
    /// Bytes that the device has had back since the start.
    pub fn bytes(&self) -> u64 {
        self.chunks * CHUNK
    }
}

/// From here on room is given back, or is not any more.
pub fn set(core: &mut Core, on: bool) {
    core.alloc.note_emptied(on && core.give_back.refused.is_none());
}

/// A checkpoint is durable: the chunks that were free when it began may go.
pub fn durable(core: &mut Core) {
    if let Some(trim) = core.alloc.trim() {
        trim.durable();
        core.give_back.reads_before = core.io.last();
    }
}

/// It is `now` by the owner's clock: a run of chunks goes if it is time for one.
pub fn look(core: &mut Core, now: Duration) {
    if core.alloc.trim().is_none() || core.is_stopped() {
        return;
    }
    let (asked, sent, durable) = (core.io.asked(), core.log.seq() - 1, core.log.durable());
    core.give_back.pace.look(now, asked, sent, durable);
    if core.give_back.pace.may_want_checkpoint() && core.alloc.trim().is_some_and(|trim| trim.fresh() >= FRESH_MANY) {
        core.generations.want_if_idle();
    }
    let Some(max) = core.give_back.pace.may_begin().filter(|_| is_worth_a_search(core)) else { return };
    let reserve = core.alloc.chunks() / RESERVE_SHARE;
    let max = max.min(room::spare_chunks(core).saturating_sub(reserve) / 2);
    if max >= RUN_MIN && core.io.oldest_read(DATA).is_none_or(|read| read > core.give_back.reads_before) {
        begin(core, RUN_MIN, max);
    }
}

fn is_worth_a_search(core: &mut Core) -> bool {
    core.alloc.trim().is_some_and(|trim| trim.is_worth_a_search())
}

/// Sends a run of `min` to `max` chunks off, if there is one.
fn begin(core: &mut Core, min: u64, max: u64) {
    let Some(run) = core.alloc.withhold(min, max) else { return };
    core.give_back.pace.began();
    let (first, blocks) = (run.start * CHUNK_BLOCKS, (run.end - run.start) * CHUNK_BLOCKS);
    core.io.discard(Purpose::Discard(run), DATA, first, blocks);
    core.io.kick();
}

/// A run has gone, or the device says why it doesn't take it.
pub fn ended(core: &mut Core, run: Range<u64>, refused: Option<String>) {
    let chunks = run.end - run.start;
    core.alloc.discarded(run);
    core.give_back.pace.ended(chunks);
    if refused.is_none() {
        core.give_back.chunks += chunks;
    } else {
        core.give_back.refused = refused;
        core.alloc.note_emptied(false);
    }
}

/// Gives back all that is free, and waits for it: how many bytes. For tools, before anything is submitted.
pub fn all(core: &mut Core) -> Result<u64, String> {
    // Neither of the two superblocks that there are then needs the log, or anything that is free now.
    for _ in 0..2 {
        core.table.put(&[key::COUNTERS], Val::Del);
        core.generations.want();
        core.finish_checkpoints()?;
    }
    let before = core.give_back.bytes();
    core.alloc.all_ready();
    while is_worth_a_search(core) || core.alloc.withheld().len() > 0 {
        if core.alloc.withheld().len() == 0 {
            begin(core, 1, RUN_MAX);
        } else {
            core.io.wait();
        }
        core.poll();
        if let Some(why) = core.stopped.why().or(core.give_back.refused.as_ref()) {
            return Err(why.clone());
        }
    }
    core.alloc.note_emptied(false);
    Ok(core.give_back.bytes() - before)
}

/// Discards what records have beside them, though no checkpoint has it yet: the planted `DiscardBeforeCheckpoint`.
pub fn discard_spills(core: &mut Core) {
    let chunks: Vec<u64> = core.spills.chunks().filter(|_| core.alloc.trim().is_some()).collect();
    for chunk in chunks {
        core.io.discard(Purpose::Discard(0..0), DATA, chunk * CHUNK_BLOCKS, CHUNK_BLOCKS);
    }
}
