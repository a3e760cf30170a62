//! What a client does beside the operations of the history: watches, notifies, and operations of which only the end matters.

use super::{ClientProcess, POOL};
use crate::history::History;
use crate::net::{LinkId, Net};
use objecter::objecter::{Submit, WatchState};
use objecter::ops::Ops;
use types::{Bytes, ObjectLocator, OsdId, PgId};

impl ClientProcess {
    fn locator(&self) -> Option<ObjectLocator> {
        self.objecter.map()?.pool_by_name(POOL).map(ObjectLocator::pool)
    }
    /// Operations on one object: the number under which the answer comes. `None`: the client knows no pool yet.
    pub fn aside(&mut self, oid: &str, ops: Ops, history: &mut History, net: &mut Net) -> Option<u64> {
        let request = Submit::new(self.locator()?, oid.as_bytes().to_vec().into(), ops);
        let mut tid = 0;
        self.objecter(history, net, |core, net, out| tid = core.submit(request, net.clock(), out));
        self.newest_op = tid;
        self.asides.insert(tid);
        Some(tid)
    }
    /// Watches an object: the cookie.
    pub fn watch(&mut self, oid: &str, timeout_s: u32, history: &mut History, net: &mut Net) -> Option<u64> {
        let (locator, oid, mut cookie) = (self.locator()?, oid.as_bytes().to_vec().into(), 0);
        self.objecter(history, net, |core, net, out| cookie = core.watch(locator, oid, timeout_s, net.clock(), out));
        Some(cookie)
    }
    pub fn unwatch(&mut self, cookie: u64, history: &mut History, net: &mut Net) {
        let mut tid = None;
        self.objecter(history, net, |core, net, out| tid = core.unwatch(cookie, net.clock(), out));
        self.asides.extend(tid);
    }
    /// Notifies those that watch an object: the cookie.
    pub fn notify(&mut self, oid: &str, timeout_s: u32, payload: Bytes, history: &mut History, net: &mut Net) -> Option<u64> {
        let (locator, oid, mut cookie) = (self.locator()?, oid.as_bytes().to_vec().into(), 0);
        self.objecter(history, net, |core, net, out| cookie = core.notify(locator, oid, timeout_s, payload, net.clock(), out));
        Some(cookie)
    }
    pub fn watch_state(&self, cookie: u64) -> Option<WatchState> {
        self.objecter.watch_state(cookie)
    }
    pub fn notify_id(&self, cookie: u64) -> Option<u64> {
        self.objecter.notify_id(cookie)
    }
    pub fn has_asides(&self) -> bool {
        !self.asides.is_empty()
    }
    /// The group of an object by the client's map.
    pub fn group_of(&self, oid: &str) -> Option<PgId> {
        self.objecter.pg_of(oid.as_bytes(), &self.locator()?)
    }
    /// The link to an OSD.
    pub fn link_to(&self, osd: OsdId) -> Option<LinkId> {
        self.osds.get(&osd).copied()
    }
}
