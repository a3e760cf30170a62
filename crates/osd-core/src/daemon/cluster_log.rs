//! Lines for the cluster log: numbered, and sent to the monitor.

use crate::event::Level;
use base::Clock;
use messages::mon_client::log_level;
use messages::{LogEntry, MLog, Message, Paxos, RawMessage};
use types::{EntityAddrVec, EntityKind, EntityName, EntityText, OsdId, UTime, Uuid, features};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ClusterLog {
    seq: u64,
}

impl ClusterLog {
    pub fn message(&mut self, osd: OsdId, addrs: &EntityAddrVec, fsid: Uuid, level: Level, text: String, now: Clock) -> RawMessage {
        self.seq += 1;
        let entry = LogEntry {
            name: EntityText::new(EntityKind::OSD, osd.to_string()),
            rank: EntityName::osd(osd.into()),
            addrs: addrs.clone(),
            stamp: UTime::from_wall_ns(now.wall_ns),
            seq: self.seq,
            level: match level {
                Level::Error => log_level::ERROR,
                Level::Warn => log_level::WARN,
                Level::Info => log_level::INFO,
                Level::Debug => log_level::DEBUG,
            },
            text: text.into_bytes().into(),
            channel: "cluster".into(),
        };
        MLog { paxos: Paxos::default(), fsid, entries: vec![entry] }.encode(features::SUPPORTED)
    }
}
