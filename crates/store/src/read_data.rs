//! Bytes as a store gives them: pieces that share its memory.

use bytes::Bytes;

/// Zeros for holes, shared by all.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// What was read, in order, holes as zeros. One piece is kept without an allocation.
#[derive(Debug, Clone, Default)]
pub struct ReadData {
    first: Bytes,
    rest: Vec<Bytes>,
    len: usize,
    crc: Option<u32>,
}

impl ReadData {
    pub fn new() -> Self {
        Self::default()
    }
    /// Bytes of all pieces.
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// One piece that a checksum vouches for.
    pub fn checked(piece: Bytes, crc: u32) -> Self {
        Self { crc: Some(crc), ..piece.into() }
    }
    /// The crc32c of all of it, from `u32::MAX` on, if it is known without looking: what the store has beside the bytes, and held them to. Who needs one
    /// of the same kind (an object's digest, a frame's) saves a pass over the bytes, and what happened to them on the way is found at its end.
    pub fn crc(&self) -> Option<u32> {
        self.crc
    }
    /// Appends a piece; an empty one vanishes.
    pub fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        self.crc = None;
        if self.len == 0 {
            self.len = piece.len();
            self.first = piece;
        } else {
            self.len += piece.len();
            self.rest.push(piece);
        }
    }
    /// Appends `n` zeros.
    pub fn push_zeros(&mut self, mut n: usize) {
        while n > 0 {
            let some = n.min(ZEROS.len());
            self.push(Bytes::from_static(&ZEROS[..some]));
            n -= some;
        }
    }
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        (!self.first.is_empty()).then_some(&self.first).into_iter().chain(&self.rest)
    }
    /// Appends the pieces to a message's data.
    pub fn append_to(self, out: &mut Vec<Bytes>) {
        if !self.first.is_empty() {
            out.reserve_exact(1 + self.rest.len());
            out.push(self.first);
            out.extend(self.rest);
        }
    }
    pub fn into_pieces(self) -> Vec<Bytes> {
        let mut out = Vec::with_capacity(1 + self.rest.len());
        self.append_to(&mut out);
        out
    }
    /// In one piece: free if it is one, a copy otherwise.
    pub fn flat(&self) -> Bytes {
        if self.rest.is_empty() {
            return self.first.clone();
        }
        let mut out = Vec::with_capacity(self.len);
        self.pieces().for_each(|p| out.extend_from_slice(p));
        out.into()
    }
}

impl From<Bytes> for ReadData {
    fn from(first: Bytes) -> Self {
        Self { len: first.len(), first, rest: Vec::new(), crc: None }
    }
}
