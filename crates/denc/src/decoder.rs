//! The reader. Everything that a peer or a disk says passes through here, so here is where lengths and counts are doubted.

use crate::{ByteStr, Denc, DencError};
use bytes::Bytes;

/// A position in a shared buffer. Payloads are cut out of it without a copy.
#[derive(Debug, Clone)]
pub struct Decoder {
    buf: Bytes,
    at: usize,
    /// Where the innermost frame ends, at most the buffer's length.
    end: usize,
}

macro_rules! fixed {
    ($($name:ident: $t:ty),*) => { $(
        #[inline]
        pub fn $name(&mut self) -> Result<$t, DencError> {
            const N: usize = size_of::<$t>();
            if N > self.end - self.at {
                return Err(self.short(N));
            }
            let bytes = &self.buf[self.at..self.at + N];
            let value = <$t>::from_le_bytes(bytes.try_into().expect("the slice has the type's length"));
            self.at += N;
            Ok(value)
        }
    )* };
}

impl Decoder {
    pub fn new(buf: Bytes) -> Self {
        let end = buf.len();
        Self { buf, at: 0, end }
    }
    pub fn remaining(&self) -> usize {
        self.end - self.at
    }
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }
    /// Bytes read so far, counted from the start of the outermost buffer.
    pub fn position(&self) -> usize {
        self.at
    }
    /// The next byte, not consumed: some encodings say by it which form they have.
    pub fn peek_u8(&self) -> Result<u8, DencError> {
        if self.is_empty() { Err(self.short(1)) } else { Ok(self.buf[self.at]) }
    }

    fixed!(u8: u8, u16: u16, u32: u32, u64: u64, i8: i8, i16: i16, i32: i32, i64: i64, f32: f32, f64: f64);

    /// Any non-zero byte is true, as in Ceph.
    pub fn bool(&mut self) -> Result<bool, DencError> {
        Ok(self.u8()? != 0)
    }
    /// `n` bytes, sharing the buffer.
    #[inline]
    pub fn raw(&mut self, n: usize) -> Result<Bytes, DencError> {
        if n > self.remaining() {
            return Err(self.short(n));
        }
        let bytes = self.buf.slice(self.at..self.at + n);
        self.at += n;
        Ok(bytes)
    }
    /// Fills `out`: for short fixed fields, which are cheaper copied than shared.
    #[inline]
    pub fn read_exact(&mut self, out: &mut [u8]) -> Result<(), DencError> {
        if out.len() > self.remaining() {
            return Err(self.short(out.len()));
        }
        out.copy_from_slice(&self.buf[self.at..self.at + out.len()]);
        self.at += out.len();
        Ok(())
    }
    /// The next `N` bytes, copied.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DencError> {
        if N > self.remaining() {
            return Err(self.short(N));
        }
        let bytes = *self.buf[self.at..].first_chunk().expect("so many are left");
        self.at += N;
        Ok(bytes)
    }
    /// All that is left, sharing the buffer.
    pub fn rest(&mut self) -> Bytes {
        let bytes = self.buf.slice(self.at..self.end);
        self.at = self.end;
        bytes
    }
    pub fn skip(&mut self, n: usize) -> Result<(), DencError> {
        if n > self.remaining() {
            return Err(self.short(n));
        }
        self.at += n;
        Ok(())
    }
    /// What [`crate::Encoder::varint`] writes.
    pub fn varint(&mut self) -> Result<u64, DencError> {
        let mut v = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            v |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(v);
            }
        }
        Err(self.invalid("a number of variable length has more than 64 bits"))
    }
    /// Passes over a length and that many bytes.
    pub fn skip_blob(&mut self) -> Result<(), DencError> {
        let n = self.u32()? as usize;
        self.skip(n)
    }
    /// A length and that many bytes.
    pub fn blob(&mut self) -> Result<Bytes, DencError> {
        let n = self.u32()? as usize;
        self.raw(n)
    }
    pub fn bytestr(&mut self) -> Result<ByteStr, DencError> {
        let n = self.u32()? as usize;
        if n == 0 { Ok(ByteStr::new()) } else { Ok(self.raw(n)?.into()) }
    }
    /// A string that must be UTF-8.
    pub fn string(&mut self) -> Result<String, DencError> {
        let at = self.position();
        String::from_utf8(self.blob()?.to_vec()).map_err(|_| DencError::Invalid { at, what: "a text is not UTF-8" })
    }
    /// A count of elements, each of which takes at least `min_bytes`: so a count can't ask for more memory than bytes arrived.
    pub fn count(&mut self, min_bytes: usize) -> Result<usize, DencError> {
        let at = self.position();
        let count = self.u32()?;
        if (count as usize).saturating_mul(min_bytes.max(1)) > self.remaining() {
            return Err(DencError::Count { at, count: count.into(), left: self.remaining() });
        }
        Ok(count as usize)
    }
    pub fn get<T: Denc>(&mut self) -> Result<T, DencError> {
        T::decode(self)
    }
    /// Skips a value that is not needed.
    pub fn ignore<T: Denc>(&mut self) -> Result<(), DencError> {
        T::decode(self).map(drop)
    }

    /// Passes over a versioned frame, whatever is in it.
    pub fn skip_frame(&mut self) -> Result<(), DencError> {
        self.skip(2)?;
        self.skip_blob()
    }
    /// A versioned frame. `known` is the version that we write: a frame whose compat is above it is refused. `body` sees only the
    /// frame's bytes and its version; what it leaves unread (fields of newer releases) is skipped.
    pub fn frame<T>(
        &mut self,
        what: &'static str,
        known: u8,
        body: impl FnOnce(&mut Decoder, u8) -> Result<T, DencError>,
    ) -> Result<T, DencError> {
        let version = self.u8()?;
        let compat = self.u8()?;
        if compat > known {
            return Err(DencError::Incompatible { what, compat, known });
        }
        self.sized(|d| body(d, version))
    }
    /// A 32-bit length and a value within it; what `body` leaves is skipped.
    pub fn sized<T>(&mut self, body: impl FnOnce(&mut Decoder) -> Result<T, DencError>) -> Result<T, DencError> {
        let len = self.u32()? as usize;
        if len > self.remaining() {
            return Err(self.short(len));
        }
        // The same reader with a nearer end: frames nest deep, and a reader of its own would cost a reference count each.
        let outer_end = std::mem::replace(&mut self.end, self.at + len);
        let value = body(self);
        self.at = self.end;
        self.end = outer_end;
        value
    }
    /// An [`DencError::Invalid`] at the present position.
    pub fn invalid(&self, what: &'static str) -> DencError {
        DencError::Invalid { at: self.position(), what }
    }
    fn short(&self, want: usize) -> DencError {
        DencError::Short { at: self.position(), want, left: self.remaining() }
    }
}
