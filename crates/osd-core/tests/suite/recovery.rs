//! Messages of recovery at an OSD: another OSD asks for objects and gets them, and what belongs to nothing changes nothing.

use crate::world;
use crate::world::{Kind, World, addr};
use messages::{
    MOSDPGPull, MOSDPGPush, MOSDPGPushReply, MOSDPGRecoveryDelete, MOSDPGRecoveryDeleteReply, Message, ObjectRecoveryInfo,
    ObjectRecoveryProgress, PullOp, PushOp,
};
use osd_core::{Effect, Event};
use types::{EVersion, EntityAddrVec, Epoch, HObject, IntervalSet, PgShard, SpgId, features};

const FROM: PgShard = PgShard::whole(1);

/// A second OSD is up, which has no group.
fn with_a_peer(kind: Kind) -> World {
    let mut w = World::new(kind, 4);
    w.publish(|m| {
        m.set_max_osd(2);
        m.osd_state[1] = maps::osd_state::EXISTS | maps::osd_state::UP;
        m.osd_weight[1] = 0x10000;
        m.osd_info[1].up_from = m.epoch;
        m.osd_xinfo[1].features = features::SUPPORTED;
        (m.client_addrs[1], m.cluster_addrs[1]) = (EntityAddrVec::one(addr(6811, 1)), EntityAddrVec::one(addr(6812, 1)));
    });
    w
}
/// What went to the other OSD since the last question.
fn sent<M: Message>(w: &mut World) -> Vec<M> {
    let mut found = Vec::new();
    w.out.retain(|e| match e {
        Effect::SendOsd { osd: 1, msg, .. } if msg.kind == M::KIND => {
            found.push(M::decode(&world::received(msg)).unwrap());
            false
        }
        _ => true,
    });
    found
}
fn pull(w: &mut World, pgid: SpgId, epoch: Epoch, pull: PullOp) -> Vec<MOSDPGPush> {
    let m = MOSDPGPull { pgid, map_epoch: epoch, min_epoch: epoch, from: FROM, pulls: vec![pull], ..MOSDPGPull::default() };
    w.feed(Event::Osd { osd: 1, msg: m.encode(features::SUPPORTED) });
    w.go_on();
    sent(w)
}
/// All of an object, whatever its version.
fn whole(soid: &HObject) -> PullOp {
    let info = ObjectRecoveryInfo { soid: soid.clone(), size: u64::MAX, copy_subset: IntervalSet::of(0, u64::MAX), ..Default::default() };
    PullOp { soid: soid.clone(), recovery_info: info, recovery_progress: ObjectRecoveryProgress { first: true, ..Default::default() } }
}

#[test]
fn an_object_that_is_asked_for_comes_in_parts() {
    for kind in [Kind::Memory, Kind::Fetching(3)] {
        let mut w = with_a_peer(kind);
        let bytes: Vec<u8> = (0..20_000_000_u32).map(|i| (i / 1000) as u8).collect();
        assert_eq!(w.write("big", &bytes).result, 0);
        let request = w.request("big", Vec::new());
        let (soid, pgid, epoch) = (request.hobj, request.pgid, w.map.epoch);
        let (mut ask, mut got, mut parts) = (whole(&soid), Vec::new(), 0);
        loop {
            let answers = pull(&mut w, pgid, epoch, ask.clone());
            let [MOSDPGPush { map_epoch, pushes, from, .. }] = &answers[..] else { panic!("{} answers ({kind:?})", answers.len()) };
            let [PushOp { version, data, recovery_info, after_progress, .. }] = &pushes[..] else { panic!("one part a message") };
            assert_eq!((*map_epoch, *from), (epoch, PgShard::whole(0)));
            got.extend_from_slice(data);
            parts += 1;
            if after_progress.data_complete {
                break;
            }
            assert!(*version > EVersion::ZERO && data.len() == 8 << 20);
            let info = ObjectRecoveryInfo { version: *version, ..recovery_info.clone() };
            ask = PullOp { soid: soid.clone(), recovery_info: info, recovery_progress: after_progress.clone() };
        }
        assert!(got == bytes && parts == 3, "{parts} parts ({kind:?})");
        // An object that is not here: an answer that says so, and a line for the operator.
        let nothing = whole(&HObject { oid: "nothing".into(), ..soid.clone() });
        assert_eq!(pull(&mut w, pgid, epoch, nothing)[0].pushes[0].version, EVersion::ZERO);
        assert!(w.out.iter().any(|e| matches!(e, Effect::ClusterLog { text, .. } if text.contains("recovery"))));
        // What was asked in an interval that is over is not answered, nor what is asked of a group that is not here.
        assert!(pull(&mut w, pgid, 0, whole(&soid)).is_empty());
        let elsewhere = SpgId { pgid: types::PgId::new(77, 0), ..pgid };
        assert!(pull(&mut w, elsewhere, epoch, whole(&soid)).is_empty());
    }
}

#[test]
fn answers_to_nothing_change_nothing() {
    let mut w = with_a_peer(Kind::Memory);
    assert_eq!(w.write("a", b"as it is").result, 0);
    let request = w.request("a", Vec::new());
    let (soid, pgid, epoch) = (request.hobj, request.pgid, w.map.epoch);
    let version = EVersion::new(epoch, 99);
    let push = PushOp { soid: soid.clone(), version, ..PushOp::default() };
    let pushes = MOSDPGPush { pgid, map_epoch: epoch, min_epoch: epoch, from: FROM, pushes: vec![push], ..Default::default() };
    let replies = vec![messages::PushReplyOp { soid: soid.clone() }];
    let reply = MOSDPGPushReply { pgid, map_epoch: epoch, min_epoch: epoch, from: FROM, replies, ..Default::default() };
    let objects = vec![(soid, version)];
    let delete =
        MOSDPGRecoveryDelete { pgid, map_epoch: epoch, min_epoch: epoch, from: FROM, objects: objects.clone(), ..Default::default() };
    let deleted = MOSDPGRecoveryDeleteReply { pgid, map_epoch: epoch, min_epoch: epoch, from: FROM, objects };
    for msg in [&pushes as &dyn Encodes, &reply, &delete, &deleted] {
        w.feed(Event::Osd { osd: 1, msg: msg.raw() });
    }
    assert_eq!(w.read("a").as_deref(), Ok(&b"as it is"[..]));
    // What we don't lack needs no deletion: the answer is that it is done.
    assert_eq!(sent::<MOSDPGRecoveryDeleteReply>(&mut w).len(), 1);
    assert!(sent::<MOSDPGPushReply>(&mut w).is_empty() && sent::<MOSDPGPush>(&mut w).is_empty());
    assert!(w.osd.pgs().all(|pg| pg.state_bits() & types::pg_state::CLEAN != 0));
}

trait Encodes {
    fn raw(&self) -> messages::RawMessage;
}
impl<M: Message> Encodes for M {
    fn raw(&self) -> messages::RawMessage {
        self.encode(features::SUPPORTED)
    }
}
