//! When a heartbeat's connection that was cut is dialled again: before the next ping is due, as a process that is gone refuses.
//!
//! ```text
//!   heard ──cut──▶ dials at once ──cut──▶ waits 10, 20, ... 640 ms ──▶ dials ──cut──▶ waits ...
//!     ▲                                     │ the longest wait is over, in vain
//!     └──────── an answer ◀─── the pings' own pace dials from then on
//! ```
//! Once is not enough. A process that is killed closes one socket after the other: a dial at once may still meet the one that listens, and is cut
//! like the first. A peer that cuts each connection and yet lives is not dialled faster and faster.

use crate::event::HbNet;
use base::Stamp;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(640);

/// Of one peer, what was cut since it was heard last.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Cut {
    #[default]
    Heard,
    /// A dial is under way, after this wait.
    Dialled {
        waited: Duration,
    },
    Waits {
        since: Stamp,
        wait: Duration,
        net: HbNet,
    },
}

impl Cut {
    /// A connection of this network was cut, or did not come about. True: it is dialled now.
    pub fn was_cut(&mut self, net: HbNet, now: Stamp) -> bool {
        match *self {
            Self::Heard => {
                *self = Self::Dialled { waited: Duration::ZERO };
                return true;
            }
            Self::Dialled { waited } if waited < LONGEST => *self = Self::Waits { since: now, wait: (waited * 2).max(FIRST), net },
            Self::Dialled { .. } | Self::Waits { .. } => {}
        }
        false
    }
    pub fn heard(&mut self) {
        *self = Self::Heard;
    }
    pub fn due_at(&self) -> Option<Stamp> {
        match *self {
            Self::Waits { since, wait, .. } => Some(since + wait),
            Self::Heard | Self::Dialled { .. } => None,
        }
    }
    /// The network that is dialled now, once the wait is over.
    pub fn take_due(&mut self, now: Stamp) -> Option<HbNet> {
        let Self::Waits { since, wait, net } = *self else { return None };
        if since + wait > now {
            return None;
        }
        *self = Self::Dialled { waited: wait };
        Some(net)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_until_an_answer_comes() {
        let (mut cut, mut now, mut waits) = (Cut::default(), Stamp(0), Vec::new());
        assert!(cut.was_cut(HbNet::Back, now), "at once");
        loop {
            assert!(!cut.was_cut(HbNet::Front, now));
            assert!(!cut.was_cut(HbNet::Back, now), "the other network's cut neither dials nor puts the wait off");
            let Some(at) = cut.due_at() else { break };
            assert_eq!(cut.take_due(at - Duration::from_nanos(1)), None);
            assert_eq!((cut.take_due(at), cut.take_due(at)), (Some(HbNet::Front), None));
            waits.push(at.since(now).as_millis());
            now = at;
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640]);
        cut.heard();
        assert!(cut.was_cut(HbNet::Back, now), "anew");
    }
}
