//! Where numbers are large enough: the first one from any place on that is at least so large, among as many small numbers as a device has chunks.
//!
//! A tree of maxima, sixteen to one, above numbers that its owner keeps. To find one, and to change one, takes steps in proportion to the logarithm
//! of how many there are. Memory: a byte for about fifteen numbers.

use crate::rows::counter::Steps;

const FAN: usize = 16;

#[derive(Debug, Default)]
pub struct Maxima {
    /// The largest of sixteen numbers each, then of sixteen of those, and so on.
    levels: Vec<Vec<u8>>,
    steps: Steps,
}

impl Maxima {
    /// Of so many numbers.
    pub fn new(numbers: usize, of: impl Fn(usize) -> u8) -> Self {
        let max = |numbers: usize, of: &dyn Fn(usize) -> u8| -> Vec<u8> {
            let group = |at: usize| (at..numbers.min(at + FAN)).map(of).max().unwrap_or(0);
            (0..numbers).step_by(FAN).map(group).collect()
        };
        let mut levels = vec![max(numbers, &of)];
        while let Some(below) = levels.last().filter(|level| level.len() > FAN) {
            levels.push(max(below.len(), &|at| below[at]));
        }
        Self { levels, ..Self::default() }
    }
    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }
    #[cfg(test)]
    pub fn is_same(&self, other: &Self) -> bool {
        self.levels == other.levels
    }
    #[cfg(test)]
    pub fn take_steps(&self) -> u64 {
        self.steps.take()
    }

    /// The number `at` was `was`, and `of` says what all are now.
    pub fn changed(&mut self, at: usize, was: u8, numbers: usize, of: impl Fn(usize) -> u8) {
        let (mut at, mut was, mut is) = (at, was, of(at));
        for level in 0..self.levels.len() {
            let group = at / FAN;
            let before = self.levels[level][group];
            let first = group * FAN;
            let now = if is >= before {
                is
            } else if was < before {
                before
            } else if level == 0 {
                (first..numbers.min(first + FAN)).map(&of).max().unwrap_or(0)
            } else {
                let below = &self.levels[level - 1];
                below[first..below.len().min(first + FAN)].iter().copied().max().unwrap_or(0)
            };
            self.steps.add(1);
            if now == before {
                return;
            }
            self.levels[level][group] = now;
            (at, was, is) = (group, before, now);
        }
    }
    /// The first number from `from` on, or from the start if there is none, that is at least `least`, which is more than 0.
    pub fn find(&self, from: usize, least: u8, numbers: usize, of: impl Fn(usize) -> u8) -> Option<usize> {
        self.find_from(from, least, numbers, &of).or_else(|| self.find_from(0, least, numbers, &of))
    }
    fn find_from(&self, from: usize, least: u8, numbers: usize, of: &impl Fn(usize) -> u8) -> Option<usize> {
        let is_enough = |at: usize| {
            self.steps.add(1);
            of(at) >= least
        };
        if from >= numbers {
            return None;
        }
        let mut group = from / FAN;
        if let Some(at) = (from..numbers.min((group + 1) * FAN)).find(|at| is_enough(*at)) {
            return Some(at);
        }
        for level in 0..self.levels.len() {
            let has = |level: usize, at: usize| {
                self.steps.add(1);
                self.levels[level][at] >= least
            };
            // The neighbours behind this one, as far as they are below the same maximum.
            let end = self.levels[level].len().min((group / FAN + 1) * FAN);
            if let Some(mut at) = (group + 1..end).find(|at| has(level, *at)) {
                for below in (0..level).rev() {
                    at = (at * FAN..self.levels[below].len()).find(|at| has(below, *at)).expect("a maximum is of one of those below it");
                }
                return Some((at * FAN..numbers).find(|at| is_enough(*at)).expect("a maximum is of one of those below it"));
            }
            group /= FAN;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_large_enough_is_found() {
        let mut rng = base::Rng::new(3);
        for numbers in [1, 15, 16, 17, 256, 300, 5000] {
            let mut all: Vec<u8> = (0..numbers).map(|_| if rng.chance(1, 50) { rng.below(16) as u8 } else { 0 }).collect();
            let mut maxima = Maxima::new(numbers, |at| all[at]);
            for _ in 0..2000 {
                let (from, least) = (rng.below(numbers as u64) as usize, 1 + rng.below(15) as u8);
                let walk = (from..numbers).chain(0..from).find(|at| all[*at] >= least);
                assert_eq!(maxima.find(from, least, numbers, |at| all[at]), walk);
                let at = rng.below(numbers as u64) as usize;
                let was = std::mem::replace(&mut all[at], if rng.chance(1, 2) { 0 } else { rng.below(16) as u8 });
                maxima.changed(at, was, numbers, |at| all[at]);
            }
            assert!(maxima.is_same(&Maxima::new(numbers, |at| all[at])));
        }
    }
}
