//! What goes into an [`crate::Osd`] and what comes out: one vocabulary for every shell and for tests.

use base::Permit;
use cephx::caps::OsdCap;
use messages::RawMessage;
use std::collections::BTreeMap;
use types::{EntityAddr, EntityAddrVec, EntityName, Epoch, OsdId};

/// A connection as the shell numbers it; never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// The peer at the other end of a connection. Known when its handshake is over and true until it is closed.
#[derive(Debug, Clone)]
pub struct Peer {
    /// A client's number is its global_id.
    pub name: EntityName,
    /// `client.admin`: the name in the ticket. Empty without authentication.
    pub entity: String,
    pub global_id: u64,
    /// Feature bits that both ends have.
    pub features: u64,
    /// Feature bits that it has, also those that we lack.
    pub supported: u64,
    /// As it says, with its nonce: what watchers and the blocklist name, and an OSD's map.
    pub addr: EntityAddr,
    /// The other end of its socket, whatever it says: where capabilities for a network are good.
    pub from: EntityAddr,
    /// Where it dialled us, or we it.
    pub network: Network,
    /// The `osd` capability of its ticket; `None`: everything is allowed.
    pub cap: Option<OsdCap>,
}

/// Which of the networks on which OSDs ping each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HbNet {
    /// Where clients are.
    Front,
    /// Where only OSDs are.
    Back,
}

/// The networks on which an OSD listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Network {
    /// Clients, monitors, managers.
    Public = 0,
    /// Other OSDs.
    Cluster = 1,
    HbFront = 2,
    HbBack = 3,
}

impl Network {
    pub const ALL: [Network; 4] = [Network::Public, Network::Cluster, Network::HbFront, Network::HbBack];

    /// Which of the heartbeats' networks it is, if it is one.
    #[inline]
    pub(crate) fn heartbeats(self) -> Option<HbNet> {
        match self {
            Self::HbFront => Some(HbNet::Front),
            Self::HbBack => Some(HbNet::Back),
            Self::Public | Self::Cluster => None,
        }
    }
}

/// One thing that happens to an OSD.
#[derive(Debug)]
pub enum Event {
    /// A peer's handshake is over.
    Connected { conn: ConnId, peer: Peer },
    /// A connection is gone, with what was sent on it and not yet there.
    Reset { conn: ConnId },
    /// A message of a connected peer (client, other OSD, manager that dialled us).
    Message { conn: ConnId, msg: RawMessage },
    /// A client's MOSDOp, with what it holds of the OSD's budget.
    Request { conn: ConnId, msg: RawMessage, permit: Option<Permit> },
    /// A message of the monitor that the shell's MonClient doesn't keep to itself: MOSDMap, MOSDPGCreate2, ...
    Mon(RawMessage),
    /// We have a session with the active manager.
    MgrConnected,
    /// A message on our connection to the manager.
    Mgr(RawMessage),
    /// A message on a connection of one of the heartbeat networks, dialled or accepted.
    Heartbeat { conn: ConnId, net: HbNet, msg: RawMessage },
    /// Nothing listens at this address of another OSD's, be it for heartbeats or for members' messages.
    PeerRefused { addrs: EntityAddrVec },
    /// A heartbeat connection that we dialled to this address was cut, or did not come about for another reason than a refusal.
    HeartbeatCut { net: HbNet, addrs: EntityAddrVec },
    /// A message of another OSD on a connection that we dialled.
    Osd { osd: OsdId, msg: RawMessage },
    /// A session with a monitor is open, for the first time or again: what it has not answered is sent again.
    MonConnected,
    /// Our options as the monitors have them, all of them.
    MonConfig(BTreeMap<String, String>),
    /// What was read at once has all been handed in: commits are taken and replies go out.
    TurnEnd,
    /// About once a second.
    Tick,
    /// The time of [`crate::Osd::due_at`] has come.
    Due,
    /// The shell could listen and log in: the OSD may boot with these addresses. Later ones name the metadata of its next boot.
    Boot(Box<BootInfo>),
    /// The monitor's answer to the version question of [`Effect::AskMapVersions`].
    MapVersions { oldest: Epoch, newest: Epoch },
    /// What [`Effect::Continue`] asked for.
    Continue,
    /// A configuration value that the monitor sends or a user sets.
    Config { name: String, value: String },
    /// Bytes that the process can spare for the store's caches, whatever options say.
    SpareForCaches(u64),
    /// Going down in order: told to the monitor.
    Shutdown,
}

/// What the shell knows when it may boot.
#[derive(Debug, Clone, Default)]
pub struct BootInfo {
    pub public: EntityAddrVec,
    pub cluster: EntityAddrVec,
    pub hb_front: EntityAddrVec,
    pub hb_back: EntityAddrVec,
    /// Host name, kernel, memory ...: what `ceph osd metadata` shows beside what the core adds.
    pub metadata: Vec<(String, String)>,
}

/// How loud a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

/// What a command wants to know of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceQuestion {
    /// Their names and ids.
    List,
    /// What they say of their health: the one with this id, or all if it is empty.
    Smart { only: String, timeout_s: u64 },
}

/// One thing that the shell has to do, in the order given.
#[derive(Debug)]
pub enum Effect {
    Send {
        conn: ConnId,
        msg: RawMessage,
    },
    /// To whichever monitor we have a session with; kept until there is one.
    SendMon(RawMessage),
    /// To the active manager; dropped when there is none.
    SendMgr(RawMessage),
    /// To another OSD by its cluster address (lossless, dialled when needed).
    SendOsd {
        osd: OsdId,
        addrs: EntityAddrVec,
        msg: RawMessage,
    },
    /// A question to another OSD by its public address, as a client asks it: what is lost with its session is asked anew. An OSD takes requests on
    /// sessions that were dialled with a ticket, which its own dial to our cluster address was not.
    AskOsd {
        osd: OsdId,
        addrs: EntityAddrVec,
        msg: RawMessage,
    },
    /// A ping to another OSD's heartbeat address on that network.
    SendHeartbeat {
        osd: OsdId,
        net: HbNet,
        addrs: EntityAddrVec,
        msg: RawMessage,
    },
    Close(ConnId),
    /// We live, and the map has ended this life: from here on we have these addresses on the OSDs' network, and none of the sessions there.
    RenewCluster {
        addrs: EntityAddrVec,
    },
    /// A command about the devices under the store: the shell answers it, with [`crate::command_output`].
    AskDevices {
        conn: ConnId,
        tid: u64,
        question: DeviceQuestion,
    },
    /// Asks the monitor for maps from this epoch on, all that come.
    SubscribeMaps {
        from: Epoch,
    },
    /// Asks the monitor for its range of maps: answered by [`Event::MapVersions`].
    AskMapVersions,
    /// Asks the monitor for what to create from this epoch on.
    SubscribeCreates {
        from: Epoch,
    },
    /// The core has more to do and wants its turn again at once, after what else is waiting.
    Continue,
    /// The monitor has us up.
    Booted {
        epoch: Epoch,
    },
    /// A line for the log.
    Log {
        level: Level,
        text: String,
    },
    /// A line for the cluster log.
    ClusterLog {
        level: Level,
        text: String,
    },
    /// The OSD is over: the shell ends. With a reason if it is a failure.
    Stop {
        why: Option<String>,
    },
}
