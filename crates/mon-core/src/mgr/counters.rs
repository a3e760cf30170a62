//! Performance counters of daemons as they report them (MMgrReport): what each counter is, its value, and what changed since the report before.

use base::Stamp;
use denc::{Decoder, DencError};
use messages::MMgrReport;
use messages::mgr::perf_counter;
use std::collections::BTreeMap;

/// Counters of one daemon. A stock OSD declares some hundreds.
const COUNTERS_MAX: usize = 4096;

/// Bytes of a counter's name and what it counts.
const TEXT_MAX: usize = 4096;

/// The prefix of our OSDs' histograms: `osd.hist_op_read_latency.<upper bound in ns>` counts operations up to that bound and above the one before.
pub const HISTOGRAM: &str = "hist_";

/// One counter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counter {
    pub description: String,
    /// [`perf_counter`] bits.
    pub kind: u8,
    pub priority: u8,
    /// The value; the sum for a long-running average.
    pub value: u64,
    /// Of a long-running average.
    pub count: u64,
}

/// What a daemon does per second, as its last two reports differ.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DaemonRates {
    pub read_ops: f64,
    pub write_ops: f64,
    pub read_bytes: f64,
    pub write_bytes: f64,
    /// Means of the operations between the two reports; 0 if there was none.
    pub read_us: f64,
    pub write_us: f64,
}

/// All counters of a daemon, by path.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    all: BTreeMap<String, Counter>,
    pub rates: DaemonRates,
    last: Option<(Stamp, Totals)>,
}

/// What rates are made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    pub read: Counted,
    pub write: Counted,
}

/// Operations of one kind so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub ops: u64,
    pub bytes: u64,
    pub latency_ns: u64,
}

impl Counted {
    /// What came since `before`; a daemon that was restarted counts from 0.
    pub fn since(self, before: Self) -> Self {
        let d = |new: u64, old: u64| if new >= old { new - old } else { new };
        Self { ops: d(self.ops, before.ops), bytes: d(self.bytes, before.bytes), latency_ns: d(self.latency_ns, before.latency_ns) }
    }
    pub fn add(&mut self, o: Self) {
        self.ops += o.ops;
        self.bytes += o.bytes;
        self.latency_ns += o.latency_ns;
    }
    /// The mean latency in microseconds.
    pub fn mean_us(self) -> f64 {
        if self.ops == 0 { 0.0 } else { self.latency_ns as f64 / self.ops as f64 / 1000.0 }
    }
}

impl Counters {
    /// Takes a report: new counters, counters that are taken back, and the values of all.
    pub fn take(&mut self, m: &MMgrReport, now: Stamp) -> Result<(), DencError> {
        for path in &m.undeclare {
            self.all.remove(path);
        }
        for t in &m.declare {
            if t.path.len() + t.description.len() > TEXT_MAX {
                return Err(Decoder::new(m.packed.clone()).invalid("a counter's name and description are short"));
            }
            let counter = Counter { description: t.description.clone(), kind: t.kind, priority: t.priority, ..Counter::default() };
            self.all.insert(t.path.clone(), counter);
        }
        let mut d = Decoder::new(m.packed.clone());
        if self.all.len() > COUNTERS_MAX {
            return Err(d.invalid("no more counters of one daemon than it can need"));
        }
        if m.packed.is_empty() {
            return Ok(());
        }
        d.frame("the values of counters", 1, |d, _| {
            for counter in self.all.values_mut() {
                counter.value = d.u64()?;
                if counter.kind & perf_counter::LONGRUNAVG != 0 {
                    counter.count = d.u64()?;
                    d.u64()?;
                }
            }
            Ok(())
        })?;
        let totals = self.totals();
        if let Some((at, before)) = self.last {
            let span_s = now.since(at).as_secs_f64();
            if span_s > 0.0 {
                let (read, write) = (totals.read.since(before.read), totals.write.since(before.write));
                self.rates = DaemonRates {
                    read_ops: read.ops as f64 / span_s,
                    write_ops: write.ops as f64 / span_s,
                    read_bytes: read.bytes as f64 / span_s,
                    write_bytes: write.bytes as f64 / span_s,
                    read_us: read.mean_us(),
                    write_us: write.mean_us(),
                };
            }
        }
        self.last = Some((now, totals));
        Ok(())
    }
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Counter)> {
        self.all.iter().map(|(path, counter)| (path.as_str(), counter))
    }
    pub fn get(&self, path: &str) -> Option<&Counter> {
        self.all.get(path)
    }
    /// What an OSD did since its start; a read-modify-write counts as a write.
    pub fn totals(&self) -> Totals {
        let value = |path: &str| self.get(path).map_or(0, |c| c.value);
        let kind = |ops: &str, bytes: &str, latency: &str| Counted { ops: value(ops), bytes: value(bytes), latency_ns: value(latency) };
        let mut write = kind("osd.op_w", "osd.op_w_in_bytes", "osd.op_w_latency");
        write.add(kind("osd.op_rw", "osd.op_rw_in_bytes", "osd.op_rw_latency"));
        Totals { read: kind("osd.op_r", "osd.op_r_out_bytes", "osd.op_r_latency"), write }
    }
    /// The histogram of that name: how many lie at or below each bound in nanoseconds and above the one before; the last bound is `u64::MAX`.
    pub fn histograms(&self) -> BTreeMap<&str, Vec<(u64, u64)>> {
        let mut out: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for (path, counter) in &self.all {
            let Some((name, bound)) = path.strip_prefix("osd.").and_then(|p| p.strip_prefix(HISTOGRAM)).and_then(|p| p.rsplit_once('.'))
            else {
                continue;
            };
            let bound = if bound == "inf" { Some(u64::MAX) } else { bound.parse().ok() };
            out.entry(name).or_default().extend(bound.map(|b| (b, counter.value)));
        }
        out.values_mut().for_each(|bins| bins.sort_unstable());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use denc::Encoder;
    use messages::PerfCounterType;

    fn report(declare: &[(&str, u8)], undeclare: &[&str], values: &[u64]) -> MMgrReport {
        let mut e = Encoder::new(types::features::SUPPORTED);
        e.frame(1, 1, |e| values.iter().for_each(|v| e.u64(*v)));
        let declare =
            declare.iter().map(|(path, kind)| PerfCounterType { path: (*path).into(), kind: *kind, ..PerfCounterType::default() });
        MMgrReport {
            declare: declare.collect(),
            undeclare: undeclare.iter().map(ToString::to_string).collect(),
            packed: e.finish(),
            ..MMgrReport::default()
        }
    }

    #[test]
    fn values_follow_the_declared_paths_and_rates_the_reports() {
        let (counter, avg) = (perf_counter::U64 | perf_counter::COUNTER, perf_counter::TIME | perf_counter::LONGRUNAVG);
        let mut c = Counters::default();
        let at = |s: u64| Stamp(s * 1_000_000_000);
        c.take(&report(&[("osd.op_r", counter), ("osd.op_r_latency", avg), ("osd.a", counter)], &[], &[7, 10, 5000, 10, 10]), at(1))
            .unwrap();
        assert_eq!((c.get("osd.a").unwrap().value, c.get("osd.op_r").unwrap().value), (7, 10));
        assert_eq!((c.get("osd.op_r_latency").unwrap().value, c.get("osd.op_r_latency").unwrap().count), (5000, 10));
        // One is taken back: the others move up.
        c.take(&report(&[], &["osd.a"], &[30, 45_000, 30, 30]), at(3)).unwrap();
        assert_eq!((c.rates.read_ops, c.rates.read_us), (10.0, 2.0));
        // A daemon that was restarted counts from 0.
        c.take(&report(&[], &[], &[4, 8000, 4, 4]), at(5)).unwrap();
        assert_eq!((c.rates.read_ops, c.rates.read_us), (2.0, 2.0));
        // Values that end early are the sender's error.
        assert!(c.take(&report(&[], &[], &[4]), at(6)).is_err());
    }

    #[test]
    fn histograms_are_put_together_in_the_order_of_their_bounds() {
        let kind = perf_counter::U64 | perf_counter::COUNTER;
        let paths = [("osd.hist_l.1000", kind), ("osd.hist_l.64", kind), ("osd.hist_l.inf", kind), ("osd.op", kind)];
        let mut c = Counters::default();
        c.take(&report(&paths, &[], &[3, 1, 0, 9]), Stamp(1)).unwrap();
        assert_eq!(c.histograms()["l"], [(64, 1), (1000, 3), (u64::MAX, 0)]);
    }
}
