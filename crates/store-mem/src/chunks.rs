//! An object's data: a sparse row of chunks on a fixed grid, each one buffer that readers share.

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
    start: usize,
    data: Bytes,
}

impl Chunk {
    fn end(&self) -> usize {
        self.start + self.data.len()
    }
    /// The buffer to write to: its own if nobody else has it, otherwise a copy.
    fn take_mut(&mut self) -> BytesMut {
        std::mem::take(&mut self.data).try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]))
    }
    /// Puts `bytes` at `at` of the cell.
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if at <= self.start && end >= self.end() {
            // Nothing of the old bytes stays: their buffer serves again if it fits and nobody reads it.
            let same = at == self.start && end == self.end();
            self.data = match std::mem::take(&mut self.data).try_into_mut() {
                Ok(mut buf) if same => {
                    buf.copy_from_slice(bytes);
                    buf.freeze()
                }
                _ => Bytes::copy_from_slice(bytes),
            };
            self.start = at;
            return;
        }
        if at >= self.start && end <= self.end() {
            let mut buf = self.take_mut();
            buf[at - self.start..end - self.start].copy_from_slice(bytes);
            self.data = buf.freeze();
            return;
        }
        // Wider than before: a buffer for both, in steps that double, so that appending copies little.
        let start = at.min(self.start);
        let need = end.max(self.end()) - start;
        let room = (CHUNK as usize - start).min(need.next_multiple_of(STEP).next_power_of_two());
        let mut buf = vec![0; room];
        buf[self.start - start..self.end() - start].copy_from_slice(&self.data);
        buf[at - start..end - start].copy_from_slice(bytes);
        *self = Self { cell: self.cell, start, data: buf.into() };
    }
    /// Zeros `from..to` of the cell. True if nothing is left.
    fn zero(&mut self, from: usize, to: usize) -> bool {
        let (from, to) = (from.max(self.start), to.min(self.end()));
        if from >= to {
            return false;
        }
        match (from == self.start, to == self.end()) {
            (true, true) => return true,
            (true, false) => {
                self.data = self.data.slice(to - self.start..);
                self.start = to;
            }
            (false, true) => self.data.truncate(from - self.start),
            (false, false) => {
                let mut buf = self.take_mut();
                buf[from - self.start..to - self.start].fill(0);
                self.data = buf.freeze();
            }
        }
        false
    }
}

/// Chunks by cell, ascending. What is behind the object's size is zeros: whoever shortens the object zeros it.
#[derive(Debug, Clone, Default)]
pub struct Chunks {
    /// Small objects have one.
    chunks: SmallVec<[Chunk; 1]>,
    /// Bytes of all buffers.
    allocated: u64,
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

    pub fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        let (mut cell, mut at) = (offset / CHUNK, (offset % CHUNK) as usize);
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(CHUNK as usize - at));
            match self.find(cell) {
                Ok(i) => {
                    let before = self.chunks[i].data.len();
                    self.chunks[i].write(at, now);
                    self.allocated = self.allocated - before as u64 + self.chunks[i].data.len() as u64;
                }
                Err(i) => {
                    self.chunks.insert(i, Chunk { cell, start: at, data: Bytes::copy_from_slice(now) });
                    self.allocated += now.len() as u64;
                }
            }
            (bytes, cell, at) = (rest, cell + 1, 0);
        }
    }

    /// Makes `offset..offset + len` zeros; `len` may reach to the end of numbers.
    pub fn zero(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let first = self.chunks.partition_point(|c| c.cell < offset / CHUNK);
        let (mut kept, mut allocated) = (first, self.allocated);
        for i in first..self.chunks.len() {
            let chunk = &mut self.chunks[i];
            let base = chunk.cell * CHUNK;
            let (from, to) = (offset.saturating_sub(base).min(CHUNK), end.saturating_sub(base).min(CHUNK));
            let before = chunk.data.len() as u64;
            if chunk.zero(from as usize, to as usize) {
                allocated -= before;
                continue;
            }
            allocated = allocated - before + chunk.data.len() as u64;
            self.chunks.swap(kept, i);
            kept += 1;
        }
        self.chunks.truncate(kept);
        self.allocated = allocated;
    }

    pub fn read(&self, offset: u64, len: u64) -> ReadData {
        let mut out = ReadData::new();
        let end = offset + len;
        let mut at = offset;
        let first = match self.find(offset / CHUNK) {
            Ok(i) | Err(i) => i,
        };
        for chunk in &self.chunks[first..] {
            let start = chunk.cell * CHUNK + chunk.start as u64;
            if start >= end {
                break;
            }
            let stop = (start + chunk.data.len() as u64).min(end);
            if stop <= at {
                continue;
            }
            if start > at {
                out.push_zeros((start - at) as usize);
                at = start;
            }
            out.push(chunk.data.slice((at - start) as usize..(stop - start) as usize));
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
            let start = chunk.cell * CHUNK + chunk.start as u64;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_keep_what_they_read() {
        let mut c = Chunks::default();
        c.write(0, &[1; 8192]);
        let old = c.read(0, 8192);
        c.write(4096, &[2; 10]);
        assert!(old.flat().iter().all(|b| *b == 1));
        assert_eq!(c.read(4095, 12).flat()[..], [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn an_overwrite_that_nobody_shares_stays_in_place() {
        let mut c = Chunks::default();
        c.write(0, &[1; CHUNK as usize]);
        let place = c.chunks[0].data.as_ptr();
        c.write(100, &[2; 4096]);
        assert_eq!(c.chunks[0].data.as_ptr(), place);
        assert_eq!(c.read(0, CHUNK).pieces().count(), 1);
        c.write(0, &[3; 4096]);
        assert_eq!(c.chunks[0].data.as_ptr(), place);
    }

    #[test]
    fn zeros_free_what_they_cover() {
        let mut c = Chunks::default();
        c.write(5, &[1; 100_000]);
        c.zero(CHUNK + 7, CHUNK * 2);
        assert_eq!(c.extents(0, u64::MAX).as_slice(), [(5, CHUNK + 2), (CHUNK * 3 + 7, 100_005 - CHUNK * 3 - 7)]);
        c.zero(0, u64::MAX);
        assert!(c.chunks.is_empty() && c.allocated() == 0);
    }
}
