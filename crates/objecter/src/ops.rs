//! Building the op vector of a request, and reading what its ops brought back.
//!
//! Source of the layouts: Ceph 18.2 `src/osdc/Objecter.h` (facts), `src/include/rados.h`.

use bytes::{Bytes, BytesMut};
use denc::{ByteStr, Decoder, Denc, DencError, Encoder};
use messages::osd_client::{InOp, OutOp};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use types::osd_op::{
    AllocHintArgs, AssertVerArgs, CallArgs, NotifyArgs, PglsArgs, SnapArgs, WatchArgs, XattrArgs, cmp_mode, op_flag, osd_flag,
};
use types::{ListWatchers, OpCode, OsdOp, WatchItem};

/// Ops that take effect together, and what they do as a whole.
#[derive(Debug, Clone, Default)]
pub struct Ops {
    pub ops: SmallVec<[InOp; 2]>,
    /// READ and WRITE of [`osd_flag`].
    pub flags: u32,
}

impl Ops {
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds an op with its data.
    pub fn push(mut self, op: OsdOp, indata: impl Into<Bytes>) -> Self {
        if op.code.is_write() {
            self.flags |= osd_flag::WRITE;
        }
        if op.code.is_read() {
            self.flags |= osd_flag::READ;
        }
        self.ops.push(InOp::new(op, indata.into()));
        self
    }
    /// The last op may fail without the others failing.
    pub fn fail_ok(mut self) -> Self {
        if let Some(last) = self.ops.last_mut() {
            last.op.flags |= op_flag::FAILOK;
        }
        self
    }

    pub fn read(self, offset: u64, length: u64) -> Self {
        self.push(OsdOp::range(OpCode::READ, offset, length), Bytes::new())
    }
    pub fn sparse_read(self, offset: u64, length: u64) -> Self {
        self.push(OsdOp::range(OpCode::SPARSE_READ, offset, length), Bytes::new())
    }
    pub fn write(self, offset: u64, data: Bytes) -> Self {
        self.push(OsdOp::range(OpCode::WRITE, offset, data.len() as u64), data)
    }
    pub fn write_full(self, data: Bytes) -> Self {
        self.push(OsdOp::range(OpCode::WRITEFULL, 0, data.len() as u64), data)
    }
    pub fn append(self, data: Bytes) -> Self {
        self.push(OsdOp::range(OpCode::APPEND, 0, data.len() as u64), data)
    }
    pub fn zero(self, offset: u64, length: u64) -> Self {
        self.push(OsdOp::range(OpCode::ZERO, offset, length), Bytes::new())
    }
    pub fn truncate(self, size: u64) -> Self {
        self.push(OsdOp::range(OpCode::TRUNCATE, size, 0), Bytes::new())
    }
    /// Size and mtime.
    pub fn stat(self) -> Self {
        self.push(OsdOp::new(OpCode::STAT), Bytes::new())
    }
    pub fn create(self, exclusive: bool) -> Self {
        let flags = if exclusive { op_flag::EXCL } else { 0 };
        self.push(OsdOp { flags, ..OsdOp::new(OpCode::CREATE) }, Bytes::new())
    }
    pub fn remove(self) -> Self {
        self.push(OsdOp::new(OpCode::DELETE), Bytes::new())
    }
    pub fn rollback(self, snapid: u64) -> Self {
        self.push(OsdOp::with_snap(OpCode::ROLLBACK, SnapArgs { snapid }), Bytes::new())
    }
    pub fn assert_version(self, ver: u64) -> Self {
        self.push(OsdOp::with_assert_ver(OpCode::ASSERT_VER, AssertVerArgs { unused: 0, ver }), Bytes::new())
    }
    pub fn alloc_hint(self, expected_object_size: u64, expected_write_size: u64, flags: u32) -> Self {
        let args = AllocHintArgs { expected_object_size, expected_write_size, flags };
        self.push(OsdOp::with_alloc_hint(OpCode::SETALLOCHINT, args), Bytes::new()).fail_ok()
    }

    fn xattr(self, code: OpCode, name: &str, value: &[u8], cmp_op: u8, mode: u8) -> Self {
        let args = XattrArgs { name_len: name.len() as u32, value_len: value.len() as u32, cmp_op, cmp_mode: mode };
        self.push(OsdOp::with_xattr(code, args), concat(&[name.as_bytes(), value]))
    }
    pub fn get_xattr(self, name: &str) -> Self {
        self.xattr(OpCode::GETXATTR, name, &[], 0, 0)
    }
    pub fn get_xattrs(self) -> Self {
        self.push(OsdOp::new(OpCode::GETXATTRS), Bytes::new())
    }
    pub fn set_xattr(self, name: &str, value: &[u8]) -> Self {
        self.xattr(OpCode::SETXATTR, name, value, 0, 0)
    }
    pub fn rm_xattr(self, name: &str) -> Self {
        self.xattr(OpCode::RMXATTR, name, &[], 0, 0)
    }
    /// Fails with ECANCELED unless the attribute compares as [`types::osd_op::cmp_op`] says.
    pub fn cmp_xattr(self, name: &str, value: &[u8], cmp_op: u8) -> Self {
        self.xattr(OpCode::CMPXATTR, name, value, cmp_op, cmp_mode::STRING)
    }

    fn encoded(self, code: OpCode, body: impl FnOnce(&mut Encoder)) -> Self {
        let mut e = Encoder::new(0);
        body(&mut e);
        self.push(OsdOp::new(code), e.finish())
    }
    pub fn omap_get_keys(self, start_after: &str, max: u64) -> Self {
        self.encoded(OpCode::OMAPGETKEYS, |e| {
            e.blob(start_after.as_bytes());
            e.u64(max);
        })
    }
    pub fn omap_get_vals(self, start_after: &str, prefix: &str, max: u64) -> Self {
        self.encoded(OpCode::OMAPGETVALS, |e| {
            e.blob(start_after.as_bytes());
            e.u64(max);
            e.blob(prefix.as_bytes());
        })
    }
    pub fn omap_get_by_keys(self, keys: &BTreeSet<ByteStr>) -> Self {
        self.encoded(OpCode::OMAPGETVALSBYKEYS, |e| e.put(keys))
    }
    pub fn omap_get_header(self) -> Self {
        self.push(OsdOp::new(OpCode::OMAPGETHEADER), Bytes::new())
    }
    pub fn omap_set(self, pairs: &BTreeMap<ByteStr, Bytes>) -> Self {
        self.encoded(OpCode::OMAPSETVALS, |e| e.put(pairs))
    }
    pub fn omap_set_header(self, header: Bytes) -> Self {
        self.push(OsdOp::new(OpCode::OMAPSETHEADER), header)
    }
    pub fn omap_rm_keys(self, keys: &BTreeSet<ByteStr>) -> Self {
        self.encoded(OpCode::OMAPRMKEYS, |e| e.put(keys))
    }
    pub fn omap_clear(self) -> Self {
        self.push(OsdOp::new(OpCode::OMAPCLEAR), Bytes::new())
    }

    /// Calls a method of an object class. `write`: the method changes the object.
    pub fn exec(mut self, class: &str, method: &str, input: &[u8], write: bool) -> Self {
        self.flags |= if write { osd_flag::READ | osd_flag::WRITE } else { osd_flag::READ };
        let args = CallArgs { class_len: class.len() as u8, method_len: method.len() as u8, argc: 0, indata_len: input.len() as u32 };
        self.push(OsdOp::with_call(OpCode::CALL, args), concat(&[class.as_bytes(), method.as_bytes(), input]))
    }
    /// `op` is one of [`types::osd_op::watch_op`].
    pub fn watch(self, cookie: u64, op: u8, generation: u32, timeout_s: u32) -> Self {
        self.push(OsdOp::with_watch(OpCode::WATCH, WatchArgs { cookie, ver: 0, op, generation, timeout_s }), Bytes::new())
    }
    pub fn notify(self, cookie: u64, timeout_s: u32, payload: &[u8]) -> Self {
        let mut e = Encoder::new(0);
        e.u32(1);
        e.u32(timeout_s);
        e.blob(payload);
        self.push(OsdOp::with_notify(OpCode::NOTIFY, NotifyArgs { cookie }), e.finish())
    }
    pub fn notify_ack(self, notify_id: u64, cookie: u64, reply: &[u8]) -> Self {
        let mut e = Encoder::new(0);
        e.u64(notify_id);
        e.u64(cookie);
        e.blob(reply);
        self.push(OsdOp::with_notify(OpCode::NOTIFY_ACK, NotifyArgs { cookie }), e.finish())
    }
    pub fn list_watchers(self) -> Self {
        self.push(OsdOp::new(OpCode::LIST_WATCHERS), Bytes::new())
    }
    /// Objects of a placement group behind `cursor` (an encoded `hobject_t`).
    pub fn pgnls(mut self, count: u64, start_epoch: u32, cursor: Bytes) -> Self {
        self.flags |= osd_flag::READ | osd_flag::PGOP | osd_flag::IGNORE_OVERLAY;
        self.push(OsdOp::with_pgls(OpCode::PGNLS, PglsArgs { count, start_epoch }), cursor)
    }
}

fn concat(parts: &[&[u8]]) -> Bytes {
    let mut out = BytesMut::with_capacity(parts.iter().map(|p| p.len()).sum());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.freeze()
}

/// Size in bytes and mtime out of a STAT.
pub fn stat_of(out: &OutOp) -> Result<(u64, types::UTime), DencError> {
    Denc::from_bytes(&out.outdata)
}
/// Keys out of an OMAPGETKEYS, and whether there are more.
pub fn keys_of(out: &OutOp) -> Result<(BTreeSet<ByteStr>, bool), DencError> {
    let mut d = Decoder::new(out.outdata.clone());
    Ok((d.get()?, !d.is_empty() && d.bool()?))
}
/// Pairs out of an OMAPGETVALS, and whether there are more.
pub fn vals_of(out: &OutOp) -> Result<(BTreeMap<ByteStr, Bytes>, bool), DencError> {
    let mut d = Decoder::new(out.outdata.clone());
    Ok((d.get()?, !d.is_empty() && d.bool()?))
}
/// Clients out of a LIST_WATCHERS.
pub fn watchers_of(out: &OutOp) -> Result<Vec<WatchItem>, DencError> {
    Ok(ListWatchers::from_bytes(&out.outdata)?.entries)
}
/// Pairs out of a GETXATTRS or an OMAPGETVALSBYKEYS.
pub fn pairs_of(out: &OutOp) -> Result<BTreeMap<ByteStr, Bytes>, DencError> {
    Denc::from_bytes(&out.outdata)
}
