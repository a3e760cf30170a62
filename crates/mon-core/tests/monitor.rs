//! The monitor, event by event: what OSDs and clients get for what they send, and what survives a restart.

mod common;
#[path = "common/world.rs"]
mod world;

use base::Rng;
use bytes::Bytes;
use cephx::AuthCapsInfo;
use common::{addr, clock};
use denc::Denc;
use maps::{OsdMap, pool_flags};
use messages::*;
use mon_core::{ConnId, Endpoint, Event, Handshake, PeerInfo};
use types::{EntityText, PgId, PgStat, Uuid, features, pg_stat::pg_state};
use world::World;

#[test]
fn a_subscriber_follows_the_map_step_by_step() {
    let mut w = World::new();
    let c = w.open("client.x", "allow r");
    w.subscribe(c, "monmap", 0, 0);
    assert_eq!(w.take::<MMonMap>(c).len(), 1);
    w.subscribe(c, "osdmap", 0, 0);
    let first = w.take::<MOSDMap>(c).pop().unwrap();
    let mut map = OsdMap::from_bytes(first.maps.values().next().unwrap()).unwrap();
    let admin = w.open("client.admin", "allow *");
    for i in 0..60 {
        w.ok(admin, &format!(r#"{{"prefix":"osd pool create","pool":"p{i}","pg_num":1}}"#));
    }
    for m in w.take::<MOSDMap>(c) {
        for (epoch, bytes) in &m.incrementals {
            let inc = maps::Incremental::from_bytes(bytes).unwrap();
            assert_eq!(inc.epoch, *epoch);
            map.apply(&inc).unwrap();
            assert_eq!(map.encode_canonical().1, inc.full_crc, "our own map arrives at our own crc");
        }
    }
    assert_eq!((map.epoch, map.pools.len()), (w.mon.osd.epoch(), 60));
    // A session that comes late gets the same in messages of at most 40 epochs.
    let late = w.open("client.y", "allow r");
    w.subscribe(late, "osdmap", 1, 0);
    let messages = w.take::<MOSDMap>(late);
    assert!(messages.len() > 1 && messages.iter().all(|m| m.incrementals.len() <= 40));
    assert_eq!(messages.last().unwrap().range().unwrap().1, map.epoch);
}

#[test]
fn peers_of_older_releases_can_read_it() {
    let mut w = World::new();
    w.osd(0);
    let pacific = features::SUPPORTED & !(1 << 31);
    let c = w.open_at(Endpoint::Mon, "client.old", AuthCapsInfo::all(), pacific);
    w.subscribe(c, "osdmap", 1, 0);
    for m in w.take::<MOSDMap>(c) {
        for bytes in m.maps.values() {
            OsdMap::from_bytes(bytes).unwrap();
        }
        for bytes in m.incrementals.values() {
            assert_eq!(maps::Incremental::from_bytes(bytes).unwrap().encode_features & (1 << 31), 0);
        }
    }
}

#[test]
fn an_osd_boots_and_is_told_of_groups_to_make() {
    let mut w = World::new();
    let osd = w.osd(0);
    assert!(w.mon.osd.map.is_up(0) && w.mon.osd.map.is_in(0));
    w.subscribe(osd, "osd_pg_creates", 0, 0);
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":4}"#);
    let creates = w.take::<MOSDPGCreate2>(osd);
    assert_eq!(creates.iter().map(|m| m.pgs.len()).sum::<usize>(), 4);
    let id = w.mon.osd.map.pool_by_name("p").unwrap();
    assert!(w.mon.osd.map.pools[&id].has(pool_flags::CREATING));
    // What isn't made yet is asked for again after a restart.
    w.send(osd, &MOSDPGCreated { pgid: PgId::new(id, 0), ..MOSDPGCreated::default() });
    w.restart();
    let osd = w.open("osd.0", "allow profile osd");
    w.subscribe(osd, "osd_pg_creates", 0, 0);
    assert_eq!(w.take::<MOSDPGCreate2>(osd).iter().map(|m| m.pgs.len()).sum::<usize>(), 3);
    for seed in 1..4 {
        w.send(osd, &MOSDPGCreated { pgid: PgId::new(id, seed), ..MOSDPGCreated::default() });
    }
    assert!(!w.mon.osd.map.pools[&id].has(pool_flags::CREATING));
}

/// Groups are made one by one: each costs the store as much in a pool of ten times as many, and a restart in between forgets none.
#[test]
fn each_of_many_groups_costs_what_one_of_few_does() {
    let bytes_a_group = |pg_num: u32| {
        let mut w = World::new();
        let osd = w.osd(0);
        let admin = w.open("client.admin", "allow *");
        w.ok(admin, r#"{"prefix":"config set","who":"global","name":"mon_max_pg_per_osd","value":"5000"}"#);
        w.ok(admin, &format!(r#"{{"prefix":"osd pool create","pool":"p","pg_num":{pg_num}}}"#));
        let id = w.mon.osd.map.pool_by_name("p").unwrap();
        let before = w.persisted;
        let made = |w: &mut World, osd: ConnId, seeds: std::ops::Range<u32>| {
            seeds.for_each(|seed| w.send(osd, &MOSDPGCreated { pgid: PgId::new(id, seed), ..MOSDPGCreated::default() }));
        };
        made(&mut w, osd, 0..pg_num / 3);
        let bytes = w.persisted - before;
        w.restart();
        assert_eq!(w.mon.osd.creating.pgs.len() as u32, pg_num - pg_num / 3);
        let (osd, before) = (w.open("osd.0", "allow profile osd"), w.persisted);
        made(&mut w, osd, pg_num / 3..pg_num - 1);
        let bytes = bytes + w.persisted - before;
        w.restart();
        assert_eq!(w.mon.osd.creating.pgs.keys().copied().collect::<Vec<_>>(), [PgId::new(id, pg_num - 1)]);
        let osd = w.open("osd.0", "allow profile osd");
        made(&mut w, osd, pg_num - 1..pg_num);
        assert!(!w.mon.osd.map.pools[&id].has(pool_flags::CREATING));
        assert_eq!(w.store.below("osd/created/").count(), 0);
        bytes / pg_num as usize
    };
    let (few, many) = (bytes_a_group(32), bytes_a_group(320));
    assert!(many < 2 * few, "{few} bytes a group, {many} of ten times as many");
}

#[test]
fn snapshots_are_numbered_once_and_purged_when_all_groups_have_trimmed() {
    let mut w = World::new();
    w.osd(0);
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":2}"#);
    let id = w.mon.osd.map.pool_by_name("p").unwrap();
    let fsid = w.mon.options.fsid;
    let op = |op, snapid| MPoolOp { fsid, pool: id as u32, op, snapid, ..MPoolOp::default() };
    let mut numbers = Vec::new();
    for round in 0..3 {
        let admin = w.open("client.admin", "allow *");
        w.send(admin, &op(pool_op::CREATE_UNMANAGED_SNAP, 0));
        let reply = w.take::<MPoolOpReply>(admin).pop().unwrap();
        assert_eq!((reply.result, reply.epoch), (0, w.mon.osd.epoch()));
        let snap = u64::from_bytes(&reply.response.unwrap()).unwrap();
        assert!(numbers.iter().all(|n| *n < snap), "round {round}: {snap} after {numbers:?}");
        numbers.push(snap);
        w.send(admin, &op(pool_op::DELETE_UNMANAGED_SNAP, snap));
        assert_eq!(w.take::<MPoolOpReply>(admin).pop().unwrap().result, 0);
        w.restart();
    }
    assert_eq!(w.mon.osd.map.removed_snaps_queue[&id].size(), 3);
    // One group has trimmed everything, the other only the first.
    let endpoint = w.open_at(Endpoint::Mgr, "osd.0", AuthCapsInfo::all(), features::SUPPORTED);
    let first = (numbers[0], 1);
    let all: Vec<_> = numbers.iter().map(|n| (*n, 1)).collect();
    let pg_stat = [(PgId::new(id, 0), w.stat(&all)), (PgId::new(id, 1), w.stat(&[first]))].into();
    w.send(endpoint, &MPGStats { fsid, pg_stat, ..MPGStats::default() });
    assert_eq!(w.take::<MPGStatsAck>(endpoint).len(), 1);
    assert_eq!(w.mon.osd.map.removed_snaps_queue[&id].size(), 2);
    let pg_stat = [(PgId::new(id, 1), w.stat(&all))].into();
    w.send(endpoint, &MPGStats { fsid, pg_stat, ..MPGStats::default() });
    assert!(w.mon.osd.map.removed_snaps_queue.is_empty());
    // A purged one is not removed a second time.
    let epoch = w.mon.osd.epoch();
    let admin = w.open("client.admin", "allow *");
    w.send(admin, &op(pool_op::DELETE_UNMANAGED_SNAP, numbers[0]));
    assert_eq!(w.mon.osd.epoch(), epoch);
    // By force neither; a snapshot that no client removed is.
    for _ in 0..3 {
        w.send(admin, &op(pool_op::CREATE_UNMANAGED_SNAP, 0));
    }
    let seq = w.mon.osd.map.pools[&id].snap_seq;
    assert!(seq > numbers[2] + 2);
    w.ok(admin, r#"{"prefix":"osd pool force-remove-snap","pool":"p","dry_run":true}"#);
    assert!(w.mon.osd.map.removed_snaps_queue.is_empty(), "a dry run removes nothing");
    w.ok(admin, r#"{"prefix":"osd pool force-remove-snap","pool":"p","lower_snapid_bound":2}"#);
    // A removal takes a number, too: no snapshot has that one.
    let removed = &w.mon.osd.map.removed_snaps_queue[&id];
    assert!((2..=seq).all(|n| removed.contains_point(n) == (n < seq && !numbers.contains(&n))), "{removed:?} of {numbers:?} to {seq}");
}

/// A tier gets the numbers of its base's snapshots, and the flag that says whose snapshots they are: without that a map read back is another.
#[test]
fn a_tier_has_the_snapshots_of_its_base_in_everybodys_map() {
    let mut w = World::new();
    w.osd(0);
    let osd = w.open("osd.0", "allow profile osd");
    w.subscribe(osd, "osdmap", 0, 0);
    let first = w.take::<MOSDMap>(osd).pop().unwrap();
    let mut map = OsdMap::from_bytes(first.maps.values().next().unwrap()).unwrap();
    let admin = w.open("client.admin", "allow *");
    for pool in ["base", "tier", "other"] {
        w.ok(admin, &format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":1}}"#));
    }
    let id = |w: &World, name: &str| w.mon.osd.map.pool_by_name(name).unwrap();
    let (base, tier, other) = (id(&w, "base"), id(&w, "tier"), id(&w, "other"));
    let op = MPoolOp { fsid: w.mon.options.fsid, pool: base as u32, op: pool_op::CREATE_UNMANAGED_SNAP, ..MPoolOp::default() };
    w.send(admin, &op);
    w.ok(admin, r#"{"prefix":"osd tier add","pool":"base","tierpool":"tier"}"#);
    w.send(admin, &op);
    w.ok(admin, r#"{"prefix":"osd tier add","pool":"base","tierpool":"other"}"#);
    let updates = w.take::<MOSDMap>(osd);
    assert!(updates.len() >= 7, "{}", updates.len());
    for bytes in updates.iter().flat_map(|m| m.incrementals.values()) {
        map.apply_and_encode(&maps::Incremental::from_bytes(bytes).unwrap()).expect("it fits");
    }
    for pool in [base, tier, other].map(|id| &map.pools[&id]) {
        assert!(pool.is_unmanaged_snaps_mode() && pool.snap_seq == map.pools[&base].snap_seq && pool.snap_seq >= 3, "{pool:?}");
    }
    // An OSD may ask for maps as a whole, and for changes; only what is there is given.
    w.send(osd, &MMonGetOSDMap { full_first: map.epoch - 1, full_last: u32::MAX, ..MMonGetOSDMap::default() });
    w.send(osd, &MMonGetOSDMap { inc_first: map.epoch, inc_last: map.epoch, ..MMonGetOSDMap::default() });
    w.send(osd, &MMonGetOSDMap::default());
    let answers = w.take::<MOSDMap>(osd);
    let epochs = |m: &MOSDMap| (m.maps.keys().copied().collect::<Vec<_>>(), m.incrementals.keys().copied().collect::<Vec<_>>());
    let e = map.epoch;
    assert_eq!(answers.iter().map(epochs).collect::<Vec<_>>(), [(vec![e - 1, e], vec![]), (vec![], vec![e]), (vec![], vec![])]);
    assert_eq!(OsdMap::from_bytes(&answers[0].maps[&e]).unwrap().encode_canonical().1, map.encode_canonical().1);
}

#[test]
fn who_may_not_is_refused() {
    let mut w = World::new();
    let reader = w.open("client.r", "allow r");
    assert_eq!(w.command(reader, r#"{"prefix":"osd pool create","pool":"p"}"#).0, -13);
    assert_eq!(w.command(reader, r#"{"prefix":"auth ls"}"#).0, -13);
    assert_eq!(w.command(reader, r#"{"prefix":"fsid"}"#).0, 0);
    let nobody = w.open_at(Endpoint::Mon, "client.n", AuthCapsInfo::default(), features::SUPPORTED);
    assert_eq!(w.command(nobody, r#"{"prefix":"fsid"}"#).0, -13);
    w.subscribe(nobody, "osdmap", 0, 0);
    assert!(w.take::<MOSDMap>(nobody).is_empty());
    // A client can't boot an OSD, whatever it calls itself.
    let forged = w.open("client.osd", "allow rw");
    w.boot(forged, 0, Uuid::default());
    assert!(!w.mon.osd.map.is_up(0));
    // The rbd profile may fence one client, not a host.
    let rbd = w.open("client.rbd", "profile rbd");
    assert_eq!(w.command(rbd, r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"1.2.3.4:0/5"}"#).0, 0);
    assert_eq!(w.command(rbd, r#"{"prefix":"osd blocklist","blocklistop":"rm","addr":"1.2.3.4:0/5"}"#).0, -13);
    assert_eq!(w.mon.osd.map.blocklist.len(), 1);
}

/// CVE-2026-50152 and CVE-2018-14662: what a command refuses, a subscription does not give either.
#[test]
fn subscriptions_ask_for_capabilities_as_commands_do() {
    let mut w = World::new();
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"config-key set","key":"dm-crypt/osd/0/luks","val":"secret"}"#);
    w.ok(admin, r#"{"prefix":"config-key set","key":"mine/a","val":"b"}"#);
    // Who reads keys by a command gets them by subscription, and only those below what it may read.
    let named = r#"allow r, allow command "config-key get" with key prefix mine/"#;
    let rows = [
        ("allow *", "kv:dm-crypt/", 1),
        ("allow service mon r, allow service config-key r", "kv:dm-crypt/", 1),
        ("allow r", "kv:dm-crypt/", 0),
        ("allow r", "kv:", 0),
        ("allow rw", "kv:mine/", 0),
        ("profile rbd", "kv:mine/", 0),
        (named, "kv:mine/", 1),
        (named, "kv:", 0),
        ("allow service config-key r", "kv:mine/", 0),
    ];
    for (caps, what, count) in rows {
        let c = w.open("client.r", caps);
        w.subscribe(c, what, 0, 0);
        assert_eq!(w.take::<MKVData>(c).len(), count, "{caps}: {what}");
        // Nor later, when something changes.
        w.ok(admin, &format!(r#"{{"prefix":"config-key set","key":"mine/a","val":"{}"}}"#, w.next_conn));
        if count == 0 {
            assert!(w.take::<MKVData>(c).is_empty(), "{caps}: {what}");
        }
    }
    // Maps and logs: a reader's. A monitor map and its own configuration: everybody's.
    for (caps, what, kind, given) in [
        ("allow r", "osdmap", MOSDMap::KIND, true),
        ("allow service osd r", "osdmap", MOSDMap::KIND, false),
        ("allow service mon r", "osdmap", MOSDMap::KIND, false),
        ("allow service mon r, allow service osd r", "osdmap", MOSDMap::KIND, true),
        ("allow r", "mgrmap", MMgrMap::KIND, true),
        (r#"allow command "fsid""#, "mgrmap", MMgrMap::KIND, false),
        (r#"allow command "fsid""#, "monmap", MMonMap::KIND, true),
        ("allow r", "osd_pg_creates", MOSDPGCreate2::KIND, false),
        (r#"allow command "fsid""#, "log-info", MLog::KIND, false),
    ] {
        let c = w.open("client.m", caps);
        w.subscribe(c, what, 0, 0);
        w.ok(admin, r#"{"prefix":"log","logtext":["hello"]}"#);
        assert_eq!(w.sent.get(&c).is_some_and(|sent| sent.iter().any(|m| m.kind == kind)), given, "{caps}: {what}");
    }
    // Versions of maps are told to readers only, as stock does.
    let c = w.open("client.v", "allow service osd r");
    w.send(c, &MMonGetVersion { handle: 1, what: "osdmap".into() });
    assert!(w.take::<MMonGetVersionReply>(c).is_empty());
}

/// Tracker 78385: a firewall that refuses for everybody must not take everybody down.
#[test]
fn a_refused_connection_is_evidence_not_proof() {
    let mut w = World::new();
    let osds: Vec<ConnId> = (0..4).map(|id| w.osd(id)).collect();
    w.now_ms += 60_000;
    let fsid = w.mon.options.fsid;
    let report = |w: &World, target: i32| MOSDFailure {
        fsid,
        target_osd: target,
        target_addrs: w.mon.osd.map.client_addrs[target as usize].clone(),
        flags: failure_flag::FAILED | failure_flag::IMMEDIATE,
        epoch: w.mon.osd.map.epoch,
        ..MOSDFailure::default()
    };
    for target in [1, 2, 3] {
        let m = report(&w, target);
        w.send(osds[0], &m);
        assert!(w.mon.osd.map.is_up(target), "one OSD can't reach it, and it talks to us");
    }
    let m = report(&w, 1);
    w.send(osds[2], &m);
    assert!(!w.mon.osd.map.is_up(1), "two can't");
    // One that has left without a word is down with the first report.
    w.event(Event::Closed { conn: osds[3] });
    let m = report(&w, 3);
    w.send(osds[0], &m);
    assert!(!w.mon.osd.map.is_up(3));
    assert!(w.mon.osd.map.is_up(2) && w.mon.osd.map.is_up(0));
    // One of which that was said before it left is down when it leaves.
    w.event(Event::Closed { conn: osds[2] });
    assert!(!w.mon.osd.map.is_up(2) && w.mon.osd.map.osd_xinfo[2].dead_epoch > w.mon.osd.map.osd_info[2].up_from);
    w.event(Event::Closed { conn: osds[0] });
    assert!(w.mon.osd.map.is_up(0), "no report, and no proof");
}

/// An OSD that was wrongly marked down and is back has another port for OSDs, and the former one refuses.
#[test]
fn what_was_said_of_a_former_life_does_not_count() {
    let mut w = World::new();
    let osds: Vec<ConnId> = (0..3).map(|id| w.osd(id)).collect();
    let admin = w.open("client.admin", "allow *");
    w.now_ms += 60_000;
    let mut m = MOSDFailure {
        fsid: w.mon.options.fsid,
        target_osd: 1,
        target_addrs: w.mon.osd.map.client_addrs[1].clone(),
        flags: failure_flag::FAILED | failure_flag::IMMEDIATE,
        epoch: w.mon.osd.map.epoch,
        ..MOSDFailure::default()
    };
    w.ok(admin, r#"{"prefix":"osd down","ids":["1"]}"#);
    let uuid = w.mon.osd.map.osd_uuid[1];
    w.boot(osds[1], 1, uuid);
    let up_from = w.mon.osd.map.osd_info[1].up_from;
    assert!(w.mon.osd.map.is_up(1) && up_from > m.epoch && m.target_addrs == w.mon.osd.map.client_addrs[1]);
    w.event(Event::Closed { conn: osds[1] });
    w.send(osds[0], &m);
    assert!(w.mon.osd.map.is_up(1), "that was before it came back");
    m.epoch = up_from;
    w.send(osds[0], &m);
    assert!(!w.mon.osd.map.is_up(1));
}

/// A monitor that has just started has heard nothing of OSDs that live.
#[test]
fn silence_since_the_monitors_start_is_no_proof() {
    let mut w = World::new();
    for id in 0..3 {
        w.osd(id);
    }
    w.restart();
    let reporters = ["osd.0", "osd.2"].map(|name| w.open(name, "allow profile osd"));
    w.now_ms += 60_000;
    let m = MOSDFailure {
        fsid: w.mon.options.fsid,
        target_osd: 1,
        target_addrs: w.mon.osd.map.client_addrs[1].clone(),
        flags: failure_flag::FAILED | failure_flag::IMMEDIATE,
        epoch: w.mon.osd.map.epoch,
        ..MOSDFailure::default()
    };
    w.send(reporters[0], &m);
    assert!(w.mon.osd.map.is_up(1), "one that it does not answer");
    w.send(reporters[1], &m);
    let (info, xinfo) = (w.mon.osd.map.osd_info[1], w.mon.osd.map.osd_xinfo[1]);
    assert!(!w.mon.osd.map.is_up(1) && xinfo.dead_epoch <= info.up_from, "two: it is down, and its leases count");
}

/// `mon_osd_min_up_ratio` and `mon_osd_min_in_ratio`: a cut network must not take the whole cluster down, nor its data out.
#[test]
fn enough_osds_stay_up_and_in() {
    let mut w = World::new();
    let osds: Vec<ConnId> = (0..4).map(|id| w.osd(id)).collect();
    let admin = w.open("client.admin", "allow *");
    let set = |w: &mut World, name: &str, value: &str| {
        w.ok(admin, &format!(r#"{{"prefix":"config set","who":"mon","name":"{name}","value":"{value}"}}"#));
    };
    set(&mut w, "mon_osd_min_up_ratio", "0.6");
    w.now_ms += 60_000;
    let refuses = |w: &mut World, target: i32| {
        let m = MOSDFailure {
            fsid: w.mon.options.fsid,
            target_osd: target,
            target_addrs: w.mon.osd.map.client_addrs[target as usize].clone(),
            flags: failure_flag::FAILED | failure_flag::IMMEDIATE,
            epoch: w.mon.osd.map.epoch,
            ..MOSDFailure::default()
        };
        w.event(Event::Closed { conn: osds[target as usize] });
        w.send(osds[0], &m);
    };
    for target in [1, 2, 3] {
        refuses(&mut w, target);
    }
    let is_up = |w: &World| [0, 1, 2, 3].map(|osd| w.mon.osd.map.is_up(osd));
    assert_eq!(is_up(&w), [true, false, false, true], "half of them is less than what must stay");
    w.now_ms += 1000;
    w.event(Event::Tick);
    assert!(w.mon.osd.map.is_up(3));
    // What was reported still holds when others are back.
    let uuid = w.mon.osd.map.osd_uuid[1];
    let back = w.open("osd.1", "allow profile osd");
    w.boot(back, 1, uuid);
    w.now_ms += 1000;
    w.event(Event::Tick);
    assert_eq!(is_up(&w), [true, true, false, false]);
    // Both have been down for long enough, in the same moment.
    set(&mut w, "mon_osd_min_in_ratio", "0.9");
    w.now_ms += 700_000;
    w.event(Event::Tick);
    assert_eq!(w.mon.osd.map.num_in(), 3, "one is marked out, then too few would be left");
}

/// Flags and snapshots make maps, but no new interval: a cluster that stays clean must not keep them all.
#[test]
fn a_cluster_that_stays_clean_keeps_no_old_maps() {
    let mut w = World::new();
    let osd = w.osd(0);
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    w.ok(admin, r#"{"prefix":"config set","who":"mon","name":"mon_min_osdmap_epochs","value":"5"}"#);
    let pgid = PgId::new(w.mon.osd.map.pool_by_name("p").unwrap(), 0);
    let clean_first = w.mon.osd.epoch();
    for _ in 0..20 {
        w.ok(admin, r#"{"prefix":"osd set","key":"noout"}"#);
        w.ok(admin, r#"{"prefix":"osd unset","key":"noout"}"#);
    }
    let epoch = w.mon.osd.epoch();
    w.send(osd, &MOSDBeacon { min_last_epoch_clean: epoch, ..MOSDBeacon::default() });
    for (state, first) in [(pg_state::ACTIVE, clean_first), (pg_state::ACTIVE | pg_state::CLEAN, epoch - 5)] {
        let stat = PgStat { state, last_epoch_clean: clean_first, ..w.stat(&[]) };
        w.mon.manager.pgs.report_pg(pgid, stat);
        w.now_ms += 1000;
        w.event(Event::Tick);
        assert_eq!(w.mon.osd.first_epoch(), first, "state {state:#x}");
    }
}

#[test]
fn commands_of_this_machine_are_for_the_monitor_itself() {
    let mut w = World::new();
    let mut ask = |id: u64, json: &str| {
        w.event(Event::Local { id, command: json.into() });
        w.local.remove(&id).unwrap()
    };
    let (code, _, out) = ask(1, r#"{"prefix":"config set","var":"mon_pg_warn_min_objects","val":["10K"]}"#);
    assert_eq!((code, out.contains("success")), (0, true));
    assert!(ask(2, r#"{"prefix":"config get","var":"mon_pg_warn_min_objects"}"#).2.contains("\"10000\""));
    assert_eq!(ask(3, r#"{"prefix":"config set","var":"mon_pg_warn_min_objects","val":["10F"]}"#).0, -22);
    assert_eq!(ask(4, r#"{"prefix":"injectargs","injected_args":["--mon-debug-deprecated-as-obsolete"]}"#).0, 0);
    let client = w.open("client.admin", "allow *");
    let (code, status, _) = w.command(client, r#"{"prefix":"config-key list"}"#);
    assert_eq!((code, status.contains("obsolete")), (-95, true));
    // What is the monitor's own is no cluster's command.
    assert_eq!(w.command(client, r#"{"prefix":"injectargs","injected_args":["--mon-lease 6"]}"#).0, -22);
    assert!(!w.mon.sessions.contains_key(&mon_core::LOCAL));
}

#[test]
fn what_is_no_command_says_so() {
    let mut w = World::new();
    let admin = w.open("client.admin", "allow *");
    let (result, status, _) = w.command(admin, r#"{"prefix":"osd make coffee"}"#);
    assert_eq!((result, status.as_str()), (-22, "command not known"));
    assert_eq!(w.command(admin, "not json").0, -22);
    assert_eq!(w.command(admin, r#"{"prefix":7}"#).0, -22);
    assert_eq!(w.command(admin, r#"{"prefix":"osd set","key":"coffee"}"#).0, -22);
    assert_eq!(w.command(admin, r#"{"prefix":"osd pool create"}"#).0, -22);
}

/// Commands of modules, as the `ceph` command line sends them by our descriptions and as programs send stock's.
#[test]
fn a_command_that_is_not_there_names_itself_and_the_way() {
    let mut w = World::new();
    let admin = w.open("client.admin", "allow *");
    let mgr = w.open_at(Endpoint::Mgr, "client.admin", AuthCapsInfo::all(), features::SUPPORTED);
    let described = w.ok(admin, r#"{"prefix":"get_command_descriptions"}"#);
    for words in [
        "balancer",
        "orch",
        "crash",
        "progress",
        "rbd task",
        "nfs",
        "telemetry",
        "fs subvolumegroup",
        "fs clone",
        "rbd perf image",
        "rbd mirror snapshot schedule",
        "rbd trash purge schedule",
        "fs snapshot mirror",
        "fs quiesce",
        "nvme-gw",
    ] {
        let spelled = serde_json::to_string(&words.split(' ').collect::<Vec<_>>()).unwrap();
        assert!(described.contains(spelled.trim_end_matches(']')), "{words} is described");
        for request in [format!(r#"{{"prefix":"{words}","args":["status"]}}"#), format!(r#"{{"prefix":"{words} status"}}"#)] {
            for (result, status, _) in [w.command(admin, &request), w.at_manager(mgr, false, &request)] {
                assert_eq!(result, -95, "{request}: {status}");
                assert!(status.contains(words) && status.contains("Here: "), "{status}");
            }
        }
    }
    let (result, status, _) = w.command(admin, r#"{"prefix":"mgr module enable","module":"prometheus"}"#);
    assert!(result == 0 && status.contains("/metrics"), "{result} {status}");
    let (result, status, _) = w.command(admin, r#"{"prefix":"osd erasure-code-profile set","name":"e","profile":["k=2","m=1"]}"#);
    assert!(result == 0 && status.contains("crush rule create-erasure"), "{result} {status}");
}

#[test]
fn a_pool_that_can_not_be_served_is_refused_by_name() {
    let mut w = World::new();
    let admin = w.open("client.admin", "allow *");
    let create = |pool: &str, kind: &str| format!(r#"{{"prefix":"osd pool create","pool":"{pool}","pg_num":8,"pool_type":"{kind}"}}"#);
    let (result, status, _) = w.command(admin, &create("coded", "erasure"));
    assert_eq!(result, -95, "{status}");
    assert!(status.contains("erasure codes") && status.contains("ceph osd pool create coded"), "{status}");
    w.ok(admin, &create("copies", "replicated"));
    assert_eq!(w.command(admin, &create("copies", "erasure")).0, -22);
    assert_eq!(w.ok(admin, r#"{"prefix":"osd pool ls"}"#).trim(), "copies");
}

#[test]
fn osds_go_down_and_out_and_come_back() {
    let mut w = World::new();
    let (a, b) = (w.osd(0), w.osd(1));
    let fsid = w.mon.options.fsid;
    w.now_ms += 60_000;
    let target_addrs = w.mon.osd.map.client_addrs[0].clone();
    let epoch = w.mon.osd.map.epoch;
    let failed =
        MOSDFailure { fsid, target_osd: 0, target_addrs, epoch, flags: failure_flag::FAILED, failed_for_s: 30, ..MOSDFailure::default() };
    w.send(b, &failed);
    assert!(!w.mon.osd.map.is_up(0), "of two OSDs on one host the other's word is enough");
    w.now_ms += 601_000;
    w.event(Event::Tick);
    assert!(w.mon.osd.map.is_out(0), "who stays down is marked out");
    let uuid = w.mon.osd.map.osd_uuid[0];
    w.boot(a, 0, uuid);
    assert!(w.mon.osd.map.is_up(0) && w.mon.osd.map.is_in(0), "and comes back in by itself");
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"osd out","ids":["0"]}"#);
    assert!(w.mon.osd.map.is_out(0));
    w.ok(admin, r#"{"prefix":"osd in","ids":["osd.0"]}"#);
    // Another disk with the same number is not let in.
    w.ok(admin, r#"{"prefix":"osd down","ids":["0"]}"#);
    w.boot(a, 0, Uuid::from_random([9; 16]));
    assert!(!w.mon.osd.map.is_up(0));
    w.ok(admin, r#"{"prefix":"osd purge","id":0,"yes_i_really_mean_it":true}"#);
    assert!(!w.mon.osd.map.exists(0) && !w.mon.osd.metadata.contains_key(&0));
}

#[test]
fn health_says_why_an_osd_is_down_for_as_long_as_it_is() {
    let mut w = World::new();
    let osd = w.osd(0);
    let admin = w.open("client.admin", "allow *");
    let detail = |w: &mut World| w.ok(admin, r#"{"prefix":"health","detail":"detail","format":"json"}"#);
    let up_from = w.mon.osd.map.osd_info[0].up_from;
    let note = |up_from: u32| format!(r#"{{"prefix":"config-key set","key":"osd-down/0","val":"{up_from} its folder is gone\u001b"}}"#);
    w.ok(admin, &note(up_from));
    assert!(!detail(&mut w).contains("its folder is gone"), "it is up");
    w.ok(admin, r#"{"prefix":"osd down","ids":["0"]}"#);
    let said = detail(&mut w);
    assert!(said.contains("is down: its folder is gone \""), "no control characters: {said}");
    let uuid = w.mon.osd.map.osd_uuid[0];
    w.boot(osd, 0, uuid);
    w.ok(admin, r#"{"prefix":"osd down","ids":["0"]}"#);
    let said = detail(&mut w);
    assert!(said.contains("is down\"") && !said.contains("its folder is gone"), "that was another time: {said}");
}

/// Without a keeper the OSD says it itself, with its last line for the cluster log.
#[test]
fn health_has_the_last_words_of_an_osd() {
    let mut w = World::new();
    let osd = w.osd(0);
    let admin = w.open("client.admin", "allow *");
    let detail = |w: &mut World| w.ok(admin, r#"{"prefix":"health","detail":"detail","format":"json"}"#);
    let fsid = w.mon.options.fsid;
    let say = |w: &mut World, conn, text: &str| {
        let entry = LogEntry { seq: 1, text: text.as_bytes().to_vec().into(), ..LogEntry::default() };
        w.send(conn, &MLog { fsid, entries: vec![entry], ..MLog::default() });
    };
    say(&mut w, osd, "a line like any other");
    say(&mut w, osd, "leaves the cluster: its disk hangs. Look at dmesg");
    say(&mut w, admin, "leaves the cluster: a client is no OSD");
    w.ok(admin, r#"{"prefix":"osd down","ids":["0"]}"#);
    let said = detail(&mut w);
    assert!(said.contains("is down: its disk hangs. Look at dmesg\""), "{said}");
    let uuid = w.mon.osd.map.osd_uuid[0];
    w.boot(osd, 0, uuid);
    w.ok(admin, r#"{"prefix":"osd down","ids":["0"]}"#);
    assert!(detail(&mut w).contains("is down\""), "that was another time");
}

#[test]
fn full_pools_are_marked() {
    let mut w = World::new();
    let osd = w.osd(0);
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#);
    let id = w.mon.osd.map.pool_by_name("p").unwrap();
    w.send(osd, &MOSDFull { state: maps::osd_state::FULL, ..MOSDFull::default() });
    assert!(w.mon.osd.map.pools[&id].has(pool_flags::FULL));
    w.send(osd, &MOSDFull { state: maps::osd_state::NEARFULL, ..MOSDFull::default() });
    assert_eq!(w.mon.osd.map.pools[&id].flags & (pool_flags::FULL | pool_flags::NEARFULL), pool_flags::NEARFULL);
    w.send(osd, &MOSDFull::default());
    assert!(!w.mon.osd.map.pools[&id].has(pool_flags::NEARFULL));
    // A quota does the same.
    w.ok(admin, r#"{"prefix":"osd pool set-quota","pool":"p","field":"max_objects","val":"1"}"#);
    let mut stat = w.stat(&[]);
    stat.stats.sum.num_objects = 1;
    let endpoint = w.open_at(Endpoint::Mgr, "osd.0", AuthCapsInfo::all(), features::SUPPORTED);
    let fsid = w.mon.options.fsid;
    w.send(endpoint, &MPGStats { fsid, pg_stat: [(PgId::new(id, 0), stat)].into(), ..MPGStats::default() });
    w.event(Event::Tick);
    assert!(w.mon.osd.map.pools[&id].has(pool_flags::FULL) && w.mon.osd.map.pools[&id].has(pool_flags::FULL_QUOTA));
}

#[test]
fn settings_reach_whom_they_are_for() {
    let mut w = World::new();
    let (osd, client) = (w.open("osd.0", "allow profile osd"), w.open("client.x", "allow r"));
    for c in [osd, client] {
        w.subscribe(c, "config", 0, 0);
        assert_eq!(w.take::<MConfig>(c).len(), 1);
    }
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"config set","who":"osd","name":"osd_heartbeat_grace","value":"21"}"#);
    assert_eq!(w.take::<MConfig>(osd).pop().unwrap().config["osd_heartbeat_grace"], "21");
    assert!(w.take::<MConfig>(client).is_empty());
    assert_eq!(w.command(admin, r#"{"prefix":"config set","who":"osd","name":"no_such_option","value":"1"}"#).0, -22);
    w.restart();
    assert_eq!(w.mon.config.value(&EntityText::parse("osd.7").unwrap(), "osd_heartbeat_grace"), "21");
}

#[test]
fn log_subscribers_hear_of_what_happens() {
    let mut w = World::new();
    let c = w.open("client.w", "allow r");
    w.subscribe(c, "log-info", 0, 0);
    assert!(w.take::<MLog>(c).is_empty(), "what was before is not news");
    w.osd(0);
    let heard: Vec<_> = w.take::<MLog>(c).into_iter().flat_map(|m| m.entries).collect();
    assert!(heard.iter().any(|e| e.text.to_lossy().contains("osd.0") && e.text.to_lossy().contains("boot")));
}

/// Every kind of message, whole, cut and with bits turned, at both endpoints: some connections end, the monitor doesn't.
#[test]
fn damaged_messages_harm_nobody() {
    let mut w = World::new();
    w.osd(0);
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":2}"#);
    let mut rng = Rng::new(11);
    let fsid = w.mon.options.fsid;
    let f = features::SUPPORTED;
    let samples: Vec<RawMessage> = vec![
        MMonSubscribe { what: [("osdmap".to_string(), SubscribeItem::default())].into(), hostname: "h".into() }.encode(f),
        MMonCommand { fsid, cmd: vec![r#"{"prefix":"status","format":"json"}"#.into()], ..MMonCommand::default() }.encode(f),
        MMonGetVersion { handle: 1, what: "osdmap".into() }.encode(f),
        MPoolOp { fsid, pool: 1, op: pool_op::CREATE_UNMANAGED_SNAP, ..MPoolOp::default() }.encode(f),
        MStatfs { fsid, data_pool: Some(1), ..MStatfs::default() }.encode(f),
        MGetPoolStats { fsid, pools: vec!["p".into(), "none".into()], ..MGetPoolStats::default() }.encode(f),
        MOSDBoot::default().encode(f),
        MOSDAlive { want: 7, ..MOSDAlive::default() }.encode(f),
        MOSDBeacon::default().encode(f),
        MOSDFailure { fsid, target_osd: 9, ..MOSDFailure::default() }.encode(f),
        MOSDPGTemp { pg_temp: [(PgId::new(1, 0), vec![0, 7])].into(), ..MOSDPGTemp::default() }.encode(f),
        MOSDPGReadyToMerge { pgid: PgId::new(1, 1), ..MOSDPGReadyToMerge::default() }.encode(f),
        MPGStats { fsid, pg_stat: [(PgId::new(1, 0), w.stat(&[]))].into(), ..MPGStats::default() }.encode(f),
        MMgrReport { daemon_name: "0".into(), ..MMgrReport::default() }.encode(f),
        MMgrOpen { daemon_name: "0".into(), ..MMgrOpen::default() }.encode(f),
        MMgrBeacon { fsid, name: "y".into(), gid: 3, ..MMgrBeacon::default() }.encode(f),
        MLog { fsid, entries: vec![LogEntry::default()], ..MLog::default() }.encode(f),
        MAuth::default().encode(f),
        MGetConfig { name: EntityText::parse("client.a").unwrap(), ..MGetConfig::default() }.encode(f),
        MMonGetOSDMap { full_first: 1, full_last: u32::MAX, inc_last: u32::MAX, ..MMonGetOSDMap::default() }.encode(f),
        MMonGetPurgedSnaps { start: 0, last: u32::MAX, ..MMonGetPurgedSnaps::default() }.encode(f),
    ];
    for round in 0..1500 {
        let mut message = samples[rng.below(samples.len() as u64) as usize].clone();
        let mut front = message.front.to_vec();
        if round % 3 == 1 {
            front.truncate(rng.below(front.len() as u64 + 1) as usize);
        } else if round % 3 == 2 && !front.is_empty() {
            for _ in 0..=rng.below(4) {
                let at = rng.below(front.len() as u64) as usize;
                front[at] ^= 1 << rng.below(8);
            }
        }
        message.front = Bytes::from(front);
        let endpoint = if rng.chance(1, 2) { Endpoint::Mon } else { Endpoint::Mgr };
        let name = ["osd.0", "client.admin", "mgr.y"][rng.below(3) as usize];
        let conn = w.open_at(endpoint, name, AuthCapsInfo::all(), f);
        w.event(Event::Message { conn, message });
        w.event(Event::Closed { conn });
        if round % 100 == 0 {
            w.event(Event::Tick);
        }
    }
    assert_eq!(w.command(admin, r#"{"prefix":"fsid"}"#).0, 0);
    w.restart();
}

/// `auth rotate` and `auth rm`: what was opened with the key of before is over.
#[test]
fn sessions_end_with_the_key_that_opened_them() {
    let mut w = World::new();
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"auth get-or-create","entity":"client.x","caps":["mon","allow r"]}"#);
    let is_closed = |w: &World, conn: ConnId| w.sent.get(&conn).is_some_and(|all| all.iter().any(|m| m.kind == 0xffff));
    for command in ["auth rotate", "auth rm"] {
        let (at_mon, at_mgr) =
            (w.open("client.x", "allow r"), w.open_at(Endpoint::Mgr, "client.x", AuthCapsInfo::all(), features::SUPPORTED));
        let other = w.open("client.y", "allow r");
        // Capabilities alone end nothing.
        w.ok(admin, r#"{"prefix":"auth caps","entity":"client.x","caps":["mon","allow r"]}"#);
        assert!(!is_closed(&w, at_mon));
        w.ok(admin, &format!(r#"{{"prefix":"{command}","entity":"client.x"}}"#));
        assert_eq!([at_mon, at_mgr, other, admin].map(|conn| is_closed(&w, conn)), [true, true, false, false], "{command}");
    }
    // An entity that changes its own key hears the new one.
    let other = w.open("client.admin", "allow *");
    w.ok(admin, r#"{"prefix":"auth rotate","entity":"client.admin"}"#);
    assert!(!is_closed(&w, admin) && is_closed(&w, other));
}

/// `network` in a capability: the socket's address counts, not the one that the peer says.
#[test]
fn networks_of_capabilities_are_the_sockets() {
    let mut w = World::new();
    let (near, far) = (addr("v2:10.0.0.7:0/9"), addr("v2:192.168.7.7:0/9"));
    for (n, (says, from, good)) in [(&near, &near, true), (&far, &near, true), (&near, &far, false)].into_iter().enumerate() {
        let conn = ConnId(90_000 + n as u64);
        let peer = PeerInfo {
            entity: EntityText::parse("client.x").unwrap(),
            global_id: conn.0,
            caps: AuthCapsInfo::from_text("allow r network 10.0.0.0/8"),
            addrs: says.clone(),
            from: from.front(),
            features: features::SUPPORTED,
            handshake: Handshake::default(),
        };
        w.event(Event::Open { conn, endpoint: Endpoint::Mon, peer: Box::new(peer) });
        let result = w.command(conn, r#"{"prefix":"status"}"#).0;
        assert_eq!(result, if good { 0 } else { -13 }, "says {says}, comes from {from}");
    }
}

/// Payloads that no client sends, at both endpoints and for both methods: refused, and nothing worse.
#[test]
fn damaged_handshakes_are_refused() {
    let mut w = World::new();
    let mut rng = Rng::new(23);
    let login = cephx::proto::MonLogin { name: EntityText::parse("client.admin").unwrap(), global_id: 0 }.to_bytes(0);
    for round in 0..3000u64 {
        let mut state = Handshake::default();
        for step in 0..3 {
            let mut payload = if step == 0 && round % 2 == 0 { login.to_vec() } else { vec![0; rng.below(200) as usize] };
            if step > 0 || round % 2 == 1 {
                rng.fill(&mut payload);
            }
            if let Some(first) = payload.first_mut()
                && round % 5 == 1
            {
                *first = [1, 10, 0][rng.below(3) as usize];
            }
            let endpoint = if round % 3 == 0 { Endpoint::Mgr } else { Endpoint::Mon };
            let secret_len = [0, 64][rng.below(2) as usize];
            let mut effects = Vec::new();
            let step = w.mon.handshake(endpoint, &mut state, 2, &payload.into(), secret_len, clock(w.now_ms), &mut effects);
            assert!(!matches!(step, mon_core::Step::Done(_)), "nobody gets in by chance");
        }
    }
    // A name that there is not is refused as a wrong key is, and no sooner.
    let mut wrong = denc::Encoder::new(0);
    wrong.u16(cephx::proto::GET_AUTH_SESSION_KEY);
    cephx::proto::Authenticate { client_challenge: 7, ..Default::default() }.encode(&mut wrong);
    let wrong = wrong.finish();
    for name in ["client.admin", "client.nobody"] {
        let who = cephx::proto::MonLogin { name: EntityText::parse(name).unwrap(), global_id: 0 }.to_bytes(0);
        let mut state = Handshake::default();
        let mut step = |payload| w.mon.handshake(Endpoint::Mon, &mut state, 2, payload, 0, clock(9), &mut Vec::new());
        assert!(matches!(step(&who), mon_core::Step::More(_)), "{name}");
        assert_eq!(step(&wrong), mon_core::Step::Bad(13), "{name}");
    }
}

/// Every command that we have, with its required parameters filled at random: none may panic, whatever it answers.
#[test]
fn every_command_answers() {
    let mut w = World::new();
    w.osd(0);
    let admin = w.open("client.admin", "allow *");
    let mgr = w.open_at(Endpoint::Mgr, "client.admin", AuthCapsInfo::all(), features::SUPPORTED);
    w.ok(admin, r#"{"prefix":"osd pool create","pool":"p","pg_num":2}"#);
    let table: serde_json::Value = serde_json::from_str(&w.ok(admin, r#"{"prefix":"get_command_descriptions"}"#)).unwrap();
    let mut rng = Rng::new(5);
    let fsid = w.mon.options.fsid;
    for row in table.as_object().unwrap().values() {
        for round in 0..6 {
            let mut request = serde_json::Map::new();
            let words: Vec<&str> = row["sig"].as_array().unwrap().iter().filter_map(|s| s.as_str()).collect();
            request.insert("prefix".into(), words.join(" ").into());
            request.insert("format".into(), ["json", "plain", "json-pretty"][round % 3].into());
            for param in row["sig"].as_array().unwrap().iter().filter(|p| p.is_object()) {
                if param["req"] == false && rng.chance(1, 2) {
                    continue;
                }
                let word =
                    ["0", "osd.0", "p", "1.0", "client.admin", "17", "-1", "x=y", "default", "1.2.3.4:0/0", ""][rng.below(11) as usize];
                let value = match param["strings"].as_str() {
                    Some(choices) => choices.split('|').nth(rng.below(3) as usize).unwrap_or("0").into(),
                    None if param["type"] == "CephBool" => true.into(),
                    None => serde_json::Value::from(word),
                };
                let value = if param["n"] == "N" { vec![value].into() } else { value };
                request.insert(param["name"].as_str().unwrap().into(), value);
            }
            let text = serde_json::Value::Object(request).to_string();
            let conn = if rng.chance(1, 2) { admin } else { mgr };
            if conn == admin {
                w.send(conn, &MMonCommand { fsid, cmd: vec![text.clone()], ..MMonCommand::default() });
                assert_eq!(w.take::<MMonCommandAck>(conn).len(), 1, "{text}");
            } else {
                w.send(conn, &MMgrCommand { fsid, cmd: vec![text.clone()], ..MMgrCommand::default() });
                assert_eq!(w.take::<MMgrCommandReply>(conn).len(), 1, "{text}");
            }
        }
    }
    w.restart();
}

/// A world with OSDs 0 and 1 and a pool `p` of so many groups, all made and clean on `on(seed)`.
fn pool_of(pg_num: u32, on: impl Fn(u32) -> i32) -> (World, ConnId, i64) {
    let mut w = World::new();
    let osds = [w.osd(0), w.osd(1)];
    let admin = w.open("client.admin", "allow *");
    w.ok(admin, &format!(r#"{{"prefix":"osd pool create","pool":"p","pg_num":{pg_num}}}"#));
    let id = w.mon.osd.map.pool_by_name("p").unwrap();
    for seed in 0..pg_num {
        w.send(osds[0], &MOSDPGCreated { pgid: PgId::new(id, seed), ..MOSDPGCreated::default() });
    }
    for seed in 0..pg_num {
        report(&mut w, id, seed, on(seed));
    }
    (w, admin, id)
}
/// What the group's OSD says: it is there, and clean.
fn report(w: &mut World, pool: i64, seed: u32, osd: i32) {
    let mut stat = w.stat(&[]);
    (stat.up, stat.acting) = (vec![osd], vec![osd]);
    w.mon.manager.pgs.report_pg(PgId::new(pool, seed), stat);
}
/// pg_num, pg_num_pending, pg_num_target, pgp_num, pgp_num_target.
fn numbers(w: &World, pool: i64) -> [u32; 5] {
    let p = &w.mon.osd.map.pools[&pool];
    [p.pg_num, p.pg_num_pending, p.pg_num_target, p.pgp_num, p.pgp_num_target]
}

#[test]
fn a_pool_of_several_osds_shrinks_one_merge_at_a_time() {
    let (mut w, admin, id) = pool_of(4, |_| 0);
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"2"}"#);
    assert_eq!(numbers(&w, id), [4, 4, 2, 4, 2], "a wish changes nothing by itself");
    let mut seen = Vec::new();
    for _ in 0..4 {
        w.event(Event::Tick);
        seen.push(numbers(&w, id));
    }
    assert_eq!(
        seen,
        [[4, 4, 2, 3, 2], [4, 3, 2, 3, 2], [4, 3, 2, 3, 2], [4, 3, 2, 3, 2]],
        "places first, then one group, which has to get quiet"
    );
    let ready = |w: &mut World, seed, ready| {
        let osd = w.open("osd.0", "allow profile osd");
        let paxos = messages::Paxos::at(w.mon.osd.epoch().into());
        w.send(osd, &MOSDPGReadyToMerge { paxos, pgid: PgId::new(id, seed), ready, ..MOSDPGReadyToMerge::default() });
    };
    let osd = w.open("osd.0", "allow profile osd");
    w.send(osd, &MOSDPGReadyToMerge { pgid: PgId::new(id, 3), ready: true, ..MOSDPGReadyToMerge::default() });
    assert_eq!(numbers(&w, id)[..2], [4, 3], "what was said of an earlier attempt counts no more");
    ready(&mut w, 3, false);
    assert_eq!(numbers(&w, id), [4, 4, 2, 3, 2], "a group that can't takes the step back");
    w.event(Event::Tick);
    ready(&mut w, 3, true);
    assert_eq!(numbers(&w, id)[..2], [3, 3]);
    for _ in 0..3 {
        w.event(Event::Tick);
    }
    ready(&mut w, 2, true);
    w.event(Event::Tick);
    assert_eq!(numbers(&w, id), [2, 2, 2, 2, 2]);
}

#[test]
fn groups_on_different_osds_are_not_merged_and_the_log_says_so() {
    let (mut w, admin, id) = pool_of(4, |seed| i32::from(seed == 3));
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"2"}"#);
    for _ in 0..5 {
        w.event(Event::Tick);
    }
    assert_eq!(numbers(&w, id), [4, 4, 2, 3, 2]);
    let said = w.mon.log.since(0).filter(|e| e.text.as_slice().windows(14).any(|t| t == b"waits to be me")).count();
    assert_eq!(said, 1, "it is said once");
    // Not while one of them is anything but clean, either.
    report(&mut w, id, 3, 0);
    let mut stat = w.stat(&[]);
    (stat.acting, stat.state) = (vec![0], pg_state::ACTIVE);
    w.mon.manager.pgs.report_pg(PgId::new(id, 1), stat);
    w.event(Event::Tick);
    assert_eq!(numbers(&w, id), [4, 4, 2, 3, 2]);
    report(&mut w, id, 1, 0);
    w.event(Event::Tick);
    assert_eq!(numbers(&w, id), [4, 3, 2, 3, 2]);
}

#[test]
fn places_of_groups_change_step_by_step_while_all_is_well() {
    let (mut w, admin, id) = pool_of(4, |_| 0);
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"pgp_num","val":"2"}"#);
    assert_eq!(numbers(&w, id), [4, 4, 4, 4, 2]);
    let mut stat = w.stat(&[]);
    stat.state = 0;
    w.mon.manager.pgs.report_pg(PgId::new(id, 1), stat);
    w.event(Event::Tick);
    assert_eq!(numbers(&w, id)[3], 4, "not while a group is unheard of");
    report(&mut w, id, 1, 0);
    w.event(Event::Tick);
    assert_eq!(numbers(&w, id)[3], 3);
    w.event(Event::Tick);
    w.event(Event::Tick);
    assert_eq!(numbers(&w, id), [4, 4, 4, 2, 2]);
    let set = |w: &mut World, var: &str, val: u32| {
        w.command(admin, &format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#))
    };
    assert_eq!(set(&mut w, "pgp_num", 5), (-22, "specified pgp_num 5 > pg_num 4".into(), String::new()));
    assert_eq!(set(&mut w, "pg_num_actual", 2).1, "specified pg_num 2 < pg_num (4) - 1; only single pg decrease is currently supported");
    assert_eq!(set(&mut w, "pgp_num_actual", 4).0, 0);
    assert_eq!(set(&mut w, "pg_num_actual", 3).1, "specified pg_num 3 < pgp_num 4");
}

#[test]
fn no_more_groups_than_the_limit_that_was_set_for_all() {
    let (mut w, admin, _) = pool_of(4, |_| 0);
    w.ok(admin, r#"{"prefix":"config set","who":"global","name":"mon_max_pg_per_osd","value":"10"}"#);
    let (result, why, _) = w.command(admin, r#"{"prefix":"osd pool create","pool":"q","pg_num":17}"#);
    let shape = "for this pool would result in 10 cumulative PGs per OSD (21 total PG replicas on 2 'in' root OSDs by crush rule) which exceeds the \
                 mon_max_pg_per_osd value of 10";
    assert_eq!((result, why), (-34, format!(" pg_num 17 size 1 {shape}")));
    let (result, why, _) = w.command(admin, r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"21"}"#);
    assert_eq!((result, why), (-34, format!("pool id 1 pg_num 21 size 1 {shape}")));
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"20"}"#);
}

#[test]
fn an_osd_with_newer_maps_is_not_taken_in() {
    let mut w = World::new();
    let conn = w.osd(0);
    let newest = w.mon.osd.epoch();
    w.send(conn, &MOSDMarkMeDown { fsid: w.mon.options.fsid, target_osd: 0, ..MOSDMarkMeDown::default() });
    let mut boot = MOSDBoot { osd_features: features::SUPPORTED, ..MOSDBoot::default() };
    (boot.superblock.cluster_fsid, boot.superblock.osd_fsid) = (w.mon.options.fsid, Uuid::from_random([100; 16]));
    boot.superblock.newest_map = newest + 50;
    let conn = w.open("osd.0", "allow profile osd");
    (boot.cluster_addrs, boot.hb_back_addrs, boot.hb_front_addrs) =
        (addr("v2:127.0.0.1:1/9"), addr("v2:127.0.0.1:2/9"), addr("v2:127.0.0.1:3/9"));
    let was = w.mon.osd.map.client_addrs[0].clone();
    w.send(conn, &boot);
    assert_eq!(w.mon.osd.map.client_addrs[0], was, "a monitor that was rolled back does not take it");
    boot.superblock.newest_map = w.mon.osd.epoch();
    w.send(conn, &boot);
    assert_ne!(w.mon.osd.map.client_addrs[0], was);
}

#[test]
fn a_client_that_asked_once_hears_of_each_osd_that_comes_back() {
    let mut w = World::new();
    w.osd(0);
    w.osd(1);
    w.restart();
    // The client of before the restart asks for what comes next, one time.
    let client = w.open("client.admin", "allow *");
    let next = u64::from(w.mon.osd.epoch()) + 1;
    w.subscribe(client, "osdmap", next, 1);
    let mut known = w.mon.osd.epoch();
    for id in 0..2 {
        let conn = w.open(&format!("osd.{id}"), "allow profile osd");
        w.boot(conn, id, Uuid::from_random([id as u8 + 100; 16]));
        let told: Vec<MOSDMap> = w.take(client);
        known = told.iter().filter_map(|m| m.range()).map(|(_, last)| last).max().unwrap_or(known);
        assert_eq!(known, w.mon.osd.epoch(), "osd.{id} is elsewhere now, and the client knows");
    }
}

#[test]
fn groups_of_our_osds_move_as_pgp_num_goes() {
    let (mut w, admin, id) = pool_of(16, |_| 0);
    for osd in 0..2 {
        w.mon.osd.metadata.insert(osd, [("ceph_version".to_string(), "ceph version 18.2.7 (humboldt 0.1.0) reef".to_string())].into());
    }
    let places = |w: &World| {
        let mut work = maps::Placement::default();
        (0..16).map(|seed| w.mon.osd.map.pg_to_up_acting(PgId::new(id, seed), &mut work).up).collect::<Vec<_>>()
    };
    let before = places(&w);
    w.ok(admin, r#"{"prefix":"osd pool set","pool":"p","var":"pgp_num","val":"1"}"#);
    for _ in 0..40 {
        w.event(Event::Tick);
    }
    let [_, _, _, pgp_num, target] = numbers(&w, id);
    assert_eq!((pgp_num, target), (1, 1));
    assert_ne!(places(&w), before, "groups that were apart are together");
}

#[test]
fn slow_requests_show_in_health_and_go() {
    let mut w = World::new();
    w.osd(0);
    w.osd(1);
    let admin = w.open("client.admin", "allow *");
    let slow = |w: &mut World| -> Option<String> {
        w.event(Event::Tick);
        let json = w.ok(admin, r#"{"prefix":"health","format":"json"}"#);
        let health: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        health["checks"]["SLOW_OPS"]["summary"]["message"].as_str().map(String::from)
    };
    let sessions: Vec<ConnId> =
        (0..2).map(|id| w.open_at(Endpoint::Mgr, &format!("osd.{id}"), AuthCapsInfo::from_text("allow *"), features::SUPPORTED)).collect();
    let report = |w: &mut World, id: usize, count: u64, oldest_s: u64| {
        let health = vec![DaemonHealthMetric { kind: 0, value: oldest_s << 32 | count }, DaemonHealthMetric { kind: 1, value: 0 }];
        w.send(sessions[id], &MMgrReport { daemon_name: id.to_string(), health, ..MMgrReport::default() });
    };
    for (id, conn) in sessions.iter().enumerate() {
        w.send(*conn, &MMgrOpen { daemon_name: id.to_string(), ..MMgrOpen::default() });
        report(&mut w, id, 0, 0);
    }
    assert_eq!(slow(&mut w), None);
    report(&mut w, 0, 3, 40);
    assert_eq!(slow(&mut w).as_deref(), Some("3 slow ops, oldest one blocked for 40 sec, osd.0 has slow ops"));
    report(&mut w, 1, 2, 31);
    assert_eq!(slow(&mut w).as_deref(), Some("5 slow ops, oldest one blocked for 40 sec, daemons [osd.0,osd.1] have slow ops."));
    report(&mut w, 0, 0, 0);
    assert_eq!(slow(&mut w).as_deref(), Some("2 slow ops, oldest one blocked for 31 sec, osd.1 has slow ops"));
    report(&mut w, 1, 0, 0);
    assert_eq!(slow(&mut w), None);

    // A loop that stands reports nothing: its silence is a slow request once it has lasted as long as one may.
    for (after_s, seen) in [(20, None), (11, Some("1 slow ops, oldest one blocked for 31 sec, osd.0 has slow ops"))] {
        w.now_ms += after_s * 1000;
        report(&mut w, 1, 0, 0);
        assert_eq!(slow(&mut w).as_deref(), seen, "{after_s} s later");
    }
    report(&mut w, 0, 0, 0);
    assert_eq!(slow(&mut w), None);
    // One whose session has ended is not slow: that it is down is another check's to say.
    w.now_ms += 60_000;
    report(&mut w, 1, 0, 0);
    w.event(Event::Closed { conn: sessions[0] });
    assert_eq!(slow(&mut w), None);
}

/// What a daemon goes by is what it reports; of the monitor, what it was told.
#[test]
fn a_daemons_configuration_is_shown() {
    let mut w = World::new();
    let admin = w.open("client.admin", "allow *");
    let mgr = w.open_at(Endpoint::Mgr, "client.admin", AuthCapsInfo::all(), features::SUPPORTED);
    let osd = w.open_at(Endpoint::Mgr, "osd.0", AuthCapsInfo::all(), features::SUPPORTED);
    let mut e = denc::Encoder::new(features::SUPPORTED);
    e.count(1);
    "osd_heartbeat_grace".to_string().encode(&mut e);
    e.count(2);
    for (source, value) in [(1, "30"), (5, "40")] {
        e.i32(source);
        value.to_string().encode(&mut e);
    }
    e.count(0);
    w.send(osd, &MMgrOpen { daemon_name: "0".into(), config: e.finish(), ..MMgrOpen::default() });
    let ask = |w: &mut World, json: &str| w.at_manager(mgr, false, json);
    let rows = ask(&mut w, r#"{"prefix":"config show","who":"osd.0","format":"json"}"#).2;
    assert_eq!(
        rows.trim(),
        r#"[{"name":"osd_heartbeat_grace","value":"40","source":"override","overrides":[{"source":"mon","value":"30"}]}]"#
    );
    let (_, _, table) = ask(&mut w, r#"{"prefix":"config show","who":"osd.0"}"#);
    assert!(table.contains("NAME") && table.contains("override  mon[30]"), "{table}");
    assert_eq!(ask(&mut w, r#"{"prefix":"config show","who":"osd.0","key":"osd_heartbeat_grace"}"#).2, "40\n");
    assert_eq!(ask(&mut w, r#"{"prefix":"config show","who":"osd.0","key":"osd_heartbeat_interval"}"#).2, "6\n");
    let all = ask(&mut w, r#"{"prefix":"config show-with-defaults","who":"osd.0","format":"json"}"#).2;
    let all: Vec<serde_json::Value> = serde_json::from_str(&all).unwrap();
    assert!(all.len() > 1800 && all.iter().any(|row| row["name"] == "rgw_thread_pool_size" && row["source"] == "default"));
    w.ok(admin, r#"{"prefix":"config set","who":"mon","name":"mgr_tick_period","value":"2m"}"#);
    assert!(ask(&mut w, r#"{"prefix":"config show","who":"mon.a"}"#).2.contains("mgr_tick_period"));
    assert_eq!(w.mon.config.mon_number("mgr_tick_period"), 120.0);
    for (who, result) in [("osd.7", -2), ("client.x", -2), ("osd", -22)] {
        assert_eq!(ask(&mut w, &format!(r#"{{"prefix":"config show","who":"{who}"}}"#)).0, result, "{who}");
    }
    // Of gateways, mirrors and clients, too; within bounds, and nothing that there isn't.
    for (name, value, result) in [
        ("rgw_thread_pool_size", "512", 0),
        ("rbd_mirror_concurrent_image_syncs", "5", 0),
        ("osd_heartbeat_interval", "61", -22),
        ("osd_pool_default_size", "11", -22),
        ("rgw_no_such_option", "1", -22),
    ] {
        let set = format!(r#"{{"prefix":"config set","who":"client","name":"{name}","value":"{value}"}}"#);
        assert_eq!(w.command(admin, &set).0, result, "{name} {value}");
    }
}
