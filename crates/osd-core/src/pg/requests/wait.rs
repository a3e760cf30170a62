//! How requests that waited until the store has fetched something go on; which these are, [`super::store_waiters`] holds.

use super::order::Turn;
use super::store_waiters::StoreWaiter;
use crate::op::{self, Awaited};
use crate::pg::group::Group;
use crate::pg::requests::Requests;
use crate::pg::work::Jobs;
use crate::request::ClientOp;
use crate::shared::Cx;
use store::StoreError;
use types::errno::ENOENT;

impl Requests {
    /// The store has what these tickets (ascending) stand for: what waits for one of them goes on, each object's requests in their order. What waits
    /// for another ticket is left alone: with hundreds of reads under way, each would be tried hundreds of times.
    pub(in crate::pg) fn store_ready(&mut self, tickets: &[u64], work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        let ready = self.store_waiters.take_ready(tickets);
        self.go_on(ready, work, group, cx);
    }
    /// It is the group's turn: requests that gave others theirs go on.
    pub(in crate::pg) fn requests_turn(&mut self, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        let waited = self.store_waiters.take_turn();
        self.go_on(waited, work, group, cx);
    }
    fn go_on(&mut self, ready: Vec<(u64, StoreWaiter)>, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        for (ticket, waiter) in ready {
            match waiter {
                StoreWaiter::Object(head) => {
                    self.objects.store_ready(&head);
                    self.wake(&head, work, group, cx);
                }
                StoreWaiter::Read(op, loaded) => self.read_goes_on(op, work, group, cx, |requests, op, work, group, cx| {
                    let loaded = loaded.filter(|ctx| requests.objects.context(ctx.hobj()).is_none());
                    requests.execute(op, Turn::InOrder, loaded.map(|ctx| *ctx), work, group, cx);
                }),
                StoreWaiter::Bytes(op, awaited) => self.bytes_came(op, awaited, ticket, work, group, cx),
                StoreWaiter::Followed(op, awaited) => self.followed_came(op, awaited, ticket, work, group, cx),
                StoreWaiter::Request(op) => self.client_op(op, work, group, cx),
            }
        }
    }

    /// A read whose bytes have come is answered. Nothing of the object was written since: writes wait for it.
    fn bytes_came(&mut self, op: Box<ClientOp>, awaited: Awaited, ticket: u64, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        let bytes = group.source(cx.sh).awaited(ticket, &op.msg.hobj, awaited.snap, awaited.offset, awaited.length);
        if let Err(StoreError::Wait(ticket)) = bytes {
            return self.store_waiters.push(ticket, StoreWaiter::Bytes(op, awaited));
        }
        self.read_goes_on(op, work, group, cx, |requests, op, work, group, cx| match bytes {
            Ok(bytes) => match op::answer_read(group.pgid, &op.msg, &awaited, bytes) {
                Ok(plan) => requests.take_plan(op, plan, work, group, cx),
                Err(stop) => requests.stopped(op, Turn::InOrder, stop, work, group, cx),
            },
            Err(StoreError::NoObject(_)) => cx.reply_error(&op, ENOENT),
            Err(error) => requests.stopped(op, Turn::InOrder, error.into(), work, group, cx),
        });
    }

    /// A read no longer waits for the store: it goes on, and then what waited for it.
    fn read_goes_on(
        &mut self,
        op: Box<ClientOp>,
        work: &mut Jobs,
        group: &mut Group,
        cx: &mut Cx<'_>,
        goes_on: impl FnOnce(&mut Self, Box<ClientOp>, &mut Jobs, &mut Group, &mut Cx<'_>),
    ) {
        let (op, head) = self.objects.read_left(op);
        if let Some(op) = op {
            goes_on(self, op, work, group, cx);
        }
        if let Some(head) = head {
            self.wake(&head, work, group, cx);
        }
    }
}
