//! From bytes to frames, in both modes.
//!
//! Bytes are taken from the front of a growing buffer only once a frame is there in whole, and the frame's segments share that buffer. Large data
//! may have memory of their own: see [`crate::direct`].

use crate::direct::{DIRECT_MIN, DirectReceive, ReadTarget, ReceiveBuffers};
use crate::frame::{ABORTED, COMPLETE, CRC_EPILOGUE, GCM_TAG, INLINE, MAX_SEGMENTS, PREAMBLE, padded};
use crate::header;
use crate::secure::Cipher;
use crate::{MsgrError, Preamble, Tag};
use base::crc32c;
use bytes::{Bytes, BytesMut};
use std::ops::Range;

/// What a peer may make us hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a control frame, and of any frame before the session is open.
    pub control: u64,
    /// Bytes of front, middle and data of a message.
    pub message: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { control: 64 << 10, message: 2 * (90 << 20) }
    }
}

/// A frame that arrived in whole and unharmed.
#[derive(Debug)]
pub struct Frame {
    pub tag: Tag,
    bytes: Bytes,
    segments: [Range<usize>; MAX_SEGMENTS],
    /// The last segment, if it is not in `bytes`.
    data: Option<Bytes>,
    /// The last segment's crc32c from `u32::MAX` on, if the frame brought it and it is right: it is there in crc mode.
    data_crc: Option<u32>,
}

impl Frame {
    #[inline]
    pub fn data_crc(&self) -> Option<u32> {
        self.data_crc
    }
    #[inline]
    pub fn segment(&self, i: usize) -> Bytes {
        if i == MAX_SEGMENTS - 1
            && let Some(data) = &self.data
        {
            return data.clone();
        }
        let range = self.segments[i].clone();
        if range.is_empty() { Bytes::new() } else { self.bytes.slice(range) }
    }
    /// The bytes of a segment, but of the last one: its memory may be elsewhere.
    #[inline]
    pub fn as_slice(&self, i: usize) -> &[u8] {
        assert!(i < MAX_SEGMENTS - 1, "the last segment is shared");
        &self.bytes[self.segments[i].clone()]
    }
    /// True for a message whose data may be worth memory of their own.
    #[inline]
    fn is_large(&self) -> bool {
        self.tag == Tag::Message && self.data.as_ref().map_or(self.segments[MAX_SEGMENTS - 1].len(), Bytes::len) >= DIRECT_MIN
    }
    /// A handshake's frame as it was on the wire (in crc mode): what the signature covers.
    pub fn on_wire(&self) -> &[u8] {
        &self.bytes
    }
}

/// Cuts frames out of one direction of a connection.
#[derive(Debug)]
pub struct Reader {
    limits: Limits,
    /// Set once the session is open: messages may come.
    open: bool,
    cipher: Option<Cipher>,
    /// The preamble of the frame that is being waited for. In secure mode it has been decrypted where it stands.
    preamble: Option<Preamble>,
    direct: DirectReceive,
}

impl Reader {
    pub fn new(limits: Limits) -> Self {
        Self { limits, open: false, cipher: None, preamble: None, direct: DirectReceive::default() }
    }
    /// From here on frames come encrypted.
    pub fn encrypt(&mut self, cipher: Cipher) {
        self.cipher = Some(cipher);
    }
    /// From here on messages are welcome.
    pub fn open(&mut self) {
        self.open = true;
    }
    /// Where the next bytes of the stream belong, if some of them are expected to be of a large segment. After a read [`Reader::received`] is to be
    /// told.
    pub fn read_target(&mut self, buffers: &dyn ReceiveBuffers, buf: &mut BytesMut) -> Option<ReadTarget<'_>> {
        if !self.open || self.cipher.is_some() {
            return None;
        }
        self.direct.read_target(buffers, self.preamble.as_ref(), buf)
    }
    /// So many bytes are in the target's data, perhaps none.
    pub fn received(&mut self, n: usize) {
        self.direct.received(n);
    }
    /// Bytes of the whole frame, if it is a message whose preamble is here and whose end is not known to be.
    pub fn coming(&self) -> Option<u64> {
        self.preamble.as_ref().filter(|p| p.tag == Tag::Message).map(|p| p.crc_len() as u64)
    }
    /// Bytes that the buffer must hold before [`Reader::next`] can get on.
    pub fn need(&self) -> usize {
        match (&self.preamble, &self.cipher) {
            (None, None) => PREAMBLE,
            (None, Some(_)) => PREAMBLE + INLINE + GCM_TAG,
            (Some(p), None) => p.crc_len() - self.direct.aside().0,
            (Some(p), Some(_)) => {
                let (rest, others) = p.secure_lens();
                PREAMBLE + INLINE + GCM_TAG + rest + others
            }
        }
    }

    /// The next frame, or `None` if more bytes are needed first. Frames that their sender aborted are passed over.
    #[inline]
    pub fn next(&mut self, buf: &mut BytesMut) -> Result<Option<Frame>, MsgrError> {
        loop {
            if buf.len() < self.need() {
                return Ok(None);
            }
            let Some(preamble) = self.preamble else {
                let preamble = self.take_preamble(buf)?;
                self.direct.begun(&preamble, buf);
                self.preamble = Some(preamble);
                continue;
            };
            if self.direct.aside().1 {
                return Ok(None);
            }
            let len = self.need();
            self.preamble = None;
            let frame = match &mut self.cipher {
                None => Self::crc_frame(&preamble, buf.split_to(len), self.direct.take())?,
                Some(cipher) => Self::secure_frame(cipher, &preamble, buf.split_to(len))?,
            };
            if let Some(frame) = frame {
                if frame.is_large()
                    && let Some(data_off) = header::data_off(frame.as_slice(0))
                {
                    self.direct.placed(data_off);
                }
                return Ok(Some(frame));
            }
        }
    }

    fn take_preamble(&mut self, buf: &mut BytesMut) -> Result<Preamble, MsgrError> {
        if let Some(cipher) = &mut self.cipher {
            cipher.open(&mut buf[..PREAMBLE + INLINE + GCM_TAG])?;
        }
        let preamble = Preamble::decode(buf[..PREAMBLE].try_into().expect("the preamble is there"))?;
        let (what, max) = match preamble.tag {
            Tag::Message if self.open => ("a message", self.limits.message),
            _ => ("a control frame", self.limits.control),
        };
        let len = preamble.logical_len();
        if len > max {
            return Err(MsgrError::TooLong { what, len, max });
        }
        Ok(preamble)
    }

    fn crc_frame(preamble: &Preamble, bytes: BytesMut, data: Option<Bytes>) -> Result<Option<Frame>, MsgrError> {
        let mut segments = [const { 0..0 }; MAX_SEGMENTS];
        let mut at = PREAMBLE;
        for (i, range) in segments.iter_mut().enumerate() {
            let is_here = i < MAX_SEGMENTS - 1 || data.is_none();
            *range = at..at + if is_here { preamble.lens[i] as usize } else { 0 };
            at = range.end;
            if i == 0 && preamble.lens[0] > 0 {
                let said = u32_at(&bytes, at);
                check("segment 0", &bytes[range.clone()], said)?;
                at += 4;
            }
        }
        let mut data_crc = None;
        if preamble.segments > 1 {
            let epilogue = &bytes[at..at + CRC_EPILOGUE];
            if !complete(epilogue[0])? {
                return Ok(None);
            }
            for i in 1..preamble.segments as usize {
                let elsewhere = data.as_ref().filter(|_| i == MAX_SEGMENTS - 1);
                let segment = elsewhere.map_or(&bytes[segments[i].clone()], |data| &data[..]);
                let crc = u32_at(epilogue, 1 + 4 * (i - 1));
                check("a segment", segment, crc)?;
                if i == MAX_SEGMENTS - 1 {
                    data_crc = Some(crc);
                }
            }
        }
        Ok(Some(Frame { tag: preamble.tag, bytes: bytes.freeze(), segments, data, data_crc }))
    }

    fn secure_frame(cipher: &mut Cipher, preamble: &Preamble, mut bytes: BytesMut) -> Result<Option<Frame>, MsgrError> {
        let (rest, others) = preamble.secure_lens();
        let first_len = preamble.lens[0] as usize;
        let mut at = PREAMBLE + INLINE + GCM_TAG;
        if rest > 0 {
            cipher.open(&mut bytes[at..at + rest])?;
            // The tag in the middle of segment 0 goes away by moving what is before it.
            bytes.copy_within(PREAMBLE..PREAMBLE + INLINE, PREAMBLE + GCM_TAG);
        }
        let first = if rest > 0 { PREAMBLE + GCM_TAG } else { PREAMBLE };
        let mut segments = [const { 0..0 }; MAX_SEGMENTS];
        segments[0] = first..first + first_len;
        at += rest;
        if others > 0 {
            cipher.open(&mut bytes[at..at + others])?;
            for (i, range) in segments.iter_mut().enumerate().skip(1) {
                let len = preamble.lens[i] as usize;
                *range = at..at + len;
                at += padded(len);
            }
            if !complete(bytes[at])? {
                return Ok(None);
            }
        }
        Ok(Some(Frame { tag: preamble.tag, bytes: bytes.freeze(), segments, data: None, data_crc: None }))
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
fn check(what: &'static str, bytes: &[u8], said: u32) -> Result<(), MsgrError> {
    let got = crc32c(u32::MAX, bytes);
    if got == said { Ok(()) } else { Err(MsgrError::Crc { what, got, said }) }
}

fn complete(status: u8) -> Result<bool, MsgrError> {
    match status & 0x0f {
        COMPLETE => Ok(true),
        ABORTED => Ok(false),
        _ => Err(MsgrError::LateStatus(status)),
    }
}
