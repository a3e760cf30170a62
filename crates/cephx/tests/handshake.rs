//! Our client, our monitor's side and our service's side, against each other: what gets in and what does not.

#[path = "../../base/tests/fuzzing/mod.rs"]
mod fuzzing;

use base::Rng;
use bytes::Bytes;
use cephx::client::Progress;
use cephx::rotating::TicketLife;
use cephx::server::{Granted, Reply};
use cephx::{
    AuthCapsInfo, AuthDb, ClientAuth, CryptoKey, EntityAuth, KeyType, Keyring, Refusal, RotatingSecrets, RotatingTable, ServerSession,
};
use cephx::{Entropy, Secrets, ServiceSession, Verdict};
use denc::{Decoder, Denc};
use types::{EntityKind, EntityText, UTime};

const ALL: [EntityKind; 3] = [EntityKind::MON, EntityKind::OSD, EntityKind::MGR];

struct Db {
    ring: Keyring,
    table: RotatingTable,
}
impl AuthDb for Db {
    fn entity(&self, name: &EntityText) -> Option<&EntityAuth> {
        self.ring.get(name)
    }
    fn rotating(&self, service: u32) -> Option<&RotatingSecrets> {
        self.table.services.get(&service)
    }
}

fn at(sec: u32) -> UTime {
    UTime { sec: 1_800_000_000 + sec, nsec: 0 }
}
fn name(text: &str) -> EntityText {
    EntityText::parse(text).unwrap()
}

fn db(rng: &mut Rng) -> Db {
    db_of(KeyType::AES, KeyType::AES, rng)
}
/// With keys and rotating secrets of these types.
fn db_of(keys: KeyType, secrets: KeyType, rng: &mut Rng) -> Db {
    let mut ring = Keyring::default();
    for (who, caps) in
        [("client.admin", &[("mon", "allow *"), ("osd", "allow *")][..]), ("osd.0", &[("mon", "allow profile osd")]), ("client.x", &[])]
    {
        let caps = caps.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        ring.entities.insert(name(who), EntityAuth { key: CryptoKey::generate_of(keys, at(0), rng), caps, ..EntityAuth::default() });
    }
    let mut table = RotatingTable::default();
    table.rotate(at(0), &TicketLife::default(), |_| secrets, rng);
    Db { ring, table }
}
fn client(db: &Db, who: &str) -> ClientAuth {
    ClientAuth::new(name(who), db.ring.get(&name(who)).unwrap().key.clone(), &ALL)
}

/// A whole login; `claimed` global_ids are given back as they are, others are 4242.
fn login(db: &Db, c: &mut ClientAuth, secret_len: usize, sec: u32, rng: &mut Rng) -> Result<(ServerSession, Reply, Secrets), Refusal> {
    let hello = cephx::proto::MonLogin::from_bytes(&c.login())?;
    let id = if hello.global_id == 0 { 4242 } else { hello.global_id };
    let (mut s, challenge) = ServerSession::start(hello.name, id, hello.global_id == 0, rng);
    let answer = c.handle_challenge(&challenge, at(sec), rng)?;
    let reply = s.handle(db, &answer, Some(secret_len), at(sec), rng)?;
    let secrets = c.handle_done(id, &reply.payload, at(sec))?;
    Ok((s, reply, secrets))
}

const KINDS: [KeyType; 2] = [KeyType::AES, KeyType::AES256K];

#[test]
fn both_types_of_key_with_both_types_of_secret() {
    let rng = &mut Rng::new(11);
    for (keys, secrets) in KINDS.into_iter().flat_map(|k| KINDS.map(|s| (k, s))) {
        let db = db_of(keys, secrets, rng);
        let mut c = client(&db, "client.admin");
        let (mut s, reply, ours) = login(&db, &mut c, 64, 0, rng).unwrap();
        let granted = reply.granted.unwrap();
        for shown in [format!("{granted:?}"), format!("{ours:?}")] {
            assert!(!shown.contains(&format!("{:?}", ours.connection_secret)) && !shown.contains("secret:"), "{shown}");
        }
        assert_eq!((granted.session_key, granted.connection_secret), (ours.session_key.clone(), ours.connection_secret));
        // Old clients and old services are never handed a key of a type that they don't know.
        let both = if keys == secrets { keys } else { KeyType::AES };
        assert_eq!(ours.session_key.kind, both);
        // Back again with the old ticket, then a renewal on the session.
        login(&db, &mut c, 64, 10, rng).unwrap();
        let ask = c.renewal(at(3000), rng).unwrap().expect("service tickets are due");
        let answer = s.handle(&db, &ask, None, at(3000), rng).unwrap();
        assert_eq!(c.handle_reply(&answer.payload, at(3000), rng).unwrap(), Progress::Done);
        let osd = (EntityKind::OSD, db.rotating(4).unwrap());
        let a = c.authorizer(EntityKind::OSD, at(3001), rng).unwrap().unwrap();
        let mut service = ServiceSession::default();
        let Verdict::Challenge(challenge) = service.handle(&osd, &a.payload, 64, at(3001), rng).unwrap() else { panic!() };
        let answer = a.answer(&challenge, rng).unwrap();
        let Verdict::Accept { reply, peer } = service.handle(&osd, &answer, 64, at(3001), rng).unwrap() else { panic!() };
        assert_eq!(a.verify(&reply).unwrap().connection_secret, peer.connection_secret);
        assert_eq!(peer.session_key.kind, both);
        // A daemon learns its secrets.
        let mut daemon = client(&db, "osd.0");
        let (mut s, ..) = login(&db, &mut daemon, 0, 0, rng).unwrap();
        let reply = s.handle(&db, &daemon.rotating_request(), None, at(1), rng).unwrap();
        let Progress::Rotating(learned) = daemon.handle_reply(&reply.payload, at(1), rng).unwrap() else { panic!() };
        assert_eq!(Some(&learned), db.rotating(4));
    }
}

/// CVE-2025-30156: what is sealed with `aes` can be changed by its bearer. Every single bit of a ticket, at a service.
#[test]
fn a_changed_ticket_gives_nobody_more_rights() {
    let rng = &mut Rng::new(12);
    for secrets in KINDS {
        let mut db = db_of(KeyType::AES, secrets, rng);
        db.ring.entities.get_mut(&name("client.admin")).unwrap().caps.insert("osd".into(), "allow r pool=a, allow rw pool=b".into());
        let mut c = client(&db, "client.admin");
        login(&db, &mut c, 0, 0, rng).unwrap();
        let keys = (EntityKind::OSD, db.rotating(4).unwrap());
        let a = c.authorizer(EntityKind::OSD, at(1), rng).unwrap().unwrap();
        let (mut refused, mut same) = (0, 0);
        for bit in 0..a.payload.len() * 8 {
            let mut bytes = a.payload.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let head: cephx::proto::AuthorizerHead = match Decoder::new(bytes.clone().into()).get() {
                Ok(head) => head,
                Err(_) => continue,
            };
            let opened = db.rotating(4).unwrap().get(head.ticket.secret_id).map(|key| {
                key.open::<cephx::proto::ServiceTicketInfo>(cephx::Usage::TICKET_INFO, &head.ticket.blob).map(|info| info.ticket)
            });
            match ServiceSession::default().handle(&keys, &bytes.into(), 0, at(1), rng) {
                Err(_) => refused += 1,
                Ok(_) => {
                    let ticket = opened.unwrap().unwrap();
                    assert!(!ticket.caps.allow_all && ticket.expires <= at(3601), "bit {bit}: {ticket:?}");
                    same += usize::from(ticket.caps.text().as_deref() == Some("allow r pool=a, allow rw pool=b"));
                }
            }
        }
        // With a tag only bits outside of what is sealed pass: the versions of structures.
        assert!(refused > 1000, "{refused} refused, {same} with the same rights");
        if secrets == KeyType::AES256K {
            assert!(same < 40, "{same} changed payloads passed");
        }
    }
}

#[test]
fn a_login_agrees_on_secrets_and_brings_tickets() {
    let rng = &mut Rng::new(1);
    let db = db(rng);
    let mut c = client(&db, "client.admin");
    let (_, reply, secrets) = login(&db, &mut c, 64, 0, rng).unwrap();
    let Granted { session_key, connection_secret, caps } = reply.granted.unwrap();
    assert_eq!((session_key, &connection_secret), (secrets.session_key, &secrets.connection_secret));
    assert_eq!(connection_secret.len(), 64);
    assert_eq!(caps.text().as_deref(), Some("allow *"));
    for kind in ALL {
        assert!(c.has_ticket(kind, at(0)) && !c.has_ticket(kind, at(3601)));
    }
    assert_eq!(c.renewal(at(100), rng).unwrap(), None);
}

#[test]
fn tickets_are_renewed_on_the_live_session() {
    let rng = &mut Rng::new(2);
    let mut db = db(rng);
    let mut c = client(&db, "client.admin");
    let (mut s, ..) = login(&db, &mut c, 0, 0, rng).unwrap();
    for sec in [2800, 5600, 195_000, 260_000] {
        db.table.rotate(at(sec), &TicketLife::default(), |_| KeyType::AES, rng);
        let mut ask = c.renewal(at(sec), rng).unwrap();
        while let Some(payload) = ask {
            let reply = s.handle(&db, &payload, None, at(sec), rng).unwrap();
            ask = match c.handle_reply(&reply.payload, at(sec), rng).unwrap() {
                Progress::Ask(more) => Some(more),
                _ => None,
            };
        }
        assert!(c.has_ticket(EntityKind::OSD, at(sec + 60)), "at {sec}");
    }
}

#[test]
fn a_daemon_learns_its_secrets_and_only_those() {
    let rng = &mut Rng::new(3);
    let db = db(rng);
    let mut osd = client(&db, "osd.0");
    let (mut s, ..) = login(&db, &mut osd, 0, 0, rng).unwrap();
    let reply = s.handle(&db, &osd.rotating_request(), None, at(1), rng).unwrap();
    let Progress::Rotating(secrets) = osd.handle_reply(&reply.payload, at(1), rng).unwrap() else { panic!() };
    assert_eq!(Some(&secrets), db.rotating(4));
    let mut admin = client(&db, "client.admin");
    let (mut s, ..) = login(&db, &mut admin, 0, 0, rng).unwrap();
    assert!(s.handle(&db, &admin.rotating_request(), None, at(1), rng).is_err());
}

#[test]
fn who_is_not_let_in() {
    let rng = &mut Rng::new(4);
    let db = db(rng);
    let key = db.ring.get(&name("client.admin")).unwrap().key.clone();
    let mut nobody = ClientAuth::new(name("client.nobody"), key.clone(), &ALL);
    assert!(matches!(login(&db, &mut nobody, 0, 0, rng), Err(Refusal::UnknownEntity(_))));
    let mut other = ClientAuth::new(name("osd.0"), key, &ALL);
    assert_eq!(login(&db, &mut other, 0, 0, rng).unwrap_err(), Refusal::WrongKey);
    assert_eq!(login(&db, &mut client(&db, "client.x"), 0, 0, rng).unwrap_err(), Refusal::NoCaps);
}

#[test]
fn a_global_id_comes_back_with_its_ticket_only() {
    let rng = &mut Rng::new(5);
    let db = db(rng);
    let mut c = client(&db, "client.admin");
    login(&db, &mut c, 0, 0, rng).unwrap();
    // The same client again: claims 4242 and shows its ticket.
    login(&db, &mut c, 0, 10, rng).unwrap();
    assert!(c.has_ticket(EntityKind::OSD, at(11)));
    // Somebody else with a good ticket of its own claims 4243.
    let ticketless = cephx::proto::Authenticate::default();
    let (mut s, challenge) = ServerSession::start(name("client.admin"), 4243, false, rng);
    let answer = c.handle_challenge(&challenge, at(20), rng);
    assert!(answer.is_err(), "two challenges in one login");
    c.login();
    let answer = c.handle_challenge(&challenge, at(20), rng).unwrap();
    assert_eq!(s.handle(&db, &answer, Some(0), at(20), rng).unwrap_err(), Refusal::OldTicket("a ticket of somebody else"));
    // And nothing is claimed with nothing.
    let challenge = cephx::proto::ServerChallenge::from_bytes(&challenge).unwrap().challenge;
    let key = &db.ring.get(&name("client.admin")).unwrap().key;
    let proof = key.proof(challenge, 0).unwrap();
    let mut e = denc::Encoder::new(0);
    e.u16(cephx::proto::GET_AUTH_SESSION_KEY);
    cephx::proto::Authenticate { proof, ..ticketless }.encode(&mut e);
    assert!(matches!(s.handle(&db, &e.finish(), Some(0), at(20), rng), Err(Refusal::OldTicket(_))));
}

#[test]
fn a_service_challenges_then_lets_in_once() {
    let rng = &mut Rng::new(6);
    let db = db(rng);
    let mut c = client(&db, "client.admin");
    login(&db, &mut c, 0, 0, rng).unwrap();
    let secrets = db.rotating(4).unwrap();
    let keys = (EntityKind::OSD, secrets);
    let a = c.authorizer(EntityKind::OSD, at(1), rng).unwrap().unwrap();
    let mut service = ServiceSession::default();
    let Verdict::Challenge(challenge) = service.handle(&keys, &a.payload, 64, at(1), rng).unwrap() else { panic!() };
    let answer = a.answer(&challenge, rng).unwrap();
    let Verdict::Accept { reply, peer } = service.handle(&keys, &answer, 64, at(1), rng).unwrap() else { panic!() };
    let ours = a.verify(&reply).unwrap();
    assert_eq!((ours.session_key, ours.connection_secret), (peer.session_key.clone(), peer.connection_secret.clone()));
    assert_eq!((peer.name.to_string(), peer.global_id, peer.caps), ("client.admin".into(), 4242, AuthCapsInfo::from_text("allow *")));

    // What was recorded is challenged anew elsewhere, and refused as an answer to that.
    let mut other = ServiceSession::default();
    assert!(matches!(other.handle(&keys, &answer, 64, at(1), rng), Ok(Verdict::Challenge(_))));
    assert_eq!(other.handle(&keys, &answer, 64, at(1), rng), Err(Refusal::Challenge));
    // Not at another service, not with an old ticket.
    let mgr = (EntityKind::MGR, db.rotating(16).unwrap());
    assert!(matches!(ServiceSession::default().handle(&mgr, &a.payload, 64, at(1), rng), Err(Refusal::NoSecret(4))));
    assert_eq!(ServiceSession::default().handle(&keys, &a.payload, 64, at(4000), rng), Err(Refusal::Expired));
    assert!(c.authorizer(EntityKind::OSD, at(4000), rng).unwrap().is_none());
    // A reply to another authorizer does not pass.
    assert!(c.authorizer(EntityKind::OSD, at(1), rng).unwrap().unwrap().verify(&reply).is_err());
}

#[test]
fn damaged_payloads_are_refused_without_panic() {
    let rng = &mut Rng::new(7);
    let db = db(rng);
    let mut c = client(&db, "client.admin");
    login(&db, &mut c, 0, 0, rng).unwrap();
    let a = c.authorizer(EntityKind::OSD, at(1), rng).unwrap().unwrap();
    let keys = (EntityKind::OSD, db.rotating(4).unwrap());
    let mut passed = 0;
    for _ in 0..4000 {
        let mut bytes = a.payload.to_vec();
        if rng.chance(1, 3) {
            bytes.truncate(rng.below(bytes.len() as u64) as usize);
        } else {
            let bit = rng.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        passed += usize::from(ServiceSession::default().handle(&keys, &Bytes::from(bytes), 0, at(1), rng).is_ok());
    }
    // Type `aes` has no integrity beyond its magic: flipped bits within names pass to the challenge. None crashes.
    assert!(passed < 4000);
    let (mut s, _) = ServerSession::start(name("client.admin"), 1, true, rng);
    for len in 0..200 {
        let mut bytes = vec![0; len];
        Entropy::fill(rng, &mut bytes);
        if len >= 2 {
            bytes[0] = 0;
            bytes[1] = 1 << rng.below(3);
        }
        assert!(s.handle(&db, &bytes.into(), Some(0), at(1), rng).is_err());
    }
}

/// Bytes as they are, to be sealed: what only the key's owner can send.
struct Raw(Vec<u8>);
impl Denc for Raw {
    fn encode(&self, e: &mut denc::Encoder) {
        e.raw(&self.0);
    }
    fn decode(d: &mut Decoder) -> Result<Self, denc::DencError> {
        Ok(Self(d.rest().to_vec()))
    }
}

/// Damage inside of what is sealed, by a peer that has the keys: a monitor or a client gone mad.
#[test]
fn fuzz_what_is_sealed() {
    use cephx::Usage;
    use cephx::proto::{Authorize, AuthorizeReply, AuthorizerHead, ServerChallenge, ServiceTicket, ServiceTicketInfo, TicketBlob};
    let rng = &mut Rng::new(9);
    let db = db_of(KeyType::AES256K, KeyType::AES256K, rng);
    let mut c = client(&db, "client.admin");
    login(&db, &mut c, 64, 0, rng).unwrap();
    let a = c.authorizer(EntityKind::OSD, at(1), rng).unwrap().unwrap();
    let mut d = Decoder::new(a.payload.clone());
    let head: AuthorizerHead = d.get().unwrap();
    let secret = db.rotating(4).unwrap().get(head.ticket.secret_id).unwrap();
    let info: ServiceTicketInfo = secret.open(Usage::TICKET_INFO, &head.ticket.blob).unwrap();
    let session = info.session_key.clone();
    let authorize: Authorize = session.open_from(Usage::AUTHORIZE, &mut d).unwrap();
    let validity = UTime { sec: 3600, nsec: 0 };
    let samples = [
        info.to_bytes(0),
        authorize.to_bytes(0),
        ServerChallenge { challenge: 7 }.to_bytes(0),
        AuthorizeReply { nonce_plus_one: 1, connection_secret: vec![1; 64].into() }.to_bytes(0),
        ServiceTicket { session_key: session.clone(), validity }.to_bytes(0),
        db.rotating(4).unwrap().to_bytes(0),
    ];
    let keys = (EntityKind::OSD, db.rotating(4).unwrap());
    let daemon = client(&db, "osd.0");
    let own = db.ring.get(&name("osd.0")).unwrap().key.clone();
    fuzzing::run("cephx, sealed", 3000, |rng| {
        let (sample, other) = (fuzzing::pick(rng, &samples), fuzzing::pick(rng, &samples));
        let bytes = fuzzing::damaged(rng, sample, other);
        let n = bytes.len() + 300;
        let mut chance = rng.clone();
        let ticket =
            TicketBlob { secret_id: head.ticket.secret_id, blob: secret.seal(Usage::TICKET_INFO, &Raw(bytes.clone()), rng).unwrap() };
        let mut service = |ticket: &TicketBlob, inner: &[u8]| {
            let mut e = denc::Encoder::new(0);
            AuthorizerHead { ticket: ticket.clone(), ..head.clone() }.encode(&mut e);
            session.seal_into(Usage::AUTHORIZE, &Raw(inner.to_vec()), rng, &mut e).unwrap();
            let payload = e.finish();
            fuzzing::bounded("a service", n, 100, || {
                let _ = ServiceSession::default().handle(&keys, &payload, 64, at(1), &mut chance);
            });
        };
        service(&ticket, &samples[1]);
        service(&head.ticket, &bytes);
        let mut e = denc::Encoder::new(0);
        cephx::proto::ResponseHeader { request_type: cephx::proto::GET_ROTATING_KEY, status: 0 }.encode(&mut e);
        own.seal_into(Usage::ROTATING_SECRET, &Raw(bytes.clone()), rng, &mut e).unwrap();
        let rotating = e.finish();
        let challenge = session.seal(Usage::AUTHORIZE_CHALLENGE, &Raw(bytes.clone()), rng).unwrap();
        let mut reply = denc::Encoder::new(0);
        session.seal_into(Usage::AUTHORIZE_REPLY, &Raw(bytes), rng, &mut reply).unwrap();
        let reply = reply.finish();
        fuzzing::bounded("a client", n, 100, || {
            let _ = daemon.clone().handle_reply(&rotating, at(1), rng);
            let _ = a.answer(&challenge, rng);
            let _ = a.verify(&reply);
        });
    });
}

/// Damage at every place of the conversation that a peer has a hand in, and in every blob that stands in it.
#[test]
fn fuzz_both_sides_of_the_handshake() {
    fuzz(KeyType::AES, "cephx");
}
#[test]
fn fuzz_both_sides_of_the_handshake_with_the_newer_keys() {
    fuzz(KeyType::AES256K, "cephx aes256k");
}
fn fuzz(kind: KeyType, what: &str) {
    let rng = &mut Rng::new(8);
    let db = db_of(kind, kind, rng);
    let mut c = client(&db, "client.admin");
    let hello = c.login();
    let (mut session, challenge) = ServerSession::start(name("client.admin"), 4242, true, rng);
    let answer = c.clone().handle_challenge(&challenge, at(0), rng).unwrap();
    let asked = {
        c.handle_challenge(&challenge, at(0), rng).unwrap();
        c.clone()
    };
    let before = session.clone();
    let reply = {
        let mut c2 = client(&db, "client.admin");
        let (_, reply, _) = login(&db, &mut c2, 64, 0, rng).unwrap();
        c = c2;
        reply.payload
    };
    let _ = session.handle(&db, &answer, Some(64), at(0), rng);
    let a = c.authorizer(EntityKind::OSD, at(1), rng).unwrap().unwrap();
    let keys = (EntityKind::OSD, db.rotating(4).unwrap());
    let mut service = ServiceSession::default();
    let Verdict::Challenge(osd_challenge) = service.handle(&keys, &a.payload, 64, at(1), rng).unwrap() else { panic!() };
    let osd_answer = a.answer(&osd_challenge, rng).unwrap();
    let osd_reply = match service.clone().handle(&keys, &osd_answer, 64, at(1), rng).unwrap() {
        Verdict::Accept { reply, .. } => reply,
        other => panic!("{other:?}"),
    };
    let samples = [hello, challenge, answer, reply, a.payload.clone(), osd_challenge, osd_answer, osd_reply];
    let caps = include_str!("../../../fixtures/cephx/caps-accepted.txt").as_bytes();
    fuzzing::run(what, 6000, |rng| {
        let (sample, other) = (fuzzing::pick(rng, &samples), fuzzing::pick(rng, &samples));
        let bytes = Bytes::from(fuzzing::damaged(rng, sample, other));
        let n = bytes.len();
        let mut own = rng.clone();
        fuzzing::bounded("a monitor", n, 100, || {
            let _ = cephx::proto::MonLogin::from_bytes(&bytes);
            let _ = cephx::mode::ask(&bytes);
            let _ = before.clone().handle(&db, &bytes, Some(64), at(0), &mut own);
        });
        fuzzing::bounded("a service", n, 100, || {
            let _ = ServiceSession::default().handle(&keys, &bytes, 64, at(1), &mut own);
            let _ = service.clone().handle(&keys, &bytes, 64, at(1), &mut own);
        });
        fuzzing::bounded("a client", n, 100, || {
            let _ = a.answer(&bytes, rng);
            let _ = a.verify(&bytes);
            let _ = client(&db, "client.admin").handle_challenge(&bytes, at(0), &mut own);
            let _ = asked.clone().handle_done(4242, &bytes, at(0));
            let _ = c.clone().handle_reply(&bytes, at(1), &mut own);
            let _ = RotatingSecrets::from_bytes(&bytes);
        });
        let from = rng.below(caps.len() as u64 - 200) as usize;
        let text = fuzzing::damaged(rng, &caps[from..from + 200], b"allow rwx pool=x");
        let text = String::from_utf8_lossy(&text);
        for line in text.lines().chain([&*text]) {
            let cap = line.split('|').nth(1).unwrap_or(line);
            fuzzing::bounded("a capability", line.len(), 500, || {
                ["mon", "osd", "mgr"].map(|service| cephx::caps::check(service, cap).is_ok())
            });
        }
        let _ = Keyring::parse(&text);
        let _ = CryptoKey::from_base64(&text);
    });
}

#[test]
fn a_monitor_makes_its_own_ticket() {
    let rng = &mut Rng::new(12);
    for kind in KINDS {
        let db = db_of(KeyType::AES, kind, rng);
        let secrets = db.table.services[&u32::from(EntityKind::MGR.0)].clone();
        let monitor = name("mon.");
        let authorizer = cephx::server::own_authorizer(&db, &monitor, EntityKind::MGR, at(1), rng).unwrap();
        let mut service = ServiceSession::default();
        let keys = (EntityKind::MGR, &secrets);
        let Verdict::Challenge(challenge) = service.handle(&keys, &authorizer.payload, 64, at(1), rng).unwrap() else {
            panic!("let in unasked")
        };
        let answer = authorizer.answer(&challenge, rng).unwrap();
        let Verdict::Accept { reply, peer } = service.handle(&keys, &answer, 64, at(1), rng).unwrap() else { panic!("asked twice") };
        assert_eq!((&peer.name, peer.global_id, &peer.caps), (&monitor, 0, &AuthCapsInfo::default()));
        let ours = authorizer.verify(&reply).unwrap();
        assert_eq!((ours.connection_secret, ours.session_key), (peer.connection_secret, peer.session_key));
        // At another service it is nothing.
        let osds = db.table.services[&u32::from(EntityKind::OSD.0)].clone();
        assert!(ServiceSession::default().handle(&(EntityKind::OSD, &osds), &authorizer.payload, 64, at(1), rng).is_err());
    }
}

/// `auth rotate`, or `auth rm` and another entity of that name: what was bought with the key of before buys nothing more.
#[test]
fn a_ticket_ends_with_the_key_that_it_was_given_for() {
    let rng = &mut Rng::new(21);
    for kind in KINDS {
        let mut db = db_of(kind, kind, rng);
        let mut old = client(&db, "client.admin");
        let (mut session, ..) = login(&db, &mut old, 0, 0, rng).unwrap();
        let mut renews = |db: &mut Db, sec: u32, rng: &mut Rng| {
            db.table.rotate(at(sec), &TicketLife::default(), |_| kind, rng);
            let ask = old.renewal(at(sec), rng).unwrap().expect("service tickets are due");
            let reply = session.handle(db, &ask, None, at(sec), rng)?;
            old.handle_reply(&reply.payload, at(sec), rng).map(|_| ())
        };
        renews(&mut db, 3000, rng).unwrap();
        // Also a key that is made with the same words, or is older than the ticket, as an imported one may be.
        let key =
            std::mem::replace(&mut db.ring.entities.get_mut(&name("client.admin")).unwrap().key, CryptoKey::generate_of(kind, at(0), rng));
        assert_eq!(renews(&mut db, 6000, rng), Err(Refusal::OldTicket("a ticket that was given for another key")));
        // Its number is still its own, for who has the new key.
        let mut new = client(&db, "client.admin");
        login(&db, &mut new, 0, 6001, rng).unwrap();
        // A key that is on its way counts.
        db.ring.entities.get_mut(&name("client.admin")).unwrap().pending_key = key;
        renews(&mut db, 6002, rng).unwrap();
        db.ring.entities.remove(&name("client.admin"));
        assert!(matches!(renews(&mut db, 9000, rng), Err(Refusal::UnknownEntity(_))));
    }
}
