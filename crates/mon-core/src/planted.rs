//! Promises that the cluster simulator's tests break on purpose, one at a time, to see that its checkers notice. In a release build none is ever
//! broken: the switch is a constant, and the branches behind it are gone.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A client's snapshot gets the number of the one before.
    ReuseSnapId,
    /// A snapshot counts as purged when one group has purged it.
    PurgeEarly,
    /// An OSD that others miss counts as dead: nothing waits for what it may still serve.
    DeadWithoutProof,
}

#[cfg(any(test, debug_assertions))]
thread_local! {
    static BROKEN: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// True in tests that break this promise.
#[cfg(any(test, debug_assertions))]
pub(crate) fn planted(bug: Bug) -> bool {
    BROKEN.get() == Some(bug)
}
#[cfg(not(any(test, debug_assertions)))]
#[inline(always)]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

/// Breaks this promise on this thread from now on; `None`: none any more.
#[cfg(any(test, debug_assertions))]
pub fn plant(bug: Option<Bug>) {
    BROKEN.set(bug);
}
