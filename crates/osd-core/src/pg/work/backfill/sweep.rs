//! A target that is too full to be filled loses its copies of deleted objects first: they would keep their room, and the target would be
//! refused for ever.
//!
//! ```text
//!   refused, and it lists ──▶ asked for a page ──▶ names that we have none of: removed there ──▶ the next page ── the last: over
//! ```
//! A refusal begins one sweep; it needs no place, since it makes room alone. Nothing is sent, and nothing counts as filled. Objects that
//! the target was filled with are left to its writes. A stock target that is too full does not list, and one that was not asked for a place
//! ends when it is to list: only a target whose refusal says so is asked
//! ([`LISTS_WHEN_FULL`](crate::pg::work::places::lend::LISTS_WHEN_FULL)).

use super::interval::Interval;
use crate::pg::group::Group;
use crate::pg::work::Jobs;
use crate::pg::work::places::want::{Kind, State};
use crate::pg::work::recovery::host::Part;
use crate::planted::{Bug, planted};
use crate::shared::Cx;
use store::StoreError;
use types::{EVersion, HObject, PgShard};

/// One sweep of one target.
#[derive(Debug)]
pub(in crate::pg) struct Sweep {
    target: PgShard,
    /// Where the page begins that was asked for.
    begin: HObject,
    /// The page, once it has come: objects that were not looked at.
    page: Option<Interval>,
}

impl Jobs {
    /// A target is too full to be filled, and lists what it has.
    pub(in crate::pg) fn begin_sweep(&mut self, target: PgShard, group: &Group, cx: &mut Cx<'_>) {
        if planted(Bug::KeepTooMany) {
            return;
        }
        let known = group.members.peering.judged_member(target).filter(|_| group.members.peering.targets().contains(&target));
        if let Some(begin) = known.map(|known| known.info.last_backfill.clone()) {
            self.ask_for_sweep(target, begin, group, cx);
        }
    }
    fn ask_for_sweep(&mut self, target: PgShard, begin: HObject, group: &Group, cx: &mut Cx<'_>) {
        group.tell().part(target, Part::Scan(Box::new(begin.clone())), 0, cx);
        self.sweep = Some(Sweep { target, begin, page: None });
    }
    /// A page of a target. False if no sweep waits for it.
    pub(in crate::pg) fn sweep_listed(&mut self, from: PgShard, begin: &HObject, page: &Interval, group: &Group, cx: &mut Cx<'_>) -> bool {
        let Some(sweep) = &mut self.sweep else { return false };
        if sweep.target != from || sweep.begin != *begin || sweep.page.is_some() {
            return false;
        }
        sweep.page = Some(page.clone());
        self.sweep_on(group, cx);
        true
    }
    /// Looks at the page, as far as the store can say now what is here.
    pub(in crate::pg) fn sweep_on(&mut self, group: &Group, cx: &mut Cx<'_>) {
        let Some(Sweep { target, begin, page: Some(mut page) }) = self.sweep.take_if(|sweep| sweep.page.is_some()) else { return };
        let is_refused = matches!(self.reservation.state(), State::Refused(Kind::Backfill, _));
        if !is_refused || !group.members.peering.targets().contains(&target) {
            return;
        }
        let mut too_many: Vec<(HObject, EVersion)> = Vec::new();
        let mut waits = false;
        while let Some((obj, version)) = page.first().map(|(obj, version)| (obj.clone(), version)) {
            match cx.sh.store.stat(group.coll, &group.name(&obj)) {
                Err(StoreError::NoObject(_)) if self.is_too_many(target, &obj, group) => too_many.push((obj, version)),
                Ok(_) | Err(StoreError::NoObject(_)) => {}
                Err(StoreError::Wait(_)) => {
                    waits = true;
                    break;
                }
                // A scrub or a backfill says what is wrong with it.
                Err(_) => {}
            }
            page.pop();
        }
        if !too_many.is_empty() {
            group.tell().part(target, Part::Remove(too_many), 0, cx);
        }
        if waits {
            // The next tick looks again.
            self.sweep = Some(Sweep { target, begin, page: Some(page) });
        } else if !page.end().max && page.end() > &begin {
            self.ask_for_sweep(target, page.end().clone(), group, cx);
        }
    }
    /// True if an object that is not in our store is none that the target should have: it is not lacking here, and the target was not
    /// filled as far.
    fn is_too_many(&self, target: PgShard, obj: &HObject, group: &Group) -> bool {
        let head = obj.head();
        group.holds(obj) && group.record.missing().of_name(&head).next().is_none() && !self.has_got_to(target, &head, group)
    }
}
