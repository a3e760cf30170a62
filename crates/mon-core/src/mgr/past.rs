//! The last hour of what the cluster did: a point every ten seconds, for curves.
//!
//! Made of what OSDs reported; nothing is persisted.

use super::Manager;
use super::counters::{Counted, Totals};
use base::Stamp;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::UTime;

/// Seconds between two points.
pub const STEP_S: u32 = 10;
const STEP: Duration = Duration::from_secs(STEP_S as u64);
/// An hour of them.
const POINTS: usize = 360;

/// What happened in one step, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// When the step ended.
    pub at: UTime,
    pub read_ops: f64,
    pub write_ops: f64,
    pub read_bytes: f64,
    pub write_bytes: f64,
    /// Means, microseconds; 0 where nothing was done.
    pub read_us: f64,
    pub write_us: f64,
    /// Objects per second that recovery made whole.
    pub recovered: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Past {
    pub points: VecDeque<Point>,
    last: Option<(Stamp, BTreeMap<String, Totals>, i64)>,
}

impl Manager {
    /// To be called every second or so.
    pub(crate) fn remember(&mut self, now: Stamp, wall: UTime) {
        if self.past.last.as_ref().is_some_and(|(at, ..)| now.since(*at) < STEP) {
            return;
        }
        let totals: BTreeMap<String, Totals> = self.daemons.iter().map(|(name, d)| (name.clone(), d.perf.totals())).collect();
        let recovered = self.pgs.recovered();
        if let Some((at, before, recovered_before)) = self.past.last.replace((now, totals.clone(), recovered)) {
            let (mut read, mut write) = (Counted::default(), Counted::default());
            for (name, now) in &totals {
                // One that is new may have done its work long ago.
                let Some(before) = before.get(name) else { continue };
                read.add(now.read.since(before.read));
                write.add(now.write.since(before.write));
            }
            let span_s = now.since(at).as_secs_f64();
            self.past.points.push_back(Point {
                at: wall,
                read_ops: read.ops as f64 / span_s,
                write_ops: write.ops as f64 / span_s,
                read_bytes: read.bytes as f64 / span_s,
                write_bytes: write.bytes as f64 / span_s,
                read_us: read.mean_us(),
                write_us: write.mean_us(),
                recovered: (recovered - recovered_before).max(0) as f64 / span_s,
            });
            while self.past.points.len() > POINTS {
                self.past.points.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let mut m = Manager::default();
        for s in 0..4000u64 {
            m.remember(Stamp(s * 1_000_000_000), UTime { sec: s as u32, nsec: 0 });
        }
        assert_eq!((m.past.points.len(), m.past.points.back().map(|p| p.at.sec)), (360, Some(3990)));
        assert_eq!(m.past.points.front().map(|p| p.at.sec), Some(400));
    }
}
