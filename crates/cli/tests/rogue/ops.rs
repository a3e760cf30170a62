//! Forms of one operation: well formed, then each of its numbers by itself at 0, 1 and its maximum, each flag by itself, its data with a length that
//! is not theirs, a group that the object is not in; then as many by chance as are asked for.

use base::Rng;
use bytes::Bytes;
use denc::Denc;
use messages::InOp;
use std::collections::BTreeMap;
use types::osd_op::{CallArgs, OP_ARGS_LEN, XattrArgs, osd_flag};
use types::{HObject, OpCode, OsdOp};

const FEATURES: u64 = types::features::SUPPORTED;
/// What an operation's data says of its length, when it lies.
pub const LENGTHS: [u32; 3] = [0, 1, u32::MAX];

/// One form: the operation, the request's flags beside those that it needs, and what is wrong with it.
pub struct Form {
    pub op: InOp,
    pub flags: u32,
    /// For another group than the object's.
    pub foreign: bool,
    /// In place of the data's own length.
    pub length: Option<u32>,
}

impl Form {
    pub fn of(op: InOp) -> Self {
        Self { op, flags: 0, foreign: false, length: None }
    }
}

/// All forms of an operation that are no chance, and `by_chance` more.
pub fn forms(code: OpCode, by_chance: usize, rng: &mut Rng) -> Vec<Form> {
    let mut out = every_form(code);
    let words = [0, 1, 4096, u32::MAX];
    for _ in 0..by_chance {
        let mut op = OsdOp::new(code);
        for word in op.args.chunks_exact_mut(4) {
            word.copy_from_slice(&words[rng.below(4) as usize].to_le_bytes());
        }
        op.flags = if rng.chance(1, 2) { 1 << rng.below(32) } else { 0 };
        let data = Bytes::from(vec![0x61; [0, 1, 64, 4096][rng.below(4) as usize]]);
        let flags = if rng.chance(1, 2) { 1 << rng.below(32) } else { 0 };
        out.push(Form { flags, foreign: rng.chance(1, 4), ..Form::of(InOp::new(op, data)) });
    }
    out
}

fn every_form(code: OpCode) -> Vec<Form> {
    let (op, data) = well_formed(code);
    let good = || InOp::new(op, data.clone());
    let mut out = vec![Form::of(good())];
    // Of another group, and said to be of none.
    out.extend([0, osd_flag::PGOP].map(|flags| Form { flags, foreign: true, ..Form::of(good()) }));
    // Where a number of 4 or 8 bytes may lie; those of CALL have one.
    let short = (0..3).filter(|_| code == OpCode::CALL).map(|at| (at, 1));
    let places = (0..OP_ARGS_LEN / 4).map(|n| (4 * n, 4)).chain([(0, 8), (8, 8), (16, 8)]);
    for (at, len) in short.chain(places) {
        let max = u64::MAX >> (64 - 8 * len);
        for value in [0, 1, max >> 1, max] {
            let mut op = op;
            op.args[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
            out.push(Form::of(InOp::new(op, data.clone())));
        }
    }
    for value in [0, u8::MAX] {
        let mut op = op;
        op.args.fill(value);
        out.push(Form::of(InOp::new(op, data.clone())));
    }
    // Counts within the data lie at its front.
    for count in [0, 1, u32::MAX, u32::MAX >> 1] {
        let mut counted = data.to_vec();
        counted.splice(..counted.len().min(4), count.to_le_bytes());
        out.push(Form::of(InOp::new(op, counted.into())));
    }
    out.extend(LENGTHS.map(|length| Form { length: Some(length), ..Form::of(good()) }));
    out.extend((0..32).map(|bit| Form { flags: 1 << bit, ..Form::of(good()) }));
    for bit in 0..32 {
        let mut op = op;
        op.flags = 1 << bit;
        out.push(Form::of(InOp::new(op, data.clone())));
    }
    out
}

/// An operation as a client would send it.
fn well_formed(code: OpCode) -> (OsdOp, Bytes) {
    let one: BTreeMap<String, String> = [("key".to_string(), "value".to_string())].into();
    let data = match code {
        OpCode::PGLS | OpCode::PGNLS => HObject::min().to_bytes(FEATURES),
        OpCode::OMAPSETVALS => one.to_bytes(FEATURES),
        OpCode::OMAPRMKEYS | OpCode::OMAPGETVALSBYKEYS => vec!["key".to_string()].to_bytes(FEATURES),
        OpCode::OMAPGETKEYS => (String::new(), 16u64).to_bytes(FEATURES),
        OpCode::OMAPGETVALS => ((String::new(), 16u64), String::new()).to_bytes(FEATURES),
        OpCode::CALL => Bytes::from_static(b"lockget_info\x01\x01\x05\0\0\0\x01\0\0\0l"),
        OpCode::GETXATTR | OpCode::SETXATTR | OpCode::RMXATTR | OpCode::CMPXATTR => Bytes::from_static(b"name"),
        code if code.is_write() && code.uses_extent() => Bytes::from_static(b"some bytes"),
        _ => Bytes::new(),
    };
    let op = match code {
        OpCode::CALL => OsdOp::with_call(code, CallArgs { class_len: 4, method_len: 8, argc: 0, indata_len: 11 }),
        OpCode::GETXATTR | OpCode::SETXATTR | OpCode::RMXATTR | OpCode::CMPXATTR => {
            OsdOp::with_xattr(code, XattrArgs { name_len: 4, ..XattrArgs::default() })
        }
        code if code.uses_extent() => OsdOp::range(code, 0, data.len() as u64),
        _ => OsdOp::new(code),
    };
    (op, data)
}
