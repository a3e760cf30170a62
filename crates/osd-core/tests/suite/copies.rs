//! Requests that want other objects: copied out of groups of this OSD, and asked of others wherever the map has them.

use crate::world;
use crate::world::{Kind, POOL, World, addr};
use denc::Denc;
use messages::{InOp, MOSDOp, MOSDOpReply, Message};
use osd_core::daemon::Network;
use osd_core::{ConnId, Effect, Event, Peer};
use types::errno::ENOENT;
use types::osd_op::{CopyFromArgs, OpCode};
use types::{ByteStr, CEPH_NOSNAP, EntityAddrVec, EntityName, ObjectLocator, OsdOp, features};

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
