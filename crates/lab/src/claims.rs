//! Claims: sentences of the studies, each with the figure that it stands or falls with, answered by what was measured.

pub mod quantity;

use crate::results::Run;
use crate::stats::Ratio;
use crate::study::file::Claim;
use crate::value::{Filter, Point, Value, show};
use quantity::Quantity;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    pub text: String,
    pub seed: Option<String>,
    /// What was looked at, as the study has it: `iops auth=none / auth=cephx >= 1.8`.
    pub condition: String,
    /// The answers' figures are no ratios.
    #[serde(default)]
    pub absolute: bool,
    /// What the answers' figures are of: rounds, or requests of a trace.
    #[serde(default)]
    pub of: String,
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

impl Claim {
    /// The name of what it is about: IOPS unless it says.
    fn metric(&self) -> &str {
        self.metric.as_deref().unwrap_or("iops")
    }
    /// What it is about; an error where the name means nothing.
    pub(crate) fn quantity(&self) -> Result<Quantity, String> {
        Quantity::parse(self.metric())
    }
}

/// The word for a figure. Few rounds answer only what is far from the bounds.
fn word(claim: &Claim, quantity: Quantity, figure: Option<&Ratio>) -> &'static str {
    let Some((figure, room)) = figure.and_then(|f| Some((f, quantity.room(f)?))) else { return "can't tell" };
    let (least, most) = (claim.at_least.unwrap_or(0.0), claim.at_most.unwrap_or(f64::INFINITY));
    if figure.low >= least * room && figure.high <= most / room {
        "holds"
    } else if figure.high * room < least || figure.low > most * room {
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
    // The study was checked.
    let Ok(quantity) = claim.quantity() else { return Vec::new() };
    let (above, below) = claim.ratio.as_deref().map_or(Some(("", "")), |r| r.split_once('/')).unwrap_or_default();
    let (Ok(above), Ok(below), Ok(filter)) = (Filter::parse(above), Filter::parse(below), Filter::parse(&claim.filter)) else {
        return Vec::new();
    };
    let places = places(run);
    let mut out = Vec::new();
    for (point, cell) in places.iter().filter(|(p, _)| filter.holds(p) && above.holds(p)) {
        let matches = |other: &Point| {
            below.holds(other) && point.iter().all(|(axis, value)| below.get(axis).is_some() || other.get(axis) == Some(value))
        };
        let by = match &claim.ratio {
            None => None,
            Some(_) => match places.iter().find(|(p, _)| matches(p)) {
                Some((_, other)) => Some(*other),
                None => continue,
            },
        };
        let ratio = quantity.figure(run, *cell, by, claim.device.as_deref());
        // A target without such a device, or without a price, is not what the claim is about.
        if ratio.is_none() && !matches!(quantity, Quantity::Round(_)) {
            continue;
        }
        let shown: Point = point.iter().filter(|(axis, _)| above.get(axis).is_none()).map(|(a, v)| (a.clone(), v.clone())).collect();
        out.push(Answer { place: show(&shown), word: word(claim, quantity, ratio.as_ref()).into(), ratio });
    }
    out
}

/// Every claim of the study.
pub fn answer(run: &Run) -> Vec<ClaimResult> {
    let of = |claim: &Claim| {
        let bounds =
            [("≥", claim.at_least), ("≤", claim.at_most)].map(|(sign, bound)| bound.map(|b| format!(" {sign} {b}")).unwrap_or_default());
        let device = claim.device.as_ref().map(|d| format!(" of {d}")).unwrap_or_default();
        let ratio = claim.ratio.as_ref().map(|r| format!(" {r}")).unwrap_or_default();
        let place = if claim.filter.is_empty() { String::new() } else { format!(" where {}", claim.filter) };
        ClaimResult {
            text: claim.text.clone(),
            seed: claim.seed.clone(),
            condition: format!("{}{device}{ratio}{}{}{place}", claim.metric(), bounds[0], bounds[1]),
            absolute: claim.ratio.is_none(),
            of: claim.quantity().map_or("rounds", Quantity::of).into(),
            answers: answers(run, claim),
        }
    };
    run.study.claims.iter().map(|c| of(c.get_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(at_least: Option<f64>, at_most: Option<f64>) -> Claim {
        let ratio = Some("a=1 / a=2".into());
        Claim { text: String::new(), ratio, filter: String::new(), metric: None, device: None, at_least, at_most, seed: None }
    }

    #[test]
    fn an_interval_across_the_bound_tells_nothing() {
        let ratio = |low, high, rounds| Ratio { median: (low + high) / 2.0, low, high, rounds };
        let c = claim(Some(1.8), None);
        let iops = c.quantity().unwrap();
        let word = |claim: &Claim, r| super::word(claim, iops, Some(&r));
        assert_eq!(word(&c, ratio(1.9, 2.1, 5)), "holds");
        assert_eq!(word(&c, ratio(1.0, 1.1, 5)), "doesn't hold");
        assert_eq!(word(&c, ratio(1.7, 2.1, 5)), "can't tell");
        assert_eq!(word(&c, ratio(1.9, 2.1, 3)), "can't tell");
        assert_eq!(word(&c, ratio(2.5, 2.6, 3)), "holds");
        let c = claim(Some(0.95), Some(1.05));
        assert_eq!(word(&c, ratio(0.97, 1.04, 5)), "holds");
        assert_eq!(word(&c, ratio(1.1, 1.2, 5)), "doesn't hold");
        assert_eq!(super::word(&c, iops, None), "can't tell");
        // A trace is of one round: its requests count.
        let traced = Quantity::parse("trace_reads").unwrap();
        assert_eq!(super::word(&c, iops, Some(&ratio(1.0, 1.0, 1))), "can't tell");
        assert_eq!(super::word(&c, traced, Some(&ratio(1.0, 1.0, 800))), "holds");
        assert_eq!(super::word(&c, traced, Some(&ratio(0.5, 0.5, 800))), "doesn't hold");
        assert_eq!(super::word(&c, traced, Some(&ratio(0.5, 0.5, 8))), "can't tell");
    }
}
