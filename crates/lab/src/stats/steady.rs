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
    /// Of a curve of operations per slot of time, cut into five windows; what doesn't fill a slot in each is left out at the front. None if
    /// there are fewer slots than windows.
    pub fn of_curve(slots: &[u64]) -> Option<Self> {
        let each = slots.len() / WINDOWS;
        if each == 0 {
            return None;
        }
        let last = &slots[slots.len() - each * WINDOWS..];
        let mut windows = [0.0; WINDOWS];
        for (window, slots) in windows.iter_mut().zip(last.chunks(each)) {
            *window = slots.iter().sum::<u64>() as f64 / each as f64;
        }
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
        assert_eq!(Steady::of_curve(&[1, 2, 3, 4]), None);
    }

    #[test]
    fn the_end_of_a_curve_counts() {
        // A start-up of three slots that doesn't fill a slot in each window is not part of it.
        let slots: Vec<u64> = [0, 10, 50].into_iter().chain([100; 25]).collect();
        assert!(Steady::of_curve(&slots).unwrap().steady);
    }
}
