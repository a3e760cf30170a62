//! What a key of type `aes256k` is used for: each use has keys of its own, derived from the secret. Type `aes` takes no notice.
//!
//! Source of the numbers: Ceph 20.2.4 `src/auth/cephx/CephxProtocol.h`.

/// `CEPHX_KEY_USAGE_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Usage(pub u32);

impl Usage {
    /// A monitor's connection secret, under the auth ticket's session key.
    pub const AUTH_CONNECTION_SECRET: Self = Self(0x03);
    /// The holder's part of a ticket, under its key (the auth ticket) or the auth ticket's session key (others).
    pub const TICKET_SESSION_KEY: Self = Self(0x04);
    /// The service's part of a new auth ticket, once more under the old one's session key.
    pub const TICKET_BLOB: Self = Self(0x05);
    /// The sealed part of an authorizer, under the ticket's session key, as the next two.
    pub const AUTHORIZE: Self = Self(0x10);
    pub const AUTHORIZE_CHALLENGE: Self = Self(0x11);
    pub const AUTHORIZE_REPLY: Self = Self(0x12);
    /// A service's rotating secrets, under its daemon's own key.
    pub const ROTATING_SECRET: Self = Self(0x20);
    /// The service's part of a ticket, under the service's rotating secret.
    pub const TICKET_INFO: Self = Self(0x30);
}
