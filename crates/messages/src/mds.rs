//! What metadata servers tell the monitors of themselves, and the map that they and their clients get.
//!
//! Source of the facts: Ceph 18.2 `src/messages/{MMDSBeacon,MMDSMap,MMDSLoadTargets}.h`.

use crate::macros::{front, open, too_old};
use crate::paxos::Paxos;
use crate::raw::priority;
use crate::{Message, RawMessage};
use bytes::Bytes;
use denc::{DencError, denc_struct};
use std::collections::{BTreeMap, BTreeSet};
use types::{CompatSet, Epoch, Uuid};

/// Something that a server finds wrong with itself or its clients (`MDSHealthMetric`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MdsHealthMetric {
    pub kind: u16,
    /// 0 error, 1 warning, 2 ok.
    pub severity: u8,
    pub message: String,
    pub metadata: BTreeMap<String, String>,
}
denc_struct!(MdsHealthMetric, v 1, compat 1, { kind, severity, message, metadata });

/// `MDSHealth`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MdsHealth {
    pub metrics: Vec<MdsHealthMetric>,
}
denc_struct!(MdsHealth, v 1, compat 1, { metrics });

/// A server's sign of life, with the state that it is in or wants; the monitor's answer is one, too.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MMDSBeacon {
    /// The epoch of the map that the server has.
    pub paxos: Paxos,
    pub fsid: Uuid,
    pub gid: u64,
    /// `CEPH_MDS_STATE_*`.
    pub state: i32,
    pub seq: u64,
    pub name: String,
    pub compat: CompatSet,
    pub health: MdsHealth,
    /// What it runs on: only while it boots.
    pub sys_info: BTreeMap<String, String>,
    pub mds_features: u64,
    /// The file system that it would rather serve; empty: any.
    pub fs: String,
}

impl MMDSBeacon {
    /// The state in which `sys_info` is on the wire.
    const BOOT: i32 = -4;
}

impl Message for MMDSBeacon {
    const KIND: u16 = 100;
    fn encode(&self, features: u64) -> RawMessage {
        let mut raw = front(Self::KIND, 8, 6, features, |e| {
            e.put(&self.paxos);
            e.put(&self.fsid);
            e.u64(self.gid);
            e.i32(self.state);
            e.u64(self.seq);
            e.put(&self.name);
            // The rank and the name that it once stood by for.
            e.i32(-1);
            e.count(0);
            e.put(&self.compat);
            e.put(&self.health);
            if self.state == Self::BOOT {
                e.put(&self.sys_info);
            }
            e.u64(self.mds_features);
            e.i32(-1);
            e.bool(false);
            e.put(&self.fs);
        });
        raw.priority = priority::HIGH;
        raw
    }
    fn decode(raw: &RawMessage) -> Result<Self, DencError> {
        let d = &mut open(raw, "MMDSBeacon", 8)?;
        if raw.version < 7 {
            return Err(too_old("MMDSBeacon", raw.version, 7));
        }
        let mut m = Self { paxos: d.get()?, fsid: d.get()?, gid: d.u64()?, state: d.i32()?, seq: d.u64()?, ..Self::default() };
        m.name = d.string()?;
        d.skip(4)?;
        d.skip_blob()?;
        (m.compat, m.health) = (d.get()?, d.get()?);
        if m.state == Self::BOOT {
            m.sys_info = d.get()?;
        }
        m.mds_features = d.u64()?;
        d.skip(5)?;
        if raw.version >= 8 {
            m.fs = d.string()?;
        }
        Ok(m)
    }
}

message! {
    /// The map of one file system's servers.
    MMDSMap = 21, v 2, compat 1 {
        fsid: Uuid,
        epoch: Epoch,
        /// An encoded MDSMap.
        map: Bytes,
        /// Empty.
        [since 2] map_fs_name: String,
    }

    /// The ranks to which a server would move load.
    MMDSLoadTargets = 522, v 1, compat 0 {
        paxos: Paxos,
        gid: u64,
        targets: BTreeSet<i32>,
    }
}
