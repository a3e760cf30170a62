//! Records go out and come back; images go to their places; everything that completes is taken here.
//!
//! ```text
//!   turn's end ──> seal ──> record (durable) ──┐
//!                     └──> runs (durable) ────┴──> the oldest is done ──> its tokens, its freed space ──> its images to their places
//! ```

use crate::data::io::{Extent, Purpose};
use crate::data::load::{LONE_TXNS, Load};
use crate::data::overlay::Content;
use crate::data::wal::{Header, Sealed};
use crate::open::layout::{BLOCK, DATA, WAL, WAL_FIRST};
use crate::place::give_back;
use crate::planted::{Bug, planted};
use crate::state::Core;
use bytes::Bytes;
use disk::{Completion, DiskError, Durability};

/// Images that are taken to be written at once: sorted, neighbours are one write.
const GROUP: usize = 256;

/// Runs that are one write, at most.
const RUNS: usize = 16;

/// How often one turn looks for what has completed, and goes on with a checkpoint.
const ROUNDS: usize = if cfg!(test) { 2 } else { 4 };

/// Rows that are freed in one turn.
const DROP_ROWS: usize = 512;

fn durability(unless: Bug) -> Durability {
    if planted(unless) { Durability::Volatile } else { Durability::Durable }
}

/// What is said when this ends a store whose device it is of lies at `place`.
fn advice(e: &DiskError, place: &str) -> String {
    // By its place a device is found, and by its number in the set it is not.
    let said = e.to_string();
    let e_at = format!("{place}: {}", said.split_once(": ").map_or(&*said, |(_, what)| what));
    match e {
        DiskError::NoSpace { .. } => {
            format!("{e_at}. The file system below the store is full: make room there and start again; nothing acknowledged is lost")
        }
        e if e.is_read_only() => {
            format!("{e_at}. The file system below the store turned read-only (dmesg says why): mend it or change the disk")
        }
        DiskError::Flush { .. } => {
            format!("{e_at}. What the device holds is unknown: check the device, then run `humboldt store fsck`, then start again")
        }
        _ => {
            format!(
                "{e_at}. Check the device and its cables (dmesg), then start again; nothing acknowledged is lost if the device comes back"
            )
        }
    }
}

impl Core {
    /// Takes what has completed, starts what can be started.
    pub fn poll(&mut self) {
        let mut done = self.io.take_done();
        // Devices that are fast have always something to say, and the thread has other things to do, too: after some rounds comes one as if there
        // were nothing more. What came meanwhile wakes the thread again.
        for round in 0..=ROUNDS {
            if round < ROUNDS {
                self.io.poll(&mut done);
            }
            let some = !done.is_empty();
            for completion in done.drain(..) {
                self.completed(completion);
            }
            if self.is_stopped() {
                break;
            }
            self.seal_if_due();
            if some && !self.queue.is_empty() {
                // A mistake in it has stopped the store, and is told by whatever comes next.
                let _ = self.work_queue();
                self.seal_if_due();
            }
            self.tickets.wake(self.queue.take_hopeful());
            self.checkpoint_step();
            self.write_out();
            self.zero_ahead();
            self.io.kick();
            if !some {
                break;
            }
        }
        self.io.put_done(done);
        self.shrink();
    }
    fn shrink(&mut self) {
        self.generations.free_some(DROP_ROWS);
        let reads_max = match self.reads.load() {
            Load::Lone | Load::Few => self.budget.calm_reads_max().min(self.spare()).max(self.budget.reads_max()),
            Load::Many => self.budget.reads_max(),
        };
        self.reads.shrink(reads_max, self.budget.fresh_max());
        let held = self.leaves.take_turn();
        self.table.shrink_leaves(self.budget.leaves_max() + held);
        // While a ticket waits for what is being read, objects stay; where the queue stands still for a checkpoint, none does.
        if self.queue.is_empty() || self.is_crowded() && !self.queue.is_half() {
            self.objects.shrink(self.objects_max(), self.generations.saved());
        }
    }

    fn seal_if_due(&mut self) {
        // When images take more memory than they may, new ones wait for older ones to reach their places.
        let crowded = self.overlay.bytes() > self.budget.overlay_max() && self.overlay.under_way() > 0;
        if !self.log.open().is_empty() && self.log.under_way() < self.cfg.pipeline && !crowded {
            self.seal();
        }
    }

    /// Sends the open record off, unless it holds a half transaction or there is no room.
    pub fn seal(&mut self) {
        let half = self.queue.is_half() && !planted(Bug::HalfTransaction);
        if half || self.log.open().is_empty() || self.is_stopped() {
            return;
        }
        if !self.log.may_send() {
            return;
        }
        let barrier = self.generations.is_barrier(self.log.seq());
        let Some(at) = self.log.take_room(barrier, self.generations.tail_to_be()) else { return };
        self.replay.record(self.log.open().blocks(), self.log.open().changes_len());
        let batch = self.log.next();
        let block = self.log.ring().block(at);
        let header = Header {
            seq: 0,
            durable: self.log.durable(),
            epoch: self.sb.epoch,
            lap: self.log.ring().lap(at),
            meta_len: 0,
            images: 0,
            block: block as u32,
            meta_crc: 0,
        };
        let Sealed { seq, bytes, places, runs, tokens, changes } = batch.seal(header, &self.sb.uuid, self.seed);
        self.log.went(bytes.len(), tokens.len(), changes);
        let mut parts = 1 + self.spills.seal();
        self.io.write(Purpose::Record { seq }, WAL, WAL_FIRST + block, vec![bytes.clone()], durability(Bug::VolatileRecord));
        self.reads.step();
        if Load::of_record(tokens.len()) == Load::Lone && !self.reads.load().is_many() {
            for (place, bytes) in runs.iter().filter(|(_, bytes)| bytes.len() as u64 <= LONE_TXNS as u64 * BLOCK) {
                for (n, block) in bytes.chunks_exact(BLOCK as usize).enumerate() {
                    self.reads.wrote(Extent { dev: DATA, block: place + n as u64, blocks: 1 }, block);
                }
            }
        }
        let mut first = 0;
        for group in runs.chunk_by(|a, b| a.0 + a.1.len() as u64 / BLOCK == b.0).flat_map(|near| near.chunks(RUNS)) {
            let bufs = group.iter().map(|(_, bytes)| bytes.clone()).collect();
            let purpose = Purpose::Direct { seq, runs: first..first + group.len() };
            self.io.write(purpose, DATA, group[0].0, bufs, durability(Bug::VolatileRun));
            first += group.len();
            parts += 1;
        }
        self.overlay.seal(seq, block, bytes, places, runs);
        self.log.sent(seq, at, parts, tokens);
        // Here the state is that of whole records: a checkpoint can begin.
        self.assert_invariants();
        self.begin_checkpoint();
    }

    fn part_done(&mut self, seq: u64) {
        if self.log.part_done(seq) {
            self.release();
        }
    }
    fn release(&mut self) {
        let Self { alloc, overlay, log, .. } = self;
        let durable = log.durable() + u64::from(planted(Bug::ReuseOneEarly));
        alloc.release(durable, |place, blocks| overlay.is_writing(place, blocks) && !planted(Bug::ReuseWhileWriting));
    }

    fn completed(&mut self, c: Completion) {
        let purpose = self.io.purpose(c.token);
        let result = match (&purpose, c.result) {
            // Whatever it is, a record that comes there will tell.
            (Purpose::Zeros, Err(_)) => return self.log.give_up_zeros(),
            (
                Purpose::Read(_) | Purpose::Leaf { .. } | Purpose::Leaves { .. } | Purpose::ReplayImage { .. } | Purpose::Discard(_),
                Err(e),
            ) => Err(e.to_string()),
            (_, Err(e)) => {
                // What is on the device is not known any more.
                return self.stop(advice(&e, &self.cfg.place(e.dev())));
            }
            (_, Ok(buf)) => Ok(buf),
        };
        let passes = match &purpose {
            Purpose::Read(extent) => self.reads.passes(extent) && self.reads.waiter(extent).is_some_and(|n| self.tickets.is_for_one(n)),
            _ => false,
        };
        let stays = match &purpose {
            // A checkpoint's leaves go again as soon as they are merged.
            Purpose::Leaf { .. } => true,
            Purpose::Read(extent) => !passes && self.reads.stays(extent),
            _ => false,
        };
        let bytes = result.map(|buf| buf.map_or_else(Bytes::new, |buf| if stays { buf.to_keep() } else { buf }.freeze()));
        match purpose {
            Purpose::Record { seq } => self.part_done(seq),
            Purpose::Direct { seq, runs } => {
                runs.for_each(|run| self.overlay.run_done(seq, run));
                self.part_done(seq);
            }
            Purpose::Spill { seq } if seq == self.log.seq() => self.spills.done(),
            Purpose::Spill { seq } => self.part_done(seq),
            Purpose::InPlace(blocks) => {
                self.overlay.written(&blocks);
                self.release();
            }
            Purpose::Read(extent) => {
                let tickets = self.reads.done(extent, bytes, passes);
                self.tickets.arrived(tickets);
            }
            Purpose::Leaf { id, piece } => self.leaf_here(id, piece, bytes),
            Purpose::ReplayImage { place, seq, crc } => self.image_read(place, seq, crc, bytes),
            Purpose::Leaves { block, leaves } => self.leaves_here(block, leaves, bytes),
            Purpose::Pages { ids, blocks } => self.pages_written(ids, blocks),
            Purpose::Zeros => self.log.zeros_done(),
            Purpose::Flush => self.flushed(),
            Purpose::Superblock => self.checkpoint_done(),
            Purpose::Discard(run) => give_back::ended(self, run, bytes.err()),
        }
    }

    /// Writes zeros in front of the log's end.
    fn zero_ahead(&mut self) {
        let is_calm = self.log.is_idle() && !self.generations.is_under_way();
        if let Some((block, blocks)) = self.log.next_zeros(is_calm) {
            let zeros = disk::AlignedBuf::zeroed((blocks * BLOCK) as usize).freeze();
            self.io.write(Purpose::Zeros, WAL, WAL_FIRST + block, vec![zeros], Durability::Volatile);
        }
    }

    /// Writes images to their places: when they take much memory, and those that a checkpoint waits for.
    fn write_out(&mut self) {
        let upto = match self.generations.drain_to() {
            Some(seq) => seq.min(self.log.durable()),
            None if self.overlay.bytes() > self.budget.overlay_max() / 2 => self.log.durable(),
            None => return,
        };
        // Who reads while nothing is written, as an OSD that starts does, is not to stand behind a whole log's images.
        let only_read = self.tickets.is_awaited() && self.log.is_idle() && self.queue.is_empty();
        let room = if only_read { (self.cfg.in_place / 8).max(1) } else { self.cfg.in_place };
        let is_calm = !self.reads.load().is_many();
        while self.overlay.under_way() < room {
            let due = self.overlay.take_due(upto, GROUP);
            if due.is_empty() {
                return;
            }
            for d in due.iter().filter(|_| is_calm) {
                // From here on it is in memory only if it stays for the next read.
                if let Content::Here(bytes) = &d.content {
                    self.reads.wrote(Extent { dev: DATA, block: d.place, blocks: 1 }, bytes);
                }
            }
            let mut due = due.into_iter().peekable();
            while let Some(d) = due.next() {
                self.overlay.began();
                match d.content {
                    Content::Wal(block, crc) => {
                        let purpose = Purpose::ReplayImage { place: d.place, seq: d.seq, crc };
                        self.io.read(purpose, WAL, WAL_FIRST + block, 1);
                    }
                    Content::Here(bytes) => {
                        let mut blocks = vec![(d.place, d.seq)];
                        let mut bufs = vec![bytes];
                        while let Some(next) = due.peek() {
                            let Content::Here(bytes) = &next.content else { break };
                            if next.place != d.place + blocks.len() as u64 || blocks.len() >= GROUP {
                                break;
                            }
                            blocks.push((next.place, next.seq));
                            bufs.push(bytes.clone());
                            due.next();
                        }
                        self.io.write(Purpose::InPlace(blocks), DATA, d.place, bufs, Durability::Volatile);
                    }
                }
            }
        }
    }
    /// An image of before the restart was read from the log; it goes to its place now.
    fn image_read(&mut self, place: u64, seq: u64, crc: Option<u32>, bytes: Result<Bytes, String>) {
        match bytes {
            Ok(bytes) if bytes.len() as u64 == BLOCK && crc.is_none_or(|crc| crate::open::layout::block_crc(&bytes) == crc) => {
                self.io.write(Purpose::InPlace(vec![(place, seq)]), DATA, place, vec![bytes], Durability::Volatile);
            }
            Ok(_) => self.stop(format!(
                "the log is damaged: an image of record {seq} has not its checksum: {}",
                self.cfg.command("repair --discard-log-from-damage")
            )),
            Err(why) => self.stop(format!("the log can't be read: {why}. Check the device, then start again")),
        }
    }
}
