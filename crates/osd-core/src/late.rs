//! Answers of a shard that reach Control later than they are asked for, as those of a shard with a thread of its own would.
//!
//! Nothing is late unless [`Late::delay`] was called, which the simulator does in a test of its
//! own. Holds no question, and no rule of how much an old answer is worth: that is Control's.

use crate::figures::Question;
use crate::joint::ToControl;
use base::Rng;
use std::collections::VecDeque;

/// An answer that is on its way has come by the next event once in so many times.
const COMES: u64 = 3;

/// See the module.
#[derive(Default)]
pub(crate) struct Late {
    rng: Option<Rng>,
    /// In the order of their questions; one of figures' each at most.
    on_their_way: VecDeque<ToControl>,
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
        self.on_their_way.iter().any(|msg| answers(msg, question))
    }
    /// The question came up again while its answer is on its way.
    pub fn ask_again(&mut self, question: Question) {
        if !self.again.contains(&question) {
            self.again.push(question);
        }
    }
    /// The questions that this answer came too early for: to be asked now.
    pub fn asked_again(&mut self, msg: &ToControl) -> Vec<Question> {
        self.again.extract_if(.., |question| answers(msg, *question)).collect()
    }
    /// A shard says something. The same again if it is not late: only answers are.
    pub fn pass(&mut self, msg: ToControl) -> Option<ToControl> {
        if self.rng.is_none() || !msg.is_answer() {
            return Some(msg);
        }
        self.on_their_way.push_back(msg);
        None
    }
    pub fn is_empty(&self) -> bool {
        self.on_their_way.is_empty()
    }
    /// Something happens: the oldest answer may have come by then.
    pub fn next(&mut self) -> Option<ToControl> {
        let rng = self.rng.as_mut()?;
        if rng.chance(1, COMES) { self.on_their_way.pop_front() } else { None }
    }
}

fn answers(msg: &ToControl, question: Question) -> bool {
    matches!(msg, ToControl::Told(figures) if figures.answers(question))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    #[test]
    fn an_answer_is_late_only_where_that_was_asked_for_and_comes_in_order() {
        let told = |osd| ToControl::Told(Box::new(Figures::Members([osd].into())));
        let mut late = Late::default();
        assert!(late.pass(told(1)).is_some() && late.is_empty());
        late.delay(7);
        assert!(late.pass(told(1)).is_none() && late.pass(told(2)).is_none());
        assert!(late.pass(ToControl::WantMaps).is_some(), "it is no answer");
        assert!(late.is_asked(Question::Members) && !late.is_asked(Question::Merges));
        late.ask_again(Question::Members);
        late.ask_again(Question::Members);
        assert_eq!(late.asked_again(&ToControl::Told(Box::new(Figures::Merges(Vec::new())))), []);
        assert_eq!(late.asked_again(&told(1)), [Question::Members]);
        assert_eq!(late.asked_again(&told(1)), []);
        let (mut events, mut came) = (0, Vec::new());
        while !late.is_empty() {
            events += 1;
            came.extend(late.next());
        }
        let first = |msg: &ToControl| match msg {
            ToControl::Told(figures) => {
                if let Figures::Members(osds) = &**figures {
                    osds.first().copied()
                } else {
                    None
                }
            }
            _ => None,
        };
        assert_eq!(came.iter().map(first).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert!(events > 2, "{events} events");
    }
}
