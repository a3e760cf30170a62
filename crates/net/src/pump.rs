//! Moves bytes and messages of one connection for as long as a transport lasts.
//!
//! Holds one turn: read, dispatch, write, and what the connection waits for when it stops. Absent: where transports come from and what follows
//! their end (`drive`), what the budget says (`gate`), what bytes mean (`msgr`).
//!
//! A connection stops only with a [`Parked`], and each kind of it is made from the proof that a waker was left:
//!
//! | nothing more is taken because | what wakes it |
//! |---|---|
//! | the socket has nothing ([`Wait::Socket`]) | the read that said so |
//! | the budget has no memory or slot ([`Wait::Budget`]) | the budget's queue |
//! | our own queue of answers is too long ([`Wait::Queue`]) | the write that left some of it; one that left none has made room, and the turn goes on |
//! | it is to end when its answers have left ([`Wait::Queue`]) | the same |
//!
//! What is sent from elsewhere wakes it besides, and so do its timers. While nothing is read, the peer's end is watched by itself: it ends the
//! connection whatever that waits for.

use crate::conn::{Closing, Conn};
use crate::drive::{Cut, Exit, Transport, is_interrupted, park};
use crate::gate::Gate;
use crate::messenger::HalfOpen;
use crate::planted::{Bug, planted};
use crate::socket::{Armed, Ended, Socket};
use bytes::BytesMut;
use msgr::direct::ENDS_MAX;
use msgr::{State, Up};
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use types::EntityKind;

/// Bytes that one read asks for; larger messages get a buffer of their own size.
const READ_CHUNK: usize = 64 << 10;
/// With less room than this in the buffer, more is got before reading.
const READ_MIN: usize = 16 << 10;
/// The same two while a handshake goes on: a peer that has not proven anything yet costs little memory.
const HANDSHAKE_CHUNK: usize = 4 << 10;
const HANDSHAKE_MIN: usize = 1 << 10;
/// Turns of reading and writing before other tasks have theirs.
const TURNS: usize = 8;
/// Slices of one vectored write.
const SLICES: usize = 128;
/// A lossless session that has nothing to say says what it received after this.
const ACK_DELAY: Duration = Duration::from_millis(50);

/// Why nothing more is taken from the peer now.
#[derive(Debug)]
pub(crate) enum Wait {
    Socket(Armed),
    Budget(Armed),
    Queue,
}

/// A connection at rest, by what wakes it.
#[derive(Debug)]
enum Parked {
    Read(Armed),
    Budget(Armed),
    Written(Armed),
}

impl Parked {
    /// `None`: nothing would wake it, so it goes on.
    fn new(wait: Wait, unwritten: Option<Armed>) -> Option<Self> {
        match wait {
            Wait::Socket(armed) => Some(Self::Read(armed)),
            Wait::Budget(armed) => Some(Self::Budget(armed)),
            Wait::Queue if unwritten.is_none() && planted(Bug::ForgetQueue) => Armed::by(&Poll::<()>::Pending).map(Self::Written),
            Wait::Queue => unwritten.map(Self::Written),
        }
    }
}

/// What came of taking from the peer.
enum Taken {
    /// There may be more.
    Some,
    Nothing(Wait),
    Over(Exit),
}

/// See the module.
pub(crate) struct Pump<'a, S> {
    conn: &'a Conn,
    socket: &'a S,
    buf: &'a mut BytesMut,
    guard: &'a mut Option<HalfOpen>,
    attempts: &'a mut u32,
    /// Until the session is open.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Until the peer's banner has come; then the deadline is the handshake's.
    awaits_banner: bool,
    ack: Option<Pin<Box<Sleep>>>,
    first: bool,
    /// The last read took all that it had room for: another will follow before the dispatcher hears that this was all.
    more: bool,
    /// Messages were dispatched, and the dispatcher has not heard that this was all.
    open_batch: bool,
    /// A client's, once its session is open.
    gate: Option<Gate>,
    /// Whole messages may be in the buffer that nothing was made of yet.
    backlog: bool,
    /// The peer's end, once it had to be watched for.
    ended: Option<Ended<'a>>,
}

impl<'a, S: Socket> Pump<'a, S> {
    pub fn new(conn: &'a Conn, transport: &'a mut Transport<S>, guard: &'a mut Option<HalfOpen>, attempts: &'a mut u32) -> Self {
        let config = &conn.0.shared.config;
        let awaits_banner = guard.is_some();
        let limit = if awaits_banner { config.banner_timeout.min(config.handshake_timeout) } else { config.handshake_timeout };
        let deadline = Some(Box::pin(sleep_until(Instant::now() + limit)));
        let Transport { socket, buf } = transport;
        Self {
            conn,
            socket,
            buf,
            guard,
            attempts,
            deadline,
            awaits_banner,
            ack: None,
            first: true,
            more: false,
            open_batch: false,
            gate: None,
            backlog: false,
            ended: None,
        }
    }

    /// Why the socket is not to be read now, if so.
    fn must_wait(&mut self, cx: &Context<'_>) -> Option<Wait> {
        let max = self.conn.0.shared.config.out_max;
        let out_max = self.gate.as_ref().map_or(max, |gate| gate.out_max().min(max));
        let mut core = self.conn.0.core.borrow_mut();
        if core.out().held() > out_max || self.conn.0.closing.get() != Closing::No {
            return Some(Wait::Queue);
        }
        let coming = core.coming();
        drop(core);
        self.gate.as_mut()?.may_read(coming, cx.waker()).err()
    }
    /// One read.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cut>> {
        if self.conn.0.shared.local.receive_buffers.is_some()
            && self.deadline.is_none()
            && let Some(read) = self.read_apart(cx)
        {
            return read;
        }
        let buf = &mut *self.buf;
        let missing = self.conn.0.core.borrow().need().saturating_sub(buf.len());
        let room = buf.capacity() - buf.len();
        let (min, chunk) = if self.deadline.is_some() { (HANDSHAKE_MIN, HANDSHAKE_CHUNK) } else { (READ_MIN, READ_CHUNK) };
        if room < missing.max(min) {
            buf.reserve(missing.max(chunk));
        }
        match self.socket.poll_read(cx, buf) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => Poll::Ready(Err(Cut::Eof)),
            Poll::Ready(Ok(n)) => {
                self.gate.iter_mut().for_each(|gate| gate.moved(n));
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
        }
    }
    /// One read with a place of its own for a large segment; `None` if none is expected, or there is no memory for it.
    fn read_apart(&mut self, cx: &mut Context<'_>) -> Option<Poll<Result<(), Cut>>> {
        let (socket, buf) = (self.socket, &mut *self.buf);
        let mut core = self.conn.0.core.borrow_mut();
        loop {
            match socket.poll_read_ready(cx) {
                Poll::Pending => return Some(Poll::Pending),
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error.into()))),
                Poll::Ready(Ok(())) => {}
            }
            let target = core.read_target(buf)?;
            let mut ends = [0; ENDS_MAX];
            let (head, rest) = ends.split_at_mut(target.head);
            let tail = &mut rest[..target.tail];
            let (before, apart) = (head.len(), target.data.len());
            let asked = before + apart + tail.len();
            let mut slices = [IoSliceMut::new(head), IoSliceMut::new(target.data), IoSliceMut::new(tail)];
            let read = socket.try_read_vectored(&mut slices);
            let n = *read.as_ref().unwrap_or(&0);
            core.received(n.saturating_sub(before).min(apart));
            match read {
                Ok(0) => return Some(Poll::Ready(Err(Cut::Eof))),
                Ok(n) => {
                    self.gate.iter_mut().for_each(|gate| gate.moved(n));
                    buf.extend_from_slice(&head[..n.min(before)]);
                    buf.extend_from_slice(&tail[..n.saturating_sub(before + apart)]);
                    self.more = n == asked;
                    if !self.more {
                        socket.drained();
                    }
                    return Some(Poll::Ready(Ok(())));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Some(Poll::Ready(Err(error.into()))),
            }
        }
    }
    /// Writes until nothing waits, or the socket takes no more and has our waker.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<Option<Armed>, Cut> {
        let mut core = self.conn.0.core.borrow_mut();
        core.ack(false);
        let out = core.out();
        let mut unwritten = None;
        while !out.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let n = out.slices(&mut slices);
            let written = self.socket.poll_write_vectored(cx, &slices[..n]);
            unwritten = Armed::by(&written);
            match written {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => return Err(Cut::Eof),
                Poll::Ready(Ok(n)) => {
                    out.advance(n);
                    self.gate.iter_mut().for_each(|gate| gate.moved(n));
                }
                Poll::Ready(Err(error)) => return Err(error.into()),
            }
        }
        let held = out.held();
        self.gate.iter_mut().for_each(|gate| gate.queued(held));
        Ok(unwritten)
    }
    /// Reads once, unless whole messages are left or something is in the way, and dispatches.
    fn take_in(&mut self, cx: &mut Context<'_>) -> Result<Taken, Cut> {
        self.more = false;
        let waited = self.backlog;
        let mut wait = None;
        if !waited {
            wait = self.must_wait(cx);
            if wait.is_none() {
                let read = self.read(cx);
                wait = Armed::by(&read).map(Wait::Socket);
                if let Poll::Ready(read) = read {
                    read?;
                }
            }
        }
        if wait.is_none() || self.first {
            self.first = false;
            self.conn.0.shared.note_read();
        } else if !self.conn.0.core.borrow().has_news() {
            return Ok(Taken::Nothing(wait.expect("looked at above")));
        }
        Ok(match self.process(cx)? {
            Taken::Some => wait.map_or(Taken::Some, Taken::Nothing),
            other => other,
        })
    }
    /// Dispatches every frame that is there in whole, as far as the budget and the queue of answers let it.
    fn process(&mut self, cx: &Context<'_>) -> Result<Taken, Cut> {
        let Some(dispatcher) = self.conn.0.shared.dispatcher() else { return Ok(Taken::Some) };
        self.backlog = true;
        loop {
            if let Some(gate) = &mut self.gate {
                if self.conn.0.core.borrow_mut().out().held() > gate.out_max() {
                    return Ok(Taken::Nothing(Wait::Queue));
                }
                if gate.holds() {
                    self.open_batch = true;
                    if let Err(wait) = gate.retry(self.conn, &*dispatcher, cx.waker()) {
                        return Ok(Taken::Nothing(wait));
                    }
                }
            }
            if self.conn.0.closing.get() != Closing::No {
                return Ok(Taken::Nothing(Wait::Queue));
            }
            let up = self.conn.0.core.borrow_mut().next(self.buf)?;
            match up {
                None => break,
                Some(Up::Message(message)) => {
                    self.open_batch = true;
                    match &mut self.gate {
                        None => dispatcher.on_message(self.conn, message),
                        Some(gate) => {
                            if let Err(wait) = gate.pass(self.conn, &*dispatcher, message, cx.waker()) {
                                return Ok(Taken::Nothing(wait));
                            }
                        }
                    }
                }
                Some(Up::Ready) => self.ready(&*dispatcher),
                Some(Up::RemoteReset) => dispatcher.on_remote_reset(self.conn),
                Some(Up::Identified) => {
                    if let Some(other) = self.conn.0.shared.decide(self.conn)? {
                        return Ok(Taken::Over(Exit::HandOver(other)));
                    }
                }
            }
        }
        self.backlog = false;
        Ok(Taken::Some)
    }
    /// Tells the dispatcher that what it got was all for now.
    fn end_batch(&mut self) {
        if std::mem::take(&mut self.open_batch)
            && let Some(dispatcher) = self.conn.0.shared.dispatcher()
        {
            dispatcher.on_batch(self.conn);
        }
    }
    fn ready(&mut self, dispatcher: &dyn crate::Dispatcher) {
        self.deadline = None;
        *self.guard = None;
        *self.attempts = 0;
        let inner = &self.conn.0;
        if let Some(budget) = &*inner.shared.budget.borrow()
            && inner.core.borrow().peer().auth_name.kind == EntityKind::CLIENT
        {
            self.gate = Some(Gate::new(budget.clone(), inner.shared.config.stall));
        }
        inner.announced.set(true);
        let (peer, dialled) = {
            let core = inner.core.borrow();
            (Rc::new(core.peer().clone()), core.dialled())
        };
        *inner.peer.borrow_mut() = peer;
        if dialled { dispatcher.on_connect(self.conn) } else { dispatcher.on_accept(self.conn) }
    }
    fn timers(&mut self, cx: &mut Context<'_>) -> Result<(), Cut> {
        while let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            let config = &self.conn.0.shared.config;
            if !self.awaits_banner || self.conn.0.core.borrow().state() == State::Banner {
                return Err(Cut::TimedOut);
            }
            self.awaits_banner = false;
            let rest = config.handshake_timeout.saturating_sub(config.banner_timeout);
            let at = deadline.deadline() + rest;
            deadline.as_mut().reset(at);
        }
        if let Some(gate) = &mut self.gate {
            if gate.is_stalled(cx) {
                return Err(Cut::Stalled);
            }
            if gate.is_ended(cx.waker()) {
                return Err(Cut::Crowds);
            }
        }
        if self.ack.is_none() && self.conn.0.core.borrow().owes_ack() {
            self.ack = Some(Box::pin(sleep(ACK_DELAY)));
        }
        if let Some(ack) = &mut self.ack
            && ack.as_mut().poll(cx).is_ready()
        {
            self.ack = None;
            self.conn.0.core.borrow_mut().ack(true);
            self.write(cx)?;
        }
        Ok(())
    }
    /// The only way to rest.
    fn rest(&mut self, on: &Parked, cx: &mut Context<'_>) -> Result<(), Cut> {
        match on {
            Parked::Read(_) => assert!(!self.backlog, "a connection that waits for its socket has taken every whole message"),
            Parked::Budget(_) | Parked::Written(_) if planted(Bug::IgnoreEnd) => {}
            Parked::Budget(_) | Parked::Written(_) => {
                let socket = self.socket;
                if self.ended.get_or_insert_with(|| socket.ended()).as_mut().poll(cx).is_ready() {
                    return Err(Cut::Eof);
                }
            }
        }
        self.timers(cx)?;
        park(self.conn, cx);
        Ok(())
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Result<Option<Exit>, Cut> {
        let conn = self.conn;
        for _ in 0..TURNS {
            if matches!(conn.0.closing.get(), Closing::Now | Closing::Replaced) {
                return Ok(Some(Exit::Closed));
            }
            if conn.0.incoming.borrow().is_some() {
                return Ok(Some(Exit::Replaced));
            }
            // Wakes from inside this turn are served by the write below.
            conn.0.notified.set(true);
            let wait = match self.take_in(cx)? {
                Taken::Some => None,
                Taken::Nothing(wait) => Some(wait),
                Taken::Over(exit) => return Ok(Some(exit)),
            };
            if wait.is_some() || !self.more {
                self.end_batch();
            }
            let unwritten = self.write(cx)?;
            if conn.0.closing.get() == Closing::WhenSent && unwritten.is_none() {
                return Ok(Some(Exit::Closed));
            }
            if let Some(on) = wait.and_then(|wait| Parked::new(wait, unwritten))
                && !is_interrupted(conn)
            {
                self.rest(&on, cx)?;
                return Ok(None);
            }
        }
        self.end_batch();
        self.write(cx)?;
        park(conn, cx);
        cx.waker().wake_by_ref();
        Ok(None)
    }
}

impl<S: Socket> Future for Pump<'_, S> {
    type Output = Exit;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Exit> {
        let turn = self.turn(cx);
        self.end_batch();
        match turn {
            Ok(None) => Poll::Pending,
            Ok(Some(exit)) => Poll::Ready(exit),
            Err(cut) => Poll::Ready(Exit::Cut(cut)),
        }
    }
}
