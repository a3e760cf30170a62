//! A second copy of the monitor's store, for the day when the first is damaged: `humboldt restore-mon` makes a store of it.
//!
//! ```text
//! "humboldt mon 1\n"   | record ...      the first is the whole store as puts, each further one a batch
//! record               = length u32 | crc32c of what follows u32 | number of the batch u64 | changes
//! change               = length of the key u32 | key | 0, or 1 and length of the value u32 | value
//! ```
//! It is written anew at each start, from a store that was found whole, and whenever it has grown; batches are added when the store has them. It goes
//! to the disk by itself, and every [`SYNCED`] batches: a kill loses nothing of it, a power cut perhaps its end. Then the OSDs know more than it,
//! and say so when they start.

use anyhow::{Context, Result, ensure};
use base::crc32c;
use mon_core::{Batch, Snapshot};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"humboldt mon 1\n";
/// Batches between two flushes.
const SYNCED: u64 = 32;
/// It is written anew when batches take this many times the bytes of the whole, and [`SLACK`].
const GROWN: u64 = 2;
const SLACK: u64 = 8 << 20;

/// The copy beside a store.
pub fn path_of(store: &Path) -> PathBuf {
    store.with_extension("copy")
}

/// An open copy.
pub struct Copy {
    file: File,
    path: PathBuf,
    whole: u64,
    added: u64,
    unsynced: u64,
}

fn record(number: u64, changes: &[(String, Option<bytes::Bytes>)]) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    let sized = |body: &mut Vec<u8>, bytes: &[u8]| {
        body.extend((bytes.len() as u32).to_le_bytes());
        body.extend(bytes);
    };
    for (key, value) in changes {
        sized(&mut body, key.as_bytes());
        body.push(value.is_some().into());
        value.iter().for_each(|value| sized(&mut body, value));
    }
    let mut out = (body.len() as u32).to_le_bytes().to_vec();
    out.extend(crc32c(u32::MAX, &body).to_le_bytes());
    out.extend(body);
    out
}

/// Bytes from the front.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (front, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(front)
}
fn number(bytes: &mut &[u8]) -> Option<usize> {
    Some(u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?) as usize)
}

/// One record's batch; none at the end, or where the rest is no record.
fn next(bytes: &mut &[u8]) -> Option<(u64, Batch)> {
    let (len, crc) = (number(bytes)?, number(bytes)?);
    let mut body = take(bytes, len)?;
    if crc32c(u32::MAX, body) as usize != crc {
        return None;
    }
    let at = u64::from_le_bytes(take(&mut body, 8)?.try_into().ok()?);
    let mut batch = Batch::default();
    while !body.is_empty() {
        let len = number(&mut body)?;
        let key = String::from_utf8(take(&mut body, len)?.to_vec()).ok()?;
        match take(&mut body, 1)? {
            [0] => batch.remove(key),
            _ => {
                let len = number(&mut body)?;
                batch.put(key, take(&mut body, len)?.to_vec());
            }
        }
    }
    Some((at, batch))
}

/// What a copy holds.
pub struct Found {
    pub state: Snapshot,
    /// Of the last batch.
    pub number: u64,
    /// Bytes at its end that are no batch: it was cut off there, or is damaged.
    pub unread: usize,
}

impl Copy {
    /// Writes the copy of a whole store, in place of the one that is there.
    pub fn write(store: &Path, state: &Snapshot, number: u64) -> Result<Self> {
        let path = path_of(store);
        let changes: Vec<_> = state.0.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
        let bytes = [MAGIC, &record(number, &changes)].concat();
        // It holds keys, as the store does.
        let file =
            disk::replace_file(&path, &bytes, 0o600).with_context(|| format!("the copy of the monitor's store, {}", path.display()))?;
        Ok(Self { file, path, whole: bytes.len() as u64, added: 0, unsynced: 0 })
    }
    /// Adds a batch that the store has.
    pub fn add(&mut self, batch: &Batch, number: u64) -> Result<()> {
        let bytes = record(number, &batch.changes);
        let added = self.file.write_all(&bytes);
        self.added += bytes.len() as u64;
        self.unsynced += 1;
        let synced = added.and_then(|()| if self.unsynced >= SYNCED { self.sync() } else { Ok(()) });
        synced.with_context(|| format!("the copy of the monitor's store, {}", self.path.display()))
    }
    fn sync(&mut self) -> std::io::Result<()> {
        self.unsynced = 0;
        self.file.sync_data()
    }
    /// True if it is to be written anew.
    pub fn is_grown(&self) -> bool {
        self.added > GROWN * self.whole + SLACK
    }
    /// One that is no longer kept up to date must not be taken for the store.
    pub fn give_up(self) {
        let _ = std::fs::remove_file(&self.path);
    }
    /// Reads the copy beside a store, as far as it goes.
    pub fn read(store: &Path) -> Result<Found> {
        let path = path_of(store);
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let mut rest = bytes.strip_prefix(MAGIC).with_context(|| format!("{} is no copy of a monitor's store", path.display()))?;
        let (mut state, mut last, mut unread) = (Snapshot::default(), None, rest.len());
        while let Some((number, batch)) = next(&mut rest) {
            state.apply(&batch);
            (last, unread) = (Some(number), rest.len());
        }
        let number = last.with_context(|| format!("{} is damaged", path.display()))?;
        ensure!(!state.0.is_empty(), "{} is empty", path.display());
        Ok(Found { state, number, unread })
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = self.sync();
    }
}
