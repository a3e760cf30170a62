//! The other ends of an OSD's connections: what any message of theirs is judged by before a half of the OSD hears it.
//!
//! A connection is the OSD's, a session ([`crate::session`]) a shard's. Holds nothing of what was said on either.

use crate::event::{ConnId, Network, Peer};
use crate::pg::record::log::WordHash;
use base::fixed::HashMap;
use types::{EntityAddr, EntityName};

/// One connection's other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection {
    pub peer: EntityName,
    /// Where it dialled us, or we it.
    pub network: Network,
    /// As it says.
    pub addr: EntityAddr,
    /// Its ticket allows everything: commands are for those alone.
    pub may_all: bool,
}

impl Connection {
    fn of(peer: &Peer) -> Self {
        let may_all = peer.cap.as_ref().is_none_or(|cap| cap.allows_all(&peer.from));
        Self { peer: peer.name, network: peer.network, addr: peer.addr, may_all }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Connections(HashMap<ConnId, Connection, WordHash>);

impl Connections {
    pub fn connected(&mut self, conn: ConnId, peer: &Peer) {
        self.0.insert(conn, Connection::of(peer));
    }
    pub fn reset(&mut self, conn: ConnId) {
        self.0.remove(&conn);
    }
    pub fn get(&self, conn: ConnId) -> Option<&Connection> {
        self.0.get(&conn)
    }
}
