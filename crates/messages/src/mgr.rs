//! What daemons, managers and monitors tell each other of state and figures; and commands to daemons (`ceph tell`).
//!
//! Source of the facts: Ceph 18.2 `src/messages/{MMgr*,MMonMgrReport,MPGStats*,MCommand*}.h`, `src/mgr/DaemonHealthMetric.h`,
//! `src/mon/{health_check,MonCommand,mon_types}.h`, `src/mgr/MgrClient.cc` (what `packed` holds).

use crate::macros::{front, open, too_old};
use crate::opaque::{Framed, Rest};
use crate::paxos::Paxos;
use crate::{Message, RawMessage};
use bytes::Bytes;
use denc::{DencError, denc_struct};
use std::collections::BTreeMap;
use types::{EntityAddrVec, Epoch, OsdStat, PgId, PgStat, PoolId, StoreStatfs, UTime, Uuid};

type Texts = BTreeMap<String, String>;

/// A daemon or client introduces itself to the manager.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MMgrOpen {
    pub daemon_name: String,
    /// Empty: what the entity's type says.
    pub service_name: String,
    /// Metadata and status of a daemon that shall appear in the service map.
    pub service: Option<(Texts, Texts)>,
    /// Its configuration as the manager shows it, encoded.
    pub config: Bytes,
    pub config_defaults: Bytes,
}

impl Message for MMgrOpen {
    const KIND: u16 = 0x700;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 3, 1, features, |e| {
            e.put(&self.daemon_name);
            e.put(&self.service_name);
            e.put(&self.service);
            e.put(&self.config);
            e.put(&self.config_defaults);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MMgrOpen", 3)?;
        let mut m = Self { daemon_name: d.get()?, ..Self::default() };
        if raw.version >= 2 {
            (m.service_name, m.service) = (d.get()?, d.get()?);
        }
        if raw.version >= 3 {
            (m.config, m.config_defaults) = (d.get()?, d.get()?);
        }
        Ok(m)
    }
}

/// A daemon's metadata changed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MMgrUpdate {
    pub daemon_name: String,
    pub service_name: String,
    /// Metadata and status, if they are to be replaced.
    pub service: Option<(Texts, Texts)>,
}

impl Message for MMgrUpdate {
    const KIND: u16 = 0x70b;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 2, 1, features, |e| {
            e.put(&self.daemon_name);
            e.put(&self.service_name);
            e.put(&self.service);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MMgrUpdate", 2)?;
        let mut m = Self { daemon_name: d.get()?, ..Self::default() };
        if raw.version >= 2 {
            (m.service_name, m.service) = (d.get()?, d.get()?);
        }
        Ok(m)
    }
}

/// What kind of counter it is, bits of [`PerfCounterType::kind`] (`PERFCOUNTER_*`).
pub mod perf_counter {
    /// Seconds; counted in nanoseconds.
    pub const TIME: u8 = 0x1;
    pub const U64: u8 = 0x2;
    /// Three values: the sum and twice the count.
    pub const LONGRUNAVG: u8 = 0x4;
    /// Only grows; without it a gauge.
    pub const COUNTER: u8 = 0x8;
    pub const HISTOGRAM: u8 = 0x10;

    pub const UNIT_BYTES: u8 = 0;
    pub const UNIT_NONE: u8 = 1;

    pub const PRIO_CRITICAL: u8 = 10;
    pub const PRIO_INTERESTING: u8 = 8;
    pub const PRIO_USEFUL: u8 = 5;
    pub const PRIO_UNINTERESTING: u8 = 2;
    pub const PRIO_DEBUGONLY: u8 = 0;
}

/// A counter as it is declared, once a session, before its values are sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PerfCounterType {
    /// `osd.op_w` and the like.
    pub path: String,
    pub description: String,
    pub nick: String,
    /// [`perf_counter`] bits.
    pub kind: u8,
    pub priority: u8,
    pub unit: u8,
}
denc_struct!(PerfCounterType, v 3, compat 1, { path, description, nick, kind, [since 2] priority, [since 3] unit });

/// What a daemon finds unhealthy about itself: slow ops, groups that are long in creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DaemonHealthMetric {
    /// 0 slow ops, 1 pending creating groups, 2 none.
    pub kind: u8,
    /// For slow ops: how many in the lower half, the oldest's age in seconds in the upper.
    pub value: u64,
}
denc_struct!(DaemonHealthMetric, v 1, compat 1, { kind, value });

message! {
    /// The manager tells a daemon how often to report, and which figures.
    MMgrConfigure = 0x701, v 4, compat 1 {
        stats_period_s: u32,
        /// Counters of a lower priority are not to be sent.
        [since 2] stats_threshold: u32,
        /// Queries of `rbd perf image` and the like, each with its limits.
        [since 3] osd_perf_queries: Vec<(Framed, Vec<Framed>)>,
        /// The same in the form that other daemons than OSDs have too.
        [since 4] metric_config: Option<Rest>,
    }

    /// A daemon's counters and state, every few seconds.
    MMgrReport = 0x702, v 9, compat 1 {
        daemon_name: String,
        declare: Vec<PerfCounterType>,
        /// A frame v1 with the values of all declared counters, sorted by path, 64 bits each ([`perf_counter::LONGRUNAVG`]: three).
        packed: Bytes,
        [since 2] undeclare: Vec<String>,
        [since 3] service_name: String,
        [since 3] daemon_status: Option<Texts>,
        [since 5] health: Vec<DaemonHealthMetric>,
        [since 6] config: Bytes,
        [since 7] osd_perf_reports: Vec<(Framed, Framed)>,
        [since 8] task_status: Option<Texts>,
        [since 9] metric_report: Option<Rest>,
    }

    /// A daemon ends its session, or the manager confirms that.
    MMgrClose = 0x708, v 1, compat 1 {
        daemon_name: String,
        service_name: String,
    }

    /// The monitors tell the manager what it can't know by itself.
    MMgrDigest = 0x705, v 1, compat 1 {
        mon_status_json: Bytes,
        health_json: Bytes,
    }
}

/// A command as the monitors know it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MonCommand {
    /// The signature: words and `name=...,type=...` arguments.
    pub signature: String,
    pub help: String,
    pub module: String,
    /// `r`, `rw`, `rx` ...
    pub perms: String,
    /// Always `cli,rest`.
    pub availability: String,
    pub flags: u64,
}
denc_struct!(MonCommand, v 1, compat 1, { signature, help, module, perms, availability, flags });

/// A manager's sign of life: the monitors choose the active one by it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MMgrBeacon {
    pub paxos: Paxos,
    pub server_addrs: EntityAddrVec,
    pub gid: u64,
    /// It is active and ready.
    pub available: bool,
    pub name: String,
    pub fsid: Uuid,
    pub module_names: Vec<String>,
    /// The commands that it serves; only while it becomes active.
    pub commands: Vec<MonCommand>,
    pub metadata: Texts,
    /// Addresses of its web interfaces.
    pub services: Texts,
    /// `MgrMap::ModuleInfo` each.
    pub modules: Vec<Framed>,
    pub mgr_features: u64,
    /// RADOS clients in the manager, for the blocklist when it fails over: addresses and, in the same order, names.
    pub client_addrs: Vec<EntityAddrVec>,
    pub client_names: Vec<String>,
}

impl Message for MMgrBeacon {
    const KIND: u16 = 0x703;
    fn encode(&self, features: u64) -> RawMessage {
        front(Self::KIND, 11, 8, features, |e| {
            e.put(&self.paxos);
            e.put(&self.server_addrs);
            e.u64(self.gid);
            e.bool(self.available);
            e.put(&self.name);
            e.put(&self.fsid);
            e.put(&self.module_names);
            e.put(&self.commands);
            e.put(&self.metadata);
            e.put(&self.services);
            e.put(&self.modules);
            e.u64(self.mgr_features);
            e.put(&self.client_addrs);
            e.put(&self.client_names);
        })
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MMgrBeacon", 11)?;
        if raw.version < 8 {
            return Err(too_old("MMgrBeacon", raw.version, 8));
        }
        let mut m = Self { paxos: d.get()?, server_addrs: d.get()?, gid: d.u64()?, available: d.bool()?, ..Self::default() };
        (m.name, m.fsid, m.module_names, m.commands) = (d.get()?, d.get()?, d.get()?, d.get()?);
        (m.metadata, m.services, m.modules) = (d.get()?, d.get()?, d.get()?);
        if raw.version >= 9 {
            m.mgr_features = d.u64()?;
        }
        if raw.version >= 10 {
            m.client_addrs = d.get()?;
        }
        if raw.version >= 11 {
            m.client_names = d.get()?;
            if m.client_names.len() != m.client_addrs.len() {
                return Err(d.invalid("as many clients' names as addresses"));
            }
        }
        Ok(m)
    }
}

/// One health warning (`health_check_t`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HealthCheck {
    /// 0 error, 1 warning, 2 ok.
    pub severity: u8,
    pub summary: String,
    pub detail: Vec<String>,
    pub count: i64,
}
denc_struct!(HealthCheck, v 2, compat 1, { severity, summary, detail, [since 2] count });

/// Warnings by code (`POOL_NO_REDUNDANCY` ...): `health_check_map_t`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HealthChecks {
    pub checks: BTreeMap<String, HealthCheck>,
}
denc_struct!(HealthChecks, v 1, compat 1, { checks });

/// A bar of `ceph status`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgressEvent {
    pub message: String,
    /// 0 to 1.
    pub progress: f32,
    pub show_in_status: bool,
}
denc_struct!(ProgressEvent, v 2, compat 1, { message, progress, [since 2] show_in_status });

message! {
    /// The active manager tells the monitors what it found; the data are an encoded PGMapDigest.
    MMonMgrReport = 0x706, v 3, compat 1, data {
        paxos: Paxos,
        health: HealthChecks,
        /// An encoded ServiceMap, or empty.
        service_map: Bytes,
        [since 2] progress: BTreeMap<String, ProgressEvent>,
        [since 3] gid: u64,
    }

    /// The state of an OSD and of the groups of which it is primary.
    MPGStats = 87, v 2, compat 1 {
        paxos: Paxos,
        fsid: Uuid,
        osd_stat: OsdStat,
        pg_stat: BTreeMap<PgId, PgStat>,
        epoch: Epoch,
        /// Not used any more; zero.
        had_map_for: UTime,
        /// By pool, if the store counts by pool; empty otherwise.
        [since 2] pool_stat: BTreeMap<PoolId, StoreStatfs>,
    }

    /// Which reports of groups arrived: version and epoch of each.
    MPGStatsAck = 88, v 1, compat 1 {
        pg_stat: BTreeMap<PgId, (u64, Epoch)>,
    }

    /// A command for an OSD or manager: JSON texts, and input data.
    MCommand = 97, v 1, compat 1, tid, data {
        fsid: Uuid,
        cmd: Vec<String>,
    }

    /// The answer to a [`MCommand`]: its output is the data.
    MCommandReply = 98, v 1, compat 1, tid, data {
        result: i32,
        status: String,
    }

    /// A command for the manager, as clients since Octopus send it.
    MMgrCommand = 0x709, v 1, compat 1, tid, data {
        fsid: Uuid,
        cmd: Vec<String>,
    }

    /// The answer to a [`MMgrCommand`].
    MMgrCommandReply = 0x70a, v 1, compat 1, tid, data {
        result: i32,
        status: String,
    }
}
