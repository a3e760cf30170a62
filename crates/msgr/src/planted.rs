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
    /// A peer is of the kind that its HELLO says, whatever its ticket.
    BelieveHello,
    /// An OSD or a client has the number that it says, whatever its ticket.
    BelieveNumber,
    /// A session goes on with any socket that names its address and cookies.
    BelieveSession,
}

base::planted_bugs!(Bug, any(test, debug_assertions));
