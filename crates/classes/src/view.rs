//! What a method sees of its object and of the operation that called it.

use bytes::Bytes;
use std::collections::BTreeMap;
use thiserror::Error;
use types::{ByteStr, EntityAddr, EntityInst, EntityName, UTime};

/// Why a method ends without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ClsError {
    /// The method's (negative) answer, as a positive errno of [`types::errno`].
    #[error("errno {0}")]
    Errno(i32),
    /// Something must be fetched first, by the store or from other objects: the whole operation is planned again later. Methods only pass
    /// it on.
    #[error("something must be fetched first")]
    Wait,
}

impl ClsError {
    /// True for that errno.
    pub fn is(self, errno: i32) -> bool {
        self == Self::Errno(errno)
    }
}

pub type ClsResult<T> = Result<T, ClsError>;

/// What a method answers: its return value (0, or something positive that the caller sees only if it asked for it) and its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClsReply {
    /// May be negative too: then, unlike with [`ClsError::Errno`], the data goes out with the error.
    pub code: i32,
    pub data: Bytes,
}

impl From<Bytes> for ClsReply {
    fn from(data: Bytes) -> Self {
        Self { code: 0, data }
    }
}
impl From<()> for ClsReply {
    fn from(_: ()) -> Self {
        Self::default()
    }
}

/// Keys in order, and whether more follow.
pub type KeyPage = (Vec<ByteStr>, bool);
/// Keys with values in order, and whether more follow.
pub type ValPage = (Vec<(ByteStr, Bytes)>, bool);

/// A client that watches the object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watcher {
    pub name: EntityName,
    pub cookie: u64,
    pub timeout_s: u32,
    pub addr: EntityAddr,
}

/// One object. Its data, size and existence are as the operation that runs has left them so far: a method sees what earlier operations of the
/// same vector wrote, and its own writes. Its attributes and its omap are those of before the vector: no write of it can be read there.
///
/// Errnos are those of the operations behind (`ENOENT`, `ENODATA`, `EEXIST` ...). Attribute names come without the `_` that the store puts
/// in front.
pub trait ObjectView {
    // The object's data and existence.
    /// Size and time of the last change; `ENOENT` if there is no object.
    fn stat(&mut self) -> ClsResult<(u64, UTime)>;
    /// Up to `length` bytes from `offset`; 0 for all. Short at the object's end.
    fn read(&mut self, offset: u64, length: u64) -> ClsResult<Bytes>;
    /// Makes the object; with `exclusive`, `EEXIST` if there is one.
    fn create(&mut self, exclusive: bool) -> ClsResult<()>;
    fn remove(&mut self) -> ClsResult<()>;
    fn write(&mut self, offset: u64, data: Bytes) -> ClsResult<()>;
    /// Replaces the data by `data`.
    fn write_full(&mut self, data: Bytes) -> ClsResult<()>;
    fn truncate(&mut self, size: u64) -> ClsResult<()>;
    fn zero(&mut self, offset: u64, length: u64) -> ClsResult<()>;
    /// The head gets what the snapshot has.
    fn snap_revert(&mut self, snap: u64) -> ClsResult<()>;

    // Attributes.
    fn getxattr(&mut self, name: &[u8]) -> ClsResult<Bytes>;
    fn getxattrs(&mut self) -> ClsResult<Vec<(ByteStr, Bytes)>>;
    fn setxattr(&mut self, name: &[u8], value: Bytes) -> ClsResult<()>;
    fn rmxattr(&mut self, name: &[u8]) -> ClsResult<()>;

    // The omap.
    fn omap_header(&mut self) -> ClsResult<Bytes>;
    /// Up to `max` keys that sort behind `after`.
    fn omap_keys(&mut self, after: &[u8], max: u64) -> ClsResult<KeyPage>;
    /// Up to `max` keys with `prefix` that sort behind `after`, with their values.
    fn omap_vals(&mut self, after: &[u8], prefix: &[u8], max: u64) -> ClsResult<ValPage>;
    /// One value; `ENOENT` if there is no such key.
    fn omap_val(&mut self, key: &[u8]) -> ClsResult<Bytes>;
    /// Those of `keys` that exist, in order.
    fn omap_vals_by_keys(&mut self, keys: &[ByteStr]) -> ClsResult<Vec<(ByteStr, Bytes)>>;
    fn omap_set(&mut self, vals: Vec<(ByteStr, Bytes)>) -> ClsResult<()>;
    fn omap_set_header(&mut self, header: Bytes) -> ClsResult<()>;
    fn omap_remove(&mut self, keys: Vec<ByteStr>) -> ClsResult<()>;
    /// Removes the keys from `first` to before `end`.
    fn omap_remove_range(&mut self, first: &[u8], end: &[u8]) -> ClsResult<()>;
    fn omap_clear(&mut self) -> ClsResult<()>;

    // The operation and its surroundings.
    /// The caller, and its address.
    fn origin(&self) -> EntityInst;
    /// The user version that the object had before this operation.
    fn version(&self) -> u64;
    /// A number that goes up with each call of the operation's vector and with each change that a method makes: with the version, it tells
    /// apart what one operation wrote.
    fn subop(&self) -> u32;
    fn now(&self) -> UTime;
    /// The newest snapshot that the object knows; 0 for none. ENOENT without an object: a whiteout is one as long as it has clones.
    fn snapset_seq(&self) -> ClsResult<u64>;
    fn watchers(&mut self) -> ClsResult<Vec<Watcher>>;
    /// The features of the caller's connection.
    fn client_features(&self) -> u64;
    /// The features that the caller has, also those that this program lacks: what its release knows.
    fn client_supported(&self) -> u64 {
        self.client_features()
    }
    /// `require_min_compat_client` of the map, as the number of a release (15 is octopus).
    fn min_compat_client(&self) -> u8;
    /// `require_osd_release` of the map, as the number of a release.
    fn required_osd_release(&self) -> u8;
    /// Calls a method of a class on each of `objects` in the default namespace of a pool, and gives what they answer by name; the first
    /// errno if any fails.
    ///
    /// The objects may lie on other OSDs: the first time this is [`ClsError::Wait`], and the method is called again, from its start, when
    /// the answers are there. What was asked for must be the same then.
    fn gather(&mut self, pool: &str, objects: &[ByteStr], class: &[u8], method: &[u8], input: Bytes)
    -> ClsResult<BTreeMap<ByteStr, Bytes>>;
    /// Random bytes for ids and cookies.
    fn random(&mut self, out: &mut [u8]);

    // Calls that read more than one turn has time for.
    /// What this call kept with [`ObjectView::keep`] before it had to wait; nothing the first time. The object has not changed since.
    fn kept(&mut self) -> Option<Kept> {
        None
    }
    /// Keeps how far the call has come, so that it goes on there when it is called again after a [`ClsError::Wait`].
    fn keep(&mut self, _: Kept) {}
    /// Others are to have their turn: [`ClsError::Wait`], and the call comes again with what it kept. `None` where calls run to their end.
    fn pause(&mut self) -> Option<ClsError> {
        None
    }
}

/// How far a call has come; of the type that the method chose.
pub type Kept = Box<dyn std::any::Any + Send>;
