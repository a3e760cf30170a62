//! What a life's transactions are: by chance, or of one kind that reaches what chance seldom does.
//!
//! | kind | transactions | reaches |
//! |---|---|---|
//! | chance | any change of any object | most |
//! | steady | one block of a few objects, in place: every record is as long as any other | what a crash left behind the end of the log stands exactly where the next record is looked for |
//! | churn | blocks in place, then a whole chunk of 64 KiB, on a device with a few chunks to spare | a place that is given again while an old image is on its way to it |
//! | copies | a range of one object over the middle of a short other one, which must move to grow | a change that waits for bytes when a part of it is made |

use crate::conformance::{Model, Shape, Workload, object_coll, object_name};
use base::Rng;
use bytes::Bytes;
use types::{GHObject, Transaction};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Chance,
    Steady,
    Churn,
    Copies,
}

const BLOCK: u64 = 4096;
const CHUNK: u64 = 16 * BLOCK;
const STEADY_OBJECTS: u64 = 3;
const STEADY_BLOCKS: u64 = 4;
/// Objects of a chunk each. The setting leaves some chunks more than these.
pub const CHURN_OBJECTS: u64 = 6;

/// Transactions, and the model that they have been applied to.
#[derive(Debug, Clone)]
pub struct Work {
    kind: Kind,
    all: Workload,
}

fn fresh(rng: &mut Rng, len: u64) -> Bytes {
    let mut out = vec![0; len as usize];
    rng.fill(&mut out);
    match out.first() {
        // As they come from the socket into a device's memory: these are written from where they are.
        Some(byte) if byte % 2 == 0 => disk::AlignedBuf::padded(&out).freeze().slice(..out.len()),
        _ => out.into(),
    }
}

impl Work {
    /// The first transaction makes a collection.
    pub fn new(seed: u64, kind: Kind, shape: Shape) -> (Self, Transaction) {
        let (all, first) = Workload::new(seed, shape);
        (Self { kind, all }, first)
    }
    /// Goes on from a store that has this.
    pub fn resume(seed: u64, kind: Kind, shape: Shape, model: Model) -> Self {
        Self { kind, all: Workload::resume(seed, shape, model) }
    }
    pub fn model(&self) -> &Model {
        self.all.model()
    }
    pub fn rng(&mut self) -> &mut Rng {
        self.all.rng()
    }
    pub fn next_txn(&mut self) -> Transaction {
        let txn = match self.kind {
            Kind::Chance => return self.all.next_txn().1,
            Kind::Steady => self.steady(),
            Kind::Churn => self.churn(),
            Kind::Copies => self.copies(),
        };
        self.all.apply(&txn);
        txn
    }
    fn is_there(&self, name: &GHObject) -> bool {
        self.model().colls[&object_coll(0)].objects.contains_key(name)
    }
    /// A write to an object; all of it if it is not there.
    fn write(&mut self, name: &GHObject, whole: u64, at: u64, len: u64) -> Transaction {
        let (at, len) = if self.is_there(name) { (at, len) } else { (0, whole) };
        let mut txn = Transaction::new(object_coll(0));
        let data = fresh(self.rng(), len);
        txn.write(name, at, data, 0);
        txn
    }
    fn steady(&mut self) -> Transaction {
        let name = object_name(self.rng().below(STEADY_OBJECTS));
        let block = self.rng().below(STEADY_BLOCKS);
        self.write(&name, STEADY_BLOCKS * BLOCK, block * BLOCK, BLOCK)
    }
    fn churn(&mut self) -> Transaction {
        let name = object_name(self.rng().below(CHURN_OBJECTS));
        if self.rng().chance(1, 3) {
            return self.write(&name, CHUNK, 0, CHUNK);
        }
        let (block, blocks) = (self.rng().below(12), 1 + self.rng().below(4));
        self.write(&name, CHUNK, block * BLOCK, blocks * BLOCK)
    }
    fn copies(&mut self) -> Transaction {
        let (from, to) = (object_name(0), object_name(2 + 2 * self.rng().below(2)));
        if !self.is_there(&from) || self.rng().chance(1, 8) {
            return self.write(&from, 100_000, 0, 100_000);
        }
        let mut txn = Transaction::new(object_coll(0));
        if self.is_there(&to) && self.model().colls[&object_coll(0)].objects[&to].data.len() as u64 == 12 * BLOCK {
            let (src, dst) = (self.rng().below(5000), 28_000 + self.rng().below(2000));
            txn.clone_range(&from, &to, src, 40_000, dst);
            return txn;
        }
        // Twelve blocks: what goes beyond them has it moved.
        txn.remove(&to);
        let data = fresh(self.rng(), 12 * BLOCK);
        txn.write(&to, 0, data, 0);
        txn
    }
}
