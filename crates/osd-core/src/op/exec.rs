//! The state of one request while its operations run, one after the other.
//!
//! Holds what every operation works on ([`Exec`]), how results of a vector combine, and how an object is read: a missing one has nothing,
//! and what must be fetched stops the plan. The operations themselves are in the modules beside.

use super::costs::Costs;
use super::mods::Mods;
use super::plan::{ObjectContext, OpResult, OutData, PlanCtx, PlanStop, WatchEffect};
use super::source::Source;
use crate::planted::{Bug, planted};
use base::crc32c;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use store::{OmapFrom, StoreError, StoreResult};
use types::errno::EAGAIN;
use types::osd_op::{OpCode, op_flag};
use types::{ByteStr, Bytes, GHObject, IntervalSet, ObjectCleanRegions, ObjectInfo, ObjectStatSum, OsdOp, SnapSet, Transaction};

/// Why an operation does not succeed.
#[derive(Debug)]
pub(super) enum Stop {
    /// Its result: a negative errno (or, for CMPEXT, a place below them).
    Code(i32),
    /// A result with data: what a class method may answer.
    Data(i32, Bytes),
    /// The request as a whole can't be planned now.
    Plan(PlanStop),
}

impl Stop {
    /// Of something that has no result of its own.
    fn into_plan(self) -> PlanStop {
        match self {
            Self::Plan(stop) => stop,
            Self::Code(code) | Self::Data(code, _) => PlanStop::Reply(-code),
        }
    }
}

pub(super) type Step<T> = Result<T, Stop>;

/// Ends an operation with an errno.
pub(super) fn fail<T>(errno: i32) -> Step<T> {
    Err(Stop::Code(-errno))
}

/// What an operation answers if all goes well: its return value and its data.
pub(super) type Answer = (i32, OutData);

pub(super) fn done() -> Step<Answer> {
    Ok((0, OutData::new()))
}
pub(super) fn answer(bytes: impl Into<OutData>) -> Step<Answer> {
    Ok((0, bytes.into()))
}

pub(super) struct Exec<'a> {
    pub ctx: &'a PlanCtx<'a>,
    pub source: Source<'a>,
    /// The object as it was before the request.
    pub obj: &'a ObjectContext,
    /// Its name in the store.
    pub gobj: GHObject,
    pub exists: bool,
    pub info: Cow<'a, ObjectInfo>,
    pub snapset: Cow<'a, SnapSet>,
    pub txn: Transaction,
    /// The data of the op that runs and its crc32c from `u32::MAX` on, if that is known from the wire.
    known_crc: Option<(Bytes, u32)>,
    /// The object's record changes although the transaction may be empty.
    pub modify: bool,
    /// Clients see the change: the user version goes up.
    pub user_modify: bool,
    pub undirty: bool,
    /// The object's time of change is not the client's.
    pub keeps_mtime: bool,
    /// The store's object was removed and made anew: attributes must be written again.
    pub recreated: bool,
    /// What was changed so far, if a later operation of the request may read it.
    pub mods: Mods,
    /// Ranges that newer states no longer share with the newest clone; only kept for objects with snapshots.
    pub modified: IntervalSet,
    pub tracks_ranges: bool,
    pub clean: Option<ObjectCleanRegions>,
    pub stats: ObjectStatSum,
    pub effects: Vec<WatchEffect>,
    pub notifies: u64,
    /// Bytes that its notifies will hold.
    pub notify_bytes: u64,
    /// Reading and writing operations so far, by which a class method's flags are held to what it does.
    pub num_read: u32,
    pub num_write: u32,
    pub data_off: Option<u64>,
    /// What the request may still cost.
    pub costs: Costs,
    /// Sizes of the attributes that clients set, by stored names, once one was looked for.
    pub attr_sizes: Option<BTreeMap<ByteStr, usize>>,
    /// An omap went with an object that this request removed. It is read until it is cleared, too.
    pub omap_removed: bool,
}

impl<'a> Exec<'a> {
    pub fn new(ctx: &'a PlanCtx<'a>, source: Source<'a>, obj: &'a ObjectContext, snapset: &'a SnapSet, ops: &[messages::InOp]) -> Self {
        Self {
            ctx,
            source,
            obj,
            gobj: source.name(obj.hobj().clone()),
            exists: obj.exists,
            info: Cow::Borrowed(&obj.info),
            snapset: Cow::Borrowed(snapset),
            txn: Transaction::new(source.coll()),
            known_crc: None,
            modify: false,
            user_modify: false,
            undirty: false,
            keeps_mtime: false,
            recreated: !obj.exists,
            mods: Mods::new(ops.len() > 1 || ops.iter().any(|op| op.op.code == OpCode::CALL)),
            modified: IntervalSet::new(),
            tracks_ranges: !snapset.clones.is_empty() || !ctx.snapc.snaps.is_empty(),
            clean: None,
            stats: ObjectStatSum::default(),
            effects: Vec::new(),
            notifies: 0,
            notify_bytes: 0,
            num_read: 0,
            num_write: 0,
            data_off: None,
            costs: Costs::new(ctx.limits),
            attr_sizes: None,
            omap_removed: false,
        }
    }

    /// The crc32c of data from `u32::MAX` on: the messenger's, if these very bytes are the op's whole data.
    pub fn crc_of(&self, data: &Bytes) -> u32 {
        let is_it = |known: &Bytes| known.as_ptr() == data.as_ptr() && known.len() == data.len();
        match &self.known_crc {
            Some((known, crc)) if is_it(known) => *crc,
            _ => crc32c(u32::MAX, data),
        }
    }
    /// Runs the vector. The overall result is the last operation's, or that of the first that fails and may not.
    pub fn run(&mut self, ops: &[messages::InOp]) -> Result<(i32, SmallVec<[OpResult; 1]>), PlanStop> {
        let mut results = SmallVec::with_capacity(ops.len());
        let mut result = 0;
        for (index, op) in ops.iter().enumerate() {
            self.known_crc = op.crc.map(|crc| (op.indata.clone(), crc));
            let stays = self.keeps_result(&op.op);
            let (rval, out) = match self.one(&op.op, &op.indata, index as u32) {
                // An operation that has no result of its own shows that of the one before it (18.2, `do_osd_ops`).
                Ok((0, out)) if stays => (result, out),
                Ok(answer) => answer,
                Err(Stop::Code(code)) => (code, OutData::new()),
                Err(Stop::Data(code, data)) => (code, data.into()),
                Err(Stop::Plan(PlanStop::Fetch(mut lack))) => {
                    lack.behind(results.iter().map(|result: &OpResult| result.rval));
                    return Err(PlanStop::Fetch(lack));
                }
                Err(Stop::Plan(stop)) => return Err(stop),
            };
            self.costs.answer(out.len() as u64).map_err(Stop::into_plan)?;
            results.push(OpResult { rval, out });
            result = rval;
            if rval < 0 {
                if op.op.has(op_flag::FAILOK) && rval != -EAGAIN {
                    result = 0;
                    continue;
                }
                results.resize_with(ops.len(), OpResult::default);
                break;
            }
        }
        Ok((result, results))
    }

    /// True if there is something for a reader.
    pub fn visible(&self) -> bool {
        self.exists && !self.info.is_whiteout()
    }
    pub fn info_mut(&mut self) -> &mut ObjectInfo {
        self.info.to_mut()
    }
    pub fn dirty_data(&mut self, offset: u64, length: u64) {
        let clean = self.clean.get_or_insert_default();
        if !planted(Bug::ForgetDataDirty) {
            clean.mark_data_dirty(offset, length);
        }
    }
    pub fn dirty_omap(&mut self) {
        let clean = self.clean.get_or_insert_default();
        if !planted(Bug::ForgetOmapDirty) {
            clean.mark_omap_dirty();
        }
    }
    /// Notes that the newest clone no longer shares this range with the head.
    pub fn unshare(&mut self, offset: u64, length: u64) {
        if self.tracks_ranges && length > 0 {
            self.modified.insert(offset, length);
        }
    }
}

/// What the store gave; the default for an object that it does not have (this request has just made it, or will).
fn given<T: Default>(result: StoreResult<T>) -> Step<T> {
    match result {
        Ok(value) => Ok(value),
        Err(StoreError::NoObject(..)) => Ok(T::default()),
        Err(other) => Err(Stop::Plan(other.into())),
    }
}

impl Exec<'_> {
    pub fn store_read(&self, obj: &GHObject, offset: u64, length: u64) -> Step<OutData> {
        given(self.source.read(obj, offset, length))
    }
    /// Several ranges, one after the other.
    pub fn store_read_ranges(&self, obj: &GHObject, ranges: &[(u64, u64)]) -> Step<OutData> {
        given(self.source.read_ranges(obj, &ranges.iter().copied().collect()))
    }
    pub fn store_extents(&self, obj: &GHObject, offset: u64, length: u64) -> Step<Vec<(u64, u64)>> {
        Ok(given(self.source.extents(obj, offset, length))?.as_slice().to_vec())
    }
    pub fn store_attr(&self, obj: &GHObject, stored_name: &ByteStr) -> Step<Option<Bytes>> {
        given(self.source.attr(obj, stored_name.as_slice()))
    }
    pub fn store_attrs(&self, obj: &GHObject) -> Step<Vec<(ByteStr, Bytes)>> {
        given(self.source.attrs(obj))
    }
    pub fn store_omap_header(&self, obj: &GHObject) -> Step<Bytes> {
        given(self.source.omap_header(obj))
    }
    pub fn store_omap_get(&self, obj: &GHObject, keys: &[ByteStr]) -> Step<Vec<(ByteStr, Bytes)>> {
        given(self.source.omap_get(obj, keys))
    }
    /// Shows pairs in order until `visit` has enough (false).
    pub fn store_omap_scan(&self, obj: &GHObject, from: OmapFrom<'_>, visit: &mut dyn FnMut(&ByteStr, &Bytes) -> bool) -> Step<()> {
        let mut visit = |key: &ByteStr, value: &Bytes| if visit(key, value) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        given(self.source.omap_scan(obj, from, &mut visit))
    }
}

/// Kilobytes, rounded up: how statistics count bytes.
pub(super) fn kb(bytes: u64) -> i64 {
    bytes.div_ceil(1024) as i64
}

/// Whether a write of this code is one that clients see in the object's user version.
pub(super) fn is_user_change(op: &OsdOp) -> bool {
    op.code.is_write()
        && !matches!(
            op.code,
            OpCode::WATCH
                | OpCode::UNDIRTY
                | OpCode::COPY_FROM
                | OpCode::COPY_FROM2
                | OpCode::CACHE_PIN
                | OpCode::CACHE_UNPIN
                | OpCode::SET_REDIRECT
                | OpCode::TIER_PROMOTE
        )
}
