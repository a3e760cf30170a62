//! SNIA's rule for a steady state (Performance Test Specification: five rounds; here five windows of one load): the highest and the lowest
//! window differ by at most 20 % of their mean, and the best straight line through them rises or falls by at most 10 % of it.

use serde::{Deserialize, Serialize};

pub const WINDOWS: usize = 5;
const RANGE_MAX: f64 = 0.20;
const SLOPE_MAX: f64 = 0.10;

/// What the rule says of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    pub steady: bool,
    /// Highest less lowest window, as a share of the mean.
    pub range: f64,
    /// Rise of the line from first to last window, as a share of the mean.
    pub slope: f64,
}

impl Steady {
    /// Of five windows. None if their mean is not above 0.
    pub fn of(windows: &[f64; WINDOWS]) -> Option<Self> {
        let mean = windows.iter().sum::<f64>() / WINDOWS as f64;
        if mean.is_nan() || mean <= 0.0 {
            return None;
        }
        let (low, high) = windows.iter().fold((f64::MAX, f64::MIN), |(low, high), w| (low.min(*w), high.max(*w)));
        let middle = (WINDOWS - 1) as f64 / 2.0;
        let (mut covariance, mut variance) = (0.0, 0.0);
        for (i, window) in windows.iter().enumerate() {
            covariance += (i as f64 - middle) * (window - mean);
            variance += (i as f64 - middle).powi(2);
        }
        let slope = covariance / variance * (WINDOWS - 1) as f64 / mean;
        let range = (high - low) / mean;
        Some(Self { steady: range <= RANGE_MAX && slope.abs() <= SLOPE_MAX, range, slope })
    }
    /// Of a curve of operations per slot of time, cut into five windows of the same length; a slot that lies in two of them counts in each by
    /// its part. The first slot, in which the load begins, is left out. None if the others are fewer than the windows.
    pub fn of_curve(slots: &[u64]) -> Option<Self> {
        let slots = slots.get(1..).filter(|s| s.len() >= WINDOWS)?;
        let each = slots.len() as f64 / WINDOWS as f64;
        let windows = std::array::from_fn(|i| {
            let (from, to) = (i as f64 * each, (i + 1) as f64 * each);
            let part = |(at, ops): (usize, &u64)| *ops as f64 * (to.min(at as f64 + 1.0) - from.max(at as f64)).max(0.0);
            slots.iter().enumerate().map(part).sum::<f64>() / each
        });
        Self::of(&windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_is_steady_and_a_fall_a_spread_or_too_little_is_not() {
        assert!(Steady::of(&[100.0, 105.0, 97.0, 101.0, 99.0]).unwrap().steady);
        let falling = Steady::of(&[107.0, 103.5, 100.0, 96.5, 93.0]).unwrap();
        assert!(!falling.steady && falling.range <= RANGE_MAX && (falling.slope + 0.14).abs() < 1e-9, "{falling:?}");
        let spread = Steady::of(&[100.0, 120.0, 95.0, 120.0, 100.0]).unwrap();
        assert!(!spread.steady && spread.slope.abs() < 1e-9);
        assert_eq!(Steady::of(&[0.0; 5]), None);
        assert_eq!(Steady::of_curve(&[1, 2, 3, 4, 5]), None);
        assert_eq!(Steady::of_curve(&[]), None);
    }

    #[test]
    fn all_of_a_curve_counts_but_the_slot_in_which_it_begins() {
        assert!(Steady::of_curve(&[10, 100, 100, 100, 100, 100]).unwrap().steady);
        // Eight slots in five windows of 1.6: of 100 operations each but the last, of 100 + 60 / 1.6.
        let curve = Steady::of_curve(&[0, 100, 100, 100, 100, 100, 100, 100, 160]).unwrap();
        assert!((curve.range - 37.5 / 107.5).abs() < 1e-9, "{curve:?}");
        // What goes up and down from slot to slot is steady over more of them.
        let wave: Vec<u64> = (0..20).map(|i| 100 + 15 * (i % 2)).collect();
        assert!(Steady::of_curve(&wave).unwrap().steady);
        let falling: Vec<u64> = (0..9).map(|i| 120 - 5 * i).collect();
        assert!(!Steady::of_curve(&falling).unwrap().steady);
    }
}
