//! Tags of a journal: each stands for a writer's turn; entries carry the tag's number. A class of tags is one chain of turns.
//!
//! A tag that no client will ask for again is removed when a new one is made: it lies behind every client's position, and is not the
//! newest of its class there.

use super::clients::{each_client, find};
use super::records::{Position, STATE_DISCONNECTED, Tag};
use super::{NEXT_TAG_CLASS, NEXT_TAG_TID, each, load, must_be_new, save};
use crate::registry::Method;
use crate::rest::Rest;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, decode, done, errno, reply, stored};
use denc::{ByteStr, Bytes};
use std::collections::BTreeMap;
use types::errno::{EINVAL, ESTALE};

pub const METHODS: &[Method] = &[Method::reads("get_tag", get), Method::writes("tag_create", create), Method::reads("tag_list", list)];

const PREFIX: &[u8] = b"tag_";
/// A class of its own, please.
const CLASS_NEW: u64 = u64::MAX;

fn key(tid: u64) -> ByteStr {
    format!("tag_{tid:016x}").into()
}

/// Every tag; EINVAL if one stands under another's key.
fn each_tag(obj: &mut dyn ObjectView, mut visit: impl FnMut(Tag) -> bool) -> ClsResult<()> {
    each(obj, PREFIX, |at, value| {
        let tag: Tag = stored(value)?;
        if *at != key(tag.tid) { errno(EINVAL) } else { Ok(visit(tag)) }
    })
}

fn least(positions: &[Position]) -> Option<u64> {
    positions.iter().map(|p| p.tag_tid).min()
}

/// Per class, the newest tag up to the first that is not behind `tid`; and all tags gone through.
fn in_use(obj: &mut dyn ObjectView, tid: u64) -> ClsResult<(BTreeMap<u64, u64>, Vec<(u64, u64)>)> {
    let (mut newest, mut seen) = (BTreeMap::new(), Vec::new());
    each_tag(obj, |tag| {
        newest.insert(tag.class, tag.tid);
        seen.push((tag.class, tag.tid));
        tag.tid < tid
    })?;
    Ok((newest, seen))
}

/// Removes the tags that no client needs. The client under `leaving` does not count: its record can still be read in the call that removes it.
pub fn expire(obj: &mut dyn ObjectView, leaving: Option<&[u8]>) -> ClsResult<()> {
    let mut tid = None;
    let mut one_is_at_the_start = false;
    each_client(obj, |key, client| {
        if client.state == STATE_DISCONNECTED || leaving == Some(key.as_slice()) {
            return;
        }
        match least(&client.committed.of_objects) {
            None => one_is_at_the_start = true,
            Some(of_client) => tid = Some(tid.map_or(of_client, |tid: u64| tid.min(of_client))),
        }
    })?;
    let Some(tid) = tid.filter(|_| !one_is_at_the_start) else { return Ok(()) };
    let (newest, seen) = in_use(obj, tid)?;
    let gone: Vec<ByteStr> = seen.into_iter().filter(|(class, tid)| *tid < newest[class]).map(|(_, tid)| key(tid)).collect();
    if gone.is_empty() { Ok(()) } else { obj.omap_remove(gone) }
}

fn get(obj: &mut dyn ObjectView, tid: Bytes) -> ClsResult<ClsReply> {
    let tid = decode(&tid)?;
    reply(&load::<Tag>(obj, key(tid).as_slice())?)
}

fn create(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (tid, wanted, data): (u64, u64, Bytes) = (input.get()?, input.get()?, input.get()?);
    must_be_new(obj, key(tid).as_slice())?;
    if tid != load::<u64>(obj, NEXT_TAG_TID)? {
        return errno(ESTALE);
    }
    let next_class: u64 = load(obj, NEXT_TAG_CLASS)?;
    let class = if wanted == CLASS_NEW {
        save(obj, NEXT_TAG_CLASS, &next_class.wrapping_add(1))?;
        next_class
    } else if wanted < next_class {
        wanted
    } else {
        return errno(EINVAL);
    };
    expire(obj, None)?;
    save(obj, NEXT_TAG_TID, &tid.wrapping_add(1))?;
    save(obj, key(tid).as_slice(), &Tag { tid, class, data, rest: Rest::default() })?;
    done()
}

/// Tags that a client still needs.
fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (u64, u64) = (input.get()?, input.get()?);
    let (client, class): (ByteStr, Option<u64>) = (input.get()?, input.get()?);
    let needed = match least(&find(obj, &client)?.committed.of_objects) {
        None => BTreeMap::new(),
        Some(tid) => in_use(obj, tid)?.0,
    };
    let mut tags = Vec::new();
    each_tag(obj, |tag| {
        let behind = after != 0 && tag.tid <= after;
        if !behind && tag.tid >= needed.get(&tag.class).copied().unwrap_or(0) && class.is_none_or(|class| class == tag.class) {
            tags.push(tag);
        }
        (tags.len() as u64) < max
    })?;
    reply(&tags)
}
