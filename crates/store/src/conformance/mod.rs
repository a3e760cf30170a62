//! The suite that every store passes: directed cases, and random transactions from a seed compared with a naive model.
//!
//! A store's tests call [`run`]. Whatever is wrong panics, naming the seed and step. Everything runs twice: with hints by chance, and on the same kind of
//! store with its hints hidden ([`Plain`]).

mod directed;
mod hints;
mod log;
mod model;
mod plain;
mod random;
mod workload;

pub use model::{Model, ModelColl, ModelObject};
pub use plain::Plain;
pub use workload::{Shape, Workload, coll as object_coll, name as object_name};

use crate::{ObjectStore, StoreError, StoreResult};
use std::ops::Range;
use types::{CollId, GHObject};

/// A kind of store, to be made and driven.
pub trait Subject {
    /// A store without anything in it.
    fn fresh(&mut self) -> Box<dyn ObjectStore>;
    /// A fresh store that holds about so many bytes; `None` if this kind has no bound to test.
    fn small(&mut self, bytes: u64) -> Option<Box<dyn ObjectStore>>;
    /// Closes a store in order and opens it again.
    fn reopen(&mut self, store: Box<dyn ObjectStore>) -> Box<dyn ObjectStore>;
    /// Lets input and output that is under way get on.
    fn drive(&mut self, store: &mut dyn ObjectStore) {
        let _ = store;
    }
}

/// Runs everything, with hints and without; random cases once for each seed.
pub fn run(subject: &mut dyn Subject, seeds: Range<u64>) {
    run_once(subject, seeds.clone());
    run_once(&mut plain::Hiding(subject), seeds);
}

fn run_once(subject: &mut dyn Subject, seeds: Range<u64>) {
    directed::run(subject);
    log::run(subject);
    for seed in seeds {
        random::run(subject, seed);
    }
}

/// How often bytes may be waited for before the suite gives up.
const TRIES: usize = 100_000;

/// Asks until the store need not fetch any more.
fn ask<T>(subject: &mut dyn Subject, store: &mut dyn ObjectStore, mut f: impl FnMut(&dyn ObjectStore) -> StoreResult<T>) -> StoreResult<T> {
    for _ in 0..TRIES {
        match f(store) {
            Err(StoreError::Wait(_)) => {
                subject.drive(store);
                store.take_ready(&mut Vec::new());
            }
            done => return done,
        }
    }
    panic!("the store never fetches what it was asked for");
}

/// All objects of a collection, by pages of at most `max`: a store may end a page early where the objects' rows are large. Each page but the last has
/// objects, and says where the next begins.
pub fn list_all(subject: &mut dyn Subject, store: &mut dyn ObjectStore, coll: CollId, max: usize) -> StoreResult<Vec<GHObject>> {
    let (mut all, mut at) = (Vec::new(), GHObject::min());
    loop {
        let page = ask(subject, store, |s| s.list(coll, &at, &GHObject::max(), max))?;
        assert!(page.objects.len() <= max.max(1), "more objects than asked for");
        assert!(!page.objects.is_empty() || page.next.is_none(), "an empty page is the last");
        all.extend(page.objects);
        let Some(next) = page.next else { return Ok(all) };
        at = next;
    }
}

/// Waits until `token` is durable; everything submitted before must come before it, in order.
fn wait_for(subject: &mut dyn Subject, store: &mut dyn ObjectStore, expected: &mut std::collections::VecDeque<u64>) {
    let mut tokens = Vec::new();
    for _ in 0..TRIES {
        store.turn_end();
        store.take_commits(&mut tokens);
        for token in tokens.drain(..) {
            assert_eq!(Some(token), expected.pop_front(), "commits come in the order of submission");
        }
        if expected.is_empty() {
            return;
        }
        subject.drive(store);
    }
    panic!("{} transactions never become durable", expected.len());
}
