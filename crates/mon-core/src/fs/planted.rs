//! Promises that tests break on purpose, one at a time, to see that a test notices. In every other build none is ever broken: the switch is a
//! constant, and the branches behind it are gone.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code))]
pub enum Bug {
    /// A rank goes to another while its holder may still write.
    DontFence,
    /// The holder is fenced, but the server that replays need not have seen it.
    NameNoEpoch,
    /// A server may say that it is in any state.
    TakeAnyState,
    /// A server is silent as soon as one beacon of it is late.
    HaveNoGrace,
    /// A monitor that was away counts that as silence of the servers.
    CountOwnAbsence,
    /// A beacon is taken from whatever session brought it.
    BelieveAnyBeacon,
}

base::planted_bugs!(Bug, test);
