//! A session: its entity, its capabilities, and its subscriptions.

use crate::auth::{Endpoint, Handshake};
use cephx::AuthCapsInfo;
use std::collections::BTreeMap;
use types::{EntityAddr, EntityAddrVec, EntityKind, EntityName, EntityText};

/// A connection, as the shell numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// What the shell knows of a peer when its connection is ready.
#[derive(Debug, Clone)]
pub struct PeerInfo {
    pub entity: EntityText,
    pub global_id: u64,
    pub caps: AuthCapsInfo,
    /// As it says.
    pub addrs: EntityAddrVec,
    /// The other end of its socket, whatever it says: where capabilities for a network are good.
    pub from: EntityAddr,
    pub features: u64,
    /// The handshake's state, for renewals of tickets.
    pub handshake: Handshake,
}

/// One subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sub {
    /// The first version that is still wanted; 0 is the newest, whatever it is.
    pub next: u64,
    pub onetime: bool,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    pub endpoint: Endpoint,
    pub peer: PeerInfo,
    /// Name and number as messages have them: `osd.0`, `client.4123`.
    pub name: EntityName,
    /// Where the peer says that it runs: configuration may depend on it.
    pub hostname: String,
    /// What of the entity's capabilities is for this endpoint: parsed once.
    pub caps: crate::caps::Caps,
    pub subs: BTreeMap<String, Sub>,
    /// The configuration sent last.
    pub config_sent: Option<BTreeMap<String, String>>,
    /// The newest OSDMap that it was sent.
    pub osd_epoch: u32,
    /// Set by MMgrOpen: `osd.0`, `mon.a`, `client.rgw.x`.
    pub mgr_name: Option<String>,
}

impl Session {
    pub fn new(endpoint: Endpoint, peer: PeerInfo) -> Self {
        let num = match peer.entity.kind {
            EntityKind::OSD => peer.entity.id.parse().unwrap_or(-1),
            _ => peer.global_id as i64,
        };
        let name = EntityName { kind: peer.entity.kind, num };
        let caps = crate::caps::Caps::new(endpoint, &peer.caps);
        Self { endpoint, peer, name, hostname: String::new(), caps, subs: BTreeMap::new(), config_sent: None, osd_epoch: 0, mgr_name: None }
    }
    /// The OSD behind this session, if it is one.
    pub fn osd(&self) -> Option<i32> {
        (self.peer.entity.kind == EntityKind::OSD && self.name.num >= 0).then_some(self.name.num as i32)
    }
}
