//! An OSD's process: [`Osd`] and [`MonClient`], and a model of what the shell `osd` decides: when the manager is dialled, what is said to the
//! monitor before boot, which links carry what.

use crate::drive::Drive;
use crate::monitor::{Who, fsid, mon_addr};
use crate::net::{Life, LinkId, Net, Port, Proc, What};
use crate::plan::Plan;
use crate::{MS, SEC};
use base::Rng;
use bytes::Bytes;
use cephx::Identity;
use denc::Denc;
use maps::MgrMap;
use messages::osd_client::MOSDMap;
use messages::{MMgrMap, Message, RawMessage};
use objecter::MonClient;
use objecter::monc::{Answer, Effect as MonEffect, Request};
use osd_core::{BootInfo, ConnId, Effect, Event, HbNet, Osd, OsdSetup, Peer};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityName, EntityText, Epoch, Uuid, features};

pub fn osd_uuid(id: i32) -> Uuid {
    Uuid::from_random([id as u8 + 100; 16])
}
fn addr(id: i32, port: Port, life: u32) -> EntityAddr {
    let at = match port {
        Port::Cluster => 6801,
        Port::HbFront => 6802,
        Port::HbBack => 6803,
        _ => 6800,
    };
    EntityAddr { nonce: life, ..EntityAddr::parse(&format!("v2:10.0.1.{id}:{at}/0"), AddrType::MSGR2).expect("an address") }
}

/// How far it got before it boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Waits for the monitor and the cluster's name.
    Login,
    /// Its place in the CRUSH map was asked for, by this number.
    Placing(u64),
    Booting,
}

/// See the module.
pub struct OsdProcess {
    pub life: Life,
    id: i32,
    core: Osd,
    monc: MonClient,
    mon: Option<LinkId>,
    last_ack_ns: Option<u64>,
    mgr: Option<LinkId>,
    mgr_addrs: EntityAddrVec,
    start: Start,
    asked_versions: u64,
    /// Links that we dialled to other OSDs, by address.
    dialled: BTreeMap<String, LinkId>,
    heartbeats: BTreeMap<LinkId, (HbNet, EntityAddrVec)>,
    continuing: bool,
    disk_turn: bool,
    newest_epoch: Epoch,
    /// Why it ended by itself.
    pub ended: Option<Option<String>>,
}

impl OsdProcess {
    pub fn start(id: i32, number: u32, plan: &Plan, drive: &mut Drive, net: &mut Net) -> Result<Self, String> {
        let life = (Proc::Osd(id), number);
        let store = drive.open(&mut net.rng)?;
        let entries = plan.log_entries.to_string();
        let setup = OsdSetup {
            whoami: id,
            cluster_fsid: fsid(),
            osd_fsid: osd_uuid(id),
            seed: net.rng.u64(),
            classes: &classes::BUILTIN,
            config: vec![("osd_min_pg_log_entries".into(), entries.clone()), ("osd_max_pg_log_entries".into(), entries)],
        };
        for port in [Port::Public, Port::Cluster, Port::HbFront, Port::HbBack] {
            net.listen(&addr(id, port, number), life, port);
        }
        let identity = Rc::new(RefCell::new(Identity::none(EntityText::new(EntityKind::OSD, id.to_string()))));
        let mut monc = MonClient::new(identity, vec![EntityAddrVec::one(mon_addr())], format!("host{id}"), net.rng.u64());
        monc.subscribe_to("mgrmap", 0, 0, &mut Vec::new());
        let mut osd = Self {
            life,
            id,
            core: Osd::new(setup, store),
            monc,
            mon: None,
            last_ack_ns: None,
            mgr: None,
            mgr_addrs: EntityAddrVec::default(),
            start: Start::Login,
            asked_versions: 0,
            dialled: BTreeMap::new(),
            heartbeats: BTreeMap::new(),
            continuing: false,
            disk_turn: false,
            newest_epoch: 0,
            ended: None,
        };
        osd.monc(drive, net, |core, net, out| core.start(net.clock(), out));
        net.after(SEC, What::Tick(life));
        Ok(osd)
    }
    pub fn core(&self) -> &Osd {
        &self.core
    }
    /// The process is gone; its store stays.
    pub fn into_core(self) -> Osd {
        self.core
    }
    /// How monitors and other OSDs see it.
    pub fn who(id: i32, life: u32, port: Port) -> Who {
        let entity = EntityText::new(EntityKind::OSD, id.to_string());
        let port = if port == Port::Mgr || port == Port::Mon { Port::Public } else { port };
        Who { entity, global_id: 1000 + id as u64, addrs: EntityAddrVec::one(addr(id, port, life)) }
    }

    fn event(&mut self, event: Event, drive: &mut Drive, net: &mut Net) {
        let mut effects = Vec::new();
        self.core.handle(event, net.clock(), &mut effects);
        self.core.handle(Event::TurnEnd, net.clock(), &mut effects);
        for effect in effects {
            self.carry_out(effect, drive, net);
        }
        let epoch = self.core.map().epoch;
        assert!(epoch >= self.newest_epoch, "osd.{}'s map goes back from epoch {} to {epoch}", self.id, self.newest_epoch);
        self.newest_epoch = epoch;
        if !self.disk_turn && drive.is_busy() {
            self.disk_turn = true;
            let delay = 20_000 + net.rng.below(if net.rng.clone().chance(1, 50) { 40 * MS } else { MS });
            net.after(delay, What::Disk(self.life));
        }
    }

    fn carry_out(&mut self, effect: Effect, drive: &mut Drive, net: &mut Net) {
        match effect {
            Effect::Send { conn, msg } => net.send(self.life, conn.0, msg),
            Effect::SendMon(msg) => self.monc(drive, net, |core, _, out| core.send(msg, out)),
            Effect::SendMgr(msg) => {
                if let Some(mgr) = self.mgr {
                    net.send(self.life, mgr, msg);
                }
            }
            Effect::SendOsd { addrs, msg, .. } => {
                let link = self.peer_link(&addrs, net);
                net.send(self.life, link, msg);
            }
            Effect::SendHeartbeat { net: which, addrs, msg } => {
                let link = self.peer_link(&addrs, net);
                self.heartbeats.insert(link, (which, addrs));
                net.send(self.life, link, msg);
            }
            Effect::Close(conn) => {
                net.close(self.life, conn.0);
                self.dialled.retain(|_, link| *link != conn.0);
            }
            Effect::SubscribeMaps { from } => self.monc(drive, net, |core, _, out| core.resubscribe("osdmap", from.into(), 0, out)),
            Effect::SubscribeCreates { from } => {
                self.monc(drive, net, |core, _, out| core.subscribe_to("osd_pg_creates", from.into(), 0, out));
            }
            Effect::AskMapVersions => {
                self.asked_versions = self.ask(Request::Version("osdmap".into()), drive, net);
            }
            Effect::Continue => {
                if !std::mem::replace(&mut self.continuing, true) {
                    net.after(1000, What::Continue(self.life));
                }
            }
            Effect::Booted { epoch } => net.note(format!("osd.{} is up in epoch {epoch}", self.id)),
            Effect::Log { level, text } | Effect::ClusterLog { level, text } => {
                if level <= osd_core::Level::Warn {
                    net.note(format!("osd.{} says: {text}", self.id));
                }
            }
            // No device is asked for its health here.
            Effect::AskDevices { .. } => {}
            Effect::Stop { why } => self.ended = Some(why),
        }
    }
    fn peer_link(&mut self, addrs: &EntityAddrVec, net: &mut Net) -> LinkId {
        let key = addrs.msgr2().map(|a| a.to_string()).unwrap_or_default();
        let life = self.life;
        *self.dialled.entry(key).or_insert_with(|| net.dial(life, addrs))
    }

    fn ask(&mut self, request: Request, drive: &mut Drive, net: &mut Net) -> u64 {
        let mut tid = 0;
        self.monc(drive, net, |core, _, out| tid = core.request(request, out));
        tid
    }
    fn monc(&mut self, drive: &mut Drive, net: &mut Net, f: impl FnOnce(&mut MonClient, &mut Net, &mut Vec<MonEffect>)) {
        let mut out = Vec::new();
        f(&mut self.monc, net, &mut out);
        self.mon_effects(out, drive, net);
    }
    fn mon_effects(&mut self, effects: Vec<MonEffect>, drive: &mut Drive, net: &mut Net) {
        for effect in effects {
            self.mon_effect(effect, drive, net);
        }
    }
    fn mon_effect(&mut self, effect: MonEffect, drive: &mut Drive, net: &mut Net) {
        match effect {
            MonEffect::Dial(addrs) => {
                if let Some(old) = self.mon.take() {
                    net.close(self.life, old);
                }
                self.last_ack_ns = None;
                self.mon = Some(net.dial(self.life, &addrs));
            }
            MonEffect::Send(msg) => {
                if let Some(mon) = self.mon {
                    net.send(self.life, mon, msg);
                }
            }
            MonEffect::Keepalive => self.last_ack_ns = Some(net.clock().wall_ns),
            MonEffect::Connected => {
                self.event(Event::MonConnected, drive, net);
                self.go_on_starting(drive, net);
            }
            MonEffect::MonMap => self.go_on_starting(drive, net),
            MonEffect::Config(config) => self.event(Event::MonConfig(config), drive, net),
            MonEffect::Answer(Answer::Version { tid, newest, oldest }) if tid == self.asked_versions => {
                self.event(Event::MapVersions { oldest: oldest as Epoch, newest: newest as Epoch }, drive, net);
            }
            MonEffect::Answer(Answer::Command { tid, .. }) if self.start == Start::Placing(tid) => {
                self.start = Start::Booting;
                let at = |port| EntityAddrVec::one(addr(self.id, port, self.life.1));
                let info = BootInfo {
                    public: at(Port::Public),
                    cluster: at(Port::Cluster),
                    hb_front: at(Port::HbFront),
                    hb_back: at(Port::HbBack),
                    // The monitor moves no group between OSDs of this name.
                    metadata: vec![("ceph_version".into(), format!("ceph version {} (humboldt sim)", osd_core::VERSION))],
                };
                self.event(Event::Boot(Box::new(info)), drive, net);
            }
            MonEffect::Answer(_) | MonEffect::Rotating => {}
        }
    }
    fn go_on_starting(&mut self, drive: &mut Drive, net: &mut Net) {
        if self.start == Start::Login && self.monc.is_open() && self.monc.fsid().is_some() {
            let cmd = format!(
                r#"{{"prefix":"osd crush create-or-move","id":{},"weight":1.0,"args":["host=host{}","root=default"]}}"#,
                self.id, self.id
            );
            let tid = self.ask(Request::Command { cmd: vec![cmd], input: Bytes::new() }, drive, net);
            self.start = Start::Placing(tid);
        }
    }

    pub fn tick(&mut self, drive: &mut Drive, net: &mut Net) {
        let ack = self.last_ack_ns;
        let mut entropy = Rng::new(net.rng.u64());
        self.monc(drive, net, |core, net, out| core.tick(net.clock(), ack, &mut entropy, out));
        self.event(Event::Tick, drive, net);
        if self.mgr.is_none() && self.mgr_addrs.msgr2().is_some() {
            self.mgr = Some(net.dial(self.life, &self.mgr_addrs.clone()));
        }
        net.after(SEC, What::Tick(self.life));
    }
    pub fn continued(&mut self, drive: &mut Drive, net: &mut Net) {
        self.continuing = false;
        self.event(Event::Continue, drive, net);
    }
    pub fn disk(&mut self, drive: &mut Drive, net: &mut Net) {
        self.disk_turn = false;
        drive.complete_some(&mut net.rng);
        self.event(Event::TurnEnd, drive, net);
    }

    /// A link of another process to one of our doors.
    pub fn accept(&mut self, link: LinkId, who: &Who, drive: &mut Drive, net: &mut Net) {
        self.event(Event::Connected { conn: ConnId(link), peer: peer(who) }, drive, net);
    }
    /// A link that we dialled is open.
    pub fn opened(&mut self, link: LinkId, who: &Who, drive: &mut Drive, net: &mut Net) {
        if self.mon == Some(link) {
            return self.monc(drive, net, |core, net, out| core.on_open(net.clock(), out));
        }
        if self.mgr == Some(link) {
            return self.event(Event::MgrConnected, drive, net);
        }
        self.event(Event::Connected { conn: ConnId(link), peer: peer(who) }, drive, net);
    }
    /// A link is gone, refused or cut. True if it was to the monitor or the manager, whose loss the core does not hear of.
    fn lost(&mut self, link: LinkId, drive: &mut Drive, net: &mut Net) -> bool {
        if self.mon == Some(link) {
            self.monc(drive, net, |core, net, out| core.on_lost(net.clock(), out));
            return true;
        }
        if self.mgr == Some(link) {
            self.mgr = None;
            return true;
        }
        self.dialled.retain(|_, l| *l != link);
        false
    }
    /// A link that we dialled is refused.
    pub fn refused(&mut self, link: LinkId, drive: &mut Drive, net: &mut Net) {
        if self.lost(link, drive, net) {
            return;
        }
        // A messenger dials again by itself, with pauses; here the next message does.
        if let Some((_, addrs)) = self.heartbeats.remove(&link) {
            self.event(Event::HeartbeatRefused { addrs }, drive, net);
        }
    }
    pub fn closed(&mut self, link: LinkId, drive: &mut Drive, net: &mut Net) {
        if self.lost(link, drive, net) {
            return;
        }
        self.heartbeats.remove(&link);
        self.event(Event::Reset { conn: ConnId(link) }, drive, net);
    }
    pub fn message(&mut self, link: LinkId, port: Port, msg: RawMessage, drive: &mut Drive, net: &mut Net) {
        let conn = ConnId(link);
        if self.mon == Some(link) {
            return self.from_mon(&msg, drive, net);
        }
        if self.mgr == Some(link) {
            return self.event(Event::Mgr(msg), drive, net);
        }
        let event = match port {
            Port::HbFront => Event::Heartbeat { conn, net: HbNet::Front, msg },
            Port::HbBack => Event::Heartbeat { conn, net: HbNet::Back, msg },
            _ => Event::Message { conn, msg },
        };
        self.event(event, drive, net);
    }
    fn from_mon(&mut self, msg: &RawMessage, drive: &mut Drive, net: &mut Net) {
        let mut entropy = Rng::new(net.rng.u64());
        let mut mine = false;
        self.monc(drive, net, |core, net, out| mine = core.on_message(msg, net.clock(), &mut entropy, out));
        if mine {
            return;
        }
        if msg.kind == MMgrMap::KIND {
            let map = MMgrMap::decode(msg).and_then(|m| MgrMap::from_bytes(&m.map.0)).expect("our monitor's maps are readable");
            self.monc(drive, net, |core, _, _| core.got("mgrmap", map.epoch.into()));
            let addrs = if map.available { map.active_addrs } else { EntityAddrVec::default() };
            if self.mgr_addrs != addrs {
                self.mgr_addrs = addrs;
                if let Some(old) = self.mgr.take() {
                    net.close(self.life, old);
                }
            }
            return;
        }
        self.event(Event::Mon(msg.clone()), drive, net);
        if msg.kind == MOSDMap::KIND {
            let epoch = self.core.map().epoch;
            self.monc(drive, net, |core, _, _| core.got("osdmap", epoch.into()));
        }
    }
}

fn peer(who: &Who) -> Peer {
    let num = match who.entity.kind {
        EntityKind::OSD => who.entity.id.parse().expect("an OSD's name is its number"),
        _ => who.global_id as i64,
    };
    Peer {
        name: EntityName { kind: who.entity.kind, num },
        entity: who.entity.to_string(),
        global_id: who.global_id,
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr: who.addrs.front(),
        cap: None,
    }
}
