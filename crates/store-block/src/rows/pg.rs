//! What groups remember: info in memory, log entries, dups and missing objects as rows. A delta is encoded once, for the log, and applied
//! from those bytes, when it happens as when it is replayed.
//!
//! ```text
//! delta | pool zigzag, seed, shard u8 | flags u8 | what the flags say | n entries: epoch, version, row |
//!       | n dups: epoch, version, row | n missing: hobject_t, there u8, pg_missing_item | the mark of roll-forward, if it moves |
//! row   | epoch | next dup | pg_info_t | pg_past_intervals | the mark of roll-forward, if there is one |
//! ```
//! No record of before has a mark, and none of a group of copies.
//!
//! Counts of a group's statistics change a little with each write: the delta has their differences to the counts before.
//!
//! A delta takes a step for each entry that it adds, and for each that it trims which no checkpoint has taken; the length of the log is
//! none. To load a group takes one for each of its rows, to save one for each group.

use crate::data::log::Log;
use crate::data::ops::{self, Op};
use crate::open::layout::BLOCK;
use crate::planted::{Bug, planted};
use crate::rows::codec::{Corrupt, Get, Put};
use crate::rows::key;
use crate::rows::meta::layer::Val;
use crate::rows::meta::{Row, Table};
use crate::rows::pg_row::{PgRow, encode_into, get_version, put_dup, put_entry, put_version};
use crate::state::Core;
use bytes::{Bytes, BytesMut};
use denc::{ALL_FEATURES, Decoder, Denc};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use store::{InfoChange, LogDelta, PgRecord, StoreError, StoreResult};
use types::{CollId, EVersion, HObject, PastIntervals, PgId, PgInfo, SpgId};

/// Leaves of one group's log that are asked for together: with each wait it is read from its beginning again.
const LEAVES_AHEAD: usize = 256;

/// What a group has rows of, besides its own.
pub const PG_KINDS: [u8; 3] = [key::LOG, key::DUP, key::MISSING];

/// Of a group, what is always in memory.
#[derive(Debug)]
pub struct PgMem {
    epoch: u32,
    info: PgInfo,
    past: PastIntervals,
    /// `info.stats.stats.sum` as it is encoded; newer than the one in `info`.
    sum: Vec<u8>,
    next_dup: u32,
    rolled_forward_to: Option<EVersion>,
    changed: bool,
}

/// What the groups remember, but for the rows of their logs.
#[derive(Debug, Default)]
pub struct Groups {
    groups: BTreeMap<SpgId, PgMem>,
    /// Where values are encoded on their way into a record.
    buf: BytesMut,
}

impl Groups {
    pub fn get(&self, id: SpgId) -> Option<&PgMem> {
        self.groups.get(&id)
    }
    pub fn ids(&self) -> impl Iterator<Item = SpgId> + '_ {
        self.groups.keys().copied()
    }
    pub fn iter(&self) -> impl Iterator<Item = (&SpgId, &PgMem)> {
        self.groups.iter()
    }
    pub fn len(&self) -> usize {
        self.groups.len()
    }
    /// As a row has it.
    pub fn load(&mut self, pg: PgMem) {
        self.groups.insert(pg.pgid(), pg);
    }
    /// The rows of all are written with the next checkpoint, changed or not.
    pub fn renew(&mut self) {
        self.groups.values_mut().for_each(|pg| pg.changed = true);
    }
    pub fn memory(&self) -> usize {
        self.groups.values().map(PgMem::memory).sum()
    }
}

mod flag {
    pub const RESET: u8 = 1;
    pub const EPOCH: u8 = 2;
    pub const FAST: u8 = 4;
    pub const FULL: u8 = 8;
    pub const PAST: u8 = 16;
    pub const REWIND: u8 = 32;
    pub const TRIM: u8 = 64;
    pub const TRIM_DUPS: u8 = 128;
}

fn encoded(value: &impl Denc) -> Bytes {
    value.to_bytes(ALL_FEATURES)
}
fn decoded<T: Denc>(bytes: &Bytes) -> Result<T, Corrupt> {
    T::decode(&mut Decoder::new(bytes.clone())).map_err(|_| Corrupt("a row is not of its type"))
}

impl PgMem {
    fn new(pg: SpgId) -> Self {
        let info = PgInfo::new(pg);
        let sum = encoded(&info.stats.stats.sum).to_vec();
        Self { epoch: 0, info, past: PastIntervals::default(), sum, next_dup: 0, rolled_forward_to: None, changed: true }
    }
    pub fn info(&self) -> Result<PgInfo, Corrupt> {
        let mut info = self.info.clone();
        info.stats.stats.sum = decoded(&Bytes::copy_from_slice(&self.sum))?;
        Ok(info)
    }
    fn encode(&self) -> Result<Bytes, Corrupt> {
        let mut out = Vec::new();
        out.put_var(u64::from(self.epoch));
        out.put_var(u64::from(self.next_dup));
        out.put_blob(&encoded(&self.info()?));
        out.put_blob(&encoded(&self.past));
        if let Some(to) = self.rolled_forward_to {
            put_version(&mut out, to);
        }
        Ok(out.into())
    }
    pub fn decode(row: Bytes) -> Result<Self, Corrupt> {
        let mut get = Get::new(row);
        let (epoch, next_dup) = (get.var()? as u32, get.var()? as u32);
        let info: PgInfo = decoded(&get.blob()?)?;
        let sum = encoded(&info.stats.stats.sum).to_vec();
        let past = decoded(&get.blob()?)?;
        Ok(Self { epoch, past, sum, info, next_dup, rolled_forward_to: get_mark(&mut get)?, changed: false })
    }
    /// Bytes of memory, roughly.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.sum.capacity() + 476
    }
    pub fn pgid(&self) -> SpgId {
        self.info.pgid
    }
}

/// An object is missing since, or no longer.
fn apply_missing(id: SpgId, get: &mut Get, table: &mut Table) -> Result<(), Corrupt> {
    let object = get.blob()?;
    let key = missing_key(id, &decoded(&object)?);
    let val = if get.u8()? != 0 {
        let mut row = Vec::new();
        row.put_blob(&object);
        row.extend_from_slice(&get.blob()?);
        Val::Row(row.into())
    } else {
        Val::Del
    };
    table.put(&key, val);
    Ok(())
}

/// The mark of roll-forward, if that is what follows.
fn get_mark(get: &mut Get) -> Result<Option<EVersion>, Corrupt> {
    if get.is_empty() { Ok(None) } else { get_version(get).map(Some) }
}

fn encode_delta(delta: &LogDelta, old_sum: Option<&[u8]>, out: &mut Vec<u8>, buf: &mut BytesMut) {
    out.put_zigzag(delta.pg.pgid.pool);
    out.put_var(u64::from(delta.pg.pgid.seed));
    out.put_u8(delta.pg.shard as u8);
    let bit = |is: bool, flag: u8| if is { flag } else { 0 };
    out.put_u8(
        bit(delta.reset, flag::RESET)
            | bit(delta.epoch.is_some(), flag::EPOCH)
            | bit(matches!(delta.info, InfoChange::Fast(_)), flag::FAST)
            | bit(matches!(delta.info, InfoChange::Full(_)), flag::FULL)
            | bit(delta.past_intervals.is_some(), flag::PAST)
            | bit(delta.rewind_to.is_some(), flag::REWIND)
            | bit(delta.trim_to.is_some(), flag::TRIM)
            | bit(delta.trim_dups_to.is_some(), flag::TRIM_DUPS),
    );
    if let Some(epoch) = delta.epoch {
        out.put_var(u64::from(epoch));
    }
    match &delta.info {
        InfoChange::Same => {}
        InfoChange::Fast(fast) => {
            put_version(out, fast.last_update);
            put_version(out, fast.last_complete);
            out.put_var(fast.last_user_version);
            let sum = encode_into(buf, &fast.sum);
            let mut runs = Vec::new();
            match old_sum.filter(|old| old.len() == sum.len()).and_then(|old| ops::runs(old, sum, &mut runs)) {
                Some(()) => {
                    out.put_u8(1);
                    out.put_blob(&runs);
                }
                None => {
                    out.put_u8(0);
                    out.put_blob(sum);
                }
            }
        }
        InfoChange::Full(info) => out.put_blob(&encoded(&**info)),
    }
    if let Some(past) = &delta.past_intervals {
        out.put_blob(&encoded(past));
    }
    for to in [delta.rewind_to, delta.trim_to, delta.trim_dups_to].into_iter().flatten() {
        put_version(out, to);
    }
    out.put_var(delta.entries.len() as u64);
    for entry in &delta.entries {
        put_version(out, entry.version);
        put_entry(entry, out, buf);
    }
    out.put_var(delta.dups.len() as u64);
    for dup in &delta.dups {
        put_version(out, dup.version);
        put_dup(dup, out, buf);
    }
    out.put_var(delta.missing.len() as u64);
    for (object, item) in &delta.missing {
        out.put_blob(encode_into(buf, object));
        out.put_u8(u8::from(item.is_some()));
        if let Some(item) = item {
            out.put_blob(encode_into(buf, item));
        }
    }
    if let Some(to) = delta.rolled_forward_to {
        put_version(out, to);
    }
}

/// The row of a dup: by version, and by number where versions are the same.
fn dup_key(pg: SpgId, version: EVersion, n: u32) -> Vec<u8> {
    let mut out = key::log(pg, version);
    out[0] = key::DUP;
    out.extend_from_slice(&n.to_be_bytes());
    out
}
/// Behind the rows of this kind with this version.
fn behind(kind: u8, pg: SpgId, version: EVersion) -> Vec<u8> {
    let mut out = key::log(pg, version);
    out[0] = kind;
    out.extend_from_slice(&[0xff; 5]);
    out
}
fn missing_key(pg: SpgId, object: &HObject) -> Vec<u8> {
    let mut out = key::pg(key::MISSING, pg);
    key::object(0, &object.clone().into(), &mut out);
    out
}

impl Groups {
    /// Writes a change of a group's memory into the open record. [`Groups::apply`] makes it.
    fn write(&mut self, delta: &LogDelta, log: &mut Log) -> Bytes {
        let mut out = log.take_scratch();
        out.clear();
        let old = if delta.reset { None } else { self.groups.get(&delta.pg).map(|pg| &pg.sum[..]) };
        encode_delta(delta, old, &mut out, &mut self.buf);
        log.put(&Op::Log(&out[..]));
        let bytes = Bytes::copy_from_slice(&out);
        log.put_scratch(out);
        bytes
    }
    /// A change of a group's memory, as [`Groups::write`] wrote it: what is remembered, and rows.
    pub fn apply(&mut self, delta: Bytes, table: &mut Table) -> Result<(), Corrupt> {
        let mut get = Get::new(delta);
        let (pool, seed, shard) = (get.zigzag()?, get.var()? as u32, get.u8()? as i8);
        let id = SpgId { pgid: PgId { pool, seed }, shard };
        let flags = get.u8()?;
        let has = |flag: u8| flags & flag != 0;
        if has(flag::RESET) {
            self.groups.remove(&id);
            for kind in [key::LOG, key::DUP, key::MISSING, key::PG] {
                table.remove_range(&key::pg(kind, id), &key::pg_end(kind, id));
            }
            // Nothing but the reset, or trims of nothing: forgotten.
            let rest = get.clone();
            if !has(flag::EPOCH) && !has(flag::FAST) && !has(flag::FULL) && entries_of(rest, flags)? == 0 {
                return Ok(());
            }
        }
        let pg = self.groups.entry(id).or_insert_with(|| PgMem::new(id));
        pg.changed = true;
        if has(flag::EPOCH) {
            pg.epoch = get.var()? as u32;
        }
        if has(flag::FAST) {
            pg.info.last_update = get_version(&mut get)?;
            pg.info.stats.version = pg.info.last_update;
            pg.info.last_complete = get_version(&mut get)?;
            pg.info.last_user_version = get.var()?;
            match (get.u8()?, get.blob()?) {
                (0, sum) => pg.sum = sum.to_vec(),
                (_, runs) => ops::patch(&mut pg.sum, &runs)?,
            }
        }
        if has(flag::FULL) {
            pg.info = decoded(&get.blob()?)?;
            pg.sum = encoded(&pg.info.stats.stats.sum).to_vec();
        }
        if has(flag::PAST) {
            pg.past = decoded(&get.blob()?)?;
        }
        let rewind = has(flag::REWIND).then(|| get_version(&mut get)).transpose()?;
        let trim = has(flag::TRIM).then(|| get_version(&mut get)).transpose()?;
        let trim_dups = has(flag::TRIM_DUPS).then(|| get_version(&mut get)).transpose()?;
        if let Some(to) = rewind {
            table.remove_range(&behind(key::LOG, id, to), &key::pg_end(key::LOG, id));
        }
        for _ in 0..get.count(3)? {
            let version = get_version(&mut get)?;
            // The row lives longer than the delta, and is smaller.
            table.put(&key::log(id, version), Val::Row(own(get.blob()?)));
        }
        if let Some(to) = trim {
            table.remove_range(&key::pg(key::LOG, id), &behind(key::LOG, id, to));
            pg.info.log_tail = to;
        }
        for _ in 0..get.count(3)? {
            let version = get_version(&mut get)?;
            let row = Val::Row(get.blob()?);
            if !planted(Bug::LoseDup) || version.version % 16 != 0 {
                table.put(&dup_key(id, version, pg.next_dup), row);
            }
            pg.next_dup = pg.next_dup.wrapping_add(1);
        }
        if let Some(to) = trim_dups {
            table.remove_range(&key::pg(key::DUP, id), &behind(key::DUP, id, to));
        }
        for _ in 0..get.count(2)? {
            apply_missing(id, &mut get, table)?;
        }
        if let Some(to) = get_mark(&mut get)? {
            pg.rolled_forward_to = Some(to);
        }
        Ok(())
    }

    /// Puts what changed of groups into rows.
    pub fn save(&mut self, table: &mut Table) -> Result<(), Corrupt> {
        for (id, pg) in self.groups.iter_mut().filter(|(_, pg)| pg.changed) {
            pg.changed = false;
            table.put(&key::pg(key::PG, *id), Val::Row(pg.encode()?));
        }
        Ok(())
    }
}

impl Core {
    /// Writes a change of a group's memory into the open record and makes it.
    pub fn log_delta(&mut self, delta: &LogDelta) -> Result<(), Corrupt> {
        let written = self.groups.write(delta, &mut self.log);
        self.groups.apply(written, &mut self.table)
    }
    pub fn load_pg(&mut self, id: SpgId) -> StoreResult<Option<PgRecord>> {
        let Some(pg) = self.groups.get(id) else { return Ok(None) };
        let damaged = |e: Corrupt| StoreError::Damaged { coll: CollId::Pg(id), what: format!("what group {id} remembers: {e}") };
        let mut record = PgRecord {
            epoch: pg.epoch,
            info: pg.info().map_err(damaged)?,
            past_intervals: pg.past.clone(),
            rolled_forward_to: pg.rolled_forward_to,
            ..PgRecord::default()
        };
        record.log.reserve(self.pg_leaves(id)?);
        let mut bad = Ok(());
        for kind in PG_KINDS {
            let (first, last) = (key::pg(kind, id), key::pg_end(kind, id));
            self.rows_ahead(&first, &last, LEAVES_AHEAD, CollId::Pg(id), &mut crate::state::ask(), &mut |_, row| {
                let Row::Bytes(row) = row else { return ControlFlow::Continue(()) };
                match PgRow::decode(kind, row) {
                    Ok(PgRow::Log(entry)) => record.log.push_back(entry),
                    Ok(PgRow::Dup(dup)) => record.dups.push_back(dup),
                    Ok(PgRow::Missing(object, item)) => drop(record.missing.insert(object, item)),
                    Err(e) => {
                        bad = Err(e);
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            })?;
        }
        bad.map_err(damaged)?;
        Ok(Some(record))
    }
}

impl Core {
    /// Asks for the leaves of a group's rows together, so that what is decoded is decoded once; and, as a ticket waits anyway, for those of the
    /// groups behind it, which come next when an OSD starts. Returns how many rows the leaves have that hold its log.
    fn pg_leaves(&mut self, id: SpgId) -> StoreResult<usize> {
        let (mut missing, mut others, mut rows) = (Vec::new(), Vec::new(), 0);
        let mut room = self.budget.leaves_max() / 2;
        for kind in PG_KINDS {
            let (first, last, behind) = (key::pg(kind, id), key::pg_end(kind, id), key::kind_end(kind));
            for (start, leaf) in self.table.index().leaves_from(&first).take_while(|(start, _)| *start < &behind[..]) {
                let is_mine = *start < last[..];
                if is_mine && kind == key::LOG {
                    rows += leaf.rows as usize;
                }
                if !is_mine && (missing.is_empty() || room == 0) {
                    break;
                }
                if self.table.leaf(leaf.id).is_some() {
                    continue;
                }
                room = room.saturating_sub((u64::from(leaf.blocks) * BLOCK) as usize);
                if is_mine { missing.push(leaf.leaf()) } else { others.push(leaf.leaf()) }
            }
        }
        if missing.is_empty() {
            return Ok(rows);
        }
        let (mut ticket, mut waits) = (crate::state::ask(), false);
        for leaf in missing.iter().chain(&others) {
            // A damaged one is told of where its rows are shown, if any of them count.
            waits |= matches!(self.want_leaf(leaf, CollId::Pg(id), &mut ticket), StoreError::Wait(_));
        }
        if waits { Err(StoreError::Wait(ticket)) } else { Ok(rows) }
    }
}

/// Bytes in memory of their own: what is decoded from them shares them and lives long.
fn own(row: Bytes) -> Bytes {
    Bytes::copy_from_slice(&row)
}

/// How many entries the rest of a delta has.
fn entries_of(mut get: Get, flags: u8) -> Result<usize, Corrupt> {
    if flags & flag::PAST != 0 {
        get.blob()?;
    }
    for flag in [flag::REWIND, flag::TRIM, flag::TRIM_DUPS] {
        if flags & flag != 0 {
            get_version(&mut get)?;
        }
    }
    get.count(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::PgLogEntry;

    /// A group's row and its changes without a mark of roll-forward are, byte for byte, those of stores of before; with one, it comes back
    /// from either.
    #[test]
    fn a_mark_of_roll_forward_is_kept_and_a_row_of_before_has_none() {
        let id = SpgId::whole(PgId::new(3, 5));
        let change = |mark| {
            let delta = LogDelta { epoch: Some(7), rolled_forward_to: mark, ..LogDelta::new(id) };
            let mut bytes = Vec::new();
            encode_delta(&delta, None, &mut bytes, &mut BytesMut::new());
            bytes
        };
        let mark = |v| Some(EVersion::new(7, v));
        let (mut groups, mut table) = (Groups::default(), Table::new());
        let mut row_after = |delta: Vec<u8>| {
            groups.apply(delta.into(), &mut table).expect("a delta");
            groups.get(id).expect("it is there").encode().expect("a row")
        };
        let (before, without) = (row_after(change(None)), PgMem { epoch: 7, ..PgMem::new(id) }.encode().expect("a row"));
        assert_eq!(before, without);
        assert_eq!(PgMem::decode(before.clone()).expect("a row").rolled_forward_to, None);
        let (with, kept) = (row_after(change(mark(300))), row_after(change(None)));
        assert_eq!(with, kept, "a change without a mark leaves it");
        assert_eq!(with[..before.len()], before[..], "it stands behind all else");
        assert_eq!(PgMem::decode(with.clone()).expect("a row").rolled_forward_to, mark(300));
        assert!(PgMem::decode(with.slice(..with.len() - 1)).is_err(), "a part of a mark is none");
    }

    /// A log at its full length gains an entry and loses one, and is read at both ends: a long one takes the steps that a short one takes.
    #[test]
    fn a_long_log_costs_what_a_short_one_does() {
        let id = SpgId::whole(PgId::new(3, 5));
        let version = |n: u64| EVersion::new(7, n);
        let steps = |len: u64| {
            let (mut groups, mut table, mut most) = (Groups::default(), Table::new(), [0; 3]);
            for n in 1..=3 * len {
                let entry = PgLogEntry { version: version(n), ..PgLogEntry::default() };
                let trim_to = (n > len).then(|| version(n - len));
                let delta = LogDelta { entries: vec![entry], trim_to, ..LogDelta::new(id) };
                let mut bytes = Vec::new();
                encode_delta(&delta, None, &mut bytes, &mut BytesMut::new());
                table.take_steps();
                groups.apply(bytes.into(), &mut table).expect("a delta");
                most[0] = most[0].max(table.take_steps());
                if n == 2 * len {
                    // A checkpoint is under way with what there is.
                    table.freeze();
                }
                if n <= len || n % 16 != 0 {
                    continue;
                }
                for (at, from) in [(1, n - len), (2, n - 10)] {
                    let mut seen = 0;
                    let (first, last) = (key::log(id, version(from)), key::pg_end(key::LOG, id));
                    let passed = table.scan(&first, &last, 1, &mut |_, _| {
                        seen += 1;
                        if seen == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    });
                    passed.expect("there are no leaves");
                    most[at] = most[at].max(table.take_steps());
                    assert_eq!(seen, 10);
                }
            }
            most
        };
        let (few, many) = (steps(100), steps(1000));
        assert!(
            (0..3).all(|n| many[n] <= few[n] + 2 && many[n] < 40),
            "{few:?} steps to append, and to read, {many:?} of ten times as long a log"
        );
    }
}
