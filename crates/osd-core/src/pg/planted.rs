//! Promises that tests break on purpose, one at a time, to see that the tests notice. In every other build none is ever broken: the
//! switch is a constant, and the branches behind it are gone.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub enum Bug {
    /// An object of a history that does not count stays as it is.
    KeepDivergent,
    /// The log counts that ends last, whatever its owner took part in.
    IgnoreLastStarted,
    /// A merge loses a duplicate.
    LoseDup,
    /// The primary takes a replica's missing set as it is, divergent entries or not.
    TrustMissing,
    /// Backfill sends an object that a client's write is on its way to.
    PassWrite,
    /// Backfill does not notice that an object which it is about to compare is deleted.
    MissDelete,
    /// A target is told that it has objects which are still under way to it.
    TellEarly,
    /// A write's data does not go to a target that has the object.
    SkipWrite,
    /// A reservation is granted to more than there is room for.
    GrantTwice,
}

#[cfg(test)]
thread_local! {
    static BROKEN: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// True in tests that break this promise.
#[cfg(test)]
pub fn planted(bug: Bug) -> bool {
    BROKEN.get() == Some(bug)
}
#[cfg(not(test))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}

/// Runs `f` with a promise broken, on this thread.
#[cfg(test)]
pub fn with<T>(bug: Bug, f: impl FnOnce() -> T) -> T {
    BROKEN.set(Some(bug));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    BROKEN.set(None);
    result.unwrap_or_else(|e| std::panic::resume_unwind(e))
}
