//! Watches and notifies of a placement group.
//!
//! A watch is persistent (it stands in the object's info) and lives on when its connection goes: until its client comes back, or its
//! timeout is over. What is here is the living half: connections, deadlines, notifies on their way. It says what to send as [`WatchOut`]s and
//! which watches are over; [`effects`] writes those out of the object's info.

pub(crate) mod budget;
pub(in crate::pg) mod effects;

use crate::event::ConnId;
use crate::op::notify_bytes;
use crate::planted::{Bug, planted};
use base::Stamp;
use budget::{CLIENTS_MAX, NotifyBudget, Share};
use bytes::Bytes;
use denc::{Denc, Encoder};
use messages::osd_client::watch_event;
use messages::{MWatchNotify, Message, RawMessage};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use types::errno::ETIMEDOUT;
use types::{EntityAddr, EntityName, HObject};

/// Bytes of the answers to one notify. A watcher whose answer does not fit is named as one that gave none. Source: ours; stock has no limit.
const REPLIES_MAX: usize = 8 << 20;
// One notify's replies leave most of what notifies may hold to others.
const _: () = assert!(REPLIES_MAX as u64 <= CLIENTS_MAX / 4);

/// What names a watch on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchKey {
    pub cookie: u64,
    pub entity: EntityName,
}

/// One client's watch on one object.
#[derive(Debug)]
pub struct Watch {
    pub key: WatchKey,
    pub addr: EntityAddr,
    pub timeout_s: u32,
    pub conn: Option<ConnId>,
    will_ping: bool,
    last_ping: Stamp,
    /// When it is over; `None` while a client that doesn't ping is connected.
    deadline: Option<Stamp>,
    /// Notifies that it has not answered, the oldest first: a client that comes back hears of them in that order.
    pending: Vec<u64>,
}

/// A notify on its way.
#[derive(Debug)]
struct Notify {
    client: ConnId,
    client_gid: u64,
    cookie: u64,
    version: u64,
    payload: Bytes,
    deadline: Stamp,
    waiting: Vec<(HObject, WatchKey)>,
    replies: Vec<(u64, u64, Bytes)>,
    replies_bytes: usize,
    /// Watchers whose answers were too long.
    unheard: Vec<(u64, u64)>,
    share: Share,
}

/// What is to be told to a client: an MWatchNotify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchOut {
    Notify {
        conn: ConnId,
        cookie: u64,
        version: u64,
        id: u64,
        payload: Bytes,
        notifier_gid: u64,
    },
    /// To the client that notified: which watchers answered what, and which did not.
    Complete {
        conn: ConnId,
        cookie: u64,
        version: u64,
        id: u64,
        notifier_gid: u64,
        replies: Vec<(u64, u64, Bytes)>,
        missed: Vec<(u64, u64)>,
        timed_out: bool,
    },
    Disconnect {
        conn: ConnId,
        cookie: u64,
    },
}

impl WatchOut {
    /// The message, and the connection that it goes to.
    pub fn message(self) -> (ConnId, RawMessage) {
        let event = |event, cookie| MWatchNotify { cookie, event, ..MWatchNotify::default() };
        match self {
            Self::Notify { conn, cookie, version, id, payload, notifier_gid } => {
                let msg = event(watch_event::NOTIFY, cookie);
                (conn, MWatchNotify { ver: version, notify_id: id, payload, notifier_gid, ..msg }.encode(0))
            }
            Self::Disconnect { conn, cookie } => (conn, event(watch_event::DISCONNECT, cookie).encode(0)),
            Self::Complete { conn, cookie, version, id, notifier_gid, replies, missed, timed_out } => {
                let mut e = Encoder::new(0);
                e.count(replies.len());
                for (gid, watcher, payload) in &replies {
                    e.u64(*gid);
                    e.u64(*watcher);
                    e.blob(payload);
                }
                missed.encode(&mut e);
                let (msg, return_code) = (event(watch_event::NOTIFY_COMPLETE, cookie), if timed_out { -ETIMEDOUT } else { 0 });
                let mut raw = MWatchNotify { ver: version, notify_id: id, return_code, notifier_gid, ..msg }.encode(0);
                raw.data = vec![e.finish()];
                (conn, raw)
            }
        }
    }
}

/// The watches of one placement group, bounded by what object infos hold, and its notifies, bounded by the OSD's [`NotifyBudget`].
#[derive(Debug, Default)]
pub struct Watches {
    objects: BTreeMap<HObject, Vec<Watch>>,
    notifies: BTreeMap<u64, Notify>,
    budget: Rc<NotifyBudget>,
}

impl Watches {
    pub fn new(budget: &Rc<NotifyBudget>) -> Self {
        Self { budget: budget.clone(), ..Self::default() }
    }
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.notifies.is_empty()
    }

    /// A watch that stands in an object's info and whose client isn't here (yet): it has its timeout to come.
    pub fn restore(&mut self, obj: &HObject, key: WatchKey, addr: EntityAddr, timeout_s: u32, now: Stamp) {
        let list = self.objects.entry(obj.detach()).or_default();
        if list.iter().all(|w| w.key != key) {
            let deadline = Some(now + Duration::from_secs(timeout_s.into()));
            let pending = Vec::new();
            list.push(Watch { key, addr, timeout_s, conn: None, will_ping: true, last_ping: now, deadline, pending });
        }
    }

    /// A client's connection now stands behind the watch.
    #[allow(clippy::too_many_arguments)]
    pub fn connect(
        &mut self,
        obj: &HObject,
        key: WatchKey,
        addr: EntityAddr,
        timeout_s: u32,
        conn: ConnId,
        will_ping: bool,
        now: Stamp,
        out: &mut Vec<WatchOut>,
    ) {
        self.restore(obj, key, addr, timeout_s, now);
        let watch = self.get(obj, key).expect("just put there");
        if watch.conn == Some(conn) {
            // Our clients count the timeout from this request, too. Stock leaves the deadline: its clients count from their pings alone.
            if watch.will_ping {
                self.ping(obj, key, now);
            }
            return;
        }
        watch.conn = Some(conn);
        // A client that comes back names no timeout: the first one stays. Source: Ceph 18.2 `Watch::connect`.
        watch.will_ping = will_ping;
        watch.last_ping = now;
        watch.deadline = will_ping.then(|| now + Duration::from_secs(watch.timeout_s.into()));
        let pending = if planted(Bug::ForgetPending) { Vec::new() } else { watch.pending.clone() };
        for id in pending {
            if let Some(n) = self.notifies.get(&id) {
                let (version, payload) = (n.version, n.payload.clone());
                out.push(WatchOut::Notify { conn, cookie: key.cookie, version, id, payload, notifier_gid: n.client_gid });
            }
        }
    }

    pub fn is_connected(&self, obj: &HObject, key: WatchKey) -> bool {
        self.objects.get(obj).is_some_and(|l| l.iter().any(|w| w.key == key && w.conn.is_some()))
    }

    pub fn ping(&mut self, obj: &HObject, key: WatchKey, now: Stamp) {
        if let Some(w) = self.get(obj, key) {
            w.last_ping = now;
            if w.conn.is_some() {
                let part = if planted(Bug::EndWatchEarly) { 2 } else { 1 };
                w.deadline = Some(now + Duration::from_secs(w.timeout_s.into()) / part);
            }
        }
    }

    /// The watch is over; with `tell` its client hears of it.
    pub fn remove(&mut self, obj: &HObject, key: WatchKey, tell: bool, out: &mut Vec<WatchOut>) {
        let Some(list) = self.objects.get_mut(obj) else { return };
        let Some(at) = list.iter().position(|w| w.key == key) else { return };
        let watch = list.swap_remove(at);
        if list.is_empty() {
            self.objects.remove(obj);
        }
        if let (true, Some(conn)) = (tell, watch.conn) {
            out.push(WatchOut::Disconnect { conn, cookie: key.cookie });
        }
        for id in watch.pending {
            if let Some(n) = self.notifies.get_mut(&id) {
                n.waiting.retain(|(o, k)| (o, *k) != (obj, key));
                self.complete_if_done(id, false, out);
            }
        }
    }

    /// Sends a notify to all watchers.
    #[allow(clippy::too_many_arguments)]
    pub fn notify(
        &mut self,
        obj: &HObject,
        id: u64,
        client: ConnId,
        client_gid: u64,
        cookie: u64,
        version: u64,
        timeout_s: u32,
        payload: Bytes,
        now: Stamp,
        out: &mut Vec<WatchOut>,
    ) {
        let mut waiting = Vec::new();
        if let Some(list) = self.objects.get_mut(obj) {
            for w in list {
                if w.conn.is_none() && planted(Bug::NotifyConnected) {
                    continue;
                }
                if w.will_ping && now.since(w.last_ping) > Duration::from_secs(w.timeout_s.into()) {
                    w.conn = None;
                    continue;
                }
                w.pending.push(id);
                waiting.push((obj.detach(), w.key));
                if let Some(conn) = w.conn {
                    let payload = payload.clone();
                    out.push(WatchOut::Notify { conn, cookie: w.key.cookie, version, id, payload, notifier_gid: client_gid });
                }
            }
        }
        let deadline = now + Duration::from_secs(timeout_s.into());
        let share = self.budget.take(client_gid, notify_bytes(payload.len(), waiting.len()));
        let (replies, replies_bytes, unheard) = Default::default();
        let notify = Notify { client, client_gid, cookie, version, payload, deadline, waiting, replies, replies_bytes, unheard, share };
        self.notifies.insert(id, notify);
        self.complete_if_done(id, false, out);
    }

    /// A watcher's answer; without a cookie for all watches of that client on the object.
    pub fn ack(&mut self, obj: &HObject, entity: EntityName, id: u64, cookie: Option<u64>, payload: &Bytes, out: &mut Vec<WatchOut>) {
        let Some(list) = self.objects.get_mut(obj) else { return };
        for w in list.iter_mut().filter(|w| w.key.entity == entity && cookie.is_none_or(|c| c == w.key.cookie)) {
            let Some(at) = w.pending.iter().position(|p| *p == id) else { continue };
            if !planted(Bug::KeepAnswered) {
                w.pending.remove(at);
            }
            if let Some(n) = self.notifies.get_mut(&id) {
                n.waiting.retain(|(o, k)| (o, *k) != (obj, w.key) && !planted(Bug::AckForAll));
                let (gid, cookie) = (w.key.entity.num as u64, w.key.cookie);
                if n.replies_bytes + payload.len() > REPLIES_MAX {
                    n.unheard.push((gid, cookie));
                    continue;
                }
                n.replies_bytes += payload.len();
                n.share.grow(payload.len() as u64);
                // Cut out of the frame that brought it.
                n.replies.push((gid, cookie, Bytes::copy_from_slice(payload)));
            }
        }
        self.complete_if_done(id, false, out);
    }

    /// A connection is gone: its watches wait for it to come back. Its notifies stay as long as there is room for them, since a watcher that comes
    /// back hears of them: no client is told how they end.
    pub fn reset(&mut self, conn: ConnId, now: Stamp) {
        let of_it = self.notifies.iter_mut().filter(|(_, n)| n.client == conn);
        let over: Vec<u64> = of_it.filter_map(|(id, n)| (!n.share.orphan()).then_some(*id)).collect();
        for id in over {
            self.complete_if_done(id, true, &mut Vec::new());
        }
        for w in self.objects.values_mut().flatten().filter(|w| w.conn == Some(conn)) {
            w.conn = None;
            if !w.will_ping {
                w.deadline = Some(now + Duration::from_secs(w.timeout_s.into()));
            }
        }
    }

    /// Ends notifies whose time is over; returns the watches whose time is.
    pub fn tick(&mut self, now: Stamp, out: &mut Vec<WatchOut>) -> Vec<(HObject, WatchKey)> {
        let late: Vec<u64> =
            self.notifies.iter().filter(|(_, n)| n.deadline <= now && !planted(Bug::NotifyForEver)).map(|(id, _)| *id).collect();
        for id in late {
            self.complete_if_done(id, true, out);
        }
        let mut over = Vec::new();
        for (obj, list) in &mut self.objects {
            for w in list.iter_mut().filter(|w| w.deadline.is_some_and(|d| d <= now) && !planted(Bug::KeepDeadWatch)) {
                // Writing it out of the object's info may have to wait: ask again later, not at once.
                w.deadline = Some(now + Duration::from_secs(5));
                over.push((obj.clone(), w.key));
            }
        }
        over
    }

    /// Those whose address `bad` says is not to be served.
    pub fn with_address(&self, bad: impl Fn(&EntityAddr) -> bool) -> Vec<(HObject, WatchKey)> {
        let all = self.objects.iter().flat_map(|(o, l)| l.iter().map(move |w| (o, w)));
        all.filter(|(_, w)| bad(&w.addr)).map(|(o, w)| (o.clone(), w.key)).collect()
    }

    /// Forgets everything: another interval has begun. Clients ask again.
    pub fn clear(&mut self) {
        self.objects.clear();
        self.notifies.clear();
    }

    /// Takes the watches of objects that `belongs` elsewhere, for a split.
    pub fn drop_objects(&mut self, mut belongs: impl FnMut(&HObject) -> bool) {
        self.objects.retain(|o, _| !belongs(o));
    }

    fn get(&mut self, obj: &HObject, key: WatchKey) -> Option<&mut Watch> {
        self.objects.get_mut(obj)?.iter_mut().find(|w| w.key == key)
    }

    fn complete_if_done(&mut self, id: u64, timed_out: bool, out: &mut Vec<WatchOut>) {
        if !self.notifies.get(&id).is_some_and(|n| n.waiting.is_empty() || timed_out) {
            return;
        }
        let mut n = self.notifies.remove(&id).expect("looked at above");
        for (obj, key) in &n.waiting {
            if let Some(w) = self.get(obj, *key) {
                w.pending.retain(|p| *p != id);
            }
        }
        n.replies.sort_by_key(|(gid, cookie, _)| (*gid, *cookie));
        let missed = n.waiting.iter().map(|(_, k)| (k.entity.num as u64, k.cookie)).chain(n.unheard).collect();
        out.push(WatchOut::Complete {
            conn: n.client,
            cookie: n.cookie,
            version: n.version,
            id,
            notifier_gid: n.client_gid,
            replies: n.replies,
            missed,
            timed_out: timed_out && !n.waiting.is_empty(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WatchKey = WatchKey { cookie: 1, entity: EntityName::client(10) };
    const B: WatchKey = WatchKey { cookie: 2, entity: EntityName::client(11) };

    fn at(s: u64) -> Stamp {
        Stamp(s * 1_000_000_000)
    }
    fn two() -> (Watches, HObject, Vec<WatchOut>) {
        let (mut w, obj, mut out) = (Watches::default(), HObject::min(), Vec::new());
        w.connect(&obj, A, EntityAddr::default(), 30, ConnId(1), true, at(0), &mut out);
        w.connect(&obj, B, EntityAddr::default(), 30, ConnId(2), true, at(0), &mut out);
        (w, obj, out)
    }

    #[test]
    fn a_notify_is_complete_when_all_have_answered() {
        let (mut w, obj, mut out) = two();
        w.notify(&obj, 7, ConnId(3), 99, 5, 1, 10, Bytes::from_static(b"hi"), at(1), &mut out);
        assert_eq!(out.len(), 2);
        w.ack(&obj, A.entity, 7, Some(1), &Bytes::from_static(b"x"), &mut out);
        assert_eq!(out.len(), 2);
        w.ack(&obj, B.entity, 7, None, &Bytes::new(), &mut out);
        let WatchOut::Complete { conn, replies, missed, timed_out, .. } = &out[2] else { panic!("{out:?}") };
        assert_eq!((*conn, replies.len(), missed.len(), *timed_out), (ConnId(3), 2, 0, false));
    }

    #[test]
    fn notifies_under_way_are_counted_until_they_end() {
        let budget = Rc::new(NotifyBudget::default());
        let (mut w, obj, mut out) = (Watches::new(&budget), HObject::min(), Vec::new());
        w.connect(&obj, A, EntityAddr::default(), 30, ConnId(1), true, at(0), &mut out);
        w.connect(&obj, B, EntityAddr::default(), 30, ConnId(2), true, at(0), &mut out);
        let notify = |w: &mut Watches, id, conn, out: &mut Vec<WatchOut>| {
            w.notify(&obj, id, ConnId(conn), 99, 5, 1, 10, vec![0; 4 << 20].into(), at(1), out);
        };
        let before = budget.left(99);
        notify(&mut w, 7, 3, &mut out);
        assert!(budget.held() > 4 << 20 && budget.left(99) < before - (4 << 20));
        // Answers that don't fit are as if there were none; those that do count.
        w.ack(&obj, A.entity, 7, None, &vec![1; REPLIES_MAX].into(), &mut out);
        assert!(budget.held() > (4 << 20) + REPLIES_MAX as u64);
        w.ack(&obj, B.entity, 7, None, &Bytes::from_static(b"x"), &mut out);
        let Some(WatchOut::Complete { replies, missed, timed_out, .. }) = out.last() else { panic!("{out:?}") };
        assert_eq!((replies.len(), missed.as_slice(), *timed_out), (1, &[(11, 2)][..], false));
        assert_eq!(budget.held(), 0);
        // Those of a client that has gone end where there is no room for them, and watchers' answers to them are nothing.
        (10..20).for_each(|id| notify(&mut w, id, 3, &mut out));
        w.reset(ConnId(3), at(2));
        assert_eq!(budget.held() >> 20, 12, "three of ten");
        assert_eq!(w.notifies.len(), 3);
        let sent = out.len();
        (10..20).for_each(|id| w.ack(&obj, A.entity, id, None, &Bytes::new(), &mut out));
        assert_eq!(out.len(), sent);
        assert_eq!(w.get(&obj, B).map(|w| w.pending.len()), Some(3));
        w.clear();
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_late_watcher_is_named_and_a_silent_one_ends() {
        let (mut w, obj, mut out) = two();
        w.notify(&obj, 7, ConnId(3), 99, 5, 1, 10, Bytes::new(), at(1), &mut out);
        w.ack(&obj, A.entity, 7, Some(1), &Bytes::new(), &mut out);
        assert!(w.tick(at(12), &mut out).is_empty());
        let WatchOut::Complete { missed, timed_out, .. } = &out[2] else { panic!("{out:?}") };
        assert_eq!((missed.as_slice(), *timed_out), (&[(11, 2)][..], true));
        w.reset(ConnId(2), at(13));
        w.ping(&obj, A, at(20));
        assert_eq!(w.tick(at(31), &mut out), vec![(obj.clone(), B)]);
        w.remove(&obj, B, true, &mut out);
        assert_eq!(w.tick(at(60), &mut out), vec![(obj, A)]);
    }

    /// A map came, and the client asks for its watches anew on the connection that it has.
    #[test]
    fn a_watch_that_is_asked_for_again_has_its_timeout_from_then_on() {
        let (mut w, obj, mut out) = two();
        w.connect(&obj, A, EntityAddr::default(), 30, ConnId(1), true, at(20), &mut out);
        assert_eq!(w.tick(at(49), &mut out), vec![(obj.clone(), B)]);
        assert_eq!(w.tick(at(50), &mut out), vec![(obj.clone(), A)]);
        // One whose client never pings has no deadline while it is connected.
        w.connect(&obj, B, EntityAddr::default(), 30, ConnId(4), false, at(60), &mut out);
        w.connect(&obj, B, EntityAddr::default(), 30, ConnId(4), false, at(61), &mut out);
        w.remove(&obj, A, false, &mut out);
        assert!(w.tick(at(1000), &mut out).is_empty());
    }
}
