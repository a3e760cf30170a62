//! A monitor and an OSD on real sockets, and peers that pass the handshake before they misbehave: each gets an error, a closed connection or
//! nothing, and a well-behaved client beside them gets its answers as before.

mod hostile_peer;

use base::Rng;
use bytes::Bytes;
use client::ClientError;
use denc::{Denc, Encoder};
use hostile_peer::{Cluster, Evil, Recorder, none, recorded};
use messages::*;
use mon::AuthMode;
use msgr::{Preamble, Tag, Writer};
use std::io::Write;
use std::net::TcpStream;
use types::osd_op::osd_flag;
use types::{EntityKind, EntityText, HObject, OpCode, OsdOp, PgId, SpgId, errno};

const FEATURES: u64 = types::features::SUPPORTED;

/// A request on an object of the only group of the pool.
fn request(cluster: &Cluster, tid: u64, write: bool, ops: Vec<InOp>) -> MOSDOp {
    let flag = if write { osd_flag::WRITE | osd_flag::ONDISK } else { osd_flag::READ };
    MOSDOp {
        tid,
        pgid: SpgId::whole(PgId::new(cluster.pool_id(), 0)),
        hobj: HObject { oid: "prey".into(), hash: 0x1234_5678, pool: cluster.pool_id(), ..HObject::min() }.head(),
        map_epoch: cluster.epoch(),
        flags: flag,
        ops: ops.into_iter().collect(),
        features: FEATURES,
        ..MOSDOp::default()
    }
}

/// The reply's code, if the peer answered and did not hang up.
fn result(replies: &Option<Vec<RawMessage>>, tid: u64) -> Option<i32> {
    let reply = replies.as_ref()?.iter().find(|r| r.kind == MOSDOpReply::KIND && r.tid == tid)?;
    Some(MOSDOpReply::decode(reply).unwrap().result)
}

#[test]
fn requests_with_wrong_content() {
    let cluster = Cluster::start(AuthMode::None);
    let mut evil = cluster.evil_at_osd();
    let data = Bytes::from(vec![7; 4096]);
    let write = || request(&cluster, 1, true, vec![InOp::new(OsdOp::range(OpCode::WRITE, 0, 4096), data.clone())]);
    // One by a map older than the group's interval is dropped: a client sends it again by the next map.
    let answer = (0..100).find_map(|_| result(&evil.poke(&cluster, write().encode(FEATURES)), 1));
    assert_eq!(answer, Some(0), "a good request first");
    let write = write();

    // Cut short at every eighth byte; the op count, which stands behind the name, as large as it gets.
    let good = write.encode(FEATURES);
    for cut in (0..good.front.len()).step_by(8) {
        evil.poke(&cluster, RawMessage { front: good.front.slice(..cut), ..good.clone() });
    }
    let name = good.front.windows(4).position(|w| w == b"prey").unwrap();
    let mut front = good.front.to_vec();
    front[name + 4..name + 6].copy_from_slice(&[0xff, 0xff]);
    evil.poke(&cluster, RawMessage { front: front.into(), ..good.clone() });
    // Less data than the ops claim; an op's own length beyond it; a version of the message that there is not.
    evil.poke(&cluster, RawMessage { data: vec![data.slice(..100)], ..good.clone() });
    evil.poke(&cluster, RawMessage { data: vec![], ..good.clone() });
    for version in [0, 1, 3, 7, 9, u16::MAX] {
        evil.poke(&cluster, RawMessage { version, ..good.clone() });
    }
    cluster.check("requests that can't be read");

    // An op that no OSD has.
    for code in [0x12ff, 0x22ff, 0x0001, 0x4201, 0xffff] {
        let op = InOp::new(OsdOp::new(OpCode(code)), Bytes::new());
        let replies = evil.poke(&cluster, request(&cluster, 2, code & 0x2000 != 0, vec![op]).encode(FEATURES));
        let result = result(&replies, 2);
        assert!(result.is_none_or(|r| r < 0), "{code:#x}: {result:?}");
        if code == 0x12ff || code == 0x22ff {
            assert_eq!(result, Some(-errno::EOPNOTSUPP), "{code:#x}");
        }
    }
    cluster.check("unknown ops");
    cluster.stop();
}

/// Every op code with arguments and data at random, of lengths that don't fit.
#[test]
fn every_op_with_anything_inside() {
    let cluster = Cluster::start(AuthMode::None);
    let mut evil = cluster.evil_at_osd();
    let mut rng = Rng::new(21);
    let blobs: Vec<Bytes> = vec![
        Bytes::new(),
        Bytes::from_static(&[0xff; 4]),
        Bytes::from_static(&[0xff, 0xff, 0xff, 0x7f, 1, 2, 3]),
        Bytes::from_static(b"\x01\0\0\0\xff\xff\0\0abc"),
        Bytes::from_static(b"lock\0"),
        Bytes::from(vec![0; 300]),
        {
            let mut e = Encoder::new(FEATURES);
            [("key".to_string(), "value".to_string())].into_iter().collect::<std::collections::BTreeMap<_, _>>().encode(&mut e);
            e.finish()
        },
    ];
    for (n, code) in OpCode::ALL.iter().enumerate() {
        for round in 0..24 {
            let mut op = OsdOp::new(*code);
            rng.fill(&mut op.args);
            match round % 4 {
                0 => op.args = [0; 28],
                1 => op.args.iter_mut().for_each(|b| *b &= 1),
                2 => op.args = [0xff; 28],
                // Lengths that reach a little beyond what there is.
                _ => op.args = std::array::from_fn(|i| if i % 4 == 0 { rng.below(40) as u8 } else { 0 }),
            }
            let blob = &blobs[rng.below(blobs.len() as u64) as usize];
            let cut = rng.below(blob.len() as u64 + 1) as usize;
            let tid = 1000 + (n * 100 + round) as u64;
            let request = request(&cluster, tid, code.is_write() || round % 3 == 0, vec![InOp::new(op, blob.slice(..cut))]);
            evil.poke(&cluster, request.encode(FEATURES));
        }
        if n % 8 == 0 {
            cluster.check(code.name());
        }
    }
    cluster.check("every op");
    cluster.stop();
}

/// Messages of other roles, of no role, and empty ones of every number, at the monitor, the manager and the OSD.
#[test]
fn messages_that_no_client_sends() {
    let cluster = Cluster::start(AuthMode::None);
    for at in [EntityKind::MON, EntityKind::MGR, EntityKind::OSD] {
        let mut evil = cluster.evil(at);
        for kind in (0..160).chain([512, 768, 1097, 1792, 1793, 1794, 1795, 1796, 2000, u16::MAX]) {
            for front in [&[][..], &[0xff; 64], &[0; 400]] {
                for version in [1, 8] {
                    let message = RawMessage { kind, version, compat: 1, front: front.to_vec().into(), ..RawMessage::default() };
                    evil.poke(&cluster, message);
                }
            }
            if kind % 40 == 0 {
                cluster.check(&format!("kind {kind} at {at:?}"));
            }
        }
        cluster.check(&format!("every kind at {at:?}"));
    }
    cluster.stop();
}

/// Good messages of daemons, said by a client: recorded ones, whole and with a few bytes turned, and the monitor's with our cluster's name.
#[test]
fn messages_of_daemons_from_a_client() {
    let cluster = Cluster::start(AuthMode::None);
    let mut rng = Rng::new(31);
    for at in [EntityKind::MON, EntityKind::MGR, EntityKind::OSD] {
        let mut evil = cluster.evil(at);
        for good in recorded("reef") {
            evil.poke(&cluster, good.clone());
            for _ in 0..2 {
                let mut front = good.front.to_vec();
                for _ in 0..1 + rng.below(3) {
                    if !front.is_empty() {
                        let byte = rng.below(front.len() as u64) as usize;
                        front[byte] = [0, 0xff, front[byte] ^ 4][rng.below(3) as usize];
                    }
                }
                evil.poke(&cluster, RawMessage { front: front.into(), ..good.clone() });
            }
        }
        cluster.check(&format!("recorded messages at {at:?}"));
    }
    let mut evil = cluster.evil(EntityKind::MON);
    let (fsid, epoch, target_addrs) = (cluster.fsid(), cluster.epoch(), cluster.map().client_addrs[0].clone());
    let down = MOSDMarkMeDown { fsid, epoch, target_addrs: target_addrs.clone(), down_and_dead: true, ..MOSDMarkMeDown::default() };
    let failure = MOSDFailure { fsid, epoch, target_addrs, flags: 3, failed_for_s: 1000, ..MOSDFailure::default() };
    let mut boot = MOSDBoot { boot_epoch: epoch, osd_features: FEATURES, ..MOSDBoot::default() };
    boot.superblock.cluster_fsid = fsid;
    let dead = MOSDMarkMeDead { fsid, epoch, ..MOSDMarkMeDead::default() };
    let temp = MOSDPGTemp {
        map_epoch: epoch,
        pg_temp: [(PgId::new(cluster.pool_id(), 0), vec![7])].into(),
        forced: true,
        ..MOSDPGTemp::default()
    };
    let full = MOSDFull { map_epoch: epoch, state: u32::MAX, ..MOSDFull::default() };
    for message in [
        down.encode(FEATURES),
        failure.encode(FEATURES),
        dead.encode(FEATURES),
        boot.encode(FEATURES),
        temp.encode(FEATURES),
        full.encode(FEATURES),
    ] {
        evil.poke(&cluster, message);
    }
    cluster.check("an OSD's messages from a client");
    assert!(cluster.newest_map().is_up(0), "a client's word does not take an OSD down");
    assert_eq!(cluster.epoch(), epoch, "a client's word changed the map");
    cluster.stop();
}

#[test]
fn commands_that_are_no_json() {
    let cluster = Cluster::start(AuthMode::None);
    let bad = [
        "",
        "hello",
        "{",
        "[]",
        "null",
        "{}",
        "{\"prefix\": 7}",
        "{\"prefix\": \"no such thing\"}",
        "{\"prefix\": \"osd pool create\"}",
        "\u{0}",
    ];
    let deep = "[".repeat(100_000);
    let long = format!("{{\"prefix\": \"{}\"}}", "x".repeat(1 << 20));
    for text in bad.into_iter().chain([deep.as_str(), long.as_str()]) {
        for (n, at) in [EntityKind::MON, EntityKind::MGR, EntityKind::OSD].into_iter().enumerate() {
            let mut evil = cluster.evil(at);
            let fsid = cluster.fsid();
            let cmds = vec![vec![text.to_string()], vec![], vec![text.to_string(), "}".into()]];
            for cmd in cmds {
                let message = if n == 0 {
                    MMonCommand { fsid, cmd, tid: 5, ..MMonCommand::default() }.encode(FEATURES)
                } else {
                    MCommand { fsid, cmd, tid: 5, ..MCommand::default() }.encode(FEATURES)
                };
                let replies = evil.poke(&cluster, message).expect("a command is answered");
                let result = replies.iter().find_map(|r| match r.kind {
                    MMonCommandAck::KIND => Some(MMonCommandAck::decode(r).unwrap().result),
                    MCommandReply::KIND => Some(MCommandReply::decode(r).unwrap().result),
                    _ => None,
                });
                let shown: String = text.chars().take(40).collect();
                assert_eq!(result, Some(-errno::EINVAL), "{shown:?} at {at:?}");
            }
        }
    }
    // Bytes that are no text at all.
    let mut front = MMonCommand { cmd: vec!["abcd".into()], ..MMonCommand::default() }.encode(FEATURES).front.to_vec();
    let n = front.len();
    front[n - 2] = 0xff;
    cluster
        .evil(EntityKind::MON)
        .poke(&cluster, RawMessage { kind: MMonCommand::KIND, version: 1, compat: 1, front: front.into(), ..RawMessage::default() });
    cluster.check("commands");
    cluster.stop();
}

#[test]
fn frames_that_are_wrong_for_an_open_session() {
    let cluster = Cluster::start(AuthMode::None);
    for at in [EntityKind::MON, EntityKind::MGR, EntityKind::OSD] {
        for (i, tag) in Tag::ALL.iter().enumerate() {
            let mut w = Writer::default();
            let payload = vec![i as u8; [0, 8, 40, 300][i % 4]];
            if w.control(*tag, &payload).is_err() {
                continue;
            }
            cluster.evil(at).raw(&w.queue.take_flat());
        }
        // More than may be sent, said in a preamble that is right in itself.
        let lens = [[41, u32::MAX, 0, 0], [41, 1, 1, u32::MAX], [u32::MAX; 4], [41, 0, 0, 200 << 20], [40, 1, 0, 0], [0, 1, 0, 0], [0; 4]];
        for lens in lens {
            let mut evil = cluster.evil(at);
            evil.raw(&Preamble::new(Tag::Message, lens).encode());
            if lens.iter().map(|n| u64::from(*n)).sum::<u64>() > 180 << 20 {
                assert!(evil.is_hung_up_on(), "{lens:?} at {at:?}");
            }
        }
        // A byte of a good frame turned: each crc is looked at.
        let mut w = Writer::default();
        let good = request(&cluster, 3, true, vec![InOp::new(OsdOp::range(OpCode::WRITE, 0, 64), vec![1; 64].into())]).encode(FEATURES);
        w.message(&msgr::Header { seq: 1, tid: 3, kind: MOSDOp::KIND, version: 8, compat: 3, ..Default::default() }, &good).unwrap();
        let frame = w.queue.take_flat();
        for byte in (0..frame.len()).step_by(frame.len() / 9) {
            let mut bad = frame.clone();
            bad[byte] ^= 0x10;
            let mut evil = cluster.evil(at);
            evil.raw(&bad);
            assert!(evil.is_hung_up_on(), "byte {byte} of {} at {at:?}", frame.len());
        }
        cluster.check(&format!("frames at {at:?}"));
    }
    // Handshakes that stop half-way: others are served beside them.
    let banner = b"ceph v2\n\x10\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    let mut held = Vec::new();
    for n in 0..300 {
        for at in [EntityKind::MON, EntityKind::OSD] {
            let mut socket = TcpStream::connect(cluster.addr(at)).unwrap();
            socket.write_all(&banner[..n % (banner.len() + 1)]).unwrap();
            held.push(socket);
        }
    }
    cluster.check("half-open handshakes");
    cluster.stop();
}

#[test]
fn who_has_no_right_to_come_in() {
    let cluster = Cluster::start(AuthMode::Cephx);
    // A key that is not the entity's, another entity's, and a name that no entity has.
    let admin = cluster.key("client.admin");
    let osd = cluster.key("osd.0");
    let fresh = cephx::CryptoKey::generate(net::auth_cephx::now(), &mut net::auth_cephx::entropy());
    for (name, key) in [("client.admin", &fresh), ("client.admin", &osd), ("osd.0", &admin), ("client.nobody", &admin)] {
        match cluster.connect(name, Some(key)) {
            Err(ClientError::Refused { errno: errno::EACCES | errno::EPERM | errno::ENOENT, .. }) => {}
            Err(other) => panic!("{name}: {other}"),
            Ok(()) => panic!("{name} came in"),
        }
    }
    // Without a key where one is wanted.
    for at in [EntityKind::MON, EntityKind::MGR, EntityKind::OSD] {
        assert!(Evil::dial(&cluster, at, none("client.admin")).is_none(), "nobody without a key at {at:?}");
    }

    // A good session at the OSD, recorded; then what was said in it, again.
    let recorder = Recorder::new(EntityText::parse("client.admin").unwrap(), admin);
    let login = Evil::dial(&cluster, EntityKind::MON, recorder.live()).expect("admin logs in");
    for at in [EntityKind::OSD, EntityKind::MGR] {
        recorder.said.borrow_mut().clear();
        assert!(Evil::dial(&cluster, at, recorder.live()).is_some(), "admin's ticket opens {at:?}");
        let said = recorder.said.borrow().clone();
        assert_eq!(said.len(), 2, "an authorizer and the answer to its challenge");
        assert!(Evil::dial(&cluster, at, recorder.replay(said.clone())).is_none(), "a replay at {at:?}");
        assert!(Evil::dial(&cluster, at, recorder.replay(vec![said[1].clone(), said[1].clone()])).is_none(), "its end alone at {at:?}");
        // Forged: each ninth byte of the authorizer turned. Not all of it is sealed, but nothing of it is accepted without the key.
        for byte in (0..said[0].len()).step_by(9) {
            let mut forged = said[0].to_vec();
            forged[byte] ^= 1;
            assert!(Evil::dial(&cluster, at, recorder.replay(vec![forged.into(), said[1].clone()])).is_none(), "byte {byte} at {at:?}");
        }
    }
    // What was said at the OSD is accepted by no other service.
    drop(login);
    let said = recorder.said.borrow().clone();
    assert!(Evil::dial(&cluster, EntityKind::MON, recorder.replay(said)).is_none());
    cluster.check("strangers");
    cluster.stop();
}
