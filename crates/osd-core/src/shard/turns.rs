//! The turns of a shard: what is durable and what its store has fetched is taken, work goes on, leases are renewed.

use super::Shard;
use crate::event::Effect;
use crate::pg::slot_of;
use crate::shared::EventCx;
use crate::work::Work;
use store::StoreError;
use types::CollId;

impl Shard {
    /// Takes what is durable and what the store has fetched, until nothing more comes of it.
    pub(super) fn turn_end(&mut self, cx: &mut EventCx<'_>) {
        self.seal();
        loop {
            if self.settle(cx) {
                self.seal();
                continue;
            }
            // Until there are no more: what waits for just this ticket may be the only thing that would bring another turn.
            if !self.fetch_news() {
                break;
            }
            if self.loading.is_some() {
                self.load_on();
            }
            self.take_news(cx);
            self.seal();
        }
        self.compactions.answer(&*self.sh.store, cx);
    }
    /// The store has what it was given for now.
    fn seal(&mut self) {
        self.sh.store.turn_end();
        self.sh.store.give_back();
    }
    /// Takes what is durable. True if something came of it that the store is to hear of.
    fn settle(&mut self, cx: &mut EventCx<'_>) -> bool {
        self.take_commits(cx);
        self.tell_places(cx) || self.copy_some(cx) || self.catch_up(cx)
    }
    /// Asks the store what it has fetched. False if it has no news.
    fn fetch_news(&mut self) -> bool {
        self.tickets.clear();
        self.sh.store.take_ready(&mut self.tickets);
        self.tickets.sort_unstable();
        !self.tickets.is_empty()
    }
    /// What waited for the store's tickets goes on.
    fn take_news(&mut self, cx: &mut EventCx<'_>) {
        let tickets = std::mem::take(&mut self.tickets);
        self.removals.work.store_ready(&tickets);
        for pg in self.pgs.iter_mut().flatten() {
            pg.store_ready(&tickets, &mut cx.with(&mut self.sh));
        }
        self.catch_up(cx);
        self.peer_waiting(cx);
        self.tickets = tickets;
    }

    pub(super) fn take_commits(&mut self, cx: &mut EventCx<'_>) {
        loop {
            let mut commits = std::mem::take(&mut self.commits);
            self.sh.store.take_commits(&mut commits);
            let none = commits.is_empty();
            for token in commits.drain(..) {
                if let Some(Some(pg)) = self.pgs.get_mut(slot_of(token) as usize)
                    && pg.committed(token, &mut cx.with(&mut self.sh))
                {
                    let pgid = pg.pgid;
                    self.peer_on(pgid, cx);
                }
            }
            self.commits = commits;
            if none {
                return;
            }
        }
    }

    pub(super) fn want_turn(&mut self, cx: &mut EventCx<'_>) {
        self.sh.turns.want(self.removals.work);
        if self.bench.is_some() {
            self.sh.turns.want(Work::Busy);
        }
        if self.sh.turns.ask() {
            cx.out.push(Effect::Continue);
        }
    }
    /// Work that is busy gets its turn.
    pub(super) fn turn(&mut self, cx: &mut EventCx<'_>) {
        self.sh.turns.begin();
        let behind = &self.behind;
        for pg in self.pgs.iter_mut().flatten().filter(|pg| pg.work().is_busy() && !behind.has(pg.slot as usize)) {
            pg.turn(&mut cx.with(&mut self.sh));
            self.sh.turns.want(pg.work());
        }
        self.remove_some(cx);
        self.bench_step(cx);
    }

    /// Leases are renewed, and end.
    pub(super) fn leases_due(&mut self, cx: &mut EventCx<'_>) {
        self.sh.wishes.lease_due = None;
        for pg in self.pgs.iter_mut().flatten() {
            pg.lease_due(&mut cx.with(&mut self.sh));
            pg.wake_recovery(&mut cx.with(&mut self.sh));
        }
    }

    pub(super) fn tick(&mut self, cx: &mut EventCx<'_>) {
        self.leases_due(cx);
        self.sh.bounds.forget_full();
        for pg in self.pgs.iter_mut().flatten() {
            pg.tick(&mut cx.with(&mut self.sh));
        }
        if let Err(StoreError::Stopped(why)) = self.sh.store.collection_bits(CollId::Meta) {
            cx.out.push(Effect::Stop { why: Some(why) });
        }
        self.compactions.answer(&*self.sh.store, cx);
        self.sh.store.give_back();
        self.removals.work.tick();
        self.replay_peers(cx);
        self.peer_waiting(cx);
        self.look_up_epochs(cx);
    }
}
