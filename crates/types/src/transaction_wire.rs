//! `ceph::os::Transaction` as bytes: fixed-size ops that name collections and objects by index, and one buffer with what they carry.
//!
//! Written in the form up to 19.2, which 20.2 reads, too; 20.2's is read, whose payloads lie in two buffers.
//! Source of the facts: Ceph 18.2 `src/os/Transaction.h` (v9; `Op` packed in 72 bytes, `TransactionData` in 24).

use crate::transaction::{Transaction, TxKind, TxOp};
use crate::transaction_payloads::Payloads;
use crate::{CollId, GHObject};
use denc::{ByteStr, Bytes, Decoder, Denc, DencError, Encoder};
use std::borrow::Cow;
use std::collections::BTreeMap;

mod code {
    pub const NOP: u32 = 0;
    pub const CREATE: u32 = 7;
    pub const TOUCH: u32 = 9;
    pub const WRITE: u32 = 10;
    pub const ZERO: u32 = 11;
    pub const TRUNCATE: u32 = 12;
    pub const REMOVE: u32 = 13;
    pub const SETATTR: u32 = 14;
    pub const SETATTRS: u32 = 15;
    pub const RMATTR: u32 = 16;
    pub const CLONE: u32 = 17;
    pub const MKCOLL: u32 = 20;
    pub const RMCOLL: u32 = 21;
    pub const RMATTRS: u32 = 28;
    pub const CLONERANGE2: u32 = 30;
    pub const OMAP_CLEAR: u32 = 31;
    pub const OMAP_SETKEYS: u32 = 32;
    pub const OMAP_RMKEYS: u32 = 33;
    pub const OMAP_SETHEADER: u32 = 34;
    pub const SPLIT_COLLECTION2: u32 = 36;
    pub const OMAP_RMKEYRANGE: u32 = 37;
    pub const COLL_MOVE_RENAME: u32 = 38;
    pub const SETALLOCHINT: u32 = 39;
    pub const COLL_HINT: u32 = 40;
    pub const TRY_RENAME: u32 = 41;
    pub const COLL_SET_BITS: u32 = 42;
    pub const MERGE_COLLECTION: u32 = 43;
}

/// The packed `Op`: every op has every field.
#[derive(Debug, Clone, Copy, Default)]
struct WireOp {
    code: u32,
    coll: u32,
    obj: u32,
    off: u64,
    len: u64,
    dest_coll: u32,
    dest_obj: u32,
    dest_off: u64,
    hint: u32,
    object_size: u64,
    write_size: u64,
    split_bits: u32,
    split_rem: u32,
}
denc::denc_struct!(WireOp, bare, {
    code, coll, obj, off, len, dest_coll, dest_obj, dest_off, hint, object_size, write_size, split_bits, split_rem
});
const WIRE_OP_BYTES: usize = 72;

/// As a `std::map` goes: ascending, of equal keys the last.
fn put_map(e: &mut Encoder, pairs: &[(ByteStr, Bytes)]) {
    let sorted = pairs.windows(2).all(|w| w[0].0 < w[1].0);
    if sorted {
        e.count(pairs.len());
        for (key, value) in pairs {
            key.encode(e);
            value.encode(e);
        }
    } else {
        pairs.iter().cloned().collect::<BTreeMap<_, _>>().encode(e);
    }
}
/// As a `std::set` goes.
fn put_set(e: &mut Encoder, keys: &[ByteStr]) {
    let mut keys = Cow::Borrowed(keys);
    if !keys.windows(2).all(|w| w[0] < w[1]) {
        keys.to_mut().sort();
        keys.to_mut().dedup();
    }
    e.list(keys.iter());
}

/// What the ops carry, in pieces: a long payload is shared, not copied.
struct Carried {
    pieces: Vec<Bytes>,
    last: Encoder,
    /// Bytes in `pieces`.
    before: usize,
}

/// A payload of so many bytes is worth a piece of its own.
const SHARED_MIN: usize = 4096;

impl Carried {
    fn new(features: u64) -> Self {
        Self { pieces: Vec::new(), last: Encoder::with_capacity(features, 512), before: 0 }
    }
    fn len(&self) -> usize {
        self.before + self.last.len()
    }
    fn payload(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARED_MIN {
            return bytes.encode(&mut self.last);
        }
        self.last.count(bytes.len());
        let next = Encoder::with_capacity(self.last.features(), 512);
        let small = std::mem::replace(&mut self.last, next).finish();
        self.before += small.len() + bytes.len();
        self.pieces.extend([small, bytes.clone()]);
    }
}

/// An encoded transaction.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    /// One behind the other.
    pub bytes: Vec<Bytes>,
    /// Where the first byte would have to lie in a page, so that the longest payload of a write begins one; 0 if there is none.
    pub data_off: u16,
}

/// What a message's `data_off` counts in.
const PAGE: usize = 4096;

/// One op into its two places.
fn put_op(op: &TxOp, ops: &mut Encoder, carried: &mut Carried) {
    if let TxKind::Write { data, .. } = &op.kind {
        carried.payload(data);
    }
    let data = &mut carried.last;
    let mut w = WireOp { coll: op.coll, obj: op.obj, ..WireOp::default() };
    w.code = match &op.kind {
        TxKind::Nop => code::NOP,
        TxKind::Create => code::CREATE,
        TxKind::Touch => code::TOUCH,
        TxKind::Write { offset, data: bytes } => {
            (w.off, w.len) = (*offset, bytes.len() as u64);
            code::WRITE
        }
        TxKind::Zero { offset, len } => {
            (w.off, w.len) = (*offset, *len);
            code::ZERO
        }
        TxKind::Truncate { size } => {
            w.off = *size;
            code::TRUNCATE
        }
        TxKind::Remove => code::REMOVE,
        TxKind::SetAttr { name, value } => {
            name.encode(data);
            value.encode(data);
            code::SETATTR
        }
        TxKind::SetAttrs(attrs) => {
            put_map(data, attrs);
            code::SETATTRS
        }
        TxKind::RmAttr { name } => {
            name.encode(data);
            code::RMATTR
        }
        TxKind::RmAttrs => code::RMATTRS,
        TxKind::Clone { to } => {
            w.dest_obj = *to;
            code::CLONE
        }
        TxKind::CloneRange { to, src_offset, len, dst_offset } => {
            (w.dest_obj, w.off, w.len, w.dest_off) = (*to, *src_offset, *len, *dst_offset);
            code::CLONERANGE2
        }
        TxKind::OmapClear => code::OMAP_CLEAR,
        TxKind::OmapSetKeys(keys) => {
            put_map(data, keys);
            code::OMAP_SETKEYS
        }
        TxKind::OmapRmKeys(keys) => {
            put_set(data, keys);
            code::OMAP_RMKEYS
        }
        TxKind::OmapRmKeyRange { first, last } => {
            first.encode(data);
            last.encode(data);
            code::OMAP_RMKEYRANGE
        }
        TxKind::OmapSetHeader(header) => {
            header.encode(data);
            code::OMAP_SETHEADER
        }
        TxKind::MkColl { bits } => {
            w.split_bits = *bits;
            code::MKCOLL
        }
        TxKind::RmColl => code::RMCOLL,
        TxKind::SplitColl { to, bits, rem } => {
            (w.dest_coll, w.split_bits, w.split_rem) = (*to, *bits, *rem);
            code::SPLIT_COLLECTION2
        }
        TxKind::MergeColl { to, bits } => {
            (w.dest_coll, w.split_bits) = (*to, *bits);
            code::MERGE_COLLECTION
        }
        TxKind::CollSetBits { bits } => {
            w.split_bits = *bits;
            code::COLL_SET_BITS
        }
        TxKind::CollHint { hint, data: bytes } => {
            w.hint = *hint;
            bytes.encode(data);
            code::COLL_HINT
        }
        TxKind::MoveRename { to_coll, to } => {
            (w.dest_coll, w.dest_obj) = (*to_coll, *to);
            code::COLL_MOVE_RENAME
        }
        TxKind::TryRename { to } => {
            w.dest_obj = *to;
            code::TRY_RENAME
        }
        TxKind::SetAllocHint { object_size, write_size, flags } => {
            (w.object_size, w.write_size, w.hint) = (*object_size, *write_size, *flags);
            code::SETALLOCHINT
        }
    };
    w.encode(ops);
}

/// One op from its two places. `colls` and `objects` are how many there are.
fn get_op(ops: &mut Decoder, carried: &mut Payloads, colls: u32, objects: u32) -> Result<TxOp, DencError> {
    let w: WireOp = ops.get()?;
    if w.code == code::WRITE {
        let kind = TxKind::Write { offset: w.off, data: carried.write(w.off, w.len)? };
        return checked(&w, kind, colls, objects, ops);
    }
    let data = &mut carried.rest;
    let kind = match w.code {
        code::NOP => TxKind::Nop,
        code::CREATE => TxKind::Create,
        code::TOUCH => TxKind::Touch,
        code::ZERO => TxKind::Zero { offset: w.off, len: w.len },
        code::TRUNCATE => TxKind::Truncate { size: w.off },
        code::REMOVE => TxKind::Remove,
        code::SETATTR => TxKind::SetAttr { name: data.bytestr()?, value: data.blob()? },
        code::SETATTRS => TxKind::SetAttrs(data.get()?),
        code::RMATTR => TxKind::RmAttr { name: data.bytestr()? },
        code::RMATTRS => TxKind::RmAttrs,
        code::CLONE => TxKind::Clone { to: w.dest_obj },
        code::CLONERANGE2 => TxKind::CloneRange { to: w.dest_obj, src_offset: w.off, len: w.len, dst_offset: w.dest_off },
        code::OMAP_CLEAR => TxKind::OmapClear,
        code::OMAP_SETKEYS => TxKind::OmapSetKeys(data.get()?),
        code::OMAP_RMKEYS => TxKind::OmapRmKeys(data.get()?),
        code::OMAP_RMKEYRANGE => TxKind::OmapRmKeyRange { first: data.bytestr()?, last: data.bytestr()? },
        code::OMAP_SETHEADER => TxKind::OmapSetHeader(data.blob()?),
        code::MKCOLL => TxKind::MkColl { bits: w.split_bits },
        code::RMCOLL => TxKind::RmColl,
        code::SPLIT_COLLECTION2 => TxKind::SplitColl { to: w.dest_coll, bits: w.split_bits, rem: w.split_rem },
        code::MERGE_COLLECTION => TxKind::MergeColl { to: w.dest_coll, bits: w.split_bits },
        code::COLL_SET_BITS => TxKind::CollSetBits { bits: w.split_bits },
        code::COLL_HINT => TxKind::CollHint { hint: w.hint, data: data.blob()? },
        code::COLL_MOVE_RENAME => TxKind::MoveRename { to_coll: w.dest_coll, to: w.dest_obj },
        code::TRY_RENAME => TxKind::TryRename { to: w.dest_obj },
        code::SETALLOCHINT => TxKind::SetAllocHint { object_size: w.object_size, write_size: w.write_size, flags: w.hint },
        _ => return Err(ops.invalid("no store knows this op")),
    };
    checked(&w, kind, colls, objects, ops)
}
/// An op whose collections and objects are in the index.
fn checked(w: &WireOp, kind: TxKind, colls: u32, objects: u32, ops: &Decoder) -> Result<TxOp, DencError> {
    let nop = matches!(kind, TxKind::Nop);
    let of_coll = matches!(
        kind,
        TxKind::MkColl { .. }
            | TxKind::RmColl
            | TxKind::SplitColl { .. }
            | TxKind::MergeColl { .. }
            | TxKind::CollSetBits { .. }
            | TxKind::CollHint { .. }
    );
    if !nop && (w.coll >= colls || w.dest_coll >= colls || !of_coll && (w.obj >= objects || w.dest_obj >= objects)) {
        return Err(ops.invalid("an op names a collection or object that is not in the index"));
    }
    Ok(TxOp { coll: w.coll, obj: w.obj, kind })
}

/// Turns an index around: its numbers are 0 and up without a gap.
fn by_index<K: Denc + Ord>(d: &mut Decoder) -> Result<Vec<K>, DencError> {
    let n = d.count(5)?;
    let mut out: Vec<Option<K>> = Vec::new();
    out.resize_with(n, || None);
    for _ in 0..n {
        let (key, index) = (d.get()?, d.u32()? as usize);
        match out.get_mut(index) {
            Some(slot @ None) => *slot = Some(key),
            _ => return Err(d.invalid("an index of a transaction has a gap")),
        }
    }
    Ok(out.into_iter().flatten().collect())
}

fn put_index<'a, K: Denc + Ord + 'a>(e: &mut Encoder, keys: impl Iterator<Item = &'a K>) {
    let mut index: Vec<(&K, u32)> = keys.zip(0..).collect();
    index.sort();
    e.count(index.len());
    for (key, i) in index {
        key.encode(e);
        e.u32(i);
    }
}

/// Version and the oldest reader's.
const VERSION: u8 = 9;
/// 20.2's: payloads in two buffers, behind all else.
const VERSION_APART: u8 = 10;
/// Before what the ops carry: version, compat, length of the frame, and theirs.
const HEAD: usize = 10;

impl Transaction {
    /// Encoded, with long payloads shared: the same bytes as [`Denc::to_bytes`] gives in one piece.
    pub fn to_pieces(&self, features: u64) -> Pieces {
        let mut ops = Encoder::with_capacity(features, self.len() * WIRE_OP_BYTES);
        let mut carried = Carried::new(features);
        let (mut largest, mut largest_off, mut largest_at) = (0, 0, 0);
        for op in self.ops() {
            if let TxKind::Write { offset, data: bytes } = &op.kind
                && bytes.len() > largest
            {
                (largest, largest_off, largest_at) = (bytes.len(), *offset, carried.len() + 4);
            }
            put_op(op, &mut ops, &mut carried);
        }
        let carried_len = carried.len();
        let mut tail = carried.last;
        let in_tail = tail.len();
        ops.finish().encode(&mut tail);
        let colls: Vec<CollId> = self.colls().collect();
        put_index(&mut tail, colls.iter());
        put_index(&mut tail, self.objects());
        tail.u64(self.len() as u64);
        tail.u32(largest as u32);
        tail.u32(largest_off as u32);
        tail.u32(largest_at as u32);
        tail.u32(self.fadvise_flags);
        let mut head = Encoder::with_capacity(features, HEAD + carried.pieces.first().map_or(tail.len(), Bytes::len));
        head.u8(VERSION);
        head.u8(VERSION);
        head.count(HEAD - 6 + carried_len + tail.len() - in_tail);
        head.count(carried_len);
        // What is small goes with the head.
        let mut pieces = carried.pieces.into_iter();
        head.raw(&pieces.next().unwrap_or_default());
        let rest: Vec<Bytes> = pieces.collect();
        let bytes = if rest.is_empty() {
            head.raw(tail.as_slice());
            vec![head.finish()]
        } else {
            [head.finish()].into_iter().chain(rest).chain([tail.finish()]).collect()
        };
        let data_off = if largest > 0 { (HEAD + largest_at).wrapping_neg() % PAGE } else { 0 };
        Pieces { bytes, data_off: data_off as u16 }
    }
}

impl Denc for Transaction {
    fn encode(&self, e: &mut Encoder) {
        self.to_pieces(e.features()).bytes.iter().for_each(|piece| e.raw(piece));
    }

    /// In one piece, as up to 19.2.
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Self::decode_with(d, Bytes::new())
    }
}

impl Transaction {
    /// Decodes what a message brings: `head` is its middle segment, empty up to 19.2, and `payloads` its data.
    pub fn from_halves(head: &Bytes, payloads: Bytes) -> Result<Self, DencError> {
        if head.is_empty() { Self::from_bytes(&payloads) } else { Self::decode_with(&mut Decoder::new(head.clone()), payloads) }
    }
    fn decode_with(d: &mut Decoder, payloads: Bytes) -> Result<Self, DencError> {
        d.frame("Transaction", VERSION_APART, |d, v| {
            if v < VERSION {
                return Err(DencError::TooOld { what: "Transaction", version: v, oldest: VERSION });
            }
            let in_front = if v < VERSION_APART { Some(Payloads::in_one(d.blob()?)) } else { None };
            let mut ops = Decoder::new(d.blob()?);
            let (colls, objects): (Vec<CollId>, Vec<GHObject>) = (by_index(d)?, by_index(d)?);
            let n = d.u64()?;
            if n.checked_mul(WIRE_OP_BYTES as u64) != Some(ops.remaining() as u64) {
                return Err(d.invalid("a transaction has as many ops as it says"));
            }
            d.skip(3 * 4)?;
            let fadvise_flags = d.u32()?;
            let counts = (colls.len() as u32, objects.len() as u32);
            let mut carried = in_front.map_or_else(|| Payloads::apart(d, payloads), Ok)?;
            let list = (0..n).map(|_| get_op(&mut ops, &mut carried, counts.0, counts.1)).collect::<Result<Vec<_>, _>>()?;
            Ok(Self::from_parts(colls, objects, list, fadvise_flags))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HObject, PgId, SpgId};

    #[test]
    fn long_payloads_are_shared_and_lie_where_the_data_off_says() {
        let object = GHObject::plain(HObject { oid: "a".into(), pool: 3, hash: 7, snap: crate::CEPH_NOSNAP, ..HObject::min() });
        let payload = |len: usize| Bytes::from(vec![(len % 251) as u8 | 1; len]);
        let home = CollId::Pg(SpgId::whole(PgId::new(3, 0x1f)));
        for (writes, pieces) in [(&[][..], 1), (&[100][..], 1), (&[100, 65536][..], 3), (&[4096, 200, 8192][..], 5), (&[8192, 4096][..], 5)]
        {
            let mut t = Transaction::default();
            t.set_attrs(&object, vec![("x".into(), Bytes::from_static(b"1"))]);
            writes.iter().for_each(|len| t.write(&object, 4096, payload(*len), 0));
            t.set_attrs(&object, vec![("y".into(), Bytes::from_static(b"2"))]);
            t.set_home(home);
            let encoded = t.to_pieces(denc::ALL_FEATURES);
            assert_eq!(encoded.bytes.len(), pieces, "{writes:?}");
            let all = encoded.bytes.concat();
            assert_eq!(all, t.to_bytes(denc::ALL_FEATURES));
            assert_eq!(Transaction::from_bytes(&all.clone().into()).unwrap().ops(), t.ops());
            let Some(longest) = writes.iter().copied().max() else {
                assert_eq!(encoded.data_off, 0);
                continue;
            };
            let at = all.windows(longest).position(|w| w == payload(longest)).unwrap();
            assert_eq!((at + usize::from(encoded.data_off)) % PAGE, 0, "{writes:?}");
            // The payload itself, not a copy.
            let op = t.ops().iter().find_map(|op| match &op.kind {
                TxKind::Write { data, .. } if data.len() == longest => Some(data.as_ptr()),
                _ => None,
            });
            assert_eq!(encoded.bytes.iter().any(|piece| Some(piece.as_ptr()) == op), longest >= SHARED_MIN);
        }
    }

    #[test]
    fn comes_back_as_it_went() {
        let home = CollId::Pg(SpgId::whole(PgId::new(3, 0x1f)));
        let object =
            |name: &str| GHObject::plain(HObject { oid: name.into(), pool: 3, hash: 7, snap: crate::CEPH_NOSNAP, ..HObject::min() });
        let (a, b) = (object("a"), object("b"));
        let mut t = Transaction::default();
        t.touch(&b);
        t.write(&a, 4096, Bytes::from_static(b"payload"), 0x20);
        t.set_attrs(&a, vec![("x".into(), Bytes::from_static(b"1")), ("y".into(), Bytes::new())]);
        t.clone_object(&a, &b);
        t.omap_rm_key_range(&b, "a", "b");
        t.move_rename(home, &a, CollId::PgTemp(SpgId::whole(PgId::new(3, 0x1f))), &b);
        t.set_home(home);
        let bytes = t.to_bytes(denc::ALL_FEATURES);
        let back = Transaction::from_bytes(&bytes).unwrap();
        assert_eq!(back.to_bytes(denc::ALL_FEATURES), bytes);
        let mut joined = Transaction::new(home);
        joined.append(t.clone());
        assert_eq!(joined.ops()[1], t.ops()[1]);
        assert_eq!(back.object(back.ops()[1].obj), &a);
        assert_eq!(back.coll(back.ops()[0].coll), home);
        for end in 0..bytes.len() {
            assert!(Transaction::from_bytes(&bytes.slice(..end)).is_err());
        }
    }
}
