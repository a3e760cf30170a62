//! What stands first in every message to a service of the monitors.

use denc::{Decoder, Denc, DencError, Encoder};

/// The version of the service's map that the sender has seen (0: whatever), for monitors that lag behind to wait. Two fields of
/// forwarding among monitors follow on the wire, which no daemon reads any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Paxos {
    pub version: u64,
}

impl Paxos {
    pub const fn at(version: u64) -> Self {
        Self { version }
    }
}
impl Denc for Paxos {
    fn encode(&self, e: &mut Encoder) {
        e.u64(self.version);
        e.u16(u16::MAX);
        e.u64(0);
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        let version = d.u64()?;
        d.skip(10)?;
        Ok(Self { version })
    }
}
