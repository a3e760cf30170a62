//! The payloads of `auth none`: a name and a number, believed as they are.

use crate::mode::AUTH_MODE_AUTHORIZER;
use bytes::Bytes;
use denc::{Decoder, Denc, DencError, Encoder};
use types::EntityText;

/// What a client shows to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoneAuthorizer {
    pub name: EntityText,
    pub global_id: u64,
}

impl Denc for NoneAuthorizer {
    fn encode(&self, e: &mut Encoder) {
        e.u8(AUTH_MODE_AUTHORIZER);
        self.name.encode(e);
        e.u64(self.global_id);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.u8()?;
        Ok(Self { name: d.get()?, global_id: d.u64()? })
    }
}

/// The first payload to a service.
pub fn authorizer(name: &EntityText, global_id: u64) -> Bytes {
    NoneAuthorizer { name: name.clone(), global_id }.to_bytes(0)
}
