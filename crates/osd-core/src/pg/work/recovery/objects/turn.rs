//! A turn of recovery: what may begin, and which object begins next.

use super::pull::pull_all;
use super::{Active, Recovery, Step, sets};
use crate::op::load_object;
use crate::pg::backend::copies::subset::Neighbours;
use crate::pg::short_name::ShortName;
use crate::pg::work::backfill::fill::Next;
use crate::pg::work::recovery::gather::Gathering;
use crate::pg::work::recovery::host::{Host, Part};
use crate::work::{For, Work};
use base::Stamp;
use std::collections::{BTreeMap, BTreeSet};
use store::StoreError;
use types::{HObject, PgShard};

impl Recovery {
    pub(super) fn go_on(&mut self) {
        if !matches!(self.work, Work::Waiting(For::Store(_))) {
            self.work = Work::Busy;
        }
    }
    pub(super) fn may_start(&self) -> bool {
        !self.wanted.is_empty() || self.slots.has_room() && self.sleeps_until.is_none() && (self.may_recover() || self.may_backfill())
    }
    pub(super) fn may_recover(&self) -> bool {
        self.may_delete() || self.gates.recovery && !self.queue.is_empty()
    }
    pub(super) fn may_delete(&self) -> bool {
        self.gates.deletions && !self.deletions.is_empty()
    }
    /// The next object that no client waits for.
    pub(super) fn next(&mut self) -> Option<HObject> {
        if self.may_delete() {
            return self.deletions.pop_front().map(|name| name.object());
        }
        let name = if self.gates.recovery { self.queue.pop_front() } else { None };
        name.map(|name| name.object())
    }
    pub(super) fn may_backfill(&self) -> bool {
        // An object that is under way to one member by the log is not begun for another one.
        self.gates.backfill && self.backfill.as_ref().is_some_and(|backfill| backfill.may_go_on()) && !self.has_log_work()
    }
    /// Something of the log is not recovered, and may be.
    pub fn has_log_work(&self) -> bool {
        let fills = |obj: &HObject| self.backfill.as_ref().is_some_and(|backfill| backfill.is_under_way(obj));
        let waits = !self.queue.is_empty() || !self.deletions.is_empty() || !self.wanted.is_empty();
        waits || !self.behind.is_empty() || self.active.keys().any(|obj| !fills(obj))
    }
    pub(super) fn stopped(&mut self, error: &StoreError) {
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
    pub(super) fn fill_next(&mut self, host: &mut dyn Host) -> bool {
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
    pub(super) fn tell_targets(&mut self, host: &mut dyn Host) {
        if let Some(mut backfill) = self.backfill.take() {
            backfill.tell(host);
            self.backfill = Some(backfill);
        }
    }
    /// A target says something of its backfill.
    pub(super) fn target_said(&mut self, host: &mut dyn Host, from: PgShard, part: &Part) {
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
    pub(super) fn start(&mut self, host: &mut dyn Host, obj: HObject, is_wanted: bool) -> bool {
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
        let item = host.missing().get(&obj);
        let step = match item {
            Some(item) if item.delete => {
                if !self.delete_here(host, &obj, item.need, None) {
                    self.deletions.push_front(ShortName::of(&obj));
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
                        self.queue.push_front(ShortName::of(&obj));
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
    /// No member has the object. Its clones can't be had without it, but those that are here can be sent.
    pub(super) fn lose(&mut self, obj: HObject) {
        self.queue.extend(self.behind.remove(&obj).unwrap_or_default().iter().map(ShortName::of));
        self.unfound.insert(obj);
    }
    /// An object that is under way comes to an end here, done or not.
    pub(super) fn end(&mut self, host: &dyn Host, obj: &HObject) {
        let active = self.active.remove(obj).expect("an object that ends was under way");
        self.slots.give_back(usize::from(active.has_slot));
        let now = host.now();
        if let Some(rest) = self.slots.rest(now.since(active.since)).filter(|rest| active.has_slot && !rest.is_zero()) {
            self.sleep(now + rest);
        }
        self.go_on();
    }
    pub(super) fn sleep(&mut self, until: Stamp) {
        self.sleeps_until = Some(self.sleeps_until.map_or(until, |at| at.max(until)));
    }
}
