//! The suite that all stores pass.

use crate::MemStore;
use store::ObjectStore;
use store::conformance::{Subject, run};

struct Memory;

impl Subject for Memory {
    fn fresh(&mut self) -> Box<dyn ObjectStore> {
        Box::new(MemStore::new(1 << 30))
    }
    fn small(&mut self, bytes: u64) -> Option<Box<dyn ObjectStore>> {
        Some(Box::new(MemStore::new(bytes)))
    }
    /// An OSD that starts again in the same process finds its store as it was.
    fn reopen(&mut self, store: Box<dyn ObjectStore>) -> Box<dyn ObjectStore> {
        store
    }
}

#[test]
fn conforms() {
    run(&mut Memory, 0..6);
}
