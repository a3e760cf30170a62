//! A daemon's budget on real sockets: peers that send halves, that take no answers, that stop; and a good client beside them. And that each of these
//! tests notices when the budget is not asked.

use crate::planted::{Bug, is_any_planted, is_noticed};
use crate::{Config, Conn, Dispatcher, Messenger};
use base::{Budget, Permit};
use bytes::Bytes;
use messages::RawMessage;
use msgr::{AuthNone, AuthNoneClient, Local, Policy};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText};

const MIB: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// Asks for an answer of as many MiB as its number says.
const ASK: u16 = 201;
/// Is kept without an answer.
const KEEP: u16 = 202;

/// Answers every message; keeps the permits of those that say so.
#[derive(Default)]
struct Server {
    kept: RefCell<Vec<Option<Permit>>>,
    got: Cell<u64>,
}
impl Dispatcher for Server {
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        self.got.set(self.got.get() + 1);
        match message.kind {
            KEEP => self.kept.borrow_mut().push(conn.take_permit()),
            ASK => conn.send(RawMessage { data: vec![vec![0; message.version as usize * MIB].into()], ..message }),
            _ => conn.send(RawMessage { data: Vec::new(), ..message }),
        }
    }
    fn answer_bytes(&self, message: &RawMessage) -> u64 {
        if message.kind == ASK { u64::from(message.version) * MIB as u64 } else { 0 }
    }
}

#[derive(Default)]
struct Answers(Cell<u64>);
impl Dispatcher for Answers {
    fn on_message(&self, _: &Conn, _: RawMessage) {
        self.0.set(self.0.get() + 1);
    }
}

fn messenger(kind: EntityKind, nonce: u32) -> Messenger {
    let auth = AuthNoneClient { name: EntityText::new(kind, "x"), global_id: Rc::new(Cell::new(5)) };
    let mut local = Local::new(kind, nonce.into(), EntityAddrVec::default(), Rc::new(auth), nonce.into());
    local.auth_server = Some(Rc::new(AuthNone::default()));
    Messenger::new(Rc::new(local), Config::default())
}

struct World {
    server: Rc<Server>,
    budget: Rc<Budget>,
    relay: EntityAddr,
    /// How many bytes the next connection passes up and down.
    next: Rc<Cell<(usize, usize)>>,
    /// Bytes that the server has taken on connections that stop half-way and that it has not cut.
    taken: Rc<Cell<usize>>,
    clients: Cell<u32>,
}

impl World {
    async fn new(bytes_max: u64, messages_max: u64) -> Self {
        let messenger = messenger(EntityKind::OSD, 7);
        let server = Rc::new(Server::default());
        messenger.set_dispatcher(server.clone());
        let budget = Budget::new(bytes_max, messages_max);
        messenger.set_budget(budget.clone());
        let bound = messenger.bind_as("127.0.0.1:0".parse().unwrap(), 7).await.unwrap().socket().unwrap();
        let next = Rc::new(Cell::new((usize::MAX, usize::MAX)));
        let taken = Rc::new(Cell::new(0));
        let relay = relay(bound, next.clone(), taken.clone()).await;
        *messenger.local().addrs.borrow_mut() = EntityAddrVec::one(relay);
        std::mem::forget(messenger);
        Self { server, budget, relay, next, taken, clients: Cell::new(100) }
    }
    /// A client whose sockets pass so many bytes either way and then stop.
    async fn client(&self, kind: EntityKind, up: usize, down: usize) -> (Conn, Rc<Answers>) {
        self.next.set((up, down));
        self.clients.set(self.clients.get() + 1);
        let client = messenger(kind, self.clients.get());
        let own = EntityAddr { kind: AddrType::MSGR2, nonce: self.clients.get(), ..EntityAddr::default() };
        *client.local().addrs.borrow_mut() = own.into();
        let answers = Rc::new(Answers::default());
        client.set_dispatcher(answers.clone());
        let conn = client.connect(EntityKind::OSD, EntityAddrVec::one(self.relay), Policy::lossy_client());
        std::mem::forget(client);
        until(|| conn.is_open()).await;
        self.next.set((usize::MAX, usize::MAX));
        (conn, answers)
    }
    /// A message of a client's is answered soon: in some milliseconds, and on a busy machine in a second or two. One that is kept out waits for as long
    /// as the others stay.
    async fn good(&self, client: &(Conn, Rc<Answers>), after: &str) {
        let (before, start) = (client.1.0.get(), Instant::now());
        client.0.send(message(200, 1, 4096));
        until(|| client.1.0.get() > before).await;
        assert!(start.elapsed() < PATIENCE / 3, "{after}: a good client waited {:?}", start.elapsed());
    }
}

/// What the kernel keeps for a socket of the relay's, bytes: little, so that what it has passed is what the server took.
const SOCKET: usize = 64 << 10;

async fn relay(to: SocketAddr, next: Rc<Cell<(usize, usize)>>, taken: Rc<Cell<usize>>) -> EntityAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = EntityAddr::msgr2(listener.local_addr().unwrap(), 7);
    spawn_local(async move {
        while let Ok((near, _)) = listener.accept().await {
            let (up, down) = next.get();
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_send_buffer_size(SOCKET as u32).unwrap();
            let (near_in, near_out) = near.into_split();
            let (far_in, far_out) = socket.connect(to).await.unwrap().into_split();
            // What this connection has passed, until the server cuts it.
            let passed = Rc::new(Cell::new(Some(0)));
            let (counted, total) = (passed.clone(), taken.clone());
            let count = move |n| {
                if let Some(before) = counted.get().filter(|_| up < usize::MAX) {
                    counted.set(Some(before + n));
                    total.set(total.get() + n);
                }
            };
            spawn_local(pass(near_in, far_out, up, count));
            let total = taken.clone();
            spawn_local(async move {
                pass(far_in, near_out, down, |_| ()).await;
                total.set(total.get() - passed.take().unwrap_or(0));
            });
        }
    });
    addr
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut left: usize, passed: impl Fn(usize)) {
    let mut buf = vec![0; 64 << 10];
    while left > 0 {
        let room = buf.len().min(left);
        match from.read(&mut buf[..room]).await {
            Ok(n) if n > 0 => {
                left -= n;
                if to.write_all(&buf[..n]).await.is_err() {
                    return;
                }
                passed(n);
            }
            _ => return,
        }
    }
    // Neither closed nor read any more.
    std::future::pending::<()>().await;
}

fn message(kind: u16, version: u16, len: usize) -> RawMessage {
    RawMessage { kind, version, compat: 1, data: vec![Bytes::from(vec![1; len])], ..Default::default() }
}
async fn until(done: impl Fn() -> bool) {
    // What a broken promise keeps from coming is not waited for as long.
    timeout(if is_any_planted() { PATIENCE / 15 } else { PATIENCE }, async {
        while !done() {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("in time");
}
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

fn halves() {
    run(async {
        let world = World::new(16 << 20, 8).await;
        let good = world.client(EntityKind::CLIENT, usize::MAX, usize::MAX).await;
        world.good(&good, "nothing").await;
        // Each sends three quarters of a message and stops.
        for len in [12 * MIB, 3 * MIB] {
            for _ in 0..10 {
                let half = world.client(EntityKind::CLIENT, len / 4 * 3, usize::MAX).await;
                half.0.send(message(200, 1, len));
            }
        }
        let start = Instant::now();
        let (mut most, mut taken) = (0, 0);
        while start.elapsed() < Duration::from_secs(2) {
            most = most.max(world.budget.stats().bytes);
            taken = taken.max(world.taken.get());
            world.good(&good, "halves").await;
        }
        // As the other side of the sockets sees it; the kernel keeps some of each.
        assert!(taken > 9 << 20 && taken <= (28 << 20) + 20 * 6 * SOCKET, "{taken} bytes were taken at once");
        assert!(most > 12 << 20, "halves count before they are whole: {most}");
        assert!(most <= 28 << 20, "{most} bytes were promised at once");
        // A long message that waits gets its turn.
        let before = good.1.0.get();
        good.0.send(message(200, 1, 20 * MIB));
        until(|| good.1.0.get() > before).await;
    });
}

#[test]
fn halves_take_no_more_than_the_budget_and_give_way() {
    halves();
}

fn answers() {
    run(async {
        let world = World::new(32 << 20, 64).await;
        let good = world.client(EntityKind::CLIENT, usize::MAX, usize::MAX).await;
        for _ in 0..20 {
            let deaf = world.client(EntityKind::CLIENT, usize::MAX, 100 << 10).await;
            for _ in 0..32 {
                deaf.0.send(message(ASK, 4, 10));
            }
        }
        let start = Instant::now();
        let mut most = 0;
        while start.elapsed() < Duration::from_secs(3) {
            most = most.max(world.budget.stats().answers);
            world.good(&good, "clients that take no answers").await;
        }
        assert!(most > 8 << 20, "answers count: {most}");
        assert!(most <= 40 << 20, "{most} bytes of answers at once");
    });
}

#[test]
fn answers_that_are_not_taken_are_bounded() {
    answers();
}

fn slots() {
    run(async {
        let world = World::new(0, 4).await;
        let good = world.client(EntityKind::CLIENT, usize::MAX, usize::MAX).await;
        for n in 0..20 {
            world.good(&good, &format!("{n} answers")).await;
        }
        let keeper = world.client(EntityKind::CLIENT, usize::MAX, usize::MAX).await;
        for _ in 0..6 {
            keeper.0.send(message(KEEP, 1, 10));
        }
        until(|| world.budget.stats().waiting == 1).await;
        assert_eq!((world.server.kept.borrow().len(), world.budget.stats().messages), (4, 4));
        // Peers that are no clients go on.
        let osd = world.client(EntityKind::OSD, usize::MAX, usize::MAX).await;
        world.good(&osd, "every slot is taken").await;
        world.server.kept.borrow_mut().clear();
        until(|| world.server.kept.borrow().len() == 2).await;
        world.good(&good, "slots are free").await;
        world.server.kept.borrow_mut().clear();
        until(|| world.budget.stats().messages == 0 && world.budget.stats().bytes == 0).await;
    });
}

#[test]
fn slots_are_given_back_and_daemons_need_none() {
    slots();
}

fn ends() {
    run(async {
        let world = World::new(16 << 20, 4).await;
        let keeper = world.client(EntityKind::CLIENT, usize::MAX, usize::MAX).await;
        for _ in 0..4 {
            keeper.0.send(message(KEEP, 1, 10));
        }
        until(|| world.server.kept.borrow().len() == 4).await;
        // One waits for a slot, and whole messages stand behind it.
        for len in [10, 7 * MIB] {
            let gone = world.client(EntityKind::CLIENT, usize::MAX, usize::MAX).await;
            for len in [len, 10, 10] {
                gone.0.send(message(KEEP, 1, len));
            }
            until(|| world.budget.stats().waiting == 1).await;
            gone.0.close();
            // Nothing of it is left, although nothing was read from its socket since.
            until(|| world.budget.stats().waiting == 0).await;
            assert_eq!(world.budget.stats().messages, 4);
        }
        assert_eq!(world.budget.stats().bytes, 4 * message(KEEP, 1, 10).len() as u64);
        world.server.kept.borrow_mut().clear();
        assert_eq!((world.budget.stats().messages, world.budget.stats().bytes), (0, 0));
    });
}

#[test]
fn the_end_of_a_client_is_seen_whatever_it_waits_for() {
    ends();
}

#[test]
fn an_end_that_is_not_looked_for_is_noticed() {
    assert!(is_noticed(Bug::IgnoreEnd, ends));
}

#[test]
fn a_gate_that_asks_no_budget_is_noticed() {
    assert!(is_noticed(Bug::TakeNoPermit, halves));
    assert!(is_noticed(Bug::TakeNoPermit, answers));
    assert!(is_noticed(Bug::TakeNoPermit, slots));
}

#[test]
fn a_permit_that_is_given_back_early_is_noticed() {
    assert!(is_noticed(Bug::GiveBackEarly, slots));
}

#[test]
fn answers_that_do_not_count_are_noticed() {
    assert!(is_noticed(Bug::ForgetAnswers, answers));
}
