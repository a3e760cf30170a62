//! Clients' requests to a group. A request passes these rooms, in this order:
//!
//! | room | holds |
//! |---|---|
//! | [`admit`] | what is asked of a request before its object is looked at; [`backoff`]: a group that can't serve for long |
//! | [`order`] | which requests on one object go on, and which wait; [`objects`]: every object's order and context |
//! | [`execute`] | the object's context, the plan; [`wait`], [`store_waiters`]: requests that wait for the store |
//! | [`submit`] | from the plan to the log and the store, and from the commit to the answer |
//! | [`account`] | what is counted of an answered request |
//!
//! Beside them: reads that a member serves which follows in [`balanced`], watches and notifies in [`watch`].

pub(super) mod account;
pub(super) mod admit;
pub(super) mod backoff;
mod balanced;
mod execute;
pub mod objects;
pub mod order;
mod store_waiters;
mod submit;
mod wait;
pub mod watch;

use crate::event::ConnId;
use crate::op::{ObjectContext, PlanStop, load_object};
use crate::pg::group::Group;
use crate::pg::work::Jobs;
use crate::request::ClientOp;
use crate::shared::{Cx, Shared};
use base::Stamp;
use objects::Objects;
use std::collections::VecDeque;
use store_waiters::StoreWaiters;
use types::HObject;
use watch::Watches;

/// Clients' requests, and what is known of their objects.
pub(super) struct Requests {
    objects: Objects,
    /// While the group follows, its contexts at hand are of this count of its changes.
    followed_at: u64,
    /// Requests that came before the group was active. Clients' are bounded by the OSD's budget; those of connections without a permit (metadata
    /// servers, managers, OSDs), and all of them where the budget has no bound, by `admit::WAITING_MAX`.
    waiting_active: VecDeque<Box<ClientOp>>,
    store_waiters: StoreWaiters,
    watches: Watches,
}

impl Requests {
    pub fn new(sh: &Shared) -> Self {
        Self {
            objects: Objects::new(sh.config.int("osd_pg_object_context_cache_count").max(16) as usize),
            followed_at: 0,
            waiting_active: VecDeque::new(),
            store_waiters: StoreWaiters::default(),
            watches: Watches::new(&sh.bounds.notify_budget),
        }
    }
    /// Requests that waited for the lease.
    pub(in crate::pg) fn serve_waiting(&mut self, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        if group.members.serves(cx) {
            backoff::release(group.pgid, cx);
        }
        self.take_waiting(work, group, cx);
    }
    /// The interval is over. Requests that are not answered wait until the group is active again, in their order on each object: writes in
    /// flight, reads that the store fetches for, then what waited behind them. If the group is elsewhere now, clients send them there.
    pub(in crate::pg) fn requeue(&mut self, work: &mut Jobs, group: &mut Group) {
        group.members.forget_parked();
        let mut requests = group.backend.end_writes();
        requests.extend(self.store_waiters.end_interval());
        requests.extend(self.objects.end_interval());
        requests.extend(work.end_requests());
        if !group.members.peering.is_primary() {
            return self.waiting_active.clear();
        }
        requests.extend(self.waiting_active.drain(..));
        requests.sort_by_key(|op| op.received);
        for op in &mut requests {
            op.set_aside("waiting for peered");
            // The members of the next interval have not been asked for a good copy.
            op.was_inspected = false;
            op.passes.forget();
        }
        self.waiting_active = requests.into();
    }

    /// The group serves no longer: requests that wait for it are dropped, and watches.
    pub fn drop_all(&mut self) {
        self.waiting_active.clear();
        self.watches.clear();
    }
    /// Another interval begins: its primary hears of watches from their clients, or reads them with their objects.
    pub fn forget_watches(&mut self) {
        self.watches.clear();
    }
    /// Requests that waited for the group are looked at anew.
    pub fn take_waiting(&mut self, work: &mut Jobs, group: &mut Group, cx: &mut Cx<'_>) {
        for op in std::mem::take(&mut self.waiting_active) {
            self.client_op(op, work, group, cx);
        }
    }
    /// A connection is gone: watches wait for their clients, requests of it are dropped.
    pub fn reset(&mut self, conn: ConnId, now: Stamp) {
        self.watches.reset(conn, now);
        self.waiting_active.retain(|op| op.conn != conn);
    }
    pub fn has_watches(&self) -> bool {
        !self.watches.is_empty()
    }
    /// Requests that wait here.
    pub fn waiting(&self) -> impl Iterator<Item = &ClientOp> {
        self.waiting_active.iter().map(|op| &**op).chain(self.store_waiters.requests()).chain(self.objects.waiting())
    }
    /// True if something waits for the group's next turn.
    pub fn want_turn(&self) -> bool {
        self.store_waiters.want_turn()
    }
    /// Nothing of a client is on its way to this head's name.
    pub fn is_free(&self, head: &HObject) -> bool {
        self.objects.is_free(head)
    }
    /// A head's context is of no use any more.
    pub fn forget(&mut self, head: &HObject) {
        self.objects.forget(head);
    }
    /// A head's context, which is at hand from then on.
    pub fn context(&mut self, head: &HObject, group: &Group, cx: &Cx<'_>) -> Result<&ObjectContext, PlanStop> {
        if self.objects.context(head).is_none() {
            let ctx = load_object(group.source(cx.sh), head)?;
            self.keep(ctx, cx);
        }
        Ok(self.objects.context(head).expect("kept above"))
    }
}
