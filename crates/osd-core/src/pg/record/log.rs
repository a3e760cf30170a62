//! The log of a placement group as the group needs it at hand: which request got which version and answer.
//!
//! The entries themselves lie in the store; here is a short form of each, with the duplicates that outlive them in front, and an index by
//! request. Bounded: entries by the trim target, duplicates by `osd_pg_log_dups_tracked`.

use super::log_item::LogItem;
use crate::pg::reconcile::merge::Merged;
use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use types::{EVersion, PgLogDup, PgLogEntry, ReqId};

/// Mixes whole words; requests are counters of clients, not chosen against us more than a client can only hurt itself.
#[derive(Default)]
pub struct WordHasher(u64);
impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64((*b).into());
        }
    }
    fn write_u8(&mut self, v: u8) {
        self.write_u64(v.into());
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(v.into());
    }
    fn write_i32(&mut self, v: i32) {
        self.write_u64(v as u32 as u64);
    }
    fn write_i64(&mut self, v: i64) {
        self.write_u64(v as u64);
    }
    fn write_i8(&mut self, v: i8) {
        self.write_u64(v as u8 as u64);
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = (self.0.rotate_left(23) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }
}
/// For maps in the path of an operation.
pub type WordHash = BuildHasherDefault<WordHasher>;

/// A place in a [`Log`].
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    head: EVersion,
    tail: EVersion,
    forward: Option<EVersion>,
    /// Numbers of items, counted from the first ever.
    end: u64,
    dups_end: u64,
}

/// (tail, head], with duplicates from before the tail.
#[derive(Debug, Default)]
pub struct Log {
    head: EVersion,
    tail: EVersion,
    /// The mark of roll-forward: what it takes to undo entries is kept for those above it, and for none where there is no mark.
    forward: Option<EVersion>,
    /// Duplicates, then entries; oldest first.
    items: VecDeque<LogItem>,
    /// How many of `items` are duplicates only.
    dups: usize,
    /// The number of `items[0]`, counted from the first ever.
    first: u64,
    index: Index,
}

/// Numbers of items by request: open addressing, two thirds full at most. An entry costs 8 bytes, and the request is compared in its item.
#[derive(Debug, Default)]
struct Index {
    /// The low half of an item's number, and 31 bits of its request's hash with the top bit set; 0 if there is nothing.
    table: Vec<(u32, u32)>,
    len: usize,
}

fn tag_of(reqid: &ReqId) -> u32 {
    let mut hasher = WordHasher::default();
    reqid.hash(&mut hasher);
    (hasher.finish() >> 16) as u32 | 1 << 31
}

impl Index {
    /// Where entries with this tag begin, and behind each other up to the first gap.
    fn probe(&self, tag: u32) -> impl Iterator<Item = usize> {
        let mask = self.table.len().wrapping_sub(1);
        let start = tag as usize & mask;
        (0..self.table.len()).map(move |i| (start + i) & mask).take_while(|at| self.table[*at].1 != 0)
    }
    fn find(&self, tag: u32, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        self.probe(tag).find(|at| self.table[*at].1 == tag && is_it(self.table[*at].0))
    }
    fn put(&mut self, tag: u32, number: u32) {
        if self.table.len() * 2 < (self.len + 1) * 3 {
            let old = std::mem::take(&mut self.table);
            self.table = vec![(0, 0); (old.len() * 2).max(16)];
            old.into_iter().filter(|e| e.1 != 0).for_each(|(number, tag)| self.place(tag, number));
        }
        self.place(tag, number);
        self.len += 1;
    }
    fn place(&mut self, tag: u32, number: u32) {
        let mask = self.table.len() - 1;
        let mut at = tag as usize & mask;
        while self.table[at].1 != 0 {
            at = (at + 1) & mask;
        }
        self.table[at] = (number, tag);
    }
    /// Takes the entry out, if it is the one of this item.
    fn remove(&mut self, tag: u32, number: u32) {
        let Some(mut gap) = self.find(tag, |n| n == number) else { return };
        let mask = self.table.len() - 1;
        let mut at = gap;
        // What probed past the gap moves up.
        loop {
            at = (at + 1) & mask;
            let (_, next) = self.table[at];
            if next == 0 {
                break;
            }
            if (at.wrapping_sub(next as usize) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.table[gap] = self.table[at];
                gap = at;
            }
        }
        self.table[gap] = (0, 0);
        self.len -= 1;
    }
}

impl Log {
    /// As the store has it.
    pub fn load(
        head: EVersion,
        tail: EVersion,
        dups: impl IntoIterator<Item = PgLogDup>,
        entries: impl IntoIterator<Item = PgLogEntry>,
    ) -> Self {
        let mut log = Self { head: tail, tail, ..Self::default() };
        for d in dups {
            log.push_item(LogItem::of_dup(d));
        }
        log.dups = log.items.len();
        entries.into_iter().for_each(|e| log.push(&e));
        log.head = head;
        log
    }
    pub fn head(&self) -> EVersion {
        self.head
    }
    pub fn tail(&self) -> EVersion {
        self.tail
    }
    /// Entries up to here can't be undone in place any more.
    pub fn can_rollback_to(&self) -> EVersion {
        self.forward.map_or(self.head, |forward| forward.min(self.head))
    }
    /// Moves the mark of roll-forward here, if it was not further.
    pub fn roll_forward_to(&mut self, to: EVersion) {
        self.forward = Some(self.forward.unwrap_or_default().max(to).max(self.tail));
    }
    /// With the mark of roll-forward that the store has.
    pub fn with_forward(mut self, kept: Option<EVersion>) -> Self {
        if let Some(to) = kept {
            self.roll_forward_to(to);
        }
        self
    }
    /// The mark of roll-forward as the store keeps it; `None` if it is the head, whatever that becomes.
    pub fn forward(&self) -> Option<EVersion> {
        self.forward
    }
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.items.len() - self.dups
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn dups_len(&self) -> usize {
        self.dups
    }
    /// Of entries above `from`, ascending.
    pub fn versions_after(&self, from: EVersion) -> impl Iterator<Item = EVersion> {
        self.items.range(self.end_of(|v| v <= from)..).map(LogItem::version)
    }
    /// Of the last entry below `version`.
    pub fn last_before(&self, version: EVersion) -> Option<EVersion> {
        let end = self.end_of(|v| v < version);
        (end > self.dups).then(|| self.items[end - 1].version())
    }
    /// Of the last entry that isn't above `version`.
    pub fn last_up_to(&self, version: EVersion) -> Option<EVersion> {
        let end = self.end_of(|v| v <= version);
        (end > self.dups).then(|| self.items[end - 1].version())
    }
    /// Of the entry behind which there are `n` more.
    pub fn nth_last(&self, n: usize) -> Option<EVersion> {
        (self.len() > n).then(|| self.items[self.items.len() - 1 - n].version())
    }
    /// The place behind the entries of which `is_in` is true: the first ones.
    fn end_of(&self, is_in: impl Fn(EVersion) -> bool) -> usize {
        let (mut from, mut to) = (self.dups, self.items.len());
        while from < to {
            let middle = (from + to) / 2;
            if is_in(self.items[middle].version()) { from = middle + 1 } else { to = middle }
        }
        from
    }
    /// What a member is told of requests up to `to`, which is below the entries that it is sent: duplicates, oldest first, of the last
    /// `tracked` versions.
    pub fn dups_up_to(&self, to: EVersion, tracked: u64) -> Vec<PgLogDup> {
        let oldest = (self.head.version + 1).saturating_sub(tracked);
        let told = self.items.iter().take_while(|i| i.version() <= to).filter(|i| i.version().version >= oldest);
        told.flat_map(LogItem::dups).collect()
    }

    /// Appends a new entry.
    pub fn push(&mut self, e: &PgLogEntry) {
        assert!(e.version > self.head, "versions of a log ascend: {} after {}", e.version, self.head);
        self.head = e.version;
        self.push_item(LogItem::of_entry(e));
    }
    fn push_item(&mut self, item: LogItem) {
        let number = (self.first + self.items.len() as u64) as u32;
        self.items.push_back(item);
        let item = &self.items[self.items.len() - 1];
        for reqid in item.requests() {
            let tag = tag_of(&reqid);
            let known = self.index.find(tag, |n| self.items[n.wrapping_sub(self.first as u32) as usize].has(&reqid));
            match known {
                Some(at) => self.index.table[at].0 = number,
                None => self.index.put(tag, number),
            }
        }
    }

    /// What a request was answered, if it is known.
    pub fn find(&self, reqid: &ReqId) -> Option<&LogItem> {
        self.entry(tag_of(reqid), reqid).map(|at| self.item(self.index.table[at].0))
    }
    /// The request's entry in the index.
    fn entry(&self, tag: u32, reqid: &ReqId) -> Option<usize> {
        self.index.find(tag, |n| self.item(n).has(reqid))
    }
    /// By the low half of its number.
    fn item(&self, number: u32) -> &LogItem {
        &self.items[number.wrapping_sub(self.first as u32) as usize]
    }

    /// The version to trim to, so that `target` entries stay; `None` while it isn't worth it. At least `min_trim` and at most `max_trim` go at
    /// once, and nothing above `limit` (what every member has complete).
    pub fn trim_to(&self, target: usize, min_trim: usize, max_trim: usize, limit: EVersion) -> Option<EVersion> {
        let over = self.len().checked_sub(target)?;
        if over < min_trim.max(1) {
            return None;
        }
        let mut last = self.dups + over.min(max_trim) - 1;
        while self.items[last].version() > limit {
            last = last.checked_sub(1).filter(|l| *l >= self.dups)?;
        }
        Some(self.items[last].version())
    }

    /// Entries up to `to` become duplicates; of those only the newest `dups_max` stay. What the store is told: duplicates to append, and up to
    /// which version they are dropped.
    pub fn trim(&mut self, to: EVersion, dups_max: usize) -> (Vec<PgLogDup>, Option<EVersion>) {
        assert!(to <= self.head, "a log isn't trimmed beyond its head");
        let mut appended = Vec::new();
        while self.dups < self.items.len() && self.items[self.dups].version() <= to {
            appended.extend(self.items[self.dups].dups());
            self.dups += 1;
        }
        self.tail = self.tail.max(to);
        let mut dropped = None;
        while self.dups > dups_max {
            let old = self.items.pop_front().expect("as many as there are duplicates");
            old.requests().for_each(|reqid| self.index.remove(tag_of(&reqid), self.first as u32));
            dropped = Some(old.version());
            self.first += 1;
            self.dups -= 1;
        }
        (appended, dropped)
    }

    /// Where the log stands, for [`Log::rewind`].
    pub fn mark(&self) -> Mark {
        let (end, dups_end) = (self.first + self.items.len() as u64, self.first + self.dups as u64);
        Mark { head: self.head, tail: self.tail, forward: self.forward, end, dups_end }
    }
    /// Takes back what was pushed and trimmed since then, because the store has refused it. Duplicates that were dropped stay so.
    pub fn rewind(&mut self, mark: Mark) {
        while self.first + self.items.len() as u64 > mark.end {
            self.pop();
        }
        self.dups = mark.dups_end.saturating_sub(self.first) as usize;
        (self.head, self.tail, self.forward) = (mark.head, mark.tail, mark.forward);
    }

    fn pop(&mut self) {
        let item = self.items.pop_back().expect("there is one, the caller has looked");
        let number = self.first + self.items.len() as u64;
        item.requests().for_each(|reqid| self.index.remove(tag_of(&reqid), number as u32));
    }

    /// Becomes the log that a merge of two made of it.
    pub fn take_merge(&mut self, merged: &Merged) {
        while self.items.len() > self.dups && self.items.back().is_some_and(|i| i.version() > merged.rewind_to) {
            self.pop();
        }
        if merged.is_whole() {
            let mut entries = std::mem::take(&mut self.items);
            let rest = entries.split_off(self.dups);
            let mut log = Self { head: merged.tail, tail: merged.tail, forward: self.forward, ..Self::default() };
            match &merged.dups {
                Some(dups) => dups.iter().cloned().for_each(|d| log.push_item(LogItem::of_dup(d))),
                None => entries.into_iter().for_each(|i| log.push_item(i)),
            }
            log.dups = log.items.len();
            merged.older.iter().for_each(|e| log.push(e));
            rest.into_iter().for_each(|i| log.push_item(i));
            *self = log;
        }
        self.head = if self.is_empty() { merged.tail } else { self.items.back().map_or(merged.tail, LogItem::version) };
        merged.newer.iter().for_each(|e| self.push(e));
        (self.head, self.tail) = (merged.head, merged.tail);
    }

    /// Splits off what belongs to another group. Duplicates go to both: they have no object any more.
    pub fn split_off(&mut self, mut goes: impl FnMut(u32) -> bool) -> Log {
        let empty = || Log { head: self.head, tail: self.tail, forward: self.forward, ..Log::default() };
        let (mut child, mut mine) = (empty(), empty());
        for (i, item) in std::mem::take(&mut self.items).into_iter().enumerate() {
            if i < self.dups {
                mine.push_item(item.clone());
                child.push_item(item);
                (mine.dups, child.dups) = (mine.dups + 1, child.dups + 1);
            } else if goes(item.hash()) {
                child.push_item(item);
            } else {
                mine.push_item(item);
            }
        }
        *self = mine;
        child
    }

    /// Takes in another group's requests. Entries of two logs are in no common order: both become duplicates.
    pub fn merge(&mut self, other: Log) {
        let head = self.head.max(other.head);
        let mut items: Vec<LogItem> = std::mem::take(&mut self.items).into_iter().chain(other.items).flat_map(LogItem::apart).collect();
        items.sort_by_key(LogItem::rank);
        // A split gave duplicates to both: once is enough, or they would double with each split and merge.
        items.dedup_by(|b, a| a.is_same(b));
        *self = Log { head, tail: head, ..Log::default() };
        items.into_iter().for_each(|i| self.push_item(i));
        self.dups = self.items.len();
    }
    /// Entries can't be had from the store any more: each becomes a duplicate, so that resends are still answered.
    pub fn forget_entries(&mut self) {
        self.merge(Log::default());
    }
    /// Bytes of memory, roughly.
    pub fn memory(&self) -> usize {
        self.items.capacity() * size_of::<LogItem>() + self.index.table.capacity() * size_of::<(u32, u32)>()
    }
    /// Every duplicate, as the store has them.
    pub fn all_dups(&self) -> Vec<PgLogDup> {
        self.items.iter().take(self.dups).flat_map(LogItem::dups).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use types::{EntityName, HObject, LogOp};

    fn entry(v: u64) -> PgLogEntry {
        let soid = HObject { hash: v as u32, ..HObject::min() };
        let reqid = ReqId { name: EntityName::client(5), tid: v, inc: 1 };
        PgLogEntry { op: LogOp::MODIFY, soid, version: EVersion::new(3, v), reqid, user_version: v, ..PgLogEntry::default() }
    }

    #[test]
    fn requests_are_found_until_their_duplicates_go() {
        let mut rng = Rng::new(3);
        let mut log = Log::default();
        for v in 1..=2000 {
            log.push(&entry(v));
            if let Some(to) = log.trim_to(100, 10, 50, EVersion::MAX) {
                log.trim(to, 300);
            }
            assert!(log.len() < 111 && log.dups_len() <= 300);
            let back = rng.below(v);
            let found = log.find(&entry(v - back).reqid);
            assert!(found.is_none_or(|f| f.answer(&entry(v - back).reqid).0 == v - back));
            assert_eq!(found.is_some(), v - back > log.head().version - (log.len() + log.dups_len()) as u64);
        }
        // A change that the store refuses leaves no trace, but for what it trimmed.
        let (mark, len, was) = (log.mark(), log.len(), log.head());
        log.push(&entry(2001));
        log.trim(log.tail().max(EVersion::new(3, 1950)), 300);
        log.rewind(mark);
        assert_eq!((log.head(), log.len()), (was, len));
        assert!(log.find(&entry(2001).reqid).is_none() && log.find(&entry(2000).reqid).is_some());
        let child = log.split_off(|hash| hash % 2 == 1);
        assert!(child.find(&entry(1999).reqid).is_some() && log.find(&entry(1999).reqid).is_none());
        assert_eq!((child.dups_len(), child.head()), (log.dups_len(), log.head()));
    }

    /// A copy's entry stands for the requests that its source had: each is known with its own answer, as an entry, as a duplicate and after a start.
    #[test]
    fn requests_that_came_with_an_object_are_known() {
        let other = |tid| ReqId { name: EntityName::client(9), tid, inc: 2 };
        let mut log = Log::default();
        let mut copy = entry(1);
        copy.extra_reqids = vec![(other(1), 70), (other(2), 71)];
        copy.extra_reqid_return_codes = [(1, -2)].into();
        // A promotion has no request of its own.
        let promoted = PgLogEntry { op: LogOp::PROMOTE, extra_reqids: vec![(other(3), 72)], ..entry(2) };
        [&copy, &promoted, &entry(3)].into_iter().for_each(|e| log.push(e));
        let (v1, v2) = (EVersion::new(3, 1), EVersion::new(3, 2));
        let known = |log: &Log| -> Vec<_> {
            let of = |reqid: ReqId| log.find(&reqid).map(|i| (i.version(), i.answer(&reqid).0, i.answer(&reqid).1.code));
            [entry(1).reqid, other(1), other(2), other(3), entry(2).reqid].map(of).into()
        };
        let all = [Some((v1, 1, 0)), Some((v1, 70, 0)), Some((v1, 71, -2)), Some((v2, 72, 0)), None];
        assert_eq!(known(&log), all);
        let (dups, dropped) = log.trim(v2, 100);
        let told: Vec<_> = dups.iter().map(|d| (d.version, d.reqid, d.user_version, d.return_code)).collect();
        let each = [(v1, entry(1).reqid, 1, 0), (v1, other(1), 70, 0), (v1, other(2), 71, -2), (v2, other(3), 72, 0)];
        assert_eq!((told, dropped), (each.into(), None));
        assert_eq!((known(&log), log.all_dups(), log.dups_up_to(v2, 100)), (all.into(), dups.clone(), dups.clone()));
        // As the store has it, and after a split and a merge with what was read of the store.
        let stored = || Log::load(log.head(), log.tail(), dups.clone(), [entry(3)]);
        assert_eq!(known(&stored()), all);
        let (mut mine, mut again) = (stored(), stored());
        let child = again.split_off(|_| true);
        mine.merge(child);
        mine.merge(again);
        assert_eq!((known(&mine), mine.all_dups().len()), (all.into(), each.len() + 1));
        // They go together.
        let (_, dropped) = log.trim(EVersion::new(3, 3), 1);
        assert_eq!(dropped, Some(v2));
        assert!(known(&log).iter().all(Option::is_none) && log.find(&entry(3).reqid).is_some());
        // What the store refuses leaves nothing behind.
        let mark = log.mark();
        log.push(&PgLogEntry { extra_reqids: vec![(other(4), 9)], ..entry(4) });
        assert!(log.find(&other(4)).is_some());
        log.rewind(mark);
        assert!(log.find(&other(4)).is_none() && log.find(&entry(4).reqid).is_none());
    }
}
