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
    /// What is said of an OSD's earlier life counts against the present one.
    BelieveOldReport,
}

base::planted_bugs!(Bug, any(test, debug_assertions));
