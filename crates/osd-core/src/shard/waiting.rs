//! Requests that no group has: they wait for a map, for a group's creation, or for a group that takes in a map.
//!
//! Holds the queues, by connection: a connection's end takes away its own, and one that has many crowds out no other. Absent: what ends a wait
//! (`requests`, `catch_up`), and the memory of what waits, which is the budget's ([`base::Permit::set_aside`]).

use crate::event::ConnId;
use crate::planted::{Bug, planted};
use crate::request::ClientOp;
use base::Stamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::Epoch;

/// Requests of one connection in one queue. Clients' are bounded by the budget long before; this is for peers that it does not count. A connection with
/// more is ended: it opens another, and sends again what has no answer. Source: ours; stock has no limit.
const WAITING_MAX: usize = 4096;

/// A request that waits for a map longer than this has its epoch looked up at the monitors: maps go round in much less. Source: ours.
pub(super) const AHEAD_MAX: Duration = Duration::from_secs(5);

/// Requests in the order of each connection.
#[derive(Debug, Default)]
pub(crate) struct Waiting(BTreeMap<ConnId, VecDeque<Box<ClientOp>>>);

impl Waiting {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// True if a request of that connection waits here: later ones wait behind it.
    pub fn has(&self, conn: ConnId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&conn)
    }
    /// A request waits from now on, and holds nothing that others need. False if its connection has too many here.
    #[must_use]
    pub fn push(&mut self, mut op: Box<ClientOp>, waits_for: &'static str) -> bool {
        let queue = self.0.entry(op.conn).or_default();
        if queue.len() == WAITING_MAX {
            return false;
        }
        op.set_aside(waits_for);
        queue.push_back(op);
        true
    }
    pub fn take_all(&mut self) -> impl Iterator<Item = Box<ClientOp>> + use<> {
        std::mem::take(&mut self.0).into_values().flatten()
    }
    /// The connection has ended.
    pub fn remove(&mut self, conn: ConnId) {
        self.0.remove(&conn);
    }
    pub fn requests(&self) -> impl Iterator<Item = &ClientOp> {
        self.0.values().flatten().map(|op| &**op)
    }
    /// True if the first of some connection waits since before `limit`.
    pub fn is_any_since(&self, limit: Stamp) -> bool {
        self.0.values().filter_map(|ops| ops.front()).any(|op| op.received <= limit)
    }
    /// Connections whose first request waits since before `limit` for a map after `newest`, and that map's number.
    pub fn of_no_map(&self, newest: Epoch, limit: Stamp) -> Vec<(ConnId, Epoch)> {
        let first = self.0.iter().filter_map(|(conn, ops)| Some((*conn, ops.front()?)));
        let of_none = first.filter(|(_, op)| op.msg.map_epoch > newest && op.received <= limit && !planted(Bug::WaitForNoMap));
        of_none.map(|(conn, op)| (conn, op.msg.map_epoch)).collect()
    }
}
