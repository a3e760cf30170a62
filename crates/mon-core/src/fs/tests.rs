//! File systems and their servers at the monitor, event by event: which gets which rank, and that none gets one whose holder isn't fenced.

#[path = "../../tests/common/mod.rs"]
mod common;

use super::planted::{Bug, is_noticed};
use crate::{ConnId, Effect, Endpoint, Event, Handshake, Mon, NewCluster, PeerInfo, Snapshot, mkfs};
use base::Rng;
use cephx::AuthCapsInfo;
use common::{addr, clock, options};
use denc::Denc;
use maps::{FsMap, FsMapUser, MdsMap, MdsState};
use messages::*;
use serde_json::Value;
use types::{AddrType, CompatSet, EntityText, UTime, Uuid, features};

const ADMIN: ConnId = ConnId(1);
const CLIENT: ConnId = ConnId(2);
/// `mds_beacon_grace` and a second.
const GRACE_S: u64 = 16;

fn fsid() -> Uuid {
    Uuid::from_random([7; 16])
}

struct World {
    mon: Mon,
    store: Snapshot,
    sent: Vec<(ConnId, RawMessage)>,
    now_ms: u64,
}

impl World {
    /// A monitor with three pools.
    fn new() -> Self {
        let (fsid, key_type) = (fsid(), cephx::KeyType::AES);
        let set = |name: &str, value: &str| ("global".to_string(), name.to_string(), value.to_string());
        let config = vec![set("osd_pool_default_size", "1"), set("mon_allow_pool_delete", "true")];
        let new = NewCluster { fsid, mon_addrs: options(fsid).mon_addrs, failure_domain: "osd".into(), osds: 1, key_type, config };
        let (batch, _) = mkfs(&new, UTime::from_wall_ns(clock(0).wall_ns), &mut Rng::new(1));
        let mut store = Snapshot::default();
        store.apply(&batch);
        let mon = Mon::load(&store, options(fsid), Box::new(Rng::new(2)), clock(0)).unwrap();
        let mut w = Self { mon, store, sent: Vec::new(), now_ms: 0 };
        w.event(Event::Tick);
        w.open(ADMIN, "client.admin", "allow *");
        for pool in ["meta", "data", "more", "other"] {
            w.ok(&format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":1}}"#));
        }
        w
    }
    /// With a file system `one` that a server holds and another stands by for.
    fn served() -> (Self, Server, Server) {
        let mut w = Self::new();
        w.ok(r#"{"prefix":"fs new","fs_name":"one","metadata":"meta","data":"data"}"#);
        let mut a = w.boot("a", 10);
        w.activate(&mut a);
        let mut b = w.boot("b", 11);
        w.pass(1, &mut [&mut a, &mut b]);
        assert_eq!(w.mds("one").up[&0], a.gid);
        (w, a, b)
    }
    fn restart(&mut self) {
        self.mon = Mon::load(&self.store, options(fsid()), Box::new(Rng::new(3)), clock(self.now_ms)).unwrap();
        self.sent.clear();
        self.open(ADMIN, "client.admin", "allow *");
    }
    fn event(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.mon.handle(event, clock(self.now_ms), &mut effects);
        for effect in effects {
            match effect {
                Effect::Persist(batch) => self.store.apply(&batch),
                Effect::Send { conn, message } => self.sent.push((conn, message)),
                _ => {}
            }
        }
        self.check_fences();
    }
    /// Who lost a rank stands on the blocklist in the epoch that its file system's map names, and that is not one of the future.
    fn check_fences(&self) {
        for fs in self.mon.fs.map.filesystems.values() {
            assert!(fs.mds.last_failure_osd_epoch <= self.mon.osd.epoch());
        }
    }
    fn open(&mut self, conn: ConnId, name: &str, caps: &str) {
        let peer = PeerInfo {
            entity: EntityText::parse(name).unwrap(),
            global_id: 5000 + conn.0,
            caps: AuthCapsInfo::from_text(caps),
            addrs: addr(&format!("v2:127.0.0.1:{}/{}", 6800 + conn.0, conn.0)),
            from: addr(&format!("v2:127.0.0.1:{}/{}", 6800 + conn.0, conn.0)).front(),
            features: features::SUPPORTED,
            handshake: Handshake::default(),
        };
        self.event(Event::Open { conn, endpoint: Endpoint::Mon, peer: Box::new(peer) });
    }
    fn send<M: Message>(&mut self, conn: ConnId, message: &M) {
        self.event(Event::Message { conn, message: message.encode(features::SUPPORTED) });
    }
    fn take<M: Message>(&mut self, conn: ConnId) -> Vec<M> {
        let wanted = |(c, m): &mut (ConnId, RawMessage)| *c == conn && m.kind == M::KIND;
        self.sent.extract_if(.., wanted).map(|(_, m)| M::decode(&m).unwrap()).collect()
    }
    fn subscribe(&mut self, conn: ConnId, what: &str) {
        let what = [(what.to_string(), SubscribeItem { start: 0, flags: 0 })].into();
        self.send(conn, &MMonSubscribe { what, hostname: "h".into() });
    }
    fn command_of(&mut self, conn: ConnId, json: &str) -> (i32, Value, String) {
        self.send(conn, &MMonCommand { fsid: fsid(), cmd: vec![json.into()], ..MMonCommand::default() });
        let ack = self.take::<MMonCommandAck>(conn).pop().expect("a command is answered");
        (ack.result, serde_json::from_slice(&ack.data).unwrap_or_default(), ack.status)
    }
    fn command(&mut self, json: &str) -> i32 {
        self.command_of(ADMIN, json).0
    }
    fn ok(&mut self, json: &str) -> Value {
        let (result, out, status) = self.command_of(ADMIN, json);
        assert_eq!(result, 0, "{json}: {status}");
        out
    }
    fn map(&self) -> &FsMap {
        &self.mon.fs.map
    }
    fn mds(&self, fs: &str) -> MdsMap {
        self.map().by_name(fs).unwrap().mds.clone()
    }
    fn health(&mut self) -> Vec<String> {
        let out = self.ok(r#"{"prefix":"health","format":"json"}"#);
        out["checks"].as_object().unwrap().keys().filter(|code| code.starts_with("MDS") || code.starts_with("FS")).cloned().collect()
    }

    fn boot(&mut self, name: &str, conn: u64) -> Server {
        let conn = ConnId(conn);
        self.open(conn, &format!("mds.{name}"), "allow profile mds");
        self.subscribe(conn, "mdsmap");
        let s = Server { conn, gid: 5000 + conn.0, name: name.into(), seq: 1, state: MdsState::BOOT, fs: String::new() };
        self.send(conn, &s.beacon(0));
        assert_eq!(self.take::<MMDSBeacon>(conn).len(), 1, "a beacon is answered");
        Server { state: MdsState::STANDBY, ..s }
    }
    /// A beacon with the newest map that its server can have.
    fn beat(&mut self, s: &mut Server) {
        s.seq += 1;
        let epoch = match (self.map().filesystem_of(s.gid), self.map().standby_epochs.get(&s.gid)) {
            (Some(fs), _) => fs.mds.epoch,
            (None, epoch) => epoch.copied().unwrap_or(0),
        };
        self.send(s.conn, &s.beacon(epoch));
    }
    /// Time passes, with a tick each second; servers that are given are heard, in the state that the map says.
    fn pass(&mut self, seconds: u64, alive: &mut [&mut Server]) {
        for _ in 0..seconds {
            self.now_ms += 1000;
            for s in alive.iter_mut() {
                if let Some(info) = self.map().daemon(s.gid) {
                    s.state = info.state;
                }
                self.beat(s);
            }
            self.event(Event::Tick);
        }
    }
    /// Goes with a server from the rank that it was given to active.
    fn activate(&mut self, s: &mut Server) {
        self.pass(1, &mut [s]);
        for _ in 0..10 {
            s.state = match self.map().daemon(s.gid).expect("it is known").state {
                MdsState::CREATING | MdsState::STARTING | MdsState::CLIENTREPLAY => MdsState::ACTIVE,
                MdsState::REPLAY => MdsState::RECONNECT,
                MdsState::ACTIVE => return,
                MdsState(state) => MdsState(state + 1),
            };
            self.beat(s);
        }
        panic!("mds.{} does not become active", s.name);
    }
    fn is_fenced(&self, s: &Server) -> bool {
        let addr = addr(&format!("v2:127.0.0.1:{}/{}", 6800 + s.conn.0, s.conn.0)).front().with_kind(AddrType::ANY);
        self.mon.osd.map.blocklist.contains_key(&addr)
    }
    /// True if it was sent a map in which it isn't.
    fn was_told_to_go(&mut self, s: &Server) -> bool {
        self.take::<MMDSMap>(s.conn).iter().any(|m| m.epoch == u32::MAX && MdsMap::from_bytes(&m.map).unwrap().info.is_empty())
    }
}

struct Server {
    conn: ConnId,
    gid: u64,
    name: String,
    seq: u64,
    state: MdsState,
    fs: String,
}

impl Server {
    fn beacon(&self, epoch: u32) -> MMDSBeacon {
        MMDSBeacon {
            paxos: Paxos::at(epoch.into()),
            fsid: fsid(),
            gid: self.gid,
            state: self.state.0,
            seq: self.seq,
            name: self.name.clone(),
            compat: CompatSet::mds_unsaid(),
            sys_info: [("hostname".to_string(), "h".to_string()), ("ceph_version".to_string(), "v".to_string())].into(),
            mds_features: features::SUPPORTED,
            fs: self.fs.clone(),
            ..MMDSBeacon::default()
        }
    }
}

#[test]
fn a_file_system_gets_a_server_and_clients_find_it() {
    let mut w = World::new();
    assert!(w.health().is_empty());
    w.open(CLIENT, "client.c", "allow r");
    w.subscribe(CLIENT, "fsmap.user");
    w.subscribe(CLIENT, "mdsmap.1");
    w.take::<MFSMapUser>(CLIENT);
    w.ok(r#"{"prefix":"fs new","fs_name":"one","metadata":"meta","data":"data"}"#);
    let user = w.take::<MFSMapUser>(CLIENT).pop().expect("there is a file system");
    assert_eq!(FsMapUser::from_bytes(&user.map.0).unwrap().filesystems[0].name, "one");
    assert_eq!(w.take::<MMDSMap>(CLIENT).len(), 1, "what was waited for is there");
    assert_eq!(w.health(), ["MDS_ALL_DOWN", "MDS_UP_LESS_THAN_MAX"]);

    let mut a = w.boot("a", 10);
    let own = w.take::<MMDSMap>(a.conn).pop().expect("a standby sees itself");
    assert_eq!(MdsMap::from_bytes(&own.map).unwrap().info[&a.gid].state, MdsState::STANDBY);
    w.pass(1, &mut [&mut a]);
    let mds = w.mds("one");
    assert_eq!((mds.up[&0], mds.info[&a.gid].state), (a.gid, MdsState::CREATING));
    w.activate(&mut a);
    assert!(w.health().is_empty());
    let seen = w.take::<MMDSMap>(CLIENT).pop().expect("clients are told");
    assert_eq!(MdsMap::from_bytes(&seen.map).unwrap(), w.mds("one"));
    assert_eq!(w.ok(r#"{"prefix":"mds metadata","who":"a","format":"json"}"#)["hostname"], "h");
    assert_eq!(w.ok(r#"{"prefix":"versions","format":"json"}"#)["mds"]["v"], 1);
    assert_eq!(w.ok(r#"{"prefix":"node ls","type":"mds","format":"json"}"#)["h"][0], "a");
    let status = w.ok(r#"{"prefix":"status","format":"json"}"#);
    assert_eq!(status["fsmap"]["by_rank"][0]["status"], "up:active");

    // Its pools are marked, and can't go.
    let pool = &w.mon.osd.map.pools[&w.mds("one").metadata_pool];
    assert_eq!(pool.application_metadata["cephfs"]["metadata"], "one");
    assert_eq!(w.command(r#"{"prefix":"osd pool delete","pool":"data","pool2":"data","yes_i_really_really_mean_it":true}"#), -16);
    w.ok(r#"{"prefix":"fs add_data_pool","fs_name":"one","pool":"more"}"#);
    assert_eq!(w.mds("one").data_pools.len(), 2);
    w.ok(r#"{"prefix":"fs rm_data_pool","fs_name":"one","pool":"more"}"#);
    // All of it is there after a restart.
    let before = w.map().clone();
    w.restart();
    assert_eq!(*w.map(), before);
    assert_eq!(w.ok(r#"{"prefix":"mds metadata","who":"a","format":"json"}"#)["hostname"], "h");
}

#[test]
fn a_silent_server_is_fenced_and_replaced() {
    let (mut w, mut a, mut b) = World::served();
    w.pass(GRACE_S - 2, &mut [&mut b]);
    assert_eq!(w.mds("one").up[&0], a.gid, "not before the grace is over");
    w.pass(3, &mut [&mut b]);
    let mds = w.mds("one");
    assert_eq!((mds.up[&0], mds.info[&b.gid].state), (b.gid, MdsState::REPLAY));
    assert!(w.is_fenced(&a));
    assert_eq!(mds.last_failure_osd_epoch, w.mon.osd.epoch(), "who replays waits for the epoch that fences");
    assert!(w.health().contains(&"FS_DEGRADED".to_string()));
    w.activate(&mut b);
    assert_eq!(w.health(), ["MDS_INSUFFICIENT_STANDBY"]);
    // It comes back to find that it has no place.
    w.take::<MMDSMap>(a.conn);
    w.beat(&mut a);
    assert!(w.was_told_to_go(&a) && w.mds("one").up[&0] == b.gid);
}

#[test]
fn the_last_server_keeps_its_rank_however_long_it_is_silent() {
    let (mut w, a, mut b) = World::served();
    w.ok(r#"{"prefix":"mds fail","role_or_gid":"b"}"#);
    assert!(!w.is_fenced(&b), "a standby can't have written");
    w.pass(3 * GRACE_S, &mut []);
    let mds = w.mds("one");
    assert!(mds.info[&a.gid].is_laggy() && mds.up[&0] == a.gid);
    // A new one takes over at once.
    b = w.boot("b", 12);
    w.pass(1, &mut [&mut b]);
    assert!(w.mds("one").up[&0] == b.gid && w.is_fenced(&a));
}

#[test]
fn a_monitor_that_was_away_counts_silence_from_its_return() {
    let (mut w, mut a, mut b) = World::served();
    w.now_ms += 3_600_000;
    w.restart();
    w.event(Event::Tick);
    w.pass(GRACE_S - 2, &mut []);
    assert_eq!(w.mds("one").up[&0], a.gid);
    // And one that stood still for a while does, too.
    for s in [&mut a, &mut b] {
        w.open(s.conn, &format!("mds.{}", s.name), "allow profile mds");
        w.beat(s);
    }
    w.now_ms += 3_600_000;
    w.event(Event::Tick);
    assert_eq!((w.mds("one").up[&0], w.map().standbys.len()), (a.gid, 1));
    // Who is heard first after that doesn't make the others silent.
    w.now_ms += 3_600_000;
    w.beat(&mut b);
    w.event(Event::Tick);
    assert_eq!((w.mds("one").up[&0], w.map().standbys.len()), (a.gid, 1));
}

#[test]
fn a_restart_in_mid_failover_goes_on_where_it_was() {
    let (mut w, a, mut b) = World::served();
    w.pass(GRACE_S + 1, &mut [&mut b]);
    assert_eq!(w.map().daemon(b.gid).unwrap().state, MdsState::REPLAY);
    w.restart();
    assert!(w.is_fenced(&a));
    w.open(b.conn, "mds.b", "allow profile mds");
    w.activate(&mut b);
    assert_eq!(w.mds("one").up[&0], b.gid);
}

#[test]
fn who_says_what_it_may_not_is_fenced_and_told_to_go() {
    type Lie = (&'static str, fn(&mut MMDSBeacon));
    let lies: [Lie; 5] = [
        ("a step that doesn't follow", |b| b.state = MdsState::REPLAY.0),
        ("a state that the monitor gives", |b| b.state = MdsState::STANDBY.0),
        ("stopped without stopping", |b| b.state = MdsState::STOPPED.0),
        ("a state that there isn't", |b| b.state = 99),
        ("other features", |b| b.compat = CompatSet::mds_default()),
    ];
    for (what, lie) in lies {
        let (mut w, mut a, _) = World::served();
        w.take::<MMDSMap>(a.conn);
        a.seq += 1;
        let mut beacon = a.beacon(w.mds("one").epoch);
        beacon.state = MdsState::ACTIVE.0;
        lie(&mut beacon);
        w.send(a.conn, &beacon);
        assert!(w.is_fenced(&a) && w.map().daemon(a.gid).is_none() && w.was_told_to_go(&a), "{what}");
    }
    // A standby that takes a rank by itself.
    let (mut w, a, mut b) = World::served();
    w.take::<MMDSMap>(b.conn);
    b.state = MdsState::ACTIVE;
    w.beat(&mut b);
    assert!(w.was_told_to_go(&b) && w.mds("one").up[&0] == a.gid);
}

#[test]
fn beacons_that_are_late_or_of_others_change_nothing() {
    let (mut w, mut a, _) = World::served();
    let before = w.map().clone();
    let lies: [fn(&mut MMDSBeacon); 4] = [
        |b| b.fsid = Uuid::from_random([9; 16]),
        |b| b.gid = 0,
        |b| b.seq = 1,
        // It speaks of an epoch in which it was something else.
        |b| (b.state, b.paxos) = (MdsState::STOPPED.0, Paxos::at(1)),
    ];
    for lie in lies {
        a.seq += 1;
        let mut beacon = a.beacon(w.mds("one").epoch);
        beacon.state = MdsState::DAMAGED.0;
        lie(&mut beacon);
        w.send(a.conn, &beacon);
        assert_eq!(*w.map(), before);
    }
    // One without the right to, and one that is not known.
    w.open(CLIENT, "client.c", "allow r");
    let mut beacon = a.beacon(w.mds("one").epoch);
    beacon.state = MdsState::DAMAGED.0;
    beacon.seq += 1;
    w.send(CLIENT, &beacon);
    beacon.gid = 4711;
    w.send(a.conn, &beacon);
    assert!(*w.map() == before);
    // One that is not in the map, and says that it serves.
    w.open(ConnId(12), "mds.c", "allow profile mds");
    (beacon.gid, beacon.name) = (5012, "c".into());
    w.send(ConnId(12), &beacon);
    let c = Server { conn: ConnId(12), gid: 5012, name: "c".into(), seq: 1, state: MdsState::ACTIVE, fs: String::new() };
    assert!(*w.map() == before && w.was_told_to_go(&c));
}

#[test]
fn each_broken_promise_is_noticed() {
    let plans: [(Bug, fn()); 6] = [
        (Bug::BelieveAnyBeacon, a_beacon_speaks_for_its_own_number_alone),
        (Bug::DontFence, a_silent_server_is_fenced_and_replaced),
        (Bug::NameNoEpoch, a_silent_server_is_fenced_and_replaced),
        (Bug::TakeAnyState, who_says_what_it_may_not_is_fenced_and_told_to_go),
        (Bug::HaveNoGrace, a_silent_server_is_fenced_and_replaced),
        (Bug::CountOwnAbsence, a_monitor_that_was_away_counts_silence_from_its_return),
    ];
    for (bug, test) in plans {
        assert!(is_noticed(bug, test), "{bug:?}");
    }
}

/// A beacon in another's name, or in a connection that is another's, moves nothing of that other.
#[test]
fn a_beacon_speaks_for_its_own_number_alone() {
    let (mut w, mut a, mut b) = World::served();
    w.pass(1, &mut [&mut a, &mut b]);
    let before = w.map().clone();
    b.seq += 1;
    let mut beacon = b.beacon(w.map().standby_epochs[&b.gid]);
    beacon.name = "a".into();
    w.send(b.conn, &beacon);
    assert_eq!(*w.map(), before, "a name is its key's");
    // Another's number and name, whatever it says of it; a boot under another's name; another's targets.
    for state in [MdsState::BOOT, MdsState::STANDBY, MdsState::ACTIVE, MdsState::STOPPED, MdsState::DAMAGED, MdsState::DNE] {
        let mut forged = Server { seq: 1000, state, name: a.name.clone(), fs: String::new(), ..a };
        w.send(b.conn, &forged.beacon(w.mds("one").epoch));
        forged.gid = b.gid;
        w.send(b.conn, &forged.beacon(w.mds("one").epoch));
        forged.gid = 4711;
        w.send(b.conn, &forged.beacon(w.mds("one").epoch));
        assert_eq!(*w.map(), before, "{state:?}");
    }
    w.send(b.conn, &MMDSLoadTargets { gid: a.gid, targets: [0].into(), ..MMDSLoadTargets::default() });
    assert_eq!(*w.map(), before);
    w.send(a.conn, &MMDSLoadTargets { gid: a.gid, targets: [0].into(), ..MMDSLoadTargets::default() });
    assert_ne!(*w.map(), before);
    // A standby that wants to be what it isn't, is out; the rank's holder stays.
    for state in [MdsState::STOPPED, MdsState::REPLAY, MdsState::ACTIVE, MdsState::DAMAGED] {
        let (mut w, a, mut b) = World::served();
        b.seq += 1;
        b.state = state;
        let beacon = b.beacon(w.map().standby_epochs[&b.gid]);
        w.send(b.conn, &beacon);
        assert!(w.map().daemon(b.gid).is_none() && w.mds("one").up[&0] == a.gid && w.mds("one").damaged.is_empty(), "{state:?}");
    }
}

#[test]
fn a_name_is_one_servers() {
    let (mut w, a, mut b) = World::served();
    let mut again = w.boot("a", 20);
    assert!(w.map().daemon(a.gid).is_none() && w.is_fenced(&a));
    w.pass(1, &mut [&mut b, &mut again]);
    assert_eq!(w.mds("one").up[&0], again.gid, "of equals the one with the highest number, as on stock");
}

#[test]
fn ranks_are_added_taken_away_followed_and_repaired() {
    let (mut w, mut a, mut b) = World::served();
    w.ok(r#"{"prefix":"fs set","fs_name":"one","var":"max_mds","val":"2"}"#);
    w.activate(&mut b);
    let mut c = w.boot("c", 12);
    assert_eq!(w.mds("one").up.len(), 2);
    w.ok(r#"{"prefix":"fs set","fs_name":"one","var":"allow_standby_replay","val":"true"}"#);
    w.pass(1, &mut [&mut a, &mut b, &mut c]);
    assert_eq!(w.mds("one").follower(0).unwrap().gid, c.gid);
    // The follower takes over.
    w.ok(r#"{"prefix":"mds fail","role_or_gid":"one:0"}"#);
    assert!(w.is_fenced(&a));
    w.activate(&mut c);
    assert_eq!(w.mds("one").up[&0], c.gid);
    // The highest rank is emptied, and is gone when its server says so.
    w.ok(r#"{"prefix":"fs set","fs_name":"one","var":"max_mds","val":"1"}"#);
    w.pass(1, &mut [&mut b, &mut c]);
    assert_eq!(w.map().daemon(b.gid).unwrap().state, MdsState::STOPPING);
    b.state = MdsState::STOPPED;
    w.beat(&mut b);
    assert!(w.mds("one").stopped.contains(&1) && w.map().daemon(b.gid).is_none() && !w.is_fenced(&b));
    // A damaged rank has no holder before it is repaired.
    c.state = MdsState::DAMAGED;
    w.beat(&mut c);
    assert!(w.is_fenced(&c) && w.mds("one").damaged.contains(&0));
    let mut d = w.boot("d", 13);
    w.pass(2, &mut [&mut d]);
    assert!(w.mds("one").up.is_empty() && w.health().contains(&"MDS_DAMAGE".to_string()));
    w.ok(r#"{"prefix":"mds repaired","role":"one:0"}"#);
    w.activate(&mut d);
    assert_eq!(w.mds("one").up[&0], d.gid);
}

#[test]
fn a_server_goes_where_it_wants_to() {
    let (mut w, mut a, mut b) = World::served();
    w.ok(r#"{"prefix":"fs new","fs_name":"two","metadata":"more","data":"other"}"#);
    assert_eq!(w.mds("two").up[&0], b.gid);
    w.activate(&mut b);
    let conn = ConnId(14);
    w.open(conn, "mds.d", "allow profile mds");
    w.subscribe(conn, "mdsmap");
    let mut d = Server { conn, gid: 5014, name: "d".into(), seq: 1, state: MdsState::BOOT, fs: "one".into() };
    w.send(conn, &d.beacon(0));
    w.pass(1, &mut [&mut a, &mut b, &mut d]);
    assert!(w.mds("one").up[&0] == d.gid && w.is_fenced(&a) && w.mds("two").up[&0] == b.gid);
}

#[test]
fn a_session_sees_the_file_systems_that_its_capability_names() {
    let (mut w, ..) = World::served();
    w.ok(r#"{"prefix":"fs new","fs_name":"two","metadata":"more","data":"other"}"#);
    w.open(CLIENT, "client.c", "allow rw fsname=two");
    let (_, list, _) = w.command_of(CLIENT, r#"{"prefix":"fs ls","format":"json"}"#);
    assert_eq!((list.as_array().unwrap().len(), &list[0]["name"]), (1, &Value::from("two")));
    assert_eq!(w.command_of(CLIENT, r#"{"prefix":"fs get","fs_name":"one"}"#).0, -2);
    assert_eq!(w.command_of(CLIENT, r#"{"prefix":"fs set","fs_name":"one","var":"max_mds","val":"2"}"#).0, -1);
    assert_eq!(w.command_of(CLIENT, r#"{"prefix":"fs set","fs_name":"two","var":"max_mds","val":"2"}"#).0, 0);
    w.subscribe(CLIENT, "mdsmap.1");
    w.subscribe(CLIENT, "fsmap");
    assert!(w.take::<MMDSMap>(CLIENT).is_empty());
    let seen = FsMap::from_bytes(&w.take::<MFSMap>(CLIENT).pop().unwrap().map.0).unwrap();
    assert!(seen.by_name("one").is_none() && seen.by_name("two").is_some());
}

#[test]
fn file_systems_are_made_and_removed_with_care() {
    let (mut w, a, _) = World::served();
    let refused = [
        (r#"{"prefix":"fs new","fs_name":"x","metadata":"none","data":"other"}"#, -2),
        (r#"{"prefix":"fs new","fs_name":"","metadata":"more","data":"other"}"#, -22),
        (r#"{"prefix":"osd pool mksnap","pool":"meta","snap":"s"}"#, -95),
        (r#"{"prefix":"osd pool mksnap","pool":"data","snap":"s"}"#, -95),
        (r#"{"prefix":"fs new","fs_name":"x","metadata":"meta","data":"other"}"#, -22),
        (r#"{"prefix":"fs new","fs_name":"one","metadata":"more","data":"other"}"#, -22),
        (r#"{"prefix":"fs new","fs_name":"x","metadata":"more","data":"other","fscid":7}"#, -22),
        (r#"{"prefix":"fs set","fs_name":"none","var":"max_mds","val":"2"}"#, -2),
        (r#"{"prefix":"fs set","fs_name":"one","var":"max_mds","val":"0"}"#, -22),
        (r#"{"prefix":"fs set","fs_name":"one","var":"max_mds","val":"many"}"#, -22),
        (r#"{"prefix":"fs set","fs_name":"one","var":"session_timeout","val":"3"}"#, -34),
        (r#"{"prefix":"fs rm_data_pool","fs_name":"one","pool":"data"}"#, -22),
        (r#"{"prefix":"fs rm","fs_name":"one","yes_i_really_mean_it":true}"#, -22),
        (r#"{"prefix":"fs reset","fs_name":"one","yes_i_really_mean_it":true}"#, -22),
        (r#"{"prefix":"mds rm","gid":5010}"#, -16),
        (r#"{"prefix":"mds set_state","gid":5011,"state":13}"#, -22),
        (r#"{"prefix":"fs rename","fs_name":"one","new_fs_name":"two"}"#, -1),
        (r#"{"prefix":"fs compat","fs_name":"one","subop":"rm_incompat","feature":1}"#, -16),
        (r#"{"prefix":"fs authorize","filesystem":"one","entity":"client.x","caps":["here","rw"]}"#, -22),
    ];
    for (json, result) in refused {
        let before = w.map().clone();
        assert_eq!((w.command(json), w.map() == &before), (result, true), "{json}");
    }
    assert_eq!(w.command(r#"{"prefix":"fs new","fs_name":"one","metadata":"meta","data":"data"}"#), 0, "it is there already");
    w.ok(r#"{"prefix":"fs rename","fs_name":"one","new_fs_name":"two","yes_i_really_mean_it":true}"#);
    let pool = &w.mon.osd.map.pools[&w.mds("two").data_pools[0]];
    assert_eq!(pool.application_metadata["cephfs"]["data"], "two");
    w.ok(r#"{"prefix":"fs authorize","filesystem":"two","entity":"client.x","caps":["/","rw"],"format":"json"}"#);
    let caps = &w.mon.auth.entities[&EntityText::parse("client.x").unwrap()].caps;
    assert_eq!((caps["mds"].as_str(), caps["osd"].as_str()), ("allow rw fsname=two", "allow rw tag cephfs data=two"));
    w.ok(r#"{"prefix":"fs fail","fs_name":"two"}"#);
    assert!(w.is_fenced(&a) && w.mds("two").failed.contains(&0));
    assert_eq!(w.command(r#"{"prefix":"fs rm","fs_name":"two"}"#), -1);
    w.ok(r#"{"prefix":"fs rm","fs_name":"two","yes_i_really_mean_it":true}"#);
    assert!(w.map().filesystems.is_empty() && w.health().is_empty());
    w.ok(r#"{"prefix":"osd pool delete","pool":"data","pool2":"data","yes_i_really_really_mean_it":true}"#);
}

/// The last two epochs of a stock monitor's life, shown as that monitor showed them (`fixtures/mon-core/README.md`).
#[test]
fn maps_are_shown_as_stock_shows_them() {
    let fixture = |name: &str| std::fs::read(format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut d = denc::Decoder::new(fixture("maps/fsmaps-reef.bin").into());
    let mut w = World::new();
    for epoch in 1..=34 {
        w.store.0.insert(format!("fsmap/{epoch:010}"), d.blob().unwrap());
    }
    w.restart();
    let text = |w: &mut World, json: &str| {
        w.send(ADMIN, &MMonCommand { fsid: fsid(), cmd: vec![json.into()], ..MMonCommand::default() });
        String::from_utf8(w.take::<MMonCommandAck>(ADMIN).pop().unwrap().data.to_vec()).unwrap()
    };
    let (plain, stat) = (text(&mut w, r#"{"prefix":"fs dump","epoch":33}"#), text(&mut w, r#"{"prefix":"mds stat"}"#));
    assert_eq!(plain.trim(), String::from_utf8(fixture("mon-core/fs-dump-reef.txt")).unwrap().trim());
    assert_eq!(stat.trim(), String::from_utf8(fixture("mon-core/mds-stat-reef.txt")).unwrap().trim());
    let json = w.ok(r#"{"prefix":"fs dump","format":"json"}"#);
    let theirs: Value = serde_json::from_slice(&fixture("mon-core/fs-dump-reef.json")).unwrap();
    assert_eq!(json.to_string(), theirs.to_string(), "keys in their order, too");
}

#[test]
fn a_server_that_is_gone_was_last_seen_so_long_ago() {
    let (mut w, _, mut b) = World::served();
    let seen = |w: &mut World, name: &str| w.ok(&format!(r#"{{"prefix":"mds last-seen","id":"{name}","format":"json"}}"#));
    assert_eq!((&seen(&mut w, "a")["last-seen"], &seen(&mut w, "b")["info"]["state"]), (&"0s".into(), &"up:standby".into()));
    let epoch = w.map().epoch;
    w.ok(r#"{"prefix":"mds fail","role_or_gid":"a"}"#);
    w.pass(30, &mut [&mut b]);
    let told = seen(&mut w, "a");
    assert_eq!((&told["last-seen"], &told["epoch"], &told["info"]["name"]), (&"30s".into(), &epoch.into(), &"a".into()));
    // Over a restart, too; and a server that is back is there.
    w.restart();
    assert_eq!(seen(&mut w, "a")["last-seen"], "30s");
    let mut a = w.boot("a", 20);
    w.pass(1, &mut [&mut a, &mut b]);
    assert_eq!(seen(&mut w, "a")["last-seen"], "0s");
    assert_eq!(w.command(r#"{"prefix":"mds last-seen","id":"none"}"#), -2);
    // Who may not see a file system sees its server as it was before it served.
    w.open(CLIENT, "client.c", "allow r fsname=other");
    let (_, told, _) = w.command_of(CLIENT, r#"{"prefix":"mds last-seen","id":"b","format":"json"}"#);
    assert_eq!(told["info"]["state"], "up:standby");
}
