//! Promises that tests break on purpose, one at a time, to see that a test notices. In every other build none is ever broken: the switch is a
//! constant, and the branches behind it are gone.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub(crate) enum Bug {
    /// A client's connection asks no budget.
    TakeNoPermit,
    /// What a message holds of the budget is given back when it is dispatched, not when it is answered.
    GiveBackEarly,
    /// Answers in a connection's queue don't count.
    ForgetAnswers,
    /// A connection that stops because its queue is full stops also if the write of the same turn has emptied it.
    ForgetQueue,
    /// The peer's end is not looked for while nothing is read.
    IgnoreEnd,
}

base::planted_bugs!(Bug, test);
