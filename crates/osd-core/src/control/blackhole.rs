//! Kinds of peers whose messages vanish, by the options of `ms_blackhole_osd` and its siblings. What is done to messages is `daemon::blackhole`'s.

use crate::config::Config;
use types::EntityKind;

const OPTIONS: [(&str, EntityKind); 5] = [
    ("ms_blackhole_client", EntityKind::CLIENT),
    ("ms_blackhole_mds", EntityKind::MDS),
    ("ms_blackhole_mgr", EntityKind::MGR),
    ("ms_blackhole_mon", EntityKind::MON),
    ("ms_blackhole_osd", EntityKind::OSD),
];

/// Kinds of peers, a bit each.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Swallowed(u8);

impl Swallowed {
    pub fn of(config: &Config) -> Self {
        let set = OPTIONS.iter().filter(|(name, _)| config.get(name) == Some("true"));
        Self(set.fold(0, |bits, (_, kind)| bits | kind.0))
    }
    #[inline]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
    pub fn has(self, kind: EntityKind) -> bool {
        self.0 & kind.0 != 0
    }
}
