//! Requests that wait until the store has fetched something, or for their group's next turn.
//!
//! Holds what each is to go on with; how it does is [`super::wait`]'s.

use crate::op::{ANY_TICKET, Awaited, NEXT_TURN, ObjectContext};
use crate::request::ClientOp;
use types::HObject;

/// What waits for a ticket of the store.
#[derive(Debug)]
pub(in crate::pg) enum StoreWaiter {
    /// The request that holds this head's order.
    Object(HObject),
    /// A read that its object's order counts; with the head's context, unless that is at hand.
    Read(Box<ClientOp>, Option<Box<ObjectContext>>),
    /// Such a read of which only the bytes are missing.
    Bytes(Box<ClientOp>, Awaited),
    /// The same of a read that a member serves which follows: no order has it, and writes go on meanwhile.
    Followed(Box<ClientOp>, Awaited),
    /// A request that has no place in an order.
    Request(Box<ClientOp>),
}

impl StoreWaiter {
    fn op(&self) -> Option<&ClientOp> {
        if let Self::Request(op) | Self::Read(op, _) | Self::Bytes(op, _) | Self::Followed(op, _) = self { Some(op) } else { None }
    }
    fn into_op(self) -> Option<Box<ClientOp>> {
        if let Self::Request(op) | Self::Read(op, _) | Self::Bytes(op, _) | Self::Followed(op, _) = self { Some(op) } else { None }
    }
}

/// All that waits for the store, with the ticket of each, or for a turn. Clients' requests are bounded by the OSD's budget; those of connections without
/// a permit (metadata servers, managers, OSDs) by what each of these has under way.
#[derive(Debug, Default)]
pub(in crate::pg) struct StoreWaiters {
    all: Vec<(u64, StoreWaiter)>,
    /// What waits for the group's next turn instead.
    turn: Vec<StoreWaiter>,
}

impl StoreWaiters {
    pub fn push(&mut self, ticket: u64, waiter: StoreWaiter) {
        if ticket == NEXT_TURN { self.turn.push(waiter) } else { self.all.push((ticket, waiter)) }
    }
    /// What waits for one of these tickets (ascending), in order.
    pub fn take_ready(&mut self, tickets: &[u64]) -> Vec<(u64, StoreWaiter)> {
        self.all.extract_if(.., |(ticket, _)| *ticket == ANY_TICKET || tickets.binary_search(ticket).is_ok()).collect()
    }
    pub fn take_turn(&mut self) -> Vec<(u64, StoreWaiter)> {
        std::mem::take(&mut self.turn).into_iter().map(|waiter| (NEXT_TURN, waiter)).collect()
    }
    /// True if something waits for the group's next turn.
    pub fn want_turn(&self) -> bool {
        !self.turn.is_empty()
    }
    /// Requests that no order has.
    pub fn requests(&self) -> impl Iterator<Item = &ClientOp> {
        self.all.iter().map(|(_, waiter)| waiter).chain(&self.turn).filter_map(StoreWaiter::op)
    }
    pub fn end_interval(&mut self) -> impl Iterator<Item = Box<ClientOp>> {
        let turn = self.take_turn();
        std::mem::take(&mut self.all).into_iter().chain(turn).filter_map(|(_, waiter)| waiter.into_op())
    }
}
