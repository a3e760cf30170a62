//! Requests that want other objects: copied out of groups of this OSD, and asked of others wherever the map has them.

use crate::world;
use crate::world::{Kind, POOL, World, addr, write_full};
use denc::Denc;
use messages::{InOp, MOSDOp, MOSDOpReply, Message};
use osd_core::daemon::Network;
use osd_core::{ConnId, Effect, Event, Peer};
use types::errno::{EINPROGRESS, ENODATA, ENOENT, EPERM};
use types::osd_op::{CallArgs, CopyFromArgs, OpCode, XattrArgs, copy_from_flag, op_flag};
use types::{ByteStr, Bytes, CEPH_NOSNAP, EntityAddrVec, EntityName, ObjectLocator, OsdOp, features};

fn copy_from(oid: &str, pool: i64) -> Vec<InOp> {
    let args = CopyFromArgs { snapid: CEPH_NOSNAP, ..CopyFromArgs::default() };
    let data = (ByteStr::from(oid), ObjectLocator::pool(pool)).to_bytes(0);
    vec![InOp::new(OsdOp::with_copy_from(OpCode::COPY_FROM, args), data)]
}
fn peer(osd: u64) -> Peer {
    Peer {
        name: EntityName::osd(osd as i64),
        entity: format!("osd.{osd}"),
        global_id: 0,
        features: features::SUPPORTED,
        supported: features::SUPPORTED,
        addr: addr(6801 + 10 * osd as u16, 1),
        from: addr(6801 + 10 * osd as u16, 1),
        network: Network::Public,
        cap: None,
    }
}
/// Requests of ours to other OSDs, and to which. An OSD answers requests that come to its public address.
fn questions(w: &mut World) -> Vec<(i32, MOSDOp)> {
    let mut found = Vec::new();
    let map = w.osd.map();
    w.out.retain(|e| match e {
        Effect::AskOsd { osd, msg, addrs } if msg.kind == MOSDOp::KIND => {
            assert_eq!(*addrs, map.client_addrs[*osd as usize]);
            found.push((*osd, MOSDOp::decode(&world::received(msg)).unwrap()));
            false
        }
        _ => true,
    });
    found
}

#[test]
fn an_object_of_another_group_is_copied_in_portions() {
    let mut w = World::new(Kind::Memory, 8);
    let big: Vec<u8> = (0..20_000_000_u32).map(|i| (i / 1000) as u8).collect();
    assert_eq!(w.write("source", &big).result, 0);
    for target in ["a", "b", "c", "d"] {
        assert_eq!(w.one(target, copy_from("source", POOL)).result, 0);
        assert!(w.read(target).as_deref() == Ok(&big[..]), "{target} is what the source is");
    }
    assert_eq!(w.one("a", copy_from("nothing", POOL)).result, -ENOENT);
    assert_eq!(w.one("a", copy_from("source", 77)).result, -ENOENT, "there is no such pool");
    assert!(w.read("a").as_deref() == Ok(&big[..]));
}

/// Codes of operations that may fail are told also where a copy behind them can't be made; the copy itself is under way by its code, as
/// with stock.
#[test]
fn a_copy_that_fails_leaves_the_codes_of_those_before_it() {
    let mut w = World::new(Kind::Memory, 8);
    assert_eq!(w.write("a", b"as it was").result, 0);
    let may_fail = |mut op: InOp| {
        op.op.flags |= op_flag::FAILOK;
        op
    };
    let name = XattrArgs { name_len: 3, value_len: 0, cmp_op: 0, cmp_mode: 0 };
    let missing = || may_fail(InOp::new(OsdOp::with_xattr(OpCode::GETXATTR, name), Bytes::from_static(b"abc")));
    let copies = |source: &str| may_fail(copy_from(source, POOL).remove(0));
    let reply = w.one("a", vec![missing(), write_full(b"new"), copies("nothing"), write_full(b"newer")]);
    let codes = |reply: &MOSDOpReply| reply.ops.iter().map(|op| op.rval).collect::<Vec<_>>();
    assert_eq!((reply.result, codes(&reply)), (-ENOENT, vec![-ENODATA, 0, -EINPROGRESS, 0]));
    assert_eq!(w.read("a").as_deref(), Ok(&b"as it was"[..]), "nothing took effect");
    assert_eq!(w.write("source", b"copied").result, 0);
    let reply = w.one("a", vec![missing(), copies("source")]);
    assert_eq!((reply.result, codes(&reply)), (0, vec![-ENODATA, 0]));
    assert_eq!(w.read("a").as_deref(), Ok(&b"copied"[..]));
}

#[test]
fn a_question_follows_the_map_and_only_its_last_addressee_answers() {
    let mut w = World::new(Kind::Memory, 8);
    let source = w.request("source", Vec::new()).pgid.pgid;
    let target = (0..).map(|i| format!("t{i}")).find(|name| w.request(name, Vec::new()).pgid.pgid != source).unwrap();
    w.publish(|m| {
        m.set_max_osd(3);
        for osd in [1, 2] {
            let at = |port| EntityAddrVec::one(addr(port + 10 * osd as u16, 1));
            m.osd_state[osd] = maps::osd_state::EXISTS | maps::osd_state::UP;
            m.osd_weight[osd] = 0x10000;
            m.osd_info[osd].up_from = m.epoch;
            m.osd_xinfo[osd].features = features::SUPPORTED;
            (m.client_addrs[osd], m.cluster_addrs[osd]) = (at(6800), at(6801));
            (m.hb_front_addrs[osd], m.hb_back_addrs[osd]) = (at(6802), at(6803));
        }
        m.pg_temp.insert(source, vec![1]);
    });
    for osd in [1, 2] {
        w.feed(Event::Connected { conn: ConnId(100 + osd), peer: peer(osd) });
    }
    let m = w.request(&target, copy_from("source", POOL));
    assert!(w.send(1, &m).is_empty());
    let asked = questions(&mut w);
    assert_eq!(asked.iter().map(|(osd, q)| (*osd, q.pgid.pgid)).collect::<Vec<_>>(), [(1, source)]);
    // The group moves: so does the question, under its number.
    w.publish(|m| {
        m.pg_temp.insert(source, vec![2]);
    });
    let again = questions(&mut w);
    assert_eq!(again.iter().map(|(osd, q)| (*osd, q.tid, q.attempt)).collect::<Vec<_>>(), [(2, asked[0].1.tid, 1)]);
    // Its session is lost: once more.
    w.feed(Event::Reset { conn: ConnId(102) });
    let last = questions(&mut w);
    assert_eq!(last.iter().map(|(osd, q)| (*osd, q.attempt)).collect::<Vec<_>>(), [(2, 2)]);
    let answer =
        |attempt| MOSDOpReply { tid: asked[0].1.tid, result: -ENOENT, attempt, ..MOSDOpReply::default() }.encode(features::SUPPORTED);
    w.feed(Event::Message { conn: ConnId(101), msg: answer(0) });
    assert!(w.sent::<MOSDOpReply>(1).is_empty(), "what the first one says is stale");
    w.feed(Event::Connected { conn: ConnId(202), peer: peer(2) });
    w.feed(Event::Message { conn: ConnId(202), msg: answer(2) });
    assert_eq!(w.sent::<MOSDOpReply>(1).iter().map(|r| r.result).collect::<Vec<_>>(), [-ENOENT]);
}

const OTHER: i64 = 2;

/// A pool with the objects "secret", "open.1" and, in a namespace, "secret" beside the first pool; and clients of few rights, by their connections.
fn with_rights(kind: Kind, caps: &[&str]) -> World {
    let mut w = World::new(kind, 2);
    w.publish(|m| {
        let pool = m.pools[&POOL].clone();
        m.pools.insert(OTHER, maps::PgPool { last_change: m.epoch, ..pool });
        m.pool_names.insert(OTHER, "q".into());
        m.pool_max = 2;
    });
    w.settle();
    for (name, nspace) in [("secret", ""), ("open.1", ""), ("secret", "n")] {
        let mut m = in_other_pool(&mut w, name, nspace);
        m.ops.push(write_full(b"of the other pool"));
        m.flags |= types::osd_op::osd_flag::WRITE;
        assert_eq!(w.send(1, &m).remove(0).result, 0);
    }
    for (n, cap) in caps.iter().enumerate() {
        let conn = 50 + n as u64;
        let cap = Some(cephx::caps::OsdCap::parse(cap).expect("a capability"));
        let client = Peer { name: EntityName::client(conn as i64), entity: "client.x".into(), global_id: conn, cap, ..peer(0) };
        w.feed(Event::Connected { conn: ConnId(conn), peer: Peer { addr: addr(0, conn as u32), ..client } });
    }
    w
}
fn in_other_pool(w: &mut World, name: &str, nspace: &str) -> MOSDOp {
    let mut m = w.request(name, Vec::new());
    let pool = &w.map.pools[&OTHER];
    m.hobj.hash = pool.hash_key(name.as_bytes(), nspace.as_bytes());
    (m.hobj.pool, m.hobj.nspace) = (OTHER, nspace.into());
    m.pgid = types::SpgId::whole(types::PgId::new(OTHER, pool.fold(m.hobj.hash)));
    m
}

fn a_copy_needs_the_right_to_read_its_source(kind: Kind) {
    let caps = [
        "allow rw pool=p",
        "allow rw pool=p, allow r pool=q",
        "allow rw pool=p, allow r pool=q namespace=n",
        "allow rw pool=p, allow r pool=q object_prefix open",
        "allow rw pool=p, allow w pool=q",
        "allow rwx",
    ];
    let sources = [("secret", OTHER, ""), ("open.1", OTHER, ""), ("secret", OTHER, "n"), ("of.p", POOL, ""), ("none", 77, "")];
    // In the order of the sources: t for what is copied, n for what is not there, - for what may not be read.
    let rights = ["---tn", "ttttn", "--ttn", "-t-tn", "---tn", "ttttn"];
    let mut w = with_rights(kind, &caps);
    w.write("of.p", b"of this pool");
    for (n, right) in rights.iter().enumerate() {
        for ((name, pool, nspace), may) in sources.iter().zip(right.chars()) {
            for code in [OpCode::COPY_FROM, OpCode::COPY_FROM2] {
                let args = CopyFromArgs { snapid: CEPH_NOSNAP, flags: copy_from_flag::MAP_SNAP_CLONE, ..CopyFromArgs::default() };
                let locator = ObjectLocator { nspace: (*nspace).into(), ..ObjectLocator::pool(*pool) };
                let op = InOp::new(OsdOp::with_copy_from(code, args), (ByteStr::from(*name), locator).to_bytes(0));
                let wanted = match may {
                    't' => 0,
                    'n' => -ENOENT,
                    _ => -EPERM,
                };
                let target = format!("target.{n}");
                let m = w.request(&target, vec![op]);
                let result = w.send(50 + n as u64, &m).remove(0).result;
                assert_eq!(result, wanted, "{}: {code:?} of {name} in {pool}/{nspace}", caps[n]);
                assert_eq!(w.read(&target).is_ok(), wanted == 0);
                w.one(&target, vec![InOp::new(OsdOp::new(OpCode::DELETE), Bytes::new())]);
            }
        }
    }
}

#[test]
fn a_copy_is_of_what_its_client_may_read() {
    a_copy_needs_the_right_to_read_its_source(Kind::Memory);
    (1..4).for_each(|seed| a_copy_needs_the_right_to_read_its_source(Kind::Fetching(seed)));
    #[cfg(debug_assertions)]
    {
        osd_core::planted::plant(Some(osd_core::planted::Bug::CopyUnasked));
        let noticed = std::panic::catch_unwind(|| a_copy_needs_the_right_to_read_its_source(Kind::Memory)).is_err();
        osd_core::planted::plant(None);
        assert!(noticed);
    }
}

/// A class that gathers from other objects gathers what the client may call there.
#[test]
fn what_a_class_gathers_is_what_its_client_may_call() {
    let own = "allow pool=p class test_remote_reads";
    let there = format!("{own}, allow pool=q class test_remote_reads");
    let caps = [own, &format!("{own}, allow rwx pool=q"), &there, "allow class test_remote_reads"];
    let mut w = with_rights(Kind::Memory, &caps);
    let (class, method) = ("test_remote_reads", "test_gather");
    let input =
        serde_json::json!({ "pool": "q", "src_objects": ["open.1"], "cls": "test_remote_reads", "method": "test_read" }).to_string();
    for (n, wanted) in [-EPERM, -EPERM, 0, 0].into_iter().enumerate() {
        let args = CallArgs { class_len: class.len() as u8, method_len: method.len() as u8, argc: 0, indata_len: input.len() as u32 };
        let op = InOp::new(OsdOp::with_call(OpCode::CALL, args), [class, method, &input].concat().into());
        let m = w.request(&format!("t{n}"), vec![op]);
        assert_eq!(w.send(50 + n as u64, &m).remove(0).result, wanted, "{}", caps[n]);
    }
}
