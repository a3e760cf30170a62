//! What clients send that want harm. Every number at its ends, every flag, other groups' hashes, other clients' requests, other daemons' messages; and all
//! that with bytes changed.

use super::judge::Asked;
use super::{Guise, OWN, Session, World};
use crate::client::POOL;
use crate::monitor::fsid;
use crate::net::{Overheard, Proc};
use base::Rng;
use bytes::Bytes;
use denc::Denc;
use messages::{InOp, MCommand, MMonCommand, MOSDMap, MOSDOp, Message, RawMessage};
use types::osd_op::{CallArgs, CopyFromArgs, OP_ARGS_LEN, PglsArgs, XattrArgs, osd_flag};
use types::{CEPH_NOSNAP, EntityName, HObject, ObjectLocator, OpCode, OsdOp, PgId, PoolId, ReqId, SnapContext, SpgId, features};

/// Numbers at their ends, and some that are usual.
const NUMBERS: [u64; 8] = [0, 1, 4096, 65_537, u32::MAX as u64, i64::MAX as u64, u64::MAX - 1, u64::MAX];
/// Methods of classes that write or read.
const CALLS: [(&str, &str); 5] = [("hello", "record_hello"), ("rbd", "get_size"), ("lock", "lock"), ("version", "set"), ("no", "such")];
/// What a client may not say to a monitor, and nobody to a manager that is no manager's own.
const COMMANDS: [&str; 6] = [
    r#"{"prefix":"osd down","ids":["0"]}"#,
    r#"{"prefix":"osd pool rm","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#,
    r#"{"prefix":"osd purge-actual","id":0,"yes_i_really_mean_it":true}"#,
    r#"{"prefix":"config-key set","key":"a","val":"b"}"#,
    r#"{"prefix":"auth get-or-create","entity":"client.admin","caps":["mon","allow *"]}"#,
    r#"{"prefix":"osd lost","id":0,"yes_i_really_mean_it":true}"#,
];

fn one_of<T: Copy>(all: &[T], rng: &mut Rng) -> T {
    all[rng.below(all.len() as u64) as usize]
}
/// As it comes out of a socket: the data in one piece.
fn whole(raw: RawMessage) -> RawMessage {
    let data = raw.data_flat();
    RawMessage { data: if data.is_empty() { Vec::new() } else { vec![data] }, data_crc: None, ..raw }
}

/// What a session sends next.
pub(super) fn messages(session: &mut Session, world: &World, rng: &mut Rng) -> Vec<RawMessage> {
    match session.guise {
        Guise::Numbered | Guise::Stranger | Guise::Outside => as_osd(session, world, rng),
        Guise::AtMonitor | Guise::AtManager => at_monitor(session, world, rng),
        _ => match rng.below(8) {
            // Changed bytes may ask for anything, so an owner sends none: it may do something.
            0 if session.guise != Guise::Owner => mangled(request(session, world, rng), world, rng),
            1 => vec![command(session, rng)],
            _ => request(session, world, rng).into_iter().collect(),
        },
    }
}

/// What the OSD that it claims to be has said to this one, again or changed; and maps that there are not.
fn as_osd(session: &Session, world: &World, rng: &mut Rng) -> Vec<RawMessage> {
    let is_its = |told: &&Overheard| told.from == Proc::Osd(session.claims) && told.to == session.to;
    let told: Vec<&Overheard> = world.overheard.iter().filter(is_its).collect();
    match rng.below(6) {
        // Such an OSD may know more than its monitor has told us.
        0 if session.guise != Guise::Outside => vec![map_to_come(world, rng)],
        1 => mangled(told.last().map(|told| told.msg.clone()), world, rng),
        _ => told.iter().rev().take(1 + rng.below(3) as usize).rev().map(|told| whole(told.msg.clone())).collect(),
    }
}
/// A map of an epoch that is to come, in which all is gone.
fn map_to_come(world: &World, rng: &mut Rng) -> RawMessage {
    let mut map = (*world.map).clone();
    map.epoch += 1 + rng.below(3) as u32;
    (map.pools, map.pool_names) = Default::default();
    let (bytes, _) = map.encode_canonical();
    let m = MOSDMap { fsid: fsid(), maps: [(map.epoch, bytes)].into(), newest: map.epoch, ..MOSDMap::default() };
    whole(m.encode(features::SUPPORTED))
}

/// Commands, and what daemons say of themselves.
fn at_monitor(session: &mut Session, world: &World, rng: &mut Rng) -> Vec<RawMessage> {
    let told: Vec<&Overheard> = world.overheard.iter().filter(|told| told.to == Proc::Mon).collect();
    match rng.below(4) {
        0 => vec![command(session, rng)],
        1 => mangled((!told.is_empty()).then(|| one_of(&told, rng).msg.clone()), world, rng),
        _ => (!told.is_empty()).then(|| whole(one_of(&told, rng).msg.clone())).into_iter().collect(),
    }
}
fn command(session: &mut Session, rng: &mut Rng) -> RawMessage {
    session.tid += 1;
    let (tid, cmd) = (session.tid, vec![one_of(&COMMANDS, rng).to_string()]);
    match session.guise {
        Guise::AtMonitor => MMonCommand { tid, fsid: fsid(), cmd, ..MMonCommand::default() }.encode(features::SUPPORTED),
        Guise::AtManager => MCommand { tid, fsid: fsid(), cmd, ..MCommand::default() }.encode(features::SUPPORTED),
        _ => {
            let cmd = vec![
                one_of(&[r#"{"prefix":"injectargs","injected_args":["--osd_max_backfills=9"]}"#, r#"{"prefix":"config show"}"#], rng)
                    .to_string(),
            ];
            MCommand { tid, fsid: fsid(), cmd, ..MCommand::default() }.encode(features::SUPPORTED)
        }
    }
}

/// The same with bytes changed, cut off, or as another kind.
fn mangled(msg: Option<RawMessage>, world: &World, rng: &mut Rng) -> Vec<RawMessage> {
    let Some(msg) = msg else { return Vec::new() };
    let mut msg = whole(msg);
    let mut front = msg.front.to_vec();
    match rng.below(5) {
        0 => front.truncate(rng.below(front.len() as u64 + 1) as usize),
        1 if !world.overheard.is_empty() => {
            let other = &world.overheard[rng.below(world.overheard.len() as u64) as usize].msg;
            (msg.kind, msg.version) = (other.kind, other.version);
        }
        2 => msg.data.clear(),
        3 => msg.kind = rng.below(200) as u16,
        _ => {
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(front.len().max(1) as u64) as usize;
                if let Some(byte) = front.get_mut(at) {
                    *byte = one_of(&[0, 1, 0x7f, 0xff, rng.clone().u64() as u8], rng);
                }
            }
        }
    }
    msg.front = front.into();
    vec![msg]
}

/// An operation with any number, and what comes with it.
fn operation(code: OpCode, rng: &mut Rng) -> InOp {
    let mut op = OsdOp { code, flags: if rng.chance(1, 8) { 1 << rng.below(9) } else { 0 }, ..OsdOp::default() };
    let mut args = [0; OP_ARGS_LEN];
    for word in args.chunks_mut(8) {
        let number = one_of(&NUMBERS, rng).to_le_bytes();
        word.copy_from_slice(&number[..word.len()]);
    }
    op.args = args;
    let mut bytes = vec![0; rng.below(40) as usize];
    rng.fill(&mut bytes);
    match code {
        OpCode::CALL => {
            let (class, method) = one_of(&CALLS, rng);
            let is_odd = rng.chance(1, 4);
            let class_len = if is_odd { 255 } else { class.len() as u8 };
            let call = CallArgs { class_len, method_len: method.len() as u8, argc: 0, indata_len: bytes.len() as u32 };
            op.args = OsdOp::with_call(code, call).args;
            bytes = [class.as_bytes(), method.as_bytes(), &bytes].concat();
        }
        OpCode::SETXATTR | OpCode::GETXATTR | OpCode::RMXATTR | OpCode::CMPXATTR if rng.chance(3, 4) => {
            let xattr = XattrArgs { name_len: 1, value_len: bytes.len() as u32, cmp_op: rng.below(8) as u8, cmp_mode: rng.below(4) as u8 };
            op.args = OsdOp::with_xattr(code, xattr).args;
            bytes.insert(0, b'a' + rng.below(3) as u8);
        }
        OpCode::WRITE | OpCode::WRITEFULL | OpCode::APPEND if rng.chance(3, 4) => {
            op.args = OsdOp::range(code, one_of(&NUMBERS[..4], rng), bytes.len() as u64).args;
        }
        OpCode::OMAPSETVALS | OpCode::OMAPGETVALSBYKEYS | OpCode::OMAPRMKEYS if rng.chance(1, 2) => {
            let count = one_of(&NUMBERS, rng) as u32;
            bytes.splice(0..0, count.to_le_bytes());
        }
        _ => {}
    }
    InOp::new(op, bytes.into())
}
/// One of all operations, or of none. Watches are left out where they would be made: they end by themselves, long after.
fn any_code(owns: bool, rng: &mut Rng) -> OpCode {
    match rng.chance(1, 8) {
        true => OpCode(rng.below(1 << 16) as u16),
        false => Some(one_of(OpCode::ALL, rng)).filter(|code| !owns || *code != OpCode::WATCH).unwrap_or(OpCode::STAT),
    }
}
/// Copies what its client may not read into what it may write.
fn copy_of_others(pool: PoolId, world: &World, rng: &mut Rng) -> InOp {
    let source = types::ByteStr::from(format!("o{}", rng.below(world.objects)).into_bytes());
    let indata = [source.to_bytes(0), ObjectLocator::pool(pool).to_bytes(features::SUPPORTED)].concat();
    let args = CopyFromArgs { snapid: CEPH_NOSNAP, ..CopyFromArgs::default() };
    InOp::new(OsdOp::with_copy_from(OpCode::COPY_FROM, args), indata.into())
}

/// A request to the OSD that the session is with, about a group that may be there. `None`: the pool is gone.
fn request(session: &mut Session, world: &World, rng: &mut Rng) -> Option<RawMessage> {
    let id = world.map.pool_by_name(POOL)?;
    let pool = world.map.pools.get(&id)?;
    session.tid += 1;
    let owns = session.guise == Guise::Owner && rng.chance(1, 2);
    let name = if owns { format!("{OWN}{}", rng.below(6)) } else { format!("o{}", rng.below(world.objects)) };
    let mut hash = pool.hash_key(name.as_bytes(), &[]);
    let pgid = PgId::new(id, pool.fold(hash));
    let mut asked = Asked { pgid, object: name.clone(), codes: Vec::new(), copies: false, is_elsewhere: None, lists_from: None };
    let mut hobj = HObject { oid: name.into_bytes().into(), hash, pool: id, snap: CEPH_NOSNAP, ..HObject::min() };
    let (mut ops, mut flags): (Vec<InOp>, u32) = (Vec::new(), osd_flag::ONDISK);
    match rng.below(10) {
        0..3 if session.guise == Guise::Reader => {
            // A listing in pages of no rows: on and on.
            let from = session.cursor.clone().unwrap_or_else(HObject::min);
            let code = if rng.chance(1, 2) { OpCode::PGNLS } else { OpCode::PGLS };
            let count = one_of(&[0, 0, 0, 1, u64::MAX], rng);
            let at = if session.cursor.is_some() { PgId::new(id, pool.fold(from.hash)) } else { pgid };
            ops.push(InOp::new(OsdOp::with_pgls(code, PglsArgs { count, start_epoch: 0 }), from.to_bytes(0)));
            flags |= osd_flag::PGOP;
            (asked.pgid, asked.lists_from) = (at, Some(from));
            hobj = HObject { hash: at.seed, pool: id, snap: CEPH_NOSNAP, ..HObject::min() };
        }
        0..4 if pool.pg_num > 1 => {
            // Of another group, whatever the flag says.
            let code = one_of(&[OpCode::WRITEFULL, OpCode::READ, OpCode::STAT, OpCode::CREATE, OpCode::DELETE], rng);
            let data = if code == OpCode::WRITEFULL { Bytes::from_static(b"hostile") } else { Bytes::new() };
            ops.push(InOp::new(OsdOp::range(code, 0, data.len() as u64), data));
            hash ^= 1 << rng.below(pool.pg_num.ilog2().max(1).into());
            hobj.hash = hash;
            flags |= osd_flag::PGOP;
            let is_elsewhere = pool.fold(hash) != pgid.seed && world.pg_num_stays && session.guise != Guise::Powerless;
            asked.is_elsewhere = is_elsewhere.then_some(pool.pg_num);
        }
        4 if owns => {
            ops.push(copy_of_others(id, world, rng));
            asked.copies = true;
        }
        _ => {
            ops.extend((0..1 + rng.below(3)).map(|_| operation(any_code(owns, rng), rng)));
            flags |= if rng.chance(1, 4) { 1 << rng.below(28) } else { 0 };
            if !owns && rng.chance(1, 6) {
                hobj.snap = one_of(&[0, 1, CEPH_NOSNAP - 1, u64::MAX], rng);
            }
        }
    }
    asked.codes = ops.iter().map(|op| op.op.code).collect();
    flags |= if asked.codes.iter().any(|code| code.is_write()) { osd_flag::WRITE } else { osd_flag::READ };
    // An owner's requests may be done; by a map that is not there none is.
    let is_ahead = asked.is_elsewhere.is_none() && session.guise == Guise::Reader && rng.chance(1, 12);
    session.is_ahead |= is_ahead;
    let map_epoch = if is_ahead { one_of(&[world.map.epoch + 1000, u32::MAX], rng) } else { world.map.epoch };
    let reqid = if rng.chance(1, 2) { forged(world, rng) } else { ReqId::default() };
    let snapc = if rng.chance(1, 10) { SnapContext { seq: 1, snaps: vec![9, 3] } } else { SnapContext::default() };
    session.asked.insert(session.tid, asked.clone());
    let (pgid, ops) = (SpgId::whole(asked.pgid), ops.into());
    let m = MOSDOp { tid: session.tid, pgid, hobj, map_epoch, flags, reqid, ops, snapc, features: 0, ..MOSDOp::default() };
    Some(whole(m.encode(features::SUPPORTED)))
}
/// The id that another client's next request will have, or one of its next.
fn forged(world: &World, rng: &mut Rng) -> ReqId {
    match world.next.is_empty() {
        true => ReqId { name: EntityName { kind: types::EntityKind::CLIENT, num: 1 }, tid: u64::MAX, inc: i32::MAX },
        false => {
            let next = one_of(&world.next, rng);
            ReqId { tid: next.tid + rng.below(4), ..next }
        }
    }
}
