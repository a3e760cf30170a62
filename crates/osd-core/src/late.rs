//! Answers of a shard that reach Control later than they are asked for, as those of a shard with a thread of its own would.
//!
//! Nothing is late unless [`Late::delay`] was called, which the simulator does in a test of its
//! own. Holds no question, and no rule of how much an old answer is worth: that is Control's.

use crate::figures::{Figures, Question};
use base::Rng;
use std::collections::VecDeque;

/// An answer that is on its way has come by the next event once in so many times.
const COMES: u64 = 3;

/// See the module.
#[derive(Default)]
pub(crate) struct Late {
    rng: Option<Rng>,
    /// In the order of their questions; one of each at most.
    on_their_way: VecDeque<Box<Figures>>,
    /// Asked again since: what is on its way may be older than the reason to ask.
    again: Vec<Question>,
}

impl Late {
    /// From now on answers are late.
    pub fn delay(&mut self, seed: u64) {
        self.rng = Some(Rng::new(seed));
    }
    /// True if an answer to this question is on its way.
    pub fn is_asked(&self, question: Question) -> bool {
        self.on_their_way.iter().any(|figures| figures.answers(question))
    }
    /// The question came up again while its answer is on its way.
    pub fn ask_again(&mut self, question: Question) {
        if !self.again.contains(&question) {
            self.again.push(question);
        }
    }
    /// The questions that this answer came too early for: to be asked now.
    pub fn asked_again(&mut self, figures: &Figures) -> Vec<Question> {
        self.again.extract_if(.., |question| figures.answers(*question)).collect()
    }
    /// A shard answers. The answer again if it is not late.
    pub fn pass(&mut self, figures: Box<Figures>) -> Option<Box<Figures>> {
        if self.rng.is_none() {
            return Some(figures);
        }
        self.on_their_way.push_back(figures);
        None
    }
    pub fn is_empty(&self) -> bool {
        self.on_their_way.is_empty()
    }
    /// Something happens: the oldest answer may have come by then.
    pub fn next(&mut self) -> Option<Box<Figures>> {
        let rng = self.rng.as_mut()?;
        if rng.chance(1, COMES) { self.on_their_way.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_late_only_where_that_was_asked_for_and_comes_in_order() {
        let figures = |osd| Box::new(Figures::Members([osd].into()));
        let mut late = Late::default();
        assert!(late.pass(figures(1)).is_some() && late.is_empty());
        late.delay(7);
        assert!(late.pass(figures(1)).is_none() && late.pass(figures(2)).is_none());
        assert!(late.is_asked(Question::Members) && !late.is_asked(Question::Merges));
        late.ask_again(Question::Members);
        late.ask_again(Question::Members);
        assert_eq!(late.asked_again(&Figures::Merges(Vec::new())), []);
        assert_eq!(late.asked_again(&figures(1)), [Question::Members]);
        assert_eq!(late.asked_again(&figures(1)), []);
        let (mut events, mut came) = (0, Vec::new());
        while !late.is_empty() {
            events += 1;
            came.extend(late.next());
        }
        let first = |figures: &Figures| if let Figures::Members(osds) = figures { osds.first().copied() } else { None };
        assert_eq!(came.iter().map(|figures| first(figures)).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert!(events > 2, "{events} events");
    }
}
