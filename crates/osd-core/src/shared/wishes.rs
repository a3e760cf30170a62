//! Wishes of a shard and its groups: flags and answers for Control, objects of other groups, and when they are to be woken.
//!
//! A wish is set by a group in the midst of an event and taken by the OSD, which carries it on. Holds no group, and answers nothing.

use crate::fetch::Fetch;
use crate::joint::ToControl;
use base::Stamp;
use messages::RawMessage;

/// See the module.
#[derive(Default)]
pub(crate) struct Wishes {
    /// Some group's state changed: the manager hears of it before its period is over.
    pub report_soon: bool,
    /// Some group got quiet for a merge.
    pub merge_soon: bool,
    /// Something names a map that is not here.
    pub wants_maps: bool,
    /// The store had no room for a change.
    pub store_refused: bool,
    /// There was no group in the store when the first map came.
    pub found_no_group: bool,
    /// Objects that groups want of others.
    pub fetches: Vec<Fetch>,
    /// Answers to questions that we asked ourselves.
    pub own_answers: Vec<RawMessage>,
    /// When a lease is to be renewed, or ends, first. Asked for anew by [`crate::Event::Due`].
    pub lease_due: Option<Stamp>,
    /// A group's record can't be read, and its other members would wait for it.
    pub unusable: bool,
    /// The answer to what Control asked last.
    told: Option<ToControl>,
}

impl Wishes {
    /// What Control is to hear, one after the other.
    #[inline]
    pub fn next_for_control(&mut self) -> Option<ToControl> {
        // Asked for behind each message: no message is made that is not wanted.
        let is_set = std::mem::take::<bool>;
        if is_set(&mut self.wants_maps) {
            Some(ToControl::WantMaps)
        } else if is_set(&mut self.store_refused) {
            Some(ToControl::StoreRefused)
        } else if is_set(&mut self.report_soon) {
            Some(ToControl::ReportSoon)
        } else if is_set(&mut self.merge_soon) {
            Some(ToControl::MergeSoon)
        } else if is_set(&mut self.found_no_group) {
            Some(ToControl::FoundNoGroup)
        } else if is_set(&mut self.unusable) {
            Some(ToControl::Unusable)
        } else {
            self.told.take()
        }
    }
    /// Control is told what it asked.
    pub fn tell(&mut self, answer: ToControl) {
        let before = self.told.replace(answer);
        assert!(before.is_none(), "an answer is taken before the next question");
    }
    /// A lease, or recovery that sleeps, is to be looked at then.
    pub fn wake_at(&mut self, at: Stamp) {
        self.lease_due = Some(self.lease_due.map_or(at, |due| due.min(at)));
    }
}
