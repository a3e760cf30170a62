//! The writer. It can't fail: what does not fit into Ceph's 32-bit counts is a broken invariant of the caller.

use crate::Denc;
use bytes::{Bytes, BytesMut};

/// Bytes that are not to be moved again once they are in the buffer.
const LARGE: usize = 4096;

/// A growing buffer and the features of the peer that will read it.
#[derive(Debug)]
pub struct Encoder {
    buf: BytesMut,
    features: u64,
}

impl Encoder {
    pub fn new(features: u64) -> Self {
        Self { buf: BytesMut::new(), features }
    }
    pub fn with_capacity(features: u64, capacity: usize) -> Self {
        Self { buf: BytesMut::with_capacity(capacity), features }
    }
    /// Goes on behind what `buf` holds: how a message is written straight into a send buffer.
    pub fn append_to(buf: BytesMut, features: u64) -> Self {
        Self { buf, features }
    }
    /// The feature bits of the reader.
    pub fn features(&self) -> u64 {
        self.features
    }
    /// True if every bit of `mask` is among the features.
    pub fn has(&self, mask: u64) -> bool {
        self.features & mask == mask
    }
    pub fn len(&self) -> usize {
        self.buf.len()
    }
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }
    pub fn as_slice(&self) -> &[u8] {
        &self.buf
    }
    pub fn finish(self) -> Bytes {
        self.buf.freeze()
    }
    pub fn into_buf(self) -> BytesMut {
        self.buf
    }

    pub fn u8(&mut self, v: u8) {
        self.buf.extend_from_slice(&[v]);
    }
    pub fn u16(&mut self, v: u16) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }
    pub fn u32(&mut self, v: u32) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }
    pub fn u64(&mut self, v: u64) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }
    pub fn i8(&mut self, v: i8) {
        self.u8(v as u8);
    }
    pub fn i32(&mut self, v: i32) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }
    pub fn i64(&mut self, v: i64) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }
    pub fn f64(&mut self, v: f64) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }
    pub fn bool(&mut self, v: bool) {
        self.u8(v as u8);
    }
    /// A count or length: Ceph's are 32 bits wide.
    pub fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("a container that goes on the wire has less than 2^32 elements"));
    }
    /// Bytes as they are, without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        if bytes.len() >= LARGE {
            // What little follows would move all of it.
            self.buf.reserve(bytes.len() + LARGE / 4);
        }
        self.buf.extend_from_slice(bytes);
    }
    /// A number in seven bits a byte, the lowest first; the highest bit says that more follow (18.2 `src/include/denc.h`, `denc_varint`).
    pub fn varint(&mut self, mut v: u64) {
        while v > 0x7f {
            self.u8(v as u8 | 0x80);
            v >>= 7;
        }
        self.u8(v as u8);
    }
    /// A length and the bytes: strings and buffers.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }
    pub fn put<T: Denc>(&mut self, value: &T) {
        value.encode(self);
    }
    /// A counted list.
    pub fn list<'a, T: Denc + 'a>(&mut self, items: impl ExactSizeIterator<Item = &'a T>) {
        self.count(items.len());
        for item in items {
            item.encode(self);
        }
    }
    /// A versioned frame: version, compat, the length of what `body` writes, and that.
    pub fn frame(&mut self, version: u8, compat: u8, body: impl FnOnce(&mut Self)) {
        self.u8(version);
        self.u8(compat);
        self.sized(body);
    }
    /// A 32-bit length and what `body` writes: a value inside a buffer.
    pub fn sized(&mut self, body: impl FnOnce(&mut Self)) {
        let at = self.buf.len();
        self.u32(0);
        body(self);
        let len = u32::try_from(self.buf.len() - at - 4).expect("a frame is shorter than 2^32 bytes");
        self.patch_u32(at, len);
    }
    /// Overwrites four bytes written before: for fields that are only known later (crc, compat).
    pub fn patch_u32(&mut self, at: usize, v: u32) {
        *self.buf[at..].first_chunk_mut().expect("the field was written") = v.to_le_bytes();
    }
    pub fn patch_u8(&mut self, at: usize, v: u8) {
        self.buf[at] = v;
    }
}
