//! Another member of the group, as the primary under test meets it: one of ours, or a stock one that ends where 18.2 ends.
//!
//! The stock one is written down from the reactions of each state in Ceph 18.2 `src/osd/PeeringState.h`: an event that no state of the chain takes is
//! fatal. What its queue of places decides comes to it behind the messages that are there already.

use crate::pg::work::places::lend::{Do, Lender};
use crate::pg::work::places::want::Kind;
use crate::reserver::{News, Reserver};
use std::collections::VecDeque;
use types::{Epoch, PgId, SpgId};

/// The group under test; other numbers are groups that take places away.
pub const GROUP: u32 = 0;
pub fn group(seed: u32) -> SpgId {
    SpgId::whole(PgId::new(1, seed))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Msg {
    /// The primary's log or info: the member serves in this interval.
    Activate,
    Activated,
    Request(Kind, u32),
    Release(Kind),
    /// Backfill goes on; the flag: the member's store is too full by now.
    Scan(bool),
    /// Backfill of this member is over.
    Finish,
    Grant(Kind),
    Revoke(Kind),
    Refuse,
    RevokeTooFull,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Stray,
    NotRecovering,
    WaitRecovery,
    WaitBackfill,
    Recovering,
}

/// What reaches a stock member's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Heard(Msg),
    Reserved(Kind),
    Preempted(Kind),
    /// A message says that backfill is over, by way of the queue.
    Done,
}

#[derive(Debug)]
pub struct Stock {
    state: State,
    /// What its place is asked for, and since when.
    asks: Option<Kind>,
    queue: VecDeque<(Epoch, Event)>,
}

#[derive(Debug)]
enum Side {
    Ours(Lender),
    Stock(Stock),
}

/// A member with its OSD's places.
#[derive(Debug)]
pub struct Member {
    pub epoch: Epoch,
    /// When the interval began, by the maps that it has.
    pub since: Epoch,
    pub places: Reserver,
    side: Side,
    pub out: Vec<Msg>,
}

impl Member {
    pub fn new(is_stock: bool, places: usize, epoch: Epoch) -> Self {
        let stock = Stock { state: State::Stray, asks: None, queue: VecDeque::new() };
        let side = if is_stock { Side::Stock(stock) } else { Side::Ours(Lender::default()) };
        Self { epoch, since: epoch, places: Reserver::new(places, 0), side, out: Vec::new() }
    }
    pub fn is_stock(&self) -> bool {
        matches!(self.side, Side::Stock(_))
    }
    /// Another interval begins.
    pub fn start_interval(&mut self) {
        self.since = self.epoch;
        match &mut self.side {
            Side::Ours(lender) => lender.release(&mut Vec::new()),
            Side::Stock(stock) => (stock.state, stock.asks) = (State::Stray, None),
        }
        self.places.cancel(group(GROUP));
    }
    /// A message of its interval.
    pub fn hear(&mut self, msg: Msg, is_too_full: bool) {
        let Member { epoch, side, out, .. } = self;
        let lender = match side {
            Side::Ours(lender) => lender,
            Side::Stock(stock) => {
                // What goes to the objects does not pass by the group's states.
                match msg {
                    Msg::Scan(true) if stock.state == State::Recovering && stock.asks == Some(Kind::Backfill) => {
                        out.push(Msg::RevokeTooFull)
                    }
                    Msg::Scan(_) => {}
                    Msg::Finish => stock.queue.push_back((*epoch, Event::Done)),
                    _ => stock.queue.push_back((*epoch, Event::Heard(msg))),
                }
                return;
            }
        };
        let mut does = Vec::new();
        match msg {
            Msg::Activate => out.push(Msg::Activated),
            Msg::Request(kind, priority) => lender.asked(kind, priority, kind == Kind::Backfill && is_too_full, &mut does),
            Msg::Release(_) => lender.release(&mut does),
            Msg::Scan(true) => lender.too_full(&mut does),
            Msg::Scan(false) | Msg::Finish => {}
            _ => panic!("a member hears {msg:?}"),
        }
        self.do_lend(does);
    }
    fn do_lend(&mut self, does: Vec<Do>) {
        for one in does {
            match one {
                Do::AskOurs(priority) => self.places.ask(group(GROUP), priority),
                Do::GiveOursBack => self.places.cancel(group(GROUP)),
                Do::Grant(kind) => self.out.push(Msg::Grant(kind)),
                Do::Revoke(kind) => self.out.push(Msg::Revoke(kind)),
                Do::Refuse => self.out.push(Msg::Refuse),
                Do::RevokeTooFull => self.out.push(Msg::RevokeTooFull),
            }
        }
    }
    /// What the places came to goes on its way. Our group looks when its OSD has the time; a stock one is told at once, by its queue.
    fn take_news(&mut self, does_ours_look: bool) -> bool {
        if !self.is_stock() && !does_ours_look {
            return false;
        }
        let mut any = false;
        while let Some((pgid, news)) = self.places.take_news() {
            if pgid != group(GROUP) {
                continue;
            }
            any = true;
            match &mut self.side {
                Side::Ours(lender) => {
                    let mut does = Vec::new();
                    lender.news(news, &mut does);
                    self.do_lend(does);
                }
                Side::Stock(stock) => {
                    let kind = stock.asks.expect("a stock group has news of what it asked for");
                    let event = if news == News::Granted { Event::Reserved(kind) } else { Event::Preempted(kind) };
                    stock.queue.push_back((self.epoch, event));
                }
            }
        }
        any
    }
    /// Another group's turn on this OSD's places.
    pub fn others(&mut self, does: impl FnOnce(&mut Reserver)) {
        does(&mut self.places);
        self.take_news(false);
    }
    /// One thing happens that happens without a message. False if there is nothing.
    pub fn step(&mut self, is_too_full: bool) -> bool {
        if self.take_news(true) {
            return true;
        }
        let Side::Stock(stock) = &mut self.side else { return false };
        let Some((sent, event)) = stock.queue.pop_front() else { return false };
        if sent >= self.since {
            self.react(event, is_too_full);
            self.take_news(false);
        }
        true
    }
    fn react(&mut self, event: Event, is_too_full: bool) {
        let Member { places, side: Side::Stock(stock), out, .. } = self else { return };
        let before = stock.state;
        let cancel = |places: &mut Reserver| {
            places.cancel(group(GROUP));
            State::NotRecovering
        };
        stock.state = match (before, event) {
            (State::Stray, Event::Heard(Msg::Activate)) => {
                out.push(Msg::Activated);
                State::NotRecovering
            }
            (State::Stray, Event::Done) => State::Stray,
            (State::NotRecovering, Event::Heard(Msg::Request(Kind::Backfill, _))) if is_too_full => {
                out.push(Msg::Refuse);
                State::NotRecovering
            }
            (State::NotRecovering, Event::Heard(Msg::Request(kind, priority))) => {
                assert!(!places.has(group(GROUP)), "a stock OSD ends: its group has a place already");
                stock.asks = Some(kind);
                places.ask(group(GROUP), priority);
                if kind == Kind::Recovery { State::WaitRecovery } else { State::WaitBackfill }
            }
            (State::WaitRecovery, Event::Reserved(Kind::Recovery)) | (State::WaitBackfill, Event::Reserved(Kind::Backfill)) => {
                out.push(Msg::Grant(stock.asks.expect("it was asked for")));
                State::Recovering
            }
            // A place that is taken back stays with the group until the primary gives it back.
            (State::Recovering, Event::Preempted(kind)) => {
                out.push(Msg::Revoke(kind));
                State::Recovering
            }
            (State::NotRecovering, Event::Heard(Msg::Release(_)) | Event::Reserved(_) | Event::Done) => State::NotRecovering,
            (State::WaitRecovery | State::WaitBackfill, Event::Heard(Msg::Release(Kind::Backfill))) => cancel(places),
            (State::Recovering, Event::Heard(Msg::Release(_)) | Event::Done) => cancel(places),
            // Every state but a stray's ignores these.
            (State::WaitRecovery | State::WaitBackfill, Event::Heard(Msg::Release(Kind::Recovery)) | Event::Done) => before,
            (State::NotRecovering | State::WaitRecovery | State::WaitBackfill, Event::Preempted(_)) => before,
            (state, event) => panic!("a stock member ends: bad state machine event, {event:?} in {state:?}"),
        };
    }
    /// Nothing is lent, asked for, or on its way here.
    pub fn is_idle(&self) -> bool {
        let side = match &self.side {
            Side::Ours(lender) => lender.is_idle(),
            Side::Stock(stock) => stock.queue.is_empty() && matches!(stock.state, State::Stray | State::NotRecovering),
        };
        side && self.places.is_empty()
    }
    /// The primary has a place here.
    pub fn is_held(&self) -> bool {
        let side = match &self.side {
            Side::Ours(lender) => !lender.is_idle(),
            Side::Stock(stock) => stock.state == State::Recovering,
        };
        side && self.places.has(group(GROUP))
    }
}
