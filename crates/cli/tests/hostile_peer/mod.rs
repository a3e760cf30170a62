//! For `hostile.rs`, `crowd.rs` and `rogue.rs`: a cluster in this process or a given one, a good client on it, and a peer that speaks by hand over
//! a blocking socket.

#![allow(dead_code)] // each test program needs a part of it

pub mod beside;
pub mod frames;
mod given;

use base::Rng;
use bytes::{Bytes, BytesMut};
use cephx::{ClientAuth, CryptoKey, Identity, Keyring};
use client::ClientError;
use given::Given;
use messages::{MCommand, MMonGetVersion, MMonGetVersionReply, Message, RawMessage};
use mon::{AuthMode, MonHandle};
use msgr::{AuthClient, AuthClients, AuthNoneClient, AuthStart, ClientAuthenticated, ConMode, Connection, Local, Policy, State, Up};
use net::auth_cephx::Dialer;
use net::modes::Modes;
use objecter::Conf;
use objecter::monc::TICKETS;
use osd::{Admin, OsdConfig, OsdHandle};
use std::cell::{Cell, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText, Uuid};

/// Longer than anything takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Cluster {
    dir: PathBuf,
    auth: AuthMode,
    keyring: Keyring,
    mon: Option<MonHandle>,
    osd: Option<OsdHandle>,
    /// In place of both, and of a folder of its own.
    given: Option<Given>,
    runtime: tokio::runtime::Runtime,
    tasks: tokio::task::LocalSet,
    good: Option<client::Cluster>,
    /// Of the manager's address; what dials must know it.
    mgr_nonce: u32,
    checks: Cell<u64>,
}

impl Cluster {
    pub fn start(auth: AuthMode) -> Self {
        Self::start_with(auth, false)
    }
    /// `secure`: the cluster's configuration demands that every connection is encrypted.
    pub fn start_with(auth: AuthMode, secure: bool) -> Self {
        beside::watch_panics();
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("humboldt-hostile-{}-{n}", std::process::id()));
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let cluster = mon::open_or_mkfs(
            &dir,
            &mon::MkfsOptions { auth, key_type: cephx::KeyType::AES, listen, osds: 1, devices: None, config: Vec::new(), secure },
            || Ok(()),
        )
        .unwrap();
        let keyring = cluster.keyring.clone();
        let mon = mon::start(mon::MonConfig { cluster, listen, mgr_port: 0, admin_socket: None, http: None }).unwrap();
        let admin = EntityText::new(EntityKind::CLIENT, "admin");
        let keyed = auth == AuthMode::Cephx;
        let config = OsdConfig {
            id: 0,
            monitors: vec![EntityAddrVec::one(EntityAddr::msgr2(mon.mon_addr, 0))],
            key: keyed.then(|| keyring.get(&EntityText::new(EntityKind::OSD, "0")).unwrap().key.clone()),
            admin: Some(if keyed { Admin::of(admin.clone(), keyring.get(&admin).unwrap()) } else { Admin { name: admin, key: None } }),
            listen: listen.ip(),
            store: osd::StoreConfig::Mem { capacity: 1 << 30 },
            ports_file: None,
            is_alone: true,
            store_is_new: true,
            location: vec![("host".into(), "here".into()), ("root".into(), "default".into())],
            options: Vec::new(),
            cpus: None,
            spin_us: 0,
            admin_socket: None,
            data_dir: dir.display().to_string(),
            quiet: true,
            null: false,
            spare: None,
            deployment: Default::default(),
        };
        let mut osd = osd::start(config).unwrap();
        osd.wait_up(PATIENCE, || false).unwrap();
        Self::with_client(dir, auth, keyring, Some(mon), Some(osd), None)
    }
    /// A cluster that runs elsewhere, if the environment names one (`given.rs`).
    pub fn given() -> Option<Self> {
        let given = Given::by_environment()?;
        Some(Self::with_client(PathBuf::new(), AuthMode::Cephx, given.keyring.clone(), None, None, Some(given)))
    }
    /// With a good client and its pool.
    fn with_client(
        dir: PathBuf,
        auth: AuthMode,
        keyring: Keyring,
        mon: Option<MonHandle>,
        osd: Option<OsdHandle>,
        given: Option<Given>,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tasks = tokio::task::LocalSet::new();
        let keyed = auth == AuthMode::Cephx;
        let mut cluster = Self { dir, auth, keyring, mon, osd, given, runtime, tasks, good: None, mgr_nonce: 0, checks: Cell::new(0) };
        let conf = cluster.conf("client.admin", keyed.then(|| cluster.key("client.admin")).as_ref());
        let (good, mgr_nonce) = cluster.block_on(async {
            let good = client::Cluster::connect(conf, PATIENCE).await.unwrap();
            let json = r#"{"prefix": "osd pool create", "pool": "p", "pg_num": 1, "pgp_num": 1}"#;
            let made = good.mon_command(json, Bytes::new()).await.unwrap();
            assert_eq!(made.result, 0, "{}", made.status);
            good.wait_for_newest_map().await.unwrap();
            let dump = good.mon_command(r#"{"prefix": "mgr dump", "format": "json"}"#, Bytes::new()).await.unwrap();
            let dump: serde_json::Value = serde_json::from_slice(&dump.output).unwrap();
            (good, dump["active_addrs"]["addrvec"][0]["nonce"].as_u64().unwrap() as u32)
        });
        (cluster.good, cluster.mgr_nonce) = (Some(good), mgr_nonce);
        cluster.check("nothing yet");
        cluster
    }
    /// The daemons that are ours to judge.
    pub fn daemons(&self) -> &'static [EntityKind] {
        if self.given.is_some() { &[EntityKind::OSD] } else { &[EntityKind::MON, EntityKind::MGR, EntityKind::OSD] }
    }
    fn block_on<T>(&self, what: impl Future<Output = T>) -> T {
        self.tasks.block_on(&self.runtime, async { tokio::time::timeout(PATIENCE, what).await.expect("in time") })
    }
    fn conf(&self, name: &str, key: Option<&CryptoKey>) -> Conf {
        let mut conf = Conf::parse("", EntityText::parse(name).unwrap()).unwrap();
        conf.set("mon_host", format!("v2:{}", self.addr(EntityKind::MON)));
        conf.set("auth_client_required", self.auth.name());
        if let Some(key) = key {
            conf.set("key", key.to_base64());
        }
        conf
    }
    /// A client of this name with options of its own that logs in and reads an object: the error, if there is one.
    pub fn try_client(&self, name: &str, options: &[(&str, &str)]) -> Result<(), ClientError> {
        let mut conf = self.conf(name, Some(&self.key(name)));
        options.iter().for_each(|(name, value)| conf.set(name, value.to_string()));
        self.block_on(async {
            let client = client::Cluster::connect(conf, PATIENCE).await?;
            client.wait_for_newest_map().await?;
            let pool = client.pool("p")?;
            let wrote = pool.write_full("tried", Bytes::from_static(b"tried")).await;
            client.shutdown();
            wrote
        })
    }
    fn good(&self) -> &client::Cluster {
        self.good.as_ref().unwrap()
    }
    pub fn key(&self, name: &str) -> CryptoKey {
        self.keyring.get(&EntityText::parse(name).unwrap()).unwrap().key.clone()
    }
    /// A command of the good client's, which must succeed.
    pub fn command(&self, json: &str) {
        let reply = self.block_on(async { self.good().mon_command(json, Bytes::new()).await.unwrap() });
        assert_eq!(reply.result, 0, "{json}: {}", reply.status);
    }
    /// A command's output; it must succeed.
    pub fn output(&self, json: &str) -> Vec<u8> {
        let reply = self.block_on(async { self.good().mon_command(json, Bytes::new()).await.unwrap() });
        assert_eq!(reply.result, 0, "{json}: {}", reply.status);
        reply.output.to_vec()
    }
    /// A command to osd.0 as the good client; its output.
    pub fn osd_command(&self, json: &str) -> Vec<u8> {
        let reply = self.block_on(async { self.good().tell_osd(0, json, Bytes::new()).await.unwrap() });
        assert_eq!(reply.result, 0, "{json}: {}", reply.status);
        reply.output.to_vec()
    }
    /// Makes an entity with capabilities, or without any, and gives its key.
    pub fn entity(&self, name: &str, caps: &[(&str, &str)]) -> CryptoKey {
        let caps: Vec<&str> = caps.iter().flat_map(|(service, cap)| [*service, *cap]).collect();
        let json = serde_json::json!({ "prefix": "auth get-or-create", "entity": name, "caps": caps }).to_string();
        let text = String::from_utf8(self.output(&json)).unwrap();
        let key = text.lines().find_map(|l| l.trim().strip_prefix("key = ")).expect("a keyring has the key");
        CryptoKey::from_base64(key.trim()).unwrap()
    }
    /// An object's bytes, attributes and omap, as the good client reads them.
    pub fn seen(&self, pool: &str, oid: &str) -> String {
        self.block_on(async {
            let pool = self.good().pool(pool).unwrap();
            let data = pool.read(oid, 0, 0).await;
            let attrs = pool.xattrs(oid).await;
            format!("{data:?} {attrs:?}")
        })
    }
    /// Removes an object as the good client, if there is one.
    pub fn remove(&self, pool: &str, oid: &str) {
        let _ = self.block_on(async { self.good().pool(pool).unwrap().remove(oid).await });
    }
    /// Writes an object as the good client.
    pub fn put(&self, pool: &str, oid: &str, data: &'static [u8]) {
        self.block_on(async { self.good().pool(pool).unwrap().write_full(oid, Bytes::from_static(data)).await.unwrap() });
    }
    pub fn connect(&self, name: &str, key: Option<&CryptoKey>) -> Result<(), ClientError> {
        let conf = self.conf(name, key);
        self.block_on(async { client::Cluster::connect(conf, Duration::from_secs(10)).await.map(|c| c.shutdown()) })
    }
    pub fn map(&self) -> Rc<maps::OsdMap> {
        self.good().map()
    }
    pub fn newest_map(&self) -> Rc<maps::OsdMap> {
        self.block_on(async { self.good().wait_for_newest_map().await.unwrap() });
        self.map()
    }
    pub fn epoch(&self) -> u32 {
        self.map().epoch
    }
    pub fn pool_id(&self) -> i64 {
        self.map().pool_by_name("p").unwrap()
    }
    pub fn fsid(&self) -> Uuid {
        self.map().fsid
    }
    pub fn addr(&self, of: EntityKind) -> SocketAddr {
        match (of, &self.mon, &self.given) {
            (EntityKind::MON, Some(mon), _) => mon.mon_addr,
            (EntityKind::MON, None, Some(given)) => given.mon,
            (EntityKind::MGR, Some(mon), _) => mon.mgr_addr,
            (EntityKind::MGR, None, _) => panic!("a given cluster's manager is not dialled"),
            _ => self.map().client_addrs[0].0.iter().find_map(EntityAddr::socket).unwrap(),
        }
    }
    pub fn evil(&self, at: EntityKind) -> Evil {
        Evil::dial(self, at, none("client.evil")).expect("whoever is honest so far is let in")
    }
    pub fn evil_at_osd(&self) -> Evil {
        self.evil(EntityKind::OSD)
    }
    /// Daemons live, and the good client, which has been here all the time, gets its answers from both.
    pub fn check(&self, after: &str) {
        beside::check_no_panic(after);
        assert!(self.mon.as_ref().is_none_or(|mon| !mon.is_finished()), "the monitor ended after {after}");
        assert!(self.osd.as_ref().is_none_or(|osd| !osd.is_finished()), "the OSD ended after {after}");
        assert!(self.given.as_ref().is_none_or(Given::osd_lives), "osd.0 ended after {after}");
        let n = self.checks.replace(self.checks.get() + 1);
        self.block_on(async {
            let pool = self.good().pool("p").unwrap();
            let data = Bytes::from(vec![n as u8; 5000]);
            pool.write_full("good", data.clone()).await.unwrap_or_else(|e| panic!("after {after}: {e}"));
            assert_eq!(pool.read("good", 0, 0).await.unwrap(), data, "after {after}");
            let reply = self.good().mon_command(r#"{"prefix": "osd pool ls"}"#, Bytes::new()).await.unwrap();
            assert_eq!((reply.result, reply.output.split(|b| *b == b'\n').next()), (0, Some(&b"p"[..])), "after {after}");
        });
    }
    pub fn stop(mut self) {
        self.block_on(async { self.good().shutdown() });
        if let (Some(osd), Some(mon)) = (self.osd.take(), self.mon.take()) {
            osd.stop().unwrap();
            mon.stop().unwrap();
            std::fs::remove_dir_all(&self.dir).unwrap();
        }
    }
}

/// What stock daemons and clients said to each other (`fixtures/messages`, whose README says how a record looks).
pub fn recorded(release: &str) -> Vec<RawMessage> {
    let path = format!("{}/../../fixtures/messages/{release}.msgs", env!("CARGO_MANIFEST_DIR"));
    let mut d = denc::Decoder::new(std::fs::read(path).unwrap().into());
    let mut out = Vec::new();
    while !d.is_empty() {
        let [kind, version, compat, priority] = std::array::from_fn(|_| d.u16().unwrap());
        let (tid, data_off) = (d.u64().unwrap(), d.u16().unwrap());
        let lens: [u32; 3] = std::array::from_fn(|_| d.u32().unwrap());
        let [front, middle, data] = lens.map(|n| d.raw(n as usize).unwrap());
        let data = if data.is_empty() { vec![] } else { vec![data] };
        out.push(RawMessage { kind, version, compat, priority, tid, data_off, front, middle, data, data_crc: None });
    }
    out
}

/// Method `none`, as `name`.
pub fn none(name: &str) -> Rc<dyn AuthClients> {
    Rc::new(AuthNoneClient { name: EntityText::parse(name).unwrap(), global_id: Rc::new(Cell::new(666)) })
}

/// A connection by hand.
pub struct Evil {
    at: EntityKind,
    as_kind: EntityKind,
    number: i64,
    auth: Rc<dyn AuthClients>,
    socket: TcpStream,
    conn: Connection,
    buf: BytesMut,
}

impl Evil {
    /// `None`: not let in.
    pub fn dial(cluster: &Cluster, at: EntityKind, auth: Rc<dyn AuthClients>) -> Option<Self> {
        Self::dial_as(cluster, at, EntityKind::CLIENT, 666, auth)
    }
    /// As a peer that calls itself of a kind and of a number. `None`: not let in.
    pub fn dial_as(cluster: &Cluster, at: EntityKind, as_kind: EntityKind, number: i64, auth: Rc<dyn AuthClients>) -> Option<Self> {
        let target = match at {
            EntityKind::OSD => cluster.map().client_addrs[0].clone(),
            EntityKind::MGR => EntityAddrVec::one(EntityAddr::msgr2(cluster.addr(at), cluster.mgr_nonce)),
            _ => EntityAddrVec::one(EntityAddr::msgr2(cluster.addr(at), 0)),
        };
        thread_local!(static SEEDS: RefCell<Rng> = RefCell::new(Rng::new(99)));
        let seed = SEEDS.with_borrow_mut(Rng::u64);
        let own = EntityAddr { kind: AddrType::MSGR2, nonce: seed as u32, ..EntityAddr::default() };
        let local = Local::new(as_kind, number, own.into(), auth.clone(), seed);
        let mut conn = Connection::dial(Rc::new(local), Policy::lossy_client(), at, target);
        conn.start();
        let socket = TcpStream::connect(cluster.addr(at)).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut evil = Self { at, as_kind, number, auth, socket, conn, buf: BytesMut::new() };
        let start = Instant::now();
        while evil.conn.state() != State::Ready {
            assert!(start.elapsed() < PATIENCE, "a handshake that neither goes on nor ends");
            evil.turn()?;
        }
        Some(evil)
    }
    fn flush(&mut self) {
        let bytes = self.conn.out().take_flat();
        // Whoever hung up is noticed when reading.
        let _ = self.socket.write_all(&bytes);
    }
    /// Sends what waits, reads once; messages that came. `None`: hung up.
    fn turn(&mut self) -> Option<Vec<RawMessage>> {
        self.flush();
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut chunk = [0; 65536];
        let n = match self.socket.read(&mut chunk) {
            Ok(0) => return None,
            Ok(n) => n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("{:?} says nothing and does not hang up", self.at)
            }
            Err(_) => return None,
        };
        self.buf.extend_from_slice(&chunk[..n]);
        let mut out = Vec::new();
        loop {
            match self.conn.next(&mut self.buf) {
                Ok(Some(Up::Message(message))) => out.push(message),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return None,
            }
        }
        self.flush();
        Some(out)
    }
    /// Sends `message`, and behind it a question that is answered in any case. What came before that answer, or `None` if the peer hung up;
    /// then the next message goes by a new connection.
    pub fn poke(&mut self, cluster: &Cluster, message: RawMessage) -> Option<Vec<RawMessage>> {
        self.try_poke(cluster, message).expect("a peer that was let in may come again")
    }
    /// The same without the new connection.
    fn ask(&mut self, cluster: &Cluster, message: RawMessage) -> Option<Vec<RawMessage>> {
        const MARK: u64 = 0x00fe_ce00_0000_0001;
        let fence = match self.at {
            EntityKind::MON => MMonGetVersion { handle: MARK, what: "osdmap".into() }.encode(u64::MAX),
            _ => {
                let cmd = vec![r#"{"prefix": "no such command"}"#.to_string()];
                MCommand { fsid: cluster.fsid(), cmd, ..MCommand::default() }.encode(u64::MAX)
            }
        };
        self.conn.send(message);
        self.conn.send(RawMessage { tid: MARK, ..fence });
        let is_answer = |m: &RawMessage| {
            m.tid == MARK || m.kind == MMonGetVersionReply::KIND && MMonGetVersionReply::decode(m).is_ok_and(|m| m.handle == MARK)
        };
        let mut replies = Vec::new();
        loop {
            match self.turn() {
                Some(more) => replies.extend(more),
                None => return None,
            }
            if let Some(at) = replies.iter().position(is_answer) {
                replies.remove(at);
                return Some(replies);
            }
        }
    }
    /// As [`Evil::poke`], but a peer that is not let in again is no failure.
    pub fn try_poke(&mut self, cluster: &Cluster, message: RawMessage) -> Result<Option<Vec<RawMessage>>, ()> {
        let again = |evil: &Self| Self::dial_as(cluster, evil.at, evil.as_kind, evil.number, evil.auth.clone());
        match self.ask(cluster, message) {
            Some(replies) => Ok(Some(replies)),
            None => again(self).map(|new| *self = new).map(|()| None).ok_or(()),
        }
    }
    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.flush();
        let _ = self.socket.write_all(bytes);
    }
    pub fn is_hung_up_on(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.turn().is_none() {
                return true;
            }
        }
        false
    }
}

/// CephX as an entity, with a record of what it said to services; and the record said again.
pub struct Recorder {
    dialer: Dialer,
    pub said: Rc<RefCell<Vec<Bytes>>>,
}

impl Recorder {
    pub fn new(name: EntityText, key: CryptoKey) -> Self {
        let identity = Identity::Cephx(ClientAuth::new(name, key, &TICKETS));
        let mut dialer = Dialer::new(Rc::new(RefCell::new(identity)));
        dialer.modes = Modes { mon_client: vec![ConMode::CRC], ..Modes::default() }.shared();
        Self { dialer, said: Rc::default() }
    }
    /// The same, and every byte encrypted if `secure`.
    pub fn in_mode(name: EntityText, key: CryptoKey, secure: bool) -> Self {
        let mut recorder = Self::new(name, key);
        let mode = if secure { ConMode::SECURE } else { ConMode::CRC };
        recorder.dialer.modes = Modes::all(&[mode]).shared();
        recorder
    }
    /// What it offers from the next dial on.
    pub fn offer(&self, mode: ConMode) {
        self.dialer.modes.replace(Modes::all(&[mode]));
    }
    pub fn live(&self) -> Rc<dyn AuthClients> {
        Rc::new(Live { dialer: self.dialer.clone(), said: self.said.clone() })
    }
    pub fn replay(&self, said: Vec<Bytes>) -> Rc<dyn AuthClients> {
        Rc::new(Replay { dialer: self.dialer.clone(), said })
    }
}

struct Live {
    dialer: Dialer,
    said: Rc<RefCell<Vec<Bytes>>>,
}
impl AuthClients for Live {
    fn exchange(&self, peer: EntityKind) -> Box<dyn AuthClient> {
        Box::new(LiveExchange { inner: self.dialer.exchange(peer), said: self.said.clone() })
    }
}
struct LiveExchange {
    inner: Box<dyn AuthClient>,
    said: Rc<RefCell<Vec<Bytes>>>,
}
impl AuthClient for LiveExchange {
    fn start(&mut self) -> Result<AuthStart, i32> {
        let start = self.inner.start()?;
        self.said.borrow_mut().push(start.payload.clone());
        Ok(start)
    }
    fn reply_more(&mut self, payload: Bytes) -> Result<Bytes, i32> {
        let more = self.inner.reply_more(payload)?;
        self.said.borrow_mut().push(more.clone());
        Ok(more)
    }
    fn done(&mut self, global_id: u64, mode: ConMode, payload: Bytes) -> Result<ClientAuthenticated, i32> {
        self.inner.done(global_id, mode, payload)
    }
}

struct Replay {
    dialer: Dialer,
    said: Vec<Bytes>,
}
impl AuthClients for Replay {
    fn exchange(&self, _: EntityKind) -> Box<dyn AuthClient> {
        Box::new(ReplayExchange { modes: self.dialer.modes.borrow().client.clone(), said: self.said.clone().into_iter() })
    }
}
struct ReplayExchange {
    modes: Vec<ConMode>,
    said: std::vec::IntoIter<Bytes>,
}
impl AuthClient for ReplayExchange {
    fn start(&mut self) -> Result<AuthStart, i32> {
        Ok(AuthStart { method: msgr::method::CEPHX, modes: self.modes.clone(), payload: self.said.next().ok_or(1)? })
    }
    fn reply_more(&mut self, _: Bytes) -> Result<Bytes, i32> {
        self.said.next().ok_or(1)
    }
    fn done(&mut self, _: u64, _: ConMode, _: Bytes) -> Result<ClientAuthenticated, i32> {
        panic!("a peer without a key was let in")
    }
}
