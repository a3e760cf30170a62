//! How far the monotonic clocks of other OSDs are ahead of ours, as pings tell.
//!
//! A message arrives after it was sent: what a clock showed then, less what ours shows now, is a lower bound of how far it is ahead. Negated, it is an
//! upper bound of how far ours is ahead of the other's, which pings tell the other: so each has both bounds. Each process counts from its own start, so a bound holds for one life of an OSD.

use base::Stamp;
use messages::SpanNs;
use std::collections::BTreeMap;
use types::{Epoch, OsdId};

/// Bounds for one life of an OSD, nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Ahead {
    up_from: Epoch,
    least: i64,
    most: Option<i64>,
}

/// What is known of others' clocks.
#[derive(Debug, Default)]
pub struct Clocks {
    of: BTreeMap<OsdId, Ahead>,
}

impl Clocks {
    /// A ping or an answer of an OSD: when it was sent by its clock.
    pub fn heard(&mut self, osd: OsdId, up_from: Epoch, sent: SpanNs, now: Stamp) {
        // Of one that is not up, or of an earlier life.
        if up_from == 0 || self.of.get(&osd).is_some_and(|known| known.up_from > up_from) {
            return;
        }
        let least = sent.0.saturating_sub_unsigned(now.0);
        let most = self.of.get(&osd).filter(|known| known.up_from == up_from).and_then(|known| known.most);
        self.of.insert(osd, Ahead { up_from, least, most });
    }
    /// An OSD that has just been heard says how far its clock is ahead of ours at most, by a ping of this life of ours.
    pub fn told(&mut self, osd: OsdId, up_from: Epoch, most: SpanNs) {
        if let Some(known) = self.of.get_mut(&osd).filter(|known| known.up_from == up_from) {
            known.most = Some(most.0);
        }
    }
    /// How many nanoseconds an OSD's clock is ahead of ours at least.
    pub fn least_ns(&self, osd: OsdId, up_from: Epoch) -> Option<i64> {
        self.of.get(&osd).filter(|known| known.up_from == up_from).map(|known| known.least)
    }
    /// How many nanoseconds it is ahead of ours at most.
    pub fn most_ns(&self, osd: OsdId, up_from: Epoch) -> Option<i64> {
        self.of.get(&osd).filter(|known| known.up_from == up_from).and_then(|known| known.most)
    }
    /// The most that ours is ahead of an OSD's: what it is told.
    pub fn ours_ahead(&self, osd: OsdId, up_from: Epoch) -> Option<SpanNs> {
        self.least_ns(osd, up_from).map(|least| SpanNs(least.saturating_neg()))
    }
    /// OSDs that are up no longer are forgotten.
    pub fn retain(&mut self, keep: impl Fn(OsdId) -> bool) {
        self.of.retain(|osd, _| keep(*osd));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_for_one_life() {
        let mut clocks = Clocks::default();
        // Its clock is 100 ahead; the ping took 30.
        clocks.heard(1, 5, SpanNs(1100), Stamp(1030));
        assert_eq!((clocks.least_ns(1, 5), clocks.ours_ahead(1, 5)), (Some(70), Some(SpanNs(-70))));
        assert_eq!(clocks.least_ns(1, 9), None, "another life has another clock");
        // It got our ping 20 later than that was sent.
        assert_eq!(clocks.most_ns(1, 5), None);
        clocks.told(1, 5, SpanNs(120));
        clocks.told(1, 9, SpanNs(7));
        assert_eq!((clocks.most_ns(1, 5), clocks.most_ns(1, 9)), (Some(120), None));
        clocks.heard(1, 5, SpanNs(1200), Stamp(1120));
        assert_eq!((clocks.least_ns(1, 5), clocks.most_ns(1, 5)), (Some(80), Some(120)));
        clocks.heard(1, 9, SpanNs(10), Stamp(2000));
        clocks.heard(1, 5, SpanNs(2100), Stamp(2010));
        assert_eq!((clocks.least_ns(1, 9), clocks.most_ns(1, 9)), (Some(-1990), None));
        clocks.heard(2, 0, SpanNs(10), Stamp(2000));
        assert_eq!(clocks.least_ns(2, 0), None);
    }
}
