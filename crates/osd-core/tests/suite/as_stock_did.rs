//! What a stock monitor said to a stock OSD, said to ours: it takes all of it, and answers in the same order with the same.
//!
//! `fixtures/osd-core/README.md` says where the conversation is from.

use crate::conversation;
use crate::conversation::Said;
use crate::replay::{Player, To, maps_of};
use messages::{MOSDAlive, MOSDBeacon, MOSDBoot, MOSDPGCreate2, MOSDPGCreated, Message, RawMessage};
use std::collections::BTreeSet;
use types::PgId;

fn conversation() -> Vec<Said> {
    conversation::read("osd-core/monitor-18.2.7.msgs")
}
fn of<M: Message>(said: &[Said]) -> Vec<M> {
    said.iter().filter(|s| s.raw.kind == M::KIND).map(|s| M::decode(&s.raw).unwrap()).collect()
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
    let (last, _) = maps_of(&said);
    let mut ours = Player::boot(&said, &[("osd_beacon_report_interval", "4")]);
    for s in said.iter().filter(|s| s.who == 0) {
        ours.tick_until(s.at_ms);
        if let Some(event) = ours.of_monitor(&s.raw, &[MOSDPGCreate2::KIND]) {
            ours.hear(s.at_ms, event);
        }
    }

    let Player { osd, told, .. } = ours;
    let ours: Vec<RawMessage> = told.into_iter().filter(|(_, to, _)| *to == To::Monitor).map(|(_, _, raw)| raw).collect();
    assert_eq!((osd.map().epoch, osd.is_up()), (last.epoch, true));
    assert!(osd.pgs().count() > 0 && osd.pgs().all(|pg| pg.peering().is_clean()));
    assert_eq!(turns(ours.iter()), turns(said.iter().filter(|s| s.who == 1).map(|s| &s.raw)));
    // The same groups are told to be made.
    let told = |created: Vec<MOSDPGCreated>| created.into_iter().map(|m| m.pgid).collect::<BTreeSet<PgId>>();
    let mine = |kind: u16| ours.iter().filter(move |raw| raw.kind == kind);
    assert_eq!(told(mine(MOSDPGCreated::KIND).map(|raw| MOSDPGCreated::decode(raw).unwrap()).collect()), told(of(&said)));
    let (beacons, theirs) = (mine(MOSDBeacon::KIND).count(), of::<MOSDBeacon>(&said).len());
    assert!(beacons.abs_diff(theirs) <= 2, "{beacons} beacons where stock sent {theirs}");
}
