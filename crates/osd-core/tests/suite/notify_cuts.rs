//! How often a watcher hears a NOTIFY across connections that are cut: at each byte of what its notifier, it and the OSD say, with the shipped
//! OSD, objecter and msgr on wires that the test holds.
//!
//! What must come of it is what stock's programs do (`suites/src/cases/notify.rs` counts it with processes, ours beside stock): a watcher that
//! answers at once hears each notification once. One that has not answered when its connection goes hears it again when it comes back. A notifier
//! that comes back without an answer notifies anew, under another number.

use crate::world::{Kind, POOL, World, addr, received, watch};
use bytes::{Bytes, BytesMut};
use messages::{InOp, MOSDOp, MWatchNotify, Message};
use msgr::{AuthNone, AuthNoneClient, Connection, Local, Policy, Up};
use objecter::objecter::{Effect as Asked, LingerEvent, Submit};
use objecter::{Objecter, ops::Ops};
use osd_core::daemon::Network;
use osd_core::{ConnId, Effect, Event, Peer};
use std::collections::BTreeSet;
use std::rc::Rc;
use types::osd_op::{NotifyArgs, OpCode, watch_op};
use types::{EntityAddrVec, EntityKind, EntityName, EntityText, ObjectLocator, OsdOp, features};

/// Which way the bytes go that a cut counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

struct End {
    core: Connection,
    buf: BytesMut,
}

/// A connection: the client's end and the OSD's.
struct Link {
    conn: ConnId,
    client: End,
    osd: End,
}

struct Client {
    gid: i64,
    objecter: Objecter,
    asked: Vec<Asked>,
    link: Option<Link>,
    local: Rc<Local>,
    /// Where connections are cut, the next first: after so many bytes that way.
    cuts: Vec<(Way, usize)>,
    /// Bytes that went each way in this round.
    went: [usize; 2],
    /// Answers to notifications are kept back.
    holds: bool,
    unanswered: Vec<u64>,
    /// Number and text of each notification.
    heard: Vec<(u64, Bytes)>,
    ended: Vec<i32>,
    errors: Vec<i32>,
}

struct Scene {
    w: World,
    /// The watcher and the notifier.
    clients: [Client; 2],
    watched: u64,
    links: u64,
    /// The OSD hears of a cut when all else is over, not at once.
    is_late: bool,
    gone: Vec<ConnId>,
    /// NOTIFYs that came to the OSD whole, and connections that were cut.
    arrived: usize,
    cut: usize,
}

const WATCHER: usize = 0;
const NOTIFIER: usize = 1;

fn local(kind: EntityKind, num: i64) -> Local {
    let clients = AuthNoneClient { name: EntityText::new(kind, "admin"), global_id: Default::default() };
    let mut local = Local::new(kind, num, EntityAddrVec::one(addr(6800, num as u32)), Rc::new(clients), num as u64);
    local.auth_server = Some(Rc::new(AuthNone { next_global_id: None }));
    local
}

impl Scene {
    fn new(kind: Kind, is_late: bool) -> Self {
        let mut w = World::new(kind, 1);
        w.write("watched", b"1");
        let client = |gid: i64| Client {
            gid,
            objecter: Objecter::new(0),
            asked: Vec::new(),
            link: None,
            local: Rc::new(local(EntityKind::CLIENT, gid)),
            cuts: Vec::new(),
            went: [0; 2],
            holds: false,
            unanswered: Vec::new(),
            heard: Vec::new(),
            ended: Vec::new(),
            errors: Vec::new(),
        };
        let mut s =
            Self { clients: [client(5001), client(5002)], watched: 0, links: 100, is_late, gone: Vec::new(), arrived: 0, cut: 0, w };
        let (map, clock) = (Rc::new(s.w.map.clone()), s.w.clock());
        for c in &mut s.clients {
            c.objecter.set_map(map.clone(), clock, &mut c.asked);
        }
        s.watched = s.watch();
        s.run();
        s
    }
    fn watch(&mut self) -> u64 {
        let (clock, c) = (self.w.clock(), &mut self.clients[WATCHER]);
        c.objecter.watch(ObjectLocator::pool(POOL), "watched".into(), 30, clock, &mut c.asked)
    }
    fn notify(&mut self, text: &str) {
        let (clock, c) = (self.w.clock(), &mut self.clients[NOTIFIER]);
        let text = Bytes::copy_from_slice(text.as_bytes());
        c.objecter.notify(ObjectLocator::pool(POOL), "watched".into(), 20, text, clock, &mut c.asked);
    }
    fn answer(&mut self, id: u64) {
        let (clock, cookie, c) = (self.w.clock(), self.watched, &mut self.clients[WATCHER]);
        let ops = Ops::new().notify_ack(id, cookie, b"heard");
        c.objecter.submit(Submit::new(ObjectLocator::pool(POOL), "watched".into(), ops), clock, &mut c.asked);
    }

    /// Until nothing moves any more.
    fn run(&mut self) {
        for turn in 0.. {
            assert!(turn < 10_000, "this leads nowhere");
            let mut moved = false;
            for n in 0..2 {
                moved |= self.does_what_was_asked(n);
                self.hand_out();
                moved |= self.carry(n, Way::Up);
                self.hand_out();
                moved |= self.carry(n, Way::Down);
            }
            if !moved {
                return;
            }
        }
    }
    /// What the client's objecter wants. True if there was anything.
    fn does_what_was_asked(&mut self, n: usize) -> bool {
        let asked = std::mem::take(&mut self.clients[n].asked);
        let any = !asked.is_empty();
        for effect in asked {
            match effect {
                Asked::Open { .. } => self.dial(n),
                Asked::Send { message, .. } => self.clients[n].link.as_mut().expect("dialled before").client.core.send(message),
                Asked::Linger { event: LingerEvent::Notify { notify_id, payload, .. }, .. } => {
                    self.clients[n].heard.push((notify_id, payload));
                    if self.clients[n].holds { self.clients[n].unanswered.push(notify_id) } else { self.answer(notify_id) }
                }
                Asked::Linger { event: LingerEvent::NotifyDone { result, .. }, .. } => self.clients[n].ended.push(result),
                Asked::Linger { event: LingerEvent::Error(errno), .. } => self.clients[n].errors.push(errno),
                Asked::Linger { event: LingerEvent::Registered(result), .. } => assert_eq!(result, 0),
                Asked::Done { reply, .. } => assert_eq!(reply.result, 0),
                Asked::Map(_) => {}
                Asked::Close { .. } | Asked::WantMap(_) | Asked::WantNewest => panic!("the map stays: {effect:?}"),
            }
        }
        any
    }
    fn dial(&mut self, n: usize) {
        assert!(self.clients[n].link.is_none());
        self.links += 1;
        let server = Rc::new(local(EntityKind::OSD, 0));
        let mut core =
            Connection::dial(self.clients[n].local.clone(), Policy::lossy_client(), EntityKind::OSD, EntityAddrVec::one(addr(6800, 0)));
        core.start();
        let end = |core| End { core, buf: BytesMut::new() };
        let osd = end(Connection::accept(server, addr(0, 9)));
        self.clients[n].link = Some(Link { conn: ConnId(self.links), client: end(core), osd });
    }
    /// Hands what the OSD says to its ends of the connections; what is for one that is gone is lost.
    fn hand_out(&mut self) {
        self.w.go_on();
        for effect in std::mem::take(&mut self.w.out) {
            let Effect::Send { conn, msg } = effect else { continue };
            let to = self.clients.iter_mut().filter_map(|c| c.link.as_mut()).find(|link| link.conn == conn);
            if let Some(link) = to {
                link.osd.core.send(msg);
            }
        }
    }
    /// Carries what one end has for the other, or what of it comes before the cut. True if there was anything.
    fn carry(&mut self, n: usize, way: Way) -> bool {
        let c = &mut self.clients[n];
        let Some(link) = &mut c.link else { return false };
        let (from, to) = match way {
            Way::Up => (&mut link.client, &mut link.osd),
            Way::Down => (&mut link.osd, &mut link.client),
        };
        let mut bytes = from.core.out().take_flat();
        if bytes.is_empty() {
            return false;
        }
        c.went[way as usize] += bytes.len();
        let mut is_cut = false;
        if let Some((of, left)) = c.cuts.first_mut()
            && *of == way
        {
            is_cut = bytes.len() >= *left;
            bytes.truncate(*left);
            *left -= bytes.len();
        }
        to.buf.extend_from_slice(&bytes);
        let conn = link.conn;
        while let Some(up) = self.next(n, way) {
            match (up, way) {
                (Up::Message(m), Way::Up) => {
                    let of = MOSDOp::decode(&received(&m)).unwrap();
                    self.arrived += usize::from(of.ops[0].op.code == OpCode::NOTIFY);
                    self.w.feed(Event::Message { conn, msg: received(&m) });
                }
                (Up::Message(m), Way::Down) => {
                    let (clock, c) = (self.w.clock(), &mut self.clients[n]);
                    assert!(c.objecter.on_message(0, &received(&m), clock, &mut c.asked));
                }
                (Up::Ready, Way::Up) => self.connected(n, conn),
                (Up::Ready, Way::Down) => {}
                (Up::Identified, _) => {
                    let link = self.clients[n].link.as_mut().expect("it was there");
                    link.osd.core.decide(None).unwrap();
                }
                (Up::RemoteReset, _) => panic!("lossy sessions have no such thing"),
            }
        }
        if is_cut {
            self.cut(n);
        }
        true
    }
    fn next(&mut self, n: usize, way: Way) -> Option<Up> {
        let link = self.clients[n].link.as_mut().expect("it was there");
        let end = if way == Way::Up { &mut link.osd } else { &mut link.client };
        end.core.next(&mut end.buf).unwrap()
    }
    fn connected(&mut self, n: usize, conn: ConnId) {
        let gid = self.clients[n].gid;
        let peer = Peer {
            name: EntityName::client(gid),
            entity: "client.admin".into(),
            global_id: gid as u64,
            features: features::SUPPORTED,
            supported: features::SUPPORTED,
            addr: addr(0, gid as u32),
            from: addr(0, gid as u32),
            network: Network::Public,
            cap: None,
        };
        self.w.feed(Event::Connected { conn, peer });
    }
    fn cut(&mut self, n: usize) {
        self.cut += 1;
        // What it heard last is answered into the void, before it sees the end.
        while self.does_what_was_asked(n) {}
        let clock = self.w.clock();
        let c = &mut self.clients[n];
        c.cuts.remove(0);
        self.gone.push(c.link.take().expect("it was there").conn);
        c.objecter.on_reset(0, clock, &mut c.asked);
        if !self.is_late {
            self.tell_of_cuts();
        }
    }
    fn tell_of_cuts(&mut self) {
        for conn in std::mem::take(&mut self.gone) {
            self.w.feed(Event::Reset { conn });
        }
    }

    /// One notification with these cuts, and another behind it on whole connections.
    fn round(&mut self, victim: usize, cuts: &[(Way, usize)], holds: bool) -> Round {
        self.clients[victim].cuts = cuts.to_vec();
        self.clients[victim].went = [0; 2];
        self.clients[WATCHER].holds = holds;
        (self.arrived, self.cut) = (0, 0);
        self.notify("first");
        self.run();
        let until_held = self.clients[victim].went;
        while !self.clients[WATCHER].unanswered.is_empty() {
            for id in std::mem::take(&mut self.clients[WATCHER].unanswered) {
                self.answer(id);
            }
            self.run();
        }
        self.clients[WATCHER].holds = false;
        self.clients[victim].cuts.clear();
        self.tell_of_cuts();
        self.run();
        let (arrived, cut) = (self.arrived, self.cut);
        self.notify("second");
        self.run();
        let heard = std::mem::take(&mut self.clients[WATCHER].heard);
        let place = heard.iter().position(|(_, text)| text == "second").expect("the second is heard");
        assert_eq!(heard.len(), place + 1, "the second is heard once, and nothing of the first behind it: {heard:?}");
        let ids: BTreeSet<u64> = heard[..place].iter().map(|(id, _)| *id).collect();
        assert_eq!(self.clients[NOTIFIER].ended, [0, 0], "each notification ends once, and well");
        self.clients[NOTIFIER].ended.clear();
        assert!(self.clients.iter().all(|c| c.errors.is_empty()), "a watch was lost");
        Round { heard: place, ids: ids.len(), arrived, cut, until_held }
    }
    /// Watches that stand in the object's record.
    fn watchers(&mut self) -> u32 {
        let list = self.w.one("watched", vec![InOp::new(OsdOp::new(OpCode::LIST_WATCHERS), Bytes::new())]);
        u32::from_le_bytes(list.ops[0].outdata[6..10].try_into().unwrap())
    }
}

#[derive(Debug)]
struct Round {
    heard: usize,
    ids: usize,
    arrived: usize,
    cut: usize,
    /// Bytes that had gone each way when nothing moved but what was held back.
    until_held: [usize; 2],
}

fn scenes() -> impl Iterator<Item = Scene> {
    [Kind::Memory, Kind::Fetching(3)].into_iter().flat_map(|kind| [false, true].map(|is_late| Scene::new(kind, is_late)))
}

#[test]
fn a_watcher_hears_each_notify_once_wherever_its_connection_is_cut() {
    for mut s in scenes() {
        for holds in [false, true] {
            let whole = s.round(WATCHER, &[], holds);
            assert_eq!((whole.heard, whole.cut), (1, 0));
            let notification = whole.until_held[Way::Down as usize];
            for way in [Way::Up, Way::Down] {
                let (mut cuts, mut twice) = (0, 0);
                loop {
                    let r = s.round(WATCHER, &[(way, cuts)], holds);
                    if r.cut == 0 {
                        break;
                    }
                    // Heard, not answered, and gone: it is told again.
                    let again = holds && way == Way::Down && cuts == notification;
                    assert_eq!((r.heard, r.ids, r.arrived), (1 + usize::from(again), 1, 1), "{way:?} {cuts}, holds {holds}");
                    twice += usize::from(again);
                    cuts += 1;
                }
                assert!(cuts > 200, "{way:?}: cut at {cuts} places");
                assert_eq!(twice, usize::from(holds && way == Way::Down));
            }
        }
        assert_eq!(s.watchers(), 1);
    }
}

#[test]
fn a_notifier_that_has_no_answer_notifies_again_under_another_number() {
    for mut s in scenes() {
        for holds in [false, true] {
            for way in [Way::Up, Way::Down] {
                let (mut cuts, mut twice) = (0, 0);
                loop {
                    let r = s.round(NOTIFIER, &[(way, cuts)], holds);
                    if r.cut == 0 {
                        break;
                    }
                    let count = r.arrived;
                    assert!((1..=2).contains(&count) && (r.heard, r.ids) == (count, count), "{way:?} {cuts}, holds {holds}: {r:?}");
                    twice += usize::from(count == 2);
                    cuts += 1;
                }
                assert!(cuts > 200, "{way:?}: cut at {cuts} places");
                // The request must have come for an answer to be lost. Its last byte may be the last before the cut.
                assert_eq!(twice, if way == Way::Up { 1 } else { cuts - 1 }, "{way:?} of {cuts}, holds {holds}");
            }
        }
    }
}

/// The second connection is cut, too, and the third: in the handshake, when the watch comes back, when what was missed is told again.
#[test]
fn connections_that_are_cut_again_and_again_change_no_count() {
    let mut rng = base::Rng::new(16);
    for mut s in scenes() {
        let mut most = 0;
        for _ in 0..600 {
            let victim = rng.below(2) as usize;
            let mut cut = |below: u64| (if rng.chance(1, 2) { Way::Up } else { Way::Down }, rng.below(below) as usize);
            let cuts = [cut(300), cut(1500), cut(1500), cut(1500)];
            let r = s.round(victim, &cuts, false);
            let told = if victim == WATCHER { 1 } else { r.arrived };
            assert_eq!((r.heard, r.ids), (told, told), "{victim} {cuts:?}: {r:?}");
            most = most.max(r.cut);
        }
        assert_eq!(most, 4, "all four cuts fell in some round");
        assert_eq!(s.watchers(), 1);
    }
}

/// The watch goes while the notifier is away: what it asks again is over at once, before the OSD says its number.
#[test]
fn a_notifier_that_comes_back_to_an_object_without_watchers_is_answered() {
    for mut s in scenes() {
        s.clients[WATCHER].holds = true;
        s.clients[NOTIFIER].cuts = vec![(Way::Down, 1_000)];
        s.notify("first");
        s.run();
        assert_eq!((s.arrived, s.clients[WATCHER].heard.len()), (1, 1));
        let (clock, watched) = (s.w.clock(), s.watched);
        // Its connection goes with the number known, and the watch before it is back.
        s.cut(NOTIFIER);
        let back = std::mem::take(&mut s.clients[NOTIFIER].asked);
        let c = &mut s.clients[WATCHER];
        c.objecter.unwatch(watched, clock, &mut c.asked).unwrap();
        s.run();
        assert_eq!(s.watchers(), 0);
        assert!(s.clients[NOTIFIER].ended.is_empty());
        s.clients[NOTIFIER].asked = back;
        s.run();
        s.tell_of_cuts();
        assert_eq!((s.arrived, &s.clients[NOTIFIER].ended[..]), (2, &[0][..]));
    }
}

/// What a watch missed is told in the order in which it was said, whatever was answered meanwhile.
#[test]
fn what_was_missed_comes_in_its_order() {
    for mut s in scenes() {
        s.clients[WATCHER].holds = true;
        let texts = ["1", "2", "3", "4", "5"];
        for text in texts {
            s.notify(text);
        }
        s.run();
        let ids: Vec<u64> = std::mem::take(&mut s.clients[WATCHER].heard).iter().map(|(id, _)| *id).collect();
        for n in [0, 2] {
            s.answer(ids[n]);
        }
        s.run();
        s.clients[WATCHER].cuts = vec![(Way::Up, 0)];
        s.cut(WATCHER);
        s.run();
        s.tell_of_cuts();
        let again: Vec<u64> = s.clients[WATCHER].heard.iter().map(|(id, _)| *id).collect();
        assert_eq!(again, [ids[1], ids[3], ids[4]]);
        for id in again {
            s.answer(id);
        }
        s.run();
        assert_eq!(s.clients[NOTIFIER].ended, [0; 5]);
    }
}

fn raw_notify(w: &mut World, conn: u64) -> u64 {
    let op = OsdOp::with_notify(OpCode::NOTIFY, NotifyArgs { cookie: 5 });
    let mut e = denc::Encoder::new(0);
    e.u32(1);
    e.u32(10);
    e.blob(b"hi");
    let m = w.request("a", vec![InOp::new(op, e.finish())]);
    let reply = w.send(conn, &m).remove(0);
    u64::from_le_bytes(reply.ops[0].outdata[..8].try_into().unwrap())
}
fn heard(w: &mut World, conn: u64) -> Vec<u64> {
    w.sent::<MWatchNotify>(conn).iter().filter(|m| m.cookie == 77).map(|m| m.notify_id).collect()
}

/// Clients name a watch by an address of theirs, which the next one may get: it hears nothing that was for the one before.
#[test]
fn a_cookie_that_is_used_again_hears_nothing_of_before() {
    for kind in [Kind::Memory, Kind::Fetching(5)] {
        for is_cut in [false, true] {
            let mut w = World::new(kind, 1);
            w.write("a", b"1");
            w.connect(2, 4002);
            assert_eq!(w.one("a", vec![watch(watch_op::WATCH, 77)]).result, 0);
            let first = raw_notify(&mut w, 2);
            assert_eq!(heard(&mut w, 1), [first]);
            let conn = if is_cut { 3 } else { 1 };
            let unwatch = w.request("a", vec![watch(watch_op::UNWATCH, 77)]);
            assert_eq!(w.send(1, &unwatch).remove(0).result, 0);
            assert_eq!(w.sent::<MWatchNotify>(2).iter().map(|m| (m.event, m.notify_id)).collect::<Vec<_>>(), [(2, first)]);
            if is_cut {
                // The answer was lost. The client asks again, by when its next watch may stand.
                w.connect(3, 4001);
            }
            let again = w.request("a", vec![watch(watch_op::WATCH, 77)]);
            assert_eq!(w.send(conn, &again).remove(0).result, 0);
            assert_eq!(w.send(conn, &unwatch).remove(0).result, 0, "it was carried out once");
            w.feed(Event::Reset { conn: ConnId(if is_cut { 1 } else { 9 }) });
            assert_eq!(heard(&mut w, 1).len() + heard(&mut w, conn).len(), 0);
            let second = raw_notify(&mut w, 2);
            assert_eq!(heard(&mut w, conn), [second], "the new watch stands");
            // An answer to what the old one heard is none to what the new one hears.
            let mut e = denc::Encoder::new(0);
            e.u64(first);
            e.u64(77);
            e.blob(b"late");
            let ack = OsdOp::with_notify(OpCode::NOTIFY_ACK, NotifyArgs { cookie: 77 });
            let m = w.request("a", vec![InOp::new(ack, e.finish())]);
            assert_eq!(w.send(conn, &m).remove(0).result, 0);
            assert!(w.sent::<MWatchNotify>(2).is_empty());
        }
    }
}

/// A client that comes back names no timeout; the watch keeps its first one, be it longer or shorter than the OSD's own.
#[test]
fn a_watch_that_comes_back_keeps_its_timeout() {
    for timeout_s in [10_u32, 90] {
        let mut w = World::new(Kind::Memory, 1);
        w.write("a", b"1");
        let of = |op: u8, timeout_s: u32| {
            let args = types::osd_op::WatchArgs { cookie: 77, op, timeout_s, ..Default::default() };
            vec![InOp::new(OsdOp::with_watch(OpCode::WATCH, args), Bytes::new())]
        };
        assert_eq!(w.one("a", of(watch_op::WATCH, timeout_s)).result, 0);
        w.feed(Event::Reset { conn: ConnId(1) });
        w.connect(3, 4001);
        let m = w.request("a", of(watch_op::RECONNECT, 0));
        assert_eq!(w.send(3, &m).remove(0).result, 0);
        let lives = |w: &mut World| {
            w.feed(Event::Tick);
            w.osd.pgs().next().unwrap().has_watches()
        };
        w.now_s += u64::from(timeout_s) - 1;
        assert!(lives(&mut w), "{timeout_s} s are not over");
        w.now_s += 2;
        assert!(!lives(&mut w), "{timeout_s} s are over");
    }
}
