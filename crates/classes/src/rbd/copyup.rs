//! Data that moves from a parent into a clone's object, and space that is given back.

use super::{must_exist, writes};
use crate::registry::Method;
use crate::view::{ClsReply, ClsResult, ObjectView};
use crate::wire::{Input, errno};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::errno::{EINVAL, ENOENT, EOPNOTSUPP, ERANGE};

pub const METHODS: &[Method] = &[
    writes("copyup", copyup),
    writes("sparse_copyup", sparse_copyup),
    writes("assert_snapc_seq", assert_snapc_seq),
    writes("sparsify", sparsify),
];

fn exists(obj: &mut dyn ObjectView) -> ClsResult<bool> {
    match must_exist(obj) {
        Ok(()) => Ok(true),
        Err(e) if e.is(ENOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

/// The first caller writes what the parent had; the others find the object there.
fn copyup(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    if !exists(obj)? {
        obj.write(0, input)?;
    }
    Ok(().into())
}

fn sparse_copyup(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (extents, data): (BTreeMap<u64, u64>, Bytes) = (input.get()?, input.get()?);
    if exists(obj)? {
        return Ok(().into());
    }
    if extents.is_empty() {
        obj.create(true)?;
    }
    let mut at = 0_usize;
    for (offset, length) in extents {
        let end = usize::try_from(length).ok().and_then(|n| at.checked_add(n)).filter(|end| *end <= data.len());
        let Some(end) = end else { return errno(EINVAL) };
        obj.write(offset, data.slice(at..end))?;
        at = end;
    }
    Ok(().into())
}

/// How [`assert_snapc_seq`] compares what is given with the newest snapshot that the object knows. Everything is above what an object that
/// is not there knows.
const ASSERT_GT: u8 = 0;
const ASSERT_LE: u8 = 1;

fn assert_snapc_seq(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (seq, state): (u64, u8) = (input.get()?, input.get()?);
    let is_above = match obj.snapset_seq() {
        Ok(has) => seq > has,
        Err(e) if e.is(ENOENT) => true,
        Err(e) => return Err(e),
    };
    match state {
        ASSERT_GT if is_above => Ok(().into()),
        ASSERT_LE if !is_above => Ok(().into()),
        ASSERT_GT | ASSERT_LE => errno(ERANGE),
        _ => errno(EOPNOTSUPP),
    }
}

/// Punches holes where whole units of `unit` bytes are zero; an object of nothing but zeros may go. ENOENT without an object.
fn sparsify(obj: &mut dyn ObjectView, input: Bytes) -> ClsResult<ClsReply> {
    let mut input = Input::new(&input);
    let (unit, remove_empty): (u64, bool) = (input.get()?, input.get()?);
    if unit == 0 {
        return errno(EINVAL);
    }
    let (size, _) = obj.stat()?;
    let data = if size == 0 { Bytes::new() } else { obj.read(0, size)? };
    let unit = usize::try_from(unit).unwrap_or(usize::MAX);
    let zero = |piece: &[u8]| piece.iter().all(|b| *b == 0);
    let used = data.chunks(unit).rposition(|piece| !zero(piece)).map_or(0, |i| ((i + 1) * unit).min(data.len()));
    if used == 0 && remove_empty {
        obj.remove()?;
        return Ok(().into());
    }
    // Units beside each other are one hole.
    let mut hole: Option<(usize, usize)> = None;
    for (i, piece) in data[..used].chunks(unit).enumerate().filter(|(_, piece)| zero(piece)) {
        let (at, end) = (i * unit, i * unit + piece.len());
        match &mut hole {
            Some((_, last)) if *last == at => *last = end,
            Some((from, to)) => {
                obj.zero(*from as u64, (*to - *from) as u64)?;
                hole = Some((at, end));
            }
            None => hole = Some((at, end)),
        }
    }
    if let Some((from, to)) = hole {
        obj.zero(from as u64, (to - from) as u64)?;
    }
    if used < data.len() {
        obj.truncate(used as u64)?;
    }
    Ok(().into())
}
