//! Maps that another OSD lacks: its ping says which map it has, and it is sent the ones after that.
//!
//! The monitors of 16.2 to 20.2 send a new map to one OSD, drawn by chance, and count on OSDs to pass it on. An OSD that asks the monitors for maps only
//! when it hears of newer ones would otherwise never see a map that came to us: the groups that it must give away would stay where they are.

use super::Control;
use crate::event::Effect;
use crate::shared::EventCx;
use base::Stamp;
use std::collections::BTreeMap;
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
}

impl Control {
    /// Another OSD says which map it has. One that has none yet asks the monitors.
    pub(super) fn share_maps(&mut self, osd: OsdId, has: Epoch, cx: &mut EventCx<'_>) {
        let (newest, now) = (self.map.epoch, cx.clock.mono);
        if has == 0 || has >= newest || !self.map.is_up(osd) || !self.boot.is_active() {
            return;
        }
        let lost_after = self.heartbeat_interval() * LOST_AFTER;
        let sent = self.shared_maps.sent.get(&osd).filter(|sent| now.since(sent.at) < lost_after);
        let have = sent.map_or(has, |sent| sent.upto.max(has));
        if have >= newest {
            return;
        }
        let Some((msg, upto)) = self.maps.borrow().message_for_osd(self.cluster_fsid, have, newest) else { return };
        self.shared_maps.sent.insert(osd, Sent { upto, at: now });
        let addrs = self.map.cluster_addrs[osd as usize].clone();
        cx.out.push(Effect::SendOsd { osd, addrs, msg });
    }
}
