//! Numbers of fixed width that lie side by side: read and written together, with one look at the buffer for all of them.

use crate::{Decoder, DencError, Encoder};

/// `N` bytes that are being filled, or read, from their front. Numbers that pass the end are a mistake of the caller.
#[derive(Debug, Clone)]
pub struct Row<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

macro_rules! numbers {
    ($($put:ident $take:ident: $t:ty),*) => { $(
        #[inline(always)]
        pub fn $put(mut self, v: $t) -> Self {
            // A chunk of a length that the compiler knows: a copy between slices is a call where nothing is inlined across crates.
            *self.bytes[self.at..].first_chunk_mut().expect("a row has room for its numbers") = v.to_le_bytes();
            self.at += size_of::<$t>();
            self
        }
        #[inline(always)]
        pub fn $take(&mut self) -> $t {
            let bytes = *self.bytes[self.at..].first_chunk().expect("a row is read as far as it goes");
            self.at += size_of::<$t>();
            <$t>::from_le_bytes(bytes)
        }
    )* };
}

impl<const N: usize> Row<N> {
    /// To be filled.
    #[inline(always)]
    pub fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }
    numbers!(put_u8 u8: u8, put_u32 u32: u32, put_u64 u64: u64, put_i8 i8: i8, put_i32 i32: i32, put_i64 i64: i64);

    /// Appends a full row.
    #[inline(always)]
    pub fn encode(self, e: &mut Encoder) {
        assert!(self.at == N, "a row is written in whole");
        e.raw(&self.bytes);
    }
}

impl<const N: usize> Default for Row<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// The next `N` bytes, to be taken apart.
    #[inline]
    pub fn row<const N: usize>(&mut self) -> Result<Row<N>, DencError> {
        Ok(Row { bytes: self.array()?, at: 0 })
    }
}
