//! The socket as the pump sees it: a few calls that give bytes, or leave the caller's waker.
//!
//! Holds the calls, the proof that a waker was left ([`Armed`]), and TCP's own way to do them. Absent: what is read and written, and when:
//! `pump`. The pump's tests put a socket of their own here.

use bytes::BytesMut;
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// The caller's waker is where an event will find it. Only what leaves wakers makes one: sockets here, the budget in `gate`.
#[derive(Debug)]
pub(crate) struct Armed(());

impl Armed {
    /// `None` if the poll is done, and nothing will wake the caller.
    pub fn by<T>(poll: &Poll<T>) -> Option<Self> {
        poll.is_pending().then_some(Self(()))
    }
    /// The budget has the waker in one of its queues.
    pub fn by_budget(_: &base::budget::Waits) -> Self {
        Self(())
    }
    /// The account has the waker from now on.
    pub fn by_account(account: &base::Account, waker: &Waker) -> Self {
        account.arm(waker);
        Self(())
    }
}

/// Ready when the peer has ended its side.
pub(crate) type Ended<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub(crate) trait Socket {
    /// One read to the end of `buf`, of as many bytes as it has room for; 0 is the peer's end.
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>>;
    /// Whether a read is worth trying.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// One read, or `WouldBlock`; then [`Socket::poll_read_ready`] says when to come back.
    fn try_read_vectored(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize>;
    /// The last read got less than it asked for: the socket is known to be empty without asking it again.
    fn drained(&self);
    fn poll_write_vectored(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>>;
    /// Sees the peer's end while nothing is read.
    fn ended(&self) -> Ended<'_>;
}

impl Socket for TcpStream {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        loop {
            ready!(TcpStream::poll_read_ready(self, cx))?;
            let room = buf.capacity() - buf.len();
            match self.try_read_buf(buf) {
                Ok(n) => {
                    if n > 0 && n < room {
                        self.drained();
                    }
                    return Poll::Ready(Ok(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        TcpStream::poll_read_ready(self, cx)
    }
    fn try_read_vectored(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        TcpStream::try_read_vectored(self, slices)
    }
    fn drained(&self) {
        // The runtime learns it from an operation that would block.
        let _ = self.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
    fn poll_write_vectored(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_write_ready(cx))?;
            match self.try_write_vectored(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
    fn ended(&self) -> Ended<'_> {
        // Readiness for urgent data, which nothing here asks the kernel for, comes with the end alone and not with bytes that wait to be read.
        Box::pin(async move {
            let _ = self.ready(Interest::PRIORITY).await;
        })
    }
}
