//! Promises of a session that the cluster simulator's tests break on purpose, one at a time, to see that its checkers notice. In a release build none is
//! ever broken: the switch is a constant, and the branches behind it are gone.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A replay begins one message too late.
    ReplayTooLate,
    /// A reconnect replays what the peer has, and it takes that again.
    KeepDuplicate,
    /// What is acknowledged is kept.
    IgnoreAck,
    /// What was under way when a socket was cut counts as received.
    TakeSentForReceived,
    /// A message gets its number, but is not kept, while acknowledgements are behind.
    ForgetToKeep,
    /// A session that another socket takes over begins to count from the start, and its peer does not.
    CountAnew,
}

#[cfg(any(test, debug_assertions))]
thread_local! {
    static BROKEN: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
    static REACHED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// True in tests that break this promise. Asked last of all conditions, so that a call is a situation in which it matters.
#[cfg(any(test, debug_assertions))]
pub(crate) fn planted(bug: Bug) -> bool {
    let is_broken = BROKEN.get() == Some(bug);
    REACHED.set(REACHED.get() + u64::from(is_broken));
    is_broken
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
    REACHED.set(0);
}
/// How often the promise that is broken on this thread could have been kept.
#[cfg(any(test, debug_assertions))]
pub fn reached() -> u64 {
    REACHED.get()
}
