//! Numbers by the hashes of the names that they stand for. Whoever has the numbers knows the names, and compares them.

use crate::rows::counter::Steps;

/// Tables that names are spread over: each grows alone, so that no name pays for moving all of them.
const TABLES: usize = 64;
const NONE: u32 = u32::MAX;

/// A number, and the hash of its name: most that is looked at on the way to another number needs no other memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    number: u32,
    hash: u32,
}

const EMPTY: Entry = Entry { number: NONE, hash: 0 };

/// As many entries as a power of two, or none; linear probing.
#[derive(Debug, Clone, Default)]
struct Table {
    entries: Vec<Entry>,
    len: usize,
}

#[derive(Debug)]
pub struct Names {
    tables: Vec<Table>,
    /// Entries of all tables.
    room: usize,
    /// Numbers that were given for a hash.
    steps: Steps,
}

impl Names {
    pub fn new() -> Self {
        Self { tables: vec![Table::default(); TABLES], room: 0, steps: Steps::default() }
    }
    #[cfg(test)]
    pub fn take_steps(&self) -> u64 {
        self.steps.take()
    }
    /// Which table a hash belongs to: by other bits than those that say where in it.
    fn table(&self, hash: u32) -> &Table {
        &self.tables[hash as usize >> (u32::BITS - TABLES.ilog2())]
    }
    fn table_mut(&mut self, hash: u32) -> &mut Table {
        &mut self.tables[hash as usize >> (u32::BITS - TABLES.ilog2())]
    }
    /// The numbers with this hash.
    pub fn with(&self, hash: u32) -> impl Iterator<Item = u32> {
        self.table(hash).probe(hash).filter(move |entry| entry.hash == hash).inspect(|_| self.steps.add(1)).map(|entry| entry.number)
    }
    /// Reads what [`Names::with`] will read first.
    pub fn warm(&self, hash: u32) -> usize {
        let entries = &self.table(hash).entries;
        entries.get(hash as usize & entries.len().wrapping_sub(1)).map_or(0, |entry| entry.number as usize)
    }
    /// Puts in a number that is not there.
    pub fn insert(&mut self, hash: u32, number: u32) {
        let table = self.table_mut(hash);
        let before = table.entries.len();
        table.insert(Entry { number, hash });
        self.room += self.table(hash).entries.len() - before;
    }
    /// False: it was not there.
    pub fn remove(&mut self, hash: u32, number: u32) -> bool {
        self.table_mut(hash).remove(Entry { number, hash })
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.room * size_of::<Entry>()
    }
}

impl Table {
    fn probe(&self, hash: u32) -> impl Iterator<Item = Entry> {
        let mask = self.entries.len().wrapping_sub(1);
        let first = hash as usize & mask;
        (0..self.entries.len()).map(move |n| self.entries[(first + n) & mask]).take_while(|entry| entry.number != NONE)
    }
    fn insert(&mut self, entry: Entry) {
        if (self.len + 1) * 4 > self.entries.len() * 3 {
            let larger = vec![EMPTY; (self.entries.len() * 2).max(16)];
            let old = std::mem::replace(&mut self.entries, larger);
            old.into_iter().filter(|entry| entry.number != NONE).for_each(|entry| self.enter(entry));
        }
        self.enter(entry);
        self.len += 1;
    }
    /// There is room.
    fn enter(&mut self, entry: Entry) {
        let mask = self.entries.len() - 1;
        let mut at = entry.hash as usize & mask;
        while self.entries[at].number != NONE {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }
    fn remove(&mut self, entry: Entry) -> bool {
        let Some(steps) = self.probe(entry.hash).position(|there| there == entry) else { return false };
        let (mask, table) = (self.entries.len() - 1, &mut self.entries);
        // What probed past the gap moves up.
        let mut gap = (entry.hash as usize + steps) & mask;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let next = table[at];
            if next.number == NONE {
                break;
            }
            let home = next.hash as usize & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                table[gap] = next;
                gap = at;
            }
        }
        table[gap] = EMPTY;
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_come_and_go() {
        let mut rng = base::Rng::new(4);
        let (mut names, mut model) = (Names::new(), HashSet::new());
        // Few hashes, in few of the tables: most share theirs with others.
        let hash = |n: u32| n.wrapping_mul(0x9e37_79b9) & 0x8100_001f;
        for _ in 0..20_000 {
            let n = rng.below(1000) as u32;
            assert_eq!(names.with(hash(n)).any(|m| m == n), model.contains(&n));
            match rng.chance(1, 2) {
                true => assert_eq!(names.remove(hash(n), n), model.remove(&n)),
                false if model.insert(n) => names.insert(hash(n), n),
                false => {}
            }
        }
        assert!(model.iter().all(|n| names.with(hash(*n)).any(|m| m == *n)));
        assert_eq!(names.tables.iter().map(|t| t.len).sum::<usize>(), model.len());
        assert_eq!(names.room, names.tables.iter().map(|t| t.entries.len()).sum::<usize>());
    }
}
