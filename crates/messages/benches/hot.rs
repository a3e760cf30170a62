//! What it costs to read a request and to write its reply. `cargo bench -p messages`.

use bytes::Bytes;
use messages::*;
use std::hint::black_box;
use std::time::Instant;
use types::osd_op::osd_flag;
use types::*;

fn time(what: &str, mut f: impl FnMut()) {
    const ROUNDS: u32 = 200_000;
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(|_| f());
            start.elapsed() / ROUNDS
        })
        .min();
    println!("{what}: {} ns", best.expect("there are rounds").as_nanos());
}

fn main() {
    let features = types::features::SUPPORTED;
    let request = MOSDOp {
        pgid: SpgId::whole(PgId::new(2, 17)),
        hobj: HObject { oid: "rbd_data.10226b8b4567.0000000000000123".into(), hash: 77, pool: 2, ..HObject::min() }.head(),
        map_epoch: 30,
        flags: osd_flag::WRITE | osd_flag::ONDISK,
        ops: [
            InOp::new(OsdOp::with_alloc_hint(OpCode::SETALLOCHINT, Default::default()), Bytes::new()),
            InOp::new(OsdOp::range(OpCode::WRITE, 4096, 4096), vec![7; 4096].into()),
        ]
        .into(),
        features,
        ..MOSDOp::default()
    };
    let mut raw = request.encode(features);
    raw.data = vec![raw.data_flat()];
    time("encode MOSDOp", || drop(black_box(request.encode(features))));
    time("decode MOSDOp", || drop(black_box(MOSDOp::decode(black_box(&raw)).expect("it was encoded above"))));
    let reply = MOSDOpReply {
        oid: request.hobj.oid.clone(),
        pgid: request.pgid.pgid,
        map_epoch: 30,
        ops: request.ops.iter().map(|op| OutOp { op: op.op, ..OutOp::default() }).collect(),
        ..MOSDOpReply::default()
    };
    time("encode MOSDOpReply", || drop(black_box(reply.encode(features))));
    let raw = reply.encode(features);
    time("decode MOSDOpReply", || drop(black_box(MOSDOpReply::decode(black_box(&raw)).expect("it was encoded above"))));
    println!("MOSDOp is {} bytes, MOSDOpReply {}, HObject {}", size_of::<MOSDOp>(), size_of::<MOSDOpReply>(), size_of::<HObject>());
}
