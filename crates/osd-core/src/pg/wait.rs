//! Requests that wait until the store has fetched something, and how each goes on.

use super::Pg;
use super::order::Turn;
use crate::op::{self, ANY_TICKET, Awaited, NEXT_TURN, ObjectContext};
use crate::request::ClientOp;
use crate::shared::Cx;
use store::StoreError;
use types::errno::ENOENT;
use types::{GHObject, HObject};

/// What waits for a ticket of the store.
#[derive(Debug)]
pub(super) enum StoreWaiter {
    /// The request that holds this head's order.
    Object(HObject),
    /// A read that its object's order counts; with the head's context, unless that is at hand.
    Read(Box<ClientOp>, Option<Box<ObjectContext>>),
    /// Such a read of which only the bytes are missing.
    Bytes(Box<ClientOp>, Awaited),
    /// A request that has no place in an order.
    Request(Box<ClientOp>),
}

impl StoreWaiter {
    fn op(&self) -> Option<&ClientOp> {
        if let Self::Request(op) | Self::Read(op, _) | Self::Bytes(op, _) = self { Some(op) } else { None }
    }
    fn into_op(self) -> Option<Box<ClientOp>> {
        if let Self::Request(op) | Self::Read(op, _) | Self::Bytes(op, _) = self { Some(op) } else { None }
    }
}

/// All that waits for the store, with the ticket of each, or for a turn. Clients' requests are bounded by the OSD's budget; those of connections without
/// a permit (metadata servers, managers, OSDs) by what each of these has under way.
#[derive(Debug, Default)]
pub(super) struct StoreWaiters {
    all: Vec<(u64, StoreWaiter)>,
    /// What waits for the group's next turn instead.
    turn: Vec<StoreWaiter>,
}

impl StoreWaiters {
    pub fn push(&mut self, ticket: u64, waiter: StoreWaiter) {
        if ticket == NEXT_TURN { self.turn.push(waiter) } else { self.all.push((ticket, waiter)) }
    }
    /// What waits for one of these tickets (ascending), in order.
    fn take_ready(&mut self, tickets: &[u64]) -> Vec<(u64, StoreWaiter)> {
        self.all.extract_if(.., |(ticket, _)| *ticket == ANY_TICKET || tickets.binary_search(ticket).is_ok()).collect()
    }
    fn take_turn(&mut self) -> Vec<(u64, StoreWaiter)> {
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

impl Pg {
    /// The store has what these tickets (ascending) stand for: what waits for one of them goes on, each object's requests in their order. What waits
    /// for another ticket is left alone: with hundreds of reads under way, each would be tried hundreds of times.
    pub fn store_ready(&mut self, tickets: &[u64], cx: &mut Cx<'_>) {
        let ready = self.store_waiters.take_ready(tickets);
        self.go_on(ready, cx);
        self.wake_work(|work| work.store_ready(tickets), cx);
    }

    /// It is the group's turn: requests that gave others theirs go on.
    pub(super) fn requests_turn(&mut self, cx: &mut Cx<'_>) {
        let waited = self.store_waiters.take_turn();
        self.go_on(waited, cx);
    }
    fn go_on(&mut self, ready: Vec<(u64, StoreWaiter)>, cx: &mut Cx<'_>) {
        for (ticket, waiter) in ready {
            match waiter {
                StoreWaiter::Object(head) => {
                    self.objects.store_ready(&head);
                    self.wake(&head, cx);
                }
                StoreWaiter::Read(op, loaded) => self.read_goes_on(op, cx, |pg, op, cx| {
                    let loaded = loaded.filter(|ctx| pg.objects.context(ctx.hobj()).is_none());
                    pg.execute(op, Turn::InOrder, loaded.map(|ctx| *ctx), cx);
                }),
                StoreWaiter::Bytes(op, awaited) => self.bytes_came(op, awaited, ticket, cx),
                StoreWaiter::Request(op) => self.client_op(op, cx),
            }
        }
    }

    /// A read whose bytes have come is answered. Nothing of the object was written since: writes wait for it.
    fn bytes_came(&mut self, op: Box<ClientOp>, awaited: Awaited, ticket: u64, cx: &mut Cx<'_>) {
        let bytes = match cx.sh.store.take_read(ticket) {
            Some(bytes) => Ok(bytes),
            None => {
                let name = GHObject::plain(op.msg.hobj.at_snap(awaited.snap));
                cx.sh.store.read(self.coll, &name, awaited.offset, awaited.length)
            }
        };
        if let Err(StoreError::Wait(ticket)) = bytes {
            return self.store_waiters.push(ticket, StoreWaiter::Bytes(op, awaited));
        }
        self.read_goes_on(op, cx, |pg, op, cx| match bytes {
            Ok(bytes) => match op::answer_read(pg.pgid, &op.msg, &awaited, bytes) {
                Ok(plan) => pg.take_plan(op, plan, cx),
                Err(stop) => pg.stopped(op, Turn::InOrder, stop, cx),
            },
            Err(StoreError::NoObject(_)) => pg.reply_error(&op, ENOENT, cx),
            Err(error) => pg.stopped(op, Turn::InOrder, error.into(), cx),
        });
    }

    /// A read no longer waits for the store: it goes on, and then what waited for it.
    fn read_goes_on(&mut self, op: Box<ClientOp>, cx: &mut Cx<'_>, goes_on: impl FnOnce(&mut Self, Box<ClientOp>, &mut Cx<'_>)) {
        let (op, head) = self.objects.read_left(op);
        if let Some(op) = op {
            goes_on(self, op, cx);
        }
        if let Some(head) = head {
            self.wake(&head, cx);
        }
    }
}
