//! [`Denc`] for primitives and containers, as Ceph encodes the C++ types that they stand for.

use crate::{ByteStr, Decoder, Denc, DencError, Encoder};
use bytes::Bytes;
#[allow(clippy::disallowed_types)] // with any hasher: its owner names it
use std::collections::HashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasher, Hash};

macro_rules! primitive {
    ($($t:ty: $name:ident),*) => { $(
        impl Denc for $t {
            #[inline]
            fn encode(&self, e: &mut Encoder) { e.raw(&self.to_le_bytes()); }
            #[inline]
            fn decode(d: &mut Decoder) -> Result<Self, DencError> { d.$name() }
        }
    )* };
}
primitive!(u8: u8, u16: u16, u32: u32, u64: u64, i8: i8, i16: i16, i32: i32, i64: i64, f32: f32, f64: f64);

impl Denc for bool {
    fn encode(&self, e: &mut Encoder) {
        e.bool(*self);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.bool()
    }
}

impl Denc for () {
    fn encode(&self, _: &mut Encoder) {}
    fn decode(_: &mut Decoder) -> Result<Self, DencError> {
        Ok(())
    }
}

impl Denc for String {
    fn encode(&self, e: &mut Encoder) {
        e.blob(self.as_bytes());
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.string()
    }
}

impl Denc for ByteStr {
    fn encode(&self, e: &mut Encoder) {
        e.blob(self.as_slice());
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.bytestr()
    }
}

/// A `bufferlist` inside a message: a length and the bytes.
impl Denc for Bytes {
    fn encode(&self, e: &mut Encoder) {
        e.blob(self);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.blob()
    }
}

/// Arrays carry no count: uuids and the like.
impl<const N: usize> Denc for [u8; N] {
    fn encode(&self, e: &mut Encoder) {
        e.raw(self);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let mut out = [0; N];
        out.copy_from_slice(&d.raw(N)?);
        Ok(out)
    }
}

impl<A: Denc, B: Denc> Denc for (A, B) {
    fn encode(&self, e: &mut Encoder) {
        self.0.encode(e);
        self.1.encode(e);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok((A::decode(d)?, B::decode(d)?))
    }
}

/// `std::optional` and `boost::optional`: a byte that says whether the value follows.
impl<T: Denc> Denc for Option<T> {
    fn encode(&self, e: &mut Encoder) {
        e.bool(self.is_some());
        if let Some(value) = self {
            value.encode(e);
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        if d.bool()? { Ok(Some(T::decode(d)?)) } else { Ok(None) }
    }
}

/// Room reserved before the elements are there: a count says little about what follows, so growth does the rest.
const RESERVE_MAX_BYTES: usize = 64 << 10;

impl<T: Denc> Denc for Vec<T> {
    fn encode(&self, e: &mut Encoder) {
        e.list(self.iter());
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let n = d.count(1)?;
        let mut out = Vec::with_capacity(n.min(RESERVE_MAX_BYTES / size_of::<T>().max(1) + 1));
        for _ in 0..n {
            out.push(T::decode(d)?);
        }
        Ok(out)
    }
}

impl<T: Denc> Denc for VecDeque<T> {
    fn encode(&self, e: &mut Encoder) {
        e.list(self.iter());
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(Vec::<T>::decode(d)?.into())
    }
}

impl<T: Denc + Ord> Denc for BTreeSet<T> {
    fn encode(&self, e: &mut Encoder) {
        e.list(self.iter());
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let n = d.count(1)?;
        (0..n).map(|_| T::decode(d)).collect()
    }
}

/// Sorted, as `std::map`; of keys that come twice the last one stays.
impl<K: Denc + Ord, V: Denc> Denc for BTreeMap<K, V> {
    fn encode(&self, e: &mut Encoder) {
        e.count(self.len());
        for (key, value) in self {
            key.encode(e);
            value.encode(e);
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let n = d.count(1)?;
        if n == 0 {
            return Ok(Self::new());
        }
        (0..n).map(|_| Ok((K::decode(d)?, V::decode(d)?))).collect()
    }
}

/// `unordered_map`: same bytes but for the order, which no reader may rely on.
#[allow(clippy::disallowed_types)]
impl<K: Denc + Eq + Hash, V: Denc, S: BuildHasher + Default> Denc for HashMap<K, V, S> {
    fn encode(&self, e: &mut Encoder) {
        e.count(self.len());
        for (key, value) in self {
            key.encode(e);
            value.encode(e);
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let n = d.count(1)?;
        (0..n).map(|_| Ok((K::decode(d)?, V::decode(d)?))).collect()
    }
}
