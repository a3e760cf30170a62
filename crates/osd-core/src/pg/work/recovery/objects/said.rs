//! Messages of other members about objects, and what we do with each: as the primary, and as a member that our primary recovers.

use super::Recovery;
use crate::pg::backend::name::name;
use crate::pg::work::backfill::target;
use crate::pg::work::recovery::apply::{self, ApplyStop};
use crate::pg::work::recovery::host::{Change, Host, Part};
use crate::planted::{Bug, planted};
use messages::PushOp;
use store::StoreError;
use types::{CollId, EVersion, HObject, PgLogEntry, PgShard, Transaction};

impl Recovery {
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
    pub(super) fn takes_removal(&mut self, obj: &HObject) -> bool {
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
    /// A part of an object that our primary says we lack.
    pub(super) fn pushed(&mut self, host: &mut dyn Host, from: PgShard, push: &PushOp) -> Result<(), StoreError> {
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
    pub(super) fn deleted(&mut self, host: &mut dyn Host, from: PgShard, obj: &HObject, version: EVersion) -> Result<(), StoreError> {
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
    pub(super) fn delete_here(&mut self, host: &mut dyn Host, obj: &HObject, version: EVersion, then: Option<(PgShard, Part)>) -> bool {
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
