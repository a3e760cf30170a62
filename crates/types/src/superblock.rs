//! `OSDSuperblock`: which OSD it is and which maps it has.

use crate::compat_set::{CompatSet, FeatureSet};
use crate::{Epoch, OsdId, UTime, Uuid};
use denc::{Decoder, Denc, DencError, Encoder};
use std::collections::BTreeMap;

impl CompatSet {
    /// What an OSD of 18.2 writes when it is made.
    ///
    /// Source: Ceph 18.2 `src/osd/OSD.cc` (`get_osd_initial_compat_set`), `src/osd/osd_types.h` (`CEPH_OSD_FEATURE_INCOMPAT_*`).
    pub fn osd_initial() -> Self {
        Self {
            incompat: FeatureSet::from([
                (1, "initial feature set(~v.18)"),
                (2, "pginfo object"),
                (3, "object locator"),
                (4, "last_epoch_clean"),
                (5, "categories"),
                (6, "hobjectpool"),
                (7, "biginfo"),
                (8, "leveldbinfo"),
                (9, "leveldblog"),
                (10, "snapmapper"),
                (12, "transaction hints"),
                (13, "pg meta object"),
                (14, "explicit missing set"),
                (15, "fastinfo pg attr"),
                (16, "deletes in missing set"),
                (17, "new snapmapper key structure"),
            ]),
            ..Self::default()
        }
    }
}

/// `OSDSuperblock`.
#[derive(Debug, Clone, PartialEq)]
pub struct OsdSuperblock {
    pub cluster_fsid: Uuid,
    pub osd_fsid: Uuid,
    pub whoami: OsdId,
    pub current_epoch: Epoch,
    /// Maps kept, both inclusive.
    pub oldest_map: Epoch,
    pub newest_map: Epoch,
    pub weight: f64,
    pub compat_features: CompatSet,
    /// Last epoch at which it started.
    pub mounted: Epoch,
    pub clean_thru: Epoch,
    pub purged_snaps_last: Epoch,
    pub last_purged_snaps_scrub: UTime,
    pub cluster_osdmap_trim_lower_bound: Epoch,
}

impl Default for OsdSuperblock {
    fn default() -> Self {
        Self {
            cluster_fsid: Uuid::default(),
            osd_fsid: Uuid::default(),
            whoami: -1,
            current_epoch: 0,
            oldest_map: 0,
            newest_map: 0,
            weight: 0.0,
            compat_features: CompatSet::default(),
            mounted: 0,
            clean_thru: 0,
            purged_snaps_last: 0,
            last_purged_snaps_scrub: UTime::ZERO,
            cluster_osdmap_trim_lower_bound: 0,
        }
    }
}

impl Denc for OsdSuperblock {
    fn encode(&self, e: &mut Encoder) {
        e.frame(10, 5, |e| {
            self.cluster_fsid.encode(e);
            e.i32(self.whoami);
            e.u32(self.current_epoch);
            e.u32(self.oldest_map);
            e.u32(self.newest_map);
            e.f64(self.weight);
            self.compat_features.encode(e);
            e.u32(self.clean_thru);
            e.u32(self.mounted);
            self.osd_fsid.encode(e);
            e.u32(0); // last_epoch_marked_full, of old
            e.u32(0); // the same by pool
            e.u32(self.purged_snaps_last);
            self.last_purged_snaps_scrub.encode(e);
            e.u32(self.cluster_osdmap_trim_lower_bound);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("OSDSuperblock", 10, |d, v| {
            let mut s = Self { cluster_fsid: d.get()?, whoami: d.i32()?, current_epoch: d.u32()?, ..Self::default() };
            (s.oldest_map, s.newest_map, s.weight, s.compat_features) = (d.u32()?, d.u32()?, d.f64()?, d.get()?);
            (s.clean_thru, s.mounted, s.osd_fsid) = (d.u32()?, d.u32()?, d.get()?);
            if v >= 6 {
                d.skip(4)?;
            }
            if v >= 7 {
                d.ignore::<BTreeMap<i64, Epoch>>()?;
            }
            if v >= 9 {
                (s.purged_snaps_last, s.last_purged_snaps_scrub) = (d.u32()?, d.get()?);
            }
            if v >= 10 {
                s.cluster_osdmap_trim_lower_bound = d.u32()?;
            }
            Ok(s)
        })
    }
}
