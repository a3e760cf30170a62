//! Is what came up one of the states that it may be?

use super::groups::Groups;
use super::life::{History, Step};
use super::seen::Seen;
use super::{Setting, Subject};
use crate::conformance::ModelObject;
use crate::{ObjectStore, OmapQuery, StoreError, StoreResult};
use base::Rng;
use disk::MemDisks;
use std::fmt::{Debug, Display, Formatter};
use std::rc::Rc;
use types::{CollId, GHObject};

/// What is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// The store said that it can't: right after a fault of the disks, wrong otherwise.
    Refused(String),
    /// It gave something else than what is there: never right.
    Different(String),
}

impl Wrong {
    /// The same, with more of the circumstances.
    pub fn at(self, what: impl Display) -> Self {
        match self {
            Wrong::Refused(why) => Wrong::Refused(format!("{what}: {why}")),
            Wrong::Different(why) => Wrong::Different(format!("{what}: {why}")),
        }
    }
}

impl Display for Wrong {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Wrong::Refused(why) => write!(f, "refused: {why}"),
            Wrong::Different(why) => write!(f, "different: {why}"),
        }
    }
}

/// Wrong if the two are not equal.
fn equal<T: PartialEq + Debug>(what: &str, have: &T, want: &T) -> Result<(), Wrong> {
    if have == want { Ok(()) } else { Err(Wrong::Different(format!("{what}: {have:?}, not {want:?}"))) }
}

/// Asks until nothing must be fetched any more.
fn ask<S: ObjectStore, T>(store: &mut S, drive: &mut dyn FnMut(&mut S), mut f: impl FnMut(&mut S) -> StoreResult<T>) -> Result<T, Wrong> {
    for _ in 0..10_000 {
        match f(store) {
            Err(StoreError::Wait(_)) => {
                store.turn_end();
                drive(store);
                store.take_ready(&mut Vec::new());
            }
            other => return other.map_err(|e| Wrong::Refused(e.to_string())),
        }
    }
    Err(Wrong::Refused("what is fetched never comes".to_string()))
}

/// Opens what is on these disks, in any way.
pub fn open<S: Subject>(disks: &MemDisks, rng: &mut Rng) -> Result<S::Store, Wrong> {
    open_as::<S>(disks, rng, None)
}
/// The same, as a life has it.
pub fn open_as<S: Subject>(disks: &MemDisks, rng: &mut Rng, life: Option<&Setting<S::Opening>>) -> Result<S::Store, Wrong> {
    disks.restart();
    S::open(Box::new(disks.clone()), rng, life).map_err(|e| Wrong::Refused(format!("it does not open: {e}")))
}

/// What all groups remember.
fn groups<S: ObjectStore>(store: &mut S, drive: &mut dyn FnMut(&mut S)) -> Result<Groups, Wrong> {
    let mut groups = Groups::default();
    for pg in ask(store, drive, |s| s.pgs())? {
        groups.0.extend(ask(store, drive, |s| s.load_pg(pg))?.map(|record| (pg, Rc::new(record))));
    }
    Ok(groups)
}

/// How many transactions a store has, by what its groups remember; that is exactly what they should.
pub fn find<S: ObjectStore>(store: &mut S, steps: &[Step], drive: &mut dyn FnMut(&mut S)) -> Result<usize, Wrong> {
    let have = groups(store, drive)?;
    let n = have.newest();
    let Some(wanted) = steps.get(n) else { return Err(Wrong::Different(format!("it has {n} transactions, more than there were"))) };
    // One that has a group forgotten leaves no number.
    for (later, step) in steps[n..].iter().enumerate().take_while(|(_, step)| step.groups.newest() == n) {
        if step.groups.0 == have.0 {
            return Ok(n + later);
        }
    }
    Err(difference("what groups remember", &format!("{:#?}", have.0), &format!("{:#?}", wanted.groups.0)))
}

/// Opens a state and holds it against the history; returns how many transactions it has. With `all`, objects that did not change lately are
/// looked at, too.
pub fn check<S: Subject>(disks: &MemDisks, history: &History, rng: &mut Rng, all: bool) -> Result<usize, Wrong> {
    let mut store = open::<S>(disks, rng)?;
    let n = find(&mut store, &history.steps, &mut S::poll)?;
    let allowed = history.allowed();
    if !allowed.contains(&n) {
        let why = format!("it has {n} transactions, {} were acknowledged, {} submitted", allowed.start(), allowed.end());
        return Err(Wrong::Different(why));
    }
    // What did not change lately was looked at in the states before: most times, the rest is enough.
    let lately = (!all && !rng.chance(1, 16)).then(|| &history.steps[n.saturating_sub(8)]);
    same_objects::<S>(&mut store, &history.steps[n], lately, Some(&history.seen), rng, true, &mut S::poll)
        .map_err(|e| e.at(format!("with {n} transactions ({allowed:?} allowed)")))?;
    Ok(n)
}

/// The store has what the model has, and passes fsck.
pub fn same<S: Subject>(
    store: &mut S::Store,
    step: &Step,
    rng: &mut Rng,
    fsck: bool,
    drive: &mut dyn FnMut(&mut S::Store),
) -> Result<(), Wrong> {
    let have = groups(store, drive)?;
    if have.0 != step.groups.0 {
        return Err(difference("what groups remember", &format!("{:#?}", have.0), &format!("{:#?}", step.groups.0)));
    }
    same_objects::<S>(store, step, None, None, rng, fsck, drive)
}

/// As [`same`], but for the groups; of objects that are what they were at `since`, only that they are there. `seen` is that of the history which has
/// the step.
fn same_objects<S: Subject>(
    store: &mut S::Store,
    step: &Step,
    since: Option<&Step>,
    seen: Option<&Seen>,
    rng: &mut Rng,
    fsck: bool,
    drive: &mut dyn FnMut(&mut S::Store),
) -> Result<(), Wrong> {
    let colls = ask(store, drive, |s| s.collections())?;
    equal("collections", &colls, &step.model.colls.keys().copied().collect())?;
    for (coll, wanted) in &step.model.colls {
        let at = |e: Wrong| e.at(coll);
        equal("bits", &ask(store, drive, |s| s.collection_bits(*coll))?, &Some(wanted.bits)).map_err(at)?;
        let (mut listed, mut from) = (Vec::new(), Some(GHObject::min()));
        while let Some(at) = from {
            let page = ask(store, drive, |s| s.list(*coll, &at, &GHObject::max(), 1000))?;
            listed.extend(page.objects);
            from = page.next;
        }
        equal("the list", &listed, &wanted.objects.keys().cloned().collect()).map_err(at)?;
        let before = since.and_then(|s| s.model.colls.get(coll));
        let is_old = |name: &GHObject, object: &_| before.and_then(|c| c.objects.get(name)).is_some_and(|o| Rc::ptr_eq(o, object));
        let to_see = || wanted.objects.iter().filter(|(name, object)| !is_old(name, object));
        // What must be read of a state is asked for together. (A live store's reads are a part of its life: those that once failed stay what they were.)
        for (name, _) in to_see().filter(|_| seen.is_some()) {
            let _ = store.read(*coll, name, 0, u64::MAX);
        }
        for (name, object) in to_see() {
            same_object(store, *coll, name, object, seen, rng, drive).map_err(|e| e.at(format!("{coll} {name}")))?;
        }
    }
    if fsck {
        let errors = S::fsck(store);
        if !errors.is_empty() {
            let what = format!("fsck: {}", errors.join("; "));
            // What is asked for is served, from what lies beside damage and from copies; that there is damage is told.
            return Err(if S::is_damaged(store) { Wrong::Refused(what) } else { Wrong::Different(what) });
        }
    }
    Ok(())
}

fn same_object<S: ObjectStore>(
    store: &mut S,
    coll: CollId,
    name: &GHObject,
    wanted: &ModelObject,
    seen: Option<&Seen>,
    rng: &mut Rng,
    drive: &mut dyn FnMut(&mut S),
) -> Result<(), Wrong> {
    let stat = ask(store, drive, |s| s.stat(coll, name))?;
    equal("size", &stat.size, &(wanted.data.len() as u64))?;
    equal("hint", &(stat.expected_object_size, stat.expected_write_size, stat.alloc_hint_flags), &wanted.hint)?;
    same_data(store, coll, name, wanted, (0, u64::MAX), seen, drive)?;
    // Ranges take other ways than whole objects.
    if !wanted.data.is_empty() && rng.chance(1, 4) {
        let range = (rng.below(wanted.data.len() as u64), 1 + rng.below(10_000));
        same_data(store, coll, name, wanted, range, seen, drive)?;
    }
    let attrs = ask(store, drive, |s| s.attrs(coll, name))?;
    if !attrs.iter().map(|(k, v)| (k, v)).eq(wanted.attrs.iter()) {
        return Err(Wrong::Different(format!("attributes are {:?}", attrs.iter().map(|a| &a.0).collect::<Vec<_>>())));
    }
    equal("the omap header", &ask(store, drive, |s| s.omap_header(coll, name))?, &wanted.header)?;
    let page = ask(store, drive, |s| s.omap_list(coll, name, &OmapQuery::default()))?;
    if !page.entries.iter().map(|(k, v)| (k, v)).eq(wanted.omap.iter()) {
        return Err(Wrong::Different(format!("omap keys are {:?}", page.entries.iter().map(|a| &a.0).collect::<Vec<_>>())));
    }
    Ok(())
}

fn same_data<S: ObjectStore>(
    store: &mut S,
    coll: CollId,
    name: &GHObject,
    wanted: &ModelObject,
    (offset, len): (u64, u64),
    seen: Option<&Seen>,
    drive: &mut dyn FnMut(&mut S),
) -> Result<(), Wrong> {
    let data = ask(store, drive, |s| s.read(coll, name, offset, len))?;
    let wanted = &wanted.data[offset as usize..wanted.data.len().min(offset.saturating_add(len) as usize)];
    equal("bytes read", &data.len(), &wanted.len())?;
    let mut at = 0;
    for piece in data.pieces() {
        let wanted_piece = &wanted[at..at + piece.len()];
        if !seen.map_or_else(|| piece[..] == *wanted_piece, |seen| seen.is_equal(piece, wanted_piece)) {
            let n = piece.iter().zip(&wanted[at..]).position(|(a, b)| a != b).expect("they differ");
            return Err(Wrong::Different(format!("byte {} is {}, not {}", offset as usize + at + n, piece[n], wanted[at + n])));
        }
        at += piece.len();
    }
    Ok(())
}

/// The first line in which two long texts differ.
fn difference(what: &str, have: &str, want: &str) -> Wrong {
    let pair = have.lines().zip(want.lines()).enumerate().find(|(_, (a, b))| a != b);
    Wrong::Different(match pair {
        Some((n, (a, b))) => format!("{what} differs in line {n}: {} instead of {}", a.trim(), b.trim()),
        None => format!("{what} has {} lines, not {}", have.lines().count(), want.lines().count()),
    })
}
