//! An omap's keys and values, in pages that clones share until one of them changes: to change a key copies a page, and the list of pages.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use types::ByteStr;

/// Rows of a page at most; one that has more becomes two.
const PAGE_ROWS: usize = 256;

type Row = (ByteStr, Bytes);

/// Rows by key.
#[derive(Debug, Clone, Default)]
pub struct Pages {
    /// By the first key that belongs to a page; that of the first page is empty.
    pages: BTreeMap<ByteStr, Arc<Vec<Row>>>,
}

fn find(page: &[Row], key: &[u8]) -> Result<usize, usize> {
    page.binary_search_by(|(k, _)| k.as_slice().cmp(key))
}

impl Pages {
    fn page(&self, key: &[u8]) -> Option<(&ByteStr, &Arc<Vec<Row>>)> {
        self.pages.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }
    fn page_mut(&mut self, key: &[u8]) -> Option<(&ByteStr, &mut Arc<Vec<Row>>)> {
        self.pages.range_mut::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }
    pub fn get(&self, key: &[u8]) -> Option<&Row> {
        let (_, page) = self.page(key)?;
        find(page, key).ok().map(|at| &page[at])
    }
    /// Puts in a value; what was there before.
    pub fn insert(&mut self, key: &ByteStr, value: Bytes) -> Option<Bytes> {
        if self.pages.is_empty() {
            self.pages.insert(ByteStr::new(), Arc::default());
        }
        let (_, page) = self.page_mut(key.as_slice()).expect("the first page begins before all keys");
        let page = Arc::make_mut(page);
        match find(page, key.as_slice()) {
            Ok(at) => return Some(std::mem::replace(&mut page[at].1, value)),
            Err(at) => page.insert(at, (key.detach(), value)),
        }
        if page.len() > PAGE_ROWS {
            let rest = page.split_off(PAGE_ROWS / 2);
            self.pages.insert(rest[0].0.clone(), Arc::new(rest));
        }
        None
    }
    /// Takes out a value.
    pub fn remove(&mut self, key: &[u8]) -> Option<Bytes> {
        let (first, page) = self.page_mut(key)?;
        let at = find(page, key).ok()?;
        let rows = Arc::make_mut(page);
        let (_, value) = rows.remove(at);
        if rows.is_empty() {
            let first = first.clone();
            self.pages.remove(&first);
            self.begin();
        }
        Some(value)
    }
    /// The first page has a place for all keys before it.
    fn begin(&mut self) {
        if let Some(first) = self.pages.first_entry().filter(|first| !first.key().is_empty()) {
            let page = first.remove();
            self.pages.insert(ByteStr::new(), page);
        }
    }
    /// Removes the keys from `first` (in) to `last` (out); bytes of them and their values.
    pub fn remove_range(&mut self, first: &[u8], last: &[u8]) -> u64 {
        let start = self.page(first).map(|(start, _)| start.clone()).unwrap_or_default();
        let met = self.pages.range::<[u8], _>((Bound::Included(start.as_slice()), Bound::Excluded(last)));
        let met: Vec<ByteStr> = met.map(|(start, _)| start.clone()).collect();
        let mut bytes = 0;
        for start in met {
            let page = self.pages.get_mut(&start).expect("it was found");
            let (from, to) = (page.partition_point(|(k, _)| k.as_slice() < first), page.partition_point(|(k, _)| k.as_slice() < last));
            bytes += page[from..to].iter().map(|(k, v)| (k.len() + v.len()) as u64).sum::<u64>();
            if to - from == page.len() {
                self.pages.remove(&start);
            } else if from < to {
                Arc::make_mut(page).drain(from..to);
            }
        }
        self.begin();
        bytes
    }
    /// Rows from there on, ascending.
    pub fn range<'a>(&'a self, from: Bound<&'a [u8]>) -> impl Iterator<Item = &'a Row> {
        let start: &[u8] = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => b"",
        };
        let first = self.page(start).map_or(start, |(first, _)| first.as_slice());
        let pages = self.pages.range::<[u8], _>((Bound::Included(first), Bound::Unbounded));
        pages.flat_map(|(_, page)| page.iter()).skip_while(move |(key, _)| match from {
            Bound::Included(from) => key.as_slice() < from,
            Bound::Excluded(from) => key.as_slice() <= from,
            Bound::Unbounded => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages are a map, and a copy of them is not changed with them.
    #[test]
    fn pages_are_a_map() {
        let mut rng = base::Rng::new(7);
        let (mut pages, mut model): (Pages, BTreeMap<ByteStr, Bytes>) = Default::default();
        let mut before = (pages.clone(), model.clone());
        let key = |n: u64| ByteStr::from(format!("{n:05}").as_bytes());
        for step in 0..20_000 {
            let n = rng.below(3000);
            match rng.below(8) {
                0 => assert_eq!(pages.remove(key(n).as_slice()), model.remove(&key(n))),
                1 if step % 50 == 0 => {
                    let (first, last) = (key(n), key(n + rng.below(900)));
                    let gone: Vec<ByteStr> = model.range(first.clone()..last.clone()).map(|(k, _)| k.clone()).collect();
                    let bytes: usize = gone.iter().map(|k| k.len() + model.remove(k).map_or(0, |v| v.len())).sum();
                    assert_eq!(pages.remove_range(first.as_slice(), last.as_slice()), bytes as u64);
                }
                _ => {
                    let value = Bytes::from(vec![step as u8; rng.below(9) as usize]);
                    assert_eq!(pages.insert(&key(n), value.clone()), model.insert(key(n), value));
                }
            }
            assert_eq!(pages.get(key(n).as_slice()).map(|(_, v)| v), model.get(&key(n)));
            if step % 500 == 0 {
                for from in [Bound::Unbounded, Bound::Included(key(n)), Bound::Excluded(key(n))] {
                    let found = pages.range(from.as_ref().map(|key| key.as_slice()));
                    assert!(found.map(|(k, v)| (k, v)).eq(model.range((from.clone(), Bound::Unbounded))));
                }
                let same = before.0.range(Bound::Unbounded).map(|(k, v)| (k, v)).eq(&before.1);
                assert!(same, "a copy has changed");
                before = (pages.clone(), model.clone());
            }
        }
        pages.remove_range(b"", b"~");
        assert!(pages.pages.is_empty() && pages.get(b"1").is_none());
    }
}
