//! How objects lie on the members of a group, and the writes that are on their way to them.
//!
//! A back end owes what stands in the table. [`Layout`] is the closed list of back ends: what differs between them is a `match` there or
//! on [`Orders`], so another one is a variant, a folder beside [`copies`], and an arm wherever the compiler asks for it. Nothing else in
//! the group knows which one it has.
//!
//! | duty | where | copies |
//! |---|---|---|
//! | an object's name in our store | [`name`] | the object's, with the shard of our collection: none |
//! | the bytes that a plan needs: here, or a ticket; of members by [`crate::op::fetch`] | [`crate::op::Source`] | our store has them |
//! | what a plan gives each member | [`Backend::orders`] | the same transaction for all, none where the object is not yet |
//! | a plan's log entries | [`Layout::seal`] | no entry can be undone |
//! | what an acknowledgement means | [`Backend::arrived`], [`Backend::next_done`] | the member has all of it on disk |
//! | is an object readable, is it recoverable | [`Layout::is_readable`], [`Layout::is_recoverable`] | our copy is here; one copy is |
//! | may an interval have served | [`Layout::might_have_served`] | `min_size` members did |
//! | which log counts | [`Layout::find_best`] | the newest |
//! | which member an OSD is | [`Layout::members`] | each OSD is one |
//! | which members serve | [`Layout::choose_acting`] | any that have the log |
//! | how an entry is taken back | [`Layout::take_back`] | its object is removed and missing |
//! | what recovery reads of an object, and how its parts become it | [`Layout::sources`], [`Layout::pull`], [`Layout::join`] | one copy |
//! | what recovery pushes | [`Layout::push`], [`Layout::cut`] | what changed since the copy that the member has |
//! | how a scrub's maps compare | [`Layout::compare`] | copies are equal |
//!
//! [`Backend`] itself holds what every kind has: writes in flight at members ([`in_flight`]), what our store has not committed
//! ([`at_store`]), and, as a member that follows, what the primary is owed and what may not be everywhere ([`followed`]).

pub(super) mod at_store;
pub mod copies;
mod followed;
pub mod in_flight;
pub mod layout;
pub mod name;
#[cfg(test)]
pub mod positions;
#[cfg(test)]
mod tests;

use crate::event::ConnId;
use crate::pg::members::peering::Peering;
use crate::pg::members::said::Acknowledgement;
use crate::request::ClientOp;
use crate::shared::Cx;
use at_store::{AtStore, Submitted};
use copies::write::Payload;
use followed::Followed;
use in_flight::{InFlight, Replication};
use layout::Layout;
use std::collections::VecDeque;
use store::{LogDelta, StoreResult};
use types::{CollId, EVersion, HObject, PgLogEntry, PgShard, SpgId, Transaction};

/// A plan's change as other members are to get it.
pub(super) enum Orders {
    Copies(Payload),
}

/// See the module.
pub(super) struct Backend {
    layout: Layout,
    inflight: Replication,
    at_store: AtStore,
    /// Writes of the primary that our store has and that are not acknowledged to it, in the order of their submission.
    to_acknowledge: VecDeque<Acknowledgement>,
    /// Writes of the primary that not every member may have.
    followed: Followed,
}

impl Backend {
    pub fn new(pgid: SpgId, slot: u32, layout: Layout) -> Self {
        Self {
            layout,
            inflight: Replication::default(),
            at_store: AtStore::new(pgid, slot),
            to_acknowledge: VecDeque::new(),
            followed: Followed::default(),
        }
    }
    pub fn layout(&self) -> Layout {
        self.layout
    }

    // Our own store.

    /// Gives a transaction with its record to our store. A refused one has not happened, see [`AtStore::give`].
    pub fn give(&mut self, txn: Transaction, delta: Option<LogDelta>, what: Submitted, cx: &mut Cx<'_>) -> StoreResult<()> {
        self.at_store.give(txn, delta, what, cx)
    }
    /// The same; false if the store has no room for it.
    pub fn takes(&mut self, txn: Transaction, delta: Option<LogDelta>, what: Submitted, cx: &mut Cx<'_>) -> bool {
        self.at_store.takes(txn, delta, what, cx)
    }
    /// While this count is the same, so are the group's objects, see [`AtStore::given`].
    pub fn changes(&self) -> u64 {
        self.at_store.given()
    }
    /// The transaction of this token is durable: which it was.
    pub fn committed(&mut self, token: u64) -> Submitted {
        self.at_store.committed(token)
    }
    /// Our store has committed all that it was given.
    pub fn is_committed(&self) -> bool {
        self.at_store.is_empty()
    }
    /// True while something of a former interval is not durable, see [`AtStore::is_unsettled`].
    pub fn is_unsettled(&self) -> bool {
        self.at_store.is_unsettled()
    }
    /// Another interval begins.
    pub fn start_interval(&mut self) {
        self.at_store.start_interval();
    }

    // The primary's writes.

    /// A change as other members are to get it; nothing if there are none.
    pub fn orders(&self, txn: &Transaction, entries: &Vec<PgLogEntry>, coll: CollId, peering: &Peering, features: u64) -> Option<Orders> {
        peering.others().next()?;
        let fills = !peering.targets().is_empty();
        match self.layout {
            Layout::Copies => Some(Orders::Copies(Payload::of(txn, entries, coll, fills, features))),
            #[cfg(test)]
            Layout::Positions(_) => Some(Orders::Copies(Payload::of(txn, entries, coll, fills, features))),
        }
    }
    /// The log ends here, and a write comes behind it.
    pub fn follows(&mut self, last: EVersion) {
        self.inflight.follows(last);
    }
    /// The number of the next write.
    pub fn next_number(&self) -> u64 {
        self.inflight.next_number()
    }
    /// The version up to which every member has committed, as of the last [`Backend::follows`].
    pub fn everywhere(&self) -> EVersion {
        self.inflight.settled()
    }
    /// Up to where every member has the log, if no write is on its way that tells them, and they were not told before.
    pub fn untold(&mut self) -> Option<EVersion> {
        self.inflight.untold()
    }
    /// A write was given to every member that it waits for.
    pub fn submitted(&mut self, write: InFlight) {
        self.inflight.submitted(write);
    }
    /// The version of the write with this number, if it is in flight.
    pub fn version_of(&self, number: u64) -> Option<EVersion> {
        self.inflight.version_of(number)
    }
    /// The write of this version, if it is in flight.
    pub fn write_at(&mut self, version: EVersion) -> Option<&mut InFlight> {
        self.inflight.get(version)
    }
    /// A member has acknowledged a write: all that it was given of it is durable there.
    pub fn arrived(&mut self, from: PgShard, version: EVersion) {
        self.inflight.arrived(from, version);
    }
    /// The oldest write, if every member that it waits for has acknowledged it: its client is answered.
    pub fn next_done(&mut self) -> Option<InFlight> {
        self.inflight.next_done()
    }
    pub fn writes(&self) -> impl Iterator<Item = &InFlight> {
        self.inflight.iter()
    }
    pub fn has_writes(&self) -> bool {
        !self.inflight.is_empty()
    }
    pub fn last_write(&self) -> Option<EVersion> {
        self.inflight.last_version()
    }
    /// The interval is over: no write is in flight any more. The requests, in order, each with its answer.
    pub fn end_writes(&mut self) -> Vec<Box<ClientOp>> {
        self.inflight.end_interval()
    }
    /// A connection is gone.
    pub fn reset(&mut self, conn: ConnId) {
        self.inflight.reset(conn);
    }

    // A member that follows.

    /// We follow the primary by a log that ends here.
    pub fn follow_since(&mut self, last: EVersion) {
        self.followed = Followed::since(last);
    }
    /// The primary has written these entries.
    pub fn primary_wrote(&mut self, entries: &[PgLogEntry]) {
        entries.iter().for_each(|entry| self.followed.wrote(entry));
    }
    /// Every member has what is in the log up to here, as the primary says.
    pub fn settled(&mut self, version: EVersion) {
        self.followed.settled(version);
    }
    /// False if a write of this object may not be on every member.
    pub fn is_settled(&self, obj: &HObject) -> bool {
        self.followed.is_settled(obj)
    }
    /// The primary is owed an acknowledgement of what our store was given last.
    pub fn owes(&mut self, acknowledgement: Acknowledgement) {
        self.to_acknowledge.push_back(acknowledgement);
    }
    /// The oldest of what is owed: it is durable.
    pub fn next_acknowledgement(&mut self) -> Acknowledgement {
        self.to_acknowledge.pop_front().expect("each write of a primary is acknowledged once")
    }
}
