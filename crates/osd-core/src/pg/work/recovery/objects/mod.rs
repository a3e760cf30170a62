//! Who recovers what, and when: one group's recovery as a value, on its primary and on its other members.
//!
//! ```text
//!            we lack it, a member has it             ┌── more ──┐
//!   queued ──────────────────────────────▶ Pulling ──┴──────────┘
//!    │ ▲ ▲                                  │   │ whole here
//!    │ │ └──── that member hasn't got it ───┘   ▼
//!    │ └── a member turns up               others lack it, or its deletion
//!    │     Unfound ◀── no member has it         │
//!    └──────────────────────────────────────────┴────▶ Pushing ── each has answered its last part ──▶ recovered
//!    ▲                                                    │
//!    └──── our copy is damaged, another member has it ────┘
//! ```
//!
//! The primary pulls what it lacks itself, then pushes to each member what that lacks; a head goes before its clones, what a client waits for
//! before everything else. An object that is under way is not written: writes wait until no member lacks it, so a push sees one version from its
//! first part to its last. What a member answers late, or twice, finds nothing under way and changes nothing.
//!
//! What no client waits for begins when the group lets it ([`Recovery::set_gates`]: reservations, flags of the map); deletions before all else, also
//! where members are too full for more, as they make room. When no member lacks anything,
//! backfill goes on ([`crate::pg::work::backfill`]): what it wants sent is pushed like everything else. Holds no message frame and no transaction of
//! its own.
//!
//! Here: its state, and what the group asks of it. [`turn`]: which object begins next; [`pull`], [`push`]: objects on their way here and to members;
//! [`said`]: what members say.

mod pull;
mod push;
mod said;
mod turn;

use super::apply::Incoming;
use super::gather::Gathering;
use super::host::{Host, Part, Slots};
use crate::pg::members::peering::Lacking;
use crate::pg::reconcile::missing::Missing;
use crate::pg::short_name::ShortName;
use crate::pg::work::backfill::fill::Backfill;
use crate::work::{For, Work};
use base::Stamp;
use push::Sent;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use types::{HObject, ObjectStatSum, PgShard, Transaction};

/// An object that is under way.
#[derive(Debug)]
enum Step {
    /// We lack it; other members send it.
    Pulling(Box<Gathering>),
    /// It is here, or deleted; these lack that.
    Pushing(BTreeMap<PgShard, Sent>),
}

/// An object under way, and whether it has one of the OSD's [`Slots`].
#[derive(Debug)]
struct Active {
    step: Step,
    has_slot: bool,
    since: Stamp,
    /// Members whose next part the store did not give yet.
    due: BTreeSet<PgShard>,
}

/// One group's recovery. Its memory is bounded by the objects that members lack.
#[derive(Debug)]
pub struct Recovery {
    slots: Rc<Slots>,
    /// Clients wait for these.
    wanted: VecDeque<HObject>,
    /// Objects that are deleted, wherever they are lacking.
    deletions: VecDeque<ShortName>,
    queue: VecDeque<ShortName>,
    active: BTreeMap<HObject, Active>,
    /// Clones that wait for their head, by its name.
    behind: BTreeMap<HObject, Vec<HObject>>,
    unfound: BTreeSet<HObject>,
    /// Members that have an object by what they said, and could not send it.
    disappointed: BTreeMap<HObject, BTreeSet<PgShard>>,
    incoming: Incoming,
    /// Messages that the store could not serve yet, in order.
    parked: VecDeque<(PgShard, Part)>,
    work: Work,
    recovered: ObjectStatSum,
    gates: Gates,
    backfill: Option<Box<Backfill>>,
    /// No object begins before this: `osd_recovery_sleep`, and the share of the time that clients leave.
    sleeps_until: Option<Stamp>,
}

/// What the group lets recovery begin with, besides what clients wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gates {
    pub recovery: bool,
    /// What takes no room.
    pub deletions: bool,
    pub backfill: bool,
}

/// Lacking objects of every member of the group.
fn sets(host: &dyn Host) -> impl Iterator<Item = &Missing> {
    std::iter::once(host.missing()).chain(host.members().into_iter().filter_map(|member| host.missing_of(member)))
}

impl Recovery {
    pub fn new(slots: Rc<Slots>) -> Self {
        Self {
            slots,
            wanted: VecDeque::new(),
            deletions: VecDeque::new(),
            queue: VecDeque::new(),
            active: BTreeMap::new(),
            behind: BTreeMap::new(),
            unfound: BTreeSet::new(),
            disappointed: BTreeMap::new(),
            incoming: Incoming::default(),
            parked: VecDeque::new(),
            work: Work::Idle,
            recovered: ObjectStatSum::default(),
            gates: Gates { recovery: true, deletions: true, backfill: true },
            backfill: None,
            sleeps_until: None,
        }
    }

    // Questions and orders of the group.

    /// The group is active, and we are its primary: what is lacking where is known.
    pub fn begin(&mut self, host: &dyn Host) {
        let mut seen = BTreeSet::new();
        for (_, name) in sets(host).flat_map(Missing::by_need) {
            if seen.insert(name) {
                self.put(host, name);
            }
        }
        self.go_on();
    }
    fn put(&mut self, host: &dyn Host, name: &ShortName) {
        let is_deleted = sets(host).filter_map(|missing| missing.is_deletion(name)).all(|is_deletion| is_deletion);
        if is_deleted { self.deletions.push_back(name.clone()) } else { self.queue.push_back(name.clone()) }
    }
    /// Members lack an object that they had.
    pub fn add(&mut self, obj: &HObject) {
        self.queue.push_back(ShortName::of(obj));
        self.go_on();
    }
    /// Another member said what it has: what was not found may be there.
    pub fn look_again(&mut self) {
        self.disappointed.clear();
        self.queue.extend(std::mem::take(&mut self.unfound).iter().map(ShortName::of));
        self.go_on();
    }
    /// A map of the same interval has members down, which were asked for objects: others are asked.
    pub fn gone(&mut self, host: &mut dyn Host, is_gone: &dyn Fn(PgShard) -> bool) {
        let pulled = |(obj, active): (&HObject, &Active)| match &active.step {
            Step::Pulling(gathering) if gathering.sources().any(is_gone) => Some(obj.clone()),
            _ => None,
        };
        let lost: Vec<HObject> = self.active.iter().filter_map(pulled).collect();
        lost.into_iter().for_each(|obj| self.ask_another(host, obj));
    }
    /// The interval is over. What the store is to do away with is returned.
    #[must_use]
    pub fn end_interval(&mut self, host: &dyn Host) -> Transaction {
        let mut txn = Transaction::new(host.coll());
        self.incoming.end_interval(host.coll(), &mut txn);
        self.release();
        let recovered = self.recovered;
        *self = Self::new(self.slots.clone());
        self.recovered = recovered;
        txn
    }
    /// What may begin from now on.
    pub fn set_gates(&mut self, gates: Gates) {
        if self.gates != gates {
            if gates.backfill && !self.gates.backfill {
                self.backfill.iter_mut().for_each(|backfill| backfill.resume());
            }
            let opens = gates.recovery && !self.gates.recovery
                || gates.deletions && !self.gates.deletions
                || gates.backfill && !self.gates.backfill;
            self.gates = gates;
            if opens {
                self.go_on();
            }
        }
    }
    /// The group's targets are to be filled: from where they are, or, if that was begun, from where it was left.
    pub fn begin_backfill(&mut self, host: &dyn Host) {
        if self.backfill.is_none() {
            self.backfill = Some(Box::new(Backfill::begin(host)));
        }
        self.go_on();
    }
    /// The same from the beginning: what targets have was changed in another way than by writes.
    pub fn restart_backfill(&mut self, host: &dyn Host) {
        if self.backfill.take().is_some() {
            self.begin_backfill(host);
        }
    }
    pub fn backfill(&self) -> Option<&Backfill> {
        self.backfill.as_deref()
    }
    pub fn backfill_mut(&mut self) -> Option<&mut Backfill> {
        self.backfill.as_deref_mut()
    }
    /// Nothing is on its way any more to an object that a backfill may wait for.
    pub fn is_free_again(&mut self) {
        if let Some(backfill) = &mut self.backfill {
            backfill.wake();
            self.go_on();
        }
    }
    /// Until when nothing new begins.
    pub fn sleeps_until(&self) -> Option<Stamp> {
        self.sleeps_until
    }
    /// It is that late.
    pub fn woken(&mut self, now: Stamp) {
        if self.sleeps_until.is_some_and(|until| until <= now) {
            self.sleeps_until = None;
            self.go_on();
        }
    }
    /// True if a request on this head's name has to wait: a read for what we lack, a write for what any member lacks.
    pub fn is_lacking(host: &dyn Host, head: &HObject, writes: bool) -> bool {
        if writes {
            sets(host).any(|missing| missing.of_name(head).next().is_some())
        } else {
            host.missing().of_name(head).next().is_some()
        }
    }
    /// A client waits for this head's name: it goes first.
    pub fn want(&mut self, host: &dyn Host, head: &HObject) {
        let names: BTreeSet<HObject> = sets(host).flat_map(|missing| missing.of_name(head)).collect();
        // The head is the last by name, and is to be the first.
        for name in names.into_iter().rev() {
            if !self.active.contains_key(&name) && !self.unfound.contains(&name) && !self.wanted.contains(&name) {
                self.wanted.push_back(name);
            }
        }
        self.go_on();
    }

    pub fn work(&self) -> Work {
        match self.work {
            // Another group's object may have made room.
            Work::Waiting(For::Peer) if self.may_start() => Work::Busy,
            work => work,
        }
    }
    pub fn work_mut(&mut self) -> &mut Work {
        &mut self.work
    }
    pub fn unfound(&self) -> impl ExactSizeIterator<Item = &HObject> {
        self.unfound.iter()
    }
    /// True while objects are being built of parts.
    pub fn is_building(&self) -> bool {
        !self.incoming.is_empty()
    }
    /// Objects under way.
    pub fn under_way(&self) -> usize {
        self.active.len()
    }
    pub fn is_done(&self) -> bool {
        let waits = !self.queue.is_empty() || !self.deletions.is_empty() || !self.wanted.is_empty();
        !waits && self.active.is_empty() && self.behind.is_empty()
    }
    pub fn lacking(&self, host: &dyn Host) -> Lacking {
        let on_primary = host.missing().len() as u64;
        let copies = sets(host).map(|missing| missing.len() as u64).sum();
        Lacking { on_primary, copies, unfound: self.unfound.len() as u64 }
    }
    /// Objects, bytes and keys recovered since it was asked last.
    pub fn take_recovered(&mut self) -> ObjectStatSum {
        std::mem::take(&mut self.recovered)
    }

    /// Nothing is under way any more.
    fn release(&mut self) {
        let slots = self.active.values().filter(|active| active.has_slot).count();
        self.active.clear();
        self.slots.give_back(slots);
    }
}

/// A group may go at any time.
impl Drop for Recovery {
    fn drop(&mut self) {
        self.release();
    }
}
