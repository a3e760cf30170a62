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
}

#[cfg(test)]
thread_local! {
    static BROKEN: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// True in tests that break this promise.
#[cfg(test)]
pub(crate) fn planted(bug: Bug) -> bool {
    BROKEN.get() == Some(bug)
}
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

/// True while any promise is broken.
#[cfg(test)]
pub(crate) fn is_any_planted() -> bool {
    BROKEN.get().is_some()
}

/// True if `f` fails with a promise broken, on this thread.
#[cfg(test)]
pub(crate) fn is_noticed(bug: Bug, f: impl FnOnce()) -> bool {
    BROKEN.set(Some(bug));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    BROKEN.set(None);
    result.is_err()
}
