//! The session with the active manager: dialled where the newest map of managers says, and again when it is lost.

use super::Daemon;
use super::event::Effect;
use super::links::Role;
use super::redial::Redial;
use crate::event::{ConnId, Event as OsdEvent};
use base::Clock;
use maps::MgrMap;
use types::EntityAddrVec;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Manager {
    pub conn: Option<ConnId>,
    /// Of the active manager; empty while there is none.
    addrs: EntityAddrVec,
    pub redial: Redial,
}

impl Daemon {
    pub(super) fn manager_map(&mut self, map: MgrMap, out: &mut Vec<Effect>) {
        self.monitor.client.got("mgrmap", map.epoch.into());
        let addrs = if map.available { map.active_addrs } else { EntityAddrVec::default() };
        if self.manager.addrs == addrs {
            return;
        }
        self.manager.addrs = addrs;
        if let Some(old) = self.manager.conn.take() {
            self.close_link(old, out);
        }
        self.manager.redial.forget();
        self.dial_manager(out);
    }
    fn dial_manager(&mut self, out: &mut Vec<Effect>) {
        if self.manager.addrs.msgr2().is_some() {
            self.manager.conn = Some(self.links.dial(Role::Manager, self.manager.addrs.clone(), out));
        }
    }
    pub(super) fn manager_opened(&mut self, now: Clock, out: &mut Vec<Effect>) {
        self.manager.redial.forget();
        self.osd_event_alone(OsdEvent::MgrConnected, now, out);
    }
    pub(super) fn manager_cut(&mut self, now: Clock) {
        self.manager.conn = None;
        self.manager.redial.was_cut(now.mono);
    }
    pub(super) fn manager_dial_failed(&mut self, now: Clock) {
        self.manager.conn = None;
        self.manager.redial.failed(now.mono, &mut self.rng);
    }
    pub(super) fn redial_manager(&mut self, now: Clock, out: &mut Vec<Effect>) {
        if self.manager.redial.is_due(now.mono) && self.manager.conn.is_none() {
            self.dial_manager(out);
        }
    }
}
