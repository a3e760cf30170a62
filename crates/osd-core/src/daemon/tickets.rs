//! Sessions that a ticket opened end with it: their peers come again with tickets that they have renewed, or can't, if their key is gone.
//!
//! A ticket says what its holder may do until it runs out; Ceph asks for it when a session begins and never again, so that a session outlives
//! `auth rm` and `auth rotate` for as long as nothing cuts it. Here it ends some time behind its ticket. A client finds a cut socket, dials anew and sends
//! again what has no answer: what it does when any network fails.
//!
//! Sessions of other OSDs are left alone: what waits in them would be lost with them, and the map says already who an OSD is. While we have no monitor,
//! or have not had one for long, clients may have none to renew at: their sessions wait. Absent: what is done when a ticket is shown (`cephx`).

use super::Daemon;
use super::event::Effect;
use crate::event::{ConnId, Event as OsdEvent, Level};
use crate::planted::{Bug, planted};
use base::{Clock, Rng, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::EntityKind;

/// How far behind its ticket a session ends at least: clients renew at three quarters of a ticket's life, and look every ten seconds or so. As long must
/// there have been a monitor.
const GRACE: Duration = Duration::from_secs(60);
/// Over so long the ends are spread: a client has one ticket for the sessions with all OSDs, and is not to dial all of them at once.
const SPREAD: Duration = Duration::from_secs(60);

/// When sessions end.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    by_time: BTreeSet<(Stamp, ConnId)>,
    by_conn: BTreeMap<ConnId, Stamp>,
    /// Since when there has been a monitor.
    monitor_since: Option<Stamp>,
}

impl Tickets {
    fn insert(&mut self, conn: ConnId, at: Stamp) {
        self.remove(conn);
        self.by_conn.insert(conn, at);
        self.by_time.insert((at, conn));
    }
    /// The session is over.
    pub fn remove(&mut self, conn: ConnId) {
        if let Some(at) = self.by_conn.remove(&conn) {
            self.by_time.remove(&(at, conn));
        }
    }
    pub fn has_monitor(&mut self, since: Option<Stamp>) {
        self.monitor_since = since;
    }
    /// One that is to end now.
    fn pop(&mut self, now: Stamp) -> Option<ConnId> {
        let is_renewable = self.monitor_since.is_some_and(|since| since + GRACE <= now);
        let (at, conn) = *self.by_time.first().filter(|(at, _)| is_renewable && *at <= now)?;
        self.by_time.remove(&(at, conn));
        self.by_conn.remove(&conn);
        Some(conn)
    }
}

impl Daemon {
    /// A session was opened by a ticket that lasts so long from now on.
    pub(super) fn ticket_lasts(&mut self, conn: ConnId, kind: EntityKind, lasts: Duration, now: Clock) {
        if kind != EntityKind::OSD {
            self.tickets.insert(conn, now.mono + lasts + GRACE + spread(&mut self.rng));
        }
    }
    /// Ends the sessions whose time has come.
    pub(super) fn end_old_sessions(&mut self, now: Clock, out: &mut Vec<Effect>) {
        while let Some(conn) = self.tickets.pop(now.mono) {
            if planted(Bug::OutliveTickets) {
                continue;
            }
            let text = format!("the session of connection {} ends with its ticket", conn.0);
            out.push(Effect::Log { level: Level::Debug, text });
            self.close_link(conn, out);
            self.osd_event_alone(OsdEvent::Reset { conn }, now, out);
        }
    }
}

fn spread(rng: &mut Rng) -> Duration {
    Duration::from_millis(rng.below(SPREAD.as_millis() as u64))
}
