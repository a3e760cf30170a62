//! What a placement group does by itself: keeping its record, and its part of the OSD's [`Work`].

use super::Pg;
use super::at_store::Submitted;
use crate::shared::Cx;
use crate::work::{Status, Work};
use types::{Epoch, Transaction};

impl Pg {
    /// Writes the whole info and the past intervals.
    pub(super) fn save_info(&mut self, cx: &mut Cx<'_>) {
        self.save_info_as(Submitted::Record, cx);
    }
    /// What there is no room for now is written by a later tick.
    pub(super) fn save_info_as(&mut self, what: Submitted, cx: &mut Cx<'_>) {
        let (at_store, peering, txn) = (&mut self.at_store, &self.peering, Transaction::new(self.coll));
        self.record.save(peering.mapping.epoch, &peering.past, what, |delta| at_store.takes(txn, Some(delta), what, cx));
    }
    /// The record is written anew if it names a map more than `lag` epochs old.
    pub(crate) fn refresh_record(&mut self, lag: Epoch, cx: &mut Cx<'_>) {
        if self.record.saved_epoch().saturating_add(lag) < self.peering.mapping.epoch {
            self.save_info(cx);
        }
    }

    /// About once a second.
    pub fn tick(&mut self, cx: &mut Cx<'_>) {
        if let Some(what) = self.record.take_unsaved() {
            self.save_info_as(what, cx);
        }
        self.activate_again(cx);
        self.tick_watches(cx);
        self.sweep_leftovers(cx);
        self.tick_scrub(cx);
        self.tick_places(cx);
        self.wake_recovery(cx);
        self.wake_work(Work::tick, cx);
    }

    /// What the group does by itself, all together.
    pub fn work(&self) -> Work {
        if self.store_waiters.want_turn() {
            return Work::Busy;
        }
        let (recovery, scrub) = (self.room.work(), self.scrubs.work());
        if self.scrubs.asked_work().is_busy() || scrub.is_busy() && self.scrubs.is_inspecting() && self.peering.is_active() {
            return Work::Busy;
        }
        // Scrub and trimming look at objects that every member has.
        if recovery.is_busy() || self.peering.is_lacking(&self.record) {
            return recovery;
        }
        match (self.peering.is_active(), self.trim.work()) {
            (false, _) => Work::Idle,
            (true, Work::Idle) => scrub,
            (true, _) if scrub.is_busy() => scrub,
            (true, trim) => trim,
        }
    }
    pub(crate) fn work_status(&self) -> impl Iterator<Item = Status> {
        let trimmed = self.record.info().stats.objects_trimmed;
        let trim = self.trim.status(self.pgid, trimmed).filter(|_| self.peering.is_active());
        self.scrubs.status(self.pgid).into_iter().chain(trim).chain(self.room.status(self.pgid))
    }
    /// Parts of it that wait may go on.
    pub(super) fn wake_work(&mut self, wake: impl Fn(&mut Work), cx: &mut Cx<'_>) {
        wake(self.trim.work_mut());
        wake(self.room.work_mut());
        self.scrubs.works_mut().for_each(&wake);
        cx.sh.turns.want(self.work());
    }

    /// A turn for what the group does by itself, and for requests that take more than one.
    pub fn turn(&mut self, cx: &mut Cx<'_>) {
        self.requests_turn(cx);
        if self.room.work().is_busy() {
            self.recover(cx, |recovery, host| recovery.turn(host));
        }
        self.asked_turn(cx);
        if !self.peering.is_active() || self.peering.is_lacking(&self.record) && !self.scrubs.is_inspecting() {
            return;
        }
        self.scrub_turn(cx);
        if self.peering.is_lacking(&self.record) {
            return;
        }
        if self.trim.work().is_busy() {
            self.trim_turn(cx);
        }
    }
}
