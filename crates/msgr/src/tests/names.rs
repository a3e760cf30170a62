//! What a peer calls itself against what its ticket says: kind, number, and whose session it asks for.

use super::*;
use crate::planted::{Bug, is_noticed};
use types::EntityName;

fn lossless(_: EntityKind) -> Policy {
    Policy::lossless_peer()
}
/// A peer that says `kind` and `num`, with the ticket of `name`.
fn says(kind: EntityKind, num: u16, name: &str) -> Local {
    let mut local = keyed_local(kind, num, ConMode::CRC, lossless);
    let name = EntityText::parse(name).unwrap();
    local.auth_clients = Rc::new(Keyed { mode: ConMode::CRC, key: b"key", rounds: 2, name });
    local
}
fn osd(n: u16) -> Local {
    says(EntityKind::OSD, n, &format!("osd.{n}"))
}
/// What the accepting side has of it.
fn met(client: Local) -> Result<Peer, MsgrError> {
    let (mut a, mut b) = pair(client, osd(2), Policy::lossy_client());
    settle(&mut a, &mut b, usize::MAX)?;
    Ok(b.peer().clone())
}

fn kinds_are_the_tickets() {
    let kinds = [EntityKind::MON, EntityKind::MDS, EntityKind::OSD, EntityKind::MGR, EntityKind::AUTH, EntityKind(64)];
    for kind in kinds {
        for name in ["client.x", "client.bootstrap-osd", "osd.7", "mds.7", "mgr.7", "mon.7"] {
            let ours = EntityText::parse(name).unwrap().kind == kind;
            let met = met(says(kind, 7, name));
            assert_eq!(met.is_ok(), ours, "{} with the ticket of {name}", kind.name());
            assert!(ours || met.err() == Some(MsgrError::Auth(13)), "it is told why");
        }
    }
    // Modules of stock managers are clients with the manager's own key.
    for name in ["client.x", "mgr.x", "osd.7", "mds.a"] {
        let peer = met(says(EntityKind::CLIENT, 7, name)).unwrap();
        assert_eq!((peer.kind, peer.auth_name.to_string().as_str(), peer.proven), (EntityKind::CLIENT, name, true));
    }
}
fn numbers_are_the_tickets() {
    assert_eq!(met(osd(7)).unwrap().name, EntityName::osd(7));
    for name in ["osd.8", "osd.x"] {
        assert!(matches!(met(says(EntityKind::OSD, 7, name)), Err(MsgrError::NotItsNumber { said: 7, .. })), "{name}");
    }
    // A client's is the one that its monitor gave it: 77 in these tickets.
    assert_eq!(met(says(EntityKind::CLIENT, 4123, "client.x")).unwrap().name, EntityName::client(77));
}
/// osd.1 and osd.2 have a session, and another peer says that it is to go on with it.
fn sessions_are_of_one_name() {
    for (begins, name) in [(false, "osd.3"), (true, "osd.3"), (false, "osd.1"), (true, "osd.1")] {
        let (mut a, mut b) = pair(osd(1), osd(2), Policy::lossless_peer());
        settle(&mut a, &mut b, usize::MAX).unwrap();
        b.send(message(9, 1, 0, &[]));
        let _ = b.out().take_flat();
        // Cookies and address are known to the rogue.
        let EntityText { kind, id } = EntityText::parse(name).unwrap();
        let local = says(kind, id.parse().unwrap(), name);
        local.addrs.replace(EntityAddrVec::one(addr(1)));
        let mut c = Connection::dial(Rc::new(local), Policy::lossless_peer(), EntityKind::OSD, EntityAddrVec::one(addr(2)));
        if !begins {
            c.session.client_cookie = a.session.client_cookie;
            c.session.server_cookie = a.session.server_cookie;
        }
        c.session.connect_seq = 5;
        c.local.next_global_seq(100);
        c.start();
        let mut d = Connection::accept(b.local.clone(), addr(1));
        let (mut bufs, mut identified) = ((BytesMut::new(), BytesMut::new()), false);
        while !identified {
            let (to_d, to_c) = (c.out().take_flat(), d.out().take_flat());
            assert!(!to_d.is_empty() || !to_c.is_empty(), "it stands still before it is identified");
            feed(&mut c, &mut bufs.0, &to_c, usize::MAX, &mut Vec::new()).unwrap();
            bufs.1.extend_from_slice(&to_d);
            while let Some(up) = d.next(&mut bufs.1).unwrap() {
                identified |= matches!(up, Up::Identified);
            }
        }
        let decision = d.decide(Some(&mut b));
        if name == "osd.1" {
            assert_eq!(decision, Ok(Decision::TakeOver), "its own comes back");
        } else {
            assert_eq!(decision, Err(MsgrError::NotItsSession));
            assert_eq!(b.peer().auth_name.to_string(), "osd.1", "and what is queued stays its owner's");
        }
    }
}

#[test]
fn a_peer_is_of_the_kind_that_its_ticket_says() {
    kinds_are_the_tickets();
    assert!(is_noticed(Bug::BelieveHello, kinds_are_the_tickets));
}
#[test]
fn osds_and_clients_have_the_numbers_of_their_tickets() {
    numbers_are_the_tickets();
    assert!(is_noticed(Bug::BelieveNumber, numbers_are_the_tickets));
}
#[test]
fn a_session_goes_on_with_its_own_peer_only() {
    sessions_are_of_one_name();
    assert!(is_noticed(Bug::BelieveSession, sessions_are_of_one_name));
}
#[test]
fn a_dial_to_an_osd_meets_that_osd() {
    for (wanted, is_there) in [(2, true), (-1, true), (3, false)] {
        let server = osd(2);
        let (target, name) = (server.addrs.borrow().clone(), EntityName::osd(wanted));
        let mut a = Connection::dial_to(Rc::new(osd(1)), Policy::lossless_peer(), name, target);
        a.start();
        let mut b = Connection::accept(Rc::new(server), addr(1));
        assert_eq!(settle(&mut a, &mut b, usize::MAX).err(), (!is_there).then_some(MsgrError::WrongPeer));
    }
}
#[test]
fn where_the_socket_comes_from_is_known_whatever_the_peer_says() {
    let client = says(EntityKind::CLIENT, 7, "client.x");
    client.addrs.replace(EntityAddrVec::one(EntityAddr::parse("v2:10.1.2.3:0/7", AddrType::MSGR2).unwrap()));
    let peer = met(client).unwrap();
    assert_eq!((peer.addrs.to_string().as_str(), peer.from), ("v2:10.1.2.3:0/7", addr(1)));
}
