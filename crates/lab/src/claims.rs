//! Claims: sentences of the studies, each with the ratio that it stands or falls with, answered by what was measured.

use crate::metric::Metric;
use crate::results::Run;
use crate::stats::Ratio;
use crate::stats::verdict::{BIG, ROUNDS_LEAST, ROUNDS_MIN};
use crate::study::file::Claim;
use crate::value::{Filter, Point, Value, show};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    pub text: String,
    pub seed: Option<String>,
    /// What was looked at, as the study has it: `iops auth=none / auth=cephx >= 1.8`.
    pub condition: String,
    pub answers: Vec<Answer>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The target and the point.
    pub place: String,
    /// `holds`, `doesn't hold` or `can't tell`.
    pub word: String,
    pub ratio: Option<Ratio>,
}

/// The word for a ratio. Few rounds answer only what is far from the bounds.
fn word(claim: &Claim, ratio: Option<&Ratio>) -> &'static str {
    let Some(ratio) = ratio.filter(|r| r.rounds >= ROUNDS_LEAST) else { return "can't tell" };
    let room = if ratio.rounds < ROUNDS_MIN { 1.0 + BIG } else { 1.0 };
    let (least, most) = (claim.at_least.unwrap_or(0.0), claim.at_most.unwrap_or(f64::INFINITY));
    if ratio.low >= least * room && ratio.high <= most / room {
        "holds"
    } else if ratio.high * room < least || ratio.low > most * room {
        "doesn't hold"
    } else {
        "can't tell"
    }
}

/// Each cell with its point and target, in order.
fn places(run: &Run) -> Vec<(Point, usize)> {
    let mut all = Vec::new();
    for row in &run.plan.rows {
        for cell in row.cells.iter().copied().filter(|c| !run.plan.cells[*c].setup.control) {
            let mut point = row.point.clone();
            point.insert("target".into(), Value::Text(run.plan.cells[cell].setup.target.clone()));
            point.insert("load".into(), Value::Text(row.load.clone()));
            all.push((point, cell));
        }
    }
    all
}

fn answers(run: &Run, claim: &Claim) -> Vec<Answer> {
    let metric = claim.metric.as_deref().and_then(|m| Metric::parse(m).ok()).unwrap_or(Metric::Iops);
    // The study was checked.
    let Some((above, below)) = claim.ratio.split_once('/') else { return Vec::new() };
    let (Ok(above), Ok(below), Ok(filter)) = (Filter::parse(above), Filter::parse(below), Filter::parse(&claim.filter)) else {
        return Vec::new();
    };
    let places = places(run);
    let mut out = Vec::new();
    for (point, cell) in places.iter().filter(|(p, _)| filter.holds(p) && above.holds(p)) {
        let matches = |other: &Point| {
            below.holds(other) && point.iter().all(|(axis, value)| below.get(axis).is_some() || other.get(axis) == Some(value))
        };
        let Some((_, other)) = places.iter().find(|(p, _)| matches(p)) else { continue };
        let ratio = run.ratio(*cell, *other, metric);
        let shown: Point = point.iter().filter(|(axis, _)| above.get(axis).is_none()).map(|(a, v)| (a.clone(), v.clone())).collect();
        out.push(Answer { place: show(&shown), word: word(claim, ratio.as_ref()).into(), ratio });
    }
    out
}

/// Every claim of the study.
pub fn answer(run: &Run) -> Vec<ClaimResult> {
    let of = |claim: &Claim| {
        let bounds =
            [("≥", claim.at_least), ("≤", claim.at_most)].map(|(sign, bound)| bound.map(|b| format!(" {sign} {b}")).unwrap_or_default());
        let place = if claim.filter.is_empty() { String::new() } else { format!(" where {}", claim.filter) };
        ClaimResult {
            text: claim.text.clone(),
            seed: claim.seed.clone(),
            condition: format!("{} {}{}{}{place}", claim.metric.as_deref().unwrap_or("iops"), claim.ratio, bounds[0], bounds[1]),
            answers: answers(run, claim),
        }
    };
    run.study.claims.iter().map(|c| of(c.get_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(at_least: Option<f64>, at_most: Option<f64>) -> Claim {
        Claim { text: String::new(), ratio: "a=1 / a=2".into(), filter: String::new(), metric: None, at_least, at_most, seed: None }
    }

    #[test]
    fn an_interval_across_the_bound_tells_nothing() {
        let ratio = |low, high, rounds| Ratio { median: (low + high) / 2.0, low, high, rounds };
        let word = |claim: &Claim, r| super::word(claim, Some(&r));
        let c = claim(Some(1.8), None);
        assert_eq!(word(&c, ratio(1.9, 2.1, 5)), "holds");
        assert_eq!(word(&c, ratio(1.0, 1.1, 5)), "doesn't hold");
        assert_eq!(word(&c, ratio(1.7, 2.1, 5)), "can't tell");
        assert_eq!(word(&c, ratio(1.9, 2.1, 3)), "can't tell");
        assert_eq!(word(&c, ratio(2.5, 2.6, 3)), "holds");
        let c = claim(Some(0.95), Some(1.05));
        assert_eq!(word(&c, ratio(0.97, 1.04, 5)), "holds");
        assert_eq!(word(&c, ratio(1.1, 1.2, 5)), "doesn't hold");
        assert_eq!(super::word(&c, None), "can't tell");
    }
}
