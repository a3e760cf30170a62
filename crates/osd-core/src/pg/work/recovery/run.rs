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
//! backfill goes on ([`crate::pg::work::backfill`]): what it wants sent is pushed like everything else. Holds no message frame and no transaction of its own.

use super::apply::{self, ApplyStop, Incoming};
use super::gather::Gathering;
use super::host::{Change, Host, Part, Slots};
use crate::op::{PlanStop, load_object};
use crate::pg::backend::copies::cut::CutStop;
use crate::pg::backend::copies::subset::Neighbours;
use crate::pg::backend::name::name;
use crate::pg::logs::missing::Missing;
use crate::pg::members::peering::Lacking;
use crate::pg::work::backfill::run::{Backfill, Next};
use crate::pg::work::backfill::target;
use crate::planted::{Bug, planted};
use crate::work::{For, Work};
use base::Stamp;
use messages::{ObjectRecoveryInfo, ObjectRecoveryProgress, PushOp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use store::StoreError;
use types::{CollId, EVersion, HObject, ObjectStatSum, PgLogEntry, PgShard, Transaction};

/// An object that is under way.
#[derive(Debug)]
enum Step {
    /// We lack it; other members send it.
    Pulling(Box<Gathering>),
    /// It is here, or deleted; these lack that.
    Pushing(BTreeMap<PgShard, Sent>),
}

/// What a member was sent of an object.
#[derive(Debug)]
enum Sent {
    Nothing,
    /// Parts up to this.
    Parts(Box<ObjectRecoveryInfo>, ObjectRecoveryProgress),
    /// That it is deleted.
    Deletion,
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

/// One group's recovery. What it remembers is bounded by what members lack.
#[derive(Debug)]
pub struct Recovery {
    slots: Rc<Slots>,
    /// Clients wait for these.
    wanted: VecDeque<HObject>,
    /// Objects that are deleted, wherever they are lacking.
    deletions: VecDeque<HObject>,
    queue: VecDeque<HObject>,
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

/// True if a member has an object at this version.
fn has(host: &dyn Host, member: PgShard, obj: &HObject, need: EVersion) -> bool {
    let known = host.info_of(member).zip(host.missing_of(member));
    known.is_some_and(|(info, missing)| {
        info.last_update >= need && *obj < info.last_backfill && (!missing.contains(obj) || planted(Bug::PullFromLacking))
    })
}

/// What every member of the group lacks.
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

    // What the group asks.

    /// The group is active, and we are its primary: what is lacking where is known.
    pub fn begin(&mut self, host: &dyn Host) {
        let mut seen = BTreeSet::new();
        for (_, obj) in sets(host).flat_map(Missing::by_need) {
            if seen.insert(obj) {
                self.put(host, obj);
            }
        }
        self.go_on();
    }
    fn put(&mut self, host: &dyn Host, obj: &HObject) {
        let is_deleted = sets(host).filter_map(|missing| missing.get(obj)).all(|item| item.delete);
        if is_deleted { self.deletions.push_back(obj.clone()) } else { self.queue.push_back(obj.clone()) }
    }
    /// Members lack an object that they had.
    pub fn add(&mut self, obj: &HObject) {
        self.queue.push_back(obj.clone());
        self.go_on();
    }
    /// Another member said what it has: what was not found may be there.
    pub fn look_again(&mut self) {
        self.disappointed.clear();
        self.queue.extend(std::mem::take(&mut self.unfound));
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
        let names: BTreeSet<&HObject> = sets(host).flat_map(|missing| missing.of_name(head)).collect();
        // The head is the last by name, and is to be the first.
        for name in names.into_iter().rev() {
            if !self.active.contains_key(name) && !self.unfound.contains(name) && !self.wanted.contains(name) {
                self.wanted.push_back(name.clone());
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
    fn go_on(&mut self) {
        if !matches!(self.work, Work::Waiting(For::Store(_))) {
            self.work = Work::Busy;
        }
    }
    fn may_start(&self) -> bool {
        !self.wanted.is_empty() || self.slots.has_room() && self.sleeps_until.is_none() && (self.may_recover() || self.may_backfill())
    }
    fn may_recover(&self) -> bool {
        self.may_delete() || self.gates.recovery && !self.queue.is_empty()
    }
    fn may_delete(&self) -> bool {
        self.gates.deletions && !self.deletions.is_empty()
    }
    /// The next object that no client waits for.
    fn next(&mut self) -> Option<HObject> {
        if self.may_delete() {
            return self.deletions.pop_front();
        }
        if self.gates.recovery { self.queue.pop_front() } else { None }
    }
    fn may_backfill(&self) -> bool {
        // An object that is under way to one member by the log is not begun for another one.
        self.gates.backfill && self.backfill.as_ref().is_some_and(|backfill| backfill.may_go_on()) && !self.has_log_work()
    }
    /// Something of the log is not recovered, and may be.
    pub fn has_log_work(&self) -> bool {
        let fills = |obj: &HObject| self.backfill.as_ref().is_some_and(|backfill| backfill.is_under_way(obj));
        let waits = !self.queue.is_empty() || !self.deletions.is_empty() || !self.wanted.is_empty();
        waits || !self.behind.is_empty() || self.active.keys().any(|obj| !fills(obj))
    }
    fn stopped(&mut self, error: &StoreError) {
        self.work = Work::stopped(error);
    }

    /// A turn: what the store could not serve before, then new objects.
    pub fn turn(&mut self, host: &mut dyn Host) {
        if !self.work().is_busy() {
            return;
        }
        self.work = Work::Waiting(For::Peer);
        self.slots.look(host.now());
        for (from, part) in std::mem::take(&mut self.parked) {
            self.handle(host, from, part);
        }
        let due: Vec<_> = self
            .active
            .iter_mut()
            .filter(|(_, active)| !active.due.is_empty())
            .map(|(o, a)| (o.clone(), std::mem::take(&mut a.due)))
            .collect();
        for (obj, members) in due {
            members.into_iter().for_each(|member| self.push_next(host, &obj, member));
        }
        let mut starts = 0;
        while starts < host.limits().starts_max && matches!(self.work, Work::Waiting(For::Peer)) && self.may_start() {
            let is_wanted = !self.wanted.is_empty();
            let obj = self.wanted.pop_front().or_else(|| self.next());
            let started = match obj {
                Some(obj) => self.start(host, obj, is_wanted),
                None if self.may_backfill() => self.fill_next(host),
                None => break,
            };
            starts += usize::from(started);
            if started
                && !is_wanted
                && let Some(sleep) = host.limits().sleep
            {
                self.sleep(host.now() + sleep);
            }
        }
        self.tell_targets(host);
        if matches!(self.work, Work::Waiting(For::Peer)) {
            let rests = self.active.is_empty() && self.parked.is_empty();
            self.work = if self.may_start() {
                Work::Busy
            } else if rests && self.queue.is_empty() && self.deletions.is_empty() {
                Work::Idle
            } else {
                Work::Waiting(For::Peer)
            };
        }
    }

    /// The next object of a backfill. False if none begins.
    fn fill_next(&mut self, host: &mut dyn Host) -> bool {
        let Some(mut backfill) = self.backfill.take() else { return false };
        let next = backfill.next(host);
        self.backfill = Some(backfill);
        match next {
            Ok(Next::Push(obj, version, to)) => {
                to.iter().for_each(|target| host.member_lacks(*target, &obj, version));
                self.start(host, obj, false)
            }
            Ok(Next::Rest) => false,
            Err(error) => {
                self.stopped(&error);
                if !matches!(error, StoreError::Wait(_)) {
                    host.complain(format!("objects can't be listed: {error}"));
                }
                false
            }
        }
    }
    fn tell_targets(&mut self, host: &mut dyn Host) {
        if let Some(mut backfill) = self.backfill.take() {
            backfill.tell(host);
            self.backfill = Some(backfill);
        }
    }
    /// A target says something of its backfill.
    fn target_said(&mut self, host: &mut dyn Host, from: PgShard, part: &Part) {
        let Some(mut backfill) = self.backfill.take() else { return };
        let mut is_over = false;
        match part {
            Part::Digest { begin, page } => backfill.listed(host, from, begin, (**page).clone()),
            _ => is_over = backfill.finished(host, from),
        }
        self.backfill = (!is_over).then_some(backfill);
        self.go_on();
    }

    /// False if there is nothing to do for this object now.
    fn start(&mut self, host: &mut dyn Host, obj: HObject, is_wanted: bool) -> bool {
        if self.active.contains_key(&obj) || self.unfound.contains(&obj) || !sets(host).any(|missing| missing.contains(&obj)) {
            return false;
        }
        let head = obj.head();
        let knows_head = obj.is_head() || !host.missing().contains(&head);
        if !knows_head && self.unfound.contains(&head) {
            if host.missing().contains(&obj) {
                self.unfound.insert(obj);
                return false;
            }
        } else if !knows_head {
            // What a clone shares with others is known by its head.
            let first = !self.behind.contains_key(&head) && !self.active.contains_key(&head);
            self.behind.entry(head.clone()).or_default().push(obj);
            return first && self.start(host, head, is_wanted);
        }
        let item = host.missing().get(&obj).cloned();
        let step = match item {
            Some(item) if item.delete => {
                if !self.delete_here(host, &obj, item.need, None) {
                    self.deletions.push_front(obj);
                    return false;
                }
                host.is_nearer(&obj);
                Step::Pushing(BTreeMap::new())
            }
            Some(item) => {
                let sources = self.sources(host, &obj, item.need);
                if sources.is_empty() {
                    self.lose(obj);
                    return false;
                }
                let loaded = (!obj.is_head()).then(|| load_object(host.source(), &head)).transpose();
                let snapset = match loaded {
                    Ok(loaded) => loaded.map(|head| head.snapset),
                    Err(stop) => {
                        self.work = Work::not_loaded(&stop);
                        self.queue.push_front(obj);
                        return false;
                    }
                };
                let whole = |name: &HObject| !host.missing().contains(name);
                let near = snapset.as_ref().map(|snapset| Neighbours { snapset, has: &whole, ranges_max: host.limits().ranges_max });
                let (info, progress) = host.layout().pull(&obj, &item, near.as_ref());
                let gathering = Gathering::new(sources, info, progress);
                pull_all(host, &obj, &gathering);
                Step::Pulling(Box::new(gathering))
            }
            None => Step::Pushing(BTreeMap::new()),
        };
        let has_slot = self.slots.has_room() || !is_wanted;
        if has_slot {
            self.slots.take();
        }
        let pushes = matches!(step, Step::Pushing(_));
        self.active.insert(obj.clone(), Active { step, has_slot, since: host.now(), due: BTreeSet::new() });
        if pushes {
            self.push_all(host, &obj);
        }
        true
    }

    /// Members that together can send the object at this version, none if there are not enough; objects are shared out among them.
    fn sources(&self, host: &dyn Host, obj: &HObject, need: EVersion) -> BTreeSet<PgShard> {
        let bad = self.disappointed.get(obj);
        let can = |member: &PgShard| has(host, *member, obj, need) && bad.is_none_or(|bad| !bad.contains(member));
        let having: Vec<PgShard> = host.known().into_iter().filter(can).collect();
        host.layout().sources(&having, obj.hash)
    }
    /// No member has the object. Its clones can't be had without it, but those that are here can be sent.
    fn lose(&mut self, obj: HObject) {
        self.queue.extend(self.behind.remove(&obj).unwrap_or_default());
        self.unfound.insert(obj);
    }
    /// An object that is under way comes to an end here, done or not.
    fn end(&mut self, host: &dyn Host, obj: &HObject) {
        let active = self.active.remove(obj).expect("an object that ends was under way");
        self.slots.give_back(usize::from(active.has_slot));
        let now = host.now();
        if let Some(rest) = self.slots.rest(now.since(active.since)).filter(|rest| active.has_slot && !rest.is_zero()) {
            self.sleep(now + rest);
        }
        self.go_on();
    }
    fn sleep(&mut self, until: Stamp) {
        self.sleeps_until = Some(self.sleeps_until.map_or(until, |at| at.max(until)));
    }

    // Pushing.

    /// The object is here: each member that lacks it gets it.
    fn push_all(&mut self, host: &mut dyn Host, obj: &HObject) {
        let lacking: Vec<PgShard> =
            host.members().into_iter().filter(|member| host.missing_of(*member).is_some_and(|missing| missing.contains(obj))).collect();
        let active = self.active.get_mut(obj).expect("it is under way");
        active.step = Step::Pushing(lacking.iter().map(|member| (*member, Sent::Nothing)).collect());
        for member in &lacking {
            self.push_next(host, obj, *member);
        }
        if lacking.is_empty() {
            self.recovered(host, obj);
        }
    }

    /// The next part for a member.
    fn push_next(&mut self, host: &mut dyn Host, obj: &HObject, member: PgShard) {
        let Some(Active { step: Step::Pushing(to), due, .. }) = self.active.get_mut(obj) else { return };
        let Some(sent) = to.get_mut(&member) else { return };
        let Some(item) = host.missing_of(member).and_then(|missing| missing.get(obj)).cloned() else { return };
        if item.delete {
            *sent = Sent::Deletion;
            return host.send(member, Part::Delete(obj.clone(), item.need));
        }
        let next = match sent {
            Sent::Parts(info, progress) => Ok((info.clone(), progress.clone())),
            Sent::Nothing | Sent::Deletion => first_push(host, obj, member, &item),
        };
        let cut =
            next.and_then(|(info, from)| Ok((host.layout().cut(host.store(), host.coll(), &info, &from, &host.limits().chunk)?, info)));
        match cut {
            Ok((push, info)) => {
                self.recovered.num_bytes_recovered += push.data.len() as i64;
                self.recovered.num_keys_recovered += push.omap_entries.len() as i64;
                *sent = Sent::Parts(info, push.after_progress.clone());
                host.send(member, Part::Push(Box::new(push)));
            }
            Err(CutStop::Store(error @ (StoreError::Wait(_) | StoreError::Full))) => {
                due.insert(member);
                self.stopped(&error);
            }
            Err(CutStop::Damaged(..) | CutStop::Store(StoreError::Damaged { .. } | StoreError::NoObject(_)))
                if host.gives_up_own(obj, item.need) =>
            {
                // It begins anew, with a copy of another member.
                self.end(host, obj);
                self.queue.push_front(obj.clone());
            }
            Err(stop) => {
                // The members that lack it go on lacking it, and the group stays degraded: there is nothing to make it from.
                host.complain(format!("{obj} can't be sent to osd.{member}: {stop}"));
                to.remove(&member);
                let is_last = to.is_empty();
                self.unfound.insert(obj.clone());
                if is_last {
                    self.end(host, obj);
                }
            }
        }
    }

    /// A member has a part, or the deletion.
    fn answered(&mut self, host: &mut dyn Host, from: PgShard, obj: &HObject) {
        let Some(Active { step: Step::Pushing(to), due, .. }) = self.active.get_mut(obj) else { return };
        let version = match to.get(&from) {
            // Its next part is not sent yet.
            _ if due.contains(&from) => return,
            Some(Sent::Parts(info, progress)) if progress.data_complete && progress.omap_complete || planted(Bug::StopAfterFirstPart) => {
                info.version
            }
            Some(Sent::Parts(..)) => return self.push_next(host, obj, from),
            Some(Sent::Deletion) => EVersion::MAX,
            Some(Sent::Nothing) | None => return,
        };
        to.remove(&from);
        let is_last = to.is_empty();
        host.member_got(from, obj, version);
        if is_last {
            self.recovered(host, obj);
        }
    }

    /// No member lacks the object any more.
    fn recovered(&mut self, host: &mut dyn Host, obj: &HObject) {
        self.end(host, obj);
        if self.backfill.as_mut().is_some_and(|backfill| backfill.pushed(obj)) {
            self.tell_targets(host);
        }
        self.recovered.num_objects_recovered += 1;
        self.disappointed.remove(obj);
        let clones = self.behind.remove(obj).unwrap_or_default();
        clones.into_iter().rev().for_each(|clone| self.queue.push_front(clone));
        host.is_nearer(obj);
    }

    // What other members say.

    /// A message of another member, of this interval.
    pub fn handle(&mut self, host: &mut dyn Host, from: PgShard, part: Part) {
        if !self.parked.is_empty() {
            // In the order in which they came.
            return self.parked.push_back((from, part));
        }
        let stopped = match &part {
            Part::Push(push) if host.is_primary() => self.pull_answered(host, from, push),
            Part::Push(push) => self.pushed(host, from, push),
            Part::Pull(pull) => match host.layout().answer_pull(host.store(), host.coll(), pull, &host.limits().chunk) {
                Ok((push, stop)) => {
                    stop.iter().for_each(|stop| host.complain(format!("{} asks for what it can't have: {stop}", from)));
                    host.send(from, Part::Push(Box::new(push)));
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Part::Delete(obj, version) => self.deleted(host, from, obj, *version),
            Part::Pushed(obj) | Part::Deleted(obj, _) => {
                self.answered(host, from, obj);
                Ok(())
            }
            Part::Scan(begin) => target::list(host, from, begin),
            Part::Remove(objects) => target::remove(host, objects),
            Part::Progress { to, stats, is_last } => target::reached(host, from, to, stats, *is_last),
            Part::Digest { .. } | Part::Finished => {
                self.target_said(host, from, &part);
                Ok(())
            }
        };
        if let Err(error) = stopped {
            self.stopped(&error);
            self.parked.push_back((from, part));
        }
    }

    /// A write of the primary, with its entries: what it makes begins from nothing, where an older copy was to be removed first and the store could not
    /// serve that yet.
    pub fn after_removals(&mut self, coll: CollId, entries: &[PgLogEntry], txn: Transaction) -> Transaction {
        if txn.is_empty() || self.parked.is_empty() || planted(Bug::OvertakeRemoval) {
            return txn;
        }
        let mut first = Transaction::new(coll);
        for obj in entries.iter().filter(|entry| !entry.is_error()).map(|entry| &entry.soid) {
            if self.takes_removal(obj) {
                first.remove(&name(coll, obj.clone()));
            }
        }
        if first.is_empty() {
            return txn;
        }
        first.append(txn);
        first
    }
    /// True if the object was to be removed and waits for the store: it does not wait any more.
    fn takes_removal(&mut self, obj: &HObject) -> bool {
        let mut found = false;
        for (_, part) in &mut self.parked {
            if let Part::Remove(objects) = part {
                let before = objects.len();
                objects.retain(|(name, _)| name != obj);
                found |= objects.len() < before;
            }
        }
        found
    }

    /// A part of an object that we asked for.
    fn pull_answered(&mut self, host: &mut dyn Host, from: PgShard, push: &PushOp) -> Result<(), StoreError> {
        let Some(Active { step: Step::Pulling(gathering), .. }) = self.active.get_mut(&push.soid) else { return Ok(()) };
        let part = match gathering.answered(from, push, host.layout()) {
            Ok(Some(part)) => part,
            Ok(None) => return Ok(()),
            Err(why) => return self.disappoint(host, from, push, &why),
        };
        let push = &*part;
        let mut info = gathering.info.clone();
        apply::agree(&mut info, push);
        let whole = |name: &HObject| !host.missing().contains(name);
        let applied = match self.incoming.apply(host.store(), host.coll(), &info, push, &whole) {
            Ok(applied) => applied,
            Err(ApplyStop::Store(error)) => return Err(error),
            Err(bad) => return self.disappoint(host, from, push, &bad.to_string()),
        };
        let got = applied.complete.then(|| (push.soid.clone(), info.version));
        let (txn, index) = (applied.txn.clone(), applied.index.clone());
        if !host.change(Change { txn, index, got, then: None }) {
            return Err(StoreError::Full);
        }
        self.incoming.took(&applied);
        self.recovered.num_bytes_recovered += applied.bytes as i64;
        self.recovered.num_keys_recovered += applied.keys as i64;
        if applied.complete {
            host.is_nearer(&push.soid);
            self.push_all(host, &push.soid);
            return Ok(());
        }
        let Some(Active { step: Step::Pulling(gathering), .. }) = self.active.get_mut(&push.soid) else { panic!("looked at above") };
        gathering.applied(info, push.after_progress.clone());
        pull_all(host, &push.soid, gathering);
        Ok(())
    }

    /// A member can't send what it should have: another one is asked.
    fn disappoint(&mut self, host: &mut dyn Host, from: PgShard, push: &PushOp, why: &str) -> Result<(), StoreError> {
        host.complain(format!("{} can't be had from osd.{from}: {why}", push.soid));
        let soid = push.soid.detach();
        self.disappointed.entry(soid.clone()).or_default().insert(from);
        self.ask_another(host, soid);
        Ok(())
    }
    /// An object that was being pulled begins anew.
    fn ask_another(&mut self, host: &mut dyn Host, obj: HObject) {
        let mut txn = Transaction::new(host.coll());
        self.incoming.dropped(host.coll(), &obj, &mut txn);
        if !txn.is_empty() {
            host.change(Change { txn, index: None, got: None, then: None });
        }
        self.end(host, &obj);
        self.queue.push_front(obj);
    }

    /// A part of an object that our primary says we lack.
    fn pushed(&mut self, host: &mut dyn Host, from: PgShard, push: &PushOp) -> Result<(), StoreError> {
        let info = &push.recovery_info;
        let whole = |name: &HObject| !host.missing().contains(name);
        let applied = match self.incoming.apply(host.store(), host.coll(), info, push, &whole) {
            Ok(applied) => applied,
            Err(ApplyStop::Store(error)) => return Err(error),
            Err(bad) => {
                host.complain(format!("osd.{from}: {bad}"));
                return Ok(());
            }
        };
        let got = applied.complete.then(|| (push.soid.clone(), push.version));
        let (txn, index) = (applied.txn.clone(), applied.index.clone());
        if !host.change(Change { txn, index, got, then: Some((from, Part::Pushed(push.soid.clone()))) }) {
            return Err(StoreError::Full);
        }
        self.incoming.took(&applied);
        Ok(())
    }

    /// An object that was deleted while we were away.
    fn deleted(&mut self, host: &mut dyn Host, from: PgShard, obj: &HObject, version: EVersion) -> Result<(), StoreError> {
        let reply = (from, Part::Deleted(obj.clone(), version));
        match host.missing().get(obj) {
            Some(item) if item.delete && item.need <= version => {
                if self.delete_here(host, obj, version, Some(reply)) {
                    Ok(())
                } else {
                    Err(StoreError::Full)
                }
            }
            Some(_) => {
                host.complain(format!("osd.{from} says that {obj} was deleted by {version}, which it was not"));
                Ok(())
            }
            // It went before.
            None => {
                let change = Change { txn: Transaction::new(host.coll()), index: None, got: None, then: Some(reply) };
                if host.change(change) { Ok(()) } else { Err(StoreError::Full) }
            }
        }
    }
    /// False if it has to wait for the store.
    fn delete_here(&mut self, host: &mut dyn Host, obj: &HObject, version: EVersion, then: Option<(PgShard, Part)>) -> bool {
        let removed = apply::removal(host.store(), host.coll(), obj);
        match removed {
            Ok((txn, index)) => {
                host.change(Change { txn, index, got: Some((obj.clone(), version)), then }) || {
                    self.stopped(&StoreError::Full);
                    false
                }
            }
            Err(error) => {
                self.stopped(&error);
                false
            }
        }
    }
}

/// A group may go at any time.
impl Drop for Recovery {
    fn drop(&mut self) {
        self.release();
    }
}

/// Each source of an object is asked for its next part.
fn pull_all(host: &mut dyn Host, obj: &HObject, gathering: &Gathering) {
    gathering.sources().for_each(|from| host.send(from, Part::Pull(Box::new(gathering.pull(obj)))));
}

/// What a member gets of an object, all in all.
fn first_push(
    host: &dyn Host,
    obj: &HObject,
    member: PgShard,
    item: &types::PgMissingItem,
) -> Result<(Box<ObjectRecoveryInfo>, ObjectRecoveryProgress), CutStop> {
    let load = |name: &HObject| {
        load_object(host.source(), name).map_err(|stop| match stop {
            PlanStop::Wait(ticket) => CutStop::Store(StoreError::Wait(ticket)),
            other => CutStop::Damaged(name.clone(), format!("{other:?}")),
        })
    };
    let context = load(obj)?;
    if !context.exists {
        return Err(CutStop::Damaged(obj.clone(), "is not here".into()));
    }
    let head;
    let snapset = if obj.is_head() {
        Some(&context.snapset)
    } else {
        head = load(&obj.head())?;
        (!host.missing().contains(&obj.head())).then_some(&head.snapset)
    };
    let lacks = host.missing_of(member);
    let backfilled = host.info_of(member).map(|info| &info.last_backfill);
    let whole = |name: &HObject| lacks.is_some_and(|missing| !missing.contains(name)) && backfilled.is_some_and(|end| name < end);
    let near = snapset.map(|snapset| Neighbours { snapset, has: &whole, ranges_max: host.limits().ranges_max });
    let (info, progress) = host.layout().push(&context.info, item, near.as_ref());
    Ok((Box::new(info), progress))
}
