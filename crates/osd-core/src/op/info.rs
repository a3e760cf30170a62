//! What kind of request a vector of operations is, before it is executed: what it needs of order, capabilities and duplicates.
//!
//! Source of the facts: Ceph 18.2 `src/osd/osd_op_util.cc`.

use classes::{METHOD_PROMOTE, METHOD_RD, METHOD_WR, Registry};
use types::errno::{EINVAL, EOPNOTSUPP};
use types::osd_op::{OpCode, osd_flag, watch_op};
use types::{Bytes, OsdOp};

/// A class method that a request calls: what a capability may be asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledMethod {
    pub class: &'static str,
    pub method: &'static str,
    pub reads: bool,
    pub writes: bool,
}

/// What a request does, from its codes and the methods that it calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpInfo {
    /// Reads, itself or through a class.
    pub may_read: bool,
    /// Changes, itself or through a class: is logged, and found again by its reqid.
    pub may_write: bool,
    /// Operations of cache tiering.
    pub may_cache: bool,
    /// Reads more than object_info_t: waits for the object's earlier writes.
    pub may_read_data: bool,
    /// Lists a placement group.
    pub pg_op: bool,
    /// Ordered with the object's writes even if it does not write.
    pub rwordered: bool,
    pub returnvec: bool,
    /// Reads and writes by the operations' own codes, without what called methods do: what `r` and `w` capabilities are asked about.
    pub plain_read: bool,
    pub plain_write: bool,
    pub called: Vec<CalledMethod>,
}

impl OpInfo {
    /// Looks at a request; the error is the errno to answer with (an unknown class or method, or nothing to do at all).
    pub fn of<'a>(flags: u32, ops: impl IntoIterator<Item = (&'a OsdOp, &'a Bytes)>, classes: &Registry) -> Result<Self, i32> {
        let mut info = Self { rwordered: flags & osd_flag::RWORDERED != 0, returnvec: flags & osd_flag::RETURNVEC != 0, ..Self::default() };
        let (mut any, mut promotes) = (info.rwordered || info.returnvec, false);
        for (op, indata) in ops {
            let ping = op.code == OpCode::WATCH && op.watch().op == watch_op::PING;
            if ping {
                info.rwordered = true;
            } else if op.code.is_write() {
                info.plain_write = true;
            }
            if op.code.is_read() {
                info.plain_read = true;
                info.may_read_data |= op.code != OpCode::STAT;
            }
            info.pg_op |= op.code.is_pg();
            info.may_cache |= op.code.is_cache();
            match op.code {
                OpCode::CALL => promotes |= info.add_call(op, indata, classes)?,
                OpCode::WATCH => {
                    info.plain_read = true;
                    info.may_read_data = true;
                }
                OpCode::CACHE_PIN => promotes = true,
                _ => {}
            }
        }
        info.may_read |= info.plain_read;
        info.may_write |= info.plain_write;
        any |= promotes || info.rwordered || info.may_read || info.may_write || info.may_cache || info.pg_op;
        if any { Ok(info) } else { Err(EINVAL) }
    }

    /// True if the request may change its object or the object's place in a cache: it is logged, found again by its reqid, and stands in the
    /// object's order as a write.
    pub fn may_mutate(&self) -> bool {
        self.may_write || self.may_cache
    }
    /// True if the request takes its turn among the object's writes.
    pub fn write_ordered(&self) -> bool {
        self.may_mutate() || self.rwordered
    }

    fn add_call(&mut self, op: &OsdOp, indata: &Bytes, classes: &Registry) -> Result<bool, i32> {
        let args = op.call();
        let class_end = args.class_len as usize;
        let method_end = class_end + args.method_len as usize;
        let class = indata.get(..class_end).and_then(|name| classes.class(name)).ok_or(EOPNOTSUPP)?;
        let name = indata.get(class_end..method_end).ok_or(EOPNOTSUPP)?;
        let method = classes.method(class.name.as_bytes(), name).ok_or(EOPNOTSUPP)?;
        let (reads, writes) = (method.flags & METHOD_RD != 0, method.flags & METHOD_WR != 0);
        self.may_read |= reads;
        self.may_read_data |= reads;
        self.may_write |= writes;
        self.called.push(CalledMethod { class: class.name, method: method.name, reads, writes });
        Ok(method.flags & METHOD_PROMOTE != 0)
    }
}
