//! What a stock monitor said to a stock OSD, said to ours: it takes all of it, and answers in the same order with the same.
//!
//! `fixtures/osd-core/README.md` says where the conversation is from.

#[path = "../../messages/tests/conversation/mod.rs"]
mod conversation;
mod world;

use base::{Clock, Stamp};
use conversation::Said;
use denc::Denc;
use maps::{Incremental, OsdMap};
use messages::{
    MMonGetPurgedSnaps, MMonGetPurgedSnapsReply, MMonGetVersionReply, MOSDAlive, MOSDBeacon, MOSDBoot, MOSDMap, MOSDPGCreate2,
    MOSDPGCreated, Message, RawMessage,
};
use osd_core::{BootInfo, Effect, Event, Osd, OsdSetup};
use std::collections::BTreeSet;
use types::{PgId, features};
use world::store::TestStore;

fn conversation() -> Vec<Said> {
    conversation::read("osd-core/monitor-18.2.7.msgs")
}
fn of<M: Message>(said: &[Said]) -> Vec<M> {
    said.iter().filter(|s| s.raw.kind == M::KIND).map(|s| M::decode(&s.raw).unwrap()).collect()
}
/// The last map, and the first that shows the OSD up.
fn maps_of(said: &[Said]) -> (OsdMap, OsdMap) {
    let (mut map, mut up) = (OsdMap::default(), None);
    for m in of::<MOSDMap>(said) {
        let (_, last) = m.range().unwrap();
        while map.epoch < last {
            let next = map.epoch + 1;
            match (m.incrementals.get(&next), m.maps.range(next..).next()) {
                (Some(inc), _) => drop(map.apply_and_encode(&Incremental::from_bytes(inc).unwrap()).unwrap()),
                (None, Some((_, full))) => map = OsdMap::from_bytes(full).unwrap(),
                (None, None) => panic!("no map {next}"),
            }
            if up.is_none() && map.is_up(0) {
                up = Some(map.clone());
            }
        }
    }
    (map, up.expect("it comes up"))
}

/// What an OSD tells of itself and its groups, once for each row of the same.
fn turns<'a>(kinds: impl Iterator<Item = &'a RawMessage>) -> Vec<&'static str> {
    let told = [MOSDBoot::KIND, MOSDAlive::KIND, MOSDPGCreated::KIND];
    let mut turns: Vec<_> = kinds.filter(|raw| told.contains(&raw.kind)).map(|raw| messages::kind_name(raw.kind)).collect();
    turns.dedup();
    turns
}

#[test]
fn a_stock_monitors_words_make_our_osd_say_what_a_stock_one_did() {
    let said = conversation();
    let theirs = of::<MOSDBoot>(&said).remove(0);
    let (last, up) = maps_of(&said);
    let setup = OsdSetup {
        whoami: theirs.superblock.whoami,
        cluster_fsid: theirs.superblock.cluster_fsid,
        osd_fsid: theirs.superblock.osd_fsid,
        seed: 7,
        classes: &classes::BUILTIN,
        config: vec![("osd_beacon_report_interval".into(), "4".into())],
    };
    let mut osd = Osd::new(setup, Box::new(TestStore::new(None).0));
    let info = BootInfo {
        public: up.client_addrs[0].clone(),
        cluster: theirs.cluster_addrs.clone(),
        hb_front: theirs.hb_front_addrs.clone(),
        hb_back: theirs.hb_back_addrs.clone(),
        metadata: Vec::new(),
    };
    let clock = |ms: u64| Clock { mono: Stamp(100_000_000_000 + ms * 1_000_000), wall_ns: 1_700_000_000_000_000_000 + ms * 1_000_000 };
    let mut ours: Vec<RawMessage> = Vec::new();
    let mut newest = 0;
    // One event, and what the shell and a monitor without a word of its own do about it.
    let mut feed = |osd: &mut Osd, event: Event, ms: u64, newest: u32| {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut out = Vec::new();
            osd.handle(event, clock(ms), &mut out);
            osd.handle(Event::TurnEnd, clock(ms), &mut out);
            for effect in out {
                match effect {
                    Effect::AskMapVersions if newest > 0 => events.push(Event::MapVersions { oldest: 1, newest }),
                    Effect::Continue => events.push(Event::Continue),
                    Effect::SendMon(raw) if raw.kind == MMonGetPurgedSnaps::KIND => {
                        let asked = MMonGetPurgedSnaps::decode(&raw).unwrap();
                        let reply = MMonGetPurgedSnapsReply { start: asked.start, last: asked.last, ..MMonGetPurgedSnapsReply::default() };
                        events.push(Event::Mon(reply.encode(features::SUPPORTED)));
                    }
                    Effect::SendMon(raw) => ours.push(raw),
                    Effect::Stop { why } => panic!("it stops: {why:?}"),
                    Effect::Log { level, text } if level <= osd_core::Level::Warn => panic!("it complains: {text}"),
                    _ => {}
                }
            }
        }
    };
    feed(&mut osd, Event::Boot(Box::new(info)), 0, newest);
    let mut ticked_ms = 0;
    for s in said.iter().filter(|s| s.who == 0) {
        while ticked_ms + 1000 <= s.at_ms {
            ticked_ms += 1000;
            feed(&mut osd, Event::Tick, ticked_ms, newest);
        }
        let event = match s.raw.kind {
            MOSDMap::KIND => {
                newest = newest.max(MOSDMap::decode(&s.raw).unwrap().newest);
                Event::Mon(s.raw.clone())
            }
            MMonGetVersionReply::KIND => {
                let m = MMonGetVersionReply::decode(&s.raw).unwrap();
                newest = newest.max(m.version as u32);
                Event::MapVersions { oldest: m.oldest as u32, newest: m.version as u32 }
            }
            // The rest is the monitor client's.
            MOSDPGCreate2::KIND => Event::Mon(s.raw.clone()),
            _ => continue,
        };
        feed(&mut osd, event, s.at_ms, newest);
    }

    assert_eq!((osd.map().epoch, osd.is_up()), (last.epoch, true));
    assert!(osd.pgs().count() > 0 && osd.pgs().all(|pg| pg.peering.is_clean()));
    assert_eq!(turns(ours.iter()), turns(said.iter().filter(|s| s.who == 1).map(|s| &s.raw)));
    // The same groups are told to be made.
    let told = |created: Vec<MOSDPGCreated>| created.into_iter().map(|m| m.pgid).collect::<BTreeSet<PgId>>();
    let mine = |kind: u16| ours.iter().filter(move |raw| raw.kind == kind);
    assert_eq!(told(mine(MOSDPGCreated::KIND).map(|raw| MOSDPGCreated::decode(raw).unwrap()).collect()), told(of(&said)));
    let (beacons, theirs) = (mine(MOSDBeacon::KIND).count(), of::<MOSDBeacon>(&said).len());
    assert!(beacons.abs_diff(theirs) <= 2, "{beacons} beacons where stock sent {theirs}");
}
