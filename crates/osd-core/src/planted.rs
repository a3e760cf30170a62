//! Promises that tests break on purpose, one at a time, to see that a test notices: the random histories of this crate's own tests, and the cluster
//! simulator. In a release build none is ever broken: the switch is a constant, and the branches behind it are gone.

/// A promise, by what happens when it is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(any(test, debug_assertions)), allow(dead_code))]
pub enum Bug {
    // Names.
    /// Every peer may say what OSDs say.
    BelieveKind,
    /// What OSDs tell each other is taken on any network.
    BelieveNetwork,
    /// An OSD's message is taken from any address.
    BelieveAddress,
    /// A client's request has the id that the client says, be it another's.
    BelieveReqid,
    /// A capability for a network is good where the client says that it is.
    BelieveClaimedNetwork,
    /// Maps of another OSD are taken as far ahead as they go, and over a gap.
    FollowPeers,
    /// An OSD that other OSDs led beyond the monitor's maps stays there.
    StayAhead,

    /// An OSD serves from the store that it finds, whosever it is.
    BelieveStore,

    // Operations.
    /// A client may set attributes of any size, and as many as it likes.
    UnboundedAttrs,
    /// A listing whose client asks for no rows looks at none, and gets nowhere.
    EmptyPages,
    /// A write to an object's omap does not say so in its entry.
    ForgetOmapDirty,
    /// A write does not say in its entry which bytes it changed.
    ForgetDataDirty,
    /// What changes no data leaves the time of the last change as it is.
    KeepMtime,
    /// After a rollback clones count as sharing with the object what they shared before.
    RollbackKeepsOverlap,
    /// A ZERO does not say that a clone shares these bytes no more.
    ZeroKeepsOverlap,
    /// A ZERO leaves the digest of the data that were.
    ZeroKeepsDigest,
    /// Keys are set, and the record does not say that there are any.
    ForgetOmapFlag,
    /// The first write after a snapshot keeps no clone.
    SkipClone,
    /// A clone goes with the first of its snapshots.
    TrimSharedClone,
    /// A copy's source is read whatever the client may read.
    CopyUnasked,
    /// The flag PGOP excuses a request from lying in its group.
    TrustPgop,

    // Requests that wait.
    /// A session without any capability has its requests kept like others'.
    HoldPowerless,
    /// A request that waits for long keeps its slot, its memory and what its answer may have.
    HoldWaiting,
    /// A request by a map that there is not waits for it for ever.
    WaitForNoMap,

    // Logs of several members.
    /// An object of a history that does not count stays as it is.
    KeepDivergent,
    /// The log counts that ends last, whatever its owner took part in.
    IgnoreLastStarted,
    /// A merge of logs, or a log that is taken whole, loses a duplicate.
    LoseDup,
    /// The primary takes a replica's missing set as it is, divergent entries or not.
    TrustMissing,
    /// A member that takes in another's log counts what is new there as done.
    SkipNewMissing,
    /// Deletions that a member has not done are not missing.
    MissDelete,
    /// What a merge of logs says is missing is not kept in the record.
    ForgetMissingRecord,

    // Writes in flight.
    /// A write is answered when our own store has it.
    AckBeforeReplica,
    /// The last member of a write's waiting set is forgotten.
    ForgetMember,
    /// A replica acknowledges a write that its store has not made durable.
    ReplicaAckEarly,
    /// A write is answered when its interval ends, whatever members have it.
    AckAtIntervalEnd,
    /// A request that was executed before is executed again.
    ForgetDups,
    /// Reads do not wait for their object's writes in flight.
    ReadUncommitted,
    /// The log is trimmed beyond what every member has.
    TrimTooFar,

    // Peering.
    /// A group serves without up_thru of its interval.
    SkipUpThru,
    /// Members of past intervals are not asked.
    ForgetPast,
    /// Nothing waits for the members of a past interval that are gone.
    IgnoreDown,
    /// A group of fewer than min_size members serves.
    ActiveBelowMinSize,
    /// Answers of a former interval count.
    AcceptOldInterval,

    // Leases.
    /// A primary serves after its lease.
    ServeAfterLease,
    /// A primary counts a lease from when it was sent, acknowledged or not.
    ServeUnacknowledged,
    /// A primary counts a lease as soon as one member has acknowledged it.
    ServeAtFirstAck,
    /// A lease is counted from when its acknowledgement arrives.
    CountFromAnswer,
    /// A primary serves while the former interval may.
    IgnorePriorLease,
    /// A member that is down counts as one that serves nothing.
    TakeDownForDead,
    /// Former intervals count as far as peering remembers them, which is not all of their members.
    CountKnownIntervals,
    /// Members do not tell the next primary how long a former one may serve.
    ForgetToTellLease,
    /// A member remembers the first lease of an interval and none of its renewals.
    ForgetRenewals,
    /// A member that led ignores what others say of intervals that others led since.
    TrustOldKnowledge,
    /// A restarted member remembers no lease and waits for none.
    ForgetLeaseAtStart,
    /// A group that is split off knows nothing of its parent's former intervals.
    ForgetLeaseAtSplit,
    /// A lease is renewed whenever the time is looked at.
    RenewAlways,
    /// A replica serves reads whether its primary may or not.
    ReplicaReadsAfterLease,
    /// A replica serves an object that a write is on its way to.
    ReplicaReadsInFlight,
    /// A replica serves an object that it lacks as if it were as the store has it.
    ReplicaReadsMissing,
    /// A member that follows goes by what it knew of an object before its primary's last writes.
    ReplicaKeepsContexts,

    // Recovery.
    /// Requests do not wait for objects that members lack.
    ServeMissing,
    /// An object counts as recovered after its first part.
    StopAfterFirstPart,
    /// An object is pulled from a member that lacks it, that sends what it has for what was asked for, and the primary takes it.
    PullFromLacking,
    /// Former members let go of their copies before what recovery brought here is durable.
    CleanBeforeDurable,
    /// An object that recovery brought here is written over on other members before it is durable here.
    WriteOverYoung,

    // Backfill and reservations.
    /// Backfill sends an object that a client's write is on its way to.
    PassWrite,
    /// A write that makes an object finds there what backfill was to remove first, and the store could not serve yet.
    OvertakeRemoval,
    /// Backfill does not notice that an object which it is about to compare is deleted.
    PassDelete,
    /// A target is told that it has objects which are still under way to it.
    TellEarly,
    /// A write's data does not go to a target that has the object.
    SkipWrite,
    /// A reservation is granted to more than there is room for.
    GrantTwice,
    /// A place that a member takes back is not given back to it.
    KeepRevoked,
    /// A member that has not answered is asked for a place again.
    AskTwice,
    /// A place is taken back before it is granted.
    RevokeUngranted,
    /// A target that is too full keeps its copies of deleted objects.
    KeepTooMany,
    /// Places for recovery are given whatever room there is.
    ReserveIntoFull,
    /// A scrub does not compare omaps.
    ScrubSkipsOmap,
    /// A scrub does not compare attributes.
    ScrubSkipsAttrs,
    /// A scrub does not ask one of the members.
    ScrubSkipsMember,
    /// The data that most copies have counts in a scrub, whatever object_info says.
    TrustMajority,
    /// A chunk that was written while it was scrubbed is compared all the same.
    KeepDisturbed,
    /// A repair takes the copy that is bad for the good one.
    MendFromBad,
    /// A clone that no head names is no finding of a scrub.
    IgnoreExtra,
    /// Recovery that has begun goes on when a member is full.
    RecoverIntoFull,

    // Watches and notifies.
    /// A watch that is connected again is not told of the notifies that wait for it.
    ForgetPending,
    /// A notify waits for those watches alone whose clients are connected.
    NotifyConnected,
    /// A watch whose client is gone stays for ever.
    KeepDeadWatch,
    /// A watch ends when half of its timeout is over.
    EndWatchEarly,
    /// The first answer to a notify counts for all watches.
    AckForAll,
    /// A watch that has answered a notify is told of it again.
    KeepAnswered,
    /// A notify waits for a watch that does not answer for ever.
    NotifyForEver,
    /// A primary knows of no watch that was registered with another.
    ForgetWatchers,

    // Clients that are shut out.
    /// A client that the map shuts out is served.
    ServeBarred,
    /// A request that is sent again is not asked whether its client is shut out.
    ServeResent,
    /// A request that waited is not asked again whether its client is shut out.
    AdmitOnce,
    /// A request by a newer map does not wait for it.
    ServeByOlderMap,

    // Maps that are gone.
    /// An OSD waits for a map that the monitor has trimmed.
    WaitForTrimmed,

    // Groups that are merged.
    /// What one of two merged groups has purged counts as purged.
    MergePurged,
    /// Two groups are merged as if both had what they had when they were found ready.
    MergeUnlike,
    /// Former members let go of their copies as soon as the group serves.
    LetGoEarly,

    // Quiet.
    /// A timer is set to the next moment, whatever there is to do.
    WakeAtOnce,
    /// Other OSDs are pinged each time that it could be time.
    PingAlways,

    // Sessions.
    /// A session goes on when the ticket that opened it has run out.
    OutliveTickets,
}

base::planted_bugs!(Bug, any(test, debug_assertions));
