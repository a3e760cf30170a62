//! Records that are kept as what they differ in from others: of objects that were not asked for of late.
//!
//! A record is an object's key, after its length in two bytes, and its row. The records of two objects of one kind differ in a fifth of their
//! bytes, and those alone are kept, as [`ops::runs`] has them.

use crate::data::ops;

/// A pattern's number; see [`Patterns`].
pub type PatternId = u16;
/// No pattern: the bytes are what they are.
pub const PLAIN: PatternId = PatternId::MAX;
/// Kinds that are told apart, by length.
const KINDS: usize = 64;
/// After so many that are not like it, another takes a pattern's place.
const UNLIKE_MAX: u8 = 8;
/// What is longer is not packed.
pub const RECORD_MAX: usize = 4096;
/// The length of the key.
const FRONT: usize = 2;

/// A record's key.
pub fn key(record: &[u8]) -> &[u8] {
    &record[FRONT..row_at(record)]
}
/// Where a record's row begins.
pub fn row_at(record: &[u8]) -> usize {
    FRONT + usize::from(u16::from_le_bytes([record[0], record[1]]))
}
/// Begins a record; its row is to be appended. False if the key is too long.
pub fn begin(key: &[u8], record: &mut Vec<u8>) -> bool {
    record.clear();
    record.extend_from_slice(&(key.len() as u16).to_le_bytes());
    record.extend_from_slice(key);
    key.len() <= RECORD_MAX
}

/// Records that others are held against: of each kind one at a time, and older ones as long as a record is packed by them.
#[derive(Debug)]
pub struct Patterns {
    all: Vec<Pattern>,
    /// Numbers of those that are gone.
    free: Vec<PatternId>,
    kinds: [Kind; KINDS],
    bytes: usize,
}
#[derive(Debug, Default)]
struct Pattern {
    bytes: Box<[u8]>,
    /// Records that are packed by it.
    users: u32,
    /// It is some kind's.
    is_new: bool,
}
#[derive(Debug, Clone, Copy)]
struct Kind {
    id: PatternId,
    /// How many in a row were not like it.
    unlike: u8,
}

impl Patterns {
    pub fn new() -> Self {
        Self { all: Vec::new(), free: Vec::new(), kinds: [Kind { id: PLAIN, unlike: 0 }; KINDS], bytes: 0 }
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.bytes + self.all.len() * size_of::<Pattern>()
    }
    /// Packs a record, if there is one that it is like; [`Patterns::drop`] is owed for it.
    pub fn pack(&mut self, record: &[u8], runs: &mut Vec<u8>) -> Option<PatternId> {
        if record.len() > RECORD_MAX {
            return None;
        }
        let kind = record.len() % KINDS;
        let Kind { id, unlike } = self.kinds[kind];
        runs.clear();
        if id != PLAIN {
            let pattern = &mut self.all[usize::from(id)];
            if pattern.bytes.len() == record.len() && ops::runs(&pattern.bytes, record, runs).is_some() {
                pattern.users += 1;
                self.kinds[kind].unlike = 0;
                return Some(id);
            }
        }
        if id == PLAIN || unlike >= UNLIKE_MAX {
            self.replace(kind, record);
        } else {
            self.kinds[kind].unlike += 1;
        }
        None
    }
    fn replace(&mut self, kind: usize, record: &[u8]) {
        let old = self.kinds[kind].id;
        if old != PLAIN {
            self.all[usize::from(old)].is_new = false;
            self.tidy(old);
        }
        let pattern = Pattern { bytes: record.into(), users: 0, is_new: true };
        let id = match self.free.pop() {
            Some(id) => {
                self.all[usize::from(id)] = pattern;
                id
            }
            None if self.all.len() < usize::from(PLAIN) => {
                self.all.push(pattern);
                (self.all.len() - 1) as PatternId
            }
            // Somebody is packed by each of them.
            None => PLAIN,
        };
        self.bytes += if id == PLAIN { 0 } else { record.len() };
        self.kinds[kind] = Kind { id, unlike: 0 };
    }
    /// The record that was packed so.
    pub fn unpack(&self, id: PatternId, bytes: &[u8], record: &mut Vec<u8>) {
        record.clear();
        record.extend_from_slice(&self.all[usize::from(id)].bytes);
        ops::patch(record, bytes).expect("what was packed can be unpacked");
    }
    /// A record that was packed so is gone.
    pub fn drop(&mut self, id: PatternId) {
        self.all[usize::from(id)].users -= 1;
        self.tidy(id);
    }
    fn tidy(&mut self, id: PatternId) {
        let pattern = &mut self.all[usize::from(id)];
        if pattern.users == 0 && !pattern.is_new {
            self.bytes -= pattern.bytes.len();
            *pattern = Pattern::default();
            self.free.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records come back, those of one kind take a part of their memory, and patterns without a user are gone.
    #[test]
    fn what_is_alike_takes_little() {
        let mut rng = base::Rng::new(6);
        let mut patterns = Patterns::new();
        let mut packed = Vec::new();
        let (mut record, mut runs, mut bytes) = (Vec::new(), Vec::new(), 0);
        for n in 0..3000usize {
            // The kinds change as time goes by; some are like no other.
            let kind = (n % 3 + n / 1000 * 3) as u8;
            assert!(begin(format!("key {n:06}").as_bytes(), &mut record));
            record.resize(300 + usize::from(kind), kind + 1);
            (0..rng.below(if n % 10 == 0 { 250 } else { 20 })).for_each(|i| record[40 + i as usize] = rng.u64() as u8);
            if let Some(id) = patterns.pack(&record, &mut runs) {
                bytes += runs.len();
                packed.push((record.clone(), id, runs.clone()));
            }
        }
        assert!(packed.len() > 2500 && bytes < packed.len() * 60, "{} packed, {bytes} bytes", packed.len());
        for (n, (whole, id, bytes)) in packed.iter().enumerate() {
            patterns.unpack(*id, bytes, &mut record);
            assert_eq!(record, *whole);
            assert!(key(&record).starts_with(b"key ") && row_at(&record) == FRONT + 10, "{n}");
        }
        packed.drain(..).for_each(|(_, id, _)| patterns.drop(id));
        let left: usize = patterns.all.iter().map(|p| p.bytes.len()).sum();
        assert!(patterns.all.iter().all(|p| p.users == 0 && p.is_new != p.bytes.is_empty()));
        assert!(left == patterns.bytes && left <= 9 * 310, "{left} bytes of patterns are left");
        assert!(patterns.pack(&vec![1; RECORD_MAX + 1], &mut runs).is_none());
    }
}
