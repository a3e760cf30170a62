//! The head object: which parts there are, and what clients are about to do with them.

use super::records::{ENTRY_OVERHEAD, Info, PART_HEADER_SIZE, Params, Step, Version};
use crate::registry::Method;
use crate::rest::Rest;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, random_text, reply, stored};
use denc::{ByteStr, Bytes, denc_struct};
use std::collections::BTreeSet;
use types::errno::{ECANCELED, EEXIST, EINVAL, ENODATA, ENOENT};

pub const METHODS: &[Method] =
    &[Method::writes("create_meta", create), Method::reads("get_meta", get), Method::writes("update_meta", update)];

/// Letters of a random instance, and of the random end of a prefix.
const INSTANCE_LEN: usize = 16;
const PREFIX_LEN: usize = 12;

struct CreateOp {
    id: ByteStr,
    version: Option<Version>,
    /// Name and namespace of a pool: not looked at.
    pool: (ByteStr, ByteStr),
    oid_prefix: Option<ByteStr>,
    part_size_max: u64,
    entry_size_max: u64,
    exclusive: bool,
}
denc_struct!(CreateOp, v 1, compat 1, { id, version, pool, oid_prefix, part_size_max, entry_size_max, exclusive });

struct GetOp {
    version: Option<Version>,
}
denc_struct!(GetOp, v 1, compat 1, { version });

struct GetReply {
    info: Info,
    part_header_size: u32,
    entry_overhead: u32,
}
denc_struct!(GetReply, v 1, compat 1, { info, part_header_size, entry_overhead });

struct UpdateOp {
    version: Version,
    tail_part: Option<i64>,
    head_part: Option<i64>,
    push_part_min: Option<i64>,
    push_part_max: Option<i64>,
    add: Vec<Step>,
    remove: Vec<Step>,
}
denc_struct!(UpdateOp, v 1, compat 1, { version, tail_part, head_part, push_part_min, push_part_max, add, remove });

/// ENODATA from an empty object; ECANCELED if it is not of the version that the caller knows.
fn load(obj: &mut dyn ObjectView, version: Option<&Version>) -> ClsResult<Info> {
    let (size, _) = obj.stat()?;
    if size == 0 {
        return errno(ENODATA);
    }
    let info: Info = stored(&obj.read(0, size)?)?;
    if version.is_some_and(|version| *version != info.version) { errno(ECANCELED) } else { Ok(info) }
}

fn create(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CreateOp = decode(&input)?;
    if op.id.is_empty() || op.part_size_max == 0 || op.entry_size_max == 0 || op.entry_size_max > op.part_size_max {
        return errno(EINVAL);
    }
    match obj.stat() {
        Err(e) if e.is(ENOENT) => {}
        Err(e) => return Err(e),
        Ok(_) if op.exclusive => return errno(EEXIST),
        Ok((size, _)) => {
            let info: Info = if size == 0 { return errno(types::errno::EIO) } else { stored(&obj.read(0, size)?)? };
            let same = info.id == op.id
                && op.oid_prefix.is_none_or(|prefix| prefix == info.oid_prefix)
                && op.version.is_none_or(|version| version == info.version);
            return if same { done() } else { errno(EEXIST) };
        }
    }
    let version = match op.version {
        Some(version) if !version.instance.is_empty() => version,
        given => Version { instance: random_text(obj, INSTANCE_LEN), number: given.map_or(1, |v| v.number), ..Version::default() },
    };
    let oid_prefix = match op.oid_prefix {
        Some(prefix) => prefix,
        None => [op.id.as_slice(), b".", random_text(obj, PREFIX_LEN).as_slice()].concat().into(),
    };
    let params = Params {
        part_size_max: op.part_size_max,
        entry_size_max: op.entry_size_max,
        full_size: (op.part_size_max - op.entry_size_max).saturating_sub(ENTRY_OVERHEAD),
        ..Params::default()
    };
    let info = Info {
        id: op.id,
        version,
        oid_prefix,
        params,
        tail_part: 0,
        head_part: -1,
        push_part_min: 0,
        push_part_max: -1,
        journal: BTreeSet::new(),
        rest: Rest::default(),
    };
    obj.write_full(encode(&info))?;
    done()
}

fn get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: GetOp = decode(&input)?;
    let info = load(obj, op.version.as_ref())?;
    reply(&GetReply { info, part_header_size: PART_HEADER_SIZE as u32, entry_overhead: ENTRY_OVERHEAD as u32 })
}

fn update(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: UpdateOp = decode(&input)?;
    if op.version.instance.is_empty() || !op.add.iter().all(Step::is_valid) {
        return errno(EINVAL);
    }
    let mut info = load(obj, Some(&op.version))?;
    let mut changed = false;
    let parts = [
        (&mut info.tail_part, op.tail_part),
        (&mut info.head_part, op.head_part),
        (&mut info.push_part_min, op.push_part_min),
        (&mut info.push_part_max, op.push_part_max),
    ];
    for (has, wanted) in parts {
        if let Some(wanted) = wanted.filter(|wanted| wanted != has) {
            *has = wanted;
            changed = true;
        }
    }
    for step in op.add {
        changed |= info.journal.insert(step);
    }
    for step in &op.remove {
        changed |= info.journal.remove(step);
    }
    if changed {
        info.version.number = info.version.number.wrapping_add(1);
        obj.write_full(encode(&info))?;
    }
    done()
}
