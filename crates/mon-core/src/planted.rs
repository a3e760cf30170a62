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
    /// An OSD is put out when half of the time is over.
    OutEarly,
    /// A blocklist's entry goes some seconds before its time.
    ExpireEarly,
    /// up_thru is raised to the epoch that is being made.
    UpThruAhead,
    /// A pg_temp stays that says nothing any more, or is of a group that there is not.
    KeepStaleTemp,
    /// An epoch is made each second, whether anything changed or not.
    EpochEachTick,
    /// A receiver that needs a trimmed map is sent the changes behind it, and no whole map before them.
    NoWholeMap,
    /// The manager's endpoint runs the monitor's commands, too.
    ManagerRunsAll,
    /// A capability's constraints see whatever the asker names, and not what a key that is there may do.
    TrustNamedCaps,
}

base::planted_bugs!(Bug, any(test, debug_assertions));
