//! A group of one or three copies over stores in memory or on devices, and requests to its primary: what an operation costs all OSDs
//! together.

use crate::cluster::{Cluster, POOL};
use crate::world::received;
use bytes::Bytes;
use disk::{MemDisks, Order};
use messages::{InOp, Message, RawMessage};
use store::ObjectStore;
use store_block::{BlockStore, Config};
use store_mem::MemStore;
use types::osd_op::OpCode;
use types::{OsdOp, PgId, features};

const BLOCK: u64 = 4096;
/// Objects that are used in turn.
const OBJECTS: u64 = 300;

/// Where copies lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Memory,
    Block,
}

impl Kept {
    fn store(self) -> Box<dyn ObjectStore> {
        if self == Self::Memory {
            return Box::new(MemStore::new(1 << 30));
        }
        let disks = MemDisks::new(&[256 << 20, 64 << 20, 64 << 20]);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        disks.set_order(Order::AtOnce, 1);
        Box::new(BlockStore::open(Config { memory: 64 << 20, ..Config::default() }, Box::new(disks)).expect("it opens"))
    }
}

/// See the module.
pub struct Copies {
    pub cluster: Cluster,
    primary: usize,
    next: u64,
}

impl Copies {
    /// Every object is there.
    pub fn new(copies: usize, kept: Kept) -> Self {
        let cluster = Cluster::over(1, copies, copies as u8, copies.div_ceil(2) as u8, 1, move || kept.store());
        let primary = cluster.primary(PgId::new(POOL, 0)) as usize;
        let mut made = Self { cluster, primary, next: 0 };
        (0..OBJECTS.div_ceil(50)).for_each(|_| made.run(OpCode::WRITE, 50, 1));
        made.cluster.synchronise();
        made
    }
    fn request(&mut self, code: OpCode) -> RawMessage {
        let name = format!("benchmark_data_host_4711_object{}", self.next % OBJECTS);
        self.next += 1;
        let data = if code == OpCode::WRITE { Bytes::from(vec![self.next as u8; BLOCK as usize]) } else { Bytes::new() };
        let m = self.cluster.request(&name, vec![InOp::new(OsdOp::range(code, 0, BLOCK), data)]);
        received(&m.encode(features::SUPPORTED))
    }
    /// So many times, so many requests at once. The requests are made before.
    pub fn batches(&mut self, code: OpCode, depth: usize, times: usize) -> Vec<Vec<RawMessage>> {
        (0..times).map(|_| (0..depth).map(|_| self.request(code)).collect()).collect()
    }
    pub fn go(&mut self, batches: Vec<Vec<RawMessage>>) {
        batches.into_iter().for_each(|batch| self.cluster.measured(self.primary, batch));
    }
    pub fn run(&mut self, code: OpCode, depth: usize, times: usize) {
        let batches = self.batches(code, depth, times);
        self.go(batches);
    }
}
