//! The pump, the gate and the budget on sockets of the test's own, in every order that seeds give: partial reads and writes, small budgets, answers at
//! once, with the batch and late, slow readers, clients that end in the middle, several connections on one budget.
//!
//! Two things must never be: a client that waits while nothing is going to wake its connection, and a connection that is woken without end. No
//! timer fires here, so none hides either.

use crate::drive::{Exit, Transport, end};
use crate::planted::{Bug, is_noticed};
use crate::pump::Pump;
use crate::socket::{Ended, Socket};
use crate::{Config, Conn, Dispatcher, Messenger};
use base::{Budget, Permit, Rng};
use bytes::{Bytes, BytesMut};
use messages::RawMessage;
use msgr::{AuthNone, AuthNoneClient, Connection, Local, Policy, Up};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText};

/// A socket's two directions, and those that wait for them.
#[derive(Default)]
struct Pipe {
    up: VecDeque<u8>,
    down: VecDeque<u8>,
    /// Bytes that each direction has room for.
    room: usize,
    /// Bytes that one call moves.
    piece: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
    watcher: Option<Waker>,
    has_ended: bool,
    /// Bytes that our end has moved.
    moved: Rc<Cell<u64>>,
}

impl Pipe {
    fn wake(waker: &mut Option<Waker>) {
        waker.take().iter().for_each(Waker::wake_by_ref);
    }
    fn end(&mut self) {
        self.has_ended = true;
        [&mut self.reader, &mut self.writer, &mut self.watcher].into_iter().for_each(Self::wake);
    }
    fn take(&mut self, room: usize) -> Option<Vec<u8>> {
        let n = room.min(self.piece).min(self.up.len());
        self.moved.set(self.moved.get() + n as u64);
        (n > 0 || self.has_ended).then(|| self.up.drain(..n).collect())
    }
}

struct Fake(Rc<RefCell<Pipe>>);

impl Socket for Fake {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.borrow_mut();
        match pipe.take(buf.capacity() - buf.len()) {
            Some(bytes) => {
                buf.extend_from_slice(&bytes);
                Poll::Ready(Ok(bytes.len()))
            }
            None => {
                pipe.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.0.borrow_mut();
        if pipe.up.is_empty() && !pipe.has_ended {
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
    fn try_read_vectored(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut pipe = self.0.borrow_mut();
        let bytes = pipe.take(slices.iter().map(|s| s.len()).sum()).ok_or(io::ErrorKind::WouldBlock)?;
        let mut rest = &bytes[..];
        for slice in slices {
            let (now, later) = rest.split_at(rest.len().min(slice.len()));
            slice[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Ok(bytes.len())
    }
    fn drained(&self) {}
    fn poll_write_vectored(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.borrow_mut();
        if pipe.has_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = pipe.room.saturating_sub(pipe.down.len()).min(pipe.piece);
        if room == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let before = pipe.down.len();
        pipe.down.extend(slices.iter().flat_map(|s| s.iter()).take(room));
        let n = pipe.down.len() - before;
        pipe.moved.set(pipe.moved.get() + n as u64);
        Poll::Ready(Ok(n))
    }
    fn ended(&self) -> Ended<'_> {
        Box::pin(poll_fn(|cx| {
            let mut pipe = self.0.borrow_mut();
            if pipe.has_ended {
                return Poll::Ready(());
            }
            pipe.watcher = Some(cx.waker().clone());
            Poll::Pending
        }))
    }
}

/// When a request is answered; `version` says how many KiB the answer has. One of 203 is answered late.
const AT_ONCE: u16 = 201;
const WITH_THE_BATCH: u16 = 202;
/// Late, and set aside until then.
const ASIDE: u16 = 204;

#[derive(Default)]
struct Server {
    batch: RefCell<Vec<(Conn, RawMessage, Option<Permit>)>>,
    late: RefCell<Vec<(Conn, RawMessage, Option<Permit>)>>,
    dispatched: Cell<u64>,
    resets: Cell<u64>,
}
impl Server {
    fn answer(conn: &Conn, message: &RawMessage) {
        let data = vec![vec![0; usize::from(message.version) << 10].into()];
        conn.send(RawMessage { data, data_crc: None, ..message.clone() });
    }
}
impl Dispatcher for Server {
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        self.dispatched.set(self.dispatched.get() + 1);
        let mut permit = conn.take_permit();
        permit.iter_mut().for_each(|p| p.expect_answer(self.answer_bytes(&message)));
        match message.kind {
            AT_ONCE => Self::answer(conn, &message),
            WITH_THE_BATCH => self.batch.borrow_mut().push((conn.clone(), message, permit)),
            kind => {
                if kind == ASIDE {
                    permit.iter_mut().for_each(Permit::set_aside);
                }
                self.late.borrow_mut().push((conn.clone(), message, permit));
            }
        }
    }
    fn answer_bytes(&self, message: &RawMessage) -> u64 {
        u64::from(message.version) << 10
    }
    fn on_batch(&self, _: &Conn) {
        for (conn, message, _permit) in self.batch.take() {
            Self::answer(&conn, &message);
        }
    }
    fn on_reset(&self, gone: &Conn) {
        self.resets.set(self.resets.get() + 1);
        self.late.borrow_mut().retain(|(conn, ..)| conn != gone);
    }
}

/// One end of a connection without a task of its own.
struct Client {
    core: Connection,
    buf: BytesMut,
    pipe: Rc<RefCell<Pipe>>,
    is_open: bool,
    asked: u64,
    got: u64,
}
impl Client {
    /// Gives the pipe so many bytes.
    fn push(&mut self, max: usize) -> bool {
        let mut pipe = self.pipe.borrow_mut();
        let room = pipe.room.saturating_sub(pipe.up.len()).min(max);
        let out = self.core.out();
        let mut slices = [IoSlice::new(&[]); 64];
        let filled = out.slices(&mut slices);
        let before = pipe.up.len();
        pipe.up.extend(slices[..filled].iter().flat_map(|s| s.iter()).take(room));
        let n = pipe.up.len() - before;
        out.advance(n);
        if n > 0 {
            let mut reader = pipe.reader.take();
            drop(pipe);
            Pipe::wake(&mut reader);
        }
        n > 0
    }
    /// Takes so many bytes from it.
    fn pull(&mut self, max: usize) -> bool {
        let mut pipe = self.pipe.borrow_mut();
        let n = pipe.down.len().min(max);
        self.buf.extend(pipe.down.drain(..n));
        let mut writer = if n > 0 { pipe.writer.take() } else { None };
        drop(pipe);
        Pipe::wake(&mut writer);
        while let Some(up) = self.core.next(&mut self.buf).expect("frames of ours") {
            match up {
                Up::Ready => self.is_open = true,
                Up::Message(_) => self.got += 1,
                _ => {}
            }
        }
        n > 0
    }
}

#[derive(Default)]
struct Flag(AtomicBool);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    woken: Arc<Flag>,
}

struct World {
    server: Rc<Server>,
    messenger: Messenger,
    budget: Rc<Budget>,
    clients: Vec<Option<Client>>,
    tasks: Vec<Option<Task>>,
    moved: Rc<Cell<u64>>,
    /// Polls in a row by which nothing moved.
    idle: u32,
}

fn local(nonce: u32) -> Local {
    let auth = AuthNoneClient { name: EntityText::new(EntityKind::CLIENT, "x"), global_id: Rc::new(Cell::new(nonce.into())) };
    let mut local = Local::new(EntityKind::CLIENT, nonce.into(), EntityAddrVec::default(), Rc::new(auth), nonce.into());
    local.auth_server = Some(Rc::new(AuthNone::default()));
    local
}

impl World {
    fn new(rng: &mut Rng) -> Self {
        let at = EntityAddr::msgr2("127.0.0.1:6800".parse().unwrap(), 7);
        let messenger = Messenger::new(Rc::new(local(7)), Config::default());
        messenger.local().addrs.borrow_mut().0.push(at);
        let server = Rc::new(Server::default());
        messenger.set_dispatcher(server.clone());
        let budget = Budget::new([0, 256 << 10, 1 << 20, 4 << 20][rng.below(4) as usize], [0, 1, 2, 8][rng.below(4) as usize]);
        messenger.set_budget(budget.clone());
        let moved = Rc::new(Cell::new(0));
        let (mut clients, mut tasks) = (Vec::new(), Vec::new());
        for n in 0..1 + rng.below(4) as u32 {
            let room = [4 << 10, 64 << 10, 512 << 10][rng.below(3) as usize];
            let piece = [1000, 64 << 10, usize::MAX][rng.below(3) as usize];
            let pipe = Rc::new(RefCell::new(Pipe { room, piece, moved: moved.clone(), ..Pipe::default() }));
            let own = local(100 + n);
            *own.addrs.borrow_mut() = EntityAddr { kind: AddrType::MSGR2, nonce: 100 + n, ..EntityAddr::default() }.into();
            let mut core = Connection::dial(Rc::new(own), Policy::lossy_client(), EntityKind::CLIENT, EntityAddrVec::one(at));
            core.start();
            let (buf, is_open) = (BytesMut::new(), false);
            clients.push(Some(Client { core, buf, pipe: pipe.clone(), is_open, asked: 0, got: 0 }));
            let conn = messenger.0.add(Connection::accept(messenger.local().clone(), at));
            let future = Box::pin(async move {
                let mut transport = Transport { socket: Fake(pipe.clone()), buf: BytesMut::new() };
                match Pump::new(&conn, &mut transport, &mut None, &mut 0).await {
                    Exit::Cut(_) => {
                        conn.0.core.borrow_mut().fault();
                        conn.0.closing.set(crate::conn::Closing::Replaced);
                    }
                    Exit::Closed => {}
                    _ => unreachable!("nothing is handed over"),
                }
                pipe.borrow_mut().end();
                end(&conn);
            });
            tasks.push(Some(Task { future, woken: Arc::new(Flag(AtomicBool::new(true))) }));
        }
        Self { server, messenger, budget, clients, tasks, moved, idle: 0 }
    }
    /// Polls a connection that was woken.
    fn poll(&mut self, n: usize) -> bool {
        let Some(task) = self.tasks[n].as_mut().filter(|task| task.woken.0.swap(false, Ordering::Relaxed)) else { return false };
        let before = (self.moved.get(), self.server.dispatched.get());
        let waker = task.woken.clone().into();
        if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.tasks[n] = None;
        }
        self.idle = if before == (self.moved.get(), self.server.dispatched.get()) { self.idle + 1 } else { 0 };
        assert!(self.idle < 500, "connections are woken and woken, and nothing moves");
        true
    }
    fn step(&mut self, rng: &mut Rng) {
        let n = rng.below(self.clients.len() as u64) as usize;
        let max = [1, 100, 5000, 1 << 20][rng.below(4) as usize];
        match rng.below(40) {
            0..12 => {
                self.poll(n);
            }
            12..20 => {
                self.clients[n].as_mut().map(|c| c.push(max));
            }
            20..28 => {
                self.clients[n].as_mut().map(|c| c.pull(max));
            }
            28..34 => {
                if let Some(client) = self.clients[n].as_mut().filter(|c| c.is_open) {
                    let kind = AT_ONCE + rng.below(4) as u16;
                    let len = [10, 10, 3000, 100_000, 400_000][rng.below(5) as usize];
                    let version = [0, 1, 8, 64, 256][rng.below(5) as usize];
                    client.asked += 1;
                    let data = vec![Bytes::from(vec![1; len])];
                    client.core.send(RawMessage { kind, version, compat: 1, data, ..Default::default() });
                }
            }
            34..39 => self.answer_late(rng),
            _ if rng.below(20) == 0 => self.kill(n),
            _ => {}
        }
    }
    fn answer_late(&mut self, rng: &mut Rng) {
        let mut late = self.server.late.borrow_mut();
        if late.is_empty() {
            return;
        }
        let at = rng.below(late.len() as u64) as usize;
        let (conn, message, mut permit) = late.remove(at);
        drop(late);
        permit.iter_mut().for_each(Permit::go_on);
        Server::answer(&conn, &message);
    }
    /// A client ends, whatever is under way.
    fn kill(&mut self, n: usize) {
        if let Some(client) = self.clients[n].take() {
            client.pipe.borrow_mut().end();
        }
    }
    /// Everything goes on until nothing does; `answers`: also what is answered late.
    fn settle(&mut self, answers: bool, rng: &mut Rng) {
        loop {
            let mut any = false;
            for n in 0..self.clients.len() {
                any |= self.poll(n);
                if let Some(client) = &mut self.clients[n] {
                    any |= client.push(usize::MAX);
                    any |= client.pull(usize::MAX);
                }
            }
            if answers {
                any |= !self.server.late.borrow().is_empty();
                self.answer_late(rng);
            }
            if !any {
                return;
            }
        }
    }
}

fn explore(seeds: std::ops::Range<u64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Timers want a runtime; nothing here gives it the time to fire one.
    runtime.block_on(tokio::task::unconstrained(async {
        for seed in seeds {
            let mut rng = Rng::new(seed);
            let mut world = World::new(&mut rng);
            for _ in 0..800 {
                world.step(&mut rng);
            }
            // In every third history all clients end in the middle, and nothing is answered any more.
            let ends = seed % 3 == 0;
            if !ends {
                world.settle(true, &mut rng);
            }
            for (n, client) in world.clients.iter().enumerate() {
                if let Some(Client { is_open, asked, got, .. }) = client
                    && !ends
                {
                    let left = world.tasks[n].is_some();
                    assert!(*is_open && (!left || asked == got), "seed {seed}: client {n} has {got} of {asked} answers, and nothing wakes");
                }
            }
            for n in 0..world.clients.len() {
                world.kill(n);
            }
            world.settle(false, &mut rng);
            let stats = world.budget.stats();
            let left = (stats.bytes, stats.messages, stats.answers, stats.aside, stats.waiting);
            assert_eq!(left, (0, 0, 0, 0, 0), "seed {seed}: all clients are gone");
            assert!(world.tasks.iter().all(Option::is_none) && world.messenger.conns().is_empty(), "seed {seed}: connections are left");
        }
    }));
}

#[test]
fn no_connection_stands_still_and_none_spins() {
    explore(0..90);
}

#[test]
fn a_wake_that_is_lost_is_noticed() {
    assert!(is_noticed(Bug::ForgetQueue, || explore(0..90)));
}

#[test]
fn an_end_that_is_not_seen_is_noticed() {
    assert!(is_noticed(Bug::IgnoreEnd, || explore(0..90)));
}
