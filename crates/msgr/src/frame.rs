//! The preamble of a frame: what it is and how long its segments are.
//!
//! ```text
//!  crc mode       preamble 32 | segment 0 | its crc 4 | segment 1 | segment 2 | segment 3 | status 1, crcs of 1..3 12
//!                               (no crc if empty)        (the tail only if there is more than one segment)
//!  secure mode    [preamble 32 | first 48 of segment 0] tag 16 | [rest of segment 0] tag 16 | [segments 1..3 | status 1, zeros 15] tag 16
//!                               (each segment padded with zeros to 16; a part that has nothing to hold is left out)
//! ```
//!
//! Source of the facts: Ceph 18.2 `doc/dev/msgr2.rst` and `src/msg/async/frames_v2.h` (revision 1).

use crate::MsgrError;
use base::crc32c;

/// Bytes of a preamble.
pub const PREAMBLE: usize = 32;
/// Bytes of segment 0 that go encrypted with the preamble.
pub const INLINE: usize = 48;
/// Bytes of a GCM tag.
pub const GCM_TAG: usize = 16;
/// Segments are padded to it in secure mode.
pub const BLOCK: usize = 16;
/// Bytes behind the last segment in crc mode.
pub const CRC_EPILOGUE: usize = 13;
/// Bytes behind the last segment in secure mode, before the tag.
pub const SECURE_EPILOGUE: usize = 16;
pub const MAX_SEGMENTS: usize = 4;

/// `late_status`: the sender means this frame.
pub const COMPLETE: u8 = 0x0e;
/// `late_status`: the sender gave up half-way, the frame is to be dropped.
pub const ABORTED: u8 = 0x01;
/// `flags`: the segments are compressed.
pub const FLAG_COMPRESSED: u8 = 1;

macro_rules! tags {
    ($($name:ident = $n:literal,)*) => {
        /// What a frame is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Tag { $( $name = $n, )* }
        impl Tag {
            pub const ALL: &[Tag] = &[ $( Tag::$name, )* ];
            pub fn from_u8(n: u8) -> Option<Self> {
                match n { $( $n => Some(Tag::$name), )* _ => None }
            }
        }
    };
}
tags! {
    Hello = 1, AuthRequest = 2, AuthBadMethod = 3, AuthReplyMore = 4, AuthRequestMore = 5, AuthDone = 6, AuthSignature = 7,
    ClientIdent = 8, ServerIdent = 9, IdentMissingFeatures = 10, SessionReconnect = 11, SessionReset = 12, SessionRetry = 13,
    SessionRetryGlobal = 14, SessionReconnectOk = 15, Wait = 16, Message = 17, Keepalive2 = 18, Keepalive2Ack = 19, Ack = 20,
    CompressionRequest = 21, CompressionDone = 22,
}

/// A decoded preamble. Unused lengths are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preamble {
    pub tag: Tag,
    /// 1 to 4.
    pub segments: u8,
    pub lens: [u32; MAX_SEGMENTS],
}

impl Preamble {
    /// For segments of these lengths: empty ones at the end don't count, the first always does.
    pub fn new(tag: Tag, lens: [u32; MAX_SEGMENTS]) -> Self {
        let segments = (1..=MAX_SEGMENTS).rev().find(|n| lens[n - 1] > 0).unwrap_or(1) as u8;
        Self { tag, segments, lens }
    }
    pub fn encode(&self) -> [u8; PREAMBLE] {
        let mut out = [0; PREAMBLE];
        out[0] = self.tag as u8;
        out[1] = self.segments;
        for (i, len) in self.lens.iter().enumerate().take(self.segments.into()) {
            out[2 + 6 * i..6 + 6 * i].copy_from_slice(&len.to_le_bytes());
            // Only a hint for the receiver's allocation: data on a page, all else on a word.
            let align: u16 = if i == 3 { 4096 } else { 8 };
            out[6 + 6 * i..8 + 6 * i].copy_from_slice(&align.to_le_bytes());
        }
        let crc = crc32c(0, &out[..28]);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }
    /// Checks the crc and everything that must hold whatever the connection's state.
    pub fn decode(bytes: &[u8; PREAMBLE]) -> Result<Self, MsgrError> {
        let said = u32::from_le_bytes([bytes[28], bytes[29], bytes[30], bytes[31]]);
        let got = crc32c(0, &bytes[..28]);
        if got != said {
            return Err(MsgrError::Crc { what: "a preamble", got, said });
        }
        let tag = Tag::from_u8(bytes[0]).ok_or(MsgrError::UnknownTag(bytes[0]))?;
        let segments = bytes[1];
        if segments == 0 || segments as usize > MAX_SEGMENTS || (segments > 1 && tag != Tag::Message) {
            return Err(MsgrError::Segments(segments));
        }
        if bytes[26] & FLAG_COMPRESSED != 0 {
            return Err(MsgrError::Compressed);
        }
        let mut lens = [0; MAX_SEGMENTS];
        for (i, len) in lens.iter_mut().enumerate().take(segments.into()) {
            let at = 2 + 6 * i;
            *len = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        }
        if segments > 1 && lens[segments as usize - 1] == 0 {
            return Err(MsgrError::LastSegmentEmpty);
        }
        Ok(Self { tag, segments, lens })
    }
    /// Bytes of all segments.
    pub fn logical_len(&self) -> u64 {
        self.lens.iter().map(|n| u64::from(*n)).sum()
    }
    /// Bytes of the whole frame in crc mode.
    pub fn crc_len(&self) -> usize {
        let first = self.lens[0] as usize;
        let tail = if self.segments > 1 { CRC_EPILOGUE } else { 0 };
        PREAMBLE + first + if first > 0 { 4 } else { 0 } + self.lens[1..].iter().map(|n| *n as usize).sum::<usize>() + tail
    }
    /// Bytes of what follows the encrypted preamble with its inline part: segment 0's rest, then the others with the epilogue.
    pub fn secure_lens(&self) -> (usize, usize) {
        let first = padded(self.lens[0] as usize);
        let rest = if first > INLINE { first - INLINE + GCM_TAG } else { 0 };
        let others = match self.segments {
            1 => 0,
            _ => self.lens[1..].iter().map(|n| padded(*n as usize)).sum::<usize>() + SECURE_EPILOGUE + GCM_TAG,
        };
        (rest, others)
    }
}

/// `len` rounded up to a cipher block.
pub fn padded(len: usize) -> usize {
    len.next_multiple_of(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_comes_back() {
        let p = Preamble::new(Tag::Message, [41, 100, 0, 4096]);
        assert_eq!(p.segments, 4);
        assert_eq!(Preamble::decode(&p.encode()).unwrap(), p);
        assert_eq!(p.crc_len(), 32 + 41 + 4 + 100 + 4096 + 13);
        let p = Preamble::new(Tag::Wait, [0; 4]);
        assert_eq!((p.segments, p.crc_len(), p.secure_lens()), (1, 32, (0, 0)));
        let p = Preamble::new(Tag::ClientIdent, [100, 0, 0, 0]);
        assert_eq!(p.secure_lens(), (112 - 48 + 16, 0));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = Preamble::new(Tag::Message, [41, 1, 2, 3]).encode();
        for bit in 0..PREAMBLE * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Preamble::decode(&bad).is_err(), "bit {bit}");
        }
    }
}
