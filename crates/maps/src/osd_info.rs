//! What the map remembers of one OSD's past.
//!
//! Source of the encodings: Ceph 18.2 `src/osd/OSDMap.cc` (`osd_info_t`, `osd_xinfo_t`).

use denc::{Decoder, Denc, DencError, Encoder};
use types::{Epoch, UTime, features};

/// `osd_info_t`: epochs at which things happened; 0 is never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdInfo {
    /// The last interval that ended cleanly: first epoch, and one past the last.
    pub last_clean_begin: Epoch,
    pub last_clean_end: Epoch,
    /// Marked up.
    pub up_from: Epoch,
    /// Known to have been alive at.
    pub up_thru: Epoch,
    pub down_at: Epoch,
    /// Its data was declared lost.
    pub lost_at: Epoch,
}
impl Denc for OsdInfo {
    fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        for epoch in [self.last_clean_begin, self.last_clean_end, self.up_from, self.up_thru, self.down_at, self.lost_at] {
            e.u32(epoch);
        }
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.skip(1)?;
        Ok(Self {
            last_clean_begin: d.u32()?,
            last_clean_end: d.u32()?,
            up_from: d.u32()?,
            up_thru: d.u32()?,
            down_at: d.u32()?,
            lost_at: d.u32()?,
        })
    }
}

/// `osd_xinfo_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OsdXInfo {
    pub down_stamp: UTime,
    /// How likely it is slow rather than dead, in 2^-32; see [`OsdXInfo::laggy_probability`].
    pub laggy_probability_scaled: u32,
    /// Mean time that it was marked down while alive, in seconds.
    pub laggy_interval_s: u32,
    /// Feature bits of the daemon.
    pub features: u64,
    /// Its weight before it was marked out by the monitor.
    pub old_weight: u32,
    pub last_purged_snaps_scrub: UTime,
    /// Known dead as of this epoch.
    pub dead_epoch: Epoch,
}
impl OsdXInfo {
    pub fn laggy_probability(&self) -> f32 {
        self.laggy_probability_scaled as f32 / u32::MAX as f32
    }
}
impl Denc for OsdXInfo {
    fn encode(&self, e: &mut Encoder) {
        let octopus = e.has(features::SERVER_OCTOPUS);
        e.frame(if octopus { 4 } else { 3 }, 1, |e| {
            e.put(&self.down_stamp);
            e.u32(self.laggy_probability_scaled);
            e.u32(self.laggy_interval_s);
            e.u64(self.features);
            e.u32(self.old_weight);
            if octopus {
                e.put(&self.last_purged_snaps_scrub);
                e.u32(self.dead_epoch);
            }
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("osd_xinfo_t", 4, |d, v| {
            let mut x = Self { down_stamp: d.get()?, laggy_probability_scaled: d.u32()?, laggy_interval_s: d.u32()?, ..Self::default() };
            if v >= 2 {
                x.features = d.u64()?;
            }
            if v >= 3 {
                x.old_weight = d.u32()?;
            }
            if v >= 4 {
                x.last_purged_snaps_scrub = d.get()?;
                x.dead_epoch = d.u32()?;
            }
            Ok(x)
        })
    }
}
