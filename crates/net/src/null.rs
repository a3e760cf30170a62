//! The null responder: answers requests from what the request says, and keeps nothing. What it costs is the floor that the wire, the
//! codec and the client set; what an OSD costs above it is the OSD's own.
//!
//! What `rados bench` notes about its own runs is kept, since it reads that first: in an object named as the run is, `benchmark_last_metadata` if it
//! has no name; its data objects begin with `benchmark_data`. Otherwise reads return zeros, a stat says 4 MiB, writes succeed; ops that return something else are refused with EOPNOTSUPP.

use crate::{Conn, Dispatcher};
use bytes::Bytes;
use denc::{Denc, Encoder};
use messages::osd_client::{MOSDOp, MOSDOpReply, OutOp};
use messages::{Message, RawMessage};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use types::osd_op::{OpCode, osd_flag};
use types::{ByteStr, EVersion, UTime, errno};

/// Objects of `rados bench` that are no notes.
const DATA: &[u8] = b"benchmark_data";
/// Notes are a few numbers and a name; that is what is kept, and of no more than so many objects.
const NOTE_BYTES_MAX: usize = 512;
const NOTES_MAX: usize = 4096;
/// Every object looks this long.
const SIZE: u64 = 4 << 20;
static ZEROS: [u8; SIZE as usize] = [0; SIZE as usize];

/// The reply that a request gets; `version` is that of the write, if it is one.
pub fn reply(op: &MOSDOp, version: EVersion) -> MOSDOpReply {
    let mut reply = MOSDOpReply {
        tid: op.tid,
        oid: op.hobj.oid.clone(),
        pgid: op.pgid.pgid,
        flags: u64::from(op.flags & !(osd_flag::ACK | osd_flag::ONNVRAM | osd_flag::ONDISK) | osd_flag::ACK | osd_flag::ONDISK),
        map_epoch: op.map_epoch,
        attempt: op.attempt,
        ..MOSDOpReply::default()
    };
    let mut wrote = false;
    for one in &op.ops {
        wrote |= one.op.code.is_write();
        let (rval, outdata) = match one.op.code {
            OpCode::READ | OpCode::SYNC_READ => (0, read(one.op.extent().offset, one.op.extent().length)),
            OpCode::STAT => (0, stat()),
            code if code.is_write() => (0, Bytes::new()),
            _ => (-errno::EOPNOTSUPP, Bytes::new()),
        };
        if rval < 0 && reply.result == 0 {
            reply.result = rval;
        }
        reply.ops.push(OutOp { op: one.op, rval, outdata, ..OutOp::default() });
    }
    if wrote {
        reply.set_versions(version, version.version)
    } else {
        reply.set_read_versions(version, version.version)
    }
    reply
}

fn read(offset: u64, length: u64) -> Bytes {
    let end = if length == 0 { SIZE } else { offset.saturating_add(length).min(SIZE) };
    Bytes::from_static(&ZEROS[..end.saturating_sub(offset) as usize])
}

fn stat() -> Bytes {
    let mut e = Encoder::with_capacity(denc::ALL_FEATURES, 16);
    e.u64(SIZE);
    UTime::default().encode(&mut e);
    e.finish()
}

/// Answers every MOSDOp; other messages are dropped. A daemon that must hear those calls [`NullDispatcher::answer`] from its own.
#[derive(Debug, Default)]
pub struct NullDispatcher {
    version: Cell<u64>,
    /// Notes by object name.
    notes: RefCell<HashMap<ByteStr, Bytes>>,
}

impl NullDispatcher {
    /// True if it was a request, which is answered now.
    pub fn answer(&self, conn: &Conn, message: &RawMessage) -> bool {
        if message.kind != MOSDOp::KIND {
            return false;
        }
        let Ok(op) = MOSDOp::decode(message) else {
            conn.close();
            return true;
        };
        self.version.set(self.version.get() + 1);
        let version = EVersion { epoch: op.map_epoch, version: self.version.get() };
        let mut reply = reply(&op, version);
        if !op.hobj.oid.as_slice().starts_with(DATA) {
            self.note(&op, &mut reply);
        }
        conn.send(reply.encode(conn.features()));
        true
    }

    /// Keeps what is written and gives it back.
    fn note(&self, op: &MOSDOp, reply: &mut MOSDOpReply) {
        let mut notes = self.notes.borrow_mut();
        for (asked, answer) in op.ops.iter().zip(&mut reply.ops) {
            match asked.op.code {
                OpCode::WRITE | OpCode::WRITEFULL if asked.indata.len() <= NOTE_BYTES_MAX && notes.len() < NOTES_MAX => {
                    drop(notes.insert(op.hobj.oid.detach(), Bytes::copy_from_slice(&asked.indata)))
                }
                OpCode::READ => {
                    if let Some(bytes) = notes.get(&op.hobj.oid) {
                        answer.outdata = bytes.clone();
                    }
                }
                _ => {}
            }
        }
    }
}

impl Dispatcher for NullDispatcher {
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        self.answer(conn, &message);
    }
}
