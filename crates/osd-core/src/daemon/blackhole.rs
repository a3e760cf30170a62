//! Kinds of peers whose messages vanish, both ways, as operators' tests want it: `ms_blackhole_osd` and its siblings. Connections stay, and so does
//! what keeps them alive; nothing is sent later when the option is taken back. Which kinds is [`crate::control::blackhole`]'s.

use super::{Daemon, Effect, Event, Role};
use crate::event::ConnId;
use types::EntityKind;

impl Daemon {
    fn peer_kind(&self, conn: ConnId) -> EntityKind {
        match self.links.role(conn) {
            Some(Role::Monitor) => EntityKind::MON,
            Some(Role::Manager) => EntityKind::MGR,
            Some(Role::Osd(_)) => EntityKind::OSD,
            None => self.osd.peer_kind(conn).unwrap_or(EntityKind::NONE),
        }
    }
    /// True if this is a message that nothing shall hear of.
    #[inline]
    pub(super) fn is_swallowed(&self, event: &Event) -> bool {
        let swallowed = self.osd.swallowed();
        match event {
            _ if swallowed.is_none() => false,
            Event::Request { conn, .. } | Event::Message { conn, .. } => swallowed.has(self.peer_kind(*conn)),
            _ => false,
        }
    }
    /// Takes away what shall not be sent, of the effects from this one on.
    #[inline]
    pub(super) fn swallow(&self, from: usize, out: &mut Vec<Effect>) {
        let swallowed = self.osd.swallowed();
        if swallowed.is_none() {
            return;
        }
        let mut at = 0;
        out.retain(|effect| {
            at += 1;
            at <= from || !matches!(effect, Effect::Send { conn, .. } if swallowed.has(self.peer_kind(*conn)))
        });
    }
}
