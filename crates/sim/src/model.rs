//! What one object is to a client: the semantics of each operation, written down a second time and apart from the OSD's.
//!
//! Source of the facts: what stock 18.2 answers (`COMPATIBILITY.md`'s suites hold the OSD to the same).

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
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
    OmapClear,
    RemoveXattr(String),
    /// So many bytes from there on become zeros, as far as there are any.
    Zero(u64, u64),
    /// The bytes, so many times one after the other.
    WriteSame(u64, Bytes, u64),
    /// Writes the object whole if attribute `guard` has the first value, else ECANCELED (ENODATA without the attribute counts as empty).
    Guarded(Bytes, Bytes),
    /// Writes the object whole if the bytes from there on are these, with zeros behind the end; else the place of the first other one (CMPEXT).
    CompareAndWrite(u64, Bytes, Bytes),
    /// Class `hello`: a greeting, in an object that is not there yet.
    Greet(String),
    /// Class `hello`: the object's first bytes, which are all that stays of it, in capitals.
    Louder,
    /// The object becomes what it was at a snapshot.
    Rollback(u64),
    /// Data, attributes, omap, size and time of the last change at one moment.
    Read,
    /// The same at a snapshot.
    ReadAt(u64),
}

impl Op {
    /// Changes nothing, whatever comes of it.
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Read | Self::ReadAt(_))
    }
}

/// The snapshots that a write comes with: the newest ever, and those that there are, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snaps {
    pub seq: u64,
    pub live: Vec<u64>,
}

/// When a write was called, on the wall, in nanoseconds, and the snapshots that it comes with.
#[derive(Debug, Clone, Copy)]
pub struct With<'a> {
    pub mtime_ns: u64,
    pub snaps: &'a Snaps,
}

/// An object that exists.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    pub data: Vec<u8>,
    pub xattrs: BTreeMap<String, Bytes>,
    pub omap: BTreeMap<String, Bytes>,
    /// When its last change was called, on the wall, in nanoseconds.
    pub mtime_ns: u64,
    /// Keys were set since it was made or cleared, be they there or not. No client is told, so it is false in what is read.
    pub has_omap: bool,
}

/// What an object was when it was first changed after some snapshots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kept {
    /// The newest snapshot of the change.
    pub id: u64,
    /// The snapshots that it serves.
    pub snaps: Vec<u64>,
    pub object: Rc<Object>,
}

/// What an object is and what it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    /// `None`: it does not exist.
    pub head: Option<Rc<Object>>,
    /// The newest snapshot that a change came with.
    pub seq: u64,
    /// Oldest first.
    pub kept: Vec<Kept>,
}

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
/// Where bytes differ is told beyond the errnos.
pub const DIFFERS: i32 = 4095;
/// Bytes that [`Op::Louder`] reads.
const LOUD_MAX: usize = 1100;

/// The name of the attribute that [`Op::Guarded`] compares.
pub const GUARD: &str = "guard";
/// Attributes that tell which connection a class was called by.
pub const SIGNATURES: [&str; 2] = ["said_by", "amplified_by"];

type Head = Option<Rc<Object>>;

fn changed(head: &Head, change: impl FnOnce(&mut Object)) -> Option<Head> {
    let mut object = head.as_deref().cloned().unwrap_or_default();
    change(&mut object);
    Some(Some(Rc::new(object)))
}

/// An object as clients are told of it.
fn told(object: &Rc<Object>) -> Rc<Object> {
    match object.has_omap {
        true => Rc::new(Object { has_omap: false, ..(**object).clone() }),
        false => object.clone(),
    }
}

/// What an operation on the head answers, and the head after it; `None`: nothing changes.
fn on_head(op: &Op, head: &Head) -> (Outcome, Option<Head>) {
    let done = |head: Option<Head>| (Outcome::Done, head);
    let error = |errno: i32| (Outcome::Error(errno), None);
    match op {
        Op::WriteFull(data) => done(changed(head, |o| o.data = data.to_vec())),
        Op::Write(at, data) => done(changed(head, |o| {
            let end = *at as usize + data.len();
            if o.data.len() < end {
                o.data.resize(end, 0);
            }
            o.data[*at as usize..end].copy_from_slice(data);
        })),
        Op::Append(data) => done(changed(head, |o| o.data.extend_from_slice(data))),
        Op::WriteSame(at, data, times) => on_head(&Op::Write(*at, data.repeat(*times as usize).into()), head),
        // What ends at the end or behind it is cut off.
        Op::Zero(at, len) => match head.as_ref().map(|o| o.data.len() as u64) {
            Some(size) if *at < size => done(changed(head, |o| match at + len < size {
                true => o.data[*at as usize..(at + len) as usize].fill(0),
                false => o.data.truncate(*at as usize),
            })),
            _ => done(None),
        },
        // Truncating what is not there succeeds and makes nothing.
        Op::Truncate(size) if head.is_some() => done(changed(head, |o| o.data.resize(*size as usize, 0))),
        Op::Truncate(_) => done(None),
        Op::Delete if head.is_some() => done(Some(None)),
        Op::Delete => error(ENOENT),
        Op::CreateExclusive | Op::Greet(_) if head.is_some() => error(EEXIST),
        Op::CreateExclusive => done(changed(head, |_| ())),
        Op::Greet(name) => done(changed(head, |o| o.data = format!("Hello, {name}!").into_bytes())),
        // A class reads nothing of what is not there, and then writes.
        Op::Louder => done(changed(head, |o| {
            o.data.truncate(LOUD_MAX);
            o.data.make_ascii_uppercase();
        })),
        Op::SetXattr(name, value) => done(changed(head, |o| drop(o.xattrs.insert(name.clone(), value.clone())))),
        Op::OmapSet(key, value) => done(changed(head, |o| {
            o.omap.insert(key.clone(), value.clone());
            o.has_omap = true;
        })),
        Op::OmapRemove(key) if head.is_some() => done(changed(head, |o| drop(o.omap.remove(key)))),
        Op::OmapClear if head.as_ref().is_some_and(|o| o.has_omap) => done(changed(head, |o| {
            o.omap.clear();
            o.has_omap = false;
        })),
        // Nothing is changed, not even the time of the last change.
        Op::OmapClear if head.is_some() => done(None),
        Op::RemoveXattr(name) if head.is_some() => done(changed(head, |o| drop(o.xattrs.remove(name)))),
        Op::OmapRemove(_) | Op::OmapClear | Op::RemoveXattr(_) => error(ENOENT),
        Op::Guarded(expected, new) => match head.as_ref().and_then(|o| o.xattrs.get(GUARD)) {
            None if head.is_none() => error(ENOENT),
            found if found.map_or(&b""[..], |v| &v[..]) == &expected[..] => done(changed(head, |o| {
                o.xattrs.insert(GUARD.into(), new.clone());
                o.data = new.to_vec();
            })),
            _ => error(ECANCELED),
        },
        Op::CompareAndWrite(at, expected, new) => {
            let byte = |i: usize| head.as_ref().and_then(|o| o.data.get(*at as usize + i)).copied().unwrap_or(0);
            match (0..expected.len()).find(|i| expected[*i] != byte(*i)) {
                Some(differs) => error(DIFFERS + differs as i32),
                None => done(changed(head, |o| o.data = new.to_vec())),
            }
        }
        Op::Read => match head {
            Some(object) => (Outcome::Read(told(object)), None),
            None => error(ENOENT),
        },
        Op::Rollback(_) | Op::ReadAt(_) => unreachable!("they look at more than the head"),
    }
}

impl State {
    /// What there was at a snapshot.
    fn at(&self, snap: u64) -> Head {
        if snap > self.seq {
            return self.head.clone();
        }
        let kept = self.kept.iter().find(|kept| kept.id >= snap)?;
        kept.snaps.contains(&snap).then(|| kept.object.clone())
    }
    /// After a change, which keeps what snapshots need.
    fn after(&self, head: Head, with: With<'_>) -> Self {
        let (mut after, snaps) = (self.clone(), with.snaps);
        if let Some(object) = &self.head
            && snaps.live.first().is_some_and(|newest| *newest > self.seq)
        {
            let served = snaps.live.iter().copied().filter(|snap| *snap > self.seq).collect();
            after.kept.push(Kept { id: snaps.seq, snaps: served, object: object.clone() });
        }
        after.seq = after.seq.max(snaps.seq);
        after.head = head.map(|mut object| {
            Rc::make_mut(&mut object).mtime_ns = with.mtime_ns;
            object
        });
        // Nothing is left that could remember.
        if after.head.is_none() && after.kept.is_empty() { Self::default() } else { after }
    }
}

/// What `op` may answer in this state, and the state after it. `removed`: snapshots of which nothing is certain.
pub fn apply(op: &Op, with: With<'_>, state: &State, removed: &BTreeSet<u64>) -> Vec<(Outcome, State)> {
    let rolled_back = |head: Head| match head {
        // Nothing is what was wanted.
        None if state.head.is_none() => (Outcome::Done, state.clone()),
        head => (Outcome::Done, state.after(head, with)),
    };
    match op {
        Op::ReadAt(snap) => {
            let outcome = state.at(*snap).map_or(Outcome::Error(ENOENT), |object| Outcome::Read(told(&object)));
            vec![(outcome, state.clone())]
        }
        Op::Rollback(snap) if removed.contains(snap) => vec![rolled_back(state.at(*snap)), rolled_back(None)],
        Op::Rollback(snap) => vec![rolled_back(state.at(*snap))],
        // Where clones are kept, a record stays in the head's place, without attributes.
        Op::Guarded(expected, _) if state.head.is_none() && !state.kept.is_empty() => {
            assert!(!expected.is_empty(), "no attribute is equal to one of no bytes");
            [ENOENT, ECANCELED].map(|errno| (Outcome::Error(errno), state.clone())).into()
        }
        _ => match on_head(op, &state.head) {
            (outcome, None) => vec![(outcome, state.clone())],
            (outcome, Some(head)) => {
                let mut all = vec![(outcome.clone(), state.after(head.clone(), with))];
                // What was kept for removed snapshots may be gone, and with it the memory of the newest one.
                if state.head.is_none() && with.snaps.seq < state.seq {
                    all.push((outcome, State::default().after(head, with)));
                }
                all
            }
        },
    }
}
