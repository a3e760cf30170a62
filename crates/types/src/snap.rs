//! Snapshots: what a client says of them with a write (`SnapContext`) and what an object knows of its clones (`SnapSet`).

use crate::{CEPH_MAXSNAP, IntervalSet, SnapId};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeMap;

/// `SnapContext`: the newest snapshot's number and the existing ones, descending.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SnapContext {
    pub seq: SnapId,
    pub snaps: Vec<SnapId>,
}
denc_struct!(SnapContext, bare, { seq, snaps });

impl SnapContext {
    /// True if numbers descend strictly and none is above `seq`, which is a snapshot's number: what a server demands of a client. A clone
    /// is named by `seq`: the numbers above name heads and lists.
    pub fn is_valid(&self) -> bool {
        let highest = self.snaps.first();
        self.seq <= CEPH_MAXSNAP
            && highest.is_none_or(|s| *s <= self.seq)
            && self.snaps.windows(2).all(|w| w[0] > w[1])
            && self.snaps.last().is_none_or(|s| *s > 0)
    }
}

/// `SnapSet`: the attribute `snapset` of a head. Stored and compared between replicas byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapSet {
    pub seq: SnapId,
    /// Snapshots as clients of old wrote them: kept as they came, no longer looked at.
    pub snaps: Vec<SnapId>,
    /// Clones, ascending; a clone bears the number of the newest snapshot that it holds.
    pub clones: Vec<SnapId>,
    /// What each clone shares with the next newer one (or the head).
    pub clone_overlap: BTreeMap<SnapId, IntervalSet>,
    pub clone_size: BTreeMap<SnapId, u64>,
    /// The snapshots that each clone holds, descending.
    pub clone_snaps: BTreeMap<SnapId, Vec<SnapId>>,
}

impl Denc for SnapSet {
    fn encode(&self, e: &mut Encoder) {
        e.frame(3, 2, |e| {
            e.u64(self.seq);
            e.bool(true); // head_exists, of old
            self.snaps.encode(e);
            self.clones.encode(e);
            self.clone_overlap.encode(e);
            self.clone_size.encode(e);
            self.clone_snaps.encode(e);
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("SnapSet", 3, |d, v| {
            let seq = d.row::<9>()?.u64();
            if v >= 3 && d.remaining() == 20 {
                // Five counts, and no room for anything that could be counted.
                let mut counts = d.row::<20>()?;
                return if (0..5).all(|_| counts.u32() == 0) {
                    Ok(Self { seq, ..Self::default() })
                } else {
                    Err(d.invalid("a count of what is not there"))
                };
            }
            Ok(Self {
                seq,
                snaps: d.get()?,
                clones: d.get()?,
                clone_overlap: d.get()?,
                clone_size: d.get()?,
                clone_snaps: if v >= 3 { d.get()? } else { BTreeMap::new() },
            })
        })
    }
}

impl SnapSet {
    /// Bytes that clone `snap` takes beyond what it shares with its newer neighbour.
    pub fn clone_bytes(&self, snap: SnapId) -> u64 {
        let size = self.clone_size.get(&snap).copied().unwrap_or(0);
        let shared = self.clone_overlap.get(&snap).map_or(0, IntervalSet::size);
        size.saturating_sub(shared)
    }
}
