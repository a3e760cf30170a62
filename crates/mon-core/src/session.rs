//! A session: its entity, its capabilities, and its subscriptions.
//!
//! Sessions are found by their connection, in steps in proportion to the logarithm of how many there are. An OSD's are counted
//! (`osd::failure`).

use crate::auth::{Endpoint, Handshake};
use base::Stamp;
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

/// What a session may ask of what makes epochs for all, when it is not one that may change the OSDMap as it likes: so many at once, and so
/// many a second. The rest waits for the next tick, where all that has waited becomes one epoch.
#[derive(Debug)]
pub(crate) struct Budget {
    left: f64,
    at: Stamp,
    /// Requests that wait.
    pub waiting: usize,
}

impl Budget {
    const AT_ONCE: f64 = 500.0;
    const PER_S: f64 = 100.0;
    /// Requests that may wait.
    pub const WAITING_MAX: usize = 1000;

    /// Takes one out, if there is one.
    pub fn take(&mut self, now: Stamp) -> bool {
        self.left = (self.left + now.since(self.at).as_secs_f64() * Self::PER_S).min(Self::AT_ONCE);
        self.at = now;
        let is_there = self.left >= 1.0;
        self.left -= if is_there { 1.0 } else { 0.0 };
        is_there
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { left: Self::AT_ONCE, at: Stamp::default(), waiting: 0 }
    }
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
    /// Snapshots that it may make and remove at once.
    pub(crate) snaps: Budget,
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
        Self {
            endpoint,
            peer,
            name,
            hostname: String::new(),
            caps,
            subs: BTreeMap::new(),
            config_sent: None,
            osd_epoch: 0,
            snaps: Budget::default(),
            mgr_name: None,
        }
    }
    /// True if the session is that daemon's: its key has that name. What a daemon says of itself it says over such a session alone.
    pub fn is_of(&self, kind: EntityKind, name: &str) -> bool {
        self.peer.entity.kind == kind && self.peer.entity.id == name
    }
    /// The OSD behind this session, if it is one.
    pub fn osd(&self) -> Option<i32> {
        (self.peer.entity.kind == EntityKind::OSD && self.name.num >= 0).then_some(self.name.num as i32)
    }
}
