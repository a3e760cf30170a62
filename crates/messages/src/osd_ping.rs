//! Heartbeats between OSDs, and the leases by which replicas know how long they may serve reads.
//!
//! Source of the facts: Ceph 18.2 `src/messages/{MOSDPing,MOSDPGLease,MOSDPGLeaseAck}.h`, `src/osd/osd_types.cc`,
//! `src/include/encoding.h` (durations).

use crate::macros::{front, open};
use crate::{Message, RawMessage};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use types::{Epoch, SpgId, UTime, Uuid};

/// A span of time in nanoseconds, on the wire 32 bits of seconds and 32 of nanoseconds, both signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SpanNs(pub i64);

impl Denc for SpanNs {
    fn encode(&self, e: &mut Encoder) {
        e.i32((self.0 / 1_000_000_000) as i32);
        e.i32((self.0 % 1_000_000_000) as i32);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let (sec, nsec) = (d.i32()?, d.i32()?);
        Ok(Self(sec as i64 * 1_000_000_000 + nsec as i64))
    }
}

/// `MOSDPing::op`.
pub mod ping_op {
    pub const HEARTBEAT: u8 = 0;
    pub const START_HEARTBEAT: u8 = 1;
    /// The map says that the receiver is down.
    pub const YOU_DIED: u8 = 2;
    pub const STOP_HEARTBEAT: u8 = 3;
    pub const PING: u8 = 4;
    pub const PING_REPLY: u8 = 5;
}

/// A ping or its answer, padded so that a network that loses big frames is noticed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDPing {
    pub fsid: Uuid,
    pub map_epoch: Epoch,
    /// [`ping_op`].
    pub op: u8,
    /// When the ping was sent, by the pinger's clock.
    pub ping_stamp: UTime,
    /// Bytes that follow the other fields.
    pub padding: u32,
    pub up_from: Epoch,
    /// The same by the pinger's monotonic clock.
    pub mono_ping_stamp: SpanNs,
    /// When this message was sent, by the sender's monotonic clock.
    pub mono_send_stamp: SpanNs,
    /// An upper bound of the difference between the clocks, if the sender has one.
    pub delta_ub: Option<SpanNs>,
}

/// Bytes in front of the padding's length: what the padding is counted from.
const PING_HEAD: u32 = 16 + 4 + 1 + 8;

impl MOSDPing {
    /// Pads to `min_message_size` (`osd_heartbeat_min_size`), counted as Ceph counts.
    pub fn pad_to(&mut self, min_message_size: u32) {
        self.padding = min_message_size.saturating_sub(PING_HEAD);
    }
    /// The size that an answer is padded to: the ping's.
    pub fn min_message_size(&self) -> u32 {
        self.padding + PING_HEAD
    }
}

impl Message for MOSDPing {
    const KIND: u16 = 70;
    fn encode(&self, features: u64) -> RawMessage {
        static ZEROS: [u8; 4096] = [0; 4096];
        front(Self::KIND, 5, 4, features, |e| {
            e.put(&self.fsid);
            e.u32(self.map_epoch);
            e.u8(self.op);
            e.put(&self.ping_stamp);
            e.u32(self.padding);
            e.u32(self.up_from);
            e.put(&self.mono_ping_stamp);
            e.put(&self.mono_send_stamp);
            e.put(&self.delta_ub);
            let mut left = self.padding as usize;
            while left > 0 {
                let n = left.min(ZEROS.len());
                e.raw(&ZEROS[..n]);
                left -= n;
            }
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDPing", 5)?;
        let mut m = Self { fsid: d.get()?, map_epoch: d.u32()?, op: d.u8()?, ping_stamp: d.get()?, ..Self::default() };
        m.padding = d.u32()?;
        if raw.version >= 5 {
            (m.up_from, m.mono_ping_stamp, m.mono_send_stamp, m.delta_ub) = (d.u32()?, d.get()?, d.get()?, d.get()?);
        }
        // The answer is padded as the ping is: no sender gets more than it sent.
        d.skip(m.padding as usize)?;
        Ok(m)
    }
}

/// `pg_lease_t`, by the primary's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PgLease {
    pub readable_until: SpanNs,
    /// An upper bound: no OSD serves reads of the interval after it.
    pub readable_until_ub: SpanNs,
    pub interval: SpanNs,
}
denc_struct!(PgLease, v 1, compat 1, { readable_until, readable_until_ub, interval });

/// `pg_lease_ack_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PgLeaseAck {
    pub readable_until_ub: SpanNs,
}
denc_struct!(PgLeaseAck, v 1, compat 1, { readable_until_ub });

message! {
    /// The primary lets its replicas know how long the interval's reads are good.
    MOSDPGLease = 133, v 1, compat 1 {
        epoch: Epoch,
        pgid: SpgId,
        lease: PgLease,
    }

    /// A replica has the lease.
    MOSDPGLeaseAck = 134, v 1, compat 1 {
        epoch: Epoch,
        pgid: SpgId,
        ack: PgLeaseAck,
    }
}
