//! The accepting side's choice: which of two sockets to the same peer lives on, and with which session.
//!
//! Source of the facts: Ceph 18.2 `src/msg/async/ProtocolV2.cc`; both ends must come to the same answer.

use crate::connection::{Connection, State, Up};
use crate::control::{Reconnect, Reset, Retry, RetryGlobal, Wait};
use crate::planted::{Bug, planted};
use crate::{MsgrError, Reader};
use std::cmp::Ordering;
use std::net::IpAddr;
use types::{EntityAddr, EntityAddrVec};

/// What the peer wants.
#[derive(Debug)]
pub(crate) enum Ident {
    /// CLIENT_IDENT: a new session.
    New,
    /// SESSION_RECONNECT: the session that it remembers.
    Again(Reconnect),
}

/// What the shell does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// This connection has the session now and is the one that is found by the peer's addresses.
    Proceed,
    /// As [`Decision::Proceed`], and the existing one is over: a lossy one that this replaces.
    Replace,
    /// The existing one took over this one's transport: move the socket there, with what was read of it, and drop this one.
    TakeOver,
    /// The peer was told to do otherwise; this transport goes on waiting for its next frame.
    Told,
}

impl Connection {
    /// After [`Up::Identified`]. `existing` is the lossless connection to [`crate::Peer::addrs`], dialled by either end, if there is one
    /// that isn't closed.
    pub fn decide(&mut self, existing: Option<&mut Connection>) -> Result<Decision, MsgrError> {
        assert_eq!(self.state, State::Deciding, "only asked after Up::Identified");
        self.enter(State::Session);
        let ident = self.ident.take().expect("set together with the state");
        let existing = existing.filter(|e| e.state != State::Closed);
        if existing.as_ref().is_some_and(|e| !self.is_peer_of(e)) && !planted(Bug::BelieveSession) {
            return Err(MsgrError::NotItsSession);
        }
        match (ident, existing) {
            (Ident::New, None) => {
                self.send_server_ident();
                Ok(Decision::Proceed)
            }
            (Ident::New, Some(existing)) => self.decide_new(existing),
            (Ident::Again(_), None) => Ok(self.told(Tell::Reset(true))),
            (Ident::Again(again), Some(existing)) => Ok(self.decide_again(&again, existing)),
        }
    }

    /// True unless it is proven that a session is another peer's: an address and a cookie can be known by others.
    fn is_peer_of(&self, existing: &Connection) -> bool {
        let (new, old) = (&self.peer, &existing.peer);
        if !new.proven {
            return !old.proven;
        }
        let same_number = [new.name.num, old.name.num].contains(&-1) || new.name.num == old.name.num;
        new.kind == old.kind && same_number && (!old.proven || new.auth_name == old.auth_name)
    }

    fn decide_new(&mut self, existing: &mut Connection) -> Result<Decision, MsgrError> {
        if existing.session.peer_global_seq > self.session.peer_global_seq {
            return Err(MsgrError::Stale);
        }
        if existing.policy.lossy {
            self.send_server_ident();
            return Ok(Decision::Replace);
        }
        let (ours, theirs) = (existing.session.client_cookie, self.session.client_cookie);
        let peer_restarted = existing.session.server_cookie != 0 && ours != 0 && ours != theirs;
        if peer_restarted && self.policy.resetcheck {
            existing.forget_session(true);
        }
        let no_race = peer_restarted || ours == theirs || matches!(existing.state, State::Ready | State::Standby);
        if no_race || self.wins_over(existing) {
            self.hand_over(existing, None);
            return Ok(Decision::TakeOver);
        }
        Ok(self.told(Tell::Wait))
    }

    fn decide_again(&mut self, again: &Reconnect, existing: &mut Connection) -> Decision {
        let s = &existing.session;
        if s.client_cookie != again.client_cookie {
            return self.told(Tell::Reset(self.policy.resetcheck));
        }
        if s.server_cookie == 0 {
            // The peer answered our CLIENT_IDENT, and the answer was lost: let it begin.
            return self.told(Tell::Reset(false));
        }
        if s.peer_global_seq > again.global_seq {
            return self.told(Tell::RetryGlobal(s.peer_global_seq));
        }
        match s.connect_seq.cmp(&again.connect_seq) {
            Ordering::Greater => self.told(Tell::Retry(s.connect_seq)),
            // Both sides noticed the cut and dialled at the same time.
            Ordering::Equal if !self.wins_over(existing) => self.told(Tell::Wait),
            _ => {
                existing.session.connect_seq = again.connect_seq;
                self.hand_over(existing, Some(again.msg_seq));
                Decision::TakeOver
            }
        }
    }

    /// In a race the side with the lower address is the one whose dial counts.
    fn wins_over(&self, existing: &Connection) -> bool {
        let ours = race_key(&self.local.addrs.borrow());
        race_key(&self.peer.addrs) <= ours || existing.policy.server
    }

    /// `existing` goes on with our transport: in a new session, or in its own behind message `resume`.
    fn hand_over(&mut self, existing: &mut Connection, resume: Option<u64>) {
        existing.reset_transport();
        existing.reader = std::mem::replace(&mut self.reader, Reader::new(self.local.limits));
        existing.writer = std::mem::take(&mut self.writer);
        existing.dialled = false;
        existing.peer_msgr_features = self.peer_msgr_features;
        existing.session.peer_global_seq = self.session.peer_global_seq;
        existing.pending.retain(|up| matches!(up, Up::RemoteReset | Up::Message(_)));
        let mut peer = std::mem::take(&mut self.peer);
        if resume.is_some() {
            peer.name = existing.peer.name;
            peer.features = existing.peer.features;
            peer.supported = existing.peer.supported;
        }
        existing.peer = peer;
        existing.adopt();
        match resume {
            Some(seq) if existing.session.in_seq > 0 && planted(Bug::CountAnew) => {
                existing.session.in_seq = 0;
                existing.send_reconnect_ok(seq);
            }
            Some(seq) => existing.send_reconnect_ok(seq),
            None => {
                existing.session.client_cookie = self.session.client_cookie;
                existing.send_server_ident();
            }
        }
        self.close();
    }

    fn told(&mut self, what: Tell) -> Decision {
        match what {
            Tell::Reset(full) => self.put(&Reset { full }),
            Tell::Retry(connect_seq) => self.put(&Retry { connect_seq }),
            Tell::RetryGlobal(global_seq) => self.put(&RetryGlobal { global_seq }),
            Tell::Wait => self.put(&Wait {}),
        }
        Decision::Told
    }
}

enum Tell {
    Reset(bool),
    Retry(u64),
    RetryGlobal(u64),
    Wait,
}

/// Addresses compare, for races, as the bytes of Ceph's C++ struct on a little-endian machine: type, nonce, family, port, IP.
pub(crate) fn race_key(addrs: &EntityAddrVec) -> [u8; 36] {
    let addr: EntityAddr = addrs.msgr2().unwrap_or_default();
    let mut key = [0; 36];
    key[..4].copy_from_slice(&addr.kind.0.to_le_bytes());
    key[4..8].copy_from_slice(&addr.nonce.to_le_bytes());
    key[10..12].copy_from_slice(&addr.port.to_be_bytes());
    match addr.ip {
        Some(IpAddr::V4(ip)) => {
            key[8] = 2;
            key[12..16].copy_from_slice(&ip.octets());
        }
        Some(IpAddr::V6(ip)) => {
            key[8] = 10;
            key[16..32].copy_from_slice(&ip.octets());
        }
        None => {}
    }
    key
}
