//! What a stock manager said to a stock monitor, said to ours: it is answered alike, and becomes, serves and ends as the active manager alike.
//!
//! `fixtures/mon-core/README.md` says where the conversation is from.

mod common;
#[path = "../../messages/tests/conversation/mod.rs"]
mod conversation;

use base::Rng;
use cephx::AuthCapsInfo;
use common::{addr, clock, options};
use conversation::Said;
use denc::Denc;
use maps::{MgrMap, ServiceMap};
use messages::*;
use mon_core::{ConnId, Effect, Endpoint, Event, Handshake, Mon, NewCluster, PeerInfo, Snapshot, mkfs};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityText, PgMapDigest, UTime, Uuid, features};

/// The connection of the client that sends the manager's commands to the monitor.
const CLIENT: u8 = 3;
/// The one that the monitor dialled.
const TO_MANAGER: u8 = 4;

/// What a monitor said, by connection.
#[derive(Default)]
struct Told(Vec<(u8, RawMessage)>);

impl Told {
    fn of<M: Message>(&self, conn: Option<u8>) -> Vec<M> {
        let wanted = |(c, raw): &&(u8, RawMessage)| raw.kind == M::KIND && conn.is_none_or(|conn| conn == *c);
        self.0.iter().filter(wanted).map(|(_, raw)| M::decode(raw).unwrap()).collect()
    }
    fn kinds(&self, conn: u8) -> BTreeMap<&'static str, usize> {
        let mut out = BTreeMap::new();
        for (_, raw) in self.0.iter().filter(|(c, _)| *c == conn) {
            *out.entry(kind_name(raw.kind)).or_default() += 1;
        }
        out
    }
    /// Answers to commands, by connection and number.
    fn acks(&self) -> BTreeMap<(u8, u64), MMonCommandAck> {
        let acks = self.0.iter().filter(|(_, raw)| raw.kind == MMonCommandAck::KIND);
        acks.map(|(c, raw)| ((*c, raw.tid), MMonCommandAck::decode(raw).unwrap())).collect()
    }
}

struct World {
    mon: Mon,
    store: Snapshot,
    told: Told,
    /// Commands that the monitor handed on.
    handed: Vec<MMgrCommand>,
    now_ms: u64,
}

impl World {
    fn new(fsid: Uuid) -> Self {
        let key_type = cephx::KeyType::AES;
        let new =
            NewCluster { fsid, mon_addrs: options(fsid).mon_addrs, failure_domain: "osd".into(), osds: 1, key_type, config: Vec::new() };
        let (batch, _) = mkfs(&new, UTime::from_wall_ns(clock(0).wall_ns), &mut Rng::new(1));
        let mut store = Snapshot::default();
        store.apply(&batch);
        let mon = Mon::load(&store, options(fsid), Box::new(Rng::new(2)), clock(0)).unwrap();
        Self { mon, store, told: Told::default(), handed: Vec::new(), now_ms: 0 }
    }
    /// One event; what the link with the manager carries is answered as `said` has it.
    fn event(&mut self, event: Event, said: &[Said]) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut effects = Vec::new();
            self.mon.handle(event, clock(self.now_ms), &mut effects);
            for effect in effects {
                match effect {
                    Effect::Persist(batch) => self.store.apply(&batch),
                    Effect::Send { conn, message } => self.told.0.push((conn.0 as u8, message)),
                    Effect::DialManager { .. } => events.insert(0, Event::ManagerOpen),
                    Effect::SendManager { message } => {
                        let m = MMgrCommand::decode(&message).unwrap();
                        events.insert(0, Event::ManagerMessage { message: answer(said, &m) });
                        self.handed.push(m);
                    }
                    Effect::Close { .. } | Effect::HangUpManager | Effect::LocalAnswer { .. } => {}
                }
            }
        }
    }
}

/// The stock manager's answer to the same command of the stock monitor.
fn answer(said: &[Said], m: &MMgrCommand) -> RawMessage {
    let link = || said.iter().filter(|s| s.who >> 1 == TO_MANAGER);
    let asked = link().find(|s| s.raw.kind == MMgrCommand::KIND && MMgrCommand::decode(&s.raw).unwrap().cmd == m.cmd);
    let tid = asked.unwrap_or_else(|| panic!("stock's monitor doesn't hand on {:?}", m.cmd)).raw.tid;
    let reply = link().find(|s| s.raw.kind == MMgrCommandReply::KIND && s.raw.tid == tid).expect("an answer");
    RawMessage { tid: m.tid, ..reply.raw.clone() }
}

fn replay(said: &[Said]) -> World {
    let beacons: Vec<MMgrBeacon> =
        said.iter().filter(|s| s.raw.kind == MMgrBeacon::KIND).map(|s| MMgrBeacon::decode(&s.raw).unwrap()).collect();
    let mut w = World::new(beacons[0].fsid);
    let mut open = BTreeSet::new();
    for s in said {
        while w.now_ms + 1000 <= s.at_ms {
            w.now_ms += 1000;
            w.event(Event::Tick, said);
        }
        let conn = s.who >> 1;
        if s.who & 1 == 0 || conn == TO_MANAGER {
            continue;
        }
        let id = ConnId(conn.into());
        if open.insert(conn) {
            let (name, caps) = if conn == CLIENT { ("client.admin", "allow *") } else { ("mgr.x", "allow profile mgr") };
            // A manager's number is its session's.
            let own = said.iter().find(|other| other.who == s.who && other.raw.kind == MMgrBeacon::KIND);
            let peer = PeerInfo {
                entity: EntityText::parse(name).unwrap(),
                global_id: own.map_or(5000 + u64::from(conn), |s| MMgrBeacon::decode(&s.raw).unwrap().gid),
                caps: AuthCapsInfo::from_text(caps),
                addrs: addr(&format!("v2:127.0.0.1:{}/{conn}", 6900 + u16::from(conn))),
                from: addr(&format!("v2:127.0.0.1:{}/{conn}", 6900 + u16::from(conn))).front(),
                features: features::SUPPORTED,
                handshake: Handshake::default(),
            };
            w.event(Event::Open { conn: id, endpoint: Endpoint::Mon, peer: Box::new(peer) }, said);
        }
        w.event(Event::Message { conn: id, message: s.raw.clone() }, said);
    }
    w
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}
/// The names in an object, or in the first element of a list.
fn keys(v: &Value) -> BTreeSet<String> {
    match v {
        Value::Array(a) => a.first().map(keys).unwrap_or_default(),
        Value::Object(o) => o.keys().cloned().collect(),
        _ => BTreeSet::new(),
    }
}

#[test]
fn a_stock_manager_is_told_what_a_stock_monitor_tells_it() {
    let said = conversation::read("mon-core/manager-18.2.7.msgs");
    let stock = Told(said.iter().filter(|s| s.who & 1 == 0).map(|s| (s.who >> 1, s.raw.clone())).collect());
    let w = replay(&said);

    // The map: chosen, serving, failed, the next one chosen and serving, with the same in it. Ours names the endpoint where stock names none.
    let maps = |told: &Told| {
        let mut out: Vec<MgrMap> = told.of::<MMgrMap>(None).iter().map(|m| MgrMap::from_bytes(&m.map.0).unwrap()).collect();
        out.retain(|m| m.active_gid == 4100 || m.active_gid == 4133);
        out.dedup_by_key(|m| m.epoch);
        out
    };
    let (theirs, mine) = (maps(&stock), maps(&w.told));
    let steps = |maps: &[MgrMap]| maps.iter().map(|m| (m.active_gid, m.available)).collect::<Vec<_>>();
    assert_eq!(steps(&theirs), [(4100, false), (4100, true), (4133, false), (4133, true)]);
    assert_eq!(steps(&mine), steps(&theirs));
    for (m, s) in mine.iter().zip(&theirs) {
        let expected = MgrMap {
            // Counted from another beginning, and with the endpoint's turn.
            epoch: m.epoch,
            active_change: m.active_change,
            last_failure_osd_epoch: m.last_failure_osd_epoch,
            // What new clusters enable: `iostat` and `nfs` are not among it here.
            modules: m.modules.clone(),
            ..s.clone()
        };
        assert_eq!(*m, expected);
    }
    // Fenced for the failure, before the next one was chosen.
    assert!(w.mon.osd.map.blocklist.keys().any(|a| a.nonce == theirs[1].active_addrs.0[0].nonce));
    assert_eq!(mine[2].last_failure_osd_epoch, w.mon.osd.epoch());

    // Commands: those of the manager, and those that belong to it and came to the monitor.
    let (theirs, mine) = (stock.acks(), w.told.acks());
    assert_eq!(mine.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    let mut same = 0;
    for (id, s) in &theirs {
        let m = &mine[id];
        let prefix = json(s.cmd.concat().as_bytes())["prefix"].as_str().unwrap_or_default().to_string();
        assert_eq!(m.cmd, s.cmd);
        if prefix == "osd metadata" {
            // No OSD ever came to this monitor of ours.
            continue;
        }
        assert_eq!((m.result, &m.status), (s.result, &s.status), "{:?}", s.cmd);
        if prefix == "mon metadata" {
            // Names and addresses; what else there is, is the machine's.
            assert!(keys(&json(&m.data)).is_subset(&keys(&json(&s.data))), "{:?}", s.cmd);
            continue;
        }
        assert_eq!(m.data, s.data, "{:?}", s.cmd);
        same += 1;
    }
    assert!(same >= 10, "{same} answers were held against stock's");
    // What the monitor handed on is what the stock one did: the same commands, in the same order.
    let link = said.iter().filter(|s| s.who >> 1 == TO_MANAGER && s.raw.kind == MMgrCommand::KIND);
    let theirs: Vec<MMgrCommand> = link.map(|s| MMgrCommand::decode(&s.raw).unwrap()).collect();
    let without_tid = |m: &MMgrCommand| (m.fsid, m.cmd.clone(), m.data.clone());
    assert_eq!(w.handed.iter().map(without_tid).collect::<Vec<_>>(), theirs.iter().map(without_tid).collect::<Vec<_>>());
    assert_eq!(w.handed.len(), 4);

    // Subscriptions: each connection is served what it asked for.
    for conn in 0..=6 {
        let served = |told: &Told| told.kinds(conn).into_keys().collect::<BTreeSet<_>>();
        let (mut theirs, mine) = (served(&stock), served(&w.told));
        if conn == 2 {
            // Maps of OSDs that change come on only where there are any.
            theirs.remove("MOSDMap");
        }
        if conn != TO_MANAGER {
            assert_eq!(mine, theirs, "connection {conn}");
        }
    }
    // Log lines are acknowledged up to the same ones.
    assert_eq!(w.told.of::<MLogAck>(None), stock.of::<MLogAck>(None));
    let first = |told: &Told, conn| told.of::<MKVData>(Some(conn)).into_iter().take(3).collect::<Vec<_>>();
    let empty = |all: Vec<MKVData>| all.into_iter().map(|m| (m.prefix, m.incremental, m.data)).collect::<Vec<_>>();
    assert_eq!(empty(first(&w.told, 2)), empty(first(&stock, 2)));
    let services = |told: &Told| {
        told.of::<MServiceMap>(None)
            .iter()
            .map(|m| ServiceMap::from_bytes(&m.map.0).unwrap())
            .map(|m| (m.epoch, m.services))
            .collect::<Vec<_>>()
    };
    assert_eq!(services(&w.told), services(&stock));
    // What managers are told of the monitors and of the health has the same members.
    let (theirs, mine) = (stock.of::<MMgrDigest>(None), w.told.of::<MMgrDigest>(None));
    assert!(mine.len() >= theirs.len());
    let mut status = keys(&json(&theirs[0].mon_status_json));
    // How long it has been there: said by `status` alone.
    assert!(status.remove("quorum_age") && status.remove("uptime"));
    assert_eq!(keys(&json(&mine[0].mon_status_json)), status);
    assert_eq!(keys(&json(&mine[0].health_json)), keys(&json(&theirs[0].health_json)));

    // The manager's reports are understood whole: what is kept encodes to as much as came, in another order of pools, and reads as the same.
    let mut reports = 0;
    for s in said.iter().filter(|s| s.raw.kind == MMonMgrReport::KIND) {
        let m = MMonMgrReport::decode(&s.raw).unwrap();
        let digest = PgMapDigest::from_bytes(&m.data).unwrap();
        let again = digest.to_bytes(features::SUPPORTED);
        assert_eq!((again.len(), PgMapDigest::from_bytes(&again).unwrap()), (m.data.len(), digest));
        reports += 1;
    }
    assert!(reports >= 10);
    let shown = w.mon.manager.pgs.digest.as_ref().expect("the last report is shown");
    let last = said.iter().rev().find(|s| s.raw.kind == MMonMgrReport::KIND).unwrap();
    assert_eq!(**shown, PgMapDigest::from_bytes(&MMonMgrReport::decode(&last.raw).unwrap().data).unwrap());
}
