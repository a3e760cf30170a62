//! Records go out and come back; images go to their places; everything that completes is taken here.
//!
//! ```text
//!   turn's end ──> seal ──> record (durable) ──┐
//!                     └──> runs (durable) ────┴──> the oldest is done ──> its tokens, its freed space ──> its images to their places
//! ```

use crate::io::{Extent, Purpose};
use crate::layout::{BLOCK, DATA, WAL, WAL_FIRST};
use crate::overlay::Content;
use crate::planted::{Bug, planted};
use crate::state::{Core, UnderWay};
use crate::wal::{Batch, Header};
use bytes::Bytes;
use disk::{Completion, DiskError, Durability};

/// Images that are taken to be written at once: sorted, neighbours are one write.
const GROUP: usize = 256;

/// Runs that are one write, at most.
const RUNS: usize = 16;

/// How often one turn looks for what has completed, and goes on with a checkpoint.
const ROUNDS: usize = if cfg!(test) { 2 } else { 4 };

/// Transactions of a record, and blocks of a run, that are few: of somebody who waits for each.
const FEW: usize = 2;

/// Rows that are freed in one turn.
const DROP_ROWS: usize = 512;

fn durability(unless: Bug) -> Durability {
    if planted(unless) { Durability::Volatile } else { Durability::Durable }
}

fn advice(e: &DiskError) -> String {
    match e {
        DiskError::NoSpace { .. } => {
            format!("{e}. The file system below the store is full: make room there and start again; nothing acknowledged is lost")
        }
        DiskError::Flush { .. } => {
            format!("{e}. What the device holds is unknown: check the device, then run `humboldt store fsck`, then start again")
        }
        _ => {
            format!("{e}. Check the device and its cables (dmesg), then start again; nothing acknowledged is lost if the device comes back")
        }
    }
}

impl Core {
    /// Takes what has completed, starts what can be started.
    pub fn poll(&mut self) {
        let mut done = std::mem::take(&mut self.done);
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
            if self.failed.is_some() {
                break;
            }
            self.seal_if_due();
            if some && !self.queue.is_empty() {
                // A mistake in it has stopped the store, and is told by whatever comes next.
                let _ = self.work_queue();
                self.seal_if_due();
            }
            if some || self.queue.is_empty() {
                let waiting = std::mem::take(&mut self.queue_tickets);
                self.tickets.ready.extend(waiting);
            }
            self.checkpoint_step();
            self.write_out();
            self.zero_ahead();
            self.io.kick();
            if !some {
                break;
            }
        }
        self.done = done;
        self.shrink();
    }
    fn shrink(&mut self) {
        if let Some(rows) = self.taken.last_mut()
            && rows.take(DROP_ROWS).count() < DROP_ROWS
        {
            self.taken.pop();
        }
        let reads_max = match self.reads.is_calm() {
            true => self.cfg.calm_reads_max().min(self.spare()).max(self.cfg.reads_max()),
            false => self.cfg.reads_max(),
        };
        self.reads.shrink(reads_max, self.cfg.fresh_max());
        self.table.cache.shrink(self.cfg.leaves_max() + self.held_leaves.0);
        self.held_leaves = match self.held_leaves {
            (bytes, polls) if polls > 0 => (bytes, polls - u32::from(self.leaf_reads.is_empty())),
            _ => (0, 0),
        };
        // While somebody waits for what is being read, objects stay; where the queue stands still for a checkpoint, nobody does.
        if self.queue.is_empty() || self.is_crowded() && !self.half {
            self.objects.shrink(self.objects_max(), self.saved);
        }
    }

    fn seal_if_due(&mut self) {
        // When images take more memory than they may, new ones wait for older ones to reach their places.
        let crowded = self.overlay.bytes() > self.cfg.overlay_max() && self.in_place > 0;
        if !self.batch.is_empty() && self.under_way.len() < self.cfg.pipeline && !crowded {
            self.seal();
        }
    }

    /// Sends the open record off, unless it holds a half transaction or there is no room.
    pub fn seal(&mut self) {
        let half = self.half && !planted(Bug::HalfTransaction);
        if half || self.batch.is_empty() || self.failed.is_some() {
            return;
        }
        let n = self.batch.blocks();
        assert!(n <= self.record_max(), "records have a bound");
        if self.under_way.front().is_some_and(|oldest| self.ring.head - oldest.at > self.span_max()) {
            // A start must find who says of the oldest that it was durable.
            return;
        }
        if self.ahead.is_in_the_way(self.ring.fit(self.ring.head, n), n) {
            // A moment: the zeros come first.
            return;
        }
        // A checkpoint needs the records up to its barrier: room for those is kept (two, as one may have to go to the ring's front).
        let barrier = self.is_barrier(self.batch.seq);
        let kept = if barrier { 0 } else { 2 * self.record_max() };
        // And behind a checkpoint that is under way, room for its barrier, for the record that is open when it is done, and for what the next
        // checkpoint keeps: that one begins between two records.
        if !barrier && self.checkpoint_at().is_some_and(|tail| !self.ring.has_room(tail, n, 6 * self.record_max())) {
            return;
        }
        let Some(at) = self.ring.take(n, kept) else {
            assert!(self.checkpoint.is_some(), "the log is trimmed before it is full");
            return;
        };
        let mut next = Batch::new(self.batch.seq + 1, self.batch_like);
        next.run_like = self.batch.runs.iter().map(|r| r.gathered()).max().unwrap_or(0);
        let mut batch = std::mem::replace(&mut self.batch, next);
        self.batch_obj = None;
        let block = self.ring.block(at);
        let header = Header {
            seq: 0,
            durable: self.durable,
            epoch: self.sb.epoch,
            lap: self.ring.lap(at),
            meta_len: 0,
            images: 0,
            block: block as u32,
            meta_crc: 0,
        };
        let bytes = batch.seal(header, &self.uuid, self.seed);
        self.batch.reuse(std::mem::take(&mut batch.meta));
        (self.batch_like, self.batch_txns) = (bytes.len().min(1 << 20), batch.tokens.len());
        let seq = batch.seq;
        let mut parts = 1 + self.spills.seal();
        self.io.write(Purpose::Record { seq }, WAL, WAL_FIRST + block, vec![bytes.clone()], durability(Bug::VolatileRecord));
        let runs: Vec<(u64, Bytes)> = batch.runs.into_iter().map(|r| (r.place, r.freeze())).collect();
        self.reads.step();
        if batch.tokens.len() <= FEW && self.reads.is_calm() {
            for (place, bytes) in runs.iter().filter(|(_, bytes)| bytes.len() as u64 <= FEW as u64 * BLOCK) {
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
        self.overlay.seal(seq, block, bytes, batch.places, runs);
        if planted(Bug::AckBeforeDurable) {
            self.commits.append(&mut batch.tokens);
        }
        self.under_way.push_back(UnderWay { seq, at, parts, tokens: batch.tokens });
        // Here the state is that of whole records: a checkpoint can begin.
        self.begin_checkpoint();
    }

    fn part_done(&mut self, seq: u64) {
        let first = self.under_way.front().expect("a record whose part is done is under way").seq;
        self.under_way[(seq - first) as usize].parts -= 1;
        if planted(Bug::AckOutOfOrder) && self.under_way[(seq - first) as usize].parts == 0 {
            self.commits.append(&mut self.under_way[(seq - first) as usize].tokens);
        }
        let before = self.durable;
        while self.under_way.front().is_some_and(|r| r.parts == 0) {
            let record = self.under_way.pop_front().expect("there is one");
            self.durable = record.seq;
            self.commits.extend(record.tokens);
        }
        if self.durable > before {
            self.release();
        }
    }
    fn release(&mut self) {
        let Self { alloc, overlay, durable, .. } = self;
        alloc.release(*durable, |place, blocks| overlay.is_writing(place, blocks) && !planted(Bug::ReuseWhileWriting));
    }

    fn completed(&mut self, c: Completion) {
        let purpose = self.io.purpose(c.token);
        let result = match (&purpose, c.result) {
            // Whatever it is, a record that comes there will tell.
            (Purpose::Zeros, Err(_)) => return self.ahead.give_up(),
            (Purpose::Read(_) | Purpose::Leaf { .. } | Purpose::Leaves { .. } | Purpose::Lift { .. }, Err(e)) => Err(e.to_string()),
            (_, Err(e)) => {
                // What is on the device is not known any more.
                return self.stop(advice(&e));
            }
            (_, Ok(buf)) => Ok(buf),
        };
        let passes = match &purpose {
            Purpose::Read(extent) => self.reads.passes(extent) && self.reads.waiter(extent).is_some_and(|n| self.tickets.is_for_one(n)),
            _ => false,
        };
        let stays = match &purpose {
            Purpose::Leaf { .. } | Purpose::Leaves { .. } => true,
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
            Purpose::Spill { seq } if seq == self.batch.seq => self.spills.done(),
            Purpose::Spill { seq } => self.part_done(seq),
            Purpose::InPlace(blocks) => {
                self.in_place -= 1;
                blocks.iter().for_each(|(place, seq)| self.overlay.written(*place, *seq));
                self.overlay.forget();
                self.release();
            }
            Purpose::Read(extent) => {
                let tickets = self.reads.done(extent, bytes, passes);
                self.tickets.arrived(tickets);
            }
            Purpose::Leaf { id, piece } => self.leaf_here(id, piece, bytes),
            Purpose::Lift { place, seq, crc } => self.lifted(place, seq, crc, bytes),
            Purpose::Leaves { block, leaves } => self.leaves_here(block, leaves, bytes),
            Purpose::Pages { ids, blocks } => self.pages_written(ids, blocks),
            Purpose::Zeros => self.ahead.done(),
            Purpose::Flush => self.flushed(),
            Purpose::Superblock => self.checkpoint_done(),
        }
    }

    /// Writes zeros in front of the log's end.
    fn zero_ahead(&mut self) {
        let is_calm = self.under_way.is_empty() && self.batch.is_empty() && self.checkpoint.is_none();
        if let Some((at, blocks)) = self.ahead.next(self.ring.head, is_calm) {
            let zeros = disk::AlignedBuf::zeroed((blocks * BLOCK) as usize).freeze();
            self.io.write(Purpose::Zeros, WAL, WAL_FIRST + self.ring.block(at), vec![zeros], Durability::Volatile);
        }
    }

    /// Writes images to their places: when they take much memory, and those that a checkpoint waits for.
    fn write_out(&mut self) {
        let upto = match self.drain_to() {
            Some(seq) => seq.min(self.durable),
            None if self.overlay.bytes() > self.cfg.overlay_max() / 2 => self.durable,
            None => return,
        };
        // Who reads while nothing is written, as an OSD that starts does, is not to stand behind a whole log's images.
        let only_read = self.tickets.is_awaited() && self.batch.is_empty() && self.queue.is_empty() && self.under_way.is_empty();
        let room = if only_read { (self.cfg.in_place / 8).max(1) } else { self.cfg.in_place };
        let is_calm = self.reads.is_calm();
        while self.in_place < room {
            let due = self.overlay.take_due(upto, GROUP);
            if due.is_empty() {
                return;
            }
            for d in due.iter().filter(|_| is_calm) {
                // From here on it is in memory only if it stays for whoever reads it next.
                if let Content::Here(bytes) = &d.content {
                    self.reads.wrote(Extent { dev: DATA, block: d.place, blocks: 1 }, bytes);
                }
            }
            let mut due = due.into_iter().peekable();
            while let Some(d) = due.next() {
                self.in_place += 1;
                match d.content {
                    Content::Wal(block, crc) => {
                        let purpose = Purpose::Lift { place: d.place, seq: d.seq, crc };
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
    fn lifted(&mut self, place: u64, seq: u64, crc: Option<u32>, bytes: Result<Bytes, String>) {
        match bytes {
            Ok(bytes) if bytes.len() as u64 == BLOCK && crc.is_none_or(|crc| crate::layout::block_crc(&bytes) == crc) => {
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
