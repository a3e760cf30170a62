//! A client's connection before the daemon's budget ([`base::budget`]).
//!
//! Holds what one connection has of the budget: memory for the message that it is receiving, the message that waits for a slot, the bytes that
//! wait for its socket. Absent: reading and writing, which ask here first.
//!
//! ```text
//!            header of a long message          whole               slot               answer
//!   socket ──────────── coming ──────────────── held ─────────── dispatched ───────── queue ──> socket
//!            waits: nothing more is read     waits: likewise    the daemon has       full: nothing more is
//!            from this socket                                   the permit           taken from this socket
//! ```
//! Two things are the peer's to hurry: a message that is here in part, and the answers in the queue. While others wait for what these hold, a
//! connection that moved less than [`crate::messenger::MOVED_MIN`] in [`crate::Config::stall`] is cut. A client dials again and sends its requests again, so
//! it loses nothing.

use crate::messenger::MOVED_MIN;
use crate::planted::{Bug, planted};
use crate::pump::Wait;
use crate::socket::Armed;
use crate::{Conn, Dispatcher};
use base::budget::{SMALL_MAX, Waits};
use base::{Account, Budget, Permit, Turn};
use messages::RawMessage;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

fn waits(full: Waits) -> Wait {
    Wait::Budget(Armed::by_budget(&full))
}

pub(crate) struct Gate {
    budget: Rc<Budget>,
    /// What waits of this connection for something long.
    account: Rc<Account>,
    turn: Turn,
    /// Memory for the message that is being received.
    coming: Option<Permit>,
    /// A whole message that waits for its slot.
    held: Option<(RawMessage, Permit)>,
    /// A whole message that waits for memory: a short one, which had none before.
    short: Option<RawMessage>,
    /// Bytes of our queue that the budget knows of.
    charged: u64,
    /// Bytes that were read and written.
    moved: u64,
    stall: Duration,
    /// Until the next look, and what had moved at the last.
    watch: Option<(Pin<Box<Sleep>>, u64)>,
}

impl Gate {
    pub fn new(budget: Rc<Budget>, stall: Duration) -> Self {
        let (coming, held, short, watch) = (None, None, None, None);
        let budget = if planted(Bug::TakeNoPermit) { Budget::new(0, 0) } else { budget };
        let account = budget.account();
        Self { budget, account, turn: Turn::default(), coming, held, short, charged: 0, moved: 0, stall, watch }
    }
    /// Whether the socket may be read: there is memory for the message of `coming` bytes that has begun.
    pub fn may_read(&mut self, coming: Option<u64>, waker: &Waker) -> Result<(), Wait> {
        assert!(!self.holds(), "a message that waits here is dispatched before more is read");
        if let Some(len) = coming
            && len > SMALL_MAX
            && self.coming.is_none()
        {
            self.coming = Some(self.budget.reserve(len, &self.account, &mut self.turn, waker).map_err(waits)?);
        }
        Ok(())
    }
    /// True if a whole message waits here: others of this connection stay behind it.
    pub fn holds(&self) -> bool {
        self.held.is_some() || self.short.is_some()
    }
    /// Dispatches a message, or keeps it until it may be.
    pub fn pass(&mut self, conn: &Conn, dispatcher: &dyn Dispatcher, message: RawMessage, waker: &Waker) -> Result<(), Wait> {
        let permit = match self.coming.take() {
            Some(permit) => permit,
            None => match self.budget.reserve(message.len() as u64, &self.account, &mut self.turn, waker) {
                Ok(permit) => permit,
                Err(full) => {
                    self.short = Some(message);
                    return Err(waits(full));
                }
            },
        };
        self.admit(conn, dispatcher, message, permit, waker)
    }
    /// Tries again with the message that waits here.
    pub fn retry(&mut self, conn: &Conn, dispatcher: &dyn Dispatcher, waker: &Waker) -> Result<(), Wait> {
        if let Some(message) = self.short.take() {
            return self.pass(conn, dispatcher, message, waker);
        }
        match self.held.take() {
            Some((message, permit)) => self.admit(conn, dispatcher, message, permit, waker),
            None => Ok(()),
        }
    }
    fn admit(
        &mut self,
        conn: &Conn,
        dispatcher: &dyn Dispatcher,
        message: RawMessage,
        mut permit: Permit,
        waker: &Waker,
    ) -> Result<(), Wait> {
        if dispatcher.is_request(&message) {
            if self.budget.is_full(&self.account) {
                self.held = Some((message, permit));
                return Err(Wait::Budget(Armed::by_account(&self.account, waker)));
            }
            let is_heavy = self.budget.is_tight() && dispatcher.answer_bytes(&message) > SMALL_MAX;
            if let Err(full) = permit.admit(is_heavy, &mut self.turn, waker) {
                self.held = Some((message, permit));
                return Err(waits(full));
            }
        }
        *conn.0.permit.borrow_mut() = (!planted(Bug::GiveBackEarly)).then_some(permit);
        dispatcher.on_message(conn, message);
        conn.0.permit.borrow_mut().take();
        Ok(())
    }

    /// True if requests of this connection that wait are in the way of others, and more of them than any other connection's. Says so again by the waker.
    pub fn is_ended(&self, waker: &Waker) -> bool {
        self.account.arm(waker);
        self.account.is_ended()
    }
    /// Bytes that our queue may hold before nothing more is taken from the socket.
    pub fn out_max(&self) -> usize {
        usize::try_from(self.budget.allowance().saturating_add(self.charged / 2)).unwrap_or(usize::MAX)
    }
    /// So many bytes were read or written.
    #[inline]
    pub fn moved(&mut self, bytes: usize) {
        self.moved += bytes as u64;
    }
    /// So many bytes are held by what waits for the socket now.
    #[inline]
    pub fn queued(&mut self, now: usize) {
        if self.charged != now as u64 && !planted(Bug::ForgetAnswers) {
            self.budget.queued(self.charged, now as u64);
            self.charged = now as u64;
        }
    }
    /// True if this connection is in the way of others and its peer does nothing about it. Looks again by itself.
    pub fn is_stalled(&mut self, cx: &mut Context<'_>) -> bool {
        if self.coming.is_none() && self.charged == 0 {
            self.watch = None;
            return false;
        }
        loop {
            let (stall, moved) = (self.stall, self.moved);
            let (timer, mark) = self.watch.get_or_insert_with(|| (Box::pin(sleep(stall)), moved));
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            let is_slow = moved - *mark < MOVED_MIN;
            let in_the_way = (self.coming.is_some() && self.budget.is_wanted()) || (self.charged > 0 && self.budget.is_clogged());
            if is_slow && in_the_way {
                return true;
            }
            self.watch = None;
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.queued(0);
    }
}
