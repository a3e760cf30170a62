//! What claims are about: a metric of the rounds, what a MB/s costs, or what the trace says of the devices that a target has.

use crate::metric::Metric;
use crate::plan::Mode;
use crate::results::Run;
use crate::run::judge::State;
use crate::run::visit::Stat;
use crate::stats::Ratio;
use crate::stats::verdict::{BIG, ROUNDS_LEAST, ROUNDS_MIN};

/// Of the requests in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Marked synchronous: what gave them waits for them.
    Synchronous,
    /// Of the writes: over blocks that were written before in the same round.
    Overlapping,
    /// Reads.
    Reads,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    Round(Metric),
    /// What the target's hardware costs, by MB/s.
    PriceMbS,
    /// There is one trace of a cell: its shares have no interval, and what counts is the number of requests.
    Trace(Share),
}

/// How many requests a share must be of, to say something.
const REQUESTS_LEAST: usize = 100;

const NAMES: [(&str, Quantity); 4] = [
    ("price_mb_s", Quantity::PriceMbS),
    ("trace_synchronous", Quantity::Trace(Share::Synchronous)),
    ("trace_overlapping", Quantity::Trace(Share::Overlapping)),
    ("trace_reads", Quantity::Trace(Share::Reads)),
];

impl Quantity {
    pub fn parse(name: &str) -> Result<Self, String> {
        match NAMES.iter().find(|(n, _)| *n == name) {
            Some((_, quantity)) => Ok(*quantity),
            None => Metric::parse(name).map(Self::Round).map_err(|e| format!("{e}, {}", NAMES.map(|(n, _)| n).join(", "))),
        }
    }
    /// What figures are of.
    pub fn of(self) -> &'static str {
        if matches!(self, Self::Trace(_)) { "requests" } else { "rounds" }
    }
    /// By how much a figure must be beyond a bound, as a factor, to be called; none for too little to call anything.
    pub fn room(self, figure: &Ratio) -> Option<f64> {
        match self {
            Self::Trace(_) => (figure.rounds >= REQUESTS_LEAST).then_some(1.0),
            _ if figure.rounds < ROUNDS_LEAST => None,
            _ if figure.rounds < ROUNDS_MIN => Some(1.0 + BIG),
            _ => Some(1.0),
        }
    }
    /// Of a cell, or of a cell by another.
    pub fn figure(self, run: &Run, cell: usize, by: Option<usize>, device: Option<&str>) -> Option<Ratio> {
        match (self, by) {
            (Self::Round(metric), None) => run.value(cell, metric),
            (Self::Round(metric), Some(by)) => run.ratio(cell, by, metric),
            (Self::PriceMbS, None) => Some(run.value(cell, Metric::MbS)?.inverse().times(price(run, cell)?)),
            (Self::PriceMbS, Some(by)) => Some(run.ratio(cell, by, Metric::MbS)?.inverse().times(price(run, cell)? / price(run, by)?)),
            (Self::Trace(share), _) => {
                let (value, rounds) = traced(run.look(Mode::Trace, cell)?, share, device)?;
                Some(Ratio { median: value, low: value, high: value, rounds })
            }
        }
    }
}

fn price(run: &Run, cell: usize) -> Option<f64> {
    let target = &run.plan.cells[cell].setup.target;
    let given = run.study.prices.iter().find(|p| p.get_ref().target == *target)?;
    given.get_ref().settle().ok().map(|p| p.price)
}

/// The share, of all devices that are meant together, and how many requests it is of.
fn traced(stat: &Stat, share: Share, device: Option<&str>) -> Option<(f64, usize)> {
    let (mut sum, mut of) = (0.0, 0.0);
    for s in stat.trace.iter().filter(|s| device.is_none_or(|d| stat.role(&s.device) == Some(d))) {
        let (moves, writes) = ((s.reads + s.writes) as f64, s.writes as f64);
        let (part, weight) = match share {
            Share::Synchronous => (s.synchronous, moves),
            Share::Overlapping => (s.overlapping, writes),
            Share::Reads => (s.reads as f64 / moves.max(1.0), moves),
        };
        (sum, of) = (sum + part * weight, of + weight);
    }
    (stat.state == Some(State::Valid) && of > 0.0).then(|| (sum / of, of as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Summary;

    #[test]
    fn names_mean_something_and_others_are_refused() {
        assert_eq!(Quantity::parse("iops"), Ok(Quantity::Round(Metric::Iops)));
        assert_eq!(Quantity::parse("trace_reads"), Ok(Quantity::Trace(Share::Reads)));
        let refused = Quantity::parse("trace").unwrap_err();
        assert!(refused.contains("`trace`") && refused.contains("iops") && refused.contains("price_mb_s"), "{refused}");
    }

    #[test]
    fn a_traces_shares_are_of_the_devices_that_are_meant() {
        let summary = |device: &str, reads, writes, synchronous, overlapping| Summary {
            device: device.into(),
            reads,
            writes,
            synchronous,
            overlapping,
            ..Summary::default()
        };
        let devices = [("7,0", "data"), ("7,1", "log")].map(|(number, role)| serde_json::json!({ "number": number, "role": role }));
        let mut stat = Stat {
            state: Some(State::Valid),
            target: serde_json::json!({ "devices": devices }),
            trace: vec![summary("7,0", 100, 100, 0.5, 0.25), summary("7,1", 0, 600, 1.0, 0.75)],
            ..Stat::default()
        };
        assert_eq!(traced(&stat, Share::Synchronous, Some("log")), Some((1.0, 600)));
        assert_eq!(traced(&stat, Share::Overlapping, Some("data")), Some((0.25, 100)));
        assert_eq!(traced(&stat, Share::Synchronous, None), Some(((100.0 + 600.0) / 800.0, 800)));
        assert_eq!(traced(&stat, Share::Reads, None), Some((0.125, 800)));
        assert_eq!(traced(&stat, Share::Reads, Some("metadata")), None);
        stat.state = Some(State::Invalid("nothing arrived".into()));
        assert_eq!(traced(&stat, Share::Reads, None), None);
    }
}
