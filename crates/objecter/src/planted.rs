//! Promises that the cluster simulator's tests break on purpose, one at a time, to see that a checker notices. In a release build none is ever broken: the
//! switch is a constant, and the branches behind it are gone.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// After a gap of maps what was sent counts as still there: nothing goes out again.
    IgnoreGap,
    /// A watch is not registered again in a new session or interval: pings go on.
    ForgetToReconnect,
}

base::planted_bugs!(Bug, any(test, debug_assertions));
