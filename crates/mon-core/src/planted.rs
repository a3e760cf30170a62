//! Promises that the cluster simulator's tests and this crate's break on purpose, one at a time, to see that a checker notices. In a release
//! build none is ever broken: the switch is a constant, and the branches behind it are gone.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A client's snapshot gets the number of the one before.
    ReuseSnapId,
    /// A snapshot counts as purged when one group has purged it.
    PurgeEarly,
    /// An OSD that others miss counts as dead: nothing waits for what it may still serve.
    DeadWithoutProof,
    /// What is said of an OSD's earlier life counts against the present one.
    BelieveOldReport,
    /// The manager's endpoint runs the monitor's commands, too.
    ManagerRunsAll,
    /// A capability's constraints see whatever the asker names, and not what a key that is there may do.
    TrustNamedCaps,
}

base::planted_bugs!(Bug, any(test, debug_assertions));
