//! Objects that other members lack, as the primary: each gets what it lacks, part by part.

use super::{Active, Recovery, Step};
use crate::op::{PlanStop, load_object};
use crate::pg::backend::copies::cut::CutStop;
use crate::pg::backend::copies::subset::Neighbours;
use crate::pg::short_name::ShortName;
use crate::pg::work::recovery::host::{Host, Part};
use crate::planted::{Bug, planted};
use messages::{ObjectRecoveryInfo, ObjectRecoveryProgress};
use store::StoreError;
use types::{EVersion, HObject, PgMissingItem, PgShard};

/// What a member was sent of an object.
#[derive(Debug)]
pub(super) enum Sent {
    Nothing,
    /// Parts up to this.
    Parts(Box<ObjectRecoveryInfo>, ObjectRecoveryProgress),
    /// That it is deleted.
    Deletion,
}

impl Recovery {
    /// The object is here: each member that lacks it gets it.
    pub(super) fn push_all(&mut self, host: &mut dyn Host, obj: &HObject) {
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
    pub(super) fn push_next(&mut self, host: &mut dyn Host, obj: &HObject, member: PgShard) {
        let Some(Active { step: Step::Pushing(to), due, .. }) = self.active.get_mut(obj) else { return };
        let Some(sent) = to.get_mut(&member) else { return };
        let Some(item) = host.missing_of(member).and_then(|missing| missing.get(obj)) else { return };
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
                self.queue.push_front(ShortName::of(obj));
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
    pub(super) fn answered(&mut self, host: &mut dyn Host, from: PgShard, obj: &HObject) {
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
    pub(super) fn recovered(&mut self, host: &mut dyn Host, obj: &HObject) {
        self.end(host, obj);
        if self.backfill.as_mut().is_some_and(|backfill| backfill.pushed(obj)) {
            self.tell_targets(host);
        }
        self.recovered.num_objects_recovered += 1;
        self.disappointed.remove(obj);
        let clones = self.behind.remove(obj).unwrap_or_default();
        clones.iter().rev().for_each(|clone| self.queue.push_front(ShortName::of(clone)));
        host.is_nearer(obj);
    }
}

/// What a member gets of an object, all in all.
fn first_push(
    host: &dyn Host,
    obj: &HObject,
    member: PgShard,
    item: &PgMissingItem,
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
