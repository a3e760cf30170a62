//! The header of an image: size, features, stripes, time stamps, flags.

use super::records::{Parent, Snap};
use super::{answer, feature, find, forget, load, must_exist, must_have, op_feature, reads, save, set_op_features, snapshot, writes};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Denc};
use types::errno::{EEXIST, EINVAL, ENOENT, ENOSYS};
use types::{CEPH_NOSNAP, UTime};

pub const METHODS: &[Method] = &[
    writes("create", create),
    reads("get_features", get_features),
    writes("set_features", set_features),
    reads("get_size", get_size),
    writes("set_size", set_size),
    reads("get_object_prefix", |obj, _| answer!(load::<String>(obj, b"object_prefix")?)),
    reads("get_data_pool", |obj, _| answer!(find::<i64>(obj, b"data_pool_id")?.unwrap_or(-1))),
    reads("get_stripe_unit_count", get_stripe_unit_count),
    writes("set_stripe_unit_count", set_stripe_unit_count),
    reads("get_create_timestamp", |obj, _| timestamp(obj, b"create_timestamp")),
    reads("get_access_timestamp", |obj, _| timestamp(obj, b"access_timestamp")),
    reads("get_modify_timestamp", |obj, _| timestamp(obj, b"modify_timestamp")),
    writes("set_access_timestamp", |obj, _| touch(obj, b"access_timestamp")),
    writes("set_modify_timestamp", |obj, _| touch(obj, b"modify_timestamp")),
    reads("get_flags", get_flags),
    writes("set_flags", set_flags),
    reads("op_features_get", |obj, _| answer!(find::<u64>(obj, b"op_features")?.unwrap_or(0))),
    writes("op_features_set", op_features_set),
    reads("get_all_features", |_, _| answer!(feature::ALL)),
];

fn create(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (size, order, features, prefix): (u64, u8, u64, ByteStr) = (input.get()?, input.get()?, input.get()?, input.get()?);
    let data_pool: i64 = if input.is_empty() { -1 } else { input.get()? };
    if features & !feature::ALL != 0 {
        return errno(ENOSYS);
    }
    if prefix.is_empty() {
        return errno(EINVAL);
    }
    if find::<ByteStr>(obj, b"object_prefix")?.is_some() {
        return errno(EEXIST);
    }
    let has_data_pool = features & feature::DATA_POOL != 0;
    if features & feature::OPERATIONS != 0 || has_data_pool != (data_pool != -1) {
        return errno(EINVAL);
    }
    let now = obj.now();
    let entry = |key: &'static str, value: Bytes| (ByteStr::from_static(key), value);
    let mut entries = vec![
        entry("size", size.to_bytes(0)),
        entry("order", order.to_bytes(0)),
        entry("features", features.to_bytes(0)),
        entry("object_prefix", prefix.to_bytes(0)),
        entry("snap_seq", 0_u64.to_bytes(0)),
        entry("create_timestamp", now.to_bytes(0)),
        entry("access_timestamp", now.to_bytes(0)),
        entry("modify_timestamp", now.to_bytes(0)),
    ];
    if has_data_pool {
        entries.push(entry("data_pool_id", data_pool.to_bytes(0)));
    }
    obj.omap_set(entries)?;
    Ok(().into())
}

fn get_features(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let _snap_id: u64 = input.get()?;
    let read_only: bool = if input.is_empty() { false } else { input.get()? };
    let features: u64 = load(obj, b"features")?;
    let incompatible = features & if read_only { feature::INCOMPATIBLE } else { feature::RW_INCOMPATIBLE };
    answer!(features, incompatible)
}

fn set_features(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (features, mask): (u64, u64) = (input.get()?, input.get()?);
    let before = find::<u64>(obj, b"features")?.unwrap_or(0);
    if mask & feature::INTERNAL != 0 {
        return errno(EINVAL);
    }
    let mask = mask & feature::ALL;
    let (on, off) = (features & mask, !features & mask);
    if on & !feature::MUTABLE != 0 || off & !(feature::MUTABLE | feature::DISABLE_ONLY) != 0 {
        return errno(EINVAL);
    }
    save(obj, b"features", &(before & !mask | on))?;
    Ok(().into())
}

fn get_size(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let snap_id: u64 = Input::new(&input).get()?;
    let order: u8 = load(obj, b"order")?;
    let size = if snap_id == CEPH_NOSNAP { load(obj, b"size")? } else { snapshot::get(obj, snap_id)?.image_size };
    answer!(order, size)
}

fn set_size(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let size: u64 = Input::new(&input).get()?;
    let before: u64 = load(obj, b"size")?;
    save(obj, b"size", &size)?;
    if size < before
        && let Some(mut parent) = find::<Parent>(obj, b"parent")?
        && parent.exists()
        && parent.head_overlap.is_some_and(|overlap| overlap > size)
    {
        // What was cut off and grows again is empty, not the parent's.
        parent.head_overlap = Some(size);
        save(obj, b"parent", &parent)?;
    }
    Ok(().into())
}

fn get_stripe_unit_count(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    must_exist(obj)?;
    must_have(obj, feature::STRIPINGV2)?;
    let unit = match find::<u64>(obj, b"stripe_unit")? {
        Some(unit) => unit,
        None => 1 << (load::<u8>(obj, b"order")? & 63),
    };
    answer!(unit, find::<u64>(obj, b"stripe_count")?.unwrap_or(1))
}

fn set_stripe_unit_count(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (unit, count): (u64, u64) = (input.get()?, input.get()?);
    if unit == 0 || count == 0 {
        return errno(EINVAL);
    }
    must_exist(obj)?;
    must_have(obj, feature::STRIPINGV2)?;
    let object_size = 1_u64 << (load::<u8>(obj, b"order")? & 63);
    if unit > object_size || object_size % unit != 0 {
        return errno(EINVAL);
    }
    save(obj, b"stripe_unit", &unit)?;
    save(obj, b"stripe_count", &count)?;
    Ok(().into())
}

fn timestamp(obj: &mut dyn ObjectView, key: &[u8]) -> ClsResult<ClsReply> {
    answer!(find::<UTime>(obj, key)?.unwrap_or(UTime::ZERO))
}

fn touch(obj: &mut dyn ObjectView, key: &[u8]) -> ClsResult<ClsReply> {
    must_exist(obj)?;
    let now = obj.now();
    save(obj, key, &now)?;
    Ok(().into())
}

fn get_flags(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let snap_id: u64 = Input::new(&input).get()?;
    let flags = if snap_id == CEPH_NOSNAP { find(obj, b"flags")?.unwrap_or(0) } else { snapshot::get(obj, snap_id)?.flags };
    answer!(flags)
}

fn set_flags(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (flags, mask): (u64, u64) = (input.get()?, input.get()?);
    let snap_id: u64 = if input.is_empty() { CEPH_NOSNAP } else { input.get()? };
    if snap_id == CEPH_NOSNAP {
        let before = find::<u64>(obj, b"flags")?.unwrap_or(0);
        save(obj, b"flags", &(before & !mask | flags & mask))?;
    } else {
        let mut snap: Snap = snapshot::get(obj, snap_id)?;
        snap.flags = snap.flags & !mask | flags & mask;
        snapshot::put(obj, snap)?;
    }
    Ok(().into())
}

fn op_features_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (value, mask): (u64, u64) = (input.get()?, input.get()?);
    if mask & !op_feature::ALL != 0 {
        return errno(EINVAL);
    }
    set_op_features(obj, value, mask)?;
    Ok(().into())
}

/// Takes the parent's link out of the header; ENOENT is no error.
pub fn forget_parent(obj: &mut dyn ObjectView) -> ClsResult<()> {
    match forget(obj, b"parent") {
        Err(e) if e.is(ENOENT) => Ok(()),
        other => other,
    }
}
