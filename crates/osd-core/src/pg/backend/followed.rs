//! What a member that follows knows of its primary's writes: which of them not every member may have.
//!
//! Holds versions and hashes; whether an object is served by it is [`crate::pg::requests::balanced`]'s to say.

use std::collections::VecDeque;
use types::{EVersion, HObject, PgLogEntry};

/// Writes of which it is remembered that they may be in flight. Source: ours. Where members are recovered, what all of them have stands still, and behind
/// so many writes nothing is served here until it goes on.
const IN_FLIGHT_MAX: usize = 1024;

/// What a member that follows knows of its primary's writes.
#[derive(Debug, Default)]
pub(in crate::pg) struct Followed {
    /// Every member has what is in the log up to here.
    settled: EVersion,
    /// Entries behind it: their objects by their hashes, which is enough to be careful.
    in_flight: VecDeque<(EVersion, u32)>,
    /// Entries up to here are forgotten.
    forgotten: EVersion,
}

impl Followed {
    /// The interval starts with a log that ends here. Once the group serves, every member has all of it.
    pub fn since(last: EVersion) -> Self {
        Self { settled: last, ..Self::default() }
    }
    /// An entry of the primary's.
    pub fn wrote(&mut self, entry: &PgLogEntry) {
        if entry.is_error() {
            return;
        }
        self.in_flight.push_back((entry.version, entry.soid.hash));
        if self.in_flight.len() > IN_FLIGHT_MAX {
            (self.forgotten, _) = self.in_flight.pop_front().expect("one too many");
        }
    }
    /// Every member has what is in the log up to here.
    pub fn settled(&mut self, version: EVersion) {
        self.settled = self.settled.max(version);
        while self.in_flight.pop_front_if(|(version, _)| *version <= self.settled).is_some() {}
    }
    /// False if a write of this object may not be on every member.
    pub fn is_settled(&self, obj: &HObject) -> bool {
        self.forgotten <= self.settled && !self.in_flight.iter().any(|(_, hash)| *hash == obj.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::LogOp;

    #[test]
    fn a_write_is_in_flight_until_every_member_has_it() {
        let at = |version| EVersion::new(3, version);
        let obj = |hash| HObject { hash, ..HObject::min() };
        let entry = |version, hash| PgLogEntry { op: LogOp::MODIFY, version: at(version), soid: obj(hash), ..PgLogEntry::default() };
        let mut followed = Followed::since(at(10));
        assert!(followed.is_settled(&obj(1)));
        followed.wrote(&entry(11, 1));
        followed.wrote(&entry(12, 2));
        followed.wrote(&entry(13, 1));
        followed.wrote(&PgLogEntry { op: LogOp::ERROR, ..entry(14, 3) });
        assert_eq!([1, 2, 3].map(|hash| followed.is_settled(&obj(hash))), [false, false, true]);
        followed.settled(at(12));
        assert_eq!([1, 2].map(|hash| followed.is_settled(&obj(hash))), [false, true]);
        // Older news change nothing.
        followed.settled(at(11));
        followed.settled(at(13));
        assert!(followed.is_settled(&obj(1)));
        // More than is remembered: nothing is known of any object until the forgotten ones are settled.
        (14..14 + IN_FLIGHT_MAX as u64 + 5).for_each(|version| followed.wrote(&entry(version, 1)));
        assert!(!followed.is_settled(&obj(9)) && followed.in_flight.len() == IN_FLIGHT_MAX);
        followed.settled(at(17));
        assert!(!followed.is_settled(&obj(9)));
        followed.settled(at(18));
        assert!(followed.is_settled(&obj(9)) && !followed.is_settled(&obj(1)));
    }
}
