//! The monitor's process: [`Mon`] and what its shell does, which is to make a batch durable before the effects behind it.

use crate::net::{Life, LinkId, Net, Port, Proc};
use crate::plan::MAPS_KEPT;
use crate::purge;
use base::Rng;
use bytes::Bytes;
use cephx::AuthCapsInfo;
use messages::{MOSDMap, Message, RawMessage};
use mon_core::{Batch, ConnId, Effect, Endpoint, Event, Handshake, Mon, MonOptions, NewCluster, PeerInfo, Snapshot, mkfs};
use std::collections::BTreeMap;
use types::{AddrType, EntityAddr, EntityAddrVec, EntityKind, EntityText, UTime, Uuid, features};

pub fn fsid() -> Uuid {
    Uuid::from_random([7; 16])
}
pub fn mon_addr() -> EntityAddr {
    EntityAddr::parse("v2:10.0.0.1:3300/0", AddrType::MSGR2).expect("an address")
}

/// Where the manager endpoint of this life of the monitor listens.
pub fn mgr_addr(life: u32) -> EntityAddr {
    EntityAddr { nonce: life, ..EntityAddr::parse("v2:10.0.0.1:3301/0", AddrType::MSGR2).expect("an address") }
}

/// What a monitor leaves behind when it dies.
#[derive(Debug, Default)]
pub struct MonDisk {
    kept: Snapshot,
    /// What the last batch replaced.
    replaced: Vec<(String, Option<Bytes>)>,
}

impl MonDisk {
    /// A new cluster's.
    pub fn new(failure_domain: &str, maps_kept: u64, now_ns: u64, rng: &mut Rng) -> Self {
        let set = |section: &str, name: &str, value: &str| (section.to_string(), name.to_string(), value.to_string());
        let mut config = vec![set("global", "osd_pool_default_size", "1"), set("global", "mon_allow_pool_delete", "true")];
        if maps_kept < MAPS_KEPT {
            config.push(set("mon", "mon_min_osdmap_epochs", &maps_kept.to_string()));
            config.push(set("mon", "mon_osd_down_out_interval", "10"));
            config.push(set("osd", "osd_beacon_report_interval", "5"));
        }
        let new = NewCluster {
            fsid: fsid(),
            mon_addrs: EntityAddrVec::one(mon_addr()),
            failure_domain: failure_domain.into(),
            osds: 0,
            key_type: cephx::KeyType::AES,
            config,
        };
        let (batch, _) = mkfs(&new, UTime::from_wall_ns(now_ns), rng);
        let mut disk = Self::default();
        disk.apply(&batch);
        disk
    }
    fn apply(&mut self, batch: &Batch) {
        self.replaced = batch.changes.iter().map(|(key, _)| (key.clone(), self.kept.get(key).cloned())).collect();
        self.kept.apply(batch);
    }
    /// Breaks the promise of the last batch, for a planted bug.
    pub fn forget_last(&mut self) {
        let changes = std::mem::take(&mut self.replaced);
        self.kept.apply(&Batch { changes });
    }
}

/// Who is at the other end of a session: the model of a handshake without authentication.
#[derive(Debug, Clone)]
pub struct Who {
    pub entity: EntityText,
    pub global_id: u64,
    pub addrs: EntityAddrVec,
}

/// See the module.
pub struct Monitor {
    pub life: Life,
    core: Mon,
    /// Epochs of maps that subscribers were told: they never go back.
    pub newest_epoch: u32,
    /// Dies after the next batch is durable and before its answers go out.
    pub dies_at_commit: bool,
    /// True once it did.
    pub dead: bool,
}

impl Monitor {
    pub fn start(number: u32, disk: &mut MonDisk, net: &mut Net) -> Self {
        let life = (Proc::Mon, number);
        let mgr = mgr_addr(number);
        let options = MonOptions {
            fsid: fsid(),
            mon_addrs: EntityAddrVec::one(mon_addr()),
            mgr_addrs: EntityAddrVec::one(mgr),
            cephx: false,
            metadata: BTreeMap::new(),
        };
        let seed = net.rng.u64();
        let core = Mon::load(&disk.kept, options, Box::new(Rng::new(seed)), net.clock()).expect("what a monitor wrote, a monitor reads");
        let who = |addr| Who { entity: EntityText::new(EntityKind::MON, "a"), global_id: 0, addrs: EntityAddrVec::one(addr) };
        net.listen(&who(mon_addr()), life, Port::Mon);
        net.listen(&who(mgr), life, Port::Mgr);
        let newest_epoch = core.osd.epoch();
        let mut monitor = Self { life, core, newest_epoch, dies_at_commit: false, dead: false };
        monitor.feed(Event::Tick, disk, net);
        monitor
    }
    pub fn core(&self) -> &Mon {
        &self.core
    }

    fn feed(&mut self, event: Event, disk: &mut MonDisk, net: &mut Net) {
        let mut effects = Vec::new();
        let queued = self.core.osd.map.removed_snaps_queue.clone();
        self.core.handle(event, net.clock(), &mut effects);
        let epoch = self.core.osd.epoch();
        assert!(epoch >= self.newest_epoch, "the map's epoch goes back from {} to {epoch}", self.newest_epoch);
        if epoch > self.newest_epoch {
            let now = net.clock();
            if let Some(before) = net.map(self.newest_epoch)
                && let Err(why) = net.rules.look(&before, &self.core.osd.map, now)
            {
                net.wrong.get_or_insert(format!("rules: {why}"));
            }
            net.has_map(Proc::Mon, &self.core.osd.map);
            let map = &self.core.osd.map;
            let there = queued.iter().filter(|(pool, _)| map.pools.contains_key(pool));
            net.purged.extend(there.filter_map(|(pool, before)| purge::between(epoch, *pool, before, map.removed_snaps_queue.get(pool))));
        }
        self.newest_epoch = epoch;
        for effect in effects {
            match effect {
                Effect::Persist(batch) => {
                    disk.apply(&batch);
                    if self.dies_at_commit {
                        self.dead = true;
                        return;
                    }
                }
                Effect::Send { conn, message } => {
                    if message.kind == MOSDMap::KIND
                        && let Some(to) = net.other_end(conn.0, self.life)
                        && let Err(why) = net.rules.maps_go(to, net.now_ns)
                    {
                        net.wrong.get_or_insert(format!("rules: {why}"));
                    }
                    net.send(self.life, conn.0, message)
                }
                Effect::Close { conn } => net.close(self.life, conn.0),
                // No stock manager lives here, and no command comes by an admin socket.
                Effect::LocalAnswer { .. } | Effect::DialManager { .. } | Effect::SendManager { .. } | Effect::HangUpManager => {}
            }
        }
    }
    pub fn tick(&mut self, disk: &mut MonDisk, net: &mut Net) {
        self.feed(Event::Tick, disk, net);
    }
    pub fn accept(&mut self, link: LinkId, port: Port, who: &Who, caps: &str, disk: &mut MonDisk, net: &mut Net) {
        let endpoint = if port == Port::Mgr { Endpoint::Mgr } else { Endpoint::Mon };
        let peer = PeerInfo {
            entity: who.entity.clone(),
            global_id: who.global_id,
            caps: AuthCapsInfo::from_text(caps),
            addrs: who.addrs.clone(),
            from: who.addrs.clone().front(),
            features: features::SUPPORTED,
            handshake: Handshake::default(),
        };
        self.feed(Event::Open { conn: ConnId(link), endpoint, peer: Box::new(peer) }, disk, net);
    }
    pub fn message(&mut self, link: LinkId, message: RawMessage, disk: &mut MonDisk, net: &mut Net) {
        self.feed(Event::Message { conn: ConnId(link), message }, disk, net);
    }
    pub fn closed(&mut self, link: LinkId, disk: &mut MonDisk, net: &mut Net) {
        self.feed(Event::Closed { conn: ConnId(link) }, disk, net);
    }
}
