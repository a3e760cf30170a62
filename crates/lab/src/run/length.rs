//! For how long a load measures: as long as the rules say, and longer where that was too short for a steady state.

use super::judge::State;
use super::visit::Stat;
use crate::study::file::RuleSet;

/// How many times the seconds of the rules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length(pub f64);

impl Length {
    /// Of a cell's first attempt in a round: what its last attempt in the round before had. What was too short there is too short here.
    pub fn first(rules: &RuleSet, before: Option<&Stat>) -> Self {
        Self(before.map_or(1.0, |stat| (stat.took.asked_s / rules.seconds).round().clamp(1.0, Self::most(rules))))
    }
    fn most(rules: &RuleSet) -> f64 {
        1.0 + f64::from(rules.prolong)
    }
    /// Of the attempt that follows this one; none if this one counts. Only what is valid is made again: what failed would fail again.
    pub fn next(self, rules: &RuleSet, stat: &Stat, attempt: u32) -> Option<Self> {
        let has = |word: &str| stat.marks.iter().any(|m| m.starts_with(word));
        if stat.state != Some(State::Valid) || attempt >= rules.prolong.max(rules.repeats) {
            return None;
        }
        match () {
            // A load that was disturbed shows the machine's curve, not its own: it is made again as it was.
            () if has("disturbed") => (attempt < rules.repeats).then_some(self),
            // A load that was not steady yet gets as much time again as it had.
            () if has("not steady") && self.0 < Self::most(rules) => Some(Self(self.0 + 1.0)),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::visit::Took;
    use super::*;

    fn rules(prolong: u32, repeats: u32) -> RuleSet {
        RuleSet { rounds: 5, seconds: 10.0, warm_s: 3.0, prolong, repeats, exclude: Vec::new() }
    }
    fn stat(mark: &str, asked_s: f64) -> Stat {
        let took = Took { asked_s, ..Took::default() };
        Stat { state: Some(State::Valid), marks: vec![mark.into()], took, ..Stat::default() }
    }

    #[test]
    fn what_is_not_steady_is_prolonged_up_to_the_bound_and_begins_with_that_in_the_next_round() {
        let rules = rules(2, 0);
        let first = Length::first(&rules, None);
        assert_eq!(first, Length(1.0));
        let second = first.next(&rules, &stat("not steady: range 30 %", 10.0), 0).unwrap();
        let third = second.next(&rules, &stat("not steady: range 25 %", 20.0), 1).unwrap();
        assert_eq!((second, third), (Length(2.0), Length(3.0)));
        assert_eq!(third.next(&rules, &stat("not steady: range 25 %", 30.0), 2), None);
        let next_round = Length::first(&rules, Some(&stat("not steady: range 25 %", 30.0)));
        assert_eq!(next_round, Length(3.0));
        assert_eq!(next_round.next(&rules, &stat("not steady: range 25 %", 30.0), 0), None);
        // A folder that knows nothing of it.
        assert_eq!(Length::first(&rules, Some(&stat("", 0.0))), Length(1.0));
    }

    #[test]
    fn what_was_disturbed_is_made_again_as_long_as_it_was_and_what_failed_is_not() {
        let rules = rules(1, 1);
        assert_eq!(Length(2.0).next(&rules, &stat("disturbed: other processes", 20.0), 0), Some(Length(2.0)));
        assert_eq!(Length(2.0).next(&rules, &stat("disturbed: other processes", 20.0), 1), None);
        let mut both = stat("disturbed: the hypervisor", 10.0);
        both.marks.push("not steady: range 30 %".into());
        assert_eq!(Length(1.0).next(&rules, &both, 0), Some(Length(1.0)));
        assert_eq!(Length(1.0).next(&rules, &both, 1), None);
        assert_eq!(Length(1.0).next(&rules, &stat("", 10.0), 0), None);
        let failed = Stat { state: Some(State::Failed("it ended".into())), ..stat("not steady", 10.0) };
        assert_eq!(Length(1.0).next(&rules, &failed, 0), None);
    }
}
