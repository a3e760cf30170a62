//! Memory that the process can spare for an OSD: its owner tells each change, and the OSD follows. Absent: how much that is.

use crate::shell::Shell;
use base::Budget;
use osd_core::daemon::Event;
use std::rc::Rc;
use tokio::sync::watch;

/// Memory that one OSD may take, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spare {
    /// Caches of its store.
    pub caches: u64,
    /// Requests of clients that are under way; answers to them, and requests set aside, may be half of that each.
    pub requests: u64,
}

/// Keeps to it until the shell's end, or until nothing tells it any more.
pub(crate) async fn follow(mut spare: watch::Receiver<Spare>, shell: Rc<Shell>, budget: Rc<Budget>) {
    let mut before = Spare { caches: 0, requests: 0 };
    loop {
        let now = *spare.borrow_and_update();
        budget.set_ceiling(now.requests);
        shell.event(Event::SpareForCaches(now.caches));
        let before = std::mem::replace(&mut before, now);
        if now.caches < before.caches || now.requests < before.requests {
            // Free buffers of the store's devices are up to 28 MiB that no cache counts.
            disk::release_free_buffers();
        }
        if spare.changed().await.is_err() {
            return;
        }
    }
}
