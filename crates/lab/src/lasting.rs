//! How a load's cost moved while it ran: its last tenth beside its first, and its slowest second beside its mean.
//!
//! Holds the parts of a round by tenths, of the tool's own curve and of our samples. A load of a few seconds has none: its tenths are
//! too short to say anything. Absent: what the figures are called (`crate::metric`), and whether a round counts (`crate::run::judge`).

use crate::load::Told;
use serde::{Deserialize, Serialize};

/// A load shorter than this has no tenths, seconds.
const LEAST_S: f64 = 20.0;
const PARTS: usize = 10;

/// CPU that the servers had used at a moment of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    pub monotonic_ns: u64,
    pub server_cpu_ns: u64,
}

/// Server CPU of each tenth of a load, nanoseconds; empty where the load was short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenths(pub Vec<u64>);

impl Tenths {
    /// Of samples in the order of time, the first at the load's begin and the last at its end.
    pub fn of(points: &[Point]) -> Self {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return Self::default() };
        let whole_ns = last.monotonic_ns.saturating_sub(first.monotonic_ns);
        if (whole_ns as f64) < LEAST_S * 1e9 {
            return Self::default();
        }
        let at = |tenth: usize| cpu_at(points, first.monotonic_ns + (whole_ns as f64 * tenth as f64 / PARTS as f64) as u64);
        Self((0..PARTS).map(|tenth| at(tenth + 1).saturating_sub(at(tenth))).collect())
    }
}

/// The counter at that time, on the line between the samples around it.
fn cpu_at(points: &[Point], ns: u64) -> u64 {
    let after = points.partition_point(|p| p.monotonic_ns < ns).min(points.len() - 1);
    let (a, b) = (points[after.saturating_sub(1)], points[after]);
    let (gap, upto) = (b.monotonic_ns.saturating_sub(a.monotonic_ns), ns.saturating_sub(a.monotonic_ns));
    if gap == 0 {
        return b.server_cpu_ns;
    }
    a.server_cpu_ns + (b.server_cpu_ns.saturating_sub(a.server_cpu_ns) as f64 * (upto as f64 / gap as f64).min(1.0)) as u64
}

/// A load's course, out of the tool's curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Course {
    /// Operations a second in the first and in the last tenth.
    pub first_iops: f64,
    pub last_iops: f64,
    /// Operations in the slowest whole second, beside the mean.
    pub slowest_share: f64,
}

impl Course {
    /// None for a load that was short, or whose tool tells no curve.
    pub fn of(told: &Told) -> Option<Self> {
        let per_second = (1000 / told.slot_ms.max(1)) as usize;
        if told.slot_ms == 0 || per_second == 0 || told.seconds < LEAST_S {
            return None;
        }
        // The last slot may be cut: what is left of it is no whole second either.
        let seconds: Vec<u64> = told.slots.chunks_exact(per_second).map(|slots| slots.iter().sum()).collect();
        let each = seconds.len() / PARTS;
        if each == 0 {
            return None;
        }
        let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
        let slowest = seconds.iter().copied().min().unwrap_or(0) as f64;
        Some(Self {
            first_iops: mean(&seconds[..each]),
            last_iops: mean(&seconds[seconds.len() - each..]),
            slowest_share: slowest / mean(&seconds).max(f64::MIN_POSITIVE),
        })
    }
    /// How much of the first tenth's rate the last one kept.
    pub fn kept(&self) -> Option<f64> {
        (self.first_iops > 0.0).then(|| self.last_iops / self.first_iops)
    }
}

/// Server CPU of an operation in the last tenth, nanoseconds.
pub fn last_cpu_ns(told: &Told, tenths: &Tenths) -> Option<f64> {
    let (course, cpu) = (Course::of(told)?, *tenths.0.last()?);
    let ops = course.last_iops * told.seconds / PARTS as f64;
    (ops > 0.0 && cpu > 0).then(|| cpu as f64 / ops)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(slots: Vec<u64>, slot_ms: u64) -> Told {
        let seconds = (slots.len() as u64 * slot_ms) as f64 / 1e3;
        Told { seconds, slots, slot_ms, ops: 1, ..Told::default() }
    }

    #[test]
    fn a_load_that_slows_down_shows_it_in_its_last_tenth_and_a_stall_in_its_slowest_second() {
        // A hundred seconds of ten slots: 1,000 operations a second, 250 in the last ten; second 50 stands.
        let ops = |slot: usize| if slot / 10 == 50 { 0 } else { if slot >= 900 { 25 } else { 100 } };
        let course = Course::of(&told((0..1000).map(ops).collect(), 100)).unwrap();
        assert_eq!((course.first_iops, course.last_iops, course.slowest_share), (1000.0, 250.0, 0.0));
        assert_eq!(course.kept(), Some(0.25));
    }

    #[test]
    fn a_load_of_a_few_seconds_and_one_without_a_curve_tell_nothing() {
        assert_eq!(Course::of(&told(vec![5; 19], 1000)), None);
        assert_eq!(Course::of(&Told { seconds: 100.0, ..Told::default() }), None);
        assert!(Tenths::of(&[]).0.is_empty());
        let short = [Point { monotonic_ns: 0, server_cpu_ns: 0 }, Point { monotonic_ns: 1_000_000_000, server_cpu_ns: 9 }];
        assert!(Tenths::of(&short).0.is_empty());
    }

    #[test]
    fn cpu_of_a_tenth_is_read_off_the_line_between_samples() {
        // 100 s; the servers use 0.1 s a second until second 90, and 0.4 s from there on.
        let cpu = |s: u64| s.min(90) * 100_000_000 + s.saturating_sub(90) * 400_000_000;
        let point = |s: u64| Point { monotonic_ns: 7 + s * 1_000_000_000, server_cpu_ns: 3 + cpu(s) };
        let points: Vec<Point> = [0, 13, 45, 90, 97, 100].map(point).to_vec();
        let tenths = Tenths::of(&points);
        let seconds: Vec<f64> = tenths.0.iter().map(|ns| (*ns as f64 / 1e8).round() / 10.0).collect();
        assert_eq!(seconds, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 4.0]);
        // 250 operations a second in the last ten seconds: 4 s of CPU for 2,500 of them.
        let last = last_cpu_ns(&told((0..100).map(|s| if s >= 90 { 250 } else { 1000 }).collect(), 1000), &tenths).unwrap();
        assert!((last - 1_600_000.0).abs() < 1_000.0, "{last}");
    }
}
