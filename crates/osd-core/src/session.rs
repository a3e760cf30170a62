//! What an OSD remembers of one connection.

use crate::event::Peer;
use crate::planted::{Bug, planted};
use maps::OsdMap;
use messages::MOSDOp;
use types::{EntityAddr, EntityKind, Epoch, HObject, ReqId, SpgId};

/// A stop that we asked a client to keep, until the group serves again.
#[derive(Debug, Clone)]
pub struct Backoff {
    pub pgid: SpgId,
    pub id: u64,
    pub begin: HObject,
    pub end: HObject,
}

/// One peer's session.
#[derive(Debug)]
pub struct Session {
    pub peer: Peer,
    /// The newest map that we sent it or that it showed to have.
    pub map_epoch: Epoch,
    pub backoffs: Vec<Backoff>,
    /// Its capability allows nothing, whatever is asked.
    pub is_powerless: bool,
    backoff_ids: u64,
    /// Where its socket comes from, with the port and nonce that it says, if it says another IP.
    seen_at: Option<EntityAddr>,
}

impl Session {
    pub fn new(mut peer: Peer) -> Self {
        // Not even asked for each request.
        peer.cap = peer.cap.filter(|cap| !cap.allows_all(&peer.from));
        let is_powerless = peer.cap.as_ref().is_some_and(|cap| cap.allows_nothing(&peer.from));
        let seen_at = Some(EntityAddr { ip: peer.from.ip, ..peer.addr }).filter(|at| at.ip.is_some() && at.ip != peer.addr.ip);
        Self { peer, map_epoch: 0, backoffs: Vec::new(), is_powerless, backoff_ids: 0, seen_at }
    }
    /// True if the map shuts it out: by the address that it says, or by the one that its socket has. Naming another helps nobody; and a client that
    /// other daemons see at another address than we do is known by the one that it says.
    pub fn is_blocklisted(&self, map: &OsdMap) -> bool {
        map.is_blocklisted(&self.peer.addr) || self.seen_at.is_some_and(|at| map.is_blocklisted(&at))
    }
    /// Where it is, to be shown: librados says port 0, and its socket has one by which the client's process is found.
    pub fn shown_addr(&self) -> EntityAddr {
        let Peer { addr, from, .. } = &self.peer;
        if addr.port == 0 && addr.ip == from.ip { EntityAddr { port: from.port, ..*addr } } else { *addr }
    }
    /// The id of a request. A client's are its own; OSDs and metadata servers may name another's, for which they ask.
    pub fn reqid_of(&self, msg: &MOSDOp) -> ReqId {
        let name = self.peer.name;
        let may_name = [EntityKind::OSD, EntityKind::MDS].contains(&name.kind) || planted(Bug::BelieveReqid);
        if may_name { msg.reqid_from(name) } else { msg.own_reqid(name) }
    }
    pub fn has(&self, features: u64) -> bool {
        self.peer.features & features == features
    }
    pub fn next_backoff_id(&mut self) -> u64 {
        self.backoff_ids += 1;
        self.backoff_ids
    }
    pub fn holds_back(&self, pgid: SpgId) -> bool {
        self.backoffs.iter().any(|b| b.pgid == pgid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Network;
    use types::{AddrType, EntityName};

    #[test]
    fn a_client_is_shown_with_the_port_of_its_socket() {
        let at = |text: &str| EntityAddr::parse(text, AddrType::MSGR2).expect("an address");
        let shown = |addr: &str, from: &str| {
            let (name, entity) = (EntityName::client(1), "client.x".into());
            let (addr, from, network) = (at(addr), at(from), Network::Public);
            let peer = Peer { name, entity, global_id: 1, features: 0, supported: 0, addr, from, network, cap: None };
            Session::new(peer).shown_addr()
        };
        assert_eq!(shown("v2:10.0.0.1:0/7", "v2:10.0.0.1:40001/0"), at("v2:10.0.0.1:40001/7"));
        // A daemon says where it listens; of another network the socket says nothing.
        assert_eq!(shown("v2:10.0.0.1:6800/7", "v2:10.0.0.1:40001/0"), at("v2:10.0.0.1:6800/7"));
        assert_eq!(shown("v2:10.0.0.1:0/7", "v2:10.9.0.1:40001/0"), at("v2:10.0.0.1:0/7"));
    }
}
