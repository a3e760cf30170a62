//! One connection's task: transports come and go, the session stays as long as its policy lets it.

use crate::conn::{Closing, Conn};
use crate::messenger::{HalfOpen, without_transport};
use crate::pump::Pump;
use bytes::BytesMut;
use msgr::{Fault, MsgrError, State};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::{Context, Poll};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A socket and what has been read from it and not been understood yet.
pub(crate) struct Transport<S = TcpStream> {
    pub socket: S,
    pub buf: BytesMut,
}

impl Transport {
    fn new(socket: TcpStream) -> Self {
        // Frames leave when they are written; without it a reply would wait for the peer's ack of the last.
        let _ = socket.set_nodelay(true);
        Self { socket, buf: BytesMut::new() }
    }
}

pub(crate) enum Start {
    Dial,
    Accepted(TcpStream, HalfOpen),
}

#[derive(Debug, Error)]
pub(crate) enum Cut {
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
    #[error("the budget is short, and more requests of the peer's wait than of any other")]
    Crowds,
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
    /// The other side takes none of the modes that were offered: one of both demands encryption.
    #[error("{0}")]
    NoMode(String),
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
            Cut::Msgr(MsgrError::NoMode { .. }) => Self::NoMode(text),
            _ => Self::Other(text),
        }
    }
}

/// Why the present transport is no longer pumped.
pub(crate) enum Exit {
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
    end(&conn);
}

/// The connection is no more: the dispatcher hears of it unless it ended it itself.
pub(crate) fn end(conn: &Conn) {
    let told = conn.0.closing.get() == Closing::Replaced && conn.0.announced.get();
    conn.0.shared.remove(conn);
    if told && let Some(d) = conn.0.shared.dispatcher() {
        d.on_reset(conn);
    }
}

/// What the flags say, when a wait was broken off.
fn interruption(conn: &Conn) -> Exit {
    if conn.0.closing.get() != Closing::No { Exit::Closed } else { Exit::Replaced }
}
pub(crate) fn is_interrupted(conn: &Conn) -> bool {
    matches!(conn.0.closing.get(), Closing::Now | Closing::Replaced)
        || (conn.0.closing.get() == Closing::WhenSent && without_transport(conn.0.core.borrow().state()))
        || conn.0.incoming.borrow().is_some()
}
pub(crate) fn park(conn: &Conn, cx: &Context<'_>) {
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
