//! The part of a log that goes into a message. In front of its entries stand duplicates, also of entries that are left out, so that its receiver
//! knows every request that we do.

use crate::pg::record::log::Log;
use types::{EVersion, PgLog, PgLogDup, PgLogEntry};

/// Everything: the answer to `FULLLOG`. `entries` are the log's, ascending.
pub fn whole<'a>(log: &Log, entries: impl IntoIterator<Item = &'a PgLogEntry>) -> PgLog {
    part(log, entries, log.tail(), log.all_dups())
}

/// Entries above `since`: what a member that ends there lacks. Everything, if the log doesn't reach back so far. `entries` are the log's, at
/// least those above `since`; duplicates are of the last `tracked` versions (`osd_pg_log_dups_tracked`).
pub fn after<'a>(log: &Log, entries: impl IntoIterator<Item = &'a PgLogEntry>, since: EVersion, tracked: u64) -> PgLog {
    let tail = log.last_up_to(since).unwrap_or(log.tail());
    part(log, entries, tail, log.dups_up_to(tail, tracked))
}

/// At most `max` entries, the newest: for a member to be backfilled, which needs them to know requests again.
pub fn newest<'a>(log: &Log, entries: impl IntoIterator<Item = &'a PgLogEntry>, max: usize, tracked: u64) -> PgLog {
    let tail = newest_tail(log, max);
    part(log, entries, tail, log.dups_up_to(tail, tracked))
}

/// The version above which that part begins.
pub fn newest_tail(log: &Log, max: usize) -> EVersion {
    log.nth_last(max).unwrap_or(log.tail())
}

fn part<'a>(log: &Log, entries: impl IntoIterator<Item = &'a PgLogEntry>, tail: EVersion, dups: Vec<PgLogDup>) -> PgLog {
    let entries: Vec<PgLogEntry> = entries.into_iter().filter(|e| e.version > tail).cloned().collect();
    assert!(entries.iter().map(|e| e.version).eq(log.versions_after(tail)), "every entry above {tail} goes into the part");
    let forward = log.can_rollback_to();
    PgLog { head: log.head(), tail, log: entries, can_rollback_to: forward, rollback_info_trimmed_to: forward, dups }
}
