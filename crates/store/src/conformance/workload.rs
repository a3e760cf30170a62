//! Random transactions, valid one after the other: the suite drives stores with them, and so do other tests that need a busy store.

use super::model::Model;
use base::Rng;
use bytes::Bytes;
use types::{ByteStr, CEPH_NOSNAP, CollId, GHObject, HObject, PgId, SpgId, Transaction};

/// What a workload's transactions are like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Objects, at most.
    pub names: u64,
    /// Offsets are at most this, in bytes.
    pub offset_max: u64,
    /// A transaction has at most so many changes.
    pub changes_max: u64,
}

/// Transactions by chance, and the model that they have been applied to.
#[derive(Debug, Clone)]
pub struct Workload {
    rng: Rng,
    model: Model,
    shape: Shape,
}

impl Workload {
    /// The first transaction makes the collection `coll(0)`.
    pub fn new(seed: u64, shape: Shape) -> (Self, Transaction) {
        let mut first = Transaction::new(coll(0));
        first.create_collection(coll(0), 0);
        let mut model = Model::default();
        model.apply(&first);
        (Self { rng: Rng::new(seed), model, shape }, first)
    }
    /// Goes on from a store that has this.
    pub fn resume(seed: u64, shape: Shape, model: Model) -> Self {
        Self { rng: Rng::new(seed), model, shape }
    }
    /// What a store has that has applied all transactions so far. Copies share what they have in common.
    pub fn model(&self) -> &Model {
        &self.model
    }
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
    /// The store has applied a transaction that was made elsewhere.
    pub fn apply(&mut self, txn: &Transaction) {
        self.model.apply(txn);
    }
    /// The next transaction, and its collection.
    pub fn next_txn(&mut self) -> (CollId, Transaction) {
        let ids: Vec<_> = self.model.colls.keys().copied().collect();
        let home = ids[self.rng.below(ids.len() as u64) as usize];
        if self.rng.chance(1, 25) {
            let txn = reshape(&self.model);
            self.model.apply(&txn);
            return (home, txn);
        }
        let mut txn = Transaction::new(home);
        for _ in 0..1 + self.rng.below(self.shape.changes_max) {
            grow(&mut self.rng, &mut self.model, &mut txn, home, &self.shape);
        }
        (home, txn)
    }
    /// A range that likes the edges of pages and chunks: offset and length.
    pub fn extent(&mut self) -> (u64, u64) {
        extent(&mut self.rng, self.shape.offset_max)
    }
}

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
fn extent(rng: &mut Rng, offset_max: u64) -> (u64, u64) {
    let offset = match rng.below(4) {
        0 => rng.below(offset_max / 4096) * 4096,
        1 => (rng.below(10) * 16384 + rng.below(3)).saturating_sub(1),
        2 => rng.below(5000),
        _ => rng.below(offset_max),
    };
    let len = match rng.below(4) {
        0 => 4096,
        1 => rng.below(100),
        2 => 4096 * rng.below(20),
        _ => rng.below(70_000),
    };
    (offset.min(offset_max), len)
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

/// One of the names whose hash is the collection's: a store may find an object's collection by its hash.
fn name_in(rng: &mut Rng, model: &Model, id: CollId, names: u64) -> GHObject {
    let seed = id.pg().map_or(0, |pg| pg.pgid.seed);
    let mask = (1 << model.colls[&id].bits) - 1;
    loop {
        let name = name(rng.below(names));
        if (name.hobj.hash ^ seed) & mask == 0 {
            return name;
        }
    }
}

/// Appends one change that is valid in `model`'s state, and applies it there.
fn grow(rng: &mut Rng, model: &mut Model, txn: &mut Transaction, home: CollId, shape: &Shape) {
    let object = name_in(rng, model, home, shape.names);
    let other = name_in(rng, model, home, shape.names);
    let there = model.colls[&home].objects.contains_key(&object);
    let before = txn.len();
    let (offset, len) = extent(rng, shape.offset_max);
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
                let other = name_in(rng, model, to, shape.names);
                if other == object { txn.touch(&object) } else { txn.move_rename(home, &object, to, &other) }
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
