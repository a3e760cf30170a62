//! A recorded login: our client takes a stock monitor's replies, and what it holds then opens our service's door.

use base::Rng;
use bytes::Bytes;
use cephx::proto::{AuthorizerHead, ServiceTicketInfo};
use cephx::rotating::ExpiringKey;
use cephx::{ClientAuth, CryptoKey, RotatingSecrets, ServiceSession, Usage, Verdict};
use denc::{Decoder, Denc};
use types::{EntityKind, EntityText, UTime};

fn field(name: &str) -> &'static str {
    let lines = include_str!("../../../fixtures/cephx/login-reef.txt").lines();
    lines.filter_map(|l| l.split_once(' ')).find(|(k, _)| *k == name).unwrap_or_else(|| panic!("{name} is in the file")).1
}
fn number(name: &str) -> u64 {
    u64::from_str_radix(field(name), 16).unwrap()
}
fn bytes(name: &str) -> Bytes {
    let hex = field(name);
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}
fn key(text: &str) -> CryptoKey {
    CryptoKey::from_base64(text).unwrap()
}

#[test]
fn a_stock_login_is_understood() {
    let ours = key(field("key"));
    assert_eq!(ours.proof(number("server_challenge"), number("client_challenge")).unwrap(), number("proof"));

    let now = UTime { sec: 1_795_260_160, nsec: 0 };
    let rng = &mut Rng::new(1);
    let kinds = [EntityKind::MON, EntityKind::OSD, EntityKind::MGR];
    let mut client = ClientAuth::new(EntityText::parse(field("name")).unwrap(), ours, &kinds);
    client.login();
    client.handle_challenge(&bytes("challenge"), now, rng).unwrap();
    let secrets = client.handle_done(field("global_id").parse().unwrap(), &bytes("reply"), now).unwrap();
    assert_eq!(secrets.session_key, key(field("session_key")));
    assert_eq!(secrets.connection_secret.len(), 64);

    // Each ticket opens with its service's secret, and sealing it again gives stock's bytes.
    for (kind, secret) in kinds.iter().zip(["mon_secret", "osd_secret", "mgr_secret"]) {
        let (id, secret) = field(secret).split_once(' ').unwrap();
        let secret = key(secret);
        let authorizer = client.authorizer(*kind, now, rng).unwrap().unwrap();
        let head: AuthorizerHead = Decoder::new(authorizer.payload.clone()).get().unwrap();
        assert_eq!(head.ticket.secret_id.to_string(), id);
        let info: ServiceTicketInfo = secret.open(Usage::TICKET_INFO, &head.ticket.blob).unwrap();
        assert_eq!((info.ticket.name.to_string(), info.ticket.global_id), ("client.admin".into(), 4168));
        assert_eq!(secret.seal(Usage::TICKET_INFO, &info, rng).unwrap(), head.ticket.blob);
        if *kind != EntityKind::OSD {
            continue;
        }
        assert_eq!(info.session_key, key(field("osd_session_key")));
        let mut rotating = RotatingSecrets { max_ver: 3, ..RotatingSecrets::default() };
        rotating.secrets.insert(2, ExpiringKey { key: secret, expiration: now });
        assert_eq!(RotatingSecrets::from_bytes(&rotating.to_bytes(0)).unwrap(), rotating);
        let keys = (EntityKind::OSD, &rotating);
        let mut door = ServiceSession::default();
        let Ok(Verdict::Challenge(challenge)) = door.handle(&keys, &authorizer.payload, 64, now, rng) else { panic!("a challenge first") };
        let Ok(Verdict::Accept { peer, .. }) = door.handle(&keys, &authorizer.answer(&challenge, rng).unwrap(), 64, now, rng) else {
            panic!("a stock ticket opens our door")
        };
        assert_eq!(peer.caps.text().as_deref(), Some("allow *"));
    }
}
