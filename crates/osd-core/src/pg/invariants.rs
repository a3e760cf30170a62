//! What is always true of a group: its record, its store and what is in flight agree.
//!
//! [`Group::assert_invariants`] is cheap and stays on in release builds: each thing that changes the log ends with it. That info, log and missing objects agree
//! is [`super::record`]'s own. [`Group::assert_whole`] reads the group's part of the store, and is for tests and the cluster simulator. Changes nothing.

use super::members::peering::State;
use crate::op::{PlanStop, Source, load_object};
use crate::pg::group::Group;
use crate::pg::reconcile::missing::Missing;
use std::collections::BTreeSet;
use store::{ObjectStore, StoreError};
use types::{EVersion, HObject, LogOp};

impl Group {
    /// The part that costs a few comparisons.
    #[inline]
    pub(super) fn assert_invariants(&self) {
        if let Some(last) = self.backend.last_write() {
            assert!(last <= self.record.info().last_update, "{}: a write in flight at {last} is not in the log", self.pgid);
            assert!(self.members.peering.is_primary(), "{}: another than the primary has writes in flight", self.pgid);
        }
    }

    /// All of it. What the store finds damaged is left out if its device rots.
    ///
    /// # Panics
    /// When something does not agree: a broken invariant of ours.
    pub fn assert_whole(&self, store: &dyn ObjectStore, rots: bool) {
        self.assert_invariants();
        self.record.assert_agrees();
        let (pgid, peering) = (self.pgid, &self.members.peering);
        match peering.state() {
            State::Active | State::Activating | State::Peered => {
                assert!(
                    peering.is_primary() && peering.members().contains(&self.members.peering.whoami()),
                    "{pgid}: serves and is no primary"
                );
            }
            State::ReplicaActive => assert!(!peering.is_primary(), "{pgid}: follows itself"),
            _ => assert!(!self.backend.has_writes(), "{pgid}: writes are in flight while it peers"),
        }
        if peering.is_active() {
            let (m, enough) = (&peering.mapping, peering.mapping.min_size as usize);
            assert!(m.serving() >= enough, "{pgid}: serves with {:?} of {enough}", m.acting);
        }
        for write in self.backend.writes() {
            assert!(write.waiting.iter().all(|m| peering.members().contains(m)), "{pgid}: a write waits for one that is no member");
        }
        match self.agrees_with(store) {
            // What the store must fetch first is looked at another time.
            Ok(()) | Err(StoreError::Wait(_) | StoreError::Stopped(_)) => {}
            Err(StoreError::Damaged { .. }) if rots => {}
            Err(error) => panic!("{pgid}: its store: {error}"),
        }
    }
    fn agrees_with(&self, store: &dyn ObjectStore) -> Result<(), StoreError> {
        let pgid = self.pgid;
        // A new group's first record is on its way.
        let Some(record) = store.load_pg(pgid)? else { return Ok(()) };
        let (theirs, ours) = (&record.info, self.record.info());
        if !self.record.is_saved() {
            return Ok(());
        }
        assert_eq!((theirs.last_update, theirs.log_tail), (ours.last_update, ours.log_tail), "{pgid}: the store's record is another");
        assert!(Missing::from(&record.missing) == *self.record.missing(), "{pgid}: the store's missing objects are others");
        let entries = store.pg_log(pgid, EVersion::ZERO, usize::MAX)?;
        assert!(
            entries.iter().map(|e| e.version).eq(self.record.log().versions_after(EVersion::ZERO)),
            "{pgid}: the store's log is another than the one at hand"
        );
        let mut seen: BTreeSet<&HObject> = BTreeSet::new();
        for e in entries.iter().rev().filter(|e| !e.is_error() && e.soid < ours.last_backfill) {
            if !seen.insert(&e.soid)
                || self.record.missing().contains(&e.soid)
                || !matches!(e.op, LogOp::MODIFY | LogOp::CLONE | LogOp::DELETE)
            {
                continue;
            }
            let context = match load_object(Source::new(store, self.coll), &e.soid) {
                Ok(context) => context,
                Err(PlanStop::Wait(ticket)) => return Err(StoreError::Wait(ticket)),
                Err(PlanStop::Store(what)) => return Err(StoreError::Damaged { coll: self.coll, what }),
                Err(stop) => panic!("{pgid}: {}: {stop:?}", e.soid),
            };
            assert_eq!(context.exists, !e.is_delete(), "{pgid}: {} is not what entry {} left", e.soid, e.version);
            if context.exists {
                assert_eq!(context.info.version, e.version, "{pgid}: {} is of another version than the log says", e.soid);
            }
        }
        Ok(())
    }
}
