//! Memory in which large writes arrived, and how much of each an object still has: a small rest must not keep all of it.

use bytes::Bytes;
use smallvec::SmallVec;
use std::ops::Range;

/// Which memory a chunk lies in; 0: its own.
pub type HomeId = u32;
pub const OWN: HomeId = 0;

/// Memory that a write arrived in.
#[derive(Debug, Clone)]
struct Home {
    /// What was written.
    bytes: Bytes,
    /// Bytes of memory that any slice of it keeps.
    memory: usize,
    /// Bytes of it that the object has.
    used: usize,
}

impl Home {
    /// Less than half of the memory is of use.
    fn is_wasted(&self) -> bool {
        self.used * 2 < self.memory
    }
}

/// The memory of one object's large writes.
#[derive(Debug, Clone, Default)]
pub struct Homes {
    /// By number, from 1 on.
    homes: Vec<Option<Home>>,
    /// Those that may be wasted.
    doubtful: SmallVec<[HomeId; 2]>,
}

/// True if a write of so many bytes may stay in memory of that size.
pub fn is_worth_it(len: usize, memory: usize) -> bool {
    len * 2 >= memory
}

impl Homes {
    /// Takes in the memory of a write of which nothing is in a chunk yet.
    pub fn add(&mut self, bytes: Bytes, memory: usize) -> HomeId {
        let home = Some(Home { bytes, memory, used: 0 });
        let at = match self.homes.iter().position(Option::is_none) {
            Some(at) => {
                self.homes[at] = home;
                at
            }
            None => {
                self.homes.push(home);
                self.homes.len() - 1
            }
        };
        let id = at as HomeId + 1;
        self.doubtful.push(id);
        id
    }
    fn get(&mut self, id: HomeId) -> Option<&mut Home> {
        self.homes[(id as usize).checked_sub(1)?].as_mut()
    }
    /// A chunk that had so many bytes of one memory has so many of another.
    pub fn moved(&mut self, (before, had): (HomeId, usize), (after, has): (HomeId, usize)) {
        if let Some(home) = self.get(after) {
            home.used += has;
        }
        if let Some(home) = self.get(before) {
            home.used -= had;
            if home.is_wasted() && self.doubtful.last() != Some(&before) {
                self.doubtful.push(before);
            }
        }
    }
    /// A memory that is to be left: too little of it is of use, and what of it is, if anything, is to be copied. It is forgotten here.
    pub fn wasted(&mut self) -> Option<(HomeId, usize)> {
        while let Some(id) = self.doubtful.pop() {
            let slot = &mut self.homes[id as usize - 1];
            if let Some(home) = slot.take_if(|home| home.is_wasted()) {
                return Some((id, home.used));
            }
        }
        None
    }
    /// True if no chunk lies in any.
    pub fn is_empty(&self) -> bool {
        self.homes.iter().all(Option::is_none)
    }
    /// Bytes of all.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.homes.iter().flatten().map(|home| home.memory).sum()
    }
    /// A range of a memory as one piece, counted from where `first` begins, which lies in it.
    pub fn row(&self, id: HomeId, first: &Bytes, range: Range<usize>) -> Bytes {
        let home = self.homes[id as usize - 1].as_ref().expect("a chunk lies in it");
        let at = first.as_ptr() as usize - home.bytes.as_ptr() as usize;
        home.bytes.slice(at + range.start..at + range.end)
    }
}
