//! Subscriptions: what a session wants to be told of, from which version on.
//!
//! A subscription holds for the life of its session, or until its first answer if it is for one time.
//!
//! Whatever has a new version, each session that subscribed to anything is looked at, and each of its subscriptions: one step, but for
//! those that have something waiting.

use crate::Mon;
use crate::log::level_of;
use crate::session::{ConnId, Sub};
use cephx::caps::Perm;
use denc::{ByteStr, Denc};
use messages::{MKVData, MLog, MMgrMap, MMonSubscribe, MMonSubscribeAck, MServiceMap, Paxos, Rest};
use types::features;

/// How often clients without stateful subscriptions are to renew theirs.
const RENEW_S: u32 = 300;
/// Subscriptions of a session. There are a dozen kinds; a manager has one of keys for each of its modules.
const SUBS_MAX: usize = 256;
/// Bytes of a subscription's name: that of a file system or the beginning of a key is part of it.
const NAME_MAX: usize = 1024;
/// Bytes of the name of a machine.
const HOSTNAME_MAX: usize = 255;

impl Mon {
    pub(crate) fn on_subscribe(&mut self, conn: ConnId, m: MMonSubscribe) {
        let Some(session) = self.sessions.get_mut(&conn) else { return };
        if !m.hostname.is_empty() && m.hostname.len() <= HOSTNAME_MAX {
            session.hostname = m.hostname;
        }
        let stateful = features::has(session.peer.features, features::MON_STATEFUL_SUB);
        let (entity, addr) = (&session.peer.entity, session.peer.from);
        let reads = session.caps.may(entity, &addr, "mon", Perm::R);
        for (what, item) in m.what {
            // What a session needs before it is anybody; all else takes a reader, and each kind asks for more when it is served.
            if !reads && what != "monmap" && what != "config" {
                continue;
            }
            if is_log(&what) {
                // A session follows the log at one level: the one that it asked for last.
                session.subs.retain(|other, _| !is_log(other));
            }
            if session.subs.len() >= SUBS_MAX && !session.subs.contains_key(&what) || what.len() > NAME_MAX {
                continue;
            }
            session.subs.insert(what, Sub { next: item.start, onetime: item.onetime() });
        }
        self.serve_subscriptions(conn);
        if !stateful {
            let fsid = self.options.fsid;
            self.send(conn, 0, &MMonSubscribeAck { interval_s: RENEW_S, fsid });
        }
    }

    /// Sends what a session's subscriptions have waiting.
    pub(crate) fn serve_subscriptions(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get(&conn) else { return };
        let subs: Vec<(String, Sub)> = session.subs.iter().map(|(k, s)| (k.clone(), *s)).collect();
        for (what, sub) in subs {
            let served = self.serve(conn, &what, sub);
            let Some(session) = self.sessions.get_mut(&conn) else { return };
            match served {
                Served::Nothing => {}
                Served::Up(_) if sub.onetime => drop(session.subs.remove(&what)),
                Served::Up(next) => {
                    session.subs.insert(what, Sub { next, onetime: false });
                }
                Served::Never => drop(session.subs.remove(&what)),
            }
        }
    }

    fn serve(&mut self, conn: ConnId, what: &str, sub: Sub) -> Served {
        match what {
            "monmap" => {
                let epoch = u64::from(self.monmap.map.epoch);
                if sub.next > epoch {
                    return Served::Nothing;
                }
                self.send_monmap(conn);
                Served::Up(epoch + 1)
            }
            "osdmap" if self.may(conn, "osd", Perm::R) => self.serve_osdmap(conn, sub),
            "osd_pg_creates" if self.may(conn, "osd", Perm::W) => self.serve_pg_creates(conn, sub),
            "mgrmap" => {
                let epoch = u64::from(self.mgrmap.map.epoch);
                if sub.next > epoch {
                    return Served::Nothing;
                }
                let map = Rest(self.mgrmap.map.to_bytes(self.features(conn)));
                self.send(conn, 0, &MMgrMap { map });
                Served::Up(epoch + 1)
            }
            "mgrdigest" if self.may(conn, "mgr", Perm::R) => {
                // The first one at once; later ones come with time.
                if sub.next == 0 {
                    let health = self.look().health_json(true).to_string();
                    self.send_digest(conn, &health);
                }
                Served::Up(1)
            }
            "config" => {
                // It follows from the version, and an OSD's from its place in the map, too.
                let session = self.sessions.get(&conn);
                if sub.next > self.config.version && session.is_some_and(|s| s.config_sent.is_some() && s.osd().is_none()) {
                    return Served::Nothing;
                }
                if let Some(config) = self.config_for(conn) {
                    self.send(conn, 0, &config);
                }
                // What was sent is remembered in the session, so the number only has to move.
                Served::Up(self.config.version + 1)
            }
            "servicemap" if self.may(conn, "mgr", Perm::R) => {
                let epoch = u64::from(self.manager.services.map.epoch);
                if sub.next > epoch {
                    return Served::Nothing;
                }
                let map = Rest(self.manager.services.map.to_bytes(self.features(conn)));
                self.send(conn, 0, &MServiceMap { map });
                Served::Up(epoch + 1)
            }
            "fsmap" | "fsmap.user" if self.may(conn, "mds", Perm::R) => self.serve_fsmap(conn, what, sub),
            _ if is_mdsmap(what) && self.may(conn, "mds", Perm::R) => self.serve_mdsmap(conn, what, sub),
            _ if what.starts_with("kv:") => self.serve_keys(conn, &what[3..], sub),
            _ if what.starts_with("log-") => self.serve_log(conn, what, sub),
            // Known names that the session may not have, and unknown ones.
            _ => Served::Never,
        }
    }

    fn serve_keys(&mut self, conn: ConnId, prefix: &str, sub: Sub) -> Served {
        let Some(session) = self.sessions.get(&conn) else { return Served::Never };
        let args = [("key".to_string(), prefix.to_string())].into();
        let (entity, addr) = (&session.peer.entity, session.peer.from);
        if !session.caps.may_command(entity, &addr, "config-key", "config-key get", &args, Perm::R) {
            return Served::Never;
        }
        let version = self.keys.version;
        if sub.next > version {
            return Served::Nothing;
        }
        let data = self.keys.below(prefix).map(|(k, v)| (ByteStr::from(k.as_str()), Some(v.clone()))).collect();
        self.send(conn, 0, &MKVData { version, prefix: prefix.into(), incremental: false, data });
        Served::Up(version + 1)
    }

    /// `log-info` and the like: lines of that level and above, as they come. A first subscription starts with the newest lines.
    fn serve_log(&mut self, conn: ConnId, what: &str, sub: Sub) -> Served {
        let Some(level) = what.strip_prefix("log-").and_then(level_of) else { return Served::Never };
        if !self.may(conn, "mon", Perm::R) && !self.may(conn, "log", Perm::R) {
            return Served::Never;
        }
        let last = self.log.last();
        if sub.next > last {
            return Served::Nothing;
        }
        let from = if sub.next == 0 { last + 1 } else { sub.next };
        let entries: Vec<_> = self.log.since(from).filter(|e| e.level >= level).cloned().collect();
        if !entries.is_empty() {
            let fsid = self.options.fsid;
            // Clients drop what has no higher number than the last.
            self.send(conn, 0, &MLog { paxos: Paxos::at(last), fsid, entries });
        }
        // One-time subscriptions to a log are for what is there now.
        Served::Up(last + 1)
    }
}

/// True for `mdsmap` and `mdsmap.ID`.
fn is_mdsmap(what: &str) -> bool {
    what == "mdsmap" || what.starts_with("mdsmap.")
}

/// True for subscriptions to the cluster log, whatever their level.
fn is_log(what: &str) -> bool {
    what.strip_prefix("log-").and_then(level_of).is_some()
}

/// What came of looking at a subscription.
pub(crate) enum Served {
    /// There was nothing new.
    Nothing,
    /// Everything before this version was sent.
    Up(u64),
    /// The session may not have it.
    Never,
}
