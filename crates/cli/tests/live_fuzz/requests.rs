//! Requests of random operations, payloads, flags and epochs, on connections that end in the middle, by keys that may use one pool.

use crate::hostile_peer::{Cluster, Evil};
use crate::{FEATURES, ONE_POOL, READS_ONE_POOL, cluster, fuzzing, logged_in, seed, times};
use base::Rng;
use bytes::Bytes;
use messages::*;
use msgr::AuthClients;
use std::rc::Rc;
use types::osd_op::osd_flag;
use types::{EntityKind, HObject, OpCode, OsdOp, PgId, SpgId};

/// Of the tests' share.
const ROUNDS: u64 = 60;
/// Connections at a time, at most.
const PEERS_MAX: u64 = 12;

/// A request on an object of the pool's only group.
fn request(cluster: &Cluster, tid: u64, oid: &str, write: bool, ops: Vec<InOp>) -> MOSDOp {
    let pool = cluster.map().pool_by_name("mine").unwrap();
    MOSDOp {
        tid,
        pgid: SpgId::whole(PgId::new(pool, 0)),
        hobj: HObject { oid: oid.into(), hash: types::hash::rjenkins(oid.as_bytes()), pool, ..HObject::min() }.head(),
        map_epoch: cluster.epoch(),
        flags: if write { osd_flag::WRITE | osd_flag::ONDISK } else { osd_flag::READ },
        ops: ops.into_iter().collect(),
        features: FEATURES,
        ..MOSDOp::default()
    }
}

fn read(len: u64) -> InOp {
    InOp::new(OsdOp::range(OpCode::READ, 0, len), Bytes::new())
}

fn peer(cluster: &Cluster, auth: &Rc<dyn AuthClients>) -> Evil {
    Evil::dial(cluster, EntityKind::OSD, auth.clone()).expect("a key with a right to a pool is let in")
}

/// Connections that ask for much by a map that will never come, and end: nothing of theirs is left, and nothing was in others' way meanwhile.
#[test]
fn requests_by_a_map_of_a_future_that_never_comes() {
    let cluster = cluster();
    cluster.put("mine", "prey", b"there is something to read");
    cluster.check_large("nothing yet");
    let auth = logged_in(&cluster, READS_ONE_POOL, false);
    let ahead = |tid| MOSDOp { map_epoch: 4_000_000_000, ..request(&cluster, tid, "prey", false, vec![read(4 << 20)]) }.encode(FEATURES);
    let mut peers: Vec<Evil> = (0..12).map(|_| peer(&cluster, &auth)).collect();
    peers.iter_mut().for_each(|evil| evil.throw((1..=40).map(ahead)));
    cluster.check("requests that wait");
    cluster.check_large("requests that wait");
    // One that stays is cut: the monitors don't have that map.
    let mut stays = peers.pop().unwrap();
    drop(peers);
    cluster.check_large("the connections' ends");
    assert!(stays.is_hung_up_on(), "one that asks by a map that there is not");
    cluster.check_large("all of it");
    cluster.check_nothing_held("all of it");
    cluster.stop();
}

/// One operation: arguments at random, small ones or none; data of some length.
fn op(rng: &mut Rng, data: &Bytes, long: bool) -> InOp {
    let mut op = OsdOp::new(*fuzzing::pick(rng, OpCode::ALL));
    match rng.below(4) {
        0 => rng.fill(&mut op.args),
        1 => op.args = std::array::from_fn(|i| if i % 8 < 3 { rng.below(64) as u8 } else { 0 }),
        // Much of an object that is there.
        2 => op = OsdOp::range(*fuzzing::pick(rng, &[OpCode::READ, OpCode::SPARSE_READ, OpCode::MAPEXT]), 0, 4 << 20),
        _ => {}
    }
    let len = [0, 10, 4096, 60_000, 900_000][rng.below(if long { 5 } else { 4 }) as usize];
    InOp::new(op, data.slice(..len))
}

fn anything(rng: &mut Rng, cluster: &Cluster, tid: u64, data: &Bytes) -> RawMessage {
    let ops = (0..1 + rng.below(3)).map(|n| op(rng, data, n == 0 && tid == 1)).collect();
    let oid = ["large", "prey", "new"][rng.below(3) as usize];
    let mut m = request(cluster, tid, oid, rng.chance(1, 2), ops);
    let now = m.map_epoch;
    m.map_epoch = [now, now, now, now + 1, 4_000_000_000, 0, rng.u64() as u32][rng.below(7) as usize];
    if rng.chance(1, 4) {
        m.flags |= rng.u64() as u32;
    }
    if rng.chance(1, 4) {
        m.snapc.seq = rng.u64() >> rng.below(64);
        m.snapc.snaps = (0..rng.below(4)).map(|_| rng.below(1000)).collect();
    }
    if rng.chance(1, 8) {
        m.hobj.snap = rng.u64();
    }
    if rng.chance(1, 8) {
        m.hobj.hash = rng.u64() as u32;
    }
    if rng.chance(1, 8) {
        m.pgid.pgid = PgId::new([m.pgid.pgid.pool, 1, -1, i64::MAX][rng.below(4) as usize], rng.u64() as u32);
    }
    if rng.chance(1, 8) {
        m.attempt = rng.u64() as i32;
        m.client_inc = rng.u64() as u32;
    }
    let mut message = m.encode(FEATURES);
    if rng.chance(1, 8) {
        message.front = fuzzing::damaged(rng, &message.front, data.slice(..40).as_ref()).into();
    }
    message
}

#[test]
fn requests_at_random_on_connections_that_end() {
    let cluster = cluster();
    let mut rng = Rng::new(seed("requests"));
    let data = Bytes::from(vec![7; 1 << 20]);
    cluster.put("mine", "prey", b"there is something to read");
    cluster.put("mine", "large", vec![3; 4 << 20].leak());
    let keys = [READS_ONE_POOL, ONE_POOL].map(|weak| logged_in(&cluster, weak, rng.chance(1, 2)));
    let mut peers: Vec<Evil> = Vec::new();
    let (mut sent, mut opened) = (0, 0);
    for round in 0..ROUNDS * times() {
        while (peers.len() as u64) < 1 + rng.below(PEERS_MAX) {
            peers.push(peer(&cluster, fuzzing::pick(&mut rng, &keys)));
            opened += 1;
        }
        for evil in &mut peers {
            let requests: Vec<RawMessage> = (1..=1 + rng.below(12)).map(|tid| anything(&mut rng, &cluster, tid, &data)).collect();
            sent += requests.len();
            evil.throw(requests);
        }
        // Some take their answers, some don't, some end.
        peers.retain_mut(|evil| !rng.chance(1, 4) && (rng.chance(1, 2) || evil.swallow()));
        if round % 6 == 5 {
            let after = format!("{} rounds", round + 1);
            cluster.check(&after);
            cluster.check_large(&after);
        }
    }
    drop(peers);
    cluster.check_large("all rounds");
    cluster.check_nothing_held("all rounds");
    println!("{sent} requests on {opened} connections");
    assert!(cluster.newest_map().is_up(0));
    cluster.stop();
}
