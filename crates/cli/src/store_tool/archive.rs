//! A store as a file: what makes it again, piece by piece.
//!
//! ```text
//! "HUMBOLDT EXPORT\n"   then frames: | kind u8 | length u32 | crc32c of the content u32 | content |, little-endian
//! kind 1: a transaction, in Ceph's encoding    kind 2: a group's memory: epoch u32, then lists of encoded values, then
//! the mark of roll-forward if there is one    kind 0: the end
//! ```

use super::Offline;
use super::objects;
use crate::progress::Progress;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use denc::{ALL_FEATURES, Decoder, Denc, Encoder};
use std::fs::File;
use std::io::{Read, Write, stdout};
use std::path::Path;
use store::{InfoChange, LogDelta, ObjectStore, OmapQuery, PgRecord, StoreError};
use types::{ByteStr, CollId, EVersion, GHObject, HObject, PastIntervals, PgInfo, PgLogDup, PgLogEntry, PgMissingItem, Transaction};

const MAGIC: &[u8; 16] = b"HUMBOLDT EXPORT\n";
const END: u8 = 0;
const TRANSACTION: u8 = 1;
const GROUP: u8 = 2;
/// Bytes of data, and omap entries, of one transaction.
const PIECE: u64 = 1 << 20;
const KEYS: u64 = 1000;
/// A frame that is longer was never written.
const FRAME_MAX: u32 = 256 << 20;

fn put(out: &mut dyn Write, kind: u8, content: &[u8]) -> Result<()> {
    let mut head = vec![kind];
    head.extend_from_slice(&u32::try_from(content.len())?.to_le_bytes());
    head.extend_from_slice(&base::crc32c(u32::MAX, content).to_le_bytes());
    out.write_all(&head)?;
    Ok(out.write_all(content)?)
}

fn get(from: &mut dyn Read) -> Result<(u8, Bytes)> {
    let mut head = [0; 9];
    from.read_exact(&mut head).context("the file is cut off")?;
    let len = u32::from_le_bytes(head[1..5].try_into()?);
    if len > FRAME_MAX {
        bail!("a frame of {len} bytes: this is no export, or it is damaged");
    }
    let mut content = Vec::new();
    from.take(len.into()).read_to_end(&mut content)?;
    if content.len() as u32 != len || base::crc32c(u32::MAX, &content).to_le_bytes() != head[5..] {
        bail!("the file is cut off or damaged: a frame has not its checksum");
    }
    Ok((head[0], content.into()))
}

/// An error where that file can't be made: which is no damage of the store.
pub fn writable(file: &Path) -> Result<()> {
    if file == Path::new("-") {
        return Ok(());
    }
    if file.exists() {
        bail!("{} is there already: give another name", file.display());
    }
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => bail!("{} is no folder: make it first", folder.display()),
        _ => Ok(()),
    }
}

/// Writes everything; with `left_out`, objects and groups that can't be read are left out whole, and named there.
pub fn export(offline: &mut Offline, file: &Path, mut left_out: Option<&mut Vec<String>>) -> Result<()> {
    let mut out: Box<dyn Write> = if file == Path::new("-") {
        Box::new(stdout().lock())
    } else {
        Box::new(std::io::BufWriter::new(File::create_new(file).with_context(|| file.display().to_string())?))
    };
    out.write_all(MAGIC)?;
    for coll in offline.ask(|s| s.collections())? {
        let bits = offline.ask(|s| s.collection_bits(coll))?.unwrap_or_default();
        let mut txn = Transaction::new(coll);
        txn.create_collection(coll, bits);
        put(&mut *out, TRANSACTION, &txn.to_bytes(ALL_FEATURES))?;
    }
    let mut progress = Progress::new("export", offline.store.statfs().data_stored.max(0) as u64);
    objects::each(offline, &mut |offline, coll, name| {
        let Some(left_out) = &mut left_out else { return export_object(offline, coll, name, &mut *out, &mut progress).map(|()| true) };
        let mut whole = Vec::new();
        match export_object(offline, coll, name, &mut whole, &mut progress) {
            Ok(()) => out.write_all(&whole)?,
            Err(e) if is_damage(&e) => left_out.push(format!("object {name}: {e}")),
            Err(e) => return Err(e),
        }
        Ok(true)
    })?;
    drop(progress);
    for pg in offline.ask(|s| s.pgs())? {
        match (offline.ask(|s| s.load_pg(pg)), &mut left_out) {
            (Ok(record), _) => record.map_or(Ok(()), |record| put(&mut *out, GROUP, &encode_group(&record)))?,
            (Err(e), Some(left_out)) if is_damage(&e) => left_out.push(format!("what group {pg} remembers: {e}")),
            (Err(e), _) => return Err(e),
        }
    }
    put(&mut *out, END, &[])?;
    Ok(out.flush()?)
}

fn is_damage(e: &anyhow::Error) -> bool {
    matches!(e.downcast_ref::<StoreError>(), Some(StoreError::Damaged { .. }))
}

fn export_object(offline: &mut Offline, coll: CollId, name: &GHObject, out: &mut dyn Write, progress: &mut Progress) -> Result<()> {
    let stat = offline.ask(|s| s.stat(coll, name))?;
    let mut txn = Transaction::new(coll);
    txn.remove(name);
    txn.touch(name);
    txn.truncate(name, stat.size);
    txn.set_attrs(name, offline.ask(|s| s.attrs(coll, name))?);
    if (stat.expected_object_size, stat.expected_write_size, stat.alloc_hint_flags) != (0, 0, 0) {
        txn.set_alloc_hint(name, stat.expected_object_size, stat.expected_write_size, stat.alloc_hint_flags);
    }
    let header = offline.ask(|s| s.omap_header(coll, name))?;
    if !header.is_empty() {
        txn.omap_set_header(name, header);
    }
    put(out, TRANSACTION, &txn.to_bytes(ALL_FEATURES))?;
    let extents = offline.ask(|s| s.extents(coll, name, 0, u64::MAX))?;
    for (start, len) in extents.iter() {
        for at in (start..start + len).step_by(PIECE as usize) {
            let n = PIECE.min(start + len - at);
            let data = offline.ask(|s| s.read(coll, name, at, n))?.flat();
            let mut txn = Transaction::new(coll);
            txn.write(name, at, data, 0);
            put(out, TRANSACTION, &txn.to_bytes(ALL_FEATURES))?;
            progress.add(n);
        }
    }
    let mut after = ByteStr::new();
    loop {
        let query = OmapQuery { start_after: after.as_slice(), entries_max: KEYS, bytes_max: PIECE, ..OmapQuery::default() };
        let page = offline.ask(|s| s.omap_list(coll, name, &query))?;
        let Some((last, _)) = page.entries.last().cloned() else { return Ok(()) };
        let mut txn = Transaction::new(coll);
        txn.omap_set_keys(name, page.entries);
        put(out, TRANSACTION, &txn.to_bytes(ALL_FEATURES))?;
        if !page.more {
            return Ok(());
        }
        after = last;
    }
}

fn encode_group(record: &PgRecord) -> Vec<u8> {
    let mut e = Encoder::new(ALL_FEATURES);
    record.epoch.encode(&mut e);
    record.info.encode(&mut e);
    record.past_intervals.encode(&mut e);
    record.log.iter().cloned().collect::<Vec<PgLogEntry>>().encode(&mut e);
    record.dups.iter().cloned().collect::<Vec<PgLogDup>>().encode(&mut e);
    let (objects, items): (Vec<HObject>, Vec<PgMissingItem>) = record.missing.iter().map(|(o, i)| (o.clone(), i.clone())).unzip();
    objects.encode(&mut e);
    items.encode(&mut e);
    if let Some(to) = record.rolled_forward_to {
        to.encode(&mut e);
    }
    e.finish().to_vec()
}

fn decode_group(content: Bytes) -> Result<LogDelta> {
    let mut d = Decoder::new(content);
    let epoch = u32::decode(&mut d)?;
    let info = PgInfo::decode(&mut d)?;
    let mut delta = LogDelta::new(info.pgid);
    delta.reset = true;
    delta.epoch = Some(epoch);
    delta.info = InfoChange::Full(Box::new(info));
    delta.past_intervals = Some(PastIntervals::decode(&mut d)?);
    delta.entries = Vec::<PgLogEntry>::decode(&mut d)?;
    delta.dups = Vec::<PgLogDup>::decode(&mut d)?;
    let objects = Vec::<HObject>::decode(&mut d)?;
    let items = Vec::<PgMissingItem>::decode(&mut d)?;
    delta.missing = objects.into_iter().zip(items.into_iter().map(Some)).collect();
    delta.rolled_forward_to = if d.is_empty() { None } else { Some(EVersion::decode(&mut d)?) };
    Ok(delta)
}

/// An export, behind its first bytes.
fn opened(file: &Path) -> Result<Box<dyn Read>> {
    let mut from: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::io::BufReader::new(File::open(file).with_context(|| file.display().to_string())?))
    };
    let mut magic = [0; MAGIC.len()];
    from.read_exact(&mut magic).with_context(|| format!("{} is too short for an export", file.display()))?;
    if magic != *MAGIC {
        bail!("{} is no export: `humboldt store export` writes one", file.display());
    }
    Ok(from)
}

/// Reads an export to its end: what is damaged or cut off is found before anything of it is in a store. Standard input can be read only once.
pub fn check(file: &Path) -> Result<()> {
    if file == Path::new("-") {
        return Ok(());
    }
    let mut from = opened(file)?;
    let mut progress = Progress::new("check", std::fs::metadata(file).map_or(0, |about| about.len()));
    let whole = || format!("{}: nothing was imported; make the export again, or give a copy that is whole", file.display());
    loop {
        let (kind, content) = get(&mut *from).with_context(whole)?;
        progress.add(content.len() as u64 + 9);
        if kind == END {
            return Ok(());
        }
    }
}

pub fn import(offline: &mut Offline, file: &Path) -> Result<()> {
    let mut from = opened(file)?;
    let here = offline.ask(|s| s.collections())?;
    // Of standard input it is not known how much comes.
    let mut progress = Progress::new("import", std::fs::metadata(file).map_or(0, |about| about.len()));
    loop {
        let (kind, content) = get(&mut *from)?;
        progress.add(content.len() as u64 + 9);
        match kind {
            END => return Ok(()),
            TRANSACTION => {
                let txn = Transaction::from_bytes(&content)?;
                let makes = txn.ops().iter().any(|op| matches!(op.kind, types::TxKind::MkColl { .. }));
                if !makes || !here.contains(&txn.home()) {
                    offline.commit(txn, None)?;
                }
            }
            GROUP => offline.commit(Transaction::default(), Some(decode_group(content)?))?,
            other => bail!("a frame of kind {other}: the export is of a later version"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{PgId, SpgId};

    /// A group with a mark of roll-forward has it again; one without is exported as it always was.
    #[test]
    fn a_groups_memory_comes_back() {
        let record = |rolled_forward_to| {
            let info = PgInfo::new(SpgId::whole(PgId::new(2, 5)));
            let log = [PgLogEntry { version: EVersion::new(7, 9), ..PgLogEntry::default() }].into();
            PgRecord { epoch: 7, info, log, rolled_forward_to, ..PgRecord::default() }
        };
        let (without, with) = (record(None), record(Some(EVersion::new(7, 8))));
        assert!(encode_group(&with).starts_with(&encode_group(&without)) && encode_group(&with) != encode_group(&without));
        for record in [without, with] {
            let mut again = None;
            PgRecord::apply(&mut again, decode_group(encode_group(&record).into()).expect("a group"));
            assert_eq!(again, Some(record));
        }
    }
}
