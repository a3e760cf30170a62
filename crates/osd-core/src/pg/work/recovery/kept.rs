//! A group's state of recovery: its rules while they rest, the requests that wait for objects, and what its store was given.
//!
//! Holds no rule and sends nothing: see [`super::objects`] and [`super::traffic`].

use super::host::{Part, Slots};
use super::objects::Recovery;
use crate::event::ConnId;
use crate::request::ClientOp;
use crate::shared::Cx;
use crate::work::{Status, Work};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use types::{Epoch, HObject, PgMissingItem, PgShard, SpgId};

/// A change that recovery gave to our store.
pub(in crate::pg) struct Given {
    /// The object that we have with it, as it was lacked.
    pub got: Option<(HObject, PgMissingItem)>,
    /// What is sent when it is durable; nothing if its interval is over.
    pub then: Option<(PgShard, Part)>,
}

/// What a group has for its recovery.
pub(in crate::pg) struct Kept {
    /// Away while it works.
    pub recovery: Option<Box<Recovery>>,
    /// Requests that wait for an object, by its head; each is one that the OSD's budget has let in.
    pub waiting: BTreeMap<HObject, VecDeque<Box<ClientOp>>>,
    /// What was given to our store and is not durable yet, in order.
    pub given: VecDeque<Given>,
    /// Objects that fewer members lack than before, to be told to their requests.
    pub nearer: Vec<HObject>,
    /// What an earlier life of the OSD left half built is gone.
    pub is_swept: bool,
    /// The epoch that the primary's last question to us as a backfill target named. The primary takes no answer with an older one, and ours may be older:
    /// a primary that was made in the midst of an interval counts from when it was made.
    pub asked_by: Epoch,
}

impl Kept {
    pub fn new(slots: &Rc<Slots>) -> Self {
        Self {
            recovery: Some(Box::new(Recovery::new(slots.clone()))),
            waiting: BTreeMap::new(),
            given: VecDeque::new(),
            nearer: Vec::new(),
            is_swept: false,
            asked_by: 0,
        }
    }
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_deref()
    }
    /// True if all that recovery has given to our own store is durable.
    pub fn is_durable(&self) -> bool {
        self.given.is_empty()
    }
    /// True if an object of this name came by recovery and is not durable here. Another member may have the only copy that outlives a crash: a write
    /// that reaches that one, and then is taken back because we died without it, would leave none.
    pub fn is_young(&self, head: &HObject) -> bool {
        self.given.iter().filter_map(|given| given.got.as_ref()).any(|(obj, _)| obj.head() == *head)
    }
    pub fn recovery_mut(&mut self) -> Option<&mut Recovery> {
        self.recovery.as_deref_mut()
    }
    pub fn run(&mut self) -> &mut Recovery {
        self.recovery.as_mut().expect("it is away only while it works")
    }
    pub fn work(&self) -> Work {
        self.recovery.as_ref().map_or(Work::Idle, |recovery| recovery.work())
    }
    pub fn work_mut(&mut self) -> &mut Work {
        self.run().work_mut()
    }
    pub fn unfound(&self) -> impl Iterator<Item = &HObject> {
        self.recovery.iter().flat_map(|recovery| recovery.unfound())
    }
    pub fn has_unfound(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.unfound().len() > 0)
    }
    /// Requests that wait.
    pub fn requests(&self) -> impl Iterator<Item = &ClientOp> {
        self.waiting.values().flatten().map(|op| &**op)
    }
    /// A connection is gone with its requests.
    pub fn reset(&mut self, conn: ConnId) {
        self.waiting.retain(|_, ops| {
            ops.retain(|op| op.conn != conn);
            !ops.is_empty()
        });
    }
    pub fn end_requests(&mut self) -> impl Iterator<Item = Box<ClientOp>> {
        std::mem::take(&mut self.waiting).into_values().flatten()
    }
    /// How many objects are not found.
    pub fn unfound_len(&self) -> u64 {
        self.recovery.as_ref().map_or(0, |recovery| recovery.unfound().len() as u64)
    }
    /// Recovery may sleep between objects: when it is to be woken.
    pub fn note_sleep(&self, cx: &mut Cx<'_>) {
        if let Some(at) = self.recovery().and_then(Recovery::sleeps_until) {
            cx.sh.wishes.wake_at(at);
        }
    }
    /// Its row among the work that is shown.
    pub fn status(&self, pgid: SpgId) -> Option<Status> {
        let recovery = self.recovery.as_ref().filter(|recovery| !recovery.is_done() || recovery.backfill().is_some())?;
        let progress = format!("{} objects under way, {} unfound", recovery.under_way(), recovery.unfound().len());
        let what = if recovery.backfill().is_some() { "backfill" } else { "recovery" };
        Some(Status { what, pgid: Some(pgid), work: recovery.work(), progress })
    }
}
