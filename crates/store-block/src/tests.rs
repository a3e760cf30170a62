//! The suite that all stores pass, on devices in memory.

use crate::{BlockStore, Config};
use disk::{MemDisks, Order};
use store::ObjectStore;
use store::conformance::{Subject, run};

/// Makes stores, and has the devices of the one that is open.
struct Block {
    disks: Option<MemDisks>,
    order: Order,
    lens: [u64; 3],
    memory: usize,
    seed: u64,
    /// Drives since the last checkpoint was asked for.
    drives: u64,
}

impl Block {
    fn make(&mut self, lens: [u64; 3]) -> Box<dyn ObjectStore> {
        let disks = MemDisks::new(&lens);
        BlockStore::mkfs(Box::new(disks.clone()), [7; 16]).expect("a store");
        self.disks = Some(disks);
        self.open()
    }
    fn open(&mut self) -> Box<dyn ObjectStore> {
        let disks = self.disks.clone().expect("there are devices");
        self.seed += 1;
        disks.set_order(self.order, self.seed);
        let config = Config { memory: self.memory, ..Config::default() };
        Box::new(BlockStore::open(config, Box::new(disks)).expect("it opens"))
    }
}

impl Subject for Block {
    fn fresh(&mut self) -> Box<dyn ObjectStore> {
        self.make(self.lens)
    }
    fn small(&mut self, bytes: u64) -> Option<Box<dyn ObjectStore>> {
        Some(self.make([bytes, 8 << 20, 4 << 20]))
    }
    fn reopen(&mut self, store: Box<dyn ObjectStore>) -> Box<dyn ObjectStore> {
        drop(store);
        self.disks.as_ref().expect("there are devices").restart();
        self.open()
    }
    fn drive(&mut self, store: &mut dyn ObjectStore) {
        self.drives += 1;
        store.turn_end();
    }
}

#[test]
fn conforms() {
    run(
        &mut Block { disks: None, order: Order::AtOnce, lens: [256 << 20, 64 << 20, 64 << 20], memory: 32 << 20, seed: 0, drives: 0 },
        0..4,
    );
}

#[test]
fn conforms_in_little_room_and_any_order() {
    run(
        &mut Block { disks: None, order: Order::Shuffled, lens: [64 << 20, 8 << 20, 16 << 20], memory: 256 << 10, seed: 0, drives: 0 },
        4..8,
    );
}
