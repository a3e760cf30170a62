//! CephX on real sockets: an identity with tickets at a service, in both modes, and what is refused.

use cephx::rotating::TicketLife;
use cephx::{AuthDb, ClientAuth, CryptoKey, EntityAuth, Identity, RotatingSecrets, RotatingTable, ServerSession, mode};
use messages::{Message, RawMessage};
use msgr::{ConMode, Local, Policy};
use net::auth_cephx::{Dialer, PeerAuth, ServiceAuth, entropy, now};
use net::modes::Modes;
use net::{Config, Conn, Dispatcher, Messenger};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText};

/// The part of a monitor that hands out tickets: one entity, and the secrets of all services.
struct Db {
    entity: EntityAuth,
    table: RotatingTable,
}
impl AuthDb for Db {
    fn entity(&self, _: &EntityText) -> Option<&EntityAuth> {
        Some(&self.entity)
    }
    fn rotating(&self, service: u32) -> Option<&RotatingSecrets> {
        self.table.services.get(&service)
    }
}

fn db() -> Db {
    let caps = [("mon", "allow r"), ("osd", "allow rw pool=p")].map(|(k, v)| (k.to_string(), v.to_string()));
    let entity = EntityAuth { key: CryptoKey::generate(now(), &mut entropy()), caps: caps.into(), ..EntityAuth::default() };
    let mut table = RotatingTable::default();
    table.rotate(now(), &TicketLife::default(), |_| cephx::KeyType::AES, &mut entropy());
    Db { entity, table }
}

/// Logged in, without a socket.
fn logged_in(db: &Db) -> ClientAuth {
    let name = EntityText::parse("client.x").unwrap();
    let mut client = ClientAuth::new(name.clone(), db.entity.key.clone(), &[EntityKind::OSD]);
    client.login();
    let (mut session, challenge) = ServerSession::start(name, 77, true, &mut entropy());
    let answer = client.handle_challenge(&challenge, now(), &mut entropy()).unwrap();
    let reply = session.handle(db, &answer, Some(0), now(), &mut entropy()).unwrap();
    client.handle_done(77, &reply.payload, now()).unwrap();
    client
}

#[derive(Debug)]
enum Seen {
    Message(Rc<msgr::Peer>),
    Failed(String),
}
struct Log(mpsc::UnboundedSender<Seen>);
impl Dispatcher for Log {
    fn on_message(&self, conn: &Conn, _: RawMessage) {
        self.0.send(Seen::Message(conn.peer())).unwrap();
    }
    fn on_dial_failed(&self, _: &Conn, why: &net::DialError, _: u32) {
        self.0.send(Seen::Failed(why.to_string())).unwrap();
    }
}

/// Dials the service with this identity and sends a message; what is seen first on either side.
async fn knock(identity: Identity, service: &RotatingSecrets, methods: &[u32], client_mode: ConMode, service_modes: &[ConMode]) -> Seen {
    knock_as(EntityKind::CLIENT, 77, identity, service, methods, client_mode, service_modes).await
}
/// The same by a peer that says this kind and number.
async fn knock_as(
    kind: EntityKind,
    num: i64,
    identity: Identity,
    service: &RotatingSecrets,
    methods: &[u32],
    client_mode: ConMode,
    service_modes: &[ConMode],
) -> Seen {
    let (sender, mut seen) = mpsc::unbounded_channel();
    let log: Rc<dyn Dispatcher> = Rc::new(Log(sender));
    let nobody = || Dialer::new(Rc::new(RefCell::new(Identity::none(EntityText::parse("osd.0").unwrap()))));
    let mut local = Local::new(EntityKind::OSD, 0, EntityAddrVec::default(), Rc::new(nobody()), 1);
    local.auth_server = Some(Rc::new(ServiceAuth {
        kind: EntityKind::OSD,
        cluster_methods: methods.to_vec(),
        client_methods: methods.to_vec(),
        modes: Modes::all(service_modes).shared(),
        secrets: Rc::new(RefCell::new(service.clone())),
        missing: Rc::default(),
    }));
    let server = Messenger::new(Rc::new(local), Config::default());
    server.set_dispatcher(log.clone());
    let addr = server.bind_as("127.0.0.1:0".parse().unwrap(), 5).await.unwrap();

    let mut dialer = Dialer::new(Rc::new(RefCell::new(identity)));
    dialer.modes = Modes::all(&[client_mode]).shared();
    let blank = EntityAddr { kind: AddrType::MSGR2, nonce: 9, ..EntityAddr::default() };
    let client = Messenger::new(Rc::new(Local::new(kind, num, blank.into(), Rc::new(dialer), 2)), Config::default());
    client.set_dispatcher(log);
    let conn = client.connect(EntityKind::OSD, addr.into(), Policy::lossy_client());
    conn.send(messages::MPing {}.encode(0));
    let first = tokio::time::timeout(Duration::from_secs(10), seen.recv()).await.expect("something is seen").unwrap();
    client.shutdown();
    server.shutdown();
    first
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

#[test]
fn a_ticket_is_accepted_in_both_modes() {
    run(async {
        let db = db();
        let client = logged_in(&db);
        for wanted in [ConMode::CRC, ConMode::SECURE] {
            let modes = [ConMode::CRC, ConMode::SECURE];
            let seen = knock(Identity::Cephx(client.clone()), db.rotating(4).unwrap(), &[mode::METHOD_CEPHX], wanted, &modes).await;
            let Seen::Message(peer) = seen else { panic!("{seen:?}") };
            assert_eq!((peer.mode, peer.global_id, peer.auth_name.to_string()), (wanted, 77, "client.x".into()));
            let user = peer.user.clone().unwrap().downcast::<PeerAuth>().unwrap();
            assert_eq!(user.caps.text().as_deref(), Some("allow rw pool=p"));
        }
    });
}

#[test]
fn who_is_not_let_in() {
    run(async {
        let db = db();
        let client = logged_in(&db);
        let (ours, both) = (db.rotating(4).unwrap(), [ConMode::CRC, ConMode::SECURE]);
        let cephx = Identity::Cephx(client.clone());
        // A service that doesn't know the ticket's secret.
        let seen = knock(cephx.clone(), db.rotating(16).unwrap(), &[mode::METHOD_CEPHX], ConMode::CRC, &both).await;
        assert!(matches!(seen, Seen::Failed(_)), "{seen:?}");
        // A client without tickets, and one without keys.
        let fresh = ClientAuth::new(EntityText::parse("client.x").unwrap(), db.entity.key.clone(), &[EntityKind::OSD]);
        assert!(matches!(knock(Identity::Cephx(fresh), ours, &[mode::METHOD_CEPHX], ConMode::CRC, &both).await, Seen::Failed(_)));
        let none = Identity::none(EntityText::parse("client.x").unwrap());
        assert!(matches!(knock(none, ours, &[mode::METHOD_CEPHX], ConMode::CRC, &both).await, Seen::Failed(_)));
        // No peer is talked down to crc by a service that wants secure, nor the other way round.
        for (offered, taken, why) in [
            (ConMode::CRC, ConMode::SECURE, "secure connections only, and crc was"),
            (ConMode::SECURE, ConMode::CRC, "crc connections only, and secure was"),
        ] {
            let Seen::Failed(text) = knock(cephx.clone(), ours, &[mode::METHOD_CEPHX], offered, &[taken]).await else { panic!("{why}") };
            assert!(text.contains(why), "{text}");
        }
    });
}

/// A key with no more than a monitor's capability buys a ticket for OSDs, and is no OSD with it, no monitor, no manager and no metadata server.
#[test]
fn a_client_is_a_client_and_has_its_own_number() {
    run(async {
        let db = db();
        let client = logged_in(&db);
        let (modes, methods) = ([ConMode::CRC, ConMode::SECURE], [mode::METHOD_CEPHX]);
        for wanted in modes {
            for kind in [EntityKind::OSD, EntityKind::MON, EntityKind::MGR, EntityKind::MDS, EntityKind(64)] {
                let identity = Identity::Cephx(client.clone());
                let seen = knock_as(kind, 7, identity, db.rotating(4).unwrap(), &methods, wanted, &modes).await;
                assert!(matches!(seen, Seen::Failed(_)), "{}: {seen:?}", kind.name());
            }
            let identity = Identity::Cephx(client.clone());
            let seen = knock_as(EntityKind::CLIENT, 4123, identity, db.rotating(4).unwrap(), &methods, wanted, &modes).await;
            let Seen::Message(peer) = seen else { panic!("{seen:?}") };
            assert_eq!((peer.name.num, peer.from.ip), (77, Some([127, 0, 0, 1].into())), "the ticket's number, and where it comes from");
        }
    });
}
