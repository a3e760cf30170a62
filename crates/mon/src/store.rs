//! The monitor's store: one table of keys and values in a redb file, and a copy of it beside ([`crate::copy`]).
//!
//! The database looks at no checksum of what it reads, so a sum over all rows stands in it, too: a store whose rows don't come to that is damaged,
//! and refused.

use crate::copy::{self, Copy};
use anyhow::{Context, Result, anyhow, bail};
use base::crc32c;
use bytes::Bytes;
use mon_core::{Batch, Snapshot};
use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableDefinition};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Bytes that redb may keep in memory: the core has everything that it asks for, so the store is hardly read.
const CACHE: usize = 4 << 20;

const TABLE: TableDefinition<&str, &[u8]> = TableDefinition::new("mon");
/// What the store says of itself, a number each.
const OF_ITSELF: TableDefinition<&str, u64> = TableDefinition::new("itself");
/// The sum over all rows, and how many batches were applied.
const SUM: &str = "sum";
const BATCHES: &str = "batches";

/// An open store. Only one process can have it open.
pub struct Store {
    db: Database,
    path: PathBuf,
    sum: Cell<u64>,
    batches: Cell<u64>,
    copy: RefCell<Option<Copy>>,
}

/// A row's part of the sum.
fn of_row(key: &str, value: &[u8]) -> u64 {
    let crc = crc32c(crc32c(u32::MAX, key.as_bytes()), value);
    (u64::from(crc) << 32 | (key.len() as u64) << 24 ^ value.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// How to go on when a store can't be used.
fn next_step(path: &Path) -> String {
    let dir = path.parent().unwrap_or(Path::new(".")).display();
    match Copy::read(path) {
        Ok(found) => {
            let cut = if found.unread > 0 { " (its end can't be read)" } else { "" };
            let copy = copy::path_of(path);
            let copy = copy.display();
            format!("{copy} holds it as of change {}{cut}: `humboldt restore-mon --dir {dir}` makes a store of that", found.number)
        }
        Err(why) => format!(
            "there is no copy of it ({why:#}): put a copy of your own back, or save the objects with `humboldt store --dir {dir}/osd.N export FILE`"
        ),
    }
}

/// What the database does, a panic of its own included: its pages may hold anything.
fn guarded<T>(path: &Path, f: impl FnOnce() -> Result<T>) -> Result<T> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let result = catch_unwind(AssertUnwindSafe(f));
    std::panic::set_hook(hook);
    let why = match result {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(why)) => why,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            anyhow!("{}", text.unwrap_or_default())
        }
    };
    Err(anyhow!("the monitor's store {} is damaged: {why:#}; {}", path.display(), next_step(path)))
}

impl Store {
    /// Opens the file, or makes it, and gives everything in it. A damaged one is refused with what to do.
    pub fn open(path: &Path) -> Result<(Self, Snapshot)> {
        let made = catch_database(path)?;
        let (sum, batches) = Default::default();
        let store = Self { db: made, path: path.into(), sum, batches, copy: RefCell::default() };
        let snapshot = guarded(path, || {
            let snapshot = store.snapshot()?;
            store.hold_against_copy(&snapshot)?;
            Ok(snapshot)
        })?;
        Ok((store, snapshot))
    }
    /// Everything in it, if that is what was put there.
    pub fn snapshot(&self) -> Result<Snapshot> {
        let mut out = Snapshot::default();
        let txn = self.db.begin_read()?;
        match txn.open_table(TABLE) {
            Ok(table) => {
                for row in table.iter()? {
                    let (key, value) = row?;
                    out.0.insert(key.value().to_string(), Bytes::copy_from_slice(value.value()));
                }
            }
            Err(redb::TableError::TableDoesNotExist(_)) => {}
            Err(e) => return Err(e.into()),
        }
        let sum = out.0.iter().fold(0, |sum: u64, (key, value)| sum.wrapping_add(of_row(key, value)));
        let said = match txn.open_table(OF_ITSELF) {
            Ok(table) => {
                let number = |name| Ok::<_, redb::StorageError>(table.get(name)?.map(|n| n.value()));
                self.batches.set(number(BATCHES)?.unwrap_or(0));
                number(SUM)?
            }
            // One that an earlier version has made; the next batch says it.
            Err(redb::TableError::TableDoesNotExist(_)) => None,
            Err(e) => return Err(e.into()),
        };
        if said.is_some_and(|said| said != sum) {
            bail!("its rows are not those that were written");
        }
        self.sum.set(sum);
        Ok(out)
    }
    /// The copy gets a batch when the store has it, so it is never ahead. Where it is, the database has taken an older root of its own for one that it
    /// can't read, or the file was put back.
    fn hold_against_copy(&self, state: &Snapshot) -> Result<()> {
        let Ok(found) = Copy::read(&self.path) else { return Ok(()) };
        let (ours, its) = (self.batches.get(), found.number);
        // A copy of another cluster says nothing of this one.
        if its > ours && state.get("fsid").is_some_and(|fsid| found.state.get("fsid") == Some(fsid)) {
            let copy = copy::path_of(&self.path);
            bail!(
                "the monitor's store is older than its copy, {ours} changes for {its} (to go on with what it has, and lose these, move {} away)",
                copy.display()
            );
        }
        Ok(())
    }
    /// From now on there is a copy beside it.
    pub fn keep_copy(&self, state: &Snapshot) {
        let kept = Copy::write(&self.path, state, self.batches.get());
        *self.copy.borrow_mut() = kept.inspect_err(|e| say::eprintln!("mon: {e:#}; the store has no copy until the next start")).ok();
    }
    /// Makes a batch durable.
    pub fn apply(&self, batch: &Batch) -> Result<()> {
        let (mut sum, batches) = (self.sum.get(), self.batches.get() + 1);
        let txn = self.db.begin_write()?;
        {
            let mut table = txn.open_table(TABLE)?;
            for (key, value) in &batch.changes {
                let old = match value {
                    Some(value) => {
                        sum = sum.wrapping_add(of_row(key, value));
                        table.insert(key.as_str(), &value[..])?
                    }
                    None => table.remove(key.as_str())?,
                };
                sum = old.map_or(sum, |old| sum.wrapping_sub(of_row(key, old.value())));
            }
            let mut itself = txn.open_table(OF_ITSELF)?;
            itself.insert(SUM, sum)?;
            itself.insert(BATCHES, batches)?;
        }
        txn.commit()?;
        self.sum.set(sum);
        self.batches.set(batches);
        self.copy_batch(batch);
        Ok(())
    }
    /// Adds it to the copy. The store goes on without one that can't be written.
    fn copy_batch(&self, batch: &Batch) {
        let mut slot = self.copy.borrow_mut();
        let Some(copy) = slot.as_mut() else { return };
        let added = copy.add(batch, self.batches.get());
        let renewed = added.and_then(|()| {
            if copy.is_grown() {
                *copy = Copy::write(&self.path, &self.snapshot()?, self.batches.get())?;
            }
            Ok(())
        });
        if let Err(e) = renewed {
            say::eprintln!("mon: {e:#}; the store has no copy until the next start");
            slot.take().into_iter().for_each(Copy::give_up);
        }
    }
}

/// The store has every key of the cluster: its file is made for its owner alone, and one that others may read, as older versions made it, is closed to them.
fn keep_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        // An empty file becomes a database when it is opened.
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            let mode = std::fs::metadata(path)?.permissions().mode();
            if mode & 0o077 != 0 { std::fs::set_permissions(path, PermissionsExt::from_mode(mode & 0o700)) } else { Ok(()) }
        }
        // A folder that is missing or read only is told when the database is opened.
        Err(_) => Ok(()),
    }
}

/// Opens the database. One that another process has open, and a folder that can't be written, are no damage.
fn catch_database(path: &Path) -> Result<Database> {
    use std::io::ErrorKind::{NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull};
    let context = || format!("the monitor's store {}", path.display());
    keep_private(path).with_context(context)?;
    let mut other = None;
    let opened = guarded(path, || match Database::builder().set_cache_size(CACHE).create(path) {
        Ok(db) => Ok(Some(db)),
        Err(e) => {
            let is_elsewhere = match &e {
                DatabaseError::DatabaseAlreadyOpen => true,
                DatabaseError::Storage(StorageError::Io(io)) => {
                    [NotFound, PermissionDenied, ReadOnlyFilesystem, StorageFull].contains(&io.kind())
                }
                _ => false,
            };
            if is_elsewhere {
                other = Some(e);
                return Ok(None);
            }
            Err(e.into())
        }
    })?;
    match (opened, other) {
        (Some(db), _) => Ok(db),
        (None, Some(e @ DatabaseError::DatabaseAlreadyOpen)) => Err(e).with_context(|| {
            format!("{} is open in another process, perhaps `humboldt up`: stop that one, or give another --dir", context())
        }),
        (None, Some(e)) => Err(e).with_context(context),
        (None, None) => bail!(context()),
    }
}

/// Makes a store of the copy beside it, and says of what change it is. What is there stays, as `mon.redb.damaged`; one that is whole is left alone.
pub fn restore(path: &Path) -> Result<String> {
    if path.exists() {
        match Store::open(path) {
            Ok((_, state)) if state.0.is_empty() => {}
            Ok(_) => bail!("{} is whole: nothing is to be restored", path.display()),
            // Open in another process, or out of reach: that is no damage.
            Err(e) if e.downcast_ref::<DatabaseError>().is_some() => return Err(e),
            Err(_) => {}
        }
    }
    let found = Copy::read(path)?;
    let fresh = path.with_extension("redb.new");
    let _ = std::fs::remove_file(&fresh);
    let (store, _) = Store::open(&fresh)?;
    store.batches.set(found.number);
    store.apply(&Batch { changes: found.state.0.into_iter().map(|(key, value)| (key, Some(value))).collect() })?;
    drop(store);
    if path.exists() {
        let aside = path.with_extension("redb.damaged");
        std::fs::rename(path, &aside).with_context(|| aside.display().to_string())?;
    }
    std::fs::rename(&fresh, path)?;
    disk::sync_dir(path.parent().unwrap_or(Path::new(".")))?;
    let cut = if found.unread > 0 { format!("; {} bytes at the end of the copy could not be read", found.unread) } else { String::new() };
    Ok(format!("{} is as of change {}{cut}", path.display(), found.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("humboldt-mon-store-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }
    fn batch(n: u32) -> Batch {
        let mut batch = Batch::default();
        batch.put_text("fsid", "f");
        batch.put(format!("osdmap/{n:06}"), vec![n as u8; 3000]);
        batch.put_text("last", &n.to_string());
        if n > 20 {
            batch.remove(format!("osdmap/{:06}", n - 20));
        }
        batch
    }

    /// It has the keys of all users.
    #[test]
    fn others_may_not_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = fresh("private");
        let path = dir.join("mon.redb");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        drop(Store::open(&path).unwrap());
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        drop(Store::open(&path).unwrap());
        assert_eq!(mode(), 0o600);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Whatever byte of the file changes: it is served with the rows that were written, or refused with the way back, and that gives all of them.
    #[test]
    fn no_damage_is_served_and_the_copy_has_everything() {
        let dir = fresh("rot");
        let path = dir.join("mon.redb");
        let mut due = Snapshot::default();
        let first = dir.join("first.redb");
        let (store, _) = Store::open(&first).unwrap();
        store.apply(&batch(0)).unwrap();
        drop(store);
        let early = std::fs::read(&first).unwrap();
        {
            let (store, state) = Store::open(&path).unwrap();
            store.keep_copy(&state);
            for n in 0..60 {
                store.apply(&batch(n)).unwrap();
                due.apply(&batch(n));
            }
        }
        let whole = std::fs::read(&path).unwrap();
        let copy = std::fs::read(copy::path_of(&path)).unwrap();
        let (mut served, mut refused) = (0, 0);
        let mut rng = base::Rng::new(5);
        for round in 0..300 {
            let mut bad = whole.clone();
            let at = rng.below(bad.len() as u64) as usize;
            match round % 3 {
                0 => bad[at] ^= 1 << rng.below(8),
                1 => bad[at / 4096 * 4096..][..4096].fill(0),
                _ => bad.truncate(at),
            }
            std::fs::write(&path, &bad).unwrap();
            match Store::open(&path) {
                Ok((_, state)) => {
                    assert!(state.0 == due.0, "round {round}, byte {at}: other rows than were written");
                    served += 1;
                }
                Err(e) => {
                    let text = format!("{e:#}");
                    assert!(text.contains("is damaged") && text.contains("humboldt restore-mon --dir"), "round {round}: {text}");
                    restore(&path).unwrap();
                    assert!(Store::open(&path).unwrap().1.0 == due.0, "round {round}");
                    refused += 1;
                }
            }
            std::fs::write(copy::path_of(&path), &copy).unwrap();
        }
        assert!(served > 20 && refused > 20, "{served} served, {refused} refused");
        // One of before is no whole one.
        std::fs::write(&path, &early).unwrap();
        assert!(format!("{:#}", Store::open(&path).err().unwrap()).contains("the monitor's store is older"));
        // A whole one is not replaced, nor one that is open; one that is gone is.
        std::fs::write(&path, &whole).unwrap();
        let open = Store::open(&path).unwrap();
        assert!(!format!("{:#}", restore(&path).unwrap_err()).contains("is whole"));
        drop(open);
        assert!(restore(&path).unwrap_err().to_string().contains("is whole"));
        std::fs::remove_file(&path).unwrap();
        restore(&path).unwrap();
        assert!(Store::open(&path).unwrap().1.0 == due.0);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_copy_that_is_cut_or_damaged_is_taken_as_far_as_it_goes() {
        let dir = fresh("copy");
        let path = dir.join("mon.redb");
        let (store, state) = Store::open(&path).unwrap();
        store.apply(&batch(0)).unwrap();
        drop(state);
        store.keep_copy(&store.snapshot().unwrap());
        let mut states = vec![store.snapshot().unwrap()];
        for n in 1..30 {
            store.apply(&batch(n)).unwrap();
            states.push(store.snapshot().unwrap());
        }
        drop(store);
        let whole = std::fs::read(copy::path_of(&path)).unwrap();
        let mut rng = base::Rng::new(6);
        for round in 0..200 {
            let mut bad = whole.clone();
            let at = rng.below(bad.len() as u64) as usize;
            if round % 2 == 0 {
                bad.truncate(at)
            } else {
                bad[at] ^= 1 << rng.below(8)
            }
            std::fs::write(copy::path_of(&path), &bad).unwrap();
            match Copy::read(&path) {
                Ok(found) => {
                    let known = &states[found.number as usize - 1];
                    assert!(found.state.0 == known.0, "round {round}: the store was never like that");
                    assert!(found.unread > 0 || bad.len() < whole.len(), "round {round}: damage is told");
                }
                Err(e) => assert!(at < 4096, "round {round}, byte {at}: {e:#}"),
            }
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
