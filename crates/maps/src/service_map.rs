//! The map of services that are no Ceph daemons proper (gateways, mirrors), as the manager publishes it.
//!
//! Source of the encodings: Ceph 18.2 `src/mgr/ServiceMap.cc`.

use denc::denc_struct;
use std::collections::BTreeMap;
use types::{EntityAddr, Epoch, UTime};

/// `ServiceMap::Daemon`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Daemon {
    pub gid: u64,
    pub addr: EntityAddr,
    /// First epoch that it was in.
    pub start_epoch: Epoch,
    pub start_stamp: UTime,
    pub metadata: BTreeMap<String, String>,
    pub task_status: BTreeMap<String, String>,
}
denc_struct!(Daemon, v 2, compat 1, { gid, addr, start_epoch, start_stamp, metadata, [since 2] task_status });

/// `ServiceMap::Service`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Service {
    pub daemons: BTreeMap<String, Daemon>,
    /// What `ceph -s` shows instead of a count, unless empty.
    pub summary: String,
}
denc_struct!(Service, v 1, compat 1, { daemons, summary });

/// `ServiceMap`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceMap {
    pub epoch: Epoch,
    pub modified: UTime,
    pub services: BTreeMap<String, Service>,
}
denc_struct!(ServiceMap, v 1, compat 1, { epoch, modified, services });
