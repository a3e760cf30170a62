//! How requests that waited until the store has fetched something go on; which these are, [`super::store_waiters`] holds.

use super::Pg;
use super::order::Turn;
use super::store_waiters::StoreWaiter;
use crate::op::{self, Awaited};
use crate::request::ClientOp;
use crate::shared::Cx;
use store::StoreError;
use types::GHObject;
use types::errno::ENOENT;

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
            Err(StoreError::NoObject(_)) => cx.reply_error(&op, ENOENT),
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
