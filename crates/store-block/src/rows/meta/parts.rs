//! The index as it is stored: all of it, and behind that the changes of each checkpoint since.
//!
//! ```text
//!   whole   | crc u32 | magic u32 | leaves u64 | bytes u64 | bytes of blocks u64 | entries … | blocks that leaves have ([`super::blocks`])
//!   changes | crc u32 | magic u32 | bytes u64 | crc of the part in front u32 | 0 u32 | changes …
//!   change  | 1, the entry of a leaf that came; or 2, the key of one that went, how many runs of blocks it had, block, blocks …
//! ```
//! Each part begins with a block. The superblock has the crc of the last part, and each other part that of the one in front of it: if a part is
//! missing, or an older one is in its place, that is noticed. When all changes are half as much as the whole, the whole is written anew. So
//! a checkpoint writes of the index what it changed, three times over in the long run, and **not what there is**.
//!
//! In version 10 of the layout a whole has no blocks, nor bytes of them, and of a leaf that went there are 0 and its key. Before that the
//! index is one part, whole, with each checkpoint: its front has a u32 of zeros for the bytes.

use super::blocks::Blocks;
use super::entry::{self, LeafRef};
use super::index::{GROUP_MAX, GROUP_MIN, Index};
use super::layer::Key;
use super::space::Runs;
use crate::open::layout::BLOCK;
use crate::planted::{Bug, planted};
use crate::rows::codec::{Corrupt, Get, Put};
use bytes::Bytes;

/// Of a whole index with the blocks that leaves have.
const MAGIC_BLOCKS: u32 = u32::from_le_bytes(*b"HIX5");
/// Of one without, behind which changes may come.
const MAGIC: u32 = u32::from_le_bytes(*b"HIX4");
const MAGIC_CHANGES: u32 = u32::from_le_bytes(*b"HIXC");
/// Of an index of one part: the lowest bit of a leaf's blocks says whether it lies in pieces.
const MAGIC_ALONE: u32 = u32::from_le_bytes(*b"HIX3");
/// Of an index whose leaves are one piece each: of versions 1 and 2 of the layout.
const MAGIC_OLD: u32 = u32::from_le_bytes(*b"HIDX");
const HEADER_BLOCKS: usize = 32;
const HEADER: usize = 24;
const HEADER_ALONE: usize = 20;

/// Parts of changes behind a whole, at most: each is a read of the next start.
const CHANGES_MAX: u32 = if cfg!(test) { 4 } else { 256 };
/// Bytes of changes that are remembered, at most, if the index has fewer.
const REMEMBERED: usize = 64 << 10;

/// Of a change: a leaf went, came, or went and had these blocks.
const WENT: u8 = 0;
const CAME: u8 = 1;
const WENT_WITH_BLOCKS: u8 = 2;

/// The form of a stored index, by the store's version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// One part, whole, with each checkpoint.
    #[default]
    Alone,
    /// Changes behind a whole.
    Changes,
    /// With the blocks that leaves have.
    Blocks,
}

/// The blocks that leaves have, if they are stored, and why those can't be right, though what they are stored in is whole.
pub type StoredBlocks = Option<Result<Blocks, Corrupt>>;

/// How the index is stored, and what has changed of it since.
#[derive(Debug, Default)]
pub struct Parts {
    /// Of the whole, or of the one that is to be stored next.
    form: Form,
    /// Blocks of the whole; none if no changes can come behind it. Blocks of the changes, and in how many parts those are.
    whole: u64,
    changes: u64,
    n: u32,
    /// Of the last part.
    crc: u32,
    /// Since the last part, as a part has them. `None`: too many, or nobody wants to know.
    since: Option<Vec<u8>>,
}

impl Parts {
    /// A leaf came, with this entry; the index has so many bytes now.
    pub fn came(&mut self, entry: &[u8], stored: usize) {
        if let Some(since) = self.room(stored) {
            since.put_u8(CAME);
            since.extend_from_slice(entry);
        }
    }
    /// A leaf went that began with this key.
    pub fn went(&mut self, first: &[u8], leaf: &LeafRef, stored: usize) {
        let has_blocks = self.form == Form::Blocks;
        if let Some(since) = self.room(stored).filter(|_| !planted(Bug::ForgetLeafGone)) {
            since.put_u8(if has_blocks { WENT_WITH_BLOCKS } else { WENT });
            since.put_blob(first);
            if has_blocks {
                let runs: Runs = leaf.runs().filter(|_| !planted(Bug::ForgetFreedBlocks)).collect();
                since.put_var(runs.len() as u64);
                for (block, blocks) in runs {
                    since.put_var(block);
                    since.put_var(blocks);
                }
            }
        }
    }
    /// The next part is a whole: of what is stored, not all is right.
    pub fn forget(&mut self) {
        self.since = None;
    }
    /// True if the next part that is stored in this form is a whole.
    pub fn is_whole_due(&self, form: Form) -> bool {
        form == Form::Alone || form != self.form || self.since.as_ref().is_none_or(|since| !self.has_room(since.len()))
    }
    fn room(&mut self, stored: usize) -> Option<&mut Vec<u8>> {
        if self.since.as_ref().is_some_and(|since| since.len() > stored.max(REMEMBERED)) {
            self.since = None;
        }
        self.since.as_mut()
    }
    /// True if changes of so many bytes may come behind what is stored.
    fn has_room(&self, bytes: usize) -> bool {
        let changes = self.changes + ((HEADER + bytes) as u64).div_ceil(BLOCK);
        self.whole > 0 && self.n < CHANGES_MAX && (2 * changes <= self.whole || cfg!(test))
    }
    /// The part that [`Index::begin`] began is stored, in so many blocks.
    pub fn stored(&mut self, is_whole: bool, blocks: u64, crc: u32) {
        self.crc = crc;
        if is_whole {
            (self.whole, self.changes, self.n) = (blocks, 0, 0);
        } else {
            (self.changes, self.n) = (self.changes + blocks, self.n + 1);
        }
    }
}

/// A part on its way to the device, some leaves at a time: the index must not change meanwhile.
#[derive(Debug, Default)]
pub struct Encoding {
    /// What is encoded and was not taken.
    out: Vec<u8>,
    /// The group encoded last.
    last: Option<Key>,
    done: bool,
    /// Comes behind the groups: the blocks that leaves have.
    behind: Vec<u8>,
    /// Bytes of all of it.
    len: usize,
    is_whole: bool,
}

impl Encoding {
    /// The next `n` bytes, if they are there; the last ones may be fewer.
    pub fn take(&mut self, n: usize) -> Option<Vec<u8>> {
        if self.out.len() < n && !self.done {
            return None;
        }
        let rest = self.out.split_off(n.min(self.out.len()));
        Some(std::mem::replace(&mut self.out, rest))
    }
    /// Bytes of all of it.
    pub fn len(&self) -> usize {
        self.len
    }
    /// It takes the place of all that is stored.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }
    /// Of changes, whose bytes are taken as they come, behind a part with this crc.
    fn of_changes(changes: Vec<u8>, before: u32) -> Self {
        let mut out = Vec::with_capacity(HEADER + changes.len());
        out.put_u32(0);
        out.put_u32(MAGIC_CHANGES);
        out.put_u64(changes.len() as u64);
        out.put_u32(before);
        out.put_u32(0);
        out.extend_from_slice(&changes);
        Self { len: out.len(), out, done: true, ..Self::default() }
    }
}

impl Index {
    /// A part is to be stored in this form: changes, if those will do. `blocks`: those that leaves have, as they are stored with a whole.
    pub fn begin(&mut self, form: Form, blocks: impl FnOnce() -> Vec<u8>) -> Encoding {
        let parts = self.parts();
        let is_whole = parts.is_whole_due(form);
        let since = parts.since.take().filter(|_| !is_whole);
        parts.form = form;
        parts.since = (form != Form::Alone).then(Vec::new);
        match since {
            Some(since) => Encoding::of_changes(if planted(Bug::LoseIndexChanges) { Vec::new() } else { since }, parts.crc),
            None => self.whole(form, if form == Form::Blocks { blocks() } else { Vec::new() }),
        }
    }
    fn whole(&self, form: Form, blocks: Vec<u8>) -> Encoding {
        let mut out = Vec::new();
        out.put_u32(0);
        out.put_u32(match form {
            Form::Alone => MAGIC_ALONE,
            Form::Changes => MAGIC,
            Form::Blocks => MAGIC_BLOCKS,
        });
        out.put_u64(self.len() as u64);
        match form {
            Form::Alone => out.put_u32(0),
            Form::Changes => out.put_u64(self.stored() as u64),
            Form::Blocks => {
                out.put_u64(self.stored() as u64);
                out.put_u64(blocks.len() as u64);
            }
        }
        Encoding { len: out.len() + self.stored() + blocks.len(), out, behind: blocks, is_whole: true, ..Encoding::default() }
    }
    /// Encodes until `len` bytes can be taken, or all is encoded. The header's crc is left out: see [`Index::seal`].
    pub fn encode_some(&self, to: &mut Encoding, len: usize) {
        let (from, mut last) = (to.last.clone(), None);
        let mut groups = self.groups_from(from.as_ref());
        while to.out.len() < len && !to.done {
            match groups.next() {
                Some((first, group)) => {
                    to.out.extend_from_slice(group);
                    last = Some(first);
                }
                None => {
                    to.out.append(&mut to.behind);
                    to.done = true;
                }
            }
        }
        if let Some(last) = last.cloned() {
            to.last = Some(last);
        }
    }
    /// The crc of a part when `bytes` come behind what has this one; what has none is the front, whose place for the crc is left out.
    pub fn crc(before: Option<u32>, seed: u32, bytes: &[u8]) -> u32 {
        match before {
            Some(crc) => base::crc32c(crc, bytes),
            None => base::crc32c(seed, &bytes[4..]),
        }
    }
    /// Puts the crc of everything into its front.
    pub fn seal(front: &mut [u8], crc: u32) {
        front[..4].copy_from_slice(&crc.to_le_bytes());
    }
    /// All of it at once, as one part.
    pub fn encode(&self, seed: u32) -> Vec<u8> {
        let mut encoding = self.whole(Form::Alone, Vec::new());
        self.encode_some(&mut encoding, usize::MAX);
        let mut out = encoding.out;
        let crc = Self::crc(None, seed, &out);
        Self::seal(&mut out, crc);
        out
    }

    /// Reads it, to the end of its last part, which has this crc if there may be several. `blocks`: none, of the store's devices.
    pub fn decode(bytes: Bytes, seed: u32, last: u32, blocks: Blocks) -> Result<(Self, StoredBlocks), Corrupt> {
        let mut get = Get::new(bytes.clone());
        let (crc, magic, leaves) = (get.u32()?, get.u32()?, get.u64()?);
        let mut index = Self::default();
        if matches!(magic, MAGIC_ALONE | MAGIC_OLD) {
            get.u32()?;
            check(&bytes, HEADER_ALONE..bytes.len(), seed, crc)?;
            index.read_whole(&mut get, leaves, magic == MAGIC_OLD)?;
            return Ok((index, None));
        }
        if !matches!(magic, MAGIC | MAGIC_BLOCKS) {
            return Err(Corrupt("the index has not its magic and crc"));
        }
        let form = if magic == MAGIC_BLOCKS { Form::Blocks } else { Form::Changes };
        let mut size = || get.u64().map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let (header, entries, behind) = if form == Form::Blocks { (HEADER_BLOCKS, size()?, size()?) } else { (HEADER, size()?, 0) };
        let behind_from = header.saturating_add(entries);
        let mut end = check(&bytes, header..behind_from.saturating_add(behind), seed, crc)?;
        index.read_whole(&mut Get::new(bytes.slice(header..behind_from)), leaves, false)?;
        let mut blocks = (form == Form::Blocks).then(|| blocks.read(&mut Get::new(bytes.slice(behind_from..end))));
        let mut parts = Parts { form, whole: (end as u64).div_ceil(BLOCK), crc, ..Parts::default() };
        while end < bytes.len() {
            let part = bytes.slice(end.next_multiple_of(BLOCK as usize).min(bytes.len())..);
            let mut get = Get::new(part.clone());
            let (crc, magic, len, before) = (get.u32()?, get.u32()?, get.u64()?, get.u32()?);
            if magic != MAGIC_CHANGES || before != parts.crc && !planted(Bug::TakeStalePart) {
                return Err(Corrupt("a part of the index does not follow the one in front of it"));
            }
            let to = check(&part, HEADER..usize::try_from(len).unwrap_or(usize::MAX).saturating_add(HEADER), seed, crc)?;
            let known = blocks.as_mut().and_then(|blocks| blocks.as_mut().ok());
            let known = known.filter(|_| to < part.len() || !planted(Bug::TakeOldBlocks));
            if !index.read_changes(&mut Get::new(part.slice(HEADER..to)), form, known)? {
                blocks = Some(Err(Corrupt("a leaf came where another has blocks, or had none that went")));
            }
            parts = Parts { changes: parts.changes + (to as u64).div_ceil(BLOCK), n: parts.n + 1, crc, ..parts };
            end = bytes.len() - part.len() + to;
        }
        if parts.crc != last && !planted(Bug::TakeStalePart) {
            return Err(Corrupt("the index is not the one that the superblock means"));
        }
        parts.since = Some(Vec::new());
        *index.parts() = parts;
        Ok((index, blocks))
    }
    fn read_whole(&mut self, get: &mut Get, leaves: u64, is_old: bool) -> Result<(), Corrupt> {
        let (mut group, mut grouped, mut last) = (Vec::new(), 0, None);
        for _ in 0..leaves {
            let first = get.blob()?;
            if last.is_some_and(|last| last >= first) {
                return Err(Corrupt("the leaves of the index are not in their order"));
            }
            let (leaf, filter) = entry::read(get, is_old)?;
            leaf.put(&first, &filter, &mut group);
            grouped += 1;
            if group.len() > GROUP_MAX - GROUP_MIN {
                self.append(std::mem::take(&mut group), std::mem::take(&mut grouped));
            }
            last = Some(first);
        }
        self.append(group, grouped);
        Ok(())
    }
    /// Takes changes of a part, and what they change of the blocks that leaves have; false if those can't be.
    fn read_changes(&mut self, get: &mut Get, form: Form, mut blocks: Option<&mut Blocks>) -> Result<bool, Corrupt> {
        let mut is_right = true;
        while !get.is_empty() {
            let (what, first) = (get.u8()?, Key::from(&get.blob()?[..]));
            let known = self.leaf_of_key(&first).is_some_and(|(start, _)| start == &first[..]);
            if known == (what == CAME) {
                return Err(Corrupt("a change of the index is of a leaf that is there, or of one that is not"));
            }
            match (what, form) {
                (CAME, _) => {
                    let (leaf, filter) = entry::read(get, false)?;
                    self.insert(&first, &leaf, &filter);
                    is_right &= blocks.as_deref_mut().is_none_or(|blocks| leaf.runs().all(|run| blocks.take(run)));
                }
                (WENT_WITH_BLOCKS, Form::Blocks) => {
                    self.remove(&first);
                    for _ in 0..get.count(2)? {
                        let run = (get.var()?, get.var()?);
                        is_right &= blocks.as_deref_mut().is_none_or(|blocks| blocks.free(run));
                    }
                }
                (WENT, Form::Changes) => drop(self.remove(&first)),
                _ => return Err(Corrupt("a change of the index is of no known kind")),
            }
            // They are of no use any more.
            blocks = blocks.filter(|_| is_right);
        }
        Ok(is_right)
    }
}

/// Looks at the crc of what reaches from behind its crc to here, and says where that is.
fn check(bytes: &[u8], body: std::ops::Range<usize>, seed: u32, crc: u32) -> Result<usize, Corrupt> {
    let part = bytes.get(4..body.end).filter(|_| body.start <= body.end);
    if part.is_none_or(|part| base::crc32c(seed, part) != crc) {
        return Err(Corrupt("the index has not its magic and crc"));
    }
    Ok(body.end)
}
