//! Which daemon a command is for.

use bytes::Bytes;
use client::{ClientError, Cluster, CommandOutput};
use std::fmt;
use types::{OsdId, PgId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The cluster: any monitor.
    Monitors,
    /// The cluster's manager, for commands that the monitors' descriptions mark as its.
    Manager,
    Mon(String),
    Mgr,
    Osd(OsdId),
    Pg(PgId),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Monitors => f.write_str("mon."),
            Self::Manager | Self::Mgr => f.write_str("mgr."),
            Self::Mon(name) => write!(f, "mon.{name}"),
            Self::Osd(id) => write!(f, "osd.{id}"),
            Self::Pg(pg) => write!(f, "pg.{pg}"),
        }
    }
}

impl Target {
    /// True for a single daemon, whose own commands are meant.
    pub fn is_daemon(&self) -> bool {
        !matches!(self, Self::Monitors | Self::Manager)
    }
    /// Why it can't be reached and what to do, as far as the cluster's maps say.
    pub fn advice(&self, cluster: &Cluster) -> Option<String> {
        let map = cluster.map();
        Some(match self {
            Self::Osd(id) if !map.exists(*id) => format!("the cluster has no osd.{id}: `ceph osd tree` lists those that it has"),
            Self::Osd(id) if !map.is_up(*id) => {
                format!("osd.{id} is down: start it on its machine; `ceph osd find {id}` names the machine")
            }
            Self::Pg(pg) if map.pool(pg.pool).is_none_or(|pool| pg.seed >= pool.pg_num) => {
                format!("the cluster has no placement group {pg}: `ceph pg ls` lists those that it has")
            }
            Self::Pg(_) => "its OSDs may be down: `ceph health detail` names the groups that do not serve, `ceph osd tree` the OSDs".into(),
            Self::Mon(name) if !cluster.monitors().iter().any(|(mon, _)| mon == name) => {
                format!("the cluster has no mon.{name}: `ceph mon dump` lists those that it has")
            }
            Self::Mgr | Self::Manager => "`ceph mgr stat` says which manager is active, if any".into(),
            _ => return None,
        })
    }
    pub async fn send(&self, cluster: &Cluster, request: &str, input: Bytes) -> Result<CommandOutput, ClientError> {
        match self {
            Self::Monitors => cluster.mon_command(request, input).await,
            Self::Manager => cluster.mgr_command(request, input).await,
            Self::Mon(name) => cluster.tell_mon(name, request, input).await,
            Self::Mgr => cluster.tell_mgr(request, input).await,
            Self::Osd(id) => cluster.tell_osd(*id, request, input).await,
            Self::Pg(pg) => {
                let mut request: serde_json::Value = serde_json::from_str(request).unwrap_or_default();
                // Its OSD has others, too.
                request["pgid"] = pg.to_string().into();
                cluster.tell_pg(*pg, &request.to_string(), input).await
            }
        }
    }
}

/// The daemons that a name stands for.
fn named(cluster: &Cluster, name: &str) -> Result<Vec<Target>, String> {
    if let Some(pg) = PgId::parse(name) {
        return Ok(vec![Target::Pg(pg)]);
    }
    let monitors = || cluster.monitors().into_iter().map(|(name, _)| Target::Mon(name));
    match name.split_once('.').unwrap_or((name, "")) {
        ("mon", "") => Ok(monitors().take(1).collect()),
        ("mon", "*") => Ok(monitors().collect()),
        ("mon", id) => Ok(vec![Target::Mon(id.into())]),
        // There is one that answers, whatever it is called.
        ("mgr", _) => Ok(vec![Target::Mgr]),
        ("osd", "*") => Ok(cluster.map().osds().map(Target::Osd).collect()),
        ("osd", id) => id.parse::<u32>().map(|id| vec![Target::Osd(id as OsdId)]).map_err(|_| format!("osd id {id} not integer")),
        ("mds", _) => Err("commands to metadata servers are not supported: use `ceph daemon mds.ID` on their machine".into()),
        (kind, "") => Err(format!("CephName: no . in {kind}")),
        (kind, _) => Err(format!("unknown type {kind}")),
    }
}

/// Where the words go, and what is left of them.
pub async fn of(cluster: &Cluster, mut words: Vec<String>) -> Result<(Vec<Target>, Vec<String>), String> {
    match words.first().map(String::as_str) {
        Some("tell") if words.len() > 1 => {
            // The map says which OSDs there are.
            let _ = cluster.wait_for_newest_map().await;
            let targets = named(cluster, &words[1])?;
            Ok((targets, words.split_off(2)))
        }
        Some("pg") => match words.get(1).and_then(|w| PgId::parse(w)) {
            Some(pg) => {
                let _ = cluster.wait_for_newest_map().await;
                Ok((vec![Target::Pg(pg)], words))
            }
            None => Ok((vec![Target::Monitors], words)),
        },
        _ => Ok((vec![Target::Monitors], words)),
    }
}
