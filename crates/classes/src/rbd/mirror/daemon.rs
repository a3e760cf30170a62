//! Mirroring daemons and which of them has which image: keys `instance_ID`, and `image_map_ID` in `rbd_mirror_leader`'s pool.

use super::super::{answer, each, reads, save, writes};
use super::forget;
use crate::registry::{METHOD_PROMOTE, METHOD_RD, METHOD_WR, Method};
use crate::rest::{Rest, kept};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::Input;
use bytes::Bytes;
use denc::{ByteStr, Denc};
use std::collections::BTreeMap;
use types::UTime;
use types::errno::EINVAL;

pub const METHODS: &[Method] = &[
    reads("mirror_instances_list", instances),
    Method { name: "mirror_instances_add", flags: METHOD_RD | METHOD_WR | METHOD_PROMOTE, call: add },
    writes("mirror_instances_remove", |obj, input| {
        obj.omap_remove(vec![key(&Input::new(&input).get()?).into()])?;
        Ok(().into())
    }),
    reads("mirror_image_map_list", map_list),
    Method { name: "mirror_image_map_update", flags: METHOD_WR, call: map_update },
    Method { name: "mirror_image_map_remove", flags: METHOD_WR, call: map_remove },
];

const INSTANCES: &[u8] = b"instance_";
const MAPS: &[u8] = b"image_map_";

/// `cls::rbd::MirrorImageMap`.
#[derive(Default)]
struct ImageMap {
    instance_id: ByteStr,
    mapped_time: UTime,
    data: Bytes,
    pub rest: Rest,
}
kept!(ImageMap, v 1, compat 1, { instance_id, mapped_time, data });

fn key(id: &ByteStr) -> Vec<u8> {
    [INSTANCES, id.as_slice()].concat()
}
fn map_key(global_id: &ByteStr) -> Vec<u8> {
    [MAPS, global_id.as_slice()].concat()
}

fn instances(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let mut ids: Vec<ByteStr> = Vec::new();
    each(obj, INSTANCES, b"", |id, _| {
        ids.push(id.into());
        Ok(true)
    })?;
    answer!(ids)
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    obj.omap_set(vec![(key(&Input::new(&input).get()?).into(), Bytes::new())])?;
    Ok(().into())
}

fn map_list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let mut found: BTreeMap<ByteStr, ImageMap> = BTreeMap::new();
    if max > 0 {
        each(obj, MAPS, after.as_slice(), |id, map| {
            found.insert(id.into(), ImageMap::from_bytes(&map).map_err(|_| ClsError::Errno(EINVAL))?);
            Ok((found.len() as u64) < max)
        })?;
    }
    answer!(found)
}

fn map_update(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (global_id, map): (ByteStr, ImageMap) = (input.get()?, input.get()?);
    save(obj, &map_key(&global_id), &map)?;
    Ok(().into())
}

fn map_remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    forget(obj, &map_key(&Input::new(&input).get()?))?;
    Ok(().into())
}
