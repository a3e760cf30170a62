//! CALL: methods of object classes, which see the object through the same state that the operations change.

use super::costs::CHANGE_BYTES;
use super::exec::{Answer, Exec, Step, Stop, fail};
use super::fetch::{CallSource, Got, Lack, Wanted};
use super::omap::PageWish;
use super::plan::{ANY_TICKET, NEXT_TURN, PlanStop};
use base::Rng;
use classes::{ClsError, ClsResult, Kept, KeyPage, METHOD_RD, METHOD_WR, ObjectView, ValPage, Watcher};
use std::collections::BTreeMap;
use types::errno::{EINVAL, EIO, EMSGSIZE, ENOENT, EOPNOTSUPP};
use types::osd_op::Extent;
use types::{ByteStr, Bytes, EntityInst, OsdOp, UTime};

/// Objects that one call may gather from.
const GATHER_MAX: usize = 1024;

/// The object as a method sees it.
struct View<'e, 'a> {
    exec: &'e mut Exec<'a>,
    subop: u32,
    /// Bytes that it may still write: as many as a request may bring.
    write_left: u64,
    rng: Rng,
    /// Why the request can't be planned now, behind a [`ClsError::Wait`].
    stop: Option<PlanStop>,
}

impl Exec<'_> {
    pub fn op_call(&mut self, op: &OsdOp, indata: &Bytes, subop: u32) -> Step<Answer> {
        let args = op.call();
        let (class_end, method_end) = (args.class_len as usize, args.class_len as usize + args.method_len as usize);
        let end = method_end + args.indata_len as usize;
        if indata.len() < end {
            return fail(EINVAL);
        }
        let Some(method) = self.ctx.classes.method(&indata[..class_end], &indata[class_end..method_end]) else { return fail(EOPNOTSUPP) };
        let writes = method.flags & METHOD_WR != 0;
        self.user_modify |= writes;
        let (reads_before, writes_before) = (self.num_read, self.num_write);
        let rng = Rng::new(self.ctx.entropy ^ u64::from(subop).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let write_left = self.ctx.limits.write_size_max;
        let mut view = View { exec: self, subop, write_left, rng, stop: None };
        let result = (method.call)(&mut view, indata.slice(method_end..end));
        if let Some(stop) = view.stop {
            return Err(Stop::Plan(stop));
        }
        let undeclared_read = self.num_read > reads_before && method.flags & METHOD_RD == 0;
        let undeclared_write = self.num_write > writes_before && !writes;
        if undeclared_read || undeclared_write {
            return fail(EIO);
        }
        match result {
            Ok(reply) if reply.code < 0 => Err(Stop::Data(reply.code, reply.data)),
            Ok(reply) => Ok((reply.code, reply.data.into())),
            Err(ClsError::Errno(errno)) => fail(errno),
            Err(ClsError::Wait) => Err(Stop::Plan(PlanStop::Wait(ANY_TICKET))),
        }
    }
}

fn pairs_bytes(pairs: &[(ByteStr, Bytes)]) -> usize {
    pairs.iter().map(|(key, value)| key.len() + value.len()).sum()
}

impl View<'_, '_> {
    fn cls<T>(&mut self, step: Step<T>) -> ClsResult<T> {
        step.map_err(|stop| match stop {
            Stop::Code(code) | Stop::Data(code, _) => ClsError::Errno(-code),
            Stop::Plan(stop) => {
                self.stop.get_or_insert(stop);
                ClsError::Wait
            }
        })
    }
    /// What a change came to. Each has its price, however little it changes.
    fn unit(&mut self, step: Step<Answer>) -> ClsResult<()> {
        let paid = self.exec.costs.make(CHANGE_BYTES);
        self.cls(paid.and(step)).map(drop)
    }
    /// Counts what a call writes; EMSGSIZE, as for a request that is too large, when it is too much.
    fn spend_write(&mut self, bytes: usize) -> ClsResult<()> {
        self.write_left = self.write_left.checked_sub(bytes as u64).ok_or(ClsError::Errno(EMSGSIZE))?;
        let paid = self.exec.costs.make(bytes as u64);
        self.cls(paid)
    }
    fn wish<'w>(&self, after: &'w [u8], prefix: &'w [u8], max: u64, values: bool) -> PageWish<'w> {
        let limits = self.exec.ctx.limits;
        PageWish { after, prefix, entries_max: max.min(limits.omap_entries_max), bytes_max: limits.omap_bytes_max, values }
    }
}

impl ObjectView for View<'_, '_> {
    fn stat(&mut self) -> ClsResult<(u64, UTime)> {
        if !self.exec.visible() {
            return Err(ClsError::Errno(ENOENT));
        }
        Ok((self.exec.info.size, self.exec.info.mtime))
    }
    fn read(&mut self, offset: u64, length: u64) -> ClsResult<Bytes> {
        let out = self.exec.read(Extent { offset, length, ..Extent::default() });
        Ok(self.cls(out)?.flat())
    }
    fn create(&mut self, exclusive: bool) -> ClsResult<()> {
        let step = self.exec.create(exclusive);
        self.unit(step)
    }
    fn remove(&mut self) -> ClsResult<()> {
        let step = self.exec.remove();
        self.unit(step)
    }
    fn write(&mut self, offset: u64, data: Bytes) -> ClsResult<()> {
        self.spend_write(data.len())?;
        let step = self.exec.write(Extent { offset, length: data.len() as u64, ..Extent::default() }, data, 0);
        self.unit(step)
    }
    fn write_full(&mut self, data: Bytes) -> ClsResult<()> {
        self.spend_write(data.len())?;
        let step = self.exec.write_full(data, 0);
        self.unit(step)
    }
    fn truncate(&mut self, size: u64) -> ClsResult<()> {
        let step = self.exec.truncate(Extent { offset: size, ..Extent::default() });
        self.unit(step)
    }
    fn zero(&mut self, offset: u64, length: u64) -> ClsResult<()> {
        let step = self.exec.zero(Extent { offset, length, ..Extent::default() });
        self.unit(step)
    }
    fn snap_revert(&mut self, snap: u64) -> ClsResult<()> {
        let step = self.exec.rollback(snap);
        self.unit(step)
    }

    fn getxattr(&mut self, name: &[u8]) -> ClsResult<Bytes> {
        let value = self.exec.attr(name);
        self.cls(value)
    }
    fn getxattrs(&mut self) -> ClsResult<Vec<(ByteStr, Bytes)>> {
        let attrs = self.exec.attrs();
        Ok(self.cls(attrs)?.into_iter().collect())
    }
    fn setxattr(&mut self, name: &[u8], value: Bytes) -> ClsResult<()> {
        self.spend_write(name.len() + value.len())?;
        let step = self.exec.set_attr(name, value);
        self.unit(step)
    }
    fn rmxattr(&mut self, name: &[u8]) -> ClsResult<()> {
        let step = self.exec.rm_attr(name);
        self.unit(step)
    }

    fn omap_header(&mut self) -> ClsResult<Bytes> {
        let header = self.exec.omap_header();
        self.cls(header)
    }
    fn omap_keys(&mut self, after: &[u8], max: u64) -> ClsResult<KeyPage> {
        let wish = self.wish(after, &[], max, false);
        let page = self.exec.omap_page(wish);
        let (pairs, more) = self.cls(page)?;
        Ok((pairs.into_iter().map(|(key, _)| key).collect(), more))
    }
    fn omap_vals(&mut self, after: &[u8], prefix: &[u8], max: u64) -> ClsResult<ValPage> {
        let wish = self.wish(after, prefix, max, true);
        let page = self.exec.omap_page(wish);
        self.cls(page)
    }
    fn omap_val(&mut self, key: &[u8]) -> ClsResult<Bytes> {
        let found = self.exec.omap_get(&[ByteStr::from(key)]);
        self.cls(found)?.into_values().next().ok_or(ClsError::Errno(ENOENT))
    }
    fn omap_vals_by_keys(&mut self, keys: &[ByteStr]) -> ClsResult<Vec<(ByteStr, Bytes)>> {
        let found = self.exec.omap_get(keys);
        Ok(self.cls(found)?.into_iter().collect())
    }
    fn omap_set(&mut self, vals: Vec<(ByteStr, Bytes)>) -> ClsResult<()> {
        self.spend_write(pairs_bytes(&vals))?;
        let step = self.exec.omap_set(vals);
        self.unit(step)
    }
    fn omap_set_header(&mut self, header: Bytes) -> ClsResult<()> {
        self.spend_write(header.len())?;
        let step = self.exec.omap_set_header(header);
        self.unit(step)
    }
    fn omap_remove(&mut self, keys: Vec<ByteStr>) -> ClsResult<()> {
        let step = self.exec.omap_remove(keys);
        self.unit(step)
    }
    fn omap_remove_range(&mut self, first: &[u8], end: &[u8]) -> ClsResult<()> {
        let step = self.exec.omap_remove_range(first.into(), end.into());
        self.unit(step)
    }
    fn omap_clear(&mut self) -> ClsResult<()> {
        let step = self.exec.omap_clear();
        self.unit(step)
    }

    fn origin(&self) -> EntityInst {
        EntityInst { name: self.exec.ctx.reqid.name, addr: *self.exec.ctx.peer_addr }
    }
    fn version(&self) -> u64 {
        self.exec.obj.info.user_version
    }
    fn subop(&self) -> u32 {
        self.subop + self.exec.num_read + self.exec.num_write
    }
    fn now(&self) -> UTime {
        self.exec.ctx.now
    }
    fn snapset_seq(&self) -> ClsResult<u64> {
        let exec = &self.exec;
        let is_there = exec.exists && !(exec.info.is_whiteout() && exec.snapset.clones.is_empty());
        if is_there { Ok(exec.snapset.seq) } else { Err(ClsError::Errno(ENOENT)) }
    }
    fn gather(
        &mut self,
        pool: &str,
        objects: &[ByteStr],
        class: &[u8],
        method: &[u8],
        input: Bytes,
    ) -> ClsResult<BTreeMap<ByteStr, Bytes>> {
        if class.len() > u8::MAX.into() || method.len() > u8::MAX.into() || objects.len() > GATHER_MAX {
            return Err(ClsError::Errno(EINVAL));
        }
        if objects.is_empty() {
            return Ok(BTreeMap::new());
        }
        let source = CallSource { pool: pool.into(), objects: objects.to_vec(), class: class.into(), method: method.into(), input };
        let wanted = Wanted::Calls(source);
        match self.exec.fetched(&wanted) {
            Some(Got::Calls(answers)) => Ok(answers.clone()),
            _ => {
                self.stop.get_or_insert(PlanStop::Fetch(Box::new(Lack::new(wanted))));
                Err(ClsError::Wait)
            }
        }
    }
    fn kept(&mut self) -> Option<Kept> {
        self.exec.ctx.passes.and_then(|passes| passes.take(self.subop, self.exec.info.version))
    }
    fn keep(&mut self, kept: Kept) {
        if let Some(passes) = self.exec.ctx.passes {
            passes.keep(self.subop, self.exec.info.version, kept);
        }
    }
    fn pause(&mut self) -> Option<ClsError> {
        self.exec.ctx.passes?;
        self.stop.get_or_insert(PlanStop::Wait(NEXT_TURN));
        Some(ClsError::Wait)
    }
    fn watchers(&mut self) -> ClsResult<Vec<Watcher>> {
        self.exec.num_read += 1;
        let watcher = |(&(cookie, name), watch): (&(u64, types::EntityName), &types::WatchInfo)| Watcher {
            name,
            cookie,
            timeout_s: watch.timeout_s,
            addr: watch.addr,
        };
        Ok(self.exec.info.watchers.iter().map(watcher).collect())
    }
    fn client_features(&self) -> u64 {
        self.exec.ctx.peer_features
    }
    fn client_supported(&self) -> u64 {
        self.exec.ctx.peer_supported
    }
    fn min_compat_client(&self) -> u8 {
        self.exec.ctx.min_compat_client
    }
    fn required_osd_release(&self) -> u8 {
        self.exec.ctx.required_osd_release
    }
    fn random(&mut self, out: &mut [u8]) {
        self.rng.fill(out);
    }
}
