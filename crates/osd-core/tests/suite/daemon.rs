//! What a daemon does when its monitor and its manager come and go: an OSD with a store in memory, and a monitor and a manager made of single
//! messages.

use crate::world::parts::first_map;
use base::{Clock, Rng, Stamp};
use cephx::Identity;
use denc::Denc;
use maps::{MgrMap, MonMap, OsdMap, Release, osd_state};
use messages::mon_client::{MLogAck, log_level};
use messages::{
    MConfig, MLog, MMgrMap, MMgrOpen, MMonCommand, MMonCommandAck, MMonGetPurgedSnaps, MMonGetPurgedSnapsReply, MMonGetVersion,
    MMonGetVersionReply, MMonMap, MOSDBoot, MOSDMap, Message, RawMessage,
};
use objecter::MonClient;
use osd_core::daemon::{DialFailure, Effect, Event, Location, Network, StartSetup};
use osd_core::{ConnId, Daemon, Level, Osd, OsdSetup, Peer};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityName, EntityText, Uuid, errno, features};

const MS: u64 = 1_000_000;
const SEC: u64 = 1_000 * MS;

fn addrs(port: u16) -> EntityAddrVec {
    EntityAddr::parse(&format!("v2:127.0.0.1:{port}/0"), AddrType::MSGR2).unwrap().into()
}
fn fsid() -> Uuid {
    Uuid([1; 16])
}
fn peer(kind: EntityKind) -> Peer {
    Peer {
        name: EntityName { kind, num: 0 },
        entity: String::new(),
        global_id: 0,
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr: EntityAddr::default(),
        from: EntityAddr::default(),
        network: Network::Public,
        cap: None,
    }
}

struct Rig {
    daemon: Daemon,
    now_ns: u64,
    out: Vec<Effect>,
    wake_ns: u64,
    /// It answers each sign of life that is asked for.
    monitor_lives: bool,
}

impl Rig {
    fn new(setup: StartSetup) -> Self {
        let osd = OsdSetup {
            whoami: 3,
            cluster_fsid: Uuid::default(),
            osd_fsid: Uuid([2; 16]),
            seed: 7,
            classes: &classes::BUILTIN,
            config: Vec::new(),
        };
        let osd = Osd::new(osd, Box::new(store_mem::MemStore::new(1 << 30)));
        let identity = Rc::new(RefCell::new(Identity::none(EntityText::parse("osd.3").unwrap())));
        let client = MonClient::new(identity, vec![addrs(3300)], "here".into(), 1);
        let daemon = Daemon::new(osd, client, setup, Box::new(Rng::new(5)));
        let mut rig = Self { daemon, now_ns: 100 * SEC, out: Vec::new(), wake_ns: 0, monitor_lives: false };
        rig.feed(Event::Start);
        rig
    }
    fn feed(&mut self, event: Event) {
        let now = Clock { mono: Stamp(self.now_ns), wall_ns: 1_800_000_000 * SEC + self.now_ns };
        let from = self.out.len();
        self.daemon.handle(event, now, &mut self.out);
        if let Some(at) = self.out[from..].iter().rev().find_map(|e| if let Effect::WakeAt(at) = e { Some(at.0) } else { None }) {
            self.wake_ns = at;
        }
    }
    /// Lets time pass as a shell does: the daemon hears of it when it wants to.
    fn pass(&mut self, ns: u64) {
        let end = self.now_ns + ns;
        while self.wake_ns <= end {
            self.now_ns = self.now_ns.max(self.wake_ns);
            if self.monitor_lives {
                self.feed(Event::KeepaliveAcked { sent_wall_ns: 1_800_000_000 * SEC + self.now_ns });
            }
            self.feed(Event::Time);
            assert!(self.wake_ns > self.now_ns, "it wants to hear of the same time for ever");
        }
        self.now_ns = end;
    }
    /// The newest dial of this kind that is in the effects since the last look at them.
    fn dialled(&mut self, wanted: EntityKind) -> Option<ConnId> {
        let found = self.out.iter().rev().find_map(|e| match e {
            Effect::Dial { conn, name, .. } if name.kind == wanted => Some(*conn),
            _ => None,
        });
        self.out.clear();
        found
    }
    fn sent<M: Message>(&mut self) -> Vec<M> {
        let of = |e: &Effect| match e {
            Effect::Send { msg, .. } if msg.kind == M::KIND => Some(M::decode(msg).unwrap()),
            _ => None,
        };
        self.out.iter().filter_map(of).collect()
    }
    fn lines(&self) -> Vec<&str> {
        self.out.iter().filter_map(|e| if let Effect::Log { text, .. } = e { Some(text.as_str()) } else { None }).collect()
    }
    fn stopped(&self) -> Option<Option<&str>> {
        let mut stops = self.out.iter().filter_map(|e| if let Effect::Stop { why } = e { Some(why.as_deref()) } else { None });
        let first = stops.next();
        assert!(stops.next().is_none(), "it ends once");
        first
    }
    fn message(&mut self, conn: ConnId, msg: RawMessage) {
        self.feed(Event::Message { conn, network: Network::Public, msg });
    }
    /// The session opens and the monitor says whose cluster it is.
    fn log_in(&mut self) -> ConnId {
        self.log_in_at(features::SUPPORTED)
    }
    /// The same with a monitor that has these features.
    fn log_in_at(&mut self, supported: u64) -> ConnId {
        let mon = self.dialled(EntityKind::MON).expect("a monitor is dialled");
        self.monitor_lives = true;
        self.feed(Event::Opened { conn: mon, peer: Peer { supported, ..peer(EntityKind::MON) } });
        let mut map = MonMap { fsid: fsid(), epoch: 1, ..MonMap::default() };
        map.add("a", addrs(3300));
        self.message(mon, MMonMap { monmap: map.to_bytes(features::SUPPORTED) }.encode(features::SUPPORTED));
        mon
    }
    fn answer(&mut self, mon: ConnId, result: i32) -> String {
        self.answer_with(mon, result, b"")
    }
    fn answer_with(&mut self, mon: ConnId, result: i32, data: &'static [u8]) -> String {
        let asked = self.sent::<MMonCommand>().pop().expect("a command is asked");
        self.out.clear();
        self.acknowledge(mon, asked.tid, result, data);
        asked.cmd[0].clone()
    }
    fn acknowledge(&mut self, mon: ConnId, tid: u64, result: i32, data: &'static [u8]) {
        let ack = MMonCommandAck { tid, result, status: "as said".into(), data: data.into(), ..Default::default() };
        self.message(mon, ack.encode(features::SUPPORTED));
    }
    /// Device class and place are set, and the OSD is about to boot.
    fn take_place(&mut self, mon: ConnId) {
        assert!(self.answer(mon, 0).contains("set-device-class") && self.answer(mon, 0).contains("create-or-move"));
    }
    /// The monitor's part from there on, by this map; the boot, if one is sent.
    fn boot(&mut self, mon: ConnId, map: &OsdMap) -> Option<MOSDBoot> {
        for _ in 0..8 {
            let (versions, purged) = (self.sent::<MMonGetVersion>(), self.sent::<MMonGetPurgedSnaps>());
            if let Some(boot) = self.sent::<MOSDBoot>().pop() {
                return Some(boot);
            }
            self.out.retain(|e| matches!(e, Effect::Log { .. }));
            for asked in versions {
                let range = MMonGetVersionReply { handle: asked.handle, version: map.epoch.into(), oldest: 1 };
                self.message(mon, range.encode(features::SUPPORTED));
            }
            for asked in purged {
                let reply = MMonGetPurgedSnapsReply { start: asked.start, last: asked.last, ..MMonGetPurgedSnapsReply::default() };
                self.message(mon, reply.encode(features::SUPPORTED));
            }
            if self.daemon.osd().map().epoch < map.epoch {
                self.publish(mon, map);
            }
        }
        None
    }
    fn publish(&mut self, mon: ConnId, map: &OsdMap) {
        let maps = [(map.epoch, map.encode_canonical().0)].into();
        let m = MOSDMap { fsid: fsid(), maps, newest: map.epoch, trim_lower_bound: 1, ..MOSDMap::default() };
        self.message(mon, m.encode(features::SUPPORTED));
    }
    /// The session is cut, and another one has a monitor with these features.
    fn log_in_again(&mut self, mon: ConnId, supported: u64) -> ConnId {
        self.out.clear();
        self.feed(Event::Reset { conn: mon });
        self.log_in_at(supported)
    }
}

fn setup() -> StartSetup {
    StartSetup {
        cluster_fsid: Some(fsid()),
        device_class: Some("ssd".into()),
        location: Some(Location { weight: 0.5, args: vec!["host=here".into()] }),
        ..StartSetup::default()
    }
}

#[test]
fn it_takes_its_place_and_boots() {
    let mut r = Rig::new(setup());
    let mon = r.log_in();
    // A class that is set already stays; the place follows the class, one by one.
    assert!(r.answer(mon, -errno::EBUSY).contains("set-device-class"));
    assert!(r.lines().is_empty(), "{:?}", r.lines());
    assert!(r.answer(mon, 0).contains(r#""prefix":"osd crush create-or-move","id":3,"weight":0.5,"args":["host=here"]"#));
    assert_eq!(r.sent::<MMonGetVersion>().len(), 1, "the boot begins with the monitors' range of maps");
}

#[test]
fn a_command_that_fails_or_has_no_answer_is_said_and_the_start_goes_on() {
    let mut r = Rig::new(setup());
    let mon = r.log_in();
    assert!(r.answer(mon, -errno::EPERM).contains("set-device-class"));
    assert_eq!(r.lines(), ["osd crush set-device-class: as said (-1)"]);
    r.pass(59 * SEC);
    assert_eq!(r.sent::<MMonGetVersion>().len(), 0);
    r.pass(2 * SEC);
    assert!(r.lines().contains(&"the monitor doesn't answer commands"));
    assert_eq!(r.sent::<MMonGetVersion>().len(), 1);
}

#[test]
fn another_clusters_monitor_ends_it() {
    let mut r = Rig::new(StartSetup { cluster_fsid: Some(Uuid([9; 16])), ..setup() });
    r.log_in();
    assert!(r.stopped().flatten().is_some_and(|why| why.contains("belongs to cluster")));
    assert!(r.sent::<MMonCommand>().is_empty());
}

#[test]
fn logins_that_are_refused_are_tried_for_a_while() {
    let mut r = Rig::new(setup());
    let end = r.now_ns + 9 * SEC;
    let mut tries = 0;
    while r.now_ns < end {
        if let Some(mon) = r.dialled(EntityKind::MON) {
            tries += 1;
            r.feed(Event::DialFailed { conn: mon, why: DialFailure::Denied(errno::EACCES), attempts: 1 });
            assert!(
                r.out.iter().any(|e| matches!(e, Effect::Close { conn } if *conn == mon)),
                "it is given up, and dialled by a new number"
            );
        }
        assert_eq!(r.stopped(), None);
        r.pass(50 * MS);
    }
    assert!((4..40).contains(&tries), "{tries} logins in 9 s");
    r.pass(3 * SEC);
    assert!(r.stopped().flatten().is_some_and(|why| why.contains("refuses")));
}

#[test]
fn a_monitor_that_is_away_is_dialled_with_pauses_that_grow_and_at_once_when_a_session_is_cut() {
    let mut r = Rig::new(setup());
    let mut dials = Vec::new();
    for _ in 0..40 {
        if let Some(mon) = r.dialled(EntityKind::MON) {
            dials.push(r.now_ns);
            r.feed(Event::DialFailed { conn: mon, why: DialFailure::Refused, attempts: 1 });
        }
        r.pass(50 * MS);
    }
    assert!((3..8).contains(&dials.len()), "{} dials in 2 s", dials.len());
    assert!(dials[2] - dials[1] > dials[1] - dials[0], "{dials:?}");
    while r.out.iter().all(|e| !matches!(e, Effect::Dial { .. })) {
        r.pass(50 * MS);
    }
    let mon = r.log_in();
    r.feed(Event::Reset { conn: mon });
    assert!(r.dialled(EntityKind::MON).is_some());
}

#[test]
fn the_manager_is_dialled_where_the_map_says_and_again_when_it_is_lost() {
    let mut r = Rig::new(setup());
    let mon = r.log_in();
    let map = |epoch: u32, port: u16| {
        let map = MgrMap { epoch, available: port != 0, active_addrs: addrs(port), ..MgrMap::default() };
        MMgrMap { map: messages::Rest(map.to_bytes(features::SUPPORTED)) }.encode(features::SUPPORTED)
    };
    r.message(mon, map(1, 6800));
    let mgr = r.dialled(EntityKind::MGR).expect("the manager is dialled");
    r.message(mon, map(2, 6800));
    assert_eq!(r.dialled(EntityKind::MGR), None, "it is the same one");
    r.feed(Event::Opened { conn: mgr, peer: peer(EntityKind::MGR) });
    assert_eq!(r.sent::<MMgrOpen>().len(), 1);
    // A session that was cut is made again after a second, a dial that failed sooner, and with pauses that grow.
    r.feed(Event::Reset { conn: mgr });
    r.pass(900 * MS);
    assert_eq!(r.dialled(EntityKind::MGR), None);
    r.pass(200 * MS);
    let mut mgr = r.dialled(EntityKind::MGR).expect("it is dialled again");
    let mut waits = Vec::new();
    for _ in 0..4 {
        let failed_ns = r.now_ns;
        r.feed(Event::DialFailed { conn: mgr, why: DialFailure::Refused, attempts: 1 });
        mgr = loop {
            r.pass(10 * MS);
            if let Some(mgr) = r.dialled(EntityKind::MGR) {
                break mgr;
            }
        };
        waits.push((r.now_ns - failed_ns) / MS);
    }
    assert!(waits[0] <= 260 && waits[3] > 4 * waits[0], "{waits:?}");
    // Another one: the old dial is closed. None: nothing is dialled.
    r.message(mon, map(3, 6900));
    assert!(r.out.iter().any(|e| matches!(e, Effect::Close { conn } if *conn == mgr)));
    assert!(r.dialled(EntityKind::MGR).is_some());
    r.message(mon, map(4, 0));
    assert_eq!(r.dialled(EntityKind::MGR), None);
    r.pass(60 * SEC);
    assert_eq!(r.dialled(EntityKind::MGR), None);
}

/// What it answers to `version`.
fn version(r: &mut Rig) -> String {
    r.feed(Event::AdminCommand { id: 4, command: r#"{"prefix":"version"}"#.into() });
    let answer = r.out.iter().find_map(|e| match e {
        Effect::AnswerAdmin { id: 4, result: 0, data, .. } => Some(String::from_utf8(data.to_vec()).unwrap()),
        _ => None,
    });
    answer.expect("it is answered")
}

#[test]
fn a_command_of_the_machine_is_answered() {
    let told = version(&mut Rig::new(setup()));
    assert!(told.contains("18.2.7") && told.contains("reef"), "{told}");
}

#[test]
fn it_presents_the_version_of_a_cluster_that_is_newer() {
    let mut r = Rig::new(setup());
    let mon = r.log_in_at(features::OSD_SUPPORTED);
    assert!(r.answer_with(mon, 0, b"ceph version 20.2.4 (8f7a) tentacle (stable)\n").contains(r#""prefix":"version""#));
    assert!(r.lines().is_empty(), "{:?}", r.lines());
    assert!(r.answer(mon, 0).contains("set-device-class") && r.answer(mon, 0).contains("create-or-move"));
    assert_eq!(r.sent::<MMonGetVersion>().len(), 1);
    let told = version(&mut r);
    assert!(told.contains("\"20.2.4\"") && told.contains("\"tentacle\""), "{told}");
    // A version that it can't stand for: it says which, and its own.
    let mut r = Rig::new(setup());
    let mon = r.log_in_at(features::OSD_SUPPORTED);
    r.answer_with(mon, 0, b"ceph version 21.1.0 (8f7a) umbrella (dev)");
    assert_eq!(r.lines(), ["the monitor's version is not one that this OSD can present: \"ceph version 21.1.0 (8f7a) umbrella (dev)\""]);
    assert!(r.answer(mon, 0).contains("set-device-class") && r.answer(mon, 0).contains("create-or-move"));
    assert!(version(&mut r).contains("18.2.7"));
}

const TENTACLE: &[u8] = b"ceph version 20.2.4 (8f7a) tentacle (stable)\n";
const RISEN: &str =
    "the monitors are of 20.2.4 (tentacle) now, and this OSD says 18.2.7 until it boots again: restart it, or `ceph osd down 3`";

fn releases(boot: &MOSDBoot) -> [Option<&str>; 2] {
    ["ceph_release", "ceph_version_short"].map(|field| boot.metadata.get(field).map(String::as_str))
}

/// Monitors take an OSD's version from a boot alone. Until the next one it says the old version everywhere, as a stock OSD does.
#[test]
fn an_osd_that_runs_says_the_new_release_from_its_next_boot_on() {
    let mut r = Rig::new(setup());
    let mon = r.log_in();
    r.take_place(mon);
    let mut map = first_map(4);
    let boot = r.boot(mon, &map).expect("it boots");
    assert_eq!(releases(&boot), [None; 2], "the shell's own");
    (map.epoch, map.osd_state[3]) = (2, osd_state::EXISTS | osd_state::UP);
    map.osd_info[3].up_from = 2;
    r.publish(mon, &map);
    assert!(r.daemon.osd().is_up());

    // Its monitor is upgraded, and then the next one, which has the same to say.
    let mut mon = mon;
    for times in [1, 0] {
        mon = r.log_in_again(mon, features::OSD_SUPPORTED);
        assert!(r.answer_with(mon, 0, TENTACLE).contains(r#""prefix":"version""#));
        assert_eq!(r.lines().iter().filter(|line| **line == RISEN).count(), times, "{:?}", r.lines());
        assert!(version(&mut r).contains("18.2.7"));
        assert!(r.sent::<MMonGetVersion>().is_empty() && r.sent::<MOSDBoot>().is_empty());
        r.out.clear();
    }
    (map.epoch, map.osd_state[3]) = (3, osd_state::EXISTS);
    r.publish(mon, &map);
    let boot = r.boot(mon, &map).expect("no other OSD is there to hear it");
    assert_eq!(releases(&boot), [Some("tentacle"), Some("20.2.4")]);
    assert!(version(&mut r).contains("20.2.4"));
    // The monitor of before is back: it is not asked, and what is said stays.
    r.log_in_again(mon, features::SUPPORTED);
    assert!(r.sent::<MMonCommand>().is_empty() && version(&mut r).contains("20.2.4"));
}

/// The boot has the release of the monitor that takes it, whichever was asked first.
#[test]
fn a_monitor_that_changes_its_release_while_an_osd_boots_is_asked_first() {
    let map = first_map(4);
    let mut r = Rig::new(setup());
    let mon = r.log_in();
    r.take_place(mon);
    let mon = r.log_in_again(mon, features::OSD_SUPPORTED);
    let asked = r.sent::<MMonCommand>().pop().expect("the version is asked");
    assert!(asked.cmd[0].contains(r#""prefix":"version""#));
    assert_eq!(
        r.boot(mon, &map).map(|boot| releases(&boot).map(|said| said.map(String::from))),
        None,
        "its maps are told before its version"
    );
    r.acknowledge(mon, asked.tid, 0, TENTACLE);
    let boot = r.boot(mon, &map).expect("it boots now");
    assert_eq!(releases(&boot), [Some("tentacle"), Some("20.2.4")]);
    assert!(!r.lines().contains(&RISEN), "it never said anything else");

    // It goes again before it has answered, and the next one is asked; one without an answer holds nothing up for ever.
    let mut r = Rig::new(setup());
    let mon = r.log_in();
    r.take_place(mon);
    let mon = r.log_in_again(mon, features::OSD_SUPPORTED);
    let mon = r.log_in_again(mon, features::OSD_SUPPORTED);
    assert_eq!(r.sent::<MMonCommand>().len(), 1, "the same question, asked again");
    assert!(r.boot(mon, &map).is_none());
    r.pass(61 * SEC);
    assert!(r.lines().contains(&"the monitor doesn't answer commands"));
    assert_eq!(releases(&r.boot(mon, &map).expect("as one of 18.2")), [None; 2]);
}

/// The OSD is older than the cluster allows.
#[test]
fn a_cluster_of_a_later_release_has_the_osd_wait_for_its_update() {
    let mut map = first_map(4);
    map.require_osd_release = Release(21);
    let mut r = Rig::new(setup());
    let mon = r.log_in_at(features::OSD_SUPPORTED);
    r.answer_with(mon, 0, b"ceph version 21.1.0 (8f7a) umbrella (stable)");
    assert!(
        r.lines().contains(&"the monitor's version is not one that this OSD can present: \"ceph version 21.1.0 (8f7a) umbrella (stable)\"")
    );
    r.take_place(mon);
    assert_eq!(r.boot(mon, &map).map(|boot| boot.osd_features), None);
    let why = "can't boot: the cluster requires OSDs of release 21, and this one serves up to tentacle (20): update it";
    assert_eq!(r.lines().iter().filter(|line| **line == why).count(), 1, "{:?}", r.lines());
    r.pass(60 * SEC);
    assert!(r.boot(mon, &map).is_none() && r.stopped().is_none(), "it waits");
    assert!(r.daemon.osd().pgs().next().is_none());
    // An operator went back, or the map was a mistake.
    (map.epoch, map.require_osd_release) = (2, Release::TENTACLE);
    r.publish(mon, &map);
    assert!(r.boot(mon, &map).is_some());
}

#[test]
fn one_that_is_not_up_goes_at_once() {
    let mut r = Rig::new(setup());
    r.feed(Event::Shutdown);
    assert_eq!(r.stopped(), Some(None));
}

#[test]
fn a_swallowed_monitor_is_neither_heard_nor_told_anything_and_its_session_stays() {
    let mut r = Rig::new(setup());
    let mon = r.log_in();
    r.answer(mon, 0);
    r.answer(mon, 0);
    let config = |value: &str| MConfig { config: [("ms_blackhole_mon".to_string(), value.to_string())].into() }.encode(features::SUPPORTED);
    r.out.clear();
    r.message(mon, config("true"));
    r.out.clear();
    r.pass(20 * SEC);
    let sends = r.out.iter().filter(|e| matches!(e, Effect::Send { .. })).count();
    assert_eq!(sends, 0, "beacons, subscriptions and commands vanish: {:?}", r.out);
    assert!(r.dialled(EntityKind::MON).is_none(), "the session is alive");
    // Its word that this be over is not heard either.
    r.message(mon, config("false"));
    r.pass(20 * SEC);
    assert!(!r.out.iter().any(|e| matches!(e, Effect::Send { .. })));
}

/// What is closed since the last look.
fn closed(r: &mut Rig) -> Vec<u64> {
    let found = r.out.iter().filter_map(|e| if let Effect::Close { conn } = e { Some(conn.0) } else { None }).collect();
    r.out.clear();
    found
}

/// Clients of number 5 and 8, of which the second goes, and an OSD: each with a ticket for ten minutes.
fn tickets_for_ten_minutes(r: &mut Rig) {
    for (conn, kind) in [(5, EntityKind::CLIENT), (6, EntityKind::OSD), (7, EntityKind::MDS), (8, EntityKind::CLIENT)] {
        let conn = ConnId(conn);
        r.feed(Event::Accepted { conn, peer: peer(kind) });
        r.feed(Event::TicketLasts { conn, kind, lasts: Duration::from_secs(600) });
    }
    r.feed(Event::Reset { conn: ConnId(8) });
}

fn sessions_end_with_their_tickets() {
    let mut r = Rig::new(setup());
    r.log_in();
    tickets_for_ten_minutes(&mut r);
    r.pass(659 * SEC);
    assert_eq!(closed(&mut r), [0; 0], "a ticket of ten minutes, and a minute to renew it");
    r.pass(62 * SEC);
    let mut ended = closed(&mut r);
    ended.sort_unstable();
    assert_eq!(ended, [5, 7], "an OSD's session stays, and one that is over has ended");
    r.pass(1000 * SEC);
    assert_eq!(closed(&mut r), [0; 0]);
}

#[test]
fn a_session_ends_with_its_ticket() {
    sessions_end_with_their_tickets();
    #[cfg(debug_assertions)]
    {
        osd_core::planted::plant(Some(osd_core::planted::Bug::OutliveTickets));
        let went_well = std::panic::catch_unwind(sessions_end_with_their_tickets).is_ok();
        osd_core::planted::plant(None);
        assert!(!went_well, "sessions that outlive their tickets are noticed");
    }
}

/// While there is no monitor at which clients could renew, what they do goes on.
#[test]
fn without_a_monitor_sessions_wait_for_one() {
    let mut r = Rig::new(setup());
    let mon = r.log_in();
    tickets_for_ten_minutes(&mut r);
    r.feed(Event::Reset { conn: mon });
    r.pass(2000 * SEC);
    assert!(!closed(&mut r).iter().any(|conn| *conn < 10));
    r.feed(Event::DialFailed { conn: mon, why: DialFailure::Refused, attempts: 1 });
    let mon = loop {
        if let Some(mon) = r.dialled(EntityKind::MON) {
            break mon;
        }
        r.pass(SEC);
    };
    r.feed(Event::Opened { conn: mon, peer: peer(EntityKind::MON) });
    r.pass(59 * SEC);
    assert!(!closed(&mut r).iter().any(|conn| *conn < 10), "it must have been there for a minute");
    r.pass(2 * SEC);
    assert_eq!(closed(&mut r).iter().filter(|conn| **conn < 10).count(), 2);
}

/// One that is not up in the map has nothing but that to say.
#[test]
fn its_last_words_are_told_and_waited_for() {
    let mut r = Rig::new(setup());
    let mon = r.log_in();
    r.out.clear();
    r.feed(Event::Seen { level: Level::Warn, text: "a write has not ended for 15 s".into() });
    assert_eq!(r.lines(), ["a write has not ended for 15 s"]);
    assert_eq!(r.sent::<MLog>().len(), 1);
    r.out.clear();
    r.feed(Event::LastWords { why: "its disk hangs".into() });
    let said = r.sent::<MLog>();
    let entry = &said[0].entries[0];
    assert_eq!((&*entry.text.to_lossy(), entry.level), ("leaves the cluster: its disk hangs", log_level::ERROR));
    assert_eq!(r.stopped(), None, "the monitor has not got it yet");
    let ack = MLogAck { fsid: fsid(), last: entry.seq, channel: String::new() };
    r.message(mon, ack.encode(features::SUPPORTED));
    assert_eq!(r.stopped(), Some(None));
}

#[test]
fn last_words_that_no_monitor_hears_hold_nothing_up_for_long() {
    let mut r = Rig::new(setup());
    r.feed(Event::LastWords { why: "its store is damaged".into() });
    r.pass(2 * SEC);
    assert_eq!(r.stopped(), None);
    r.pass(2 * SEC);
    assert_eq!(r.stopped(), Some(None));
}
