//! Messengers on real sockets: sessions that survive cuts, races, bounds and timeouts.

use bytes::Bytes;
use messages::RawMessage;
use msgr::{AuthNone, AuthNoneClient, Local, Policy};
use net::{Config, Conn, Dispatcher, Messenger};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText};

#[derive(Default)]
struct Log {
    got: RefCell<Vec<u64>>,
    bytes: Cell<usize>,
    connects: Cell<u32>,
    accepts: Cell<u32>,
    resets: Cell<u32>,
    remote_resets: Cell<u32>,
    failed_dials: Cell<u32>,
    echo: Cell<bool>,
}
fn bump(n: &Cell<u32>) {
    n.set(n.get() + 1);
}
impl Dispatcher for Log {
    fn on_message(&self, conn: &Conn, message: RawMessage) {
        self.got.borrow_mut().push(message.tid);
        self.bytes.set(self.bytes.get() + message.len());
        if self.echo.get() {
            conn.send(message);
        }
    }
    fn on_connect(&self, _: &Conn) {
        bump(&self.connects);
    }
    fn on_accept(&self, _: &Conn) {
        bump(&self.accepts);
    }
    fn on_reset(&self, _: &Conn) {
        bump(&self.resets);
    }
    fn on_remote_reset(&self, _: &Conn) {
        bump(&self.remote_resets);
    }
    fn on_dial_failed(&self, _: &Conn, _: &net::DialError, _: u32) {
        bump(&self.failed_dials);
    }
}

struct Node {
    messenger: Messenger,
    log: Rc<Log>,
    /// Where its socket really is.
    bound: SocketAddr,
}

impl Node {
    async fn new(kind: EntityKind, nonce: u32, policy: fn(EntityKind) -> Policy, config: Config, ip: &str) -> Self {
        let auth = AuthNoneClient { name: EntityText::new(kind, "x"), global_id: Rc::new(Cell::new(5)) };
        let mut local = Local::new(kind, nonce.into(), EntityAddrVec::default(), Rc::new(auth), nonce.into());
        local.auth_server = Some(Rc::new(AuthNone::default()));
        local.accept_policy = policy;
        let messenger = Messenger::new(Rc::new(local), config);
        let log = Rc::new(Log::default());
        messenger.set_dispatcher(log.clone());
        let bound = messenger.bind_as(SocketAddr::new(ip.parse().unwrap(), 0), nonce).await.unwrap().socket().unwrap();
        Self { messenger, log, bound }
    }
    fn addrs(&self) -> EntityAddrVec {
        self.messenger.local().addrs.borrow().clone()
    }
    /// Puts the node behind a relay whose address becomes its own.
    async fn behind_relay(&self, cut: Rc<dyn Fn() -> bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let nonce = self.messenger.local().num.get() as u32;
        *self.messenger.local().addrs.borrow_mut() = EntityAddrVec::one(EntityAddr::msgr2(addr, nonce));
        let to = self.bound;
        spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                spawn_local(relay(stream, to, cut.clone()));
            }
        });
    }
}

/// Passes bytes both ways until `cut` says so.
async fn relay(mut near: TcpStream, to: SocketAddr, cut: Rc<dyn Fn() -> bool>) {
    let mut far = TcpStream::connect(to).await.unwrap();
    let (mut a, mut b) = ([0; 700], [0; 700]);
    loop {
        let done = tokio::select! {
            n = near.read(&mut a) => match n { Ok(n) if n > 0 => far.write_all(&a[..n]).await.is_err(), _ => true },
            n = far.read(&mut b) => match n { Ok(n) if n > 0 => near.write_all(&b[..n]).await.is_err(), _ => true },
        };
        if done || cut() {
            return;
        }
    }
}

fn message(tid: u64, len: usize) -> RawMessage {
    let data = if len == 0 { vec![] } else { vec![Bytes::from(vec![tid as u8; len])] };
    RawMessage { kind: 200, version: 1, compat: 1, priority: 127, tid, data, ..Default::default() }
}

async fn until(what: &str, f: impl Fn() -> bool) {
    timeout(Duration::from_secs(20), async {
        while !f() {
            sleep(Duration::from_millis(2)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("never: {what}"));
}

fn run(f: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, f);
}
fn peers(_: EntityKind) -> Policy {
    Policy::lossless_peer()
}
fn clients(_: EntityKind) -> Policy {
    Policy::stateless_server()
}

#[test]
fn messages_of_all_sizes_are_echoed() {
    for ip in ["127.0.0.1", "::1"] {
        run(async move {
            let server = Node::new(EntityKind::OSD, 1, clients, Config::default(), ip).await;
            let client = Node::new(EntityKind::CLIENT, 2, clients, Config::default(), ip).await;
            server.log.echo.set(true);
            let conn = client.messenger.connect(EntityKind::OSD, server.addrs(), Policy::lossy_client());
            let sizes = [0, 1, 4096, 65_536, 1 << 20, 9 << 20, 5];
            sizes.iter().zip(0..).for_each(|(len, tid)| conn.send(message(tid, *len)));
            until("all are back", || client.log.got.borrow().len() == sizes.len()).await;
            assert_eq!(*client.log.got.borrow(), (0..sizes.len() as u64).collect::<Vec<_>>());
            assert_eq!(client.log.bytes.get(), sizes.iter().sum::<usize>());
            conn.keepalive();
            until("a keepalive is answered", || conn.last_keepalive_ack().is_some()).await;
            conn.close();
            until("the server notices", || server.log.resets.get() == 1).await;
            assert_eq!(client.log.resets.get(), 0, "who closes isn't told");
            assert!(server.messenger.conns().is_empty());
        });
    }
}

#[test]
fn a_lossy_session_that_is_cut_is_reset_on_both_sides() {
    run(async {
        let server = Node::new(EntityKind::OSD, 1, clients, Config::default(), "127.0.0.1").await;
        let client = Node::new(EntityKind::CLIENT, 2, clients, Config::default(), "127.0.0.1").await;
        let cut = Rc::new(Cell::new(false));
        let flag = cut.clone();
        server.behind_relay(Rc::new(move || flag.get())).await;
        let conn = client.messenger.connect(EntityKind::OSD, server.addrs(), Policy::lossy_client());
        until("open", || conn.is_open()).await;
        cut.set(true);
        conn.send(message(1, 10));
        until("resets", || client.log.resets.get() == 1 && server.log.resets.get() == 1).await;
        assert!(conn.is_closed());
        assert!(client.messenger.get(conn.id()).is_none());
        let again = client.messenger.connect(EntityKind::OSD, server.addrs(), Policy::lossy_client());
        assert_ne!(again.id(), conn.id());
    });
}

#[test]
fn lossless_peers_get_everything_once_through_cuts_and_races() {
    for seed in 0..4 {
        run(async move {
            let rng = Rc::new(RefCell::new(base::Rng::new(seed)));
            let calm = Rc::new(Cell::new(false));
            let cuts = Rc::new(Cell::new(0));
            let a = Node::new(EntityKind::OSD, 1, peers, Config::default(), "127.0.0.1").await;
            let b = Node::new(EntityKind::OSD, 2, peers, Config::default(), "127.0.0.1").await;
            for node in [&a, &b] {
                let (rng, calm, cuts) = (rng.clone(), calm.clone(), cuts.clone());
                node.behind_relay(Rc::new(move || {
                    let cut = !calm.get() && rng.borrow_mut().chance(1, 60);
                    cuts.set(cuts.get() + u32::from(cut));
                    cut
                }))
                .await;
            }
            const N: u64 = 400;
            let to_b = a.messenger.connect(EntityKind::OSD, b.addrs(), Policy::lossless_peer());
            for tid in 0..N {
                to_b.send(message(tid, rng.borrow_mut().below(3000) as usize));
                // B asks for its connection each time, as daemons do: it must be the one that A dialled, once there is one.
                let to_a = b.messenger.connect(EntityKind::OSD, a.addrs(), Policy::lossless_peer());
                to_a.send(message(tid, rng.borrow_mut().below(3000) as usize));
                if tid % 7 == 0 {
                    sleep(Duration::from_millis(2)).await;
                }
            }
            calm.set(true);
            until("all are there", || a.log.got.borrow().len() as u64 >= N && b.log.got.borrow().len() as u64 >= N).await;
            let want: Vec<u64> = (0..N).collect();
            assert_eq!(*a.log.got.borrow(), want);
            assert_eq!(*b.log.got.borrow(), want);
            assert!(cuts.get() > 3, "{} cuts", cuts.get());
            assert_eq!(a.log.resets.get() + b.log.resets.get() + a.log.remote_resets.get() + b.log.remote_resets.get(), 0);
        });
    }
}

#[test]
fn half_open_sockets_are_bounded_and_time_out() {
    run(async {
        let config = Config { half_open_max: 3, handshake_timeout: Duration::from_millis(300), ..Config::default() };
        let server = Node::new(EntityKind::OSD, 1, clients, config, "127.0.0.1").await;
        let mut idle = Vec::new();
        for _ in 0..8 {
            idle.push(TcpStream::connect(server.bound).await.unwrap());
        }
        until("three are left", || server.messenger.conns().len() == 3).await;
        let client = Node::new(EntityKind::CLIENT, 2, clients, Config::default(), "127.0.0.1").await;
        let conn = client.messenger.connect(EntityKind::OSD, server.addrs(), Policy::lossy_client());
        until("the client's turn comes", || conn.is_open()).await;
        until("the idle ones are gone", || server.messenger.conns().len() == 1).await;
        assert_eq!(server.log.resets.get(), 0, "what never was a session isn't reset");
    });
}

/// Sockets that say nothing, half a banner, half a HELLO: they take places from each other. A good client has its own at once, and a peer that has said
/// nothing at all is left sooner than one whose handshake goes on.
#[test]
fn half_handshakes_shut_nobody_out() {
    run(async {
        let config = Config { half_open_max: 16, banner_timeout: Duration::from_millis(400), ..Config::default() };
        let server = Node::new(EntityKind::OSD, 1, clients, config, "127.0.0.1").await;
        let banner = b"ceph v2\n\x10\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let half_hello = [&banner[..], &[1, 1]].concat();
        let stays = TcpStream::connect(server.bound).await.unwrap();
        let client = Node::new(EntityKind::CLIENT, 2, clients, Config::default(), "127.0.0.1").await;
        let mut sockets = Vec::new();
        for round in 0..10 {
            for n in 0..40 {
                let mut socket = TcpStream::connect(server.bound).await.unwrap();
                let said = [&b""[..], &banner[..9], &half_hello[..]][n % 3];
                socket.write_all(said).await.unwrap();
                sockets.push(socket);
            }
            let before = server.log.accepts.get();
            let conn = client.messenger.connect(EntityKind::OSD, server.addrs(), Policy::lossy_client());
            until("a good client is in", || server.log.accepts.get() > before && conn.is_open()).await;
            conn.close();
            until("and leaves", || client.messenger.conns().is_empty()).await;
            assert!(server.messenger.conns().len() <= 20, "round {round}: {} connections", server.messenger.conns().len());
        }
        drop(stays);
        let mut late = Vec::new();
        for said in [&b""[..], &banner[..]] {
            let mut socket = TcpStream::connect(server.bound).await.unwrap();
            socket.write_all(said).await.unwrap();
            late.push(socket);
        }
        drop(sockets);
        // Both have our banner; then the silent one is cut, and the other may go on.
        let (mut silent, mut speaks) = (late.remove(0), late.remove(0));
        let mut rest = Vec::new();
        timeout(Duration::from_secs(5), silent.read_to_end(&mut rest)).await.expect("is cut").unwrap();
        let mut piece = [0; 4096];
        while let Ok(read) = timeout(Duration::from_millis(200), speaks.read(&mut piece)).await {
            assert!(read.unwrap() > 0, "a handshake that goes on is not cut for its banner");
        }
    });
}

/// All that come while our thread is busy are in at once: a peer that finds no room tries again after a second at the earliest.
#[test]
fn a_crowd_that_comes_in_one_turn_finds_room() {
    run(async {
        let server = Node::new(EntityKind::OSD, 1, clients, Config::default(), "127.0.0.1").await;
        let most: usize = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
        let count = most.min(600);
        // Nothing here lets the messenger have its turn; the kernel alone answers.
        let connect = || std::net::TcpStream::connect_timeout(&server.bound, Duration::from_millis(900));
        let crowd: Vec<_> = (0..count).map(|n| connect().unwrap_or_else(|e| panic!("connection {n} of {count}: {e}"))).collect();
        let client = Node::new(EntityKind::CLIENT, 2, clients, Config::default(), "127.0.0.1").await;
        let conn = client.messenger.connect(EntityKind::OSD, server.addrs(), Policy::lossy_client());
        until("a good client behind them is in", || conn.is_open()).await;
        drop(crowd);
    });
}

#[test]
fn a_refused_dial_is_told_and_tried_again() {
    run(async {
        let client = Node::new(EntityKind::CLIENT, 2, clients, Config::default(), "127.0.0.1").await;
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let target = EntityAddrVec::one(EntityAddr::new(AddrType::MSGR2, nobody, 0));
        let conn = client.messenger.connect(EntityKind::OSD, target, Policy::lossy_client());
        until("two attempts", || client.log.failed_dials.get() >= 2).await;
        conn.close();
        until("it is gone", || client.messenger.conns().is_empty()).await;
    });
}

#[test]
fn a_peer_that_takes_nothing_is_not_read_from() {
    run(async {
        let config = Config { out_max: 1 << 20, ..Config::default() };
        let server = Node::new(EntityKind::OSD, 1, clients, config, "127.0.0.1").await;
        let client = Node::new(EntityKind::CLIENT, 2, clients, Config::default(), "127.0.0.1").await;
        server.log.echo.set(true);
        // The relay passes the client's bytes on and reads none of the server's for a while.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        *server.messenger.local().addrs.borrow_mut() = EntityAddrVec::one(EntityAddr::msgr2(addr, 1));
        let (to, stall) = (server.bound, Rc::new(Cell::new(false)));
        let stalled = stall.clone();
        spawn_local(async move {
            let (near, _) = listener.accept().await.unwrap();
            let (mut near_r, mut near_w) = near.into_split();
            let (mut far_r, mut far_w) = TcpStream::connect(to).await.unwrap().into_split();
            spawn_local(async move { tokio::io::copy(&mut near_r, &mut far_w).await });
            let mut buf = vec![0; 65536];
            loop {
                while stalled.get() {
                    sleep(Duration::from_millis(1)).await;
                }
                let Ok(n @ 1..) = far_r.read(&mut buf).await else { return };
                near_w.write_all(&buf[..n]).await.unwrap();
            }
        });
        let conn = client.messenger.connect(EntityKind::OSD, server.addrs(), Policy::lossy_client());
        until("open", || conn.is_open()).await;
        stall.set(true);
        const N: u64 = 400;
        (0..N).for_each(|tid| conn.send(message(tid, 65_536)));
        sleep(Duration::from_millis(300)).await;
        let waiting: usize = server.messenger.conns().iter().map(Conn::queued_bytes).sum();
        assert!(waiting > 1 << 20 && waiting < 3 << 20, "{waiting} bytes");
        stall.set(false);
        until("all are back", || client.log.got.borrow().len() as u64 == N).await;
    });
}
