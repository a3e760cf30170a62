//! Reads the log's ring when a store is opened: which record is next, and where the log ends. The changes that records have are for
//! [`crate::open::recover`].

use crate::data::io::Io;
use crate::data::ops::Op;
use crate::data::wal::{HEAD_ROOM, HEADER, Header};
use crate::open::layout::*;
use crate::open::recover::OpenError;
use crate::planted::{Bug, planted};
use crate::rows::codec::Get;
use crate::rows::key;
use crate::state::Core;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::ops::Range;

/// A record that is whole.
pub struct Whole {
    pub header: Header,
    /// Its position.
    pub at: u64,
    pub ops: Vec<Op<Bytes>>,
}

/// Reads the ring in large pieces.
pub struct LogReader {
    blocks: u64,
    window: Bytes,
    first: u64,
    /// Blocks of the next window.
    next: u64,
    /// What the ring's first block says, once it was looked at.
    front: Option<Option<Header>>,
    /// Blocks that can't be read: zeros stand for them.
    unread: BTreeSet<u64>,
    /// One of them in which the record may be that is looked for.
    doubt: Option<u64>,
}

/// Blocks that are read at once, at first; tests shall see the edges. A reader that goes on gets more: a device reads the parts of a large piece
/// in parallel.
pub const WINDOW_BLOCKS: u64 = if cfg!(test) { 8 } else { 256 };
pub const WINDOW_MAX: u64 = if cfg!(test) { 2 } else { 8 } * WINDOW_BLOCKS;

impl LogReader {
    pub fn new(blocks: u64) -> Self {
        Self { blocks, window: Bytes::new(), first: 0, next: WINDOW_BLOCKS, front: None, unread: BTreeSet::new(), doubt: None }
    }
    /// Blocks of the ring that could not be read.
    pub fn unread(&self) -> impl Iterator<Item = u64> {
        self.unread.iter().copied()
    }
    /// Reads from the device. Of blocks that can't be read together, each is read by itself.
    fn read(&mut self, io: &mut Io, block: u64, n: u64) -> Bytes {
        if let Ok(all) = io.read_now(WAL, WAL_FIRST + block, n) {
            return all;
        }
        let mut all = Vec::with_capacity((n * BLOCK) as usize);
        for block in block..block + n {
            match io.read_now(WAL, WAL_FIRST + block, 1) {
                Ok(bytes) => all.extend_from_slice(&bytes),
                Err(_) => {
                    self.unread.insert(block);
                    all.resize(all.len() + BLOCK as usize, 0);
                }
            }
        }
        all.into()
    }
    /// Blocks of the ring, not over its end.
    fn get(&mut self, io: &mut Io, block: u64, n: u64) -> Bytes {
        let have = self.window.len() as u64 / BLOCK;
        if block < self.first || block + n > self.first + have {
            let len = n.max(self.next).min(self.blocks - block);
            self.next = (self.next * 2).min(WINDOW_MAX);
            self.window = self.read(io, block, len);
            self.first = block;
        }
        let at = ((block - self.first) * BLOCK) as usize;
        self.window.slice(at..at + (n * BLOCK) as usize)
    }
    /// A block that is likely not to be of use: what was read around the others stays.
    fn peek(&mut self, io: &mut Io, block: u64) -> Bytes {
        let have = self.window.len() as u64 / BLOCK;
        if block >= self.first && block < self.first + have { self.get(io, block, 1) } else { self.read(io, block, 1) }
    }
    /// The record `seq`, which begins at `at` or, if it did not fit there, in front of the next lap; `None` if neither is whole.
    ///
    /// If both are, the later epoch's counts: the other was behind the end of the log when that began, and did not need the same room. Starts before
    /// the last one are known by nothing but their records.
    ///
    /// Fails if it may be one that can't be read: that is no end of the log.
    pub fn record(&mut self, core: &mut Core, at: u64, seq: u64, epoch: u32) -> Result<Option<Whole>, OpenError> {
        self.doubt = None;
        let found = self.find(core, at, seq, epoch)?;
        match self.doubt {
            Some(block) if found.is_none() && !core.cfg.cut_log => {
                Err(core.cfg.log_damaged(format!("the log is damaged: block {block} can't be read, and record {seq} may be there")))
            }
            _ => Ok(found),
        }
    }
    /// The record, if it is there and whole; [`Self::doubt`] is set if it may be where nothing can be read.
    fn find(&mut self, core: &mut Core, at: u64, seq: u64, epoch: u32) -> Result<Option<Whole>, OpenError> {
        let next_lap = at + (self.blocks - at % self.blocks);
        let block = at % self.blocks;
        let head = self.get(&mut core.io, block, 1);
        let here = match Header::decode(&head, &core.sb.uuid) {
            Ok(header) => self.whole(core, header, at, seq, epoch)?,
            Err(_) => None,
        };
        if self.front.is_none() {
            self.front = Some(Header::decode(&self.peek(&mut core.io, 0), &core.sb.uuid).ok());
        }
        // Only a record that has no room here goes to the front.
        let may_be_at_front = next_lap - at < core.log.record_max();
        self.doubts(block..block + 1);
        self.doubts(0..u64::from(may_be_at_front));
        let front = self.front.flatten();
        let later = match &here {
            Some(_) if planted(Bug::TakeLeftBehind) => None,
            Some(here) => front.filter(|front| front.epoch > here.header.epoch),
            None => front,
        };
        let Some(header) = later else { return Ok(here) };
        Ok(self.whole(core, header, next_lap, seq, epoch)?.or(here))
    }
    /// The record may be in these blocks.
    fn doubts(&mut self, blocks: Range<u64>) {
        self.doubt = self.doubt.or(self.unread.range(blocks).next().copied());
    }
    /// The record with this header, if it is the one that should be here, and whole.
    fn whole(&mut self, core: &mut Core, header: Header, at: u64, seq: u64, epoch: u32) -> Result<Option<Whole>, OpenError> {
        let block = at % self.blocks;
        let fits = block + header.blocks() <= self.blocks && u64::from(header.block) == block;
        if header.seq != seq || header.lap != core.log.ring().lap(at) || header.epoch < epoch || !fits {
            return Ok(None);
        }
        let bytes = self.get(&mut core.io, block, header.blocks());
        let Some(ops) = open_record(&bytes, &header, core.seed) else {
            self.doubts(block..block + header.blocks());
            return Ok(None);
        };
        // Where the log is cut, what lies beside a record is looked at as the record itself is.
        if core.cfg.cut_log && !core.has_spilled(&ops)? {
            return Ok(None);
        }
        Ok(Some(Whole { header, at, ops }))
    }
    /// Fails if some record behind the end says that the missing one was durable once.
    pub fn look_for_later(&mut self, core: &mut Core, end: u64, seq: u64) -> Result<(), OpenError> {
        // Not in what was replayed: nothing can have been written over that.
        let room = self.blocks - (end - core.sb.wal_at).min(self.blocks);
        for n in 0..=core.log.voucher_max().min(room.saturating_sub(1)) {
            let at = end + n;
            let block = at % self.blocks;
            let bytes = self.get(&mut core.io, block, 1);
            let Ok(header) = Header::decode(&bytes, &core.sb.uuid) else { continue };
            let later = header.seq > seq && header.seq - seq < self.blocks && u64::from(header.block) == block;
            // What a former end of the log left behind is of a former epoch.
            let epoch_ok = seq < core.sb.epoch_seq || header.epoch >= core.sb.epoch;
            if later && header.durable >= seq && epoch_ok && !planted(Bug::DamageIsTheEnd) {
                if core.cfg.cut_log {
                    return self.tell_cut(core, end, seq);
                }
                let what = format!(
                    "the log is damaged: record {seq} is missing or wrong, but record {} behind it says that it was durable",
                    header.seq
                );
                return Err(core.cfg.log_damaged(what));
            }
        }
        Ok(())
    }
    /// Says what stands behind a damaged record, and is left out with it.
    fn tell_cut(&mut self, core: &mut Core, end: u64, seq: u64) -> Result<(), OpenError> {
        let room = self.blocks - (end - core.sb.wal_at).min(self.blocks);
        let (mut last, mut records, mut objects) = (seq, 0u64, BTreeSet::new());
        let mut n = 0;
        while n < room {
            let block = (end + n) % self.blocks;
            n += 1;
            let bytes = self.get(&mut core.io, block, 1);
            let Ok(header) = Header::decode(&bytes, &core.sb.uuid) else { continue };
            let fits = u64::from(header.block) == block && block + header.blocks() <= self.blocks;
            let is_later = header.seq > seq && header.seq - seq < self.blocks && (seq < core.sb.epoch_seq || header.epoch >= core.sb.epoch);
            if !fits || !is_later {
                continue;
            }
            (last, records) = (last.max(header.seq), records + 1);
            let bytes = self.get(&mut core.io, block, header.blocks());
            let ops = open_record(&bytes, &header, core.seed).unwrap_or_default();
            objects.extend(ops.iter().filter_map(|op| if let Op::Object(key) = op { Some(key.clone()) } else { None }));
            n += header.blocks() - 1;
        }
        core.salvage.leave_out(format!(
            "the log from its damaged record {seq} on, to record {last}: {records} records behind it. What was written in them, acknowledged or not, \
             is as it was before; what the damaged record changed is not known"
        ));
        let known = objects.iter().filter_map(|key| key::parse_object(key).ok());
        known.for_each(|(_, name)| core.salvage.leave_out(format!("of the log: changes of {name}")));
        Ok(())
    }
}

/// The changes of a record, if its metadata and its images are what it says.
fn open_record(bytes: &Bytes, header: &Header, seed: u32) -> Option<Vec<Op<Bytes>>> {
    let len = header.meta_len as usize;
    let head = &bytes[HEADER..HEADER + len.min(HEAD_ROOM)];
    let images_end = (1 + header.images as usize) * BLOCK as usize;
    let mut meta = Vec::with_capacity(len);
    meta.extend_from_slice(head);
    meta.extend_from_slice(bytes.get(images_end..images_end + len - head.len())?);
    if base::crc32c(seed, &meta) != header.meta_crc {
        return None;
    }
    let mut get = Get::new(meta.into());
    let (mut ops, mut images) = (Vec::new(), 0);
    while !get.is_empty() {
        let op = Op::decode(&mut get).ok()?;
        let crcs: &[u8] = match &op {
            Op::Image { crc, .. } => &crc.to_le_bytes(),
            Op::Spill { images, .. } => images,
            _ => &[],
        };
        for crc in crcs.chunks(4) {
            let at = (1 + images) * BLOCK as usize;
            if images >= header.images as usize
                || block_crc(&bytes[at..at + BLOCK as usize]).to_le_bytes() != *crc
                    && !planted(Bug::TakeTornImages)
                    && !(images + 1 == header.images as usize && planted(Bug::TakeLastTorn))
            {
                return None;
            }
            images += 1;
        }
        ops.push(op);
    }
    (images == header.images as usize).then_some(ops)
}
