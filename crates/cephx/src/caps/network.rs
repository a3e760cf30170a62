//! `network 10.0.0.0/8`: where a grant is good.

use std::net::IpAddr;
use types::EntityAddr;

/// A network as written in a grant. One that can't be read contains no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    pub text: String,
    parsed: Option<(IpAddr, u32)>,
}

impl Network {
    pub fn new(text: &str) -> Self {
        let parsed = text.split_once('/').and_then(|(ip, len)| Some((ip.parse().ok()?, len.parse().ok()?)));
        Self { text: text.into(), parsed }
    }
    pub fn contains(&self, addr: &EntityAddr) -> bool {
        match (self.parsed, addr.ip) {
            (Some((IpAddr::V4(net), len)), Some(IpAddr::V4(ip))) => {
                let mask = u32::MAX.checked_shl(32 - len.min(32)).unwrap_or(0);
                u32::from(net) & mask == u32::from(ip) & mask
            }
            (Some((IpAddr::V6(net), len)), Some(IpAddr::V6(ip))) => {
                let mask = u128::MAX.checked_shl(128 - len.min(128)).unwrap_or(0);
                u128::from(net) & mask == u128::from(ip) & mask
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::AddrType;

    #[test]
    fn prefixes() {
        let addr = |s| EntityAddr::parse(s, AddrType::MSGR2).unwrap();
        assert!(Network::new("10.1.0.0/16").contains(&addr("10.1.2.3:0/1")));
        assert!(!Network::new("10.1.0.0/16").contains(&addr("10.2.2.3:0/1")));
        assert!(Network::new("0.0.0.0/0").contains(&addr("10.2.2.3:0/1")));
        assert!(Network::new("fd00::/8").contains(&addr("[fd01::1]:0/1")));
        assert!(!Network::new("0.0.0.0/0").contains(&addr("[fd01::1]:0/1")));
        assert!(!Network::new("10.2.2.3").contains(&addr("10.2.2.3:0/1")));
    }
}
