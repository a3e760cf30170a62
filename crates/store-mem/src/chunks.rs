//! An object's data: a sparse row of chunks on a fixed grid, each one buffer that readers share.
//!
//! A large write may stay in the memory that it arrived in ([`Chunks::keep`]): its chunks are slices of that, for as long as at least half of it is
//! of use; then the rest moves to buffers of its own.

use crate::homes::{self, HomeId, Homes, OWN};
use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;
use store::ReadData;
use types::IntervalSet;

/// The grid. A write into a chunk that a reader or a clone still shares copies at most this much.
pub const CHUNK: u64 = 16 * 1024;
/// Buffers that grow do so in these steps.
const STEP: usize = 4096;

/// What there is of one grid cell: one run of bytes, zeros around it.
#[derive(Debug, Clone)]
struct Chunk {
    /// Which cell.
    cell: u64,
    /// Where in the cell `data` begins.
    start: u32,
    /// Which memory of a large write `data` lies in, if any.
    home: HomeId,
    data: Bytes,
}

impl Chunk {
    fn new(cell: u64, start: usize, data: Bytes) -> Self {
        Self { cell, start: start as u32, home: OWN, data }
    }
    fn start(&self) -> usize {
        self.start as usize
    }
    fn end(&self) -> usize {
        self.start() + self.data.len()
    }
    /// Which memory it has bytes of, and how many.
    fn lies(&self) -> (HomeId, usize) {
        (self.home, self.data.len())
    }
    /// The buffer to write to: its own if nothing else has it, otherwise a copy.
    fn take_mut(&mut self) -> BytesMut {
        self.home = OWN;
        std::mem::take(&mut self.data).try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]))
    }
    /// Puts `bytes` at `at` of the cell.
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if at <= self.start() && end >= self.end() {
            // Nothing of the old bytes stays: their buffer serves again if it fits and nothing reads it.
            let same = at == self.start() && end == self.end();
            self.home = OWN;
            self.data = match std::mem::take(&mut self.data).try_into_mut() {
                Ok(mut buf) if same => {
                    buf.copy_from_slice(bytes);
                    buf.freeze()
                }
                _ => Bytes::copy_from_slice(bytes),
            };
            self.start = at as u32;
            return;
        }
        let old = self.start();
        if at >= old && end <= self.end() {
            let mut buf = self.take_mut();
            buf[at - old..end - old].copy_from_slice(bytes);
            self.data = buf.freeze();
            return;
        }
        // Wider than before: a buffer for both, in steps that double, so that appending copies little.
        let start = at.min(old);
        let need = end.max(self.end()) - start;
        let room = (CHUNK as usize - start).min(need.next_multiple_of(STEP).next_power_of_two());
        let mut buf = vec![0; room];
        buf[old - start..self.end() - start].copy_from_slice(&self.data);
        buf[at - start..end - start].copy_from_slice(bytes);
        *self = Self::new(self.cell, start, buf.into());
    }
    /// Zeros `from..to` of the cell. True if nothing is left.
    fn zero(&mut self, from: usize, to: usize) -> bool {
        let start = self.start();
        let (from, to) = (from.max(start), to.min(self.end()));
        if from >= to {
            return false;
        }
        match (from == start, to == self.end()) {
            (true, true) => return true,
            (true, false) => {
                self.data = self.data.slice(to - start..);
                self.start = to as u32;
            }
            (false, true) => self.data.truncate(from - start),
            (false, false) => {
                let mut buf = self.take_mut();
                buf[from - start..to - start].fill(0);
                self.data = buf.freeze();
            }
        }
        false
    }
}

/// Chunks by cell, ascending. What is behind the object's size is zeros: what shortens the object zeros it.
#[derive(Debug, Clone, Default)]
pub struct Chunks {
    /// Small objects have one.
    chunks: SmallVec<[Chunk; 1]>,
    /// Bytes of all buffers.
    allocated: u64,
    /// Memory that is not the chunks' own, where there is some.
    homes: Option<Box<Homes>>,
}

impl Chunks {
    pub fn allocated(&self) -> u64 {
        self.allocated
    }
    fn find(&self, cell: u64) -> Result<usize, usize> {
        // Objects are mostly written front to back: look at the end first.
        match self.chunks.last() {
            None => Err(0),
            Some(last) if last.cell < cell => Err(self.chunks.len()),
            Some(last) if last.cell == cell => Ok(self.chunks.len() - 1),
            Some(_) => self.chunks.binary_search_by_key(&cell, |c| c.cell),
        }
    }

    /// What a chunk had, and what it has.
    fn count(&mut self, before: (HomeId, usize), after: (HomeId, usize)) {
        self.allocated = self.allocated - before.1 as u64 + after.1 as u64;
        if (before.0 != OWN || after.0 != OWN)
            && let Some(homes) = &mut self.homes
        {
            homes.moved(before, after);
        }
    }
    fn change(&mut self, i: usize, f: impl FnOnce(&mut Chunk)) {
        let before = self.chunks[i].lies();
        f(&mut self.chunks[i]);
        self.count(before, self.chunks[i].lies());
    }
    fn insert(&mut self, i: usize, chunk: Chunk) {
        self.count((OWN, 0), chunk.lies());
        self.chunks.insert(i, chunk);
    }

    pub fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let (mut cell, mut at) = (offset / CHUNK, (offset % CHUNK) as usize);
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK as usize - at));
            match self.find(cell) {
                Ok(i) => self.change(i, |chunk| chunk.write(at, now)),
                Err(i) => self.insert(i, Chunk::new(cell, at, Bytes::copy_from_slice(now))),
            }
            (bytes, cell, at) = (rest, cell + 1, 0);
        }
        self.leave_wasted();
    }
    /// The same without a copy: `bytes` keep as much memory, and stay there if they are not too little of it.
    pub fn keep(&mut self, offset: u64, bytes: &Bytes, memory: usize) {
        if !homes::is_worth_it(bytes.len(), memory) {
            return self.write(offset, bytes);
        }
        let home = self.homes.get_or_insert_default().add(bytes.clone(), memory);
        let (mut done, mut cell, mut at) = (0, offset / CHUNK, (offset % CHUNK) as usize);
        while done < bytes.len() {
            let end = bytes.len().min(done + CHUNK as usize - at);
            let chunk = || Chunk { home, ..Chunk::new(cell, at, bytes.slice(done..end)) };
            match self.find(cell) {
                Ok(i) if at <= self.chunks[i].start() && at + end - done >= self.chunks[i].end() => self.change(i, |old| *old = chunk()),
                Ok(i) => self.change(i, |old| old.write(at, &bytes[done..end])),
                Err(i) => self.insert(i, chunk()),
            }
            (done, cell, at) = (end, cell + 1, 0);
        }
        self.leave_wasted();
    }
    /// Leaves memory of which too little is of use.
    fn leave_wasted(&mut self) {
        let Some(homes) = &mut self.homes else { return };
        while let Some((id, mut used)) = homes.wasted() {
            for chunk in self.chunks.iter_mut().filter(|chunk| chunk.home == id) {
                chunk.home = OWN;
                chunk.data = Bytes::copy_from_slice(&chunk.data);
                used -= chunk.data.len();
            }
            assert_eq!(used, 0, "what is used of a memory is what chunks have of it");
        }
        if homes.is_empty() {
            self.homes = None;
        }
    }

    /// True if a write leaves no byte of a buffer unwritten that lies within the object, beside those that are so already. `at_end`: it reaches to the
    /// object's end, and its own.
    pub fn is_written_exactly(&self, offset: u64, len: u64, at_end: bool) -> bool {
        let end = offset + len;
        let is_exact = |cell: u64| {
            let Ok(i) = self.find(cell) else { return true };
            let chunk = &self.chunks[i];
            let (from, to) = (offset.saturating_sub(cell * CHUNK) as usize, (end - cell * CHUNK).min(CHUNK) as usize);
            let (replaces, touches) = (from <= chunk.start() && to >= chunk.end(), from >= chunk.start() && from <= chunk.end());
            replaces || touches && (to <= chunk.end() || at_end)
        };
        let (first, last) = (offset / CHUNK, (end - 1) / CHUNK);
        is_exact(first) && (first == last || is_exact(last))
    }

    /// Makes `offset..offset + len` zeros; `len` may reach to the end of numbers.
    pub fn zero(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let first = self.chunks.partition_point(|c| c.cell < offset / CHUNK);
        let mut kept = first;
        for i in first..self.chunks.len() {
            let chunk = &mut self.chunks[i];
            let base = chunk.cell * CHUNK;
            let (from, to) = (offset.saturating_sub(base).min(CHUNK), end.saturating_sub(base).min(CHUNK));
            let before = chunk.lies();
            if chunk.zero(from as usize, to as usize) {
                self.count(before, (OWN, 0));
                continue;
            }
            let after = chunk.lies();
            self.count(before, after);
            self.chunks.swap(kept, i);
            kept += 1;
        }
        self.chunks.truncate(kept);
        self.leave_wasted();
    }

    pub fn read(&self, offset: u64, len: u64) -> ReadData {
        let mut out = ReadData::new();
        let end = offset + len;
        let mut at = offset;
        let first = match self.find(offset / CHUNK) {
            Ok(i) | Err(i) => i,
        };
        let mut rest = &self.chunks[first..];
        while let [chunk, behind @ ..] = rest {
            let start = chunk.cell * CHUNK + u64::from(chunk.start);
            if start >= end {
                break;
            }
            // Chunks that lie in one memory as they do in the object are one piece.
            let (more, len) = if chunk.home == OWN { (0, chunk.data.len()) } else { row(chunk, behind) };
            rest = &behind[more..];
            let stop = (start + len as u64).min(end);
            if stop <= at {
                continue;
            }
            if start > at {
                out.push_zeros((start - at) as usize);
                at = start;
            }
            let range = (at - start) as usize..(stop - start) as usize;
            out.push(match &self.homes {
                Some(homes) if more > 0 => homes.row(chunk.home, &chunk.data, range),
                _ => chunk.data.slice(range),
            });
            at = stop;
        }
        out.push_zeros((end - at) as usize);
        out
    }

    pub fn extents(&self, offset: u64, len: u64) -> IntervalSet {
        let mut out = IntervalSet::new();
        let end = offset.saturating_add(len);
        let first = self.chunks.partition_point(|c| c.cell < offset / CHUNK);
        for chunk in &self.chunks[first..] {
            let start = chunk.cell * CHUNK + u64::from(chunk.start);
            if start >= end {
                break;
            }
            let (from, to) = (start.max(offset), (start + chunk.data.len() as u64).min(end));
            if from < to {
                out.insert(from, to - from);
            }
        }
        out
    }
}

/// How many of the chunks behind one go on where it ends, in the object and in its memory, and bytes of all of them.
fn row(first: &Chunk, behind: &[Chunk]) -> (usize, usize) {
    let (mut last, mut len, mut more) = (first, first.data.len(), 0);
    for chunk in behind {
        let follows = chunk.home == last.home && chunk.cell == last.cell + 1 && chunk.start == 0 && last.end() == CHUNK as usize;
        if !follows || chunk.data.as_ptr() as usize != last.data.as_ptr() as usize + last.data.len() {
            break;
        }
        (last, len, more) = (chunk, len + chunk.data.len(), more + 1);
    }
    (more, len)
}

#[cfg(test)]
mod tests;
