//! A pool's `rbd_directory` (names to ids and back), and `rbd_id.NAME`, which holds one id.

use super::{answer, each, find, has_key, load, must_exist, reads, save, writes};
use crate::registry::Method;
use crate::view::{ClsError, ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use denc::{ByteStr, Denc};
use std::collections::BTreeMap;
use types::errno::{EBADF, EBUSY, EEXIST, EINVAL, EIO, ENOENT, ESTALE};

pub const METHODS: &[Method] = &[
    reads("get_id", get_id),
    writes("set_id", set_id),
    reads("dir_get_id", |obj, input| answer!(load::<String>(obj, &name_key(&Input::new(&input).get()?))?)),
    reads("dir_get_name", |obj, input| answer!(load::<String>(obj, &id_key(&Input::new(&input).get()?))?)),
    reads("dir_list", list),
    writes("dir_add_image", add),
    writes("dir_remove_image", remove),
    writes("dir_rename_image", rename),
    reads("dir_state_assert", state_assert),
    writes("dir_state_set", state_set),
];

const NAMES: &[u8] = b"name_";

fn name_key(name: &String) -> Vec<u8> {
    [NAMES, name.as_bytes()].concat()
}
fn id_key(id: &String) -> Vec<u8> {
    [b"id_", id.as_bytes()].concat()
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|c| c.is_ascii_alphanumeric())
}

fn get_id(obj: &mut dyn ObjectView, _: Bytes) -> ClsResult<ClsReply> {
    let (size, _) = obj.stat()?;
    if size == 0 {
        return errno(ENOENT);
    }
    let id = String::from_bytes(&obj.read(0, size)?).map_err(|_| ClsError::Errno(EIO))?;
    answer!(id)
}

fn set_id(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    must_exist(obj)?;
    let id: String = Input::new(&input).get()?;
    if !is_id(&id) {
        return errno(EINVAL);
    }
    if obj.stat()?.0 != 0 {
        return errno(EEXIST);
    }
    obj.write(0, id.to_bytes(0))?;
    Ok(().into())
}

/// Names with their ids, behind a name.
pub fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (String, u64) = (input.get()?, input.get()?);
    let mut images: BTreeMap<ByteStr, String> = BTreeMap::new();
    if max > 0 {
        each(obj, NAMES, after.as_bytes(), |name, id| {
            images.insert(name.into(), String::from_bytes(&id).map_err(|_| ClsError::Errno(EIO))?);
            Ok((images.len() as u64) < max)
        })?;
    }
    answer!(images)
}

/// EEXIST for a name that is taken, EBADF for an id that is and must not be.
fn link(obj: &mut dyn ObjectView, name: &String, id: &String, id_is_new: bool) -> ClsResult<ClsReply> {
    if name.is_empty() || !is_id(id) {
        return errno(EINVAL);
    }
    if find::<String>(obj, &name_key(name))?.is_some() {
        return errno(EEXIST);
    }
    if id_is_new && find::<String>(obj, &id_key(id))?.is_some() {
        return errno(EBADF);
    }
    obj.omap_set(vec![(name_key(name).into(), id.to_bytes(0)), (id_key(id).into(), name.to_bytes(0))])?;
    Ok(().into())
}

/// ESTALE if name and id don't belong to each other.
fn unlink(obj: &mut dyn ObjectView, name: &String, id: &String) -> ClsResult<ClsReply> {
    let stored_id: String = load(obj, &name_key(name))?;
    let stored_name: String = load(obj, &id_key(id))?;
    if stored_name != *name || stored_id != *id {
        return errno(ESTALE);
    }
    obj.omap_remove(vec![name_key(name).into(), id_key(id).into()])?;
    Ok(().into())
}

/// Makes the directory with its first entry.
pub fn add(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    obj.create(false)?;
    let mut input = Input::new(&input);
    let (name, id) = (input.get()?, input.get()?);
    link(obj, &name, &id, true)
}

/// ENOENT for a name that is not there.
pub fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (name, id) = (input.get()?, input.get()?);
    unlink(obj, &name, &id)
}

/// Also to its own name: EEXIST.
pub fn rename(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (source, target, id): (String, String, String) = (input.get()?, input.get()?, input.get()?);
    let taken = has_key(obj, &name_key(&target))?;
    unlink(obj, &source, &id)?;
    if taken { errno(EEXIST) } else { link(obj, &target, &id, false) }
}

/// States of a directory: open, or closed to new images.
const READY: u8 = 0;
const ADD_DISABLED: u8 = 1;

fn state_assert(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let state: u8 = Input::new(&input).get()?;
    if load::<u8>(obj, b"state")? != state {
        return errno(ENOENT);
    }
    Ok(().into())
}

fn state_set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    match Input::new(&input).get::<u8>()? {
        state @ READY => save(obj, b"state", &state)?,
        state @ ADD_DISABLED => {
            must_exist(obj)?;
            if !obj.omap_vals(NAMES, NAMES, 1)?.0.is_empty() {
                return errno(EBUSY);
            }
            save(obj, b"state", &state)?;
        }
        _ => return errno(EINVAL),
    }
    Ok(().into())
}
