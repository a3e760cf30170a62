//! The numbers that the messenger negotiates: authentication methods, modes of a first payload.

/// Methods (`CEPH_AUTH_*`).
pub const METHOD_NONE: u32 = 1;
pub const METHOD_CEPHX: u32 = 2;

/// First byte of a first payload (`AUTH_MODE_*`): both what is wanted and the version of what follows.
pub const AUTH_MODE_AUTHORIZER: u8 = 1;
pub const AUTH_MODE_AUTHORIZER_MAX: u8 = 9;
pub const AUTH_MODE_MON: u8 = 10;
pub const AUTH_MODE_MON_MAX: u8 = 19;

/// Bytes of a connection secret in msgr2's secure mode; crc mode has none.
pub const SECURE_SECRET_LEN: usize = 64;

/// What a first payload asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// At a service: an authorizer follows.
    Authorizer,
    /// At a monitor: a login follows.
    Mon,
}

/// Looks at the first byte of a first payload.
pub fn ask(payload: &[u8]) -> Option<Ask> {
    match *payload.first()? {
        AUTH_MODE_AUTHORIZER..=AUTH_MODE_AUTHORIZER_MAX => Some(Ask::Authorizer),
        AUTH_MODE_MON..=AUTH_MODE_MON_MAX => Some(Ask::Mon),
        _ => None,
    }
}
