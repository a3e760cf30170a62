//! Which handler each message goes to, and which peers may send it. An unknown or forbidden message is dropped, as Ceph does.

use crate::Mon;
use crate::auth::Endpoint;
use crate::session::ConnId;
use base::Clock;
use bytes::Bytes;
use cephx::caps::Perm;
use denc::{Denc, DencError};
use messages::mon_client::LEAVES;
use messages::*;
use std::collections::BTreeMap;
use types::{EntityKind, EntityText, UTime, errno};

/// Characters of what is kept of an OSD's last words.
const LAST_WORDS_MAX: usize = 2048;

impl Mon {
    /// Handles a message of an open session. A message that can't be read ends its connection: the peer is broken or not one of ours.
    pub(crate) fn dispatch(&mut self, conn: ConnId, raw: &RawMessage, clock: Clock) {
        let Some(session) = self.sessions.get(&conn) else { return };
        let result = match session.endpoint {
            Endpoint::Mon => self.dispatch_mon(conn, raw, clock),
            Endpoint::Mgr => self.dispatch_mgr(conn, raw, clock),
        };
        if result.is_err() {
            self.close(conn);
        }
    }

    fn dispatch_mon(&mut self, conn: ConnId, raw: &RawMessage, clock: Clock) -> Result<(), DencError> {
        match raw.kind {
            MPing::KIND => self.on_ping(conn),
            MMonGetMap::KIND => self.send_monmap(conn),
            MMonSubscribe::KIND => self.on_subscribe(conn, MMonSubscribe::decode(raw)?),
            MAuth::KIND => self.on_auth(conn, MAuth::decode(raw)?, clock),
            MMonCommand::KIND | MCommand::KIND => self.on_command(conn, raw, clock)?,
            MMonGetVersion::KIND if self.may(conn, "mon", Perm::R) => self.on_get_version(conn, MMonGetVersion::decode(raw)?),
            MGetConfig::KIND => self.on_get_config(conn, &MGetConfig::decode(raw)?),
            MStatfs::KIND if self.may(conn, "pg", Perm::R) => self.on_statfs(conn, &MStatfs::decode(raw)?),
            MGetPoolStats::KIND if self.may(conn, "pg", Perm::R) => self.on_pool_stats(conn, &MGetPoolStats::decode(raw)?),
            MPoolOp::KIND => self.on_pool_op(conn, MPoolOp::decode(raw)?, clock),
            MLog::KIND if self.may(conn, "log", Perm::W) => self.on_log(conn, MLog::decode(raw)?),
            MMgrBeacon::KIND if self.may(conn, "mgr", Perm::X) => self.on_mgr_beacon(conn, MMgrBeacon::decode(raw)?, clock)?,
            MMDSBeacon::KIND if self.may(conn, "mds", Perm::X) => self.on_mds_beacon(conn, MMDSBeacon::decode(raw)?, clock),
            MMDSLoadTargets::KIND if self.may(conn, "mds", Perm::X) => self.on_mds_load_targets(conn, MMDSLoadTargets::decode(raw)?),
            MMonMgrReport::KIND if self.may(conn, "mgr", Perm::X) => self.on_mgr_report_to_mon(conn, MMonMgrReport::decode(raw)?)?,
            MMonGetOSDMap::KIND if self.may(conn, "osd", Perm::R) => self.on_get_osdmap(conn, &MMonGetOSDMap::decode(raw)?),
            MMonGetPurgedSnaps::KIND if self.may(conn, "osd", Perm::R) => {
                self.on_get_purged_snaps(conn, &MMonGetPurgedSnaps::decode(raw)?);
            }
            // What only OSDs send.
            MOSDBoot::KIND
            | MOSDAlive::KIND
            | MOSDBeacon::KIND
            | MOSDFailure::KIND
            | MOSDMarkMeDown::KIND
            | MOSDMarkMeDead::KIND
            | MOSDFull::KIND
            | MOSDPGTemp::KIND
            | MOSDPGCreated::KIND
            | MOSDPGReadyToMerge::KIND
                if self.may(conn, "osd", Perm::X) =>
            {
                self.dispatch_osd(conn, raw, clock)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn on_ping(&mut self, conn: ConnId) {
        // The answer to `ceph ping mon.a` carries health and the monitor's state as a text.
        let json =
            crate::cmd::pretty(&serde_json::json!({"health": self.look().health_json(false), "mon_status": crate::cmd::mon_status(self)}));
        let mut raw = MPing::default().encode(self.features(conn));
        raw.front = json.to_bytes(0);
        self.send_raw(conn, raw);
    }

    pub(crate) fn send_monmap(&mut self, conn: ConnId) {
        let monmap = self.monmap.encoded(self.features(conn));
        self.send(conn, 0, &MMonMap { monmap });
    }

    /// Renewals of tickets and rotating secrets, over the session that the handshake opened.
    fn on_auth(&mut self, conn: ConnId, m: MAuth, clock: Clock) {
        let now = UTime::from_wall_ns(clock.wall_ns);
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        let global_id = session.peer.global_id;
        let result = session.peer.handshake.renew(&self.auth, &m.payload, now, self.entropy.as_mut());
        let (result, payload) = match result {
            Some(Ok(payload)) => (0, payload),
            Some(Err(refusal)) => (-refusal.errno(), Bytes::new()),
            None => (-errno::EPERM, Bytes::new()),
        };
        self.send(conn, 0, &MAuthReply { protocol: m.protocol, result, global_id, payload, message: String::new() });
    }

    fn on_get_version(&mut self, conn: ConnId, m: MMonGetVersion) {
        let (version, oldest) = match m.what.as_str() {
            "osdmap" => (u64::from(self.osd.epoch()), u64::from(self.osd.first_epoch())),
            "monmap" => (self.monmap.map.epoch.into(), 1),
            "mgrmap" => (self.mgrmap.map.epoch.into(), 1),
            "fsmap" | "mdsmap" => (self.fs.map.epoch.into(), self.fs.first_epoch().into()),
            _ => return,
        };
        self.send(conn, 0, &MMonGetVersionReply { handle: m.handle, version, oldest });
    }

    fn on_get_config(&mut self, conn: ConnId, m: &MGetConfig) {
        let own = self.sessions.get(&conn).is_some_and(|s| s.peer.entity == m.name);
        if !own && !self.may(conn, "config", Perm::R) {
            return;
        }
        let resolved = self.config.resolve(&m.name, &m.host, &m.device_class);
        let config = resolved.into_iter().map(|(k, (_, v))| (k.to_string(), v.to_string())).collect();
        self.send(conn, 0, &MConfig { config });
    }

    fn on_log(&mut self, conn: ConnId, m: MLog) {
        // Entries of all channels are counted as one row, and it is the number that counts.
        let Some(last) = m.entries.iter().map(|e| e.seq).max() else { return };
        let Some(session) = self.sessions.get(&conn) else { return };
        let (name, rank, addrs) = (session.peer.entity.clone(), session.name, session.peer.addrs.clone());
        // What was done is said by who did it: the monitor, and a manager of the commands that it ran.
        let audits = matches!(name.kind, EntityKind::MON | EntityKind::MGR);
        for entry in m.entries {
            self.note_last_words(&name, &entry);
            let channel = if entry.channel == "audit" && !audits { "cluster".into() } else { entry.channel };
            let entry = LogEntry { name: name.clone(), rank, addrs: addrs.clone(), channel, ..entry };
            self.log.add(entry, &mut self.batch);
        }
        self.send(conn, 0, &MLogAck { fsid: m.fsid, last, channel: String::new() });
    }

    /// Why an OSD ends that says so itself, for health: `Mon::why_down`.
    fn note_last_words(&mut self, name: &EntityText, entry: &LogEntry) {
        let text = entry.text.to_lossy();
        let Some(why) = text.strip_prefix(LEAVES).filter(|_| name.kind == EntityKind::OSD) else { return };
        let Some(up_from) = name.id.parse().ok().and_then(|osd: usize| self.osd.map.osd_info.get(osd)).map(|info| info.up_from) else {
            return;
        };
        let why: String = why.chars().take(LAST_WORDS_MAX).collect();
        self.keys.set(&format!("osd-down/{}", name.id), Some(format!("{up_from} {why}").into()), &mut self.batch);
    }

    /// The configuration that applies to a session, if it differs from what it was sent.
    pub(crate) fn config_for(&mut self, conn: ConnId) -> Option<MConfig> {
        let session = self.sessions.get(&conn)?;
        let entity = session.peer.entity.clone();
        let class = match session.osd() {
            Some(osd) => self.osd.map.crush.item_class(osd).unwrap_or_default(),
            None => "",
        };
        let resolved = self.config.resolve(&entity, &session.hostname, class);
        let config: BTreeMap<String, String> = resolved
            .into_iter()
            // Masks and kinds are resolved here; the receiver sees names and values only.
            .map(|(k, (_, v))| (k.to_string(), v.to_string()))
            .collect();
        let session = self.sessions.get_mut(&conn)?;
        if session.config_sent.as_ref() == Some(&config) {
            return None;
        }
        session.config_sent = Some(config.clone());
        Some(MConfig { config })
    }
}
