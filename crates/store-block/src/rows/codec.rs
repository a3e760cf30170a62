//! The bytes of our own records: variable-length numbers and counted strings. What Ceph's types have of their own stays `denc`'s.

use bytes::Bytes;
use std::ops::Range;
use thiserror::Error;

/// Stored bytes that can't be what we wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Corrupt(pub &'static str);

/// Appends to a vector.
pub trait Put {
    fn put_u8(&mut self, v: u8);
    fn put_u16(&mut self, v: u16);
    fn put_u32(&mut self, v: u32);
    fn put_u64(&mut self, v: u64);
    /// Seven bits a byte, the lowest first.
    fn put_var(&mut self, v: u64);
    /// A signed number near zero is short.
    fn put_zigzag(&mut self, v: i64);
    fn put_blob(&mut self, v: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, v: u8) {
        self.push(v);
    }
    fn put_u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn put_u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn put_u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn put_var(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.push(v as u8);
    }
    fn put_zigzag(&mut self, v: i64) {
        self.put_var((v << 1 ^ v >> 63) as u64);
    }
    fn put_blob(&mut self, v: &[u8]) {
        self.put_var(v.len() as u64);
        self.extend_from_slice(v);
    }
}

/// Reads from bytes; every length is checked. What is read from shared bytes shares them.
#[derive(Debug, Clone)]
pub struct Get<B = Bytes> {
    buf: B,
    at: usize,
}

const SHORT: Corrupt = Corrupt("a record ends early");

impl Get {
    /// The next `n` bytes.
    pub fn raw(&mut self, n: usize) -> Result<Bytes, Corrupt> {
        self.pass(n).map(|range| self.buf.slice(range))
    }
    pub fn blob(&mut self) -> Result<Bytes, Corrupt> {
        self.pass_blob().map(|range| self.buf.slice(range))
    }
}

impl<B: AsRef<[u8]>> Get<B> {
    pub fn new(buf: B) -> Self {
        Self { buf, at: 0 }
    }
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }
    pub fn remaining(&self) -> usize {
        self.buf.as_ref().len() - self.at
    }
    /// Where the next `n` bytes are; they are taken.
    fn pass(&mut self, n: usize) -> Result<Range<usize>, Corrupt> {
        let range = self.at..self.at + n;
        (n <= self.remaining()).then(|| self.at += n).ok_or(SHORT)?;
        Ok(range)
    }
    fn pass_blob(&mut self) -> Result<Range<usize>, Corrupt> {
        let n = self.var()?;
        self.pass(usize::try_from(n).map_err(|_| SHORT)?)
    }
    /// A blob, as it lies there.
    pub fn slice(&mut self) -> Result<&[u8], Corrupt> {
        self.pass_blob().map(|range| &self.buf.as_ref()[range])
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let out = self.buf.as_ref().get(self.at..self.at + N).ok_or(SHORT)?;
        self.at += N;
        Ok(out.try_into().expect("as many bytes as were taken"))
    }
    pub fn u8(&mut self) -> Result<u8, Corrupt> {
        Ok(self.array::<1>()?[0])
    }
    pub fn u16(&mut self) -> Result<u16, Corrupt> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    pub fn u32(&mut self) -> Result<u32, Corrupt> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    pub fn u64(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    pub fn var(&mut self) -> Result<u64, Corrupt> {
        let mut v = 0;
        for shift in (0..64).step_by(7) {
            let b = self.u8()?;
            v |= u64::from(b & 0x7f) << shift;
            if b < 0x80 {
                return Ok(v);
            }
        }
        Err(Corrupt("a number is too long"))
    }
    pub fn zigzag(&mut self) -> Result<i64, Corrupt> {
        let v = self.var()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }
    /// How many elements follow, each of at least `min_bytes`.
    pub fn count(&mut self, min_bytes: usize) -> Result<usize, Corrupt> {
        let n = self.var()?;
        if n > (self.remaining() / min_bytes.max(1)) as u64 {
            return Err(SHORT);
        }
        Ok(n as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut out = Vec::new();
        let all = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        for v in all {
            out.put_var(v);
            out.put_zigzag(v as i64);
        }
        out.put_blob(b"text");
        let mut get = Get::new(out.clone().into());
        for v in all {
            assert_eq!((get.var().unwrap(), get.zigzag().unwrap()), (v, v as i64));
        }
        assert_eq!(get.blob().unwrap(), &b"text"[..]);
        assert!(get.is_empty() && get.u8().is_err());
        for end in 0..out.len() {
            let mut get = Get::new(Bytes::copy_from_slice(&out[..end]));
            while get.var().is_ok() {}
        }
    }
}
