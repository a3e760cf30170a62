//! A monitor with its store and what it sent, for tests that speak to it event by event.
#![allow(dead_code)] // not every test uses all of it

use super::common::{addr, clock, options};
use base::Rng;
use cephx::AuthCapsInfo;
use messages::*;
use mon_core::{ConnId, Effect, Endpoint, Event, Handshake, Mon, NewCluster, PeerInfo, Snapshot, mkfs};
use std::collections::BTreeMap;
use types::{EntityText, PgStat, Uuid, features, pg_stat::pg_state};

/// A monitor, its store, and what it has sent by connection.
pub struct World {
    pub mon: Mon,
    pub store: Snapshot,
    pub sent: BTreeMap<ConnId, Vec<RawMessage>>,
    pub now_ms: u64,
    pub next_conn: u64,
    /// Bytes that were made durable.
    pub persisted: usize,
    /// Answers to commands of this machine.
    pub local: BTreeMap<u64, (i32, String, String)>,
}

impl World {
    pub fn new() -> Self {
        let fsid = Uuid::from_random([7; 16]);
        let set = |n: &str, v: &str| ("global".to_string(), n.to_string(), v.to_string());
        let config = vec![set("osd_pool_default_size", "1"), set("mon_allow_pool_delete", "true")];
        let key_type = cephx::KeyType::AES;
        let new = NewCluster { fsid, mon_addrs: addr("v2:127.0.0.1:3300/0"), failure_domain: "osd".into(), osds: 2, key_type, config };
        let (batch, _) = mkfs(&new, types::UTime::from_wall_ns(clock(0).wall_ns), &mut Rng::new(1));
        let mut store = Snapshot::default();
        store.apply(&batch);
        let mon = Mon::load(&store, options(fsid), Box::new(Rng::new(2)), clock(0)).unwrap();
        let mut world = Self { mon, store, sent: BTreeMap::new(), local: BTreeMap::new(), persisted: 0, now_ms: 1, next_conn: 0 };
        world.event(Event::Tick);
        world
    }
    /// Kills the process and starts another on the same store.
    pub fn restart(&mut self) {
        self.mon = Mon::load(&self.store, options(self.mon.options.fsid), Box::new(Rng::new(3)), clock(self.now_ms)).unwrap();
        self.sent.clear();
        self.event(Event::Tick);
    }
    pub fn event(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.now_ms += 1;
        self.mon.handle(event, clock(self.now_ms), &mut effects);
        for effect in effects {
            match effect {
                Effect::Persist(batch) => {
                    self.persisted +=
                        batch.changes.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, |v| v.len())).sum::<usize>();
                    self.store.apply(&batch);
                }
                Effect::Send { conn, message } => self.sent.entry(conn).or_default().push(message),
                Effect::Close { conn } => self.sent.entry(conn).or_default().push(RawMessage { kind: 0xffff, ..RawMessage::default() }),
                Effect::LocalAnswer { id, result, status, output } => {
                    let output = String::from_utf8_lossy(&output).into_owned();
                    self.local.insert(id, (result, status, output));
                }
                // No manager but the endpoint comes.
                Effect::DialManager { .. } | Effect::SendManager { .. } | Effect::HangUpManager => panic!("{effect:?}"),
            }
        }
    }
    pub fn open_at(&mut self, endpoint: Endpoint, name: &str, caps: AuthCapsInfo, features: u64) -> ConnId {
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        let peer = PeerInfo {
            entity: EntityText::parse(name).unwrap(),
            global_id: 5000 + self.next_conn,
            caps,
            addrs: addr(&format!("v2:127.0.0.1:{}/{}", 6800 + self.next_conn % 20_000, self.next_conn)),
            from: addr(&format!("v2:127.0.0.1:{}/{}", 6800 + self.next_conn % 20_000, self.next_conn)).front(),
            features,
            handshake: Handshake::default(),
        };
        self.event(Event::Open { conn, endpoint, peer: Box::new(peer) });
        conn
    }
    pub fn open(&mut self, name: &str, caps: &str) -> ConnId {
        self.open_at(Endpoint::Mon, name, AuthCapsInfo::from_text(caps), features::SUPPORTED)
    }
    pub fn send<M: Message>(&mut self, conn: ConnId, message: &M) {
        let message = message.encode(features::SUPPORTED);
        self.event(Event::Message { conn, message });
    }
    /// Takes what was sent of one kind.
    pub fn take<M: Message>(&mut self, conn: ConnId) -> Vec<M> {
        let list = self.sent.entry(conn).or_default();
        let (of_kind, rest) = std::mem::take(list).into_iter().partition(|m: &RawMessage| m.kind == M::KIND);
        *list = rest;
        let of_kind: Vec<RawMessage> = of_kind;
        of_kind.iter().map(|raw| M::decode(raw).expect("what we send is readable")).collect()
    }
    pub fn command(&mut self, conn: ConnId, json: &str) -> (i32, String, String) {
        let fsid = self.mon.options.fsid;
        self.send(conn, &MMonCommand { fsid, cmd: vec![json.into()], ..MMonCommand::default() });
        let ack = self.take::<MMonCommandAck>(conn).pop().expect("a command is answered");
        (ack.result, ack.status, String::from_utf8_lossy(&ack.data).into_owned())
    }
    pub fn ok(&mut self, conn: ConnId, json: &str) -> String {
        let (result, status, data) = self.command(conn, json);
        assert_eq!(result, 0, "{json}: {status}");
        data
    }
    /// A command to the monitor itself.
    pub fn tell(&mut self, conn: ConnId, json: &str) -> (i32, String, String) {
        let fsid = self.mon.options.fsid;
        self.send(conn, &MCommand { fsid, cmd: vec![json.into()], ..MCommand::default() });
        let reply = self.take::<MCommandReply>(conn).pop().expect("a command is answered");
        (reply.result, reply.status, String::from_utf8_lossy(&reply.data).into_owned())
    }
    /// The same at the manager's endpoint; `tell`: to the daemon rather than the cluster.
    pub fn at_manager(&mut self, conn: ConnId, tell: bool, json: &str) -> (i32, String, String) {
        let (fsid, cmd) = (self.mon.options.fsid, vec![json.to_string()]);
        let (result, status, data) = if tell {
            self.send(conn, &MCommand { fsid, cmd, ..MCommand::default() });
            let reply = self.take::<MCommandReply>(conn).pop().expect("a command is answered");
            (reply.result, reply.status, reply.data)
        } else {
            self.send(conn, &MMgrCommand { fsid, cmd, ..MMgrCommand::default() });
            let reply = self.take::<MMgrCommandReply>(conn).pop().expect("a command is answered");
            (reply.result, reply.status, reply.data)
        };
        (result, status, String::from_utf8_lossy(&data).into_owned())
    }
    pub fn subscribe(&mut self, conn: ConnId, what: &str, start: u64, flags: u8) {
        let what = [(what.to_string(), SubscribeItem { start, flags })].into();
        self.send(conn, &MMonSubscribe { what, hostname: "h".into() });
    }

    /// Makes an OSD and boots it.
    pub fn osd(&mut self, id: i32) -> ConnId {
        let admin = self.open("client.admin", "allow *");
        let uuid = Uuid::from_random([id as u8 + 100; 16]);
        self.ok(admin, &format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":"{id}"}}"#));
        let conn = self.open(&format!("osd.{id}"), "allow profile osd");
        self.ok(conn, &format!(r#"{{"prefix":"osd crush set-device-class","class":"ssd","ids":["{id}"]}}"#));
        self.ok(conn, &format!(r#"{{"prefix":"osd crush create-or-move","id":{id},"weight":1.0,"args":["host=h","root=default"]}}"#));
        self.boot(conn, id, uuid);
        conn
    }
    pub fn boot(&mut self, conn: ConnId, id: i32, uuid: Uuid) {
        let mut m = MOSDBoot { osd_features: features::SUPPORTED, ..MOSDBoot::default() };
        (m.superblock.cluster_fsid, m.superblock.osd_fsid, m.superblock.whoami) = (self.mon.options.fsid, uuid, id);
        m.superblock.newest_map = 1;
        let at = |port: u32| addr(&format!("v2:127.0.0.1:{}/{}", port, conn.0));
        (m.cluster_addrs, m.hb_back_addrs, m.hb_front_addrs) = (at(7000), at(7100), at(7200));
        m.metadata.insert("ceph_version".into(), "x".into());
        self.send(conn, &m);
    }
    pub fn stat(&self, purged: &[(u64, u64)]) -> PgStat {
        let mut stat = PgStat { state: pg_state::ACTIVE | pg_state::CLEAN, reported_epoch: self.mon.osd.epoch(), ..PgStat::default() };
        stat.reported_seq = self.now_ms;
        for (start, len) in purged {
            stat.purged_snaps.insert(*start, *len);
        }
        stat
    }
}
