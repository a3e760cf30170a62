//! Objects that hold data: they go but for some attributes, or are looked at before something else is done to them.

use crate::registry::{METHOD_WR, Method};
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{decode, done, encode, errno, or_none};
use denc::{ByteStr, Bytes, denc_struct};
use types::UTime;
use types::errno::{ECANCELED, EINVAL};

pub const METHODS: &[Method] = &[
    Method::writes("obj_remove", remove),
    Method { name: "obj_store_pg_ver", flags: METHOD_WR, call: store_pg_ver },
    Method::reads("obj_check_attrs_prefix", check_attrs),
    Method::reads("obj_check_mtime", check_mtime),
];

/// `rgw_cls_obj_remove_op`.
pub struct RemoveOp {
    /// Attributes that begin so stay, on an empty object.
    keep: Vec<ByteStr>,
}
denc_struct!(RemoveOp, v 1, compat 1, { keep });

/// `rgw_cls_obj_store_pg_ver_op`.
pub struct StorePgVerOp {
    attr: ByteStr,
}
denc_struct!(StorePgVerOp, v 1, compat 1, { attr });

/// `rgw_cls_obj_check_attrs_prefix`.
pub struct CheckAttrsOp {
    prefix: ByteStr,
    /// ECANCELED if there is one; otherwise, if there is none.
    fail_if_exist: bool,
}
denc_struct!(CheckAttrsOp, v 1, compat 1, { prefix, fail_if_exist });

/// `rgw_cls_obj_check_mtime`.
pub struct CheckMtimeOp {
    mtime: UTime,
    /// `RGWCheckMTimeType`: the object's is equal (0), less (1), less or equal (2), greater (3), greater or equal (4).
    relation: u8,
    high_precision: bool,
}
denc_struct!(CheckMtimeOp, v 2, compat 1, { mtime, relation, [since 2] high_precision });

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: RemoveOp = decode(&input)?;
    let attrs = if op.keep.is_empty() { Vec::new() } else { or_none(obj.getxattrs())?.unwrap_or_default() };
    let stays = |name: &ByteStr| op.keep.iter().any(|prefix| name.as_slice().starts_with(prefix.as_slice()));
    obj.remove()?;
    let kept: Vec<_> = attrs.into_iter().filter(|(name, _)| stays(name)).collect();
    if !kept.is_empty() {
        obj.create(false)?;
    }
    for (name, value) in kept {
        obj.setxattr(name.as_slice(), value)?;
    }
    done()
}

fn store_pg_ver(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: StorePgVerOp = decode(&input)?;
    let version = encode(&obj.version());
    obj.setxattr(op.attr.as_slice(), version)?;
    done()
}

fn check_attrs(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CheckAttrsOp = decode(&input)?;
    if op.prefix.is_empty() {
        return errno(EINVAL);
    }
    let attrs = or_none(obj.getxattrs())?.unwrap_or_default();
    let exists = attrs.iter().any(|(name, _)| name.as_slice().starts_with(op.prefix.as_slice()));
    if exists == op.fail_if_exist { errno(ECANCELED) } else { done() }
}

/// An object that is not there is as old as can be.
fn check_mtime(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let op: CheckMtimeOp = decode(&input)?;
    let mtime = or_none(obj.stat())?.map_or(UTime::ZERO, |(_, mtime)| mtime);
    let exact = |t: UTime| if op.high_precision { t } else { UTime { nsec: 0, ..t } };
    let order = exact(mtime).cmp(&exact(op.mtime));
    let holds = match op.relation {
        0 => order.is_eq(),
        1 => order.is_lt(),
        2 => order.is_le(),
        3 => order.is_gt(),
        4 => order.is_ge(),
        _ => return errno(EINVAL),
    };
    if holds { done() } else { errno(ECANCELED) }
}
