//! A leaf: some neighbouring rows in one page of whole blocks, checked as a whole, searched without being unpacked.
//!
//! ```text
//! 0 crc u32 (of what follows, to `len`)   4 magic u32   8 id u64   16 rows u32   20 len u32
//! 24 offsets u32 × rows   then for each row: key length u32, value length u32, key, value
//! ```
//!
//! Rows of objects change one here and one there, as their names hash, and each change writes its leaf anew: their leaves are **one block**,
//! the least that can be written. A leaf that has too many rows is parted in halves, so that a change writes 1.2 blocks in the
//! long run, however many objects there are. With leaves of 8 KiB, which grew to 12 before they were parted, it wrote 10 KiB. Measured, a
//! million objects in 13 MiB of memory (as ten million in 128): metadata of 4.9 KiB for each new object, 13.1 before.
//!
//! Considered in their place: a sorted run for each checkpoint, merged into leaves when there are 64. By calculation that writes as little
//! only while runs together have some rows for each leaf, so up to ten million objects or so; each look asks all runs, each listing reads a
//! leaf of each, and rows that a damaged run has lost show what they were before as if it were whole.
//!
//! The price is room: leaves are full by two thirds, and were by nine tenths, so a checkpoint packs them where room gets scarce
//! (`checkpoint::merge`), and ten million objects have 1.4 million leaves, which is why the index is kept as it is stored ([`super::entry`]).
//! Other rows come in sequence or are read so, and have two blocks.

use crate::open::layout::BLOCK;
use crate::planted::{Bug, planted};
use crate::rows::codec::Corrupt;
use crate::rows::key;
use bytes::Bytes;

const MAGIC: u32 = u32::from_le_bytes(*b"HLEF");
const HEADER: usize = 24;
/// A page has about so many bytes: between half and one and a half of it.
pub const TARGET: usize = 8192;
/// One of rows that change here and there has at most so many; two of half of it are made of one that has more.
const TARGET_SCATTERED: usize = BLOCK as usize;
/// If a row has no more than so many on the average: of larger ones too few fit.
const SCATTERED_MAX: usize = TARGET_SCATTERED / 6;
/// Rows of some KiB each are gathered up to this, to fill their blocks.
const TARGET_MAX: usize = 32768;
const _: () = assert!(TARGET <= TARGET_MAX && TARGET_MAX <= crate::open::config::LEAVES_MIN);

/// A page that was checked.
#[derive(Debug, Clone)]
pub struct Leaf {
    bytes: Bytes,
    rows: usize,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl Leaf {
    /// Checks a page as it came from the device. `id` is what the index calls it.
    pub fn open(bytes: Bytes, seed: u32, id: u64) -> Result<Self, Corrupt> {
        let field = |at| u32_at(&bytes, at).ok_or(Corrupt("a leaf is cut off"));
        if field(4)? != MAGIC {
            return Err(Corrupt("a leaf has no magic"));
        }
        let (rows, len) = (field(16)? as usize, field(20)? as usize);
        if len > bytes.len() || len < HEADER || rows > (len - HEADER) / 12 {
            return Err(Corrupt("a leaf's length is wrong"));
        }
        if base::crc32c(seed, &bytes[4..len]) != field(0)? && !planted(Bug::ForgetLeafCrc) {
            return Err(Corrupt("a leaf's crc is wrong"));
        }
        if bytes[8..16] != id.to_le_bytes() {
            return Err(Corrupt("a leaf is not the one that the index means"));
        }
        let leaf = Self { bytes: bytes.slice(..len), rows };
        let ends = |i: usize| -> Option<()> {
            let at = u32_at(&leaf.bytes, HEADER + 4 * i)? as usize;
            let total = u64::from(u32_at(&leaf.bytes, at)?) + u64::from(u32_at(&leaf.bytes, at + 4)?);
            (total <= (len - at - 8) as u64).then_some(())
        };
        (0..rows).try_for_each(ends).ok_or(Corrupt("a leaf's row is out of bounds"))?;
        Ok(leaf)
    }
    /// A page that was just cut: nothing of it has to be checked.
    pub fn made(page: &Page) -> Self {
        Self { bytes: page.bytes.slice(..page.len), rows: page.rows as usize }
    }
    pub fn rows(&self) -> usize {
        self.rows
    }
    pub fn memory(&self) -> usize {
        self.bytes.len()
    }
    fn parts(&self, row: usize) -> (usize, usize, usize) {
        let word = |at: usize| u32_at(&self.bytes, at).expect("rows were checked") as usize;
        let at = word(HEADER + 4 * row);
        (at + 8, word(at), word(at + 4))
    }
    pub fn key(&self, row: usize) -> &[u8] {
        let (at, key, _) = self.parts(row);
        &self.bytes[at..at + key]
    }
    pub fn value_bytes(&self, row: usize) -> &[u8] {
        let (at, key, value) = self.parts(row);
        &self.bytes[at + key..at + key + value]
    }
    /// Shares the page's memory.
    pub fn value(&self, row: usize) -> Bytes {
        let (at, key, value) = self.parts(row);
        self.bytes.slice(at + key..at + key + value)
    }
    /// A row as it lies in the page: lengths, key, value.
    pub fn stored(&self, row: usize) -> &[u8] {
        let (at, key, value) = self.parts(row);
        &self.bytes[at - 8..at + key + value]
    }
    /// The first row that is not before `key`.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.lower_bound_from(0, key)
    }
    /// The same, where those in front of `first` are known to be before it.
    pub fn lower_bound_from(&self, first: usize, key: &[u8]) -> usize {
        let (mut lo, mut hi) = (first, self.rows);
        while lo < hi {
            let mid = (lo + hi) / 2;
            if self.key(mid) < key { lo = mid + 1 } else { hi = mid }
        }
        lo
    }
    pub fn get(&self, key: &[u8]) -> Option<Bytes> {
        let row = self.lower_bound(key);
        (row < self.rows && self.key(row) == key).then(|| self.value(row))
    }
}

/// Gathers rows, ascending, and cuts them into pages that waste little of their last block.
#[derive(Debug, Default)]
pub struct LeafBuilder {
    /// Where each row ends in `data`.
    ends: Vec<usize>,
    data: Vec<u8>,
    hashes: Vec<u64>,
    /// Rows that are here have this key or a later one, and all rows in front of them, in whatever page, an earlier one.
    floor: Vec<u8>,
}

/// A page that was cut.
#[derive(Debug)]
pub struct Page {
    /// Whole blocks.
    pub bytes: Bytes,
    /// Of them, bytes that mean something.
    pub len: usize,
    /// The front of its first key, as short as tells it from the rows in front of it: what the index calls it by.
    pub start: Vec<u8>,
    pub rows: u32,
    pub filter: Box<[u8]>,
}

fn page_len(rows: usize, data: usize) -> usize {
    HEADER + rows * 4 + data
}

/// Bytes of a key that say which class it is of: a page's start has them.
const CLASS_BYTES: usize = 2;

/// The shortest front of a key that is not before `floor`, as the key is not.
fn front<'a>(key: &'a [u8], floor: &[u8]) -> &'a [u8] {
    assert!(key >= floor, "rows come behind those that are in front of them");
    let same = key.iter().zip(floor).take_while(|(a, b)| a == b).count();
    // The byte behind is larger than the floor's, if that goes on.
    let len = if same == floor.len() { same } else { same + 1 };
    &key[..len.max(CLASS_BYTES).min(key.len())]
}

impl LeafBuilder {
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// Rows that come next have this key or a later one, and those in front of them, in whatever page, an earlier one. Where some are
    /// gathered already, these follow them.
    pub fn begin(&mut self, floor: &[u8]) {
        if self.is_empty() {
            self.floor.clear();
            self.floor.extend_from_slice(floor);
        }
    }
    /// The key of this row.
    fn key(&self, row: usize) -> Option<&[u8]> {
        let at = if row == 0 { 0 } else { *self.ends.get(row - 1)? };
        let len = u32_at(&self.data, at)? as usize;
        self.data.get(at + 8..at + 8 + len)
    }
    /// The key of the row that was gathered last.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.key(self.ends.len().checked_sub(1)?)
    }
    fn len(&self) -> usize {
        page_len(self.ends.len(), self.data.len())
    }
    /// True if these rows are of those that change one here and one there, and go into pages of one block.
    fn is_scattered(&self) -> bool {
        self.data.get(8) == Some(&key::OBJECT) && self.data.len() <= self.ends.len() * SCATTERED_MAX
    }
    /// True if there is enough to cut a full page and leave one that is not small.
    pub fn is_full(&self) -> bool {
        let most = match self.data.len() / self.ends.len().max(1) {
            // Large rows are gathered longer: only several together fill their blocks.
            2049.. => TARGET_MAX,
            ..=SCATTERED_MAX if self.is_scattered() => TARGET_SCATTERED + TARGET_SCATTERED / 2,
            _ => TARGET + TARGET / 2,
        };
        self.ends.len() > 1 && self.len() > most
    }
    /// A row as it lay in another page.
    pub fn push_stored(&mut self, key: &[u8], row: &[u8]) {
        self.hashes.push(key_hash(key));
        self.data.extend_from_slice(row);
        self.ends.push(self.data.len());
    }
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.hashes.push(key_hash(key));
        self.data.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.data.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.data.extend_from_slice(key);
        self.data.extend_from_slice(value);
        self.ends.push(self.data.len());
    }
    /// How many rows a page takes: all, or if that is too much, those that fit their blocks best.
    fn rows_of_page(&self) -> usize {
        let (all, len) = (self.ends.len(), |n: usize| page_len(n, self.ends[n - 1]));
        if self.is_scattered() && len(all) > TARGET_SCATTERED {
            // Rows that come next fill the rest; or none do, and both parts have the same room for more.
            let most = if self.is_full() { TARGET_SCATTERED } else { len(all) / 2 + SCATTERED_MAX / 2 };
            return (1..=all).take_while(|n| len(*n) <= most).last().unwrap_or(1);
        }
        if !self.is_full() {
            return all;
        }
        let waste = |n: usize| {
            let padded = len(n).next_multiple_of(BLOCK as usize);
            (padded - len(n)) * 1000 / padded
        };
        let fits = |n: &usize| *n == 1 || len(*n) >= TARGET / 2 && len(*n) <= TARGET.max(self.len() * 2 / 3);
        (1..=all).filter(fits).min_by_key(|n| (waste(*n), usize::MAX - n)).unwrap_or(1)
    }
    /// Cuts a page off the front; the other rows stay.
    pub fn cut(&mut self, seed: u32, id: u64) -> Page {
        let rows = self.rows_of_page();
        let data = self.ends[rows - 1];
        let len = page_len(rows, data);
        let mut out = disk::AlignedBuf::with_capacity(len.next_multiple_of(BLOCK as usize));
        out.push(&[0; 4]);
        out.push(&MAGIC.to_le_bytes());
        out.push(&id.to_le_bytes());
        out.push(&(rows as u32).to_le_bytes());
        out.push(&(len as u32).to_le_bytes());
        let base = HEADER + rows * 4;
        for start in std::iter::once(0).chain(self.ends[..rows - 1].iter().copied()) {
            out.push(&((base + start) as u32).to_le_bytes());
        }
        out.push(&self.data[..data]);
        debug_assert_eq!(out.len(), len);
        let crc = base::crc32c(seed, &out[4..]);
        out[..4].copy_from_slice(&crc.to_le_bytes());
        out.pad();
        let start = front(self.key(0).expect("there is a row"), &self.floor).to_vec();
        let page = Page {
            bytes: out.freeze(),
            len,
            start,
            rows: rows as u32,
            filter: filter(&self.hashes[..rows - usize::from(planted(Bug::LieInFilter))]),
        };
        // Behind the last row of the page.
        self.floor = [self.key(rows - 1).expect("there is a row"), &[0]].concat();
        self.ends.drain(..rows);
        self.ends.iter_mut().for_each(|end| *end -= data);
        self.hashes.drain(..rows);
        self.data.drain(..data);
        page
    }
}

/// A hash of a key that filters on the device depend on: eight bytes at a time, multiplied and folded.
pub fn key_hash(key: &[u8]) -> u64 {
    let mut h = 0x51_7c_c1_b7_27_22_0a_95_u64 ^ key.len() as u64;
    let mut mix = |v: u64| {
        let m = u128::from(h ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        h = (m as u64) ^ (m >> 64) as u64;
    };
    let mut chunks = key.chunks_exact(8);
    for c in &mut chunks {
        mix(u64::from_le_bytes(c.try_into().expect("eight bytes")));
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    mix(u64::from_le_bytes(last));
    h ^ h >> 29
}

const FILTER_HASHES: u32 = 5;

fn filter(hashes: &[u64]) -> Box<[u8]> {
    let mut bits = vec![0u8; (hashes.len() * 10).div_ceil(8).max(8)];
    let n = bits.len() as u64 * 8;
    for h in hashes {
        for i in 0..FILTER_HASHES {
            let bit = spot(*h, i, n);
            bits[(bit / 8) as usize] |= 1 << (bit % 8);
        }
    }
    bits.into()
}
fn spot(hash: u64, i: u32, n: u64) -> u64 {
    let step = (hash >> 32) | 1;
    // A filter has fewer bits than a u32 tells, and to divide such is cheaper.
    u64::from(hash.wrapping_add(step.wrapping_mul(u64::from(i))) as u32 % n as u32)
}
/// False if the page certainly does not have the key.
pub fn may_have(filter: &[u8], hash: u64) -> bool {
    let n = filter.len() as u64 * 8;
    n == 0 || (0..FILTER_HASHES).map(|i| spot(hash, i, n)).all(|bit| filter[(bit / 8) as usize] & 1 << (bit % 8) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_full() {
        for row in [10, 400, 2500, 5300, 9000, 30_000] {
            let (mut b, mut blocks, mut seen) = (LeafBuilder::default(), 0, 0);
            let mut take = |b: &mut LeafBuilder| {
                let page = b.cut(1, 1);
                let leaf = Leaf::open(page.bytes.clone(), 1, 1).unwrap();
                assert!(leaf.key(0).starts_with(&page.start));
                (0..leaf.rows()).for_each(|r| assert_eq!(leaf.value(r), vec![(seen + r) as u8; row]));
                blocks += page.bytes.len();
                seen += leaf.rows();
            };
            for i in 0..3000_u32 {
                b.push(&i.to_be_bytes(), &vec![i as u8; row]);
                while b.is_full() {
                    take(&mut b);
                }
            }
            while !b.is_empty() {
                take(&mut b);
            }
            assert_eq!(seen, 3000);
            assert!(blocks < 3000 * (row + 20) * 5 / 4, "{row}: {blocks}");
        }
    }

    /// Objects' pages are one block: full ones where rows follow each other, two with room for more where one alone has too many.
    #[test]
    fn pages_of_objects_are_one_block() {
        let rows = |all: u32| {
            let (mut b, mut pages) = (LeafBuilder::default(), Vec::new());
            for n in 0..all {
                b.push(&[&b"O"[..], &n.to_be_bytes()].concat(), &[7; 400]);
                while b.is_full() {
                    pages.push(b.cut(1, 1));
                }
            }
            while !b.is_empty() {
                pages.push(b.cut(1, 1));
            }
            assert!(pages.iter().all(|page| page.bytes.len() as u64 == BLOCK), "{all} rows");
            pages.iter().map(|page| page.rows).collect::<Vec<u32>>()
        };
        assert_eq!((rows(9), rows(10)), (vec![9], vec![5, 5]));
        let many = rows(900);
        assert!(many.len() < 103 && many.iter().all(|rows| *rows > 3), "{many:?}");
    }

    /// A page's start is behind all rows in front of it, and as short as the keys allow, where there was a start before and where there was
    /// none.
    #[test]
    fn starts_are_short_and_part_pages() {
        let mut rng = base::Rng::new(6);
        let mut keys = std::collections::BTreeSet::new();
        for n in 0..3000_u64 {
            let mut key = vec![b'O', 1, 0x80];
            key.extend_from_slice(&(rng.u64() as u32 & [u32::MAX, 0xff][usize::from(n % 10 == 0)]).to_be_bytes());
            key.extend_from_slice(format!("an object whose name is rather long, as names of others are {}", rng.below(9)).as_bytes());
            keys.insert(key);
        }
        let mut floor = vec![b'O'];
        for round in 0..3 {
            let (mut b, mut last, mut long) = (LeafBuilder::default(), Vec::new(), 0);
            b.begin(&floor);
            let mut take = |b: &mut LeafBuilder| {
                let page = b.cut(1, 1);
                let leaf = Leaf::made(&page);
                assert!(last < page.start && page.start[..] <= *leaf.key(0), "{last:?} {:?}", page.start);
                long += usize::from(page.start.len() > 8);
                last = leaf.key(leaf.rows() - 1).to_vec();
            };
            for key in keys.range(floor.clone()..) {
                b.push(key, &[7; 300]);
                while b.is_full() {
                    take(&mut b);
                }
            }
            while !b.is_empty() {
                take(&mut b);
            }
            // Those whose neighbours have the same number begin behind it.
            assert!(long < 40, "{long} starts are long in round {round}");
            floor = keys.iter().nth(900 * (round + 1) - 1).expect("there are so many")[..5].to_vec();
        }
        assert_eq!(
            (front(b"abcd", b"abab"), front(b"abcd", b"abcd"), front(b"abcd", b""), front(b"a", b"")),
            (&b"abc"[..], &b"abcd"[..], &b"ab"[..], &b"a"[..])
        );
    }

    #[test]
    fn rows_are_found_and_flips_are_seen() {
        let mut b = LeafBuilder::default();
        let key = |i: u32| format!("key {i:05}").into_bytes();
        for i in 0..100 {
            b.push(&key(i * 2), &[i as u8; 30]);
        }
        let Page { bytes: page, filter, rows, .. } = b.cut(7, 9);
        assert_eq!((rows, b.is_empty()), (100, true));
        assert!(page.len().is_multiple_of(4096));
        let leaf = Leaf::open(page.clone(), 7, 9).unwrap();
        for i in 0..100 {
            assert_eq!(leaf.get(&key(i * 2)).unwrap()[..], [i as u8; 30]);
            assert!(may_have(&filter, key_hash(&key(i * 2))));
            assert!(leaf.get(&key(i * 2 + 1)).is_none());
        }
        let false_hits = (0..1000).filter(|i| may_have(&filter, key_hash(&key(i * 2 + 1)))).count();
        assert!(false_hits < 60, "{false_hits}");
        assert!(Leaf::open(page.clone(), 7, 8).is_err() && Leaf::open(page.clone(), 6, 9).is_err());
        for at in [0, 5, 17, 22, 30, 500, leaf.memory() - 1] {
            let mut bad = page.to_vec();
            bad[at] ^= 1;
            assert!(Leaf::open(bad.into(), 7, 9).is_err(), "{at}");
        }
    }
}
