//! Promises that are broken on purpose, so that the checkers show that they notice: those of the cores, and of what lies around them here.

pub use mon_core::planted::Bug as MonBug;
pub use msgr::planted::Bug as WireBug;
pub use objecter::planted::Bug as ClientBug;
pub use osd_core::planted::Bug as OsdBug;
pub use store_block::planted::Bug as StoreBug;

use messages::{MOSDOp, MOSDRepOp, MOSDRepOpReply, Message, RawMessage};
use types::PgShard;

/// A promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// A killed OSD comes back with what its disk held when it started the time before.
    OldDisk,
    /// Every so many messages of a client to an OSD arrive twice, as two different requests.
    TwiceAsTwo,
    /// A monitor that dies forgets its last batch.
    MonForgets,
    /// Now and then a replica acknowledges a write that it did not keep.
    AcknowledgesUnkept,
    /// An OSD that finds no store makes one, under the uuid that the map has.
    MakesStoreAnew,
    /// No OSD starts while one has no store.
    OneHoldsUpAll,
    /// Copies are chosen among OSDs, which share devices. Only [`crate::Plan::on_two_devices`] comes to it.
    ChoosesOsds,
    Osd(OsdBug),
    Mon(MonBug),
    Client(ClientBug),
    Store(StoreBug),
    /// Only seeds with real connections come to it.
    Wire(WireBug),
}

/// Every bug that the simulator has to find.
pub const ALL: &[Planted] = &[
    Planted::OldDisk,
    Planted::TwiceAsTwo,
    Planted::MonForgets,
    Planted::AcknowledgesUnkept,
    Planted::MakesStoreAnew,
    Planted::OneHoldsUpAll,
    Planted::Osd(OsdBug::BelieveStore),
    Planted::Osd(OsdBug::BelieveKind),
    Planted::Osd(OsdBug::BelieveNetwork),
    Planted::Osd(OsdBug::BelieveAddress),
    Planted::Osd(OsdBug::BelieveReqid),
    Planted::Osd(OsdBug::EmptyPages),
    Planted::Osd(OsdBug::CopyUnasked),
    Planted::Osd(OsdBug::TrustPgop),
    Planted::Osd(OsdBug::HoldPowerless),
    Planted::Osd(OsdBug::HoldWaiting),
    Planted::Osd(OsdBug::WaitForNoMap),
    Planted::Osd(OsdBug::ForgetOmapDirty),
    Planted::Osd(OsdBug::ForgetDataDirty),
    Planted::Osd(OsdBug::KeepMtime),
    Planted::Osd(OsdBug::RollbackKeepsOverlap),
    Planted::Osd(OsdBug::ZeroKeepsOverlap),
    Planted::Osd(OsdBug::ZeroKeepsDigest),
    Planted::Osd(OsdBug::ForgetOmapFlag),
    Planted::Osd(OsdBug::SkipClone),
    Planted::Osd(OsdBug::TrimSharedClone),
    Planted::Osd(OsdBug::KeepDivergent),
    Planted::Osd(OsdBug::IgnoreLastStarted),
    Planted::Osd(OsdBug::LoseDup),
    Planted::Osd(OsdBug::TrustMissing),
    Planted::Osd(OsdBug::SkipNewMissing),
    Planted::Osd(OsdBug::MissDelete),
    Planted::Osd(OsdBug::ForgetMissingRecord),
    Planted::Osd(OsdBug::AckBeforeReplica),
    Planted::Osd(OsdBug::ForgetMember),
    Planted::Osd(OsdBug::ReplicaAckEarly),
    Planted::Osd(OsdBug::AckAtIntervalEnd),
    Planted::Osd(OsdBug::ForgetDups),
    Planted::Osd(OsdBug::ReadUncommitted),
    Planted::Osd(OsdBug::TrimTooFar),
    Planted::Osd(OsdBug::SkipUpThru),
    Planted::Osd(OsdBug::ForgetPast),
    Planted::Osd(OsdBug::IgnoreDown),
    Planted::Osd(OsdBug::ActiveBelowMinSize),
    Planted::Osd(OsdBug::AcceptOldInterval),
    Planted::Osd(OsdBug::ServeAfterLease),
    Planted::Osd(OsdBug::ServeUnacknowledged),
    Planted::Osd(OsdBug::ServeAtFirstAck),
    Planted::Osd(OsdBug::CountFromAnswer),
    Planted::Osd(OsdBug::IgnorePriorLease),
    Planted::Osd(OsdBug::TakeDownForDead),
    Planted::Osd(OsdBug::CountKnownIntervals),
    Planted::Osd(OsdBug::ForgetToTellLease),
    Planted::Osd(OsdBug::ForgetRenewals),
    Planted::Osd(OsdBug::TrustOldKnowledge),
    Planted::Osd(OsdBug::ForgetLeaseAtStart),
    Planted::Osd(OsdBug::ForgetLeaseAtSplit),
    Planted::Osd(OsdBug::RenewAlways),
    Planted::Osd(OsdBug::ReplicaReadsAfterLease),
    Planted::Osd(OsdBug::ReplicaReadsInFlight),
    Planted::Osd(OsdBug::ReplicaReadsMissing),
    Planted::Osd(OsdBug::ReplicaKeepsContexts),
    Planted::Osd(OsdBug::ServeMissing),
    Planted::Osd(OsdBug::StopAfterFirstPart),
    Planted::Osd(OsdBug::PullFromLacking),
    Planted::Osd(OsdBug::CleanBeforeDurable),
    Planted::Osd(OsdBug::WriteOverYoung),
    Planted::Osd(OsdBug::PassWrite),
    Planted::Osd(OsdBug::OvertakeRemoval),
    Planted::Osd(OsdBug::PassDelete),
    Planted::Osd(OsdBug::TellEarly),
    Planted::Osd(OsdBug::SkipWrite),
    Planted::Osd(OsdBug::GrantTwice),
    Planted::Osd(OsdBug::KeepRevoked),
    Planted::Osd(OsdBug::AskTwice),
    Planted::Osd(OsdBug::RevokeUngranted),
    Planted::Osd(OsdBug::ReserveIntoFull),
    Planted::Osd(OsdBug::ScrubSkipsOmap),
    Planted::Osd(OsdBug::ScrubSkipsAttrs),
    Planted::Osd(OsdBug::ForgetPending),
    Planted::Osd(OsdBug::NotifyConnected),
    Planted::Osd(OsdBug::KeepDeadWatch),
    Planted::Osd(OsdBug::EndWatchEarly),
    Planted::Osd(OsdBug::AckForAll),
    Planted::Osd(OsdBug::KeepAnswered),
    Planted::Osd(OsdBug::NotifyForEver),
    Planted::Osd(OsdBug::ForgetWatchers),
    Planted::Osd(OsdBug::ServeBarred),
    Planted::Osd(OsdBug::ServeResent),
    Planted::Osd(OsdBug::AdmitOnce),
    Planted::Osd(OsdBug::ServeByOlderMap),
    Planted::Osd(OsdBug::WaitForTrimmed),
    Planted::Osd(OsdBug::MergePurged),
    Planted::Osd(OsdBug::MergeUnlike),
    Planted::Osd(OsdBug::LetGoEarly),
    Planted::Osd(OsdBug::WakeAtOnce),
    Planted::Osd(OsdBug::PingAlways),
    Planted::Client(ClientBug::IgnoreGap),
    Planted::Client(ClientBug::ForgetToReconnect),
    Planted::Store(StoreBug::AcceptWithoutRoom),
    Planted::Store(StoreBug::CountGaps),
    Planted::Store(StoreBug::LeakAside),
    Planted::Mon(MonBug::ReuseSnapId),
    Planted::Mon(MonBug::PurgeEarly),
    Planted::Mon(MonBug::DeadWithoutProof),
    Planted::Mon(MonBug::BelieveOldReport),
    Planted::Mon(MonBug::OutEarly),
    Planted::Mon(MonBug::ExpireEarly),
    Planted::Mon(MonBug::UpThruAhead),
    Planted::Mon(MonBug::KeepStaleTemp),
    Planted::Mon(MonBug::EpochEachTick),
    Planted::Mon(MonBug::NoWholeMap),
    Planted::Mon(MonBug::ManagerRunsAll),
    Planted::Wire(WireBug::ReplayTooLate),
    Planted::Wire(WireBug::KeepDuplicate),
    Planted::Wire(WireBug::IgnoreAck),
    Planted::Wire(WireBug::TakeSentForReceived),
    Planted::Wire(WireBug::ForgetToKeep),
    Planted::Wire(WireBug::CountAnew),
];

impl Planted {
    fn is_of_core(self) -> bool {
        matches!(self, Self::Osd(_) | Self::Mon(_) | Self::Client(_) | Self::Store(_) | Self::Wire(_))
    }
    /// The bug's own name.
    pub fn name(self) -> String {
        match self {
            Self::Osd(bug) => format!("{bug:?}"),
            Self::Mon(bug) => format!("{bug:?}"),
            Self::Client(bug) => format!("{bug:?}"),
            Self::Store(bug) => format!("{bug:?}"),
            Self::Wire(bug) => format!("{bug:?}"),
            own => format!("{own:?}"),
        }
    }
}

/// While it lives, the cores of this thread break a promise.
pub(crate) struct Broken;

impl Broken {
    /// # Panics
    /// In a release build, whose cores have no such switch.
    pub fn of(planted: Option<Planted>) -> Self {
        #[cfg(debug_assertions)]
        {
            osd_core::planted::plant(if let Some(Planted::Osd(bug)) = planted { Some(bug) } else { None });
            msgr::planted::plant(if let Some(Planted::Wire(bug)) = planted { Some(bug) } else { None });
            mon_core::planted::plant(if let Some(Planted::Mon(bug)) = planted { Some(bug) } else { None });
            objecter::planted::plant(if let Some(Planted::Client(bug)) = planted { Some(bug) } else { None });
            store_block::planted::plant(if let Some(Planted::Store(bug)) = planted { Some(bug) } else { None });
        }
        let is_of_core = planted.is_some_and(Planted::is_of_core);
        assert!(cfg!(debug_assertions) || !is_of_core, "a release build breaks no promise");
        Self
    }
    /// How often an OSD or a connection came to where its promise is broken.
    pub fn reached(&self) -> u64 {
        #[cfg(debug_assertions)]
        return osd_core::planted::reached()
            + msgr::planted::reached()
            + objecter::planted::reached()
            + store_block::planted::reached()
            + mon_core::planted::reached();
        #[cfg(not(debug_assertions))]
        0
    }
}
#[cfg(debug_assertions)]
impl Drop for Broken {
    fn drop(&mut self) {
        osd_core::planted::plant(None);
        msgr::planted::plant(None);
        mon_core::planted::plant(None);
        objecter::planted::plant(None);
        store_block::planted::plant(None);
    }
}

/// The same operation under another number: what a server that forgets duplicates would do with a resent one.
pub(crate) fn as_another_request(msg: &RawMessage) -> Option<RawMessage> {
    let mut op = (msg.kind == MOSDOp::KIND).then(|| MOSDOp::decode(msg).ok())??;
    op.tid += 1 << 40;
    op.reqid = Default::default();
    let raw = op.encode(types::features::SUPPORTED);
    let data = raw.data_flat();
    Some(RawMessage { data: if data.is_empty() { Vec::new() } else { vec![data] }, ..raw })
}

/// The answer to a replica's write, whatever becomes of that.
pub(crate) fn acknowledged(msg: &RawMessage, osd: i32) -> Option<RawMessage> {
    let m = (msg.kind == MOSDRepOp::KIND).then(|| MOSDRepOp::decode(msg).ok())??;
    let answer = MOSDRepOpReply {
        tid: m.tid,
        map_epoch: m.map_epoch,
        min_epoch: m.min_epoch,
        reqid: m.reqid,
        pgid: m.pgid,
        ack_type: types::osd_op::osd_flag::ONDISK as u8,
        from: PgShard::new(osd, m.pgid.shard),
        ..MOSDRepOpReply::default()
    };
    Some(answer.encode(types::features::SUPPORTED))
}
