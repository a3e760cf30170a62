//! The payloads of control frames.
//!
//! Source of the facts: Ceph 18.2 `src/msg/async/frames_v2.h` and `doc/dev/msgr2.rst`. Addresses are always in their versioned form.

use crate::{MsgrError, Tag};
use bytes::Bytes;
use denc::{Decoder, Denc, DencError, Encoder};
use types::{EntityAddr, EntityAddrVec};

/// A payload that knows its tag.
pub trait Control: Denc {
    const TAG: Tag;
    fn payload(&self) -> Bytes {
        let mut e = Encoder::with_capacity(denc::ALL_FEATURES, 128);
        self.encode(&mut e);
        e.finish()
    }
    /// What stands behind the known fields is of a newer release and ignored.
    fn parse(payload: Bytes) -> Result<Self, MsgrError> {
        Ok(Self::decode(&mut Decoder::new(payload))?)
    }
}

macro_rules! controls {
    ($($(#[$doc:meta])* $name:ident = $tag:ident { $($field:ident: $t:ty),* $(,)? })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name { $(pub $field: $t),* }
        impl Denc for $name {
            fn encode(&self, _e: &mut Encoder) { $(self.$field.encode(_e);)* }
            fn decode(_d: &mut Decoder) -> Result<Self, DencError> { Ok(Self { $($field: Denc::decode(_d)?),* }) }
        }
        impl Control for $name { const TAG: Tag = Tag::$tag; }
    )* };
}

controls! {
    /// The sender's kind (`EntityKind`'s byte) and where it sees the other side.
    Hello = Hello { kind: u8, you: EntityAddr }
    AuthRequest = AuthRequest { method: u32, modes: Vec<u32>, payload: Bytes }
    AuthBadMethod = AuthBadMethod { method: u32, result: i32, methods: Vec<u32>, modes: Vec<u32> }
    AuthReplyMore = AuthReplyMore { payload: Bytes }
    AuthRequestMore = AuthRequestMore { payload: Bytes }
    AuthDone = AuthDone { global_id: u64, mode: u32, payload: Bytes }
    /// HMAC-SHA256, by the session key, of all that the sender has received so far; zeros without a key.
    AuthSignature = AuthSignature { digest: [u8; 32] }
    ClientIdent = ClientIdent {
        addrs: EntityAddrVec, target: EntityAddr, num: i64, global_seq: u64, supported: u64, required: u64, flags: u64, cookie: u64,
    }
    ServerIdent = ServerIdent {
        addrs: EntityAddrVec, num: i64, global_seq: u64, supported: u64, required: u64, flags: u64, cookie: u64,
    }
    IdentMissingFeatures = IdentMissingFeatures { features: u64 }
    Reconnect = SessionReconnect {
        addrs: EntityAddrVec, client_cookie: u64, server_cookie: u64, global_seq: u64, connect_seq: u64, msg_seq: u64,
    }
    /// `full`: forget everything, also what is queued.
    Reset = SessionReset { full: bool }
    Retry = SessionRetry { connect_seq: u64 }
    RetryGlobal = SessionRetryGlobal { global_seq: u64 }
    ReconnectOk = SessionReconnectOk { msg_seq: u64 }
    Wait = Wait {}
    /// Seconds and nanoseconds of the sender's clock.
    Keepalive2 = Keepalive2 { sec: u32, nsec: u32 }
    Keepalive2Ack = Keepalive2Ack { sec: u32, nsec: u32 }
    Ack = Ack { seq: u64 }
    CompressionRequest = CompressionRequest { compress: bool, methods: Vec<u32> }
    CompressionDone = CompressionDone { compress: bool, method: u32 }
}

/// In the flags of the idents: the session ends with its connection.
pub const FLAG_LOSSY: u64 = 1;
