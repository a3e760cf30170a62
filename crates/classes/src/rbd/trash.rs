//! A pool's `rbd_trash` (images that wait for their end) and `rbd_namespace` (the names of its namespaces).

use super::{answer, each, find, load, reads, save, writes};
use crate::registry::Method;
use crate::rest::{Rest, kept};
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Denc};
use std::collections::BTreeMap;
use types::UTime;
use types::errno::{EEXIST, EINVAL, EIO, ESTALE};

pub const METHODS: &[Method] = &[
    writes("trash_add", add),
    writes("trash_remove", |obj, input| remove_key(obj, &trash_key(&Input::new(&input).get()?))),
    reads("trash_list", list),
    reads("trash_get", |obj, input| Ok(obj.omap_val(&trash_key(&Input::new(&input).get()?))?.into())),
    writes("trash_state_set", state_set),
    writes("namespace_add", namespace_add),
    writes("namespace_remove", |obj, input| remove_key(obj, &namespace_key(&Input::new(&input).get()?))),
    reads("namespace_list", namespace_list),
];

/// `cls::rbd::TrashImageSpec`; sources and states are numbers of the client's.
#[derive(Default)]
struct TrashSpec {
    source: u8,
    name: String,
    deletion_time: UTime,
    deferment_end_time: UTime,
    state: u8,
    pub rest: Rest,
}
kept!(TrashSpec, v 2, compat 1, { source, name, deletion_time, deferment_end_time, [since 2] state });

const TRASH: &[u8] = b"id_";
const NAMESPACES: &[u8] = b"name_";

fn trash_key(id: &ByteStr) -> Vec<u8> {
    [TRASH, id.as_slice()].concat()
}
fn namespace_key(name: &ByteStr) -> Vec<u8> {
    [NAMESPACES, name.as_slice()].concat()
}

/// ENOENT if there is none.
fn remove_key(obj: &mut dyn ObjectView, key: &[u8]) -> ClsResult<ClsReply> {
    obj.omap_val(key)?;
    obj.omap_remove(vec![key.into()])?;
    Ok(().into())
}

fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    obj.create(false)?;
    let mut input = Input::new(&input);
    let (id, spec): (ByteStr, TrashSpec) = (input.get()?, input.get()?);
    if id.is_empty() || !id.as_slice().iter().all(u8::is_ascii_alphanumeric) {
        return errno(EINVAL);
    }
    if find::<TrashSpec>(obj, &trash_key(&id))?.is_some() {
        return errno(EEXIST);
    }
    save(obj, &trash_key(&id), &spec)?;
    Ok(().into())
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let mut found: BTreeMap<ByteStr, TrashSpec> = BTreeMap::new();
    if max > 0 {
        each(obj, TRASH, after.as_slice(), |id, spec| {
            found.insert(id.into(), TrashSpec::from_bytes(&spec).map_err(|_| ClsError::Errno(EIO))?);
            Ok((found.len() as u64) < max)
        })?;
    }
    answer!(found)
}

fn state_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, state, expected): (ByteStr, u8, u8) = (input.get()?, input.get()?, input.get()?);
    let mut spec: TrashSpec = load(obj, &trash_key(&id))?;
    if spec.state == expected {
        spec.state = state;
        save(obj, &trash_key(&id), &spec)?;
    } else if spec.state != state {
        return errno(ESTALE);
    }
    Ok(().into())
}

fn namespace_add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let key = namespace_key(&Input::new(&input).get()?);
    match obj.omap_val(&key) {
        Ok(_) => return errno(EEXIST),
        Err(e) if e.is(types::errno::ENOENT) => {}
        Err(e) => return Err(e),
    }
    obj.omap_set(vec![(key.into(), Bytes::new())])?;
    Ok(().into())
}

fn namespace_list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let mut found: Vec<ByteStr> = Vec::new();
    if max > 0 {
        each(obj, NAMESPACES, after.as_slice(), |name, _| {
            found.push(name.into());
            Ok((found.len() as u64) < max)
        })?;
    }
    answer!(found)
}
