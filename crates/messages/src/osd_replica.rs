//! Writes from a primary to its replicas, and scrubs.
//!
//! Source of the facts: Ceph 18.2 `src/messages/{MOSDRepOp,MOSDRepOpReply,MOSDPGUpdateLogMissing,MOSDPGUpdateLogMissingReply,MOSDRepScrub,
//! MOSDRepScrubMap,MOSDScrubReserve}.h`; MOSDScrubReserve above v1 and MOSDPGPCT are of 20.2.

use crate::macros::{front, open, too_old};
use crate::{Message, RawMessage, Trace};
use bytes::Bytes;
use denc::{Decoder, Denc, DencError, Encoder};
use types::pg_info::HitSetHistory;
use types::{EVersion, Epoch, HObject, PgLogEntry, PgShard, PgStat, ReqId, SpgId};

/// What both a write for a replica and its answer begin with.
fn put_head(e: &mut Encoder, map_epoch: Epoch, min_epoch: Epoch, trace: &Trace, reqid: &ReqId, pgid: SpgId) {
    e.u32(map_epoch);
    e.u32(min_epoch);
    trace.iter().for_each(|id| e.u64(*id));
    e.put(reqid);
    e.put(&pgid);
}
fn take_head(d: &mut Decoder) -> Result<(Epoch, Epoch, Trace, ReqId, SpgId), DencError> {
    Ok((d.u32()?, d.u32()?, [d.u64()?, d.u64()?, d.u64()?], d.get()?, d.get()?))
}

/// A write for a replica: a transaction and the log entries that go with it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDRepOp {
    /// The primary's number for it.
    pub tid: u64,
    pub map_epoch: Epoch,
    pub min_epoch: Epoch,
    pub trace: Trace,
    pub reqid: ReqId,
    pub pgid: SpgId,
    pub poid: HObject,
    /// Bits of [`types::osd_op::osd_flag`]: ACK, ONDISK.
    pub acks_wanted: u8,
    pub version: EVersion,
    /// A list of encoded log entries.
    pub log: Bytes,
    pub pg_stats: PgStat,
    pub pg_trim_to: EVersion,
    /// An object that becomes temporary; the minimum: none.
    pub new_temp_oid: HObject,
    pub discard_temp_oid: HObject,
    pub from: PgShard,
    pub updated_hit_set_history: Option<HitSetHistory>,
    /// Everything up to here is on disk everywhere.
    pub min_last_complete_ondisk: EVersion,
    /// The transaction without its payloads, from primaries of 20.2; else empty.
    pub head: Bytes,
    /// An encoded transaction, in pieces; with a `head` its payloads.
    pub transaction: Vec<Bytes>,
    /// Where its first byte would have to lie in a page: see [`RawMessage::data_off`].
    pub data_off: u16,
}

impl Message for MOSDRepOp {
    const KIND: u16 = 112;
    fn encode(&self, features: u64) -> RawMessage {
        let raw = front(Self::KIND, 3, 1, features, |e| {
            put_head(e, self.map_epoch, self.min_epoch, &self.trace, &self.reqid, self.pgid);
            e.put(&self.poid);
            e.u8(self.acks_wanted);
            e.put(&self.version);
            e.blob(&self.log);
            e.put(&self.pg_stats);
            e.put(&self.pg_trim_to);
            e.put(&self.new_temp_oid);
            e.put(&self.discard_temp_oid);
            e.put(&self.from);
            e.put(&self.updated_hit_set_history);
            e.put(&self.min_last_complete_ondisk);
        });
        RawMessage { tid: self.tid, middle: self.head.clone(), data: self.transaction.clone(), data_off: self.data_off, ..raw }
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDRepOp", 3)?;
        if raw.version < 3 {
            return Err(too_old("MOSDRepOp", raw.version, 3));
        }
        let (map_epoch, min_epoch, trace, reqid, pgid) = take_head(d)?;
        Ok(Self {
            tid: raw.tid,
            map_epoch,
            min_epoch,
            trace,
            reqid,
            pgid,
            poid: d.get()?,
            acks_wanted: d.u8()?,
            version: d.get()?,
            log: d.blob()?,
            pg_stats: d.get()?,
            pg_trim_to: d.get()?,
            new_temp_oid: d.get()?,
            discard_temp_oid: d.get()?,
            from: d.get()?,
            updated_hit_set_history: d.get()?,
            min_last_complete_ondisk: d.get()?,
            head: raw.middle.clone(),
            transaction: raw.data.clone(),
            data_off: raw.data_off,
        })
    }
}

/// A replica has the write on disk.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDRepOpReply {
    pub tid: u64,
    pub map_epoch: Epoch,
    pub min_epoch: Epoch,
    pub trace: Trace,
    pub reqid: ReqId,
    /// The primary's shard.
    pub pgid: SpgId,
    pub ack_type: u8,
    pub result: i32,
    pub last_complete_ondisk: EVersion,
    pub from: PgShard,
}

impl Message for MOSDRepOpReply {
    const KIND: u16 = 113;
    fn encode(&self, features: u64) -> RawMessage {
        let raw = front(Self::KIND, 2, 1, features, |e| {
            put_head(e, self.map_epoch, self.min_epoch, &self.trace, &self.reqid, self.pgid);
            e.u8(self.ack_type);
            e.i32(self.result);
            e.put(&self.last_complete_ondisk);
            e.put(&self.from);
        });
        RawMessage { tid: self.tid, ..raw }
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDRepOpReply", 2)?;
        if raw.version < 2 {
            return Err(too_old("MOSDRepOpReply", raw.version, 2));
        }
        let (map_epoch, min_epoch, trace, reqid, pgid) = take_head(d)?;
        Ok(Self {
            tid: raw.tid,
            map_epoch,
            min_epoch,
            trace,
            reqid,
            pgid,
            ack_type: d.u8()?,
            result: d.i32()?,
            last_complete_ondisk: d.get()?,
            from: d.get()?,
        })
    }
}

/// `MOSDScrubReserve::type`.
pub mod scrub_reserve {
    pub const REQUEST: i32 = 0;
    pub const GRANT: i32 = 1;
    pub const RELEASE: i32 = 2;
    pub const REJECT: i32 = 3;
}

message! {
    /// Log entries without a write: errors, and what could not be found.
    MOSDPGUpdateLogMissing = 114, v 3, compat 1 {
        map_epoch: Epoch,
        pgid: SpgId,
        from: i8,
        rep_tid: u64,
        entries: Vec<PgLogEntry>,
        [since 2] min_epoch: Epoch,
        [since 3] pg_trim_to: EVersion,
        [since 3] pg_roll_forward_to: EVersion,
    }

    /// The answer to a [`MOSDPGUpdateLogMissing`].
    MOSDPGUpdateLogMissingReply = 115, v 3, compat 1 {
        map_epoch: Epoch,
        pgid: SpgId,
        from: i8,
        rep_tid: u64,
        [since 2] min_epoch: Epoch,
        [since 3] last_complete_ondisk: EVersion,
    }

    /// Everything up to a version is on disk everywhere (releases after 18.2: sent when no write does it).
    MOSDPGPCT = 136, v 1, compat 1 {
        map_epoch: Epoch,
        min_epoch: Epoch,
        pgid: SpgId,
        committed_to: EVersion,
    }

    /// A replica's map of what a scrub looks at; the data are an encoded ScrubMap.
    MOSDRepScrubMap = 117, v 2, compat 1, data {
        pgid: SpgId,
        map_epoch: Epoch,
        from: PgShard,
        [since 2] preempted: bool,
    }
}

/// A slot for a scrub on a replica.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDScrubReserve {
    pub pgid: SpgId,
    pub map_epoch: Epoch,
    /// [`scrub_reserve`].
    pub kind: i32,
    pub from: PgShard,
    /// Which of the primary's requests in this interval it belongs to; 0: the primary does not count them, as before 19.2.
    pub nonce: u32,
    /// The primary would wait for a grant: it need not be refused at once (since 19.2).
    pub waits: bool,
}

impl Message for MOSDScrubReserve {
    const KIND: u16 = 92;
    /// In the form of the primary: v1 unless it counts its requests.
    fn encode(&self, features: u64) -> RawMessage {
        let is_counted = self.nonce != 0;
        front(Self::KIND, if is_counted { 3 } else { 1 }, 1, features, |e| {
            e.put(&self.pgid);
            e.u32(self.map_epoch);
            e.i32(self.kind);
            e.put(&self.from);
            if is_counted {
                e.u32(self.nonce);
                e.bool(self.waits);
            }
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDScrubReserve", 3)?;
        Ok(Self {
            pgid: d.get()?,
            map_epoch: d.u32()?,
            kind: d.i32()?,
            from: d.get()?,
            nonce: if raw.version >= 2 { d.u32()? } else { 0 },
            waits: raw.version >= 3 && d.bool()?,
        })
    }
}

/// Asks a replica for its map of a range of objects.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDRepScrub {
    pub pgid: SpgId,
    pub scrub_from: EVersion,
    pub scrub_to: EVersion,
    pub map_epoch: Epoch,
    /// Always true now.
    pub chunky: bool,
    /// Inclusive.
    pub start: HObject,
    /// Exclusive.
    pub end: HObject,
    pub deep: bool,
    pub min_epoch: Epoch,
    pub allow_preemption: bool,
    pub priority: i32,
    pub high_priority: bool,
}

impl Message for MOSDRepScrub {
    const KIND: u16 = 93;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 9, 6, features, |e| {
            e.put(&self.pgid.pgid);
            e.put(&self.scrub_from);
            e.put(&self.scrub_to);
            e.u32(self.map_epoch);
            e.bool(self.chunky);
            e.put(&self.start);
            e.put(&self.end);
            e.bool(self.deep);
            e.i8(self.pgid.shard);
            // The seed of checksums: all ones since Jewel.
            e.u32(u32::MAX);
            e.u32(self.min_epoch);
            e.bool(self.allow_preemption);
            e.i32(self.priority);
            e.bool(self.high_priority);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDRepScrub", 9)?;
        if raw.version < 9 {
            return Err(too_old("MOSDRepScrub", raw.version, 9));
        }
        let pgid = Denc::decode(d)?;
        let (scrub_from, scrub_to, map_epoch, chunky) = (d.get()?, d.get()?, d.u32()?, d.bool()?);
        let (start, end, deep, shard) = (d.get()?, d.get()?, d.bool()?, d.i8()?);
        d.skip(4)?;
        Ok(Self {
            pgid: SpgId { pgid, shard },
            scrub_from,
            scrub_to,
            map_epoch,
            chunky,
            start,
            end,
            deep,
            min_epoch: d.u32()?,
            allow_preemption: d.bool()?,
            priority: d.i32()?,
            high_priority: d.bool()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::features::SUPPORTED;

    #[test]
    fn a_slot_is_asked_for_and_given_in_the_primarys_form() {
        let old = MOSDScrubReserve { map_epoch: 7, kind: scrub_reserve::REQUEST, ..MOSDScrubReserve::default() };
        let new = MOSDScrubReserve { nonce: 9, waits: true, ..old.clone() };
        for (m, version, len) in [(&old, 1, 0), (&new, 3, 5)] {
            let raw = m.encode(SUPPORTED);
            assert_eq!((raw.version, raw.compat, raw.front.len()), (version, 1, old.encode(SUPPORTED).front.len() + len));
            assert_eq!(&MOSDScrubReserve::decode(&raw).unwrap(), m);
        }
        // 19.1's, without the word that it waits, and a later release's.
        let raw = new.encode(SUPPORTED);
        let cut = RawMessage { version: 2, front: raw.front.slice(..raw.front.len() - 1), ..raw.clone() };
        assert_eq!(MOSDScrubReserve::decode(&cut).unwrap(), MOSDScrubReserve { waits: false, ..new.clone() });
        let longer = RawMessage { version: 4, front: [&raw.front[..], b"more"].concat().into(), ..raw };
        assert_eq!(MOSDScrubReserve::decode(&longer).unwrap(), new);
    }
}
