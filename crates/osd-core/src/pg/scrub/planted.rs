//! Promises that tests break on purpose, one at a time, to see that they notice. In every other build none is ever broken.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub enum Bug {
    /// The data that most copies have counts, whatever object_info says.
    TrustMajority,
    /// Omaps are not compared.
    SkipOmap,
    /// One member is not asked.
    SkipMember,
    /// A chunk that was written meanwhile is compared all the same.
    KeepDisturbed,
    /// A repair takes the copy that is bad for the good one.
    MendFromBad,
    /// A clone that no head names is no finding.
    IgnoreExtra,
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
