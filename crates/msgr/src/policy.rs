//! What a connection owes to messages when its socket is cut.
//!
//! Source of the facts: Ceph 18.2 `src/msg/Policy.h`.

use types::features;

/// One kind of peer's treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// A cut ends the session; nothing is sent twice.
    pub lossy: bool,
    /// We never dial this peer.
    pub server: bool,
    /// With nothing to send, a cut connection waits until there is.
    pub standby: bool,
    /// A peer that lost its side of the session makes us drop ours (and say so by a remote reset).
    pub resetcheck: bool,
    /// Feature bits that the peer must have.
    pub required: u64,
}

impl Policy {
    const fn new(lossy: bool, server: bool, standby: bool, resetcheck: bool) -> Self {
        Self { lossy, server, standby, resetcheck, required: features::MSG_ADDR2 }
    }
    /// Clients, and daemons towards monitors and managers.
    pub const fn lossy_client() -> Self {
        Self::new(true, false, false, false)
    }
    /// The other end of [`Policy::lossy_client`].
    pub const fn stateless_server() -> Self {
        Self::new(true, true, false, false)
    }
    /// OSDs between each other.
    pub const fn lossless_peer() -> Self {
        Self::new(false, false, true, false)
    }
    /// Monitors between each other: one that restarted is a new peer.
    pub const fn lossless_peer_reuse() -> Self {
        Self::new(false, false, true, true)
    }
}
