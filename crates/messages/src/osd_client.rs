//! What clients and OSDs say to each other: requests, replies, backoffs, notifies; and the OSD map.
//!
//! The request and its reply are the hot path: the data of ops is cut out of, and put into, the data segment without a copy.
//!
//! Source of the facts: Ceph 18.2 `src/messages/{MOSDOp,MOSDOpReply,MOSDBackoff,MWatchNotify,MOSDMap}.h`.

use crate::macros::{open, too_old};
use crate::raw::priority;
use crate::{Message, RawMessage};
use bytes::Bytes;
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use types::osd_op::{OP_LEN, osd_flag};
use types::{EVersion, EntityName, Epoch, HObject, ObjectLocator, OsdOp, PgId, ReqId, SnapContext, SpgId, UTime, Uuid};

/// An op of a request with its data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InOp {
    pub op: OsdOp,
    /// A slice of the request's data segment, `op.payload_len` bytes.
    pub indata: Bytes,
    /// Its crc32c from `u32::MAX` on, if the messenger has computed that already: of an op whose data is the whole segment.
    pub crc: Option<u32>,
}

impl InOp {
    pub fn new(op: OsdOp, indata: Bytes) -> Self {
        Self { op: OsdOp { payload_len: indata.len() as u32, ..op }, indata, crc: None }
    }
}

/// An op of a reply with its result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OutOp {
    /// The request's op; `payload_len` is set from the outdata when encoding.
    pub op: OsdOp,
    /// The op's own result: negative errno or what the op returns.
    pub rval: i32,
    pub outdata: Bytes,
    /// More of the outdata, behind it; empty in what was decoded.
    pub more: Vec<Bytes>,
}

/// Three ids of a blkin trace, 0 in practice.
pub type Trace = [u64; 3];

/// Where an OpenTelemetry span came from (releases after 18.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanContext {
    /// Trace id, span id and flags, if there is a span.
    pub span: Option<([u8; 16], [u8; 8], u8)>,
}
impl Denc for SpanContext {
    fn encode(&self, e: &mut Encoder) {
        e.frame(1, 1, |e| {
            e.bool(self.span.is_some());
            if let Some((trace, span, flags)) = &self.span {
                e.raw(trace);
                e.raw(span);
                e.u8(*flags);
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("span context", 1, |d, _| {
            let span = if d.bool()? { Some((d.get()?, d.get()?, d.u8()?)) } else { None };
            Ok(Self { span })
        })
    }
}

/// Bytes of a reply's front besides its object's name, its ops and a redirect.
const REPLY_LEN: usize = 102;

/// The priority that clients give their requests (`osd_client_op_priority`).
const CLIENT_OP_PRIORITY: u16 = 63;

fn trace(d: &mut Decoder) -> Result<Trace, DencError> {
    Ok([d.u64()?, d.u64()?, d.u64()?])
}
fn put_trace(e: &mut Encoder, trace: &Trace) {
    for id in trace {
        e.u64(*id);
    }
}

/// The data of each op, cut out of the data segment in order.
fn split<'a>(data: &Bytes, lens: impl Iterator<Item = (&'a OsdOp, &'a mut Bytes)>) -> Result<(), DencError> {
    let mut at = 0;
    for (op, piece) in lens {
        let len = op.payload_len as usize;
        if len == 0 {
            continue;
        }
        if len > data.len() - at {
            return Err(DencError::Short { at, want: len, left: data.len() - at });
        }
        *piece = data.slice(at..at + len);
        at += len;
    }
    Ok(())
}

/// A request on one object (or, for listing, on one placement group): a vector of ops that take effect together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDOp {
    /// The client's number for the request, from the header.
    pub tid: u64,
    pub pgid: SpgId,
    /// The object: its hash is that of the unsplit seed, its snap the one to read.
    pub hobj: HObject,
    /// The map by which the client chose this OSD.
    pub map_epoch: Epoch,
    /// [`types::osd_op::osd_flag`]s.
    pub flags: u32,
    /// Blank unless the sender set it: see [`MOSDOp::reqid_from`].
    pub reqid: ReqId,
    pub trace: Trace,
    pub span: SpanContext,
    pub client_inc: u32,
    /// The client's clock; what a write sets as the object's mtime.
    pub mtime: UTime,
    pub ops: SmallVec<[InOp; 2]>,
    /// The writer's snapshots.
    pub snapc: SnapContext,
    /// 0 for the first attempt, -1 if unknown.
    pub attempt: i32,
    /// The sender's features, as it wants ops to be understood; 0: those of the connection.
    pub features: u64,
}

impl MOSDOp {
    /// The id of the request, the same for each resend: what the sender set, or made of its name.
    pub fn reqid_from(&self, source: EntityName) -> ReqId {
        if self.reqid.name != EntityName::default() || self.reqid.tid != 0 {
            return self.reqid;
        }
        self.own_reqid(source)
    }
    /// The id of the request as this sender's own, whatever it set.
    pub fn own_reqid(&self, source: EntityName) -> ReqId {
        ReqId { name: source, tid: self.tid, inc: self.client_inc as i32 }
    }
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
    /// The placement group before splits are folded in: pool and full hash.
    pub fn raw_pg(&self) -> PgId {
        PgId::new(self.pgid.pgid.pool, self.hobj.hash)
    }
    /// A reply to it: the same ops, without data yet. `ack` is ONDISK or ACK of [`types::osd_op::osd_flag`].
    pub fn reply(&self, result: i32, map_epoch: Epoch, ack: u32) -> MOSDOpReply {
        MOSDOpReply {
            tid: self.tid,
            oid: self.hobj.oid.clone(),
            pgid: self.pgid.pgid,
            flags: (self.flags & !(osd_flag::ACK | osd_flag::ONNVRAM | osd_flag::ONDISK) | ack).into(),
            result,
            map_epoch,
            ops: self.ops.iter().map(|InOp { op, .. }| OutOp { op: *op, ..OutOp::default() }).collect(),
            attempt: self.attempt,
            ..MOSDOpReply::default()
        }
    }
    /// How Ceph names the place of an object in this message: the key, or for a request without a name the hash.
    fn locator(&self) -> ObjectLocator {
        let hash = if self.hobj.oid.is_empty() { self.hobj.hash.into() } else { -1 };
        ObjectLocator { pool: self.hobj.pool, key: self.hobj.key.clone(), nspace: self.hobj.nspace.clone(), hash }
    }
    fn decode_tail(&mut self, d: &mut Decoder, data: &Bytes) -> Result<(), DencError> {
        self.client_inc = d.u32()?;
        self.mtime = d.get()?;
        let locator: ObjectLocator = d.get()?;
        self.hobj.pool = self.pgid.pgid.pool;
        self.hobj.nspace = locator.nspace;
        self.hobj.oid = d.bytestr()?;
        // A key that is the name is no key.
        if locator.key != self.hobj.oid {
            self.hobj.key = locator.key;
        }
        let n = d.u16()? as usize;
        if n * OP_LEN > d.remaining() {
            return Err(DencError::Count { at: d.position(), count: n as u64, left: d.remaining() });
        }
        self.ops.reserve_exact(n);
        for _ in 0..n {
            self.ops.push(InOp { op: d.get()?, ..InOp::default() });
        }
        self.hobj.snap = d.u64()?;
        self.snapc = d.get()?;
        self.attempt = d.i32()?;
        self.features = d.u64()?;
        split(data, self.ops.iter_mut().map(|op| (&op.op, &mut op.indata)))
    }
}

impl Message for MOSDOp {
    const KIND: u16 = 42;

    /// Version 8, which every release since Luminous reads.
    fn encode(&self, features: u64) -> RawMessage {
        let strings = self.hobj.oid.len() + self.hobj.key.len() + self.hobj.nspace.len();
        let mut e = Encoder::with_capacity(features, 208 + strings + self.ops.len() * OP_LEN + self.snapc.snaps.len() * 8);
        e.put(&self.pgid);
        e.u32(self.hobj.hash);
        e.u32(self.map_epoch);
        e.u32(self.flags);
        e.put(&self.reqid);
        put_trace(&mut e, &self.trace);
        e.u32(self.client_inc);
        e.put(&self.mtime);
        e.put(&self.locator());
        e.put(&self.hobj.oid);
        e.u16(u16::try_from(self.ops.len()).expect("a request has fewer than 2^16 ops"));
        let mut data = Vec::new();
        for InOp { op, indata, .. } in &self.ops {
            e.put(&OsdOp { payload_len: indata.len() as u32, ..*op });
            if !indata.is_empty() {
                data.push(indata.clone());
            }
        }
        e.u64(self.hobj.snap);
        e.put(&self.snapc);
        e.i32(self.attempt);
        e.u64(self.features);
        let data_off = self.ops.first().filter(|op| op.op.code.uses_extent()).map_or(0, |op| op.op.extent().offset as u16);
        let front = e.finish();
        RawMessage {
            kind: Self::KIND,
            version: 8,
            compat: 3,
            priority: CLIENT_OP_PRIORITY,
            tid: self.tid,
            data_off,
            front,
            data,
            ..RawMessage::default()
        }
    }

    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDOp", 9)?;
        let mut m = MOSDOp { tid: raw.tid, hobj: HObject { snap: 0, pool: 0, ..HObject::min() }, ..Default::default() };
        match raw.version {
            0..7 => return Err(too_old("MOSDOp", raw.version, 7)),
            7 => {
                m.pgid = SpgId::whole(d.get()?);
                m.hobj.hash = m.pgid.pgid.seed;
                (m.map_epoch, m.flags) = (d.u32()?, d.u32()?);
                d.ignore::<EVersion>()?;
                m.reqid = d.get()?;
            }
            version => {
                m.pgid = d.get()?;
                m.hobj.hash = d.u32()?;
                (m.map_epoch, m.flags) = (d.u32()?, d.u32()?);
                m.reqid = d.get()?;
                m.trace = trace(d)?;
                if version >= 9 {
                    m.span = d.get()?;
                }
            }
        }
        let data = raw.data_flat();
        m.decode_tail(d, &data)?;
        if let Some(op) = m.ops.iter_mut().find(|op| !op.indata.is_empty() && op.indata.len() == data.len()) {
            op.crc = raw.data_crc;
        }
        Ok(m)
    }
}

/// Where a client shall go instead: objects of a tiered pool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Redirect {
    pub locator: ObjectLocator,
    /// The other object's name, if it has another.
    pub object: ByteStr,
}
impl Denc for Redirect {
    fn encode(&self, e: &mut Encoder) {
        e.frame(1, 1, |e| {
            e.put(&self.locator);
            e.put(&self.object);
            // Room for instructions to OSDs that never came.
            e.u32(0);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("request_redirect_t", 1, |d, _| Ok(Self { locator: d.get()?, object: d.get()? }))
    }
}

/// The answer to a [`MOSDOp`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDOpReply {
    /// The request's.
    pub tid: u64,
    pub oid: ByteStr,
    pub pgid: PgId,
    /// The request's flags, less ACK, ONNVRAM and ONDISK, with what this reply is of these.
    pub flags: u64,
    /// Of the whole request: 0, a positive result, or a negative errno.
    pub result: i32,
    /// What clients before Firefly took for the version.
    pub bad_replay_version: EVersion,
    pub map_epoch: Epoch,
    pub ops: SmallVec<[OutOp; 2]>,
    /// The request's: a client drops replies to attempts that it gave up.
    pub attempt: i32,
    pub replay_version: EVersion,
    pub user_version: u64,
    pub redirect: Option<Redirect>,
    pub trace: Trace,
}

impl MOSDOpReply {
    /// Sets the versions as a write's reply has them: old clients see a user version only if there is one.
    pub fn set_versions(&mut self, version: EVersion, user_version: u64) {
        self.replay_version = version;
        self.user_version = user_version;
        self.bad_replay_version = EVersion { version: if user_version != 0 { user_version } else { version.version }, ..version };
    }
    /// Sets the versions as they are for a read or an error, which has no version to replay.
    pub fn set_read_versions(&mut self, version: EVersion, user_version: u64) {
        self.user_version = user_version;
        self.bad_replay_version = version;
    }
    /// Encodes the reply with these in place of its own ops: each op with its result and how many bytes it returns; `data` is what they return.
    pub fn encode_with<'a>(
        &self,
        features: u64,
        ops: impl ExactSizeIterator<Item = (&'a OsdOp, i32, usize)> + Clone,
        data: Vec<Bytes>,
    ) -> RawMessage {
        // Exactly as much as it takes without a redirect.
        let mut e = Encoder::with_capacity(features, REPLY_LEN + self.oid.len() + ops.len() * (OP_LEN + 4));
        e.put(&self.oid);
        e.put(&self.pgid);
        e.u64(self.flags);
        e.i32(self.result);
        e.put(&self.bad_replay_version);
        e.u32(self.map_epoch);
        e.count(ops.len());
        for (op, _, len) in ops.clone() {
            e.put(&OsdOp { payload_len: len as u32, ..*op });
        }
        e.i32(self.attempt);
        for (_, rval, _) in ops {
            e.i32(rval);
        }
        e.put(&self.replay_version);
        e.u64(self.user_version);
        e.put(&self.redirect);
        put_trace(&mut e, &self.trace);
        RawMessage {
            kind: Self::KIND,
            version: 8,
            compat: 2,
            priority: priority::DEFAULT,
            tid: self.tid,
            front: e.finish(),
            data,
            ..RawMessage::default()
        }
    }
}

impl Message for MOSDOpReply {
    const KIND: u16 = 43;

    fn encode(&self, features: u64) -> RawMessage {
        let data = self.ops.iter().flat_map(|op| std::iter::once(&op.outdata).chain(&op.more)).filter(|piece| !piece.is_empty());
        let len = |op: &OutOp| op.outdata.len() + op.more.iter().map(Bytes::len).sum::<usize>();
        self.encode_with(features, self.ops.iter().map(|op| (&op.op, op.rval, len(op))), data.cloned().collect())
    }

    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDOpReply", 9)?;
        if raw.version < 7 {
            return Err(too_old("MOSDOpReply", raw.version, 7));
        }
        let mut m = MOSDOpReply { tid: raw.tid, oid: d.get()?, pgid: d.get()?, flags: d.u64()?, result: d.i32()?, ..Default::default() };
        m.bad_replay_version = d.get()?;
        m.map_epoch = d.u32()?;
        let n = d.count(OP_LEN + 4)?;
        m.ops.reserve_exact(n);
        for _ in 0..n {
            m.ops.push(OutOp { op: d.get()?, ..OutOp::default() });
        }
        m.attempt = d.i32()?;
        for op in &mut m.ops {
            op.rval = d.i32()?;
        }
        split(&raw.data_flat(), m.ops.iter_mut().map(|op| (&op.op, &mut op.outdata)))?;
        m.replay_version = d.get()?;
        m.user_version = d.u64()?;
        m.redirect = d.get()?;
        if raw.version >= 8 {
            m.trace = trace(d)?;
        }
        Ok(m)
    }
}

/// `CEPH_OSD_BACKOFF_OP_*`.
pub mod backoff_op {
    pub const BLOCK: u8 = 1;
    pub const ACK_BLOCK: u8 = 2;
    pub const UNBLOCK: u8 = 3;
}

/// `CEPH_WATCH_EVENT_*`.
pub mod watch_event {
    /// OSD to watcher: a client notifies.
    pub const NOTIFY: u8 = 1;
    /// OSD to notifier: all watchers answered, or time is up.
    pub const NOTIFY_COMPLETE: u8 = 2;
    /// OSD to watcher: the watch is gone.
    pub const DISCONNECT: u8 = 3;
}

message! {
    /// An OSD asks a client to hold back requests on a range of objects, the client agrees, the OSD lifts it.
    MOSDBackoff = 61, v 1, compat 1 {
        pgid: SpgId,
        map_epoch: Epoch,
        /// [`backoff_op`].
        op: u8,
        /// Unique within the session.
        id: u64,
        /// The range is half open; if both ends are equal it is that one object.
        begin: HObject,
        end: HObject,
    }
}

/// An event for a watcher or a notifier.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MWatchNotify {
    /// The watch's, or for the end of a notify the notifier's.
    pub cookie: u64,
    /// Not used any more.
    pub ver: u64,
    pub notify_id: u64,
    /// [`watch_event`].
    pub event: u8,
    /// What the notifier sent.
    pub payload: Bytes,
    /// For the end of a notify: the encoded answers and the watchers that missed it, in the data segment.
    pub answers: Bytes,
    /// For the end of a notify: 0 or a negative errno (ETIMEDOUT).
    pub return_code: i32,
    /// The global_id of the client that notifies.
    pub notifier_gid: u64,
}

impl Message for MWatchNotify {
    const KIND: u16 = 44;
    fn encode(&self, features: u64) -> RawMessage {
        let raw = crate::macros::front(Self::KIND, 3, 1, features, |e| {
            e.u8(1);
            e.u8(self.event);
            e.u64(self.cookie);
            e.u64(self.ver);
            e.u64(self.notify_id);
            e.blob(&self.payload);
            e.i32(self.return_code);
            e.u64(self.notifier_gid);
        });
        RawMessage { data: crate::macros::one_piece(&self.answers), ..raw }
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MWatchNotify", 3)?;
        let inner = d.u8()?;
        let mut m = MWatchNotify { event: d.u8()?, cookie: d.u64()?, ver: d.u64()?, notify_id: d.u64()?, ..Default::default() };
        m.answers = raw.data_flat();
        if inner >= 1 {
            m.payload = d.blob()?;
        }
        if raw.version >= 2 {
            m.return_code = d.i32()?;
        }
        if raw.version >= 3 {
            m.notifier_gid = d.u64()?;
        }
        Ok(m)
    }
}

/// OSD maps by epoch, full and incremental, each as encoded for the receiver's features.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MOSDMap {
    pub fsid: Uuid,
    pub incrementals: BTreeMap<Epoch, Bytes>,
    pub maps: BTreeMap<Epoch, Bytes>,
    /// Maps below it may be dropped by the receiver: the monitors have dropped them (`oldest_map` of older releases).
    pub trim_lower_bound: Epoch,
    /// The newest map that the sender has.
    pub newest: Epoch,
}

impl MOSDMap {
    /// The lowest and highest epoch inside, if any.
    pub fn range(&self) -> Option<(Epoch, Epoch)> {
        let firsts = [self.maps.first_key_value(), self.incrementals.first_key_value()];
        let lasts = [self.maps.last_key_value(), self.incrementals.last_key_value()];
        let first = firsts.into_iter().flatten().map(|(e, _)| *e).min()?;
        let last = lasts.into_iter().flatten().map(|(e, _)| *e).max()?;
        Some((first, last))
    }
}

impl Message for MOSDMap {
    const KIND: u16 = 41;
    fn encode(&self, features: u64) -> RawMessage {
        crate::macros::front(Self::KIND, 4, 3, features, |e| {
            e.put(&self.fsid);
            e.put(&self.incrementals);
            e.put(&self.maps);
            e.u32(self.trim_lower_bound);
            e.u32(self.newest);
            // gap_removed_snaps of Nautilus, empty since.
            e.u32(0);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MOSDMap", 4)?;
        let mut m = MOSDMap { fsid: d.get()?, incrementals: d.get()?, maps: d.get()?, ..Default::default() };
        if raw.version >= 2 {
            m.trim_lower_bound = d.u32()?;
            m.newest = d.u32()?;
        }
        // Version 4 goes on with gap_removed_snaps, which is not needed.
        Ok(m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::OpCode;
    use types::features::SUPPORTED;

    fn request() -> MOSDOp {
        MOSDOp {
            tid: 9,
            pgid: SpgId::whole(PgId::new(3, 1)),
            hobj: HObject { oid: "o".into(), key: "k".into(), nspace: "n".into(), hash: 0x11, pool: 3, snap: 4, max: false },
            flags: osd_flag::WRITE | osd_flag::ONDISK | osd_flag::ACK,
            ops: vec![
                InOp::new(OsdOp::range(OpCode::WRITE, 0, 3), Bytes::from_static(b"abc")),
                InOp::new(OsdOp::new(OpCode::STAT), Bytes::new()),
                InOp::new(OsdOp::range(OpCode::WRITE, 8, 2), Bytes::from_static(b"de")),
            ]
            .into(),
            snapc: SnapContext { seq: 5, snaps: vec![5, 2] },
            client_inc: 6,
            ..MOSDOp::default()
        }
    }

    #[test]
    fn data_of_ops_is_cut_from_the_segment() {
        let m = request();
        let mut raw = m.encode(SUPPORTED);
        raw.data = vec![raw.data_flat()];
        let back = MOSDOp::decode(&raw).unwrap();
        assert_eq!(back, m);
        assert_eq!(back.ops[2].indata.as_ptr(), raw.data[0][3..].as_ptr());
        let source = EntityName::client(77);
        assert_eq!(back.reqid_from(source), ReqId { name: source, tid: 9, inc: 6 });
    }

    #[test]
    fn the_crc_of_the_segment_is_that_of_an_op_which_has_all_of_it() {
        let decoded = |ops: &[InOp]| {
            let raw = MOSDOp { ops: ops.into(), ..request() }.encode(SUPPORTED);
            let raw = RawMessage { data: vec![raw.data_flat()], data_crc: Some(7), ..raw };
            MOSDOp::decode(&raw).unwrap().ops.iter().map(|op| op.crc).collect::<Vec<_>>()
        };
        let ops = request().ops;
        assert_eq!(decoded(&ops), [None; 3]);
        assert_eq!(decoded(&ops[1..]), [None, Some(7)]);
        assert_eq!(decoded(&ops[1..2]), [None]);
    }

    #[test]
    fn a_reply_repeats_the_ops() {
        let mut reply = request().reply(-2, 7, osd_flag::ONDISK);
        assert_eq!(reply.flags, (osd_flag::WRITE | osd_flag::ONDISK) as u64);
        reply.ops[1].outdata = Bytes::from_static(b"out");
        reply.ops[1].rval = -5;
        reply.set_versions(EVersion::new(7, 30), 28);
        let raw = reply.encode(SUPPORTED);
        assert_eq!(raw.data, [Bytes::from_static(b"out")]);
        assert_eq!(raw.front.len(), REPLY_LEN + reply.oid.len() + reply.ops.len() * (OP_LEN + 4));
        let back = MOSDOpReply::decode(&raw).unwrap();
        assert_eq!((back.ops[1].rval, &back.ops[1].outdata[..], back.ops[0].op.payload_len), (-5, &b"out"[..], 0));
        assert_eq!((back.bad_replay_version, back.replay_version), (EVersion::new(7, 28), EVersion::new(7, 30)));
    }

    #[test]
    fn counts_and_lengths_are_doubted() {
        let mut raw = request().encode(SUPPORTED);
        raw.data.pop();
        assert!(matches!(MOSDOp::decode(&raw), Err(DencError::Short { .. })));
        let many = MOSDOp { ops: SmallVec::new(), ..request() }.encode(SUPPORTED);
        // The ops' count stands in front of snap, seq, two snaps with their count, attempt and features.
        let at = many.front.len() - (8 + 8 + 4 + 16 + 4 + 8) - 2;
        let mut front = many.front.to_vec();
        front[at..at + 2].copy_from_slice(&[0xff; 2]);
        assert!(matches!(MOSDOp::decode(&RawMessage { front: front.into(), ..many }), Err(DencError::Count { count: 0xffff, .. })));
    }
}
