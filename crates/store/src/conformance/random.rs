//! Random transactions, each applied to the store and to the model, with hints among them.

use super::model::Model;
use super::workload::{Shape, Workload};
use super::{Subject, hints, wait_for};
use crate::{ObjectStore, ReadData};
use base::Rng;
use bytes::Bytes;
use std::collections::VecDeque;
use types::{CollId, GHObject};

const STEPS: u64 = 400;
/// Offsets reach over several chunks of any store.
const SHAPE: Shape = Shape { names: 14, offset_max: 300_000, changes_max: 5 };

pub fn run(subject: &mut dyn Subject, seed: u64) {
    println!("seed {seed}");
    let (mut work, first) = Workload::new(seed, SHAPE);
    let mut chance = Rng::new(seed ^ 0x417); // hints' own: the transactions are the same whatever hints there are
    let mut store = subject.fresh();
    let mut tokens = VecDeque::new();
    let mut held: VecDeque<(ReadData, Bytes)> = VecDeque::new();
    store.submit(first, None, 0).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    tokens.push_back(0);
    for step in 1..STEPS {
        let (home, txn) = work.next_txn();
        let touched: Vec<_> = txn.objects().cloned().collect();
        store.submit(txn, None, step).unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
        tokens.push_back(step);
        if chance.chance(1, 4) {
            hints::give(&mut chance, &mut *store, home);
        }
        if work.model().colls.contains_key(&home) {
            for object in touched {
                work.model().check_object(subject, &mut *store, home, &object);
                let range = work.extent();
                hold(range, subject, &mut *store, work.model(), home, &object, &mut held);
            }
        }
        if work.rng().chance(1, 40) {
            wait_for(subject, &mut *store, &mut tokens);
        }
        if work.rng().chance(1, 80) {
            work.model().check(subject, &mut *store);
        }
        if work.rng().chance(1, 150) {
            wait_for(subject, &mut *store, &mut tokens);
            store = subject.reopen(store);
            work.model().check(subject, &mut *store);
        }
    }
    wait_for(subject, &mut *store, &mut tokens);
    work.model().check(subject, &mut *store);
}

/// Reads a random range, checks it, and keeps what was read: later writes must not change it.
fn hold(
    (offset, len): (u64, u64),
    subject: &mut dyn Subject,
    store: &mut dyn ObjectStore,
    model: &Model,
    home: CollId,
    object: &GHObject,
    held: &mut VecDeque<(ReadData, Bytes)>,
) {
    let Some(o) = model.colls[&home].objects.get(object) else { return };
    let read = hints::read(subject, store, home, object, offset, len);
    let size = o.data.len() as u64;
    let wanted = &o.data[offset.min(size) as usize..offset.saturating_add(len).min(size) as usize];
    assert!(read.flat() == *wanted, "{object}: {offset}~{len}");
    held.push_back((read, Bytes::copy_from_slice(wanted)));
    if held.len() > 20 {
        let (read, wanted) = held.pop_front().expect("there are some");
        assert!(read.flat() == wanted, "a read changed after it was given");
    }
}
