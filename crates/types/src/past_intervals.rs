//! `PastIntervals`: which sets of OSDs may have written to a placement group since it was last clean.
//!
//! Holds the compact representation: ranges of epochs with their acting sets. Which epochs are an interval is computed elsewhere.

use crate::{Epoch, OsdId, PgShard};
use denc::{Decoder, Denc, DencError, Encoder, denc_struct};
use std::collections::BTreeSet;

/// In an acting set: no OSD.
const ITEM_NONE: OsdId = 0x7fff_ffff;

/// `compact_interval_t`: both epochs inclusive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompactInterval {
    pub first: Epoch,
    pub last: Epoch,
    pub acting: BTreeSet<PgShard>,
}
denc_struct!(CompactInterval, v 1, compat 1, { first, last, acting });

/// `pg_interval_t`: an interval as it ends, before it is compacted; also a message's noun.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgInterval {
    pub first: Epoch,
    pub last: Epoch,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub maybe_went_rw: bool,
    pub primary: OsdId,
    pub up_primary: OsdId,
}
denc_struct!(PgInterval, v 4, compat 2, { first, last, up, acting, maybe_went_rw, [since 3] primary, [since 4] up_primary });

/// `PastIntervals`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PastIntervals {
    pub first: Epoch,
    /// Inclusive.
    pub last: Epoch,
    pub all_participants: BTreeSet<PgShard>,
    /// Intervals that may have gone read-write, ascending.
    pub intervals: Vec<CompactInterval>,
}

impl PastIntervals {
    pub fn is_empty(&self) -> bool {
        self.first > self.last || (self.first == 0 && self.last == 0)
    }
    pub fn clear(&mut self) {
        *self = Self::default();
    }
    /// First epoch, and the one behind the last.
    pub fn bounds(&self) -> (Epoch, Epoch) {
        (self.first, self.last.saturating_add(1))
    }
    /// Appends an interval that ended. Earlier ones whose members are all in it are forgotten: it knows what they knew.
    pub fn add(&mut self, erasure: bool, interval: &PgInterval) {
        assert!(interval.last > self.last, "intervals are added in order");
        if self.first == 0 {
            self.first = interval.first;
        }
        self.last = interval.last;
        let shard = |i: usize| if erasure { i as i8 } else { crate::NO_SHARD };
        let members = interval.acting.iter().enumerate().filter(|(_, osd)| **osd != ITEM_NONE);
        let acting: BTreeSet<_> = members.map(|(i, osd)| PgShard::new(*osd, shard(i))).collect();
        self.all_participants.extend(&acting);
        if !interval.maybe_went_rw {
            return;
        }
        self.intervals.retain(|old| !acting.is_subset(&old.acting));
        self.intervals.push(CompactInterval { first: interval.first, last: interval.last, acting });
    }
    /// Intervals that may have gone read-write, newest first, back to the one that ends before `last_epoch_started`.
    pub fn may_be_rw_back_to(&self, last_epoch_started: Epoch) -> impl Iterator<Item = &CompactInterval> {
        self.intervals.iter().rev().take_while(move |i| i.last >= last_epoch_started)
    }
}

impl Denc for PastIntervals {
    fn encode(&self, e: &mut Encoder) {
        e.frame(1, 1, |e| {
            e.u8(2); // compact
            e.frame(1, 1, |e| {
                e.u32(self.first);
                e.u32(self.last);
                self.all_participants.encode(e);
                self.intervals.encode(e);
            });
        });
    }
    fn decode(d: &mut Decoder) -> Result<Self, DencError> {
        d.frame("PastIntervals", 1, |d, _| match d.u8()? {
            0 => Ok(Self::default()),
            2 => d.frame("pi_compact_rep", 1, |d, _| {
                Ok(Self { first: d.u32()?, last: d.u32()?, all_participants: d.get()?, intervals: d.get()? })
            }),
            _ => Err(d.invalid("past intervals are empty or compact")),
        })
    }
}
