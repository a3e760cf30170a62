//! The words on a machine that exists in numbers only: its speed drifts and jumps, each visit has noise of its own, and the truth is known.

use crate::stats::order::orders;
use crate::stats::{Better, Latency, Ratio, Verdict, Word};
use anyhow::{Result, ensure};
use base::Rng;

const TRIALS: u64 = 100;
const ROUNDS: usize = 5;
const MARGIN: f64 = 0.03;

/// What the machine does to figures.
#[derive(Clone, Copy)]
pub struct World {
    /// Of each visit by itself, a share.
    pub noise: f64,
    /// How much faster or slower the machine gets from the first to the last visit, a share, evenly.
    pub drift: f64,
    /// A change of the whole machine from round to round, a share.
    pub rounds: f64,
}

/// About normal, mean 0, deviation 1.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| (rng.u64() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() - 6.0
}

/// One study of three targets, the reference, its control and another whose truth is `effect` times theirs: the word for that one.
pub fn study(world: World, effect: f64, better: Better, seed: u64) -> Verdict {
    let mut rng = Rng::new(seed);
    let (mut at, total) = (0.0, (3 * ROUNDS) as f64);
    let mut values = [const { Vec::new() }; 3];
    for order in orders(3, ROUNDS, seed ^ 0x5eed) {
        let round = (world.rounds * normal(&mut rng)).exp();
        for target in order {
            let truth = if target == 2 { 1000.0 * effect } else { 1000.0 };
            let drift = 1.0 + world.drift * at / total;
            values[target].push(truth * round * drift * (world.noise * normal(&mut rng)).exp());
            at += 1.0;
        }
    }
    let ratio = |a: usize| {
        let pairs: Vec<(f64, f64)> = values[a].iter().copied().zip(values[0].iter().copied()).collect();
        Ratio::of(&pairs, seed).expect("there are rounds")
    };
    Verdict::of(ratio(2), better, MARGIN, Some(ratio(1)))
}

fn count(world: World, effect: f64, better: Better, want: impl Fn(Word) -> bool) -> usize {
    (0..TRIALS).filter(|seed| want(study(world, effect, better, seed * 7919 + 1).word)).count()
}

/// Percentiles of two modes and a stall, against the sorted values.
fn percentiles() -> Result<()> {
    let mut rng = Rng::new(4);
    let mut values: Vec<u64> = (0..200_000)
        .map(|n| {
            if n == 77_777 {
                300_000_000
            } else if rng.chance(1, 10) {
                8_000_000 + rng.below(99_000)
            } else {
                450_000 + rng.below(9000)
            }
        })
        .collect();
    let told = Latency::of(values.iter().map(|v| (*v, 1)));
    values.sort_unstable();
    for percent in [50.0, 89.0, 90.0, 95.0, 99.0, 99.9, 99.99] {
        let rank = (percent / 100.0 * values.len() as f64).ceil() as usize - 1;
        let got = told.percentile_ns(percent);
        ensure!(got.is_some_and(|g| told.same_bucket(g, values[rank])), "{percent} %: {got:?} where {} is right", values[rank]);
    }
    ensure!(told.percentile_ns(99.999).is_none(), "99.999 % of 200,000 has no ten samples beyond it");
    ensure!(told.max_ns().is_some_and(|m| told.same_bucket(m, 300_000_000)), "the stall is not the longest");
    Ok(())
}

pub fn prove() -> Result<String> {
    percentiles()?;
    let quiet = World { noise: 0.012, drift: 0.0, rounds: 0.1 };
    let noisy = World { noise: 0.15, drift: 0.0, rounds: 0.3 };
    let drifting = World { noise: 0.012, drift: -0.4, rounds: 0.0 };
    let mut said = vec!["        percentiles of 200,000 known latencies: each within its bucket".to_string()];
    let mut must = |what: &str, n: usize, ok: bool| {
        said.push(format!("        {what}: {n} of {TRIALS}"));
        ensure!(ok, "{what}: {n} of {TRIALS}");
        Ok(())
    };
    for (name, world) in [("quiet", quiet), ("noisy", noisy), ("drifting", drifting)] {
        let n = count(world, 1.0, Better::More, Word::differs);
        must(&format!("the same against itself, {name} machine, called different"), n, n <= if name == "drifting" { 0 } else { 5 })?;
    }
    for (what, effect, better) in [
        ("10 % fewer operations, called slower", 0.9, Better::More),
        ("10 % more CPU, called slower", 1.1, Better::Less),
        ("20 % more written, called slower", 1.2, Better::Less),
    ] {
        let n = count(quiet, effect, better, |w| w == Word::Slower);
        must(what, n, n >= 95)?;
    }
    // What a noisy machine can't tell is not called the wrong way round either.
    let n = count(noisy, 0.9, Better::More, |w| w == Word::Faster);
    must("10 % fewer operations, noisy machine, called faster", n, n == 0)?;
    Ok(said.join("\n"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_are_right_where_the_truth_is_known() {
        super::prove().unwrap();
    }

    #[test]
    fn without_counterbalance_a_drift_would_be_called() {
        // What the order is there for: the same drift, each round in the same order, and no control.
        use crate::stats::{Better, Ratio, Verdict};
        let speed = |at: usize| 1000.0 * (1.0 - 0.05 * at as f64);
        let pairs: Vec<(f64, f64)> = (0..5).map(|r| (speed(3 * r + 2), speed(3 * r))).collect();
        assert!(Verdict::of(Ratio::of(&pairs, 1).unwrap(), Better::More, 0.03, None).word.differs());
    }
}
