//! Clients of a journal: their records, and how far each has taken its entries.

use super::records::{Client, Positions, STATE_DISCONNECTED};
use super::{ORDER, SPLAY_WIDTH, each, load, must_be_new, save, tags};
use crate::registry::Method;
use crate::rest::Rest;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, decode, done, errno, reply, stored};
use denc::{ByteStr, Bytes};
use types::errno::EINVAL;

pub const METHODS: &[Method] = &[
    Method::reads("get_client", get),
    Method::writes("client_register", register),
    Method::writes("client_update_data", update_data),
    Method::writes("client_update_state", update_state),
    Method::writes("client_unregister", unregister),
    Method::writes("client_commit", commit),
    Method::reads("client_list", list),
];

const PREFIX: &[u8] = b"client_";

fn key(id: &ByteStr) -> Vec<u8> {
    [PREFIX, id.as_slice()].concat()
}

pub fn find(obj: &mut dyn ObjectView, id: &ByteStr) -> ClsResult<Client> {
    load(obj, &key(id))
}

/// Every client with its key.
pub fn each_client(obj: &mut dyn ObjectView, mut visit: impl FnMut(&ByteStr, Client)) -> ClsResult<()> {
    each(obj, PREFIX, |key, value| {
        visit(key, stored(value)?);
        Ok(true)
    })
}

fn get(obj: &mut dyn ObjectView, id: Bytes) -> ClsResult<ClsReply> {
    reply(&find(obj, &decode(&id)?)?)
}

/// Where a new client starts: with the one that is furthest behind, or from the start if one has taken nothing yet.
fn furthest_behind(obj: &mut dyn ObjectView) -> ClsResult<Positions> {
    let mut least: Option<(u64, u64, Positions)> = None;
    let mut one_is_at_the_start = false;
    each_client(obj, |_, client| {
        if client.state == STATE_DISCONNECTED {
            return;
        }
        let Some(first) = client.committed.of_objects.first() else {
            one_is_at_the_start = true;
            return;
        };
        let place = (first.tag_tid, first.entry_tid);
        if least.as_ref().is_none_or(|(tag, entry, _)| place < (*tag, *entry)) {
            least = Some((place.0, place.1, client.committed));
        }
    })?;
    Ok(least.filter(|_| !one_is_at_the_start).map(|(_, _, positions)| positions).unwrap_or_default())
}

fn register(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, data): (ByteStr, Bytes) = (input.get()?, input.get()?);
    load::<u8>(obj, ORDER)?;
    let key = key(&id);
    must_be_new(obj, &key)?;
    let committed = furthest_behind(obj)?;
    save(obj, &key, &Client { id, data, committed, state: 0, rest: Rest::default() })?;
    done()
}

fn update_data(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, data): (ByteStr, Bytes) = (input.get()?, input.get()?);
    let client = find(obj, &id)?;
    save(obj, &key(&id), &Client { data, ..client })?;
    done()
}

fn update_state(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, state): (ByteStr, u8) = (input.get()?, input.get()?);
    let client = find(obj, &id)?;
    save(obj, &key(&id), &Client { state, ..client })?;
    done()
}

fn unregister(obj: &mut dyn ObjectView, id: Bytes) -> ClsResult<ClsReply> {
    let key = ByteStr::from(key(&decode(&id)?));
    obj.omap_val(key.as_slice())?;
    obj.omap_remove(vec![key.clone()])?;
    tags::expire(obj, Some(key.as_slice()))?;
    done()
}

fn commit(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (id, committed): (ByteStr, Positions) = (input.get()?, input.get()?);
    let width: u8 = load(obj, SPLAY_WIDTH)?;
    if committed.of_objects.len() > width.into() {
        return errno(EINVAL);
    }
    let client = find(obj, &id)?;
    if client.committed != committed {
        save(obj, &key(&id), &Client { committed, ..client })?;
    }
    done()
}

fn list(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (after, max): (ByteStr, u64) = (input.get()?, input.get()?);
    let after = if after.is_empty() { Vec::new() } else { key(&after) };
    let (page, _) = obj.omap_vals(&after, PREFIX, max)?;
    let clients: Vec<Client> = page.iter().map(|(_, value)| stored(value)).collect::<ClsResult<_>>()?;
    reply(&clients)
}
