//! Objects that are not a group's, wherever they come from: a request that claims to have none, a write of a primary, what recovery brings. Nothing ends,
//! nothing of it happens, and nobody else hears of it.

use crate::cluster::{Cluster, POOL};
use crate::world::{Kind, World, received, watch, write_full};
use bytes::Bytes;
use denc::Denc;
use disk::MemDisks;
use messages::osd_recovery::PushOp;

use messages::{
    By, InOp, MOSDMap, MOSDOp, MOSDPGPush, MOSDPGRecoveryDelete, MOSDPGUpdateLogMissing, MOSDRepOp, Message, RawMessage, kind_name,
};
#[cfg(debug_assertions)]
use osd_core::planted::{Bug, plant};
use osd_core::{ConnId, Effect, Event, Level};
use store_block::{BlockStore, Config};
use types::osd_op::{CallArgs, OpCode, PglsArgs, osd_flag, watch_op};
use types::{CEPH_NOSNAP, CollId, EVersion, GHObject, HObject, LogOp, OsdOp, PgId, PgLogEntry, PgShard, SpgId, Transaction, features};

const GROUP: SpgId = SpgId::whole(PgId::new(POOL, 0));

/// On a store that ends at an object that lies elsewhere.
fn on_devices() -> World {
    let disks = MemDisks::new(&[256 << 20, 64 << 20, 128 << 20]);
    BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
    World::over(Box::new(BlockStore::open(Config { memory: 64 << 20, ..Config::default() }, Box::new(disks)).expect("it opens")), 2)
}

fn of(code: OpCode) -> Vec<InOp> {
    vec![InOp::new(OsdOp::new(code), Bytes::new())]
}
fn call(class: &str, method: &str) -> Vec<InOp> {
    let args = CallArgs { class_len: class.len() as u8, method_len: method.len() as u8, argc: 0, indata_len: 0 };
    vec![InOp::new(OsdOp::with_call(OpCode::CALL, args), [class, method].concat().into())]
}

/// Requests to a group with the hash of an object of another one: dropped, as those that came to the wrong place. The flag PGOP changes nothing of it.
fn a_hash_of_another_group_is_refused(mut w: World) {
    let cases = [
        vec![write_full(b"x")],
        of(OpCode::CREATE),
        of(OpCode::DELETE),
        of(OpCode::STAT),
        of(OpCode::OMAPCLEAR),
        call("version", "read"),
        vec![watch(watch_op::WATCH, 1)],
        vec![InOp::new(OsdOp::range(OpCode::READ, 0, 0), Bytes::new())],
    ];
    for ops in cases {
        for flag in [0, osd_flag::PGOP, osd_flag::PGOP | osd_flag::RWORDERED] {
            let mut m = w.request("bad", ops.clone());
            m.hobj.hash ^= 1;
            m.flags |= flag;
            assert!(w.send(1, &m).is_empty(), "{:?} with flags {flag:x} is answered", ops[0].op.code);
            assert!(!w.out.iter().any(|e| matches!(e, Effect::Stop { .. })), "{:?} with flags {flag:x} ends the OSD", ops[0].op.code);
        }
    }
    assert_eq!(w.write("good", b"data").result, 0);
    assert_eq!(w.read("good").unwrap(), b"data");
    // A listing has no object: it is answered, and finds nothing where its hash lies elsewhere.
    let start = HObject::min().to_bytes(0);
    let mut m = w.request("", vec![InOp::new(OsdOp::with_pgls(OpCode::PGNLS, PglsArgs { count: 10, start_epoch: 0 }), start)]);
    m.flags |= osd_flag::PGOP;
    m.hobj.hash ^= 1;
    assert_eq!(w.send(1, &m).iter().map(|r| (r.result, r.ops[0].outdata.len())).collect::<Vec<_>>(), [(0, 0)]);
}

#[test]
fn no_flag_brings_an_object_into_another_group() {
    a_hash_of_another_group_is_refused(World::new(Kind::Memory, 2));
    a_hash_of_another_group_is_refused(on_devices());
    #[cfg(debug_assertions)]
    assert!(is_noticed(Bug::TrustPgop, || a_hash_of_another_group_is_refused(on_devices())));
}

#[cfg(debug_assertions)]
fn is_noticed(bug: Bug, f: impl FnOnce()) -> bool {
    plant(Some(bug));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
    plant(None);
    result.is_err()
}

/// The second line: were such a request admitted, its change would be refused before it is given to any store.
#[cfg(debug_assertions)]
#[test]
fn a_change_of_another_groups_object_is_no_change() {
    plant(Some(Bug::TrustPgop));
    let mut w = on_devices();
    let mut m = w.request("bad", vec![write_full(b"x")]);
    m.hobj.hash ^= 1;
    m.flags |= osd_flag::PGOP;
    assert_eq!(w.send(1, &m).iter().map(|r| r.result).collect::<Vec<_>>(), [-types::errno::EINVAL]);
    plant(None);
    assert!(!w.out.iter().any(|e| matches!(e, Effect::Stop { .. })));
    assert_eq!(w.write("good", b"data").result, 0);
}

fn foreign() -> HObject {
    HObject { oid: "foreign".into(), hash: 1, pool: POOL, snap: CEPH_NOSNAP, ..HObject::min() }
}

/// A member of a group, and what the other one may say to it as its primary.
#[test]
fn a_member_takes_no_object_of_another_group() {
    let mut c = Cluster::new(3, 2, 2, 1, 2);
    let primary = c.primary(GROUP.pgid);
    let member = 1 - primary as usize;
    let names: Vec<String> = (0..20).map(|n| format!("o{n}")).filter(|name| c.request(name, Vec::new()).pgid == GROUP).collect();
    assert_eq!(c.one(&names[0], vec![write_full(b"before")]).unwrap().result, 0);
    let record = |c: &Cluster| c.nodes[member].as_ref().expect("it runs").osd.store().load_pg(GROUP).unwrap().expect("it is a member");
    let before = record(&c);
    let (epoch, version) = (c.map.epoch, EVersion::new(c.map.epoch, before.info.last_update.version + 1));
    let entry = |soid: HObject| PgLogEntry { op: LogOp::MODIFY, soid, version, ..PgLogEntry::default() };
    let change = |soid: &HObject| {
        let mut txn = Transaction::new(CollId::Pg(GROUP));
        txn.touch(&GHObject::plain(soid.clone()));
        txn
    };
    let write = |about: HObject, changes: HObject| MOSDRepOp {
        tid: 1_000_000,
        map_epoch: epoch,
        min_epoch: epoch,
        pgid: GROUP,
        poid: about.clone(),
        version,
        log: vec![entry(about)].to_bytes(features::SUPPORTED),
        pg_stats: before.info.stats.clone(),
        from: PgShard::whole(primary),
        transaction: vec![change(&changes).to_bytes(features::SUPPORTED)],
        ..MOSDRepOp::default()
    };
    let own = HObject { hash: 2, ..foreign() };
    let other_pool = HObject { pool: POOL + 1, ..own.clone() };
    let from = PgShard::whole(primary);
    let entries =
        MOSDPGUpdateLogMissing { map_epoch: epoch, min_epoch: epoch, pgid: GROUP, rep_tid: 7, ..MOSDPGUpdateLogMissing::default() };
    let mut push = PushOp { soid: foreign(), ..PushOp::default() };
    push.recovery_info.soid = foreign();
    let deletes =
        MOSDPGRecoveryDelete { from, pgid: GROUP, map_epoch: epoch, min_epoch: epoch, cost: 1, objects: vec![(foreign(), version)] };
    let pushes = MOSDPGPush { pgid: GROUP, from, map_epoch: epoch, min_epoch: epoch, cost: 1, pushes: vec![push], is_repair: false };
    let said: Vec<RawMessage> = vec![
        write(foreign(), foreign()).encode(features::SUPPORTED),
        write(own.clone(), foreign()).encode(features::SUPPORTED),
        write(foreign(), own.clone()).encode(features::SUPPORTED),
        write(own.clone(), other_pool).encode(features::SUPPORTED),
        MOSDPGUpdateLogMissing { from: from.shard, entries: vec![entry(foreign())], ..entries }.encode(features::SUPPORTED),
        pushes.encode(features::SUPPORTED),
        deletes.encode(features::SUPPORTED),
    ];
    for (n, msg) in said.iter().enumerate() {
        c.feed(member, Event::Osd { osd: primary, msg: received(msg) });
        assert_eq!(c.errors.len(), 1, "message {n}: {:?}", c.errors);
        assert!(c.errors[0].contains("of another group"), "message {n}: {:?}", c.errors);
        c.errors.clear();
        assert_eq!(record(&c), before, "message {n}");
    }
    // The same of an object that is its own is done, and so is what a client writes then.
    let mut c = Cluster::new(3, 2, 2, 1, 2);
    names.iter().for_each(|name| assert_eq!(c.one(name, vec![write_full(b"after")]).unwrap().result, 0));
    c.assert_copies_equal();
    assert_eq!(c.errors, [""; 0]);
}

/// Messages that only a release after 20.2 reads, of every kind that one OSD has for another, and a monitor's map.
#[test]
fn a_message_of_a_newer_version_is_named_and_changes_nothing() {
    let mut c = Cluster::new(3, 2, 2, 1, 2);
    let primary = c.primary(GROUP.pgid);
    let member = 1 - primary as usize;
    assert_eq!(c.one("before", vec![write_full(b"before")]).unwrap().result, 0);
    let record = |c: &Cluster| c.nodes[member].as_ref().expect("it runs").osd.store().load_pg(GROUP).unwrap().expect("it is a member");
    let (before, epoch) = (record(&c), c.map.epoch);
    let of_peers = (0..2048).filter(|kind| messages::senders(*kind).is_some_and(|row| row.osd == By::PeerOsd));
    let kinds: Vec<u16> = of_peers.chain([MOSDMap::KIND]).collect();
    assert!(kinds.len() > 15, "{kinds:?}");
    for kind in kinds {
        let msg = RawMessage { kind, version: 200, compat: 200, ..RawMessage::default() };
        let (whose, event) = if kind == MOSDMap::KIND {
            ("monitor".into(), Event::Mon(msg))
        } else {
            (format!("osd.{primary}"), Event::Osd { osd: primary, msg })
        };
        let clock = c.clock();
        let osd = &mut c.nodes[member].as_mut().expect("it runs").osd;
        let mut out = Vec::new();
        osd.handle(event, clock, &mut out);
        osd.handle(Event::TurnEnd, clock, &mut out);
        let lines: Vec<&str> =
            out.iter().filter_map(|e| if let Effect::Log { level: Level::Warn, text } = e { Some(text.as_str()) } else { None }).collect();
        let [line] = lines[..] else { panic!("{}: {lines:?}", kind_name(kind)) };
        assert!(line.starts_with(&format!("{whose}: {} that can't be read: ", kind_name(kind))), "{line}");
        assert!(line.contains("encoded with compat 200, this release reads up to "), "{line}");
        assert_eq!(out.iter().filter(|e| !matches!(e, Effect::Log { .. })).count(), 0, "{}: {out:?}", kind_name(kind));
        assert_eq!((record(&c), osd_epoch(&c, member)), (before.clone(), epoch), "{}", kind_name(kind));
    }
    assert_eq!(c.one("after", vec![write_full(b"after")]).unwrap().result, 0);
    c.assert_copies_equal();
}

fn osd_epoch(c: &Cluster, osd: usize) -> types::Epoch {
    c.nodes[osd].as_ref().expect("it runs").osd.map().epoch
}

/// A store that stops at a change ends its OSD, which tells no other member of that change.
#[test]
fn what_our_own_store_does_not_take_goes_to_nobody() {
    let mut c = Cluster::new(3, 2, 2, 1, 1);
    let primary = c.primary(GROUP.pgid) as usize;
    assert_eq!(c.one("a", vec![write_full(b"before")]).unwrap().result, 0);
    let m: MOSDOp = c.request("a", vec![write_full(b"after")]);
    let clock = c.clock();
    let node = c.nodes[primary].as_mut().expect("it runs");
    node.store.borrow_mut().stopped = Some("a device is gone".into());
    let mut out = Vec::new();
    let msg = received(&m.encode(features::SUPPORTED));
    node.osd.handle(Event::Message { conn: ConnId(1), msg }, clock, &mut out);
    node.osd.handle(Event::TurnEnd, clock, &mut out);
    assert!(out.iter().any(|e| matches!(e, Effect::Stop { why: Some(_) })), "{out:?}");
    let told = out.iter().filter(|e| matches!(e, Effect::SendOsd { msg, .. } if msg.kind == MOSDRepOp::KIND));
    assert_eq!(told.count(), 0);
    assert!(!out.iter().any(|e| matches!(e, Effect::Send { .. })), "nobody is answered");
}
