//! Recorded logins: our client takes a stock monitor's replies, and what it holds is then accepted by our service.

use base::Rng;
use bytes::Bytes;
use cephx::proto::{AuthorizerHead, ServiceTicketInfo};
use cephx::rotating::ExpiringKey;
use cephx::{ClientAuth, CryptoKey, KeyType, RotatingSecrets, ServiceSession, Usage, Verdict};
use denc::{Decoder, Denc};
use types::{EntityKind, EntityText, UTime};

/// One recorded login.
struct Record(&'static str);

impl Record {
    fn field(&self, name: &str) -> &'static str {
        let lines = self.0.lines();
        lines.filter_map(|l| l.split_once(' ')).find(|(k, _)| *k == name).unwrap_or_else(|| panic!("{name} is in the file")).1
    }
    fn number(&self, name: &str) -> u64 {
        u64::from_str_radix(self.field(name), 16).unwrap()
    }
    fn bytes(&self, name: &str) -> Bytes {
        let hex = self.field(name);
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }
}
fn key(text: &str) -> CryptoKey {
    CryptoKey::from_base64(text).unwrap()
}

#[test]
fn a_stock_login_is_understood() {
    understood(Record(include_str!("../../../fixtures/cephx/login-reef.txt")), 1_795_260_160);
}
#[test]
fn a_stock_login_with_newer_keys_is_understood() {
    understood(Record(include_str!("../../../fixtures/cephx/login-tentacle.txt")), 1_795_272_477);
}

fn understood(r: Record, now: u32) {
    let ours = key(r.field("key"));
    assert_eq!(ours.proof(r.number("server_challenge"), r.number("client_challenge")).unwrap(), r.number("proof"));

    let now = UTime { sec: now, nsec: 0 };
    let rng = &mut Rng::new(1);
    let kinds = [EntityKind::MON, EntityKind::OSD, EntityKind::MGR];
    let mut client = ClientAuth::new(EntityText::parse(r.field("name")).unwrap(), ours, &kinds);
    client.login();
    client.handle_challenge(&r.bytes("challenge"), now, rng).unwrap();
    let secrets = client.handle_done(r.field("global_id").parse().unwrap(), &r.bytes("reply"), now).unwrap();
    assert_eq!(secrets.session_key, key(r.field("session_key")));
    assert_eq!(secrets.connection_secret.len(), 64);

    // Each ticket opens with its service's secret, and sealing it again gives stock's bytes.
    for (kind, secret) in kinds.iter().zip(["mon_secret", "osd_secret", "mgr_secret"]) {
        let (id, secret) = r.field(secret).split_once(' ').unwrap();
        let secret = key(secret);
        let authorizer = client.authorizer(*kind, now, rng).unwrap().unwrap();
        let head: AuthorizerHead = Decoder::new(authorizer.payload.clone()).get().unwrap();
        assert_eq!(head.ticket.secret_id.to_string(), id);
        let info: ServiceTicketInfo = secret.open(Usage::TICKET_INFO, &head.ticket.blob).unwrap();
        assert_eq!((info.ticket.name.to_string(), info.ticket.global_id), ("client.admin".into(), r.field("global_id").parse().unwrap()));
        let again = secret.seal(Usage::TICKET_INFO, &info, rng).unwrap();
        // What has chance bytes in it is never the same twice.
        assert_eq!((again.len(), again == head.ticket.blob), (head.ticket.blob.len(), secret.kind == KeyType::AES));
        if *kind != EntityKind::OSD {
            continue;
        }
        assert_eq!(info.session_key, key(r.field("osd_session_key")));
        let mut rotating = RotatingSecrets { max_ver: 3, ..RotatingSecrets::default() };
        rotating.secrets.insert(2, ExpiringKey { key: secret, expiration: now });
        assert_eq!(RotatingSecrets::from_bytes(&rotating.to_bytes(0)).unwrap(), rotating);
        let keys = (EntityKind::OSD, &rotating);
        let mut service = ServiceSession::default();
        let Ok(Verdict::Challenge(challenge)) = service.handle(&keys, &authorizer.payload, 64, now, rng) else {
            panic!("a challenge first")
        };
        let Ok(Verdict::Accept { peer, .. }) = service.handle(&keys, &authorizer.answer(&challenge, rng).unwrap(), 64, now, rng) else {
            panic!("our service accepts a stock ticket")
        };
        assert_eq!(peer.caps.text().as_deref(), Some("allow *"));
    }
}
