//! Logs of several members of one placement group, compared and made one: values in, values out.
//!
//! ```text
//!   infos ──choose──▶ whose log counts ──ask──▶ PeerLog::check ──merge──▶ ours: log, missing, objects to remove
//!                                                    └────────member──▶ a replica: what it rewinds, what it misses, what to send it
//! ```
//!
//! | file | holds |
//! |---|---|
//! | [`choose`] | the authoritative log, by infos alone |
//! | [`merge`] | an authoritative log into ours; our log back to an older head |
//! | [`member`] | a replica as its primary sees it: asked, judged, brought up to date |
//! | [`part`] | the part of a log that goes into a message |
//! | [`missing`] | objects that a member has in its log and not in its store |
//!
//! Which of two logs counts, and what becomes of an object that was written in a history that does not count, is the back end's to say
//! ([`crate::pg::backend::layout`]). Absent: messages, the store, the states of peering.
//! Source of the facts: Ceph 18.2 `src/osd/{PGLog,PeeringState,osd_types}.{h,cc}`.

pub mod choose;
pub mod member;
pub mod merge;
pub mod missing;
pub mod part;
#[cfg(test)]
mod tests;

use crate::pg::record::log::Log;
use missing::Missing;
use thiserror::Error;
use types::{EVersion, PgLog, PgLogDup, PgLogEntry};

/// Why a log can't be used. Its sender is at fault, or its sender and we have no history in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LogError {
    #[error("a log's tail {tail} is above its head {head}")]
    Bounds { tail: EVersion, head: EVersion },
    #[error("entry {0} is not in the log's bounds, or not above the entry before it")]
    Order(EVersion),
    #[error("duplicate {0} is below the one before it")]
    DupOrder(EVersion),
    #[error("the log ends at {log}, its info at {info}")]
    Info { log: EVersion, info: EVersion },
    #[error("an object is missing at {need}, the log ends at {head}")]
    Missing { need: EVersion, head: EVersion },
    /// What came of a log begins with an entry that the log that counts doesn't have: the whole of it is to be asked for.
    #[error("a part of a log begins at {0}, which is not in ours")]
    Unanchored(EVersion),
    /// One log begins behind the other's end: only backfill helps.
    #[error("a log that begins at {tail} has nothing in common with one that ends at {head}")]
    Apart { tail: EVersion, head: EVersion },
}

/// A log, or the later part of one, as another member sent it. Its entries ascend and lie in (tail, head].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerLog {
    head: EVersion,
    tail: EVersion,
    forward: EVersion,
    entries: Vec<PgLogEntry>,
    dups: Vec<PgLogDup>,
}

impl PeerLog {
    pub fn check(log: PgLog) -> Result<Self, LogError> {
        let PgLog { head, tail, log: entries, dups, can_rollback_to: forward, .. } = log;
        if tail > head {
            return Err(LogError::Bounds { tail, head });
        }
        let mut last = tail;
        for e in &entries {
            if e.version <= last || e.version > head {
                return Err(LogError::Order(e.version));
            }
            last = e.version;
        }
        // One entry may leave several, one for each of its requests.
        if let Some(two) = dups.windows(2).find(|two| two[1].version < two[0].version) {
            return Err(LogError::DupOrder(two[1].version));
        }
        Ok(Self { head, tail, forward, entries, dups })
    }
    pub fn head(&self) -> EVersion {
        self.head
    }
    pub fn tail(&self) -> EVersion {
        self.tail
    }
    /// Its sender can't undo entries up to here in place.
    pub fn can_rollback_to(&self) -> EVersion {
        self.forward
    }
    /// Ascending.
    pub fn entries(&self) -> &[PgLogEntry] {
        &self.entries
    }
}

/// The version up to which our log and another's are the same history; entries above it, in either, are in that one alone. What was trimmed in
/// one of them is the same in both: nothing is trimmed that isn't everywhere.
pub fn common_point(ours: &Log, other: &PeerLog) -> Result<EVersion, LogError> {
    for (tail, head) in [(ours.tail(), other.head), (other.tail, ours.head())] {
        if tail > head {
            return Err(LogError::Apart { tail, head });
        }
    }
    let from = ours.tail().max(other.tail);
    let theirs = other.entries.iter().map(|e| e.version).skip_while(|v| *v <= from);
    let same = ours.versions_after(from).zip(theirs).take_while(|(a, b)| a == b);
    Ok(same.last().map_or(from, |(v, _)| v))
}

/// Everything up to this is in the store: the last entry before the oldest that is needed, zero if that is older than the log.
pub fn last_complete(log: &Log, missing: &Missing) -> EVersion {
    match missing.oldest_need() {
        None => log.head(),
        Some(need) => log.last_before(need).unwrap_or(EVersion::ZERO),
    }
}
