//! What clients asked and what they were answered, in the order in which it happened; and the snapshots that they know of.

use crate::model::{Op, Outcome, Snaps};
use std::collections::{BTreeMap, BTreeSet};

/// An answer of a device that can't read, and of one that is full.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// One operation of one client.
#[derive(Debug, Clone)]
pub struct Call {
    pub client: u32,
    pub object: u32,
    pub op: Op,
    /// What a write comes with.
    pub snaps: Snaps,
    /// When a write was called, on the wall.
    pub mtime_ns: u64,
    /// The object's version that some client had seen before the call.
    floor: u64,
    /// Called when its client was shut out: it must have no effect, and no success.
    pub is_barred: bool,
    /// The answer; `None`: it never came, so the operation may have taken effect at any time, or not at all.
    pub outcome: Option<Outcome>,
}

/// Something that a client saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Called(usize),
    Returned(usize),
    /// From now on the call takes no effect that it has not taken.
    Expired(usize),
}

/// Snapshots that were made.
#[derive(Debug, Default, Clone)]
pub struct SnapTable {
    pub now: Snaps,
    /// Those whose removal was asked for.
    pub removed: BTreeSet<u64>,
    /// How many moments there were when their removal was asked for.
    removed_at: BTreeMap<u64, usize>,
    all: BTreeSet<u64>,
}

impl SnapTable {
    /// The monitor made a snapshot.
    ///
    /// # Errors
    /// It gave a number a second time.
    pub fn made(&mut self, snap: u64) -> Result<(), String> {
        if !self.all.insert(snap) {
            return Err(format!("the monitor gives the number {snap} to a second snapshot"));
        }
        self.now.seq = self.now.seq.max(snap);
        self.now.live.push(snap);
        self.now.live.sort_unstable_by(|a, b| b.cmp(a));
        Ok(())
    }
    /// A snapshot is going to be removed: no later call is to name it.
    fn removes(&mut self, snap: u64, moments: usize) {
        self.now.live.retain(|s| *s != snap);
        self.removed.insert(snap);
        self.removed_at.insert(snap, moments);
    }
}

/// See the module.
#[derive(Debug, Default, Clone)]
pub struct History {
    pub calls: Vec<Call>,
    pub moments: Vec<Moment>,
    pub snaps: SnapTable,
    /// The newest version of each object that a client has seen.
    newest: BTreeMap<u32, u64>,
    /// The first answer with a version that is older than one that was seen before the call.
    pub went_back: Option<String>,
    /// The first success of a write that was called when its client was shut out.
    pub got_past: Option<String>,
    /// An operation may fail since what it needs is damaged: nothing is known of it then.
    may_fail: bool,
    /// The same of one that finds no room.
    may_fill: bool,
}

impl History {
    pub fn new(may_fail: bool, may_fill: bool) -> Self {
        Self { may_fail, may_fill, ..Self::default() }
    }
    pub fn call(&mut self, client: u32, object: u32, op: Op) -> usize {
        let floor = self.newest.get(&object).copied().unwrap_or(0);
        let snaps = if op.is_read() { Snaps::default() } else { self.snaps.now.clone() };
        self.calls.push(Call { client, object, op, snaps, mtime_ns: 0, floor, is_barred: false, outcome: None });
        self.moments.push(Moment::Called(self.calls.len() - 1));
        self.calls.len() - 1
    }
    /// # Panics
    /// When a call returns twice: a client hears one answer.
    pub fn returned(&mut self, number: usize, outcome: Outcome, version: u64) {
        let call = &mut self.calls[number];
        assert!(call.outcome.is_none(), "call {number} is answered twice");
        if call.is_barred && outcome == Outcome::Done {
            let text = format!("call {number} of client {} on o{} succeeds, and the client is shut out", call.client, call.object);
            self.got_past.get_or_insert(text);
        }
        if self.may_fail && outcome == Outcome::Error(EIO) || self.may_fill && outcome == Outcome::Error(ENOSPC) {
            return;
        }
        let has_version = match (&call.op, &outcome) {
            (Op::Read, Outcome::Read(_)) => true,
            (Op::WriteFull(_) | Op::Write(..) | Op::Append(_) | Op::SetXattr(..) | Op::OmapSet(..), Outcome::Done) => true,
            _ => false,
        };
        if has_version {
            if version < call.floor && self.went_back.is_none() {
                let text =
                    format!("call {number} on o{} is answered with version {version}, and {} was seen before", call.object, call.floor);
                self.went_back = Some(text);
            }
            let newest = self.newest.entry(call.object).or_default();
            *newest = version.max(*newest);
        }
        call.outcome = Some(outcome);
        self.moments.push(Moment::Returned(number));
    }
    /// The call's client is shut out: what the call has not done by now it never does.
    pub fn expires(&mut self, number: usize) {
        self.moments.push(Moment::Expired(number));
    }
    /// The same of a call that was made when its client was shut out already.
    pub fn bars(&mut self, number: usize) {
        self.calls[number].is_barred = true;
    }
    /// A snapshot is going to be removed: no later call names it.
    pub fn removes(&mut self, snap: u64) {
        self.snaps.removes(snap, self.moments.len());
    }
    /// True if a write of this object that names a removed snapshot may have come after that was purged: what it kept stays, as stock's does until a
    /// scrub of snapshots.
    pub fn may_keep(&self, object: u32, snap: u64) -> bool {
        let Some(since) = self.snaps.removed_at.get(&snap) else { return true };
        let is_late = |call: usize| !self.moments[..*since].contains(&Moment::Returned(call));
        let names = |call: &Call| call.object == object && call.snaps.live.contains(&snap);
        self.calls.iter().enumerate().any(|(number, call)| names(call) && is_late(number))
    }
    /// True if a write of this object was never answered.
    pub fn has_open_write(&self, object: u32) -> bool {
        self.calls.iter().any(|call| call.object == object && !call.op.is_read() && call.outcome.is_none())
    }
    pub fn answered(&self) -> usize {
        self.calls.iter().filter(|c| c.outcome.is_some()).count()
    }
}
