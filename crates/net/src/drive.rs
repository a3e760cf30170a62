//! One connection's task: transports come and go, the session stays as long as its policy lets it.

use crate::conn::{Closing, Conn};
use crate::gate::Gate;
use crate::messenger::{HalfOpen, without_transport};
use bytes::BytesMut;
use msgr::direct::ENDS_MAX;
use msgr::{Fault, MsgrError, State, Up};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};
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

/// A socket and what has been read from it and not been understood yet.
pub(crate) struct Transport {
    stream: TcpStream,
    buf: BytesMut,
}

impl Transport {
    fn new(stream: TcpStream) -> Self {
        // Frames leave when they are written; without it a reply would wait for the peer's ack of the last.
        let _ = stream.set_nodelay(true);
        Self { stream, buf: BytesMut::new() }
    }
}

pub(crate) enum Start {
    Dial,
    Accepted(TcpStream, HalfOpen),
}

#[derive(Debug, Error)]
enum Cut {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Msgr(#[from] MsgrError),
    #[error("the peer closed the socket")]
    Eof,
    #[error("the handshake takes too long")]
    TimedOut,
    #[error("the peer holds up others: it neither sends the rest of its message nor takes its answers")]
    Stalled,
}

/// Why a dial failed: a kind for those that decide, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DialError {
    /// Nothing listens at the address.
    #[error("{0}")]
    Refused(String),
    /// The other side, or what it said, does not pass authentication: a positive errno.
    #[error("{text}")]
    Denied { errno: i32, text: String },
    /// Nothing that says whether the other side is there.
    #[error("{0}")]
    Other(String),
}

impl DialError {
    fn of(cut: &Cut) -> Self {
        let text = cut.to_string();
        match cut {
            Cut::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => Self::Refused(text),
            Cut::Msgr(MsgrError::Auth(errno)) => Self::Denied { errno: *errno, text },
            _ => Self::Other(text),
        }
    }
}

/// Why the present transport is no longer pumped.
enum Exit {
    Cut(Cut),
    Closed,
    /// Another transport is in `incoming`.
    Replaced,
    /// That connection takes over the transport.
    HandOver(Conn),
}

/// Runs a connection from its first transport to its end.
pub(crate) async fn drive(conn: Conn, start: Start) {
    let (mut transport, mut guard) = match start {
        Start::Dial => (None, None),
        Start::Accepted(stream, guard) => (Some(Transport::new(stream)), Some(guard)),
    };
    let mut attempts = 0;
    loop {
        let exit = match transport.take() {
            Some(mut t) => {
                let exit = Pump::new(&conn, &mut t, &mut guard, &mut attempts).await;
                transport = Some(t);
                exit
            }
            None => match dial(&conn).await {
                Ok(Some(t)) => {
                    transport = Some(t);
                    continue;
                }
                Ok(None) => interruption(&conn),
                Err(cut) => Exit::Cut(cut),
            },
        };
        let old = transport.take();
        match exit {
            Exit::Closed => break,
            Exit::Replaced => {
                transport = conn.0.incoming.borrow_mut().take();
                attempts = 0;
            }
            Exit::HandOver(other) => {
                *other.0.incoming.borrow_mut() = old;
                other.0.wake();
                conn.0.announced.set(false);
                break;
            }
            Exit::Cut(cut) => {
                drop(old);
                if conn.0.core.borrow().dialled() && conn.0.core.borrow().state() != State::Ready && conn.0.announced.get() {
                    attempts += 1;
                    if let Some(d) = conn.0.shared.dispatcher() {
                        d.on_dial_failed(&conn, &DialError::of(&cut), attempts);
                    }
                }
                if conn.0.closing.get() != Closing::No {
                    break;
                }
                let fault = conn.0.core.borrow_mut().fault();
                match fault {
                    Fault::Closed => {
                        conn.0.closing.set(Closing::Replaced);
                        break;
                    }
                    Fault::Standby => standby(&conn).await,
                    Fault::Redial(pause) => {
                        let _ = timeout(pause, interrupted(&conn)).await;
                    }
                }
            }
        }
    }
    drop(guard);
    let told = conn.0.closing.get() == Closing::Replaced && conn.0.announced.get();
    conn.0.shared.remove(&conn);
    if told && let Some(d) = conn.0.shared.dispatcher() {
        d.on_reset(&conn);
    }
}

/// What the flags say, when a wait was broken off.
fn interruption(conn: &Conn) -> Exit {
    if conn.0.closing.get() != Closing::No { Exit::Closed } else { Exit::Replaced }
}
fn is_interrupted(conn: &Conn) -> bool {
    matches!(conn.0.closing.get(), Closing::Now | Closing::Replaced)
        || (conn.0.closing.get() == Closing::WhenSent && without_transport(conn.0.core.borrow().state()))
        || conn.0.incoming.borrow().is_some()
}
fn park(conn: &Conn, cx: &Context<'_>) {
    conn.0.notified.set(false);
    let mut waker = conn.0.waker.borrow_mut();
    if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
        *waker = Some(cx.waker().clone());
    }
}
async fn interrupted(conn: &Conn) {
    poll_fn(|cx| {
        park(conn, cx);
        if is_interrupted(conn) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await
}
/// Until there is something to send, the peer dials, or it is over.
async fn standby(conn: &Conn) {
    poll_fn(|cx| {
        park(conn, cx);
        let mut core = conn.0.core.borrow_mut();
        if core.has_queued() {
            core.wake();
        }
        let awake = core.state() != State::Standby;
        drop(core);
        if awake || is_interrupted(conn) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await
}

/// A socket to the peer, or `None` if there was an interruption.
async fn dial(conn: &Conn) -> Result<Option<Transport>, Cut> {
    if is_interrupted(conn) {
        return Ok(None);
    }
    let target = conn.0.core.borrow().target();
    let Some(addr) = target.socket() else {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "the peer has no address").into());
    };
    let mut dialling = pin!(timeout(conn.0.shared.config.handshake_timeout, TcpStream::connect(addr)));
    let mut cut = pin!(interrupted(conn));
    let stream = poll_fn(|cx| {
        if cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        dialling.as_mut().poll(cx).map(Some)
    })
    .await;
    match stream {
        None => Ok(None),
        Some(Err(_)) => Err(Cut::TimedOut),
        Some(Ok(stream)) => {
            let transport = Transport::new(stream?);
            conn.0.core.borrow_mut().start();
            Ok(Some(transport))
        }
    }
}

/// Moves bytes and messages for as long as the transport lasts.
struct Pump<'a> {
    conn: &'a Conn,
    transport: &'a mut Transport,
    guard: &'a mut Option<HalfOpen>,
    attempts: &'a mut u32,
    /// Until the session is open.
    deadline: Option<Pin<Box<Sleep>>>,
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
}

impl<'a> Pump<'a> {
    fn new(conn: &'a Conn, transport: &'a mut Transport, guard: &'a mut Option<HalfOpen>, attempts: &'a mut u32) -> Self {
        let deadline = Some(Box::pin(sleep_until(Instant::now() + conn.0.shared.config.handshake_timeout)));
        Self {
            conn,
            transport,
            guard,
            attempts,
            deadline,
            ack: None,
            first: true,
            more: false,
            open_batch: false,
            gate: None,
            backlog: false,
        }
    }

    /// One read.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cut>> {
        self.more = false;
        if self.backlog {
            return Poll::Pending;
        }
        if let Some(gate) = &mut self.gate {
            let coming = self.conn.0.core.borrow().coming();
            if !gate.may_read(coming, cx.waker()) {
                return Poll::Pending;
            }
        }
        if self.conn.0.shared.local.receive_buffers.is_some()
            && self.deadline.is_none()
            && let Some(read) = self.read_apart(cx)
        {
            return read;
        }
        let buf = &mut self.transport.buf;
        let missing = self.conn.0.core.borrow().need().saturating_sub(buf.len());
        let room = buf.capacity() - buf.len();
        let (min, chunk) = if self.deadline.is_some() { (HANDSHAKE_MIN, HANDSHAKE_CHUNK) } else { (READ_MIN, READ_CHUNK) };
        if room < missing.max(min) {
            buf.reserve(missing.max(chunk));
        }
        let read = pin!(self.transport.stream.read_buf(buf)).poll(cx);
        match read {
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
        let Transport { stream, buf } = &mut *self.transport;
        let mut core = self.conn.0.core.borrow_mut();
        loop {
            match stream.poll_read_ready(cx) {
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
            let read = stream.try_read_vectored(&mut slices);
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
                        // The socket is empty: that is known without asking it again, and here is how the runtime is told.
                        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                    }
                    return Some(Poll::Ready(Ok(())));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Some(Poll::Ready(Err(error.into()))),
            }
        }
    }
    /// Writes until nothing waits or the socket takes no more.
    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), Cut> {
        let mut core = self.conn.0.core.borrow_mut();
        core.ack(false);
        let out = core.out();
        while !out.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let n = out.slices(&mut slices);
            match Pin::new(&mut self.transport.stream).poll_write_vectored(cx, &slices[..n]) {
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
        Ok(())
    }
    /// Bytes that our queue may hold before nothing more is taken from the socket.
    fn out_max(&self) -> usize {
        let max = self.conn.0.shared.config.out_max;
        self.gate.as_ref().map_or(max, |gate| gate.out_max().min(max))
    }
    /// Dispatches every frame that is there in whole, as far as the budget and the queue of answers let it.
    fn process(&mut self, cx: &Context<'_>) -> Result<Option<Exit>, Cut> {
        let Some(dispatcher) = self.conn.0.shared.dispatcher() else { return Ok(None) };
        self.backlog = false;
        loop {
            if let Some(gate) = &mut self.gate {
                self.backlog = self.conn.0.core.borrow_mut().out().held() > gate.out_max();
                if self.backlog {
                    break;
                }
                if gate.holds() {
                    self.open_batch = true;
                    self.backlog = !gate.retry(self.conn, &*dispatcher, cx.waker());
                    if self.backlog || self.conn.0.closing.get() != Closing::No {
                        break;
                    }
                }
            }
            let up = self.conn.0.core.borrow_mut().next(&mut self.transport.buf)?;
            match up {
                None => break,
                Some(Up::Message(message)) => {
                    self.open_batch = true;
                    match &mut self.gate {
                        None => dispatcher.on_message(self.conn, message),
                        Some(gate) => self.backlog = !gate.pass(self.conn, &*dispatcher, message, cx.waker()),
                    }
                    if self.backlog {
                        break;
                    }
                    if self.conn.0.closing.get() != Closing::No {
                        break;
                    }
                }
                Some(Up::Ready) => self.ready(&*dispatcher),
                Some(Up::RemoteReset) => dispatcher.on_remote_reset(self.conn),
                Some(Up::Identified) => {
                    if let Some(other) = self.conn.0.shared.decide(self.conn)? {
                        return Ok(Some(Exit::HandOver(other)));
                    }
                }
            }
        }
        Ok(None)
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
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Err(Cut::TimedOut);
        }
        if let Some(gate) = &mut self.gate
            && gate.is_stalled(cx)
        {
            return Err(Cut::Stalled);
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
            let full = conn.0.core.borrow_mut().out().held() > self.out_max();
            let read = if full { Poll::Pending } else { self.read(cx) };
            let mut progress = matches!(read, Poll::Ready(Ok(())));
            if let Poll::Ready(Err(cut)) = read {
                return Err(cut);
            }
            if progress || self.first || self.backlog {
                self.first = false;
                conn.0.shared.note_read();
                let waited = self.backlog;
                if let Some(exit) = self.process(cx)? {
                    return Ok(Some(exit));
                }
                progress |= waited && !self.backlog;
            } else if conn.0.core.borrow().has_news()
                && let Some(exit) = self.process(cx)?
            {
                return Ok(Some(exit));
            }
            if !self.more {
                self.end_batch();
            }
            self.write(cx)?;
            let empty = conn.0.core.borrow_mut().out().is_empty();
            if conn.0.closing.get() == Closing::WhenSent && empty {
                return Ok(Some(Exit::Closed));
            }
            let unclogged = full && empty;
            if !(progress || unclogged || is_interrupted(conn)) {
                self.timers(cx)?;
                park(conn, cx);
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

impl Future for Pump<'_> {
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
