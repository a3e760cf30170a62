//! What clients and daemons ask the monitors, and the answers: maps and subscriptions, authentication, commands, versions, statistics,
//! pool operations, configuration and the cluster log.
//!
//! Source of the facts: Ceph 18.2 `src/messages/{MMon*,MAuth*,MStatfs*,MGetPoolStats*,MPoolOp*,MLog*,MConfig,MGetConfig,MKVData,MFSMap*}.h`,
//! `src/common/LogEntry.cc`, `src/include/ceph_fs.h`.

use crate::macros::{front, open, too_old};
use crate::opaque::Rest;
use crate::paxos::Paxos;
use crate::{Message, RawMessage};
use bytes::Bytes;
use denc::{ByteStr, DencError, denc_struct};
use std::collections::BTreeMap;
use types::{EntityAddrVec, EntityName, EntityText, Epoch, IntervalSet, PoolId, PoolStat, SnapId, UTime, Uuid};

message! {
    /// Nothing but a sign of life.
    MPing = 2, v 1, compat 1 {}

    /// Asks for the monitor map.
    MMonGetMap = 5, v 1, compat 1 {}

    /// The monitor map.
    MMonMap = 4, v 1, compat 1 {
        /// An encoded MonMap.
        monmap: Bytes,
    }
}

/// One thing that is subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubscribeItem {
    /// The first version wanted; 0: the newest.
    pub start: u64,
    /// [`SUBSCRIBE_ONETIME`] or 0.
    pub flags: u8,
}
denc_struct!(SubscribeItem, bare, { start, flags });

/// The subscription ends with the first answer.
pub const SUBSCRIBE_ONETIME: u8 = 1;

impl SubscribeItem {
    pub const fn onetime(&self) -> bool {
        self.flags & SUBSCRIBE_ONETIME != 0
    }
}

/// Subscribes to maps and other news by name: `osdmap`, `monmap`, `mgrmap`, `config`, `log-info`, `kv:prefix` ...
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MMonSubscribe {
    pub what: BTreeMap<String, SubscribeItem>,
    /// Where the subscriber runs, by which configuration may differ.
    pub hostname: String,
}

impl Message for MMonSubscribe {
    const KIND: u16 = 15;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 3, 1, features, |e| {
            e.put(&self.what);
            e.put(&self.hostname);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MMonSubscribe", 3)?;
        if raw.version < 2 {
            return Err(too_old("MMonSubscribe", raw.version, 2));
        }
        Ok(Self { what: d.get()?, hostname: if raw.version >= 3 { d.get()? } else { String::new() } })
    }
}

message! {
    /// Sent only to clients without MON_STATEFUL_SUB, which renew their subscriptions.
    MMonSubscribeAck = 16, v 1, compat 1 {
        interval_s: u32,
        fsid: Uuid,
    }

    /// Authentication above the messenger: what msgr1 and renewals of tickets use.
    MAuthReply = 18, v 1, compat 1 {
        protocol: u32,
        /// 0 or a negative errno.
        result: i32,
        global_id: u64,
        payload: Bytes,
        message: String,
    }
}

/// Authentication above the messenger: renewals of tickets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MAuth {
    pub paxos: Paxos,
    /// `CEPH_AUTH_*`; 0: the payload lists what the client can do.
    pub protocol: u32,
    pub payload: Bytes,
    pub monmap_epoch: Epoch,
}

impl Message for MAuth {
    const KIND: u16 = 17;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 1, 1, features, |e| {
            e.put(&self.paxos);
            e.u32(self.protocol);
            e.blob(&self.payload);
            e.u32(self.monmap_epoch);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MAuth", 1)?;
        let (paxos, protocol, payload) = (d.get()?, d.u32()?, d.blob()?);
        Ok(Self { paxos, protocol, payload, monmap_epoch: if d.is_empty() { 0 } else { d.u32()? } })
    }
}

message! {
    /// A command for the monitor: JSON texts, and input data.
    MMonCommand = 50, v 1, compat 1, tid, data {
        paxos: Paxos,
        fsid: Uuid,
        cmd: Vec<String>,
    }

    /// The answer to a [`MMonCommand`]: its output is the data.
    MMonCommandAck = 51, v 1, compat 1, tid, data {
        paxos: Paxos,
        /// 0, a positive result, or a negative errno.
        result: i32,
        /// The line for people.
        status: String,
        cmd: Vec<String>,
    }

    /// Asks which versions of a map there are.
    MMonGetVersion = 19, v 1, compat 1 {
        /// The asker's number, which the answer repeats.
        handle: u64,
        what: String,
    }

    /// The answer to a [`MMonGetVersion`].
    MMonGetVersionReply = 20, v 2, compat 2 {
        handle: u64,
        version: u64,
        [since 2] oldest: u64,
    }

    /// Asks how full the cluster is, or one pool.
    MStatfs = 13, v 2, compat 1, tid {
        paxos: Paxos,
        fsid: Uuid,
        [since 2] data_pool: Option<PoolId>,
    }

    /// The answer to a [`MStatfs`].
    MStatfsReply = 14, v 1, compat 1, tid {
        fsid: Uuid,
        version: u64,
        total_kib: u64,
        used_kib: u64,
        avail_kib: u64,
        objects: u64,
    }

    /// Asks for statistics of pools by name.
    MGetPoolStats = 58, v 1, compat 1, tid {
        paxos: Paxos,
        fsid: Uuid,
        pools: Vec<String>,
    }

    /// The answer to a [`MGetPoolStats`].
    MGetPoolStatsReply = 59, v 2, compat 1, tid {
        paxos: Paxos,
        fsid: Uuid,
        stats: BTreeMap<String, PoolStat>,
        /// What is used was counted by pool, not estimated.
        [since 2] per_pool: bool,
    }
}

/// `POOL_OP_*`.
pub mod pool_op {
    pub const CREATE: u32 = 0x01;
    pub const DELETE: u32 = 0x02;
    pub const AUID_CHANGE: u32 = 0x03;
    pub const CREATE_SNAP: u32 = 0x11;
    pub const DELETE_SNAP: u32 = 0x12;
    pub const CREATE_UNMANAGED_SNAP: u32 = 0x21;
    pub const DELETE_UNMANAGED_SNAP: u32 = 0x22;
}

/// An operation on a pool by a client: snapshots mostly.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MPoolOp {
    pub tid: u64,
    pub paxos: Paxos,
    pub fsid: Uuid,
    /// 32 bits wide here.
    pub pool: u32,
    /// [`pool_op`].
    pub op: u32,
    pub snapid: SnapId,
    /// Of the pool or the snapshot, as the operation has it.
    pub name: String,
    pub crush_rule: i16,
}

impl Message for MPoolOp {
    const KIND: u16 = 49;
    fn encode(&self, features: u64) -> RawMessage {
        let raw = front(Self::KIND, 4, 2, features, |e| {
            e.put(&self.paxos);
            e.put(&self.fsid);
            e.u32(self.pool);
            e.u32(self.op);
            // The owner's number (auid), gone since Nautilus.
            e.u64(0);
            e.u64(self.snapid);
            e.put(&self.name);
            e.u8(0);
            e.u16(self.crush_rule as u16);
        });
        RawMessage { tid: self.tid, ..raw }
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MPoolOp", 4)?;
        if raw.version < 4 {
            return Err(too_old("MPoolOp", raw.version, 4));
        }
        let (paxos, fsid, pool, op) = (d.get()?, d.get()?, d.u32()?, d.u32()?);
        d.skip(8)?;
        let (snapid, name) = (d.u64()?, d.get()?);
        d.skip(1)?;
        Ok(Self { tid: raw.tid, paxos, fsid, pool, op, snapid, name, crush_rule: d.i16()? })
    }
}

message! {
    /// The answer to a [`MPoolOp`].
    MPoolOpReply = 48, v 1, compat 1, tid {
        paxos: Paxos,
        fsid: Uuid,
        /// 0 or a negative errno.
        result: i32,
        /// The OSD map in which it shows.
        epoch: Epoch,
        /// The number of a snapshot that was made, encoded.
        response: Option<Bytes>,
    }
}

/// A line of the cluster log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogEntry {
    pub name: EntityText,
    pub rank: EntityName,
    pub addrs: EntityAddrVec,
    pub stamp: UTime,
    pub seq: u64,
    /// [`log_level`].
    pub level: u16,
    pub text: ByteStr,
    /// `cluster`, `audit`, `cephadm` ...
    pub channel: String,
}
denc_struct!(LogEntry, v 5, compat 5, { name, rank, addrs, stamp, seq, level, text, channel });

/// `clog_type`.
pub mod log_level {
    pub const DEBUG: u16 = 0;
    pub const INFO: u16 = 1;
    pub const SEC: u16 = 2;
    pub const WARN: u16 = 3;
    pub const ERROR: u16 = 4;

    /// The tag in front of a line of the cluster log.
    pub const fn tag(level: u16) -> &'static str {
        match level {
            DEBUG => "[DBG]",
            INFO => "[INF]",
            SEC => "[SEC]",
            WARN => "[WRN]",
            ERROR => "[ERR]",
            _ => "[???]",
        }
    }
}

message! {
    /// Lines for the cluster log; also what `ceph -w` gets for its subscription.
    MLog = 52, v 1, compat 1 {
        paxos: Paxos,
        fsid: Uuid,
        entries: Vec<LogEntry>,
    }

    /// The configuration of the receiver, whole.
    MConfig = 62, v 1, compat 1 {
        config: BTreeMap<String, String>,
    }

    /// Asks for the configuration of a daemon or client that has no session yet.
    MGetConfig = 63, v 1, compat 1 {
        name: EntityText,
        host: String,
        device_class: String,
    }

    /// Keys and values of the monitors' store under a prefix that is subscribed to.
    MKVData = 54, v 1, compat 1 {
        version: u64,
        prefix: String,
        /// The data are changes, not everything.
        incremental: bool,
        /// `None` for a key that is gone.
        data: BTreeMap<ByteStr, Option<Bytes>>,
    }

    /// The map of managers.
    MMgrMap = 0x704, v 1, compat 1 {
        /// An encoded MgrMap.
        map: Rest,
    }

    /// The map of file systems.
    MFSMap = 45, v 1, compat 1 {
        epoch: Epoch,
        /// An encoded FSMap.
        map: Rest,
    }

    /// The names of file systems.
    MFSMapUser = 103, v 1, compat 1 {
        epoch: Epoch,
        /// An encoded FSMapUser.
        map: Rest,
    }

    /// The map of services (rgw, rbd-mirror ...).
    MServiceMap = 0x707, v 1, compat 1 {
        /// An encoded ServiceMap.
        map: Rest,
    }

    /// Asks for the maps of a range of epochs as a whole, and for the changes of another; 0 to 0 is none. `MMonGetOSDMap.h` of 18.2.
    MMonGetOSDMap = 6, v 1, compat 0 {
        paxos: Paxos,
        full_first: Epoch,
        full_last: Epoch,
        inc_first: Epoch,
        inc_last: Epoch,
    }

    /// Asks which snapshots were purged in a range of epochs.
    MMonGetPurgedSnaps = 76, v 1, compat 1 {
        paxos: Paxos,
        start: Epoch,
        last: Epoch,
    }

    /// The answer to a [`MMonGetPurgedSnaps`], perhaps of fewer epochs than asked for.
    MMonGetPurgedSnapsReply = 77, v 1, compat 1 {
        paxos: Paxos,
        start: Epoch,
        last: Epoch,
        purged: BTreeMap<Epoch, BTreeMap<PoolId, IntervalSet>>,
    }
}

/// So a line for the cluster log begins with which an OSD says why it ends by itself: the cause, and the next step, follow. Humboldt's monitor shows it
/// in health as long as that OSD is down.
pub const LEAVES: &str = "leaves the cluster: ";

/// The monitors have the log entries of a channel up to a number.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MLogAck {
    pub fsid: Uuid,
    pub last: u64,
    pub channel: String,
}

impl Message for MLogAck {
    const KIND: u16 = 53;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 1, 1, features, |e| {
            e.put(&self.fsid);
            e.u64(self.last);
            e.put(&self.channel);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MLogAck", 1)?;
        let (fsid, last) = (d.get()?, d.u64()?);
        Ok(Self { fsid, last, channel: if d.is_empty() { String::new() } else { d.get()? } })
    }
}
