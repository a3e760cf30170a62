//! Sockets that were accepted and aren't a session yet, by where they come from.
//!
//! Holds the count, the order and whose turn it is to go when there are too many: the oldest of the source that has the most. So a source that opens
//! many and says nothing takes places from itself, and a handshake that goes on takes less time than it is given. Absent: sockets and timers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Where a socket comes from: an address, or a network of the size that one subscriber has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source(u128);

impl Source {
    /// Where that address belongs.
    pub fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self(ip.to_ipv6_mapped().to_bits()),
            IpAddr::V6(ip) => Self(ip.to_bits() >> 64 << 64),
        }
    }
}

/// See the module. `T` is what ends one of them.
#[derive(Debug)]
pub struct HalfOpens<T> {
    next: u64,
    of: BTreeMap<Source, BTreeMap<u64, T>>,
    /// Sources by how many they have.
    ranks: BTreeSet<(usize, Source)>,
    len: usize,
}

impl<T> Default for HalfOpens<T> {
    fn default() -> Self {
        Self { next: 0, of: BTreeMap::new(), ranks: BTreeSet::new(), len: 0 }
    }
}

impl<T> HalfOpens<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// One more; its number, by which it is removed.
    pub fn add(&mut self, source: Source, one: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.change(source, |all| drop(all.insert(number, one)));
        number
    }
    /// One has become a session, or has gone. Nothing happens if it was told to go before.
    pub fn remove(&mut self, source: Source, number: u64) {
        self.change(source, |all| drop(all.remove(&number)));
    }
    /// The one that is to make room: it no longer counts.
    pub fn evict(&mut self) -> Option<T> {
        let (_, greediest) = *self.ranks.last()?;
        self.change(greediest, |all| all.pop_first().map(|(_, one)| one))
    }
    fn change<R>(&mut self, source: Source, change: impl FnOnce(&mut BTreeMap<u64, T>) -> R) -> R {
        let all = self.of.entry(source).or_default();
        let before = all.len();
        let result = change(all);
        let now = all.len();
        self.ranks.remove(&(before, source));
        if now > 0 {
            self.ranks.insert((now, source));
        } else {
            self.of.remove(&source);
        }
        self.len = self.len + now - before;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_greediest_goes() {
        let source = |ip: &str| Source::of(ip.parse().unwrap());
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_eq!(source("fd00::1"), source("fd00::2"));
        assert_ne!(source("fd00::1"), source("fd00:0:0:1::1"));
        let mut all = HalfOpens::default();
        let (good, bad) = (source("10.0.0.1"), source("10.0.0.2"));
        let first = all.add(good, "good");
        for name in ["bad 0", "bad 1", "bad 2"] {
            all.add(bad, name);
        }
        assert_eq!((all.len(), all.evict(), all.evict(), all.len()), (4, Some("bad 0"), Some("bad 1"), 2));
        // One that was told to go has gone.
        all.remove(bad, first + 1);
        assert_eq!(all.len(), 2);
        all.remove(good, first);
        all.remove(bad, first + 3);
        assert_eq!((all.len(), all.evict(), all.of.len(), all.ranks.len()), (0, None, 0, 0));
    }
}
