//! An OSD of ours in the place of a stock one that was recorded: it boots with the other's numbers and addresses, hears what that one heard at
//! the same times, and what it says is kept. What a recording proves is its test's to say.

use crate::conversation::Said;
use crate::world::store::TestStore;
use base::{Clock, Stamp};
use denc::Denc;
use maps::{Incremental, OsdMap};
use messages::osd_ping::ping_op;
use messages::{MMonGetPurgedSnaps, MMonGetPurgedSnapsReply, MMonGetVersionReply, MOSDBoot, MOSDMap, MOSDPing, Message, RawMessage};
use osd_core::daemon::Network;
use osd_core::{BootInfo, ConnId, Effect, Event, Level, Osd, OsdSetup, Peer};
use types::{EntityName, OsdId, features};

/// Whom the OSD says something to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    Monitor,
    Manager,
    Osd(OsdId),
    /// The peer of a connection that it accepted.
    Client,
}

/// The heartbeat connections of the other OSDs: each number is this one and more.
const PINGED: u64 = 1000;

pub struct Player {
    pub osd: Osd,
    /// What it said, and when, in ms of the recording.
    pub told: Vec<(u64, To, RawMessage)>,
    /// The newest map that it was told of.
    newest: u32,
    ticked_ms: u64,
    /// Others answer its pings.
    pings: bool,
    /// Their answers, on their way until anything else happens.
    pongs: Vec<Event>,
}

impl Player {
    /// Boots in the place of the one that is recorded.
    pub fn boot(said: &[Said], config: &[(&str, &str)]) -> Self {
        Self::boot_in_place_of(0, said, config)
    }
    /// The same for an OSD of another number; `said` has one boot and maps, its own.
    pub fn boot_in_place_of(me: OsdId, said: &[Said], config: &[(&str, &str)]) -> Self {
        let theirs = MOSDBoot::decode(&said.iter().find(|s| s.raw.kind == MOSDBoot::KIND).expect("it boots").raw).unwrap();
        let (_, up) = maps_until(me, said);
        let setup = OsdSetup {
            whoami: theirs.superblock.whoami,
            cluster_fsid: theirs.superblock.cluster_fsid,
            osd_fsid: theirs.superblock.osd_fsid,
            seed: 7,
            classes: &classes::BUILTIN,
            config: config.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        };
        let info = BootInfo {
            public: up.client_addrs[me as usize].clone(),
            cluster: theirs.cluster_addrs.clone(),
            hb_front: theirs.hb_front_addrs.clone(),
            hb_back: theirs.hb_back_addrs.clone(),
            metadata: Vec::new(),
        };
        let osd = Osd::new(setup, Box::new(TestStore::new(None).0));
        let mut player = Self { osd, told: Vec::new(), newest: 0, ticked_ms: 0, pings: false, pongs: Vec::new() };
        player.hear(0, Event::Boot(Box::new(info)));
        player
    }
    /// One event, and what the shell and a monitor without a word of its own do about it.
    pub fn hear(&mut self, at_ms: u64, event: Event) {
        for pong in std::mem::take(&mut self.pongs) {
            self.happens(at_ms, pong);
        }
        self.happens(at_ms, event);
    }
    fn happens(&mut self, at_ms: u64, event: Event) {
        let ns = at_ms * 1_000_000;
        let clock = Clock { mono: Stamp(100_000_000_000 + ns), wall_ns: 1_700_000_000_000_000_000 + ns };
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut out = Vec::new();
            self.osd.handle(event, clock, &mut out);
            self.osd.handle(Event::TurnEnd, clock, &mut out);
            for effect in out {
                match effect {
                    Effect::AskMapVersions if self.newest > 0 => events.push(Event::MapVersions { oldest: 1, newest: self.newest }),
                    Effect::Continue => events.push(Event::Continue),
                    Effect::SendMon(raw) if raw.kind == MMonGetPurgedSnaps::KIND => {
                        let asked = MMonGetPurgedSnaps::decode(&raw).unwrap();
                        let reply = MMonGetPurgedSnapsReply { start: asked.start, last: asked.last, ..MMonGetPurgedSnapsReply::default() };
                        events.push(Event::Mon(reply.encode(features::SUPPORTED)));
                    }
                    Effect::SendMon(raw) => self.told.push((at_ms, To::Monitor, raw)),
                    Effect::SendMgr(raw) => self.told.push((at_ms, To::Manager, raw)),
                    Effect::SendOsd { osd, msg, .. } => self.told.push((at_ms, To::Osd(osd), msg)),
                    Effect::Send { msg, .. } => self.told.push((at_ms, To::Client, msg)),
                    // The others hear it, and say so.
                    Effect::SendHeartbeat { osd, net, msg, .. } if self.pings => {
                        let pong = MOSDPing { op: ping_op::PING_REPLY, ..MOSDPing::decode(&msg).unwrap() };
                        let conn = ConnId(PINGED + osd as u64);
                        self.pongs.push(Event::Heartbeat { conn, net, msg: pong.encode(features::SUPPORTED) });
                    }
                    Effect::Stop { why } => panic!("it stops: {why:?}"),
                    Effect::Log { level, text } if level <= Level::Warn => panic!("it complains: {text}"),
                    _ => {}
                }
            }
        }
    }
    /// These OSDs answer its pings from now on.
    pub fn others_answer(&mut self, osds: &[OsdId]) {
        for osd in osds {
            let peer = Peer {
                name: EntityName::osd((*osd).into()),
                entity: format!("osd.{osd}"),
                global_id: 100 + *osd as u64,
                features: features::SUPPORTED,
                supported: features::OSD_SUPPORTED,
                addr: Default::default(),
                from: Default::default(),
                network: Network::HbBack,
                cap: None,
            };
            self.hear(0, Event::Connected { conn: ConnId(PINGED + *osd as u64), peer });
        }
        self.pings = true;
    }
    /// The seconds until then.
    pub fn tick_until(&mut self, at_ms: u64) {
        while self.ticked_ms + 1000 <= at_ms {
            self.ticked_ms += 1000;
            self.hear(self.ticked_ms, Event::Tick);
        }
    }
    /// What a monitor's word is to the core: maps, versions of maps, and messages of these kinds. The rest is the monitor client's.
    pub fn of_monitor(&mut self, raw: &RawMessage, others: &[u16]) -> Option<Event> {
        match raw.kind {
            MOSDMap::KIND => {
                self.newest = self.newest.max(MOSDMap::decode(raw).unwrap().newest);
                Some(Event::Mon(raw.clone()))
            }
            MMonGetVersionReply::KIND => {
                let m = MMonGetVersionReply::decode(raw).unwrap();
                self.newest = self.newest.max(m.version as u32);
                Some(Event::MapVersions { oldest: m.oldest as u32, newest: m.version as u32 })
            }
            kind => others.contains(&kind).then(|| Event::Mon(raw.clone())),
        }
    }
}

/// The last map that was told, and the first that shows OSD 0 up.
pub fn maps_of(said: &[Said]) -> (OsdMap, OsdMap) {
    maps_until(0, said)
}
fn maps_until(me: OsdId, said: &[Said]) -> (OsdMap, OsdMap) {
    let (mut map, mut up) = (OsdMap::default(), None);
    for s in said.iter().filter(|s| s.raw.kind == MOSDMap::KIND) {
        let m = MOSDMap::decode(&s.raw).unwrap();
        let (_, last) = m.range().unwrap();
        while map.epoch < last {
            let next = map.epoch + 1;
            match (m.incrementals.get(&next), m.maps.range(next..).next()) {
                (Some(inc), _) => drop(map.apply_and_encode(&Incremental::from_bytes(inc).unwrap()).unwrap()),
                (None, Some((_, full))) => map = OsdMap::from_bytes(full).unwrap(),
                // Another OSD has told it those between, or tells it later.
                (None, None) => break,
            }
            if up.is_none() && map.is_up(me) {
                up = Some(map.clone());
            }
        }
    }
    (map, up.expect("it comes up"))
}
