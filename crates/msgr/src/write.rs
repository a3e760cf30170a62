//! From frames to bytes: a queue of small things, copied, and large ones, shared, that goes out with vectored writes.

use crate::frame::{BLOCK, COMPLETE, CRC_EPILOGUE, INLINE, PREAMBLE, SECURE_EPILOGUE, padded};
use crate::header::{HEADER, Header};
use crate::secure::Cipher;
use crate::{MsgrError, Preamble, Tag};
use base::crc32c;
use bytes::Bytes;
use messages::RawMessage;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Pieces of this many bytes and more are sent from where they are; shorter ones are cheaper to copy than to list.
const SHARE_MIN: usize = 2048;
/// Sent bytes at the front of `small` are given up at this many.
const COMPACT_AT: usize = 256 << 10;

#[derive(Debug)]
enum Piece {
    /// A range of `small`.
    Small(usize, usize),
    Shared(Bytes),
}

/// Bytes on their way to the socket.
#[derive(Debug, Default)]
pub struct SendQueue {
    small: Vec<u8>,
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are sent already.
    sent: usize,
    len: usize,
}

impl SendQueue {
    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Bytes of memory that what waits keeps: a piece is given up when its last byte is sent.
    pub fn held(&self) -> usize {
        self.len + self.sent
    }
    /// Points `slices` at the first bytes that wait; says how many slices are filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut n = 0;
        let mut skip = self.sent;
        for (slot, piece) in slices.iter_mut().zip(&self.pieces) {
            let bytes = match piece {
                Piece::Small(from, to) => &self.small[*from..*to],
                Piece::Shared(bytes) => &bytes[..],
            };
            *slot = IoSlice::new(&bytes[skip..]);
            skip = 0;
            n += 1;
        }
        n
    }
    /// `n` bytes of what [`SendQueue::slices`] showed are with the socket.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.len, "a socket took more than it was given");
        self.len -= n;
        self.sent += n;
        while let Some(piece) = self.pieces.front() {
            let len = match piece {
                Piece::Small(from, to) => to - from,
                Piece::Shared(bytes) => bytes.len(),
            };
            if self.sent < len {
                break;
            }
            self.sent -= len;
            self.pieces.pop_front();
        }
        if self.pieces.is_empty() {
            self.small.clear();
            if self.small.capacity() > COMPACT_AT {
                self.small.shrink_to(COMPACT_AT);
            }
        } else if let Some(Piece::Small(from, _)) = self.pieces.front()
            && *from >= COMPACT_AT
        {
            self.compact(*from);
        }
    }
    fn compact(&mut self, gone: usize) {
        self.small.drain(..gone);
        for piece in &mut self.pieces {
            if let Piece::Small(from, to) = piece {
                *from -= gone;
                *to -= gone;
            }
        }
    }
    /// All that waits, in one piece: for tests and for the handshake.
    pub fn take_flat(&mut self) -> Vec<u8> {
        let mut slices = vec![IoSlice::new(&[]); self.pieces.len()];
        let n = self.slices(&mut slices);
        let out = slices[..n].iter().flat_map(|s| s.iter().copied()).collect();
        *self = Self::default();
        out
    }

    /// The end of the copied bytes: with [`SendQueue::since`], what a frame of the handshake looks like on the wire.
    pub(crate) fn mark(&self) -> usize {
        self.small.len()
    }
    pub(crate) fn since(&self, mark: usize) -> &[u8] {
        &self.small[mark..]
    }
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let from = self.small.len();
        self.small.extend_from_slice(bytes);
        self.claim(from);
    }
    #[inline]
    fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < SHARE_MIN {
            return self.put(bytes);
        }
        self.len += bytes.len();
        self.pieces.push_back(Piece::Shared(bytes.clone()));
    }
    /// Makes what was appended to `small` since `from` part of the queue.
    #[inline]
    fn claim(&mut self, from: usize) {
        let to = self.small.len();
        self.len += to - from;
        match self.pieces.back_mut() {
            Some(Piece::Small(_, end)) if *end == from => *end = to,
            _ if to > from => self.pieces.push_back(Piece::Small(from, to)),
            _ => {}
        }
    }
}

/// Frames into one direction of a connection.
#[derive(Debug, Default)]
pub struct Writer {
    pub queue: SendQueue,
    cipher: Option<Cipher>,
}

impl Writer {
    /// From here on frames go encrypted.
    pub fn encrypt(&mut self, cipher: Cipher) {
        self.cipher = Some(cipher);
    }

    /// A control frame: one segment.
    pub fn control(&mut self, tag: Tag, payload: &[u8]) -> Result<(), MsgrError> {
        let preamble = Preamble::new(tag, [u32_len(payload.len()), 0, 0, 0]);
        if self.cipher.is_some() {
            return self.sealed(&preamble, payload, None);
        }
        self.queue.put(&preamble.encode());
        if !payload.is_empty() {
            self.queue.put(payload);
            self.queue.put(&crc32c(u32::MAX, payload).to_le_bytes());
        }
        Ok(())
    }

    /// A message behind its header.
    #[inline]
    pub fn message(&mut self, header: &Header, message: &RawMessage) -> Result<(), MsgrError> {
        let (front, middle, data) = (message.front.len(), message.middle.len(), message.data_len());
        let preamble = Preamble::new(Tag::Message, [HEADER as u32, u32_len(front), u32_len(middle), u32_len(data)]);
        let header = header.encode();
        if self.cipher.is_some() {
            return self.sealed(&preamble, &header, Some(message));
        }
        let mut head = [0; PREAMBLE + HEADER + 4];
        head[..PREAMBLE].copy_from_slice(&preamble.encode());
        head[PREAMBLE..PREAMBLE + HEADER].copy_from_slice(&header);
        head[PREAMBLE + HEADER..].copy_from_slice(&crc32c(u32::MAX, &header).to_le_bytes());
        self.queue.put(&head);
        if preamble.segments == 1 {
            return Ok(());
        }
        let mut epilogue = [0; CRC_EPILOGUE];
        epilogue[0] = COMPLETE;
        self.queue.put_shared(&message.front);
        self.queue.put_shared(&message.middle);
        message.data.iter().for_each(|piece| self.queue.put_shared(piece));
        let data_crc = message.data_crc.unwrap_or_else(|| message.data.iter().fold(u32::MAX, |crc, piece| crc32c(crc, piece)));
        let crcs = [crc32c(u32::MAX, &message.front), crc32c(u32::MAX, &message.middle), data_crc];
        for (i, crc) in crcs.iter().enumerate().take(preamble.segments as usize - 1) {
            epilogue[1 + 4 * i..5 + 4 * i].copy_from_slice(&crc.to_le_bytes());
        }
        self.queue.put(&epilogue);
        Ok(())
    }

    fn sealed(&mut self, preamble: &Preamble, first: &[u8], message: Option<&RawMessage>) -> Result<(), MsgrError> {
        let cipher = self.cipher.as_mut().expect("only called in secure mode");
        let out = &mut self.queue.small;
        let start = out.len();
        out.extend_from_slice(&preamble.encode());
        let (inline, rest) = first.split_at(first.len().min(INLINE));
        out.extend_from_slice(inline);
        out.resize(start + PREAMBLE + INLINE, 0);
        cipher.seal(out, start)?;
        if !rest.is_empty() {
            let from = out.len();
            out.extend_from_slice(rest);
            out.resize(from + padded(rest.len()), 0);
            cipher.seal(out, from)?;
        }
        if preamble.segments > 1 {
            let message = message.expect("only messages have several segments");
            let from = out.len();
            let pad = |out: &mut Vec<u8>| out.resize(from + (out.len() - from).next_multiple_of(BLOCK), 0);
            out.extend_from_slice(&message.front);
            pad(out);
            out.extend_from_slice(&message.middle);
            pad(out);
            for piece in &message.data {
                out.extend_from_slice(piece);
            }
            pad(out);
            out.push(COMPLETE);
            out.extend_from_slice(&[0; SECURE_EPILOGUE - 1]);
            cipher.seal(out, from)?;
        }
        self.queue.claim(start);
        Ok(())
    }
}

/// Messages are made by this process, and none has a segment of 4 GiB.
fn u32_len(len: usize) -> u32 {
    u32::try_from(len).expect("a segment is shorter than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_held_until_its_last_byte_is_sent() {
        let mut queue = SendQueue::default();
        queue.put(&[1; 100]);
        queue.put_shared(&Bytes::from(vec![2; 1 << 20]));
        queue.put(&[3; 10]);
        queue.advance(100 + 1000);
        assert_eq!(
            (queue.len(), queue.held()),
            ((1 << 20) - 1000 + 10, (1 << 20) + 10),
            "a socket took the first thousand bytes of the piece"
        );
        queue.advance((1 << 20) - 1001);
        assert_eq!((queue.len(), queue.held()), (11, (1 << 20) + 10));
        queue.advance(1);
        assert_eq!((queue.len(), queue.held()), (10, 10));
        queue.advance(10);
        assert_eq!((queue.len(), queue.held()), (0, 0));
    }
}
