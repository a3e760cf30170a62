//! What one object is to a client: the semantics of each operation, written down a second time and apart from the OSD's.
//!
//! Source of the facts: what stock 18.2 answers (`COMPATIBILITY.md`'s suites hold the OSD to the same).

use bytes::Bytes;
use std::collections::BTreeMap;
use std::rc::Rc;

/// An operation on one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    WriteFull(Bytes),
    Write(u64, Bytes),
    Append(Bytes),
    Truncate(u64),
    Delete,
    /// Fails with EEXIST where the object is there.
    CreateExclusive,
    SetXattr(String, Bytes),
    OmapSet(String, Bytes),
    OmapRemove(String),
    /// Writes the object whole if attribute `guard` has the first value, else ECANCELED (ENODATA without the attribute counts as empty).
    Guarded(Bytes, Bytes),
    /// Data, attributes and omap at one moment.
    Read,
}

/// An object that exists.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    pub data: Vec<u8>,
    pub xattrs: BTreeMap<String, Bytes>,
    pub omap: BTreeMap<String, Bytes>,
}

/// What an object is; `None`: it does not exist.
pub type State = Option<Rc<Object>>;

/// What an operation answered: an errno (positive) or success, with what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Read(Rc<Object>),
    Error(i32),
}

pub const ENOENT: i32 = 2;
pub const EEXIST: i32 = 17;
pub const ECANCELED: i32 = 125;

/// The name of the attribute that [`Op::Guarded`] compares.
pub const GUARD: &str = "guard";

fn changed(state: &State, change: impl FnOnce(&mut Object)) -> State {
    let mut object = state.as_deref().cloned().unwrap_or_default();
    change(&mut object);
    Some(Rc::new(object))
}

/// What `op` answers in this state, and the state after it.
pub fn apply(op: &Op, state: &State) -> (Outcome, State) {
    let done = |state: State| (Outcome::Done, state);
    let error = |errno: i32| (Outcome::Error(errno), state.clone());
    match op {
        Op::WriteFull(data) => done(changed(state, |o| o.data = data.to_vec())),
        Op::Write(at, data) => done(changed(state, |o| {
            let end = *at as usize + data.len();
            if o.data.len() < end {
                o.data.resize(end, 0);
            }
            o.data[*at as usize..end].copy_from_slice(data);
        })),
        Op::Append(data) => done(changed(state, |o| o.data.extend_from_slice(data))),
        // Truncating what is not there succeeds and makes nothing.
        Op::Truncate(size) if state.is_some() => done(changed(state, |o| o.data.resize(*size as usize, 0))),
        Op::Truncate(_) => done(None),
        Op::Delete if state.is_some() => done(None),
        Op::Delete => error(ENOENT),
        Op::CreateExclusive if state.is_some() => error(EEXIST),
        Op::CreateExclusive => done(changed(state, |_| ())),
        Op::SetXattr(name, value) => done(changed(state, |o| drop(o.xattrs.insert(name.clone(), value.clone())))),
        Op::OmapSet(key, value) => done(changed(state, |o| drop(o.omap.insert(key.clone(), value.clone())))),
        Op::OmapRemove(key) if state.is_some() => done(changed(state, |o| drop(o.omap.remove(key)))),
        Op::OmapRemove(_) => error(ENOENT),
        Op::Guarded(expected, new) => match state.as_ref().and_then(|o| o.xattrs.get(GUARD)) {
            None if state.is_none() => error(ENOENT),
            found if found.map_or(&b""[..], |v| &v[..]) == &expected[..] => done(changed(state, |o| {
                o.xattrs.insert(GUARD.into(), new.clone());
                o.data = new.to_vec();
            })),
            _ => error(ECANCELED),
        },
        Op::Read => match state {
            Some(object) => (Outcome::Read(object.clone()), state.clone()),
            None => error(ENOENT),
        },
    }
}
