//! How far a request's calls have come: a call over a whole index is planned again and again, and goes on where it was.
//!
//! A request that waits holds its object's order, so the object does not change between two plans; if it does, the call begins anew. The request's
//! owner forgets everything when the interval ends. Holds no plan.

use classes::Kept;
use std::cell::RefCell;
use std::collections::BTreeMap;
use types::EVersion;

/// By the call's place in its vector, with the object's version.
#[derive(Default)]
pub struct Passes(RefCell<BTreeMap<u32, (EVersion, Kept)>>);

impl Passes {
    pub fn take(&self, call: u32, version: EVersion) -> Option<Kept> {
        self.0.borrow_mut().remove(&call).filter(|(of, _)| *of == version).map(|(_, kept)| kept)
    }
    pub fn keep(&self, call: u32, version: EVersion, kept: Kept) {
        self.0.borrow_mut().insert(call, (version, kept));
    }
    pub fn forget(&mut self) {
        self.0.get_mut().clear();
    }
}

impl std::fmt::Debug for Passes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} calls have begun", self.0.borrow().len())
    }
}
