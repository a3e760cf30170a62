//! What goes into a [`crate::Daemon`] and what comes out: what a process does with its sockets, timers and devices.

pub use crate::event::Network;
use crate::event::{ConnId, DeviceQuestion, Level, Peer};
use base::{Permit, Stamp};
use messages::RawMessage;
use serde_json::Value;
use std::time::Duration;
use types::{EntityAddrVec, EntityKind, EntityName, Epoch};

/// The highest bit of a connection's number: the daemon gave it. Shells number what they accept below it.
const OWN: u64 = 1 << 63;
/// Beside [`OWN`]: a command of this machine, which is a session of its own.
const ADMIN: u64 = 1 << 62;
const _: () = assert!(OWN & ADMIN == 0);

impl ConnId {
    pub(super) fn dialled(number: u64) -> Self {
        Self(OWN | number)
    }
    pub(super) fn admin(id: u64) -> Self {
        Self(OWN | ADMIN | id)
    }
    /// True for the number of a dial of the daemon's own: [`Effect::Dial`].
    #[inline]
    pub fn is_dialled(self) -> bool {
        self.0 & (OWN | ADMIN) == OWN
    }
    /// The number of the machine's command that this session is for.
    #[inline]
    pub(super) fn admin_id(self) -> Option<u64> {
        (self.0 & (OWN | ADMIN) == OWN | ADMIN).then_some(self.0 & !(OWN | ADMIN))
    }
}

/// Why a dial failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DialFailure {
    /// Nothing listens there.
    Refused,
    /// Authentication failed: a positive errno.
    Denied(i32),
    /// Nothing that says whether the other side is there.
    Other,
}

/// One thing that happens to a daemon.
#[derive(Debug)]
pub enum Event {
    /// The process listens and has its store: a monitor is looked for.
    Start,
    /// A peer that dialled us has a session, its first or a new one.
    Accepted { conn: ConnId, peer: Peer },
    /// The session that was accepted was opened by a ticket of one of this kind, which lasts so long from now on.
    TicketLasts { conn: ConnId, kind: EntityKind, lasts: Duration },
    /// A dial of ours has a session, its first or a new one.
    Opened { conn: ConnId, peer: Peer },
    /// A session is over that the daemon did not close.
    Reset { conn: ConnId },
    /// A dial failed for the `attempts`th time in a row; the messenger tries on with its own pauses unless the daemon closes it.
    DialFailed { conn: ConnId, why: DialFailure, attempts: u32 },
    /// A message other than an MOSDOp, or one of a heartbeat network.
    Message { conn: ConnId, network: Network, msg: RawMessage },
    /// An MOSDOp, with what it holds of the OSD's budget.
    Request { conn: ConnId, msg: RawMessage, permit: Option<Permit> },
    /// What was read at once has all been handed in, or the store may have something to say.
    TurnEnd,
    /// When the keepalive that [`Effect::Keepalive`] asked for, and that was answered last, was sent: nanoseconds since 1970.
    KeepaliveAcked { sent_wall_ns: u64 },
    /// The time that [`Effect::WakeAt`] named last has come.
    Time,
    /// What [`Effect::Continue`] asked for.
    Continue,
    /// A command through the admin socket, which may do everything, as JSON; answered by [`Effect::AnswerAdmin`].
    AdminCommand { id: u64, command: String },
    /// The answer to [`Effect::AskDevices`].
    DevicesTold { conn: ConnId, tid: u64, told: Value },
    /// Bytes that the process can spare for the store's caches, whatever options say.
    SpareForCaches(u64),
    /// Going down in order: told to the monitor, whose word is waited for a while.
    Shutdown,
    /// A line for the cluster log about what the shell has seen.
    Seen { level: Level, text: String },
    /// The daemon is over for a reason that the shell knows, and perhaps by [`Effect::Stop`] already: why goes to the cluster log, and the rest is as
    /// with a shutdown. Another [`Effect::Stop`] follows, without a reason.
    LastWords { why: String },
}

/// One thing that the shell has to do, in the order given.
#[derive(Debug)]
pub enum Effect {
    /// Dials, and calls the connection by this number from now on. Where the messenger has a session with this peer already (`lossless` ones are
    /// found by their address), that one has this number, too. A peer of another kind or number (-1: any) is not the one that is meant.
    Dial { conn: ConnId, network: Network, name: EntityName, addrs: EntityAddrVec, lossless: bool },
    /// On a connection that was accepted or dialled; what is sent before the session is open waits for it. Dropped if the connection is no more.
    Send { conn: ConnId, msg: RawMessage },
    /// Asks the peer for a sign of life, which is told by [`Event::KeepaliveAcked`] before each [`Event::Time`].
    Keepalive { conn: ConnId },
    /// Ends a connection, or gives a dial up. No [`Event::Reset`] follows.
    Close { conn: ConnId },
    /// The messenger of the OSDs' network has these addresses from now on: the sockets stay, the nonce is another. All its connections end, half-open
    /// ones, too, and what waits in them is dropped. [`Event::Reset`] follows for each.
    RenewCluster { addrs: EntityAddrVec },
    /// [`Event::Time`] is due then, and not at the time that was named before.
    WakeAt(Stamp),
    /// The daemon wants [`Event::Continue`] at once, after what else is waiting.
    Continue,
    /// The monitor has us up, for the first time or again.
    Booted { epoch: Epoch },
    /// A line for the log.
    Log { level: Level, text: String },
    /// A question about the devices under the store, for [`Event::DevicesTold`].
    AskDevices { conn: ConnId, tid: u64, question: DeviceQuestion },
    /// The answer to [`Event::AdminCommand`]: 0 or a negative errno, a line, and output.
    AnswerAdmin { id: u64, result: i32, status: String, data: Vec<u8> },
    /// The daemon is over, once: the shell ends. With a reason if it is a failure.
    Stop { why: Option<String> },
}
