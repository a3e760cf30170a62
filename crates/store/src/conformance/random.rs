//! Random transactions, each applied to the store and to the model.

use super::model::Model;
use super::{Subject, ask, wait_for};
use crate::{ObjectStore, ReadData};
use base::Rng;
use bytes::Bytes;
use std::collections::VecDeque;
use types::{ByteStr, CEPH_NOSNAP, CollId, GHObject, HObject, PgId, SpgId, Transaction};

const STEPS: u64 = 400;
const NAMES: u64 = 14;
/// Offsets are below this: several chunks of any store.
const OFFSET_MAX: u64 = 300_000;

pub fn coll(seed: u32) -> CollId {
    CollId::Pg(SpgId::whole(PgId::new(1, seed)))
}

/// One of a few names: heads and clones, two of which share a hash.
pub fn name(n: u64) -> GHObject {
    let head = n / 2;
    let snap = if n.is_multiple_of(2) { CEPH_NOSNAP } else { 4 };
    let hash = [0, 1, 2, 3, 0xdead_beef, 0xffff_ffff, 0xffff_ffff][head as usize % 7];
    GHObject::plain(HObject {
        oid: format!("object {head}").into(),
        pool: 1,
        hash,
        snap,
        nspace: ["", "ns"][head as usize % 2].into(),
        ..HObject::min()
    })
}

/// Lengths and offsets that like the edges of pages and chunks.
fn extent(rng: &mut Rng) -> (u64, u64) {
    let offset = match rng.below(4) {
        0 => rng.below(OFFSET_MAX / 4096) * 4096,
        1 => (rng.below(10) * 16384 + rng.below(3)).saturating_sub(1),
        2 => rng.below(5000),
        _ => rng.below(OFFSET_MAX),
    };
    let len = match rng.below(4) {
        0 => 4096,
        1 => rng.below(100),
        2 => 4096 * rng.below(20),
        _ => rng.below(70_000),
    };
    (offset.min(OFFSET_MAX), len)
}

fn bytes(rng: &mut Rng, len: u64) -> Bytes {
    let mut out = vec![0; len as usize];
    rng.fill(&mut out);
    out.into()
}

fn key(rng: &mut Rng) -> ByteStr {
    format!("{}{}", ["k", "j", "kk"][rng.below(3) as usize], rng.below(30)).into()
}

fn pairs(rng: &mut Rng) -> Vec<(ByteStr, Bytes)> {
    (0..1 + rng.below(8))
        .map(|_| {
            let len = rng.below(40);
            (key(rng), bytes(rng, len))
        })
        .collect()
}

/// Appends one change that is valid in `model`'s state, and applies it there.
fn grow(rng: &mut Rng, model: &mut Model, txn: &mut Transaction, home: CollId) {
    let object = name(rng.below(NAMES));
    let other = name(rng.below(NAMES));
    let there = model.colls[&home].objects.contains_key(&object);
    let before = txn.len();
    let (offset, len) = extent(rng);
    match rng.below(if there { 19 } else { 6 }) {
        0 => txn.touch(&object),
        1 | 2 => {
            let data = bytes(rng, len);
            txn.write(&object, offset, data, 0);
        }
        3 => txn.zero(&object, offset, len),
        4 => txn.set_alloc_hint(&object, rng.below(1 << 22), 4096, 3),
        5 => txn.remove(&object),
        6 => txn.truncate(&object, offset),
        7 => {
            let value = bytes(rng, len % 3000);
            txn.set_attr(&object, key(rng), value);
        }
        8 => {
            let attrs = pairs(rng);
            txn.set_attrs(&object, attrs);
        }
        9 => txn.rm_attr(&object, key(rng)),
        10 if rng.chance(1, 3) => txn.rm_attrs(&object),
        10 | 11 if object != other => txn.clone_object(&object, &other),
        12 if object != other => {
            let size = model.colls[&home].objects[&object].data.len() as u64;
            let src = rng.below(size + 1);
            txn.clone_range(&object, &other, src, rng.below(size - src + 1), offset);
        }
        13 => txn.omap_set_keys(&object, pairs(rng)),
        14 => txn.omap_rm_keys(&object, vec![key(rng), key(rng)]),
        15 => txn.omap_rm_key_range(&object, key(rng), key(rng)),
        16 => {
            let header = bytes(rng, len % 50);
            txn.omap_set_header(&object, header);
        }
        17 if rng.chance(1, 3) => txn.omap_clear(&object),
        18 if object != other => match rng.below(3) {
            0 => txn.try_rename(&object, &other),
            _ => {
                let to = *model.colls.keys().nth(rng.below(model.colls.len() as u64) as usize).expect("there are collections");
                txn.move_rename(home, &object, to, &other);
            }
        },
        _ => txn.write(&object, 0, Bytes::from_static(b"short"), 0),
    }
    assert_eq!(txn.len(), before + 1);
    model.apply_last(txn);
}

/// Splits the first collection in two, or merges the two again.
fn reshape(model: &Model) -> Transaction {
    let mut txn = Transaction::new(coll(0));
    if model.colls.contains_key(&coll(1)) {
        txn.merge_collection(coll(1), coll(0), 0);
    } else {
        txn.create_collection(coll(1), 1);
        txn.split_collection(coll(0), 1, 1, coll(1));
    }
    txn
}

pub fn run(subject: &mut dyn Subject, seed: u64) {
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut store = subject.fresh();
    let mut model = Model::default();
    let mut tokens = VecDeque::new();
    let mut held: VecDeque<(ReadData, Bytes)> = VecDeque::new();
    let mut first = Transaction::new(coll(0));
    first.create_collection(coll(0), 0);
    model.apply(&first);
    store.submit(first, None, 0).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    tokens.push_back(0);
    for step in 1..STEPS {
        let ids: Vec<_> = model.colls.keys().copied().collect();
        let home = ids[rng.below(ids.len() as u64) as usize];
        let txn = if rng.chance(1, 25) {
            let txn = reshape(&model);
            model.apply(&txn);
            txn
        } else {
            let mut txn = Transaction::new(home);
            for _ in 0..1 + rng.below(5) {
                grow(&mut rng, &mut model, &mut txn, home);
            }
            txn
        };
        let touched: Vec<_> = txn.objects().cloned().collect();
        store.submit(txn, None, step).unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
        tokens.push_back(step);
        if model.colls.contains_key(&home) {
            for object in touched {
                model.check_object(subject, &mut *store, home, &object);
                hold(&mut rng, subject, &mut *store, &model, home, &object, &mut held);
            }
        }
        if rng.chance(1, 40) {
            wait_for(subject, &mut *store, &mut tokens);
        }
        if rng.chance(1, 80) {
            model.check(subject, &mut *store);
        }
        if rng.chance(1, 150) {
            wait_for(subject, &mut *store, &mut tokens);
            store = subject.reopen(store);
            model.check(subject, &mut *store);
        }
    }
    wait_for(subject, &mut *store, &mut tokens);
    model.check(subject, &mut *store);
}

/// Reads a random range, checks it, and keeps what was read: later writes must not change it.
fn hold(
    rng: &mut Rng,
    subject: &mut dyn Subject,
    store: &mut dyn ObjectStore,
    model: &Model,
    home: CollId,
    object: &GHObject,
    held: &mut VecDeque<(ReadData, Bytes)>,
) {
    let Some(o) = model.colls[&home].objects.get(object) else { return };
    let (offset, len) = extent(rng);
    let read = ask(subject, store, |s| s.read(home, object, offset, len)).expect("a read");
    let size = o.data.len() as u64;
    let wanted = &o.data[offset.min(size) as usize..offset.saturating_add(len).min(size) as usize];
    assert!(read.flat() == *wanted, "{object}: {offset}~{len}");
    held.push_back((read, Bytes::copy_from_slice(wanted)));
    if held.len() > 20 {
        let (read, wanted) = held.pop_front().expect("there are some");
        assert!(read.flat() == wanted, "a read changed after it was given");
    }
}
