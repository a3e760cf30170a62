//! A ratio of two targets: the median of their rounds' ratios, with a 95 % interval by bootstrap from a seed.

use base::Rng;
use serde::{Deserialize, Serialize};

/// How often the rounds are drawn again.
const DRAWS: usize = 2000;
/// The share of the draws within the interval.
const LEVEL: f64 = 0.95;

/// The middle value; of an even count the mean of the middle two. None of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// A median with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// How many rounds it is of.
    pub rounds: usize,
}

impl Ratio {
    /// Of pairs of the same round, `a / b`; pairs with something that is no positive number don't count. None if no pair is left.
    pub fn of(pairs: &[(f64, f64)], seed: u64) -> Option<Self> {
        let usable = |(a, b): &&(f64, f64)| a.is_finite() && b.is_finite() && *a > 0.0 && *b > 0.0;
        // In logarithms, so that a / b and b / a say the same.
        let logs: Vec<f64> = pairs.iter().filter(usable).map(|(a, b)| (a / b).ln()).collect();
        Self::of_logs(&logs, seed).map(|r| Self { median: r.median.exp(), low: r.low.exp(), high: r.high.exp(), ..r })
    }
    /// Of single values: their median with its interval.
    pub fn of_values(values: &[f64], seed: u64) -> Option<Self> {
        let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        Self::of_logs(&finite, seed)
    }
    fn of_logs(values: &[f64], seed: u64) -> Option<Self> {
        let middle = median(values)?;
        let mut rng = Rng::new(seed);
        let mut drawn = vec![0.0; values.len()];
        let mut medians: Vec<f64> = (0..DRAWS)
            .map(|_| {
                drawn.iter_mut().for_each(|v| *v = values[rng.below(values.len() as u64) as usize]);
                median(&drawn).expect("as many as there are values")
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let tail = ((1.0 - LEVEL) / 2.0 * DRAWS as f64) as usize;
        Some(Self { median: middle, low: medians[tail], high: medians[DRAWS - 1 - tail], rounds: values.len() })
    }
    /// How far the interval reaches from 1, as a share: 0.05 for 0.96 to 1.05.
    pub fn spread(&self) -> f64 {
        [self.low, self.high, 1.0 / self.low, 1.0 / self.high].into_iter().fold(1.0, f64::max) - 1.0
    }
    /// As many times as much.
    pub fn times(&self, factor: f64) -> Self {
        Self { median: self.median * factor, low: self.low * factor, high: self.high * factor, rounds: self.rounds }
    }
    /// The ratio the other way round.
    pub fn inverse(&self) -> Self {
        Self { median: 1.0 / self.median, low: 1.0 / self.high, high: 1.0 / self.low, rounds: self.rounds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn an_interval_holds_its_median_and_comes_from_the_seed() {
        let pairs = [(1.1, 1.0), (2.3, 2.0), (0.98, 1.0), (5.2, 5.0), (1.2, 1.0)];
        let ratio = Ratio::of(&pairs, 7).unwrap();
        assert!(ratio.low <= ratio.median && ratio.median <= ratio.high);
        assert_eq!(Ratio::of(&pairs, 7), Some(ratio));
        // With five rounds, 95 % of the draws leave out neither the lowest nor the highest.
        assert!((ratio.low - 0.98).abs() < 1e-9 && (ratio.high - 1.2).abs() < 1e-9, "{ratio:?}");
        let back = Ratio::of(&pairs.map(|(a, b)| (b, a)), 7).unwrap();
        assert!((back.median * ratio.median - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_interval_covers_what_it_says() {
        // 400 samples of 15 rounds around 1: about 95 % of the intervals hold it; fewer than 88 % would be a wrong interval.
        let mut rng = Rng::new(11);
        let mut noise = || (0..12).map(|_| rng.below(1 << 32) as f64 / (1u64 << 32) as f64).sum::<f64>() - 6.0;
        let holds = (0..400)
            .filter(|seed| {
                let pairs: Vec<(f64, f64)> = (0..15).map(|_| ((noise() * 0.1).exp(), 1.0)).collect();
                let ratio = Ratio::of(&pairs, *seed).unwrap();
                ratio.low <= 1.0 && 1.0 <= ratio.high
            })
            .count();
        assert!((352..=398).contains(&holds), "{holds} of 400");
    }

    #[test]
    fn what_is_no_number_does_not_count() {
        assert_eq!(Ratio::of(&[(1.0, 0.0), (f64::NAN, 1.0)], 1), None);
        assert_eq!(Ratio::of(&[(1.0, 0.0), (2.0, 1.0)], 1).unwrap().rounds, 1);
    }
}
