//! What every object store owes.

use crate::{LogDelta, PgRecord, ReadData, StoreHints, StoreResult};
use bytes::Bytes;
use std::ops::ControlFlow;
use types::{ByteStr, CollId, EVersion, GHObject, IntervalSet, PgLogEntry, PoolId, SpgId, StoreStatfs, Transaction};

/// What a store knows of an object without looking at its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectStat {
    /// Bytes, holes included.
    pub size: u64,
    /// The allocation hint that was set last; zeros if none was.
    pub expected_object_size: u64,
    pub expected_write_size: u64,
    pub alloc_hint_flags: u32,
}

/// How large attributes are that clients may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttrsMax {
    /// Bytes of one value.
    pub one: usize,
    /// Bytes of all that clients set on one object, names and values. The object's own (`_`, `snapset`) come beside them; the OSD
    /// bounds their growth.
    pub all: usize,
}

/// Source: ours. Stock's BlueStore has no bound of its own; gateways keep manifests and lifecycles of some hundred KiB in one, and
/// `rados bench --write-xattr` writes its objects of 4 MiB as attributes.
impl Default for AttrsMax {
    fn default() -> Self {
        Self { one: 4 << 20, all: 16 << 20 }
    }
}

/// Where a scan of omap keys starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OmapFrom<'a> {
    Start,
    /// This key and those behind it.
    At(&'a [u8]),
    /// Those behind this key.
    After(&'a [u8]),
}

/// A page of omap keys: those behind `start_after` (all, if empty) that begin with `prefix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OmapQuery<'a> {
    pub start_after: &'a [u8],
    pub prefix: &'a [u8],
    pub entries_max: u64,
    /// Of keys and values; the entry that passes it is still given.
    pub bytes_max: u64,
}

impl Default for OmapQuery<'_> {
    fn default() -> Self {
        Self { start_after: b"", prefix: b"", entries_max: u64::MAX, bytes_max: u64::MAX }
    }
}

/// What an [`OmapQuery`] finds, ascending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OmapPage {
    pub entries: Vec<(ByteStr, Bytes)>,
    /// True if the page ended by one of its limits and there is another entry.
    pub more: bool,
}

/// Objects of a collection, ascending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    pub objects: Vec<GHObject>,
    /// The first object in the range that did not fit; `None` if there is none.
    pub next: Option<GHObject>,
}

/// Collections of objects, and what placement groups remember: what a store owes. What only makes it faster is in [`StoreHints`], and callers give
/// hints through this trait, too.
///
/// A method without a body is owed by every store. One whose default does nothing is owed by stores that do what its text names, and is right as it
/// is for all others. `two_attrs` and `omap_list` follow from other methods.
///
/// What was submitted is visible at once, in order, whether it is durable or not; that it is durable is told by its token. Reads answer
/// synchronously, or with [`crate::StoreError::Wait`]. An object's payloads are copied into the store's own memory when they are applied, so a
/// receive buffer is free as soon as its transaction is gone.
pub trait ObjectStore: StoreHints {
    /// Applies `txn`, and `log` with it: all of it or, on an error, nothing ([`crate::StoreError::Full`]). Anything else that can't be applied
    /// (a collection that is not there, an attribute on an object that is not there) is the caller's mistake and stops the store.
    ///
    /// `token` comes out of [`ObjectStore::take_commits`] when this and everything submitted before is durable.
    fn submit(&mut self, txn: Transaction, log: Option<LogDelta>, token: u64) -> StoreResult<()>;
    /// Appends the tokens of what has become durable, in the order of submission.
    fn take_commits(&mut self, tokens: &mut Vec<u64>);
    /// The caller has submitted what it has for now. Owed by a store that gathers, or has devices: it starts writing, and takes in what has come.
    fn turn_end(&mut self) {}
    /// Appends tickets of [`crate::StoreError::Wait`] whose bytes have come. Owed by a store that ever lets a caller wait.
    fn take_ready(&mut self, tickets: &mut Vec<u64>) {
        let _ = tickets;
    }
    /// The next [`ObjectStore::read`] of this range is to see what lies on the devices: what the store keeps of it only to be faster goes. Owed by a
    /// store that caches data: a scrub looks for what the devices have lost.
    fn forget(&mut self, coll: CollId, obj: &GHObject, offset: u64, len: u64) {
        let _ = (coll, obj, offset, len);
    }
    /// What the store knows to be damaged of what it keeps beside the data, in a sentence for the operator; `None` while it knows of nothing. Owed by a
    /// store that serves beside damage.
    fn damage(&self) -> Option<String> {
        None
    }
    /// True if the store has stopped at a change that needs what is damaged. What a device reads wrong twice is not read wrong by chance: the next process
    /// goes on with that, instead of stopping there again. Owed by a store that can go on so.
    fn stopped_at_damage(&self) -> bool {
        false
    }
    fn exists(&self, coll: CollId, obj: &GHObject) -> StoreResult<bool>;
    fn stat(&self, coll: CollId, obj: &GHObject) -> StoreResult<ObjectStat>;
    /// Up to `len` bytes from `offset`, holes as zeros, cut at the object's end. A read within one of the store's chunks is one piece
    /// and copies nothing.
    fn read(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<ReadData>;
    /// The bytes of several ranges of an object, one after the other. All that must be fetched is asked for before the first wait is told, and what has
    /// come stays until the caller that asks again has all of it: a store that lets a range go while another one is fetched fetches both for ever.
    fn read_ranges(&self, coll: CollId, obj: &GHObject, ranges: &IntervalSet) -> StoreResult<ReadData>;
    /// Where there is data in the range, cut at the object's end; what is outside is zeros. A store may report zeros as data.
    fn extents(&self, coll: CollId, obj: &GHObject, offset: u64, len: u64) -> StoreResult<IntervalSet>;
    fn attr(&self, coll: CollId, obj: &GHObject, name: &[u8]) -> StoreResult<Option<Bytes>>;
    /// Two of them, as [`ObjectStore::attr`] gives each. A store that looks the object up once for both is faster.
    fn two_attrs(&self, coll: CollId, obj: &GHObject, names: [&[u8]; 2]) -> StoreResult<[Option<Bytes>; 2]> {
        Ok([self.attr(coll, obj, names[0])?, self.attr(coll, obj, names[1])?])
    }
    /// Bytes of all values together. Owed by a store that knows it without fetching them.
    fn attrs_bytes(&self, coll: CollId, obj: &GHObject) -> StoreResult<u64> {
        Ok(self.attrs(coll, obj)?.iter().map(|(_, value)| value.len() as u64).sum())
    }
    /// By name, ascending.
    fn attrs(&self, coll: CollId, obj: &GHObject) -> StoreResult<Vec<(ByteStr, Bytes)>>;
    /// Empty if none was set.
    fn omap_header(&self, coll: CollId, obj: &GHObject) -> StoreResult<Bytes>;
    /// Those of `keys` that are there, in the order of `keys`.
    fn omap_get(&self, coll: CollId, obj: &GHObject, keys: &[ByteStr]) -> StoreResult<Vec<(ByteStr, Bytes)>>;
    /// Shows keys and values, ascending, until `visit` breaks. Keys and values may be kept: they share no receive buffer.
    fn omap_scan(
        &self,
        coll: CollId,
        obj: &GHObject,
        from: OmapFrom<'_>,
        visit: &mut dyn FnMut(&ByteStr, &Bytes) -> ControlFlow<()>,
    ) -> StoreResult<()>;

    /// A page of keys and values, as [`ObjectStore::omap_scan`] shows them. No store need have its own.
    fn omap_list(&self, coll: CollId, obj: &GHObject, query: &OmapQuery<'_>) -> StoreResult<OmapPage> {
        let mut page = OmapPage::default();
        let mut bytes = 0;
        // Start at whichever is behind: the prefix's first key, or what follows `start_after`.
        let from = if query.start_after.is_empty() || query.start_after < query.prefix {
            OmapFrom::At(query.prefix)
        } else {
            OmapFrom::After(query.start_after)
        };
        self.omap_scan(coll, obj, from, &mut |key, value| {
            if !key.as_slice().starts_with(query.prefix) {
                return ControlFlow::Break(());
            }
            if page.entries.len() as u64 >= query.entries_max || bytes >= query.bytes_max {
                page.more = true;
                return ControlFlow::Break(());
            }
            bytes += (key.len() + value.len()) as u64;
            page.entries.push((key.clone(), value.clone()));
            ControlFlow::Continue(())
        })?;
        Ok(page)
    }

    /// At most `max` objects from `start` on and before `end`, as [`GHObject`] sorts them; fewer where their rows are large. One at least, also where `max`
    /// is 0, so that a caller that goes on by `next` gets to the end. The page says where the next one begins, if there is one.
    fn list(&self, coll: CollId, start: &GHObject, end: &GHObject, max: usize) -> StoreResult<ListPage>;
    /// All collections, ascending.
    fn collections(&self) -> StoreResult<Vec<CollId>>;
    /// How many bits of the hash the collection's objects have in common; `None`: no such collection.
    fn collection_bits(&self, coll: CollId) -> StoreResult<Option<u32>>;

    /// What is remembered of a group.
    fn load_pg(&self, pg: SpgId) -> StoreResult<Option<PgRecord>>;
    /// Entries of a group's log above `after`, ascending, the first `max` of them. Fewer than `max`: there are no more. Of a group that is not
    /// remembered there are none.
    fn pg_log(&self, pg: SpgId, after: EVersion, max: usize) -> StoreResult<Vec<PgLogEntry>>;
    /// Groups of which something is remembered, ascending.
    fn pgs(&self) -> StoreResult<Vec<SpgId>>;

    /// How large attributes clients may set. Owed by a store whose form holds less than the default.
    fn attrs_max(&self) -> AttrsMax {
        AttrsMax::default()
    }
    /// Room and use of the whole store.
    fn statfs(&self) -> StoreStatfs;
    /// Use by one pool's groups; `total` and `available` are 0.
    fn pool_statfs(&self, pool: PoolId) -> StoreStatfs;
    /// What `osd_objectstore` says in the OSD's metadata.
    fn kind(&self) -> &'static str;
}
