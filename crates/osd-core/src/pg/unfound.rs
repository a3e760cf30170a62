//! Objects that no member has: former members are asked for them, and an operator may ask which they are.
//!
//! Which former members there are is [`super::peering`]'s to say, what becomes of an object that one of them has, [`super::recovery`]'s.

use super::Pg;
use crate::peers;
use crate::shared::Cx;

impl Pg {
    /// If objects are not found, former members that have some of the group are asked what they lack.
    pub(super) fn ask_former(&mut self, cx: &mut Cx<'_>) {
        if !self.room.has_unfound() {
            return;
        }
        for member in self.peering.ask_former(&*cx.sh.map.clone()) {
            peers::query_log(self, member, None, cx);
        }
    }
    /// A member or a former one has told what it lacks: what was not found may be there.
    pub(super) fn look_for_unfound(&mut self, cx: &mut Cx<'_>) {
        if self.room.has_unfound() {
            self.recover(cx, |recovery, _| recovery.look_again());
        }
    }
}
