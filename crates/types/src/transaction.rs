//! `Transaction`: changes to one store that happen all or none, in order.
//!
//! Holds the changes as values with shared payloads. How they look on the wire is in `transaction_wire`; what they do is the store's.

use crate::{CollId, GHObject};
use denc::{ByteStr, Bytes};

/// One element kept in place and more in a list: most transactions name one collection and one object.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Few<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T: PartialEq> Few<T> {
    const fn new() -> Self {
        Self { first: None, rest: Vec::new() }
    }
    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }
    fn get(&self, index: usize) -> Option<&T> {
        if index == 0 { self.first.as_ref() } else { self.rest.get(index - 1) }
    }
    fn push(&mut self, value: T) {
        if self.first.is_none() { self.first = Some(value) } else { self.rest.push(value) }
    }
    fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }
    fn position(&self, value: &T) -> Option<usize> {
        self.iter().position(|v| v == value)
    }
}

/// A collection of the transaction; see [`Transaction::coll`].
pub type CollIx = u32;
/// An object of the transaction; see [`Transaction::object`].
pub type ObjIx = u32;

/// One change. Where it happens is in [`TxOp`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxKind {
    Nop,
    /// The object must not be there.
    Create,
    /// Made if it is not there.
    Touch,
    /// Grows the object if it ends behind it; nothing for no bytes.
    Write {
        offset: u64,
        data: Bytes,
    },
    /// Zeros; grows the object as a write does.
    Zero {
        offset: u64,
        len: u64,
    },
    Truncate {
        size: u64,
    },
    Remove,
    SetAttr {
        name: ByteStr,
        value: Bytes,
    },
    SetAttrs(Vec<(ByteStr, Bytes)>),
    RmAttr {
        name: ByteStr,
    },
    RmAttrs,
    /// Data, attributes and omap to `to`, in place of what is there.
    Clone {
        to: ObjIx,
    },
    CloneRange {
        to: ObjIx,
        src_offset: u64,
        len: u64,
        dst_offset: u64,
    },
    OmapClear,
    OmapSetKeys(Vec<(ByteStr, Bytes)>),
    OmapRmKeys(Vec<ByteStr>),
    /// `first` is in the range, `last` is not.
    OmapRmKeyRange {
        first: ByteStr,
        last: ByteStr,
    },
    OmapSetHeader(Bytes),
    /// `bits` of the hash are what the collection's objects have in common.
    MkColl {
        bits: u32,
    },
    /// It must be empty.
    RmColl,
    /// Objects whose hash has `rem` in its lowest `bits` go to `to`, which is there.
    SplitColl {
        to: CollIx,
        bits: u32,
        rem: u32,
    },
    /// All objects go to `to`, which has `bits` afterwards; this collection is gone.
    MergeColl {
        to: CollIx,
        bits: u32,
    },
    CollSetBits {
        bits: u32,
    },
    CollHint {
        hint: u32,
        data: Bytes,
    },
    MoveRename {
        to_coll: CollIx,
        to: ObjIx,
    },
    /// Like [`TxKind::MoveRename`] within the collection, but nothing if the object is not there.
    TryRename {
        to: ObjIx,
    },
    SetAllocHint {
        object_size: u64,
        write_size: u64,
        flags: u32,
    },
}

/// A change and its place. `obj` is 0 and means nothing for changes of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxOp {
    pub coll: CollIx,
    pub obj: ObjIx,
    pub kind: TxKind,
}

/// Changes to one store, all or none.
///
/// Changes of objects happen in the home collection, which can be set at any time: see [`Transaction::set_home`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// The first is the home collection.
    colls: Few<CollId>,
    objects: Few<GHObject>,
    ops: Vec<TxOp>,
    /// `CEPH_OSD_OP_FLAG_FADVISE_*` of all writes.
    pub fadvise_flags: u32,
}

impl Default for Transaction {
    /// Without changes; its home is [`CollId::Meta`] until it is set.
    fn default() -> Self {
        Self::new(CollId::Meta)
    }
}

impl Transaction {
    pub fn new(home: CollId) -> Self {
        Self { colls: Few { first: Some(home), rest: Vec::new() }, objects: Few::new(), ops: Vec::new(), fadvise_flags: 0 }
    }
    /// Decoding fills it by index: see `transaction_wire`.
    pub(crate) fn from_parts(colls: Vec<CollId>, objects: Vec<GHObject>, ops: Vec<TxOp>, fadvise_flags: u32) -> Self {
        let mut txn = Self { colls: Few::new(), objects: Few::new(), ops, fadvise_flags };
        colls.into_iter().for_each(|c| txn.colls.push(c));
        objects.into_iter().for_each(|o| txn.objects.push(o));
        txn
    }
    /// The collection in which objects are changed: replaces what [`Transaction::new`] was told, also for changes made before.
    pub fn set_home(&mut self, home: CollId) {
        self.colls.first = Some(home);
    }
    pub fn home(&self) -> CollId {
        self.colls.first.unwrap_or_default()
    }
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }
    pub fn len(&self) -> usize {
        self.ops.len()
    }
    pub fn ops(&self) -> &[TxOp] {
        &self.ops
    }
    /// The collection with this index. Panics for an index of another transaction.
    pub fn coll(&self, index: CollIx) -> CollId {
        *self.colls.get(index as usize).expect("indices come from the transaction")
    }
    /// The object with this index. Panics for an index of another transaction.
    pub fn object(&self, index: ObjIx) -> &GHObject {
        self.objects.get(index as usize).expect("indices come from the transaction")
    }
    pub fn colls(&self) -> impl Iterator<Item = CollId> + '_ {
        self.colls.iter().copied()
    }
    pub fn objects(&self) -> impl Iterator<Item = &GHObject> + '_ {
        self.objects.iter()
    }
    /// Bytes of data that it writes.
    pub fn data_len(&self) -> u64 {
        self.ops.iter().map(|op| if let TxKind::Write { data, .. } = &op.kind { data.len() as u64 } else { 0 }).sum()
    }
    /// Adds the changes of `other` behind these.
    pub fn append(&mut self, other: Transaction) {
        self.fadvise_flags |= other.fadvise_flags;
        let colls: Vec<_> = other.colls().map(|c| self.coll_ix(c)).collect();
        let objects: Vec<_> = other.objects().map(|o| self.obj_ix(o)).collect();
        let obj = |ix: ObjIx| objects.get(ix as usize).copied().unwrap_or(0);
        for mut op in other.ops {
            op.coll = colls[op.coll as usize];
            op.obj = obj(op.obj);
            match &mut op.kind {
                TxKind::Clone { to } | TxKind::CloneRange { to, .. } | TxKind::TryRename { to } => *to = obj(*to),
                TxKind::MoveRename { to_coll, to } => (*to_coll, *to) = (colls[*to_coll as usize], obj(*to)),
                TxKind::SplitColl { to, .. } | TxKind::MergeColl { to, .. } => *to = colls[*to as usize],
                _ => {}
            }
            self.ops.push(op);
        }
    }

    fn coll_ix(&mut self, coll: CollId) -> CollIx {
        let found = self.colls.position(&coll);
        found.unwrap_or_else(|| {
            self.colls.push(coll);
            self.colls.len() - 1
        }) as CollIx
    }
    fn obj_ix(&mut self, obj: &GHObject) -> ObjIx {
        let found = self.objects.position(obj);
        found.unwrap_or_else(|| {
            self.objects.push(obj.clone());
            self.objects.len() - 1
        }) as ObjIx
    }
    fn push(&mut self, coll: CollIx, obj: ObjIx, kind: TxKind) {
        if self.ops.capacity() == 0 {
            self.ops.reserve(4);
        }
        self.ops.push(TxOp { coll, obj, kind });
    }
    fn on(&mut self, obj: &GHObject, kind: TxKind) {
        let obj = self.obj_ix(obj);
        self.push(0, obj, kind);
    }
    fn on_coll(&mut self, coll: CollId, kind: TxKind) {
        let coll = self.coll_ix(coll);
        self.push(coll, 0, kind);
    }
}

/// Changes, as methods. Each appends one.
impl Transaction {
    pub fn nop(&mut self) {
        self.push(0, 0, TxKind::Nop);
    }
    pub fn create(&mut self, obj: &GHObject) {
        self.on(obj, TxKind::Create);
    }
    pub fn touch(&mut self, obj: &GHObject) {
        self.on(obj, TxKind::Touch);
    }
    /// `fadvise`: `CEPH_OSD_OP_FLAG_FADVISE_*`.
    pub fn write(&mut self, obj: &GHObject, offset: u64, data: Bytes, fadvise: u32) {
        self.fadvise_flags |= fadvise;
        self.on(obj, TxKind::Write { offset, data });
    }
    pub fn zero(&mut self, obj: &GHObject, offset: u64, len: u64) {
        self.on(obj, TxKind::Zero { offset, len });
    }
    pub fn truncate(&mut self, obj: &GHObject, size: u64) {
        self.on(obj, TxKind::Truncate { size });
    }
    pub fn remove(&mut self, obj: &GHObject) {
        self.on(obj, TxKind::Remove);
    }
    pub fn set_attr(&mut self, obj: &GHObject, name: impl Into<ByteStr>, value: Bytes) {
        self.on(obj, TxKind::SetAttr { name: name.into(), value });
    }
    pub fn set_attrs(&mut self, obj: &GHObject, attrs: Vec<(ByteStr, Bytes)>) {
        self.on(obj, TxKind::SetAttrs(attrs));
    }
    pub fn rm_attr(&mut self, obj: &GHObject, name: impl Into<ByteStr>) {
        self.on(obj, TxKind::RmAttr { name: name.into() });
    }
    pub fn rm_attrs(&mut self, obj: &GHObject) {
        self.on(obj, TxKind::RmAttrs);
    }
    pub fn clone_object(&mut self, obj: &GHObject, to: &GHObject) {
        let to = self.obj_ix(to);
        self.on(obj, TxKind::Clone { to });
    }
    pub fn clone_range(&mut self, obj: &GHObject, to: &GHObject, src_offset: u64, len: u64, dst_offset: u64) {
        let to = self.obj_ix(to);
        self.on(obj, TxKind::CloneRange { to, src_offset, len, dst_offset });
    }
    pub fn omap_clear(&mut self, obj: &GHObject) {
        self.on(obj, TxKind::OmapClear);
    }
    pub fn omap_set_keys(&mut self, obj: &GHObject, keys: Vec<(ByteStr, Bytes)>) {
        self.on(obj, TxKind::OmapSetKeys(keys));
    }
    pub fn omap_rm_keys(&mut self, obj: &GHObject, keys: Vec<ByteStr>) {
        self.on(obj, TxKind::OmapRmKeys(keys));
    }
    /// `first` is in the range, `last` is not.
    pub fn omap_rm_key_range(&mut self, obj: &GHObject, first: impl Into<ByteStr>, last: impl Into<ByteStr>) {
        self.on(obj, TxKind::OmapRmKeyRange { first: first.into(), last: last.into() });
    }
    pub fn omap_set_header(&mut self, obj: &GHObject, header: Bytes) {
        self.on(obj, TxKind::OmapSetHeader(header));
    }
    pub fn create_collection(&mut self, coll: CollId, bits: u32) {
        self.on_coll(coll, TxKind::MkColl { bits });
    }
    pub fn remove_collection(&mut self, coll: CollId) {
        self.on_coll(coll, TxKind::RmColl);
    }
    pub fn split_collection(&mut self, coll: CollId, bits: u32, rem: u32, to: CollId) {
        let to = self.coll_ix(to);
        self.on_coll(coll, TxKind::SplitColl { to, bits, rem });
    }
    pub fn merge_collection(&mut self, coll: CollId, to: CollId, bits: u32) {
        let to = self.coll_ix(to);
        self.on_coll(coll, TxKind::MergeColl { to, bits });
    }
    pub fn collection_set_bits(&mut self, coll: CollId, bits: u32) {
        self.on_coll(coll, TxKind::CollSetBits { bits });
    }
    pub fn collection_hint(&mut self, coll: CollId, hint: u32, data: Bytes) {
        self.on_coll(coll, TxKind::CollHint { hint, data });
    }
    pub fn move_rename(&mut self, from_coll: CollId, from: &GHObject, to_coll: CollId, to: &GHObject) {
        let (from_coll, from, to_coll, to) = (self.coll_ix(from_coll), self.obj_ix(from), self.coll_ix(to_coll), self.obj_ix(to));
        self.push(from_coll, from, TxKind::MoveRename { to_coll, to });
    }
    pub fn try_rename(&mut self, from: &GHObject, to: &GHObject) {
        let to = self.obj_ix(to);
        self.on(from, TxKind::TryRename { to });
    }
    pub fn set_alloc_hint(&mut self, obj: &GHObject, object_size: u64, write_size: u64, flags: u32) {
        self.on(obj, TxKind::SetAllocHint { object_size, write_size, flags });
    }
}
