//! Latencies as counts in buckets: mergeable over rounds and tools, and honest about which percentiles they can tell.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The longest latency that is told apart, ns.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// How many samples must lie beyond a percentile for it to be told.
pub const BEYOND: f64 = 10.0;

/// Latencies in nanoseconds, three digits of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are constants that fit"))
    }
}

impl Latency {
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }
    pub fn record_n(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns.clamp(1, LONGEST_NS), count);
    }
    /// Of pairs of a latency and how many operations had it.
    pub fn of(bins: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all = Self::default();
        bins.into_iter().for_each(|(ns, count)| all.record_n(ns, count));
        all
    }
    /// Of fio's json+ `bins`: an object of nanoseconds and counts, each bucket by the middle of its bounds. None if a key is no number.
    pub fn of_fio(bins: &serde_json::Map<String, serde_json::Value>) -> Option<Self> {
        bins.iter().map(|(ns, count)| Some((ns.parse().ok()?, count.as_u64()?))).collect::<Option<Vec<_>>>().map(Self::of)
    }
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }
    /// Buckets that hold something, by their highest value.
    pub fn bins(&self) -> Vec<(u64, u64)> {
        self.0.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value())).collect()
    }
    pub fn count(&self) -> u64 {
        self.0.len()
    }
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.0.max())
    }
    /// The value that `percent` of all operations don't exceed; none if fewer than ten lie beyond it.
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let beyond = (1.0 - percent / 100.0) * self.count() as f64;
        // A hair below: 99.9 % of 10,000 leaves 10 but for rounding.
        (beyond >= BEYOND - 1e-6).then(|| self.0.value_at_quantile(percent / 100.0))
    }
    /// The percentiles of [`LADDER`] that can be told, with their values.
    pub fn ladder(&self) -> BTreeMap<String, u64> {
        LADDER.iter().filter_map(|p| Some((format!("p{p}"), self.percentile_ns(*p)?))).collect()
    }
    /// True if both lie in one bucket of this histogram.
    pub fn same_bucket(&self, a: u64, b: u64) -> bool {
        self.0.equivalent(a, b)
    }
}

/// The percentiles that are looked for.
pub const LADDER: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.bins().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<(u64, u64)>::deserialize(deserializer).map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let h = Latency::of((1..=10_000).map(|n| (n * 1000, 1)));
        assert!(h.percentile_ns(99.9).is_some());
        assert_eq!(h.percentile_ns(99.99), None);
        let h = Latency::of((1..=99).map(|n| (n * 1000, 1)));
        assert_eq!(h.percentile_ns(90.0), None);
        assert!(h.same_bucket(h.percentile_ns(50.0).unwrap(), 50_000));
    }

    #[test]
    fn parts_merged_are_the_whole_also_by_way_of_json() {
        let mut rng = base::Rng::new(3);
        let values: Vec<u64> = (0..20_000u64).map(|n| 1 + rng.below(1 << (10 + n % 24))).collect();
        let whole = Latency::of(values.iter().map(|v| (*v, 1)));
        let mut parts = Latency::default();
        for part in values.chunks(700) {
            let text = serde_json::to_string(&Latency::of(part.iter().map(|v| (*v, 1)))).unwrap();
            parts.merge(&serde_json::from_str(&text).unwrap());
        }
        assert_eq!(parts.bins(), whole.bins());
        assert_eq!(parts.percentile_ns(99.9), whole.percentile_ns(99.9));
    }

    #[test]
    fn fios_bins_are_read() {
        let bins: serde_json::Value = serde_json::from_str(r#"{"1000": 90, "2000": 9, "900000": 1}"#).unwrap();
        let h = Latency::of_fio(bins.as_object().unwrap()).unwrap();
        assert_eq!(h.count(), 100);
        assert!(h.same_bucket(h.max_ns().unwrap(), 900_000));
        assert!(h.same_bucket(h.percentile_ns(90.0).unwrap(), 1000));
        let bad: serde_json::Value = serde_json::from_str(r#"{"x": 90}"#).unwrap();
        assert_eq!(Latency::of_fio(bad.as_object().unwrap()), None);
    }
}
