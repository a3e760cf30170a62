//! Names of Ceph's releases by number.
//!
//! Source of the facts: Ceph 18.2 `src/common/ceph_releases.h`; later ones by what stock monitors of those releases write.

use std::fmt;

/// `ceph_release_t`: 0 is unknown; an Incremental that changes none says [`Release::UNCHANGED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Release(pub u8);
// One byte, no frame.
impl denc::Denc for Release {
    fn encode(&self, e: &mut denc::Encoder) {
        e.u8(self.0);
    }
    fn decode(d: &mut denc::Decoder) -> Result<Self, denc::DencError> {
        Ok(Self(d.u8()?))
    }
}

const NAMES: [&str; 21] = [
    "unknown",
    "argonaut",
    "bobtail",
    "cuttlefish",
    "dumpling",
    "emperor",
    "firefly",
    "giant",
    "hammer",
    "infernalis",
    "jewel",
    "kraken",
    "luminous",
    "mimic",
    "nautilus",
    "octopus",
    "pacific",
    "quincy",
    "reef",
    "squid",
    "tentacle",
];

impl Release {
    pub const UNKNOWN: Self = Self(0);
    pub const JEWEL: Self = Self(10);
    pub const KRAKEN: Self = Self(11);
    pub const LUMINOUS: Self = Self(12);
    pub const MIMIC: Self = Self(13);
    pub const NAUTILUS: Self = Self(14);
    pub const OCTOPUS: Self = Self(15);
    pub const PACIFIC: Self = Self(16);
    pub const QUINCY: Self = Self(17);
    pub const REEF: Self = Self(18);
    pub const SQUID: Self = Self(19);
    pub const TENTACLE: Self = Self(20);
    /// In an Incremental: as it was.
    pub const UNCHANGED: Self = Self(0xff);

    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }
    pub fn parse(s: &str) -> Option<Self> {
        NAMES.iter().skip(1).position(|n| *n == s).map(|i| Self(i as u8 + 1))
    }
}
impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
