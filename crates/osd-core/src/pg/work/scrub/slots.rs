//! How many scrubs an OSD takes part in, as primary and as another member: `osd_max_scrubs`.

use std::cell::Cell;
use std::rc::Rc;

/// The slots of one OSD.
#[derive(Debug, Default)]
pub struct ScrubSlots {
    used: Cell<usize>,
}

/// One of them, while a group has it.
#[derive(Debug)]
pub struct ScrubSlot(Rc<ScrubSlots>);

impl ScrubSlots {
    pub fn take(slots: &Rc<Self>, max: usize) -> Option<ScrubSlot> {
        if slots.used.get() >= max {
            return None;
        }
        slots.used.set(slots.used.get() + 1);
        Some(ScrubSlot(slots.clone()))
    }
}

impl Drop for ScrubSlot {
    fn drop(&mut self) {
        self.0.used.set(self.0.used.get().checked_sub(1).expect("what was taken is given back"));
    }
}
