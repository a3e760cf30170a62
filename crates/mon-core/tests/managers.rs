//! A stock manager at the monitor: it becomes the active one, what it reports is shown, the endpoint stands back and returns.

mod common;

use base::Rng;
use cephx::AuthCapsInfo;
use common::{addr, clock, options};
use denc::Denc;
use maps::mgr_map::{ModuleInfo, ModuleOption};
use maps::{MgrMap, OsdMap, ServiceMap};
use messages::*;
use mon_core::{ConnId, Effect, Endpoint, Event, Handshake, Mon, NewCluster, PeerInfo, Snapshot, mkfs};
use serde_json::Value;
use types::{EntityAddrVec, EntityText, PgMapDigest, UTime, Uuid, features};

const ADMIN: ConnId = ConnId(1);
const AT_ENDPOINT: ConnId = ConnId(2);
const OSD: ConnId = ConnId(3);

struct World {
    mon: Mon,
    store: Snapshot,
    sent: Vec<(ConnId, RawMessage)>,
    closed: Vec<ConnId>,
    /// What was done about the link with a manager: dialled (with where), hung up.
    link: Vec<Option<EntityAddrVec>>,
    /// Commands handed on over it.
    asked: Vec<MMgrCommand>,
    now_ms: u64,
}

fn fsid() -> Uuid {
    Uuid::from_random([7; 16])
}

impl World {
    fn new() -> Self {
        let (fsid, key_type) = (fsid(), cephx::KeyType::AES);
        let config = vec![("global".to_string(), "osd_pool_default_size".to_string(), "1".to_string())];
        let new = NewCluster { fsid, mon_addrs: options(fsid).mon_addrs, failure_domain: "osd".into(), osds: 1, key_type, config };
        let (batch, _) = mkfs(&new, UTime::from_wall_ns(clock(0).wall_ns), &mut Rng::new(1));
        let mut store = Snapshot::default();
        store.apply(&batch);
        let mon = Mon::load(&store, options(fsid), Box::new(Rng::new(2)), clock(0)).unwrap();
        let mut w = Self { mon, store, sent: Vec::new(), closed: Vec::new(), link: Vec::new(), asked: Vec::new(), now_ms: 0 };
        w.event(Event::Tick);
        w.open(ADMIN, Endpoint::Mon, "client.admin", "allow *");
        w
    }
    fn restart(&mut self) {
        self.mon = Mon::load(&self.store, options(fsid()), Box::new(Rng::new(3)), clock(self.now_ms)).unwrap();
        self.event(Event::Tick);
        self.open(ADMIN, Endpoint::Mon, "client.admin", "allow *");
    }
    fn event(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.mon.handle(event, clock(self.now_ms), &mut effects);
        for effect in effects {
            match effect {
                Effect::Persist(batch) => self.store.apply(&batch),
                Effect::Send { conn, message } => self.sent.push((conn, message)),
                Effect::Close { conn } => self.closed.push(conn),
                Effect::LocalAnswer { .. } => {}
                Effect::DialManager { addrs } => self.link.push(Some(addrs)),
                Effect::HangUpManager => self.link.push(None),
                Effect::SendManager { message } => self.asked.push(MMgrCommand::decode(&message).unwrap()),
            }
        }
    }
    fn open(&mut self, conn: ConnId, endpoint: Endpoint, name: &str, caps: &str) {
        let peer = PeerInfo {
            entity: EntityText::parse(name).unwrap(),
            global_id: 5000 + conn.0,
            caps: if endpoint == Endpoint::Mon { AuthCapsInfo::from_text(caps) } else { AuthCapsInfo::all() },
            addrs: addr(&format!("v2:127.0.0.1:{}/{}", 6800 + conn.0, conn.0)),
            from: addr(&format!("v2:127.0.0.1:{}/{}", 6800 + conn.0, conn.0)).front(),
            features: features::SUPPORTED,
            handshake: Handshake::default(),
        };
        self.event(Event::Open { conn, endpoint, peer: Box::new(peer) });
    }
    fn send<M: Message>(&mut self, conn: ConnId, message: &M) {
        self.event(Event::Message { conn, message: message.encode(features::SUPPORTED) });
    }
    fn take<M: Message>(&mut self, conn: ConnId) -> Vec<M> {
        let wanted = |(c, m): &mut (ConnId, RawMessage)| *c == conn && m.kind == M::KIND;
        self.sent.extract_if(.., wanted).map(|(_, m)| M::decode(&m).unwrap()).collect()
    }
    fn command(&mut self, json: &str) -> (i32, Value) {
        let fsid = fsid();
        self.send(ADMIN, &MMonCommand { fsid, cmd: vec![json.into()], ..MMonCommand::default() });
        let ack = self.take::<MMonCommandAck>(ADMIN).pop().expect("a command is answered");
        (ack.result, serde_json::from_slice(&ack.data).unwrap_or_default())
    }
    /// Sends a command without waiting for its answer.
    fn start(&mut self, conn: ConnId, tid: u64, json: &str) {
        let m = MMonCommand { fsid: fsid(), cmd: vec![json.into()], data: "file".into(), ..MMonCommand::default() };
        let mut message = m.encode(features::SUPPORTED);
        message.tid = tid;
        self.event(Event::Message { conn, message });
    }
    /// Result, status and number of the one answer that came.
    fn answer(&mut self, conn: ConnId) -> Option<(i32, String, u64)> {
        let at = self.sent.iter().position(|(c, m)| *c == conn && m.kind == MMonCommandAck::KIND)?;
        let raw = self.sent.remove(at).1;
        let ack = MMonCommandAck::decode(&raw).unwrap();
        Some((ack.result, ack.status, raw.tid))
    }
    fn ask(&mut self, prefix: &str) -> Value {
        let (result, json) = self.command(&format!(r#"{{"prefix":"{prefix}","format":"json"}}"#));
        assert_eq!(result, 0, "{prefix}");
        json
    }
    fn map(&self) -> &MgrMap {
        &self.mon.mgrmap.map
    }
    /// Seconds pass, with a tick in each; managers given by connection go on sending beacons.
    fn pass(&mut self, seconds: u64, alive: &[(ConnId, &MMgrBeacon)]) {
        for _ in 0..seconds {
            self.now_ms += 1000;
            for (conn, beacon) in alive {
                self.send(*conn, *beacon);
            }
            self.event(Event::Tick);
        }
    }
}

fn beacon(name: &str, gid: u64) -> MMgrBeacon {
    let option = ModuleOption { name: "pace".into(), kind: 1, default_value: "3".into(), ..ModuleOption::default() };
    let module = ModuleInfo { name: "extra".into(), options: [("pace".to_string(), option)].into(), ..ModuleInfo::default() };
    MMgrBeacon {
        gid,
        name: name.into(),
        fsid: fsid(),
        metadata: [("hostname".to_string(), "h2".to_string()), ("ceph_version".to_string(), "ceph version 16".to_string())].into(),
        modules: vec![Framed::of(&module, features::SUPPORTED)],
        ..MMgrBeacon::default()
    }
}
/// The same manager once it serves.
fn serving(b: &MMgrBeacon) -> MMgrBeacon {
    let command = |signature: &str| MonCommand {
        signature: signature.into(),
        help: "h".into(),
        module: "mgr".into(),
        perms: "r".into(),
        ..MonCommand::default()
    };
    MMgrBeacon {
        available: true,
        server_addrs: addr("v2:127.0.0.1:6900/900"),
        commands: vec![command("pg dump name=dumpcontents,type=CephChoices,strings=all|summary,n=N,req=false"), command("balancer status")],
        client_addrs: vec![addr("v2:127.0.0.1:0/901")],
        client_names: vec!["rbd_support".into()],
        ..b.clone()
    }
}

#[test]
fn a_stock_manager_takes_over_and_gives_back() {
    let mut w = World::new();
    w.ask("osd pool ls");
    w.open(AT_ENDPOINT, Endpoint::Mgr, "client.admin", "allow *");
    w.open(OSD, Endpoint::Mon, "osd.0", "allow profile osd");
    assert_eq!(w.map().active_name, "x");
    let endpoint = w.map().clone();
    assert!(endpoint.available);

    // It is chosen at its first beacon, and serves when it says so.
    let mgr = ConnId(10);
    w.open(mgr, Endpoint::Mon, "mgr.y", "allow profile mgr");
    let (b, ready) = (beacon("y", 5010), serving(&beacon("y", 5010)));
    w.send(mgr, &b);
    assert_eq!((w.map().active_gid, w.map().available), (5010, false));
    assert_eq!(w.closed, [AT_ENDPOINT], "sessions with the endpoint are to find the new one");
    assert!(w.map().always_on_modules[&18].contains("rbd_support"));
    w.send(mgr, &ready);
    assert!(w.map().available && w.map().active_addrs == ready.server_addrs);
    let table = w.ask("get_command_descriptions").to_string();
    assert!(table.contains(r#"["balancer","status"]"#) && !table.contains(r#"["osd","df""#), "its commands, not the endpoint's");
    assert_eq!(w.ask("mgr metadata")[0]["hostname"], "h2");
    assert_eq!(w.ask("versions")["mgr"]["ceph version 16"], 1);
    assert_eq!(w.command(r#"{"prefix":"mgr module enable","module":"none"}"#).0, -2);
    w.ask("mgr module ls");
    assert_eq!(w.command(r#"{"prefix":"mgr module enable","module":"extra"}"#).0, 0);
    assert!(w.map().modules.contains("extra"));
    let (_, value) = w.command(r#"{"prefix":"config get","who":"mgr","key":"mgr/extra/pace","format":"json"}"#);
    assert_eq!(value, "3");

    // Its report is what is shown.
    let what = [("mgrdigest".to_string(), SubscribeItem { start: 0, flags: 0 })].into();
    w.send(mgr, &MMonSubscribe { what, hostname: "h2".into() });
    assert_eq!(w.take::<MMgrDigest>(mgr).len(), 1);
    let mut digest =
        PgMapDigest { num_pg: 12, num_pg_active: 11, num_pg_by_state: [(1 << 1, 11), (0, 1)].into(), ..PgMapDigest::default() };
    digest.pg_sum.stats.sum.num_objects = 345;
    digest.pg_sum_delta.stats.sum.num_wr = 50;
    digest.stamp_delta = UTime { sec: 10, nsec: 0 };
    let check = HealthCheck { severity: 1, summary: "they limp".into(), detail: vec!["osd.0 limps".into()], count: 1 };
    let event = ProgressEvent { message: "Rebalancing".into(), progress: 0.5, show_in_status: true };
    let services = ServiceMap { epoch: 9, ..ServiceMap::default() };
    let report = MMonMgrReport {
        data: digest.to_bytes(features::SUPPORTED),
        health: HealthChecks { checks: [("LIMPING".to_string(), check)].into() },
        service_map: services.to_bytes(features::SUPPORTED),
        progress: [("e".to_string(), event)].into(),
        gid: 5010,
        ..MMonMgrReport::default()
    };
    w.send(mgr, &MMonMgrReport { gid: 5009, ..report.clone() });
    assert_eq!(w.ask("status")["pgmap"]["num_pgs"], 0, "another manager's report is nothing");
    w.send(mgr, &report);
    let status = w.ask("status");
    let map = &status["pgmap"];
    assert_eq!((&map["num_pgs"], &map["num_objects"], &map["write_op_per_sec"]), (&12.into(), &345.into(), &5.into()), "{map}");
    assert_eq!(status["health"]["checks"]["LIMPING"]["summary"]["message"], "they limp");
    assert_eq!((&status["servicemap"]["epoch"], &status["progress_events"]["e"]["message"]), (&9.into(), &"Rebalancing".into()));
    w.pass(1, &[(mgr, &ready)]);
    let told = w.take::<MMgrDigest>(mgr);
    assert!(told.len() == 1 && String::from_utf8_lossy(&told[0].health_json).contains("osd.0 limps"), "health has changed");

    // It stays over a restart of the monitor.
    w.restart();
    assert_eq!((w.map().active_gid, w.map().available), (5010, true));
    assert!(w.ask("get_command_descriptions").to_string().contains(r#"["balancer","status"]"#));
    w.open(mgr, Endpoint::Mon, "mgr.y", "allow profile mgr");
    w.pass(40, &[(mgr, &ready)]);
    assert_eq!(w.map().active_gid, 5010);

    // A second one waits, and comes into its place when it falls silent; the first and its clients are fenced.
    let other = ConnId(11);
    w.open(other, Endpoint::Mon, "mgr.z", "allow profile mgr");
    let z = beacon("z", 5011);
    w.send(other, &z);
    assert_eq!(w.ask("mgr stat")["num_standby"], 1);
    w.pass(29, &[(other, &z)]);
    assert_eq!(w.map().active_gid, 5010);
    w.pass(3, &[(other, &z)]);
    assert_eq!((w.map().active_gid, w.map().standbys.len(), w.map().available), (5011, 0, false));
    let fenced = |map: &OsdMap| map.blocklist.keys().map(|a| a.nonce).collect::<Vec<_>>();
    assert_eq!(fenced(&w.mon.osd.map), [900, 901]);
    assert_eq!(w.map().last_failure_osd_epoch, w.mon.osd.epoch());
    // The first one comes back to life and is told.
    w.send(mgr, &ready);
    let told = MgrMap::from_bytes(&w.take::<MMgrMap>(mgr).pop().expect("it is told").map.0).unwrap();
    assert_eq!((told.epoch, told.active_gid), (u32::MAX, 0));

    // Failed by hand: the endpoint is there, the manager starts over under another number.
    assert_eq!(w.command(r#"{"prefix":"mgr fail"}"#).0, 0);
    assert_eq!((w.map().active_name.as_str(), w.map().available), ("x", true));
    assert_ne!(w.map().active_gid, endpoint.active_gid);
    assert!(w.ask("get_command_descriptions").to_string().contains(r#"["osd","df""#));
    assert_eq!(w.ask("status")["pgmap"]["num_objects"], 0);
    let other = ConnId(12);
    w.open(other, Endpoint::Mon, "mgr.z", "allow profile mgr");
    w.send(other, &beacon("z", 5012));
    assert_eq!(w.map().active_gid, 5012);

    // Held down, none is.
    assert_eq!(w.command(r#"{"prefix":"mgr set","var":"down","val":"true"}"#).0, 0);
    assert_eq!(w.map().active_gid, 0);
    let other = ConnId(13);
    w.open(other, Endpoint::Mon, "mgr.z", "allow profile mgr");
    w.send(other, &beacon("z", 5013));
    assert_eq!(w.map().active_gid, 0);
    w.restart();
    assert_eq!(w.map().active_gid, 0);
    assert_eq!(w.command(r#"{"prefix":"mgr set","var":"down","val":"false"}"#).0, 0);
    assert_eq!(w.map().active_name, "x");
}

/// A manager's key speaks for that manager.
#[test]
fn a_beacon_of_another_manager_changes_nothing() {
    let mut w = World::new();
    let (mgr, other) = (ConnId(10), ConnId(11));
    w.open(mgr, Endpoint::Mon, "mgr.y", "allow profile mgr");
    w.open(other, Endpoint::Mon, "mgr.z", "allow profile mgr");
    let ready = serving(&beacon("y", 5010));
    w.send(mgr, &beacon("y", 5010));
    w.send(mgr, &ready);
    assert!(w.map().available);
    let before = w.map().clone();
    let elsewhere = addr("v2:127.0.0.9:6900/900");
    for beacon in [
        // The active one's name, as one that restarted; its number; a number that is nobody's.
        beacon("y", 5011),
        MMgrBeacon { server_addrs: elsewhere, ..ready.clone() },
        MMgrBeacon { name: "z".into(), ..ready.clone() },
        beacon("z", 4711),
    ] {
        w.send(other, &beacon);
        assert_eq!(*w.map(), before, "{} {}", beacon.name, beacon.gid);
    }
    let digest = PgMapDigest { num_pg: 12, ..PgMapDigest::default() };
    let services = ServiceMap::default().to_bytes(features::SUPPORTED);
    let report = MMonMgrReport { data: digest.to_bytes(features::SUPPORTED), service_map: services, gid: 5010, ..MMonMgrReport::default() };
    w.send(other, &report);
    assert_eq!(w.ask("status")["pgmap"]["num_pgs"], 0);
    w.send(mgr, &report);
    assert_eq!(w.ask("status")["pgmap"]["num_pgs"], 12);
    w.send(other, &beacon("z", 5011));
    assert_eq!(w.map().standbys[&5011].name, "z");
}

const DUMP: &str = r#"{"prefix":"pg dump","dumpcontents":["summary"]}"#;
const BALANCER: &str = r#"{"prefix":"balancer status"}"#;
const WRITING: &str = r#"{"prefix":"rbd task add remove","image_spec":"rbd/x"}"#;

#[test]
fn commands_of_the_manager_are_handed_on_to_it() {
    let mut w = World::new();
    let mgr = ConnId(10);
    w.open(mgr, Endpoint::Mon, "mgr.y", "allow profile mgr");
    let b = beacon("y", 5010);
    let mut ready = serving(&b);
    ready.commands.push(MonCommand {
        signature: "rbd task add remove name=image_spec,type=CephString".into(),
        help: "h".into(),
        module: "mgr".into(),
        perms: "w".into(),
        ..MonCommand::default()
    });
    w.send(mgr, &b);
    // Chosen, it doesn't serve yet: what is known to be a manager's waits.
    w.start(ADMIN, 1, DUMP);
    assert!(w.answer(ADMIN).is_none() && w.link.is_empty());
    w.send(mgr, &ready);
    assert_eq!(w.link, [Some(ready.server_addrs.clone())]);
    assert!(w.asked.is_empty());
    w.event(Event::ManagerOpen);
    w.start(ADMIN, 2, BALANCER);
    assert_eq!(w.link.len(), 1, "one link for all");
    let (first, second) = (w.asked.remove(0), w.asked.remove(0));
    assert_eq!((first.cmd[0].as_str(), &first.data[..], first.fsid), (DUMP, &b"file"[..], Uuid::default()));
    assert_eq!(second.cmd[0], BALANCER);

    // Answers find the session that asked, in whatever order they come, and once.
    let reply = |tid, result| MMgrCommandReply { tid, result, status: format!("s{result}"), data: "out".into() };
    let event = |tid, result| {
        let mut message = reply(tid, result).encode(features::SUPPORTED);
        message.tid = tid;
        Event::ManagerMessage { message }
    };
    w.event(event(second.tid, -22));
    assert_eq!(w.answer(ADMIN), Some((-22, "s-22".into(), 2)));
    w.event(event(first.tid, 0));
    w.event(event(first.tid, 0));
    let ack = w.take::<MMonCommandAck>(ADMIN);
    assert_eq!((ack.len(), ack[0].result, &ack[0].data[..], ack[0].cmd[0].as_str()), (1, 0, &b"out"[..], DUMP));

    // The monitor says which session may: managers believe monitors.
    let reader = ConnId(12);
    w.open(reader, Endpoint::Mon, "client.reader", "allow r");
    w.start(reader, 3, WRITING);
    assert_eq!(w.answer(reader), Some((-13, "access denied".into(), 3)));
    w.start(reader, 4, BALANCER);
    w.start(ADMIN, 5, WRITING);
    assert_eq!(w.asked.iter().map(|m| m.cmd[0].as_str()).collect::<Vec<_>>(), [BALANCER, WRITING]);
    // Neither is answered before the link is cut; the session that went away is forgotten, the other command is sent again.
    w.event(Event::Closed { conn: reader });
    w.asked.clear();
    w.event(Event::ManagerClosed);
    assert_eq!(w.link.len(), 1, "not at once");
    w.pass(2, &[(mgr, &ready)]);
    assert_eq!(w.link.len(), 2);
    w.event(Event::ManagerOpen);
    assert_eq!(w.asked.iter().map(|m| m.cmd[0].as_str()).collect::<Vec<_>>(), [WRITING]);
    let tid = w.asked[0].tid;
    w.event(event(tid, 0));
    assert_eq!(w.answer(ADMIN), Some((0, "s0".into(), 5)));
    let logged = w.command(r#"{"prefix":"log last","num":20,"channel":"audit","format":"json"}"#).1.to_string();
    assert!(logged.contains("rbd task add remove") && !logged.contains("balancer status"), "{logged}");

    // What would take too much of our memory is refused.
    assert_eq!(w.command(r#"{"prefix":"config set","who":"mon","name":"mon_mgr_proxy_client_bytes_ratio","value":"0"}"#).0, 0);
    w.start(ADMIN, 6, BALANCER);
    assert_eq!(w.answer(ADMIN), Some((-11, "hit limit on proxied mgr commands".into(), 6)));
    assert_eq!(w.command(r#"{"prefix":"config rm","who":"mon","name":"mon_mgr_proxy_client_bytes_ratio"}"#).0, 0);

    // The manager fails: the endpoint answers what it can of what waits.
    w.start(ADMIN, 7, BALANCER);
    w.start(ADMIN, 8, DUMP);
    assert!(w.answer(ADMIN).is_none());
    w.start(ADMIN, 70, r#"{"prefix":"mgr fail"}"#);
    assert_eq!(w.link.last(), Some(&None), "hung up");
    assert_eq!(w.answer(ADMIN).map(|(result, _, tid)| (result, tid)), Some((0, 70)));
    let (result, status, tid) = w.answer(ADMIN).expect("what needs a module is refused by name");
    assert!((result, tid) == (-95, 7) && status.contains("module balancer"), "{status}");
    assert_eq!(w.answer(ADMIN).map(|(result, _, tid)| (result, tid)), Some((0, 8)));
    // With no manager there at all they wait.
    assert_eq!(w.command(r#"{"prefix":"mgr set","var":"down","val":"true"}"#).0, 0);
    w.start(ADMIN, 9, DUMP);
    w.pass(3, &[]);
    assert!(w.answer(ADMIN).is_none());
    w.start(ADMIN, 90, r#"{"prefix":"mgr set","var":"down","val":"false"}"#);
    let answers = [w.answer(ADMIN), w.answer(ADMIN)].map(|a| a.map(|(result, _, tid)| (result, tid)));
    assert_eq!(answers, [Some((0, 90)), Some((0, 9))]);
}
