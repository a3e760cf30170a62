//! Values inside messages that this crate carries without looking into them.

use bytes::Bytes;
use denc::{Decoder, Denc, DencError, Encoder};

/// One versioned frame as it came: version, compat, length and body. Two are equal if their bytes are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Framed(pub Bytes);

impl Framed {
    /// The encoding of a value whose [`Denc`] is one frame.
    pub fn of<T: Denc>(value: &T, features: u64) -> Self {
        Self(value.to_bytes(features))
    }
    pub fn open<T: Denc>(&self) -> Result<T, DencError> {
        T::from_bytes(&self.0)
    }
}
impl Denc for Framed {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let mut ahead = d.clone();
        ahead.skip(2)?;
        let len = ahead.u32()? as usize;
        Ok(Self(d.raw(len.saturating_add(6))?))
    }
}

/// What is left of the front: for a last field that is a map without a length of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rest(pub Bytes);

impl Denc for Rest {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        Ok(Self(d.rest()))
    }
}
