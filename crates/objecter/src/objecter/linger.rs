//! Watches and notifies: requests that outlive their reply and follow their object when the map changes.
//!
//! A watch is registered by WATCH, then re-registered by RECONNECT in each new session or interval, and pinged in between. A notify is sent
//! again in each new session until the OSD says that all watchers have answered.

use super::{Effect, Objecter, Submit};
use crate::ops::Ops;
use crate::planted::{Bug, planted};
use base::{Clock, Stamp};
use messages::{MWatchNotify, osd_client::watch_event};
use std::collections::BTreeMap;
use std::time::Duration;
use types::osd_op::watch_op;
use types::{ByteStr, Bytes, ObjectLocator, errno};

/// Pause between two pings of a watch.
const PING: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
enum What {
    Watch { timeout_s: u32 },
    Notify { timeout_s: u32, payload: Bytes },
}

#[derive(Debug)]
pub(super) struct Linger {
    locator: ObjectLocator,
    oid: ByteStr,
    what: What,
    /// The request under way, if any.
    tid: Option<u64>,
    registered: bool,
    /// The OSD has dropped the watch; its owner knows and must unwatch it.
    lost: bool,
    /// Counts registrations after the first.
    generation: u32,
    last_ping: Stamp,
    /// When the request under way was made, and when the last one was made that was answered well.
    asked: Stamp,
    valid_since: Option<Stamp>,
    /// The notify's number, once the OSD has said it.
    notify_id: Option<u64>,
}

/// How a watch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchState {
    /// When the last registration or ping was made that the OSD answered: the watch is not over before its timeout from then on.
    pub valid_since: Option<Stamp>,
    /// Registrations after the first.
    pub generation: u32,
    /// The OSD has dropped it.
    pub is_lost: bool,
}

/// What happens to a watch or notify.
#[derive(Debug, Clone, PartialEq)]
pub enum LingerEvent {
    /// The first registration went through, or failed with this negative errno.
    Registered(i32),
    /// Somebody notifies; to be answered by a NOTIFY_ACK.
    Notify { notify_id: u64, notifier_gid: u64, payload: Bytes },
    /// The watch is lost (ENOTCONN): notifies may have been missed.
    Error(i32),
    /// All watchers answered a notify of ours, or time was up: the encoded answers and which were late.
    NotifyDone { result: i32, answers: Bytes },
}

/// By cookie.
#[derive(Debug, Default)]
pub(super) struct Lingers {
    last_cookie: u64,
    pub by_cookie: BTreeMap<u64, Linger>,
}

impl Objecter {
    /// Watches an object; the cookie returned names the watch. The OSD drops a watch that is silent for `timeout_s`.
    pub fn watch(&mut self, locator: ObjectLocator, oid: ByteStr, timeout_s: u32, clock: Clock, out: &mut Vec<Effect>) -> u64 {
        self.linger(locator, oid, What::Watch { timeout_s }, clock, out)
    }
    /// Notifies the watchers of an object.
    pub fn notify(
        &mut self,
        locator: ObjectLocator,
        oid: ByteStr,
        timeout_s: u32,
        payload: Bytes,
        clock: Clock,
        out: &mut Vec<Effect>,
    ) -> u64 {
        self.linger(locator, oid, What::Notify { timeout_s, payload }, clock, out)
    }
    fn linger(&mut self, locator: ObjectLocator, oid: ByteStr, what: What, clock: Clock, out: &mut Vec<Effect>) -> u64 {
        self.lingers.last_cookie += 1;
        let cookie = self.lingers.last_cookie;
        let last_ping = clock.mono;
        let (tid, notify_id, valid_since, asked) = (None, None, None, clock.mono);
        let linger =
            Linger { locator, oid, what, tid, registered: false, lost: false, generation: 0, last_ping, asked, valid_since, notify_id };
        self.lingers.by_cookie.insert(cookie, linger);
        self.send_linger(cookie, clock, out);
        cookie
    }
    /// Forgets a watch and tells the OSD; the request's number is returned for the caller that waits for it.
    pub fn unwatch(&mut self, cookie: u64, clock: Clock, out: &mut Vec<Effect>) -> Option<u64> {
        let linger = self.lingers.by_cookie.remove(&cookie)?;
        if let Some(tid) = linger.tid {
            self.cancel(tid);
        }
        let ops = Ops::new().watch(cookie, watch_op::UNWATCH, 0, 0);
        Some(self.submit(Submit::new(linger.locator, linger.oid, ops), clock, out))
    }

    fn send_linger(&mut self, cookie: u64, clock: Clock, out: &mut Vec<Effect>) {
        let Some(linger) = self.lingers.by_cookie.get_mut(&cookie) else { return };
        // A notify that is sent again has another number, and may end before its reply says which.
        linger.notify_id = None;
        let ops = match &linger.what {
            What::Watch { timeout_s } if linger.registered => Ops::new().watch(cookie, watch_op::RECONNECT, linger.generation, *timeout_s),
            What::Watch { timeout_s } => Ops::new().watch(cookie, watch_op::WATCH, 0, *timeout_s),
            What::Notify { timeout_s, payload } => Ops::new().notify(cookie, *timeout_s, payload),
        };
        self.send_for(cookie, ops, clock, out);
    }
    fn send_for(&mut self, cookie: u64, ops: Ops, clock: Clock, out: &mut Vec<Effect>) {
        let Some(linger) = self.lingers.by_cookie.get(&cookie) else { return };
        let submit = Submit { linger: Some(cookie), ..Submit::new(linger.locator.clone(), linger.oid.clone(), ops) };
        let tid = self.submit(submit, clock, out);
        if let Some(linger) = self.lingers.by_cookie.get_mut(&cookie) {
            (linger.tid, linger.asked) = (Some(tid), clock.mono);
        }
    }
    /// How a watch stands; `None`: there is none of that cookie. Source of the facts: Ceph 18.2 `Objecter::linger_check`.
    pub fn watch_state(&self, cookie: u64) -> Option<WatchState> {
        let linger = self.lingers.by_cookie.get(&cookie).filter(|linger| matches!(linger.what, What::Watch { .. }))?;
        Some(WatchState { valid_since: linger.valid_since, generation: linger.generation, is_lost: linger.lost })
    }
    /// The number of a notify that is under way, once the OSD has said it.
    pub fn notify_id(&self, cookie: u64) -> Option<u64> {
        self.lingers.by_cookie.get(&cookie)?.notify_id
    }

    /// The OSD or the interval of these changed: watches are registered anew, notifies sent again.
    pub(super) fn relinger(&mut self, cookies: Vec<u64>, clock: Clock, out: &mut Vec<Effect>) {
        for cookie in cookies {
            let Some(linger) = self.lingers.by_cookie.get_mut(&cookie).filter(|l| !l.lost) else { continue };
            if linger.registered {
                linger.generation += 1;
                if matches!(linger.what, What::Watch { .. }) && planted(Bug::ForgetToReconnect) {
                    linger.tid = None;
                    continue;
                }
            }
            // A request that is under way (a ping, say) is superseded by the registration.
            if let Some(tid) = linger.tid.take() {
                self.cancel(tid);
            }
            self.send_linger(cookie, clock, out);
        }
    }
    /// Placement groups of watches, to see which of them moved.
    pub(super) fn linger_places(&self) -> Vec<(u64, ObjectLocator, ByteStr)> {
        self.lingers.by_cookie.iter().map(|(c, l)| (*c, l.locator.clone(), l.oid.clone())).collect()
    }

    /// The reply to a watch's or notify's own request.
    pub(super) fn linger_reply(&mut self, cookie: u64, tid: u64, result: i32, outdata: Option<&Bytes>, out: &mut Vec<Effect>) {
        let Some(linger) = self.lingers.by_cookie.get_mut(&cookie).filter(|l| l.tid == Some(tid)) else { return };
        linger.tid = None;
        let first = !linger.registered;
        match (&linger.what, result) {
            (What::Watch { .. }, 0..) => {
                linger.registered = true;
                linger.valid_since = Some(linger.asked);
                if first {
                    out.push(Effect::Linger { cookie, event: LingerEvent::Registered(0) });
                }
            }
            (What::Watch { .. }, error) if first => {
                self.lingers.by_cookie.remove(&cookie);
                out.push(Effect::Linger { cookie, event: LingerEvent::Registered(error) });
            }
            // As the C library says it: whatever the OSD's reason, the watch is not there.
            (What::Watch { .. }, _) => {
                linger.lost = true;
                out.push(Effect::Linger { cookie, event: LingerEvent::Error(-errno::ENOTCONN) });
            }
            (What::Notify { .. }, 0..) => {
                linger.registered = true;
                linger.notify_id = outdata.and_then(|b| <u64 as denc::Denc>::from_bytes(b).ok());
            }
            (What::Notify { .. }, error) => {
                self.lingers.by_cookie.remove(&cookie);
                out.push(Effect::Linger { cookie, event: LingerEvent::NotifyDone { result: error, answers: Bytes::new() } });
            }
        }
    }
    /// An OSD says something about a watch or notify of ours.
    pub fn on_watch_notify(&mut self, m: MWatchNotify, out: &mut Vec<Effect>) {
        let Some(linger) = self.lingers.by_cookie.get_mut(&m.cookie) else { return };
        let cookie = m.cookie;
        let event = match (m.event, &linger.what) {
            (watch_event::NOTIFY, What::Watch { .. }) => {
                LingerEvent::Notify { notify_id: m.notify_id, notifier_gid: m.notifier_gid, payload: m.payload }
            }
            (watch_event::DISCONNECT, What::Watch { .. }) => {
                linger.lost = true;
                LingerEvent::Error(-errno::ENOTCONN)
            }
            (watch_event::NOTIFY_COMPLETE, What::Notify { .. }) => {
                // The end of an earlier notify that was sent again since is not this one's.
                if linger.notify_id.is_some_and(|id| id != m.notify_id) {
                    return;
                }
                if let Some(linger) = self.lingers.by_cookie.remove(&cookie)
                    && let Some(tid) = linger.tid
                {
                    self.cancel(tid);
                }
                LingerEvent::NotifyDone { result: m.return_code, answers: m.answers }
            }
            _ => return,
        };
        out.push(Effect::Linger { cookie, event });
    }
    /// Pings watches that are due.
    pub(super) fn ping_lingers(&mut self, clock: Clock, out: &mut Vec<Effect>) {
        let due = |l: &Linger| {
            l.registered && !l.lost && l.tid.is_none() && matches!(l.what, What::Watch { .. }) && clock.mono.since(l.last_ping) >= PING
        };
        let cookies: Vec<u64> = self.lingers.by_cookie.iter().filter(|(_, l)| due(l)).map(|(c, _)| *c).collect();
        for cookie in cookies {
            let Some(linger) = self.lingers.by_cookie.get_mut(&cookie) else { continue };
            linger.last_ping = clock.mono;
            let ops = Ops::new().watch(cookie, watch_op::PING, linger.generation, 0);
            self.send_for(cookie, ops, clock, out);
        }
    }
}
