//! Memory of its own for a large data segment, into which the socket's bytes go directly.
//!
//! In crc mode a message's data lie in one piece in the stream. The owner of the memory ([`ReceiveBuffers`]) can have them where they are needed next,
//! at an address that a device writes from, and they are not moved again. Nothing that is small, encrypted or of another shape is put there.
//! A sender says where in a page the first byte belongs (`data_off`): the payload of a replica's write does not begin its data, and begins a page if
//! they are put that far behind the start of one.
//!
//! ```text
//!   stream   | preamble, segments 0 to 2 | data             | epilogue, what comes next
//!   goes to  | the stream's buffer       | a receive buffer | the stream's buffer
//! ```
//! Where a frame's data begin is known once its preamble is here. That is worth a read of its own only if the data are long: the next frame is
//! **taken to be like the last one that had a receive buffer**, and when it is not, what was put there goes back between what is before and behind it.
//!
//! What is longest is known when its first bytes are in the stream's buffer, and these are copied.
//!
//! A receive buffer is held while a frame's data are here in part, and no longer: a peer that sends nothing holds none. What a peer may hold in this
//! way is the owner's to bound: without a receive buffer everything goes through the stream's.

use crate::frame::{CRC_EPILOGUE, PREAMBLE, Preamble};
use crate::header;
use bytes::{Bytes, BytesMut};
use std::ops::RangeInclusive;

/// Memory for one segment.
pub trait ReceiveBuffer {
    /// As many bytes as were asked for. Those that are not overwritten are not looked at.
    fn bytes(&mut self) -> &mut [u8];
    /// What was put there, to be shared.
    fn freeze(self: Box<Self>) -> Bytes;
}

/// Gives memory for segments.
pub trait ReceiveBuffers {
    /// Lengths of segments that there may be memory for.
    fn sizes(&self) -> RangeInclusive<usize>;
    /// Memory for so many bytes, at the start of a page, which is one of these lengths and [`DIRECT_MIN`] to [`DIRECT_MAX`]; `None` if there is none at the moment.
    fn take(&self, len: usize) -> Option<Box<dyn ReceiveBuffer>>;
}

/// Segments of so many bytes are worth it.
pub const DIRECT_MIN: usize = 16 << 10;
pub const DIRECT_MAX: usize = 16 << 20;
/// Those of more bytes are never expected: what comes by the buffer before their preamble is understood is a small part of them, and copied.
const FORESEEN_MAX: usize = 1 << 20;
/// Longer ones get no receive buffer before it is known that they come: 64 KiB, and what goes with them to a replica.
const EXPECTED_MAX: usize = 68 << 10;
/// What is before the data has at most so many bytes; more comes with large attributes only.
pub const HEAD_MAX: usize = 2 << 10;
/// Bytes before and behind the data that one read takes, at most.
pub const ENDS_MAX: usize = 2 * HEAD_MAX + CRC_EPILOGUE;
const _: () = assert!(DIRECT_MIN <= EXPECTED_MAX && EXPECTED_MAX <= DIRECT_MAX && ENDS_MAX < DIRECT_MIN);
/// Frames of another shape in a row, after which no more of the last one's are expected.
const OTHERS_MAX: u32 = 16;

/// Where a frame has its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes before the data.
    head: usize,
    /// Bytes of data.
    len: usize,
}

impl Shape {
    /// Of a message in crc mode whose data are worth a receive buffer.
    pub(crate) fn of(preamble: &Preamble) -> Option<Self> {
        let len = preamble.lens[3] as usize;
        if preamble.segments != 4 || !(DIRECT_MIN..=DIRECT_MAX).contains(&len) {
            return None;
        }
        let head = preamble.crc_len() - CRC_EPILOGUE - len;
        (head <= HEAD_MAX).then_some(Self { head, len })
    }
}

/// Where the next bytes of the stream belong: first `head` bytes to the buffer's end, then as many as fit into `data`, then `tail`
/// bytes to the buffer's end again.
#[derive(Debug)]
pub struct ReadTarget<'a> {
    pub head: usize,
    pub data: &'a mut [u8],
    pub tail: usize,
}

/// What `data_off` counts in.
const PAGE: usize = 4096;

struct Filling {
    shape: Shape,
    /// Bytes before the data.
    lead: usize,
    target: Box<dyn ReceiveBuffer>,
    filled: usize,
}

/// The receive buffer of the frame that is being read, and what the next is expected to be.
#[derive(Default)]
pub(crate) struct DirectReceive {
    now: Option<Filling>,
    expected: Option<Shape>,
    /// Where in a page the last large data belonged.
    lead: usize,
    others: u32,
}

impl DirectReceive {
    /// Bytes of the present frame that don't come by the buffer, and whether some of them are missing.
    pub(crate) fn aside(&self) -> (usize, bool) {
        self.now.as_ref().map_or((0, false), |now| (now.shape.len, now.filled < now.shape.len))
    }
    /// A place for the next bytes, if they are expected to be of a large segment. `known`: of the frame that `buf` begins with, if its preamble is
    /// here.
    pub(crate) fn read_target(
        &mut self,
        buffers: &dyn ReceiveBuffers,
        known: Option<&Preamble>,
        buf: &mut BytesMut,
    ) -> Option<ReadTarget<'_>> {
        if self.now.is_none() {
            let shape = match known {
                Some(preamble) => Shape::of(preamble),
                // A preamble that was not looked at yet.
                None if buf.len() >= PREAMBLE => None,
                None => self.expected,
            };
            let shape = shape.filter(|shape| buffers.sizes().contains(&shape.len))?;
            if known.is_none() && shape.len > EXPECTED_MAX {
                return Some(ReadTarget { head: shape.head - buf.len(), data: &mut [], tail: 0 });
            }
            if buf.len() >= shape.head + shape.len + CRC_EPILOGUE {
                return None;
            }
            // The frame's own header says it, if it is here; else it is taken to be like the last one's.
            let lead = known.and_then(|_| header::data_off(buf.get(PREAMBLE..)?)).map_or(self.lead, |off| usize::from(off) % PAGE);
            let lead = if buffers.sizes().contains(&(lead + shape.len)) { lead } else { 0 };
            let mut target = buffers.take(lead + shape.len)?;
            let mut filled = 0;
            if buf.len() > shape.head {
                filled = shape.len.min(buf.len() - shape.head);
                target.bytes()[lead..lead + filled].copy_from_slice(&buf[shape.head..shape.head + filled]);
                buf.copy_within(shape.head + filled.., shape.head);
                buf.truncate(buf.len() - filled);
            }
            self.now = Some(Filling { shape, lead, target, filled });
        }
        let Filling { shape, lead, target, filled } = self.now.as_mut().expect("there is one");
        let head = shape.head.saturating_sub(buf.len());
        Some(ReadTarget { head, data: &mut target.bytes()[*lead + *filled..], tail: CRC_EPILOGUE + shape.head })
    }
    /// So many more bytes are where [`DirectReceive::read_target`] said that data belong.
    pub(crate) fn received(&mut self, n: usize) {
        let Some(now) = self.now.as_mut() else { return assert_eq!(n, 0, "data have come into a receive buffer") };
        now.filled += n;
        assert!(now.filled <= now.shape.len, "more than there is room for");
        if now.filled == 0 {
            // No receive buffer is kept for what may never come.
            self.now = None;
        }
    }
    /// The preamble is known now. If the frame is not what it was taken for, what was put aside goes back into the buffer.
    pub(crate) fn begun(&mut self, preamble: &Preamble, buf: &mut BytesMut) {
        let shape = Shape::of(preamble);
        if shape.is_some() {
            (self.expected, self.others) = (shape.filter(|shape| shape.len <= FORESEEN_MAX), 0);
        } else if self.expected.is_some() {
            self.others += 1;
            if self.others > OTHERS_MAX {
                self.expected = None;
            }
        }
        if let Some(mut now) = self.now.take_if(|now| Some(now.shape) != shape) {
            let behind = buf.split_off(now.shape.head);
            buf.reserve(now.filled + behind.len());
            buf.extend_from_slice(&now.target.bytes()[now.lead..now.lead + now.filled]);
            buf.extend_from_slice(&behind);
        }
    }
    /// The data of the frame that is here in whole, if they were put aside.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        let now = self.now.take()?;
        assert_eq!(now.filled, now.shape.len, "the frame is here in whole");
        let bytes = now.target.freeze();
        Some(if now.lead > 0 { bytes.slice(now.lead..) } else { bytes })
    }
    /// A frame with large data is here, and its header says where in a page they belong.
    pub(crate) fn placed(&mut self, data_off: u16) {
        self.lead = usize::from(data_off) % PAGE;
    }
}

impl std::fmt::Debug for DirectReceive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DirectReceive({:?}, expected {:?})", self.now.as_ref().map(|now| (now.shape, now.filled)), self.expected)
    }
}
