//! Maps that another OSD lacks: its ping says which map it has, and it is sent the ones after that.
//!
//! The monitors of 16.2 to 20.2 send a new map to one OSD, drawn by chance, and count on OSDs to pass it on. An OSD that asks the monitors for maps only
//! when it hears of newer ones would otherwise never see a map that came to us: the groups that it must give away would stay where they are.

use base::Stamp;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{Epoch, OsdId};

/// Heartbeat intervals after which a map that was sent counts as lost, if the peer's pings still don't show it.
const LOST_AFTER: u32 = 3;

/// What was sent to each OSD.
#[derive(Debug, Default)]
pub(super) struct SharedMaps {
    sent: BTreeMap<OsdId, Sent>,
}

#[derive(Debug)]
struct Sent {
    /// The newest map that the OSD has, or gets to by what is on its way.
    upto: Epoch,
    at: Stamp,
}

impl SharedMaps {
    pub fn retain(&mut self, is_kept: impl Fn(OsdId) -> bool) {
        self.sent.retain(|osd, _| is_kept(*osd));
    }
    /// The newest map that an OSD has, or gets to by what is on its way, if its ping says `has` and a heartbeat interval is as given.
    pub fn reaches(&self, osd: OsdId, has: Epoch, now: Stamp, interval: Duration) -> Epoch {
        let sent = self.sent.get(&osd).filter(|sent| now.since(sent.at) < interval * LOST_AFTER);
        sent.map_or(has, |sent| sent.upto.max(has))
    }
    /// Maps up to this one are on their way to it.
    pub fn sent(&mut self, osd: OsdId, upto: Epoch, now: Stamp) {
        self.sent.insert(osd, Sent { upto, at: now });
    }
}
