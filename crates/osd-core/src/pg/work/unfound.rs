//! Objects that no member has: former members are asked for them; an operator may ask which they are, and give them up.
//!
//! ```text
//!   not found ── a former member has it ──▶ pulled from there
//!       │
//!       └─ given up: `delete` ─▶ an entry says that it is gone: each member removes what it has of it
//!                    `revert` ─▶ an entry says that the version before counts again: the primary has it, other members get it
//! ```
//! Which former members there are is [`crate::pg::members::peering`]'s to say, what becomes of an object that one of them has, [`super::recovery`]'s.

use crate::op::load_object;
use crate::pg::backend::at_store::Submitted;
use crate::pg::backend::in_flight::InFlight;
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::shared::Cx;
use denc::Denc;
use serde_json::{Value, json};
use types::object_info::OI_ATTR;
use types::{ByteStr, EVersion, HObject, LogOp, PgLogEntry, PgMissingItem, Transaction};

/// What becomes of an object that is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GiveUp {
    /// The version before counts again; an object that had none is gone.
    Revert,
    Delete,
}

impl Jobs {
    /// If objects are not found, former members that have some of the group are asked what they lack.
    pub(in crate::pg) fn ask_former(&mut self, group: &mut Group, cx: &mut Cx<'_>) {
        if !self.kept.has_unfound() {
            return;
        }
        for member in group.members.peering.ask_former(&*cx.sh.map.clone()) {
            group.tell().query_log(member, None, cx);
        }
    }
    /// A member or a former one has told what it lacks: what was not found may be there.
    pub(in crate::pg) fn look_for_unfound(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        if self.kept.has_unfound() {
            self.recover(requests, group, cx, |recovery, _| recovery.look_again());
        }
    }

    /// Objects of which no member is known to have a good copy, and what is lacked here of each.
    pub fn unfound<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = (&'a HObject, Option<PgMissingItem>)> {
        self.kept.unfound().map(|obj| (obj, group.record.missing().get(obj)))
    }

    /// Gives up every object that is not found. How many, or why that can't be done now.
    pub(crate) fn give_up_unfound(
        &mut self,
        how: GiveUp,
        requests: &mut Requests,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) -> Result<usize, String> {
        let unfound: Vec<HObject> = self.kept.unfound().cloned().collect();
        if unfound.is_empty() {
            return Ok(0);
        }
        if !group.members.peering.is_active() {
            return Err(format!("pg has {} objects unfound, and is not active", unfound.len()));
        }
        if group.members.peering.former(&*cx.sh.map).iter().any(|(_, state)| state.may_have_more()) {
            let text = format!("pg has {} unfound objects but we haven't probed all sources, not marking lost", unfound.len());
            return Err(text);
        }
        let mut version = group.record.next_version(group.epoch);
        let (mut txn, mut entries) = (Transaction::new(group.coll), Vec::with_capacity(unfound.len()));
        for obj in &unfound {
            let Some(need) = group.members.peering.lacked(&group.record, obj).map(|item| item.need) else { continue };
            let entry = PgLogEntry {
                op: LogOp::LOST_DELETE,
                soid: obj.clone(),
                version,
                prior_version: need,
                mtime: cx.now(),
                ..PgLogEntry::default()
            };
            entries.push(match how {
                GiveUp::Delete => entry,
                GiveUp::Revert => revert(entry, &mut txn, group, cx)?,
            });
            version.version += 1;
        }
        let count = entries.len();
        self.submit_entries(txn, entries, requests, group, cx)?;
        group.record.stats_mut().stats_invalid = true;
        self.recover(requests, group, cx, |recovery, _| recovery.look_again());
        Ok(count)
    }

    /// Appends entries that are no write of a client: members lack what these name, as if each had been away then. `ours`: what our store does so
    /// that we don't lack what is reverted.
    fn submit_entries(
        &mut self,
        ours: Transaction,
        mut entries: Vec<PgLogEntry>,
        requests: &mut Requests,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) -> Result<(), String> {
        group.backend.layout().seal(&mut entries);
        let write = InFlight::of(&entries, group.members.peering.members().clone());
        group.backend.follows(group.record.info().last_update);
        let backend = &mut group.backend;
        if !group.record.give_up(&entries, |delta| backend.takes(ours, Some(delta), Submitted::Write(write.version), cx)) {
            return Err("the store has no room for it".into());
        }
        let everywhere = group.members.peering.complete_everywhere(group.record.info().last_complete);
        group.members.peering.tell_members(&entries);
        // What targets have got to is not only what they were told.
        self.recover(requests, group, cx, |recovery, host| recovery.restart_backfill(host));
        group.tell().entries(entries, group.backend.next_number(), everywhere, cx);
        group.members.peering.sent_to_members(group.record.info().last_update);
        group.backend.submitted(write);
        Ok(())
    }

    /// What `list_unfound` shows: at most `max` objects behind `after`.
    pub(crate) fn list_unfound(&self, after: Option<&HObject>, max: usize, map: &maps::OsdMap, group: &Group) -> Value {
        let all = self.kept.unfound().filter(|obj| after.is_none_or(|after| *obj > after));
        let mut objects: Vec<Value> = Vec::new();
        let mut is_more = false;
        for obj in all {
            if objects.len() == max {
                is_more = true;
                break;
            }
            let item = group.members.peering.lacked(&group.record, obj);
            let version = |of: fn(&PgMissingItem) -> EVersion| item.as_ref().map_or(EVersion::ZERO, of).to_string();
            objects.push(json!({
                "oid": {
                    "oid": obj.oid.to_string(), "key": obj.key.to_string(), "snapid": obj.snap as i64, "hash": obj.hash,
                    "max": 0, "pool": obj.pool, "namespace": obj.nspace.to_string(),
                },
                "need": version(|item| item.need),
                "have": version(|item| item.have),
                "flags": if item.as_ref().is_some_and(|item| item.delete) { "delete" } else { "none" },
                "locations": [],
            }));
        }
        let former = group.members.peering.former(map);
        json!({
            "num_missing": group.record.missing().len(),
            "num_unfound": self.kept.unfound().count(),
            "objects": objects,
            "state": if self.kept.status(group.pgid).is_some() { "Recovering" } else { "NotRecovering" },
            "available_might_have_unfound": true,
            "might_have_unfound": former.iter().map(|(m, state)| json!({ "osd": m.to_string(), "status": state.name() })).collect::<Vec<_>>(),
            "more": is_more,
        })
    }
}

/// The entry by which the object's version before counts again. It is in our store already; only its record changes.
fn revert(entry: PgLogEntry, txn: &mut Transaction, group: &Group, cx: &Cx<'_>) -> Result<PgLogEntry, String> {
    let obj = &entry.soid;
    let Some(ours) = group.record.missing().get(obj) else {
        return Err(format!("{obj} is damaged here: repair the store, or delete the object"));
    };
    let elsewhere = group.members.peering.missing_elsewhere().filter_map(|missing| missing.get(obj)).map(|item| item.have).max();
    if elsewhere.unwrap_or_default() > ours.have {
        return Err(format!("{obj}: another member has a newer version than the primary; let that one lead first"));
    }
    if ours.have == EVersion::ZERO {
        return Ok(entry);
    }
    let mut context = load_object(group.source(cx.sh), obj).map_err(|stop| format!("{obj} can't be read now: {stop:?}"))?;
    if !context.exists || context.info.version != ours.have {
        return Err(format!("{obj} is not here at {}; delete it", ours.have));
    }
    context.info.version = entry.version;
    context.info.prior_version = ours.have;
    let record = context.info.to_bytes(cx.sh.osd_features);
    txn.set_attr(&group.name(obj), ByteStr::from_static(OI_ATTR), record);
    Ok(PgLogEntry { op: LogOp::LOST_REVERT, reverting_to: ours.have, user_version: context.info.user_version, ..entry })
}
