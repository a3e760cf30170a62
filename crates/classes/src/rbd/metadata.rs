//! What users note on an image: keys `metadata_NAME` in its header's omap.

use super::{KEYS_PER_READ, answer, each, reads, writes};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::Input;
use bytes::Bytes;
use denc::ByteStr;
use std::collections::BTreeMap;

pub const METHODS: &[Method] =
    &[reads("metadata_list", list), writes("metadata_set", set), writes("metadata_remove", remove), reads("metadata_get", get)];

const PREFIX: &[u8] = b"metadata_";

fn key(name: &ByteStr) -> Vec<u8> {
    [PREFIX, name.as_slice()].concat()
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let max = if max == 0 { KEYS_PER_READ } else { max };
    let mut found: BTreeMap<ByteStr, Bytes> = BTreeMap::new();
    each(obj, PREFIX, after.as_slice(), |name, value| {
        found.insert(name.into(), value);
        Ok((found.len() as u64) < max)
    })?;
    answer!(found)
}

fn set(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let data: BTreeMap<ByteStr, Bytes> = Input::new(&input).get()?;
    obj.omap_set(data.into_iter().map(|(name, value)| (key(&name).into(), value)).collect())?;
    Ok(().into())
}

fn remove(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let name: ByteStr = Input::new(&input).get()?;
    obj.omap_remove(vec![key(&name).into()])?;
    Ok(().into())
}

fn get(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let name: ByteStr = Input::new(&input).get()?;
    answer!(obj.omap_val(&key(&name))?)
}
