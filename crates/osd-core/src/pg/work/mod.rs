//! What a group does by itself, beside requests.
//!
//! | room | holds |
//! |---|---|
//! | [`recovery`], [`backfill`] | how members get what they lack |
//! | [`list`] | all jobs: when each may go on, its turn, its row |
//! | [`places`] | places on this OSD and on others, without which neither begins |
//! | [`unfound`] | objects that no member has |
//! | [`scrub`] | members' copies compared and mended |
//! | [`trim`], [`trim_queue`] | clones of removed snapshots |

pub mod backfill;
mod list;
pub mod places;
pub mod recovery;
pub(crate) mod scrub;
#[cfg(test)]
mod side;
mod trim;
pub(super) mod trim_queue;
pub(crate) mod unfound;

use crate::event::ConnId;
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::request::ClientOp;
use crate::shared::{Cx, Shared};
use crate::work::Work;
use backfill::sweep::Sweep;
use places::lend::Lender;
use places::want::Reservation;
use recovery::kept::Kept;
use scrub::Scrubbing;
use scrub::agenda::Agenda;
use trim_queue::TrimQueue;
use types::{CollId, IntervalSet, PgLogEntry, Transaction, pg_state};

/// What a group does by itself.
pub(super) struct Jobs {
    kept: Kept,
    trim: TrimQueue,
    scrubs: Agenda,
    /// Places for recovery and backfill, as the primary; and what we lend as another member.
    reservation: Reservation,
    lender: Lender,
    sweep: Option<Sweep>,
    /// `PG_STATE_FORCED_*`: what an operator wants first.
    forced: u64,
}

impl Jobs {
    pub fn new(sh: &Shared) -> Self {
        Self {
            kept: Kept::new(&sh.bounds.recovery_slots),
            trim: TrimQueue::default(),
            scrubs: Agenda::default(),
            reservation: Reservation::default(),
            lender: Lender::default(),
            sweep: None,
            forced: 0,
        }
    }
    /// The group's scrubs, as far as they are a matter of their own.
    pub fn scrubs(&self) -> &Agenda {
        &self.scrubs
    }
    pub fn scrubs_mut(&mut self) -> &mut Agenda {
        &mut self.scrubs
    }
    /// The same with all that they change.
    pub fn scrubbing<'a, 'b>(&'a mut self, requests: &'a mut Requests, group: &'a mut Group, cx: &'a mut Cx<'b>) -> Scrubbing<'a, 'b> {
        Scrubbing { requests, work: self, group, cx }
    }
    /// About once a second.
    pub fn tick(&mut self, requests: &mut Requests, group: &mut Group, cx: &mut Cx<'_>) {
        self.kept.sweep_leftovers(group, cx);
        self.scrubbing(requests, group, cx).tick();
        self.tick_places(requests, group, cx);
        self.sweep_on(group, cx);
        self.wake_recovery(requests, group, cx);
        self.wake_work(Work::tick, requests, group, cx);
    }
    /// All state bits.
    pub fn state_bits(&self, group: &Group) -> u64 {
        let mut bits = group.members.peering.bits();
        if group.members.peering.is_active() {
            bits |= group.members.lease.bits();
        }
        bits = self.recovery_bits(bits, group);
        if group.record.info().stats.stats.sum.num_scrub_errors > 0 {
            bits |= pg_state::INCONSISTENT;
        }
        if group.members.peering.is_active() && !self.trim.queue().is_empty() {
            bits |= pg_state::SNAPTRIM;
        }
        bits |= self.scrubs.bits();
        bits
    }

    /// Requests that wait for an object to be recovered or mended.
    pub fn waiting(&self) -> impl Iterator<Item = &ClientOp> {
        self.kept.requests().chain(self.scrubs.requests())
    }
    /// The same, taken: the interval is over.
    pub fn end_requests(&mut self) -> impl Iterator<Item = Box<ClientOp>> {
        self.kept.end_requests().chain(self.scrubs.end_requests())
    }
    /// A connection is gone with its requests.
    pub fn reset(&mut self, conn: ConnId) {
        self.kept.reset(conn);
        self.scrubs.reset(conn);
    }
    /// Snapshots were purged everywhere while this OSD was away: they are looked for here.
    pub fn purged(&mut self, snaps: &IntervalSet) {
        self.trim.missed.union_with(snaps);
    }
    /// Removed snapshots whose clones are still here.
    pub fn trims(&self) -> &TrimQueue {
        &self.trim
    }
    /// How many objects are not found.
    pub fn unfound_len(&self) -> u64 {
        self.kept.unfound_len()
    }
    /// Entries were appended while members are being filled.
    pub fn logged(&mut self, entries: &[PgLogEntry]) {
        if let Some(backfill) = self.kept.run().backfill_mut() {
            backfill.logged(entries);
        }
    }
    /// A write is over: an object that a backfill had to leave may be free again.
    pub fn is_free_again(&mut self) {
        self.kept.run().is_free_again();
    }
    /// A write of our primary, behind what a backfill is to remove here.
    pub fn after_removals(&mut self, coll: CollId, entries: &[PgLogEntry], txn: Transaction) -> Transaction {
        self.kept.run().after_removals(coll, entries, txn)
    }
}
