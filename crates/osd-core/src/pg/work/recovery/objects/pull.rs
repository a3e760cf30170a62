//! Objects that we lack, as the primary: they come from members that have them.

use super::{Active, Recovery, Step};
use crate::pg::short_name::ShortName;
use crate::pg::work::recovery::apply::{self, ApplyStop};
use crate::pg::work::recovery::gather::Gathering;
use crate::pg::work::recovery::host::{Change, Host, Part};
use crate::planted::{Bug, planted};
use messages::PushOp;
use std::collections::BTreeSet;
use store::StoreError;
use types::{EVersion, HObject, PgShard, Transaction};

/// True if a member has an object at this version.
fn has(host: &dyn Host, member: PgShard, obj: &HObject, need: EVersion) -> bool {
    let known = host.info_of(member).zip(host.missing_of(member));
    known.is_some_and(|(info, missing)| {
        info.last_update >= need && *obj < info.last_backfill && (!missing.contains(obj) || planted(Bug::PullFromLacking))
    })
}

impl Recovery {
    /// Members that together can send the object at this version, none if there are not enough; objects are shared out among them.
    pub(super) fn sources(&self, host: &dyn Host, obj: &HObject, need: EVersion) -> BTreeSet<PgShard> {
        let bad = self.disappointed.get(obj);
        let can = |member: &PgShard| has(host, *member, obj, need) && bad.is_none_or(|bad| !bad.contains(member));
        let having: Vec<PgShard> = host.known().into_iter().filter(can).collect();
        host.layout().sources(&having, obj.hash)
    }
    /// A part of an object that we asked for.
    pub(super) fn pull_answered(&mut self, host: &mut dyn Host, from: PgShard, push: &PushOp) -> Result<(), StoreError> {
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
    pub(super) fn disappoint(&mut self, host: &mut dyn Host, from: PgShard, push: &PushOp, why: &str) -> Result<(), StoreError> {
        host.complain(format!("{} can't be had from osd.{from}: {why}", push.soid));
        let soid = push.soid.detach();
        self.disappointed.entry(soid.clone()).or_default().insert(from);
        self.ask_another(host, soid);
        Ok(())
    }
    /// An object that was being pulled begins anew.
    pub(super) fn ask_another(&mut self, host: &mut dyn Host, obj: HObject) {
        let mut txn = Transaction::new(host.coll());
        self.incoming.dropped(host.coll(), &obj, &mut txn);
        if !txn.is_empty() {
            host.change(Change { txn, index: None, got: None, then: None });
        }
        self.end(host, &obj);
        self.queue.push_front(ShortName::of(&obj));
    }
}

/// Each source of an object is asked for its next part.
pub(super) fn pull_all(host: &mut dyn Host, obj: &HObject, gathering: &Gathering) {
    gathering.sources().for_each(|from| host.send(from, Part::Pull(Box::new(gathering.pull(obj)))));
}
