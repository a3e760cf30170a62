//! `ceph_msg_header2`, segment 0 of a MESSAGE.
//!
//! ```text
//!  seq u64 | tid u64 | type u16 | priority u16 | version u16 | data_pre_padding_len u32 | data_off u16 | ack_seq u64 | flags u8
//!  | compat_version u16 | reserved u16            = 41 bytes, little-endian
//! ```
//!
//! Source of the facts: Ceph 18.2 `src/include/msgr.h`.

use crate::MsgrError;

pub const HEADER: usize = 41;

const DATA_OFF: usize = 26;

/// Of a header that is here in part, or in whole but unchecked.
#[inline]
pub fn data_off(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(DATA_OFF..DATA_OFF + 2)?.try_into().expect("two bytes")))
}

/// The fields that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    pub seq: u64,
    pub tid: u64,
    pub kind: u16,
    pub priority: u16,
    pub version: u16,
    pub data_off: u16,
    /// The last message that the sender of this one has received.
    pub ack_seq: u64,
    pub compat: u16,
}

impl Header {
    #[inline]
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[0..8].copy_from_slice(&self.seq.to_le_bytes());
        out[8..16].copy_from_slice(&self.tid.to_le_bytes());
        out[16..18].copy_from_slice(&self.kind.to_le_bytes());
        out[18..20].copy_from_slice(&self.priority.to_le_bytes());
        out[20..22].copy_from_slice(&self.version.to_le_bytes());
        out[DATA_OFF..DATA_OFF + 2].copy_from_slice(&self.data_off.to_le_bytes());
        out[28..36].copy_from_slice(&self.ack_seq.to_le_bytes());
        out[37..39].copy_from_slice(&self.compat.to_le_bytes());
        out
    }
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, MsgrError> {
        let bytes: &[u8; HEADER] = bytes.try_into().map_err(|_| MsgrError::HeaderLength(bytes.len()))?;
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Ok(Self {
            seq: u64_at(0),
            tid: u64_at(8),
            kind: u16_at(16),
            priority: u16_at(18),
            version: u16_at(20),
            data_off: u16_at(DATA_OFF),
            ack_seq: u64_at(28),
            compat: u16_at(37),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back() {
        let h = Header { seq: 1, tid: 2, kind: 42, priority: 63, version: 8, data_off: 5, ack_seq: 6, compat: 3 };
        assert_eq!(Header::decode(&h.encode()).unwrap(), h);
        assert!(Header::decode(&[0; 40]).is_err());
    }
}
