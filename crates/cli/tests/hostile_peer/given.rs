//! Daemons of another process, or of stock: a cluster by its `ceph.conf`, and the one OSD of it that is under test.
//!
//! Absent: starting them (`cargo xtask clients` does), and any word about the others' health: those are not ours to judge.

use cephx::Keyring;
use objecter::Conf;
use std::net::SocketAddr;
use types::{EntityAddr, EntityText};

/// Names the `ceph.conf` of the cluster, whose keyring has client.admin.
const CONF: &str = "HUMBOLDT_ROGUE_CONF";
/// The process of its osd.0.
const PROCESS: &str = "HUMBOLDT_ROGUE_OSD";

pub struct Given {
    pub mon: SocketAddr,
    pub keyring: Keyring,
    osd: u32,
}

impl Given {
    /// As the environment says; `None` if it says nothing.
    pub fn by_environment() -> Option<Self> {
        let path = std::env::var(CONF).ok()?;
        let osd =
            std::env::var(PROCESS).ok().and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("{PROCESS} has osd.0's process id"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let conf = Conf::parse(&text, EntityText::parse("client.admin").unwrap()).unwrap();
        let hosts = objecter::conf::parse_mon_hosts(&conf.get("mon_host").expect("mon host"));
        let mon = hosts.iter().flat_map(|addrs| &addrs.0).find_map(EntityAddr::socket).expect("a monitor's address");
        let keyring = conf.get("keyring").expect("a keyring");
        let keyring = Keyring::parse(&std::fs::read_to_string(keyring).unwrap()).unwrap();
        Some(Self { mon, keyring, osd })
    }
    /// Whether the OSD's process is there and has not ended.
    pub fn osd_lives(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.osd)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }
}
