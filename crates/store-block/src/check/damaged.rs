//! Damaged leaves: how the store goes on round them, and what it can make good.
//!
//! ```text
//!   a leaf can't be read, or has not its crc ──> damaged: what only it knows is answered with an error
//!     ── a checkpoint has changes for it ──> the leaf stays, its changes lie beside it (in memory, and as spare rows in other leaves)
//!     ── it can be read again, or all of it is removed ──> what lay beside it is merged as any change
//!     ── `store repair` ──> the leaf goes, its range has what lay beside it
//! ```
//! - **Nothing of a damaged leaf is dropped by a store that serves**: what it has is unknown, not absent.
//! - The allocator's pages, the counts of shared chunks and the counters are taken from the objects if a leaf of theirs is damaged; rows of
//!   collections, of groups and of the OSD's own objects (family 0: its superblock, maps) have copies in leaves of their own.
//! - An object of a damaged leaf that the log changes is *lost*: its row says so, lest an older state of it is taken if the leaf comes back.
//!
//! Holds no repair: see [`crate::check::repair`].

use crate::open::layout::{BLOCK, CHUNK_BLOCKS};
use crate::open::recover::OpenError;
use crate::planted::{Bug, planted};
use crate::rows::colls;
use crate::rows::counters;
use crate::rows::key;
use crate::rows::meta::Table;
use crate::rows::meta::layer::{Key, Layer, Val};
use crate::rows::objects::Objects;
use crate::rows::onode::{Onode, Usage};
use crate::state::Core;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The row of an object whose changes met a damaged leaf: never that of an object, whose number does not need so many bytes.
pub const LOST: &[u8] = &[0xff; 12];

/// Bytes of a damaged leaf's rows that lie beside it, at most, as a part of the memory for recent changes.
const BESIDE_SHARE: usize = 2;

/// What the store knows to be damaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Damage {
    /// Leaves of metadata that can't be read.
    pub leaves: u64,
    /// Rows that they had: objects, keys of omaps, entries of logs.
    pub rows: u64,
    /// Objects among them, at most: rows of leaves that have rows of objects.
    pub objects: u64,
}

impl Table {
    /// The last key of rows that a leaf from `start` to `end` may have, exclusive: what lies beside damaged leaves is in other leaves.
    fn leaf_end(end: Option<&Key>) -> Key {
        let beside = Key::from(key::spare(key::SPARE_RANGE, b""));
        end.map_or(beside.clone(), |end| end.clone().min(beside))
    }
    /// What lies beside the leaf from `start` to `end` becomes a change of this checkpoint, below those that are newer.
    pub fn come_from_beside(&mut self, frozen: &mut Layer, start: &Key, end: Option<&Key>) {
        let end = Self::leaf_end(end);
        if self.beside().is_empty() || start >= &end || !self.beside().has_any(start, &end) {
            return;
        }
        self.underlay_beside(frozen, start, &end);
        for what in [key::SPARE_RANGE, key::SPARE_ROW] {
            frozen.remove_range(&key::spare(what, start), &key::spare(what, &end));
        }
    }
    /// Frozen changes from `first` to before `last`, which are all of a damaged leaf, go beside it.
    pub fn go_beside(&mut self, frozen: &mut Layer, first: &Key, last: &Key, objects: &mut Objects) {
        let ranges = frozen.ranges_in(first, last);
        let rows: Vec<(Key, Val)> = frozen
            .rows()
            .range::<Key, _>((Bound::Included(first), Bound::Excluded(last)))
            .map(|(key, val)| (key.clone(), val.clone()))
            .collect();
        if planted(Bug::DropBesideBadLeaf) {
            return;
        }
        for (from, to) in ranges {
            self.remove_beside(&from, &to);
            frozen.put(&key::spare(key::SPARE_RANGE, &from), Val::Row(Bytes::copy_from_slice(&to)));
        }
        for (key, val) in rows {
            let row = match val {
                Val::Del => None,
                Val::Row(row) => Some(row),
                Val::Obj(slot) => {
                    let mut out = Vec::new();
                    objects.encode(slot, &mut out).then(|| out.into())
                }
            };
            frozen.put(&key::spare(key::SPARE_ROW, &key), Val::Row(spare_row(row.as_deref())));
            self.put_beside(key, row);
        }
    }
    /// All that lies beside damaged leaves, as rows again.
    pub fn put_spare_rows(&mut self, frozen: &mut Layer) {
        let (first, last) = (Key::default(), Key::from(&[u8::MAX][..]));
        for (from, to) in self.beside().ranges_in(&first, &last) {
            frozen.put(&key::spare(key::SPARE_RANGE, &from), Val::Row(Bytes::copy_from_slice(&to)));
        }
        for (key, val) in self.beside().rows() {
            let row = if let Val::Row(row) = val { Some(&row[..]) } else { None };
            frozen.put(&key::spare(key::SPARE_ROW, key), Val::Row(spare_row(row)));
        }
    }
}

impl Core {
    /// True if so much lies beside damaged leaves that nothing more may come.
    pub fn is_beside_full(&self) -> bool {
        self.table.beside().bytes() > self.budget.recent_max() / BESIDE_SHARE
    }

    /// Rows of collections, layers and groups that changed get their copies; all of them if there are none yet.
    pub fn copy_rows(&mut self) {
        let table = &mut self.table;
        for kind in [key::COLL, key::LAYER, key::PG] {
            let (first, last) = (Key::from(&[kind][..]), Key::from(key::kind_end(kind)));
            for (from, to) in table.active().ranges_in(&first, &last) {
                table.remove_range(&key::spare(key::SPARE_COPY, &from), &key::spare(key::SPARE_COPY, &to));
            }
            let rows = table.active().rows().range::<Key, _>((Bound::Included(&first), Bound::Excluded(&last)));
            let rows: Vec<(Key, Val)> = rows.map(|(key, val)| (key.clone(), val.clone())).collect();
            rows.into_iter().for_each(|(key, val)| table.put(&key::spare(key::SPARE_COPY, &key), val));
        }
        table.put(&key::spare(key::SPARE_COPY, b""), Val::Row(Bytes::new()));
        let (first, last) = own_objects();
        let rows = self.table.active().rows().range::<Key, _>((Bound::Included(&first), Bound::Excluded(&last)));
        let rows: Vec<(Key, Val)> = rows.map(|(key, val)| (key.clone(), val.clone())).collect();
        for (key, val) in rows {
            // As it is now: the object may change before the copy is merged.
            let val = match val {
                Val::Obj(slot) => {
                    let mut out = Vec::new();
                    if self.objects.encode(slot, &mut out) { Val::Row(out.into()) } else { Val::Del }
                }
                other => other,
            };
            self.table.put(&key::spare(key::SPARE_COPY, &key), val);
        }
        self.salvage.set_copies(true);
    }
    /// Rows of the OSD's own objects, from their copies if a damaged leaf has them: from here on they are known, and lie beside it.
    pub fn load_own_objects(&mut self) -> Result<(), OpenError> {
        let (first, last) = own_objects();
        let mut rows = Vec::new();
        let whole = self.rows_now(&first, &last, &mut |_, k, row| {
            rows.push((k.to_vec(), Bytes::copy_from_slice(&row)));
            Ok(())
        })?;
        if whole && !self.salvage.has_copies() {
            rows.into_iter().for_each(|(key, row)| self.table.put(&key::spare(key::SPARE_COPY, &key), Val::Row(row)));
            return Ok(());
        }
        if whole || !self.salvage.has_copies() {
            return Ok(());
        }
        let (from, to) = (key::spare(key::SPARE_COPY, &first), key::spare(key::SPARE_COPY, &last));
        let mut copies = Vec::new();
        let whole = self.rows_now(&from, &to, &mut |_, k, row| {
            copies.push((k[2..].to_vec(), Bytes::copy_from_slice(&row)));
            Ok(())
        })?;
        if whole {
            self.salvage.puts_bare_rows();
            self.table.remove_range(&first, &last);
            copies.into_iter().for_each(|(key, row)| self.table.put(&key, Val::Row(row)));
        }
        Ok(())
    }
    /// The next checkpoint has all rows of collections, layers and groups, and with them their copies.
    pub fn renew_rows(&mut self) {
        self.groups.renew();
        self.layers.renew();
        for (coll, bits) in self.colls.iter() {
            self.table.put(&colls::row_key(&crate::data::ops::coll_bytes(coll)), colls::row(bits));
        }
    }

    /// Loads what lies beside damaged leaves. Comes before any other row is read.
    pub fn load_beside(&mut self) -> Result<(), OpenError> {
        let mut beside = Layer::default();
        let (first, last) = (key::spare(key::SPARE_RANGE, b""), key::spare(key::SPARE_ROW, b""));
        let mut whole = self.rows_now(&first, &last, &mut |_, k, row| {
            beside.remove_range(&k[2..], &row);
            Ok(())
        })?;
        whole &= self.rows_now(&last, &key::kind_end(key::SPARE), &mut |_, k, row| {
            let val = if row.first() == Some(&1) { Val::Row(row.slice(1..)) } else { Val::Del };
            beside.put(&k[2..], val);
            Ok(())
        })?;
        if !whole && !self.cfg.salvage {
            let why = "metadata are damaged, and so is what was written beside damaged metadata since".to_string();
            return Err(OpenError::Damaged { what: why, next: self.cfg.command("repair") });
        }
        self.table.load_beside(beside);
        Ok(())
    }
    /// Rows of a kind that has copies, from those.
    pub fn rows_of_copies(
        &mut self,
        kind: u8,
        visit: &mut dyn FnMut(&mut Self, &[u8], Bytes) -> Result<(), OpenError>,
    ) -> Result<(), OpenError> {
        let (first, last) = (key::spare(key::SPARE_COPY, &[kind]), key::spare(key::SPARE_COPY, &key::kind_end(kind)));
        let whole = self.rows_now(&first, &last, &mut |core, k, row| visit(core, &k[2..], row))?;
        if !whole || !self.salvage.has_copies() {
            let what = match kind {
                key::COLL => "collections",
                key::LAYER => "shared omaps",
                _ => "groups",
            };
            let why = format!("the metadata of {what} are damaged, and there is no whole copy of them");
            return Err(OpenError::Damaged { what: why, next: "restore this OSD from an export, or let it be filled anew".into() });
        }
        Ok(())
    }
    /// Allocator, shares and counters as the objects have them, of the state at the checkpoint.
    pub fn rebuild(&mut self) -> Result<(), OpenError> {
        let mut used = vec![0u16; self.alloc.used_map().len()];
        let (mut shares, mut usage): (BTreeMap<u64, u32>, BTreeMap<i64, Usage>) = (BTreeMap::new(), BTreeMap::new());
        let whole = self.rows_now(&[key::OBJECT], &key::kind_end(key::OBJECT), &mut |core, k, row| {
            let Ok(node) = Onode::decode(row) else { return Ok(()) };
            let pool = counters::pool_of(key::family_of(k), key::pool_of(k));
            usage.entry(pool).or_default().change(Usage::default(), node.usage());
            for chunk in &node.chunks {
                if chunk.shared {
                    let owners = shares.entry(chunk.place).or_default();
                    *owners += 1;
                    if *owners > 1 {
                        usage.entry(pool).or_default().again += (chunk.slots() * BLOCK) as i64;
                    }
                }
                for block in chunk.place..chunk.place + chunk.slots() {
                    let chunk = used.get_mut((block / CHUNK_BLOCKS) as usize);
                    *chunk.ok_or(crate::rows::codec::Corrupt("a place is outside the device"))? |= 1 << (block % CHUNK_BLOCKS);
                }
            }
            core.table.shrink_leaves(core.budget.leaves_max());
            Ok(())
        })?;
        if !whole && !self.cfg.salvage {
            let why = "the metadata of free space are damaged, and some of objects too".to_string();
            return Err(OpenError::Damaged { what: why, next: self.cfg.command("repair") });
        }
        used[0] = u16::MAX;
        used.iter_mut().skip((self.sb.data_blocks / CHUNK_BLOCKS) as usize).for_each(|c| *c = u16::MAX);
        self.alloc.set_all(&used);
        self.refs.rebuild(shares);
        self.counters.recount(usage);
        self.table.put(&[key::COUNTERS], Val::Del);
        self.generations.want();
        Ok(())
    }

    /// What shared chunks take is counted by the objects, of the state at the checkpoint: the version that wrote it did not know.
    pub fn count_shared(&mut self) -> Result<(), OpenError> {
        let mut seen = BTreeSet::new();
        // What a damaged leaf has is not counted until a repair counts all.
        self.rows_now(&[key::OBJECT], &key::kind_end(key::OBJECT), &mut |core, k, row| {
            let Ok(node) = Onode::decode(row) else { return Ok(()) };
            let again =
                node.chunks.iter().filter(|chunk| chunk.shared && !seen.insert(chunk.place)).map(|chunk| chunk.slots()).sum::<u64>();
            core.counters.share(counters::pool_of(key::family_of(k), key::pool_of(k)), again as i64);
            Ok(())
        })?;
        self.table.put(&[key::COUNTERS], Val::Del);
        self.generations.want();
        Ok(())
    }

    /// What is known to be damaged.
    pub fn damage(&self) -> Damage {
        let mut damage = Damage::default();
        if !self.leaves.has_bad() {
            return damage;
        }
        for (start, leaf) in self.table.index().iter().filter(|(_, l)| self.leaves.is_bad(l.id)) {
            damage.leaves += 1;
            damage.rows += u64::from(leaf.rows);
            let end = self.table.index().end_of(start).unwrap_or(&[u8::MAX]);
            if *start < key::kind_end(key::OBJECT)[..] && *end > [key::OBJECT][..] {
                damage.objects += u64::from(leaf.rows);
            }
        }
        damage
    }
}

/// Keys of the OSD's own objects.
pub fn own_objects() -> (Key, Key) {
    (Key::from(&[key::OBJECT, 0][..]), Key::from(&[key::OBJECT, 1][..]))
}

fn spare_row(row: Option<&[u8]>) -> Bytes {
    match row {
        Some(row) => [&[1], row].concat().into(),
        None => Bytes::from_static(&[0]),
    }
}
